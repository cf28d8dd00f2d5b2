"""Calls of a trace: what they are, their indices, and what policies make of these; compact tables.

A compact table has only those entries that calls touch, so that tables of any size can be replayed. Entries are kept in
groups that begin at a multiple of 128 bytes. So entries share a segment, a line or a burst exactly if they do in the
whole table. The last group is always kept: `clamp` goes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
KINDS = ("gather", "scatter", "embedding", "embedding_bag", "index_select")
"""The calls that are recorded: those of ptokit, then those of torch."""
UNITS = ("row", "elem")
POLICIES = ("undefined", "clamp", "wrap", "zero", "skip")
ATOMICS = ("none", "add", "max", "min", "mul", "mean")
INDEX_TYPES = ("int32", "uint32", "int64")
CHOICES = {"kind": KINDS, "unit": UNITS, "oob": POLICIES, "atomic": ATOMICS, "index": INDEX_TYPES}
"""What the fields of a `LookupKind` may be."""


@dataclass(frozen=True)
class LookupKind:
    """All that calls have in common except their indices."""

    kind: str
    """One of `KINDS`."""
    shape: tuple[int, ...]
    """Of the table."""
    dtype: str
    itemsize: int
    table: int = 0
    """The number of the table, in the order of first use."""
    unit: str = "row"
    """What an index selects: a `row` (all elements with one index along `axis`), or an `elem`ent in C order."""
    axis: int = 0
    oob: str = "undefined"
    atomic: str = "none"
    index: str = "int64"
    """The element type of the indices."""

    @property
    def entries(self) -> int:
        """How many rows or elements the table has."""
        return prod(self.shape) if self.unit == "elem" else self.shape[self.axis]

    @property
    def entry_bytes(self) -> int:
        """Bytes that an index moves."""
        if self.unit == "elem":
            return self.itemsize
        return self.itemsize * prod(n for k, n in enumerate(self.shape) if k != self.axis)

    @property
    def writes(self) -> bool:
        """Whether the table is written."""
        return self.kind == "scatter"

    @property
    def title(self) -> str:
        """The call with its atomic, and its axis unless it is the first: `scatter add`, `index_select axis=1`."""
        atomic, axis = f" {self.atomic}" * (self.atomic != "none"), f" axis={self.axis}" * (self.axis > 0)
        return f"{self.kind}{atomic}{axis}"

    @property
    def extents(self) -> str:
        """The shape of the table: `1000x64`."""
        return "x".join(map(str, self.shape)) or "scalar"


@dataclass(frozen=True, eq=False)
class TracedCall:
    """One call: what it is, and its indices in C order."""

    what: LookupKind
    indices: Array


NOWHERE = -1
"""The entry of a lane that accesses none."""


class Cells(NamedTuple):
    """The entry of each lane, or `NOWHERE`, and which lanes have an index outside the table."""

    entry: Array
    outside: Array


def cells_of(call: TracedCall) -> Cells:
    """The entries that a call accesses; an int32 counts as a uint32 (MG-OOB-08)."""
    given, entries = call.indices, call.what.entries
    values = (given.view(np.uint32) if given.dtype == np.int32 else given).astype(np.int64)
    outside = (values < 0) | (values >= entries)
    if not entries or call.what.oob not in ("clamp", "wrap"):
        return Cells(np.where(outside, NOWHERE, values), outside)
    return Cells(np.clip(values, 0, entries - 1) if call.what.oob == "clamp" else values % entries, outside)


# --- a table with only those entries that calls touch ----------------------------------------------------------------


SEGMENT = 128
"""Bytes of the largest unit in which memory is accessed."""


class CompactCall(NamedTuple):
    """A call on a compact table."""

    indices: Array
    """Indices, int32: lanes outside the table stay outside, and a policy moves them to the same entry."""
    entry: Array
    """The entry of each lane, or `NOWHERE`."""


@dataclass(frozen=True, eq=False)
class CompactTable:
    """As much of a table as some calls need, and their indices in it."""

    what: LookupKind
    entries: int
    calls: tuple[CompactCall, ...]
    lanes: int
    """How many indices were taken."""
    dropped: int
    """How many later ones were not."""


def group_size(what: LookupKind) -> int:
    """Entries of a group."""
    return lcm(what.entry_bytes, SEGMENT) // what.entry_bytes


def compacted(
    what: LookupKind, calls: Sequence[TracedCall], most_lanes: int, most_bytes: int, most_calls: int, whole: int = 0
) -> CompactTable:
    """The first calls on a table, as many as the limits allow; the last one may be cut. A table of up to `whole` bytes
    keeps all its entries."""
    group = group_size(what)
    room = min(most_lanes, most_bytes // (group * what.entry_bytes))
    taken: list[TracedCall] = []
    for call in calls[:most_calls]:
        if room and call.indices.size:
            taken.append(TracedCall(what, call.indices[:room]))
            room -= taken[-1].indices.size
    found = [cells_of(call) for call in taken]
    touched = [cells.entry[cells.entry != NOWHERE] // group for cells in found]
    last = max(0, what.entries - 1) // group
    is_whole = what.entries * what.entry_bytes <= whole
    kept = np.arange(last + 1) if is_whole else np.unique(np.concatenate([*touched, np.array([last])]))
    entries = (kept.size - 1) * group + (what.entries - last * group)
    made: list[CompactCall] = []
    for cells in found:
        is_none = cells.entry == NOWHERE
        entry = np.searchsorted(kept, cells.entry // group) * group + cells.entry % group
        entry = np.where(is_none, NOWHERE, entry)
        made.append(CompactCall(_indices(what, entries, entry, cells.outside), entry))
    lanes = sum(call.indices.size for call in taken)
    return CompactTable(what, entries, tuple(made), lanes, sum(call.indices.size for call in calls) - lanes)


def _indices(what: LookupKind, entries: int, entry: Array, outside: Array) -> Array:
    """Indices that a policy maps to these entries. A lane that `clamp` moves to the first entry gets it directly: only
    a negative int64 does, and tiles have indices of 32 bits."""
    beyond = {"wrap": entries + entry, "clamp": np.where(entry == entries - 1, entries, entry)}
    return np.where(outside, beyond.get(what.oob, entries), entry).astype(np.int32)
