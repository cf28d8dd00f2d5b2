"""Rows are added to those of a table."""

import numpy as np

import ptokit as pto


@pto.kernel
def update(table, rows, tokens):
    """table[tokens[i]] = rows[i]"""
    ids, values = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row")  # -
    # + pto.mscatter(table, values, ids, coalesce="row", atomic="add")


table, rows = np.zeros((64, 16), "float32"), np.ones((8, 16), "float32")
update[1](table, rows, np.array([1, 2, 3, 3, 4, 5, 6, 7], "int32"), target="a5")
