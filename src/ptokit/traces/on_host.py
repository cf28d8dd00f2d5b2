"""A trace through `pto.gather` and `pto.scatter` on the native engine, against the calls of other libraries.

The contenders are those of `benchmarks/peers.py` that need no compiler of their own. Each round calls all of them, so
that a slowdown of the machine concerns them all; the median of the ratios within rounds counts. Others get the entries
that the policy has given: they have no policies.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.isa.dtype import dtype
from ptokit.ops import gather, scatter
from ptokit.progress import task
from ptokit.traces.calls import Array, LookupKind
from ptokit.traces.cells import NOWHERE
from ptokit.traces.compact import CompactTable, compacted
from ptokit.traces.replay import ReplaySettings, Row, first_cells, left_out
from ptokit.traces.trace import IndexTrace

LANES = 1 << 20
"""Indices of each table that are replayed by default."""
MOST_BYTES = 256 << 20
"""Of a table, and of the rows that are moved."""
MOST_CALLS = 10_000
ROUNDS = 5
OURS = "ptokit"
WORDS = {4: "int32", 2: "int16", 1: "int8"}
"""Types in which bits are moved, by size; torch moves no unsigned ones."""
Move = Callable[[Array], object]
"""Makes all calls of a table, on this copy of it."""


class HostCall(NamedTuple):
    """A call with its memory."""

    indices: Array
    entry: Array
    """For other libraries: where the policy leads."""
    data: Array
    """Rows that are read or written."""
    is_moved: Array
    """The lanes that other libraries move, too."""


def run(trace: IndexTrace, settings: ReplaySettings) -> tuple[list[Row], list[str]]:
    """A row for each table, kind of call and library."""
    rows: list[Row] = []
    notes: list[str] = []
    with task("replay:"):
        for what, calls in trace.by_kind().items():
            if not what.entry_bytes or not what.entries:
                notes.append(f"#{what.table} {what.title}: the table is empty")
                continue
            lanes = settings.lanes or LANES
            made = compacted(what, calls, lanes, MOST_BYTES, MOST_CALLS, whole=MOST_BYTES)
            rows += _rows(made)
            notes += [left_out(what, made.dropped)] * (made.dropped > 0)
            if made.entries < what.entries:
                notes.append(f"#{what.table} {what.title}: the table is reduced to its touched entries")
    return rows, notes


def _rows(made: CompactTable) -> list[Row]:
    table, calls = memory_of(made)
    movers = contenders(made.what, calls)
    begin = {**first_cells(made.what), "calls": len(calls), "indices": made.lanes}
    try:
        expected = _result(movers[OURS], table, calls)
    except (VerifyError, OutOfBoundsError, ValueError) as refusal:
        return [{**begin, "library": OURS, "verdict": f"refused: {str(refusal)[:100]}"}]
    is_equal: dict[str, bool] = {}
    for name, move in [*movers.items()]:
        try:
            is_equal[name] = _is_equal(_result(move, table, calls), expected)
        except Exception:  # the library does not have this move
            del movers[name]
    times = _times(movers, table)
    payload = sum(call.data.nbytes for call in calls)
    return [
        {
            **begin,
            "library": name,
            "us": 1e6 * statistics.median(found),
            "GB/s": payload / 1e9 / max(statistics.median(found), 1e-9),
            "times as long": statistics.median(a / b for a, b in zip(found, times[OURS], strict=True)),
            "same bits": is_equal[name],
        }
        for name, found in times.items()
    ]


def memory_of(made: CompactTable) -> tuple[Array, list[HostCall]]:
    """The table and the rows of all calls. Bits are moved as whole numbers; sums have the table's own type."""
    what = made.what
    word = next(each for each in WORDS if what.entry_bytes % each == 0)
    kind = np.dtype(WORDS[word]) if what.atomic == "none" else dtype(what.dtype).numpy
    width = what.entry_bytes // kind.itemsize
    table = (np.arange(made.entries * width) % 251).astype(kind).reshape(made.entries, width)
    calls: list[HostCall] = []
    for call in made.calls:
        is_refused = (call.entry == NOWHERE) & (what.oob == "undefined")  # the others are moved
        indices, entry = call.indices[~is_refused], call.entry[~is_refused]
        data = (np.arange(indices.size * width) % 7).astype(kind).reshape(indices.size, width)
        calls.append(HostCall(indices, np.maximum(entry, 0), data, entry != NOWHERE))
    return table, calls


def _result(move: Move, table: Array, calls: Sequence[HostCall]) -> list[Array]:
    """The table afterwards, and the rows of lanes that all contenders move."""
    copy = table.copy()
    before = [call.data.copy() for call in calls]
    move(copy)
    found = [copy, *(call.data[call.is_moved].copy() for call in calls)]
    for call, data in zip(calls, before, strict=True):
        call.data[...] = data
    return found


def _is_equal(found: list[Array], expected: list[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


def _times(movers: dict[str, Move], table: Array) -> dict[str, list[float]]:
    """Seconds of each contender, round by round."""
    times: dict[str, list[float]] = {name: [] for name in movers}
    copies = {name: table.copy() for name in movers}
    for _ in range(ROUNDS):
        for name, move in movers.items():
            began = time.perf_counter()
            move(copies[name])
            times[name].append(time.perf_counter() - began)
    return times


# --- contenders


def contenders(what: LookupKind, calls: Sequence[HostCall]) -> dict[str, Move]:
    """The same move as calls of each library that has it."""
    made = {OURS: _ours, "NumPy": _numpy, **({"torch": _torch} if find_spec("torch") else {})}
    found = {name: make(what) for name, make in made.items()}

    def move(each: Callable[[Array, HostCall], object], table: Array) -> None:
        for call in calls:
            each(table, call)

    return {name: partial(move, each) for name, each in found.items() if each is not None}


def _ours(what: LookupKind) -> Callable[[Array, HostCall], object]:
    policy: dict[str, Any] = {"oob": what.oob}
    if what.writes:
        return lambda table, call: scatter(table, call.data, call.indices, atomic=what.atomic, **policy)
    return lambda table, call: gather(table, call.indices, out=call.data, **policy)


def _numpy(what: LookupKind) -> Callable[[Array, HostCall], object] | None:
    if not what.writes:
        return lambda table, call: np.take(table, call.entry, axis=0, out=call.data, mode="clip")
    functions: dict[str, Any] = {"add": np.add.at, "max": np.maximum.at, "min": np.minimum.at}
    combine = functions.get(what.atomic)
    if what.atomic == "none":
        return lambda table, call: table.__setitem__(call.entry[call.is_moved], call.data[call.is_moved])
    return combine and (lambda table, call: combine(table, call.entry[call.is_moved], call.data[call.is_moved]))


def _torch(what: LookupKind) -> Callable[[Array, HostCall], object] | None:
    import torch  # pyright: ignore[reportMissingImports]

    library: Any = torch
    names = {"none": "index_copy_", "add": "index_add_"}
    if what.writes and what.atomic not in names:
        return None

    def move(table: Array, call: HostCall) -> object:
        whole = library.from_numpy(table)
        if not what.writes:
            return library.index_select(whole, 0, library.from_numpy(call.entry), out=library.from_numpy(call.data))
        entry, data = (library.from_numpy(each[call.is_moved]) for each in (call.entry, call.data))
        return getattr(whole, names[what.atomic])(0, entry, data)

    return move if what.atomic == "none" or what.dtype in ("float32", "float16", "float64", "int32", "int64") else None
