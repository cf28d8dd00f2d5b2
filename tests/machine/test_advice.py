"""Advice of the machine: its gain is what the changed program gains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine.advice import AHEAD, Advice
from ptokit.machine.timeline import Timeline

TARGETS = ("a2a3", "a5")
targets = pytest.mark.parametrize("target", TARGETS)


@pto.kernel
def gather(table, idx, out, mode: pto.const):
    shape = (1, idx.shape[-1]) if mode == "row" else out.shape
    ids = pto.Tile("vec", "int32", *shape)
    rows = pto.Tile("vec", table.dtype, *out.shape)
    pto.tload(ids, idx)
    pto.mgather(rows, table, ids, coalesce=mode)
    pto.tstore(out, rows)


def gathered(mode: str, target: str, rows: int = 32, cols: int = 32) -> Timeline:
    table, out = np.zeros((64, cols), "float32"), np.zeros((rows, cols), "float32")
    idx = np.arange(rows)[None] if mode == "row" else np.arange(rows * cols).reshape(rows, cols)
    return gather[1](table, idx.astype("int32"), out, mode, target=target, engine="machine").timeline


def of_line(timeline: Timeline, word: str) -> Advice | None:
    return next((each for each in timeline.advice if word in each), None)


@targets
def test_a_gather_of_rows_is_not_advised_to_gather_rows(target: str) -> None:
    assert of_line(gathered("row", target), "instead of elements") is None


def gather_cycles(timeline: Timeline) -> float:
    """From the first start to the last end of the gather."""
    spans = [work for work in timeline.works if work.what == "mgather"]
    return max(span.end for span in spans) - min(span.start for span in spans)


@pytest.mark.parametrize(("target", "shape"), [("a2a3", (32, 32)), ("a2a3", (8, 16)), ("a5", (64, 64))])
def test_rows_instead_of_elements_gain_what_the_gather_of_rows_takes_less(target: str, shape: tuple[int, int]) -> None:
    by_element, by_row = gathered("elem", target, *shape), gathered("row", target, *shape)
    found = of_line(by_element, "whole rows instead of elements")
    difference = gather_cycles(by_element) - gather_cycles(by_row)
    assert found is not None and found.gain == pytest.approx(difference, rel=0.02)
    assert found.startswith("mgather (line 24): ") and f"saves {found.gain:,.0f} cycles" in found


@targets
@pytest.mark.parametrize("rows", [16, 64])
def test_longer_rows_gain_what_the_gather_of_longer_rows_takes_less(target: str, rows: int) -> None:
    now, then = gathered("row", target, rows, 32), gathered("row", target, rows // 2, 64)
    difference = gather_cycles(now) - gather_cycles(then)
    found = of_line(now, "half as many rows, twice as long")
    assert (found.gain if found else 0) == pytest.approx(max(0, difference), rel=0.01)
    assert found is not None or difference < 0.01 * now.cycles


@pto.kernel
def copy(x, out):
    t = pto.Tile("vec", "float32", *x.shape)
    pto.tload(t, x)
    pto.tstore(out, t)


@targets
def test_one_piece_gains_what_one_burst_takes_less(target: str) -> None:
    def run(*shape: int) -> Timeline:
        return copy[1](np.zeros(shape, "float32"), np.zeros(shape, "float32"), target=target, engine="machine").timeline

    many, one = run(64, 16), run(1, 1024)
    gains = [each.gain for each in many.advice]
    assert all("as one row of 1,024, since the array is contiguous" in each for each in many.advice)
    assert len(gains) == 2
    assert many.cycles - sum(gains) == pytest.approx(one.cycles)
    assert one.advice == ()  # nothing gains


@targets
def test_an_array_with_gaps_is_not_called_contiguous(target: str) -> None:
    wide, out = np.zeros((64, 48), "float32"), np.zeros((64, 16), "float32")
    load, store = sorted(copy[1](wide[:, :16], out, target=target, engine="machine").timeline.advice, key=str)
    assert "tload" in load and "in one contiguous piece" in load
    assert "tstore" in store and "since the array is contiguous" in store


@pto.kernel
def on_one_line(x, out):
    t = pto.Tile("vec", "float32", 1, 64)
    pto.tload(t, x), pto.tadd(t, t, t), pto.tstore(out, t)


@targets
def test_a_load_among_other_statements_of_a_line_is_not_repeated(target: str) -> None:
    report = on_one_line[1](np.zeros((1, 64), "float32"), np.zeros((1, 64), "float32"), target=target, engine="machine")
    assert not any("double buffering" in each for each in report.timeline.advice)


def piped(tiles: int) -> Callable[..., object]:
    """Load, compute and store in a loop; loads go to one tile or to several in turn."""

    def body(x, out, trips: pto.const):
        done = pto.Tile("vec", "float32", 32, 64, addr=0)
        ins = [pto.Tile("vec", "float32", 32, 64, addr=(k + 1) * 8192) for k in range(tiles)]
        for i in range(trips):
            k, here = i % tiles, slice(i * 32, i * 32 + 32)
            if i >= tiles:
                pto.wait_flag("V", "MTE2", k)
            pto.tload(ins[k], x[here])
            pto.set_flag("MTE2", "V", k)
            pto.wait_flag("MTE2", "V", k)
            if i:
                pto.wait_flag("MTE3", "V", 0)
            pto.texp(done, ins[k])
            pto.set_flag("V", "MTE2", k)
            pto.set_flag("V", "MTE3", 0)
            pto.wait_flag("V", "MTE3", 0)
            pto.tstore(out[here], done)
            pto.set_flag("MTE3", "V", 0)
        for k in range(tiles):
            pto.wait_flag("V", "MTE2", k)
        pto.wait_flag("MTE3", "V", 0)

    return pto.kernel(mode="manual")(body)


ONE, TWO = piped(1), piped(2)


@targets
@pytest.mark.parametrize("trips", [4, 12])
def test_double_buffering_gains_what_a_kernel_with_two_tiles_takes_less(target: str, trips: int) -> None:
    x, out = np.zeros((32 * trips, 64), "float32"), np.zeros((32 * trips, 64), "float32")
    one, two = (k[1](x, out, trips, target=target, engine="machine") for k in (ONE, TWO))
    assert one.ok and two.ok, (one.findings, two.findings)
    found = [each for each in one.timeline.advice if AHEAD in each]
    assert len(found) == 1  # one line, however often it runs
    assert found[0].gain == pytest.approx(one.timeline.cycles - two.timeline.cycles, rel=0.02)
    assert found[0].share == pytest.approx(found[0].gain / one.timeline.cycles)
    assert found[0].where is not None and found[0].where.line == ONE.function.__code__.co_firstlineno + 7


@targets
def test_a_load_that_nothing_waits_for_gains_nothing(target: str) -> None:
    assert not any(AHEAD in each for each in gathered("row", target).advice)


def test_advice_is_in_the_report_and_in_the_data() -> None:
    timeline = gathered("elem", "a2a3")
    data = timeline.as_dict()
    assert data["advice"] == [str(each) for each in timeline.advice] and timeline.advice
    assert [each["cycles"] for each in data["gains"]] == [each.gain for each in timeline.advice]
    assert all(each in str(timeline) for each in timeline.advice)
    assert [each.gain for each in timeline.advice] == sorted((each.gain for each in timeline.advice), reverse=True)


def test_advice_of_a_very_long_block_says_which_part_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptokit.machine.advice.MOST_OPERATIONS", 60)
    x, out = np.zeros((32 * 12, 64), "float32"), np.zeros((32 * 12, 64), "float32")
    timeline = ONE[1](x, out, 12, target="a5", engine="machine").timeline
    assert timeline.advice and all(each.endswith("in the first 60 steps") for each in timeline.advice)
