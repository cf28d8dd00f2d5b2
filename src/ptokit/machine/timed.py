"""The work of pipes for an instruction: recorded once for equal executions, and timed under any cost table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ptokit.engine.kept import remember
from ptokit.engine.reference import Lanes, Plan
from ptokit.isa.instruction import Call
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import NO_OVERLAP, Overlap, Tally, cycles, latency, overlap
from ptokit.machine.site import Executed
from ptokit.program.cores import unit_of
from ptokit.program.steps import Step, Sync


class Part(NamedTuple):
    """A pipe's part of an instruction."""

    pipe: str
    cycles: float
    """How long the pipe cannot start other work."""
    latency: float = 0.0
    """How long its data are under way after that, while the pipe goes on."""
    overlap: Overlap = NO_OVERLAP


class TimedWork:
    """An execution of an instruction for the cost model. Two are alike only if they are the same object."""

    __slots__ = ("_costs", "_parts", "call", "steps", "tally")

    def __init__(self, call: Call, steps: Sequence[Step], tally: Tally) -> None:
        self.call, self.steps, self.tally = call, steps, tally
        self._costs: Costs | None = None
        self._parts: tuple[Part | Sync, ...] = ()

    def parts(self, costs: Costs) -> tuple[Part | Sync, ...]:
        """The steps with their cycles. Transfers overlap with the loop that issues them: the sync between the two is
        left out."""
        if self._costs is not costs:
            parts = [step if isinstance(step, Sync) else self._part(costs, step.pipe) for step in self.steps]
            kept = [step for k, step in enumerate(parts) if isinstance(step, Part) or not _overlaps(parts, k)]
            self._costs, self._parts = costs, tuple(kept)
        return self._parts

    def _part(self, costs: Costs, pipe: str) -> Part:
        given = costs, self.call, unit_of(pipe), self.tally
        return Part(pipe, cycles(*given), latency(*given), overlap(*given))


class TimedWorks:
    """The works of executed instructions; equal executions share one."""

    def __init__(self) -> None:
        self._known: dict[tuple[Plan, Tally], TimedWork] = {}

    def of(self, executed: Executed) -> TimedWork:
        """The work of an instruction."""
        key = executed.plan, tally_of(executed)
        return self._known.get(key) or remember(self._known, key, TimedWork(executed.call, executed.steps, key[1]))


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
