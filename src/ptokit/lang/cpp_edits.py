"""Edits of a program in the C++ source of its kernel. The rest of the text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from ptokit.cxx.source_loops import blanked, closing, loops_in_text
from ptokit.finding import Where
from ptokit.program import ir
from ptokit.program.expr import Expr, Var, substitute, variables
from ptokit.program.memory import Path, statements
from ptokit.program.repair import BEFORE, INSERT, REMOVE, Edit, Unpatchable, spelled
from ptokit.text.cpp.expr import Expressions
from ptokit.text.cpp.names import Identifiers

_CONTROL = re.compile(r"(?:\b(?:if|for|while|switch)\s*\(.*\)|\belse|\bdo)\s*$", re.DOTALL)
Piece = tuple[int, int, str]
"""A range of a text, and what replaces it."""


def edited_texts(texts: Mapping[str, str], program: ir.Program, edits: Sequence[Edit]) -> dict[str, str]:
    """The files that edits of a program change, as they become. `texts` are the files' texts."""
    editor = _CppEditor(texts, program)
    pieces: dict[str, dict[Piece, None]] = {}
    for edit in edits:
        file, piece = editor.piece(edit)
        pieces.setdefault(file, {})[piece] = None
    return {file: _applied(texts[file], list(found)) for file, found in pieces.items()}


def _applied(text: str, pieces: list[Piece]) -> str:
    done, at = "", 0
    for start, end, new in sorted(pieces, key=lambda piece: piece[:2]):
        done += text[at:start] + new
        at = max(at, end)
    return done + text[at:]


@dataclass(frozen=True)
class _Span:
    """A statement of a text: its first character, and the one after its last."""

    start: int
    end: int
    alone: bool
    """Whether it is the body of a condition or a loop without braces."""


class _CppEditor:
    """The sources of a program."""

    def __init__(self, texts: Mapping[str, str], program: ir.Program) -> None:
        self.texts, self.form = texts, program.form
        self.plain = {file: blanked(text) for file, text in texts.items()}
        self.statements = dict(statements(program.body))
        leaves = [path for path, stmt in self.statements.items() if not isinstance(stmt, ir.TileDecl)]
        self.before = {later: earlier for earlier, later in pairwise(leaves)}
        self.after = dict(pairwise(leaves))

    def piece(self, edit: Edit) -> tuple[str, Piece]:
        """The file and the change of its text that an edit is."""
        where = self._place(edit)
        if where.file not in self.texts:
            raise Unpatchable(f"{where.file} is not a source of the kernel")
        span = self._span(where, edit.anchor)
        if edit.action == INSERT:
            return where.file, self._insertion(where.file, span, edit.side == BEFORE, self._written(edit))
        if edit.action == REMOVE:
            return where.file, self._removal(where.file, span)
        return where.file, (span.start, span.end, self._written(edit))

    def _place(self, edit: Edit) -> Where:
        """The line that an edit belongs to: the outermost call that begins or ends with its statement."""
        where = edit.where
        if where is None:
            raise Unpatchable("a statement of the program has no line")
        if edit.action != INSERT or isinstance(edit.anchor, ir.Loop | ir.Branch):
            return where
        neighbours = self.before if edit.side == BEFORE else self.after
        other = self.statements.get(neighbours.get(edit.at, ()))
        beside = [*reversed(other.where.path)] if other is not None and other.where else []
        chain = [*reversed(where.path)]
        depth = 0
        while depth + 1 < len(chain) and depth < len(beside) and chain[depth] == beside[depth]:
            depth += 1
        return chain[depth]

    def _span(self, where: Where, anchor: ir.Stmt | None) -> _Span:
        """The statement of the source at a place."""
        plain = self.plain[where.file]
        at = _offset(plain, where)
        if isinstance(anchor, ir.Loop):
            loop = next((each for each in loops_in_text(plain) if each.start == at), None)
            if loop is None:
                raise Unpatchable(f"no loop of the source begins at line {where.line}")
            return _Span(loop.start, loop.end, _is_alone(plain, loop.start))
        start = max(plain.rfind(mark, 0, at) for mark in ";{}") + 1
        start += len(plain[start:at]) - len(plain[start:at].lstrip())
        control = re.match(r"(?:else\s+)?(?:if|for|while)\s*\(|else\b|do\b", plain[start:at])
        alone = control is not None
        while alone:  # behind the heads of conditions and loops without braces
            head = re.match(r"(?:else\s+)?(?:if|for|while)\s*(?=\()|else\b|do\b", plain[start:])
            if head is None:
                break
            start += head.end()
            if plain[start : start + 1] == "(":
                start = closing(plain, start) + 1
            start += len(plain[start:]) - len(plain[start:].lstrip())
        end = _statement_end(plain, at)
        if end < 0 or start > at:
            raise Unpatchable(f"line {where.line} is not a statement of its own")
        return _Span(start, end, alone)

    def _written(self, edit: Edit) -> str:
        event = 0 if isinstance(edit.stmt, ir.Barrier) else edit.stmt.event
        text = "" if isinstance(event, int) else self._expression(edit.at, event)
        return f"{spelled(edit.stmt, self.form, event=text)};"

    def _expression(self, at: Path, event: Expr) -> str:
        """An event id in the variables of the source."""
        names: dict[Var, Expr] = {}
        for depth in range(1, len(at), 2):
            loop = self.statements[at[:depth]]
            if isinstance(loop, ir.Loop) and loop.where is not None:
                plain = self.plain.get(loop.where.file, "")
                start = _offset(plain, loop.where) if plain else -1
                own = next((each for each in loops_in_text(plain) if each.start == start), None)
                if own is not None and own.counter:
                    names[loop.var] = Var(own.counter)
        if not variables(event) <= names.keys():
            raise Unpatchable(f"{event} is no event id that the source can compute: its loop does not count from 0")
        expressions = Expressions(Identifiers(), ())
        expressions.bounds.update(dict.fromkeys((Var(str(name)) for name in names.values()), (0, inf)))
        return expressions.text(substitute(event, names))

    def _insertion(self, file: str, span: _Span, is_before: bool, written: str) -> Piece:
        """On a line of its own, if nothing else is on that side of the statement; else on the same line."""
        text, plain = self.texts[file], self.plain[file]
        if span.alone:
            inside = text[span.start : span.end]
            return span.start, span.end, f"{{ {written} {inside} }}" if is_before else f"{{ {inside} {written} }}"
        first = plain.rfind("\n", 0, span.start) + 1
        last = plain.find("\n", span.end)
        last = len(plain) if last < 0 else last
        match = re.match(r"[ \t]*", text[first:])
        indent = match[0] if match else ""
        newline = "\r\n" if text[:last].endswith("\r") else "\n"
        if is_before:
            if plain[first : span.start].strip():
                return span.start, span.start, f"{written} "
            return first, first, f"{indent}{written}{newline}"
        if plain[span.end : last].strip():
            return span.end, span.end, f" {written}"
        if last == len(text):
            return last, last, f"{newline}{indent}{written}"
        return last + 1, last + 1, f"{indent}{written}{newline}"

    def _removal(self, file: str, span: _Span) -> Piece:
        """With its line, if nothing else is on it."""
        if span.alone:
            return span.start, span.end, "{ }"
        plain = self.plain[file]
        first, last = plain.rfind("\n", 0, span.start) + 1, plain.find("\n", span.end)
        last = len(plain) if last < 0 else last
        if plain[first : span.start].strip() or plain[span.end : last].strip():
            return span.start, span.end, ""
        return first, min(last + 1, len(plain)), ""


def _offset(text: str, where: Where) -> int:
    """The offset of a place."""
    start = 0
    for _ in range(where.line - 1):
        start = text.find("\n", start) + 1
        if not start:
            raise Unpatchable(f"the source has no line {where.line}")
    if where.column:
        return start + where.column - 1
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    return start + len(line) - len(line.lstrip())


def _statement_end(plain: str, at: int) -> int:
    """Where the statement around an offset ends, after its semicolon."""
    depth = 0
    for match in re.finditer(r"[()\[\]{};]", plain[at:]):
        letter = match[0]
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if letter == "}" and depth < 0:
                return -1
        elif depth <= 0:
            return at + match.end()
    return -1


def _is_alone(plain: str, start: int) -> bool:
    """Whether a statement is the body of a condition or a loop without braces."""
    before = plain[max(plain.rfind(mark, 0, start) for mark in ";{}") + 1 : start]
    return _CONTROL.search(before.strip()) is not None
