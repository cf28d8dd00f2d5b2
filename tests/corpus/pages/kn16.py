"""What the vector core stores, the cube core loads."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def stage(x, work):
    """The two cores run at the same time."""
    rows = pto.Tile("vec", "float16", 16, 16, addr=0)
    staged = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major", addr=0)
    pto.tload(rows, x)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadd(rows, rows, rows)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(work, rows)
    pto.tload(staged, work)


x = np.ones((16, 16), "float16")
stage[1](x, np.zeros_like(x), target="a5")
