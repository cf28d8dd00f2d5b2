"""Comments and blank lines: found before a text is read, kept by the operations that they stand at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from ptokit.text.mlir.ir import MlirOp, MlirRegion

_REMARK = re.compile(  # Python 3.11.2 fails with `++` around the lines
    r'(?P<string>"(?:[^"\\\n]|\\.)*+"?)|(?P<comment>//[^\n]*)|(?P<lines>(?:\n[ \t\r]*+//[^\n]*+)+)'
    r"|(?P<blank>\n(?:[ \t\r]*+\n)+)"
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
    for match in _REMARK.finditer(text):
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        if kind == "string":
            continue
        if kind == "blank":
            remarks.append(Remark(start, end, "", True))
            continue
        if kind == "lines":
            lines = match[kind].split("\n")
            remarks.append(Remark(start, end, "\n".join([line.strip() for line in lines[1:]]), True))
            pieces += text[done:start], "\n".join([" " * len(line) for line in lines])
            done = end
            continue
        line = text.rfind("\n", 0, start) + 1
        remarks.append(Remark(start, end, match[kind].rstrip(), line == start or text[line:start].isspace()))
        pieces += text[done:start], " " * (end - start)
        done = end
    return "".join([*pieces, text[done:]]), remarks


def attach(text: str, remarks: Sequence[Remark], ops: Iterable[MlirOp]) -> list[str]:
    """Give every remark to the operation, the block or the region that it stands at. Gives the lines at the end."""
    return _Attachment(text, remarks).attach(ops)


class _Attachment:
    """The remarks of a text, which are taken in their order."""

    def __init__(self, text: str, remarks: Sequence[Remark]) -> None:
        self._text, self._remarks, self._next = text, remarks, 0

    def attach(self, ops: Iterable[MlirOp]) -> list[str]:
        """Remarks at operations, and the lines behind the last one."""
        self._ops(ops)
        return _without_last_blank(_lines(self._take(len(self._text) + 1)))

    def _take(self, until: int) -> Sequence[Remark]:
        """Remarks up to an offset that nothing has got yet."""
        first = self._next
        while self._next < len(self._remarks) and self._remarks[self._next].start < until:
            self._next += 1
        return self._remarks[first : self._next]

    def _take_at_end(self, offset: int) -> str:
        """The comment at the end of a line, if only blanks stand between it and an offset."""
        remark = self._remarks[self._next] if self._next < len(self._remarks) else None
        if remark is None or remark.alone or not _SPACE.fullmatch(self._text, offset, remark.start):
            return ""
        self._next += 1
        return remark.text

    def _ops(self, ops: Iterable[MlirOp]) -> bool:
        """The operations of a block that the text has. Gives whether it has none."""
        is_first = True
        for op in ops:
            if op.end:
                self._op(op, is_first)
                is_first = False
        return is_first

    def _op(self, op: MlirOp, is_first: bool) -> None:
        op.before = _lines(self._take(op.offset), first=is_first)
        last: MlirRegion | None = None
        inside: list[Remark] = []
        for region in op.regions:
            if region.end:
                taken = [remark for remark in self._take(region.offset) if remark.text]
                if last is not None:
                    last.closing += _lines(taken)
                else:
                    inside += taken
                self._region(region)
                last = region
        inside += self._take(op.end)
        op.before += _lines(remark for remark in inside if remark.text)
        for region in op.regions:
            if not region.blocks:
                op.before += filter(None, [region.opening, *region.closing])
                region.opening, region.closing = "", []
        op.after = self._take_at_end(op.end)

    def _region(self, region: MlirRegion) -> None:
        region.opening, is_first = self._take_at_end(region.offset + 1), True
        for block in region.blocks:
            if block.label:
                block.comments = _lines(self._take(block.offset))
            is_first = self._ops(block.ops)
        region.closing = _without_last_blank(_lines(self._take(region.end), first=is_first))


def without_blank_ends(lines: Sequence[str], *, first: bool) -> list[str]:
    """The last lines of a block, as they are read again: no two blank ones in a row, none at the end.

    None comes at the beginning where no operation stands before them (`first`).
    """
    return _without_last_blank([line for k, line in enumerate(lines) if line or (lines[k - 1] if k else not first)])


def _without_last_blank(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _lines(remarks: Iterable[Remark], *, first: bool = False) -> list[str]:
    """Remarks as lines. No two blank lines follow each other, and no block begins with one."""
    lines: list[str] = []
    for blank, group in groupby((remark.text for remark in remarks), key=lambda text: not text):
        if not blank:
            lines += "\n".join(group).split("\n")
        elif lines or not first:
            lines.append("")
    return lines
