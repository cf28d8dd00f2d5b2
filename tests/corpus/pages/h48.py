"""Rows are scattered, and loaded again in the same kernel."""

import numpy as np

import ptokit as pto


@pto.kernel
def store(x, tokens, table):
    """Scalar and SIMT stores stay in a cache until the kernel ends."""
    ids, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.tload(rows, x)
    pto.mscatter(table, rows, ids, coalesce="row")
    pto.tload(rows, table)  # -
    pto.tstore(x, rows)  # -


x, table = np.ones((8, 16), "float32"), np.zeros((8, 16), "float32")
store[1](x, np.arange(8, dtype="int32"), table, target="a5")
