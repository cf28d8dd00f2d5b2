"""A copy of narrow rows."""

import numpy as np

import ptokit as pto


@pto.kernel
def copy(x, out):
    """Rows of 48 bytes."""
    tile = pto.Tile("vec", "float32", 8, 12)  # -
    # + tile = pto.Tile("vec", "float32", 8, 16, valid=(8, 12))
    pto.tload(tile, x)
    pto.tstore(out, tile)


copy[1](np.ones((8, 12), "float32"), np.zeros((8, 12), "float32"), target="a5")
