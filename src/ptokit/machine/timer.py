"""How long blocks take: the work of their pipes is recorded, and scheduled once for equal blocks."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from ptokit.finding import Where, at_line
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import TimedWorks
from ptokit.machine.schedule import ISSUING, Critical, Operation, PipeJob, Record, Schedule, Scheduled, Waves, replay
from ptokit.machine.site import Executed
from ptokit.machine.timeline import Busiest, StatementBusy, Timeline, Waited, limits
from ptokit.program.cores import core_of, unit_of
from ptokit.target.profile import PIPES

MOST_RECORDED = 1024
"""Operations of a block that are recorded before its schedule begins: memory does not grow with its length."""
MOST_COMPARED = 16
"""Different blocks that later ones are compared with, at least."""


def _recorder(operation: Callable[..., None]) -> Callable[..., None]:
    """A method that records an operation on a flag or an event. What it belongs to is for engines that report it."""

    def record(timer: Timer, first: Hashable, then: Hashable, _what: object = None) -> None:
        timer._record(operation, first, then)

    return record


class Timer:
    """Records what pipes do, block after block, and computes when they do it. Memory does not grow with blocks, apart
    from two bytes for each: `keep` bounds how many pieces of work and operations are kept. `cores` run the blocks; 0 is
    one for each."""

    def __init__(self, costs: Costs, keep: int = 10_000, cores: int = 0) -> None:
        self.costs = costs
        self.keep = max(1, keep)
        self._works_of = TimedWorks()
        self._known: dict[tuple[Operation, ...], tuple[int, Schedule]] = {}
        """Different blocks, with their numbers in the order in which they were found."""
        self._operations = 0
        """How many operations those have."""
        self._order = array("H")
        """For every block the number of the block that it equals, as long as all are known."""
        self._is_whole = True
        """Whether all blocks are known."""
        self._waves = Waves(cores)
        self._longest = 0, self._new()
        self._long_record: tuple[Operation, ...] = ()
        self._kept: list[tuple[int, float, Schedule]] = []
        """The first blocks with their numbers and starts, as many as have work to show."""
        self._space = self.keep
        self._busy: dict[str, float] = defaultdict(float)
        self._works = self._blocks = 0
        self._total = self._start = 0.0
        """Cycles of all blocks; the start of the longest one."""
        self.begin_block(0)

    def _new(self) -> Schedule:
        return Schedule(self.costs, self.keep)

    # --- blocks

    def begin_block(self, block: int) -> None:
        self._number = block
        self._recorded: list[Operation] = []
        self._begun: Schedule | None = None
        """The block's schedule so far, if it is too long to be compared."""
        self._first: tuple[Operation, ...] = ()
        """The first operations of such a block."""

    def end_block(self) -> None:
        recorded = self._first or tuple(self._recorded)
        block = self._scheduled()
        start = self._waves.place(block.cycles)
        self._total += block.cycles
        self._works += block.count
        self._blocks += 1
        for (pipe, _), cycles in block.busy.items():
            self._busy[pipe] += cycles
        if block.works and self._space > 0:
            self._kept.append((self._number, start, block))
            self._space -= len(block.works)
        if block.cycles > self._longest[1].cycles:
            self._longest, self._start, self._long_record = (self._number, block), start, recorded

    def _scheduled(self) -> Schedule:
        """The schedule of the block; that of an earlier block if both do the same."""
        if self._begun is not None:
            self._is_whole = False
            return self._ended(self._continued(self._begun))
        recorded = tuple(self._recorded)
        number, known = self._known.get(recorded) or (len(self._known), None)
        is_new = known is None
        if known is None:
            known = self._ended(self._continued(self._new()))
        if is_new and number < 1 << 16 and (number < MOST_COMPARED or self._operations < self.keep):
            self._known[recorded] = number, known
            self._operations += len(recorded)
        elif is_new:
            self._is_whole = False
        if self._is_whole:
            self._order.append(number)
        return known

    def _continued(self, schedule: Schedule) -> Schedule:
        replay(schedule, self._recorded)
        self._recorded.clear()
        return schedule

    def _ended(self, schedule: Schedule) -> Schedule:
        schedule.end()
        return schedule

    # --- what is issued

    def _record(self, operation: Callable[..., None], *args: Any) -> None:
        self._recorded.append((operation, *args))
        if len(self._recorded) >= max(MOST_RECORDED, self.keep):
            self._first = self._first or tuple(self._recorded)
            self._begun = self._continued(self._begun or self._new())

    def execute(self, executed: Executed) -> None:
        """All steps of an instruction, with the cycles of the cost model."""
        instr = executed.instr
        self._record(Schedule.execute, self._works_of.of(executed), executed.number, instr.name, instr.where)

    def place(self, tile: str, address: int) -> None:
        """A tile gets an address."""
        self._record(Schedule.place, tile, address)

    def read_scalar(self, pipe: str, number: int, where: Where | None) -> None:
        """The scalar pipe reads a number from global memory."""
        self._record(Schedule.read_scalar, pipe, number, where)

    def work(self, pipe: str, cycles: float, number: int, what: str, where: Where | None = None) -> None:
        """A pipe is busy for a statement."""
        self._record(Schedule.work, pipe, PipeJob(cycles, number, what, where))

    set = _recorder(Schedule.set)
    wait = _recorder(Schedule.wait)
    cross_set = _recorder(Schedule.cross_set)
    cross_wait = _recorder(Schedule.cross_wait)
    signal_event = _recorder(Schedule.signal_event)
    wait_event = _recorder(Schedule.wait_event)

    def barrier(self, core: str = "") -> None:
        """Everything issued so far ends before anything else is issued, on one core, or on each."""
        self._record(Schedule.barrier, core)

    def fence(self, pipe: str) -> None:
        """A barrier on one pipe."""
        self._record(Schedule.fence, pipe)

    # --- the result

    def result(self) -> Timeline:
        """All blocks that have ended."""
        longest, block = self._longest
        cycles = max(0.0, block.cycles)
        others = [(number, start, each) for number, start, each in self._kept if number != longest]
        shown = [(longest, self._start, block), *others]
        works = [done.span(number) for number, _, each in shown for done in each.works]
        waits = tuple(sorted(_waits(block, cycles), key=lambda wait: -wait.cycles))
        names = sorted(self._busy, key=lambda pipe: (core_of(pipe), PIPES.index(unit_of(pipe))))
        one_core = len({core_of(pipe) for pipe in names}) <= 1
        kept = tuple(works[: self.keep])
        arrows = (replace(arrival, block=number) for number, _, each in shown for arrival in each.arrivals)
        path = _path(block.last, longest)[-self.keep :]
        blocks = tuple(self._known) if self._is_whole else ()
        return Timeline(
            cycles=self._waves.end,
            total=self._total,
            blocks=self._blocks,
            longest=longest,
            busy={pipe: self._busy[pipe] / self._total if self._total else 0.0 for pipe in names},
            works=kept,
            arrows=tuple(islice(arrows, self.keep)),
            dropped=self._works - len(kept),
            critical=tuple(_path(block.last and block.last.last_kept, longest)),
            waits=waits,
            spent=tuple(_spent(block)),
            limits=tuple(limits(path, _busiest(block, cycles), one_core)),
            clock=self.costs.clock,
            longest_cycles=cycles,
            cores=min(self._waves.cores or self._blocks, self._blocks),
            waves=self._waves.rounds,
            placed=tuple(block.placed),
            starts={number: start for number, start, _ in shown},
            record=Record(self.costs, self._long_record, blocks, self._order, self._waves.cores),
        )


def _waits(block: Schedule, cycles: float) -> Iterator[Waited]:
    for (src, dst, number), waited in block.waits.items():
        yield Waited(src, dst, number, *block.names[number], waited, waited / cycles if cycles else 0.0)


def _spent(block: Schedule) -> Iterator[StatementBusy]:
    """All work of a block, not only what is kept."""
    for (pipe, number), cycles in block.busy.items():
        if number != ISSUING:
            yield StatementBusy(pipe, number, *block.names[number], cycles)


def _busiest(block: Schedule, cycles: float) -> list[Busiest]:
    """Each pipe's share of a block's time, with what it does most."""
    totals: dict[str, float] = defaultdict(float)
    most: dict[str, tuple[float, str]] = {}
    for (pipe, number), busy in block.busy.items():
        totals[pipe] += busy
        name = at_line(*block.names[number]) if number in block.names else "issuing instructions"
        most[pipe] = max(most.get(pipe, (0.0, name)), (busy, name))
    return [Busiest(total / cycles, pipe, most[pipe][1]) for pipe, total in totals.items() if cycles]


def _path(done: Scheduled | None, number: int) -> list[Critical]:
    """What a piece of work waited for, and so on back to the beginning."""
    found: list[Critical] = []
    while done is not None:
        after = done.before.pipe if done.before else ""
        found.append(Critical(done.span(number), after, done.idle))
        done = done.before
    return found[::-1]
