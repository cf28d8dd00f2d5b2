"""C++ kernels of one call each: their results are those of NumPy, and nothing in them is opaque."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = Path(__file__).parent / "sources" / "fused.cpp"
BOTH = ("a2a3", "a5")


def whole(seed: int, low: int, high: int, kind: str, *shape: int) -> np.ndarray[Any, np.dtype[Any]]:
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


C, A, B = (whole(seed, -8, 9, "float32", 4, 16) for seed in range(3))
P, Q = (whole(seed, -1000, 1000, "int32", 4, 16) for seed in (4, 5))


def run(name: str, target: str, *given: Any) -> None:
    kernel = pto.load(str(SOURCE), function=name)
    report = kernel[1](*given, target=target, engine="machine")
    assert report.ok and report.modelled, report.findings


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("added", lambda c, a, b: c + a * b),
        ("fused", lambda c, a, b: a * c + b),
        ("rectified", lambda c, a, b: np.maximum(a * c + b, 0)),
        ("subtracted", lambda _, a, b: np.maximum(a - b, 0)),
    ],
)
def test_three_tiles(name: str, expected: Callable[..., Any], target: str) -> None:
    out = C.copy()
    run(name, target, out, A, B)
    assert np.array_equal(out, expected(C, A, B))


@pytest.mark.parametrize("target", BOTH)
def test_sums_of_three(target: str) -> None:
    out = C.copy()
    run("three", target, out, A, B)
    assert np.array_equal(out, A + B + C - 0.5 + B)


def test_columns_in_turn() -> None:
    first, second = np.zeros_like(A), np.zeros_like(A)
    run("in_turn", "a5", first, second, A, B)
    whole = np.stack([A, B], axis=2).reshape(4, 32)
    assert np.array_equal(first, whole[:, :16]) and np.array_equal(second, whole[:, 16:])
    run("apart", "a5", first, second, A, B)
    for out, start in ((first, 0), (second, 1)):
        assert np.array_equal(out, np.hstack([A[:, start::2], B[:, start::2]]))


@pytest.mark.parametrize("target", BOTH)
def test_conversions(target: str) -> None:
    out = np.zeros((4, 16), "float16")
    run("converted", target, out, A * 3000, B * 7000)
    assert np.array_equal(out, np.clip(A * 3000 + B * 7000, 0, 65504).astype("float16"))
    run("scaled", target, out, P, Q)
    assert np.array_equal(out, np.maximum((P + Q) / 4, 0))


@pytest.mark.parametrize("target", BOTH)
def test_places_of_the_larger_value(target: str) -> None:
    out, place = np.zeros_like(A), np.zeros_like(P)
    run("best", target, out, place, A, B[:2].copy(), P, Q[:2].copy())
    second = np.zeros(A.shape, bool)
    second[:2] = B[:2] > A[:2]
    assert np.array_equal(out, np.where(second, B, A)) and np.array_equal(place, np.where(second, Q, P))


@pytest.mark.parametrize("target", BOTH)
def test_blocks_of_32_bytes(target: str) -> None:
    out, offsets = np.zeros_like(A), np.array([[0, 224], [32, 96], [64, 64], [4, 192]], "uint32")
    run("blocks", target, out, A, offsets)
    stored = A.ravel()
    assert np.array_equal(out.reshape(4, 2, 8), [[stored[o // 4 : o // 4 + 8] for o in row] for row in offsets])


def test_counts_of_a_byte() -> None:
    out, data, above = np.zeros((2, 256), "uint32"), whole(6, 0, 1024, "uint16", 2, 64), np.array([1, 3], "uint8")
    run("counted", "a5", out, data, above)
    for row, filtered, counts in zip(data, above, out, strict=True):
        kept = row[row >> 8 == filtered] & 255
        assert np.array_equal(counts, [(kept <= value).sum() for value in range(256)])
