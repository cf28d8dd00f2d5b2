"""Numbers as the bits of an element type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.isa.dtype import DType

MANTISSA = 53
"""Bits of a float64."""
Array = np.ndarray[Any, np.dtype[Any]]


def integer_bits(value: int, dtype: DType, what: str) -> Array:
    """A whole number as one element: rounded once for floats, exact for integers."""
    if dtype.is_float:
        return float_bits(np.asarray(value), dtype, what)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value <= limits.max:
        raise ValueError(f"{what}: {value} is not representable in {dtype}; it holds {limits.min} to {limits.max}")
    return np.array([value], dtype.numpy).view(dtype.bits)


def float_bits(value: Array, dtype: DType, what: str) -> Array:
    """A real number as one element, rounded once to the nearest; one that would become infinite is refused."""
    try:
        wide = value.astype(np.float64) if dtype.size >= 8 or value.dtype.kind not in "iuO" else _whole(int(value))
        with np.errstate(all="ignore"):
            kept = (_to_odd(wide) if dtype.size < 4 else wide).astype(dtype.numpy)
        is_beyond = np.isinf(kept) and not np.isinf(wide)
    except OverflowError:
        is_beyond, kept = True, value
    if is_beyond:
        raise ValueError(f"{what}: {brief(value.item())} is not representable in {dtype}; it would become infinite")
    return np.asarray(kept).reshape(1).view(dtype.bits)


def _whole(number: int) -> Array:
    """A whole number as float64, with the last bit set if it is inexact, so that a second rounding is exact."""
    size = abs(number)
    cut = max(0, size.bit_length() - MANTISSA)
    kept = size >> cut
    odd = math.ldexp(kept | (kept << cut != size), cut)
    return np.asarray(-odd if number < 0 else odd)


def _to_odd(wide: Array) -> Array:
    """float32, with the last bit set if it is inexact, so that a second rounding is exact."""
    narrow = np.atleast_1d(wide.astype(np.float32))
    lost = np.isfinite(narrow) & (narrow.astype(np.float64) != wide)
    beyond = lost & (np.abs(narrow.astype(np.float64)) > np.abs(wide))
    bits = narrow.view(np.uint32) - beyond.astype(np.uint32)
    return (bits | lost.astype(np.uint32)).view(np.float32)
