"""The check of the indices of a call: where kernels note those that are refused, and how the host learns of them."""

from __future__ import annotations

from ctypes import c_int64
from struct import Struct

import numpy as np

from ptokit.engine.cuda.device import Device
from ptokit.engine.cuda.whole.kept import Kept
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


_free = Kept[IndexCheck]()
