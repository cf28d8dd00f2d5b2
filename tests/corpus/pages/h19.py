"""Rows are stored into a table; the indices are a column."""

import numpy as np

import ptokit as pto


@pto.kernel
def update(table, rows, tokens):
    ids = pto.Tile("vec", "int32", 8, 1, blayout="col_major")  # -
    # + ids = pto.Tile("vec", "int32", 1, 8)
    values = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row")


table, rows = np.zeros((64, 16), "float32"), np.ones((8, 16), "float32")
tokens = np.arange(8, dtype="int32")
update[1](table, rows, pto.GlobalTensor(tokens.reshape(8, 1), layout="dn"), target="cpu")  # -
# + update[1](table, rows, tokens, target="cpu")
