"""Barriers of all blocks: what blocks do before one comes before what they do after it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from operator import itemgetter


class GridBarriers:
    """How many barriers of all blocks came before each access to global memory, in its block."""

    def __init__(self) -> None:
        self._items: list[int] = []
        """The items of the running block that are such barriers."""
        self._changes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """For each pipe: times from which on its accesses come after another number of barriers, and that number."""

    def begin(self) -> None:
        """A block begins."""
        self._items.clear()

    def pass_one(self, item: int) -> None:
        """The running block comes to a barrier, which is this item of it."""
        self._items.append(item)

    def note(self, pipe: int, time: int, item: int) -> None:
        """An item of the running block accesses global memory."""
        changes, count = self._changes[pipe], bisect_left(self._items, item)
        if not changes or changes[-1][1] != count:
            changes.append((time, count))

    def separate(self, item: int, pipe: int, time: int) -> bool:
        """Whether a barrier is between an item of the running block and an access of an earlier block."""
        changes = self._changes[pipe]
        at = bisect_right(changes, time, key=itemgetter(0))
        return bool(at) and changes[at - 1][1] != bisect_left(self._items, item)
