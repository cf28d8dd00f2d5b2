"""Memory that a kernel's process shares with ptokit: the trace, the on-chip memories, the arrays."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.cxx.recording import MEMORIES
from ptokit.program.ir import MOST_BLOCKS

MAGIC = 0x31544F5450
FRAMES = 64
WORD = 8
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

CONTROL = np.dtype(
    [
        *((name, "<u8") for name in (
            "magic", "state",
            "definitions_at", "definitions_size", "definitions_used",
            "entries_at", "entries_size", "entries_used",
            "numbers_at", "numbers_size", "numbers_used",
            "sequence_at", "sequence_size", "sequence_used",
        )),
        ("local_at", "<u8", (len(MEMORIES),)), ("local_size", "<u8", (len(MEMORIES),)),
        *((name, "<u8") for name in (
            "arrays_at", "heap_at", "heap_size", "heap_used", "gap",
            "base", "image", "text_begin", "text_end",
            "cores", "subblocks", "informs",
            "request_kind", "request_call", "request_address", "request_bytes", "reply",
        )),
        ("value", "u1", (64,)),
        *((name, "<u8") for name in ("problem", "number", "address", "frame_count")),
        ("frames", "<u8", (FRAMES,)), ("message", "S1024"), ("most_blocks", "<u8"),
        ("values_at", "<u8"), ("values_size", "<u8"), ("values_used", "<u8"),
    ]
)  # fmt: skip
"""The first page: `Control` in runtime.cpp has the same fields in the same order."""
PAGE = max(mmap.PAGESIZE, 4096)
LOCAL = 1 << 20
"""Bytes of one on-chip memory: more than any target has."""
GAP = 1 << 20
"""Bytes without access between two arrays; a pointer in the gap belongs to the nearer array."""
DEFINITIONS = 64 << 20
DISTINCT = 500_000
"""Calls unlike each other that a recording may hold; a limit of calls of more than 20 times as many allows more."""
NUMBERS_PER_CALL = 4
VALUES = 64 << 20
"""Bytes that scalar code and threads may store."""
LAUNCHES = 4096
"""Entries of the table of calls that launches may take."""


ITEMS = {"definitions": WORD, "entries": 2 * WORD, "numbers": WORD, "sequence": 4, "values": 1}
"""The areas of a trace, and the bytes of an item."""


def _whole(size: int) -> int:
    return -(-size // PAGE) * PAGE


@dataclass(frozen=True)
class Sizes:
    """How much a recording may hold."""

    calls: int
    heap: int
    """Bytes of device memory that host code may allocate."""

    @property
    def distinct(self) -> int:
        """How many calls may be unlike each other."""
        return min(self.calls, max(DISTINCT, self.calls // 20))


class SharedBuffer:
    """One mapping of anonymous memory: nothing of it is on disk, and pages that are not used cost nothing."""

    def __init__(self, sizes: Sizes, arrays: Sequence[int]) -> None:
        places: dict[str, int] = {}
        end = _whole(CONTROL.itemsize)
        for name, size in (
            ("definitions", DEFINITIONS),
            ("entries", 2 * WORD * (sizes.distinct + LAUNCHES)),
            ("numbers", NUMBERS_PER_CALL * WORD * sizes.distinct),
            ("sequence", 4 * sizes.calls),
            ("local", LOCAL * len(MEMORIES) + GAP),
            ("values", VALUES + GAP),
        ):
            places[name] = end
            end += _whole(size)
        places["arrays"] = end
        self.offsets: list[int] = []
        """Of the arrays that were asked for."""
        for size in arrays:
            self.offsets.append(end)
            end += _whole(max(size, 1)) + GAP
        places["heap"] = end
        self.size = end + _whole(sizes.heap)
        self.file = _anonymous(self.size)
        self._map = mmap.mmap(self.file, self.size)
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)
        self.control: Any = np.frombuffer(self._map, CONTROL, 1)
        self._describe(places, sizes)

    def _describe(self, places: dict[str, int], sizes: Sizes) -> None:
        first = {
            "magic": MAGIC,
            **{f"{name}_at": at for name, at in places.items() if name != "local"},
            "definitions_size": DEFINITIONS // WORD,
            "entries_size": sizes.distinct + LAUNCHES,
            "numbers_size": NUMBERS_PER_CALL * sizes.distinct,
            "sequence_size": sizes.calls,
            "heap_size": sizes.heap,
            "values_size": VALUES,
            "gap": GAP,
            "most_blocks": MOST_BLOCKS,
        }
        self.places = places
        self.limits = first
        for name, value in first.items():
            self.set(name, value)
        for k in range(len(MEMORIES)):
            self.control["local_at"][0, k] = places["local"] + k * LOCAL
            self.control["local_size"][0, k] = LOCAL

    def get(self, name: str) -> int:
        """A field of the first page."""
        return int(self.control[name][0])

    def set(self, name: str, value: int) -> None:
        """Sets a field of the first page."""
        self.control[name][0] = value

    def news(self, area: str, first: int) -> Bytes:
        """A copy of what was written to an area of the trace since it had `first` items. Raises ValueError if the
        kernel's count of items is wrong."""
        used = self.get(f"{area}_used")
        if not first <= used <= self.limits[f"{area}_size"]:
            raise ValueError(f"a count of {used} {area} after {first}, with room for {self.limits[f'{area}_size']}")
        begin, end = (self.places[area] + ITEMS[area] * item for item in (first, used))
        if not self._is_written(begin, end):
            raise ValueError(f"a count of {used} {area}, of which some were not written")
        return self.bytes[begin:end].copy()

    def _is_written(self, begin: int, end: int) -> bool:
        """Whether a process has touched all pages of a part."""
        if begin == end or self.file < 0 or not hasattr(os, "SEEK_HOLE"):
            return True
        try:
            return os.lseek(self.file, begin, os.SEEK_HOLE) >= end
        except OSError:  # the system does not say
            return True

    def array(self, offset: int, size: int) -> Bytes:
        """The bytes of an array."""
        return self.bytes[offset : offset + size]

    def local(self) -> dict[str, Bytes]:
        """The on-chip memories."""
        at = self.places["local"]
        return {name: self.bytes[at + k * LOCAL : at + (k + 1) * LOCAL] for k, name in enumerate(MEMORIES)}

    def close_file(self) -> None:
        """Closes the descriptor; the mapping lives as long as its views."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _anonymous(size: int) -> int:
    """A descriptor of memory without a name; where the system can, no one can shrink it under the mapping."""
    if hasattr(os, "memfd_create"):
        import fcntl

        file = os.memfd_create("ptokit", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return file
    with tempfile.TemporaryFile() as named:
        file = os.dup(named.fileno())
    os.ftruncate(file, size)
    return file
