"""A clean program gives the bits of the reference under every schedule; a program that does not is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto

NZ = {"blayout": "col_major", "slayout": "row_major"}
Arrays = dict[str, Any]


def integers(*shape: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + int(np.prod(shape)), dtype="int32").reshape(shape)


# --- clean ---------------------------------------------------------------------------------------------------------


@pto.kernel
def table_written_after(weights, table, ids, scratch):
    """The scalar pipe reads the table for an element gather into L1, then the table is stored to."""
    matrix = pto.Tile("mat", "float16", 16, 16, **NZ)
    left, right = pto.Tile("left", "float16", 16, 16), pto.Tile("right", "float16", 16, 16)
    total = pto.Tile("acc", "float32", 16, 16)
    pto.tload(matrix, weights)
    pto.tmov(left, matrix)
    pto.tmov(right, matrix)
    pto.tmatmul(total, left, right)
    for _ in range(8):
        pto.tload(pto.Tile("mat", "float16", 16, 16, **NZ), weights)
    gathered = pto.Tile("mat", "float32", 16, 8, **NZ)
    pto.mgather(gathered, table, ids, coalesce="elem", oob="clamp", scratch=scratch)
    pto.tstore(table, total)


def product_arrays() -> Arrays:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 256, (16, 8)).astype("int32")
    tables = {"weights": rng.random((16, 16)).astype("float16"), "table": rng.random((16, 16)).astype("float32")}
    return {**tables, "ids": ids, "scratch": np.zeros(128, "float32")}


@pto.kernel
def scratch_read_back(table, ids, scratch, out, executor: pto.const = "scalar"):
    """A number is read from what a gather has put into its scratch."""
    first = pto.Tile("mat", "int32", 16, 8, **NZ)
    second = pto.Tile("mat", "int32", 16, 8, **NZ)
    pto.mgather(first, table, ids, coalesce="elem", oob="clamp", scratch=scratch, executor=executor)
    n = pto.load_scalar(scratch, 3)
    pto.mgather(second, table, ids, coalesce="elem", oob="clamp", scratch=out[n : n + 128], executor=executor)


@pto.kernel
def scratch_read_first(table, ids, scratch, out, executor: pto.const = "scalar"):
    """A number is read from where a gather will put its scratch."""
    tile = pto.Tile("mat", "int32", 16, 8, **NZ)
    n = pto.load_scalar(scratch, 3)
    pto.mgather(tile, table, ids, coalesce="elem", oob="clamp", scratch=scratch, executor=executor)
    pto.mgather(tile, table, ids, coalesce="elem", oob="clamp", scratch=out[n : n + 128], executor=executor)


def scratch_arrays() -> Arrays:
    ids = integers(16, 8) % 16
    return {"table": integers(1, 16), "ids": ids, "scratch": np.zeros(128, "int32"), "out": np.zeros(256, "int32")}


@pto.kernel(mode="manual")
def by_events(table, ids, out, down: pto.const = True):
    """One element is gathered by another pipe than eight, so an event is signalled by one and then by the other."""
    for i in pto.range(2):
        n = 8 - 7 * i if down else 1 + 7 * i
        idx = pto.Tile("vec", "int32", 1, 8, valid=(1, n), addr=0)
        got = pto.Tile("vec", "int32", 1, 8, valid=(1, n), addr=32)
        pto.barrier("ALL")
        loaded = pto.tload(idx, ids[i : i + 1, 0:n])
        gathered = pto.mgather(got, table, idx, coalesce="elem", oob="clamp", wait=loaded)
        pto.tstore(out[i : i + 1, 0:n], got, wait=gathered)


def event_arrays() -> Arrays:
    return {"table": integers(8, 8, start=100), "ids": integers(2, 8), "out": np.zeros((2, 8), "int32")}


@pto.kernel(mode="manual")
def atomics_backwards(x, ids, acc, y, out):
    """Flags order the atomic that is later in the text first."""
    idx = pto.Tile("vec", "int32", 1, 8, addr=0)
    tile = pto.Tile("vec", "int32", 1, 8, addr=64)
    pto.tload(idx, ids)
    pto.tload(tile, x)
    pto.barrier("ALL")
    pto.wait_flag("MTE3", "V", 0)
    pto.mscatter(acc, tile, idx, coalesce="elem", atomic="add", oob="skip")
    pto.tadds(tile, tile, 5)
    pto.set_flag("V", "MTE2", 0)
    pto.wait_flag("V", "MTE2", 0)
    pto.tload(tile, y)
    pto.tstore(acc, idx, atomic="add")
    pto.set_flag("MTE3", "V", 0)
    pto.set_flag("MTE2", "MTE3", 1)
    pto.wait_flag("MTE2", "MTE3", 1)
    pto.tstore(out, tile)


def atomic_arrays() -> Arrays:
    made = {"x": integers(1, 8), "ids": integers(1, 8), "acc": np.zeros((1, 8), "int32")}
    return {**made, "y": np.full((1, 8), 77, "int32"), "out": np.zeros((1, 8), "int32")}


@pto.kernel
def many_loops(table, ids, scratch):
    """More synchronisations than event ids, so that barriers replace some flags."""
    for _ in pto.range(2):
        for j in range(10):
            for _ in pto.range(2):
                tile = pto.Tile("mat", "float32", 16, 16, **NZ)
                piece = scratch[256 * j : 256 * j + 256]
                pto.mgather(tile, table, ids, coalesce="elem", oob="clamp", scratch=piece, executor="simt")


def loop_arrays() -> Arrays:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 256, (16, 16)).astype("int32")
    return {"table": rng.random((16, 16)).astype("float32"), "ids": ids, "scratch": np.zeros(2560, "float32")}


@pto.kernel
def cleared_by_the_scalar_pipe(table, ids, before, out):
    """On A2/A3 the scalar pipe writes the zeroes of a row gather, over what was loaded before."""
    idx, tile = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
    pto.tload(idx, ids)
    pto.tload(tile, before)
    pto.mgather(tile, table, idx, oob="zero")
    pto.tstore(out, tile)


def zero_arrays() -> Arrays:
    ids = np.array([[0, 1, 99, 2, 99, 3, 99, 99]], "int32")
    made = {"table": np.ones((8, 8), "float32"), "ids": ids, "before": np.full((8, 8), 7, "float32")}
    return {**made, "out": np.zeros((8, 8), "float32")}


SIMT, DOWN, UP = {"executor": "simt"}, {"down": True}, {"down": False}
CLEAN: list[tuple[Any, Callable[[], Arrays], str, Arrays]] = [
    *((table_written_after, product_arrays, target, {}) for target in ("a2a3", "a5")),
    *((scratch_read_back, scratch_arrays, target, {}) for target in ("a2a3", "a5")),
    *((scratch_read_first, scratch_arrays, target, {}) for target in ("a2a3", "a5")),
    (scratch_read_first, scratch_arrays, "a5", SIMT),
    *((by_events, event_arrays, "a5", chosen) for chosen in (DOWN, UP)),
    (atomics_backwards, atomic_arrays, "a5", {}),
    (many_loops, loop_arrays, "a5", {}),
    *((cleared_by_the_scalar_pipe, zero_arrays, target, {}) for target in ("a2a3", "a5")),
]


def test_the_cube_core_reads_stale_what_threads_have_stored() -> None:
    """Both cores need the number, and the threads of the vector core store through its cache."""
    report = scratch_read_back[1](**scratch_arrays(), executor="simt", target="a5", engine="machine")
    assert [finding.kind for finding in report.hazards] == ["H-47"]
    assert "the cache of AIV" in report.hazards[0].message


@pytest.mark.parametrize(("kernel", "make", "target", "chosen"), CLEAN)
def test_clean_programs_do_not_depend_on_the_schedule(kernel: Any, make: Any, target: str, chosen: Arrays) -> None:
    expected = make()
    kernel[1](**expected, **chosen, target=target, engine="reference")
    for seed in (None, *range(12)):
        arrays = make()
        options = pto.MachineOptions(seed=seed)
        report = kernel[1](**arrays, **chosen, target=target, engine="machine", options=options)
        assert report.ok, report
        assert {name: arrays[name].tobytes() for name in arrays} == {n: expected[n].tobytes() for n in expected}, seed


# --- not clean -----------------------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def heard_by_another(x, ids, out, ordered: pto.const = False):
    """A scatter waits for the load of a tile: on S, which issues the store of the tile, or on V, which does not."""
    idx = pto.Tile("vec", "int32", 8, 8, addr=0)
    src = pto.Tile("vec", "int32", 8, 8, addr=256)
    dst = pto.Tile("vec", "int32", 8, 8, addr=512)
    tile = pto.Tile("vec", "int32", 8, 8, addr=1024)
    pto.tload(idx, ids)
    pto.tload(src, x)
    pto.barrier("ALL")
    pto.texpands(dst, 0)
    pto.barrier("ALL")
    loaded = pto.tload(tile, x)
    pto.tscatter(dst, src, idx, wait=loaded)
    pto.tstore(out, tile, **({"wait": loaded} if ordered else {}))


@pytest.mark.parametrize(("target", "ordered", "is_clean"), [
    ("a2a3", True, True), ("a2a3", False, True), ("a5", True, True), ("a5", False, False),
])  # fmt: skip
def test_an_event_orders_what_waits_for_it_and_what_the_scalar_pipe_issues_after_it(
    target: str, ordered: bool, is_clean: bool
) -> None:
    ids = np.tile(np.arange(8, dtype="int32")[:, None], (1, 8))
    same = set()
    for seed in range(20):
        arrays = integers(8, 8), ids, np.zeros((8, 8), "int32")
        options = pto.MachineOptions(seed=seed)
        report = heard_by_another[1](*arrays, ordered=ordered, target=target, engine="machine", options=options)
        assert [(found.rule, found.operand) for found in report.hazards] == [("KN-13", "src")] * (not is_clean)
        same.add(bool(np.array_equal(arrays[2], arrays[0])))
    assert (same == {True}) == is_clean


@pto.kernel(mode="manual")
def cleared_too_early(table, ids, before, out, oob: pto.const = "zero", ordered: pto.const = False):
    """The index is waited for as the documents ask, the load of the destination is not."""
    idx, tile = pto.Tile("vec", "int32", 1, 8, addr=0), pto.Tile("vec", "float32", 8, 8, addr=64)
    pto.tload(idx, ids)
    if not ordered:
        pto.set_flag("MTE2", "V", 1)
        pto.wait_flag("MTE2", "V", 1)
    pto.tload(tile, before)
    if ordered:
        pto.set_flag("MTE2", "V", 1)
        pto.wait_flag("MTE2", "V", 1)
    pto.mgather(tile, table, idx, oob=oob)
    pto.barrier("ALL")
    pto.tstore(out, tile)


@pytest.mark.parametrize(
    ("oob", "ordered", "is_clean"), [("zero", False, False), ("zero", True, True), ("clamp", False, True)]
)
def test_zeroes_of_the_scalar_pipe_are_writes(oob: str, ordered: bool, is_clean: bool) -> None:
    report = cleared_too_early[1](**zero_arrays(), oob=oob, ordered=ordered, target="a2a3", engine="machine")
    assert [finding.operand for finding in report.hazards] == ["dst"] * (not is_clean)


# --- workspaces ----------------------------------------------------------------------------------------------------


@pto.kernel(mode="manual")
def kept_over_a_sum(x, out, sums, addr: pto.const = 0x2000):
    """A tile is stored after a sum of columns whose workspace may be the same memory."""
    a = pto.Tile("vec", "float32", 16, 16, addr=0)
    row = pto.Tile("vec", "float32", 1, 16, addr=0x1000)
    keep = pto.Tile("vec", "float32", 16, 16, addr=0x2000)
    work = pto.Tile("vec", "float32", 16, 16, addr=addr)
    pto.tload(a, x)
    pto.tload(keep, x)
    pto.barrier("ALL")
    pto.tcolsum(row, a, tmp=work)
    pto.barrier("ALL")
    pto.tstore(out, keep)
    pto.tstore(sums, row)


@pto.kernel(mode="manual")
def kept_over_a_sum_of_rows(x, out, sums, addr: pto.const = 0x2000):
    """The same with a sum of rows of integers, whose workspace A5 ignores."""
    a = pto.Tile("vec", "int32", 16, 16, addr=0)
    col = pto.Tile("vec", "int32", 16, 1, blayout="col_major", addr=0x1000)
    keep = pto.Tile("vec", "int32", 16, 16, addr=0x2000)
    work = pto.Tile("vec", "int32", 16, 16, addr=addr)
    pto.tload(a, x)
    pto.tload(keep, x)
    pto.barrier("ALL")
    pto.trowsum(col, a, tmp=work)
    pto.barrier("ALL")
    pto.tstore(out, keep)
    pto.tstore(sums, col)


@pytest.mark.parametrize(("kernel", "axis", "target", "is_used"), [
    (kept_over_a_sum, 0, "a2a3", True), (kept_over_a_sum, 0, "a5", True),
    (kept_over_a_sum_of_rows, 1, "a2a3", True), (kept_over_a_sum_of_rows, 1, "a5", False),
])  # fmt: skip
@pytest.mark.parametrize(("addr", "is_apart"), [(0x2000, False), (0x2200, False), (0x3000, True)])
def test_a_workspace_holds_nothing_that_was_there_before(
    kernel: Any, axis: int, target: str, is_used: bool, addr: int, is_apart: bool
) -> None:
    """Unless the target ignores it."""
    x = np.arange(256, dtype="int32" if axis else "float32").reshape(16, 16)
    expected = x.sum(axis=axis, keepdims=True, dtype=x.dtype)
    out, sums = np.zeros_like(x), np.zeros_like(expected)
    options = pto.MachineOptions(seed=0)
    kernel[1](x, out, sums, addr=addr, target=target, engine="machine", options=options)
    assert np.array_equal(out, x) == (is_apart or not is_used)
    assert np.array_equal(sums, expected)
