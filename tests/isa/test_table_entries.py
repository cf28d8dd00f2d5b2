"""Entries of the instructions' tables that only an edge shows."""

from __future__ import annotations

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.common import by_rows
from ptokit.isa.dtype import dtype
from ptokit.isa.instruction import Call
from ptokit.isa.mgather import L1_SIMT, MGATHER
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import Coalesce, GlobalLayout, ScatterIndex, TileType
from ptokit.isa.select import ONE_RUN, PACKS_ROWS
from ptokit.isa.tscatter import TSCATTER, few


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
