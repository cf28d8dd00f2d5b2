"""Edits of a program in the C++ source of its kernel. The rest of the text stays as it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import inf

from ptokit.cxx.source_text import CONDITIONED, SourceLoop, SourceTokens, loop_around, loops_in_text, masked, tokens_of
from ptokit.finding import Where
from ptokit.program import ir
from ptokit.program.cores import StatementCores
from ptokit.program.expr import Expr, Var, substitute, variables
from ptokit.program.memory import Path, statements
from ptokit.program.repair import AFTER, BEFORE, INSERT, REMOVE, Edit, Unpatchable, spelled, vector_arm, vector_at
from ptokit.program.splice import Lines, Piece, spliced
from ptokit.text.cpp.expr import Expressions, Identifiers


def edited_texts(texts: Mapping[str, str], program: ir.Program, edits: Sequence[Edit]) -> dict[str, str]:
    """The files that edits of a program change, as they become. `texts` are the files' texts."""
    editor = _CppEditor(texts, program, edits)
    vectors: dict[tuple[str, Piece], set[int | None]] = {}
    made = [(edit, editor.vector(edit), *editor.piece(edit)) for edit in edits]
    for _, vector, file, piece in made:
        vectors.setdefault((file, piece), set()).add(vector)
    pieces: dict[str, dict[Piece, None]] = {}
    for edit, vector, file, piece in made:
        is_own = vector is not None and vectors[file, piece] == {vector}
        pieces.setdefault(file, {})[editor.piece(edit, vector)[1] if is_own else piece] = None
    return {file: spliced(texts[file], found) for file, found in pieces.items()}


@dataclass(frozen=True)
class _Span:
    """A statement of a text: its first character, and the character after its last."""

    start: int
    end: int
    alone: bool
    """Whether it is the body of a condition or a loop without braces."""


class _CppEditor:
    """The sources of a program."""

    def __init__(self, texts: Mapping[str, str], program: ir.Program, edits: Sequence[Edit]) -> None:
        self.texts, self.form = texts, program.form
        self.plain = {file: masked(text) for file, text in texts.items()}
        self.statements = dict(statements(program.body))
        flags = (*self.statements.values(), *(edit.stmt for edit in edits))
        self.cores = StatementCores(program) if any(isinstance(flag, ir.CrossFlag) for flag in flags) else None
        """None if the program is of one core."""

    def vector(self, edit: Edit) -> int | None:
        """The vector core that an edit is for, if the source is to say so."""
        return vector_at(self.statements, edit.at) if edit.is_apart else None

    def piece(self, edit: Edit, vector: int | None = None) -> tuple[str, Piece]:
        """The file and the change of its text that an edit is; if both vector cores come there, for `vector` only."""
        core = self._core(edit)
        edit = self._on_its_core(edit, core) if edit.action == INSERT else edit
        where = self._place(edit, core)
        if where.file not in self.texts:
            raise Unpatchable(f"{where.file} is not a source of the kernel")
        span = self._span(where, edit.anchor)
        condition = ""
        if vector is not None and self._is_shared(edit.at, where.file, span):
            condition = f"if (get_subblockid() == {vector}) "
        if condition and edit.action != INSERT:
            was = self.texts[where.file][span.start : span.end]
            kept = f"{condition.replace('==', '!=')}{was}"
            text = kept if edit.action == REMOVE else f"{condition}{self._written(edit)} else {was}"
            return where.file, (span.start, span.end, f"{{ {text} }}" if span.alone else text)
        if edit.action == INSERT:
            written = condition + self._written(edit)
            other = self._otherwise(where.file, span.start, written)
            return where.file, other or self._insertion(where.file, span, edit.side == BEFORE, written)
        if edit.action == REMOVE:
            return where.file, self._removal(where.file, span)
        return where.file, (span.start, span.end, self._written(edit))

    # --- cores

    def _is_shared(self, at: Path, file: str, span: _Span) -> bool:
        """Whether the other vector core comes to a statement of the source, too."""
        size, _ = vector_arm(self.statements, at) or (0, 0)
        arm, plain = (*at[:size], 1 - at[size]), self.plain[file]
        places = (
            place
            for path, stmt in self.statements.items()
            if path[: len(arm)] == arm and stmt.where
            for place in stmt.where.path
        )
        return any(place.file == file and span.start <= _offset(plain, place) < span.end for place in places)

    def _core(self, edit: Edit) -> str:
        """The core whose code an edit is in; empty if it is not known, or there is one only."""
        if isinstance(edit.stmt, ir.CrossFlag):
            return edit.stmt.core
        (*found,) = self.cores.of(edit.stmt) if self.cores is not None else ()
        return found[0] if len(found) == 1 else ""

    def _runs(self, stmt: ir.Stmt, core: str) -> bool:
        """Whether a core runs a statement, or some of those inside. What both may run is left out: the recording does
        not say which one did."""
        if self.cores is None or not core:
            return True
        return any(self._runs(each, core) for block in ir.children(stmt) for each in block) or (
            self.cores.of(stmt) == frozenset((core,))
        )

    def _on_its_core(self, edit: Edit, core: str) -> Edit:
        """An insertion next to a statement of its own core: the two cores are different code of the source."""
        *block, number = edit.at
        siblings = [each for each in self.statements if each[:-1] == tuple(block)]
        after = [each for each in siblings if each[-1] >= number + (edit.side == AFTER)]
        before = [each for each in reversed(siblings) if each[-1] < number + (edit.side == AFTER)]
        sides = ((BEFORE, after), (AFTER, before)) if edit.side == BEFORE else ((AFTER, before), (BEFORE, after))
        for side, paths in sides:
            for path in paths:
                stmt = self.statements[path]
                if not isinstance(stmt, ir.TileDecl) and self._runs(stmt, core):
                    return replace(edit, at=path, side=side, anchor=stmt)
        raise Unpatchable(f"{core or 'the kernel'} has no statement there")

    def _leaves(self, core: str) -> list[Path]:
        """The statements of a core, in the order in which they are written."""
        return [path for path, stmt in self.statements.items()
                if not isinstance(stmt, ir.TileDecl) and self._runs(stmt, core)]  # fmt: skip

    # --- places

    def _place(self, edit: Edit, core: str) -> Where:
        """The line that an edit belongs to: the outermost call that begins or ends with its statement."""
        where = edit.where
        if where is None:
            raise Unpatchable("a statement of the program has no line")
        if isinstance(edit.anchor, ir.Loop):
            return self._head(edit.at, where, core)
        if edit.action != INSERT or isinstance(edit.anchor, ir.Branch):
            return where
        leaves = self._leaves(core)
        neighbours = {later: earlier for earlier, later in pairwise(leaves)}
        neighbours = neighbours if edit.side == BEFORE else dict(pairwise(leaves))
        other = self.statements.get(neighbours.get(edit.at, ()))
        beside = [*reversed(other.where.path)] if other is not None and other.where else []
        chain = [*reversed(where.path)]
        depth = 0
        while depth + 1 < len(chain) and depth < len(beside) and chain[depth] == beside[depth]:
            depth += 1
        return chain[depth]

    def _head(self, at: Path, where: Where, core: str) -> Where:
        """The head of the source loop for a loop of the program; for a loop of two cores, that of one core."""
        if self._loop_at(where) is not None:
            return where
        inside = [self.statements[path].where for path in self._leaves(core) if path[: len(at)] == at and path != at]
        chains = [[*reversed(place.path)] for place in inside if place is not None]
        while chains and all(len(chain) > 1 for chain in chains) and len({chain[0] for chain in chains}) == 1:
            chains = [chain[1:] for chain in chains]
        files = {chain[0].file for chain in chains}
        lines = [chain[0].line for chain in chains]
        found = loop_around(self.texts.get(next(iter(files)), ""), min(lines), max(lines)) if len(files) == 1 else None
        return Where(next(iter(files)), found.head, found.column) if found is not None else where

    def _loop_at(self, where: Where) -> SourceLoop | None:
        """The loop of the source whose head is at a place."""
        plain = self.plain.get(where.file, "")
        at = _offset(plain, where) if plain else -1
        return next((each for each in loops_in_text(plain) if each.start == at), None)

    def _span(self, where: Where, anchor: ir.Stmt | None) -> _Span:
        """The statement of the source at a place."""
        tokens = tokens_of(self.plain[where.file])
        if isinstance(anchor, ir.Loop):
            loop = self._loop_at(where)
            if loop is None:
                raise Unpatchable(f"no loop of the source begins at line {where.line}")
            return _Span(loop.start, loop.end, _is_alone(tokens, tokens.at(loop.start)))
        last = tokens.at(_offset(self.plain[where.file], where))
        start = _statement_start(tokens, last)
        end = tokens.simple_ends[start]
        if end < 0 or start > last:
            raise Unpatchable(f"line {where.line} is not a statement of its own")
        return _Span(tokens.starts[start], tokens.end(end), _is_alone(tokens, start))

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
                own = self._loop_at(loop.where)
                if own is not None and own.counter:
                    names[loop.var] = Var(own.counter)
        if not variables(event) <= names.keys():
            raise Unpatchable(f"{event} is no event id that the source can compute: its loop does not count from 0")
        expressions = Expressions(Identifiers(), ())
        expressions.limits.bounds.update(dict.fromkeys((Var(str(name)) for name in names.values()), (0, inf)))
        return expressions.text(substitute(event, names))

    def _insertion(self, file: str, span: _Span, is_before: bool, written: str) -> Piece:
        """On a line of its own, if nothing else is on that side of the statement; else on the same line."""
        if span.alone:
            inside = self.texts[file][span.start : span.end]
            return span.start, span.end, f"{{ {written} {inside} }}" if is_before else f"{{ {inside} {written} }}"
        return self._lines(file).insertion(span.start, span.end, written, is_before=is_before)

    def _lines(self, file: str) -> Lines:
        plain = self.plain[file]
        return Lines(self.texts[file], lambda start, end: not plain[start:end].strip())

    def _otherwise(self, file: str, at: int, written: str) -> Piece | None:
        """For a flag that a branch before has, which the launch did not take: the other branch, with this flag. If both
        had it in a row, other arguments would find it twice."""
        places = (where for stmt in self.statements.values() if stmt.where for where in stmt.where.path)
        branch = untaken(self.plain[file], written, {where.line for where in places if where.file == file}, at)
        if branch is None:
            return None
        if branch.has_else:
            raise Unpatchable(
                f"line {branch.line} has this flag in a branch that was not taken; it belongs to every one"
            )
        indent = self._lines(file).indent(branch.start)
        return branch.end, branch.end, f" else {{\n{indent}    {written}\n{indent}}}"

    def _removal(self, file: str, span: _Span) -> Piece:
        """With its line, if nothing else is on it."""
        if span.alone:
            return span.start, span.end, "{ }"
        return self._lines(file).removal(span.start, span.end)


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


def _statement_start(tokens: SourceTokens, number: int) -> int:
    """The first token of the statement around a token, behind directives, and heads of conditions and loops without
    braces."""
    start = number
    while start > 0 and tokens.texts[start - 1] not in (";", "{", "}"):
        is_closed = tokens.texts[start - 1] == ")" and tokens.partners[start - 1] >= 0
        start = tokens.partners[start - 1] if is_closed else start - 1
    while start < number and tokens.texts[start] == "#":  # a directive ends with its line
        line = tokens.line(start)
        start = next(k for k in range(start, number + 1) if tokens.line(k) > line or k == number)
    while start < number and (tokens.texts[start] in ("else", "do") or tokens.condition(start) >= 0):
        opened = tokens.condition(start)
        start = max(start, tokens.partners[opened] if opened >= 0 else start) + 1
    return start


def _is_alone(tokens: SourceTokens, start: int) -> bool:
    """Whether a statement is the body of a condition or a loop without braces."""
    before = tokens.text(start - 1)
    if before != ")":
        return before in ("else", "do")
    opened = tokens.partners[start - 1]
    words = [tokens.text(opened - 1), tokens.text(opened - 2)]
    return (words[1] if words[0] == "constexpr" else words[0]) in CONDITIONED


# --- branches that were not taken


MOST_FLAGS = 50
"""Equal statements before an offset that are looked at, the last ones."""


@dataclass(frozen=True)
class UntakenBranch:
    """A flag that a text has in a branch before some place, and that was not executed."""

    line: int
    """The line of the flag."""
    start: int
    """Where the condition begins, and where its body ends."""
    end: int
    has_else: bool


def untaken(text: str, flag: str, executed: Collection[int], at: int) -> UntakenBranch | None:
    """The branch with a statement `flag` that ends before an offset and was not taken. `executed` are the lines of
    statements that were."""
    tokens, words = tokens_of(text), tokens_of(flag.rstrip(";")).texts
    behind, size = tokens.from_offset(at), len(words)
    starts = (k for k, text in enumerate(tokens.texts[: max(0, behind - size + 1)]) if text == words[0])
    for number in deque((k for k in starts if tokens.texts[k : k + size] == words), MOST_FLAGS):
        line = tokens.line(number)
        branch = _branch(tokens, number) if line not in executed else None
        if branch is None:
            continue
        start, last = branch
        if all(tokens.partners[k] > last for k in range(last + 1, behind) if tokens.texts[k] == "}"):
            has_else = tokens.text(last + 1) == "else"
            return UntakenBranch(line, tokens.starts[start], tokens.end(last), has_else=has_else)
    return None


def _branch(tokens: SourceTokens, number: int) -> tuple[int, int] | None:
    """The innermost `if (...) { ... }` around a token: its first and its last one."""
    return max(((start, last) for start, body, last in _branches(tokens) if body < number < last), default=None)


@lru_cache(maxsize=64)
def _branches(tokens: SourceTokens) -> list[tuple[int, int, int]]:
    """Where each `if (...) { ... }` begins, and its block begins and ends."""
    heads = (number for number, text in enumerate(tokens.texts) if text == "if" and tokens.condition(number) >= 0)
    bodies = ((start, tokens.partners[tokens.condition(start)] + 1) for start in heads)
    return [(start, body, tokens.partners[body]) for start, body in bodies if body and tokens.text(body) == "{"]
