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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from ptokit.text.mlir.destinations import Destinations
from ptokit.text.mlir.ops import (
    SEGMENTS,
    Draft,
    Piece,
    PtoOp,
    SegmentsAttr,
    next_text,
)
from ptokit.text.mlir.pieces import (
    Address,
    Assigned,
    Attr,
    Attributes,
    Body,
    Either,
    Keyed,
    Maybe,
    Operand,
    TypeOf,
    Word,
)


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
        for piece in self.pieces if next_text(parser) not in ("ins", "outs") else self.grouped:
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
