"""Texts that move an accumulator into the UB of one vector core of A5, or by halves into both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.text.forms import FORMS, print_program, read_program

M, K, N = 32, 16, 64
MODES = {
    "single_mode_vec0": (M, N, 0), "single_mode_vec1": (M, N, 1),
    "dual_mode_split_m": (M // 2, N, None), "dual_mode_split_n": (M, N // 2, None),
}  # fmt: skip
"""For each mode, the rows and columns of a part, and the vector core that has one; None if both have."""


def _tile(loc: str, rows: int, cols: int, dtype: str, layout: str = "blayout=col_major, slayout=row_major") -> str:
    return f"!pto.tile_buf<{', '.join([loc, f'{rows}x{cols}x{dtype}', *[layout] * bool(layout)])}>"


def _text(mode: str) -> str:
    rows, cols, only = MODES[mode]
    one, other, left = _tile("mat", M, K, "f16"), _tile("mat", K, N, "f16"), _tile("left", M, K, "f16")
    right, part = _tile("right", K, N, "f16", "slayout=col_major"), _tile("vec", rows, cols, "f32", "")
    acc = _tile("acc", M, N, "f32", "blayout=col_major, slayout=row_major, fractal=1024")
    view, whole, to = (
        "!pto.tensor_view<?x?xf16>",
        "!pto.partition_tensor_view",
        f"!pto.partition_tensor_view<{rows}x{cols}xf32>",
    )
    store = f"pto.tstore ins(%part : {part}) outs(%to : {to})"
    if only is not None:
        store = f"%only = arith.cmpi eq, %sub, %c{only} : index\n    scf.if %only {{ {store} }}"
    return f"""
module attributes {{pto.target_arch = "a5"}} {{
  func.func @divided(%out: !pto.ptr<f32>, %x: !pto.ptr<f16>, %y: !pto.ptr<f16>) attributes {{ptokit.mode = "manual"}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = arith.constant {M} : index
    %k = arith.constant {K} : index
    %n = arith.constant {N} : index
    %rows = arith.constant {rows} : index
    %cols = arith.constant {cols} : index
    %down = arith.constant {rows % M} : index
    %across = arith.constant {cols % N} : index
    %first = arith.constant 0 : i64
    %second = arith.constant 4096 : i64
    %xs = pto.make_tensor_view %x, shape = [%m, %k], strides = [%k, %c1] : {view}
    %ys = pto.make_tensor_view %y, shape = [%k, %n], strides = [%n, %c1] : {view}
    %outs = pto.make_tensor_view %out, shape = [%m, %n], strides = [%n, %c1] : !pto.tensor_view<?x?xf32>
    %one = pto.alloc_tile addr = %first : {one}
    %other = pto.alloc_tile addr = %second : {other}
    %left = pto.alloc_tile addr = %first : {left}
    %right = pto.alloc_tile addr = %first : {right}
    %acc = pto.alloc_tile addr = %first : {acc}
    %part = pto.alloc_tile addr = %second : {part}
    %xp = pto.partition_view %xs, offsets = [%c0, %c0], sizes = [%m, %k] : {view} -> {whole}<{M}x{K}xf16>
    %yp = pto.partition_view %ys, offsets = [%c0, %c0], sizes = [%k, %n] : {view} -> {whole}<{K}x{N}xf16>
    pto.tload ins(%xp : {whole}<{M}x{K}xf16>) outs(%one : {one})
    pto.tload ins(%yp : {whole}<{K}x{N}xf16>) outs(%other : {other})
    pto.set_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_MTE1>, <EVENT_ID0>]
    pto.tmov ins(%one : {one}) outs(%left : {left})
    pto.tmov ins(%other : {other}) outs(%right : {right})
    pto.set_flag[<PIPE_MTE1>, <PIPE_M>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE1>, <PIPE_M>, <EVENT_ID0>]
    pto.tmatmul ins(%left, %right : {left}, {right}) outs(%acc : {acc})
    pto.set_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_M>, <PIPE_FIX>, <EVENT_ID0>]
    pto.tmov ins(%acc : {acc}) outs(%part : {part}) {{accToVecMode = #pto.acc_to_vec_mode<{mode}>}}
    pto.sync.set <PIPE_FIX>, 0
    pto.sync.set <PIPE_FIX>, 16
    pto.sync.wait <PIPE_MTE3>, 0
    %sub_i64 = pto.get_subblock_idx
    %sub = arith.index_cast %sub_i64 : i64 to index
    %row = arith.muli %sub, %down : index
    %col = arith.muli %sub, %across : index
    %to = pto.partition_view %outs, offsets = [%row, %col], sizes = [%rows, %cols] : !pto.tensor_view<?x?xf32> -> {to}
    {store}
    return
  }}
}}
"""


@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
@pytest.mark.parametrize("mode", MODES)
def test_each_vector_core_gets_its_part_of_the_product(tmp_path: Path, mode: str, engine: str) -> None:
    """Of the text, and of what every form writes of it."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(-4, 5, (M, K)).astype("float16"), rng.integers(-4, 5, (K, N)).astype("float16")
    program = read_program(_text(mode), "divided.pto")
    for form in FORMS:
        file = tmp_path / f"divided.{form}"
        file.write_text(print_program(program, form))
        out = np.zeros((M, N), "float32")
        report = pto.load(file)[1](out, x, y, target="a5", engine=engine)
        assert not [each for each in report.findings if each.is_fault]
        np.testing.assert_array_equal(out, np.matmul(x.astype("float64"), y.astype("float64")).astype("float32"))
