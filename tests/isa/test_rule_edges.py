"""Which operands single instructions take, at the edges of their rules: tables and formulas of the documents."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.operand import ScalarSpec, TileSpec
from ptokit.isa.parts import begins_at_box
from ptokit.isa.policy import RoundMode, ScatterIndex, TileType
from ptokit.program.verify_call import verify_call
from ptokit.target import PROFILES

FORMS = {
    "nd": ("row_major", "none_box"),
    "dn": ("col_major", "none_box"),
    "nz": ("col_major", "row_major"),
    "zn": ("row_major", "col_major"),
    "zz": ("row_major", "row_major"),
    "nn": ("col_major", "col_major"),
}


def spec(loc: str, kind: str, rows: int, cols: int, form: str = "", **options: Any) -> TileSpec:
    layout = dict(zip(("blayout", "slayout"), FORMS[form], strict=True)) if form else {}
    return pto.Tile(loc, kind, rows, cols, **layout, **options).spec


def findings(target: str, name: str, chosen: dict[str, Any] | None = None, **operands: Any) -> list[pto.Finding]:
    instruction = INSTRUCTIONS[name]
    given = {param.name: None for param in instruction.operands} | operands
    modifiers = tuple((chosen or {}).get(modifier.name) for modifier in instruction.modifiers)
    return verify_call(Call(instruction, given, modifiers, target), PROFILES[target])


def named(found: list[pto.Finding], level: str = "error") -> set[tuple[str, str]]:
    """The clauses and operands of the findings of a level."""
    return {(each.rule, each.operand) for each in found if each.level == level}


# --- products with scales

SCALED = [f"{name}_mx{added}" for name in ("tmatmul", "tgemv") for added in ("", "_acc", "_bias")]
LAYOUTS = {form: spec("vec", "int8", 32, 32, form) for form in FORMS}


def scaled(name: str) -> dict[str, TileSpec]:
    """Operands of a product with scales that every target with scales takes."""
    rows = 1 if name.startswith("tgemv") else 16
    acc = spec("acc", "float32", 16, 32, valid=(rows, 32))
    tiles = {
        "dst": acc,
        "a": spec("left", "float8_e4m3", 16, 64, "nz", valid=(rows, 64)),
        "a_scale": spec("scale_left", "float8_e8m0", 16, 2, valid=(rows, 2)),
        "b": spec("right", "float8_e5m2", 64, 32),
        "b_scale": spec("scale_right", "float8_e8m0", 2, 32),
    }
    more = {"acc": acc, "bias": spec("bias", "float32", 1, 32)}
    return tiles | {added: tile for added, tile in more.items() if name.endswith(added)}


PLACES = {
    "dst": ("acc", "nz", 1024), "acc": ("acc", "nz", 1024), "a": ("left", "nz", 512), "b": ("right", "zn", 512),
    "a_scale": ("scale_left", "zz", 32), "b_scale": ("scale_right", "nn", 32), "bias": ("bias", "nd", 512),
}  # fmt: skip
"""The memory, the layout and the bytes of a fractal of each operand."""
FACTORS, SCALE, SUM = {"float8_e4m3", "float8_e5m2"}, {"float8_e8m0"}, {"float32"}
KINDS = {"dst": SUM, "acc": SUM, "bias": SUM, "a": FACTORS, "b": FACTORS, "a_scale": SCALE, "b_scale": SCALE}
"""The element types of each operand."""


@pytest.mark.clause("CP-MX-01", "CP-MX-02")
@pytest.mark.parametrize("target", ["cpu", "a5", "host"])
@pytest.mark.parametrize("name", SCALED)
def test_a_product_with_scales_takes_each_operand_in_its_memory_and_layout(name: str, target: str) -> None:
    tiles = scaled(name)
    assert named(findings(target, name, **tiles)) == set()
    for operand, tile in tiles.items():
        loc, form, fractal = PLACES[operand]

        def is_refused(given: TileSpec, operand: str = operand) -> bool:
            return ("CP-MX-01", operand) in named(findings(target, name, **tiles | {operand: given}))

        for other in TileType:
            assert is_refused(replace(tile, loc=other)) == (other.text != loc), (operand, other)
        for (layout, like), size in product(LAYOUTS.items(), (32, 512, 1024)):
            given = replace(tile, blayout=like.blayout, slayout=like.slayout, fractal=size)
            is_other = layout != form or (size != fractal and form != "nd")
            assert is_refused(given) == is_other, (operand, layout, size)
    for operand in ("a", "b"):
        empty = replace(tiles[operand], valid_rows=0)
        assert ("CP-MX-02", operand) in named(findings(target, name, **tiles | {operand: empty}))


@pytest.mark.clause("CP-MX-03")
@pytest.mark.parametrize("target", ["cpu", "a5", "host"])
@pytest.mark.parametrize("name", SCALED)
def test_a_product_with_scales_takes_8_bit_floats(name: str, target: str) -> None:
    tiles = scaled(name)
    for operand, kind in product(tiles, (*FACTORS, *SCALE, *SUM, "int8", "float16", "hifloat8", "int32")):
        given = replace(tiles[operand], dtype=dtype(kind))
        found = named(findings(target, name, **tiles | {operand: given}))
        assert (("CP-MX-03", operand) in found) == (kind not in KINDS[operand]), (operand, kind)


@pytest.mark.parametrize("name", SCALED)
def test_a2a3_has_no_product_with_scales(name: str) -> None:
    assert named(findings("a2a3", name, **scaled(name))) != set()


# --- windows


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5", "host"])
def test_numbers_of_at_most_4_bytes_are_inserted(target: str) -> None:
    taken = {
        *("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32"),
        *("float8_e4m3", "float8_e5m2", "float8_e8m0", "bool"),
        *(("hifloat8",) if target in ("cpu", "a5") else ()),
    }
    zero = ScalarSpec(dtype("int32"), 0)
    for kind in (*sorted(taken), "int64", "uint64", "float64", "hifloat8"):
        tile = spec("vec", kind, 16, 64)
        found = named(findings(target, "tinsert", dst=tile, src=tile, row=zero, col=zero))
        assert (("CP-INS-02", "src") in found) == (kind not in taken), kind


@pytest.mark.parametrize("form", ["nz", "zn", "zz", "nn"])
@pytest.mark.parametrize(("kind", "fractal"), [("float16", 512), ("int8", 512), ("float32", 1024), ("int8", 32)])
def test_a_window_begins_where_a_box_begins(form: str, kind: str, fractal: int) -> None:
    """At any row of NZ, whose boxes follow each other down a column of boxes, and at any column of ZN likewise."""
    tile = spec("mat", kind, 64, 64, form, fractal=fractal)
    narrow = 2 if fractal == 32 else 16 if fractal == 1024 else 32 // dtype(kind).size
    rows, cols = (16, narrow) if form in ("nz", "zz") else (narrow, 16)
    begun = set(range(64)) if form == "nz" else set(range(0, 64, rows))
    across = set(range(64)) if form == "zn" else set(range(0, 64, cols))
    for row, col in product(range(64), repeat=2):
        assert begins_at_box(tile, row, col) == (row in begun and col in across)


# --- sorting


def test_a_sort_takes_plain_vec_tiles_only() -> None:
    tiles = {"dst": spec("vec", "float32", 8, 128), "src": spec("vec", "float32", 8, 64)}
    tiles |= {"idx": spec("vec", "uint32", 8, 64)}
    for target, operand in product(("cpu", "a2a3", "a5"), tiles):
        assert named(findings(target, "tsort32", **tiles)) == set()
        wide = tiles[operand].cols
        for other in (replace(tiles[operand], loc=TileType.Mat), spec("vec", tiles[operand].dtype.name, 8, wide, "dn")):
            found = named(findings(target, "tsort32", **tiles | {operand: other}))
            assert ("CP-SRT-01", operand) in found, (target, operand)


@pytest.mark.parametrize("cols", [1, 31, 32, 33, 64])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_the_simulator_sorts_one_block_of_float16(kind: str, cols: int) -> None:
    tiles = {"dst": spec("vec", kind, 1, 256, valid=(1, 8 // dtype(kind).size * cols))}
    tiles |= {"src": spec("vec", kind, 1, 64, valid=(1, cols)), "idx": spec("vec", "uint32", 1, 64, valid=(1, cols))}
    for target in ("cpu", "a2a3", "a5"):
        noted = ("CP-HDR-01", "src") in named(findings(target, "tsort32", **tiles), "note")
        assert noted == (target == "cpu" and kind == "float16" and cols > 32)


# --- conversions


@pytest.mark.parametrize("mode", RoundMode)
def test_headers_of_a2a3_round_by_the_mode_to_floats_of_at_most_the_same_size(mode: RoundMode) -> None:
    by_name = {"int16": "float16 float32", "int32": "float32", "float32": "float16 bfloat16 float32 int32",
               "float16": "float32 int16", "int64": "float32"}  # fmt: skip
    for src, kinds in by_name.items():
        for dst in kinds.split():
            tiles = {"dst": spec("vec", dst, 8, 64), "src": spec("vec", src, 8, 64)}
            found = findings("a2a3", "tcvt", {"round": mode}, **tiles)
            sizes = [dtype(kind).size for kind in (dst, src)]
            is_rounded = dtype(dst).is_float and src != dst and sizes[0] <= sizes[1]
            is_noted = any(each.operand == "round" for each in found)
            assert is_noted == (is_rounded and mode not in (RoundMode.NONE, RoundMode.Rint)), (src, dst)


# --- scatters of tiles


@pytest.mark.clause("A-72")
@pytest.mark.parametrize("target", ["a2a3@2026.08", "a5@2026.08"])
def test_the_fix_of_row_numbers_is_the_flat_index(target: str) -> None:
    tiles = {"dst": spec("vec", "float32", 8, 16), "src": spec("vec", "float32", 8, 16)}
    tiles |= {"idx": spec("vec", "int32", 8, 16)}
    found = findings(target, "tscatter", {"index": ScatterIndex.Row}, **tiles)
    assert [each.fix for each in found if each.level == "error"] == ['write flat offsets, with index="flat"']
    assert named(findings(target, "tscatter", {"index": ScatterIndex.Flat}, **tiles)) == set()
