"""What `make check` takes for changed, and the order of its tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "check"))
changes, related = (import_module(name) for name in ("changes", "related"))
sys.path.pop()
SOURCE = """\
TABLE = {
    1: 2,
}
class Thing:
    field: int = 3
    def method(self):
        first = 4
        def inner():
            second = 5
        return inner
"""


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (2, {"TABLE"}),
        (5, {"Thing", "field"}),
        (7, {"Thing", "method"}),
        (9, {"Thing", "method", "inner"}),
    ],
)
def test_a_change_has_the_names_around_it_and_none_of_local_variables(line: int, names: set[str]) -> None:
    assert set(changes._names_in(ast.parse(SOURCE), {line})) == names


def test_tests_of_one_file_take_turns_with_those_of_others() -> None:
    first, second = ([related.Test(file, f"test_{k}", frozenset(), False) for k in range(8)] for file in "ab")
    worth = {**dict.fromkeys(first, 10.0), **dict.fromkeys(second, 8.0)}
    order = related._mixed(worth)
    assert order[0] == first[0] and second[0] in order[:3]
    assert [test for test in order if test.file == "a"] == first


def test_lines_may_be_named_instead_of_changed() -> None:
    command = [sys.executable, "tests/check", "--list", "--change", "src/ptokit/isa/layout.py:122"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "changed: src/ptokit/isa/layout.py"
    assert any(line.startswith("tests/isa/test_layout.py::") for line in lines[1:10])
    assert any(line.startswith("tests/property/") for line in lines[1:60])
