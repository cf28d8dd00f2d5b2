"""Locations, layouts, shapes and alignments in full: every combination of small sizes, against conditions from the
documents that are written out again here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import ptokit as pto

TARGETS = ("cpu", "a2a3", "a5")
NPU = ("a2a3", "a5")
LOCATIONS = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
FORMS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zz": ("row_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "nn": ("col_major", "col_major"),
}
SIZES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
         "float32": 4}  # fmt: skip


def tile(kind: str, rows: int, cols: int, form: str = "nd", loc: str = "vec", **options: Any) -> pto.Tile:
    blayout, slayout = FORMS[form]
    made = pto.Tile(loc, kind, rows, cols, blayout=blayout, slayout=slayout, **options)
    made.buffer.view(np.uint8)[:] = 0
    return made


def table(*shape: int, kind: str = "float32", layout: str = "nd") -> pto.GlobalTensor:
    return pto.GlobalTensor(np.zeros(shape, pto.dtype(kind).numpy), layout=layout)


def rules(target: str, call: Callable[[], object]) -> set[str]:
    """The rules that refuse a call; none where it runs."""
    with pto.target(target), warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        try:
            call()
        except pto.VerifyError as refused:
            return {finding.rule for finding in refused.findings if finding.level == "error"}
    return set()


# --- Locations -------------------------------------------------------------------------------------------------


def somewhere(loc: str, kind: str) -> pto.Tile:
    made = pto.Tile(loc, kind, 16, 16)
    made.buffer.view(np.uint8)[:] = 0
    return made


@pytest.mark.clause(
    "CO-LOC-01", "MG-LOC-01", "MG-LOC-02", "MG-LOC-04", "MS-LOC-01", "MS-LOC-02", "TS-LOC-01", "MG-L1-03"
)
@pytest.mark.parametrize(("target", "loc"), list(product(TARGETS, LOCATIONS)))
def test_operands_are_tiles_in_ub(target: str, loc: str) -> None:
    vec, data = tile("float32", 16, 16), table(16, 16)
    row, cells, to = tile("int32", 1, 16), tile("int32", 16, 16), tile("float32", 16, 16)
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "mgather dst": ("MG-LOC-01", lambda: pto.mgather(somewhere(loc, "float32"), data, row)),
        "mgather idx": ("MG-LOC-02", lambda: pto.mgather(vec, data, somewhere(loc, "int32"), coalesce="elem")),
        "mscatter src": ("MS-LOC-01", lambda: pto.mscatter(data, somewhere(loc, "float32"), cells)),
        "mscatter idx": ("MS-LOC-02", lambda: pto.mscatter(data, vec, somewhere(loc, "int32"))),
        "tscatter dst": ("TS-LOC-01", lambda: pto.tscatter(somewhere(loc, "float32"), vec, cells)),
        "tscatter src": ("TS-LOC-01", lambda: pto.tscatter(to, somewhere(loc, "float32"), cells)),
        "tscatter idx": ("TS-LOC-01", lambda: pto.tscatter(to, vec, somewhere(loc, "int32"))),
    }
    for what, (rule, call) in calls.items():
        found = rules(target, call)
        if (what, loc) == ("mgather dst", "mat"):  # the path into L1, which needs an index in memory
            rule = "MG-LOC-04" if target == "cpu" else "MG-L1-03"
        assert (found == set()) == (loc == "vec"), (what, found)
        if target == "cpu" and rule == "TS-LOC-01":  # by A-52, which gives cpu the rules of the other targets
            assert loc == "vec" or found & {rule, "A-52"}, (what, found)
        else:
            assert loc == "vec" or rule in found, (what, found)


@pytest.mark.clause("MG-LOC-03", "MS-LOC-03")
@pytest.mark.parametrize(("target", "loc"), list(product(TARGETS, LOCATIONS)))
def test_tables_are_tensors_in_global_memory(target: str, loc: str) -> None:
    vec, row = tile("float32", 16, 16), tile("int32", 1, 16)
    assert rules(target, lambda: pto.mgather(vec, somewhere(loc, "float32"), row)) == {"MG-LOC-03"}
    assert rules(target, lambda: pto.mscatter(somewhere(loc, "float32"), vec, row, coalesce="row")) == {"MS-LOC-03"}


# --- Layouts ---------------------------------------------------------------------------------------------------

TABLES = {"nd": (16, 8), "dn": (16, 8), "nz": (1, 1, 1, 16, 8)}
INTO_UB = {"cpu": {("nd", "nd")}, "a2a3": {("nd", "nd"), ("nz", "nz")}, "a5": {("nd", "nd"), ("nd", "dn")}}
"""Layouts of table and destination that go together (MG-LAY-01, -03, -05, -07, -08, -09, -11, -12, -15, MG-NZ-13)."""
INDEX = {"cpu": {"nd"}, "a2a3": {"nd"}, "a5": {"nd", "dn"}}
"""Layouts of an [R, C] index (MG-LAY-02, -06, -14)."""


@pytest.mark.clause(
    "MG-LAY-01", "MG-LAY-03", "MG-LAY-05", "MG-LAY-07", "MG-LAY-08", "MG-LAY-09", "MG-LAY-11", "MG-LAY-12"
)
@pytest.mark.clause("MG-LAY-15", "MG-NZ-13", "CO-LAY-02")
@pytest.mark.parametrize(("target", "layout", "form"), list(product(TARGETS, TABLES, FORMS)))
def test_layouts_of_a_gather_into_ub(target: str, layout: str, form: str) -> None:
    for mode, index in (("row", (1, 16)), ("elem", (16, 8))):
        found = rules(
            target,
            lambda mode=mode, index=index: pto.mgather(
                tile("float32", 16, 8, form),
                table(*TABLES[layout], layout=layout),
                tile("int32", *index),
                coalesce=mode,
            ),
        )
        assert (found == set()) == ((layout, form) in INTO_UB[target]), (mode, found)


@pytest.mark.clause("MG-LAY-02", "MG-LAY-06", "MG-LAY-14", "CO-LAY-05")
@pytest.mark.parametrize(("target", "form"), list(product(TARGETS, FORMS)))
def test_layouts_of_an_element_index(target: str, form: str) -> None:
    found = rules(
        target, lambda: pto.mgather(tile("float32", 16, 8), table(16, 8), tile("int32", 16, 8, form), coalesce="elem")
    )
    assert (found == set()) == (form in INDEX[target]), found


@pytest.mark.clause("MG-L1-21", "MG-L1-22", "A-44")
@pytest.mark.parametrize(("target", "layout", "form"), list(product(NPU, TABLES, FORMS)))
def test_layouts_of_a_gather_into_l1(target: str, layout: str, form: str) -> None:
    for mode in ("row", "elem"):
        idx = table(*((16,) if mode == "row" else (16, 8)), kind="int32")
        more = {"scratch": table(128)} if mode == "elem" else {}
        found = rules(
            target,
            lambda idx=idx, more=more: pto.mgather(
                tile("float32", 16, 8, form, "mat"), table(*TABLES[layout], layout=layout), idx, **more
            ),
        )
        assert (found == set()) == (layout == "nd" and form == "nz"), (mode, found)


@pytest.mark.clause("MS-LAY-01", "MS-LAY-02", "A-52")
@pytest.mark.parametrize(("target", "form"), list(product(TARGETS, FORMS)))
def test_layouts_of_scatters(target: str, form: str) -> None:
    cells = np.arange(128).reshape(16, 8)
    plain, index = tile("float32", 16, 8), tile("int32", 16, 8).write(cells)
    for layout, shape in TABLES.items():
        to = table(*shape, layout=layout)
        found = rules(target, lambda to=to: pto.mscatter(to, tile("float32", 16, 8, form), index))
        assert (found == set()) == (form == "nd" and layout == "nd"), (layout, found)
    found = rules(target, lambda: pto.mscatter(table(16, 8), plain, tile("int32", 16, 8, form).write(cells)))
    assert (found == set()) == (form == "nd"), found
    lanes = [tile("float32", 16, 8), plain, tile("int32", 16, 8)]
    for k, kind in enumerate(("float32", "float32", "int32")):
        operands = [*lanes[:k], tile(kind, 16, 8, form), *lanes[k + 1 :]]
        found = rules(target, lambda operands=operands: pto.tscatter(*operands))
        assert (found == set()) == (form == "nd"), (k, found)


# --- Shapes of indices -----------------------------------------------------------------------------------------

SMALL = list(product((1, 2, 3), repeat=2))


@pytest.mark.clause("MG-MODE-03", "MG-MODE-05", "MG-MODE-06", "MG-MODE-08", "A-02", "A-03")
@pytest.mark.parametrize("target", TARGETS)
def test_index_shapes_of_a_row_gather(target: str) -> None:
    """[1, R] everywhere; [R, 1] as well on cpu and a5, where its entries are contiguous."""
    for (rows, cols), shape in product(SMALL, SMALL):
        found = rules(
            target,
            lambda rows=rows, cols=cols, shape=shape: pto.mgather(
                tile("float32", 4, 8, valid=(rows, cols)), table(5, cols), tile("int32", *shape)
            ),
        )
        legal = shape == (1, rows) or (shape == (rows, 1) and target != "a2a3")
        assert (found == set()) == legal, (rows, cols, shape, found)


@pytest.mark.clause("MG-MODE-04", "MG-MODE-07", "MG-MODE-09", "A-71")
@pytest.mark.parametrize("target", TARGETS)
def test_index_shapes_of_an_element_gather(target: str) -> None:
    for valid, shape in product(SMALL, SMALL):
        found = rules(
            target,
            lambda valid=valid, shape=shape: pto.mgather(
                tile("float32", 4, 8, valid=valid), table(5, 8), tile("int32", 4, 8, valid=shape), coalesce="elem"
            ),
        )
        assert (found == set()) == (valid == shape), (valid, shape, found)


@pytest.mark.clause(
    "MS-MODE-01", "MS-MODE-02", "MS-MODE-03", "MS-MODE-04", "MS-SHAPE-01", "MS-SHAPE-03", "A-05", "A-23"
)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("coalesce", [None, "row", "elem"])
def test_the_index_shape_of_a_scatter_decides_its_mode(target: str, coalesce: str | None) -> None:
    for rows, cols in product((1, 2, 3, 4), range(1, 18)):
        src, to = tile("float32", 3, 8), table(64, 8)
        idx = tile("int32", rows, cols).write(np.arange(rows * cols).reshape(rows, cols))
        events: list[pto.Event] = []
        found = rules(
            target, lambda src=src, to=to, idx=idx, events=events: events.append(
                pto.mscatter(to, src, idx, coalesce=coalesce)
            )
        )  # fmt: skip
        mode = {(3, 1): "row", (3, 8): "elem"}.get((rows, cols))
        if (rows, cols, coalesce) == (1, 3, "row"):
            mode = "row"
        legal = mode is not None and coalesce in (None, mode)
        assert (found == set()) == legal, (rows, cols, found)
        assert not legal or events[0].route == f"mscatter.{mode}"
        if coalesce is None and cols not in (1, 8):
            assert found == {"MS-MODE-04"}


@pytest.mark.clause("A-52", "TS-SHAPE-01")
@pytest.mark.parametrize("target", TARGETS)
def test_shapes_of_a_scatter_between_tiles(target: str) -> None:
    for into, src, idx in product(SMALL, SMALL, SMALL):
        found = rules(
            target,
            lambda into=into, src=src, idx=idx: pto.tscatter(
                tile("int32", 4, 8, valid=into), tile("int32", 4, 8, valid=src), tile("int32", 4, 8, valid=idx)
            ),
        )
        assert (found == set()) == (src == idx and src[1] <= into[1]), (into, src, idx, found)


@pytest.mark.clause("CO-SHAPE-02", "CO-ALIGN-02", "MG-SHAPE-12", "MG-SHAPE-13", "MG-SHAPE-04")
@pytest.mark.parametrize(("target", "mode"), list(product(TARGETS, ("row", "elem"))))
def test_every_valid_region_from_1_up_to_the_padded_extents_is_legal(target: str, mode: str) -> None:
    for rows, cols in product(range(4), range(9)):
        shape = (1, rows) if mode == "row" else (rows, cols)
        found = rules(
            target,
            lambda rows=rows, cols=cols, shape=shape: pto.mgather(
                tile("float32", 3, 8, valid=(rows, cols)), table(5, max(cols, 1)), tile("int32", 3, 8, valid=shape),
                coalesce=mode,
            ),
        )  # fmt: skip
        assert (found == set()) == (rows >= 1 and cols >= 1), (rows, cols, found)


# --- Alignment -------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-ALIGN-01", "MG-ALIGN-02", "MG-ALIGN-03", "MG-ALIGN-04", "MG-ALIGN-05", "MS-ALIGN-01")
@pytest.mark.clause("CO-ALIGN-01", "CO-ALIGN-03")
@pytest.mark.parametrize(("target", "kind"), list(product(TARGETS, SIZES)))
def test_padded_rows_are_whole_blocks_of_32_bytes(target: str, kind: str) -> None:
    for cols in (*range(1, 18), 24, *range(31, 34), 48, *range(63, 66)):
        whole = cols * SIZES[kind] % 32 == 0
        part, one = (1, 1), tile("int32", 1, 8, valid=(1, 1))
        dst, to = tile(kind, 2, cols, valid=part), table(3, 1, kind=kind)
        idx = tile("int32", 2, cols, valid=part)
        calls = {
            "mgather": (lambda dst=dst, to=to, one=one: pto.mgather(dst, to, one), True),
            "mscatter": (lambda dst=dst, to=to, idx=idx: pto.mscatter(to, dst, idx), True),
            "tload": (lambda dst=dst, to=to: pto.tload(dst, to), target != "cpu"),
            "tstore": (lambda dst=dst, to=to: pto.tstore(to, dst), target != "cpu"),
        }  # fmt: skip
        for what, (call, owns) in calls.items():
            if what in ("tload", "tstore") and cols == 1:
                continue  # one column is one burst
            found = rules(target, call)
            assert (found == set()) == (whole or not owns), (what, cols, found)


@pytest.mark.clause("MG-ALIGN-03", "MG-ALIGN-05")
@pytest.mark.parametrize("kind", SIZES)
def test_padded_columns_of_a_col_major_tile_are_whole_blocks_on_a5(kind: str) -> None:
    for rows in range(1, 72):
        dst, to = tile(kind, rows, 2, "dn", valid=(1, 1)), table(3, 1, kind=kind)
        found = rules("a5", lambda dst=dst, to=to: pto.mgather(dst, to, tile("int32", 1, 8, valid=(1, 1))))
        assert found == (set() if rows * SIZES[kind] % 32 == 0 else {"MG-ALIGN-03"}), rows


@pytest.mark.clause("MG-SHAPE-09", "MG-SHAPE-10", "MG-SHAPE-11", "MG-L1-23", "MG-NZ-01", "CO-LAY-02")
@pytest.mark.parametrize("kind", SIZES)
def test_fractal_tiles_are_whole_fractals(kind: str) -> None:
    c0 = 32 // SIZES[kind]
    for rows, cols in product((8, 15, 16, 17, 32), (c0 // 2, c0, c0 + 4, 2 * c0)):
        whole = rows % 16 == 0 and cols % c0 == 0
        for valid in {(rows, cols), (1, 1), (min(rows, 9), 3)}:
            idx, to = tile("int32", 32, 64, valid=valid), table(1, 1, 1, 16, c0, kind=kind, layout="nz")
            found = rules(
                "a2a3",
                lambda valid=valid, idx=idx, to=to, rows=rows, cols=cols: pto.mgather(
                    tile(kind, rows, cols, "nz", valid=valid), to, idx, coalesce="elem"
                ),
            )
            assert (found == set()) == whole, (rows, cols, found)
        for target in NPU:
            idx, scratch = table(rows, cols, kind="int32"), table(rows * cols, kind=kind)
            found = rules(
                target,
                lambda idx=idx, scratch=scratch, rows=rows, cols=cols: pto.mgather(
                    tile(kind, rows, cols, "nz", "mat"), table(64, kind=kind), idx, scratch=scratch
                ),
            )
            assert found == (set() if whole else {"MG-L1-23"}), (target, rows, cols)


@pytest.mark.clause("MG-SHAPE-07", "MG-SHAPE-08", "MG-NZ-01", "MG-NZ-02")
@pytest.mark.parametrize("kind", SIZES)
def test_fractal_tables_are_blocks_of_16_rows_of_32_bytes(kind: str) -> None:
    c0 = 32 // SIZES[kind]
    for high, wide, batches in product((8, 15, 16, 17, 32), (c0 // 2, c0, 2 * c0), (1, 3)):
        found = rules(
            "a2a3",
            lambda high=high, wide=wide, batches=batches: pto.mgather(
                tile(kind, 16, 6 * c0, "nz", valid=(2, 3)), table(batches, 1, 2, high, wide, kind=kind, layout="nz"),
                tile("int32", 2, 8, valid=(2, 3)), coalesce="elem",
            ),
        )  # fmt: skip
        expected = {"MG-SHAPE-07"} if high != 16 else set()
        expected |= {"MG-SHAPE-08"} if wide != c0 else set()
        assert found == expected, (high, wide, batches)


# --- Strides and outer dims ------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SEM-07", "MG-SEM-08", "MG-SEM-09", "MG-LAY-10", "MG-HAZ-08", "A-06", "A-09", "A-68", "MG-L1-24")
@pytest.mark.parametrize("pitch", [8, 9, 12, 16])
@pytest.mark.parametrize("outer", [(1, 1, 1), (2, 1, 1), (1, 3, 1), (2, 1, 2)])
def test_rows_of_a_table_by_target(pitch: int, outer: tuple[int, int, int]) -> None:
    """Capacity and row stride: cpu and a5 know Shape[3] packed rows, A2/A3 and L1 all rows, Stride[3] apart."""
    count = 4 * int(np.prod(outer))
    shape, steps = (*outer, 4, 8), [pitch * 4 * int(np.prod(outer[k + 1 :])) for k in range(3)]
    memory = np.arange(count * pitch + 8, dtype="float32")
    idx = [0, 3, 4, count - 1, 1000]
    for target in TARGETS:
        data = pto.GlobalTensor(memory, shape=shape, stride=(*steps, pitch, 1))
        dst = tile("float32", 5, 8)
        found = rules(
            target,
            lambda dst=dst, data=data: pto.mgather(
                dst, data, tile("uint32", 1, 8, valid=(1, 5)).write(idx), oob="clamp"
            ),
        )
        packed, flat = pitch == 8, outer == (1, 1, 1)
        legal = {"cpu": packed and flat, "a2a3": True, "a5": packed}[target]
        assert (found == set()) == legal, (target, found)
        if legal:
            rows = count if target == "a2a3" else 4
            assert dst.read()[:, 0].tolist() == [min(k, rows - 1) * pitch for k in idx], target
    for target in NPU:
        into = tile("float32", 16, 8, "nz", "mat", valid=(5, 8))
        data = pto.GlobalTensor(memory, shape=shape, stride=(*steps, pitch, 1))
        with pto.target(target):
            pto.mgather(into, data, pto.GlobalTensor(np.array(idx, "uint32")), oob="clamp")
        assert into.read()[:, 0].tolist() == [min(k, count - 1) * pitch for k in idx], target
