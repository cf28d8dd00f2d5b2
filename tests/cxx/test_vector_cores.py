"""Both vector cores of a block: what the cube core waits for, and when the second one runs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.cxx.compile import CompileOptions
from ptokit.finding import VerifyError
from ptokit.lang.cpp_entries import CppSource, chosen_entry
from ptokit.lang.recorded import CppKernel, load_entries
from tests.cxx.building import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler")
SOURCES = Path(__file__).with_name("sources")


@lru_cache
def _source(name: str) -> CppSource:
    return CppSource(str(SOURCES / name), CompileOptions())


def _kernel(name: str, target: str, entry: str) -> Any:
    source = _source(name)
    return CppKernel(source, chosen_entry(source.build(target), entry), target)


def _arrays(kernel: Any) -> dict[str, Any]:
    types = {name: kernel.dtype(name) for name in kernel.parameters}
    return {name: np.ones((16, 16), dtype.numpy) for name, dtype in types.items() if dtype}


def _line(name: str, comment: str) -> int:
    text = (SOURCES / name).read_text().splitlines()
    (found,) = [number for number, line in enumerate(text, 1) if comment in line]
    return found


@pytest.mark.parametrize(("target", "waits"), [("a5", "AIC.MTE2"), ("a2a3", "AIC.S")])
def test_a_wait_for_both_needs_the_set_of_the_second(target: str, waits: str) -> None:
    kernel = _kernel("vectors.cpp", target, "launch_one_sets")
    report = kernel[1](**_arrays(kernel), target=target, engine="machine")
    (found,) = [each for each in report.findings if each.level == "error"]
    assert (found.rule, found.message.split(":")[-1].strip()) == ("KN-13", f"{waits} waits forever for flag 0 of AIV1")
    assert found.where.line == _line("vectors.cpp", "the second vector core does not set it")
    with pytest.raises(VerifyError, match="flag 0 of AIV1"):
        kernel[1](**_arrays(kernel), target=target, engine="reference")


def test_a_flag_of_the_first_orders_nothing_of_the_second() -> None:
    kernel = _kernel("vectors.cpp", "a5", "launch_waits_for_one")
    report = kernel[1](**_arrays(kernel), target="a5", engine="machine")
    (found,) = [each for each in report.findings if each.level == "error"]
    assert found.rule == "KN-16"
    assert "AIV1.MTE3" in found.message
    assert found.where.line == _line("vectors.cpp", "the flag of the second vector core has id 16")
    assert str(found.fix).startswith("wait_intra_block(PIPE_MTE2, 16)")


INTO_L1 = """
#include <pto/pto-inst.hpp>
using namespace pto;
using Row = Stride<256, 256, 256, 256, 1>;

extern "C" __global__ AICORE void gather(__gm__ half* x, __gm__ int32_t* at, __gm__ half* scratch, __gm__ half* out) {
  Tile<TileType::Mat, half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 512> tile;
  TASSIGN(tile, 0);
  GlobalTensor<half, Shape<1, 1, 1, 1, 256>, Row> table(x), staged(scratch);
  GlobalTensor<int32_t, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>> indices(at);
  MGATHER<Coalesce::Elem, GatherOOB::Undefined%s>(tile, table, indices, staged);
#if defined(__DAV_CUBE__)
  set_intra_block(PIPE_MTE2, 1);
  set_intra_block(PIPE_MTE2, 17);
#else
  Tile<TileType::Vec, half, 8, 16> rows;
  TASSIGN(rows, 0);
  TEXPANDS(rows, half(1));
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_intra_block(PIPE_MTE3, 1);
  GlobalTensor<half, Shape<1, 1, 1, 8, 16>, Stride<128, 128, 128, 16, 1>> own(out + get_subblockid() * 128);
  TSTORE(own, rows);
#endif
}
"""


@pytest.mark.parametrize("executor", ["", ", GatherExec::Simt"])
def test_a_gather_into_l1_is_one_call_of_both_cores(tmp_path: Path, executor: str) -> None:
    """Each core records it, and the headers divide it: nothing is written to the workspace after it is read."""
    (tmp_path / "k.cpp").write_text(INTO_L1 % executor)
    (kernel,) = load_entries(str(tmp_path / "k.cpp"), "a5")
    arrays = np.ones(256, "float16"), np.arange(256, dtype="int32"), np.zeros(256, "float16"), np.zeros(256, "float16")
    report = kernel[1](*arrays, target="a5", engine="machine")
    assert not [each for each in report.findings if each.is_fault]
    assert arrays[3].tolist() == [1] * 256


APART = """
#include <pto/pto-inst.hpp>
using namespace pto;

extern "C" __global__ AICORE void halves(__gm__ float* x, __gm__ float* out) {
  using Rows = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>>;
#if defined(__DAV_CUBE__)
  Tile<TileType::Mat, float, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 512> tile;
  TASSIGN(tile, 0);
  Rows from(x);
  TLOAD(tile, from);
  set_flag(PIPE_FIX, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_FIX, PIPE_MTE3, EVENT_ID0);
  set_intra_block(PIPE_MTE2, 0);
  set_intra_block(PIPE_MTE2, 16);
#else
  Tile<TileType::Vec, float, 16, 16> rows;
  TASSIGN(rows, 0);
  TEXPANDS(rows, 1.0f);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
  wait_intra_block(PIPE_MTE3, 0);
  if (get_subblockid() == 0) {
    Rows first(out);
    TSTORE(first, rows);
  } else {
    Rows second(out + 256);
    TSTORE(second, rows);
  }
#endif
}
"""


def test_a_flag_that_no_core_has_is_a_note_only(tmp_path: Path) -> None:
    """The cube core sets it and waits for it, and the vector cores do different things."""
    (tmp_path / "k.cpp").write_text(APART)
    (kernel,) = load_entries(str(tmp_path / "k.cpp"), "a5")
    report = kernel[1](np.ones(256, "float32"), np.zeros(512, "float32"), target="a5", engine="machine")
    assert [(each.level, each.rule) for each in report.findings if each.level != "unmodelled"] == [("note", "KN-16")]


HEAD = """
#include <pto/pto-inst.hpp>
using namespace pto;
using Rows = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>>;

extern "C" __global__ AICORE void halves(__gm__ float* x, __gm__ float* out) {
"""
CUBE = """#if defined(__DAV_CUBE__)
  Tile<TileType::Mat, float, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 512> tile;
  TASSIGN(tile, 0);
  wait_intra_block(PIPE_MTE2, 0);
  wait_intra_block(PIPE_MTE2, 16);
  Rows upper(out), lower(out + 256);
  TLOAD(tile, upper);
  pipe_barrier(PIPE_ALL);
  TLOAD(tile, lower);
#else
"""
TILE = """  Tile<TileType::Vec, float, 16, 16> rows;
  TASSIGN(rows, 0);
"""
FILLED = """  TEXPANDS(rows, 1.0f);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
"""
ARMS = """  if (get_subblockid() == 0) {
    Rows first(out);
    TSTORE(first, rows);
    set_intra_block(PIPE_MTE3, 0);
  } else {
    Rows second(out + 256);
    TSTORE(second, rows);
    set_intra_block(PIPE_MTE3, 0);
  }
#endif
"""
JOINED = """  if (get_subblockid() == 0) {
    Rows from(x);
    TLOAD(rows, from);
    set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
    wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
  } else {
    TEXPANDS(rows, 1.0f);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  }
  Rows own(out + 256 * get_subblockid());
  if (get_subblockid() == 1) wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(own, rows);
"""
IN_LOOP = """  for (int i = 0; i < 4; ++i) {
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    Rows from(x + i * 512 + 256 * get_subblockid());
    TLOAD(rows, from);
    if (get_subblockid() == 0) {
      set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
      wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
      TADDS(rows, rows, 1.0f);
      set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
      wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    } else {
      set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
      wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);
    }
    Rows own(out + i * 512 + 256 * get_subblockid());
    TSTORE(own, rows);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
  }
  wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
"""
PRIMED = "  set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);\n"
SECOND = "TSTORE(second, rows);\n    set_intra_block(PIPE_MTE3, 0);"
WHOLE = {
    "joined": HEAD + TILE + JOINED,
    "loop": HEAD + TILE + PRIMED + IN_LOOP,
    "arms": HEAD + CUBE + TILE + FILLED + ARMS,
}
"""Kernels whose vector cores differ, as they should be."""
LOST = [
    ("joined", "    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n"),
    ("joined", "  if (get_subblockid() == 1) wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);\n"),
    ("loop", PRIMED),
    ("loop", "      set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);\n"),
    ("loop", "      wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);\n"),
    ("loop", "      wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID1);\n"),
    ("arms", "  wait_intra_block(PIPE_MTE2, 16);\n"),
    ("arms", SECOND.partition("\n")[2]),
    ("arms", "  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);\n"),
]


def _halves(folder: Path, text: str) -> Any:
    (folder / "k.cpp").write_text(text + "}\n")
    (kernel,) = load_entries(str(folder / "k.cpp"), "a5")
    return kernel[1](np.ones(2048, "float32"), np.zeros(2048, "float32"), target="a5", engine="machine")


@pytest.mark.parametrize("name", WHOLE)
def test_kernels_whose_vector_cores_differ_are_clean(tmp_path: Path, name: str) -> None:
    report = _halves(tmp_path, WHOLE[name])
    assert report.ok, report


@pytest.mark.parametrize(("name", "line"), LOST)
def test_a_repair_of_one_vector_core_is_made_in_the_source(tmp_path: Path, name: str, line: str) -> None:
    """What is inserted is for the core that lacks it, and the changed source is clean."""
    assert line in WHOLE[name]
    report = _halves(tmp_path, WHOLE[name].replace(line, "", 1))
    assert not report.ok
    (repair,) = report.repairs
    assert len(repair.edits) <= 2, repair
    (text,) = repair.patch.after.values()
    again = _halves(tmp_path, text.removesuffix("}\n"))
    assert again.ok, text


ONE_EACH = """
#include <pto/pto-inst.hpp>
#include <pto/common/kernel_meta.hpp>
using namespace pto;
using Rows = GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>>;
#if defined(PTO_NPU_ARCH_A5)
#define GIVE(pipe, id) set_intra_block(pipe, id)
#define TAKE(pipe, id) wait_intra_block(pipe, id)
#else
#define GIVE(pipe, id) ffts_cross_core_sync(pipe, getFFTSMsg(0x2, id))
#define TAKE(pipe, id) wait_flag_dev(id)
#endif
PTO_SYNCALL_MIX_AIC_KERNEL_META(ones_mix_aic, 1, 1);

namespace own {
template <typename T>
__global__ AICORE void ones(__gm__ uint64_t* flags, __gm__ T* out) {
#if !defined(PTO_NPU_ARCH_A5)
  set_ffts_base_addr(reinterpret_cast<uint64_t>(flags));
#endif
#if defined(__DAV_CUBE__)
  Tile<TileType::Mat, T, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 512> tile;
  TASSIGN(tile, 0);
  TAKE(PIPE_MTE2, 0);
  Rows from(out);
  TLOAD(tile, from);
#else
  Tile<TileType::Vec, T, 16, 16> rows;
  TASSIGN(rows, 0);
  TEXPANDS(rows, T(get_subblockdim()));
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  Rows to(out);
  TSTORE(to, rows);
  GIVE(PIPE_MTE3, 0);
#endif
}
}

extern "C" void launch(uint64_t* flags, float* out, void* stream) {
  own::ones<float><<<1, nullptr, stream>>>(flags, out);
}
"""


def _ones(folder: Path, target: str, text: str, *flags: str) -> tuple[Any, Any]:
    (folder / "k.cpp").write_text(text)
    source = CppSource(str(folder / "k.cpp"), CompileOptions(flags=flags))
    kernel = CppKernel(source, chosen_entry(source.build(target), "launch"), target)
    out = np.zeros((16, 16), "float32")
    return kernel[1](np.zeros(1024, "uint64"), out, target=target, engine="machine"), out


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_launch_states_one_vector_core_for_each_cube_core(tmp_path: Path, target: str) -> None:
    """By the name of the kernel (kernel_meta.hpp:54), or for a whole build (syncall_soft.hpp:73)."""
    report, out = _ones(tmp_path, target, ONE_EACH)
    assert report.ok, report
    assert (out == 1).all()
    for other in ("(ones_mix_aic, 1, 2)", "(other, 1, 1)"):
        report, _ = _ones(tmp_path, target, ONE_EACH.replace("(ones_mix_aic, 1, 1)", other))
        assert "CO-SEM-02" in {found.rule for found in report.hazards}
    assert _ones(
        tmp_path, target, ONE_EACH.replace("(ones_mix_aic, 1, 1)", "(other, 1, 2)"), "-D__MIX_CORE_AIV_RATIO__=1"
    )[0].ok


def test_a_single_vector_core_sets_no_flag_of_a_second(tmp_path: Path) -> None:
    text = ONE_EACH.replace("TAKE(PIPE_MTE2, 0);", "TAKE(PIPE_MTE2, 0); TAKE(PIPE_MTE2, 16);")
    report, _ = _ones(tmp_path, "a5", text)
    line = text[: text.index("TAKE(PIPE_MTE2, 16)")].count("\n") + 1
    assert {(found.rule, found.where.line) for found in report.hazards} == {("KN-13", line)}
    assert any("waits forever" in found.message for found in report.hazards)
