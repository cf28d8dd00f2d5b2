"""Gathered matmul: `table[ids] @ weights` in one kernel, without writing the gathered rows anywhere.

The cube core cannot read UB, so the rows go directly from memory into an NZ tile in L1, the layout of the cube: the
gather converts them, and its indices come from memory too. The weights are the same for every tile of rows, so a block
loads them once and keeps them in L1. The product iterates over the inner dimension in slices that fit L0: `textract`
copies a slice of both, `tmatmul` starts the sum and `tmatmul_acc` continues it. The result leaves the accumulator
directly. The `cpu` target has no L1 path and refuses the kernel.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

NZ = {"blayout": "col_major", "slayout": "row_major"}
"""The layout of a tile in L1 for the cube."""


@pto.kernel
def gathered_matmul(
    table, ids, weights, out, rows: pto.const = 64, depth: pto.const = 64, oob: pto.const = "undefined"
):
    """`out = table[ids] @ weights`, summed in float32."""
    count, width = out.shape
    inner = weights.shape[0]
    deep, wide = pto.cdiv(inner, depth) * depth, pto.cdiv(width, 16) * 16  # whole fractals of 16 x 32 bytes
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    begin, end = tiles * block // blocks, tiles * (block + 1) // blocks
    with pto.when(begin < end):  # a block without rows loads no weights
        right_matrix = pto.Tile("mat", weights.dtype, deep, wide, valid=(inner, width), **NZ)
        pto.tload(right_matrix, weights)
        for tile in pto.range(begin, end, buffers=2):
            first = tile * rows
            n = pto.min(rows, count - first)
            left_matrix = pto.Tile("mat", table.dtype, rows, deep, valid=(n, inner), **NZ)
            product = pto.Tile("acc", "float32", rows, wide, valid=(n, width))
            pto.mgather(left_matrix, table, ids[first : first + n], oob=oob)
            for k in pto.range(0, inner, depth, buffers=2):
                size = pto.min(depth, inner - k)
                left = pto.Tile("left", table.dtype, rows, depth, valid=(n, size))
                right = pto.Tile("right", weights.dtype, depth, wide, valid=(size, width))
                pto.textract(left, left_matrix, 0, k)
                pto.textract(right, right_matrix, k, 0)
                with pto.when(k == 0):
                    pto.tmatmul(product, left, right)
                with pto.otherwise():
                    pto.tmatmul_acc(product, product, left, right)
            pto.tstore(out[first : first + n], product)


def reference(table: Array, ids: Array, weights: Array, out: Array) -> Array:
    """The same in NumPy, in float64."""
    return table[ids].astype("float64") @ weights.astype("float64")


def tolerance(table: Array, ids: Array, weights: Array, out: Array) -> Array:
    """How far a float32 sum may be from it, in any order of the additions: k * 2^-23 * sum |a| |b|."""
    terms = np.abs(table[ids]).astype("float64") @ np.abs(weights).astype("float64")
    return len(weights) * 2.0**-23 * terms


def make_case(
    rng: np.random.Generator,
    *,
    count: int = 500,
    vocabulary: int = 1000,
    inner: int = 200,
    width: int = 96,
    dtype: str = "float16",
) -> Case:
    """A table of vectors, and weights for them."""
    return {
        "table": rng.standard_normal((vocabulary, inner), dtype="float32").astype(dtype),
        "ids": rng.integers(0, vocabulary, count, dtype="int32"),
        "weights": rng.standard_normal((inner, width), dtype="float32").astype(dtype),
        "out": np.full((count, width), np.nan, "float32"),
    }


def main() -> None:
    """Multiply in float16, the cube's own type, and in float32."""
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32"):
        case = make_case(rng, dtype=dtype)
        run_everywhere(gathered_matmul, case, reference(**case), grid=8, tolerance=tolerance(**case))


if __name__ == "__main__":
    main()
