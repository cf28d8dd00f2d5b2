"""Mutation testing: small semantic changes of the source, each of which some test must notice.

`make mutants`, or `python tests/mutation --count 300 --seed 0 -j 2`, does this:

1. It runs the tests of `POOL` once, in a copy of the source, and notes which functions of the package each test enters
   and how long it takes.
2. It finds every place of `isa/`, `engine/` and `target/` whose meaning can be changed (`points.py`): policies,
   comparisons and arithmetic of extents, strides and capacities, rows for columns, launch constants, costs, entries of
   tables, lists of element types. It draws `--count` of them with `--seed`, the same ones for the same source.
3. It makes each change in a copy of the source and runs the tests that enter the changed function in a child process
   with a time limit, the most relevant tests first, until one fails. After `--seconds` no other mutant is begun.
4. It reports the share of changes that a test notices, and every other with file, line and change. The exit status is
   1 when that share is below `--goal` (98 per cent).

A change that no test can notice, because it means the same, stands in `equivalent.toml` with a reason. An entry names
the module, the function, the original expression and the mutation, never a line; `*` stands for any. A `[[module]]`,
or a function of it, that decides only how fast something runs is left out as a whole. Entries that match nothing are
reported.

To look into survivors: `--only isa/layout.py:12` draws from the mutants that print with that text, `--show` prints the
changes and runs nothing, `--tests` prints the tests that were chosen for each survivor, and `--cover FOLDER` keeps the
record of step 1 for the next run, as long as neither source nor tests change.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain, zip_longest
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

import pytest
from drawing import HERE, PACKAGE, ROOT, candidates, drawn
from points import TABLES, Mutant, made
from terminal import progress

POOL = (
    *("tests/isa", "tests/target", "tests/engine", "tests/compute", "tests/property", "tests/conformance"),
    *("tests/test_ops.py", "tests/test_findings.py", "tests/lang/test_tile.py", "tests/lang/test_slices.py"),
    *("tests/program/test_place.py", "tests/program/test_overlaps.py", "tests/program/test_steps.py"),
    *("tests/machine/test_costs.py", "tests/machine/test_traffic.py", "tests/machine/test_repeats.py"),
    *("tests/machine/test_machine_clauses.py", "tests/machine/test_advice.py", "tests/text/test_cpp.py"),
    *("tests/machine/test_beside_the_result.py", "tests/program/test_one_tile_twice.py"),
    *("tests/cxx/test_header_faults.py", "tests/cli/test_page.py", "tests/text/test_vector_cores.py"),
)
"""Tests of what is mutated. None needs PyTorch, so that the score does not depend on it: updates and bags are tested
with arrays in `tests/engine`."""
NEVER = (
    *("tests/conformance/test_language_refusals.py",),
    *(
        "tests/conformance/test_pages.py",
        "tests/conformance/test_coverage.py",
        "tests/conformance/test_text_clauses.py",
    ),
    *("tests/engine/native/test_store.py", "tests/engine/native/test_jit.py", "tests/engine/native/test_workers.py"),
    "tests/engine/native/test_thread_count.py",
)
"""Tests of the pool that say little of the mutated folders for the time they take."""
TABLE_TESTS = (
    *("tests/compute/test_refusals.py", "tests/conformance/test_type_tables.py", "tests/target/test_profiles.py"),
    *("tests/conformance/test_shape_tables.py", "tests/isa/", "tests/conformance/test_header_rules.py"),
    *("tests/conformance/test_machine_tables.py", "tests/conformance/test_rules_by_target.py"),
    *("tests/machine/test_costs.py", "tests/text/test_cpp.py::test_element_types_that_the_headers_assert"),
    "tests/compute/test_select.py::test_just_the_listed_pairs_are_accepted",
    "tests/text/test_cpp.py::test_the_headers_own_workspace_begins_at_184_kb",
)
"""Tests that hold tables against what documents say; they come first for a mutant of a table."""
LONGEST = 10.0
"""Seconds of a test that may be chosen."""
SECONDS = 120.0
"""Seconds of all tests that are chosen for one mutant."""
CHEAP = 0.3
"""Seconds of a test that is run early."""
FIRST = 40
"""Tests that are collected and run first: most mutants do not survive them, and collecting all takes long."""
CONTROL = 200
"""Tests that are run without a change first."""
START = 60.0
"""Seconds that a child process may take beside its tests."""


@dataclass
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    status: str
    """`killed`, `timeout`, `survived` or `untested`."""
    tests: tuple[str, ...]


# --- What tests enter ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cover:
    """Which tests enter a function, by its file below the package and its first line."""

    tests: dict[tuple[str, int], list[tuple[float, str]]]

    @classmethod
    def read(cls, folder: Path) -> Cover:
        """What all processes of a run have recorded."""
        tests: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
        for file in folder.glob("*.json"):
            for name, (seconds, places) in json.loads(file.read_text(encoding="utf-8")).items():
                for place in places:
                    file, _, line = place.rpartition(":")
                    if seconds <= LONGEST:
                        tests[file, int(line)].append((seconds, name))
        return cls(tests)

    def choose(self, mutant: Mutant) -> tuple[str, ...]:
        """The tests to run for a mutant, group by group, as far as their time allows."""
        chosen: dict[str, None] = {}
        left, groups = SECONDS, list(self._groups(mutant))
        for number, group in enumerate(groups, 1):
            share = left / 2 if number < len(groups) else left  # the groups after it get the rest
            for seconds, name in _mixed(group):
                if name not in chosen and seconds <= share:
                    chosen[name] = None
                    share, left = share - seconds, left - seconds
        return tuple(chosen)

    def _groups(self, mutant: Mutant) -> Iterator[set[tuple[float, str]]]:
        """Tests that name the function or table, tests that enter the function, and for a table: cases that are named
        after its instructions, tests that enter functions which name it, tests that hold tables against documents,
        those of its package first. Last, all tests that enter the module."""
        entering = self._entering((mutant.module, start) for start in mutant.starts)
        names = (mutant.function.rpartition(".")[2], *_tables(mutant.module, mutant.table))
        words = {name.lower().lstrip("_") for name in names}
        yield {row for row in entering or self._entering(self.tests) if words & _words_of(row[1])}
        yield self._entering((mutant.module, start) for start in mutant.starts[::-1][:1])
        yield entering
        if mutant.table:
            naming = self._entering(_naming(mutant.module, mutant.table))
            about = self._entering(self.tests) if mutant.module.startswith(TABLES) else set()
            holding = {row for row in about if row[1].startswith(TABLE_TESTS)}
            cheap = {row for row in holding if row[0] < CHEAP}
            yield {row for row in holding if not _case(row[1]).isdisjoint(_instructions(mutant.module, mutant.table))}
            yield cheap & naming
            yield {row for row in cheap if row[1].startswith(f"tests/{mutant.module.partition('/')[0]}/")}
            yield cheap
            yield naming
            yield holding
        yield self._entering(place for place in self.tests if place[0] == mutant.module)

    def _entering(self, places: Iterable[tuple[str, int]]) -> set[tuple[float, str]]:
        return set(chain.from_iterable(self.tests.get(place, ()) for place in places))


def _mixed(tests: set[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """One case of every test function, then another one of every function, and so on.

    Cases come in a mixed order: neighbours are much alike.
    """
    cases: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for seconds, name in sorted(tests, key=lambda row: crc32(row[1].encode())):
        cases[name.partition("[")[0]].append((seconds, name))
    return filter(None, chain.from_iterable(zip_longest(*cases.values())))


@cache
def _case(test: str) -> frozenset[str]:
    """The words in the name of a case."""
    return frozenset(re.split(r"[^a-z0-9_]+", test.partition("[")[2].lower()))


@cache
def _words_of(test: str) -> frozenset[str]:
    """The names and words in the source of a test function, in lower case."""
    file, _, name = test.partition("[")[0].partition("::")
    return _words_in(file).get(name.rpartition("::")[2], frozenset())


@cache
def _words_in(file: str) -> dict[str, frozenset[str]]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name: frozenset(map(str.lower, _named(node) | _quoted(node))) for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)}  # fmt: skip


def _quoted(node: ast.AST) -> frozenset[str]:
    """The strings in a piece of source."""
    values = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


def _named(node: ast.AST) -> frozenset[str]:
    """The names and attributes in a piece of source."""
    names = (getattr(each, "id", None) or getattr(each, "attr", None) for each in ast.walk(node))
    return frozenset(name for name in names if isinstance(name, str))


@cache
def _tables(module: str, table: str) -> frozenset[str]:
    """The names of a table, and of the tables of its module that are made from it."""
    names = {name.strip(" ()") for name in table.split(",")} - {""}
    made = [(_named(node.targets[0]), _named(node.value)) for node in _assignments(module)]
    while more := {name for named, used in made if used & names for name in named} - names:
        names |= more
    return frozenset(names)


@cache
def _assignments(module: str) -> list[ast.Assign]:
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.Assign)]


@cache
def _instructions(module: str, table: str) -> frozenset[str]:
    """Words that may name the instructions of a table: of the file, of the tables, and of the strings in them."""
    names = _tables(module, table)
    strings = (_quoted(node.value) for node in _assignments(module) if _named(node.targets[0]) & names)
    targets = {path.stem for path in (PACKAGE / "target").glob("*.py")}
    return frozenset(map(str.lower, {Path(module).stem, *names}.union(*strings))) - targets


@cache
def _naming(module: str, table: str) -> tuple[tuple[str, int], ...]:
    """The functions and lambdas of the package that name a table, or one that is made from it."""
    names = _tables(module, table)
    return tuple(place for place, named in _names() if names & named)


@cache
def _names() -> list[tuple[tuple[str, int], frozenset[str]]]:
    found: list[tuple[tuple[str, int], frozenset[str]]] = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                decorators = getattr(node, "decorator_list", [])
                start = min([node.lineno, *(each.lineno for each in decorators)])
                found.append(((path.relative_to(PACKAGE).as_posix(), start), _named(node)))
    return found


# --- Runs ----------------------------------------------------------------------------------------------------


def environment(source: Path, **more: str) -> dict[str, str]:
    """What a child process runs with: the copy of the source, and no compiled code from elsewhere."""
    path = os.pathsep.join(filter(None, (str(source), str(HERE), os.environ.get("PYTHONPATH"))))
    return {
        **os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PTOKIT_CACHE": "off", "PTOKIT_THREADS": "2",
        "PTOKIT_MUTANTS": "run", **more,
    }  # fmt: skip


def pytest_command(*arguments: str) -> list[str]:
    """A quiet run that stops at the first failure."""
    return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *arguments]


def recorded(work: Path, folder: Path, pool: Sequence[str], jobs: int) -> Cover:
    """Run the pool once, unless a record of it is there."""
    source = work / "whole"
    if folder.exists():
        return Cover.read(folder)
    copied(source)
    folder.mkdir()
    command = [*pytest_command("-p", "covering", "-n", str(jobs), "--maxfail=1000", *pool), *skipped()]
    print(f"recording what the tests of {len(pool)} files and folders enter ...", flush=True)
    start = time.perf_counter()
    settings = environment(source, PTOKIT_COVERING=str(folder), PTOKIT_MUTANTS="record")
    with progress.task("recording"):
        run = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if "passed" in line or line.startswith(("FAILED", "ERROR"))]
    print("\n".join(lines[-20:] or [run.stdout[-2000:] + run.stderr[-2000:]]))
    print(f"in {time.perf_counter() - start:.0f} s", flush=True)
    cover = Cover.read(folder)
    shutil.rmtree(source)
    if not any(file for file, _ in cover.tests):
        raise SystemExit("no test enters the package: the run above has failed")
    return cover


def skipped() -> list[str]:
    """The tests that are not run."""
    return [f"--ignore={name}" for name in NEVER if (ROOT / name).exists()]


def copied(place: Path, original: Path = PACKAGE) -> None:
    """Copy the package; Python's own compiled files are made for the first copy, and serve all."""
    shutil.copytree(original, place / "ptokit", ignore=shutil.ignore_patterns("__pycache__"))
    if original is PACKAGE:
        compileall.compile_dir(place, quiet=2)
    else:
        for folder in original.rglob("__pycache__"):
            shutil.copytree(folder, place / "ptokit" / folder.relative_to(original))


class Child:
    """A process that runs tests over a copy of the source with one change, and undoes the change at its end.

    It is forked: what tests import besides the package is there already.
    """

    def __init__(self, mutant: Mutant, tests: tuple[str, ...], source: Path, *, control: bool = False) -> None:
        self.mutant, self.tests, self.source = mutant, tests, source
        self.file = source / "ptokit" / mutant.module
        self.text, self.written = self.file.read_text(encoding="utf-8"), self.file.stat().st_mtime_ns
        if not control:
            self.file.write_text(made(PACKAGE, mutant), encoding="utf-8")
        self.end = time.monotonic() + START + 2 * SECONDS
        self.process = get_context("fork").Process(target=run_tests, args=(tests, source))
        self.process.start()

    def outcome(self) -> Outcome | None:
        """What became of the mutant; None while its tests run."""
        late = time.monotonic() > self.end
        if self.process.is_alive() and not late:
            return None
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.file.write_text(self.text, encoding="utf-8")
        os.utime(self.file, ns=(self.written, self.written))  # as the compiled file has it
        code = self.process.exitcode
        status = "timeout" if late else {0: "survived", 5: "untested"}.get(code or 0, "killed")
        return Outcome(self.mutant, status, self.tests)


def run_tests(tests: tuple[str, ...], source: Path) -> None:
    """Run tests over a copy of the source, silently; the exit status is that of pytest."""
    os.setsid()
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silent, stream)
    os.chdir(ROOT)
    os.environ.update(environment(source))
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(source), str(ROOT)]
    status = 5
    for group in (tests[:FIRST], tests[FIRST:]):
        found = int(pytest.main(pytest_command("-p", "no:xdist", *group)[3:])) if group else 5
        status = found if found not in (0, 5) else min(status, found)
        if status not in (0, 5):
            break
    os._exit(status)


def preload() -> None:
    """Import what tests import besides the package, once for all children."""
    for name in ("numpy", "ml_dtypes", "rich.console", "typer", "llvmlite.binding"):
        with suppress(ImportError):
            import_module(name)


def run_all(mutants: list[Mutant], cover: Cover, work: Path, jobs: int, end: float) -> list[Outcome]:
    """Judge mutants, several at a time, each in a copy of its own. After `end` no other one is begun."""
    preload()
    free = [work / f"copy{k}" for k in range(jobs)]
    for place in free:
        copied(place, *([free[0] / "ptokit"] if place != free[0] else []))
    check_control(mutants, cover, free[0])
    waiting, running, done = list(mutants[::-1]), list[Child](), list[Outcome]()
    with progress.task("mutants", len(mutants), "judged", in_thread=False) as judged:
        while waiting or running:
            if time.monotonic() > end:
                waiting.clear()
            while waiting and free:
                mutant = waiting.pop()
                tests = cover.choose(mutant)
                if tests:
                    running.append(Child(mutant, tests, free.pop()))
                else:
                    done.append(told(Outcome(mutant, "untested", ())))
            for child in list(running):
                if outcome := child.outcome():
                    running.remove(child)
                    free.append(child.source)
                    done.append(told(outcome))
                    if len(done) % 25 == 0:
                        with progress.hidden():
                            print(f"{len(done)} mutants judged", flush=True)
            judged.done = len(done)
            progress.tick()
            time.sleep(0.02)
    return sorted(done, key=lambda outcome: (outcome.mutant.module, outcome.mutant.number))


def check_control(mutants: list[Mutant], cover: Cover, source: Path) -> None:
    """Without a change, tests must pass in a copy: else everything would count as killed."""
    tests = tuple(dict.fromkeys(name for mutant in mutants[:8] for name in cover.choose(mutant)[:30]))[:CONTROL]
    child = Child(mutants[0], tests, source, control=True)
    while not (outcome := child.outcome()):
        time.sleep(0.02)
    if outcome.status not in ("survived", "untested"):
        raise SystemExit(f"without any change, one of these tests fails: {' '.join(outcome.tests)}")


def told(outcome: Outcome) -> Outcome:
    """The outcome; one that counts against the tests is printed at once."""
    if outcome.status not in ("killed", "timeout"):
        with progress.hidden():
            print(f"{outcome.status}: {outcome.mutant}", flush=True)
    return outcome


# --- The command ---------------------------------------------------------------------------------------------


def report(outcomes: list[Outcome], listed: int, *, tests: bool) -> float:
    """Print what became of the mutants; the share that was killed. The `listed` ones, which no test can notice, are
    counted apart."""
    killed = [outcome for outcome in outcomes if outcome.status in ("killed", "timeout")]
    others = [outcome for outcome in outcomes if outcome.status not in ("killed", "timeout")]
    parts = Counter(outcome.mutant.module.partition("/")[0] for outcome in outcomes)
    dead = Counter(outcome.mutant.module.partition("/")[0] for outcome in killed)
    print()
    for outcome in others:
        print(f"{outcome.status}: src/ptokit/{outcome.mutant}")
        print(*(f"    {name}" for name in outcome.tests if tests), sep="\n", end="\n" if tests else "")
    for part, count in sorted(parts.items()):
        print(f"{part}: {dead[part]} of {count} killed")
    if not outcomes:
        print("no mutant was judged: recording took all of the time")
        return 0.0
    share = 100 * len(killed) / len(outcomes)
    slow = sum(outcome.status == "timeout" for outcome in outcomes)
    print(f"{len(killed)} of {len(outcomes)} mutants killed, {slow} of them by the time limit: {share:.1f} %")
    print(f"{listed} others are listed as equivalent, and were not judged")
    return share


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="tests/mutation", description="Small changes that tests must notice.")
    parser.add_argument("--count", type=int, default=240, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--seconds", type=float, default=1200.0, help="begin no mutant after this time")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="how many run at a time")
    parser.add_argument("--only", default="", help="a part of a printed mutant, such as isa/ or isa/layout.py:12")
    parser.add_argument("--pool", nargs="+", default=POOL, help="the tests to choose from")
    parser.add_argument("--cover", type=Path, help="a folder for the record of what tests enter")
    parser.add_argument("--goal", type=float, default=98.0, help="the share that must be killed, in per cent")
    parser.add_argument("--show", action="store_true", help="print the drawn mutants, and run nothing")
    parser.add_argument("--tests", action="store_true", help="print the tests that were chosen for each survivor")
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    found, listed = candidates(asked.only)
    mutants = drawn(found, asked.count, asked.seed)
    print(f"{len(mutants)} of {len(found)} mutants, seed {asked.seed}; {listed} are equivalent", flush=True)
    if asked.show or not mutants:
        print(*mutants, sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        cover = recorded(Path(folder), asked.cover or Path(folder, "cover"), asked.pool, asked.jobs)
        outcomes = run_all(mutants, cover, Path(folder), asked.jobs, end)
    return 0 if report(outcomes, listed, tests=asked.tests) >= asked.goal else 1


if __name__ == "__main__":
    raise SystemExit(main())
