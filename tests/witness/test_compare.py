"""What counts as a difference between the headers and the machine, and which reasons apply."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptokit.finding import VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.opaque import opaque_rows
from ptokit.lang.recorded import load_cpp
from ptokit.witness.effects import Observed, ObservedAccess, ObservedIntrinsic, ObservedMemory
from ptokit.witness.headers import Checkout
from ptokit.witness.record import Witness
from tests.witness import page
from tests.witness.__main__ import core_of
from tests.witness.accepted import reason
from tests.witness.compare import OWN, Assumed, Comparison, Source, Touch, apart, compare, differences, union, watched
from tests.witness.forms import FORMS, source
from tests.witness.overloads import stated
from tests.witness.page import overload_rows

MAT = ObservedMemory("mat")


def written(*ranges: tuple[int, int]) -> Observed:
    """A call that writes to L1."""
    access = ObservedAccess("write", MAT, np.array(ranges, np.int64))
    return Observed("TLOAD", [ObservedIntrinsic("copy", "MTE2", (access,))])


def assumed(*boxes: tuple[int, int]) -> Assumed:
    """The same call on the machine, which writes one range; and tiles of fractals."""
    ranges = np.array([(0, 64)], np.int64)
    touches = (Touch("dst", "write", "L1", ranges, False),)
    tiles = tuple(("L1", np.array([box], np.int64)) for box in boxes)
    return Assumed("tload", frozenset(("MTE2",)), frozenset(), touches, boxes=tiles)


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ((), ["write more mat [[64, 128]]"]),
        (((0, 128),), ["write padding mat [[64, 128]]"]),
        (((0, 96),), ["write more mat [[96, 128]]", "write padding mat [[64, 96]]"]),
    ],
)
def test_more_bytes_are_padding_in_a_tile_of_fractals_only(
    boxes: tuple[tuple[int, int], ...], expected: list[str]
) -> None:
    found = differences(written((0, 128)), assumed(*boxes))
    assert [" ".join(each) for each in found] == expected


@pytest.mark.parametrize("family", ["a2a3", "a5"])
def test_rows_of_more_overloads_are_kernels_of_known_instructions(family: str) -> None:
    own = [form for form in FORMS if family in form.targets]
    names = [form.name for form in own]
    assert len({*names}) == len(names) > 30
    assert {form.instruction for form in own} <= {*INSTRUCTIONS, *opaque_rows()}
    assert {form.core for form in own} == {"vector", "cube", ""}
    assert all(f"void {form.name}(" in source(own) and call in form.kernel() for form in own for call in form.calls)


def test_fewer_bytes_differ() -> None:
    assert differences(written((0, 32)), assumed((0, 128))) == [("write less", "mat [[32, 64]]")]
    assert differences(written((0, 64)), assumed()) == []


@pytest.mark.parametrize(
    ("name", "kind", "form", "is_known"),
    [
        ("tload", "write padding", "", True),
        ("tload", "write more", "", False),
        ("tconcat", "write more", "wrrrr", True),
        ("tconcat", "write more", "", False),
    ],
)
def test_a_reason_is_for_a_kind_and_a_form(name: str, kind: str, form: str, is_known: bool) -> None:
    names = replace(assumed(), name=name, form=form).names("a2a3", is_compact=False)
    assert bool(reason(names, kind, "mat")) == is_known


def test_a_page_lists_the_reasons_that_calls_have(tmp_path: Path) -> None:
    found, call = Comparison("a2a3"), replace(assumed((0, 128)), name="tload")
    for _ in range(3):
        found.add("kernel", written((0, 128)), call)
    page.written(tmp_path / "page.md", found, "a2a3@test", [], "")
    rows = (tmp_path / "page.md").read_text().partition("why it stays")[2].partition("## Open")[0]
    assert [line.split(" | ")[2] for line in rows.splitlines() if "tload" in line] == ["3"]
    assert len([line for line in rows.splitlines() if line.startswith("| `")]) == 1


def test_a_reason_may_be_for_accumulators_with_rows_of_run_time_only() -> None:
    open_ones, others = (replace(assumed(), name="tmatmul", is_open=each) for each in (True, False))
    found = [bool(reason(each.names("a5", is_compact=False), "write less", "acc")) for each in (open_ones, others)]
    assert found == [True, False]


def test_a_reason_holds_for_its_instructions_kinds_and_memories() -> None:
    names = ["tload", "a5:tload", "a5:tload:4"]
    assert reason(names, "write padding", "mat")
    assert not any(reason(names, kind, memory) for kind, memory in (("write more", "mat"), ("write padding", "acc")))
    assert reason(["tneg", "a5:tneg", "a5:tneg:8"], "read less", "vec")
    assert not reason(["tneg", "a5:tneg", "a5:tneg:4"], "read less", "vec")
    assert reason(["a2a3:tors"], "write padding", "vec"), "what may be more may be padding"
    assert not reason(["a5:tors"], "write more", "vec")


VEC = ObservedMemory("vec")


def ordered(*events: str) -> Observed:
    """A call of V that touches 64 bytes of operands by number, with barriers between."""
    made = [
        ObservedIntrinsic("pipe_barrier", "S", flag=("V",))
        if event == "|"
        else ObservedIntrinsic(
            "vadd", "V", (ObservedAccess("write", VEC, np.array([(int(event) * 64, int(event) * 64 + 64)])),)
        )
        for event in events
    ]
    return Observed("TADD", made)


@pytest.mark.parametrize(("around", "pipes"), [(["V"], {"V"}), (["V", "MTE3"], {"S"}), ([], {"S"})])
def test_scalar_work_counts_as_that_of_the_one_pipe_around_it(around: list[str], pipes: set[str]) -> None:
    """A gather by elements on A2/A3 waits for all pipes (MGather.hpp:215): no other pipe stands for it."""
    before = [ObservedIntrinsic("wait_flag", "S", flag=(pipe, "S", "0")) for pipe in around]
    behind = [ObservedIntrinsic("set_flag", "S", flag=("S", pipe, "0")) for pipe in around]
    work = ObservedIntrinsic("store", "S", (ObservedAccess("write", VEC, np.array([(0, 4)])),))
    assert Observed("MGATHER", [*before, work, *behind]).pipes == pipes


def with_barriers(late: str, *, ends: bool) -> Assumed:
    """The same call on the machine."""
    touches = tuple(Touch(f"{k}", "write", "UB", np.array([(k * 64, k * 64 + 64)]), False) for k in range(3))
    return Assumed("tadd", frozenset(("V",)), frozenset(), touches, late=frozenset(late), ends=ends)


@pytest.mark.parametrize(
    ("events", "late", "ends", "expected"),
    [
        ("01|2|", "2", True, []),
        ("01|2", "2", True, ["barrier at the end "]),
        ("012|", "2", True, ["barrier late 2"]),
        ("012", "2", False, ["barrier late 2"]),
        ("012", "", False, []),
        ("0|12", "12", False, []),
    ],
)
def test_barriers_inside_are_compared(events: str, late: str, ends: bool, expected: list[str]) -> None:
    assert [" ".join(each) for each in differences(ordered(*events), with_barriers(late, ends=ends))] == expected


def test_a_refused_call_has_no_other_difference() -> None:
    refused = replace(assumed(), touches=(), pipes=frozenset(), refused="TL-02")
    assert differences(written((0, 64)), refused) == [("refused by TL-02", "")]
    assert reason(["a5:tload"], "refused by TL-02", "") and not reason(["a5:tload"], "refused by TL-01", "")
    assert "TInterleave.hpp" in reason(["a5:tinterleave"], "refused by CP-ILV-01", "")


LOAD_TWICE = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void both(__gm__ float* x) {
  Tile<TileType::Vec, float, 8, 64, BLayout::RowMajor, 8, 64> tile;
  TASSIGN(tile, 0x0);
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, pto::Stride<512, 512, 512, 64, 1>> all(x);
  GlobalTensor<float, Shape<1, 1, 1, 4, 64>, pto::Stride<256, 256, 256, 64, 1>> half_of_it(x);
  TLOAD(tile, all);
  TLOAD(tile, half_of_it);
}
extern "C" void launch(float* x, void* stream) { both<<<3, nullptr, stream>>>(x); }
"""


def test_all_blocks_are_watched_and_refused_calls_too(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(LOAD_TWICE)
    kernel = load_cpp(str(tmp_path / "k.cpp"), target="a2a3")
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1](np.zeros((8, 64), "float32"), engine="machine", target="a2a3")
    assert [(each.name, each.block, each.refused) for each in found] == [
        ("tload", block, rule) for block in range(3) for rule in ("", "TL-02")
    ]


PADDED_LOAD = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k(__gm__ int8_t* x) {{
  Tile<TileType::Mat, int8_t, {tile}, SLayout::NoneBox, 512{pad}> tile;
  TASSIGN(tile, 0x0);
  GlobalTensor<int8_t, Shape<1, 1, 1, {shape}>, pto::Stride<3300, 3300, 3300, {steps}>, Layout::{layout}> all(x);
  TLOAD(tile, all);
}}
"""
BY_ROWS = {"tile": "4, 128, BLayout::RowMajor, 3, 99", "shape": "3, 99", "steps": "99, 1", "layout": "ND"}
BY_COLUMNS = {"tile": "128, 4, BLayout::ColMajor, 99, 3", "shape": "99, 3", "steps": "1, 99", "layout": "DN"}


@pytest.mark.parametrize("form", [BY_ROWS, BY_COLUMNS])
@pytest.mark.parametrize(
    ("target", "pad", "width"), [("a5", "", 128), ("a5", ", PadValue::Max", 128), ("a2a3", "", 99)]
)
def test_a5_pads_plain_tiles_of_l1_in_whole_blocks(
    tmp_path: Path, form: dict[str, str], target: str, pad: str, width: int
) -> None:
    (tmp_path / "k.cpp").write_text(PADDED_LOAD.format(**form, pad=pad))
    kernel = load_cpp(str(tmp_path / "k.cpp"), target=target)
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1](np.zeros(4096, "int8"), engine="machine", target=target)
    rows = [[128 * row, 128 * row + width] for row in range(3)]
    assert found[0].bytes_of("write")["mat"].tolist() == ([[0, 384]] if width == 128 else rows)


OF_MASKS = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k() {{
  Tile<TileType::Vec, float, {dst}> dst;
  Tile<TileType::Vec, float, {src}> src;
  TASSIGN(dst, 0x0);
  TASSIGN(src, 0x8000);
  {call}(dst, src);
}}
"""
SCATTER = {"dst": "4, 128", "src": "4, 64", "call": "TSCATTER<MaskPattern::P1010>"}
GATHER_ROWS = {
    "dst": "4, 64",
    "src": "8, 64",
    "call": "TGATHER<decltype(dst), decltype(src), MaskPattern::P1010, GatherAxis::GATHER_COL>",
}


@pytest.mark.parametrize(
    ("target", "form", "flags", "written"),
    [
        ("a2a3", SCATTER, {("V", "S"), ("S", "V")}, 2048),
        ("a5", SCATTER, set(), 2048),
        ("a2a3", GATHER_ROWS, set(), 2048),
        ("a5", GATHER_ROWS, set(), 2048),
    ],
)
def test_masks_scatter_by_the_scalar_pipe_and_gather_a_row_for_each_of_the_source(
    tmp_path: Path, target: str, form: dict[str, str], flags: set[tuple[str, str]], written: int
) -> None:
    """A gather of rows into a tile of 1024 bytes goes on behind it."""
    (tmp_path / "k.cpp").write_text(OF_MASKS.format(**form))
    kernel = load_cpp(str(tmp_path / "k.cpp"), target=target)
    with watched() as found, warnings.catch_warnings(), suppress(VerifyError):
        warnings.simplefilter("ignore")
        kernel[1](engine="machine", target=target)
    assert (found[0].flags, found[0].pipes) == (flags, {"V"})
    assert found[0].bytes_of("write")["vec"].tolist() == [[0, written]]


ONE_ELEMENT = """#include <pto/pto-inst.hpp>
using namespace pto;
template <typename One, typename Whole>
AICORE void moved() {{
  One one;
  Whole whole;
  TASSIGN(one, 0x8000);
  TASSIGN(whole, 0x0);
  TEXTRACT(one, whole, 3, 5);
  TINSERT(whole, one, {row}, {col});
}}
__global__ AICORE void k() {{
  moved<Tile<TileType::Vec, float, {one}>, Tile<TileType::Vec, float, {whole}>>();
}}
"""
PLAIN_ONE = {"one": "1, 8, BLayout::RowMajor, 1, 1", "whole": "16, 64", "row": "3", "col": "5"}
BOXED_ONE = {
    "one": "16, 8, BLayout::ColMajor, 1, 1, SLayout::RowMajor",
    "whole": "16, 64, BLayout::ColMajor, 16, 64, SLayout::RowMajor",
    "row": "3",
    "col": "8",
}
INSIDE_A_BOX = {**BOXED_ONE, "row": "5", "col": "11"}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("form", "read", "written"),
    [
        (PLAIN_ONE, (3 * 64 + 5) * 4, (3 * 64 + 5) * 4),
        (BOXED_ONE, (3 * 8 + 5) * 4, (16 * 8 + 3 * 8) * 4),
        (INSIDE_A_BOX, (3 * 8 + 5) * 4, (16 * 8 + 5 * 8 + 3) * 4),
    ],
)
def test_the_scalar_pipe_moves_one_element_within_ub(
    tmp_path: Path, target: str, form: dict[str, str], read: int, written: int
) -> None:
    (tmp_path / "k.cpp").write_text(ONE_ELEMENT.format(**form))
    kernel = load_cpp(str(tmp_path / "k.cpp"), target=target)
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1](engine="machine", target=target)
    taken, put = found
    assert [each.flags for each in found] == [{("V", "S"), ("S", "V")}] * 2 and taken.pipes == put.pipes == {"V"}
    assert (taken.bytes_of("read")["vec"].tolist(), put.bytes_of("write")["vec"].tolist()) == (
        [[read, read + 4]],
        [[written, written + 4]],
    )
    (tmp_path / "more.cpp").write_text(ONE_ELEMENT.format(**{**form, "one": form["one"].replace("1, 1", "1, 4")}))
    kernel = load_cpp(str(tmp_path / "more.cpp"), target=target)
    with watched() as found, warnings.catch_warnings(), suppress(VerifyError):
        warnings.simplefilter("ignore")
        kernel[1](engine="machine", target=target)
    assert not any(each.flags for each in found)


BEHIND = """#include <pto/pto-inst.hpp>
using namespace pto;
__global__ AICORE void k() {
  Tile<TileType::Vec, half, 1, 32> from;
  Tile<TileType::Vec, int8_t, 1, 32> to;
  Tile<TileType::Vec, int32_t, 1, 32> tmp;
  TASSIGN(from, 0x0);
  TASSIGN(to, 0x400);
  TASSIGN(tmp, 0x800);
  TCVT(to, from, tmp, RoundMode::CAST_TRUNC, SaturationMode::OFF);
}
"""


def test_what_is_written_behind_the_last_tile_counts(tmp_path: Path) -> None:
    """A conversion that wraps writes 192 bytes of a workspace of 128 (TCvt.hpp:493)."""
    (tmp_path / "k.cpp").write_text(BEHIND)
    kernel = load_cpp(str(tmp_path / "k.cpp"), target="a2a3")
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1](engine="machine", target="a2a3")
    assert found[0].workspace.tolist() == [[0x800, 0x800 + 192]]


BY_POINTER = """#include <pto/pto-inst.hpp>
using namespace pto;
extern "C" __global__ AICORE void k(__gm__ float* x) {
  Tile<TileType::Vec, float, 1, 64> a;
  TASSIGN(a, 0x0);
  x[3] = x[1];
  TEXPANDS(a, 1.0f);
}
"""


def test_accesses_by_pointers_are_no_calls(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(BY_POINTER)
    kernel = load_cpp(str(tmp_path / "k.cpp"), target="a2a3")
    with watched() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[1](np.zeros(64, "float32"), engine="machine", target="a2a3")
    assert [each.name for each in found] == ["scalar_load", "scalar_store", "texpands"]
    assert [each.name for each in found if each.name not in OWN] == ["texpands"]


BY_CORE = """#include <pto/pto-inst.hpp>
using namespace pto;
template <int number>
AICORE void loads(__gm__ float* x) {{
  using Rows = GlobalTensor<float, Shape<1, 1, 1, 2, 64>, pto::Stride<1, 1, 1, 64, 1>>;
  Tile<TileType::Vec, float, 2, 64> a, b;
  TASSIGN(a, 0x1000);
  TASSIGN(b, 0x1200);
  Rows in(x);
  {text}
}}
extern "C" __global__ AICORE void first(__gm__ float* x) {{ loads<0>(x); }}
extern "C" __global__ AICORE void other(__gm__ float* x) {{ loads<1>(x); }}
"""
ASKING = "if (get_subblockid() == 1) TLOAD(b, in); else TLOAD(a, in);"
MIXED = """
#if defined(__DAV_CUBE__)
  Tile<TileType::Mat, float, 2, 64> m;
  TASSIGN(m, 0x0);
  TLOAD(m, in);
#else
  TLOAD(a, in);
  TLOAD(b, in);
#endif
"""


@pytest.mark.parametrize(("text", "calls"), [("TLOAD(a, in);", 1), (ASKING, 2), (MIXED, 5)])
def test_calls_of_both_vector_cores_have_partners(tmp_path: Path, text: str, calls: int) -> None:
    (tmp_path / "k.cpp").write_text(BY_CORE.format(text=text))
    found = Comparison("a2a3")
    with Witness(Checkout.at(Path(__file__).parent / "checkout")) as witness:
        compare(witness, Source(tmp_path / "k.cpp", 1), "a2a3", found)
    assert found.problems == [] and found.unlike == []
    assert (found.calls["tload"], found.unmatched) == (2 * calls, 0), "of each function"
    ((name, line),) = {key[:2] for key in found.overloads}
    header = Checkout.at(Path(__file__).parent / "checkout").texts["pto/pto-inst.hpp"].splitlines()
    assert (name, found.overloads.total()) == ("TLOAD", 2 * calls)
    assert "TLOAD(Tile& dst, GlobalTensor" in header[line - 2] and header[line - 1] == "{"


HEADER = """
template <typename Dst, int Mode = f(1, 2), std::enable_if_t<is_tile_v<Dst>, int> = 0, typename... WaitEvents>
PTO_INST RecordEvent TONE(Dst& dst, typename Dst::DType scalar, int axis = 0, WaitEvents&... events)
{
    MAP_INSTR_IMPL(TONE, dst, scalar);
    return {};
}

PTO_INST void TTWO(uint64_t config)
{
    TOTHER_IMPL(config);
}
"""


def test_overloads_are_read_with_the_lines_of_their_bodies_and_counted() -> None:
    one, two = stated(HEADER)
    assert (str(one), one.line, one.made_of) == ("TONE<int>(dst, scalar, axis)", 4, {"TONE"})
    assert (str(two), two.line, two.made_of) == ("TTWO(config)", 10, {"TOTHER"})
    found = Comparison("a2a3")
    found.overloads.update({("TONE", 4, "agree"): 3, ("TONE", 4, "differ"): 1, ("TONE", 5, "agree"): 1})
    first, second = map(str, overload_rows(found, [two, replace(one, made_of=frozenset())]))
    assert first == "| `TONE<int>(dst, scalar, axis)` | 4 | 4 | 3 |  | 1 |"
    assert second == "| `TTWO(config)` | 10 | declared only: there is no `TOTHER_IMPL` for this target | | | |"


@pytest.mark.parametrize(
    ("text", "core"), [("# none\npto_vec_st(tadd)\n", "vector"), ("pto_cube_st(tmov)", "cube"), ("pto_mix_st(t)", "")]
)
def test_the_core_of_a_test_is_the_one_that_it_is_built_for(tmp_path: Path, text: str, core: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(text)
    assert core_of(tmp_path / "CMakeLists.txt") == core
    assert core_of(tmp_path / "absent.txt") == ""


def test_calls_of_one_side_are_named() -> None:
    assert apart(["tload", "tadd", "tadd"], ["tload", "tmov"]) == (
        "the headers alone: 2 tadd; the machine alone: 1 tmov"
    )
    assert apart(["tload", "tadd"], ["tadd", "tload"]) == "another order"


def test_ranges_are_joined() -> None:
    parts = [np.array(each, np.int64) for each in ([(0, 4)], [(4, 8), (10, 12)])]
    assert union(*parts).tolist() == [[0, 8], [10, 12]]
