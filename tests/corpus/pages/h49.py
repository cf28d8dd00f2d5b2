"""The columns of a sum of two tiles are added up."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def sums(x, out):
    """The reduction reads rows in another order than the addition writes them."""
    tile, twice = pto.Tile("vec", "float32", 8, 64, addr=0), pto.Tile("vec", "float32", 8, 64, addr=0x1000)
    row = pto.Tile("vec", "float32", 1, 64, addr=0x2000)
    pto.tload(tile, x)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(twice, tile, tile)
    pto.tcolsum(row, twice)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, row)


sums[1](np.ones((8, 64), "float32"), np.zeros((1, 64), "float32"), target="a2a3")
