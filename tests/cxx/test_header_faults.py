"""C++ that the headers take otherwise than its author means, and how emitted C++ avoids it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp.source import emit
from tests.cxx.test_round_trip import source_of
from tests.text.test_cpp import program_of

HEAD = "#include <pto/pto-inst.hpp>\nusing namespace pto;\n"
KERNEL = """
extern "C" __global__ AICORE void fill{number}(__gm__ float* out) {{
  Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, {types}> tile{given};
  TASSIGN(tile, 0);
  TEXPANDS(tile, 1.0f);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  GlobalTensor<float, Shape<1, 1, 1, 8, {cols}>, Stride<512, 512, 512, 64, 1>> all(out);
  TSTORE(all, tile);
}}
"""


def kernels_of(folder: Path, target: str, texts: Iterable[str]) -> Iterator[CppKernel]:
    """The kernels of some texts in one file, which is compiled once."""
    (folder / "k.cpp").write_text(HEAD + "".join(texts))
    kernels = {kernel.name: kernel for kernel in load_entries(str(folder / "k.cpp"), target)}
    return (kernels[name] for name in sorted(kernels))


@pytest.mark.parametrize(
    ("target", "cases"),
    [
        ("a2a3", [("8, 61", "", 61, 1), ("8, 64", "", 64, 0), ("1, 61", "", 61, 0), ("8, -1", "(61)", 61, 0)]),
        ("a5", [("8, 61", "", 61, 0)]),
    ],
)
def test_rows_that_are_valid_in_part_are_not_filled_on_a2a3(
    tmp_path: Path, target: str, cases: list[tuple[str, str, int, int]]
) -> None:
    """TExpandS.hpp:61 of the public headers compares the valid columns with themselves."""
    texts = (KERNEL.format(number=k, types=row[0], given=row[1], cols=row[2]) for k, row in enumerate(cases))
    for kernel, row in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        found = pto.check(kernel, np.zeros((8, 64), "float32"), grid=1, target=target)
        told = [(each.level, each.operand) for each in found.findings if each.rule == "CP-HDR-01"]
        assert told == [("hazard", "dst")] * row[3], row


def filled(out: object) -> None:
    tile = pto.Tile("vec", "float32", 8, 64, valid=(8, 61))
    pto.texpands(tile, 1)
    pto.tstore(out, tile)


@pytest.mark.parametrize(("target", "extents"), [("a2a3", "-1, -1"), ("a5", "8, 61")])
def test_emitted_tiles_of_such_fills_have_dynamic_extents(target: str, extents: str) -> None:
    program = program_of(pto.kernel(filled), target, out=np.zeros((8, 61), "float32"))
    text = emit(program, profile(target), Options())
    assert f"Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, {extents}>" in text


MOVES = """
extern "C" __global__ AICORE void copy{number}(__gm__ float* x, __gm__ float* out) {{
  Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, -1, -1> tile({valid});
  TASSIGN(tile, 0);
  using Extents = Shape<1, 1, 1, -1, -1>;
  GlobalTensor<float, Extents, Stride<4096, 4096, 4096, 64, 1>> all(x, Extents({shape})), to(out, Extents({valid}));
  TLOAD(tile, all);
  set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
  TSTORE(to, tile);
}}
"""


LOADS = [
    ("5, 64", "5, 64", {"a2a3": [], "a5": []}),
    ("8, 64", "5, 64", {"a2a3": ["hazard"], "a5": ["hazard"]}),
    ("9, 64", "5, 64", {"a2a3": ["error"], "a5": ["error"]}),
    ("5, 64", "5, 56", {"a2a3": ["error"], "a5": []}),
    ("1, 64", "1, 56", {"a2a3": [], "a5": []}),
]
"""The rows and columns of a tensor, those that are valid in the tile, and the levels of what is found."""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_load_moves_all_rows_of_the_tensor(tmp_path: Path, target: str) -> None:
    """TL-03: the valid region limits the columns only, and A2/A3 finds the next row by them."""
    texts = (MOVES.format(number=k, shape=shape, valid=valid) for k, (shape, valid, _) in enumerate(LOADS))
    for kernel, (shape, valid, levels) in zip(kernels_of(tmp_path, target, texts), LOADS, strict=True):
        found = pto.check(kernel, np.zeros(4096, "float32"), np.zeros(4096, "float32"), grid=1, target=target)
        assert [each.level for each in found.findings if each.rule == "TL-03"] == levels[target], (shape, valid)


LOADS_OF_L1 = """
extern "C" __global__ AICORE void load{number}(__gm__ float* x) {{
  Tile<TileType::Mat, float, 8, 64, BLayout::RowMajor, {valid}, SLayout::NoneBox> tile;
  TASSIGN(tile, 0);
  GlobalTensor<float, Shape<1, 1, {shape}>, Stride<4096, 4096, 256, 64, 1>> all(x);
  TLOAD(tile, all);
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_load_to_plain_tiles_of_l1_moves_all_rows_too(tmp_path: Path, target: str) -> None:
    cases = [("1, 4, 64", "4, 64", []), ("2, 4, 64", "4, 64", ["hazard"]), ("3, 4, 64", "4, 64", ["error"])]
    texts = (LOADS_OF_L1.format(number=k, shape=shape, valid=valid) for k, (shape, valid, _) in enumerate(cases))
    for kernel, (shape, _, levels) in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        found = pto.check(kernel, np.zeros(4096, "float32"), grid=1, target=target)
        assert [each.level for each in found.findings if each.rule == "TL-03"] == levels, shape


def a_slice(out: object) -> None:
    tile = pto.Tile("vec", "float32", 8, 64)
    pto.texpands(tile, 1)
    pto.texpands(tile[:, 0:32], 2)
    pto.tstore(out, tile)


def chosen(out: object) -> None:
    mask = pto.Tile("vec", "uint8", 8, 32)
    one, two, result = (pto.Tile("vec", "float32", 8, 64, valid=(8, 61)) for _ in range(3))
    pto.texpands(mask, 0)
    pto.texpands(one, 1)
    pto.tadds(two, one, 1)
    pto.tsel(result, mask, one, two)
    pto.tstore(out, result)


def mixed(out: object) -> None:
    one, two, work = (pto.Tile("vec", "int32", 8, 64, valid=(8, 61)) for _ in range(3))
    pto.texpands(one, 1)
    pto.txors(two, one, 3, tmp=work)
    pto.tstore(out, two)


EMITTED = [(filled, "float32", 61), (a_slice, "float32", 64), (chosen, "float32", 61), (mixed, "int32", 61)]


def test_emitted_cpp_has_no_such_fault(tmp_path: Path) -> None:
    """What is emitted is judged as an author's own source."""
    written = [
        (f"k{number}", program_of(pto.kernel(body), "a2a3", out=np.zeros((8, cols), kind)))
        for number, (body, kind, cols) in enumerate(EMITTED)
    ]
    (tmp_path / "k.cpp").write_text(source_of(written, "a2a3"))
    kernels = load_entries(str(tmp_path / "k.cpp"), "a2a3")
    for (name, _), (body, kind, cols) in zip(written, EMITTED, strict=True):
        kernel = next(kernel for kernel in kernels if kernel.name.startswith(f"{name}::"))
        given = {name: np.zeros((8, cols), kind) for name in kernel.parameters if kernel.parameters[name] == "array"}
        others = {name: 1 for name, what in kernel.parameters.items() if what == "integer"}
        found = pto.check(kernel, **given, **others, grid=1, target="a2a3")
        assert [each for each in found.findings if each.level != "note"] == [], body


GATHERS_OF_ROWS = """
extern "C" __global__ AICORE void pick{number}(__gm__ float* x, __gm__ float* out) {{
  Tile<TileType::Vec, float, 16, 64> src;
  Tile<TileType::Vec, float, 8, 64> dst, other;
  TASSIGN(src, 0);
  TASSIGN(dst, {dst});
  TASSIGN(other, {other});
  using Rows = Shape<1, 1, 1, 8, 64>;
  GlobalTensor<float, Shape<1, 1, 1, 16, 64>, Stride<1024, 1024, 1024, 64, 1>> all(x);
  GlobalTensor<float, Rows, Stride<512, 512, 512, 64, 1>> some(x), to(out);
  TLOAD(src, all);
  TLOAD(other, some);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TGATHER<decltype(dst), decltype(src), MaskPattern::P0101, GatherAxis::GATHER_COL>(dst, src);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(to, other);
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_gather_of_rows_writes_behind_its_destination(tmp_path: Path, target: str) -> None:
    """It writes a row for each of the source (a2a3/TGather.hpp:125, a5/TGather.hpp:244): over a tile that is there, or
    over memory that no tile has."""
    cases = [(0x1000, 0x1800, 1), (0x1800, 0x1000, 0)]
    texts = (GATHERS_OF_ROWS.format(number=k, dst=dst, other=other) for k, (dst, other, _) in enumerate(cases))
    for kernel, (_, _, faults) in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        arrays = np.ones(1024, "float32"), np.zeros(512, "float32")
        report = kernel[1](*arrays, target=target, engine="machine")
        assert len([each for each in report.findings if each.is_fault]) == faults


FRACTALS = """
extern "C" __global__ AICORE void product{number}(__gm__ half* x, __gm__ half* y, __gm__ float* out) {{
  constexpr int rows = {rows}, depth = {depth};
  Tile<TileType::Mat, half, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor, 512> one, two;
  TASSIGN(one, 0);
  TASSIGN(two, 0x1000);
  GlobalTensor<half, Shape<1, 1, 1, rows, depth>, Stride<1024, 1024, 1024, depth, 1>> a(x);
  GlobalTensor<half, Shape<1, 1, 1, depth, 32>, Stride<1024, 1024, 1024, 32, 1>> b(y);
  TLOAD(one, a);
  TLOAD(two, b);
  set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
  TileLeft<half, {left}, 32, rows, depth> left;
  TileRight<half, 32, 32, depth, 32> right;
  TASSIGN(left, 0);
  TASSIGN(right, 0);
  TMOV(left, one);
  TMOV(right, two);
  set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
  wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
  TileAcc<float, {acc}, 32, rows, 32> sum;
  TASSIGN(sum, 0);
  TMATMUL(sum, left, right);
  set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  GlobalTensor<float, Shape<1, 1, 1, rows, 32>, Stride<1024, 1024, 1024, 32, 1>> to(out);
  TSTORE(to, sum);
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_tiles_larger_than_what_is_loaded_and_multiplied_are_notes(tmp_path: Path, target: str) -> None:
    """Loads into fractals move what the tensor has (tload_common.hpp:269), products take what is valid
    (a2a3/TMatmul.hpp:160)."""
    cases = [(32, 32, 32, 32, set[str]()), (27, 20, 32, 32, {"TL-02"}), (16, 32, 32, 16, {"TL-02", "CP-MM-02"})]
    texts = (
        FRACTALS.format(number=k, rows=row[0], depth=row[1], left=row[2], acc=row[3]) for k, row in enumerate(cases)
    )
    dice = np.random.default_rng(0)
    for kernel, (rows, depth, _, _, notes) in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        x, y = (dice.integers(-4, 5, shape).astype("float16") for shape in ((rows, depth), (depth, 32)))
        out = np.zeros((rows, 32), "float32")
        report = kernel[1](x, y, out, target=target, engine="machine")
        assert {each.level for each in report.findings} <= {"note"}
        assert {each.rule for each in report.findings} == notes
        np.testing.assert_array_equal(out, x.astype("float32") @ y.astype("float32"))


EMPTY = """
extern "C" __global__ AICORE void part(__gm__ float* x, __gm__ float* out) {
  Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, -1, -1> one(0, 64), two(8, 64), most(8, 64);
  TASSIGN(one, 0);
  TASSIGN(two, 0x1000);
  TASSIGN(most, 0x2000);
  GlobalTensor<float, Shape<1, 1, 1, 0, 64>, Stride<512, 512, 512, 64, 1>> none(x);
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> all(x), to(out);
  TLOAD(one, none);
  TLOAD(two, all);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TPARTMAX(most, one, two);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(to, most);
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_an_empty_tensor_stays_empty_and_is_a_note(tmp_path: Path, target: str) -> None:
    (kernel,) = kernels_of(tmp_path, target, [EMPTY])
    x, out = np.arange(512, dtype="float32"), np.zeros(512, "float32")
    report = kernel[1](x, out, target=target, engine="machine")
    assert [(each.level, each.rule) for each in report.findings] == [("note", "A-55")]
    np.testing.assert_array_equal(out, x)


VIEWS = """
extern "C" __global__ AICORE void patch{number}(__gm__ int8_t* x, __gm__ int8_t* out) {{
  Tile<TileType::Vec, int8_t, 8, 32> all;
  Tile<TileType::Vec, uint8_t, 1, 32> row;
  TASSIGN(all, 0x100);
  {view};
  GlobalTensor<int8_t, Shape<1, 1, 1, 8, 32>, Stride<256, 256, 256, 32, 1>> from(x), to(out);
  TLOAD(all, from);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TEXPANDS(row, (uint8_t)7);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(to, all);
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_view_of_another_type_is_written_for_its_tile(tmp_path: Path, target: str) -> None:
    """TSUBVIEW says that the bytes are those of the tile; an address alone does not (A-38)."""
    cases = [("TSUBVIEW(row, all, 0, 0)", []), ("TASSIGN(row, 0x100)", ["A-38"])]
    texts = (VIEWS.format(number=k, view=view) for k, (view, _) in enumerate(cases))
    for kernel, (view, rules) in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        x, out = np.arange(256, dtype="uint8").view("int8"), np.zeros(256, "int8")
        report = kernel[1](x, out, target=target, engine="machine")
        assert [each.rule for each in report.findings if each.is_fault] == rules, view
        np.testing.assert_array_equal(out, [7] * 32 + x[32:].tolist())


SCATTERS = """
template <typename T>
__global__ AICORE void scatter(__gm__ T* out, __gm__ T* x, __gm__ int32_t* at) {
  Tile<TileType::Vec, int32_t, 2560, 8> where;
  Tile<TileType::Vec, T, 2560, 8> data;
  TASSIGN(where, 0);
  TASSIGN(data, 2560 * 8 * 4);
  GlobalTensor<T, Shape<1, 1, 1, 2560, 8>, Stride<1, 1, 1, 8, 1>> all(x);
  GlobalTensor<int32_t, Shape<1, 1, 1, 2560, 8>, Stride<1, 1, 1, 8, 1>> places(at);
  GlobalTensor<T, Shape<1, 1, 1, 1, 20480>, Stride<1, 1, 1, 20480, 1>> to(out);
  TLOAD(where, places);
  TLOAD(data, all);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  MSCATTER<Coalesce::Elem, ScatterAtomicOp::None, ScatterOOB::Undefined>(to, data, where);
}

void launch_asking(float* out, float* x, int32_t* at, void* stream) {
  scatter<float><<<1, (uint32_t)(2560 * 64), stream>>>(out, x, at);
}

void launch_plainly(float* out, float* x, int32_t* at, void* stream) {
  scatter<float><<<1, nullptr, stream>>>(out, x, at);
}
"""


def test_a_launch_asks_for_dynamic_memory(tmp_path: Path) -> None:
    """The second argument of a launch is dynUBufSize (MSCATTER.md, lines 511 to 521)."""
    arrays = np.zeros(20480, "float32"), np.ones(20480, "float32"), np.arange(20480, dtype="int32")
    for kernel, rules in zip(kernels_of(tmp_path, "a5", [SCATTERS]), ([], ["MG-BUDG-09"]), strict=True):
        checked = pto.check(kernel, *arrays, target="a5")
        report = kernel[1](*arrays, target="a5", engine="machine")
        for found in (checked.findings, report.findings):
            assert [each.rule for each in found if each.is_fault] == rules, kernel.name


SCALES = """
extern "C" __global__ AICORE void scales(__gm__ uint8_t* x, __gm__ uint8_t* out) {
  Tile<TileType::Vec, uint8_t, 1, 64, BLayout::RowMajor, -1, -1> plain(1, 64), work(1, 64), stored(1, 64);
  Tile<TileType::Vec, uint8_t, 32, 2, BLayout::RowMajor, -1, -1, SLayout::RowMajor, 32> boxes(31, 2);
  TASSIGN(plain, 0);
  TASSIGN(work, 0x100);
  TASSIGN(boxes, 0x200);
  TASSIGN(stored, 0x200);
  GlobalTensor<uint8_t, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>> from(x), to(out);
  TLOAD(plain, from);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TMOV(boxes, plain, work);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(to, stored);
}
"""


def test_scales_are_moved_in_whole_boxes(tmp_path: Path) -> None:
    """The last box of 16 rows is written whole (a5/TMov.hpp:329)."""
    (kernel,) = kernels_of(tmp_path, "a5", [SCALES])
    report = kernel[1](np.ones(64, "uint8"), np.zeros(64, "uint8"), target="a5", engine="machine")
    assert not [each for each in report.findings if each.is_fault]


UNMODELLED = {
    "a2a3": ("Tile<TileType::Vec, half, 1, 64> from;\n  Tile<TileType::Vec, int4b_t, 1, 64> to;",
             "TCVT(to, from, RoundMode::CAST_RINT);"),
    "a5": ("Tile<TileType::Vec, int64_t, 1, 32> from, to;\n  Tile<TileType::Vec, uint32_t, 1, 32> at;\n"
           "  TASSIGN(at, 0x800);\n  TEXPANDS(at, 0u);", "TSCATTER(to, from, at);"),
}  # fmt: skip
TAKEN = """
extern "C" __global__ AICORE void taken(__gm__ uint8_t* x) {{
  {tiles}
  TASSIGN(from, 0);
  TASSIGN(to, 0x400);
  GlobalTensor<typename decltype(from)::DType, Shape<1, 1, 1, 1, decltype(from)::Cols>, Stride<1, 1, 1, 64, 1>> all(
    (__gm__ typename decltype(from)::DType*)x);
  TLOAD(from, all);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  {call}
}}
"""


@pytest.mark.parametrize("target", UNMODELLED)
def test_types_that_headers_take_are_not_modelled_and_no_fault(tmp_path: Path, target: str) -> None:
    """Conversions to four bits (a2a3/TCvt.hpp:595), scatters of 8-byte elements (a5/TScatter.hpp:87)."""
    tiles, call = UNMODELLED[target]
    (kernel,) = kernels_of(tmp_path, target, [TAKEN.format(tiles=tiles, call=call)])
    found = pto.check(kernel, np.zeros(512, "uint8"), grid=1, target=target).findings
    assert {each.level for each in found} == {"unmodelled"}


FOUR_BITS = """
extern "C" __global__ AICORE void widen(__gm__ uint8_t* x, __gm__ half* out) {{
  Tile<TileType::Vec, uint8_t, {rows}, 128, BLayout::RowMajor, {rows}, 64> bytes;
  Tile<TileType::Vec, int4b_t, {rows}, 128> from;
  Tile<TileType::Vec, half, {rows}, 128> to;
  TASSIGN(bytes, 0);
  TRESHAPE(from, bytes);
  TASSIGN(to, 0x400);
  GlobalTensor<uint8_t, Shape<1, 1, 1, {rows}, 64>, Stride<64, 64, 64, 64, 1>> all(x);
  GlobalTensor<half, Shape<1, 1, 1, {rows}, 128>, Stride<128, 128, 128, 128, 1>> result(out);
  TLOAD(bytes, all);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TCVT(to, from, RoundMode::CAST_NONE);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(result, to);
}}
"""


@pytest.mark.parametrize("rows", [1, 3])
def test_two_elements_of_four_bits_are_a_byte_in_ub(tmp_path: Path, rows: int) -> None:
    """Rows are 128 bytes apart, and have 64 (a2a3/TCvt.hpp:1088)."""
    (kernel,) = kernels_of(tmp_path, "a2a3", [FOUR_BITS.format(rows=rows)])
    report = kernel[1](np.zeros(64 * rows, "uint8"), np.zeros(128 * rows, "float16"), target="a2a3", engine="machine")
    assert {each.level for each in report.findings} <= {"unmodelled", "note"}


THROUGH_GLOBAL = """
constexpr int M = 16, K = 32, N = 32;
using Pipe = TPipe<0, Direction::DIRECTION, M * N * 4, 2>;
using Slot = GlobalTensor<float, Shape<1, 1, 1, M, N>, Stride<M * N, M * N, M * N, N, 1>>;
extern "C" __global__ AICORE void k(__gm__ float* slots, __gm__ half* x, __gm__ half* w, __gm__ float* out)
{
    Pipe pipe(slots, 0x0, 0x0);
    Slot slot(slots);
#if defined(__DAV_CUBE__)
    TileLeft<half, M, K> left;
    TileRight<half, K, N> right;
    TileAcc<float, M, N> sums;
    Tile<TileType::Mat, half, M, K, BLayout::ColMajor, M, K, SLayout::RowMajor> a;
    Tile<TileType::Mat, half, K, N, BLayout::ColMajor, K, N, SLayout::RowMajor> b;
    TASSIGN(a, 0); TASSIGN(b, 0x10000); TASSIGN(left, 0); TASSIGN(right, 0); TASSIGN(sums, 0);
    GlobalTensor<half, Shape<1, 1, 1, M, K>, Stride<M * K, M * K, M * K, K, 1>> gx(x);
    GlobalTensor<half, Shape<1, 1, 1, K, N>, Stride<K * N, K * N, K * N, N, 1>> gw(w);
    TLOAD(a, gx);
    TLOAD(b, gw);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    TEXTRACT(left, a, 0, 0);
    TEXTRACT(right, b, 0, 0);
    set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
    TMATMUL(sums, left, right);
    set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
    TALLOC<Pipe, Slot, TileSplitAxis::TILE_UP_DOWN>(pipe, slot);
    TSTORE(slot, sums);
    TPUSH<Pipe, Slot, TileSplitAxis::TILE_UP_DOWN>(pipe, slot);
#endif
#if defined(__DAV_VEC__)
    using Half = Tile<TileType::Vec, float, M / 2, N>;
    using Part = GlobalTensor<float, Shape<1, 1, 1, M / 2, N>, Stride<M * N, M * N, M * N, N, 1>>;
    Half h;
    TASSIGN(h, 0x1000);
    Part part(slots), to(out + get_subblockid() * M / 2 * N);
    TPOP<Pipe, Part, TileSplitAxis::TILE_UP_DOWN>(pipe, part);
    TLOAD(h, part);
    TFREE<Pipe, Part, TileSplitAxis::TILE_UP_DOWN>(pipe, part);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);
    TSTORE(to, h);
#endif
}
"""


@pytest.mark.parametrize(("direction", "refused"), [("DIR_C2V_GM", False), ("DIR_BOTH_GM", True)])
def test_vector_cores_wait_for_another_flag_in_both_directions(tmp_path: Path, direction: str, refused: bool) -> None:
    """The cube core sets the first flag of the pipe (a5/TPush.hpp:191), a pop waits for the second one (512)."""
    (kernel,) = kernels_of(tmp_path, "a5", [THROUGH_GLOBAL.replace("DIRECTION", direction)])
    x, w = np.arange(512, dtype="float16").reshape(16, 32) % 7, np.eye(32, dtype="float16")
    out = np.zeros((16, 32), "float32")
    report = kernel[1](np.zeros(1024, "float32"), x, w, out, target="a5", engine="machine")
    errors = [each.message for each in report.findings if each.level == "error"]
    if refused:
        assert errors == ["AIV0.MTE2 waits forever for flag 1 of AIC for AIV0"]
    else:
        assert not report.findings
        np.testing.assert_array_equal(out, x)
