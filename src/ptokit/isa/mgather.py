"""MGATHER: rows or elements of a table in global memory, picked by index, into a tile.

Read this beside the MGATHER page: the same sections in the same order.
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ptokit.isa.vocabulary import *

# --- Which kernel runs ---------------------------------------------------------------------------------------


@case("into L1")
def into_l1(call: Call) -> bool:
    """A Mat destination selects the GM to L1 path, where the target has one (MG-SEM-06)."""
    return call.dst.loc is TileType.Mat and bool(call.lookup(HAS_L1_PATH))


@case("into UB")
def into_ub(call: Call) -> bool:
    """Any other destination is the GM to UB path."""
    return not into_l1(call)


@case("NZ table")
def is_fractal(call: Call) -> bool:
    """An NZ table on a target whose UB gather has an NZ path (MG-NZ-02)."""
    return bool(call.lookup(HAS_NZ_PATH)) and into_ub(call) and call.table.layout_kind is GlobalLayout.NZ


HAS_NZ_PATH = Table({"a2a3": True})
HAS_L1_PATH = Table({"a2a3": True, "a5": True})
SINGLE_BY_SCALAR = Table({"a5": True})
"""Targets that fetch a single element with the scalar pipe instead of a launch (MG-SIMT-08, A-35)."""


def route(call: Call) -> str:
    """The kernel: `mgather[.l1].row|elem[.nz|.simt|.scalar]`."""
    mode = call.coalesce.text
    if into_l1(call):
        return f"mgather.l1.{mode}" + (".simt" if call.executor is GatherExec.Simt else "")
    if is_elem(call) and call.lookup(SINGLE_BY_SCALAR) and certain(lambda: call.dst.valid == (1, 1)):
        return "mgather.elem.scalar"
    return f"mgather.{mode}" + (".nz" if is_fractal(call) else "")


# --- Math interpretation: how each target's row kernel addresses the table -----------------------------------


@dataclass(frozen=True)
class RowKernel:
    """The number of rows that an index may address, and the distance between them in elements."""

    capacity: Callable[[TensorSpec], int]
    stride: Callable[[TensorSpec, TileSpec], int]
    linear_index: bool = False
    """The kernel reads idx[row] from consecutive elements instead of through the tile's layout."""


BY_STRIDE = RowKernel(rows_of, lambda table, _: table.stride[3])  # also MG-L1-24, both NPU targets
UB_ROW = Table(
    {
        "cpu": RowKernel(lambda table: table.shape[3], lambda table, _: table.shape[4]),  # MG-SEM-07
        "a2a3": BY_STRIDE,  # MG-SEM-08
        "a5": RowKernel(lambda table: table.shape[3], lambda _, dst: dst.valid_cols, linear_index=True),  # MG-SEM-09
        "host": BY_STRIDE,
    }
)


def row_kernel(call: Call) -> RowKernel:
    """The row kernel of the call's target and path."""
    return BY_STRIDE if into_l1(call) else call.lookup(UB_ROW)


def capacity(call: Call) -> int:
    """How many rows (Row) or elements (Elem) an index may name (MG-OOB-03, MG-NZ-04)."""
    if is_fractal(call):
        rows, cols = call.table.extents
        return rows if is_row(call) else rows * cols
    return row_kernel(call).capacity(call.table) if is_row(call) else prod(call.table.shape)


# --- Constraints ---------------------------------------------------------------------------------------------


@case("2-D index")
def elem_meant(call: Call) -> bool:
    """Row, probably by mistake: the index has two dimensions."""
    return min(call.idx.valid) > 1


def row_of_indices(call: Call) -> VecTile:
    """The declaration of a tile with one index per row, padded to 32 bytes."""
    count, kind = call.dst.valid_rows, call.idx.dtype
    return VecTile(kind, 1, -(-count // kind.c0) * kind.c0, (1, count))


AICORE = Fix(Wording('pto.target("cpu@aicore")', "--target cpu@aicore", "--target cpu@aicore"), " models that build")
OWN_TYPE = Fix(
    "pass ", Wording("pto.GlobalTensor", "a tensor view", "a GlobalTensor"), " over memory of the destination's type"
)
NO_EXECUTOR = Fix("leave ", Option("executor", GatherExec), " out")


def room(call: Call) -> Fix:
    """A workspace in global memory."""
    count, kind = call.dst.rows * call.dst.cols, call.dst.dtype
    return Fix("pass ", tensor_of(f"np.empty({count}, '{kind}')", f"{count} {kind}"))


@case("1-D index")
def one_or_other(call: Call) -> bool:
    """A one-dimensional index, as a row or a column."""
    return call.idx.valid in ((1, call.dst.valid_rows), (call.dst.valid_rows, 1))


def row_or_column(call: Call) -> str:
    """The valid extents of a one-dimensional index."""
    rows = call.dst.valid_rows
    return f"valid [1, {rows}] or [{rows}, 1]: one index for each destination row"


ROW_INDEX = Rule(
    "MG-MODE-03", "idx", lambda c: f"valid [1, {c.dst.valid_rows}]: one index for each destination row",
    lambda c: c.idx.valid == (1, c.dst.valid_rows), on=error("a2a3"), found=valid_of("idx"),
    kind=ByCase(elem_meant, "H-40", ByExtent("H-09")), when=into_ub & is_row,
    fix=lambda c: (
        Fix("did you mean ", option("coalesce", Coalesce.Elem), "?")
        if elem_meant(c)
        else Fix("make it a tile of 1 row: ", row_of_indices(c))
    ),
)  # fmt: skip
COLUMN_INDEX = replace(ROW_INDEX, expect=row_or_column, holds=one_or_other)
ELEM_INDEX = Rule(
    "MG-MODE-04", "idx", lambda c: f"valid {show_extents(c.dst.valid)}, as the destination",
    lambda c: c.idx.valid == c.dst.valid, on=error(*NPU), found=valid_of("idx"), kind="H-45", when=into_ub & is_elem,
    fix="give the index tile the destination's valid shape",
)  # fmt: skip


def consecutive(tile: TileSpec) -> bool:
    """Whether the entries of a one-dimensional index tile are contiguous."""
    lanes = row_lanes(tile)
    return lanes == Layout.plain(1, 0) or max(tile.valid) == 1


def standing_index(call: Call) -> Fix:
    """A declaration of the index that is portable."""
    return Fix("declare it as ", row_of_indices(call), ", which every target takes")


stands = Case("[R, 1] index", lambda c: c.dst.valid_rows > 1 and c.idx.valid == (c.dst.valid_rows, 1))
side_by_side = Case("consecutive", lambda c: consecutive(c.idx))
in_plain_rows = into_ub & is_row & ~is_fractal
has_scratch = Case("with scratch", lambda c: c.scratch is not None)
known_type = Case("a PTO type", lambda c: c.dst.dtype in PTO_TYPES)
nd_table = Case("ND table", lambda c: c.table.layout_kind is GlobalLayout.ND)
nz_table = Case("NZ table", lambda c: c.table.layout_kind is GlobalLayout.NZ)
one_stride = Case("outer dims counted as rows", lambda c: row_kernel(c).capacity is rows_of)


OPERANDS = (
    routing("MG-LOC-03", "table", "a GlobalTensor in GM", lambda c: is_tensor(c.table), kind="H-09", fix=WRAP),
    routing("MG-LOC-01", "dst", "a tile", lambda c: is_tile(c.dst), kind="H-09",
            fix=Fix("gather into a tile, then ", OpName("tstore"), " it")),
    anywhere("MG-LOC-01", "dst", "a Vec tile (or, on a2a3 and a5, a Mat tile)",
             lambda c: c.dst.loc in (TileType.Vec, TileType.Mat), kind="H-09", fix="gather into a Vec tile"),
    Rule("MG-LOC-04", "dst", "a Vec tile; a Mat destination needs a2a3 or a5", lambda c: c.dst.loc is not TileType.Mat,
         on=error("cpu", "host"), kind="H-09", blocks="route", fix='run on "a2a3" or "a5", or gather into a Vec tile'),
    routing("MG-LOC-02", "idx", "a tile", lambda c: is_tile(c.idx), when=into_ub, kind="H-09", fix=LOAD_INDEX_FIRST),
    anywhere("MG-LOC-02", "idx", "in a Vec tile", lambda c: c.idx.loc is TileType.Vec, when=into_ub, kind="H-09",
             fix=LOAD_INDEX),
    Rule("MG-L1-03", "idx", "a GlobalTensor of int32 or uint32: the cube core cannot read UB",
         lambda c: is_tensor(c.idx) and is_index_type(c, c.idx.dtype), on=error(*NPU), when=into_l1,
         kind=ByCase(Case("a tensor", lambda c: is_tensor(c.idx)), "H-08", "H-09"), blocks="route",
         fix=Fix("pass the index as ", tensor_of("array.astype('int32')", "int32"))),
    routing("A-42", "scratch", "given for a Mat destination in elem mode, and only there",
            lambda c: (c.scratch is not None) == (into_l1(c) and is_elem(c)), fix=lambda c: Fix(
                "only an elem gather into L1 takes ", Wording("scratch=", "scratch", "scratch"),
                f": {c.dst.rows * c.dst.cols} {c.dst.dtype} in GM")),
    Rule("MG-L1-07", "scratch", lambda c: f"a GlobalTensor of {c.dst.dtype}",
         lambda c: is_tensor(c.scratch) and c.scratch.dtype is c.dst.dtype, on=error(*NPU), when=has_scratch,
         blocks="route", fix=OWN_TYPE),
    Rule("MG-SIMT-15", "executor", "scalar: A2/A3 has no SIMT engine", lambda c: c.executor is not GatherExec.Simt,
         on=error("a2a3"), found="simt", blocks="route", fix=NO_EXECUTOR),
    Rule("MG-SIMT-16", "executor", "left out in row mode: Simt collects single elements",
         lambda c: not (is_row(c) and c.executor is GatherExec.Simt), on=error("a5"), found="simt", blocks="route",
         fix=NO_EXECUTOR),
    routing("A-42", "executor", "given only with a Mat destination in elem mode",
            lambda c: c.executor is None or (into_l1(c) and is_elem(c)), found=lambda c: c.executor.text,
            fix=NO_EXECUTOR),
)  # fmt: skip

TAKES_ANY_LAYOUT = Table({"a5": True})
"""Targets whose gather into L1 does not look at the layout of the table."""

TYPES = (
    table_not_empty(),
    data_type("dst", GATHER_TYPES),
    Rule("MG-TYPE-02", "dst", lambda c: f"one of {names(c.lookup(GATHER_TYPES))} (float8 needs the AICORE build)",
         lambda c: c.dst.dtype in c.lookup(GATHER_TYPES), on=error("cpu"), kind="H-44", when=known_type,
         found=type_of("dst"), fix=AICORE),
    Rule("MG-TYPE-03", "dst", "of another type than an 8-bit float: the A2/A3 vector core has none",
         lambda c: c.dst.dtype in c.lookup(GATHER_TYPES), on=error("a2a3"), when=into_ub & known_type, kind="H-44",
         found=type_of("dst"), fix="move the bytes as uint8"),
    Rule("MG-L1-17", "dst", f"one of {names(BASE)}", lambda c: c.dst.dtype in BASE, on=error("a2a3"), when=into_l1,
         kind="H-44", found=type_of("dst"), fix="move the bytes as uint8"),
    Rule("MG-L1-19", "dst", "at most 4 bytes an element: the nd2nz engine moves b8, b16 and b32",
         lambda c: c.dst.dtype.size <= 4, on=error(*NPU), when=into_l1 & is_row,
         found=lambda c: f"{c.dst.dtype.size} bytes", fix="gather in elem mode, or as a narrower type"),
    index_type("MG-TYPE-05"),
    same_type("MG-TYPE-06", "table", "dst", when=into_ub, kind="H-08",
              elsewhere=("MG-HAZ-03",)),
    header_sizes("dst", "table"),
    same_type("MG-L1-21", "table", "dst", *NPU, when=into_l1, kind="H-08", blocks="execution"),
    Rule("MG-L1-21", "table", "Layout::ND", lambda c: is_nd_tensor(c.table), on=error(*NPU), when=into_l1,
         blocks="execution",
         kind=ByCase(Case("silent", lambda c: c.lookup(TAKES_ANY_LAYOUT)), "H-02", "H-09"), fix=ND_TABLE),
)  # fmt: skip

MIXED_PAIRS = {("nd", "nz"), ("nz", "nd"), *(("dn", form) for form in FORMS.values())}
"""Table layouts with tile forms that A2/A3 cannot gather between."""

TABLE_LAYOUTS = (
    Rule("MG-LAY-01", "dst", "RowMajor + NoneBox", lambda c: is_nd_tile(c.dst), on=error("cpu"), kind="H-09",
         fix=PLAIN_TILE),
    Rule("MG-LAY-02", "idx", "RowMajor + NoneBox, or [R, 1] ColMajor (A-03)",
         lambda c: is_nd_tile(c.idx) or (c.idx.format == "dn" and c.idx.cols == 1), on=error("cpu"), kind="H-09",
         fix=PLAIN_TILE),
    Rule("MG-LAY-03", "table", "Layout::ND", lambda c: c.table.layout_kind is GlobalLayout.ND, on=error("cpu", "host"),
         kind="H-09", fix=ND_TABLE),
    Rule("MG-LAY-05", "dst", "in ND form, with an ND table: cpu has no NZ path",
         lambda c: c.dst.format != "nz" and c.table.layout_kind is not GlobalLayout.NZ, on=error("cpu"), kind="H-09",
         found=lambda c: f"{c.dst} and {c.table}", fix='run on "a2a3", or gather from ND into ND'),
    Rule("MG-LAY-06", "idx", "RowMajor + NoneBox", lambda c: is_nd_tile(c.idx), on=error("a2a3"), when=into_ub,
         kind="H-09", fix=PLAIN_TILE),
    Rule("MG-LAY-07", "dst", "RowMajor + NoneBox for an ND table", lambda c: is_nd_tile(c.dst), on=error("a2a3"),
         when=into_ub & nd_table, kind="H-09", fix=PLAIN_TILE),
    Rule("MG-LAY-08", "dst", "ColMajor + RowMajor boxes of 512 bytes for an NZ table", lambda c: c.dst.is_nz,
         on=error("a2a3"), when=into_ub & nz_table, kind="H-09", fix=NZ_TILE),
    Rule("MG-LAY-09", "table", "ND with an ND tile or NZ with an NZ tile",
         lambda c: (c.table.layout_kind.text, c.dst.format) not in MIXED_PAIRS, on=error("a2a3"), when=into_ub,
         found=lambda c: f"{c.table.layout_kind.name} with {c.dst}", kind="H-09",
         fix="give table and tile the same layout"),
    Rule("MG-LAY-12", "dst", "NoneBox: the A5 kernel knows no NZ tile in UB", lambda c: is_unboxed(c.dst),
         on=error("a5"), when=into_ub, kind="H-09", fix=PLAIN_TILE),
    Rule("CO-LAY-05", "idx", "NoneBox", lambda c: is_unboxed(c.idx), on=error("a5"), when=into_ub, kind="H-09",
         fix=PLAIN_TILE),
    Rule("MG-NZ-13", "table", "ND: A5 has no NZ path on the UB gather",
         lambda c: not (c.table.layout_kind is GlobalLayout.NZ and c.dst.format == "nz"), on=error("a5"), when=into_ub,
         kind="H-09", fix="repack the table to ND"),
    Rule("MG-NZ-13", "table", "an NZ table and tile run on a2a3 only; A5 refuses them", lambda c: not is_fractal(c),
         on=note("a2a3"), when=into_ub, kind="H-30", elsewhere=("CO-HAZ-02",)),
    Rule("MG-LAY-15", "table", "Layout::ND", lambda c: c.table.layout_kind is GlobalLayout.ND, on=error("a5"),
         when=into_ub, kind="H-02", fix="repack the table to ND"),
    Rule("MG-HAZ-11", "idx", "consecutive in memory: the A5 kernel reads idx[row] linearly",
         lambda c: consecutive(c.idx), on=error("a5"), when=into_ub & is_row & one_or_other, kind="H-28",
         fix="use [1, R] RowMajor or [R, 1] ColMajor"),
    Rule("MG-LAY-13", "idx", "the layout matrix has [1, R] RowMajor and [R, 1] ColMajor; [R, 1] RowMajor is not in it, "
         "though its bytes are the same", lambda c: c.idx.blayout is BLayout.ColMajor, on=note("a5"),
         when=into_ub & is_row & stands & side_by_side, fix=standing_index),
    Rule("MG-LAY-04", "idx", "an [R, 1] index is not portable as RowMajor: a5 lists [R, 1] ColMajor, a2a3 takes [1, R]",
         lambda c: c.idx.blayout is BLayout.ColMajor, on=note("cpu"), when=is_row & stands,
         kind=ByCase(side_by_side, None, "H-28"), fix=standing_index),
    *(Rule("A-03", operand, "a ColMajor index or destination is refused on a2a3",
           lambda c, operand=operand: c.values[operand].blayout is BLayout.RowMajor, on=note("cpu", "a5"),
           when=into_ub, kind="H-29") for operand in ("idx", "dst")),
    Rule("MG-L1-22", "dst", "ColMajor + RowMajor boxes of 512 bytes", lambda c: c.dst.is_nz, on=error(*NPU),
         when=into_l1, kind="H-09", fix=NZ_TILE, blocks="execution"),
)  # fmt: skip

SHAPES = (
    ROW_INDEX,
    replace(COLUMN_INDEX, id="MG-MODE-05", on=error("a5")),
    replace(COLUMN_INDEX, id="MG-MODE-06", on=error("cpu", "host")),
    ELEM_INDEX,
    replace(ELEM_INDEX, id="A-71", on=error("cpu", "host")),
    extents_positive("MG-SHAPE-04", "dst", *NPU),
    extents_positive("A-55", "dst", "cpu", "host"),
    Rule("MG-SHAPE-03", "table", "of Shape<1, 1, 1, TableRows, RowWidth>",
         lambda c: rows_of(c.table) == c.table.shape[3], on=error("cpu"),
         kind=ByCase(is_row, "H-05", ByExtent("H-09")), when=nd_table, fix=FLATTEN),
    Rule("MG-HAZ-09", "table", "of Shape[0..2] == 1 for the row count to agree on every target",
         lambda c: rows_of(c.table) == c.table.shape[3], on=hazard("a5"), kind="H-05", when=into_ub & is_row & nd_table,
         fix=FLATTEN),
    Rule("MG-SHAPE-05", "table", lambda c: f"of Shape[4] == {c.dst.valid_cols}, the destination's valid columns",
         lambda c: c.table.shape[4] == c.dst.valid_cols, on=error("a5"), when=into_ub & is_row,
         found=lambda c: f"Shape[4] = {c.table.shape[4]}", kind="H-03",
         fix="gather whole rows: valid columns equal to the table's width"),
    anywhere("A-57", "dst", lambda c: f"at most {c.table.extents[1]} valid columns, the width of the table",
             lambda c: c.dst.valid_cols <= c.table.extents[1], when=is_row, kind="H-07",
             found=lambda c: f"{c.dst.valid_cols} valid columns",
             fix=Fix("shrink ", VALID, " to the width of the table")),
    unit_columns(is_row),
    even_rows(is_row & ~is_fractal & one_stride, "a2a3", "a5", "host"),
    Rule("MG-HAZ-08", "table", "packed, Stride[3] == Shape[4]: the target's kernel does not look at Stride[3]",
         packed_rows, on=error("cpu", "a5"), when=in_plain_rows, found=row_pitch, kind="H-04",
         fix=PACKED, elsewhere=("A-09",)),
    Rule("MG-HAZ-08", "table", "padded rows are honoured here; cpu and a5 do not look at Stride[3]", packed_rows,
         on=note("a2a3"), when=in_plain_rows, kind="H-04", elsewhere=("A-09",)),
    packed_a5_rows(in_plain_rows),
    Rule("A-10", "table", "packed: elements are counted through the gaps", lambda c: c.table.is_packed,
         on=hazard(*EVERYWHERE), when=is_elem & ~is_fractal, kind="H-06", fix=PACKED),
    Rule("MG-SHAPE-07", "table", "of Shape[3] == 16", lambda c: c.table.shape[3] == FRACTAL_ROWS, on=error("a2a3"),
         when=is_fractal, kind=ByExtent("H-09"), fix=NZ_SHAPE),
    Rule("MG-SHAPE-08", "table", lambda c: f"of Shape[4] == {c.dst.dtype.c0}",
         lambda c: c.table.shape[4] == c.dst.dtype.c0, on=error("a2a3"), when=is_fractal,
         kind=ByExtent("H-09"), fix=NZ_SHAPE),
    Rule("MG-SHAPE-09", "dst", lambda c: f"of Cols a multiple of {c.dst.dtype.c0}",
         lambda c: c.dst.cols % c.dst.dtype.c0 == 0, on=error("a2a3"), when=is_fractal, kind="H-09", fix=NZ_PAD),
    Rule("MG-SHAPE-10", "dst", "of Rows a multiple of 16", lambda c: c.dst.rows % FRACTAL_ROWS == 0, on=error("a2a3"),
         when=is_fractal, kind="H-09", fix=NZ_PAD),
    Rule("A-47", "dst", lambda c: f"of at least {c.table.extents[1]} Cols: a row transfer writes them all",
         lambda c: c.dst.cols >= c.table.extents[1], on=error("a2a3"), when=is_fractal & is_row, kind="H-37",
         fix="widen the tile to the table's logical columns"),
    burst_multiple("MG-ALIGN-01", "dst", "cpu"),
    Rule("MG-ALIGN-02", "dst", "of Cols * sizeof(T) a multiple of 32",
         lambda c: c.dst.cols * c.dst.dtype.size % 32 == 0, on=error("a2a3"), when=into_ub, kind="H-09",
         fix=lambda c: f"pad Cols up to a multiple of {c.dst.dtype.c0}", only_alignment=True),
    burst_multiple("MG-ALIGN-03", "dst", "a5", when=into_ub),
)  # fmt: skip

L1_SHAPES = (
    Rule("MG-L1-23", "dst", lambda c: f"of Cols a multiple of {c.dst.dtype.c0} and Rows a multiple of 16",
         lambda c: c.dst.cols % c.dst.dtype.c0 == 0 and c.dst.rows % FRACTAL_ROWS == 0, on=error(*NPU), when=into_l1,
         kind="H-09", blocks="execution", fix=NZ_PAD),
    Rule("A-44", "idx", "Layout::ND", lambda c: is_nd_tensor(c.idx), on=error(*NPU), when=into_l1, kind="H-09",
         fix=ND_TABLE),
    Rule("A-44", "idx", lambda c: f"at least {c.dst.valid_rows} indices, side by side",
         lambda c: c.idx.elements >= c.dst.valid_rows and c.idx.is_packed, on=error(*NPU), when=into_l1 & is_row,
         kind=ByExtent("H-09"),
         fix="pass one packed run of indices, one for each destination row"),
    Rule("A-44", "idx", lambda c: f"of shape {show_extents(c.dst.valid)}, as the destination",
         lambda c: c.idx.shape == (1, 1, 1, *c.dst.valid), on=error(*NPU), when=into_l1 & is_elem, kind="H-45",
         fix="pass an index array of the destination's valid shape"),
    Rule("MG-L1-07", "scratch", lambda c: f"at least {c.dst.rows * c.dst.cols} elements, side by side",
         lambda c: c.scratch.elements >= c.dst.rows * c.dst.cols and c.scratch.is_packed, on=error(*NPU),
         when=has_scratch, kind="H-31", asserted=(),
         fix=room),
)  # fmt: skip


# --- What moves ----------------------------------------------------------------------------------------------


def index_of(call: Call, lanes: Layout, unit: IndexUnit, *, remap: Remap | None = None, width: int = 0) -> Index:
    """The index of the source."""
    return Index(Access("idx", lanes), Side.SRC, unit, capacity(call), remap or REMAPS[call.oob], width, is_cast(call))


def lower_row(call: Call) -> tuple[Move, ...]:
    """dst[r, j] = table[idx[r], j] (MG-SEM-02)."""
    kernel, dst = row_kernel(call), call.dst
    lanes = Layout.plain(1, 0) if kernel.linear_index else row_lanes(call.idx)
    source = Access("table", Layout.plain(kernel.stride(call.table, dst), 1))
    return (Move(dst.valid, Access("dst", dst.layout), source, index_of(call, lanes, IndexUnit.ROW)),)


def lower_elem(call: Call) -> tuple[Move, ...]:
    """dst[i, j] = tableFlat[idx[i, j]] (MG-SEM-03)."""
    index = index_of(call, call.idx.layout, IndexUnit.ELEMENT)
    return (Move(call.dst.valid, Access("dst", call.dst.layout), Access("table", flat()), index),)


def lower_row_nz(call: Call) -> tuple[Move, ...]:
    """One multi-burst a row: every logical column of the table (MG-NZ-06)."""
    index = index_of(call, row_lanes(call.idx), IndexUnit.ROW, remap=skip_if_zero(call))
    move = Move(
        (call.dst.valid_rows, call.table.extents[1]),
        Access("dst", call.dst.layout),
        Access("table", call.table.layout),
        index,
    )
    return (*zero_tile_first(call), move)


def lower_elem_nz(call: Call) -> tuple[Move, ...]:
    """The index splits into (idx / logicalCols, idx mod logicalCols) (MG-NZ-07).

    The kernel walks block columns, then rows, then the columns of a block (MG-NZ-10).
    """
    index = index_of(call, call.idx.layout, IndexUnit.ELEMENT, width=call.table.extents[1])
    dst, table = Access("dst", call.dst.layout), Access("table", call.table.layout)
    return (Move(call.dst.valid, dst, table, index, block=call.dst.dtype.c0),)


def lower_l1_row(call: Call) -> tuple[Move, ...]:
    """One nd2nz transfer a row, ND to NZ in flight (MG-L1-09)."""
    index = index_of(call, Layout.plain(1, 0), IndexUnit.ROW, remap=skip_if_zero(call))
    source = Access("table", Layout.plain(call.table.stride[3], 1))
    return (*zero_tile_first(call), Move(call.dst.valid, Access("dst", call.dst.layout), source, index))


def lower_l1_elem(call: Call) -> tuple[Move, ...]:
    """Zero the scratch, gather into it at NZ offsets, copy it whole into L1 (MG-L1-12, MG-L1-13)."""
    size = call.dst.rows * call.dst.cols
    lanes = Layout.plain(call.idx.stride[3], call.idx.stride[4])
    index = index_of(call, lanes, IndexUnit.ELEMENT)
    stage = Access("scratch", flat())
    return (
        Move((1, size), stage, Fill()),
        Move(call.dst.valid, Access("scratch", call.dst.layout), Access("table", flat()), index),
        Move((1, size), Access("dst", flat()), stage),
    )


def skip_if_zero(call: Call) -> Remap:
    """Kernels that zero the tile first issue no transfer for a row outside the table (MG-OOB-12, MG-L1-11)."""
    return Remap.SKIP if call.oob is GatherOOB.Zero else REMAPS[call.oob]


def zero_tile_first(call: Call) -> tuple[Move, ...]:
    """Zero the whole padded tile before the rows are written."""
    whole = Move((1, call.dst.rows * call.dst.cols), Access("dst", flat()), Fill())
    return (whole,) if call.oob is GatherOOB.Zero else ()


# --- Kernels: pipes, flags, launches, costs ------------------------------------------------------------------


def touches(idx: str, table: str, dst: str, scratch: str = "") -> tuple[Effect, ...]:
    """The pipes that read the index and the table, and write the destination (and scratch)."""
    staged = (Effect("scratch", "update", scratch), Effect("scratch", "read", dst)) if scratch else ()
    return (Effect("idx", "read", idx), Effect("table", "read", table), Effect("dst", "write", dst), *staged)


def zeroes(call: Call) -> tuple[Effect, ...]:
    """The scalar loop writes the zeroes of indices outside the table (MG-OOB-10, MG-OOB-12)."""
    return (Effect("dst", "write", "S"),) if call.oob is GatherOOB.Zero else ()


def zeroed_rows(call: Call, outside: int) -> int:
    """Bytes of the rows outside the table (MG-OOB-10)."""
    return outside * call.dst.valid_cols * call.dst.dtype.size if call.oob is GatherOOB.Zero else 0


def zeroed_tile(call: Call, _outside: int) -> int:
    """Bytes of the whole tile (MG-OOB-12, MG-L1-11)."""
    return call.dst.nbytes if call.oob is GatherOOB.Zero else 0


def whole_blocks(call: Call) -> int:
    """A transfer writes whole 32-byte blocks (A-67)."""
    size = call.dst.dtype.size
    return -(-call.dst.valid_cols * size // BLOCK) * BLOCK // size


def table_width(call: Call) -> int:
    """A fractal transfer writes every logical column (A-47)."""
    return call.table.extents[1]


def row_batches(rows: int, _cols: int, batches: int) -> Work:
    """A transfer for each row and batch (MG-SYNC-08)."""
    return Work(dma=rows * batches)


ROW = RouteKernel(
    touches("S", "MTE2", "MTE2"),
    besides=zeroes,
    handshake=Handshake(  # MG-SYNC-04, MG-SYNC-10
        before=(("V", "S"), ("MTE3", "S")),
        body=("S", "MTE2"),
        after=(("S", "MTE2"), ("MTE2", "V"), ("MTE2", "MTE3"), ("S", "V"), ("S", "MTE3")),
    ),
    work=lambda rows, _cols, _batches: Work(dma=rows),  # MG-SYNC-07
    cost={"S": Cost("row loop", zeroed=zeroed_rows), "MTE2": Cost("row transfers", "GM to UB GB/s")},
    lower=lower_row,
    reach=whole_blocks,
    rows=by_rows,
)
ROW_NZ = replace(
    ROW,
    rows=None,
    handshake=replace(ROW.handshake, after_fill=(("S", "MTE2"),)),
    work=row_batches,
    cost={"S": Cost("row loop", zeroed=zeroed_tile), "MTE2": Cost("fractal row transfers", "GM to UB GB/s")},
    lower=lower_row_nz,
    reach=table_width,
)
ELEM = RouteKernel(
    touches("S", "S", "S"),
    handshake=Handshake(  # MG-SYNC-05, MG-SYNC-11
        before=(("V", "S"), ("MTE3", "S"), ("MTE2", "S")), body=("S",), after=(("S", "V"), ("S", "MTE2"), ("S", "MTE3"))
    ),
    work=lambda rows, cols, _batches: Work(scalar=rows * cols),  # MG-SYNC-09
    cost={"S": Cost("element gather")},
    lower=lower_elem,
    rows=by_rows,
    by_element=True,
    index_note="H-24",
)
ONE_FLAGS = Handshake(before=(("V", "S"),), body=("S",), after=(("S", "V"),))  # MG-SYNC-14
ONE_ELEM = replace(ELEM, handshake=ONE_FLAGS, work=None, index_note="")
L1_KERNELS = {
    "mgather.l1.row": RouteKernel(
        touches("S", "MTE2", "MTE2"),
        handshake=Handshake(body=("S", "MTE2"), after=(("S", "MTE2"),)),
        work=ROW.work,
        cost={"S": Cost("row loop"), "MTE2": Cost("row transfers", "GM to L1 GB/s", zeroed=zeroed_tile)},
        lower=lower_l1_row,
    ),
    "mgather.l1.elem": RouteKernel(
        touches("S", "S", "MTE2", "S"),
        handshake=Handshake(body=("S", "MTE2"), between=(("S", "MTE2"),)),  # MG-L1-14
        work=lambda rows, cols, _batches: Work(dma=1, scalar=rows * cols),
        cost={"S": Cost("element gather to scratch"), "MTE2": Cost("scratch to L1", "GM to L1 GB/s")},
        lower=lower_l1_elem,
        by_element=True,
    ),
}
L1_SIMT = RouteKernel(
    touches("V", "V", "MTE2", "V"),
    handshake=Handshake(body=("V", "MTE2"), between=(("AIV.S", "AIC.MTE2"),), cross_ids=(2,)),  # MG-SYNC-17
    launch=padded_launch,
    cost={"V": Cost("SIMT to scratch"), "MTE2": Cost("scratch to L1", "GM to L1 GB/s")},
    lower=lower_l1_elem,  # the same result by MG-SIMT-23
    by_element=True,
)
SIMT = RouteKernel(touches("V", "V", "V"), handshake=ON_V, cost={"V": Cost("SIMT")}, rows=by_rows)
OFF_CHIP = {"mgather.row": RouteKernel(lower=lower_row), "mgather.elem": RouteKernel(lower=lower_elem)}

KERNELS = {
    "cpu": OFF_CHIP,
    "host": OFF_CHIP,
    "a2a3": {
        "mgather.row": ROW,
        "mgather.elem": ELEM,
        "mgather.row.nz": ROW_NZ,
        "mgather.elem.nz": replace(ELEM, lower=lower_elem_nz),
        **L1_KERNELS,
    },
    "a5": {
        "mgather.row": replace(SIMT, launch=row_launch, lower=lower_row),
        "mgather.elem": replace(SIMT, launch=elem_launch, lower=lower_elem, by_element=True),
        "mgather.elem.scalar": ONE_ELEM,
        **L1_KERNELS,
        "mgather.l1.elem.simt": L1_SIMT,
    },
}
"""By family and route."""


def lower(call: Call) -> tuple[Move, ...]:
    """The moves of the kernel."""
    assert call.route_kernel.lower is not None, f"{call.route} is no kernel of {call.target}"
    return call.route_kernel.lower(call)


CONFLICTS = (
    OrderHazard("H-24", "UB", "MTE2", "second", "idx", "read", "write"),
    OrderHazard("H-25", "UB", "MTE3", "first", "", "write", "read"),
    OrderHazard("H-26", "UB", "MTE3", "second", "dst", "write", "read"),
)


def gathered(call: Call) -> TileSpec | None:
    """The destination of a gather: a row for each index, or an element."""
    table, index = call.table, call.idx
    if not (is_tensor(table) and is_tile(index)):
        return None
    if not is_row(call):
        return TileSpec(table.dtype, TileType.Vec, index.rows, index.cols, *index.valid, dynamic=index.dynamic)
    width = table.shape[4]
    if is_unknown(width) or 1 not in (index.rows, index.cols) or any(index.dynamic):
        return None
    return TileSpec(table.dtype, TileType.Vec, max(index.rows, index.cols), width, max(index.valid), width)


PARAMS = (
    Param("dst", "write", "destination tile: Vec, or Mat in NZ form on a2a3 and a5"),
    Param("table", "read", "the table in GM", kind="memory"),
    Param("idx", "read", "int32 or uint32 indices: a Vec tile, or a GM tensor for a Mat destination",
          contiguous="column", kind="tile or memory", role="index"),
    Param("scratch", "update", "GM workspace of Rows * Cols elements, for an elem gather into L1", optional=True,
          kind="memory", role="scratch"),
)  # fmt: skip
MODIFIERS = (
    Modifier("coalesce", Coalesce, lambda c: Coalesce.Row if c.scratch is None else Coalesce.Elem,
             "what one index moves", "row; elem when a scratch is given",
             Attribute("coalesce", "coalesce", always=True, suffix=True, newer=True, example=Coalesce.Elem)),
    Modifier("oob", GatherOOB, always(GatherOOB.Undefined), "what an index outside the table does",
             text=Attribute("gatherOob", "gather_oob", suffix=True)),
    Modifier("executor", GatherExec, None, "which unit collects the elements of an elem gather into L1", "scalar",
             Attribute("gatherExec", brief="exec", suffix=True)),
)  # fmt: skip

GATHER_POLICIES = Fix(option("oob", GatherOOB.Clamp, GatherOOB.Wrap, GatherOOB.Zero))
REMAP = Fix("remap negative indices yourself first, or use ", option("oob", GatherOOB.Zero))
BELOW_CAPACITY = Fix(BELOW, GATHER_POLICIES)
L1_FACT = "into L1: as on A2/A3, rows Stride[3] apart; elem goes through the scratch, which keeps the NZ image"

MGATHER = Instruction(
    name="mgather",
    summary="Gather rows or elements of a GM table into a tile, through an index.",
    meaning=(
        "row:  dst[r, j] = table[idx[r], j]        0 <= r < ValidRow, 0 <= j < ValidCol",
        "elem: dst[i, j] = tableFlat[idx[i, j]]    over the destination's valid region",
    ),
    operands=PARAMS,
    modifiers=MODIFIERS,
    pages=Pages(
        documents=("CO", "MG"),
        types=GATHER_TYPES,
        facts={
            "cpu": ("row: an index names one of Shape[3] rows, Shape[4] elements apart",),
            "a2a3": (
                "row: an index names one of Shape[0] * ... * Shape[3] rows, Stride[3] elements apart",
                "row, NZ table: one of Shape[2] * 16 rows, by block strides; every logical column is written",
                "row with oob=zero: the scalar pipe writes the zeroes, MTE2 the rows",
                L1_FACT,
            ),
            "a5": ("row: an index names one of Shape[3] rows, ValidCol elements apart", L1_FACT),
        },
    ),
    destination=Destination(type=gathered, writes_padding=True),
    text=OpText(stored=("ins", "ins", "outs", "ins")),
    spellings={
        "C++": (
            "MGATHER<Coalesce, GatherOOB>(dst, table, idx[, events...])",
            "MGATHER<Coalesce, GatherOOB[, GatherExec]>(dst, table, idx[, scratch])    into L1",
        ),
        "PTO-AS": ("%dst = mgather %mem, %idx : !pto.memref<...>, !pto.tile<...> -> !pto.tile<...>",),
        **Text(("table", "idx"), orders=(("table", "idx", "scratch"),)).spellings("mgather", MODIFIERS),
    },
    rules=(*OPERANDS, *TYPES, *TABLE_LAYOUTS, *SHAPES, *L1_SHAPES),
    lower=lower,
    route=route,
    cpp=Cpp(
        call="MGATHER(dst, table, idx, scratch)",
        template=lambda c: (
            (c.coalesce, None),
            (c.oob, GatherOOB.Undefined),
            (c.executor or GatherExec.Scalar, GatherExec.Scalar),
        ),
        row_index=is_row,
    ),
    kernels=KERNELS,
    reports=FaultReports(
        conflicts=CONFLICTS,
        faults={
            "outside": Fault("MG-OOB-04", "H-10", BELOW_CAPACITY),
            "negative": Fault("MG-HAZ-12", "H-13", REMAP),
            "shared": Fault("A-38", None, "give every operand memory of its own"),
        },
    ),
)
