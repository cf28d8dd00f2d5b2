"""The code of the documents: headers that their examples include, and listings with their `tassign` lines."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.cxx.names import files
from ptokit.isa.policy import TileType
from ptokit.program.ir import Assign, Program, walk
from ptokit.program.place import place
from ptokit.program.verify import verify
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.forms import print_program, read_program
from tests.cxx.building import COMPILER

TARGETS = ("cpu", "a2a3", "a5")
INCLUDED = ("pto/pto-inst.hpp", "pto/npu/a5/custom/MScatter.hpp")
"""What the examples include."""
NAMED = (
    "pto/common/pto_instr.hpp",
    "pto/npu/a5/MScatter.hpp",
    "pto/npu/a5/MGather.hpp",
    "pto/npu/a2a3/MGather.hpp",
    "pto/cpu/MGatherScatter.hpp",
)
"""Where the documents say that an instruction is declared."""


@pytest.mark.parametrize("path", [*INCLUDED, *NAMED])
def test_headers_of_the_documents_exist(path: str) -> None:
    assert path in files()


UPDATE = """
#include <{header}>
using namespace pto;

template <typename T, int NumRows, int RowWidth, int TableRows>
AICORE void weight_update(__gm__ T* table, __gm__ T* values, __gm__ int32_t* indices) {{
    using IdxTile = Tile<TileType::Vec, int32_t, NumRows, 1>;
    using SrcTile = Tile<TileType::Vec, T, NumRows, RowWidth>;
    using Rows = GlobalTensor<T, Shape<1, 1, 1, NumRows, RowWidth>, Stride<1, 1, 1, RowWidth, 1>>;
    using Indices = GlobalTensor<int32_t, Shape<1, 1, 1, 1, NumRows>, Stride<1, 1, 1, NumRows, 1>>;
    using Table = GlobalTensor<T, Shape<1, 1, 1, TableRows, RowWidth>, Stride<1, 1, 1, RowWidth, 1>, Layout::ND>;
    Table tableGM(table);
    Rows rows(values);
    Indices numbers(indices);
    IdxTile idx;
    SrcTile src;
    Tile<TileType::Vec, int32_t, 1, NumRows> as_row;
    TASSIGN(idx, 0x0);
    TASSIGN(as_row, 0x0);
    {bind}
    TLOAD(as_row, numbers);
    TLOAD(src, rows);
    set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
    MSCATTER<ScatterAtomicOp::None, ScatterOOB::Skip>(tableGM, src, idx);
}}

__global__ AICORE void k(__gm__ float* table, __gm__ float* values, __gm__ int32_t* indices) {{
    weight_update<float, 16, 64, 128>(table, values, indices);
}}
"""
"""The first example of the A5 page, with the loads that it leaves out; a load takes the indices as a row."""


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
@pytest.mark.parametrize("bind", ["TASSIGN(src, 0x1000);", ""])
def test_the_example_of_a_weight_update_runs_with_its_own_header(bind: str, tmp_path: Path) -> None:
    """Binding is optional (CO-ASM-07): a tile without an address is placed beside the others."""
    source = tmp_path / "update.cpp"
    source.write_text(UPDATE.format(header=INCLUDED[1], bind=bind))
    table, values = np.zeros((128, 64), "float32"), np.arange(1024, dtype="float32").reshape(16, 64)
    indices = np.arange(16, dtype="int32")[::-1] * 9
    report = pto.load(source)[1](table, values, indices, target="a5", engine="machine")
    assert {finding.level for finding in report.findings} <= {"note"}
    expected = np.zeros_like(table)
    for row, index in zip(values, indices, strict=True):
        if index < 128:
            expected[index] = row
    assert (table == expected).all()


TILE, INDEX, MEM = "!pto.tile<16x16xf32>", "!pto.tile<16x16xi32>", "!pto.memref<64x16xf32>"
VIEW, BUF, INDEX_BUF = (
    "!pto.partition_tensor_view<64x16xf32>",
    "!pto.tile_buf<vec, 16x16xf32>",
    "!pto.tile_buf<vec, 16x16xi32>",
)
LISTINGS = {
    ("tscatter", "PTO-AS"): f"%dst = tscatter %src, %idx : {TILE}, {INDEX} -> {TILE}",
    ("tscatter", "l1"): f"%dst = pto.tscatter %src, %idx : ({TILE}, {INDEX}) -> {TILE}",
    ("tscatter", "l2"): f"pto.tscatter ins(%src, %idx : {BUF}, {INDEX_BUF}) outs(%dst : {BUF})",
    ("mgather", "PTO-AS"): f"mgather.elem %dst, %mem, %idx : ({TILE}, {MEM}, {INDEX})",
    (
        "mgather",
        "l1",
    ): f"%dst = pto.mgather %mem, %idx {{coalesce = #pto<coalesce elem>}} : ({VIEW}, {INDEX}) -> {TILE}",
    ("mgather", "l2"): f"pto.mgather ins(%mem, %idx : {VIEW}, {INDEX_BUF}) outs(%dst : {BUF}) "
    "{coalesce = #pto<coalesce elem>}",
    ("mscatter", "PTO-AS"): f"mscatter %src, %mem, %idx : {MEM}, {TILE}, {INDEX}",
    ("mscatter", "l1"): f"pto.mscatter %src, %idx, %mem : ({TILE}, {INDEX}, {VIEW}) -> ()",
    ("mscatter", "l2"): f"pto.mscatter ins(%src, %idx : {BUF}, {INDEX_BUF}) outs(%mem : {VIEW})",
}
"""By instruction and form: the listing under "Manual Mode"."""
TILES = {"tscatter": ("src", "idx", "dst"), "mgather": ("idx", "dst"), "mscatter": ("src", "idx")}


def listing(name: str, form: str, bound: tuple[str, ...]) -> Program:
    """A listing with `tassign` lines for some of its tiles."""
    prefix = "" if form == "PTO-AS" else "pto."
    lines = [f"{prefix}tassign %{tile}, @tile({0x1000 * k:#x})" for k, tile in enumerate(bound, 1)]
    return read_program("\n".join((*lines, LISTINGS[name, form])))


def some_of(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        tuple(n for n, keep in zip(names, kept, strict=True) if keep) for kept in product((0, 1), repeat=len(names))
    ]


CASES = [(name, form, bound) for name, form in LISTINGS for bound in some_of(TILES[name])]


@pytest.mark.clause("CO-ASM-07", "KN-09")
@pytest.mark.parametrize(("name", "form", "bound"), CASES)
def test_listings_may_bind_any_of_their_tiles(name: str, form: str, bound: tuple[str, ...]) -> None:
    program = listing(name, form, bound)
    for target in TARGETS:
        found = verify(program, profile(target))
        assert all(finding.level != "error" for finding in found), (target, found)
        noted = {finding.operand for finding in found if finding.rule == "KN-09"}
        assert noted == (set(TILES[name]) - set(bound) if bound else set())
        placed = place(program, profile(target)).program
        starts = {stmt.tile: stmt.address for stmt in walk(placed.body) if isinstance(stmt, Assign)}
        starts |= {tile.name: tile.addresses[0] for tile in placed.tiles.values() if tile.addresses}
        sizes = {tile.name: tile.spec.nbytes for tile in placed.tiles.values() if tile.spec.loc is TileType.Vec}
        assert starts.keys() == sizes.keys() and {starts[tile] for tile in bound} == {
            0x1000 * k for k in range(1, len(bound) + 1)
        }
        spans = sorted((start, start + sizes[tile]) for tile, start in starts.items())
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), spans
        assert f"{name.upper()}" in emit(program, profile(target))
    for other in ("l1", "l2"):
        assert read_program(print_program(program, other)) == program
