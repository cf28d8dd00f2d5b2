"""Moves over whole arrays, emulated or with `make test-gpu` on a GPU: the reference engine's bits and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, NoReturn, cast
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from ptokit.engine import whole as reference
from ptokit.engine.cuda.device import DeviceBuffer, DeviceModule
from ptokit.engine.cuda.resident import resident
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole import check, grouping, kinds, moves
from ptokit.engine.cuda.whole.combining import REDUCTIONS
from ptokit.engine.faults import IndexFault
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import MoveSizes, Whole, layout_of
from ptokit.isa.dtype import BASE, FLOAT8, HIFLOAT8, HOST_ONLY, DType, dtype
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side
from tests.engine.cuda.emulated import ON_GPU, PATTERN, EmulatedBuffer, EmulatedDevice, Recorded, device_under_test
from tests.engine.cuda.test_ptx import assembled
from tests.engine.cuda.threads import THREADED, ThreadedDevice
from tests.engine.native.test_whole_native import elements, values
from tests.loops import FULL, all_pairs
from tests.property.strategies import fuzz

Array = np.ndarray[Any, np.dtype[Any]]

TYPES = (*BASE, *FLOAT8, *HOST_ONLY)
OTHERS = (HIFLOAT8, *map(dtype, (np.complex64, np.complex128, np.clongdouble, np.longdouble)))
ARITHMETIC = (Combine.ADD, Combine.MAX, Combine.MIN)
"""What GPUs have atomic instructions for."""
FLOAT32 = dtype("float32")
GROUPED = ("spot", "alone")
"""The first kernels of what is combined in the order of the lanes."""
LONG = 12
"""Lanes of a segment that is long."""

device = device_under_test()


@pytest.fixture(autouse=True)
def _plans() -> None:
    """Tests change what plans depend on."""
    moves._prepared.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Code is kept in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTOKIT_CACHE", str(tmp_path_factory.getbasetemp() / "code"))
        patch.setattr(moves, "FEW", 64)
        patch.setattr(moves, "BRIEF", 0)
        patch.setattr(moves, "MOST_BRIEF", 0)
        patch.setattr(
            kinds,
            "TUNING",
            replace(kinds.TUNING, indices=3, joined=3, firsts=3, short=4, words=3, long=LONG, ahead=2, chained=4),
        )
        yield


def named(count: int, capacity: int, kind: str = "int64", seed: int = 0) -> Array:
    """Random rows, with a busy one."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, capacity, count)
    found[rng.random(count) < 0.3] = capacity // 2
    return found.astype(kind)


class Case:
    """A move on arrays: entries of the table lie behind its first dim, lanes are all dims of the indices."""

    def __init__(
        self, kind: DType, table: Array, other: Array, indices: Array, remap: Remap = Remap.REFUSE, *,
        side: Side = Side.DST, combine: Combine = Combine.STORE, accumulate: DType | None = None,
        capacity: int | None = None, ordered: bool = True, fresh: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.written = ("src", "table") if side is Side.DST else ("out", "out")
        self.arrays = {"table": table, "indices": indices, self.name: other}
        dims = {"table": 1, "indices": indices.ndim, self.name: indices.ndim}
        access = {n: Access(n, layout_of(a.shape, elements(a), dims[n])) for n, a in self.arrays.items()}
        self.types = {n: dtype(a.dtype) if n == "indices" else kind for n, a in self.arrays.items()}
        most = len(table) if capacity is None else capacity
        index = Index(access["indices"], side, IndexUnit.ROW, most, remap, cast=indices.itemsize != 8)
        ends = (access["table"], access["src"]) if side is Side.DST else (access["out"], access["table"])
        move = Move((indices.size, int(np.prod(table.shape[1:]))), *ends, index, combine)
        self.whole = Whole(move, tuple(self.types.items()), accumulate, ordered, fresh)

    @property
    def ready(self) -> moves.CudaCall:
        return moves.call_of(device, self.whole)

    def run(self, on_device: bool, skew: int = 0) -> tuple[bytes, object]:
        """The memory of the written array afterwards, gaps included, and the report of an index that is refused."""
        memories = {name: self._storage(name, skew) for name in self.arrays}
        report = None
        try:
            if on_device:
                with resident(device, memories, [self.written]) as addresses:
                    moves.execute(self.ready, self.whole, addresses)
            else:
                with np.errstate(all="ignore"):
                    reference.run(self.whole, memories)
        except IndexFault as fault:
            report = fault.report
        return memories[self.written].bits.tobytes(), report

    def _storage(self, name: str, skew: int) -> Storage:
        """A copy of an array's memory, some elements beyond an aligned address."""
        array, kind = self.arrays[name], self.types[name]
        steps = zip(array.shape, elements(array), strict=True)
        span = 1 + sum((n - 1) * step for n, step in steps) if array.size else 0
        found = np.lib.stride_tricks.as_strided(array, (span,), (array.itemsize,))
        room = np.zeros((span + skew) * kind.size + 64, np.uint8)
        first = -room.ctypes.data % 64 + skew * kind.size
        copy = room[first : first + span * kind.size].view(kind.bits)
        copy[...] = found.view(kind.bits)
        return Storage(copy, kind)

    def check(self, skew: int = 0) -> None:
        wanted, expected = self.run(False, skew)
        found, report = self.run(True, skew)
        assert report == expected
        assert found == wanted or (self.whole.fresh and report)


# --- element types and arithmetic


@pytest.mark.parametrize("kind", [*TYPES, *OTHERS], ids=str)
def test_gathers_and_stores_move_the_bits_of_every_type(kind: DType) -> None:
    for width in (1, 3, 40):
        table, other, indices = values(kind, (50, width)), values(kind, (90, width), 1), named(90, 50)
        Case(kind, table, other, indices, side=Side.SRC).check()
        Case(kind, table, other, indices).check()


@pytest.mark.parametrize("kind", [each for each in TYPES if computes(each)], ids=str)
@pytest.mark.parametrize("combine", [*ARITHMETIC, Combine.MUL])
def test_arithmetic_is_that_of_the_reference(kind: DType, combine: Combine) -> None:
    width = 5 if kind.name in ("int32", "float16", "float64") else 8
    for columns in (1, width):
        case = Case(kind, values(kind, (30, columns)), values(kind, (90, columns), 1), named(90, 30), combine=combine)
        assert case.ready.steps == (
            ("check", "scatter")
            if columns == 1 and combine is not Combine.MUL and (combine is not Combine.ADD or kind.is_integer)
            else GROUPED
        )  # fmt: skip
        case.check()


FEW = (90, 8, Remap.REFUSE), (41, 5, Remap.SKIP), (1, 3, Remap.CLAMP), (2, 16, Remap.WRAP)
"""Lanes, elements of a row, and what becomes of bad indices."""
COMPUTING = [each for each in TYPES if computes(each)]
FEW_OF_ALL = all_pairs(COMPUTING, [*ARITHMETIC, Combine.MUL], FEW, one_in=4)


@pytest.mark.parametrize("kind", COMPUTING, ids=str)
@pytest.mark.parametrize("combine", [*ARITHMETIC, Combine.MUL])
def test_a_few_lanes_are_combined_by_one_kernel(kind: DType, combine: Combine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "BRIEF", 90)
    for count, width, remap in (few for *case, few in FEW_OF_ALL if case == [kind, combine]):
        lanes = named(count, 30)
        lanes[: count // 4] += 0 if remap is Remap.REFUSE else 30
        case = Case(kind, values(kind, (30, width)), values(kind, (count, width), 1), lanes, remap, combine=combine)
        assert case.ready.steps == ("brief",)
        case.check()
    wide = Case(kind, values(kind, (30, 8)), values(kind, (91, 8), 1), named(91, 30), combine=combine)
    assert wide.ready.steps == GROUPED


@pytest.mark.parametrize("base", [EmulatedDevice, ThreadedDevice])
@pytest.mark.parametrize("has_rows", [False, True], ids=["zeros", "rows"])
def test_a_few_lanes_of_new_tables(has_rows: bool, base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "BRIEF", 90)
    if not ON_GPU:
        monkeypatch.setitem(globals(), "device", base())
    count = 30
    for lanes in (named(count, 9), np.zeros(count, "int64"), np.arange(count) % 9):
        case = Case(FLOAT32, values(FLOAT32, (9, 12)), values(FLOAT32, (count, 12), 1), lanes, combine=Combine.ADD)
        _NewTable(case, has_rows).check()
        case.check()
        wrong = lanes.copy()
        wrong[count // 2] = 9
        Case(FLOAT32, case.arrays["table"], values(FLOAT32, (count, 12), 1), wrong, combine=Combine.ADD).check()


@pytest.mark.parametrize("shape", [(5,), (7,), (8, 3), (33,), (70,)], ids=str)
@pytest.mark.parametrize("combine", ARITHMETIC)
@pytest.mark.parametrize("name", ["float8_e4m3", "float8_e5m2", "uint8", "int8"])
def test_arithmetic_on_rows_of_odd_bytes(name: str, combine: Combine, shape: tuple[int, ...]) -> None:
    kind = dtype(name)
    Case(kind, values(kind, (30, *shape)), values(kind, (90, *shape), 1), named(90, 30), combine=combine).check()


class Watched(EmulatedDevice):
    """A device that keeps all memory that was asked for."""

    def __init__(self) -> None:
        self.made: list[EmulatedBuffer] = []

    def empty(self, nbytes: int) -> DeviceBuffer:
        self.made.append(EmulatedBuffer(nbytes))
        return self.made[-1]


def test_lists_of_segments_have_room_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every buffer ends in a page that nobody may touch."""
    tuning = kinds.TUNING
    for each in (2, tuning.short + 1, tuning.long + 1):
        monkeypatch.setitem(globals(), "device", watched := Watched())
        table, other = values(FLOAT32, (5, 4)), values(FLOAT32, (count := 3 * each, 4), 1)
        Case(FLOAT32, table, other, np.arange(count) % 3, combine=Combine.ADD).check()
        assert grouping.scratch(count, tuning.short, tuning.long) in {each.nbytes for each in watched.made}


SORTED = grouping.most_sorted(2 * EmulatedDevice.chip.lanes, 3)
"""Lanes of a segment that a block sorts in shared memory, at most."""
WINDOW = 2 * EmulatedDevice.chip.lanes * 3 * grouping.WORD
"""Lanes of a bitmap."""


def busy(lengths: Sequence[int], seed: int = 0) -> Array:
    """Lanes of rows that so many name, in random order."""
    found = np.repeat(np.arange(len(lengths)), lengths)
    np.random.default_rng(seed).shuffle(found)
    return found


@pytest.mark.skipif(ON_GPU, reason="a GPU has other limits")
@pytest.mark.parametrize(
    "lengths",
    [
        [1], [2, 1], [4, 5], [LONG, LONG + 1], [31, 32, 33], [SORTED - 1, SORTED, SORTED + 1], [1] * 200,
        [SORTED + 1, *[1] * (WINDOW - SORTED - 1)], [WINDOW], [WINDOW + 1], [5, 3 * WINDOW // 2, WINDOW, 1, 70],
    ],
    ids=lambda lengths: f"{len(lengths)} rows, most {max(lengths)}",
)  # fmt: skip
@pytest.mark.parametrize("capacity", [None, 1 << 40], ids=["a bit for each row", "shared bits"])
def test_lanes_of_a_row_take_effect_in_their_order(lengths: list[int], capacity: int | None) -> None:
    lanes, rows = busy(lengths), len(lengths)
    table, other = values(FLOAT32, (rows, 4)), values(FLOAT32, (len(lanes), 4), 1)
    Case(FLOAT32, table, other, lanes, combine=Combine.ADD, capacity=capacity).check()


def test_threads_bring_lanes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "device", ThreadedDevice())
    most = grouping.most_sorted(2 * THREADED.lanes, 3)
    for lengths in ([1, 2, 5, LONG, LONG + 1, 1, 1], [most + 5, 9]):
        lanes = busy(lengths)
        table, other = values(FLOAT32, (len(lengths), 4)), values(FLOAT32, (len(lanes), 4), 1)
        Case(FLOAT32, table, other, lanes, combine=Combine.ADD).check()


def test_at_most_half_of_a_hash_table_is_taken() -> None:
    """A search ends at an entry that is free; the next smaller table would be fuller."""
    for lanes, joined in product((32, 64, 256, 1024), (1, 2, 3, 4, 8)):
        entries = grouping.entries_of(lanes, joined)
        assert entries & (entries - 1) == 0 and entries // 2 < 2 * lanes * joined <= entries
    for count in (33, 64, 65, 1000, 1 << 20, grouping.MOST_LANES - 1):
        slots = 1 << grouping.slot_bits(count)
        assert slots // 2 < 2 * count <= slots
    assert grouping.slot_bits(1) == grouping.slot_bits(32) == grouping.LEAST_BITS


def test_rows_of_one_slot_take_those_behind_it() -> None:
    """Also behind the last one."""
    count, bits = 24, grouping.slot_bits(24)
    slots = np.arange(1 << 20, dtype=np.uint64) * np.uint64(grouping.SCATTERED % (1 << 64)) >> np.uint64(64 - bits)
    for slot in (0, (1 << bits) - 1):
        rows = np.flatnonzero(slots == slot)[: count // 2].repeat(2)
        table = np.zeros((int(rows.max()) + 1, 2), np.float32)
        np.random.default_rng(0).shuffle(rows)
        Case(FLOAT32, table, values(FLOAT32, (count, 2), 1), rows, combine=Combine.ADD).check()


def test_lanes_that_31_bits_cannot_number_have_no_order() -> None:
    for count in (grouping.MOST_LANES - 1, grouping.MOST_LANES):
        lanes, rows = (np.lib.stride_tricks.as_strided(np.zeros(4, "i4"), shape, strides) for shape, strides in (
            ((count,), (0,)), ((count, 4), (0, 4))))  # fmt: skip
        case = Case(FLOAT32, values(FLOAT32, (9, 4)), rows, lanes, Remap.CLAMP, combine=Combine.ADD)
        with pytest.raises(Unsupported, match="lanes") if count == grouping.MOST_LANES else nullcontext():
            assert case.ready.steps == GROUPED


@pytest.mark.parametrize("count", [2, 64, 65])
def test_the_last_lane_is_combined(count: int) -> None:
    other, indices = values(FLOAT32, (count, 4), 1), np.arange(count)[::-1] % 4 * 2
    Case(FLOAT32, values(FLOAT32, (9, 4)), other, indices, combine=Combine.ADD).check()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3"])
def test_sums_in_float32_are_rounded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dtype(name)
    for columns in (1, 8):
        table, other = values(kind, (30, columns)), values(kind, (90, columns), 1)
        for brief in (0, 90):
            monkeypatch.setattr(moves, "BRIEF", brief)
            Case(kind, table, other, named(90, 30), combine=Combine.ADD, accumulate=FLOAT32).check()


def test_complex_numbers_are_added_by_their_parts() -> None:
    for name in (np.complex64, np.complex128):
        rng, kind = np.random.default_rng(0), dtype(name)
        table, other = ((rng.random((n, 3)) + 1j * rng.random((n, 3))).astype(name) for n in (7, 60))
        Case(kind, table.view(kind.bits), other.view(kind.bits), named(60, 7), combine=Combine.ADD).check()


def test_each_part_of_a_complex_sum_has_the_canonical_nan() -> None:
    for name, part in ((np.complex64, np.float32), (np.complex128, np.float64)):
        kind, words, quiet = dtype(name), dtype(part).bits, np.array(np.nan, part)
        table, other = (np.ones((n, 6), part) for n in (7, 60))
        table.view(words)[2, 1] = other.view(words)[3, 2] = quiet.view(words) | 0x123
        other.view(words)[5, 5] = (-quiet).view(words)
        case = Case(kind, table.view(kind.bits), other.view(kind.bits), np.arange(60) % 7, combine=Combine.ADD)
        case.check()
        found = np.frombuffer(case.run(True)[0], part).reshape(7, 6)
        assert np.argwhere(np.isnan(found)).tolist() == [[2, 1], [3, 2], [5, 5]]
        assert (found[np.isnan(found)].view(words) == quiet.view(words)).all()


def test_what_has_no_arithmetic_is_left_to_others() -> None:
    kind = dtype(np.longdouble)
    case = Case(kind, values(kind, (3, 1)), values(kind, (5, 1)), named(5, 3), combine=Combine.ADD)
    with pytest.raises(Unsupported, match="arithmetic"):
        _ = case.ready


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "uint64", "float64"])
def test_any_order_gives_the_result_of_exact_sums(name: str) -> None:
    kind, rng = dtype(name), np.random.default_rng(1)
    for columns, capacity, count in ((1, 40, 700), (1, 3, 700), (4, 40, 60), (3, 40, 60)):
        table, other = (rng.integers(0, 2, (n, columns)).astype(kind.numpy) for n in (capacity, count))
        indices = rng.integers(0, capacity, count)
        case = Case(kind, table.view(kind.bits), other.view(kind.bits), indices, combine=Combine.ADD, ordered=False)
        case.check()
        case = Case(kind, table.view(kind.bits), other.view(kind.bits), np.unique(indices), ordered=False)
        case.check()


@pytest.mark.parametrize("most", [moves.MOST_PRIVATE, 40])
def test_tables_of_a_few_bytes_for_each_lane_are_small(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOST_PRIVATE", most)
    for rows, lanes, is_small in ((10, 640, True), (10, 639, False), (11, 704, most > 40), (1, 64, True)):
        table, other = np.zeros((rows, 1), np.int32), np.zeros((lanes, 1), np.int32)
        case = Case(dtype("int32"), table, other, named(lanes, rows), combine=Combine.ADD)
        assert case.ready.steps == (("private", "commit") if is_small else ("check", "scatter")), (rows, lanes)


def test_small_tables_of_elements_have_copies_in_blocks() -> None:
    for name in ("int32", "uint32", "int64"):
        for combine in ARITHMETIC:
            kind = dtype(name)
            case = Case(kind, values(kind, (5, 1)), values(kind, (900, 1), 1), named(900, 5), combine=combine)
            assert case.ready.steps == ("private", "commit")
            case.check()


ATOMIC = ("int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32")
NO_VECTORS = replace(THREADED, reductions=((("float32", 3), ""), (("float16", 3), "")))
"""A chip that adds three floats at once; pieces have other numbers of them."""


@pytest.mark.parametrize("combine", ARITHMETIC)
@pytest.mark.parametrize("name", ATOMIC)
def test_threads_combine_by_atomic_instructions(name: str, combine: Combine, monkeypatch: pytest.MonkeyPatch) -> None:
    threaded = ThreadedDevice()
    monkeypatch.setattr(threaded, "chip", NO_VECTORS, raising=False)
    monkeypatch.setitem(globals(), "device", threaded)
    kind, rng = dtype(name), np.random.default_rng(2)
    is_sum = combine is Combine.ADD and kind.is_float
    for rows, columns, count in ((40, 1, 70), (3, 1, 400), *[(9, 4, 40), (9, 2, 40)] * is_sum):
        table, other = (rng.integers(0, 5, (n, columns)).astype(kind.numpy).view(kind.bits) if kind.is_float
                        else values(kind, (n, columns), n) for n in (rows, count))  # fmt: skip
        case = Case(kind, table, other, named(count, rows), Remap.SKIP, combine=combine, ordered=False)
        is_private = rows == 3 and kind.size >= 4 and (kind.is_integer or is_sum)
        assert case.ready.steps == ("private" if is_private else "scatter",)
        case.check()


def test_copies_leave_zeros_below_zero_as_they_are() -> None:
    table, other = np.full((5, 1), -0.0, np.float32), np.full((900, 1), -0.0, np.float32)
    other[0] = 0.0
    indices = np.arange(900) % 4
    case = Case(FLOAT32, table.view("u4"), other.view("u4"), indices, Remap.SKIP, combine=Combine.ADD, ordered=False)
    assert case.ready.steps == ("private",)
    found = np.frombuffer(case.run(True)[0], np.float32)
    assert np.signbit(found).tolist() == [False, True, True, True, True]


# --- policies and refusals

HOSTILE = {
    "int32": [0, 1, -1, 6, 7, 8, 2**31 - 1, -(2**31), -7],
    "uint32": [0, 1, 6, 7, 8, 2**31, 2**32 - 1, 2**32 - 2],
    "int64": [0, 1, -1, 6, 7, 8, 2**63 - 1, -(2**63), 2**32, 2**32 - 1, -(2**32), -7, 2**62],
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("remap", Remap)
def test_policies_take_any_index(kind: str, remap: Remap) -> None:
    indices = np.resize(np.array(HOSTILE[kind], kind), 40)
    table, other = values(FLOAT32, (7, 5)), values(FLOAT32, (40, 5), 1)
    if remap is not Remap.SKIP:
        Case(FLOAT32, table, other, indices, remap, side=Side.SRC).check()
    for combine in (Combine.STORE, Combine.ADD):
        Case(FLOAT32, table, other, indices, remap, combine=combine).check()


@pytest.mark.parametrize("side", Side)
def test_the_first_bad_index_is_reported_and_nothing_is_written(side: Side) -> None:
    for where in ([39], [0, 20], [13, 14, 39]):
        indices = named(40, 7, "int32")
        indices[where] = -3
        for combine in (Combine.STORE, Combine.ADD) if side is Side.DST else (Combine.STORE,):
            table, other = values(FLOAT32, (7, 4)), values(FLOAT32, (40, 4), 1)
            case = Case(FLOAT32, table, other, indices, side=side, combine=combine)
            found, report = case.run(True)
            assert found == case.arrays[case.written].tobytes()
            assert report is not None and (report.lane, report.count, report.value) == ((where[0],), len(where), -3)
            case.check()


@pytest.mark.parametrize("kind", HOSTILE)
def test_indices_are_checked_wherever_they_begin_and_end(kind: str) -> None:
    for count in (1, 43, 1031):
        case = Case(FLOAT32, values(FLOAT32, (7, 1)), values(FLOAT32, (count, 1), 1), named(count, 7, kind))
        size, sizes = np.dtype(kind).itemsize, (28, 16 + 8 * count, 4 * count)
        table, index, other = (device.empty(each) for each in sizes)
        for skipped, bad in product((0, 1), (None, 0, count // 2, count - 1)):
            lanes, at = named(count, 7, kind), index.address + skipped * size
            if bad is not None:
                lanes[bad] = 7
            device.upload(at, lanes.view(np.uint8))
            refused = case.ready.run_at(case.whole.move.shape[0], table.address, at, other.address)
            assert refused == (None if bad is None else (1, bad))


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_gather_into_its_own_result_checks_as_it_goes(kind: str) -> None:
    for width in (1, 5, 64):
        table, other = values(FLOAT32, (7, width)), values(FLOAT32, (90, width), 1)
        for indices in (named(90, 7, kind), np.resize(np.array(HOSTILE[kind], kind), 90)):
            case = Case(FLOAT32, table, other, indices, side=Side.SRC, fresh=True)
            assert case.ready.steps == (("check", "gather") if width == 64 else ("checked_gather",))
            case.check()
            Case(FLOAT32, table[:0], other, indices, side=Side.SRC, fresh=True).check()


@pytest.mark.parametrize("is_bad", [False, True])
@pytest.mark.parametrize(
    ("how", "launched"),
    [
        ({"side": Side.SRC}, "check record gather wait"),
        ({"side": Side.SRC, "fresh": True}, "checked_gather record wait"),
        ({"ordered": False}, "check record scatter wait"),
        ({}, "fill check record mark scatter wait"),
        (
            {"combine": Combine.ADD},
            "fill spot record fork alone ( insert start place arrange fold ) fill wait",
        ),
        ({"combine": Combine.ADD, "ordered": False}, "private record commit wait"),
        ({"combine": Combine.ADD, "ordered": False, "remap": Remap.SKIP}, "private"),
        ({"side": Side.SRC, "remap": Remap.CLAMP}, "gather"),
    ],
)
def test_a_call_waits_for_its_check_only(
    how: dict[str, Any], launched: str, is_bad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded()
    monkeypatch.setitem(globals(), "device", recorded)
    indices = named(900, 5)
    indices[-1] = 7 if is_bad else 1
    case = Case(FLOAT32, values(FLOAT32, (5, 1)), values(FLOAT32, (900, 1), 1), indices, **how)
    written, report = case.run(True)
    assert recorded.log == launched.split()
    assert (report is not None) == (is_bad and "wait" in launched)
    assert report is None or how.get("fresh") or written == case.arrays[case.written].tobytes()


@pytest.mark.parametrize("base", [EmulatedDevice, ThreadedDevice])
@pytest.mark.parametrize(
    ("how", "width"), [({"side": Side.SRC}, 64), ({"ordered": False}, 64), ({"combine": Combine.MAX}, 1)]
)
def test_a_few_indices_are_checked_by_every_block(
    how: dict[str, Any], width: int, base: type[EmulatedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted(Recorded, base):  # type: ignore[misc,valid-type]
        chip = base.chip

    recorded, kind = Noted(), dtype("int32")
    monkeypatch.setitem(globals(), "device", recorded)
    for bad in ([], [59], [3, 40]):
        indices = np.random.default_rng(1).permutation(70)[:60].astype("int32")
        indices[bad] = 70
        case = Case(kind, values(kind, (70, width)), values(kind, (60, width), 1), indices, **how)
        recorded.log.clear()
        case.check()
        assert recorded.log == [case.ready.steps[0], "record", "wait"] and case.ready.steps != ("check",)


def test_calls_of_two_streams_do_not_share_a_check() -> None:
    """Kernels behind a check read it when the call has returned: a refusal in another stream is not theirs."""
    recorded = Recorded()
    first = check.take(recorded)
    first.begin()
    assert first.end() is None
    recorded.stream = 5
    assert check.take(recorded) is not first
    recorded.stream = 0
    assert check.take(recorded) is first


def test_checks_end_with_their_thread() -> None:
    """A later thread may have the same number, and another stream behind the same handle."""
    recorded, found = Recorded(), list[Any]()

    def call() -> None:
        for _ in range(2):
            each = check.take(recorded)
            each.begin()
            assert each.end() is None
            found.append(ref(each))

    for _ in range(2):
        thread = Thread(target=call)
        thread.start()
        thread.join()
        assert [each() for each in found] == [None] * len(found)
    assert found[0] is found[1], "the second call of a thread has the check of the first"


def test_a_call_that_fails_waits_for_the_kernel_that_checks() -> None:
    """It writes to memory of the host, which ends with the call."""
    words = list[Any]()

    def fail(*_given: object) -> None:
        raise MemoryError

    class Failing(Recorded):
        def module(self, key: str, build: Callable[[], IrSource]) -> DeviceModule:
            if " gather " not in key:
                return super().module(key, build)
            return cast("Any", SimpleNamespace(kernel=lambda _: fail, facts={}))

        def pinned(self, nbytes: int) -> DeviceBuffer:
            made = super().pinned(nbytes)
            words.append(ref(made))
            return made

        def wait(self) -> None:
            self.log.append("wait for all")
            assert words[0]() is not None

    failing, case = (
        Failing(),
        Case(FLOAT32, np.zeros((5, 1), "f4"), np.zeros((90, 1), "f4"), named(90, 5), side=Side.SRC),
    )
    memory = failing.empty(4096)
    failing.fill(memory.address, 0, 4096)
    with pytest.raises(MemoryError):
        moves.call_of(failing, case.whole).run_at(90, memory.address, memory.address + 1024, memory.address + 2048)
    assert failing.log == ["fill", "check", "record", "wait for all"]


def test_a_call_whose_code_cannot_be_made_has_written_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(EmulatedDevice):
        def module(self, key: str, build: Callable[[], IrSource]) -> DeviceModule:
            if " fold " in key:
                raise MemoryError
            return super().module(key, build)

    table, other = values(FLOAT32, (9, 4)), values(FLOAT32, (40, 4), 1)
    case = Case(FLOAT32, table, other, named(40, 9), combine=Combine.ADD)
    memories = {name: case._storage(name, 0) for name in case.arrays}
    move = moves.call_of(Failing(), case.whole)
    with pytest.raises(MemoryError):
        moves.execute(move, case.whole, {name: storage.address for name, storage in memories.items()})
    assert memories["table"].bits.tobytes() == case._storage("table", 0).bits.tobytes()


def kind_of(case: Case, piece: int) -> kinds.Kind:
    """The kind of the kernels of a case, for pieces of so many bytes."""
    return case.ready._kind(piece, case.ready.forms(piece))


class Beside(EmulatedDevice):
    """A device on which work of another stream comes before what was launched beside it."""

    def __init__(self) -> None:
        self.later: list[tuple[Any, ...]] | None = None

    def module(self, key: str, build: Callable[[], IrSource]) -> DeviceModule:
        made = super().module(key, build)

        def kernel(name: str) -> Any:
            found = made.kernel(name)
            return lambda *given: self._do(found, *given)

        return cast("Any", SimpleNamespace(kernel=kernel, facts=made.facts))

    def fill(self, *given: Any) -> None:
        self._do(super().fill, *given)

    def copy(self, *given: Any) -> None:
        self._do(super().copy, *given)

    def _do(self, *call: Any) -> None:
        if self.later is None:
            call[0](*call[1:])
        else:
            self.later.append(call)

    @contextmanager
    def _joined(self, later: list[tuple[Any, ...]]) -> Iterator[None]:
        self.later = None
        yield
        for found, *arguments in later:
            found(*arguments)

    def fork(self) -> AbstractContextManager[None]:
        self.later = []
        return self._joined(self.later)


@pytest.mark.skipif(ON_GPU, reason="a GPU has its own order")
def test_rows_of_one_lane_and_of_several_are_combined_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "device", beside := Beside())
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table, other = values(FLOAT32, (30, 4)), values(FLOAT32, (60, 4), 1)
        lanes = rng.integers(0, 30, 60)
        Case(FLOAT32, table, other, lanes, combine=Combine.ADD, capacity=[None, 1 << 40][seed % 2]).check()
        assert beside.later is None


class _NewTable:
    """A scatter into new memory, which has rows of another array before, or zeros."""

    def __init__(self, case: Case, has_rows: bool) -> None:
        before = case.arrays["table"] if has_rows else np.zeros_like(case.arrays["table"])
        case.arrays["table"] = before
        self.case, self.has_rows = case, has_rows
        self.memories = {name: case._storage(name, 0) for name in case.arrays} | {"before": case._storage("table", 0)}
        self.memories["table"].bits.view(np.uint8)[...] = PATTERN

    def refused(self) -> tuple[int, int] | None:
        """Execute it; the number of indices that are refused, and the first of them."""
        with resident(device, self.memories, ["table"]) as at:
            initial = at["before"] if self.has_rows else moves.ZEROS
            call = moves.call_of(device, self.case.whole)
            return call.run_at(self.case.whole.move.shape[0], at["table"], at["indices"], at["src"], initial=initial)

    def run(self) -> bytes:
        assert self.refused() is None
        return self.memories["table"].bits.tobytes()

    def check(self) -> None:
        assert self.run() == self.case.run(False)[0]


@pytest.mark.parametrize("has_rows", [False, True], ids=["zeros", "rows"])
@pytest.mark.parametrize(
    "how",
    [
        {"combine": Combine.ADD},
        {"combine": Combine.ADD, "remap": Remap.SKIP},
        {"combine": Combine.MAX, "remap": Remap.CLAMP},
        {"combine": Combine.ADD, "kind": dtype("int32")},
        {},
    ],
    ids=str,
)
def test_new_tables_have_rows_before_a_scatter(how: dict[str, Any], has_rows: bool) -> None:
    how = {"kind": FLOAT32, **how}
    for rows, width, count in ((7, 4, 90), (400, 3, 90), (5000, 1, 90), (30, 16, 5), (9, 4, 0)):
        table, other = (values(how["kind"], shape, k) for k, shape in enumerate([(rows, width), (count, width)]))
        lanes = named(count, rows)
        if how.get("remap") is Remap.SKIP and count:
            lanes[:3] = -1, rows, 1 << 40
        _NewTable(Case(table=table, other=other, indices=lanes, **how), has_rows).check()


@pytest.mark.parametrize("has_rows", [False, True], ids=["zeros", "rows"])
def test_new_tables_of_other_types(has_rows: bool) -> None:
    for name in ("float64", "bfloat16", "float8_e4m3fn", "int16", "complex64"):
        kind = dtype(name)
        table, other = values(kind, (50, 3)), values(kind, (90, 3), 1)
        _NewTable(Case(kind, table, other, named(90, 50), combine=Combine.ADD), has_rows).check()


@pytest.mark.skipif(ON_GPU, reason="a GPU has its own order")
@pytest.mark.parametrize("has_rows", [False, True], ids=["zeros", "rows"])
def test_new_tables_are_combined_in_any_order(has_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "device", Beside())
    for rows in (30, 5000):
        table, other = values(FLOAT32, (rows, 4)), values(FLOAT32, (60, 4), 1)
        lanes = np.random.default_rng(rows).integers(0, min(rows, 40), 60)
        _NewTable(Case(FLOAT32, table, other, lanes, combine=Combine.ADD), has_rows).check()


def test_scratch_memory_begins_with_zeros_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an earlier call of other lanes wrote, and where one failed."""
    for count in (900, 20, 900, 500, 2000, 3, 900):
        table, other = values(FLOAT32, (40, 4)), values(FLOAT32, (count, 4), 1)
        Case(FLOAT32, table, other, named(count, 40), combine=Combine.ADD).check()
        failing = Case(FLOAT32, table, other, named(count, 40), combine=Combine.ADD)
        with monkeypatch.context() as patch:
            patch.setattr(type(device), "fork", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                failing.run(True)


def _interrupted(_device: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_scratch_memory_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = check.Scratch.take(device, 4096, 1024)
    taken.keep()
    assert check.Scratch.take(device, 2048, 512) is taken
    taken.keep()
    monkeypatch.setattr(check, "MOST_SCRATCH", 4095)
    assert check.Scratch.take(device, 4096, 1024) is taken
    taken.keep()
    assert check.Scratch.take(device, 4096, 1024) is not taken


@pytest.mark.skipif(ON_GPU, reason="records an emulated device")
def test_the_check_does_not_wait_for_the_rows_of_a_new_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_rows in (True, False):
        monkeypatch.setitem(globals(), "device", recorded := Recorded())
        table, other = values(FLOAT32, (30, 4)), values(FLOAT32, (90, 4), 1)
        new = _NewTable(Case(FLOAT32, table, other, named(90, 30), combine=Combine.ADD), has_rows)
        new.check()
        begun = "fill fork " + ("copy" if has_rows else "fill")
        assert " ".join(recorded.log) == f"{begun} ( spot record insert start place arrange ) alone fold fill wait"
        monkeypatch.setitem(globals(), "device", recorded := Recorded())
        table, other = values(FLOAT32, (30, 4)), values(FLOAT32, (90, 4), 1)
        _NewTable(Case(FLOAT32, table, other, named(90, 30)), has_rows).check()
        copied = "copy" if has_rows else "fill"
        assert " ".join(recorded.log) == f"fill check record {copied} mark scatter wait"
    bad = _NewTable(Case(FLOAT32, table, other, np.full(90, 30), combine=Combine.ADD), False)
    assert bad.refused() == (90, 0)


def test_a_call_after_a_refused_one_is_executed() -> None:
    indices = np.array([0, 9])
    case = Case(FLOAT32, values(FLOAT32, (7, 4)), values(FLOAT32, (2, 4), 1), indices)
    ready, other = case.ready, case._storage("src", 0)
    for bad, lanes in ((True, [0, 9]), (False, [0, 1]), (True, [9, 9]), (False, [1, 0])):
        storage, table = Storage(np.array(lanes).view("u8"), dtype("int64")), case._storage("table", 0)
        given = {"table": table, "src": other, "indices": storage}
        with pytest.raises(IndexFault) if bad else nullcontext(), resident(ready.device, given, ["table"]) as addresses:
            moves.execute(ready, case.whole, addresses)
        if not bad:
            assert np.array_equal(table.bits.reshape(7, 4)[lanes], other.bits.reshape(2, 4))


@pytest.mark.parametrize("remap", [Remap.REFUSE, Remap.ZERO, Remap.SKIP])
def test_an_empty_table(remap: Remap) -> None:
    other = values(FLOAT32, (6, 4), 1)
    for lanes in (named(6, 1), named(0, 1)):
        rows = other[: len(lanes)]
        if remap is not Remap.SKIP:
            Case(FLOAT32, values(FLOAT32, (0, 4)), rows, lanes, remap, side=Side.SRC).check()
        for combine in (Combine.STORE, Combine.ADD):
            Case(FLOAT32, values(FLOAT32, (0, 4)), rows, lanes, remap, combine=combine).check()
    Case(FLOAT32, values(FLOAT32, (5, 0)), values(FLOAT32, (6, 0)), named(6, 9), remap).check()


@pytest.mark.parametrize("kind", HOSTILE)
def test_more_rows_than_32_bits_number(kind: str) -> None:
    """A table whose rows all lie at one place can have any number of them."""
    indices = np.array(HOSTILE[kind], kind)
    for rows in ((1 << 32) - 1, 1 << 32, 1 << 33):
        table = np.lib.stride_tricks.as_strided(values(FLOAT32, (1, 4)), (rows, 4), (0, 4))
        for remap in (Remap.REFUSE, Remap.CLAMP, Remap.WRAP, Remap.ZERO):
            Case(FLOAT32, table, values(FLOAT32, (indices.size, 4), 1), indices, remap, side=Side.SRC).check()


# --- layouts


def strided(kind: DType, shape: tuple[int, ...], steps: tuple[int, ...], seed: int) -> Array:
    span = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    return np.lib.stride_tricks.as_strided(values(kind, (span,), seed), shape, [step * kind.size for step in steps])


LAYOUTS = {
    "gaps": ((20, 8), (12, 1), (40, 8), (9, 1)),
    "columns": ((20, 8), (1, 20), (40, 8), (8, 1)),
    "steps": ((20, 8), (16, 2), (40, 8), (1, 40)),
    "three dims": ((20, 3, 8), (48, 16, 1), (40, 3, 8), (24, 8, 1)),
    "odd dims": ((20, 3, 5), (18, 6, 1), (40, 3, 5), (15, 1, 3)),
}
MORE_LAYOUTS = (
    ((20, 16), (16, 1), (40, 16), (16, 1)),
    ((20, 16), (20, 1), (40, 16), (0, 1)),
    ((20, 16), (16, 1), (40, 16), (0, 2)),
    ((20, 16), (32, 2), (40, 16), (16, 1)),
    ((20, 2), (2, 1), (40, 2), (4, 1)),
    ((20, 1), (4, 1), (40, 1), (4, 1)),
    ((20, 4, 4), (32, 8, 1), (40, 4, 4), (18, 4, 1)),
    ((20, 4, 4), (32, 6, 1), (40, 4, 4), (16, 4, 1)),
)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("kind", [dtype("int16"), dtype("float64")], ids=str)
def test_arrays_of_any_strides(name: str, kind: DType) -> None:
    shape, steps, other_shape, other_steps = LAYOUTS[name]
    table, other = strided(kind, shape, steps, 0), strided(kind, other_shape, other_steps, 1)
    indices = named(80, 20, "int32")[::2]
    for side in Side:
        Case(kind, table, other, indices, side=side).check()
    Case(kind, table, other, indices, combine=Combine.ADD).check()


@pytest.mark.parametrize("name", ["int8", "float32", "float64"])
def test_pieces_are_as_long_as_rows_are_aligned_and_columns_lie_side_by_side(name: str) -> None:
    kind = dtype(name)
    for shape, steps, other_shape, other_steps in (*LAYOUTS.values(), *MORE_LAYOUTS):
        arrays = strided(kind, shape, steps, 0), strided(kind, other_shape, other_steps, 1)
        case = Case(kind, *arrays, named(40, 20))
        ends = [case.whole.move.dst.layout, case.whole.src.layout]
        width = int(np.prod(shape[1:]))

        def is_piece(count: int, ends: list[Any] = ends, width: int = width) -> bool:
            starts = [(end, i, j) for end in ends for i in range(20) for j in range(0, width, count)]
            return width % count == 0 and all(
                end.offset(i, j) % count == 0
                and all(end.offset(i, j + k) == end.offset(i, j) + k for k in range(count))
                for end, i, j in starts
            )

        most = max(count for count in (1, 2, 4, 8, 16) if count * kind.size <= 16 and is_piece(count))
        assert case.ready.aligned == most * kind.size, (shape, steps, other_steps)


def test_indices_of_several_dims_and_a_source_that_repeats() -> None:
    table, other = values(FLOAT32, (20, 8)), values(FLOAT32, (5, 8), 1)
    indices = np.arange(60, dtype=np.int32).reshape(6, 10)[:, ::2] % 20
    spread = np.broadcast_to(other, (6, 5, 8))
    Case(FLOAT32, table, spread, indices).check()
    Case(FLOAT32, table, spread, indices, combine=Combine.ADD).check()
    Case(FLOAT32, table, np.broadcast_to(other[0, 0], (6, 5, 8)), indices).check()
    Case(FLOAT32, table, values(FLOAT32, (6, 5, 8), 2), indices, side=Side.SRC).check()


@pytest.mark.parametrize("skew", [0, 1, 2, 3, 4, 8])
def test_arrays_that_begin_anywhere(skew: int) -> None:
    for name in ("int8", "float16", "complex128"):
        kind = dtype(name)
        table, other = values(kind, (20, 16)), values(kind, (40, 16), 1)
        for side in Side:
            Case(kind, table, other, named(40, 20), side=side).check(skew)
        if name == "float16":
            Case(kind, table, other, named(40, 20), combine=Combine.ADD).check(skew)


# --- which lane stays


@pytest.mark.parametrize("capacity", [30, 3000])
@pytest.mark.parametrize("fit", [True, False])
def test_the_last_writer_stays(capacity: int, fit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOST_OWNERS", 4 * capacity - (not fit))
    for columns, outside in ((1, 7), (5, 7), (5, 90)):
        indices = named(90, capacity, "int32")
        indices[::outside] = -1 if outside < 90 else capacity - 1
        table, other = values(FLOAT32, (capacity, columns)), values(FLOAT32, (90, columns), 1)
        case = Case(FLOAT32, table, other, indices, Remap.SKIP)
        cleared = ("clear",) * (capacity == 3000)
        assert case.ready.steps == ((*cleared, "mark", "scatter") if fit else ("keys", "settle"))
        case.check()


def test_lanes_that_32_bits_cannot_number_are_sorted() -> None:
    for count, steps in (((1 << 32) - 1, ("mark", "scatter")), (1 << 32, ("keys", "settle"))):
        lanes, rows = (np.lib.stride_tricks.as_strided(np.zeros(4, "i4"), shape, strides) for shape, strides in (
            ((count,), (0,)), ((count, 4), (0, 4))))  # fmt: skip
        assert Case(FLOAT32, values(FLOAT32, (9, 4)), rows, lanes, Remap.CLAMP).ready.steps == steps


@pytest.mark.parametrize("remap", Remap)
@pytest.mark.parametrize("capacity", [(1 << 32) - 1, 1 << 32])
def test_the_greatest_short_index_names_a_row_if_there_are_so_many(capacity: int, remap: Remap) -> None:
    """-1 is 2^32 - 1. All rows of the table lie at one place."""
    row, lanes, indices = values(FLOAT32, (1, 8)), values(FLOAT32, (5, 8), 1), np.full(5, -1, np.int32)
    table, is_named = np.broadcast_to(row, (capacity, 8)), capacity >= 1 << 32 or remap in (Remap.CLAMP, Remap.WRAP)
    for combine in (Combine.STORE, Combine.ADD):
        Case(FLOAT32, table, lanes, indices, remap, combine=combine).check()
    stored, _ = Case(FLOAT32, table, lanes, indices, remap).run(True)
    assert stored == (lanes[-1] if is_named else row).tobytes()
    loaded, report = Case(FLOAT32, table, lanes, indices, remap, side=Side.SRC).run(True)
    outside = lanes * 0 if remap is Remap.ZERO else lanes
    assert loaded == (np.repeat(row, 5, 0) if is_named else outside).tobytes()
    assert (report is not None) is (remap is Remap.REFUSE and not is_named)


@pytest.mark.parametrize("remap", [Remap.SKIP, Remap.REFUSE])
def test_owners_that_lanes_outside_look_up_are_cleared(remap: Remap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "device", watched := Watched())
    case = Case(FLOAT32, values(FLOAT32, (3000, 5)), values(FLOAT32, (3, 5), 1), np.array([-1, 7, 7]), remap)
    assert "clear" in case.ready.steps
    case.run(True)
    (buffer,) = (each for each in watched.made if each.nbytes == 4 * 3000)
    owners = device.download(buffer.address, 4 * 3000).view(np.uint32)
    assert np.flatnonzero(owners != PATTERN * 0x01010101).tolist() == [0, 7]


@pytest.mark.parametrize("lane", ["i32", "i64"])
@pytest.mark.parametrize("combine", [Combine.STORE, Combine.ADD])
def test_resolved_lanes(lane: str, combine: Combine) -> None:
    table, rows = values(FLOAT32, (9, 12)), values(FLOAT32, (40, 8), 1)
    lanes = named(40, 9, "int32" if lane == "i32" else "int64")
    lanes[::5] = -1
    wanted, _ = Case(FLOAT32, table[:, :8], rows, lanes, Remap.SKIP, combine=combine).run(False)
    given = [Storage(each.copy().reshape(-1).view(f"u{each.itemsize}"), kind) for each, kind in (
        (table, FLOAT32), (rows, FLOAT32), (lanes, dtype(f"int{lane[1:]}")))]  # fmt: skip
    with resident(device, dict(zip("abc", given, strict=True)), "a") as addresses:
        at, rows_at, lanes_at = addresses.values()
        move = moves.scattering(device, FLOAT32, combine, lane)
        move(at, lanes_at, rows_at, MoveSizes(40, 8, 9, 12, 1, 8, 1, 1))
    assert given[0].bits.tobytes()[: len(wanted)] == wanted


# --- random moves


@st.composite
def random_moves(draw: st.DrawFn) -> tuple[Case, int]:
    kind = dtype(draw(st.sampled_from(["float32", "bfloat16", "int8", "complex128"])))
    side, capacity = draw(st.sampled_from(Side)), draw(st.integers(1, 40))
    count, width = draw(st.integers(0, 60)), draw(st.sampled_from([1, 2, 4, 7, 16]))
    seed, wide = draw(st.integers(0, 99)), draw(st.booleans())
    rng = np.random.default_rng(seed)
    indices = rng.integers(-2 if wide else 0, capacity + (3 if wide else 0), count).astype(
        draw(st.sampled_from(["int32", "int64"]))
    )
    if draw(st.booleans()):
        indices[rng.random(count) < 0.6] = capacity // 2
    policies = [each for each in Remap if side is Side.DST or each is not Remap.SKIP]
    is_simple = side is Side.SRC or kind.family == "complex"
    combine = Combine.STORE if is_simple else draw(st.sampled_from(Combine))
    gap = draw(st.sampled_from([0, 1, 16]))
    table = strided(kind, (capacity, width), (width + gap, 1), seed)
    other = strided(kind, (count, width), (width, 1), seed + 1) if count else values(kind, (0, width))
    policy, fresh = draw(st.sampled_from(policies)), side is Side.SRC and draw(st.booleans())
    case = Case(kind, table, other, indices, policy, side=side, combine=combine, fresh=fresh)
    return case, draw(st.integers(0, 3))


@fuzz(1)
@given(random_moves(), st.sampled_from([0, 512]))
def test_random_moves(drawn: tuple[Case, int], brief: int) -> None:
    case, skew = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "BRIEF", brief)
        case.check(skew)


# --- PTX


class _Sources(EmulatedDevice):
    def __init__(self) -> None:
        self.sources: list[IrSource] = []

    def module(self, key: str, build: Callable[[], IrSource]) -> DeviceModule:
        self.sources.append(build())
        return super().module(key, build)


def test_modules_say_how_many_threads_their_blocks_have() -> None:
    table, other = values(FLOAT32, (9, 8)), values(FLOAT32, (40, 8), 1)
    own, found = _Sources(), set[int]()
    for options in ({"side": Side.SRC}, {"side": Side.SRC, "fresh": True}, {"combine": Combine.ADD}):
        case = Case(FLOAT32, table, other, named(40, 9), **options)
        kept = {name: case._storage(name, 0) for name in case.arrays}
        moves.execute(
            moves.call_of(own, case.whole), case.whole, {name: storage.address for name, storage in kept.items()}
        )
    for source in own.sources:
        assert f'"nvvm.maxntid"="{source.facts["lanes"]}"' in source.text
        found.add(source.facts["lanes"])
    assert found == {own.chip.lanes // 2, own.chip.lanes, own.chip.lanes * 2}


WRITTEN = {80: "atom.global.add.f32", 90: "red.relaxed.gpu.global.add.v4.f32"}
ADDED = {
    "float32": ("%s.f32", {90: (2, 4)}),
    "float16": (".noftz%s.f16x2", {80: (2,), 90: (2, 4, 8)}),
    "bfloat16": (".noftz%s.bf16x2", {90: (2, 4, 8)}),
}
"""The instruction `red.global.add` of the PTX ISA with vectors: of how many elements, by compute capability."""


@pytest.mark.parametrize("capability", [80, 90])
def test_additions_of_several_elements_are_one_instruction(capability: int, tmp_path: Path) -> None:
    chip = replace(GPU, reductions=REDUCTIONS[capability])
    wanted = {(name, count) for name, (_, counts) in ADDED.items() for count in counts.get(capability, ())}
    assert {each for each, _ in chip.reductions} == wanted
    for name, count in sorted(wanted):
        kind = dtype(name)
        table, other = values(kind, (9, 32)), values(kind, (40, 32), 1)
        case = Case(kind, table, other, named(40, 9), combine=Combine.ADD, ordered=False)
        text = moves.kernel_text(chip, "scatter", kind_of(case, count * kind.size))
        made = assembled(text, capability, tmp_path, "scatter")
        words = count * kind.size // 4
        form, given = ADDED[name][0] % (f".v{words}" if words > 1 else ""), [r"(%r\d+)"] * words
        listed = ", ".join(given) if words == 1 else rf"{{{', '.join(given)}}}"
        (first, *_) = re.findall(rf"red\.relaxed\.gpu\.global\.add{re.escape(form)} \[%rd\d+\], {listed};", made)
        assert words == 1 or len({*first}) == words


@pytest.mark.parametrize(
    ("name", "capability"),
    [(name, each) for k, name in enumerate(moves.KERNELS) for each in (80, 90)
     if FULL or name == "scatter" or (80, 90)[k % 2] == each],
)  # fmt: skip
def test_kernels_are_assembled(name: str, capability: int, tmp_path: Path) -> None:
    chip = replace(GPU, reductions=REDUCTIONS[capability])
    adds = (*GROUPED, *moves.GROUPING, "fold", "brief", "scatter", "private", "commit")
    combine = Combine.ADD if name in adds else Combine.STORE
    columns = 1 if name in ("private", "commit") else 32
    table, other = values(FLOAT32, (9, columns)), values(FLOAT32, (40, columns), 1)
    case = Case(FLOAT32, table, other, named(40, 9), combine=combine)
    kind = kind_of(case, 16 if columns > 1 else 4)
    kind = replace(kind.of_indices if name in moves.OF_INDICES else kind, tuning=kinds.Tuning())
    made = assembled(moves.kernel_text(chip, name, kind), capability, tmp_path, name)
    if name.endswith("gather"):
        assert made.count("ld.global.v4") == made.count("st.global.v4") == kind.tuning.depth
    if name == "scatter":
        assert WRITTEN[capability] in made
    if name == "fold":
        assert "ld.shared" in made and "ld.b" not in made
