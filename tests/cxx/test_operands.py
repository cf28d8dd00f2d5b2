"""Operands of C++ calls that say what a call reads and writes: pointers, workspaces, convolution tiles, addresses."""

from __future__ import annotations

import pytest

from ptokit.cli.arguments import values_of
from ptokit.cxx.includes import rewrite
from ptokit.finding import Finding
from ptokit.lang.launch import mode_of
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.program.ir import Program

HEAD = """\
#include <pto/pto-inst.hpp>
using namespace pto;
template <typename T, int R, int C> using Vec = Tile<TileType::Vec, T, R, C>;
template <typename T, int R, int C> using Data = GlobalTensor<T, Shape<1, 1, 1, R, C>, Stride<1, 1, 1, C, 1>>;
#define ORDER(A, B) set_flag(A, B, EVENT_ID0); wait_flag(A, B, EVENT_ID0)
template <typename T, int R, int C> AICORE inline void load(Vec<T, R, C>& tile, __gm__ T* from) {
    Data<T, R, C> data(from);
    TLOAD(tile, data);
    ORDER(PIPE_MTE2, PIPE_V);
}
template <typename T, int R, int C> AICORE inline void put(__gm__ T* to, Vec<T, R, C>& tile) {
    Data<T, R, C> data(to);
    TSTORE(data, tile);
}
template <typename T, int R, int C> AICORE inline void store(__gm__ T* to, Vec<T, R, C>& tile) {
    ORDER(PIPE_V, PIPE_MTE3);
    put(to, tile);
}
"""
A5 = """\
// its exponents, maxima and factors are given by pointers; the result begins where the source does
extern "C" __global__ AICORE void exponents(__gm__ float* x, __gm__ int8_t* y, __gm__ uint8_t* e, __gm__ float* m) {
    Vec<float, 32, 64> src;
    Vec<int8_t, 32, 64> dst;
    Vec<uint8_t, 1, 64> exponents;
    Vec<float, 1, 64> most, factors;
    TASSIGN(src, 0x0); TASSIGN(dst, 0x0); TASSIGN(exponents, 0x2000); TASSIGN(most, 0x2100); TASSIGN(factors, 0x2200);
    load(src, x);
    TQUANT<QuantType::MXFP8>(dst, src, &exponents, &most, &factors);
    store(y, dst); put(e, exponents); put(m, most);
}
template <HistByte BYTE> AICORE inline void count(__gm__ uint16_t* x, __gm__ uint32_t* y) {
    Vec<uint16_t, 2, 128> src;
    Vec<uint32_t, 2, 256> dst;
    Tile<TileType::Vec, uint8_t, 32, 1, BLayout::ColMajor> idx;
    TASSIGN(src, 0x0); TASSIGN(dst, 0x1000); TASSIGN(idx, 0x3000);
    load(src, x);
    THISTOGRAM<BYTE>(dst, src, idx);
    store(y, dst);
}
extern "C" __global__ AICORE void high_bytes(__gm__ uint16_t* x, __gm__ uint32_t* y) { count<HistByte::BYTE_1>(x, y); }
extern "C" __global__ AICORE void low_bytes(__gm__ uint16_t* x, __gm__ uint32_t* y) { count<HistByte::BYTE_0>(x, y); }

extern "C" __global__ AICORE void exponents_moved(__gm__ uint8_t* x, __gm__ uint8_t* y) {
    Vec<uint8_t, 1, 64> src, dst;
    Vec<uint8_t, 1, 96> work;
    TASSIGN(src, 0x0); TASSIGN(dst, 0x100); TASSIGN(work, 0x200);
    load(src, x);
    TMOV(dst, src, work);
    store(y, dst);
}
extern "C" __global__ AICORE void convolution(__gm__ float* x, __gm__ float* y) {
    Vec<float, 1, 128> flat, result, work;
    ConvTile<TileType::Vec, float, 128 * 4, Layout::NCHW, ConvTileShape<2, 4, 4, 4>> src;
    ConvTile<TileType::Vec, float, 128 * 4, Layout::NCHW, ConvTileShape<2, 4, 4, 4>> dst;
    TASSIGN(flat, 0x0); TASSIGN(src, 0x0); TASSIGN(result, 0x200); TASSIGN(dst, 0x200); TASSIGN(work, 0x400);
    load(flat, x);
    TTRANS(dst, src, work);
    store(y, result);
}
"""
A2A3 = """\
extern "C" __global__ AICORE void whole_numbers(__gm__ float* x, __gm__ float* s, __gm__ int8_t* y) {
    Vec<float, 32, 64> src, work;
    Vec<int8_t, 32, 64> dst;
    Tile<TileType::Vec, float, 32, 1, BLayout::ColMajor> factors;
    GlobalTensor<float, Shape<1, 1, 1, 32, 1>, Stride<32, 32, 32, 1, 1>, Layout::DN> column(s);
    TASSIGN(src, 0x0); TASSIGN(work, 0x2000); TASSIGN(dst, 0x4000); TASSIGN(factors, 0x5000);
    TLOAD(factors, column);
    load(src, x);
    TQUANT<QuantType::INT8_SYM>(dst, src, factors, work);
    store(y, dst);
}
template <bool INTO_UB> AICORE inline void copy(__gm__ float* x, __gm__ float* y) {
    Vec<float, 8, 64> tile;
    TASSIGN(tile, 0x100);
    if constexpr (INTO_UB) {
        __ubuf__ float* to = reinterpret_cast<__ubuf__ float*>(0x100);
        copy_gm_to_ubuf(static_cast<__ubuf__ void*>(to), static_cast<__gm__ void*>(x), 0, 1, 64, 0, 0);
    } else {
        copy_gm_to_cbuf(reinterpret_cast<__cbuf__ void*>(0x100), static_cast<__gm__ void*>(x), 0, 1, 64, 0, 0);
    }
    pipe_barrier(PIPE_ALL);
    store(y, tile);
}
extern "C" __global__ AICORE void copied_to_ub(__gm__ float* x, __gm__ float* y) { copy<true>(x, y); }
extern "C" __global__ AICORE void copied_to_l1(__gm__ float* x, __gm__ float* y) { copy<false>(x, y); }

extern "C" __global__ AICORE void pointer(__gm__ int32_t* x) {
    __ubuf__ int32_t* on_chip = reinterpret_cast<__ubuf__ int32_t*>(0x0);
    on_chip[0] = 7;
    Vec<int32_t, 1, 8> tile;
    TASSIGN(tile, 0x0);
    if (tile.data()[0] != 7) trap();
    ORDER(PIPE_S, PIPE_MTE2);
    load(tile, x);
}
"""
# rows of a tile are loaded in two halves; the pointer to another one is cut to 32 bits
A2A3 += """
extern "C" __global__ AICORE void halves(__gm__ float* x, __gm__ float* y) {
    Vec<float, 8, 64> tile, copy;
    Tile<TileType::Vec, float, 8, 1, BLayout::ColMajor> beside;
    TASSIGN(tile, 0x0); TASSIGN(beside, 0x800); TASSIGN(copy, 0x1000);
    TEXPANDS(beside, 1.0f);
    TEXPANDS(tile, 1.0f);
    ORDER(PIPE_V, PIPE_MTE2);
    for (int half = 0; half < 2; ++half) {
        Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, 8, 32> part;
        GlobalTensor<float, Shape<1, 1, 1, 8, 32>, Stride<1, 1, 1, 64, 1>> data(x + half * 32);
        TASSIGN(part, (uint64_t)tile.data() + half * 32 * sizeof(float));
        TLOAD(part, data);
    }
    ORDER(PIPE_MTE2, PIPE_V);
    TROWEXPANDADD(copy, tile, beside);
    store(y, copy);
}
template <int ROWS> AICORE inline void over(__gm__ float* x, __gm__ float* y) {
    Vec<float, 8, 64> tile, copy;
    Vec<float, ROWS, 64> part;
    TASSIGN(tile, 0x0); TASSIGN(part, 0x100 * 2); TASSIGN(copy, 0x1000);
    load(tile, x);
    ORDER(PIPE_V, PIPE_MTE2);
    load(part, x);
    TMULS(copy, tile, 2.0f);
    store(y, copy);
}
extern "C" __global__ AICORE void two_rows_over(__gm__ float* x, __gm__ float* y) { over<2>(x, y); }
extern "C" __global__ AICORE void short_pointer(__gm__ float* x, __gm__ float* y) {
    Vec<float, 8, 64> tile, other;
    TASSIGN(tile, 0x800);
    TASSIGN(other, (uint32_t)(uint64_t)tile.data() + 0x800);
    load(other, x);
    store(y, other);
}
extern "C" __global__ AICORE void bits(__gm__ half* x, __gm__ half* y) {
    Vec<half, 16, 64> tile, other;
    TASSIGN(tile, 0x0); TASSIGN(other, 0x1000);
    load(tile, x);
    TAND(other, tile, tile);
    store(y, other);
}
"""
# 256 x 128 elements of four bits are 16 KB, and four such tiles lie side by side
A5 += """
extern "C" __global__ AICORE void packed(__gm__ float4_e2m1x2_t* x) {
    using L1 = Tile<TileType::Mat, float4_e2m1x2_t, 256, 128, BLayout::ColMajor, 256, 128, SLayout::RowMajor>;
    using L0 = Tile<TileType::Left, float4_e2m1x2_t, 256, 128, BLayout::ColMajor, 256, 128, SLayout::RowMajor>;
    for (int i = 0; i < 4; ++i) {
        L1 from;
        L0 to;
        TASSIGN(from, i * 0x4000); TASSIGN(to, i * 0x4000);
        Data<float4_e2m1x2_t, 256, 128> data(x);
        TLOAD(from, data);
        ORDER(PIPE_MTE2, PIPE_MTE1);
        TMOV(to, from);
        ORDER(PIPE_MTE1, PIPE_MTE2);
    }
}
"""
BOTH = """\
#ifdef __DAV_CUBE__
constexpr bool DAV_CUBE = true;
#else
constexpr bool DAV_CUBE = false;
#endif
#ifdef __DAV_VEC__
constexpr bool DAV_VEC = true;
#else
constexpr bool DAV_VEC = false;
#endif
// the message that starts a handover is stored by the scalar unit
extern "C" __global__ AICORE void handover(__gm__ uint64_t* ffts, __gm__ float* x) {
    set_ffts_base_addr(reinterpret_cast<uint64_t>(ffts));
    if constexpr (DAV_CUBE) {
        st_dev(getFFTSMsg(0x2, 3), ffts, 0);
    }
    if constexpr (DAV_VEC) {
        wait_flag_dev(3);
        Vec<float, 8, 64> tile;
        TASSIGN(tile, 0x0);
        load(tile, x);
    }
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CppKernel]:
    found: dict[str, CppKernel] = {}
    for target, text in (("a5", A5), ("a2a3", A2A3), ("a2a3", BOTH)):
        file = tmp_path_factory.mktemp(target) / "operands.cpp"
        file.write_text(HEAD + text)
        found |= {kernel.name: kernel for kernel in load_entries(str(file), target)}
    return found


def faults(kernel: CppKernel) -> list[Finding]:
    """What is reported of a launch, but for what is not modelled."""
    values = values_of(kernel, {})
    assert not kernel.launches(kernel.bind((), values), mode_of(kernel.target), 1).findings
    run = kernel[1](**values, target=kernel.target, engine="machine")
    return [each for each in run.findings if each.level in ("error", "hazard")]


def program(kernel: CppKernel) -> Program:
    return kernel.trace(kernel.bind((), values_of(kernel, {})), mode_of(kernel.target)).program


@pytest.mark.parametrize(
    "name",
    [
        "exponents",
        "high_bytes",
        "exponents_moved",
        "convolution",
        "whole_numbers",
        "copied_to_ub",
        "pointer",
        "handover",
        "halves",
        "short_pointer",
        "bits",
        "packed",
    ],
)
def test_what_calls_write_and_do_not_read(kernels: dict[str, CppKernel], name: str) -> None:
    assert not faults(kernels[name])


@pytest.mark.parametrize(("name", "tile"), [("low_bytes", "idx"), ("copied_to_l1", "tile")])
def test_reads_of_what_nothing_wrote_are_found(kernels: dict[str, CppKernel], name: str, tile: str) -> None:
    (found,) = faults(kernels[name])
    assert found.kind == "H-36" and f"reads {tile}" in found.message


def test_a_tile_over_rows_of_another_one_is_no_slice(kernels: dict[str, CppKernel]) -> None:
    assert "H-38" in {each.kind for each in faults(kernels["two_rows_over"])}


def test_tiles_take_the_bytes_that_they_have(kernels: dict[str, CppKernel]) -> None:
    (tile,) = program(kernels["short_pointer"]).tiles.values()
    assert tile.addresses == (0x1000,)
    assert {tile.spec.nbytes for tile in program(kernels["packed"]).tiles.values()} == {0x4000}
    assert [instr.name for instr in program(kernels["bits"]).instructions if instr.opaque_form] == ["tand"]


def test_casts_to_on_chip_pointers() -> None:
    text = "a = reinterpret_cast<__ubuf__ int32_t*>(x); b = reinterpret_cast<const __cbuf__ half *>(y); "
    text += "c = reinterpret_cast<__gm__ int*>(z);"
    vec, mat = (f"::ptokit::on_chip<::ptokit::Memory::{memory}, " for memory in ("vec", "mat"))
    assert rewrite(text) == f"a = {vec}int32_t*>(x); b = {mat}const half *>(y); " + text[-37:]
    two_lines = "reinterpret_cast<\n    __ubuf__ float*>(x)"
    assert rewrite(two_lines).count("\n") == 1


def test_plain_casts_to_on_chip_pointers() -> None:
    on_chip = "::ptokit::OnChip<::ptokit::Memory::vec, float*>{} ->* "
    for text, expected in (
        ("p = (__ubuf__ float*)x;", f"p = {on_chip}x;"),
        ("return ( __ubuf__ float * )(x);", f"return {on_chip.replace('float*', 'float *')}(x);"),
        ("*(__ubuf__ float*)0 = 1;", f"*{on_chip}0 = 1;"),
        ("void f(__ubuf__ float*);", "void f(__ubuf__ float*);"),
        ("void f(__ubuf__ float*) {}", "void f(__ubuf__ float*) {}"),
        ("(uint64_t)(__ubuf__ float*)x", "(uint64_t)(__ubuf__ float*)x"),
        ("sizeof(__ubuf__ float*)", "sizeof(__ubuf__ float*)"),
    ):
        assert rewrite(text) == expected
