"""Destinations that two lanes of one call write, after the remap: H-14, H-15 and H-17."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptokit import spec
from ptokit.engine.reference import IndexedStep, Lanes
from ptokit.engine.storage import Array
from ptokit.finding import Finding, Fix, Level, any_of
from ptokit.isa.fixes import SKIP_OUTSIDE
from ptokit.isa.instruction import Call, Repeats
from ptokit.isa.move import Combine, IndexUnit, Side
from ptokit.machine.site import Executed

DENSE = 8
"""Cells for each lane up to which an entry for every cell is cheaper than sorting the lanes."""


def repeats(executed: Executed) -> Iterator[Finding]:
    """The first destinations that two lanes of a call write, with one index and with different ones, if the target does
    not define the result."""
    ruling = executed.call.instruction.repeats
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
    ruling = call.instruction.repeats
    return None if ruling is None or ruling.defined(call) else call.here(ruling.levels)


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
    if call.instruction.repeats is not None:
        fixes += call.instruction.repeats.fixes(call)
    return any_of(fixes)
