"""What policies make of indices: the entry that each lane accesses, as `gather` and `scatter` define it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ptokit.traces.calls import Array, TracedCall

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
