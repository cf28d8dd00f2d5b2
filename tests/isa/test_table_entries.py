"""Entries of the instructions' tables that only an edge shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.common import by_rows
from ptokit.isa.dtype import PTO_TYPES, dtype
from ptokit.isa.instruction import Call
from ptokit.isa.mgather import L1_SIMT, MGATHER, row_of_indices
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import Coalesce, GlobalLayout, ScatterIndex, TileType
from ptokit.isa.select import ONE_RUN, PACKS_ROWS
from ptokit.isa.tload import A5_PAIRS, is_pair, plain_in_ub
from ptokit.isa.tscatter import TSCATTER, few
from ptokit.isa.tstore import has_wide_blocks
from ptokit.target import Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.text.mlir import read_module, unit_of


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_no_rule_is_listed_twice(name: str) -> None:
    """TMATMUL_ACC and TMATMUL_BIAS put the rules of their addend around those of the product."""
    rules = INSTRUCTIONS[name].rules
    assert len(rules) == len({id(rule) for rule in rules})


@pytest.mark.parametrize(("kind", "cols", "allocated"), [("float32", 7, 8), ("float16", 17, 32), ("int8", 32, 32)])
def test_a_reshaped_tile_has_rows_of_whole_blocks(kind: str, cols: int, allocated: int) -> None:
    tile = TileSpec(dtype(kind), TileType.Vec, 8, 64, 8, 64).reshaped(3, cols)
    assert (tile.rows, tile.cols, *tile.valid) == (3, allocated, 3, cols)


@pytest.mark.parametrize(("span", "cols", "rows"), [(640, 64, 10), (640, 639, 1), (32, 64, 1)])
def test_by_rows_a_table_has_as_many_rows_as_it_holds(span: int, cols: int, rows: int) -> None:
    table = TensorSpec(dtype("float32"), (1, 1, 1, 1, span), (span,) * 4 + (1,), GlobalLayout.ND)
    tile, idx = (TileSpec(dtype(kind), TileType.Vec, 4, 64, 4, 64) for kind in ("float32", "int32"))
    operands = {"dst": tile, "table": table, "idx": idx, "scratch": None}
    found = by_rows(Call(MGATHER, operands, (Coalesce.Elem, None, None), "a5"), 4, cols)
    (made,) = (spec for spec in found.operands.values() if isinstance(spec, TensorSpec))
    assert made.shape[-2:] == (rows, cols)
    assert found.coalesce is Coalesce.Row


@pytest.mark.clause("MG-SYNC-17")
def test_the_simt_route_into_l1_uses_flag_2_between_the_cores() -> None:
    assert L1_SIMT.handshake.cross_ids == (2,)


@pytest.mark.parametrize(("rows", "cols", "holds"), [(64, 32, True), (8, 32, True), (8, 40, False), (64, 40, False)])
def test_the_simulator_packs_rows_into_a_mask_of_a_bit_for_each_column(rows: int, cols: int, holds: bool) -> None:
    src = TileSpec(dtype("float32"), TileType.Vec, rows, cols, rows, cols)
    mask = TileSpec(dtype("uint8"), TileType.Vec, rows, 4, rows, 4)
    call = Call(INSTRUCTIONS["tcmps"], {"dst": mask, "src": src}, (None,), "cpu")
    assert bool(PACKS_ROWS.holds(call)) == holds


@pytest.mark.parametrize(("rows", "words", "holds"), [(1, 5, True), (1, 4, True), (2, 4, True), (2, 5, False)])
def test_the_simulator_reads_a_mask_of_several_rows_as_one_run(rows: int, words: int, holds: bool) -> None:
    data, mask = (TileSpec(dtype(k), TileType.Vec, 8, 32, rows, n) for k, n in (("float32", 32), ("uint8", words)))
    names = [param.name for param in INSTRUCTIONS["tsel"].operands]
    assert names[:2] == ["dst", "mask"]
    values = {"dst": data, "mask": mask, **dict.fromkeys(names[2:], data)}
    assert bool(ONE_RUN.holds(Call(INSTRUCTIONS["tsel"], values, (), "cpu"))) == holds


@pytest.mark.clause("TS-SEM-01")
@pytest.mark.parametrize(("cols", "kind", "holds"), [
    (256, "int16", True), (272, "int16", False), (272, "int32", True), (128, "int16", True),
])  # fmt: skip
def test_few_elements_are_named_by_16_bits(cols: int, kind: str, holds: bool) -> None:
    """128 rows of 256 columns are 2**15 elements."""
    data, idx = (TileSpec(dtype(k), TileType.Vec, 128, cols, 128, cols) for k in ("float16", kind))
    call = Call(TSCATTER, {"dst": data, "src": data, "idx": idx}, (ScatterIndex.Row,), "a5")
    assert bool(few("dst").holds(call)) == bool(few("src").holds(call)) == holds


@pytest.mark.parametrize("order", ["row_major", "col_major"])
def test_a_flat_index_counts_the_storage_of_a_tile_in_any_layout(order: str) -> None:
    """Up to its last element, and no further."""
    places = np.random.default_rng(1).permutation(32 * 8)[:64].reshape(8, 8)
    places[0, 0] = 32 * 8 - 1
    with pto.target("host"):
        dst = pto.Tile("vec", "int32", 32, 8, blayout=order).write(0)
        src, idx = (pto.Tile("vec", "int32", 8, 8).write(values) for values in (np.arange(1, 65).reshape(8, 8), places))
        pto.tscatter(dst, src, idx, index="flat")
        expected = np.zeros(32 * 8, "int32")
        for value, place in enumerate(places.flat, 1):
            expected[place] = value
        assert (dst.storage.bits == expected).all()
        with pytest.raises(pto.OutOfBoundsError, match="capacity of 256"):
            pto.tscatter(dst, src, idx.write(places + (places == places.max())), index="flat")


@pto.kernel
def gathers_over_its_indices(x, out):
    tile = pto.Tile("vec", "int32", 8, 8)
    pto.tload(tile, x)
    pto.mgather(tile, x, tile, coalesce="elem")
    pto.tstore(out, tile)


@pto.kernel
def selects_over_its_source(x, out):
    tile = pto.Tile("vec", "int32", 8, 8)
    pto.tload(tile, x)
    pto.tgather(tile, tile, tile)
    pto.tstore(out, tile)


@pto.kernel
def scatters_over_its_source(x, out):
    tile = pto.Tile("vec", "int32", 8, 8)
    pto.tload(tile, x)
    pto.tscatter(tile, tile, tile)
    pto.tstore(out, tile)


@pytest.mark.parametrize(("kernel", "rule"), [
    (gathers_over_its_indices, "A-38"), (selects_over_its_source, "CP-GAT-03"), (scatters_over_its_source, "A-52"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_operands_that_share_memory_are_noted_by_the_rule_of_the_instruction(
    kernel: pto.Kernel, rule: str, engine: str
) -> None:
    """Lanes take effect one after the other, and the run reports it."""
    numbers = np.arange(64, dtype="int32").reshape(8, 8) % 8
    found = kernel[1](numbers, numbers.copy(), engine=engine).findings
    assert [(each.level, each.rule) for each in found if "share memory" in each.message] == [("note", rule)]


# --- Loads and stores


@pytest.mark.parametrize(
    ("layout", "form", "loads"),
    [
        ("nd", "zz", True),
        ("mx_a_zz", "zz", True),
        ("mx_a_nd", "zz", True),
        ("mx_a_dn", "zz", True),
        ("mx_b_nn", "nn", True),
        ("mx_b_nd", "nn", True),
        ("mx_b_dn", "nn", True),
        ("mx_a_zz", "nn", False),
        ("mx_b_nn", "zz", False),
        ("dn", "zz", False),
        ("dn", "nn", False),
        ("nd", "nn", False),
    ],
)
@pytest.mark.parametrize("rows", [1, 16])
def test_scales_load_from_the_layouts_of_their_side(layout: str, form: str, loads: bool, rows: int) -> None:
    """Those of plain memory fill one row."""
    order = {"zz": "row_major", "nn": "col_major"}[form]
    tile = pto.Tile("mat", "float8_e8m0", rows, 2, blayout=order, slayout=order, fractal=32).spec
    tensor = TensorSpec(tile.dtype, (1, 1, 1, 16, 2), (32, 32, 32, 2, 1), GlobalLayout.parse(layout))
    assert is_pair(tensor, tile, A5_PAIRS) == (loads and (layout != "nd" or rows == 1))


@pytest.mark.parametrize(
    ("loc", "order", "holds"),
    [
        ("vec", "row_major", True),
        ("vec", "col_major", False),
        ("mat", "row_major", False),
    ],
)
def test_nd_tiles_in_ub_have_a_limit_of_rows(loc: str, order: str, holds: bool) -> None:
    tile = pto.Tile(loc, "float32", 8, 8, blayout=order).spec
    source = TensorSpec(tile.dtype, (1, 1, 1, 8, 8), (64, 64, 64, 8, 1))
    assert plain_in_ub(Call(INSTRUCTIONS["tload"], {"dst": tile, "src": source}, (), "a2a3")) == holds


@pytest.mark.parametrize(
    ("loc", "kind", "last", "wide"),
    [
        ("acc", "float32", 16, True),
        ("acc", "int32", 16, True),
        ("acc", "float32", 8, False),
        ("vec", "float32", 16, False),
        ("acc", "float16", 16, False),
        ("acc", "int8", 16, False),
    ],
)
def test_stored_accumulators_may_have_fractals_of_16_columns(loc: str, kind: str, last: int, wide: bool) -> None:
    tile = TileSpec(dtype("float32"), TileType.parse(loc), 16, 16, 16, 16)
    out = TensorSpec(dtype(kind), (1, 1, 1, 16, last), (16 * last, 16 * last, 16 * last, last, 1), GlobalLayout.NZ)
    chosen = (None,) * len(INSTRUCTIONS["tstore"].modifiers)
    assert has_wide_blocks(Call(INSTRUCTIONS["tstore"], {"dst": out, "src": tile}, chosen, "a2a3")) == wide


def test_a_tensor_in_plain_layout_can_be_sliced_and_no_other() -> None:
    array = np.arange(32, dtype="float32").reshape(8, 4)
    turned = pto.GlobalTensor(array.T, layout="dn")
    assert pto.GlobalTensor(array).is_plain and turned.is_plain
    fractals = np.zeros((1, 1, 1, 16, 8), "float32")
    assert pto.GlobalTensor(fractals).is_plain and not pto.GlobalTensor(fractals, layout="nz").is_plain


@pytest.mark.parametrize(
    ("rows", "kind", "cols"), [(5, "int32", 8), (8, "int32", 8), (9, "int32", 16), (9, "int16", 16)]
)
def test_the_index_that_a_fix_declares_has_one_entry_for_each_row(rows: int, kind: str, cols: int) -> None:
    dst, idx = (TileSpec(dtype(k), TileType.Vec, 16, 64, rows, 3) for k in ("float32", kind))
    table = TensorSpec(dtype("float32"), (1, 1, 1, 64, 64), (4096, 4096, 4096, 64, 1))
    call = Call(MGATHER, {"dst": dst, "table": table, "idx": idx, "scratch": None}, (None,) * 3, "a2a3")
    made = row_of_indices(call)
    assert (made.dtype.name, made.rows, made.cols, made.valid) == (kind, 1, cols, (1, rows))


# --- Types and extents that a call may have


NZ: dict[str, Any] = {"blayout": "col_major", "slayout": "row_major"}


def rules(target: str, call: Callable[[], Any]) -> list[str]:
    """The rules that refuse a call."""
    with pto.target(target):
        try:
            call()
        except pto.VerifyError as refusal:
            return [each.rule for each in refusal.findings if each.level == "error"]
    return []


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize(
    ("kind", "wide", "allowed"),
    [
        ("float32", "float32", "cpu a2a3 a5"),
        ("float16", "float32", "cpu a2a3 a5"),
        ("bfloat16", "float32", "cpu a5"),
        ("int32", "float32", ""),
    ],
)
def test_a_bias_is_widened_on_its_way(target: str, kind: str, wide: str, allowed: str) -> None:
    found = rules(target, lambda: pto.tmov(pto.Tile("bias", wide, 1, 16), pto.Tile("mat", kind, 1, 16).write(1)))
    assert found == ([] if target in allowed.split() else ["TV-01"])


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize(
    ("kind", "total", "allowed"),
    [
        ("int8", "int32", True),
        ("int8", "float32", False),
        ("float16", "float32", True),
        ("float16", "int32", False),
    ],
)
def test_products_are_summed_in_one_type(target: str, kind: str, total: str, allowed: bool) -> None:
    def product() -> None:
        left, right = pto.Tile("left", kind, 32, 32).write(1), pto.Tile("right", kind, 32, 32).write(1)
        pto.tmatmul(pto.Tile("acc", total, 32, 32), left, right)

    assert rules(target, product) == ([] if allowed else ["CP-MM-03"])


SCALED = {
    "cpu": {"float32": "int8 uint8 float16 bfloat16", "int32": "int8 uint8 float16"},
    "a2a3": {"float32": "int8", "int32": "int8 uint8 float16"},
    "a5": {"float32": "int8 uint8 float16 bfloat16 float8_e4m3", "int32": "int8 uint8 float16 bfloat16"},
}
"""The types that a factor leads to, from one tile to another (CP-FIX-02)."""


@pytest.mark.clause("CP-FIX-02")
@pytest.mark.parametrize("target", SCALED)
@pytest.mark.parametrize("total", ["float32", "int32"])
def test_types_that_a_factor_leads_to(target: str, total: str) -> None:
    for kind in ("int8", "uint8", "int16", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"):

        def scaled(kind: str = kind) -> None:
            dst, src = pto.Tile("mat", kind, 16, 32, valid=(16, 16), **NZ), pto.Tile("acc", total, 16, 16).write(1)
            pto.tmov(dst, src, scale=1 << 46)

        is_allowed = kind in SCALED[target][total].split()
        assert (rules(target, scaled) == []) == is_allowed, kind


@pytest.mark.clause("CP-GTM-01")
@pytest.mark.parametrize(("rows", "valid", "found"), [(1, 16, []), (1, 8, []), (2, 16, []), (2, 8, ["CP-GTM-01"])])
def test_rows_that_a_pattern_keeps_follow_without_a_gap(rows: int, valid: int, found: list[str]) -> None:
    def gather() -> None:
        src = pto.Tile("vec", "float32", rows, 2 * valid).write(1)
        pto.tgather_mask(pto.Tile("vec", "float32", rows, 16, valid=(rows, valid)), src, pattern="p0101")

    assert rules("a2a3", gather) == found


@pytest.mark.clause("CP-GTM-01")
@pytest.mark.parametrize(("rows", "found"), [(1, []), (2, ["CP-GTM-01"])])
def test_a_slice_takes_what_a_pattern_keeps_of_one_row(rows: int, found: list[str]) -> None:
    def gather() -> None:
        whole, src = pto.Tile("vec", "float32", 2, 32), pto.Tile("vec", "float32", rows, 32).write(1)
        pto.tgather_mask(whole[0:rows, 0:16], src, pattern="p0101")

    assert rules("a2a3", gather) == found


@pytest.mark.parametrize("name", ["src0", "src1"])
@pytest.mark.parametrize(("rows", "noted"), [(1, False), (2, True)])
def test_a_row_that_is_spread_is_noted_if_it_is_one_of_several(name: str, rows: int, noted: bool) -> None:
    """The tile that is spread has one column, too."""
    dst, whole = pto.Tile("vec", "float32", 8, 8, valid=(8, 1)), pto.Tile("vec", "float32", 8, 8, valid=(8, 1)).write(1)
    row = pto.Tile("vec", "float32", 8, 8, valid=(rows, 1)).write(1)
    with pto.target("host"):
        made = pto.tcolexpandmul(dst, *((row, whole) if name == "src0" else (whole, row)))
    assert [each.operand for each in made.findings if each.rule == "CP-CXP-03"] == [name] * noted


@pytest.mark.parametrize("cols", [2, 8])
def test_one_row_that_is_spread_is_not_noted(cols: int) -> None:
    dst, whole = (pto.Tile("vec", "float32", 8, 8, valid=(8, cols)).write(1) for _ in range(2))
    with pto.target("host"):
        made = pto.tcolexpandmul(dst, whole, pto.Tile("vec", "float32", 1, 8, valid=(1, cols)).write(1))
    assert not [each for each in made.findings if each.rule == "CP-CXP-03"]


# --- Numbers of targets


@pytest.mark.parametrize("profile", [A2A3, A5])
def test_a_scalar_division_touches_ub_twice_an_element(profile: Profile) -> None:
    """It reads the dividend and writes the quotient."""
    cost = profile.kernel("tdivs.integers").cost["S"]
    assert (cost.formula, cost.accesses) == ("scalar loop", 2)


@pytest.mark.parametrize(("profile", "core", "architecture"), [(A2A3, 220, 2201), (A5, 310, 3510)])
def test_numbers_of_the_device_compilers(profile: Profile, core: int, architecture: int) -> None:
    """`dav-c220` and `dav-c310`, and what `__NPU_ARCH__` is for each."""
    assert profile.headers is not None
    compiler = profile.headers.compiler
    assert compiler is not None and (compiler.aicore, compiler.npu_arch) == (core, architecture)


def test_data_that_every_instruction_may_refuse_has_the_types_of_pto() -> None:
    """Base types, 8-bit floats and hifloat8 (CO-TYPE-02); not the scales of MX formats, nor types of the host."""
    base = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)} | {"float16", "bfloat16", "float32"}
    assert {each.name for each in PTO_TYPES} == base | {"float8_e4m3", "float8_e5m2", "hifloat8"}


def test_a_conversion_in_the_generic_form_has_its_workspace_last() -> None:
    """The operands are stored as source, destination, workspace."""
    tiles = {name: f"!pto.tile_buf<vec, 16x32x{kind}>" for name, kind in (("a", "f32"), ("b", "f16"), ("tmp", "f32"))}
    arguments = ", ".join(f"%{name}: {tile}" for name, tile in tiles.items())
    unit = unit_of(
        read_module(f"""func.func @f({arguments}) {{
      "pto.tcvt"(%a, %b, %tmp) <{{operandSegmentSizes = array<i32: 1, 1, 1>, rmode = #pto<round_mode RINT>}}>
        : ({", ".join(tiles.values())}) -> ()
      return
    }}""")
    )
    parts = unit.functions[0].body.operations[0].parts
    assert {part: [value.name for value in values] for part, values in parts.items()} == {
        "ins": ["a", "tmp"],
        "outs": ["b"],
    }
