"""Expressions for numbers that change from one iteration to the next.

`fit` finds an expression of block and loop variables that has given values at given points. What it finds is exact at
these points: a sum over the variables of linear terms, remainders and quotients, and steps at one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ptokit.program.expr import Expr, Op, Var, apply, evaluate_arrays, interval, substitute

Numbers = np.ndarray[Any, np.dtype[np.int64]]
MOST_BUFFERS = 8
"""The longest period of values that are in no order."""


class Unfit(Exception):
    """Numbers that no such expression has."""


def fit(points: Numbers, values: Numbers, variables: Sequence[Var]) -> Expr:
    """The expression of the variables that has these values. A row of `points` has a value of each variable; rows are
    in lexicographic order. Raises Unfit."""
    if (values == values[0]).all():
        return int(values[0])
    for way in (_sum, _counted, partial(_counted, per_block=True)):
        try:
            with np.errstate(over="ignore"):
                found = way(points, values, variables)
        except (Unfit, OverflowError):
            continue
        if _is_exact(found, points, variables):
            return found
    raise Unfit


def _is_exact(found: Expr, points: Numbers, variables: Sequence[Var]) -> bool:
    """Whether an expression that has the values in 64 bits has them in unbounded numbers, too."""
    bounds = zip(points.min(axis=0).tolist(), points.max(axis=0).tolist(), strict=True)
    lowest, highest = interval(found, dict(zip(variables, bounds, strict=True)))
    return lowest >= -(1 << 63) and highest < 1 << 63


def _sum(points: Numbers, values: Numbers, variables: Sequence[Var]) -> Expr:
    """A sum of one expression for each variable, the innermost first."""
    found: Expr = 0
    for dim in reversed(range(points.shape[1])):
        column = points[:, dim]
        if (column == column[0]).all():
            continue
        starts = _groups(points[:, :dim])
        part = _along(column, values, starts, variables[dim])
        values = values - _evaluated(part, variables[dim], column)
        first = values[starts]
        if (np.repeat(first, np.diff(np.append(starts, len(values)))) != values).any():
            raise Unfit
        found, points, values = apply("add", part, found), points[starts], first
        if (values == values[0]).all():
            break
    if (values != values[0]).any():
        raise Unfit
    return _plus(found, int(values[0]))


def _counted(points: Numbers, values: Numbers, variables: Sequence[Var], *, per_block: bool = False) -> Expr:
    """An expression of the number of the iteration, counted over all blocks and loops, or in each block; the first
    variable is that of the block. And a sum for the rest."""
    others = np.flatnonzero(points[:, 0] != points[0, 0])
    first = values[: others[0]] if per_block and len(others) else values
    dims = range(int(per_block), points.shape[1])
    used = [dim for dim in dims if (points[:, dim] != points[0, dim]).any()]
    extents = [int(points[:, dim].max()) + 1 for dim in used]
    if len(used) < 2 or len(first) != np.prod(extents) or len(values) % len(first) or points[0, used].any():
        raise Unfit
    counter: Expr = 0
    for dim, extent in zip(used, extents, strict=True):
        counter = apply("add", apply("mul", counter, extent), variables[dim])
    number = Var("#")
    part = _along(np.arange(len(first)), first, np.array([0]), number)
    rest = values - np.tile(_evaluated(part, number, np.arange(len(first))), len(values) // len(first))
    found, more = substitute(part, {number: counter}), _sum(points, rest, variables) if rest.any() else 0
    return _plus(found, more) if isinstance(more, int) else apply("add", found, more)


def _groups(points: Numbers) -> Numbers:
    """Where runs of equal rows begin."""
    if not points.shape[1]:
        return np.array([0])
    changes = (points[1:] != points[:-1]).any(axis=1)
    return np.concatenate(([0], np.flatnonzero(changes) + 1))


def _along(column: Numbers, values: Numbers, starts: Numbers, variable: Var) -> Expr:
    """An expression of one variable for the values of the longest run, without their first value."""
    lengths = np.diff(np.append(starts, len(values)))
    longest = int(lengths.argmax())
    start, count = int(starts[longest]), int(lengths[longest])
    xs, ys = column[start : start + count], values[start : start + count] - values[start]
    if count < 2:
        raise Unfit
    for candidate in _candidates(xs, ys, variable):
        if (_evaluated(candidate, variable, xs) == ys).all():
            return candidate
    raise Unfit


def _candidates(xs: Numbers, ys: Numbers, variable: Var) -> Iterator[Expr]:
    """Expressions that may have these values, the simplest first. Their first value is 0, as that of `ys`."""
    step, first = int(xs[1] - xs[0]), int(xs[0])
    slope, rest = divmod(int(ys[1]), step)
    if not rest:
        yield _line(variable, slope, first)
    if len(xs) < 3:
        return
    off = np.flatnonzero(ys != slope * (xs - first)) if not rest else np.array([1])
    at = int(off[0]) if len(off) else 0
    steps = list[Expr]()
    if not rest and at:  # a step up or down at one iteration
        jump = int(ys[at] - slope * (xs[at] - first))
        steps = [apply("add", _line(variable, slope, first), apply("mul", apply("ge", variable, int(xs[at])), jump))]
    if at == len(xs) - 1:
        yield from steps
    if step == 1:
        yield from _periodic(ys, at, _plus(variable, -first))
    yield from steps
    last, rest = divmod(int(ys[-1] - ys[-2]), int(xs[-1] - xs[-2]))
    if not rest:
        line = ys[-1] - last * (xs[-1] - xs)
        before = np.flatnonzero(ys != line)
        if len(before):
            jump, at = int(line[0] - ys[0]), int(xs[before[-1] + 1])
            yield apply("add", _line(variable, last, first), apply("mul", apply("ge", variable, at), jump))


def _periodic(ys: Numbers, break_: int, variable: Expr) -> Iterator[Expr]:
    """`a * (x % p) + b * (x // p)`, or any p values in rotation."""
    count = len(ys)
    for period in dict.fromkeys((2, 3, 4, break_, *range(5, MOST_BUFFERS + 1))):
        if not 2 <= period < count or (count < 2 * period and period != break_):
            continue
        base, per_round = ys[:period], int(ys[period])
        inner = apply("mod", variable, period)
        outer = apply("mul", apply("floordiv", variable, period), per_round)
        slope = int(base[1])
        if (base == slope * np.arange(period)).all():
            yield apply("add", apply("mul", inner, slope), outer)
        elif period <= MOST_BUFFERS:
            found: Expr = outer
            for number, value in enumerate(base):
                if value:
                    found = apply("add", found, apply("mul", apply("eq", inner, number), int(value)))
            yield found


def _line(variable: Var, slope: int, first: int) -> Expr:
    return _plus(apply("mul", variable, slope), -slope * first)


def _plus(expr: Expr, number: int) -> Expr:
    """The sum with a number; the number of a sum that ends with one is changed."""
    if isinstance(expr, Op) and expr.name in ("add", "sub") and isinstance(expr.args[1], int):
        sign = 1 if expr.name == "add" else -1
        return _plus(expr.args[0], sign * expr.args[1] + number)
    return apply("add", expr, number) if number >= 0 else apply("sub", expr, -number)


def _evaluated(expr: Expr, variable: Var, column: Numbers) -> Numbers:
    return np.broadcast_to(evaluate_arrays(expr, {variable: column}), column.shape)
