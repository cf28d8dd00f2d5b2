"""Comments and blank lines: found before a text is read, kept by the operations that they stand at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from ptokit.text.mlir.ir import MlirOp, MlirRegion

_REMARK = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*+"?)|(?P<comment>//[^\n]*)|(?P<lines>(?:\n[ \t\r]*+//[^\n]*+)++)'
    r"|(?P<blank>\n(?:[ \t\r]*+\n)++)"
)
"""Comments, lines of comments, blank lines, and the strings that they do not stand in."""
_SPACE = re.compile(r"\s*+")


class Remark(NamedTuple):
    """A comment, lines of comments, or a blank line: that has no text."""

    start: int
    end: int
    text: str
    alone: bool
    """Whether nothing stands before it on its line."""


def find_remarks(text: str) -> tuple[str, list[Remark]]:
    """The text with blanks instead of comments, and its comments and blank lines."""
    remarks: list[Remark] = []
    pieces: list[str] = []
    done = 0
    for found in _REMARK.finditer(text):
        kind = found.lastgroup or ""
        start, end = found.span(kind)
        if kind == "string":
            continue
        if kind == "blank":
            remarks.append(Remark(start, end, "", True))
            continue
        if kind == "lines":
            lines = found[kind].split("\n")
            remarks.append(Remark(start, end, "\n".join([line.strip() for line in lines[1:]]), True))
            pieces += text[done:start], "\n".join([" " * len(line) for line in lines])
            done = end
            continue
        line = text.rfind("\n", 0, start) + 1
        remarks.append(Remark(start, end, found[kind].rstrip(), line == start or text[line:start].isspace()))
        pieces += text[done:start], " " * (end - start)
        done = end
    return "".join([*pieces, text[done:]]), remarks


class Collector:
    """Gives every remark to the operation that it stands at, while operations are read one after the other."""

    def __init__(self, text: str, remarks: Sequence[Remark]) -> None:
        self._text, self._remarks, self._next = text, remarks, 0
        self._first = True
        """Whether the next operation is the first of its block."""
        self._inside: list[Remark] = []
        """Remarks within the operation that is read, apart from its regions."""
        self._regions: list[MlirRegion] = []
        """Regions of the operation that is read."""
        self._last_lines: list[str] = []
        """Lines at the end of the block that was read last."""

    def _take(self, until: int) -> Sequence[Remark]:
        """Remarks up to an offset that nothing has got yet."""
        first = at = self._next
        while at < len(self._remarks) and self._remarks[at].start < until:
            at += 1
        self._next = at
        return self._remarks[first:at] if at > first else ()

    def enter(self, start: int) -> tuple[Sequence[str], list[Remark], list[MlirRegion]]:
        """An operation starts. What comes back is for `leave`."""
        taken = self._take(start)
        before = _lines(taken, first=self._first) if taken else ()
        outer = before, self._inside, self._regions
        self._first, self._inside, self._regions = False, [], []
        return outer

    def leave(self, op: MlirOp, outer: tuple[Sequence[str], list[Remark], list[MlirRegion]], following: int) -> None:
        """An operation ends somewhere before the token that follows it."""
        before, regions = list(outer[0]), self._regions
        if self._next < len(self._remarks) and self._remarks[self._next].start < following:
            self._end(op, following)
        if self._inside:
            before += _lines([remark for remark in self._inside if remark.text])
        own = {id(region) for region in op.regions}
        for region in regions:
            if not region.blocks or id(region) not in own:
                before += filter(None, [region.opening, *region.closing])
                region.opening, region.closing = "", []
        op.before = before
        _, self._inside, self._regions = outer

    def _end(self, op: MlirOp, following: int) -> None:
        """Share the remarks between the last region of an operation and the next token."""
        first = last = self._next
        while last < len(self._remarks) and self._remarks[last].start < following:
            last += 1
        behind = last
        while behind > first and self._is_space(self._remarks[behind - 1].end, following):
            behind -= 1
            following = self._remarks[behind].start
        self._inside += self._remarks[first:behind]
        self._next = behind
        if behind < last and not self._remarks[behind].alone:
            op.after = self._remarks[behind].text
            self._next += 1

    def _is_space(self, start: int, end: int) -> bool:
        return _SPACE.fullmatch(self._text, start, end) is not None

    def open(self, brace: int) -> str:
        """A region starts. Gives the comment behind its brace."""
        taken = [remark for remark in self._take(brace) if remark.text]
        if self._regions:
            self._regions[-1].closing += _lines(taken)
        else:
            self._inside += taken
        remark = self._remarks[self._next] if self._next < len(self._remarks) else None
        if remark is None or remark.alone or not self._is_space(brace + 1, remark.start):
            return ""
        self._next += 1
        return remark.text

    def close(self, region: MlirRegion, opening: str, brace: int) -> None:
        """A region ends. `brace` is where its closing brace stands, if it has no blocks."""
        lines = self._last_lines if region.blocks else _lines(self._take(brace), first=True)
        self._last_lines = []
        while lines and not lines[-1]:
            lines.pop()
        region.opening, region.closing = opening, lines
        self._regions.append(region)

    def start_block(self) -> None:
        """The operations of a block follow."""
        self._first = True

    def end_block(self, following: int, *, last: bool) -> None:
        """The operations of a block end; if it is the last block, its region does as well."""
        if last:
            self._last_lines = _lines(self._take(following), first=self._first)
        self._first = False

    def label(self, start: int) -> list[str]:
        """Lines before a label."""
        return _lines(self._take(start))

    def finish(self) -> list[str]:
        """The text ends. Gives the lines at its end."""
        lines = _lines(self._take(len(self._text) + 1))
        while lines and not lines[-1]:
            lines.pop()
        return lines


def without_blank_ends(lines: Sequence[str], *, first: bool) -> list[str]:
    """The last lines of a block, as they are read again: no two blank ones in a row, none at the end.

    None comes at the beginning where no operation stands before them (`first`).
    """
    kept = [line for k, line in enumerate(lines) if line or (lines[k - 1] if k else not first)]
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _lines(remarks: Iterable[Remark], *, first: bool = False) -> list[str]:
    """Remarks as lines, of which no two blank ones follow each other; none comes first in a block."""
    lines: list[str] = []
    for blank, group in groupby((remark.text for remark in remarks), key=lambda text: not text):
        if not blank:
            lines += "\n".join(group).split("\n")
        elif lines or not first:
            lines.append("")
    return lines
