"""Repairs in MLIR text and PTO-AS: lines are inserted and removed, and the rest of the text stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptokit.lang.loaded import from_text

AS = """\
// Copy rows.
.kernel copy
.arg %table : !pto.memref<64x16xf32>
.arg %ids : !pto.memref<1x8xi32>
.arg %out : !pto.memref<8x16xf32>

pto.tassign %idx, @tile(0x1000)
pto.tassign %rows, @tile(0x2000)
tload %idx, %ids[0, 0] : (!pto.tile<1x8xi32>, !pto.memref<1x8xi32>)   // the load
%rows = mgather %table, %idx : !pto.memref<64x16xf32>, !pto.tile<1x8xi32> -> !pto.tile<8x16xf32>
tstore %rows, %out
"""
LOAD = "set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]", "wait_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]"
STORE = "set_flag[PIPE_V, PIPE_MTE3, EVENT_ID0]", "wait_flag[PIPE_V, PIPE_MTE3, EVENT_ID0]"

MLIR = """\
module {
  func.func @copy(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>) {
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c0_i64 = arith.constant 0 : i64
    %x_view = pto.make_tensor_view %x, shape = [%c64, %c16], strides = [%c16, %c1] : !pto.tensor_view<64x16xf32>
    %o_view = pto.make_tensor_view %out, shape = [%c64, %c16], strides = [%c16, %c1] : !pto.tensor_view<64x16xf32>
    scf.for %i = %c0 to %c8 step %c1 {  // rows
      %a = pto.alloc_tile addr = %c0_i64 : !pto.tile_buf<vec, 8x16xf32>
      %first = arith.muli %i, %c8 : index
      %from = pto.partition_view %x_view, offsets = [%first, %c0], sizes = [%c8, %c16]
        : !pto.tensor_view<64x16xf32> -> !pto.partition_tensor_view<8x16xf32>
      %to = pto.partition_view %o_view, offsets = [%first, %c0], sizes = [%c8, %c16]
        : !pto.tensor_view<64x16xf32> -> !pto.partition_tensor_view<8x16xf32>
      pto.tload ins(%from : !pto.partition_tensor_view<8x16xf32>) outs(%a : !pto.tile_buf<vec, 8x16xf32>)
      pto.tstore ins(%a : !pto.tile_buf<vec, 8x16xf32>)
                 outs(%to : !pto.partition_tensor_view<8x16xf32>)  // the store
    }
    return
  }
}
"""


def flag(action: str, src: str, dst: str) -> str:
    """A flag in MLIR."""
    return f"pto.{action}_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID0>]"


def given(text: str) -> dict[str, Any]:
    """Arrays for one of the two texts."""
    if "%table" in text:
        table, ids = np.zeros((64, 16), "float32"), np.arange(8, dtype="int32").reshape(1, 8)
        return {"table": table, "ids": ids, "out": np.zeros((8, 16), "float32")}
    return {"x": np.zeros((64, 16), "float32"), "out": np.zeros((64, 16), "float32")}


def repaired(text: str, file: str, target: str = "a5") -> tuple[str, str]:
    """The text after its one repair, and the kind; read again it is clean."""
    (repair,) = from_text(text, file)[1](**given(text), target=target, engine="machine").repairs
    assert not repair.patch.refusal, repair.patch.refusal
    after = repair.patch.after[file]
    report = from_text(after, file)[1](**given(text), target=target, engine="machine")
    assert report.ok, report
    return after, repair.kind


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_plain_text_gets_lines(newline: str) -> None:
    after, _ = repaired(AS.replace("\n", newline), "copy.ptoas")
    lines = after.split(newline)
    assert "\r" not in "".join(lines) and "\n" not in "".join(lines)
    at = next(k for k, line in enumerate(lines) if "// the load" in line)
    assert lines[at + 1 : at + 6] == [*LOAD, AS.splitlines()[9], *STORE]
    assert [line for line in lines if line not in (*LOAD, *STORE)] == AS.split("\n")


def test_statements_that_share_a_line() -> None:
    text = AS.replace("   // the load\n", "; ").replace("tstore", "tstore  ")
    after, _ = repaired(text, "copy.ptoas")
    assert f"{LOAD[0]}; {LOAD[1]}; %rows = mgather" in after


def test_a_text_that_ends_without_a_line_end_and_begins_with_a_mark() -> None:
    text = "\ufeff" + AS.rstrip("\n") + "; set_flag[PIPE_MTE3, PIPE_V, EVENT_ID5]"
    after, _ = repaired(text, "copy.ptoas")
    assert after.startswith("\ufeff// Copy") and "EVENT_ID5" not in after and not after.endswith("\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_mlir_gets_lines_inside_and_around_a_loop(newline: str) -> None:
    after, _ = repaired(MLIR.replace("\n", newline), "copy.pto")
    lines = [line.removesuffix("\r") for line in after.split("\n")]
    added = {
        "    scf.for": ("    " + flag("set", "MTE3", "MTE2"), None),
        "      pto.tload": ("      " + flag("wait", "MTE3", "MTE2"), "      " + flag("set", "MTE2", "MTE3")),
        "      pto.tstore": ("      " + flag("wait", "MTE2", "MTE3"), None),
        "                 outs": (None, "      " + flag("set", "MTE3", "MTE2")),
        "    }": (None, "    " + flag("wait", "MTE3", "MTE2")),
    }
    for start, (before, behind) in added.items():
        at = next(k for k, line in enumerate(lines) if line.startswith(start))
        assert before is None or lines[at - 1] == before
        assert behind is None or lines[at + 1] == behind
    assert after.count("\r\n") == (after.count("\n") if newline == "\r\n" else 0)
    assert [line for line in lines if "_flag" not in line] == MLIR.split("\n")


def buffered(start: int = 0) -> str:
    """The loop with two buffers."""
    first = f"%c{start}"
    text = MLIR.replace("addr = %c0_i64", "addr = %at").replace("= %c0 to", f"= {first} to")
    address = """\
      %c2 = arith.constant 2 : index
      %c512 = arith.constant 512 : index
      %turn = arith.remsi %i, %c2 : index
      %event = arith.muli %turn, %c512 : index
      %at = arith.index_cast %event : index to i64
"""
    return text.replace("      %a = pto.alloc_tile", f"{address}      %a = pto.alloc_tile")


def test_two_buffers_get_two_ids() -> None:
    """The loop computes the id, under a name that the text does not use."""
    after, _ = repaired(buffered(), "copy.pto")
    assert "      %event1 = arith.remsi %i, %event1_buffers : index\n" in after
    assert "pto.wait_flag_dyn[<PIPE_MTE3>, <PIPE_MTE2>, %event1]" in after
    assert after.count("_flag[") == 4 and after.count("_flag_dyn[") == 4


def test_an_id_that_a_text_cannot_compute_is_not_used() -> None:
    after, _ = repaired(buffered(1), "copy.pto")
    assert "_flag_dyn[" not in after and after.count("_flag[") >= 4


def test_mlir_statements_that_share_a_line() -> None:
    text = MLIR.replace("      pto.tload", "      pto.barrier <PIPE_V> pto.tload")
    after, _ = repaired(text, "copy.pto")
    assert f"pto.barrier <PIPE_V> {flag('wait', 'MTE3', 'MTE2')} pto.tload" in after


def test_removals() -> None:
    """A flag and a barrier for nothing; a line that others share stays."""
    whole = AS.replace("   // the load\n", f"\n{LOAD[0]}; {LOAD[1]}\n").replace("tstore", "\n".join((*STORE, "tstore")))
    with_barrier = whole.replace("tstore", "barrier <PIPE_ALL>  // stop\ntstore")
    assert repaired(with_barrier, "copy.ptoas") == (whole, "needless")
    extra = "set_flag[PIPE_MTE2, PIPE_V, EVENT_ID3]", "wait_flag[PIPE_MTE2, PIPE_V, EVENT_ID3]"
    with_flags = whole.replace(f"{LOAD[0]}; {LOAD[1]}", f"{LOAD[0]}; {LOAD[1]}; {extra[0]}; {extra[1]}")
    after, kind = repaired(with_flags, "copy.ptoas")
    assert kind == "needless" and after.count("_flag") == 4 and after.count("\n") == whole.count("\n")


def test_a_text_speaks_its_own_syntax() -> None:
    for text, file, form in ((AS, "copy.ptoas", "as"), (MLIR, "copy.pto", "mlir")):
        (repair,) = from_text(text, file)[1](**given(text), target="a5", engine="machine").repairs
        assert repair.form == form and "pto.set_flag(" not in str(repair)


def test_a_text_without_a_loop() -> None:
    loop = "    scf.for %i = %c0 to %c8 step %c1 {  // rows\n"
    body = MLIR.replace(loop, "").replace("    }\n    return", "    return")
    after, _ = repaired(body.replace("%first = arith.muli %i, %c8", "%first = arith.muli %c1, %c8"), "copy.pto")
    assert after.count("_flag") == 2
