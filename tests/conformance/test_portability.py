"""What one target guarantees and another does not: the same calls on every target, against a written table."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.policy import GlobalLayout, TileType
from ptokit.program.cores import PipeWork, Sync
from tests.machine.executing import execute, gm
from tests.machine.executing import nz as nz_spec
from tests.machine.executing import vec as vec_spec

TARGETS = ("cpu", "cpu@aicore", "a2a3", "a5")
NZ = {"blayout": "col_major", "slayout": "row_major"}


def vec(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    tile = pto.Tile("vec", kind, rows, cols, **options)
    tile.buffer.view(np.uint8)[:] = 0
    return tile


def table(*shape: int, dtype: Any = "float32", **options: Any) -> pto.GlobalTensor:
    return pto.GlobalTensor(np.zeros(shape, dtype), **options)


def padded_rows() -> pto.GlobalTensor:
    return pto.GlobalTensor(np.zeros((4, 16), "float32")[:, :8])


def row_index() -> pto.Tile:
    return vec("int32", 1, 8)


CALLS: dict[str, tuple[Callable[[], object], set[str]]] = {
    "rows by [1,R]": (lambda: pto.mgather(vec("float32", 8, 8), table(4, 8), row_index()), set(TARGETS)),
    "elements": (
        lambda: pto.mgather(vec("float32", 8, 8), table(4, 8), vec("int32", 8, 8), coalesce="elem"),
        set(TARGETS),
    ),
    "rows by [R,1] ColMajor": (
        lambda: pto.mgather(vec("float32", 8, 8), table(4, 8), vec("int32", 8, 1, blayout="col_major")),
        {"cpu", "cpu@aicore", "a5"},
    ),
    "ColMajor destination": (
        lambda: pto.mgather(vec("float32", 8, 8, blayout="col_major"), table(4, 8), row_index()),
        {"a5"},
    ),
    "ColMajor element index": (
        lambda: pto.mgather(
            vec("float32", 8, 8), table(4, 8), vec("int32", 8, 8, blayout="col_major"), coalesce="elem"
        ),
        {"a5"},
    ),
    "padded table rows": (lambda: pto.mgather(vec("float32", 8, 8), padded_rows(), row_index()), {"a2a3"}),
    "table wider than the tile": (
        lambda: pto.mgather(vec("float32", 8, 8), table(4, 16), row_index()),
        {"cpu", "cpu@aicore", "a2a3"},
    ),
    "NZ table and tile": (
        lambda: pto.mgather(vec("float32", 16, 8, **NZ), table(1, 1, 1, 16, 8, layout="nz"), vec("int32", 1, 16)),
        {"a2a3"},
    ),
    "outer dims": (lambda: pto.mgather(vec("float32", 8, 8), table(2, 2, 8), row_index()), {"a2a3", "a5"}),
    "into L1": (
        lambda: pto.mgather(pto.Tile("mat", "float32", 16, 8, **NZ), table(4, 8), table(16, dtype="int32")),
        {"a2a3", "a5"},
    ),
    "by threads into L1": (
        lambda: pto.mgather(
            pto.Tile("mat", "float32", 16, 8, **NZ), table(4, 8), table(16, 8, dtype="int32"), scratch=table(128),
            executor="simt",
        ),
        {"a5"},
    ),
    "193 KB": (
        lambda: pto.mgather(vec("float32", 386, 128), table(4, 128), vec("int32", 1, 392, valid=(1, 386))),
        {"cpu", "cpu@aicore", "a5"},
    ),
    "217 KB": (
        lambda: pto.mgather(vec("float32", 432, 128), table(4, 128), vec("int32", 1, 432)),
        {"cpu", "cpu@aicore"},
    ),
    "scatter of padded rows": (
        lambda: pto.mscatter(padded_rows(), vec("float32", 4, 8), vec("int32", 4, 1).write([[0], [1], [2], [3]])),
        {"cpu", "cpu@aicore", "a2a3"},
    ),
}  # fmt: skip
"""A call, and the targets that guarantee it."""


def refused(call: Callable[[], object], target: str, **options: Any) -> list[pto.Finding]:
    with pto.target(target, **options) as here, warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        try:
            call()
        except pto.VerifyError as stop:
            return [finding for finding in stop.findings if finding.level == "error"]
        return [finding for finding in here.findings if finding.level == "error"]


@pytest.mark.clause("CO-HAZ-02", "CO-SEM-01", "CO-SEM-02", "A-33")
@pytest.mark.parametrize(("name", "target"), list(product(CALLS, TARGETS)))
def test_a_target_accepts_what_it_guarantees_and_nothing_else(name: str, target: str) -> None:
    call, guaranteed = CALLS[name]
    found = refused(call, target)
    assert (found == []) == (target in guaranteed), [str(finding) for finding in found]
    assert all(finding.rule and finding.fix for finding in found)


@pytest.mark.clause("CO-HAZ-01", "MG-HAZ-03")
@pytest.mark.parametrize(
    "name", ["ColMajor destination", "ColMajor element index", "padded table rows", "outer dims", "NZ table and tile"]
)
def test_what_a_header_lets_through_is_still_reported(name: str) -> None:
    """The CPU header asserts nothing of this: its build accepts the call, with a hazard."""
    call, guaranteed = CALLS[name]
    assert "cpu" not in guaranteed and refused(call, "cpu")
    with pto.target("cpu", header=True) as here, warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        call()
        levels = {finding.level for finding in here.findings}
    assert "hazard" in levels and "error" not in levels


@pytest.mark.clause("A-33", "MG-LAY-11")
@pytest.mark.parametrize("blayout", ["row_major", "col_major"])
def test_a5_gathers_into_both_layouts_in_both_modes(blayout: str) -> None:
    with pto.target("a5"):
        data, dst = np.arange(64, dtype="float32").reshape(8, 8), pto.Tile("vec", "float32", 8, 8, blayout=blayout)
        place = (lambda r, c: r * 8 + c) if blayout == "row_major" else (lambda r, c: c * 8 + r)
        rows = np.array([5, 0, 7, 7, 1, 2, 3, 6])
        pto.mgather(dst, pto.GlobalTensor(data), pto.Tile("vec", "int32", 1, 8).write(rows))
        assert all(dst.buffer[place(r, c)] == data[rows[r], c] for r, c in product(range(8), range(8)))
        cells = np.arange(64).reshape(8, 8)[::-1, ::-1]
        pto.mgather(dst, pto.GlobalTensor(data), pto.Tile("vec", "int32", 8, 8).write(cells), coalesce="elem")
        assert all(dst.buffer[place(r, c)] == data.ravel()[cells[r, c]] for r, c in product(range(8), range(8)))


@pytest.mark.clause("A-34", "MG-SHAPE-05", "MG-SHAPE-06")
@pytest.mark.parametrize("width", [7, 8, 9, 16, 256])
def test_the_width_of_an_a5_table_is_tied_to_the_tile_in_row_mode_only(width: int) -> None:
    rows = refused(lambda: pto.mgather(vec("float32", 8, 8), table(4, width), row_index()), "a5")
    assert ("MG-SHAPE-05" in {finding.rule for finding in rows}) == (width != 8)
    elems = refused(
        lambda: pto.mgather(vec("float32", 8, 8), table(4, width), vec("int32", 8, 8), coalesce="elem"), "a5"
    )
    assert elems == []


@pytest.mark.clause("A-08", "MS-OOB-07", "MS-SEM-08", "MG-SEM-10")
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_gathers_and_scatters_of_elements_have_one_capacity_where_both_are_legal(target: str) -> None:
    with pto.target(target):
        data = np.arange(24, dtype="float32").reshape(3, 8)
        last = pto.Tile("vec", "uint32", 1, 8, valid=(1, 1)).write(999)
        got = pto.Tile("vec", "float32", 1, 8, valid=(1, 1))
        pto.mgather(got, pto.GlobalTensor(data), last, coalesce="elem", oob="clamp")
        assert got.read()[0, 0] == 23  # the last of Shape[3] * Shape[4]
        pto.mscatter(pto.GlobalTensor(data), got.write(-5), last, coalesce="elem", oob="clamp")
        assert data[2, 7] == -5
    outer = refused(lambda: pto.mscatter(table(2, 3, 8), vec("float32", 1, 8), vec("int32", 1, 8)), target)
    assert [finding.rule for finding in outer] == ["MS-SHAPE-02"]


@pytest.mark.clause("A-60", "A-23", "CO-ALIGN-01", "CO-ALIGN-02")
@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
def test_the_32_byte_rule_belongs_to_the_instructions_that_move_the_tile(target: str) -> None:
    narrow, kept = (lambda: vec("float32", 4, 4)), (lambda: vec("float32", 4, 8, valid=(4, 4)))
    assert refused(narrow, target) == []  # a tile alone
    by_call = {
        "mgather": lambda t: pto.mgather(t, table(4, 4), vec("int32", 1, 8, valid=(1, 4))),
        "mscatter": lambda t: pto.mscatter(table(4, 4), t, vec("int32", 4, 1)),
        "tload": lambda t: pto.tload(t, table(4, 4)),
        "tstore": lambda t: pto.tstore(table(4, 4), t),
    }
    for name, call in by_call.items():
        owned = name.startswith("m") or target != "cpu"
        assert bool(refused(lambda call=call: call(narrow()), target)) == owned, name
        assert refused(lambda call=call: call(kept()), target) == [], name


@pytest.mark.clause("A-37", "MG-OOB-12")
@pytest.mark.parametrize("oob", ["clamp", "zero"])
def test_zeroes_of_a_fractal_tile_are_written_before_its_transfers(oob: str) -> None:
    operands = {
        "dst": nz_spec("float32", 16, 16, loc=TileType.Vec),
        "table": gm("float32", 1, 2, 4, 16, 8, layout=GlobalLayout.NZ),
        "idx": vec_spec("int32", 1, 16),
    }
    steps = execute("mgather", "a2a3", operands, range(16), oob=oob).steps
    writers = [k for k, step in enumerate(steps) if isinstance(step, PipeWork) and "dst" in step.writes]
    assert [steps[k].pipe for k in writers] == ["AIV.S", "AIV.MTE2"][oob == "clamp" :]
    if oob == "zero":
        assert Sync("AIV.S", "AIV.MTE2") in steps[writers[0] : writers[1]]


@pytest.mark.clause("A-64")
def test_enums_without_documented_numbers_have_names_for_values() -> None:
    for enum in (pto.TileType, pto.BLayout, pto.SLayout, pto.Layout):
        assert all(isinstance(member.value, str) for member in enum)
        for number in range(8):
            with pytest.raises((TypeError, ValueError)):
                enum.parse(number)
    for number in range(8):
        with pytest.raises((TypeError, ValueError)):
            pto.Tile(number, "float32", 8, 8)
