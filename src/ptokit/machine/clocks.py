"""The happens-before relation on the pipes of a block, by vector clocks.

Every pipe counts its work and its waits for flags. A `Clock` has a number for each pipe: how much of it certainly came
before. Only what a scalar pipe has *waited* for comes before everything that its core issues later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

from ptokit.machine.pipes import Pipe, PipeEngine, Semaphore, Signal, Stuck
from ptokit.program.cores import core_of, has_set, is_waited_by
from ptokit.target.profile import CROSS_MOST

Clock = list[int]
Do = Callable[[Clock, int], None]
"""Work. It is called with what came before it, and its own time on its pipe."""
OnEarly = Callable[[Hashable, object, object, bool], None]
"""Called with a flag that is set while the wait for an earlier set may not be over, with what sets it, with what set it
before, and with whether no wait for it was issued between the two."""
OnUnpaired = Callable[[Hashable, object, object], None]
"""Called with a flag between cores whose sets or waits are in no order: the flag, the later one, the earlier one."""
OnOverflow = Callable[[Hashable, object, bool], None]
"""Called with a flag between cores, with what sets it too often, and whether that is so in program order, too."""


def _nothing(*_: object) -> None:
    """Report nothing."""


class SetBy(NamedTuple):
    """What sets a flag, and whether no wait for it was issued since the set before."""

    what: object
    is_doubled: bool


def _latest(clock: Clock, other: Clock) -> Clock:
    """The elementwise maximum."""
    return [one if one > two else two for one, two in zip(clock, other, strict=True)]


MOST_LEARNT = 1024
"""Waits of a pipe whose clocks are kept, for `assume`."""


def merge(clock: Clock, other: Clock) -> None:
    """The elementwise maximum, in place."""
    for k, count in enumerate(other):
        if count > clock[k]:
            clock[k] = count


class ClockPipe(Pipe):
    """A pipe with its clock."""

    __slots__ = ("clock", "done", "issued", "learnt", "merged")

    clock: Clock
    """What comes before its next item, without what its scalar pipe adds."""
    done: int
    """Up to which time its own work has certainly ended, for a pipe whose instructions may overlap."""
    issued: Clock
    """Of a scalar pipe: what comes before all that it issues from now on. Never changed in place."""
    merged: Clock | None
    """The `issued` of its scalar pipe that its clock contains."""
    learnt: deque[tuple[int, Clock]]
    """Its clock after every wait, with the time of the item that follows. Only its own number changes later."""


class Clocks(PipeEngine[ClockPipe, Clock, Do]):
    """The clocks of all pipes, for one block after the other."""

    pipe_type = ClockPipe

    def __init__(self, pipes: Sequence[str], on_early: OnEarly, on_stuck: Callable[[Stuck], None]) -> None:
        self.times: Clock = [0] * len(pipes)
        """How far each pipe has come, over all blocks."""
        self.on_early = on_early
        self.pending: set[Hashable] = set()
        """The flags for which no wait was issued since their last set."""
        self.on_unpaired: OnUnpaired = _nothing
        self.on_overflow: OnOverflow = _nothing
        super().__init__(pipes, on_stuck)
        self.begin()
        self.pipes = tuple(self._pipes)
        self.number = {name: pipe.number for name, pipe in self._pipes.items()}

    def begin(self) -> None:
        """Start a block: all earlier blocks come before it."""
        self.forget()
        self.pending.clear()
        self.started = list(self.times)
        for pipe in self._pipes.values():
            pipe.clock, pipe.issued, pipe.merged = list(self.times), self.started, self.started
            pipe.done = self.times[pipe.number]
            pipe.learnt = deque(((0, self.started),), MOST_LEARNT)

    def end(self) -> Iterator[tuple[Hashable, object]]:
        """End a block. Yields the flags that are still set, and what has set them."""
        self.finish()
        for flag, signal in self._flags.items():
            if signal.stamp is not None and isinstance(signal.setter, SetBy) and signal.setter.what is not None:
                yield flag, signal.setter.what
        for flag, semaphore in self._semaphores.items():
            for setter in semaphore.setters:
                yield flag, setter

    def held(self) -> list[int]:
        """How much work of each pipe is in its queue, and how often flags between cores are set and waited for: more
        than they count is too often."""
        counts = ((each.stamps, each.unknown_waits) for each in self._semaphores.values())
        ends = (min(len(end), CROSS_MOST + 1) for both in counts for end in both)
        return [*(pipe.pending for pipe in self._pipes.values()), *ends]

    def lags(self) -> list[int]:
        """How far each pipe has gone beyond what each other one knows of it."""
        return [
            time - known for pipe in self._pipes.values() for time, known in zip(self.times, pipe.clock, strict=True)
        ]

    def peek(self, pipe: str) -> Clock:
        """What would come before the next work of a pipe."""
        at = self._pipes[pipe]
        return list(map(max, at.clock, at.scalar.issued))

    def ended(self, pipe: str) -> int:
        """Up to which time the work of a pipe whose instructions may overlap has ended before its next work."""
        return self._pipes[pipe].done

    def end_work(self, pipe: str, time: int) -> None:
        """The work of a pipe up to a time has ended before its next work: an instruction has a barrier inside."""
        at = self._pipes[pipe]
        at.done = max(at.done, time)

    def pretend(self, flag: Hashable) -> None:
        """Go on as if a flag had been set now by its pipe, or by all pipes of its core."""
        if isinstance(flag, tuple) and len(flag) == 3:
            self._flags[flag].stamp = list(self._pipes[flag[0]].clock)
        elif isinstance(flag, tuple) and flag in self._semaphores:
            clocks = [pipe.clock for name, pipe in self._pipes.items() if has_set(name, flag)]
            self._semaphores[flag].give(reduce(_latest, clocks))

    def left(self, flag: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], object]]:
        """Other flags between the same pipes, or of the same core, that are set, and what has set them."""
        for other, signal in (*self._flags.items(), *self._semaphores.items()):
            if isinstance(other, tuple) and other != flag and other[:-1] == flag[:-1] and signal.stamp is not None:
                by = signal.setters[0] if isinstance(signal, Semaphore) and signal.setters else signal.setter
                yield other, by.what if isinstance(by, SetBy) else by

    def was_waited(self, flag: Hashable) -> bool:
        """Whether an earlier wait of the block has ended."""
        return flag in self._flags and self._flags[flag].waited is not None

    def unused(self, gate: str, before: int, time: int) -> tuple[Any, ...] | None:
        """A flag that is set after what the pipe `before` did at a time, and for which `gate` has not waited."""
        setter, crosses = self.pipes[before], core_of(self.pipes[before]) != core_of(gate)
        for flag, semaphore in self._semaphores.items() if crosses else ():
            stamps: list[Clock] = list(semaphore.stamps) if semaphore.last_wait is None else []
            if not isinstance(flag, tuple) or not has_set(setter, flag) or not is_waited_by(gate, flag):
                continue
            if any(clock[before] >= time for clock in stamps):
                return flag
        for flag, signal in self._flags.items():
            if isinstance(flag, tuple) and flag[1] == gate and signal.stamp and signal.stamp[before] >= time:
                return flag
        return None

    def known(self, before: str, time: int) -> Clock:
        """What came before the end of what a pipe did at a time, with that."""
        first = self._pipes[before]
        at = bisect_right(first.learnt, time, key=lambda entry: entry[0])
        stamp = list(first.learnt[at - 1][1]) if at else [0] * len(self.times)
        stamp[first.number] = time
        return stamp

    def assume(self, clock: Clock, pipe: str, gate: str, before: str, time: int) -> None:
        """Go on as if `gate` had waited for what the pipe `before` did at a time. `clock` is that of the item of `pipe`
        that runs."""
        stamp, then, entry = self.known(before, time), self._pipes[pipe], self._pipes[gate]
        for each in dict.fromkeys((then, entry)):
            since, known = each.learnt[-1]
            each.learnt[-1] = since, list(known)  # what was known before this
            each.learnt.append((self.times[each.number], each.clock))
            merge(each.clock, stamp)
            self.end_work(each.name, stamp[each.number])
        merge(clock, stamp)
        if entry is entry.scalar:
            entry.issued = list(map(max, entry.issued, stamp))

    def _held_pipes(self) -> list[ClockPipe]:
        """In the order of the pipes, so that reports are."""
        return sorted(super()._held_pipes(), key=lambda pipe: pipe.number)

    def set(self, src: str, flag: Hashable, what: object = None) -> None:
        by = SetBy(what, flag in self.pending)
        self.pending.add(flag)
        super().set(src, flag, by)

    def wait(self, dst: str, flag: Hashable, what: object = None) -> None:
        self.pending.discard(flag)
        super().wait(dst, flag, what)

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
            self._learn(pipe, issued)
        return pipe.clock

    def _work(self, pipe: ClockPipe, issued: Clock, limit: Clock | None, work: Do) -> None:
        clock, number = self._stamp(pipe, issued), pipe.number
        self.times[number] = time = self.times[number] + 1
        work(clock if limit is None else list(map(min, clock, limit)), time)
        pipe.clock[number] = time

    def _set(self, at: ClockPipe, issued: Clock, signal: Signal[Clock], flag: Hashable, what: object) -> None:
        """Set a flag. One that is still set for a wait in a queue, and whose sets and waits alternate in the order of
        issue, is set again after that wait."""
        if isinstance(signal, Semaphore):
            self._count(at, self._stamp(at, issued), signal, flag, what)
            return
        clock, waited = self._stamp(at, issued), signal.waited
        is_set, is_doubled = signal.stamp is not None, isinstance(what, SetBy) and what.is_doubled
        if isinstance(what, SetBy) and (is_set or (waited is not None and clock[waited[0]] < waited[1])):
            before = signal.setter.what if isinstance(signal.setter, SetBy) else None
            self.on_early(flag, what.what, before, is_doubled)
        if is_set and not is_doubled:
            signal.later.append((list(clock), what))
        else:
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
            if signal.later:
                signal.stamp, signal.setter = signal.later.popleft()

    def _receive(self, pipe: ClockPipe, issued: Clock, stamp: Clock | None, takes: bool) -> None:
        self._stamp(pipe, issued)
        if takes:
            self.times[pipe.number] += 1
        if stamp is not None:
            self._learn(pipe, stamp)
        if takes:
            pipe.clock[pipe.number] = self.times[pipe.number]
        if pipe is pipe.scalar:
            pipe.issued = list(map(max, pipe.issued, pipe.clock))

    def _learn(self, pipe: ClockPipe, stamp: Clock) -> None:
        """What comes before the next item of a pipe. What others know of its own work has ended."""
        pipe.done = max(pipe.done, stamp[pipe.number])
        pipe.clock = _latest(pipe.clock, stamp)
        pipe.learnt.append((self.times[pipe.number] + 1, pipe.clock))
