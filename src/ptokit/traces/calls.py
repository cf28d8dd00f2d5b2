"""Calls of a trace: what they are, their indices, and what policies make of these."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
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
