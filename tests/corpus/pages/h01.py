"""A copy by way of UB."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def copy(x, out):
    tile = pto.Tile("vec", "float32", 1, 8, addr=0x4)  # -
    # + tile = pto.Tile("vec", "float32", 1, 8, addr=0x20)
    pto.tload(tile, x)
    pto.set_flag("MTE2", "MTE3", 0)
    pto.wait_flag("MTE2", "MTE3", 0)
    pto.tstore(out, tile)


copy[1](np.ones(8, "float32"), np.zeros(8, "float32"), target="a2a3")
