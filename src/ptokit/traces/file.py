"""`IndexTrace`: the indices of calls, in the order of the calls.

Its file is an `.npz` archive without compression, whose header is JSON:

| member | |
|---|---|
| `header` | a JSON object: `format`, `ptokit`, `kinds` (the fields of `LookupKind`), and fields of `IndexTrace` |
| `calls` | int64, two numbers for each call: of its kind, and of its indices |
| `int32`, `uint32`, `int64` | the indices of all calls of that type, one call after the other |

A file may come from anybody: every size is checked before memory is used, and nothing is executed.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

from ptokit._version import __version__
from ptokit.atomic import write_files
from ptokit.brief import brief, listed
from ptokit.finding import counted
from ptokit.lang.faults import public
from ptokit.markup import Displayed, box, clipped, dim, table
from ptokit.traces.traced_calls import (
    CHOICES,
    INDEX_TYPES,
    NOWHERE,
    Array,
    LookupKind,
    TracedCall,
    cells_of,
)

FORMAT = 2
"""The version of the format; files of another one are refused."""
MOST_BYTES = 1 << 30
"""Of a file."""
MOST_HEADER = 64 << 20
MOST_CALLS = 1_000_000
MOST_KINDS = 100_000
LONGEST = 10_000
"""Characters of a text in the header."""
MEMBERS = ("header", "calls", *INDEX_TYPES)
TYPES = {"header": "|u1", "calls": "<i8", "int32": "<i4", "uint32": "<u4", "int64": "<i8"}
END, END_BYTES = b"PK\x05\x06", 22
"""The record at the end of an archive without a comment."""
MOST_DIRECTORY = 4096
"""Bytes of the directory of an archive: that of five members has a few hundred."""
STATED = {"source": str, "sample": int, "seed": int, "seen": int, "missed": int, "cut": str}
"""Fields of `IndexTrace` in the header."""
MOST_DIMS, MOST_ITEM = 32, 64
LARGEST = 1 << 62
"""Elements of a table."""


class TraceContent(NamedTuple):
    """The content of a file."""

    calls: list[TracedCall]
    stated: dict[str, Any]
    """By the names of `STATED`."""


def write_trace(path: str | os.PathLike[str], calls: Sequence[TracedCall], stated: Mapping[str, Any]) -> None:
    """Write a trace; the same trace gives the same bytes."""
    kinds = {what: number for number, what in enumerate(dict.fromkeys(call.what for call in calls))}
    _check_stated(stated)
    header = {"format": FORMAT, "ptokit": __version__, **stated, "kinds": [asdict(what) for what in kinds]}
    members = {
        "header": np.frombuffer(json.dumps(header).encode("utf-8"), np.uint8),
        "calls": np.array([(kinds[call.what], call.indices.size) for call in calls], "<i8").reshape(-1),
        **{name: _joined(calls, name) for name in INDEX_TYPES},
    }
    size = sum(member.nbytes for member in members.values())
    if size > MOST_BYTES - MOST_DIRECTORY or len(calls) > MOST_CALLS or len(kinds) > MOST_KINDS:
        raise ValueError(f"the trace is too large for a file: {len(calls):,} calls, {size:,} bytes")
    save: Any = np.savez
    write_files({os.fspath(path): lambda stream: save(stream, **members)})


def _joined(calls: Sequence[TracedCall], index: str) -> Array:
    parts = [call.indices for call in calls if call.what.index == index]
    return np.concatenate([np.zeros(0, index), *parts]).astype(TYPES[index])


def read_file(path: str | os.PathLike[str]) -> TraceContent:
    """Read a trace; raises ValueError for a file that is damaged, too large or no trace."""
    name = os.fspath(path)
    with open(name, "rb") as stream:
        try:
            _check_archive(stream)
            with zipfile.ZipFile(stream) as archive:
                return _content({member: _member(archive, member) for member in _names(archive)})
        except MemoryError:
            raise
        except Exception as problem:  # any error of zipfile and NumPy over a damaged file
            raise ValueError(f"{name} is no index trace: {problem}") from problem


def _check_archive(stream: IO[bytes]) -> None:
    """Refuse an archive whose size or directory is too large, before it is read."""
    size = stream.seek(0, os.SEEK_END)
    if not END_BYTES <= size <= MOST_BYTES:
        raise ValueError(f"its size is {size:,} bytes; a trace has up to {MOST_BYTES:,}")
    stream.seek(-END_BYTES, os.SEEK_END)
    record = stream.read(END_BYTES)
    mark, _, _, _, members, directory, _, comment = struct.unpack("<4s4H2LH", record)
    if mark != END or comment:
        raise ValueError("it is no archive, or it has been cut off")
    if members > len(MEMBERS) or directory > MOST_DIRECTORY:
        raise ValueError(f"its directory has {members:,} members and {directory:,} bytes")
    stream.seek(0)


def _names(archive: zipfile.ZipFile) -> tuple[str, ...]:
    names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
    if sorted(names) != sorted(MEMBERS):
        raise ValueError(f"its members are {listed(names)}, not {', '.join(MEMBERS)}")
    return MEMBERS


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    """One array; its stated size must be the size of what is stored."""
    info = archive.getinfo(f"{name}.npy")
    most = MOST_HEADER if name == "header" else MOST_BYTES
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.file_size > most:
        raise ValueError(f"{name} is compressed, or has {info.file_size:,} bytes")
    with archive.open(info) as stream:
        reading: Any = np.lib.format
        if reading.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is of another version of .npy")
        shape, is_fortran, kind = reading.read_array_header_1_0(stream)
        if len(shape) != 1 or is_fortran or kind.str != TYPES[name] or min(shape) < 0:
            raise ValueError(f"{name} has the type {kind.str} and the shape {shape}")
        content = stream.read(info.file_size)
        if len(content) != prod(shape) * kind.itemsize:
            raise ValueError(f"{name} states {shape[0]:,} elements and has {len(content):,} bytes")
    return np.frombuffer(content, kind).astype(kind.newbyteorder("="), copy=False)


# --- the content of members


def _content(members: dict[str, Array]) -> TraceContent:
    header = _header(members["header"])
    kinds = [_kind(number, given) for number, given in enumerate(header["kinds"])]
    numbers = members["calls"]
    if numbers.size % 2 or numbers.size > 2 * MOST_CALLS:
        raise ValueError(f"calls has {numbers.size:,} numbers")
    calls: list[TracedCall] = []
    taken = dict.fromkeys(INDEX_TYPES, 0)
    for number, count in numbers.reshape(-1, 2).tolist():
        if not 0 <= number < len(kinds) or count < 0:
            raise ValueError(f"a call has {count:,} indices and the kind {number:,} of {len(kinds):,}")
        what = kinds[number]
        first = taken[what.index]
        taken[what.index] = first + count
        calls.append(TracedCall(what, members[what.index][first : first + count]))
    for name, count in taken.items():
        if count != members[name].size:
            raise ValueError(f"calls have {count:,} indices of {name}, and it has {members[name].size:,}")
    return TraceContent(calls, {name: header[name] for name in STATED})


def _header(given: Array) -> dict[str, Any]:
    try:
        header = json.loads(given.tobytes())
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"its header is no JSON: {problem}") from problem
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    if header.get("format") != FORMAT:
        raise ValueError(f"its format is {str(header.get('format'))[:20]}; this ptokit reads {FORMAT}")
    _check_stated(header)
    kinds = header.get("kinds")
    if not isinstance(kinds, list) or len(kinds) > MOST_KINDS:
        raise ValueError("its header has no list of kinds")
    return header


def _check_stated(header: Mapping[str, Any]) -> None:
    """Refuse fields of another type or size: what is written can be read."""
    for name, kind in STATED.items():
        value = header.get(name)
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value < LARGEST):
            raise ValueError(f"{name} in its header is {brief(value)}")
        if isinstance(value, str) and len(value) > LONGEST:
            raise ValueError(f"{name} in its header has {len(value):,} characters")


def _kind(number: int, given: Any) -> LookupKind:
    """A kind of calls from the header."""
    names = [each.name for each in fields(LookupKind)]
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        raise ValueError(f"kind {number:,} has not the fields {', '.join(names)}")
    for name, known in CHOICES.items():
        if given[name] not in known:
            raise ValueError(f"{name} of kind {number:,} is {brief(given[name])}")
    shape, dtype = given["shape"], given["dtype"]
    is_shape = isinstance(shape, list) and len(shape) <= MOST_DIMS and all(_is_whole(n, LARGEST) for n in shape)
    if not is_shape or prod(max(n, 1) for n in shape) > LARGEST:
        raise ValueError(f"shape of kind {number:,} is {str(shape)[:80]}")
    if not isinstance(dtype, str) or not dtype.isidentifier() or len(dtype) > 40:
        raise ValueError(f"dtype of kind {number:,} is {brief(dtype)}")
    bounds = {"itemsize": MOST_ITEM + 1, "table": MOST_CALLS, "axis": max(1, len(shape))}
    for name, end in bounds.items():
        if not _is_whole(given[name], end) or (name == "itemsize" and not given[name]):
            raise ValueError(f"{name} of kind {number:,} is {str(given[name])[:40]}")
    if given["unit"] == "row" and not shape:
        raise ValueError(f"kind {number:,} has rows of a table without dims")
    return LookupKind(**{**given, "shape": tuple(shape)})


def _is_whole(value: object, end: int) -> bool:
    return type(value) is int and 0 <= value < end


# --- traces -----------------------------------------------------------------------------------------------------------


HOT = 100
"""One in this many accessed entries is hot."""
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
