"""PTO-AS: every form of the documents is read, the print is canonical, comments stay, and errors are readable."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptokit.isa.dtype import BASE, FLOAT8, dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Coalesce, GatherExec, GatherOOB, Pad, SLayout, TileType
from ptokit.isa.unknown import Unknown, is_unknown
from ptokit.program.ir import Constant, Instr, Program
from ptokit.text.errors import TextError
from ptokit.text.limits import MAX_BYTES, MAX_DEPTH
from ptokit.text.lower import lower
from ptokit.text.ptoas import format_ptoas, parse_ptoas, print_ptoas, read_ptoas
from ptokit.text.ptoas.types import agree, read_type, type_text
from ptokit.text.tree import Body, Function, Opaque, Operation, Pointer, Source, Tensor, Unit, Value, walk

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = sorted((ROOT / "tests/corpus").glob("*.ptoas"))
NOT_EXECUTED = {"communication", "unknown"}
FUZZ = 300 * int(os.environ.get("PTOKIT_FUZZ", "0")) or 80

MEM = "!pto.memref<1000x32xf32>"
PART = "!pto.partition_tensor_view<1000x32xf32>"
BLOCK = "!pto.partition_tensor_view<16x32xf32>"
TILE = "!pto.tile<16x32xf32>"
ROW = "!pto.tile<1x16xi32>"
COL = "!pto.tile<16x1xi32>"
ELEM = "!pto.tile<16x32xi32>"


def ops(text: str) -> list[Operation]:
    """The operations of a text, without those that only make numbers or end a body."""
    (function,) = read_ptoas(text).functions
    return [op for op in walk(function.body) if op.name not in ("arith.constant", "scf.yield")]


def named(values: tuple[Value, ...]) -> list[str]:
    return [value.name for value in values]


class Facts:
    """The content of a tree, with values numbered in order; numbers and blocks are inline."""

    def __init__(self, *, modes: bool = True) -> None:
        self.modes = modes
        self.known: dict[Value, Any] = {}
        self.count = 0

    def unit(self, unit: Unit) -> list[Any]:
        return [(function.name, dict(function.attributes), self.body(function.body)) for function in unit.functions]

    def value(self, value: Value) -> Any:
        if value not in self.known:
            self.count += 1
            self.known[value] = self.count, value.type
        return self.known[value]

    def body(self, body: Body) -> Any:
        arguments = [self.value(value) for value in body.arguments]
        return arguments, [fact for fact in map(self.operation, body.operations) if fact]

    def operation(self, op: Operation) -> Any:
        parts = {key: [self.value(value) for value in values] for key, values in op.parts.items()}
        attributes = {key: said for key, said in op.attributes.items() if self.modes or key != "coalesce"}
        if op.name in ("arith.constant", "partition_view"):
            self.known[op.results[0]] = op.name, parts, op.results[0].type, attributes
            return None
        if op.name in ("scf.yield", "func.return") and not parts:
            return None
        results = [self.value(value) for value in op.results]
        return op.name, parts, results, attributes, [self.body(body) for body in op.bodies]


def facts(unit: Unit, *, modes: bool = True) -> list[Any]:
    return Facts(modes=modes).unit(unit)


def program(text: str) -> Program:
    return lower(read_ptoas(text))


# --- the corpus


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 20


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_round_trips(path: Path) -> None:
    unit = read_ptoas(path.read_bytes(), path.name)
    text = print_ptoas(unit)
    again = read_ptoas(text, path.name)
    assert print_ptoas(again) == text
    formatted = format_ptoas(path.read_bytes(), path.name)
    assert format_ptoas(formatted, path.name) == formatted
    assert print_ptoas(read_ptoas(formatted, path.name)) == text


@pytest.mark.parametrize("path", [path for path in CORPUS if path.stem not in NOT_EXECUTED], ids=lambda path: path.stem)
def test_corpus_is_the_same_program_after_printing(path: Path) -> None:
    unit = read_ptoas(path.read_bytes(), path.name)
    assert lower(read_ptoas(print_ptoas(unit), path.name)) == lower(unit)


@pytest.mark.parametrize("stem", sorted(NOT_EXECUTED))
def test_ops_without_a_lowering_are_refused_by_lowering_alone(stem: str) -> None:
    unit = read_ptoas((ROOT / f"tests/corpus/{stem}.ptoas").read_bytes(), stem)
    with pytest.raises(TextError, match="no lowering"):
        lower(unit)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_formatting_keeps_every_comment_and_every_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8-sig")
    printed = format_ptoas(text, path.name)
    comments = re.findall(r"(?://|--|^\s*#)\s*([^\n]*)", text, re.MULTILINE)
    for comment in comments:
        assert f"// {comment.strip()}" in printed
    assert set(re.findall(r"%\w+", re.sub(r"(//|--|^\s*#).*", "", text))) <= set(re.findall(r"%\w+", printed))


# --- the forms of the documents


@pytest.mark.clause("MG-ASM-01", "A-25", "CO-ASM-01", "CO-ASM-02")
def test_bare_mgather_is_row_and_undefined() -> None:
    found = program(f"%dst = mgather %mem, %idx : {MEM}, {ROW} -> {TILE}")
    assert found == program(f"%dst = mgather.row %mem, %idx : {MEM}, {ROW} -> {TILE}")
    (gather,) = [stmt for stmt in found.body if isinstance(stmt, Instr)]
    assert [operand.__class__.__name__ for operand in gather.operands] == ["TileUse", "View", "TileUse"]
    assert gather.modifiers in ((None, None, None), (Coalesce.Row, GatherOOB.Undefined, None))


@pytest.mark.clause("MG-ASM-02", "MG-ASM-03", "CO-ASM-03")
@pytest.mark.parametrize(("mode", "index"), [("row", ROW), ("elem", ELEM)])
def test_mgather_with_a_mode_has_its_destination_first(mode: str, index: str) -> None:
    *_, gather = ops(f"mgather.{mode} %dst, %table, %idx : ({TILE}, {MEM}, {index})")
    assert gather.attributes == {"coalesce": mode}
    assert (named(gather.outs), named(gather.ins)) == (["dst"], ["table", "idx"])


@pytest.mark.clause("MG-ASM-04", "A-27")
@pytest.mark.parametrize("policy", ["clamp", "wrap", "zero"])
@pytest.mark.parametrize("opcode", ["mgather.row.{}", "mgather_row_{}", "pto.mgather.row.{}", "mgather.{}.row"])
def test_policies_of_mgather_are_suffixes(opcode: str, policy: str) -> None:
    *_, gather = ops(f"{opcode.format(policy)} %dst, %table, %idx : ({TILE}, {MEM}, {ROW})")
    assert gather.attributes == {"coalesce": "row", "gatherOob": policy}


@pytest.mark.clause("A-27")
def test_mgather_into_l1_has_a_scratch_and_a_collector() -> None:
    found = lower(read_ptoas((ROOT / "tests/corpus/gather_into_l1.ptoas").read_bytes()))
    (gather,) = [stmt for stmt in found.body if isinstance(stmt, Instr)]
    assert len(gather.operands) == 4
    assert gather.modifiers[1:] == (GatherOOB.Zero, GatherExec.Simt)


@pytest.mark.clause("MG-ASM-05", "A-26", "CO-ASM-04")
def test_level_one_lacks_a_mark_and_has_its_arrow_on_the_next_line() -> None:
    full = "!pto.tile<vec, f32, 16, 32, row_major, none_box, 512, null>"
    text = f"%dst = pto.mgather %mem, %idx : ({PART}, pto.tile<1x16xi32>)\n-> {full}"
    assert program(text) == program(f"%dst = mgather %mem, %idx : {PART}, {ROW} -> {TILE}")
    assert f": ({PART}, {ROW}) -> {TILE}" in print_ptoas(read_ptoas(text))


@pytest.mark.clause("MG-ASM-06")
def test_level_two_mgather() -> None:
    *_, gather = ops(f"pto.mgather ins(%mem, %idx : {PART}, !pto.tile_buf<vec, 1x16xi32>) outs(%dst : {TILE})")
    assert (named(gather.outs), named(gather.ins)) == (["dst"], ["mem", "idx"])


@pytest.mark.clause("MG-ASM-07", "A-26", "CO-ASM-06")
def test_listings_print_no_result_type() -> None:
    text = f"%dst = pto.mgather %mem, %idx : ({PART}, {ROW})"
    assert program(text) == program(f"{text} -> {TILE}")
    (*_, gather) = ops(f"%dst = mgather.elem %mem, %idx : ({PART}, {ELEM})")
    assert type_text(gather.results[0].type) == TILE


ORDERS = {
    "src, mem, idx with the types of mem, src, idx": f"mscatter %src, %mem, %idx : {MEM}, {TILE}, {COL}",
    "src, mem, idx": f"mscatter %src, %mem, %idx : {TILE}, {MEM}, {COL}",
    "src, idx, mem": f"mscatter %src, %idx, %mem : {TILE}, {COL}, {MEM}",
    "Level 1": f"pto.mscatter %src, %idx, %mem : ({TILE}, {COL}, {MEM}) -> ()",
    "Level 2": f"pto.mscatter ins(%src, %idx : {TILE}, {COL}) outs(%mem : {MEM})",
    "table, src, idx": f"mscatter.row %mem, %src, %idx : ({MEM}, {TILE}, {COL})",
}


@pytest.mark.clause("MS-ASM-01", "MS-ASM-02", "MS-ASM-03", "MS-ASM-04", "A-24")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("declared", [False, True])
def test_all_orders_of_mscatter_are_one_program(order: str, declared: bool) -> None:
    head = f".kernel kernel\n.arg %mem : {MEM}\n%src = alloc_tile : {TILE}\n%idx = alloc_tile : {COL}\n"
    found = program(head + ORDERS[order] if declared else ORDERS[order])
    assert found == program(ORDERS["table, src, idx"])
    assert f"mscatter.row %mem, %src, %idx : ({MEM}, {TILE}, {COL})" in print_ptoas(read_ptoas(ORDERS[order]))


@pytest.mark.clause("MS-ASM-05")
def test_mscatter_of_elements() -> None:
    *_, scatter = ops(f"mscatter.elem %table, %src, %idx : ({MEM}, {TILE}, {ELEM})")
    assert scatter.attributes == {"coalesce": "elem"}
    assert (named(scatter.outs), named(scatter.ins)) == (["table"], ["src", "idx"])


@pytest.mark.clause("MS-ASM-06", "A-27")
@pytest.mark.parametrize("suffixes", ["atomic_add.clamp", "clamp.atomic_add"])
def test_atomics_and_policies_stand_in_either_order(suffixes: str) -> None:
    text = f"mscatter.row.{suffixes}.last %table, %src, %idx : ({MEM}, {TILE}, {COL})"
    *_, scatter = ops(text)
    said = {"coalesce": "row", "scatterAtomicOp": "add", "scatterOob": "clamp", "scatterConflict": "last"}
    assert scatter.attributes == said
    assert "mscatter.row.atomic_add.clamp.last %table, %src, %idx :" in print_ptoas(read_ptoas(text))


@pytest.mark.clause("A-25")
@pytest.mark.parametrize(("index", "opcode"), [(COL, "mscatter.row "), (ELEM, "mscatter.elem "), (ROW, "mscatter ")])
def test_the_mode_of_a_bare_mscatter_follows_from_its_index(index: str, opcode: str) -> None:
    assert f"\n{opcode}%m" in print_ptoas(read_ptoas(f"mscatter %s, %m, %i : {MEM}, {TILE}, {index}"))


@pytest.mark.clause("TS-ASM-01", "TS-ASM-02")
@pytest.mark.parametrize("types", [f"{TILE}, {ELEM} -> {TILE}", f"({TILE}, {ELEM}) -> {TILE}"])
@pytest.mark.parametrize("opcode", ["tscatter", "pto.tscatter"])
def test_tscatter_gives_a_tile(opcode: str, types: str) -> None:
    *_, scatter = ops(f"%dst = {opcode} %src, %idx : {types}")
    assert (named(scatter.results), named(scatter.ins)) == (["dst"], ["src", "idx"])


@pytest.mark.clause("TS-ASM-03")
def test_level_two_tscatter_and_its_flat_reading() -> None:
    *_, scatter = ops(f"pto.tscatter ins(%src, %idx : {TILE}, {ELEM}) outs(%dst : {TILE})")
    assert (named(scatter.outs), named(scatter.ins)) == (["dst"], ["src", "idx"])
    *_, flat = ops(f"tscatter.flat %dst, %src, %idx : ({TILE}, {TILE}, {ELEM})")
    assert (named(flat.outs), flat.attributes) == (["dst"], {"index": "flat"})


@pytest.mark.clause("CO-ASM-05")
@pytest.mark.parametrize("mark", ["#", "   #", "//", "--", "\t#"])
def test_comment_lines(mark: str) -> None:
    text = f"{mark} pto.tassign %arg0, @tile(0x1000)\n%dst = tabs %src : {TILE} -> {TILE}"
    assert [op.name for op in ops(text)] == ["alloc_tile", "tabs"]
    assert "// pto.tassign %arg0, @tile(0x1000)\n" in format_ptoas(text)


@pytest.mark.clause("CO-ASM-07")
@pytest.mark.parametrize("address", ["@tile(0x1000)", "@tile(4096)", "0x1000", "4096"])
def test_manual_mode_binds_tiles_before_they_are_written(address: str) -> None:
    text = f"pto.tassign %dst, {address}\n%dst = mgather %mem, %idx : {MEM}, {ROW} -> {TILE}"
    names = [op.name for op in ops(text)]
    assert names == ["alloc_tile", "tassign", "alloc_tile", "mgather"]
    assert "tassign %dst, @tile(0x1000)\n" in print_ptoas(read_ptoas(text))
    assert program(text).mode == "manual"


@pytest.mark.clause("A-28")
@pytest.mark.parametrize("element", ["ui32", "i16", "ui16", "u32"])
def test_index_tiles_of_other_types_and_valid_extents(element: str) -> None:
    spec = read_type(f"!pto.tile<vec, {element}, 16, 32, row_major, none_box, 512, null, valid=8x?>")
    assert isinstance(spec, TileSpec)
    assert spec.dtype is dtype(element)
    assert (spec.valid_rows, is_unknown(spec.valid_cols), spec.dynamic) == (8, True, (False, True))
    assert type_text(spec) == f"!pto.tile<16x32x{dtype(element).mlir}, valid=8x?>"


def test_operations_between_cores_are_kept_under_a_name_of_their_own() -> None:
    (op,) = ops(f"tscatter %group, %src : (!pto.group<..>, {MEM})")
    assert (op.name, named(op.ins)) == ("comm.tscatter", ["group", "src"])
    head = f".kernel k\n.arg %src : {MEM}\n"
    unit = read_ptoas(head + "%group = make_group : () -> !pto.group<..>\ncomm.tscatter %group, %src")
    with pytest.raises(TextError, match=r"make_group.*no lowering"):
        lower(unit)


# --- loads, stores and blocks


@pytest.mark.parametrize(
    "text",
    [
        f"%t = tload %x[%r, %c] : ({MEM}, index, index) -> {TILE}\ntstore %t, %x[%r, %c]",
        f"tload %t, %x[%r, %c] : ({TILE}, {MEM}) -> {TILE}\ntstore %t, %x[%r, %c]",
        f"%t = tload %x[%r, %c] : {MEM} -> {TILE}\ntstore %x[%r, %c], %t",
        f"%w = partition_view %x, offsets = [%r, %c], sizes = [16, 32] : ({MEM}) -> {BLOCK}\n"
        f"%t = pto.tload %w : {BLOCK} -> {TILE}\npto.tstore %t, %w : ({TILE}, {BLOCK}) -> ()",
    ],
)
def test_a_view_with_indices_is_a_block_as_large_as_the_tile(text: str) -> None:
    head = f".kernel kernel\n.arg %x : {MEM}\n.arg %r : index\n.arg %c : index\n"
    stmts = [str(stmt.operands) for stmt in program(head + text).body if isinstance(stmt, Instr)]
    assert len(stmts) == 2
    assert all("starts=(Var('r'), Var('c')), sizes=(16, 32)" in stmt for stmt in stmts)


def test_a_block_of_a_tile_with_open_extents_has_them_too() -> None:
    text = f".kernel k\n.arg %x : {MEM}\n.arg %n : index\n"
    text += "%t = alloc_tile valid_row = %n : !pto.tile<16x32xf32, valid=?x32>"
    *_, part, load = ops(f"{text}\ntload %t, %x[0, 0]")
    assert part.name == "partition_view" and load.ins == part.results
    assert part.part("sizes")[0].name == "n"
    assert part.results[0].type == Tensor((None, 32), dtype("f32"))
    assert "tload %t, %x[0, 0] :" in print_ptoas(read_ptoas(f"{text}\ntload %t, %x[0, 0]"))


def test_a_block_of_a_vector_and_of_five_dims() -> None:
    *_, part, _ = ops("%t = tload %x[%i] : !pto.memref<512xi32> -> !pto.tile<1x16xi32>")
    assert part.results[0].type == Tensor((16,), dtype("i32"))
    *_, part, _ = ops("tload %t, %x[%r, %c] : (tile<f32,16,16>, memref<f32,5>) -> tile<f32,16,16>")
    assert part.results[0].type == Tensor((1, 1, 1, 16, 16), dtype("f32"))
    assert len(part.part("offsets")) == 5


def test_a_store_may_add() -> None:
    *_, store = ops(f"tstore %tile, %tensor : {TILE}, {PART} #atomic=add")
    assert store.attributes == {"atomicType": "atomic_add"}
    *_, store = ops(f".arg %x : {PART}\n%t = alloc_tile : {TILE}\ntstore %t, %x #atomic=add")
    assert store.attributes == {"atomicType": "atomic_add"}


# --- values that come from nowhere


def test_a_listing_without_a_header_gets_one() -> None:
    text = print_ptoas(read_ptoas(f"tload %tile, %tensor[%r, %c] : ({TILE}, {MEM}) -> {TILE}", "some-page.ptoas"))
    assert text == (
        f".kernel some_page\n.arg %tensor : {MEM}\n.arg %r : index\n.arg %c : index\n\n"
        f"%tile = alloc_tile : {TILE}\ntload %tile, %tensor[%r, %c] : ({TILE}, {MEM})\n"
    )


@pytest.mark.parametrize("file", ["<text>", "-", "...", ""])
def test_a_kernel_without_any_name_is_called_kernel(file: str) -> None:
    assert read_ptoas("barrier PIPE_ALL", file).functions[0].name == "kernel"


def test_tiles_are_declared_before_the_loop_that_uses_them_first() -> None:
    found = ops(f"for %i = 0 to 4 step 1 {{\n  tabs %d, %s : {TILE}\n}}\ntabs %d, %d")
    assert [op.name for op in found] == ["alloc_tile", "alloc_tile", "scf.for", "tabs", "tabs"]


def test_a_result_that_is_a_tile_already_is_written_again() -> None:
    text = f"%t = texpands 0.0 : f32 -> {TILE}\n%t = tadds %t, 1.0 : {TILE}, f32 -> {TILE}"
    *_, add = ops(text)
    assert (named(add.outs), add.results) == (["t"], ())


def test_a_type_may_come_later() -> None:
    found = read_ptoas(f"tassign %a, @tile(0x0)\ntabs %b, %a : {TILE}").functions[0]
    assert [type_text(op.results[0].type) for op in found.body.operations if op.results] == [TILE, TILE]


# --- statements


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]", "set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]"),
        ("pto.set_flag [<PIPE_MTE2>, #pto.pipe<PIPE_V>, #pto<event EVENT_ID0>]",
         "set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0]"),
        ("wait_flag MTE2, V, 3", "wait_flag[PIPE_MTE2, PIPE_V, EVENT_ID3]"),
        ("set_flag[PIPE_V, PIPE_S, %n]", "set_flag[PIPE_V, PIPE_S, %n]"),
        ("wait_flag_dyn[<PIPE_V>, <PIPE_S>, %n]", "wait_flag[PIPE_V, PIPE_S, %n]"),
        ("barrier #pto.pipe<PIPE_V>;", "barrier PIPE_V"),
        ("pto.record_event[TLOAD, TVEC, EVENT_ID1]", "record_event[TLOAD, TVEC, EVENT_ID1]"),
        ("%b = pto.get_block_idx", "%b = get_block_idx"),
        ("%m = arith.minsi %n, 16", "%m = arith.minsi %n, 16 : index"),
        ("%m = arith.index_cast %n : index to i64", "%m = arith.index_cast %n : index to i64"),
        ("%m = arith.cmpi slt, %n, %n : index", "%m = arith.cmpi slt, %n, %n : index"),
        ("%c = arith.constant 1.5 : f32", ".const %c = 1.5 : f32"),
        (".const %c = 0x3FC0 : bf16", ".const %c = 1.5 : bf16"),
        (".const %c = 0x7F800000 : f32", ".const %c = 0x7F800000 : f32"),
        (".const %c = 0.1 : f16", ".const %c = 0.1 : f16"),
        ("%x = load_scalar %p[%n]", "%x = load_scalar %p[%n] : (!pto.ptr<i32>) -> i32"),
        ("%x = alloc_tile addr = 0x20 valid_col = %n : tile<f32, 16, 32, valid=16x?>",
         "%x = alloc_tile addr = 32 valid_col = %n : !pto.tile<16x32xf32, valid=16x?>"),
        ("%w = make_tensor_view %p, shape = [%n, 8], strides = [8, 1]",
         "%w = make_tensor_view %p, shape = [%n, 8], strides = [8, 1] : !pto.memref<?x8xi32>"),
        ("TADD %t, %t, %t", f"tadd %t, %t, %t : ({TILE}, {TILE}, {TILE})"),
        (f"tadds %t, %t, -2 : {TILE}", f"tadds %t, %t, -2.0 : ({TILE}, {TILE}, f32)"),
        ("tdivs %t, 1.0, %t", f"tdivs %t, 1.0, %t : ({TILE}, f32, {TILE})"),
        (f"%u = tcvt %t {{rnd = \"rtz\"}} : {TILE} -> {ELEM}", f"%u = tcvt %t {{rmode = TRUNC}} : ({TILE}) -> {ELEM}"),
        ("tnew %t {a = 1, b = #pto<cmp lt>, c = [x, \"y z\"], d, e = 2.5 : f32}",
         f'tnew %t {{a = 1, b = lt, c = [x, "y z"], d = true, e = 2.5 : f32}} : ({TILE})'),
        (f"%a, %b = tpair %t : {TILE} -> (i32, i32)", f"%a, %b = tpair %t : ({TILE}) -> (i32, i32)"),
        ("tload %t, %v, pad_mode = <PadValue>", f"tload %t, %v {{pad_mode = PadValue}} : ({TILE}, {MEM})"),
        ("tload %t, %v pad_value = %n",
         f"tload ins(%v : {MEM}) outs(%t : {TILE}) pad_value = [%n]"),
        ("tsync.op #pto.op<TADD>", "tsync.op {op = TADD}"),
        (f"tabs %t, %t\n  : {TILE}", f"tabs %t, %t : ({TILE}, {TILE})"),
        ("tadd %t,\n  %t, // why\n  %t", f"tadd %t, %t, %t : ({TILE}, {TILE}, {TILE})  // why"),
        ("tabs %t!loc=vec, %t", f"tabs %t, %t : ({TILE}, {TILE})"),
        ("tmatmul_acc %t, %t, %t, %t", f"tmatmul.acc %t, %t, %t, %t : ({TILE}, {TILE}, {TILE}, {TILE})"),
    ],
)  # fmt: skip
def test_spellings(written: str, printed: str) -> None:
    head = f".kernel k\n.arg %p : !pto.ptr<i32>\n.arg %n : index\n.arg %t : {TILE}\n.arg %v : {MEM}\n"
    text = print_ptoas(read_ptoas(head + written))
    assert text.splitlines()[6:] == [printed]
    assert print_ptoas(read_ptoas(text)) == text


@pytest.mark.parametrize("end", ["\n", "\r\n", ";", " ; \n", "\n\n\n", ";;\n"])
def test_statements_end_with_a_line_or_a_semicolon(end: str) -> None:
    found = ops(f"\ufeff.kernel k{end}barrier PIPE_V{end}\tbarrier PIPE_ALL{end}")
    assert [op.attributes["pipe"] for op in found] == ["PIPE_V", "PIPE_ALL"]


@pytest.mark.parametrize("text", ["", "\n\n", "  \t", "\ufeff", ";;"])
def test_nothing_is_a_text_too(text: str) -> None:
    assert read_ptoas(text).functions == ()
    assert format_ptoas(text) == ""


def test_comments_alone_are_kept() -> None:
    assert format_ptoas("# one\n\n\n-- two\nlabel:") == "// one\n\n// two\n// label:\n"


def test_where_operations_stand() -> None:
    function = read_ptoas(".kernel k\n\n  barrier PIPE_V; barrier PIPE_ALL", "k.ptoas").functions[0]
    assert [str(op.where) for op in function.body.operations] == ["k.ptoas:3:3", "k.ptoas:3:19"]


def test_names_of_inner_bodies_are_free_afterwards() -> None:
    inner = f"for %i = 0 to 2 step 1 {{\n  %u = tabs %t : {TILE}\n}}\n"
    text = f".kernel k\n.arg %t : {TILE}\n{inner}{inner}"
    assert format_ptoas(text).count("%u = tabs %t") == 2
    with pytest.raises(TextError, match="use of undeclared SSA value name `%u`"):
        read_ptoas(f"{text}tabs %t, %u")


def test_kernels_of_one_text_do_not_know_each_other() -> None:
    unit = read_ptoas(
        f".kernel a\n.arg %x : {MEM}\n.kernel b\n.arg %x : index\n.kernel c {{pto.entry}}\nbarrier PIPE_V"
    )
    assert [(f.name, named(f.arguments)) for f in unit.functions] == [("a", ["x"]), ("b", ["x"]), ("c", [])]
    assert unit.functions[2].attributes == {"pto.entry": True}
    assert lower(unit).name == "c"


def test_a_text_may_name_its_architecture() -> None:
    unit = read_ptoas(".arch a5\n.kernel k\nbarrier PIPE_V")
    assert unit.arch == "a5"
    assert print_ptoas(unit).startswith(".arch a5\n\n.kernel k\n")


def test_comments_stay_where_they_are() -> None:
    assert (
        format_ptoas((ROOT / "tests/corpus/comments.ptoas").read_text())
        == (ROOT / "tests/text/comments.expected").read_text()
    )


# --- types


@pytest.mark.parametrize(
    "text",
    [
        "!pto.tile<16x32xf32>", "pto.tile<16x32xf32>", "tile<16 x 32 x f32>", "!pto.tile_buf<vec, 16x32xf32>",
        "!pto.tile<f32, 16, 32>", "!pto.tile_buf<f32, 16, 32>", "!pto.tile<vec, f32, 16, 32>",
        "!pto.tile<vec, f32, 16, 32, row_major, none_box, 512, null>", "!pto.tile<16x32xfloat32, valid=16x32>",
        "!pto.tile_buf<loc=vec, f32, 16, 32, RowMajor, NoneBox, None, Null>",
        '!pto.tile<loc="vec", dtype=f32, rows=16, cols=32>',
        "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=32, blayout=row_major, slayout=none_box,"
        " fractal=512, pad=0>",
        "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=32, blayout=row_major, slayout=none_box,"
        " fractal=512, pad=0, compact=0>",
        "!pto.tile<Vec, f32, 16, 32, RowMajor, NoneBox, None, Invalid>",
    ],
)  # fmt: skip
def test_spellings_of_one_tile(text: str) -> None:
    assert read_type(text) == TileSpec(dtype("f32"), TileType.Vec, 16, 32, 16, 32)
    assert type_text(read_type(text)) == TILE  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("memref<16x?xf16>", Tensor((16, None), dtype("f16"), False)),
        ("!pto.memref<f16, 16, 32>", Tensor((16, 32), dtype("f16"), False)),
        ("memref<16x32xf16, #pto.address_space<gm>>", Tensor((16, 32), dtype("f16"), False)),
        ("memref<f32,5>", Tensor((None,) * 5, dtype("f32"), False)),
        ("!pto.tensor_view<?x?xf32>", Tensor((None, None), dtype("f32"), False)),
        ("!pto.partition_tensor_view<256xf32>", Tensor((256,), dtype("f32"))),
        ("!pto.ptr<f32>", Pointer(dtype("f32"))),
        ("ptr<!pto.hif8, gm>", Pointer(dtype("hif8"))),
        ("index", "index"),
        ("si32", "i32"),
        ("u8", "ui8"),
        ("!pto.event", Opaque("!pto.event")),
        ("pto.eventid_array<4>", Opaque("!pto.eventid_array<4>")),
    ],
)
def test_other_types(text: str, kind: object) -> None:
    found = read_type(text)
    assert found == kind
    assert read_type(type_text(found)) == kind  # type: ignore[arg-type]


EXTENTS = st.integers(0, 4096)
ELEMENTS = st.sampled_from((*BASE, *FLOAT8, dtype("hif8")))


@st.composite
def tiles(draw: Callable[[Any], Any]) -> TileSpec:
    rows, cols = draw(EXTENTS), draw(EXTENTS)
    dynamic = draw(st.tuples(st.booleans(), st.booleans()))
    valid = [Unknown() if d else draw(st.integers(0, n)) for d, n in zip(dynamic, (rows, cols), strict=True)]
    return TileSpec(
        draw(ELEMENTS), draw(st.sampled_from(TileType)), rows, cols, *valid, draw(st.sampled_from(BLayout)),
        draw(st.sampled_from(SLayout)), draw(st.sampled_from((16, 32, 512, 1024))), draw(st.sampled_from(Pad)),
        dynamic=dynamic,
    )  # fmt: skip


TENSORS = st.builds(Tensor, st.lists(st.none() | EXTENTS, min_size=1, max_size=5).map(tuple), ELEMENTS, st.booleans())


@given(tiles() | TENSORS | ELEMENTS.map(Pointer) | ELEMENTS.map(lambda element: element.mlir))
def test_types_are_read_as_they_are_printed(kind: Any) -> None:
    assert read_type(type_text(kind)) == kind
    assert agree(kind, kind)


# --- trees of all kinds

NAMES = st.text(max_size=4) | st.sampled_from(("a", "a", "b", "0", "x.y", "for"))
NUMBERS = st.sampled_from(("index", "i32", "ui16", "i64"))
WORDS = st.text(max_size=5) | st.sampled_from(("true", "row", "P0101", "a.b", "//", "}"))
FLOATS = st.builds(
    lambda element, bits: Constant(element, bits % (1 << 8 * element.size)),
    st.sampled_from([dtype(name) for name in ("f16", "bf16", "f32")]), st.integers(0, (1 << 32) - 1),
)  # fmt: skip
ATTRIBUTES = st.dictionaries(
    WORDS,
    st.integers(-9, 9) | st.booleans() | WORDS | FLOATS | st.lists(st.integers(-(10**9), 10**9) | WORDS, max_size=3),
    max_size=2,
)


class Trees:
    """Makes random trees that every spelling has a part in."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def value(self, known: list[Value], *kinds: type | str) -> Value | None:
        fitting = [value for value in known if any(_fits(value, kind) for kind in kinds)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def function(self, name: str) -> Function:
        kinds = self.draw(st.lists(tiles() | TENSORS | ELEMENTS.map(Pointer) | NUMBERS | st.just("f32"), max_size=6))
        arguments = tuple(Value(self.draw(NAMES), kind) for kind in kinds)
        return Function(name, Body(self.body(list(arguments), 2), arguments), self.draw(ATTRIBUTES))

    def body(self, known: list[Value], depth: int) -> list[Operation]:
        made: list[Operation] = []
        for _ in range(self.draw(st.integers(0, 4))):
            kinds = ["constant", "alloc", "binary", "gather", "scatter", "store", "view", "flag", "other", "compare"]
            kind = self.draw(st.sampled_from(kinds + ["loop", "branch"] * bool(depth)))
            op = getattr(self, kind)(known, depth)
            if op is not None:
                made.append(op)
                known += op.results
        return made

    def constant(self, known: list[Value], depth: int) -> Operation:
        kind = self.draw(NUMBERS)
        number: Any = self.draw(st.integers(0, 9))
        if self.draw(st.booleans()):
            number = self.draw(FLOATS)
            kind = number.dtype.mlir
        name = self.draw(st.just("") | NAMES)
        return Operation("arith.constant", {}, (Value(name, kind),), {"value": number})

    def alloc(self, known: list[Value], depth: int) -> Operation:
        spec = self.draw(tiles())
        parts = {}
        for part, is_open in zip(("valid_row", "valid_col"), spec.dynamic, strict=True):
            if is_open and (value := self.value(known, "index")) is not None:
                parts[part] = (value,)
        return Operation("alloc_tile", parts, (Value(self.draw(NAMES), spec),))

    def binary(self, known: list[Value], depth: int) -> Operation | None:
        a, b, d = (self.value(known, TileSpec) for _ in range(3))
        if a is None or b is None or d is None:
            return None
        name = self.draw(st.sampled_from(("tadd", "tscatter", "tmatmul.acc", "tgather")))
        ins = (a, b, d) if name == "tmatmul.acc" else (a, b)
        if self.draw(st.booleans()):
            return Operation(name, {"ins": ins}, (Value(self.draw(NAMES), a.type),))
        return Operation(name, {"ins": ins, "outs": (d,)})

    def gather(self, known: list[Value], depth: int) -> Operation | None:
        table, index, dst = self.value(known, Tensor), self.value(known, TileSpec, Tensor), self.value(known, TileSpec)
        if table is None or index is None or dst is None:
            return None
        words = {"coalesce": self.draw(st.sampled_from(("row", "elem")))}
        if self.draw(st.booleans()):
            words["gatherOob"] = self.draw(st.sampled_from(("clamp", "zero", "wrap")))
        return Operation("mgather", {"ins": (table, index), "outs": (dst,)}, (), words)

    def scatter(self, known: list[Value], depth: int) -> Operation | None:
        table, source, index = self.value(known, Tensor), self.value(known, TileSpec), self.value(known, TileSpec)
        if table is None or source is None or index is None:
            return None
        words = {"coalesce": "elem", "scatterAtomicOp": self.draw(st.sampled_from(("add", "max", "min")))}
        return Operation("mscatter", {"ins": (source, index), "outs": (table,)}, (), words)

    def store(self, known: list[Value], depth: int) -> Operation | None:
        view, tile = self.value(known, Tensor), self.value(known, TileSpec)
        if view is None or tile is None:
            return None
        if self.draw(st.booleans()):
            return Operation("tload", {"ins": (view,), "outs": (tile,)})
        return Operation("tstore", {"ins": (tile,), "outs": (view,)}, (), {"atomicType": "atomic_add"})

    def view(self, known: list[Value], depth: int) -> Operation | None:
        view, index = self.value(known, Tensor), self.value(known, "index")
        if view is None or index is None:
            return None
        assert isinstance(view.type, Tensor)
        every = (index,) * len(view.type.dims)
        kind = Tensor((None,) * len(every), view.type.dtype)
        result = Value(self.draw(st.just("") | NAMES), kind)
        return Operation("partition_view", {"view": (view,), "offsets": every, "sizes": every}, (result,))

    def flag(self, known: list[Value], depth: int) -> Operation:
        words = {"src_pipe": "PIPE_MTE2", "dst_pipe": "PIPE_V"}
        event = self.value(known, "index")
        if event is not None and self.draw(st.booleans()):
            return Operation("set_flag_dyn", {"event_id": (event,)}, (), words)
        return Operation("set_flag", {}, (), {**words, "event_id": "EVENT_ID3"})

    def compare(self, known: list[Value], depth: int) -> Operation | None:
        a = self.value(known, "index")
        if a is None:
            return None
        result = Value(self.draw(NAMES), "i1")
        return Operation("arith.cmpi", {"ins": (a, a)}, (result,), {"predicate": "sle"})

    def other(self, known: list[Value], depth: int) -> Operation:
        ins = tuple(self.draw(st.lists(st.sampled_from(known), max_size=3))) if known else ()
        outs = tuple(self.draw(st.lists(st.sampled_from(known), max_size=2))) if known else ()
        parts = {key: values for key, values in (("ins", ins), ("outs", outs)) if values}
        results = tuple(Value(self.draw(NAMES), kind) for kind in self.draw(st.lists(NUMBERS, max_size=2)))
        return Operation("tunknown", parts, results, self.draw(ATTRIBUTES))

    def loop(self, known: list[Value], depth: int) -> Operation | None:
        bound = self.value(known, "index")
        if bound is None:
            return None
        index = Value(self.draw(NAMES), "index")
        body = Body(self.body([*known, index], depth - 1), (index,))
        return Operation("scf.for", {"ins": (bound,) * 3}, (), self.draw(ATTRIBUTES), (body,))

    def branch(self, known: list[Value], depth: int) -> Operation | None:
        condition = self.value(known, "i1")
        if condition is None:
            return None
        bodies = tuple(Body(self.body(list(known), depth - 1)) for _ in range(2))
        return Operation("scf.if", {"ins": (condition,)}, (), {}, bodies)


def _fits(value: Value, kind: type | str) -> bool:
    return value.type == kind if isinstance(kind, str) else isinstance(value.type, kind)


@st.composite
def units(draw: Callable[[Any], Any]) -> Unit:
    trees = Trees(draw)
    names = draw(st.lists(WORDS, min_size=1, max_size=2, unique=True))
    return Unit(tuple(trees.function(name) for name in names), Source(""))


@settings(max_examples=FUZZ, deadline=None)
@given(units())
def test_every_tree_is_read_as_it_is_printed(unit: Unit) -> None:
    text = print_ptoas(unit)
    again = read_ptoas(text)
    assert print_ptoas(again) == text
    assert facts(again) == facts(unit)


def test_an_arm_of_constants_alone_is_not_written() -> None:
    condition, unused = Value("c", "i1"), Value("", "index")
    constant = Operation("arith.constant", {}, (unused,), {"value": 0})
    branch = Operation("scf.if", {"ins": (condition,)}, bodies=(Body(), Body([constant])))
    unit = Unit((Function("k", Body([branch], (condition,))),), Source(""))
    assert "else" not in print_ptoas(unit) and print_ptoas(read_ptoas(print_ptoas(unit))) == print_ptoas(unit)


@given(FLOATS)
def test_numbers_keep_their_bits(number: Constant) -> None:
    operation = Operation("arith.constant", {}, (Value("c", number.dtype.mlir),), {"value": number})
    unit = Unit((Function("k", Body([operation])),), Source(""))
    (function,) = read_ptoas(print_ptoas(unit)).functions
    assert function.body.operations[0].attributes["value"] == number


# --- errors

HEAD = f".kernel k\n.arg %x : {MEM}\n.arg %n : index\n.arg %t : {TILE}\n"
ERRORS = [
    ("mgather.row.clmp %t, %x, %t", 13, "no suffix `.clmp`", "`clamp`"),
    ("mgather.row.elem %t, %x, %t", 13, "two suffixes for `coalesce`: row and elem", ""),
    ("mscatter.row.atomic_mul %x, %t, %t", 14, "no suffix `.atomic_mul`", "`atomic_"),
    ("mgather.row %t, %x, %t {coalesce = elem}", 25, "given twice, by a suffix or by an attribute", ""),
    ("tadd %t, %u, %t", 10, "use of undeclared SSA value name `%u`", ".arg %u"),
    ("tadd %t, %tt, %t", 10, "use of undeclared SSA value name `%tt`", "`%t`"),
    ("tabs %t, %somewhere", 10, "use of undeclared SSA value name `%somewhere`", ".arg %somewhere"),
    (".arg %y : index\nbarrier PIPE_V\n.arg %z : index", 1, "before the statements", ""),
    (".arg %x : index", 6, "redefinition of SSA value `%x`, first defined on line 2", ""),
    (".const %n = 4 : index", 8, "first defined on line 3", ""),
    ("%x = get_block_idx", 1, "redefinition of SSA value", ""),
    (".args %y : index", 1, "unknown directive `.args`", "`.arg`"),
    (".arg %y", 8, "expected `:` and a type, found the end of the text", ""),
    (".arg y : index", 6, "expected a value, such as `%x`, found `y`", ""),
    (".arg %y : f33", 11, "`f33` is no type", "`f32`"),
    (".arg %y : !pto.memref<...>", 11, "`<...>` is a placeholder", ""),
    (".arg %y : !pto.memref<16x32>", 23, "expected an element type behind the extents", ""),
    (".arg %y : !pto.tile<16x32xf23>", 27, "`f23` is no element type", "`f32`"),
    (".arg %y : !pto.tile<16x32xf32", 20, "`<` has no `>` on its line", ""),
    (".arg %y : !pto.tile<vex, 16x32xf32>", 21, "`vex`", "`vec`"),
    (".arg %y : !pto.tile_buf<vec, 16x32xf32, valid=17x32>", 47, "17 valid rows are more than the 16", ""),
    (".arg %y : !pto.tile_buf<vec, 16x32xf32, fractal=100>", 49, "16, 32, 512 or 1024", ""),
    (".arg %y : !pto.tile_buf<vec, 16x32xf32, blayuot=row_major>", 49, "no field `blayuot`", "`blayout`"),
    (".arg %y : !pto.tile_buf<vec, 16x32xf32, blayout=row_mayor>", 49, "`row_mayor` is no layout", "`row_major`"),
    (".arg %y : !pto.tile_buf<vec, 16x32xf32, pad=5>", 45, "`5` is no padding", ""),
    (".arg %y : !pto.tile<vec, f32, 16>", 21, "a tile needs cols", ""),
    (".arg %y : !pto.tile<FR, 16x32xf32>", 21, "write its bytes", ""),
    (".arg %y : memref<16x32xf32, strided<[64, 1]>>", 29, "use make_tensor_view", ""),
    (".arg %y : !pto.ptr<f32, ub>", 25, "points into global memory", ""),
    (".const %c = 1.5 : index", 13, "expected a whole number for index", ""),
    (".const %c = 300 : i8", 13, "300 does not fit i8", ""),
    (".const %c = 1e9 : f16", 13, "not representable", ""),
    (".const %c = many : index", 13, "many", ""),
    (".kernel k", 1, "redefinition of symbol `k`, first defined on line 1", ""),
    (".kernel", 8, "expected the name of the kernel", ""),
    ("tadd %t, %t,", 13, "expected an operand after `,`", ""),
    ("tadd %t %t", 9, "expected the end of the statement, found `%t`", ""),
    ("tadd %t, %t, %t : i32, i32, i32, i32", 34, "4 types for 3 operands", ""),
    (f"tadd %t, %t, %t : {TILE}, {TILE}", 41, "2 types for 3 operands", ""),
    ("tabs %t, %t : !pto.tile<16x64xf32>", 15, "%t is !pto.tile<16x32xf32> (line 4), and not", ""),
    ("tabs %t!loc=mat, %t", 6, "%t lies in vec, and not in mat", ""),
    ("tabs %t!lok=mat, %t", 8, "no modifier `!lok`", ""),
    ("set_flag[PIPE_MTE9, PIPE_V, EVENT_ID0]", 10, "unknown pipe `PIPE_MTE9`", "`PIPE_MTE"),
    ("set_flag[PIPE_MTE2, PIPE_V, EVENT_ID9]", 29, "unknown event `EVENT_ID9`", "`EVENT_ID"),
    ("set_flag[PIPE_MTE2, PIPE_V]", 1, "takes src_pipe, dst_pipe, event_id; found 2", ""),
    ("set_flag[PIPE_MTE2, PIPE_V, EVENT_ID0", 9, "`[` is not closed: expected `]`", ""),
    ("%c = arith.cmpi less, %n, %n : index", 17, "unknown comparison `less`", ""),
    ("for %i = 0 to 4 {\n}", 17, "expected `step` and the step of the loop", ""),
    ("for %i = 0 to 4 step 1\nbarrier PIPE_V", 23, "expected `{`", ""),
    ("for %i = 0 to 4 step 1 {\nbarrier PIPE_V", 24, "`{` is not closed: expected `}`", ""),
    ("barrier PIPE_V\n}", 1, "no body that `}` could close", ""),
    ("for %i = 0 to 4 step 1 {\n} else {\n}", 8, "`else` follows the body of an `if`", ""),
    ("%v = partition_view %x, offset = [0, 0], sizes = [1, 1]", 35, "has no `offset`", "`offsets`"),
    ("%v = partition_view %x, offsets = [0, 0]", 6, "needs `sizes = [...]`", ""),
    ("%v = partition_view %x, %x, offsets = [0, 0], sizes = [1, 1]", 6, "takes 1 operands (view), found 2", ""),
    ("mgather %t, %x[0, 0], %t", 13, "takes a whole table, not a block; make a block with partition_view", ""),
    ("tload %t, %x[0, 0, 0]", 11, "3 indices for the 2 dims", ""),
    ("%u = tload %x[0, 0]", 1, "the type of %u is not known", ""),
    ("%u = tload %x[0, 0] : !pto.memref<...> -> !pto.tile<...>", 43, "is a placeholder", ""),
    ("%u = tload %x[0, 0] -> !pto.tile<16x32xf32, valid=?x32>", 12, "declare the tile first", ""),
    ("mscatter %t, %x : index, index", 10, "takes table, src and idx, found 2 operands", ""),
    ("tnew {a = 1, a = 2}", 14, "the attribute `a` is given twice", ""),
    ("tnew {a = }", 11, "expected an operand", ""),
    ("tnew {= 1}", 7, "expected the key of an attribute", ""),
    ('tnew {a = "no end}', 11, "the string has no end", ""),
    ("tnew ins(%t : !pto.tile<16x32xf32>", 9, "`(` of ins(...) is not closed: expected `)`", ""),
    ("tadd ins(%t, %t : i32, i32 outs(%t : i32)", 9, "`(` of ins(...) is not closed: expected `)`", ""),
    ("tabs %t, %t {a = [1, 2}", 18, "`[` is not closed: expected `]`", ""),
    ("%v = partition_view %x, offsets = [0, 0 sizes = [1, 1]", 35, "`[` is not closed: expected `]`", ""),
    ("%v = partition_view %x, offsets = [0 0], sizes = [1, 1]", 38, "expected `,` or `]`, found `0`", ""),
    ("tassign %t, @tile(0x10", 18, "`(` of tile(...) is not closed: expected `)`", ""),
    ("tassign %t, @tile(here)", 19, "expected an address, such as `@tile(0x1000)`", ""),
    ("tassign %t, @tile(99999999999999999999)", 13, "does not fit i64", ""),
    ("16x32", 1, "cannot read `16x32`", ""),
    ("tabs %t, ?", 10, "cannot read", ""),
    ("%a, %b = get_block_idx", 10, "get_block_idx has 1 result, and 2 are named", ""),
    ("alloc_tile : !pto.tile<16x32xf32>", 1, "alloc_tile has 1 result, and 0 are named", ""),
    ("%a = barrier PIPE_V", 6, "barrier has no results, and 1 are named", ""),
    ("arith.addi %n, %n : index", 1, "arith.addi has 1 result, and 0 are named", ""),
    ("for %i = 0 to 4 step 1 iter_args(%a = %n) -> (index) {\n}", 1, "has 1 result", ""),
    ("%c = arith.select %n, %n : index", 6, "arith.select takes 3 operands, found 2", ""),
    ("%a, %b = tabs %t -> (i32)", 1, "2 results and 1 types of results", ""),
    ("call %t", 1, "expected the name of a kernel", ""),
    ("tabs : i32", 1, "tabs has no operands", ""),
    ("set_validshape ins(%t, %n, %n : index) outs(%t)", 45, "set_validshape has no outs(...)", ""),
    ("%m = arith.addi %n, %n, by = %n", 30, "arith.addi has no `by`, it has none", ""),
    ("tnew ins(%t) ins(%t)", 18, "`ins(...)` is given twice", ""),
    ("barrier PIPE_V : i32 : i32", 22, "expected the end of the statement, found `:`", ""),
    ("tnew #pto<a b c>", 6, "`#pto<a b c>` is not a keyword", ""),
    ("pto. %t", 1, "expected an opcode after `pto.`", ""),
    ("= tabs %t", 1, "expected an opcode, found `=`", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message", "hint"), ERRORS, ids=[error[0][:40] for error in ERRORS])
def test_errors_point_at_the_fault(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(TextError) as caught:
        read_ptoas(HEAD + text, "k.ptoas")
    error = caught.value
    assert message in error.message
    assert hint in error.hint
    assert error.file == "k.ptoas"
    lines = (HEAD + text).split("\n")
    said = str(error).split("\n")
    assert said[0].startswith(f"k.ptoas:{error.line}:{error.column}: ")
    assert said[1].strip() == lines[error.line - 1].strip()
    assert said[2].index("^") - 4 == error.column - 1 == column - 1


def test_every_error_of_a_text_is_reported() -> None:
    text = (
        HEAD
        + """tadd %t {a = }
%v = arith.addi %n : index
%w = arith.addi %v, %n : index
for %i = 0 to 4 step 1 [
  barrier PIPE_Q
}
%u = alloc_tile : !pto.tile<16x32xint33>
set_flag[PIPE_MTE2, PIPE_V
tabs %t, %t
tabs %t, %nowhere
"""
    )
    with pytest.raises(TextError) as caught:
        read_ptoas(text, "k.ptoas")
    first = HEAD.count("\n") + 1
    lines = [error.line - first for error in caught.value.errors]
    assert lines == [0, 1, 3, 4, 6, 7, 9]
    assert lines == [error.line - first for error in parse_ptoas(text, "k.ptoas").errors]
    assert str(caught.value).count("k.ptoas:") == 7
    assert "`[` is not closed" in caught.value.errors[5].message
    assert caught.value.errors[4].hint == "did you mean `i32`?"


def test_at_most_five_suffixes_are_suggested() -> None:
    with pytest.raises(TextError, match=r"no suffix `\.rom`, expected: (\w+ ){5}\.\.\.") as caught:
        read_ptoas(HEAD + "pto.mgather.rom.clamp %t, %x, %t", "k.ptoas")
    assert caught.value.column == len("pto.mgather.") + 1 and caught.value.hint == "did you mean `row`?"


def test_placeholders_of_the_pages_are_refused_with_what_to_write() -> None:
    with pytest.raises(TextError) as caught:
        read_ptoas("mscatter %src, %mem, %idx : !pto.memref<...>, !pto.tile<...>, !pto.tile<...>", "page")
    assert str(caught.value).startswith("page:1:47: `<...>` is a placeholder, and the type of %src is not known")
    assert "as in !pto.tile<16x32xf32>" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"barrier PIPE_V\n\xff", "byte 15 (0xff) is not UTF-8"),
        ("for %i = 0 to 1 step 1 {\n".replace("%i", "%i{}"), f"nested more than {MAX_DEPTH} deep"),
        ("foo " + "%a, " * 2000, "more than 1000 operands"),
        ("foo %a : " + "i32, " * 2000, "more than 1000 entries"),
        (".const %c = " + "1" * 5000 + " : index", "too many digits"),
        (".arg %c : memref<" + "1x" * 5000 + "f32>", "a type of 10"),
        ("x" * 5000, "an opcode of 5000 characters"),
        ('foo {a = "' + "x" * 20000 + '"}', "a string of 20"),
        ("a;" * 200_000, "more than 150000 statements"),
    ],
)
def test_hostile_texts_are_refused(text: str | bytes, what: str) -> None:
    if isinstance(text, str) and "{}" in text:
        text = "".join(text.replace("{}", str(number)) for number in range(10_000))
    with pytest.raises(TextError) as caught:
        read_ptoas(text)
    assert what in caught.value.message
    assert len(str(caught.value)) < 2000


def test_a_text_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(TextError, match="longer than"):
        read_ptoas(b"\xff" * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    "unit", ["a<", "<", "a<b ", "%a-", '"', "1.", "((", "{", "[", "!a", "#a<", "//", "a,", ":", "\\", "-"]
)
def test_long_lines_take_no_longer_than_they_are(unit: str) -> None:
    assert len(str(attempt(unit * (400_000 // len(unit))))) < 500_000


def attempt(text: str | bytes, file: str = "<text>") -> str | TextError:
    """The canonical text, or the error."""
    try:
        return format_ptoas(text, file)
    except TextError as error:
        return error


def broken(text: bytes, rng: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.choice((rng.randrange(256), rng.randrange(32, 127), data[rng.randrange(len(data))]))
            case 1:
                del data[at : at + rng.randint(1, 12)]
            case 2:
                data[at:at] = rng.choice(
                    (b"{", b"}", b"%", b"<", b">", b"(", b"[", b"\n", b";", b"=", b":", b"->", b"#")
                )
            case _:
                other = rng.randrange(len(data))
                data[at:at] = data[other : other + rng.randint(1, 40)]
        data = data or bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_broken_texts_are_read_or_refused(path: Path) -> None:
    rng = random.Random(path.stem)
    whole = path.read_bytes()
    for _ in range(FUZZ // 5):
        text = broken(whole, rng)
        printed = attempt(text, path.name)
        if isinstance(printed, TextError):
            assert printed.line >= 1 and printed.column >= 1
            continue
        assert format_ptoas(printed, path.name) == printed
        again, unit = read_ptoas(printed, path.name), read_ptoas(text, path.name)
        assert facts(again, modes=False) == facts(unit, modes=False)


# --- meaning


def test_reading_loads_no_mlir() -> None:
    code = "import sys, ptokit.text.ptoas, ptokit.text.lower; sys.exit('ptokit.text.mlir' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_lookup_of_the_corpus_gathers() -> None:
    from ptokit.lang.loaded import from_text

    rng = np.random.default_rng(0)
    table = rng.random((5000, 64), "float32")
    ids = rng.integers(0, 5000, 4096, "int32")
    out = np.zeros((4096, 64), "float32")
    kernel = from_text((ROOT / "tests/corpus/lookup.ptoas").read_text(), "lookup.ptoas")
    kernel[256](table=table, ids=ids, out=out, target="a5")
    assert np.array_equal(out, table[ids])


def test_every_example_of_the_page_is_read() -> None:
    page = (ROOT / "docs/ptoas.md").read_text(encoding="utf-8")
    examples = re.findall(r"```ptoas\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 6
    for example in examples:
        text = format_ptoas(example, "page.ptoas")
        assert format_ptoas(text, "page.ptoas") == text
        lower(read_ptoas(example, "page.ptoas"))


# --- Attributes and terminators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "column", "meant"),
    [
        ("%v = make_tensor_view %p, shape = [8, 8], strides = [8, 1] {layuot = dn} : !pto.tensor_view<8x8xi32>",
         61, "layout"),
        ("%u = alloc_tile {vaild_row = 3} : !pto.tile<8x8xi32>", 18, "valid_row"),
        ("mgather %u, %x, %c {coalesc = row} : !pto.tile<16x32xf32>", 21, "coalesce"),
    ],
)  # fmt: skip
def test_an_unknown_attribute_is_refused_at_its_key(line: str, column: int, meant: str) -> None:
    head = f".kernel k\n.arg %p : !pto.ptr<i32>\n.arg %x : {MEM}\n.arg %c : {COL}\n"
    with pytest.raises(TextError, match="has no lowering") as caught:
        lower(read_ptoas(head + line))
    assert (caught.value.line, caught.value.column) == (5, column)
    assert caught.value.hint == f"did you mean `{meant}`?"


@pytest.mark.parametrize("text", ["return\nbarrier PIPE_ALL", "for %i = 0 to 8 step 1 {\nyield\nbarrier PIPE_ALL\n}"])
def test_nothing_follows_a_terminator(text: str) -> None:
    with pytest.raises(TextError, match="must be the last operation in its body"):
        read_ptoas(f".kernel k\n{text}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".kernel g\nbarrier PIPE_ALL\n.kernel g", "redefinition of symbol `g`, first defined on line 1"),
        (".kernel g\n.const %c8 = eight : index", "expected a number, found `eight`"),
        (".kernel g\n.const %c8 = eight : f32", "expected a number, found `eight`"),
    ],
)
def test_messages_name_the_cause(text: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        read_ptoas(f"{text}\n")
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("name", "meant"), [("!pto.tile_bf<vec, 8x8xf32>", "!pto.tile_buf"), ("!pto.tyle<8x8xf32>", "!pto.tile")]
)
def test_a_misspelt_type_is_found_at_its_place(name: str, meant: str) -> None:
    for line in (f"%a = alloc_tile : {name}", f".arg %a : {name}"):
        with pytest.raises(TextError) as caught:
            lower(read_ptoas(f".kernel k\n{line}\n"))
        assert (caught.value.line, caught.value.column) == (2, line.index("!") + 1)
        assert caught.value.hint == f"did you mean `{meant}`?"
