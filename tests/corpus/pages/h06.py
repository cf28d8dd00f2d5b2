"""Elements of a table by index; the table is a part of a wider one."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 8, 16)
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids, coalesce="elem")
    pto.tstore(out, rows)


wide = np.arange(2048, dtype="float32").reshape(64, 32)
tokens = np.arange(128, dtype="int32").reshape(8, 16) * 7
out = np.zeros((8, 16), "float32")
lookup[1](wide[:, :16], tokens, out, target="a5")  # -
# + lookup[1](np.ascontiguousarray(wide[:, :16]), tokens, out, target="a5")
