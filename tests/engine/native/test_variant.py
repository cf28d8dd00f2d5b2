"""Results with symbolic numbers are right for all numbers that meet their conditions, and only for those."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.engine.llvm.program.tiles import _stays_inside, trace
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Index, IndexUnit, Move, Remap, Side
from ptokit.lang.launch import mode_of
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Var, evaluate
from ptokit.program.instr_calls import call_of
from ptokit.program.ir import Instr, walk
from ptokit.program.symbolic import Conditions, SymbolicNumber
from ptokit.program.verify_call import verify_call
from tests.property.strategies import fuzz

ROWS, COLS = 32, 64
N, M, K = Var("n"), Var("m"), Var("k")


@pto.kernel
def everything(table, indices, out, n, m, k):
    """Instructions whose regions, windows and addresses depend on numbers of the launch."""
    ids = pto.Tile("vec", "int32", 1, ROWS, valid=(1, n))
    spread = pto.Tile("vec", "int32", ROWS, COLS, valid=(n, m))
    rows = pto.Tile("vec", "float32", ROWS, COLS, valid=(n, m))
    other = pto.Tile("vec", "float32", ROWS, COLS, valid=(n, m))
    sums = pto.Tile("vec", "float32", ROWS, 8, valid=(n, 1))
    pto.tload(ids, indices[k : k + n])
    pto.tload(rows, table[k : k + n, 0:m])
    pto.tload(spread, out[0:n, 0:m])
    pto.mgather(rows, table, ids, oob="clamp")
    pto.mgather(other, table, spread, coalesce="elem", oob="wrap")
    pto.tadd(other, rows, other)
    pto.tscatter(other, rows, spread)
    pto.trowsum(sums, other)
    pto.mscatter(table, rows, ids, coalesce="row", atomic="add", oob="skip")
    pto.tstore(out[k : k + n, 0:m], spread)


def traced(target: str) -> tuple[Any, list[Instr], Any]:
    mode = mode_of(target)
    table, out = np.zeros((100, COLS), "float32"), np.zeros((100, COLS), "int32")
    arguments = everything.bind((table, np.zeros(100, "int32"), out, 1, 1, 1), {})
    program = everything.trace(arguments, mode).program
    return program, [stmt for stmt in walk(program.body) if isinstance(stmt, Instr)], mode


def concrete(value: Any, values: dict[Var, int]) -> Any:
    """Plain data, with run-time numbers replaced by their values."""
    if isinstance(value, SymbolicNumber):
        return evaluate(value.expr, values)
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, *(concrete(getattr(value, f.name), values) for f in fields(value)))
    return tuple(concrete(each, values) for each in value) if isinstance(value, tuple) else value


numbers = st.fixed_dictionaries({N: st.integers(-1, ROWS + 1), M: st.integers(0, COLS + 1), K: st.integers(0, 70)})


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@fuzz(0.3)
@given(first=numbers, second=numbers)
def test_a_variant_is_what_the_numbers_themselves_would_give(
    target: str, first: dict[Var, int], second: dict[Var, int]
) -> None:
    program, instructions, mode = traced(target)
    here = {BLOCK_IDX: 0, BLOCK_NUM: 1}
    for instr in instructions:
        variant = trace(program, instr, mode.profile, mode.options, {**first, **here}, {})
        for values in ({**first, **here}, {**second, **here}):
            if variant is None or not variant.holds(values):
                continue
            call = call_of(program, instr, mode.profile, lambda expr, v=values: evaluate(expr, v))
            findings = verify_call(call, mode.profile, mode.options)
            assert not any(finding.level == "error" for finding in findings)
            assert variant.remarked == bool(findings)
            assert concrete(variant.steps, values) == concrete(call.instruction.lower(call), values)


def test_most_extents_share_one_variant() -> None:
    program, instructions, mode = traced("a5")
    here = {BLOCK_IDX: 0, BLOCK_NUM: 1, M: COLS, K: 3}
    judged = mode.profile, mode.options
    variants = {instr.name: trace(program, instr, *judged, {**here, N: 20}, {}) for instr in instructions}
    known = {name: variant for name, variant in variants.items() if variant is not None}
    assert known.keys() >= {"tload", "mgather", "tadd", "trowsum", "mscatter", "tstore"}
    for name, variant in known.items():
        assert sum(variant.holds({**here, N: n}) for n in range(1, ROWS + 1)) >= ROWS - 2, name


questions = st.tuples(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), st.integers(-9, 9), st.integers(-9, 9))


@fuzz()
@given(st.integers(-9, 9), st.integers(-9, 9), st.lists(questions, max_size=12), st.integers(-9, 9), st.integers(-9, 9))
def test_conditions_say_exactly_what_was_asked(
    x: int, y: int, asked: list[tuple[str, int, int]], other_x: int, other_y: int
) -> None:
    """The gathered ranges hold for other numbers just where every single answer would have been the same."""

    def answers(a: int, b: int, conditions: Conditions) -> list[bool]:
        first, second = SymbolicNumber(Var("a"), a, conditions), SymbolicNumber(Var("b"), b, conditions)
        return [bool(getattr(first * p - second, f"__{how}__")(q)) for how, p, q in asked]

    conditions, unused = Conditions(), Conditions()
    given_answers = answers(x, y, conditions)
    same = answers(other_x, other_y, unused) == given_answers
    values = {Var("a"): other_x, Var("b"): other_y}
    assert all(evaluate(condition, values) for condition in conditions.expressions) == same


@fuzz(0.3)
@given(st.integers(0, 50), st.integers(0, 50))
def test_whatever_needs_a_real_number_settles_it(value: int, other: int) -> None:
    for use in (hash, int, lambda n: list(range(n)), lambda n: {n: 1}, lambda n: [0][:n]):
        conditions = Conditions()
        use(SymbolicNumber(Var("a"), value, conditions))
        found: tuple[Expr, ...] = conditions.expressions
        assert all(evaluate(condition, {Var("a"): other}) for condition in found) == (value == other)


@pytest.mark.parametrize(
    ("capacity", "cast", "has_code"),
    [(0, True, False), (1, True, True), (2**32 - 1, True, True), (2**32, True, False), (2**32, False, True)],
)
def test_an_index_that_is_cast_has_code_for_tables_below_2_32(capacity: int, cast: bool, has_code: bool) -> None:
    """Lanes of 32 bits mark what is outside with their greatest value; an empty table has no element to read."""
    line = Layout.plain(0, 1)
    index = Index(Access("idx", line), Side.SRC, IndexUnit.ELEMENT, capacity, Remap.CLAMP, cast=cast)
    move = Move((1, 8), Access("dst", line), Access("src", line), index)
    assert _stays_inside(move, {"idx": 8, "dst": 8, "src": 2**33}) == has_code
