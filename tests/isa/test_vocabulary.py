"""A word of the vocabulary means one thing in every definition."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptokit.isa import vocabulary

ISA = Path(vocabulary.__file__).parent
STAR = "from ptokit.isa.vocabulary import *"


def defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines itself."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def imported(tree: ast.Module) -> Iterator[str]:
    """The names that it imports by name."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)


def modules() -> list[Path]:
    tree = ast.parse(Path(vocabulary.__file__).read_text("utf-8"))
    named = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [ISA / f"{name.rpartition('.')[2]}.py" for name in named if name.startswith("ptokit.isa.")]


WORDS = {name for file in modules() for name in defined(ast.parse(file.read_text("utf-8"))) if not name.startswith("_")}
DEFINITIONS = [file for file in sorted(ISA.glob("*.py")) if STAR in file.read_text("utf-8").splitlines()]


def test_words_come_from_one_module_each() -> None:
    everywhere = [name for file in modules() for name in set(defined(ast.parse(file.read_text("utf-8"))))]
    assert {name for name in everywhere if everywhere.count(name) > 1} == set()
    assert all(hasattr(vocabulary, name) for name in WORDS) and len(DEFINITIONS) >= 20


@pytest.mark.parametrize("file", DEFINITIONS, ids=lambda file: file.stem)
def test_definitions_neither_define_nor_import_them_anew(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    assert set(defined(tree)) & WORDS == set()
    assert set(imported(tree)) & WORDS == set()
    assert not [
        name
        for name in imported(tree)
        if name in vars(vocabulary)
        and name != "annotations"
        and vars(vocabulary)[name] is not getattr(__import__(f"ptokit.isa.{file.stem}", fromlist=["_"]), name)
    ]
