"""Programs as C++: it compiles, it says what the program says, and what the headers refuse is refused."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ptokit as pto
import snippet
from examples.test_gallery import GALLERY, Entry, rng
from lang.random_kernels import random_kernel
from lang.test_random_kernels import GRID, kernel_of
from lang.test_random_kernels import arguments as random_arguments
from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.lang.launch import mode_of
from ptokit.program.expr import OPS, Expr, ExpressionError, Var, apply, evaluate
from ptokit.program.ir import Instr, Program, walk
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.cpp_expr import HELPERS, Expressions, Identifiers, identifier
from text.compiling import complaints, output

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("PTOKIT_UPDATE_GOLDEN"))
TARGETS = ("cpu", "a2a3", "a5")
REFUSED = {("segment_max", "a2a3"): "MS-ATOM-06"}
"""Kernels of the gallery that a target takes and its headers do not."""

LAUNCHES = [(entry, target) for entry in GALLERY for target in entry.targets if (entry.name, target) not in REFUSED]
every_launch = pytest.mark.parametrize(
    ("entry", "target"), [pytest.param(entry, target, id=f"{entry.name}-{target}") for entry, target in LAUNCHES]
)


def program_of(kernel: Any, target: str, **given: Any) -> Program:
    return kernel.trace(kernel.bind((), given), mode_of(target)).program


def gallery(entry: Entry, target: str, **sizes: Any) -> str:
    return emit(program_of(entry.kernel, target, **entry.make(rng(), **sizes)), profile(target))


def traced(body: str, target: str = "a5", mode: str = "auto", **given: Any) -> Program:
    """The program of a kernel whose body is a text."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = f'@pto.kernel(mode="{mode}")\ndef k({", ".join(given)}):\n{lines}\n'
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(source, "text"), names)
    return program_of(names["k"], target, **given)


def emitted(body: str, target: str = "a5", mode: str = "auto", options: Options | None = None, **given: Any) -> str:
    return emit(traced(body, target, mode, **given), profile(target), options)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, "float32")


def ints(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, "int32")


# --- The gallery and random kernels compile ------------------------------------------------------------------------


@every_launch
def test_the_gallery_compiles(entry: Entry, target: str, tmp_path: Path) -> None:
    for sizes in (*entry.sizes, entry.small):
        assert complaints(gallery(entry, target, **sizes), target, tmp_path) == ""


@every_launch
def test_the_gallery_is_written_as_before(entry: Entry, target: str) -> None:
    """`PTOKIT_UPDATE_GOLDEN=1` writes the files anew."""
    file, found = GOLDEN / f"{entry.name}.{target}.cpp", gallery(entry, target, **entry.sizes[0])
    if UPDATE:
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {f"{entry.name}.{target}.cpp" for entry, target in LAUNCHES}


@pytest.mark.parametrize("launch", REFUSED, ids="-".join)
def test_the_gallery_is_refused_where_the_headers_refuse(launch: tuple[str, str]) -> None:
    entry = next(entry for entry in GALLERY if entry.name == launch[0])
    with pytest.raises(pto.VerifyError) as refusal:
        gallery(entry, launch[1], **entry.small)
    assert [finding.rule for finding in refusal.value.findings] == [REFUSED[launch]]


@pytest.mark.parametrize("seed", range(30 * int(os.environ.get("PTOKIT_FUZZ", "1"))))
def test_random_kernels_compute_the_same_in_cpp(seed: int, tmp_path: Path) -> None:
    """The flags do nothing here: every block runs in program order."""
    for mode, source in zip(("auto", "manual"), random_kernel(seed), strict=True):
        kernel, target = kernel_of(source, f"{mode} {seed}"), TARGETS[(seed + (mode == "manual")) % 3]
        text = emit(program_of(kernel, target, **random_arguments()), profile(target))
        given = random_arguments()
        kernel[GRID](**given, target=target)
        found = output(text + main_of(random_arguments()), tmp_path, target).split()
        assert [float(number) for number in found] == given["out"].ravel().tolist()


def main_of(given: dict[str, Any]) -> str:
    """A program that runs a kernel over a grid and prints what it leaves in its output."""
    lines = ["#include <cstdio>", "int main() {"]
    for name, value in given.items():
        if isinstance(value, int):
            lines.append(f"    int64_t {name} = {value};")
        else:
            kind = {"float32": "float", "int32": "int32_t"}[str(value.dtype)]
            lines.append(f"    static {kind} {name}[] = {{{', '.join(map(str, value.ravel().tolist()))}}};")
    lines += [f"    allBlocks = {GRID};", f"    for (; thisBlock < allBlocks; ++thisBlock) k({', '.join(given)});"]
    lines += ['    for (float value : out) std::printf("%.9g\\n", value);', "}"]
    return "\n".join(lines)


def test_the_compiler_does_look(tmp_path: Path) -> None:
    good = emitted("t = pto.Tile('vec', 'float32', 8, 8)\npto.tload(t, x)\npto.tstore(x, t)", x=floats(8, 8))
    assert complaints(good, "a5", tmp_path) == ""
    for old, new in (("TLOAD(t", "TLOADS(t"), ("8, 8> t", "8, 7> t"), ("Shape<1, 1, 1, 8", "Shape<1, 1, 1, 9")):
        assert old in good
        assert complaints(good.replace(old, new), "a5", tmp_path)


# --- Every instruction ---------------------------------------------------------------------------------------------

VECTOR = """
a = pto.Tile("vec", "float32", 8, 64)
b = pto.Tile("vec", "float32", 8, 64)
c = pto.Tile("vec", "float32", 8, 64)
i = pto.Tile("vec", "int32", 8, 64)
j = pto.Tile("vec", "int32", 8, 64)
h = pto.Tile("vec", "float16", 8, 64)
s = pto.Tile("vec", "int16", 8, 64)
turned = pto.Tile("vec", "float32", 64, 8)
counted = pto.Tile("vec", "int32", 1, 64)
mask = pto.Tile("vec", MASK, 8, 32, valid=(8, 64 // BITS))
pto.tload(a, x)
pto.tload(b, x)
pto.tload(i, idx)
pto.tload(j, idx)
for op in (pto.tadd, pto.tsub, pto.tmul, pto.tdiv, pto.tmax, pto.tmin):
    op(c, a, b)
for op in (pto.tand, pto.tor, pto.tshl, pto.tshr):
    op(j, i, j)
for op in (pto.tadds, pto.tsubs, pto.tmuls, pto.tmaxs, pto.tmins):
    op(c, a, 0.1)
for op in (pto.tands, pto.tors, pto.tshls, pto.tshrs):
    op(j, i, 3)
for op in (pto.tabs, pto.tneg, pto.texp, pto.tlog, pto.tsqrt, pto.trecip):
    op(c, a)
pto.tdivs(c, a, 2)
pto.tdivs(c, float("inf"), a)
pto.texpands(c, float("nan"))
pto.texpands(h, -0.5)
pto.texpands(j, -(2**31))
pto.texpands(c, pto.block_idx() * 2 + n)
pto.texpands(h, n)
pto.tci(counted, n)
pto.tci(counted, 5, descending=True)
pto.tcmp(mask, a, b, "lt")
pto.tcmps(mask, a, 1, "ge")
pto.tsel(c, mask, a, b)
pto.tsels(c, mask, a, -1)
pto.tcvt(j, a, "floor")
pto.tcvt(h, a)
pto.tcvt(s, a, "trunc")
pto.tgather(c, a, i)
pto.ttrans(turned, a)
pto.tmov(b, c)
pto.tscatter(c, a, i, index="flat")
column = pto.Tile("vec", "float32", 8, 1, blayout="col_major")
for op in (pto.trowsum, pto.trowmax, pto.trowmin):
    op(column, a)
for op in (pto.trowexpandmul, pto.trowexpandsub, pto.trowexpanddiv):
    op(c, a, column)
pto.textract(a, c, 0, 0)
pto.tstore(out, a, atomic="add")
pto.tstore(columns, column)
pto.mgather(c, x, i, coalesce="elem", oob="wrap")
pto.mscatter(out, c, i, atomic="add", oob="clamp")
"""
CUBE = """
NZ = {"blayout": "col_major", "slayout": "row_major"}
left_matrix = pto.Tile("mat", "float16", 16, 16, **NZ)
right_matrix = pto.Tile("mat", "float16", 16, 16, **NZ)
left = pto.Tile("left", "float16", 16, 16)
right = pto.Tile("right", "float16", 16, 16)
product = pto.Tile("acc", "float32", 16, 16)
bias = pto.Tile("bias", "float32", 1, 16)
pto.mgather(left_matrix, x, idx, scratch=scratch, oob="clamp")
pto.tload(right_matrix, x)
pto.tmov(left, left_matrix)
pto.textract(right, right_matrix, 0, 0)
pto.tmatmul(product, left, right)
pto.tmatmul_acc(product, product, left, right)
pto.tmatmul_bias(product, left, right, bias)
pto.tstore(out, product)
"""


def vector_program(target: str) -> Program:
    kind = "uint32" if target == "a5" else "uint8"
    body = VECTOR.replace("MASK", f'"{kind}"').replace("BITS", "32" if target == "a5" else "8")
    return traced(body, target, x=floats(8, 64), idx=ints(8, 64), columns=floats(8), out=floats(8, 64), n=3)


def cube_program(target: str) -> Program:
    halves = np.zeros((16, 16), "float16")
    return traced(CUBE, target, x=halves, idx=ints(16, 16), scratch=halves.copy(), out=floats(16, 16))


@pytest.mark.parametrize("target", TARGETS)
def test_every_vector_instruction_compiles(target: str, tmp_path: Path) -> None:
    assert complaints(emit(vector_program(target), profile(target)), target, tmp_path) == ""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_every_cube_instruction_compiles(target: str, tmp_path: Path) -> None:
    text = emit(cube_program(target), profile(target))
    assert complaints(text, target, tmp_path) == ""
    assert "__DAV_CUBE__" in text and "__DAV_VEC__" not in text
    assert "MGATHER<Coalesce::Elem, GatherOOB::Clamp>(left_matrix, x_view, idx_view, scratch_view);" in text


def test_no_instruction_is_left_out() -> None:
    programs = vector_program("a5"), cube_program("a5")
    used = {stmt.name for program in programs for stmt in walk(program.body) if isinstance(stmt, Instr)}
    assert used == set(INSTRUCTIONS) - {"tassign"}


def test_numbers_keep_their_type_and_value() -> None:
    text = emit(vector_program("a5"), profile("a5"))
    for call in (
        "TADDS(c, a, 0.1f);", "TSHRS(j, i, 3);", "TDIVS(c, __builtin_inff(), a);", "TDIVS(c, a, 2.0f);",
        'TEXPANDS(c, __builtin_nanf(""));', "TEXPANDS(h, static_cast<half>(-0.5f));", "TEXPANDS(j, (-2147483647 - 1));",
        "TEXPANDS(c, static_cast<float>(block_idx * 2 + n));",
        "TEXPANDS(h, static_cast<half>(static_cast<float>(n)));", "TCI<decltype(counted), int32_t, 1>(counted, 5);",
    ):  # fmt: skip
        assert call in text, call


# --- Expressions ---------------------------------------------------------------------------------------------------

VARIABLES = {Var("x"): -7, Var("y"): 12, Var("z"): 3, Var("block_idx"): 5, Var("block_num"): 2}


def random_expression(random: Random, depth: int) -> Expr:
    if not depth or random.random() < 0.2:
        return random.choice([*VARIABLES, random.randint(-9, 9), random.randint(0, 3)])
    name = random.choice(list(OPS))
    second = random.randint(0, 5) if name in ("shl", "shr") else random_expression(random, depth - 1)
    try:
        return apply(name, random_expression(random, depth - 1), second)
    except ExpressionError:
        return 1


def test_expressions_have_the_same_value_in_cpp(tmp_path: Path) -> None:
    random, lines, expected = Random(3), [], []
    names = [(apply("add", Var("x"), Var("y")), "sum"), (apply("mul", Var("z"), 4), "int")]
    writer = Expressions(Identifiers(), names)
    while len(expected) < 400:
        expr = random_expression(random, 4)
        try:
            value = evaluate(expr, VARIABLES)
        except ExpressionError:
            continue
        if abs(value) < 2**40:
            lines.append(f'std::printf("%lld %d\\n", (long long)({writer.text(expr)}), ({writer.condition(expr)}));')
            expected.append(f"{value} {int(value != 0)}")
    helpers = [f"int64_t {function}(int64_t a, int64_t b) {{ {does} }}" for function, does, _ in HELPERS.values()]
    values = [f"int64_t {var} = {value};" for var, value in VARIABLES.items()]
    values += ["int64_t sum = x + y;", "int64_t int_ = z * 4;"]
    source = ["#include <cstdint>", "#include <cstdio>", *helpers, "int main() {", *values, *lines, "}"]
    assert output("\n".join(source), tmp_path).splitlines() == expected


def test_division_is_plain_where_nothing_is_negative() -> None:
    text = emitted(
        "for i in pto.range(4):\n"
        "    t = pto.Tile('vec', 'float32', 8, 8)\n"
        "    pto.tload(t, x[i // 2 * 8 : i // 2 * 8 + 8])\n"
        "    pto.tstore(x[n // 2 * 8 : n // 2 * 8 + 8], t)",
        x=floats(16, 8), n=2,
    )  # fmt: skip
    assert "x + i / 2 * 8 * 8" in text and "floor_div(n, 2)" in text


def test_a_number_beyond_64_bits_is_refused() -> None:
    with pytest.raises(pto.VerifyError, match="64-bit") as refusal:
        emitted(f"with pto.when(n < {2**70}):\n    t = pto.Tile('vec', 'float32', 8, 8)\n    pto.texpands(t, 1)", n=1)
    assert refusal.value.findings[0].rule == "KN-11"


# --- Tiles and tensors ---------------------------------------------------------------------------------------------


def test_dynamic_extents_are_constructor_arguments(tmp_path: Path) -> None:
    table = pto.GlobalTensor(floats(30, 8), shape=(1, 1, 1, pto.dyn(30), 8), stride=(240, 240, 240, pto.dyn(8), 1))
    text = emitted(
        "n = pto.min(16, m)\n"
        "rows = pto.Tile('vec', 'int32', 1, 16, valid=(1, n))\n"
        "t = pto.Tile('vec', 'float32', 16, 16, valid=(n, pto.dyn(8)))\n"
        "pto.tload(rows, idx[0:n])\n"
        "pto.mgather(t, table, rows, oob='clamp')\n"
        "pto.tstore(out[0:n], t)",
        table=table, idx=ints(16), out=floats(16, 8), m=3,
    )  # fmt: skip
    assert complaints(text, "a5", tmp_path) == ""
    assert "Tile<TileType::Vec, float, 16, 16, BLayout::RowMajor, -1, -1> t(n, 8);" in text
    assert "using table_view_shape = Shape<1, 1, 1, -1, 8>;" in text
    assert "using table_view_stride = Stride<240, 240, 240, -1, 1>;" in text
    assert "table, table_view_shape(30), table_view_stride(8));" in text
    assert "int64_t m)" in text


def test_a_tile_with_other_extents_is_another_object_at_the_same_address(tmp_path: Path) -> None:
    text = emitted(
        "t = pto.Tile('vec', 'float32', 8, 8)\n"
        "pto.tload(t, x)\n"
        "for i in pto.range(1, 4):\n"
        "    t.valid = (i, 8)\n"
        "    pto.tstore(x[0:i], t)",
        x=floats(8, 8),
    )  # fmt: skip
    assert complaints(text, "a5", tmp_path) == ""
    assert "float, 8, 8> t;" in text and "float, 8, 8, BLayout::RowMajor, -1> t_part(i);" in text
    assert text.count("TASSIGN(t, 0x0);") == text.count("TASSIGN(t_part, 0x0);") == 1


def test_a_transfer_moves_the_valid_region_only() -> None:
    text = emitted(
        "t = pto.Tile('vec', 'float32', 8, 8, valid=(3, 5))\npto.tload(t, x)\npto.tstore(x, t)", x=floats(8, 8)
    )
    assert text.count("Shape<1, 1, 1, 3, 5>, Stride<64, 64, 64, 8, 1>") == 1


def test_a_column_is_stored_as_a_run() -> None:
    body = "t = pto.Tile('vec', 'float32', 8, 1, blayout='col_major')\nu = pto.Tile('vec', 'float32', 8, 8)\n"
    text = emitted(f"{body}pto.tload(u, x)\npto.trowsum(t, u)\npto.tstore(y, t)", x=floats(8, 8), y=floats(8))
    assert "GlobalTensor<float, Shape<1, 1, 1, 8, 1>, Stride<8, 8, 8, 1, 1>, Layout::DN> y_view(y);" in text


COLUMN_INDEX = """
rows = pto.Tile("vec", "int32", 8, 1, blayout="col_major")
wide = pto.Tile("vec", "int32", 8, 8)
t = pto.Tile("vec", "float32", 8, 8)
pto.tload(wide, idx)
pto.tload(t, x)
pto.trowsum(rows, wide)
pto.mscatter(x, t, rows)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_column_of_row_numbers_is_written_as_a_row(target: str, tmp_path: Path) -> None:
    text = emitted(COLUMN_INDEX, target, idx=ints(8, 8), x=floats(8, 8))
    assert complaints(text, target, tmp_path) == ""
    assert "Tile<TileType::Vec, int32_t, 1, 8> rows_row;" in text
    conflict = ", ScatterAtomicOp::None, ScatterOOB::Undefined, ScatterConflict::Default" if target == "a5" else ""
    assert f"MSCATTER<Coalesce::Row{conflict}>(x_view, t, rows_row);" in text


def test_a_row_major_column_is_a_row_from_the_beginning(tmp_path: Path) -> None:
    body = COLUMN_INDEX.replace(', blayout="col_major"', "").replace("pto.trowsum(rows, wide)", "pto.tload(rows, ids)")
    text = emitted(body, "cpu", idx=ints(8, 8), x=floats(8, 8), ids=ints(8, 1))
    assert complaints(text, "cpu", tmp_path) == ""
    assert "Tile<TileType::Vec, int32_t, 1, 8> rows;" in text and "rows_row" not in text
    assert "GlobalTensor<int32_t, Shape<1, 1, 1, 1, 8>, Stride<8, 8, 8, 1, 1>" in text


def test_what_goes_without_saying_is_not_said() -> None:
    body = (
        "r = pto.Tile('vec', 'int32', 1, 8)\nt = pto.Tile('vec', 'float32', 8, 8)\npto.tload(r, idx)\npto.tload(t, x)\n"
    )
    given = {"idx": ints(8), "x": floats(8, 8)}
    for target, options, expected in (
        ("a5", 'conflict="last"', "Coalesce::Row"),
        ("a5", 'conflict="last", oob="skip"', "Coalesce::Row, ScatterAtomicOp::None, ScatterOOB::Skip"),
        ("a5", 'atomic="add"', "Coalesce::Row, ScatterAtomicOp::Add"),
        ("a2a3", "", "Coalesce::Row"),
        ("a2a3", 'conflict="last"', "Coalesce::Row"),
        ("cpu", 'conflict="last"',
         "Coalesce::Row, ScatterAtomicOp::None, ScatterOOB::Undefined, ScatterConflict::Last"),
    ):  # fmt: skip
        text = emitted(f"{body}pto.mscatter(x, t, r, coalesce='row', {options})", target, **given)
        assert f"MSCATTER<{expected}>(x_view_1, t, r);" in text or f"MSCATTER<{expected}>(x_view, t, r);" in text


# --- Manual mode, launches -----------------------------------------------------------------------------------------

MANUAL = """
base = pto.block_idx() % 2 * 1024
t = pto.Tile("vec", "float32", 8, 8, addr=0x100)
u = pto.Tile("vec", "float32", 8, 8)
pto.tassign(u, 0x400)
for i in pto.range(0, 4, 1):
    with pto.when(i > 0):
        pto.wait_flag("MTE3", "MTE2", (i - 1) % 2)
    pto.tassign(t, 0x100 + i % 2 * 256)
    loaded = pto.tload(t, x)
    pto.set_flag("MTE2", "V", i % 2)
    pto.wait_flag("MTE2", "V", i % 2)
    pto.tadds(u, t, 1)
    pto.barrier("ALL")
    pto.tstore(x, u, wait=loaded)
    pto.set_flag("MTE3", "MTE2", i % 2)
pto.wait_flag("MTE3", "MTE2", 1)
"""


def test_manual_mode_keeps_the_author_s_own(tmp_path: Path) -> None:
    text = emitted(MANUAL, mode="manual", x=floats(8, 8))
    assert complaints(text, "a5", tmp_path) == ""
    for line in (
        "int64_t t_at = 0x100;", "u_at = 0x400;", "t_at = 256 + i % 2 * 256;", "TASSIGN(t, t_at);",
        "set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(i % 2));", "pipe_barrier(PIPE_ALL);  // <text>:15",
        "wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);", "pipe_barrier(PIPE_ALL);  // for event 0",
    ):  # fmt: skip
        assert line in text, line
    assert text.count("set_flag") == 2 and "base" not in text


def test_every_instruction_has_its_place() -> None:
    text = emitted("t = pto.Tile('vec', 'float32', 8, 8)\npto.tload(t, x)\npto.tstore(x, t)", x=floats(8, 8))
    assert re.search(r"TLOAD\(.*\);  // <text>:4\n", text) and re.search(r"TSTORE\(.*\);  // <text>:5\n", text)


LARGE = "t = pto.Tile('vec', 'float32', 320, 128)\npto.tload(t, x)\npto.tstore(x, t)"


def test_a_launch_asks_for_dynamic_memory_where_it_must(tmp_path: Path) -> None:
    text = emitted(LARGE, x=floats(320, 128))
    assert complaints(text, "a5", tmp_path) == ""
    assert (
        f"constexpr uint32_t kDynUbBytes = {320 * 128 * 4};" in text and "k<<<blocks, kDynUbBytes, stream>>>(x)" in text
    )
    small = emitted(LARGE.replace("320", "64"), x=floats(64, 128))
    assert "kDynUbBytes" not in small and "k<<<blocks, nullptr, stream>>>(x)" in small
    assert "kDynUbBytes" not in emitted(LARGE, "a2a3", x=floats(320, 128))
    assert "<<<" not in emitted(LARGE, "cpu", x=floats(320, 128))


def test_the_launch_is_held_to_what_it_asks_for() -> None:
    program = traced(LARGE, x=floats(320, 128))
    assert "kDynUbBytes = 200000" in emit(program, profile("a5"), dyn_ub=200_000)
    with pytest.raises(pto.VerifyError) as refusal:
        emit(program, profile("a5"), dyn_ub=140_000)
    assert refusal.value.findings[0].kind == "H-21"


def test_there_is_no_cpp_for_the_host() -> None:
    with pytest.raises(ValueError, match="no C\\+\\+ for host"):
        emit(traced(LARGE, x=floats(320, 128)), profile("host"))


# --- Refusals ------------------------------------------------------------------------------------------------------

VEC = "t = pto.Tile('vec', '{0}', 8, 64)\nu = pto.Tile('vec', '{0}', 8, 64)\npto.tload(t, x)\npto.tload(u, x)\n"
INDEX = "i = pto.Tile('vec', 'int32', 8, 64)\npto.tload(i, idx)\n"
SCATTER = VEC + INDEX

REFUSALS = [
    ("a2a3", SCATTER.format("float32") + "pto.mscatter(x, t, i, atomic='max')", "MS-ATOM-06"),
    ("a2a3", SCATTER.format("int32") + "pto.mscatter(x, t, i, atomic='min')", "MS-ATOM-07"),
    ("a2a3", SCATTER.format("uint32") + "pto.mscatter(x, t, i, atomic='add')", "MS-ATOM-05"),
    ("a5", SCATTER.format("int8") + "pto.mscatter(x, t, i, atomic='add')", "MS-ATOM-05"),
    ("cpu", SCATTER.format("float32") + "pto.mscatter(x, t, i, atomic='add', conflict='last')", "MS-CONF-01"),
    ("cpu", SCATTER.format("float32") + "r = pto.Tile('vec', 'int32', 1, 8)\npto.tload(r, idx[0:1, 0:8])\n"
     "pto.mscatter(x, t, r, coalesce='row', atomic='max')", "MS-ATOM-06"),
    ("cpu", SCATTER.format("float32") + "pto.tscatter(u, t, i)", "TS-SEM-01"),
    ("a2a3", SCATTER.format("float32") + "pto.tscatter(u, t, i)", "TS-SEM-01"),
    ("a5", SCATTER.format("float32") + "pto.tscatter(u, t, i)", "TS-SEM-01"),
    ("a2a3", VEC.format("int32") + "m = pto.Tile('vec', 'uint8', 8, 32, valid=(8, 8))\npto.tcmp(m, t, u, 'lt')",
     "CP-HDR-01"),
    ("a2a3", VEC.format("int32") + "pto.tdivs(u, t, 3)", "CP-HDR-01"),
    ("cpu", INDEX + VEC.format("float32") + "pto.tcvt(i, t, 'odd')", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + "w = pto.Tile('vec', 'float32', 16, 64, valid=(8, 64))\npto.tadd(w, t, u)",
     "CP-HDR-01"),
    ("cpu", "t = pto.Tile('vec', 'float32', 8, 4)\npto.texpands(t, 1)", "CO-ALIGN-01"),
    ("a2a3", "m = pto.Tile('mat', 'float32', 16, 16, blayout='col_major', slayout='row_major')\n"
     "pto.tload(m, x[0:8, 0:16])\n" + VEC.format("float32"), "TL-02"),
    ("a5", VEC.format("float32") + "pto.mgather(t, x, idx)", "MG-LOC-02"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "body", "rule"), REFUSALS)
def test_what_the_headers_refuse_is_refused(target: str, body: str, rule: str) -> None:
    kind = re.search(r"t = pto.Tile\('vec', '(\w+)'", body)
    given = {"x": np.zeros((8, 64), kind[1] if kind else "float32"), "idx": ints(8, 64)}
    with pytest.raises(pto.VerifyError) as refusal:
        emitted(body, target, **given)
    finding = refusal.value.findings[0]
    assert finding.rule == rule, str(refusal.value)
    assert finding.level == "error" and finding.where and finding.fix


WORKSPACE = "r = pto.Tile('vec', 'float32', 8, 1, blayout='col_major'{1})\nt = pto.Tile('vec', 'float32', {0}, 64{2})\n"


def test_workspaces_lie_behind_the_tiles() -> None:
    text = emit(vector_program("a2a3"), profile("a2a3"))
    ends = [int(at, 16) + 2048 for at in re.findall(r"TASSIGN\((?!tmp)\w+, (0x\w+)\);", text)]
    workspaces = set(re.findall(r"TASSIGN\(tmp\w*, (0x\w+)\);", text))
    assert len(workspaces) == 1 and int(workspaces.pop(), 16) >= max(ends) - 2048
    assert "TCVT(s, a, tmp" in text and "TCVT(h, a, RoundMode::CAST_RINT, SaturationMode::ON);" in text
    assert "TCVT(s, a, RoundMode" in emit(vector_program("a5"), profile("a5"))


def test_a_workspace_that_does_not_fit_is_refused() -> None:
    body = WORKSPACE.format(8, "", "") + "w = pto.Tile('vec', 'float32', 764, 64)\npto.texpands(w, 1)\n"
    fits = emitted(body + "pto.tload(t, x)\npto.texp(t, t)", "a2a3", x=floats(8, 64))
    assert "TEXP(t, t);" in fits
    with pytest.raises(pto.VerifyError) as refusal:
        emitted(body + "pto.tload(t, x)\npto.trowsum(r, t)\npto.texp(w, w)", "a2a3", x=floats(8, 64))
    assert refusal.value.findings[0].kind == "H-22"


def test_tiles_over_the_headers_own_workspace_are_refused() -> None:
    body = WORKSPACE.format(8, "", "") + "w = pto.Tile('vec', 'float32', 728, 64)\npto.texpands(w, 1)\n"
    with pytest.raises(pto.VerifyError, match="0x2e000") as refusal:
        emitted(body + "pto.tload(t, x)\npto.trowexpandmul(t, t, r)", "a2a3", x=floats(8, 64))
    assert [finding.kind for finding in refusal.value.findings] == ["H-38"]


def test_a_workspace_behind_tiles_of_unknown_place_is_refused() -> None:
    body = WORKSPACE.format(8, ", addr=0", ", addr=n") + "pto.tload(t, x)\npto.trowsum(r, t)"
    with pytest.raises(pto.VerifyError, match="workspace") as refusal:
        emitted(body, mode="manual", x=floats(8, 64), n=64)
    assert [finding.rule for finding in refusal.value.findings] == ["A-38"]


def test_a_kernel_for_two_cores_is_refused() -> None:
    nz = "valid=(8, 16), blayout='col_major', slayout='row_major'"
    body = f"{VEC.format('float32')}a = pto.Tile('mat', 'float32', 16, 16, {nz})\npto.tload(a, x[0:8, 0:16])"
    with pytest.raises(pto.VerifyError) as refusal:
        emitted(body, "a2a3", x=floats(8, 64))
    assert [finding.rule for finding in refusal.value.findings] == ["KN-16"]


def test_the_options_are_those_of_the_verifier() -> None:
    body = VEC.format("float32") + "w = pto.Tile('vec', 'float32', 8, 64)\npto.tadd(t, u, w)"
    assert "TADD(t, u, w);" in emitted(body, x=floats(8, 64))
    with pytest.raises(pto.VerifyError, match="nothing has written"):
        emitted(body, options=Options(strict=True), x=floats(8, 64))


# --- Names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("idx", "idx"), ("int", "int_"), ("TLOAD", "TLOAD_"), ("half", "half_"), ("PIPE_V", "PIPE_V_"), ("", "x"),
        ("int32_t", "int32_t_"), ("größe", "gr_e"), ("a b", "a_b"), ("9", "x9"), ("__x", "x_x"), ("_Upper", "x_Upper"),
        ("stream", "stream_"), ("x;}\n#include", "x_include"), ("*/ x", "x_x"), ("new_", "new_"), ("main", "main_"),
    ],
)  # fmt: skip
def test_identifiers_are_safe(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_names_stay_apart() -> None:
    names = Identifiers()
    assert [names.of(name) for name in ("int", "int_", "a b", "a_b")] == ["int_", "int_1", "a_b", "a_b_1"]
    assert names.fresh("a_b") == "a_b_2" and names.of("a b") == "a_b" and names.of("a b", "tile") == "a_b_3"


def test_nothing_goes_into_the_code_unescaped(tmp_path: Path) -> None:
    """Names and places of a program may come from anywhere."""
    evil = "x) {}\nint system(const char*);\n//"
    body = "t = pto.Tile('vec', 'float32', 8, 8)\npto.tload(t, x)\npto.tstore(x, t)"
    program = traced(body, x=floats(8, 8), n=1)
    (tensor, number), where = program.arguments, Where("/some/where/a\n#error \\", 3)
    uses = [replace(stmt, operands=tuple(_renamed(operand, evil) for operand in stmt.operands), where=where)
            for stmt in program.body if isinstance(stmt, Instr)]  # fmt: skip
    tile = replace(program.body[0], name=evil, where=where)
    arguments = replace(tensor, name=evil), replace(number, name="template")
    constants = (("note", "*/\n#error \\"),)
    spoilt = replace(
        program, name="x; int main", arguments=arguments, body=(tile, *uses), constants=constants, where=where
    )
    text = emit(spoilt, profile("a5"))
    assert complaints(text, "a5", tmp_path) == ""
    assert "\n#error" not in text and "system(" not in text and "\\" not in text and "/some" not in text
    assert "int64_t template_" in text


def _renamed(operand: Any, name: str) -> Any:
    return replace(operand, tile=name) if hasattr(operand, "tile") else replace(operand, argument=name)


def test_a_kernel_may_use_the_words_of_cpp(tmp_path: Path) -> None:
    text = emitted(
        "new = pto.Tile('vec', 'float32', 8, 8)\n"
        "for int in pto.range(template):\n"
        "    double = int * 2\n"
        "    pto.tload(new, auto[double : double + 8])\n"
        "    pto.tstore(auto[double : double + 8], new)",
        auto=floats(64, 8), template=2,
    )  # fmt: skip
    assert complaints(text, "a5", tmp_path) == ""
    assert "const int64_t double_ = int_ * 2;" in text
