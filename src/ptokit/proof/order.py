"""The order of a block's pipes as a finite state: what every pipe and every set flag knows of the accesses so far.

An access is a record: a statement, a step and its bytes. A record stands for the last time that this was done, because
whoever comes after that comes after all earlier times, too. Knowledge is a set of records, an integer with a bit for
each. So a loop comes back to a state that was seen, however often it runs.

The operations are those of `machine/pipes.py`, with the meaning that `machine/clocks.py` gives them: a pipe whose flag
is not set is held, and what is issued to it meanwhile queues.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from ptokit.program.cores import core_of, unit_of
from ptokit.target import SCALAR
from ptokit.target.profile import CROSS_MOST

Mask = int
"""A set of records."""
MOST_QUEUED = 256
"""Items that wait in the queues of pipes; more is too much for a proof."""


class TooMuch(Exception):
    """A proof that would take too long, or more than is kept of a state."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class PathEnded(Exception):
    """A path ends before its block does: a wait never ends."""


class CrossRecords(NamedTuple):
    """A flag between cores, and the records of its sets and waits."""

    flag: Hashable
    set_record: int
    wait_record: int
    slots: tuple[int, ...]
    """Of the waits that the setting pipe does not know to be over."""


class OrderFault(NamedTuple):
    """Something that may go wrong: its kind, the statement, and what it depends on."""

    kind: str
    what: Hashable
    other: Hashable = None
    detail: Hashable = None


Report = Callable[[OrderFault], None]


@dataclass(frozen=True)
class Wiring:
    """The pipes of a program."""

    pipes: tuple[str, ...]
    overlapping: str = ""
    """The pipe whose instructions may overlap."""

    def __post_init__(self) -> None:
        numbers = {name: k for k, name in enumerate(self.pipes)}
        scalars = [numbers.get(f"{core_of(name)}.{SCALAR}", k) for k, name in enumerate(self.pipes)]
        overlaps = [unit_of(name) == self.overlapping for name in self.pipes]
        object.__setattr__(self, "number", numbers)
        object.__setattr__(self, "scalar", scalars)
        object.__setattr__(self, "overlaps", overlaps)

    number: Any = None
    """The number of each pipe."""
    scalar: Any = None
    """For each pipe, the number of the scalar pipe of its core."""
    overlaps: Any = None


class Item(NamedTuple):
    """Something in the queue of a pipe."""

    act: str
    """`work`, `set`, `wait`, `count`, `take`, `give` or `after`."""
    subject: Any
    """PipeTouches, a flag, or the number of a handshake."""
    what: Hashable
    issued: Mask
    """What its core knew when it was issued."""
    limit: Mask
    """The records that were there then."""


class OrderState:
    """What is known at a point of a path."""

    __slots__ = (
        "active", "count_once", "done", "events", "flags", "issued", "know", "last", "later", "once", "path", "pending",
        "placed", "queues", "recent", "sets", "waits", "wiring",
    )  # fmt: skip

    def __init__(self, wiring: Wiring) -> None:
        count = len(wiring.pipes)
        self.wiring = wiring
        self.know: list[Mask] = [0] * count
        """For each pipe, the records that come before its next item, without those that its scalar pipe adds."""
        self.issued: list[Mask] = [0] * count
        """By the number of a scalar pipe: the records that come before all that it issues from now on."""
        self.done: list[Mask] = [0] * count
        """For a pipe whose instructions may overlap: its own records that have ended before its next item."""
        self.recent: tuple[int, ...] = ()
        """Records of such pipes that may not have ended, the last one at the end."""
        self.active: Mask = 0
        self.flags: dict[Hashable, Mask] = {}
        """The flags that are set, and what came before."""
        self.later: dict[Hashable, tuple[Mask, ...]] = {}
        """Sets that count after the wait for an earlier one."""
        self.pending: frozenset[Hashable] = frozenset()
        """The flags for which no wait was issued since their last set."""
        self.sets: dict[Hashable, tuple[Mask, ...]] = {}
        """Of the flags between cores, the sets that no wait has taken."""
        self.last: dict[Hashable, int] = {}
        """Of the flags between cores, by `("set", flag)` or `("wait", flag)`: the pipe of the last one."""
        self.waits: dict[Hashable, int] = {}
        """Of the flags between cores, how many waits the setting pipe does not know to be over."""
        self.once: dict[int, Mask] = {}
        """Handshakes and events that were given."""
        self.events: dict[Hashable, tuple[tuple[int, int], ...]] = {}
        """The pipes that signal an event, each with its handshake."""
        self.queues: dict[int, tuple[Item, ...]] = {}
        self.placed: dict[int, Any] = {}
        """Blocks of arrays that records touch."""
        self.path: Any = None
        """The path that this is the order of."""
        self.count_once = 0
        """How many handshakes there were."""

    def copy(self) -> OrderState:
        """A copy, for another way to go on."""
        other = OrderState.__new__(OrderState)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, list | dict) else value)
        return other

    def key(self) -> Hashable:
        """The same for states in which the same may follow."""
        names = {number: k for k, number in enumerate(self._handshakes())}
        queues = tuple(
            (pipe, tuple(item._replace(subject=names[item.subject]) if item.act in ("give", "after") else item
                         for item in items))
            for pipe, items in sorted(self.queues.items())
        )  # fmt: skip
        events = tuple(sorted((event, tuple((pipe, names[n]) for pipe, n in of)) for event, of in self.events.items()))
        return (
            tuple(self.know), tuple(self.issued), tuple(self.done), self.recent, self.active, _items(self.flags),
            _items(self.later), self.pending, _items(self.sets), _items(self.last), _items(self.waits),
            tuple((names[n], mask) for n, mask in self.once.items() if n in names), events, queues,
        )  # fmt: skip

    def _handshakes(self) -> list[int]:
        """The handshakes that something may still wait for, in a fixed order."""
        queued = [i.subject for _, items in sorted(self.queues.items()) for i in items if i.act in ("give", "after")]
        signalled = [number for _, of in sorted(self.events.items()) for _, number in of]
        return list(dict.fromkeys([*signalled, *queued]))

    # --- masks

    def _masks(self, change: Callable[[Mask], Mask]) -> None:
        """Change every set of records."""
        self.know = list(map(change, self.know))
        self.issued = list(map(change, self.issued))
        self.done = list(map(change, self.done))
        self.flags = {flag: change(mask) for flag, mask in self.flags.items()}
        self.once = {number: change(mask) for number, mask in self.once.items()}
        for name in ("later", "sets"):
            setattr(self, name, {flag: tuple(map(change, of)) for flag, of in getattr(self, name).items()})
        if self.queues:
            self.queues = {
                pipe: tuple(item._replace(issued=change(item.issued), limit=change(item.limit)) for item in items)
                for pipe, items in self.queues.items()
            }

    def forget(self, records: Mask) -> None:
        """Records stand for something new: nothing knows it yet."""
        if self.active & records:
            self._masks(lambda mask: mask & ~records)
        self.active &= ~records

    def rename(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Records get other numbers, all at once; what was under a new number is forgotten."""
        sources, targets = (sum(1 << k for k in side) for side in zip(*pairs, strict=True))

        def change(mask: Mask) -> Mask:
            if not mask & (sources | targets):
                return mask
            found = mask & ~(sources | targets)
            for old, new in pairs:
                found |= (mask >> old & 1) << new
            return found

        self._masks(change)
        self.active = change(self.active)
        moved = {new: self.placed[old] for old, new in pairs if old in self.placed}
        gone = {k for pair in pairs for k in pair}
        self.placed = {k: placed for k, placed in self.placed.items() if k not in gone} | moved

    def known(self, pipe: int) -> Mask:
        """What comes before the next item of a pipe."""
        return self.know[pipe] | self.issued[self.wiring.scalar[pipe]]

    def _merge(self, pipe: int, stamp: Mask) -> None:
        self.know[pipe] |= stamp
        if self.wiring.overlaps[pipe]:
            self.end(pipe, stamp)

    def end(self, pipe: int, records: Mask) -> None:
        """PipeTouches of a pipe whose instructions may overlap has ended before its next item."""
        self.done[pipe] |= records
        self.recent = tuple(record for record in self.recent if not records >> record & 1)

    def learn(self, pipe: int, stamp: Mask) -> None:
        """A pipe has waited for something that came after these records."""
        self._merge(pipe, stamp)
        if self.wiring.scalar[pipe] == pipe:
            self.issued[pipe] |= self.know[pipe]

    def settle(self, pipes: Sequence[int], kept: Mask) -> None:
        """Forget the records that come before all that any of these pipes does later: they meet nothing any more."""
        known = self.active & ~kept
        for pipe in pipes:
            known &= self.done[pipe] if self.wiring.overlaps[pipe] else self.known(pipe)
        if known and not self.queues:
            for record in _records(known):
                self.placed.pop(record, None)
            self.forget(known)

    # --- what is issued

    def set_flag(self, report: Report, pipe: int, flag: Hashable, what: Hashable) -> None:
        """A pipe sets a flag."""
        if flag in self.pending:
            report(OrderFault("twice", what, None, flag))
            raise PathEnded
        self.pending |= {flag}
        self.issue(report, pipe, "set", flag, what)

    def wait_flag(self, report: Report, pipe: int, flag: Hashable, what: Hashable) -> None:
        """A pipe waits for a flag, which is then no longer set."""
        self.pending -= {flag}
        self.issue(report, pipe, "wait", flag, what)

    def sync(self, report: Report, src: int, dst: int, what: Hashable = None) -> None:
        """A pipe waits for another: an instruction's own flag, which no statement can touch."""
        self.count_once += 1
        number = self.count_once
        self.issue(report, src, "give", number, what)
        self.issue(report, dst, "after", number, what)
        if not self.queues:
            del self.once[number]

    def barrier(self, report: Report, scalar: int, what: Hashable) -> None:
        """A scalar pipe waits for all pipes of its core."""
        for pipe, own in enumerate(self.wiring.scalar):
            if own == scalar != pipe:
                self.sync(report, pipe, scalar, what)

    def signal(self, report: Report, event: Hashable, pipes: Iterable[int]) -> None:
        """An instruction on these pipes has ended. Signalled again, as in a loop, it is another event."""
        numbers = tuple((pipe, self.count_once + k + 1) for k, pipe in enumerate(pipes))
        self.count_once += len(numbers)
        self.events[event] = numbers
        for pipe, number in numbers:
            self.issue(report, pipe, "give", number)

    def await_event(self, report: Report, event: Hashable, pipes: Iterable[int], what: Hashable) -> None:
        """An instruction on these pipes starts after an event of its core."""
        for dst in pipes:
            for src, number in self.events.get(event, ((dst, -1),)):
                if self.wiring.scalar[src] == self.wiring.scalar[dst]:
                    self.issue(report, dst, "after", number, what)

    def issue(self, report: Report, pipe: int, act: str, subject: Any, what: Hashable = None) -> None:
        """An item of a pipe."""
        item = Item(act, subject, what, self.issued[self.wiring.scalar[pipe]], self.active)
        if pipe in self.queues or not self._can_run(item):
            self._hold(report, pipe, item)
            return
        self._run(report, pipe, item, held=False)
        if self.queues and act in ("set", "count", "give"):
            self._advance(report)

    def _can_run(self, item: Item) -> bool:
        if item.act == "wait":
            return item.subject in self.flags
        if item.act == "take":
            return bool(self.sets.get(item.subject.flag))
        return item.act != "after" or item.subject in self.once

    def _hold(self, report: Report, pipe: int, item: Item) -> None:
        self.queues[pipe] = (*self.queues.get(pipe, ()), item)
        if sum(map(len, self.queues.values())) > MOST_QUEUED:
            raise TooMuch("more than is kept waits in the queues of pipes")
        if self.wiring.scalar[pipe] == pipe and self.queues[cause := self._cause(pipe)][0].act != "take":
            self._end_wait(report, cause)

    def _cause(self, pipe: int) -> int:
        """The pipe whose wait holds another one."""
        seen: list[int] = []
        while pipe not in seen:
            seen.append(pipe)
            first = self.queues[pipe][0]
            before = next((k for k, items in self.queues.items() if any(_gives(i, first) for i in items)), None)
            if before is None:
                return pipe
            pipe = before
        return min(seen)

    def _end_wait(self, report: Report, pipe: int) -> None:
        """A wait never ends: report it. Nothing can be said of what follows."""
        item = self.queues[pipe][0]
        flag = item.subject.flag if isinstance(item.subject, CrossRecords) else item.subject
        report(OrderFault("stuck", item.what, None, flag))
        raise PathEnded

    def _take(self, pipe: int) -> Item:
        first, *rest = self.queues[pipe]
        if rest:
            self.queues[pipe] = tuple(rest)
        else:
            del self.queues[pipe]
        return first

    def _advance(self, report: Report) -> None:
        """Run every item that need not wait any longer."""
        moved = True
        while moved:
            moved = False
            for pipe in sorted(self.queues):
                while pipe in self.queues and self._can_run(self.queues[pipe][0]):
                    self._run(report, pipe, self._take(pipe), held=True)
                    moved = True

    def finish(self, report: Report) -> None:
        """The end of a block: waits that hold a pipe never end, and no flag is left set."""
        while self.queues:
            self._end_wait(report, self._cause(min(self.queues)))
        for flag in (*self.flags, *(flag for flag, stamps in self.sets.items() if stamps)):
            report(OrderFault("left", flag))

    # --- how items run

    def _run(self, report: Report, pipe: int, item: Item, *, held: bool) -> None:
        if not held:
            item = item._replace(issued=self.issued[self.wiring.scalar[pipe]])
        self._merge(pipe, item.issued)
        getattr(self, item.act)(report, pipe, item, held)

    def work(self, report: Report, pipe: int, item: Item, held: bool) -> None:
        """PipeTouches is checked against what its pipe knows, then recorded."""
        item.subject.run(self, report, pipe, self.know[pipe] & (item.limit if held else -1))

    def record(self, pipe: int, records: Iterable[int]) -> None:
        """PipeTouches was done."""
        mask = 0
        for record in records:
            mask |= 1 << record
        self.forget(mask)
        self.active |= mask
        self.know[pipe] |= mask
        if self.wiring.overlaps[pipe] and mask:
            self.done[pipe] &= ~mask
            self.recent = (*(r for r in self.recent if not mask >> r & 1), *_records(mask))

    def set(self, _report: Report, pipe: int, item: Item, _held: bool) -> None:
        flag = item.subject
        if flag not in self.flags:
            self.flags[flag] = self.know[pipe]
            return
        self.later[flag] = (*self.later.get(flag, ()), self.know[pipe])
        if len(self.later[flag]) > CROSS_MOST:
            raise TooMuch("a flag is set again and again before its waits")

    def wait(self, _report: Report, pipe: int, item: Item, _held: bool) -> None:
        flag = item.subject
        self.learn(pipe, self.flags.pop(flag))
        if self.later.get(flag):
            self.flags[flag], *rest = self.later.pop(flag)
            if rest:
                self.later[flag] = tuple(rest)

    def count(self, report: Report, pipe: int, item: Item, _held: bool) -> None:
        """A flag between cores is set once more."""
        flag, ids = item.subject.flag, item.subject
        self._check_pairing(report, pipe, item, ids.set_record, "set")
        known, number = self.know[pipe], self.waits.get(flag, 0)
        over = next((k for k in range(number) if not known >> ids.slots[k] & 1), number)
        if over and over < number:
            self.rename([(ids.slots[k], ids.slots[k - over]) for k in range(over, number)])
        if over:
            self.forget(sum(1 << ids.slots[k] for k in range(number - over, number)))
            self.waits[flag] = number = number - over
        self.record(pipe, (ids.set_record,))
        sets = (*self.sets.get(flag, ()), self.know[pipe])
        if len(sets) + number > CROSS_MOST:
            report(OrderFault("overflow", item.what, None, len(sets) > CROSS_MOST))
        self.sets[flag] = sets[-CROSS_MOST:]

    def take(self, report: Report, pipe: int, item: Item, _held: bool) -> None:
        """A wait takes a set, and it may be any that no wait has taken: known is what comes before them all."""
        flag, ids = item.subject.flag, item.subject
        self._check_pairing(report, pipe, item, ids.wait_record, "wait")
        stamps = self.sets[flag]
        stamp = reduce(and_, stamps)
        self.sets[flag] = stamps[1:]
        self.learn(pipe, stamp)
        number = min(self.waits.get(flag, 0), len(ids.slots) - 1)
        self.record(pipe, (ids.wait_record, ids.slots[number]))
        self.waits[flag] = number + 1

    def _check_pairing(self, report: Report, pipe: int, item: Item, record: int, verb: str) -> None:
        """All sets of a flag are in an order, and all waits."""
        key = verb, item.subject.flag
        if self.last.get(key, pipe) != pipe and not self.know[pipe] >> record & 1:
            report(OrderFault("unpaired", item.what, self.last[key]))
        self.last[key] = pipe

    def give(self, _report: Report, pipe: int, item: Item, _held: bool) -> None:
        self.once[item.subject] = self.know[pipe]

    def after(self, _report: Report, pipe: int, item: Item, _held: bool) -> None:
        if item.subject in self.once:
            self.learn(pipe, self.once[item.subject])


def _gives(item: Item, wait: Item) -> bool:
    return (item.act, wait.act) in GIVES and item.subject == wait.subject


GIVES = {("set", "wait"), ("count", "take"), ("give", "after")}


def _records(mask: Mask) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _items(table: dict[Hashable, Any]) -> Hashable:
    return frozenset(item for item in table.items() if item[1] != ())
