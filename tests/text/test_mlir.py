"""MLIR text: everything is read and kept, the print is canonical, and errors are readable."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

import pytest

from ptokit.program.ir import Constant
from ptokit.text.errors import TextError
from ptokit.text.forms import read_program
from ptokit.text.mlir import MAX_BYTES, MAX_DEPTH, Module, module_of, print_module, read_module, unit_of
from ptokit.text.mlir.attributes import ANGLE, SPACED
from ptokit.text.mlir.dialect import PLAIN, rows
from ptokit.text.mlir.ir import MlirOp
from ptokit.text.mlir.shapes import Destinations
from ptokit.text.mlir.types import TileBuf
from ptokit.text.spelling import attributes_of, instructions
from ptokit.text.tree import Body, Function, Opaque, Operation, Source, Tensor, Unit, Value
from tests.text.comparing import facts

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.pto"))

TILE = "!pto.tile_buf<vec, 16x32xf32>"
KEYED = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=32, blayout=row_major, slayout=none_box,"
    " fractal=512, pad=0>"
)
VIEW = "!pto.partition_tensor_view<16x32xf32>"


def ops_of(module: Module) -> list[MlirOp]:
    return [op for op in module.op.walk() if op.is_pto]


def in_function(*lines: str, arguments: str = f"%t: {TILE}, %w: {VIEW}, %n: index") -> str:
    return "\n".join([f"func.func @f({arguments}) {{", *(f"  {line}" for line in lines), "  return", "}"])


def type_of(text: str, **options: str) -> TileBuf:
    (op,) = ops_of(read_module(in_function(f"%a = pto.alloc_tile : {text}"), **options))
    kind = op.results[0].type
    assert isinstance(kind.data, TileBuf)
    return kind.data


def constant_of(literal: str) -> object:
    """What the tree has for a constant."""
    unit = unit_of(read_module(in_function(f"%c = arith.constant {literal}")))
    return unit.functions[0].body.operations[0].attributes["value"]


# --- the corpus


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_round_trips(path: Path) -> None:
    module = read_module(path.read_bytes(), str(path))
    text = print_module(module)
    again = read_module(text)
    assert facts(again) == facts(module)
    assert print_module(again) == text


def words(text: str) -> list[str]:
    """Op names and value names of a text, with comments, strings and types left out."""
    text = re.sub(r'//[^\n]*|^\s*#[ #][^\n]*|"(?:[^"\\\n]|\\.)*"', "", text, flags=re.MULTILINE)
    return re.findall(r"(?<![\w!#.])pto\.[a-z][\w.]*(?=[\s\[({<])|%[\w]+", re.sub(r"attributes\s*\{[^}]*\}", "", text))


@pytest.mark.parametrize("path", [path for path in CORPUS if path.stem != "generic_form"], ids=lambda path: path.stem)
def test_no_op_and_no_name_is_lost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    there = [word for word in words(text) if word != "pto.tile"]
    assert sorted(words(print_module(read_module(text)))) == sorted(there)


def test_every_op_of_the_table_is_in_the_corpus() -> None:
    seen = {op.name.removeprefix("pto.") for path in CORPUS for op in ops_of(read_module(path.read_bytes()))}
    rare = {
        "tfillpad_inplace", "tfillpad_expand", "trandom", "tgemv.mx", "tgemv.mx.acc", "tgemv.mx.bias", "tpush_to_aic",
        "tpop_from_aiv", "tfree_from_aiv", "import_reserved_buffer", "tmov.fp", "tpow", "tpows",
        "tadddeqrelu", "taddreluconv", "tfusedmuladd", "tfusedmuladdrelu", "thistogram", "tmuladddst", "tpairreducesum",
        "tpartargmax", "tpartargmin", "tsubrelu", "tsubreluconv", "tinterleave", "tdeinterleave",
    }  # fmt: skip
    assert set(rows()) - seen == rare


# --- types and attributes


def test_both_spellings_of_a_tile_buffer_are_one_type() -> None:
    assert type_of(KEYED) == type_of(TILE) == TileBuf("vec", 16, 32, type_of(TILE).dtype, 16, 32)


@pytest.mark.parametrize("extent", ["?", "-1"])
def test_dynamic_extents_have_two_spellings(extent: str) -> None:
    assert type_of(KEYED.replace("v_col=32", f"v_col={extent}")) == type_of("!pto.tile_buf<vec, 16x32xf32, valid=16x?>")


def test_options_come_in_any_order_and_print_in_one() -> None:
    text = in_function(
        "%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, pad=2, fractal=32, valid=?x4, blayout=col_major>"
    )
    assert "<vec, 8x8xf32, valid=?x4, blayout=col_major, fractal=32, pad=2>" in print_module(read_module(text))


@pytest.mark.parametrize(
    ("target", "layout"),
    [
        ("", "row_major"),
        ('"a3"', "row_major"),
        ('"a5"', "col_major"),
        ('"a2a3"', "row_major"),
        ('"later"', "row_major"),
    ],
)
@pytest.mark.parametrize("written", ["row_major", "col_major"])
def test_layout_of_left_tiles_follows_the_target(target: str, layout: str, written: str) -> None:
    attributes = f" attributes {{pto.target_arch = {target}}}" if target else ""
    body = in_function(f"%a = pto.alloc_tile : !pto.tile_buf<left, 16x16xf16, blayout={written}>")
    (op,) = ops_of(read_module(f"module{attributes} {{\n{body}\n}}"))
    assert op.results[0].type.data.blayout == layout


def test_the_caller_may_say_the_target() -> None:
    assert type_of("!pto.tile_buf<left, 16x16xf16>", arch="a5").blayout == "col_major"
    assert type_of("!pto.tile_buf<left, 16x16xf16, blayout=col_major>", arch="any").blayout == "col_major"


@pytest.mark.parametrize("name", [*ANGLE, *SPACED])
def test_both_families_are_read_and_each_is_printed_in_its_own(name: str) -> None:
    for keyword in (ANGLE | SPACED)[name].split():
        angle, spaced = f"#pto.{name}<{keyword}>", f"#pto<{name} {keyword}>"
        text = print_module(
            read_module(in_function(f"pto.tabs ins(%t : {TILE}) outs(%t : {TILE}) {{a = {angle}, b = {spaced}}}"))
        )
        own = angle if name in ANGLE else spaced
        assert f"{{a = {own}, b = {own}}}" in text


# --- comments


def comments(text: str) -> list[str]:
    """The comments of a text, without their marks."""
    found = re.findall(r'"(?:[^"\\\n]|\\.)*"|//([^\n]*)|^[ \t]*#+( [^\n]*)', text, re.MULTILINE)
    return sorted(said.strip() for pair in found for said in pair if said)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_comment_is_lost(path: Path) -> None:
    text = path.read_text(encoding="utf-8-sig")
    assert comments(print_module(read_module(text))) == comments(text)


BODIES = {
    "scf.for": ("scf.for %i = %n to %n step %n {", "pto.trap", "}"), "scf.if": ("scf.if %c {", "pto.trap", "}"),
    "module": ("module @m {", "pto.trap", "}"), "affine.for": ("affine.for %i = 0 to 10 {", "pto.trap", "}"),
    "section": ("pto.section.cube {", "pto.trap", "}"), "loose": ("pto.scope %n {", "pto.trap", "}"),
    "func": ("func.func @g() {", "return", "}"), "generic": ('"a.b"() ({', "pto.trap", "}) : () -> ()"),
    "scf.while": ("scf.while : () -> () {", "scf.condition(%c)", "} do { // five\n scf.yield // six\n // seven\n }"),
}  # fmt: skip


@pytest.mark.parametrize(("head", "last", "tail"), BODIES.values(), ids=BODIES)
def test_comments_in_every_kind_of_body(head: str, last: str, tail: str) -> None:
    lines = (f"{head} // one", "// two", f"{last} // three", "// four", f"{tail} // eight")
    text = in_function(*lines, arguments="%n: index, %c: i1")
    printed = print_module(read_module(text))
    assert comments(printed) == comments(text)
    assert re.search(rf"\{{  // one\n +// two\n +{re.escape(last)}  // three\n +// four\n *\}}", printed)


def test_where_comments_go() -> None:
    head, tail = (
        "// a\n\n\n\nmodule{//b\n\n//c\nfunc.func @f(){\n\npto.trap{x//d\n}//e",
        "return//g\n//h\n\n}//i\n}\n\n//j",
    )
    text = f"{head}\n\n\n//f\n\n\n{tail}"
    printed = """\
// a

module {  //b
  //c
  func.func @f() {
    //d
    pto.trap {x}  //e

    //f

    return  //g
    //h
  }  //i
}

//j
"""
    assert print_module(read_module(text)) == printed
    assert print_module(read_module(printed)) == printed


def test_comments_do_not_count_for_equality() -> None:
    commented = read_module(in_function("pto.trap // why", "", "// then"))
    assert facts(commented) == facts(read_module(in_function("pto.trap")))


def test_comments_stay_with_an_op_that_changes_its_name() -> None:
    lines = "// before", "%x = pto.load_scalar %p[%i] : !pto.ptr<f32> -> f32 // behind"
    text = in_function(*lines, arguments="%p: !pto.ptr<f32>, %i: index")
    printed = [line.strip() for line in print_module(read_module(text), "new").splitlines()]
    assert printed[2:4] == ["// before", "%x = pto.load %p[%i] : !pto.ptr<f32> -> f32  // behind"]


@pytest.mark.parametrize("line", ["# words", "#words follow", "## words", "#", "#! words", "#===="])
def test_hashes_start_no_comments(line: str) -> None:
    with pytest.raises(TextError) as caught:
        read_module(in_function("pto.trap", line, "pto.trap"))
    assert (caught.value.line, caught.value.column) == (3, 3)
    assert len(caught.value.errors) == 1
    assert caught.value.hint == "comments start with `//`"


def test_hashes_at_the_start_of_a_line_may_be_attributes() -> None:
    body = '"a.b"() {x =\n#nd, y = [\n#pto.layout<dn>,\n#nd\n]} : () -> ()\nloc(\n#l)'
    text = f'#nd = #pto.layout<nd>\n{body}\n#l = loc("a":1:2)'
    printed = print_module(read_module(text))
    assert '{x = #pto.layout<nd>, y = [#pto.layout<dn>, #pto.layout<nd>]} : () -> () loc("a":1:2)' in printed


# --- what the pages write, and other tools

MEM, INDEX, DATA = "!pto.partition_tensor_view<64x32xf32>", "!pto.tile<1x16xi32>", "!pto.tile<16x32xf32>"
PAGE = f"%m: {MEM}, %i: {INDEX}, %t: {DATA}, %n: index"
GATHERED, SCATTERED = (
    f"%d = pto.mgather %m, %i : ({MEM}, {INDEX})",
    f"pto.mscatter %t, %i, %m : ({DATA}, {INDEX}, {MEM})",
)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        (f"%d = pto.mgather %m, %i : ({MEM}, pto.tile<1x16xi32>) -> {DATA}", f"{GATHERED} -> {DATA}"),
        (f"{GATHERED}\n    -> {DATA}", f"{GATHERED} -> {DATA}"),
        (GATHERED, GATHERED),
        ("%d = pto.mgather %m, %i", GATHERED),
        (f"{SCATTERED} -> ()", f"{SCATTERED} -> ()"),
        (SCATTERED, f"{SCATTERED} -> ()"),
        (f"%d = pto.tload %m : {MEM} -> {DATA}", f"%d = pto.tload %m : {MEM} -> {DATA}"),
        (f"%d = pto.tgatherb %t, %i : {DATA} -> {DATA}", f"%d = pto.tgatherb %t, %i : ({DATA}, {INDEX}) -> {DATA}"),
        ("pto.tassign %t, @tile(0x1000)", "pto.tassign %t, @tile(0x1000)"),
        ("pto.tassign %t, @tile(16)", "pto.tassign %t, @tile(0x10)"),
        ("pto.tassign %t, @tile(slot)", "pto.tassign %t, @tile(slot)"),
        (f"pto.tassign %t, %n : {DATA}, index", f"pto.tassign %t, %n : {DATA}, index"),
        (f"pto.tassign ins(%t, %n : {DATA}, index)", f"pto.tassign ins(%t, %n : {DATA}, index)"),
        (f"%u = pto.tassign %t, @tile(0x20) : {DATA} -> {DATA}",) * 2,
    ],
)
def test_level_one_as_the_pages_write_it(written: str, printed: str) -> None:
    lines = print_module(read_module(in_function(written, arguments=PAGE))).splitlines()
    assert lines[2].strip() == printed


def test_the_type_of_a_result_comes_from_its_first_use() -> None:
    use = f"pto.mscatter %d, %i, %m : ({DATA}, {INDEX}, {MEM}) -> ()"
    text = in_function(GATHERED, "%e = pto.someop @x, %d", use, use.replace("%d", "%e"), arguments=PAGE)
    assert f"{GATHERED} -> {DATA}\n" in print_module(read_module(text))
    with pytest.raises(TextError, match=r"`%d` is of type !pto.tile<16x32xf32>, but used with index"):
        read_module(text.replace("return", '"a.b"(%d) : (index) -> ()\n  return'))


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("vec, f32, 16, 32, row_major, none_box, 512, null",) * 2,
        ("vec, f32, 16, 32", "vec, f32, 16, 32, row_major, none_box, 512, null"),
        ("loc=vec, f32, 16, 32, RowMajor, NoneBox, None, Zero", "vec, f32, 16, 32, row_major, none_box, 512, zero"),
        ("vec, ui16, 16, 32, col_major, row_major, 32, 3, valid=?x32",
         "vec, ui16, 16, 32, col_major, row_major, 32, min, valid=?x32"),
        ("f32, 16, 32", "16x32xf32"), ("16x?xu8", "16x?xui8"), ("4x4xhif8", "4x4x!pto.hif8"), ("1xRxi32", "1xRxi32"),
        ("RxCxT", "RxCxT"), ("...", "..."), ("loc, dtype, rows, cols, blayout, slayout, fractal, pad",) * 2,
        ("scalar, f32, 1, 1", "scalar, f32, 1, 1"), ("vec, f32, 16, 32, row_major, none_box, NZ, null",) * 2,
    ],
)  # fmt: skip
def test_tiles_of_level_one(written: str, printed: str) -> None:
    text = print_module(read_module(f"func.func private @f(!pto.tile<{written}>)"))
    assert f"(!pto.tile<{printed}>)" in text


@pytest.mark.parametrize(
    "line",
    [
        'pto.new "text", @symbol, 3, <PIPE_V>, #pto.layout<nd>', "pto.new[%n] {a}", "pto.new %t[%n, %n], %n : T",
        "pto.new(%n : index)", "%a = pto.new : index", '%a:2 = pto.new %t "mode" -> (i1, i2)', "gpu.barrier",
        "%a = index.add %n, %n", "%a = llvm.mlir.constant(1 : i32) : i32", "%a = memref.cast %n : A to B",
        "%a = arith.index_castui %n nneg : index to i64", 'pto.new ins(%n : index) mode = "fast"', "pto.new @x %later",
        'emitc.verbatim "x" loc("a":1:2)', "%a = func.constant @f : () -> ()",
    ],
)  # fmt: skip
def test_ops_of_unknown_form_are_kept_as_they_are_written(line: str) -> None:
    printed = print_module(read_module(in_function(line, "%later = arith.constant 1 : i32")))
    assert printed.splitlines()[2].strip() == line


def test_ops_of_unknown_form_know_their_values_and_bodies() -> None:
    text = in_function(
        "%r = pto.loop (%a, %b) = (%n) {", "pto.use(%a, %n)", "} else {", "^x(%z: i32):", "pto.trap", "}"
    )
    module = read_module(text)
    (loop,) = [op for op in module.op.walk() if op.name == "pto.loop"]
    assert [len(region.blocks[0].arguments) for region in loop.regions] == [2, 1]
    bodies = [block for region in loop.regions for block in region.blocks]
    assert [op.name for block in bodies for op in block.ops] == ["pto.use", "pto.trap"]
    assert module.where(loop).line == 2
    assert facts(read_module(print_module(module))) == facts(module)


@pytest.mark.parametrize("text", ["", "\ufeff", "\r\n\t", "// a", "module{}", "\ufeffmodule\r\n{\r\n}\r\n"])
def test_next_to_nothing_is_an_empty_module(text: str) -> None:
    module = read_module(text)
    assert facts(module) == facts(read_module("module {\n}"))
    assert print_module(module).startswith("module {\n}\n")


def test_strings_keep_the_letters_of_all_languages() -> None:
    text = print_module(read_module('"a.b"() {x = "é\\C3\\A9日\\n\\22\\5C\\01"} : () -> ()'))
    assert '{x = "éé日\\n\\22\\\\\\01"}' in text
    assert print_module(read_module(text)) == text


def test_resources_are_kept_and_the_same_in_every_text() -> None:
    tail = '{-#\n  dialect_resources: {builtin: {k: "0x01"}}\n#-}\n'
    text = f'"a.b"() {{x = dense_resource<k> : tensor<2xi8>}} : () -> ()\n{tail}'
    once = print_module(read_module(text))
    assert once == print_module(read_module(text))
    assert "dense_resource<k>" in once and once.endswith(tail)
    assert facts(read_module(text)) != facts(read_module(text.replace("0x01", "0x02")))


def test_ordinary_texts_leave_the_limit_of_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "setrecursionlimit", lambda limit: pytest.fail("changed the limit"))
    text = in_function(*["scf.if %c {"] * 8, *["}"] * 8, arguments="%c: i1")
    print_module(read_module(text))


# --- spellings


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("pto.set_flag [#pto.pipe<PIPE_V>, PIPE_S, <EVENT_ID1>]", "pto.set_flag[<PIPE_V>, <PIPE_S>, <EVENT_ID1>]"),
        ("pto.barrier #pto.pipe<PIPE_V>", "pto.barrier <PIPE_V>"),
        (f"pto.tstore ins(%t: {KEYED}) outs(%w: {VIEW})", f"pto.tstore ins(%t : {TILE}) outs(%w : {VIEW})"),
        (f"pto.tmov ins(%t, %n : {TILE}, index) outs(%t : {TILE})",
         f"pto.tmov ins(%t : {TILE}, %n : index) outs(%t : {TILE})"),
        (f"pto.tadd ins(%t : {TILE}, %t : {TILE}) outs(%t : {TILE})",
         f"pto.tadd ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE})"),
        (
            f"pto.tcvt ins(%t : {TILE}) outs(%t : {TILE}) {{rmode = #pto<round_mode ODD>, x = 1 : i8}}",
            f"pto.tcvt ins(%t {{rmode = #pto<round_mode ODD>}} : {TILE}) outs(%t : {TILE}) {{x = 1 : i8}}",
        ),
        (
            f'"pto.tmul"(%t, %t, %t) {{a}} : ({TILE}, {TILE}, {TILE}) -> () loc("x":1:2)',
            f'pto.tmul ins(%t, %t : {TILE}, {TILE}) outs(%t : {TILE}) {{a}} loc("x":1:2)',
        ),
        (f'"pto.tmov"(%t, %n, %t) : ({TILE}, index, {TILE}) -> ()',
         f'"pto.tmov"(%t, %n, %t) : ({TILE}, index, {TILE}) -> ()'),
        (f"%d = pto.tnew %t, %n : (pto.tile_buf<vec, 16x32xf32>, index) -> {TILE}",
         f"%d = pto.tnew %t, %n : ({TILE}, index) -> {TILE}"),
        ("pto.tlater ins(%n {a = 1 : i2} : index) {b}", "pto.tlater ins(%n {a = 1 : i2} : index) {b}"),
        ('%a:2, %b = "x.y"() : () -> (i1, i1, i1)', '%a:2, %b = "x.y"() : () -> (i1, i1, i1)'),
        ("%42 = arith.constant 1 : i32", "%42 = arith.constant 1 : i32"),
    ],
)  # fmt: skip
def test_spellings(written: str, printed: str) -> None:
    lines = print_module(read_module(in_function(written))).splitlines()
    assert lines[2].strip() == printed


BITS = {
    "0x7C01 : f16": 0x7C01, "0xFE01 : f16": 0xFE01, "0x7F800001 : f32": 0x7F800001, "0xFFC00001 : f32": 0xFFC00001,
    "0x7FC1 : bf16": 0x7FC1, "0xFF81 : bf16": 0xFF81, "0x7D : f8E5M2": 0x7D, "0xFF : f8E4M3FN": 0xFF,
    "0x7FF0000000000001 : f64": 0x7FF0000000000001,
}  # fmt: skip


@pytest.mark.parametrize("literal", BITS)
def test_what_is_no_number_keeps_its_bits(literal: str) -> None:
    printed = print_module(read_module(in_function(f"%c = arith.constant {literal}")))
    assert f"arith.constant {literal.lower().replace('e5m2', 'E5M2').replace('e4m3fn', 'E4M3FN')}\n" in printed
    constant = constant_of(literal)
    assert isinstance(constant, Constant)
    assert constant.bits == BITS[literal]


@pytest.mark.parametrize(
    ("literal", "printed", "bits"),
    [
        ("1.0e40 : f32", "0x7f800000 : f32", 0x7F800000), ("-65520.0 : f16", "0xfc00 : f16", 0xFC00),
        ("1.0e39 : bf16", "0x7f80 : bf16", 0x7F80), ("1.0e9 : f8E4M3FN", "0x7f : f8E4M3FN", 0x7F),
        ("0x3F800000 : f32", "1.000000e+00 : f32", 0x3F800000), ("-0.0 : f16", "-0.000000e+00 : f16", 0x8000),
        ("0x1F : i32", "31 : i32", None), ("0x1F", "31 : i64", None),
    ],
)  # fmt: skip
def test_numbers_are_read_as_mlir_reads_them(literal: str, printed: str, bits: int | None) -> None:
    assert f"arith.constant {printed}\n" in print_module(read_module(in_function(f"%c = arith.constant {literal}")))
    constant = constant_of(literal)
    assert constant == 31 if bits is None else isinstance(constant, Constant) and constant.bits == bits


@pytest.mark.parametrize(
    "literal", ["1.0 : f80", "0.1000000000000000000000000001 : f128", "0x3fff8000000000000000 : f80", "0x1 : f4E2M1FN"]
)
def test_numbers_of_types_that_no_program_has_stay_what_they_are(literal: str) -> None:
    assert not isinstance(constant_of(literal), Constant | int | float)


def test_wide_numbers_keep_all_their_digits() -> None:
    line = "%c = arith.constant 0.1000000000000000000000000001 : f128"
    module = read_module(in_function(line))
    assert line in print_module(module)
    assert facts(module) != facts(read_module(in_function(line.replace("0001 :", "0002 :"))))


@pytest.mark.parametrize(
    "written",
    [
        "dense<0x7C01> : vector<4xf16>", "dense<[0x7F800001, 1.0]> : vector<2xf32>", "dense<-1.5> : vector<2xf32>",
        "dense<[[0x3C00], [2.0]]> : tensor<2x1xf16>", "dense<[true, false]> : vector<2xi1>", "dense<> : tensor<0xi8>",
        'dense<"0x017C"> : vector<4xf16>', "dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>",
    ],
)  # fmt: skip
def test_dense_values_stay_as_they_are_written(written: str) -> None:
    module = read_module(in_function(f"%c = arith.constant {written}"))
    text = print_module(module)
    assert f"arith.constant {written}\n" in text
    assert facts(read_module(text)) == facts(module)


def test_dense_values_have_single_blanks() -> None:
    text = print_module(read_module(in_function("%c = arith.constant dense<[1,\n   2]>  :  vector<2xi8>")))
    assert "arith.constant dense<[1, 2]> : vector<2xi8>\n" in text


def test_the_text_of_instructions_comes_from_their_definitions() -> None:
    assert set(instructions()) <= set(rows())
    assert not set(instructions()) & set(PLAIN.split())
    for op, instruction in instructions().items():
        (piece,) = rows()[op].pieces
        assert isinstance(piece, Destinations)
        keys = [text.key for _, text in attributes_of(instruction) if text.inside]
        assert [key for key in piece.inside if key in keys or key not in ("maskPattern", "isBinary")] == keys


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("trunci", "i64 to i32"), ("extsi", "i32 to i64"), ("xori", "i32")],
)
def test_arithmetic_of_trees_is_written(name: str, kinds: str) -> None:
    source, _, target = kinds.partition(" to ")
    a, b, result = Value("a", source), Value("b", source), Value("c", target or source)
    ins = (a,) if target else (a, b)
    text = written_operation(Operation(f"arith.{name}", {"ins": ins}, (result,)), a, b)
    assert f"%c = arith.{name} {'%a' if target else '%a, %b'} : {kinds}" in text


def test_a_choice_in_a_tree_is_written_with_the_type_of_its_result() -> None:
    which, a, b = Value("p", "i1"), Value("a", "index"), Value("b", "index")
    operation = Operation("arith.select", {"ins": (which, a, b)}, (Value("c", "index"),))
    assert "%c = arith.select %p, %a, %b : index" in written_operation(operation, which, a, b)


def written_operation(operation: Operation, *arguments: Value) -> str:
    """A tree of one operation as canonical text."""
    body = Body([operation, Operation("func.return")], arguments)
    return print_module(module_of(Unit((Function("f", body),), Source("", "k.pto"))))


# --- modules as trees


@pytest.mark.parametrize("space", ["", ", #pto.address_space<gm>"])
def test_a_packed_memref_in_global_memory_is_a_tensor(space: str) -> None:
    (function,) = unit_of(read_module(in_function(arguments=f"%a: memref<4x?xf32{space}>"))).functions
    kind = function.arguments[0].type
    assert isinstance(kind, Tensor)
    assert kind.dims == (4, None)


@pytest.mark.parametrize(
    "rest",
    ["strided<[64, 1]>", "strided<[64, 1]>, #pto.address_space<gm>", "affine_map<(d0, d1) -> (d1, d0)>",
     "#pto.address_space<zero>", "1 : i64"],
)  # fmt: skip
def test_other_memrefs_are_no_tensors(rest: str) -> None:
    text = in_function(arguments=f"%a: memref<4x8xf32, {rest}>")
    (function,) = unit_of(read_module(text)).functions
    assert function.arguments[0].type == Opaque(f"memref<4x8xf32, {rest}>")
    with pytest.raises(TextError, match=rf"memref<4x8xf32, {re.escape(rest)}> has no lowering"):
        read_program(text)


def test_functions_of_all_modules_come_into_one_tree() -> None:
    text = "\n".join(f"module @m{name} {{\nfunc.func @{name}() {{\nreturn\n}}\n}}" for name in "fg")
    assert [function.name for function in unit_of(read_module(text)).functions] == ["f", "g"]
    with pytest.raises(TextError, match="redefinition of symbol `@f`, first defined on line 2") as caught:
        read_program(text.replace("@g", "@f"), "k.pto")
    assert (caught.value.file, caught.value.line) == ("k.pto", 7)


def test_names_that_are_missing_are_numbers_that_are_free() -> None:
    text = in_function("%0 = arith.constant 0 : i32", "arith.constant 1 : i32")
    assert "%1 = arith.constant 1 : i32" in print_module(read_module(text))


def test_where_an_op_stands() -> None:
    module = read_module(in_function("%c = arith.constant 0 : index", "pto.trap"), "k.pto")
    (trap,) = ops_of(module)
    assert str(module.where(trap)) == "k.pto:3:3"


def test_modules_that_differ_are_not_equal() -> None:
    one = read_module(in_function('pto.trap loc("a":1:1)'))
    assert facts(one) == facts(read_module(in_function('pto.trap   loc("a":1:1)')))
    for other in (
        'pto.trap loc("a":1:2)',
        "pto.trap",
        'pto.trap {x} loc("a":1:1)',
        'pto.barrier <PIPE_ALL> loc("a":1:1)',
    ):
        assert facts(one) != facts(read_module(in_function(other)))


# --- versions

GATHER = f"pto.mgather ins(%w, %i : {VIEW}, {{i}}) outs(%t : {TILE})"
ROW, LONG, ELEM = (
    "!pto.tile_buf<vec, 16x1xi32, blayout=col_major>", "!pto.tile_buf<vec, 1x16xi32>", "!pto.tile_buf<vec, 16x32xi32>"
)  # fmt: skip


def gather(index: str, tail: str = "") -> Module:
    return read_module(
        in_function(GATHER.format(i=index) + tail, arguments=f"%t: {TILE}, %w: {VIEW}, %i: {index}"), "g.pto"
    )


@pytest.mark.parametrize("index", [ROW, LONG, ELEM])
def test_the_newer_version_prints_the_default_mode(index: str) -> None:
    plain, full = gather(index), gather(index, " {coalesce = #pto<coalesce row>}")
    assert print_module(plain, "new") == print_module(full) == print_module(full, "new")
    assert print_module(full, "0.27") == print_module(plain) == print_module(plain, "0.27")


def test_the_module_itself_is_not_changed_by_printing() -> None:
    module = gather(ROW)
    print_module(module, "new")
    assert facts(module) == facts(gather(ROW))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (GATHER.format(i=LONG) + " {coalesce = #pto<coalesce elem>}", "does not mean `elem`"),
        (f"pto.mgather ins(%w, %i, %w : {VIEW}, {LONG}, {VIEW}) outs(%t : {TILE})", "scratch"),
        (f"pto.mscatter ins(%t, %i : {TILE}, {LONG}) outs(%w : {VIEW})"
         " {scatterConflict = #pto<scatter_conflict last>}", "scatterConflict"),
        (f'pto.tscatter ins(%t, {{maskPattern = #pto.mask_pattern<P0101>}} : {TILE}, "row") outs(%t : {TILE})',
         "mask form"),
    ],
)  # fmt: skip
def test_what_the_older_version_cannot_say(line: str, what: str) -> None:
    module = read_module(in_function(line, arguments=f"%t: {TILE}, %w: {VIEW}, %i: {LONG}"), "g.pto")
    with pytest.raises(TextError, match=what) as caught:
        print_module(module, "0.27")
    assert (caught.value.line, caught.value.column) == (2, 3)


def test_scalars_are_renamed_between_versions() -> None:
    arguments = "%p: !pto.ptr<f32>, %i: index"
    old = in_function(
        "%x = pto.load_scalar %p[%i] : !pto.ptr<f32> -> f32",
        "pto.store_scalar %x, %p[%i] : !pto.ptr<f32>, f32",
        arguments=arguments,
    )
    new = old.replace("_scalar", "")
    assert print_module(read_module(old), "new") == print_module(read_module(new))
    assert print_module(read_module(new), "0.27") == print_module(read_module(old))


# --- errors

WRITTEN = "is written: pto."
ERRORS = {
    # names
    "unknown op": (f"pto.tad ins(%t, →: {TILE})", "expected an operand", "did you mean `pto.tadd`?"),
    "unknown op of a dialect": ("→arith.adddi %n, %n : index", "unknown op", "did you mean `arith.addi`?"),
    "unknown dialect": ("→ptoo.trap", "unknown op", "did you mean `pto.trap`?"),
    "unknown word": ("→retrun", "unknown op", "did you mean `return`?"),
    "no dialect": (f"→tadd ins(%t : {TILE})", "unknown op", "did you mean `pto.tadd`?"),
    "out for outs": (f"pto.tabs ins(%t : {TILE}) →out(%t : {TILE})", "unknown `out`", "did you mean `outs`?"),
    "in for ins": (f"pto.tabs →in(%t : {TILE}) outs(%t : {TILE})", "expected `ins(...)`", WRITTEN),
    "undefined value": (
        f"pto.tabs ins(→%tt : {TILE}) outs(%t : {TILE})",
        "use of undeclared SSA value name `%tt`",
        "did you mean `%t`?",
    ),
    "value twice": ("→%n = arith.constant 1 : index", "redefinition of SSA value", ""),
    "value without its mark": (f"pto.tabs ins(→t : {TILE}) outs(%t : {TILE})", "expected an operand", "`%t`?"),
    "name that starts with a digit": ("%1→a = arith.constant 1 : i32", "expected `=` behind the names", ""),
    "block": ("cf.br →^nowhere", "reference to an undefined block `^nowhere`", ""),
    "alias": ("pto.trap {a = →#nowhere}", "undefined symbol alias id `#nowhere`", ""),
    "copy of a value": ("%y = →%n", "expected an operation", ""),
    # keywords and attributes
    "keyword": ("pto.barrier <→PIPE_MTE22>", "no keyword `PIPE_MTE22`", "did you mean `PIPE_MTE2`?"),
    "pipe without its prefix": ("pto.set_flag[→MTE2, <PIPE_V>, <EVENT_ID0>]", "no keyword `MTE2`", "`PIPE_MTE2`?"),
    "event that does not exist": ("pto.set_flag[<PIPE_S>, <PIPE_V>, <→EVENT_ID8>]", "no keyword", "EVENT_ID"),
    "keyword in brackets": ("pto.trap {a = #pto<coalesce →rows>}", "no keyword `rows`", "did you mean `row`?"),
    "keyword missing": ("pto.barrier→", "expected a keyword of pipe", ""),
    "keyword alone": ("pto.trap {coalesce = →elem}", "expected the value", "`coalesce = #pto<coalesce elem>`?"),
    "keyword of a longer name": ("pto.trap {gatherOob = →zero}", "expected the value", "#pto<gather_oob zero>`?"),
    "keyword of another name": ("pto.trap {rmode = →ROUND}", "expected the value", "#pto<round_mode ROUND>`?"),
    "colon for an equals sign": ("pto.trap {a→: 1 : i32}", "expected `=`, `,` or `}` after the attribute `a`", ""),
    "attribute twice": ("pto.trap {a, →a}", "`a` is given twice", ""),
    "key of a configuration": ("pto.trap {a = #pto.tile_buf_config<→pat=1>}", "no key `pat`", "did you mean `pad`?"),
    # types
    "place of a tile": ("%a = pto.alloc_tile : !pto.tile_buf<→vek, 8x8xf32>", "unknown place of a tile", "`vec`?"),
    "memory for a place": ("%a = pto.alloc_tile : !pto.tile_buf<→ub, 8x8xf32>", "unknown place of a tile", "`vec`?"),
    "no place": ("%a = pto.alloc_tile : !pto.tile_buf<→f32, 8, 16>", "place of a tile first", "`vec, 8x16xf32`?"),
    "extents apart": ("%a = pto.alloc_tile : !pto.tile_buf<vec, →8, 16, f32>", "in one", "`vec, 8x16xf32`?"),
    "key of a tile": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, →layout=row_major>", "no key", "layout`?"),
    "key of a tile twice": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, pad=1, →pad=1>", "given twice", ""),
    "order of keys": ("%a = pto.alloc_tile : !pto.tile_buf<loc=vec, →rows=8>", "whose order is: loc dtype rows", ""),
    "value of a key": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, fractal=→500>", "500 is no fractal", ""),
    "word for a number": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, pad=→zero>", "a number", "`pad=1`?"),
    "word of a layout": (
        "%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, slayout=→nonebox>",
        "unknown slayout",
        "none_box",
    ),
    "dynamic tile": ("%a = pto.alloc_tile : !pto.tile_buf<vec, →?x8xf32>", "two static extents", ""),
    "one valid extent": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, valid=→4>", "two valid extents", ""),
    "address space": ("%a = pto.load %n[%n] : !pto.ptr<f32, →gn> -> f32", "unknown address space", ""),
    "type of another language": ("%a = arith.constant 1 : →int32", "expected a type", "did you mean `i32`?"),
    "element of another language": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8x→float>", "a type", "`f32`?"),
    "type without its dialect": (f"pto.tabs ins(%t : →tile_buf<x>) outs(%t : {TILE})", "a type", "!pto.tile_buf"),
    "type with a slip": (f"pto.tabs ins(→%t : !pto.tilebuf<x>) outs(%t : {TILE})", "is of type", "!pto.tile_buf"),
    "another type": (f"pto.tabs ins(→%n : {TILE}) outs(%t : {TILE})", "`%n` is of type index, but used with", ""),
    "type of a subview": (
        "%s = memref.subview →%n[0, 0] [2, 4] [1, 1] : memref<4x8xf32> to memref<2x4xf32>",
        "`%n` is of type index, but used with memref<4x8xf32>",
        "",
    ),
    "type of a cast": ("%s = memref.cast →%n : memref<4xf32> to memref<?xf32>", "`%n` is of type index", ""),
    "type of another view": (
        "%s = memref.reinterpret_cast →%n to offset: [0], sizes: [4], strides: [1] : memref<8xf32> to memref<4xf32>",
        "`%n` is of type index, but used with memref<8xf32>",
        "",
    ),
    "type of a store": ("affine.store %n, →%n[%n] : memref<8xindex>", "`%n` is of type index, but used with", ""),
    "type of a group": ("linalg.fill ins(→%n : f32) outs(%t : memref<8xf32>)", "of type index, but used with f32", ""),
    "index for a condition": ("scf.if →%n {", "`%n` is of type index, but used with i1", ""),
    "wide integer": ("%a = arith.constant 1 : →i99999999", "too wide", ""),
    # the form of ops
    "too few types": (f"pto.tadd ins(→%t, %t : {TILE}) outs(%t : {TILE})", "ins(...) has 2 operands and 1 types", ""),
    "no type": ("pto.tabs ins(→%nowhere) outs(%t)", "expected the type of %nowhere", ""),
    "no comma": (f"pto.tadd ins(%t →%t : {TILE}, {TILE})", "expected `,`, `:` or `)` in ins(...)", WRITTEN),
    "no bracket at the end": (
        f"pto.tabs ins(%t : {TILE}) outs→(%t : {TILE}",
        "`(` of outs(...) is not closed",
        WRITTEN,
    ),
    "no bracket between groups": (
        f"pto.tabs ins→(%t : {TILE} outs(%t : {TILE})",
        "`(` of ins(...) is not closed: expected `)`",
        WRITTEN,
    ),
    "no bracket behind a list": (
        "%v = pto.partition_view %w, offsets = →[%n, %n, sizes = [%n, %n]",
        "`[` is not closed: expected `]`",
        WRITTEN,
    ),
    "no comma in a list": ("%v = pto.partition_view %w, offsets = [%n →%n]", "expected `]`", WRITTEN),
    "no bracket behind a type": ("%a = pto.alloc_tile : !pto.tile_buf→<vec, 8x8xf32", "`<` is not closed", WRITTEN),
    "no bracket behind a call": ("func.call @f→(%n : (index) -> ()", "`(` of f(...) is not closed", ""),
    "nothing behind an op": ("pto.tadd→", "expected `ins(...)` or operands", WRITTEN),
    "result of none": (f"→%a = pto.tabs ins(%t : {TILE}) outs(%t : {TILE})", "gives 0 results, but 1", WRITTEN),
    "bracket": ("pto.set_flag→[<PIPE_V>, <PIPE_S>, <EVENT_ID0> {}", "`[` is not closed: expected `]`", WRITTEN),
    "wrong bracket": ("pto.set_flag→(<PIPE_V>, <PIPE_S>, <EVENT_ID0>)", "expected `[`", "<pipe>, <pipe>, <event>"),
    "order of a clause": ("%a = pto.alloc_tile valid_col = %n →valid_row = %n : T", "expected `:`", "[valid_row ="),
    "slip in a clause": ("%v = pto.make_tensor_view %n, shape = [%n], →stride = [%n]", "expected `strides`", WRITTEN),
    "number for a value": ("%v = pto.partition_view %w, offsets = [→0]", "expected an operand", "arith.constant 0"),
    "number for an address": ("pto.tassign %t, →4096", "expected an address: `%x` or `@tile(0x1000)`", ""),
    "to for an arrow": (f"%b = pto.bitcast %t : {TILE} →to i1", "expected `->`", WRITTEN),
    "sizes of a window": (f"→%a = pto.subset %t[%n, %n] sizes [8] : {TILE}", "two offsets and two sizes", ""),
    "results": ("→%a, %b = arith.constant 1 : index", "gives 1 results, but 2", ""),
    "generic form": ('"x.y"() {} →-> ()', "expected `:` and the types of operands and results", ""),
    "bounds of a loop": ("scf.for %i = →0 to %n step %n {", "expected an operand", "arith.constant 0"),
    "step of a loop": ("scf.for %i = %n to %n →{", "expected `step`", ""),
    "comparison": ("%a = arith.cmpi →less, %n, %n : index", "unknown comparison `less`, expected one of: eq ne", ""),
    "type at the end": ("%a = arith.addi %n, %n→", "expected `:`", ""),
    "too many bits": ("%a = arith.constant →0x1FFFF : f16", "`0x1FFFF` has more bits than f16", ""),
    "bits with a sign": ("%a = arith.constant →-0x7C01 : f16", "bits have no sign", ""),
    "dense value without a type": ("%a = arith.constant dense<1>→", "expected `:`", ""),
    "constant of no number": ("%a = arith.constant →unit", "expected a number", ""),
    "range of a type": ("%a = arith.constant →300 : i8", "300 is out of range for type i8", ""),
    "location": ("pto.trap loc(→k.py:1:2)", 'expected a location: "file":line:column', ""),
    # signs
    "open string": ('pto.trap {a = →"open}', "the string does not end on its line", ""),
    "semicolon": ("pto.trap→;", "unexpected character `;`", "without `;`"),
    "comment of another language": ("→-- words", "expected an operation", "comments start with `//`"),
    "block comment": ("→/* words */", "unexpected character `/`", "comments start with `//`"),
    "bracket of another kind": ("pto.trap {a = →[1, 2}", "`[` is not closed: expected `]`", ""),
    "long number": (f"%a = arith.constant →{'9' * 500} : i32", "a number of more than 400 digits", ""),
}
"""Lines with a mark at the error, the message, and the suggestion."""


@pytest.mark.parametrize(("line", "message", "hint"), ERRORS.values(), ids=ERRORS)
def test_errors_say_where_and_what(line: str, message: str, hint: str) -> None:
    text = in_function(line.replace("→", ""))
    with pytest.raises(TextError) as caught:
        read_module(text, "k.pto")
    error = caught.value
    assert message in error.message
    assert (error.file, error.line, error.column) == ("k.pto", 2, line.index("→") + 3)
    assert hint in error.hint and bool(hint) == bool(error.hint)
    first, source, caret, *last = str(error).splitlines()
    assert first == f"k.pto:2:{error.column}: {error.message}"
    whole, shown = text.splitlines()[1], source[4:]
    assert shown in whole and whole[error.column - 1 :].startswith(shown[len(caret) - 5 :])
    assert last == ([f"    {error.hint}"] if hint else [])


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("module {\n  func.func @f() {\n    return\n", "2:18", "`{` is not closed: the text ends in its body"),
        ("module {\n}\n}\n", "3:1", "unexpected `}`: there is one too many"),
        ("func.func @f() {\n  pto.trap }\n  return\n}", "2:12", "the function @f ends without a terminator"),
        ("func @f() {}", "1:1", "unknown op `func`"), ("func.func f() {}", "1:11", "as in `@name`"),
        ("func.func @f(%a) {}", "1:16", "expected `:` behind the name of an argument"),
        ("func.func @f(%a: i1, i2) {}", "1:26", "all arguments to have names, or none"),
        ("<html>", "1:1", "expected an operation"), ("import numpy", "1:1", "unknown op"),
        ('module attributes pto.target_arch = "a3" {}', "1:19", "expected `{`"),
    ],
)  # fmt: skip
def test_errors_around_functions(text: str, place: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        read_module(text, "k.pto")
    assert f"{caught.value.line}:{caught.value.column}" == place
    assert message in caught.value.message


SEVERAL = f"""module {{
  func.func @f(%a: {TILE}, %n: index) {{
    %b = pto.alloc_tile : !pto.tile_buf<vec, 16x32xint32>
    %b = pto.alloc_tile : {TILE}
    %c = arith.addi %n, %n : xint32
    %d = arith.addi %c, %n : index
    # no comment
    pto.tadd ins(%a, %a : {TILE}, {TILE}) outs(%b : {TILE}
    scf.for %i = %n to %m step %n {{
      pto.tabs ins(%i : {TILE}) outs(%b : {TILE})
    }}
    scf.if %n {{
      arith.adddi %n, %n : index
    }}
    return
  }}
  func.func @g() {{
    pto.trap
  }}
}}
"""
SAID = {
    3: "expected a type", 4: "redefinition of SSA value `%b`, first defined on line 3", 5: "expected a type",
    7: "unexpected character `#`", 8: "`(` of outs(...) is not closed", 9: "use of undeclared SSA value name `%m`",
    10: "`%i` is of type index, but used with", 12: "`%n` is of type index, but used with i1",
    13: "unknown op `arith.adddi`", 19: "the body of the function @g ends without a terminator",
}  # fmt: skip
"""The errors of the text, by their lines."""


def test_every_error_of_a_text_is_reported() -> None:
    with pytest.raises(TextError) as caught:
        read_module(SEVERAL, "k.pto")
    errors = caught.value.errors
    assert [error.line for error in errors] == list(SAID)
    assert all(said in error.message for error, said in zip(errors, SAID.values(), strict=True))
    assert errors[0].hint == errors[2].hint == "did you mean `i32`?"
    assert [line for line in str(caught.value).splitlines() if line.startswith("k.pto:")] == [
        f"k.pto:{error.line}:{error.column}: {error.message}" for error in errors
    ]


def test_only_some_of_many_errors_are_shown() -> None:
    with pytest.raises(TextError, match="and 30 more") as caught:
        read_module(in_function(*["arith.adddi %n, %n : index"] * 50))
    assert len(caught.value.errors) == 50 and str(caught.value).count("unknown op") == 20


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("module {\n  func.func @f(%c: i1) {\n    scf.if %c {\n      pto.trap\n    return\n  }\n}\n", 3),
        ("module {\n  func.func @f() {\n    return\n  func.func @g() {\n    return\n  }\n}\n", 2),
        ("func.func @f(%t: i1\n) {\n  return\n", 2),
        ('"a.b"() {x = [1, 2\n} : () -> ()\n', 1),
        ("func.func @f(%a: i1, %b: i1\nattributes {x} {\n  return\n}", 1),
    ],
)
def test_what_is_not_closed_is_reported_where_it_was_opened(text: str, line: int) -> None:
    with pytest.raises(TextError, match="is not closed") as caught:
        read_module(text)
    (error,) = [error for error in caught.value.errors if "is not closed" in error.message]
    assert error.line == line


def test_at_most_five_words_are_proposed() -> None:
    with pytest.raises(TextError) as caught:
        read_module(in_function("pto.barrier <PIPE_MTE22>"))
    assert caught.value.message.count("PIPE_") == 6


@pytest.mark.parametrize(
    "body",
    [
        "pto.trap", "cf.br ^next\n^next:", "%c = arith.constant 1 : index",
        "scf.for %i = %n to %n step %n iter_args(%a = %n) -> (index) {\n}\nreturn",
        "scf.while : () -> () {\n} do {\nscf.yield\n}\nreturn",
    ],
)  # fmt: skip
def test_a_body_without_a_terminator_is_refused(body: str) -> None:
    with pytest.raises(TextError, match="ends without a terminator"):
        read_module(f"func.func @f(%n: index) {{\n{body}\n}}")


@pytest.mark.parametrize(
    "line",
    [
        "%a = arith.addi %n, %n : i32", "%a = arith.index_cast %n : i64 to i32", "%a = arith.select %n, %n, %n : index",
        "return %n : i32", "%a = func.call @f(%n) : (i32) -> i32", '"a.b"(%n) : (i32) -> ()', "memref.dealloc %n : i32",
        "scf.for %i = %n to %n step %n : i32 {\n}", "%a = pto.addptr %n, %n : <f32> -> <f32>",
    ],
)  # fmt: skip
def test_operands_that_contradict_their_types_are_refused(line: str) -> None:
    with pytest.raises(TextError, match="`%n` is of type index, but used with"):
        read_module(in_function(line))


@pytest.mark.parametrize("text", ["}", "module {", "func.func @f(", "%", '"', "\0"])
def test_stumps_are_refused(text: str) -> None:
    with pytest.raises(TextError):
        read_module(text)


def test_bytes_that_are_not_text() -> None:
    with pytest.raises(TextError, match=r"byte 11 \(0xff\) is not UTF-8") as caught:
        read_module(b"module {\n  \xff\n}", "b.pto")
    assert str(caught.value.where) == "b.pto:2:3"


def test_text_that_is_too_long() -> None:
    with pytest.raises(TextError, match="longer than 64 MB"):
        read_module(b" " * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("head", "middle", "tail"),
    [
        ("", "module {", "}"), ("", "scf.if %c {", "}"), ('"a.b"() {x = ', "[", "]"), ("", "!pto.ptr<", ">"),
        ("", '"a.b"() ({', "}) : () -> ()"),
    ],
)  # fmt: skip
def test_nesting_has_a_limit(head: str, middle: str, tail: str) -> None:
    before = sys.getrecursionlimit()
    with pytest.raises(TextError, match=f"nested more than {MAX_DEPTH} deep"):
        read_module(head + middle * 10_000 + tail * 10_000)
    assert sys.getrecursionlimit() == before


def test_nesting_below_the_limit_is_read() -> None:
    deep = MAX_DEPTH - 4
    text = in_function(*["scf.if %c {"] * deep, *["}"] * deep, arguments="%c: i1")
    module = read_module(text)
    assert facts(read_module(print_module(module))) == facts(module)
    text = f'"a.b"() {{x = {"[" * deep}{"]" * deep}}} : () -> ()'
    assert facts(read_module(print_module(read_module(text)))) == facts(read_module(text))


def test_a_long_line_is_shown_in_part() -> None:
    with pytest.raises(TextError) as caught:
        read_module("module {" + " " * 1_000_000 + "nowhere" + " " * 1_000_000 + "}")
    assert caught.value.column == 1_000_009
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "value",
    [
        "1 : i9999999", "9" * 10_000,
        f"affine_map<(d0) -> ({'-' * 20_000}d0)>", f"affine_map<(d0) -> ({'d0+' * 20_000}d0)>", '"\ud800"',
    ],
    ids=lambda value: value[:30].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_short_texts_that_would_be_large_are_refused(value: str) -> None:
    with pytest.raises(TextError):
        print_module(read_module(f'"a.b"() {{x = {value}}} : () -> ()'))


@pytest.mark.parametrize("mark", ['"open', "x" * 100_000, '"\\' + '\\"' * 100_000, "(" * 10_000_000])
def test_long_lines_do_not_take_long(mark: str) -> None:
    with pytest.raises(TextError):
        read_module(f"module {{ {mark}{' a' * 50_000}")


def test_a_text_leaves_nothing_behind_for_the_next() -> None:
    good = in_function("pto.trap")
    before = print_module(read_module(good))
    for bad in (
        '"a.b"() ({\n return\n}) : () -> ()',
        '"return"() : () -> ()',
        '"call"() : () -> ()',
        '"module"() : () -> ()',
    ):
        with contextlib.suppress(TextError):
            read_module(bad)
        assert print_module(read_module(good)) == before


# --- terminators


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        (("return", "pto.trap"), "`func.return` must be the last operation in the parent block", 2),
        (("scf.for %i = %n to %n step %n {", "scf.yield", "pto.trap", "}"),
         "`scf.yield` must be the last operation in the parent block", 3),
        (("scf.for %i = %n to %n step %n {", "return", "}"), "`func.return` expects parent op `func.func`", 3),
        (("scf.for %i = %n to %n step %n {", "scf.yield %n : index", "}"),
         "`scf.yield` has operands of types: index", 3),
        (("%r = scf.for %i = %n to %n step %n iter_args(%x = %n) -> (index) {", "scf.yield", "}"),
         "`scf.yield` has operands of types: none", 3),
    ],
)  # fmt: skip
def test_terminators_stand_at_the_end_of_their_blocks(lines: tuple[str, ...], message: str, line: int) -> None:
    with pytest.raises(TextError) as caught:
        read_module(in_function(*lines))
    assert message in caught.value.message
    assert caught.value.line == line
    assert len(caught.value.errors) == 1


@pytest.mark.parametrize(("results", "returned"), [("", " %n : index"), (" -> index", ""), (" -> i32", " %n : index")])
def test_a_function_returns_what_its_signature_states(results: str, returned: str) -> None:
    with pytest.raises(TextError, match=r"`func.return` has operands of types: .*; the results of `func.func` have: "):
        read_module(f"func.func @f(%n: index){results} {{\n  return{returned}\n}}")
    read_module("func.func @f(%n: index) -> index {\n  return %n : index\n}")


# --- one cause, one error


ONE_CAUSE = {
    "outs before ins": (f"pto.tabs outs(%t : {TILE}) →ins(%t : {TILE})", "expected `ins(...)` before `outs(...)`"),
    "out for outs": (f"pto.tabs ins(%t : {TILE}) →out(%t : {TILE})", "unknown `out`"),
    "misspelt clause": (f"pto.tload ins(%w : {VIEW}) outs(%t : {TILE}) →pad_mod = #pto.pad_mode<PadNull>", "`pad_mod`"),
    "open string": ('pto.trap {a = →"open}', "the string does not end on its line"),
    "unknown type": ("%a = pto.alloc_tile : →!pto.tile_bf<vec, 8x8xf32>", "is not a tile type"),
    "later definition": (
        "%a = arith.addi %n, →%b : index\n  %b = arith.constant 1 : index",
        "used before its definition",
    ),
}


@pytest.mark.parametrize(("line", "message"), ONE_CAUSE.values(), ids=ONE_CAUSE)
def test_one_cause_is_one_error_at_its_place(line: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        read_program(in_function(line.replace("→", "")), "k.pto")
    (error,) = caught.value.errors
    assert message in error.message
    assert (error.line, error.column) == (2, line.index("→") + 3)


def test_a_use_before_the_definition_names_its_line() -> None:
    lines = "%a = arith.addi %n, %b : index", "%b = arith.constant 1 : index"
    with pytest.raises(TextError) as caught:
        read_program(in_function(*lines), "k.pto")
    assert caught.value.hint == "it is defined later, on line 3"


@pytest.mark.parametrize(
    ("name", "meant"), [("!pto.tile_bf<vec, 8x8xf32>", "!pto.tile_buf"), ("!pto.tyle<8x8xf32>", "!pto.tile")]
)
def test_a_misspelt_type_is_found(name: str, meant: str) -> None:
    with pytest.raises(TextError) as caught:
        read_program(in_function(f"%a = pto.alloc_tile : {name}"), "k.pto")
    assert caught.value.hint == f"did you mean `{meant}`?"


@pytest.mark.parametrize("indent", ["", "  "])
def test_one_brace_too_many_is_the_only_error(indent: str) -> None:
    text = (
        "module {\n  func.func @f() {\n    pto.trap\n    }\n    return\n  }\n  func.func @g() {\n    retrun\n  }\n}\n"
    )
    with pytest.raises(TextError) as caught:
        read_module(text)
    assert len(caught.value.errors) == 1
    assert (caught.value.line, caught.value.message) == (4, "unexpected `}`: there is one too many")
    with pytest.raises(TextError) as caught:
        read_module(f"func.func @f() {{\n  return\n}}\n{indent}}}\n")
    assert [(error.line, error.message) for error in caught.value.errors] == [
        (4, "unexpected `}`: there is one too many")
    ]


def test_a_wrong_comment_does_not_hide_a_missing_terminator() -> None:
    with pytest.raises(TextError) as caught:
        read_module("func.func @f() {\n  pto.trap # note\n}\n")
    assert [error.line for error in caught.value.errors] == [2, 3]
    assert "ends without a terminator" in caught.value.errors[1].message


def test_an_unknown_op_is_a_terminator_only_at_the_end() -> None:
    read_module("func.func @f() {\n  pto.trap\n  my.end\n}\n")
    with pytest.raises(TextError, match="ends without a terminator"):
        read_module("func.func @f() {\n  my.end\n  pto.trap\n}\n")
