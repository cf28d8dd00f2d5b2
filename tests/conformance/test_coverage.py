"""No clause without a test, no test of an unknown clause, no rule that could be removed unnoticed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from ptokit.lang import dispatch
from ptokit.program import verify_call as verify
from tests.conformance.coverage import clauses_of, covered, in_scope, reasons
from tests.conformance.harness import check_example

SETTLED_OTHERWISE = {"MG-SHAPE-01", "MG-SHAPE-02"}
"""Clauses of kind reject that a decision turned around: their examples show what is accepted instead."""

RULES = [(name, k) for name, instruction in INSTRUCTIONS.items() for k in range(len(instruction.rules))]


def test_every_clause_and_every_decision_has_a_test_or_a_reason() -> None:
    assert sorted(in_scope() - covered() - set(reasons())) == []


def test_no_reason_is_stated_for_what_has_a_test() -> None:
    assert sorted(set(reasons()) & covered()) == []


def test_reasons_are_few_and_about_known_ids() -> None:
    assert set(reasons()) <= in_scope()
    assert len(reasons()) <= 15
    assert all(len(reason) > 40 for reason in reasons().values())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@pytest.mark.clause('A', 'B')\ndef test_it(): pass", ["A", "B"]),
        ("@pytest.mark.clause('A')\n@pytest.mark.clause('B')\ndef test_it(): pass", ["A", "B"]),
        ("@pytest.mark.clause('A')\ndef helper(): pass", []),
        ("@pytest.mark.clause('A')\n@pytest.mark.skip\ndef test_it(): pass", []),
        ("@pytest.mark.xfail(strict=True)\n@pytest.mark.clause('A')\ndef test_it(): pass", []),
        ("# MG-SEM-01\ndef test_it():\n    'MG-SEM-02'\n    marks.clause('MG-SEM-03')", []),
    ],
)
def test_only_a_mark_on_a_test_that_runs_counts(source: str, found: list[str]) -> None:
    (node,) = ast.parse(source).body
    assert list(clauses_of(node)) == found


def test_every_clause_that_refuses_has_code_that_is_refused() -> None:
    examples = spec.examples()
    refusing = [name for name, clause in spec.clauses().items() if clause.kind == "reject"]
    assert [name for name in refusing if not examples[name].breaks and name not in SETTLED_OTHERWISE] == []


def test_every_example_can_fail() -> None:
    """It has an assertion, or code that must be refused."""
    silent = [
        name for name, example in spec.examples().items() if "assert " not in example.meets and not example.breaks
    ]
    assert silent == []


def test_every_named_id_exists() -> None:
    known = set(spec.clauses()) | set(spec.gaps()) | set(spec.hazards())
    assert sorted(covered() - known) == []


def test_every_rule_names_a_clause_or_a_decision_a_known_hazard_and_a_mend() -> None:
    known = set(spec.clauses()) | set(spec.gaps())
    for instruction in INSTRUCTIONS.values():
        for rule in instruction.rules:
            assert rule.id in known, rule
            assert not isinstance(rule.kind, str) or rule.kind in spec.hazards(), rule
            assert rule.fix or set(rule.on.values()) == {"note"}, f"{rule.id} does not say how to mend it"
        for fault in instruction.faults.values():
            assert fault.rule in known
            assert fault.kind is None or fault.kind in spec.hazards()


@contextmanager
def without_rule(instruction: Instruction, k: int) -> Iterator[None]:
    rules = instruction.rules
    object.__setattr__(instruction, "rules", rules[:k] + rules[k + 1 :])
    dispatch.PREPARED.clear()
    try:
        yield
    finally:
        object.__setattr__(instruction, "rules", rules)
        dispatch.PREPARED.clear()


def examples_about(rule: str) -> list[str]:
    return [name for name, example in spec.examples().items() if rule in (name, example.rule)]


def some_example_fails(rule: str) -> bool:
    for name in examples_about(rule):
        try:
            check_example(name)
        except (Exception, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize(("name", "k"), RULES, ids=[f"{n}-{INSTRUCTIONS[n].rules[k].id}-{k}" for n, k in RULES])
def test_removing_a_rule_is_noticed(name: str, k: int) -> None:
    rule = INSTRUCTIONS[name].rules[k].id
    assert not some_example_fails(rule), "the examples must pass before a rule is removed"
    with without_rule(INSTRUCTIONS[name], k):
        assert some_example_fails(rule), f"no example of {rule} noticed that the rule was gone"


CHECK_EXAMPLES = {
    "aligned_slices": "SL-02",
    "gapless_slices": "SL-04",
    "apart_slices": "SL-05",
    "valid_extents": "CO-SHAPE-02",
    "distinct_cells": "CO-SEM-01",
    "overlaps": "A-38",
    "budget": "MG-BUDG-13",
    "workspaces": "CP-TMP-01",
}


@pytest.mark.parametrize("check", verify.CHECKS, ids=lambda check: check.run.__name__)
def test_removing_a_common_check_is_noticed(check: verify.Check, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = CHECK_EXAMPLES[check.run.__name__]
    monkeypatch.setattr(verify, "CHECKS", tuple(other for other in verify.CHECKS if other is not check))
    dispatch.PREPARED.clear()
    try:
        assert some_example_fails(rule)
    finally:
        dispatch.PREPARED.clear()
