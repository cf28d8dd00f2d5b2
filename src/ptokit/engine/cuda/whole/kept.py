"""Checks and scratch memory that calls of one thread and stream use again, without waiting for earlier calls."""

from __future__ import annotations

from threading import local
from typing import Generic, TypeVar

from ptokit.engine.cuda.device import Device
from ptokit.engine.kept import remember

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
        """Memory of so many bytes, the first of them zeros, for work of the current stream."""
        stream = device.stream
        found = _scratch.take(device, stream)
        if found is not None and found.nbytes < nbytes:
            found = None  # free before there is more
        found = found or cls(device, stream, nbytes)
        if found.zeros < zeros:
            device.fill(found.address, 0, zeros)
        found.zeros = zeros
        return found

    def keep(self) -> None:
        """All work of the call is launched: set the zeros again, for a later one."""
        if self.nbytes <= MOST_SCRATCH:
            self._device.fill(self.address, 0, self.zeros)
            _scratch.keep(self._device, self._stream, self)


_scratch = Kept[Scratch]()
