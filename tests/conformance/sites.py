"""The statements of the package that name a clause in a finding, and the package without one of them.

A site is a statement with a string such as "KN-06" in it, found in the syntax tree. Dropping it puts `if False:` before
it, in the code of the function that holds it, for as long as a test wants.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

import ptokit

SOURCE = Path(ptokit.__file__).resolve().parent
SIMPLE = (ast.Raise, ast.Expr, ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """A statement that names a clause."""

    file: str
    """Below the package, as in `lang/control.py`."""
    function: str
    """The outermost function that holds it, with its class."""
    clause: str
    number: int
    """Counts the sites of one clause in one function."""
    line: int
    last: int
    """Its lines, the last included."""
    start: int
    """The first line of the function, decorators included."""

    def __str__(self) -> str:
        return f"{self.file}:{self.function}:{self.clause}:{self.number}"

    @property
    def path(self) -> str:
        """The file, as code objects name it."""
        return str(SOURCE / self.file)


def sites(folders: Iterable[str], pattern: str) -> list[Site]:
    """Every site in some folders or files whose clause matches a pattern."""
    found: list[Site] = []
    for folder in folders:
        base = SOURCE / folder
        for path in sorted(base.rglob("*.py")) if base.is_dir() else [base]:
            found += _sites_of(path, re.compile(pattern))
    return found


def _sites_of(path: Path, pattern: re.Pattern[str]) -> Iterator[Site]:
    text = path.read_text(encoding="utf-8")
    lines = [number for number, line in enumerate(text.split("\n"), 1) if pattern.search(line)]
    for name, function in _functions(ast.parse(text), "") if lines else ():
        if not any(function.lineno <= number <= (function.end_lineno or 0) for number in lines):
            continue
        counts: dict[str, int] = {}
        start = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        for node in ast.walk(function):
            if isinstance(node, SIMPLE):
                for clause in _named(node, pattern):
                    number = counts[clause] = counts.get(clause, 0) + 1
                    file = path.relative_to(SOURCE).as_posix()
                    yield Site(file, name, clause, number, node.lineno, node.end_lineno or node.lineno, start)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """The outermost functions, methods included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _named(stmt: ast.stmt, pattern: re.Pattern[str]) -> set[str]:
    strings = (node.value for node in ast.walk(stmt) if isinstance(node, ast.Constant))
    return {value for value in strings if isinstance(value, str) and pattern.fullmatch(value)}


class _Dropped(ast.NodeTransformer):
    """The statement that stands at some lines is never executed."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, SIMPLE) and (node.lineno, node.end_lineno) == (self.site.line, self.site.last):
            return ast.copy_location(ast.If(ast.Constant(False), [node], []), node)
        return self.generic_visit(node)


@contextmanager
def without(site: Site) -> Iterator[None]:
    """Within, the package does not have a statement."""
    tree = ast.fix_missing_locations(_Dropped(site).visit(ast.parse(_alone(site))))
    module = compile(tree, site.path, "exec", annotations.compiler_flag)
    changed = {_key(code): code for code in _codes(module) if site.start <= code.co_firstlineno <= site.last}
    functions = [function for function in _living(site.path) if _key(function.__code__) in changed]
    kept = [function.__code__ for function in functions]
    try:
        for function in functions:
            function.__code__ = changed[_key(function.__code__)]
        yield
    finally:
        for function, before in zip(functions, kept, strict=True):
            function.__code__ = before


def _alone(site: Site) -> str:
    """The statement of the module that holds a site, on its lines: to compile it takes less than the whole module."""
    lines, bounds = _statements(site.path)
    first, last = next((first, last) for first, last in bounds if first <= site.line <= last)
    return "\n" * (first - 1) + "".join(lines[first - 1 : last])


@cache
def _statements(path: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The lines of a file, and the first and the last line of each of its statements."""
    text = Path(path).read_text(encoding="utf-8")
    rows = [(node, getattr(node, "decorator_list", [])) for node in ast.parse(text).body]
    bounds = [(min(each.lineno for each in (node, *above)), node.end_lineno or node.lineno) for node, above in rows]
    return text.splitlines(keepends=True), bounds


def _key(code: CodeType) -> tuple[int, str]:
    return code.co_firstlineno, code.co_name


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


@cache
def _living(path: str) -> list[FunctionType]:
    """The function objects of a file."""
    import_module(".".join(("ptokit", *Path(path).relative_to(SOURCE).with_suffix("").parts)))
    gc.unfreeze()  # the run froze what was there after collection, and collections would take seconds without that
    things = [thing for thing in gc.get_objects() if type(thing) is FunctionType]
    gc.freeze()
    return [thing for thing in things if thing.__code__.co_filename == path]
