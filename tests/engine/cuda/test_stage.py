"""Programs as kernels of an emulated device: results, shared memory, and the record of a statement that was left."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.cuda.stage import SETTLED, STOPPED, GridStage, head_size, place_of, record_size
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.sample import sample
from ptokit.engine.llvm.program.slots import Reason, Slots, StateSlot
from ptokit.engine.native.jit import IrSource
from ptokit.engine.native.program.executable import NativeExecutable
from ptokit.lang.launch import mode_of
from ptokit.program.expr import BLOCK_NUM
from tests.engine.cuda.emulated import EmulatedDevice

ROWS, WIDTH, BLOCKS = 16, 24, 7


class EmulatedLaunch:
    """A kernel on the emulated device: launched when made."""

    def __init__(
        self,
        kernel: Any,
        given: Mapping[str, Any],
        grid: int = 3,
        device: EmulatedDevice | None = None,
        blocks: int = BLOCKS,
    ) -> None:
        device = device or EmulatedDevice()
        arguments, mode = kernel.bind((), given), mode_of("a5")
        program = kernel.trace(arguments, mode).program
        native = NativeExecutable(program, mode.profile, mode.options)
        found = sample(program, kernel.storages(arguments), arguments.numbers, blocks)
        native._samples = {native.slots.numbers[stmt]: values for stmt, values in found.items()}
        variants = {number: native._variants(number) for number in native._samples}
        self.slots: Slots = native.slots
        self.stage = GridStage(program, native.slots, device.chip, device.shared)
        text = Emitter(self.stage, variants).text()
        self.text = text
        state = np.zeros(native.slots.count, np.int64)
        for name, slot in native.slots.arrays.items():
            array = given[name]
            steps = zip(array.shape, array.strides, strict=True)
            span = 1 + sum((n - 1) * step for n, step in steps) // array.itemsize
            state[slot : slot + 2] = array.ctypes.data, span
        state[native.slots.variables[BLOCK_NUM]] = blocks
        self.state, self.flag = state, np.zeros(1 + grid, np.int64)
        state[StateSlot.STOP] = self.flag.ctypes.data
        self.records = np.zeros((grid, record_size(native.slots)), np.uint8)
        run = device.module(f"test_stage {text}", lambda: IrSource(text)).kernel("run_blocks")
        run(grid, [state.ctypes.data, self.records.ctypes.data, 0, blocks], shared=self.stage.shared)

    @property
    def settled(self) -> np.ndarray[Any, Any]:
        """What each block of threads has said."""
        return self.flag.view(np.uint8)[SETTLED : SETTLED + len(self.records)]

    @property
    def words(self) -> np.ndarray[Any, Any]:
        """The numbers at the beginning of each record."""
        return self.records[:, : 8 * (STOPPED + self.slots.count)].copy().view(np.int64)


@pto.kernel
def rows_of(table, ids, out):
    b = pto.block_idx()
    where = pto.Tile("vec", "int32", 1, ROWS)
    rows = pto.Tile("vec", "float32", ROWS, WIDTH)
    pto.tload(where, ids[b * ROWS : (b + 1) * ROWS])
    pto.mgather(rows, table, where)
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], rows)


@pto.kernel
def more_rows_of(table, ids, out):
    b = pto.block_idx()
    where = pto.Tile("vec", "int32", 1, ROWS)
    rows = pto.Tile("vec", "float32", ROWS, WIDTH)
    for part in pto.range(2):
        first = (b * 2 + part) * ROWS // 2
        pto.tload(where[:, : ROWS // 2], ids[first : first + ROWS // 2])
        pto.mgather(rows[: ROWS // 2], table, where[:, : ROWS // 2])
        pto.tadds(rows[: ROWS // 2], rows[: ROWS // 2], 1.5)
        pto.tstore(out[first : first + ROWS // 2], rows[: ROWS // 2])


@pto.kernel(mode="manual")
def at_addresses(table, ids, out):
    b = pto.block_idx()
    where = pto.Tile("vec", "int32", 1, ROWS, addr=4096)
    rows = pto.Tile("vec", "float32", ROWS, WIDTH, addr=64)
    pto.tload(where, ids[b * ROWS : (b + 1) * ROWS])
    pto.barrier("ALL")
    pto.mgather(rows, table, where)
    pto.barrier("ALL")
    pto.tadds(rows, rows, 1.5)
    pto.barrier("ALL")
    pto.tstore(out[b * ROWS : (b + 1) * ROWS], rows)


def given(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    return {
        "table": random.normal(size=(50, WIDTH)).astype("f4"),
        "ids": random.integers(0, 50, BLOCKS * ROWS).astype("i4"),
        "out": np.zeros((BLOCKS * ROWS, WIDTH), "f4"),
    }


KERNELS = {rows_of: 0, more_rows_of: np.float32(1.5), at_addresses: np.float32(1.5)}
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)


@pytest.mark.parametrize("most", [0, 1 << 10, EmulatedDevice.shared])
@every_kernel
def test_results_wherever_tiles_lie(kernel: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDevice, "shared", most)
    arrays = given()
    made = EmulatedLaunch(kernel, arrays)
    assert np.array_equal(arrays["out"], arrays["table"][arrays["ids"]] + KERNELS[kernel])
    assert made.stage.shared <= most and not made.words[:, 0].any() and not made.flag[0]


def test_a_tile_that_only_passes_data_on_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (EmulatedDevice.shared, 4 * ROWS):  # the other one just fits
        monkeypatch.setattr(EmulatedDevice, "shared", most)
        assert EmulatedLaunch(rows_of, given()).stage.shared == 4 * ROWS


@pytest.mark.parametrize("count", [1, 500, 501, 600, 3000])
def test_slots_are_given_by_value_as_far_as_all_gpus_take_them(count: int) -> None:
    """They take 4,352 bytes: the slots, the records and the blocks to run."""
    by_value = GridStage.by_value.fget(SimpleNamespace(slots=SimpleNamespace(count=count)))
    assert by_value is (count <= 500) and (not by_value or 8 * (count + 3) <= 4352)


@pytest.mark.parametrize("most", [0, EmulatedDevice.shared])
@every_kernel
def test_the_record_of_a_refused_index(kernel: Any, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDevice, "shared", most)
    arrays = given()
    arrays["ids"][5 * ROWS + 3] = 77
    made = EmulatedLaunch(kernel, arrays)
    assert made.words[[0, 1], 0].tolist() == [0, 0] and made.flag[0] == 1
    assert 0 <= head_size(made.slots) - 8 * (STOPPED + made.slots.count) < 64
    left, block = made.words[2, :2]
    number, reason = divmod(int(left) - 1, Reason.COUNT)
    assert (block, reason) == (5, Reason.MISSED) and "mgather" in str(made.slots.statements[number])
    arrays_of_state = list(made.slots.arrays.values())
    assert all(made.words[2, STOPPED + slot] == made.state[slot] for slot in arrays_of_state)
    if kernel is at_addresses:
        (start,) = made.slots.memory.values()
        first = place_of(made.slots, start) + 4096
    else:
        start = made.slots.tiles["where"]
        first = place_of(made.slots, start)
    assert start in made.stage.parts
    held = made.records[2, first : first + 4 * ROWS].tobytes()
    count = ROWS // 2 if kernel is more_rows_of else ROWS
    assert np.array_equal(np.frombuffer(held, "i4")[:count], arrays["ids"][5 * ROWS : 5 * ROWS + count])
    assert not arrays["out"][5 * ROWS : 6 * ROWS].any()
