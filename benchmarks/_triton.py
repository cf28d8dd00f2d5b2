"""A gather of rows in Triton, for comparison."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_rows(table, indices, out, width: tl.constexpr, rows: tl.constexpr):
    """Some rows of `out`, each of which is one row of `table`."""
    lane = tl.program_id(0).to(tl.int64) * rows + tl.arange(0, rows)
    row = tl.load(indices + lane).to(tl.int64)
    col = tl.arange(0, width)
    tl.store(out + lane[:, None] * width + col[None, :], tl.load(table + row[:, None] * width + col[None, :]))
