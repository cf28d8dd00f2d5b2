"""Keeps the calls of a trace within limits.

Calls are ranked: by their number, or at random. Kept are the calls of the lowest ranks, up to the first that does not
fit; so the calls of a random sample come from the whole run, and each call is as likely as the others to be in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np

from ptokit.traces.draws import Draws
from ptokit.traces.file import IndexTrace
from ptokit.traces.table_memory import TableNumbers
from ptokit.traces.traced_calls import CHOICES, INDEX_TYPES, Array, LookupKind, TracedCall


@dataclass(eq=False, slots=True)
class _Use:
    """Calls of one kind on one table."""

    what: LookupKind
    identity: object
    uses: int = 0
    """How many calls of it are kept."""


class IndexRecorder:
    """Adds calls to a trace. Calls of several threads are added one at a time."""

    def __init__(self, trace: IndexTrace, limits: dict[str, int]) -> None:
        """The most `calls`, `kinds` of calls, `indices` and `bytes` of indices."""
        self.trace, self._limits = trace, limits
        self._totals = dict.fromkeys(limits, 0)
        self._tables: dict[tuple[object, ...], _Use] = {}
        self._kept: dict[int, tuple[_Use, Array]] = {}
        """By the number of the call."""
        self._ranks: list[tuple[int, int]] = []
        """A heap of the calls that are kept: minus the rank, and the number. The first has the highest rank."""
        self._end: float = float("inf")
        """Ranks from here on are not kept."""
        self._next_rank: Iterator[int] = Draws(trace.seed).words() if trace.sample else count()
        self._lock = threading.RLock()
        self._is_over = False
        self._numbers = TableNumbers()

    def see(self, describe: Any, *args: Any, **options: Any) -> None:
        """Record a call if its rank is low enough: `describe` gives its kind, its table and its indices. Never raises:
        the program goes on as without it."""
        with self._lock:
            if self._is_over:  # the program has kept a function of the block
                return
            number, rank = self.trace.seen, next(self._next_rank)
            self.trace.seen += 1
            if rank >= self._end:
                return
            try:
                what, given, indices = describe(*args, **options)
                kind = index_type(indices.dtype)
                table = self._table(replace(what, index=kind), self._numbers.of(given))
                room = min(self._limits["indices"], self._limits["bytes"] // np.dtype(kind).itemsize)
                self._kept[number] = table, _first(indices, room, kind)
            except Exception:
                self.trace.missed += 1
                return
            if indices.size > room:
                self._reached("indices" if room == self._limits["indices"] else "bytes")
            heappush(self._ranks, (-rank, number))
            self._count(number, 1)
            self._drop()

    def finish(self) -> None:
        """Put the calls that are kept into the trace, in their order; tables are numbered by their first use."""
        with self._lock:
            self._is_over = True
            numbers: dict[object, int] = {}
            named = {
                table: replace(table.what, table=numbers.setdefault(table.identity, len(numbers)))
                for table in dict.fromkeys(table for table, _ in self._kept.values())
            }
            self.trace.calls = [TracedCall(named[table], indices) for table, indices in self._kept.values()]
            self._kept, self._ranks, self._tables, self._numbers = {}, [], {}, TableNumbers()

    def _table(self, what: LookupKind, number: int) -> _Use:
        if any(getattr(what, name) not in known for name, known in CHOICES.items()):
            raise ValueError(f"a trace has no calls of this kind: {what}")
        identity = number, what.shape, what.dtype
        return self._tables.get((what, identity)) or _Use(what, identity)

    def _count(self, number: int, sign: int) -> None:
        """Add a call to the totals, or subtract it."""
        table, indices = self._kept[number]
        table.uses += sign
        if table.uses:
            self._tables[table.what, table.identity] = table
        else:
            del self._tables[table.what, table.identity]
        for name, amount in (("calls", 1), ("indices", indices.size), ("bytes", indices.nbytes)):
            self._totals[name] += sign * amount
        self._totals["kinds"] = len(self._tables)

    def _drop(self) -> None:
        """Drop the calls of the highest ranks until the others fit."""
        while exceeded := [name for name, most in self._limits.items() if self._totals[name] > most]:
            rank, number = heappop(self._ranks)
            self._end = -rank
            self._count(number, -1)
            del self._kept[number]
            self._reached(exceeded[0])

    def _reached(self, name: str) -> None:
        self.trace.cut = self.trace.cut or f"{self._limits[name]:,} {name}"


@lru_cache
def index_type(given: Any) -> str:
    """The type that indices are recorded as."""
    kind = np.dtype(given)
    if kind.kind not in "iu":
        raise TypeError(f"indices of {kind}")
    return kind.name if kind.name in INDEX_TYPES else "int64"


def _first(indices: Array, count: int, kind: str) -> Array:
    """A copy of the first indices, in C order."""
    flat = indices.reshape(-1) if indices.flags.c_contiguous else indices.flat
    taken = np.array(flat[:count])
    copy = taken.astype(kind)
    if not np.array_equal(copy, taken):
        raise ValueError("an index is above the range of int64")
    return copy
