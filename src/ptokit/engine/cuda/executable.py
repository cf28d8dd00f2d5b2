"""A program made ready for a GPU: compiled on its first launch, launched any number of times.

A block of the program is executed by a block of threads, which takes several of them, one after the other. If no block
writes what another one touches, they run in parallel. If only scatters stand in the way, the blocks record them, and
they take effect afterwards in the order of the blocks. Other programs run block after block.

A statement that a kernel has no code for, or that fails or has a finding, ends the kernel. The reference engine runs
that statement of the lowest such block over copies: it raises, or reports; then the kernel goes on with other code, or
with the finding marked as reported. If neither helps, the reference engine runs the blocks that are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from ctypes import addressof, c_int64, memset, string_at
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from ptokit.engine.cuda import device as devices
from ptokit.engine.cuda import stage as stages
from ptokit.engine.cuda.deferred import DeferredScatters, lanes_of_blocks
from ptokit.engine.cuda.device import Device, DeviceBuffer, DeviceKernel
from ptokit.engine.cuda.resident import HostCopies, hosted, resident
from ptokit.engine.cuda.stage import MOST_SETTLED, SETTLED, STOPPED, GridStage, place_of, record_size
from ptokit.engine.llvm.compiled import BUILDING, IrSource
from ptokit.engine.llvm.program.compiler import MOST_KEPT, Items, ProgramCompiler, Tensors, Values
from ptokit.engine.llvm.program.fallback import BlockState, Fallback
from ptokit.engine.llvm.program.independent import Page, candidates, changed, is_changed_last, memory_of, page
from ptokit.engine.llvm.program.slots import Reason, Slots, StateSlot
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.engine.runnable import CUDA, Listener
from ptokit.engine.storage import Storage
from ptokit.program.expr import Var
from ptokit.program.instr_calls import written_arguments
from ptokit.program.ir import Float, Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

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
        self.arguments, self.device, self.slots, self.state = given, given.device, slots, memory.state
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
        block.give(self.arguments.copies, self.arguments.listener)
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
            storage, address = self.arguments.storages()[name], self.arguments.addresses[name]
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


# --- programs --------------------------------------------------------------------------------------------------------


MOST_KEPT_RECORDS = 64 << 20
"""Bytes of records that are kept for later launches, at most: those of all programs together."""


class CudaExecutable(ProgramCompiler):
    """A program made ready for a target; it can be launched any number of times."""

    engine = CUDA

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        super().__init__(program, profile, options)
        self._made: dict[tuple[Device, tuple[int, ...]], GridCode] = {}
        self._lanes = lru_cache(MOST_KEPT)(self._find_lanes)
        self._deferrable: bool | None = None

    @cached_property
    def _written(self) -> frozenset[str]:
        """The arrays that the program writes."""
        return frozenset(self.program.tensors[name].array for name in written_arguments(self.program))

    @cached_property
    def _floats(self) -> frozenset[str]:
        """Arguments that are floating-point numbers."""
        return frozenset(each.name for each in self.program.arguments if isinstance(each, Float))

    @cached_property
    def _fallback(self) -> Fallback:
        return Fallback(self.slots, self.profile, self.options)

    @cached_property
    def _candidates(self) -> dict[int, str]:
        return candidates(self.program, self.slots)

    # --- compiling

    def code(self, device: Device, deferred: tuple[int, ...] = ()) -> GridCode:
        """The kernel for the numbers that were met."""
        with BUILDING:
            if (device, deferred) not in self._made:
                key = self._key("cuda", deferred, device.chip, device.shared, stages.MOST_BY_VALUE)
                module = device.module(key, partial(self._source, device, deferred))
                facts = module.facts
                pages = tuple(Page(**each) for each in facts["pages"])
                about = facts["shared"], pages, frozenset(facts["snapshot"]), dict(facts["fused"])
                about += dict(facts["parts"]), record_size(self.slots), facts["by_value"], facts["settles"]
                self._made[device, deferred] = GridCode(module.kernel(ENTRY), *about)
            return self._made[device, deferred]

    def _source(self, device: Device, deferred: tuple[int, ...]) -> IrSource:
        stage = GridStage(self.program, self.slots, device.chip, device.shared, self._pages(deferred))
        emitter = self._emitter(stage)
        text = emitter.text()
        besides = [self._candidates[number] for number in deferred]
        memories = changed(self.program, emitter.variants_of, besides)
        kept = memories if deferred or not is_changed_last(self.program, memories) else ()
        pages = [asdict(each) for each in stage.pages.values()]
        facts = {"shared": stage.shared, "lanes": stage.lanes, "by_value": stage.by_value, "settles": stage.settles}
        numbers = {"fused": [*emitter.fused.items()], "parts": [*stage.parts.items()]}
        return IrSource(text, {"pages": pages, "snapshot": self._arrays_in(kept), **numbers, **facts})

    def _arrays_in(self, memories: Collection[str]) -> list[str]:
        return sorted({each.array for each in self.program.tensors.values() if memory_of(each) in memories})

    def _relearn(self, given: LaunchOnDevice, missed: Mapping[int, Values]) -> bool:
        """Learn numbers that had no code; whether there will be other code."""
        with BUILDING:
            self.miss(missed)
            is_new = self._learn(given.copies(), given.integers, given.grid)
            if is_new:
                self._made.clear()
                self._deferrable = None
            return is_new

    # --- launching

    def launch(
        self, tensors: Tensors, integers: Mapping[Var, int], grid: int, listener: Listener, threads: int | None = None
    ) -> str:
        """Run every block of the grid; the same bits as in ascending order."""
        if not grid:
            return self.engine
        device = devices.current()
        named = {name: tensors[name] for name in self.slots.arrays if name not in self._floats}
        given = LaunchOnDevice(device, self.program, lambda: tensors, {}, integers, grid, listener)
        left: Sequence[int] = range(grid)
        if not self._is_for_reference(integers, grid):
            with resident(device, named, self._written) as addresses:
                left = self._run(replace(given, addresses=addresses), self._state(tensors, integers, grid))
        self._finish(given, left)
        return self.engine

    def _finish(self, given: LaunchOnDevice, left: Sequence[int]) -> None:
        """Run blocks that are left on the reference engine."""
        if left:
            with hosted(given.device, given.storages(), self._written) as here:
                self.reference.run_blocks(here, given.integers, given.grid, given.listener, left)

    def run(self, given: LaunchOnDevice, state: Words) -> None:
        """Run a launch over arrays of the device, from slots without addresses."""
        self._finish(given, self._run(given, state))

    def _run(self, given: LaunchOnDevice, state: Words) -> Sequence[int]:
        """Run blocks on the device; returns those that are left."""
        if not self._is_sampled or self._missed:
            self._relearn(given, {})
        for name, address in given.addresses.items():
            state[self.slots.arrays[name]] = address
        launch = GridLaunch(given, self.slots, self._fallback, LaunchMemory(given.device, state))
        is_free = self.is_free(given.integers, given.grid)
        return self._run_blocks(launch, 0 if is_free else self._run_waves(launch), given.grid if is_free else 1)

    def is_free(self, integers: Mapping[Var, int], grid: int) -> bool:
        """Whether all blocks of a launch can run in parallel."""
        return self._are_independent(grid, tuple(integers.items()))

    def _run_blocks(self, launch: GridLaunch, first: int, most: int, begun: GridRun | None = None) -> Sequence[int]:
        given = launch.arguments
        code, learn = partial(self.code, given.device), partial(self._relearn, given)
        return launch.run(code, range(first, given.grid), most, learn, begun)

    def resume(self, given: LaunchOnDevice, memory: LaunchMemory, begun: GridRun) -> None:
        """Go on with a launch whose kernel has left a statement."""
        launch = GridLaunch(given, self.slots, self._fallback, memory)
        self._finish(given, self._run_blocks(launch, 0, given.grid, begun))

    def _run_waves(self, launch: GridLaunch) -> int:
        """Run blocks in parallel, and their scatters afterwards; returns the first block that was not run."""
        given, deferred = launch.arguments, tuple(self._candidates)
        lanes = self._lanes(given.grid, tuple(given.integers.items()))
        if len(lanes) < len(deferred) or not lanes or not self._is_deferrable:
            return 0
        pages = self.code(given.device, deferred).pages
        if len(pages) < len(deferred):  # another thread has met numbers that cannot be recorded
            return 0
        scatters = DeferredScatters(given.device, self.slots, pages, lanes)

        def code() -> GridCode | None:
            made = self.code(given.device, deferred)
            return made if made.pages == pages and not made.snapshot else None

        for wave in scatters.waves(given.grid):
            scatters.begin(launch.state, wave)
            try:
                if launch.run(code, wave, given.grid, partial(self._relearn, given)):
                    return wave.start
            except BaseException:
                if launch.failed is not None:
                    scatters.flush_before(given.addresses, launch.failed)
                raise
            scatters.flush(given.addresses, wave)
        return given.grid

    def _pages(self, deferred: Iterable[int]) -> list[Page]:
        """What is recorded of scatters, for the numbers that were met; those that cannot be deferred are left out."""
        pages = [page(self.program, self.slots, number, self._variants(number)) for number in deferred]
        return [each for each in pages if each is not None]

    @property
    def _is_deferrable(self) -> bool:
        """Whether all scatters that stand in the way can be recorded; known before there is code."""
        if self._deferrable is None:
            self._deferrable = len(self._pages(self._candidates)) == len(self._candidates)
        return self._deferrable

    def _find_lanes(self, grid: int, integers: Items) -> dict[int, int]:
        """The lanes that a block records; empty if blocks are not independent without them."""
        besides = frozenset(self._candidates.values())
        if not self._are_independent(grid, integers, besides):
            return {}
        return lanes_of_blocks(self.slots, tuple(self._candidates), grid, dict(integers))

    def _state(self, tensors: Tensors, integers: Mapping[Var, int], grid: int) -> Words:
        """The slots at the beginning of a kernel, but for addresses."""
        sizes = {name: tensors[name].bits.size for name in self.slots.arrays if name not in self._floats}
        state = self.state(sizes, integers, grid)
        for name in self._floats:
            bits = tensors[name].bits.tobytes()
            state[self.slots.arrays[name]] = int.from_bytes(bits, "little", signed=True)
        return state

    def state(self, sizes: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> Words:
        """The slots at the beginning of a kernel, but for addresses; `sizes` are those of arrays."""
        state = np.zeros(self.slots.count, np.int64)
        for name, size in sizes.items():
            state[self.slots.arrays[name] + 1] = size
        for slot, number in self.numbers(integers, grid):
            state[slot] = number
        return state

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> RepeatedLaunch | None:
        """The same launch over other arrays of the device, if all of its numbers have code."""
        is_known = self._is_sampled and not self._missed and not self._is_for_reference(integers, grid)
        return RepeatedLaunch(self, arrays, integers, grid) if grid and is_known else None


class KeptRecords:
    """Records of launches that have ended, of all programs, for later ones: allocating them takes time."""

    def __init__(self) -> None:
        self._free: dict[tuple[Device, int], deque[DeviceBuffer]] = {}
        self._nbytes, self._lock = 0, Lock()

    def of(self, device: Device, nbytes: int, *, is_over: bool) -> deque[DeviceBuffer]:
        """Those of so many bytes that no kernel uses. None are kept if they are too many, or if a launch may return
        before it `is_over`: they are free again in the order of its stream only."""
        if is_over and nbytes <= MOST_KEPT_RECORDS:
            with self._lock:
                return self._free.setdefault((device, nbytes), deque())
        return deque(maxlen=0)

    def make(self, device: Device, nbytes: int, free: deque[DeviceBuffer]) -> DeviceBuffer:
        """New ones that will be kept there; if all of them are too many, those that are free are dropped."""
        if free.maxlen is None:
            with self._lock:
                self._nbytes += nbytes
                if self._nbytes > MOST_KEPT_RECORDS:
                    self._nbytes = nbytes
                    for each in self._free.values():
                        each.clear()
        return device.empty(nbytes)


_records = KeptRecords()


class RepeatedLaunch:
    """A launch that differs from an earlier one only in the addresses of its arrays, which are on the device."""

    engine = CudaExecutable.engine

    def __init__(
        self, executable: CudaExecutable, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int
    ) -> None:
        """`arrays` are the names and sizes of the arrays, in the order of the addresses."""
        self._executable, self._names, self._grid = executable, [*arrays], grid
        self._integers, self._device = dict(integers), devices.current()
        self._slots = [executable.slots.arrays[name] for name in arrays]
        self._state = executable.state(arrays, integers, grid)
        self._is_free = executable.is_free(integers, grid)
        self._ready: tuple[GridCode, int, deque[DeviceBuffer]] | None = None
        """The kernel, its blocks of threads and their free records; none if blocks cannot simply run in parallel."""
        self._free = deque[LaunchMemory]()
        """Slots that no launch uses."""

    def run(self, addresses: Sequence[int], tensors: Callable[[], Tensors], listener: Listener) -> float:
        """Run it; returns the seconds it took."""
        began = perf_counter()
        ready = self._ready or self._make_ready()
        if ready is None:
            self._executable.run(self._given(addresses, tensors, listener), self._state.copy())
            return perf_counter() - began
        code, count, kept = ready
        try:
            memory = self._free.pop()
        except IndexError:
            memory = LaunchMemory(self._device, self._state)
        state = memory.state
        for slot, address in zip(self._slots, addresses, strict=True):
            state[slot] = address
        try:
            records = kept.pop()
        except IndexError:
            records = _records.make(self._device, count * code.record, kept)
        if memory.finishes(code, count, records, 0, self._grid):
            self._free.append(memory)
            kept.append(records)
        else:
            self._ready = None
            self._executable.resume(self._given(addresses, tensors, listener), memory, (code, count, records))
        return perf_counter() - began

    def _make_ready(self) -> tuple[GridCode, int, deque[DeviceBuffer]] | None:
        code = self._executable.code(self._device) if self._is_free else None
        self._ready = None
        if code and not code.snapshot:
            count = code.count(self._grid)
            self._ready = code, count, _records.of(self._device, count * code.record, is_over=not code.settles)
        return self._ready

    def _given(self, addresses: Sequence[int], tensors: Callable[[], Tensors], listener: Listener) -> LaunchOnDevice:
        named, program = dict(zip(self._names, addresses, strict=True)), self._executable.program
        return LaunchOnDevice(self._device, program, tensors, named, self._integers, self._grid, listener)

    @property
    def is_current(self) -> bool:
        """Whether all numbers that were met have code."""
        return self._executable.is_settled
