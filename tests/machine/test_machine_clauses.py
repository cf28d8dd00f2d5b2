"""Clauses on pipes, cores, launches and memory, each as programs that meet and break the clause."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.policy import TileType
from ptokit.machine.report import LAUNCHES
from ptokit.program.cores import PipeWork, Sync
from ptokit.target import profile
from ptokit.target.a2a3 import A2A3
from ptokit.target.a5 import A5
from tests.corpus.hazards import budgets, launch, memory, order, scratch
from tests.corpus.hazards.case import counted, flag, spread, upto, zeros
from tests.machine.costing import coefficient, cycles, executed, fractal, tensor, vec
from tests.machine.executing import execute, gm
from tests.machine.executing import nz as nz_spec
from tests.machine.test_costs import gather, into_l1, scatter
from tests.program.happens_before import check
from tests.text.test_cpp import kernel_from, program_of

NPU = ("a2a3", "a5")
KB = 1024
SEEDS = range(12)


def given(makers: dict[str, Any]) -> dict[str, Any]:
    """New arguments of a launch."""
    return {name: make() if callable(make) else make for name, make in makers.items()}


def run(kernel: Any, makers: dict[str, Any], target: str, grid: int = 1, **options: Any) -> Any:
    return kernel[grid](**given(makers), target=target, engine="machine", **options)


def kinds(report: Any) -> list[str | None]:
    """The numbers of all errors and hazards, each once."""
    return sorted({finding.kind for finding in report.findings if finding.level != "note"}, key=str)


# --- A2/A3: the kernel handshakes by itself --------------------------------------------------------------------


@pto.kernel(mode="manual")
def only_the_index_flag(table, tokens, more, out, coalesce: pto.const = "row", index: pto.const = (1, 8)):
    """Gathers beside every other kind of use, with no flag of the caller but those from MTE2 to V after index loads."""
    ids = pto.Tile("vec", "int32", *index, addr=0x0)
    got = pto.Tile("vec", table.dtype, 8, 16, addr=0x4000)
    pto.tload(ids, tokens)
    flag("MTE2", "V")
    pto.mgather(got, table, ids, coalesce=coalesce)
    pto.tadds(got, got, 1)  # V writes what S or MTE2 wrote
    pto.mgather(got, table, ids, coalesce=coalesce)  # and the next gather writes what V wrote
    pto.tstore(out[0:8], got)
    pto.mgather(got, table, ids, coalesce=coalesce)  # while MTE3 may still read it
    pto.tstore(out[8:16], got)
    pto.tload(ids, more)  # while S may still read the indices
    flag("MTE2", "V", 1)
    pto.mgather(got, table, ids, coalesce=coalesce)
    pto.tstore(out[16:24], got)


ROWS = {"table": counted(64, 16), "tokens": spread(8, below=64), "more": upto(8), "out": zeros(24, 16)}
ELEMS = {**ROWS, "tokens": spread(8, 16, below=1024), "more": upto(8, 16), "coalesce": "elem", "index": (8, 16)}


@pytest.mark.clause("MG-SYNC-02", "MG-SYNC-06", "MG-SYNC-12", "A-56")
@pytest.mark.parametrize("makers", [ROWS, ELEMS], ids=["row", "elem"])
def test_on_a2a3_the_flag_after_the_index_load_is_all_that_the_caller_owes(makers: dict[str, Any]) -> None:
    assert run(only_the_index_flag, makers, "a2a3").ok
    assert not run(only_the_index_flag, makers, "a5").ok  # there the caller owes more
    expected = given(makers)
    only_the_index_flag[1](**expected, target="a2a3")
    for seed in SEEDS:
        found = given(makers)
        report = only_the_index_flag[1](**found, target="a2a3", engine="machine", options=pto.MachineOptions(seed=seed))
        assert report is not None
        assert found["out"].tobytes() == expected["out"].tobytes(), seed


@pytest.mark.clause("MG-SYNC-01")
@pytest.mark.parametrize("target", NPU)
def test_without_that_flag_the_index_may_be_stale(target: str) -> None:
    assert run(order.lookup, {**order.ROW, "first": "flag"}, target).ok
    assert kinds(run(order.lookup, {**order.ROW, "first": "none"}, target)) == ["H-24"]


@pytest.mark.clause("MG-SYNC-06", "A-56")
@pytest.mark.parametrize("makers", [order.ROW, order.ELEM], ids=["row", "elem"])
def test_a_gather_of_a2a3_drains_stores_that_still_read_its_destination(makers: dict[str, Any]) -> None:
    index = {"index": makers["index"], "coalesce": "elem"} if "index" in makers else {}
    twice = {"table": makers["table"], "tokens": makers["tokens"], "out": zeros(16, 16), **index, "way": "none"}
    assert run(order.twice, twice, "a2a3").ok
    assert kinds(run(order.twice, twice, "a5")) == ["H-26"]


NEEDED = {
    "row": (("before", ("V", "S")), ("before", ("MTE3", "S")), ("after", ("MTE2", "V")), ("after", ("MTE2", "MTE3"))),
    "elem": (
        ("before", ("V", "S")), ("before", ("MTE3", "S")), ("after", ("S", "V")), ("after", ("S", "MTE2")),
        ("after", ("S", "MTE3")),
    ),
}  # fmt: skip
"""Pairs that no other pair of the same kernel implies."""
EVERY_USE = """
ids = pto.Tile("vec", "int32", *INDEX, addr=0x0)
got = pto.Tile("vec", "float32", 16, 16, addr=0x4000, FORM)
other = pto.Tile("vec", "float32", 16, 16, addr=0x8000, FORM)
pto.tload(ids, tokens)
pto.tload(other, out)
pto.set_flag("MTE2", "V", 0)
pto.wait_flag("MTE2", "V", 0)
pto.tmov(got, other)
pto.mgather(got, table, ids, coalesce=MODE)
pto.tmov(other, got)
pto.tmov(got, other)
pto.mgather(got, table, ids, coalesce=MODE)
pto.tstore(out, got)
pto.mgather(got, table, ids, coalesce=MODE)
pto.texpands(ids, 0)
pto.mgather(got, table, ids, coalesce=MODE)
pto.tload(ids, tokens)
"""


def every_use(form: str, mode: str) -> Any:
    """A fresh kernel whose only flag is the one after the index load."""
    index = "(1, 16)" if mode == "row" else "(16, 16)"
    layout = 'blayout="col_major", slayout="row_major"' if form == "nz" else ""
    body = EVERY_USE.replace("INDEX", index).replace("MODE", repr(mode)).replace("FORM", layout)
    return kernel_from(body, "manual", table=0, tokens=0, out=0)


def blocks(form: str, *shape: int) -> Any:
    array = np.ones(shape, "float32")
    return (
        array if form == "nd" else pto.GlobalTensor(array, shape=(1, shape[1] // 8, shape[0] // 16, 16, 8), layout="nz")
    )


@pytest.mark.clause("MG-SYNC-04", "MG-SYNC-05", "MG-SYNC-10", "MG-SYNC-11", "MG-SYNC-12")
@pytest.mark.parametrize(("form", "mode"), list(product(("nd", "nz"), ("row", "elem"))))
def test_each_pair_of_a_gather_is_what_keeps_its_neighbours_in_order(
    form: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its pairs the program is clean; without any one of them there is a race."""
    route = f"mgather.{mode}" + ".nz" * (form == "nz")
    makers = {"table": lambda: blocks(form, 64, 16), "out": lambda: blocks(form, 16, 16)}
    makers["tokens"] = upto(16) if mode == "row" else spread(16, 16, below=1024)
    kernel = every_use(form, mode)
    assert run(kernel, makers, "a2a3").ok
    program = program_of(kernel, "a2a3", **given(makers))
    assert check(program, A2A3) == []
    own = A2A3.kernel(route)
    chain = own.handshake
    for field, pair in NEEDED[mode]:
        fewer = tuple(other for other in getattr(chain, field) if other != pair)
        assert len(fewer) == len(getattr(chain, field)) - 1
        mutant = replace(own, handshake=replace(chain, **{field: fewer}))
        monkeypatch.setitem(INSTRUCTIONS["mgather"].kernels["a2a3"], route, mutant)
        faults = check(program, A2A3)
        assert {fault.kind for fault in faults} == {"race"}, (field, pair)


@pytest.mark.clause("MG-SYNC-14", "MG-SIMT-08")
def test_a_single_element_on_a5_hands_over_between_the_vector_and_the_scalar_pipe() -> None:
    """V before the scalar copy and V after it: what is ordered with V needs no more, what is not needs its flag."""
    assert run(order.lookup, order.ONE, "a5").ok
    assert kinds(run(order.lookup, {**order.ONE, "first": "none"}, "a5")) == ["H-24"]
    assert kinds(run(order.lookup, {**order.ONE, "then": "none"}, "a5")) == ["H-25"]


@pytest.mark.clause("MG-SYNC-03", "MG-L1-30")
@pytest.mark.parametrize("target", NPU)
def test_gathers_wait_in_pairs_and_leave_other_pipes_alone(target: str) -> None:
    """A barrier over all pipes would make every pipe wait; a gather has a flag for each producer and consumer."""
    here = profile(target)
    for route, chain in here.handshakes.items():
        pairs = (*chain.before, *chain.after, *chain.each_row, *chain.between, *chain.after_fill)
        pipes = [pipe.rpartition(".")[2] for pair in pairs for pipe in pair]
        assert set(pipes) <= {"S", "V", "MTE2", "MTE3"}, route
        assert all(first != second for first, second in pairs), route


# --- Cores -----------------------------------------------------------------------------------------------------


def into_cube(target: str, mode: str, oob: str = "clamp", executor: str | None = None) -> Any:
    given: dict[str, Any] = {"dst": nz_spec("float16", 16, 32), "table": gm("float16", 64, 32)}
    if mode == "row":
        return execute("mgather", target, {**given, "idx": gm("int32", 16)}, range(16), oob=oob)
    given |= {"idx": gm("int32", 16, 32), "scratch": gm("float16", 512)}
    indices = np.arange(512).reshape(16, 32)
    return execute("mgather", target, given, indices, coalesce="elem", oob=oob, executor=executor)


def touched(what: Any) -> dict[str, set[str]]:
    """By pipe: what it reads and writes."""
    steps = [step for step in what.steps if isinstance(step, PipeWork)]
    return {
        step.pipe: {f"read {name}" for name in step.reads} | {f"write {name}" for name in step.writes} for step in steps
    }


def handed_over(what: Any) -> list[tuple[str, str]]:
    return [(step.src, step.dst) for step in what.steps if isinstance(step, Sync)]


@pytest.mark.clause("MG-L1-27", "MG-L1-31", "MG-L1-04", "A-41")
@pytest.mark.parametrize("target", NPU)
def test_scalar_gathers_into_l1_run_on_the_cube_core_alone(target: str) -> None:
    rows = touched(into_cube(target, "row"))
    assert rows == {"AIC.S": {"read idx"}, "AIC.MTE2": {"read table", "write dst"}}
    elems = touched(into_cube(target, "elem"))
    assert elems["AIC.S"] == {"read idx", "read table", "read scratch", "write scratch"}
    assert elems["AIC.MTE2"] == {"read scratch", "write dst"}
    assert set(elems) == {"AIC.S", "AIC.MTE2"}


@pytest.mark.clause("MG-SIMT-14", "MG-SYNC-17", "A-41")
def test_the_simt_executor_collects_on_the_vector_core_and_copies_on_the_cube_core() -> None:
    what = into_cube("a5", "elem", executor="simt")
    assert touched(what) == {
        "AIV.V": {"read idx", "read table", "read scratch", "write scratch"},
        "AIC.MTE2": {"read scratch", "write dst"},
    }
    assert handed_over(what) == [("AIV.V", "AIC.MTE2")]


@pytest.mark.clause("MG-SIMT-17")
def test_the_simt_executor_has_no_operand_in_ub() -> None:
    """The index must be in global memory, no tile counts against the UB, and nothing has to be asked for."""
    makers = {"table": counted(64, 16, dtype="float16"), "tokens": spread(16, 16, below=1024)}
    makers |= {"scratch": zeros(256, dtype="float16"), "executor": "simt"}
    for asked in ({}, {"dyn_ub": 0}, {"dyn_ub": 216 * KB}):
        report = run(scratch.collect, makers, "a5", **asked)
        assert report.ok and not [finding for finding in report.findings if finding.kind in ("H-20", "H-21")]
    with pto.target("a5"), pytest.raises(pto.VerifyError) as refused:
        pto.mgather(
            pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major"),
            pto.GlobalTensor(np.zeros((64, 16), "float16")),
            pto.Tile("vec", "int32", 16, 16).write(0),
            scratch=pto.GlobalTensor(np.zeros(256, "float16")),
            executor="simt",
        )
    assert [finding.rule for finding in refused.value.findings] == ["MG-L1-03"]


@pytest.mark.clause("MG-L1-28")
@pytest.mark.parametrize("target", NPU)
def test_zeroes_and_rows_of_an_l1_tile_follow_each_other_on_one_pipe(target: str) -> None:
    """MTE2 alone writes the tile, so nothing is handed over in between, and the scalar pipe has no more work."""
    zeroed, clamped = (into_cube(target, "row", oob) for oob in ("zero", "clamp"))
    assert touched(zeroed) == touched(clamped)
    assert handed_over(zeroed) == handed_over(clamped) == [("AIC.S", "AIC.MTE2"), ("AIC.S", "AIC.MTE2")]
    here = profile(target)
    cleared, plain = (cycles(into_l1(here, "row", oob), here) for oob in ("zero", "clamp"))
    assert cleared["S"] == plain["S"]
    assert cleared["MTE2"] - plain["MTE2"] == pytest.approx(16 * 32 * 4 / here.costs["on-chip bytes/cycle"])


@pto.kernel
def read_back(table, tokens, out, through: pto.const = True):
    """Rows from L1 to UB and on to memory; or a tile of each core, and nothing from one to the other."""
    matrix = pto.Tile("mat", table.dtype, 16, 16, blayout="col_major", slayout="row_major")
    part = pto.Tile("vec", table.dtype, 16, 16)
    pto.mgather(matrix, table, tokens)
    if through:
        pto.tmov(part, matrix)
    else:
        pto.tload(part, out)
    pto.tstore(out, part)


@pytest.mark.clause("MG-L1-32", "MG-L1-33")
def test_an_l1_tile_is_read_back_through_ub_with_a_hand_over_between_the_cores() -> None:
    table = np.arange(64 * 16, dtype="float16").reshape(64, 16)
    matrix = {"blayout": "col_major", "slayout": "row_major"}
    with pto.target("a5"):
        tile, part = pto.Tile("mat", "float16", 16, 16, **matrix), pto.Tile("vec", "float16", 16, 16, **matrix)
        pto.mgather(tile, pto.GlobalTensor(table), pto.GlobalTensor(np.arange(16, dtype="int32") * 3))
        pto.tmov(part, tile)
        assert (part.read() == table[np.arange(16) * 3]).all()
        with pytest.raises(pto.VerifyError):
            pto.tstore(pto.GlobalTensor(np.zeros((16, 16), "float16")), tile)
    makers = {"table": counted(64, 16, dtype="float16"), "tokens": upto(16), "out": zeros(16, 16, dtype="float16")}
    for target, through, expected in (
        ("a5", True, []),
        ("a5", False, [("KN-16", "error")]),
        ("a2a3", True, [("TV-01", "error")]),
        ("a2a3", False, [("KN-16", "error")]),
    ):
        report = pto.check(read_back, **given(makers), through=through, target=target)
        assert [(f.rule, f.level) for f in report[target].findings if f.level != "note"] == expected, (target, through)


# --- L1: what moves --------------------------------------------------------------------------------------------

TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32")


def nz_mat(kind: str, rows: int, cols: int, **options: Any) -> pto.Tile:
    return pto.Tile("mat", kind, rows, cols, blayout="col_major", slayout="row_major", **options)


@pytest.mark.clause("MG-L1-02", "MG-L1-09", "MG-L1-10")
@pytest.mark.parametrize(("target", "kind"), list(product(NPU, TYPES)))
def test_gathered_rows_lie_in_l1_as_a_load_of_the_same_rows_would(target: str, kind: str) -> None:
    random = np.random.default_rng(3)
    for rows, valid, cols in ((16, 16, 32), (48, 37, 96), (16, 1, 32)):
        table = random.integers(0, 100, (64, cols)).astype(kind)
        idx = random.integers(0, 64, valid).astype("int32")
        with pto.target(target):
            gathered, loaded = (nz_mat(kind, rows, cols, valid=(valid, cols)) for _ in range(2))
            pto.mgather(gathered, pto.GlobalTensor(table), pto.GlobalTensor(idx))
            pto.tload(loaded, pto.GlobalTensor(table[idx]))
        kc0 = 32 // np.dtype(kind).itemsize
        for r, c in product(range(valid), range(cols)):
            place = c // kc0 * (rows * kc0) + r * kc0 + c % kc0
            assert gathered.buffer[place] == loaded.buffer[place] == table[idx[r], c]


@pto.kernel
def product_of(table, tokens, weights, out, scratch, mode: pto.const = "row", how: pto.const = "tmov"):
    """Gathered rows times weights, without UB."""
    a = pto.Tile("mat", "float16", 16, 32, blayout="col_major", slayout="row_major")
    b = pto.Tile("mat", "float16", 32, 16, blayout="col_major", slayout="row_major")
    left, right = pto.Tile("left", "float16", 16, 32), pto.Tile("right", "float16", 32, 16)
    acc = pto.Tile("acc", "float32", 16, 16)
    if mode == "row":
        pto.mgather(a, table, tokens, oob="clamp")
    else:
        pto.mgather(a, table, tokens, scratch=scratch, oob="clamp")
    pto.tload(b, weights)
    if how == "tmov":
        pto.tmov(left, a)
    else:
        pto.textract(left, a, 0, 0)
    pto.tmov(right, b)
    pto.tmatmul(acc, left, right)
    pto.tstore(out, acc)


@pytest.mark.clause("MG-L1-02", "MG-L1-32")
@pytest.mark.parametrize(("target", "mode", "how"), list(product(NPU, ("row", "elem"), ("tmov", "textract"))))
def test_a_gathered_l1_tile_feeds_the_cube(target: str, mode: str, how: str) -> None:
    random = np.random.default_rng(5)
    table = random.integers(-3, 4, (64, 32)).astype("float16")
    weights = random.integers(-3, 4, (32, 16)).astype("float16")
    tokens = random.integers(0, 64, 16) if mode == "row" else random.integers(0, 2048, (16, 32))
    rows = table[tokens] if mode == "row" else table.ravel()[tokens]
    out = np.zeros((16, 16), "float32")
    report = product_of[1](
        table, tokens.astype("int32"), weights, out, np.zeros(512, "float16"), mode=mode, how=how, target=target,
        engine="machine",
    )  # fmt: skip
    assert report.ok
    assert (out == rows.astype("float32") @ weights.astype("float32")).all()


@pytest.mark.clause("MG-L1-12", "MG-L1-13", "MG-L1-14", "MG-SIMT-20", "MG-SIMT-21", "MG-SIMT-23")
@pytest.mark.parametrize(("target", "executor"), [("a2a3", None), ("a5", None), ("a5", "scalar"), ("a5", "simt")])
@pytest.mark.parametrize("kind", TYPES)
def test_elements_go_through_the_scratch_which_is_copied_whole(target: str, executor: str | None, kind: str) -> None:
    random, kc0 = np.random.default_rng(9), 32 // np.dtype(kind).itemsize
    rows, cols, valid = 32, 3 * kc0, (19, 2 * kc0 + 3)
    table = random.integers(1, 100, 700).astype(kind)
    idx = random.integers(0, 900, valid).astype("int32")
    staged = np.full(rows * cols + 5, 77, kind)
    with pto.target(target):
        tile = nz_mat(kind, rows, cols, valid=valid)
        words = {"executor": executor} if executor else {}
        pto.mgather(
            tile, pto.GlobalTensor(table), pto.GlobalTensor(idx), scratch=pto.GlobalTensor(staged), oob="zero", **words
        )
    expected = np.zeros(rows * cols, kind)
    for r, c in product(*map(range, valid)):
        if idx[r, c] < 700:
            expected[c // kc0 * (rows * kc0) + r * kc0 + c % kc0] = table[idx[r, c]]
    assert staged[: rows * cols].tobytes() == tile.buffer.tobytes() == expected.tobytes()
    assert (staged[rows * cols :] == 77).all()


@pytest.mark.clause("MG-L1-14", "A-45")
@pytest.mark.parametrize("target", NPU)
@pytest.mark.parametrize(("rows", "cols"), [(16, 8), (16, 32), (48, 24)])
def test_the_scratch_is_flushed_line_by_line_and_copied_in_one_transfer(target: str, rows: int, cols: int) -> None:
    here = profile(target)
    given = (fractal(TileType.Mat, rows, cols), tensor(64, 32), tensor(rows, cols, kind="int32"), tensor(rows * cols))
    what = executed(here, "mgather", *given, indices=np.zeros((rows, cols)))
    assert coefficient(what, here, "S", "cache flush cycles") == rows * cols * 4 / 64
    assert coefficient(what, here, "MTE2", "DMA start cycles") == 1
    assert coefficient(what, here, "MTE2", "DMA burst cycles") == 1
    assert ("AIC.S", "AIC.MTE2") in handed_over(what)
    assert here.costs["cache line bytes"] == 64 and "MG-L1-14" in here.sources["cache flush cycles"]


@pytest.mark.clause("A-45", "MG-L1-02")
@pytest.mark.parametrize("target", NPU)
def test_the_caller_owns_the_flag_from_the_transfer_to_the_cube(target: str) -> None:
    makers = {"table": counted(64, 16, dtype="float16"), "tokens": spread(16, 16, below=1024)}
    makers |= {"scratch": zeros(256, dtype="float16")}
    assert run(order.collected, {**makers, "guard": True}, target).ok
    assert kinds(run(order.collected, {**makers, "guard": False}, target)) == ["H-35"]


# --- Launches --------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-SIMT-09", "MG-SIMT-10", "MG-HAZ-06", "A-40", "A-59")
@pytest.mark.parametrize(
    ("kernel", "makers", "hangs"),
    [
        (launch.gather, launch.ROW, True),
        (launch.gather, launch.FLAT, True),
        (launch.gather, launch.PAIR, True),
        (launch.gather, launch.SINGLE, False),
        (launch.scatter, launch.TO, True),
        (launch.scatter, {**launch.TO, "flat": True, "tokens": upto(8, 16)}, True),
        (launch.into_l1, {**launch.L1, "tokens": spread(16, 16, below=1024), "how": "simt"}, True),
        (launch.into_l1, {**launch.L1, "tokens": spread(16, 16, below=1024), "how": "scalar"}, False),
        (launch.into_l1, {**launch.L1, "tokens": spread(16, below=64), "how": "row"}, False),
        (launch.plain, {"x": counted(8, 16), "out": zeros(8, 16)}, False),
    ],
)
def test_what_starts_threads_hangs_when_it_is_called_through_a_pointer(
    kernel: Any, makers: dict[str, Any], hangs: bool
) -> None:
    assert LAUNCHES == ("standard", "function_pointer")
    assert run(kernel, makers, "a5", launch="standard").ok
    report = run(kernel, makers, "a5", launch="function_pointer")
    found = [(finding.kind, finding.level, finding.rule) for finding in report.findings if finding.level != "note"]
    assert found == ([("H-23", "error", "MG-SIMT-10")] if hangs else [])


@pytest.mark.clause("MG-SIMT-24")
def test_no_launch_exceeds_its_bound_and_threads_have_32_registers() -> None:
    random = Random(4)
    shapes = [(random.randint(1, 5000), random.randint(1, 5000)) for _ in range(200)]
    launches = [route for route, kernel in A5.kernels.items() if kernel.launch]
    assert launches
    for route, (rows, cols) in product(launches, [(1, 2), (32, 32), (33, 33), *shapes]):
        shape = A5.launch_shape(route, rows, cols)
        assert shape is not None and shape.threads <= 1024
    assert A5.costs["registers a thread"] == 32


@pytest.mark.clause("MG-SIMT-25")
@pytest.mark.parametrize("target", NPU)
@pytest.mark.parametrize("word", ["oob", "coalesce"])
def test_modes_and_policies_cannot_be_numbers_of_the_run(target: str, word: str) -> None:
    body = (
        "ids = pto.Tile('vec', 'int32', 1, 8)\ngot = pto.Tile('vec', 'float32', 8, 16)\n"
        f"pto.tload(ids, tokens)\npto.mgather(got, table, ids, {word}=n)\npto.tstore(out, got)"
    )
    makers = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
    kernel = kernel_from(body, "auto", table=0, tokens=0, out=0, n=0)
    with pytest.raises(pto.VerifyError):
        kernel[1](**given(makers), n=1, target=target)


@pytest.mark.clause("MG-SIMT-25", "MG-COST-06")
def test_lanes_take_the_same_time_whatever_their_indices_do() -> None:
    """No lane leaves the others behind: with a policy, lanes outside cost the step that lanes inside cost."""
    for mode, oob in product(("row", "elem"), ("clamp", "wrap")):
        shape = (1, 16) if mode == "row" else (16, 32)
        inside = np.arange(shape[0] * shape[1]).reshape(shape) % 16
        outside = inside + 512 * (32 if mode == "elem" else 1)
        costs = [
            coefficient(gather(A5, 16, 32, mode, oob, indices=idx), A5, "V", "SIMT instruction cycles")
            for idx in (inside, outside)
        ]
        assert costs[0] == costs[1]


@pytest.mark.clause("MG-OOB-11", "MG-COST-06")
@pytest.mark.parametrize(("rows", "cols", "mode"), [(8, 64, "row"), (5, 104, "row"), (16, 64, "elem"), (3, 8, "elem")])
def test_zeroing_on_a5_is_one_more_instruction_for_each_lane(rows: int, cols: int, mode: str) -> None:
    accesses = rows * -(-cols // 32) if mode == "row" else -(-rows * cols // 32)
    plain, zeroing = (
        coefficient(gather(A5, rows, cols, mode, oob), A5, "V", "SIMT instruction cycles")
        for oob in ("undefined", "zero")
    )
    assert zeroing - plain == accesses


@pytest.mark.clause("MG-SIMT-26")
@pytest.mark.parametrize(
    ("rows", "cols", "mode"),
    [(8, 64, "row"), (64, 128, "row"), (32, 96, "row"), (100, 512, "row"), (1, 4096, "row"), (40, 1000, "row"),
     (8, 64, "elem"), (64, 64, "elem"), (100, 104, "elem")],
)  # fmt: skip
def test_four_turns_of_the_column_loop_wait_for_memory_together(rows: int, cols: int, mode: str) -> None:
    """Memory answers once for the first access, then once for each further iteration: four columns of a row kernel are
    one iteration, rows and elements are not unrolled."""
    chunks = -(-cols // 32)
    if mode == "row":
        row_warps = min(rows, 32)
        per_row = min(32 // row_warps, chunks)
        iterations = -(-rows // row_warps) * -(-chunks // (4 * per_row))
    else:
        accesses = -(-rows * cols // 32)
        iterations = -(-accesses // min(accesses, 32))
    assert coefficient(gather(A5, rows, cols, mode), A5, "V", "GM latency cycles") == iterations


@pytest.mark.clause("MG-SIMT-07")
@pytest.mark.parametrize("total", [2, 31, 32, 33, 1023, 1024, 1025, 2047, 5000])
def test_every_element_is_gathered_once_whatever_the_launch(total: int) -> None:
    cols, valid = -(-total // 8) * 8, (1, total)
    with pto.target("a5"):
        table = np.arange(total, dtype="float32")[::-1].copy()
        dst = pto.Tile("vec", "float32", 1, cols, valid=valid)
        dst.buffer[:] = -1
        idx = pto.Tile("vec", "int32", 1, cols, valid=valid).write(np.arange(total))
        pto.mgather(dst, pto.GlobalTensor(table), idx, coalesce="elem")
    assert dst.buffer[:total].tolist() == table.tolist()
    assert (dst.buffer[total:] == -1).all()
    specs = vec(1, cols, valid=valid), tensor(total), vec(1, cols, "int32", valid)
    what = executed(A5, "mgather", *specs, indices=np.arange(total), coalesce="elem")
    warps = min(-(-total // 32), 32)
    assert coefficient(what, A5, "V", "SIMT warp start cycles") == warps
    assert coefficient(what, A5, "V", "SIMT instruction cycles") == 5 * -(-total // 32)


@pytest.mark.clause("A-50")
@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("float16", 2), ("float32", 4)])
def test_a_warp_reads_32_elements_in_one_burst_of_at_most_128_bytes(kind: str, size: int) -> None:
    for rows, cols in ((4, 32), (4, 128), (7, 256)):
        what = gather(A5, rows, cols, kind=kind, indices=np.arange(rows)[None, :])
        warps = rows * cols // 32
        assert coefficient(what, A5, "V", "SIMT transaction cycles") == warps
        assert 32 * size <= A5.costs["GM burst bytes"] == 128


@pytest.mark.clause("A-51", "MG-COST-05")
def test_the_depth_of_the_transfer_queue_is_a_parameter() -> None:
    what, latency = gather(A2A3, 64, 8), A2A3.costs["GM latency cycles"]
    assert "no number" in A2A3.sources["outstanding transfers"]
    one, many = (cycles(what, A2A3, outstanding_transfers=depth)["MTE2"] for depth in (1, 64))
    assert one == pytest.approx(latency + 64 * latency)
    assert many < one / 8


@pytest.mark.clause("A-59", "MS-SIMT-01")
def test_a_scatter_of_a5_is_vector_work_and_one_of_a2a3_works_in_rows_or_elements() -> None:
    for mode in ("row", "elem"):
        assert cycles(scatter(A5, 8, 32, mode), A5).keys() == {"V"}
    assert cycles(scatter(A2A3, 8, 32, "row"), A2A3).keys() == {"S", "MTE3"}
    assert cycles(scatter(A2A3, 8, 32, "elem"), A2A3).keys() == {"S"}
    late = {**order.UPDATE, "late": False}
    assert kinds(run(order.update, late, "a5")) == ["H-24"]  # reads need MTE2 to V
    assert run(order.update, late, "a2a3").ok  # its kernel waits for loads itself


# --- Addresses and budgets -------------------------------------------------------------------------------------


@pytest.mark.clause("MG-ALIGN-06", "MG-HAZ-01", "CO-ALIGN-01")
@pytest.mark.parametrize(("kind", "size"), [("int8", 1), ("float16", 2), ("float32", 4)])
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_burst_to_a_column_needs_a_column_that_begins_a_block(kind: str, size: int, target: str) -> None:
    """A manual transfer to column c of a row that begins at a block. A2/A3 drops it."""
    block = 32 // size
    makers = {
        "x": counted(block, dtype=kind),
        "out": zeros(block, dtype=kind),
        "shape": (1, block),
        "valid": (1, block),
    }
    for column in (0, 1, 3, 4, 8, block // 2, block, block + 1, 2 * block, 2 * block + 4, 3 * block):
        report = run(memory.copy, {**makers, "addr": column * size}, target)
        assert kinds(report) == ([] if column * size % 32 == 0 else ["H-01"]), column
        assert all(("dropped" in found.message) == (target == "a2a3") for found in report.hazards)


LOOKUP = {"table": counted(64, 16), "tokens": spread(8, below=64), "out": zeros(8, 16)}
FLAT = {**LOOKUP, "tokens": spread(8, 16, below=1024), "coalesce": "elem", "index": (8, 16)}


@pytest.mark.clause("MG-ALIGN-07", "MG-ALIGN-08", "MG-ALIGN-09", "MG-HAZ-01")
@pytest.mark.parametrize("addr", [0x1000, 0x1004, 0x1010, 0x101C, 0x1020, 0x1040])
def test_only_transfers_of_rows_need_an_aligned_destination(addr: int) -> None:
    """Scalar copies and SIMT lanes have the grain of an element."""
    rows, elems = (kinds(run(memory.lookup, {**makers, "addr": addr}, "a2a3")) for makers in (LOOKUP, FLAT))
    assert rows == ([] if addr % 32 == 0 else ["H-01"])
    assert "H-01" not in elems
    for makers in (LOOKUP, FLAT):
        assert "H-01" not in kinds(run(memory.lookup, {**makers, "addr": addr}, "a5"))


@pytest.mark.clause("MG-ALIGN-07", "MG-ALIGN-02")
@pytest.mark.parametrize("kind", ["int8", "uint16", "float16", "int32", "float32"])
def test_every_row_of_a_legal_tile_begins_at_a_block(kind: str) -> None:
    from tests.machine.test_traffic import measured

    size = np.dtype(kind).itemsize
    for cols in range(1, 3 * 32 // size):
        operands = {
            "dst": vec(8, -(-cols * size // 32) * 32 // size, kind, (8, cols)),
            "table": tensor(64, cols, kind=kind),
            "idx": vec(1, 8, "int32"),
        }
        found = measured(execute("mgather", "a2a3", operands, range(8)))
        assert (found.bursts, found.misaligned) == (8, 0)


TILE = budgets.TILE


@pytest.mark.clause("MG-HAZ-04", "MG-BUDG-09")
@pytest.mark.parametrize("end", [127 * KB, 128 * KB, 128 * KB + 32, 160 * KB, 216 * KB])
def test_above_128_kb_a_launch_of_a5_must_ask_for_memory(end: int) -> None:
    makers = {**budgets.SMALL, "addr": end - TILE}
    for asked, expected in (({}, end > 128 * KB), ({"dyn_ub": 0}, end > 128 * KB), ({"dyn_ub": end}, False)):
        report = run(budgets.high, makers, "a5", **asked)
        assert kinds(report) == (["H-20"] if expected else []), asked
    assert run(budgets.high, makers, "cpu").ok


@pytest.mark.clause("MG-HAZ-05", "MG-BUDG-13", "MG-BUDG-07")
@pytest.mark.parametrize("end", [216 * KB - 32, 216 * KB, 216 * KB + 32, 224 * KB, 248 * KB, 256 * KB])
def test_no_launch_of_a5_makes_more_than_216_kb_available(end: int) -> None:
    makers = {**budgets.SMALL, "addr": end - TILE}
    for asked in (216 * KB, 256 * KB):
        report = run(budgets.high, makers, "a5", dyn_ub=asked)
        assert kinds(report) == (["H-21"] if end > 216 * KB or asked > 216 * KB else []), asked


@pto.kernel(mode="manual")
def placed_scatter(table, tokens, rows: pto.const = 100):
    """A source and an index of `rows` KB together, from address 0 on."""
    ids = pto.Tile("vec", "int32", rows // 2, 128, addr=0)
    src = pto.Tile("vec", "float32", rows // 2, 128, addr=rows * 512 // 2)
    pto.tload(ids, tokens)
    pto.texpands(src, 1)
    flag("MTE2", "V")
    pto.mscatter(table, src, ids)


@pytest.mark.clause("MS-BUDG-01", "A-39", "A-59")
@pytest.mark.parametrize(("rows", "asked", "expected"), [
    (256, None, []), (258, None, ["H-20"]), (258, 216 * KB, []), (432, 216 * KB, []), (434, 216 * KB, ["H-21"]),
    (432, 200 * KB, ["H-21"]),
])  # fmt: skip
def test_a_scatter_has_the_budget_of_a_gather(rows: int, asked: int | None, expected: list[str]) -> None:
    """Source and index up to 128 KB, up to 216 KB where the launch asks for it."""
    makers = {"table": zeros(rows // 2, 128), "tokens": upto(rows // 2, 128), "rows": rows}
    assert kinds(run(placed_scatter, makers, "a5", dyn_ub=asked)) == expected


@pytest.mark.clause("MG-BUDG-11", "MG-BUDG-12")
def test_the_data_cache_shrinks_to_32_kb_as_a_launch_asks_for_more() -> None:
    caches = [A5.budget(dyn_ub=asked * KB).data_cache // KB for asked in (0, 100, 200, 216)]  # type: ignore[union-attr]
    assert caches == [248, 148, 48, 32]


# --- Global memory ---------------------------------------------------------------------------------------------


@pytest.mark.clause("A-65")
@pytest.mark.parametrize("target", NPU)
def test_a_scratch_shares_memory_with_nothing(target: str) -> None:
    for start, expected in ((1024, []), (1023, ["H-32"]), (512, ["H-32"]), (0, ["H-32"])):
        assert kinds(run(scratch.collect, given(scratch.parts(start))["arrays"], target)) == expected, start
    blocks = {**scratch.GIVEN, "scratch": zeros(512, dtype="float16")}
    assert run(scratch.collect, {**blocks, "step": 256}, target, grid=2).ok
    assert kinds(run(scratch.collect, {**blocks, "step": 0}, target, grid=2)) == ["H-32"]


@pto.kernel
def store_then_gather(x, table, tokens, out, at: pto.const = 0):
    """DMA writes eight rows from `at` on, then rows of the same table are gathered."""
    part, ids = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    got = pto.Tile("vec", "float32", 8, 16)
    pto.tload(part, x)
    pto.tload(ids, tokens)
    pto.tstore(table[at : at + 8], part)
    pto.mgather(got, table, ids)
    pto.tstore(out, got)


@pytest.mark.clause("A-70")
@pytest.mark.parametrize(
    ("target", "at", "expected"), [("a5", 0, ["H-47"]), ("a5", 8, []), ("a2a3", 0, []), ("cpu", 0, [])]
)
def test_a_cached_read_of_what_dma_wrote_in_the_same_kernel_may_be_stale(
    target: str, at: int, expected: list[str]
) -> None:
    """A5 reads the table through its cache; a row gather of A2/A3 reads it by DMA."""
    makers = {"x": counted(8, 16), "table": zeros(64, 16), "tokens": upto(8), "out": zeros(8, 16), "at": at}
    assert kinds(run(store_then_gather, makers, target)) == expected


@pto.kernel
def product_then_number(a, b, out, numbers):
    """FIX stores a product; a scalar of it, or of another array, is read through the cache."""
    near = [pto.Tile("mat", "int8", 32, 32) for _ in range(2)]
    left, right = pto.Tile("left", "int8", 32, 32), pto.Tile("right", "int8", 32, 32)
    total = pto.Tile("acc", "int32", 32, 32)
    pto.tload(near[0], a)
    pto.tload(near[1], b)
    pto.tmov(left, near[0])
    pto.tmov(right, near[1])
    pto.tmatmul(total, left, right)
    pto.tstore(out, total)
    first = pto.load_scalar(numbers, 0, 0)
    with pto.when(first > 0):
        pto.tstore(out, total)


@pytest.mark.clause("A-70")
@pytest.mark.parametrize("target", NPU)
def test_a_product_that_fix_stored_may_be_stale_in_the_cache(target: str) -> None:
    sides, out, other = np.ones((32, 32), "int8"), np.zeros((32, 32), "int32"), np.zeros((1, 1), "int32")
    launch = product_then_number[1]
    assert kinds(launch(sides, sides, out, out, target=target, engine="machine")) == ["H-47"]
    assert kinds(launch(sides, sides, out, other, target=target, engine="machine")) == []


@pytest.mark.clause("A-54")
@pytest.mark.parametrize("target", NPU)
def test_an_index_that_nothing_loaded_is_found(target: str) -> None:
    body = (
        "ids = pto.Tile('vec', 'int32', 1, 8)\ngot = pto.Tile('vec', 'float32', 8, 16)\n{}pto.mgather(got, table, ids)"
    )
    makers = {"table": counted(64, 16), "tokens": spread(8, below=64)}
    for load, expected in (("", ["H-42"]), ("pto.tload(ids, tokens)\n", [])):
        kernel = kernel_from(body.format(load), "auto", table=0, tokens=0)
        found = kinds(run(kernel, makers, target))
        assert [kind for kind in found if kind == "H-42"] == expected


# --- Repeated destinations -------------------------------------------------------------------------------------


@pto.kernel
def scattered_in_tile(src, idx, out):
    """Elements of a tile to the rows of an index, over the old contents."""
    s, i, d = (pto.Tile("vec", kind, 8, 8) for kind in ("int32", "int32", "int32"))
    pto.tload(s, src)
    pto.tload(i, idx)
    pto.tload(d, out)
    pto.tscatter(d, s, i)
    pto.tstore(out, d)


@pytest.mark.clause("TS-CONF-01", "TS-HAZ-02", "TS-SEM-01", "TS-SEM-03", "A-15")
@pytest.mark.parametrize("target", ["cpu", *NPU])
def test_repeated_places_get_the_last_writer_and_are_reported(target: str) -> None:
    random = np.random.default_rng(11)
    seen = set()
    for trial in range(20):
        src = random.integers(0, 1000, (8, 8)).astype("int32")
        idx = random.permuted(np.tile(np.arange(8)[:, None], 8), axis=0).astype("int32")
        for _ in range(trial % 3):
            idx[random.integers(0, 8), random.integers(0, 8)] = random.integers(0, 8)
        out = random.integers(-9, 0, (8, 8)).astype("int32")
        expected, places = out.copy(), []
        for i, j in product(range(8), range(8)):
            expected[idx[i, j], j] = src[i, j]
            places.append((idx[i, j], j))
        repeats = len(set(places)) < len(places)
        report = scattered_in_tile[1](src, idx, out, target=target, engine="machine")
        found = [(f.kind, f.level) for f in report.findings if f.level != "note"]
        assert found == ([("H-17", "hazard")] if repeats else [])
        assert (out == expected).all()
        seen.add(repeats)
    assert seen == {True, False}


@pto.kernel
def update(table, rows, tokens, atomic: pto.const = "none", conflict: pto.const = "default"):
    """Every block scatters its own eight rows."""
    ids, values = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "int32", 8, 16)
    first = pto.block_idx() * 8
    pto.tload(ids, tokens[first : first + 8])
    pto.tload(values, rows[first : first + 8])
    pto.mscatter(table, values, ids, coalesce="row", atomic=atomic, conflict=conflict)


@pytest.mark.clause("MS-CONF-04", "MS-CONF-02", "MS-CONF-01")
@pytest.mark.parametrize("target", ["cpu", *NPU])
def test_writes_of_calls_and_blocks_to_one_cell_are_illegal_without_an_atomic(target: str) -> None:
    apart, within, across = np.arange(16), np.arange(16), np.arange(16)
    within[5], across[12] = 2, 2
    for tokens, kind in ((apart, None), (within, "H-14"), (across, "H-16")):
        for atomic, conflict in (("none", "default"), ("none", "last"), ("add", "default")):
            makers = {"table": zeros(64, 16, dtype="int32"), "rows": counted(16, 16, dtype="int32"),
                      "tokens": tokens.astype("int32"), "atomic": atomic, "conflict": conflict}  # fmt: skip
            illegal = target != "cpu" and atomic == "none" and kind is not None
            if kind == "H-14" and conflict == "last":
                illegal = False  # the last lane of one call is asked for
            found = [k for k in kinds(run(update, makers, target, grid=2)) if k in ("H-14", "H-16")]
            assert found == ([kind] if illegal else []), (kind, atomic, conflict)


@pytest.mark.clause("A-14", "A-66", "MG-COST-01", "MS-CONF-01")
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_cpu_gives_the_last_writer_of_row_major_order_with_any_number_of_threads(engine: str, threads: int) -> None:
    random = np.random.default_rng(threads)
    tokens = random.integers(0, 5, 400 * 8).astype("int32")
    rows = random.integers(0, 10**6, (400 * 8, 16)).astype("int32")
    table, expected = np.zeros((64, 16), "int32"), np.zeros((64, 16), "int32")
    for token, row in zip(tokens, rows, strict=True):
        expected[token] = row
    update[400](table, rows, tokens, target="cpu", engine=engine, threads=threads)
    assert (table == expected).all()
