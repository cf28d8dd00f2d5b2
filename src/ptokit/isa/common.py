"""What definitions of instructions share: sets of types, rules, address formulas, how an instruction is constructed."""

# ruff: noqa: F403, F405
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod

from ptokit.finding import Fix
from ptokit.isa.dtype import BASE, FLOAT8, FLOAT8_E8M0, HIFLOAT8, INT32, INT64, PTO_TYPES, UINT32, UINT64, DType, dtype
from ptokit.isa.fixes import CONVERT, PACKED, PLAIN_TILE, VALID, cast_of
from ptokit.isa.instruction import *
from ptokit.isa.kernel import REDUCING, SLOW, ByteRows, Cost, Effect, Handshake, RouteKernel
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Compute, Input, Move, Remap
from ptokit.isa.operand import ScalarSpec, TensorSpec, TileSpec, show_extents
from ptokit.isa.policy import Coalesce, GatherOOB, GlobalLayout, PtoEnum, ScatterOOB, TileType
from ptokit.isa.spelling import PLAIN_TEXT, OpText, Workspace
from ptokit.isa.table import Table
from ptokit.isa.unknown import certain

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


anywhere = functools.partial(Rule, on=error(*EVERYWHERE))
"""A rule of every target."""
routing = functools.partial(anywhere, blocks="route")
"""Without it there is no route."""
needed = functools.partial(anywhere, blocks="execution")
"""Without it nothing is executed."""
sized = functools.partial(needed, kind=ByExtent())
"""Of extents."""


def type_of(operand: str) -> CallText:
    """The element type of an operand, as found."""
    return lambda call: str(call.values[operand].dtype)


def valid_of(operand: str) -> CallText:
    """The valid region of an operand, as found."""
    return lambda call: f"valid {show_extents(call.values[operand].valid)}"


def names(types: Iterable[DType]) -> str:
    """Element types as a list for messages."""
    return ", ".join(sorted(str(t) for t in types))


def is_index_type(call: Call, dtype: DType) -> bool:
    """Whether a type may index global memory on the call's target (MG-TYPE-05, MS-TYPE-05)."""
    return dtype.name in call.lookup(INDEX_TYPES, (INT32.name, UINT32.name))


def is_cast(call: Call) -> bool:
    """Whether indices are cast to uint32: always, except for the host's int64 (MG-OOB-08)."""
    return call.idx.dtype.size <= 4 or not call.lookup(WIDE_INDEX)


def is_nd_tile(tile: TileSpec) -> bool:
    """RowMajor + NoneBox (CO-LAY-01)."""
    return tile.format == "nd"


def is_unboxed(tile: TileSpec) -> bool:
    """RowMajor or ColMajor, no boxes."""
    return tile.format in ("nd", "dn")


NO_TYPES: Table[frozenset[DType]] = Table({})


WORDS = frozenset((INT64, UINT64))
WIDE_TYPES = Table({"cpu": WORDS | {FLOAT8_E8M0}, "a2a3": WORDS, "a5": WORDS | {FLOAT8_E8M0}})
"""What is loaded, stored and moved between tiles besides: CO-TYPE-03 is about gathers and scatters."""


def data_type(operand: str, more: Table[frozenset[DType]] = NO_TYPES) -> Rule:
    """CO-TYPE-03: the data type is one of PTO, or one that an instruction or a revision adds to a table."""

    def added(call: Call) -> frozenset[DType]:
        return call.lookup(more, frozenset()) - PTO_TYPES

    return Rule(
        "CO-TYPE-03", operand,
        lambda c: ", ".join(("of a PTO element type (1, 2 or 4 bytes)", *sorted(map(str, added(c))))),
        lambda c: c.values[operand].dtype in PTO_TYPES or c.values[operand].dtype in added(c), found=type_of(operand),
        fix="convert the data, or run on the host profile",
    )  # fmt: skip


def index_type(rule: str) -> Rule:
    """The index type is int32 or uint32."""
    return anywhere(
        rule, "idx", lambda c: " or ".join(c.lookup(INDEX_TYPES, ("int32", "uint32"))),
        lambda c: is_index_type(c, c.idx.dtype), found=type_of("idx"), kind="H-08",
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
        lambda c: c.values[a].dtype is c.values[b].dtype, on=error(*targets or EVERYWHERE), when=when, found=type_of(a),
        kind=kind, blocks=blocks, elsewhere=elsewhere,
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
        on=error(*targets), found=valid_of(operand), kind="H-43", blocks="execution",
        fix="skip the instruction when there is nothing to move",
    )  # fmt: skip


def table_not_empty() -> Rule:
    """A-13: a table without entries cannot be indexed."""
    return anywhere(
        "A-13", "table", "of at least one entry", lambda c: prod(c.table.shape) >= 1, kind="H-43", blocks="later rules",
        fix="skip the instruction when the table is empty",
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
    return anywhere(
        "A-57", "table", "one with Stride[4] == 1", lambda c: c.table.stride[4] == 1 or c.table.shape[4] == 1,
        when=when, found=lambda c: f"Stride[4] = {c.table.stride[4]}", kind="H-07", fix=PACKED,
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


# --- computing instructions


Types = frozenset[DType]


def types(text: str) -> Types:
    """Element types by their short names: `i8 u16 f32`."""
    return frozenset(dtype(name) for name in text.split())


INTS = types("i8 u8 i16 u16 i32 u32 i64 u64")
ALL = INTS | types("f16 bf16 f32")
LONG = types("i64 u64")
UP_TO_32 = ALL - LONG
B4, F2, F3 = types("i16 i32 f16 f32"), types("f16 f32"), types("f16 bf16 f32")
NARROW = types("i8 u8")
SHORT = types("i16 u16 i32 u32")
BYTE_FLOATS = types("f8E4M3FN f8E5M2 hif8")
HOST = ALL | types("f64")


def by_target(*, cpu: Types = ALL, host: Types = HOST, **devices: Types) -> Table[Types]:
    """A table of types, by family; the simulator and the host have every arithmetic type by default."""
    return Table({"cpu": cpu, **devices, "host": host})


def everywhere(kinds: Types, **others: Types) -> Table[Types]:
    """The same types on every target but `others`, by family."""
    return Table(dict.fromkeys(EVERYWHERE, kinds) | others)


def located(clause: str, operand: str, *locs: TileType) -> Rule:
    """The operand is a tile in one of these memories."""
    where = " or ".join(loc.name for loc in locs)
    return routing(clause, operand, f"a {where} tile", lambda c: is_tile(c.values[operand], *locs),
                   fix=f"move the data into a {where} tile first")  # fmt: skip


def vec(clause: str, operand: str) -> Rule:
    """The operand is a Vec tile."""
    return located(clause, operand, TileType.Vec)


def plain(clause: str, operand: str) -> Rule:
    """Row-major, no boxes; the host allows any layout."""
    return Rule(clause, operand, "RowMajor + NoneBox", lambda c: is_nd_tile(c.values[operand]), on=error(*FAMILIES),
                fix=PLAIN_TILE)  # fmt: skip


def typed(clause: str, operand: str, table: Table[Types], fix: str = CONVERT) -> Rule:
    """The element type is one that the target computes with."""
    return needed(clause, operand, lambda c: f"one of {names(c.lookup(table))}",
                  lambda c: c.values[operand].dtype in c.lookup(table), found=type_of(operand), fix=fix)  # fmt: skip


SAME_REGION = "give both tiles the same valid region"


def alike(clause: str, operand: str, other: str = "dst") -> Rule:
    """Two operands have one element type."""
    return same_type(clause, operand, other, fix=CONVERT, blocks="execution")


def shaped(clause: str, operand: str, other: str = "dst", fix: CallText = SAME_REGION) -> Rule:
    """Two operands have one valid region."""
    return sized(clause, operand, lambda c: f"valid {show_extents(c.values[other].valid)}, as {other}",
                 lambda c: c.values[operand].valid == c.values[other].valid, found=valid_of(operand),
                 fix=fix)  # fmt: skip


def filled(clause: str, operand: str = "dst") -> Rule:
    """The valid region is not empty."""
    return extents_positive(clause, operand, *EVERYWHERE)


def vec_tiles(clause: str, tiles: Names, *, nonempty: str = "dst", plains: Names) -> tuple[Rule, ...]:
    """Operands are Vec tiles; the valid region of `nonempty` is not empty; `plains` are row-major without boxes."""
    unboxed = (plain(clause, name) for name in plains)
    return (*(vec(clause, name) for name in tiles), filled(clause, nonempty), *unboxed)


def one_layout(clause: str, source: str) -> tuple[Rule, ...]:
    """Tiles without boxes: on cpu row-major, on devices both row-major or both column-major."""
    return (
        *(replace(plain(clause, name), on=error("cpu")) for name in ("dst", source)),
        Rule(clause, "dst", f"without boxes, and RowMajor or ColMajor as {source}",
             lambda c: c.dst.format in ("nd", "dn") and c.dst.format == c.values[source].format, on=error(*NPU),
             fix=PLAIN_TILE),
    )  # fmt: skip


def tiles_alike(
    group: str, sources: Names, table: Table[Types], layouts: tuple[Rule, ...] | None = None
) -> tuple[Rule, ...]:
    """Rules of an element-wise instruction: plain Vec tiles, unless `layouts` says otherwise, of one valid region (-01)
    and one type (-02)."""
    tiles = ("dst", *sources)
    return (
        *vec_tiles(f"{group}-01", tiles, plains=() if layouts else tiles),
        *(layouts or ()),
        *(shaped(f"{group}-01", name) for name in sources),
        *types_alike(group, sources, table),
    )


def types_alike(group: str, sources: Names, table: Table[Types]) -> tuple[Rule, ...]:
    """The destination has a type of the table (-02), and the sources have the same one."""
    return (typed(f"{group}-02", "dst", table), *(alike(f"{group}-02", name) for name in sources))


def whole(call: Call, operand: str) -> Input:
    """All of an operand: a tile's valid region, or a scalar."""
    spec = call.values[operand]
    if isinstance(spec, ScalarSpec):
        return Input(operand, Layout.plain(0, 0), (1, 1))
    return Input(operand, spec.layout, spec.valid)


Lower = Callable[[Call], tuple[Move | Compute, ...]]


def apply(op: str, *operands: str, read: Callable[[Call, str], Input] = whole, **options: str) -> Lower:
    """An operation over the destination's valid region; `options` are names of modifiers."""
    return lambda call: (
        Compute(
            op,
            call.dst.valid,
            Access("dst", call.dst.layout),
            tuple(read(call, name) for name in operands),
            tuple((name, call.values[modifier]) for name, modifier in options.items()),
        ),
    )


def by_memory(name: str, *operands: str) -> Callable[[Call], str]:
    """A route for the memories of operands: `textract.mat.left`."""
    return lambda call: ".".join((name, *(call.values[each].loc.text for each in operands)))


def pipes(params: Iterable[Param], pipe: str) -> tuple[Effect, ...]:
    """One pipe reads and writes every operand; numbers are part of the instruction."""
    return tuple(Effect(param.name, param.access, pipe) for param in params if param.kind not in ("number", "position"))


BY_SCALAR = Handshake(before=(("V", "S"),), body=("S",), after=(("S", "V"),))
"""A scalar loop that waits for the vector pipe, and that this pipe waits for."""


WITH_SCALAR_ROWS = Handshake(body=("V",), each_row=(("V", "S"), ("S", "V")))
"""Vector code in which the scalar pipe takes part at every row, between flags: from outside, work of V."""
SCALAR_LAST = Handshake(body=("V", "S"), between=(("V", "S"),), after=(("S", "V"),))
"""Vector code, then a scalar loop that this pipe waits for."""


@dataclass(frozen=True)
class SpecialRoute:
    """How some calls are carried out: the route has the instruction's name and a suffix."""

    suffix: str
    """Empty if the kernel replaces the plain one."""
    on: Table[Callable[[Call], bool] | None]
    """By target that has it: the calls; None for all."""
    kernel: RouteKernel

    def holds(self, call: Call) -> bool:
        """Whether a call takes it, whatever the extents are that are known at run time only."""
        test = call.lookup(self.on)
        return test is not None and certain(lambda: test(call))


def undecided(test: Callable[[Call], bool]) -> Callable[[Call], bool]:
    """Calls whose run-time numbers decide whether they pass a test."""
    return lambda call: not certain(lambda: test(call)) and not certain(lambda: not test(call))


def scalar_loop(params: Iterable[Param], accesses: int) -> RouteKernel:
    """A loop over the elements, with some accesses to UB each."""
    cost = {"S": Cost("scalar loop", accesses=accesses)}
    return RouteKernel(pipes(params, "S"), handshake=BY_SCALAR, cost=cost, uses_workspace=False)


def in_ub(name: str, unit: int = 1) -> Callable[[Call], ByteRows]:
    """The valid rows of a row-major operand, each to a multiple of `unit` bytes."""

    def rows(call: Call) -> ByteRows:
        tile: TileSpec = call.values[name]
        size = tile.dtype.size
        return ByteRows(tile.valid_rows, -(-tile.valid_cols * size // unit) * unit, tile.stride * size)

    return rows


def ahead(count: Callable[[Call], int]) -> Callable[[Call], ByteRows]:
    """The first bytes of an operand."""
    return lambda call: ByteRows(1, count(call))


def by_part(name: str, part: str) -> Callable[[Call], str]:
    """A route for the memories of source and destination. Within UB, the scalar pipe moves a part whose type has one
    element (TExtract.hpp:213, TInsert.hpp:135, a5/TExtract.hpp:846, a5/TInsert.hpp:482)."""
    plain = by_memory(name, "src", "dst")

    def route(call: Call) -> str:
        tile, is_inside = call.values[part], call.src.loc is call.dst.loc is TileType.Vec
        is_one = call.has_pipes and is_inside and not any(tile.dynamic) and certain(lambda: tile.valid == (1, 1))
        return f"{plain(call)}.{ELEMENT}" if is_one else plain(call)

    return route


ELEMENT = "element"
"""What the route of such a part ends with."""


def on_a2a3(kernel: RouteKernel) -> SpecialRoute:
    """The kernel that A2/A3 has, and other targets do not."""
    return SpecialRoute("", Table({"a2a3": None}), kernel)


PAIRED = Table({"a2a3": True})


def by_pairs(call: Call) -> tuple[Effect, ...]:
    """A2/A3 writes bytes in pairs: the neighbour of an odd last column, too (`TransSize` in utils.hpp:104)."""
    is_paired = call.dst.dtype.size == 1 and call.dst.format == "nd" and call.lookup(PAIRED, False)
    return (Effect("dst", "write", "V", in_ub("dst", 2)),) if is_paired else ()


def of_integers(call: Call) -> bool:
    """Calls on integers."""
    return call.dst.dtype.is_integer


COSTS = {
    **dict.fromkeys(("div", "exp", "log", "sqrt", "recip", "rsqrt", "rem", "fmod", "pow"), SLOW),
    **{axis + op: REDUCING for axis in ("row", "col") for op in ("sum", "max", "min", "prod", "argmax", "argmin")},
}
"""By operation: the cost on the vector pipe, if it is not that of simple arithmetic."""


@dataclass(frozen=True)
class OpRow:
    """One row of a table of instructions."""

    name: str
    summary: str
    formula: str
    types: Table[Types] = NO_TYPES
    op: str = ""
    rules: tuple[Rule, ...] = ()
    """Rules besides those of the whole group."""
    faults: Mapping[str, Fault] = field(default_factory=dict[str, Fault])
    in_place: tuple[str, ...] | Mapping[str, bool | Callable[[Any], bool]] = EVERYWHERE
    """Where the destination may be one of the sources; perhaps of some calls only."""
    cpp: Cpp = field(default_factory=Cpp)


@dataclass(frozen=True)
class Text:
    """How text writes an instruction that makes a tile."""

    sources: tuple[str, ...]
    """What it reads, in the order of the text, with the workspace."""
    name: str = ""
    """Its name in text, if that is another one."""
    variant_of: str = ""
    """The instruction whose name it has in text and in C++, if it is another form of that one."""
    orders: tuple[tuple[str, ...], ...] = ()
    """Other orders of the sources."""
    results: tuple[str, ...] = ("dst",)
    """What it writes."""
    listed: bool = False
    """Whether a comma precedes the attributes in `ins` (`OpText.listed`)."""

    def spellings(self, instruction: str, modifiers: tuple[Modifier, ...] = ()) -> dict[str, tuple[str, ...]]:
        """With values (Level 1) and with destinations (Level 2); each modifier is an attribute."""
        name, orders = self.name or self.variant_of or instruction, (self.sources, *self.orders)
        inside = attributes(each for each in modifiers if each.text and each.text.inside)
        inside = f",{inside}" if inside and self.listed else inside
        after = attributes(each for each in modifiers if each.text and not each.text.inside)
        first, second = list[str](), list[str]()
        for order in orders:
            values, types = ", ".join(f"%{source}" for source in order), ", ".join("..." for _ in order)
            made, tiles = ", ".join(f"%{result}" for result in self.results), ["!pto.tile<...>" for _ in self.results]
            operands = types if len(order) == 1 else f"({types})"
            into = tiles[0] if len(tiles) == 1 else f"({', '.join(tiles)})"
            first.append(f"{made} = pto.{name} {values}{attributes(modifiers)} : {operands} -> {into}")
            outs = f"outs({made} : {', '.join('!pto.tile_buf<...>' for _ in tiles)})"
            second.append(f"pto.{name} ins({values}{inside} : {types}) {outs}{after}")
        return {"Level 1": tuple(first), "Level 2": tuple(second)}


def attributes(modifiers: Iterable[Modifier]) -> str:
    """An example of every modifier that text writes as an attribute, in braces."""
    examples = ", ".join(filter(None, (modifier.example for modifier in modifiers)))
    return f" {{{examples}}}" if examples else ""


def build(
    row: OpRow,
    params: tuple[Param, ...],
    rules: tuple[Rule, ...],
    lower: Lower,
    *,
    modifiers: tuple[Modifier, ...] = (),
    pipe: str | Mapping[str, str] = "V",
    cost: Mapping[str, Cost] | None = None,
    cpp: str = "",
    text: Text | None = None,
    workspace: Workspace | None = None,
    op_text: OpText = PLAIN_TEXT,
    destination: Destination | None = None,
    special: tuple[SpecialRoute, ...] = (),
) -> Instruction:
    """An instruction on one pipe, with a route that has its name, and special ones; `cost` is by pipe."""
    first, *sources = (param.name for param in params)
    text = text or Text(tuple(sources))
    text = replace(text, results=(first, *text.results[1:]))
    on: Mapping[str, str] = dict.fromkeys(NPU, pipe) if isinstance(pipe, str) else pipe
    costs = cost or ({"V": COSTS[row.op]} if row.op in COSTS else {})

    def kernel(pipe: str) -> RouteKernel:
        return RouteKernel(pipes(params, pipe), cost={pipe: costs[pipe]} if pipe in costs else {})

    def routes(family: str) -> dict[str, RouteKernel]:
        others = {
            ".".join(filter(None, (row.name, each.suffix))): each.kernel for each in special if family in each.on.rows
        }
        return {row.name: kernel(on[family]), **others}

    def route(call: Call) -> str:
        chosen = (each.suffix for each in special if each.suffix and each.holds(call))
        return ".".join((row.name, *islice(chosen, 1)))

    in_place = row.in_place if isinstance(row.in_place, Mapping) else dict.fromkeys(row.in_place, True)
    return Instruction(
        name=row.name,
        summary=row.summary,
        meaning=(row.formula,),
        operands=params,
        modifiers=modifiers,
        rules=(*rules, *row.rules),
        lower=lower,
        route=route,
        operation=row.op,
        kernels={family: routes(family) for family in NPU},
        reports=FaultReports(faults=row.faults),
        spellings={
            "C++": (cpp or f"{row.name.upper()}({', '.join((first, *sources))})",),
            **text.spellings(row.name, modifiers),
        },
        text=replace(op_text, name=text.name or text.variant_of, variant_of=text.variant_of),
        cpp=row.cpp,
        destination=replace(destination or Destination(), in_place=Table(in_place)),
        workspace=workspace,
    )
