"""Kernels that scatter, on the default number of threads and on one; the default must not be slower."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from _measure import Call, Verdict, interleaved, median, ratio

import ptokit as pto

ROWS = 32
ROUNDS, TRIES = 21, 3
ASKED = 1.1
"""The largest ratio of the default to one thread; above 1 because of measurement noise."""
SHAPES = ((100, 64), (1_000, 64), (5_000, 32), (20_000, 8), (20_000, 256), (100_000, 64), (200_000, 32))
"""Number of scattered rows, and their float32 columns."""
SPREADS = ("uniform", "few rows", "sorted")


@pto.kernel
def scatter_rows(src, idx, out, atomic: pto.const):
    """The embedding gradient: `out[idx[i]] += src[i]`, a tile of rows for each block."""
    count, width = src.shape
    first = pto.block_idx() * ROWS
    n = pto.min(ROWS, count - first)
    rows = pto.Tile("vec", src.dtype, ROWS, pto.cdiv(width, 16) * 16, valid=(n, width))
    ids = pto.Tile("vec", idx.dtype, 1, ROWS, valid=(1, n))
    pto.tload(ids, idx[first : first + n])
    pto.tload(rows, src[first : first + n])
    pto.mscatter(out, rows, ids, coalesce="row", atomic=atomic)


@pto.kernel
def scatter_elements(src, idx, out, atomic: pto.const):
    """The same by elements, with an index for each."""
    count, width = src.shape
    first = pto.block_idx() * ROWS
    n = pto.min(ROWS, count - first)
    cells = pto.Tile("vec", src.dtype, ROWS, width, valid=(n, width))
    ids = pto.Tile("vec", idx.dtype, ROWS, width, valid=(n, width))
    pto.tload(ids, idx[first : first + n])
    pto.tload(cells, src[first : first + n])
    pto.mscatter(out, cells, ids, coalesce="elem", atomic=atomic)


@pto.kernel
def scatter_exponentials(src, idx, out, atomic: pto.const):
    """`out[idx[i]] += exp(src[i])`: work besides the scatter that threads can share."""
    first = pto.block_idx() * ROWS
    rows = pto.Tile("vec", src.dtype, ROWS, src.shape[1])
    ids = pto.Tile("vec", idx.dtype, 1, ROWS)
    pto.tload(ids, idx[first : first + ROWS])
    pto.tload(rows, src[first : first + ROWS])
    pto.texp(rows, rows)
    pto.mscatter(out, rows, ids, coalesce="row", atomic=atomic)


def indices(rng: np.random.Generator, count: Any, below: int, spread: str) -> Any:
    """Row indices with a distribution over the table."""
    if spread == "few rows":
        return rng.choice(rng.integers(0, below, 4, dtype="int32"), count)
    found = rng.integers(0, below, count, dtype="int32")
    return np.sort(found, axis=None).reshape(found.shape) if spread == "sorted" else found


def cases() -> Iterator[tuple[str, Any]]:
    """Names, and launches that take the number of threads."""
    rng = np.random.default_rng(0)

    def case(kernel: Any, count: int, width: int, atomic: str, spread: str) -> Any:
        src, below = rng.standard_normal((count, width), dtype="float32"), max(16, count)
        by_element = kernel is scatter_elements
        idx = indices(rng, src.shape if by_element else count, below * (width if by_element else 1), spread)
        out = np.zeros((1, below * width) if by_element else (below, width), "float32")
        return partial(kernel[-(-count // ROWS)], src, idx, out, atomic=atomic)

    for count, width in SHAPES:
        yield f"add {count:,} x {width} rows", case(scatter_rows, count, width, "add", "uniform")
    for spread in SPREADS[1:]:
        yield f"add 20,000 x 64 rows, {spread}", case(scatter_rows, 20_000, 64, "add", spread)
    for atomic in ("none", "max"):
        yield f"{atomic} 20,000 x 64 rows", case(scatter_rows, 20_000, 64, atomic, "uniform")
    for atomic in ("add", "none"):
        yield f"{atomic} 1,280,000 elements", case(scatter_elements, 20_000, 64, atomic, "uniform")
    yield "add exp of 32,000 x 64 rows", case(scatter_exponentials, 32_000, 64, "add", "uniform")


def measured() -> Iterator[tuple[Verdict, float, float]]:
    """The verdict of each case, with the milliseconds of both; a missed figure gets more rounds."""
    for name, launch in cases():
        calls: dict[str, Call] = {"default": launch, "one": partial(launch, threads=1)}
        interleaved(calls, 2)
        times = interleaved(calls, ROUNDS)
        for _ in range(TRIES - 1):
            if ratio(times["default"], times["one"]) > ASKED:
                times = {who: times[who] + more for who, more in interleaved(calls, ROUNDS).items()}
        found = ratio(times["default"], times["one"])
        verdict = Verdict(name, "x one thread", ASKED, found, at_most=True)
        yield verdict, 1e3 * median(times["default"]), 1e3 * median(times["one"])
