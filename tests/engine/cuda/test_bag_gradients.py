"""Gradients of bags on an emulated GPU (`make test-gpu`: a real one), against loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.bag_arguments import BagGradients
from ptokit.engine.cuda.stage import GPU
from ptokit.engine.cuda.whole import kinds, moves
from ptokit.engine.runnable import Unsupported
from ptokit.engine.whole import MoveSizes
from ptokit.isa.dtype import dtype
from tests.engine.cuda.emulated import device_under_test
from tests.engine.cuda.test_ptx import assembled
from tests.engine.cuda.threads import ThreadedDevice
from tests.loops import all_pairs

Array = np.ndarray[Any, np.dtype[Any]]

LONG = 12
"""Lanes of a segment that is long."""
MODES = ("sum", "mean", "weights", "mean weights", "max")
ROWS, COUNT = 7, 90
BOUNDS = [0, 3, 3, 4, 30, 30, 71, 72]
"""Where bags begin; the last one has what is left."""
device = device_under_test()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Segments are long early, and nothing is prepared by other tests."""
    small = replace(kinds.TUNING, indices=3, joined=3, firsts=3, short=4, words=3, long=LONG, ahead=2, chained=4)
    monkeypatch.setattr(kinds, "TUNING", small)
    monkeypatch.setattr(moves, "current", lambda: device)
    moves._through_bags.cache_clear()
    yield
    moves._through_bags.cache_clear()


@dataclass
class Case:
    """Gradients of bags with arrays of random numbers."""

    mode: str
    kind: str = "float32"
    width: int = 16
    index: str = "int64"
    rows: int = ROWS
    count: int = COUNT
    bounds: list[int] = field(default_factory=lambda: [*BOUNDS])
    closed: bool = False
    padding: int = -1
    hot: float = 0.3
    """The share of lanes that name one row."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.width)
        self.type = np.dtype(getattr(ml_dtypes, self.kind, self.kind))
        self.bags = len(self.bounds) - self.closed
        self.lanes = rng.integers(0, self.rows, self.count)
        self.lanes[rng.random(self.count) < self.hot] = self.rows // 2
        self.lanes = self.lanes.astype(self.index)
        self.grad = rng.standard_normal((self.bags, self.width)).astype(self.type)
        self.weights = rng.standard_normal(self.count).astype(self.type)
        self.winners = np.full(self.grad.shape, -1, np.int32)
        for bag, (first, end) in enumerate(pairwise(self.ends)):
            if 0 <= first < end <= self.count:
                self.winners[bag] = rng.integers(first, end, self.width)

    @property
    def ends(self) -> list[int]:
        return self.bounds if self.closed else [*self.bounds, self.count]

    def naive(self) -> Array:
        """A loop over the lanes, with bounds that are in order."""
        wide = np.result_type(self.type, "float32")
        out = np.zeros((self.rows, self.width), wide)
        for bag, (first, end) in enumerate(pairwise(self.ends)):
            for lane in range(first, end):
                row = int(self.lanes[lane])
                if 0 <= row < self.rows and row != self.padding:
                    out[row] = out[row] + self._added(bag, lane, end - first).astype(wide)
        return out.astype(self.type)

    def _added(self, bag: int, lane: int, length: int) -> Array:
        """Each step is rounded."""
        wide, row = np.result_type(self.type, "float32"), self.grad[bag]
        if "mean" in self.mode:
            row = (row.astype(wide) / wide.type(length)).astype(self.type)
        if "weights" in self.mode:
            row = (row.astype(wide) * self.weights[lane].astype(wide)).astype(self.type)
        return np.where(self.winners[bag] == lane, row, self.type.type(0)) if self.mode == "max" else row

    def run(self, skew: int = 0, of_winners: int = 0, on: Any = None) -> Array:
        """The same on the device; floats and winners begin some elements beyond an aligned address."""
        on, kept = on or device, list[Any]()

        def put(array: Array, skew: int = 0) -> int:
            kept.append(on.empty(array.nbytes + skew * array.itemsize))
            address = kept[-1].address + skew * array.itemsize
            on.upload(address, np.ascontiguousarray(array).reshape(-1).view("u1"))
            return address

        out = np.full((self.rows, self.width), 7, self.type)  # new memory
        given = BagGradients(
            dtype(self.type), dtype(self.index), self.width, self.rows, self.bags, self.count, self.padding,
            grad=put(self.grad, skew),
            indices=put(self.lanes),
            bounds=put(np.array(self.bounds)),
            weights=put(self.weights, skew) if "weights" in self.mode else 0,
            winners=put(self.winners, of_winners) if self.mode == "max" else 0,
            out=(address := put(out, skew)),
            mean="mean" in self.mode,
            closed=self.closed,
        )  # fmt: skip
        moves.run_gradients(given)
        return on.download(address, out.nbytes).view(self.type).reshape(out.shape)

    def check(self, skew: int = 0, of_winners: int = 0, on: Any = None) -> None:
        assert self.run(skew, of_winners, on).tobytes() == self.naive().tobytes()


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_loops(mode: str, kind: str) -> None:
    for width, index in ((1, "int32"), (3, "int64"), (16, "int64"), (40, "uint32")):
        Case(mode, kind, width, index).check()


@pytest.mark.parametrize("mode", MODES)
def test_padding_adds_nothing(mode: str) -> None:
    for padding in (0, ROWS // 2):
        Case(mode, padding=padding).check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "bounds", [[0, 90], [0, 40, 70], [0, 0, 0, 90], [5, 9, 9, 20], [0, 1, 2, 3, 90, 90], [90, 90]], ids=str
)
def test_lanes_behind_closed_bounds_and_before_the_first_have_no_bag(mode: str, bounds: list[int]) -> None:
    Case(mode, bounds=bounds, closed=True).check()
    Case(mode, bounds=bounds).check()


@pytest.mark.parametrize("bags", [1, 2, 3, 4, 7, 8, 9, 64])
def test_any_number_of_bags(bags: int) -> None:
    starts = sorted(np.random.default_rng(bags).integers(0, COUNT + 1, bags - 1).tolist())
    for mode in MODES:
        Case(mode, width=4, bounds=[0, *starts]).check()


@pytest.mark.parametrize("mode", MODES)
def test_indices_outside_add_nothing(mode: str) -> None:
    for index, bad in (("int32", [-1, ROWS, 2**31 - 1]), ("int64", [-1, ROWS, 1 << 40]), ("uint32", [ROWS, 2**32 - 1])):
        case = Case(mode, index=index)
        case.lanes[3 : 3 + len(bad)] = bad
        case.check()


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "bounds", [[0, 1 << 60, 5, -9, 3, 2], [90, 80, 7, 6, 5, 4], [-1] * 6, [-(1 << 63), (1 << 63) - 1]], ids=str
)
def test_bounds_that_lie_read_nothing_outside(bounds: list[int], closed: bool) -> None:
    """Every buffer ends in a page that nobody may touch."""
    for mode in MODES:
        Case(mode, bounds=bounds, closed=closed, padding=2).run()


@pytest.mark.parametrize("skew", [0, 1, 2, 3, 4])
def test_arrays_that_begin_anywhere(skew: int) -> None:
    for kind in ("float32", "bfloat16", "float64"):
        for mode in ("weights", "max"):
            Case(mode, kind).check(skew)
            Case(mode, kind).check(0, skew)


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_a_hash_table(mode: str) -> None:
    Case(mode, rows=40 * COUNT, width=4).check()


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_all_lanes_name(mode: str) -> None:
    for kind, width in (("float32", 20), ("bfloat16", 8)):
        Case(mode, kind, width, rows=3, count=600, hot=1.0).check()


def test_threads_find_bags(monkeypatch: pytest.MonkeyPatch) -> None:
    threaded = ThreadedDevice()
    monkeypatch.setattr(moves, "current", lambda: threaded)
    for mode in ("mean weights", "max"):  # what the other modes do as well
        Case(mode, width=4).check(on=threaded)


def test_no_numbers_are_numbers_for_losers() -> None:
    """Elements that a lane did not win do not reach its row, whatever they are."""
    case = Case("max")
    case.grad[:] = np.nan
    case.winners[:] = -1
    case.winners[0, 0] = 1
    found = case.run()
    assert np.argwhere(np.isnan(found)).tolist() == [[int(case.lanes[1]), 0]]
    assert not np.signbit(found[~np.isnan(found)]).any()


def test_what_has_no_code() -> None:
    for kind in ("int32", "float8_e5m2"):
        with pytest.raises(Unsupported, match="gradients of bags"):
            Case("sum", kind).run()


def test_no_bags_and_no_lanes() -> None:
    assert not Case("sum", bounds=[]).run().any()
    assert not Case("sum", bounds=[0, 0], closed=True, count=0).run().any()


KERNELS = "spot", "alone", "insert", "fold"
ASSEMBLED = all_pairs((80, 90), MODES, KERNELS, (("float32", 4), ("bfloat16", 2), ("float64", 8)), one_in=3)


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KERNELS)
def test_ptx(name: str, mode: str, capability: int, tmp_path: Path) -> None:
    facts = "weights" in mode, "mean" in mode, mode == "max", True, False
    kinds_here = [(kind, size) for *where, (kind, size) in ASSEMBLED if where == [capability, mode, name]]
    for kind, size in kinds_here:
        call = moves._through_bags(device, dtype(kind), dtype("int64"), 16, *facts).call(
            MoveSizes(COUNT, 32, 9, 32, 1, 32, 1, 1)
        )
        form = call._kind(16, call.forms(16))
        form = replace(form.of_indices if name in moves.OF_INDICES else form, tuning=kinds.Tuning())
        made = assembled(moves.kernel_text(GPU, name, form), capability, tmp_path, name)
        assert not re.search(r"\bfma\b", made)
        assert not re.search(r"\bdiv\.(approx|full)", made)
        if name == "fold":
            wide = "f64" if size == 8 else "f32"
            assert (f"div.rn.{wide}" in made) == ("mean" in mode)
            assert (f"mul.rn.{wide}" in made) == ("weights" in mode)
            assert re.search(r"ld\.global\.(nc\.)?v", made) and "ld.b" not in made
