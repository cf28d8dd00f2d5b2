"""The edges of memory: arrays that are too small, tiles at the last address, views that share bytes, copied bytes."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.llvm.emit import PTR, IrModule, IrValue
from ptokit.engine.llvm.move import CodeWriter
from ptokit.engine.llvm.program import fallback
from ptokit.engine.llvm.program.independent import BlockAccess, _are_boxes_apart, are_independent
from ptokit.engine.native import jit
from ptokit.engine.native.program import executable
from ptokit.engine.storage import ADDRESS_SPACE, Storage
from ptokit.lang.launch import mode_of
from ptokit.program import bounds
from ptokit.program.expr import Var
from ptokit.program.ir import Argument, Program
from tests.engine.native.launches import same, same_program


@pytest.fixture(autouse=True)
def _on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable, "SMALL", 0)


# --- Arrays ----------------------------------------------------------------------------------------------------


@pto.kernel
def rows_of(x, out):
    block = pto.block_idx()
    row = pto.Tile("vec", "float32", 2, 8)
    pto.tload(row, x[2 * block : 2 * block + 2])
    pto.tstore(out[2 * block : 2 * block + 2], row)


@pto.kernel
def all_of(x, out):
    rows = pto.Tile("vec", "float32", 8, 8)
    pto.tload(rows, x)
    pto.tstore(out, rows)


def program_of(kernel: Any, **offsets: int) -> Program:
    given = [np.zeros((8, 8), "float32") for _ in range(2)]
    program = kernel.trace(kernel.bind(tuple(given), {}), mode_of("cpu")).program
    arguments = [replace(each, offset=offsets.get(each.name, 0)) for each in program.arguments
                 if isinstance(each, Argument)]  # fmt: skip
    return replace(program, arguments=tuple(arguments))


@pytest.mark.parametrize("small", ["x", "out"])
@pytest.mark.parametrize("offset", [0, 1, 8])
@pytest.mark.parametrize(("kernel", "grid"), [(rows_of, 4), (all_of, 1)], ids=["rows", "all"])
@pytest.mark.parametrize("missing", [0, 1, 8, 64])
def test_arrays_that_are_smaller_than_the_program_says(
    kernel: Any, grid: int, missing: int, offset: int, small: str
) -> None:
    """An array needs every element up to the last one of its argument."""

    def make() -> dict[str, Storage]:
        sizes = {"x": 64, "out": 64, small: 64 + offset - missing}
        numbers = {name: np.arange(size, dtype="float32") for name, size in sizes.items()}
        return {name: Storage(each.view("uint32"), pto.dtype("float32")) for name, each in numbers.items()}

    found = same_program(program_of(kernel, **{small: offset}), "cpu", grid, make, {})
    if missing:
        assert found.ending[0] is pto.OutOfBoundsError and f"{small} are used, but its array has" in found.ending[1]
    else:
        assert not found.ending


@pto.kernel
def each_its_own(x, out, step):
    block = pto.block_idx()
    row = pto.Tile("vec", "float32", 2, 8)
    pto.tload(row, x[2 * block : 2 * block + 2])
    pto.tstore(out[step * block : step * block + 2], row)


@pto.kernel
def two_rows(x, out, step):
    """A block writes a row, and the one after it by a store of its own."""
    first = pto.block_idx() * step
    row = pto.Tile("vec", "float32", 1, 8)
    pto.tload(row, x[pto.block_idx() : pto.block_idx() + 1])
    pto.tstore(out[first : first + 1], row)
    pto.tstore(out[first + 1 : first + 2], row)


@pto.kernel
def nothing_named(x, out, step):
    row = pto.Tile("vec", "float32", 2, 8)
    with pto.when(pto.block_idx() >= step):
        pto.tload(row, x[0:2])
        pto.tstore(out[0:2], row)


@pytest.mark.parametrize(
    ("kernel", "step", "grid", "expected"),
    [(each_its_own, 2, 4, True), (each_its_own, 1, 4, False), (each_its_own, 0, 4, False), (each_its_own, 0, 1, True),
     (each_its_own, 3, 4, True), (two_rows, 1, 4, False), (two_rows, 2, 4, True),
     (nothing_named, 4, 4, True), (nothing_named, 3, 4, True), (nothing_named, 2, 4, False)],
)  # fmt: skip
def test_blocks_that_write_apart_are_independent(kernel: Any, step: int, grid: int, expected: bool) -> None:
    given = {"x": np.zeros((8, 8), "float32"), "out": np.zeros((16, 8), "float32"), "step": step}
    program = kernel.trace(kernel.bind((), given), mode_of("cpu")).program
    assert are_independent(program, grid, {Var("step"): step}) == expected
    same(kernel, grid, lambda: {**given, "out": np.zeros((16, 8), "float32")}, target="cpu")


@pto.kernel
def in_chunks(x, lengths, out, chunk: pto.const, exact: pto.const):
    """Items are chunks of the rows of one sequence; its last row is written by the chunk that it is in."""
    row = pto.Tile("vec", "float32", 1, 8)
    pto.tload(row, x[0:1])
    per, block = 8 // chunk, pto.block_idx()
    for item in pto.range(2 * per * block // pto.block_num(), 2 * per * (block + 1) // pto.block_num()):
        sequence, part = item // per, item % per
        last = pto.load_scalar(lengths, sequence)
        is_here = (last // chunk == part) if exact else (last // chunk >= part)
        with pto.when((last > 0) & is_here):
            rows = pto.Tile("vec", "float32", chunk, 8, valid=(pto.min(chunk, last), 8))
            pto.tload(rows, x[0 : pto.min(chunk, last)])
            pto.tstore(out[sequence : sequence + 1, part * chunk : part * chunk + pto.min(chunk, last)], rows)
            pto.tstore(out[sequence : sequence + 1, last : last + 1], row)


@pytest.mark.parametrize(("exact", "expected"), [(True, True), (False, False)])
@pytest.mark.parametrize("grid", [1, 3, 4])
def test_conditions_say_where_a_block_writes(grid: int, exact: bool, expected: bool) -> None:
    """Where a number from memory says where to write, what must hold of it may say so before the run."""
    given = {"x": np.ones((8, 8), "f4"), "lengths": np.array([5, 7], "i4"), "out": np.zeros((2, 8, 8), "f4")}
    program = in_chunks.trace(in_chunks.bind((), {**given, "chunk": 2, "exact": exact}), mode_of("cpu")).program
    assert are_independent(program, grid, {}) is (expected or grid == 1)
    same(in_chunks, grid, lambda: {**given, "out": np.zeros((2, 8, 8), "f4"), "chunk": 2, "exact": exact}, target="cpu")


@pto.kernel
def in_pieces(x, out, distance: pto.const, back: pto.const, most: pto.const):
    """Blocks write four rows each, some distance apart and none beyond `most`, and read some rows back in `out`."""
    block = pto.block_idx()
    for piece in pto.range(2):
        first = distance * block + 2 * piece
        row = pto.Tile("vec", "float32", 2, 8, valid=(pto.min(2, most - first), 8))
        pto.tload(row, x[first : first + pto.min(2, most - first)])
        pto.tload(row, out[first - back : first - back + pto.min(2, most - first)])
        pto.tstore(out[first : first + pto.min(2, most - first)], row)


@pytest.mark.parametrize("grid", [4, 1 << 20])
@pytest.mark.parametrize(
    ("distance", "back", "expected"),
    [(4, 0, True), (5, 0, True), (5, 1, True), (3, 0, False), (4, 1, False), (4, -1, False), (0, 0, False)],
)
def test_blocks_at_a_constant_distance_are_independent(distance: int, back: int, expected: bool, grid: int) -> None:
    given = {"x": np.zeros((8, 8), "f4"), "out": np.zeros((8, 8), "f4"), "distance": distance, "back": back}
    arguments = in_pieces.bind((), {**given, "most": distance * grid + 4})
    assert are_independent(in_pieces.trace(arguments, mode_of("cpu")).program, grid, {}) == expected


@pytest.mark.parametrize("kernel", [each_its_own, two_rows, nothing_named])
def test_what_is_independent_for_many_blocks_is_so_for_few(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"x": np.zeros((8, 8), "f4"), "out": np.zeros((16, 8), "f4"), "step": 2}
    program = kernel.trace(kernel.bind((), given), mode_of("cpu")).program
    tried = are_independent(program, 4, {Var("step"): 2})
    monkeypatch.setattr(bounds, "MOST_TRIED", 1)
    assert tried or not are_independent(program, 4, {Var("step"): 2})


# --- Addresses -------------------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def at_address(x, out, address):
    row = pto.Tile("vec", "float32", 2, 8)
    pto.tassign(row, address)
    pto.tload(row, x[0:2])
    pto.barrier("ALL")
    pto.tstore(out[0:2], row)


@pytest.mark.parametrize("beyond", [-64, -32, 0, 32, 64, 96, 1 << 30])
def test_tiles_at_the_end_of_their_memory(beyond: int) -> None:
    """A tile of 64 bytes fits up to 64 bytes before the end."""
    place = ADDRESS_SPACE - 64 + beyond
    found = same(at_address, 1, lambda: {"x": np.ones((2, 8), "f4"), "out": np.zeros((2, 8), "f4"), "address": place})
    assert bool(found.ending) == (beyond > 0)
    assert not beyond > 0 or "lies beyond every memory" in found.ending[1]


@pto.kernel
def rows_by_steps(x, out, start, stop):
    for i in pto.range(start, stop, -3):
        row = pto.Tile("vec", "float32", 1, 8)
        pto.tload(row, x[i : i + 1])
        pto.tstore(out[i : i + 1], row)


@pytest.mark.parametrize(("start", "stop"), [(7, 0), (7, 1), (6, -1), (2, 2), (2, 5), (0, -1), (-1, -1)])
def test_a_loop_that_counts_down(start: int, stop: int) -> None:
    given = {"x": np.ones((8, 8), "f4"), "out": np.zeros((8, 8), "f4"), "start": start, "stop": stop}
    found = same(rows_by_steps, 1, lambda: {k: v if isinstance(v, int) else v.copy() for k, v in given.items()})
    iterations = list(range(start, stop, -3))
    assert not found.ending
    rows = np.frombuffer(found.memories["out"], "f4").reshape(8, 8)[:, 0]
    assert np.flatnonzero(rows).tolist() == sorted(iterations)


@pto.kernel
def rows_by_large_numbers(x, out, n):
    for i in pto.range(n * 2**62 // 2**62):
        row = pto.Tile("vec", "float32", 1, 8)
        pto.tload(row, x[i : i + 1])
        pto.tstore(out[i : i + 1], row)


@pytest.mark.parametrize("n", [-5, 0, 1, 5, 8])
def test_numbers_beyond_64_bits_on_the_way_to_a_small_one(n: int) -> None:
    """A statement whose numbers do not fit is executed by the interpreter, which writes its number back."""
    found = same(rows_by_large_numbers, 1, lambda: {"x": np.ones((8, 8), "f4"), "out": np.zeros((8, 8), "f4"), "n": n})
    assert not found.ending
    assert np.frombuffer(found.memories["out"], "f4").sum() == 8 * max(0, n)


@pytest.mark.parametrize("nbytes", [1, 63, 64, 4096, 100_000])
def test_memory_of_a_thread_is_aligned_and_whole(nbytes: int) -> None:
    memory = fallback._aligned(nbytes)
    assert memory.size == nbytes and memory.ctypes.data % fallback.ALIGNMENT == 0


# --- Views that share memory -----------------------------------------------------------------------------------


@pto.kernel
def through_scratch(data, idx, at):
    tile = pto.Tile("mat", "float32", 16, 32, blayout="col_major", slayout="row_major")
    pto.mgather(tile, data[0:16], idx, scratch=data[at : at + 16])


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_scratch_that_shares_bytes_with_the_table(target: str) -> None:
    """Lanes take effect one after the other, however far into the table the scratch begins."""

    def make(at: int) -> dict[str, Any]:
        data = np.arange(40 * 32, dtype="float32").reshape(40, 32)
        idx = np.random.default_rng(4).integers(0, 512, (16, 32)).astype("int32")
        idx[:, 0] = np.arange(16) * 32  # the first rows of the scratch are read again
        return {"data": data, "idx": idx, "at": at}

    for at in (0, 1, 8, 15, 16, 20):
        assert not same(through_scratch, 1, partial(make, at), target=target).ending


@pto.kernel
def cells_through_scratch(table, idx, scratch):
    tile = pto.Tile("mat", "int32", 16, 32, blayout="col_major", slayout="row_major")
    pto.mgather(tile, table, idx, scratch=scratch)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_scratch_that_shares_bytes_with_the_index(target: str) -> None:
    """The scratch is zeroed, then each lane reads its index and takes effect, wherever the scratch begins."""
    before = np.random.default_rng(5).integers(0, 512, 1200).astype("int32")
    table = np.random.default_rng(6).integers(0, 512, (16, 32)).astype("int32")

    def make(apart: int) -> dict[str, Any]:
        shared = before.copy()
        blocks = (shared[first : first + 512].reshape(16, 32) for first in (0, apart))
        return dict(zip(("table", "idx", "scratch"), (table, *blocks), strict=True))

    for apart in (0, 1, 100, 127, 128, 129, 300, 510, 511, 512, 600):
        found = same(cells_through_scratch, 1, partial(make, apart), target=target)
        assert not found.ending
        shared = before.copy()
        shared[apart : apart + 512] = 0  # MG-L1-12
        for i, j in np.ndindex(16, 32):
            shared[apart + j // 8 * 128 + 8 * i + j % 8] = table.flat[shared[32 * i + j]]
        assert found.memories["idx"] == shared[:512].tobytes()
        assert found.memories["scratch"] == shared[apart : apart + 512].tobytes()


# --- Copies ----------------------------------------------------------------------------------------------------

LENGTHS = [*range(70), 127, 128, 129, 255, 256, 257, 511, 512, 513, 768, 1024, 4097]


def streamed(writer: CodeWriter, dst: IrValue, src: IrValue, nbytes: int) -> None:
    writer.stream([(dst, src)], writer.code.i64(nbytes))


@pytest.mark.parametrize("copy", [CodeWriter.copy, streamed])
def test_a_copy_moves_just_its_bytes(copy: Any) -> None:
    module = IrModule()
    for length in LENGTHS:
        code = module.function(f"f{length}", "void", [(PTR, "dst"), (PTR, "src")])
        copy(CodeWriter(code, code.i64), *code.arguments, length)
        code.ret()
    text = module.text
    library = jit.library(text, lambda: jit.IrSource(text))
    for length in LENGTHS:
        src = np.random.default_rng(length).integers(0, 256, length + 600).astype("uint8")
        room = np.full(length + 616, 7, "uint8")
        dst = room[-room.ctypes.data % 16 :]
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address(f"f{length}"))
        function(dst.ctypes.data, src.ctypes.data)
        assert (dst[:length] == src[:length]).all() and (dst[length:] == 7).all(), length


def test_boxes_are_apart_if_no_two_of_them_meet() -> None:
    """Against every pair of boxes of two blocks: never so where two meet, and exactly so in one dim."""
    random, seen = np.random.default_rng(0), set[bool]()
    for _ in range(600):
        dims, count = random.integers(1, 4), random.integers(1, 7)
        lows = random.integers(0, 12, (count, dims))
        highs = lows + random.integers(1, 8, (count, dims))
        for blocks in (np.arange(count), random.integers(0, 3, count)):
            pairs = [(a, b) for a in range(count) for b in range(a) if blocks[a] != blocks[b]]
            meet = any(bool(((lows[a] < highs[b]) & (lows[b] < highs[a])).all()) for a, b in pairs)
            cut = random.integers(0, count + 1)
            found = _are_boxes_apart(
                [BlockAccess(blocks[k], lows[k], highs[k]) for k in (slice(cut), slice(cut, None))]
            )
            assert not (found and meet)
            if dims == 1:
                assert found == (not meet)
            seen.add(found)
    assert seen == {True, False}


def test_boxes_whose_numbers_are_too_large_to_tell_apart_may_meet() -> None:
    """Those of blocks 4 and 5 do, in both dims; the ranges of the groups of dim 0 do not fit 64 bits in dim 1."""
    far = 1 << 60
    starts = [0, 20, 40, 60, 80, 80]
    lows = np.array([(start, 0) for start in starts])
    highs = np.array([(start + 10, 1) for start in starts])
    lows[4, 1], highs[4, 1], highs[5, 1] = -far, far, 5
    assert not _are_boxes_apart([BlockAccess(np.arange(6), lows, highs)])
