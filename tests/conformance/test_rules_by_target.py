"""Every rule is needed on every target that it names: without it there, the verdict of some example changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from ptokit.lang import dispatch
from tests.conformance.harness import compiled, findings_of
from tests.conformance.test_coverage import examples_about

SUBSUMED = {("mgather", "A-03", "dst", "cpu"): "MG-LAY-01 refuses every ColMajor destination there"}
"""Rules that are redundant on this target: another check reports every case."""

LONG_PRODUCT = """
m, n = {}
product, kind = ("acc", "float32", m, n), "float32"
a, b, bias = ("left", kind, m, 16), ("right", kind, 16, n), ("bias", kind, 1, n)
tiles = {{"dst": product, "acc": product, "a": a, "b": b, "bias": bias}}
order = {{"tmatmul": "dst a b", "tmatmul_acc": "dst acc a b", "tmatmul_bias": "dst a b bias"}}[op.__name__]
op(*(pto.Tile(*tiles[name]).write(1) for name in order.split()))
"""
UNEVEN_ROWS = """
table = pto.GlobalTensor(np.zeros(200, "float32"), shape=(2, 1, 1, 4, 8), stride=(100, 1, 1, 8, 1))
pto.mgather(pto.Tile("vec", "float32", 8, 8), table, pto.Tile("vec", "int32", 1, 8).write(0))
"""
ADDED_BITS = """
table = pto.GlobalTensor(np.zeros((4, 32), "uint8"), dtype="hifloat8")
src = pto.Tile("vec", "hifloat8", 1, 32)
src.buffer[:] = 0
pto.mscatter(table, src, pto.Tile("vec", "int32", 1, 1).write(0), atomic="add")
"""
LAST_WRITER = """
src, idx = pto.Tile("vec", "int32", 2, 8).write(1), pto.Tile("vec", "int32", 2, 1).write([[0], [1]])
pto.mscatter(pto.GlobalTensor(np.zeros((4, 8), "int32")), src, idx, conflict="last")
"""
MORE = {
    "MS-CONF-02": [LAST_WRITER],
    "CP-MM-02": [LONG_PRODUCT.format("4096, 16"), LONG_PRODUCT.format("16, 4096")],
    "A-57": [UNEVEN_ROWS],
    "A-16": [ADDED_BITS],
}
"""Code beside the examples, for cases that no page shows: the host profile, and headers alone."""


def judged(code: str, target: str, op: str, **options: Any) -> frozenset[str]:
    """All findings of an example's code on a target."""
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": target}
    if op:
        names["op"] = getattr(pto, op)
    said: list[pto.Finding] = []
    with pto.target(target, **options) as here, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compiled(code, target), names)
        except Exception as stop:
            said = findings_of(stop)
        said += here.findings
    return frozenset(f"{finding.level} {finding.rule} {finding.message}" for finding in said)


@contextmanager
def without(instruction: Instruction, k: int, target: str) -> Iterator[None]:
    """The instruction with one of its rules left out on one target."""
    rules = instruction.rules
    fewer = replace(rules[k], on={name: level for name, level in rules[k].on.items() if name != target})
    object.__setattr__(instruction, "rules", (*rules[:k], fewer, *rules[k + 1 :]))
    dispatch.PREPARED.clear()
    try:
        yield
    finally:
        object.__setattr__(instruction, "rules", rules)
        dispatch.PREPARED.clear()


def samples(rule: str, instruction: str) -> Iterator[tuple[str, str]]:
    """Code about a rule, with the instruction to run it with where it is for several."""
    yield from ((code, instruction) for code in MORE.get(rule, ()))
    for name in examples_about(rule):
        example = spec.examples()[name]
        if example.each and instruction not in example.each:
            continue
        for code in (*example.breaks, *filter(None, [example.meets])):
            yield code, instruction if example.each else ""


def is_needed(instruction: Instruction, k: int, target: str) -> bool:
    """Whether some example is judged otherwise when the rule is gone, by the contract or by the headers alone."""
    rule = instruction.rules[k]
    for code, op in samples(rule.id, instruction.name):
        for options in ({}, {"header": True}):
            before = judged(code, target, op, **options)
            with without(instruction, k, target):
                if judged(code, target, op, **options) != before:
                    return True
    return False


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_rule_is_needed_on_every_target(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    unneeded = [
        (name, rule.id, rule.operand, target)
        for k, rule in enumerate(instruction.rules)
        for target in rule.on
        if (name, rule.id, rule.operand, target) not in SUBSUMED and not is_needed(instruction, k, target)
    ]
    assert unneeded == []
