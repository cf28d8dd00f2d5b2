"""No clause without a test, no test of an unknown clause, no rule without a clause and a fix."""

from __future__ import annotations

import ast

import pytest

from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from tests.conformance.coverage import clauses_of, covered, in_scope, reasons
from tests.conformance.harness import rules_of

SETTLED_OTHERWISE = {"MG-SHAPE-01", "MG-SHAPE-02"}
"""Clauses of kind reject that a decision turned around: their examples show what is accepted instead."""


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


def test_every_rule_names_a_clause_or_a_decision_a_known_hazard_and_a_fix() -> None:
    known = set(spec.clauses()) | set(spec.gaps())
    for instruction in INSTRUCTIONS.values():
        for rule in rules_of(instruction):
            assert rule.id in known, rule
            assert not isinstance(rule.kind, str) or rule.kind in spec.hazards(), rule
            assert rule.fix or set(rule.on.values()) == {"note"}, f"{rule.id} does not say how to fix it"
        for fault in instruction.reports.faults.values():
            assert fault.rule in known
            assert fault.kind is None or fault.kind in spec.hazards()


def examples_about(rule: str) -> list[str]:
    return [name for name, example in spec.examples().items() if rule in (name, *example.rule.split())]
