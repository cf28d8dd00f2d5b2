"""Arithmetic in one step: products that are added, sums that are rectified and converted, pairs, places of extremes."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ptokit.isa.elementwise import DST, FLOAT_TYPES, NOT_A2A3, SCALAR
from ptokit.isa.headers import CLAUSE
from ptokit.isa.parts import AXPY_TYPES, within
from ptokit.isa.reduce import SOURCES
from ptokit.isa.vocabulary import *

# --- Products and differences --------------------------------------------------------------------------------

ADDED = replace(DST, access="update")
FACTORS = tuple(Param(name, "read", "a plain Vec tile of its type and valid region") for name in SOURCES)


def multiplied(row: OpRow, *operands: str, dst: Param = ADDED) -> Instruction:
    """Three tiles of one type and valid region; the first may be written only."""
    return build(row, (dst, *FACTORS), tiles_alike("CP-FUS", SOURCES, row.types), apply(row.op, *operands))


PRODUCTS = (
    multiplied(OpRow("tmuladddst", "Add a product of two tiles.",
        "dst = dst + src0 * src1    the product is rounded, then the sum", AXPY_TYPES, "axpy"), "dst", *SOURCES),
    multiplied(OpRow("tfusedmuladd", "Multiply by a tile and add another.",
        "dst = src0 * dst + src1    the product is rounded, then the sum", AXPY_TYPES, "axpy"), "src1", "src0", "dst"),
    multiplied(OpRow("tfusedmuladdrelu", "Multiply by a tile, add another, replace negative numbers by zero.",
        "dst = relu(src0 * dst + src1)    the product is rounded, then the sum", AXPY_TYPES, "axpyrelu"),
        "src1", "src0", "dst"),
    multiplied(OpRow("tsubrelu", "Subtract two tiles, replace negative numbers by zero.", "dst = relu(src0 - src1)",
        FLOAT_TYPES, "subrelu"), *SOURCES, dst=DST),
)  # fmt: skip

# --- Sums of three -------------------------------------------------------------------------------------------

OF_THE_SIMULATOR = Cpp(headers=(Rule(
    CLAUSE, "dst", "made in two steps: the shipping headers of devices have no such instruction", lambda _: False,
    on=note(*NPU), found=lambda c: c.instruction.name, fix="call the two instructions that it stands for",
),))  # fmt: skip


CARRIED = by_target(a2a3=B4, a5=B4)


def summed(name: str, sign: str, second: Param, last: str) -> Instruction:
    """A sum or a difference, and a tile that is added (cpu/ElementOp.h:393, 398, 557, 562)."""
    row = OpRow(name, "Add or subtract, and add a tile.",
        f"dst = src0 {sign} {second.name} + {last}    each step is rounded, and integers wrap", CARRIED,
        "addc" if sign == "+" else "subc", cpp=OF_THE_SIMULATOR)  # fmt: skip
    params = (DST, FACTORS[0], second, replace(FACTORS[0], name=last))
    tiles = tuple(param.name for param in params[1:] if param.kind == "tile")
    return build(
        row, params, tiles_alike("CP-ADC", tiles, row.types), apply(row.op, *(each.name for each in params[1:]))
    )


SUMS = (
    summed("taddc", "+", FACTORS[1], "src2"), summed("tsubc", "-", FACTORS[1], "src2"),
    summed("taddsc", "+", SCALAR, "src1"), summed("tsubsc", "-", SCALAR, "src1"),
)  # fmt: skip

# --- Columns in turn -----------------------------------------------------------------------------------------

BOTH = ("dst0", "dst1")
IN_TURN = everywhere(UP_TO_32, a2a3=types(""))


def halves(call: Call, parts: Names, wholes: Names, inverse: bool) -> Iterator[Compute]:
    """Halves of rows of two tiles, in turn with each other in a row: the left halves in the first, the right ones in
    the second."""
    shape = call.dst0.valid_rows, call.dst0.valid_cols // 2
    for (k, part), (n, name) in product(enumerate(parts), enumerate(wholes)):
        narrow, wide = call.values[part].layout, call.values[name].layout
        apart = replace(wide, cols=tuple(replace(term, stride=2 * term.stride) for term in wide.cols))
        ends = (
            Access(part, replace(narrow, start=narrow.offset(0, n * shape[1]))),
            Access(name, replace(apart, start=wide.offset(0, k))),
        )
        source, dst = reversed(ends) if inverse else ends
        yield Compute("copy", shape, dst, (Input(source.operand, source.layout, shape),))


def in_turn(name: str, summary: str, formula: str, *, inverse: bool) -> Instruction:
    """Two tiles whose columns are made of those of two others (cpu/TInterleave.hpp:27, cpu/TDeinterleave.hpp)."""
    names = (*BOTH, *SOURCES)
    params = (
        *(Param(each, "write", "a plain Vec tile") for each in BOTH),
        *(Param(each, "read", "a plain Vec tile of its type and valid region") for each in SOURCES),
    )
    rules = (
        *vec_tiles("CP-ILV-01", names, nonempty="dst0", plains=names),
        *(shaped("CP-ILV-01", each, "dst0") for each in names[1:]),
        sized("CP-ILV-01", "dst0", "of an even number of valid columns", lambda c: c.dst0.valid_cols % 2 == 0,
              found=valid_of("dst0"), fix="add a column"),
        *(alike("CP-ILV-02", each, "dst0") for each in names[1:]),
    )  # fmt: skip
    call = f"{name.upper()}(dst1, dst0, src1, src0)"
    return build(
        OpRow(name, summary, formula, in_place=()),
        params,
        (
            typed("CP-ILV-02", "dst0", IN_TURN, "use another target, or a type of at most 32 bits"),
            *(replace(rule, on=error(*NOT_A2A3)) for rule in rules),
        ),
        lambda c: tuple(halves(c, *((SOURCES, BOTH) if not inverse else (BOTH, SOURCES)), inverse)),
        cpp=call,
        text=Text(SOURCES, results=BOTH),
    )


TURNS = (
    in_turn("tinterleave", "Put columns of two tiles in turn.",
        "dst0[i, 2j], dst0[i, 2j + 1] = src0[i, j], src1[i, j]    dst1: the same of the right halves", inverse=False),
    in_turn("tdeinterleave", "Take columns of two tiles apart.",
        "dst0[i, j], dst1[i, j] = src0[i, 2j], src0[i, 2j + 1]    the right halves: the same of src1", inverse=True),
)  # fmt: skip

# --- Conversions ---------------------------------------------------------------------------------------------

RELU_PAIRS = frozenset({("float32", "float16"), ("float16", "int8"), ("int16", "int8")})
"""Source and destination types of a sum or difference that is converted."""


def converted(row: OpRow) -> Instruction:
    """A sum or a difference in the type of the sources, rectified and converted."""
    rules = (
        *vec_tiles("CP-CNV-01", ("dst", *SOURCES), plains=("dst", *SOURCES)),
        *(shaped("CP-CNV-01", name) for name in SOURCES),
        alike("CP-CNV-02", "src1", "src0"),
        needed("CP-CNV-02", "dst", "float16 of float32, or int8 of float16 or int16",
               lambda c: (c.src0.dtype.name, c.dst.dtype.name) in RELU_PAIRS,
               found=lambda c: f"{c.dst.dtype} of {c.src0.dtype}", fix=CONVERT),
    )  # fmt: skip
    return build(row, (DST, *FACTORS), rules, apply(row.op, *SOURCES))


RECTIFIED = "rounded in src's type; then to the nearest, ties to even; clamped"
CONVERSIONS = (
    converted(OpRow("taddreluconv", "Add two tiles, replace negative numbers by zero, and convert.",
        f"dst = relu(src0 + src1) in dst's type    {RECTIFIED}", op="addreluconv", in_place=())),
    converted(OpRow("tsubreluconv", "Subtract two tiles, replace negative numbers by zero, and convert.",
        f"dst = relu(src0 - src1) in dst's type    {RECTIFIED}", op="subreluconv", in_place=())),
)  # fmt: skip
DEQ_PARAMS = (
    DST, *(replace(each, about="a plain Vec tile of int32, of its valid region") for each in FACTORS),
    replace(SCALAR, name="scale", about="the factor, a float32 number", dtype=dtype("float32")),
)  # fmt: skip
SCALED_IN_PLACE = tuple(Effect(name, "write", "V", in_ub(name)) for name in SOURCES)
"""A2/A3 adds and scales where the sources are (TAddDeqRelu.hpp:58, 75)."""
TADDDEQRELU = build(
    OpRow("tadddeqrelu", "Add two tiles of integers, scale them, replace negative numbers by zero.",
        "dst = relu((src0 + src1) * scale)    the sum wraps; rounded to float32, and at the end to float16; clamped",
        everywhere(types("f16")), "adddeqrelu", in_place=()),
    DEQ_PARAMS,
    (
        *vec_tiles("CP-CNV-01", ("dst", *SOURCES), plains=("dst", *SOURCES)),
        *(shaped("CP-CNV-01", name) for name in SOURCES),
        typed("CP-CNV-02", "dst", everywhere(types("f16"))),
        *(typed("CP-CNV-02", name, everywhere(types("i32"))) for name in SOURCES),
    ),
    apply("adddeqrelu", *SOURCES, "scale"),
    cpp="TADDDEQRELU(dst, src0, src1, scale, tmp)",
    text=Text((*SOURCES, "scale", "tmp")),
    workspace=Workspace(3, same_as("src0")),
    special=(on_a2a3(RouteKernel((*pipes(DEQ_PARAMS, "V"), *SCALED_IN_PLACE))),),
)  # fmt: skip

# --- Pairs of columns ----------------------------------------------------------------------------------------


def pairs_of(call: Call) -> tuple[Compute, ...]:
    """Each element of an even column, and its right neighbour. A last column without one is left out."""
    rows, shape = call.src.layout, (call.src.valid_rows, call.src.valid_cols // 2)
    columns = replace(rows, cols=tuple(replace(term, stride=2 * term.stride) for term in rows.cols))
    inputs = (Input("src", each, shape) for each in (columns, replace(columns, start=rows.offset(0, 1))))
    return (Compute("add", shape, Access("dst", call.dst.layout), tuple(inputs)),)


def is_row_by_row(call: Call) -> bool:
    """Whether A5 takes the rows one by one, not as one run (a5/TPairReduceSum.hpp:100)."""
    tiles = call.dst, call.src
    return call.dst.rows == call.src.rows == 1 or any(tile.valid_cols < tile.cols or tile.dynamic[1] for tile in tiles)


ONE_RUN = Rule(
    CLAUSE, "dst", "valid in part: shipping headers put the sums of whole rows side by side", is_row_by_row,
    on=note("a5"), found=valid_of("dst"), fix="give dst a column that is not valid",
)  # fmt: skip
TPAIRREDUCESUM = build(
    OpRow("tpairreducesum", "Add neighbouring columns.",
        "dst[i, j] = src[i, 2j] + src[i, 2j + 1]    in the first half of dst's columns", FLOAT_TYPES, "add",
        in_place=(), cpp=Cpp(headers=(ONE_RUN,))),
    (DST, Param("src", "read", "a plain Vec tile of its type and valid region, of two columns or more")),
    (
        *tiles_alike("CP-PRS", ("src",), FLOAT_TYPES),
        sized("CP-PRS-01", "src", "of two valid columns or more", lambda c: c.src.valid_cols > 1,
              found=valid_of("src"), fix="use tmov for one column"),
    ),
    pairs_of,
)  # fmt: skip

# --- Places of extremes --------------------------------------------------------------------------------------

PLACES = ("dst_idx", "src0_idx", "src1_idx")
PLACE_TYPES = {"float16": SHORT, "float32": SHORT - types("i16 u16")}
"""By the type of the values: those of their places."""


def extreme(row: OpRow, better: str) -> Instruction:
    """The larger or smaller of two values, and the place that belongs to it."""
    values = ("dst", *SOURCES)
    rules = (
        *vec_tiles("CP-PAI-01", (*values, *PLACES), plains=(*values, *PLACES)),
        sized("CP-PAI-01", "src0", "of dst's valid region, unless src1 is",
              holds=lambda c: c.dst.valid in (c.src0.valid, c.src1.valid),
              fix="give one source the destination's valid region"),
        *(sized("CP-PAI-01", name, lambda c: f"at most valid {show_extents(c.dst.valid)}, as dst",
                lambda c, name=name: within(c, name), found=valid_of(name), fix="shrink its valid region")
          for name in SOURCES),
        *(shaped("CP-PAI-01", place, value) for place, value in zip(PLACES, values, strict=True)),
        *types_alike("CP-PAI", SOURCES, everywhere(F2)),
        needed("CP-PAI-02", "dst_idx", lambda c: f"one of {names(PLACE_TYPES.get(c.dst.dtype.name, ()))}",
               lambda c: c.dst_idx.dtype in PLACE_TYPES.get(c.dst.dtype.name, ()), found=type_of("dst_idx"),
               fix=CONVERT),
        *(alike("CP-PAI-02", name, "dst_idx") for name in PLACES[1:]),
    )  # fmt: skip

    def lower(call: Call) -> tuple[Compute, ...]:
        first, second = (call.values[name] for name in SOURCES)
        larger, region = (0, second.valid) if first.valid == call.dst.valid else (1, first.valid)
        found = list[Compute]()
        for own in (PLACES, values):  # the values decide, and are written last
            dst, sources = Access(own[0], call.values[own[0]].layout), own[1:]
            if region != call.dst.valid:
                found.append(Compute("copy", call.dst.valid, dst, (whole(call, sources[larger]),)))
            read = dict.fromkeys((*SOURCES, *sources))
            inputs = tuple(Input(name, call.values[name].layout, region) for name in read)
            if min(region) > 0:
                found.append(Compute(better if own is PLACES else row.op, region, dst, inputs))
        return tuple(found)

    params = (
        DST,
        *(Param(name, "read", "a plain Vec tile: dst's valid region, or for one of the sources less")
          for name in SOURCES),
        Param("dst_idx", "write", "a plain Vec tile: the place of each element of dst"),
        *(Param(f"{name}_idx", "read", f"a plain Vec tile: the places of {name}") for name in SOURCES),
    )  # fmt: skip
    call = ", ".join(param.name for param in params)
    text = Text((*SOURCES, *PLACES[1:]), results=("dst", "dst_idx"))
    return build(replace(row, in_place=()), params, rules, lower, cpp=f"{row.name.upper()}({call})", text=text)


EXTREMES = (
    extreme(OpRow("tpartargmax", "The larger of two values, and its place; one tile may be smaller.",
        "dst, dst_idx = (src1, src1_idx) if src1 > src0 else (src0, src0_idx)    where one is valid, that one",
        op="max"), "placemax"),
    extreme(OpRow("tpartargmin", "The smaller of two values, and its place; one tile may be smaller.",
        "dst, dst_idx = (src1, src1_idx) if src1 < src0 else (src0, src0_idx)    where one is valid, that one",
        op="min"), "placemin"),
)  # fmt: skip
FUSED = (*PRODUCTS, *SUMS, *TURNS, *CONVERSIONS, TADDDEQRELU, TPAIRREDUCESUM, *EXTREMES)
