"""An instruction of a program for certain numbers: its work on each pipe. Computed once, executed many times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ptokit import spec
from ptokit.engine.prepared import Prepared
from ptokit.engine.reference import IndexedStep, Lanes, Plan, Touched
from ptokit.engine.storage import Array, Storage
from ptokit.finding import Finding, Fix, Level, Where, any_of
from ptokit.isa.barriers import walked_alike
from ptokit.isa.fixes import SKIP_OUTSIDE
from ptokit.isa.instruction import Call, Repeats
from ptokit.isa.move import Combine, IndexUnit, Side
from ptokit.isa.operand import TileSpec
from ptokit.program.cores import PipeWork, Step, Sync, gate, home_of, on_cores, steps, unit_of
from ptokit.program.ir import Instr
from ptokit.program.verify_call import Options
from ptokit.target import LOAD, SCALAR, STORE, Profile


@dataclass(frozen=True, eq=False)
class Site:
    """What is known of an instruction before its data."""

    prepared: Prepared
    call: Call
    plan: Plan
    steps: tuple[Step, ...]
    """With the core of every pipe, as in `AIV.MTE2`."""
    tiles: dict[str, TileSpec]
    """The operands that are tiles, by name."""
    findings: tuple[Finding, ...]
    """Those of the verifier."""

    @cached_property
    def pipes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.pipe for step in self.steps if isinstance(step, PipeWork)))

    @cached_property
    def gates(self) -> dict[str, str]:
        """For each of them, the pipe that should wait for the data it needs."""
        return {pipe: gate(self.steps, pipe) for pipe in self.pipes}

    @cached_property
    def alike(self) -> frozenset[str] | None:
        """The operands that it walks element by element, in the order of their bytes; None if that is not known."""
        return walked_alike(self.call)

    @cached_property
    def moved(self) -> dict[tuple[str, bool], str]:
        """Operands that DMA between global and on-chip memory writes or reads, with its pipe; True for writes."""
        work = [(unit_of(step.pipe), step) for step in self.steps if isinstance(step, PipeWork)]
        loads = {(name, True): pipe for pipe, step in work if pipe == LOAD for name in step.writes}
        return loads | {(name, False): pipe for pipe, step in work if pipe == STORE for name in step.reads}

    @cached_property
    def last_column(self) -> int:
        """Where DMA stops writing a destination row, if that is after its valid columns; else 0. What lies between is
        unspecified (A-47, A-67)."""
        reach = self.call.route_kernel.reach
        end = min(reach(self.call), self.call.destination.cols) if reach else 0
        return end if reach and end > self.call.destination.valid_cols else 0

    def touches(self, plan: Plan, lanes: Sequence[Lanes | None]) -> Sequence[Touched]:
        """What an execution reads and writes."""
        return list(plan.touches(lanes)) if self.is_indexed else self._touches

    @cached_property
    def is_indexed(self) -> bool:
        """Whether what it touches depends on values."""
        return any(isinstance(step, IndexedStep) for step in self.plan.steps)

    @cached_property
    def _touches(self) -> tuple[Touched, ...]:
        return tuple(self.plan.touches([None] * len(self.plan.steps)))

    @cached_property
    def load_wait(self) -> Sync | None:
        """The wait for the load of its index, if it waits by itself."""
        syncs = (step for step in self.steps if isinstance(step, Sync))
        waits = (sync for sync in syncs if (unit_of(sync.src), unit_of(sync.dst)) == (LOAD, SCALAR))
        return next(waits, None)


def site(prepared: Prepared, lenient: Prepared | None, profile: Profile) -> Site | None:
    """An executed instruction; None if it cannot be executed. `lenient` is a refused call without the rules that memory
    safety does not depend on."""
    used = prepared if prepared.plan is not None else lenient
    if used is None or used.plan is None:
        return None
    tiles = {name: spec for name, spec in used.call.operands.items() if isinstance(spec, TileSpec)}
    done = placed_steps(used.call, profile)
    return Site(used, used.call, used.plan, done, tiles, (*prepared.refused, *prepared.non_errors))


def placed_steps(call: Call, profile: Profile) -> tuple[Step, ...]:
    """The steps of a call, with the core of every pipe."""
    core = home_of((spec.loc for spec in call.operands.values() if isinstance(spec, TileSpec)), profile)
    return on_cores(steps(call, profile), core, profile)


def lenient(options: Options) -> Options:
    """Only what the headers assert apart from alignment, and memory safety: what a refused call is executed with."""
    return replace(options, header=True, lenient=True, strict=False)


@dataclass(eq=False)
class Executed:
    """One execution of an instruction in one block."""

    number: int
    """Of the statement in the program, counted in the order of the text."""
    instr: Instr
    call: Call
    """Operands and modifiers, all extents known."""
    steps: tuple[Step, ...]
    """The work of the pipes, with the instruction's own handshakes."""
    plan: Plan
    storages: Sequence[Storage]
    lanes: Sequence[Lanes | None]
    """Index values after the remap, for each step of the plan that has an index."""
    indices: Sequence[Array | None]
    """The same before the remap: int64, a negative int32 as a negative number. Of gathers only if lane outcomes are
    recorded."""
    block: int
    transactions: int = 0
    """Segments, chunks or lines of global memory that are touched through the index, once they are counted."""

    @property
    def where(self) -> Where | None:
        """The user's line."""
        return self.instr.where

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Operands in the order of the storages."""
        return tuple(name for name, spec in self.call.operands.items() if spec is not None)


# --- destinations that several lanes write


DENSE = 8
"""Cells for each lane up to which an entry for every cell is cheaper than sorting the lanes."""


def repeats(executed: Executed) -> Iterator[Finding]:
    """The first destinations that two lanes of a call write, with one index and with different ones, if the target does
    not define the result."""
    ruling = executed.call.instruction.reports.repeats
    level = _level(executed.call)
    if ruling is None or level is None:
        return
    for step, lanes, indices in indexed(executed):
        if step.index.side is Side.DST and step.move.combine is Combine.STORE:
            found = {repeat.is_folded: repeat for repeat in _first_repeats(step, lanes, indices)}
            reported = found.values() if ruling.same != ruling.folded else list(found.values())[:1]
            yield from (_finding(executed, step, ruling, level, repeat) for repeat in reported)


def is_ordered(call: Call) -> bool:
    """Whether the target defines which of two lanes with one destination wins."""
    return _level(call) is None


def _level(call: Call) -> Level | None:
    """The level of a repeated destination; None if the target defines the result."""
    ruling = call.instruction.reports.repeats
    return None if ruling is None or ruling.defined(call) else call.lookup(ruling.levels)


def indexed(executed: Executed) -> Iterator[tuple[IndexedStep, Lanes, Array]]:
    """The indexed moves of a call, with their index values after the remap and before it."""
    for step, lanes, indices in zip(executed.plan.steps, executed.lanes, executed.indices, strict=True):
        if isinstance(step, IndexedStep) and lanes is not None and indices is not None:
            yield step, lanes, indices


def destinations(step: IndexedStep, lanes: Lanes) -> Array:
    """The destination of each lane of a scatter: a row of the table, or an element of storage."""
    return lanes.values if step.by_row else step.indexed_offsets(lanes).ravel()


def last_writers(cells: Array) -> Array:
    """For every lane, the last one that names the same cell."""
    lanes = np.arange(cells.size)
    if not cells.size:
        return lanes
    if _is_dense(cells):
        writer = np.empty(int(cells.max()) + 1, np.int64)
        writer[cells] = lanes  # NumPy assigns in order
        return writer[cells]
    order = np.argsort(cells, kind="stable")
    ends = np.append(cells[order[1:]] != cells[order[:-1]], True)
    lanes[order] = np.repeat(order[ends], np.diff(np.flatnonzero(ends), prepend=-1))
    return lanes


def first_writers(cells: Array) -> Array:
    """For every lane, the first one that names the same cell."""
    return (cells.size - 1 - last_writers(cells[::-1]))[::-1]


def _is_dense(cells: Array) -> bool:
    return int(cells.max(initial=0)) < DENSE * cells.size


def _is_unique(cells: Array) -> bool:
    """Whether no cell is named twice."""
    if _is_dense(cells):
        return bool(np.bincount(cells).max(initial=0) <= 1)
    small = int(cells.max(initial=0)) < 1 << 31
    ordered = np.sort(cells.astype(np.int32) if small else cells)  # half the width sorts in a fraction of the time
    return not (ordered[1:] == ordered[:-1]).any()


@dataclass(frozen=True)
class _Repeat:
    """A cell that is named more than once: lanes by their flat numbers."""

    cell: int
    first: int
    again: int
    last: int
    """The lane that writes it last."""
    values: tuple[int, int]
    """The indices of the first two, before the remap."""
    count: int
    """Lanes of the call that repeat a destination."""

    @property
    def is_folded(self) -> bool:
        """Whether the two had different indices."""
        return self.values[0] != self.values[1]


def _first_repeats(step: IndexedStep, lanes: Lanes, indices: Array) -> Iterator[_Repeat]:
    """The first repeat of all, and the first of the other kind."""
    cells, kept = destinations(step, lanes), None
    if lanes.outside is not None:
        kept = np.flatnonzero(~lanes.outside)
        cells = cells[kept]
    if _is_unique(cells):
        return
    given = indices.ravel() if kept is None else indices.ravel()[kept]
    first = first_writers(cells)
    again = np.flatnonzero(first != np.arange(cells.size))
    is_folded = given[first[again]] != given[again]
    for lane in (again[0], *again[is_folded != is_folded[0]][:1]):
        last = np.flatnonzero(cells == cells[lane])[-1]
        named = np.array([first[lane], lane, last])
        one, two, winner = (named if kept is None else kept[named]).tolist()
        yield _Repeat(int(cells[last]), one, two, winner, (int(given[first[lane]]), int(given[lane])), again.size)


def _finding(executed: Executed, step: IndexedStep, ruling: Repeats, level: Level, repeat: _Repeat) -> Finding:
    call = executed.call
    first, again, last = (lane_name(step, lane) for lane in (repeat.first, repeat.again, repeat.last))
    kind = ruling.folded if repeat.is_folded else ruling.same
    rule = spec.behind(kind, call.target)
    policy = f", folded by oob={step.index.remap.name.lower()!r}" if repeat.is_folded else ""
    index = step.index.access.operand
    found = f"{index}{first} = {repeat.values[0]} and {index}{again} = {repeat.values[1]}{policy}"
    place = _place(step, repeat)
    more = f"{repeat.count} lanes repeat" if repeat.count > 1 else "1 lane repeats"
    message = (
        f"{call.instruction.name} on {call.target}: lanes {first} and {again} both write {place} ({found}); "
        f"the last writer, lane {last}, wins here ({ruling.targets}); {more} a destination of this call"
    )
    expected = "a destination of its own for every lane"
    fix = _fix(call, repeat.is_folded)
    return Finding(
        level, rule, message, kind, index, expected, found, fix, executed.where, call.target,
        compared=(step.indexed.operand,),
    )  # fmt: skip


def lane_name(step: IndexedStep, lane: int) -> str:
    """`[3]` for a row, `[1, 4]` for an element."""
    return f"[{lane}]" if step.by_row else str(list(divmod(lane, step.move.cols)))


def _place(step: IndexedStep, repeat: _Repeat) -> str:
    operand = step.indexed.operand
    if step.by_row:
        return f"row {repeat.cell} of {operand}"
    if step.index.unit is IndexUnit.ROW:
        return f"{operand}[{repeat.values[0]}, {repeat.first % step.move.cols}]"
    return f"element {repeat.cell} of {operand}"


def _fix(call: Call, is_folded: bool) -> Fix:
    """What fixes it: other indices, or modifiers that the instruction has."""
    fixes: list[str] = ["give every lane a destination of its own"]
    if is_folded:
        fixes.append(SKIP_OUTSIDE)
    if call.instruction.reports.repeats is not None:
        fixes += call.instruction.reports.repeats.fixes(call)
    return any_of(fixes)
