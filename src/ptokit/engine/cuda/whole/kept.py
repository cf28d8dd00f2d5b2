"""What calls of one thread and stream use again: a call waits for no earlier one."""

from __future__ import annotations

from threading import local
from typing import Generic, TypeVar

from ptokit.engine.cuda.device import Device
from ptokit.engine.kept import remember

Thing = TypeVar("Thing")
MOST_STREAMS = 64
"""Streams of a thread that something is kept for."""
MOST_SCRATCH = 1 << 26
"""Bytes of scratch memory that is kept, at most."""


class Kept(local, Generic[Thing]):
    """Things that no call uses, by device and stream: kernels of an earlier call may still read them. Every thread has
    its own, which end with it: one handle stands for a stream of each thread."""

    def __init__(self) -> None:
        self.things: dict[tuple[Device, int], list[Thing]] = {}

    def take(self, device: Device, stream: int) -> Thing | None:
        found = self.things.get((device, stream))
        return found.pop() if found else None

    def keep(self, device: Device, stream: int, thing: Thing) -> None:
        found = self.things.get((device, stream))
        (remember(self.things, (device, stream), [], MOST_STREAMS) if found is None else found).append(thing)


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
