"""The profiles: every formula against an independent one, the data against the tables of the documents."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import ptokit as pto
from ptokit import spec
from ptokit.cli.commands import app
from ptokit.isa.kernel import Handshake, LaunchShape, kernels_of
from ptokit.isa.mgather import MGATHER
from ptokit.isa.mscatter import MSCATTER
from ptokit.isa.policy import TileType
from ptokit.target import PROFILES, profile
from ptokit.target.profile import Profile

KB = 1024
CPU, AICORE, A2A3, A5, HOST = (profile(name) for name in ("cpu", "cpu@aicore", "a2a3", "a5", "host"))
NPU = (A2A3, A5)
OFF_CHIP = (CPU, AICORE, HOST)

SIMT_ROUTES = ("mgather.row", "mgather.elem", "mgather.l1.elem.simt", "mscatter.row", "mscatter.elem")
SCALAR_ROUTES = ("mgather.l1.row", "mgather.l1.elem", "mgather.elem.scalar")
WIDTHS = [*range(1, 140), *range(140, 1100, 13), 1023, 1024, 1025, 4096, 5000, 100_000]


def chunks(n: int, size: int = 32) -> int:
    """The number of groups of `size` for `n` elements, counted."""
    return len(range(0, n, size))


def names(profiles: tuple[Profile, ...]) -> list[str]:
    return [p.name for p in profiles]


# --- Launch shapes ---------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SIMT-03", "MG-SIMT-04", "MG-SIMT-05")
@pytest.mark.parametrize("rows", [*range(1, 35), 48, 63, 64, 65, 100, 1000, 4096])
def test_row_gather_shares_32_warps_between_rows_and_then_columns(rows: int) -> None:
    row_warps = rows if rows < 32 else 32  # MG-SIMT-03
    for cols in WIDTHS:
        spare = 0
        while (spare + 1) * row_warps <= 32:
            spare += 1
        warps_per_row = chunks(cols) if chunks(cols) < spare else spare  # MG-SIMT-04
        expected = LaunchShape(32, row_warps * warps_per_row, row_warps, warps_per_row)  # MG-SIMT-05
        assert A5.launch_shape("mgather.row", rows, cols) == expected


@pytest.mark.parametrize(
    ("rows", "cols", "warps"), [(8, 64, 16), (1, 1024, 32), (5, 1000, 30), (64, 32, 32), (1, 1, 1), (1, 33, 2)]
)
def test_row_gather_vectors(rows: int, cols: int, warps: int) -> None:
    shape = A5.launch_shape("mgather.row", rows, cols)
    assert shape is not None
    assert (shape.lanes, shape.warps, shape.threads) == (32, warps, 32 * warps)


@pytest.mark.clause("MG-SIMT-06")
def test_element_gather_starts_a_warp_for_32_elements_up_to_32_warps() -> None:
    for rows in (*range(1, 35), 48, 63, 64, 65, 69):
        for cols in WIDTHS:
            if (rows, cols) == (1, 1):
                continue
            needed = chunks(rows * cols)
            expected = LaunchShape(32, 32 if needed > 32 else needed)  # MG-SIMT-06
            assert A5.launch_shape("mgather.elem", rows, cols) == expected


@pytest.mark.parametrize(("total", "warps"), [(9, 1), (256, 8), (1024, 32), (5000, 32), (2, 1), (32, 1), (33, 2)])
def test_element_gather_vectors(total: int, warps: int) -> None:
    shape = A5.launch_shape("mgather.elem", 1, total)
    assert shape is not None
    assert shape.warps == warps


@pytest.mark.clause("MG-SIMT-08", "A-35")
def test_only_a_single_element_runs_without_a_launch() -> None:
    """MG-SIMT-08 and A-35: elem only; a row gather of one element launches a warp."""
    assert A5.launch_shape("mgather.elem", 1, 1) is None
    assert A5.launch_shape("mgather.elem", pto.dyn(1), pto.dyn(1)) is None
    for route in set(SIMT_ROUTES) - {"mgather.elem"}:
        assert A5.launch_shape(route, 1, 1) is not None
    assert A5.launch_shape("mgather.row", 1, 1) == LaunchShape(32, 1, 1, 1)
    assert A5.launch_shape("mgather.elem", 1, 2) == A5.launch_shape("mgather.elem", 2, 1) == LaunchShape(32, 1)


@pytest.mark.clause("MG-SIMT-22")
def test_simt_executor_spans_the_padded_tile() -> None:
    for rows in range(16, 400, 16):
        for cols in range(8, 200, 8):
            needed = chunks(rows * cols)
            expected = LaunchShape(32, needed if needed <= 32 else 32)  # MG-SIMT-22
            assert A5.launch_shape("mgather.l1.elem.simt", rows, cols) == expected


@pytest.mark.clause("MS-SIMT-01", "A-61")
@pytest.mark.parametrize("route", ["mscatter.row", "mscatter.elem"])
def test_scatter_always_starts_1024_threads(route: str) -> None:
    """MS-SIMT-01, A-61."""
    for rows in (1, 2, 31, 32, 33, 1000):
        for cols in WIDTHS:
            shape = A5.launch_shape(route, rows, cols)
            assert shape is not None
            assert (shape.lanes, shape.warps, shape.threads) == (32, 32, 1024)


@pytest.mark.clause("MG-SIMT-01")
@given(st.sampled_from(SIMT_ROUTES), st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_launch_leaves_its_bounds(route: str, rows: int, cols: int) -> None:
    """MG-SIMT-01: at most dim3{32, 32}, and never a warp without work in a gather."""
    shape = A5.launch_shape(route, rows, cols)
    if shape is None:
        assert (route, rows, cols) == ("mgather.elem", 1, 1)
        return
    assert shape.lanes == 32
    assert 1 <= shape.warps <= 32
    assert shape.threads == 32 * shape.warps <= 1024
    if route.startswith("mgather"):
        assert shape.warps <= rows * -(-cols // 32)
    if route == "mgather.row":
        assert shape.row_warps <= rows
        assert (shape.warps_per_row - 1) * 32 < cols


@pytest.mark.parametrize("route", [*SCALAR_ROUTES, "mgather.row.nz", "tload.vec"])
def test_other_routes_of_a5_start_no_threads(route: str) -> None:
    assert A5.launch_shape(route, 8, 32) is None


@pytest.mark.parametrize("name", names((CPU, AICORE, A2A3, HOST)))
@pytest.mark.parametrize("route", SIMT_ROUTES)
def test_only_a5_starts_threads(name: str, route: str) -> None:
    assert profile(name).launch_shape(route, 8, 32) is None


@pytest.mark.parametrize("name", list(PROFILES))
@pytest.mark.parametrize(("rows", "cols"), [(0, 1), (1, 0), (0, 0), (-1, 8), (8, -1)])
@pytest.mark.parametrize("route", [*SIMT_ROUTES, "no such route"])
def test_an_empty_launch_is_refused(name: str, route: str, rows: int, cols: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} x {cols}"):
        profile(name).launch_shape(route, rows, cols)


# --- Budgets ---------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-BUDG-06", "MG-BUDG-07", "A-39")
@given(st.integers(0, 216 * KB), st.integers(0, 216 * KB))
def test_a5_budget(static: int, dyn_ub: int) -> None:
    budget = A5.budget(static, dyn_ub)
    assert budget is not None
    assert budget.limit == 221_184  # 216 KB, MG-BUDG-06
    assert budget.max_dynamic == 221_184 - static  # MG-BUDG-07
    cache = 248 * KB - static - dyn_ub
    assert budget.data_cache == (cache if cache > 32 * KB else 32 * KB)


@pytest.mark.clause("MG-BUDG-06")
@pytest.mark.parametrize("static", range(0, 217, 8))
def test_a5_shares_out_the_whole_ub(static: int) -> None:
    """MG-BUDG-06: static tiles, dynamic memory, 8 KB and a data cache of at least 32 KB make up 256 KB."""
    for dyn_ub in range(0, 217 - static, 8):
        budget = A5.budget(static * KB, dyn_ub * KB)
        assert budget is not None
        assert budget.data_cache >= 32 * KB
        assert static * KB + dyn_ub * KB + 8 * KB + budget.data_cache == 256 * KB


@pytest.mark.parametrize(
    ("static", "dyn_ub", "cache"),
    [(0, 0, 248), (0, None, 248), (0, 216, 32), (0, 200, 48), (16, 200, 32), (100, 50, 98), (0, 240, 32)],
)
def test_a5_data_cache(static: int, dyn_ub: int | None, cache: int) -> None:
    """A-39; a launch without dynUBufSize is one with 0."""
    budget = A5.budget(static * KB, None if dyn_ub is None else dyn_ub * KB)
    assert budget is not None
    assert budget.data_cache == cache * KB


@pytest.mark.clause("MG-BUDG-12")
@given(st.integers(0, 216 * KB), st.integers(0, 216 * KB))
def test_a5_data_cache_grows_as_the_dynamic_region_shrinks(first: int, second: int) -> None:
    """MG-BUDG-12."""
    less, more = A5.budget(dyn_ub=min(first, second)), A5.budget(dyn_ub=max(first, second))
    assert less is not None
    assert more is not None
    assert less.data_cache >= more.data_cache


@given(st.integers(1, 216 * KB))
def test_a5_makes_available_what_the_launch_asks_for(dyn_ub: int) -> None:
    budget = A5.budget(dyn_ub=dyn_ub)
    assert budget is not None
    assert budget.available == dyn_ub


def test_a5_without_a_dynamic_region_is_safe_up_to_128_kb() -> None:
    asked, left_open = A5.budget(dyn_ub=0), A5.budget()
    assert asked is not None
    assert left_open is not None
    assert asked.available == 131_072  # MG-BUDG-09
    assert left_open.available == left_open.limit == 221_184


@pytest.mark.clause("MG-BUDG-14", "MG-BUDG-17")
def test_a5_element_limits() -> None:
    """MG-BUDG-14, MG-BUDG-17: float data and int32 indices take 8 bytes an element."""
    asked, most = A5.budget(dyn_ub=0), A5.budget()
    assert asked is not None
    assert most is not None
    assert asked.available == 16384 * (4 + 4)
    assert most.limit == 27648 * (4 + 4)


@pytest.mark.clause("MG-BUDG-02", "MG-BUDG-05")
@pytest.mark.parametrize("dyn_ub", [None, 0, 1, 4096, 128 * KB, 192 * KB, 216 * KB])
@pytest.mark.parametrize("static", [0, 4096, 192 * KB])
def test_a2a3_has_192_kb_and_nothing_to_ask_for(static: int, dyn_ub: int | None) -> None:
    """MG-BUDG-02, MG-BUDG-05: there is no dynUBufSize, so none changes anything."""
    budget = A2A3.budget(static, dyn_ub)
    assert budget is not None
    assert (budget.limit, budget.max_dynamic, budget.data_cache) == (196_608, 0, 0)
    assert budget.available == 196_608


@pytest.mark.clause("MG-BUDG-01")
@pytest.mark.parametrize("name", names(OFF_CHIP))
@pytest.mark.parametrize("dyn_ub", [None, 0, 4096])
def test_no_budget_without_a_ub(name: str, dyn_ub: int | None) -> None:
    """MG-BUDG-01."""
    assert profile(name).budget(4096, dyn_ub) is None


# --- Work ------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SYNC-07", "MG-SYNC-08", "MG-SYNC-09")
@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 16))
def test_a2a3_operations(rows: int, cols: int, batches: int) -> None:
    def issued(route: str, n: int = 1) -> tuple[int, int]:
        work = A2A3.operations(route, rows, cols, n)
        assert work is not None
        return work.dma, work.scalar

    assert issued("mgather.row") == (rows, 0)  # MG-SYNC-07
    assert issued("mgather.row.nz", batches) == (sum(batches for _ in range(rows)), 0)  # MG-SYNC-08
    assert issued("mgather.elem") == (0, sum(cols for _ in range(rows)))  # MG-SYNC-09
    assert issued("mgather.elem.nz", batches) == issued("mgather.elem")
    assert issued("mgather.l1.row") == (rows, 0)  # MG-L1-09
    assert issued("mgather.l1.elem") == (1, rows * cols)  # MG-L1-12, MG-L1-14


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_a5_operations_of_the_cube_core(rows: int, cols: int) -> None:
    row, elem = A5.operations("mgather.l1.row", rows, cols), A5.operations("mgather.l1.elem", rows, cols)
    assert row is not None
    assert elem is not None
    assert (row.dma, row.scalar, elem.dma, elem.scalar) == (rows, 0, 1, rows * cols)


@pytest.mark.parametrize("name", names((CPU, AICORE, HOST)))
def test_operations_that_no_document_counts(name: str) -> None:
    for route in (*SIMT_ROUTES, *SCALAR_ROUTES):
        assert profile(name).operations(route, 8, 32) is None
    for route in ("mgather.row", "mgather.elem"):
        assert A5.operations(route, 8, 32) is None


@pytest.mark.parametrize("name", list(PROFILES))
@pytest.mark.parametrize("route", ["no such route", "", "mgather"])
def test_unknown_routes_are_refused(name: str, route: str) -> None:
    with pytest.raises(ValueError, match="unknown route"):
        profile(name).operations(route, 8, 32)
    with pytest.raises(ValueError, match="unknown route"):
        profile(name).launch_shape(route, 8, 32)


@pytest.mark.parametrize("sizes", [{"static": -1}, {"dyn_ub": -1}])
def test_negative_sizes_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="not negative"):
        A5.budget(**sizes)


# --- Data ------------------------------------------------------------------------------------------------

SIZES = {
    "a2a3": {
        "Vec": 192,
        "Mat": 512,
        "Left": 64,
        "Right": 64,
        "Acc": 128,
        "Bias": 1,
        "Scaling": 2,
        "ScaleLeft": 0,
        "ScaleRight": 0,
    },
    "a5": {
        "Vec": 256,
        "Mat": 512,
        "Left": 64,
        "Right": 64,
        "Acc": 256,
        "Bias": 4,
        "Scaling": 4,
        "ScaleLeft": 4,
        "ScaleRight": 4,
    },
}


@pytest.mark.parametrize("name", list(SIZES))
def test_on_chip_memories(name: str) -> None:
    found = {loc.name: memory.size for loc, memory in profile(name).memories.items()}
    assert found == {loc: kb * KB for loc, kb in SIZES[name].items()}
    memories = [profile(name).memories[TileType.parse(loc)].name for loc in ("vec", "mat", "left", "right", "acc")]
    assert memories == ["UB", "L1", "L0A", "L0B", "L0C"]


@pytest.mark.parametrize("name", names(OFF_CHIP))
def test_host_memory_has_no_limit(name: str) -> None:
    memories = profile(name).memories
    assert set(memories) == set(TileType)
    assert all(memory.size is None for memory in memories.values())


@pytest.mark.parametrize("name", list(SIZES))
def test_the_ub_is_the_memory_of_vec_tiles(name: str) -> None:
    ub = profile(name).ub
    assert ub is not None
    assert ub.size == profile(name).memories[TileType.Vec].size


def test_how_the_ub_is_shared_out() -> None:
    assert A5.ub is not None
    assert A2A3.ub is not None
    assert (A5.ub.size, A5.ub.reserved, A5.ub.min_cache, A5.ub.safe) == (256 * KB, 8 * KB, 32 * KB, 128 * KB)
    assert (A2A3.ub.size, A2A3.ub.reserved, A2A3.ub.min_cache, A2A3.ub.safe) == (192 * KB, 0, 0, None)
    assert (A5.ub.has_dynamic, A2A3.ub.has_dynamic) == (True, False)
    assert all(p.ub is None for p in OFF_CHIP)


@pytest.mark.parametrize("name", list(SIZES))
def test_pipes_cores_and_event_ids(name: str) -> None:
    here = profile(name)
    assert sorted(here.pipes) == ["FIX", "M", "MTE1", "MTE2", "MTE3", "S", "V"]
    assert sorted(core.name for core in here.cores) == ["AIC", "AIV"]
    assert here.event_ids == 8


@pytest.mark.clause("MG-SYNC-16")
@pytest.mark.parametrize("name", names(OFF_CHIP))
def test_nothing_to_synchronise_off_chip(name: str) -> None:
    """MG-SYNC-16."""
    here = profile(name)
    assert (here.pipes, here.cores, here.event_ids) == ((), (), 0)
    assert not here.handshakes
    assert not any(kernel.effects or kernel.launch or kernel.work for kernel in here.kernels.values())


def test_layout_of_a_left_tile() -> None:
    assert (A2A3.left_form, A5.left_form, CPU.left_form) == ("zz", "nz", "nz")


def test_cost_anchors() -> None:
    assert A2A3.costs["clock GHz"] == 1.85
    assert A2A3.costs["GM to UB GB/s"] == 100.9
    assert A2A3.costs["GM to L1 GB/s"] == 135
    assert A2A3.costs["UB to GM GB/s"] == 188.5
    assert A2A3.costs["cache line bytes"] == A5.costs["cache line bytes"] == 64
    assert A5.costs["GM burst bytes"] == 128  # MG-COST-07
    assert A5.costs["registers a thread"] == 32  # MG-SIMT-24


def test_bursts_and_the_workspace_of_the_headers() -> None:
    """MG-ALIGN-06: A2/A3 moves whole 32-byte chunks. Its headers use 8 KB of UB themselves, from 184 KB on."""
    a2a3, a5 = ("a2a3", "a2a3@2026.08"), ("a5", "a5@2026.08")
    assert {name: found.burst for name, found in PROFILES.items() if found.burst} == dict.fromkeys((*a2a3, *a5), 32)
    assert tuple(name for name, found in PROFILES.items() if found.drops_unaligned_loads) == a2a3
    assert {name: found.store_line for name, found in PROFILES.items() if found.store_line} == dict.fromkeys(a2a3, 64)
    hidden = {name: found.headers.hidden for name, found in PROFILES.items() if found.headers and found.headers.hidden}
    assert hidden == dict.fromkeys(a2a3, 184 * KB)
    assert A2A3.ub is not None and A2A3.ub.size - 184 * KB == 8 * KB


def test_family_is_the_name_without_its_revision() -> None:
    assert {name: p.family for name, p in PROFILES.items()} == {
        "cpu": "cpu", "cpu@aicore": "cpu", "a2a3": "a2a3", "a2a3@2026.08": "a2a3", "a5": "a5",
        "a5@2026.08": "a5", "host": "host",
    }  # fmt: skip


# --- Handshakes ------------------------------------------------------------------------------------------

V_S, MTE2_S, MTE3_S = ("V", "S"), ("MTE2", "S"), ("MTE3", "S")
S_V, S_MTE2, S_MTE3 = ("S", "V"), ("S", "MTE2"), ("S", "MTE3")
MTE2_V, MTE2_MTE3, MTE3_V, MTE3_MTE2 = ("MTE2", "V"), ("MTE2", "MTE3"), ("MTE3", "V"), ("MTE3", "MTE2")


@pytest.mark.clause("MG-SYNC-04", "MG-SYNC-10")
@pytest.mark.parametrize("route", ["mgather.row", "mgather.row.nz"])
def test_a2a3_row_gather(route: str) -> None:
    chain = A2A3.kernel(route).handshake
    assert chain.before == (V_S, MTE3_S)  # MG-SYNC-04
    assert chain.after == (S_MTE2, MTE2_V, MTE2_MTE3, S_V, S_MTE3)  # MG-SYNC-10, in this order
    assert (chain.body, chain.each_row) == (("S", "MTE2"), ())


@pytest.mark.clause("MG-SYNC-05", "MG-SYNC-11")
@pytest.mark.parametrize("route", ["mgather.elem", "mgather.elem.nz"])
def test_a2a3_element_gather(route: str) -> None:
    chain = A2A3.kernel(route).handshake
    assert chain.before == (V_S, MTE3_S, MTE2_S)  # MG-SYNC-05
    assert chain.after == (S_V, S_MTE2, S_MTE3)  # MG-SYNC-11, in this order
    assert (chain.body, chain.each_row) == (("S",), ())


def test_a2a3_row_scatter() -> None:
    chain = A2A3.kernel("mscatter.row").handshake
    assert chain.before == (V_S, MTE2_S, S_MTE3)
    assert chain.each_row == (MTE3_S,)
    assert chain.after == (MTE3_V, MTE3_MTE2)
    assert chain.body == ("S", "MTE3")


def test_a2a3_element_scatter() -> None:
    chain = A2A3.kernel("mscatter.elem").handshake
    assert chain.before == (V_S, MTE2_S, MTE3_S)
    assert chain.after == (S_V, S_MTE2, S_MTE3)
    assert (chain.body, chain.each_row) == (("S",), ())


@pytest.mark.parametrize("route", ["tscatter.row", "tscatter.flat"])
def test_tscatter_takes_the_place_of_a_vector_instruction(route: str) -> None:
    """On A2/A3 the scalar pipe hands over from and to V; on A5 it is a vector instruction."""
    assert A2A3.kernel(route).handshake == Handshake(before=(V_S,), body=("S",), after=(S_V,))
    assert A5.kernel(route).handshake == Handshake()


@pytest.mark.clause("MG-SYNC-13", "MG-SYNC-15")
@pytest.mark.parametrize("route", ["mgather.row", "mgather.elem", "mscatter.row", "mscatter.elem"])
def test_a5_launches_show_no_flags(route: str) -> None:
    """MG-SYNC-13, MG-SYNC-15: one launch on V."""
    assert A5.kernel(route).handshake == Handshake(body=("V",))


@pytest.mark.clause("MG-SYNC-14")
def test_a5_scalar_fallback() -> None:
    """MG-SYNC-14."""
    assert A5.kernel("mgather.elem.scalar").handshake == Handshake(before=(V_S,), body=("S",), after=(S_V,))
    assert "mgather.elem.scalar" not in A2A3.kernels


@pytest.mark.clause("MG-L1-14")
@pytest.mark.parametrize("name", list(SIZES))
def test_the_copy_into_l1_waits_for_the_scalar_pipe(name: str) -> None:
    """MG-L1-14."""
    chain = profile(name).kernel("mgather.l1.elem").handshake
    assert chain == Handshake(body=("S", "MTE2"), between=(S_MTE2,))


@pytest.mark.clause("MG-SYNC-17")
def test_the_simt_executor_hands_over_across_cores() -> None:
    """MG-SYNC-17."""
    assert A5.kernel("mgather.l1.elem.simt").handshake.between == (("AIV.S", "AIC.MTE2"),)


@pytest.mark.clause("A-37")
def test_a_zeroed_nz_tile_is_ready_before_the_transfers() -> None:
    """A-37."""
    assert A2A3.kernel("mgather.row.nz").handshake.after_fill == (S_MTE2,)


@pytest.mark.parametrize("name", list(SIZES))
def test_flags_pair_two_pipes_of_the_target(name: str) -> None:
    """MG-SYNC-03, MG-L1-30: a producer and a consumer, never all pipes at once."""
    here = profile(name)
    for chain in here.handshakes.values():
        assert chain.body
        assert set(chain.body) <= set(here.pipes)
        for producer, consumer in (*chain.before, *chain.each_row, *chain.after):
            assert producer != consumer
            assert {producer, consumer} <= set(here.pipes)


@pytest.mark.parametrize("name", list(SIZES))
def test_every_kernel_of_the_target_has_its_chain(name: str) -> None:
    indexed = {*kernels_of(MGATHER, name), *kernels_of(MSCATTER, name)}
    by_scalar = {"tscatter", "tshl", "tshr", "tpow", "tpows", "tdivs", "tsels", "tdequant", "trowexpand", "ttrans"}
    by_scalar |= {"tconcat", "textract", "tinsert"}
    by_scalar |= {f"trow{op}" for op in ("sum", "max", "min", "prod", "argmax", "argmin")}
    others = {route for route in profile(name).handshakes if route not in indexed}
    by_scalar |= (counted := {f"tmrgsort{count}" for count in (2, 3, 4)})
    on_a5 = {"tdivs", "textract", "tinsert", *counted}  # integers (a5/TDivS.hpp:65), elements (a5/TInsert.hpp:482)
    assert {route.partition(".")[0] for route in others} == {"a2a3": by_scalar, "a5": on_a5}.get(name, set())
    for route, kernel in profile(name).kernels.items():
        assert route in indexed or kernel.launch is kernel.work is None, route


@pytest.mark.parametrize("instruction", [MGATHER, MSCATTER], ids=lambda i: i.name)
@pytest.mark.parametrize("name", list(SIZES))
def test_a_kernel_touches_its_operands_on_the_pipes_that_do_its_work(instruction: Any, name: str) -> None:
    for kernel in kernels_of(instruction, name).values():
        assert {effect.pipe for effect in kernel.effects} == set(kernel.handshake.body)


# --- Statements ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PROFILES))
def test_statements_are_clauses_of_the_target(name: str) -> None:
    statements = profile(name).statements
    assert len(set(statements)) == len(statements)
    for statement in statements:
        assert profile(name).family in spec.clauses()[statement].targets


@pytest.mark.parametrize("name", ["cpu", "a2a3", "a5"])
def test_every_clause_on_cost_is_stated(name: str) -> None:
    stated = {
        clause.id
        for clause in spec.clauses().values()
        if clause.id.startswith(("MG-COST-", "MG-PERF-", "MS-PERF-")) and name in clause.targets
    }
    assert stated
    assert stated <= set(profile(name).statements)


STATED = {
    "cpu": "MG-COST-01 MG-SYNC-16 MG-BUDG-01",
    "a2a3": "MG-COST-02 MG-COST-03 MG-COST-04 MG-COST-05 MG-COST-06 MG-COST-11 MG-PERF-01 MG-PERF-02",
    "a5": "MG-COST-06 MG-COST-07 MG-COST-08 MG-COST-09 MG-COST-10 MG-PERF-01 MS-PERF-01 MS-PERF-02 MS-PERF-03",
}


def test_targets_state_what_their_documents_say_of_cost() -> None:
    for each in PROFILES.values():
        assert " ".join(each.statements) == STATED.get(each.family, "")


@pytest.mark.parametrize("name", STATED)
def test_the_page_of_an_instruction_shows_what_its_target_states(name: str) -> None:
    for instruction, document in (("mgather", "MG"), ("mscatter", "MS")):
        shown = CliRunner().invoke(app, ["explain", instruction, "--target", name]).output
        _, _, section = shown.partition("\nCost\n")
        found = [line.split()[0] for line in section.partition("\n\n")[0].splitlines() if line[2:3].strip()]
        assert found == [each for each in STATED[name].split() if each.startswith(document)]


# --- Names and arguments ---------------------------------------------------------------------------------


def test_profiles_by_name() -> None:
    assert {"cpu", "cpu@aicore", "a2a3", "a5", "host"} <= set(PROFILES)
    for name, found in PROFILES.items():
        assert found.name == name
        assert profile(name) is found
        assert pto.target(name).profile is found
        assert found.title


@pytest.mark.parametrize("name", ["a6", "A5", "", " a5", "a5@", "a5@1999.01", "cpu@", "@aicore", None, 5, ["a5"], {}])
def test_unknown_names(name: Any) -> None:
    with pytest.raises(ValueError, match="unknown target") as caught:
        profile(name)
    assert repr(name) in str(caught.value)
    for known in PROFILES:
        assert known in str(caught.value)


@pytest.mark.parametrize("name", ["a6", "A5", "", "a5@", None, 5])
def test_unknown_targets(name: Any) -> None:
    with pytest.raises(ValueError, match="unknown target"):
        pto.target(name)


@pytest.mark.parametrize("dyn_ub", [-1, True, 1.5, "4096", [0]])
def test_bad_dynamic_size(dyn_ub: Any) -> None:
    with pytest.raises(ValueError, match="dyn_ub"):
        pto.target("a5", dyn_ub=dyn_ub)


def test_profiles_do_not_change() -> None:
    shape = A5.launch_shape("mgather.row", 8, 64)
    for value, field in ((A5, "event_ids"), (A5.ub, "size"), (A5.budget(), "limit"), (shape, "warps")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, 0)


def test_the_families_of_the_documents_are_the_targets() -> None:
    assert {each.family for each in PROFILES.values()} == {*spec.FAMILIES, *spec.OURS}
    assert {each.family for each in PROFILES.values() if each.pipes} == set(spec.WITH_PIPES)


@pto.kernel(mode="manual")
def hands_over(x, flag: pto.const = 0, times: pto.const = 1):
    for _ in range(times):
        pto.sync_set("MTE3", flag)
    for _ in range(times):
        pto.sync_wait("AIC.MTE2", flag)


@pytest.mark.clause("KN-13")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_flags_between_cores_have_ids_0_to_15_and_count_to_15(target: str) -> None:
    """The headers use those from 11 on themselves."""
    x = np.zeros((8, 64), "float32")
    levels = {0: set(), 10: set(), 11: {"hazard"}, 15: {"hazard"}, 16: {"error"}}
    for flag, expected in levels.items():
        found = pto.check(hands_over, x, flag=flag, target=target).findings
        assert {each.level for each in found} == expected, flag
    for times, expected in ((15, []), (16, ["error"])):
        report = hands_over[1](x, times=times, target=target, engine="machine")
        assert [each.level for each in report.findings] == expected, times
