"""Elements of a table by index, into L1."""

import numpy as np

import ptokit as pto


@pto.kernel
def collect(table, tokens, scratch):
    matrix = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")
    pto.mgather(matrix, table, tokens, scratch=scratch)


table = np.ones((64, 16), "float16")
tokens = np.arange(256, dtype="int32").reshape(16, 16)
scratch = np.zeros(255, "float16")  # -
# + scratch = np.zeros(256, "float16")
collect[1](table, tokens, scratch, target="a5")
