"""Whole-number expressions of a program: constants, variables, and operations on them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np


class Var(str):
    """A number known at run time: the block index, a loop variable, or one read from memory. Identified by its name."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"Var({str(self)!r})"


class ExtentVar(Var):
    """An extent of an array argument: the same number in all of a launch, known before it. The program is valid for
    more than one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An operation on expressions, by its name in `OPS`."""

    name: str
    args: tuple[Expr, ...]
    _hash: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    """How many operations it contains, repeated ones included."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.args)))
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args if isinstance(arg, Op)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Op):
            return self is other
        return self._hash == other._hash and (self.name, self.args) == (other.name, other.args)

    def __str__(self) -> str:
        return show_expr(self)


Expr = int | Var | Op

BLOCK_IDX = Var("block_idx")
"""The number of the block, from 0."""
BLOCK_NUM = Var("block_num")
"""How many blocks the grid has."""
SUBBLOCK_IDX = Var("subblock_idx")
"""The number of a vector core in its block; 0 on the cube core."""
OF_LAUNCH = (BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX)
"""The variables that every program has."""

Values = Mapping[Var, int]
Measure = int | Callable[[Values], int]
"""A compiled expression: a number, or a function of the variables' values."""
Bounds = tuple[float, float]
"""The lowest and the highest value; infinite if unknown."""
ANYTHING: Bounds = (-inf, inf)


def _products(a: Bounds, b: Bounds) -> Bounds:
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]  # 0 * inf is 0: the factor is the number 0
    return min(corners), max(corners)


def _quotients(a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0:
        return ANYTHING
    corners = [_floordiv(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _floordiv(x: float, y: float) -> float:
    if y == inf:
        return 0 if x >= 0 else -1
    return x if x in (-inf, inf) else x // y


def _remainders(a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0:
        return ANYTHING
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _power(shift: Bounds) -> Bounds | None:
    return (1 << int(shift[0]), 1 << int(shift[1])) if shift[0] >= 0 and shift[1] < 64 else None


def _shifted_left(a: Bounds, b: Bounds) -> Bounds:
    factor = _power(b)
    return _products(a, factor) if factor else ANYTHING


def _shifted_right(a: Bounds, b: Bounds) -> Bounds:
    divisor = _power(b)
    return _quotients(a, divisor) if divisor else ANYTHING


def _truth(lowest: bool, highest: bool) -> Bounds:
    return int(lowest), int(highest)


def _equal(a: Bounds, b: Bounds) -> Bounds:
    return _truth(a[0] == a[1] == b[0] == b[1], a[0] <= b[1] and b[0] <= a[1])


def _differ(a: Bounds, b: Bounds) -> Bounds:
    lowest, highest = _equal(a, b)
    return 1 - highest, 1 - lowest


def _common_bits(a: Bounds, b: Bounds) -> Bounds:
    return (int(a == b == (1, 1)), min(a[1], b[1])) if min(a[0], b[0]) >= 0 else ANYTHING


def _joined_bits(a: Bounds, b: Bounds) -> Bounds:
    highest = max(a[1], b[1])
    if min(a[0], b[0]) < 0 or highest == inf:
        return ANYTHING
    return max(a[0], b[0]), (1 << int(highest).bit_length()) - 1


@dataclass(frozen=True)
class Operator:
    """The symbol of an operation, and its meaning for numbers, arrays and bounds."""

    symbol: str
    binding: int
    """How tightly its symbol binds; 0 for one that is written as a call."""
    compute: Callable[[int, int], int]
    arrays: Callable[[Any, Any], Any]
    bound: Callable[[Bounds, Bounds], Bounds]


COMPARING = 1
"""How tightly comparisons bind."""


def _compare(symbol: str, test: Callable[[Any, Any], Any], bound: Callable[[Bounds, Bounds], Bounds]) -> Operator:
    return Operator(symbol, COMPARING, lambda a, b: int(test(a, b)), lambda a, b: test(a, b) + 0, bound)


OPS: dict[str, Operator] = {
    "add": Operator("+", 5, operator.add, np.add, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "sub": Operator("-", 5, operator.sub, np.subtract, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "mul": Operator("*", 6, operator.mul, np.multiply, _products),
    "floordiv": Operator("//", 6, lambda a, b: a // b, np.floor_divide, _quotients),
    "mod": Operator("%", 6, operator.mod, np.mod, _remainders),
    "shl": Operator("<<", 4, lambda a, b: a << b, np.left_shift, _shifted_left),
    "shr": Operator(">>", 4, lambda a, b: a >> b, np.right_shift, _shifted_right),
    "min": Operator("min", 0, min, np.minimum, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "max": Operator("max", 0, max, np.maximum, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "lt": _compare("<", operator.lt, lambda a, b: _truth(a[1] < b[0], a[0] < b[1])),
    "le": _compare("<=", operator.le, lambda a, b: _truth(a[1] <= b[0], a[0] <= b[1])),
    "gt": _compare(">", operator.gt, lambda a, b: _truth(a[0] > b[1], a[1] > b[0])),
    "ge": _compare(">=", operator.ge, lambda a, b: _truth(a[0] >= b[1], a[1] >= b[0])),
    "eq": _compare("==", operator.eq, _equal),
    "ne": _compare("!=", operator.ne, _differ),
    "and": Operator("&", 3, lambda a, b: a & b, np.bitwise_and, _common_bits),
    "or": Operator("|", 2, lambda a, b: a | b, np.bitwise_or, _joined_bits),
}  # fmt: skip
"""Every operation by name. Division rounds towards minus infinity and a remainder has the divisor's sign;
`and` and `or` are bitwise, which for conditions (0 or 1) is the same as logical."""

NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "floordiv": 1, "shl": 0, "shr": 0}
"""A second operand that changes nothing."""


GUARDS: dict[str, Callable[[int], bool]] = {
    "floordiv": bool, "mod": bool, "shl": lambda count: 0 <= count < 64, "shr": lambda count: 0 <= count < 64,
}  # fmt: skip
"""By operation: whether it has a value for a second operand. The others always have one."""


class ExpressionError(ArithmeticError):
    """An expression that has no value: a division by zero, a shift by a negative or enormous count."""


def check_second(name: str, args: Sequence[Expr]) -> None:
    """Refuse a second operand for which an operation has no value."""
    second = args[-1]
    if name in GUARDS and isinstance(second, int) and not GUARDS[name](second):
        if second:
            raise ExpressionError(f"a shift by {second}: counts are 0 to 63")
        raise ExpressionError(f"{args[0]} {OPS[name].symbol} 0 has no value")


def _compute(name: str, args: tuple[int, ...]) -> int:
    check_second(name, args)
    return OPS[name].compute(*args)


def apply(name: str, *args: Expr) -> Expr:
    """An operation on expressions; computed at once if all of them are constants."""
    if all(isinstance(arg, int) for arg in args):
        return _compute(name, args)  # type: ignore[arg-type]
    if len(args) == 2 and args[1] == NEUTRAL.get(name, ()):
        return args[0]
    if name in ("add", "mul") and args[0] == NEUTRAL[name]:
        return args[1]
    if name == "mul" and 0 in args:
        return 0
    if name == "sub" and (divisor := _divisor(*args)) is not None:
        return apply("mod", args[0], divisor)
    return Op(name, args)


def _divisor(a: Expr, b: Expr) -> Expr | None:
    """`d` where b is `a // d * d`, so that `a - b` is the remainder."""
    if isinstance(b, Op) and b.name == "mul" and isinstance(b.args[0], Op) and b.args[0].name == "floordiv":
        divided, divisor = b.args[0].args
        return divisor if (divided, divisor) == (a, b.args[1]) else None
    return None


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def is_condition(expr: Expr) -> bool:
    """Whether an expression is 0 or 1 by its form."""
    if not isinstance(expr, Op):
        return expr in (0, 1)
    return expr.name in COMPARISONS or (expr.name in ("and", "or") and all(map(is_condition, expr.args)))


def truth(expr: Expr) -> Expr:
    """The expression as a condition: whether it is not 0."""
    return expr if is_condition(expr) else apply("ne", expr, 0)


def evaluate(expr: Expr, values: Values) -> int:
    """The value of an expression; raises `ExpressionError` if it has none."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Var):
        return values[expr]
    return _compute(expr.name, tuple([evaluate(arg, values) for arg in expr.args]))


def compiled(expr: Expr) -> Measure:
    """The expression compiled for many evaluations: a number, or a function of the variables' values."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Var):
        return operator.itemgetter(expr)
    left, right = map(compiled, expr.args)
    compute = OPS[expr.name].compute
    if expr.name in GUARDS:
        return _guarded(expr.name, left, right)
    if isinstance(right, int):
        return lambda values: compute(left(values), right)  # type: ignore[operator]
    if isinstance(left, int):
        return lambda values: compute(left, right(values))
    return lambda values: compute(left(values), right(values))


def _guarded(name: str, left: Measure, right: Measure) -> Callable[[Values], int]:
    compute, has_value = OPS[name].compute, GUARDS[name]

    def value(values: Values) -> int:
        a = left if isinstance(left, int) else left(values)
        b = right if isinstance(right, int) else right(values)
        return compute(a, b) if has_value(b) else _compute(name, (a, b))

    return value


def value_of(measure: Measure, values: Values) -> int:
    """The value of a compiled expression."""
    return measure if isinstance(measure, int) else measure(values)


def evaluate_arrays(expr: Expr, values: Mapping[Var, Any]) -> Any:
    """The values of an expression for many values of its variables at once, as int64."""
    if isinstance(expr, int):
        return np.int64(expr)
    if isinstance(expr, Var):
        return values[expr]
    return OPS[expr.name].arrays(*[evaluate_arrays(arg, values) for arg in expr.args])


HUGE = 1 << 1000
"""Numbers beyond this count as infinite: floats cannot represent them."""


def interval(expr: Expr, bounds: Mapping[Var, Bounds]) -> Bounds:
    """Bounds of an expression from the bounds of its variables."""
    if isinstance(expr, int):
        return (expr, expr) if -HUGE < expr < HUGE else (HUGE, inf) if expr > 0 else (-inf, -HUGE)
    if isinstance(expr, Var):
        return bounds.get(expr, ANYTHING)
    low, high = OPS[expr.name].bound(*[interval(arg, bounds) for arg in expr.args])
    return low if low > -HUGE else -inf, high if high < HUGE else inf


@lru_cache(maxsize=4096)
def variables(expr: Expr) -> frozenset[Var]:
    """The variables that an expression depends on."""
    if isinstance(expr, int):
        return frozenset()
    if isinstance(expr, Var):
        return frozenset({expr})
    return frozenset[Var]().union(*map(variables, expr.args))


def extents_in(expr: Expr) -> list[ExtentVar]:
    """The extents that an expression depends on."""
    return [var for var in variables(expr) if isinstance(var, ExtentVar)]


def is_fixed(expr: Expr) -> bool:
    """Whether an expression depends on nothing but extents: it is known before the launch."""
    return isinstance(expr, int | ExtentVar) or (
        isinstance(expr, Op) and all(isinstance(var, ExtentVar) for var in variables(expr))
    )


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Var):
        return values.get(expr, expr)
    return apply(expr.name, *[substitute(arg, values) for arg in expr.args])


def affine(expr: Expr) -> dict[Expr, int]:
    """The expression as a sum of multiples: `{term: factor}`; the term 1 has the constant.

    Any other expression is one term, so common terms of two expressions cancel in `a - b`.
    """
    if isinstance(expr, int):
        return {1: expr} if expr else {}
    if isinstance(expr, Op) and expr.name in ("add", "sub"):
        return _sum(affine(expr.args[0]), affine(expr.args[1]), 1 if expr.name == "add" else -1)
    if isinstance(expr, Op) and expr.name == "mul":
        for factor, other in (expr.args, expr.args[::-1]):
            if isinstance(factor, int):
                return {term: factor * k for term, k in affine(other).items()}
    if isinstance(expr, Op) and expr.name == "shl" and isinstance(expr.args[1], int) and 0 <= expr.args[1] < 64:
        return {term: k << expr.args[1] for term, k in affine(expr.args[0]).items()}
    return {expr: 1}


def _sum(a: dict[Expr, int], b: dict[Expr, int], sign: int) -> dict[Expr, int]:
    total = {term: a.get(term, 0) + sign * b.get(term, 0) for term in (*a, *b)}
    return {term: k for term, k in total.items() if k}


def difference(a: Expr, b: Expr) -> dict[Expr, int]:
    """`a - b` as a sum of multiples; empty when the two are always equal."""
    return _sum(affine(a), affine(b), -1)


def total(terms: Mapping[Expr, int]) -> Expr:
    """The expression of a sum of multiples, its constant last."""
    result: Expr = 0
    for term, factor in sorted(terms.items(), key=lambda item: (item[0] == 1, item[1] < 0)):
        if term == 1:
            result = apply("add", result, factor) if factor > 0 else apply("sub", result, -factor)
        elif factor < 0 and result != 0:
            result = apply("sub", result, apply("mul", term, -factor))
        else:
            result = apply("add", result, apply("mul", term, factor))
    return result


def subtract(a: Expr, b: Expr) -> Expr:
    """`a - b` without the terms that cancel."""
    return total(difference(a, b))


def show_expr(expr: Expr, names: Mapping[Expr, str] | None = None, around: int = 0) -> str:
    """An expression in Python syntax, in parentheses if its neighbour binds tighter; `names` replace parts of it."""
    if not isinstance(expr, Op):
        return str(expr)
    if names and expr in names:
        return names[expr]
    operation = OPS[expr.name]
    if not operation.binding:
        return f"{operation.symbol}({', '.join(show_expr(arg, names) for arg in expr.args)})"
    chains = operation.binding == COMPARING  # a < b < c means something else to Python
    left, right = (show_expr(arg, names, operation.binding + (k or chains)) for k, arg in enumerate(expr.args))
    text = f"{left} {operation.symbol} {right}"
    return f"({text})" if operation.binding < around else text


def parts(expr: Expr) -> Iterator[Expr]:
    """The operations inside an expression, innermost first, and the expression itself."""
    if isinstance(expr, Op):
        for arg in expr.args:
            yield from parts(arg)
        yield expr
