"""New code after a failed guard, compiled once; cached launches; tiles at addresses as machine code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.native.program.executable import NativeExecutable
from tests.engine.native.sparse import zeros


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[NativeExecutable]]:
    """Every compilation of a program."""
    made: list[NativeExecutable] = []
    make_ready = NativeExecutable._make_ready

    def noted(self: NativeExecutable, *launch: Any) -> None:
        before = self.code
        make_ready(self, *launch)
        if self.code is not before:
            made.append(self)

    monkeypatch.setattr(NativeExecutable, "_make_ready", noted)
    return made


@pto.kernel
def shifted(table, ids, out, n):
    """Rows by index, the first `n` of them."""
    idx = pto.Tile("vec", "int32", 1, 32, valid=(1, n))
    rows = pto.Tile("vec", "float32", 32, 16, valid=(n, 16))
    pto.tload(idx, ids[0:n])
    pto.mgather(rows, table, idx, oob="clamp")
    pto.tstore(out[0:n], rows)


@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")
def test_what_is_only_odd_is_not_compiled_again(compiled: list[NativeExecutable]) -> None:
    table, ids, out = np.ones((9, 16), "f4"), np.full(32, -1, "i4"), np.zeros((32, 16), "f4")
    for _ in range(2):
        for n in range(10, 24):  # rules for blocks of 32 bytes distinguish a few of these
            shifted[1](table, ids, out, n, engine="native")
        assert len(compiled) <= 3


@pytest.fixture
def by_flag() -> Any:
    """A kernel that no test has launched."""

    @pto.kernel
    def by_flag(flags, x, out):
        """One of two branches, by a number in memory."""
        flag = pto.load_scalar(flags, 0)
        tile = pto.Tile("vec", "float32", 4, 16)
        pto.tload(tile, x)
        with pto.when(flag > 0):
            pto.tadds(tile, tile, 1)
        with pto.otherwise():
            pto.tmuls(tile, tile, 3)
        pto.tstore(out, tile)

    return by_flag


def test_a_launch_that_is_found_again_learns_too(compiled: list[NativeExecutable], by_flag: Any) -> None:
    flags, x, out = np.ones(1, "i4"), np.full((4, 16), 2, "f4"), np.zeros((4, 16), "f4")
    for flag, wanted in ((1, 3), (1, 3), (0, 6), (0, 6), (1, 3), (0, 6)):
        flags[0] = flag
        by_flag[1](flags, x, out, engine="native")
        assert (out == wanted).all()
    assert len(compiled) == 2


def test_an_array_that_lies_badly_is_refused_every_time(by_flag: Any) -> None:
    flags, x, out = np.ones(1, "i4"), np.ones((4, 16), "f4"), np.zeros((4, 16), "f4")
    by_flag[1](flags, x, out, engine="native")
    badly = np.zeros(4 * 64 + 1, "u1")[1:].view("f4").reshape(4, 16)
    with pytest.raises(ValueError, match="not aligned"):
        by_flag[1](flags, x, badly, engine="native")


@pto.kernel(mode="manual")
def at_addresses(x, out):
    """Tiles of the author's own placing, one of them moved on the way."""
    a = pto.Tile("vec", "float32", 8, 16, addr=0)
    b = pto.Tile("vec", "float32", 8, 16, addr=1024)
    pto.tload(a, x)
    pto.set_flag("MTE2", "V", 0)
    pto.wait_flag("MTE2", "V", 0)
    pto.tadds(b, a, 1)
    pto.tassign(b, 2048)
    pto.tmuls(b, a, 5)
    pto.tassign(b, 1024)
    pto.set_flag("V", "MTE3", 0)
    pto.wait_flag("V", "MTE3", 0)
    pto.tstore(out, b)


def test_tiles_at_addresses_run_as_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.arange(128, dtype="f4").reshape(8, 16), np.zeros((8, 16), "f4")
    at_addresses[1](x, out, target="a5", engine="native")
    assert (out == x + 1).all()
    monkeypatch.setattr("ptokit.engine.native.program.executable.Thread.run", None)  # nothing goes to Python
    out[:] = 0
    at_addresses[1](x, out, target="a5", engine="native")
    assert (out == x + 1).all()


@pto.kernel
def many_iterations(x, out, trips: pto.const):
    """A small tile, again and again."""
    for i in pto.range(trips):
        tile = pto.Tile("vec", "float32", 1, 16)
        pto.tload(tile, x[pto.block_idx() : pto.block_idx() + 1])
        pto.tadds(tile, tile, 1)
        with pto.when(i == trips - 1):
            pto.tstore(out[pto.block_idx() : pto.block_idx() + 1], tile)


def test_turns_count_as_work() -> None:
    x, out = np.ones((4, 16), "f4"), np.zeros((4, 16), "f4")
    used: list[int] = []
    from ptokit.engine.native import workers

    run = workers.run
    try:
        workers.run = lambda work, threads, stop: (used.append(threads), run(work, threads, stop))[1]
        many_iterations[4](x, out, 2, threads=2, engine="native")
        many_iterations[4](x, out, 5000, threads=2, engine="native")
    finally:
        workers.run = run
    assert used == [2] and (out == 2).all()


def test_lanes_that_are_skipped_stay_out_of_the_last_bucket() -> None:
    room = zeros(2**32, "i1")
    table, beyond = room[: 2**32 - 100], room[2**32 - 100 :]
    indices = np.random.default_rng(0).integers(0, table.size, 60_000)
    indices[7] = -5
    pto.scatter(table, np.int8(1), indices, oob="skip", atomic="add", engine="native", threads=2)
    assert not beyond.any() and table[indices[indices >= 0][::1000]].all()


@pto.kernel
def tiles_of(x, out, rows: pto.const = 32):
    """Tiles of rows, two columns of them one after the other; blocks may have none, the last tile is not full."""
    count, block, blocks = x.shape[0], pto.block_idx(), pto.block_num()
    tiles = pto.cdiv(count, rows)
    for tile in pto.range(tiles * block // blocks, tiles * (block + 1) // blocks):
        n = pto.min(rows, count - tile * rows)
        for side in pto.range(2):
            part = pto.Tile("vec", "float32", rows, 16, valid=(n, 16))
            pto.tload(part, x[tile * rows : tile * rows + n, side * 16 : side * 16 + 16])
            pto.tadds(part, part, 1)
            pto.tstore(out[tile * rows : tile * rows + n, side * 16 : side * 16 + 16], part)


@pytest.mark.parametrize("grid", [1, 5, 7, 16])
def test_the_first_launch_meets_the_numbers_of_all_blocks(compiled: list[NativeExecutable], grid: int) -> None:
    kernel = pto.kernel(tiles_of.function)  # with a program of its own
    x = np.arange((300 + 7 * grid) * 32, dtype="f4").reshape(-1, 32)
    for _ in range(2):
        out = np.zeros_like(x)
        kernel[grid](x, out, engine="native")
        assert (out == x + 1).all()
    (made,) = compiled
    assert all(len(made._variants(number)) == 1 for number in made._samples)  # full tiles or not: the same code
