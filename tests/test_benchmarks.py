"""What the benchmarks conclude from their measurements: pure functions, no clock."""

from __future__ import annotations

import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from _cases import CASES, PATTERNS, STRIDES, Sizes, Work, Works
from _contenders import Contender, Library, pick
from _lengths import BOUNDS, cuts, drawn
from _measure import FLOOR, Ask, Verdict, Who, best_peer, interleaved, judge, median, ratio
from _plot import Panel, decades, svg
from _report import Report, Result, as_data, asked_rows, markdown

from ptokit.markup import escape

OURS, OURS_1, NUMPY = Who("ptokit", 2), Who("ptokit", 1), Who("NumPy", 1)
TORCH, TORCH_1, COPY = Who("PyTorch", 2), Who("PyTorch", 1), Who("memcpy", 2)


class Clock:
    """A clock that advances only by `work`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: float) -> None:
        self.done.append(name)
        self.now += seconds


def test_contenders_are_interleaved_and_each_round_starts_with_another() -> None:
    clock = Clock()
    calls = {name: partial(clock.work, name, 1.0) for name in "abc"}
    interleaved(calls, 4, clock=clock)
    assert "".join(clock.done) == "abcbcacababc"


def test_preparation_is_not_timed_and_loops_share_their_time() -> None:
    clock = Clock()
    calls, before = {"a": partial(clock.work, "a", 2.0)}, {"a": partial(clock.work, "ready", 50.0)}
    assert interleaved(calls, 2, loops=3, before=before, clock=clock) == {"a": [2.0, 2.0]}
    assert clock.done == ["ready", "a", "a", "a"] * 2


def test_a_slow_contender_skips_rounds_but_not_the_first_three() -> None:
    clock = Clock()
    calls = {"slow": partial(clock.work, "slow", 9.0), "fast": partial(clock.work, "fast", 1.0)}
    times = interleaved(calls, 6, patience=10, clock=clock)
    assert times["fast"] == [1.0] * 6
    assert times["slow"][:3] == [9.0] * 3
    assert all(math.isnan(t) for t in times["slow"][3:])


def test_a_median_and_a_ratio_ignore_skipped_rounds() -> None:
    assert median([3.0, math.nan, 1.0, 2.0]) == 2.0
    assert math.isnan(median([math.nan]))
    assert ratio([4.0, 90.0, math.nan], [2.0, 30.0, 1.0]) == 2.5


def test_a_ratio_is_taken_within_rounds() -> None:
    quiet_then_busy = [1.0, 1.0, 10.0], [2.0, 2.0, 20.0]
    assert ratio(quiet_then_busy[1], quiet_then_busy[0]) == 2.0


def test_the_best_peer_is_right_and_has_the_same_threads() -> None:
    times = {OURS: [1.0], COPY: [0.5], NUMPY: [4.0], TORCH: [2.0], TORCH_1: [1.5]}
    assert best_peer(times, times, 2) == TORCH
    assert best_peer(times, times, 1) == TORCH_1
    assert best_peer(times, {OURS, COPY, NUMPY}, 2) == NUMPY
    assert best_peer(times, {OURS, COPY}, 2) is None


def test_requirements_are_compared_with_the_right_opponent() -> None:
    times = {OURS: [1.0], OURS_1: [2.0], COPY: [0.5], NUMPY: [5.0], TORCH: [1.9]}
    asks = [Ask(2.0), Ask(2.0, "NumPy"), Ask(2.6, "NumPy", 1), Ask(0.35, "memcpy"), FLOOR]
    found = judge("case", asks, times, times, 2)
    assert [(v.found, v.met) for v in found] == [(1.9, False), (5.0, True), (2.5, False), (0.5, True), (1.9, True)]
    assert found[0].what == "x best peer (PyTorch), 2 threads"


@pytest.mark.parametrize(("ours", "met"), [(1.0, True), (1.05, True), (1.06, False)])
def test_the_floor_is_five_percent(ours: float, met: bool) -> None:
    times = {OURS: [ours], NUMPY: [1.0]}
    assert judge("case", [FLOOR], times, times, 2)[0].met is met


@pytest.mark.parametrize("right", [{NUMPY}, {OURS}])
def test_nothing_is_met_by_a_wrong_result_or_without_an_opponent(right: set[Who]) -> None:
    (verdict,) = judge("case", [Ask(0.1)], {OURS: [1.0], NUMPY: [9.0]}, right, 2)
    assert math.isnan(verdict.found)
    assert not verdict.met


def test_one_thread_has_no_requirements_for_several() -> None:
    times = {OURS_1: [1.0], NUMPY: [3.0]}
    assert [v.asked for v in judge("case", [Ask(2.0), Ask(2.6, "NumPy", 1)], times, times, 1)] == [2.6]


def test_a_bound_from_above_is_met_from_below() -> None:
    assert Verdict("launch", "us", 20, 12, at_most=True).met
    assert not Verdict("launch", "us", 20, 21, at_most=True).met
    assert not Verdict("launch", "us", 20, math.nan, at_most=True).met


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_stay_within_the_table(pattern: str) -> None:
    indices = PATTERNS[pattern](5000, 8192)
    assert len(indices) == 5000
    assert 0 <= indices.min() <= indices.max() < 8192


def test_patterns_are_what_they_are_called() -> None:
    found = {name: make(5000, 8192) for name, make in PATTERNS.items()}
    for name in ("unique", *(f"stride {stride}" for stride in STRIDES)):
        assert len(np.unique(found[name])) == 5000, name
    for stride in STRIDES:
        assert np.median(np.diff(found[f"stride {stride}"])) == stride
    assert (np.diff(found["sorted"]) >= 0).all()
    assert len(np.unique(found["single cell"])) == 1
    assert found["lower half"].max() < 4096
    assert np.bincount(found["Zipf 1.2"]).max() > 500 > 20 > np.bincount(found["uniform"]).max()


def test_a_case_gives_the_arrays_it_names() -> None:
    sizes = Sizes(payload=1 << 16, lanes=1000)
    for case in CASES:
        if case.table == "in cache":
            (work,) = case.works(sizes).parts
            assert work.table.dtype.name == case.dtype and work.indices.dtype == case.index
            assert work.table.nbytes == sizes.tables["in cache"]
            assert work.table.ndim == (2 if case.row else 1)
            assert work.values.shape == (*work.indices.shape, *work.table.shape[1:])
            if case.aligned:
                assert work.table.ctypes.data % 64 == work.values.ctypes.data % 64 == 0


@pytest.mark.parametrize("about", BOUNDS)
def test_lengths_are_log_uniform_and_differ(about: str) -> None:
    (least, most), found = BOUNDS[about], drawn(about, 90)
    assert least <= min(found) and max(found) <= most and len(set(found)) == 90
    assert median(found) == pytest.approx((least * most) ** 0.5, rel=0.25)
    assert max(drawn(about, 300, 2 * least)) <= 2 * least


def test_a_total_is_cut_into_all_of_its_lanes() -> None:
    for total in (31, 32, 5000, 100_000):
        lanes = np.arange(total)
        assert np.concatenate([lanes[part] for part in cuts("32 to 4,096", total)]).tolist() == lanes.tolist()


def test_moves_without_a_peculiarity_are_measured_in_calls_of_many_sizes() -> None:
    plain = [case for case in CASES if case.pattern == "uniform" and case.table == "beyond" and not case.aligned]
    assert plain and all(case.lengths for case in plain)
    works = Works((scatter("add"), scatter("store")), "32 to 4,096")
    assert [part.op for part in works.parts] == ["add", "store"]


def test_calls_in_turn_alternate_and_are_right_together() -> None:
    tables = [np.zeros((50, 4), "float32"), np.zeros(90, "float32")]
    shapes = [(5000, 4), (3000,)]
    moves = [
        Work("add", table, np.arange(shape[0]) % len(table), np.ones(shape, "float32"), repeats=True)
        for table, shape in zip(tables, shapes, strict=True)
    ]
    works = Works(tuple(moves), "32 to 4,096")
    assert [part.table.ndim for part in works.parts[:4]] == [2, 1, 2, 1]
    adding = Library("peer", lambda part, threads: {"at": partial(np.add.at, part.table, part.indices, part.values)})
    found = pick(adding, works, 1)
    assert isinstance(found, Contender) and found.right and found.payload == 4 * (20_000 + 3000)
    assert not works.is_right(lambda: np.add.at(moves[0].table, moves[0].indices, moves[0].values))


def test_calls_of_one_size_do_the_work_of_calls_of_many() -> None:
    pytest.importorskip("torch")
    from torch_ops import Data

    data = Data(((40, 4), (20, 2)), (32, 100, 64, 50), "cpu", bag=8)
    assert [(len(each.table), len(each.uniform)) for each in data.varied] == [(40, 32), (20, 100), (40, 64), (20, 50)]
    assert [(len(each.table), len(each.uniform)) for each in data.same] == [(40, 48), (20, 75)] * 2


@pytest.mark.parametrize("wrong", [False, True])
def test_a_row_of_operators_is_met_only_if_its_results_are_right(wrong: bool) -> None:
    pytest.importorskip("torch")
    from torch_ops import Case, Data, measured

    data = Data(((40, 4), (20, 2)), (32, 100, 64, 50), "cpu", bag=8)
    select = data.forward(lambda given, table: table.index_select(0, given.uniform))
    ours = data.forward(lambda given, table: table[given.uniform] + wrong)
    row = measured(Case("gather", ours, {"index_select": select}, data, least=1e-9), "cpu")
    assert (row[3], row[-1] == "WRONG") == ("index_select", wrong)


def scatter(op: str = "store") -> Work:
    return Work(op, np.zeros(4, "float32"), np.array([2, 0, 2]), np.array([1, 2, 3], "float32"), repeats=True)


def test_a_wrong_result_is_seen() -> None:
    work = scatter()

    def first_wins() -> None:
        for i in (2, 1, 0):
            work.table[work.indices[i]] = work.values[i]

    works = Works((work,))
    assert works.is_right(lambda: work.table.__setitem__(work.indices, work.values))
    assert not works.is_right(first_wins)
    assert not works.is_right(lambda: None)
    assert scatter("add").truth.tolist() == [2, 0, 4, 0]
    assert scatter("max").truth.tolist() == [2, 0, 3, 0]


def library(work: Work, *, ordered: bool = True) -> Library:
    """Three forms: one that refuses, one that does nothing, and one that stores."""

    def refuses() -> None:
        raise TypeError("not for this type")

    forms = {
        "refuses": refuses,
        "does nothing": lambda: None,
        "stores": lambda: work.table.__setitem__(work.indices, work.values),
    }
    return Library("peer", lambda work, threads: dict(forms), ordered=ordered)


def test_the_form_that_is_picked_is_right() -> None:
    work = scatter()
    found = pick(library(work), Works((work,)), 2)
    assert isinstance(found, Contender)
    assert (found.form, found.right, found.who) == ("stores", True, Who("peer", 2))


def test_an_order_that_is_not_promised_is_not_trusted_on_several_threads() -> None:
    work = scatter()
    several, one = (pick(library(work, ordered=False), Works((work,)), threads) for threads in (2, 1))
    assert isinstance(several, Contender) and not several.right
    assert isinstance(one, Contender) and one.right


def test_a_library_without_a_form_says_why() -> None:
    work = scatter()
    nobody = Library("peer", lambda work, threads: {})
    refusing = Library("peer", lambda w, threads: {"refuses": library(work).forms(work, 1)["refuses"]})
    assert pick(nobody, Works((work,)), 1) == ""
    assert pick(refusing, Works((work,)), 1) == "refuses: not for this type"


def report() -> Report:
    times = {OURS: [0.5, 0.5], NUMPY: [1.0, math.nan], TORCH: [0.25, 0.25], COPY: [0.1, 0.1]}
    contenders = tuple(Contender(who, "form", lambda: None, 10**9, right=who != TORCH) for who in times)
    verdicts = (Verdict("store", "x NumPy", 1.5, 2.0), Verdict("launch", "us", 20, math.nan, at_most=True))
    return Report({"cores": "2"}, (Result("rows", "store", contenders, times, 10**9, verdicts[:1]),), verdicts, (), 0.0)


def test_a_report_has_rates_ratios_wrong_results_and_missed_figures() -> None:
    page = markdown(report())
    assert "| store | 2 | 2 | 1 | 4 (wrong) | – | 10 | NumPy | 2 |" in page
    assert "| store | x NumPy | ≥ 1.5 | 2 | met |" in page
    assert [row[-1] for row in asked_rows(report().verdicts)] == ["met", "MISSED"]
    assert [verdict.case for verdict in report().missed] == ["launch"]


def test_a_report_in_a_notebook_has_the_tables() -> None:
    html = report()._repr_html_()
    for row in asked_rows(report().verdicts):
        assert all(f">{escape(cell)}</td>" in html for cell in row if cell)
    assert html.count("<table") == html.count("</table>") >= 2


def test_a_report_as_data_has_no_numbers_that_json_lacks() -> None:
    data = as_data(report())
    assert data["asked"][1]["found"] is None
    seconds = {entry["library"]: entry["seconds"] for entry in data["results"][0]["contenders"]}
    assert seconds["NumPy"] == [1.0, None]


def test_axes_have_a_tick_for_each_power_of_ten() -> None:
    assert decades([2e-6, 3e-3], {1e-6: "us", 1e-3: "ms"}) == {
        1e-6: "1 us", 1e-5: "10 us", 1e-4: "100 us", 1e-3: "1 ms", 1e-2: "10 ms",
    }  # fmt: skip


def test_a_straight_line_is_drawn_straight_and_texts_are_escaped() -> None:
    ticks = {1.0: "1", 10.0: "10", 100.0: "100"}
    drawn = svg(
        "<title>", [Panel("p", "x", "y", {"a & b": [(1, 1), (10, 10), (100, 100)]}, ticks, ticks)], {"a & b": "c0"}
    )
    points = drawn.partition('points="')[2].partition('"')[0].split()
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points)
    assert x1 - x0 == pytest.approx(x2 - x1) and y0 - y1 == pytest.approx(y1 - y2) and y0 > y1
    assert "&lt;title&gt;" in drawn and "a &amp; b" in drawn
