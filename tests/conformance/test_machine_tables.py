"""Every row of the machine's tables is needed on every target that has its hazard.

A row is dropped, and some kernel of the corpus of hazards must lose its finding: the one of that number, at that line
and operand, on that target.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from ptokit import spec
from tests.conformance.harness import (
    MACHINE_RULES,
    repeat_rulings,
    unordered_rows,
    without_machine_rule,
    without_repeat_ruling,
    without_unordered_row,
)
from tests.corpus.hazards.case import Case
from tests.corpus.hazards.everything import CASES
from tests.machine.test_corpus import is_it, judged


def is_found(case: Case) -> bool:
    """Whether a launch has the finding of the case, without looking at earlier launches."""
    return any(is_it(case, finding) for finding in case.launch().findings)


def is_needed(kind: str, target: str, dropped: AbstractContextManager[None]) -> bool:
    """Whether some case of a hazard loses its finding."""
    cases = [case for case in CASES if case.bad and (case.kind, case.target) == (kind, target)]
    assert all(judged(case).found for case in cases)
    with dropped:
        return any(not is_found(case) for case in cases)


def targets_of(kind: str) -> list[str]:
    """The targets of the documents where a hazard has a level."""
    return [target for target in spec.hazards()[kind].levels if target in spec.FAMILIES]


SELF_ORDERED = {("mscatter", "H-24", "a2a3")}
"""Hazards of an instruction that the kernels of a target rule out: they wait for loads themselves."""
ROWS = [(name, k, kind, target) for name, k, kind in unordered_rows() for target in targets_of(kind)]
RULINGS = [(name, kind, target) for (name, target), kinds in repeat_rulings().items() for kind in sorted(kinds)]
RULES = [(name, kind, target) for name, kind in MACHINE_RULES.items() for target in targets_of(kind)]


@pytest.mark.parametrize(("name", "k", "kind", "target"), ROWS)
def test_every_kind_of_unordered_accesses_is_needed(name: str, k: int, kind: str, target: str) -> None:
    is_possible = (name, kind, target) not in SELF_ORDERED
    assert is_needed(kind, target, without_unordered_row(name, k)) == is_possible


@pytest.mark.parametrize(("name", "kind", "target"), [row for row in RULINGS if row[2] in spec.FAMILIES])
def test_every_ruling_on_repeated_destinations_is_needed(name: str, kind: str, target: str) -> None:
    assert is_needed(kind, target, without_repeat_ruling(name, target))


@pytest.mark.parametrize(("name", "kind", "target"), RULES)
def test_every_rule_of_launch_and_addresses_is_needed(name: str, kind: str, target: str) -> None:
    assert is_needed(kind, target, without_machine_rule(name))
