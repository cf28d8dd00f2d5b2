"""How ops are written: a row of pieces for each op, which reads and prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ptokit.text.cursor import OperandUse
from ptokit.text.mlir.destinations import Destinations
from ptokit.text.mlir.ir import UNKNOWN, Attributes, MlirOp, SsaValue, Type
from ptokit.text.mlir.parser import Parser
from ptokit.text.mlir.pieces import Attr, Maybe, OpDraft, Piece, attribute_pieces
from ptokit.text.mlir.writer import Writer


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
            what, expects = ("the op", "form") if part == "args" else (f"{part}(...)", "")
            message = f"{what} has {len(operands)} operands and {len(kinds)} types"
            c.fail(message, operands[0].offset, expects=expects)
        return [
            c.resolve(operand, kind) if kind is not UNKNOWN else self._untyped(c, draft, part, operand)
            for operand, kind in zip(operands, kinds, strict=True)
        ]

    def _untyped(self, c: Parser, draft: OpDraft, part: str, operand: OperandUse) -> SsaValue:
        if (known := c.lookup(operand)) is not None:
            c.spend(len(known.type.text))  # it is printed
            return known
        kind = self.types(part, draft)
        if kind is None:
            c.fail(f"expected the type of %{operand.name}, which is not defined above", operand.offset)
        return c.resolve(operand, kind)

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
