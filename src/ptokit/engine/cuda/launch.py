"""A launch on a device: runs of blocks, and the statements that kernels leave to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import addressof, c_int64, memset, string_at
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel
from ptokit.engine.cuda.resident import HostCopies
from ptokit.engine.cuda.stage import MOST_SETTLED, SETTLED, STOPPED, place_of
from ptokit.engine.llvm.program.compiler import Values
from ptokit.engine.llvm.program.fallback import BlockState, Fallback
from ptokit.engine.llvm.program.independent import Page
from ptokit.engine.llvm.program.slots import Reason, Slots, StateSlot
from ptokit.engine.runnable import Listener
from ptokit.engine.storage import Storage
from ptokit.program.expr import Var
from ptokit.program.ir import Program

MOST_OF_RECORDS = 1 << 30
"""Bytes of all records; with tiles at computed addresses, each has whole memories."""
Learn = Callable[[Mapping[int, Values]], bool]
"""Learns numbers that had no code; whether there will be other code."""
Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class GridCode:
    """The kernel of a program on a device."""

    kernel: DeviceKernel
    shared: int
    """Bytes of shared memory."""
    pages: tuple[Page, ...]
    """Scatters that it defers."""
    snapshot: frozenset[str]
    """Arrays that must be as they were for a block to run again."""
    fused: dict[int, int]
    """Statements that were fused with a later one, by their numbers."""
    parts: dict[int, int]
    """Parts of the arena that a record has, and their bytes."""
    record: int
    """Bytes of the record of a block of threads."""
    by_value: bool
    """Whether the slots are given by value."""
    settles: bool
    """Whether blocks of threads say that they will leave no statement."""

    def count(self, blocks: int) -> int:
        """Blocks of threads that run so many blocks of the program. Code that takes over from this one may settle."""
        return min(blocks, MOST_SETTLED, self.kernel.fitting(self.shared), max(1, MOST_OF_RECORDS // self.record))


GridRun = tuple[GridCode, int, DeviceBuffer]
"""A kernel, its blocks of threads, and their records."""


@dataclass(frozen=True)
class LaunchOnDevice:
    """What a launch is given."""

    device: Device
    program: Program
    storages: Callable[[], Mapping[str, Storage]]
    """The arrays as they were given."""
    addresses: Mapping[str, int]
    """Where they are on the device."""
    integers: Mapping[Var, int]
    grid: int
    listener: Listener

    def copies(self) -> HostCopies:
        """The arrays on the host, as they are now."""
        storages, tensors = self.storages(), self.program.tensors
        addresses = {name: self.addresses[argument.array] for name, argument in tensors.items()}
        return HostCopies(self.device, {name: storages[name] for name in tensors}, addresses)


class LaunchMemory:
    """The slots at the beginning of a kernel, on the host, and there a flag and bytes that kernels set."""

    def __init__(self, device: Device, state: Words) -> None:
        self._device, self._pinned = device, device.pinned(SETTLED + MOST_SETTLED)
        self._flag = c_int64.from_address(self._pinned.address)
        self._flag.value = 0
        self.state = (c_int64 * len(state))(*state.tolist())
        self.state[StateSlot.STOP] = self._pinned.address
        self._address = addressof(self.state)

    def finishes(self, code: GridCode, count: int, records: DeviceBuffer, first: int, stop: int) -> bool:
        """Run a kernel; whether it left no statement. If it leaves none, it may still run."""
        there = None if code.by_value else self._copied()
        address = self._address if there is None else there.address
        if code.settles:
            memset(self._pinned.address + SETTLED, 0, count)
        try:
            code.kernel(count, (address, records.address, first, stop), code.shared)
            if code.settles:
                self._device.wait_until(partial(self._is_known, count))
        except BaseException:
            self._device.wait()  # the kernel writes to memory of the host
            raise
        if not code.settles or self._flag.value:
            self._device.wait()
        if not self._flag.value:
            return True
        self._flag.value = 0
        return False

    def _is_known(self, count: int) -> bool:
        """Whether a kernel has left a statement, or will leave none."""
        return bool(self._flag.value) or 0 not in string_at(self._pinned.address + SETTLED, count)

    def _copied(self) -> DeviceBuffer:
        """The slots on the device."""
        made = self._device.empty(8 * len(self.state))
        self._device.upload(made.address, np.frombuffer(bytes(self.state), np.uint8))
        return made


class GridLaunch:
    """Runs blocks of a launch."""

    def __init__(self, given: LaunchOnDevice, slots: Slots, fallback: Fallback, memory: LaunchMemory) -> None:
        self.given, self.device, self.slots, self.state = given, given.device, slots, memory.state
        self._fallback, self._memory = fallback, memory
        self.failed: list[int] | None = None
        """The slots of the block whose statement failed."""

    def run(
        self,
        code: Callable[[], GridCode | None],
        blocks: range,
        most: int,
        learn: Learn,
        begun: GridRun | None = None,
    ) -> Sequence[int]:
        """Run blocks, in parallel on at most so many blocks of threads; returns those that are left.

        `code` makes the kernel from what `learn` was told, if there can be one. `begun` is a run that has left a
        statement; `code` may have become another since.
        """
        if begun is None:
            made = code() if blocks else None
            if made is None:
                return blocks
            count = made.count(min(len(blocks), most))
            records = self.device.empty(count * made.record)
        else:
            made, count, records = begun
        kept = self._keep(made.snapshot)
        first = blocks.start
        while begun or not self._memory.finishes(made, count, records, first, blocks.stop):
            begun = None
            heads = self.device.download(records.address, 16, count, made.record).view(np.int64).reshape(count, 2)
            is_known = self._run_left(made, records.address, heads, learn)
            self._restore(kept)
            if not is_known:
                return blocks if kept else _left(heads, blocks.stop)
            made = code()
            if made is None:
                return blocks
            first = blocks.start if kept else -1
        return ()

    def _run_left(self, code: GridCode, records: int, heads: Words, learn: Learn) -> bool:
        """Run the statement that the lowest block has left; whether the kernel can go on without it."""
        stopped = np.flatnonzero(heads[:, 0])
        lowest = stopped[np.argmin(heads[stopped, 1])]
        why = int(heads[lowest, 0]) - 1
        record, download = records + int(lowest) * code.record, self.device.download
        self.failed = slots = download(record + 8 * STOPPED, 8 * self.slots.count).view(np.int64).tolist()
        parts = ((at, download(record + place_of(self.slots, at), nbytes)) for at, nbytes in code.parts.items())
        block = BlockState(self.slots, self._fallback)
        block.give(self.given.copies, self.given.listener)
        block.take_over(slots, parts)
        number, reason = divmod(why, Reason.COUNT)
        block.run(number, reason)
        if number in code.fused:
            block.run(code.fused[number], reason)
        self.failed = None
        flags = slice(self.slots.reported, self.slots.reported + 3 * len(self.slots.statements))
        reported = block.state[flags]
        is_new = reported != self.state[flags]
        self.state[flags] = reported
        return learn(block.missed) or is_new

    def _keep(self, names: Iterable[str]) -> list[tuple[int, int, Any]]:
        """Copies of arrays on the device: address, bytes, copy."""
        found: list[tuple[int, int, Any]] = []
        for name in sorted(names):
            storage, address = self.given.storages()[name], self.given.addresses[name]
            nbytes = storage.bits.size * storage.dtype.size
            found.append((address, nbytes, self.device.empty(nbytes)))
            self.device.copy(found[-1][2].address, address, nbytes)
        return found

    def _restore(self, kept: Iterable[tuple[int, int, Any]]) -> None:
        for address, nbytes, copy in kept:
            self.device.copy(address, copy.address, nbytes)


def _left(heads: Words, stop: int) -> list[int]:
    """The blocks that blocks of threads have not finished, in order."""
    return sorted(block for first in heads[:, 1].tolist() for block in range(first, stop, len(heads)))
