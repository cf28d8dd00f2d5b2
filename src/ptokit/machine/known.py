"""Blocks that issue what an earlier block has issued are not checked twice.

Checks of order and of on-chip memory depend on what a block issues and on the on-chip bytes that it touches, not on
values, and not on addresses in global memory. A block is a sequence of items, each with a key. Sequences without
findings are kept, as a tree. While a block follows the tree, only its accesses to global memory are checked, with the
clocks that they had in the earlier block. If the block leaves the tree, its items so far are made up for, and the rest
is checked as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import add, sub
from typing import Any, NamedTuple

from ptokit.machine.clocks import Clock
from ptokit.program.steps import PipeWork

MOST_ITEMS = 1 << 12
"""Items of a block that is kept."""
MOST_KNOWN = 1 << 15
"""Items of all kept blocks together."""
Touches = Sequence[Any]
"""Accesses to memory."""
Act = Callable[[Touches], None]
"""Checks an item."""


class IssuedWork(NamedTuple):
    """Work of a pipe, as it is issued."""

    item: int
    """The item of the block that it belongs to."""
    position: int
    """Of the step in the item."""
    number: int
    """Of the statement."""
    step: PipeWork
    entry: str
    """The pipe that should wait for the data."""


class GlobalWork(NamedTuple):
    """Work on global memory in a kept block: what came before it, and its time, counted from the start of the block."""

    work: IssuedWork
    pipe: int
    before: Clock
    time: int


class KnownItem:
    """An item of a kept block."""

    __slots__ = ("act", "chip", "next", "ran", "times")

    def __init__(self, act: Act, chip: Touches) -> None:
        self.act, self.chip = act, chip
        """How to check it, with its accesses to on-chip memory."""
        self.ran: list[GlobalWork] = []
        """The work on global memory that ran when it was issued."""
        self.next: dict[Hashable, KnownItem] = {}
        self.times: Clock = []
        """Of the last item: how far each pipe has come, counted from the start of the block."""


class KnownBlocks:
    """The kept blocks as a tree, and the running block."""

    def __init__(self, started: Clock) -> None:
        self._root = KnownItem(lambda _: None, ())
        self._count = 0
        self.begin(started)

    def begin(self, started: Clock) -> None:
        """A block begins, when the pipes have come so far."""
        self._started = started
        self.follows = bool(self._root.next)
        """Whether an earlier block has issued what this one has issued so far."""
        self._last = self._root
        self._path: list[KnownItem] = []
        self._given: list[tuple[Any, Touches]] = []
        """The iteration and the accesses to global memory of the items that were followed."""
        self._new: list[tuple[Hashable, KnownItem]] | None = []
        """Items that are not in the tree; None if the block will not be kept."""
        self._running: KnownItem | None = None
        self._done: set[tuple[int, int]] = set()
        """Work on global memory of those items that has run."""
        self.item = 0

    def follow(self, key: Hashable, touches: Touches, moment: Any) -> KnownItem | None:
        """Take the next item of the tree; None if it has another one there."""
        found = self._last.next.get(key)
        if found is not None:
            self._last = found
            self._path.append(found)
            self._given.append((moment, touches))
            self.item += 1
        return found

    def repeated(self, ran: GlobalWork) -> tuple[IssuedWork, Touches, Any, Clock, int]:
        """Work of a kept block, as it is in this one, with its iteration, its clock and its time."""
        work, started = ran.work, self._started
        moment, touches = self._given[work.item]
        return work, touches, moment, list(map(add, started, ran.before)), started[ran.pipe] + ran.time

    def run(self, ran: GlobalWork) -> None:
        """Work of a kept block runs in this one."""
        self._done.add((ran.work.item, ran.work.position))

    def leave(self) -> Iterator[tuple[Any, KnownItem, Touches]]:
        """The items so far, which have to be made up for, with their iterations and accesses to global memory."""
        self.follows = False
        self.item = 0
        for known, (moment, touches) in zip(self._path, self._given, strict=True):
            yield moment, known, touches
            self.item += 1

    def check(self, key: Hashable, act: Act, chip: Touches, touches: Touches) -> None:
        """Check an item; `touches` are all its accesses, `chip` those to on-chip memory."""
        self._running = KnownItem(act, chip)
        if self._new is not None:
            self._new.append((key, self._running))
        act(touches)
        self._running = None
        self.item += 1
        if self.item >= MOST_ITEMS:
            self.drop()

    def note(self, work: IssuedWork, pipe: int, clock: Clock, time: int) -> None:
        """Work on global memory has run."""
        if self._running is not None:
            before = list(map(sub, clock, self._started))
            self._running.ran.append(GlobalWork(work, pipe, before, time - self._started[pipe]))

    def has_run(self, work: IssuedWork) -> bool:
        """Whether work that is made up for has already been checked in global memory."""
        return not self.follows and (work.item, work.position) in self._done

    def found(self) -> None:
        """Something was reported: a block with findings of its items is not kept."""
        if self._running is not None:
            self.drop()

    def drop(self) -> None:
        """Do not keep this block."""
        self._new = None

    def end(self, times: Clock) -> None:
        """The block has ended, and the pipes have come so far."""
        new = self._new
        if not new or self._count + len(new) > MOST_KNOWN:
            return
        self._count += len(new)
        for key, item in new:
            self._last.next[key] = item
            self._last = item
        self._last.times = list(map(sub, times, self._started))
