"""The pipes of a block: in-order queues of work, sets and waits. One engine for every notion of time.

A pipe is named with its core (`AIV.MTE2`). It runs its items in the order of issue. The scalar pipe of a core issues
the items of all its pipes. An item that waits for a flag that is not set holds its pipe: the items behind it queue
until the flag is set. A scalar pipe cannot be held, because nothing could then issue the set: the wait is reported as
stuck and ends at once. At the end of a block every wait that still holds a pipe is reported as stuck, and ends.

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
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Generic, Self, TypeVar

from ptokit.target import SCALAR


def core_of(pipe: str) -> str:
    """The core of a pipe: `AIV` of `AIV.MTE2`."""
    return pipe.partition(".")[0]


def unit_of(pipe: str) -> str:
    """A pipe without its core: `MTE2` of `AIV.MTE2`."""
    return pipe.rpartition(".")[2]


class Pipe:
    """A pipe during a block."""

    __slots__ = ("name", "number", "pending", "queue", "scalar")

    scalar: Self
    """The pipe that issues the items of this one."""

    def __init__(self, name: str, number: int, scalar: Self | None) -> None:
        self.name, self.number, self.scalar = name, number, scalar or self
        self.queue: deque[PipeItem[Any]] = deque()
        """Items that cannot run yet."""
        self.pending = 0
        """How many of them are work or waits for flags."""


P = TypeVar("P", bound=Pipe)
T = TypeVar("T")
"""What an engine knows of a point in time."""
W = TypeVar("W")
"""The work that an engine takes."""


class Signal(Generic[T]):
    """A flag or an event."""

    __slots__ = ("setter", "stamp", "waited")

    def __init__(self) -> None:
        self.stamp: T | None = None
        """When it was set; None while it is not."""
        self.setter: object = None
        self.waited: tuple[int, int] | None = None
        """The pipe and the time of the last wait (`Clocks`)."""


@dataclass(frozen=True)
class Stuck:
    """A pipe waits for a flag or an event that is never set. `what` is the statement; None for a handshake."""

    pipe: str
    flag: Hashable
    what: object


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
        self._events: dict[Hashable, list[Signal[T]]] = {}
        self._held: dict[str, P] = {}
        """The pipes that have items in their queues, in the order in which they were held."""

    def finish(self) -> None:
        """Run the items of the block that are still held: their flags are never set. Of waits that hold one another,
        the one that was issued first is the cause: its set comes too late. Those that it alone holds go on with it."""
        while self._held:
            self._force(min(self._held_pipes(), key=lambda pipe: pipe.queue[0].turn))

    def forget(self) -> None:
        """Forget the flags and events of a block: the next one has its own."""
        self._flags.clear()
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
        at = self._pipes[pipe]
        issued = self._issue(at)
        if at.queue or self.defers:
            self._hold(at, PipeItem(partial(self._work, at, issued, self._limit(), work), issued, ticks=1))
        else:
            self._work(at, issued, None, work)

    def set(self, src: str, flag: Hashable, what: object = None) -> None:
        """A pipe sets a flag."""
        self._issue_set(self._pipes[src], self._flags[flag], flag, what)

    def wait(self, dst: str, flag: Hashable, what: object = None) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        self._issue_wait(self._pipes[dst], self._flags[flag], flag, what)

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another: an instruction's own flag, which no statement can touch."""
        first, then = self._pipes[src], self._pipes[dst]
        if first.queue or then.queue or self.defers:
            signal: Signal[T] = Signal()
            self._issue_set(first, signal)
            self._issue_wait(then, signal)
        else:
            stamp = self._stamp(first, self._issue(first))
            self._receive(then, self._issue(then), stamp, True)

    def barrier(self) -> None:
        """Everything issued so far comes before everything issued later."""
        names = list(self._pipes)
        for scalar in (name for name in names if unit_of(name) == SCALAR):
            for name in names:
                if name != scalar:
                    self.sync(name, scalar)

    def signal_event(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on these pipes has ended. Signalled again, as in a loop, it is another event."""
        signals: list[Signal[T]] = [Signal() for _ in pipes]
        self._events[event] = signals
        for pipe, signal in zip(pipes, signals, strict=True):
            self._issue_set(self._pipes[pipe], signal)

    def wait_event(self, event: Hashable, pipes: Sequence[str], what: object = None) -> None:
        """An instruction on these pipes starts after an event. An event can be waited for more than once."""
        never: list[Signal[T]] = [Signal()]
        for dst in pipes:
            for signal in self._events.get(event, never):
                self._issue_wait(self._pipes[dst], signal, event, what, takes=False)

    def _issue_set(self, at: P, signal: Signal[T], flag: Hashable = None, what: object = None) -> None:
        issued = self._issue(at)
        if at.queue or self.defers:
            self._hold(at, PipeItem(partial(self._set, at, issued, signal, flag, what), issued))
        else:
            self._set(at, issued, signal, flag, what)
            if self._held:
                self._advance()

    def _issue_wait(
        self, at: P, signal: Signal[T], flag: Hashable = None, what: object = None, *, takes: bool = True
    ) -> None:
        issued = self._issue(at)
        if at.queue or signal.stamp is None or self.defers:
            run = partial(self._wait, at, issued, signal, takes)
            self._hold(at, PipeItem(run, issued, int(takes), signal, Stuck(at.name, flag, what)))
        else:
            self._wait(at, issued, signal, takes)

    # --- how items run

    def _set(self, at: P, issued: T, signal: Signal[T], _flag: Hashable, _what: object) -> None:
        signal.stamp = self._stamp(at, issued)

    def _wait(self, at: P, issued: T, signal: Signal[T], takes: bool) -> None:
        stamp = signal.stamp
        if takes:
            signal.stamp = None
        self._receive(at, issued, stamp, takes)

    def _hold(self, at: P, item: PipeItem[T]) -> None:
        """Queue an item. A scalar pipe cannot be held."""
        self._queue(at, item)
        if at is at.scalar:
            self._force(at)

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

    def _is_ready(self, _at: P, item: PipeItem[T]) -> bool:
        return item.signal is None or item.signal.stamp is not None

    def _advance(self) -> None:
        """Run every item that no longer has to wait."""
        moved = True
        while moved:
            moved = False
            for pipe in self._held_pipes():
                while pipe.queue and self._is_ready(pipe, pipe.queue[0]):
                    self._take(pipe).run()
                    moved = True

    def _force(self, at: P) -> None:
        """Report the wait that holds a pipe, and end it."""
        item = self._take(at)
        assert item.stuck is not None
        self.on_stuck(item.stuck)
        if item.stuck.what is None:
            self._report_held(at.scalar)
        item.run()
        self._advance()

    def _report_held(self, scalar: P) -> None:
        """A handshake is stuck only because another pipe of its core is held: report what holds those."""
        for pipe in self._held_pipes():
            if pipe.scalar is scalar and pipe.queue[0].stuck:
                self.on_stuck(pipe.queue[0].stuck)
