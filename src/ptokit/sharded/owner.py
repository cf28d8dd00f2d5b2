"""An owner: a part of a table, and the calls on it in their order. A plain class that knows no transport."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from math import prod

import numpy as np

from ptokit._version import __version__
from ptokit.brief import elided
from ptokit.engines import AUTO
from ptokit.isa.move import Remap
from ptokit.ops import gather, scatter
from ptokit.ops.array_call import GATHER
from ptokit.ops.execute import Leading, move_gather
from ptokit.sharded.files import FileRange, SavedFile, check_file, load_ranges, save_array
from ptokit.sharded.messages import Array, Header, Message, ShardedError, type_of
from ptokit.sharded.segments import OpenedSegments

PROTOCOL = 1
"""The version of messages."""
NO_ENTRY = -1
"""The index of a lane of another owner."""
LOGGED = ("scatter",)
"""Calls that the driver repeats until they are done: none is refused."""
LANE_COST = 16
"""Bytes that are copied twice in the time in which a lane of another owner is passed over."""


class Owner:
    """Holds rows or columns. A call is done if it is the one after the last call that changed the part."""

    def __init__(self) -> None:
        self.array: Array = np.empty((0, 0), np.uint8)
        self.applied = -1
        """The number of the last call that changed the part."""
        self.threads: int | None = None
        self._segments = OpenedSegments()
        self._does: dict[str, Callable[[Header, tuple[Array, ...]], Message]] = {
            "hello": self._hello,
            "load": self._load,
            "check": self._check,
            "save": self._save,
            "gather": self._gather,
            "scatter": self._scatter,
        }

    def answer(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Do a call. A fault is an answer, too. After "refused" nothing has changed, and the call is over; after
        "failed" the driver starts another owner, and repeats the call."""
        try:
            return self._does[header["do"]](header, arrays)
        except Exception as problem:  # of whatever kind: the driver decides
            if isinstance(problem, (ShardedError, OSError)) and header["do"] not in LOGGED:
                return Message({"fault": "refused", "message": str(problem)})
            return Message({"fault": "failed", "message": elided(f"{type(problem).__name__}: {problem}")})

    def _hello(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Who this is; whether the driver's memory can be shared."""
        self.threads = header["threads"]
        about = {"protocol": PROTOCOL, "ptokit": __version__, "pid": os.getpid(), "host": socket.gethostname()}
        try:
            self._segments.view(header["segment"], (0,), np.dtype(np.uint8))
        except OSError:
            return Message({**about, "shares": False})
        return Message({**about, "shares": True})

    def _load(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Replace the part by ranges of files."""
        ranges = [FileRange(**each) for each in header["ranges"]]
        self.array = load_ranges(ranges, type_of(header["dtype"]), tuple(header["shape"]), header["axis"])
        self.applied = header["seq"]
        return Message({})

    def _check(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        check_file(SavedFile(**header["saved"]))
        return Message({})

    def _save(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Write the part into a file."""
        if self.applied != header["after"]:
            return Message({"fault": "gap", "applied": self.applied})
        saved = save_array(header["file"], self.array)
        return Message({"file": saved.file, "crc32": saved.crc32, "bytes": saved.bytes})

    def _scatter(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Apply a call once: a call that was applied before is confirmed again."""
        if header["seq"] <= self.applied:
            return Message({"repeated": True})
        if self.applied != header["after"]:
            return Message({"fault": "gap", "applied": self.applied})
        index, src = arrays if len(arrays) == 2 else (*arrays, self._source(header["source"]))
        scatter(self.array, src, index, threads=self.threads, **header["options"])
        self.applied = header["seq"]
        return Message({})

    def _source(self, lent: Header) -> Array:
        """A source in the driver's memory."""
        return self._segments.view(lent["segment"], tuple(lent["shape"]), self.array.dtype)

    def _gather(self, header: Header, arrays: tuple[Array, ...]) -> Message:
        """Write rows or elements into the driver's memory, or return them."""
        if self.applied != header["after"]:
            return Message({"fault": "gap", "applied": self.applied})
        index, at = arrays
        try:
            out = self._segments.view(header["segment"], tuple(header["shape"]), self.array.dtype)
        except OSError:  # of a driver on another machine
            return Message({}, (gather(self.array, index, coalesce=header["coalesce"], threads=self.threads),))
        if header["coalesce"] == "elem":
            self._place(out, self.array, index, at, "elem")
        elif header["spans"] is None:
            self._place(out, self.array, index, at, "row")
        else:
            for start, stop, local in header["spans"]:
                self._place(out[:, start:stop], self.array[:, local : local + stop - start], index, at, "row")
        return Message({})

    def _place(self, out: Array, part: Array, index: Array, at: Array, coalesce: str) -> None:
        """Gather into the lanes `at` of the result; into all of them if there is no `at`."""
        if not len(at) or at[-1] - at[0] + 1 == len(at):  # lanes are in order
            lanes = out[int(at[0]) : int(at[-1]) + 1] if len(at) else out
            gather(part, index, coalesce=coalesce, out=lanes, threads=self.threads)
        elif len(out) * LANE_COST > len(index) * prod(out.shape[1:]) * out.itemsize:
            out[at] = gather(part, index, coalesce=coalesce, threads=self.threads)
        else:
            lanes = np.full(len(out), NO_ENTRY)
            lanes[at] = index
            how = GATHER.name, Leading(1 if coalesce == "row" else part.ndim), Remap.SKIP, AUTO
            move_gather(GATHER, part, lanes, out, how, self.threads)
