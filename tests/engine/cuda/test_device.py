"""Kernels over a grid on an emulated device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit import engines
from ptokit.engine.cuda import device as gpu
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I64, PTR, IrModule
from ptokit.engine.llvm.resolve import IndexValues
from ptokit.engine.llvm.store import Entry
from ptokit.isa.dtype import dtype
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Index, IndexUnit, Remap, Side
from tests.engine.cuda.emulated import EMULATED, EmulatedDevice
from tests.engine.cuda.fakes import FakeGpus


def reversed_in_pieces() -> IrSource:
    """A kernel that reverses every run of 64 numbers, through shared memory."""
    module = IrModule(EMULATED)
    code = module.kernel("turn", [(PTR, "numbers"), (I64, "count")])
    numbers, count = code.arguments[:2]
    with code.spread(0, count >> 6) as run:
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


@pytest.mark.parametrize(("facts", "lanes"), [({}, GPU.lanes), ({"lanes": 96}, 96)])
def test_a_module_says_how_many_threads_a_block_has(facts: dict[str, Any], lanes: int) -> None:
    launched: list[Any] = []
    module = SimpleNamespace(load=lambda _: None, get_function=lambda _: SimpleNamespace(ptr=5))
    driver = SimpleNamespace(funcSetAttribute=lambda *_: None, launchKernel=lambda *given: launched.append(given))
    stream, function = SimpleNamespace(ptr=9), SimpleNamespace(Module=lambda: module)
    cuda = SimpleNamespace(function=function, driver=driver, get_current_stream=lambda: stream)
    device: Any = SimpleNamespace(chip=GPU, shared=1000)
    gpu._CudaModule(SimpleNamespace(cuda=cuda), Entry(facts, b""), device).kernel("any")(7, [1, 2], 64)
    assert launched[0][:9] == (5, 7, 1, 1, lanes, 1, 1, 64, 9)


@pytest.mark.parametrize(
    ("capabilities", "said"),
    [
        ([], "a GPU of NVIDIA; CUDA finds none"),
        (["70", "75"], "a GPU of compute capability 8.0 or later; CUDA finds 7.5"),
        (["75", "80"], ""),
        (["120"], ""),
    ],
)
def test_what_an_engine_lacks(capabilities: list[str], said: str, emulated: FakeGpus) -> None:
    emulated.capabilities = capabilities
    assert engines.ENGINES["cuda"].missing() == said


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
