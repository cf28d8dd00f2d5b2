"""Findings reach the user: at the right line, once, in the right form, and nothing is written by a refused call."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import ptokit as pto


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def embedding(rows: int = 8) -> tuple[pto.Tile, pto.GlobalTensor]:
    return pto.Tile("vec", "float32", rows, 8), pto.GlobalTensor(np.arange(80, dtype="float32").reshape(10, 8))


def test_a_refusal_names_clause_operand_expectation_and_line() -> None:
    dst, table = embedding()
    idx = pto.Tile("vec", "int32", 8, 1).write(0)
    with pto.target("a2a3"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    line = here() - 1
    finding = next(f for f in refusal.value.findings if f.rule == "MG-MODE-03")
    assert (finding.level, finding.operand) == ("error", "idx")
    assert finding.where == pto.Where(__file__, line)
    assert "[1, 8]" in finding.expected
    assert "[8, 1]" in finding.found
    assert "MG-MODE-03" in str(refusal.value)
    assert isinstance(refusal.value, ValueError)


def test_the_same_refusal_points_at_each_caller() -> None:
    dst, table = embedding()
    idx = pto.Tile("vec", "int32", 8, 2).write(0)
    lines = []
    for _ in range(2):
        with pytest.raises(pto.VerifyError) as refusal:
            pto.mgather(dst, table, idx)
        lines.append(refusal.value.findings[0].where.line)
    with pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    assert lines[0] == lines[1] != refusal.value.findings[0].where.line


@pytest.mark.clause("MG-OOB-04", "MG-HAZ-07")
def test_a_broken_promise_names_position_index_capacity_and_policies() -> None:
    dst, table = embedding()
    before = dst.buffer.tobytes()
    idx = pto.Tile("vec", "int32", 1, 8).write([[0, 1, 2, 10, 4, 11, 6, 7]])
    with pytest.raises(pto.OutOfBoundsError) as fault:
        pto.mgather(dst, table, idx)
    (finding,) = fault.value.findings
    assert (finding.rule, finding.kind, finding.operand, finding.level) == ("MG-OOB-04", "H-10", "idx", "error")
    assert "idx[3] = 10" in finding.message
    assert "capacity of 10" in finding.message
    assert "1 more" in finding.message
    for policy in ("clamp", "wrap", "zero"):
        assert policy in finding.fix
    assert dst.buffer.tobytes() == before
    assert isinstance(fault.value, IndexError)


def test_a_hazard_is_a_warning_at_the_users_line_and_the_result_is_there() -> None:
    dst, table = embedding(1)
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(-1)
    with pto.target("cpu") as target, pytest.warns(pto.HazardWarning) as caught:
        pto.mgather(dst, table, idx, oob="clamp")
    line = here() - 1
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert warning.message.finding.kind == "H-13"
    assert dst.read()[0, 0] == 72
    assert [f.kind for f in target.findings] == ["H-13"]


def test_a_warning_turned_into_an_error_leaves_everything_unwritten() -> None:
    dst, table = embedding(1)
    before = dst.buffer.tobytes()
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pto.HazardWarning):
            pto.mgather(dst, table, idx, oob="wrap")
    assert dst.buffer.tobytes() == before


def test_strict_turns_hazards_into_refusals() -> None:
    dst, table = embedding(1)
    before = dst.buffer.tobytes()
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 1)).write(-1)
    with pto.target("a5", strict=True), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx, oob="clamp")
    assert [(f.level, f.kind) for f in refusal.value.findings] == [("error", "H-13")]
    assert dst.buffer.tobytes() == before

    outer = pto.GlobalTensor(np.zeros((2, 5, 8), "float32"))
    with pto.target("a5", strict=True), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, outer, idx.write(0))
    assert "H-05" in {f.kind for f in refusal.value.findings}


def test_notes_are_kept_on_request_and_never_disturb() -> None:
    table = pto.GlobalTensor(np.zeros((4, 8), "float32"))
    with pto.target("a2a3", strict=True) as target:
        idx = pto.Tile("vec", "int32", 8, 1).write(0)
        event = pto.mscatter(table, pto.Tile("vec", "float32", 8, 8).write(1), idx, atomic="add", oob="skip")
    assert {f.rule for f in target.findings} == {f.rule for f in event.findings} == {"A-18"}
    assert all(f.level == "note" for f in event.findings)


@pytest.mark.clause("A-36")
def test_header_mode_lets_through_what_the_headers_do_and_shows_the_wrong_result() -> None:
    """An NZ table on A5: refused by contract; the header computes flat rows instead of fractal ones."""
    array = np.arange(2 * 16 * 8, dtype="float32").reshape(1, 2, 1, 16, 8)
    table = pto.GlobalTensor(array, layout="nz")
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 2)).write([[0, 1]])
    dst = pto.Tile("vec", "float32", 2, 8)
    with pto.target("a5"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    assert ("MG-LAY-15", "H-02") in {(f.rule, f.kind) for f in refusal.value.findings}
    with pto.target("a5", header=True), pytest.warns(pto.HazardWarning, match="MG-LAY-15"):
        pto.mgather(dst, table, idx)
    assert np.array_equal(dst.read(), array.reshape(-1, 8)[:2])


def test_header_mode_keeps_what_the_headers_assert() -> None:
    dst, table = embedding()
    idx = pto.Tile("vec", "int32", 8, 8).write(0)
    for name in ("a2a3", "a5"):
        with pto.target(name, header=True), pytest.raises(pto.VerifyError):
            pto.mgather(dst, table, idx)
    with pto.target("cpu", header=True), pytest.warns(pto.HazardWarning, match="MG-MODE-06"):
        pto.mgather(dst, table, idx)


def test_a_dynamic_extent_is_an_error_that_headers_do_not_see() -> None:
    table = pto.GlobalTensor(np.zeros((10, 16), "float32"))
    dst = pto.Tile("vec", "float32", 4, 8, valid=(4, pto.dyn(8)))
    idx = pto.Tile("vec", "int32", 1, 8, valid=(1, 4)).write(0)
    with pto.target("a5"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, idx)
    assert ("MG-SHAPE-05", "H-03") in {(f.rule, f.kind) for f in refusal.value.findings}
    with pto.target("a5", header=True), pytest.warns(pto.HazardWarning, match="MG-SHAPE-05"):
        pto.mgather(dst, table, idx)
    wrong_shape = pto.Tile("vec", "int32", 8, 8, valid=(2, pto.dyn(4))).write(0)
    with pto.target("a5"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, wrong_shape)
    assert ("MG-MODE-05", "H-40") in {(f.rule, f.kind) for f in refusal.value.findings}
    with pto.target("a5"), pytest.raises(pto.VerifyError) as refusal:
        pto.mgather(dst, table, pto.Tile("vec", "int32", 1, 8, valid=(1, pto.dyn(3))).write(0))
    assert ("MG-MODE-05", "H-27") in {(f.rule, f.kind) for f in refusal.value.findings}


def test_targets_nest_and_restore() -> None:
    dst, table = embedding()
    idx = pto.Tile("vec", "int32", 8, 1, blayout="col_major").write(0)
    with pto.target("a2a3"):
        with pto.target("a5"):
            pto.mgather(dst, table, idx)
        with pytest.raises(pto.VerifyError):
            pto.mgather(dst, table, idx)
    pto.mgather(dst, table, idx)


def test_unknown_targets_and_options_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="known: cpu"):
        pto.target("a7")
    with pytest.raises(ValueError, match="number of bytes"):
        pto.target("a5", dyn_ub=-1)


def test_a_tile_that_stands_in_two_places_takes_its_memory_once() -> None:
    with pto.target("a2a3"):
        tile = pto.Tile("vec", "float32", 140, 128).write(1)  # 70 KB; three of them would be 210 KB
        other = pto.Tile("vec", "float32", 140, 128).write(2)
        third = pto.Tile("vec", "float32", 140, 128)
        with pytest.raises(pto.VerifyError, match="MG-BUDG-02"):
            pto.tadd(third, tile, other)
        pto.tadd(tile, tile, other)
        assert (tile.read() == 3).all()
        with pytest.raises(pto.VerifyError, match="MG-BUDG-02"):
            pto.tadd(third, tile, other)


@pytest.mark.parametrize(
    ("indices", "lane", "others"),
    [([0, 10, 1, 2, 3, 4, 5, 6], 1, 0), ([0, 1, 99, 10, 1, 4, 50, 6], 2, 2), ([9, 1, 2, 3, 4, 5, 10, 2**31 - 1], 6, 1)],
)
def test_a_bad_index_is_named_with_the_number_of_others(indices: list[int], lane: int, others: int) -> None:
    dst, table = embedding()
    idx = pto.Tile("vec", "int32", 1, 8).write([indices])
    with pytest.raises(pto.OutOfBoundsError) as refusal:
        pto.mgather(dst, table, idx)
    (finding,) = refusal.value.findings
    assert f"idx[{lane}] = {indices[lane]} " in finding.message
    assert (finding.found, finding.expected) == (str(indices[lane]), "an index below 10")
    assert f"(and {others} more)" in finding.message if others else "more)" not in finding.message


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pto.Tile("vec", "flaot32", 1, 8), "float32"),
        (lambda: pto.GlobalTensor(np.zeros(3), dtype="flaot64"), "float64"),
        (lambda: pto.gather(np.zeros((4, 8)), np.zeros(2, "int32"), oob="clmap"), "clamp"),
        (lambda: pto.Tile("vec", "float32", 1, 8, blayout="colmajor"), "col_major"),
        (lambda: pto.target("a55"), "a5"),
        (lambda: pto.tadddd, "tadd"),  # type: ignore[attr-defined]
    ],
)
def test_misspelt_words_get_the_nearest_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError), match=rf"; did you mean {name}\?"):
        call()


def test_words_that_are_like_no_name_get_none() -> None:
    with pytest.raises(TypeError, match="unknown element type 'q7'") as caught:
        pto.dtype("q7")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["08,f4", "1,08", "(" * 4000 + ",f4", "2f4,2f4", "f4,", "", "\0"], ids=lambda text: text[:5]
)
def test_a_text_that_is_no_name_of_a_type_is_not_parsed(text: str) -> None:
    with pytest.raises(TypeError, match="unknown element type"):
        pto.dtype(text)
