"""Every block stores its part of a result."""

import numpy as np

import ptokit as pto


@pto.kernel
def part(x, out):
    """Blocks run at the same time, in no order."""
    first = pto.block_idx() * 8
    rows = pto.Tile("vec", "float32", 8, 16)
    pto.tload(rows, x[first : first + 8])
    pto.tstore(out[0:8], rows)  # -
    # + pto.tstore(out[first : first + 8], rows)


x = np.ones((16, 16), "float32")
part[2](x, np.zeros_like(x), target="a5")
