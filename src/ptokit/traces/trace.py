"""`IndexTrace`: the indices of calls, in the order of the calls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptokit.finding import counted
from ptokit.lang.faults import public
from ptokit.markup import Displayed, box, clipped, dim, table
from ptokit.traces.calls import NOWHERE, LookupKind, TracedCall, cells_of
from ptokit.traces.file import STATED, read_file, write_trace

HOT = 100
"""One in so many of the accessed entries is hot."""
HEAD = ("table", "call", "shape", "type", "policy", "calls", "indices", "distinct", "outside", "hot 1%")


@dataclass(frozen=True)
class TableUse:
    """How calls of one kind use a table."""

    what: LookupKind
    calls: int
    lanes: int
    """Indices of all calls."""
    distinct: int
    """Entries that are accessed."""
    outside: int
    """Indices outside the table."""
    hot: float
    """The share of the accesses that goes to the most used hundredth of the accessed entries."""

    @property
    def repeats(self) -> int:
        """Accesses of an entry that an earlier lane has accessed."""
        return max(0, self.lanes - self.distinct - (self.outside if self.what.oob not in ("clamp", "wrap") else 0))

    def as_dict(self) -> dict[str, Any]:
        """The use as plain data."""
        what = self.what
        return {
            "table": what.table, "call": what.kind, "shape": [*what.shape], "dtype": what.dtype, "unit": what.unit,
            "axis": what.axis, "oob": what.oob, "atomic": what.atomic, "entries": what.entries,
            "entry_bytes": what.entry_bytes, "calls": self.calls, "indices": self.lanes, "distinct": self.distinct,
            "repeats": self.repeats, "outside": self.outside, "hot": self.hot,
        }  # fmt: skip

    def cells(self) -> tuple[str, ...]:
        """The use as a row of a table."""
        what = self.what
        kind = (f"#{what.table}", what.title, what.extents, what.dtype, what.oob)
        return (*kind, *(f"{n:,}" for n in (self.calls, self.lanes, self.distinct, self.outside)), f"{self.hot:.0%}")


@dataclass(eq=False, repr=False)
class IndexTrace(Displayed):
    """Indices of gathers, scatters and embedding lookups, in the order in which a program made them."""

    calls: list[TracedCall] = field(default_factory=list[TracedCall])
    source: str = ""
    """Where it comes from: a command, or a generator with its parameters."""
    sample: int = 0
    """How many calls were to be drawn from all that were made; 0 if the first ones are recorded."""
    seed: int = 0
    """What started the generator that drew them."""
    seen: int = 0
    """Calls that were made, recorded or not."""
    missed: int = 0
    """Calls that would be here, but their indices could not be read."""
    cut: str = ""
    """Why other calls are not here: the limit that was reached first. Empty if none was."""

    @property
    def lanes(self) -> int:
        """Indices of all calls."""
        return sum(call.indices.size for call in self.calls)

    @public
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as an `.npz` file, atomically."""
        write_trace(path, self.calls, {name: getattr(self, name) for name in STATED})

    @classmethod
    @public
    def load(cls, path: str | os.PathLike[str]) -> IndexTrace:
        """Read a file that `save` has written; raises ValueError for any other content."""
        calls, stated = read_file(path)
        return cls(calls, **stated)

    def by_kind(self) -> dict[LookupKind, list[TracedCall]]:
        """The calls of each table and kind, in the order of first use."""
        found: dict[LookupKind, list[TracedCall]] = {}
        for call in self.calls:
            found.setdefault(call.what, []).append(call)
        return found

    def tables(self) -> list[TableUse]:
        """How each table is used, by each kind of call."""
        return [use_of(what, calls) for what, calls in self.by_kind().items()]

    def as_dict(self) -> dict[str, Any]:
        """The trace as plain data, without its indices."""
        plain = {name: getattr(self, name) for name in STATED}
        counts = {"calls": len(self.calls), "indices": self.lanes}
        return {**plain, **counts, "tables": [use.as_dict() for use in self.tables()]}

    def heading(self) -> str:
        """How much was recorded, and what was not."""
        parts = [f"{counted(len(self.calls), 'call')} of {self.seen:,}", f"{self.lanes:,} indices"]
        which = f"drawn at random, seed {self.seed}" if self.sample else "the first ones"
        notes = (
            (bool(self.cut), f"{which}, up to {self.cut}"),
            (self.missed > 0, f"{self.missed:,} with indices that cannot be read"),
        )
        return "; ".join([", ".join(parts), *(text for is_so, text in notes if is_so)])

    def __repr__(self) -> str:
        return f"<IndexTrace {clipped(self.source, 80)!r}: {self.heading()}>"

    def __str__(self) -> str:
        rows = [HEAD, *(use.cells() for use in self.tables())]
        return "\n".join([self.heading(), *(line.rstrip() for line in in_columns(rows))])

    def _repr_html_(self) -> str:
        rows = [use.cells() for use in self.tables()]
        return box("index trace", dim(self.heading()), table(rows, HEAD))


def use_of(what: LookupKind, calls: Iterable[TracedCall]) -> TableUse:
    """The use of a table by some calls."""
    listed = [*calls]
    found = [cells_of(call) for call in listed]
    entries = np.concatenate([cells.entry for cells in found])
    outside = sum(int(np.count_nonzero(cells.outside)) for cells in found)
    counts = np.unique(entries[entries != NOWHERE], return_counts=True)[1]
    hottest = np.sort(counts)[::-1][: -(-counts.size // HOT)]
    share = float(hottest.sum() / counts.sum()) if counts.size else 0.0
    return TableUse(what, len(listed), int(entries.size), int(counts.size), outside, share)


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text, aligned: words to the left, numbers to the right."""
    from ptokit.machine.report import aligned

    return aligned(rows)
