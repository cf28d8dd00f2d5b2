"""An instruction of a program as a `Call`, with what is known of its operands: the input of rules and pipes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from ptokit.finding import Finding
from ptokit.isa.instruction import Call, Modifiers
from ptokit.isa.kernel import Effect
from ptokit.isa.opaque import NONE, opaque_rows
from ptokit.isa.operand import OperandSpec, ScalarSpec, TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import TMP
from ptokit.isa.unknown import certain, is_unknown, unknown
from ptokit.program.expr import Expr, apply, is_fixed, subtract
from ptokit.program.ir import Argument, Constant, Given, Instr, Operand, Program, Stmt, TileUse, View, Window, transform
from ptokit.target import Profile
from ptokit.target.cpu import CPU

Resolve = Callable[[Expr], int]
"""The value of an expression, or an `Unknown`."""


UNPLACED: Mapping[str, Expr] = {}
"""No tile has an address."""


def known(expr: Expr) -> int:
    """The value of a constant; unknown for what is known only at run time."""
    return expr if isinstance(expr, int) else unknown()


def tile_spec(spec: TileSpec, use: TileUse, resolve: Resolve = known, address: int | None = None) -> TileSpec:
    """A tile, or a slice of it, as one instruction sees it."""
    rows, cols = map(resolve, use.valid)
    if use.window is not None:
        own = spec.changed(addr=address, dynamic=(False, False))
        spec = own.cut(*use.window.size, resolve(offset_in(spec, use.window)))
        address = spec.addr
    dynamic = spec.dynamic[0] or not isinstance(use.valid[0], int), spec.dynamic[1] or not isinstance(use.valid[1], int)
    return spec.changed(valid_rows=rows, valid_cols=cols, addr=address, dynamic=dynamic)


def offset_in(spec: TileSpec, window: Window) -> Expr:
    """Elements from the start of a tile to the start of a slice of it."""
    total: Expr = 0
    for terms, start in zip((spec.layout.rows, spec.layout.cols), window.start, strict=True):
        for term in terms:
            whole = apply("floordiv", start, term.div)
            total = apply("add", total, apply("mul", apply("mod", whole, term.mod) if term.mod else whole, term.stride))
    return total


def tensor_spec(argument: Argument, view: View, resolve: Resolve = known) -> TensorSpec:
    """A block of an argument as one instruction sees it, in five dims."""
    sizes, steps = [resolve(size) for size in view.sizes], [resolve(step) for step in argument.stride]
    marks = (*_leading(len(sizes)), *(not is_fixed(size) for size in view.sizes))
    stride_marks = (*_leading(len(steps)), *(not is_fixed(step) for step in argument.stride))
    dynamic = tuple(a or b for a, b in zip((*marks, *stride_marks), argument.dynamic, strict=True))
    shape = (1,) * (5 - len(sizes)) + tuple(sizes)
    while len(steps) < 5:  # a missing leading dim steps over the whole of the next one
        steps = [shape[5 - len(steps)] * steps[0], *steps]
    return TensorSpec(argument.dtype, shape, tuple(steps), argument.layout, dynamic)  # type: ignore[arg-type]


def overlaps_itself(argument: Argument) -> bool:
    """Whether its known strides put two elements of an argument at one address."""
    whole = View(argument.name, (0,) * len(argument.shape), argument.shape)
    return certain(lambda: tensor_spec(argument, whole).overlaps_itself)


def _leading(dims: int) -> tuple[bool, ...]:
    return (False,) * (5 - dims)


def operand_spec(
    program: Program, operand: Operand, resolve: Resolve = known, addresses: Mapping[str, Expr] = UNPLACED
) -> OperandSpec:
    """The description of an operand; `addresses` are those of placed tiles."""
    if isinstance(operand, TileUse):
        address = resolve(addresses[operand.tile]) if operand.tile in addresses else None
        return tile_spec(program.tiles[operand.tile].spec, operand, resolve, address)
    if isinstance(operand, View):
        return tensor_spec(program.tensors[operand.argument], operand, resolve)
    if isinstance(operand, Constant | Given):
        return ScalarSpec(operand.dtype)
    return ScalarSpec(operand.dtype, resolve(operand.value) if operand.is_position else None)


def call_of(
    program: Program, instr: Instr, profile: Profile, resolve: Resolve = known, addresses: Mapping[str, Expr] = UNPLACED
) -> Call:
    """The call that the rules check; `addresses` are those of placed tiles."""
    definition = instr.definition
    described: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in definition.operands)
    for name, operand in all_operands(instr).items():
        described[name] = operand_spec(program, operand, resolve, addresses)
    return Call(definition, described, instr.modifiers, profile.name, *sharing(instr, resolve).calls)


def signature(instr: Instr) -> Hashable:
    """What the call of an instruction depends on: all but where blocks of arguments start."""
    operands = (*instr.operands, instr.workspace)
    described = [(each.argument, each.sizes) if isinstance(each, View) else each for each in operands]
    return instr.name, instr.opaque_form, instr.modifiers, *described


def named_operands(instr: Instr) -> dict[str, Operand]:
    """The operands of a statement, by the names of its definition."""
    return {param.name: operand for param, operand in zip(instr.definition.operands, instr.operands, strict=False)}


def all_operands(instr: Instr) -> dict[str, Operand]:
    """The same, with the workspace last."""
    given = named_operands(instr)
    return given if instr.workspace is None else {**given, TMP: instr.workspace}


def with_tiles(finding: Finding, instr: Instr) -> Finding:
    """A finding of a call, with the names of tiles instead of the operands that share bytes."""
    if not finding.tiles:
        return finding
    used = {name: operand.tile for name, operand in all_operands(instr).items() if isinstance(operand, TileUse)}
    return replace(finding, tiles=frozenset(used.get(name, name) for name in finding.tiles))


def access_of(instr: Instr) -> dict[str, str]:
    """What happens to each operand of an instruction: `read`, `write` or `update`. A workspace is written."""
    definition = instr.definition
    given = {param.name: param.access for param in definition.operands}
    return {**given, TMP: "write"} if definition.workspace else given


NO_WRITES = ("set_", "async_wait", "mem_bar")
"""How the names of calls begin that write no on-chip memory."""
DESTINATIONS = {
    "_to_gm": frozenset[TileType](),
    "_to_ubuf": frozenset({TileType.Vec}),
    "_to_cbuf": frozenset({TileType.Mat}),
    "create_cbuf": frozenset({TileType.Mat}),
    "cbuf_to_ca": frozenset({TileType.Left}),
    "cbuf_to_cb": frozenset({TileType.Right}),
    "cbuf_to_bt": frozenset({TileType.Bias}),
    "vec_scope": frozenset({TileType.Vec}),
}
"""Parts of the names of calls by address, and the on-chip memories that they write."""


def unknown_writes(program: Program) -> frozenset[TileType]:
    """The memories that calls without tiles may write by an address: those that their names state, else all."""
    found: frozenset[TileType] = frozenset()
    for instr in program.instructions:
        is_known = not instr.opaque_form or instr.name in opaque_rows() or instr.name.startswith(NO_WRITES)
        if not is_known and set(instr.opaque_form) <= {"n", NONE}:
            found |= next((to for part, to in DESTINATIONS.items() if part in instr.name), frozenset(TileType))
    return found


def indexed_views(program: Program) -> Iterator[View]:
    """Blocks of arguments that indices select elements or rows of."""
    for instr in program.instructions:
        if instr.definition.roles.get("index"):
            index = instr.definition.roles["index"]
            yield from (
                each for name, each in named_operands(instr).items() if isinstance(each, View) and name != index
            )


def written_arguments(program: Program) -> frozenset[str]:
    """The arguments that some instruction writes."""
    found: set[str] = set()
    for instr in program.instructions:
        access = access_of(instr)
        for name, operand in named_operands(instr).items():
            if isinstance(operand, View) and access[name] != "read":
                found.add(operand.argument)
    return frozenset(found)


def chosen_modifiers(program: Program, instr: Instr, resolve: Resolve = known) -> Modifiers:
    """The modifiers that differ from their defaults on some target; None in the place of the others."""
    if not any(instr.modifiers):
        return instr.modifiers
    defaults = call_of(program, replace(instr, modifiers=(None,) * len(instr.modifiers)), CPU, resolve).modifiers
    rows = zip(instr.definition.modifiers, instr.modifiers, defaults, strict=True)
    return tuple(
        None if value is default and modifier.is_default_of_revisions(value) else value
        for modifier, value, default in rows
    )


def without_defaults(program: Program, resolve: Resolve = known) -> Program:
    """The program without modifiers that equal their defaults."""

    def plain(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Instr) or (chosen := chosen_modifiers(program, stmt, resolve)) == stmt.modifiers:
            return stmt
        return replace(stmt, modifiers=chosen)

    return replace(program, body=transform(program.body, plain))


@dataclass(frozen=True)
class Sharing:
    """Pairs of an instruction's operands that share memory because they are of one tile, the earlier one first."""

    same: frozenset[tuple[str, str]] = frozenset()
    """Those that are one tile, or one slice, given twice."""
    clashes: frozenset[tuple[str, str]] = frozenset()
    """Slices of one tile that overlap, and are not the same."""

    @property
    def calls(self) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
        """The same for a `Call`: operands that alias an earlier one, and pairs that overlap."""
        return frozenset(name for _, name in self.same), self.clashes


def has_slices(instr: Instr) -> bool:
    """Whether an instruction uses slices of tiles."""
    return any(use.window is not None for use in instr.tiles)


def sharing(instr: Instr, resolve: Resolve = known) -> Sharing:
    """Which operands of an instruction are known to share memory."""
    uses = [(name, operand) for name, operand in all_operands(instr).items() if isinstance(operand, TileUse)]
    found: dict[str, set[tuple[str, str]]] = {"same": set(), "overlap": set(), "apart": set()}
    for (name, use), (other, later) in combinations(uses, 2):
        if use.tile == later.tile:
            found[_relation(use, later, resolve)].add((name, other))
    return Sharing(frozenset(found["same"]), frozenset(found["overlap"]))


def _relation(one: TileUse, other: TileUse, resolve: Resolve) -> str:
    """How two uses of one tile lie: `same`, `overlap` or `apart`. If that is not known yet, `apart`."""
    if one.window == other.window:
        return "same"
    is_same = True
    for axis in (0, 1):
        ahead, extent, later = subtract(other.start[axis], one.start[axis]), one.valid[axis], other.valid[axis]
        needed = (extent, later, *(() if isinstance(ahead, int) else (one.start[axis], other.start[axis])))
        if is_unknown(*map(resolve, needed)):
            return "apart"
        distance, reach, other_reach = resolve(ahead), resolve(extent), resolve(later)
        if distance >= reach or 0 - distance >= other_reach:
            return "apart"
        is_same = is_same and distance == 0 and reach == other_reach
    return "same" if is_same else "overlap"


def effects(call: Call) -> tuple[Effect, ...]:
    """Which pipe touches which operand; empty if the target has no pipes."""
    kernel = call.route_kernel
    touched = (*kernel.effects, *kernel.besides(call)) if kernel.besides else kernel.effects
    if not call.uses_workspace or any(effect.operand == TMP for effect in touched):
        return touched
    first = next((param.name for param in call.instruction.operands), "")
    writers = dict.fromkeys(effect.pipe for effect in touched if effect.operand == first and effect.access != "read")
    return (*touched, *(Effect(TMP, "write", pipe) for pipe in writers))
