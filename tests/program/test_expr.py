"""Expressions: their values, their bounds, their sums and their text all agree with Python itself."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from ptokit.program.expr import (
    ANYTHING,
    OPS,
    Expr,
    ExpressionError,
    Op,
    Var,
    affine,
    apply,
    difference,
    evaluate,
    evaluate_arrays,
    interval,
    parts,
    show_expr,
    substitute,
    subtract,
    total,
    variables,
)

NAMES = ("a", "b", "c")
SMALL = st.integers(-9, 9)
VALUES = st.fixed_dictionaries({Var(name): SMALL for name in NAMES})
LEAVES = st.one_of(SMALL, st.sampled_from([Var(name) for name in NAMES]))


def operations(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """One operation more; built without `apply`, so that nothing is simplified on the way."""
    return st.builds(lambda name, a, b: Op(name, (a, b)), st.sampled_from(sorted(OPS)), inner, inner)


EXPRESSIONS = st.recursive(LEAVES, operations, max_leaves=8)


def built(expr: Expr) -> Expr:
    """The same as kernels build it: known parts are computed at once. What has no value is no case."""
    try:
        return substitute(expr, {})
    except ExpressionError:
        reject()


BUILT = EXPRESSIONS.map(built)

PYTHON = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "min": min,
    "max": max,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
"""What each operation means, in Python's own words."""


def evaluated(expr: Expr, values: dict[Var, int]) -> int | None:
    """The value of an expression in Python; None if it has none, or one of 2^60 or more."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Var):
        return values[expr]
    args = [evaluated(arg, values) for arg in expr.args]
    if None in args or (expr.name in ("shl", "shr") and args[1] > 63):
        return None
    try:
        result = PYTHON[expr.name](*args)
    except (ZeroDivisionError, ValueError):
        return None
    return result if abs(result) < 1 << 60 else None


def test_every_operation_is_tested() -> None:
    assert set(PYTHON) == set(OPS)


@given(EXPRESSIONS, VALUES)
def test_an_expression_has_the_value_of_python(expr: Expr, values: dict[Var, int]) -> None:
    expected = evaluated(expr, values)
    if expected is not None:
        assert evaluate(expr, values) == expected


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("floordiv", (3, 0), "3 // 0 has no value"),
        ("mod", (3, 0), "3 % 0 has no value"),
        ("shl", (1, -1), "a shift by -1"),
        ("shr", (1, 64), "a shift by 64"),
    ],
)
def test_what_has_no_value_is_refused(name: str, args: tuple[int, int], said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        apply(name, *args)
    with pytest.raises(ExpressionError, match=said):
        evaluate(Op(name, (Var("a"), Var("b"))), dict(zip((Var("a"), Var("b")), args, strict=True)))


@given(EXPRESSIONS, VALUES)
def test_building_with_apply_changes_no_value(expr: Expr, values: dict[Var, int]) -> None:
    expected = evaluated(expr, values)
    if expected is None:
        return
    rebuilt = substitute(expr, {})
    assert evaluate(rebuilt, values) == expected
    assert variables(rebuilt) <= variables(expr)
    assert evaluate(substitute(expr, values), {}) == expected


@given(EXPRESSIONS, st.lists(VALUES, min_size=1, max_size=5))
def test_arrays_of_values_give_the_same(expr: Expr, cases: list[dict[Var, int]]) -> None:
    cases = [case for case in cases if all(evaluated(part, case) is not None for part in parts(expr))]
    assume(cases)
    arrays = {Var(name): np.array([case[Var(name)] for case in cases], np.int64) for name in NAMES}
    found = np.broadcast_to(evaluate_arrays(expr, arrays), len(cases))
    assert found.tolist() == [evaluated(expr, case) for case in cases]


@st.composite
def bounded(draw: st.DrawFn) -> tuple[dict[Var, int], dict[Var, tuple[float, float]]]:
    """Values of the variables, and bounds around them, some of them infinite."""
    values = draw(VALUES)
    bounds = {}
    for var, value in values.items():
        below, above = draw(st.sampled_from([0, 1, 5, inf])), draw(st.sampled_from([0, 1, 5, inf]))
        bounds[var] = (value - below, value + above)
    return values, bounds


@settings(max_examples=200)
@given(EXPRESSIONS, bounded())
def test_bounds_contain_the_value(expr: Expr, case: tuple[dict[Var, int], dict[Var, tuple[float, float]]]) -> None:
    values, bounds = case
    value = evaluated(expr, values)
    if value is None:
        return
    low, high = interval(expr, bounds)
    assert low <= value <= high
    assert low == -inf or low == int(low)
    assert high == inf or high == int(high)


@pytest.mark.parametrize("name", sorted(OPS))
def test_bounds_of_one_operation_hold_over_a_grid_of_ranges(name: str) -> None:
    ends = range(-4, 5)
    ranges = [(low, high) for low in ends for high in ends if low <= high]
    a, b = Var("a"), Var("b")
    for left in ranges[::3]:
        for right in ranges[::3]:
            low, high = interval(Op(name, (a, b)), {a: left, b: right})
            found = [
                evaluated(Op(name, (x, y)), {})
                for x in range(left[0], left[1] + 1)
                for y in range(right[0], right[1] + 1)
            ]
            assert all(low <= value <= high for value in found if value is not None), (left, right)


def test_bounds_of_unknown_variables_are_everything() -> None:
    assert interval(Var("a"), {}) == ANYTHING
    assert interval(Op("min", (Var("a"), 3)), {}) == (-inf, 3)
    assert interval(Op("mod", (Var("a"), 8)), {}) == (0, 7)
    assert interval(Op("lt", (Var("a"), 3)), {}) == (0, 1)
    assert interval(Op("mul", (Var("a"), 0)), {}) == (0, 0)


@given(BUILT, BUILT, VALUES)
def test_sums_of_multiples_keep_the_value(one: Expr, other: Expr, values: dict[Var, int]) -> None:
    first, second = evaluated(one, values), evaluated(other, values)
    if first is None or second is None:
        return
    for expr, value in ((one, first), (other, second)):
        terms = affine(expr)
        assert sum(factor * (1 if term == 1 else evaluate(term, values)) for term, factor in terms.items()) == value
        assert evaluate(total(terms), values) == value
        assert 0 not in terms.values()
    assert evaluate(subtract(one, other), values) == first - second


@given(BUILT, LEAVES)
def test_what_two_sums_share_goes_away(expr: Expr, more: Expr) -> None:
    assert subtract(expr, expr) == 0
    assert difference(Op("add", (expr, more)), expr) == affine(more)
    assert difference(Op("add", (expr, more)), Op("add", (more, expr))) == {}


@given(EXPRESSIONS, VALUES)
def test_the_text_is_python_of_the_same_value(expr: Expr, values: dict[Var, int]) -> None:
    expected = evaluated(expr, values)
    if expected is not None:
        named = {str(var): value for var, value in values.items()}
        assert eval(show_expr(expr), {"__builtins__": {"min": min, "max": max}}, named) == expected


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Op("mul", (Op("add", (Var("a"), 1)), 8)), "(a + 1) * 8"),
        (Op("add", (Var("a"), Op("mul", (Var("b"), 8)))), "a + b * 8"),
        (Op("sub", (Var("a"), Op("sub", (Var("b"), 1)))), "a - (b - 1)"),
        (Op("min", (64, Op("sub", (400, Var("a"))))), "min(64, 400 - a)"),
        (Op("and", (Op("lt", (Var("a"), 3)), Op("ge", (Var("b"), 1)))), "(a < 3) & (b >= 1)"),
        (Op("shl", (1, Op("add", (Var("a"), 2)))), "1 << a + 2"),
    ],
)
def test_the_text_has_the_brackets_it_needs(expr: Expr, text: str) -> None:
    assert show_expr(expr) == text


def test_names_stand_for_parts_of_the_text() -> None:
    row = Op("mul", (Var("block_idx"), 64))
    assert show_expr(Op("add", (row, 8)), {row: "row"}) == "row + 8"
