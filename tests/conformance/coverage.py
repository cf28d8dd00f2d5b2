"""Which clauses must have a test, and which have one: an example of the clause table or a `clause` marker."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from ptokit import spec

TESTS = Path(__file__).resolve().parent.parent
NAMES_AND_NUMBERS = {
    "CO-LOC-01", "CO-LAY-01", "CO-LAY-03", "MG-OOB-01", "MG-SIMT-11", "MG-API-04", "MS-OOB-01", "MS-ATOM-01",
    "MG-L1-05", "MG-L1-06",
}  # fmt: skip
"""Clauses of kind text that are about enums, names and signatures."""


def in_scope() -> set[str]:
    """Every clause of kind reject, accept and value, every assembly form, and the text ones above."""
    clauses = spec.clauses()
    kinds = {name for name, clause in clauses.items() if clause.kind in ("reject", "accept", "value")}
    return kinds | {name for name in clauses if "-ASM-" in name} | NAMES_AND_NUMBERS


@cache
def marked() -> frozenset[str]:
    """The ids in `@pytest.mark.clause(...)` over all tests."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "clause":
                found.update(
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                )
    return frozenset(found)


def covered() -> set[str]:
    """Every id that some test names."""
    return set(spec.examples()) | marked()
