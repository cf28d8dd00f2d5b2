"""Pieces of shapes: words, operands, types, attributes, bodies. Each reads and prints itself."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block
from xdsl.parser import Parser
from xdsl.printer import Printer

from ptokit.text.mlir.attributes import print_plain, read_attribute
from ptokit.text.mlir.ops import (
    Draft,
    Piece,
    PtoOp,
    comma,
    is_operand,
    next_text,
    print_results,
    print_typed,
    typed_operand,
)
from ptokit.text.mlir.types import UNKNOWN, PtrType


@dataclass
class Word(Piece):
    """Itself: a punctuation mark or a keyword."""

    text: str

    def read(self, parser: Parser, draft: Draft) -> None:
        parser.parse_characters(self.text)

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_string(self.text)


@dataclass
class Operand(Piece):
    """One operand, or a list of them."""

    name: str
    many: bool = False
    text = "%"

    def starts(self, parser: Parser) -> bool:
        return is_operand(parser)

    def present(self, op: PtoOp) -> bool:
        return bool(op.part(self.name))

    def read(self, parser: Parser, draft: Draft) -> None:
        if self.many and not is_operand(parser) and not next_text(parser).isdigit():
            return
        draft.add(self.name, parser.parse_unresolved_operand(f"expected an operand, %{self.name}"))
        while self.many and comma(parser):
            draft.add(self.name, parser.parse_unresolved_operand())

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_list(op.part(self.name), printer.print_ssa_value)


@dataclass
class TypeOf(Piece):
    """The type of an operand, or of the result."""

    name: str
    stripped: bool = False

    def read(self, parser: Parser, draft: Draft) -> None:
        bare = self.stripped and next_text(parser) == "<"
        kind = PtrType(PtrType.parse_parameter(parser)) if bare else parser.parse_type()
        (draft.results if self.name == "R" else draft.types.setdefault(self.name, [])).append(kind)

    def write(self, printer: Printer, op: PtoOp) -> None:
        kind = op.results[0].type if self.name == "R" else op.part(self.name)[0].type
        if self.stripped and isinstance(kind, PtrType):
            kind.print_parameter(printer)
        else:
            printer.print_attribute(kind)


@dataclass
class Attr(Piece):
    """An attribute that the shape names, so that the text need not."""

    name: str
    kind: str
    full: bool = False

    def present(self, op: PtoOp) -> bool:
        return self.name in op.attributes

    def read(self, parser: Parser, draft: Draft) -> None:
        draft.attributes[self.name] = self._value(parser)

    def _value(self, parser: Parser) -> Attribute:
        if self.kind == "ints":
            whole = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            return ArrayAttr([IntegerAttr(number, i64) for number in whole])
        return read_attribute(parser, self.kind)

    def write(self, printer: Printer, op: PtoOp) -> None:
        value = op.attributes[self.name]
        if isinstance(value, ArrayAttr):
            with printer.in_square_brackets():
                printer.print_list(value.data, lambda item: print_plain(printer, item))
        else:
            print_plain(printer, value, stripped=not self.full)


class Address(Attr):
    """An address of a tile: `@tile(0x1000)`, or with a name for it."""

    def _value(self, parser: Parser) -> Attribute:
        name = parser.parse_optional_symbol_name()
        if name is None or name.data != "tile":
            parser.raise_error("expected an address: `%x` or `@tile(0x1000)`")
        with parser.in_parens():
            if (name := parser.parse_optional_identifier()) is not None:
                return StringAttr(name)
            return IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), i64)

    def write(self, printer: Printer, op: PtoOp) -> None:
        value = op.attributes[self.name]
        number = isinstance(value, IntegerAttr)
        printer.print_string(f"@tile({value.value.data:#x})" if number else f"@tile({getattr(value, 'data', '')})")


@dataclass
class Either(Piece):
    """A number, or an operand that holds it."""

    attr: Attr
    operand: Operand

    def read(self, parser: Parser, draft: Draft) -> None:
        (self.operand if is_operand(parser) else self.attr).read(parser, draft)

    def write(self, printer: Printer, op: PtoOp) -> None:
        (self.operand if self.operand.present(op) else self.attr).write(printer, op)


@dataclass
class Attributes(Piece):
    """The attributes that no other piece names."""

    literal: bool = False
    text = "{"

    def present(self, op: PtoOp) -> bool:
        return bool(op.row.remaining(op))

    def read(self, parser: Parser, draft: Draft) -> None:
        if not self.literal:
            draft.attributes |= parser.parse_optional_attr_dict()
        elif next_text(parser) == "{":
            draft.attributes |= parser.parse_comma_separated_list(parser.Delimiter.BRACES, lambda: _entry(parser))

    def write(self, printer: Printer, op: PtoOp) -> None:
        with printer.in_braces():
            printer.print_list(op.row.remaining(op).items(), lambda item: self._print(printer, *item))

    def _print(self, printer: Printer, name: str, value: Attribute) -> None:
        printer.print_identifier_or_string_literal(name)
        if isinstance(value, UnitAttr):
            return
        printer.print_string(" = ")
        if self.literal:
            print_plain(printer, value, stripped=True)
        else:
            printer.print_attribute(value)


KINDS = {"location": "address_space", "pad_mode": "padmode", "maskPattern": "mask_pattern"}
"""Attributes that may be written stripped, and what they are."""


def _entry(parser: Parser) -> tuple[str, Attribute]:
    name = parser.parse_identifier_or_str_literal()
    if not parser.parse_optional_punctuation("="):
        return name, UnitAttr()
    return name, read_attribute(parser, KINDS.get(name, ""))


@dataclass
class Maybe(Piece):
    """Pieces that are all there, or none."""

    pieces: tuple[Piece, ...]

    def starts(self, parser: Parser) -> bool:
        return self.pieces[0].starts(parser)

    def present(self, op: PtoOp) -> bool:
        return any(piece.present(op) for piece in self.pieces if isinstance(piece, (Operand, Attr)))

    def read(self, parser: Parser, draft: Draft) -> None:
        if self.starts(parser):
            for piece in self.pieces:
                piece.read(parser, draft)


class Body(Piece):
    """A region of one block."""

    def read(self, parser: Parser, draft: Draft) -> None:
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        draft.regions.append(region)

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_region(op.regions[0], print_empty_block=False)


class Keyed(Piece):
    """`(key = %x : T, ...)`: operands that say which they are."""

    text = "(keyed"

    def read(self, parser: Parser, draft: Draft) -> None:
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: self._item(parser, draft))

    def _item(self, parser: Parser, draft: Draft) -> None:
        at = parser.pos
        name = parser.parse_identifier()
        if name in draft.operands:
            parser.raise_error(f"`{name}` is given twice", at)
        parser.parse_punctuation("=")
        typed_operand(parser, draft, name)

    def write(self, printer: Printer, op: PtoOp) -> None:
        with printer.in_parens():
            printer.print_list(op.parts, lambda part: print_typed(printer, op, part[0], f"{part[0]} = "))


class Assigned(Piece):
    """The types of an assignment: `: T -> T`, `: T, i64` where it has no result, or none."""

    text = ":"

    def present(self, op: PtoOp) -> bool:
        known = op.results and op.results[0].type != UNKNOWN
        return bool(known or (op.part("addr") and UNKNOWN not in op.operand_types))

    def read(self, parser: Parser, draft: Draft) -> None:
        if parser.parse_optional_punctuation(":") is not None:
            draft.types["tile"] = [parser.parse_type()]
            if comma(parser):
                draft.types["addr"] = [parser.parse_type()]
            if parser.parse_optional_punctuation("->") is not None:
                draft.results.append(parser.parse_type())
        if not draft.results:
            draft.results += [UNKNOWN] * getattr(parser, "bound", 0)

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_string(": ")
        printer.print_attribute(op.part("tile")[0].type)
        if op.results:
            print_results(printer, op)
        else:
            printer.print_string(", ")
            printer.print_attribute(op.part("addr")[0].type)
