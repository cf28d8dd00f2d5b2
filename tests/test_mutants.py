"""What the mutation tests change, and that they draw the same changes every time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ptokit
from tests.mutation.points import Finder, edited, enums, made

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(ptokit.__file__).resolve().parent
SOURCE = '''
"""A docstring with 3 numbers."""
TYPES = types("i8 u8 i16")
TABLE = {"cpu": 1, "a5": 2}
RULE = Rule("A-01", fix=f"at most {7}", holds=lambda c: c.rows < 4 and c.cols, cpp=Cpp(5))

def clamp(index: int, capacity: int = 8, strict: bool = True) -> int:
    """Text."""
    if index is None or strict:
        raise ValueError(f"no index {9}")
    if capacity > MOST_KEPT or index == 3:
        return shift << 2
    return min(index, capacity - 1)

def launch(rows: int) -> LaunchShape:
    return LaunchShape(32, rows)

def text(rows: int) -> str:
    return "x" * (rows + 1)
'''


def changes(source: str, module: str = "isa/sample.py") -> set[tuple[str, str, str]]:
    found = Finder(module, source, {"Remap": ["CLAMP", "WRAP"]}).run()
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
        ("RULE", "c.rows < 4", "c.rows < 5"),
        ("RULE", "c.rows < 4", "c.rows < 3"),
        ("RULE", "c.rows", "c.cols"),
        ("RULE", "c.cols", "c.rows"),
        ("clamp", "capacity > MOST_KEPT", "capacity >= MOST_KEPT"),
        ("clamp", "index == 3", "index != 3"),
        ("clamp", "index == 3", "index == 4"),
        ("clamp", "index == 3", "index == 2"),
        ("clamp", "min(index, capacity - 1)", "max(index, capacity - 1)"),
        ("clamp", "capacity - 1", "capacity + 1"),
        ("clamp", "capacity - 1", "capacity - 2"),
        ("launch", "LaunchShape(32, rows)", "LaunchShape(33, rows)"),
        ("launch", "LaunchShape(32, rows)", "LaunchShape(31, rows)"),
    }


def test_constants_that_tune_an_engine_are_left_alone() -> None:
    found = changes(SOURCE, "engine/native/sample.py")
    assert {function for function, _, _ in found} == {"TYPES", "RULE", "clamp"}
    assert not [row for row in found if "MOST_KEPT" in row[1] or row[2] == "index == 4"]


def test_policies_become_other_policies() -> None:
    assert changes("def f(x):\n    return Remap.WRAP") == {("f", "Remap.WRAP", "Remap.CLAMP")}


def test_every_change_of_a_file_makes_other_code_that_compiles() -> None:
    source = (PACKAGE / "isa/layout.py").read_text(encoding="utf-8")
    mutants, same = Finder("isa/layout.py", source, enums(PACKAGE)).run(), ast.unparse(ast.parse(source))
    assert len(mutants) > 30
    for mutant in mutants[::3]:
        changed = made(PACKAGE, mutant)
        assert changed != same, mutant
        compile(changed, "layout.py", "exec")


def test_a_change_leaves_the_rest_of_the_file_as_it_is() -> None:
    source = (PACKAGE / "isa/layout.py").read_text(encoding="utf-8")
    for mutant in Finder("isa/layout.py", source, enums(PACKAGE)).run()[::5]:
        changed, lines = edited(PACKAGE, mutant)
        assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse(made(PACKAGE, mutant))), mutant
        assert list(lines) == [mutant.line]
        rest = changed.splitlines()
        assert source.splitlines()[: mutant.line - 1] == rest[: mutant.line - 1]
        assert set(rest[mutant.line :]) <= set(source.splitlines())


def test_the_same_seed_draws_the_same_mutants_and_no_entry_is_stale() -> None:
    command = [sys.executable, "tests/mutation", "--show", "--count", "5", "--seed", "3"]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second and len(first.splitlines()) == 6, first
