"""The lanes of a call by owner: indices as cells of the table, cells as places of owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ptokit.ops import gather
from ptokit.sharded.placement import AccessCounts, Array, TableGrid, TablePlacement

NewArray = Callable[[tuple[int, ...], np.dtype[Any]], Array]

NO_LANES = np.empty(0, np.int64)


@dataclass(frozen=True)
class Resolved:
    """Indices under a policy: entries inside the table, and their lanes."""

    entries: Array
    lanes: Array | None
    """None if every lane has an entry."""


@dataclass(frozen=True)
class OwnerPart:
    """What a call does at an owner."""

    owner: int
    index: Array
    """Rows or elements of the owner's part."""
    lanes: Array
    """Their lanes, in order; empty for all lanes."""


@dataclass(frozen=True)
class Router:
    """Cells of a table of rows and columns, by owner."""

    grid: TableGrid
    placement: TablePlacement
    counts: AccessCounts

    def parts(self, resolved: Resolved, by_rows: bool) -> Iterator[OwnerPart]:
        """The parts of a call; owners without lanes have none."""
        if by_rows and self.grid.by == "columns":
            lanes = NO_LANES if resolved.lanes is None else resolved.lanes
            for owner in range(self.placement.owners):
                if self.placement.size(owner) and len(resolved.entries):
                    yield OwnerPart(owner, resolved.entries, lanes)
            return
        owners, local, units = self._located(resolved.entries, by_rows)
        self.counts.add(units)
        yield from self._grouped(owners, local, resolved)

    def _located(self, entries: Array, by_rows: bool) -> tuple[Array, Array, Array]:
        """Owners, places with the owners, and units."""
        if by_rows:
            return (*self.placement.locate(entries), entries)
        row, column = np.divmod(entries, self.grid.columns)
        if self.grid.by == "rows":
            owners, local = self.placement.locate(row)
            return owners, local * self.grid.columns + column, row
        owners, local = self.placement.locate(column)
        sizes = np.array([self.placement.size(owner) for owner in range(self.placement.owners)], np.int64)
        return owners, row * sizes[owners] + local, column

    def _grouped(self, owners: Array, local: Array, resolved: Resolved) -> Iterator[OwnerPart]:
        """Lanes stay in order within an owner."""
        count = np.bincount(owners, minlength=self.placement.owners) if len(owners) else np.zeros(1, np.int64)
        if np.count_nonzero(count) == 1:
            lanes = NO_LANES if resolved.lanes is None else resolved.lanes
            yield OwnerPart(int(count.argmax()), local, lanes)
            return
        order = np.argsort(owners.astype(np.uint16), kind="stable")
        ends = np.cumsum(count)
        for owner in np.flatnonzero(count).tolist():
            mine = order[ends[owner] - count[owner] : ends[owner]]
            yield OwnerPart(owner, local[mine], mine if resolved.lanes is None else resolved.lanes[mine])

    def spans(self, owner: int, by_rows: bool) -> list[tuple[int, int, int]] | None:
        """The columns of an owner in a row of the table; None if it has whole rows, or for elements."""
        return self.placement.spans(owner) if by_rows and self.grid.by == "columns" else None

    def source(
        self, src: Array, part: OwnerPart, shape: tuple[int, ...], dims: int, by_rows: bool, new: NewArray = np.empty
    ) -> Array:
        """What an owner gets of the source: a number, a row, or an entry for each of its lanes, in memory of `new`.

        `shape` is that of the scattered data, the first `dims` of it are lanes. Always a copy.
        """
        if src.size == 1 and prod(shape):
            return src.reshape(()).copy()
        width = prod(shape[dims:])
        spans = self.spans(part.owner, by_rows) or [(0, width, 0)]
        if src.ndim <= len(shape) - dims:
            row = np.broadcast_to(src, shape[dims:]).reshape(width)
            return np.concatenate([row[start:stop] for start, stop, _ in spans]) if by_rows else row.reshape(()).copy()
        entries = np.broadcast_to(src, shape).reshape(prod(shape[:dims]), width)
        made = new((len(part.index), sum(stop - start for start, stop, _ in spans)), src.dtype)
        for start, stop, at in spans:
            _copy(entries[:, start:stop], part.lanes, made[:, at : at + stop - start])
        return made if by_rows else made.reshape(-1)


def _copy(entries: Array, lanes: Array, out: Array) -> None:
    """The entries of some lanes; of all if none is named."""
    if len(lanes):
        gather(entries, lanes, out=out)
    else:
        out[...] = entries
