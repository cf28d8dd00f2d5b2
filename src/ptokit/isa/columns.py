"""Columns reduced to a row, and a row or a column spread over a tile."""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.elementwise import DIV_TYPES, DST
from ptokit.isa.headers import CLAUSE, SHORT
from ptokit.isa.headers import typed as typed_in_headers
from ptokit.isa.instruction import (
    DEVICES,
    EVERYWHERE,
    Call,
    Cpp,
    Fault,
    Instruction,
    Param,
    Rule,
    by_extent,
    error,
    note,
)
from ptokit.isa.move import Access, Compute, Input
from ptokit.isa.operand import show_extents
from ptokit.isa.reduce import THROUGH_FLOAT
from ptokit.isa.spelling import GENERAL, Form, Workspace
from ptokit.isa.vector import (
    ALL,
    B4,
    Row,
    Text,
    alike,
    build,
    by_target,
    filled,
    plain,
    typed,
    types,
    vec,
    whole,
)

REDUCE_TYPES = by_target(B4, ALL)

SAME_COLS = Rule(
    CLAUSE, "dst", lambda c: f"of {c.src.cols} columns, as src: the simulator's header compares Cols",
    lambda c: c.dst.cols == c.src.cols, on=error("cpu"), found=lambda c: f"{c.dst.cols} columns",
    fix="give both tiles the same Cols",
)  # fmt: skip
ONE_ROUNDING = Rule(
    CLAUSE, "src", "float32: the simulator's header refuses integers and rounds other sums at every row",
    lambda c: c.src.dtype.name == "float32", on=error("cpu"), found=lambda c: str(c.src.dtype),
    fix="tcvt to float32, sum, and tcvt back",
)  # fmt: skip

REDUCTIONS = (
    Row("tcolsum", "Sum every column.", "dst[0, j] = src[0, j] + src[1, j] + ...    in this order, in float32",
        REDUCE_TYPES, "colsum", in_place=(), cpp=Cpp(headers=(ONE_ROUNDING, SAME_COLS))),
    Row("tcolmax", "The largest element of every column.",
        "dst[0, j] = the largest of src[:, j]    a leading NaN stays, a later one loses", REDUCE_TYPES, "colmax",
        in_place=(), cpp=Cpp(headers=(typed_in_headers("src", {"cpu": "f16 bf16 f32 i8 u8"}), SAME_COLS))),
    Row("tcolmin", "The smallest element of every column.",
        "dst[0, j] = the smallest of src[:, j]    a leading NaN stays, a later one loses", REDUCE_TYPES, "colmin",
        in_place=()),
)  # fmt: skip


def reduction(row: Row) -> Instruction:
    """Row 0 of the destination."""
    rules = (
        vec("CP-COL-01", "dst"),
        vec("CP-COL-01", "src"),
        filled("CP-COL-01", "src"),
        plain("CP-COL-01", "src"),
        plain("CP-COL-01", "dst"),
        Rule("CP-COL-01", "dst", lambda c: f"of {c.src.valid_cols} valid columns and a valid row",
             lambda c: c.dst.valid_cols == c.src.valid_cols and c.dst.valid_rows >= 1, on=error(*EVERYWHERE),
             firm=True, found=lambda c: f"valid {show_extents(c.dst.valid)}", kind=by_extent(),
             fix="give dst as many valid columns as src"),
        typed("CP-COL-02", "src", row.table, THROUGH_FLOAT),
        alike("CP-COL-02", "dst", "src"),
    )  # fmt: skip
    params = (
        Param("dst", "write", "destination: a plain Vec tile of one row or more; row 0 is written"),
        Param("src", "read", "a plain Vec tile"),
    )
    has_workspace = row.op == "colsum"
    return build(
        row,
        params,
        rules,
        lambda c: (Compute(row.op, (1, c.src.valid_cols), Access("dst", c.dst.layout), (whole(c, "src"),)),),
        text=Text(("src",)),
        workspace=Workspace(1) if has_workspace else None,
        form=Form(inside=("isBinary",)) if has_workspace else GENERAL,
    )


EXPAND_TYPES = by_target(ALL - types("i64 u64"), ALL)

TROWEXPAND = Row("trowexpand", "Repeat a column.", "dst[i, j] = src[i, 0]", EXPAND_TYPES, in_place=())
TCOLEXPAND = Row("tcolexpand", "Repeat a row.", "dst[i, j] = src[0, j]", EXPAND_TYPES, in_place=())

ONE_COLUMN = Rule(
    "CP-BRD-01", "src", "of one valid column", lambda c: c.src.valid_cols == 1, on=error("a5"),
    kind=by_extent(), found=lambda c: f"valid {show_extents(c.src.valid)}",
    fix="give it valid=(rows, 1), or take the column: src[:, 0:1]",
)  # fmt: skip
UNBOXED = Rule("CP-BRD-01", "src", "RowMajor or ColMajor without boxes", lambda c: c.src.form in ("nd", "dn"),
               on=error(*DEVICES), fix="make the tile without slayout=")  # fmt: skip


def repetition(row: Row, *, by_row: bool) -> Instruction:
    """One column for all columns, or one row for all rows."""
    extent, said = ("valid_rows", "rows") if by_row else ("valid_cols", "columns")
    rules = (
        vec("CP-BRD-01", "dst"),
        vec("CP-BRD-01", "src"),
        filled("CP-BRD-01"),
        filled("CP-BRD-01", "src"),
        plain("CP-BRD-01", "dst"),
        UNBOXED if by_row else plain("CP-BRD-01", "src"),
        Rule("CP-BRD-01", "src", lambda c: f"of {getattr(c.dst, extent)} valid {said}, as dst",
             lambda c: getattr(c.src, extent) == getattr(c.dst, extent), on=error(*EVERYWHERE), firm=True,
             found=lambda c: f"valid {show_extents(c.src.valid)}", kind=by_extent(),
             fix=f"give both tiles the same valid {said}"),
        *([ONE_COLUMN] if by_row else []),
        typed("CP-BRD-02", "dst", row.table),
        alike("CP-BRD-02", "src"),
    )  # fmt: skip

    def lower(call: Call) -> tuple[Compute, ...]:
        shape = (call.src.valid_rows, 1) if by_row else (1, call.src.valid_cols)
        source = Input("src", call.src.layout, shape)
        return (Compute("copy", call.dst.valid, Access("dst", call.dst.layout), (source,)),)

    about = "a Vec tile; its column 0 is repeated" if by_row else "a plain Vec tile; its row 0 is repeated"
    return build(row, (DST, Param("src", "read", about)), rules, lower)


A5_TYPES = B4 | types("u16 u32 bf16 i8 u8")
NO_ZERO = {"zero": Fault("CP-DIV-01", None, "keep zeroes out of an integer divisor")}


def spread_operand(call: Call) -> str:
    """The operand of one number a column: src1, unless only src1 has an element for each of the destination's."""
    return "src1" if call.src0.valid == call.dst.valid else "src0"


def expands(types: str) -> Cpp:
    """The element types that the simulator's header has; it spreads src1."""
    last = Rule(
        CLAUSE, "src1", "the row of one number a column: the simulator's header spreads src1 whatever its shape",
        lambda c: spread_operand(c) == "src1", on=error("cpu"), fix="give the row as src1",
    )  # fmt: skip
    return Cpp(headers=(typed_in_headers("dst", {"cpu": types}), last))


EXPAND_CPP = expands(SHORT)

EXPANSIONS = (
    Row("tcolexpandadd", "Add a number to each column.", "dst[i, j] = src0[i, j] + src1[0, j]    integers wrap",
        by_target(B4, A5_TYPES), "add", cpp=EXPAND_CPP),
    Row("tcolexpandsub", "Subtract a number from each column.",
        "dst[i, j] = src0[i, j] - src1[0, j]    integers wrap", by_target(B4, A5_TYPES), "sub", cpp=EXPAND_CPP),
    Row("tcolexpandmul", "Multiply columns by a number each.",
        "dst[i, j] = src0[i, j] * src1[0, j]    integers wrap", by_target(B4, A5_TYPES), "mul",
        cpp=expands(f"{SHORT} u8")),
    Row("tcolexpanddiv", "Divide columns by a number each.",
        "dst[i, j] = src0[i, j] / src1[0, j]    floats by IEEE, integers towards zero",
        by_target(DIV_TYPES["a2a3"], DIV_TYPES["a5"] - types("i64 u64")), "div", faults=NO_ZERO, cpp=EXPAND_CPP),
    Row("tcolexpandmax", "The larger of a tile and a number for each column.",
        "dst[i, j] = src1[0, j] if src1[0, j] > src0[i, j] else src0[i, j]", by_target(B4, A5_TYPES), "max",
        cpp=EXPAND_CPP),
    Row("tcolexpandmin", "The smaller of a tile and a number for each column.",
        "dst[i, j] = src1[0, j] if src1[0, j] < src0[i, j] else src0[i, j]", by_target(B4, A5_TYPES), "min",
        cpp=EXPAND_CPP),
)  # fmt: skip


def _spread(call: Call, name: str) -> Input:
    tile = call.values[name]
    if name != spread_operand(call):
        return whole(call, name)
    return Input(name, tile.layout, (1, tile.valid_cols))


def expansion(row: Row) -> Instruction:
    """One operand has the destination's shape, the other a number for each column; either may be which."""
    sources = ("src0", "src1")
    rules = (
        *(vec("CP-CXP-01", name) for name in ("dst", *sources)),
        filled("CP-CXP-01"),
        *(plain("CP-CXP-01", name) for name in ("dst", *sources)),
        Rule("CP-CXP-01", "src0", "of dst's valid region, unless src1 is", firm=True, on=error(*EVERYWHERE),
             holds=lambda c: c.dst.valid in (c.src0.valid, c.src1.valid), kind=by_extent(),
             fix="give one source the destination's valid region"),
        *(Rule("CP-CXP-01", name, lambda c: f"of {c.dst.valid_cols} valid columns, as dst, and a valid row",
               lambda c, name=name: c.values[name].valid_cols == c.dst.valid_cols and c.values[name].valid_rows >= 1,
               on=error(*EVERYWHERE), firm=True, kind=by_extent(),
               found=lambda c, name=name: f"valid {show_extents(c.values[name].valid)}",
               fix="the numbers of the columns are a tile of one row: 1 x N")
          for name in sources),
        Rule("CP-CXP-01", "src1", "another tile than the other operands, where it has several rows: row 0 is used",
             lambda c: "src1" not in c.repeats or spread_operand(c) != "src1" or c.src1.valid_rows == 1,
             on=error(*EVERYWHERE), kind=by_extent(), fix="take the row from a tile of its own"),
        *(Rule("CP-CXP-03", name, "only row 0 is used, and the tile has several valid rows",
               lambda c, name=name: name != spread_operand(c) or c.values[name].valid_rows == 1, on=note(*EVERYWHERE),
               kind=by_extent(), fix=f"take the row: {name}[0:1]")
          for name in sources),
        typed("CP-CXP-02", "dst", row.table),
        *(alike("CP-CXP-02", name) for name in sources),
    )  # fmt: skip
    params = (
        DST,
        *(Param(name, "read", "plain Vec tile: dst's valid region, or one row, a number a column") for name in sources),
    )
    built = build(
        row,
        params,
        rules,
        lambda c: (Compute(row.op, c.dst.valid, Access("dst", c.dst.layout), tuple(_spread(c, s) for s in sources)),),
    )
    return replace(built, minds_repeats=True)


COLUMNS = (
    *map(reduction, REDUCTIONS),
    repetition(TROWEXPAND, by_row=True),
    repetition(TCOLEXPAND, by_row=False),
    *map(expansion, EXPANSIONS),
)
"""The instructions, as data."""
