"""What the pipes of a launch did, without times: it can be timed again under other costs, or with changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ptokit.machine.costs import Costs
from ptokit.machine.schedule import Schedule, Waves

Operation = tuple[Any, ...]
"""A method of the schedule, and its arguments."""


def replay(schedule: Schedule, operations: Iterable[Operation]) -> Schedule:
    """Give recorded operations to a schedule."""
    for operation, *args in operations:
        operation(schedule, *args)
    return schedule


def cycles_of(operations: Iterable[Operation], costs: Costs) -> float:
    """How long a block takes."""
    schedule = replay(Schedule(costs, 1), operations)
    schedule.end()
    return schedule.cycles


@dataclass(frozen=True, eq=False)
class Record:
    """The operations of a launch."""

    costs: Costs
    longest: tuple[Operation, ...]
    """Of the longest block, or the first of them if they are very many."""
    blocks: tuple[tuple[Operation, ...], ...]
    """Of all different blocks; empty if they were too many to keep."""
    order: Sequence[int]
    """Of which of these each block of the launch is."""
    cores: int

    def cycles(self, costs: Costs) -> float:
        """How long the launch takes with other costs."""
        if self.order and not self.blocks:
            raise ValueError("the launch has too many different blocks to be timed again")
        times = [cycles_of(block, costs) for block in self.blocks]
        waves = Waves(self.cores)
        for number in self.order:
            waves.place(times[number])
        return waves.end
