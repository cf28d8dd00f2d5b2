"""Rows of a table by index."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def lookup(table, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    rows = pto.Tile("vec", "float32", 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.mgather(rows, table, ids)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, rows)


table = np.arange(1024, dtype="float32").reshape(64, 16)
tokens = np.arange(8, dtype="int32") * 7
out = np.zeros((8, 16), "float32")
lookup[1](table, tokens, out, target="a5")
