"""Ops with unknown syntax: kept as they are written, with the values and the regions that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ptokit.text.cursor import OperandUse
from ptokit.text.mlir.ir import UNKNOWN, MlirAttribute, MlirOp, MlirRegion, SsaValue
from ptokit.text.mlir.parser import Parser
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


VerbatimPiece = str | SsaValue | OperandUse | MlirRegion
"""A part of the text of an op: text as written, a value, a name that is not defined yet, or a region."""


class VerbatimForm:
    """An op that is kept as it is written. Its results get their types from where they are used."""

    def read(self, c: Parser, name: str) -> MlirOp:
        reader = _VerbatimReader(c, name)
        results = [SsaValue(UNKNOWN) for _ in range(c.bound)]
        reader.read()
        pieces = tuple(_joined(reader.pieces))
        text = "".join(piece if isinstance(piece, str) else "%" for piece in pieces)
        regions = [piece for piece in pieces if isinstance(piece, MlirRegion)]
        headed = {argument for region in regions for block in region.blocks[:1] for argument in block.arguments}
        operands = [piece for piece in pieces if isinstance(piece, SsaValue) and piece not in headed]
        return MlirOp(name, self, {"operands": operands}, results, {}, {WORDING: MlirAttribute(text, pieces)}, regions)

    def write(self, w: Writer, op: MlirOp) -> None:
        pieces: tuple[VerbatimPiece, ...] = op.properties[WORDING].value
        values = {piece for piece in pieces if isinstance(piece, SsaValue)}
        for piece in pieces:
            if isinstance(piece, MlirRegion):
                w.region(piece, labelled=not any(values.intersection(block.arguments) for block in piece.blocks[:1]))
            else:
                w.add(w.value(piece) if isinstance(piece, SsaValue) else str(piece))


VERBATIM = VerbatimForm()


def ends_op(c: Parser) -> bool:
    """Whether the text can go on with another op."""
    if c.kind in ("end", "label") or c.word in ("}", "loc"):
        return True
    return c.starts_op()


def starts_region(c: Parser) -> bool:
    """Whether the text goes on with a region, and not with a dictionary."""
    return STARTS_REGION.match(c.text, c.start) is not None


def _joined(pieces: Sequence[VerbatimPiece]) -> Iterator[VerbatimPiece]:
    """Pieces, with neighbouring texts as one."""
    for is_text, group in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        if not is_text:
            yield from group
        elif text := "".join(group):  # type: ignore[arg-type]
            yield text


@dataclass
class _VerbatimReader:
    """Reads an op behind its name, to the end of its last line."""

    c: Parser
    name: str
    pieces: list[VerbatimPiece] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    """The pieces that are names of no value yet: arguments of the next region, if there is one."""
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
                for use, type_ in zip((self.uses[number] for number in numbers), kinds, strict=True):
                    if type_ is not None and c.lookup(use) is not None:
                        c.resolve(use, type_)
        c.jump(following)
        c.behind = behind

    def _flush(self, end: int) -> None:
        """Keep the text up to here."""
        self.pieces.append(_BLANKS.sub(lambda match: match[1] or " ", self.c.text[self.done : end]))

    def _operand(self) -> None:
        c = self.c
        self._flush(c.start)
        use = c.operand()
        self.uses.append(use)
        self.done = c.behind
        if c.lookup(use) is None and use.name not in c.scope and not use.index:
            self.open.append(len(self.pieces))
            self.pieces.append(use)
        else:
            self.pieces.append(c.resolve(use, UNKNOWN))

    def _region(self) -> None:
        c = self.c
        self._flush(c.start)
        is_headed = self.open and _LABELLED.match(c.text, c.start) is None
        uses: dict[str, OperandUse] = {}
        for use in (self.pieces[at] for at in self.open):
            assert isinstance(use, OperandUse)
            uses.setdefault(use.name, use)
        if not is_headed:
            self._settle()
        region = c.region([(use, UNKNOWN, "") for use in uses.values()] if is_headed else None)
        values = {value.name: value for block in region.blocks[:1] for value in block.arguments}
        self._fill(lambda use: values[use.name])
        self.pieces.append(region)
        self.done = c.behind

    def _settle(self) -> None:
        """Names that no region defines are values that are defined later."""
        self._fill(lambda use: self.c.resolve(use, UNKNOWN))

    def _fill(self, value_of: Callable[[OperandUse], SsaValue]) -> None:
        """Put values in the place of names."""
        for at in self.open:
            use = self.pieces[at]
            assert isinstance(use, OperandUse)
            self.pieces[at] = value_of(use)
        self.open = []
