"""TMOV: a tile into another tile, often between memories of the cube and the vector core."""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.common import data_type, extents_positive, same_type
from ptokit.isa.headers import CLAUSE, IN_UB, between
from ptokit.isa.instruction import EVERYWHERE, NPU, ByExtent, Call, Case, Cpp, Instruction, Param, Rule, error, is_tile
from ptokit.isa.kernel import Effect, RouteKernel
from ptokit.isa.move import Access, Move
from ptokit.isa.operand import show_extents
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import Form
from ptokit.isa.table import Table

VEC, MAT, LEFT, RIGHT, ACC, BIAS = (
    TileType.Vec, TileType.Mat, TileType.Left, TileType.Right, TileType.Acc, TileType.Bias,
)  # fmt: skip

A2A3_PATHS = {(VEC, VEC): "V", (MAT, LEFT): "MTE1", (MAT, RIGHT): "MTE1", (MAT, BIAS): "MTE1", (ACC, MAT): "FIX"}
A5_PATHS = {**A2A3_PATHS, (ACC, VEC): "FIX", (VEC, MAT): "MTE3", (MAT, VEC): "MTE1"}
PATHS = Table({"cpu": A5_PATHS, "host": {(VEC, VEC): "V"}, "a2a3": A2A3_PATHS, "a5": A5_PATHS})
"""Source and destination memory, and the pipe between them (TV-01). cpu allows every pair of the other targets."""


REACHED = Rule(
    "TV-01", "dst", lambda c: "reached by one of " + ", ".join(f"{a.text} to {b.text}" for a, b in c.here(PATHS)),
    lambda c: (c.src.loc, c.dst.loc) in c.here(PATHS), on=error(*NPU, "host"), blocks="execution",
    found=lambda c: f"{c.src.loc.text} to {c.dst.loc.text}", fix="move it through another memory, or through GM",
)  # fmt: skip
"""A path that the target has. The header of cpu asserts none."""

RULES = (
    Rule("TV-01", "src", "a tile", lambda c: is_tile(c.src), on=error(*EVERYWHERE), blocks="route",
         fix="tload brings memory into a tile"),
    Rule("TV-01", "dst", "a tile", lambda c: is_tile(c.dst), on=error(*EVERYWHERE), blocks="route",
         fix="tstore takes a tile to memory"),
    REACHED,
    replace(REACHED, on=error("cpu"), blocks="nothing", asserted=()),
    data_type("dst"),
    same_type("TV-01", "src", "dst", fix="give both tiles one type", blocks="execution"),
    Rule("TV-01", "src", lambda c: f"valid {show_extents(c.dst.valid)}, as the destination",
         lambda c: c.src.valid == c.dst.valid, on=error(*EVERYWHERE), blocks="execution",
         found=lambda c: f"valid {show_extents(c.src.valid)}", kind=ByExtent(),
         fix="give both tiles the same valid region"),
    extents_positive("A-55", "dst", *EVERYWHERE),
)  # fmt: skip


def lower(call: Call) -> tuple[Move, ...]:
    """Copy the valid region, between any two layouts."""
    return (Move(call.dst.valid, Access("dst", call.dst.layout), Access("src", call.src.layout)),)


TO_CUBE = between((MAT, LEFT), (MAT, RIGHT))


def same_storage(target: str, when: Case) -> Rule:
    """Both tiles have the same rows and columns."""
    return Rule(
        CLAUSE, "dst", lambda c: f"{c.src.rows} x {c.src.cols}, as src, for the C++ headers",
        lambda c: (c.dst.rows, c.dst.cols) == (c.src.rows, c.src.cols), on=error(target), when=when,
        found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="give both tiles the same rows and columns",
    )  # fmt: skip


TMOV = Instruction(
    name="tmov",
    summary="Move a tile into another tile, changing its layout where the two differ.",
    meaning=("dst[i, j] = src[i, j]    over the destination's valid region",),
    operands=(Param("dst", "write", "destination tile"), Param("src", "read", "source tile")),
    modifiers=(),
    rules=RULES,
    lower=lower,
    route=lambda call: f"tmov.{call.src.loc.text}.{call.dst.loc.text}",
    kernels={
        family: {
            f"tmov.{a.text}.{b.text}": RouteKernel((Effect("src", "read", pipe), Effect("dst", "write", pipe)))
            for (a, b), pipe in PATHS[family].items()
        }
        for family in NPU
    },
    cpp=Cpp(headers=(same_storage("a2a3", IN_UB), same_storage("a2a3", TO_CUBE), same_storage("a5", TO_CUBE))),
    documents=("TV",),
    form=Form(typed_each=True, reordered=True, stored=("ins", "fp", "quant", "outs")),
    spellings={
        "C++": ("TMOV(dst, src)",),
        "Level 1": ("%dst = pto.tmov %src : !pto.tile<...> -> !pto.tile<...>",),
        "Level 2": ("pto.tmov ins(%src : !pto.tile_buf<...>) outs(%dst : !pto.tile_buf<...>)",),
    },
)
