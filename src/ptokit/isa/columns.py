"""Columns reduced to a row, and a row or a column spread over a tile."""
# ruff: noqa: F403, F405

from __future__ import annotations

from ptokit.finding import Fix, OpName, Wording
from ptokit.isa.elementwise import DIV_TYPES, DST
from ptokit.isa.headers import CLAUSE, SIMULATED, first_64, one_register, typed_in_headers
from ptokit.isa.reduce import A5_TYPES, EXPDIF_TYPES, NO_ZERO, SOURCES, exp_of_difference, position, reduction
from ptokit.isa.vocabulary import *

REDUCE_TYPES = by_target(a2a3=B4, a5=ALL)

SAME_COLS = Rule(
    CLAUSE, "dst", lambda c: f"of {c.src.cols} columns, as src: the simulator's header compares Cols",
    lambda c: c.dst.cols == c.src.cols, on=hazard("cpu"), found=lambda c: f"{c.dst.cols} columns",
    fix="give both tiles the same Cols",
)  # fmt: skip
ONE_ROUNDING = Rule(
    CLAUSE, "src", "float32: the simulator's header rounds other sums at every row",
    lambda c: c.src.dtype.name == "float32", on=note("cpu"), found=type_of("src"),
    fix=Fix(OpName("tcvt"), " to float32, sum, and ", OpName("tcvt"), " back"),
)  # fmt: skip

REDUCTIONS = (
    OpRow("tcolsum", "Sum every column.",
        "dst[0, j] = src[0, j] + src[1, j] + ...    in this order, in float32, rounded once",
        REDUCE_TYPES, "colsum", in_place=(),
        cpp=Cpp(headers=(typed_in_headers("src", {"cpu": "f16 bf16 f32"}), first_64("src"), ONE_ROUNDING, SAME_COLS),
                ignored=("is_binary",))),
    OpRow("tcolprod", "Multiply the elements of every column.",
        "dst[0, j] = src[0, j] * src[1, j] * ...    in this order, every product rounded; integers wrap",
        by_target(a2a3=B4, a5=B4 | types("u16 u32 bf16")), "colprod", in_place=()),
    OpRow("tcolmax", "The largest element of every column.",
        "dst[0, j] = the largest of src[:, j]    a leading NaN stays, a later one loses", REDUCE_TYPES, "colmax",
        in_place=(),
        cpp=Cpp(headers=(typed_in_headers("src", {"cpu": "f16 bf16 f32 i8 u8"}), first_64("src"), SAME_COLS))),
    OpRow("tcolmin", "The smallest element of every column.",
        "dst[0, j] = the smallest of src[:, j]    a leading NaN stays, a later one loses", REDUCE_TYPES, "colmin",
        in_place=(), cpp=one_register("src")),
)  # fmt: skip


POSITION_TYPES = by_target(a2a3=types("u16 u32 f16 f32"), a5=ALL - types("i64 u64 bf16"))

AS_FLOATS = Cpp(headers=(Rule(
    CLAUSE, "src", "of floats: shipping headers compare the bits of unsigned integers as floats",
    lambda c: c.src.dtype.is_float, on=note("a2a3"), found=type_of("src"),
    fix="keep values below 2^31 - 2^23, or 2^15 - 2^10 of 2-byte types: their bits are finite floats",
),))  # fmt: skip
POSITIONS = (
    OpRow("tcolargmax", "The row of the largest element of every column.",
        "dst[0, j] = the first i of the largest src[i, j]    a leading NaN stays, a later one loses",
        POSITION_TYPES, "colargmax", in_place=(), cpp=AS_FLOATS),
    OpRow("tcolargmin", "The row of the smallest element of every column.",
        "dst[0, j] = the first i of the smallest src[i, j]    a leading NaN stays, a later one loses",
        POSITION_TYPES, "colargmin", in_place=(), cpp=AS_FLOATS),
)  # fmt: skip

EXPAND_TYPES = by_target(a2a3=UP_TO_32, a5=ALL)

TROWEXPAND = OpRow("trowexpand", "Repeat a column.", "dst[i, j] = src[i, 0]", EXPAND_TYPES, in_place=(),
                   cpp=one_register())  # fmt: skip
TCOLEXPAND = OpRow("tcolexpand", "Repeat a row.", "dst[i, j] = src[0, j]", EXPAND_TYPES, in_place=(),
                   cpp=one_register())  # fmt: skip

ONE_COLUMN = Rule(
    "CP-BRD-01", "src", "of one valid column, or of columns that are known at run time only",
    lambda c: c.src.dynamic[1] or c.src.valid_cols == 1, on=error("a5"), kind=ByExtent(),  # TRowExpand.hpp:25
    found=valid_of("src"),
    fix=Fix("give it ", Wording("valid=(rows, 1), or take the column: src[:, 0:1]", *["one valid column"] * 2)),
)  # fmt: skip
UNBOXED = Rule("CP-BRD-01", "src", "RowMajor or ColMajor without boxes", lambda c: c.src.format in ("nd", "dn"),
               on=error(*FAMILIES), fix=Fix("make the tile without ", SLAYOUT))  # fmt: skip


def is_no_block(call: Call) -> bool:
    """Calls that do not spread a packed column over one block a row (TRowExpand.hpp:119)."""
    dst, src, block = call.dst, call.src, call.dst.dtype.c0  # of a slice, the columns of its tile
    packed = src.rows == 1 and src.cols == dst.rows if src.format == "nd" else src.cols == 1 and src.rows == dst.rows
    is_static = all(tile.valid == (tile.rows, tile.cols) and not any(tile.dynamic) for tile in (dst, src))
    return dst.dtype.size == 1 or not (is_static and packed and dst.stride == block)


def repetition(row: OpRow, *, by_row: bool) -> Instruction:
    """One column for all columns, or one row for all rows."""
    extent, noun = ("valid_rows", "rows") if by_row else ("valid_cols", "columns")
    rules = (
        *vec_tiles("CP-BRD-01", ("dst", "src"), plains=()),
        filled("CP-BRD-01", "src"),
        plain("CP-BRD-01", "dst"),
        UNBOXED if by_row else plain("CP-BRD-01", "src"),
        sized("CP-BRD-01", "src", lambda c: f"of {getattr(c.dst, extent)} valid {noun}, as dst",
              lambda c: getattr(c.src, extent) == getattr(c.dst, extent), found=valid_of("src"),
              fix=f"give both tiles the same valid {noun}"),
        *([ONE_COLUMN] if by_row else []),
        *types_alike("CP-BRD", ("src",), row.types),
    )  # fmt: skip

    def lower(call: Call) -> tuple[Compute, ...]:
        shape = (call.src.valid_rows, 1) if by_row else (1, call.src.valid_cols)
        source = Input("src", call.src.layout, shape)
        return (Compute("copy", call.dst.valid, Access("dst", call.dst.layout), (source,)),)

    about = "a Vec tile; its column 0 is repeated" if by_row else "a plain Vec tile; its row 0 is repeated"
    params = (DST, Param("src", "read", about))
    blocks = on_a2a3(RouteKernel((*pipes(params, "V"), Effect("dst", "write", "V", in_ub("dst", 32)))))
    """Rows are copied in whole blocks (TColExpand.hpp:25)."""
    rows = RouteKernel(pipes(params, "V"), handshake=WITH_SCALAR_ROWS, besides=by_pairs)
    """Each row begins with a number that the scalar pipe reads (TRowExpand.hpp:38)."""
    special = (SpecialRoute("rows", Table({"a2a3": is_no_block}), rows),) if by_row else (blocks,)
    return build(row, params, rules, lower, special=special)


def spread_operand(call: Call) -> str:
    """The operand of one number a column: src1, unless only src1 has an element for each of the destination's."""
    return "src1" if call.src0.valid == call.dst.valid else "src0"


def expands(types: str) -> Cpp:
    """The element types that the simulator's header has; it spreads src1."""
    last = Rule(
        CLAUSE, "src1", "the row of one number a column: the simulator's header spreads src1 whatever its shape",
        lambda c: spread_operand(c) == "src1", on=note("cpu"), fix="give the row as src1",
    )  # fmt: skip
    return Cpp(headers=(typed_in_headers("dst", {"cpu": types}), last))


EXPAND_CPP = expands(SIMULATED)
EXPANSION_TYPES = by_target(a2a3=B4, a5=A5_TYPES)

EXPANSIONS = (
    OpRow("tcolexpandadd", "Add a number to each column.", "dst[i, j] = src0[i, j] + src1[0, j]    integers wrap",
        EXPANSION_TYPES, "add", cpp=EXPAND_CPP),
    OpRow("tcolexpandsub", "Subtract a number from each column.",
        "dst[i, j] = src0[i, j] - src1[0, j]    integers wrap", EXPANSION_TYPES, "sub", cpp=EXPAND_CPP),
    OpRow("tcolexpandmul", "Multiply columns by a number each.",
        "dst[i, j] = src0[i, j] * src1[0, j]    integers wrap", EXPANSION_TYPES, "mul",
        cpp=expands(f"{SIMULATED} u8")),
    OpRow("tcolexpanddiv", "Divide columns by a number each.",
        "dst[i, j] = src0[i, j] / src1[0, j]    floats by IEEE, integers towards zero",
        by_target(a2a3=DIV_TYPES["a2a3"], a5=DIV_TYPES["a5"] - LONG), "div", faults=NO_ZERO, cpp=EXPAND_CPP),
    OpRow("tcolexpandmax", "The larger of a tile and a number for each column.",
        "dst[i, j] = src1[0, j] if src1[0, j] > src0[i, j] else src0[i, j]", EXPANSION_TYPES, "max",
        cpp=EXPAND_CPP),
    OpRow("tcolexpandmin", "The smaller of a tile and a number for each column.",
        "dst[i, j] = src1[0, j] if src1[0, j] < src0[i, j] else src0[i, j]", EXPANSION_TYPES, "min",
        cpp=EXPAND_CPP),
)  # fmt: skip


TCOLEXPANDEXPDIF = OpRow("tcolexpandexpdif", "Subtract a number from each column, and take the exponential.",
    "dst[i, j] = e ** (src0[i, j] - src1[0, j])    the difference is rounded; within 2 ulp of it", EXPDIF_TYPES,
    "exp")  # fmt: skip


def _spread(call: Call, name: str) -> Input:
    tile = call.values[name]
    if name != spread_operand(call):
        return whole(call, name)
    return Input(name, tile.layout, (1, tile.valid_cols))


def expansion(row: OpRow, lower: Lower | None = None) -> Instruction:
    """One source has the destination's shape, the other a number for each column, in either order."""
    rules = (
        *vec_tiles("CP-CXP-01", ("dst", *SOURCES), plains=("dst", *SOURCES)),
        sized("CP-CXP-01", "src0", "of dst's valid region, unless src1 is",
              holds=lambda c: c.dst.valid in (c.src0.valid, c.src1.valid),
              fix="give one source the destination's valid region"),
        *(sized("CP-CXP-01", name, lambda c: f"of {c.dst.valid_cols} valid columns, as dst, and a valid row",
                lambda c, name=name: c.values[name].valid_cols == c.dst.valid_cols and c.values[name].valid_rows >= 1,
                found=valid_of(name), fix="the numbers of the columns are a tile of one row: 1 x N")
          for name in SOURCES),
        anywhere("CP-CXP-01", "src1", "another tile than the other operands, where it has several rows: row 0 is used",
                 lambda c: "src1" not in c.repeats or spread_operand(c) != "src1" or c.src1.valid_rows == 1,
                 kind=ByExtent(), fix="take the row from a tile of its own"),
        *(Rule("CP-CXP-03", name, "only row 0 is used, and the tile has several valid rows",
               lambda c, name=name: name != spread_operand(c) or c.values[name].valid_rows == 1, on=note(*EVERYWHERE),
               kind=ByExtent(), fix=f"take the row: {name}[0:1]")
          for name in SOURCES),
        *types_alike("CP-CXP", SOURCES, row.types),
    )  # fmt: skip
    about = "plain Vec tile: dst's valid region, or one row, a number a column"
    params = (DST, *(Param(name, "read", about) for name in SOURCES))
    lower = lower or apply(row.op, *SOURCES, read=_spread)
    return build(row, params, rules, lower, destination=Destination(checks_aliases=True))


COLUMNS = (
    *(reduction(row, by_row=False) for row in REDUCTIONS),
    *(position(row, by_row=False) for row in POSITIONS),
    repetition(TROWEXPAND, by_row=True),
    repetition(TCOLEXPAND, by_row=False),
    *map(expansion, EXPANSIONS),
    expansion(TCOLEXPANDEXPDIF, exp_of_difference(_spread)),
)
