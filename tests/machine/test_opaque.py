"""Instructions that are known by their effects only, on the machine: order, memory and time are judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.dtype import dtype
from ptokit.isa.opaque import NONE
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.machine.report import MachineReport
from ptokit.program.ir import Instr, Program, TileDecl, TileUse
from ptokit.text.forms import print_program

TILE, PART = "!pto.tile_buf<vec, 8x16xf32>", "!pto.partition_tensor_view<8x16xf32>"
HEAD = f"""
func.func @k(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 512 : i64
  %xv = pto.make_tensor_view %x, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<8x16xf32>
  %xp = pto.partition_view %xv, offsets = [%c0, %c0], sizes = [%c8, %c16] : !pto.tensor_view<8x16xf32> -> {PART}
  %ov = pto.make_tensor_view %out, shape = [%c8, %c16], strides = [%c16, %c1] : !pto.tensor_view<8x16xf32>
  %op = pto.partition_view %ov, offsets = [%c0, %c0], sizes = [%c8, %c16] : !pto.tensor_view<8x16xf32> -> {PART}
  %t = pto.alloc_tile addr = %a0 : {TILE}
  %u = pto.alloc_tile addr = %a1 : {TILE}
"""
LOAD = f"pto.tload ins(%xp : {PART}) outs(%t : {TILE})"
OPAQUE = f"pto.tpack ins(%t : {TILE}) outs(%u : {TILE})"
STORE = f"pto.tstore ins(%u : {TILE}) outs(%op : {PART})"


def flags(src: str, dst: str) -> list[str]:
    return [f"pto.{act}_flag[<PIPE_{src}>, <PIPE_{dst}>, <EVENT_ID0>]" for act in ("set", "wait")]


LOADED, DONE = flags("MTE2", "V"), flags("V", "MTE3")


def report(folder: Path, *lines: str, target: str = "a5") -> MachineReport:
    text = HEAD + "\n".join(f"  {line}" for line in lines) + "\n  return\n}\n"
    (folder / "k.pto").write_text(text)
    x, out = np.zeros((8, 16), "float32"), np.zeros((8, 16), "float32")
    found = pto.load(str(folder / "k.pto"))[1](x, out, engine="machine", target=target)
    assert isinstance(found, MachineReport)
    return found


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_program_in_order_has_no_fault(tmp_path: Path, target: str) -> None:
    found = report(tmp_path, LOAD, *LOADED, OPAQUE, *DONE, STORE, target=target)
    assert found.ok and [each.level for each in found.findings] == ["unmodelled", "unmodelled"]
    assert found.hazards == ()
    assert "clean, 2 unmodelled" in str(found)


@pytest.mark.parametrize(("missing", "read", "written"), [(LOADED, "%t", "tload"), (DONE, "%u", "tpack")])
def test_a_missing_flag_is_a_race(tmp_path: Path, missing: list[str], read: str, written: str) -> None:
    lines = [LOAD, *LOADED, OPAQUE, *DONE, STORE]
    found = report(tmp_path, *[line for line in lines if line not in missing])
    (race,) = [each for each in found.findings if each.level == "error"]
    first, then = race.ends
    assert (first.instruction, first.how, then.how, then.name) == (written, "write", "read", read)
    assert then.unit == ("V" if read == "%t" else "MTE3")


def test_a_read_of_memory_that_nothing_has_written(tmp_path: Path) -> None:
    found = report(tmp_path, OPAQUE, *DONE, STORE)
    assert [(each.operand, each.unwritten) for each in found.findings if each.is_fault] == [("src", "memory")]


MORE = [f"%{name} = pto.alloc_tile addr = %a{name} : {TILE}" for name in ("v", "w")]
PLACES = ["%av = arith.constant 1024 : i64", "%aw = arith.constant 1536 : i64", "%f = arith.constant 1.0 : f32"]


@pytest.mark.parametrize(("target", "lost"), [("a2a3", True), ("a5", False)])
def test_sources_that_the_headers_overwrite_are_gone(tmp_path: Path, target: str, lost: bool) -> None:
    whole, half = (TILE.replace("f32", kind) for kind in ("i32", "f16"))
    places = {"p": ("%a0", whole), "q": ("%av", whole), "r": ("%aw", whole), "h": ("%a1", half)}
    tiles = [f"%{name} = pto.alloc_tile addr = {at} : {type_}" for name, (at, type_) in places.items()]
    filled = [f"pto.texpands ins(%n : i32) outs(%{name} : {whole})" for name in "pq"]
    added = f"pto.tadddeqrelu ins(%p, %q, %f, %r : {whole}, {whole}, f32, {whole}) outs(%h : {half})"
    read = f"pto.tmov ins(%p : {whole}) outs(%r : {whole})"
    lines = [*PLACES, "%n = arith.constant 7 : i32", *tiles, *filled, added, read]
    found = [each for each in report(tmp_path, *lines, target=target).findings if each.is_fault]
    assert [(each.operand, "overwritten" in each.message) for each in found] == [("src", True)] * lost


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_sum_of_pairs_writes_half_of_the_columns(tmp_path: Path, target: str) -> None:
    summed = f"pto.tpairreducesum ins(%t : {TILE}) outs(%u : {TILE})"
    found = report(tmp_path, LOAD, *LOADED, summed, *DONE, STORE, target=target).findings
    assert ["256 of 512 bytes" in each.message for each in found if each.is_fault] == [True]


@pytest.mark.parametrize(("target", "races"), [("a2a3", 1), ("a5", 0)])
def test_indices_of_a_concatenation_are_read_by_the_scalar_pipe(tmp_path: Path, target: str, races: int) -> None:
    """It waits for a load of them, and for no work of the vector pipe."""
    joined = f"pto.tconcat ins(%t, %t, %v, %v : {TILE}, {TILE}, {TILE}, {TILE}) outs(%u : {TILE})"
    made = f"pto.tneg ins(%t : {TILE}) outs(%v : {TILE})"
    loaded = LOAD.replace("%t", "%v")
    for index, count in ((made, races), (loaded, 0)):
        order = [LOAD, index, *LOADED] if index == loaded else [LOAD, *LOADED, index]
        found = report(tmp_path, *PLACES, *MORE, *order, joined, *DONE, STORE, target=target)
        assert len([each for each in found.findings if each.level == "error"]) == count, found.findings


def test_the_time_of_its_pipe_counts(tmp_path: Path) -> None:
    without = report(tmp_path, LOAD, *LOADED, *DONE)
    found = report(tmp_path, LOAD, *LOADED, OPAQUE, *DONE)
    assert found.timeline is not None and without.timeline is not None
    assert found.timeline.cycles > without.timeline.cycles


def test_a_synchronisation_of_all_cores_begins_with_a_barrier(tmp_path: Path) -> None:
    """Without it, the load and the vector pipe race."""
    assert not report(tmp_path, LOAD, OPAQUE).ok
    assert report(tmp_path, LOAD, "pto.syncall", OPAQUE).ok
    assert not report(tmp_path, LOAD, "pto.tfree", OPAQUE).ok


def test_an_instruction_without_operands_runs(tmp_path: Path) -> None:
    spec = TileSpec(dtype("float32"), TileType.Vec, 8, 16, 8, 16)
    body = (
        TileDecl("t", spec),
        Instr("tpop", (TileUse("t", (8, 16)),), opaque_form="w"),
        Instr("tfree", (), opaque_form=NONE),
    )
    (tmp_path / "k.pto").write_text(print_program(Program("k", (), body)))
    found = pto.load(str(tmp_path / "k.pto"))[2](engine="machine", target="a5")
    assert found.ok and {each.rule for each in found.findings} == {"opaque"}
