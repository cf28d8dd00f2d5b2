"""The cost model: it agrees with the documents on speed, and every number has an effect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.kernel import kernels_of
from ptokit.isa.operand import ScalarSpec, TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.isa.tscatter import FLAT_LOOP, ROW_LOOP
from ptokit.machine.costs import Costs
from ptokit.machine.formulas import FORMULAS, NO_OVERLAP, TimedWorks
from ptokit.machine.site import Executed
from ptokit.machine.timer import Timer
from ptokit.machine.ways import TrafficMeter
from ptokit.target import PROFILES, Profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from ptokit.target.cpu import CPU
from tests.machine.costing import coefficient, cycles, executed, fractal, overlaps, tensor, vec

NPU = (A2A3, A5)
both = pytest.mark.parametrize("profile", NPU, ids=lambda profile: profile.name)
TABLE_ROWS = 512


def draw(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, high, shape)


def gather(
    profile: Profile, rows: int, cols: int, mode: str = "row", oob: str = "undefined", kind: str = "float32",
    indices: np.ndarray | None = None,
) -> Executed:  # fmt: skip
    """A gather into UB from a table of 512 rows."""
    shape, high = ((1, rows), TABLE_ROWS) if mode == "row" else ((rows, cols), TABLE_ROWS * cols)
    indices = draw(high, *shape) if indices is None else indices
    idx, table = vec(*shape, "int32"), tensor(TABLE_ROWS, cols, kind=kind)
    return executed(profile, "mgather", vec(rows, cols, kind), table, idx, indices=indices, coalesce=mode, oob=oob)


def scatter(
    profile: Profile, rows: int, cols: int, mode: str = "row", oob: str = "undefined", atomic: str = "none",
    indices: np.ndarray | None = None,
) -> Executed:  # fmt: skip
    """A scatter from UB into a table of 512 rows."""
    shape, high = ((rows, 1), TABLE_ROWS) if mode == "row" else ((rows, cols), TABLE_ROWS * cols)
    spread = np.random.default_rng(7).permutation(high)[: shape[0] * shape[1]].reshape(shape)
    indices = spread if indices is None else indices
    given = (tensor(TABLE_ROWS, cols), vec(rows, cols), vec(*shape, "int32"))
    return executed(profile, "mscatter", *given, indices=indices, coalesce=mode, oob=oob, atomic=atomic)


def fractal_gather(
    rows: int, batches: int, block_cols: int, oob: str = "undefined", indices: object = None
) -> Executed:
    """A row gather of an NZ table of 64 rows."""
    table = tensor(batches, block_cols, 4, 16, 8, layout="nz")
    dst = fractal(TileType.Vec, rows, batches * block_cols * 8)
    indices = draw(64, 1, rows) if indices is None else indices
    return executed(A2A3, "mgather", dst, table, vec(1, rows, "int32"), indices=indices, oob=oob)


def into_l1(profile: Profile, mode: str, oob: str = "undefined", executor: str | None = None) -> Executed:
    """A gather into L1 of 16 x 32 elements."""
    dst, table = fractal(TileType.Mat, 16, 32), tensor(TABLE_ROWS, 32)
    if mode == "row":
        return executed(profile, "mgather", dst, table, tensor(16, kind="int32"), indices=draw(TABLE_ROWS, 16), oob=oob)
    given = (dst, table, tensor(16, 32, kind="int32"), tensor(512))
    chosen = {"executor": executor} if executor else {}
    return executed(profile, "mgather", *given, indices=draw(TABLE_ROWS * 32, 16, 32), oob=oob, **chosen)


def time_of(what: Executed, profile: Profile, **overrides: float) -> float:
    """Cycles of an instruction alone in a block."""
    timer = Timer(Costs(profile, overrides))
    TrafficMeter(Costs(profile, overrides).grains).observe(what)
    timer.begin_block(0)
    timer.execute(what)
    timer.end_block()
    return timer.result().cycles


# --- the numbers


@both
def test_every_number_says_where_it_comes_from(profile: Profile) -> None:
    assert profile.sources.keys() == profile.costs.keys()
    assert all(profile.sources.values())
    assert Costs(profile, {}).numbers == profile.costs


def test_targets_without_pipes_have_no_costs() -> None:
    costs = Costs(CPU, {})
    assert (costs.issue, costs.flag, costs.clock, costs.scalar_read) == (0, 0, 0, 0)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="a2a3 has no cost 'clock Ghz'; known: 'clock GHz', 'GM to UB GB/s'"):
        Costs(A2A3, {"clock Ghz": 2})
    with pytest.raises(ValueError, match="cpu has no cost 'clock GHz'; known: none"):
        Costs(CPU, {"clock GHz": 2})


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf"), 10**400, 1e10, "fast", None, True])
def test_what_is_no_cost_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="'flag cycles' takes a number from 0 up to 1e\\+09, found"):
        Costs(A2A3, {"flag cycles": number})


def test_what_divides_is_not_zero() -> None:
    with pytest.raises(ValueError, match="'GM to UB GB/s' takes a number from 1e-09 up"):
        Costs(A2A3, {"GM to UB GB/s": 0})
    assert Costs(A2A3, {"flag cycles": 0}).flag == 0


def test_every_kernel_has_a_formula_on_each_of_its_pipes() -> None:
    for profile in PROFILES.values():
        for instruction in INSTRUCTIONS.values():
            for route, kernel in kernels_of(instruction, profile.name).items():
                pipes = {effect.pipe for effect in kernel.effects}
                assert set(kernel.cost) <= pipes, route
                for pipe in pipes:
                    cost = kernel.cost_on(pipe)
                    assert cost.formula in FORMULAS, (route, pipe)
                    assert cost.rate in ("", *profile.costs), (route, pipe)


def some_of_everything(profile: Profile) -> Iterator[Executed]:
    """Instructions that use every number between them."""
    yield from (gather(profile, 16, 64, mode, oob) for mode in ("row", "elem") for oob in ("undefined", "clamp"))
    yield from (scatter(profile, 16, 64, mode, atomic=op) for mode in ("row", "elem") for op in ("none", "add"))
    yield from (into_l1(profile, "row", "clamp"), into_l1(profile, "elem"))
    yield executed(profile, "tload", vec(16, 64, valid=(16, 40)), tensor(16, 64))
    yield from (executed(profile, "tstore", tensor(16, 64), vec(16, 64), atomic=op) for op in ("none", "add"))
    for name, count in (("tadd", 2), ("texp", 1), ("ttrans", 1), ("trowsum", 1)):
        yield executed(profile, name, vec(16, 1 if name == "trowsum" else 16), *[vec(16, 16)] * count)
    form = {"zz": BLayout.RowMajor, "nz": BLayout.ColMajor}[profile.left_form]
    a = TileSpec(dtype("float16"), TileType.Left, 32, 48, 32, 48, form, SLayout.RowMajor)
    b = TileSpec(dtype("float16"), TileType.Right, 48, 64, 48, 64, BLayout.RowMajor, SLayout.ColMajor)
    c = TileSpec(dtype("float32"), TileType.Acc, 32, 64, 32, 64, BLayout.ColMajor, SLayout.RowMajor, 1024)
    yield executed(profile, "tmatmul", c, a, b)
    yield executed(profile, "tstore", tensor(32, 64), c)
    mat = TileSpec(dtype("float16"), TileType.Mat, 32, 48, 32, 48, BLayout.ColMajor, SLayout.RowMajor)
    yield executed(profile, "tmov", a, mat)


@both
def test_every_number_counts_and_more_cycles_are_never_faster(profile: Profile) -> None:
    sample = list(some_of_everything(profile))
    usual = np.array([time_of(what, profile) for what in sample])
    silent = {"registers a thread", "AIV cores", "AIC cores"}  # nor do cores in a single block
    for name, number in profile.costs.items():
        more, less = (np.array([time_of(w, profile, **{name: number * by}) for w in sample]) for by in (8, 1 / 8))
        assert (more != usual).any() or (less != usual).any() or name in silent, name
        if name.endswith("cycles"):
            assert (less - 1e-9 <= usual).all() and (usual <= more + 1e-9).all(), name


# --- blocks and arithmetic, by hand


@both
def test_a_load_takes_an_answer_a_start_and_its_bytes(profile: Profile) -> None:
    n = profile.costs
    per_byte = n["clock GHz"] / n["GM to UB GB/s"]
    one = executed(profile, "tload", vec(16, 64), tensor(16, 64))
    expected = n["GM latency cycles"] + n["DMA start cycles"] + 16 * n["DMA burst cycles"] + 16 * 64 * 4 * per_byte
    assert cycles(one, profile) == {"MTE2": pytest.approx(expected)}


@both
def test_a_load_into_a_wider_tile_goes_row_by_row_in_whole_blocks(profile: Profile) -> None:
    narrow = executed(profile, "tload", vec(16, 64, valid=(16, 9)), tensor(16, 9))
    assert coefficient(narrow, profile, "MTE2", "DMA burst cycles") == 16
    assert coefficient(narrow, profile, "MTE2", "DMA start cycles") == 1
    n = profile.costs
    moved = cycles(narrow, profile, **dict.fromkeys((name for name in n if name.endswith("cycles")), 0.0))["MTE2"]
    assert moved == pytest.approx(16 * 64 * n["clock GHz"] / n["GM to UB GB/s"])  # 36 bytes: 64


@both
def test_a_store_does_not_wait_for_memory(profile: Profile) -> None:
    store = executed(profile, "tstore", tensor(16, 64), vec(16, 64))
    assert coefficient(store, profile, "MTE3", "GM latency cycles") == 0
    load = executed(profile, "tload", vec(16, 64), tensor(16, 64))
    assert cycles(store, profile)["MTE3"] < cycles(load, profile)["MTE2"]


@both
def test_vectors_by_256_bytes(profile: Profile) -> None:
    n = profile.costs
    for rows, cols, valid, repeats in (
        (16, 64, None, 16),
        (4, 16, None, 1),
        (16, 64, (16, 40), 16),
        (2, 256, (2, 70), 4),
    ):
        add = executed(profile, "tadd", *[vec(rows, cols, valid=valid)] * 3)
        assert cycles(add, profile) == {"V": n["vector start cycles"] + repeats * n["vector repeat cycles"]}
    slow = executed(profile, "texp", vec(16, 64), vec(16, 64))
    assert coefficient(slow, profile, "V", "vector slow repeat cycles") == 16


SLOW = {"trem", "trems", "tfmod", "tfmods", "tpow", "tpows", "tquant", "tquant_asym", "thistogram",
        "tdiv", "tdivs", "texp", "tlog", "tsqrt", "trsqrt", "trecip",
        *(f"t{axis}expand{op}" for axis in ("row", "col") for op in ("div", "expdif"))}  # fmt: skip
REDUCING = {f"t{axis}{op}" for axis in ("row", "col") for op in ("sum", "prod", "max", "min", "argmax", "argmin")}
MERGES = {"tmrgsort", "tmrgsort2", "tmrgsort3", "tmrgsort4"}
INDEXED = {"ttrans", "tgather", "tgather_mask", "tgatherb", "tscatter", "tsort32", *MERGES}
RATES = {
    **dict.fromkeys(SLOW, "vector slow repeat cycles"),
    **dict.fromkeys(REDUCING, "vector reduce repeat cycles"),
    **dict.fromkeys(INDEXED, "vector indexed repeat cycles"),
}


@both
def test_what_a_repeat_of_an_instruction_costs(profile: Profile) -> None:
    """Division, remainders, powers, roots, exponentials and logarithms are slow; sums, products and extremes reduce;
    permutations take an index; what remains is simple."""
    for name, instruction in INSTRUCTIONS.items():
        for kernel in kernels_of(instruction, profile.name).values():
            if {effect.pipe for effect in kernel.effects} == {"V"} and not kernel.launch:
                cost = kernel.cost_on("V")
                assert cost.rate == RATES.get(name, "vector repeat cycles"), name


def test_a_product_by_blocks() -> None:
    product = list(some_of_everything(A5))[-3]
    assert (
        coefficient(product, A5, "M", "cube block cycles") == 2 * 4 * 3
    )  # 32 x 64, 48 halves are three times 32 bytes
    assert coefficient(product, A5, "M", "cube start cycles") == 1


# --- A2/A3


def test_a_tile_scatter_touches_ub_three_times_an_element() -> None:
    """It reads the index and the value and writes the value; `flat` zeroes the tile as well."""
    by_row = executed(A2A3, "tscatter", *[vec(8, 16)] * 2, vec(8, 16, "int32"), indices=np.arange(8).repeat(16))
    flat = executed(A2A3, "tscatter", *[vec(8, 16)] * 2, vec(8, 16, "int32"), indices=np.arange(128), index="flat")
    assert ROW_LOOP.accesses == FLAT_LOOP.accesses == 3
    assert coefficient(by_row, A2A3, "S", "scalar UB cycles") == 3 * 8 * 16
    assert coefficient(flat, A2A3, "S", "scalar UB cycles") > 3 * 8 * 16


def test_counting_touches_ub_once_an_element() -> None:
    """The scalar pipe writes each number."""
    counted = executed(A2A3, "tci", vec(1, 64, "int32", valid=(1, 40)), ScalarSpec(dtype("int32")))
    assert coefficient(counted, A2A3, "S", "scalar UB cycles") == 40


@pytest.mark.parametrize(("first", "second"), [(3, 5), (9, 2), (8, 5)])
def test_joining_inside_a_block_touches_ub_twice_an_element_of_the_second_source(first: int, second: int) -> None:
    """The scalar pipe reads and writes each (TConcat.hpp:52); at whole blocks the vector pipe copies them."""
    sources = [vec(6, 16, valid=(6, cols)) for cols in (first, second)]
    joined = executed(A2A3, "tconcat", vec(6, 32, valid=(6, first + second)), *sources)
    touched = coefficient(joined, A2A3, "S", "scalar UB cycles") if "S" in cycles(joined, A2A3) else 0
    assert touched == (2 * 6 * second if first % 8 else 0)


@pytest.mark.clause("MG-COST-03")
@pytest.mark.parametrize("rows", [1, 16, 64])
def test_a_row_gather_makes_one_transfer_a_row(rows: int) -> None:
    what = gather(A2A3, rows, 64)
    assert coefficient(what, A2A3, "MTE2", "DMA start cycles") == rows
    assert coefficient(what, A2A3, "MTE2", "DMA burst cycles") == rows
    assert coefficient(what, A2A3, "S", "issue cycles") == rows


@pytest.mark.clause("MG-COST-03", "MG-NZ-05", "MG-NZ-06")
@pytest.mark.parametrize(("batches", "block_cols"), [(1, 1), (1, 4), (2, 4), (3, 2)])
def test_a_fractal_row_is_a_transfer_for_each_batch_in_bursts_of_32_bytes(batches: int, block_cols: int) -> None:
    what = fractal_gather(16, batches, block_cols)
    assert coefficient(what, A2A3, "MTE2", "DMA start cycles") == 16 * batches
    assert coefficient(what, A2A3, "MTE2", "DMA burst cycles") == 16 * batches * block_cols
    assert coefficient(what, A2A3, "S", "issue cycles") == 16 * batches


def test_fractal_rows_cost_more_than_plain_rows_of_the_same_bytes() -> None:
    plain = executed(A2A3, "mgather", vec(16, 64), tensor(64, 64), vec(1, 16, "int32"), indices=draw(64, 1, 16))
    assert time_of(fractal_gather(16, 2, 4), A2A3) > time_of(fractal_gather(16, 1, 8), A2A3) > time_of(plain, A2A3)


@pytest.mark.clause("MG-COST-02", "MG-COST-11")
def test_transfers_queue_up_behind_the_loop_that_issues_them() -> None:
    what = gather(A2A3, 64, 256)
    alone = cycles(what, A2A3)
    assert alone.keys() == {"S", "MTE2"}
    assert max(alone.values()) < time_of(what, A2A3, **{"flag cycles": 0.0}) < sum(alone.values())
    assert not any("SIMT" in name for name in A2A3.costs)
    found = overlaps(what, A2A3)
    assert found["S"] == NO_OVERLAP
    assert found["MTE2"].lead == pytest.approx(alone["S"] * 63 / 64)


@pytest.mark.clause("MG-COST-05")
def test_how_many_transfers_are_under_way_bounds_short_rows() -> None:
    short, long = gather(A2A3, 64, 8), gather(A2A3, 16, 1024)
    times = [cycles(short, A2A3, outstanding_transfers=n)["MTE2"] for n in (1, 2, 4, 8, 16, 1000)]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(65 * A2A3.costs["GM latency cycles"])
    few = [cycles(long, A2A3, outstanding_transfers=n)["MTE2"] for n in (16, 1000)]
    assert few[0] == few[1]  # long rows are bound by bytes


@pytest.mark.clause("MG-COST-04")
@pytest.mark.parametrize("spread", [1, 4, 16, 40])
def test_an_element_gather_waits_for_memory_line_by_line(spread: int) -> None:
    indices = np.random.default_rng(3).permutation(8 * 32).reshape(8, 32) * spread
    what = gather(A2A3, 8, 32, "elem", indices=indices)
    assert cycles(what, A2A3).keys() == {"S"}
    lines = len({int(k) * 4 // 64 for k in indices.ravel()})
    assert coefficient(what, A2A3, "S", "GM latency cycles") == lines
    assert coefficient(what, A2A3, "S", "scalar UB cycles") == 3 * 8 * 32  # the index, the element, and the write
    assert coefficient(what, A2A3, "S", "DMA start cycles") == 0


@pytest.mark.parametrize("atomic", ["none", "add"])
def test_an_element_scatter_waits_only_for_the_lines_that_an_atomic_reads(atomic: str) -> None:
    indices = np.random.default_rng(3).permutation(8 * 32).reshape(8, 32) * 4
    what = scatter(A2A3, 8, 32, "elem", atomic=atomic, indices=indices)
    lines = len({int(k) * 4 // 64 for k in indices.ravel()})
    assert coefficient(what, A2A3, "S", "GM latency cycles") == lines * (atomic == "add")


@both
@pytest.mark.parametrize("mode", ["row", "elem"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 8), (16, 64), (64, 8), (7, 256)])
def test_add_is_never_cheaper_than_none(profile: Profile, mode: str, rows: int, cols: int) -> None:
    for repeat in (1, 2, rows):
        high = TABLE_ROWS if mode == "row" else TABLE_ROWS * cols
        shape = (rows, 1) if mode == "row" else (rows, cols)
        indices = draw(high, *shape) // repeat * repeat
        none, adds = (scatter(profile, rows, cols, mode, atomic=op, indices=indices) for op in ("none", "add"))
        for costs in ({}, {"flag cycles": 500.0}, {"issue cycles": 900.0}, {"DMA atomic cycles": 0.0}):
            assert time_of(none, profile, **costs) <= time_of(adds, profile, **costs)


@both
def test_a_store_that_adds_is_not_cheaper(profile: Profile) -> None:
    plain, adds = (executed(profile, "tstore", tensor(16, 64), vec(16, 64), atomic=op) for op in ("none", "add"))
    assert time_of(adds, profile) - time_of(plain, profile) == pytest.approx(profile.costs["DMA atomic cycles"])


@pytest.mark.clause("MG-PERF-02")
def test_elements_lose_least_where_rows_are_a_block_at_most() -> None:
    def penalty(cols: int) -> float:
        return time_of(gather(A2A3, 16, cols, "elem"), A2A3) / time_of(gather(A2A3, 16, cols), A2A3)

    penalties = [penalty(cols) for cols in (8, 16, 32, 64, 128, 256)]  # 8 floats are 32 bytes
    assert penalties == sorted(penalties)
    large = gather(A2A3, 16, 256, "elem")
    half = cycles(large, A2A3, GM_latency_cycles=A2A3.costs["GM latency cycles"] / 2)["S"]
    assert half < 0.55 * cycles(large, A2A3)["S"]  # bound by latency


@pytest.mark.clause("MG-COST-06", "MG-OOB-10", "MG-OOB-12")
def test_rows_outside_issue_no_transfer_and_their_zeroes_are_written_by_the_scalar_pipe() -> None:
    outside = np.array([[0, 600, 1, 700]])
    what = gather(A2A3, 4, 64, oob="zero", indices=outside)
    assert coefficient(what, A2A3, "MTE2", "DMA start cycles") == 2
    assert coefficient(what, A2A3, "S", "scalar UB cycles") == 4 + 2 * 64 * 4 / 8  # four indices, two rows of zeroes
    whole = fractal_gather(16, 1, 4, "zero", indices=np.full(16, 63))
    assert coefficient(whole, A2A3, "S", "scalar UB cycles") == 16 + 16 * 32 * 4 / 8
    assert coefficient(whole, A2A3, "MTE2", "DMA start cycles") == 16


def test_rows_of_a_scatter_come_one_after_the_other() -> None:
    """A plain store waits for every row; memory combines the rows of an atomic one by one."""
    plain, adding = scatter(A2A3, 32, 64), scatter(A2A3, 32, 64, atomic="add")
    assert coefficient(plain, A2A3, "MTE3", "flag cycles") == coefficient(adding, A2A3, "MTE3", "flag cycles") == 32
    assert coefficient(plain, A2A3, "MTE3", "DMA atomic cycles") == 0
    assert coefficient(adding, A2A3, "MTE3", "DMA atomic cycles") == 32


# --- policies and rows against elements, on both


KERNELS = [
    *((gather, mode, ("clamp", "wrap", "zero")) for mode in ("row", "elem")),
    *((scatter, mode, ("clamp", "wrap", "skip")) for mode in ("row", "elem")),
]


@both
@pytest.mark.clause("MG-COST-06", "MS-PERF-03")
@pytest.mark.parametrize(("build", "mode", "policies"), KERNELS)
def test_undefined_costs_no_more_than_a_policy(profile: Profile, build, mode: str, policies: tuple[str, ...]) -> None:
    for rows, cols in ((1, 8), (16, 64), (64, 256)):
        free = time_of(build(profile, rows, cols, mode), profile)
        assert all(free <= time_of(build(profile, rows, cols, mode, oob), profile) for oob in policies)


@pytest.mark.clause("MG-COST-06")
@pytest.mark.parametrize("oob", ["clamp", "wrap"])
def test_clamp_and_wrap_are_a_step_for_each_index(oob: str) -> None:
    assert coefficient(gather(A2A3, 16, 64, "row", oob), A2A3, "S", "scalar step cycles") == 16
    assert coefficient(gather(A2A3, 16, 64, "elem", oob), A2A3, "S", "scalar step cycles") == 16 * 64
    extra = [
        coefficient(gather(A5, 16, 64, "elem", name), A5, "V", "SIMT instruction cycles") for name in (oob, "undefined")
    ]
    assert extra[0] - extra[1] == 16 * 64 / 32  # lanes of a warp take the step together


@both
@pytest.mark.clause("MG-PERF-01", "MS-PERF-01")
@pytest.mark.parametrize("build", [gather, scatter])
@pytest.mark.parametrize(("rows", "cols"), [(1, 8), (1, 512), (8, 64), (64, 8), (64, 256)])
def test_rows_beat_elements_for_the_same_bytes(profile: Profile, build, rows: int, cols: int) -> None:
    assert time_of(build(profile, rows, cols, "row"), profile) < time_of(build(profile, rows, cols, "elem"), profile)


# --- A5


@pytest.mark.clause("MG-COST-07")
@pytest.mark.parametrize(("rows", "cols", "kind", "transactions"), [
    (1, 32, "float32", 1), (16, 64, "float32", 32), (64, 256, "float32", 512), (16, 64, "float16", 32),
    (4, 40, "float32", 11),
])  # fmt: skip
def test_a_warp_reads_its_columns_of_a_row_in_one_burst(rows: int, cols: int, kind: str, transactions: int) -> None:
    at = np.arange(rows)[None]
    what = gather(A5, rows, cols, kind=kind, indices=at)
    assert coefficient(what, A5, "V", "SIMT transaction cycles") == pytest.approx(transactions)


def test_the_last_shape_of_the_test_above_by_hand() -> None:
    """Rows of 160 bytes at 0, 160, 320, 480: 128 + 32, 128 over two + 32, 128 over two + 32, 128 over two + 32."""
    spans = [(0, 127), (128, 159), (160, 287), (288, 319), (320, 447), (448, 479), (480, 607), (608, 639)]
    assert sum(last // 128 - first // 128 + 1 for first, last in spans) == 11


@pytest.mark.clause("MG-COST-08")
def test_elements_far_apart_are_a_transaction_each_and_neighbours_share_one() -> None:
    apart = (np.arange(256) * 32).reshape(4, 64)
    assert coefficient(gather(A5, 4, 64, "elem", indices=apart), A5, "V", "SIMT transaction cycles") == 256
    together = np.arange(256).reshape(4, 64)
    assert coefficient(gather(A5, 4, 64, "elem", indices=together), A5, "V", "SIMT transaction cycles") == 8


@pytest.mark.parametrize("seed", range(8))
def test_transactions_as_a_naive_loop_counts_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols, kind = int(rng.integers(1, 40)), 8 * int(rng.integers(1, 12)), rng.choice(["float32", "float16"])
    cols = cols * 2 if kind == "float16" else cols
    size, mode = np.dtype(kind).itemsize, ("row", "elem")[seed % 2]
    high = TABLE_ROWS if mode == "row" else TABLE_ROWS * cols
    indices = rng.integers(0, high + high // 4, (1, rows) if mode == "row" else (rows, cols))
    what = gather(A5, rows, cols, mode, "zero", kind, indices)
    count = 0
    for first in range(0, rows * cols, 32) if mode == "elem" else ():
        lanes = [int(k) for k in indices.ravel()[first : first + 32] if k < high]
        count += len({k * size // 128 for k in lanes})
    for row in indices.ravel() if mode == "row" else ():
        for first in range(0, cols, 32):
            lanes = [int(row) * cols + j for j in range(first, min(cols, first + 32)) if row < high]
            count += len({k * size // 128 for k in lanes})
    assert coefficient(what, A5, "V", "SIMT transaction cycles") == count
    meter = TrafficMeter()
    meter.observe(what)
    assert meter.result()[0].transactions == count


@pytest.mark.clause("MG-COST-09", "MG-SIMT-05", "MG-SIMT-06", "MS-SIMT-01")
def test_small_tiles_do_not_pay_for_idle_warps() -> None:
    def warps(what: Executed) -> float:
        return coefficient(what, A5, "V", "SIMT warp start cycles")

    assert [warps(gather(A5, rows, cols, "elem")) for rows, cols in ((1, 16), (4, 64), (16, 64), (20, 256))] == [
        1,
        8,
        32,
        32,
    ]
    assert [warps(gather(A5, rows, cols)) for rows, cols in ((8, 64), (1, 1024), (5, 1000), (64, 32))] == [
        16,
        32,
        30,
        32,
    ]
    assert warps(scatter(A5, 1, 8)) == 32  # scatters launch 1024 threads for every shape
    small, full = time_of(gather(A5, 1, 16, "elem"), A5), time_of(gather(A5, 16, 64, "elem"), A5)
    assert small < full - 31 * A5.costs["SIMT warp start cycles"] + 1e-9


@pytest.mark.clause("MG-COST-10", "MG-SYNC-17")
def test_the_simt_executor_stores_contiguously() -> None:
    dst, table = fractal(TileType.Mat, 16, 32), tensor(TABLE_ROWS, 32)
    given = (dst, table, tensor(16, 32, kind="int32"), tensor(512))
    same = executed(A5, "mgather", *given, indices=np.zeros((16, 32)), executor="simt")
    warps, stores, index_blocks = 16, 16 * 32 * 4 // 128, 16 * 32 // 8
    assert coefficient(same, A5, "V", "SIMT transaction cycles") == warps + stores + index_blocks
    assert coefficient(same, A5, "V", "cache flush cycles") == 16 * 32 * 4 / 64
    apart = executed(A5, "mgather", *given, indices=np.arange(512) * 32, executor="simt")
    assert coefficient(apart, A5, "V", "SIMT transaction cycles") == 512 + stores + index_blocks


@pytest.mark.clause("MG-SIMT-13")
def test_the_scalar_executor_is_slower_on_a_full_tile() -> None:
    scalar, simt = into_l1(A5, "elem"), into_l1(A5, "elem", executor="simt")
    assert cycles(simt, A5)["V"] < cycles(scalar, A5)["S"] / 10


@pytest.mark.clause("MS-PERF-02")
@pytest.mark.parametrize(("profile", "mode"), [(A5, "row"), (A5, "elem"), (A2A3, "elem")])
def test_atomics_cost_more_per_lane(profile: Profile, mode: str) -> None:
    assert time_of(scatter(profile, 16, 64, mode), profile) < time_of(
        scatter(profile, 16, 64, mode, atomic="add"), profile
    )
    if profile is A5:
        assert coefficient(scatter(A5, 16, 64, mode, atomic="add"), A5, "V", "SIMT atomic cycles") == 16 * 64


@pytest.mark.clause("MG-SIMT-08")
def test_a_single_element_needs_no_launch() -> None:
    one = executed(A5, "mgather", vec(1, 8, valid=(1, 1)), tensor(TABLE_ROWS, 8), vec(1, 8, "int32", (1, 1)),
                   indices=[3], coalesce="elem")  # fmt: skip
    assert cycles(one, A5).keys() == {"S"}
    assert time_of(one, A5) < time_of(gather(A5, 1, 8, "elem"), A5)


# --- what is remembered


def test_times_are_remembered_and_not_mixed_up() -> None:
    works = TimedWorks()
    small, large = executed(A5, "tload", vec(8, 8), tensor(8, 8)), executed(A5, "tload", vec(64, 64), tensor(64, 64))
    first = [works.of(what) for what in (small, large)]
    assert first == [works.of(what) for what in (small, large)]
    assert cycles(small, A5)["MTE2"] < cycles(large, A5)["MTE2"]


def test_times_of_an_instruction_follow_its_indices() -> None:
    works = TimedWorks()
    inside, outside = gather(A2A3, 16, 64, oob="zero"), gather(A2A3, 16, 64, oob="zero", indices=np.full(16, 10**6))
    outside.plan = inside.plan
    assert works.of(inside) is not works.of(outside)
    assert cycles(outside, A2A3)["MTE2"] < cycles(inside, A2A3)["MTE2"]
