"""TMOV: a tile into another tile, often between memories of the cube and the vector core."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ptokit.isa.casts import *
from ptokit.isa.headers import CLAUSE, IN_UB, between
from ptokit.isa.vocabulary import *

VEC, MAT, LEFT, RIGHT, ACC, BIAS, SCALING, SCALE_LEFT, SCALE_RIGHT = (
    TileType.Vec, TileType.Mat, TileType.Left, TileType.Right, TileType.Acc, TileType.Bias, TileType.Scaling,
    TileType.ScaleLeft, TileType.ScaleRight,
)  # fmt: skip

A2A3_PATHS = {
    (VEC, VEC): "V", (MAT, LEFT): "MTE1", (MAT, RIGHT): "MTE1", (MAT, BIAS): "MTE1", (MAT, SCALING): "FIX",
    (ACC, MAT): "FIX",
}  # fmt: skip
A5_PATHS = {
    **A2A3_PATHS, (ACC, VEC): "FIX", (VEC, MAT): "MTE3", (MAT, VEC): "MTE1", (MAT, SCALE_LEFT): "MTE1",
    (MAT, SCALE_RIGHT): "MTE1",
}  # fmt: skip
PATHS = Table({"cpu": A5_PATHS, "host": {(VEC, VEC): "V"}, "a2a3": A2A3_PATHS, "a5": A5_PATHS})
"""Source and destination memory, and the pipe between them (TV-01). cpu allows every pair of the other targets."""

WIDENED: Casts = frozenset({("float16", "float32")})
A2A3_CASTS = {(ACC, MAT): NARROWED, (MAT, BIAS): WIDENED}
A5_CASTS = {**A2A3_CASTS, (ACC, VEC): NARROWED, (MAT, BIAS): WIDENED | {("bfloat16", "float32")}}
CASTS = Table({"cpu": A5_CASTS, "a2a3": A2A3_CASTS, "a5": A5_CASTS})
"""By path: the types that change on the way."""

CUBE_INPUTS = {(MAT, LEFT), (MAT, RIGHT), (MAT, BIAS), (MAT, SCALING), (MAT, SCALE_LEFT), (MAT, SCALE_RIGHT)}
"""Paths that copy storage: the source may have more valid elements than the destination. On devices it may have fewer,
as for textract: what is read must have been written."""
CUBE_RESULTS = {(ACC, MAT), (ACC, VEC)}
"""Paths of devices that move the source's valid region, whatever is valid in the destination: it needs no more than
storage for it (a2a3/TMov.hpp:158, a5/TMov.hpp:762, 907)."""


ACC_TO_VEC = Modifier(
    "acc_to_vec", AccToVec, always(AccToVec.Vec0),
    "the vector core whose UB an accumulator goes into, or both: split_m by halves of its rows, split_n of its columns",
    text=Attribute(
        "accToVecMode", "acc_to_vec_mode",
        tuple(zip(AccToVec, ("single_mode_vec0", "single_mode_vec1", "dual_mode_split_m", "dual_mode_split_n"),
                  strict=True)),
        example=AccToVec.SplitM,
    ),
)  # fmt: skip
CHOSEN = Case("a vector core is chosen", lambda c: c.acc_to_vec is not AccToVec.Vec0)
WHOLE_COLUMNS = {AccToVec.SplitM: 16, AccToVec.SplitN: 32}
"""Columns of an accumulator that move together into boxes of both vector cores (a5/TMov.hpp:216, 218)."""


WHOLE_BOXES = Table({"a5": True})
"""Targets that move an accumulator into boxes as whole boxes, as far as the destination is valid."""


def divided(call: Call) -> tuple[int, int]:
    """The rows and columns of an accumulator that are moved, those of all vector cores."""
    if not call.lookup(WHOLE_BOXES) or call.dst.format != "nz":
        return call.src.valid
    unit = WHOLE_COLUMNS.get(call.acc_to_vec, call.dst.box[1])
    return call.src.rows, min(-(-call.src.valid_cols // unit) * unit, call.src.cols)


def share(call: Call, rows: int, cols: int) -> tuple[int, int]:
    """What each destination gets of some rows and columns."""
    down, across = call.acc_to_vec.parts
    return rows // down, cols // across


def moves_source(call: Call) -> bool:
    """Whether the source says how much is moved."""
    return call.has_pipes and (call.src.loc, call.dst.loc) in CUBE_RESULTS


def moves_common(call: Call) -> bool:
    """Whether what both tiles have is moved: devices do so inside UB."""
    return call.has_pipes and (call.src.loc, call.dst.loc) == (VEC, VEC)


def holds_region(call: Call) -> bool:
    """The source has the destination's valid region; a source in L1 need only have room for it, an accumulator
    has room in the destination's storage. In UB of a device, both may have more than the other."""
    if moves_common(call):
        return True
    rows, cols = share(call, *call.src.valid)
    if moves_source(call):
        return rows <= call.dst.rows and cols <= call.dst.cols
    if (call.src.loc, call.dst.loc) not in CUBE_INPUTS:
        return (rows, cols) == call.dst.valid
    rows, cols = (call.src.rows, call.src.cols) if call.has_pipes else call.src.valid
    return call.dst.valid_rows <= rows and call.dst.valid_cols <= cols


REACHED = Rule(
    "TV-01", "dst", lambda c: "reached by one of " + ", ".join(f"{a.text} to {b.text}" for a, b in c.lookup(PATHS)),
    lambda c: (c.src.loc, c.dst.loc) in c.lookup(PATHS), on=error(*NPU, "host"), blocks="execution",
    found=lambda c: f"{c.src.loc.text} to {c.dst.loc.text}", fix="move it through another memory, or through GM",
)  # fmt: skip
"""A path that the target has. The header of cpu asserts none."""

RULES = (
    routing("TV-01", "src", "a tile", lambda c: is_tile(c.src), fix=BRING),
    routing("TV-01", "dst", "a tile", lambda c: is_tile(c.dst), fix=TAKE),
    REACHED,
    replace(REACHED, on=error("cpu"), blocks="nothing", asserted=()),
    data_type("dst", WIDE_TYPES),
    cast_type("TV-01", "src", "dst", by_path(CASTS)),
    *fix_rules(SCALED_TO_TILES),
    anywhere("TV-01", "dst", "of int64 or uint64: the fixpipe buffer holds 64-bit factors",
             lambda c: c.dst.dtype.name in ("int64", "uint64"),
             when=Case("into Scaling", lambda c: c.dst.loc is SCALING), found=type_of("dst"),
             fix="pack the factors into 64 bits"),
    sized("TV-01", "src", lambda c: f"valid {show_extents(c.dst.valid)}, as the destination", holds_region,
          found=valid_of("src"), fix="give both tiles the same valid region"),
    extents_positive("A-55", "dst", *EVERYWHERE),
    needed("TV-02", "acc_to_vec", "left out, unless an accumulator goes into UB",
           lambda c: (c.src.loc, c.dst.loc) == (ACC, VEC), when=CHOSEN, found=lambda c: c.acc_to_vec.text,
           fix=Fix("leave ", Option("acc_to_vec", AccToVec), " out")),
    sized("TV-02", "src", "of an even number of valid rows, or of columns, as they are divided",
          lambda c: all(n % parts == 0 for n, parts in zip(divided(c), c.acc_to_vec.parts, strict=True)),
          when=CHOSEN, found=valid_of("src"), fix="give both vector cores as many"),
)  # fmt: skip


def moved_region(call: Call) -> tuple[int, int]:
    """The rows and columns that are moved: the valid ones, in UB of a device those of both tiles."""
    if moves_common(call):
        return min(call.src.valid_rows, call.dst.valid_rows), min(call.src.valid_cols, call.dst.valid_cols)
    if not moves_source(call):
        return call.dst.valid
    (rows, cols), held = share(call, *divided(call)), share(call, *call.src.valid)
    return min(rows, max(call.dst.valid_rows, held[0])), min(cols, max(call.dst.valid_cols, held[1]))


def lower(call: Call) -> tuple[Move | Compute, ...]:
    """Copy the valid region, between any two layouts; of a divided source the part for the call's vector core."""
    (rows, cols), (down, across) = moved_region(call), call.acc_to_vec.parts
    row, col = (call.vector * rows * (down - 1), call.vector * cols * (across - 1))
    return (copied(call, (rows, cols), call.dst.layout, call.src.layout.cut(row, col), col),)


def whole_blocks(call: Call) -> ByteRows:
    """A2/A3 copies rows in UB as blocks of 32 bytes (TMov.hpp:97)."""
    rows, cols = moved_region(call)
    size = call.dst.dtype.size
    return ByteRows(rows, -(-cols * size // 32) * 32, call.dst.stride * size)


def beside(call: Call) -> tuple[Effect, ...]:
    """What is written beside the elements of row-major tiles."""
    return (Effect("dst", "write", "V", whole_blocks),) if call.dst.format == "nd" else ()


BESIDE = {("a2a3", TileType.Vec, TileType.Vec): beside}
"""What is written beside the destination's elements, by target and path."""
TO_CUBE = between((MAT, LEFT), (MAT, RIGHT))


def same_storage(target: str, when: Case) -> Rule:
    """Both tiles have the same rows and columns."""
    return Rule(
        CLAUSE, "dst", lambda c: f"{c.src.rows} x {c.src.cols}, as src, for the C++ headers",
        lambda c: (c.dst.rows, c.dst.cols) == (c.src.rows, c.src.cols), on=hazard(target), when=when,
        found=lambda c: f"{c.dst.rows} x {c.dst.cols}", fix="give both tiles the same rows and columns",
    )  # fmt: skip


def mode_template(*names: str) -> Callable[[Call], tuple[tuple[str, None], ...]]:
    """Template arguments of a call that chooses a vector core or rectifies."""
    rectified = relu_template(*names)

    def template(call: Call) -> tuple[tuple[str, None], ...]:
        if not CHOSEN(call):
            return rectified(call)
        mode = {"vec0": "SingleModeVec0", "vec1": "SingleModeVec1", "split_m": "DualModeSplitM"}
        words = f"AccToVecMode::{mode.get(call.acc_to_vec.text, 'DualModeSplitN')}", *RECTIFYING[: RECTIFIED(call)]
        return tuple((word, None) for word in (*(f"decltype({{{name}}})" for name in names), *words))

    return template


RECTIFYING = ("ReluPreMode::NormalRelu",)
ADDED = attributes((RELU, ACC_TO_VEC))

TMOV = Instruction(
    name="tmov",
    summary="Move a tile into another tile, changing its layout where the two differ.",
    meaning=(
        "dst[i, j] = src[i, j]    over the destination's valid region",
        "float32 of an accumulator may become float16 or bfloat16, a bias float32",
        SCALED_MEANING,
    ),
    operands=(Param("dst", "write", "destination tile", has_scales=True), Param("src", "read", "source tile"), SCALE),
    modifiers=(RELU, ACC_TO_VEC),
    rules=RULES,
    lower=lower,
    route=lambda call: f"tmov.{call.src.loc.text}.{call.dst.loc.text}",
    destination=Destination(
        in_place=Table(dict.fromkeys(EVERYWHERE, lambda call: is_tile(call.src, VEC) and is_tile(call.dst, VEC)))
    ),
    kernels={
        family: {
            f"tmov.{a.text}.{b.text}": RouteKernel(
                (Effect("src", "read", pipe), Effect("dst", "write", pipe)), besides=BESIDE.get((family, a, b))
            )
            for (a, b), pipe in PATHS[family].items()
        }
        for family in NPU
    },
    cpp=Cpp(
        "TMOV(dst, src, scale)",
        mode_template("dst", "src"),
        unmodelled=SHORT_ACCUMULATORS,
        headers=(
            same_storage("a2a3", IN_UB),
            same_storage("a2a3", TO_CUBE),
            same_storage("a5", TO_CUBE),
            Rule(
                CLAUSE,
                "src",
                lambda c: f"valid {show_extents(c.dst.valid)}, as dst, for the C++ headers",
                lambda c: c.src.valid == c.dst.valid,
                on=hazard("cpu"),
                fix="give both tiles one valid region",
            ),
        ),
    ),
    pages=Pages(documents=("TV",)),
    text=OpText(typed_each=True, reordered=True, stored=("ins", "outs", "fp", "quant")),
    spellings={
        "C++": ("TMOV(dst, src)",),
        "Level 1": (
            f"%dst = pto.tmov %src{ADDED} : !pto.tile<...> -> !pto.tile<...>",
            f"%dst = pto.tmov %src, %scale{ADDED} : (!pto.tile<...>, i64) -> !pto.tile<...>",
        ),
        "Level 2": (
            f"pto.tmov ins(%src : !pto.tile_buf<...>) outs(%dst : !pto.tile_buf<...>){ADDED}",
            f"pto.tmov ins(%src : !pto.tile_buf<...>, %scale : i64) outs(%dst : !pto.tile_buf<...>){ADDED}",
        ),
    },
)


def takes(call: Call) -> bool:
    """Whether the destination is a tile that an accumulator reaches, and that has room for its valid region."""
    return is_tile(call.dst) and (ACC, call.dst.loc) in call.lookup(PATHS) and holds_region(call)


TMOV_FP = with_factors(
    TMOV,
    Cpp(
        lambda c: "TMOV(dst, src, fp)" if CHOSEN(c) else "TMOV_FP(dst, src, fp)",
        mode_template("dst", "src", "fp"),
    ),
    SCALED_TO_TILES,
    takes,
    op="tmov.fp",
)
