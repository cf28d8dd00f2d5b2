"""Edits of a program in the Python source of its kernel: the file's text with them, and the kernel of that text.

A statement of the program comes from a line of the kernel, or from lines of functions that it calls. An edit goes to
the outermost of these lines at which it means the same.
"""

from __future__ import annotations

import ast
import os
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

from ptokit.finding import Where
from ptokit.lang.source import codes_in, is_unchanged, without_warnings
from ptokit.lines import keep
from ptokit.program import ir
from ptokit.program.expr import Expr, Var, show_expr, substitute
from ptokit.program.memory import Path, statements
from ptokit.program.repair import AFTER, BEFORE, REMOVE, REPLACE, Edit, Sync, Unpatchable, spelled
from ptokit.program.splice import Lines, Piece, spliced

PACKAGE = "ptokit"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_TEXTS: dict[str, tuple[str, str]] = {}
"""The file and the text of kernels that were made of changed texts, by the file name of their code."""


@dataclass(frozen=True)
class PythonFile:
    """The text of a Python file."""

    file: str
    text: str
    name: str
    """The file name of its code."""

    @staticmethod
    def of(code: CodeType) -> PythonFile:
        """The file of a function; it must not have changed since it was imported."""
        name = code.co_filename
        if not is_unchanged(code):
            raise Unpatchable(f"the source of {code.co_name} has changed since it was imported")
        if name in _TEXTS:
            return PythonFile(*_TEXTS[name], name)
        if not os.path.isfile(name):
            raise Unpatchable(f"the source of {code.co_name} is no file")
        with open(name, "rb") as stream:
            encoding, _ = tokenize.detect_encoding(stream.readline)
        with open(name, encoding=encoding, newline="") as stream:
            return PythonFile(name, stream.read(), name)


def encoded(file: str, text: str) -> bytes:
    """A text as the bytes of its file: Python source in the encoding that the file has."""
    if not file.endswith(".py"):
        return text.encode()
    with open(file, "rb") as stream:
        return text.encode(tokenize.detect_encoding(stream.readline)[0])


def _lines(text: str) -> list[str]:
    """The lines of a text, as Python counts them."""
    return [match[0] for match in _LINE.finditer(text) if match[0]] or [""]


# --- the text with edits


@dataclass
class _Changes:
    """What happens at a statement of the source."""

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    removed: bool = False
    replaced: str = ""
    makes: dict[str, Path] = field(default_factory=dict)
    """The statement of the program that the insertions of each side are for: others of the same line need the same."""


class _SourceTree:
    """The statements of a text, and the changes to them."""

    def __init__(self, source: PythonFile) -> None:
        self.text = source.text
        with without_warnings():
            self.tree = ast.parse(source.text)
        self.lines = _lines(source.text)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.bodies = [body for node in ast.walk(self.tree) for body in _bodies(node)]
        self.homes = {node: body for body in self.bodies for node in body}
        self.changes: dict[ast.stmt, _Changes] = defaultdict(_Changes)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and of a column, which Python counts in bytes."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + len(text.encode()[:column].decode("utf-8", "replace"))

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """The offsets of a statement's first character and of the character after its last."""
        end = self.offset(cast("int", node.end_lineno), cast("int", node.end_col_offset))
        return self.offset(node.lineno, node.col_offset), end

    def at(self, line: int) -> list[ast.stmt]:
        """The innermost statements at a line: several if they share it."""
        around = [node for node in self.homes if node.lineno <= line <= cast("int", node.end_lineno)]
        return [node for node in around if not any(other in inner for other in around for inner in _bodies(node))]

    def heads(self, line: int, kind: type[ast.stmt]) -> list[ast.stmt]:
        """The innermost statement of a kind whose head, before its body, has a line."""
        found = [node for node in self.homes if isinstance(node, kind) and node.lineno <= line <= _body_line(node)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))[-1:]

    def changed(self) -> str:
        """The text with all changes. At one place, what follows an inner statement comes first."""
        nodes = sorted(self.changes, key=self.span, reverse=True)
        behind = [piece for node in nodes for piece in self._behind(node)]
        return spliced(self.text, [*behind, *(piece for node in nodes for piece in self._at(node))])

    def _behind(self, node: ast.stmt) -> Iterator[Piece]:
        """What is put behind a statement."""
        insertion = self._lines(node).insertion
        return (insertion(*self.span(node), text, is_before=False) for text in self.changes[node].after)

    def _at(self, node: ast.stmt) -> Iterator[Piece]:
        """What is put before a statement, and what becomes of the statement itself."""
        change, lines, (start, end) = self.changes[node], self._lines(node), self.span(node)
        yield from (lines.insertion(start, end, text, is_before=True) for text in change.before)
        if change.removed:
            body = self.homes[node]
            is_left = node is body[0] and all(other in self.changes and self.changes[other].removed for other in body)
            yield (start, end, "pass") if is_left else lines.removal(start, end, r"[ \t]*;[ \t]*")
        elif change.replaced:
            yield start, end, change.replaced

    def _lines(self, node: ast.stmt) -> Lines:
        """The lines of the text; a body on the line of its head has none of its own."""
        first = self.homes[node][0]
        is_apart = self._is_blank(self.starts[first.lineno - 1], self.span(first)[0])
        return Lines(self.text, lambda start, end: is_apart and self._is_blank(start, end), "; ")

    def _is_blank(self, start: int, end: int) -> bool:
        return not self.text[start:end].partition("#")[0].strip(" \t\r\f;")


def _bodies(node: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements inside a node."""
    lists = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [each for each in lists if isinstance(each, list) and each and isinstance(each[0], ast.stmt)]


def _body_line(node: ast.stmt) -> int:
    return min(body[0].lineno for body in _bodies(node))


# --- where edits go

HEADS: dict[type[object], type[ast.stmt]] = {ir.Loop: ast.For, ir.Branch: ast.With}
"""The statements of the source that make statements with blocks."""


class SourceEditor:
    """Finds the statements of a text that make those of a program."""

    def __init__(self, program: ir.Program, source: PythonFile, names: Mapping[str, object]) -> None:
        self.source, self.names = source, names
        self.file = _SourceTree(source)
        self.program = dict(statements(program.body))
        self.nodes = {path: self._nodes(path, stmt) for path, stmt in self.program.items()}
        """For each statement: those of the source that it comes from, the outermost first."""
        self.made: dict[ast.stmt, set[Path]] = defaultdict(set)
        """The statements that each one of the source makes."""
        for path, nodes in self.nodes.items():
            for node in nodes:
                self.made[node].add(path)

    def _nodes(self, path: Path, stmt: ir.Stmt) -> list[ast.stmt]:
        if stmt.where is None:
            return []
        found: list[ast.stmt] = []
        for place in reversed(stmt.where.path):
            nodes = self.file.at(place.line) if place.file == self.source.name else []
            if place is stmt.where and type(stmt) in HEADS:
                nodes = self.file.heads(place.line, HEADS[type(stmt)])
            elif len(nodes) > 1:
                nodes = self._shared(nodes, path, stmt, place)
            if not nodes:
                break
            found.append(nodes[0])
        return found

    def _shared(self, nodes: list[ast.stmt], path: Path, stmt: ir.Stmt, place: Where) -> list[ast.stmt]:
        """Of a line with several statements, the one that makes `stmt`: the n-th that calls the same function."""
        name = _called(stmt)
        calling = [node for node in nodes if name in _calls(node)]
        alike = [
            other
            for other, each in self.program.items()
            if other[:-1] == path[:-1] and each.where and place in each.where.path and _called(each) == name
        ]
        return calling[alike.index(path) :][:1] if len(calling) == len(alike) else calling[:1]

    def node_of(self, edit: Edit) -> ast.stmt:
        """The statement of the source at which an insertion means what it means in the program."""
        nodes = self.nodes[edit.at]
        *block, number = edit.at
        beside = (*block, number + (1 if edit.side == AFTER else -1))
        for node in nodes:
            if beside not in self.made[node]:
                return node
        if not nodes or not edit.where or len(nodes) < len(edit.where.path):
            raise Unpatchable(f"{_place(edit)} is not in {self.source.file}")
        return nodes[-1]

    def removed_by(self, edit: Edit, gone: set[Path]) -> ast.stmt:
        """The statement of the source whose removal removes a statement of the program, and no others than `gone`."""
        for node in self.nodes[edit.at]:
            if isinstance(node, ast.Expr) and self.made[node] <= gone:
                return node
        raise Unpatchable(f"{_place(edit)} also makes statements that must stay")

    def last_of(self, node: ast.stmt, edit: Edit) -> ast.stmt:
        """The statement after which an insertion goes: after `with pto.when(...)` comes `with pto.otherwise()`."""
        siblings = self.file.homes[node]
        following = siblings[siblings.index(node) + 1 :][:1]
        is_branch = isinstance(edit.anchor, ir.Branch) and following and isinstance(following[0], ast.With)
        return following[0] if is_branch and "otherwise" in _calls(following[0]) else node

    def event(self, stmt: Sync, at: Path) -> str:
        """The event id of a statement as text, with the source's names of loop variables."""
        event: Expr = 0 if isinstance(stmt, ir.Barrier) else stmt.event
        return show_expr(substitute(event, dict(self._targets(at))))

    def _targets(self, at: Path) -> Iterator[tuple[Var, Expr]]:
        for depth in range(1, len(at), 2):
            loop = self.program[at[:depth]]
            if isinstance(loop, ir.Loop):
                node = self.nodes[at[:depth]][-1:]
                if node and isinstance(node[0], ast.For) and isinstance(node[0].target, ast.Name):
                    yield loop.var, Var(node[0].target.id)

    def written(self, stmt: Sync, at: Path) -> str:
        """A statement as the source writes it."""
        return spelled(stmt, "", self._module(stmt), self.event(stmt, at))

    def _module(self, stmt: Sync) -> str:
        """How the source names what it imports from this package."""
        for name, value in self.names.items():
            if isinstance(value, ModuleType) and value.__name__ == PACKAGE:
                return f"{name}."
        function = spelled(stmt, "", "").partition("(")[0]
        if getattr(self.names.get(function), "__module__", "").startswith(PACKAGE):
            return ""
        raise Unpatchable(f"{self.source.file} has no name for {PACKAGE}")

    def apply(self, edits: Sequence[Edit]) -> str:
        """The text with edits."""
        gone = {edit.at for edit in edits if edit.action == REMOVE}
        for edit in edits:
            if edit.action == REMOVE:
                self.file.changes[self.removed_by(edit, gone)].removed = True
                continue
            node, text = self.node_of(edit), self.written(edit.stmt, edit.at)
            if edit.action == REPLACE:
                node = self.nodes[edit.at][-1]
                if self.made[node] != {edit.at} or not isinstance(node, ast.Expr):
                    raise Unpatchable(f"{_place(edit)} makes more than this flag")
                self.file.changes[node].replaced = text
                continue
            node = node if edit.side == BEFORE else self.last_of(node, edit)
            change = self.file.changes[node]
            if change.makes.setdefault(edit.side, edit.at) == edit.at:
                (change.before if edit.side == BEFORE else change.after).append(text)
        return self.file.changed()


def _place(edit: Edit) -> str:
    return f"line {edit.where.line}" if edit.where else "the statement"


def _called(stmt: ir.Stmt) -> str:
    """The name of the function that makes a statement."""
    if isinstance(stmt, ir.Flag | ir.CrossFlag):
        return f"{stmt.action}_flag" if isinstance(stmt, ir.Flag) else f"sync_{stmt.action}"
    names: dict[type[Any], str] = {
        ir.Barrier: "barrier", ir.TileDecl: "Tile", ir.LoadScalar: "load_scalar", ir.Assign: "tassign",
        ir.Loop: "range", ir.Branch: "when",
    }  # fmt: skip
    return stmt.name if isinstance(stmt, ir.Instr) else names[type(stmt)]


def _calls(node: ast.stmt) -> set[str]:
    """The names of the functions that a statement calls outside of its bodies."""
    inner = {each for body in _bodies(node) for stmt in body for each in ast.walk(stmt)}
    called = (each.func for each in ast.walk(node) if isinstance(each, ast.Call) and each not in inner)
    names = (getattr(each, "attr", None) or getattr(each, "id", None) for each in called)
    return {name for name in names if name}


# --- the function of a changed text


def rewritten(
    function: FunctionType, program: ir.Program, edits: Sequence[Edit]
) -> tuple[PythonFile, str, FunctionType]:
    """The source of a kernel's function, its text with edits, and the function that this text defines."""
    source = PythonFile.of(function.__code__)
    text = SourceEditor(program, source, function.__globals__).apply(edits)
    return source, text, _remade(function, source, _named(source.file, text), text)


def with_text(function: FunctionType, texts: Mapping[str, str], *, written: bool = False) -> FunctionType:
    """The function as the changed text of its file defines it; itself if that text did not change. Once the text is
    `written`, its code has the name of the file."""
    name = function.__code__.co_filename
    file, _ = _TEXTS.get(name, (name, ""))
    if file not in texts:
        return function
    source, text = PythonFile.of(function.__code__), texts[file]
    return _remade(function, source, file if written else _named(file, text), text)


def with_own_globals(function: FunctionType) -> FunctionType:
    """A function that globals, if they change later, do not change."""
    source = PythonFile.of(function.__code__)
    return _remade(function, source, source.name, source.text)


def _named(file: str, text: str) -> str:
    """The file name for the code of a changed text."""
    known = (name for name, each in _TEXTS.items() if each == (file, text))
    name = next(known, f"<{file} with repair {len(_TEXTS) + 1}>")
    _TEXTS[name] = file, text
    keep(name, _lines(text))
    return name


def _remade(function: FunctionType, source: PythonFile, name: str, text: str) -> FunctionType:
    """A function as a text defines it; `name` is the file name of the new code."""
    with without_warnings():
        try:
            code = compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as problem:
            raise Unpatchable(f"the change does not fit line {problem.lineno}") from None
        before = compile(source.text, source.name, "exec", dont_inherit=True)
    return _Rebuilt(source.name, _numbered(before), _numbered(code)).function(function)


Key = tuple[str, int]
"""A function of a file: its qualified name, and which of those with this name it is."""


def _numbered(code: CodeType) -> dict[Key, CodeType]:
    found: dict[Key, CodeType] = {}
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    for inner in _all_codes(code):
        found[inner.co_qualname, next(numbers[inner.co_qualname])] = inner
    return found


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    for inner in sorted(codes_in(code), key=lambda each: each.co_firstlineno):
        yield inner
        yield from _all_codes(inner)


class _Rebuilt:
    """The functions of a module, as another text of its file defines them."""

    def __init__(self, name: str, before: Mapping[Key, CodeType], after: Mapping[Key, CodeType]) -> None:
        self.name, self.before, self.after = name, before, after
        self.names: dict[str, Any] = {}

    def function(self, function: FunctionType) -> FunctionType:
        """A function, with the functions of its module."""
        self.names.update(function.__globals__)
        for name, value in function.__globals__.items():
            if isinstance(value, FunctionType) and value.__code__.co_filename == self.name:
                self.names[name] = self._made(value) or value
        made = self._made(function)
        if made is None:
            raise Unpatchable(f"{function.__name__} was not found in its file")
        return made

    def _made(self, function: FunctionType) -> FunctionType | None:
        old = function.__code__
        alike = (key for key, code in self.before.items() if _is_same(code, old) and key in self.after)
        code = next((self.after[key] for key in alike), None)
        if code is None or code.co_freevars != old.co_freevars:
            return None
        made = FunctionType(code, self.names, function.__name__, function.__defaults__, function.__closure__)
        made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
        made.__annotations__, made.__qualname__ = function.__annotations__, function.__qualname__
        return made


def _is_same(code: CodeType, old: CodeType) -> bool:
    return (code.co_qualname, code.co_firstlineno) == (old.co_qualname, old.co_firstlineno)
