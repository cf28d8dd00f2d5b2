"""Which bytes of a memory an access touches: rows of bytes at a pitch, or a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ptokit.engine.storage import Array, Region


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
