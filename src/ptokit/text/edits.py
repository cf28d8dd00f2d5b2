"""Edits of a program in its text. The rest of the text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptokit.program.repair import BEFORE, INSERT, REMOVE, Edit, Unpatchable, spelled
from ptokit.text.forms import form_of, read_unit
from ptokit.text.tree import Operation, walk

BETWEEN = {"mlir": " ", "as": "; "}
"""What stands between two statements of one line."""
_COMMENT = re.compile(r"(?://|--|#).*", re.DOTALL)
_EMPTY = re.compile(r"(?:;\s*)+(?=;|$)|^(?:\s*;)+\s*")
Piece = tuple[int, int, str]
"""A range of the text, and what replaces it."""


def edited_text(text: str, file: str, edits: Sequence[Edit]) -> str:
    """The text with edits of its program."""
    return _Editor(text, file).apply(edits)


class _Editor:
    """A text and the places of its operations."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.form = text, form_of(text, file)
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self._mark = text.startswith("\ufeff")
        self.operations = {
            (op.where.line, op.where.column): op
            for function in read_unit(text, file).functions
            for op in walk(function.body)
            if op.where is not None
        }

    def apply(self, edits: Sequence[Edit]) -> str:
        """The text with edits."""
        pieces = sorted({piece: None for edit in edits for piece in self._pieces(edit)}, key=lambda piece: piece[:2])
        done, at = "", 0
        for start, end, new in pieces:
            done += self.text[at:start] + new
            at = max(at, end)
        return done + self.text[at:]

    def _pieces(self, edit: Edit) -> Iterator[Piece]:
        where = edit.where
        operation = self.operations.get((where.line, where.column)) if where else None
        if operation is None:
            raise Unpatchable(f"no operation of the text is at {where}")
        start, end = self._span(operation)
        written = spelled(edit.stmt, self.form)
        if edit.action == INSERT:
            yield self._insertion(start if edit.side == BEFORE else end, edit.side == BEFORE, written, start)
        elif edit.action == REMOVE:
            yield self._removal(start, end)
        else:
            yield start, end, written

    def _span(self, operation: Operation) -> tuple[int, int]:
        assert operation.where is not None
        if operation.end is None:
            raise Unpatchable(f"the end of the operation at {operation.where} is not known")
        return tuple(  # type: ignore[return-value]
            self.starts[place.line - 1] + (place.column or 1) - 1 + (self._mark and place.line == 1)
            for place in (operation.where, operation.end)
        )

    def _line_of(self, at: int) -> tuple[int, int]:
        """Where the line of an offset starts and ends, without its line feed."""
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        return start, len(self.text) if end < 0 else end

    def _insertion(self, at: int, is_before: bool, written: str, statement: int) -> Piece:
        """On a line of its own, if nothing else is on that side of the operation; else on the same line."""
        first, last = self._line_of(at)
        beside = self.text[first:at] if is_before else _COMMENT.sub("", self.text[at:last]).replace(";", "")
        if beside.strip():
            between = BETWEEN[self.form]
            return at, at, f"{written}{between}" if is_before else f"{between}{written}"
        begin, _ = self._line_of(statement)
        indent = re.match(r"[ \t]*", self.text[begin:])
        newline = "\r\n" if self.text[:last].endswith("\r") else "\n"
        line = f"{indent[0] if indent else ''}{written}"
        if is_before:
            return first, first, f"{line}{newline}"
        if last < len(self.text):
            return last + 1, last + 1, f"{line}{newline}"
        return last, last, f"{newline}{line}"

    def _removal(self, start: int, end: int) -> Piece:
        """With its line, if nothing else is on it."""
        first, last = self._line_of(start)[0], self._line_of(end)[1]
        behind = _COMMENT.sub("", self.text[end:last])
        if not self.text[first:start].strip() and not behind.replace(";", "").strip():
            return first, min(last + 1, len(self.text)), ""
        rest = re.match(r"[ \t]*;?[ \t]*", self.text[end:last])
        return start, end + (rest.end() if rest else 0), ""
