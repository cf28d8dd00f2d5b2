"""Rows of a table by index; one index is negative."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    # + pto.tmaxs(ids, ids, 0)
    pto.mgather(rows, table, ids, oob="clamp")
    pto.tstore(out, rows)


table = np.arange(1024, dtype="float32").reshape(64, 16)
tokens = np.array([1, 2, 3, -1, 4, 5, 6, 7], "int32")
out = np.zeros((8, 16), "float32")
lookup[1](table, tokens, out, target="a5")
