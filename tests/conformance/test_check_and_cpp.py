"""What a check accepts can be written as C++, and what C++ refuses a check reports: every instruction of the catalogue,
with every element type, modifier, memory and layout, on every target that has headers.

Programs of one instruction are made from calls that are legal, by changes of one kind: the types of operands together
with all modifiers, or the memory, the layout, the extents or a slice of one operand. `make test` tries a slice of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import ptokit as pto
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import BASE, FLOAT8, FLOAT8_E8M0, HIFLOAT8, DType, dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, GlobalLayout, SLayout, TileType
from ptokit.program.ir import Argument, Constant, Given, Instr, Number, Program, TileDecl, TileUse, View, Window, walk
from ptokit.program.verify import verify
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp import emit
from tests.text.test_cpp import cube_program, traced, vector_program

TARGETS = ("cpu", "a2a3", "a5")
EVERYTHING = bool(os.environ.get("PTOKIT_FUZZ"))
ONE_IN = 1 if EVERYTHING else 48
TYPES = (*BASE, *FLOAT8, HIFLOAT8, FLOAT8_E8M0, dtype("int64"), dtype("uint64"))

MORE = """
t = pto.Tile("vec", "float32", 16, 64)
row = pto.Tile("vec", "int32", 1, 16)
standing = pto.Tile("vec", "int32", 16, 1)
column = pto.Tile("vec", "int32", 16, 1, blayout="col_major")
cells = pto.Tile("vec", "int32", 16, 64)
u = pto.Tile("vec", "float32", 16, 64)
pto.mgather(t, x, row)
pto.mgather(t, x, cells, coalesce="elem")
pto.mscatter(x, t, row, coalesce="row")
pto.mscatter(x, t, standing)
pto.mscatter(x, t, column)
pto.mscatter(x, t, cells)
pto.tscatter(t, u, cells)
pto.tscatter(t, t, cells)
pto.tload(t, x[0:16])
pto.tload(standing, rows)
pto.tstore(x[0:16], t)
"""
"""Calls beside those of the programs with every instruction: the index forms of the documents."""


def programs(target: str) -> list[Program]:
    """Programs whose calls are legal, and have every instruction of the target."""
    more = traced(MORE, target, x=np.zeros((64, 64), "float32"), rows=np.zeros(16, "int32"))
    return [vector_program(target), more, *([cube_program(target)] if target != "cpu" else [])]


def alone(program: Program, instr: Instr) -> Program:
    """A program of one instruction, with what it uses."""
    tiles = tuple(replace(program.tiles[name], fresh=False) for name in dict.fromkeys(use.tile for use in instr.tiles))
    return replace(program, body=(*tiles, replace(instr, waits=(), event=None)))


def bases(target: str) -> Iterator[Program]:
    """One legal program for each form of each instruction."""
    seen = set[object]()
    for program in programs(target):
        for instr in (stmt for stmt in walk(program.body) if isinstance(stmt, Instr)):
            made = alone(program, instr)
            kinds = tuple((d.spec.loc, d.spec.format, d.spec.dtype, d.spec.cols == 1) for d in tiles_of(made).values())
            key = instr.name, kinds, tuple(type(operand) for operand in instr.operands)
            if key not in seen:
                seen.add(key)
                yield made


def tiles_of(program: Program) -> dict[str, TileDecl]:
    return {stmt.name: stmt for stmt in program.body if isinstance(stmt, TileDecl)}


def call_in(program: Program) -> Instr:
    (instr,) = (stmt for stmt in program.body if isinstance(stmt, Instr))
    return instr


# --- Changes of a program ------------------------------------------------------------------------------------------


def with_types(program: Program, change: dict[DType, DType]) -> Program:
    """The program with other element types."""
    instr = call_in(program)

    def number(operand: object) -> object:
        if isinstance(operand, Constant):
            return replace(operand, dtype=change.get(operand.dtype, operand.dtype), bits=1)
        known = isinstance(operand, Number | Given) and operand.dtype in change
        return replace(operand, dtype=change[operand.dtype]) if known else operand  # type: ignore[type-var]

    body = tuple(
        replace(s, spec=s.spec.changed(dtype=change.get(s.spec.dtype, s.spec.dtype))) if isinstance(s, TileDecl) else s
        for s in program.body
        if not isinstance(s, Instr)
    )
    arguments = tuple(
        replace(a, dtype=change.get(a.dtype, a.dtype)) if isinstance(a, Argument) else a for a in program.arguments
    )
    return replace(
        program, arguments=arguments, body=(*body, replace(instr, operands=tuple(map(number, instr.operands))))
    )


def some(items: Iterable[Any], program: Program) -> list[Any]:
    """All, or one in some."""
    return [*items][crc32(call_in(program).name.encode()) % ONE_IN :: ONE_IN]


def typed(program: Program, target: str) -> Iterator[Program]:
    """Every type for each group of operands of one type, and the pairs of types for two such groups that no rule
    refuses, each with every value of every modifier."""
    instr = call_in(program)
    named = [d.spec.dtype for d in tiles_of(program).values()]
    views = [use.argument for use in instr.operands if isinstance(use, View)]
    groups = list(dict.fromkeys([*named, *(program.tensors[name].dtype for name in views)]))
    values = [*product(*((None, *modifier.enum) for modifier in instr.definition.modifiers))]
    single = [{group: kind} for group in groups for kind in TYPES]
    pairs = [dict(zip(groups, pair, strict=True)) for pair in product(TYPES, TYPES) if len(groups) == 2]
    legal = [pair for pair in some(pairs, program) if is_legal(with_types(program, pair), target)]
    for change, modifiers in (*some(product(single, values), program), *some(product(legal, values), program)):
        made = with_types(program, change)
        yield replace(made, body=(*made.body[:-1], replace(call_in(made), modifiers=modifiers)))


def is_legal(program: Program, target: str) -> bool:
    return all(finding.level != "error" for finding in verify(program, profile(target), Options()))


def with_tile(program: Program, name: str, spec: TileSpec) -> Program:
    """The program with another type of one tile; a use is all that is valid of it."""
    instr = call_in(program)
    operands = tuple(
        replace(use, valid=spec.valid) if isinstance(use, TileUse) and use.tile == name else use
        for use in instr.operands
    )
    body = tuple(replace(s, spec=spec) if isinstance(s, TileDecl) and s.name == name else s for s in program.body[:-1])
    return replace(program, body=(*body, replace(instr, operands=operands)))


def shaped(program: Program) -> Iterator[Program]:
    """Every memory, every layout and other extents for each tile; every layout of each tensor; slices."""
    instr = call_in(program)
    for name, decl in tiles_of(program).items():
        spec = decl.spec
        yield from (with_tile(program, name, spec.changed(loc=loc)) for loc in TileType)
        for blayout, slayout in product(BLayout, SLayout):
            yield with_tile(program, name, spec.changed(blayout=blayout, slayout=slayout))
        rows, cols, valid = spec.rows, spec.cols, {"valid_rows": spec.valid_rows, "valid_cols": spec.valid_cols}
        for size in ((2 * rows, cols), (rows, 2 * cols)):
            yield with_tile(program, name, spec.changed(rows=size[0], cols=size[1], **valid))
        for part in ((max(1, rows // 2), cols), (rows, max(1, cols // 2))):
            yield with_tile(program, name, spec.changed(valid_rows=part[0], valid_cols=part[1]))
        yield with_tile(
            program, name, spec.changed(rows=cols, cols=rows, valid_rows=spec.valid_cols, valid_cols=spec.valid_rows)
        )
        yield from sliced(program, name, spec)
    for operand in instr.operands:
        if isinstance(operand, View):
            for layout in GlobalLayout:
                arguments = (
                    replace(a, layout=layout) if a.name == operand.argument and isinstance(a, Argument) else a
                    for a in program.arguments
                )
                yield replace(program, arguments=tuple(arguments))


def sliced(program: Program, name: str, spec: TileSpec) -> Iterator[Program]:
    """One operand as rows, or as columns, of a larger tile."""
    instr = call_in(program)
    if spec.slayout is not SLayout.NoneBox:
        return
    for rows, cols in ((2, 1), (1, 2)):
        larger = spec.changed(rows=rows * spec.rows, cols=cols * spec.cols)
        start = ((rows - 1) * spec.rows, (cols - 1) * spec.cols)
        made = with_tile(program, name, larger)
        operands = tuple(
            TileUse(name, spec.valid, Window(start, (spec.rows, spec.cols)))
            if isinstance(use, TileUse) and use.tile == name
            else use
            for use in instr.operands
        )
        yield replace(made, body=(*made.body[:-1], replace(instr, operands=operands)))


# --- Verdicts ------------------------------------------------------------------------------------------------------

BY_OFFSET = "the headers take flat offsets, and C++ converts row numbers for whole tiles that lie apart only"
WHOLE = "C++ moves whole fractals and outer dims, where a larger block means its first rows and columns (TL-03)"
SIMULATOR = "the simulator's header computes something else: "
ONE_REGISTER = "the headers take 64 columns of 8-byte types"
NOTED = {
    ("a2a3", "tcmp tcmps", "mode"): "the headers compare int32 for equality, whatever is asked",
    ("a2a3 a5", "taddc tsubc taddsc tsubsc", "dst"): "the headers of devices have none of them",
    ("a2a3", "tdivs", "src"): "the headers divide integers through float",
    ("a2a3", "tcmps", "src"): "the headers compare 16-bit integers as float16",
    ("a2a3", "tcolargmax tcolargmin", "src"): "the headers compare unsigned integers as floats",
    ("a2a3", "tcvt", "round"): "the headers round to narrower floats by the mode",
    ("a2a3", "tload", "dst"): "the headers load whole blocks of 32 bytes into L1",
    ("a5", "tcmp", "src0"): ONE_REGISTER,
    ("a5", "tcmps trowsum trowmax trowmin tcolsum tcolmax tcolmin", "src"): ONE_REGISTER,
    ("a5", "tadds tsubs tmuls tmaxs tmins tshls tshrs trems tdivs tsel tsels", "dst"): ONE_REGISTER,
    ("a5", "tdiv trem tneg tpartadd tpartmax tpartmin", "dst"): ONE_REGISTER,
    ("a5", "texpands ttri tgather trowexpand tcolexpand", "dst"): ONE_REGISTER,
    ("a2a3", "tcmp tcmps", "dst"): "the headers invert too few bytes of wide masks",
    ("a5", "tgather_mask", "dst"): "the headers place rows of 8-byte types by the columns of the destination",
    ("a5", "tgather", "idx"): "the headers take indices of another width for pairs or halves",
    ("a5", "tpairreducesum", "dst"): "the headers put the sums of whole rows side by side",
    ("a5", "tcmp", "src1"): "the headers mix the strides of 4-byte types",
    ("cpu a2a3 a5", "tscatter", "dst"): BY_OFFSET,
    ("cpu a2a3 a5", "tscatter", "idx"): BY_OFFSET,
    ("cpu a2a3 a5", "tload", "src"): WHOLE,
    ("cpu a2a3 a5", "tstore tstore_fp", "dst"): WHOLE,
    ("cpu", "mscatter", "coalesce"): SIMULATOR + "max and min of a row read another cell",
    ("cpu", "tcmps", "dst"): SIMULATOR + "it packs whole rows",
    ("cpu", "tsel", "mask"): SIMULATOR + "it reads the bits of all rows as one run",
    ("cpu", "tcvt", "dst"): SIMULATOR + "it copies floats of one type",
    ("cpu", "tcvt", "round"): SIMULATOR + "it rounds to odd at ties only",
    ("cpu", "tcolsum", "src"): SIMULATOR + "it rounds at every row",
    ("cpu", "tload", "dst"): SIMULATOR + "it clears what lies beside a slice",
    ("cpu", "tcolexpandadd tcolexpandsub tcolexpandmul tcolexpanddiv tcolexpandmax tcolexpandmin", "src1"):
        SIMULATOR + "it spreads src1, whatever its shape",
}  # fmt: skip
"""What a check accepts with a note and C++ refuses, and why: ptokit follows the instruction's meaning (CP-HDR-01)."""
ANY_WIDTH = ("cpu",)
"""Targets where tiles may have any width, although C++ tile types assert whole blocks of 32 bytes (A-23)."""

Reasons = set[tuple[str, str]]
"""Clauses, and the operands that break them."""


def verdicts(program: Program, target: str) -> tuple[Reasons, Reasons, Reasons]:
    """Why a check does not accept a program; its notes; why there is no C++."""
    known = verify(program, profile(target), Options())
    refused = {(f.rule, f.operand) for f in known if f.level in ("error", "hazard")}
    noted = {(f.rule, f.operand) for f in known if f.level == "note"}
    try:
        emit(program, profile(target))
    except pto.VerifyError as refusal:
        widths = {f for f in refusal.findings if "for the C++ tile type" in f.message and target in ANY_WIDTH}
        return refused, noted, {(f.rule, f.operand) for f in refusal.findings if f not in widths} or noted
    return refused, noted, set()


def judge(program: Program, target: str) -> str:
    """`accepted`, `refused` or `noted`: what a check and C++ agree on. Raises AssertionError if they do not."""
    refused, noted, in_cpp = verdicts(program, target)
    if refused:
        assert refused & in_cpp, f"a check refuses by {refused}, C++ by {in_cpp}"
        return "refused"
    assert in_cpp <= noted, f"a check accepts, C++ refuses by {in_cpp}"
    return "noted" if in_cpp else "accepted"


@pytest.mark.parametrize("target", TARGETS)
def test_a_check_and_cpp_agree_on_every_call(target: str) -> None:
    found = Counter[tuple[str, str]]()
    for base in bases(target):
        name = call_in(base).name
        found[name, judge(base, target)] += 1
        for made in (*typed(base, target), *some(shaped(base), base)):
            try:
                found[name, judge(made, target)] += 1
            except BaseException as problem:
                problem.add_note(f"{call_in(made)} with {[*tiles_of(made).values()]}")
                raise
    assert {name for name, verdict in found if verdict == "accepted"} == {name for name, _ in found}
    assert sum(found.values()) > (1000 if EVERYTHING else 100)


def test_the_programs_have_every_instruction() -> None:
    used = {call_in(base).name for target in TARGETS for base in bases(target)}
    assert used == set(INSTRUCTIONS) - {"tassign"}


def test_every_exception_is_listed() -> None:
    """The rules of headers that are notes, and only these."""
    listed = {(t, name, operand) for t, names, operand in NOTED for t in t.split() for name in names.split()}
    known = {
        (target, name, rule.operand)
        for name, instruction in INSTRUCTIONS.items()
        for rule in (*instruction.cpp.headers, *instruction.cpp.slices)
        for target in TARGETS
        if rule.level_on(target) == "note"
    }
    assert known == listed


@pytest.mark.parametrize("atomic", ["max", "min"])
def test_max_and_min_on_a2a3_are_a_hazard_and_an_error_in_cpp(atomic: str) -> None:
    """pto/npu/a2a3/MScatter.hpp asserts it; the documents have them for A5."""
    body = (
        "t = pto.Tile('vec', 'float32', 8, 64)\ni = pto.Tile('vec', 'int32', 8, 64)\n"
        f"pto.tload(t, x)\npto.tload(i, idx)\npto.mscatter(x, t, i, atomic='{atomic}')"
    )
    given = {"x": np.zeros((8, 64), "float32"), "idx": np.zeros((8, 64), "int32")}
    for target, level in (("a2a3", "hazard"), ("a5", None), ("cpu", None)):
        program = traced(body, target, **given)
        for header, expected in ((False, level), (True, level and "error")):
            known = verify(program, profile(target), Options(header=header))
            levels = {finding.level for finding in known if finding.rule.startswith("MS-ATOM")}
            assert levels == ({expected} if expected else set())
        if level:
            with pytest.raises(pto.VerifyError, match=r"documented for A5 only .A-18., and the shipping header"):
                emit(program, profile(target))
        else:
            assert f"ScatterAtomicOp::{atomic.title()}" in emit(program, profile(target))
