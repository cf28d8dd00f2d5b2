"""How ops are written: shapes made of pieces that read and print themselves.

A shape is written in a small language, one token for each piece:

    %x  %x*         an operand; a list of operands
    %x:             operands with their types behind a colon, or nothing
    ^x  ~x          the type of an operand; the same where `!pto.ptr` is left away
    R   ~R          the type of the result; stripped
    T:x,y  T:x,y=R  one type for operands; also for the result
    #x:kind         an attribute without its name, `<KW>`; `#x:kind!` in full; kinds `int` and `ints` are plain numbers
    #x|%x           a number or an operand
    @x|%x           an address, `@tile(0x1000)`, or an operand
    {}  {!}         the remaining attributes; the same with plain numbers and stripped keywords
    (? ... ?)       a part that may be missing, known by its first piece
    >x0             a block to go to, with its operands
    region  keyed   a body; `key = %x : T` in parentheses
    flags           flags of arithmetic
    call            the types of all operands and results
    assigned        the types of an assignment
    anything else   itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ptokit.text.mlir.cursor import OperandUse
from ptokit.text.mlir.destinations import Destinations
from ptokit.text.mlir.interface import Parser, Printer
from ptokit.text.mlir.ir import Attributes, MlirOp, SsaValue, Type
from ptokit.text.mlir.pieces import (
    Address,
    Assigned,
    Attr,
    BodyPiece,
    Dictionary,
    Either,
    Flags,
    Keyed,
    Maybe,
    OneType,
    OpDraft,
    Operand,
    Piece,
    SignaturePiece,
    Successor,
    Typed,
    TypeOf,
    Word,
)


@dataclass(frozen=True)
class Row:
    """All that is known of the text of an op."""

    pieces: tuple[Piece, ...]
    types: Callable[[str, OpDraft], Type | None] = lambda _name, _draft: None
    """The type of an operand whose type the text does not say."""
    result: Type | Callable[[dict[str, list[SsaValue]], Attributes], Type] | None = None
    """The type of the result, where the text does not say it."""
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
        found = {name: value for name, value in op.attributes.items() if name not in named and name not in self.order}
        return found | {name: op.attributes[name] for name in self.order if name in op.attributes}

    def read(self, c: Parser, name: str) -> MlirOp:
        """An op, from behind its name."""
        draft = OpDraft()
        for piece in self.pieces if c.word not in ("ins", "outs") else self.grouped:
            piece.read(c, draft)
        parts = {part: self._resolved(c, draft, part) for part in draft.operands}
        if self.result is not None:
            given = self.result if isinstance(self.result, Type) else self.result(parts, draft.attributes)
            draft.results.append(given)
        results = [SsaValue(kind) for kind in draft.results]
        return MlirOp(
            name, self, parts, results, draft.attributes, draft.properties, draft.regions, draft.successors
        )  # fmt: skip

    def _resolved(self, c: Parser, draft: OpDraft, part: str) -> list[SsaValue]:
        operands, kinds = draft.operands[part], draft.types.get(part)
        if kinds is None:
            return [self._untyped(c, draft, part, operand) for operand in operands]
        if len(kinds) != len(operands):
            what = "the op" if part == "args" else f"{part}(...)"
            c.fail(f"{what} has {len(operands)} operands and {len(kinds)} types", operands[0].offset)
        return [c.resolve(operand, kind) for operand, kind in zip(operands, kinds, strict=True)]

    def _untyped(self, c: Parser, draft: OpDraft, part: str, operand: OperandUse) -> SsaValue:
        if (known := c.lookup(operand)) is not None:
            return known
        kind = self.types(part, draft)
        if kind is None:
            c.fail(f"expected the type of %{operand.name}, which is not defined above", operand.offset)
        return c.resolve(operand, kind)

    def write(self, w: Printer, op: MlirOp) -> None:
        """The op, from behind its name."""
        before = None
        grouped = "ins" in op.parts or "outs" in op.parts
        remaining = self.remaining(op)
        for piece in _present(self.grouped if grouped else self.pieces, op, remaining):
            if _blank(before, piece):
                w.add(" ")
            piece.write(w, op, remaining)
            before = piece


def attribute_pieces(pieces: Iterable[Piece]) -> Iterator[Attr]:
    """The attributes that a shape names."""
    for piece in pieces:
        if isinstance(piece, Attr):
            yield piece
        elif isinstance(piece, Either):
            yield piece.attr
        elif isinstance(piece, Maybe):
            yield from attribute_pieces(piece.pieces)


def _present(pieces: Iterable[Piece], op: MlirOp, remaining: Attributes) -> Iterator[Piece]:
    """Pieces that have something to print; lists may be empty, they print nothing."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from piece.pieces if piece.present(op, remaining) else ()
        elif not isinstance(piece, (Dictionary, Assigned, Flags, Typed)) or piece.present(op, remaining):
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


def operand_names(pieces: Iterable[Piece]) -> Iterator[str]:
    """The parts that operands play, in the order in which they are stored: that of the shape."""
    for piece in pieces:
        if isinstance(piece, Maybe):
            yield from operand_names(piece.pieces)
        elif isinstance(piece, Operand | Either | Typed):
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
    "{}": Dictionary(), "{!}": Dictionary(literal=True), "region": BodyPiece(), "keyed": Keyed(),
    "assigned": Assigned(),
    "flags": Flags(), "call": SignaturePiece("args"), "R": TypeOf("R"), "~R": TypeOf("R", stripped=True),
}  # fmt: skip


def _piece(token: str) -> Piece:
    head, rest = token[0], token[1:]
    if token in _FIXED:
        return _FIXED[token]
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
