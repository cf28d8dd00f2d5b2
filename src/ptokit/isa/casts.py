"""Conversions on the way between memories: what leaves an accumulator, and what enters the bias table.

FIX multiplies by a factor for all elements (`scale`) or for each column (`fp`), and rectifies (`relu`). A factor is a
word of 64 bits (CP-FIX-03).
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ptokit.isa.vocabulary import *

Casts = frozenset[tuple[str, str]]
"""Pairs of element types, by name: source and destination."""


def casts_of(**kinds: str) -> Casts:
    """The pairs of each source type and its destination types."""
    return frozenset((src, dst) for src, given in kinds.items() for dst in given.split())


NARROWED: Casts = casts_of(float32="float16 bfloat16")
"""What FIX makes of float32 (TV-01, TT-01): to the nearest, ties to even; a number beyond the range is infinite."""
ROUNDED = (("mode", RoundMode.Rint), ("saturation", Saturation.Off))

A5_SCALED = casts_of(float32="int8 uint8 float16 bfloat16 float8_e4m3", int32="int8 uint8 float16 bfloat16")
CPU_SCALED = casts_of(float32="int8 uint8 float16 bfloat16", int32="int8 uint8 float16")
STORED = casts_of(float32="int8 uint8", int32="int8 uint8 float16")
SCALED_TO_MEMORY = Table({"cpu": CPU_SCALED, "a2a3": STORED, "a5": A5_SCALED})
SCALED_TO_TILES = Table({"cpu": CPU_SCALED, "a2a3": STORED - casts_of(float32="uint8"), "a5": A5_SCALED})
"""The types that a factor leads to (CP-FIX-02)."""
WHOLE_SCALAR = Table({"cpu": True})
"""Targets that use all 32 bits of a factor for all elements; the others use the high 19, as of one for a column."""
WORD = dtype("uint64")


def cast_type(rule: str, operand: str, other: str, allowed: Callable[[Call], Casts]) -> Rule:
    """Two operands have one element type, or the path between them converts it; `operand` is named in findings."""
    return needed(
        rule, operand, lambda c: f"of {other}'s element type, {c.values[other].dtype}{_listed(allowed(c))}",
        lambda c: c.src.dtype is c.dst.dtype or is_allowed(c, allowed), when=~SCALED, found=type_of(operand),
        fix=Fix("give both one type, or convert with ", OpName("tcvt")),
    )  # fmt: skip


def _listed(casts: Casts) -> str:
    return "".join(f", or {dst} of {src}" for src, dst in sorted(casts))


SHORT_ACCUMULATORS = Table({"a2a3": frozenset({"int16", "int32"})})
"""Accumulators as 16-bit integers, which the headers convert and ptokit does not model."""


def is_allowed(call: Call, allowed: Callable[[Call], Casts]) -> bool:
    """Whether the path of a call converts its source's type to its destination's."""
    return (call.src.dtype.name, call.dst.dtype.name) in allowed(call)


def by_path(table: Table[Mapping[tuple[TileType, TileType], Casts]]) -> Callable[[Call], Casts]:
    """The conversions of a path between two memories."""
    return lambda call: call.lookup(table, {}).get((call.src.loc, call.dst.loc), frozenset())


def copied(call: Call, shape: tuple[int, int], dst: Layout, src: Layout, first: int = 0) -> Move | Compute:
    """Every element of a region, converted if the types differ; `first` is the column whose factor comes first."""
    target, source = Access("dst", dst), Input("src", src, shape)
    if not SCALED(call) and not RECTIFIED(call):
        if call.src.dtype is call.dst.dtype:
            return Move(shape, target, Access("src", src))
        return Compute("cvt", shape, target, (source,), ROUNDED)
    options = (("relu", call.relu), ("whole", call.values.get("scale") is not None and bool(call.lookup(WHOLE_SCALAR))))
    return Compute("fixpipe", shape, target, (source, *_factors(call, shape[1], first)), options)


def _factors(call: Call, columns: int, first: int) -> Iterable[Input]:
    if call.values.get("scale") is not None:
        yield Input("scale", Layout.plain(0, 0), (1, 1))
    elif SCALED(call):
        yield Input("fp", call.fp.layout.cut(0, first), (1, columns))


CONVERTS = Case("a conversion", lambda c: c.src.dtype is not c.dst.dtype)
SCALED = Case("a factor", lambda c: c.values.get("scale") is not None or c.values.get("fp") is not None)
RECTIFIED = Case("relu", lambda c: c.values.get("relu") is ReluMode.Relu)
FROM_ACC = Case("a factor or relu", lambda c: SCALED(c) or RECTIFIED(c))

SCALE = Param("scale", "read", "a number of 64 bits: the factor of all elements, as in fp", optional=True,
              kind="number", dtype=WORD)  # fmt: skip
FP = Param("fp", "read", "a Scaling tile of one row: for each column a float32 factor, at bit 37 an offset, at bit 46 "
                         "whether the result is signed")  # fmt: skip
RELU = Modifier(
    "relu", ReluMode, always(ReluMode.NONE), "whether numbers below zero become zero, on the way out of an accumulator",
    text=Attribute("reluPreMode", "relu_pre_mode", ((ReluMode.NONE, "no_relu"), (ReluMode.Relu, "normal_relu"))),
)  # fmt: skip
SCALED_MEANING = "from Acc with scale or fp: quantised by a factor; with relu: zero where it is below zero"


def fix_rules(table: Table[Casts]) -> tuple[Rule, ...]:
    """Rules of factors and rectifiers; the operands are known to be where the instruction wants them."""
    return (
        needed("CP-FIX-01", "src", "an Acc tile, for a factor or relu", lambda c: c.src.loc is TileType.Acc,
               when=FROM_ACC, fix=Fix("use ", OpName("tmuls"), ", ", OpName("trelu"), " and ", OpName("tcvt"))),
        needed("CP-FIX-02", "dst", lambda c: f"of a type that a factor leads to: {_pairs(c.lookup(table, ()))}",
               lambda c: is_allowed(c, lambda c: c.lookup(table, frozenset())), when=SCALED,
               found=lambda c: f"{c.dst.dtype} of {c.src.dtype}", fix="give dst one of these types"),
    )  # fmt: skip


def _pairs(casts: Casts) -> str:
    return ", ".join(f"{dst} of {src}" for src, dst in sorted(casts))


FP_PLACE = routing(
    "CP-FIX-01", "fp", "a Scaling tile", lambda c: is_tile(c.fp, TileType.Scaling),
    fix=Fix(OpName("tmov"), " brings factors from L1: ", called("tmov", "scaling", "mat")),
)  # fmt: skip
SRC_PLACE = routing(
    "CP-FIX-01", "src", "an Acc tile", lambda c: is_tile(c.src, TileType.Acc), fix="factors are for accumulators",
)  # fmt: skip
FP_TYPE = needed(
    "CP-FIX-02", "fp", "of int64 or uint64", lambda c: c.fp.dtype.name in ("int64", "uint64"), found=type_of("fp"),
    fix="pack the factors into 64 bits",
)  # fmt: skip


def one_each(columns: Callable[[Call], int]) -> Rule:
    """There is a factor for each column."""
    return sized(
        "CP-FIX-01", "fp", lambda c: f"of one valid row and at least {columns(c)} valid columns",
        lambda c: c.fp.valid_rows == 1 and c.fp.valid_cols >= columns(c), found=valid_of("fp"),
        fix="give every column a factor",
    )  # fmt: skip


def relu_template(*names: str) -> Callable[[Call], tuple[tuple[str, None], ...]]:
    """Template arguments of a call that rectifies: the types of its operands come first."""

    def template(call: Call) -> tuple[tuple[str, None], ...]:
        types = (*(f"decltype({{{name}}})" for name in names), "ReluPreMode::NormalRelu")
        return tuple((text, None) for text in types) if RECTIFIED(call) else ()

    return template


def with_factors(
    base: Instruction,
    cpp: Cpp,
    types: Table[Casts],
    holds: Callable[[Call], bool],
    columns: Callable[[Call], int] = lambda c: c.src.valid_cols,
    op: str = "",
) -> Instruction:
    """The variant `NAME_fp` of an instruction, with a factor for each column.

    `holds` says whether dst takes what src gives, `columns` how many factors there must be; `op` is its name in text.
    """
    needed = [param for param in base.operands if not param.optional]
    places = [param.name for param in needed[2:]]
    params = (*needed[:2], FP, *needed[2:])
    kernels = {
        family: {route.replace(base.name, f"{base.name}_fp"): _reading_factors(kernel)
                 for route, kernel in routes.items() if "FIX" in {effect.pipe for effect in kernel.effects}}
        for family, routes in base.kernels.items()
    }  # fmt: skip
    ins = ", ".join(f"%{name}" for name in ("src", "fp", *places))
    kinds = ", ".join(("...", "...", *("index" for _ in places)))
    name, chosen = f"{base.name}_fp", attributes(base.modifiers)
    stores = base.operands[0].kind == "memory"

    def route(call: Call) -> str:
        return base.route(call).replace(base.name, name)

    return replace(
        base,
        name=name,
        summary=f"{base.summary[:-1]}, with a factor for each column.",
        meaning=(base.meaning[0].replace("= src", "= quantised src"), "the factor of column j is in fp[0, j]"),
        operands=params,
        rules=(FP_PLACE, SRC_PLACE, _taking(base, holds), *fix_rules(types)[1:], one_each(columns), FP_TYPE),
        route=route,
        kernels=kernels,
        cpp=cpp,
        text=replace(base.text, name=op, typed_each=False, reordered=True, stored=()),
        spellings={
            "C++": (f"{name.upper()}({', '.join(param.name for param in params)})",),
            "Level 1": (
                f"pto.{op or name} {ins}, %dst{chosen} : ({kinds}, ...) -> ()" if stores
                else f"%dst = pto.{op or name} {ins}{chosen} : ({kinds}) -> !pto.tile<...>",
            ),
            "Level 2": (f"pto.{op or name} ins({ins} : {kinds}) outs(%dst : ...){chosen}",),
        },
    )  # fmt: skip


def _taking(base: Instruction, holds: Callable[[Call], bool]) -> Rule:
    return needed(
        "CP-FIX-01", "dst", f"a destination that {base.name} takes from an accumulator, and large enough", holds,
        fix=f"use a destination as of {base.name}",
    )  # fmt: skip


def _reading_factors(kernel: RouteKernel) -> RouteKernel:
    return replace(kernel, effects=(*kernel.effects, Effect("fp", "read", "FIX")))
