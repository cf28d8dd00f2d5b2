"""Rows of a table by index; the table is stored in fractals."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 16)
    rows = pto.Tile("vec", "float32", 16, 8, blayout="col_major", slayout="row_major")  # -
    # + rows = pto.Tile("vec", "float32", 16, 16, blayout="col_major", slayout="row_major")
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


table = pto.GlobalTensor(np.ones((1, 2, 2, 16, 8), "float32"), layout="nz")
tokens = np.arange(16, dtype="int32")
out = pto.GlobalTensor(np.zeros((1, 1, 1, 16, 8), "float32"), layout="nz")  # -
# + out = pto.GlobalTensor(np.zeros((1, 2, 1, 16, 8), "float32"), layout="nz")
lookup[1](table, tokens, out, target="a2a3")
