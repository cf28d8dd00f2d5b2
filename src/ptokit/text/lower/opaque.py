"""Operations that programs have by their effects only: what they read and write, and their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ptokit.isa import opaque
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.unknown import is_unknown
from ptokit.program import ir
from ptokit.program.expr import SUBBLOCK_IDX, Expr, Op, Var
from ptokit.program.instr_calls import named_operands
from ptokit.text.lower.arithmetic import FLOATS
from ptokit.text.lower.lowering import Handler, Lowering, Meaning, Refusal, Rounded, TileName, tile_use
from ptokit.text.lower.statements import MOST_BYTES
from ptokit.text.spelling import FORM
from ptokit.text.tiles import spellings
from ptokit.text.tree import Operation, Value

INDEX = dtype("int64")
"""The type of whole numbers."""
SKIPPED = ("operandSegmentSizes", "tile", "event", "waits", FORM)
"""Attributes that do not belong to the operation itself."""


def read_opaque(low: Lowering, operation: Operation) -> None:
    """Read an operation without a lowering of its own."""
    if operation.name in opaque.ALIASES and _alias(low, operation):
        return
    row = opaque.row_of_op(operation.name)
    pairs = [(part, v) for part, values in operation.parts.items() for v in values if _is_kept(low, v)]
    outs = [v for part, v in pairs if part == "outs" and _kind(low.meaning(v)) != "number"]
    ins = [v for part, v in pairs if part != "outs" or _kind(low.meaning(v)) == "number"]
    outs += [result for result in operation.results if _take_result(low, operation, result)]
    if operation.results and not outs and row and all(form.outs for form in row.forms):
        low.refuse_type(f"{operation.name} gives a tile", operation.results[0].type)
    form, values = _ordered(low, operation, row, outs, ins)
    operands = tuple(_operand(low, operation, value) for value in values)
    _emit(low, row.name if row else operation.name.replace(".", "_"), operands, form, _attributes(operation))


def _alias(low: Lowering, op: Operation) -> bool:
    """Declare a tile of another type at the address of a tile, if that has one and nothing else is said."""
    tiles, types = op.part("tile"), [result.type for result in op.results]
    source = low.meaning(tiles[0]) if len(tiles) == len(types) == 1 and not op.attributes else None
    if not isinstance(source, TileName) or source.window is not None or source.name not in low.placed:
        return False
    own, type_ = low.tiles[source.name], types[0]
    if not isinstance(type_, TileSpec) or is_unknown(*type_.valid):
        return False
    if (own.loc, own.nbytes) != (type_.loc, type_.nbytes):
        low.refuse(f"{op.name}: both types must be in one memory and have as many bytes")
    low.values[op.results[0]] = low.declare(op.results[0], type_, None, low.placed[source.name])
    return True


def _emit(
    low: Lowering, name: str, operands: tuple[ir.Operand, ...], form: str, attributes: Iterable[tuple[str, Any]]
) -> None:
    low.emit(ir.Instr(name, operands, opaque_form=form, attributes=tuple(attributes), where=low.where))


def _ordered(
    low: Lowering, operation: Operation, row: opaque.OpaqueRow | None, outs: Sequence[Value], ins: Sequence[Value]
) -> tuple[str, Sequence[Value]]:
    """The form of an operation, and its operands in the order of C++."""
    kinds: list[opaque.OpaqueKind] = [_kind(low.meaning(value)) for value in ins]
    stated = operation.attributes.get(FORM)
    if opaque.is_form(stated):
        found: opaque.OpaqueForm = opaque.spelt_form(cast("str", stated))
        if (len(found.outs), len(found.ins)) != (len(outs), len(ins)):
            raise Refusal(f"{operation.name}: `{FORM} = {stated}` has another number of operands", FORM)
    elif outs:
        found = opaque.form_in_text(row, [_kind(low.meaning(value)) for value in outs], kinds)
    else:
        return opaque.form_for(row.name if row else "", kinds), ins
    places = dict(zip((*found.outs, *found.ins), (*outs, *ins), strict=True))
    return found.key, [places[k] for k in range(len(places))]


def _is_kept(low: Lowering, value: Value) -> bool:
    """Whether a value is an operand in programs: not the handle of a pipe or an event."""
    return isinstance(low.meaning(value), TileName | ir.View | int | Var | Op | ir.Constant | ir.Given | Rounded) and (
        value not in low.handles
    )


def _kind(meaning: Meaning) -> opaque.OpaqueKind:
    return "tile" if isinstance(meaning, TileName) else "memory" if isinstance(meaning, ir.View) else "number"


def _operand(low: Lowering, operation: Operation, value: Value) -> ir.Operand:
    meaning = low.meaning(value)
    if isinstance(meaning, TileName):
        return _use(low, operation, meaning)
    if isinstance(meaning, Rounded):
        return ir.Number(meaning.dtype, meaning.value)
    if isinstance(meaning, ir.View | ir.Constant | ir.Given):
        return meaning
    assert isinstance(meaning, int | Var | Op)
    return ir.Number(INDEX, meaning)


def _use(low: Lowering, operation: Operation, meaning: TileName) -> ir.TileUse:
    """A tile as an operand; all of it if its valid extents are not known."""
    valid = low.scopes[-1].valid
    if valid[meaning.name] is None and meaning.window is None:
        spec = low.tiles[meaning.name]
        return ir.TileUse(meaning.tile or meaning.name, (spec.rows, spec.cols))
    return tile_use(meaning, valid, operation.name)


def _take_result(low: Lowering, operation: Operation, result: Value) -> bool:
    """Define a result; whether it is a tile. A number is unspecified, and counts as 0."""
    type_ = result.type
    if isinstance(type_, TileSpec):
        named = low.tile_names[-1].get(str(operation.attributes.get("tile", "")), "")
        known = named in low.scopes[-1].valid
        low.values[result] = low.named(named) if known else low.declare(result, type_)
        return True
    low.values[result] = ir.Constant(dtype(str(type_)), 0) if type_ in FLOATS else 0
    if not isinstance(type_, str):
        low.handles.add(result)
    return False


def _attributes(operation: Operation) -> Iterable[tuple[str, Any]]:
    """In the order of their names: their order in the text has no meaning."""
    return ((key, _plain(value)) for key, value in sorted(operation.attributes.items()) if key not in SKIPPED)


def _plain(value: object) -> Any:
    """An attribute's value as plain data that can be compared."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, cast("Sequence[object]", value)))
    return value if isinstance(value, bool | int | float | str | ir.Constant) else str(value)


# --- operations with a meaning besides


def _reserve(low: Lowering, op: Operation) -> None:
    """A part of a memory for a pipe between the cores: a tile of bytes."""
    size, word = op.attributes.get("size"), str(op.attributes.get("location"))
    place = spellings("loc").get(word)
    if type(size) is not int or not 0 < size <= MOST_BYTES or not isinstance(place, TileType) or len(op.results) != 1:
        read_opaque(low, op)
        return
    base = op.attributes.get("base")
    spec = TileSpec(dtype("int8"), place, 1, size, 1, size)
    (result,) = op.results
    name = Value(str(op.attributes.get("name", result.name)), spec)
    tile = low.declare(name, spec, None, *([base] if type(base) is int else []))
    low.values[result] = base if type(base) is int else 0
    _emit(low, op.name, (_use(low, op, tile),), "w", _attributes(op))


def _vector_core(low: Lowering, op: Operation) -> None:
    """The number of the vector core in its block, or how many there are."""
    if op.name.endswith("num"):
        low.define(op, low.vector_cores)
    elif low.vector_cores > 1:
        low.values[op.results[0]] = SUBBLOCK_IDX
    else:
        low.define(op, 0)


def _one(low: Lowering, op: Operation, part: str) -> Value:
    """The only operand of a group."""
    if len(op.part(part)) != 1:
        low.refuse(f"{op.name} takes one operand `{part}`")
    return op.part(part)[0]


def _bind(low: Lowering, op: Operation) -> None:
    """Another name of a tile, perhaps with other valid extents."""
    source, (result,) = _one(low, op, "source"), op.results
    tile = low.values[result] = low.tile_name(source)
    if op.part("row") and op.part("col"):
        low.scopes[-1].valid[tile.name] = low.number(op.part("row")[0]), low.number(op.part("col")[0])


def _declare_events(low: Lowering, op: Operation) -> None:
    (result,) = op.results
    low.values[result] = 0
    low.handles.add(result)
    low.event_arrays[result] = {}


def _events(low: Lowering, op: Operation) -> dict[int, Expr]:
    """The elements of an array of event ids, as far as they are set."""
    array = _one(low, op, "array")
    if array not in low.event_arrays:
        low.missing(f"%{array.name} is not an array of event ids")
    return low.event_arrays[array]


def _set_event(low: Lowering, op: Operation) -> None:
    index, value = low.number(_one(low, op, "index")), low.number(_one(low, op, "value"))
    if not isinstance(index, int):
        low.refuse("an event id is put at a constant index of its array")
    _events(low, op)[index] = value


def _get_event(low: Lowering, op: Operation) -> None:
    known, index = _events(low, op), low.number(_one(low, op, "index"))
    if not known or (isinstance(index, int) and index not in known):
        low.missing("this element of the array of event ids was not set")
    low.define(op, known[index] if isinstance(index, int) else low.chosen(index, known))


def _alloc_memory(low: Lowering, op: Operation) -> None:
    """`memref.alloc` of on-chip memory: a tile."""
    (result,) = op.results
    if not isinstance(result.type, TileSpec):
        low.unknown(op)
    low.values[result] = low.declare(result, result.type)


def with_scales(block: ir.Block) -> ir.Block:
    """The block with the scales of cube operands in memories of their own: text has one word for all scales."""
    tiles = {stmt.name: stmt.spec.loc for stmt in ir.walk(block) if isinstance(stmt, ir.TileDecl)}
    if TileType.Scaling not in tiles.values():
        return block
    moved: dict[str, TileType] = {}
    for instr in ir.instructions(block):
        for name, use in named_operands(instr).items():
            place = SCALES.get(name) or (SCALES.get(_beside(instr, tiles)) if instr.opaque_form else None)
            if isinstance(use, ir.TileUse) and place is not None and tiles[use.tile] is TileType.Scaling:
                moved[use.tile] = place

    def changed(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.TileDecl) or stmt.name not in moved:
            return stmt
        return replace(stmt, spec=replace(stmt.spec, loc=moved[stmt.name]))

    return ir.transform(block, changed) if moved else block


def _beside(instr: ir.Instr, tiles: Mapping[str, TileType]) -> str:
    """The operand whose scales an instruction finds the address of."""
    source = named_operands(instr).get("scaled")
    place = tiles[source.tile] if isinstance(source, ir.TileUse) else None
    return f"{place.text}_scale" if place is not None else ""


SCALES = {
    **dict.fromkeys(("a_scale", "left_scale"), TileType.ScaleLeft),
    **dict.fromkeys(("b_scale", "right_scale"), TileType.ScaleRight),
}
"""The memories of operands."""
OPAQUE: dict[str, Handler] = {
    "reserve_buffer": _reserve,
    **dict.fromkeys(("get_subblock_idx", "get_subblock_num"), _vector_core),
    "bind_tile": _bind,
    "declare_eventid_array": _declare_events,
    "eventid_array_set": _set_event,
    "eventid_array_get": _get_event,
    "memref.alloc": _alloc_memory,
    "?": read_opaque,
}
"""The handler of each operation; `?` for those without one."""
