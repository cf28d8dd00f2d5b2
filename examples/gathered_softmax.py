"""Softmax over gathered logits: the probabilities of each request's candidates.

Load, gather, reduce, expand and store are one kernel, so neither the gathered logits nor the exponentials ever go
to memory: a tile of requests is read once and written once. The gather is by element, since candidates lie anywhere in
the catalogue. A request with fewer candidates is padded with ids past the catalogue's end: `oob="clamp"` maps those
to the last entry, which is minus infinity, and its exponential is exactly zero. (`oob="zero"` would not do: a logit
of zero is a candidate like any other.) The row's maximum is subtracted first, as always, so that no exponential
overflows.
"""

from __future__ import annotations

import numpy as np
from _run import Array, Case, run_everywhere

import ptokit as pto

PADDING = 2**31 - 1
"""Pads a row of candidates: an id past the end of every catalogue."""


@pto.kernel
def gathered_softmax(logits, candidates, out, rows: pto.const = 16, oob: pto.const = "clamp"):
    """`out[r] = softmax(logits[candidates[r]])` for every row `r`."""
    count, width = out.shape
    cols = pto.cdiv(width, 16) * 16  # tile rows are whole 32-byte blocks
    tiles = pto.cdiv(count, rows)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks, buffers=2):
        first = tile * rows
        n = pto.min(rows, count - first)
        ids = pto.Tile("vec", candidates.dtype, rows, cols, valid=(n, width))
        scores = pto.Tile("vec", logits.dtype, rows, cols, valid=(n, width))
        highest = pto.Tile("vec", logits.dtype, rows, 1, valid=(n, 1), blayout="col_major")
        total = pto.Tile("vec", logits.dtype, rows, 1, valid=(n, 1), blayout="col_major")
        pto.tload(ids, candidates[first : first + n])
        pto.mgather(scores, logits, ids, coalesce="elem", oob=oob)
        pto.trowmax(highest, scores)
        pto.trowexpandsub(scores, scores, highest)
        pto.texp(scores, scores)
        pto.trowsum(total, scores)
        pto.trowexpanddiv(scores, scores, total)
        pto.tstore(out[first : first + n], scores)


def reference(logits: Array, candidates: Array, out: Array) -> Array:
    """The same in NumPy, in float64."""
    scores = logits[np.minimum(candidates, len(logits) - 1)]
    powers = np.exp((scores - scores.max(axis=1, keepdims=True, initial=-np.inf)).astype("float64"))
    return powers / powers.sum(axis=1, keepdims=True)


def tolerance(logits: Array, candidates: Array, out: Array) -> Array:
    """How far a result may be from it.

    A power is within 2.5 steps of 2^-23 (2 ulp of the rounded one), above the line and below it; a float32 sum of n
    numbers adds n - 1 half steps, and the division one.
    """
    steps = 2 * 2.5 + candidates.shape[1] / 2
    return steps * 2.0**-23 * reference(logits, candidates, out) + 2.0**-148


def make_case(rng: np.random.Generator, *, count: int = 200, catalogue: int = 10_000, width: int = 100) -> Case:
    """Requests of different lengths, and a catalogue that ends in minus infinity."""
    logits = np.append(4 * rng.standard_normal(catalogue, dtype="float32"), np.float32(-np.inf))
    candidates = rng.integers(0, catalogue, (count, width), dtype="int32")
    lengths = rng.integers(1, width + 1, (count, 1))
    return {
        "logits": logits,
        "candidates": np.where(np.arange(width) < lengths, candidates, np.int32(PADDING)),
        "out": np.full((count, width), np.nan, "float32"),
    }


def main() -> None:
    """The probabilities of every request's candidates."""
    case = make_case(np.random.default_rng(0))
    run_everywhere(gathered_softmax, case, reference(**case), grid=13, tolerance=tolerance(**case))


if __name__ == "__main__":
    main()
