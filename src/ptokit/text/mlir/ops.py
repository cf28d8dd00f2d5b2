"""Ops of the dialect while they are read and after: operands by their parts, and what pieces of text are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Data, Operation, Region, SSAValue
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from ptokit.text.mlir.types import UNKNOWN

SEGMENTS, INSIDE, FORMAT, AXIS, OUTS_TYPE = "$segments", "$inside", "$format", "$axis", "$outs_type"
"""Properties that hold what the text of an op says besides operands and attributes. An op without SEGMENTS was written
in the generic form of MLIR, and stays in it."""


class SegmentsAttr(Data[tuple[tuple[str, int], ...]]):
    """Which operands play which part: names and counts, in the order of the operands."""

    name = "pto.segments"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        parser.raise_error("segments are never written")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@dataclass
class Draft:
    """An op while it is read."""

    operands: dict[str, list[UnresolvedOperand]] = field(default_factory=dict)
    types: dict[str, list[Attribute]] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    properties: dict[str, Attribute] = field(default_factory=dict)
    results: list[Attribute] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def add(self, name: str, operand: UnresolvedOperand) -> None:
        """One more operand of a part."""
        self.operands.setdefault(name, []).append(operand)


class Spelling(Protocol):
    """What knows the text of an op."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of its shape."""
        ...

    def read(self, cls: type[PtoOp], parser: Parser) -> PtoOp:
        """Take the op off the text."""
        ...

    def write(self, op: PtoOp, printer: Printer) -> None:
        """Print the op."""
        ...

    def remaining(self, op: PtoOp) -> dict[str, Attribute]:
        """The attributes that no piece prints."""
        ...


class PtoOp(Operation):
    """An op of the dialect: a name and a shape. Subclasses are made from the table in `dialect.py`."""

    row: ClassVar[Spelling]

    def part(self, name: str) -> Sequence[SSAValue]:
        """The operands that play a part."""
        start = 0
        for part, count in self.parts:
            if part == name:
                return self.operands[start : start + count]
            start += count
        return ()

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Parts and how many operands play them."""
        segments = self.properties.get(SEGMENTS)
        return segments.data if isinstance(segments, SegmentsAttr) else ()

    @property
    def inside(self) -> dict[str, Attribute]:
        """Attributes that are written within `ins(...)`."""
        found = self.properties.get(INSIDE)
        return dict(found.data) if isinstance(found, DictionaryAttr) else {}

    @property
    def is_generic(self) -> bool:
        """Whether it was written in the generic form."""
        return not isinstance(self.properties.get(SEGMENTS), SegmentsAttr)

    @classmethod
    def parse(cls, parser: Parser) -> PtoOp:
        return cls.row.read(cls, parser)

    def print(self, printer: Printer) -> None:
        self.row.write(self, printer)


class Piece:
    """A part of a shape. `text` is what decides about blanks around it."""

    text = ""

    def starts(self, parser: Parser) -> bool:
        """Whether the text goes on with this piece."""
        return next_text(parser) == self.text

    def present(self, op: PtoOp) -> bool:
        """Whether the op has something to print here."""
        return True

    def read(self, parser: Parser, draft: Draft) -> None:
        """Take the piece off the text."""

    def write(self, printer: Printer, op: PtoOp) -> None:
        """Print the piece."""


def next_text(parser: Parser) -> str:
    """The text of the next token."""
    return parser._current_token.text


RESULTS = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=")
"""The results of the next op, which are not operands of an op without any."""


PART = re.compile(r"\w+\s*%")
"""A keyword before an operand."""


def is_operand(parser: Parser) -> bool:
    """Whether an operand comes next."""
    return next_text(parser).startswith("%")


def comma(parser: Parser) -> bool:
    """Take a comma, if there is one."""
    return parser.parse_optional_punctuation(",") is not None


def typed_operand(parser: Parser, draft: Draft, name: str) -> None:
    """`%x : T`."""
    draft.add(name, parser.parse_unresolved_operand(f"expected an operand, {name}"))
    parser.parse_punctuation(":")
    draft.types.setdefault(name, []).append(parser.parse_type())


def print_typed(printer: Printer, op: PtoOp, name: str, head: str) -> None:
    """`head%a : T, %b : U`."""
    printer.print_string(head)
    printer.print_list(op.part(name), lambda value: _print_value_and_type(printer, value))


def _print_value_and_type(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    if value.type != UNKNOWN:
        printer.print_string(" : ")
        printer.print_attribute(value.type)


def print_results(printer: Printer, op: PtoOp, *, always: bool = False) -> None:
    """` -> T`, or ` -> (T, U)`."""
    kinds = op.result_types
    if UNKNOWN in kinds or (not kinds and not always):
        return
    printer.print_string(" -> " if len(kinds) == 1 else " -> (")
    printer.print_list(kinds, printer.print_attribute)
    printer.print_string("" if len(kinds) == 1 else ")")
