"""The pipes of a block: what each was given, in order; which waits for which; what certainly comes before what.

A pipe is named with its core (`AIV.MTE2`); each core has a scalar pipe, which issues all that the core does. Every
pipe counts its works and waits. A `Clock` has a number for each pipe: how much of it certainly came before. A pipe that
waits for a flag nobody has set yet holds what it is given later, until the flag comes or the block ends. The scalar
pipe cannot be waited for like that: where it is stuck, so is its core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import add

from ptokit.program.steps import ISSUE


def core_of(pipe: str) -> str:
    """The core of a pipe: `AIV` of `AIV.MTE2`."""
    return pipe.partition(".")[0]


def unit_of(pipe: str) -> str:
    """A pipe without its core: `MTE2` of `AIV.MTE2`."""
    return pipe.rpartition(".")[2]


Clock = list[int]
Do = Callable[[Clock, int], None]
"""A work, told what came before it and its own time on its pipe."""


def later(clock: Clock, other: Clock) -> None:
    """Take over all that another clock knows."""
    for k, count in enumerate(other):
        if count > clock[k]:
            clock[k] = count


@dataclass
class _Item:
    """Something that a pipe was given."""

    issued: Clock
    """What came before its issue."""
    run: Callable[[_Item], None]
    is_ready: Callable[[], bool] = lambda: True
    what: object = None
    """What the pipe waits for, for the user."""
    ticks: int = 0
    """How far the pipe's time goes on with it."""
    given: Clock | None = None
    """How far pipes will have come with all that was issued before it, where it was held up after that."""


@dataclass
class _Signal:
    """A flag: whether it is set, and what came before; the last wait for it."""

    known: Clock | None = None
    setter: object = None
    waited: tuple[int, int] | None = None
    """The pipe and the time of the last wait."""


@dataclass(frozen=True)
class Stuck:
    """A pipe waits for what never comes."""

    pipe: str
    flag: Hashable
    what: object


@dataclass
class Clocks:
    """The state of all pipes, for one block after the other."""

    pipes: tuple[str, ...]
    on_early: Callable[[Hashable, object, object], None]
    """Told of a flag that is set while the wait for an earlier set may not be over: what sets it, what did before."""
    on_stuck: Callable[[Stuck], None]
    times: Clock = field(default_factory=list)
    """How far each pipe has come, over all blocks."""

    def __post_init__(self) -> None:
        self.number = {pipe: k for k, pipe in enumerate(self.pipes)}
        self.times = [0] * len(self.pipes)
        self._scalar = [self.number[f"{core_of(pipe)}.{ISSUE}"] for pipe in self.pipes]
        self.begin()

    def begin(self) -> None:
        """Start a block: nothing of the blocks before can be in its way."""
        self.started = list(self.times)
        self._known = [list(self.times) for _ in self.pipes]
        self._issued = [list(self.times) for _ in self.pipes]
        self._heard: list[Clock | None] = [None] * len(self.pipes)
        """What came before the last issue that each pipe knows of."""
        self._queues: list[deque[_Item]] = [deque() for _ in self.pipes]
        self._pending = [0] * len(self.pipes)
        self._flags: dict[Hashable, _Signal] = {}
        self._events: dict[Hashable, _Signal] = {}

    # --- what pipes are given

    def work(self, pipe: str, do: Do) -> None:
        """A pipe does something."""
        number = self.number[pipe]

        def run(item: _Item | None) -> None:
            clock = self._informed(number) if item is None else self._before(number, item)
            self.times[number] += 1
            do(clock if item is None or item.given is None else list(map(min, clock, item.given)), self.times[number])
            clock[number] = self.times[number]

        if self._queues[number]:
            self._give(number, _Item(self._before_issue(number), run, ticks=1))
        else:
            run(None)

    def set(self, src: str, flag: Hashable, what: object = None) -> None:
        """A pipe sets a flag when it gets there."""
        number = self.number[src]
        if self._queues[number]:
            self._give(
                number, _Item(self._before_issue(number), lambda item: self._set(number, item.issued, flag, what))
            )
        else:
            self._set(number, self._before_issue(number), flag, what)
            self._advance()

    def _set(self, number: int, issued: Clock, flag: Hashable, what: object) -> None:
        known, signal = self._known[number], self._flag(flag)
        later(known, issued)
        waited = signal.waited
        if signal.known is not None or (waited is not None and known[waited[0]] < waited[1]):
            self.on_early(flag, what, signal.setter)
        signal.known, signal.setter = list(known), what

    def wait(self, dst: str, flag: Hashable, what: object = None) -> None:
        """A pipe waits for a flag."""
        number = self.number[dst]
        if not self._queues[number] and self._is_set(flag):
            self._wait(number, self._before_issue(number), flag)
            return

        def run(item: _Item) -> None:
            self._wait(number, item.issued, flag)

        is_set = partial(self._is_set, flag)
        self._give(number, _Item(self._before_issue(number), run, is_set, Stuck(dst, flag, what), ticks=1))

    def _wait(self, number: int, issued: Clock, flag: Hashable) -> None:
        clock, signal = self._known[number], self._flag(flag)
        later(clock, issued)
        if signal.known is not None:
            later(clock, signal.known)
        self.times[number] = clock[number] = self.times[number] + 1
        signal.known, signal.waited = None, (number, self.times[number])
        self._issue_after(number, clock)

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another: a flag of an instruction's own, which nobody else can touch."""
        first, then = self.number[src], self.number[dst]
        if not self._queues[first] and not self._queues[then]:  # at once, as mostly
            known, clock = self._informed(first), self._informed(then)
            later(clock, known)
            self.times[then] = clock[then] = self.times[then] + 1
            self._issue_after(then, clock)
            return
        token = object()
        self.set(src, token)
        self.wait(dst, token)

    def barrier(self) -> None:
        """Everything that was given so far comes before all that follows."""
        for scalar in dict.fromkeys(self._scalar):
            for number, pipe in enumerate(self.pipes):
                if number != scalar:
                    self.sync(pipe, self.pipes[scalar])
            self._issue_after(scalar, self._known[scalar])

    def signal(self, event: Hashable, pipes: Sequence[str], what: object = None) -> None:
        """An instruction on these pipes has ended. One that ends again is another event of the same name."""
        for pipe in pipes:
            self._events[event, pipe] = signal = _Signal(setter=what)
            number = self.number[pipe]
            self._give(number, _Item(self._before_issue(number), partial(self._end_at, number, signal)))

    def _end_at(self, number: int, signal: _Signal, item: _Item) -> None:
        signal.known = list(self._before(number, item))

    def hear(self, event: Hashable, sources: Sequence[str], pipes: Sequence[str], what: object = None) -> None:
        """An instruction on `pipes` starts after one on `sources` has ended. An event can be heard more than once."""
        for dst in pipes:
            for src in sources:
                signal, stuck = self._events.get((event, src), _Signal()), Stuck(dst, (event, src), what)
                self._give(self.number[dst], self._hearing(self.number[dst], signal, stuck))

    def _hearing(self, number: int, signal: _Signal, stuck: Stuck) -> _Item:
        def run(item: _Item) -> None:
            clock = self._before(number, item)
            if signal.known is not None:
                later(clock, signal.known)

        return _Item(self._before_issue(number), run, lambda: signal.known is not None, stuck)

    def peek(self, pipe: str) -> Clock:
        """What would come before the next work of a pipe."""
        number = self.number[pipe]
        return list(map(max, self._known[number], self._before_issue(number)))

    def end(self) -> Iterator[tuple[Hashable, object]]:
        """End a block: what is stuck is told and goes on as if it were not; gives the flags that are still set."""
        for number, queue in enumerate(self._queues):
            while queue:
                self._force(number)
        for flag, signal in self._flags.items():
            if signal.known is not None and signal.setter is not None:
                yield flag, signal.setter

    # --- how they get on

    def _flag(self, flag: Hashable) -> _Signal:
        return self._flags.setdefault(flag, _Signal())

    def _is_set(self, flag: Hashable) -> bool:
        return self._flag(flag).known is not None

    def _informed(self, number: int) -> Clock:
        """The pipe's clock, which knows all that came before what is issued now."""
        clock, issued = self._known[number], self._issued[self._scalar[number]]
        if self._heard[number] is not issued:
            self._heard[number] = issued
            later(clock, issued)
        return clock

    def _before_issue(self, number: int) -> Clock:
        """What comes before all that the pipe's core issues from now on; never changed in place."""
        return self._issued[self._scalar[number]]

    def _issue_after(self, number: int, clock: Clock) -> None:
        """What a scalar pipe has waited for comes before all that its core issues."""
        if number == self._scalar[number]:
            self._issued[number] = list(map(max, self._issued[number], clock))

    def _before(self, number: int, item: _Item) -> Clock:
        """The pipe's clock, which from now on knows what came before the issue."""
        clock = self._known[number]
        later(clock, item.issued)
        return clock

    def _give(self, number: int, item: _Item) -> None:
        queue = self._queues[number]
        if queue or not item.is_ready():
            item.given = list(map(add, self.times, self._pending))
            self._pending[number] += item.ticks
            queue.append(item)
        else:
            item.run(item)
            self._advance()
        if queue and number == self._scalar[number]:
            self._force(number)

    def _advance(self) -> None:
        """Let every pipe go on whose flag has come."""
        moved = any(self._queues)
        while moved:
            moved = False
            for number, queue in enumerate(self._queues):
                while queue and queue[0].is_ready():
                    item = self._taken(number)
                    item.run(item)
                    moved = True

    def _taken(self, number: int) -> _Item:
        """The next that a pipe was given."""
        item = self._queues[number].popleft()
        self._pending[number] -= item.ticks
        return item

    def _force(self, number: int) -> None:
        """Let a pipe go on that is stuck."""
        item = self._taken(number)
        assert isinstance(item.what, Stuck)
        self.on_stuck(item.what)
        if item.what.what is None:
            self._tell_held(self._scalar[number])
        item.run(item)
        self._advance()

    def _tell_held(self, scalar: int) -> None:
        """A handshake is stuck only because another pipe of its core is: all that the core waits for is in vain."""
        for number, queue in enumerate(self._queues):
            if queue and self._scalar[number] == scalar and isinstance(queue[0].what, Stuck):
                self.on_stuck(queue[0].what)
