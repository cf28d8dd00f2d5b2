"""Embedding lookup: rows of a table by token ids, with a padding id that gives zeros.

Every output row is one table row, so `mgather` in row mode is all it needs: one index moves one contiguous row. The
padding id lies outside the table and the policy is `oob="zero"`, so padding costs no comparison, no mask and no table
row that must be kept at zero. Each block takes an equal share of the tiles, for any grid: it starts at
`tiles * block // blocks`, and surplus blocks have an empty one. The last tile may be short: its valid region is
smaller. With `buffers=2` the ids of a tile load while the rows of the tile before are still being stored.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

PADDING = -1
"""The token id of padding; any id outside the table would do."""


@pto.kernel
def embedding_lookup(table, tokens, out, rows: pto.const = 32, oob: pto.const = "zero"):
    """`out[i] = table[tokens[i]]`, or zeros where the token lies outside the table."""
    count, width = out.shape
    cols = pto.cdiv(width, 16) * 16  # tile rows are whole 32-byte blocks
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * rows
        n = pto.min(rows, count - first)
        ids = pto.Tile("vec", tokens.dtype, 1, rows, valid=(1, n))
        vectors = pto.Tile("vec", table.dtype, rows, cols, valid=(n, width))
        pto.tload(ids, tokens[first : first + n])
        pto.mgather(vectors, table, ids, oob=oob)
        pto.tstore(out[first : first + n], vectors)


def reference(table: Array, tokens: Array, out: Array) -> Array:
    """The same in NumPy."""
    known = (tokens >= 0) & (tokens < len(table))
    return np.where(known[:, None], table[np.where(known, tokens, 0)], out.dtype.type(0))


def make_case(
    rng: np.random.Generator, *, count: int = 1000, vocabulary: int = 5000, width: int = 256, dtype: str = "float32"
) -> Case:
    """A batch of tokens, of which about one in ten is padding."""
    tokens = rng.integers(0, vocabulary, count, dtype="int32")
    return {
        "table": rng.standard_normal((vocabulary, width), dtype="float32").astype(dtype),
        "tokens": np.where(rng.random(count) < 0.1, np.int32(PADDING), tokens),
        "out": np.full((count, width), np.nan, dtype),
    }


def main() -> None:
    """Look up a batch in float32 and in float16."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16"):
        case = make_case(rng, dtype=dtype)
        run_everywhere(embedding_lookup, case, reference(**case), grid=24)


if __name__ == "__main__":
    main()
