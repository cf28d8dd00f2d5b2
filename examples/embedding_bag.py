"""Embedding bag: the weighted sum of the table rows that each bag of ids selects.

Every bag has `per` ids; shorter bags are filled up with an id outside the table, which `oob="zero"` turns into rows of
zeros. A tile holds several bags, one below the other, so one `mgather` fetches them all. The weights of a tile are
contiguous in memory and are loaded as a column, an N x 1 ColMajor tile, in one burst: `trowexpandmul` takes one number
per row in that form. Each bag is then a slice of whole rows, `vectors[start : start + per]`, a tile at a higher
address, and `tcolsum` adds its rows into one row of the result, again a slice. Sums run from the first row to the last
in float32 and are rounded once, on every engine.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

PADDING = -1
"""The id of padding in a bag; any id outside the table would do."""
PER = 6
"""Ids in a bag."""


@pto.kernel
def embedding_bag(table, ids, weights, out, per: pto.const = PER, bags: pto.const = 8, oob: pto.const = "zero"):
    """`out[b] = sum over k of weights[b * per + k] * table[ids[b * per + k]]`."""
    count, width = out.shape
    cols = pto.cdiv(width, 16) * 16  # tile rows are whole 32-byte blocks
    rows = bags * per
    tiles = pto.cdiv(count, bags)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * bags
        n = pto.min(bags, count - first)
        chosen = pto.Tile("vec", ids.dtype, 1, rows, valid=(1, n * per))
        weight = pto.Tile("vec", weights.dtype, rows, 1, valid=(n * per, 1), blayout="col_major")
        vectors = pto.Tile("vec", table.dtype, rows, cols, valid=(n * per, width))
        sums = pto.Tile("vec", out.dtype, bags, cols, valid=(n, width))
        pto.tload(chosen, ids[first * per : (first + n) * per])
        pto.tload(weight, weights[first * per : (first + n) * per])
        pto.mgather(vectors, table, chosen, oob=oob)
        pto.trowexpandmul(vectors, vectors, weight)
        for bag in pto.range(n):
            start = bag * per
            pto.tcolsum(sums[bag : bag + 1], vectors[start : start + per])
        pto.tstore(out[first : first + n], sums)


def reference(table: Array, ids: Array, weights: Array, out: Array) -> Array:
    """The same in NumPy, row after row."""
    known = (ids >= 0) & (ids < len(table))
    rows = np.where(known[:, None], table[np.where(known, ids, 0)], table.dtype.type(0)) * weights[:, None]
    bags = rows.reshape(len(out), -1, out.shape[1])
    total = bags[:, :1].sum(1)  # one row each: nothing is added yet
    for k in range(1, bags.shape[1]):
        total = total + bags[:, k]
    return total


def make_case(rng: np.random.Generator, *, count: int = 500, vocabulary: int = 5000, width: int = 96) -> Case:
    """Bags of ids, of which about one in ten is padding, and their weights."""
    ids = rng.integers(0, vocabulary, count * PER, dtype="int32")
    return {
        "table": rng.standard_normal((vocabulary, width), dtype="float32"),
        "ids": np.where(rng.random(count * PER) < 0.1, np.int32(PADDING), ids),
        "weights": rng.standard_normal(count * PER, dtype="float32"),
        "out": np.full((count, width), np.nan, "float32"),
    }


def main() -> None:
    """Sum a batch of bags."""
    case = make_case(np.random.default_rng(0))
    run_everywhere(embedding_bag, case, reference(**case), grid=24)


if __name__ == "__main__":
    main()
