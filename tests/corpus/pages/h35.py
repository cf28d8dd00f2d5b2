"""A tile of L1 moves on to the cube core."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def left(a):
    """The load is on MTE2, the move on MTE1."""
    staged = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major", addr=0x0)
    operand = pto.Tile("left", "float16", 16, 16, addr=0x0)
    pto.tload(staged, a)
    pto.tmov(operand, staged)


left[1](np.ones((16, 16), "float16"), target="a5")
