"""What computing instructions share: sets of types, rules for tiles, and the construction of an instruction."""
# ruff: noqa: F403, F405

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ptokit.isa.common import NO_TYPES, extents_positive, is_nd_tile, names, same_type
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.fixes import CONVERT, PLAIN_TILE
from ptokit.isa.instruction import *
from ptokit.isa.kernel import REDUCING, SLOW, Cost, Effect, RouteKernel
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Compute, Input, Move
from ptokit.isa.operand import ScalarSpec, show_extents
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import GENERAL, Form, Workspace
from ptokit.isa.table import Table

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
    return Rule(clause, operand, f"a {where} tile", lambda c: is_tile(c.values[operand], *locs), on=error(*EVERYWHERE),
                blocks="route", fix=f"move the data into a {where} tile first")  # fmt: skip


def vec(clause: str, operand: str) -> Rule:
    """The operand is a Vec tile."""
    return located(clause, operand, TileType.Vec)


def plain(clause: str, operand: str) -> Rule:
    """Row-major, no boxes; the host allows any layout."""
    return Rule(clause, operand, "RowMajor + NoneBox", lambda c: is_nd_tile(c.values[operand]), on=error(*DEVICES),
                fix=PLAIN_TILE)  # fmt: skip


def typed(clause: str, operand: str, table: Table[Types], fix: str = CONVERT) -> Rule:
    """The element type is one that the target computes with."""
    return Rule(clause, operand, lambda c: f"one of {names(c.here(table))}",
                lambda c: c.values[operand].dtype in c.here(table), on=error(*EVERYWHERE), blocks="execution",
                found=lambda c: str(c.values[operand].dtype), fix=fix)  # fmt: skip


SAME_REGION = "give both tiles the same valid region"


def alike(clause: str, operand: str, other: str = "dst") -> Rule:
    """Two operands have one element type."""
    return same_type(clause, operand, other, fix=CONVERT, blocks="execution")


def shaped(clause: str, operand: str, other: str = "dst", fix: CallText = SAME_REGION) -> Rule:
    """Two operands have one valid region."""
    return Rule(clause, operand, lambda c: f"valid {show_extents(c.values[other].valid)}, as {other}",
                lambda c: c.values[operand].valid == c.values[other].valid, on=error(*EVERYWHERE), blocks="execution",
                found=lambda c: f"valid {show_extents(c.values[operand].valid)}", kind=ByExtent(),
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
             lambda c: c.dst.form in ("nd", "dn") and c.dst.form == c.values[source].form, on=error(*NPU),
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


def pipes(params: Iterable[Param], pipe: str) -> tuple[Effect, ...]:
    """One pipe reads and writes every operand; numbers are part of the instruction."""
    return tuple(Effect(param.name, param.access, pipe) for param in params if param.kind not in ("number", "position"))


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
    in_place: tuple[str, ...] = EVERYWHERE
    cpp: Cpp = field(default_factory=Cpp)


@dataclass(frozen=True)
class Text:
    """How text writes an instruction that makes a tile."""

    sources: tuple[str, ...]
    """What it reads, in the order of the text, with the workspace."""
    name: str = ""
    """Its name in text, if that is another one."""
    orders: tuple[tuple[str, ...], ...] = ()
    """Other orders of the sources."""
    result: str = "dst"
    """What it writes."""
    listed: bool = False
    """Whether a comma precedes the attributes in `ins` (`Form.listed`)."""

    def spellings(self, instruction: str, modifiers: tuple[Modifier, ...] = ()) -> dict[str, tuple[str, ...]]:
        """With values (Level 1) and with destinations (Level 2); each modifier is an attribute."""
        name, orders = self.name or instruction, (self.sources, *self.orders)
        inside = attributes(each for each in modifiers if each.text and each.text.inside)
        inside = f",{inside}" if inside and self.listed else inside
        after = attributes(each for each in modifiers if each.text and not each.text.inside)
        first, second = list[str](), list[str]()
        for order in orders:
            values, types = ", ".join(f"%{source}" for source in order), ", ".join("..." for _ in order)
            operands = types if len(order) == 1 else f"({types})"
            first.append(f"%{self.result} = pto.{name} {values}{attributes(modifiers)} : {operands} -> !pto.tile<...>")
            outs = f"outs(%{self.result} : !pto.tile_buf<...>)"
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
    form: Form = GENERAL,
) -> Instruction:
    """An instruction with one route, which has its name, on one pipe; `cost` is by pipe."""
    first, *sources = (param.name for param in params)
    on = dict.fromkeys(NPU, pipe) if isinstance(pipe, str) else pipe
    costs = cost or ({"V": COSTS[row.op]} if row.op in COSTS else {})

    def kernel(pipe: str) -> RouteKernel:
        return RouteKernel(pipes(params, pipe), cost={pipe: costs[pipe]} if pipe in costs else {})

    return Instruction(
        name=row.name,
        summary=row.summary,
        meaning=(row.formula,),
        operands=params,
        modifiers=modifiers,
        rules=(*rules, *row.rules),
        lower=lower,
        route=lambda _: row.name,
        operation=row.op,
        kernels={family: {row.name: kernel(on[family])} for family in NPU},
        faults=row.faults,
        spellings={
            "C++": (cpp or f"{row.name.upper()}({', '.join((first, *sources))})",),
            **replace(text or Text(tuple(sources)), result=first).spellings(row.name, modifiers),
        },
        cpp=row.cpp,
        in_place=Table(dict.fromkeys(row.in_place, True)),
        text_name=text.name if text else "",
        workspace=workspace,
        form=form,
    )
