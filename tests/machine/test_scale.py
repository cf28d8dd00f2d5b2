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
