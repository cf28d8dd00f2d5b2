"""Rows of a table by index; the table is stored in fractals."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", "float32", 8, 8)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


array = np.arange(512, dtype="float32")
tokens = np.arange(8, dtype="int32") * 7
out = np.zeros((8, 8), "float32")
lookup[1](pto.GlobalTensor(array.reshape(1, 1, 4, 16, 8), layout="nz"), tokens, out, target="a5")  # -
# + lookup[1](array.reshape(64, 8), tokens, out, target="a5")
