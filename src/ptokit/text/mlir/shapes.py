"""How ops are written: a row of pieces for each op, which reads and prints it; the shape `ins(...) outs(...)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ptokit.finding import near
from ptokit.text.cursor import OperandUse, braced
from ptokit.text.mlir.attributes import plain_text, read_attribute, string_attribute
from ptokit.text.mlir.ir import UNIT, UNKNOWN, Attributes, MlirAttribute, MlirOp, SsaValue, Type
from ptokit.text.mlir.parser import Parser
from ptokit.text.mlir.pieces import (
    AXIS,
    FORMAT,
    INSIDE,
    KINDS,
    OUTS_TYPE,
    Attr,
    Maybe,
    OpDraft,
    Operand,
    Piece,
    attribute_pieces,
    results_text,
    typed_operand,
    typed_text,
)
from ptokit.text.mlir.types import type_list
from ptokit.text.mlir.verbatim import starts_region
from ptokit.text.mlir.writer import Writer

_REST = re.compile(r"(?!loc\b)([A-Za-z_]\w*)\s*[(=](?!=)", re.ASCII)
"""A group or a clause of an op."""


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
    """Whether the op may stand without operands, or have regions: because it is unknown."""
    one_type: bool = False
    """Whether one type may stand for those of all values."""

    def read(self, c: Parser, draft: OpDraft) -> None:
        if c.word not in ("ins", "outs"):
            self._read_values(c, draft)
        else:
            self._read_groups(c, draft)
        if not self.bare and (match := _REST.match(c.text, c.start)) is not None and not c.is_on_new_line():
            known = ("ins", "outs", *self.clauses, *self.inside)
            if match[1] in known:
                c.fail("expected `ins(...)` before `outs(...)`, and each clause once", expects="form")
            c.fail_word(f"unknown `{match[1]}`", match[1], known, c.start)

    def _read_groups(self, c: Parser, draft: OpDraft) -> None:
        for name in ("ins", "outs"):
            if not c.accept(name):
                continue
            if name == "outs" and c.accept(":"):
                draft.results.append(c.type())
                draft.properties[OUTS_TYPE] = UNIT
            else:
                self._read_group(c, draft, name)
        self._read_dict(c, draft)
        self._read_clauses(c, draft)
        self._read_results(c, draft)
        self.settle(draft)

    def _read_values(self, c: Parser, draft: OpDraft) -> None:
        """`%a, %b {...} : (T, T) -> R`. What follows the colon, or the arrow, may be missing."""
        if not c.starts_results():
            Operand("args", many=True).read(c, draft)
        self._read_dict(c, draft)
        if c.accept(":"):
            types = draft.types["args"] = _types(c)
            if self.one_type and len(types) == 1:  # for all operands
                types += [UNKNOWN] * (len(draft.operands.get("args", ())) - 1)
        self._read_results(c, draft)
        draft.results = draft.results or [UNKNOWN] * c.bound
        if not draft.operands and not self.bare:
            c.expected("`ins(...)` or operands", expects="form")

    def _read_dict(self, c: Parser, draft: OpDraft) -> None:
        if not (self.bare and starts_region(c)):
            draft.attributes |= c.dictionary()

    def _read_group(self, c: Parser, draft: OpDraft, name: str) -> None:
        c.expect("(", f" after `{name}`")
        part = name
        while c.word != ")":
            if c.starts_statement():
                c.expected("`)`", expects="form")
            part = self._read_item(c, draft, part)
            if c.accept(":"):
                self._read_type(c, draft, part)
                while c.accept(",") and c.kind != "value":
                    self._read_type(c, draft, part)
            elif not c.accept(",") and c.word not in (")", "{") and not c.word.isidentifier():
                c.expected(f"`,`, `:` or `)` in {name}(...)", expects="form")
        c.expect(")")

    def _read_item(self, c: Parser, draft: OpDraft, part: str) -> str:
        """A dictionary, a string, or an operand, perhaps behind a keyword. Gives the part that types then belong to."""
        if c.word == "{":
            inner = {**inside_of(draft.properties), **c.dictionary()}
            draft.properties[INSIDE] = inside_attribute(inner)
            c.spend(len(draft.properties[INSIDE].text))
        elif c.kind == "string":
            draft.properties[FORMAT] = string_attribute(c.string())
        else:
            if c.kind == "bare" and not c.is_part():
                close = near(c.word, c.scope) if c.word not in c.scope else c.word
                hint = f"did you mean `%{close}`?" if close else ""
                c.expected(f"an operand, as in `%x`, or `)` at the end of {part}(...)", hint, expects="form")
            part = c.advance() if c.kind == "bare" else part
            draft.add(part, c.operand(f"an operand of {part}(...)"))
        return part

    def _read_type(self, c: Parser, draft: OpDraft, part: str) -> None:
        if c.kind == "string":
            draft.properties[AXIS] = string_attribute(c.string())
        else:
            draft.types.setdefault(part, []).append(c.type())

    def _read_clauses(self, c: Parser, draft: OpDraft) -> None:
        while (name := c.word) in self.clauses or name in self.inside:
            c.places[name] = c.start
            c.advance()
            c.expect("=")
            if c.kind == "value":
                typed_operand(c, draft, name)
            else:
                draft.attributes[name] = read_attribute(c, KINDS.get(name, ""))

    def _read_results(self, c: Parser, draft: OpDraft) -> None:
        if c.accept("->"):
            draft.results += _types(c)

    def settle(self, draft: OpDraft) -> None:
        """Move attributes to where they belong."""
        moved = {name: draft.attributes.pop(name) for name in self.inside if name in draft.attributes}
        if moved:
            draft.properties[INSIDE] = inside_attribute({**inside_of(draft.properties), **moved})

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        if _has_values_only(op):
            return self._write_values(w, op, remaining)
        self._write_ins(w, op)
        if OUTS_TYPE in op.properties:
            w.add(f" outs : {op.results[0].type.text}")
        elif op.part("outs"):
            w.add(f" outs({_grouped(w, op.part('outs'))})")
        w.dictionary(remaining)
        self._write_clauses(w, op)
        if OUTS_TYPE not in op.properties:
            w.add(results_text(op))
        return None

    def _write_values(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        operands = op.operands
        if operands:
            w.add(f" {', '.join(map(w.value, operands))}")
        w.dictionary(remaining)
        typed = bool(operands) and all(value.type != UNKNOWN for value in operands)
        if typed:
            bracketed = len(operands) > 1 or not op.results or op.results[0].type == UNKNOWN
            types = ", ".join(value.type.text for value in operands)
            w.add(f" : ({types})" if bracketed else f" : {types}")
        w.add(results_text(op, always=typed))

    def _write_ins(self, w: Writer, op: MlirOp) -> None:
        values, inside, text = op.part("ins"), inside_of(op.properties), op.properties.get(FORMAT)
        others = [name for name in op.parts if name not in ("ins", "outs", *self.clauses)]
        if not (values or inside or text or others):
            return
        w.add(" ins(")
        if text is not None:
            w.add(f"{text.text}{', ' if values else ''}")
        w.add(typed_text(w, values) if self.each else _grouped(w, values, inside, listed=self.listed))
        if (axis := op.properties.get(AXIS)) is not None:
            w.add(f", {axis.text}")
        for name in others:
            w.add(f" {name} {typed_text(w, op.part(name))}")
        w.add(")")

    def _write_clauses(self, w: Writer, op: MlirOp) -> None:
        for name in self.clauses:
            if op.part(name):
                w.add(f" {name} = {typed_text(w, op.part(name))}")
            elif name in op.attributes:
                w.add(f" {name} = {plain_text(op.attributes[name], stripped=True)}")


def _has_values_only(op: MlirOp) -> bool:
    """Whether an op was written with values and results, without `ins` and `outs`."""
    if op.parts:
        return "args" in op.parts
    return bool(op.results) and OUTS_TYPE not in op.properties


def inside_of(properties: Attributes) -> Attributes:
    """Attributes that are written within `ins(...)`."""
    return dict(properties[INSIDE].value) if INSIDE in properties else {}


def inside_attribute(inner: Attributes) -> MlirAttribute:
    """Attributes that are written within `ins(...)`, as one."""
    return MlirAttribute(braced(inner), inner)


def _types(c: Parser) -> list[Type]:
    """`T, U` or `(T, U)` or `()`."""
    return type_list(c) if c.word == "(" else c.separated(c.type)


def _grouped(w: Writer, values: list[SsaValue], inside: Attributes | None = None, *, listed: bool = False) -> str:
    """`%a, %b {...} : T, U`."""
    text = ", ".join(map(w.value, values))
    if inside:
        text += (", " if listed and values else " " if values else "") + braced(inside)
    if values and all(value.type != UNKNOWN for value in values):
        text += f" : {', '.join(value.type.text for value in values)}"
    return text


@dataclass(frozen=True)
class Row:
    """All that is known of the text of an op."""

    pieces: tuple[Piece, ...]
    types: Callable[[str, OpDraft], Type | None] = lambda _name, _draft: None
    """The type of an operand whose type the text does not say."""
    result: Type | Callable[[dict[str, list[SsaValue]], Attributes], Type] | None = None
    """The type of the result, where the text does not state it."""
    order: tuple[str, ...] = ()
    """Attributes that are printed last, in this order."""

    @cached_property
    def grouped(self) -> tuple[Piece, ...]:
        """The pieces of the op with `ins` and `outs`, which pages also use where its own shape has neither."""
        return self.pieces if isinstance(self.pieces[0], Destinations) else (Destinations(),)

    @cached_property
    def named(self) -> frozenset[str]:
        """Attributes that a piece of the shape prints."""
        clauses = [name for piece in self.pieces if isinstance(piece, Destinations) for name in piece.clauses]
        return frozenset((*(piece.name for piece in attribute_pieces(self.pieces)), *clauses))

    def remaining(self, op: MlirOp) -> Attributes:
        """Attributes that no piece names, in the order of printing."""
        if not op.attributes:
            return {}
        named = self.named
        others = {name: value for name, value in op.attributes.items() if name not in named and name not in self.order}
        return others | {name: op.attributes[name] for name in self.order if name in op.attributes}

    def read(self, c: Parser, name: str) -> MlirOp:
        draft = OpDraft()
        for piece in self.pieces if c.word not in ("ins", "outs") else self.grouped:
            piece.read(c, draft)
        parts = {part: self._resolved(c, draft, part) for part in draft.operands}
        if self.result is not None:
            result_type = self.result if isinstance(self.result, Type) else self.result(parts, draft.attributes)
            draft.results.append(result_type)
        results = [SsaValue(kind) for kind in draft.results]
        return MlirOp(
            name, self, parts, results, draft.attributes, draft.properties, draft.regions, draft.successors
        )  # fmt: skip

    def _resolved(self, c: Parser, draft: OpDraft, part: str) -> list[SsaValue]:
        operands, types = draft.operands[part], draft.types.get(part)
        if types is None:
            return [self._untyped(c, draft, part, operand) for operand in operands]
        if len(types) != len(operands):
            what, expects = ("the op", "form") if part == "args" else (f"{part}(...)", "")
            message = f"{what} has {len(operands)} operands and {len(types)} types"
            c.fail(message, operands[0].offset, expects=expects)
        return [
            c.resolve(operand, type_) if type_ is not UNKNOWN else self._untyped(c, draft, part, operand)
            for operand, type_ in zip(operands, types, strict=True)
        ]

    def _untyped(self, c: Parser, draft: OpDraft, part: str, operand: OperandUse) -> SsaValue:
        if (known := c.lookup(operand)) is not None:
            c.spend(len(known.type.text))  # it is printed
            return known
        type_ = self.types(part, draft)
        if type_ is None:
            c.fail(f"expected the type of %{operand.name}, which is not defined above", operand.offset)
        return c.resolve(operand, type_)

    def write(self, w: Writer, op: MlirOp) -> None:
        before = None
        grouped = "ins" in op.parts or "outs" in op.parts
        remaining = self.remaining(op)
        for piece in _present(self.grouped if grouped else self.pieces, op, remaining):
            if _blank(before, piece):
                w.add(" ")
            piece.write(w, op, remaining)
            before = piece


def _present(pieces: Iterable[Piece], op: MlirOp, remaining: Attributes) -> Iterator[Piece]:
    """Pieces that have something to print; lists may be empty, they print nothing."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from piece.pieces if piece.present(op, remaining) else ()
        elif not piece.may_be_empty or piece.present(op, remaining):
            yield piece


def _blank(before: Piece | None, piece: Piece) -> bool:
    """Whether a blank stands between two pieces; the first piece stands behind the name of the op."""
    if isinstance(piece, Destinations) or piece.text in (",", "]", ")"):
        return False
    if before is None:
        return piece.text not in ("[", "(")
    if piece.text == "(" and isinstance(before, Attr):
        return False  # `@callee(`
    return before.text not in ("[", "(") and (piece.text != "[" or before.text != "%")
