from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.report.compare import RefusedTarget
from ptokit.report.model import embedded, page_of, report_data
from tests.report.launches import TABLE, TOKENS, clean, cube, faulty, many, ordered


def target(report=None, name="a5"):
    return report_data([clean(name) if report is None else report])["targets"][name]


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


def test_flags_of_the_program_are_arrows_also_where_a_pipe_has_no_work():
    """On A2/A3 a gather runs on S and MTE2, though the program's flags name V."""
    out = np.zeros((16, 32), "float32")
    report = ordered[1](TABLE, TOKENS[:16], out, target="a2a3", engine="machine")
    line = report_data([report])["targets"]["a2a3"]["timeline"]
    assert [pipe["pipe"] for pipe in line["pipes"]] == ["S", "V", "MTE2", "MTE3"]
    assert {pipe["id"]: pipe["busy"] for pipe in line["pipes"]} == {**report.timeline.busy, "AIV.V": 0}
    flags = [(arrow[0], arrow[2]) for arrow in line["arrows"] if arrow[4] == "flag"]
    assert flags == [(2, 1), (1, 3)]


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

    bins = _binned(np.array([0, 999_999]), np.array([1, 1]), 1_000_000)["counts"]
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


def test_cycles_of_lines_and_statements_are_of_all_work_of_a_long_block():
    """The timeline keeps 30 pieces of work; the numbers are those of a run that keeps all."""
    tokens, out = TOKENS, np.zeros((64, 32), "float32")
    reports = {
        target: [
            many[1](
                TABLE, tokens, out, count=100, target=target, engine="machine",
                options=pto.MachineOptions(timeline=keep),
            )
            for keep in (30, 10_000)
        ]
        for target in ("a5", "a2a3")
    }  # fmt: skip
    short, whole = (report_data([own[k] for own in reports.values()]) for k in (0, 1))
    assert short["targets"]["a5"]["timeline"]["dropped"] > 0 == whole["targets"]["a5"]["timeline"]["dropped"]
    assert short["targets"]["a5"]["timeline"]["drawn"] < reports["a5"][0].timeline.longest_cycles
    assert short["comparison"] == whole["comparison"]
    for name in reports:
        assert short["targets"][name]["lines"] == whole["targets"][name]["lines"]
    marked = [[work[:5] for work in each["targets"]["a5"]["timeline"]["works"] if work[5]] for each in (short, whole)]
    assert marked[0] and marked[0] == [work for work in marked[1] if work in marked[0]]
    drawn = [work[:5] for work in short["targets"]["a5"]["timeline"]["works"]]
    assert [work for work in marked[1] if work in drawn] == marked[0]


def test_very_many_steps_of_the_counter_are_merged_by_their_largest_value():
    from ptokit.report.model import MOST_STEPS, _in_flight

    steps = [(float(k), k % 7) for k in range(3 * MOST_STEPS - 1)] + [(3.0 * MOST_STEPS, 0)]
    found = _in_flight(steps)
    assert found["in_flight_merged"] == 3 and len(found["in_flight"]) == MOST_STEPS + 1
    assert found["in_flight"][:-1] == [
        (float(3 * k), max(c for _, c in steps[3 * k : 3 * k + 3])) for k in range(MOST_STEPS)
    ]
    assert found["in_flight"][-1] == steps[-1]
    assert _in_flight(steps[:10]) == {"in_flight": steps[:10], "in_flight_merged": 1}
    assert _in_flight([]) == {"in_flight": [], "in_flight_merged": 1}


def test_targets_that_move_bytes_in_the_same_way_are_named_together():
    from ptokit.report.compare import _by_value

    assert _by_value({"a5": "in 4 bursts", "a2a3": "in 2 bursts", "a6": "in 4 bursts"}) == {
        "in 4 bursts": ["a5", "a6"], "in 2 bursts": ["a2a3"]
    }  # fmt: skip


@pytest.mark.parametrize(("policy", "moved"), [("clamp", 2), ("wrap", 2), ("zero", 0)])
def test_only_indices_that_a_policy_moves_are_counted_as_moved(policy: str, moved: int):
    @pto.kernel
    def few(table, ids, out):
        index, t = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 32)
        pto.tload(index, ids)
        pto.mgather(t, table, index, oob=policy)
        pto.tstore(out, t)

    ids = np.array([0, 5, 5, 9, 16, 107, -3, 1], "int32")
    report = few[1](
        TABLE, ids, np.zeros((8, 32), "float32"), target="a5", engine="machine", options=pto.MachineOptions(lanes=True)
    )
    (access,) = target(report)["access"]
    assert access["moved_by_policy"] == moved and access["outside_below"] + access["outside_above"] == 2


def test_a_page_compares_reports_of_one_launch(tmp_path: Path):
    with pytest.raises(ValueError, match=r"their kernels differ: rows on a5 and unordered on a2a3"):
        clean().to_html(tmp_path / "x.html", replace(faulty(), target="a2a3"))
    with pytest.raises(ValueError, match=r"their numbers of blocks differ: 1 on a5 and 2 on a2a3"):
        clean().to_html(tmp_path / "x.html", replace(clean("a2a3"), grid=2))
    other = replace(clean("a2a3"), program=replace(clean().program, arguments=clean().program.arguments[:2]))
    with pytest.raises(ValueError, match=r"their arguments differ: table float32, tokens int32, out float32 on a5 and"):
        clean().to_html(tmp_path / "x.html", other)
    assert [*tmp_path.iterdir()] == []


def test_a_target_that_runs_with_errors_is_not_called_refusing():
    data = report_data([faulty(), RefusedTarget("a2a3", faulty().findings)])["targets"]
    assert [(own["accepted"], own["refused"]) for own in data.values()] == [(False, False), (False, True)]
