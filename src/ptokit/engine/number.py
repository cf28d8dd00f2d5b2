"""Numbers as the bits of an element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.isa.dtype import DType

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
    wide = value.astype(np.float64)
    with np.errstate(all="ignore"):
        kept = (_to_odd(wide) if dtype.size < 4 else wide).astype(dtype.numpy)
    if np.isinf(kept) and not np.isinf(wide):
        raise ValueError(f"{what}: {value.item()!r} is not representable in {dtype}; it would become infinite")
    return np.asarray(kept).reshape(1).view(dtype.bits)


def _to_odd(wide: Array) -> Array:
    """float32, with the last bit set if it is inexact, so that a second rounding is exact."""
    narrow = np.atleast_1d(wide.astype(np.float32))
    lost = np.isfinite(narrow) & (narrow.astype(np.float64) != wide)
    beyond = lost & (np.abs(narrow.astype(np.float64)) > np.abs(wide))
    bits = narrow.view(np.uint32) - beyond.astype(np.uint32)
    return (bits | lost.astype(np.uint32)).view(np.float32)
