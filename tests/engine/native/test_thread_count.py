"""Launches that scatter: how many threads they run on; the same bits on any number."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.native.program import executable

ROWS = 32
ATOMICS = ("none", "add", "max")


@pto.kernel
def scatter_rows(src, idx, out, atomic: pto.const):
    """`out[idx[i]] op= src[i]`: a run of tiles for each block."""
    count, width = src.shape
    tiles = pto.cdiv(count, ROWS)
    block, blocks = pto.block_idx(), pto.block_num()
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        first = tile * ROWS
        n = pto.min(ROWS, count - first)
        rows = pto.Tile("vec", src.dtype, ROWS, pto.cdiv(width, 16) * 16, valid=(n, width))
        ids = pto.Tile("vec", idx.dtype, 1, ROWS, valid=(1, n))
        pto.tload(ids, idx[first : first + n])
        pto.tload(rows, src[first : first + n])
        pto.mscatter(out, rows, ids, coalesce="row", atomic=atomic)


@pto.kernel
def scatter_elements(src, idx, out, atomic: pto.const):
    """The same by elements: a row of indices for each row of values."""
    first = pto.block_idx() * ROWS
    rows = pto.Tile("vec", src.dtype, ROWS, src.shape[1])
    ids = pto.Tile("vec", idx.dtype, ROWS, src.shape[1])
    pto.tload(rows, src[first : first + ROWS])
    pto.tload(ids, idx[first : first + ROWS])
    pto.mscatter(out, rows, ids, coalesce="elem", atomic=atomic)


@pto.kernel
def scatter_logs(src, idx, out, trips):
    """`out[idx[i]] += log(log(...))`: much work besides the scatter."""
    first = pto.block_idx() * ROWS
    rows = pto.Tile("vec", src.dtype, ROWS, src.shape[1])
    ids = pto.Tile("vec", idx.dtype, 1, ROWS)
    pto.tload(ids, idx[first : first + ROWS])
    pto.tload(rows, src[first : first + ROWS])
    for _ in pto.range(trips):
        pto.tlog(rows, rows)
    pto.mscatter(out, rows, ids, coalesce="row", atomic="add")


@pto.kernel
def store_rows(src, out):
    """Every block has its own rows."""
    first = pto.block_idx() * ROWS
    rows = pto.Tile("vec", src.dtype, ROWS, src.shape[1])
    pto.tload(rows, src[first : first + ROWS])
    pto.tadds(rows, rows, 1)
    pto.tstore(out[first : first + ROWS], rows)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each native launch runs on."""
    found: list[int] = []
    run = executable.ProgramCode.run

    def counting(self: Any, team: Any, *rest: Any) -> Any:
        found.append(len(team))
        return run(self, team, *rest)

    monkeypatch.setattr(executable.ProgramCode, "run", counting)
    monkeypatch.setattr(executable, "SMALL", 0)
    return found


def floats(*shape: int) -> Any:
    return np.ones(shape, "float32")


def lanes(count: int, below: int) -> Any:
    return np.random.default_rng(1).integers(0, below, count).astype("int32")


# --- The decision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 16, None], ids=str)
@pytest.mark.parametrize(("count", "width"), [(100, 8), (5000, 32), (20_000, 256), (100_000, 64)])
def test_kernels_that_only_load_and_scatter_rows_run_on_one_thread(
    counted: list[int], count: int, width: int, threads: int | None
) -> None:
    src, idx, out = floats(count, width), lanes(count, 500), floats(500, width)
    for atomic in ATOMICS:
        for grid in (24, ceil(count / ROWS)):
            scatter_rows[grid](src, idx, out, atomic=atomic, engine="native", threads=threads)
    assert counted == [1] * 6


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize("tiles", [4, 600])
def test_kernels_that_only_load_and_scatter_elements_run_on_one_thread(
    counted: list[int], tiles: int, threads: int
) -> None:
    src, out = floats(tiles * ROWS, 64), floats(1, 40_000)
    idx = lanes(src.size, out.size).reshape(src.shape)
    for atomic in ATOMICS:
        scatter_elements[tiles](src, idx, out, atomic=atomic, engine="native", threads=threads)
    assert counted == [1] * 3


@pytest.mark.parametrize("threads", [2, 5])
def test_much_work_beside_a_scatter_does_not_change_that(counted: list[int], threads: int) -> None:
    src, idx, out = floats(40 * ROWS, 64), lanes(40 * ROWS, 500), floats(500, 64)
    scatter_logs[40](src, idx, out, 2, engine="native", threads=threads)
    assert counted == [1]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_does_not_scatter_runs_on_all_threads(counted: list[int], threads: int) -> None:
    src, out = floats(400 * ROWS, 64), floats(400 * ROWS, 64)
    store_rows[400](src, out, engine="native", threads=threads)
    assert counted == [threads]
    assert (out == 2).all()


@pto.kernel
def lengths_from_memory(src, idx, lengths, out):
    """The number of scatters is known at run time."""
    rows, ids = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(ids, idx)
    pto.tload(rows, src)
    for _ in pto.range(pto.load_scalar(lengths, pto.block_idx())):
        pto.mscatter(out, rows, ids, coalesce="row", atomic="add")


# --- The same bits ---------------------------------------------------------------------------------------------

SPREADS = {
    "uniform": lambda dice, count, below: dice.integers(0, below, count),
    "few": lambda dice, count, below: dice.choice(dice.integers(0, below, 3), count, p=(0.8, 0.1, 0.1)),
    "sorted": lambda dice, count, below: np.sort(dice.integers(0, below, count)),
    "one": lambda dice, count, below: np.full(count, below - 1),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_the_same_bits_on_any_number_of_threads(spread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 0)
    dice = np.random.default_rng(7)
    for width, below in ((24, 40), (1500, 11), (64, 5000)):
        src = dice.standard_normal((700, width)).astype("float32")
        idx = SPREADS[spread](dice, len(src), below).astype("int32")
        table = dice.standard_normal((below, width)).astype("float32")
        for atomic in ATOMICS:
            expected = table.copy()
            op = {"none": None, "add": np.add, "max": np.maximum}[atomic]
            if op is None:
                for row, values in zip(idx, src, strict=True):
                    expected[row] = values
            else:
                op.at(expected, idx, src)
            for threads, grid in ((1, 22), (2, 22), (5, 22), (5, 7)):
                out = table.copy()
                scatter_rows[grid](src, idx, out, atomic=atomic, engine="native", threads=threads)
                assert out.tobytes() == expected.tobytes(), (spread, width, atomic, threads, grid)


def test_elements_have_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 0)
    dice = np.random.default_rng(8)
    src = dice.standard_normal((10 * ROWS, 64)).astype("float32")
    for below in (50, 1 << 20):
        idx = dice.integers(0, below, src.shape).astype("int32")
        for atomic, op in (("add", np.add), ("max", np.maximum)):
            expected = np.zeros((1, below), "float32")
            op.at(expected[0], idx.ravel(), src.ravel())
            for threads in (1, 2, 5):
                out = np.zeros((1, below), "float32")
                scatter_elements[10](src, idx, out, atomic=atomic, engine="native", threads=threads)
                assert out.tobytes() == expected.tobytes(), (below, atomic, threads)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_loops_of_run_time_length_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 0)
    dice = np.random.default_rng(9)
    src, idx = dice.standard_normal((ROWS, 16)).astype("float32"), lanes(ROWS, 9)
    lengths = dice.integers(0, 200, 40).astype("int32")
    expected = np.zeros((9, 16), "float32")
    for _ in range(lengths.sum()):
        np.add.at(expected, idx, src)
    for threads in (1, 2, 5):
        out = np.zeros((9, 16), "float32")
        lengths_from_memory[40](src, idx, lengths, out, engine="native", threads=threads)
        assert out.tobytes() == expected.tobytes()
