"""Reports in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ptokit.report.model import report_data
from tests.report.browser import DESKTOP, PHONE, OpenPage
from tests.report.launches import TOKENS, clean, cube, faulty

Open = Callable[..., OpenPage]
SHORTEST = 0.004
"""The least share of the picture that is pointed at."""


def works() -> list[list[Any]]:
    return report_data([clean()])["targets"]["a5"]["timeline"]["works"]


def box_of(page: OpenPage, start: float, pipe: int) -> tuple[float, float]:
    """The middle of the box of a piece of work."""
    found = page.run(
        "plot.boxes.find((each) => each.item.start === values[0] && each.item.pipe === values[1])", start, pipe
    )
    return found["x"] + found["w"] / 2, found["y"] + found["h"] / 2


@pytest.mark.parametrize("name", ["clean", "faulty", "cube"])
def test_pages_are_drawn_without_an_error_and_fit_a_phone(name: str, opened: Open) -> None:
    page = opened(name)
    for section in ("summary", "source", "timeline", "memory", "access", "tiles", "targets"):
        assert page.page.locator(f"#{section} .body > *").count() > 0, section
    for target in page.run("Object.keys(report.data().targets)"):
        page.page.select_option("#target", target)
        assert page.run("report.target()") == target
        for size in (DESKTOP, PHONE):
            page.page.set_viewport_size(size)
            assert page.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_summary_tells_refusals_from_runs_with_errors(opened: Open) -> None:
    text = opened("faulty").page.locator("#summary .cards").text_content()
    assert "refused by a2a3; not accepted by a5" in text


def test_a_target_without_a_timeline_says_why(opened: Open) -> None:
    page = opened("faulty")
    for is_refused, reason in ((True, "a2a3 refuses the program"), (False, "a2a3 has no pipes")):
        page.run("(report.data().targets.a2a3.refused = values[0], 0)", is_refused)
        page.page.select_option("#target", "a5")
        page.page.select_option("#target", "a2a3")
        assert reason in page.page.locator("#timeline").text_content()


def test_a_page_of_a_long_block_says_what_is_not_drawn(opened: Open) -> None:
    page = opened("cut")
    assert (
        "is not drawn; cycles of lines and statements are of all work" in page.page.locator("#timeline").text_content()
    )


def test_names_are_shown_as_text(opened: Open) -> None:
    page = opened("hostile")
    assert page.page.locator("h1").text_content().startswith("<img src=x")
    assert page.page.locator("img").count() == 0


def test_the_timeline_zooms_and_pans(opened: Open) -> None:
    page = opened("clean")
    cycles = clean().timeline.longest_cycles
    assert page.run("[report.view.from, report.view.to]") == [0, cycles]
    views, pictures = [(0, cycles)], [page.pixels()]
    page.page.locator("#timeline .plot").focus()
    for action in (
        lambda: page.page.get_by_role("button", name="Zoom in").click(),
        lambda: page.page.locator("#timeline .plot").press("+"),
        lambda: page.page.locator("#timeline .plot").press("ArrowRight"),
        lambda: _wheel(page),
        lambda: _drag(page),
    ):
        action()
        views.append(tuple(page.run("[report.view.from, report.view.to]")))
        pictures.append(page.pixels())
    spans = [round(end - start, 6) for start, end in views]
    assert spans[1] == pytest.approx(cycles / 2) and spans[2] == pytest.approx(0.7 * spans[1])
    assert spans[3] == spans[2] and views[3][0] == pytest.approx(views[2][0] + 0.2 * spans[2])
    assert spans[4] == pytest.approx(0.8 * spans[3], rel=1e-3) and spans[5] == pytest.approx(spans[4])
    assert views[5][0] < views[4][0]
    assert all(one != other for one, other in pairwise(pictures))
    page.page.locator("#timeline .plot").press("Home")
    assert tuple(page.run("[report.view.from, report.view.to]")) == views[0] and page.pixels() == pictures[0]


def _wheel(page: OpenPage) -> None:
    page.point_at(0, 600, 40)
    page.page.keyboard.down("Shift")
    page.page.mouse.wheel(0, -100)
    page.page.keyboard.up("Shift")
    page.page.wait_for_timeout(50)


def _drag(page: OpenPage) -> None:
    page.point_at(0, 500, 40)
    page.page.mouse.down()
    page.page.mouse.move(page.page.locator("canvas").first.bounding_box()["x"] + 700, 300)
    page.page.mouse.up()


def test_the_hover_text_of_work_is_its_data(opened: Open) -> None:
    page = opened("clean")
    line = clean().timeline
    shown = [work for work in works() if work[2] - work[1] > SHORTEST * line.longest_cycles]
    assert {line.statements[work[3]].instruction for work in shown} == {"tload", "mgather", "tstore"}
    for pipe, start, end, number, _, critical in shown:
        statement = line.statements[number]
        text = page.point_at(0, *box_of(page, start, pipe)).split("\n")
        assert text[0] == statement.text
        assert f"cycle {start:,.0f} to {end:,.0f}" in text[1]
        assert ("critical path" in text[1]) == bool(critical)
        assert text[2 : 2 + len(statement.operands)] == [
            f"{each.role}: {each.name} ({each.memory}, {each.access})" for each in statement.operands
        ]
        assert f"{statement.nbytes:,} bytes of global memory" in text
        assert text[-1].endswith(f":{statement.where.line}")


def test_the_hover_text_names_what_work_waited_for(opened: Open) -> None:
    page = opened("clean")
    line = clean().timeline
    gather = next(work for work in line.works if work.what == "mgather")
    (arrow,) = [each for each in line.arrows if each.dst == gather.pipe and each.is_held and each.end <= gather.start][
        :1
    ]
    text = page.point_at(0, *box_of(page, gather.start, [*line.busy].index(gather.pipe)))
    assert f"waited for {arrow.src}: flag {arrow.id} after tload" in text


def test_memory_maps_show_live_ranges_and_free_bytes(opened: Open) -> None:
    page = opened("clean")
    (memory,) = report_data([clean()])["targets"]["a5"]["memory"]
    tile = max(memory["live"], key=lambda each: each["end"] - each["first"])
    boxes = page.run("report.pictures()[1].boxes.map(({ x, y, w, h, item }) => [x, y, w, h, item.low, item.start])")
    x, y, w, h = next(box[:4] for box in boxes if box[4:] == [tile["first"], tile["start"]])
    text = page.point_at(1, x + w / 2, y + h / 2)
    size = tile["end"] - tile["first"]
    assert text.startswith(f"{tile['name']}: {tile['first']:#x} to {tile['end']:#x}, {size:,} bytes\n")
    assert re.search(r"written by mgather .*\nread by tstore", text)
    end = clean().timeline.longest_cycles
    live = [each["end"] for each in memory["live"] if each["start"] <= end * 0.001 <= each["stop"]]
    free = page.point_at(1, 102, 20)
    assert free.startswith("free at cycle") and f"{max(live, default=0):#x} to {memory['used']:#x}" in free


def test_access_maps_show_every_lane(opened: Open) -> None:
    page = opened("clean")
    lanes = page.run("report.pictures()[2].boxes.map(({ x, y, w, h }) => [x + w / 2, y + h / 2])")
    texts = [page.point_at(2, *lanes[k]) for k in (0, 30)]
    assert texts[0] == f"block 0, lane 0: index {TOKENS[0]} is in bounds\nrow {TOKENS[0]} of table"
    assert texts[1] == f"block 0, lane 14: index {TOKENS[30]} is in bounds\nrow {TOKENS[30]} of table"
    assert len(lanes) == 64 + 14  # those outside are shown where they pointed to, too
    assert "15 lanes" in page.point_at(
        3, *page.run("(({ x, y, w, h }) => [x + w / 2, y + h / 2])(report.pictures()[3].boxes.at(-1))")
    )


def test_a_tile_has_the_same_element_in_both_orders(opened: Open) -> None:
    page = opened("cube")
    spec = cube().program.tiles["a"].spec
    assert spec.format == "nz" and "A box is 16 x 16 elements" in page.page.locator("#tiles").text_content()
    grids = page.page.locator("#tiles canvas")
    grids.first.scroll_into_view_if_needed()
    box, size = grids.first.bounding_box(), grids.first.bounding_box()["width"] / 32
    before = [page.page.evaluate("(e) => e.toDataURL()", grids.nth(k).element_handle()) for k in (0, 1)]
    page.page.mouse.move(box["x"] + 20.5 * size, box["y"] + 3.5 * size)
    offset = int(spec.layout.offset(3, 20))
    expected = f"row 3, column 20 is element {offset:,}, byte {offset * 2:#x} of L1"
    assert page.tip() == page.page.locator("#tiles output").text_content() == expected
    after = [page.page.evaluate("(e) => e.toDataURL()", grids.nth(k).element_handle()) for k in (0, 1)]
    assert before[0] != after[0] and before[1] != after[1]
    page.page.locator("#tiles .plot").nth(1).press("ArrowRight")
    assert f"element {offset + 1:,}," in page.page.locator("#tiles output").text_content()


def test_a_finding_leads_to_its_line_and_back(opened: Open) -> None:
    page = opened("faulty")
    (finding,) = [each for each in faulty().findings if each.level == "error"]
    page.page.locator("#summary .findings a").first.click()
    row = page.page.locator(f"#L0-{finding.where.line}")
    assert page.page.evaluate("location.hash") == f"#L0-{finding.where.line}"
    assert row.locator("td").last.text_content().strip() == "pto.tstore(out, found)"
    top = row.bounding_box()["y"]
    assert page.page.locator("header").bounding_box()["height"] <= top < DESKTOP["height"]
    assert finding.message in page.page.locator(f"#L0-{finding.where.line} + tr").text_content()
    page.page.locator(f"#L0-{finding.where.line} + tr a").click()
    assert page.page.locator("li:target").text_content().startswith("error")
    added = page.page.locator(".diff .add").all_text_contents()
    assert added == ['+    pto.set_flag("V", "MTE3", 0)', '+    pto.wait_flag("V", "MTE3", 0)']


def test_all_work_can_be_reached_by_keys(opened: Open) -> None:
    page = opened("clean")
    plot, text = page.page.locator("#timeline .plot"), page.page.locator("#timeline output")
    plot.focus()
    seen: list[str] = []
    for _ in works():
        plot.press("n")
        seen.append(text.text_content().split("\n")[0])
    line = clean().timeline
    assert sorted(seen) == sorted(line.statements[work.number].text for work in line.works)
    plot.press("Enter")
    assert page.page.evaluate("location.hash").startswith("#L0-")
    page.page.locator("#timeline summary").press("Enter")
    page.page.locator("#timeline tbody tr").first.wait_for()
    assert page.page.locator("#timeline tbody tr").count() == len(line.works)


def test_keys_go_on_from_work_that_shares_a_pixel(opened: Open) -> None:
    page = opened("long")
    page.page.set_viewport_size(PHONE)
    chosen = page.run(
        "(plot.choose(plot.boxes.find((each) => each.item.one && each.x > 150).item), plot.chosen.one.start)"
    )
    assert page.run("plot.items[plot.items.indexOf(plot.chosen.one)].start") == chosen
    following = page.run("plot.items[plot.items.indexOf(plot.chosen.one) + 1].start")
    assert page.run("(plot.step(1), plot.chosen.start)") == following >= chosen > 0


def test_launches_of_one_page_are_chosen(opened: Open) -> None:
    page = opened("several")
    assert page.page.locator("h1").text_content() == "first"
    page.page.select_option("#program", label="second")
    assert page.page.locator("h1").text_content() == "second"
    assert page.page.locator("#summary .findings li").count() == len(faulty().findings)


def test_no_serious_barrier_for_anybody(opened: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened("faulty")
    page.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.page.evaluate(
        "document.querySelectorAll('.code tr:not(.found, .found + tr)').forEach((each, k) => k < 60 || each.remove())"
    )
    for theme in ("light", "dark"):
        assert page.page.evaluate("document.documentElement.dataset.theme") == theme
        violations = axe.Axe().run(page.page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [each["help"] for each in violations if each["impact"] in ("serious", "critical")] == []
        page.page.locator("#theme").click()


def test_a_zoom_step_draws_only_what_is_visible(opened: Open) -> None:
    page = opened("long")
    line = page.run("report.data().targets.a5.timeline")
    assert len(line["works"]) == 999
    whole = page.run("plot.drawn")
    page.run("report.zoom(0.02)")
    low, high = page.run("[report.view.from, report.view.to]")
    seen = sum(work[1] <= high and work[2] >= low for work in line["works"])
    flags = sum(arrow[1] <= high and arrow[3] >= low for arrow in line["arrows"])
    assert 0 < page.run("plot.drawn") <= seen + flags < whole / 10
    wide = page.run("plot.width")
    page.run("(report.setView(0, report.view.whole), 0)")
    assert page.run("plot.drawn") <= len(line["pipes"]) * wide + len(line["arrows"])
