"""Rows are added to those of a table."""

import numpy as np

import ptokit as pto


@pto.kernel
def update(table, rows, tokens):
    ids = pto.Tile("vec", "int32", 1, 8)
    values = pto.Tile("vec", rows.dtype, 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row", atomic="add")


tokens = np.array([1, 2, 3, 3, 4, 5, 6, 7], "int32")
kind = "float32"  # -
# + kind = "int32"
update[1](np.zeros((64, 16), kind), np.ones((8, 16), kind), tokens, target="a5")
