"""Whole numbers that a proof does not know: sums of unknown terms, and what a path has learnt of them.

A path of a proof decides conditions one after the other. What is not decided by what it knows raises `Undecided`, with
the facts of each way to go on. So a path never goes on with a guess, and every way is followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import gcd, inf

from ptokit.program.expr import (
    BLOCK_IDX,
    BLOCK_NUM,
    COMPARISONS,
    OPS,
    Bounds,
    Expr,
    ExtentVar,
    Op,
    Var,
    affine,
    apply,
    interval,
    is_condition,
    total,
    variables,
)

Sum = dict[Expr, int]
"""A sum of multiples, `{term: factor}`; the term 1 has the constant."""
Form = tuple[tuple[Expr, int], ...]
"""A sum without its constant, its factors without a common divisor and the first one positive."""
MOST_VALUES = 16
"""Values of a number that are tried one by one where its value must be known."""


class UnknownNumber(Exception):
    """A number whose value must be known, and is not."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr)
        self.expr = expr


class Fact:
    """What a path may learn: bounds of a form, or its remainder for a divisor."""

    __slots__ = ("bounds", "divisor", "form")

    def __init__(self, form: Form, bounds: Bounds, divisor: int = 0) -> None:
        self.form, self.bounds, self.divisor = form, bounds, divisor


class OpenCondition(Exception):
    """A condition that the facts of a path do not decide: the ways to go on."""

    def __init__(self, *ways: Fact) -> None:
        super().__init__()
        self.ways = ways


def form_of(terms: Mapping[Expr, int]) -> tuple[Form, int, int]:
    """A sum as a form, its factor and a constant."""
    parts = [(term, k) for term, k in terms.items() if term != 1 and k]
    if len(parts) > 1:
        parts.sort(key=_place)
    scale = gcd(*(k for _, k in parts)) if parts else 0
    if parts and parts[0][1] < 0:
        scale = -scale
    return tuple([(term, k // scale) for term, k in parts]), scale, terms.get(1, 0)


def _place(part: tuple[Expr, int]) -> str:
    return _text(part[0])


_text = lru_cache(maxsize=4096)(str)
BLOCKS = form_of({BLOCK_IDX: 1, BLOCK_NUM: -1})[0]


class Facts(dict[tuple[Form, int], Bounds]):
    """What a path knows: by form and divisor, bounds of the form or of its remainder."""

    version = 0
    """Counts the changes."""


class Numbers:
    """The variables of a path, and its facts."""

    __slots__ = ("_cached", "_sums", "_terms", "bounds", "facts", "values")

    def __init__(self, bounds: Mapping[Var, Bounds]) -> None:
        self.bounds = bounds
        """Bounds of the variables that hold on all paths."""
        self.values: dict[Var, Sum] = {}
        """Variables of the running core, in terms of others."""
        self.facts = Facts({(BLOCKS, 0): (-inf, -1)})
        self._cached = -1
        """The version of the facts that the caches are for."""
        self._sums: dict[Expr, Sum] = {}
        self._terms: dict[Expr, Bounds] = {}

    def copy(self) -> Numbers:
        """A copy, for another way to go on."""
        other = Numbers(self.bounds)
        other.values, other.facts = dict(self.values), Facts(self.facts)
        return other

    def bind(self, var: Var, terms: Sum) -> None:
        """A variable gets a value."""
        self.values[var] = terms
        self._cached = -1

    def unbind(self, *gone: Var) -> None:
        """Variables have no value any more."""
        for var in gone:
            self.values.pop(var, None)
        self._cached = -1

    def _refresh(self) -> None:
        if self._cached != self.facts.version:
            self._cached = self.facts.version
            self._sums.clear()
            self._terms.clear()

    def change(self, key: tuple[Form, int], bounds: Bounds | None) -> None:
        """Set a fact, or forget it."""
        self.facts.version += 1
        if bounds is None:
            del self.facts[key]
        else:
            self.facts[key] = bounds

    def learn(self, fact: Fact) -> bool:
        """Add a fact; whether it is possible beside the others."""
        known = self.facts.get((fact.form, fact.divisor), (-inf, inf))
        now = max(known[0], fact.bounds[0]), min(known[1], fact.bounds[1])
        self.change((fact.form, fact.divisor), now)
        low, high = self.facts[fact.form, fact.divisor] if fact.divisor else self.form_bounds(fact.form)
        return low <= high and all(self._is_possible(form) for form, divisor in self.facts if not divisor)

    def _is_possible(self, form: Form) -> bool:
        """Whether some value is left for a form of several terms."""
        low, high = self.form_bounds(form) if len(form) > 1 else (0, 0)
        return low <= high

    # --- sums

    def sum_of(self, expr: Expr) -> Sum:
        """An expression as a sum of terms that the path cannot resolve further."""
        if isinstance(expr, int):
            return {1: expr} if expr else {}
        if isinstance(expr, Var):
            return self.values.get(expr) or ({} if expr in self.values else {expr: 1})
        self._refresh()
        known = self._sums.get(expr)
        if known is None:
            known = self._sums[expr] = self._compute(expr)
        return known

    def _compute(self, expr: Op) -> Sum:
        left, right = map(self.sum_of, expr.args)
        if expr.name in ("add", "sub"):
            return added(left, right, 1 if expr.name == "add" else -1)
        if expr.name == "shl" and (count := constant_of(right)) is not None and 0 <= count < 64:
            return {term: k << count for term, k in left.items()}
        if expr.name == "mul":
            for factor, other in ((right, left), (left, right)):
                if (number := constant_of(factor)) is not None:
                    return {term: k * number for term, k in other.items()} if number else {}
        return self._operation(expr.name, left, right)

    def settled(self, expr: Expr) -> Sum:
        """The same without minima and maxima. Raises `Undecided` for one that is not decided."""
        found = self.sum_of(expr)
        for term in found:
            if isinstance(term, Op) and term.name in ("min", "max"):
                self.compare("lt", *map(self.sum_of, term.args))
        return found

    def _operation(self, name: str, left: Sum, right: Sum) -> Sum:
        one, two = constant_of(left), constant_of(right)
        if one is not None and two is not None:
            return _constant(apply(name, one, two))
        if name in ("floordiv", "mod") and two is not None and two > 0:
            return self._divided(name, left, two)
        if name == "and" and two is not None and two > 0 and not two & (two + 1):
            return self._divided("mod", left, two + 1)
        if name in ("min", "max"):
            low, high = self.bounds_of(added(left, right, -1))
            if low >= 0 or high <= 0:
                return (right if name == "min" else left) if low >= 0 else (left if name == "min" else right)
        if name in COMPARISONS and (known := self._compared(name, added(left, right, -1))) is not None:
            return _constant(int(known))
        return {Op(name, (total(left), total(right))): 1}

    def _divided(self, name: str, left: Sum, divisor: int) -> Sum:
        """A quotient or a remainder: what the divisor divides leaves it."""
        whole = {term: k // divisor for term, k in left.items() if not k % divisor}
        rest = {term: k for term, k in left.items() if k % divisor}
        constant = rest.pop(1, 0)
        whole[1] = whole.get(1, 0) + constant // divisor
        rest = {term: k % divisor for term, k in rest.items()} if name == "mod" else rest
        constant %= divisor
        if not rest:
            return _constant(constant) if name == "mod" else _clean(whole)
        form, scale, _ = form_of(rest)
        known = self.facts.get((form, divisor))
        if name == "mod":
            if known is not None and known[0] == known[1]:
                return _constant((int(known[0]) * scale + constant) % divisor)
            if constant:
                rest[1] = constant
            return {Op("mod", (total(rest), divisor)): 1}
        low, high = self.bounds_of({**rest, 1: constant})
        if low >= 0 and high < divisor:
            return _clean(whole)
        quotient = Op("floordiv", (total({**rest, 1: constant} if constant else rest), divisor))
        return _clean({**whole, quotient: whole.get(quotient, 0) + 1})

    # --- bounds

    def number(self, terms: Sum) -> int | None:
        """The number that a sum is, if it is known."""
        if (constant := constant_of(terms)) is not None:
            return constant
        low, high = self.bounds_of(terms)
        return int(low) if low == high else None

    def bounds_of(self, terms: Sum) -> Bounds:
        """Bounds of a sum."""
        form, scale, constant = form_of(terms)
        if not form:
            return constant, constant
        low, high = self.form_bounds(form)
        return (low * scale + constant, high * scale + constant) if scale > 0 else (
            high * scale + constant, low * scale + constant
        )  # fmt: skip

    def form_bounds(self, form: Form) -> Bounds:
        """Bounds of a form: its own, and those of its terms."""
        low, high = self.facts.get((form, 0), (-inf, inf))
        if len(form) > 1:
            parts = [(self._term(term), k) for term, k in form]
            low = max(low, sum((b[0] if k > 0 else b[1]) * k for b, k in parts))
            return low, min(high, sum((b[1] if k > 0 else b[0]) * k for b, k in parts))
        return self._term(next(iter(form))[0])

    def _term(self, term: Expr) -> Bounds:
        self._refresh()
        found = self._terms.get(term)
        if found is None:
            low, high = self._own(term)
            known = self.facts.get((((term, 1),), 0), (-inf, inf))
            found = self._terms[term] = max(low, known[0]), min(high, known[1])
        return found

    def _own(self, term: Expr) -> Bounds:
        if isinstance(term, Var):
            return self.bounds.get(term, (0, inf) if isinstance(term, ExtentVar) else (-inf, inf))
        low, high = interval(term, {var: self._term(var) for var in variables(term)})
        return low, min(high, _most_of_part(term))

    # --- decisions

    def decide(self, condition: Expr) -> bool:
        """Whether a condition holds. Raises `Undecided`."""
        if isinstance(condition, Op) and condition.name in ("and", "or") and all(map(is_condition, condition.args)):
            first = self.decide(condition.args[0])
            return self.decide(condition.args[1]) if first == (condition.name == "and") else first
        if isinstance(condition, Op) and condition.name in COMPARISONS:
            left, right = map(self.sum_of, condition.args)
            return self._decide(condition.name, added(left, right, -1))
        return self._decide("ne", self.sum_of(condition))

    def compare(self, name: str, left: Sum, right: Sum) -> bool:
        """The same for two sums."""
        return self._decide(name, added(left, right, -1))

    def forget(self, symbol: Var) -> None:
        """A symbol has a new value."""
        for form, divisor in list(self.facts):
            if any(symbol in variables(term) for term, _ in form):
                self.change((form, divisor), None)

    def _compared(self, name: str, difference: Sum) -> bool | None:
        low, high = self.bounds_of(difference)
        found = OPS[name].bound((low, high), (0, 0))
        return bool(found[0]) if found[0] == found[1] else None

    def _decide(self, name: str, difference: Sum) -> bool:
        known = self._compared(name, difference)
        if known is not None:
            return known
        condition = _condition_in(difference)
        if condition is not None:
            self.decide(condition)  # which raises, or else it would be a number
        form, scale, constant = form_of(difference)
        if name in ("eq", "ne") and constant % scale:
            return name == "ne"
        raise OpenCondition(*_ways(name, form, scale, constant))

    def exact(self, expr: Expr) -> int:
        """The value of an expression. Raises `Undecided` if it is one of a few, else `Unknown`."""
        terms = self.sum_of(expr)
        number = self.number(terms)
        if number is not None:
            return number
        for term in terms:
            if isinstance(term, Op) and term.name == "mod" and isinstance(divisor := term.args[1], int):
                form, _, _ = form_of(self.sum_of(term.args[0]))
                if divisor <= MOST_VALUES:
                    raise OpenCondition(*(Fact(form, (k, k), divisor) for k in range(divisor)))
        condition = _condition_in(terms)
        if condition is not None:
            self.decide(condition)
        form, _, _ = form_of(terms)
        low, high = self.form_bounds(form)
        if high - low < MOST_VALUES:
            raise OpenCondition(*(Fact(form, (k, k)) for k in range(int(low), int(high) + 1)))
        raise UnknownNumber(expr)


def _most_of_part(term: Expr) -> float:
    """The most that `(k * block_idx + c) // block_num` can be, where a block's part of some work begins or ends."""
    if not isinstance(term, Op) or term.name != "floordiv" or term.args[1] != BLOCK_NUM:
        return inf
    terms = affine(term.args[0])
    k, c = terms.pop(BLOCK_IDX, 0), terms.pop(1, 0)
    return inf if terms or k <= 0 else k - 1 if c < k else c


def _condition_in(terms: Sum) -> Expr | None:
    """A condition that is a term of a sum: to decide it makes it a number."""
    return next((term for term in terms if isinstance(term, Op) and is_condition(term)), None)


def _ways(name: str, form: Form, scale: int, constant: int) -> list[Fact]:
    """The ways in which `scale * form + constant` may compare to zero: below, equal and above some numbers."""
    at, is_whole = -constant // scale, constant % scale == 0
    if name in ("eq", "ne"):
        return [Fact(form, (-inf, at - 1)), Fact(form, (at, at)), Fact(form, (at + 1, inf))]
    splits_below = (name in ("lt", "ge")) == (scale > 0)  # whether equality is with what lies above
    edge = at - 1 if splits_below and is_whole else at
    return [Fact(form, (-inf, edge)), Fact(form, (edge + 1, inf))]


def constant_of(terms: Sum) -> int | None:
    """The number that a sum is, if it has no unknown term."""
    if not terms:
        return 0
    return terms[1] if len(terms) == 1 and 1 in terms else None


def added(a: Sum, b: Sum, sign: int = 1) -> Sum:
    """`a + b`, or `a - b`."""
    found = dict(a)
    for term, k in b.items():
        found[term] = found.get(term, 0) + sign * k
    return _clean(found)


def _clean(terms: Sum) -> Sum:
    return {term: k for term, k in terms.items() if k}


def _constant(number: Expr) -> Sum:
    assert isinstance(number, int)
    return {1: number} if number else {}
