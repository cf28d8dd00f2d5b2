"""Embedding gradient: rows of the output's gradient are added into the rows of the table's gradient.

A token that occurs five times in a batch adds five rows to one table row, and the occurrences may lie in different
blocks: this is what `mscatter` with `atomic="add"` is for. No sorting, no second pass, and the kernel reads each
incoming row once. Padding lies outside the table and is dropped by `oob="skip"`. Hardware adds floats in no fixed
order, so the last bits may differ between runs there; here every engine adds in the order of the tokens, and since each
block takes consecutive tiles, the sum has the same bits for every grid.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

PADDING = -1
"""The token id of padding, which has no gradient."""


@pto.kernel
def embedding_gradient(gradient, tokens, out, rows: pto.const = 32, oob: pto.const = "skip"):
    """`out[tokens[i]] += gradient[i]` for every token inside the table."""
    count, width = gradient.shape
    cols = pto.cdiv(width, 16) * 16  # tile rows are whole 32-byte blocks
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * rows
        n = pto.min(rows, count - first)
        ids = pto.Tile("vec", tokens.dtype, 1, rows, valid=(1, n))
        vectors = pto.Tile("vec", gradient.dtype, rows, cols, valid=(n, width))
        pto.tload(ids, tokens[first : first + n])
        pto.tload(vectors, gradient[first : first + n])
        pto.mscatter(out, vectors, ids, coalesce="row", atomic="add", oob=oob)


def reference(gradient: Array, tokens: Array, out: Array) -> Array:
    """The same in NumPy, in the order of the tokens."""
    known = (tokens >= 0) & (tokens < len(out))
    total = out.copy()
    np.add.at(total, tokens[known], gradient[known])
    return total


def make_case(
    rng: np.random.Generator, *, count: int = 1000, vocabulary: int = 400, width: int = 256, dtype: str = "float32"
) -> Case:
    """A batch with repeated tokens, and a gradient that is not zero."""
    tokens = rng.integers(0, vocabulary, count, dtype="int32")
    return {
        "gradient": rng.standard_normal((count, width), dtype="float32").astype(dtype),
        "tokens": np.where(rng.random(count) < 0.1, np.int32(PADDING), tokens),
        "out": rng.standard_normal((vocabulary, width), dtype="float32").astype(dtype),
    }


def main() -> None:
    """Accumulate a batch in float32 and in float16."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16"):
        case = make_case(rng, dtype=dtype)
        run_everywhere(embedding_gradient, case, reference(**case), grid=24)


if __name__ == "__main__":
    main()
