"""Operands for the numbers of a block: the elements that they take, and what is refused, at and around every bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.frame import Frame, bind, elements, offset_of
from ptokit.engine.storage import Storage
from ptokit.isa.operand import ScalarSpec
from ptokit.program.bounds import index_finding
from ptokit.program.expr import BLOCK_IDX, Var
from ptokit.program.ir import Argument, Constant, Float, Given, Number, Program, TileUse, View, Window
from tests.program.building import tile

ROWS, COLS, STEP, BEFORE = 4, 5, 7, 3
"""The argument: rows that are `STEP` elements apart, from element `BEFORE` of its array on."""
LENGTH = BEFORE + (ROWS - 1) * STEP + COLS
A, B, M, N = map(Var, "abmn")
X = Argument("x", pto.dtype("int32"), (ROWS, COLS), (STEP, 1), offset=BEFORE)
BLOCK = View("x", (A, B), (M, N))
PROGRAM = Program("test", (X, Float("f", pto.dtype("float32"))), (tile("t", rows=ROWS, cols=8),))


def frame_of(length: int = LENGTH, **numbers: int) -> Frame:
    frame = Frame()
    frame.values = {BLOCK_IDX: 6, **{Var(name): value for name, value in numbers.items()}}
    frame.tensors = {"x": Storage(np.arange(length, dtype="uint32"), X.dtype)}
    frame.tiles = {"t": Storage(np.arange(ROWS * 8, dtype="uint32"), pto.dtype("float32"))}
    return frame


@pytest.mark.parametrize(("row", "rows"), list(product(range(-1, ROWS + 2), range(-1, ROWS + 2))))
def test_a_block_lies_in_its_argument_or_is_refused(row: int, rows: int) -> None:
    for col, cols in product(range(-1, COLS + 2), range(-1, COLS + 2)):
        frame = frame_of(a=row, b=col, m=rows, n=cols)
        outside = [dim for dim, (first, size, most) in enumerate(((row, rows, ROWS), (col, cols, COLS)))
                   if first not in range(most + 1) or first + size not in range(first, most + 1)]  # fmt: skip
        if outside:
            with pytest.raises(pto.OutOfBoundsError) as refusal:
                bind(PROGRAM, BLOCK, frame)
            (finding,) = refusal.value.findings
            first, size, most = ((row, rows, ROWS), (col, cols, COLS))[outside[0]]
            shown = f"x[{':, ' * outside[0]}{first}:{first + size}]"
            assert finding.rule == "KN-10"
            assert finding.message == f"the slice {shown} does not lie within 0:{most} in block 6"
        elif rows and cols:
            taken = bind(PROGRAM, BLOCK, frame).take(frame).bits.tolist()
            first = BEFORE + STEP * row + col
            assert taken == list(range(first, first + (rows - 1) * STEP + cols))
        else:
            assert bind(PROGRAM, BLOCK, frame).take(frame).bits.size == 0


def test_a_number_of_an_argument_lies_in_it_or_is_refused() -> None:
    one = View("x", (A, B), (1, 1))
    for row, col in product(range(-1, ROWS + 1), range(-1, COLS + 1)):
        frame = frame_of(a=row, b=col)
        if row in range(ROWS) and col in range(COLS):
            assert offset_of(X, one, frame, index_finding) == BEFORE + STEP * row + col
            continue
        with pytest.raises(pto.OutOfBoundsError, match="the index x") as refusal:
            offset_of(X, one, frame, index_finding)
        assert refusal.value.findings[0].found == str(col if row in range(ROWS) else row)


@pytest.mark.parametrize("length", range(6))
def test_elements_lie_in_their_array_or_are_refused(length: int) -> None:
    frame = frame_of(length)
    for first, count in product(range(-2, 7), range(7)):
        if not count or set(range(first, first + count)) <= set(range(length)):
            taken = elements(X, first, count, frame).bits.tolist()
            assert taken == list(range(first, first + count))
            continue
        with pytest.raises(pto.OutOfBoundsError) as refusal:
            elements(X, first, count, frame)
        (finding,) = refusal.value.findings
        assert f"elements {first} to {first + count - 1} of x" in finding.message
        assert finding.message.endswith(f"its array has {length} elements, in block 6")


def test_all_of_an_array_is_the_array_itself() -> None:
    frame = frame_of(4)
    assert elements(X, 0, 4, frame) is frame.tensors["x"]


@pytest.mark.parametrize(("rows", "cols"), list(product((-1, 0, 1, ROWS, ROWS + 1), (-1, 0, 1, 8, 9))))
def test_a_valid_region_lies_in_its_tile_or_is_refused(rows: int, cols: int) -> None:
    frame = frame_of(m=rows, n=cols)
    use = TileUse("t", (M, N))
    if 0 <= rows <= ROWS and 0 <= cols <= 8:
        bound = bind(PROGRAM, use, frame)
        assert bound.spec.valid == (rows, cols) and bound.take(frame) is frame.tiles["t"]  # type: ignore[union-attr]
        return
    with pytest.raises(pto.VerifyError) as refusal:
        bind(PROGRAM, use, frame)
    (finding,) = refusal.value.findings
    axis = 0 if not 0 <= rows <= ROWS else 1
    assert finding.rule == "CO-SHAPE-02" and finding.found == str((rows, cols)[axis])
    assert f"valid {('rows', 'cols')[axis]} of t do not lie within 0:{(ROWS, 8)[axis]} in block 6" in finding.message


@pytest.mark.parametrize(("row", "col"), list(product(range(-1, ROWS), range(-1, 7))))
def test_a_slice_of_a_tile_lies_in_it_or_is_refused(row: int, col: int) -> None:
    """Of 4 rows and 8 columns, a slice of 3 rows and 3 columns begins at (1, 5) at the latest."""
    frame, use = frame_of(a=row, b=col), TileUse("t", (3, 3), Window((A, B), (3, 3)))
    if row in range(2) and col in range(6):
        taken = bind(PROGRAM, use, frame).take(frame).bits
        first = 8 * row + col
        assert taken.tolist() == list(range(first, first + 2 * 8 + 3))
        return
    with pytest.raises(pto.VerifyError) as refusal:
        bind(PROGRAM, use, frame)
    (finding,) = refusal.value.findings
    shown, most = (f"t[{row}:{row + 3}]", ROWS) if row not in range(2) else (f"t[:, {col}:{col + 3}]", 8)
    assert (finding.rule, finding.message) == ("SL-01", f"the slice {shown} does not lie within 0:{most} in block 6")


def test_a_slice_follows_its_tile() -> None:
    frame, use = frame_of(), TileUse("t", (1, 8), Window((2, 0), (1, 8)))
    bound = bind(PROGRAM, use, frame)
    assert bound.take(frame).bits.tolist() == list(range(16, 24))
    frame.tiles["t"] = Storage(np.arange(100, 100 + ROWS * 8, dtype="uint32"), pto.dtype("float32"))
    assert bound.take(frame).bits.tolist() == list(range(116, 124))


def test_numbers_as_operands() -> None:
    frame, int8 = frame_of(a=0), pto.dtype("int8")
    frame.tensors = {"f": Storage(np.array([1.5], "float32").view("uint32"), pto.dtype("float32"))}
    given = bind(PROGRAM, Given("f", pto.dtype("float32")), frame)
    assert given.take(frame) is frame.tensors["f"] and given.spec == ScalarSpec(pto.dtype("float32"))
    assert bind(PROGRAM, Constant(int8, 0xFE), frame).take(frame).bits.view("int8").tolist() == [-2]
    for value in (-128, -1, 0, 127):
        frame.values[A] = value
        assert bind(PROGRAM, Number(int8, A), frame).take(frame).bits.view("int8").tolist() == [value]
    for value in (-129, 128):
        frame.values[A] = value
        with pytest.raises(pto.VerifyError, match="KN-11"):
            bind(PROGRAM, Number(int8, A), frame)


@pytest.mark.parametrize("value", [0, 1, 300])
def test_a_corner_is_a_number_from_0_on(value: int) -> None:
    corner = Number(pto.dtype("int32"), A, is_position=True)
    assert bind(PROGRAM, corner, frame_of(a=value)).spec == ScalarSpec(pto.dtype("int32"), value)
    with pytest.raises(pto.VerifyError, match=f"row and column 0 or later; found {-value - 1} in block 6"):
        bind(PROGRAM, corner, frame_of(a=-value - 1))
