"""Numbers passed to a call, in an element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.engine.number import float_bits
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.operand import ScalarSpec
from ptokit.isa.unknown import unknown
from ptokit.lang.arrays import exact_cast
from ptokit.lang.context import current
from ptokit.lang.expr import TracedInteger
from ptokit.lang.faults import refuse
from ptokit.lang.operators import Valueless
from ptokit.lang.tile import extent


class Scalar:
    """One number as an operand: a description, and one element of memory."""

    __slots__ = ("spec", "storage")

    def __init__(self, bits: np.ndarray[Any, np.dtype[Any]], spec: ScalarSpec) -> None:
        self.spec = spec
        self.storage = Storage(bits, spec.dtype)


class TracedScalar(Scalar):
    """A number that is computed when the kernel runs."""

    __slots__ = ("value",)

    def __init__(self, spec: ScalarSpec, value: TracedInteger) -> None:
        self.spec = spec
        self.value = value


def scalar(value: object, dtype: DType, what: str) -> Scalar:
    """A number in an element type: rounded once for floats, exact for integers."""
    if isinstance(value, TracedInteger):
        return TracedScalar(ScalarSpec(dtype), value)
    if isinstance(value, Valueless) or np.ndim(value) != 0:  # type: ignore[arg-type]
        raise TypeError(f"{what} takes one number, got {brief(value)}")
    try:
        bits = _rounded(value, dtype, what) if dtype.is_float else exact_cast(value, dtype, what)
    except ValueError as problem:
        if current().tracer is None:
            raise
        raise refuse("KN-11", str(problem), "use a wider element type or a smaller number") from None
    return Scalar(bits.reshape(1), ScalarSpec(dtype))


def _rounded(value: object, dtype: DType, what: str) -> np.ndarray[Any, np.dtype[Any]]:
    given = np.asarray(value)
    if given.dtype.hasobject or given.dtype.kind in "SUMmc":
        raise TypeError(f"{what} takes a real number, got {brief(value)}")
    return float_bits(given, dtype, what)


def corner(value: object, what: str) -> Scalar:
    """A number that selects addresses, and so is part of the call's signature."""
    if isinstance(value, TracedInteger):
        return TracedScalar(ScalarSpec(INT32, unknown()), value)
    number = extent(value, what, "CP-EXT-01")
    return Scalar(np.zeros(1, INT32.bits), ScalarSpec(INT32, number))
