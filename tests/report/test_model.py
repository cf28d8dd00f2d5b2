from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.report.compare import RefusedTarget
from ptokit.report.html import embedded, page_of
from ptokit.report.model import report_data
from tests.report.launches import TABLE, TOKENS, clean, cube, faulty


def target(report=None, name="a5"):
    return report_data([report or clean(name)])["targets"][name]


def test_works_and_cycles_are_those_of_the_timeline():
    line, data = clean().timeline, target()["timeline"]
    names = [pipe["id"] for pipe in data["pipes"]]
    assert [(names[p], start, end, number) for p, start, end, number, _, _ in data["works"]] == [
        (work.pipe, work.start, work.end, work.number) for work in line.works
    ]
    assert data["cycles"] == line.cycles
    texts = {data["statements"][work.number]["instruction"] for work in line.works}
    assert texts == {"tload", "mgather", "tstore"}


def test_the_critical_path_is_marked_and_has_no_gap_in_time():
    data = target()["timeline"]
    marked = [(work[1], work[2]) for work in data["works"] if work[5]]
    assert len(marked) == len(clean().timeline.critical)
    assert all(one[1] <= other[0] + 1e-6 for one, other in pairwise(sorted(marked)))


def test_an_arrow_leads_from_an_earlier_piece_of_work_to_a_later_one():
    data = target()["timeline"]
    works = data["works"]
    held = [arrow for arrow in data["arrows"] if arrow[7] and arrow[8] >= 0 and arrow[9] >= 0]
    assert held
    for src, start, dst, end, kind, number, block, _, after, before in held:
        assert kind == "flag" and number in {"0", "1", "2", "3"}
        ended = [work[2] for work in works if work[0] == src and work[3] == after and work[4] == block]
        began = [work[1] for work in works if work[0] == dst and work[3] == before and work[4] == block]
        assert any(abs(start - time) < 1e-6 for time in ended)
        assert start < end and any(end <= time + 1e-6 for time in began)


def test_lines_have_the_cycles_of_their_works():
    line, data = clean().timeline, target()
    (file,) = data["lines"]
    for number in {work.where.line for work in line.works}:
        cycles = sum(work.end - work.start for work in line.works if work.where.line == number)
        assert data["lines"][file][str(number)]["cycles"] == pytest.approx(cycles)
    assert sum(entry["share"] for entry in data["lines"][file].values()) == pytest.approx(1)


def test_live_ranges_follow_the_two_buffers():
    (memory,) = target()["memory"]
    ranges = sorted((each for each in memory["live"] if each["name"] == "t"), key=lambda each: each["start"])
    assert len(ranges) == 4
    assert [each["first"] for each in ranges] == [ranges[0]["first"], ranges[1]["first"]] * 2
    assert ranges[0]["first"] != ranges[1]["first"]
    for each in ranges:
        others = [o for o in memory["live"] if o is not each and o["first"] < each["end"] and each["first"] < o["end"]]
        assert all(o["stop"] <= each["start"] or each["stop"] <= o["start"] for o in others)


def test_bytes_under_way_end_at_zero_and_never_exceed_what_is_moved():
    steps = target()["timeline"]["in_flight"]
    assert steps[-1][1] == 0
    assert 0 < max(count for _, count in steps) <= sum(each.bytes_moved for each in clean().traffic)
    assert [time for time, _ in steps] == sorted(time for time, _ in steps)


def test_access_maps_count_every_lane():
    (access,) = target()["access"]
    cells = np.minimum(TOKENS, len(TABLE) - 1)
    assert access["by_cell"] == {"size": 1, "counts": np.bincount(cells, minlength=len(TABLE)).tolist()}
    assert access["lines"] == {**access["by_cell"], "bytes": 128, "total": 100, "touched": 50, "repeated": 1}
    assert access["repeated"] == 1
    assert (access["lanes"], access["outside_above"], access["outside_below"]) == (64, 14, 0)
    assert access["counts"] == {"in bounds": 50, "clamped": 14}
    assert (access["table"], access["unit"], access["cells"], access["lane_bytes"]) == ("table", "row", 100, 128)
    assert access["repeats"] == [[99, 15]]
    assert sum(access["histogram"]["counts"]) == 64
    assert [row[2] for row in access["listed"]["rows"]] == TOKENS.tolist()


def test_bins_of_large_tables_are_bounded():
    from ptokit.report.access import MOST_BINS, _binned

    bins = _binned(np.array([0, 999_999]), 1_000_000)["counts"]
    assert len(bins) <= MOST_BINS and bins[0] == bins[-1] == 1


def test_layouts_give_the_offsets_of_the_tiles():
    for tile in target()["tiles"]:
        spec = clean().program.tiles[tile["name"]].spec
        i, j = np.indices((spec.rows, spec.cols))
        parts = [
            sum((value // div % mod if mod else value // div) * stride for div, mod, stride in tile["layout"][axis])
            for axis, value in (("rows", i), ("cols", j))
        ]
        assert np.array_equal(sum(parts) + tile["layout"]["start"], spec.layout.offset(i, j))


def test_a_fault_has_its_line_and_its_repair():
    data = target(faulty())
    (finding,) = [each for each in data["findings"] if each["level"] == "error"]
    source = report_data([faulty()])["sources"][0]
    line = source["text"].split("\n")[finding["where"]["line"] - source["first_line"]]
    assert line.strip() == "pto.tstore(out, found)"
    assert any('+    pto.set_flag("V", "MTE3", 0)' in repair["diff"] for repair in data["repairs"])


def test_targets_side_by_side():
    data = report_data([clean("a5"), clean("a2a3"), clean("cpu"), RefusedTarget("host", faulty().findings)])
    compared = {each["what"]: each["values"] for each in data["comparison"]["values"]}
    assert compared["cycles"] == {
        "a5": clean("a5").timeline.cycles, "a2a3": clean("a2a3").timeline.cycles, "cpu": None, "host": None
    }  # fmt: skip
    assert compared["verdict"]["a5"] == "clean" and compared["verdict"]["host"].startswith("refused")
    assert data["shown"] == "a5"


def test_differences_name_the_statements_that_make_them():
    data = report_data([clean("a5"), clean("a2a3"), clean("cpu")])["comparison"]
    why = {each["what"]: each["why"] for each in data["values"]}
    line = next(work.where.line for work in clean().timeline.works if work.what == "mgather")
    cycles = {
        name: sum(work.end - work.start for work in clean(name).timeline.works if work.what == "mgather")
        for name in ("a5", "a2a3")
    }
    (gather,) = [each for each in data["statements"] if each["instruction"] == "mgather"]
    assert {name: own["cycles"] for name, own in gather["targets"].items() if own["cycles"]} == pytest.approx(cycles)
    assert any(
        text.startswith(f"mgather (line {line}): {cycles['a5']:,.0f} cycles of V on a5") for text in why["cycles"]
    )
    assert "cpu has no pipes, so no cycles." in why["cycles"] and why["verdict"] == ["All targets agree."]


def test_a_sum_in_place_is_one_live_range():
    memories = {each["name"]: each["live"] for each in target(cube())["memory"]}
    (total,) = memories["L0C"]
    names = [cube().timeline.statements[number].instruction for number in total["reads"] + total["writes"]]
    assert sorted(names) == ["tmatmul", "tmatmul_acc", "tstore"]
    assert {*memories} == {"L1", "L0A", "L0B", "L0C"} and len(memories["L1"]) == 2


def test_lines_of_rows_that_do_not_fit_them():
    @pto.kernel
    def wide(table, ids, out):
        index, t = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 40)
        pto.tload(index, ids)
        pto.mgather(t, table[3:], index, oob="zero")
        pto.tstore(out, t)

    ids = np.array([0, 5, 5, 9, 16, 17, 2, 1], "int32")
    table, out = np.zeros((20, 40), "float32"), np.zeros((8, 40), "float32")
    report = wide[1](table, ids, out, target="a5", engine="machine", options=pto.MachineOptions(lanes=True))
    (access,) = target(report)["access"]
    counts = [0] * 25
    for row in ids[ids < 17]:
        for line in {((row + 3) * 160 + byte) // 128 for byte in range(160)}:
            counts[line] += 1
    assert access["lines"]["counts"] == counts and access["outside_above"] == 1


def test_embedded_data_is_read_back_and_ends_no_element():
    data = {"title": "</script><!-- \u2028", "text": "<b>"}
    text = embedded(data)
    assert "<" not in text and "\u2028" not in text
    assert json.loads(text) == data


def test_the_page_has_all_parts_and_no_address(tmp_path: Path):
    path = tmp_path / "report.html"
    clean().to_html(path, clean("a2a3"))
    page = path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    before, _, rest = page.partition('type="application/json">')
    own = before + rest.partition("</script>")[2]
    for mark in ("{{", "/*style*/", "/*script*/", "http://", "https://", "src="):
        assert mark not in own
    hostile = page_of([report_data([clean()], title="<img src=x onerror=alert(1)>")])
    assert "<img" not in hostile


def test_a_report_that_no_launch_made_has_no_page(tmp_path: Path):
    from dataclasses import replace

    from ptokit.machine.report import no_page

    with pytest.raises(ValueError, match="report of a launch"):
        replace(clean(), pages=no_page).to_html(tmp_path / "x.html")


def test_a_page_has_one_report_of_a_target():
    with pytest.raises(ValueError, match="one report of each target"):
        report_data([clean(), clean()])
    with pytest.raises(ValueError, match="at least one"):
        report_data([])


def test_a_title_is_only_a_title():
    page = page_of([{**report_data([clean()]), "title": "{{data}} \udcff"}])
    assert "<title>{{data}} ? – ptokit report</title>" in page
