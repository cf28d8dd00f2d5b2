"""Loads and stores through pointers: values, order, bounds, on both targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.finding import VerifyError
from ptokit.lang.recorded import CppKernel
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCE = """\
#include <cstring>
#include <pto/pto-inst.hpp>
using namespace pto;
constexpr int N = 64;
using Row = GlobalTensor<float, Shape<1, 1, 1, 1, N>, Stride<N, N, N, N, 1>>;
using Part = Tile<TileType::Vec, float, 1, N>;
struct Pair { float first, second; };

AICORE inline void order(pipe_t from, pipe_t to) {
    set_flag(from, to, EVENT_ID0);
    wait_flag(from, to, EVENT_ID0);
}

// arrays only: every second element, in both directions, bytes, structures, copies of the C library
__global__ AICORE void plain(__gm__ float* x, __gm__ float* out) {
    const int block = get_block_idx();
    for (int i = 0; i < N; i += 2) out[block * N + i] = 3 * x[block * N + N - 1 - i];
    if (block == 0) *(__gm__ Pair*)(out + 1) = Pair{x[5], x[6]};
    if (block == 1) memcpy(out + N + 1, x, 4);
    ((__gm__ uint8_t*)(out + block * N + 5))[3] = 0x40;
}

// a tile is changed between its load and its store; WAITS says which flags there are
template <bool BEFORE, bool BEHIND>
AICORE inline void changed(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0x400);
    Row from(x), to(out);
    TLOAD(a, from);
    if constexpr (BEFORE) order(PIPE_MTE2, PIPE_S);
    __ubuf__ float* p = a.data();
    for (int i = 0; i < 8; ++i) p[at[i]] += 100;  // changes
    if constexpr (BEHIND) order(PIPE_S, PIPE_MTE3);
    TSTORE(to, a);
    pipe_barrier(PIPE_ALL);
}
__global__ AICORE void right(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    changed<true, true>(x, at, out);
}
__global__ AICORE void early(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    changed<false, true>(x, at, out);
}
__global__ AICORE void late(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    changed<true, false>(x, at, out);
}

// the store of a tile is repeated after the element is cleared: values that were asked for in between are those before
__global__ AICORE void kept(__gm__ float* x, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0);
    Row from(x), to(out), behind(out + N);
    TLOAD(a, from);
    order(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, a);
    order(PIPE_MTE3, PIPE_S);
    ((__ubuf__ float*)0)[3] = 0;  // a cast of an address
    *(__ubuf__ float*)(4 * sizeof(float)) = 1;
    dcci(out, SINGLE_CACHE_LINE);
    const float was = out[3];
    ((__ubuf__ float*)a.data())[5] = was + 1;
    order(PIPE_S, PIPE_MTE3);
    TSTORE(behind, a);
    pipe_barrier(PIPE_ALL);
}

// a row that scalar code fills is loaded
template <bool CLEANS>
AICORE inline void filled(__gm__ float* scratch, __gm__ float* out) {
    Part a;
    TASSIGN(a, 0);
    Row from(scratch), to(out);
    for (int i = 0; i < N; ++i) scratch[i] = i;  // fills
    if constexpr (CLEANS) dcci(scratch, ENTIRE_DATA_CACHE);
    order(PIPE_S, PIPE_MTE2);
    TLOAD(a, from);  // loads
    order(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, a);
    pipe_barrier(PIPE_ALL);
}
__global__ AICORE void cleaned(__gm__ float* scratch, __gm__ float* out) { filled<true>(scratch, out); }
__global__ AICORE void cached(__gm__ float* scratch, __gm__ float* out) { filled<false>(scratch, out); }

// an index tile is loaded again while S may still read it
template <bool POINTER>
AICORE inline void looked_up(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    Tile<TileType::Vec, int32_t, 1, 8> ids;
    Part a;
    TASSIGN(ids, 0);
    TASSIGN(a, 0x400);
    for (int i = 0; i < 2; ++i) {
        GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 8, 1>> from(at);
        TLOAD(ids, from);  // loads again
        order(PIPE_MTE2, PIPE_S);
        int row = POINTER ? ((__ubuf__ int32_t*)ids.data())[2] : ids.GetValue(2);  // looks up
        Row given(x + row % 2 * N), to(out + i * N);
        TLOAD(a, given);
        order(PIPE_MTE2, PIPE_MTE3);
        TSTORE(to, a);
        order(PIPE_MTE3, PIPE_MTE2);
    }
}
__global__ AICORE void by_value(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    looked_up<false>(x, at, out);
}
__global__ AICORE void by_pointer(__gm__ float* x, __gm__ int32_t* at, __gm__ float* out) {
    looked_up<true>(x, at, out);
}

// one element too many
__global__ AICORE void beyond(__gm__ float* x, __gm__ float* out) {
    for (int i = 0; i <= N; ++i) out[i] = x[i];  // goes beyond
}
"""
AT = np.array([3, 9, 1, 60, 33, 32, 31, 0], "int32")


def line(text: str) -> int:
    return next(number for number, each in enumerate(SOURCE.splitlines(), 1) if text in each)


@pytest.fixture(scope="module", params=["a2a3", "a5"])
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CppKernel]:
    file = tmp_path_factory.mktemp("pointers") / "pointers.cpp"
    file.write_text(SOURCE)
    first = pto.load(file, "plain", target=request.param)
    assert isinstance(first, CppKernel)
    entries = first.source.build(request.param).entries
    return {entry.name: CppKernel(first.source, entry, request.param) for entry in entries}


def launched(kernel: CppKernel, grid: int = 1, **given: Any) -> Any:
    """The report of a launch on the machine."""
    return kernel[grid](**given, target=kernel.target, engine="machine")


def errors(run: Any) -> set[tuple[str, int, int]]:
    """The rule and the lines of each error and hazard."""
    return {(f.rule, f.first.where.line, f.where.line) for f in run.findings if f.level in ("error", "hazard")}


@pytest.mark.parametrize("engine", ["machine", "auto"])
def test_arrays_hold_what_pointers_store(kernels: dict[str, CppKernel], engine: str) -> None:
    x = np.random.default_rng(1).standard_normal(128).astype("float32")
    out = np.full(128, 7, "float32")
    expected = out.copy()
    for block in (0, 64):
        for i in range(0, 64, 2):
            expected[block + i] = 3 * x[block + 63 - i]
    expected[1:3] = x[5:7]
    expected[65] = x[0]
    expected.view("uint8")[[23, 64 * 4 + 23]] = 0x40
    run: Any = kernels["plain"][2](x=x, out=out, target=kernels["plain"].target, engine=engine)
    np.testing.assert_array_equal(out, expected)
    assert {finding.level for finding in run.findings} <= {"note"}


def test_a_tile_holds_what_pointers_store(kernels: dict[str, CppKernel]) -> None:
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run = launched(kernels["right"], x=x, at=AT, out=out)
    expected = x.copy()
    expected[AT] += 100
    np.testing.assert_array_equal(out, expected)
    assert not run.findings


@pytest.mark.parametrize(("name", "first", "then"), [("early", "TLOAD(a, from);", "// changes"),
                                                    ("late", "// changes", "TSTORE(to, a);")])  # fmt: skip
def test_a_missing_flag_is_an_error_at_the_access(
    kernels: dict[str, CppKernel], name: str, first: str, then: str
) -> None:
    run = launched(kernels[name], x=np.ones(64, "float32"), at=AT, out=np.zeros(64, "float32"))
    assert errors(run) == {("KN-13", line(first), line(then))}


def test_values_are_those_before_later_stores(kernels: dict[str, CppKernel]) -> None:
    x, out = np.arange(64, dtype="float32") + 10, np.zeros(128, "float32")
    run = launched(kernels["kept"], x=x, out=out)
    changed = x.copy()
    changed[3:6] = 0, 1, x[3] + 1
    np.testing.assert_array_equal(out, [*x, *changed])
    assert not run.findings


def test_a_load_of_what_is_in_the_cache_is_an_error(kernels: dict[str, CppKernel]) -> None:
    out = np.zeros(64, "float32")
    assert not launched(kernels["cleaned"], scratch=np.zeros(64, "float32"), out=out).findings
    np.testing.assert_array_equal(out, np.arange(64))
    run = launched(kernels["cached"], scratch=np.zeros(64, "float32"), out=out)
    assert errors(run) == {("A-70", line("// fills"), line("// loads"))}


@pytest.mark.parametrize("name", ["by_value", "by_pointer"])
def test_a_load_over_what_the_scalar_pipe_reads_is_an_error(kernels: dict[str, CppKernel], name: str) -> None:
    """The headers set a flag from S to MTE2 after S has read indices (a2a3/MGather.hpp:144, a5/MGather.hpp:302)."""
    run = launched(kernels[name], x=np.zeros(128, "float32"), at=AT, out=np.zeros(128, "float32"))
    assert errors(run) == {("KN-13", line("// looks up"), line("// loads again"))}
    assert [finding.level for finding in run.findings] == ["error"]


@pytest.mark.parametrize("short", ["x", "out"])
def test_an_access_beyond_an_array_is_an_error(kernels: dict[str, CppKernel], short: str) -> None:
    given = {name: np.zeros(64 if name == short else 65, "float32") for name in ("x", "out")}
    with pytest.raises(VerifyError) as refusal:
        launched(kernels["beyond"], **given)
    (finding,) = refusal.value.findings
    assert (finding.rule, finding.operand) == ("KN-10", short)
    assert finding.where is not None and finding.where.line == line("// goes beyond")


def test_arrays_that_are_not_given_reach_as_far_as_pointers(kernels: dict[str, CppKernel]) -> None:
    given = {name: np.zeros(1024, "float32") for name in ("x", "out")}
    uses = kernels["beyond"].uses(given)
    assert {name: (use.end, use.dtype) for name, use in uses.items()} == {"x": (260, "float32"), "out": (260, "")}


def test_a_check_says_what_it_takes(kernels: dict[str, CppKernel], tmp_path: Path) -> None:
    file = tmp_path / "pointers.cpp"
    file.write_text(SOURCE)
    target = kernels["plain"].target
    done = CliRunner().invoke(
        app, ["check", str(file), "--entry", "beyond", "--target", target, "--arg", "x=float32[64]"]
    )
    assert done.exit_code == 1
    assert f"pointers.cpp:{line('// goes beyond')}:" in done.output and "64 of x" in done.output


@pytest.mark.parametrize(
    ("source", "destination"),
    [("(__gm__ float*)0x1234560000", "out"), ("x", "(__gm__ float*)0x40"), ("x", "nullptr")],
)
def test_an_address_in_no_array_is_an_error(tmp_path: Path, source: str, destination: str) -> None:
    file = tmp_path / "wild.cpp"
    head = SOURCE.partition("// arrays only")[0]
    file.write_text(f"""{head}
__global__ AICORE void wild(__gm__ float* x, __gm__ float* out) {{
    Part a;
    TASSIGN(a, 0);
    Row from({source}), to({destination});
    TLOAD(a, from);
    order(PIPE_MTE2, PIPE_MTE3);
    TSTORE(to, a);
}}
""")
    kernel = pto.load(file, "wild", target="a5")
    with pytest.raises(VerifyError) as refusal:
        launched(kernel, x=np.zeros(64, "float32"), out=np.zeros(64, "float32"))  # pyright: ignore[reportArgumentType]
    (finding,) = refusal.value.findings
    call = "TLOAD" if source != "x" else "TSTORE"
    lines = file.read_text().splitlines()
    assert (finding.rule, finding.level) == ("KN-20", "error")
    assert finding.where is not None and call in lines[finding.where.line - 1]
    assert "address 0x" in finding.message
