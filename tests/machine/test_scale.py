"""Large launches: memory that follows what is touched."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import ptokit as pto

COLS = 256
Array = np.ndarray[Any, Any]


@pto.kernel
def scattered(table, ids, x, out):
    """Scatters eight rows into a table and reads another one."""
    idx, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, COLS)
    one = pto.Tile("vec", "float32", 1, COLS)
    pto.tload(idx, ids)
    pto.tload(rows, x)
    pto.mscatter(table, rows, idx, coalesce="row")
    pto.tload(one, table[100:101])
    pto.tstore(out, one)


def peak(rows: int, seed: int | None) -> int:
    """Bytes that a launch on a table of so many rows takes beside its arrays."""
    table, x = np.zeros((rows, COLS), "float32"), np.ones((8, COLS), "float32")
    ids = np.linspace(0, rows - 1, 8).astype("int32")
    options = pto.MachineOptions(seed=seed)
    tracemalloc.start()
    report = scattered[1](table, ids, x, x[:1].copy(), target="a5", engine="machine", options=options)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.ok and np.array_equal(np.flatnonzero(table[:, 0]), ids)
    return most


@pytest.mark.parametrize("seed", [None, 1])
def test_memory_follows_what_is_touched(seed: int | None) -> None:
    """A table of a gigabyte, of which nine rows are touched, costs a few pages more than a small one."""
    peak(1_000, seed)
    assert peak(1 << 20, seed) - peak(1_000, seed) < 4 << 20


@pto.kernel
def refused_last(x, table, idx, out, index: pto.const = "int16"):
    """Stores and scatters; the last instruction cannot be executed."""
    tile, at = pto.Tile("vec", "float32", 8, COLS), pto.Tile("vec", "int32", 1, 8)
    bad = pto.Tile("vec", index, 1, 16)
    first = pto.block_idx() * 8
    pto.tload(tile, x[first : first + 8])
    pto.tload(at, idx)
    pto.tstore(out[first : first + 8], tile)
    pto.mscatter(table, tile, at, coalesce="row", atomic="add")
    if index == "int16":
        pto.texpands(bad, 0)
        pto.mgather(pto.Tile("vec", "float32", 16, COLS), x, bad)


@pytest.mark.parametrize("seed", [None, 2])
@pytest.mark.parametrize("shift", [0, 3])
def test_a_launch_that_skips_an_instruction_leaves_all_arrays_as_they_were(seed: int | None, shift: int) -> None:
    """Also arrays that share memory, and more than one page of each."""
    memory = np.arange(300 * COLS, dtype="float32").reshape(300, COLS)
    before, idx = memory.copy(), np.array([0, 50, 99, 1, 2, 3, 4, 5], "int32")
    arrays = memory[:64], memory[64 : 64 + 100], idx, memory[100 - shift : 164 - shift]
    options = pto.MachineOptions(seed=seed)
    report = refused_last[8](*arrays, target="a5", engine="machine", options=options)
    assert not report.written and np.array_equal(memory, before)
    assert refused_last[8](*arrays, index="int32", target="a5", engine="machine", options=options).written
    assert not np.array_equal(memory, before)


# --- Samples of a grid


@pto.kernel
def numbered(out, hits: pto.const = None):
    """Each block stores one row."""
    block = pto.block_idx()
    tile = pto.Tile("vec", "float32", 1, 8)
    pto.texpands(tile, 1)
    pto.tstore(out[block : block + 1], tile)
    if hits is not None:
        pto.tload(tile, out[hits : hits + 1])


def run_blocks(grid: int, blocks: Any, **more: Any) -> tuple[Any, list[int]]:
    """The report, and the blocks that have stored their rows."""
    out = np.zeros((grid, 8), "float32")
    options = pto.MachineOptions(blocks=blocks, **more)
    report = numbered[grid](out, target="a5", engine="machine", options=options)
    return report, np.flatnonzero(out[:, 0]).tolist()


@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (None, list(range(9))),
        ("first", [0]),
        ("last, first", [0, 8]),
        ("3,last,3", [3, 8]),
        ((7, 2, 7), [2, 7]),
        (np.array([5, 1]), [1, 5]),
        ("random:100", list(range(9))),
        ("first,random:0", [0]),
    ],
)
def test_only_the_blocks_of_a_sample_run(blocks: Any, expected: list[int], seed: int | None) -> None:
    report, ran = run_blocks(9, blocks, seed=seed)
    assert ran == expected
    count = len(expected)
    assert str(report).startswith("a5, 9 blocks: " if count == 9 else f"a5, {count} of 9 blocks: ")
    assert report.as_dict()["blocks"] == report.timeline.blocks == count and report.as_dict()["grid"] == 9
    assert sum(each.executions for each in report.traffic) == count


def test_random_blocks_are_drawn_from_the_whole_grid_without_the_others() -> None:
    drawn = [run_blocks(50, "first,last,random:4", seed=seed)[1] for seed in range(12)]
    assert all({0, 49} < set(ran) and len(ran) == 6 for ran in drawn)
    assert len({block for ran in drawn for block in ran}) > 25
    assert run_blocks(50, "first,last,random:4")[1] == run_blocks(50, "first,last,random:4")[1]


def test_blocks_of_a_sample_are_compared_with_each_other() -> None:
    def found(blocks: Any) -> list[str]:
        out, options = np.zeros((9, 8), "float32"), pto.MachineOptions(blocks=blocks)
        return [f.rule for f in numbered[9](out, hits=2, target="a5", engine="machine", options=options).hazards]

    assert set(found((0, 2))) == set(found(None)) == {"CO-SEM-02"}
    assert found((0, 1)) == []


REFUSED = ("", "middle", "random", "random:-1", "1.5", "1,,2", (), (1.5,), (-1,), (True,), ("a",))


@pytest.mark.parametrize("blocks", REFUSED)
def test_other_samples_are_refused(blocks: Any) -> None:
    with pytest.raises(ValueError, match=r"blocks takes block numbers, 'first', 'last', 'all' and 'random:N'"):
        pto.MachineOptions(blocks=blocks)


def test_a_block_outside_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="block 9, but the grid has 9"):
        run_blocks(9, (0, 9))
