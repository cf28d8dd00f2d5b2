"""The C++ kernels of `kernels/`: seeded faults are found at their lines, clean kernels are clean, and repairs hold."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.cxx.compile import CompileOptions
from ptokit.finding import Finding, VerifyError
from ptokit.lang.cpp_entries import CppSource, chosen_entry
from ptokit.lang.recorded import CppKernel
from ptokit.machine.report import ORDER, Patch
from tests.cxx.building import COMPILER
from tests.cxx.launches import KERNELS, Expected, launches
from tests.cxx.references import REFERENCES, RESULTS
from tests.loops import FULL

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
CASES = launches()
CLEAN = [case for case in CASES if case.clean]
FAULTY = [case for case in CASES if not case.clean]
REPAIRED = [case for case in FAULTY if case.repair]
OF_ORDER = ("KN-13", "KN-16", "A-45", "A-73", "MG-SYNC-")
"""Rules that flags and barriers break and repair."""
FAMILIES = ("elementwise", "rows", "indexed", "cube", "mixed", "control", "cores", "vectors")


@lru_cache
def source(file: Path) -> CppSource:
    """A file, compiled once for each target."""
    return CppSource(str(file), CompileOptions())


@dataclass(frozen=True)
class Launched:
    """A launch on the machine."""

    kernel: CppKernel
    report: Any
    """None if the launch was refused."""
    found: list[Finding]
    """Errors, hazards, and what is not modelled."""
    given: dict[str, Any]
    """The arguments afterwards."""


def launched(case: Expected, of: CppSource) -> Launched:
    """The launch function of a case, run on the machine."""
    kernel = CppKernel(of, chosen_entry(of.build(case.target), f"launch_{case.entry}"), case.target)
    given = {name: value for name, value in case.values().items() if name in kernel.parameters}
    try:
        report: Any = kernel[1](**given, target=case.target, engine="machine")
    except VerifyError as refused:
        return Launched(kernel, None, _serious(refused.findings), given)
    return Launched(kernel, report, _serious(report.findings), given)


@lru_cache
def run(case: Expected) -> Launched:
    """The launch of a case as it is written."""
    return launched(case, source(case.file))


def _serious(findings: Any) -> list[Finding]:
    return [found for found in findings if found.level != "note"]


def _shown(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


def test_half_of_the_kernels_have_a_fault() -> None:
    files = {name: (KERNELS / f"{name}.cpp").read_text() for name in FAMILIES}
    entries = [entry for text in files.values() for entry in re.findall(r"\blaunch_(\w+)\(", text)]
    assert set(entries) == {case.entry for case in CASES}
    assert len(entries) >= 80
    assert len({case.entry for case in FAULTY}) * 2 >= len(entries)


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.id)
def test_clean_kernels_are_clean_and_right(case: Expected) -> None:
    found, given = run(case).found, run(case).given
    assert not found, _shown(found)
    reference, before = REFERENCES[case.entry], case.values()
    expected = reference(**{name: before[name] for name in inspect.signature(reference).parameters})
    result = given[RESULTS.get(case.entry, "out")].reshape(expected.shape)
    np.testing.assert_allclose(result.astype("float64"), expected.astype("float64"), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.id)
def test_faults_are_found_at_their_lines(case: Expected) -> None:
    found = run(case).found
    here = [each for each in found if each.where and each.where.line == case.line]
    wanted = case.rule, case.hazard, case.level
    assert [(each.rule, each.kind or "", each.level) for each in here] == [wanted], _shown(found)
    others = [each for each in found if each not in here and not (each.where and each.where.line in case.lines_also())]
    assert not others, _shown(others)
    assert Path(here[0].where.file).name == case.file.name  # type: ignore[union-attr]


def test_every_fault_of_order_has_a_repair() -> None:
    assert all(bool(case.repair) == case.rule.startswith(OF_ORDER) for case in FAULTY)


@pytest.mark.parametrize("case", [case for case in FAULTY if not case.repair], ids=lambda case: case.id)
def test_other_faults_have_a_fix_in_words(case: Expected) -> None:
    assert all(found.fix for found in run(case).found if found.level != "unmodelled")


@lru_cache
def patch(case: Expected) -> Patch:
    """The repair of a launch in its source. All repairs of a file are compiled together: see `repaired`."""
    done = run(case)
    values = {name: value for name, value in case.values().items() if name in done.given}
    arguments, mode = done.kernel.bind((), values), pto.target(case.target).mode
    ((launch, _),) = done.kernel.launches(arguments, mode, 1).made
    program = launch.trace(arguments, mode).program
    (repair,) = done.report.propose(lambda edits, _: launch.definition.rewritten(program, edits), done.report.ok)
    assert repair.kind == ORDER
    return repair.patch


def changes(before: str, after: str) -> list[tuple[int, int, list[str]]]:
    """The lines that were replaced, and what replaces them."""
    old, new = before.splitlines(), after.splitlines()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [(a, b, new[c:d]) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def marked(before: str, after: str) -> list[str]:
    """All lines with a mark: kept, removed, added; without indentation and comments."""
    old, at, found = [_plain(line) for line in before.splitlines()], 0, list[str]()
    for first, last, new in changes(before, after):
        found += [f" {line}" for line in old[at:first]]
        found += [f"-{line}" for line in old[first:last]]
        found += [f"+{_plain(line)}" for line in new]
        at = last
    return [*found, *(f" {line}" for line in old[at:])]


def _plain(line: str) -> str:
    return line.partition("//")[0].strip()


def _matches(pattern: str, line: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(re.escape("..."), ".*"), line) is not None


def _places(text: str) -> Iterator[list[str]]:
    return (place.strip("\n").split("\n") for place in text.strip("\n").split("\n\n"))


@pytest.mark.parametrize("case", REPAIRED, ids=lambda case: case.id)
def test_repairs_are_the_expected_ones(case: Expected) -> None:
    made = patch(case)
    ((file, after),) = made.after.items()
    lines = marked(made.before[file], after)
    assert Path(file).name == case.file.name
    edited = [line for line in lines if line[0] != " "]
    expected = [line for place in _places(case.repair) for line in place]
    assert len(edited) == sum(line[0] != " " for line in expected), "\n".join(edited)
    for place in _places(case.repair):
        starts = range(len(lines) - len(place) + 1)
        assert any(all(map(_matches, place, lines[k:])) for k in starts), "\n".join([*place, "in", *edited])


@lru_cache
def repaired(file: Path, target: str) -> CppSource:
    """A file with all of its repairs for a target."""
    text = file.read_text()
    found = [change for case in REPAIRED if (case.file, case.target) == (file, target)
             for change in changes(text, patch(case).after[str(file)])]  # fmt: skip
    lines = text.splitlines()
    for first, last, new in sorted(found, key=lambda change: change[0], reverse=True):
        lines[first:last] = new
    return source(file).changed({str(file): "\n".join(lines) + "\n"})


COMPILED_AGAIN = FAMILIES if FULL else ("elementwise", "indexed", "cores")
"""Files whose repairs are compiled; those of the others are compared only."""
AGAIN = [case for case in CLEAN if any((case.file, case.entry) == (each.file, each.entry) for each in REPAIRED)]
"""Launches that were clean before a repair for other arguments."""


@pytest.mark.parametrize(
    "case", [case for case in (*REPAIRED, *AGAIN) if case.file.stem in COMPILED_AGAIN], ids=lambda case: case.id
)
def test_repaired_kernels_are_clean(case: Expected) -> None:
    found = launched(case, repaired(case.file, case.target)).found
    assert not found, _shown(found)
