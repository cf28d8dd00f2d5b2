"""Rows are stored by DMA, and gathered again in the same kernel."""

import numpy as np

import ptokit as pto


@pto.kernel
def again(x, tokens, out, table):
    """The gather reads through a cache that the store does not update."""
    ids, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.tload(rows, x)
    pto.tstore(table, rows)
    pto.tload(ids, tokens)  # -
    pto.mgather(rows, table, ids)  # -
    # + pto.tload(rows, table)
    pto.tstore(out, rows)


x, table = np.ones((8, 16), "float32"), np.zeros((8, 16), "float32")
again[1](x, np.arange(8, dtype="int32"), np.zeros((8, 16), "float32"), table, target="a5")
