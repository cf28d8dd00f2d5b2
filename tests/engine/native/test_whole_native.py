"""Whole-array moves in machine code: the reference engine's bits, with every strategy and number of threads."""

from __future__ import annotations

import gc
import resource
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptokit as pto

pytest.importorskip("llvmlite")

from ptokit.engine import whole as reference
from ptokit.engine.faults import IndexFault
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.native import host, openmp
from ptokit.engine.native.whole import block, strategies
from ptokit.engine.native.whole import moves as native
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import Whole, layout_of
from ptokit.isa.dtype import BASE, FLOAT8, HIFLOAT8, HOST_ONLY, DType, dtype
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side
from ptokit.ops.array_call import GATHER
from ptokit.ops.execute import Leading, move_gather
from tests.engine.native.forced import STRATEGIES as WAYS
from tests.engine.native.forced import is_open, scatter_of, waiting_threads
from tests.loops import FULL, all_pairs

Array = np.ndarray[Any, np.dtype[Any]]

OTHERS = (HIFLOAT8, *map(dtype, (np.complex64, np.complex128, np.clongdouble, np.longdouble)))
TYPES = (*BASE, *FLOAT8, *HOST_ONLY)
MOVED = (*TYPES, *OTHERS)
ARITHMETIC = (Combine.ADD, Combine.MAX, Combine.MIN, Combine.MUL)
THREADS = (1, 2, 5)
INDICES = ("int32", "uint32", "int64")


MARGIN = 1 << 12
"""Bytes before and behind the written array that must not change."""
SHARED, ALONE = -1, 1 << 60
"""How long work may last that stays on the calling thread: none of it, all of it."""


@pytest.fixture(autouse=True)
def _shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, no work is too short to be shared, and no threads wait for it."""
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED))
    monkeypatch.setattr(openmp, "entries", lambda _: None)


def values(kind: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small numbers mixed with special bits: NaNs with payloads, infinities, both zeros, the ends."""
    rng = np.random.default_rng(seed)
    raw = np.frombuffer(rng.bytes(int(np.prod(shape)) * kind.size), kind.bits).reshape(shape).copy()
    if kind.name == "bool":
        return raw & 1
    if kind.is_number:
        plain = rng.integers(0, 9, shape).astype(kind.numpy).view(kind.bits)
        return np.where(rng.random(shape) < 0.7, plain, raw) if kind.size <= 8 else plain
    return raw


def storage(array: Array, kind: DType) -> Storage:
    """The memory of an array from its first element to its last."""
    span = 1 + sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides, strict=True))
    room = np.lib.stride_tricks.as_strided(array, (span if array.size else 0,), (array.itemsize,))
    return Storage(room, kind)


def elements(array: Array) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


class Case:
    """A move on arrays of two dims, and the results of both engines."""

    def __init__(
        self, kind: DType, table: Array, other: Array, indices: Array, remap: Remap = Remap.REFUSE, *,
        side: Side = Side.DST, combine: Combine = Combine.STORE, accumulate: DType | None = None,
        fresh: bool = False,
    ) -> None:  # fmt: skip
        self.kind, self.arrays = kind, {"table": table, "indices": indices}
        self.name = "src" if side is Side.DST else "out"
        self.arrays[self.name] = other
        access = {name: Access(name, layout_of(array.shape, elements(array), 1)) for name, array in self.arrays.items()}
        types = {name: dtype(array.dtype) if name == "indices" else kind for name, array in self.arrays.items()}
        self.types = types
        index = Index(access["indices"], side, IndexUnit.ROW, table.shape[0], remap, cast=indices.itemsize != 8)
        ends = (access["table"], access["src"]) if side is Side.DST else (access["out"], access["table"])
        move = Move((indices.shape[0], table.shape[1]), *ends, index, combine)
        self.whole = Whole(move, tuple(types.items()), accumulate, fresh=fresh)
        self.written = "table" if side is Side.DST else "out"

    def run(self, engine: Any, threads: int = 1, **options: Any) -> Array:
        """What the written array's memory holds afterwards, gaps included, and nothing around it has changed.

        A move that is refused writes nothing.
        """
        memories = {name: storage(array, self.types[name]) for name, array in self.arrays.items()}
        before = memories[self.written].bits
        room = np.full(before.nbytes + 2 * MARGIN, 0xA5, np.uint8)
        kept = room[MARGIN : MARGIN + before.nbytes].view(before.dtype)
        kept[:] = before
        memories[self.written] = Storage(kept, self.kind)
        try:
            if options:
                native.run(self.whole, memories, threads, **options)
            else:
                with np.errstate(all="ignore"):
                    engine.run(self.whole, memories, threads)
        except IndexFault:
            assert self.whole.fresh or kept.tobytes() == before.tobytes()
            raise
        finally:
            assert (room[:MARGIN] == 0xA5).all() and (room[MARGIN + before.nbytes :] == 0xA5).all()
        return kept

    def check(self, threads: tuple[int, ...] = THREADS, ways: tuple[str, ...] = ()) -> None:
        wanted = self.run(reference).tobytes()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "HOST", replace(host.HOST, wake=ALONE))
            assert self.run(native).tobytes() == wanted
        for count in threads:
            assert self.run(native, count).tobytes() == wanted, count
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(openmp, "entries", waiting_threads)
                assert self.run(native, count).tobytes() == wanted, count
            for way in ways:
                if self.is_open(way):
                    assert self.run(native, count, strategy=way).tobytes() == wanted, (count, way)

    def is_open(self, way: str) -> bool:
        """Whether a way can be forced."""
        assert self.whole.sizes is not None
        return is_open(way, scatter_of(self.whole), self.whole.sizes, self.arrays["indices"])


def named(count: int, capacity: int, kind: str = "int64", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, max(1, capacity), count).astype(kind)


# --- element types, combines, policies


@pytest.mark.parametrize("kind", MOVED, ids=str)
@pytest.mark.parametrize("width", [1, 3, 40])
def test_gathers_and_stores_move_the_bits_of_every_type(kind: DType, width: int) -> None:
    table, other = values(kind, (300, width)), values(kind, (2500, width), 1)
    indices = named(2500, 300)
    Case(kind, table, other, indices, side=Side.SRC).check()
    Case(kind, table, other, indices).check()


COMPUTED = [each for each in TYPES if computes(each)]


@pytest.mark.parametrize(("kind", "combine", "width"), all_pairs(COMPUTED, ARITHMETIC, (1, 37, 64), one_in=3), ids=str)
def test_arithmetic_is_that_of_the_reference(kind: DType, combine: Combine, width: int) -> None:
    case = Case(kind, values(kind, (90, width)), values(kind, (700, width), 1), named(700, 90), combine=combine)
    turn = COMPUTED.index(kind) + ARITHMETIC.index(combine)
    case.check((1, 2), WAYS if FULL else WAYS[turn % 2 :: 2])


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("combine", [Combine.MAX, Combine.MIN])
def test_floats_that_differ_in_the_last_bits_are_compared(name: str, combine: Combine) -> None:
    kind, rng, indices = dtype(name), np.random.default_rng(4), named(700, 90)
    table = rng.standard_normal((90, 1)).astype(kind.numpy).view(kind.bits)
    other = table[indices] + rng.integers(-4, 5, (700, 1)).astype(kind.bits)
    Case(kind, table, other, indices, combine=combine).check((2,), ("direct",))


HOSTILE = {
    "int32": [0, 1, -1, 6, 7, 8, 2**31 - 1, -(2**31), -7],
    "uint32": [0, 1, 6, 7, 8, 2**31, 2**32 - 1, 2**32 - 2],
    "int64": [0, 1, -1, 6, 7, 8, 2**63 - 1, -(2**63), 2**32, 2**32 - 1, -(2**32), -7, 2**62],
}


POLICIES = (Remap.CLAMP, Remap.WRAP, Remap.ZERO, Remap.SKIP)


@pytest.mark.parametrize(("kind", "remap", "count"), all_pairs(INDICES, POLICIES, (1, 9, 2100, 5000), one_in=3))
def test_policies_take_any_index(kind: str, remap: Remap, count: int) -> None:
    indices = np.resize(np.array(HOSTILE[kind], kind), count)
    f4 = dtype("float32")
    for width in (1, 5) if FULL else ((1, 5)[(POLICIES.index(remap) + count) % 2],):
        table, other = values(f4, (7, width)), values(f4, (count, width), 1)
        Case(f4, table, other, indices, remap, side=Side.SRC).check()
        for combine in (Combine.STORE, Combine.ADD):
            Case(f4, table, other, indices, remap, combine=combine).check((1, 2, 5), WAYS)


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("count", [3, 2100, 70000])
def test_a_bad_index_is_refused_and_nothing_is_written(
    kind: str, side: Side, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    f4, bad = dtype("float32"), np.array(HOSTILE[kind], kind)
    bad = bad[(bad.astype(object) < 0) | (bad.astype(object) >= 7)]
    for width in (1, 4):
        for where in ([count - 1], [0, count // 2], [count // 3, count - 1]):
            indices = named(count, 7, kind)
            indices[where] = bad[: len(where)]
            case = Case(f4, values(f4, (7, width)), values(f4, (count, width), 1), indices, side=side)
            memories = {name: storage(array, case.types[name]) for name, array in case.arrays.items()}
            before = memories[case.written].bits.tobytes()
            with pytest.raises(IndexFault) as wanted:
                case.run(reference)
            for threads in (0, *THREADS):
                monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=SHARED if threads else ALONE))
                with pytest.raises(IndexFault) as found:
                    native.run(case.whole, memories, threads or 1)
                assert found.value.report == wanted.value.report
                assert found.value.report.lane == (where[0],) and found.value.report.count == len(where)
                assert memories[case.written].bits.tobytes() == before


# --- patterns and ways


def patterns(count: int, capacity: int) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    spread = rng.integers(0, capacity, count)
    return {
        "uniform": spread,
        "sorted": np.sort(spread),
        "one": np.full(count, capacity // 3),
        "thirds": spread % 3 * (capacity // 3),
        "lower half": spread // 2,
        "few": rng.zipf(1.2, count) % capacity,
        "unique": rng.permutation(max(count, capacity))[:count] % capacity,
    }


@pytest.mark.parametrize("pattern", patterns(1, 1))
@pytest.mark.parametrize(("capacity", "width"), [(40000, 1), (3000, 32), (600, 33)])
@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD])
def test_every_way_gives_the_same_bits(pattern: str, capacity: int, width: int, combine: Combine) -> None:
    count, half = 9000, dtype("float16")
    indices = patterns(count, capacity)[pattern]
    case = Case(half, values(half, (capacity, width)), values(half, (count, width), 1), indices, combine=combine)
    case.check(THREADS, WAYS)


@pytest.mark.parametrize(("kind", "combine", "width"), all_pairs(COMPUTED, Combine, (1, 3), one_in=2), ids=str)
def test_many_lanes_for_one_cell(kind: DType, combine: Combine, width: int) -> None:
    indices = np.repeat(named(3, 50), 2500)
    case = Case(kind, values(kind, (50, width)), values(kind, (7500, width), 1), indices, combine=combine)
    case.check((2,), ("direct",))


@pytest.mark.parametrize("step", [2, 0])
@pytest.mark.parametrize("name", ["int32", "float32"])
@pytest.mark.parametrize("combine", ARITHMETIC)
def test_many_elements_that_are_not_side_by_side_for_one_cell(step: int, name: str, combine: Combine) -> None:
    """Elements are combined in any order, many at a time only where they lie side by side and are not summed floats."""
    kind, indices = dtype(name), np.repeat(named(3, 50), 2500)
    room = values(kind, (15_000, 1), 1)
    source = np.lib.stride_tricks.as_strided(room, (7500, 1), (step * kind.size, kind.size))
    Case(kind, values(kind, (50, 1)), source, indices, combine=combine).check((2,), ("direct",))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_large_tables_in_buckets(size: int) -> None:
    kind = dtype(f"uint{8 * size}")
    capacity = (5 << 20) // size + 3
    table, other = values(kind, (capacity, 1)), values(kind, (200_000, 1), 1)
    case = Case(kind, table, other, named(200_000, capacity), combine=Combine.ADD)
    case.check((2, 3), ("buckets", "destinations"))


def test_rows_far_apart_are_fetched_ahead_without_harm() -> None:
    f4 = dtype("float32")
    for width in (8, 16, 32, 100, 256, 1024):
        table = values(f4, ((3 << 20) // (4 * width), width))
        count = 3000
        for side in Side:
            Case(f4, table, values(f4, (count, width), 1), named(count, len(table)), side=side).check((1, 2))


def test_lanes_beyond_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    half, count = dtype("float16"), 20_000
    table, other = values(half, (5000, 1)), values(half, (count, 1), 1)
    hostile = np.resize(np.concatenate([named(500, 5000), np.array(HOSTILE["int64"])]), count)
    monkeypatch.setattr(native, "CHUNK", 3000)
    for most in (native.MOST_COPIED, 1000):
        monkeypatch.setattr(native, "MOST_COPIED", most)
        for accumulate in (None, dtype("float32")):
            options: Any = {"combine": Combine.ADD, "accumulate": accumulate}
            Case(half, table, other, named(count, 5000), **options).check((2,))
            Case(half, table, other, hostile, Remap.SKIP, **options).check((2,))
            Case(half, table, other, hostile, Remap.WRAP, **options).check((2,))
        Case(half, table, other, named(count, 5000), side=Side.SRC).check((2,))
        Case(half, table, other, hostile, Remap.ZERO, side=Side.SRC).check((2,))
        for side in Side:
            with pytest.raises(IndexFault):
                Case(half, table, other, hostile, side=side).run(native, 2)


@pytest.mark.parametrize("kind", [each for each in TYPES if each.is_float and each.size < 4], ids=str)
@pytest.mark.parametrize("width", [1, 5, 48])
def test_sums_in_float32_round_once(kind: DType, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, other, indices = values(kind, (900, width)), values(kind, (4000, width), 1), named(4000, 700)
    case = Case(kind, table, other, indices, combine=Combine.ADD, accumulate=dtype("float32"))
    case.check()
    monkeypatch.setattr(strategies, "MOST_EXTRA", 20_000)
    case.check()


# --- layouts and extents


def test_strides_of_any_kind() -> None:
    f4, count = dtype("float32"), 3000
    tables = values(f4, (200, 40))
    sources = values(f4, (2 * count, 80), 1)
    indices = np.repeat(named(count, 50), 3)
    for table in (tables[:, :20], tables[::2], tables[:, ::2], tables[::3, 1:40:3], tables[:, :1]):
        width = table.shape[1]
        spread = np.lib.stride_tricks.as_strided(sources, (count, width), (0, 4))
        one = np.lib.stride_tricks.as_strided(sources, (count, width), (0, 0))
        evenly, apart = sources[:count, :width], sources[::2, : 2 * width : 2]
        for source in (evenly, apart, sources[:count, 80 - width :], spread, one):
            for combine in (Combine.STORE, Combine.ADD):
                Case(f4, table, source, indices[::3], combine=combine).check((1, 2), WAYS)
        for out in (evenly, apart):
            Case(f4, table, out, indices[::3], side=Side.SRC).check((2,))
            Case(f4, table, out, indices[: 2 * count : 2], side=Side.SRC).check((2,))


@pytest.mark.parametrize("remap", [Remap.REFUSE, Remap.ZERO, Remap.SKIP])
def test_nothing_to_do(remap: Remap) -> None:
    f4, none = dtype("float32"), np.empty(0, np.int64)
    Case(f4, values(f4, (5, 2)), values(f4, (0, 2)), none, remap).check()
    Case(f4, values(f4, (0, 2)), values(f4, (0, 2)), none, remap).check()
    indices = np.array([0, 5, -1])
    if remap is Remap.REFUSE:
        with pytest.raises(IndexFault):
            Case(f4, values(f4, (0, 2)), values(f4, (3, 2)), indices).run(native)
    else:
        Case(f4, values(f4, (0, 2)), values(f4, (3, 2)), indices, remap).check()
    if remap is Remap.ZERO:
        Case(f4, values(f4, (0, 2)), values(f4, (3, 2)), indices, remap, side=Side.SRC).check()


def test_rows_without_elements_are_checked_all_the_same() -> None:
    f4 = dtype("float32")
    for side in Side:
        Case(f4, values(f4, (5, 0)), values(f4, (3, 0)), np.arange(3), side=side).check()
        with pytest.raises(IndexFault):
            Case(f4, values(f4, (5, 0)), values(f4, (3, 0)), np.array([0, 1, 5]), side=side).run(native)


def test_what_has_no_machine_code_is_said_at_once() -> None:
    kind = dtype(np.complex64)
    case = Case(kind, values(kind, (5, 2)), values(kind, (3, 2)), np.arange(3), combine=Combine.ADD)
    with pytest.raises(Unsupported, match="complex64"):
        case.run(native)


# --- calls again and again


def test_memory_is_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(host.HOST, wake=20_000))
    f4 = dtype("float32")
    cases = [
        Case(f4, values(f4, (500, w)), values(f4, (n, w), 1), named(n, 500), combine=combine, side=side)
        for w in (1, 16)
        for n in (100, 3000)
        for side, combine in ((Side.SRC, Combine.STORE), (Side.DST, Combine.STORE), (Side.DST, Combine.ADD))
    ]

    def often(times: int) -> int:
        for _ in range(times):
            for case in cases:
                case.run(native, 2)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = often(60)
    assert often(200) - first < 4096  # kilobytes


# --- other processors than this one

PROCESSOR = replace(host.X86, gathers=True, packs=True, stream_from=0, near=1 << 10, wake=SHARED)
"""Everything that code does on some processors only, for arrays of every size."""


def misaligned(array: Array, rng: np.random.Generator) -> Array:
    """The same elements, at a random distance from a line, in rows and columns that are random distances apart."""
    rows, cols = array.shape
    down, right = cols * int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 1, 2]))
    room = np.zeros(rows * down * right + 64, array.dtype)
    first = int(rng.integers(0, 64))
    steps = (down * right * array.itemsize, right * array.itemsize)
    view = np.lib.stride_tricks.as_strided(room[first:], array.shape, steps)
    view[...] = array
    return view


@pytest.mark.parametrize("seed", range(8 if FULL else 4))
def test_every_processor_gives_the_same_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(host, "HOST", PROCESSOR)
    kind = dtype(["float32", "float64", "float16", "int8"][seed % 4])
    for remap in (Remap.REFUSE, Remap.CLAMP, Remap.WRAP, Remap.ZERO, Remap.SKIP):
        capacity, count = int(rng.integers(1, 3000)), int(rng.choice([0, 1, 700, 5000]))
        width = int(rng.choice([1, 1, 16, 33, 100, 300]))
        low, high = (0, capacity) if remap is Remap.REFUSE else (-9, capacity + 99)
        indices = rng.integers(low, high, (count, 1)).astype(rng.choice(INDICES))
        if rng.random() < 0.3 and count <= capacity:
            indices[:, 0] = rng.permutation(capacity)[:count]
        table, other = (misaligned(values(kind, (rows, width), seed + rows), rng) for rows in (capacity, count))
        lanes = misaligned(indices, rng)[:, 0]
        if remap is not Remap.SKIP:
            Case(kind, table, other, lanes, remap, side=Side.SRC, fresh=bool(rng.integers(2))).check((1, 3))
        if remap is not Remap.ZERO:
            combine = (Combine.STORE, Combine.STORE, *ARITHMETIC)[int(rng.integers(6))]
            Case(kind, table, other, lanes, remap, combine=combine).check((1, 3))


KINDS = ("int8", "bool", "float16", "bfloat16", "float8_e5m2", "int32", "uint16", "float32", "int64", "float64")


@pytest.mark.parametrize("seed", range(4 if FULL else 1))
@pytest.mark.parametrize("way", WAYS)
def test_a_forced_strategy_gives_the_bits_of_a_loop(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random moves over types, widths, strides, policies, spreads and numbers of threads that are open to it."""
    rng = np.random.default_rng([seed, len(way)])
    monkeypatch.setattr(native, "CHUNK", int(rng.choice([2500, 4 << 20])))
    done = 0
    for _ in range(100):
        kind = dtype(KINDS[int(rng.integers(len(KINDS)))])
        remap = (Remap.REFUSE, Remap.CLAMP, Remap.WRAP, Remap.SKIP)[int(rng.integers(4))]
        combine = Combine.STORE if way == "winners" else tuple(Combine)[int(rng.integers(5))]
        capacity, count = int(rng.choice([1, 17, 700, 5000, 9000])), int(rng.choice([1, 30, 2049, 6000]))
        width = 1 if way in ("merged", "buckets") else int(rng.choice([1, 3, 16, 33]))
        low = int(rng.integers(0, capacity))
        indices = rng.integers(low, min(capacity, low + int(rng.choice([300, 9000]))), (count, 1))
        if way == "lanes":
            indices[:, 0] = rng.permutation(max(count, capacity))[:count]
        if remap is not Remap.REFUSE and way != "lanes":
            indices[rng.random(count) < rng.choice([0, 0.001, 0.2]), 0] = rng.choice([-1, capacity, capacity + 70, -70])
        lanes = misaligned(indices.astype(rng.choice(INDICES)), rng)[:, 0]
        table, other = (misaligned(values(kind, (rows, width), seed + rows), rng) for rows in (capacity, count))
        case = Case(kind, table, other, lanes, remap, combine=combine)
        monkeypatch.setattr(host, "HOST", (replace(host.HOST, wake=SHARED), PROCESSOR)[int(rng.integers(2))])
        if not case.is_open(way) or (remap is Remap.REFUSE and int(lanes.max()) >= capacity):
            continue
        wanted = case.run(reference).tobytes()
        for threads in (1, 2, 5):
            assert case.run(native, threads, strategy=way).tobytes() == wanted, (case.whole, threads)
        done += 1
        if done == 6:
            return
    raise AssertionError("few moves are open to the strategy")


@pytest.mark.parametrize("facts", [host.HOST, PROCESSOR], ids=["here", "elsewhere"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("width", [1, 40])
def test_a_fresh_result_is_gathered_in_one_pass_and_refused_after_it(
    facts: host.Host, kind: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", replace(facts, wake=SHARED, copies=False))
    passes, do = list[int](), strategies.Team.do
    monkeypatch.setattr(strategies.Team, "do", lambda *given, **more: (passes.append(1), do(*given, **more)))
    f4 = dtype("float32")
    table, other = values(f4, (300, width)), values(f4, (5003, width), 1)
    for outside in ({}, {5002: -1}, {0: 300}, {17: 1 << 30, 5000: 300, 4999: -(1 << 30)}):
        indices = named(5003, 300, kind)
        indices[list(outside)] = list(outside.values())
        case = Case(f4, table, other, indices, side=Side.SRC, fresh=True)
        for threads in THREADS:
            passes.clear()
            if not outside:
                assert case.run(native, threads).tobytes() == case.run(reference).tobytes()
            else:
                with pytest.raises(IndexFault) as wanted:
                    case.run(reference)
                with pytest.raises(IndexFault) as found:
                    case.run(native, threads)
                assert found.value.report == wanted.value.report
            assert len(passes) == (threads > 1)  # a single thread needs no team


@pytest.mark.parametrize("count", [1, 63, 64, 65, 5003])
def test_elements_are_gathered_after_all_indices_were_checked(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", PROCESSOR)
    table, indices = np.arange(1, 301, dtype="float32"), named(count, 300)
    out = np.empty(count, "float32")
    pto.gather(table, indices, coalesce="elem", out=out, engine="native", threads=2)
    assert (out == table[indices]).all()
    out[:] = -7
    for bad in {0, 8, count // 8, count // 2, count - 1} & set(range(count)):
        kept, indices[bad] = int(indices[bad]), 300
        with pytest.raises(pto.OutOfBoundsError, match=rf"indices\[{bad}\] = 300"):
            pto.gather(table, indices, coalesce="elem", out=out, engine="native", threads=2)
        assert (out == -7).all()
        indices[bad] = kept


@pytest.mark.parametrize("width", [4, 32, 100, 256, 1024])
@pytest.mark.parametrize("remap", [Remap.REFUSE, Remap.CLAMP, Remap.ZERO, Remap.SKIP])
def test_results_that_go_past_the_caches(width: int, remap: Remap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "HOST", replace(PROCESSOR, near=1 << 30))
    rng = np.random.default_rng(width)
    table = rng.standard_normal((300, width), dtype="float32")
    indices = rng.integers(0, 300 if remap is Remap.REFUSE else 400, 5000)
    for shift in (0, 1, 4):  # elements by which the result misses a multiple of 64 bytes
        room = np.zeros(5000 * width + 32, "float32")
        first = -room.ctypes.data % 64 // 4 + shift
        out = room[first : first + 5000 * width].reshape(5000, width)
        out[:] = 7
        move_gather(GATHER, table, indices, out, (GATHER.name, Leading(1), remap, "native"), 2)
        kept, outside = table[np.minimum(indices, 299)], {Remap.ZERO: 0, Remap.SKIP: 7}
        expected = np.where((indices < 300)[:, None], kept, outside[remap]) if remap in outside else kept
        assert (out == expected).all() and not room[:first].any() and not room[first + 5000 * width :].any()


@pytest.mark.parametrize(("count", "outside"), [(5000, ()), (5000, (0, 77)), (63, (62,))])
def test_distinct_lanes_are_shared_as_they_come(
    count: int, outside: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "HOST", PROCESSOR)
    taken = list[str]()
    choose = strategies.STRATEGIES["lanes"]
    monkeypatch.setitem(strategies.STRATEGIES, "lanes", lambda *given: (taken.append("lanes"), choose(*given)))
    f4 = dtype("float32")
    indices = np.random.default_rng(count).permutation(6000)[:count]
    indices[list(outside)] = 6000
    case = Case(f4, values(f4, (6000, 100)), values(f4, (count, 100), 1), indices, Remap.SKIP)
    case.check((2, 5))
    assert taken
    taken.clear()
    indices[count // 2] = indices[1]
    case.check((2, 5))
    assert not taken


@pytest.mark.parametrize(("width", "oob"), [(3, "undefined"), (1, "skip")])
def test_calls_of_one_kind_do_not_live_on_each_others_memory(width: int, oob: str) -> None:
    indices = np.arange(3000) % 500 - (7 if oob == "skip" else 0)
    shape = (500, width) if width > 1 else (500,)
    source = np.ones((3000, *shape[1:]), np.int64)
    mode = "row" if width > 1 else "elem"
    options: dict[str, Any] = {"coalesce": mode, "atomic": "add", "oob": oob}
    wanted, first, second = (np.zeros(shape, np.int64) for _ in range(3))
    pto.scatter(wanted, source, indices, engine="reference", **options)
    pto.scatter(first, source, indices, engine="native", **options)
    held = [np.full(4, 1, np.int64) for _ in range(200)]  # reuses memory that the call has freed
    pto.scatter(second, source, indices, engine="native", **options)
    assert np.array_equal(first, wanted) and np.array_equal(second, wanted) and len(held) == 200
    waiting = block._idle
    assert waiting and not any(each.keep or each.get("shards") for each in waiting)


def test_a_call_with_more_threads_than_the_last_one_has_workspace_for_all() -> None:
    rng = np.random.default_rng(8)
    table, indices = rng.random((300, 40), np.float32), rng.integers(0, 300, 20_000)
    wanted = np.zeros((300, 40), np.float32)
    pto.scatter(wanted, table[indices], indices, atomic="add", engine="reference")
    for threads in (8, 2, 8, 17, 3):
        found, sums = pto.gather(table, indices, engine="native", threads=threads), np.zeros((300, 40), np.float32)
        pto.scatter(sums, found, indices, atomic="add", engine="native", threads=threads)
        assert np.array_equal(found, table[indices])
        assert np.array_equal(sums.view(np.int32), wanted.view(np.int32))
