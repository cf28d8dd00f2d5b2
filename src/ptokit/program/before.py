"""The happens-before relation of an unrolled program.

An `OrderCheck` goes through the program and keeps, for every pipe, the set of steps and waits that certainly come
before the pipe's next step. A set is an integer, an element one of its bits: steps first, then waits, each in program
order.

Where paths join, only what is known on all of them counts. Steps of an arm or an iteration that a path does not execute
count as known on it: nothing has to wait for what does not happen.

This is not the engine of `machine/pipes.py`, though both have the same operations by the same names. That engine runs
one execution: flags have a state, a pipe whose flag is not set is held, items queue. Here all paths are checked at
once: nothing runs, so nothing is held; state is copied at a fork and intersected at a join; and checks are copied and
continued from any operation, which is how `order.py` finds out which flags are not needed. Queues would make that
impossible, and vector clocks cannot express the intersection, because what is known of a pipe on all paths is not a
prefix of its steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

from ptokit.finding import Where
from ptokit.program.cores import core_of, unit_of
from ptokit.program.memory import Outline, Path
from ptokit.target import SCALAR

Slot = tuple[Path, int]
"""The position before a statement of a block, or after its last."""


@dataclass(frozen=True)
class PipeStep:
    """The work of one pipe for a statement, in one iteration of the loops around it."""

    pipe: str
    gate: str
    """The pipe that should wait for what this step needs."""
    path: Path
    iterations: tuple[int, ...]
    """The iteration of each loop around, the outermost first."""
    conflicts: int
    """Earlier steps that must come before it."""
    where: Where | None
    needs: int = 0
    """Earlier steps of its own pipe that must have ended, if instructions of that pipe may overlap."""
    fences: bool = False
    """Whether it has a barrier inside: what its pipe did before has ended then."""
    ends: bool = False
    """Whether it ends with one."""


@dataclass(frozen=True)
class Unrolled:
    """An unrolled program."""

    pipes: tuple[str, ...]
    steps: list[PipeStep]
    ops: list[Callable[[OrderCheck], None]]
    """Calls of methods of `OrderCheck`."""
    slots: dict[Slot, int]
    """The operation at which each slot comes first."""
    outline: Outline
    overlapping: tuple[str, ...]
    """The pipes whose instructions may overlap."""
    copies: dict[Path, int]
    """After how many iterations each loop uses the same tiles again, by the path of its body."""


@dataclass
class KnownOrder:
    """The order that is known at one point of one path."""

    known: dict[str, int]
    """For each pipe: what comes before its next step."""
    issued: dict[str, int]
    """For each core: what comes before everything that it issues from now on."""
    sent: dict[Hashable, int] = field(default_factory=dict)
    """For each flag that is set, and each event: what comes before it."""
    done: dict[str, int] = field(default_factory=dict)
    """For each pipe whose instructions may overlap: its own steps that have ended before its next step."""

    def copy(self) -> KnownOrder:
        """A copy, to follow another path."""
        return KnownOrder(dict(self.known), dict(self.issued), dict(self.sent), dict(self.done))

    def ended(self, pipe: str) -> int:
        """The steps of a pipe that have ended before its next one."""
        return self.done[pipe] | self.issued[core_of(pipe)]

    def end(self, pipe: str) -> None:
        """All steps of a pipe so far end before its next one."""
        if pipe in self.done:
            self.done[pipe] |= self.known[pipe]

    def before(self, pipe: str) -> int:
        """What comes before the next step of a pipe."""
        return self.known[pipe] | self.issued[core_of(pipe)]

    def add(self, pipe: str, more: int) -> None:
        """A pipe has waited for these steps and waits."""
        self.known[pipe] |= more
        if pipe in self.done:
            self.done[pipe] |= more
        if unit_of(pipe) == SCALAR:
            self.issued[core_of(pipe)] |= self.known[pipe]

    def assuming(self, more: int) -> KnownOrder:
        """The same, with more steps and waits known everywhere."""
        sent = {key: known | more for key, known in self.sent.items()}
        issued = {core: known | more for core, known in self.issued.items()}
        return KnownOrder(dict(self.known), issued, sent, dict(self.done))


def intersection(orders: Sequence[KnownOrder]) -> KnownOrder:
    """What is known on every path."""
    total = orders[0]
    for other in orders[1:]:
        total = KnownOrder(
            {pipe: total.before(pipe) & other.before(pipe) for pipe in total.known},
            {core: known & other.issued[core] for core, known in total.issued.items()},
            {key: known & other.sent[key] for key, known in total.sent.items() if key in other.sent},
            {pipe: total.ended(pipe) & other.ended(pipe) for pipe in total.done},
        )
    return total


@dataclass(frozen=True)
class _Point:
    """A point of a check."""

    order: KnownOrder
    steps: int
    clock: int


@dataclass(frozen=True)
class _Fork:
    """A point where paths fork, and the ends of the paths checked so far."""

    start: _Point
    ends: tuple[_Point, ...] = ()


class Incomplete(Exception):
    """A race, or a flag that may be set twice."""


class Action(Protocol):
    """An operation at a slot, in an iteration of the loop around it."""

    def __call__(self, check: OrderCheck, iteration: int) -> None: ...


class OrderCheck:
    """One pass over an unrolled program, with `actions` at its slots, up to the first fault."""

    def __init__(self, unrolled: Unrolled, actions: Mapping[Slot, Sequence[Action]]) -> None:
        self.unrolled = unrolled
        self.actions = actions
        self.now = KnownOrder(
            dict.fromkeys(unrolled.pipes, 0),
            dict.fromkeys(map(core_of, unrolled.pipes), 0),
            done=dict.fromkeys(unrolled.overlapping, 0),
        )
        self._waited: dict[Any, int] = defaultdict(int)
        self._forks: tuple[_Fork, ...] = ()
        self._at = 0
        self._steps = 0
        self._clock = 0

    def copy(self) -> OrderCheck:
        """A copy that can continue with other actions."""
        other = copy(self)
        other.now, other._waited = self.now.copy(), self._waited.copy()
        return other

    def advance(self, to: int | None = None) -> None:
        """Continue to an operation, or to the end. Raises `Incomplete`."""
        ops = self.unrolled.ops[self._at : to]
        self._at += len(ops)
        for op in ops:
            op(self)

    def is_complete(self) -> bool:
        """Whether the rest has no fault."""
        try:
            self.advance()
        except Incomplete:
            return False
        return True

    def on_race(self, _step: PipeStep, _missing: int) -> None:
        """Nothing orders some earlier steps, which conflict with this one, before it."""
        raise Incomplete

    def on_early(self, _flag: Any) -> None:
        """A flag may be set before the wait for an earlier set is over."""
        raise Incomplete

    def on_overlap(self, _step: PipeStep, _missing: int) -> None:
        """Earlier steps of the same pipe, which this one depends on, may not have ended. Flags do not depend on it."""

    # --- steps and flags ---

    def work(self, bit: int) -> None:
        """A pipe does a step."""
        step, now = self.unrolled.steps[bit], self.now
        missing = step.conflicts & ~now.before(step.pipe)
        if missing:
            self.on_race(step, missing)
        if step.needs and (unfinished := step.needs & ~now.ended(step.pipe)):
            self.on_overlap(step, unfinished)
        if step.fences:
            now.end(step.pipe)
        now.known[step.pipe] = now.before(step.pipe) | 1 << bit
        if step.ends:
            now.end(step.pipe)
        self._steps += 1

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another."""
        self.now.add(dst, self.now.before(src))

    def set(self, src: str, flag: Hashable) -> None:
        """A pipe sets a flag. If it is set already, the next wait may be for either set."""
        known = self.now.before(src)
        self.now.sent[flag] = known & self.now.sent.get(flag, known)

    def wait(self, dst: str, flag: Hashable) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        self.now.add(dst, self.now.sent.pop(flag, 0))

    def barrier(self, core: str = "") -> None:
        """Everything issued so far comes before everything issued later, on one core, or on each by itself."""
        for pipe, known in self.now.known.items():
            if core in ("", core_of(pipe)):
                self.now.issued[core_of(pipe)] |= known

    def fence(self, pipe: str) -> None:
        """A barrier on one pipe."""
        self.now.end(pipe)

    def signal_event(self, event: Hashable, pipes: tuple[str, ...]) -> None:
        """An instruction on these pipes has ended."""
        for core in self.now.issued:
            self.now.sent[event, core] = 0
        for pipe in pipes:
            self.now.sent[event, core_of(pipe)] |= self.now.before(pipe)

    def wait_event(self, event: Hashable, pipes: tuple[str, ...]) -> None:
        """An instruction on these pipes starts after an event of its core. It can be waited for more than once."""
        for pipe in pipes:
            self.now.add(pipe, self.now.sent.get((event, core_of(pipe)), 0))

    # --- flags that are checked ---

    def slot(self, slot: Slot, iteration: int) -> None:
        """A position at which there may be actions."""
        for action in self.actions.get(slot, ()):
            action(self, iteration)

    def checked_set(self, src: str, flag: Any, number: int) -> None:
        """A pipe sets one of a flag's events. Every earlier wait for it must be over."""
        self._clock += 1
        key, known = (flag, number), self.now.before(src)
        if self._waited[key] & ~known:
            self.on_early(flag)
        self.now.sent[key] = known

    def checked_wait(self, dst: str, flag: Any, number: int) -> None:
        """A pipe waits for one of a flag's events."""
        self._clock += 1
        key, bit = (flag, number), 1 << self._first_wait + self._clock
        self._waited[key] |= bit
        self.now.add(dst, self.now.sent.pop(key) | bit)

    @property
    def _first_wait(self) -> int:
        """The bits of waits follow those of the steps."""
        return len(self.unrolled.steps)

    # --- paths that fork and join ---

    def fork(self) -> None:
        """Paths fork here."""
        self._forks = (*self._forks, _Fork(self._point()))

    def end_path(self) -> None:
        """A path ends here and continues at the join."""
        *others, fork = self._forks
        self._forks = (*others, _Fork(fork.start, (*fork.ends, self._point())))

    def next_path(self) -> None:
        """Go back to the fork, to follow another path."""
        self.now = self._since(self._forks[-1].start)

    def join(self) -> None:
        """The paths join here."""
        *others, fork = self._forks
        self._forks = tuple(others)
        self.now = intersection([self._since(end) for end in fork.ends])

    def _point(self) -> _Point:
        return _Point(self.now.copy(), self._steps, self._clock)

    def _since(self, point: _Point) -> KnownOrder:
        """What is known at an earlier point, on a path that does not execute what was checked since."""
        waits = self._first_wait + 1
        skipped = _bits(point.steps, self._steps) | _bits(waits + point.clock, waits + self._clock)
        return point.order.assuming(skipped)


class FaultCollector(OrderCheck):
    """A pass to the end that collects the faults, and when flags are set and waited for."""

    def __init__(self, unrolled: Unrolled, actions: Mapping[Slot, Sequence[Action]]) -> None:
        super().__init__(unrolled, actions)
        self.races: dict[tuple[int, int], None] = {}
        """Pairs of steps that nothing orders, by their numbers."""
        self.early: dict[Any, None] = {}
        """Flags that may be set before the wait for an earlier set is over."""
        self.sets: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        """For each flag: when it is set, and what comes before."""
        self.waits: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
        """For each flag: when it is waited for, the bit of the wait, and what comes before."""
        self.overlaps: dict[tuple[int, int], None] = {}
        """Pairs of steps of one pipe, by their numbers, that may overlap although one depends on the other."""
        self._after: list[int] = []
        self.advance()

    def on_race(self, step: PipeStep, missing: int) -> None:
        """Note the latest missing step, continue as if a flag ordered it, and repeat for what is still missing."""
        while missing:
            latest = missing.bit_length() - 1
            self.races[latest, self._steps] = None
            self.now.add(step.pipe, self._after[latest])
            missing &= ~self.now.before(step.pipe)

    def on_early(self, flag: Any) -> None:
        self.early[flag] = None

    def on_overlap(self, step: PipeStep, missing: int) -> None:
        """Note the latest missing step, and continue as if a barrier came before this one."""
        self.overlaps[missing.bit_length() - 1, self._steps] = None
        self.now.end(step.pipe)

    def work(self, bit: int) -> None:
        super().work(bit)
        self._after.append(self.now.before(self.unrolled.steps[bit].pipe))

    def checked_set(self, src: str, flag: Any, number: int) -> None:
        super().checked_set(src, flag, number)
        self.sets[flag].append((self._clock, self.now.sent[flag, number]))

    def checked_wait(self, dst: str, flag: Any, number: int) -> None:
        known = self.now.before(dst)
        super().checked_wait(dst, flag, number)
        self.waits[flag].append((self._clock, 1 << self._first_wait + self._clock, known))


def _bits(first: int, end: int) -> int:
    return (1 << end) - (1 << first)
