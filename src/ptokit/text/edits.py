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
from ptokit.program.splice import Lines, Piece, spliced
from ptokit.text.forms import form_of, read_unit
from ptokit.text.tree import Operation, walk

BETWEEN = {"mlir": " ", "as": "; "}
"""What stands between two statements of one line."""
_COMMENT = re.compile(r"(?://|--|#).*", re.DOTALL)


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
        self.lines = Lines(text, self._is_blank, BETWEEN[self.form])
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
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
        return spliced(self.text, (*self._defined, *found))

    def _is_blank(self, start: int, end: int) -> bool:
        return not _COMMENT.sub("", self.text[start:end]).replace(";", "").strip()

    def _pieces(self, edit: Edit) -> Iterator[Piece]:
        start, end = self._span(self._operation(edit.where))
        written = spelled(edit.stmt, self.form, event=self._event(edit) if edit.action != REMOVE else "")
        if edit.action == INSERT:
            yield self.lines.insertion(start, end, written, is_before=edit.side == BEFORE)
        elif edit.action == REMOVE:
            yield self.lines.removal(start, end, r"[ \t]*;?[ \t]*")
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
        start, _ = self.lines.around(at)
        if self.text[start:at].strip():
            raise Unpatchable("the body of the loop begins on the line of its head")
        newline = self.lines.newline(at)
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
        return self._offset(operation.where), self._offset(self._source.where(operation.end))

    def _offset(self, place: Where) -> int:
        """Where a place is in the text; the forms read it without carriage returns and byte order marks."""
        return self._starts[place.line - 1] + (place.column or 1) - 1 + (self._mark and place.line == 1)
