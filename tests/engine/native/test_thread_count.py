"""Launches that scatter: how many threads they run on, by the program and its sizes; the same bits on any number."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.native import host
from ptokit.engine.native.program import executable, launching, thread_count
from ptokit.engine.native.program.launching import Wave
from ptokit.engine.native.program.thread_count import LaunchWork, gain, nanoseconds, profitable_threads, work_of
from ptokit.engine.native.whole import strategies
from ptokit.program.expr import Var
from ptokit.program.ir import Instr, Program, walk

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
    choose = executable.NativeExecutable._threads

    def spy(self: Any, *args: Any) -> Any:
        chosen = choose(self, *args)
        found.append(chosen[0])
        return chosen

    monkeypatch.setattr(executable.NativeExecutable, "_threads", spy)
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
def test_much_work_beside_a_scatter_is_shared(counted: list[int], threads: int) -> None:
    tiles = 400
    src, idx, out = floats(tiles * ROWS, 64), lanes(tiles * ROWS, 500), floats(500, 64)
    for trips in (0, 8):
        scatter_logs[tiles](src, idx, out, trips, engine="native", threads=threads)
    scatter_logs[8](src, idx, out, 8, engine="native", threads=threads)
    assert counted == [1, threads, 1]  # and little of it is not


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_what_does_not_scatter_runs_on_all_threads(counted: list[int], threads: int) -> None:
    src, out = floats(400 * ROWS, 64), floats(400 * ROWS, 64)
    store_rows[400](src, out, engine="native", threads=threads)
    assert counted == [threads]
    assert (out == 2).all()


WORKS = st.builds(
    LaunchWork,
    besides=st.floats(0, 1e12),
    written=st.dictionaries(st.integers(0, 3), st.floats(0, 1e9), max_size=3),
    grid=st.integers(1, 1 << 20),
    certain=st.booleans(),
)


@given(WORKS, st.integers(1, 1024))
def test_no_more_threads_than_pay(work: LaunchWork, most: int) -> None:
    count = profitable_threads(work, most)
    assert 1 <= count <= most
    assert count == 1 or gain(work, count) > 0
    assert profitable_threads(replace(work, besides=0), most) == 1
    assert count * work.nbytes <= thread_count.MOST_WRITTEN or count == 1
    assert profitable_threads(replace(work, written={}, besides=1e15), most) == most


# --- What a launch does ----------------------------------------------------------------------------------------


def program_of(kernel: Any, *args: Any, **constants: Any) -> Program:
    arguments = kernel.bind(args, constants)
    return kernel.trace(arguments, pto.lang.launch.mode_of("cpu")).program


def scatters_of(program: Program) -> dict[int, int]:
    return {id(s): n for n, s in enumerate(walk(program.body)) if isinstance(s, Instr) and s.name == "mscatter"}


@pytest.mark.parametrize("grid", [1, 7, 24, 500])
@pytest.mark.parametrize("count", [1, 640, 5000])
def test_deferred_bytes_are_those_of_the_tiles(count: int, grid: int) -> None:
    program = program_of(scatter_rows, floats(count, 20), lanes(count, 9), floats(9, 20), atomic="add")
    work = work_of(program, {}, grid, scatters_of(program))
    tiles, each = ceil(count / ROWS), ROWS * 32 * 4 + ROWS * 4
    assert work.certain
    if grid <= thread_count.MOST_LOOKED_AT:  # every block was looked at
        assert work.nbytes * grid == pytest.approx(tiles * each)
        assert work.besides == pytest.approx(tiles * each * thread_count.MOVED)
    else:
        assert tiles * each / 4 <= work.nbytes * grid + each * grid / thread_count.MOST_LOOKED_AT


def test_loops_count_as_often_as_they_run() -> None:
    program = program_of(scatter_logs, floats(64, 16), lanes(64, 9), floats(9, 16), 5)
    once, more = (work_of(program, {Var("trips"): trips}, 2, scatters_of(program)) for trips in (1, 11))
    logs = 2 * ROWS * 16 * 4 * thread_count.SLOW["log"] * 2
    assert more.besides - once.besides == pytest.approx(10 * logs)
    assert more.written == once.written


@pto.kernel
def lengths_from_memory(src, idx, lengths, out):
    """The number of scatters is known at run time."""
    rows, ids = pto.Tile("vec", "float32", ROWS, 16), pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(ids, idx)
    pto.tload(rows, src)
    for _ in pto.range(pto.load_scalar(lengths, pto.block_idx())):
        pto.mscatter(out, rows, ids, coalesce="row", atomic="add")


def test_trip_counts_known_at_run_time_are_not_certain() -> None:
    given = floats(ROWS, 16), lanes(ROWS, 9), np.arange(4, dtype="int32"), floats(9, 16)
    program = program_of(lengths_from_memory, *given)
    work = work_of(program, {}, 4, scatters_of(program))
    assert not work.certain
    assert work.nbytes > 0


@pto.kernel
def product(x, y, out):
    """`out = x @ y`."""
    a, b = pto.Tile("mat", "float16", 32, 48), pto.Tile("mat", "float16", 48, 64)
    left, right = pto.Tile("left", "float16", 32, 48), pto.Tile("right", "float16", 48, 64)
    sums = pto.Tile("acc", "float32", 32, 64)
    pto.tload(a, x)
    pto.tload(b, y)
    pto.textract(left, a, 0, 0)
    pto.textract(right, b, 0, 0)
    pto.tmatmul(sums, left, right)
    pto.tstore(out, sums)


def test_matrices_cost_their_products() -> None:
    program = program_of(product, np.ones((32, 48), "float16"), np.ones((48, 64), "float16"), floats(32, 64))
    (matmul,) = (s for s in walk(program.body) if isinstance(s, Instr) and s.name == "tmatmul")
    assert nanoseconds(program, matmul) == pytest.approx(32 * 48 * 64 * thread_count.MULTIPLIED)


# --- Waves -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 5000), st.integers(1, 17), st.one_of(st.none(), st.floats(0, 1e9)), st.integers(1, 1 << 26))
def test_waves_take_every_block_once_in_order(grid: int, threads: int, guess: float | None, really: int) -> None:
    wave, taken, waves = Wave(grid, threads, guess), [], 0
    while wave.parts:
        assert len(wave.parts) == threads
        blocks = [block for part in wave.parts for block in part]
        if waves or guess is None:
            assert len(blocks) <= max(threads, 2 * len(taken) + threads, launching.LEDGER // really)
        taken += blocks
        waves += 1
        wave.go_on(really * len(blocks))
    assert taken == list(range(grid))
    if guess is not None and grid * guess <= launching.LEDGER:
        assert waves <= 1


# --- The same bits ---------------------------------------------------------------------------------------------

SPREADS = {
    "uniform": lambda dice, count, below: dice.integers(0, below, count),
    "few": lambda dice, count, below: dice.choice(dice.integers(0, below, 3), count, p=(0.8, 0.1, 0.1)),
    "sorted": lambda dice, count, below: np.sort(dice.integers(0, below, count)),
    "one": lambda dice, count, below: np.full(count, below - 1),
}
WAYS = {
    "uniform": {"destinations", "winners"},
    "few": {"direct"},
    "sorted": {"destinations"},
    "one": {"direct"},
}
"""Strategies of scatters of each spread, among others, if all blocks of a launch make one wave."""


@pytest.mark.parametrize("ledger", [1, 20_000, 32 << 20])
@pytest.mark.parametrize("spread", SPREADS)
def test_the_same_bits_on_any_number_of_threads(spread: str, ledger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: set[str] = set()
    scatter = strategies.scatter_all

    def spy(*args: Any) -> str:
        ways.add(scatter(*args))
        return ""

    monkeypatch.setattr(host, "HOST", replace(host.HOST, near=1 << 20))
    monkeypatch.setattr(executable, "SMALL", 0)
    monkeypatch.setattr(executable, "profitable_threads", lambda work, most: most)
    monkeypatch.setattr(launching, "LEDGER", ledger)
    monkeypatch.setattr("ptokit.engine.native.program.ledger.scatter_all", spy)
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
    assert ways >= WAYS[spread] or ledger < 32 << 20


def test_elements_have_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 0)
    monkeypatch.setattr(executable, "profitable_threads", lambda work, most: most)
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
    monkeypatch.setattr(executable, "profitable_threads", lambda work, most: most)
    monkeypatch.setattr(launching, "LEDGER", 50_000)
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
