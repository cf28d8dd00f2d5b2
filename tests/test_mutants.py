"""What the mutation tests change, and that they draw the same changes every time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ptokit
from tests.mutation.points import Finder, enums, made

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(ptokit.__file__).resolve().parent
SOURCE = '''
"""A docstring with 3 numbers."""
TYPES = types("i8 u8 i16")
TABLE = {"cpu": 1, "a5": 2}
RULE = Rule("A-01", fix=f"at most {7}", holds=lambda c: c.rows < 4)

def clamp(index: int, capacity: int = 8) -> int:
    """Text."""
    if index is None:
        raise ValueError(f"no index {9}")
    return min(index, capacity - 1)

def text(rows: int) -> str:
    return "x" * (rows + 1)
'''


def changes(source: str) -> set[tuple[str, str, str]]:
    found = Finder("isa/sample.py", source, {"Remap": ["CLAMP", "WRAP"]}).run()
    return {(mutant.function, mutant.original, mutant.mutation) for mutant in found}


def test_changes_have_a_meaning_and_texts_are_left_alone() -> None:
    assert changes(SOURCE) == {
        ("TYPES", "'i8 u8 i16'", "'i8 u8'"),
        ("TYPES", "'i8 u8 i16'", "'u8 i16'"),
        ("TABLE", "{'cpu': 1, 'a5': 2}", "{'a5': 2}"),
        ("TABLE", "{'cpu': 1, 'a5': 2}", "{'cpu': 1}"),
        ("TABLE", "1", "2"),
        ("TABLE", "2", "3"),
        ("TABLE", "2", "1"),
        ("RULE", "c.rows < 4", "c.rows <= 4"),
        ("RULE", "c.rows", "c.cols"),
        ("RULE", "4", "5"),
        ("RULE", "4", "3"),
        ("clamp", "8", "9"),
        ("clamp", "8", "7"),
        ("clamp", "index is None", "index is not None"),
        ("clamp", "min(index, capacity - 1)", "max(index, capacity - 1)"),
        ("clamp", "capacity - 1", "capacity + 1"),
        ("clamp", "1", "2"),
    }


def test_policies_become_other_policies() -> None:
    assert changes("def f(x):\n    return Remap.WRAP") == {("f", "Remap.WRAP", "Remap.CLAMP")}


def test_every_change_of_a_file_makes_other_code_that_compiles() -> None:
    source = (PACKAGE / "isa/layout.py").read_text(encoding="utf-8")
    mutants, same = Finder("isa/layout.py", source, enums(PACKAGE)).run(), ast.unparse(ast.parse(source))
    assert len(mutants) > 50
    for mutant in mutants[::4]:
        changed = made(PACKAGE, mutant)
        assert changed != same, mutant
        compile(changed, "layout.py", "exec")


def test_the_same_seed_draws_the_same_mutants_and_no_entry_is_stale() -> None:
    command = [sys.executable, "tests/mutation", "--show", "--count", "5", "--seed", "3"]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second and len(first.splitlines()) == 6, first
