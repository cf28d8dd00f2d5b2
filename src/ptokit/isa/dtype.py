"""Element types: one table with every spelling that Python, C++, text and NumPy use for them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.brief import brief
from ptokit.finding import suggestion

finfo: Any = ml_dtypes.finfo
"""The limits of a float type; ml_dtypes does not type them."""


@dataclass(frozen=True, eq=False)
class DType:
    """One element type. Instances are unique; one also equals every spelling of itself, as NumPy's types do."""

    name: str
    numpy: np.dtype[Any]
    family: str
    """`int`, `uint`, `float`, `complex`, `raw` (bits only) or `other` (moved, not computed with)."""
    cpp: str = ""
    mlir: str = ""
    aliases: tuple[str, ...] = ()
    size: int = field(init=False)
    """Bytes of one element."""
    bits: np.dtype[Any] = field(init=False)
    """An integer type of the same width, so that moving an element never changes a NaN."""

    def __post_init__(self) -> None:
        size = self.numpy.itemsize
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "bits", np.dtype(f"u{size}") if size in (1, 2, 4, 8) else np.dtype(f"V{size}"))

    @property
    def is_integer(self) -> bool:
        """Whether values are integers (signed or not)."""
        return self.family in ("int", "uint")

    @property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers that can be computed with."""
        return self.family == "float"

    @property
    def is_number(self) -> bool:
        """Whether values can be added."""
        return self.is_integer or self.is_float or self.family == "complex"

    @property
    def c0(self) -> int:
        """Elements in one 32-byte block (MG-NZ-01)."""
        return max(1, 32 // self.size)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        try:
            return self is dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return id(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name if self.name in _BY_NAME else self.numpy,)  # copies are the type itself

    def __repr__(self) -> str:
        return self.name


def _row(name: str, numpy: Any, family: str, cpp: str, mlir: str, *aliases: str) -> DType:
    return DType(name, np.dtype(numpy), family, cpp, mlir, aliases)


BASE = (
    _row("int8", np.int8, "int", "int8_t", "i8", "si8", "s8"),
    _row("uint8", np.uint8, "uint", "uint8_t", "ui8", "u8"),
    _row("int16", np.int16, "int", "int16_t", "i16", "si16", "s16"),
    _row("uint16", np.uint16, "uint", "uint16_t", "ui16", "u16"),
    _row("int32", np.int32, "int", "int32_t", "i32", "si32", "s32"),
    _row("uint32", np.uint32, "uint", "uint32_t", "ui32", "u32"),
    _row("float16", np.float16, "float", "half", "f16", "fp16"),
    _row("bfloat16", ml_dtypes.bfloat16, "float", "bfloat16_t", "bf16"),
    _row("float32", np.float32, "float", "float", "f32", "float32_t", "fp32"),
)
"""The nine types of every instruction (CO-TYPE-02)."""

FLOAT8 = (
    _row("float8_e4m3", ml_dtypes.float8_e4m3fn, "float", "float8_e4m3_t", "f8E4M3FN", "float8_e4m3fn", "f8E4M3"),
    _row("float8_e5m2", ml_dtypes.float8_e5m2, "float", "float8_e5m2_t", "f8E5M2"),
)
HIFLOAT8 = _row("hifloat8", np.uint8, "raw", "hifloat8_t", "hif8", "!pto.hif8")
"""Carried as raw bytes: no NumPy type has its format."""
FLOAT8_E8M0 = _row(
    "float8_e8m0", ml_dtypes.float8_e8m0fnu, "float", "float8_e8m0_t", "f8E8M0", "!pto.f8E8M0", "f8E8M0FNU",
    "float8_e8m0fnu",
)  # fmt: skip
"""Powers of two, the scales of MX formats: moved, and read by products with scales only."""

HOST_ONLY = (
    _row("int64", np.int64, "int", "int64_t", "i64", "si64"),
    _row("uint64", np.uint64, "uint", "uint64_t", "ui64", "u64"),
    _row("float64", np.float64, "float", "double", "f64"),
    _row("bool", np.bool_, "uint", "bool", "i1"),
)
"""Types that no target gathers or scatters (CO-TYPE-03); the `host` profile gathers arrays of them."""

PTO_TYPES = frozenset((*BASE, *FLOAT8, HIFLOAT8))
INT32, UINT32 = BASE[4], BASE[5]
INT64, UINT64 = HOST_ONLY[0], HOST_ONLY[1]

_BY_NAME = {
    spelling.lower(): row
    for row in (*BASE, *FLOAT8, HIFLOAT8, FLOAT8_E8M0, *HOST_ONLY)
    for spelling in (row.name, row.cpp, row.mlir, *row.aliases)
}
_BY_NUMPY: dict[np.dtype[Any], DType] = {row.numpy: row for row in (*BASE, *FLOAT8, FLOAT8_E8M0, *HOST_ONLY)}


def dtype(value: object) -> DType:
    """The element type that a name, a NumPy type or a `DType` denotes."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value.lower() in _BY_NAME:
        return _BY_NAME[value.lower()]
    numpy_type = None
    # NumPy would parse a text that is no name as Python.
    if not isinstance(value, str) or value.isidentifier():
        with suppress(TypeError, ValueError):
            numpy_type = np.dtype(value)  # type: ignore[call-overload]
    if numpy_type is None or value is None or (isinstance(value, str) and value != numpy_type.name):
        problem = (
            f"unknown element type {brief(value)}"
            if isinstance(value, str)
            else f"{brief(value)} is not an element type"
        )
        hint = suggestion(value, (row.name for row in _BY_NUMPY.values()))
        known = ", ".join(row.name for row in (*BASE, *FLOAT8, HIFLOAT8))
        raise TypeError(f"{problem}; known: {known}{hint}")
    return _BY_NUMPY.get(numpy_type) or _host_type(numpy_type)


def _host_type(numpy_type: np.dtype[Any]) -> DType:
    """A type of NumPy or ml_dtypes that only the host profile can move, by its width."""
    if numpy_type.hasobject or numpy_type.fields or numpy_type.subdtype or numpy_type.kind in "SUMm":
        raise TypeError(f"arrays of {numpy_type} cannot be moved; use a plain number type")
    if not numpy_type.isnative:
        raise TypeError(f"{numpy_type} has foreign byte order; convert with a.astype(a.dtype.newbyteorder('='))")
    if numpy_type.kind == "V" and numpy_type.type is np.void:
        raise TypeError("arrays of raw void elements have no element type; view them as a number type first")
    name = numpy_type.name if numpy_type.name not in _BY_NAME else f"{numpy_type.name}_host"
    return _BY_NUMPY.setdefault(numpy_type, DType(name, numpy_type, _family(numpy_type)))


def _family(numpy_type: np.dtype[Any]) -> str:
    """`complex`, or `float` for formats that NumPy or ml_dtypes can measure; else moved and not computed with."""
    if numpy_type.kind == "c":
        return "complex"
    try:
        return "float" if finfo(numpy_type).bits == 8 * numpy_type.itemsize else "other"
    except ValueError:
        return "float" if numpy_type.kind == "f" else "other"
