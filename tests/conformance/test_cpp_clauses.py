"""C++ clauses of the documents: emitted calls match the documented signatures, and Python has the same operands.

Each documented signature stands here as a declaration, written from the clause. An emitted source is compiled with its
calls directed to that declaration, whose constraints tell the operands apart.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Call
from ptokit.isa.policy import Coalesce, GatherExec, GatherOOB
from ptokit.program.ir import Instr, walk
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.cpp.types import call_text, tile_type
from tests.machine.executing import gm, nz
from tests.text.compiling import complaints
from tests.text.test_cpp import emitted, floats, ints, traced

TARGETS = ("cpu", "a2a3", "a5")
GATHER = """
template <Coalesce Mode = Coalesce::Row, GatherOOB Oob = GatherOOB::Undefined, typename TileDst, typename GlobalData,
          typename TileInd, typename... WaitEvents>
    requires(IsTile<TileDst> && std::same_as<typename TileDst::DType, float> && IsTensor<GlobalData> &&
             IsTile<TileInd> && std::same_as<typename TileInd::DType, int32_t>)
RecordEvent DOC_MGATHER(TileDst& dst, GlobalData& src, TileInd& indexes, WaitEvents&... events);
"""
GATHER_INTO_L1 = """
template <Coalesce CMode = Coalesce::Row, GatherOOB Oob = GatherOOB::Undefined, typename Dst, typename Table,
          typename Idx>
    requires(Dst::loc == TileType::Mat && IsTensor<Table> && IsTensor<Idx> &&
             !std::same_as<typename Idx::DType, half> && CMode == Coalesce::Row)
RecordEvent DOC_MGATHER(Dst& dst, Table& table, Idx& idx);
template <Coalesce CMode = Coalesce::Elem, GatherOOB Oob = GatherOOB::Undefined, typename Dst, typename Table,
          typename Idx, typename Scratch>
    requires(Dst::loc == TileType::Mat && IsTensor<Table> && IsTensor<Idx> &&
             !std::same_as<typename Idx::DType, half> && IsTensor<Scratch> && Scratch::Sizes::value[4] == 256 &&
             CMode == Coalesce::Elem)
RecordEvent DOC_MGATHER(Dst& dst, Table& table, Idx& idx, Scratch& scratch);
"""
SCATTER = """
template <typename GlobalData, typename TileSrc, typename TileInd, typename... WaitEvents>
    requires(IsTensor<GlobalData> && IsTile<TileSrc> && IsTile<TileInd> &&
             std::same_as<typename TileSrc::DType, float> && std::same_as<typename TileInd::DType, int32_t>)
RecordEvent DOC_MSCATTER(GlobalData& dst, TileSrc& src, TileInd& indexes, WaitEvents&... events);
"""
SCATTER_OF_A5 = """
template <ScatterAtomicOp Atomic = ScatterAtomicOp::None, ScatterOOB Mode = ScatterOOB::Undefined, typename GlobalTable,
          typename TileSrc, typename TileIdx>
    requires(IsTensor<GlobalTable> && IsTile<TileSrc> && IsTile<TileIdx> &&
             std::same_as<typename TileSrc::DType, float> && std::same_as<typename TileIdx::DType, int32_t>)
void DOC_MSCATTER(GlobalTable& table, TileSrc& src, TileIdx& indices);
"""
SCATTER_OF_TILES = """
template <typename TileDataD, typename TileDataS, typename TileDataI, typename... WaitEvents>
    requires(TileDataD::rows == 16 && TileDataS::rows == 8 && std::same_as<typename TileDataI::DType, uint32_t>)
RecordEvent DOC_TSCATTER(TileDataD& dst, TileDataS& src, TileDataI& indexes, WaitEvents&... events);
"""


def documented(source: str, name: str, declaration: str) -> str:
    """A source whose calls of one intrinsic go to a declaration."""
    calls = re.sub(rf"\b{name}(?=[<(])", f"DOC_{name}", source)
    assert calls != source
    return calls.replace("using namespace pto;\n", f"using namespace pto;\n{declaration}", 1)


def calls_of(source: str, name: str) -> list[tuple[list[str], list[str]]]:
    """Template arguments and operands of every call of an intrinsic."""
    found = re.findall(rf"\b{name}(?:<([^;]*?)>)?\(([^;]*)\);", source)
    return [(re.findall(r"\w+::\w+", types), operands.split(", ")) for types, operands in found]


LOOKUP = """
rows = pto.Tile("vec", "int32", 1, 8)
cells = pto.Tile("vec", "int32", 8, 16)
t = pto.Tile("vec", "float32", 8, 16)
pto.tload(rows, r)
pto.tload(cells, c)
"""
GIVEN: dict[str, Any] = {"r": ints(8), "c": ints(8, 16), "x": floats(64, 16)}
POLICIES = ("undefined", "clamp", "wrap", "zero")


def gathers(target: str) -> str:
    lines = [f"pto.mgather(t, x, rows, oob='{oob}')" for oob in POLICIES]
    lines += [f"pto.mgather(t, x, cells, coalesce='elem', oob='{oob}')" for oob in POLICIES]
    return emitted(LOOKUP + "\n".join(lines), target, **GIVEN)


# --- MGATHER -------------------------------------------------------------------------------------------------


@pytest.mark.clause("MG-API-01", "MG-API-02", "MG-API-03", "MG-API-05")
@pytest.mark.parametrize("target", TARGETS)
def test_gathers_fit_the_documented_signature(target: str, tmp_path: Path) -> None:
    source = gathers(target)
    assert complaints(documented(source, "MGATHER", GATHER), target, tmp_path) == ""
    modes = [f"{mode} {oob}" for mode, oob in product(("Row", "Elem"), ("Undefined", "Clamp", "Wrap", "Zero"))]
    spelled = []
    for types, operands in calls_of(source, "MGATHER"):
        given = dict(name.split("::") for name in types)
        spelled.append(f"{given.get('Coalesce', 'Row')} {given.get('GatherOOB', 'Undefined')}")
        assert list(given) == ["Coalesce", "GatherOOB"][: len(given)]  # the mode comes first
        assert operands == ["t", "x_view", "rows" if given["Coalesce"] == "Row" else "cells"]
    assert spelled == modes


@pytest.mark.clause("MG-API-05", "MS-API-03", "A-32")
def test_python_takes_the_operands_in_the_order_of_cpp_and_the_policies_by_name() -> None:
    def named(call: Any) -> tuple[list[str], set[str]]:
        parameters = inspect.signature(call).parameters.values()
        return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD], {
            p.name for p in parameters if p.kind is p.KEYWORD_ONLY
        }

    assert named(pto.mgather) == (["dst", "table", "idx"], {"coalesce", "oob", "scratch", "executor", "wait"})
    assert named(pto.mscatter) == (["table", "src", "idx"], {"coalesce", "atomic", "oob", "conflict", "wait"})
    assert named(pto.tscatter) == (["dst", "src", "idx"], {"index", "wait"})
    for name in ("mgather", "mscatter", "tscatter"):
        operands = [operand.name for operand in INSTRUCTIONS[name].operands if not operand.optional]
        assert operands == named(getattr(pto, name))[0]


@pytest.mark.clause("MG-API-07", "CO-SEM-02", "MG-OOB-09")
def test_targets_share_calls_defaults_and_results() -> None:
    assert calls_of(gathers("cpu"), "MGATHER") == calls_of(gathers("a5"), "MGATHER")
    results = {}
    for target in TARGETS:
        with pto.target(target):
            table = pto.GlobalTensor(np.arange(64 * 16, dtype="float32").reshape(64, 16))
            rows = pto.Tile("vec", "uint32", 1, 8).write([0, 63, 64, 7, 200, 2**32 - 1, 5, 128])
            cells = pto.Tile("vec", "uint32", 8, 16).write(np.arange(128).reshape(8, 16) * 97)
            found = []
            for oob in POLICIES[1:]:
                for idx, words in ((rows, {}), (cells, {"coalesce": "elem"})):
                    dst = pto.Tile("vec", "float32", 8, 16)
                    pto.mgather(dst, table, idx, oob=oob, **words)
                    found.append(dst.read().tolist())
            results[target] = found
    assert results["cpu"] == results["a5"] == results["a2a3"]


@pytest.mark.clause("MG-API-06", "MG-L1-05", "MG-L1-06", "A-69")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_gathers_into_l1_fit_the_documented_signatures(target: str, tmp_path: Path) -> None:
    lines = [f"pto.mgather(m, x, i, oob='{oob}')" for oob in POLICIES]
    lines += [f"pto.mgather(m, x, j, scratch=s, oob='{oob}')" for oob in POLICIES]
    body = 'm = pto.Tile("mat", "float16", 16, 16, blayout="col_major", slayout="row_major")\n' + "\n".join(lines)
    given = {"x": np.zeros((32, 16), "float16"), "i": ints(16), "j": ints(16, 16), "s": np.zeros(256, "float16")}
    source = emitted(body, target, **given)
    assert complaints(documented(source, "MGATHER", GATHER_INTO_L1), target, tmp_path) == ""
    found = [operands for _, operands in calls_of(source, "MGATHER")]
    assert found == [["m", "x_view", "i_view"]] * 4 + [["m", "x_view", "j_view", "s_view"]] * 4


@pytest.mark.clause("MG-API-06", "MG-SIMT-11", "MG-SIMT-12")
def test_the_executor_is_the_third_template_argument() -> None:
    """The call alone: whether a kernel that needs both cores can be emitted is another question."""
    operands = {"dst": nz("float16", 16, 16), "table": gm("float16", 32, 16), "idx": gm("int32", 16, 16)}
    texts = {name: name for name in (*operands, "scratch")}
    for executor, oob in product((None, *GatherExec), GatherOOB):
        modifiers = (Coalesce.Elem, oob, executor)
        call = Call(INSTRUCTIONS["mgather"], {**operands, "scratch": gm("float16", 256)}, modifiers, "a5")
        types = call_text(call, texts).removeprefix("MGATHER<").removesuffix(">(dst, table, idx, scratch)").split(", ")
        wanted = ["Coalesce::Elem", f"GatherOOB::{oob.name}", f"GatherExec::{(executor or GatherExec.Scalar).name}"]
        usual = ["", "GatherOOB::Undefined", "GatherExec::Scalar"]
        assert types == wanted[: len(types)]
        assert wanted[len(types) :] == usual[len(types) :]  # what is left out is the default


# --- MSCATTER, TSCATTER --------------------------------------------------------------------------------------

UPDATE = LOOKUP + "pto.tload(t, x[0:8])\n"


@pytest.mark.clause("MS-API-01", "MS-API-03")
@pytest.mark.parametrize("target", TARGETS)
def test_plain_scatters_fit_the_documented_signature(target: str, tmp_path: Path) -> None:
    """The mode comes on top: the documents read it from the index shape, the published headers as an argument."""
    words = 'conflict="last"' if target == "a5" else ""
    source = emitted(
        UPDATE + f"pto.mscatter(x, t, cells, {words})\npto.mscatter(x, t, rows, coalesce='row', {words})",
        target,
        **GIVEN,
    )
    assert [types for types, _ in calls_of(source, "MSCATTER")] == [["Coalesce::Elem"], ["Coalesce::Row"]]
    plain = re.sub(r"MSCATTER<Coalesce::\w+>", "MSCATTER", source)
    assert complaints(documented(plain, "MSCATTER", SCATTER), target, tmp_path) == ""


@pytest.mark.clause("MS-API-02", "MS-API-03", "MS-OOB-02", "MS-ATOM-01")
def test_scatters_of_a5_fit_the_documented_signature(tmp_path: Path) -> None:
    choices = list(product(("none", "add", "max", "min"), ("undefined", "skip", "clamp", "wrap")))
    lines = [f"pto.mscatter(x, t, cells, atomic='{atomic}', oob='{oob}', CONFLICT)" for atomic, oob in choices]
    lines = [line.replace("CONFLICT", "conflict='last'" if "'none'" in line else "") for line in lines]
    source = emitted(UPDATE + "\n".join(lines), "a5", **GIVEN)
    plain = re.sub(r"MSCATTER<Coalesce::\w+(, )?", "MSCATTER<", source)
    assert complaints(documented(plain, "MSCATTER", SCATTER_OF_A5), "a5", tmp_path) == ""
    for (atomic, oob), (types, _) in zip(choices, calls_of(source, "MSCATTER"), strict=True):
        given = dict(name.split("::") for name in types[1:])
        assert list(given) == ["ScatterAtomicOp", "ScatterOOB"][: len(given)]  # the atomic before the policy
        assert given.get("ScatterAtomicOp", "None").lower() == atomic
        assert given.get("ScatterOOB", "Undefined").lower() == oob


@pytest.mark.clause("TS-API-01")
@pytest.mark.parametrize("target", TARGETS)
def test_scatters_between_tiles_fit_the_documented_signature(target: str, tmp_path: Path) -> None:
    body = (
        "d = pto.Tile('vec', 'float32', 16, 16)\ns = pto.Tile('vec', 'float32', 8, 16)\n"
        "i = pto.Tile('vec', 'uint32', 8, 16)\npto.tload(s, x)\npto.tload(d, y)\npto.tload(i, idx)\n"
        "pto.tscatter(d, s, i, index='flat')\npto.tstore(y, d)"
    )
    given = {"x": floats(8, 16), "y": floats(16, 16), "idx": np.zeros((8, 16), "uint32")}
    source = emitted(body, target, **given)
    assert [operands for _, operands in calls_of(source, "TSCATTER")] == [["d", "s", "i"]]
    assert complaints(documented(source, "TSCATTER", SCATTER_OF_TILES), target, tmp_path) == ""


# --- Events --------------------------------------------------------------------------------------------------


def operands_for(name: str) -> tuple[Any, ...]:
    t, u = (pto.Tile("vec", "float32", 8, 8).write(1) for _ in range(2))
    x, idx = pto.GlobalTensor(floats(8, 8)), pto.Tile("vec", "int32", 1, 8).write(range(8))
    known = {
        "mgather": (t, x, idx),
        "mscatter": (x, t, idx),
        "tscatter": (t, u, pto.Tile("vec", "int32", 8, 8).write(np.arange(8)[:, None] + np.zeros(8, int))),
        "tload": (t, x),
        "tstore": (x, t),
        "tmov": (t, u),
        "tadd": (t, u, u),
        "texpands": (t, 1),
    }
    return known[name]


@pytest.mark.clause("CO-API-07", "A-29")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["mgather", "mscatter", "tscatter", "tload", "tstore", "tmov", "tadd", "texpands"])
def test_every_call_returns_an_event_and_takes_events_to_wait_for(name: str, target: str) -> None:
    words = {"coalesce": "row"} if name == "mscatter" else {}
    with pto.target(target):
        first = getattr(pto, name)(*operands_for(name), **words)
        assert isinstance(first, pto.Event)
        for wait in (first, [first], [first, first], [], None):
            assert isinstance(getattr(pto, name)(*operands_for(name), **words, wait=wait), pto.Event)


@pytest.mark.clause("CO-API-07", "A-29", "MG-L1-05", "MG-L1-06")
def test_calls_of_a_kernel_return_events_that_later_calls_wait_for() -> None:
    body = (
        "m = pto.Tile('mat', 'float16', 16, 16, blayout='col_major', slayout='row_major', addr=0)\n"
        "first = pto.mgather(m, x, i)\nsecond = pto.mgather(m, x, j, scratch=s, wait=first)\n"
        "pto.mgather(m, x, i, wait=[first, second])"
    )
    given = {"x": np.zeros((32, 16), "float16"), "i": ints(16), "j": ints(16, 16), "s": np.zeros(256, "float16")}
    program = traced(body, "a5", "manual", **given)
    one, two, three = (stmt for stmt in walk(program.body) if isinstance(stmt, Instr))
    assert None not in (one.event, two.event) and one.event != two.event
    assert (one.waits, two.waits, set(three.waits)) == ((), (one.event,), {one.event, two.event})


# --- Tiles, tensors, files -----------------------------------------------------------------------------------


@pytest.mark.clause("CO-API-01", "CO-API-02")
@pytest.mark.parametrize(
    ("make", "written"),
    [
        (lambda: pto.Tile("vec", "float32", 16, 16), "TileType::Vec, float, 16, 16"),
        (lambda: pto.Tile("vec", "float32", 16, 16, valid=(16, 16)), "TileType::Vec, float, 16, 16"),
        (lambda: pto.Tile("vec", "int8", 8, 64, valid=(3, 64)), "TileType::Vec, int8_t, 8, 64, BLayout::RowMajor, 3"),
        (
            lambda: pto.Tile("vec", "uint16", 8, 64, valid=(8, 5)),
            "TileType::Vec, uint16_t, 8, 64, BLayout::RowMajor, 8, 5",
        ),
        (
            lambda: pto.Tile("vec", "float16", 32, 8, blayout="col_major"),
            "TileType::Vec, half, 32, 8, BLayout::ColMajor",
        ),
        (
            lambda: pto.Tile("mat", "float16", 32, 48, valid=(20, 40), blayout="col_major", slayout="row_major"),
            "TileType::Mat, half, 32, 48, BLayout::ColMajor, 20, 40, SLayout::RowMajor",
        ),
        (
            lambda: pto.Tile(
                "acc", "float32", 16, 32, valid=(9, 32), blayout="col_major", slayout="row_major", fractal=1024
            ),
            "TileType::Acc, float, 16, 32, BLayout::ColMajor, 9, 32, SLayout::RowMajor, 1024",
        ),
    ],
)
def test_tile_types(make: Callable[[], pto.Tile], written: str) -> None:
    """Location, type, rows, columns, bulk layout, valid rows, valid columns, sub layout, fractal: defaults at the end
    are left out."""
    tile = make()
    assert tile_type(tile.spec, tile.spec.valid) == f"Tile<{written}>"


@pytest.mark.clause("CO-API-03", "CO-LOC-02")
def test_tensors_name_type_shape_stride_and_layout_and_take_a_gm_pointer() -> None:
    source = emitted(
        "t = pto.Tile('vec', 'float32', 8, 16)\npto.tload(t, x[8:16])\npto.tstore(y[0:8], t)\npto.tadds(t, t, n)",
        "a5", x=floats(64, 16), y=floats(8, 16), n=3,
    )  # fmt: skip
    tensor = "GlobalTensor<float, Shape<1, 1, 1, 8, 16>, Stride<{0}, {0}, {0}, 16, 1>, Layout::ND>"
    assert f"{tensor.format(1024)} x_view(x + 128);" in source
    assert f"{tensor.format(128)} y_view(y);" in source
    (kernel,) = re.findall(r"__global__ AICORE void k\((.*)\) {", source)
    assert kernel == "__gm__ float* x, __gm__ float* y, int64_t n"


@pytest.mark.clause("CO-API-04")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("marks", [(3,), (4,), (3, 4), (3, 8), (8,), (3, 4, 8)])
def test_a_dynamic_tensor_is_made_of_pointer_shape_and_stride(target: str, marks: tuple[int, ...]) -> None:
    """`marks` are the run-time entries: 0 to 4 of the shape, 5 to 9 of the stride."""
    sizes = [1, 1, 1, 30, 16, 480, 480, 480, 16, 1]
    given = [pto.dyn(size) if k in marks else size for k, size in enumerate(sizes)]
    table = pto.GlobalTensor(floats(30, 16), shape=given[:5], stride=given[5:])
    source = emitted(LOOKUP + "pto.mgather(t, x, cells, coalesce='elem')", target, **{**GIVEN, "x": table})
    types = [-1 if k in marks else size for k, size in enumerate(sizes)]
    taken = [[sizes[k] for k in marks if k < 5], [sizes[k] for k in marks if k >= 5]]
    shape, stride = (", ".join(map(str, part)) for part in (types[:5], types[5:]))
    assert f"using x_view_shape = Shape<{shape}>;" in source
    assert f"using x_view_stride = Stride<{stride}>;" in source
    made = [
        f"x_view_{what}({', '.join(map(str, part))})" for what, part in zip(("shape", "stride"), taken, strict=True)
    ]
    assert f"Layout::ND> x_view(x, {', '.join(made)});" in re.sub(r"\(\s+", "(", source)


@pytest.mark.clause("CO-API-06")
@pytest.mark.parametrize("target", TARGETS)
def test_sources_include_the_public_header_and_use_its_namespace(target: str) -> None:
    source = gathers(target)
    assert re.findall(r"#include (\S+)", source) == ["<cstdint>", "<pto/pto-inst.hpp>"]
    assert re.findall(r"using namespace (\w+);", source) == ["pto"]


@pytest.mark.clause("CO-API-10")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_flags_and_barriers_are_written_with_their_pipes_and_events(target: str) -> None:
    pairs = [(a, b) for a, b in product(("S", "V", "MTE2", "MTE3"), repeat=2) if a != b]
    lines = [f"pto.{end}_flag('{a}', '{b}', {k % 8})" for k, (a, b) in enumerate(pairs) for end in ("set", "wait")]
    body = "t = pto.Tile('vec', 'float32', 8, 16, addr=0)\npto.texpands(t, 1)\n" + "\n".join(lines)
    source = emitted(body + "\npto.barrier('ALL')", target, "manual", x=floats(8))
    found = re.findall(r"(set|wait)_flag\(PIPE_(\w+), PIPE_(\w+), EVENT_ID(\d)\);", source)
    assert found == [(end, a, b, str(k % 8)) for k, (a, b) in enumerate(pairs) for end in ("set", "wait")]
    assert source.count("pipe_barrier(PIPE_ALL);") == 1


# --- Launches ------------------------------------------------------------------------------------------------

ELEMENTS = """
ids = pto.Tile("vec", "int32", ROWS, 128)
got = pto.Tile("vec", KIND, ROWS, 128)
pto.tload(ids, idx)
pto.mgather(got, x, ids, coalesce="elem")
pto.tstore(out, got)
"""


def extended(rows: int, kind: str) -> str:
    body = ELEMENTS.replace("ROWS", str(rows)).replace("KIND", repr(kind))
    given = {"idx": ints(rows, 128), "x": np.zeros(64, kind), "out": np.zeros((rows, 128), kind)}
    return emit(traced(body, "a5", **given), profile("a5"), Options())


@pytest.mark.clause("MG-EX-12", "MG-BUDG-10", "MG-BUDG-11")
@pytest.mark.parametrize(("rows", "kind", "size"), [(129, "float32", 4), (200, "float32", 4), (180, "int16", 2)])
def test_an_extended_launch_passes_the_working_set_as_its_second_argument(rows: int, kind: str, size: int) -> None:
    source = extended(rows, kind)
    assert f"constexpr uint32_t kDynUbBytes = {rows * 128 * (size + 4)};" in source
    assert "k<<<blocks, kDynUbBytes, stream>>>(" in source


@pytest.mark.clause("MG-SIMT-09", "MG-BUDG-09")
@pytest.mark.parametrize("rows", [1, 128])
def test_a_launch_within_128_kb_is_the_standard_one_without_a_size(rows: int) -> None:
    source = extended(rows, "float32")
    assert "kDynUbBytes" not in source
    assert "k<<<blocks, nullptr, stream>>>(" in source
