"""`pto.sweep`: points are launches on the machine, and the best one is named with the reason."""

from __future__ import annotations

import csv
import io
import json
import weakref
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import ptokit as pto
from ptokit.sweeps.best import best_of
from ptokit.sweeps.plot import draw
from ptokit.sweeps.result import SweepResult
from ptokit.sweeps.run import run_points


@pto.kernel
def scaled(x, out, rows: pto.const = 16):
    first = pto.block_idx() * rows
    n = pto.min(rows, x.shape[0] - first)
    t = pto.Tile("vec", x.dtype, rows, x.shape[1], valid=(n, x.shape[1]))
    pto.tload(t, x[first : first + n])
    pto.tadd(t, t, t)
    pto.tstore(out[first : first + n], t)


@pto.kernel
def picked(table, ids, out, column: pto.const = False):
    """A2/A3 refuses a column of row numbers."""
    shape, valid = ((8, 8), (8, 1)) if column else ((1, 8), (1, 8))
    index = pto.Tile("vec", "int32", *shape, valid=valid)
    t = pto.Tile("vec", "float32", 8, 16)
    pto.tload(index, ids)
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out, t)


ROWS = [1, 8, 32, 1024]
X = np.arange(256 * 64, dtype="float32").reshape(256, 64)
OUT = np.zeros_like(X)


@cache
def swept() -> SweepResult:
    return pto.sweep(scaled, X, OUT, params={"rows": ROWS}, grid=lambda p: -(-256 // p.rows))


@cache
def refused() -> SweepResult:
    ids = lambda p: np.zeros((8, 1) if p.column else (1, 8), "int32")  # noqa: E731
    arrays = {"table": np.ones((16, 16), "float32"), "ids": ids, "out": np.zeros((8, 16), "float32")}
    return pto.sweep(picked, **arrays, params={"column": [False, True]}, targets="a2a3,a5")


def test_points_are_launches_on_the_machine():
    assert [(point.target, point.params["rows"]) for point in swept().rows] == [
        (target, rows) for target in ("a2a3", "a5") for rows in ROWS
    ]
    for point in swept().rows:
        if point.cycles is not None:
            launch = scaled[-(-256 // point.params["rows"])]
            report = launch(X, OUT.copy(), rows=point.params["rows"], target=point.target, engine="machine")
            assert point.cycles == report.timeline.cycles and point.ok == report.ok
            assert point.bytes_moved == sum(each.bytes_moved for each in report.traffic)
            assert point.memory == {name: use.used for name, use in report.memory.items()}


def test_arrays_of_the_caller_stay_as_they_are():
    assert swept().rows and not OUT.any()


def test_the_best_point_has_the_fewest_cycles_of_those_that_are_clean():
    for target in ("a2a3", "a5"):
        cycles = {p.params["rows"]: p.cycles for p in swept().of(target) if p.ok}
        best = swept().best[target].point
        assert best.params["rows"] == min(cycles, key=cycles.get)
        assert [point for point in swept().of(target) if swept().is_best(point)] == [best]
    too_large = swept().of("a2a3")[-1]
    assert not too_large.ok and "H-22" in too_large.verdict  # more than UB has


def test_the_reason_compares_with_the_next_and_the_slowest_point():
    ranked = sorted((p for p in swept().of("a5") if p.ok), key=lambda p: p.cycles)
    reason = swept().best["a5"].reason
    for other in (ranked[1], ranked[-1]):
        assert f"{other.cycles / ranked[0].cycles:.2f} times as fast as {other.name}" in reason
    transfers = [point.executions for point in (ranked[0], ranked[-1])]
    assert (f"{transfers[0]:,} transfers instead of {transfers[1]:,}" in reason) == (transfers[0] < transfers[1])
    assert f"limit: {ranked[0].limits[0]}" in reason


def test_points_that_are_equally_slow_are_one_reason():
    equal = [replace(point, params={"rows": n}) for n, point in enumerate(swept().of("a5")[k] for k in (0, 1, 1))]
    best = best_of(equal)
    assert best and sum("times as fast" in reason for reason in best.reasons) == 1


def test_a_limit_that_goes_away_is_named():
    from ptokit.sweeps.best import COMPARED, best_of

    points = [point for point in swept().of("a2a3") if point.ok]
    one, other = best_of(points).point, max(points, key=lambda point: point.cycles)
    facts = [text for fact in COMPARED if (text := fact.text(one, other))]
    assert facts and all(text in swept().best["a2a3"].reason for text in facts[:3])
    assert [fact.text(one, one) for fact in COMPARED] == [""] * len(COMPARED)


def test_points_that_do_more_work_are_compared_by_their_work():
    arrays = [lambda p: np.zeros((p["n"], 64), "float32")] * 2
    found = pto.sweep(scaled, *arrays, params={"n": [16, 64]}, grid=lambda p: p.n // 16, targets=["a5"])
    few, many = found.rows
    assert few.cycles == many.cycles and many.bytes_used == 4 * few.bytes_used
    best = found.best["a5"]
    assert best.point is many and "4.00 times as fast for each byte that is used as n=16" in best.reason


def test_refused_points_stay_with_the_reason():
    verdicts = {(point.target, point.params["column"]): point for point in refused().rows}
    point = verdicts["a2a3", True]
    assert point.bytes_moved is not None and point.cycles is None and not point.ok
    assert point.verdict.startswith("refused: 1 error (H-09 at line ") and point.findings[0].message in point.verdict
    assert verdicts["a2a3", False].ok and verdicts["a2a3", False].verdict == "clean"
    assert refused().best["a2a3"].reason.startswith("no other point is slower")
    shown = str(refused()).splitlines()
    assert "refused: " in shown[2] and shown[5].startswith("best on a2a3: column=False")
    assert shown[6] == "    no other point is slower"


def test_a_launch_that_is_refused_altogether_is_a_point():
    def launch(target, values):
        raise pto.VerifyError([finding])

    finding = refused().of("a2a3")[1].findings[0]
    (point,) = run_points("k", launch, {"n": [1]}, ["a5"]).rows
    assert (
        point.bytes_moved is None
        and point.report is None
        and not point.ok
        and point.cycles is None
        and point.memory == {}
    )
    assert point.verdict.startswith("refused: ") and finding.message in point.verdict


def test_a_target_without_pipes_has_no_best_point():
    found = pto.sweep(scaled, X, OUT, params={"rows": [8]}, grid=32, targets=["cpu"])
    assert found.best == {} and found.rows[0].ok and found.rows[0].cycles is None
    assert found.rows[0].bytes_moved is not None and "clean" in str(found)


def test_csv_and_plain_data_have_exact_numbers(tmp_path):
    text = swept().to_csv(tmp_path / "points.csv")
    assert (tmp_path / "points.csv").read_text(encoding="utf-8") == text
    lines = [*csv.DictReader(io.StringIO(text))]
    plain = json.loads(json.dumps(swept().as_dict()))
    assert len(lines) == len(plain["rows"]) == len(swept().rows)
    for point, line, data in zip(swept().rows, lines, plain["rows"], strict=True):
        assert float(line["cycles"]) == data["cycles"] == point.cycles
        assert int(line["moved"]) == data["moved"] == point.bytes_moved
        assert int(line["UB"]) == data["memory"]["UB"] == point.memory["UB"]
        assert line["best"] == str(data["best"]) == str(swept().is_best(point))
    assert plain["best"]["a5"]["params"] == swept().best["a5"].point.params


def test_plain_data_has_no_numbers_that_json_lacks():
    rows = tuple(
        replace(point, params={"limit": limit}) for point, limit in zip(swept().rows, (np.inf, 0.5), strict=False)
    )
    data = json.dumps(replace(swept(), rows=rows).as_dict(), allow_nan=False)
    assert [row["params"]["limit"] for row in json.loads(data)["rows"]] == ["inf", 0.5]


def test_html_is_escaped():
    found = pto.sweep(scaled, X, OUT, params={"rows": [8]}, grid=lambda p: 4, targets="a5")
    page = SweepResult("k", tuple(replace(p, params={"a<b": "<i>"}) for p in found.rows))._repr_html_()
    assert ">a&lt;b</th>" in page and ">&lt;i&gt;</td>" in page and "<i>" not in page
    assert page.count("<tr") == 2 and "best on a5" in page
    point = replace(found.rows[0], params={"a<b": "<i>"})._repr_html_()
    assert "a&lt;b=&lt;i&gt; on a5" in point and "<i>" not in point and f"{found.rows[0].cycles:,.0f}" in point


def test_pictures_are_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    swept().plot(tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_bytes()
    swept().plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == picture and b"<svg" in picture and b"<dc:date>" not in picture
    refused().plot(tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG") and b"Software" not in (
        tmp_path / "b.png"
    ).read_bytes()


@pytest.mark.filterwarnings("error")
def test_labels_of_a_picture_are_short_and_as_they_are(tmp_path):
    figures = pytest.importorskip("matplotlib.figure", reason="pictures need matplotlib")
    values = ["$x^{", "b" * 300, "c\nd", *(f"value {k}" for k in range(97))]
    point = swept().rows[0]
    result = SweepResult("many", tuple(replace(point, params={"kind": value}) for value in values))
    result.plot(tmp_path / "many.svg")
    figure = figures.Figure()
    draw(figure, result)
    shown = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert shown == ["$x^{", "c d", *(f"value {k}" for k in range(1, 97, 2))]


def test_pictures_need_matplotlib_and_a_known_form(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.svg or \.png; found .*a\.gif"):
        swept().plot(tmp_path / "a.gif")
    monkeypatch.setattr("ptokit.sweeps.plot.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'ptokit\[plot\]'"):
        swept().plot(tmp_path / "a.svg")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"row": [1]}, "scaled has no parameter row; it has x, out, rows; did you mean rows?"),
        ({}, "a sweep has 1 to 1,000 points, found 0"),
        ({"rows": range(1, 502)}, "a sweep has 1 to 1,000 points, found 1,002"),
        ({"rows": "16"}, "the parameter rows takes a list of values, as in params={'rows': ['16']}"),
        ({"rows": 8}, "the parameter rows takes a list of values, as in params={'rows': [8]}"),
        ([("rows", 8)], "params takes lists of values by name, as in {'rows': [16, 32]}, got [('rows', 8)]"),
        ({"rows": []}, "the parameter rows takes a list of values"),
    ],
)
def test_misuse_is_explained(params, problem):
    with pytest.raises((TypeError, ValueError)) as caught:
        pto.sweep(scaled, X, OUT, params=params)
    assert problem in str(caught.value)


def test_a_function_of_values_names_parameters_that_exist():
    with pytest.raises(AttributeError, match=r"the sweep has no parameter row; did you mean rows\?"):
        pto.sweep(scaled, X, OUT, params={"rows": [8]}, grid=lambda p: p.row)
    with pytest.raises(TypeError, match="sweep takes a kernel"):
        pto.sweep(len, params={"rows": [8]})
    with pytest.raises(ValueError, match="unknown target"):
        pto.sweep(scaled, X, OUT, params={"rows": [8]}, targets=["a9"])


@pytest.mark.parametrize("grid", ["4", -1, 2.0, True, None, lambda p: p.rows / 2])
def test_a_wrong_grid_is_explained(grid):
    with pytest.raises(ValueError, match=r"grid takes a whole number from 0 up, or a function that returns one; found"):
        pto.sweep(scaled, X, OUT, params={"rows": [8]}, grid=grid)


def test_a_value_that_is_given_twice_is_one_point():
    found = pto.sweep(scaled, X, OUT, params={"rows": [8, 16, 8]}, grid=4, targets="a5")
    assert [point.params for point in found.rows] == [{"rows": 8}, {"rows": 16}]


def test_a_grid_without_blocks_is_no_clean_point_and_never_the_best():
    found = pto.sweep(scaled, X, OUT, params={"n": [0, 4]}, grid=lambda p: p.n, targets="a5")
    assert [point.verdict for point in found.rows] == ["nothing ran: the grid has no blocks", "clean"]
    assert found.best["a5"].point.params == {"n": 4}
    none = pto.sweep(scaled, X, OUT, params={"n": [0]}, grid=lambda p: p.n, targets="a5")
    assert none.best == {} and str(none).endswith("no best point on a5: nothing ran: the grid has no blocks")


def test_a_target_without_times_says_why():
    found = pto.sweep(scaled, X, OUT, params={"rows": [8]}, grid=4, targets=["cpu"])
    assert found.conclusions() == ["no best point on cpu: it has no pipes, so the machine has no model of its time"]
    errors = [replace(point, bytes_moved=None) for point in swept().rows]
    assert SweepResult("k", tuple(errors)).why_none("a5") == "no point is clean"


def test_only_the_report_of_the_best_point_is_kept():
    alive = weakref.WeakSet()

    def launch(target, values):
        report = scaled[4](X, OUT.copy(), rows=values["rows"], target=target, engine="machine")
        held = type("Held", (), {})()  # reports are compared by value, and cannot be in a set
        object.__setattr__(report, "held", held)
        alive.add(held)
        most.append(len(alive))
        return report

    most = []
    found = run_points("k", launch, {"rows": [1, 2, 4, 8, 16, 32]}, ["a2a3", "a5"])
    kept = {point.target: point.params for point in found.rows if point.report is not None}
    assert kept == {target: best.point.params for target, best in found.best.items()} and len(kept) == 2
    assert len(alive) == 2 and max(most) <= 2 + 2 + 1
    assert all(best.point.report.timeline.cycles == best.point.cycles for best in found.best.values())


def test_pictures_tell_equal_values_of_different_types_apart(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from ptokit.sweeps.plot import _place, _values

    point = swept().rows[0]
    values = [1, True, 1.0, [1, 2], {"a": 1}, np.arange(3)]
    odd = SweepResult("k", tuple(replace(point, params={"n": value}) for value in values))
    assert len(_values(odd)) == len(values)
    assert [_place(_values(odd), value) for value in values] == [*range(len(values))]
    odd.plot(tmp_path / "a.svg")
