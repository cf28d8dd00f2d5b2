"""Overloads of C++ that no other form stands for, as the headers carry them out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.lang.recorded import CppKernel
from tests.cxx.test_header_faults import kernels_of

SUM_IN_PLACE = """
extern "C" __global__ AICORE void twice(__gm__ half* x, __gm__ half* y, __gm__ float* out) {
  GlobalTensor<half, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>> from_x(x), from_y(y);
  GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>> to(out);
  Tile<TileType::Mat, half, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor, 512> a, b;
  TileLeft<half, 16, 16> left;
  TileRight<half, 16, 16> right;
  TileAcc<float, 16, 16> acc;
  TASSIGN(a, 0); TASSIGN(b, 4096); TASSIGN(left, 0); TASSIGN(right, 0); TASSIGN(acc, 0);
  TLOAD(a, from_x);
  TLOAD(b, from_y);
  set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
  TMOV(left, a);
  TMOV(right, b);
  set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
  wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
  TMATMUL(acc, left, right);
  TMATMUL_ACC(acc, left, right);
  set_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  wait_flag(PIPE_M, PIPE_FIX, EVENT_ID0);
  TSTORE(to, acc);
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_product_is_added_to_its_destination(tmp_path: Path, target: str) -> None:
    """TMATMUL_ACC without an accumulator of its own (pto_instr.hpp:768)."""
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-4, 5, (16, 16)).astype("float16") for _ in range(2))
    out = np.zeros((16, 16), "float32")
    (kernel,) = kernels_of(tmp_path, target, [SUM_IN_PLACE])
    kernel[1](x, y, out, target=target)
    assert np.array_equal(out, 2 * (x.astype("float32") @ y.astype("float32")))


def errors(kernel: CppKernel, target: str, *arrays: Any) -> list[str]:
    """What a run on the machine finds to be wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report: Any = kernel[1](*arrays, target=target, engine="machine")
    return [each.message for each in report.findings if each.level == "error"]


COMPARED = """
extern "C" __global__ AICORE void compare(__gm__ float* x, __gm__ float* y) {
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> from_x(x);
  GlobalTensor<float, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 8, 1>> from_y(y);
  Tile<TileType::Vec, uint8_t, 8, 32> mask;
  Tile<TileType::Vec, float, 8, 64> all;
  Tile<TileType::Vec, float, 1, 8> number;
  TASSIGN(mask, 0); TASSIGN(all, 4096); TASSIGN(number, 8192);
  TLOAD(all, from_x);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TLOAD(number, from_y);
  TCMPS(mask, all, number, CmpMode::GT);
}
"""


@pytest.mark.parametrize(("target", "races"), [("a2a3", False), ("a5", True)])
def test_a_number_in_a_tile_is_read_behind_a_flag_of_the_instruction(tmp_path: Path, target: str, races: bool) -> None:
    """On A2/A3 the scalar pipe waits for MTE2 and reads it (TCmps.hpp:134); on A5 vector code does."""
    (kernel,) = kernels_of(tmp_path, target, [COMPARED])
    arrays = np.ones((8, 64), "float32"), np.ones((1, 8), "float32")
    assert bool(errors(kernel, target, *arrays)) == races


POSITIONS = """
extern "C" __global__ AICORE void search{number}(__gm__ float* x, __gm__ float* out) {{
  GlobalTensor<float, Shape<1, 1, 1, 16, {cols}>, Stride<4096, 4096, 4096, {cols}, 1>> from(x);
  Tile<TileType::Vec, float, 16, {width}, BLayout::{layout}, 16, 1> most;
  Tile<TileType::Vec, int32_t, 16, {width}, BLayout::{layout}, 16, 1> where;
  Tile<TileType::Vec, float, 16, {cols}> all, tmp;
  TASSIGN(most, 0); TASSIGN(where, 4096); TASSIGN(all, 8192); TASSIGN(tmp, 65536);
  TLOAD(all, from);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TROWARGMAX(most, where, all, tmp);
  if (where.GetValue(0) > 70000) pipe_barrier(PIPE_ALL);
}}
"""
SEARCHES = [(64, 1, "ColMajor", 1), (64, 8, "RowMajor", 0), (128, 1, "ColMajor", 0)]
"""Columns that are searched, columns of the results and their layout, and whether reading one is an error."""


def test_elements_and_positions_in_rows_come_from_a_scalar_loop(tmp_path: Path) -> None:
    """Of rows longer than a step, and into rows: S waits for V inside (TRowReduceIdxOps.hpp:159, 277)."""
    texts = (POSITIONS.format(number=k, cols=row[0], width=row[1], layout=row[2]) for k, row in enumerate(SEARCHES))
    for kernel, row in zip(kernels_of(tmp_path, "a2a3", texts), SEARCHES, strict=True):
        found = errors(kernel, "a2a3", np.ones((16, row[0]), "float32"), np.ones(8, "float32"))
        assert bool(found) == row[3], row


GATHERED = """
extern "C" __global__ AICORE void gather(__gm__ float* x, __gm__ int32_t* out) {
  GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> from_x(x);
  GlobalTensor<int32_t, Shape<1, 1, 1, 1, 64>, Stride<64, 64, 64, 64, 1>> to(out);
  Tile<TileType::Vec, int32_t, 8, 64> dst;
  Tile<TileType::Vec, float, 8, 64> all;
  Tile<TileType::Vec, uint32_t, 8, 1, BLayout::ColMajor> value;
  Tile<TileType::Vec, int32_t, 8, 1, BLayout::ColMajor> counts;
  Tile<TileType::Vec, uint8_t, 8, 32> tmp;
  Tile<TileType::Vec, int32_t, 1, 64> behind;
  TASSIGN(dst, 0); TASSIGN(all, 4096); TASSIGN(value, 8192); TASSIGN(counts, 8448);
  TASSIGN(tmp, 8704); TASSIGN(behind, 8960);
  TEXPANDS(behind, 1);
  TLOAD(all, from_x);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TGATHER<decltype(dst), decltype(all), decltype(value), decltype(counts), decltype(tmp), CmpMode::GT>(
    dst, all, value, counts, tmp, 0);
  pipe_barrier(PIPE_ALL);
  TSTORE(to, behind);
}
"""


@pytest.mark.parametrize(("target", "is_lost"), [("a2a3", True), ("a5", False)])
def test_a_gather_by_comparison_writes_behind_its_workspace(tmp_path: Path, target: str, is_lost: bool) -> None:
    """On A2/A3 the number of each element lies there (TGather.hpp:281); A5 takes no workspace."""
    (kernel,) = kernels_of(tmp_path, target, [GATHERED])
    found = errors(kernel, target, np.ones((8, 64), "float32"), np.zeros((1, 64), "int32"))
    assert any("tgather" in each and "behind" in each for each in found) == is_lost, found
