"""Numbers as MLIR writes them: whole ones by their type, those with a fraction bit for bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ptokit.isa.dtype import dtype
from ptokit.program.ir import Constant
from ptokit.text.mlir.ir import MlirAttribute, Type
from ptokit.text.mlir.types import F64, FLOATS, I64

MOST_BITS = 128
"""The widest integers whose range a message shows."""
WIDE = {"tf32": 19, "f80": 80, "f128": 128}
"""Types without a NumPy type: how many bits they have. Their numbers are kept as they are written."""
FORMATS: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    **{name: np.dtype(getattr(ml_dtypes, f"float{name[1]}_{name[2:].lower()}")) for name in FLOATS if "E" in name},
}  # fmt: skip
"""The NumPy type of each floating-point type that has one."""
_BITS = {name: int(name.partition("E")[0].lstrip("bf")) for name in FORMATS}


def is_float(type_: Type) -> bool:
    """Whether numbers of a type have a fraction."""
    return type_.text in FLOATS


def is_hexadecimal(text: str) -> bool:
    """Whether a literal says bits, not a number."""
    return text.removeprefix("-")[:2] in ("0x", "0X")


def number_attribute(text: str, kind: Type | None) -> MlirAttribute:
    """The number of a literal in a type. A ValueError states what is wrong with it."""
    has_fraction = "." in text and not is_hexadecimal(text)
    kind = kind or (F64 if has_fraction else I64)
    if is_float(kind):
        return _float_attribute(text, kind)
    if has_fraction:
        raise ValueError("expected a whole number for an integer type")
    number = in_range(int(text, 16) if is_hexadecimal(text) else int(text), kind)
    if kind.text == "i1":
        return truth(bool(number))
    return MlirAttribute(f"{number} : {kind.text}", number, str(number) if kind == I64 else "", kind)


def truth(value: bool) -> MlirAttribute:
    """`true` or `false`."""
    return MlirAttribute(str(value).lower(), value, type=Type("i1"))


def in_range(number: int, type_: Type) -> int:
    """A whole number as a type holds it."""
    digits = type_.text.lstrip("sui")
    if type_.text == "index":
        return number
    if not digits.isdigit():
        raise ValueError(f"a number cannot be of type {type_.text[:80]}")
    width, sign = int(digits), type_.text[0]
    low = 0 if sign == "u" else -(1 << width - 1)
    high = 1 << (width - 1 if sign == "s" else width)
    if not low <= number < high:
        values = f"lie in [{low}, {high})" if width <= MOST_BITS else f"have {width} bits"
        raise ValueError(f"{number} is out of range for type {type_.text}, whose values {values}")
    return number - (1 << width) if sign == "i" and number >= 1 << width - 1 else number


def _float_attribute(text: str, type_: Type) -> MlirAttribute:
    if type_.text not in FORMATS:
        if is_hexadecimal(text):
            bits = bits_of(text, type_)
            text = f"0x{bits:0{-(-WIDE.get(type_.text, 8) // 4)}x}"
        return MlirAttribute(f"{text} : {type_.text}", type=type_)
    bits = bits_of(text, type_) if is_hexadecimal(text) else rounded(text, type_)
    text = f"{float_text(bits, type_)} : {type_.text}"
    try:
        element = dtype(type_.text)
    except TypeError:
        return MlirAttribute(text, type=type_)
    return MlirAttribute(text, Constant(element, bits) if element.mlir == type_.text else None, type=type_)


def float_attribute(value: Constant) -> MlirAttribute:
    """A number by its bits."""
    type_ = Type(value.dtype.mlir)
    return MlirAttribute(f"{float_text(value.bits, type_)} : {type_.text}", value, type=type_)


def rounded(text: str, type_: Type) -> int:
    """The bits of a number as a type holds it: one that is too large is infinite."""
    with np.errstate(all="ignore"):
        return _bits(np.array(float(text)).astype(FORMATS[type_.text]))


def _bits(number: np.ndarray[Any, Any]) -> int:
    return int(number.view(f"u{number.dtype.itemsize}"))


def bits_of(text: str, type_: Type) -> int:
    """The bits that a hexadecimal literal says."""
    if text.startswith("-"):
        raise ValueError("bits have no sign: `0x...` says all of them, with that of the number")
    bits = int(text, 16)
    if bits >> (WIDE.get(type_.text) or _BITS.get(type_.text, 8)):
        raise ValueError(f"`{text[:40]}` has more bits than {type_.text}")
    return bits


def _number(bits: int, type_: Type) -> float:
    form = FORMATS[type_.text]
    return float(np.array([bits], f"u{form.itemsize}").view(form)[0])


def float_text(bits: int, type_: Type) -> str:
    """A number as MLIR prints it: in decimal where that loses nothing."""
    number = _number(bits, type_)
    hexadecimal = f"0x{bits:0{-(-_BITS[type_.text] // 4)}x}"
    if not np.isfinite(number):
        return hexadecimal
    mantissa, _, exponent = f"{number:.5e}".partition("e")
    short = f"{mantissa}0e{exponent}"
    if rounded(short, type_) == bits:
        return short
    digits = {"f32": 9, "f64": 17}.get(type_.text)
    text = f"{number:.{digits}g}" if digits else repr(number)
    return text if "." in text else f"0x{bits:X}"
