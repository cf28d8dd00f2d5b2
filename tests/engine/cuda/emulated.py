"""A device whose kernels run on the CPU: blocks one after the other, lanes as loops between barriers.

It runs the code of the GPU engine, from the same generator, without a GPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptokit.engine.cuda import device as devices
from ptokit.engine.cuda.device import Bytes, Device, DeviceBuffer, DeviceKernel, DeviceModule
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.native import jit

ON_GPU = bool(os.environ.get("PTOKIT_TEST_GPU"))
"""Whether tests that can use a GPU do."""
EMULATED = Chip(lanes=32, piece=16)
PATTERN = 0xA5
"""What new memory holds: never zeros by chance."""


class EmulatedDevice:
    """Memory of the host as that of a device."""

    chip, processors, shared = EMULATED, 3, 227 << 10

    def module(self, key: str, build: Callable[[], jit.IrSource]) -> DeviceModule:
        return _EmulatedModule(jit.library(key, build))

    def empty(self, nbytes: int) -> DeviceBuffer:
        return _EmulatedBuffer(nbytes)

    pinned = empty

    def wait(self) -> None:
        pass

    def upload(self, address: int, data: Bytes) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def download(self, address: int, nbytes: int, rows: int = 1, stride: int = 0) -> Bytes:
        found = np.empty((rows, nbytes), np.uint8)
        for row in range(rows):
            ctypes.memmove(found[row].ctypes.data, address + row * stride, nbytes)
        return found.ravel()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        ctypes.memset(address, byte, nbytes)

    def sort(self, address: int, count: int) -> None:
        np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address)).sort()


def device_under_test() -> Device:
    """The device of tests that can use a GPU."""
    return devices.current() if ON_GPU else EmulatedDevice()


class _EmulatedBuffer:
    def __init__(self, nbytes: int) -> None:
        self._memory = np.full(nbytes + 128, PATTERN, np.uint8)
        self.address = -(-self._memory.ctypes.data // 128) * 128


class _EmulatedModule:
    def __init__(self, library: jit.Library) -> None:
        self._library, self.facts = library, library.facts

    def kernel(self, name: str) -> DeviceKernel:
        return _EmulatedKernel(self._library, name)


class _EmulatedKernel:
    def __init__(self, library: jit.Library, name: str) -> None:
        self._library, self._address = library, library.address(name)

    def __call__(self, grid: int, arguments: Sequence[int], shared: int = 0) -> None:
        assert shared <= EmulatedDevice.shared
        memory: Any = _EmulatedBuffer(shared)
        given = [*arguments, 0, grid, memory.address]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(given))(self._address)
        for block in range(grid):
            given[-3] = block
            function(*given)

    def fitting(self, shared: int = 0) -> int:
        return EmulatedDevice.processors
