"""Run-time numbers that pass through rules and lowerings as if they were known, and record the decisions.

A rule or a lowering is plain Python over whole numbers. Given `SymbolicNumber`s instead, it computes expressions, and
every decision it takes is recorded as a condition. The result is valid for all numbers that meet the conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, floor, gcd, inf, trunc
from numbers import Number
from typing import Any

from ptokit.isa.unknown import unknown
from ptokit.program.conditions import MIRRORED, NEGATED
from ptokit.program.expr import Expr, ExtentVar, Op, Var, apply, difference, evaluate, extents_in, is_fixed, total

Form = tuple[tuple[Expr, int], ...]
"""A sum of multiples without its constant."""


@dataclass
class Range:
    """What is known of a sum: its bounds, and values that it does not have."""

    low: float = -inf
    high: float = inf
    never: set[int] = field(default_factory=set)

    def narrow(self, comparison: str, limit: int, scale: int) -> None:
        """Add the fact that `scale` (which is positive) times the sum compares so to the limit."""
        below, above = limit // scale, -(-limit // scale)
        if comparison in ("le", "lt", "eq"):
            self.high = min(self.high, below if comparison != "lt" else above - 1)
        if comparison in ("ge", "gt", "eq"):
            self.low = max(self.low, above if comparison != "gt" else below + 1)
        if comparison == "ne" and below == above:
            self.never.add(below)


class Conditions:
    """The conditions that hold, collected as ranges of sums: many decisions, few conditions."""

    def __init__(self) -> None:
        self._ranges: dict[Form, Range] = {}

    def note(self, condition: Expr, holds: bool) -> bool:
        """Record a decision that depends on the run."""
        if isinstance(condition, Op):
            self._take(condition.name if holds else NEGATED[condition.name], *condition.args)
        return holds

    def _take(self, comparison: str, a: Expr, b: Expr) -> None:
        terms = difference(a, b)
        constant = terms.pop(1, 0)
        if not terms:
            return
        form = [*terms.items()] if len(terms) == 1 else sorted(terms.items(), key=lambda item: str(item[0]))
        scale = gcd(*terms.values())
        sign = 1 if form[0][1] > 0 else -1
        key = tuple([(term, factor * sign // scale) for term, factor in form])
        known = self._ranges.setdefault(key, Range())
        known.narrow(comparison if sign > 0 else MIRRORED[comparison], -constant * sign, scale)

    @property
    def expressions(self) -> tuple[Expr, ...]:
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


Operator = Callable[[Any, Any], Any]


def _arithmetic(name: str) -> tuple[Operator, Operator]:
    """An operator, and the same with the operands exchanged: an expression, or a number if that is known."""

    def compute(left: Any, right: Any) -> Any:
        if not all(isinstance(each, int | SymbolicNumber) for each in (left, right)):
            return NotImplemented
        expr = apply(name, expr_of(left), expr_of(right))
        if isinstance(expr, int):
            return expr
        like = left if isinstance(left, SymbolicNumber) else right
        return type(like)(expr, evaluate_one(name, left, right), like.conditions)

    return compute, lambda right, left: compute(left, right)


def _comparison(name: str) -> Operator:
    """A comparison: a decision, which is recorded."""

    def decide(left: SymbolicNumber, right: Any) -> Any:
        if not isinstance(right, int | SymbolicNumber):
            return NotImplemented
        holds = bool(evaluate_one(name, left, right))
        return left.conditions.note(apply(name, left.expr, expr_of(right)), holds)

    return decide


class SymbolicNumber:
    """An expression together with its current value."""

    __slots__ = ("conditions", "expr", "value")

    def __init__(self, expr: Expr, value: int, conditions: Conditions) -> None:
        self.expr, self.value, self.conditions = expr, value, conditions

    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __mul__, __rmul__ = _arithmetic("mul")
    __floordiv__, __rfloordiv__ = _arithmetic("floordiv")
    __mod__, __rmod__ = _arithmetic("mod")
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_comparison, ("lt", "le", "gt", "ge", "eq", "ne"))

    def __neg__(self) -> Any:
        return 0 - self

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        """The value as a plain number; equality with it becomes a condition."""
        self.conditions.note(apply("eq", self.expr, self.value), True)
        return self.value

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(int(self))

    def __repr__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


Number.register(SymbolicNumber)


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


class KnownNumber(SymbolicNumber):
    """A number that Python code may use as an int: sums, products and comparisons are those of its expression, and
    whatever else is done with it takes its value, which becomes a condition."""

    __slots__ = ()
    __array_ufunc__ = None
    """Makes NumPy's scalars use the reflected operators of this class."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return int

    def __hash__(self) -> int:
        return hash(int(self))

    def __repr__(self) -> str:
        return repr(int(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(int(self), name)


def _as_int(name: str, compute: Callable[..., Any], *, reflected: bool = False) -> Callable[..., Any]:
    """An operator of int: symbolic where a `SymbolicNumber` has it, else with the value."""
    own: Callable[..., Any] | None = vars(SymbolicNumber).get(name)

    def method(self: KnownNumber, *others: Any) -> Any:
        if not all(isinstance(each, Number) for each in others):
            return NotImplemented
        divides = name.strip("_r") in ("floordiv", "mod")
        if own is not None and (not divides or int(self if reflected else others[0])):
            found = own(self, *others)
            if found is not NotImplemented:
                return found
        values = [int(each) if isinstance(each, KnownNumber) else each for each in (self, *others)]
        return compute(*(values[::-1] if reflected else values))

    return method


_BINARY = ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "lshift", "rshift", "and", "or", "xor")
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, f"__{name}__") for name in (*_BINARY, "lt", "le", "gt", "ge", "eq", "ne")},
    "pow": pow, "divmod": divmod, "abs": abs, "round": round, "invert": operator.inv, "pos": operator.pos,
    "float": float, "complex": complex, "ceil": ceil, "floor": floor, "trunc": trunc,
}  # fmt: skip
for _name, _compute in _OPERATORS.items():
    setattr(KnownNumber, f"__{_name}__", _as_int(f"__{_name}__", _compute))
    if _name in (*_BINARY, "divmod"):
        setattr(KnownNumber, f"__r{_name}__", _as_int(f"__r{_name}__", _compute, reflected=True))


class Lengths:
    """Extents of a launch, and the conditions on others for which the same decisions are taken."""

    def __init__(self, values: Mapping[Var, int]) -> None:
        self.values, self.conditions = values, Conditions()

    def resolve(self, expr: Expr) -> Any:
        """The number that an expression is; unknown if it is known at run time only."""
        if isinstance(expr, int):
            return expr
        return KnownNumber(expr, evaluate(expr, self.values), self.conditions) if is_fixed(expr) else unknown()

    def pin(self, expr: Expr) -> None:
        """Make the values of all extents in an expression conditions."""
        for extent in extents_in(expr):
            int(self.resolve(extent))

    @property
    def pinned(self) -> dict[Var, int]:
        """The extents that have one value only."""
        return {
            found.args[0]: self.values[found.args[0]]
            for found in self.conditions.expressions
            if isinstance(found, Op) and found.name == "eq" and isinstance(found.args[0], ExtentVar)
        }
