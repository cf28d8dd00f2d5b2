"""Many rows of a table by index."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 2504, valid=(1, 2500))
    rows = pto.Tile("vec", "float32", 2500, 16)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids, oob="clamp")
    pto.tstore(out, rows)


table = np.arange(1024, dtype="float32").reshape(64, 16)
tokens = np.arange(2500, dtype="int32") % 64
out = np.zeros((2500, 16), "float32")
lookup[1](table, tokens, out, target="a5", dyn_ub=100 * 1024)  # -
# + lookup[1](table, tokens, out, target="a5", dyn_ub=40 * 1024)
