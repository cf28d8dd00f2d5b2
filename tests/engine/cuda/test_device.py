"""Kernels over a grid on an emulated device."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit import engines
from ptokit.engine.cuda import device as gpu
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole.combining import REDUCTIONS
from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, IrModule
from ptokit.engine.llvm.resolve import IndexValues
from ptokit.engine.llvm.store import Entry
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Index, IndexUnit, Remap, Side
from tests.engine.cuda.emulated import EMULATED, EmulatedBuffer, EmulatedDevice, within
from tests.engine.cuda.fakes import FakeArray, FakeGpus

CUDA_DEVICE = gpu.Device


def reversed_in_pieces() -> IrSource:
    """A kernel that reverses every run of 64 numbers, through shared memory."""
    module = IrModule(EMULATED)
    code = module.kernel("turn", [(PTR, "numbers"), (I64, "count")])
    numbers, count = code.arguments[:2]
    with code.spread(count >> 6) as run:
        for backwards in (False, True):
            with code.phase(), code.share(0, code.i64(64)) as k:
                there = code.at(numbers, (run * 64 + k) * 8)
                here = code.at(code.shared, (63 - k if backwards else k) * 8)
                source, target = (here, there) if backwards else (there, here)
                code.store(code.load(I64, source), target)
    code.ret()
    return IrSource(module.text)


@pytest.mark.parametrize("grid", [1, 2, 7])
def test_blocks_of_a_grid_share_memory_among_their_lanes(grid: int) -> None:
    device = EmulatedDevice()
    numbers = np.random.default_rng(grid).integers(0, 1 << 40, 320)
    memory = device.empty(numbers.nbytes)
    device.upload(memory.address, numbers.view(np.uint8))
    device.module("a test of grids", reversed_in_pieces).kernel("turn")(grid, [memory.address, 320], shared=512)
    found = device.download(memory.address, numbers.nbytes).view(np.int64)
    assert np.array_equal(found, numbers.reshape(-1, 64)[:, ::-1].ravel())


# --- a GPU through CuPy


ATTRIBUTES = {gpu.PROCESSORS: 12, gpu.SHARED: 1000}


class FakeCuda:
    """CuPy as far as `Device` uses it. Memory is that of the host, and has just the size that was asked for."""

    def __init__(self) -> None:
        self.launched: list[Any] = []
        self.waits = 0
        copies = {"memcpyAsync": self._copy, "memcpy2DAsync": self._copy_rows, "memsetAsync": self._fill}
        runtime = SimpleNamespace(
            **copies, driverGetVersion=lambda: 13000, deviceGetAttribute=lambda which, _: ATTRIBUTES[which]
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Device=lambda _: SimpleNamespace(compute_capability="86"),
            alloc=self._alloc,
            alloc_pinned_memory=self._alloc,
            get_current_stream=lambda: SimpleNamespace(ptr=9, synchronize=self._wait),
            function=SimpleNamespace(Module=lambda: self),
            driver=SimpleNamespace(
                funcSetAttribute=lambda *given: self.launched.append(given),
                launchKernel=lambda *given: self.launched.append(given),
            ),
            UnownedMemory=lambda address, nbytes, _: (address, nbytes),
            MemoryPointer=lambda memory, offset: (*memory, offset),
        )

    def load(self, code: bytes) -> None:
        self.code = code

    def get_function(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(ptr=len(name))

    def _alloc(self, nbytes: int) -> SimpleNamespace:
        assert nbytes > 0
        buffer = EmulatedBuffer(nbytes)
        return SimpleNamespace(ptr=buffer.address, mem=buffer)

    def _copy(self, target: int, source: int, nbytes: int, _kind: int, stream: int) -> None:
        assert stream == 9
        ctypes.memmove(within(target, nbytes), within(source, nbytes), nbytes)

    def _copy_rows(self, target: int, pitch: int, source: int, stride: int, *given: int) -> None:
        width, height, kind, stream = given
        for row in range(height):
            self._copy(target + row * pitch, source + row * stride, width, kind, stream)

    def _fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        assert stream == 9
        ctypes.memset(within(address, nbytes), byte, nbytes)

    def _wait(self) -> None:
        self.waits += 1

    def ndarray(self, shape: tuple[int], kind: Any, memory: tuple[int, int, int]) -> Any:
        address, nbytes, offset = memory
        assert nbytes == shape[0] * np.dtype(kind).itemsize and offset == 0
        return np.ctypeslib.as_array((ctypes.c_uint64 * shape[0]).from_address(within(address, nbytes)))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    made: Any = FakeCuda()
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_memory_is_copied_filled_and_sorted(fake: FakeCuda) -> None:
    device, numbers = gpu.Device(0), np.random.default_rng(0).integers(0, 1 << 40, 1000)
    assert (device.processors, device.shared, device.capability) == (12, 1000, 86)
    assert device.chip.reductions == REDUCTIONS[80]
    one, other = device.empty(8000), device.pinned(8000)
    device.upload(one.address, numbers.view(np.uint8))
    assert np.array_equal(device.download(one.address, 8000).view(np.int64), numbers)
    assert np.array_equal(device.download(one.address + 80, 4096).view(np.int64), numbers[10:522])
    for nbytes in (16, 400):
        wanted = np.concatenate([numbers[k : k + nbytes // 8] for k in (5, 105, 205)])
        found = device.download(one.address + 40, nbytes, 3, 800)
        assert np.array_equal(found.view(np.int64), wanted)
    assert fake.waits == 4
    device.sort(one.address, 999)
    device.copy(other.address, one.address, 8000)
    device.fill(other.address + 16, 0x11, 32)
    device.wait()
    wanted = np.array([*sorted(numbers[:999]), numbers[999]])
    wanted[2:6] = 0x1111111111111111
    assert fake.waits == 5 and np.array_equal(device.download(other.address, 8000).view(np.int64), wanted)
    assert device.empty(0).address


def test_two_threads_copy_small_memory_at_the_same_time(fake: FakeCuda) -> None:
    """Memory that one has just taken is not there for the other, whatever it saw before."""

    class Emptied(list[Any]):
        def __bool__(self) -> bool:
            return True

    device = gpu.Device(0)
    device._pinned = Emptied()
    memory = device.empty(16)
    device.fill(memory.address, 0x22, 16)
    assert device.download(memory.address, 16).tolist() == [0x22] * 16 and len(device._pinned) == 1


@pytest.mark.parametrize(("facts", "lanes"), [({}, GPU.lanes), ({"lanes": 96}, 96)])
def test_a_kernel_is_launched_with_addresses_of_its_arguments(
    fake: FakeCuda, facts: dict[str, Any], lanes: int
) -> None:
    module = gpu.DeviceModule(fake, Entry(facts, b"code"), gpu.Device(0))
    kernel = module.kernel("any")
    assert fake.code == b"code\0" and module.kernel("any") is kernel
    assert fake.launched.pop() == (3, gpu.DYNAMIC_SHARED, 1000)
    for first in (0, 50):  # the second launch has the memory of the first
        kernel(7, range(first, first + 20), 64)
        *shape, places, extra = fake.launched.pop()
        assert (*shape, extra) == (3, 7, 1, 1, lanes, 1, 1, 64, 9, 0)
        found = [ctypes.c_int64.from_address(at).value for at in (ctypes.c_int64 * 20).from_address(places)]
        assert found == [*range(first, first + 20)]


def test_blocks_that_run_at_a_time(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = gpu.DeviceModule(fake, Entry({}, b""), gpu.Device(0)).kernel("any")
    for most, shared, blocks in ((3, 0, 36), (0, 500, 12), (9, 0, 36)):  # asked for once
        monkeypatch.setattr(
            fake.cuda.driver,
            "occupancyMaxActiveBlocksPerMultiprocessor",
            lambda *given, most=most, shared=shared: most if given == (3, GPU.lanes, shared) else None,
            raising=False,
        )
        assert kernel.fitting(shared) == blocks


# --- what an engine lacks, and indices


@pytest.mark.parametrize("by_value", [False, True])
def test_arguments_are_given_by_their_places(by_value: bool) -> None:
    """CUDA takes the addresses of all arguments, and copies what lies there."""
    slots, found = np.array([11, 12, 13]), list[Any]()

    def launch(*given: Any) -> None:
        places = (ctypes.c_int64 * 3).from_address(given[-2])
        found.extend(ctypes.string_at(place, 8) for place in places)

    driver = SimpleNamespace(funcSetAttribute=lambda *_: None, launchKernel=launch)
    cuda = SimpleNamespace(driver=driver, get_current_stream=lambda: SimpleNamespace(ptr=9))
    given = [slots.ctypes.data, 2, 3]
    kernel: Any = gpu.DeviceKernel(
        SimpleNamespace(cuda=cuda), SimpleNamespace(ptr=5), SimpleNamespace(shared=1), 32, by_value
    )
    kernel(7, given)
    assert np.frombuffer(b"".join(found), np.int64).tolist() == ([11, 2, 3] if by_value else given)


@pytest.mark.parametrize(
    ("capabilities", "driver", "said"),
    [
        ([], 12020, "a GPU of NVIDIA; CUDA finds none"),
        (["70", "75"], 12020, "a GPU of compute capability 8.0 or later; CUDA finds 7.5"),
        (["80", "75"], 11000, ""),
        (["120"], 13000, ""),
        (["80"], 10020, "a driver for CUDA 11.0 or later; this one is for 10.2"),
        (["75", "90"], 12010, "a driver for CUDA 12.2 or later; this one is for 12.1"),
        (["90", "80"], 12010, ""),
    ],
)
def test_what_an_engine_lacks(capabilities: list[str], driver: int, said: str, emulated: FakeGpus) -> None:
    emulated.capabilities, emulated.driver = capabilities, driver
    assert engines.ENGINES["cuda"].missing() == said


def test_cupy_without_a_driver(emulated: FakeGpus) -> None:
    def count() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    emulated.cupy.cuda.runtime.getDeviceCount = count
    said = "the cuda engine needs a GPU of NVIDIA and its driver; CUDA says: cudaErrorInsufficientDriver"
    with pytest.raises(ImportError, match=said):
        pto.gather(np.zeros((2, 3)), np.array([1]), engine="cuda")


@pytest.mark.parametrize(
    ("driver", "said"),
    [(12020, "a GPU of compute capability 8.0 or later; CUDA finds 7.5"), (11080, "a driver for CUDA 12.2 or later")],
)
def test_a_gpu_that_cannot_be_used_beside_one_that_can(
    driver: int, said: str, emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "Device", CUDA_DEVICE)
    emulated.capabilities, emulated.driver = ["80", "75" if "capability" in said else "90"], driver
    table, indices = (FakeArray(array, gpu=1) for array in (np.zeros((2, 3), "f4"), np.array([1])))
    with pytest.raises(ImportError, match=f"GPU 1 cannot be used: the cuda engine needs {said}"):
        pto.gather(table, indices)


@pytest.mark.parametrize("remap", Remap)
def test_no_short_index_is_outside_a_table_of_more_rows_than_it_can_name(remap: Remap) -> None:
    device, kind, layout = EmulatedDevice(), dtype("int32"), Layout.plain(1, 1)
    module = IrModule(EMULATED)
    code = module.kernel("resolve", [(PTR, "indices"), (PTR, "found")])
    index = Index(Access("indices", layout), Side.SRC, IndexUnit.ELEMENT, (1 << 32) + 5, remap, cast=True)
    values = IndexValues(code, index, kind, MemoryView(code.arguments[0], layout, 4, far=True), code.i64)
    with code.phase(), code.share(0, code.i64(3)) as i:
        code.store(values.resolved(i, code.i64(0)), code.at(code.arguments[1], i * 4))
    code.ret()
    indices, found = np.array([4, 7, 1 << 30], np.int32), np.zeros(3, np.int32)
    made = device.module(f"a test of indices {module.text}", lambda: IrSource(module.text))
    made.kernel("resolve")(1, [indices.ctypes.data, found.ctypes.data])
    assert found.tolist() == indices.tolist()
