"""Pieces of shapes: words, operands, types, attributes, bodies. Each reads and prints itself.

The language of shapes is in `text/ops.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ptokit.text.cursor import OperandUse, entry_text
from ptokit.text.mlir.attributes import (
    array_attribute,
    integer,
    plain_text,
    read_attribute,
    string_attribute,
    symbol_attribute,
)
from ptokit.text.mlir.ir import UNIT, UNKNOWN, Attributes, Block, MlirAttribute, MlirOp, MlirRegion, SsaValue, Type
from ptokit.text.mlir.parser import Parser
from ptokit.text.mlir.types import outputs_text, read_pointer, shaped_like, type_list
from ptokit.text.mlir.writer import Writer
from ptokit.text.tree import items_of

INSIDE, FORMAT, AXIS, OUTS_TYPE, FLAGS = "$inside", "$format", "$axis", "$outs_type", "$flags"
"""Properties that hold what the text of an op says besides operands and attributes."""


@dataclass
class OpDraft:
    """An op while it is read."""

    operands: dict[str, list[OperandUse]] = field(default_factory=dict)
    types: dict[str, list[Type]] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=dict)
    properties: Attributes = field(default_factory=dict)
    results: list[Type] = field(default_factory=list)
    regions: list[MlirRegion] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)

    def add(self, name: str, operand: OperandUse) -> None:
        """One more operand of a part."""
        self.operands.setdefault(name, []).append(operand)


class Piece:
    """A part of a shape. `text` is what decides about blanks around it."""

    text = ""
    may_be_empty = False
    """Whether nothing is printed, and no blank before it, if the op has none of it."""

    def starts(self, c: Parser) -> bool:
        """Whether the text goes on with this piece."""
        return c.word == self.text

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        """Whether the op has something to print here."""
        return True

    def read(self, c: Parser, draft: OpDraft) -> None:
        """Take the piece off the text."""

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        """Print the piece. `remaining` are the attributes that no piece names."""


def typed_operand(c: Parser, draft: OpDraft, name: str) -> None:
    """`%x : T`."""
    draft.add(name, c.operand(f"an operand, {name}"))
    c.expect(":")
    draft.types.setdefault(name, []).append(c.type())


def typed_text(w: Writer, values: list[SsaValue]) -> str:
    """`%a : T, %b : U`."""
    return ", ".join(w.value(v) + (f" : {v.type.text}" if v.type != UNKNOWN else "") for v in values)


def results_text(op: MlirOp, *, always: bool = False) -> str:
    """` -> T`, or ` -> (T, U)`."""
    types = [value.type for value in op.results]
    if UNKNOWN in types or (not types and not always):
        return ""
    return f" -> {types[0].text if len(types) == 1 else outputs_text(types)}"


@dataclass
class Word(Piece):
    """Itself: a punctuation mark or a keyword."""

    text: str

    def read(self, c: Parser, draft: OpDraft) -> None:
        c.expect(self.text)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(self.text)


@dataclass
class Operand(Piece):
    """One operand, or a list of them."""

    name: str
    many: bool = False
    text = "%"

    def starts(self, c: Parser) -> bool:
        return c.kind == "value"

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        return bool(op.part(self.name))

    def read(self, c: Parser, draft: OpDraft) -> None:
        if self.many and c.kind not in ("value", "number"):
            return
        draft.add(self.name, c.operand(f"an operand, %{self.name}"))
        while self.many and c.accept(","):
            draft.add(self.name, c.operand())

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(", ".join(map(w.value, op.part(self.name))))


@dataclass
class TypeOf(Piece):
    """The type of an operand, or of the result."""

    name: str
    stripped: bool = False

    def read(self, c: Parser, draft: OpDraft) -> None:
        type_ = read_pointer(c) if self.stripped and c.word == "<" else c.type()
        (draft.results if self.name == "R" else draft.types.setdefault(self.name, [])).append(type_)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        text = (op.results[0] if self.name == "R" else op.part(self.name)[0]).type.text
        w.add(text.removeprefix("!pto.ptr") if self.stripped and text.startswith("!pto.ptr<") else text)


@dataclass
class OneType(Piece):
    """One type for several operands, and perhaps for the result."""

    parts: tuple[str, ...]
    gives: Type | str = ""
    """What the type of the result is: `same`, one that is shaped like the operands', or nothing."""

    def read(self, c: Parser, draft: OpDraft) -> None:
        type_ = c.type()
        for part in self.parts:
            draft.types[part] = [type_] * len(draft.operands.get(part, ()))
        if self.gives:
            draft.results.append(type_ if isinstance(self.gives, str) else shaped_like(type_, self.gives))

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(op.part(self.parts[0])[0].type.text)


@dataclass
class Typed(Operand):
    """Operands with their types behind a colon, or nothing: `%a, %b : T, U`."""

    many: bool = True
    may_be_empty = True

    def read(self, c: Parser, draft: OpDraft) -> None:
        if c.kind != "value" or c.starts_results():
            return
        super().read(c, draft)
        c.expect(":")
        draft.types[self.name] = c.separated(c.type)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        values = op.part(self.name)
        w.add(f"{', '.join(map(w.value, values))} : {', '.join(value.type.text for value in values)}")


@dataclass
class SignaturePiece(Piece):
    """`(T, U) -> R`: the types of all operands and of the results."""

    name: str

    def read(self, c: Parser, draft: OpDraft) -> None:
        draft.types[self.name] = c.listed("(", c.type)
        c.expect("->")
        draft.results += type_list(c)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        inputs = ", ".join(value.type.text for value in op.part(self.name))
        w.add(f"({inputs}) -> {outputs_text([value.type for value in op.results])}")


@dataclass
class Attr(Piece):
    """An attribute that the shape names, so that the text need not."""

    name: str
    kind: str
    full: bool = False

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        return self.name in op.attributes

    def read(self, c: Parser, draft: OpDraft) -> None:
        c.places[self.name] = c.start
        draft.attributes[self.name] = self._value(c)

    def _value(self, c: Parser) -> MlirAttribute:
        if self.kind == "ints":
            return array_attribute([integer(number) for number in c.listed("[", lambda: c.integer(negative=True))])
        if self.kind == "symbol":
            return symbol_attribute(c.symbol())
        if self.kind.startswith("words:"):
            return MlirAttribute(word := c.one_of("comparison", self.kind[6:].split("/")), word)
        return read_attribute(c, self.kind)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        value = op.attributes[self.name]
        if self.kind == "ints" and (items := items_of(value.value)) is not None:
            w.add(f"[{', '.join(map(str, items))}]")
        else:
            w.add(plain_text(value, stripped=not self.full))


class Address(Attr):
    """An address of a tile: `@tile(0x1000)`, or with a name for it."""

    def _value(self, c: Parser) -> MlirAttribute:
        if c.word != "@tile":
            c.fail("expected an address: `%x` or `@tile(0x1000)`")
        c.advance()
        c.expect("(")
        found = string_attribute(c.advance()) if c.kind == "bare" else integer(c.integer())
        c.expect(")")
        return found

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        value = op.attributes[self.name].value
        w.add(f"@tile({value:#x})" if isinstance(value, int) else f"@tile({value})")


@dataclass
class Either(Piece):
    """A number, or an operand that holds it."""

    attr: Attr
    operand: Operand

    def read(self, c: Parser, draft: OpDraft) -> None:
        (self.operand if c.kind == "value" else self.attr).read(c, draft)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        (self.operand if op.part(self.operand.name) else self.attr).write(w, op, remaining)


@dataclass
class Dictionary(Piece):
    """The attributes that no other piece names."""

    literal: bool = False
    text = "{"
    may_be_empty = True

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        return bool(remaining)

    def read(self, c: Parser, draft: OpDraft) -> None:
        if not self.literal:
            draft.attributes |= c.dictionary()
        elif c.word == "{":
            draft.attributes |= c.listed("{", lambda: _entry(c))

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        texts = {k: plain_text(value, stripped=True) if self.literal else value.text for k, value in remaining.items()}
        w.add(f"{{{', '.join(entry_text(*item) for item in texts.items())}}}")


KINDS = {"location": "address_space", "pad_mode": "padmode", "maskPattern": "mask_pattern"}
"""Attributes that may be written without their prefix, with their meanings."""


def _entry(c: Parser) -> tuple[str, MlirAttribute]:
    at, name = c.start, c.optional_word()
    if name is None:
        c.expected("the name of an attribute")
    c.places[name] = at
    return name, read_attribute(c, KINDS.get(name, "")) if c.accept("=") else UNIT


@dataclass
class Maybe(Piece):
    """Pieces that are all there, or none."""

    pieces: tuple[Piece, ...]

    def starts(self, c: Parser) -> bool:
        return self.pieces[0].starts(c)

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        given = any(piece.present(op, remaining) for piece in self.pieces if isinstance(piece, (Operand, Attr)))
        return given or (bool(op.results) and any(isinstance(p, TypeOf) and p.name == "R" for p in self.pieces))

    def read(self, c: Parser, draft: OpDraft) -> None:
        if self.starts(c):
            for piece in self.pieces:
                piece.read(c, draft)


_FLAG = re.compile(
    r"(?:overflow|fastmath)\s*<[^>\n]{0,80}>|(?:nneg|exact|to_nearest_even|to_nearest_away|downward|upward|toward_zero)\b"
)


class Flags(Piece):
    """Flags of arithmetic, kept as they are written: `overflow<nsw>`, `fastmath<nnan>`, `nneg`."""

    may_be_empty = True

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        return FLAGS in op.properties

    def read(self, c: Parser, draft: OpDraft) -> None:
        flags: list[str] = []
        while (match := _FLAG.match(c.text, c.start)) is not None:
            flags.append("".join(match[0].split()))
            c.jump(match.end())
        if flags:
            draft.properties[FLAGS] = MlirAttribute(" ".join(flags))

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(op.properties[FLAGS].text)


class BodyPiece(Piece):
    """A region of one block."""

    def read(self, c: Parser, draft: OpDraft) -> None:
        region = c.region()
        region.blocks = region.blocks or [Block()]
        draft.regions.append(region)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.region(op.regions[0])


@dataclass
class Successor(Piece):
    """A successor block with its arguments: `^next(%a : T)`."""

    name: str

    def read(self, c: Parser, draft: OpDraft) -> None:
        draft.successors.append(c.successor())
        if c.word == "(":
            c.advance()
            Typed(self.name).read(c, draft)
            c.expect(")")

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(f"^{w.label(op.successors[int(self.name[-1:])])}")
        if op.part(self.name):
            w.add("(")
            Typed(self.name).write(w, op, remaining)
            w.add(")")


class Keyed(Piece):
    """`(key = %x : T, ...)`: operands that say which they are."""

    text = "(keyed"

    def read(self, c: Parser, draft: OpDraft) -> None:
        c.listed("(", lambda: self._item(c, draft))

    def _item(self, c: Parser, draft: OpDraft) -> None:
        at, name = c.start, c.name()
        if name in draft.operands:
            c.fail(f"`{name}` is given twice", at)
        c.expect("=")
        typed_operand(c, draft, name)

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(f"({', '.join(f'{name} = {typed_text(w, values)}' for name, values in op.parts.items())})")


class Assigned(Piece):
    """The types of an assignment: `: T -> T`, `: T, i64` where it has no result, or none."""

    text = ":"
    may_be_empty = True

    def present(self, op: MlirOp, remaining: Attributes) -> bool:
        known = op.results and op.results[0].type != UNKNOWN
        return bool(known or (op.part("addr") and all(value.type != UNKNOWN for value in op.operands)))

    def read(self, c: Parser, draft: OpDraft) -> None:
        if c.accept(":"):
            draft.types["tile"] = [c.type()]
            if c.accept(","):
                draft.types["addr"] = [c.type()]
            if c.accept("->"):
                draft.results.append(c.type())
        if not draft.results:
            draft.results += [UNKNOWN] * c.bound

    def write(self, w: Writer, op: MlirOp, remaining: Attributes) -> None:
        w.add(f": {op.part('tile')[0].type.text}")
        w.add(results_text(op) if op.results else f", {op.part('addr')[0].type.text}")


# --- Shapes --------------------------------------------------------------------------------------------------------


def attribute_pieces(pieces: Iterable[Piece]) -> Iterator[Attr]:
    """The attributes that a shape names."""
    for piece in pieces:
        if isinstance(piece, Attr):
            yield piece
        elif isinstance(piece, Either):
            yield piece.attr
        elif isinstance(piece, Maybe):
            yield from attribute_pieces(piece.pieces)


def operand_names(pieces: Iterable[Piece]) -> Iterator[str]:
    """The parts that operands play, in the order in which they are stored: that of the shape."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from operand_names(piece.pieces)
        elif isinstance(piece, Operand | Either):
            yield piece.operand.name if isinstance(piece, Either) else piece.name


def operand_parts(pieces: Iterable[Piece], operands: list[SsaValue]) -> dict[str, list[SsaValue]] | None:
    """Operands by the parts that they play: one each, or all of them one; None if they do not fit the shape."""
    names = list(operand_names(pieces))
    if names == ["args"]:
        return {"args": operands} if operands else {}
    if len(names) != len(operands):
        return None
    return {name: [value] for name, value in zip(names, operands, strict=True)}


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
    "region": BodyPiece(), "keyed": Keyed(),
    "assigned": Assigned(),
    "flags": Flags(), "call": SignaturePiece("args"), "R": TypeOf("R"), "~R": TypeOf("R", stripped=True),
}  # fmt: skip


def _piece(token: str) -> Piece:
    head, rest = token[0], token[1:]
    if token in _FIXED:
        return _FIXED[token]
    if head == "{":
        return Dictionary(literal=rest.startswith("!"))
    if token.startswith("T:"):
        parts, _, gives = token[2:].partition("=")
        return OneType(tuple(parts.split(",")), "same" if gives == "R" else Type(gives) if gives else "")
    if head == "@":
        return Either(Address(rest.partition("|")[0], ""), Operand(token.partition("%")[2]))
    if "|%" in token:
        return Either(Attr(rest.partition("|")[0], ""), Operand(token.partition("%")[2]))
    if head == "%":
        return Typed(rest[:-1]) if rest.endswith(":") else Operand(rest.removesuffix("*"), rest.endswith("*"))
    if head == ">" and rest:
        return Successor(rest)
    if head in "^~":
        return TypeOf(rest, stripped=head == "~")
    if head == "#":
        name, _, kind = rest.partition(":")
        return Attr(name, kind.removesuffix("!"), kind.endswith("!"))
    return Word(token)
