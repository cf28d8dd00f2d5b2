"""What the headers touch beside the result: overwritten sources, whole blocks, workspaces, scalar work.

The facts are those of the public headers, which `make witness` shows; each test fails with the plain tables.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType

FLOATS, BYTES = np.ones((8, 64), "float32"), np.ones((8, 64), "int8")
Body = Callable[..., None]


def run(body: Body, *arrays: Any, target: str = "a2a3", mode: str = "auto") -> Any:
    """The report of a launch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pto.kernel(mode=mode)(body)[1](*arrays, target=target, engine="machine")


def faults(report: Any) -> list[str]:
    """The messages that say that something is wrong."""
    return [each.message for each in report.findings if each.level in ("error", "hazard")]


def hand(src: str, dst: str) -> None:
    pto.set_flag(src, dst, 0)
    pto.wait_flag(src, dst, 0)


# --- sources


def quantised(x: Any, scale: Any, out: Any, again: Any) -> None:
    source, factor = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "float32", 8, 1, blayout="col_major")
    result, tmp = pto.Tile("vec", "int8", 8, 64), pto.Tile("vec", "float32", 8, 64)
    pto.tload(source, x)
    pto.tload(factor, scale)
    pto.tquant(result, source, factor, tmp=tmp)
    pto.tstore(out, result)
    pto.tstore(again, source)


@pytest.mark.parametrize(("target", "lost"), [("a2a3", True), ("a5", False)])
def test_the_source_of_a_quantisation_is_gone(target: str, lost: bool) -> None:
    arrays = FLOATS, np.ones((8, 1), "float32"), np.zeros((8, 64), "int8"), np.zeros((8, 64), "float32")
    found = faults(run(quantised, *arrays, target=target))
    assert len(found) == lost and all("tquant" in each and "overwritten" in each for each in found)


def stored_before_it_is_quantised(x: Any, out: Any) -> None:
    source, factor = (
        pto.Tile("vec", "float32", 8, 64, addr=0),
        pto.Tile("vec", "float32", 8, 1, blayout="col_major", addr=2048),
    )
    result, tmp = pto.Tile("vec", "int8", 8, 64, addr=4096), pto.Tile("vec", "float32", 8, 64, addr=8192)
    pto.texpands(factor, 1.0)
    pto.tload(source, x)
    hand("MTE2", "V")
    hand("MTE2", "MTE3")
    pto.tstore(out, source)
    pto.barrier("V")
    pto.tquant(result, source, factor, tmp=tmp)


@pytest.mark.parametrize(("target", "races"), [("a2a3", 1), ("a5", 0)])
def test_a_store_of_the_source_must_end_before_it_is_quantised(target: str, races: int) -> None:
    found = run(stored_before_it_is_quantised, FLOATS, np.zeros((8, 64), "float32"), target=target, mode="manual")
    assert len([each for each in found.findings if each.level == "error"]) == races


# --- workspaces


def selected(first: str) -> Body:
    def body(out: Any, kept: Any) -> None:
        mask, data = pto.Tile("vec", "uint8", 8, 32, addr=0), pto.Tile("vec", "float32", 8, 64, addr=1024)
        result, tmp = pto.Tile("vec", "float32", 8, 64, addr=4096), pto.Tile("vec", "float32", 1, 8, addr=8192)
        pto.texpands(mask, 0)
        pto.texpands(data, 1.0)
        pto.texpands(tmp, 2.0)
        hand("V", "MTE3")
        pto.tstore(kept, tmp)
        hand("MTE3", first)
        pto.barrier("V")
        pto.tsels(result, mask, data, 3.0, tmp=tmp)
        hand("V", "MTE3")
        pto.tstore(out, result)

    return body


@pytest.mark.parametrize(("first", "races"), [("S", 0), ("V", 1)])
def test_the_scalar_pipe_writes_the_workspace_of_a_selection_first(first: str, races: int) -> None:
    arrays = np.zeros((8, 64), "float32"), np.zeros((1, 8), "float32")
    found = run(selected(first), *arrays, mode="manual")
    raced = [each for each in found.findings if each.level == "error"]
    assert len(raced) == races and all("tmp" in str(each) for each in raced)


def counted(*, with_workspace: bool, cols: int = 64, kind: str = "int32", width: int = 640) -> Body:
    def body(out: Any) -> None:
        numbers, tmp = pto.Tile("vec", kind, 1, cols, addr=0), pto.Tile("vec", "float32", 1, width, addr=1024)
        pto.tci(numbers, 0, **({"tmp": tmp} if with_workspace else {}))
        hand("V" if with_workspace else "S", "MTE3")
        pto.tstore(out, numbers)

    return body


@pytest.mark.parametrize("with_workspace", [True, False])
def test_a_sequence_is_vector_code_with_a_workspace_and_scalar_code_without(with_workspace: bool) -> None:
    found = run(counted(with_workspace=with_workspace), np.zeros((1, 64), "int32"), mode="manual")
    assert [each for each in found.findings if each.level == "error"] == []


@pytest.mark.parametrize(
    ("cols", "kind", "nbytes"), [(64, "int32", 2560), (48, "int32", 704), (8, "int32", 544), (64, "int16", 1792)]
)
def test_a_sequence_fills_its_workspace(cols: int, kind: str, nbytes: int) -> None:
    """TCI.hpp:61, 122, 153: what lies behind a smaller one is lost."""
    for width, count in ((nbytes // 4, 0), (nbytes // 4 - 8, 1)):
        body = counted(with_workspace=True, cols=cols, kind=kind, width=width)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = pto.check(pto.kernel(mode="manual")(body), np.zeros((1, cols), kind), grid=1, target="a2a3")
        assert [each.rule for each in found.findings if each.level == "error"] == ["CP-TMP-01"] * count


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_merge_that_ends_early_uses_a_flag_of_its_own(target: str) -> None:
    """The scalar pipe reads how far it came (TMrgSort.hpp:37, a5/TMrgSort.hpp:55)."""
    flags = {route: kernel.handshake.between for route, kernel in INSTRUCTIONS["tmrgsort3"].kernels[target].items()}
    assert flags == {"tmrgsort3": (), "tmrgsort3.exhausted": (("V", "S"),)}


@pytest.mark.parametrize(("rows", "offsets"), [(1, [0, 16, 255]), (16, [0, 256, 15 * 256 + 15])])
def test_a_single_row_of_the_left_matrix_lies_in_one_piece(rows: int, offsets: list[int]) -> None:
    """textract_common.hpp:459 of the public headers."""
    tile = TileSpec(dtype("float16"), TileType.Left, rows, 256, rows, 256, BLayout.RowMajor, SLayout.RowMajor)
    assert [int(tile.layout.offset(0, column)) for column in (0, 16, 255)] == offsets
    assert tile.nbytes == rows * 512


# --- whole blocks


def in_a_slice(width: int, spread: Body, kind: str) -> Body:
    """Fills a tile, computes its first columns, and stores all of it."""

    def body(out: Any) -> None:
        all_of_it, row = pto.Tile("vec", kind, 8, 64), pto.Tile("vec", kind, 8, 64)
        pto.texpands(all_of_it, 1)
        pto.texpands(row, 2)
        spread(all_of_it[:, 0:width], row, width)
        pto.tstore(out, all_of_it)

    return body


def expand(part: Any, row: Any, width: int) -> None:
    pto.tcolexpand(part, row[0:1, 0:width])


def combine(part: Any, other: Any, width: int) -> None:
    pto.tor(part, other[:, 0:width], other[:, 0:width])


@pytest.mark.parametrize(
    ("spread", "kind", "width", "lost"),
    [
        (expand, "float32", 5, True),
        (expand, "float32", 8, False),
        (combine, "int8", 33, True),
        (combine, "int8", 34, False),
    ],
)
def test_the_neighbour_of_an_odd_last_column_is_overwritten(spread: Body, kind: str, width: int, lost: bool) -> None:
    body, out = in_a_slice(width, spread, kind), np.zeros((8, 64), kind)
    assert len([each for each in faults(run(body, out)) if "overwritten" in each]) == lost
    assert [each for each in faults(run(body, out, target="a5")) if "overwritten" in each] == []


# --- scalar work between flags


@pytest.mark.parametrize("op", [pto.tshl, pto.tshr])
def test_shifts_by_a_tile_are_scalar_loops_that_wait_by_themselves(op: Any) -> None:
    def body(out: Any) -> None:
        tile = pto.Tile("vec", "int32", 8, 64, addr=0)
        pto.texpands(tile, 1)
        op(tile, tile, tile)
        hand("V", "MTE3")
        pto.tstore(out, tile)

    found = {target: run(body, np.zeros((8, 64), "int32"), target=target, mode="manual") for target in ("a2a3", "a5")}
    assert [each.level for report in found.values() for each in report.findings if each.level == "error"] == []
    assert found["a2a3"].timeline.busy["AIV.S"] > 0.9 > 0.5 > found["a5"].timeline.busy["AIV.S"]


# --- padding


def test_the_last_block_of_a_loaded_row_is_padded_and_no_other_row() -> None:
    def body(x: Any, out: Any) -> None:
        tile = pto.Tile("vec", "int16", 3, 16, addr=0, valid=(2, 3), pad="zero")
        whole = pto.Tile("vec", "int16", 3, 16, addr=0)
        pto.tload(tile, x)
        hand("MTE2", "MTE3")
        pto.tstore(out, whole)

    given = np.arange(1, 7, dtype="int16").reshape(2, 3), np.zeros((3, 16), "int16")
    found = faults(run(body, *given, mode="manual"))
    assert [each for each in found if "32 of 96 bytes hold no data" in each] == found != []


# --- more sources and blocks


def remainder(x: Any, y: Any, out: Any, again: Any) -> None:
    left, right, result = (pto.Tile("vec", "int32", 8, 64) for _ in range(3))
    pto.tload(left, x)
    pto.tload(right, y)
    pto.trem(result, left, right, tmp=pto.Tile("vec", "int32", 3, 64))
    pto.tstore(out, result)
    pto.tstore(again, right)


@pytest.mark.parametrize(("target", "lost"), [("a2a3", 1), ("a5", 0)])
def test_the_divisor_of_integers_is_gone(target: str, lost: int) -> None:
    arrays = [np.ones((8, 64), "int32") for _ in range(4)]
    found = faults(run(remainder, *arrays, target=target))
    assert len([each for each in found if "trem" in each and "overwritten" in each]) == lost


def reduced(op: Any) -> Body:
    def body(out: Any) -> None:
        row, data = pto.Tile("vec", "float32", 1, 64), pto.Tile("vec", "float32", 8, 64)
        pto.texpands(row, 1)
        pto.texpands(data, 1)
        op(row[:, 0:5], data[:, 0:5])
        pto.tstore(out, row)

    return body


@pytest.mark.parametrize(("kind", "width"), [("float32", 128), ("float32", 64), ("float16", 128)])
@pytest.mark.parametrize("is_free", [False, True])
def test_positions_in_columns_need_more_than_a_row(kind: str, width: int, is_free: bool) -> None:
    size = np.dtype(kind).itemsize
    regions = 3 if size == 2 else 2

    def body(x: Any, out: Any, kept: Any) -> None:
        source, rows = pto.Tile("vec", kind, 8, width, addr=0), pto.Tile("vec", "int32", 1, width, addr=0x4000)
        behind = pto.Tile("vec", kind, 8, width, addr=0x8000 + 256 * (regions - 1 + is_free))
        tmp = pto.Tile("vec", kind, 1, 256 // size, addr=0x8000)
        pto.tload(source, x)
        pto.tload(behind, x)
        hand("MTE2", "V")
        pto.tcolargmax(rows, source, tmp=tmp)
        hand("V", "MTE3")
        pto.tstore(out, rows)
        pto.tstore(kept, behind)

    x = np.ones((8, width), kind)
    found = faults(run(body, x, np.zeros((1, width), "int32"), np.zeros((8, width), kind), mode="manual"))
    assert any("workspace" in each for each in found) == (not is_free), found


@pytest.mark.parametrize("op", [pto.tcolsum, pto.tcolprod, pto.tcolmax, pto.tcolmin])
def test_column_reductions_write_a_whole_block(op: Any) -> None:
    found = {target: faults(run(reduced(op), np.zeros((1, 64), "float32"), target=target)) for target in ("a2a3", "a5")}
    assert [len([each for each in found[target] if "12 of 256 bytes" in each]) for target in found] == [1, 0]


def beside(op: Callable[..., None], cols: int) -> Body:
    """An operation into the first columns of a tile that is stored whole."""

    def body(x: Any, numbers: Any, out: Any) -> None:
        whole, data = pto.Tile("vec", "float32", 8, 64, addr=0), pto.Tile("vec", "float32", 8, 64, addr=0x1000)
        part, idx = (
            pto.Tile("vec", "float32", 8, 64, addr=0, valid=(8, cols)),
            pto.Tile("vec", "uint32", 8, 64, addr=0x2000),
        )
        pto.tload(whole, x)
        pto.tload(data, x)
        pto.tload(idx, numbers)
        hand("MTE2", "V")
        op(part, data, idx)
        hand("V", "MTE3")
        hand("S", "MTE3")
        pto.tstore(out, whole)

    return body


def moved(part: Any, data: Any, _: Any) -> None:
    pto.tmov(part, data[:, 0:5])


def joined(part: Any, data: Any, _: Any) -> None:
    pto.tconcat(part, data[:, 0:3], data[:, 8:10])


def joined_by_blocks(part: Any, data: Any, _: Any) -> None:
    pto.tconcat(part, data[:, 0:8], data[:, 8:10])


def sorted_rows(part: Any, data: Any, idx: Any) -> None:
    pto.tsort32(part, data[:, 0:30], idx[:, 0:30], tmp=pto.Tile("vec", "float32", 1, 32, addr=0x3000))


WHOLE = np.ones((8, 64), "float32"), np.zeros((8, 64), "uint32"), np.zeros((8, 64), "float32")


@pytest.mark.parametrize(
    ("op", "cols", "lost"), [(moved, 5, 3), (joined, 5, 3), (joined_by_blocks, 10, 6), (sorted_rows, 60, 4)]
)
def test_copies_and_sorts_write_whole_blocks(op: Callable[..., None], cols: int, lost: int) -> None:
    found = {name: faults(run(beside(op, cols), *WHOLE, target=name, mode="manual")) for name in ("a2a3", "a5")}
    expected = f"{8 * 4 * lost} of 2048 bytes"
    on_a5 = int(op is sorted_rows)
    assert [len([each for each in found[name] if expected in each]) for name in found] == [1, on_a5], found


def long_rows(x: Any, out: Any, kept: Any) -> None:
    """Two tiles of 36 columns behind each other; the first one is computed last."""
    source = pto.Tile("vec", "int64", 4, 36, addr=0x4000)
    result, behind = (pto.Tile("vec", "int64", 4, 36, addr=place * 4 * 36 * 8) for place in (0, 1))
    pto.tload(source, x)
    pto.tload(behind, x)
    hand("MTE2", "V")
    pto.tadd(result, source, source)
    hand("V", "MTE3")
    pto.tstore(out, result)
    pto.tstore(kept, behind)


def test_rows_of_8_byte_types_end_with_a_whole_step_on_a5() -> None:
    longs = [np.ones((4, 36), "int64") for _ in range(3)]
    (lost,) = faults(run(long_rows, *longs, target="a5", mode="manual"))
    assert f"{(64 - 36) * 8} of 1152 bytes" in lost


# --- masks


def compared(kind: str, **options: Any) -> Body:
    """A comparison into the first columns of masks that are stored whole."""

    def body(x: Any, out: Any) -> None:
        data, whole = pto.Tile("vec", kind, 8, 32, addr=0), pto.Tile("vec", "uint8", 8, 32, addr=0x2000)
        part = pto.Tile("vec", "uint8", 8, 32, addr=0x2000, valid=(8, 4))
        pto.texpands(whole, 0)
        pto.tload(data, x)
        hand("MTE2", "V")
        pto.tcmps(part, data, 1.0, **options)
        hand("V", "MTE3")
        pto.tstore(out, whole)

    return body


@pytest.mark.parametrize(("kind", "mode", "lost"), [("float32", "gt", 4), ("float16", "gt", 12), ("float16", "ne", 28)])
def test_a_comparison_writes_the_bits_of_a_step(kind: str, mode: str, lost: int) -> None:
    arrays = np.ones((8, 32), kind), np.zeros((8, 32), "uint8")
    found = faults(run(compared(kind, mode=mode), *arrays, mode="manual"))
    assert any(f"{8 * lost} of 256 bytes" in each for each in found), found


@pytest.mark.parametrize(("kind", "behind"), [("float32", 256), ("int32", 128)])
@pytest.mark.parametrize("is_free", [False, True])
def test_the_mask_of_a_remainder_lies_behind_its_workspace(kind: str, behind: int, is_free: bool) -> None:
    def body(x: Any, out: Any, kept: Any) -> None:
        tiles = [pto.Tile("vec", kind, 8, 32, addr=0x1000 * number) for number in range(3)]
        tmp = pto.Tile("vec", kind, 1, 40, addr=0x4000)
        after = pto.Tile("vec", kind, 8, 32, addr=0x4000 + 128 + behind - 32 * (not is_free))
        for tile in (*tiles[1:], after):
            pto.tload(tile, x)
        hand("MTE2", "V")
        pto.trem(*tiles, tmp=tmp)
        hand("V", "MTE3")
        pto.tstore(out, tiles[0])
        pto.tstore(kept, after)

    arrays = [np.ones((8, 32), kind) for _ in range(3)]
    found = faults(run(body, *arrays, mode="manual"))
    assert any("workspace" in each for each in found) == (not is_free), found


@pytest.mark.parametrize(("kind", "cols", "written"), [("int8", 32, 192), ("int8", 128, 256), ("int16", 32, 128)])
@pytest.mark.parametrize("is_free", [False, True])
def test_a_conversion_that_wraps_writes_its_workspace_as_far_as_elements_go(
    kind: str, cols: int, written: int, is_free: bool
) -> None:
    """64 elements of 4 bytes at once; to int8, as many of 2 bytes behind the first half (TCvt.hpp:405, 493)."""

    def body(x: Any, out: Any, kept: Any) -> None:
        source, result = pto.Tile("vec", "float16", 1, cols, addr=0), pto.Tile("vec", kind, 1, cols, addr=0x1000)
        tmp = pto.Tile("vec", "int32", 1, 8, addr=0x2000)
        after = pto.Tile("vec", "float16", 1, cols, addr=0x2000 + written - 32 * (not is_free))
        pto.tload(source, x)
        pto.tload(after, x)
        hand("MTE2", "V")
        pto.tcvt(result, source, tmp=tmp)
        hand("V", "MTE3")
        pto.tstore(out, result)
        pto.tstore(kept, after)

    arrays = np.ones((1, cols), "float16"), np.zeros((1, cols), kind), np.zeros((1, cols), "float16")
    found = faults(run(body, *arrays, mode="manual"))
    assert any("workspace" in each for each in found) == (not is_free), found


# --- scalar work


def divided(x: Any, out: Any) -> None:
    kind = pto.dtype(x.dtype)
    source, result = (pto.Tile("vec", kind, 8, 64, addr=address) for address in (0, 0x4000))
    pto.tload(source, x)
    hand("MTE2", "V")
    pto.tdivs(result, source, 3)
    hand("V", "MTE3")
    pto.tstore(out, result)


@pytest.mark.parametrize(("kind", "is_loop"), [("int32", True), ("int16", True), ("int64", False), ("float32", False)])
def test_integers_are_divided_by_a_scalar_loop_on_a5(kind: str, is_loop: bool) -> None:
    report = run(divided, np.ones((8, 64), kind), np.zeros((8, 64), kind), target="a5", mode="manual")
    assert not faults(report) and (report.timeline.busy["AIV.S"] > 0.9) == is_loop


def stored_after_a_concatenation(x: Any, out: Any) -> None:
    data = pto.Tile("vec", "float32", 8, 32, addr=0x1000)
    part = pto.Tile("vec", "float32", 8, 64, addr=0, valid=(8, 62))
    pto.tload(data, x)
    hand("MTE2", "V")
    pto.tconcat(part, data[:, 0:31], data[:, 0:31])
    hand("V", "MTE3")
    pto.tstore(out, part)


def test_a_concatenation_inside_a_block_is_scalar_work() -> None:
    arrays = np.ones((8, 32), "float32"), np.zeros((8, 62), "float32")
    found = {
        name: faults(run(stored_after_a_concatenation, *arrays, target=name, mode="manual")) for name in ("a2a3", "a5")
    }
    assert [bool(found[name]) for name in found] == [True, False], found


# --- what is left alone


def beside_a_window(x: Any, out: Any) -> None:
    """The right half is loaded again while the left one is copied."""
    data, part = pto.Tile("vec", "float32", 8, 64, addr=0), pto.Tile("vec", "float32", 8, 32, addr=0x1000)
    pto.tload(data, x)
    hand("MTE2", "V")
    pto.textract(part, data, 0, 0)
    pto.tload(data[:, 32:64], x[:, 32:64])
    hand("V", "MTE3")
    pto.tstore(out, part)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_window_is_read_alone(target: str) -> None:
    arrays = np.ones((8, 64), "float32"), np.zeros((8, 32), "float32")
    assert not faults(run(beside_a_window, *arrays, target=target, mode="manual"))


def window(x: Any, out: Any) -> None:
    source, part = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "float32", 4, 16)
    pto.tload(source[4:8, 32:48], x)
    pto.textract(part, source, 4, 32)
    pto.tstore(out, part)


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_a_window_reads_nothing_beside_it(target: str) -> None:
    assert faults(run(window, FLOATS[:4, :16].copy(), np.zeros((4, 16), "float32"), target=target)) == []


def in_place(out: Any) -> None:
    tile = pto.Tile("vec", "int8", 8, 64)
    pto.texpands(tile, 1)
    pto.tnot(tile, tile)
    pto.tstore(out, tile)


def into_a_row(x: Any, out: Any) -> None:
    rows, data = pto.Tile("vec", "float32", 4, 16), pto.Tile("vec", "float32", 8, 16)
    pto.tload(rows, x)
    pto.texpands(data, 1)
    pto.tcolsum(rows, data)
    pto.tstore(out, rows)


def dividend(x: Any, y: Any, out: Any, again: Any) -> None:
    left, right, result = (pto.Tile("vec", "int32", 8, 64) for _ in range(3))
    pto.tload(left, x)
    pto.tload(right, y)
    pto.trem(result, left, right, tmp=pto.Tile("vec", "int32", 3, 64))
    pto.tstore(out, result)
    pto.tstore(again, left)


SQUARE = np.ones((4, 16), "float32")


@pytest.mark.parametrize(
    ("body", "arrays"),
    [(in_place, (BYTES,)), (into_a_row, (SQUARE, SQUARE)), (dividend, [np.ones((8, 64), "int32") for _ in range(4)])],
)
def test_data_that_the_headers_keep_may_be_read(body: Body, arrays: Any) -> None:
    assert faults(run(body, *(each.copy() for each in arrays))) == []


def test_a_transpose_into_a_slice_goes_by_the_rows_of_its_tile() -> None:
    """The header takes the stride: squares are moved by vector code, whose results a store waits for on V."""
    whole, source = pto.Tile("vec", "float32", 16, 16).write(0), pto.Tile("vec", "float32", 8, 16).write(1)
    with pto.target("a2a3"):
        assert pto.ttrans(whole[:, 0:8], source).route == "ttrans"


# --- extents that are known at run time only


def joined(x: Any, out: Any, n: int) -> None:
    left, right = (pto.Tile("vec", "int32", 8, 32, valid=(8, n)) for _ in range(2))
    both = pto.Tile("vec", "int32", 8, 64, valid=(8, n + n))
    pto.tload(left, x[:, 0:n])
    pto.tload(right, x[:, 0:n])
    pto.tconcat(both, left, right)
    pto.tstore(out[:, 0 : n + n], both)


def moved(x: Any, out: Any, n: int) -> None:
    source, copy = (pto.Tile("vec", "int32", 8, 32, valid=(8, n)) for _ in range(2))
    pto.tload(source, x[:, 0:n])
    pto.tmov(copy, source)
    pto.tstore(out[:, 0:n], copy)


def positions(x: Any, out: Any, n: int) -> None:
    source, rows = pto.Tile("vec", "float32", 8, 64, valid=(8, n)), pto.Tile("vec", "int32", 8, 8, valid=(8, 1))
    pto.tload(source, x[:, 0:n])
    pto.trowargmax(rows, source)
    pto.tstore(out[:, 0:1], rows)


@pytest.mark.parametrize(
    ("body", "kind", "wanted"),
    [
        (joined, "int32", lambda x, n: np.concatenate([x[:, :n], x[:, :n]], axis=1)),
        (moved, "int32", lambda x, n: x[:, :n]),
        (positions, "float32", lambda x, n: x[:, :n].argmax(axis=1)[:, None]),
    ],
)
@pytest.mark.parametrize("n", [3, 8, 24])
def test_routes_of_extents_that_are_known_at_run_time(body: Body, kind: str, wanted: Any, n: int) -> None:
    x, out = np.random.default_rng(0).permutation(8 * 64).reshape(8, 64).astype(kind), np.zeros((8, 64), "int32")
    expected = wanted(x, n)
    report = run(body, x, out, n)
    assert report.ok, faults(report)
    assert (out[:, : expected.shape[1]] == expected).all()


@pytest.mark.parametrize("op", [pto.tcolargmax, pto.tcolargmin])
@pytest.mark.parametrize("n", [3, 64])
def test_a_workspace_of_positions_whose_columns_are_known_at_run_time(op: Any, n: int) -> None:
    def body(x: Any, out: Any, n: int) -> None:
        source, rows = pto.Tile("vec", "float32", 8, 64, valid=(8, n)), pto.Tile("vec", "int32", 1, 64, valid=(1, n))
        tmp = pto.Tile("vec", "float32", 2, 64)
        pto.tload(source, x[:, 0:n])
        op(rows, source, tmp=tmp)
        pto.tstore(out[:, 0:n], rows)

    x, out = np.random.default_rng(0).permutation(8 * 64).reshape(8, 64).astype("float32"), np.zeros((1, 64), "int32")
    report = run(body, x, out, n)
    assert report.ok, faults(report)
    assert (out[0, :n] == (x.argmax(axis=0) if op is pto.tcolargmax else x.argmin(axis=0))[:n]).all()


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("cols", "level"), [(20, "error"), (32, "note")])
def test_tsort32_uses_its_workspace_for_blocks_that_are_padded(target: str, cols: int, level: str) -> None:
    with pto.target(target):
        source = pto.Tile("vec", "float32", 1, 32, valid=(1, cols), addr=0).write(np.arange(cols))
        numbers = pto.Tile("vec", "uint32", 1, 32, addr=0x400).write(np.arange(32))
        pairs = pto.Tile("vec", "float32", 1, 64, addr=0x800)
        apart, over = (pto.Tile("vec", "float32", 1, 32, addr=addr) for addr in (0x2000, 0x800))
        assert pto.tsort32(pairs, source, numbers, tmp=apart).findings == ()
        if level == "error":
            with pytest.raises(pto.VerifyError, match="A-38"):
                pto.tsort32(pairs, source, numbers, tmp=over)
        else:
            assert [each.level for each in pto.tsort32(pairs, source, numbers, tmp=over).findings] == [level]
