"""A GPU as the engine uses it: kernels, memory, and copies to and from the host, in the order of the current stream.

`Device` is a GPU of NVIDIA, through CuPy. Whatever has the same methods can take its place.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# CuPy has no types.

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from ctypes import addressof, c_int64, string_at
from dataclasses import replace
from functools import cache, partial
from struct import Struct
from threading import local
from time import perf_counter
from typing import Any

import numpy as np

from ptokit.engine.cuda import ptx
from ptokit.engine.cuda.stage import GPU, WIDE_UNITS
from ptokit.engine.cuda.whole.combining import REDUCTIONS
from ptokit.engine.gpu import TORCH, DeviceArray, import_cupy, streams
from ptokit.engine.llvm.compiled import CodeCache, IrSource
from ptokit.engine.llvm.store import Entry

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
TO_DEVICE, TO_HOST, BY_ADDRESS = 1, 2, 4
"""Directions of a copy, as CUDA numbers them."""
PINNED = 4096
"""Bytes that go through memory of the host that the GPU writes itself, at most: copies to other memory take longer."""
PATIENCE = 2e-3
"""Seconds in which the host looks at its memory again and again, before it waits in the usual way."""
YIELD: Callable[[], None] = getattr(os, "sched_yield", lambda: None)
"""Lets other threads run; a sleep, however short, takes 50 us."""
PROCESSORS, SHARED = 16, 97
"""The numbers of attributes of a GPU: its multiprocessors, and the shared memory that a block can have."""
DYNAMIC_SHARED = 8
"""The number of the attribute of a kernel that says how much shared memory it may ask for."""


def missing() -> str:
    """What the engine needs and is not there; empty if there is a GPU that it can use."""
    import cupy

    try:
        numbers, driver = range(cupy.cuda.runtime.getDeviceCount()), cupy.cuda.runtime.driverGetVersion()
        found = sorted(int(cupy.cuda.Device(number).compute_capability) for number in numbers)
        lacking = [ptx.lacking(each, driver) for each in found]
        return "a GPU of NVIDIA; CUDA finds none" if not lacking else "" if "" in lacking else lacking[-1]
    except Exception as problem:  # CUDA's own, and what a broken CuPy raises
        return f"a GPU of NVIDIA and its driver; CUDA says: {problem}"


@cache
def cuda(number: int) -> Device:
    """The GPU of a number."""
    return Device(number)


def current() -> Device:
    """The GPU of the arrays of a call, or CuPy's current one."""
    return cuda(import_cupy().cuda.runtime.getDevice())


def ordered(arrays: Sequence[DeviceArray]) -> AbstractContextManager[object] | None:
    """A block whose work goes to the GPU of arrays, to the first of their streams; CuPy's current one comes last.

    The work is done after what was launched in any of them before, and before what is launched in them later. None if
    it goes there anyway.
    """
    cuda, number = import_cupy().cuda, arrays[0].gpu
    is_here = cuda.runtime.getDevice() == number
    named = {array.order: array for array in arrays if array.order is not None}
    if is_here and not named:
        return None
    streams = [array.stream for array in named.values()]
    if is_here and {*streams} == {cuda.get_current_stream().ptr}:
        return None
    return _switched(cuda, number, streams if all(array.order is not None for array in arrays) else [*streams, None])


def ordering(number: int, order: int | str | None) -> Callable[[], bool]:
    """A function that says whether work goes to a GPU and to the stream of an order anyway; None is CuPy's.

    It does not if it would be captured in a CUDA graph.
    """
    cuda = import_cupy().cuda
    device, stream = cuda.runtime.getDevice, cuda.get_current_stream
    if order is None:
        return lambda: device() == number and not _is_captured(cuda, stream().ptr) and not _is_torch_captured()
    current = streams(order)

    def is_in_order() -> bool:
        handle = stream().ptr
        return device() == number and current(number) == handle and not _is_captured(cuda, handle)

    return is_in_order


def is_captured(arrays: Sequence[DeviceArray] = ()) -> bool:
    """Whether work on arrays would be captured in a CUDA graph, or break a capture of this thread."""
    cuda = import_cupy().cuda
    with cuda.Device(arrays[0].gpu if arrays else cuda.runtime.getDevice()):
        here = cuda.get_current_stream().ptr
        handles = {here, *(here if array.stream is None else array.stream for array in arrays)}
        return any(_is_captured(cuda, handle) for handle in handles) or _is_torch_captured()


def _is_captured(cuda: Any, stream: int) -> bool:
    try:
        return cuda.runtime.streamIsCapturing(stream)
    except cuda.runtime.CUDARuntimeError:  # the legacy stream, while another one that it waits for is captured
        return True


def _is_torch_captured() -> bool:
    """Whether torch captures its current stream: other streams must not be waited for then."""
    torch = sys.modules.get(TORCH)
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


@contextmanager
def _switched(cuda: Any, number: int, streams: list[int | None]) -> Generator[None]:
    with cuda.Device(number):
        here = cuda.get_current_stream()
        named = dict.fromkeys(here.ptr if stream is None else stream for stream in streams)
        own, *others = (here if stream == here.ptr else _stream(cuda, stream) for stream in named)
        with own:
            for other in others:
                own.wait_event(other.record())
            try:
                yield
            finally:
                for other in others:
                    other.wait_event(own.record())


def _stream(cuda: Any, handle: int) -> Any:
    """CuPy's object for the stream of another library."""
    return cuda.Stream.from_external(_ForeignStream(handle))


class _ForeignStream:
    """A stream, as the CUDA stream protocol describes it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class Device:
    """A GPU of NVIDIA; the current stream is CuPy's. Calls take effect in their order; only `download`, `wait` and
    events wait."""

    def __init__(self, number: int) -> None:
        import cupy

        self._cupy = cupy
        about = cupy.cuda.runtime.deviceGetAttribute  # CuPy's own table of all attributes takes 10 ms
        self.processors, self.shared = (int(about(which, number)) for which in (PROCESSORS, SHARED))
        """Multiprocessors: blocks that run at a time, at least; bytes of shared memory that a block can have."""
        self.capability = int(cupy.cuda.Device(number).compute_capability)
        if lacking := ptx.lacking(self.capability, cupy.cuda.runtime.driverGetVersion()):
            raise ImportError(f"GPU {number} cannot be used: the cuda engine needs {lacking}")
        reductions = REDUCTIONS[max(each for each in REDUCTIONS if each <= self.capability)]
        self.chip = replace(GPU, reductions=reductions, wide_units=WIDE_UNITS.get(self.capability, ()))
        self._pinned: list[Any] = []
        self._side = local()
        self._modules = CodeCache(lambda: ("cuda", self.capability), self._translate, self._load)

    def module(self, key: str, build: Callable[[], IrSource]) -> DeviceModule:
        """The kernels for a key, which describes all inputs of the code; `build` is called if they are not cached."""
        return self._modules.get(key, build)

    def _translate(self, text: str) -> bytes:
        return ptx.compiled(text, self.capability).encode()

    def _load(self, _digest: str, entry: Entry) -> DeviceModule:
        return DeviceModule(self._cupy, entry, self)

    @property
    def _stream(self) -> Any:
        return self._cupy.cuda.get_current_stream()

    @property
    def stream(self) -> int:
        """The current stream."""
        return self._cupy.cuda.get_current_stream().ptr

    @property
    def is_captured(self) -> bool:
        """Whether work would be captured in a CUDA graph, or break a capture."""
        return is_captured()

    def fork(self) -> AbstractContextManager[None]:
        """A block whose work is done beside what is launched between this call and the block; what is launched after
        the block waits for both."""
        known = getattr(self._side, "fork", None)
        if known is None:
            known = self._side.fork = _StreamFork(self._cupy.cuda)
        known.begin()
        return known

    def event(self) -> DeviceEvent:
        return DeviceEvent(self._cupy.cuda.Event(disable_timing=True))

    def empty(self, nbytes: int) -> DeviceBuffer:
        return DeviceBuffer(self._cupy.cuda.alloc(max(1, nbytes)))

    def pinned(self, nbytes: int) -> DeviceBuffer:
        """Host memory that kernels can use as well."""
        return DeviceBuffer(self._cupy.cuda.alloc_pinned_memory(nbytes))

    def upload(self, address: int, data: Bytes) -> None:
        """Copy bytes to the device; they may change afterwards."""
        # CUDA has read memory that is not page-locked when it returns
        self._cupy.cuda.runtime.memcpyAsync(address, data.ctypes.data, data.nbytes, TO_DEVICE, self._stream.ptr)

    def download(self, address: int, nbytes: int, rows: int = 1, stride: int = 0) -> Bytes:
        """Wait for all work, and copy bytes to the host; of several rows of memory, the first bytes of each."""
        stream, runtime = self._stream, self._cupy.cuda.runtime
        if rows == 1 and nbytes <= PINNED:
            try:
                pinned = self._pinned.pop()
            except IndexError:
                pinned = self._cupy.cuda.alloc_pinned_memory(PINNED)
            runtime.memcpyAsync(pinned.ptr, address, nbytes, TO_HOST, stream.ptr)
            stream.synchronize()
            found = np.frombuffer(string_at(pinned.ptr, nbytes), np.uint8).copy()
            self._pinned.append(pinned)
            return found
        found = np.empty(rows * nbytes, np.uint8)
        if rows == 1:
            runtime.memcpyAsync(found.ctypes.data, address, nbytes, TO_HOST, stream.ptr)
        else:
            runtime.memcpy2DAsync(found.ctypes.data, nbytes, address, stride, nbytes, rows, TO_HOST, stream.ptr)
        stream.synchronize()
        return found

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._cupy.cuda.runtime.memsetAsync(address, byte, nbytes, self._stream.ptr)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes of the device, or pinned ones."""
        self._cupy.cuda.runtime.memcpyAsync(target, source, nbytes, BY_ADDRESS, self._stream.ptr)

    def wait(self) -> None:
        """Wait for all work."""
        self._cupy.cuda.get_current_stream().synchronize()

    def wait_until(self, is_known: Callable[[], bool]) -> None:
        """Wait until kernels have set memory of the host so, or for all work."""
        end = perf_counter() + PATIENCE
        try:
            while not is_known():
                if perf_counter() > end:
                    self.wait()
                    return
                YIELD()
        except BaseException:
            self.wait()  # nobody writes to memory that is free
            raise

    def sort(self, address: int, count: int) -> None:
        """Sort unsigned numbers of 64 bits."""
        cuda = self._cupy.cuda
        memory = cuda.MemoryPointer(cuda.UnownedMemory(address, 8 * count, self), 0)
        self._cupy.ndarray((count,), np.uint64, memory).sort()


class DeviceBuffer:
    """Memory of a device, for as long as this object lives; work that was launched before may still use it."""

    def __init__(self, memory: Any) -> None:
        self._memory, self.address = memory, int(memory.ptr)


class _StreamFork:
    """A stream of a thread beside its current one, whose blocks come first where both have some to run."""

    def __init__(self, cuda: Any) -> None:
        self._current, self._side = cuda.get_current_stream, cuda.Stream(non_blocking=True, priority=-1)
        self._begun, self._done = (cuda.Event(disable_timing=True) for _ in range(2))

    def begin(self) -> None:
        self._begun.record()

    def __enter__(self) -> None:
        self._main = self._current()
        self._side.wait_event(self._begun)
        self._side.__enter__()

    def __exit__(self, *_problem: object) -> None:
        self._done.record()
        self._side.__exit__()
        self._main.wait_event(self._done)


class DeviceEvent:
    """A point in the order of the work."""

    def __init__(self, event: Any) -> None:
        self.record: Callable[[], Any] = event.record
        """Let it be behind all work that was launched in the current stream."""
        self._event = event

    def wait(self) -> None:
        """Wait for the work before it."""
        self._event.synchronize()


class DeviceModule:
    """Kernels that were compiled together, with the facts of their source."""

    def __init__(self, cupy: Any, entry: Entry, device: Device) -> None:
        self._cupy, self._device, self.facts = cupy, device, entry.facts
        self._module = cupy.cuda.function.Module()
        self._module.load(entry.code + b"\0")
        self._kernels: dict[str, DeviceKernel] = {}

    def kernel(self, name: str) -> DeviceKernel:
        """One of them."""
        if name not in self._kernels:
            lanes = self.facts.get("lanes", self._device.chip.lanes)
            function, by_value = self._module.get_function(name), self.facts.get("by_value", False)
            self._kernels[name] = DeviceKernel(self._cupy, function, self._device, lanes, by_value)
        return self._kernels[name]


class _KernelArguments:
    """Arguments of a kernel, as CUDA takes them: the addresses of numbers."""

    def __init__(self, count: int) -> None:
        self.values = (c_int64 * count)()
        self.set = partial(Struct(f"={count}q").pack_into, self.values, 0)
        first = addressof(self.values)
        self.places = (c_int64 * count)(*range(first, first + 8 * count, 8))
        self.address = addressof(self.places)


class DeviceKernel:
    """A kernel that is loaded. Blocks have as many threads as the fact `lanes` of the module says; without it,
    `chip.lanes`. With the fact `by_value`, the first argument is an address of the host, whose memory is copied."""

    def __init__(self, cupy: Any, function: Any, device: Device, lanes: int, by_value: bool) -> None:
        self._driver, self._stream, self._by_value = cupy.cuda.driver, cupy.cuda.get_current_stream, by_value
        self._function, self._handle, self._device, self._lanes = function, function.ptr, device, lanes
        self._driver.funcSetAttribute(function.ptr, DYNAMIC_SHARED, device.shared)
        self._launch = self._driver.launchKernel
        self._fitting: dict[int, int] = {}
        self._free = deque[_KernelArguments]()

    def __call__(self, grid: int, arguments: Sequence[int], shared: int = 0) -> None:
        """Launch it over blocks of threads, with `shared` bytes of shared memory for each block."""
        try:
            given = self._free.pop()
        except IndexError:
            given = _KernelArguments(len(arguments))
        given.set(*arguments)
        if self._by_value:
            given.places[0] = arguments[0]
        stream = self._stream().ptr
        self._launch(self._handle, grid, 1, 1, self._lanes, 1, 1, shared, stream, given.address, 0)
        self._free.append(given)  # CUDA has copied them

    def fitting(self, shared: int = 0) -> int:
        """Blocks of threads that run at a time."""
        if shared not in self._fitting:
            each = self._driver.occupancyMaxActiveBlocksPerMultiprocessor(self._function.ptr, self._lanes, shared)
            self._fitting[shared] = max(1, each) * self._device.processors
        return self._fitting[shared]
