"""A copy by way of UB."""

import numpy as np

import ptokit as pto


@pto.kernel
def copy(x, out):
    """A tile of 256 KB, or two steps of 128 KB."""
    tile = pto.Tile("vec", "float32", 256, 256)  # -
    pto.tload(tile, x)  # -
    pto.tstore(out, tile)  # -
    # + tile = pto.Tile("vec", "float32", 128, 256)
    # + for first in pto.range(0, 256, 128):
    # +     pto.tload(tile, x[first : first + 128])
    # +     pto.tstore(out[first : first + 128], tile)


copy[1](np.ones((256, 256), "float32"), np.zeros((256, 256), "float32"), target="a2a3")
