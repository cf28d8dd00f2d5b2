"""The machine against the corpus of hazards: every one is reported, at its line and operand, and nothing else."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from tests.corpus.hazards import blocks, budgets, memory, order, repeats, tables
from tests.corpus.hazards.case import Case
from tests.corpus.hazards.everything import CASES, few
from tests.corpus.hazards.rules import RULES
from tests.loops import FULL

ONE = {(case.kind, case.target, case.bad): case for case in CASES}
JUDGED = CASES if FULL else tuple(dict.fromkeys((*few(CASES), *ONE.values())))
"""Those that the machine judges: all that differ in more than numbers, and of each hazard one on each target."""
NO_PROGRAM = {"H-33", "H-34", "H-39", "H-41"}
"""Hazards that no program can have."""


def line_of(finding: pto.Finding) -> str:
    """The text of the line that a finding points at."""
    return linecache.getline(finding.where.file, finding.where.line) if finding.where else ""


@dataclass
class Verdict:
    """The expected findings that were reported, and the other ones."""

    found: list[pto.Finding] = field(default_factory=list)
    misplaced: list[pto.Finding] = field(default_factory=list)
    """Of the right kind, but not as the case expects."""
    alarms: list[pto.Finding] = field(default_factory=list)
    crash: str = ""
    """What stopped the launch, which nothing should."""
    left: dict[str, bytes] = field(default_factory=dict)
    """The bytes of all arrays after the launch."""

    def __str__(self) -> str:
        lists = (("found", self.found), ("misplaced", self.misplaced), ("false alarms", self.alarms))
        said = [f"{name}: {finding}" for name, findings in lists for finding in findings]
        return self.crash or "\n".join(said) or "nothing found"


def is_it(case: Case, finding: pto.Finding) -> bool:
    """Whether a finding is the one that a bad case has to give."""
    placed = case.line in line_of(finding) and finding.operand == case.operand and finding.target == case.target
    ruled = finding.rule in RULES[case.kind][case.target]
    return placed and ruled and (finding.kind or "", finding.level) == (case.kind, case.level)


@cache
def judged(case: Case) -> Verdict:
    """Run a case and classify its findings. Notes do not count, unless the hazard is one."""
    verdict, given = Verdict(), dict[str, object]()
    try:
        findings = case.launch("machine", given).findings
    except Exception as problem:
        return Verdict(crash=f"{type(problem).__name__}: {problem}")
    verdict.left = contents(given)
    for finding in findings:
        if case.bad and is_it(case, finding):
            verdict.found.append(finding)
        elif finding.level == "note":
            if finding.kind == case.kind and case.level == "note" and not case.bad:
                verdict.alarms.append(finding)
        elif case.bad and (finding.kind or "") in case.also:
            continue
        elif case.bad and (finding.kind or "") == case.kind and case.line in line_of(finding):
            verdict.misplaced.append(finding)
        else:
            verdict.alarms.append(finding)
    return verdict


def is_right(case: Case) -> bool:
    """Whether the machine reports the expected findings, and no others."""
    verdict = judged(case)
    return bool(verdict.found) == case.bad and not verdict.alarms and not verdict.crash


@pytest.mark.parametrize(("kind", "target"), sorted({(case.kind, case.target) for case in CASES}))
def test_the_machine_says_what_a_case_has(kind: str, target: str) -> None:
    for case in JUDGED:
        if (case.kind, case.target) == (kind, target):
            wanted = f"{case.level} {case.kind} of {case.operand} at {case.line!r}" if case.bad else "nothing"
            assert is_right(case), f"{case.id}: expected {wanted}; {judged(case)}"


def kinds(cases: Iterable[Case]) -> list[str]:
    """The kinds of the cases, each once."""
    return sorted({case.kind for case in cases})


def table() -> list[str]:
    """A line for each hazard: how many kernels have it and how many of them were found, twins and false alarms."""
    lines = [f"{'hazard':8}{'bad':>6}{'found':>7}{'twins':>7}{'alarms':>8}{'precision':>11}{'recall':>8}"]
    for kind in kinds(JUDGED):
        bad = [case for case in JUDGED if case.kind == kind and case.bad]
        twins = [case for case in JUDGED if case.kind == kind and not case.bad]
        found = sum(bool(judged(case).found) for case in bad)
        alarms = sum(bool(judged(case).alarms or judged(case).crash) for case in (*bad, *twins))
        precision = f"{found / (found + alarms):.0%}" if found + alarms else "-"
        counts = f"{len(bad):6}{found:7}{len(twins):7}{alarms:8}"
        lines.append(f"{kind or 'none':8}{counts}{precision:>11}{found / len(bad):>8.0%}")
    return lines


def test_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("", *table(), sep="\n")
    missed = [case.id for case in JUDGED if case.bad and not judged(case).found]
    alarms = [case.id for case in JUDGED if judged(case).alarms or judged(case).crash]
    assert not missed, f"{len(missed)} missed: {missed}"
    assert not alarms, f"{len(alarms)} false alarms: {alarms}"


def test_few_cases_have_every_hazard_and_target() -> None:
    pipes = [case for case in CASES if case.target != "cpu"]
    chosen, others = few(pipes, full=False), few(pipes, turn=1, full=False)
    assert few(pipes, full=True) == pipes and len(chosen) == len(others) < len(pipes) / 1.8
    assert {(case.kind, case.bad) for case in pipes} == {(case.kind, case.bad) for case in chosen}
    families = {(case.kind, case.target, case.bad) for case in (*chosen, *others)}
    assert families == {(case.kind, case.target, case.bad) for case in pipes}


def test_every_hazard_that_a_program_can_show_has_cases_and_twins() -> None:
    bad = Counter(case.kind for case in CASES if case.bad)
    twins = Counter(case.kind for case in CASES if not case.bad)
    wanted = set(spec.hazards()) - NO_PROGRAM
    assert {kind for kind in wanted if bad[kind] < 3 or twins[kind] < 3} == set()
    assert min(bad.total(), twins.total()) >= 130
    assert len({case.id for case in CASES}) == len(CASES)


def test_the_table_of_hazards_has_the_levels_and_instructions_of_the_cases() -> None:
    """A level that depends on the case is a text that contains the level of each."""
    for case in CASES:
        if case.bad and case.kind:
            row = spec.hazards()[case.kind]
            assert case.level in row.levels[case.target], case.id
            named = re.search(r"pto\.(\w+)\(", case.line)
            assert named is None or named[1] not in INSTRUCTIONS or row.concerns(named[1]), case.id


def contents(given: dict[str, object]) -> dict[str, bytes]:
    """The bytes of all arrays that a launch was given."""
    arrays = {name: value.array if isinstance(value, pto.GlobalTensor) else value for name, value in given.items()}
    return {name: array.tobytes() for name, array in arrays.items() if isinstance(array, np.ndarray)}


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_twins_give_the_values_of_the_reference_engine_which_has_nothing_to_say_either(kind: str) -> None:
    for case in JUDGED:
        if case.kind == kind and not case.bad:
            given = dict[str, object]()
            run = case.launch("reference", given)
            assert not [finding for finding in run.findings if finding.level != "note"], case.id
            assert contents(given) == judged(case).left, case.id


# What reached silicon


def one(module: object, kind: str, name: str, target: str) -> Case:
    """A bad case and its twin are both right; gives the bad one."""
    pair = [case for case in module.CASES if (case.kind, case.name, case.target) == (kind, name, target)]  # type: ignore[attr-defined]
    assert pair and all(map(is_right, pair)), "\n".join(str(judged(case)) for case in pair)
    return next(case for case in pair if case.bad)


CLASSICS: dict[str, Callable[[], Case]] = {
    "the scalar pipe reads the indices before the flag of their load": lambda: one(order, "H-24", "row", "a2a3"),
    "a store right after a gather on A5": lambda: one(order, "H-25", "row", "a5"),
    "130 KB of tiles without dyn_ub": lambda: one(budgets, "H-20", "130 KB of elements", "a5"),
    "an NZ table on A5": lambda: one(tables, "H-02", "NZ", "a5"),
    "padded rows of a table on A5": lambda: one(tables, "H-46", "gather", "a5"),
    "a clamp that folds two rows onto one": lambda: one(repeats, "H-15", "clamped onto the last row", "a5"),
    "two blocks that scatter to one row": lambda: one(blocks, "H-16", "one row", "a5"),
}


@pytest.mark.parametrize("name", CLASSICS)
def test_what_reached_silicon(name: str) -> None:
    case = CLASSICS[name]()
    found = judged(case).found[0]
    assert found.message and found.fix and found.where is not None


def test_a_clamp_that_folds_names_both_lanes_and_both_indices() -> None:
    case = one(repeats, "H-15", "clamped onto the last row", "a5")
    message = judged(case).found[0].message
    assert "63" in message and "64" in message


def test_budgets_count_the_highest_address() -> None:
    for kind, target in (("H-20", "a5"), ("H-21", "a5"), ("H-22", "a2a3")):
        one(budgets, kind, "high address", target)


def test_stale_memory_is_detected_by_the_rows_of_the_indices() -> None:
    one(memory, "H-47", "rows", "a5")
    one(memory, "H-48", "rows", "a5")
