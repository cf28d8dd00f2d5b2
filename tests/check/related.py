"""Which tests can notice a change, the likeliest first.

Nothing is recorded beforehand: imports of the source lead from a changed module to those that use it, and to the files
of tests that import these; the words of a test function say what it is about.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import log, log2
from pathlib import Path

from changes import ROOT, Change

SOURCE = ROOT / "src"
FAR = 8
"""The distance between modules that no import joins."""
MOST_FUNCTIONS, MOST_FILES = 700, 90
"""Test functions that are collected, and their files: collecting all takes longer than running the likeliest."""
BROAD = {
    "isa": ("tests/conformance", "tests/compute", "tests/property"),
    "spec": ("tests/conformance",),
    "target": ("tests/conformance", "tests/machine"),
    "engine": ("tests/property", "tests/compute", "tests/conformance"),
    "program": ("tests/machine", "tests/conformance"),
}
"""Folders of tests that run whole programs, and so notice changes of these packages whatever their names."""
WORD = re.compile(r"[A-Z]+(?:-[A-Z0-9]+)+|\w+")
"""A name, or the id of a clause."""
TOP = re.compile(r"^(def |class |@|(?=\w+(?: =|:)))(\w+)", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*(?:from|import) ((?:ptokit|tests)[\w.]*)(?: import (\([^)]*\)|[^\n(]*))?", re.MULTILINE)
SLOW: dict[str, float] = json.loads(Path(__file__).with_name("slow.json").read_text(encoding="utf-8"))
"""Seconds of a case of functions whose cases take long (`slow.py`)."""
STRING = re.compile(r"(?<=\")[\w-]{3,}(?=\")")
ALIKE = 3.0
"""What a test is worth less whenever its file has twice as many that are worth more."""
USES = 12
"""Lines that may use a name: more say little of what it is for."""
SKIPPED = re.compile(r"^\S.*importorskip\(|allow_module_level", re.MULTILINE)
"""In a file that is skipped as a whole where something is not installed."""
COMMON = frozenset(("run", "main", "test", "read", "write", "name", "value", "made", "found"))
"""Names that say little."""


@dataclass(frozen=True)
class Test:
    """A test function, the words in it, and those of the functions of its file that it uses."""

    file: str
    name: str
    words: frozenset[str]
    may_be_skipped: bool
    """With its file, which needs what may not be installed: pytest refuses to be given a test of a skipped file."""


def tests() -> list[Test]:
    """All test functions but those that need a GPU, and those whose whole folder needs what is not installed."""
    left_out = {"gpu", *(name for name in ("torch",) if find_spec(name) is None)}
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [test for file in files if file.parent.name not in left_out for test in _tests_of(file)]


def _tests_of(file: Path) -> Iterator[Test]:
    path = file.relative_to(ROOT).as_posix()
    text = file.read_text(encoding="utf-8")
    words, may_be_skipped = {name: {*WORD.findall(block)} for name, block in _blocks(text)}, bool(SKIPPED.search(text))
    for name, own in words.items():
        if name.startswith("test_"):
            used = set[str]().union(*(words[word] for word in own & words.keys()))
            yield Test(path, name, frozenset(own | used | {*name.split("_")}), may_be_skipped)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """What is defined at the top of a file, with its decorators: names and source."""
    starts = [*TOP.finditer(text)]
    ends = [*(match.start() for match in starts), len(text)][1:]
    before = ""
    for match, end in zip(starts, ends, strict=True):
        block = text[match.start() : end]
        if match[1] == "@":
            before += block
        else:
            yield match[2], before + block
            before = ""


def imports_of(text: str) -> Iterator[str]:
    """The modules of ptokit and of the tests that a file imports, and the names that may be modules of packages."""
    for match in IMPORT.finditer(text):
        yield match[1]
        yield from (f"{match[1]}.{name}" for name in WORD.findall(match[2] or ""))


def _module(file: Path) -> str:
    base = SOURCE if file.is_relative_to(SOURCE) else ROOT
    return ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")


@cache
def _users() -> dict[str, set[str]]:
    """The modules that import a module."""
    users: dict[str, set[str]] = defaultdict(set)
    for file in (*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        for name in imports_of(file.read_text(encoding="utf-8")):
            users[name].add(_module(file))
    return users


@cache
def _uses() -> dict[str, list[tuple[str, str, str]]]:
    """Where the source has a name: the file, what is defined around it, and the line with the one before it."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        path = file.relative_to(ROOT).as_posix()
        for around, block in _blocks(file.read_text(encoding="utf-8")):
            lines = block.splitlines()
            for before, line in zip(("", *lines), lines, strict=False):
                for word in {*WORD.findall(line)} - {around}:
                    found[word].append((path, around, f"{before}\n{line}"))
    return found


def uses_of(path: str, names: Iterable[str]) -> frozenset[str]:
    """What uses names of a file, what uses that, and the strings and clauses beside them: rows of tables have these."""
    found, edge = set[str](), {*names}
    for _ in range(2):
        rows = [row for name in edge for row in _few_uses(path, name)]
        edge = {around for _, around, _ in rows} - found
        found |= edge.union(*(STRING.findall(lines) for _, _, lines in rows))
    return frozenset(found.difference(names))


def _few_uses(path: str, name: str) -> list[tuple[str, str, str]]:
    """The uses of a name in its own file, else all of them; none of a name that is used everywhere."""
    rows = _uses().get(name, [])
    rows = [row for row in rows if row[0] == path] or rows
    return rows if len(rows) <= USES else []


def distances(modules: Iterable[str]) -> dict[str, int]:
    """How many imports away from some modules each file is that uses them."""
    users = _users()
    found, edge = dict.fromkeys(modules, 0), set(modules)
    for distance in range(1, FAR):
        edge = set[str]().union(*(users.get(name, ()) for name in edge)) - found.keys()
        edge.discard("ptokit")  # which all tests import
        found.update(dict.fromkeys(edge, distance))
    return found


def words_of(change: Change) -> frozenset[str]:
    """The words of a case of a test that is about a change."""
    return uses_of(change.path, change.names) | change.names | {Path(change.path).stem}


def ranked(changed: Sequence[Change]) -> list[Test]:
    """The tests that can notice changes, the likeliest first; those of changed files before all others."""
    everything = tests()
    python = [each for each in changed if each.path.endswith(".py") and each.path.startswith(("src/", "tests/"))]
    often: dict[str, int] = defaultdict(int)
    for test in everything:
        for word in test.words:
            often[word] += 1
    rare = {word: log(len(everything) / count) for word, count in often.items()}
    scores: dict[Test, float] = defaultdict(float)
    for change in python or changed:
        score = _Score(change, rare)
        for test in everything:
            scores[test] = max(scores[test], score(test))
    worth = {
        test: score - 4 * log2(SLOW.get(f"{test.file}::{test.name}", 1)) for test, score in scores.items() if score
    }
    return _few(_mixed(worth))


def _mixed(worth: dict[Test, float]) -> list[Test]:
    """Tests by what they are worth, which is less for each further one of a file: tests of a file are much alike."""
    seen: dict[str, int] = defaultdict(int)
    for test in sorted(worth, key=lambda test: -worth[test]):
        seen[test.file] += 1
        worth[test] -= ALIKE * log2(seen[test.file])
    return sorted(worth, key=lambda test: -worth[test])


def _few(order: Iterable[Test]) -> list[Test]:
    found, files = list[Test](), set[str]()
    for test in order:
        if len(found) < MOST_FUNCTIONS and (test.file in files or len(files) < MOST_FILES):
            files.add(test.file)
            found.append(test)
    return found


class _Score:
    """How likely a test is to notice a change."""

    def __init__(self, change: Change, rare: dict[str, float]) -> None:
        self.path, self.rare = Path(change.path), rare
        self.names = {name for name in change.names if name not in COMMON and not name.startswith("__")}
        self.near = uses_of(change.path, self.names) - COMMON
        self.words = {part for part in (self.path.stem, *self.path.stem.split("_")) if len(part) > 2}
        parts = self.path.parts
        self.package = parts[2] if parts[:2] == ("src", "ptokit") and len(parts) > 3 else ""
        self.folder = "/".join(("tests", *parts[2:-1])) if self.package else ""
        self.away = distances([_module(ROOT / change.path)]) if self.path.suffix == ".py" else {}

    def __call__(self, test: Test) -> float:
        if test.file == self.path.as_posix():
            return 1000.0
        name = ".".join(Path(test.file).with_suffix("").parts)
        score = 12 * max(0, 4 - self.away.get(name, FAR)) / 4
        score += sum(3 * self.rare.get(word, 0) for word in self.names & test.words)
        score += sum(1.5 * self.rare.get(word, 0) for word in self.words & test.words)
        score += min(12, sum(self.rare.get(word, 0) for word in self.near & test.words))
        score += 4 * len(self.words & {*Path(test.file).stem.split("_")})
        if self.package:
            score += 8 * test.file.startswith(f"{self.folder}/") + 5 * test.file.startswith(f"tests/{self.package}/")
            score += 14 * test.file.startswith(tuple(f"{each}/" for each in BROAD.get(self.package, ())))
        return score
