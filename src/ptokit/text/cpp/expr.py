"""Whole-number expressions in C++."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ptokit.finding import Finding, VerifyError
from ptokit.program.expr import ANYTHING, BLOCK_IDX, BLOCK_NUM, Bounds, Expr, Op, Var, interval
from ptokit.text.cpp.names import Identifiers

HELPERS = {
    "floordiv": (
        "floor_div",
        "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
        "Division that rounds towards minus infinity.",
    ),
    "mod": ("floor_mod", "return (a % b + b) % b;", "A remainder with the divisor's sign."),
    "min": ("least", "return b < a ? b : a;", "The smaller number."),
    "max": ("greatest", "return a < b ? b : a;", "The larger number."),
}
"""Operations that are functions in C++: the name, the body, and a comment."""
SYMBOLS = {"add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "floordiv": ("/", 6), "mod": ("%", 6)}
"""Arithmetic operators and their precedence; division only of numbers that are not negative."""
BITS = {"shl": "<<", "shr": ">>", "and": "&", "or": "|"}
"""Operators that are always written in brackets, because their precedence is little known."""
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGIC = {"and": "&&", "or": "||"}


def literal(number: int) -> str:
    """An integer literal; rejected if it does not fit 64 bits."""
    if not -(2**63) <= number < 2**63:
        message = f"{number} does not fit the 64-bit numbers of C++"
        raise VerifyError([Finding("error", "KN-11", message, fix="use smaller numbers")])
    return str(number) if number > -(2**63) else "INT64_MIN"


class Expressions:
    """Expressions in C++, all of type `int64_t`, with the author's names for parts of them."""

    def __init__(self, identifiers: Identifiers, names: Iterable[tuple[Expr, str]]) -> None:
        self.identifiers = identifiers
        self.names = dict(names)
        self._given: dict[Expr, str] = {}
        """The C++ names of expressions that have one; the author may call several by the same name."""
        self.bounds: dict[Var, Bounds] = {BLOCK_IDX: (0, inf), BLOCK_NUM: (1, inf)}
        self.natural: set[Expr] = set()
        """Expressions that are known not to be negative."""
        self.helpers: set[str] = set()
        """Operations whose functions are needed."""
        self.used: dict[Var, None] = {}
        """Variables that occur in the text."""

    def name(self, expr: Expr) -> str | None:
        """The C++ name of a variable, or of an expression that has one."""
        if isinstance(expr, Var):
            self.used[expr] = None
            return self.identifiers.of(expr)
        if expr in self.names and expr not in self._given:
            self._given[expr] = self.identifiers.fresh(self.names[expr])
        return self._given.get(expr)

    def text(self, expr: Expr, around: int = 0) -> str:
        """An expression, in brackets if the operator around it has higher precedence."""
        if isinstance(expr, int):
            return literal(expr)
        return self.name(expr) or self.definition(expr, around)

    def definition(self, expr: Expr, around: int = 0) -> str:
        """An operation, written out even if it has a name."""
        assert isinstance(expr, Op)
        if expr.name in COMPARISONS:
            return f"int64_t({self._comparison(expr)})"
        if expr.name in HELPERS and not self._divides_plainly(expr):
            self.helpers.add(expr.name)
            return f"{HELPERS[expr.name][0]}({', '.join(map(self.text, expr.args))})"
        if expr.name in SYMBOLS:
            symbol, binding = SYMBOLS[expr.name]
            left, right = (self.text(arg, binding + k) for k, arg in enumerate(expr.args))
            return f"({left} {symbol} {right})" if binding < around else f"{left} {symbol} {right}"
        left, right = (self._operand(arg) for arg in expr.args)
        return f"({left} {BITS[expr.name]} {right})"

    def _operand(self, expr: Expr) -> str:
        """An operand of a bit operation; the type of a plain literal would be too narrow to shift."""
        return f"int64_t({literal(expr)})" if isinstance(expr, int) else self.text(expr, around=9)

    def _divides_plainly(self, expr: Op) -> bool:
        """Whether C++ rounds as Python does: nothing is negative."""
        return expr.name in SYMBOLS and self._least(expr.args[0]) >= 0 and self._least(expr.args[1]) > 0

    def _least(self, expr: Expr) -> float:
        return 0 if expr in self.natural else interval(expr, self.bounds)[0]

    def condition(self, expr: Expr) -> str:
        if isinstance(expr, Op) and expr not in self.names:
            if expr.name in COMPARISONS:
                return self._comparison(expr)
            if expr.name in LOGIC and all(map(_is_truth, expr.args)):
                left, right = (self.condition(arg) for arg in expr.args)
                return f"({left}) {LOGIC[expr.name]} ({right})"
        return f"{self.text(expr)} != 0"

    def _comparison(self, expr: Op) -> str:
        left, right = map(self.text, expr.args)
        return f"{left} {COMPARISONS[expr.name]} {right}"

    def loop(self, var: Var, start: Expr, stop: Expr, step: int) -> None:
        """Record the bounds of a loop's variable."""
        first, last = interval(start, self.bounds), interval(stop, self.bounds)
        self.bounds[var] = (first[0], last[1] - 1) if step > 0 else (last[0] + 1, first[1])

    def read(self, var: Var, is_unsigned: bool) -> None:
        """Record the bounds of a number from memory."""
        self.bounds[var] = (0, inf) if is_unsigned else ANYTHING


def _is_truth(expr: Expr) -> bool:
    """Whether an expression is 0 or 1."""
    if not isinstance(expr, Op):
        return False
    return expr.name in COMPARISONS or (expr.name in LOGIC and all(map(_is_truth, expr.args)))
