"""The happens-before relation on the pipes of a block, by vector clocks.

Every pipe counts its work and its waits for flags. A `Clock` has a number for each pipe: how much of it certainly came
before. Only what a scalar pipe has *waited* for comes before everything that its core issues later.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from ptokit.machine.pipes import Pipe, PipeEngine, Semaphore, Signal, Stuck
from ptokit.target.profile import CROSS_MOST

Clock = list[int]
Do = Callable[[Clock, int], None]
"""Work. It is called with what came before it, and its own time on its pipe."""
OnEarly = Callable[[Hashable, object, object], None]
"""Called with a flag that is set while the wait for an earlier set may not be over, with what sets it, and with what
set it before."""
OnOverflow = Callable[[Hashable, object, bool], None]
"""Called with a flag between cores, with what sets it too often, and whether that is so in program order, too."""


def _nothing(*_: object) -> None:
    """Report nothing."""


def merge(clock: Clock, other: Clock) -> None:
    """The elementwise maximum, in place."""
    for k, count in enumerate(other):
        if count > clock[k]:
            clock[k] = count


class ClockPipe(Pipe):
    """A pipe with its clock."""

    __slots__ = ("clock", "issued", "merged")

    clock: Clock
    """What comes before its next item, without what its scalar pipe adds."""
    issued: Clock
    """Of a scalar pipe: what comes before all that it issues from now on. Never changed in place."""
    merged: Clock | None
    """The `issued` of its scalar pipe that its clock contains."""


class Clocks(PipeEngine[ClockPipe, Clock, Do]):
    """The clocks of all pipes, for one block after the other."""

    pipe_type = ClockPipe

    def __init__(self, pipes: Sequence[str], on_early: OnEarly, on_stuck: Callable[[Stuck], None]) -> None:
        self.times: Clock = [0] * len(pipes)
        """How far each pipe has come, over all blocks."""
        self.on_early = on_early
        self.on_unpaired: OnEarly = _nothing
        """Called as `on_early`, with a flag between cores whose sets or waits are in no order."""
        self.on_overflow: OnOverflow = _nothing
        super().__init__(pipes, on_stuck)
        self.begin()
        self.pipes = tuple(self._pipes)
        self.number = {name: pipe.number for name, pipe in self._pipes.items()}

    def begin(self) -> None:
        """Start a block: all earlier blocks come before it."""
        self.forget()
        self.started = list(self.times)
        for pipe in self._pipes.values():
            pipe.clock, pipe.issued, pipe.merged = list(self.times), self.started, self.started

    def end(self) -> Iterator[tuple[Hashable, object]]:
        """End a block. Yields the flags that are still set, and what has set them."""
        self.finish()
        for flag, signal in self._flags.items():
            if signal.stamp is not None and signal.setter is not None:
                yield flag, signal.setter
        for flag, semaphore in self._semaphores.items():
            for setter in semaphore.setters:
                yield flag, setter

    def peek(self, pipe: str) -> Clock:
        """What would come before the next work of a pipe."""
        at = self._pipes[pipe]
        return list(map(max, at.clock, at.scalar.issued))

    def _held_pipes(self) -> list[ClockPipe]:
        """In the order of the pipes, so that reports are."""
        return sorted(super()._held_pipes(), key=lambda pipe: pipe.number)

    # --- the notion of time

    def _issue(self, pipe: ClockPipe) -> Clock:
        return pipe.scalar.issued

    def _limit(self) -> Clock:
        """All that was issued before."""
        return [time + pipe.pending for time, pipe in zip(self.times, self._pipes.values(), strict=True)]

    def _stamp(self, pipe: ClockPipe, issued: Clock) -> Clock:
        """The pipe's clock itself, with what came before the issue."""
        if pipe.merged is not issued:
            pipe.merged = issued
            merge(pipe.clock, issued)
        return pipe.clock

    def _work(self, pipe: ClockPipe, issued: Clock, limit: Clock | None, work: Do) -> None:
        clock, number = self._stamp(pipe, issued), pipe.number
        self.times[number] = time = self.times[number] + 1
        work(clock if limit is None else list(map(min, clock, limit)), time)
        clock[number] = time

    def _set(self, at: ClockPipe, issued: Clock, signal: Signal[Clock], flag: Hashable, what: object) -> None:
        if isinstance(signal, Semaphore):
            self._count(at, self._stamp(at, issued), signal, flag, what)
            return
        clock, waited = self._stamp(at, issued), signal.waited
        if signal.stamp is not None or (waited is not None and clock[waited[0]] < waited[1]):
            self.on_early(flag, what, signal.setter)
        signal.stamp, signal.setter = list(clock), what

    def _count(self, at: ClockPipe, clock: Clock, semaphore: Semaphore[Clock], flag: Hashable, what: object) -> None:
        """A flag between cores is set once more."""
        last, waits = semaphore.last_set, semaphore.unknown_waits
        if last is not None and clock[last[0]] < last[1]:
            self.on_unpaired(flag, what, last[2])
        while waits and waits[0][1] <= clock[waits[0][0]]:
            waits.popleft()
        self.times[at.number] = clock[at.number] = self.times[at.number] + 1
        if not semaphore.owed:
            semaphore.setters.append(what)
        semaphore.give(list(clock))
        semaphore.last_set = at.number, self.times[at.number], what
        if len(semaphore.stamps) + len(waits) > CROSS_MOST:
            self.on_overflow(flag, what, len(semaphore.stamps) > CROSS_MOST)

    def _take_set(
        self, at: ClockPipe, issued: Clock, semaphore: Semaphore[Clock], flag: Hashable, what: object
    ) -> None:
        """A wait takes a set, and it may be any that no wait has taken: what is known is what comes before them all."""
        waited, clock = semaphore.waited, self._stamp(at, issued)
        if waited is not None and clock[waited[0]] < waited[1]:
            self.on_unpaired(flag, what, semaphore.last_wait)
        stamp = [min(counts) for counts in zip(*semaphore.stamps, strict=True)] if semaphore.stamps else None
        semaphore.take()
        semaphore.last_wait = what
        self._receive(at, issued, stamp, True)
        semaphore.unknown_waits.append((at.number, self.times[at.number]))

    def _wait(
        self, at: ClockPipe, issued: Clock, signal: Signal[Clock], takes: bool, flag: Hashable, what: object
    ) -> None:
        if isinstance(signal, Semaphore):
            self._take_set(at, issued, signal, flag, what)
        else:
            super()._wait(at, issued, signal, takes, flag, what)
        if takes:
            signal.waited = at.number, self.times[at.number]

    def _receive(self, pipe: ClockPipe, issued: Clock, stamp: Clock | None, takes: bool) -> None:
        clock = self._stamp(pipe, issued)
        if stamp is not None:
            merge(clock, stamp)
        if takes:
            number = pipe.number
            self.times[number] = clock[number] = self.times[number] + 1
            if pipe is pipe.scalar:
                pipe.issued = list(map(max, pipe.issued, clock))
