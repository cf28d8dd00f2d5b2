"""Adds calls to a trace, up to a limit."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from ptokit.traces.calls import CHOICES, INDEX_TYPES, Array, LookupKind, TracedCall
from ptokit.traces.file import MOST_CALLS, MOST_KINDS
from ptokit.traces.trace import IndexTrace


class IndexRecorder:
    """Adds calls to a trace while there is room. Calls of several threads are added one at a time."""

    def __init__(self, trace: IndexTrace, limit: int, most_bytes: int) -> None:
        self.trace = trace
        self._limit, self._most_bytes = limit, most_bytes
        self._lanes = self._bytes = 0
        self._kinds: set[LookupKind] = set()
        self._tables: dict[tuple[object, ...], int] = {}
        self._lock = threading.RLock()

    def see(self, describe: Any, *args: Any, **options: Any) -> None:
        """Record a call if its turn has come: `describe` gives its kind, what its table is, and its indices. Never
        raises: the program goes on as without it."""
        trace = self.trace
        with self._lock:
            trace.seen += 1
            if trace.cut or (trace.seen - 1) % trace.every:
                return
            try:
                what, identity, indices = describe(*args, **options)
                self._add(what, (identity, what.shape, what.dtype), indices)
            except Exception:
                trace.missed += 1

    def _add(self, what: LookupKind, identity: tuple[object, ...], indices: Any) -> None:
        kind = index_type(indices.dtype)
        size = np.dtype(kind).itemsize
        number = self._tables.setdefault(identity, len(self._tables))
        what = replace(what, table=number, index=kind)
        if any(getattr(what, name) not in known for name, known in CHOICES.items()):
            raise ValueError(f"a trace has no calls of this kind: {what}")
        if len(self.trace.calls) >= MOST_CALLS or (what not in self._kinds and len(self._kinds) >= MOST_KINDS):
            self.trace.cut = f"after {len(self.trace.calls):,} calls of {len(self._kinds):,} kinds"
            return
        room = min(self._limit - self._lanes, (self._most_bytes - self._bytes) // size, indices.size)
        if indices.size > room:
            by_lanes = self._limit - self._lanes <= room
            self.trace.cut = f"after {self._limit:,} indices" if by_lanes else f"after {self._most_bytes:,} bytes"
        if room or not indices.size:
            self._kinds.add(what)
            self.trace.calls.append(TracedCall(what, _first(indices, room, kind)))
            self._lanes, self._bytes = self._lanes + room, self._bytes + room * size


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
