"""Functions of SIMT threads: values, bounds, order, and conflicts between threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.finding import VerifyError
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int LANES = 32, WARPS = 4, N = LANES * WARPS;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
using Part = Tile<TileType::Vec, float, 1, N>;

AICORE inline void order(pipe_t from, pipe_t to) {
    set_flag(from, to, EVENT_ID0);
    wait_flag(from, to, EVENT_ID0);
}

// out = x turned around, by way of UB; without a barrier, threads read what others have not written yet
template <bool WAITS>
__simt_vf__ AICORE LAUNCH_BOUND(128) void turn(__gm__ float* x, __gm__ float* out) {
    __ubuf__ float* scratch = (__ubuf__ float*)0x100;
    const uint32_t me = __cce_simt_get_TID_Y() * LANES + __cce_simt_get_TID_X();
    scratch[me] = x[me];  // writes
    if constexpr (WAITS) __sync_workitems();
    out[me] = scratch[N - 1 - me];  // reads
}

// out[w] = the sum of row w of x; lanes behind the `few`-th one leave at once
__simt_vf__ AICORE LAUNCH_BOUND(128) void sum(__gm__ float* x, __gm__ float* out, uint32_t few) {
    if (threadIdx.x >= few) return;
    const float total = __builtin_cce_redux_add_f32(x[threadIdx.y * LANES + threadIdx.x]);
    if (threadIdx.x == 0) out[threadIdx.y] = total;
}

// how often each value is in x: each thread has some
template <bool IS_ATOMIC>
__simt_vf__ AICORE LAUNCH_BOUND(128) void count(__gm__ int32_t* x, __gm__ int32_t* out, uint32_t each) {
    for (uint32_t i = 0; i < each; ++i) {
        const int32_t value = x[threadIdx.x * each + i];
        if constexpr (IS_ATOMIC) atomicAdd(out + value, 1);
        else out[value] += 1;  // adds
    }
}

// all threads store to one place: the same, or their numbers
template <bool SAME>
__simt_vf__ AICORE LAUNCH_BOUND(128) void meet(__gm__ float* out) {
    *out = SAME ? 5.0f : threadIdx.x;  // meets
}

// one thread clears what all of them add to
template <bool WAITS>
__simt_vf__ AICORE LAUNCH_BOUND(128) void clear(__gm__ int32_t* out) {
    if (threadIdx.x == 0) *out = 7;  // clears
    if constexpr (WAITS) __sync_workitems();
    atomicAdd(out, 1);  // adds to it
}

// rows of a table by indices
__simt_vf__ AICORE LAUNCH_BOUND(128) void rows(__gm__ float* table, __gm__ int32_t* at, __gm__ float* out) {
    out[threadIdx.y * LANES + threadIdx.x] = table[at[threadIdx.y] * LANES + threadIdx.x];  // looks up
}

__global__ AICORE void turned(__gm__ float* x, __gm__ float* out) {
    cce::async_invoke<turn<true>>(cce::dim3{LANES, WARPS}, x, out);
}
__global__ AICORE void unordered(__gm__ float* x, __gm__ float* out) {
    cce::async_invoke<turn<false>>(cce::dim3{LANES, WARPS}, x, out);
}
__global__ AICORE void summed(__gm__ float* x, __gm__ float* out, uint32_t few) {
    cce::async_invoke<sum>(cce::dim3{LANES, WARPS}, x, out, few);
}
__global__ AICORE void counted(__gm__ int32_t* x, __gm__ int32_t* out) {
    cce::async_invoke<count<true>>(cce::dim3{N}, x, out, 3u);
}
__global__ AICORE void miscounted(__gm__ int32_t* x, __gm__ int32_t* out) {
    cce::async_invoke<count<false>>(cce::dim3{N}, x, out, 3u);
}
__global__ AICORE void equal(__gm__ float* out) { cce::async_invoke<meet<true>>(cce::dim3{N}, out); }
__global__ AICORE void apart(__gm__ float* out) { cce::async_invoke<meet<false>>(cce::dim3{N}, out); }
__global__ AICORE void cleared(__gm__ int32_t* out) { cce::async_invoke<clear<true>>(cce::dim3{N}, out); }
__global__ AICORE void clearing(__gm__ int32_t* out) { cce::async_invoke<clear<false>>(cce::dim3{N}, out); }
__global__ AICORE void looked_up(__gm__ float* table, __gm__ int32_t* at, __gm__ float* out) {
    cce::async_invoke<rows>(cce::dim3{LANES, WARPS}, table, at, out);
}
__global__ AICORE void many(__gm__ float* out) { cce::async_invoke<meet<true>>(cce::dim3{LANES, 1000}, out); }

// between tiles: x + 1 is turned around, and 1 is added
__simt_vf__ AICORE LAUNCH_BOUND(128) void turn_tile(__ubuf__ float* from, __ubuf__ float* to) {
    to[threadIdx.x] = from[N - 1 - threadIdx.x];  // turns
}
template <bool WAITS>
AICORE inline void between(__gm__ float* x, __gm__ float* out) {
    Part a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x1000);
    Row from(x), to(out);
    TLOAD(a, from);
    if constexpr (WAITS) order(PIPE_MTE2, PIPE_V);
    cce::async_invoke<turn_tile>(cce::dim3{N}, a.data(), b.data());
    TADDS(b, b, 1.0f);
    order(PIPE_V, PIPE_MTE3);
    TSTORE(to, b);
    pipe_barrier(PIPE_ALL);
}
__global__ AICORE void tiles(__gm__ float* x, __gm__ float* out) { between<true>(x, out); }
__global__ AICORE void early(__gm__ float* x, __gm__ float* out) { between<false>(x, out); }
"""
N = 128


def line(text: str) -> int:
    return next(number for number, each in enumerate(SOURCE.splitlines(), 1) if text in each)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CppKernel]:
    file = tmp_path_factory.mktemp("threads") / "threads.cpp"
    file.write_text(SOURCE)
    first = pto.load(file, "turned", target="a5")
    assert isinstance(first, CppKernel)
    return {entry.name: CppKernel(first.source, entry, "a5") for entry in first.source.build("a5").entries}


def launched(kernel: CppKernel, engine: str = "machine", **given: Any) -> list[tuple[str, str, int]]:
    """What a launch finds: level, rule and line."""
    run: Any = kernel[1](**given, target="a5", engine=engine)
    return [(each.level, each.rule, each.where.line) for each in run.findings]


@pytest.mark.parametrize("engine", ["machine", "auto"])
def test_threads_see_what_others_wrote_before_a_barrier(kernels: dict[str, CppKernel], engine: str) -> None:
    x, out = np.random.default_rng(1).standard_normal(N).astype("float32"), np.zeros(N, "float32")
    assert not launched(kernels["turned"], engine, x=x, out=out)
    np.testing.assert_array_equal(out, x[::-1])


def test_without_a_barrier_threads_are_in_conflict(kernels: dict[str, CppKernel]) -> None:
    found = launched(kernels["unordered"], x=np.ones(N, "float32"), out=np.zeros(N, "float32"))
    places = {(level, rule, at) for level, rule, at in found if rule == "KN-13"}
    assert places == {("error", "KN-13", line("// writes")), ("error", "KN-13", line("// reads"))}


@pytest.mark.parametrize("few", [32, 7, 1])
def test_lanes_of_a_warp_that_are_left_are_added(kernels: dict[str, CppKernel], few: int) -> None:
    x, out = np.arange(N, dtype="float32"), np.zeros(4, "float32")
    assert not launched(kernels["summed"], x=x, out=out, few=few)
    np.testing.assert_array_equal(out, x.reshape(4, 32)[:, :few].sum(axis=1))


def test_atomic_additions_are_no_conflict(kernels: dict[str, CppKernel]) -> None:
    x = np.random.default_rng(2).integers(0, 9, 3 * N).astype("int32")
    out = np.zeros(9, "int32")
    assert not launched(kernels["counted"], x=x, out=out)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=9))
    found = launched(kernels["miscounted"], x=x, out=out)
    assert {("error", "KN-13", line("// adds"))} == {each for each in found if each[1] == "KN-13"}


def test_a_plain_store_is_in_conflict_with_atomic_ones_of_others(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros(1, "int32")
    assert not launched(kernels["cleared"], out=out)
    assert out[0] == 7 + N
    found = launched(kernels["clearing"], out=np.zeros(1, "int32"))
    assert set(found) == {("error", "KN-13", line("// adds to it"))}


def test_equal_stores_to_one_place_are_no_conflict(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros(1, "float32")
    assert not launched(kernels["equal"], out=out)
    assert out[0] == 5
    assert launched(kernels["apart"], out=out) == [("error", "KN-13", line("// meets"))]


def test_indices_reach_rows_and_not_beyond(kernels: dict[str, CppKernel]) -> None:
    table, at = np.arange(10 * 32, dtype="float32"), np.array([7, 0, 9, 7], "int32")
    out = np.zeros(N, "float32")
    assert not launched(kernels["looked_up"], table=table, at=at, out=out)
    np.testing.assert_array_equal(out.reshape(4, 32), table.reshape(10, 32)[at])
    at[2] = 10
    with pytest.raises(VerifyError) as refusal:
        launched(kernels["looked_up"], table=table, at=at, out=out)
    (finding,) = refusal.value.findings
    assert (finding.rule, finding.operand) == ("KN-10", "table")
    assert finding.where is not None and finding.where.line == line("// looks up")


def test_threads_are_ordered_as_vector_instructions(kernels: dict[str, CppKernel]) -> None:
    x, out = np.random.default_rng(3).standard_normal(N).astype("float32"), np.zeros(N, "float32")
    assert not launched(kernels["tiles"], x=x, out=out)
    np.testing.assert_array_equal(out, x[::-1] + 1)
    found = launched(kernels["early"], x=x, out=out)
    assert found == [("error", "KN-13", line("// turns"))]


def test_too_many_threads_are_refused(kernels: dict[str, CppKernel]) -> None:
    with pytest.raises(VerifyError, match="more than 2,048 threads"):
        launched(kernels["many"], out=np.zeros(1, "float32"))


def test_the_target_without_threads_refuses_them(tmp_path: Path) -> None:
    file = tmp_path / "threads.cpp"
    file.write_text(SOURCE)
    kernel: Any = pto.load(file, "equal", target="a2a3")
    with pytest.raises(VerifyError, match="the target has no functions of threads") as refusal:
        kernel[1](np.zeros(1, "float32"), target="a2a3")
    (finding,) = refusal.value.findings
    assert finding.where is not None and finding.where.line == line("void equal")
