"""Runs the examples of the clause table: what meets a clause must pass, what breaks it must be stopped by it."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import count, product
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Rule
from ptokit.machine.report import MachineReport
from tests import snippet

REFUSALS = (pto.VerifyError, pto.OutOfBoundsError)
PYTHON = (AssertionError, ValueError, TypeError)


class Reported(Exception):
    """An example left a `report` of the machine that is not clean."""

    def __init__(self, report: MachineReport) -> None:
        self.findings = tuple(finding for finding in report.findings if finding.level != "note")
        super().__init__("\n".join(map(str, self.findings)))


SEEN = (*REFUSALS, Reported, pto.HazardWarning)
STOPS = {"reject": (*REFUSALS, Reported), **dict.fromkeys(("text", "accept", "model"), (*SEEN, *PYTHON))}
"""What may stop code that breaks a clause, by the clause's kind; else a refusal, a hazard or a false assertion."""


def targets_of(name: str) -> tuple[str, ...]:
    """The targets an example runs on."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    return example.targets or (clause.targets if clause else spec.FAMILIES)


NUMBERS = count()


@cache
def compiled(code: str, target: str) -> CodeType:
    """Code of an example, ready to run; kernels in it can be read."""
    return snippet.compiled(code, f"example {next(NUMBERS)} on {target}")


def run(code: str, target: str, op: str = "") -> None:
    """Execute one example of our own clause table on a target; hazards count as failures.

    What only the machine sees, an example shows as `report`: the report of a launch.
    """
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": target}
    if op:
        names["op"] = getattr(pto, op)
    with pto.target(target), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compiled(code, target), names)
    report = names.get("report")
    if isinstance(report, MachineReport) and not report.ok:
        raise Reported(report)


def findings_of(stop: BaseException) -> list[pto.Finding]:
    """The findings that an exception carries."""
    return [stop.finding] if isinstance(stop, pto.HazardWarning) else list(getattr(stop, "findings", ()))


@cache
def clauses_on(rule: str, target: str) -> frozenset[str]:
    """What findings of a rule name on a target: the rule itself where it applies, else what stands behind it there."""
    entries = [entry for each in INSTRUCTIONS.values() for entry in (*each.rules, *each.faults.values())]
    named = {e.clause(target) for e in entries if rule == (e.id if isinstance(e, Rule) else e.rule)}
    return frozenset(named) or frozenset((rule,))


def check_breaks(name: str, code: str, target: str, op: str = "") -> None:
    """Breaking code must be stopped, and where it is refused, by an error of the clause that it breaks."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    kind = clause.kind if clause else "decision"
    with pytest.raises(STOPS.get(kind, (*SEEN, AssertionError, ValueError))) as stop:
        run(code, target, op)
    if kind in ("reject", "decision") or example.rule:
        expected = example.rule or name
        found = [f for f in findings_of(stop.value) if f.rule in clauses_on(expected, f.target or target)]
        assert found, f"{expected} expected, stopped by {stop.value!r}"
        assert kind != "reject" or found[0].level == "error"


def check_example(name: str) -> None:
    """Run all code of one example on all its targets."""
    example = spec.examples()[name]
    for target, op in product(targets_of(name), example.each or ("",)):
        if example.meets:
            run(example.meets, target, op)
        for code in example.breaks:
            check_breaks(name, code, target, op)
