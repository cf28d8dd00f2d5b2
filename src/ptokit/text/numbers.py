"""Whole numbers in text: operations of the dialect `arith` as expressions, and expressions as operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, COMPARISONS, SUBBLOCK_IDX, Bounds, Expr, Op, Var, apply, interval

MOST_OPERATIONS = 400
"""Operations in one expression, which every later pass visits."""

LARGEST = (1 << 64) - 1
INDEX_BITS = 64
"""The width that holds every number of a program."""

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""The predicates of `arith.cmpi`, by number."""


def predicate_word(predicate: object) -> str:
    """The word of a predicate, which may be written as a number."""
    return PREDICATES[predicate] if isinstance(predicate, int) else str(predicate)


class TooLong(ValueError):
    """An expression or a number beyond the limits."""


class Limits:
    """Bounds of variables that are known before the run. They show that most divisions have no negative operand."""

    def __init__(self) -> None:
        self.bounds: dict[Var, Bounds] = {BLOCK_IDX: (0, inf), BLOCK_NUM: (1, inf), SUBBLOCK_IDX: (0, 1)}

    def loop(self, var: Var, start: Expr, stop: Expr, step: int = 1) -> None:
        """Record the bounds of a loop's variable."""
        first, last = interval(start, self.bounds), interval(stop, self.bounds)
        low, high = (first[0], last[1] - 1) if step > 0 else (last[0] + 1, first[1])
        self.bounds[var] = low, max(low, high)

    def natural(self, *exprs: Expr) -> bool:
        """Whether expressions are certainly not negative."""
        return all(interval(expr, self.bounds)[0] >= 0 for expr in exprs)

    def fits(self, expr: Expr, low: int, high: int) -> bool:
        """Whether an expression certainly lies between two numbers."""
        least, most = interval(expr, self.bounds)
        return low <= least and most <= high


def _quotient(limits: Limits, a: Expr, b: Expr) -> Expr:
    """Division towards zero."""
    down = apply("floordiv", a, b)
    if limits.natural(a, b):
        return down
    uneven = apply("ne", apply("mod", a, b), 0)
    return apply("add", down, apply("and", uneven, apply("ne", apply("lt", a, 0), apply("lt", b, 0))))


def _remainder(limits: Limits, a: Expr, b: Expr) -> Expr:
    """The remainder of a division towards zero."""
    if limits.natural(a, b):
        return apply("mod", a, b)
    return apply("sub", a, apply("mul", _quotient(limits, a, b), b))


def _ceiling(_limits: Limits, a: Expr, b: Expr) -> Expr:
    return apply("sub", 0, apply("floordiv", apply("sub", 0, a), b))


def _exclusive(_limits: Limits, a: Expr, b: Expr) -> Expr:
    return apply("sub", apply("or", a, b), apply("and", a, b))


WRITTEN = {
    "add": "addi", "sub": "subi", "mul": "muli", "floordiv": "floordivsi", "shl": "shli", "shr": "shrsi",
    "min": "minsi", "max": "maxsi", "and": "andi", "or": "ori",
}  # fmt: skip
"""The operation of `arith` for an operation of an expression. Comparisons and remainders are written differently."""
READ = {written: name for name, written in WRITTEN.items()}
COMPOSED: Mapping[str, Callable[[Limits, Expr, Expr], Expr]] = {
    "divsi": _quotient, "remsi": _remainder, "ceildivsi": _ceiling, "xori": _exclusive,
}  # fmt: skip
"""Other operations of `arith` on two numbers, without overflow."""
UNSIGNED = {f"{name}ui": f"{name}si" for name in ("div", "rem", "ceildiv", "min", "max", "shr")}
"""Unsigned operations, and their signed equivalents if no number is negative."""


def combined(name: str, limits: Limits, a: Expr, b: Expr) -> Expr | None:
    """The expression of an operation on two numbers; None if it has no expression."""
    if name in UNSIGNED and limits.natural(a, b):
        name = UNSIGNED[name]
    if name in READ:
        return bounded(apply(READ[name], a, b))
    return bounded(COMPOSED[name](limits, a, b)) if name in COMPOSED else None


def compared(predicate: str, limits: Limits, a: Expr, b: Expr) -> Expr | None:
    """The expression of a comparison; None if it has no expression."""
    if predicate.startswith("u") and not limits.natural(a, b):
        return None
    return bounded(apply(predicate if predicate in COMPARISONS else predicate[1:], a, b))


def selected(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """One number or the other, by a condition of 0 or 1."""
    if isinstance(condition, int):
        return then if condition else otherwise
    if then == otherwise:
        return then
    taken = apply("mul", condition, then)
    return bounded(apply("add", taken, apply("mul", apply("sub", 1, condition), otherwise)))


def wrapped(expr: Expr, bits: int, *, signed: bool, limits: Limits) -> Expr:
    """A number wrapped to a width in bits."""
    low = -(1 << (bits - 1)) if signed else 0
    if bits >= INDEX_BITS and (signed or limits.natural(expr)):
        return expr
    if limits.fits(expr, low, low + (1 << bits) - 1):
        return expr
    shifted = apply("mod", apply("sub", expr, low), 1 << bits)
    return bounded(apply("add", shifted, low))


def bounded(expr: Expr) -> Expr:
    """The expression, if it is within the limits."""
    if isinstance(expr, int) and not -LARGEST <= expr <= LARGEST:
        raise TooLong("a number of more than 64 bits")
    if isinstance(expr, Op) and expr.size > MOST_OPERATIONS:
        raise TooLong(f"an expression of more than {MOST_OPERATIONS} operations")
    return expr


NATURAL = {"floordiv": "divsi", "mod": "remsi"}
"""Used instead if no number is negative, because every tool knows them."""


def written_out(expr: Op) -> Op | None:
    """A remainder as `a - a // b * b`, which is right for negatives too; None for other operations."""
    if expr.name != "mod":
        return None
    a, b = expr.args
    return Op("sub", (a, Op("mul", (Op("floordiv", (a, b)), b))))
