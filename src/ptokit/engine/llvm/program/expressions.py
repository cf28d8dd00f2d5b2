"""Whole-number expressions as machine code, exact or not at all: Python computes what does not fit 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ptokit.engine.llvm.emit import I1, I64, IrBuilder, IrValue, Variable
from ptokit.program.expr import COMPARISONS, Bounds, Expr, Op, Var, interval, is_condition
from ptokit.program.symbolic import SymbolicNumber

CHECKED = {"add": "sadd", "sub": "ssub", "mul": "smul"}
ORDERS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
SMALLEST = -(1 << 63)
SAFE = 1 << 62


class Evaluator:
    """Computes expressions at one point of the code, and collects the cases in which they have no value."""

    def __init__(self, code: IrBuilder, variable: Callable[[Var], IrValue], bounds: Mapping[Var, Bounds]) -> None:
        """`bounds` of variables are certain: where they show that a result fits, it is not checked."""
        self.code, self.variable, self.bounds = code, variable, bounds
        self.failed: Variable | None = None
        """If there is one, a failed condition sets this bit, and the code goes on."""
        self._known: dict[Expr, IrValue] = {}
        self._invalid: list[IrValue] = []

    def value_of(self, number: int | SymbolicNumber) -> IrValue:
        """The value of a number that a lowering has made."""
        return self.value(number.expr if isinstance(number, SymbolicNumber) else number)

    def value(self, expr: Expr) -> IrValue:
        """The value of an expression, computed once."""
        if isinstance(expr, int):
            if not SMALLEST <= expr < -SMALLEST:
                self._invalid.append(self.code.constant(I1, "true"))
                return self.code.i64(0)
            return self.code.i64(expr)
        if expr not in self._known:
            self._known[expr] = self.variable(expr) if isinstance(expr, Var) else self._operation(expr)
        return self._known[expr]

    def holds(self, condition: Expr) -> IrValue:
        """Whether a condition holds, as one bit."""
        if isinstance(condition, Op) and condition.name in COMPARISONS:
            a, b = map(self.value, condition.args)
            return a.compare(ORDERS[condition.name], b)
        if isinstance(condition, Op) and is_condition(condition):  # of conditions
            one, other = map(self.holds, condition.args)
            return one & other if condition.name == "and" else one | other
        return self.value(condition).compare("ne", 0)

    def require(self, conditions: Sequence[Expr | IrValue], otherwise: str) -> None:
        """Continue only if all conditions hold and everything so far had a value."""
        held = [c if isinstance(c, IrValue) else self.holds(c) for c in conditions if not isinstance(c, int) or not c]
        self.guard(otherwise, *held)

    def guard(self, otherwise: str, *held: IrValue) -> None:
        """Jump to `otherwise` if an expression had no value, or a condition does not hold."""
        invalid, self._invalid = self._invalid, []
        if not held and not invalid:
            return
        total: IrValue | None = None
        for each in (*held, *(each ^ self.code.constant(I1, "true") for each in invalid)):
            total = each if total is None else total & each
        assert total is not None
        if self.failed is not None:
            self.failed.set(self.failed.get() | (total ^ 1))
            return
        go_on = self.code.new_label("go")
        self.code.split(total, go_on, otherwise, ", !prof !0")
        self.code.begin(go_on)

    def _operation(self, op: Op) -> IrValue:
        a, b = map(self.value, op.args)
        if op.name in PLAIN and self._fits(op):
            return PLAIN[op.name](a, b)
        if op.name in CHECKED:
            return self._checked(CHECKED[op.name], a, b)
        if op.name in ORDERS:
            return a.compare(ORDERS[op.name], b).to("zext", I64)
        return self._OPERATIONS[op.name](self, a, b)

    def _fits(self, op: Op) -> bool:
        """Whether a result surely fits, and a quotient or remainder is that of numbers that are not negative."""
        low, high = interval(op, self.bounds)
        if op.name in ("floordiv", "mod"):
            (least, _), (divisor, _) = (interval(arg, self.bounds) for arg in op.args)
            return least >= 0 and divisor > 0
        return low > -SAFE and high < SAFE

    def _checked(self, name: str, a: IrValue, b: IrValue) -> IrValue:
        pair = self.code.call("{i64, i1}", f"llvm.{name}.with.overflow.i64", a, b)
        self._invalid.append(self.code.write(I1, f"extractvalue {pair!r}, 1"))
        return self.code.write(I64, f"extractvalue {pair!r}, 0")

    def _divide(self, a: IrValue, b: IrValue) -> tuple[IrValue, IrValue]:
        """Quotient and remainder, rounded towards minus infinity."""
        bad = b.compare("eq", 0) | (a.compare("eq", SMALLEST) & b.compare("eq", -1))
        if b.number is None or b.number in (0, -1):
            self._invalid.append(bad)
            b = self.code.select(bad, self.code.i64(1), b)
        quotient, rest = a.op("sdiv", b), a.op("srem", b)
        below = rest.compare("ne", 0) & (rest ^ b).compare("slt", 0)
        return quotient - below.to("zext", I64), rest + self.code.select(below, b, 0)

    def _shift(self, a: IrValue, b: IrValue, name: str) -> IrValue:
        bad = b.compare("ugt", 63)
        self._invalid.append(bad)
        count = self.code.select(bad, self.code.i64(0), b)
        shifted = a.op(name, count)
        if name == "shl":
            self._invalid.append(shifted.op("ashr", count).compare("ne", a))
        return shifted

    def _least(self, a: IrValue, b: IrValue, how: str) -> IrValue:
        return self.code.select(a.compare(how, b), a, b)

    _OPERATIONS: ClassVar[dict[str, Callable[[Evaluator, IrValue, IrValue], IrValue]]] = {
        "floordiv": lambda self, a, b: self._divide(a, b)[0],
        "mod": lambda self, a, b: self._divide(a, b)[1],
        "shl": lambda self, a, b: self._shift(a, b, "shl"),
        "shr": lambda self, a, b: self._shift(a, b, "ashr"),
        "min": lambda self, a, b: self._least(a, b, "slt"),
        "max": lambda self, a, b: self._least(a, b, "sgt"),
        "and": lambda _, a, b: a & b,
        "or": lambda _, a, b: a | b,
    }


PLAIN: dict[str, Callable[[IrValue, IrValue], IrValue]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a.op("udiv", b),
    "mod": lambda a, b: a.op("urem", b),
}
"""Operations without any check, for numbers that are known to be small enough."""
