"""Conditions of branches: which of them cannot hold together."""

from __future__ import annotations

from math import inf

from ptokit.program.expr import Expr, Op, difference, is_condition, truth, variables
from ptokit.program.ir import Block, LoadScalar, Loop, walk

Fact = tuple[Expr, bool]
"""A condition, and whether it holds."""
Facts = frozenset[Fact]
"""What holds along a path."""

NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def facts(condition: Expr, holds: bool) -> Facts:
    """What follows from a condition that holds, or does not."""
    if isinstance(condition, Op) and condition.name == ("and" if holds else "or") and is_condition(condition):
        first, second = condition.args
        return facts(first, holds) | facts(second, holds)
    return frozenset({(condition, holds)})


def exclude(some: Facts, others: Facts) -> bool:
    """Whether two sets of facts about the same numbers cannot hold together."""
    return any(_exclude(one, other) for one in some for other in others)


def without(known: Facts, changed: frozenset[Expr]) -> Facts:
    """The facts that do not depend on numbers that have changed."""
    return frozenset(fact for fact in known if changed.isdisjoint(variables(fact[0]))) if known else known


def changed_in(loop: Loop) -> frozenset[Expr]:
    """The numbers that each iteration of a loop gets anew."""
    return frozenset({loop.var, *_read(loop.body)})


def _read(block: Block) -> frozenset[Expr]:
    inner = [stmt for stmt in walk(block) if isinstance(stmt, LoadScalar | Loop)]
    return frozenset(stmt.result if isinstance(stmt, LoadScalar) else stmt.var for stmt in inner)


def _exclude(one: Fact, other: Fact) -> bool:
    (form, low, high, gap), (also, lower, higher, hole) = _range(one), _range(other)
    if form != also:
        return False
    return low > higher or lower > high or low == high == hole or lower == higher == gap


def _range(fact: Fact) -> tuple[frozenset[tuple[Expr, int]], float, float, float | None]:
    """A fact as bounds of a sum of multiples, or as the number that the sum is not."""
    condition, holds = truth(fact[0]), fact[1]
    if not isinstance(condition, Op) or condition.name not in NEGATED:
        condition = Op("ne", (condition, 0))
    name = condition.name if holds else NEGATED[condition.name]
    terms = difference(*condition.args)
    number = -terms.pop(1, 0)
    if terms and min(terms.items(), key=lambda term: str(term[0]))[1] < 0:
        terms, number, name = {term: -factor for term, factor in terms.items()}, -number, MIRRORED[name]
    low = {"gt": number + 1, "ge": number, "eq": number}.get(name, -inf)
    high = {"lt": number - 1, "le": number, "eq": number}.get(name, inf)
    return frozenset(terms.items()), low, high, number if name == "ne" else None
