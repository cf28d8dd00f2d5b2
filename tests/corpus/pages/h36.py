"""Rows of a table by index, of which only some columns are gathered."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    rows.valid = (8, 12)
    pto.mgather(rows, table, ids)
    rows.valid = (8, 16)  # -
    pto.tstore(out, rows)  # -
    # + pto.tstore(out[:, 0:12], rows)


table = np.arange(768, dtype="float32").reshape(64, 12)
tokens = np.arange(8, dtype="int32") * 7
out = np.zeros((8, 16), "float32")
lookup[1](table, tokens, out, target="a5")
