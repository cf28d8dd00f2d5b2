"""Layouts: every form against the formulas of the documents, spans, and the split into a row and a column part."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptokit as pto
from ptokit.isa.layout import Layout, packed
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout
from tests.loops import over

FORMS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "zz": ("row_major", "row_major"),
    "nn": ("col_major", "col_major"),
}
TYPES = ("int8", "float8_e4m3", "float16", "bfloat16", "int32", "float32")
BOXES = [(dtype, fractal) for dtype in TYPES for fractal in (512, 1024)] + [("int8", 32), ("uint8", 32)]
many = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def spec(form: str, dtype: str, rows: int, cols: int, fractal: int = 512) -> TileSpec:
    blayout, slayout = FORMS[form]
    return pto.Tile("vec", dtype, rows, cols, blayout=blayout, slayout=slayout, fractal=fractal).spec


def inner(form: str, dtype: str, fractal: int) -> tuple[int, int]:
    """innerR x innerC: fractal 512, S row: 16 x (32/size), S col: (32/size) x 16; 1024: 16 x 16; MX: 16x2 or 2x16."""
    if fractal == 1024:
        return 16, 16
    narrow = 32 // pto.dtype(dtype).size if fractal == 512 else 2
    return (16, narrow) if form in ("nz", "zz") else (narrow, 16)


def formula(form: str, rows: int, cols: int, box: tuple[int, int], r: int, c: int) -> int:
    """The table in section 1 of compute.md."""
    height, width = box
    br, ir, bc, ic, n = r // height, r % height, c // width, c % width, height * width
    return {
        "nd": r * cols + c,
        "dn": c * rows + r,
        "nz": bc * rows * width + br * n + ir * width + ic,
        "zn": br * cols * height + bc * n + ic * height + ir,
        "zz": br * cols * height + bc * n + ir * width + ic,
        "nn": bc * rows * width + br * n + ic * height + ir,
    }[form]


@over("boxes", [(1, 1), (1, 3), (3, 1), (2, 3)])
@pytest.mark.parametrize(("dtype", "fractal"), BOXES)
@over("form", FORMS)
def test_tiles_follow_the_six_formulas(form: str, dtype: str, fractal: int, boxes: tuple[int, int]) -> None:
    """Whole boxes: every element has its place, and together they fill the storage."""
    box, (down, across) = inner(form, dtype, fractal), boxes
    rows, cols = down * box[0], across * box[1]
    tile = spec(form, dtype, rows, cols, fractal)
    offsets = [tile.layout.offset(r, c) for r in range(rows) for c in range(cols)]
    assert offsets == [formula(form, rows, cols, box, r, c) for r in range(rows) for c in range(cols)]
    assert sorted(offsets) == list(range(rows * cols))
    assert tile.elements == tile.layout.span(rows, cols) == rows * cols
    if tile.slayout.text != "none_box":
        assert tile.box == box


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (5, 7), (17, 40), (16, 33)])
def test_partial_boxes_are_allocated(form: str, rows: int, cols: int) -> None:
    """The last boxes may be cut: elements still have places of their own, inside the storage."""
    tile = spec(form, "float16", rows, cols)
    offsets = [tile.layout.offset(r, c) for r in range(rows) for c in range(cols)]
    assert len(set(offsets)) == rows * cols
    assert max(offsets) < tile.elements
    if form == "nz":  # MG-NZ-09 holds for any Rows
        assert offsets == [c // 16 * (rows * 16) + r * 16 + c % 16 for r in range(rows) for c in range(cols)]


@pytest.mark.parametrize(
    ("dtype", "rows", "place", "offset"),
    [("float16", 32, (17, 20), 788), ("float32", 16, (3, 9), 153), ("int8", 16, (15, 31), 511)],
)
def test_documented_nz_offsets(dtype: str, rows: int, place: tuple[int, int], offset: int) -> None:
    """MG-NZ-15."""
    assert spec("nz", dtype, rows, 64).layout.offset(*place) == offset


@pytest.mark.parametrize("dtype", TYPES)
def test_nz_tiles_follow_the_gather_formula(dtype: str) -> None:
    """MG-NZ-09: (c/kC0)*(Rows*kC0) + r*kC0 + (c mod kC0)."""
    kc0 = 32 // pto.dtype(dtype).size
    layout = spec("nz", dtype, 48, 3 * kc0).layout
    for r in range(48):
        for c in range(3 * kc0):
            assert layout.offset(r, c) == (c // kc0) * (48 * kc0) + r * kc0 + c % kc0


# --- Global tensors ----------------------------------------------------------------------------------------------

dims = st.lists(st.integers(1, 4), min_size=5, max_size=5)
steps = st.lists(st.integers(0, 300), min_size=5, max_size=5)


def tensor(dtype: str, shape: list[int], stride: list[int], layout: str) -> TensorSpec:
    return TensorSpec(pto.dtype(dtype), tuple(shape), tuple(stride), GlobalLayout.parse(layout))  # type: ignore[arg-type]


def digits(number: int, radix: list[int]) -> list[int]:
    """A number as digits, the last one fastest."""
    found: list[int] = []
    for n in reversed(radix):
        found.insert(0, number % n)
        number //= n
    return found


@pytest.mark.parametrize("order", list(permutations((1, 3, 4))), ids=str)
def test_a_tensor_overlaps_itself_if_two_elements_have_one_address(order: tuple[int, ...]) -> None:
    """Three dims in any order, each stepping by the span of those inside it, or one more or less."""
    for extents, gaps in product(product((0, 1, 2, 3), repeat=3), product((-1, 0, 1), repeat=2)):
        shape, stride, span = [1] * 5, [0] * 5, 1
        for dim, extent, gap in zip(order, extents, (0, *gaps), strict=True):
            shape[dim], stride[dim] = extent, max(0, span + gap)
            span += (extent - 1) * stride[dim]
        steps = [[k * step for k in range(n)] for n, step in zip(shape, stride, strict=True)]
        addresses = [sum(at) for at in product(*steps)]
        found = tensor("float32", shape, stride, "nd").overlaps_itself
        assert found == (len(set(addresses)) < len(addresses)), (shape, stride)


@many
@given(shape=dims, stride=steps | st.none())
def test_nd_flattens_dims_0_to_3_into_rows(shape: list[int], stride: list[int] | None) -> None:
    stride = list(packed(shape)) if stride is None else stride
    nd = tensor("float32", shape, stride, "nd")
    assert nd.extents == (prod(shape[:4]), shape[4])
    for r in range(prod(shape[:4])):
        for c in range(shape[4]):
            at = [*digits(r, shape[:4]), c]
            assert nd.layout.offset(r, c) == sum(k * s for k, s in zip(at, stride, strict=True))


@many
@given(shape=dims, stride=steps | st.none())
def test_dn_flattens_dims_0_1_2_and_4_into_columns(shape: list[int], stride: list[int] | None) -> None:
    stride = list(packed(shape)) if stride is None else stride
    dn = tensor("float32", shape, stride, "dn")
    assert dn.extents == (shape[3], prod(shape[:3]) * shape[4])
    for r in range(shape[3]):
        for c in range(dn.extents[1]):
            a, b, d, e = digits(c, [*shape[:3], shape[4]])
            assert dn.layout.offset(r, c) == sum(k * s for k, s in zip([a, b, d, r, e], stride, strict=True))


@many
@given(
    dtype=st.sampled_from(TYPES),
    outer=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    stride=st.lists(st.integers(0, 5000), min_size=5, max_size=5) | st.none(),
)
def test_nz_follows_the_gather_formula(dtype: str, outer: list[int], stride: list[int] | None) -> None:
    """MG-NZ-03 and MG-NZ-08."""
    kc0 = 32 // pto.dtype(dtype).size
    shape = [*outer, 16, kc0]
    stride = list(packed(shape)) if stride is None else stride
    nz = tensor(dtype, shape, stride, "nz")
    assert nz.extents == (shape[2] * 16, shape[0] * shape[1] * kc0)
    for row in range(0, nz.extents[0], 5):
        for col in range(nz.extents[1]):
            b, bc = (col // kc0) // shape[1], (col // kc0) % shape[1]
            off = b * stride[0] + bc * stride[1] + (row // 16) * stride[2] + (row % 16) * stride[3]
            assert nz.layout.offset(row, col) == off + (col % kc0) * stride[4]


MX = {
    "mx_a_zz": (lambda m, k, e: (m // e[3] // e[1], m // e[3] % e[1], k // e[4], m % e[3], k % e[4]), (0, 1, 3)),
    "mx_a_nd": (lambda m, k, e: (m // e[2] // e[1], m // e[2] % e[1], m % e[2], k // e[4], k % e[4]), (0, 1, 2)),
    "mx_a_dn": (lambda m, k, e: (m // e[3] // e[1], m // e[3] % e[1], k // e[4], m % e[3], k % e[4]), (0, 1, 3)),
    "mx_b_nn": (lambda k, n, e: (n // e[3] // e[1], n // e[3] % e[1], k // e[4], n % e[3], k % e[4]), (2, 4)),
    "mx_b_nd": (lambda k, n, e: (n // e[3] // e[1], n // e[3] % e[1], k // e[4], n % e[3], k % e[4]), (2, 4)),
    "mx_b_dn": (lambda k, n, e: (n // e[2] // e[1], n // e[2] % e[1], n % e[2], k // e[4], k % e[4]), (3, 4)),
}
"""Layouts of scales: the place of scale (row, col) in the five dims, the last of which are the scales of a pair; and
the dims that make up the rows. Scales of the left matrix are m x k, of the right one k x n."""


@many
@given(layout=st.sampled_from(list(MX)), shape=dims, stride=steps | st.none())
def test_scales_keep_pairs_along_k_in_the_last_dim(layout: str, shape: list[int], stride: list[int] | None) -> None:
    stride = list(packed(shape)) if stride is None else stride
    scales, (place, down) = tensor("float8_e8m0", shape, stride, layout), MX[layout]
    rows = prod(shape[dim] for dim in down)
    assert scales.extents == (rows, prod(shape) // rows)
    for row in range(rows):
        for col in range(prod(shape) // rows):
            at = place(row, col, shape)
            assert scales.layout.offset(row, col) == sum(k * s for k, s in zip(at, stride, strict=True))


# --- Spans and the split -------------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, int, int]:
    """A layout of any kind and a region inside it."""
    kind = draw(st.sampled_from(["plain", "tile", "nd", "dn", "nz"]))
    if kind == "plain":
        layout = Layout.plain(draw(st.integers(0, 50)), draw(st.integers(0, 50)))
        rows, cols = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    elif kind == "tile":
        rows, cols = draw(st.integers(1, 50)), draw(st.integers(1, 70))
        form, (dtype, fractal) = draw(st.sampled_from(list(FORMS))), draw(st.sampled_from(BOXES))
        layout = spec(form, dtype, rows, cols, fractal).layout
    else:
        shape = draw(dims)
        if kind == "nz":
            shape[3:] = [16, 8]
        stride = draw(steps | st.none()) or list(packed(shape))
        table = tensor("float32", shape, stride, kind)
        layout, (rows, cols) = table.layout, table.extents
    return layout, draw(st.integers(1, rows)), draw(st.integers(1, cols))


@many
@given(layouts())
def test_spans_cover_the_region(case: tuple[Layout, int, int]) -> None:
    """Never smaller than the true maximum + 1, and never below nothing."""
    layout, rows, cols = case
    offsets = [layout.offset(i, j) for i in range(rows) for j in range(cols)]
    assert min(offsets) >= 0
    assert layout.span(rows, cols) >= max(offsets) + 1
    if layout.strides is not None:
        assert layout.span(rows, cols) == max(offsets) + 1
    assert layout.span(0, cols) == layout.span(rows, 0) == 0


@many
@given(layouts())
def test_offsets_split_into_a_row_and_a_column_part(case: tuple[Layout, int, int]) -> None:
    """Engines rely on it; integers, arrays and the short form of a plain layout agree."""
    layout, rows, cols = case
    whole = np.array([[layout.offset(i, j) for j in range(cols)] for i in range(rows)])
    down = np.array([layout.row(i) for i in range(rows)])
    across = np.array([layout.col(j) for j in range(cols)])
    assert np.array_equal(whole, down[:, None] + across)
    assert np.array_equal(whole, layout.offset(np.arange(rows)[:, None], np.arange(cols)))
    assert np.array_equal(down, layout.row(np.arange(rows)))
    assert np.array_equal(across, layout.col(np.arange(cols)))
    if layout.strides is not None:
        step, pace = layout.strides
        assert np.array_equal(whole, np.arange(rows)[:, None] * step + np.arange(cols) * pace)


@many
@given(layouts(), st.integers(-1, 1) | st.integers(0, 400), st.just(0) | st.integers(1, 99))
def test_the_first_elements_are_those_below_an_end(case: tuple[Layout, int, int], end: int, start: int) -> None:
    """Also where the end is the offset of an element, and where the region begins at an offset."""
    whole, rows, cols = case
    layout = replace(whole, start=start)
    for limit in {end, layout.offset(rows - 1, 0), layout.offset(0, cols - 1), layout.offset(rows // 2, cols // 2)}:
        found = zip(*(each.tolist() for each in layout.first(rows, cols, limit)), strict=True)
        every = [(i, j, layout.offset(i, j)) for i in range(rows) for j in range(cols)]
        assert list(found) == [each for each in every if each[2] < limit]


@many
@given(shape=dims, stride=steps)
def test_a_tensor_spans_all_of_its_elements(shape: list[int], stride: list[int]) -> None:
    nd = tensor("int8", shape, stride, "nd")
    offsets = [nd.layout.offset(r, c) for r in range(nd.extents[0]) for c in range(nd.extents[1])]
    assert nd.span == max(offsets) + 1


@pytest.mark.parametrize("form", FORMS)
def test_tiles_read_and_write_through_their_layout(form: str) -> None:
    """`write` puts (r, c) where the formula says, `read` finds it again, and padding keeps its poison."""
    blayout, slayout = FORMS[form]
    rows, cols = (32, 48)
    tile = pto.Tile("vec", "float16", rows, cols, valid=(21, 35), blayout=blayout, slayout=slayout)
    values = np.arange(21 * 35).reshape(21, 35).astype(np.float16)
    tile.write(values)
    assert np.array_equal(tile.read(), values)
    expected = np.full(rows * cols, 0xFFFF, np.uint16)
    box = inner(form, "float16", 512)
    for r in range(21):
        for c in range(35):
            expected[formula(form, rows, cols, box, r, c)] = values[r, c].view(np.uint16)
    assert np.array_equal(tile.buffer.view(np.uint16), expected)
