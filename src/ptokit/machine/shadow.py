"""The state of every byte of a memory: whether it was written, and its last accesses, with pipe and time.

There is a layer for each kind of access (read, write, an atomic) on each pipe. An entry of a layer packs the time of
the last such access and the number of its statement, so the greatest entry of some bytes is the latest access to them.
Entries are narrow until a time needs wide ones. They are kept in pages: memory grows with what is touched, not with the
size of an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ptokit.engine.storage import Array, Region
from ptokit.machine.clocks import Clock


@dataclass(frozen=True, eq=False)
class Extent:
    """Bytes relative to the start of an operand: `rows` runs of `length` bytes, `pitch` apart; or those that `listed`
    names. They select entries of an array that has one for every byte of a memory."""

    rows: int
    length: int
    pitch: int
    listed: Array | None = None

    @property
    def count(self) -> int:
        """How many bytes."""
        return self.rows * self.length if self.listed is None else self.listed.size

    @cached_property
    def end(self) -> int:
        """The byte after the last."""
        if self.listed is not None:
            return int(self.listed.max(initial=-1)) + 1
        return (self.rows - 1) * self.pitch + self.length if self.count else 0

    def before(self, end: int) -> Extent:
        """Those of the bytes before `end`: no tile has others."""
        if self.end <= end:
            return self
        places = self.positions(0).ravel()
        return Extent(0, 0, 0, places[places < end])

    def positions(self, start: int) -> Array:
        """The bytes themselves, in the shape of the result of `get`."""
        if self.listed is not None:
            return self.listed + start
        return start + (np.arange(self.rows)[:, None] * self.pitch + np.arange(self.length)).reshape(
            (self.length,) if self.rows == 1 else (self.rows, self.length)
        )

    def lines(self, start: int, size: int) -> list[int]:
        """The numbers of the lines of `size` bytes that the bytes of an operand at `start` lie in."""
        if self.listed is not None:
            return np.unique((self.listed + start) // size).tolist()
        runs = range(start, start + self.rows * self.pitch, self.pitch) if self.rows > 1 else (start,)
        ends = [(run // size, (run + self.length - 1) // size + 1) for run in runs if self.count]
        return sorted({line for first, end in ends for line in range(first, end)})

    def get(self, entries: Array, start: int) -> Array:
        """The entries of the bytes of an operand that starts at `start`."""
        if self.listed is not None:
            return entries[self.listed + start]
        return self._over(entries, start)

    def put(self, entries: Array, start: int, value: int) -> None:
        """Set all of them to one value."""
        if self.listed is not None:
            entries[self.listed + start] = value
        else:
            self._over(entries, start)[...] = value

    def put_some(self, entries: Array, start: int, values: Array, chosen: Array) -> None:
        """Set the chosen ones to `values`; `values` and `chosen` have the shape of the result of `get`."""
        if self.listed is not None:
            entries[self.listed[chosen] + start] = values[chosen]
        else:
            self._over(entries, start)[chosen] = values[chosen]

    def pieces(self, start: int, page: int) -> Iterator[tuple[int, Extent, int]]:
        """The same bytes cut at multiples of `page`: for every page its number, the bytes in it, and where they start
        in it. A page may come more than once."""
        first, ahead = divmod(start, page)
        if ahead + self.end <= page:
            yield first, self, ahead
        elif self.listed is not None:
            yield from self._listed_pieces(self.listed + start, page)
        else:
            yield from self._row_pieces(start, page)

    def _listed_pieces(self, places: Array, page: int) -> Iterator[tuple[int, Extent, int]]:
        numbers = places // page
        steps = np.diff(numbers)
        if steps.size and steps.min() < 0:
            order = np.argsort(numbers, kind="stable")
            places, numbers = places[order], numbers[order]
            steps = np.diff(numbers)
        for inside in np.split(places, np.flatnonzero(steps) + 1):
            number = int(inside[0]) // page
            yield number, Extent(0, 0, 0, inside - number * page), 0

    def _row_pieces(self, start: int, page: int) -> Iterator[tuple[int, Extent, int]]:
        row = 0
        while row < self.rows:
            number, ahead = divmod(start + row * self.pitch, page)
            space = page - ahead - self.length
            if self.rows == 1 or space < 0:
                yield from self._run_pieces(number, ahead, page)
                row += 1
            else:
                count = min(self.rows - row, space // self.pitch + 1)
                yield number, Extent(count, self.length, self.pitch), ahead
                row += count

    def _run_pieces(self, number: int, ahead: int, page: int) -> Iterator[tuple[int, Extent, int]]:
        left = self.length
        while left > 0:
            length = min(left, page - ahead)
            yield number, Extent(1, length, 0), ahead
            number, ahead, left = number + 1, 0, left - length

    def _over(self, entries: Array, start: int) -> Array:
        if self.rows == 1:
            return entries[start : start + self.length]
        each = entries.itemsize
        run = entries[start : start + self.end]
        return np.ndarray((self.rows, self.length), entries.dtype, run, 0, (self.pitch * each, each))


NOTHING = Extent(0, 0, 0)


@lru_cache(maxsize=4096)
def extent_of(region: Region, size: int) -> Extent:
    """The bytes of a region of elements of `size` bytes."""
    rows, cols = region.shape
    if not rows or not cols:
        return NOTHING
    for strides, runs, length in _run_choices(region, rows, cols):
        if strides[1] == 1 or length == 1:
            if runs == 1 or strides[0] == length:
                return Extent(1, runs * length * size, 0)
            if strides[0] > length:
                return Extent(runs, length * size, strides[0] * size)
    offsets = np.unique(region.offsets())
    if not offsets[0] and offsets[-1] == offsets.size - 1:  # fractals without gaps
        return Extent(1, offsets.size * size, 0)
    return listed(offsets, size)


def _run_choices(region: Region, rows: int, cols: int) -> list[tuple[tuple[int, int], int, int]]:
    """The strides with rows as runs, and with columns as runs."""
    if region.strides is None:
        return []
    row, col = region.strides
    return [((row, col), rows, cols), ((col, row), cols, rows)]


def listed(offsets: Array, size: int) -> Extent:
    """The bytes of elements at these offsets, in any order; each counts once."""
    places = (np.asarray(offsets, np.int64).reshape(-1, 1) * size + np.arange(size)).ravel()
    return Extent(0, 0, 0, places)


# --- the last accesses


READ, WRITE = "read", "write"
MOST_PAGED = 1 << 14
"""Units of a page of a large memory."""
LARGE = 1 << 19
"""Memories of up to this many units are one page: on-chip memories, by constant addresses."""
UNDEFINED, DATA, FILLED = 0, 1, 2
"""States of on-chip memory. A fill writes numbers that no operand holds; a later load of a part leaves them."""


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


class LayerPage:
    """The entries of some consecutive units in a layer."""

    __slots__ = ("entries", "first", "latest", "older")

    def __init__(self, units: int, first: int) -> None:
        self.entries = np.zeros(units, np.int32)
        self.older: Array | None = None
        """Entries of earlier blocks that the running block has overwritten."""
        self.first, self.latest = first, first
        """The times of the first and the last access to any unit: most queries need no more."""

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.entries.nbytes + (0 if self.older is None else self.older.nbytes)

    def widen(self) -> None:
        """Make entries wide."""
        if self.entries.dtype == np.int32:
            self.entries = self.entries.astype(np.int64)
            self.older = None if self.older is None else self.older.astype(np.int64)

    def save_older(self, where: Extent, start: int, bound: int) -> None:
        """Save the entries below a bound in `older`."""
        found = where.get(self.entries, start)
        if not found.any():
            return
        is_old = (found > 0) & (found < bound)
        if is_old.any():
            if self.older is None:
                self.older = np.zeros(self.entries.size, self.entries.dtype)
            where.put_some(self.older, start, found, is_old)

    def found(self, where: Extent, start: int, time: int, bits: int) -> list[int]:
        """The first and the last of these units that an access at this time touched last, if any."""
        is_found = where.get(self.entries, start) >> bits == time
        if self.older is not None:
            is_found |= where.get(self.older, start) >> bits == time
        places = where.positions(start)[is_found]
        return [int(places.min()), int(places.max())] if places.size else []

    def largest(self, where: Extent, start: int) -> int:
        """The latest entry."""
        return int(where.get(self.entries, start).max(initial=0))

    def largest_below(self, bound: int, where: Extent, start: int) -> int:
        """The latest entry below a bound."""
        found = where.get(self.entries, start)
        latest = 0 if self.older is None else int(where.get(self.older, start).max(initial=0))
        return max(latest, int(found[found < bound].max(initial=0))) if found.any() else latest


class Layer:
    """The last accesses of one kind on one pipe, in pages that are made when they are first touched."""

    __slots__ = ("bits", "first", "how", "latest", "narrow_until", "page", "pages", "pipe")

    def __init__(self, how: str, pipe: int, page: int, bits: int) -> None:
        self.how, self.pipe, self.page = how, pipe, page
        self.bits = bits
        """Of an entry, that are the number of a statement."""
        self.pages: dict[int, LayerPage] = {}
        self.narrow_until = 1 << 31 - bits
        """The time from which on entries are wide."""
        self.first = self.latest = 0
        """The times of the first and the last access to any unit."""

    def record(self, time: int, statement: int, where: Extent, start: int, since: int) -> None:
        """Record an access; entries up to the time `since` are saved in `older`."""
        entry, old = time << self.bits | statement, since + 1 << self.bits
        for number, part, at in where.pieces(start, self.page):
            page = self.pages.get(number)
            if page is None:
                page = self.pages[number] = LayerPage(self.page, time)
            if time >= self.narrow_until:
                page.widen()
            if page.first <= since:
                page.save_older(part, at, old)
            page.latest = time
            part.put(page.entries, at, entry)
        self.first, self.latest = self.first or time, time

    def last(self, where: Extent, start: int, after: int) -> Earlier | None:
        """The latest access to these bytes, if it came after a time."""
        if self.latest <= after:
            return None
        found = [
            page.largest(part, at)
            for number, part, at in where.pieces(start, self.page)
            if (page := self.pages.get(number)) is not None and page.latest > after
        ]
        entry = max(found, default=0)
        return self._earlier(entry) if entry >> self.bits > after else None

    def last_until(self, time: int, where: Extent, start: int) -> Earlier | None:
        """The latest access to these bytes up to a time."""
        if not self.first or self.first > time:
            return None
        found = [
            page.largest_below(time + 1 << self.bits, part, at)
            for number, part, at in where.pieces(start, self.page)
            if (page := self.pages.get(number)) is not None and page.first <= time
        ]
        entry = max(found, default=0)
        return self._earlier(entry) if entry else None

    def shared(self, where: Extent, start: int, earlier: Earlier) -> tuple[int, int]:
        """The first of the bytes that an earlier access touched last, and the byte after the last of them."""
        places = [
            number * self.page + found
            for number, part, at in where.pieces(start, self.page)
            if (page := self.pages.get(number)) is not None
            for found in page.found(part, at, earlier.time, self.bits)
        ]
        return (min(places), max(places) + 1) if places else (start, start + where.end)

    def _earlier(self, entry: int) -> Earlier:
        """An entry unpacked."""
        return Earlier(self.how, self.pipe, entry >> self.bits, entry & (1 << self.bits) - 1)


class Shadow:
    """One memory. Its bytes are counted in units, which are single bytes on a chip."""

    def __init__(self, size: int, bits: int, unit: int = 1) -> None:
        """`bits` are enough for the number of a statement."""
        self.size, self.bits, self.unit = size, bits, unit
        self.page = max(1, size) if size <= LARGE else MOST_PAGED
        """Units of a page."""
        self.used = 0
        """The end of what was ever defined."""
        self.layers: dict[tuple[str, int], Layer] = {}
        """By the kind of access and the number of the pipe."""
        self.written: Array | None = None
        """The state of every unit: `UNDEFINED`, `DATA` or `FILLED`; None if all count as data."""
        self.reasons: dict[tuple[int, int], str] = {}
        """By the range of units: why some of them were made undefined, the last ones at the end."""

    @property
    def nbytes(self) -> int:
        """The memory that its layers take."""
        return sum(page.nbytes for layer in self.layers.values() for page in layer.pages.values())

    def record(self, how: str, pipe: int, time: int, statement: int, where: Extent, start: int, since: int = 0) -> None:
        """Record an access. `last_until` can be called for times up to `since`."""
        layer = self.layers.get((how, pipe))
        if layer is None:
            layer = self.layers[how, pipe] = Layer(how, pipe, self.page, self.bits)
        layer.record(time, statement, where, start, since)

    def unordered(self, how: str, pipe: int, clock: Clock, where: Extent, start: int) -> Iterator[Earlier]:
        """Accesses of other pipes to these bytes that need an order and have none: the latest of each kind."""
        for layer in list(self.layers.values()):
            if layer.pipe == pipe or layer.latest <= clock[layer.pipe] or not meets(how, layer.how):
                continue
            earlier = layer.last(where, start, clock[layer.pipe])
            if earlier is not None:
                yield earlier

    def define(self, where: Extent, start: int, state: int = DATA) -> None:
        """Set the state of these units."""
        if self.written is not None:
            where.put(self.written, start, state)
            self.used = max(self.used, start + where.end)

    def undefine(self, where: Extent, start: int, reason: str, *, fills: bool = False) -> None:
        """These units hold no defined data any more; unless `fills`, those that were filled keep their state."""
        if self.written is not None:
            known = where.get(self.written, start)
            where.put_some(self.written, start, np.zeros_like(known), known != (UNDEFINED if fills else FILLED))
            bounds = start, start + where.end
            self.reasons.pop(bounds, None)
            self.reasons[bounds] = reason

    def unwritten(self, where: Extent, start: int) -> int:
        """How many of these units are undefined."""
        return 0 if self.written is None else where.count - int(np.count_nonzero(where.get(self.written, start)))

    def undefined(self, where: Extent, start: int) -> Array:
        """Those of these units that are undefined."""
        state = np.zeros(0, np.uint8) if self.written is None else where.get(self.written, start)
        return where.positions(start)[state == UNDEFINED]

    def reason(self, start: int, end: int) -> str:
        """Why units of this range were made undefined last; empty if nothing did it."""
        return next((why for (low, high), why in reversed(self.reasons.items()) if low < end and start < high), "")

    def is_filled(self, where: Extent, start: int) -> bool:
        """Whether all of these units were filled."""
        return self.written is not None and bool((where.get(self.written, start) == FILLED).all())

    def forget(self) -> None:
        """Nothing is defined."""
        if self.written is not None:
            self.written[: self.used] = UNDEFINED
            self.reasons.clear()
