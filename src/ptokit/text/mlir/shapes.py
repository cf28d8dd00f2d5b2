"""How ops are written: shapes made of pieces that read and print themselves.

A shape is written in a small language, one token for each piece:

    %x  %x*         an operand; a list of operands
    ^x  ~x          the type of an operand; the same where `!pto.ptr` is left away
    R   ~R          the type of the result; stripped
    #x:kind         an attribute without its name, `<KW>`; `#x:kind!` in full; kinds `int` and `ints` are plain numbers
    #x|%x           a number or an operand
    @x|%x           an address, `@tile(0x1000)`, or an operand
    {}  {!}         the remaining attributes; the same with plain numbers and stripped keywords
    (? ... ?)       a part that may be missing, known by its first piece
    region  keyed   a body; `key = %x : T` in parentheses
    assigned        the types of an assignment
    anything else   itself
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Data, Operation, Region, SSAValue
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from ptokit.text.mlir.attributes import print_plain, read_attribute
from ptokit.text.mlir.loose import starts_region
from ptokit.text.mlir.types import UNKNOWN, PtrType

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


class PtoOp(Operation):
    """An op of the dialect: a name and a shape. Subclasses are made from the table in `dialect.py`."""

    row: ClassVar[Row]

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
        return _next(parser) == self.text

    def present(self, op: PtoOp) -> bool:
        """Whether the op has something to print here."""
        return True

    def read(self, parser: Parser, draft: Draft) -> None:
        """Take the piece off the text."""

    def write(self, printer: Printer, op: PtoOp) -> None:
        """Print the piece."""


def _next(parser: Parser) -> str:
    return parser._current_token.text


_RESULTS = re.compile(r"%[\w$.:-]+(?:\s*,\s*%[\w$.:-]+)*\s*=")
"""The results of the next op, which are not operands of an op without any."""


_PART = re.compile(r"\w+\s*%")
"""A keyword before an operand."""


def _is_operand(parser: Parser) -> bool:
    return _next(parser).startswith("%")


def _comma(parser: Parser) -> bool:
    return parser.parse_optional_punctuation(",") is not None


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
        return _is_operand(parser)

    def present(self, op: PtoOp) -> bool:
        return bool(op.part(self.name))

    def read(self, parser: Parser, draft: Draft) -> None:
        if self.many and not _is_operand(parser) and not _next(parser).isdigit():
            return
        draft.add(self.name, parser.parse_unresolved_operand(f"expected an operand, %{self.name}"))
        while self.many and _comma(parser):
            draft.add(self.name, parser.parse_unresolved_operand())

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_list(op.part(self.name), printer.print_ssa_value)


@dataclass
class TypeOf(Piece):
    """The type of an operand, or of the result."""

    name: str
    stripped: bool = False

    def read(self, parser: Parser, draft: Draft) -> None:
        bare = self.stripped and _next(parser) == "<"
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
        (self.operand if _is_operand(parser) else self.attr).read(parser, draft)

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
        elif _next(parser) == "{":
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
        _typed_operand(parser, draft, name)

    def write(self, printer: Printer, op: PtoOp) -> None:
        with printer.in_parens():
            printer.print_list(op.parts, lambda part: _print_typed(printer, op, part[0], f"{part[0]} = "))


class Assigned(Piece):
    """The types of an assignment: `: T -> T`, `: T, i64` where it has no result, or none."""

    text = ":"

    def present(self, op: PtoOp) -> bool:
        known = op.results and op.results[0].type != UNKNOWN
        return bool(known or (op.part("addr") and UNKNOWN not in op.operand_types))

    def read(self, parser: Parser, draft: Draft) -> None:
        if parser.parse_optional_punctuation(":") is not None:
            draft.types["tile"] = [parser.parse_type()]
            if _comma(parser):
                draft.types["addr"] = [parser.parse_type()]
            if parser.parse_optional_punctuation("->") is not None:
                draft.results.append(parser.parse_type())
        if not draft.results:
            draft.results += [UNKNOWN] * getattr(parser, "bound", 0)

    def write(self, printer: Printer, op: PtoOp) -> None:
        printer.print_string(": ")
        printer.print_attribute(op.part("tile")[0].type)
        if op.results:
            _print_results(printer, op)
        else:
            printer.print_string(", ")
            printer.print_attribute(op.part("addr")[0].type)


def _typed_operand(parser: Parser, draft: Draft, name: str) -> None:
    draft.add(name, parser.parse_unresolved_operand(f"expected an operand, {name}"))
    parser.parse_punctuation(":")
    draft.types.setdefault(name, []).append(parser.parse_type())


def _print_typed(printer: Printer, op: PtoOp, name: str, head: str) -> None:
    """`head%a : T, %b : U`."""
    printer.print_string(head)
    printer.print_list(op.part(name), lambda value: _print_value_and_type(printer, value))


def _print_value_and_type(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)
    if value.type != UNKNOWN:
        printer.print_string(" : ")
        printer.print_attribute(value.type)


@dataclass
class Destinations(Piece):
    """`ins(...) outs(...)`, the general shape, with all its variants; also values and results, as in Level 1.

    Read: operands, then types after one colon or after each operand; a dictionary among the operands; strings among
    operands and types; a keyword before an operand (`fp %f`); `outs : T` for a result; clauses `key = value` at the
    end.
    """

    clauses: tuple[str, ...] = ()
    """Names of the clauses, in their order."""
    each: bool = False
    """Whether every operand of `ins` is followed by its type."""
    inside: tuple[str, ...] = ()
    """Attributes that belong into `ins`, wherever they were written."""
    listed: bool = False
    """Whether a comma stands before the dictionary in `ins`."""
    bare: bool = False
    """Whether the op may stand without operands, or have regions: because nobody knows it."""
    one_type: bool = False
    """Whether one type may stand for those of all values."""

    def read(self, parser: Parser, draft: Draft) -> None:
        if _next(parser) not in ("ins", "outs"):
            return self._read_values(parser, draft)
        for name in ("ins", "outs"):
            if parser.parse_optional_keyword(name) is None:
                continue
            if name == "outs" and parser.parse_optional_punctuation(":"):
                draft.results.append(parser.parse_type())
                draft.properties[OUTS_TYPE] = UnitAttr()
            else:
                self._read_group(parser, draft, name)
        self._read_dict(parser, draft)
        self._read_clauses(parser, draft)
        self._read_results(parser, draft)
        self.settle(draft)
        return None

    def _read_values(self, parser: Parser, draft: Draft) -> None:
        """`%a, %b {...} : (T, T) -> R`. What follows the colon, or the arrow, may be missing."""
        bound = getattr(parser, "bound", 0)
        if not _RESULTS.match(parser.lexer.input.content, parser.pos):
            Operand("args", many=True).read(parser, draft)
        self._read_dict(parser, draft)
        if parser.parse_optional_punctuation(":"):
            draft.types["args"] = self._spread(draft, _type_list(parser))
        self._read_results(parser, draft)
        if not draft.results:
            draft.results += [UNKNOWN] * bound
        if not draft.operands and not self.bare:
            parser.raise_error("expected `ins(...)` or operands")

    def _read_dict(self, parser: Parser, draft: Draft) -> None:
        if not (self.bare and starts_region(parser)):
            draft.attributes |= parser.parse_optional_attr_dict()

    def _spread(self, draft: Draft, kinds: list[Attribute]) -> list[Attribute]:
        """Types of the operands; pages give one for all operands of some ops."""
        missing = len(draft.operands.get("args", ())) - len(kinds)
        return kinds + [UNKNOWN] * missing if self.one_type and len(kinds) == 1 else kinds

    def _read_group(self, parser: Parser, draft: Draft, name: str) -> None:
        parser.parse_punctuation("(", f" after `{name}`")
        part = name
        while _next(parser) != ")":
            part = self._read_item(parser, draft, part)
            if parser.parse_optional_punctuation(":"):
                self._read_type(parser, draft, part)
                while _comma(parser) and not _is_operand(parser):
                    self._read_type(parser, draft, part)
            elif not _comma(parser) and _next(parser) not in (")", "{") and not _next(parser).isidentifier():
                parser.raise_error(f"expected `,`, `:` or `)` in {name}(...)")
        parser.parse_punctuation(")", f" at the end of {name}(...)")

    def _read_item(self, parser: Parser, draft: Draft, part: str) -> str:
        """A dictionary, a string, or an operand, perhaps behind a keyword. Gives the part that types then belong to."""
        if _next(parser) == "{":
            inner = {**_inside(draft.properties), **parser.parse_optional_attr_dict()}
            draft.properties[INSIDE] = DictionaryAttr(inner)
        elif (text := parser.parse_optional_str_literal()) is not None:
            draft.properties[FORMAT] = StringAttr(text)
        else:
            if _next(parser).isidentifier() and not _PART.match(parser.lexer.input.content, parser.pos):
                known = f"; did you mean `%{_next(parser)}`?" if _next(parser) in parser.ssa_values else ""
                parser.raise_error(f"expected an operand, as in `%x`, or `)` at the end of {part}(...){known}")
            part = parser.parse_optional_identifier() or part
            draft.add(part, parser.parse_unresolved_operand(f"expected an operand of {part}(...)"))
        return part

    def _read_type(self, parser: Parser, draft: Draft, part: str) -> None:
        if (axis := parser.parse_optional_str_literal()) is not None:
            draft.properties[AXIS] = StringAttr(axis)
        else:
            draft.types.setdefault(part, []).append(parser.parse_type())

    def _read_clauses(self, parser: Parser, draft: Draft) -> None:
        while (name := _next(parser)) in (*self.clauses, *self.inside):
            parser.parse_identifier()
            parser.parse_punctuation("=")
            if _is_operand(parser):
                _typed_operand(parser, draft, name)
            else:
                draft.attributes[name] = read_attribute(parser, KINDS.get(name, ""))

    def _read_results(self, parser: Parser, draft: Draft) -> None:
        if parser.parse_optional_punctuation("->"):
            draft.results += _type_list(parser)

    def settle(self, draft: Draft) -> None:
        """Move attributes to where they belong."""
        moved = {name: draft.attributes.pop(name) for name in self.inside if name in draft.attributes}
        if moved:
            draft.properties[INSIDE] = DictionaryAttr({**_inside(draft.properties), **moved})

    def write(self, printer: Printer, op: PtoOp) -> None:
        if _has_values_only(op):
            return self._write_values(printer, op)
        self._write_ins(printer, op)
        if OUTS_TYPE in op.properties:
            printer.print_string(" outs : ")
            printer.print_attribute(op.results[0].type)
        elif op.part("outs"):
            printer.print_string(" outs(")
            _print_grouped(printer, op.part("outs"))
            printer.print_string(")")
        _print_dict(printer, op)
        self._write_clauses(printer, op)
        if OUTS_TYPE not in op.properties:
            _print_results(printer, op)
        return None

    def _write_values(self, printer: Printer, op: PtoOp) -> None:
        if op.operands:
            printer.print_string(" ")
        printer.print_list(op.operands, printer.print_ssa_value)
        _print_dict(printer, op)
        typed = bool(op.operands) and UNKNOWN not in op.operand_types
        if typed:
            bracketed = len(op.operands) > 1 or not op.results or op.results[0].type == UNKNOWN
            printer.print_string(" : (" if bracketed else " : ")
            printer.print_list(op.operand_types, printer.print_attribute)
            printer.print_string(")" if bracketed else "")
        _print_results(printer, op, always=typed)

    def _write_ins(self, printer: Printer, op: PtoOp) -> None:
        values, inside, text = op.part("ins"), op.inside, op.properties.get(FORMAT)
        others = [name for name, _ in op.parts if name not in ("ins", "outs", *self.clauses)]
        if not (values or inside or text or others):
            return
        printer.print_string(" ins(")
        if text is not None:
            printer.print_attribute(text)
            printer.print_string(", " if values else "")
        if self.each:
            _print_typed(printer, op, "ins", "")
        else:
            _print_grouped(printer, values, inside, listed=self.listed)
        if (axis := op.properties.get(AXIS)) is not None:
            printer.print_string(", ")
            printer.print_attribute(axis)
        for name in others:
            _print_typed(printer, op, name, f" {name} ")
        printer.print_string(")")

    def _write_clauses(self, printer: Printer, op: PtoOp) -> None:
        for name in self.clauses:
            if op.part(name):
                _print_typed(printer, op, name, f" {name} = ")
            elif name in op.attributes:
                printer.print_string(f" {name} = ")
                print_plain(printer, op.attributes[name], stripped=True)


def _has_values_only(op: PtoOp) -> bool:
    """Whether an op was written with values and results, without `ins` and `outs`."""
    if op.parts:
        return any(name == "args" for name, _ in op.parts)
    return bool(op.results) and OUTS_TYPE not in op.properties


def _inside(properties: dict[str, Attribute]) -> dict[str, Attribute]:
    found = properties.get(INSIDE)
    return dict(found.data) if isinstance(found, DictionaryAttr) else {}


def _type_list(parser: Parser) -> list[Attribute]:
    """`T, U` or `(T, U)` or `()`."""
    if _next(parser) == "(":
        return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))
    return list(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))


def _print_grouped(
    printer: Printer, values: Sequence[SSAValue], inside: dict[str, Attribute] | None = None, *, listed: bool = False
) -> None:
    """`%a, %b {...} : T, U`."""
    printer.print_list(values, printer.print_ssa_value)
    if inside:
        printer.print_string(", " if listed and values else " " if values else "")
        printer.print_attr_dict(inside)
    kinds = [value.type for value in values]
    if kinds and UNKNOWN not in kinds:
        printer.print_string(" : ")
        printer.print_list(kinds, printer.print_attribute)


def _print_dict(printer: Printer, op: PtoOp) -> None:
    if remaining := op.row.remaining(op):
        printer.print_string(" ")
        printer.print_attr_dict(remaining)


def _print_results(printer: Printer, op: PtoOp, *, always: bool = False) -> None:
    kinds = op.result_types
    if UNKNOWN in kinds or (not kinds and not always):
        return
    printer.print_string(" -> " if len(kinds) == 1 else " -> (")
    printer.print_list(kinds, printer.print_attribute)
    printer.print_string("" if len(kinds) == 1 else ")")


@dataclass(frozen=True)
class Row:
    """All that is known of the text of an op."""

    pieces: tuple[Piece, ...]
    types: Callable[[str, Draft], Attribute | None] = lambda name, draft: None
    """The type of an operand whose type the text does not say and whose definition comes later."""
    result: Attribute | Callable[[dict[str, list[SSAValue]], dict[str, Attribute]], Attribute] | None = None
    """The type of the result, where the text does not say it."""
    order: tuple[str, ...] = ()
    """Attributes that are printed last, in this order."""

    @property
    def grouped(self) -> tuple[Piece, ...]:
        """The pieces of the op with `ins` and `outs`, which pages also use where its own shape has neither."""
        return self.pieces if isinstance(self.pieces[0], Destinations) else (Destinations(),)

    @property
    def named(self) -> frozenset[str]:
        """Attributes that a piece of the shape prints."""
        return frozenset(_named(self.pieces))

    def remaining(self, op: PtoOp) -> dict[str, Attribute]:
        """Attributes that no piece names, in the order of printing."""
        named = self.named
        found = {name: value for name, value in op.attributes.items() if name not in named and name not in self.order}
        return found | {name: op.attributes[name] for name in self.order if name in op.attributes}

    def read(self, cls: type[PtoOp], parser: Parser) -> PtoOp:
        """An op, from behind its name."""
        draft = Draft()
        for piece in self.pieces if _next(parser) not in ("ins", "outs") else self.grouped:
            piece.read(parser, draft)
        parts = {name: self._resolve(parser, draft, name) for name in draft.operands}
        if self.result is not None:
            given = self.result if isinstance(self.result, Attribute) else self.result(parts, draft.attributes)
            draft.results.append(given)
        draft.properties[SEGMENTS] = SegmentsAttr(tuple((name, len(values)) for name, values in parts.items()))
        return cls.create(
            operands=[value for values in parts.values() for value in values],
            result_types=draft.results,
            properties=draft.properties,
            attributes=draft.attributes,
            regions=draft.regions,
        )

    def _resolve(self, parser: Parser, draft: Draft, name: str) -> list[SSAValue]:
        operands, kinds = draft.operands[name], draft.types.get(name)
        if kinds is None:
            return [self._untyped(parser, draft, name, operand) for operand in operands]
        if len(kinds) != len(operands):
            what = "the op" if name == "args" else f"{name}(...)"
            message = f"{what} has {len(operands)} operands and {len(kinds)} types"
            parser.raise_error(message, operands[0].span)
        return [parser.resolve_operand(operand, kind) for operand, kind in zip(operands, kinds, strict=True)]

    def _untyped(self, parser: Parser, draft: Draft, name: str, operand: UnresolvedOperand) -> SSAValue:
        known = parser.ssa_values.get(operand.operand_name)
        if known is not None and operand.index < len(known):
            return known[operand.index]
        kind = self.types(name, draft)
        if kind is None:
            parser.raise_error(
                f"expected the type of %{operand.operand_name}, which is not defined above", operand.span
            )
        return parser.resolve_operand(operand, kind)

    def write(self, op: PtoOp, printer: Printer) -> None:
        """The op, from behind its name."""
        before = None
        grouped = any(name in ("ins", "outs") for name, _ in op.parts)
        for piece in _present(self.grouped if grouped else self.pieces, op):
            if _blank(before, piece):
                printer.print_string(" ")
            piece.write(printer, op)
            before = piece


def _named(pieces: Iterable[Piece]) -> Iterator[str]:
    for piece in pieces:
        match piece:
            case Attr(name):
                yield name
            case Either(attr):
                yield attr.name
            case Maybe(inner):
                yield from _named(inner)
            case Destinations(clauses):
                yield from clauses


def _present(pieces: Iterable[Piece], op: PtoOp) -> Iterator[Piece]:
    """Pieces that have something to print; lists may be empty, they print nothing."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from piece.pieces if piece.present(op) else ()
        elif not isinstance(piece, (Attributes, Assigned)) or piece.present(op):
            yield piece


def _blank(before: Piece | None, piece: Piece) -> bool:
    """Whether a blank stands between two pieces; the first piece stands behind the name of the op."""
    if isinstance(piece, Destinations) or piece.text in (",", "]", ")"):
        return False
    if before is None:
        return piece.text not in ("[", "(")
    return before.text not in ("[", "(") and (piece.text != "[" or before.text != "%")


def operand_names(pieces: Iterable[Piece]) -> Iterator[str]:
    """The parts that operands play, in the order in which they are stored: that of the shape."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from operand_names(piece.pieces)
        elif isinstance(piece, Operand | Either):
            yield piece.operand.name if isinstance(piece, Either) else piece.name


def shape(text: str) -> tuple[Piece, ...]:
    """The pieces that a shape is written as."""
    pieces: list[Piece] = []
    tokens = iter(text.split())
    for token in tokens:
        if token == "(?":  # noqa: S105
            pieces.append(Maybe(shape(" ".join(iter(lambda: next(tokens), "?)")))))
        else:
            pieces.append(_piece(token))
    return tuple(pieces)


_FIXED = {
    "{}": Attributes(), "{!}": Attributes(literal=True), "region": Body(), "keyed": Keyed(), "assigned": Assigned(),
    "R": TypeOf("R"), "~R": TypeOf("R", stripped=True),
}  # fmt: skip


def _piece(token: str) -> Piece:
    head, rest = token[0], token[1:]
    if token in _FIXED:
        return _FIXED[token]
    if head == "@":
        return Either(Address(rest.partition("|")[0], ""), Operand(token.partition("%")[2]))
    if "|%" in token:
        return Either(Attr(rest.partition("|")[0], ""), Operand(token.partition("%")[2]))
    if head == "%":
        return Operand(rest.removesuffix("*"), rest.endswith("*"))
    if head in "^~":
        return TypeOf(rest, stripped=head == "~")
    if head == "#":
        name, _, kind = rest.partition(":")
        return Attr(name, kind.removesuffix("!"), kind.endswith("!"))
    return Word(token)
