"""Rows of a table of 8-bit floats by index."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", table.dtype, 8, 32)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.tstore(out, rows)


kind = "float8_e4m3"  # -
# + kind = "uint8"
table = pto.GlobalTensor(np.zeros((64, 32), "uint8"), dtype=kind)
out = pto.GlobalTensor(np.zeros((8, 32), "uint8"), dtype=kind)
tokens = np.arange(8, dtype="int32") * 7
lookup[1](table, tokens, out, target="a2a3")
