"""The state of every byte of a memory: whether it was written, and its last accesses, with pipe and time.

There is a layer for each kind of access (read, write, an atomic) on each pipe. An entry of a layer packs the time of
the last such access and the number of its statement, so the greatest entry of some bytes is the latest access to them.
Entries are narrow until a time needs wide ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ptokit.engine.storage import Array
from ptokit.machine.clocks import Clock
from ptokit.machine.extent import Extent

READ, WRITE = "read", "write"


def meets(how: str, other: str) -> bool:
    """Whether two kinds of access to one byte need an order: not two reads, and not two atomics of one kind."""
    return how != other or how == WRITE


@dataclass(frozen=True)
class Earlier:
    """An earlier access: how, on which pipe (by number), when, and the number of its statement."""

    how: str
    pipe: int
    time: int
    statement: int


class Layer:
    """The last accesses of one kind on one pipe."""

    __slots__ = ("bits", "entries", "first", "how", "latest", "narrow_until", "older", "pipe")

    def __init__(self, how: str, pipe: int, units: int, bits: int) -> None:
        self.how, self.pipe = how, pipe
        self.bits = bits
        """Of an entry, that are the number of a statement."""
        self.entries = np.zeros(units, np.int32)
        self.older: Array | None = None
        """Entries of earlier blocks that the running block has overwritten."""
        self.narrow_until = 1 << 31 - bits
        """The time from which on entries are wide."""
        self.first = self.latest = 0
        """The times of the first and the last access to any byte: most queries need no more."""

    def record(self, time: int, statement: int, where: Extent, start: int, since: int) -> None:
        """Record an access; entries up to the time `since` are saved in `older`."""
        if time >= self.narrow_until and self.entries.dtype == np.int32:
            self.entries = self.entries.astype(np.int64)
            self.older = None if self.older is None else self.older.astype(np.int64)
        if self.first and self.first <= since:
            self._save_older(where, start, since)
        self.first, self.latest = self.first or time, time
        where.put(self.entries, start, time << self.bits | statement)

    def _save_older(self, where: Extent, start: int, since: int) -> None:
        found = where.get(self.entries, start)
        if not found.any():
            return
        is_old = (found > 0) & (found >> self.bits <= since)
        if is_old.any():
            if self.older is None:
                self.older = np.zeros_like(self.entries)
            where.put_some(self.older, start, found, is_old)

    def last(self, where: Extent, start: int, after: int) -> Earlier | None:
        """The latest access to these bytes, if it came after a time."""
        if self.latest <= after:
            return None
        entry = int(where.get(self.entries, start).max(initial=0))
        return self._earlier(entry) if entry >> self.bits > after else None

    def last_until(self, time: int, where: Extent, start: int) -> Earlier | None:
        """The latest access to these bytes up to a time."""
        if not self.first or self.first > time:
            return None
        found = where.get(self.entries, start)
        latest = 0 if self.older is None else int(where.get(self.older, start).max(initial=0))
        if found.any():
            latest = max(latest, int(found[found >> self.bits <= time].max(initial=0)))
        return self._earlier(latest) if latest else None

    def shared(self, where: Extent, start: int, earlier: Earlier) -> tuple[int, int]:
        """The first of these bytes that an earlier access touched last, and the one after the last of them."""
        found = where.get(self.entries, start) >> self.bits == earlier.time
        if self.older is not None:
            found |= where.get(self.older, start) >> self.bits == earlier.time
        places = where.positions(start)[found]
        return (int(places.min()), int(places.max()) + 1) if places.size else (start, start + where.end)

    def _earlier(self, entry: int) -> Earlier:
        """An entry unpacked."""
        return Earlier(self.how, self.pipe, entry >> self.bits, entry & (1 << self.bits) - 1)


class Shadow:
    """One memory. Its bytes are counted in units, which are single bytes on a chip."""

    def __init__(self, size: int, bits: int, unit: int = 1) -> None:
        """`bits` are enough for the number of a statement."""
        self.size, self.bits, self.unit = size, bits, unit
        self.used = 0
        """The end of what was ever defined."""
        self.layers: dict[tuple[str, int], Layer] = {}
        """By the kind of access and the number of the pipe."""
        self.written: Array | None = None
        """Which units are initialised; None if all count as such."""

    def record(self, how: str, pipe: int, time: int, statement: int, where: Extent, start: int, since: int = 0) -> None:
        """Record an access. `last_until` can be called for times up to `since`."""
        layer = self.layers.get((how, pipe))
        if layer is None:
            layer = self.layers[how, pipe] = Layer(how, pipe, self.size, self.bits)
        layer.record(time, statement, where, start, since)

    def unordered(self, how: str, pipe: int, clock: Clock, where: Extent, start: int) -> Iterator[Earlier]:
        """Accesses of other pipes to these bytes that need an order and have none: the latest of each kind."""
        for layer in list(self.layers.values()):
            if layer.pipe == pipe or layer.latest <= clock[layer.pipe] or not meets(how, layer.how):
                continue
            earlier = layer.last(where, start, clock[layer.pipe])
            if earlier is not None:
                yield earlier

    def define(self, where: Extent, start: int, value: int = 1) -> None:
        """Mark these bytes as initialised, or as uninitialised if `value` is 0."""
        if self.written is not None:
            where.put(self.written, start, value)
            self.used = max(self.used, start + where.end)

    def unwritten(self, where: Extent, start: int) -> int:
        """How many of these bytes are uninitialised."""
        return 0 if self.written is None else where.count - int(np.count_nonzero(where.get(self.written, start)))
