"""A finding's rule applies to the finding's target: in the tables, and in every finding that a test sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import EVERYWHERE
from ptokit.program.verify_call import CHECKS
from tests import findings


def named() -> Iterator[tuple[str, str, str]]:
    """The reporters of clauses by target."""
    for instruction in INSTRUCTIONS.values():
        for rule in (*instruction.rules, *instruction.cpp.headers, *instruction.cpp.slices):
            yield from ((f"{instruction.name}: {rule.operand}", rule.clause(target), target) for target in rule.on)
        for case, fault in instruction.reports.faults.items():
            yield from ((f"{instruction.name}: {case}", fault.clause(target), target) for target in EVERYWHERE)


def test_every_rule_and_fault_names_what_applies_to_the_target() -> None:
    assert [each for each in named() if not spec.holds(each[1], each[2])] == []


@pytest.mark.parametrize("name", spec.hazards())
def test_every_hazard_has_a_clause_on_every_target_where_it_has_a_level(name: str) -> None:
    hazard = spec.hazards()[name]
    assert set(hazard.clauses) <= set(spec.clauses()) | set(spec.gaps())
    assert set(hazard.levels) <= set(EVERYWHERE) and hazard.levels
    assert set(hazard.instructions) <= {*INSTRUCTIONS, spec.EVERY_INSTRUCTION}
    for target in hazard.levels:
        if hazard.seen_by == "machine":
            assert spec.holds(spec.behind(name, target), target)


DECIDED = {
    "H-04": "error on cpu and a5; note on a2a3",
    "H-05": "error on cpu; hazard on a5",
    "H-14": "error on a2a3 and a5",
    "H-15": "error on a2a3 and a5",
    "H-16": "error on a2a3 and a5",
    "H-17": "hazard",
    "H-24": "error for row gathers, note for element gathers on a2a3; error on a5",
    "H-48": "hazard on a2a3 and a5",
}


@pytest.mark.parametrize("name", DECIDED)
def test_levels_are_those_that_were_decided(name: str) -> None:
    assert spec.hazards()[name].level == DECIDED[name]


def test_a_rule_of_an_instruction_has_only_hazards_that_concern_it() -> None:
    hazards = spec.hazards()
    for instruction in INSTRUCTIONS.values():
        kinds = {kind for rule in instruction.rules for kind in rule.kinds}
        kinds |= {fault.kind for fault in instruction.reports.faults.values() if fault.kind}
        kinds |= {name for check in CHECKS for name in check.names if name in hazards}
        for kind in kinds:
            assert hazards[kind].concerns(instruction.name), (instruction.name, kind)


def test_the_words_of_a_hazard_name_only_instructions_that_it_concerns() -> None:
    for hazard in spec.hazards().values():
        for name in INSTRUCTIONS:
            if name.upper() in hazard.situation.split():
                assert hazard.concerns(name), (hazard.id, name)


def test_an_unknown_target_has_no_clause() -> None:
    with pytest.raises(LookupError, match="MS-CONF-01, MS-CONF-02 applies to a9"):
        spec.first(("MS-CONF-01", "MS-CONF-02"), "a9")
    assert spec.first(("MS-CONF-01", "MS-CONF-02"), "a5@2026.08") == "MS-CONF-02"
    assert spec.first(("MS-CONF-02", "MS-CONF-01"), "cpu@aicore") == "MS-CONF-01"
    assert spec.first(("MS-CONF-02", "MS-CONF-01"), "host") == "MS-CONF-02"  # a profile of our own


@pytest.mark.parametrize(
    ("rule", "kind", "target", "said"),
    [
        ("MS-CONF-01", "H-14", "a5", "MS-CONF-01 says nothing of a5"),
        ("MG-SYNC-04", "H-26", "a5", "MG-SYNC-04 says nothing of a5"),
        ("MS-CONF-02", "H-14", "", "MS-CONF-02 speaks of a2a3, a5, and the finding names no target"),
        ("XX-01", None, "a5", "XX-01 is neither a clause nor a decision"),
        ("A-38", "H-99", "a5", "H-99 is no hazard"),
        ("MS-CONF-01", "H-14", "cpu", "H-14 has no level on cpu"),
        ("MS-CONF-02", "H-14", "a2a3", ""),
        ("CO-SEM-01", None, "", ""),
        ("A-38", "H-38", "host", ""),
    ],
)
def test_tests_look_at_every_finding_that_is_made(rule: str, kind: str | None, target: str, said: str) -> None:
    with findings.expected_faults() as faults:
        pto.Finding("error", rule, "said", kind, target=target)
    assert faults == ([f"{said}: error [{rule}{f', {kind}' if kind else ''}] said"] if said else [])
