"""When the pipes of a block are busy, in cycles: a list scheduler that takes items in program order.

The scalar pipe of a core issues one item after the other, so what delays it delays everything issued later. A flag
takes time from the pipe that sets it to the pipe that waits. Loads pipeline: a pipe starts its next transfer while the
data of earlier ones are outstanding, and transfers end in order. Every block begins at 0; `Waves` starts the blocks of
a launch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple, Self

from ptokit.finding import Where, at_line
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import NO_OVERLAP, Overlap, Part, TimedWork
from ptokit.machine.pipes import Pipe, PipeEngine, Semaphore, Signal

ISSUING = NOTHING = -1
"""Instead of the number of a statement: for the time in which the scalar pipe issues instructions, or for none."""


HANDSHAKE: tuple[str, Hashable] = ("handshake", None)
"""What a pipe waits for, where no statement does."""


@dataclass(frozen=True)
class BusySpan:
    """Work of a pipe for a statement: when it starts and ends, in cycles of its block."""

    pipe: str
    start: float
    end: float
    number: int
    what: str
    where: Where | None
    block: int

    @property
    def name(self) -> str:
        """The statement as messages name it: `mgather (line 12)`."""
        return at_line(self.what, self.where)


@dataclass(frozen=True)
class Critical:
    """A piece of work of the critical path, and what it waited for."""

    work: BusySpan
    after: str
    """The pipe whose work had to end first: its own or another; empty for the first one."""
    idle: float
    """Cycles before it in which its pipe was idle."""


@dataclass(slots=True)
class FlagArrow:
    """One pipe waits for another: from the set to the end of the wait, in cycles of their block."""

    kind: str
    """`flag`, `cross-core flag`, `event`, `handshake` of an instruction, or `barrier`."""
    src: str
    start: float
    """When it is set."""
    dst: str
    end: float
    """When the waiting pipe goes on."""
    id: str
    """The event id of a flag."""
    is_held: bool
    """Whether the waiting pipe had to wait."""
    after: int
    """The statement whose work comes before the set; -1 for none."""
    before: int = NOTHING
    """The statement whose work comes after the wait; -1 for none, or if it is not known yet."""
    block: int = NOTHING


class Scheduled:
    """Work with its time, and the work whose end let it begin."""

    __slots__ = ("before", "depth", "end", "idle", "is_kept", "kept_before", "number", "pipe", "start", "what", "where")

    def __init__(
        self, pipe: str, start: float, end: float, number: int, what: str, where: Where | None, idle: float,
        before: Scheduled | None,
    ) -> None:  # fmt: skip
        self.pipe, self.start, self.end = pipe, start, end
        self.number, self.what, self.where = number, what, where
        self.idle, self.before = idle, before
        self.depth = before.depth + 1 if before else 0
        self.is_kept = False
        self.kept_before = before if before is None or before.is_kept else before.kept_before
        """The last work of the chain before it that is kept for the result."""

    @property
    def last_kept(self) -> Scheduled | None:
        """Itself, or the last work before it that is kept."""
        return self if self.is_kept else self.kept_before

    def span(self, block: int) -> BusySpan:
        """The same for the result."""
        return BusySpan(self.pipe, self.start, self.end, self.number, self.what, self.where, block)


class CyclePipe(Pipe):
    """A pipe with its time."""

    __slots__ = ("arrived", "busy", "freed", "last", "time", "waits", "work")

    def __init__(self, name: str, number: int, scalar: Self | None) -> None:
        super().__init__(name, number, scalar)
        self.waits: list[tuple[str, float]] = []
        """Which pipes it has waited for since its last work, and how long."""
        self.arrived: list[FlagArrow] = []
        """The waits since then that are kept."""
        self.time = self.freed = self.busy = 0.0
        """When its next item can start; when its last work ended; how long it has issued items."""
        self.work: Scheduled | None = None
        """Its last work."""
        self.last: Scheduled | None = None
        """The work that `end` waits for: its own, or one that it waited for."""

    @property
    def end(self) -> float:
        """When everything issued to it so far has ended."""
        return max(self.time, self.freed)


class PipeJob(NamedTuple):
    """Work of a pipe for a statement."""

    cycles: float
    number: int
    """The statement."""
    what: str
    where: Where | None = None
    overlap: Overlap = NO_OVERLAP
    latency: float = 0.0


class Stamp(NamedTuple):
    """When a flag is set or an item is issued, by which pipe, and after which work."""

    time: float
    src: str
    last: Scheduled | None


class Schedule(PipeEngine[CyclePipe, Stamp, PipeJob]):
    """One block. `keep` bounds how many pieces of work are kept."""

    pipe_type = CyclePipe

    def __init__(self, costs: Costs, keep: int) -> None:
        super().__init__()
        self._costs, self._keep = costs, keep
        self._issue_cycles, self._flag_cycles = costs.issue, costs.flag
        self.cycles = -1.0
        self.last: Scheduled | None = None
        self.count = 0
        """How much work there was."""
        self.works: list[Scheduled] = []
        """The first of it."""
        self.placed: list[tuple[int, str, int]] = []
        """Tiles that get an address: how much work was kept before, the tile, the address."""
        self.arrivals: list[FlagArrow] = []
        """The first waits."""
        self._awaited: tuple[str, Hashable] = HANDSHAKE
        """What a pipe is waiting for: the kind, and the key of a flag."""
        self.waits: dict[tuple[str, str, int], float] = defaultdict(float)
        self.busy: dict[tuple[str, int], float] = defaultdict(float)
        self.names: dict[int, tuple[str, Where | None]] = {}

    def end(self) -> None:
        """End the block."""
        self.finish()
        final = max(self._pipes.values(), key=lambda pipe: pipe.end, default=None)
        self.cycles = final.end if final else 0.0
        self.last = final.last if final else None
        for pipe in self._pipes.values():
            if pipe.busy:
                self.busy[pipe.name, ISSUING] += pipe.busy
        self._pipes.clear()
        self.forget()

    # --- what is issued

    def execute(self, work: TimedWork, number: int, what: str, where: Where | None) -> None:
        """All steps of an instruction."""
        for step in work.parts(self._costs):
            if isinstance(step, Part):
                self.work(step.pipe, PipeJob(step.cycles, number, what, where, step.overlap, step.latency))
            else:
                self.sync(step.src, step.dst)

    def place(self, tile: str, address: int) -> None:
        """A tile gets an address."""
        if len(self.works) < self._keep:
            self.placed.append((len(self.works), tile, address))

    def read_scalar(self, pipe: str, number: int, where: Where | None) -> None:
        """The scalar pipe reads a number from global memory."""
        self.work(pipe, PipeJob(self._costs.scalar_read, number, "load_scalar", where))

    def work(self, pipe: str, work: PipeJob) -> None:
        """A pipe is busy for a statement."""
        scalar = self._pipes[pipe].scalar
        self.names[work.number] = work.what, work.where
        if scalar.waits:
            self._charge(scalar, work.number)
        super().work(pipe, work)

    def fence(self, pipe: str) -> None:
        """A pipe works on one instruction after the other here: a barrier on it is only issued."""
        if not self._is_stalled(self._pipes[pipe]):
            self._issue(self._pipes[pipe])

    def _barrier(self, scalar: CyclePipe, pipes: list[CyclePipe]) -> None:
        """A scalar pipe waits for all pipes of its core. Pipes that are held do not count."""
        slowest = max((pipe for pipe in pipes if not pipe.queue), key=lambda pipe: pipe.end)
        stamp = Stamp(slowest.end + self._flag_cycles * (slowest is not scalar), slowest.name, slowest.last)
        self._awaited = "barrier", None
        self._receive(scalar, self._issue(scalar), stamp, True)
        self._awaited = HANDSHAKE

    def _wait(
        self, at: CyclePipe, issued: Stamp, signal: Signal[Stamp], takes: bool, flag: Hashable, what: object
    ) -> None:
        if flag is not None:
            is_cross = isinstance(signal, Semaphore)
            self._awaited = "cross-core flag" if is_cross else "flag" if takes else "event", flag if takes else None
        super()._wait(at, issued, signal, takes, flag, what)
        self._awaited = HANDSHAKE

    # --- the notion of time

    def _issue(self, pipe: CyclePipe) -> Stamp:
        """When the scalar pipe has issued an item, and the last work before."""
        scalar = pipe.scalar
        if pipe is not scalar:
            scalar.time += self._issue_cycles
            scalar.busy += self._issue_cycles
        return Stamp(scalar.time, scalar.name, scalar.last)

    def _work(self, pipe: CyclePipe, issued: Stamp, _limit: Stamp | None, work: PipeJob) -> None:
        cycles, number, what, where, overlap, latency = work
        start, before = pipe.time, pipe.last
        if issued.time - overlap.lead > start:
            start, before = issued.time - overlap.lead, issued.last
        free = max(start + cycles, issued.time + overlap.tail) if overlap.tail else start + cycles
        shown, end = max(start, pipe.freed), max(free + latency, pipe.freed)
        if pipe.work is not None and shown > start:  # it started while earlier data were outstanding
            before = pipe.work
        done = Scheduled(pipe.name, shown, end, number, what, where, shown - pipe.freed, before)
        self._note(done, min(cycles + latency, end - shown))
        if pipe.waits:
            self._charge(pipe, number)
        for arrival in pipe.arrived:
            arrival.before = number
        pipe.arrived.clear()
        pipe.time, pipe.freed = free, end
        pipe.last = pipe.work = done

    def _stamp(self, pipe: CyclePipe, issued: Stamp) -> Stamp:
        if pipe.end >= issued.time:
            return Stamp(pipe.end + self._flag_cycles, pipe.name, pipe.last)
        return Stamp(issued.time + self._flag_cycles, pipe.name, issued.last)

    def _receive(self, pipe: CyclePipe, issued: Stamp, stamp: Stamp | None, _takes: bool) -> None:
        if issued.time > pipe.time:
            pipe.time, pipe.last = issued.time, issued.last
        if stamp is not None and stamp.src != pipe.name and len(self.arrivals) < self._keep:
            self._arrive(pipe, stamp)
        if stamp is not None and stamp.time > pipe.time:
            last = stamp.last
            # a flag may pass on another one: the pipe that did the work counts
            src = last.pipe if last and last.pipe != pipe.name else stamp.src
            pipe.waits.append((src, stamp.time - pipe.time))
            pipe.time, pipe.last = stamp.time, last

    # --- the result

    def _arrive(self, pipe: CyclePipe, stamp: Stamp) -> None:
        """Keep a wait that ends."""
        kind, flag = self._awaited
        after = stamp.last.number if stamp.last else NOTHING
        start, end = max(0.0, stamp.time - self._flag_cycles), max(pipe.time, stamp.time)
        name = str(flag[-1]) if isinstance(flag, tuple) else ""
        arrival = FlagArrow(kind, stamp.src, start, pipe.name, end, name, stamp.time > pipe.time, after)
        self.arrivals.append(arrival)
        pipe.arrived.append(arrival)

    def _charge(self, pipe: CyclePipe, number: int) -> None:
        """Count what a pipe has waited as time that this statement waited."""
        for src, cycles in pipe.waits:
            self.waits[src, pipe.name, number] += cycles
        pipe.waits.clear()

    def _note(self, done: Scheduled, cycles: float) -> None:
        self.count += 1
        self.busy[done.pipe, done.number] += cycles
        if len(self.works) < self._keep:
            self.works.append(done)
            done.is_kept = True
        if done.depth and done.depth % self._keep == 0:
            _cut(done, self._keep)


def _cut(done: Scheduled, keep: int) -> None:
    """Forget what came more than `keep` pieces of work before, unless it is kept for the result."""
    node: Scheduled | None = done
    for _ in range(keep):
        node = node.before if node else None
    if node and not node.is_kept:
        node.before = None


class Waves:
    """The cores that run blocks; 0 is one for each. Blocks start in the order of the launch, each on the core that is
    free first."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.end = 0.0
        self.rounds = 0
        """The most blocks that a core runs."""
        self._busy: list[tuple[float, int]] = []
        """For every core in use: when it is free, and how many blocks it has run."""

    def place(self, cycles: float) -> float:
        """When the next block starts."""
        start, before = heappop(self._busy) if len(self._busy) >= self.cores > 0 else (0.0, 0)
        if self.cores:
            heappush(self._busy, (start + cycles, before + 1))
        self.end, self.rounds = max(self.end, start + cycles), max(self.rounds, before + 1)
        return start


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
