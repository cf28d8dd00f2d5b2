"""Values on demand: loops, branches and launches that depend on what instructions wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = """\
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int N = 64;
template <typename T>
using Row = GlobalTensor<T, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
template <typename T>
using Part = Tile<TileType::Vec, T, 1, N>;
using Column = Tile<TileType::Vec, float, 8, 1, BLayout::ColMajor, 1, 1>;

AICORE inline void order(pipe_t from, pipe_t to) {
    set_flag(from, to, EVENT_ID0);
    wait_flag(from, to, EVENT_ID0);
}

// out = x * 2^count[0], by additions; count[1] is not used
__global__ AICORE void doubled(__gm__ float* x, __gm__ int32_t* count, __gm__ float* out) {
    Part<float> a;
    Part<int32_t> n;
    TASSIGN(a, 0x0);
    TASSIGN(n, 0x400);
    Row<float> from(x + get_block_idx() * N), to(out + get_block_idx() * N);
    Row<int32_t> counts(count);
    TLOAD(a, from);
    TLOAD(n, counts);
    order(PIPE_MTE2, PIPE_V);
    order(PIPE_MTE2, PIPE_S);
    int left = n.GetValue(0);
    while (left > 0) {
        TADD(a, a, a);
        --left;
    }
    order(PIPE_V, PIPE_MTE3);
    TSTORE(to, a);
}

// out = x + 1 if the largest x is above 10, else x - 1
__global__ AICORE void stepped(__gm__ float* x, __gm__ float* out) {
    Part<float> a, tmp;
    Column most;
    TASSIGN(a, 0x0);
    TASSIGN(tmp, 0x400);
    TASSIGN(most, 0x800);
    Row<float> from(x), to(out);
    TLOAD(a, from);
    order(PIPE_MTE2, PIPE_V);
    TROWMAX(most, a, tmp);
    order(PIPE_V, PIPE_S);
    if (most.GetValue(0) > 10.0f) TADDS(a, a, 1.0f);
    else TADDS(a, a, -1.0f);
    order(PIPE_V, PIPE_MTE3);
    TSTORE(to, a);
}

// how often x can be halved until its first element is below 1: each step reads what the last one wrote
__global__ AICORE void halved(__gm__ float* x, __gm__ float* out) {
    Part<float> a;
    TASSIGN(a, 0x0);
    Row<float> from(x), to(out);
    TLOAD(a, from);
    order(PIPE_MTE2, PIPE_V);
    order(PIPE_MTE2, PIPE_S);
    while (a.GetValue(0) >= 1.0f) {
        order(PIPE_S, PIPE_V);
        TMULS(a, a, 0.5f);
        order(PIPE_V, PIPE_S);
    }
    order(PIPE_V, PIPE_MTE3);
    TSTORE(to, a);
}

// no wait between the load and the scalar read
__global__ AICORE void unordered(__gm__ int32_t* count, __gm__ int32_t* out) {
    Part<int32_t> n;
    TASSIGN(n, 0x0);
    Row<int32_t> counts(count), to(out);
    TLOAD(n, counts);
    if (n.GetValue(0) > 3) pipe_barrier(PIPE_ALL);
    order(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, n);
    pipe_barrier(PIPE_ALL);
}

// a plain pointer reads what the same launch stored: ORDERED or not
template <bool ORDERED>
AICORE inline void stored(__gm__ int32_t* count, __gm__ int32_t* out) {
    Part<int32_t> n;
    TASSIGN(n, 0x0);
    Row<int32_t> counts(count), to(out), behind(out + N);
    TLOAD(n, counts);
    order(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, n);
    if constexpr (ORDERED) order(PIPE_MTE3, PIPE_S);
    if constexpr (ORDERED) dcci(out, SINGLE_CACHE_LINE);
    for (int i = 0; i < out[1]; ++i) {
        pipe_barrier(PIPE_ALL);
        order(PIPE_MTE2, PIPE_V);
        TADDS(n, n, 1);
        order(PIPE_V, PIPE_MTE3);
    }
    TSTORE(behind, n);
    pipe_barrier(PIPE_ALL);
}
__global__ AICORE void stored_in_order(__gm__ int32_t* count, __gm__ int32_t* out) { stored<true>(count, out); }
__global__ AICORE void stored_without(__gm__ int32_t* count, __gm__ int32_t* out) { stored<false>(count, out); }

// a value of an instruction that is known by its effects only
__global__ AICORE void opaque(__gm__ float* x, __gm__ float* out) {
    Part<float> a, b, c;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x400);
    TASSIGN(c, 0x800);
    Row<float> from(x), to(out);
    TLOAD(a, from);
    order(PIPE_MTE2, PIPE_V);
    TPACK(b, a);
    pipe_barrier(PIPE_V);
    TMULS(c, b, 2.0f);
    order(PIPE_V, PIPE_S);
    if (c.GetValue(3) == 0.0f) TADDS(a, a, 1.0f);
    order(PIPE_V, PIPE_MTE3);
    TSTORE(to, a);
}

// tiles without addresses
__global__ AICORE void unplaced(__gm__ float* x, __gm__ float* out) {
    Part<float> a, b;
    Row<float> from(x), to(out);
    TLOAD(a, from);
    TADD(b, a, a);
    b.SetValue(5, 100.0f);
    const int n = static_cast<int>(b.GetValue(2));
    for (int i = 0; i < n; ++i) TADDS(b, b, 1.0f);
    TSTORE(to, b);
}

// steps that are counted by what earlier launches stored
extern "C" void launch_chain(float* x, int32_t* count, float* out, void* stream) {
    doubled<<<2, nullptr, stream>>>(x, count, out);
    doubled<<<2, nullptr, stream>>>(out, count, out);
    stepped<<<1, nullptr, stream>>>(out, out);
}
"""
COUNTS = np.array([3, 2] + [0] * 62, "int32")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CppKernel]:
    file = tmp_path_factory.mktemp("values") / "values.cpp"
    file.write_text(SOURCE)
    first = pto.load(file, "doubled", target="a5")
    assert isinstance(first, CppKernel)
    return {entry.name: CppKernel(first.source, entry, "a5") for entry in first.source.build("a5").entries}


def launched(kernel: CppKernel, grid: int = 1, **given: Any) -> Any:
    """The report of a launch on the machine."""
    return kernel[grid](**given, target="a5", engine="machine")


def faults(run: Any) -> list[Any]:
    return [finding for finding in run.findings if finding.level != "note"]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_runs_as_often_as_a_tile_says(kernels: dict[str, CppKernel], count: int) -> None:
    x, out = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    counts = np.full(64, 99, "int32")
    counts[0] = count
    run = launched(kernels["doubled"], 2, x=x, count=counts, out=out)
    assert faults(run) == []
    np.testing.assert_array_equal(out, x * 2**count)


@pytest.mark.parametrize(("largest", "step"), [(11.0, 1.0), (10.0, -1.0), (-3.0, -1.0)])
def test_a_branch_is_taken_by_a_reduced_maximum(kernels: dict[str, CppKernel], largest: float, step: float) -> None:
    x, out = np.full(64, -5, "float32"), np.zeros(64, "float32")
    x[17] = largest
    assert faults(launched(kernels["stepped"], x=x, out=out)) == []
    np.testing.assert_array_equal(out, x + step)


def test_each_step_sees_the_one_before(kernels: dict[str, CppKernel]) -> None:
    x, out = np.full(64, 1000, "float32"), np.zeros(64, "float32")
    assert faults(launched(kernels["halved"], x=x, out=out)) == []
    np.testing.assert_array_equal(out, x / 1024)


def test_launches_see_the_results_of_earlier_ones(kernels: dict[str, CppKernel]) -> None:
    x, out = np.zeros(128, "float32"), np.zeros(128, "float32")
    x[5] = 0.5  # 0.5 * 2^6 = 32 > 10, which the third launch must see
    kernels["launch_chain"][1](x=x, count=COUNTS, out=out, target="a5")
    expected = x * 64
    expected[:64] += 1
    np.testing.assert_array_equal(out, expected)


def test_a_scalar_read_without_order_is_a_finding(kernels: dict[str, CppKernel]) -> None:
    run = launched(kernels["unordered"], count=COUNTS, out=np.zeros(64, "int32"))
    lines = SOURCE.splitlines()
    (race,) = [finding for finding in run.findings if finding.first is not None]
    assert race.where is not None
    assert "n.GetValue(0) > 3" in lines[race.where.line - 1]
    assert lines[race.first.where.line - 1].strip() == "TLOAD(n, counts);"


def test_a_plain_pointer_reads_what_was_stored(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros(128, "int32")
    run = launched(kernels["stored_in_order"], count=COUNTS, out=out)
    assert faults(run) == []
    np.testing.assert_array_equal(out, [*COUNTS, *(COUNTS + 2)])


def test_a_plain_pointer_without_order_is_a_finding(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros(128, "int32")
    run = launched(kernels["stored_without"], count=COUNTS, out=out)
    lines = SOURCE.splitlines()
    races = [finding for finding in run.findings if finding.first is not None]
    assert "A-70" in {finding.rule for finding in run.findings}  # the cache
    assert races and {lines[race.where.line - 1].strip() for race in races} == {"for (int i = 0; i < out[1]; ++i) {"}
    assert {lines[race.first.where.line - 1].strip() for race in races} == {"TSTORE(to, n);"}


def test_an_unspecified_value_is_reported_and_counts_as_0(kernels: dict[str, CppKernel]) -> None:
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run = launched(kernels["opaque"], x=x, out=out)
    lines = SOURCE.splitlines()
    found = [finding for finding in run.findings if "counts as 0" in finding.message]
    assert [(finding.level, finding.rule) for finding in found] == [("unmodelled", "opaque")]
    assert found[0].where is not None and "c.GetValue(3) == 0.0f" in lines[found[0].where.line - 1]
    np.testing.assert_array_equal(out, x + 1)


def test_tiles_without_addresses_have_values(kernels: dict[str, CppKernel]) -> None:
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    assert faults(launched(kernels["unplaced"], x=x, out=out)) == []
    expected = 2 * x + 4
    expected[5] = 104
    np.testing.assert_array_equal(out, expected)
