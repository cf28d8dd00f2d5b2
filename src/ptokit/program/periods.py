"""Rounds of loops that do what earlier rounds did, for checks of recorded kernels.

What a check finds in a loop repeats once the rounds repeat: the same tiles, flags and sizes with a period, and blocks
of global memory that move on by one step. A `RoundGap` is a range of such rounds behind enough others. It is none if a
later statement may meet in global memory what the rounds in the gap do, or if values decide what is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

from ptokit.isa.opaque import GRID_BARRIERS
from ptokit.program import ir
from ptokit.program.cores import is_crossing
from ptokit.program.expr import BLOCK_IDX, SUBBLOCK_IDX, Expr, Var, evaluate_arrays, variables
from ptokit.program.instr_calls import written_arguments

WARM_UP = 34
"""Rounds that repeat before a gap: more than flags between cores count."""
MOST_PERIOD = 32
NEAR = 4
"""How many rounds apart two cores of a loop may touch the same blocks of an array."""
MOST_POINTS = 1 << 23
"""Accesses of a statement that are looked at."""
Ints = np.ndarray[Any, np.dtype[np.int64]]


class RoundGap(NamedTuple):
    """Rounds of a loop that repeat: from `first` on up to `stop`, with a period."""

    first: int
    stop: int
    period: int


@dataclass
class _Inside:
    """Where a statement is: the loops around it, and the blocks that run it, once for each vector core."""

    loops: tuple[ir.Loop, ...]
    blocks: Ints
    vectors: Ints
    meets: bool = True
    """Whether all cores of a block come to it, so that they may leave out rounds together."""

    def within(self, loop: ir.Loop) -> _Inside:
        """Inside of a loop."""
        return replace(self, loops=(*self.loops, loop))


class _Unknown(Exception):
    """What a program does is not known here."""


@dataclass
class _Search:
    program: ir.Program
    gaps: dict[int, list[RoundGap]] = field(default_factory=dict[int, list[RoundGap]])
    loops: dict[int, ir.Loop] = field(default_factory=dict[int, ir.Loop])
    views: list[tuple[ir.View, _Inside]] = field(default_factory=list[tuple[ir.View, _Inside]])

    def block(self, body: ir.Block, inside: _Inside) -> None:
        for stmt in body:
            if isinstance(stmt, ir.Loop):
                within = inside.within(stmt)
                self.gaps[id(stmt)], self.loops[id(stmt)] = self._gaps(stmt, within), stmt
                self.block(stmt.body, within)
            elif isinstance(stmt, ir.Branch):
                holds = self._values(stmt.condition, replace(inside, loops=())) != 0
                meets = inside.meets and SUBBLOCK_IDX not in variables(stmt.condition)
                for arm, chosen in ((stmt.then, holds), (stmt.otherwise, ~holds)):
                    own = np.broadcast_to(chosen, inside.blocks.shape)
                    if own.any():
                        self.block(arm, _Inside(inside.loops, inside.blocks[own], inside.vectors[own], meets))
            elif isinstance(stmt, ir.Instr):
                self.views += [(operand, inside) for operand in stmt.operands if isinstance(operand, ir.View)]

    def _values(self, expr: Expr, inside: _Inside) -> Ints:
        """The values of an expression: an axis for the blocks, and for each loop."""
        return evaluate_arrays(expr, _axes(inside, variables(expr)))

    def _gaps(self, loop: ir.Loop, inside: _Inside) -> list[RoundGap]:
        """The rounds of a loop that repeat, with the first period that any of them have. Cores that meet leave them out
        together, in an outer loop that all come to."""
        if any(map(is_crossing, ir.walk(loop.body))) and not (inside.meets and len(inside.loops) == 1):
            return []
        count, axis = len(_range(loop)), len(inside.loops)
        exprs = list(_repeating(loop.body, inside))
        copies = lcm(
            loop.buffers,
            *(max(1, len(s.addresses), s.buffers) for s in ir.walk(loop.body) if isinstance(s, ir.TileDecl)),
        )
        values = [(self._values(expr, at), axis) for expr, at in exprs if loop.var in variables(expr)]
        for period in range(copies, MOST_PERIOD + 1, copies):
            warm_up = max(WARM_UP, 4 * period)
            if count < warm_up + 2 * period:
                return []
            same = np.ones(count - period, np.bool_)
            for table, dim in values:
                rows = np.moveaxis(np.atleast_1d(table), dim, 0)
                same &= (rows[period:] == rows[:-period]).reshape(count - period, -1).all(axis=1)
            if found := list(_gaps_of(same, warm_up, period)):
                return found
        return []

    def keep_apart(self) -> None:
        """Leave out gaps of loops whose blocks of global memory do not move on by one step, and all gaps if a round in
        one may meet something else."""
        written = {self.program.tensors[name].array for name in written_arguments(self.program)}
        by_array: dict[str, list[tuple[ir.View, _Inside]]] = {}
        for view, inside in self.views:
            if (array := self.program.tensors[view.argument].array) in written:
                by_array.setdefault(array, []).append((view, inside))
        for uses in by_array.values():
            for number, loop in self.loops.items():
                own = self._of_loop(uses, loop)
                self.gaps[number] = [gap for gap in self.gaps[number] if len(self._steps(gap, loop, own)) < 2]
        gapped = [number for number, gaps in self.gaps.items() if gaps]
        moving = [uses for uses in by_array.values() if not all(self._stays(uses, number) for number in gapped)]
        if gapped and not all(self._apart(uses, gapped) for uses in moving):
            self.gaps.clear()

    def _of_loop(self, uses: Sequence[tuple[ir.View, _Inside]], loop: ir.Loop) -> list[tuple[ir.View, _Inside]]:
        return [(view, inside) for view, inside in uses if any(each is loop for each in inside.loops)]

    def _stays(self, uses: Sequence[tuple[ir.View, _Inside]], number: int) -> bool:
        """Whether a loop uses the same blocks of an array in every period, as it does those of on-chip memory."""
        loop = self.loops[number]
        own = self._of_loop(uses, loop)
        return all(self._steps(gap, loop, own) <= {0} for gap in self.gaps[number])

    def _steps(self, gap: RoundGap, loop: ir.Loop, uses: Sequence[tuple[ir.View, _Inside]]) -> set[int]:
        """By how many elements the blocks of an array that a loop uses move on in a period."""
        steps: set[int] = set()
        for view, inside in uses:
            axis = 1 + next(k for k, each in enumerate(inside.loops) if each is loop)
            at = self._position(view, inside)
            if at.ndim <= axis or at.shape[axis] == 1:
                steps.add(0)
                continue
            rows = np.moveaxis(at, axis, 0)
            moved = rows[gap.first : gap.stop] - rows[gap.first - gap.period : gap.stop - gap.period]
            steps.update((int(moved.min()), int(moved.max())))
        return steps

    def _position(self, view: ir.View, inside: _Inside) -> Ints:
        """The first element of a block in its array, in bytes."""
        argument = self.program.tensors[view.argument]
        total: Any = self._values(argument.offset, inside)
        for start, step in zip(view.starts, argument.stride, strict=True):
            total = total + self._values(start, inside) * self._values(step, inside)
        return total * argument.dtype.size

    def _apart(self, uses: Sequence[tuple[ir.View, _Inside]], gapped: Sequence[int]) -> bool:
        """Whether blocks of an array that overlap belong to the same rounds of loops with gaps, to rounds that are run,
        or to near rounds of a loop in which cores meet."""
        boxes = [
            self._boxes(view, inside, gapped, flat=len({view.argument for view, _ in uses}) > 1)
            for view, inside in uses
        ]
        starts, ends, labels = (np.concatenate([box[k] for box in boxes]) for k in range(3))
        cells = np.zeros(len(starts), np.int64)
        for dim in range(starts.shape[1]):
            cells = _joined(cells, _clusters(starts[:, dim], ends[:, dim]))
        order = np.argsort(cells, kind="stable")
        edges = np.flatnonzero(np.diff(cells[order], prepend=-1))
        least, most = (each.reduceat(labels[order], edges, axis=0) for each in (np.minimum, np.maximum))
        is_mixed = (least != most).any(axis=1)
        for column, number in enumerate(gapped):
            rounds, is_left_out = labels[order, column], np.zeros(len(starts), np.bool_)
            for gap in self.gaps[number]:
                is_left_out |= (rounds >= gap.first) & (rounds < gap.stop)
            is_apart = is_mixed & np.logical_or.reduceat(is_left_out, edges)
            if any(map(is_crossing, ir.walk(self.loops[number].body))):
                alone = (np.delete(least, column, axis=1) == np.delete(most, column, axis=1)).all(axis=1)
                near = (least[:, column] >= 0) & (most[:, column] - least[:, column] <= NEAR)
                is_apart &= ~(alone & near)
            if is_apart.any():
                return False
        return True

    def _boxes(self, view: ir.View, inside: _Inside, gapped: Sequence[int], *, flat: bool) -> tuple[Ints, Ints, Ints]:
        """The blocks of an array that a statement uses, in its dims, or as bytes: starts, ends, and the rounds."""
        argument = self.program.tensors[view.argument]
        starts, sizes = list(view.starts), list(view.sizes)
        shape = (len(inside.blocks), *(len(_range(loop)) for loop in inside.loops))
        if prod(shape) > MOST_POINTS:
            raise _Unknown
        if flat:
            first = self._position(view, inside)
            span: Any = 1
            for size, step in zip(sizes, argument.stride, strict=True):
                span = span + (self._values(size, inside) - 1) * self._values(step, inside)
            pairs = [(first, first + span * argument.dtype.size)]
        else:
            pairs = [
                (at, at + self._values(size, inside))
                for at, size in zip((self._values(start, inside) for start in starts), sizes, strict=True)
            ]
        used = frozenset[Var]().union(*(variables(expr) for expr in (*starts, *sizes)))
        labels = [np.full(shape, -1)] * len(gapped)
        for k, loop in enumerate(inside.loops):
            if id(loop) in gapped and loop.var in used:
                rounds = np.arange(shape[k + 1]).reshape([-1 if dim == k + 1 else 1 for dim in range(len(shape))])
                labels[gapped.index(id(loop))] = np.broadcast_to(rounds, shape)
        columns = [
            [np.broadcast_to(each, shape).reshape(-1) for each in own] for own in (*zip(*pairs, strict=True), labels)
        ]
        found = [np.stack(own, 1) for own in columns]
        return found[0], found[1], found[2]


def gaps(program: ir.Program, blocks: Sequence[int]) -> dict[int, list[RoundGap]]:
    """The gaps of each loop of a program, by its `id`, if only findings are asked for."""
    if program.form not in (ir.CPP, ir.CPP_FFTS) or not len(blocks):
        return {}
    if any(_needs_all(stmt, program) for stmt in ir.walk(program.body)) or _is_shared(program):
        return {}
    search = _Search(program)
    try:
        with np.errstate(all="ignore"):
            vectors = np.arange(program.vector_cores)
            own = np.repeat(np.array(blocks, np.int64), len(vectors))
            search.block(program.body, _Inside((), own, np.tile(vectors, len(blocks))))
            search.keep_apart()
    except (_Unknown, KeyError, OverflowError):
        return {}
    return {number: found for number, found in search.gaps.items() if found}


def _is_shared(program: ir.Program) -> bool:
    return any(argument.memory for argument in program.tensors.values())


def _needs_all(stmt: ir.Stmt, program: ir.Program) -> bool:
    """Whether what a statement does depends on values, or on all that other blocks did before."""
    if isinstance(stmt, ir.LoadScalar):
        return True
    if not isinstance(stmt, ir.Instr):
        return False
    if stmt.name in GRID_BARRIERS or (stmt.opaque_form and any(isinstance(each, ir.View) for each in stmt.operands)):
        return True
    tiles = [program.tiles[use.tile].spec for use in stmt.tiles]
    divides = "zero" in stmt.definition.reports.faults and any(spec.dtype.is_integer for spec in tiles)
    return divides or "index" in stmt.definition.roles


def _repeating(body: ir.Block, inside: _Inside) -> Iterator[tuple[Expr, _Inside]]:
    """The expressions of a body that must repeat: all but where blocks of arrays begin."""
    for stmt in body:
        if isinstance(stmt, ir.Instr):
            parts = [each.sizes if isinstance(each, ir.View) else each for each in stmt.operands if not _is_value(each)]
            yield from ((expr, inside) for part in (*parts, stmt.workspace) for expr in ir.expressions(part))
        else:
            yield from ((expr, inside) for expr in ir.expressions(stmt))
        if isinstance(stmt, ir.Loop):
            yield from _repeating(stmt.body, inside.within(stmt))
        else:
            for inner in ir.children(stmt):
                yield from _repeating(inner, inside)


def _is_value(operand: ir.Operand) -> bool:
    return isinstance(operand, ir.Number) and not operand.is_position


def _range(loop: ir.Loop) -> range:
    if not isinstance(loop.start, int) or not isinstance(loop.stop, int):
        raise _Unknown
    return range(loop.start, loop.stop, loop.step)


def _axes(inside: _Inside, used: frozenset[Var]) -> Mapping[Var, Ints]:
    """The values of variables, each along an axis of its own."""
    count = 1 + len(inside.loops)
    values = {BLOCK_IDX: inside.blocks, SUBBLOCK_IDX: inside.vectors}
    axes = {BLOCK_IDX: 0, SUBBLOCK_IDX: 0}
    for k, loop in enumerate(inside.loops):
        values[loop.var], axes[loop.var] = np.array(_range(loop), np.int64), k + 1
    if prod({axes[var]: len(values[var]) for var in used}.values()) > MOST_POINTS:
        raise _Unknown
    return {var: values[var].reshape([-1 if dim == axes[var] else 1 for dim in range(count)]) for var in used}


def _gaps_of(same: np.ndarray[Any, np.dtype[np.bool_]], warm_up: int, period: int) -> Iterator[RoundGap]:
    """The gaps in rounds, of which `same` says whether each is like the one a period later."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
    for first, end in edges.reshape(-1, 2).tolist():
        begin = first + warm_up
        periods = (end - begin) // period  # one more is run behind the gap
        if periods > 0:
            yield RoundGap(begin, begin + periods * period, period)


def _clusters(starts: Ints, ends: Ints) -> Ints:
    """Numbers for ranges: those that overlap, or are linked by others, have the same."""
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    is_new = np.concatenate(([False], starts[order][1:] >= reached[:-1]))
    found = np.empty(len(starts), np.int64)
    found[order] = np.cumsum(is_new)
    return found


def _joined(codes: Ints, more: Ints) -> Ints:
    """Numbers 0, 1, ... for pairs of numbers."""
    return np.unique(codes * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1].reshape(-1)
