"""What certainly happens before what in a program that is written out.

Going through it, a `Walk` keeps for every pipe the set of works and waits that certainly come before what the pipe does
next. A set is a whole number, an element one of its bits: works first, then waits, each in the order of the text.

Where paths meet, what counts is what is known on all of them. Works of an arm or a turn that was not taken count as
known: nothing has to wait for what does not happen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

from ptokit.finding import Where
from ptokit.program.memory import Outline, Path
from ptokit.program.steps import ISSUE

Slot = tuple[Path, int]
"""The place before a statement of a block, or after its last."""


@dataclass(frozen=True)
class Work:
    """What one pipe does for a statement in one turn of the loops around it."""

    pipe: str
    gate: str
    """The pipe that should wait for what this work needs."""
    path: Path
    turns: tuple[int, ...]
    """The turn of each loop around, from the outside in."""
    conflicts: int
    """Earlier works that it must come after."""
    where: Where | None


@dataclass(frozen=True)
class Unrolled:
    """A program written out."""

    pipes: tuple[str, ...]
    works: list[Work]
    ops: list[Callable[[Walk], None]]
    """Calls of a run's methods."""
    slots: dict[Slot, int]
    """The operation where each slot comes for the first time."""
    outline: Outline
    copies: dict[Path, int]
    """How many turns of each loop go by before one uses the tiles of an earlier one; by the paths of their bodies."""


@dataclass
class Moment:
    """What is known at one point of one path."""

    known: dict[str, int]
    """For each pipe: what comes before its next work."""
    issued: int = 0
    """What comes before everything that is issued from now on."""
    sent: dict[Hashable, int] = field(default_factory=dict)
    """For each flag that is set, and each event: what comes before it."""

    def copy(self) -> Moment:
        """The same, to go another way."""
        return Moment(dict(self.known), self.issued, dict(self.sent))

    def before(self, pipe: str) -> int:
        """What comes before the next work of a pipe."""
        return self.known[pipe] | self.issued

    def learn(self, pipe: str, news: int) -> None:
        """A pipe waits for something."""
        self.known[pipe] |= news
        if pipe == ISSUE:
            self.issued |= self.known[pipe]

    def assuming(self, news: int) -> Moment:
        """The same, with something counted as known everywhere."""
        sent = {key: known | news for key, known in self.sent.items()}
        return Moment(dict(self.known), self.issued | news, sent)


def agree(moments: Sequence[Moment]) -> Moment:
    """What is known whichever way was taken."""
    total = moments[0]
    for other in moments[1:]:
        total = Moment(
            {pipe: total.before(pipe) & other.before(pipe) for pipe in total.known},
            total.issued & other.issued,
            {key: known & other.sent[key] for key, known in total.sent.items() if key in other.sent},
        )
    return total


@dataclass(frozen=True)
class _Mark:
    """A point of a run."""

    moment: Moment
    works: int
    clock: int


@dataclass(frozen=True)
class _Fork:
    """A point where ways part, and the ends of those that were taken so far."""

    start: _Mark
    ends: tuple[_Mark, ...] = ()


class Incomplete(Exception):
    """A race, or a flag that may be set twice."""


class Action(Protocol):
    """Something that is done at a slot, in a turn of the loop around it."""

    def __call__(self, run: Walk, turn: int) -> None: ...


class Walk:
    """One walk through an unrolled program, with `actions` at its slots, up to the first fault."""

    def __init__(self, unrolled: Unrolled, actions: Mapping[Slot, Sequence[Action]]) -> None:
        self.unrolled = unrolled
        self.actions = actions
        self.now = Moment(dict.fromkeys(unrolled.pipes, 0))
        self._waited: dict[Any, int] = defaultdict(int)
        self._forks: tuple[_Fork, ...] = ()
        self._at = 0
        self._works = 0
        self._clock = 0

    def copy(self) -> Walk:
        """The same, to go on in another way."""
        other = copy(self)
        other.now, other._waited = self.now.copy(), self._waited.copy()
        return other

    def advance(self, to: int | None = None) -> None:
        """Go on to an operation, or to the end. Raises `Incomplete`."""
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

    def race(self, work: Work, missing: int) -> None:
        """Nothing makes some works come before another, as they must."""
        raise Incomplete

    def early(self, flag: Any) -> None:
        """A flag may be set before an earlier set has been waited for."""
        raise Incomplete

    # --- works and flags ---

    def work(self, bit: int) -> None:
        """A pipe does something."""
        work, now = self.unrolled.works[bit], self.now
        missing = work.conflicts & ~now.before(work.pipe)
        if missing:
            self.race(work, missing)
        now.known[work.pipe] |= now.issued | 1 << bit
        self._works += 1

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another."""
        self.now.learn(dst, self.now.before(src))

    def set(self, src: str, flag: Hashable) -> None:
        """A pipe sets a flag; one that is set already may be what the next wait is for."""
        known = self.now.before(src)
        self.now.sent[flag] = known & self.now.sent.get(flag, known)

    def wait(self, dst: str, flag: Hashable) -> None:
        """A pipe waits for a flag."""
        self.now.learn(dst, self.now.sent.pop(flag, 0))

    def barrier(self) -> None:
        """Everything so far comes before all that follows."""
        for known in self.now.known.values():
            self.now.issued |= known

    def signal(self, event: Hashable, pipes: tuple[str, ...]) -> None:
        """An instruction on these pipes has ended."""
        self.now.sent[event] = 0
        for pipe in pipes:
            self.now.sent[event] |= self.now.before(pipe)

    def hear(self, event: Hashable, pipes: tuple[str, ...]) -> None:
        """An instruction on these pipes starts after an event."""
        for pipe in pipes:
            self.now.known[pipe] |= self.now.sent.get(event, 0)

    # --- flags that are checked ---

    def slot(self, slot: Slot, turn: int) -> None:
        """A place where flags may stand."""
        for action in self.actions.get(slot, ()):
            action(self, turn)

    def checked_set(self, src: str, flag: Any, number: int) -> None:
        """A pipe sets one of a flag's events; every earlier wait for it must be over."""
        self._clock += 1
        key, known = (flag, number), self.now.before(src)
        if self._waited[key] & ~known:
            self.early(flag)
        self.now.sent[key] = known

    def checked_wait(self, dst: str, flag: Any, number: int) -> None:
        """A pipe waits for one of a flag's events."""
        self._clock += 1
        key, bit = (flag, number), 1 << self._first_wait + self._clock
        self._waited[key] |= bit
        self.now.learn(dst, self.now.sent.pop(key) | bit)

    @property
    def _first_wait(self) -> int:
        """The bits of waits follow those of the works."""
        return len(self.unrolled.works)

    # --- ways that part and meet ---

    def part(self) -> None:
        """Ways part here."""
        self._forks = (*self._forks, _Fork(self._mark()))

    def leave(self) -> None:
        """Some go on from here to where the ways meet."""
        *others, fork = self._forks
        self._forks = (*others, _Fork(fork.start, (*fork.ends, self._mark())))

    def go_back(self) -> None:
        """Back to where the ways parted, to take another one."""
        self.now = self._since(self._forks[-1].start)

    def meet(self) -> None:
        """The ways meet."""
        *others, fork = self._forks
        self._forks = tuple(others)
        self.now = agree([self._since(end) for end in fork.ends])

    def _mark(self) -> _Mark:
        return _Mark(self.now.copy(), self._works, self._clock)

    def _since(self, mark: _Mark) -> Moment:
        """What is known at an earlier point by one who takes no part in what was done since."""
        waits = self._first_wait + 1
        skipped = _bits(mark.works, self._works) | _bits(waits + mark.clock, waits + self._clock)
        return mark.moment.assuming(skipped)


class Survey(Walk):
    """A walk to the end that notes the faults, and when flags are set and waited for."""

    def __init__(self, unrolled: Unrolled, actions: Mapping[Slot, Sequence[Action]]) -> None:
        super().__init__(unrolled, actions)
        self.races: dict[tuple[int, int], None] = {}
        """Works that nothing orders, by their numbers."""
        self.repeated: dict[Any, None] = {}
        """Flags that may be set too early."""
        self.sets: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        """For each flag: when it is set, and what comes before."""
        self.waits: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        """For each flag: when it is waited for, and the bit of the wait."""
        self._after: list[int] = []
        self.advance()

    def race(self, work: Work, missing: int) -> None:
        """Note the latest of the works, go on as if that were fixed, see what is still missing."""
        while missing:
            latest = missing.bit_length() - 1
            self.races[latest, self._works] = None
            self.now.learn(work.pipe, self._after[latest])
            missing &= ~self.now.before(work.pipe)

    def early(self, flag: Any) -> None:
        """Note the flag."""
        self.repeated[flag] = None

    def work(self, bit: int) -> None:
        """A pipe does something."""
        super().work(bit)
        self._after.append(self.now.before(self.unrolled.works[bit].pipe))

    def checked_set(self, src: str, flag: Any, number: int) -> None:
        """A pipe sets one of a flag's events."""
        super().checked_set(src, flag, number)
        self.sets[flag].append((self._clock, self.now.sent[flag, number]))

    def checked_wait(self, dst: str, flag: Any, number: int) -> None:
        """A pipe waits for one of a flag's events."""
        super().checked_wait(dst, flag, number)
        self.waits[flag].append((self._clock, 1 << self._first_wait + self._clock))


def _bits(first: int, end: int) -> int:
    return (1 << end) - (1 << first)
