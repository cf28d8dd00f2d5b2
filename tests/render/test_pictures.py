"""Pictures of layouts and accesses say what the layout and the lanes say."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rich.text import Text

from ptokit.isa.dtype import dtype
from ptokit.isa.operand import FORMS, TileSpec
from ptokit.isa.policy import TileType
from ptokit.render.access import access_lines
from ptokit.render.layouts import GLYPHS, LayoutPicture
from ptokit.render.tables import folded
from ptokit.report.access import access_maps
from tests.report.launches import clean

LAYOUTS = {form: layouts for layouts, form in FORMS.items()}


def picture(
    form: str, rows: int, cols: int, kind: str = "float16", valid: tuple[int, int] | None = None
) -> LayoutPicture:
    return LayoutPicture(TileSpec(dtype(kind), TileType.Vec, rows, cols, *(valid or (rows, cols)), *LAYOUTS[form]))


def logical(drawn: Text) -> list[str]:
    """The cells of each row, of all groups of columns."""
    rows: dict[int, str] = {}
    for line in drawn.plain.split("\n"):
        if match := re.match(r" *(\d+) ((?:[\w.]+ ?)+)", line):
            rows[int(match[1])] = rows.get(int(match[1]), "") + match[2].replace(" ", "")
    return [rows[number] for number in sorted(rows)]


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize(("rows", "cols", "kind"), [(16, 32, "float16"), (20, 16, "float32"), (32, 64, "int8")])
def test_a_letter_is_the_line_of_memory(form: str, rows: int, cols: int, kind: str) -> None:
    drawn = picture(form, rows, cols, kind)
    spec = drawn.spec
    shown = logical(drawn.text(40))
    for i in range(rows):
        for j in range(cols):
            line = spec.layout.offset(i, j) * spec.dtype.size // 32
            assert shown[i][j] == GLYPHS[line % len(GLYPHS)], (i, j)


@pytest.mark.parametrize("form", LAYOUTS)
def test_a_line_of_memory_names_its_elements(form: str) -> None:
    drawn = picture(form, 16, 32, "float32")
    lines = re.findall(r"0x([0-9a-f]{4}) \S+ \[(.+?), (.+?)\]", drawn.text(40).plain)
    assert len(lines) == 64
    for k, (address, *parts) in enumerate(lines):
        assert int(address, 16) == 32 * k
        i, j = (np.arange(*map(int, part.split(":"))) if ":" in part else np.array([int(part)]) for part in parts)
        offsets = drawn.spec.layout.offset(i[:, None], j[None, :])
        assert sorted(offsets.ravel().tolist()) == [*range(8 * k, 8 * k + 8)]


def test_parts_stand_side_by_side_where_they_fit() -> None:
    drawn = picture("nz", 16, 32)
    wide, narrow = drawn.text(80).plain.split("\n"), drawn.text(40).plain.split("\n")
    assert re.fullmatch(r" +0 0{16} G{16} +0x0000 0{16} \[0, 0:16\]", wide[1])
    assert len(narrow) == 1 + 16 + 2 + 32
    assert all(len(line) <= 80 for line in wide)
    assert all(len(line) <= 40 for line in narrow)


@pytest.mark.parametrize("width", [33, 40, 57, 80])
def test_wide_tiles_are_cut_into_columns(width: int) -> None:
    drawn = picture("nd", 4, 100, "float32").text(width)
    assert max(map(len, drawn.plain.split("\n"))) <= width
    assert [len(row) for row in logical(drawn)] == [100] * 4


def test_what_is_not_valid_is_a_dot() -> None:
    rows = logical(picture("nz", 20, 32, "float16", (17, 20)).text(60))
    assert [row.count(".") for row in rows] == [12] * 17 + [32] * 3


def test_large_tiles_are_bounded_and_say_so() -> None:
    text = picture("nd", 1024, 1024).text(80).plain
    assert len(text) < 50_000
    assert "960 rows more, 768 columns more" in text
    assert "65,472 lines more" in text
    with pytest.raises(ValueError, match="too large to list"):
        _ = picture("nd", 2048, 1024).offsets


@pytest.mark.parametrize("form", ["nd", "dn", "nz", "zn", "zz", "nn"])
def test_the_part_of_a_huge_tile_that_is_drawn_has_its_offsets(form: str) -> None:
    huge = picture(form, 65_536, 131_072)
    spec, end = huge.spec, huge.cells.size
    numbers = huge.cells.tolist()
    assert end == 64 * huge.across and min(numbers) >= 0
    assert [spec.layout.offset(*divmod(number, spec.cols)) for number in numbers] == [*range(end)]
    assert "65,472 rows more, 130,816 columns more" in huge.text(80).plain


def test_extents_that_are_no_multiple_of_a_box_are_remarked() -> None:
    assert picture("nz", 15, 32).remarks == ["15 rows are not a multiple of the 16 rows of a box"]
    assert picture("nz", 16, 32).remarks == picture("nd", 15, 31).remarks == []


def test_offsets_are_those_of_the_layout() -> None:
    drawn = picture("zn", 16, 16)
    first = drawn.text(200, offsets=True).plain.split("\n")[1]
    assert [*map(int, first.split("0x")[0].split()[1:])] == drawn.offsets[0].tolist()


# --- accesses


def access() -> dict[str, object]:
    """64 lanes over 100 rows, of which the last 14 are clamped."""
    (found,) = access_maps(clean())
    return found


def test_the_strip_and_the_histogram_count_all_lanes() -> None:
    lines = [line.plain for line in access_lines(access(), 80)]
    text = "\n".join(lines)
    assert "64 lanes in 4 executions of 128 bytes over 100 rows of table" in text
    assert "touches 50 of 100 rows (50%)" in text
    strip = next(line for line in lines if line.startswith("  0 |")).split("|")[1]
    assert strip == "." * 25 + strip[25:]
    assert "." not in strip[25:]
    assert strip[-1] == "█"  # the row that 15 lanes touch
    buckets = [int(line.split()[-1]) for line in lines[lines.index("  indices") + 1 :]]
    assert sum(buckets) == 64


def test_lanes_out_of_bounds_are_listed_with_what_became_of_them() -> None:
    text = "\n".join(line.plain for line in access_lines(access(), 80))
    assert "50 in bounds, 14 clamped; 14 out of bounds (14 above 99)" in text
    assert "block 0: index 100 clamped to row 99" in text
    assert "... 6 more" in text
    assert "most repeated: row 99 x 15" in text


@pytest.mark.parametrize("width", [40, 60, 120])
def test_strips_and_histograms_fit(width: int) -> None:
    for line in access_lines(access(), width, is_plain=True):
        is_drawn = "|" in line.plain or "#" in line.plain
        assert not is_drawn or len(line.plain) <= width
        assert line.plain.isascii()


def test_tables_fold_and_lose_nothing() -> None:
    rows = [("tile", "memory", "bytes"), ("ids", "vec", "64"), ("vectors", "vec", "2,048")]
    assert [*folded(rows, 80)][1].split() == ["ids", "vec", "64"]
    narrow = [*folded(rows, 20)]
    assert narrow == ["ids", "  memory vec; bytes", "  64", "vectors", "  memory vec; bytes", "  2,048"]


def test_colours_follow_the_order_of_memory() -> None:
    drawn = picture("nz", 16, 32).text(80)
    styles = {span.style for span in drawn.spans if " on " in str(span.style)}
    assert len(styles) == 32  # one for each line of memory
    assert not any("dim" in str(style) for style in styles)
    assert drawn.style == ""
