"""Numbers given at a call, held in an element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.engine.storage import Storage
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.operand import ScalarSpec
from ptokit.lang.cast import exact_cast
from ptokit.lang.tile import extent


class Scalar:
    """One number as an operand: a description, and one element of memory."""

    __slots__ = ("spec", "storage")

    def __init__(self, bits: np.ndarray[Any, np.dtype[Any]], spec: ScalarSpec) -> None:
        self.spec = spec
        self.storage = Storage(bits, spec.dtype)


def scalar(value: object, dtype: DType, what: str) -> Scalar:
    """A number in an element type: rounded once for floats, exact for integers."""
    if np.ndim(value) != 0:  # type: ignore[arg-type]
        raise TypeError(f"{what} takes one number, got {value!r}")
    bits = _rounded(value, dtype, what) if dtype.is_float else exact_cast(value, dtype, what)
    return Scalar(bits.reshape(1), ScalarSpec(dtype))


def corner(value: object, what: str) -> Scalar:
    """A number that steers addresses, and so belongs to the call's description."""
    number = extent(value, what, "CP-EXT-01")
    return Scalar(np.zeros(1, INT32.bits), ScalarSpec(INT32, number))


def _rounded(value: object, dtype: DType, what: str) -> np.ndarray[Any, np.dtype[Any]]:
    given = np.asarray(value)
    if given.dtype.hasobject or given.dtype.kind in "SUMmc":
        raise TypeError(f"{what} takes a real number, got {value!r}")
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        kept = (_to_odd(wide) if dtype.size < 4 else wide).astype(dtype.numpy)
    if np.isinf(kept) and not np.isinf(wide):
        raise ValueError(f"{what}: {value!r} is not representable in {dtype}; it would become infinite")
    return np.asarray(kept).reshape(1).view(dtype.bits)


def _to_odd(wide: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """float32, with the last bit set where something was lost, so that rounding once more is exact."""
    narrow = np.atleast_1d(wide.astype(np.float32))
    lost = np.isfinite(narrow) & (narrow.astype(np.float64) != wide)
    beyond = lost & (np.abs(narrow.astype(np.float64)) > np.abs(wide))
    bits = narrow.view(np.uint32) - beyond.astype(np.uint32)
    return (bits | lost.astype(np.uint32)).view(np.float32)
