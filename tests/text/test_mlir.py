"""MLIR text: everything is read, nothing is lost, the print is canonical, and errors are for people."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdsl")

from ptokit.text.attributes import ANGLE, SPACED
from ptokit.text.dialect import ROWS
from ptokit.text.errors import TextError
from ptokit.text.mlir import MAX_BYTES, MAX_DEPTH, Module, print_module, read_module
from ptokit.text.shapes import PtoOp
from ptokit.text.types import TileBuf, TileBufType

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.pto"))
FUZZ = 300 * int(os.environ.get("PTOKIT_FUZZ", "1"))

TILE = "!pto.tile_buf<vec, 16x32xf32>"
KEYED = (
    "!pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=32, blayout=row_major, slayout=none_box,"
    " fractal=512, pad=0>"
)
VIEW = "!pto.partition_tensor_view<16x32xf32>"


def ops_of(module: Module) -> list[PtoOp]:
    return [op for op in module.op.walk() if isinstance(op, PtoOp)]


def in_function(*lines: str, arguments: str = f"%t: {TILE}, %w: {VIEW}, %n: index") -> str:
    return "\n".join([f"func.func @f({arguments}) {{", *(f"  {line}" for line in lines), "  return", "}"])


def type_of(text: str, **options: str) -> TileBuf:
    (op,) = ops_of(read_module(in_function(f"%a = pto.alloc_tile : {text}"), **options))
    kind = op.results[0].type
    assert isinstance(kind, TileBufType)
    return kind.data


# --- the corpus


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus_round_trips(path: Path) -> None:
    module = read_module(path.read_bytes(), str(path))
    text = print_module(module)
    again = read_module(text)
    assert again == module
    assert print_module(again) == text


def words(text: str) -> list[str]:
    """Op names and value names of a text, with comments, strings and types left out."""
    text = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", text)
    return re.findall(r"(?<![\w!#.])pto\.[a-z][\w.]*(?=[ \[(\n<])|%[\w]+", re.sub(r"attributes\s*\{[^}]*\}", "", text))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_op_and_no_name_is_lost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.stem == "generic_form":
        pytest.skip("its ops change their spelling")
    there = [word for word in words(text) if word != "pto.tile"]
    assert sorted(words(print_module(read_module(text)))) == sorted(there)


def test_every_op_of_the_table_is_in_the_corpus() -> None:
    seen = {op.name.removeprefix("pto.") for path in CORPUS for op in ops_of(read_module(path.read_bytes()))}
    rare = {
        "tfillpad_inplace", "tfillpad_expand", "trandom", "tgemv.mx", "tgemv.mx.acc", "tgemv.mx.bias", "tpush_to_aic",
        "tpop_from_aiv", "tfree_from_aiv", "import_reserved_buffer",
    }  # fmt: skip
    assert set(ROWS) - seen == rare


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


def test_names_that_are_missing_are_numbers_that_are_free() -> None:
    text = in_function("%0 = arith.constant 0 : i32", "arith.constant 1 : i32")
    assert "%1 = arith.constant 1 : i32" in print_module(read_module(text))


def test_where_an_op_stands() -> None:
    module = read_module(in_function("%c = arith.constant 0 : index", "pto.trap"), "k.pto")
    (trap,) = ops_of(module)
    assert str(module.where(trap)) == "k.pto:3:3"


def test_modules_that_differ_are_not_equal() -> None:
    one = read_module(in_function('pto.trap loc("a":1:1)'))
    assert one == read_module(in_function('pto.trap   loc("a":1:1)'))
    for other in (
        'pto.trap loc("a":1:2)',
        "pto.trap",
        'pto.trap {x} loc("a":1:1)',
        'pto.barrier <PIPE_ALL> loc("a":1:1)',
    ):
        assert one != read_module(in_function(other))
    assert one != "pto.trap"


# --- versions

GATHER = f"pto.mgather ins(%w, %i : {VIEW}, {{i}}) outs(%t : {TILE})"
ROW, LONG, ELEM = (
    "!pto.tile_buf<vec, 16x1xi32, blayout=col_major>", "!pto.tile_buf<vec, 1x16xi32>", "!pto.tile_buf<vec, 16x32xi32>"
)  # fmt: skip


def gather(index: str, tail: str = "") -> Module:
    return read_module(
        in_function(GATHER.format(i=index) + tail, arguments=f"%t: {TILE}, %w: {VIEW}, %i: {index}"), "g.pto"
    )


@pytest.mark.parametrize(("index", "mode"), [(ROW, "row"), (ELEM, "elem")])
def test_the_newer_version_says_the_mode(index: str, mode: str) -> None:
    plain, full = gather(index), gather(index, f" {{coalesce = #pto<coalesce {mode}>}}")
    assert print_module(plain, "new") == print_module(full) == print_module(full, "new")
    assert print_module(full, "0.27") == print_module(plain) == print_module(plain, "0.27")


def test_the_module_itself_is_not_changed_by_printing() -> None:
    module = gather(ROW)
    print_module(module, "new")
    assert module == gather(ROW)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (GATHER.format(i=LONG) + " {coalesce = #pto<coalesce row>}", "does not say `row`"),
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

ERRORS = {
    "unknown op": (f"pto.tad ins(%t, →: {TILE})", "expected an operand", "pto.tand"),
    "unknown op of a dialect": ("→arith.adddi %n, %n : index", "no known op", "arith.addi"),
    "unknown word": ("→retrun", "no known op", "return"),
    "keyword": ("pto.barrier <→PIPE_MTE22>", "no keyword `PIPE_MTE22`", "PIPE_MTE2"),
    "keyword in brackets": ("pto.trap {a = #pto<coalesce →rows>}", "no keyword `rows`", "row"),
    "keyword alone": ("pto.trap {coalesce = →elem}", "expected the value", "coalesce = #pto<coalesce elem>"),
    "keyword of a longer name": (
        "pto.trap {gatherOob = →zero}",
        "expected the value",
        "gatherOob = #pto<gather_oob zero>",
    ),
    "place of a tile": ("%a = pto.alloc_tile : !pto.tile_buf<→vek, 8x8xf32>", "no place of a tile", "vec"),
    "key of a tile": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, →layout=row_major>", "no key", "slayout"),
    "key of a tile twice": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, pad=1, →pad=1>", "given twice", ""),
    "order of keys": ("%a = pto.alloc_tile : !pto.tile_buf<loc=vec, →rows=8>", "whose order is: loc dtype rows", ""),
    "value of a key": ("%a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32, fractal=→500>", "500 is no fractal", ""),
    "dynamic tile": ("%a = pto.alloc_tile : !pto.tile_buf<vec, →?x8xf32>", "two static extents", ""),
    "key of a configuration": ("pto.trap {a = #pto.tile_buf_config<→pat=1>}", "no key `pat`", "pad"),
    "address space": ("%a = pto.load %n[%n] : !pto.ptr<f32, →gn> -> f32", "no address space", ""),
    "another type": (f"pto.tabs ins(→%n : {TILE}) outs(%t : {TILE})", "previously used or defined with type index", ""),
    "too few types": (f"pto.tadd ins(→%t, %t : {TILE}) outs(%t : {TILE})", "2 operands and 1 types", ""),
    "no type": ("pto.tabs ins(→%nowhere) outs(%t)", "expected the type of %nowhere", ""),
    "undefined value": (f"pto.tabs ins(→%tt : {TILE}) outs(%t : {TILE})", "`%tt` is not defined", "%t"),
    "value twice": ("→%n = arith.constant 1 : index", "already defined", ""),
    "alias": ("pto.trap {a = →#nowhere}", "`#nowhere` is not defined", ""),
    "open string": ('pto.trap {a = →"open}', "string", ""),
    "character": ("pto.trap →;", "unexpected character", ""),
    "attribute twice": ("pto.trap {a, →a}", "`a` is given twice", ""),
    "bracket": ("pto.set_flag[<PIPE_V>, <PIPE_S>, <EVENT_ID0> →{}", "']' expected", ""),
    "wide integer": ("%a = arith.constant 1 : →i99999999", "too wide", ""),
    "results": ("→%a, %b = arith.constant 1 : index", "has 1 results, but was given 2", ""),
    "generic form": ('"x.y"() {} →-> ()', "expected ':': function type", ""),
}
"""Lines with a mark where the error is, what it says, and the fix that it proposes."""


@pytest.mark.parametrize(("line", "message", "fix"), ERRORS.values(), ids=ERRORS)
def test_errors_say_where_and_what(line: str, message: str, fix: str) -> None:
    text = in_function(line.replace("→", ""))
    with pytest.raises(TextError) as caught:
        read_module(text, "k.pto")
    error = caught.value
    assert message in error.message
    assert (error.file, error.line, error.column) == ("k.pto", 2, line.index("→") + 3)
    assert error.hint == (f"did you mean `{fix}`?" if fix else "")
    first, source, caret, *hint = str(error).splitlines()
    assert first == f"k.pto:2:{error.column}: {error.message}"
    assert source == f"    {text.splitlines()[1]}"
    assert caret == " " * (3 + error.column) + "^"
    assert hint == ([f"    {error.hint}"] if fix else [])


@pytest.mark.parametrize("text", ["", "// nothing", "}", "module {", "func.func @f(", "%", '"', "\0"])
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
    assert read_module(print_module(module)) == module
    text = f'"a.b"() {{x = {"[" * deep}{"]" * deep}}} : () -> ()'
    assert read_module(print_module(read_module(text))) == read_module(text)


def test_a_long_line_is_shown_in_part() -> None:
    with pytest.raises(TextError) as caught:
        read_module("module {" + " " * 1_000_000 + "nowhere" + " " * 1_000_000 + "}")
    assert caught.value.column == 1_000_009
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "value",
    [
        "dense<0> : tensor<9999999999xi32>", "dense<1.0> : vector<99999999xf32>", "1 : i9999999", "9" * 10_000,
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


# --- fuzz


def mutated(rng: random.Random, text: bytes) -> bytes:
    """A text with a few bytes changed, a piece moved, an end cut off, or much too much nesting."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(7):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.choice(b'<>(){}[]%!#:,="-?x0')
            case 2:
                del data[at : at + rng.randint(1, 30)]
            case 3:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randint(1, 60)]
            case 4:
                data = data[: at + 1]
            case 5:
                data[at:at] = rng.choice([b"(", b"<", b"[", b"!pto.ptr<", b"-", b"9"]) * rng.choice([3, 150, 10_000])
            case _:
                data[at:at] = bytes(rng.randrange(256) for _ in range(3))
        data = data or bytearray(b" ")
    return bytes(data)


@pytest.mark.parametrize("part", range(10))
def test_mutated_texts_are_read_or_refused_with_an_error(part: int) -> None:
    rng = random.Random(part)
    texts = [path.read_bytes() for path in CORPUS]
    refused: list[TextError] = []
    for _ in range(FUZZ // 10):
        try:
            module = read_module(mutated(rng, rng.choice(texts)))
        except TextError as error:
            refused.append(error)
        else:
            text = print_module(module)
            assert print_module(read_module(text)) == text
    assert all(error.line >= 1 and error.column >= 1 and len(str(error)) < 3000 for error in refused)
