"""The lanes of each gather and scatter over all its executions: sums of all, and the outcomes of the first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptokit.engine.storage import Array
from ptokit.finding import Where
from ptokit.machine.outcomes import LaneOutcomes

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
