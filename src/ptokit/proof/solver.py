"""The integer solver: z3, if it is installed. It proves, or it says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from itertools import product as iterate
from time import process_time
from typing import Any

from ptokit.program.expr import COMPARISONS, Expr, Op, Var, affine, is_condition

MILLISECONDS = 400
"""For one question."""
MOST_FACTOR = 1 << 40
"""Larger numbers do not become multiples of divisors."""


class Solver:
    """Answers questions about whole numbers within a time."""

    def __init__(self, seconds: float) -> None:
        self._end = process_time() + seconds
        self.is_there = find_spec("z3") is not None
        self.was_needed = False
        """Whether a question had no answer because the solver is not installed."""

    def proves(self, facts: Iterable[Expr], condition: Expr) -> bool:
        """Whether a condition follows."""
        if isinstance(condition, int):
            return bool(condition)
        return self.refutes([*facts, Op("eq", (condition, 0))])

    def refutes(self, facts: Iterable[Expr]) -> bool:
        """Whether conditions certainly cannot hold together."""
        known = [fact for fact in facts if fact != 1]
        if 0 in known:
            return True
        if not self.is_there:
            self.was_needed = True
            return False
        left = int(1000 * (self._end - process_time()))
        if left <= 0:
            return False
        z3: Any = import_module("z3")
        terms = _Terms(z3)
        solver = z3.Solver()
        solver.set("timeout", min(left, MILLISECONDS))
        solver.add(*[terms.truth(fact) for fact in known])
        solver.add(*terms.lemmas())
        return solver.check() == z3.unsat


class _Terms:
    """Expressions as terms of the solver. What it cannot express is some number."""

    def __init__(self, z3: Any) -> None:
        self.z3 = z3
        self._known: dict[Expr, Any] = {}
        self._quotients: list[tuple[Any, Any, Any, list[int]]] = []
        """Quotients by unknown numbers, with dividend and divisor, and numbers that they may compare with."""

        self._products: list[tuple[Any, Any, Any]] = []
        """Products of unknown numbers, with their factors."""

    def truth(self, expr: Expr) -> Any:
        """A condition."""
        z3 = self.z3
        if isinstance(expr, Op) and expr.name in COMPARISONS:
            first, second = expr.args
            if expr.name in ("eq", "ne") and second == 0 and is_condition(first) and isinstance(first, Op):
                inner = self.truth(first)
                return z3.Not(inner) if expr.name == "eq" else inner
            a, b = self.number(first), self.number(second)
            return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[expr.name]
        if isinstance(expr, Op) and expr.name in ("and", "or") and all(map(is_condition, expr.args)):
            return (z3.And if expr.name == "and" else z3.Or)(*map(self.truth, expr.args))
        return self.number(expr) != 0

    def number(self, expr: Expr) -> Any:
        """A number."""
        if isinstance(expr, int):
            return self.z3.IntVal(expr)
        if expr not in self._known:
            self._known[expr] = self.z3.Int(str(expr)) if isinstance(expr, Var) else self._operation(expr)
        return self._known[expr]

    def _operation(self, expr: Op) -> Any:
        z3, name = self.z3, expr.name
        if is_condition(expr):
            return z3.If(self.truth(expr), 1, 0)
        a, b = map(self.number, expr.args)
        second = expr.args[1]
        if name in ("add", "sub"):
            return a + b if name == "add" else a - b
        if name in ("min", "max"):
            return z3.If((a < b) if name == "min" else (a > b), a, b)
        if name == "mul" and any(isinstance(arg, int) for arg in expr.args):
            return a * b
        if isinstance(second, int) and second > 0 and name in ("floordiv", "mod"):
            return a / b if name == "floordiv" else a % b
        if isinstance(second, int) and 0 <= second < 64 and name in ("shl", "shr"):
            return a * (1 << second) if name == "shl" else a / (1 << second)
        if name == "and" and isinstance(second, int) and second > 0 and not second & (second + 1):
            return a % (second + 1)
        some = z3.FreshInt("some")
        if name == "mul":
            self._products.append((some, a, b))
        if name == "floordiv":
            factors = {abs(k) + more for k in affine(expr.args[0]).values() for more in (0, 1)}
            self._quotients.append((some, a, b, sorted({-1, 0, 1, 2} | {k for k in factors if k < MOST_FACTOR})))
        return some

    def lemmas(self) -> list[Any]:
        """Quotients by one number are in the order of their dividends; those of its multiples are known. Products are
        in the order of one factor."""
        z3 = self.z3
        found: list[Any] = list(self._of_products())
        for quotient, a, b, multiples in self._quotients:
            for k in multiples:
                found += [z3.Implies(z3.And(b >= 1, a >= k * b), quotient >= k)]
                found += [z3.Implies(z3.And(b >= 1, a < k * b), quotient < k)]
        for (q, a, b, _), (p, c, d, _) in combinations(self._quotients, 2):
            if b.eq(d):
                found += [z3.Implies(z3.And(b >= 1, a <= c), q <= p), z3.Implies(z3.And(b >= 1, c <= a), p <= q)]
        return found

    def _of_products(self) -> Iterator[Any]:
        z3 = self.z3
        for product, a, b in self._products:
            yield z3.Implies(z3.And(a >= 0, b >= 0), product >= 0)
            for quotient, dividend, divisor, _ in self._quotients:
                for one, other in ((a, b), (b, a)) if dividend.eq(product) else ():
                    known = z3.And(divisor >= 1, one >= 0, other >= 0)
                    yield z3.Implies(z3.And(known, other <= divisor), quotient <= one)
                    yield z3.Implies(z3.And(known, other < divisor, one >= 1), quotient < one)
        for (product, a, b), (second, c, d) in combinations(self._products, 2):
            for (one, first), (other, then) in iterate(((a, b), (b, a)), ((c, d), (d, c))):
                if one.eq(other):
                    yield z3.Implies(z3.And(one >= 0, first <= then), product <= second)
                    yield z3.Implies(z3.And(one >= 0, then <= first), second <= product)
