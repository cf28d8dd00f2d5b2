"""The check of the indices of a call: where kernels note those that are refused, and how the host learns of them.

The next call of a thread and stream uses checks and scratch memory again.
"""

from __future__ import annotations

from ctypes import c_int64
from struct import Struct
from threading import local
from typing import Generic, TypeVar

import numpy as np

from ptokit.engine.cuda.device import Device
from ptokit.engine.kept import remember
from ptokit.engine.llvm.emit import PTR, IrBuilder, IrValue

FLAG = Struct("=3Q")
"""What kernels note on the device: how many indices are refused, the first of them, the address of the host's word."""


def note_refused(code: IrBuilder, flag: IrValue, lane: IrValue) -> None:
    """Take note of a lane whose index is refused, in a kernel."""
    code.line(f"  atomicrmw add {flag!r}, i64 1 monotonic")
    code.line(f"  atomicrmw umin {code.at(flag, 8)!r}, {lane!r} monotonic")
    code.store(code.i64(1), code.load(PTR, code.at(flag, 16)))


class IndexCheck:
    """What kernels note about indices, and a word of the host that they set if there is something."""

    def __init__(self, device: Device, stream: int) -> None:
        self._device, self._stream, self._event = device, stream, device.event()
        self._pinned, self._there = device.pinned(8), device.empty(FLAG.size)
        self._word, self.address = c_int64.from_address(self._pinned.address), self._there.address
        self._word.value = 0
        noted = FLAG.pack(0, (1 << 64) - 1, self._pinned.address)
        device.upload(self.address, np.frombuffer(noted, np.uint8))

    def begin(self) -> None:
        """The kernel that checks is launched."""
        self._event.record()

    def end(self) -> tuple[int, int] | None:
        """Wait for that kernel, not for later ones; how many indices are refused, and the first, if there are any."""
        self._event.wait()
        if not self._word.value:
            _free.keep(self._device, self._stream, self)
            return None
        count, lane, _ = FLAG.unpack(self._device.download(self.address, FLAG.size).tobytes())
        return count, lane


def take(device: Device) -> IndexCheck:
    """A check for work of the current stream."""
    stream = device.stream
    return _free.take(device, stream) or IndexCheck(device, stream)


Item = TypeVar("Item")
MOST_STREAMS = 64
"""Streams of a thread that something is kept for."""
MOST_SCRATCH = 1 << 26
"""Bytes of scratch memory that is kept, at most."""


class Kept(local, Generic[Item]):
    """Items that no call uses, by device and stream: kernels of an earlier call may still read them. Every thread has
    its own, which end with it: one handle stands for a stream of each thread."""

    def __init__(self) -> None:
        self._items: dict[tuple[Device, int], list[Item]] = {}

    def take(self, device: Device, stream: int) -> Item | None:
        found = self._items.get((device, stream))
        return found.pop() if found else None

    def keep(self, device: Device, stream: int, item: Item) -> None:
        found = self._items.get((device, stream))
        (remember(self._items, (device, stream), [], MOST_STREAMS) if found is None else found).append(item)


class Scratch:
    """Scratch memory of a call that begins with zeros."""

    def __init__(self, device: Device, stream: int, nbytes: int) -> None:
        self._device, self._stream, self.nbytes = device, stream, nbytes
        self._memory = device.empty(nbytes)
        self.address = self._memory.address
        self.zeros = 0
        """Bytes at its begin that are zeros, when no call uses it."""

    @classmethod
    def take(cls, device: Device, nbytes: int, zeros: int) -> Scratch:
        """Memory for work of the current stream. Its first bytes are zero."""
        stream = device.stream
        scratch = _scratch.take(device, stream)
        if scratch is not None and scratch.nbytes < nbytes:
            scratch = None  # free before there is more
        scratch = scratch or cls(device, stream, nbytes)
        if scratch.zeros < zeros:
            device.fill(scratch.address, 0, zeros)
        scratch.zeros = zeros
        return scratch

    def keep(self) -> None:
        """All work of the call is launched: set the zeros again, for a later one."""
        if self.nbytes <= MOST_SCRATCH:
            self._device.fill(self.address, 0, self.zeros)
            _scratch.keep(self._device, self._stream, self)


_scratch = Kept[Scratch]()
_free = Kept[IndexCheck]()
