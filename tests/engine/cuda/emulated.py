"""A device whose kernels run on the CPU: blocks one after the other, lanes as loops between barriers.

It runs the code of the GPU engine, from the same generator, without a GPU.
"""

from __future__ import annotations

import ctypes
import os
import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
from llvmlite import binding

from ptokit.engine.cuda import device as devices
from ptokit.engine.cuda.device import Bytes, Device, DeviceBuffer, DeviceEvent, DeviceKernel, DeviceModule
from ptokit.engine.llvm.compiled import CodeCache, explained
from ptokit.engine.llvm.emit import Chip
from ptokit.engine.native import jit
from tests.engine.native.guard import guarded

ON_GPU = bool(os.environ.get("PTOKIT_TEST_GPU"))
"""Whether tests that can use a GPU do."""
EMULATED = Chip(lanes=32, piece=16)
PATTERN = 0xA5
"""What new memory holds: never zeros by chance."""
GUARD, MARGIN, ALIGNED, ALIGNED_SHARED = 0x5A, 256, 64, 1024
"""What the bytes on both sides of it hold, how many there are before it, and what addresses are multiples of."""
ACCESS = re.compile(r"  (?:%\S+ = load|store) .*ptr (\S+), align (\d+)")
OWN = re.compile(r"  (\S+) = alloca ")


class EmulatedDevice:
    """Memory of the host as that of a device. Whatever is written beside it, or copied from there, is an error."""

    chip, processors, shared = EMULATED, 3, 227 << 10

    def module(self, key: str, build: Callable[[], jit.IrSource]) -> DeviceModule:
        return _EmulatedModule(library(f"watched {key}", lambda: watched(build())))

    def empty(self, nbytes: int) -> DeviceBuffer:
        return EmulatedBuffer(nbytes)

    pinned = empty
    stream, is_captured = 0, False

    def event(self) -> DeviceEvent:
        return _EmulatedEvent()

    def fork(self) -> AbstractContextManager[None]:
        return nullcontext()

    def wait(self) -> None:
        pass

    def wait_until(self, is_known: Callable[[], bool]) -> None:
        assert is_known()

    def upload(self, address: int, data: Bytes) -> None:
        ctypes.memmove(within(address, data.nbytes), data.ctypes.data, data.nbytes)

    def download(self, address: int, nbytes: int, rows: int = 1, stride: int = 0) -> Bytes:
        found = np.empty((rows, nbytes), np.uint8)
        for row in range(rows):
            ctypes.memmove(found[row].ctypes.data, within(address + row * stride, nbytes), nbytes)
        return found.ravel()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(within(target, nbytes), within(source, nbytes), nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        ctypes.memset(within(address, nbytes), byte, nbytes)

    def sort(self, address: int, count: int) -> None:
        np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(within(address, 8 * count))).sort()


class Recorded(EmulatedDevice):
    """Records kernels, events and waits; a stream that is current."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.stream = 0

    def module(self, key: str, build: Callable[[], jit.IrSource]) -> DeviceModule:
        made = super().module(key, build)

        def kernel(name: str) -> DeviceKernel:
            found = made.kernel(name)
            return cast("Any", lambda *given: (self.log.append(name), found(*given)))

        return cast("Any", SimpleNamespace(kernel=kernel, facts=made.facts))

    def event(self) -> Any:
        return SimpleNamespace(record=lambda: self.log.append("record"), wait=lambda: self.log.append("wait"))

    def sort(self, address: int, count: int) -> None:
        self.log.append("sort")
        super().sort(address, count)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.log.append("fill")
        super().fill(address, byte, nbytes)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        self.log.append("(")
        yield
        self.log.append(")")

    def fork(self) -> AbstractContextManager[None]:
        self.log.append("fork")
        return self._beside()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.log.append("copy")
        super().copy(target, source, nbytes)


def device_under_test() -> Device:
    """The device of tests that can use a GPU."""
    return devices.current() if ON_GPU else EmulatedDevice()


class _EmulatedEvent:
    """All work is done when it is launched."""

    def record(self) -> None:
        pass

    wait = record


class EmulatedBuffer:
    """Memory of the device, between bytes that nobody may write. Behind these, a process ends when it reads, too."""

    def __init__(self, nbytes: int, aligned: int = ALIGNED) -> None:
        assert nbytes >= 0
        room = -(-nbytes // aligned) * aligned
        self.nbytes, self._memory = nbytes, guarded(np.full(MARGIN + room, GUARD, np.uint8), at_end=True)
        self._first = len(self._memory) - room
        self._memory[self._first : self._first + nbytes] = PATTERN
        self.address = self._memory.ctypes.data + self._first
        LIVE[self.address] = self

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside it."""
        margins = self._memory[: self._first], self._memory[self._first + self.nbytes :]
        return all((margin == GUARD).all() for margin in margins)


LIVE: WeakValueDictionary[int, EmulatedBuffer] = WeakValueDictionary()
"""The memory of all devices, by address."""


def within(address: int, nbytes: int) -> int:
    """The address of some bytes, which do not leave the memory that they begin in."""
    starts = sorted(LIVE.keys())
    buffer = LIVE[starts[at - 1]] if (at := bisect(starts, address)) else None
    if buffer is not None and address < buffer.address + buffer.nbytes + MARGIN:
        assert nbytes <= buffer.address + buffer.nbytes - address, "beyond the end of memory"
    return address


def check_margins() -> None:
    """Nothing was written beside memory."""
    for buffer in list(LIVE.values()):
        assert buffer.is_intact, f"written beside {buffer.nbytes} bytes of memory"


def _compiled(text: str) -> bytes:
    """The object image of a text, without the optimization that takes most of the time: a test runs it once."""
    machine = _machine()
    with explained(), binding.create_context() as context, binding.parse_assembly(text, context) as module:
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
        return machine.emit_object(module)


@cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    triple, cpu, features = jit._host()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(cpu, features, opt=0, reloc="pic", codemodel="small", jit=True)


_libraries = CodeCache(lambda: (jit._host(), "not optimized"), _compiled, jit.Library)


def library(key: str, build: Callable[[], jit.IrSource]) -> jit.Library:
    """As that of the native engine, without optimization."""
    return _libraries.get(key, build)


def watched(source: jit.IrSource) -> jit.IrSource:
    """Code that notes in `misaligned` which bits of an address are set, though an access says that they are not."""
    lines, own = ["@misaligned = global i64 0"], set[str]()
    for line in source.text.splitlines():
        if line.startswith("define "):
            own.clear()
        if found := OWN.match(line):
            own.add(found[1])
        if (found := ACCESS.match(line)) and found[1] not in own and found[2] != "1":
            place, mask, v = found[1], int(found[2]) - 1, f"%w{len(lines)}"
            lines += [f"{v}a = ptrtoint ptr {place} to i64", f"{v}b = and i64 {v}a, {mask}"]
            lines += [f"{v}c = load i64, ptr @misaligned", f"{v}d = or i64 {v}b, {v}c"]
            lines += [f"store i64 {v}d, ptr @misaligned"]
        lines.append(line)
    return jit.IrSource("\n".join(lines), source.facts)


def check_alignment(library: jit.Library) -> None:
    """Every access of watched code was aligned as the code says: a GPU refuses others."""
    misaligned = ctypes.c_int64.from_address(library.address("misaligned"))
    found, misaligned.value = misaligned.value, 0
    assert not found, f"an address that is said to be aligned has the bits {found:#x}"


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
        memory = EmulatedBuffer(shared, ALIGNED_SHARED)
        given = [*arguments, 0, grid, memory.address]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(given))(self._address)
        for block in range(grid):
            given[-3] = block
            function(*given)
        check_margins()
        check_alignment(self._library)

    def fitting(self, shared: int = 0) -> int:
        return EmulatedDevice.processors
