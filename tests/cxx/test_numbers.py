"""Element types of the C++ headers: all bit patterns, and numbers that are rounded, as in ml_dtypes."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cxx.building import COMMON, COMPILER, compile_with, folder

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
TYPES: dict[str, Any] = {
    "float16": np.float16,
    **{name: getattr(ml_dtypes, name) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
                                                   "float4_e2m1fn", "int4")},
}  # fmt: skip
PATTERNS = {"float4_e2m1fn": 16, "int4": 16}


@lru_cache
def functions() -> ctypes.CDLL:
    made = folder() / "numbers.so"
    compile_with(*COMMON, "-O1", "-shared", Path(__file__).with_name("numbers.cpp"), "-o", made)
    return ctypes.CDLL(str(made))


def numbers(values: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Numbers of a type, those between them, and random ones; without those that ml_dtypes rounds otherwise: subnormal
    numbers of float32, and 0 where there is none, to powers of two."""
    rng = np.random.default_rng(5)
    finite = np.sort(values[np.isfinite(values)]).astype(np.float64)
    between = (finite[1:] + finite[:-1]) / 2
    wide = rng.standard_normal(2000) * 10.0 ** rng.integers(-30, 30, 2000)
    found = np.concatenate((values, finite, between, finite * 1.3, wide, [np.inf, -np.inf, 0.0, -0.0])).astype("f4")
    return found[(np.abs(found) > 2e-38) | ((found == 0) & (0 in values))]


@pytest.mark.parametrize("name", TYPES)
def test_bits_and_values_agree_with_ml_dtypes(name: str) -> None:
    kind = TYPES[name]
    bits = np.uint16 if np.dtype(kind).itemsize == 2 else np.uint8
    patterns = np.arange(PATTERNS.get(name) or np.iinfo(bits).max + 1).astype(bits).view(kind)
    with np.errstate(all="ignore"):
        shown = patterns.astype(np.float32)
        given = np.arange(-8, 8).astype(np.float32) if name == "int4" else numbers(shown)
        expected = given.astype(kind)
    values, nearest = np.zeros(len(patterns), np.float32), np.zeros(len(given), bits)
    arrays = (ctypes.c_void_p(array.ctypes.data) for array in (values, given, nearest))
    compute = getattr(functions(), name)
    compute(next(arrays), next(arrays), len(given), next(arrays))
    np.testing.assert_array_equal(values, shown)
    if len(patterns) == 16:
        nearest &= 15
        expected = (expected.view(np.uint8) & 15).view(kind)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(nearest.view(kind).astype(np.float32), expected.astype(np.float32))
