"""Calls that differ only in where blocks of arguments start are verified once, and each of them is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ptokit.finding import Where
from ptokit.program import verify as verification
from ptokit.program.ir import Program
from ptokit.program.verify import verify
from ptokit.program.verify_call import verify_call
from ptokit.target.a2a3 import A2A3
from tests.program.building import EDGE, exp, load, program, tiles, use

COUNT = 50


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that are verified."""
    calls: list[Any] = []

    def noted(call: Any, *args: Any, **options: Any) -> Any:
        calls.append(call)
        return verify_call(call, *args, **options)

    monkeypatch.setattr(verification, "verify_call", noted)
    return calls


def unrolled(start: str = "a") -> Program:
    loads = [replace(load(start, "x", k * EDGE), where=Where("k.py", k + 1)) for k in range(COUNT)]
    return program(*tiles("a b"), *loads)


def test_equal_calls_are_verified_once(verified: list[Any]) -> None:
    verify(unrolled(), A2A3)
    assert len(verified) == 1


def test_calls_with_other_extents_or_tiles_are_not(verified: list[Any]) -> None:
    short = replace(exp("b", "a"), operands=(use("b", 3), use("a", 3)))
    verify(program(*tiles("a b"), load("a", "x"), exp("b", "a"), short, exp("a", "b"), exp("b", "a")), A2A3)
    assert len(verified) == 4


def test_each_faulty_statement_is_reported() -> None:
    wrong = [replace(each, operands=(use("a", EDGE + 1), each.operands[1])) for each in unrolled().instructions]
    found = [finding for finding in verify(program(*tiles("a b"), *wrong), A2A3) if finding.rule == "CO-SHAPE-02"]
    lines = {finding.where.line for finding in found if finding.where}
    assert lines == {*range(1, COUNT + 1)}
