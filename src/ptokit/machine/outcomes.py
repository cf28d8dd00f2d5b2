"""The outcome of every lane of a gather or scatter, of its index and of its store; sums over all executions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from ptokit.engine.reference import IndexedStep, Lanes
from ptokit.engine.storage import Array, address_of
from ptokit.finding import Where
from ptokit.isa.instruction import Call
from ptokit.isa.move import Combine, Fill, IndexUnit, Move, Remap, Side
from ptokit.machine.site import Executed, destinations, indexed, last_writers
from ptokit.program.ir import TileUse, View

FIRST, WORST = 8, 12
"""Rows of the table: the first lanes, and the worst of the others."""


class Outcome(IntEnum):
    """What happened to an index."""

    IN_BOUNDS = 0
    CLAMPED = 1
    WRAPPED = 2
    ZEROED = 3
    """Outside: the lane gives zero."""
    SKIPPED = 4
    """Outside: the lane does nothing."""

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")


class Fate(IntEnum):
    """What happened to a scattered element."""

    NONE = 0
    """Nothing was scattered: a gather, or a lane that was skipped."""
    STORED = 1
    ACCUMULATED = 2
    OVERWRITTEN = 3
    """A later lane of the same call wrote the same cell."""

    @property
    def text(self) -> str:
        return self.name.lower()


LINE = 128
"""Bytes of a line of global memory."""
NO_LINES = np.zeros(0, np.int64)
MOVED = {Remap.CLAMP: Outcome.CLAMPED, Remap.WRAP: Outcome.WRAPPED}
"""The outcome of an index that a policy moves inside."""


@dataclass(frozen=True, eq=False)
class LaneOutcomes:
    """One gather or scatter in one block. The arrays are shaped like the lanes: a lane is a row if an index names
    whole rows, else an element."""

    number: int
    """Of the statement in the program."""
    block: int
    instruction: str
    where: Where | None
    code: Array
    """`Outcome` of every lane, as uint8."""
    fate: Array
    """`Fate` of every lane, as uint8."""
    index: Array
    """Index values as they were read."""
    cell: Array
    """The row of the table, or the element, that the lane accessed; -1 for none."""
    overwritten_by: Array
    """The flat number of another lane that wrote the cell last; -1 if none did."""
    table: str = ""
    """The array or tile that the index addresses."""
    unit: str = "element"
    """What a cell is: a `row` of the table or an `element`."""
    cells: int = 0
    """How many cells the table has."""
    lane_bytes: int = 0
    """Bytes that one lane moves."""
    capacity: int = 0
    """The first index that is outside."""
    lines: Array = field(default_factory=lambda: NO_LINES)
    """Of a table in global memory: the lines of 128 bytes that lanes touch, each once for every lane."""
    table_lines: int = 0
    """How many lines its array has."""

    def counts(self) -> dict[str, int]:
        """How many lanes had each outcome and each fate, by name; without zeros."""
        found: dict[str, int] = {}
        for kinds, lanes in ((Outcome, self.code), (Fate, self.fate)):
            numbers = np.bincount(lanes.ravel(), minlength=len(kinds)).tolist()
            named = {kind.text: numbers[kind] for kind in kinds if numbers[kind] and kind is not Fate.NONE}
            found.update(named)
        return found

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data; outcomes and fates by name."""
        return {
            **{name: getattr(self, name) for name in ("number", "block", "instruction")},
            "where": None if self.where is None else str(self.where),
            "counts": self.counts(),
            "code": np.array([kind.text for kind in Outcome])[self.code].tolist(),
            "fate": np.array([kind.text for kind in Fate])[self.fate].tolist(),
            **{name: getattr(self, name).tolist() for name in ("index", "cell", "overwritten_by")},
            "array": self.table,
            **{name: getattr(self, name) for name in ("unit", "cells", "lane_bytes")},
        }

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts().items())
        title = f"{self.instruction}{place}, block {self.block}, {self.code.size:,} lanes: {counts}"
        first = range(min(FIRST, self.code.size))
        worst = self._worst()
        rows = [HEAD, *map(self._row, first), *map(self._row, worst)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if worst:
            lines.insert(1 + len(first), "  the worst of the others:")
        return "\n".join([title, *lines])

    def _worst(self) -> list[int]:
        """Lanes after the first ones that were not plainly in bounds, the worst first."""
        grave = np.maximum(GRAVITY[self.code.ravel()], (self.fate.ravel() == Fate.OVERWRITTEN) * len(Outcome))
        grave[:FIRST] = 0
        odd = np.flatnonzero(grave)
        return odd[np.argsort(-grave[odd], kind="stable")][:WORST].tolist()

    def _row(self, lane: int) -> tuple[str, ...]:
        code, fate, by = self.code.flat[lane], self.fate.flat[lane], self.overwritten_by.flat[lane]
        text = Fate(fate).text + (f" by {self._name(by)}" if by >= 0 else "") if fate else ""
        cell = str(self.cell.flat[lane]) if self.cell.flat[lane] >= 0 else "-"
        return self._name(lane), str(self.index.flat[lane]), Outcome(code).text, cell, text

    def _name(self, lane: int) -> str:
        return str([int(k) for k in np.unravel_index(lane, self.code.shape)])


HEAD = ("lane", "index", "outcome", "cell", "fate")
GRAVITY = np.array([0, 2, 1, 3, 4])
"""How bad each `Outcome` is; overwritten is worse than all of them."""


def outcomes(executed: Executed) -> Iterator[LaneOutcomes]:
    """The outcomes of the lanes of every indexed step."""
    for step, lanes, indices in indexed(executed):
        cell = _cells(step, lanes)
        fate, overwritten_by = _fates(step, lanes)
        yield LaneOutcomes(
            executed.number,
            executed.block,
            executed.call.instruction.name,
            executed.where,
            _codes(step, lanes, indices, executed.call),
            fate,
            indices,
            cell,
            overwritten_by,
            *_table(executed, step, lanes),
        )


def _table(executed: Executed, step: IndexedStep, lanes: Lanes) -> tuple[str, str, int, int, int, Array, int]:
    """What an index addresses: the fields of `LaneOutcomes` after those of the lanes."""
    operand, names = step.indexed.operand, [param.name for param in executed.call.instruction.operands]
    used = next((use for name, use in zip(names, executed.instr.operands, strict=False) if name == operand), None)
    name = used.argument if isinstance(used, View) else used.tile if isinstance(used, TileUse) else operand
    by_number = step.by_row or step.index.unit is IndexUnit.ELEMENT
    size = executed.call.values[operand].dtype.size
    elements = step.move.cols if step.by_row else 1
    lines, table_lines = _lines(executed, step, lanes, size) if isinstance(used, View) else (NO_LINES, 0)
    capacity = step.index.capacity
    cells = capacity if by_number else step.available
    return name, "row" if step.by_row else "element", cells, elements * size, capacity, lines, table_lines


def _lines(executed: Executed, step: IndexedStep, lanes: Lanes, size: int) -> tuple[Array, int]:
    """The lines of 128 bytes of each lane, and how many lines the array has."""
    storage = executed.storages[executed.names.index(step.indexed.operand)]
    first = storage.address - address_of(storage.owner)
    numbers = (step.indexed_offsets(lanes) * size + first) // LINE
    kept = np.ones(lanes.values.shape, bool) if lanes.outside is None else ~lanes.outside
    numbers = numbers[kept] if step.by_row else numbers[kept][:, None]
    numbers = np.sort(numbers, axis=1)
    is_new = np.ones(numbers.shape, bool)
    is_new[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    return numbers[is_new], -(-storage.owner.nbytes // LINE)


def _codes(step: IndexedStep, lanes: Lanes, indices: Array, call: Call) -> Array:
    code = np.zeros(indices.shape, np.uint8)
    if step.index.remap in MOVED:
        taken = indices & 0xFFFFFFFF if step.index.cast else indices
        code[taken != lanes.values] = MOVED[step.index.remap]
    if lanes.outside is not None:
        zeroes = step.index.remap is Remap.ZERO or _zeroes_first(call)
        code[lanes.outside] = Outcome.ZEROED if zeroes else Outcome.SKIPPED
    return code


def _zeroes_first(call: Call) -> bool:
    """Whether a gather fills its destination with zero and then skips what is outside."""
    assert call.indexed is not None
    move, index = call.indexed
    filled = [each.dst.operand for each in call.lowered if isinstance(each, Move) and each.src == Fill()]
    return (index.side, index.remap) == (Side.SRC, Remap.SKIP) and move.dst.operand in filled


def _cells(step: IndexedStep, lanes: Lanes) -> Array:
    is_number = step.by_row or step.index.unit is IndexUnit.ELEMENT
    cell = (lanes.values if is_number else step.indexed_offsets(lanes)).copy()
    if lanes.outside is not None:
        cell[lanes.outside] = -1
    return cell


def _fates(step: IndexedStep, lanes: Lanes) -> tuple[Array, Array]:
    """The fate of every lane, and the lane that overwrote it."""
    fate, by = np.zeros(lanes.values.size, np.uint8), np.full(lanes.values.size, -1)
    if step.index.side is Side.DST:
        kept = np.arange(fate.size) if lanes.outside is None else np.flatnonzero(~lanes.outside)
        if step.move.combine is Combine.STORE:
            last = kept[last_writers(destinations(step, lanes)[kept])]
            fate[kept] = np.where(last == kept, Fate.STORED, Fate.OVERWRITTEN)
            by[kept] = np.where(last == kept, -1, last)
        else:
            fate[kept] = Fate.ACCUMULATED
    return fate.reshape(lanes.values.shape), by.reshape(lanes.values.shape)


# --- totals


MOST_LISTED = 4096
"""Lanes of a statement whose outcomes are kept, in whole executions."""
MOST_WAITING = 1 << 16
"""Numbers that are counted together, at least."""
MOST_INDICES = 1 << 16
"""Different index values that are told apart: of more, neighbours are counted as one."""


class NumberTally:
    """How often each number occurs. If `most` is given, it bounds the different numbers: `grain` neighbours are then
    one."""

    def __init__(self, most: int | None = None) -> None:
        self.grain = 1
        self._most = most
        self._numbers = self._counts = np.zeros(0, np.int64)
        self._waiting: list[Array] = []
        self._size = 0

    def add(self, numbers: Array) -> None:
        """Count some numbers."""
        self._waiting.append(numbers.ravel().astype(np.int64))
        self._size += numbers.size
        if self._size >= max(MOST_WAITING, self._numbers.size):
            self._count()

    def result(self) -> tuple[Array, Array]:
        """The numbers in their order, and how often each occurs. Of `grain` neighbours it is the first one."""
        self._count()
        return self._numbers * self.grain, self._counts

    def _count(self) -> None:
        weights = [self._counts, *(np.ones(each.size, np.int64) for each in self._waiting)]
        self._merge(np.concatenate([self._numbers, *(each // self.grain for each in self._waiting)]), weights)
        self._waiting, self._size = [], 0
        while self._most is not None and self._numbers.size > self._most:
            self.grain *= 2
            self._merge(self._numbers // 2, [self._counts])

    def _merge(self, numbers: Array, weights: list[Array]) -> None:
        self._numbers, places = np.unique(numbers, return_inverse=True)
        self._counts = np.zeros(self._numbers.size, np.int64)
        np.add.at(self._counts, places.ravel(), np.concatenate(weights))


@dataclass(eq=False)
class LaneTotals:
    """A gather or scatter of the program, all its executions together."""

    number: int
    """Of the statement in the program."""
    instruction: str
    where: Where | None
    table: str
    unit: str
    lane_bytes: int
    executions: int = 0
    lanes: int = 0
    cells: int = 0
    """How many cells the table has; the most of all executions. So are the next two."""
    capacity: int = 0
    table_lines: int = 0
    below: int = 0
    """Indices below 0, and those above the table."""
    above: int = 0
    lowest: int = 0
    """The extreme index values."""
    highest: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    """How many lanes had each outcome and each fate."""
    touched: NumberTally = field(default_factory=NumberTally)
    """Cells that lanes accessed: no more numbers than the table has cells."""
    lines: NumberTally = field(default_factory=NumberTally)
    """Lines of global memory that they touched."""
    indices: NumberTally = field(default_factory=lambda: NumberTally(MOST_INDICES))
    """Index values as they were read."""

    def add(self, found: LaneOutcomes) -> None:
        """Add an execution."""
        index = found.index.ravel().astype(np.int64)
        for name in ("cells", "capacity", "table_lines"):
            setattr(self, name, max(getattr(self, name), getattr(found, name)))
        if index.size:
            low, high = int(index.min()), int(index.max())
            self.lowest = min(self.lowest, low) if self.lanes else low
            self.highest = max(self.highest, high) if self.lanes else high
        self.executions += 1
        self.lanes += index.size
        self.below += int(np.count_nonzero(index < 0))
        self.above += int(np.count_nonzero(index >= found.capacity))
        self.counts.update(found.counts())
        self.touched.add(found.cell[found.cell >= 0])
        self.lines.add(found.lines)
        self.indices.add(index)

    def as_dict(self) -> dict[str, Any]:
        """The sums as plain data."""
        names = ("number", "instruction", "executions", "lanes", "below", "above")
        where = None if self.where is None else str(self.where)
        return {**{name: getattr(self, name) for name in names}, "where": where, "counts": dict(self.counts)}


class LaneRecorder:
    """Collects the outcomes of a launch. Memory does not grow with the number of executions."""

    def __init__(self) -> None:
        self.first: list[LaneOutcomes] = []
        """In the order of execution: of each statement whole executions, until they have `MOST_LISTED` lanes."""
        self._totals: dict[int, LaneTotals] = {}

    def add(self, found: LaneOutcomes) -> None:
        """Add an execution of a gather or scatter."""
        own = self._totals.get(found.number)
        if own is None:
            named = (found.instruction, found.where, found.table, found.unit, found.lane_bytes)
            own = self._totals[found.number] = LaneTotals(found.number, *named)
        if own.lanes < MOST_LISTED:
            self.first.append(found)
        own.add(found)

    @property
    def totals(self) -> tuple[LaneTotals, ...]:
        """Those of each statement, in the order of the program."""
        return tuple(self._totals[number] for number in sorted(self._totals))
