"""Objects in notebooks: fragments are well-formed, escaped, bounded, and show the data."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import ptokit as pto
from ptokit import markup
from ptokit.finding import Finding, Where, findings_html
from ptokit.isa.dtype import dtype
from ptokit.machine.report import MachineReport
from tests.report.launches import TABLE, TOKENS, clean, faulty, many, rows

HOSTILE = "<script>alert('&\"')</script>\x1b[2J\u202e"
ALLOWED = {"div", "table", "tr", "th", "td", "pre", "code", "strong", "span"}


class Fragment(HTMLParser):
    """The text of a fragment; every tag is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style", "scope", "title", "tabindex"}
        assert not any("url(" in (value or "") for _, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def words(shown: object) -> str:
    """The text that a notebook shows."""
    html = shown if isinstance(shown, str) else shown._repr_html_()  # type: ignore[attr-defined]
    fragment = Fragment(html)
    assert fragment.tags <= ALLOWED
    return " ".join(" ".join(fragment.text).split())


def out() -> np.ndarray:
    return np.zeros((64, 32), "float32")


def test_a_tile_shows_its_description_and_its_values() -> None:
    tile = pto.Tile("vec", "int32", 4, 8, valid=(2, 3)).write(np.array([[7, 8, 9], [10, 11, 12]], "int32"))
    text = words(tile)
    for part in ("vec", "int32", "4 x 8, valid [2, 3]", "ND", "128", "0 7 8 9", "1 10 11 12"):
        assert part in text


def test_values_are_in_logical_order_and_coloured_by_their_memory() -> None:
    tile = pto.Tile("vec", "float16", 32, 32, blayout="col_major", slayout="row_major")
    values = np.arange(1024, dtype="float16").reshape(32, 32)
    html = tile.write(values)._repr_html_()
    cells = re.findall(r'background:(hsla[^"]+)" title="element (\d+), byte [^"]+">(\d+)<', html)
    assert len(cells) == 64
    for colour, offset, value in cells:
        row, col = divmod(int(value), 32)
        assert int(offset) == tile.spec.layout.offset(row, col)
        assert f"({int(offset) // 16 * 47 % 360}," in colour


def test_a_slice_and_a_tile_of_unwritten_memory_can_be_shown() -> None:
    tile = pto.Tile("vec", "float32", 8, 16)
    assert "nan" in words(tile)
    assert "valid [2, 16]" in words(tile[2:4])


def test_a_large_array_shows_its_corners_only() -> None:
    table = np.arange(1 << 22, dtype="int32").reshape(1 << 11, 1 << 11)
    tensor = pto.GlobalTensor(table)
    html = tensor._repr_html_()
    assert len(html) < 20_000
    text = words(html)
    for part in ("int32", "<1, 1, 1, 2048, 2048>", "ND", f"{1 << 24:,}", "2047", str((1 << 22) - 1)):
        assert part in text
    assert "9999" not in text


@pytest.mark.parametrize("kind", ["float8_e5m2", "bfloat16", "hifloat8", "bool", "uint64"])
def test_every_kind_of_element_can_be_shown(kind: str) -> None:
    values = np.zeros((2, 4), dtype(kind).numpy)
    assert kind in words(pto.GlobalTensor(values, dtype=kind))


def test_an_empty_tensor_has_no_elements() -> None:
    assert "no elements" in words(pto.GlobalTensor(np.zeros((0, 4), "float32")))


def test_a_program_is_listed() -> None:
    program = clean().program
    assert program is not None
    text = words(program)
    for part in ("Program rows", "3 instructions, 2 tiles", "mgather(t, table, ids", 'set_flag("MTE2", "V"'):
        assert part in text


def test_a_run_a_check_and_a_finding_say_what_their_text_says() -> None:
    run = rows[1](TABLE, TOKENS, out())
    assert all(part in words(run) for part in ("cpu", run.engine, "no findings"))
    report = pto.check(rows, TABLE, TOKENS, out())
    for name, target in report.targets.items():
        assert name in words(report)
        assert all(part in words(target) for part in ("accepted", *target.memory, *target.pipes))
    finding = faulty().findings[0]
    for line in (finding.level, finding.rule, finding.message, *finding.lines, str(finding.where)):
        assert " ".join(line.split()) in words(finding)


def test_a_report_of_the_machine_has_findings_time_memory_and_traffic() -> None:
    text, line = words(faulty()), faulty().timeline
    assert line is not None
    assert faulty().findings[0].message in text
    assert f"{line.cycles:,.0f} cycles" in text
    assert all(f"{each.bytes_moved:,}" in text for each in faulty().traffic)
    assert all(f"{use.used:,}" in text for use in faulty().memory.values())


@pytest.mark.parametrize("shown", [faulty(), faulty().findings[0], pto.check(rows, TABLE, TOKENS, out())])
def test_a_bundle_has_the_whole_text_and_the_fragment(shown: markup.Displayed) -> None:
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": str(shown), "text/html": shown._repr_html_()}


def test_hostile_names_are_text() -> None:
    finding = Finding("error", "KN-13", HOSTILE, fix=HOSTILE, where=Where(HOSTILE, 1))
    report = replace(faulty(), kernel=HOSTILE, findings=(finding,), target=HOSTILE)
    assert isinstance(report, MachineReport)
    checked = pto.check(rows, TABLE, TOKENS, out(), target="a5")
    target = replace(checked["a5"], target=HOSTILE, findings=(finding,), pipes=(HOSTILE,))
    program = clean().program
    assert program is not None
    shown = finding, report, target, replace(checked, kernel=HOSTILE, targets={HOSTILE: target})
    for each in (*shown, replace(program, name=HOSTILE)):
        html = each._repr_html_()
        assert "<script" not in html
        assert not {*"\x1b\u202e"} & {*html}
        assert "<script>alert('&\"')</script>" in words(html)


def test_many_and_long_findings_are_bounded() -> None:
    many = [Finding("hazard", "KN-13", "x" * 100_000, fix="y" * 100_000)] * 1000
    last = Finding("error", "MG-OOB-04", "the worst")
    html = findings_html([*many, last])
    assert len(html) < 100_000
    assert "the worst" in words(html)
    assert "981 more" in words(html)


def test_tables_and_texts_are_bounded() -> None:
    assert "950 more" in words(markup.table([("a", 1)] * 1000))
    assert len(markup.code("x" * 1_000_000)) < 21_000


def test_only_markup_is_not_escaped() -> None:
    assert markup.tag("div", "<b>", markup.Markup("<b></b>"), title='"') == '<div title="&quot;">&lt;b&gt;<b></b></div>'


def test_a_timeline_has_its_chart_and_what_takes_the_time() -> None:
    line = clean().timeline
    shown = Fragment(line._repr_html_())
    text = "".join(shown.text)
    assert shown.tags <= ALLOWED
    assert all(row in text for row in line.chart()) and all(limit in text for limit in line.limits)
    most = max(line.spent, key=lambda each: each.cycles)
    assert f"{most.cycles:,.0f}" in text and most.pipe in text


def test_a_kernel_has_its_parameters_and_its_source() -> None:
    shown = Fragment(many._repr_html_())
    text = "".join(shown.text)
    assert shown.tags <= ALLOWED and "Kernel many" in text
    assert all(name in text for name in ("table", "tokens", "out", "count", "constant", "10"))
    assert 'pto.mgather(t, table, ids, oob="clamp")' in text


def test_points_of_a_sweep_and_their_table() -> None:
    found = pto.sweep(many, TABLE, TOKENS, np.zeros((64, 32), "float32"), params={"count": [1, 2]}, targets="a5")
    for shown in (found, found.rows[0]):
        fragment = Fragment(shown._repr_html_())
        assert fragment.tags <= ALLOWED and f"{found.rows[0].cycles:,.0f}" in "".join(fragment.text)
        assert shown._repr_mimebundle_() == {"text/plain": str(shown), "text/html": shown._repr_html_()}
