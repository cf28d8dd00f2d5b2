"""Kernels launched over arrays on an emulated GPU: engine, streams, versions, cached launches, watched launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.cuda import executable, stage
from ptokit.lang.check import LaunchWatcher, WatchedLaunch, copied
from ptokit.lang.launch import CachedLaunch
from tests.engine.cuda import emulated as emulated_module
from tests.engine.cuda.emulated import LIVE, EmulatedDevice
from tests.engine.cuda.fakes import Described, FakeArray, FakeGpus, FakeTensor, Lent
from tests.lang import test_shared_bytes as shared_bytes
from tests.lang.test_lengths import counted, fresh, lookup, lookup_case, outcome

TABLE = np.arange(64, dtype="float32").reshape(8, 8)
ROWS = np.array([[3, 0, 5, 7, 1, 1, 2, 6]], "int32")


@pto.kernel
def take(out: Any, table: Any, indices: Any) -> None:
    rows, lanes = pto.Tile("vec", table.dtype, 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(lanes, indices)
    pto.mgather(rows, table, lanes)
    pto.tstore(out, rows)


@pytest.fixture(autouse=True)
def _nothing_cached() -> None:
    """Every test has other GPUs, and cached launches stay on theirs."""
    take.cached.clear()


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor, Lent])
def test_a_kernel_runs_where_its_arrays_are(emulated: FakeGpus, wrap: Any) -> None:
    for _ in range(3):
        out = np.zeros_like(TABLE)
        run = take[1](wrap(out), wrap(TABLE), wrap(ROWS))
        assert run.engine == "cuda" and np.array_equal(out, TABLE[ROWS[0]])


def test_global_tensors_and_interfaces_are_arguments(emulated: FakeGpus) -> None:
    out, table = np.zeros_like(TABLE), np.stack([TABLE, TABLE + 1], 1)[:, 1]
    tensor = pto.GlobalTensor(FakeArray(table))
    run = take[1](out=Described(emulated, out), table=tensor, indices=FakeTensor(ROWS), target="host")
    assert run.engine == "cuda"
    assert np.array_equal(out, table[ROWS[0]])


def test_host_arrays_are_copied_there_and_back(emulated: FakeGpus) -> None:
    for _ in range(3):
        out = np.zeros_like(TABLE)
        assert take[1](out, TABLE, ROWS, engine="cuda").engine == "cuda"
        assert np.array_equal(out, TABLE[ROWS[0]])
    assert take[1](out, TABLE, ROWS).engine != "cuda"


def test_the_last_stream_is_used_and_ordered(emulated: FakeGpus) -> None:
    out = np.zeros_like(TABLE)
    with emulated.cupy.cuda.ExternalStream(5):
        take[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS))
    assert emulated.used == {5} and emulated.log == []
    emulated.used.clear()
    emulated.torch_stream = 9
    take[1](FakeArray(out), FakeTensor(TABLE), FakeArray(ROWS))
    assert emulated.used == {9} and emulated.log == ["9 after 0", "0 after 9"] and emulated.streams == [0]


def test_the_gpu_of_the_arrays_runs_the_kernel(emulated: FakeGpus) -> None:
    out = np.zeros_like(TABLE)
    for gpu in (1, 0, 1):
        out[:] = 0
        emulated.worked.clear()
        take[1](FakeArray(out, gpu), FakeArray(TABLE, gpu), FakeArray(ROWS, gpu))
        assert np.array_equal(out, TABLE[ROWS[0]]) and emulated.current == 0 and emulated.worked == {gpu}


def test_writes_into_tensors_are_counted(emulated: FakeGpus) -> None:
    out, table = FakeTensor(np.zeros_like(TABLE)), FakeTensor(TABLE.copy())
    for launches in (1, 2, 3):
        take[1](out, table, FakeTensor(ROWS))
        assert (out.version, table.version) == (launches, 0)
    with pytest.raises(pto.OutOfBoundsError):
        take[1](out, table, FakeTensor(ROWS + 8))
    assert (out.version, table.version) == (4, 0)


def test_arrays_that_share_memory(emulated: FakeGpus) -> None:
    table = TABLE.copy()
    take[1](FakeArray(table), FakeArray(table), FakeArray(ROWS))
    assert np.array_equal(table, TABLE[ROWS[0]])


class SmallCall:
    """A launch from the cache, as an engine makes it."""

    engine, is_current = "cuda", True

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def run(self, addresses: Any, _tensors: Any, _listener: Any) -> float:
        self.calls.append(list(addresses))
        return 0.5


def test_launches_are_cached_by_description_and_gpu(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SmallCall] = []

    def small(*_: Any) -> SmallCall:
        made.append(SmallCall())
        return made[-1]

    monkeypatch.setattr("ptokit.engine.cuda.executable.CudaExecutable.small", small)
    emulated.torch_stream = 9
    out, other = np.zeros_like(TABLE), TABLE + 1
    take[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS))
    run = take[1](FakeArray(out), FakeArray(other), FakeArray(ROWS))
    assert run.seconds == 0.5 and run.engine == "cuda"
    assert made[0].calls == [[out.ctypes.data, other.ctypes.data, ROWS.ctypes.data]]
    take[1](FakeArray(out, 1), FakeArray(TABLE, 1), FakeArray(ROWS, 1))
    assert len(made) == 2, "another GPU has a launch of its own"
    tensors = FakeTensor(out), FakeTensor(TABLE), FakeTensor(ROWS)
    take[1](*tensors)
    emulated.used.clear()
    take[1](*tensors)
    assert [len(each.calls) for each in made] == [1, 0, 1]
    assert tensors[0].version == 2 and tensors[1].version == 0 and emulated.streams == [0]
    take[1](FakeArray(out), FakeArray(out), FakeArray(ROWS))
    assert [len(each.calls) for each in made] == [1, 0, 1], "shared memory is no part of the description"
    assert all(type(each) is CachedLaunch for each in take.cached.values())
    take[1](out, TABLE, ROWS, engine="cuda")
    take[1](out, TABLE, ROWS, engine="cuda")
    assert len(made) == 3, "addresses of the host are of no use to a GPU"
    take.cached.clear()


def test_repeated_launches_follow_what_changes(emulated: FakeGpus) -> None:
    random = np.random.default_rng(5)
    take.cached.clear()
    for _ in range(60):
        gpu, wrap = int(random.integers(2)), (FakeArray, FakeTensor)[random.integers(2)]
        emulated.torch_stream, stream = int(random.choice([0, 9])), int(random.choice([0, 5]))
        table = random.integers(0, 99, (8, 8)).astype(random.choice(["float32", "int32"]))
        rows, memory = random.permutation(8)[None].astype("int32"), np.zeros((20, 8), table.dtype)
        memory[:8] = table
        first = int(random.choice([8, 12, 3]))
        out = memory[first : first + 8]
        emulated.used.clear()
        emulated.worked.clear()
        given = [wrap(each, gpu) for each in (out, memory[:8], rows)]
        with emulated.cupy.cuda.ExternalStream(stream):
            assert take[1](*given).engine == "cuda"
        assert emulated.used == {stream if wrap is FakeArray else emulated.torch_stream} and emulated.worked == {gpu}
        assert np.array_equal(out, table[rows[0]]), "shared memory, too: all rows are read before any is written"
        assert wrap is FakeArray or [each.version for each in given] == [1, 0, 0]
    assert len(take.cached) == 8, "two types, GPUs and libraries"
    out = np.zeros_like(TABLE)
    tensors = FakeTensor(out), FakeTensor(TABLE), FakeTensor(ROWS)
    take[1](*tensors)
    tensors[1].data_ptr = lambda: 0  # type: ignore[method-assign]
    with pytest.raises(TypeError, match="it has no memory"):
        take[1](*tensors)
    take.cached.clear()


@pto.kernel
def take_by_block(out: Any, table: Any, indices: Any) -> None:
    block, rows, lanes = pto.block_idx(), pto.Tile("vec", table.dtype, 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(lanes, indices[block : block + 1])
    pto.mgather(rows, table, lanes)
    pto.tstore(out[8 * block : 8 * block + 8], rows)


def launch_by_block(grid: int, bad: int = 0) -> None:
    """Launch it, and compare; `bad` is added to an index of the last block."""
    indices, out = np.random.default_rng(grid).integers(0, 8, (grid, 8)).astype("int32"), np.zeros((8 * grid, 8), "f4")
    indices[-1, 3] += bad
    take_by_block[grid](FakeArray(out), FakeArray(TABLE), FakeArray(indices))
    assert np.array_equal(out, TABLE[indices.ravel()])


def fit(monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    """Let so many blocks of threads run at a time."""
    monkeypatch.setattr(emulated_module._EmulatedKernel, "fitting", lambda *_: blocks)


def test_a_launch_goes_on_with_the_code_that_began_it(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a program may become another one, of more blocks of threads, after a launch was made ready."""
    take_by_block.cached.clear()
    fit(monkeypatch, 2)
    for _ in range(2):
        launch_by_block(5)
    nested = [5]
    monkeypatch.setattr(EmulatedDevice, "wait", lambda _: launch_by_block(nested.pop()) if nested else None)
    launch_by_block(5)  # as in two threads: each launch has memory of its own, which is kept
    (known,) = (each for each in take_by_block.cached.values() if isinstance(each, CachedLaunch))
    cast("Any", known.small)._executable._made.clear()  # as after a launch that met other numbers
    fit(monkeypatch, 5)
    with pytest.raises(pto.OutOfBoundsError, match=r"idx\[3\] = 10\d is .* in block 4"):
        launch_by_block(5, bad=100)
    launch_by_block(5)


def test_the_records_of_all_launches_together_are_bounded(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    take_by_block.cached.clear()
    fit(monkeypatch, 9)
    launch_by_block(1)
    launch_by_block(1)
    (known,) = (each for each in take_by_block.cached.values() if isinstance(each, CachedLaunch))
    record = cast("Any", known.small)._ready[0].record
    monkeypatch.setattr(executable, "MOST_KEPT_RECORDS", 4 * record)
    monkeypatch.setattr(executable, "_records", executable.KeptRecords())
    take_by_block.cached.clear()
    others = {id(each): each for each in LIVE.values()}
    for grid in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 1, 3, 3):
        launch_by_block(grid)
        found = [each.nbytes for each in [*LIVE.values()] if id(each) not in others]
        kept = [nbytes for nbytes in found if nbytes in range(record, 6 * record, record)]
        assert sum(kept) <= 4 * record, grid
        assert grid < 5 or kept == [4 * record], "records that are not kept leave others"
    assert sorted(kept) == [record, 3 * record]


def test_numbers_that_are_equal_to_valid_ones_are_refused(emulated: FakeGpus) -> None:
    for wrap in (FakeArray, np.asarray):
        given = wrap(np.zeros_like(TABLE)), wrap(TABLE), wrap(ROWS)
        for _ in range(2):
            take[1](*given, target="a5", threads=1, dyn_ub=1 << 17)
        for name, value in (("threads", True), ("threads", 1.0), ("dyn_ub", float(1 << 17))):
            with pytest.raises(ValueError, match=f"{name} takes a number"):
                take[1](*given, **{"target": "a5", "threads": 1, "dyn_ub": 1 << 17, name: value})


@pytest.mark.parametrize("most", [0, stage.MOST_BY_VALUE])
def test_slots_that_are_too_many_are_copied(emulated: FakeGpus, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    @pto.kernel
    def rows_of(out: Any, table: Any, indices: Any) -> None:
        rows, lanes = pto.Tile("vec", table.dtype, 8, 8), pto.Tile("vec", "int32", 1, 8)
        pto.tload(lanes, indices)
        pto.mgather(rows, table, lanes)
        pto.tstore(out, rows)

    monkeypatch.setattr(stage, "MOST_BY_VALUE", most)
    copied, upload = list[int](), EmulatedDevice.upload
    monkeypatch.setattr(EmulatedDevice, "upload", lambda *given: copied.append(given[2].nbytes) or upload(*given))
    for launches in (1, 2, 3):
        out = np.zeros_like(TABLE)
        rows_of[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS))
        assert np.array_equal(out, TABLE[ROWS[0]]) and len(copied) == (0 if most else launches)
    with pytest.raises(pto.OutOfBoundsError):
        rows_of[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS + 8))
    rows_of[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS[:, ::-1].copy()))
    assert np.array_equal(out, TABLE[ROWS[0, ::-1]])


def test_watched_launches_are_copied_to_the_host(emulated: FakeGpus) -> None:
    memory = TABLE.copy()
    copies: Any = copied([FakeArray(memory[2:6]), FakeTensor(memory[4:, ::-1]), pto.GlobalTensor(FakeArray(ROWS)), 3])
    assert np.array_equal(copies[0], memory[2:6]) and np.array_equal(copies[1], memory[4:, ::-1])
    assert np.shares_memory(copies[0], copies[1]) and not np.shares_memory(copies[0], memory)
    assert type(copies[2].array) is np.ndarray and np.array_equal(copies[2].array, ROWS) and copies[3] == 3

    seen: list[Any] = []

    def look(launch: WatchedLaunch) -> None:
        seen.append((launch.report(), launch.content(), launch.checked()))

    out = np.zeros_like(TABLE)
    with LaunchWatcher(look).watching():
        for _ in range(2):
            take[1](FakeArray(out), FakeArray(TABLE), FakeArray(ROWS), target="a5")
            out[:] = 0
    assert seen[0][0].ok and seen[0][2].ok and seen[0][1] == seen[1][1]


def test_programs_read_from_text_run_there(emulated: FakeGpus, tmp_path: Path) -> None:
    (tmp_path / "k.pto").write_text(shared_bytes.text(0), encoding="utf-8")
    kernel, values, out = pto.load(tmp_path / "k.pto"), shared_bytes.source(), np.zeros((8, 16), "float32")
    for arrays in ((FakeArray(values), FakeArray(out)), (FakeTensor(values), FakeTensor(out))):
        out[:] = 0
        assert shared_bytes.run(kernel, "a5", "auto", *arrays) == []
        assert np.array_equal(out, values + 1)
    with pytest.raises(TypeError, match="different memories"):
        shared_bytes.run(kernel, "a5", "auto", FakeArray(values), out)


@pytest.mark.parametrize("wrap", [FakeArray, FakeTensor])
def test_new_lengths_are_neither_traced_nor_compiled(emulated: FakeGpus, wrap: Any) -> None:
    kernel = fresh(lookup)

    def launch(count: int, grid: int) -> None:
        given = lookup_case(count, rows=50, width=16)
        wanted, found = outcome(fresh(lookup), given, grid, engine="reference"), given["out"]
        run = kernel[grid](**{name: wrap(array) for name, array in given.items()})
        assert run.engine == "cuda" and found.tobytes() == wanted[2]["out"]

    for count in (40, 70, 33, 64, 65, 31):
        launch(count, 1)
    with counted() as counts:
        for count in (50, 90, 32, 97, 41, 128):
            launch(count, 1)
        launch(77, 2)
    assert counts["compilations"] == 0 and counts["traces"] == 7, "those of the reference engine"
