"""Rows of a table by index, in two steps through one tile."""

import numpy as np

import ptokit as pto


@pto.kernel(mode="manual")
def lookup(table, more, tokens, out):
    ids = pto.Tile("vec", "int32", 1, 8, addr=0x0)
    rows = pto.Tile("vec", "float32", 8, 16, addr=0x1000)
    pto.tload(ids, tokens)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.mgather(rows, table, ids)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out[0:8], rows)
    pto.mgather(rows, more, ids)
    pto.set_flag("V", "MTE3", 1)
    pto.wait_flag("V", "MTE3", 1)
    pto.tstore(out[8:16], rows)


table = np.arange(1024, dtype="float32").reshape(64, 16)
tokens = np.arange(8, dtype="int32") * 7
out = np.zeros((16, 16), "float32")
lookup[1](table, table + 1, tokens, out, target="a5")
