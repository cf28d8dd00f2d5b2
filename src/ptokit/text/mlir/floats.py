"""Numbers with a fraction, exactly as the text says them. xDSL keeps a Python float, which not every number fits."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float80Type,
    Float128Type,
    FloatAttr,
    StringAttr,
)
from xdsl.ir import Attribute, BuiltinAttribute, TypedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

WIDE = (Float80Type, Float128Type)
"""Types with more digits than a Python float."""


@irdl_attr_definition
class FloatLiteral(BuiltinAttribute, TypedAttribute):
    """A number by its text: what is no number has bits that a Python float loses, wide types have more digits."""

    name = "pto.float_literal"
    text: StringAttr
    type: AnyFloat

    def get_type(self) -> Attribute:
        return self.type

    def print_without_type(self, printer: Printer) -> None:
        printer.print_string(self.text.data)

    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(f"{self.text.data} : {self.type}")

    @property
    def bits(self) -> int | None:
        """Its bits, where the text says them."""
        return int(self.text.data, 16) if is_hexadecimal(self.text.data) else None


class Constant(ConstantOp):
    """`arith.constant`, also of numbers that are kept as their text."""

    @classmethod
    def parse(cls, parser: Parser) -> Constant:
        attributes = parser.parse_optional_attr_dict()
        at = parser.pos
        value = parser.parse_attribute()
        if not isinstance(value, TypedAttribute):
            parser.raise_error("expected a number, or a dense value", at)
        return cls.create(result_types=[value.get_type()], properties={"value": value}, attributes=attributes)


def is_hexadecimal(text: str) -> bool:
    """Whether a literal says bits, not a number."""
    return text.removeprefix("-")[:2] in ("0x", "0X")


def float_attribute(text: str, kind: AnyFloat) -> FloatAttr | FloatLiteral:
    """The number that a literal says. A ValueError tells what is wrong with it."""
    if is_hexadecimal(text):
        bits = bits_of(text, kind)
    elif isinstance(kind, WIDE):
        return FloatLiteral(StringAttr(text), kind)
    else:
        bits = int.from_bytes(kind.pack((rounded(float(text), kind),)), "little")
    number = math.nan if isinstance(kind, WIDE) else kind.unpack(_bytes(bits, kind), 1)[0]
    if math.isnan(number):
        return FloatLiteral(StringAttr(f"0x{bits:0{-(-kind.bitwidth // 4)}x}"), kind)
    return FloatAttr(number, kind)


def rounded(number: float, kind: AnyFloat) -> float:
    """A number as a type holds it: one that is too large is infinite."""
    try:
        return kind.unpack(kind.pack((number,)), 1)[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def bits_of(text: str, kind: AnyFloat) -> int:
    """The bits that a hexadecimal literal says."""
    if text.startswith("-"):
        raise ValueError("bits have no sign: `0x...` says all of them, with that of the number")
    bits = int(text, 16)
    if bits >> kind.bitwidth:
        raise ValueError(f"`{text[:40]}` has more bits than {kind}")
    return bits


def _bytes(bits: int, kind: AnyFloat) -> bytes:
    return bits.to_bytes(kind.compile_time_size, "little")


# --- Dense values ----------------------------------------------------------------------------------------------


class Element(AttrParser._TensorLiteralElement):
    """An element of a dense value, before its type is known."""

    @property
    def text(self) -> str:
        """Its literal."""
        return "".join(self.span.text.split())

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        """Its value; one that is said by its bits comes later, in `with_bits`."""
        if not isinstance(type, AnyFloat) or isinstance(self.value, tuple):
            return super().to_type(parser, type)
        return 0.0 if is_hexadecimal(self.text) else rounded(float(self.value), type)


def with_bits(dense: DenseIntOrFPElementsAttr, elements: list[Element]) -> DenseIntOrFPElementsAttr:
    """A dense value with the elements whose bits the text says."""
    kind = dense.get_element_type()
    said = {number: element.text for number, element in enumerate(elements) if is_hexadecimal(element.text)}
    if not said or not isinstance(kind, AnyFloat):
        return dense
    size, data = kind.compile_time_size, bytearray(dense.data.data)
    for number, text in said.items():
        data[number * size : (number + 1) * size] = _bytes(bits_of(text, kind), kind)
    whole = bytes(data[:size]) * len(dense) if len(elements) == 1 else bytes(data)
    return DenseIntOrFPElementsAttr(dense.type, BytesAttr(whole))


def raw_text(dense: DenseIntOrFPElementsAttr) -> str:
    """The bytes of a dense value as text, where Python floats may lose some of them or do not tell that all agree.

    They may for every NaN but the default one: which bits of a NaN a Python float keeps depends on Python's version.
    """
    kind, data = dense.get_element_type(), dense.data.data
    if not isinstance(kind, AnyFloat) or isinstance(kind, WIDE):
        return ""
    size = kind.compile_time_size
    elements = [data[start : start + size] for start in range(0, len(data), size)]
    numbers = kind.unpack(data, len(dense))
    nans = {element for element, number in zip(elements, numbers, strict=True) if math.isnan(number)}
    is_splat = len(set(elements)) == 1
    if not nans or (nans == {kind.pack((math.nan,))} and not is_splat):
        return ""
    return f"0x{(elements[0] if is_splat else data).hex().upper()}"
