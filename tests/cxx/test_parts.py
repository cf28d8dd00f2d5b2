"""Checks of launches with very many calls take a part of them; runs never do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.cxx.call_shapes import foldable
from ptokit.finding import OPAQUE, Finding
from ptokit.lang import recorded
from ptokit.lang.launch import mode_of
from ptokit.lang.recorded import CppKernel, load_entries, part_of
from ptokit.machine.report import MachineOptions

SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int N = 64;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
using Part = Tile<TileType::Vec, float, 1, N>;
#define ORDER(A, B) set_flag(A, B, EVENT_ID0); wait_flag(A, B, EVENT_ID0)

// block b adds 1, then doubles and adds 1 b times
extern "C" __global__ AICORE void uneven(__gm__ float* x, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0x0);
    Row from(x + get_block_idx() * N), to(out + get_block_idx() * N);
    TLOAD(a, from);
    ORDER(PIPE_MTE2, PIPE_V);
    TADDS(a, a, 1.0f);
    for (int i = 0; i < get_block_idx(); ++i) {
        pipe_barrier(PIPE_V);
        TMULS(a, a, 2.0f);
        pipe_barrier(PIPE_V);
        TADDS(a, a, 1.0f);
    }
    ORDER(PIPE_V, PIPE_MTE3);
    TSTORE(to, a);
}

extern "C" __global__ AICORE void even(__gm__ float* x, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0x0);
    for (int i = 0; i < 100; ++i) {
        Row from(x + get_block_idx() * N), to(out + get_block_idx() * N);
        TLOAD(a, from);
        ORDER(PIPE_MTE2, PIPE_MTE3);
        TSTORE(to, a);
        ORDER(PIPE_MTE3, PIPE_MTE2);
    }
}

// a tile that is assigned a new one keeps its address
extern "C" __global__ AICORE void renewed(__gm__ float* x, __gm__ float* out) {
    using Some = Tile<TileType::Vec, float, 1, N, BLayout::RowMajor, 1, DYNAMIC>;
    Some a(N), b(N);
    TASSIGN(a, 0x100);
    TASSIGN(b, 0x400);
    a = Some(N / 2);
    Row from(x), to(out);
    TLOAD(a, from);
    a = b;
    TLOAD(a, from);
    ORDER(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, a);
}

struct Window { __gm__ float* data[4]; };
extern "C" __global__ AICORE void through(__gm__ Window* window, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0x0);
    out[0] = window->data[2][0];
}

struct Grid { int rows = 1; };
struct Sizes { long cols; Grid grid; float* x; };
void launch_sizes(const Sizes& sizes, float* out, void* stream) {
    even<<<sizes.grid.rows, nullptr, stream>>>(sizes.x, out);
}

class Hidden {
    long rows = 1, cols = 1;
};
void launch_hidden(Hidden, float* x, float* out, void* stream) { even<<<1, nullptr, stream>>>(x, out); }

// rows at offsets that are no multiples of a row: each overlaps the next one
extern "C" __global__ AICORE void sliding(__gm__ float* x, __gm__ float* out) {
    using Two = GlobalTensor<float, Shape<1, 1, 1, 2, N>, Stride<1, 1, 1, N, 1>>;
    Tile<TileType::Vec, float, 2, N> a;
    TASSIGN(a, 0x0);
    for (int i = 0; i < 5; ++i) {
        Two from(x + i * 48), to(out + i * 2 * N);
        TLOAD(a, from);
        ORDER(PIPE_MTE2, PIPE_MTE3);
        TSTORE(to, a);
        ORDER(PIPE_MTE3, PIPE_MTE2);
    }
}

extern "C" void nowhere(float* x);
extern "C" void launch_lacking(float* x, float* out, int n, void* stream) {
    if (n > 1) nowhere(x);
    even<<<1, nullptr, stream>>>(x, out);
}
"""
BLOCKS = 5


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], CppKernel]:
    path = tmp_path_factory.mktemp("parts") / "parts.cpp"
    path.write_text(SOURCE)
    first = load_entries(str(path), "a5")[0]
    entries = {entry.name: entry for entry in first.source.build("a5").entries}
    return lambda name, grid: CppKernel(first.source, entries[name], "a5", grid)


def arrays(blocks: int = BLOCKS) -> dict[str, Any]:
    return {"x": np.arange(64 * blocks, dtype="float32"), "out": np.zeros(64 * blocks, "float32")}


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made = x.copy()
    for block, row in enumerate(made.reshape(-1, 64)):
        row += 1
        for _ in range(block):
            row *= 2
            row += 1
    return made


def partial_remarks(findings: tuple[Finding, ...]) -> list[str]:
    return [each.message for each in findings if each.rule == OPAQUE and "blocks" in each.message]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs for checks have at most 30 calls of blocks that are unlike."""
    monkeypatch.setattr(recorded, "foldable", partial(foldable, most=30))


def test_unlike_blocks_are_left_out_from_the_middle(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("uneven", BLOCKS)
    recording = kernel.recorded(kernel.bind((), arrays()), mode_of("a5")).recording
    (launch,) = recording.launches
    calls = {block.index: len(block.calls) for block in launch.blocks}
    assert foldable(recording, launch, sum(calls.values())) is launch
    for most in (1, 30, 40):
        kept = {block.index for block in foldable(recording, launch, most).blocks}
        assert 0 in kept
        assert most == 1 or BLOCKS - 1 in kept
        assert len(kept) < BLOCKS
        assert most == 1 or sum(calls[index] for index in kept) <= most + len(kept) * 2  # idle calls count less


def test_alike_blocks_are_all_kept(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("even", BLOCKS)
    recording = kernel.recorded(kernel.bind((), arrays()), mode_of("a5")).recording
    assert foldable(recording, recording.launches[0], 700) is recording.launches[0]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_a_run_computes_all_blocks(load: Callable[[str, int], CppKernel], engine: str) -> None:
    kernel, given = load("uneven", BLOCKS), arrays()
    assert partial_remarks(pto.check(kernel, **given, grid=BLOCKS, target="a5").findings)
    run = kernel[BLOCKS](**given, target="a5", engine=engine)
    np.testing.assert_array_equal(given["out"], expected(given["x"]))
    assert not partial_remarks(run.findings)


@pytest.mark.usefixtures("few")
def test_a_check_says_what_it_leaves_out(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("uneven", BLOCKS)
    enough = kernel[BLOCKS](**arrays(), target="a5", engine="machine", options=MachineOptions(blocks="enough"))
    (remark,) = partial_remarks(enough.findings)
    assert "of 5 blocks" in remark
    everything = MachineOptions(blocks="all")
    whole = pto.check(kernel, **arrays(), grid=BLOCKS, target="a5", engine="machine", options=everything)
    assert not partial_remarks(whole.findings)


@pytest.mark.usefixtures("few")
def test_the_program_that_is_converted_is_whole(load: Callable[[str, int], CppKernel]) -> None:
    kernel, given = load("uneven", BLOCKS), arrays()
    arguments, mode = kernel.bind((), given), mode_of("a5")
    assert kernel.recorded(arguments, mode, enough=True).is_part
    assert not kernel.recorded(arguments, mode).is_part
    assert kernel.trace(arguments, mode) is kernel.recorded(arguments, mode).traced[0]


def test_a_part_of_a_launch_has_its_ends_and_fewer_rounds(
    load: Callable[[str, int], CppKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load("even", BLOCKS)
    made = kernel.recorded(kernel.bind((), arrays()), mode_of("a5"))
    (launch,), (traced,) = made.recording.launches, made.traced
    assert part_of(launch, traced, 10**6) is None
    assert part_of(launch, traced, 1300) is None  # loops are run up to their period
    monkeypatch.setattr(recorded, "gaps", lambda *_: {})
    some = part_of(launch, traced, 1300)  # about two blocks
    assert some is not None
    assert (some.blocks, some.is_short, some.traced) == ((0, BLOCKS - 1), False, traced)
    assert some.calls == sum(len(block.calls) for block in launch.blocks)
    short = part_of(launch, traced, 100)
    assert short is not None
    assert short.is_short
    assert 0 in short.blocks
    assert "without most rounds" in short.finding(BLOCKS).message


def test_a_tile_that_is_assigned_another_keeps_its_address_if_that_has_none(
    load: Callable[[str, int], CppKernel],
) -> None:
    kernel = load("renewed", 1)
    program = kernel.trace(kernel.bind((), arrays(1)), mode_of("a5")).program
    assert {address for tile in program.tiles.values() for address in tile.addresses} == {0x100, 0x400}


def test_uses_at_a_step_that_is_no_stride_are_one_argument(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("sliding", 1)
    x, out = np.arange(4 * 48 + 128, dtype="float32"), np.zeros(10 * 64, "float32")
    program = kernel.trace(kernel.bind((), {"x": x, "out": out}), mode_of("a5")).program
    assert [each.view_of for each in program.tensors.values() if each.view_of] == ["x", "out"]
    kernel[1](x, out, target="a5")
    np.testing.assert_array_equal(out, np.concatenate([x[48 * i : 48 * i + 128] for i in range(5)]))


def refusal(kernel: CppKernel, **values: Any) -> Finding:
    with pytest.raises(pto.VerifyError) as refused:
        kernel[1](**values, target="a5")
    (found,) = refused.value.findings
    assert found.rule == "KN-20"
    return found


def test_a_null_pointer_in_a_structure_says_what_to_write(load: Callable[[str, int], CppKernel]) -> None:
    found = refusal(load("through", 1), window=np.zeros(64, "uint8"), out=np.zeros(64, "float32"))
    assert "(address 0x0)" in found.message
    assert "fills it with its own parameters" in found.fix


def test_a_structure_is_given_by_its_members(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("launch_sizes", BLOCKS)
    assert [*kernel.parameters] == ["sizes.cols", "sizes.grid.rows", "sizes.x", "out"]
    given = arrays()
    kernel[1](target="a5", **{"sizes.cols": 64, "sizes.grid.rows": BLOCKS, "sizes.x": given["x"]}, out=given["out"])
    np.testing.assert_array_equal(given["out"], given["x"])


def test_a_structure_with_private_members_is_no_argument(load: Callable[[str, int], CppKernel]) -> None:
    found = refusal(load("launch_hidden", 1), argument0=1, **arrays())
    assert "parameter 1 of launch_hidden is a structure" in found.message


def test_a_function_that_is_defined_nowhere_matters_when_it_is_called(load: Callable[[str, int], CppKernel]) -> None:
    kernel, given = load("launch_lacking", 1), arrays(1)
    kernel[1](**given, n=1, target="a5")
    np.testing.assert_array_equal(given["out"], given["x"])
    found = refusal(kernel, **arrays(1), n=2)
    assert found.message == "the kernel calls nowhere, which no source defines"
    assert found.level == "unmodelled"


def test_a_launch_without_calls_is_not_accepted(load: Callable[[str, int], CppKernel]) -> None:
    kernel = load("launch_sizes", BLOCKS)
    given = {"sizes.cols": 64, "sizes.grid.rows": 0, "sizes.x": arrays()["x"], "out": arrays()["out"]}
    assert [each for each in pto.check(kernel, target="a5", **given).findings if "makes no call" in each.message]
    given["sizes.grid.rows"] = 1
    assert not [each for each in pto.check(kernel, target="a5", **given).findings if "makes no call" in each.message]
