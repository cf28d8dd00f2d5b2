"""When the pipes of a block are busy: a list scheduler that is given what pipes are given, in program order.

Every pipe takes what it is given in order. The scalar pipe of a core hands everything out, one after the other, so what
holds it up holds up all that comes later. A flag takes time from the pipe that sets it to the one that waits. Every
block begins at 0: blocks run on cores of their own.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from ptokit.finding import Where
from ptokit.machine.clocks import core_of, unit_of
from ptokit.machine.formulas import NO_OVERLAP, Overlap
from ptokit.machine.timed import Part, Timed
from ptokit.machine.timeline import ISSUING, Work
from ptokit.program.steps import ISSUE


class Done:
    """A work that has its time, and what let it begin."""

    __slots__ = ("before", "depth", "end", "idle", "number", "pipe", "start", "what", "where")

    def __init__(
        self, pipe: str, start: float, end: float, number: int, what: str, where: Where | None, idle: float,
        before: Done | None,
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
        self.time = self.freed = self.busy = 0.0
        """From when on it can go on; when its last work ended; how long it handed things out."""
        self.last: Done | None = None
        """The work whose end is `time`: its own, or one that it waited for."""


class _Sent(NamedTuple):
    """A flag that is set, or something that was handed out: when, by whom, after which work."""

    time: float
    src: str
    last: Done | None


class _Item(NamedTuple):
    """Something that a pipe was given and cannot do yet."""

    run: Callable[[], None]
    flag: Hashable | None = None
    """What must be set before."""


class Schedule:
    """One block. `keep` bounds the works that are kept."""

    def __init__(self, issue: float, flag: float, keep: int) -> None:
        """`issue` and `flag` are the cycles of handing something out, and from a set to its wait."""
        self._issue_cycles, self._flag_cycles, self._keep = issue, flag, keep
        self._pipes: dict[str, _Pipe] = {}
        self._flags: dict[Hashable, _Sent] = {}
        self._held: dict[str, _Pipe] = {}
        """Pipes that wait for a flag that nobody has set yet."""
        self.cycles = -1.0
        self.last: Done | None = None
        self.count = 0
        """How many works there were."""
        self.works: list[Done] = []
        """The first of them."""
        self.waits: dict[tuple[str, str, int], float] = defaultdict(float)
        self.busy: dict[tuple[str, int], float] = defaultdict(float)
        self.names: dict[int, tuple[str, Where | None]] = {}

    def end(self) -> None:
        """All was given; what waits for ever is let go."""
        while self._held:
            self._force(next(iter(self._held.values())))
        final = max(self._pipes.values(), key=lambda pipe: pipe.time, default=None)
        self.cycles = final.time if final else 0.0
        self.last = final.last if final else None
        for pipe in self._pipes.values():
            if pipe.busy:
                self.busy[pipe.name, ISSUING] += pipe.busy
        self._pipes, self._flags = {}, {}

    # --- what pipes are given

    def execute(self, timed: Timed, number: int, what: str, where: Where | None) -> None:
        """All steps of an instruction."""
        for step in timed.steps:
            if isinstance(step, Part):
                self.work(step.pipe, step.cycles, number, what, where, step.overlap)
            else:
                self.sync(step.src, step.dst)

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
        self.names[number] = what, where
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
        done = Done(at.name, start, end, number, what, where, start - at.freed, before)
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

    def barrier(self) -> None:
        """All that was given so far ends before more is given."""
        others = [pipe for pipe in self._pipes.values() if not pipe.queue]
        slowest = max(others, key=lambda pipe: pipe.time, default=None)
        for scalar in [pipe for pipe in others if pipe is pipe.scalar]:
            assert slowest is not None
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
            self.waits[src, pipe.name, number] += cycles
        pipe.pending.clear()

    def _note(self, done: Done, cycles: float) -> None:
        self.count += 1
        self.busy[done.pipe, done.number] += cycles
        if len(self.works) < self._keep:
            self.works.append(done)
        if done.depth and done.depth % self._keep == 0:
            _cut(done, self._keep)

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


def _cut(done: Done, keep: int) -> None:
    """Forget what came more than `keep` works before."""
    node: Done | None = done
    for _ in range(keep):
        node = node.before if node else None
    if node:
        node.before = None
