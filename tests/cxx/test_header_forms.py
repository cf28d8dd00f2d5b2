"""Calls in C++ that the headers have no form for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from tests.cxx.test_header_faults import kernels_of

COLUMNS = """
extern "C" __global__ AICORE void column{number}(__gm__ float* x) {{
  Tile<TileType::Vec, float, 16, {cols}, BLayout::{of_tile}> tile;
  TASSIGN(tile, 0);
  GlobalTensor<float, Shape<1, 1, 1, 16, {cols}>, Stride<64, 64, 64, {cols}, 1>, Layout::{of_memory}> all(x);
  TLOAD(tile, all);
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_load_keeps_the_layout(tmp_path: Path, target: str) -> None:
    """tload_common.hpp:335 asserts it for tiles of UB, also for those of one column."""
    cases = [(1, "ColMajor", "DN", []), (1, "ColMajor", "ND", ["error"]), (8, "RowMajor", "ND", [])]
    texts = (COLUMNS.format(number=k, cols=row[0], of_tile=row[1], of_memory=row[2]) for k, row in enumerate(cases))
    for kernel, row in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        found = pto.check(kernel, np.zeros(256, "float32"), grid=1, target=target)
        assert [each.level for each in found.findings if each.rule == "CP-HDR-01"] == row[3], row


WITHOUT = """
extern "C" __global__ AICORE void without{number}(__gm__ float* out) {{
  Tile<TileType::Vec, float, 8, 64> tile, other;
  Tile<TileType::Vec, float, 8, 1, BLayout::ColMajor> column;
  TASSIGN(tile, 0);
  TASSIGN(other, 0x1000);
  TASSIGN(column, 0x2000);
  TEXPANDS(tile, 1.0f);
  pipe_barrier(PIPE_ALL);
  {call};
}}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_call_without_the_workspace_that_no_header_leaves_out(tmp_path: Path, target: str) -> None:
    """pto_instr.hpp:1550 has TROWSUM with `tmp` only, and TRSQRT with and without."""
    cases = [("TROWSUM(column, tile)", 1), ("TROWSUM(column, tile, other)", 0), ("TRSQRT(other, tile)", 0)]
    texts = (WITHOUT.format(number=k, call=call) for k, (call, _) in enumerate(cases))
    for kernel, (call, count) in zip(kernels_of(tmp_path, target, texts), cases, strict=True):
        found = pto.check(kernel, np.zeros(512, "float32"), grid=1, target=target)
        assert [each.operand for each in found.findings if each.rule == "CP-HDR-01"] == ["tmp"] * count, call
