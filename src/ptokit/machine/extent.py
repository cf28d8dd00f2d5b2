"""Which bytes of a memory an access touches: rows of bytes at a pitch, or a list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

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

    @property
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
    return listed(np.unique(region.offsets()), size)


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
