"""Bags of gathered rows on the native engine and on an emulated GPU (`make test-gpu`: a real one), against loops."""

from __future__ import annotations

import re
from ctypes import string_at
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.bag_arguments import BagPlaces, BagSizes, BagsKind, PreparedBags
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole import bag_launches as cuda
from ptokit.engine.native.whole import bags, block
from ptokit.engine.runnable import Unsupported
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine
from tests.engine.cuda.emulated import ON_GPU, Recorded, device_under_test
from tests.engine.cuda.test_ptx import assembled
from tests.engine.native.guard import guarded

ROWS, BOUNDS = 7, [0, 3, 3, 4, 11, 12]
REDUCED = (Combine.ADD, Combine.MAX, Combine.MIN)
CASES = [
    *((100, "int64", "float32", each) for each in REDUCED),
    *((3, "int32", "bfloat16", each) for each in REDUCED),
    *((width, "uint32", kind, Combine.ADD) for width, kind in ((1, "float64"), (64, "float16"), (12, "uint8"))),
    *((8, "int32", "int32", each) for each in REDUCED[1:]),
]
device = device_under_test()


def operands(kind: str, width: int, index: str) -> dict[str, Any]:
    rng = np.random.default_rng(width)
    numpy_type = np.dtype(getattr(ml_dtypes, kind, kind))
    numbers = rng.integers(0, 100, (ROWS, width)) if "int" in kind else rng.standard_normal((ROWS, width))
    lanes = rng.integers(0, ROWS, BOUNDS[-1]).astype(index)
    weights = abs(rng.standard_normal(BOUNDS[-1]))
    return {"table": numbers.astype(numpy_type), "index": lanes, "weights": weights.astype(numpy_type)}


def naive(given: dict[str, Any], combine: Combine, padding: int, *, weighted: bool, indexed: bool) -> tuple[Any, Any]:
    table, lanes, weights = given["table"], given["index"], given["weights"]
    is_narrow = table.dtype.itemsize == 2
    wide = np.dtype("float32") if is_narrow else table.dtype
    out = np.zeros((len(BOUNDS) - 1, table.shape[1]), wide)
    winners = np.full(out.shape, -1, "int32")
    for bag in range(len(out)):
        for k in range(BOUNDS[bag], BOUNDS[bag + 1]):
            at = int(lanes[k]) if indexed else k
            if indexed and at == padding:
                continue
            row = table[at].astype(wide)
            if combine is Combine.ADD:
                out[bag] = out[bag] + (row * weights[k].astype(wide) if weighted else row)
                continue
            is_better = (row > out[bag]) if combine is Combine.MAX else (row < out[bag])
            is_better |= winners[bag] < 0
            out[bag][is_better], winners[bag][is_better] = row[is_better], k
    return out.astype(table.dtype), winners


class Engine:
    """Runs bags over copies of arrays in the memory of an engine."""

    def __init__(self, name: str, patch: pytest.MonkeyPatch) -> None:
        self.is_gpu, self.kept = name == "cuda", list[Any]()
        self.device = device

    def prepared(self, kind: BagsKind) -> PreparedBags:
        """Bags of a kind."""
        return cuda.CudaBags(self.device, kind) if self.is_gpu else bags.prepare(kind)

    def put(self, array: Any, skipped: int = 0) -> int:
        """The address of a copy, which begins so many bytes behind memory that is aligned."""
        array = np.concatenate([np.zeros(skipped, "u1"), np.ascontiguousarray(array).reshape(-1).view("u1")])
        if not self.is_gpu:
            self.kept.append(guarded(array, at_end=True))
            return self.kept[-1].ctypes.data + skipped
        self.kept.append(device.empty(array.nbytes))
        device.upload(self.kept[-1].address, array)
        return self.kept[-1].address + skipped

    def get(self, address: int, like: Any) -> Any:
        if self.is_gpu:
            found = device.download(address, like.nbytes)
        else:
            found = np.frombuffer(string_at(address, like.nbytes), "u1")
        return found.view(like.dtype).reshape(like.shape)

    def run(
        self,
        given: dict[str, Any],
        combine: Combine,
        padding: int,
        *,
        weighted: bool,
        indexed: bool,
        threads: int = 1,
        mean: bool = False,
        closed: bool = True,
        followed: bool = False,
    ) -> tuple[bool, Any, Any]:
        table = given["table"] if indexed else np.resize(given["table"], (BOUNDS[-1], given["table"].shape[1]))
        bags, width = len(BOUNDS) - 1, table.shape[1]
        out, winners = np.empty((bags, width), table.dtype), np.empty((bags, width), "int32")
        bounds = self.put(np.array(BOUNDS if closed else BOUNDS[:-1]))
        addresses = self.put(table), self.put(given["index"]) if indexed else 0, bounds
        weights, first = self.put(given["weights"]) if weighted else 0, self.put(out)
        second = 0 if combine is Combine.ADD else self.put(winners)
        index = dtype(given["index"].dtype) if indexed else None
        facts = weighted, padding >= 0, second != 0, mean, closed, followed
        ready = self.prepared(BagsKind(dtype(table.dtype), index, combine, width, *facts))
        sizes = BagSizes(len(table), bags, BOUNDS[-1], padding)
        is_whole = ready(BagPlaces(*addresses, weights, first, second), sizes, threads)
        return is_whole, self.get(first, out), self.get(second, winners) if second else None


@pytest.fixture(params=["native", "cuda"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(request.param, monkeypatch)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize(("width", "index", "kind", "combine"), CASES)
def test_bags_are_loops(engine: Engine, width: int, index: str, kind: str, combine: Combine, closed: bool) -> None:
    given = operands(kind, width, index)
    weighted = combine is Combine.ADD and "int" not in kind
    for padding in (-1, int(given["index"][5])):
        expected = naive(given, combine, padding, weighted=weighted, indexed=True)
        is_whole, out, winners = engine.run(given, combine, padding, weighted=weighted, indexed=True, closed=closed)
        assert is_whole
        assert out.tobytes() == expected[0].tobytes()
        assert winners is None or (winners == expected[1]).all()


@pytest.mark.parametrize(("width", "kind"), [(100, "float32"), (3, "bfloat16"), (20, "float16"), (1, "float64")])
def test_means_are_sums_that_are_divided_and_then_rounded(engine: Engine, width: int, kind: str) -> None:
    given = operands(kind, width, "int64")
    wide = {**given, "table": given["table"].astype(np.result_type(given["table"].dtype, "float32"))}
    for padding in (-1, int(given["index"][5])):
        sums, _ = naive(wide, Combine.ADD, padding, weighted=False, indexed=True)
        counts = [sum(each != padding for each in given["index"][a:b]) for a, b in pairwise(BOUNDS)]
        expected = (sums / np.maximum(counts, 1).astype(sums.dtype)[:, None]).astype(given["table"].dtype)
        for closed in (True, False):
            how: dict[str, Any] = {"weighted": False, "indexed": True, "mean": True, "closed": closed}
            is_whole, out, _ = engine.run(given, Combine.ADD, padding, **how)
            assert is_whole and out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("combine", REDUCED[1:], ids=lambda each: each.name.lower())
@pytest.mark.parametrize(("width", "kind"), [(20, "float32"), (3, "float64"), (12, "bfloat16")])
def test_numbers_without_their_lanes_are_found_beside_nans_and_zeros(
    engine: Engine, width: int, kind: str, combine: Combine
) -> None:
    """A NaN yields to a number, and +0 is above -0."""
    given = operands(kind, width, "int64")
    rng = np.random.default_rng(5)
    table = rng.choice([np.nan, 0.0, -0.0, 1.5, -2.0, np.inf, -np.inf], (ROWS, width)).astype(given["table"].dtype)
    table[int(given["index"][3])] = np.nan  # the one lane of a bag
    at, index, bounds = (engine.put(each) for each in (table, given["index"], np.array(BOUNDS)))
    out = np.empty((len(BOUNDS) - 1, width), table.dtype)
    first = engine.put(out)
    ready = engine.prepared(BagsKind(dtype(table.dtype), dtype("int64"), combine, width, tracked=False, closed=True))
    assert ready(BagPlaces(at, index, bounds, 0, first, 0), BagSizes(ROWS, len(out), BOUNDS[-1], -1), 1)
    found = engine.get(first, out).astype("f8")
    for bag, (low, high) in enumerate(pairwise(BOUNDS)):
        rows = table[given["index"][low:high]].astype("f8")
        for column in range(width):
            numbers = sorted((x for x in rows[:, column] if x == x), key=lambda x: (x, not np.signbit(x)))
            wanted = numbers[-1 if combine is Combine.MAX else 0] if numbers else np.nan if low < high else 0.0
            now = found[bag, column]
            assert (now != now) == (wanted != wanted), (bag, column)
            assert now != now or (now == wanted and np.signbit(now) == np.signbit(wanted)), (bag, column)


@pytest.mark.parametrize("combine", REDUCED, ids=lambda each: each.name.lower())
def test_segments_are_loops(engine: Engine, combine: Combine) -> None:
    given = operands("float32", 20, "int64")
    rows = {**given, "table": np.resize(given["table"], (BOUNDS[-1], 20))}
    expected = naive(rows, combine, -1, weighted=False, indexed=False)
    for closed in (True, False):
        is_whole, out, winners = engine.run(given, combine, -1, weighted=False, indexed=False, closed=closed)
        assert is_whole and out.tobytes() == expected[0].tobytes()
        assert winners is None or (winners == expected[1]).all()


@pytest.mark.parametrize("combine", REDUCED, ids=lambda each: each.name.lower())
def test_repeated_bags_are_at_other_addresses_of_any_alignment(engine: Engine, combine: Combine) -> None:
    given, out, winners = operands("float32", 8, "int64"), np.empty((5, 8), "float32"), np.empty((5, 8), "int32")
    is_tracked = combine is not Combine.ADD
    ready = engine.prepared(BagsKind(dtype("float32"), dtype("int64"), combine, 8, tracked=is_tracked, closed=False))

    def call(*places: int) -> bool:
        return ready(BagPlaces(*places), BagSizes(ROWS, 5, BOUNDS[-1], -1), 1)

    expected = naive(given, combine, -1, weighted=False, indexed=True)
    bad = given["index"].copy()
    bad[6] = ROWS
    for skipped in (0, 4, 8, 12, 0):
        table, bounds = engine.put(given["table"], skipped), engine.put(np.array(BOUNDS[:-1]))
        first, second = engine.put(out, 12 - skipped), engine.put(winners, skipped) if is_tracked else 0
        assert not call(table, engine.put(bad), bounds, 0, first, second)
        assert call(table, engine.put(given["index"]), bounds, 0, first, second)
        assert engine.get(first, out).tobytes() == expected[0].tobytes()
        assert not is_tracked or (engine.get(second, winners) == expected[1]).all()


@pytest.mark.parametrize("combine", REDUCED, ids=lambda each: each.name.lower())
def test_indices_are_checked_first_if_work_follows(
    engine: Engine, combine: Combine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "FEW", 4)
    for index in ("int64", "int32", "uint32"):
        given = operands("float32", 8, index)
        how: dict[str, Any] = {"weighted": False, "indexed": True, "followed": True}
        is_whole, out, winners = engine.run(given, combine, -1, **how)
        expected = naive(given, combine, -1, weighted=False, indexed=True)
        assert is_whole and out.tobytes() == expected[0].tobytes()
        assert winners is None or (winners == expected[1]).all()
        for at in (0, 6, len(given["index"]) - 1):
            bad = given["index"].copy()
            bad[at] = ROWS
            assert not engine.run({**given, "index": bad}, combine, -1, **how)[0]
        assert engine.run(given, combine, -1, **how)[0]


@pytest.mark.skipif(ON_GPU, reason="records an emulated device")
@pytest.mark.parametrize(("followed", "wanted"), [(True, "check record bags wait"), (False, "bags record wait")])
def test_bags_that_work_follows_are_not_waited_for(
    followed: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded()
    engine = Engine("cuda", monkeypatch)
    monkeypatch.setattr(cuda, "FEW", 4)
    engine.device = recorded
    engine.run(operands("float32", 8, "int64"), Combine.ADD, -1, weighted=False, indexed=True, followed=followed)
    assert " ".join(recorded.log) == wanted


def test_a_call_of_another_thread_does_not_hide_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, given = Engine("native", monkeypatch), operands("float32", 8, "int64")
    bad = {**given, "index": np.full_like(given["index"], ROWS)}

    class Taken(list[Any]):
        """Memory that another call takes as soon as it is free."""

        def append(self, each: Any) -> None:
            each.words[block.GREATEST] = 0
            super().append(each)

    monkeypatch.setattr(block, "_idle", Taken())
    assert not engine.run(bad, Combine.ADD, -1, weighted=False, indexed=True)[0]


@pytest.mark.parametrize("bad", [ROWS, -1, 1 << 40])
def test_an_index_outside_is_noticed_and_nothing_there_is_read(engine: Engine, bad: int) -> None:
    given = operands("float32", 8, "int64")
    given["index"][6] = bad
    assert not engine.run(given, Combine.ADD, -1, weighted=False, indexed=True)[0]
    assert not engine.run(given, Combine.MAX, -1, weighted=False, indexed=True)[0]


@pytest.mark.parametrize("indexed", [True, False], ids=["indices", "segments"])
@pytest.mark.parametrize(
    ("bounds", "is_closed", "is_open"),
    [
        (BOUNDS, True, True),
        ([0, 0, 0, 0, 0, 12], True, True),
        ([0, 12, 12, 12, 12, 12], True, True),
        ([0, 3, 3, 4, 11, 11], False, True),
        ([0, 3, 3, 4, 11, 13], False, True),
        ([0, 3, 3, 4, 13, 12], False, False),
        ([1, 3, 3, 4, 11, 12], False, False),
        ([0, 3, 2, 4, 11, 12], False, False),
        ([0, 3, -1, 4, 11, 12], False, False),
        ([-1, 3, 3, 4, 11, 12], False, False),
        ([0, 3, 3, 4, 1 << 60, 12], False, False),
    ],
    ids=str,
)
def test_machine_code_refuses_bounds_that_are_not_in_order(
    bounds: list[int], is_closed: bool, is_open: bool, indexed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, given = Engine("native", monkeypatch), operands("float32", 8, "int64")
    table = given["table"] if indexed else np.resize(given["table"], (12, 8))
    for closed, wanted in ((True, is_closed), (False, is_open)):
        ready = engine.prepared(
            BagsKind(dtype("float32"), dtype("int64") if indexed else None, Combine.ADD, 8, closed=closed)
        )
        index, out = engine.put(given["index"]) if indexed else 0, engine.put(np.empty((5, 8), "float32"))
        places = engine.put(table), index, engine.put(np.array(bounds if closed else bounds[:-1])), 0, out, 0
        for threads in (1, 2):
            assert ready(BagPlaces(*places), BagSizes(len(table), 5, 12, -1), threads) is wanted


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_bounds_beyond_the_lanes_read_nothing_there(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    given = operands("float32", 8, "int64")
    for bounds in ([0, 1 << 60, 5, -9, 3, 2], [9, 8, 7, 6, 5, 4], [-1] * 6):
        monkeypatch.setattr("tests.engine.cuda.test_bags.BOUNDS", [*bounds[:-1], 12])
        engine.run(given, Combine.ADD, -1, weighted=True, indexed=True, closed=closed)


@pytest.mark.parametrize("combine", REDUCED, ids=lambda each: each.name.lower())
def test_nothing_behind_open_bounds_is_read(engine: Engine, monkeypatch: pytest.MonkeyPatch, combine: Combine) -> None:
    """Eight of them end where forbidden memory begins, on the emulated GPU, too."""
    monkeypatch.setattr("tests.engine.cuda.test_bags.BOUNDS", [0, 3, 3, 4, 5, 5, 9, 11, 12])
    given = operands("float32", 8, "int64")
    expected = naive(given, combine, -1, weighted=False, indexed=True)
    is_whole, out, winners = engine.run(given, combine, -1, weighted=False, indexed=True, closed=False)
    assert is_whole and out.tobytes() == expected[0].tobytes()
    assert winners is None or (winners == expected[1]).all()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("threads", [2, 16])
def test_threads_share_the_bags(monkeypatch: pytest.MonkeyPatch, threads: int, closed: bool) -> None:
    monkeypatch.setattr(bags, "LEAST_SHARED", 0)
    monkeypatch.setattr(bags, "LEAST_PIECE", 1)
    given = operands("float32", 40, "int64")
    found = [
        Engine("native", monkeypatch)
        .run(given, Combine.ADD, -1, weighted=True, indexed=True, threads=each, closed=closed)[1]
        .tobytes()
        for each in (1, threads)
    ]
    expected = naive(given, Combine.ADD, -1, weighted=True, indexed=True)[0].tobytes()
    assert found == [expected, expected]


def test_bytes_of_floats_are_left_to_others(engine: Engine) -> None:
    given = operands("float8_e4m3fn", 8, "int64")
    with pytest.raises(Unsupported):
        engine.run(given, Combine.ADD, -1, weighted=False, indexed=True)


@pytest.mark.parametrize("capability", [80, 90])
def test_products_and_sums_stay_apart_in_ptx(capability: int, tmp_path: Path) -> None:
    kind = BagsKind(dtype("float32"), dtype("int64"), Combine.ADD, 64, True, at_once=cuda.AT_ONCE)
    made = assembled(cuda.text(GPU, kind, 4), capability, tmp_path, "bags")
    assert "mul.rn.f32" in made and "add.rn.f32" in made
    assert not re.search(r"\bfma\b", made)
    mean = BagsKind(dtype("bfloat16"), dtype("int64"), Combine.ADD, 64, False, True, mean=True, at_once=cuda.AT_ONCE)
    made = assembled(cuda.text(GPU, mean, 8), capability, tmp_path, "bags")
    assert "div.rn.f32" in made and not re.search(r"\bdiv\.(approx|full)", made)
