"""Programs of recordings with many different blocks, and with names that ptokit uses as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from ptokit.cxx.alike import alike
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.cxx.program import programs
from ptokit.cxx.recording import (
    LaunchArgument,
    RecordedArray,
    RecordedBlock,
    RecordedCall,
    RecordedFrame,
    RecordedLaunch,
    RecordedScalar,
    RecordedText,
    RecordedTile,
    Recording,
)
from ptokit.cxx.uses import outside as uses_outside
from ptokit.finding import VerifyError
from ptokit.isa.dtype import dtype
from ptokit.program import ir
from ptokit.program.expr import BLOCK_IDX, Var, evaluate

FILE = "kernel.cpp"
PIPES = ("V", "MTE2", "MTE3", "ALL", "S", "M", "MTE1", "FIX")


def recording(blocks: Sequence[Sequence[int]]) -> Recording:
    """Blocks of barriers, each on a line of its own: pipes by number."""
    sites = [(RecordedFrame(FILE, number + 1, 1, "k"),) for number in range(len(PIPES))]
    calls = [RecordedCall("pipe_barrier", (RecordedText(f"PIPE_{p}"),), (), k) for k, p in enumerate(PIPES)]
    made = tuple(RecordedBlock(k, "vector", 0, np.array(each, np.uint32)) for k, each in enumerate(blocks))
    return Recording("a2a3", sites, calls, (RecordedLaunch("k", len(blocks), (), made),))


def executed(body: ir.Block, values: dict[Var, int]) -> Iterator[str]:
    """The pipes of the barriers that a block executes."""
    for stmt in body:
        match stmt:
            case ir.Branch():
                yield from executed(stmt.then if evaluate(stmt.condition, values) else stmt.otherwise, values)
            case ir.Loop():
                for k in range(evaluate(stmt.start, values), evaluate(stmt.stop, values)):
                    yield from executed(stmt.body, {**values, stmt.var: k})
            case ir.Barrier():
                yield stmt.pipe
            case _:
                raise AssertionError(stmt)


def scattered(grid: int, kinds: int) -> list[list[int]]:
    dice = Random(grid)
    return [[number % len(PIPES)] + [number // len(PIPES)] * 2 for number in dice.choices(range(kinds), k=grid)]


GRIDS = {
    "all alike": [[0, 1]] * 2000,
    "all different": [[k % 8, k // 8 % 8, k // 64 % 8, k // 512] for k in range(1500)],
    "two kinds in no order": scattered(2500, 2),
    "many kinds in no order": scattered(600, 60),
    "every third": [[0] if k % 3 else [1] for k in range(50)],
    "the first and the last": [[0] if k in (0, 49) else [1] for k in range(50)],
    "some do nothing": [[0] * (k % 4) for k in range(9)],
    "one": [[0, 1, 2]],
}


@pytest.mark.parametrize("name", GRIDS)
def test_every_block_does_what_it_did(name: str) -> None:
    blocks = GRIDS[name]
    (program,) = programs(recording(blocks))
    for k in {*range(0, len(blocks), 1 + len(blocks) // 40), len(blocks) - 1}:
        assert [*executed(program.body, {BLOCK_IDX: k})] == [PIPES[number] for number in blocks[k]]


def vector_tile(address: int, rows: int) -> RecordedTile:
    return RecordedTile(0, address, "vec", "float32", rows, 64, rows, 64, "row_major", "none_box", 512, "null")


def test_a_sum_of_columns_is_modelled_in_any_order() -> None:
    tiles = vector_tile(0, 1), vector_tile(0x1000, 8), vector_tile(0x2000, 4)
    calls = [RecordedCall("tcolsum", (*tiles, RecordedScalar("bool", binary)), ()) for binary in (0, 1)]
    blocks = (RecordedBlock(0, "vector", 0, np.array([0, 1], np.uint32)),)
    sites = [(RecordedFrame(FILE, 1, 1, "k"),)]
    (program,) = programs(Recording("a2a3", sites, calls, (RecordedLaunch("k", 1, (), blocks),)))
    found = [stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.Instr)]
    assert found
    assert all(stmt.opaque_form == "" and stmt.workspace is not None and len(stmt.operands) == 2 for stmt in found)


def test_a_factor_of_an_accumulator_has_64_bits() -> None:
    acc = RecordedTile(0, 0, "acc", "int32", 16, 16, 16, 16, "col_major", "row_major", 1024, "null")
    mat = RecordedTile(1, 0, "mat", "int8", 16, 32, 16, 16, "col_major", "row_major", 512, "null")
    word = 1 << 46 | 0x3F800000
    calls = [RecordedCall("tmov", (mat, acc, RecordedScalar("uint64", word)))]
    blocks = (RecordedBlock(0, "cube", 0, np.array([0], np.uint32)),)
    (program,) = programs(
        Recording("a2a3", [(RecordedFrame(FILE, 1, 1, "k"),)], calls, (RecordedLaunch("k", 1, (), blocks),))
    )
    (found,) = [stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.Instr)]
    assert found.opaque_form == "" and found.operands[-1] == ir.Constant(dtype("uint64"), word)


@pytest.mark.parametrize(("offset", "stride", "outside"),
                         [(63, -1, 0), (62, -1, 1), (0, 1, 0), (1, 1, 1), (0, -1, 1)])  # fmt: skip
def test_arrays_that_are_walked_backwards_have_ends(offset: int, stride: int, outside: int) -> None:
    view = RecordedArray(0, 4 * offset, "float32", (1, 1, 1, 1, 64), (1, 1, 1, 1, stride), "ND", (False,) * 10)
    blocks = (RecordedBlock(0, "vector", 0, np.array([0], np.uint32)),)
    launch = RecordedLaunch("k", 1, (LaunchArgument("x", "float32", (64,)),), blocks)
    found = uses_outside(launch, alike([RecordedCall("tload", (vector_tile(0, 1), view))]), lambda _: None)
    assert len(found) == outside


SOURCE = """\
for (int i = 0; i < 2; ++i) pipe_barrier(PIPE_V);
for (int i_2 = 0; i_2 < 3; ++i_2) {
    pipe_barrier(PIPE_ALL);
    for (int i = 0; i < 4; ++i) TLOAD(tile, x);
}
for (int block_idx = 0; block_idx < 5; ++block_idx) TLOAD(tile, x);
"""


def test_loop_variables_and_views_have_names_of_their_own() -> None:
    """Loops count `i` and `i_2`, one even `block_idx`; an array is called as the first view of another would be."""
    sites = [(RecordedFrame(FILE, line, 40, "k"),) for line in (1, 3, 4, 6)]
    tile = vector_tile(0, 1)
    calls = [RecordedCall("pipe_barrier", (RecordedText("PIPE_V"),), (), k) for k in (0, 1)]
    made = [0, 0]

    def load(argument: int, row: int, site: int) -> None:
        view = RecordedArray(argument, row * 256, "float32", (1, 1, 1, 1, 64), (64,) * 4 + (1,), "ND", (False,) * 10)
        made.append(len(calls))
        calls.append(RecordedCall("tload", (tile, view), (), site))

    for outer in range(3):
        made.append(1)
        for inner in range(4):
            load(0, outer * 4 + inner, 2)
    for number in range(5):
        load(1, number, 3)
    arguments = (LaunchArgument("x", "uint8", (64 * 256,)), LaunchArgument("x_1", "float32", (64, 64)))
    blocks = tuple(RecordedBlock(k, "vector", 0, np.array(made, np.uint32)) for k in range(2))
    whole = Recording("a2a3", sites, calls, (RecordedLaunch("k", 2, arguments, blocks),))
    (program,) = programs(whole, SourceTexts(given={FILE: SOURCE}))
    assert [str(var) for var in ir.definitions(program.body)] == ["i", "i_2", "i_3", "block_idx_2"]
    assert len(program.tensors) == len(program.arguments) == 3


MERGED = """\
for (int row = 0; row < 3; ++row)
    for (int col = 0; col < 2; ++col) pipe_barrier(PIPE_V);
for (int i = 0; i < 4; ++i) {
    if (i != 0) pipe_barrier(PIPE_MTE2);
    pipe_barrier(PIPE_MTE3);
}
for (int outer = 0; outer < 3; ++outer) {
    pipe_barrier(PIPE_S);
    for (int inner = 0; inner < 2; ++inner) pipe_barrier(PIPE_M);
}
"""


def test_loops_that_do_not_count_as_the_source_have_a_name_of_their_own() -> None:
    """Two loops are one in the recording; the first iteration of another one differs."""
    whole = recording([[0] * 6 + [2] + [1, 2] * 3 + [4, 5, 5] * 3])
    lines = {0: 2, 1: 4, 2: 5, 4: 8, 5: 9}
    sites = [(RecordedFrame(FILE, lines.get(number, 20), 45, "k"),) for number in range(len(PIPES))]
    (program,) = programs(replace(whole, sites=sites), SourceTexts(given={FILE: MERGED}))
    names = [str(var) for var in ir.definitions(program.body)]
    assert names == ["iteration", "iteration_2", "outer", "inner"]


def test_tiles_of_no_known_layout_are_left_out() -> None:
    tiles = replace(vector_tile(0, 1), slayout="layout 16"), vector_tile(0x1000, 1), vector_tile(0x2000, 1)
    whole = replace(recording([[0]]), calls=[RecordedCall("tadd", tiles)])
    (program,) = programs(whole)
    (call,) = (stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.Instr))
    assert len(call.operands) == 2
    assert call.opaque_form


def test_a_pointer_that_is_not_aligned_is_named() -> None:
    view = RecordedArray(0, 2, "float32", (1, 1, 1, 1, 8), (1,) * 5, "ND", (False,) * 10)
    whole = replace(recording([[0]]), calls=[RecordedCall("tload", (vector_tile(0, 1), view))])
    launch = replace(whole.launches[0], arguments=(LaunchArgument("x", "float32", (64,)),))
    with pytest.raises(VerifyError, match="not aligned to float32"):
        programs(replace(whole, launches=(launch,)))
