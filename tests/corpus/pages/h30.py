"""Rows of a table by index; table and tile are stored in fractals."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 16)
    rows = pto.Tile("vec", "float32", 16, 16, blayout="col_major", slayout="row_major")  # -
    # + rows = pto.Tile("vec", "float32", 16, 16)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


array, tokens = np.arange(512, dtype="float32"), np.arange(16, dtype="int32")
out = np.zeros(256, "float32")
table = pto.GlobalTensor(array.reshape(1, 2, 2, 16, 8), layout="nz")  # -
# + table = array.reshape(32, 16)
result = pto.GlobalTensor(out.reshape(1, 2, 1, 16, 8), layout="nz")  # -
# + result = out.reshape(16, 16)
lookup[1](table, tokens, result, target="a2a3")
