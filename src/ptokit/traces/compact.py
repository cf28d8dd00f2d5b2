"""A table with only those entries that calls touch, so that tables of any size can be replayed.

Entries are kept in groups that begin at a multiple of 128 bytes. So entries share a segment, a line or a burst exactly
if they do in the whole table. The last group is always kept: `clamp` goes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import numpy as np

from ptokit.traces.calls import NOWHERE, Array, LookupKind, TracedCall, cells_of

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
