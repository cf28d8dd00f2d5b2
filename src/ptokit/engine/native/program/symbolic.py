"""Run-time numbers that pass through rules and lowerings as if they were known, and record the decisions.

A rule or a lowering is plain Python over whole numbers. Given `SymbolicNumber`s instead, it computes expressions, and
every decision it takes is recorded as a condition. The result is valid for all numbers that meet the conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import gcd, inf
from typing import Any

from ptokit.program.expr import Expr, Op, apply, difference, total

OPPOSITES = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
Form = tuple[tuple[Expr, int], ...]
"""A sum of multiples without its constant."""


@dataclass
class Range:
    """What is known of a sum: its bounds, and values that it does not have."""

    low: float = -inf
    high: float = inf
    never: set[int] = field(default_factory=set)

    def narrow(self, how: str, limit: int, scale: int) -> None:
        """Add the fact that `scale` (which is positive) times the sum is `how` the limit."""
        below, above = limit // scale, -(-limit // scale)
        if how in ("le", "lt", "eq"):
            self.high = min(self.high, below if how != "lt" else above - 1)
        if how in ("ge", "gt", "eq"):
            self.low = max(self.low, above if how != "gt" else below + 1)
        if how == "ne" and below == above:
            self.never.add(below)


class Conditions:
    """The conditions that hold, collected as ranges of sums: many decisions, few conditions."""

    def __init__(self) -> None:
        self._ranges: dict[Form, Range] = {}

    def note(self, condition: Expr, holds: bool) -> bool:
        """Record a decision that depends on the run."""
        if isinstance(condition, Op):
            self._take(condition.name if holds else OPPOSITES[condition.name], *condition.args)
        return holds

    def _take(self, how: str, a: Expr, b: Expr) -> None:
        terms = difference(a, b)
        constant = terms.pop(1, 0)
        if not terms:
            return
        form = [*terms.items()] if len(terms) == 1 else sorted(terms.items(), key=lambda item: str(item[0]))
        scale = gcd(*terms.values())
        sign = 1 if form[0][1] > 0 else -1
        key = tuple([(term, factor * sign // scale) for term, factor in form])
        known = self._ranges.setdefault(key, Range())
        known.narrow(how if sign > 0 else MIRRORED[how], -constant * sign, scale)

    @property
    def found(self) -> tuple[Expr, ...]:
        """All that must hold."""
        sums = [(total(dict(form)), known) for form, known in self._ranges.items()]
        return tuple(condition for sum_, known in sums for condition in _written(sum_, known))


def _written(sum_: Expr, known: Range) -> Iterator[Expr]:
    if known.low == known.high:
        yield Op("eq", (sum_, int(known.low)))
        return
    for name, limit in (("ge", known.low), ("le", known.high)):
        if abs(limit) < inf:
            yield Op(name, (sum_, int(limit)))
    yield from (Op("ne", (sum_, n)) for n in sorted(known.never) if known.low <= n <= known.high)


class SymbolicNumber:
    """An expression together with its current value."""

    __slots__ = ("conditions", "expr", "value")

    def __init__(self, expr: Expr, value: int, conditions: Conditions) -> None:
        self.expr, self.value, self.conditions = expr, value, conditions

    def _apply(self, name: str, left: Any, right: Any) -> Any:
        if not all(isinstance(each, int | SymbolicNumber) for each in (left, right)):
            return NotImplemented
        expr = apply(name, expr_of(left), expr_of(right))
        if isinstance(expr, int):
            return expr
        return SymbolicNumber(expr, evaluate_one(name, left, right), self.conditions)

    def _ask(self, name: str, other: Any) -> Any:
        if not isinstance(other, int | SymbolicNumber):
            return NotImplemented
        holds = bool(evaluate_one(name, self, other))
        return self.conditions.note(apply(name, self.expr, expr_of(other)), holds)

    def __add__(self, other: Any) -> Any:
        return self._apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._apply("mul", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._apply("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply("mod", other, self)

    def __neg__(self) -> Any:
        return 0 - self

    def __lt__(self, other: Any) -> bool:
        return self._ask("lt", other)

    def __le__(self, other: Any) -> bool:
        return self._ask("le", other)

    def __gt__(self, other: Any) -> bool:
        return self._ask("gt", other)

    def __ge__(self, other: Any) -> bool:
        return self._ask("ge", other)

    def __eq__(self, other: object) -> Any:
        return self._ask("eq", other)

    def __ne__(self, other: object) -> Any:
        return self._ask("ne", other)

    def __bool__(self) -> bool:
        return self._ask("ne", 0)

    def _settle(self) -> int:
        """The value as a plain number; equality with it becomes a condition."""
        self._ask("eq", self.value)
        return self.value

    def __hash__(self) -> int:
        return hash(self._settle())

    def __index__(self) -> int:
        return self._settle()

    def __int__(self) -> int:
        return self._settle()

    def __repr__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


def expr_of(number: int | SymbolicNumber) -> Expr:
    """What a number is, as an expression."""
    return number.expr if isinstance(number, SymbolicNumber) else int(number)


def value_of(number: int | SymbolicNumber) -> int:
    """The current value of a number."""
    return number.value if isinstance(number, SymbolicNumber) else number


def evaluate_one(name: str, left: int | SymbolicNumber, right: int | SymbolicNumber) -> int:
    """One operation on the current values."""
    result = apply(name, value_of(left), value_of(right))
    assert isinstance(result, int)
    return result
