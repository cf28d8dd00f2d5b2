"""Repairs between the two cores: clean, minimal, with a diff; and no more edits than the fault has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.loaded import TextKernel
from ptokit.machine.report import ORDER
from ptokit.program.ir import CrossFlag, Program
from ptokit.program.memory import statements
from ptokit.program.repair import REMOVE, Edit, Edited
from tests.corpus.hazards import cores
from tests.corpus.hazards.case import Case
from tests.corpus.hazards.everything import few
from tests.loops import FULL
from tests.machine.test_repairs import replay_of

IDS = ("a reserved id", "the last reserved id", "id 2 of the gather")
"""Faults of an id, which orders what it should."""
BAD = [case for case in cores.CASES if case.bad and not case.kind and not case.name.endswith(IDS)]
CLEAN = [case for case in cores.CASES if not case.bad and not case.kind and "FIX to V" not in case.name]
"""Without those whose flags are of one core."""
BY_TURNS = slice(None, None, 1 if FULL else 5)
"""Of cases that several tests need, each takes every third one."""
MOST = {"no buffer is handed back": 6, "one buffer too few": 4}
"""The edits of repairs that take more than 2: a flag with its priming and draining."""


def changed(program: Program, edits: Iterable[Edit]) -> Program:
    """A program with edits."""
    return Edited(program, [tuple(edits)]).program


def launched(case: Case) -> tuple[Any, dict[str, Any]]:
    """The report of a case, and the arrays of its launch."""
    given = dict[str, Any]()
    report = case.launch(given=given)
    return report, {name: value for name, value in given.items() if isinstance(value, np.ndarray)}


def report_of(program: Program, case: Case, arrays: Mapping[str, Any]) -> Any:
    """Verify and launch a program, like any other text."""
    given = {name: value.copy() for name, value in arrays.items()}
    return TextKernel(program)[1](**given, target=case.target, engine="machine")


@pytest.mark.parametrize("case", few(BAD)[BY_TURNS], ids=lambda case: case.id)
def test_the_repair_is_clean_and_minimal(case: Case) -> None:
    report, arrays = launched(case)
    (repair,) = report.repairs
    program = replay_of(report).program
    assert (repair.kind, repair.target) == (ORDER, case.target)
    assert report_of(changed(program, repair.edits), case, arrays).ok
    for count in range(len(repair.edits)):
        for kept in combinations(repair.edits, count):
            assert not report_of(changed(program, kept), case, arrays).ok, kept
    assert len(repair.edits) <= next((most for name, most in MOST.items() if case.name.endswith(name)), 2)


@pytest.mark.parametrize("case", few(BAD, turn=1)[not FULL :][BY_TURNS], ids=lambda case: case.id)
def test_the_patch_of_the_source_gives_a_clean_launch(case: Case) -> None:
    """The kernel of the changed file is traced and launched like any other, under other schedules too."""
    given = dict[str, Any]()
    (repair,) = case.launch(given=given).repairs
    assert repair.diff, repair.patch.refusal
    for seed in (None, 0, 1) if FULL else (None, 0):
        fresh = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
        options = pto.MachineOptions(seed=seed)
        again = repair.patch.kernel[1](**fresh, target=case.target, engine="machine", options=options)
        assert again.ok, again


@pytest.mark.parametrize("case", few(CLEAN)[BY_TURNS], ids=lambda case: case.id)
def test_what_was_removed_is_found(case: Case) -> None:
    """Without one of its flags between the cores, a clean program takes one edit: the flag, or the removal of the other
    end."""
    report, arrays = launched(case)
    program = replay_of(report).program
    flags = [(path, stmt) for path, stmt in statements(program.body) if isinstance(stmt, CrossFlag)]
    turn = sum(case.id.encode())
    assert flags
    for path, stmt in flags if FULL else [flags[turn % len(flags)]]:
        faulty = report_of(changed(program, [Edit(REMOVE, path, stmt)]), case, arrays)
        (repair,) = faulty.repairs
        assert not faulty.ok and repair.kind == ORDER
        assert len(repair.edits) == 1, (stmt, repair)
        assert report_of(changed(replay_of(faulty).program, repair.edits), case, arrays).ok, (stmt, repair)
