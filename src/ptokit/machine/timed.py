"""The work of pipes for an instruction, in cycles. Computed once for equal executions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptokit.engine.kept import remember
from ptokit.engine.reference import Lanes, Plan
from ptokit.machine.costs import Costs
from ptokit.machine.executed import Executed
from ptokit.machine.formulas import NO_OVERLAP, Overlap, Tally, cycles, overlap
from ptokit.program.cores import unit_of
from ptokit.program.steps import Sync


class Part(NamedTuple):
    """A pipe's part of an instruction."""

    pipe: str
    cycles: float
    overlap: Overlap = NO_OVERLAP


class Timed:
    """The steps of an instruction. Two are alike only if they are the same object."""

    __slots__ = ("steps",)

    def __init__(self, steps: Sequence[Part | Sync]) -> None:
        self.steps = tuple(steps)


class Timings:
    """The timed steps of instructions, by the cost model."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._known: dict[tuple[Plan, Tally], Timed] = {}

    def timed(self, executed: Executed) -> Timed:
        """The steps of an instruction, with their cycles."""
        key = executed.plan, tally_of(executed)
        return self._known.get(key) or remember(self._known, key, Timed(self._steps(executed, key[1])))

    def _steps(self, executed: Executed, tally: Tally) -> list[Part | Sync]:
        """Transfers overlap with the loop that issues them: the sync between the two is left out."""
        steps = [step if isinstance(step, Sync) else self._part(executed, step.pipe, tally) for step in executed.steps]
        return [step for k, step in enumerate(steps) if isinstance(step, Part) or not _overlaps(steps, k)]

    def _part(self, executed: Executed, pipe: str, tally: Tally) -> Part:
        given = self.costs, executed.call, unit_of(pipe), tally
        return Part(pipe, cycles(*given), overlap(*given))


def tally_of(executed: Executed) -> Tally:
    """How many lanes an execution has, and how many are outside."""
    lanes = next((lanes for lanes in executed.lanes if lanes is not None), None)
    return Tally() if lanes is None else Tally(lanes.values.size, _outside(lanes), executed.transactions)


def _outside(lanes: Lanes) -> int:
    return 0 if lanes.outside is None else int(np.count_nonzero(lanes.outside))


def _overlaps(steps: Sequence[Part | Sync], k: int) -> bool:
    """Whether the step after a sync starts before the step in front of it has ended."""
    if not 0 < k < len(steps) - 1:
        return False
    before, after = steps[k - 1], steps[k + 1]
    return isinstance(before, Part) and isinstance(after, Part) and after.overlap.tail > 0
