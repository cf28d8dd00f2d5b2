"""Rows are stored into a table; the last token is outside."""

import numpy as np

import ptokit as pto


@pto.kernel
def update(table, rows, tokens):
    """table[tokens[i]] = rows[i]"""
    ids, values = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.tload(values, rows)
    pto.mscatter(table, values, ids, coalesce="row", oob="clamp")  # -
    # + pto.mscatter(table, values, ids, coalesce="row", oob="skip")


table, rows = np.zeros((64, 16), "float32"), np.ones((8, 16), "float32")
update[1](table, rows, np.array([1, 2, 3, 63, 4, 5, 6, 70], "int32"), target="a5")
