"""Edits of a program in its text. The rest of the text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count

from ptokit.finding import Where
from ptokit.program import ir
from ptokit.program.expr import Expr, Op
from ptokit.program.memory import Path, statements
from ptokit.program.repair import BEFORE, INSERT, REMOVE, Edit, Unpatchable, spelled
from ptokit.text.forms import form_of, read_unit
from ptokit.text.tree import Operation, walk

BETWEEN = {"mlir": " ", "as": "; "}
"""What stands between two statements of one line."""
_COMMENT = re.compile(r"(?://|--|#).*", re.DOTALL)
_EMPTY = re.compile(r"(?:;\s*)+(?=;|$)|^(?:\s*;)+\s*")
Piece = tuple[int, int, str]
"""A range of the text, and what replaces it."""


def edited_text(text: str, file: str, program: ir.Program, edits: Sequence[Edit]) -> str:
    """The text with edits of its program."""
    return _Editor(text, file, program).apply(edits)


class _Editor:
    """A text and the places of its operations."""

    def __init__(self, text: str, file: str, program: ir.Program) -> None:
        self.text, self.form = text, form_of(text, file)
        self.program = dict(statements(program.body))
        self._values: dict[tuple[Path, Expr], str] = {}
        """Values that loops compute for event ids."""
        self._defined: list[Piece] = []
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self._mark = text.startswith("\ufeff")
        unit = read_unit(text, file)
        self._source = unit.source
        self.operations = {
            (op.where.line, op.where.column): op
            for function in unit.functions
            for op in walk(function.body)
            if op.where is not None
        }

    def apply(self, edits: Sequence[Edit]) -> str:
        """The text with edits."""
        found = {piece: None for edit in edits for piece in self._pieces(edit)}
        pieces = sorted((*self._defined, *found), key=lambda piece: piece[:2])
        done, at = "", 0
        for start, end, new in pieces:
            done += self.text[at:start] + new
            at = max(at, end)
        return done + self.text[at:]

    def _pieces(self, edit: Edit) -> Iterator[Piece]:
        start, end = self._span(self._operation(edit.where))
        written = spelled(edit.stmt, self.form, event=self._event(edit) if edit.action != REMOVE else "")
        if edit.action == INSERT:
            yield self._insertion(start if edit.side == BEFORE else end, edit.side == BEFORE, written, start)
        elif edit.action == REMOVE:
            yield self._removal(start, end)
        else:
            yield start, end, written

    def _operation(self, where: Where | None) -> Operation:
        operation = self.operations.get((where.line, where.column)) if where else None
        if operation is None:
            raise Unpatchable(f"no operation of the text is at {where}")
        return operation

    def _event(self, edit: Edit) -> str:
        """The event id of a flag, if it is a value: the loop around computes it first."""
        event = 0 if isinstance(edit.stmt, ir.Barrier) else edit.stmt.event
        if isinstance(event, int):
            return ""
        loops = [
            edit.at[:depth] for depth in range(1, len(edit.at), 2) if isinstance(self.program[edit.at[:depth]], ir.Loop)
        ]
        key = loops[-1], event
        if key not in self._values:
            self._values[key] = self._define(*key)
        return self._values[key]

    def _define(self, path: Path, event: Expr) -> str:
        """Compute an event id at the beginning of a loop: the iteration modulo a number, maybe plus another."""
        loop = self.program[path]
        assert isinstance(loop, ir.Loop)
        first, rest = event.args if isinstance(event, Op) and event.name == "add" else (0, event)
        if not isinstance(rest, Op) or rest.name != "mod" or rest.args[0] != loop.var or not isinstance(first, int):
            raise Unpatchable(f"{event} is no event id that a text can compute")
        (body, *_) = self._operation(loop.where).bodies
        counter, base = f"%{body.arguments[0].name}", self._unique("event")
        lines = [self._constant(f"{base}_buffers", rest.args[1])]
        lines.append(f"{base} = arith.remsi {counter}, {base}_buffers : index")
        result = base
        if first:
            lines += [self._constant(f"{base}_first", first), f"{base}_id = arith.addi {base}_first, {base} : index"]
            result = f"{base}_id"
        at = self._span(body.operations[0])[0]
        start = self._line_of(at)[0]
        if self.text[start:at].strip():
            raise Unpatchable("the body of the loop begins on the line of its head")
        newline = "\r\n" if self.text[: self._line_of(at)[1]].endswith("\r") else "\n"
        self._defined.append((start, start, "".join(f"{self.text[start:at]}{line}{newline}" for line in lines)))
        return result

    def _constant(self, name: str, value: Expr) -> str:
        return f"{name} = arith.constant {value} : index" if self.form == "mlir" else f".const {name} = {value} : index"

    def _unique(self, name: str) -> str:
        """A name of a value that the text does not use."""
        used = f"{self.text} {' '.join(self._values.values())}"
        return next(f"%{name}{k or ''}" for k in count() if f"%{name}{k or ''}" not in used)

    def _span(self, operation: Operation) -> tuple[int, int]:
        assert operation.where is not None
        if operation.end is None:
            raise Unpatchable(f"the end of the operation at {operation.where} is not known")
        return tuple(  # type: ignore[return-value]
            self.starts[place.line - 1] + (place.column or 1) - 1 + (self._mark and place.line == 1)
            for place in (operation.where, self._source.where(operation.end))
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
