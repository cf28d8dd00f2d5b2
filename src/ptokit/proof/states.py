"""When two states of a path are alike: the same may follow, so one of them is enough.

Iterations count by their remainders, and what is known of a number by its distance from what conditions compare it
with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from ptokit.program import ir
from ptokit.program.expr import (
    Bounds,
    Expr,
    Var,
    affine,
    parts,
    substitute,
    variables,
)
from ptokit.proof.numbers import Sum, added, constant_of, form_of
from ptokit.proof.paths import Path, PathBlock, PathCore, PlacedBlock
from ptokit.proof.repetition import Repetition


class StateKeys:
    """Makes keys of paths."""

    def __init__(self, program: ir.Program, repetition: Repetition, symbols: Mapping[Var, str]) -> None:
        self.repetition, self._symbols = repetition, symbols
        self._own_terms = _own_terms(program)
        self.cap = repetition.most + repetition.period + 1
        """Numbers up to this count by their value."""

    def key(self, path: Path, without: PathBlock | None) -> Hashable:
        """The same for states in which the same may follow."""
        names = _SymbolNames(self._symbols)
        threads = []
        for thread in path.threads:
            frames = tuple(self._frame_key(frame, thread, without, names) for frame in thread.frames)
            live = {frame.loop.var for frame in thread.frames if frame.loop is not None}
            values = tuple(
                (var, self._sum_key(names.renamed(terms)))
                for var, terms in sorted(thread.numbers.values.items())
                if var not in live
            )
            addresses = tuple((v, tuple(sorted(of.items()))) for v, of in sorted(thread.addresses.items()))
            threads.append((frames, values, addresses))
        known = path.threads[0].numbers.facts
        compared, distances = self.compared(path)
        facts = frozenset(
            (names.form(form), divisor, *self._fact_key(form, bounds, compared))
            for (form, divisor), bounds in (sorted(known.items(), key=str) if self._symbols else known.items())
        )
        placed = tuple(
            (
                record,
                tuple(self.ages(path, each)),
                tuple(frozenset(names.renamed(part).items()) for part in (*each.starts, *each.sizes)),
            )
            for record, each in sorted(path.order.placed.items())
        )
        chip = [frozenset(of.items()) for of in (path.written, path.filled, path.partial, path.owners)]
        return tuple(threads), facts, distances, placed, *chip, path.order.key()

    def _frame_key(
        self, frame: PathBlock, thread: PathCore, without: PathBlock | None, names: _SymbolNames
    ) -> Hashable:
        if frame.loop is None:
            return id(frame.nodes), frame.at
        number, loop = frame.iteration, frame.loop
        count = constant_of(added(frame.stop, frame.start, -1))
        if frame is without:
            own: Hashable = number % self.repetition.period
        elif count is not None or loop.var in self.repetition.exact or frame.start.get(1, 0) < -self.cap:
            own = number
        else:
            start = constant_of(frame.start)
            most = max(self.repetition.turns(loop, start), default=0) if start is not None else 0
            own = min(number, most + 1), number % self.repetition.period, self._certain(thread, frame, number)
        extents = tuple(
            thread.numbers.number(thread.numbers.sum_of(expr)) for expr in self.repetition.soft.get(loop.var, ())
        )
        own = own, extents
        begin, end = map(names.renamed, (frame.start, frame.stop))
        is_exact = loop.var in self.repetition.exact or frame.start.get(1, 0) < -self.cap
        first = frozenset(begin.items()) if is_exact else self._sum_key(begin)
        return id(frame.nodes), frame.at, own, first, self._sum_key(end) if count is None else count

    def _certain(self, thread: PathCore, frame: PathBlock, number: int) -> Hashable:
        """How much a loop certainly has left, and how much at most, if that is not much."""
        assert frame.loop is not None
        left = added(frame.stop, added(frame.start, {1: frame.loop.step * number}), -1)
        edges = thread.numbers.bounds_of(left)
        low, high = edges if frame.loop.step > 0 else (-edges[1], -edges[0])
        return low, min(high, self.cap)

    def _sum_key(self, terms: Sum) -> Hashable:
        """A sum, its constant by its remainder if it is large."""
        constant = terms.get(1, 0)
        short = constant if abs(constant) <= self.cap else ("...", constant % self.repetition.period)
        return frozenset((term, k) for term, k in terms.items() if term != 1), short

    def compared(self, path: Path) -> tuple[dict[Any, list[tuple[int, int]]], Hashable]:
        """What conditions compare forms with: of each form, its factor and the number that is added. And the numbers
        that conditions compare with zero without one."""
        found: dict[Any, list[tuple[int, int]]] = {}
        distances: list[int] = []
        for thread in path.threads:
            live = {frame.loop.var for frame in thread.frames if frame.loop is not None}
            for difference in self.repetition.compares:
                used = {var for var in variables(difference) if var in self.repetition.loops}
                if used and used <= live and used <= thread.numbers.values.keys():
                    form, scale, constant = form_of(thread.numbers.sum_of(difference))
                    if form:
                        found.setdefault(form, []).append((scale, constant))
                    elif len(used) > 1:
                        distances.append(constant)
        return found, tuple(distances)

    def _fact_key(self, form: Any, bounds: Bounds, compared: dict[Any, list[tuple[int, int]]]) -> tuple[Any, ...]:
        """Bounds of a form, relative to what conditions compare it with."""
        bases = compared.get(form)
        if bases is None:
            return tuple(edge if abs(edge) <= self.cap or abs(edge) == inf else ("far", edge) for edge in bounds)
        relative = tuple(edge * scale + constant for scale, constant in bases for edge in bounds)
        if any(term in self._own_terms for term, _ in form):
            return relative
        used = frozenset[Var]().union(*(variables(term) for term, _ in form))
        if used & self.repetition.tangled or any(self._symbols.get(var) in self.repetition.tangled for var in used):
            return (*relative, *bounds)
        return (*relative, *(edge if abs(edge) <= self.cap else "far" for edge in bounds))

    def ages(self, path: Path, placed: PlacedBlock) -> Iterator[tuple[str, int]]:
        """How long ago the iterations were that a block depends on; -1 for a loop that is over."""
        now = {counter: n for thread in path.threads for counter, n in thread.counters}
        for counter, number in placed.iterations:
            yield counter, now[counter] - number if counter in now else -1


def _own_terms(program: ir.Program) -> frozenset[Expr]:
    """Terms that only the bound of one loop has."""
    bounds = [stmt.stop for stmt in ir.walk(program.body) if isinstance(stmt, ir.Loop)]
    own = Counter(term for stop in bounds for term in affine(stop))
    every = (expr for stmt in ir.walk(program.body) for expr in ir.expressions(stmt))
    used = Counter(part for expr in every for part in (*parts(expr), *variables(expr)))
    return frozenset(term for term, count in own.items() if count == 1 and used[term] == 1)


class _SymbolNames:
    """Numbers from memory, named in the order in which a state uses them."""

    def __init__(self, symbols: Mapping[Var, str]) -> None:
        self._symbols = symbols
        self._new: dict[Var, Expr] = {}

    def term(self, term: Expr) -> Expr:
        used = [var for var in sorted(variables(term)) if var in self._symbols] if self._symbols else []
        for var in used:
            self._new.setdefault(var, Var(f"{self._symbols[var]} {len(self._new)}"))
        return substitute(term, self._new) if used else term

    def renamed(self, terms: Sum) -> Sum:
        """A sum with other names."""
        return {self.term(term): k for term, k in terms.items()}

    def form(self, form: Iterable[tuple[Expr, int]]) -> Hashable:
        """The terms of a sum without its constant, with other names."""
        return frozenset((self.term(term), k) for term, k in form if term != 1)
