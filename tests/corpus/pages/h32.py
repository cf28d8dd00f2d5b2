"""Elements of a table by index, into L1; all blocks have the same scratch."""

import numpy as np

import ptokit as pto


@pto.kernel
def collect(table, tokens, scratch):
    matrix = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")
    first = 0  # -
    # + first = pto.block_idx() * 256
    pto.mgather(matrix, table, tokens, scratch=scratch[first : first + 256])


table, scratch = np.ones((64, 16), "float16"), np.zeros(512, "float16")
tokens = np.arange(256, dtype="int32").reshape(16, 16)
collect[2](table, tokens, scratch, target="a5")
