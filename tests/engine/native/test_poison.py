"""Tiles that may be read before they are written hold poison on both engines, whatever the memory held before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.llvm.program import fallback
from ptokit.engine.llvm.program.tiles import needs_poison, trace
from ptokit.engine.native.program import executable
from ptokit.lang.launch import mode_of
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Var
from ptokit.program.ir import Loop, walk
from tests.engine.native.launches import Array, same

BLOCKS = 4


@pytest.fixture(autouse=True)
def _used_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arenas that other programs have used."""
    fresh = fallback._aligned

    def used(nbytes: int) -> Array:
        found = fresh(nbytes)
        found[:] = 0x55
        return found

    monkeypatch.setattr(fallback, "_aligned", used)
    monkeypatch.setattr(executable, "SMALL", 0)


@pto.kernel
def copied(x, idx, out, n):
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x[0:8])
    pto.tstore(out[8 * block : 8 * block + 8], rows)


@pto.kernel
def cut(x, idx, out, n):
    """A valid region that depends on a number, and no other element is read."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8, valid=(n, 8))
    pto.tload(rows, x[0:n])
    pto.tstore(out[8 * block : 8 * block + n], rows)


@pto.kernel
def added(x, idx, out, n):
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    total = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x[0:8])
    pto.tadd(total, rows, rows)
    pto.tstore(out[8 * block : 8 * block + 8], total)


@pto.kernel
def accumulated(x, idx, out, n):
    """The destination is read before anything is written."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "int32", 8, 8)
    total = pto.Tile("vec", "int32", 8, 8)
    pto.tload(rows, idx[0:8])
    pto.tadd(total, total, rows)
    pto.tstore(out[8 * block : 8 * block + 8], total)


@pto.kernel
def scattered(x, idx, out, n):
    """A scatter writes the elements that its index names, other ones in every block."""
    block = pto.block_idx()
    rows, ids = pto.Tile("vec", "float32", 8, 8), pto.Tile("vec", "int32", 8, 8)
    into = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x[0:8])
    pto.tload(ids, idx[8 * block : 8 * block + 8])
    pto.tscatter(into, rows, ids, index="flat")
    pto.tstore(out[8 * block : 8 * block + 8], into)


@pto.kernel
def picked(x, idx, out, n):
    """A gather reads elements of the padding, which the load has not written."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 16, 8, valid=(8, 8))
    ids = pto.Tile("vec", "int32", 8, 8)
    found = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x[0:8])
    pto.tload(ids, idx[8 * block : 8 * block + 8])
    pto.tadds(ids, ids, 40)
    pto.tgather(found, rows, ids)
    pto.tstore(out[8 * block : 8 * block + 8], found)


@pto.kernel
def gathered(x, idx, out, n):
    """A gather from memory writes all of its destination."""
    block = pto.block_idx()
    ids = pto.Tile("vec", "int32", 8, 8)
    found = pto.Tile("vec", "float32", 8, 8)
    pto.tload(ids, idx[8 * block : 8 * block + 8])
    pto.mgather(found, x, ids, coalesce="elem", oob="zero")
    pto.tstore(out[8 * block : 8 * block + 8], found)


@pto.kernel
def unread_index(x, idx, out, n):
    """The index itself is never written."""
    block = pto.block_idx()
    ids = pto.Tile("vec", "int32", 8, 8)
    found = pto.Tile("vec", "float32", 8, 8)
    pto.mgather(found, x, ids, coalesce="elem", oob="zero")
    pto.tstore(out[8 * block : 8 * block + 8], found)


@pto.kernel
def turned(x, idx, out, n):
    """More rows are read than were written."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    other = pto.Tile("vec", "float32", 8, 8)
    rows.valid = (4, 8)
    pto.tload(rows, x[0:4])
    rows.valid = (8, 4)
    other.valid = (4, 8)
    pto.ttrans(other, rows)
    pto.tstore(out[8 * block : 8 * block + 4], other)


@pto.kernel
def summed(x, idx, out, n):
    """A sum writes a column only."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    sums = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x[0:8])
    pto.trowsum(sums, rows)
    pto.tstore(out[8 * block : 8 * block + 8], sums)


@pto.kernel
def sliced(x, idx, out, n):
    """Half of a tile is written, through a slice, and all of it is read."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows[0:4], x[0:4])
    pto.tstore(out[8 * block : 8 * block + 8], rows)


@pto.kernel
def in_a_loop(x, idx, out, n):
    """The first use is in a loop that may run not at all."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8)
    for _ in pto.range(block):
        pto.tload(rows, x[0:8])
    pto.tstore(out[8 * block : 8 * block + 8], rows)


@pto.kernel
def padded(x, idx, out, n):
    """A load with a pad value writes the padding too."""
    block = pto.block_idx()
    rows = pto.Tile("vec", "float32", 8, 8, valid=(3, 5), pad="max")
    pto.tload(rows, x[0:3, 0:5])
    rows.valid = (8, 8)
    pto.tstore(out[8 * block : 8 * block + 8], rows)


POISONED = {
    copied: set(), cut: set(), added: set(), gathered: set(),
    accumulated: {"total"}, scattered: {"into"}, picked: {"rows"}, unread_index: {"ids"}, turned: {"rows"},
    summed: {"sums"}, sliced: {"rows"}, in_a_loop: {"rows"}, padded: {"rows"},
}  # fmt: skip
"""The tiles that need poison. For `padded` and `turned` it is enough that several regions are used."""


def arguments(kernel: Any) -> dict[str, Any]:
    numbers = np.random.default_rng(5)
    idx = np.concatenate([numbers.permutation(64) // (block + 1) for block in range(BLOCKS)])
    kind = "int32" if kernel is accumulated else "float32"
    x = numbers.standard_normal((8, 8)).astype("float32")
    return {"x": x, "idx": idx.astype("int32").reshape(-1, 8), "out": np.zeros((8 * BLOCKS, 8), kind), "n": 5}


@pytest.mark.parametrize("kernel", POISONED, ids=lambda kernel: kernel.name)
def test_what_was_never_written_reads_as_poison(kernel: Any) -> None:
    expected = same(kernel, BLOCKS, lambda: arguments(kernel), target="cpu")
    assert not expected.ending


@pytest.mark.parametrize("kernel", POISONED, ids=lambda kernel: kernel.name)
def test_only_tiles_that_may_be_read_too_early_are_poisoned(kernel: Any) -> None:
    mode, given = mode_of("cpu"), arguments(kernel)
    program = kernel.trace(kernel.bind((), given), mode).program
    loops = {stmt.var: 0 for stmt in walk(program.body) if isinstance(stmt, Loop)}
    values = {BLOCK_IDX: 1, BLOCK_NUM: BLOCKS, Var("n"): 5, **loops}
    variants = lambda instr: [trace(program, instr, mode.profile, mode.options, values, {})]  # noqa: E731
    found = {tile.name for tile in program.tiles.values() if needs_poison(program, tile, variants)}
    assert found == POISONED[kernel]
