"""Texts that read which vector core of a block they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.forms import FORMS, Form, print_program, read_program

HEAD = """\
module {
  func.func @halves(%out: !pto.ptr<f32>, %x: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c8_i64 = arith.constant 8 : i64
    %sub = pto.get_subblock_idx
"""
ROWS = """\
    %row_i64 = arith.muli %sub, %c8_i64 : i64
"""
BY_ALL = """\
    %count = pto.get_subblock_num
    %block = pto.get_block_idx
    %first = arith.muli %block, %count : i64
    %number = arith.addi %first, %sub : i64
    %row_i64 = arith.muli %number, %c8_i64 : i64
"""
TILE = "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=16, v_row=8, v_col=16, blayout=row_major, slayout=none_box, fractal=512, pad=0>"  # noqa: E501
VIEW, PART = "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<8x16xf32>"
TAIL = f"""\
    %row = arith.index_cast %row_i64 : i64 to index
    %c8 = arith.constant 8 : index
    %xs = pto.make_tensor_view %x, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %outs = pto.make_tensor_view %out, shape = [%c16, %c16], strides = [%c16, %c1] : {VIEW}
    %from = pto.partition_view %xs, offsets = [%row, %c0], sizes = [%c8, %c16] : {VIEW} -> {PART}
    %to = pto.partition_view %outs, offsets = [%row, %c0], sizes = [%c8, %c16] : {VIEW} -> {PART}
    %v = pto.alloc_tile : {TILE}
    pto.tload ins(%from : {PART}) outs(%v : {TILE})
    pto.tadd ins(%v, %v : {TILE}, {TILE}) outs(%v : {TILE})
    pto.tstore ins(%v : {TILE}) outs(%to : {PART})
    return
  }}
}}
"""


def _kernel(tmp_path: Path, body: str) -> Any:
    file = tmp_path / "halves.pto"
    file.write_text(HEAD + body + TAIL)
    return pto.load(str(file))


@pytest.mark.parametrize("target", ["cpu", "a2a3", "a5"])
@pytest.mark.parametrize("engine", ["reference", "native", "machine"])
def test_both_run_a_text_that_asks_which_one_it_is(tmp_path: Path, engine: str, target: str) -> None:
    kernel, x = _kernel(tmp_path, ROWS), np.arange(256, dtype="float32").reshape(16, 16)
    out = np.zeros_like(x)
    run = kernel[1](out, x, target=target, engine=engine)
    np.testing.assert_array_equal(out, 2 * x)
    if engine == "machine" and target != "cpu":
        assert {pipe.partition(".")[0] for pipe in run.timeline.busy} == {"AIV0", "AIV1"}
        assert run.memory["UB"].used == 512


def test_one_runs_a_text_that_asks_how_many_there_are(tmp_path: Path) -> None:
    kernel, x = _kernel(tmp_path, BY_ALL), np.ones((16, 16), "float32")
    out = np.zeros_like(x)
    kernel[1](out, x, target="a5")
    np.testing.assert_array_equal(out.sum(axis=1), [32] * 8 + [0] * 8)
    kernel[2](out, x, target="a5")
    np.testing.assert_array_equal(out, 2 * x)


def test_the_same_rows_are_a_fault(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path, ROWS.replace("%c8_i64", "%sub"))
    x = np.ones((16, 16), "float32")
    report = kernel[1](np.zeros_like(x), x, target="a5", engine="machine")
    (found,) = report.hazards
    assert (found.rule, found.level, found.operand) == ("CO-SEM-02", "error", "dst")
    assert "AIV1.MTE3" in found.message
    assert "AIV0.MTE3" in found.message


@pytest.mark.parametrize("form", FORMS)
def test_texts_keep_the_vector_cores(form: Form) -> None:
    program = read_program(HEAD + ROWS + TAIL, "halves.pto")
    assert program.vector_cores == 2
    again = read_program(print_program(program, form), f"halves.{form}")
    assert again == program


def test_cpp_runs_on_both() -> None:
    source = emit(read_program(HEAD + ROWS + TAIL, "halves.pto"), profile("a5"))
    assert "get_subblockid();" in source
    assert "get_subblockid() != 0" not in source
