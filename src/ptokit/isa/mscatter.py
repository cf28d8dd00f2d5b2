"""MSCATTER: rows or elements of a tile into a table in global memory, placed by index."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ptokit.finding.fix import CodePart, is_cpp
from ptokit.isa.mgather import consecutive
from ptokit.isa.vocabulary import *

# --- Mode: the index shape decides (MS-MODE-01) --------------------------------------------------------------


def line(count: int) -> tuple[int, int]:
    """A row index as a row."""
    return 1, count


def column(count: int) -> tuple[int, int]:
    """A row index as a column."""
    return count, 1


MODES: Table[Coalesce] = Table({})
"""Targets with a default that does not depend on the index shape (A-72)."""
ROW_INDEX: Table[tuple[Callable[[int], tuple[int, int]], ...]] = Table({})
"""Targets where the index shape does not decide, and the forms of a row index there (A-72)."""
is_stated = Case("mode stated", lambda c: bool(c.lookup(ROW_INDEX)))


def row_index_forms(call: Call) -> tuple[tuple[int, int], ...]:
    """The valid extents that a row index may have."""
    return tuple(form(call.src.valid_rows) for form in call.lookup(ROW_INDEX, (column,)))


def mode_by_shape(call: Call) -> Coalesce | None:
    """Rows if Cols == 1, elements if Cols == src.Cols, else None."""
    if not (is_tile(call.idx) and is_tile(call.src)):
        return None
    if call.idx.cols == 1:
        return Coalesce.Row
    return Coalesce.Elem if call.idx.cols == call.src.cols else None


@case("[1,N] index")
def is_flat_row_index(call: Call) -> bool:
    """A [1,N] index for an [N,C] source, allowed with an explicit Row (A-05)."""
    return is_row(call) and call.idx.rows == 1 and call.idx.valid == (1, call.src.valid_rows)


ASK_FOR_ROWS = Fix(
    "ask for rows: ",
    option("coalesce", Coalesce.Row),
    ", for a [1, N] index is as wide as the source here and means elements",
)


def asks_for_rows(call: Call) -> bool:
    """Whether an index in elem mode has one row, with a number for each row of the source."""
    return call.idx.rows == 1 and call.src.valid_rows > 1 and call.idx.valid == (1, call.src.valid_rows)


def mode_agrees(call: Call) -> bool:
    """An explicit mode must fit the index shape (A-05)."""
    return call.coalesce is mode_by_shape(call) or is_flat_row_index(call)


# --- Constraints ---------------------------------------------------------------------------------------------

ADD_TYPES = Table(dict.fromkeys(FAMILIES, ("int32", "uint32", "float32", "float16")))
ORDER_TYPES = Table(dict.fromkeys(FAMILIES, ("int32", "float32")))


OTHER_TYPE = "scatter as one of these types, or combine without "
PLAIN_STORE = Fix("scatter without ", Option("atomic", ScatterAtomicOp))
WIDEN = Fix(
    OpName("tcvt"),
    " to float32 and scatter into a float32 table; ",
    OpName("tstore"),
    " takes atomic add of bfloat16 for whole blocks",
)


def atomic(rule: str, op: ScatterAtomicOp, types: Table[tuple[str, ...]]) -> Rule:
    """An atomic operation is allowed for these element types only."""
    return Rule(
        rule, "src",
        lambda c: f"{', '.join(c.lookup(types)) or 'of no type: the target has none'} for atomic {op.text}",
        lambda c: c.src.dtype.name in c.lookup(types), when=Case(f"atomic {op.text}", lambda c: c.atomic is op),
        found=type_of("src"), fix=lambda c: PLAIN_STORE if not c.lookup(types) else
        WIDEN if c.src.dtype.name == "bfloat16" else Fix(OTHER_TYPE, option("atomic", op)),
    )  # fmt: skip


adds = Case("atomic add", lambda c: c.atomic is ScatterAtomicOp.Add)
orders = Case("atomic max or min", lambda c: c.atomic in (ScatterAtomicOp.Max, ScatterAtomicOp.Min))
listed_type = Case("a PTO type", lambda c: c.src.dtype in PTO_TYPES and c.src.dtype is not HIFLOAT8)

OPERANDS = (
    routing("MS-LOC-03", "table", "a GlobalTensor in GM", lambda c: is_tensor(c.table), kind="H-09", fix=WRAP),
    routing("MS-LOC-01", "src", "a tile", lambda c: is_tile(c.src), kind="H-09",
            fix=Fix(OpName("tload"), " the data into a Vec tile first")),
    anywhere("MS-LOC-01", "src", "in a Vec tile", lambda c: c.src.loc is TileType.Vec, kind="H-09",
             fix="scatter from a Vec tile"),
    routing("MS-LOC-02", "idx", "a tile", lambda c: is_tile(c.idx), kind="H-09", fix=LOAD_INDEX_FIRST),
    anywhere("MS-LOC-02", "idx", "in a Vec tile", lambda c: c.idx.loc is TileType.Vec, kind="H-09", fix=LOAD_INDEX),
    routing("MS-MODE-04", "idx", lambda c: f"of 1 column (row scatter) or {c.src.cols} (element scatter)",
            lambda c: c.coalesce is not None, found=lambda c: f"{c.idx.cols} columns", kind="H-09",
            fix=Fix("give the index tile one column, or ", option("coalesce", Coalesce.Row), " and a [1, N] index")),
    routing("A-05", "coalesce", "what the index shape says, or left out", mode_agrees,
            found=lambda c: f"{c.coalesce.text} with {c.idx}", fix="leave coalesce out, or change the index shape"),
)  # fmt: skip

TYPES = (
    table_not_empty(),
    data_type("src"),
    Rule("MS-TYPE-04", "src", "of another type than hifloat8", lambda c: c.src.dtype is not HIFLOAT8, kind="H-44",
         found="hifloat8", fix="scatter the bytes as uint8"),
    Rule("A-20", "src", lambda c: f"one of {names(c.lookup(SCATTER_TYPES))}",
         lambda c: c.src.dtype in c.lookup(SCATTER_TYPES), on=error("cpu", "a2a3"), when=listed_type, kind="H-44",
         found=type_of("src"), fix="scatter the bytes as uint8"),
    index_type("MS-TYPE-05"),
    same_type("MS-TYPE-06", "table", "src", kind="H-08"),
    header_sizes("src", "table", "a2a3", "a5"),
    atomic("MS-ATOM-05", ScatterAtomicOp.Add, ADD_TYPES),
    atomic("MS-ATOM-06", ScatterAtomicOp.Max, ORDER_TYPES),
    atomic("MS-ATOM-07", ScatterAtomicOp.Min, ORDER_TYPES),
    needed("A-16", "src", "of a type that can be added", lambda c: c.src.dtype.is_number, when=adds,
           found=type_of("src"), fix=PLAIN_STORE),
    Rule("A-16", "src", "of a type that can be ordered", lambda c: c.src.dtype.is_integer or c.src.dtype.is_float,
         on=error("host"), when=orders, found=type_of("src"), blocks="execution", fix=PLAIN_STORE),
)  # fmt: skip

TILE_FORMATS: Table[tuple[tuple[str, ...], tuple[str, ...]]] = Table({})
"""Targets with other layouts of source and index: their forms (A-72)."""
FORMAT_TEXTS = {("nd",): "row-major", ("nd", "dn"): "without boxes", (): "row-major, or one ColMajor column"}
PLAIN_FORMATS: tuple[tuple[str, ...], tuple[str, ...]] = (("nd",), ())
NZ_TABLES = Table({"host": False})
"""Targets that scatter NZ tiles into NZ tables (A-72)."""
into_nz = Case("NZ table", lambda c: bool(c.lookup(NZ_TABLES)) and c.table.layout_kind is GlobalLayout.NZ)


def format_text(number: int) -> Callable[[Call], str]:
    """The layouts of source or index."""
    return lambda call: FORMAT_TEXTS[call.lookup(TILE_FORMATS, PLAIN_FORMATS)[number]]


def has_index_format(call: Call) -> bool:
    """Whether the index has a layout of the target."""
    idx, formats = call.idx, call.lookup(TILE_FORMATS, PLAIN_FORMATS)[1]
    return idx.format in formats if formats else is_nd_tile(idx) or (idx.format == "dn" and idx.cols == 1)


TABLE_LAYOUTS = (
    Rule("MS-LAY-01", "src", format_text(0), lambda c: c.src.format in c.lookup(TILE_FORMATS, PLAIN_FORMATS)[0],
         when=~into_nz, kind="H-09", fix=PLAIN_TILE),
    Rule("MS-LAY-01", "idx", format_text(1), has_index_format, kind="H-09", fix=PLAIN_TILE),
    Rule("A-72", "idx", "consecutive in memory: the kernel reads idx[row] linearly", lambda c: consecutive(c.idx),
         on=error("a5"), when=is_row & is_stated, kind="H-09", fix="use [1, R] RowMajor or [R, 1] ColMajor"),
    Rule("A-72", "src", "ColMajor + RowMajor boxes of 512 bytes for an NZ table", lambda c: c.src.is_nz,
         on=error("a2a3"), when=into_nz, kind="H-09", fix=NZ_TILE),
    Rule("A-72", "src", lambda c: f"of Cols a multiple of {c.src.dtype.c0} and Rows a multiple of 16",
         lambda c: c.src.cols % c.src.dtype.c0 == 0 and c.src.rows % FRACTAL_ROWS == 0, on=error("a2a3"), when=into_nz,
         kind="H-09", fix=NZ_PAD),
    Rule("A-72", "table", lambda c: f"of Shape[3] == 16 and Shape[4] == {c.src.dtype.c0}",
         lambda c: c.table.shape[3:] == (FRACTAL_ROWS, c.src.dtype.c0), on=error("a2a3"), when=into_nz,
         kind=ByExtent("H-09"), fix=NZ_SHAPE),
    Rule("A-72", "src", lambda c: f"of at least {c.table.extents[1]} Cols: a row transfer reads them all",
         lambda c: c.src.cols >= c.table.extents[1], on=error("a2a3"), when=into_nz & is_row, kind="H-09",
         fix="widen the tile to the table's logical columns"),
    Rule("CO-LAY-06", "idx", "a ColMajor column holds the same bytes as a row-major one",
         lambda c: c.idx.blayout is BLayout.RowMajor, on=note(*FAMILIES), kind="H-29"),
    anywhere("MS-LAY-02", "table", "Layout::ND", lambda c: c.table.layout_kind is GlobalLayout.ND, when=~into_nz,
             kind="H-09", fix=ND_TABLE),
)  # fmt: skip

SHAPES = (
    Rule("MS-SHAPE-01", "idx", lambda c: f"of {c.src.rows} rows, as the source", lambda c: c.idx.rows == c.src.rows,
         when=~is_flat_row_index, found=lambda c: f"{c.idx.rows} rows", kind="H-09",
         fix=lambda c: ASK_FOR_ROWS if asks_for_rows(c) else "give index and source tiles the same number of rows"),
    anywhere("A-22", "idx", lambda c: f"valid {show_extents(c.src.valid)}, as the source",
             lambda c: c.idx.valid == c.src.valid, when=is_elem, found=valid_of("idx"), kind=ByExtent("H-09"),
             fix=lambda c: ASK_FOR_ROWS if asks_for_rows(c) else "give the index tile the source's valid shape"),
    anywhere("A-22", "idx",
             lambda c: f"valid {' or '.join(map(show_extents, row_index_forms(c)))}: one index for each source row",
             lambda c: c.idx.valid in row_index_forms(c), when=is_row & ~is_flat_row_index, found=valid_of("idx"),
             kind=ByExtent("H-09"), fix="give the index tile one valid entry for each source row"),
    extents_positive("A-55", "src", *EVERYWHERE),
    Rule("MS-SHAPE-02", "table", "of Shape<1, 1, 1, TableRows, RowWidth>",
         lambda c: rows_of(c.table) == c.table.shape[3], kind=ByExtent("H-09"), fix=FLATTEN),
    anywhere("A-19", "src", lambda c: f"of {c.table.shape[4]} valid columns, the width of a table row",
             lambda c: c.src.valid_cols == c.table.shape[4], when=is_row,
             found=lambda c: f"{c.src.valid_cols} valid columns", kind=ByExtent("H-09"),
             fix="scatter whole rows: valid columns equal to the table's width"),
    Rule("A-57", "src", lambda c: f"at most {c.table.extents[1]} valid columns, the width of the table",
         lambda c: c.src.valid_cols <= c.table.extents[1], on=error("a2a3"), when=is_row & is_stated, kind="H-07",
         found=lambda c: f"{c.src.valid_cols} valid columns",
         fix=Fix("shrink ", VALID, " to the width of the table")),
    unit_columns(is_row),
    even_rows(is_row, "host"),
    even_rows(is_row & is_stated & ~into_nz, "a2a3"),
    packed_a5_rows(is_row),
    needed("A-10", "table", "packed: elements are counted through the gaps", lambda c: c.table.is_packed,
           when=is_elem & ~into_nz, kind="H-06", fix=PACKED),
    burst_multiple("MS-ALIGN-01", "src", *FAMILIES, when=~into_nz),
)  # fmt: skip

REMARKS = (
    Rule("A-17", "idx", "an [N, 1] index means rows here; the vendor's CPU simulator takes linear positions",
         lambda c: not is_row(c) or c.idx.cols != 1, on=note("cpu"), kind="H-19"),
    Rule("A-18", "table", "atomic and out-of-bounds policies are documented for A5 only",
         lambda c: c.atomic is ScatterAtomicOp.NONE and c.oob is ScatterOOB.Undefined, on=note("a2a3")),
    Rule("MS-HAZ-04", "src", "the order of a float add is not fixed on hardware: rounding may vary between runs",
         lambda c: not (c.atomic is ScatterAtomicOp.Add and c.src.dtype.is_float), on=note("a5"), kind="H-18"),
    Rule("MS-CONF-02", "conflict", "A2/A3 has no conflict parameter; its kernel happens to write the last one last",
         lambda c: c.conflict is ScatterConflict.Default, on=note("a2a3")),
)  # fmt: skip

# --- What moves ----------------------------------------------------------------------------------------------

IN_ORDER = Table({"host": False})
"""Targets whose kernel writes one lane after the other, so that the last writer wins (A-72)."""
CONFLICTS: Table[ScatterConflict] = Table({})
"""Targets with another default of `conflict`."""


def inner_rows(table: TensorSpec) -> int:
    """The rows of Shape[3]."""
    return table.shape[3]


TABLE_ROWS: Table[Callable[[TensorSpec], int]] = Table({})
"""Targets that do not count the rows of all outer dims."""
SUFFIXES: Table[Callable[[Call], str]] = Table({})
"""Targets with more kernels: the ends of their routes."""
PACKED_ROWS = Table({"a5": True})
"""Targets that write packed rows; elsewhere a row starts at idx * Stride[3]."""

COMBINES = {
    ScatterAtomicOp.NONE: Combine.STORE,
    ScatterAtomicOp.Add: Combine.ADD,
    ScatterAtomicOp.Max: Combine.MAX,
    ScatterAtomicOp.Min: Combine.MIN,
}


def lower(call: Call) -> tuple[Move, ...]:
    """Row: table[idx[i], j] = src[i, j] (MS-SEM-03). Elem: mem[idx[i, j]] = src[i, j] (MS-SEM-02)."""
    if is_row(call):
        stride = call.table.shape[4] if call.lookup(PACKED_ROWS) else call.table.stride[3]
        capacity = call.lookup(TABLE_ROWS, rows_of)(call.table)
        target, lanes, unit = Layout.plain(stride, 1), row_lanes(call.idx), IndexUnit.ROW
    else:
        target, lanes, unit, capacity = flat(), call.idx.layout, IndexUnit.ELEMENT, prod(call.table.shape)
    index = Index(Access("idx", lanes), Side.DST, unit, capacity, REMAPS[call.oob], cast=is_cast(call))
    source = Access("src", call.src.layout)
    return (Move(call.src.valid, Access("table", target), source, index, COMBINES[call.atomic]),)


def lower_nz(call: Call) -> tuple[Move, ...]:
    """As `lower` for an NZ table: a row transfer moves every logical column, elements go block column by block column
    (`MScatterRowNzImpl` and `MScatterElemNzImpl` of pto/npu/a2a3/MScatter.hpp)."""
    (rows, cols), by_row = call.table.extents, is_row(call)
    lanes, unit = (row_lanes(call.idx), IndexUnit.ROW) if by_row else (call.idx.layout, IndexUnit.ELEMENT)
    capacity, width = (rows, 0) if by_row else (rows * cols, cols)
    index = Index(Access("idx", lanes), Side.DST, unit, capacity, REMAPS[call.oob], width, is_cast(call))
    shape = (call.src.valid_rows, cols) if by_row else call.src.valid
    dst, src = Access("table", call.table.layout), Access("src", call.src.layout)
    return (Move(shape, dst, src, index, COMBINES[call.atomic], 0 if by_row else call.src.dtype.c0),)


def lowered(call: Call) -> tuple[Move, ...]:
    """The moves of the kernel."""
    return (call.route_kernel.lower or lower)(call)


def no_suffix(_call: Call) -> str:
    """The kernel of a mode."""
    return ""


def touches(idx: str, src: str, table: str) -> tuple[Effect, ...]:
    """The pipes that read the index and the source and write the table."""
    return (Effect("idx", "read", idx), Effect("src", "read", src), Effect("table", "update", table))


A2A3 = {
    "mscatter.row": RouteKernel(
        touches("S", "MTE3", "MTE3"),
        handshake=Handshake(
            before=(("V", "S"), ("MTE2", "S"), ("S", "MTE3")),
            body=("S", "MTE3"),
            each_row=(("MTE3", "S"),),
            after=(("MTE3", "V"), ("MTE3", "MTE2")),
        ),
        cost={"S": Cost("row loop"), "MTE3": Cost("row transfers", "UB to GM GB/s")},
        rows=by_rows,
    ),
    "mscatter.elem": RouteKernel(
        touches("S", "S", "S"),
        handshake=Handshake(
            before=(("V", "S"), ("MTE2", "S"), ("MTE3", "S")),
            body=("S",),
            after=(("S", "V"), ("S", "MTE2"), ("S", "MTE3")),
        ),
        cost={"S": Cost("element scatter")},
        rows=by_rows,
        by_element=True,
    ),
}
SIMT = RouteKernel(
    touches("V", "V", "V"), handshake=ON_V, launch=full_launch, launched="src", cost={"V": Cost("SIMT")}, rows=by_rows
)


SCATTER_POLICIES = Fix(option("oob", ScatterOOB.Skip, ScatterOOB.Clamp, ScatterOOB.Wrap))
REMAP = Fix("remap negative indices yourself first, or use ", option("oob", ScatterOOB.Skip))
BELOW_CAPACITY = Fix(BELOW, SCATTER_POLICIES)


def instead_of_repeats(call: Call) -> tuple[Fix, ...]:
    """Modifiers that define the result of repeated destinations."""
    types = call.lookup(ADD_TYPES, ())
    added = Fix("combine with ", option("atomic", ScatterAtomicOp.Add)) if call.src.dtype.name in types else None
    last = Fix("ask for the last writer with ", option("conflict", ScatterConflict.Last))
    if not call.lookup(DEFAULT_CONFLICT, None):
        last = Fix(_LastWriter())
    return (added, last) if added else (last,)


@dataclass(frozen=True)
class _LastWriter(CodePart):
    """How to ask for the last writer on A2/A3, whose headers have no parameter for it."""

    def written(self, form: str) -> str:
        """The modifier; in C++, what judges by the page of the public headers."""
        if is_cpp(form):
            return "rely on the last writer, as the public headers do: --target a2a3@2026.08"
        return f"ask for the last writer with {option('conflict', ScatterConflict.Last).written(form)}"


# --- C++ -----------------------------------------------------------------------------------------------------

DEFAULT_CONFLICT = Table({"cpu": ScatterConflict.Default, "a5": ScatterConflict.Last})
"""The default of the headers; A2/A3 has no such parameter."""


HEADER_ADD_TYPES = Table({"a2a3": ("int32", "float32", "float16")})
"""The types that the documents and pto/npu/a2a3/MScatter.hpp both add (`static_assert` of line 447: no max and min)."""
A5_ONLY = "documented for A5 only (A-18), and the shipping header refuses it"
ATOMICS_OF_A2A3 = (
    Rule("MS-ATOM-05", "src",
         lambda c: f"{', '.join(c.lookup(HEADER_ADD_TYPES))} for atomic add: it is {A5_ONLY} for others",
         lambda c: c.src.dtype.name in c.lookup(HEADER_ADD_TYPES), on=hazard("a2a3"), when=adds, found=type_of("src"),
         fix="scatter one of these types"),
    *(Rule(clause, "atomic", f"none or add: {op.text} is {A5_ONLY}", lambda c, op=op: c.atomic is not op,
           on=hazard("a2a3"), when=~is_stated, found=op.text,
           fix=Fix("combine the values in a tile first: ", OpName("tmax"), ", ", OpName("tmin")))
      for clause, op in (("MS-ATOM-06", ScatterAtomicOp.Max), ("MS-ATOM-07", ScatterAtomicOp.Min))),
)  # fmt: skip


def template(call: Call) -> tuple[tuple[PtoEnum, PtoEnum | None], ...]:
    """The policies as template arguments, with their defaults; an atomic scatter has no conflict policy."""
    default = call.lookup(DEFAULT_CONFLICT, call.conflict)
    conflict = call.conflict if call.atomic is ScatterAtomicOp.NONE else default
    return (
        (call.coalesce, None),
        (call.atomic, ScatterAtomicOp.NONE),
        (call.oob, ScatterOOB.Undefined),
        (conflict, default),
    )


CPP = Cpp(
    call="MSCATTER(table, src, idx)",
    template=template,
    row_index=is_row,
    headers=(
        *ATOMICS_OF_A2A3,
        Rule("MS-ATOM-06", "coalesce", "elem for atomic max and min: the simulator's row form reads another cell",
             is_elem, on=note("cpu"), found=lambda c: c.coalesce.text, when=orders, fix="scatter by element"),
    ),
)  # fmt: skip

MODIFIERS = (
    Modifier("coalesce", Coalesce, mode_by_shape, "what one index places", "from the index shape",
             Attribute("coalesce", "coalesce", suffix=True, newer=True), by_target=MODES),
    Modifier("atomic", ScatterAtomicOp, always(ScatterAtomicOp.NONE), "how an element is combined with the cell",
             text=Attribute("scatterAtomicOp", "scatter_atomic_op", suffix=True, prefix="atomic_")),
    Modifier("oob", ScatterOOB, always(ScatterOOB.Undefined), "what an index outside the table does",
             text=Attribute("scatterOob", "scatter_oob", suffix=True)),
    Modifier("conflict", ScatterConflict, always(ScatterConflict.Default), "which write to a repeated cell remains",
             text=Attribute("scatterConflict", "scatter_conflict", suffix=True, newer=True), by_target=CONFLICTS),
)  # fmt: skip
ATTRIBUTES = attributes(MODIFIERS)
INDEX = Param("idx", "read", "int32 or uint32 Vec tile: [N, 1] for rows, [N, M] for elements",
              contiguous="column", role="index")  # fmt: skip

MSCATTER = Instruction(
    name="mscatter",
    summary="Scatter rows or elements of a tile into a GM table, through an index.",
    meaning=(
        "row:  table[idx[i], j] = src[i, j]    over the source's valid region",
        "elem: mem[idx[i, j]] = src[i, j]      indices are linear element offsets",
        "atomic add, max, min combine with the cell instead of replacing it",
    ),
    operands=(
        Param("table", "update", "the table in GM", kind="memory"),
        Param("src", "read", "source tile: Vec, row-major"),
        INDEX,
    ),
    modifiers=MODIFIERS,
    pages=Pages(documents=("CO", "MS"), types=SCATTER_TYPES),
    rules=(*OPERANDS, *TYPES, *TABLE_LAYOUTS, *SHAPES, *REMARKS),
    lower=lowered,
    route=lambda call: f"mscatter.{call.coalesce.text}{call.lookup(SUFFIXES, no_suffix)(call)}",
    kernels={"a2a3": A2A3, "a5": {"mscatter.row": SIMT, "mscatter.elem": replace(SIMT, by_element=True)}},
    cpp=CPP,
    reports=FaultReports(
        repeats=Repeats(
            levels=error(*NPU),
            same="H-14",
            folded="H-15",
            targets="cpu keeps the last writer in row-major order; on a2a3 and a5 the final value is undefined",
            defined=lambda call: call.conflict is ScatterConflict.Last or bool(call.lookup(IN_ORDER)),
            fixes=instead_of_repeats,
        ),
        conflicts=(
            OrderHazard("H-24", "UB", "MTE2", "second", "idx", "read", "write"),
            OrderHazard("H-16", "GM", "MTE3"),
        ),
        faults={
            "outside": Fault("MS-OOB-06", "H-11", BELOW_CAPACITY, elsewhere=("MS-OOB-02", "A-18")),
            "negative": Fault("A-12", "H-13", REMAP),
        },
    ),
    spellings={
        "C++": (
            "MSCATTER<Coalesce, ScatterAtomicOp, ScatterOOB[, ScatterConflict]>(table, src, idx[, events...])",
            "MSCATTER<ScatterAtomicOp, ScatterOOB>(table, src, idx)    as the A5 page has it",
            "MSCATTER(table, src, idx[, events...])    as the general page has it",
        ),
        "PTO-AS": ("mscatter %src, %mem, %idx : !pto.memref<...>, !pto.tile<...>, !pto.tile<...>",),
        "Level 1": (f"pto.mscatter %src, %idx, %table{ATTRIBUTES} : (..., ..., ...) -> ()",),
        "Level 2": (
            f"pto.mscatter ins(%src, %idx : ..., ...) outs(%table : !pto.partition_tensor_view<...>){ATTRIBUTES}",
        ),
    },
)
