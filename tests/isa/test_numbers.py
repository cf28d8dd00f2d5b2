"""Numbers of element types, boxes and casts, held against naive formulas: one off by one is noticed here."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.layout import Layout, Term

SIZES = {"int8": 1, "uint8": 1, "float8_e4m3": 1, "float8_e5m2": 1, "hifloat8": 1, "int16": 2, "uint16": 2,
         "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8,
         "float64": 8, "complex128": 16}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_an_element_is_moved_as_bits_of_its_width(name: str) -> None:
    size, kind = SIZES[name], pto.dtype(name)
    assert (kind.size, kind.c0) == (size, 32 // size)
    assert kind.bits == (np.dtype(f"u{size}") if size <= 8 else np.dtype(f"V{size}"))


@pytest.mark.parametrize("box", [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (16, 8)])
@pytest.mark.parametrize(("boxes_by_row", "inner_by_row"), list(product((True, False), repeat=2)))
def test_boxes_follow_a_naive_walk(box: tuple[int, int], boxes_by_row: bool, inner_by_row: bool) -> None:
    down, across = 3, 2
    rows, cols = down * box[0], across * box[1]
    layout = Layout.boxed(rows, cols, box, boxes_by_row=boxes_by_row, inner_by_row=inner_by_row)
    outer = (
        product(range(down), range(across)) if boxes_by_row else ((i, j) for j in range(across) for i in range(down))
    )
    walk = [
        (i * box[0] + r, j * box[1] + c)
        for i, j in outer
        for r, c in sorted(product(range(box[0]), range(box[1])), key=lambda at: at if inner_by_row else at[::-1])
    ]
    assert [layout.offset(i, j) for i, j in walk] == list(range(rows * cols))


def test_boxes_that_run_on_evenly_are_plain() -> None:
    """A box of one element, and boxes side by side, leave even strides; others have none."""
    assert Layout.boxed(6, 4, (1, 1), boxes_by_row=True, inner_by_row=True).strides == (4, 1)
    assert Layout.boxed(6, 4, (2, 1), boxes_by_row=False, inner_by_row=False).strides == (1, 6)
    assert Layout.boxed(6, 4, (2, 4), boxes_by_row=True, inner_by_row=True).rows == (Term(4),)
    assert Layout.boxed(6, 4, (2, 2), boxes_by_row=True, inner_by_row=True).strides is None
    assert Layout((), ()).strides == (0, 0)


CAPACITY = 5
INDICES = [0, 4, 5, 9, 11, -1, -2, -5, -6, 2**31 - 1, -(2**31)]
EXPECTED = {
    ("int32", "wrap"): lambda k: k % 2**32 % CAPACITY,
    ("int32", "clamp"): lambda k: min(k % 2**32, CAPACITY - 1),
    ("int64", "wrap"): lambda k: k % CAPACITY,
    ("int64", "clamp"): lambda k: min(max(k, 0), CAPACITY - 1),
}
"""MG-OOB-08: an index is cast to uint32 before the policy, except the 64-bit ones of the host."""


@pytest.mark.parametrize(("kind", "oob"), EXPECTED)
def test_negative_indices_of_tiles_on_the_host(kind: str, oob: str) -> None:
    table = np.arange(CAPACITY * 8, dtype=np.float32).reshape(CAPACITY, 8)
    warned = pytest.warns(pto.HazardWarning, match="H-13") if kind == "int32" else nullcontext()
    with pto.target("host"), warned:
        dst = pto.Tile("vec", "float32", len(INDICES), 8)
        idx = pto.Tile("vec", kind, len(INDICES), 1).write([[k] for k in INDICES])
        pto.mgather(dst, pto.GlobalTensor(table), idx, coalesce="row", oob=oob)
    assert np.array_equal(dst.read(), table[[EXPECTED[kind, oob](k) for k in INDICES]])


@pytest.mark.parametrize(("kind", "oob"), EXPECTED)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.filterwarnings("ignore::ptokit.HazardWarning")
def test_negative_indices_of_arrays(engine: str, kind: str, oob: str, width: int) -> None:
    table = np.arange(CAPACITY * width, dtype=np.float32).reshape(CAPACITY, width)
    indices = np.array(INDICES, kind)
    expected = [EXPECTED[kind, oob](k) for k in INDICES]
    assert np.array_equal(pto.gather(table, indices, oob=oob, engine=engine), table[expected])
    cells = np.zeros_like(table)
    pto.scatter(cells, np.ones((len(INDICES), width), np.float32), indices, oob=oob, atomic="add", engine=engine)
    assert np.array_equal(cells[:, 0], np.bincount(expected, minlength=CAPACITY))


MANY = (1 << 33) + 5
"""Rows of a table that has one row in memory."""


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("oob", ["undefined", "clamp", "wrap", "zero"])
def test_int64_indices_of_tables_beyond_32_bits(engine: str, oob: str) -> None:
    table = np.broadcast_to(np.arange(7, 10, dtype=np.int16), (MANY, 3))
    inside, outside = np.array([0, 2**32, MANY - 1]), np.array([MANY, -1, 2**62])
    assert pto.gather(table, inside, oob=oob, engine=engine).tolist() == [[7, 8, 9]] * 3
    if oob == "undefined":
        with pytest.raises(pto.OutOfBoundsError):
            pto.gather(table, outside, oob=oob, engine=engine)
    else:
        row = [0, 0, 0] if oob == "zero" else [7, 8, 9]
        assert pto.gather(table, outside, oob=oob, engine=engine).tolist() == [row] * 3
