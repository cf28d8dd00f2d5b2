"""Adversarial launches on the native engine: shared cells, shared memory, hostile numbers, Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.native.program import executable
from tests.engine.native.launches import Array, same
from tests.loops import all_pairs

GRIDS = (1, 3, 16)


@pytest.fixture(autouse=True)
def _on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launch is too small for workers."""
    monkeypatch.setattr(executable, "SMALL", 0)


def rng(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 1) -> Array:
    """Numbers whose sums depend on the order in floats, and wrap around in small integers."""
    values = rng(seed).standard_normal(shape) * 100
    return values.astype(dtype)


# --- Scatters that meet ----------------------------------------------------------------------------------------


@pto.kernel
def scatter_rows(out, src, idx, atomic: pto.const, oob: pto.const):
    count, width = src.shape
    tiles = pto.cdiv(count, 16)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * 16
        n = pto.min(16, count - first)
        rows = pto.Tile("vec", src.dtype, 16, 32, valid=(n, width))
        ids = pto.Tile("vec", idx.dtype, 1, 16, valid=(1, n))
        pto.tload(rows, src[first : first + n])
        pto.tload(ids, idx[first : first + n])
        pto.mscatter(out, rows, ids, coalesce="row", atomic=atomic, oob=oob)


@pto.kernel
def scatter_cells(out, src, idx, atomic: pto.const, oob: pto.const):
    count = src.shape[0]
    tiles = pto.cdiv(count, 64)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * 64
        n = pto.min(64, count - first)
        cells = pto.Tile("vec", src.dtype, 1, 64, valid=(1, n))
        ids = pto.Tile("vec", idx.dtype, 1, 64, valid=(1, n))
        pto.tload(cells, src[first : first + n])
        pto.tload(ids, idx[first : first + n])
        pto.mscatter(out, cells, ids, coalesce="elem", atomic=atomic, oob=oob)


TYPES = ("float32", "float16", ml_dtypes.bfloat16, "int8", "int32")


def indices(count: int, capacity: int, oob: str, seed: int) -> Array:
    """Many that meet; some that lead outside, where a policy sees to them."""
    found = rng(seed).integers(0, capacity, count).astype("int32")
    found[rng(seed).random(count) < 0.3] = capacity // 2
    if oob != "undefined":
        bad = rng(seed + 1).random(count) < 0.2
        found[bad] = rng(seed).choice(np.array([-1, capacity, 2**31 - 1, -(2**31)], "int32"), bad.sum())
    return found


POLICIES = ("undefined", "skip", "clamp", "wrap")


@pytest.mark.parametrize(
    ("dtype", "atomic", "oob"), all_pairs(TYPES, ("none", "add", "max", "min"), POLICIES, one_in=3), ids=str
)
def test_cells_that_many_blocks_write(dtype: Any, atomic: str, oob: str) -> None:
    def rows() -> dict[str, Any]:
        table, src = numbers((13, 20), dtype), numbers((333, 20), dtype, 2)
        return {"out": table, "src": src, "idx": indices(333, 13, oob, 5)}

    def cells() -> dict[str, Any]:
        return {"out": numbers((40,), dtype), "src": numbers((1500,), dtype, 2), "idx": indices(1500, 40, oob, 6)}

    for kernel, make in ((scatter_rows, rows), (scatter_cells, cells)):
        expected = same(kernel, 16, lambda: {**make(), "atomic": atomic, "oob": oob}, target="host")  # noqa: B023
        assert not expected.ending
        assert expected.memories["out"] != make()["out"].tobytes()


@pytest.mark.parametrize("kernel", [scatter_rows, scatter_cells], ids=lambda kernel: kernel.name)
def test_the_lowest_failing_block_is_named(kernel: Any) -> None:
    step, shape = (16, (20,)) if kernel is scatter_rows else (64, ())

    def make() -> dict[str, Any]:
        idx = indices(64 * step, 13, "undefined", 5)
        idx[[50 * step + 3, 40 * step, 13 * step + 7]] = 13, -1, 99
        return {"out": numbers((13, *shape), "f4"), "src": numbers((64 * step, *shape), "f4"), "idx": idx}

    expected = same(kernel, 64, lambda: {**make(), "atomic": "add", "oob": "undefined"}, target="host")
    assert expected.ending[0] is pto.OutOfBoundsError
    assert "in block 13" in expected.ending[1] and "99" in expected.ending[1]


# --- Blocks that meet ------------------------------------------------------------------------------------------


@pto.kernel
def chain(out):
    """Every block adds to what the one before has left."""
    block = pto.block_idx()
    row = pto.Tile("vec", out.dtype, 1, 8)
    pto.tload(row, out[block : block + 1])
    pto.tadds(row, row, 1)
    pto.tstore(out[block + 1 : block + 2], row)


@pto.kernel
def totals(x, out):
    block = pto.block_idx()
    row = pto.Tile("vec", out.dtype, 1, 8)
    pto.tload(row, x[block : block + 1])
    pto.tstore(out[0:1], row, atomic="add")


@pto.kernel
def move_rows(x, out, shift):
    block = pto.block_idx()
    rows = pto.Tile("vec", x.dtype, 4, 8)
    pto.tload(rows, x[block : block + 4])
    pto.tstore(out[block + shift : block + shift + 4], rows)


@pto.kernel
def gather_within(x, idx):
    ids = pto.Tile("vec", "int32", 1, 8)
    rows = pto.Tile("vec", x.dtype, 8, 8)
    pto.tload(ids, idx[0:8])
    pto.mgather(rows, x, ids)
    pto.tstore(x[0:8], rows)


def table(rows: int = 40) -> Array:
    return np.arange(rows * 8, dtype="float32").reshape(rows, 8)


@pytest.mark.parametrize("grid", GRIDS)
def test_blocks_see_what_earlier_ones_wrote(grid: int) -> None:
    same(chain, grid, lambda: {"out": np.zeros((grid + 1, 8), "f4")})
    same(totals, grid, lambda: {"x": numbers((grid, 8), "f4"), "out": np.zeros((1, 8), "f4")})


@pytest.mark.parametrize("shift", [0, 1, 4, 7])
@pytest.mark.parametrize("grid", GRIDS)
def test_arguments_that_share_memory(grid: int, shift: int) -> None:
    def twice() -> dict[str, Any]:
        x = table()
        return {"x": x, "out": x, "shift": shift}

    def overlapping() -> dict[str, Any]:
        x = table()
        return {"x": x[:30], "out": x[3:], "shift": shift}

    for make in (twice, overlapping):
        same(move_rows, grid, make)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_tile_passes_on_rows_of_one_array(grid: int) -> None:
    same(gather_within, grid, lambda: {"x": table(), "idx": np.array([7, 6, 5, 4, 3, 2, 1, 0], "int32")})


def test_read_only_arrays_are_refused_however_often_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 1 << 20)
    fixed = table()
    fixed.flags.writeable = False
    for _ in range(3):
        move_rows[2](fixed, table(), 0, engine="native")
        with pytest.raises(ValueError, match="out is read-only"):
            move_rows[2](table(), fixed, 0, engine="native")
    assert fixed.tobytes() == table().tobytes()


def test_the_same_small_launch_with_other_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that are recalled find arrays that share memory, as others do."""
    monkeypatch.setattr(executable, "SMALL", 1 << 20)
    for shared in (False, False, True, False, True):
        for shift in (0, 1):
            found = []
            for engine in ("native", "reference"):
                x = table()
                out = x if shared else table() * 3
                move_rows[3](x, out, shift, engine=engine)
                found.append((x.tobytes(), out.tobytes()))
            assert found[0] == found[1]


# --- Numbers ---------------------------------------------------------------------------------------------------


@pto.kernel
def row_at(x, at, out):
    block = pto.block_idx()
    start = pto.load_scalar(at, block)
    row = pto.Tile("vec", x.dtype, 1, 8)
    pto.tload(row, x[start : start + 1])
    pto.tstore(out[block : block + 1], row)


@pto.kernel
def rows_until(x, at, out):
    block = pto.block_idx()
    n = pto.load_scalar(at, block)
    rows = pto.Tile("vec", x.dtype, 4, 8, valid=(n, 8))
    pto.tload(rows, x[0:n])
    pto.tstore(out[0:n], rows, atomic="add")


@pto.kernel
def loop_until(x, at, out):
    block = pto.block_idx()
    row = pto.Tile("vec", x.dtype, 1, 8)
    stop = pto.load_scalar(at, block)
    for k in pto.range(0, stop, 3):
        pto.tload(row, x[k : k + 1])
        pto.tstore(out[k : k + 1], row)


ODD = (-1, 40, 41, 2**31 - 1, -(2**31), 2**40 + 3, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kernel", [row_at, rows_until, loop_until], ids=lambda kernel: kernel.name)
def test_hostile_numbers_in_memory(kernel: Any, odd: int) -> None:
    def make(place: int) -> dict[str, Any]:
        at = np.array([2, 4, 1, 3, 0, 4, 2, 1], "int64")
        at[place] = odd
        return {"x": table(), "at": at, "out": np.zeros((40, 8), "f4")}

    for place in (0, 5):
        same(kernel, 8, lambda: make(place))  # noqa: B023
    same(kernel, 8, lambda: {**make(0), "at": np.array([2, 4, 1, 3, 0, 4, 2, 1], "int64")})


@pto.kernel
def row_of(x, out, n):
    block = pto.block_idx()
    row = pto.Tile("vec", x.dtype, 1, 8)
    at = (n + block) % 40
    pto.tload(row, x[at : at + 1])
    with pto.when(n * n * n > n):
        pto.tstore(out[block : block + 1], row)


@pytest.mark.parametrize("n", [0, 1, 2**31, 2**40 - 1, 2**40, 2**40 + 1, 2**62, 2**63 - 1, 2**63, 2**70, -(2**70)])
def test_whole_numbers_of_any_size(n: int) -> None:
    assert not same(row_of, 5, lambda: {"x": table(), "out": np.zeros((8, 8), "f4"), "n": n}).ending


@pto.kernel
def far_loop(x, out, n):
    row = pto.Tile("vec", x.dtype, 1, 8)
    for k in pto.range(n * n, n * n + 3):
        pto.tload(row, x[k % 40 : k % 40 + 1])
        pto.tstore(out[k % 8 : k % 8 + 1], row)


@pytest.mark.parametrize("n", [5, 2**31, 2**32, 2**40, -(2**40)])
def test_loops_over_numbers_beyond_64_bits(n: int) -> None:
    same(far_loop, 2, lambda: {"x": table(), "out": np.zeros((8, 8), "f4"), "n": n})


# --- Poison and addresses --------------------------------------------------------------------------------------


@pto.kernel
def written_at_times(x, out):
    block = pto.block_idx()
    rows = pto.Tile("vec", x.dtype, 4, 8)
    with pto.when(block % 2):
        pto.tload(rows, x[0:4])
    pto.tstore(out[4 * block : 4 * block + 4], rows)


@pto.kernel
def written_in_part(x, out):
    block = pto.block_idx()
    rows = pto.Tile("vec", x.dtype, 4, 8)
    rows.valid = (2, 5)
    pto.tload(rows, x[0:4])
    rows.valid = (4, 8)
    pto.tstore(out[4 * block : 4 * block + 4], rows)


@pto.kernel
def new_in_every_iteration(x, out):
    block = pto.block_idx()
    for i in pto.range(3):
        rows = pto.Tile("vec", x.dtype, 4, 8)
        with pto.when(i == 0):
            pto.tload(rows, x[0:4])
        pto.tstore(out[4 * (3 * block + i) : 4 * (3 * block + i) + 4], rows)


@pto.kernel(mode="manual")
def one_after_the_other(x, out):
    """Tiles alternate at the same addresses, and leftover contents are visible."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 4, 8, addr=0)
    pto.tload(rows, x[0:4])
    pto.tstore(out[16 * block : 16 * block + 4], rows)
    pto.barrier("ALL")
    for i in pto.range(3):
        moving = pto.Tile("vec", "float32", 4, 8)
        pto.tassign(moving, 32 * i)
        pto.tstore(out[4 * (4 * block + i + 1) : 4 * (4 * block + i + 1) + 4], moving)
        pto.barrier("ALL")


@pytest.mark.parametrize("kernel", [written_at_times, written_in_part, new_in_every_iteration, one_after_the_other],
                         ids=lambda kernel: kernel.name)  # fmt: skip
def test_uninitialised_memory_reads_the_same(kernel: Any) -> None:
    expected = same(kernel, 4, lambda: {"x": table(), "out": np.zeros((256, 8), "f4")}, target="cpu")
    assert not expected.ending


# --- Other threads and signals ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")
def test_indices_that_change_under_a_launch() -> None:
    """Every index is read once: while another thread writes, each lane stores a whole row somewhere inside."""
    idx, going = np.zeros(333, "int32"), threading.Event()
    going.set()

    def disturb() -> None:
        dice = rng()
        while going.is_set():
            idx[:] = dice.integers(-(2**31), 2**31, 333)
            idx[:] = dice.integers(0, 13, 333)

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for oob in ("undefined", "clamp", "wrap", "skip"):
            for _ in range(10):
                guarded = np.full((15, 20), 7, "float32")
                try:
                    scatter_rows[16](guarded[1:14], numbers((333, 20), "f4"), idx, atomic="none", oob=oob,
                                     target="host", engine="native", threads=2)  # fmt: skip
                except pto.OutOfBoundsError:
                    assert oob == "undefined"
                assert (guarded[0] == 7).all() and (guarded[14] == 7).all()
    finally:
        going.clear()
        other.join()


LONG = """
import os, signal, sys, threading, time
import numpy as np
import ptokit as pto
from ptokit.engine.native.program import executable

executable.SMALL = int(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may not hear it

@pto.kernel
def forever(x, out, n):
    row = pto.Tile("vec", "float32", 1, 8)
    for k in pto.range(n):
        pto.tload(row, x[k % 8 : k % 8 + 1])
        pto.tadds(row, row, 1)
        pto.tstore(out[k % 8 : k % 8 + 1], row)

x, out = np.ones((8, 8), "float32"), np.zeros((8, 8), "float32")

def interrupt():
    while not out.any():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    forever[1](x, out, 2**39, engine="native", threads=2)
except KeyboardInterrupt:
    out[:] = 0
    forever[1](x, out, 8, engine="native", threads=2)
    print("usable" if (out == 2).all() else out)
"""


@pytest.mark.parametrize("small", [0, 1 << 40], ids=["workers", "own thread"])
def test_ctrl_c_ends_a_launch(small: int, tmp_path: Any) -> None:
    script = tmp_path / "long.py"
    script.write_text(LONG)
    done = subprocess.run([sys.executable, script, str(small)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()) == (0, "usable"), done.stderr
