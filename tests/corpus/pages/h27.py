"""The first rows of a table by index; their number is an argument."""

import numpy as np

import ptokit as pto


@pto.kernel
def lookup(table, tokens, out, n, m):
    ids = pto.Tile("vec", "int32", 1, 8, valid=(1, n))
    rows = pto.Tile("vec", "float32", 8, 16, valid=(m, 16))
    pto.tload(ids, tokens[0:n])
    pto.mgather(rows, table, ids)
    pto.tstore(out[0:m], rows)


table = np.arange(1024, dtype="float32").reshape(64, 16)
tokens = np.arange(8, dtype="int32") * 7
out = np.zeros((8, 16), "float32")
lookup[1](table, tokens, out, 7, 6, target="a5")  # -
# + lookup[1](table, tokens, out, 7, 7, target="a5")
