"""What has changed in a working tree: the files, and the names of what stands at the changed lines."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Change:
    """A changed file, and the names at its changed lines: of functions, classes and tables."""

    path: str
    names: frozenset[str] = frozenset()


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changes(base: str | None) -> list[Change]:
    """All changes since a commit; without one, those that are not committed, else those of the last commit."""
    lines = _changed_lines(base or "HEAD") or _changed_lines("HEAD~1")
    return [Change(path, frozenset(_names(path, numbers))) for path, numbers in sorted(lines.items())]


def named(lines: str) -> Change:
    """The change of some lines, as in `src/ptokit/isa/layout.py:12-14`."""
    path, _, numbers = lines.rpartition(":")
    first, _, last = numbers.partition("-")
    return Change(path, frozenset(_names(path, {*range(int(first), int(last or first) + 1)})))


def _changed_lines(base: str) -> dict[str, set[int]]:
    """The changed lines of each file, as they are numbered now; a removed line counts as its neighbours."""
    found: dict[str, set[int]] = defaultdict(set)
    path = ""
    for line in git("diff", "-U0", "--no-color", "--no-ext-diff", "--no-prefix", "--no-renames", base).splitlines():
        if line.startswith("--- "):
            removed = line[4:]
        elif line.startswith("+++ "):
            path = removed if line == "+++ /dev/null" else line[4:]
        elif hunk := HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[path] |= {*range(first, first + count)} if count else {first, first + 1}
    for path in git("ls-files", "--others", "--exclude-standard").splitlines():
        found[path] = {*range(1, 1 + len((ROOT / path).read_bytes().splitlines()))}
    return dict(found)


def _names(path: str, lines: set[int]) -> Iterator[str]:
    """The names of the innermost functions, their classes and the tables that have one of the lines."""
    file = ROOT / path
    if file.suffix != ".py" or not file.is_file():
        return
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:  # lint says so
        return
    yield from _names_in(tree, lines)


def _names_in(tree: ast.AST, lines: set[int]) -> Iterator[str]:
    """The same of a part of a file. Names that a function assigns are its own, and say little of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Named) and not lines.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (each.id for each in targets if isinstance(each, ast.Name))
        if not isinstance(tree, ast.FunctionDef) or isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _names_in(node, lines)
