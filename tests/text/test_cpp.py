"""Programs as C++: it compiles, it means the same as the program, and code that the headers refuse is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import ptokit as pto
from ptokit.cli.commands import app
from ptokit.engine.interpreter import Executable
from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import ScatterIndex, StoreAtomic, TileType
from ptokit.lang.launch import mode_of
from ptokit.program.expr import OPS, Expr, ExpressionError, Var, apply, evaluate
from ptokit.program.ir import (
    Argument,
    Branch,
    Flag,
    Float,
    Given,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Program,
    TileDecl,
    TileUse,
    View,
    walk,
)
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.cpp.expr import HELPERS, Expressions, Identifiers, identifier
from ptokit.text.cpp.source import prepare
from tests import snippet
from tests.corpus.hazards.cores import CIRCULAR, RING, TO_CUBE, TO_VECTOR, Hazard
from tests.examples.test_gallery import GALLERY, Entry, rng
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import GRID, kernel_of
from tests.lang.test_random_kernels import arguments as random_arguments
from tests.loops import FULL
from tests.program.happens_before import check
from tests.text.compiling import complaints, output, together

GOLDEN = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("PTOKIT_UPDATE_GOLDEN"))
TARGETS = ("cpu", "a2a3", "a5")
REFUSED = {("segment_max", "a2a3"): "MS-ATOM-06"}
"""Kernels of the gallery that ptokit runs on a target and its headers do not have."""

LAUNCHES = [(entry, target) for entry in GALLERY for target in entry.targets]
every_launch = pytest.mark.parametrize(
    ("entry", "target"), [pytest.param(entry, target, id=f"{entry.name}-{target}") for entry, target in LAUNCHES]
)


def program_of(kernel: Any, target: str, **given: Any) -> Program:
    return kernel.trace(kernel.bind((), given), mode_of(target)).program


def gallery(entry: Entry, target: str, **sizes: Any) -> str:
    return emit(program_of(entry.kernel, target, **entry.make(rng(), **sizes)), profile(target))


def kernel_from(body: str, mode: str, **given: Any) -> Any:
    """A kernel whose body is a text."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = f'@pto.kernel(mode="{mode}")\ndef k({", ".join(given)}):\n{lines}\n'
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(source, "text"), names)
    return names["k"]


def traced(body: str, target: str = "a5", mode: str = "auto", **given: Any) -> Program:
    """The program of a kernel whose body is a text."""
    return program_of(kernel_from(body, mode, **given), target, **given)


def emitted(body: str, target: str = "a5", mode: str = "auto", options: Options | None = None, **given: Any) -> str:
    return emit(traced(body, target, mode, **given), profile(target), options)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, "float32")


def ints(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, "int32")


# --- The gallery and random kernels compile ------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_gallery_compiles(target: str, tmp_path: Path) -> None:
    entries = [entry for entry, each in LAUNCHES if each == target]
    texts = (gallery(entry, target, **sizes) for entry in entries for sizes in (*entry.sizes, entry.small))
    assert complaints(together(texts), target, tmp_path) == ""


@every_launch
def test_the_gallery_is_written_as_before(entry: Entry, target: str) -> None:
    """`PTOKIT_UPDATE_GOLDEN=1` updates the files."""
    is_as_before(f"{entry.name}.{target}.cpp", gallery(entry, target, **entry.sizes[0]))


def is_as_before(name: str, found: str) -> None:
    """Compare a text with the file of this name, or update the file."""
    file = GOLDEN / name
    if UPDATE:
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


TWO_CORES = [(CIRCULAR, target) for target in ("cpu", "a2a3", "a5")] + [(RING, "a5")]
"""Programs for two cores: through memory and back, and through a ring of buffers in UB."""


@pytest.mark.parametrize(("hazard", "target"), TWO_CORES, ids=lambda each: getattr(each, "name", None))
def test_programs_for_two_cores_are_written_as_before(hazard: Hazard, target: str, tmp_path: Path) -> None:
    """And they compile, for each core."""
    text = re.sub(r"  // \S+\.py:\d+$", "", two_cores(hazard, target), flags=re.MULTILINE)  # lines of the corpus
    text = re.sub(r" \(\S+\.py:\d+\)", "", text)
    is_as_before(f"{hazard.kernel.name}.{target}.cpp", text)
    for core in ("__DAV_CUBE__", "__DAV_VEC__"):
        assert complaints("\n".join(preprocessed(text, core)) + "\n", target, tmp_path) == ""


def test_no_golden_file_is_left_over() -> None:
    wanted = {f"{entry.name}.{target}.cpp" for entry, target in LAUNCHES}
    wanted |= {f"{hazard.kernel.name}.{target}.cpp" for hazard, target in TWO_CORES}
    assert {file.name for file in GOLDEN.iterdir()} == wanted


@pytest.mark.parametrize("launch", REFUSED, ids="-".join)
def test_the_gallery_is_refused_where_the_headers_refuse(launch: tuple[str, str]) -> None:
    entry = next(entry for entry in GALLERY if entry.name == launch[0])
    with pytest.raises(pto.VerifyError) as refusal:
        gallery(entry, launch[1], **entry.small)
    assert [finding.rule for finding in refusal.value.findings] == [REFUSED[launch]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", range(0, 30 * int(os.environ.get("PTOKIT_FUZZ", "0")) or 6, 6))
def test_random_kernels_compute_the_same_in_cpp(first: int, target: str, tmp_path: Path) -> None:
    """The flags do nothing here: every block runs in program order."""
    texts, expected = list[str](), dict[str, bytes]()
    for seed, is_manual in product(range(first, first + 6), (False, True)):
        if TARGETS[(seed + is_manual) % 3] == target:
            name, given = f"{('auto', 'manual')[is_manual]} {seed}", random_arguments()
            kernel = kernel_of(random_kernel(seed)[is_manual], name)
            texts.append(emit(program_of(kernel, target, **given), profile(target)))
            kernel[GRID](**given, target=target)
            expected[name] = given["out"].tobytes()
    found = left_in([(text, random_arguments()) for text in texts], "out", target, tmp_path, GRID)
    assert dict(zip(expected, found, strict=True)) == expected


def left_in(
    cases: Sequence[tuple[str, dict[str, Any]]], out: str, target: str, folder: Path, grid: int = 1
) -> list[bytes]:
    """What kernels leave in an array when their C++ runs over a grid."""
    lines = ["#include <cstdio>", together(text for text, _ in cases), "int main() {"]
    for number, (_, passed) in enumerate(cases):
        lines.append("    {")
        arguments = []
        for name, value in passed.items():
            if isinstance(value, np.ndarray):
                content = ", ".join(map(str, value.tobytes()))
                lines.append(f"    alignas(8) static unsigned char {name}[] = {{{content}}};")
                arguments.append(f"reinterpret_cast<{dtype(value.dtype).cpp}*>({name})")
            else:
                arguments.append(str(value))
        lines.append(f"    allBlocks = {grid};")
        lines.append(f"    for (thisBlock = 0; thisBlock < {grid}; ++thisBlock) k{number}::k({', '.join(arguments)});")
        lines += [f'    for (int byte : {out}) std::printf("%02x", byte);', '    std::printf("\\n");', "    }"]
    return [*map(bytes.fromhex, output("\n".join((*lines, "}")), folder, target).splitlines())]


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
k = pto.Tile("vec", "int32", 8, 64)
for op in (pto.tpartadd, pto.tpartmul, pto.tpartmax, pto.tpartmin):
    op(c, a, b)
pto.taxpy(c, a, 0.5)
for op in (pto.tmuladddst, pto.tfusedmuladd, pto.tfusedmuladdrelu, pto.tsubrelu):
    op(c, a, b)
added = pto.Tile("vec", "float16", 8, 64)
pto.taddreluconv(added, a, b)
pto.tsubreluconv(added, a, b)
pto.tadddeqrelu(added, i, i, 0.5)
halved, whole_row = (pto.Tile("vec", "float32", 1, 64) for _ in range(2))
pto.texpands(whole_row, 1)
pto.texpands(halved, 0)
pto.tpairreducesum(halved, whole_row)
places = pto.Tile("vec", "int32", 8, 64)
for op in (pto.tpartargmax, pto.tpartargmin):
    op(c, a, b, places, i, i)
blocks = pto.Tile("vec", "uint32", 8, 8)
pto.texpands(blocks, 32)
pto.tgatherb(c, a, blocks)
part = pto.Tile("vec", "float32", 8, 32)
pto.texpands(part, 1)
pto.tinsert(c, part, 0, 32)
pto.tconcat(c, part, part)
padded = pto.Tile("vec", "float32", 8, 64, pad="max")
pto.tfillpad(padded, a)
pto.tfillpad_inplace(padded, padded)
pto.tfillpad_expand(padded, part)
pairs, ranks = pto.Tile("vec", "float32", 8, 128), pto.Tile("vec", "uint32", 8, 64)
pto.texpands(ranks, 1)
pto.tsort32(pairs, a, ranks)
factor = pto.Tile("vec", "float32", 8, 1, blayout="col_major")
pto.tload(factor, columns)
pto.tdequant(c, s, factor, factor)
pto.tquant(pto.Tile("vec", "int8", 8, 64), a, factor)
pto.tquant_asym(pto.Tile("vec", "uint8", 8, 64), a, factor, factor)
evens = pto.Tile("vec", "float32", 8, 32)
pto.tgather_mask(evens, a, pattern="p0101")
lists = [pto.Tile("vec", "float32", 1, 64) for _ in range(4)]
for each in lists:
    pto.texpands(each, 1)
merged, sorted_pairs = pto.Tile("vec", "float32", 1, 256), pto.Tile("vec", "float32", 1, 256)
pto.tmrgsort4(merged, *lists)
pto.tmrgsort3(pto.Tile("vec", "float32", 1, 192), *lists[:3], exhausted=True)
pto.tmrgsort2(pto.Tile("vec", "float32", 1, 128), *lists[:2])
pto.tmrgsort(sorted_pairs, merged, 64)
for op in (pto.trem, pto.tfmod, pto.tpow):
    op(c, a, b)
for op in (pto.trems, pto.tfmods, pto.tpows):
    op(c, a, 2)
pto.ttri(k, n)
pto.ttri(k, -1, half="upper")
pto.txor(k, i, j)
pto.tprelu(c, a, b)
for op in (pto.tadds, pto.tsubs, pto.tmuls, pto.tmaxs, pto.tmins):
    op(c, a, 0.1)
for op in (pto.tands, pto.tors, pto.txors, pto.tshls, pto.tshrs):
    op(j, i, 3)
pto.tlrelu(c, a, 0.1)
pto.tnot(s, s)
for op in (pto.tabs, pto.tneg, pto.texp, pto.tlog, pto.tsqrt, pto.trecip, pto.trsqrt, pto.trelu):
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
line = pto.Tile("vec", "float32", 1, 64)
bits = pto.Tile("vec", MASK, 1, 32, valid=(1, 64 // BITS))
pto.texpands(line, 1)
pto.tcmps(bits, line, 1, "ge")
pto.tsel(line, bits, line, line)
pto.tsels(c, mask, a, -1)
pto.tcvt(j, a, "floor")
pto.tcvt(h, a)
pto.tcvt(s, a, "trunc")
pto.tgather(c, a, i)
pto.ttrans(turned, a)
pto.tmov(b, c)
pto.tscatter(c, a, i, index="flat")
column = pto.Tile("vec", "float32", 8, 1, blayout="col_major")
for op in (pto.trowsum, pto.trowprod, pto.trowmax, pto.trowmin):
    op(column, a)
numbers = pto.Tile("vec", "int32", 8, 1, blayout="col_major")
for op in (pto.trowargmax, pto.trowargmin):
    op(numbers, a)
for op in (pto.tcolargmax, pto.tcolargmin):
    op(counted, a)
for op in (pto.trowexpandmul, pto.trowexpandsub, pto.trowexpanddiv):
    op(c, a, column)
for op in (pto.trowexpandadd, pto.trowexpandmax, pto.trowexpandmin, pto.trowexpandexpdif):
    op(c, a, column)
pto.trowexpand(c, column)
for op in (pto.tcolsum, pto.tcolprod, pto.tcolmax, pto.tcolmin):
    op(line, a)
pto.tcolexpand(c, line)
for op in (pto.tcolexpandadd, pto.tcolexpandsub, pto.tcolexpandmul, pto.tcolexpanddiv, pto.tcolexpandmax):
    op(c, a, line)
pto.tcolexpandmin(c, a, line)
pto.tcolexpandexpdif(c, a, line)
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
line_matrix = pto.Tile("mat", "float16", 1, 16)
pto.texpands(line_matrix, 1)
line = pto.Tile("left", "float16", 1, 16)
pto.tmov(line, line_matrix)
product_row = pto.Tile("acc", "float32", 16, 16, valid=(1, 16))
pto.tgemv(product_row, line, right)
pto.tgemv_acc(product_row, product_row, line, right)
pto.tgemv_bias(product_row, line, right, bias)
words, factors = pto.Tile("mat", "uint64", 1, 16), pto.Tile("scaling", "uint64", 1, 16)
pto.tload(words, factor_words)
pto.tmov(factors, words)
small = pto.Tile("mat", "int8", 16, 32, valid=(16, 16), **NZ)
pto.tmov_fp(small, product, factors)
pto.tmov_fp(small, product, factors, relu="relu")
pto.textract_fp(small, product, factors, 0, 0)
pto.tinsert_fp(small, product, factors, 0, 0)
pto.tstore_fp(bytes_out, product, factors)
pto.tstore_fp(bytes_out, product, factors, relu="relu")
pto.tmov(small, product, scale=1 << 46)
pto.textract(small, product, 0, 0, scale=1 << 46)
pto.tinsert(small, product, 0, 0, scale=1 << 46)
pto.tstore(bytes_out, product, scale=(1 << 46) + 5, relu="relu")
pto.tmov(left_matrix, product, relu="relu")
pto.textract(left_matrix, product, 0, 0, relu="relu")
pto.tinsert(left_matrix, product, 0, 0, relu="relu")
pto.tstore(out, product, relu="relu")
pto.tstore(out, product)
"""


SCALED = """
left_bytes = pto.Tile("mat", "float8_e4m3", 16, 64, **NZ)
right_bytes = pto.Tile("mat", "float8_e5m2", 64, 32, **NZ)
left_powers = pto.Tile("mat", "float8_e8m0", 16, 2, blayout="row_major", slayout="row_major", fractal=32)
right_powers = pto.Tile("mat", "float8_e8m0", 2, 32, blayout="col_major", slayout="col_major", fractal=32)
pto.tload(left_powers, powers_a)
pto.tload(right_powers, powers_b)
pto.tload(left_bytes, bytes_a)
pto.tload(right_bytes, bytes_b)
left_scale = pto.Tile("scale_left", "float8_e8m0", 16, 2)
right_scale = pto.Tile("scale_right", "float8_e8m0", 2, 32)
pto.tmov(left_scale, left_powers)
pto.textract(right_scale, right_powers, 0, 0)
left_small, right_small = pto.Tile("left", "float8_e4m3", 16, 64), pto.Tile("right", "float8_e5m2", 64, 32)
pto.tmov(left_small, left_bytes)
pto.tmov(right_small, right_bytes)
scaled, wide_bias = pto.Tile("acc", "float32", 16, 32), pto.Tile("bias", "float32", 1, 32)
pto.tmatmul_mx(scaled, left_small, left_scale, right_small, right_scale)
pto.tmatmul_mx_acc(scaled, scaled, left_small, left_scale, right_small, right_scale)
pto.tmatmul_mx_bias(scaled, left_small, left_scale, right_small, right_scale, wide_bias)
line_small = pto.Tile("left", "float8_e4m3", 16, 64, valid=(1, 64))
pto.tmov(line_small, left_bytes)
scaled_row = pto.Tile("acc", "float32", 16, 32, valid=(1, 32))
pto.tgemv_mx(scaled_row, line_small, left_scale, right_small, right_scale)
pto.tgemv_mx_acc(scaled_row, scaled_row, line_small, left_scale, right_small, right_scale)
pto.tgemv_mx_bias(scaled_row, line_small, left_scale, right_small, right_scale, wide_bias)
pto.tstore(scaled_out, scaled)
"""


ON_A5 = """
counts, filters = pto.Tile("vec", "uint32", 8, 256), pto.Tile("vec", "uint8", 3, 64)
for tile in (counts, filters):
    pto.texpands(tile, 0)
for byte in ("byte_0", "byte_3"):
    pto.thistogram(counts, ranks, filters, byte)
turned = [pto.Tile("vec", "float32", 8, 64) for _ in range(2)]
pto.tinterleave(*turned, a, b)
pto.tdeinterleave(*turned, a, b)
"""
SIMULATED = """
for op in (pto.taddc, pto.tsubc):
    op(c, a, b, b)
for op in (pto.taddsc, pto.tsubsc):
    op(c, a, 0.5, b)
"""


def vector_program(target: str) -> Program:
    kind = "uint32" if target == "a5" else "uint8"
    body = (
        (VECTOR + {"a5": ON_A5, "cpu": SIMULATED}.get(target, ""))
        .replace("MASK", f'"{kind}"')
        .replace("BITS", "32" if target == "a5" else "8")
    )
    return traced(body, target, x=floats(8, 64), idx=ints(8, 64), columns=floats(8), out=floats(8, 64), n=3)


def scaled_arguments() -> dict[str, Any]:
    """The arrays of a product with scales."""
    power, left, right = (pto.dtype(name).numpy for name in ("float8_e8m0", "float8_e4m3", "float8_e5m2"))
    return {
        "powers_a": pto.GlobalTensor(np.ones((1, 1, 16, 2), power), layout="mx_a_zz"),
        "powers_b": pto.GlobalTensor(np.ones((2, 1, 16, 2), power), layout="mx_b_nn"),
        "bytes_a": np.ones((16, 64), left),
        "bytes_b": np.ones((64, 32), right),
        "scaled_out": floats(16, 32),
    }


def cube_program(target: str) -> Program:
    halves = np.zeros((16, 16), "float16")
    given = scaled_arguments() if target == "a5" else {}
    return traced(
        CUBE + (SCALED if given else ""), target, x=halves, idx=ints(16, 16), scratch=halves.copy(),
        out=floats(16, 16), factor_words=np.zeros((1, 16), "uint64"), bytes_out=np.zeros((16, 16), "int8"), **given,
    )  # fmt: skip


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
    programs = vector_program("a5"), cube_program("a5"), vector_program("cpu")
    used = {stmt.name for program in programs for stmt in walk(program.body) if isinstance(stmt, Instr)}
    assert used == set(INSTRUCTIONS) - {"tassign"}


def test_numbers_keep_their_type_and_value() -> None:
    text = emit(vector_program("a5"), profile("a5"))
    for call in (
        "TADDS(c, a, 0.1f);", "TSHRS(j, i, 3);", "TDIVS(c, __builtin_inff(), a);", "TDIVS(c, a, 2.0f);",
        'TEXPANDS(c, __builtin_nanf(""));', "TEXPANDS(h, static_cast<half>(-0.5f));", "TEXPANDS(j, (-2147483647 - 1));",
        "TEXPANDS(c, static_cast<float>(block_idx_ * 2 + n));",
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
    values = [f"int64_t {identifier(var)} = {value};" for var, value in VARIABLES.items()]
    values += ["int64_t sum = x + y;", "int64_t int_ = z * 4;"]
    source = ["#include <cstdint>", "#include <cstdio>", *helpers, "int main() {", *values, *lines, "}"]
    assert output("\n".join(source), tmp_path).splitlines() == expected


def test_a_comparison_with_a_name_is_not_its_own_value(tmp_path: Path) -> None:
    text = emitted(
        "more = n > 3\nt = pto.Tile('vec', 'float32', 8, 8)\nwith pto.when(more):\n    pto.texpands(t, more + n)", n=1
    )
    assert complaints(text, "a5", tmp_path) == ""
    assert "const int64_t more = int64_t(n > 3);" in text and "if (more != 0) {" in text


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


def test_defaults_are_not_emitted() -> None:
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


# --- Scatters by row -----------------------------------------------------------------------------------------------

BY_ROW = """
for first in pto.range(0, 16, 8, buffers=2):
    n = pto.min(6, 11 - first)
    data = pto.Tile("vec", x.dtype, 8, 64, valid=(n, 40))
    rows = pto.Tile("vec", idx.dtype, 16, 64, valid=(n, 40))
    kept = pto.Tile("vec", x.dtype, 24, 64, valid=(20, 50))
    pto.tload(data, x[first : first + n, 0:40])
    pto.tload(rows, idx[first : first + n])
    pto.tload(kept, out[first // 8 * 20 : first // 8 * 20 + 20])
    pto.tscatter(kept, data, rows)
    pto.tstore(out[first // 8 * 20 : first // 8 * 20 + 20], kept)
"""
MANUAL_BY_ROW = """
data = pto.Tile("vec", x.dtype, 8, 64, addr=0)
rows = pto.Tile("vec", idx.dtype, 8, 64, addr=2048, valid=(8, 40))
kept = pto.Tile("vec", x.dtype, 24, 64, valid=(20, 50))
data.valid = (8, 40)
for turn in pto.range(2):
    pto.tassign(kept, 4096 + turn * 8192)
    pto.tload(data, x[turn * 8 : turn * 8 + 8, 0:40])
    pto.tload(rows, idx[turn * 8 : turn * 8 + 8])
    loaded = pto.tload(kept, out[turn * 20 : turn * 20 + 20])
    pto.barrier("ALL")
    pto.tscatter(kept, data, rows, wait=loaded)
    pto.barrier("ALL")
    pto.tstore(out[turn * 20 : turn * 20 + 20], kept)
    pto.barrier("ALL")
"""
SCATTERED = [("float32", "int32"), ("uint32", "uint32"), ("float16", "uint16"), ("int16", "int16"), ("int8", "int16"),
             ("uint8", "uint16")]  # fmt: skip


def scattered(data: str, index: str) -> dict[str, Any]:
    """Arrays for a scatter; rows repeat in no column, and every bit pattern counts."""
    random = np.random.default_rng(5)
    bits = f"u{np.dtype(data).itemsize}"
    x, out = (random.integers(0, np.iinfo(bits).max, (rows, cols), bits, True) for rows, cols in ((16, 64), (40, 50)))
    idx = np.array([[random.permutation(20)[:16] for _ in range(40)]], index)[0].T
    return {"x": x.view(data), "idx": np.ascontiguousarray(idx), "out": out.view(data)}


@pytest.mark.parametrize("target", TARGETS)
def test_a_scatter_by_row_keeps_what_no_index_names(target: str, tmp_path: Path) -> None:
    cases, expected = list[tuple[str, dict[str, Any]]](), list[bytes]()
    modes = ("auto", "manual")
    for types, mode in product(SCATTERED, modes) if FULL else zip(SCATTERED, cycle(modes), strict=False):
        given, before = scattered(*types), scattered(*types)
        kernel = kernel_from(BY_ROW if mode == "auto" else MANUAL_BY_ROW, mode, **given)
        cases.append((emit(program_of(kernel, target, **given), profile(target)), before))
        kernel[1](**given, target=target)
        expected.append(given["out"].tobytes())
        changed = given["out"].view("u1") != before["out"].view("u1")
        assert 0.1 < changed.mean() < 0.9
    found = left_in(cases, "out", target, tmp_path)
    assert [wanted == left for wanted, left in zip(expected, found, strict=True)] == [True] * len(cases)


@pytest.mark.parametrize("target", TARGETS)
def test_a_scatter_by_row_in_the_headers_own_terms_means_the_same(target: str) -> None:
    """The engine knows that the headers clear the destination, and it runs the program that is written."""
    for body, mode in ((BY_ROW, "auto"), (MANUAL_BY_ROW, "manual")):
        given, again = scattered("float32", "int32"), scattered("float32", "int32")
        kernel = kernel_from(body, mode, **given)
        program = program_of(kernel, target, **given)
        ready = prepare(program, profile(target), Options(), None).program
        assert {stmt.modifiers for stmt in walk(ready.body) if isinstance(stmt, Instr) and stmt.name == "tscatter"} == {
            (ScatterIndex.Flat,)
        }
        assert check(ready, profile(target)) == []
        kernel[1](**given, target=target)
        tensors = {name: pto.GlobalTensor(array).storage for name, array in again.items()}
        Executable(ready, profile(target), Options()).launch(tensors, {}, 1, tuple)
        assert np.array_equal(given["out"].view("u4"), again["out"].view("u4"))


def test_a_scatter_by_row_makes_its_tables_once() -> None:
    given = scattered("float32", "uint32")
    for target, clears in (("cpu", False), ("a2a3", True), ("a5", True)):
        text = emit(program_of(kernel_from(BY_ROW, "auto", **given), target, **given), profile(target))
        before, loop = text.split("for (")
        assert ("TEXPANDS(marks, -1);" in before) is clears
        assert "TROWEXPANDSUB(columns, columns, above);" in before
        assert loop.count("TSCATTER(") == 1 + clears and "TMULS(offsets, rows_signed, 64);" in loop
        assert ("TSCATTER(kept, data, offsets);" in loop) is not clears
        assert ("TOR(kept_bits, kept_bits, bits);" in loop) is clears


def test_scatters_of_several_types_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The workspaces of both are tiles of 8 x 128 int16, and not the same ones."""
    body = """
data, other = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "int16", 8, 128)
rows, short = pto.Tile("vec", "int32", 8, 64), pto.Tile("vec", "int16", 8, 128)
kept, both = pto.Tile("vec", "float32", 8, 64), pto.Tile("vec", "int16", 8, 128)
for tile, source in ((data, x), (rows, i), (kept, x), (other, y), (short, j), (both, y)):
    pto.tload(tile, source)
pto.tscatter(kept, data, rows)
pto.tscatter(both, other, short)
pto.tscatter(kept, data, rows)
pto.tstore(x, kept)
pto.tstore(y, both)
"""
    random = np.random.default_rng(2)
    given = {"x": random.random((8, 64), "float32"), "y": random.integers(-9, 9, (8, 128), "int16"),
             "i": random.integers(0, 8, (8, 64), "int32"), "j": random.integers(0, 8, (8, 128), "int16")}  # fmt: skip
    text = emitted(body, "a2a3", **given)
    found = [left_in([(text, given)], out, "a2a3", tmp_path)[0] for out in "xy"]
    kernel_from(body, "auto", **given)[1](**given, target="a2a3")
    assert found == [given["x"].tobytes(), given["y"].tobytes()]


def test_the_workspaces_of_a_scatter_must_fit() -> None:
    body = SCATTER.format("float32").replace("8, 64", "192, 64") + "pto.tscatter(u, t, i)"
    given = {"x": floats(192, 64), "idx": ints(192, 64)}
    assert "TSCATTER(u, t, i);" in emitted(body.replace("t, i)", "t, i, index='flat')"), "a5", **given)
    with pytest.raises(pto.VerifyError, match="with the workspaces of its instructions") as refusal:
        emitted(body, "a5", **given)
    assert refusal.value.findings[0].kind == "H-21"


def test_a_manual_scatter_by_row_waits_for_the_other_pipe() -> None:
    given = scattered("float32", "int32")
    kernel = kernel_from(MANUAL_BY_ROW, "manual", **given)
    sources = [emit(program_of(kernel, target, **given), profile(target)) for target in TARGETS]
    own, once, each_time = 3, 4, 6
    assert [text.count("pipe_barrier(PIPE_ALL)") for text in sources] == [own, own + once + each_time, own]


# --- Views of one pointer, numbers of the launch -------------------------------------------------------------------


def test_views_of_one_pointer_are_one_parameter(tmp_path: Path) -> None:
    """Extents, strides and offsets may be computed, from what the launch passes and on the way."""
    float32, int32, place = dtype("float32"), dtype("int32"), Where("f.pto", 3)
    rows, i, size = Var("rows"), Var("i"), Var("x.size")
    tile = TileSpec(float32, TileType.Vec, 8, 8, 8, 8, dynamic=(True, False))
    valid = (apply("min", rows, 8), 8)
    program = Program(
        "k",
        (
            Argument("x", float32, (size,), (1,), where=place),
            Argument("part", float32, (rows, 8), (apply("mul", rows, 8), 1), view_of="x",
                     offset=apply("add", apply("mul", i, 64), 16), where=place),
            Argument("again", float32, (rows, 8), (8, 1), view_of="x", where=place),
            Argument("n", int32, (4,), (1,), memory="", offset=2, where=Where("f.pto", 4)),
            Integer("rows"),
            Float("scale", float32),
        ),
        (
            LoadScalar(Var("first"), View("n", (1,), (1,))),
            Loop(i, 0, Var("first"), 1, (
                TileDecl("t", tile),
                Instr("tload", (TileUse("t", valid), View("part", (0, 0), (rows, 8)))),
                Instr("tadds", (TileUse("t", valid), TileUse("t", valid), Given("scale", float32))),
                Instr("tstore", (View("again", (0, 0), (rows, 8)), TileUse("t", valid)), (StoreAtomic.NONE, None)),
            )),
        ),
    )  # fmt: skip
    text = emit(program, profile("a5"))
    assert complaints(text, "a5", tmp_path) == ""
    assert "k(__gm__ float* x, __gm__ int32_t* n, int64_t rows, float scale) {" in text
    assert "k<<<blocks, nullptr, stream>>>(x, n, rows, scale);" in text
    assert "const int64_t first = n[3];" in text and "TADDS(t, t, scale);" in text
    assert "x + i * 64 + 16, part_view_shape(least(rows, 8))" in text and "x, again_view_shape(" in text


def test_arrays_that_share_memory_are_parameters_of_their_own() -> None:
    """In a Python kernel one may begin in the middle of the other."""
    x = floats(16, 8)
    text = emitted("t = pto.Tile('vec', 'float32', 8, 8)\npto.tload(t, x[0:8])\npto.tstore(y, t)", x=x, y=x[4:12])
    assert "k(__gm__ float* x, __gm__ float* y)" in text


def test_a_number_that_only_the_launch_knows_is_a_parameter(tmp_path: Path) -> None:
    float32 = dtype("float32")
    last = Argument("last", float32, (8, 8), (8, 1), offset=apply("sub", Var("last.size"), 64))
    tile, use = TileSpec(float32, TileType.Vec, 8, 8, 8, 8), TileUse("t", (8, 8))
    body = TileDecl("t", tile), Instr("tload", (use, View("last", (0, 0), (8, 8))))
    text = emit(Program("k", (last,), body), profile("a5"))
    assert complaints(text, "a5", tmp_path) == ""
    assert "k(__gm__ float* last, int64_t last_size) {" in text and "last_view(last + last_size - 64);" in text
    assert "k<<<blocks, nullptr, stream>>>(last, last_size);" in text


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
        "int64_t t_at = 0x100;", "TASSIGN(u, 0x400);", "t_at = 256 + i % 2 * 256;", "TASSIGN(t, t_at);",
        "set_flag(PIPE_MTE2, PIPE_V, static_cast<event_t>(i % 2));", "pipe_barrier(PIPE_ALL);  // <text>:15",
        "wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);",
    ):  # fmt: skip
        assert line in text, line
    assert text.count("set_flag") == 2 and "base" not in text


def test_a_tile_that_gets_its_address_once_is_assigned_once() -> None:
    body = """
t = pto.Tile("vec", "float32", 8, 8)
pto.tassign(t, 0x100)
pto.tload(t, x)
pto.set_flag("MTE2", "MTE3", 0)
pto.wait_flag("MTE2", "MTE3", 0)
pto.tstore(x, t)
"""
    text = emitted(body, mode="manual", x=floats(8, 8))
    assert text.count("TASSIGN") == text.count("TASSIGN(t, 0x100);") == 1 and "t_at" not in text


VECTORS = """
a = pto.Tile("vec", "float32", 8, 64)
b = pto.Tile("vec", "float32", 8, 64)
c = pto.Tile("vec", "float32", 8, 64)
d = pto.Tile("vec", "float32", 8, 64)
pto.texpands(a, 1.0)
pto.texpands(b, 2.0)
pto.tadd(c, a, b)
pto.tmul(d, a, b)
for i in pto.range(3):
    pto.tadds(c, c, 1.0)
pto.tadd(d, d, c)
pto.tstore(x, d)
"""


def test_dependent_vector_instructions_have_barriers_between_them_on_a2a3() -> None:
    """A barrier before an access to bytes written earlier; none between independent instructions."""
    lines = [line.split("  //")[0].strip() for line in emitted(VECTORS, "a2a3", x=floats(8, 64)).splitlines()]
    done = [line.split("(")[0] for line in lines if re.match(r"T[A-Z]+\(|pipe_barrier|for", line)]
    work = [word for word in done if word != "TASSIGN"]
    assert work == [
        "TEXPANDS", "TEXPANDS", "pipe_barrier", "TADD", "TMUL", "for ", "pipe_barrier", "TADDS", "pipe_barrier",
        "TADD", "TSTORE",
    ]  # fmt: skip
    assert "pipe_barrier(PIPE_V);" in lines
    assert "pipe_barrier" not in emitted(VECTORS, "a5", x=floats(8, 64))


def test_a_barrier_of_the_author_is_enough() -> None:
    body = """
t = pto.Tile("vec", "float32", 8, 64, addr=0)
pto.texpands(t, 1.0)
pto.barrier("V")
pto.tadds(t, t, 1.0)
pto.barrier("ALL")
pto.tstore(x, t)
"""
    assert emitted(body, "a2a3", mode="manual", x=floats(8, 64)).count("PIPE_V") == 1


def test_workspaces_and_copies_count_for_barriers() -> None:
    body = """
for i in pto.range(4, buffers=2):
    a = pto.Tile("vec", "float32", 8, 64)
    r = pto.Tile("vec", "float32", 8, 1, blayout="col_major")
    s = pto.Tile("vec", "float32", 8, 1, blayout="col_major")
    pto.tload(a, x)
    pto.trowsum(r, a)
    pto.trowmax(s, a)
    pto.tstore(y, r)
    pto.tstore(z, s)
"""
    assert emitted(body, "a2a3", x=floats(8, 64), y=floats(8), z=floats(8)).count("pipe_barrier(PIPE_V);") == 2


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


@pytest.mark.parametrize("target", ["a2a3", "cpu"])
def test_dynamic_memory_is_asked_for_only_where_there_is_some(target: str) -> None:
    program = traced(
        't = pto.Tile("vec", "float32", 8, 64)\npto.tload(t, x)\npto.tstore(x, t)', target, x=floats(8, 64)
    )
    for asked in ({"dyn_ub": 4096}, {"options": Options(dyn_ub=4096)}):
        with pytest.raises(ValueError, match=f"{target} has no dynamic UB"):
            emit(program, profile(target), **asked)
    assert emit(program, profile(target), dyn_ub=0) == emit(program, profile(target))


def test_there_is_no_cpp_for_the_host() -> None:
    with pytest.raises(ValueError, match="no C\\+\\+ for host"):
        emit(traced(LARGE, x=floats(320, 128)), profile("host"))


# --- Refusals ------------------------------------------------------------------------------------------------------

VEC = "t = pto.Tile('vec', '{0}', 8, 64)\nu = pto.Tile('vec', '{0}', 8, 64)\npto.tload(t, x)\npto.tload(u, x)\n"
INDEX = "i = pto.Tile('vec', 'int32', 8, 64)\npto.tload(i, idx)\n"
SCATTER = VEC + INDEX
SHORT_INDEX = """
t = pto.Tile('vec', 'int16', 8, 64)
i = pto.Tile('vec', 'int16', {}, 64, valid=(8, 64))
pto.tload(t, x)
pto.tload(i, x)
"""

MASK = "m = pto.Tile('vec', 'uint8', 8, 32, valid=(8, {}))\n"

REFUSALS = [
    ("a2a3", SCATTER.format("float32") + "pto.mscatter(x, t, i, atomic='max')", "MS-ATOM-06"),
    ("a2a3", SCATTER.format("int32") + "pto.mscatter(x, t, i, atomic='min')", "MS-ATOM-07"),
    ("a2a3", SCATTER.format("uint32") + "pto.mscatter(x, t, i, atomic='add')", "MS-ATOM-05"),
    ("a5", SCATTER.format("int8") + "pto.mscatter(x, t, i, atomic='add')", "MS-ATOM-05"),
    ("cpu", SCATTER.format("float32") + "r = pto.Tile('vec', 'int32', 1, 8)\npto.tload(r, idx[0:1, 0:8])\n"
     "pto.mscatter(x, t, r, coalesce='row', atomic='max')", "MS-ATOM-06"),
    ("a5", SCATTER.format("int32") + "pto.tscatter(t, t, i)", "TS-SEM-01"),
    ("a2a3", SHORT_INDEX.format(520) + "w = pto.Tile('vec', 'int16', 520, 64)\npto.tscatter(w, t, i)", "TS-SEM-01"),
    ("a5", SHORT_INDEX.format(520) + "w = pto.Tile('vec', 'int16', 8, 64)\npto.tscatter(w, t, i)", "TS-SEM-01"),
    ("a2a3", VEC.format("int32") + "m = pto.Tile('vec', 'uint8', 8, 32, valid=(8, 8))\npto.tcmp(m, t, u, 'lt')",
     "CP-HDR-01"),
    ("a2a3", VEC.format("int32") + "pto.tdivs(u, t, 3)", "CP-HDR-01"),
    ("cpu", INDEX + VEC.format("float32") + "pto.tcvt(i, t, 'odd')", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + "w = pto.Tile('vec', 'float32', 16, 64, valid=(8, 64))\npto.tadd(w, t, u)",
     "CP-HDR-01"),
    ("cpu", "t = pto.Tile('vec', 'float32', 8, 4)\npto.texpands(t, 1)", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + MASK.format(8) + "pto.tcmps(m, t, 1.0)", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + MASK.format(32) + "pto.tcmps(m, t, float('inf'))", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + MASK.format(32) + "pto.tcmp(m, t, u)\npto.tsel(u, m, t, u)", "CP-HDR-01"),
    ("cpu", VEC.format("float32") + "t.valid = (4, 64)\npto.tload(t, x[0:4])\nt.valid = (8, 64)\n"
     "pto.tadd(u, t, t)", "TL-03"),
    ("a2a3", VEC.format("float32") + "pto.tload(t, x[0:4])", "TL-02"),
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


def test_what_the_simulator_computes_as_the_program_says_is_emitted() -> None:
    """A load of a part is fine as long as nothing reads the rest."""
    kept = "t.valid = (4, 64)\npto.tload(t, x[0:4])\npto.tstore(x[0:4], t)\n"
    again = "t.valid = (8, 64)\npto.tload(t, x)\npto.tadd(u, t, t)"
    assert "TADD(" in emitted(VEC.format("float32") + kept + again, "cpu", x=floats(8, 64))
    assert "TCMPS(" in emitted(VEC.format("float32") + MASK.format(32) + "pto.tcmps(m, t, 1.0)", "cpu", x=floats(8, 64))


def test_atomic_types_are_those_that_both_documents_and_headers_have() -> None:
    body = SCATTER.format("uint32") + "pto.mscatter(x, t, i, atomic='add')"
    with pytest.raises(pto.VerifyError) as refusal:
        emitted(body, "a2a3", x=np.zeros((8, 64), "uint32"), idx=ints(8, 64))
    assert refusal.value.findings[0].expected.startswith("int32, float32, float16 for atomic add: ")


UNWRITTEN = """
func.func @k(%p: !pto.ptr<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %p, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %o = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c8, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<8x8xf32>
  %t = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
  pto.tstore ins(%t : !pto.tile_buf<vec, 8x8xf32>) outs(%o : !pto.partition_tensor_view<8x8xf32>)
  return
}
"""


def test_the_command_reports_hazards_of_the_emitted_program(tmp_path: Path) -> None:
    file = tmp_path / "unwritten.pto"
    file.write_text(UNWRITTEN, encoding="utf-8")
    convert = ["convert", str(file), "--to", "cpp", "--target"]
    result = CliRunner().invoke(app, [*convert, "a2a3"])
    assert result.exit_code == 0, result.output
    assert "TSTORE(" in result.stdout and "KN-19" not in result.stdout
    assert "hazard [KN-19]" in result.stderr
    refused = CliRunner().invoke(app, [*convert, "a2a3", "--dyn-ub", "4096"])
    assert refused.exit_code == 2 and "no dynamic UB" in refused.stderr


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


@pytest.mark.parametrize(("end", "fits"), [(184 * 1024, True), (184 * 1024 + 32, False)])
def test_the_headers_own_workspace_begins_at_184_kb(end: int, fits: bool) -> None:
    body = (
        "t = pto.Tile('vec', 'float32', 8, 64, addr=0)\nr = pto.Tile('vec', 'float32', 8, 8, addr=0x1000)\n"
        f"w = pto.Tile('vec', 'float32', 1, 8, addr={end - 32})\npto.texpands(t, 1)\npto.texpands(r, 1)\n"
        "pto.texpands(w, 1)\npto.trowexpandmul(t, t, r)"
    )
    if fits:
        assert "TROWEXPANDMUL" in emitted(body, "a2a3", mode="manual")
    else:
        with pytest.raises(pto.VerifyError, match="0x2e000"):
            emitted(body, "a2a3", mode="manual")


def test_a_workspace_behind_tiles_of_unknown_place_is_refused() -> None:
    body = WORKSPACE.format(8, ", addr=0", ", addr=n") + "pto.tload(t, x)\npto.trowsum(r, t)"
    with pytest.raises(pto.VerifyError, match="workspace") as refusal:
        emitted(body, mode="manual", x=floats(8, 64), n=64)
    assert [finding.rule for finding in refusal.value.findings] == ["A-38"]


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("hazard", [TO_CUBE, TO_VECTOR, CIRCULAR, RING], ids=lambda each: each.kernel.name)
def test_a_kernel_for_two_cores_compiles_for_each(hazard: Hazard, target: str, tmp_path: Path) -> None:
    if hazard is RING and target == "a2a3":
        return  # there is no path from L0C to UB
    text = two_cores(hazard, target)
    cube, vector = preprocessed(text, "__DAV_CUBE__"), preprocessed(text, "__DAV_VEC__")
    for lines in (cube, vector):
        assert complaints("\n".join(lines) + "\n", target, tmp_path) == ""
    assert any("TMATMUL" in line for line in cube) and not any("TMATMUL" in line for line in vector)
    assert any("PIPE_V, PIPE_MTE3" in line or "PIPE_MTE2, PIPE_MTE3" in line for line in vector)
    assert not any("PIPE_V" in line or "PIPE_MTE3" in line for line in cube)


def two_cores(hazard: Hazard, target: str, **more: Any) -> str:
    """A kernel of the corpus as C++."""
    given = {name: value() if callable(value) else value for name, value in {**hazard.given, **more}.items()}
    return emit(hazard.kernel.trace(hazard.kernel.bind((), given), mode_of(target)).program, profile(target))


CALLS = {
    "a2a3": (
        ["ffts_cross_core_sync(PIPE_MTE3, getFFTSMsg(0x2, 3));"],
        ["wait_flag_dev(3);"],
        ["set_ffts_base_addr(reinterpret_cast<uint64_t>(ffts_addr));"],
        ["const bool is_first_vector = get_subblockid() == 0;"],
    ),
    "a5": (
        ["set_intra_block(PIPE_MTE3, 3);"],
        ["wait_intra_block(PIPE_MTE2, 3);"],
        [],
        ["if (get_subblockid() != 0) {"],
    ),
}
"""What the vector core and the cube core call to hand over, what both call first, and what chooses a vector core."""


@pytest.mark.parametrize("target", CALLS)
def test_each_core_hands_over_by_the_calls_of_its_target(target: str) -> None:
    sets, waits, base, chosen = CALLS[target]
    text = two_cores(TO_CUBE, target, event=3)
    cube = [line.partition("  //")[0].strip() for line in preprocessed(text, "__DAV_CUBE__")]
    vector = [line.partition("  //")[0].strip() for line in preprocessed(text, "__DAV_VEC__")]
    for wanted, core, other in ((sets, vector, cube), (waits, cube, vector), (chosen, vector, cube)):
        assert all(line in core and line not in other for line in wanted)
    assert all(line in core for line in base for core in (cube, vector))
    stores = [line for line in vector if "TSTORE(" in line]
    assert stores and all(line.startswith("if (is_first_vector) ") == (target == "a2a3") for line in stores)
    assert ("ffts_addr" in text) == (target == "a2a3")


def test_a_flag_between_pipes_of_two_cores_has_no_cpp() -> None:
    with pytest.raises(pto.VerifyError, match="no flag from FIX to V") as refusal:
        two_cores(TO_VECTOR, "a5", way="FIX to V")
    assert {finding.rule for finding in refusal.value.findings} == {"KN-16"}


def test_two_cores_run_one_after_the_other_on_the_simulator(tmp_path: Path) -> None:
    text = two_cores(TO_CUBE, "cpu")
    assert complaints(text, "cpu", tmp_path) == ""
    assert "intra_block" not in text and "ffts" not in text


def test_the_options_are_those_of_the_verifier() -> None:
    body = VEC.format("float32") + "w = pto.Tile('vec', 'float32', 8, 64)\npto.tadd(t, u, w)"
    assert "TADD(t, u, w);" in emitted(body, x=floats(8, 64))
    with pytest.raises(pto.VerifyError, match="nothing has written"):
        emitted(body, options=Options(strict=True), x=floats(8, 64))


# --- What the public headers refuse --------------------------------------------------------------------------------


def one_call(kind: str, call: str, **tiles: str) -> tuple[str, dict[str, Any]]:
    """A kernel of one call over tiles that are filled with ones; `tiles` are the arguments of each."""
    made = "\n".join(f"{name} = pto.Tile('vec', {text.replace('T', repr(kind))})" for name, text in tiles.items())
    filled = "\n".join(f"pto.texpands({name}, 1)" for name, text in tiles.items() if "col_major" not in text)
    return f"{made}\n{filled}\npto.{call}", {}


PLAIN_TILES = {"a": "T, 8, 64", "b": "T, 8, 64", "c": "T, 8, 64"}
EXPANDED = {**PLAIN_TILES, "b": "T, 8, 32 // pto_size(T)"}
SUMMED = {"a": "T, 8, 64", "c": "T, 8, 32"}
BITS = {**PLAIN_TILES, "m": "'uint8', 8, 32, valid=(8, 8)"}
WORDS = {**PLAIN_TILES, "m": "'uint32', 8, 32, valid=(8, 2)"}
EVERY_INT, EVERY_FLOAT = ("int8", "uint8", "int16", "uint16", "int32", "uint32"), ("float16", "bfloat16", "float32")
WIDE = ("int16", "uint16", "int32", "uint32", "float16", "float32")
ASSERTED = {
    ("cpu", "tgather(c, a, i)"): ({**PLAIN_TILES, "i": "'int16', 8, 64"}, ()),
    ("cpu", "tgather(c, b, i)"): ({**PLAIN_TILES, "i": "'uint32', 8, 64"}, (*EVERY_INT, *EVERY_FLOAT)),
    ("cpu", "tcmp(m, a, b)"): (BITS, ("int32", "float16", "float32")),
    ("cpu", "tcmp(m, b, a)"): (WORDS, (*EVERY_INT, *EVERY_FLOAT)),
    ("cpu", "trowsum(c, a)"): (SUMMED, ("int16", "int32", *EVERY_FLOAT)),
    ("cpu", "trowexpandmul(c, a, b)"): (
        EXPANDED,
        ("uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"),
    ),
    ("cpu", "trowexpandsub(c, a, b)"): (EXPANDED, ("int16", "uint16", "int32", "uint32", "float16", "float32")),
    ("cpu", "trowexpanddiv(c, a, b)"): (EXPANDED, ("int16", "uint16", "int32", "uint32", "float16", "float32")),
    ("a5", "textract(c, a, 0, 0)"): (PLAIN_TILES, ("int8", "int32", *EVERY_FLOAT)),
    ("cpu", "tsels(c, m, a, 1)"): (BITS, (*EVERY_INT, *EVERY_FLOAT)),
}
"""By target and call: its tiles, and the element types that the static assertions of the headers accept."""


@pytest.mark.parametrize("kind", [*EVERY_INT, *EVERY_FLOAT])
@pytest.mark.parametrize(("target", "call"), ASSERTED)
def test_element_types_that_the_headers_assert(target: str, call: str, kind: str) -> None:
    tiles, allowed = ASSERTED[target, call]
    size = str(dtype(kind).size)
    body, given = one_call(kind, call, **{name: text.replace("pto_size(T)", size) for name, text in tiles.items()})
    if kind in allowed:
        assert f"{call.partition('(')[0].upper()}(" in emitted(body, target, **given)
        return
    with pytest.raises(pto.VerifyError, match="for the C\\+\\+ headers") as refusal:
        emitted(body, target, **given)
    assert [finding.rule for finding in refusal.value.findings] == ["CP-HDR-01"]
    assert refusal.value.findings[0].fix and refusal.value.findings[0].where


@pytest.mark.parametrize("kind", ["float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize("loc", ["vec", "mat"])
def test_8_bit_floats_are_not_loaded_on_a2a3(kind: str, loc: str) -> None:
    body = f"t = pto.Tile('{loc}', '{kind}', 16, 32)\npto.tload(t, x)"
    given = {"x": np.zeros((16, 32), dtype(kind).numpy)}
    assert "TLOAD(t, x_view);" in emitted(body, "a5", **given)
    with pytest.raises(pto.VerifyError, match="for the C\\+\\+ headers"):
        emitted(body, "a2a3", **given)


SHAPED = {
    "trowsum(c, a)": ("cpu", "T, 16, 64, valid=(8, 64)", "T, 8, 8"),
    "tabs(c, a)": ("cpu", "T, 8, 128, valid=(8, 64)", "T, 8, 64"),
    "tsel(c, m, a, c)": ("cpu", "T, 8, 128, valid=(8, 64)", "T, 8, 64"),
    "tmov(c, a)": ("a2a3", "T, 8, 128, valid=(8, 64)", "T, 8, 64"),
    "textract(c, a, 0, 0)": ("a5", "T, 8, 64", "T, 16, 64, valid=(8, 64)"),
}
"""By call: a target whose headers compare storage, the source, the destination."""


@pytest.mark.parametrize("call", SHAPED)
def test_shapes_that_the_headers_assert(call: str) -> None:
    target, src, dst = SHAPED[call]
    body, _ = one_call("float32", call, a=src, c=dst, m="'uint8', 8, 32, valid=(8, 8)")
    with pytest.raises(pto.VerifyError) as refusal:
        emitted(body, target)
    assert [finding.rule for finding in refusal.value.findings] == ["CP-HDR-01"]
    same = src if "textract" in call else dst
    body, _ = one_call(
        "float32", call, a="T, 8, 64", c=dst if "rowsum" in call else same, m="'uint8', 8, 32, valid=(8, 8)"
    )
    assert f"{call.partition('(')[0].upper()}(" in emitted(body, target)


def test_what_the_simulator_computes_otherwise_is_refused() -> None:
    words = {"a": "T, 1, 32", "c": "T, 1, 32", "m": "'uint32', 1, 8, valid=(1, 1)"}
    for call, tiles in (("tsel(c, m, a, a)", words), ("tcvt(c, a, 'floor')", {"a": "T, 8, 64", "c": "T, 8, 64"})):
        body, _ = one_call("float32", call, **tiles)
        with pytest.raises(pto.VerifyError, match="the simulator"):
            emitted(body, "cpu")
        assert f"{call.partition('(')[0].upper()}(" in emitted(body, "a5")


# --- Events and gathers by both cores ------------------------------------------------------------------------------

WAITING = """
t = pto.Tile("vec", "float32", 8, 8{0})
u = pto.Tile("vec", "float32", 8, 8{1})
loaded = pto.tload(t, x)
pto.texpands(u, 1)
pto.tstore(y, u, wait=loaded)
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("mode", "places"), [("auto", ("", "")), ("manual", (", addr=0", ", addr=256"))])
def test_an_event_is_a_flag_between_the_two_pipes(mode: str, places: tuple[str, str], target: str) -> None:
    given = {"x": floats(8, 8), "y": floats(8, 8)}
    text = emitted(WAITING.format(*places), target, mode, **given)
    assert "PIPE_ALL" not in text
    lines = [line.strip().partition("  //")[0] for line in text.splitlines()]
    at = [lines.index(line) for line in (
        "TLOAD(t, x_view);", "set_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);", "TEXPANDS(u, 1.0f);",
        "wait_flag(PIPE_MTE2, PIPE_MTE3, EVENT_ID0);", "TSTORE(y_view, u);",
    )]  # fmt: skip
    assert at == sorted(at)
    assert "PIPE_MTE2, PIPE_MTE3" not in emitted(
        WAITING.format(*places).replace(", wait=loaded", ""), target, mode, **given
    )


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_an_event_keeps_clear_of_the_author_s_flags_and_of_loops(target: str) -> None:
    body = """
t = pto.Tile("vec", "float32", 8, 8, addr=0)
loaded = pto.tload(t, x)
pto.set_flag("MTE2", "V", 0)
pto.wait_flag("MTE2", "V", 0)
for i in pto.range(n):
    pto.tstore(x, t, wait=loaded)
"""
    program = traced(body, target, "manual", x=floats(8, 8), n=3)
    ready = prepare(program, profile(target), Options(), None).program
    flags = [(stmt.action, stmt.src, stmt.dst) for stmt in ready.body if isinstance(stmt, Flag)]
    assert sorted(flags) == sorted((action, "MTE2", pipe) for action in ("set", "wait") for pipe in ("V", "MTE3"))
    (loop,) = [stmt for stmt in ready.body if isinstance(stmt, Loop)]
    assert not any(isinstance(stmt, Flag) for stmt in loop.body)


SIMT = """
NZ = {"blayout": "col_major", "slayout": "row_major"}
a = pto.Tile("mat", "float16", 16, 16, **NZ)
left = pto.Tile("left", "float16", 16, 16)
pto.mgather(a, x, idx, scratch=scratch, oob="clamp", executor="simt")
pto.tmov(left, a)
"""


def simt(body: str = SIMT) -> str:
    halves = np.zeros((16, 16), "float16")
    return emitted(body, "a5", x=halves, idx=ints(16, 16), scratch=halves.copy())


@pytest.mark.clause("MG-SIMT-11", "MG-SIMT-14")
def test_a_simt_gather_is_compiled_for_both_cores(tmp_path: Path) -> None:
    text = simt()
    assert complaints(text, "a5", tmp_path) == ""
    call = "MGATHER<Coalesce::Elem, GatherOOB::Clamp, GatherExec::Simt>(a, x_view, idx_view, scratch_view);"
    assert call in text and "#if defined(__DAV_VEC__) || defined(__DAV_CUBE__)" in text
    seen = {core: preprocessed(text, core) for core in ("__DAV_VEC__", "__DAV_CUBE__")}
    for lines in seen.values():
        assert any(call in line for line in lines) and any("TASSIGN(a, " in line for line in lines)
    for only in ("TMOV(left, a);", "set_flag(PIPE_MTE2, PIPE_MTE1", "TASSIGN(left, "):
        assert any(only in line for line in seen["__DAV_CUBE__"])
        assert not any(only in line for line in seen["__DAV_VEC__"])


def preprocessed(text: str, macro: str) -> list[str]:
    """The lines that are left where one macro is defined."""
    kept, open_ = [], [True]
    for line in text.splitlines():
        if line.startswith("#if "):
            open_.append(open_[-1] and macro in line)
        elif line.startswith("#endif"):
            open_.pop()
        elif open_[-1]:
            kept.append(line)
    return kept


def test_a_simt_gather_waits_for_the_cube_core(tmp_path: Path) -> None:
    again = "pto.mgather(a, x, idx, scratch=scratch, oob='clamp', executor='simt')\npto.tmov(left, a)\n"
    for body in (SIMT + again, SIMT.replace("pto.mgather", "for i in pto.range(2):\n    pto.mgather")):
        text = simt(body)
        assert complaints(text, "a5", tmp_path) == ""
        cube, vector = preprocessed(text, "__DAV_CUBE__"), preprocessed(text, "__DAV_VEC__")
        assert any("set_intra_block(PIPE_MTE2, 0);" in line for line in cube)
        assert any("wait_intra_block(PIPE_V, 0);" in line for line in vector)


# --- Names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("idx", "idx"), ("int", "int_"), ("TLOAD", "TLOAD_"), ("half", "half_"), ("PIPE_V", "PIPE_V_"), ("", "x"),
        ("int32_t", "int32_t_"), ("größe", "gr_e"), ("a b", "a_b"), ("9", "x9"), ("__x", "x_x"), ("_Upper", "x_Upper"),
        ("stream", "stream_"), ("x;}\n#include", "x_include"), ("*/ x", "x_x"), ("new_", "new_"), ("main", "main_"),
        ("block_idx", "block_idx_"), ("status", "status_"), ("ANY_MACRO", "ANY_MACRO_"), ("N", "N"),
        ("n" * 99, "n" * 60), ("float8_e4m3_t", "float8_e4m3_t_"), ("get_block_idx", "get_block_idx_"),
    ],
)  # fmt: skip
def test_identifiers_are_safe(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_names_stay_apart() -> None:
    names = Identifiers()
    assert [names.of(name) for name in ("int", "int_", "a b", "a_b")] == ["int_", "int_1", "a_b", "a_b_1"]
    assert names.fresh("a_b") == "a_b_2" and names.of("a b") == "a_b" and names.of("a b", "tile") == "a_b_3"


HOSTILE = [
    "x) {}\nint system(const char*);\n//", '"', "a\\", "a\\\n#error", "*/ /*", "??/", "a??/", "??/\n", "größe", "名",
    "\u2028", "int", "__x", "_X", "_x", "x__", "PIPE_V", "TLOAD", "AICORE", "get_block_idx", "block_idx", "EVENT_ID0",
    "main", "half", "std", "pto", "a b", "a_b", "a__b", "a-b", "a_b_1", "", " ", "9", "\0", "x" * 10_000,
    "x" * 9_999 + "y", "least", "launch_k", "k", "t_view", "tmp", "blocks", "stream", "linux",
    "status", "__DAV_VEC__", "/*\r#error",
]  # fmt: skip
hostile = st.sampled_from(HOSTILE) | st.text(max_size=12) | st.text("x_?/\\ \nA*", max_size=8)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failure is not made smaller: every try takes a compiler run."""
NAMES = 25 if os.environ.get("PTOKIT_FUZZ") else 12
"""Programs with other names that are compiled."""
CODE = re.compile(r"[A-Za-z0-9_<>(){}\[\];:,.+\-*/%&|!=?\"# \n]*")


def hostile_program(names: list[str], files: list[str], constant: str) -> Program:
    """A program with these names. Names of one kind are distinct."""
    kernel, x, y, count, scale, t, u, row, length, value = names
    wheres = [Where(file, line) for line, file in enumerate(files, 1)]
    float32, int32 = dtype("float32"), dtype("int32")
    tile = TileSpec(float32, TileType.Vec, 8, 8, 8, 8)
    whole, part = View(x, (Var(row), 0), (8, 8)), View(x, (apply("mul", Var(row), 2), 0), (8, 8))
    arguments = (
        Argument(x, float32, (64, 8), (8, 1)),
        Argument(y, int32, (64,), (1,)),
        Integer(count),
        Float(scale, float32),
    )
    first = apply("mul", Var(row), 2)
    body = (
        LoadScalar(Var(length), View(y, (Var(count),), (1,)), where=wheres[0]),
        Loop(Var(row), 0, Var(length), 1, (
            TileDecl(t, tile, where=wheres[1]),
            TileDecl(u, tile, where=wheres[1]),
            Instr("tload", (TileUse(t, (8, 8)), whole), where=wheres[2]),
            Instr("tmuls", (TileUse(u, (8, 8)), TileUse(t, (8, 8)), Given(scale, float32)), where=wheres[2]),
            Branch(apply("lt", first, 40), (
                Instr("tstore", (part, TileUse(u, (8, 8))), (StoreAtomic.NONE, None), where=wheres[2]),
            )),
        ), where=wheres[0]),
    )  # fmt: skip
    return Program(kernel, arguments, body, ((constant, constant),), ((first, value),), where=wheres[0])


@settings(
    max_examples=25 if FULL else 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=UNSHRUNK,
)
@given(
    st.lists(hostile, min_size=10, max_size=10, unique=True), st.lists(hostile, min_size=3, max_size=3), hostile,
    st.sampled_from(["a2a3", "a5"]),
)  # fmt: skip
def test_names_can_be_anything(names: list[str], files: list[str], constant: str, target: str) -> None:
    assume("block_idx" not in (names[3], *names[7:9]))  # a variable of that name is the block's own
    text = emit(hostile_program(names, files, constant), profile(target))
    with TemporaryDirectory() as folder:
        assert complaints(text, target, Path(folder)) == ""
    assert text.isascii() and text.count("\n#") == 4 and "??" not in text and max(map(len, text.splitlines())) < 500
    code = re.sub(r" *//.*", "", text)
    assert CODE.fullmatch(code) and "__" not in re.sub(r"__(gm|global|DAV_VEC)__", "", code)
    plain = emit(hostile_program([*"kxynstuvlw"], ["f.py"] * 3, "c"), profile(target))
    assert _shape(code) == _shape(re.sub(r" *//.*", "", plain))


def _shape(code: str) -> str:
    """A text without its names."""
    return re.sub(r"\w+", "_", code)


def test_many_names_that_are_alike_stay_apart() -> None:
    names, wishes = Identifiers(), [chr(0x4E00 + k) for k in range(20_000)]
    assert len({names.of(wish) for wish in wishes}) == len(wishes)


def test_a_name_may_be_given_twice(tmp_path: Path) -> None:
    text = emitted(
        "a = pto.block_idx() * 8\n"
        "t = pto.Tile('vec', 'float32', 8, 8)\n"
        "pto.tload(t, x[a : a + 8])\n"
        "a = a + n\n"
        "pto.tstore(x[a : a + 8], t)",
        x=floats(64, 8), n=8,
    )  # fmt: skip
    assert complaints(text, "a5", tmp_path) == ""
    assert "const int64_t a = block_idx_ * 8;" in text and "const int64_t a_1 = a + n;" in text


def test_a_variable_may_be_called_like_an_array(tmp_path: Path) -> None:
    text = emitted(
        "t = pto.Tile('vec', 'float32', 8, 8)\n"
        "y = x\n"
        "for x in pto.range(2):\n"
        "    pto.tload(t, y[x * 8 : x * 8 + 8])\n"
        "    pto.tstore(y[x * 8 : x * 8 + 8], t)",
        x=floats(64, 8),
    )  # fmt: skip
    assert complaints(text, "a5", tmp_path) == ""
    assert "x + x_1 * 8 * 8" in text


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
