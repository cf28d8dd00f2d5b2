"""When pipes are busy and what they wait for: a list scheduler that is given what pipes are given, in program order.

Every pipe takes what it is given in order. The scalar pipe of a core hands everything out, one after the other, so what
holds it up holds up all that comes later. A flag takes time from the pipe that sets it to the one that waits. Every
block begins at 0: blocks run on cores of their own.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ptokit.finding import Where
from ptokit.machine.clocks import core_of, unit_of
from ptokit.machine.costs import NO_OVERLAP, Costs, Overlap
from ptokit.machine.executed import Executed
from ptokit.machine.timeline import ISSUING, Critical, Timeline, Waited, Work, advise, named
from ptokit.program.steps import ISSUE, Sync, Touch
from ptokit.target.profile import PIPES


class _Done:
    """A work that has its time, and what let it begin."""

    __slots__ = ("before", "depth", "end", "idle", "number", "pipe", "start", "what", "where")

    def __init__(
        self, pipe: str, start: float, end: float, number: int, what: str, where: Where | None, idle: float,
        before: _Done | None,
    ) -> None:  # fmt: skip
        self.pipe, self.start, self.end = pipe, start, end
        self.number, self.what, self.where = number, what, where
        self.idle, self.before = idle, before
        self.depth = before.depth + 1 if before else 0

    def work(self, block: int) -> Work:
        """For those who look at it."""
        return Work(self.pipe, self.start, self.end, self.number, self.what, self.where, block)


class _Pipe:
    """A pipe during a block."""

    __slots__ = ("busy", "freed", "last", "name", "pending", "queue", "scalar", "time")

    def __init__(self, name: str, scalar: _Pipe | None) -> None:
        self.name = name
        self.scalar = scalar or self
        """The pipe that hands things out to this one."""
        self.pending: list[tuple[str, float]] = []
        """For whom it waited since its last work, and how long."""
        self.queue: deque[_Item] = deque()
        self.begin()

    def begin(self) -> None:
        """A block begins."""
        self.time = self.freed = self.busy = 0.0
        """From when on it can go on; when its last work ended; how long it handed things out."""
        self.last: _Done | None = None
        """The work whose end is `time`: its own, or one that it waited for."""
        self.pending.clear()
        self.queue.clear()


class _Sent(NamedTuple):
    """A flag that is set, or something that was handed out: when, by whom, after which work."""

    time: float
    src: str
    last: _Done | None


class _Item(NamedTuple):
    """Something that a pipe was given and cannot do yet."""

    run: Callable[[], None]
    flag: Hashable | None = None
    """What must be set before."""


@dataclass
class _Block:
    """What is kept of a block."""

    number: int = 0
    cycles: float = -1.0
    last: _Done | None = None
    works: list[_Done] = field(default_factory=list)
    waits: dict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))
    busy: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    names: dict[int, tuple[str, Where | None]] = field(default_factory=dict)


class Timer:
    """Takes what pipes are given, block after block, and works out when they do it. Memory is bounded by `keep`."""

    def __init__(self, costs: Costs | None = None, keep: int = 10_000) -> None:
        """Without `costs`, issuing and flags take no time."""
        self.costs = costs
        self.keep = max(1, keep)
        self._issue_cycles = costs.issue if costs else 0.0
        self._flag_cycles = costs.flag if costs else 0.0
        self._longest = _Block()
        self._kept: list[Work] = []
        self._busy: dict[str, float] = defaultdict(float)
        self._works = self._blocks = 0
        self._total = 0.0
        self._pipes: dict[str, _Pipe] = {}
        self._flags: dict[Hashable, _Sent] = {}
        self._held: dict[str, _Pipe] = {}
        """Pipes that wait for a flag that nobody has set yet."""
        self.begin_block(0)

    # --- blocks

    def begin_block(self, block: int) -> None:
        """A block begins, at 0."""
        self._block = _Block(block)
        self._flags.clear()
        self._held.clear()
        for pipe in self._pipes.values():
            pipe.begin()

    def end_block(self) -> None:
        """A block has ended; what waits for ever is let go."""
        while self._held:
            self._force(next(iter(self._held.values())))
        block = self._block
        final = max(self._pipes.values(), key=lambda pipe: pipe.time, default=None)
        block.cycles = final.time if final else 0.0
        block.last = final.last if final else None
        self._total += block.cycles
        self._blocks += 1
        for pipe in self._pipes.values():
            if pipe.busy:
                block.busy[pipe.name, ISSUING] += pipe.busy
        for (name, _), cycles in block.busy.items():
            self._busy[name] += cycles
        room = self.keep - len(self._kept)
        self._kept += [done.work(block.number) for done in block.works[:room]]
        if block.cycles > self._longest.cycles:
            self._longest = block

    # --- what pipes are given

    def execute(self, executed: Executed) -> None:
        """All steps of an instruction, with the cycles of the cost model; transfers go along with the loop that
        issues them."""
        assert self.costs is not None
        steps, name = executed.steps, executed.instr.name
        overlaps = [self.costs.overlap(executed, step) if isinstance(step, Touch) else None for step in steps]
        for k, step in enumerate(steps):
            overlap = overlaps[k]
            if isinstance(step, Touch) and overlap is not None:
                cycles = self.costs.cycles(executed, step)
                self.work(_on(executed, step.pipe), cycles, executed.number, name, executed.where, overlap)
            elif isinstance(step, Sync) and not _goes_along(overlaps, k):
                self.sync(_on(executed, step.src), _on(executed, step.dst))

    def work(
        self,
        pipe: str,
        cycles: float,
        number: int,
        what: str,
        where: Where | None = None,
        overlap: Overlap = NO_OVERLAP,
    ) -> None:
        """A pipe is busy for a statement."""
        at = self._pipe(pipe)
        issued = self._issue(at)
        self._block.names[number] = what, where
        if at.scalar.pending:
            self._charge(at.scalar, number)
        if at.queue:
            at.queue.append(_Item(lambda: self._work(at, issued, cycles, number, what, where, overlap)))
        else:
            self._work(at, issued, cycles, number, what, where, overlap)

    def _work(
        self, at: _Pipe, issued: _Sent, cycles: float, number: int, what: str, where: Where | None, overlap: Overlap
    ) -> None:
        start, before = at.time, at.last
        if issued.time - overlap.lead > start:
            start, before = issued.time - overlap.lead, issued.last
        end = max(start + cycles, issued.time + overlap.tail) if overlap.tail else start + cycles
        done = _Done(at.name, start, end, number, what, where, start - at.freed, before)
        self._note(done, cycles)
        if at.pending:
            self._charge(at, number)
        at.time = at.freed = end
        at.last = done

    def set(self, pipe: str, flag: Hashable) -> None:
        """A pipe sets a flag when it gets there."""
        at = self._pipe(pipe)
        issued = self._issue(at)
        if at.queue:
            at.queue.append(_Item(lambda: self._set(at, issued, flag)))
            return
        self._set(at, issued, flag)
        if self._held:
            self._advance()

    def _set(self, at: _Pipe, issued: _Sent, flag: Hashable) -> None:
        self._flags[flag] = self._sent(at, issued)

    def _sent(self, at: _Pipe, issued: _Sent) -> _Sent:
        """A flag that the pipe sets now."""
        if at.time >= issued.time:
            return _Sent(at.time + self._flag_cycles, at.name, at.last)
        return _Sent(issued.time + self._flag_cycles, at.name, issued.last)

    def wait(self, pipe: str, flag: Hashable) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        at = self._pipe(pipe)
        issued = self._issue(at)
        if at.queue or flag not in self._flags:
            self._hold(at, _Item(lambda: self._wait(at, issued, self._flags.pop(flag, None)), flag))
        else:
            self._wait(at, issued, self._flags.pop(flag))

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another: a flag of an instruction's own."""
        first, then = self._pipe(src), self._pipe(dst)
        if first.queue or then.queue:
            token = object()
            self.set(src, token)
            self.wait(dst, token)
        else:
            sent = self._sent(first, self._issue(first))
            self._wait(then, self._issue(then), sent)

    def signal(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on these pipes has ended."""
        for pipe in pipes:
            self.set(pipe, (event, pipe))

    def hear(self, event: Hashable, sources: Sequence[str], pipes: Sequence[str]) -> None:
        """What comes next on `pipes` starts after an instruction on `sources` has ended; others may hear it, too."""
        for pipe in pipes:
            for src in sources:
                self._hear(pipe, (event, src))

    def _hear(self, pipe: str, flag: Hashable) -> None:
        at = self._pipe(pipe)
        issued = self._issue(at)
        if at.queue or flag not in self._flags:
            self._hold(at, _Item(lambda: self._wait(at, issued, self._flags.get(flag)), flag))
        else:
            self._wait(at, issued, self._flags[flag])

    def barrier(self, core: str) -> None:
        """All that a core was given so far ends before it is given more."""
        scalar = self._pipe(f"{core}.{ISSUE}")
        others = [pipe for pipe in self._pipes.values() if pipe.scalar is scalar and not pipe.queue]
        slowest = max(others, key=lambda pipe: pipe.time)
        sent = _Sent(slowest.time + self._flag_cycles * (slowest is not scalar), slowest.name, slowest.last)
        self._wait(scalar, self._issue(scalar), sent)

    # --- how they get on

    def _pipe(self, name: str) -> _Pipe:
        pipe = self._pipes.get(name)
        if pipe is None:
            scalar = None if unit_of(name) == ISSUE else self._pipe(f"{core_of(name)}.{ISSUE}")
            pipe = self._pipes[name] = _Pipe(name, scalar)
        return pipe

    def _issue(self, at: _Pipe) -> _Sent:
        """When the scalar pipe has handed something out, and the last thing that it did before."""
        scalar = at.scalar
        if at is not scalar:
            scalar.time += self._issue_cycles
            scalar.busy += self._issue_cycles
        return _Sent(scalar.time, scalar.name, scalar.last)

    def _wait(self, at: _Pipe, issued: _Sent, sent: _Sent | None) -> None:
        if issued.time > at.time:
            at.time, at.last = issued.time, issued.last
        if sent is not None and sent.time > at.time:
            last = sent.last
            src = last.pipe if last and last.pipe != at.name else sent.src  # flags are handed on: who worked counts
            at.pending.append((src, sent.time - at.time))
            at.time, at.last = sent.time, last

    def _charge(self, pipe: _Pipe, number: int) -> None:
        """What a pipe has waited was for this statement."""
        for src, cycles in pipe.pending:
            self._block.waits[src, pipe.name, number] += cycles
        pipe.pending.clear()

    def _note(self, done: _Done, cycles: float) -> None:
        self._works += 1
        self._block.busy[done.pipe, done.number] += cycles
        if len(self._block.works) < self.keep:
            self._block.works.append(done)
        if done.depth and done.depth % self.keep == 0:
            _cut(done, self.keep)

    def _hold(self, pipe: _Pipe, item: _Item) -> None:
        """A pipe waits; the scalar pipe cannot be waited for, so it is let go."""
        pipe.queue.append(item)
        self._held[pipe.name] = pipe
        if pipe is pipe.scalar:
            self._force(pipe)

    def _is_ready(self, item: _Item) -> bool:
        return item.flag is None or item.flag in self._flags

    def _advance(self) -> None:
        """Let every pipe go on whose flag has come."""
        moved = True
        while moved:
            moved = False
            for pipe in list(self._held.values()):
                while pipe.queue and self._is_ready(pipe.queue[0]):
                    pipe.queue.popleft().run()
                    moved = True
                if not pipe.queue:
                    self._held.pop(pipe.name, None)

    def _force(self, pipe: _Pipe) -> None:
        """Let a pipe go on that waits for what never comes."""
        pipe.queue.popleft().run()
        self._advance()

    # --- what comes of it

    def result(self) -> Timeline:
        """All blocks that have ended."""
        block = self._longest
        cycles = max(0.0, block.cycles)
        works = [done.work(block.number) for done in block.works]
        works += [work for work in self._kept if work.block != block.number]
        waits = tuple(sorted(_waits(block, cycles), key=lambda wait: -wait.cycles))
        names = sorted(self._busy, key=_rank)
        one_core = len({core_of(pipe) for pipe in names}) <= 1
        kept = tuple(works[: self.keep])
        path = _path(block)[-self.keep :]
        return Timeline(
            cycles=cycles,
            total=self._total,
            blocks=self._blocks,
            longest=block.number,
            busy={pipe: self._busy[pipe] / self._total if self._total else 0.0 for pipe in names},
            works=kept,
            dropped=self._works - len(kept),
            critical=tuple(path),
            waits=waits,
            advice=tuple(advise(path, _busiest(block, cycles), one_core)),
            clock=self.costs.clock if self.costs else 0.0,
        )


def _goes_along(overlaps: Sequence[Overlap | None], k: int) -> bool:
    """Whether the step after a hand-over does not wait for the whole of the step before."""
    around = overlaps[max(0, k - 1) : k + 2]
    return len(around) == 3 and around[0] is not None and around[2] is not None and around[2].tail > 0


def _on(executed: Executed, pipe: str) -> str:
    """A pipe with its core."""
    return pipe if "." in pipe else f"{executed.core}.{pipe}"


def _cut(done: _Done, keep: int) -> None:
    """Forget what came more than `keep` works before."""
    node: _Done | None = done
    for _ in range(keep):
        node = node.before if node else None
    if node:
        node.before = None


def _rank(pipe: str) -> tuple[str, int]:
    return core_of(pipe), PIPES.index(unit_of(pipe))


def _waits(block: _Block, cycles: float) -> Iterator[Waited]:
    for (src, dst, number), waited in block.waits.items():
        yield Waited(src, dst, number, *block.names[number], waited, waited / cycles if cycles else 0.0)


def _busiest(block: _Block, cycles: float) -> list[tuple[float, str, str]]:
    """Each pipe's share of a block's time, with what it does most."""
    totals: dict[str, float] = defaultdict(float)
    most: dict[str, tuple[float, str]] = {}
    for (pipe, number), busy in block.busy.items():
        totals[pipe] += busy
        name = named(*block.names[number]) if number in block.names else "handing out instructions"
        most[pipe] = max(most.get(pipe, (0.0, name)), (busy, name))
    return [(total / cycles, pipe, most[pipe][1]) for pipe, total in totals.items() if cycles]


def _path(block: _Block) -> list[Critical]:
    """What the last work waited for, and so on back to the beginning."""
    found: list[Critical] = []
    done = block.last
    while done is not None:
        after = done.before.pipe if done.before else ""
        found.append(Critical(done.work(block.number), after, done.idle))
        done = done.before
    return found[::-1]
