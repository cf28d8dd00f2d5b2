"""Rows of two tables by index."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


tables = np.arange(1024, dtype="float32").reshape(2, 32, 16)
tokens = np.arange(8, dtype="int32")
out = np.zeros((8, 16), "float32")
lookup[1](tables, tokens, out, target="a5")  # -
# + lookup[1](tables.reshape(64, 16), tokens, out, target="a5")
