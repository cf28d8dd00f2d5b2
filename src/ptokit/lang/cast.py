"""Exact casts: a value that cannot be represented is an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.isa.dtype import DType
from ptokit.lang.arrays import as_array, is_foreign

Array = np.ndarray[Any, np.dtype[Any]]


def exact_cast(values: object, dtype: DType, what: str) -> Array:
    """`values` as bits of `dtype`; raises where a value cannot be represented."""
    array = _plain(values)
    if array.dtype == dtype.numpy:
        return np.ascontiguousarray(array).view(dtype.bits).reshape(array.shape)
    if dtype.family in ("raw", "other"):
        raise TypeError(f"{what} takes {dtype.numpy} elements, got {array.dtype}")
    if array.dtype.hasobject or array.dtype.kind in "SUMmc":
        raise TypeError(f"values must be real numbers of 64 bits or less, got an array of {array.dtype}")
    with np.errstate(all="ignore"):
        cast = _cast(array, dtype)
        lost = ~_same(array, cast)
    if lost.any():
        at = np.unravel_index(int(np.argmax(lost)), lost.shape) if lost.ndim else ()
        place = f" at {list(map(int, at))}" if at else ""
        raise ValueError(f"{array[at]!r}{place} is not representable in {dtype}; round or convert the values first")
    return cast.view(dtype.bits)


def _plain(values: object) -> Array:
    if is_foreign(values):
        return as_array(values)
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError("the rows of the values differ in length; pass a rectangular array") from None


def _cast(array: Array, dtype: DType) -> Array:
    if dtype.is_integer and not _is_integer(array):
        wide = array.astype(np.float64)
        return np.where(np.isfinite(wide) & (np.abs(wide) < 2.0**63), wide, 0).astype(np.int64).astype(dtype.numpy)
    return array.astype(dtype.numpy)


def _same(array: Array, cast: Array) -> Array:
    """Where the cast kept the value; a NaN stays a NaN."""
    if _is_integer(array) and _is_integer(cast):
        back = cast.astype(array.dtype) == array
        return back & ((cast < 0) == (array < 0))
    widest = np.longdouble if array.dtype.itemsize > 8 else np.float64
    wide, kept = array.astype(widest), cast.astype(widest)
    exact = (wide == kept) | (np.isnan(wide) & np.isnan(kept))
    if array.dtype.kind in "iu":  # a large integer may be equal only because float64 has rounded it
        limits = np.iinfo(array.dtype)
        inside = (kept >= float(limits.min)) & (kept < float(limits.max) + 1)
        exact &= inside & (np.where(inside, kept, 0).astype(array.dtype) == array)
    return exact


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iub"
