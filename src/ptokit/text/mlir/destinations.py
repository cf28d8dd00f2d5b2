"""The general shape of an op, `ins(...) outs(...)`, with all its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from ptokit.text.mlir.attributes import print_plain, read_attribute
from ptokit.text.mlir.loose import starts_region
from ptokit.text.mlir.ops import (
    AXIS,
    FORMAT,
    INSIDE,
    OUTS_TYPE,
    PART,
    RESULTS,
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
from ptokit.text.mlir.pieces import KINDS, Operand
from ptokit.text.mlir.types import UNKNOWN


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
        if next_text(parser) not in ("ins", "outs"):
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
        if not RESULTS.match(parser.lexer.input.content, parser.pos):
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
        while next_text(parser) != ")":
            part = self._read_item(parser, draft, part)
            if parser.parse_optional_punctuation(":"):
                self._read_type(parser, draft, part)
                while comma(parser) and not is_operand(parser):
                    self._read_type(parser, draft, part)
            elif not comma(parser) and next_text(parser) not in (")", "{") and not next_text(parser).isidentifier():
                parser.raise_error(f"expected `,`, `:` or `)` in {name}(...)")
        parser.parse_punctuation(")", f" at the end of {name}(...)")

    def _read_item(self, parser: Parser, draft: Draft, part: str) -> str:
        """A dictionary, a string, or an operand, perhaps behind a keyword. Gives the part that types then belong to."""
        if next_text(parser) == "{":
            inner = {**_inside(draft.properties), **parser.parse_optional_attr_dict()}
            draft.properties[INSIDE] = DictionaryAttr(inner)
        elif (text := parser.parse_optional_str_literal()) is not None:
            draft.properties[FORMAT] = StringAttr(text)
        else:
            if next_text(parser).isidentifier() and not PART.match(parser.lexer.input.content, parser.pos):
                known = f"; did you mean `%{next_text(parser)}`?" if next_text(parser) in parser.ssa_values else ""
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
        while (name := next_text(parser)) in (*self.clauses, *self.inside):
            parser.parse_identifier()
            parser.parse_punctuation("=")
            if is_operand(parser):
                typed_operand(parser, draft, name)
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
            print_results(printer, op)
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
        print_results(printer, op, always=typed)

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
            print_typed(printer, op, "ins", "")
        else:
            _print_grouped(printer, values, inside, listed=self.listed)
        if (axis := op.properties.get(AXIS)) is not None:
            printer.print_string(", ")
            printer.print_attribute(axis)
        for name in others:
            print_typed(printer, op, name, f" {name} ")
        printer.print_string(")")

    def _write_clauses(self, printer: Printer, op: PtoOp) -> None:
        for name in self.clauses:
            if op.part(name):
                print_typed(printer, op, name, f" {name} = ")
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
    if next_text(parser) == "(":
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
