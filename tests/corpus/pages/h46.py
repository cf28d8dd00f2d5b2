"""Rows are stored into a table, which is a part of a wider one."""

import numpy as np

import ptokit as pto


@pto.kernel
def update(table, rows, tokens):
    ids = pto.Tile("vec", "int32", 1, 8)
    values = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row")


table = np.zeros((64, 32), "float32")[:, :16]  # -
# + table = np.zeros((64, 16), "float32")
update[1](table, np.ones((8, 16), "float32"), np.arange(8, dtype="int32"), target="a5")
