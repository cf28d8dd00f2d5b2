"""Integers known at run time, as Python values: operators on them build expressions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NoReturn, overload

from ptokit.brief import brief
from ptokit.lang.context import current
from ptokit.lang.faults import public, refuse
from ptokit.program.expr import (
    GUARDS,
    NEUTRAL,
    Expr,
    ExpressionError,
    Op,
    apply,
    check_second,
    extents_in,
    is_fixed,
    show_expr,
)
from ptokit.program.symbolic import KnownNumber

MOST_OPERATIONS = 200
"""Operations in one expression; a longer chain is a loop that was unrolled by mistake."""


class TracedInteger:
    """An integer inside a kernel that is being traced. It has no value yet, so Python cannot branch on it."""

    __slots__ = ("expr", "home", "tracer")
    __array_ufunc__ = None
    """Makes NumPy's scalars use the reflected operators of this class."""

    def __init__(self, expr: Expr, home: tuple[int, ...] = ()) -> None:
        """`home` are the numbers of the traced bodies in which the number exists."""
        self.expr = expr
        self.home = home
        self.tracer: Any = current().tracer

    def __bool__(self) -> NoReturn:
        raise refuse(
            "KN-02",
            f"whether {self} holds is known only when the kernel runs; "
            "`if`, `while`, `assert`, `and`, `or`, `not`, `min` and `max` cannot test it",
            "use `with pto.when(condition):`, `for i in pto.range(...)`, `&`, `|`, pto.min or pto.max",
        )

    def __index__(self, *_: object, **__: object) -> NoReturn:
        raise refuse(
            "KN-02",
            f"{self} is known only when the kernel runs; Python needs its value here",
            "use it in slices of arguments, valid=, pto.range and pto.when; a size must be a constant: `n: pto.const`",
        )

    __int__ = __float__ = __len__ = __iter__ = __array__ = __array_function__ = __trunc__ = __complex__ = __index__

    def __hash__(self) -> NoReturn:
        raise refuse("KN-02", f"{self} is known only when the kernel runs; it cannot be a key", "use a constant")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise refuse("KN-02", f"{self} is a whole number and has no `{name}`", "use the argument or the tile itself")

    def __neg__(self) -> Any:
        return combine("sub", 0, self)

    def __pos__(self) -> TracedInteger:
        return self

    def __repr__(self) -> str:
        return show_expr(self.expr)

    def __format__(self, spec: str) -> str:
        return repr(self)


def expression(value: object, what: str) -> Expr:
    """The expression behind a number or a `TracedInteger`, which must be in scope."""
    if isinstance(value, TracedInteger):
        _check_home(value)
        return value.expr
    if not hasattr(value, "__index__"):
        raise refuse(
            "KN-02", f"{what} takes a whole number, got {brief(value)}", "use an integer or an expression of them"
        )
    return value.__index__()  # type: ignore[union-attr]


def symbolic(value: object, what: str) -> Expr:
    """The same, where the program may hold an extent of an argument as an expression."""
    return value.expr if isinstance(value, KnownNumber) else expression(value, what)


def pinned(*exprs: Expr) -> tuple[Expr, ...]:
    """Expressions of which tracing depends on the values of the extents."""
    for expr in exprs:
        if extents_in(expr):
            current().tracer.lengths.pin(expr)
    return exprs


def _check_home(value: TracedInteger) -> None:
    tracer = current().tracer
    if tracer is None or value.tracer is not tracer:
        raise refuse("KN-08", f"{value} belongs to another kernel, or to an earlier trace", "compute it in this kernel")
    if tracer.has_ended(value.home):
        message = f"{value} exists only inside a pto.range or pto.when body that has ended"
        raise refuse("KN-04", message, "compute it before the body, or use it inside")


def combine(name: str, *values: object) -> Any:
    """An operation on numbers and `TracedInteger`s: a number when all are known."""
    args = [_argument(name, place, value) for place, value in enumerate(values)]
    try:
        check_second(name, args)
        result = apply(name, *args)
    except ExpressionError as problem:
        raise refuse("KN-11", str(problem), "keep divisors and shift counts in range") from None
    if is_fixed(result):
        return result if isinstance(result, int) else current().tracer.lengths.resolve(result)
    if isinstance(result, Op) and result.size > MOST_OPERATIONS:
        message = f"an expression of more than {MOST_OPERATIONS} operations"
        raise refuse("KN-02", message, "use `for i in pto.range(...)`")
    return TracedInteger(
        result, builtins.max((value.home for value in values if isinstance(value, TracedInteger)), key=len)
    )


def _argument(name: str, place: int, value: object) -> Expr:
    """An operand. The value of an extent counts where it decides whether an expression becomes simpler."""
    if isinstance(value, KnownNumber) and (
        (name in GUARDS and place) or (name == "mul" and value == 0) or value == NEUTRAL.get(name, ())
    ):
        return int(value)
    return symbolic(value, f"`{name}`")


def _binary(name: str) -> Callable[[TracedInteger, object], Any]:
    def method(self: TracedInteger, other: object) -> Any:
        return combine(name, self, other)

    return method


def _reflected(name: str) -> Callable[[TracedInteger, object], Any]:
    def method(self: TracedInteger, other: object) -> Any:
        return combine(name, other, self)

    return method


def _unsupported(symbol: str, fix: str) -> Callable[..., NoReturn]:
    def method(self: TracedInteger, *_: object) -> NoReturn:
        raise refuse("KN-02", f"`{symbol}` is not supported on {self}, an integer known at run time", fix)

    return method


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "mod", "lshift": "shl", "rshift": "shr",
    "and": "and", "or": "or",
}  # fmt: skip
"""Python's operators and those of expressions."""
for _python, _ours in _OPERATORS.items():
    setattr(TracedInteger, f"__{_python}__", _binary(_ours))
    setattr(TracedInteger, f"__r{_python}__", _reflected(_ours))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(TracedInteger, f"__{_name}__", _binary(_name))
_SUPPORTED = "use +, -, *, //, %, <<, >>, pto.min, pto.max"
_UNSUPPORTED = {"truediv": "/", "pow": "**", "xor": "^", "matmul": "@", "divmod": "divmod"}
for _name, _symbol in _UNSUPPORTED.items():
    for _side in ("", "r"):
        setattr(TracedInteger, f"__{_side}{_name}__", _unsupported(_symbol, _SUPPORTED))
for _name in ("abs", "round", "getitem", "call", "ceil", "floor"):
    setattr(TracedInteger, f"__{_name}__", _unsupported(_name, _SUPPORTED))
setattr(TracedInteger, "__invert__", _unsupported("~", "negate the comparison, or use `with pto.otherwise():`"))  # noqa: B010


@overload
def min(first: int, second: int, *more: int) -> int: ...
@overload
def min(first: Any, second: Any, *more: Any) -> Any: ...
@public
def min(first: Any, second: Any, *more: Any) -> Any:
    """The smallest of two or more whole numbers, known or not."""
    return _fold("min", first, second, *more)


@overload
def max(first: int, second: int, *more: int) -> int: ...
@overload
def max(first: Any, second: Any, *more: Any) -> Any: ...
@public
def max(first: Any, second: Any, *more: Any) -> Any:
    """The largest of two or more whole numbers, known or not."""
    return _fold("max", first, second, *more)


def _fold(name: str, *values: object) -> Any:
    result = values[0]
    for value in values[1:]:
        result = combine(name, result, value)
    return result


@public
def cdiv(a: Any, b: Any) -> Any:
    """`a / b`, rounded up: how many blocks of `b` cover `a`."""
    return combine("floordiv", combine("add", a, combine("sub", b, 1)), b)
