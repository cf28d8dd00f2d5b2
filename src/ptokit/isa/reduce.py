"""Rows reduced to a column, a column spread over rows, transposition, and gathering inside UB."""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.elementwise import DIV_TYPES, DST
from ptokit.isa.headers import CLAUSE
from ptokit.isa.headers import SHORT as HEADER_SHORT
from ptokit.isa.headers import typed as typed_in_headers
from ptokit.isa.instruction import EVERYWHERE, Call, Case, Cpp, Fault, Instruction, Param, Rule, by_extent, error
from ptokit.isa.kernel import INDEXED
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Compute, Index, Input, Move, Remap, Side, Unit
from ptokit.isa.operand import TileSpec, show_extents
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import Form, Workspace, same_as
from ptokit.isa.table import Table
from ptokit.isa.vector import (
    ALL,
    B4,
    INTS,
    NARROW,
    SHORT,
    Row,
    Text,
    alike,
    build,
    by_target,
    filled,
    plain,
    shaped,
    typed,
    types,
    vec,
    whole,
)

SUM_TYPES = by_target(B4, B4 | types("i64 u64"))
BEST_TYPES = by_target(B4, B4 | types("i64 u64") | NARROW)

SUM_CPP = Cpp(
    headers=(
        typed_in_headers("src", {"cpu": "i16 i32 f16 bf16 f32"}),
        Rule(CLAUSE, "dst", lambda c: f"of {c.src.rows} rows, as src: the headers compare storage",
             lambda c: c.dst.rows == c.src.rows, on=error("cpu"), found=lambda c: f"{c.dst.rows} rows",
             fix="give dst as many rows as src"),
    ),
)  # fmt: skip

REDUCTIONS = (
    Row("trowsum", "Sum every row.", "dst[i, 0] = src[i, 0] + src[i, 1] + ...    in this order, in float32", SUM_TYPES,
        "rowsum", in_place=(), cpp=SUM_CPP),
    Row("trowmax", "The largest element of every row.",
        "dst[i, 0] = the largest of src[i, :]    a leading NaN stays, a later one loses", BEST_TYPES, "rowmax",
        in_place=()),
    Row("trowmin", "The smallest element of every row.",
        "dst[i, 0] = the smallest of src[i, :]    a leading NaN stays, a later one loses", BEST_TYPES, "rowmin",
        in_place=()),
)  # fmt: skip


THROUGH_FLOAT = "convert with tcvt first (bfloat16: to float32), reduce, and convert the result back"


def is_column(tile: TileSpec) -> bool:
    """Row-major, or column-major with one column."""
    return tile.form == "nd" or (tile.form == "dn" and tile.cols == 1)


def reduction(row: Row) -> Instruction:
    """Column 0 of the destination."""
    rules = (
        vec("CP-RED-01", "dst"),
        vec("CP-RED-01", "src"),
        filled("CP-RED-01", "src"),
        plain("CP-RED-01", "src"),
        Rule("CP-RED-01", "dst", "RowMajor + NoneBox, or ColMajor of one column", lambda c: is_column(c.dst),
             fix='make it N x 1 with blayout="col_major"'),
        Rule("CP-RED-01", "dst", lambda c: f"of {c.src.valid_rows} valid rows and a valid column",
             lambda c: c.dst.valid_rows == c.src.valid_rows and c.dst.valid_cols >= 1, on=error(*EVERYWHERE),
             firm=True, found=lambda c: f"valid {show_extents(c.dst.valid)}", kind=by_extent(),
             fix="give dst as many valid rows as src"),
        typed("CP-RED-02", "src", row.table, THROUGH_FLOAT),
        alike("CP-RED-02", "dst", "src"),
    )  # fmt: skip
    params = (
        Param("dst", "write", "destination: a Vec tile, N x 1 or wider; column 0 is written"),
        Param("src", "read", "a plain Vec tile"),
    )
    return build(
        row,
        params,
        rules,
        lambda c: (Compute(row.op, (c.src.valid_rows, 1), Access("dst", c.dst.layout), (whole(c, "src"),)),),
        cpp=f"{row.name.upper()}(dst, src, tmp)",
        text=Text(("src", "tmp")),
        workspace=Workspace(1, same_as("src")),
    )


def expands(**types: str) -> Cpp:
    """The headers spread a column through UB of their own, and have some element types only."""
    return Cpp(headers=(typed_in_headers("dst", types),), uses_hidden=True)


EXPAND_CPP = expands(cpu=HEADER_SHORT)

EXPANSIONS = (
    Row("trowexpandadd", "Add a number to each row.", "dst[i, j] = src0[i, j] + src1[i]    integers wrap",
        by_target(B4, B4 | types("u16 u32 bf16 i8 u8")), "add", cpp=EXPAND_CPP),
    Row("trowexpandmax", "The larger of a tile and a number for each row.",
        "dst[i, j] = src1[i] if src1[i] > src0[i, j] else src0[i, j]",
        by_target(B4, B4 | types("u16 u32 bf16 i8 u8")), "max", cpp=EXPAND_CPP),
    Row("trowexpandmin", "The smaller of a tile and a number for each row.",
        "dst[i, j] = src1[i] if src1[i] < src0[i, j] else src0[i, j]",
        by_target(B4, B4 | types("u16 u32 bf16 i8 u8")), "min", cpp=EXPAND_CPP),
    Row("trowexpandmul", "Multiply rows by a number each.", "dst[i, j] = src0[i, j] * src1[i]    integers wrap",
        by_target(B4, B4 | types("u16 u32 bf16 i8 u8")), "mul", cpp=expands(cpu=f"{HEADER_SHORT} u8")),
    Row("trowexpandsub", "Subtract a number from each row.", "dst[i, j] = src0[i, j] - src1[i]    integers wrap",
        by_target(B4, B4 | types("u16 u32 bf16")), "sub", cpp=EXPAND_CPP),
    Row("trowexpanddiv", "Divide rows by a number each.",
        "dst[i, j] = src0[i, j] / src1[i]    floats by IEEE, integers towards zero",
        by_target(DIV_TYPES["a2a3"], DIV_TYPES["a5"]), "div", cpp=expands(cpu=HEADER_SHORT, a5=HEADER_SHORT),
        faults={"zero": Fault("CP-DIV-01", None, "keep zeroes out of an integer divisor")}),
)  # fmt: skip


ANY_LAYOUT = Table({"host": True})
"""Targets that take sources of any layout."""


def is_full(call: Call, name: str) -> bool:
    """An operand that has an element for each of the destination's."""
    tile = call.values[name]
    return tile.valid == call.dst.valid and (tile.form == "nd" or call.here(ANY_LAYOUT, False))


def is_per_row(call: Call, name: str) -> bool:
    """One number a row: a ColMajor column, or a row-major 32-byte block that repeats."""
    tile = call.values[name]
    column = tile.form == "dn" and tile.valid_cols == 1
    block = tile.form == "nd" and tile.valid_cols == tile.dtype.c0
    return tile.valid_rows == call.dst.valid_rows and (column or block)


def spread(call: Call, name: str) -> Input:
    """An operand as lanes (i, j) of the destination see it."""
    tile = call.values[name]
    if is_full(call, name):
        return whole(call, name)
    if tile.valid_cols == 1:
        return Input(name, tile.layout, (tile.valid_rows, 1))
    return Input(name, Layout(tile.layout.rows, (Term(1, 1, tile.valid_cols),)), call.dst.valid)


def expansion(row: Row) -> Instruction:
    """One operand has the destination's shape, the other a number for each row; either may be which."""
    rules = (
        *(vec("CP-RXP-01", name) for name in ("dst", "src0", "src1")),
        filled("CP-RXP-01"),
        plain("CP-RXP-01", "dst"),
        Rule("CP-RXP-01", "src0", "of dst's valid region, unless src1 is", firm=True, on=error(*EVERYWHERE),
             holds=lambda c: is_full(c, "src0") or is_full(c, "src1"), kind=by_extent(),
             fix="give one source the destination's valid region, row-major"),
        *(Rule("CP-RXP-01", name, "of dst's valid region, or a ColMajor column, or a row-major 32-byte block a row",
               lambda c, name=name: is_full(c, name) or is_per_row(c, name), on=error(*EVERYWHERE), firm=True,
               kind=by_extent(), fix='a column is N x 1 with blayout="col_major"')
          for name in ("src0", "src1")),
        typed("CP-RXP-02", "dst", row.table),
        alike("CP-RXP-02", "src0"),
        alike("CP-RXP-02", "src1"),
    )  # fmt: skip
    params = (
        DST,
        *(Param(name, "read", "Vec tile: dst's valid region, or one number a row") for name in ("src0", "src1")),
    )
    return build(
        row,
        params,
        rules,
        lambda c: (Compute(row.op, c.dst.valid, Access("dst", c.dst.layout), (spread(c, "src0"), spread(c, "src1"))),),
        workspace=Workspace(2),
    )


TRANS_TYPES = by_target(ALL - types("i64 u64"), ALL - types("i64 u64"))


def turned(call: Call) -> Input:
    """The source with rows and columns exchanged."""
    layout = call.src.layout
    return Input("src", Layout(layout.cols, layout.rows), (call.src.valid_cols, call.src.valid_rows))


def turned_workspace(call: Call) -> TileSpec:
    """The source transposed, its rows padded."""
    src = call.src
    unit = 32 if src.dtype.size == 1 else 16
    cols = -(-src.rows // unit) * unit
    return TileSpec(src.dtype, TileType.Vec, src.cols, cols, src.cols, cols)


TTRANS = build(
    Row("ttrans", "Transpose a tile.", "dst[j, i] = src[i, j]    over the source's valid region", TRANS_TYPES,
        in_place=()),
    (DST, Param("src", "read", "a plain Vec tile of the destination's type")),
    (
        vec("CP-TRN-01", "dst"),
        vec("CP-TRN-01", "src"),
        filled("CP-TRN-01", "src"),
        plain("CP-TRN-01", "src"),
        plain("CP-TRN-01", "dst"),
        Rule("CP-TRN-01", "dst", lambda c: f"valid {show_extents(tuple(c.src.valid)[::-1])}, as src transposed",
             lambda c: c.dst.valid == c.src.valid[::-1], on=error(*EVERYWHERE), firm=True,
             found=lambda c: f"valid {show_extents(c.dst.valid)}", kind=by_extent(),
             fix="give dst as many valid rows as src has valid columns, and the reverse"),
        *(Rule("CP-TRN-01", name, "of rows that are a multiple of 32 bytes",
               lambda c, name=name: c.values[name].burst_bytes % 32 == 0, on=error("a5"),
               found=lambda c, name=name: f"{c.values[name].burst_bytes} bytes", fix="pad the tile and give valid=")
          for name in ("dst", "src")),
        typed("CP-TRN-02", "dst", TRANS_TYPES),
        alike("CP-TRN-02", "src"),
    ),
    lambda c: (Compute("copy", (c.src.valid_cols, c.src.valid_rows), Access("dst", c.dst.layout), (turned(c),)),),
    cost={"V": INDEXED},
    cpp="TTRANS(dst, src, tmp)",
    text=Text(("src", "tmp")),
    workspace=Workspace(1, turned_workspace),
)  # fmt: skip

GATHER_TYPES = by_target(SHORT | types("f16 bf16 f32"), ALL)
INDEX_TYPES = by_target(types("i32 u32"), SHORT, SHORT, INTS - NARROW)


BY_ROW = (
    "no target gathers rows of a tile by one index each: make element numbers, row * Cols + column, with "
    "pto.trowexpand, pto.tmuls, pto.tci and pto.tcolexpandadd; or gather the rows from memory with pto.mgather"
)


def is_one_a_row(call: Call) -> bool:
    """Whether an index has one number for each row of the destination."""
    return call.dst.valid_cols > 1 and call.idx.valid in ((call.dst.valid_rows, 1), (1, call.dst.valid_rows))


def lower_gather(call: Call) -> tuple[Move | Compute, ...]:
    """The index is an element number of the padded source; one outside breaks a promise (as for `tscatter`)."""
    src = call.src
    index = Index(
        Access("idx", call.idx.layout), Side.SRC, Unit.ELEMENT, src.rows * src.cols, Remap.REFUSE, width=src.cols,
        valid=src.valid,
    )  # fmt: skip
    return (Move(call.dst.valid, Access("dst", call.dst.layout), Access("src", src.layout), index),)


TGATHER = build(
    Row("tgather", "Gather elements of a tile by their numbers.",
        "dst[i, j] = src.element[idx[i, j]]    element r * Cols + c is src[r, c]", GATHER_TYPES, in_place=(),
        cpp=Cpp(headers=(typed_in_headers("idx", {"cpu": "i32 u32"}),)),
        faults={
            "outside": Fault("CP-GAT-03", "H-12", "keep indices inside the source tile"),
            "padding": Fault("CP-GAT-03", "H-12", "the index names the source's padding"),
            "shared": Fault("CP-GAT-03", None, "gather into another tile: hardware does not promise this order"),
        }),
    (DST, Param("src", "read", "a Vec tile of the destination's type", contiguous="always"),
     Param("idx", "read", "Vec tile of element numbers, of the destination's valid region")),
    (
        *(vec("CP-GAT-01", name) for name in ("dst", "src", "idx")),
        filled("CP-GAT-01"),
        *(plain("CP-GAT-01", name) for name in ("dst", "src", "idx")),
        shaped("CP-GAT-01", "idx", fix=lambda c: BY_ROW if is_one_a_row(c) else "give both tiles one valid region"),
        typed("CP-GAT-02", "dst", GATHER_TYPES),
        alike("CP-GAT-02", "src"),
        typed("CP-GAT-02", "idx", INDEX_TYPES),
        Rule("CP-GAT-02", "idx", "of 4 bytes for 8-byte data", lambda c: c.idx.dtype.size == 4, on=error("a5"),
             when=Case("8-byte data", lambda c: c.dst.dtype.size == 8), found=lambda c: str(c.idx.dtype),
             fix="use int32 or uint32 indices"),
    ),
    lower_gather,
    cost={"V": INDEXED},
    cpp="TGATHER(dst, src, idx, tmp)",
    text=Text(("src", "idx", "tmp")),
    workspace=Workspace(2, lambda c: replace(c.idx, addr=None), like="idx"),
    form=Form(inside=("maskPattern",), listed=True, one_type=True, reordered=True,
              stored=("ins", "outs", "outs", "ins", "ins", "ins")),
)  # fmt: skip

REDUCE = (*map(reduction, REDUCTIONS), *map(expansion, EXPANSIONS), TTRANS, TGATHER)
"""The instructions, as data."""
