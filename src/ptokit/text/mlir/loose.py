"""Ops with unknown syntax: kept as they are written, with the values and the regions that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from ptokit.text.cursor import OperandUse
from ptokit.text.mlir.interface import Parser
from ptokit.text.mlir.ir import UNKNOWN, MlirAttribute, MlirOp, MlirRegion, SsaValue
from ptokit.text.mlir.writer import Writer

STARTS_REGION = re.compile(
    r'\{\s*(?:[%^]|"[^"\n]*"\s*\(|[A-Za-z_][\w$.]*(?!\s*[=,}\w$.]))'
    r"|\{[ \t\r]*\n\s*[A-Za-z_][\w$]*\.[\w$.]*(?!\s*[=,\w$.])",
    re.ASCII,
)
"""A brace that is not that of a dictionary."""
_LABELLED = re.compile(r"\{\s*\^", re.ASCII)
_BLANKS = re.compile(r'("(?:[^"\\\n]|\\.)*+"?)|\s+', re.ASCII)
_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")
WORDING = "$wording"
TYPED = {
    **dict.fromkeys(("memref.subview", "memref.reinterpret_cast", "memref.cast", "affine.load", "vector.load"), (0,)),
    "affine.store": (1,), "vector.store": (1, 0),
}  # fmt: skip
"""Ops whose last colon is followed by the types of these operands."""
GROUPS = ("ins(", "outs(")
"""What opens operands with their types behind a colon."""


class TextSlot(NamedTuple):
    """A place in the text of an op: for an operand, for a region, or for an argument of the next region."""

    kind: str
    number: int
    region: int = 0


class Loose:
    """An op that is kept as it is written. Its results get their types from where they are used."""

    def read(self, c: Parser, name: str) -> MlirOp:
        wording = _Wording(c, name)
        results = [SsaValue(UNKNOWN) for _ in range(c.bound)]
        wording.read()
        pieces = tuple(_joined(wording.pieces))
        properties = {WORDING: MlirAttribute(repr(pieces), pieces)}
        return MlirOp(name, self, {"operands": wording.operands}, results, {}, properties, wording.regions)

    def write(self, w: Writer, op: MlirOp) -> None:
        pieces, operands = op.properties[WORDING].value, op.operands
        headed = {piece.region for piece in pieces if isinstance(piece, TextSlot) and piece.kind == "argument"}
        for piece in pieces:
            if isinstance(piece, str):
                w.add(piece)
            elif piece.kind == "operand":
                w.add(w.value(operands[piece.number]))
            elif piece.kind == "region":
                w.region(op.regions[piece.number], labelled=piece.number not in headed)
            else:
                w.add(w.value(op.regions[piece.region].blocks[0].arguments[piece.number]))


LOOSE = Loose()


def ends_op(c: Parser) -> bool:
    """Whether the text can go on with another op."""
    if c.kind in ("end", "label") or c.word in ("}", "loc"):
        return True
    return c.starts_op()


def starts_region(c: Parser) -> bool:
    """Whether the text goes on with a region, and not with a dictionary."""
    return STARTS_REGION.match(c.text, c.start) is not None


def _joined(pieces: Sequence[str | TextSlot]) -> Iterator[str | TextSlot]:
    """Pieces, with neighbouring texts as one."""
    for is_text, group in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        if not is_text:
            yield from group
        elif text := "".join(group):  # type: ignore[arg-type]
            yield text


@dataclass
class _Wording:
    """Reads an op behind its name, to the end of its last line."""

    c: Parser
    name: str
    pieces: list[str | TextSlot] = field(default_factory=list)
    operands: list[SsaValue] = field(default_factory=list)
    regions: list[MlirRegion] = field(default_factory=list)
    new: dict[str, tuple[int, OperandUse]] = field(default_factory=dict)
    """Names that are not defined yet, with their numbers: arguments of the next region, if there is one."""
    settled: int = 0
    """The number of pieces up to the last region."""
    opened: list[int] = field(default_factory=list)
    """Where the brackets stand that are open."""
    uses: list[OperandUse] = field(default_factory=list)
    group: int = 0
    """The number of operands before the group that is open."""
    typed: dict[int, Sequence[int]] = field(default_factory=dict)
    """The numbers of operands whose types are written, by where these start."""

    def read(self) -> None:
        c = self.c
        self.done = c.behind
        while not self._at_end():
            if c.kind == "value":
                self._operand()
            elif c.word == "{" and starts_region(c):
                self._region()
            elif c.kind in ("bang", "hash") and c.word in c.aliases and c.text[c.end : c.end + 1] != "<":
                self._flush(c.start)
                self.pieces.append(c.alias(c.advance(), c.behind).text)
                self.done = c.behind
            elif c.kind == "bad":
                c.fail("")
            else:
                self._mark(c.word, c.text[c.end : c.end + 1])
                c.advance()
        self._flush(c.behind)
        self._settle()
        self._check_types()

    def _at_end(self) -> bool:
        c = self.c
        if c.kind == "end":
            if self.opened:
                at = self.opened[-1]
                c.fail(f"`{c.text[at]}` is not closed", at)
            return True
        if self.opened:
            return False
        if c.word in _CLOSING or (c.word == "loc" and c.text.startswith("(", c.end)):
            return True
        return c.is_on_new_line() and (c.kind == "label" or c.starts_op())

    def _mark(self, mark: str, following: str) -> None:
        """Note brackets; `<=` and `>=` are none."""
        if following == "=" and mark in ("<", ">"):
            return
        if mark == ":":
            self._note_types()
        elif mark in _OPENING:
            self.opened.append(self.c.start)
            self.group = len(self.uses)
        elif mark in _CLOSING:
            self.opened.pop()
        elif mark.startswith("^"):
            self.c.fail(f"`{self.name}` is not known; ops that branch are then read in the generic form only")

    def _note_types(self) -> None:
        """Note the operands whose types follow a colon."""
        c, is_known = self.c, max(TYPED.get(self.name, (len(self.uses),))) < len(self.uses)
        if self.opened and c.text.endswith(GROUPS, 0, self.opened[-1] + 1):
            self.typed[c.end] = range(self.group, len(self.uses))
        elif not self.opened and is_known:
            self.typed = {c.end: TYPED[self.name]}

    def _check_types(self) -> None:
        """Refuse operands that are not of the types that are written for them."""
        c = self.c
        following, behind = c.start, c.behind
        for at, numbers in self.typed.items():
            c.jump(at)
            kinds = c.separated(c.optional_type)
            if len(kinds) == len(numbers):
                for use, kind in zip((self.uses[number] for number in numbers), kinds, strict=True):
                    if kind is not None and c.lookup(use) is not None:
                        c.resolve(use, kind)
        c.jump(following)
        c.behind = behind

    def _flush(self, end: int) -> None:
        """Keep the text up to here."""
        self.pieces.append(_BLANKS.sub(lambda found: found[1] or " ", self.c.text[self.done : end]))

    def _operand(self) -> None:
        c = self.c
        self._flush(c.start)
        use = c.operand()
        self.uses.append(use)
        self.done = c.behind
        if (known := c.lookup(use)) is not None:
            self._add(known)
        elif use.name not in c.scope and not use.index:
            number, _ = self.new.setdefault(use.name, (len(self.new), use))
            self.pieces.append(TextSlot("argument", number, len(self.regions)))
        else:
            self._add(c.resolve(use, UNKNOWN))

    def _add(self, value: SsaValue) -> None:
        self.pieces.append(TextSlot("operand", len(self.operands)))
        self.operands.append(value)

    def _region(self) -> None:
        c = self.c
        self._flush(c.start)
        arguments = None
        if self.new and _LABELLED.match(c.text, c.start) is None:
            arguments = [(use, UNKNOWN, "") for _, use in self.new.values()]
        else:
            self._settle()
        self.pieces.append(TextSlot("region", len(self.regions)))
        self.regions.append(c.region(arguments))
        self.new, self.settled = {}, len(self.pieces)
        self.done = c.behind

    def _settle(self) -> None:
        """Names that no region defines are values that are defined later."""
        names = [use for _, use in self.new.values()]
        for position in range(self.settled, len(self.pieces)) if names else ():
            piece = self.pieces[position]
            if isinstance(piece, TextSlot) and piece.kind == "argument":
                self.pieces[position] = TextSlot("operand", len(self.operands))
                self.operands.append(self.c.resolve(names[piece.number], UNKNOWN))
        self.new = {}
