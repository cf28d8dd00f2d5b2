"""Transactions, bursts and scalar accesses, against loops over threads and rows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ptokit.isa.kernel import LaunchShape, row_launch
from ptokit.isa.operand import OperandSpec, TensorSpec
from ptokit.isa.policy import BLayout, GlobalLayout, TileType
from ptokit.machine.site import Executed
from ptokit.machine.ways import Traffic, TrafficMeter
from ptokit.target import profile
from tests.machine.executing import HERE, elem_warps, execute, gm, nz, row_warps, transactions, vec


def measured(*executed: Executed) -> Traffic:
    meter = TrafficMeter()
    for each in executed:
        meter.observe(each)
    (found,) = meter.result()
    return found


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def gather_rows(target: str, idx: list[int], cols: int, kind: str = "float32", rows: int = 100, **more) -> Executed:
    size = np.dtype(kind).itemsize
    operands: dict[str, OperandSpec] = {
        "dst": vec(kind, len(idx), up(cols, 32 // size), (len(idx), cols), more.pop("addr", None)),
        "table": gm(kind, rows, cols),
        "idx": vec("int32", 1, up(len(idx), 8), (1, len(idx))),
    }
    return execute("mgather", target, operands, idx, **more)


def by_element(name: str, target: str, idx: np.ndarray, cells: int, kind: str = "float32", **more) -> Executed:
    padded, shape = up(idx.shape[1], 32), idx.shape
    tile, places = vec(kind, shape[0], padded, shape), vec("int32", shape[0], padded, shape)
    operands: dict[str, OperandSpec] = (
        {"dst": tile, "table": gm(kind, 1, cells), "idx": places}
        if name == "mgather"
        else {"table": gm(kind, 1, cells), "src": tile, "idx": places}
    )
    return execute(name, target, operands, idx, coalesce="elem", **more)


# --- SIMT ----------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SIMT-03", "MG-SIMT-04", "MG-SIMT-05", "A-50")
@pytest.mark.parametrize(("rows", "cols"), [(8, 64), (1, 1024), (5, 1000), (64, 32), (40, 33), (3, 7), (64, 256)])
@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
@pytest.mark.parametrize("start", [0, 8, 3])
def test_row_gather_of_a5_against_its_threads(rows: int, cols: int, kind: str, start: int) -> None:
    """MG-SIMT-03, -04, -05: a warp processes its row 32 columns at a time."""
    draw = np.random.default_rng(rows * cols)
    idx, size = draw.integers(0, 100, rows).tolist(), np.dtype(kind).itemsize
    found = measured(gather_rows("a5", idx, cols, kind, start={"table": start}))
    launch = found.launch
    assert launch == row_launch(rows, cols)
    assert launch is not None and found.lanes_per_row == 32 * launch.warps_per_row and found.warps == launch.warps
    warps = row_warps(rows, cols, launch.warps, launch.warps_per_row)
    segments = transactions([(start + idx[i] * cols + j) * size for i, j in warp] for warp in warps)
    assert found.transactions == segments
    assert found.bytes_moved == 128 * segments
    assert found.bytes_used == rows * cols * size
    assert (found.bursts, found.scalar, found.misaligned) == (0, 0, 0)


def test_a_warp_on_consecutive_columns_makes_one_burst_of_128_bytes() -> None:
    """MG-COST-07."""
    found = measured(gather_rows("a5", [5, 99, 0, 7], 32))
    assert found.transactions == 4 and found.efficiency == 1.0


@pytest.mark.clause("MG-SIMT-06", "MG-SIMT-07", "MS-SIMT-01")
@pytest.mark.parametrize("shape", [(3, 3), (8, 32), (32, 32), (50, 100), (1, 2)])
@pytest.mark.parametrize("name", ["mgather", "mscatter"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_element_kernels_of_a5_against_their_threads(shape: tuple[int, int], name: str, kind: str) -> None:
    """MG-SIMT-06, -07 and MS-SIMT-01: a lane an element, striding by the launched threads."""
    total, size = shape[0] * shape[1], np.dtype(kind).itemsize
    idx = np.random.default_rng(total).integers(0, 5000, shape)
    found = measured(by_element(name, "a5", idx, 5000, kind, start={"table": 5}))
    assert found.warps == (min(-(-total // 32), 32) if name == "mgather" else 32)
    warps = [[(5 + int(idx.flat[e])) * size for e in warp] for warp in elem_warps(total, found.warps)]
    assert found.transactions == transactions(warps)
    assert found.bytes_used == size * sum(len(set(warp)) for warp in warps)


def test_random_elements_do_not_coalesce_and_neighbours_do() -> None:
    """MG-COST-08 and MG-PERF-01."""
    draw = np.random.default_rng(1)
    rows = measured(gather_rows("a5", draw.integers(0, 100, 32).tolist(), 32))
    scattered = measured(by_element("mgather", "a5", draw.integers(0, 1 << 20, (32, 32)), 1 << 20))
    neighbours = measured(by_element("mgather", "a5", np.arange(1024).reshape(32, 32), 1 << 20))
    assert rows.efficiency == neighbours.efficiency == 1.0
    assert rows.transactions == neighbours.transactions == 32
    assert scattered.transactions > 1000 and scattered.efficiency < 0.05


def test_lanes_of_a_warp_on_one_element_share_it() -> None:
    found = measured(by_element("mgather", "a5", np.full((4, 32), 9), 100))
    assert (found.transactions, found.bytes_moved, found.bytes_used) == (4, 512, 16)


@pytest.mark.parametrize("name", ["mgather", "mscatter"])
def test_lanes_that_are_zeroed_or_skipped_go_nowhere(name: str) -> None:
    idx = np.arange(64).reshape(2, 32)
    idx[1] = 1000
    found = measured(by_element(name, "a5", idx, 100, oob="zero" if name == "mgather" else "skip"))
    assert (found.transactions, found.bytes_used) == (1, 128)
    rows = measured(gather_rows("a5", [1, 1000, 2], 32, oob="zero"))
    assert (rows.transactions, rows.bytes_used) == (2, 256)


def test_small_tiles_launch_few_warps_and_scatters_always_all() -> None:
    """MG-COST-09 and MS-SIMT-01."""
    idx = np.arange(9).reshape(1, 9)
    assert measured(by_element("mgather", "a5", idx, 100)).launch == LaunchShape(32, 1)
    assert measured(by_element("mscatter", "a5", idx, 100)).launch == LaunchShape(32, 32)


@pytest.mark.parametrize("rows", [1, 8, 40])
def test_row_scatter_of_a5(rows: int) -> None:
    """MS-PERF-01: accesses in a row coalesce, for any assignment of warps."""
    idx = np.random.default_rng(rows).permutation(64)[:rows].tolist()
    operands = {"table": gm("float32", 64, 72), "src": vec("float32", rows, 72), "idx": vec("int32", rows, 1)}
    found = measured(execute("mscatter", "a5", operands, idx))
    warps = row_warps(rows, 72, 32, 1)
    assert found.transactions == transactions([(idx[i] * 72 + j) * 4 for i, j in warp] for warp in warps)
    assert found.bytes_used == rows * 72 * 4


def test_a_single_element_needs_no_launch() -> None:
    """MG-SIMT-08."""
    found = measured(by_element("mgather", "a5", np.array([[7]]), 100))
    assert found.launch is None
    assert (found.scalar, found.transactions, found.bytes_moved, found.bytes_used) == (1, 1, 64, 4)


# --- bursts and scalars --------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SYNC-07", "MG-COST-03")
@pytest.mark.parametrize(("cols", "kind"), [(9, "float32"), (64, "float32"), (33, "float16"), (100, "int8")])
@pytest.mark.parametrize("policy", ["clamp", "zero"])
def test_row_gather_of_a2a3_is_one_burst_a_row(cols: int, kind: str, policy: str) -> None:
    """MG-SYNC-07 and A-67; rows that are zeroed need none (MG-COST-06)."""
    idx, size = [1, 200, 3, 4, 300], np.dtype(kind).itemsize
    found = measured(gather_rows("a2a3", idx, cols, kind, oob=policy))
    rows = 5 if policy == "clamp" else 3
    work = profile("a2a3").operations("mgather.row", rows, cols)
    assert work is not None and found.bursts == work.dma == rows
    assert found.bytes_moved == rows * up(cols * size, 32) == 32 * found.transactions
    assert found.bytes_used == rows * cols * size
    assert found.launch is None and found.warps == found.lanes_per_row == 0


@pytest.mark.clause("MG-SYNC-08", "MG-NZ-05", "MG-NZ-06")
@pytest.mark.parametrize(("rows", "batches", "blocks"), [(4, 3, 2), (8, 2, 2), (5, 1, 4), (3, 2, 1)])
@pytest.mark.parametrize("short", [0, 1, 8])
def test_fractal_rows_are_bursts_of_every_batch_and_block_column(
    rows: int, batches: int, blocks: int, short: int
) -> None:
    """A transfer for each row and batch, of nBurst = Shape[1] bursts of 32 bytes; `short` columns are not valid."""
    cols = batches * blocks * 8
    valid = max(1, cols - short)
    operands = {
        "dst": nz("float32", 16, cols, (rows, valid), TileType.Vec),
        "table": gm("float32", batches, blocks, 2, 16, 8, layout=GlobalLayout.NZ),
        "idx": vec("int32", 1, 8, (1, rows)),
    }
    found = measured(execute("mgather", "a2a3", operands, [1, 31, 0, 5, 2, 3, 4, 6][:rows]))
    work = profile("a2a3").operations("mgather.row.nz", rows, cols, batches)
    assert work is not None and work.dma == rows * batches
    assert found.bursts == work.dma * blocks
    assert found.bytes_moved == 32 * found.bursts
    assert found.bytes_used == rows * valid * 4


@pytest.mark.clause("MG-SYNC-09", "MG-COST-04")
@pytest.mark.parametrize("name", ["mgather", "mscatter"])
def test_elements_of_a2a3_go_one_by_one_through_the_cache(name: str) -> None:
    """MG-SYNC-09; each line is fetched once."""
    idx = np.random.default_rng(4).integers(0, 64, (6, 20))
    found = measured(by_element(name, "a2a3", idx, 64, start={"table": 3}))
    fetched = len({(3 + int(k)) * 4 // 64 for k in idx.ravel()})
    assert found.scalar == 120 and found.bursts == 0
    assert found.transactions == fetched and found.bytes_moved == 64 * fetched
    assert found.bytes_used == min(120 * 4, found.bytes_moved)
    work = profile("a2a3").operations("mgather.elem", 6, 20)
    assert work is not None and work.scalar == found.scalar


def test_an_element_again_and_again_is_not_used_more_than_it_is_moved() -> None:
    found = measured(by_element("mgather", "a2a3", np.zeros((8, 32), int), 64))
    assert (found.bytes_moved, found.bytes_used, found.efficiency) == (64, 64, 1.0)


def test_row_scatter_of_a2a3_is_one_burst_a_row() -> None:
    operands = {"table": gm("float32", 64, 9), "src": vec("float32", 4, 16, (4, 9)), "idx": vec("int32", 4, 1)}
    found = measured(execute("mscatter", "a2a3", operands, [5, 99, 0, 7], oob="skip"))
    assert (found.bursts, found.bytes_moved, found.bytes_used) == (3, 3 * 64, 3 * 36)


def plain_rows() -> dict[str, OperandSpec]:
    return {"dst": vec("float32", 6, 16, (6, 9)), "src": gm("float32", 6, 9, pitch=20)}


def packed_tile() -> dict[str, OperandSpec]:
    return {"dst": vec("float32", 6, 16), "src": gm("float32", 6, 16)}


def into_l1() -> dict[str, OperandSpec]:
    return {"dst": nz("float16", 32, 32, (20, 30)), "src": gm("float16", 20, 30)}


def fractal() -> dict[str, OperandSpec]:
    return {
        "dst": nz("float32", 32, 24, None, TileType.Vec),
        "src": gm("float32", 1, 3, 2, 16, 8, layout=GlobalLayout.NZ),
    }


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("operands", "bursts", "length"),
    [(plain_rows, 6, 36), (packed_tile, 6, 64), (into_l1, 20, 60), (fractal, 1, 3 * 32 * 32)],
)
def test_loads_move_a_burst_a_row(target: str, operands, bursts: int, length: int) -> None:
    found = measured(execute("tload", target, operands()))
    assert (found.bursts, found.bytes_used) == (bursts, bursts * length)
    assert found.bytes_moved == bursts * up(length, 32) == 32 * found.transactions
    assert found.misaligned == 0 and found.launch is None


@pytest.mark.parametrize(("rows", "blocks"), [(32, 2), (32, 1)])
def test_columns_of_blocks_that_lie_apart_at_either_end_are_bursts_of_their_own(rows: int, blocks: int) -> None:
    operands = {
        "dst": nz("float32", rows, 24, (16, 24), TileType.Vec),
        "src": gm("float32", 1, 3, blocks, 16, 8, layout=GlobalLayout.NZ),
    }
    found = measured(execute("tload", "a2a3", operands))
    assert (found.bursts, found.bytes_moved, found.bytes_used) == (3, 3 * 512, 3 * 512)


def test_a_row_or_a_column_is_stored_as_one_burst() -> None:
    """TT-01."""
    row = vec("float32", 1, 48)
    column = replace(row, rows=48, cols=1, valid_rows=48, valid_cols=1, blayout=BLayout.ColMajor)
    for tile in (row, column):
        found = measured(execute("tstore", "a5", {"dst": gm("float32", 48), "src": tile}))
        assert (found.bursts, found.bytes_moved, found.bytes_used) == (1, 192, 192)


def test_columns_of_a_dn_tensor_are_bursts() -> None:
    tile = replace(vec("float32", 16, 5, (12, 5)), blayout=BLayout.ColMajor)
    source = TensorSpec(tile.dtype, (1, 1, 1, 12, 5), (60, 60, 60, 1, 12), GlobalLayout.DN)
    found = measured(execute("tload", "a5", {"dst": tile, "src": source}))
    assert (found.bursts, found.bytes_moved, found.bytes_used) == (5, 5 * 64, 5 * 48)


@pytest.mark.parametrize(("addr", "misaligned"), [(0, 0), (64, 0), (16, 4), (None, 0)])
def test_bursts_at_an_odd_place_in_ub_are_misaligned(addr: int | None, misaligned: int) -> None:
    """H-01: every burst of a tile that begins between two multiples of 32."""
    tile = vec("float32", 4, 16, addr=addr)
    loaded = execute("tload", "a2a3", {"dst": tile, "src": gm("float32", 4, 16)})
    stored = execute("tstore", "a2a3", {"dst": gm("float32", 4, 16), "src": tile})
    gathered = gather_rows("a2a3", [1, 2, 3, 4], 16, addr=addr)
    for executed in (loaded, stored, gathered):
        assert measured(executed).misaligned == misaligned


# --- through global memory into L1 ---------------------------------------------------------------------------


def into_cube(coalesce: str, shape: tuple[int, int]) -> dict[str, OperandSpec]:
    operands: dict[str, OperandSpec] = {"dst": nz("float32", 16, 16, shape), "table": gm("float32", 50, 16)}
    operands["idx"] = gm("int32", *(shape if coalesce == "elem" else (1, shape[0])))
    if coalesce == "elem":
        operands["scratch"] = gm("float32", 1, 256)
    return operands


@pytest.mark.clause("MG-L1-09")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_rows_into_l1_read_their_indices_too(target: str) -> None:
    """MG-L1-09: an index by the scalar pipe and a transfer, for every row; only the table's bytes are used."""
    found = measured(execute("mgather", target, into_cube("row", (5, 16)), [1, 2, 3, 99, 0], oob="zero"))
    assert (found.bursts, found.scalar) == (4, 5)
    assert found.bytes_used == 4 * 64
    assert found.bytes_moved == 4 * 64 + 64
    assert found.misaligned == 0


@pytest.mark.clause("MG-L1-12", "MG-L1-13", "MG-L1-14")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_elements_into_l1_go_through_the_workspace(target: str) -> None:
    """MG-L1-12 to -14: zero the scratch, fill it, copy it; 256 elements of scratch are 16 lines."""
    idx = np.arange(12).reshape(2, 6)
    found = measured(execute("mgather", target, into_cube("elem", (2, 6)), idx))
    work = profile(target).operations("mgather.l1.elem", 2, 6)
    assert work is not None and found.bursts == work.dma == 1
    assert found.scalar == 256 + 3 * work.scalar
    layout = nz("float32", 16, 16).layout
    stored = len({layout.offset(i, j) * 4 // 64 for i in range(2) for j in range(6)})
    assert found.bytes_moved == 16 * 64 + (1 + 1 + stored) * 64 + 1024
    assert found.bytes_used == 48


@pytest.mark.clause("MG-SIMT-18", "MG-SIMT-19", "MG-SIMT-20", "MG-SIMT-21", "MG-SIMT-22", "MG-COST-10")
def test_simt_into_l1_numbers_threads_like_the_workspace() -> None:
    """MG-SIMT-18 to -22 and MG-COST-10: table reads are random, scratch stores are not, indices follow the blocks."""
    shape = (10, 12)
    idx = np.random.default_rng(8).integers(0, 800, shape)
    found = measured(execute("mgather", "a5", into_cube("elem", shape), idx, coalesce="elem", executor="simt"))
    assert found.launch == LaunchShape(32, 8)
    table, index, scratch = [], [], []
    for warp in elem_warps(256, 8):
        places = []
        for off in warp:  # MG-SIMT-19 with Rows = 16 and kC0 = 8
            column, rest = divmod(off, 16 * 8)
            places.append((rest // 8, column * 8 + off % 8))
        valid = [(i, j) for i, j in places if i < shape[0] and j < shape[1]]
        table.append([int(idx[i, j]) * 4 for i, j in valid])
        index.append([(i * shape[1] + j) * 4 for i, j in valid])
        scratch.append([off * 4 for off in warp])
    segments = transactions(table) + transactions(index) + transactions(scratch)
    assert transactions(scratch) == 8
    assert found.bursts == 1 and found.scalar == 0
    assert found.transactions == segments + 1024 // 32
    assert found.bytes_moved == 128 * segments + 1024
    assert found.bytes_used == 4 * sum(len(set(warp)) for warp in table)


# --- the meter -----------------------------------------------------------------------------------------------


def test_executions_of_a_statement_add_up_and_the_largest_launch_stays() -> None:
    small, large = gather_rows("a5", [1, 2], 32), gather_rows("a5", [3, 4, 5], 32, block=1)
    both = measured(small, large, small)
    assert both.transactions == 2 * measured(small).transactions + measured(large).transactions
    assert both.bytes_used == 7 * 128 and both.executions == 3
    assert both.launch == measured(large).launch


def test_statements_stay_apart_in_the_order_of_the_program() -> None:
    meter = TrafficMeter()
    meter.observe(gather_rows("a5", [1, 2], 32, number=9))
    meter.observe(execute("tload", "a5", packed_tile(), number=4))
    assert [(each.number, each.instruction) for each in meter.result()] == [(4, "tload"), (9, "mgather")]


def test_what_stays_on_the_chip_is_no_traffic() -> None:
    meter = TrafficMeter()
    tiles = {"dst": vec("float32", 4, 8), "src": vec("float32", 4, 8), "idx": vec("int32", 4, 8)}
    meter.observe(execute("tscatter", "a5", tiles, np.arange(4).repeat(8).reshape(4, 8)))
    meter.observe(execute("tmov", "a5", {"dst": tiles["dst"], "src": tiles["src"]}))
    assert meter.result() == ()


@pytest.mark.parametrize("target", ["cpu", "host"])
def test_targets_without_pipes_have_no_traffic(target: str) -> None:
    meter = TrafficMeter()
    meter.observe(gather_rows(target, [1, 2], 32))
    assert meter.result() == ()


def test_plain_data_and_text() -> None:
    found = measured(gather_rows("a5", [1, 2], 32))
    plain = json.loads(json.dumps(found.as_dict()))
    assert plain["launch"] == {"lanes": 32, "warps": 2, "row_warps": 2, "warps_per_row": 1}
    assert plain["where"] == str(HERE) and plain["efficiency"] == 1.0 and plain["transactions"] == 2
    assert plain["warps"] == 2 and plain["lanes_per_row"] == 32
    assert str(found) == (
        f"mgather ({HERE}): dim3{{32, 2}}, 32 lanes a row, 2 transactions, 256 of 256 bytes used (100%)"
    )
    odd = execute("tload", "a2a3", {"dst": vec("float32", 4, 16, addr=16), "src": gm("float32", 4, 16)})
    assert "4 bursts, 4 of them misaligned" in str(measured(odd))


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_used_that_was_not_moved(seed: int) -> None:
    draw = np.random.default_rng(seed)
    name, target = str(draw.choice(["mgather", "mscatter"])), str(draw.choice(["a2a3", "a5"]))
    idx = draw.integers(0, int(draw.choice([3, 300])), tuple(draw.integers(1, 40, 2)))
    kind = str(draw.choice(["float32", "float16"]))
    found = measured(by_element(name, target, idx, 300, kind, start={"table": int(draw.integers(0, 64))}))
    assert 0 < found.bytes_used <= found.bytes_moved
    assert 0 < found.efficiency <= 1


def test_tables_are_tensors() -> None:
    """Test of the helpers: a pitch is a distance between rows."""
    spec = gm("float32", 6, 9, pitch=20)
    assert isinstance(spec, TensorSpec) and spec.stride[3:] == (20, 1) and spec.shape == (1, 1, 1, 6, 9)
