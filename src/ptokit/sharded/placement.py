"""Which owner holds which rows or columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

MOST_BUCKETS = 4096
"""Ranges whose accesses are counted."""
PIECES = 8
"""Pieces of equal load, and of equal size, for each owner of a new placement."""
MOST_UNITS = 1.5
"""How many times the even share of units an owner may get, so that another one gets fewer but hotter ones."""


Span = tuple[int, int]


@dataclass(frozen=True)
class TableGrid:
    """A table as rows of elements, which is divided by its units: `rows` or `columns`."""

    rows: int
    columns: int
    by: str

    @classmethod
    def of(cls, shape: tuple[int, ...], by: str) -> TableGrid:
        """The rows and columns of a table of any number of dims."""
        return cls(*((shape[0], prod(shape[1:])) if shape else (1, 1)), by)

    @property
    def units(self) -> int:
        """How many units are divided."""
        return self.rows if self.by == "rows" else self.columns

    def rectangle(self, start: int, stop: int) -> tuple[Span, Span]:
        """Rows and columns of a range of units."""
        return ((start, stop), (0, self.columns)) if self.by == "rows" else ((0, self.rows), (start, stop))

    def part_shape(self, units: int) -> tuple[int, int]:
        """The shape of a number of units."""
        return (units, self.columns) if self.by == "rows" else (self.rows, units)


@dataclass(frozen=True)
class PlacedRange:
    """Units (rows or columns) from `start` to before `stop`, and their owner."""

    start: int
    stop: int
    owner: int


@dataclass(frozen=True)
class TablePlacement:
    """The owners of all units; pieces are in order and leave no gap. An owner keeps its pieces one after the other."""

    units: int
    owners: int
    pieces: tuple[PlacedRange, ...]

    def __post_init__(self) -> None:
        at = 0
        for piece in self.pieces:
            if piece.start != at or piece.stop <= at or not 0 <= piece.owner < self.owners:
                raise ValueError(f"pieces of a placement must follow each other; found {piece} after {at}")
            at = piece.stop
        if at != self.units:
            raise ValueError(f"a placement of {self.units} units ends at {at}")

    def of(self, owner: int) -> list[PlacedRange]:
        """The pieces of an owner."""
        return [piece for piece in self.pieces if piece.owner == owner]

    def size(self, owner: int) -> int:
        """How many units an owner holds."""
        return sum(piece.stop - piece.start for piece in self.of(owner))

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array]:
        """Of each piece: its start, its owner, and what to add to a unit for its place with the owner."""
        filled = [0] * self.owners
        shifts: list[int] = []
        for piece in self.pieces:
            shifts.append(filled[piece.owner] - piece.start)
            filled[piece.owner] += piece.stop - piece.start
        starts, owners = [piece.start for piece in self.pieces], [piece.owner for piece in self.pieces]
        return np.array(starts, np.int64), np.array(owners, np.int64), np.array(shifts, np.int64)

    def locate(self, units: Array) -> tuple[Array, Array]:
        """Owners of units, and the places of the units there."""
        starts, owners, shifts = self._tables
        if len(starts) == 1:
            return np.broadcast_to(owners, units.shape), units
        piece = np.searchsorted(starts, units, "right") - 1
        return owners[piece], units + shifts[piece]

    def spans(self, owner: int) -> list[tuple[int, int, int]]:
        """For each piece of an owner: its first unit, the unit after its last, and where the first is kept."""
        at, found = 0, []
        for piece in self.of(owner):
            found.append((piece.start, piece.stop, at))
            at += piece.stop - piece.start
        return found


def even(units: int, owners: int) -> TablePlacement:
    """As many units for each owner."""
    cuts = [units * k // owners for k in range(owners + 1)]
    ranges = zip(range(owners), cuts[:-1], cuts[1:], strict=True)
    return TablePlacement(units, owners, tuple(PlacedRange(a, b, k) for k, a, b in ranges if b > a))


class AccessCounts:
    """How often ranges of units were accessed."""

    def __init__(self, units: int) -> None:
        self.units, self.buckets = units, min(units, MOST_BUCKETS)
        self.counts = np.zeros(self.buckets, np.int64)

    def add(self, units: Array) -> None:
        """Count accesses; of many, a sample."""
        if self.buckets > 0:
            step = max(1, len(units) >> 16)
            buckets = units[::step] * self.buckets // self.units
            self.counts += step * np.bincount(buckets, minlength=self.buckets)

    @property
    def cuts(self) -> Array:
        """The first unit of each bucket, and the number of units."""
        return -(-np.arange(self.buckets + 1) * self.units // max(1, self.buckets))


def balanced(counts: AccessCounts, owners: int) -> TablePlacement:
    """A placement where owners get about as many accesses: hot ranges are split, and pieces go to the least busy."""
    if not counts.counts.any():
        return even(counts.units, owners)
    cuts, load = counts.cuts, counts.counts
    share = max(1, -(-int(load.sum()) // (owners * PIECES)))
    groups = (np.cumsum(load) - load) // share, cuts[:-1] * owners * PIECES // counts.units
    starts = np.flatnonzero(np.r_[True, np.logical_or(*(np.diff(group) > 0 for group in groups))])
    ends = np.r_[starts[1:], counts.buckets]
    loads, sizes = np.add.reduceat(load, starts), cuts[ends] - cuts[starts]
    chosen = _dealt(loads.tolist(), sizes.tolist(), owners, int(MOST_UNITS * counts.units / owners))
    ranges = zip(cuts[starts].tolist(), cuts[ends].tolist(), chosen, strict=True)
    return TablePlacement(counts.units, owners, _merged([PlacedRange(a, b, k) for a, b, k in ranges]))


def _dealt(loads: Sequence[int], sizes: Sequence[int], owners: int, most: int) -> list[int]:
    """The owner of each piece: the busiest piece first, to the least busy owner that has room."""
    busy, held, chosen = [0] * owners, [0] * owners, [0] * len(loads)
    for k in sorted(range(len(loads)), key=lambda k: (-loads[k], -sizes[k], k)):
        room = [owner for owner in range(owners) if held[owner] + sizes[k] <= most]
        owner = min(room or [held.index(min(held))], key=lambda owner: (busy[owner], held[owner], owner))
        chosen[k] = owner
        busy[owner] += loads[k]
        held[owner] += sizes[k]
    return chosen


def _merged(pieces: Sequence[PlacedRange]) -> tuple[PlacedRange, ...]:
    merged: list[PlacedRange] = []
    for piece in pieces:
        if merged and merged[-1].owner == piece.owner:
            merged[-1] = PlacedRange(merged[-1].start, piece.stop, piece.owner)
        else:
            merged.append(piece)
    return tuple(merged)
