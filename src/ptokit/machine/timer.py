"""How long blocks take: the work of their pipes is recorded, and scheduled once for equal blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any

from ptokit.finding import Where
from ptokit.machine.costs import Costs
from ptokit.machine.executed import Executed
from ptokit.machine.schedule import PipeJob, Schedule
from ptokit.machine.timed import Timings
from ptokit.machine.timeline import Busiest, Critical, Timeline, Waited, advise, named
from ptokit.program.cores import core_of, unit_of
from ptokit.target.profile import PIPES

MOST_RECORDED = 1024
"""Operations of a block that are recorded before its schedule begins: memory does not grow with its length."""
MOST_COMPARED = 16
"""Different blocks that later ones are compared with."""
Operation = tuple[Any, ...]
"""A method of the schedule, and its arguments."""


class Timer:
    """Records what pipes do, block after block, and computes when they do it. Memory does not grow with blocks: `keep`
    bounds how many pieces of work are kept."""

    def __init__(self, costs: Costs, keep: int = 10_000) -> None:
        self.costs = costs
        self.keep = max(1, keep)
        self._timings = Timings(costs)
        self._known: dict[tuple[Operation, ...], Schedule] = {}
        self._longest = 0, self._new()
        self._kept: list[tuple[int, Schedule]] = []
        """The first blocks with their numbers, as many as have work to show."""
        self._space = self.keep
        self._busy: dict[str, float] = defaultdict(float)
        self._by_element: set[int] = set()
        """Statements that gather or scatter single elements."""
        self._works = self._blocks = 0
        self._total = 0.0
        self.begin_block(0)

    def _new(self) -> Schedule:
        return Schedule(self.costs.issue, self.costs.flag, self.keep)

    # --- blocks

    def begin_block(self, block: int) -> None:
        """Start a block."""
        self._number = block
        self._recorded: list[Operation] = []
        self._begun: Schedule | None = None
        """The block's schedule so far, if it is too long to be compared."""

    def end_block(self) -> None:
        """End a block."""
        block = self._scheduled()
        self._total += block.cycles
        self._works += block.count
        self._blocks += 1
        for (pipe, _), cycles in block.busy.items():
            self._busy[pipe] += cycles
        if block.works and self._space > 0:
            self._kept.append((self._number, block))
            self._space -= len(block.works)
        if block.cycles > self._longest[1].cycles:
            self._longest = self._number, block

    def _scheduled(self) -> Schedule:
        """The schedule of the block; that of an earlier block if both do the same."""
        if self._begun is not None:
            return self._ended(self._continued(self._begun))
        recorded = tuple(self._recorded)
        known = self._known.get(recorded)
        if known is None:
            known = self._ended(self._continued(self._new()))
            if len(self._known) < MOST_COMPARED:
                self._known[recorded] = known
        return known

    def _continued(self, schedule: Schedule) -> Schedule:
        for operation, *args in self._recorded:
            operation(schedule, *args)
        self._recorded.clear()
        return schedule

    def _ended(self, schedule: Schedule) -> Schedule:
        schedule.end()
        return schedule

    # --- what is issued. `_what` is for engines that report it

    def _record(self, operation: Callable[..., None], *args: Any) -> None:
        self._recorded.append((operation, *args))
        if len(self._recorded) >= MOST_RECORDED:
            self._begun = self._continued(self._begun or self._new())

    def execute(self, executed: Executed) -> None:
        """All steps of an instruction, with the cycles of the cost model."""
        instr = executed.instr
        if executed.call.kernel.by_element:
            self._by_element.add(executed.number)
        self._record(Schedule.execute, self._timings.timed(executed), executed.number, instr.name, instr.where)

    def work(self, pipe: str, cycles: float, number: int, what: str, where: Where | None = None) -> None:
        """A pipe is busy for a statement."""
        self._record(Schedule.work, pipe, PipeJob(cycles, number, what, where))

    def set(self, src: str, flag: Hashable, _what: object = None) -> None:
        """A pipe sets a flag."""
        self._record(Schedule.set, src, flag)

    def wait(self, dst: str, flag: Hashable, _what: object = None) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        self._record(Schedule.wait, dst, flag)

    def cross_set(self, src: str, flag: Hashable, _what: object = None) -> None:
        """A pipe sets a flag of its core for the other core."""
        self._record(Schedule.cross_set, src, flag)

    def cross_wait(self, dst: str, flag: Hashable, _what: object = None) -> None:
        """A pipe waits for a flag of the other core."""
        self._record(Schedule.cross_wait, dst, flag)

    def signal_event(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on these pipes has ended."""
        self._record(Schedule.signal_event, event, tuple(pipes))

    def wait_event(self, event: Hashable, pipes: Sequence[str], _what: object = None) -> None:
        """An instruction on these pipes starts after an event."""
        self._record(Schedule.wait_event, event, tuple(pipes))

    def barrier(self) -> None:
        """Everything issued so far ends before anything else is issued."""
        self._record(Schedule.barrier)

    # --- the result

    def result(self) -> Timeline:
        """All blocks that have ended."""
        longest, block = self._longest
        cycles = max(0.0, block.cycles)
        others = [(number, each) for number, each in self._kept if number != longest]
        works = [done.span(number) for number, each in (self._longest, *others) for done in each.works]
        waits = tuple(sorted(_waits(block, cycles), key=lambda wait: -wait.cycles))
        names = sorted(self._busy, key=lambda pipe: (core_of(pipe), PIPES.index(unit_of(pipe))))
        one_core = len({core_of(pipe) for pipe in names}) <= 1
        kept = tuple(works[: self.keep])
        path = _path(block, longest)[-self.keep :]
        return Timeline(
            cycles=cycles,
            total=self._total,
            blocks=self._blocks,
            longest=longest,
            busy={pipe: self._busy[pipe] / self._total if self._total else 0.0 for pipe in names},
            works=kept,
            dropped=self._works - len(kept),
            critical=tuple(path),
            waits=waits,
            advice=tuple(advise(path, _busiest(block, cycles, self._by_element), one_core)),
            clock=self.costs.clock,
        )


def _waits(block: Schedule, cycles: float) -> Iterator[Waited]:
    for (src, dst, number), waited in block.waits.items():
        yield Waited(src, dst, number, *block.names[number], waited, waited / cycles if cycles else 0.0)


def _busiest(block: Schedule, cycles: float, by_element: Collection[int]) -> list[Busiest]:
    """Each pipe's share of a block's time, with what it does most."""
    totals: dict[str, float] = defaultdict(float)
    most: dict[str, tuple[float, str, bool]] = {}
    for (pipe, number), busy in block.busy.items():
        totals[pipe] += busy
        name = named(*block.names[number]) if number in block.names else "issuing instructions"
        most[pipe] = max(most.get(pipe, (0.0, name, False)), (busy, name, number in by_element))
    return [Busiest(total / cycles, pipe, *most[pipe][1:]) for pipe, total in totals.items() if cycles]


def _path(block: Schedule, number: int) -> list[Critical]:
    """What the last work waited for, and so on back to the beginning."""
    found: list[Critical] = []
    done = block.last
    while done is not None:
        after = done.before.pipe if done.before else ""
        found.append(Critical(done.span(number), after, done.idle))
        done = done.before
    return found[::-1]
