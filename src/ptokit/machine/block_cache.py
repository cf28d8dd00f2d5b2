"""Blocks that issue what an earlier block has issued are not checked twice.

Checks of order and of on-chip memory depend on what a block issues and on the on-chip bytes that it touches, not on
values, and not on addresses in global memory. A block is a sequence of items, each with a key. Sequences without
findings are kept, as a tree. While a block follows the tree, only its accesses to global memory are checked, with the
clocks that they had in the earlier block. If the block leaves the tree, its items so far are made up for, and the rest
is checked as usual. The session has the checks themselves; all that is remembered of blocks is here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import add, sub
from typing import NamedTuple, Protocol

from ptokit.machine.clocks import Clock, Clocks
from ptokit.machine.ends import Issued, MemoryAccess, Moment, RunningBlock
from ptokit.program.cores import PipeWork

MOST_CACHED_ITEMS = 1 << 18
"""Items of all kept blocks together, of about 1 KB each."""
Touches = Sequence[MemoryAccess]
Act = Callable[[Touches], None]
"""Checks an item."""


class IssuedWork(NamedTuple):
    """Work of a pipe when it is issued."""

    item: int
    """The item of the block that it belongs to."""
    position: int
    """Of the step in the item."""
    number: int
    """Of the statement."""
    step: PipeWork
    entry: str
    """The pipe that should wait for the data."""
    alike: frozenset[str] | None = None
    """The operands that it walks element by element, in the order of their bytes; None if that is not known."""


class GlobalWork(NamedTuple):
    """Work on global memory in a kept block: what came before it, and its time, counted from the start of the block."""

    work: IssuedWork
    pipe: int
    before: Clock
    time: int


class CachedItem:
    """An item of a kept block."""

    __slots__ = ("act", "chip", "next", "ran", "times")

    def __init__(self, act: Act, chip: Touches) -> None:
        self.act, self.chip = act, chip
        """How to check it, with its accesses to on-chip memory."""
        self.ran: list[GlobalWork] = []
        """The work on global memory that ran when it was issued."""
        self.next: dict[Hashable, CachedItem] = {}
        self.times: Clock = []
        """Of the last item: how far each pipe has come, counted from the start of the block."""


class AccessChecker(Protocol):
    """Checks accesses to global memory."""

    def races(self, work: IssuedWork, given: Touches, clock: Clock) -> bool:
        """Whether nothing orders an access to global memory after an earlier one."""
        ...

    def check_work(self, work: IssuedWork, given: Touches, moment: Moment, clock: Clock, time: int) -> None:
        """Check the accesses of a pipe, and record them."""


class BlockCache:
    """The kept blocks as a tree, and the running block."""

    def __init__(
        self, clocks: Clocks, block: RunningBlock, checks: AccessChecker, forget_block: Callable[[], None]
    ) -> None:
        """`forget_block` forgets what the running block has done to on-chip memory."""
        self._clocks, self._block, self._checks, self._forget_block = clocks, block, checks, forget_block
        self._root = CachedItem(lambda _: None, ())
        self._count = 0
        self.begin()

    def begin(self) -> None:
        """A block begins."""
        self._started = self._clocks.started
        self.is_repeat = bool(self._root.next)
        """Whether an earlier block has issued what this one has issued so far."""
        self._last = self._root
        self._path: list[CachedItem] = []
        self._given: list[tuple[Moment, Touches]] = []
        """The iteration and the accesses to global memory of the items that were repeated."""
        self._new: list[tuple[Hashable, CachedItem]] | None = []
        """Items that are not in the tree; None if the block will not be kept."""
        self._running: CachedItem | None = None
        self._done: set[tuple[int, int]] = set()
        """Work on global memory of those items that has run."""
        self.item = 0
        if not self.is_repeat:
            self._forget_block()

    def end(self, act: Act) -> None:
        """A block ends, which `act` checks."""
        found = self._next("end", ())
        if found is None:
            self.check("end", act)
            self._keep()
        elif self.is_repeat:
            self._clocks.times = list(map(add, self._started, found.times))

    def repeats(self, key: Hashable, touches: Touches = ()) -> bool:
        """Whether an earlier block has issued the same so far, and this. Then only accesses to global memory are
        checked, here, and all others need not be."""
        return self._next(key, touches) is not None

    def _next(self, key: Hashable, touches: Touches) -> CachedItem | None:
        """Take the next item of the tree; None if it has another one there."""
        if not self.is_repeat:
            return None
        found = self._last.next.get(key)
        if found is None:
            self.check_all()
            return None
        self._last = found
        self._path.append(found)
        self._given.append((self._block.moment, touches))
        self.item += 1
        for ran in found.ran:
            (moment, given), started = self._given[ran.work.item], self._started
            clock = list(map(add, started, ran.before))
            if self._checks.races(ran.work, given, clock):  # what follows from a race depends on the clocks themselves
                self.drop()
                self.check_all()
                return found
            self._done.add((ran.work.item, ran.work.position))
            self._checks.check_work(ran.work, given, moment, clock, started[ran.pipe] + ran.time)
        return found

    def check_all(self) -> None:
        """Check everything in this block: the items so far, which an earlier block has issued, and all later ones."""
        if self.is_repeat:
            self._forget_block()
            self.is_repeat = False
            now, self.item = self._block.moment, 0
            for item, (moment, touches) in zip(self._path, self._given, strict=True):
                self._block.moment = moment
                item.act([*item.chip, *touches])
                self.item += 1
            self._block.moment = now

    def check(self, key: Hashable, act: Act, chip: Touches = (), touches: Touches = ()) -> None:
        """Check an item, and remember it for later blocks. `touches` are all its accesses, `chip` those to on-chip
        memory. Apart from the others, what `act` does follows from the `key`."""
        self._running = CachedItem(act, chip)
        if self._new is not None:
            self._new.append((key, self._running))
            if self._count + len(self._new) > MOST_CACHED_ITEMS:
                self.drop()
        act(touches)
        self._running = None
        self.item += 1

    def note(self, work: IssuedWork, pipe: int, clock: Clock, time: int) -> None:
        """Work on global memory has run."""
        if self._running is not None:
            before = list(map(sub, clock, self._started))
            self._running.ran.append(GlobalWork(work, pipe, before, time - self._started[pipe]))

    def has_run(self, work: IssuedWork) -> bool:
        """Whether work that is made up for has already been checked in global memory."""
        return not self.is_repeat and (work.item, work.position) in self._done

    def found(self) -> None:
        """Something was reported: a block with findings of its items is not kept."""
        if self._running is not None:
            self.drop()

    def drop(self) -> None:
        """Do not keep this block."""
        self._new = None

    def _keep(self) -> None:
        """Add a block that has ended to the tree."""
        new = self._new
        if not new:
            return
        self._count += len(new)
        for key, item in new:
            self._last.next[key] = item
            self._last = item
        self._last.times = list(map(sub, self._clocks.times, self._started))


class WatchedClocks:
    """The clocks, as flags and barriers reach them: only in a block that repeats no cached one."""

    def __init__(self, clocks: Clocks, block: RunningBlock, cache: BlockCache) -> None:
        self._clocks, self._block, self._cache = clocks, block, cache

    def set(self, src: str, flag: Hashable, what: Issued) -> None:
        self._issue(self._clocks.set, "set", src, flag, what)

    def wait(self, dst: str, flag: Hashable, what: Issued) -> None:
        self._issue(self._clocks.wait, "wait", dst, flag, what)

    def cross_set(self, src: str, flag: Hashable, what: Issued) -> None:
        """A statement sets a flag for the other core."""
        self._issue(self._clocks.cross_set, "cross_set", src, flag, what)

    def cross_wait(self, dst: str, flag: Hashable, what: Issued) -> None:
        """A statement waits for a flag of the other core."""
        self._issue(self._clocks.cross_wait, "cross_wait", dst, flag, what)

    def _issue(self, do: Callable[..., None], name: str, pipe: str, flag: Hashable, what: Issued) -> None:
        stmt = what[0]
        self._pass((name, pipe, flag, id(stmt)), lambda: do(pipe, flag, (stmt, self._block.moment)))

    def barrier(self, core: str) -> None:
        """Everything issued so far comes before everything issued later, on one core, or on each."""
        self._pass(("barrier", core), partial(self._clocks.barrier, core))

    def fence(self, pipe: str) -> None:
        """What was issued to a pipe so far ends before anything that is issued to it later begins."""
        self._pass(("fence", pipe), partial(self._clocks.fence, pipe))

    def _pass(self, key: Hashable, do: Callable[[], None]) -> None:
        if not self._cache.repeats(key):
            self._cache.check(key, lambda _: do())
