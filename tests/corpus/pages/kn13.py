"""Rows are doubled tile by tile, through one tile."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def double(x, out):
    """The next load may start while the store still reads the tile."""
    tile = pto.Tile("vec", "float32", 8, 16, addr=0)
    for i in pto.range(4):
        pto.tload(tile, x[i * 8 : i * 8 + 8])
        pto.set_flag("MTE2", "V", 0)
        pto.wait_flag("MTE2", "V", 0)
        pto.tadd(tile, tile, tile)
        pto.set_flag("V", "MTE3", 0)
        pto.wait_flag("V", "MTE3", 0)
        pto.tstore(out[i * 8 : i * 8 + 8], tile)


x = np.ones((32, 16), "float32")
double[1](x, np.zeros_like(x), target="a5")
