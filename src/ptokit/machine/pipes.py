"""The pipes of a block: in-order queues of work, sets and waits. One engine for every notion of time.

A pipe is named with its core (`AIV.MTE2`). It runs its items in the order of issue. The scalar pipe of a core issues
the items of all its pipes. An item that waits for a flag that is not set holds its pipe: the items behind it queue
until the flag is set. A scalar pipe that waits for its own core cannot be held, because nothing could then issue the
set: the wait is reported as stuck and ends at once. One that waits for the other core stalls its core: nothing more is
issued there until the other core has set the flag. At the end of a block the waits that still hold a pipe are reported
as stuck, and end; several that wait for one another are one report.

Flags, events and barriers belong to one core. A flag between cores is a `Semaphore`, which counts its sets.

`PipeEngine` is the protocol: flags, handshakes of instructions (`sync`), events, barriers, queues, deadlocks. A
subclass defines time by four methods: `_issue`, `_work`, `_stamp` and `_receive`.

| engine | time | for |
|---|---|---|
| `clocks.Clocks` | vector clocks | the happens-before relation |
| `schedule.Schedule` | cycles | how long a block takes |
| `adversary.Adversary` | a random order | values under another legal schedule |

Others listen by callbacks: `on_stuck`, `Clocks.on_early`, and the callable that each piece of work of `Clocks` and
`Adversary` is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Generic, Self, TypeVar

from ptokit.program.cores import core_of
from ptokit.target import SCALAR


class Pipe:
    """A pipe during a block."""

    __slots__ = ("later", "name", "number", "pending", "queue", "scalar")

    scalar: Self
    """The pipe that issues the items of this one."""

    def __init__(self, name: str, number: int, scalar: Self | None) -> None:
        self.name, self.number, self.scalar = name, number, scalar or self
        self.queue: deque[PipeItem[Any]] = deque()
        """Items that cannot run yet."""
        self.pending = 0
        """How many of them, and of those that a stalled core will issue to it, count in the time of `Clocks`."""
        self.later: deque[Delayed] = deque()
        """Of a scalar pipe that waits for the other core: what its core issues after that."""


P = TypeVar("P", bound=Pipe)
T = TypeVar("T")
"""What an engine knows of a point in time."""
W = TypeVar("W")
"""The work that an engine takes."""


class Signal(Generic[T]):
    """A flag or an event."""

    __slots__ = ("later", "setter", "stamp", "waited")

    def __init__(self) -> None:
        self.stamp: T | None = None
        """When it was set; None while it is not."""
        self.setter: object = None
        self.waited: tuple[int, int] | None = None
        """The pipe and the time of the last wait (`Clocks`)."""
        self.later: deque[tuple[T, object]] = deque()
        """Sets that count only after the wait for this one (`Clocks`)."""

    def give(self, stamp: T) -> None:
        """It is set."""
        self.stamp = stamp

    def take(self) -> T | None:
        """It is waited for, and no longer set."""
        stamp, self.stamp = self.stamp, None
        return stamp


def is_set(signal: Signal[Any] | None) -> bool:
    """Whether a signal is set, or none has to be."""
    return signal is None or signal.stamp is not None


class Semaphore(Signal[T]):
    """A flag between the cores: it counts its sets, and a wait takes one."""

    __slots__ = ("last_set", "last_wait", "owed", "setters", "stamps", "unknown_waits")

    def __init__(self) -> None:
        super().__init__()
        self.stamps: deque[T] = deque()
        self.setters: deque[object] = deque()
        """The sets that no wait has taken."""
        self.owed = 0
        """How many waits were ended without a set: as many sets that come later count for them."""
        self.last_set: tuple[int, int, object] | None = None
        """The pipe, the time and the statement of the last set (`Clocks`)."""
        self.last_wait: object = None
        """The statement of the last wait (`Clocks`)."""
        self.unknown_waits: deque[tuple[int, int]] = deque()
        """The waits that the setting pipe does not know to be over (`Clocks`)."""

    def give(self, stamp: T) -> None:
        """It is set once more."""
        if self.owed:
            self.owed -= 1
            return
        self.stamps.append(stamp)
        self.stamp = self.stamps[0]

    def take(self) -> T | None:
        """A wait takes the oldest set."""
        stamp = self.stamps.popleft() if self.stamps else None
        if self.setters:
            self.setters.popleft()
        self.stamp = self.stamps[0] if self.stamps else None
        return stamp


@dataclass(frozen=True)
class Stuck:
    """A pipe waits for a flag or an event that is never set. `what` is the statement; None for a handshake."""

    pipe: str
    flag: Hashable
    what: object
    others: tuple[Stuck, ...] = ()
    """The waits of other pipes that keep the flag from being set, and that wait for this one in turn."""


@dataclass(slots=True)
class Delayed:
    """What a core issues when it is no longer stalled."""

    run: Callable[[], None]
    at: Pipe
    ticks: int = 0
    sets: Signal[Any] | None = None


@dataclass(slots=True)
class PipeItem(Generic[T]):
    """An item in the queue of a pipe."""

    run: Callable[[], None]
    issued: T
    ticks: int = 0
    """1 for work and waits for flags: those count in the time of `Clocks`."""
    signal: Signal[T] | None = None
    """What must be set before it runs."""
    stuck: Stuck | None = None
    """What to report if it never is."""
    sets: Signal[T] | None = None
    """What it sets."""
    after: Signal[T] | None = None
    """What should be set before it runs, as long as other items can run (`Adversary`)."""
    turn: int = field(default_factory=count().__next__)
    """Its place in the order of issue."""


class PipeTable(dict[str, P]):
    """The pipes by name. A pipe that is not there yet is made, its scalar pipe first."""

    def __init__(self, pipe_type: type[P]) -> None:
        super().__init__()
        self._type = pipe_type

    def __missing__(self, name: str) -> P:
        scalar = f"{core_of(name)}.{SCALAR}"
        issuing = None if name == scalar else self[scalar]
        pipe = self[name] = self._type(name, len(self), issuing)
        return pipe


def _ignore(stuck: Stuck) -> None:
    """Report nothing."""


class PipeEngine(Generic[P, T, W]):
    """The pipes of one block after the other."""

    pipe_type: type[P]
    defers = False
    """Whether every item is queued, for the engine to choose the next one to run."""

    def __init__(self, pipes: Iterable[str] = (), on_stuck: Callable[[Stuck], None] = _ignore) -> None:
        """`pipes` are those that barriers reach even if nothing is issued to them."""
        self.on_stuck = on_stuck
        self._pipes = PipeTable(self.pipe_type)
        for name in pipes:
            self._pipes[name]
        self._flags: defaultdict[Hashable, Signal[T]] = defaultdict(Signal)
        self._semaphores: defaultdict[Hashable, Semaphore[T]] = defaultdict(Semaphore)
        self._events: dict[Hashable, list[tuple[str, Signal[T]]]] = {}
        """The pipes that signal an event."""
        self._held: dict[str, P] = {}
        """The pipes that have items in their queues, in the order in which they were held."""

    def finish(self) -> None:
        """Run the items of the block that are still held: their flags are never set. Of waits that hold one another,
        the one that was issued first is the cause: its set comes too late. Those that it alone holds go on with it."""
        while self._held:
            self._force(*self._cause(min(self._held_pipes(), key=lambda pipe: pipe.queue[0].turn)))

    def forget(self) -> None:
        """Forget the flags and events of a block: the next one has its own."""
        self._flags.clear()
        self._semaphores.clear()
        self._events.clear()

    # --- the notion of time

    def _issue(self, pipe: P) -> T:
        """When the next item of a pipe is issued."""
        raise NotImplementedError

    def _work(self, pipe: P, issued: T, limit: T | None, work: W, /) -> None:
        """Run work. `limit` is that of an item that was held (`_limit`)."""
        raise NotImplementedError

    def _stamp(self, pipe: P, issued: T, /) -> T:
        """When a pipe sets a flag that it sets now."""
        raise NotImplementedError

    def _receive(self, pipe: P, issued: T, stamp: T | None, takes: bool, /) -> None:
        """A pipe has waited for a signal set at `stamp`; None if it is never set. `takes` for flags, not events."""
        raise NotImplementedError

    def _limit(self) -> T | None:
        """The most that an item queued now can know, however late it runs."""
        return None

    # --- what is issued

    def work(self, pipe: str, work: W) -> None:
        """A pipe does work."""
        self._issue_work(self._pipes[pipe], work, None)

    def _issue_work(self, at: P, work: W, limit: T | None) -> None:
        if self._is_stalled(at):
            self._delay(at, partial(self._issue_work, at, work, self._limit()), ticks=1)
            return
        issued = self._issue(at)
        if at.queue or self.defers:
            run = partial(self._work, at, issued, self._limit() if limit is None else limit, work)
            self._hold(at, PipeItem(run, issued, ticks=1))
        else:
            self._work(at, issued, limit, work)

    def set(self, src: str, flag: Hashable, what: object = None) -> None:
        """A pipe sets a flag."""
        self._issue_set(self._pipes[src], self._flags[flag], flag, what)

    def wait(self, dst: str, flag: Hashable, what: object = None) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        self._issue_wait(self._pipes[dst], self._flags[flag], flag, what)

    def cross_set(self, src: str, flag: Hashable, what: object = None) -> None:
        """A pipe sets a flag of its core for the other core."""
        self._issue_set(self._pipes[src], self._semaphores[flag], flag, what, ticks=1)

    def cross_wait(self, dst: str, flag: Hashable, what: object = None) -> None:
        """A pipe waits for a flag of the other core."""
        self._issue_wait(self._pipes[dst], self._semaphores[flag], flag, what)

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another: an instruction's own flag, which no statement can touch."""
        first, then = self._pipes[src], self._pipes[dst]
        if first.queue or then.queue or self.defers or self._is_stalled(first) or self._is_stalled(then):
            signal: Signal[T] = Signal()
            self._issue_set(first, signal)
            self._issue_wait(then, signal)
        else:
            stamp = self._stamp(first, self._issue(first))
            self._receive(then, self._issue(then), stamp, True)

    def barrier(self, core: str = "") -> None:
        """Everything issued so far comes before everything issued later, on one core, or on each by itself."""
        for scalar in [pipe for pipe in self._pipes.values() if pipe is pipe.scalar]:
            if core in ("", core_of(scalar.name)):
                self._issue_barrier(scalar)

    def _issue_barrier(self, scalar: P) -> None:
        if self._is_stalled(scalar):
            self._delay(scalar, partial(self._issue_barrier, scalar))
        else:
            self._barrier(scalar, [pipe for pipe in self._pipes.values() if pipe.scalar is scalar])

    def _barrier(self, scalar: P, pipes: list[P]) -> None:
        """A scalar pipe waits for all pipes of its core."""
        for pipe in pipes:
            if pipe is not scalar:
                self.sync(pipe.name, scalar.name)

    def fence(self, pipe: str) -> None:
        """What was issued to a pipe so far ends before anything that is issued to it later begins."""
        self.sync(pipe, pipe)

    def signal_event(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on these pipes has ended. Signalled again, as in a loop, it is another event."""
        signals: list[tuple[str, Signal[T]]] = [(pipe, Signal()) for pipe in pipes]
        self._events[event] = signals
        for pipe, signal in signals:
            self._issue_set(self._pipes[pipe], signal)

    def wait_event(self, event: Hashable, pipes: Sequence[str], what: object = None) -> None:
        """An instruction on these pipes starts after an event of its core. It can be waited for more than once."""
        for dst in pipes:
            for src, signal in self._events.get(event, ((dst, Signal[T]()),)):
                if core_of(src) == core_of(dst):
                    self._issue_wait(self._pipes[dst], signal, event, what, takes=False)

    def _issue_set(
        self, at: P, signal: Signal[T], flag: Hashable = None, what: object = None, *, ticks: int = 0
    ) -> None:
        if self._is_stalled(at):
            again = partial(self._issue_set, at, signal, flag, what, ticks=ticks)
            self._delay(at, again, ticks=ticks, sets=signal)
            return
        issued = self._issue(at)
        if at.queue or self.defers:
            run = partial(self._set, at, issued, signal, flag, what)
            self._hold(at, PipeItem(run, issued, ticks, sets=signal))
        else:
            self._set(at, issued, signal, flag, what)
            if self._held:
                self._advance()

    def _issue_wait(
        self, at: P, signal: Signal[T], flag: Hashable = None, what: object = None, *, takes: bool = True
    ) -> None:
        if self._is_stalled(at):
            again = partial(self._issue_wait, at, signal, flag, what, takes=takes)
            self._delay(at, again, ticks=int(takes))
            return
        issued = self._issue(at)
        if at.queue or signal.stamp is None or self.defers:
            run = partial(self._wait, at, issued, signal, takes, flag, what)
            self._hold(at, PipeItem(run, issued, int(takes), signal, Stuck(at.name, flag, what)))
        else:
            self._wait(at, issued, signal, takes, flag, what)

    # --- how items run

    def _set(self, at: P, issued: T, signal: Signal[T], _flag: Hashable, _what: object) -> None:
        signal.give(self._stamp(at, issued))

    def _wait(self, at: P, issued: T, signal: Signal[T], takes: bool, _flag: Hashable, _what: object) -> None:
        self._receive(at, issued, signal.take() if takes else signal.stamp, takes)

    def _hold(self, at: P, item: PipeItem[T]) -> None:
        """Queue an item. A scalar pipe can be held only by the other core, maybe through a pipe of its own."""
        self._queue(at, item)
        if at is at.scalar and not isinstance(self._cause(at)[0].queue[0].signal, Semaphore):
            self._force(at)

    def _is_stalled(self, at: P) -> bool:
        """Whether the core of a pipe issues nothing, because its scalar pipe waits for the other core."""
        return bool(at.scalar.queue) and not self.defers

    def _delay(self, at: P, run: Callable[[], None], *, ticks: int = 0, sets: Signal[T] | None = None) -> None:
        """Issue something to a pipe of a stalled core later."""
        at.pending += ticks
        at.scalar.later.append(Delayed(run, at, ticks, sets))

    def _resume(self, scalar: P) -> None:
        """A scalar pipe has waited: its core issues what was delayed."""
        while scalar.later and not scalar.queue:
            delayed = scalar.later.popleft()
            delayed.at.pending -= delayed.ticks
            delayed.run()

    def _queue(self, at: P, item: PipeItem[T]) -> None:
        at.queue.append(item)
        at.pending += item.ticks
        self._held[at.name] = at

    def _held_pipes(self) -> list[P]:
        """The pipes that have items in their queues."""
        return list(self._held.values())

    def _take(self, at: P) -> PipeItem[T]:
        item = at.queue.popleft()
        at.pending -= item.ticks
        if not at.queue:
            del self._held[at.name]
        return item

    def _advance(self) -> None:
        """Run every item that no longer has to wait."""
        moved = True
        while moved:
            moved = False
            for pipe in self._held_pipes():
                while pipe.queue and is_set(pipe.queue[0].signal):
                    self._take(pipe).run()
                    moved = True
                    if pipe is pipe.scalar:
                        self._resume(pipe)

    def _cause(self, held: P) -> tuple[P, tuple[Stuck, ...]]:
        """The pipe whose wait is why a pipe is held; and if pipes wait for one another, the waits of the others."""
        chain: list[P] = []
        following: P | None = held
        while following is not None and following not in chain:
            chain.append(following)
            following = self._holds_back(following.queue[0].signal)
        if following is None:
            return chain[-1], ()
        circle = sorted(chain[chain.index(following) :], key=lambda pipe: pipe.queue[0].turn)
        return circle[0], tuple(stuck for pipe in circle[1:] if (stuck := pipe.queue[0].stuck))

    def _holds_back(self, signal: Signal[T] | None) -> P | None:
        """The pipe that is held, so that a signal is not set."""
        if signal is None:
            return None
        for pipe in self._held_pipes():
            if any(item.sets is signal for item in (*pipe.queue, *pipe.later)):
                return pipe
        return None

    def _force(self, at: P, others: tuple[Stuck, ...] = ()) -> None:
        """Report the wait that holds a pipe, and end it."""
        item = self._take(at)
        assert item.stuck is not None
        self.on_stuck(replace(item.stuck, others=others) if others else item.stuck)
        if item.stuck.what is None:
            self._report_held(at.scalar)
        if isinstance(item.signal, Semaphore) and item.signal.stamp is None:
            item.signal.owed += 1
        item.run()
        if at is at.scalar:
            self._resume(at)
        self._advance()

    def _report_held(self, scalar: P) -> None:
        """A handshake is stuck only because another pipe of its core is held: report what holds those."""
        for pipe in self._held_pipes():
            if pipe.scalar is scalar and pipe.queue[0].stuck:
                self.on_stuck(pipe.queue[0].stuck)
