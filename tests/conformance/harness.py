"""Runs the examples of the clause table: what meets a clause must pass, what breaks it must be stopped by it."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import spec

STOPS = (pto.VerifyError, pto.OutOfBoundsError, pto.HazardWarning, AssertionError, ValueError, TypeError)


def targets_of(name: str) -> tuple[str, ...]:
    """The targets an example runs on."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    return example.targets or (clause.targets if clause else spec.FAMILIES)


@cache
def compiled(code: str, target: str) -> CodeType:
    """Code of an example, ready to run."""
    return compile(code, f"<example on {target}>", "exec")


def run(code: str, target: str, op: str = "") -> None:
    """Execute one example of our own clause table on a target; hazards count as failures."""
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": target}
    if op:
        names["op"] = getattr(pto, op)
    with pto.target(target), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compiled(code, target), names)


def rules_of(stop: BaseException) -> set[str]:
    """The rules that an exception's findings carry."""
    if isinstance(stop, pto.HazardWarning):
        return {stop.finding.rule}
    return {finding.rule for finding in getattr(stop, "findings", ())}


def check_breaks(name: str, code: str, target: str, op: str = "") -> None:
    """Breaking code must be stopped, and where it is refused, by the clause that it breaks."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    with pytest.raises(STOPS) as stop:
        run(code, target, op)
    must_be_refused = clause is None or clause.kind == "reject" or bool(example.rule)
    expected = example.rule or name
    assert not must_be_refused or expected in rules_of(stop.value), f"{expected} expected, stopped by {stop.value!r}"


def check_example(name: str) -> None:
    """Run all code of one example on all its targets."""
    example = spec.examples()[name]
    for target, op in product(targets_of(name), example.each or ("",)):
        if example.meets:
            run(example.meets, target, op)
        for code in example.breaks:
            check_breaks(name, code, target, op)
