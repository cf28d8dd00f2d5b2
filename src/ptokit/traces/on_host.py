"""A trace through `pto.gather` and `pto.scatter` on the native engine, against the calls of other libraries.

The contenders are those of `benchmarks/peers.py` that are installed. Each round calls all of them, so
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
from ptokit.traces.file import IndexTrace
from ptokit.traces.replay import ReplaySettings, Row, each_table, first_cells, refused
from ptokit.traces.traced_calls import NOWHERE, Array, CompactTable, LookupKind, TracedCall, compacted, group_size

LANES = 1 << 20
"""Indices of each table that are replayed by default."""
MOST_BYTES = 128 << 20
"""Of a table, and of the rows that are moved. A replay holds up to nine times as many bytes."""
MOST_CALLS = 10_000
ROUNDS = 5
OURS = "ptokit"
NO_SUCH_MOVE = "no such call for arrays of this type"
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
    for made in each_table(trace, why_not, partial(compact, settings), notes):
        rows += _rows(made)
        if made.entries < made.what.entries:
            notes.append(f"#{made.what.table} {made.what.title}: the table is reduced to its touched entries")
    missing = [name for name, (package, _) in LIBRARIES.items() if not find_spec(package)]
    notes += [f"not installed: {', '.join(missing)}"] * bool(missing)
    return rows, notes


def _rows(made: CompactTable) -> list[Row]:
    table, calls = memory_of(made)
    movers = contenders(made.what, calls)
    begin = {**first_cells(made.what), "calls": len(calls), "indices": made.lanes}
    try:
        expected = _result(movers[OURS], table, calls)
    except (VerifyError, OutOfBoundsError, ValueError) as refusal:
        return [{**begin, "library": OURS, "verdict": refused(refusal)}]
    is_equal: dict[str, bool] = {}
    for name, move in movers.items():
        try:
            found = _result(move, table, calls)
        except Exception:
            if name == OURS:
                raise
            continue  # the library does not have this move for these types
        is_equal[name] = _is_equal(found, expected)
        del found
    del expected
    times = _times({name: movers[name] for name in is_equal}, table)
    payload = sum(call.data.nbytes for call in calls)
    rows: list[Row] = [
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
    without = [name for name, (package, _) in LIBRARIES.items() if find_spec(package) and name not in is_equal]
    return [*rows, *({**begin, "library": name, "verdict": NO_SUCH_MOVE} for name in without)]


def compact(settings: ReplaySettings, what: LookupKind, calls: Sequence[TracedCall]) -> CompactTable:
    """As much of a table as is replayed on the host."""
    return compacted(what, calls, settings.lanes or LANES, MOST_BYTES, MOST_CALLS, whole=MOST_BYTES)


def why_not(what: LookupKind) -> str:
    """Why a table cannot be made on the host; empty if it can."""
    if not what.entry_bytes or not what.entries:
        return "the table is empty"
    if group_size(what) * what.entry_bytes > MOST_BYTES:
        return f"rows of {what.entry_bytes:,} bytes are too large"
    try:
        size = what.itemsize if what.atomic == "none" else dtype(what.dtype).size
    except TypeError:
        return f"NumPy has no numbers of type {what.dtype}"
    return "" if size == what.itemsize else f"elements of {what.dtype} have {size} bytes, not {what.itemsize}"


def memory_of(made: CompactTable) -> tuple[Array, list[HostCall]]:
    """The table and the rows of all calls. Bits are moved as whole numbers; sums have the table's own type."""
    what = made.what
    word = next(each for each in WORDS if what.entry_bytes % each == 0)
    kind = np.dtype(WORDS[word]) if what.atomic == "none" else dtype(what.dtype).numpy
    width = what.entry_bytes // kind.itemsize
    table = np.resize(np.arange(251).astype(kind), (made.entries, width))
    calls: list[HostCall] = []
    for call in made.calls:
        is_refused = (call.entry == NOWHERE) & (what.oob == "undefined")  # the others are moved
        indices, entry = call.indices[~is_refused], call.entry[~is_refused]
        data = np.resize(np.arange(7).astype(kind), (indices.size, width))
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
    return all(np.array_equal(_words(a), _words(b)) for a, b in zip(found, expected, strict=True))


def _words(array: Array) -> Array:
    """The bits of an array."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


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
    found = {name: make(what) for name, (package, make) in LIBRARIES.items() if find_spec(package)}

    def move(each: Callable[[Array, HostCall], object], table: Array) -> None:
        for call in calls:
            each(table, call)

    others = {name: partial(move, each) for name, each in found.items() if each is not None}
    return {OURS: partial(move, _ours(what)), **others}


def _ours(what: LookupKind) -> Callable[[Array, HostCall], object]:
    policy: dict[str, Any] = {"oob": what.oob}
    if what.writes:
        return lambda table, call: scatter(table, call.data, call.indices, reduce=what.atomic, **policy)
    return lambda table, call: gather(table, call.indices, out=call.data, **policy)


def _numpy(what: LookupKind) -> Callable[[Array, HostCall], object] | None:
    if not what.writes:
        return lambda table, call: np.take(table, call.entry, axis=0, out=call.data, mode="clip")
    functions: dict[str, Any] = {"add": np.add.at, "max": np.maximum.at, "min": np.minimum.at, "mul": np.multiply.at}
    combine = functions.get(what.atomic)
    if what.atomic == "none":
        return lambda table, call: table.__setitem__(*_moved(call))
    return combine and (lambda table, call: combine(table, *_moved(call)))


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
        entry, data = map(library.from_numpy, _moved(call))
        return getattr(whole, names[what.atomic])(0, entry, data)

    return move if what.atomic == "none" or what.dtype in ("float32", "float16", "float64", "int32", "int64") else None


def _numba(what: LookupKind) -> Callable[[Array, HostCall], object] | None:
    """Compiled loops: gathers on all threads, scatters on one, as lanes may have the same destination."""
    import numba  # pyright: ignore[reportMissingImports]

    library: Any = numba
    lanes = library.prange

    def read(table: Any, entry: Any, data: Any) -> None:
        for k in lanes(len(entry)):
            data[k] = table[entry[k]]

    def store(table: Any, entry: Any, data: Any) -> None:
        for k in range(len(entry)):
            table[entry[k]] = data[k]

    def add(table: Any, entry: Any, data: Any) -> None:
        for k in range(len(entry)):
            table[entry[k]] += data[k]

    loop = {"none": store, "add": add}.get(what.atomic) if what.writes else read
    if loop is None:
        return None
    run = library.njit(parallel=loop is read)(loop)
    return lambda table, call: run(table, *((call.entry, call.data) if loop is read else _moved(call)))


def _moved(call: HostCall) -> tuple[Array, Array]:
    """The entries and rows of the lanes that have an entry."""
    return call.entry[call.is_moved], call.data[call.is_moved]


LIBRARIES: dict[str, tuple[str, Callable[[LookupKind], Callable[[Array, HostCall], object] | None]]] = {
    "NumPy": ("numpy", _numpy),
    "torch": ("torch", _torch),
    "Numba": ("numba", _numba),
}
"""The other libraries: their packages, and how they move the lanes of a call."""
