"""Which clauses and decisions have a test, and which have a stated reason why none is possible.

All clauses of the table and all decisions count. A test is an example of the clause table, or a test function with the
mark `@pytest.mark.clause(...)`. Everything else needs a line in `untestable.toml`.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ptokit import spec

TESTS = Path(__file__).resolve().parent.parent
REASONS = Path(__file__).with_name("untestable.toml")
NOT_RUN = ("skip", "skipif", "xfail")
"""Marks of tests that may pass without being run."""


def in_scope() -> set[str]:
    """Every clause and every decision."""
    return set(spec.clauses()) | set(spec.gaps())


@cache
def marked() -> frozenset[str]:
    """The ids in `@pytest.mark.clause(...)` over all test functions that are always run."""
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    files = (ast.parse(text) for text in texts if ".clause(" in text)
    return frozenset(name for tree in files for node in tree.body for name in clauses_of(node))


def clauses_of(node: ast.stmt) -> Iterator[str]:
    """The clauses that a test function declares; none for anything else, and none for a test that may be skipped."""
    if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_")):
        return
    marks = [(_mark(decorator), decorator) for decorator in node.decorator_list]
    if any(name in NOT_RUN for name, _ in marks):
        return
    for name, decorator in marks:
        if name == "clause" and isinstance(decorator, ast.Call):
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def _mark(decorator: ast.expr) -> str:
    """`clause` of `@pytest.mark.clause("MG-SEM-01")`, empty for other decorators."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    is_mark = isinstance(function, ast.Attribute) and ast.unparse(function.value) == "pytest.mark"
    return function.attr if is_mark else ""  # type: ignore[union-attr]


def covered() -> set[str]:
    """Every id that has an example or a marked test."""
    return set(spec.examples()) | marked()


@cache
def reasons() -> dict[str, str]:
    """Why an id has no test, for those that can have none."""
    return tomllib.loads(REASONS.read_text(encoding="utf-8"))


def summary() -> str:
    """The figures, for the end of a test run."""
    return "; ".join((_figure("clauses", set(spec.clauses())), _figure("decisions", set(spec.gaps()))))


def _figure(what: str, ids: set[str]) -> str:
    counts = len(ids & covered()), len(ids & set(reasons())), len(ids - covered() - set(reasons()))
    return f"{counts[0]} of {len(ids)} {what} have a test, {counts[1]} a reason why not, {counts[2]} neither"
