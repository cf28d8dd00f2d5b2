"""docs/pictures: every picture is drawn again, is used by a page, and shows the data it was drawn from."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

import ptokit as pto
from ptokit.report.svg import tile_svg
from tests.figures import access_svg, lanes_svg, timeline_svg
from tests.pictures import FOLDER, PICTURES, ROOT, access_of, machine, pick
from tests.report.launches import clean

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _quiet() -> None:
    warnings.simplefilter("ignore", pto.HazardWarning)


def test_pictures_are_complete_whole_and_need_nothing_else() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(PICTURES)
    for path in FOLDER.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg" and root.findtext(f"{SVG}title")
        assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "<script" not in text and "url(" not in text


def test_every_picture_is_on_a_page() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = set(re.findall(r"pictures/([\w-]+)\.svg", "".join(file.read_text(encoding="utf-8") for file in files)))
    assert shown | {name for name in PICTURES if name.startswith("gallery-")} == set(PICTURES)


TILES = {
    "nd": pto.Tile("vec", "float32", 8, 16),
    "dn": pto.Tile("vec", "float32", 8, 16, blayout="col_major"),
    "nz": pto.Tile("mat", "float16", 32, 32, blayout="col_major", slayout="row_major"),
    "acc": pto.Tile("acc", "float32", 32, 32),
}


@pytest.mark.parametrize("name", TILES)
def test_a_tile_has_each_block_where_its_layout_puts_it(name: str) -> None:
    spec = TILES[name].spec
    tips = re.findall(r"<title>bytes (\d+) to (\d+): rows ([\d to]+), columns ([\d to]+)</title>", tile_svg(spec))
    assert len(tips) * 32 == spec.rows * spec.cols * spec.dtype.size
    for first, end, *spans in tips:
        rows, cols = ([int(each) for each in span.split(" to ")] for span in spans)
        for i in range(rows[0], rows[-1] + 1):
            for j in range(cols[0], cols[-1] + 1):
                assert int(first) <= spec.layout.offset(i, j) * spec.dtype.size < int(end)


def test_padding_is_marked() -> None:
    drawn = tile_svg(pto.Tile("vec", "float32", 8, 16, valid=(6, 12)).spec)
    assert drawn.count('class="hole"') == 2 * 4 and "the valid region" in drawn
    assert "the valid region" not in tile_svg(TILES["nd"].spec)


def test_large_tiles_are_cut() -> None:
    assert tile_svg(pto.Tile("vec", "float32", 256, 64).spec).count("<title>block ") == 512


def test_a_timeline_has_every_piece_of_work_with_its_cycles() -> None:
    line = clean().timeline
    assert line is not None
    drawn = timeline_svg(line)
    for work in line.works:
        assert f"{work.name} on {work.pipe}: cycles {work.start:,.0f} to {work.end:,.0f}" in drawn
    assert drawn.count('class="strong"') == len(line.critical)
    assert drawn.count('class="held"') == sum(each.is_held and each.src != each.dst for each in line.arrows)


def test_an_access_map_has_every_lane() -> None:
    ids = np.array([0, 1, 1, 1, 99, 5, 6, 7], "int32")
    access = access_of(machine(pick, np.zeros((100, 8), "float32"), ids, np.empty((8, 8), "float32")))
    counts = [int(count) for count in re.findall(r": (\d+) lanes</title>", access_svg(access))]
    assert sorted(counts) == [1, 1, 1, 1, 1, 3]
    lanes = re.findall(r"<title>lane (\d+): index (\d+), in bounds</title>", lanes_svg(access))
    assert [int(index) for _, index in lanes] == ids.tolist()


def test_names_of_users_are_text() -> None:
    drawn = tile_svg(TILES["nd"].spec, "<script>alert('&')</script>")
    assert (
        "<script" not in drawn
        and ElementTree.fromstring(drawn).findtext(f"{SVG}title") == "<script>alert('&')</script>"
    )
