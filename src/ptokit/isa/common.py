"""Rules and address formulas that several instructions share."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ptokit.finding import Fix
from ptokit.isa.dtype import BASE, FLOAT8, FLOAT8_E8M0, HIFLOAT8, INT32, INT64, PTO_TYPES, UINT32, UINT64, DType
from ptokit.isa.fixes import PACKED, VALID, cast_of
from ptokit.isa.instruction import ALWAYS, EVERYWHERE, Blocks, Call, Case, Rule, case, error, is_tensor
from ptokit.isa.layout import Layout
from ptokit.isa.move import Remap
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec, show_extents
from ptokit.isa.policy import Coalesce, GatherOOB, GlobalLayout, PtoEnum, ScatterOOB
from ptokit.isa.table import Table

REMAPS: dict[PtoEnum, Remap] = {
    GatherOOB.Undefined: Remap.REFUSE,
    GatherOOB.Clamp: Remap.CLAMP,
    GatherOOB.Wrap: Remap.WRAP,
    GatherOOB.Zero: Remap.ZERO,
    ScatterOOB.Undefined: Remap.REFUSE,
    ScatterOOB.Skip: Remap.SKIP,
    ScatterOOB.Clamp: Remap.CLAMP,
    ScatterOOB.Wrap: Remap.WRAP,
}

GATHER_TYPES = Table({"cpu": frozenset(BASE), "a2a3": frozenset(BASE), "a5": frozenset((*BASE, *FLOAT8, HIFLOAT8))})
SCATTER_TYPES = Table({"cpu": frozenset(BASE), "a2a3": frozenset(BASE), "a5": frozenset((*BASE, *FLOAT8))})
INDEX_TYPES = Table({"host": ("int32", "uint32", "int64")})
"""Index types of the gathers and scatters between tiles and GM, where they differ from int32 and uint32."""

WIDE_INDEX = Table({"host": True})
"""Targets that do not cast 64-bit indices to uint32."""


def names(types: Iterable[DType]) -> str:
    """Element types as a list for messages."""
    return ", ".join(sorted(str(t) for t in types))


def is_index_type(call: Call, dtype: DType) -> bool:
    """Whether a type may index global memory on the call's target (MG-TYPE-05, MS-TYPE-05)."""
    return dtype.name in call.here(INDEX_TYPES, (INT32.name, UINT32.name))


def is_cast(call: Call) -> bool:
    """Whether indices are cast to uint32: always, except for the host's int64 (MG-OOB-08)."""
    return call.idx.dtype.size <= 4 or not call.here(WIDE_INDEX)


def is_nd_tile(tile: TileSpec) -> bool:
    """RowMajor + NoneBox (CO-LAY-01)."""
    return tile.form == "nd"


def is_unboxed(tile: TileSpec) -> bool:
    """RowMajor or ColMajor, no boxes."""
    return tile.form in ("nd", "dn")


NO_TYPES: Table[frozenset[DType]] = Table({})


WORDS = frozenset((INT64, UINT64))
WIDE_TYPES = Table({"cpu": WORDS | {FLOAT8_E8M0}, "a2a3": WORDS, "a5": WORDS | {FLOAT8_E8M0}})
"""What is loaded, stored and moved between tiles besides: CO-TYPE-03 is about gathers and scatters."""


def data_type(operand: str, more: Table[frozenset[DType]] = NO_TYPES) -> Rule:
    """CO-TYPE-03: the data type is one of PTO, or one that an instruction or a revision adds to a table."""

    def added(call: Call) -> frozenset[DType]:
        return call.here(more, frozenset()) - PTO_TYPES

    return Rule(
        "CO-TYPE-03", operand,
        lambda c: ", ".join(("of a PTO element type (1, 2 or 4 bytes)", *sorted(map(str, added(c))))),
        lambda c: c.values[operand].dtype in PTO_TYPES or c.values[operand].dtype in added(c),
        found=lambda c: str(c.values[operand].dtype), fix="convert the data, or run on the host profile",
    )  # fmt: skip


def index_type(rule: str) -> Rule:
    """The index type is int32 or uint32."""
    return Rule(
        rule, "idx", lambda c: " or ".join(c.here(INDEX_TYPES, ("int32", "uint32"))),
        lambda c: is_index_type(c, c.idx.dtype), on=error(*EVERYWHERE), found=lambda c: str(c.idx.dtype), kind="H-08",
        fix=Fix("hold the indices as int32 or uint32", cast_of("indices", INT32)),
    )  # fmt: skip


def same_type(
    rule: str,
    a: str,
    b: str,
    *targets: str,
    when: Case = ALWAYS,
    kind: str | None = None,
    fix: str = "",
    blocks: Blocks = "nothing",
    elsewhere: tuple[str, ...] = (),
) -> Rule:
    """Two operands have the same element type, on every target by default."""
    return Rule(
        rule, a, lambda c: f"of {b}'s element type, {c.values[b].dtype}",
        lambda c: c.values[a].dtype is c.values[b].dtype, on=error(*targets or EVERYWHERE), when=when,
        found=lambda c: str(c.values[a].dtype), kind=kind, blocks=blocks, elsewhere=elsewhere,
        fix=fix or (lambda c: Fix("convert the data", cast_of("array", c.values[b].dtype))),
    )  # fmt: skip


def header_sizes(data: str, table: str, *more: str) -> Rule:
    """MG-TYPE-07: all that the CPU header itself asserts; without it no element could be moved."""
    return Rule(
        "MG-TYPE-07", table,
        lambda c: f"of {data}'s element width, {c.values[data].dtype.size} bytes, with an integer index",
        lambda c: c.values[data].dtype.size == c.values[table].dtype.size and c.idx.dtype.is_integer,
        on=error("cpu", "host", *more), found=lambda c: f"{c.values[table].dtype} and a {c.idx.dtype} index",
        kind="H-08", blocks="execution", fix="give data and table one element type, and indices an integer one",
        elsewhere=("MS-TYPE-06",) if more else (),
    )  # fmt: skip


def extents_positive(rule: str, operand: str, *targets: str) -> Rule:
    """The valid region is not empty (MG-SHAPE-04, A-55)."""
    return Rule(
        rule, operand, "of at least one valid row and column", lambda c: min(c.values[operand].valid) >= 1,
        on=error(*targets), found=lambda c: f"valid {show_extents(c.values[operand].valid)}", kind="H-43",
        blocks="execution", fix="skip the instruction when there is nothing to move",
    )  # fmt: skip


def table_not_empty() -> Rule:
    """A-13: a table without entries cannot be indexed."""
    return Rule(
        "A-13", "table", "of at least one entry", lambda c: prod(c.table.shape) >= 1, on=error(*EVERYWHERE),
        kind="H-43", blocks="later rules", fix="skip the instruction when the table is empty",
    )  # fmt: skip


def burst_multiple(rule: str, operand: str, *targets: str, when: Case = ALWAYS) -> Rule:
    """The contiguous padded dimension is a multiple of 32-byte bursts."""
    return Rule(
        rule, operand, "a tile whose contiguous padded dimension is a multiple of 32 bytes",
        lambda c: c.values[operand].burst_bytes % 32 == 0, on=error(*targets), when=when,
        found=lambda c: f"{c.values[operand]}: {c.values[operand].burst_bytes} bytes", kind="H-09",
        fix=lambda c: Fix(f"pad up to a multiple of {c.values[operand].dtype.c0} elements and give ", VALID),
        only_alignment=True,
    )  # fmt: skip


@case("row")
def is_row(call: Call) -> bool:
    """Coalesce::Row: one index moves one row."""
    return call.coalesce is Coalesce.Row


@case("elem")
def is_elem(call: Call) -> bool:
    """Coalesce::Elem: one index moves one element."""
    return call.coalesce is Coalesce.Elem


def by_rows(call: Call, rows: int, cols: int) -> Call:
    """The same instruction over whole rows of a packed table, one for each index."""
    index = call.instruction.roles["index"]
    given: dict[str, OperandSpec | None] = dict.fromkeys(call.operands)
    for name, spec in call.operands.items():
        if isinstance(spec, TileSpec):
            given[name] = spec.reshaped(1, rows) if name == index else spec.reshaped(rows, cols)
        elif isinstance(spec, TensorSpec):
            given[name] = spec.reshaped(max(1, spec.span // cols), cols)
    names = (modifier.name for modifier in call.instruction.modifiers)
    chosen = zip(names, call.modifiers, strict=True)
    modifiers = tuple(Coalesce.Row if name == "coalesce" else value for name, value in chosen)
    return Call(call.instruction, given, modifiers, call.target)


def packed_rows(call: Call) -> bool:
    """Whether table rows follow one another without gaps; a single row has none."""
    return call.table.shape[3] == 1 or call.table.stride[3] == call.table.shape[4]


def row_pitch(call: Call) -> str:
    """The distance of table rows, as found."""
    return f"Stride[3] = {call.table.stride[3]}, Shape[4] = {call.table.shape[4]}"


def packed_a5_rows(when: Case) -> Rule:
    """A-68: the A5 kernels step by the row width and ignore Stride[3]."""
    return Rule(
        "A-68", "table", "packed, Stride[3] == Shape[4]: so are the rows of an A5 table", packed_rows,
        on=error("a5"), when=when, found=row_pitch, kind="H-46", fix=PACKED,
    )  # fmt: skip


def even_rows(when: Case, *targets: str) -> Rule:
    """A-57: if one row number covers the outer dims, they step evenly."""
    return Rule(
        "A-57", "table", "one whose outer dims step evenly by Stride[3]", lambda c: c.table.even_rows,
        on=error(*targets), when=when, found=lambda c: f"Stride<{', '.join(map(str, c.table.stride))}>", kind="H-07",
        fix=PACKED,
    )  # fmt: skip


def unit_columns(when: Case) -> Rule:
    """A-57: a row is contiguous."""
    return Rule(
        "A-57", "table", "one with Stride[4] == 1", lambda c: c.table.stride[4] == 1 or c.table.shape[4] == 1,
        on=error(*EVERYWHERE), when=when, found=lambda c: f"Stride[4] = {c.table.stride[4]}", kind="H-07",
        fix=PACKED,
    )  # fmt: skip


def rows_of(table: TensorSpec) -> int:
    """Shape[0] * Shape[1] * Shape[2] * Shape[3]."""
    return prod(table.shape[:4])


def is_nd_tensor(operand: object) -> bool:
    """Whether an operand is a global tensor of Layout::ND."""
    return is_tensor(operand) and operand.layout_kind is GlobalLayout.ND


def flat() -> Layout:
    """Elements by number, without strides."""
    return Layout.plain(0, 1)


def row_lanes(tile: TileSpec) -> Layout:
    """Where a one-dimensional index tile, [1,R] or [R,1], has the index of row r."""
    if tile.valid_rows == 1:
        return Layout(tile.layout.cols, ())
    if tile.valid_cols == 1:
        return Layout(tile.layout.rows, ())
    return Layout.plain(1, 0)
