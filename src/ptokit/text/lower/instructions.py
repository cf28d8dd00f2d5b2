"""Instructions: operands by their parts, a destination or a result, modifiers from attributes."""

from __future__ import annotations

from dataclasses import replace

from ptokit.isa.instruction import Instruction, Param
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.unknown import is_unknown
from ptokit.program.expr import Expr
from ptokit.program.ir import Instr, Operand, TileUse, View
from ptokit.text.lower.lowering import Lowering
from ptokit.text.lower.operands import (
    NUMBERS,
    OtherForm,
    Refusal,
    TileName,
    kind_of,
    modifiers_of,
    named_sources,
    number_operand,
    order_of,
    tile_use,
    workspace_of,
)
from ptokit.text.memories import ElementPointer
from ptokit.text.results import result_type
from ptokit.text.spelling import instruction_of, variant_for
from ptokit.text.tree import Operation, Tensor, Value, items_of


def read_instruction(low: Lowering, operation: Operation) -> None:
    """Read an instruction, in the form with destinations or in the form with results."""
    instruction, operation = _variant(_with_destination(operation))
    if instruction.cpp.objects:  # counts, which programs do not have
        operation = replace(operation, parts={**operation.parts, "outs": operation.outs[:1]})
    for part in operation.parts.keys() - {"ins", "outs"}:
        raise OtherForm(f"{operation.name}: `{part}` has no lowering")
    order = order_of(operation, instruction)
    modifiers = modifiers_of(operation, instruction, order)
    named = named_sources(operation, instruction, order)
    named = {instruction.operands[0].name: _destination(low, operation, named), **named}
    given = [param for param in instruction.operands if param.name in named]
    operands = tuple(_operand(low, instruction, param, named) for param in given)
    event, waits = operation.attributes.get("event"), items_of(operation.attributes.get("waits", ()))
    if waits is None or any(type(n) is not int or n < 0 for n in (*waits, 0 if event is None else event)):
        raise Refusal(f"{operation.name}: `event` is a number from 0 up, `waits` a list of them")
    workspace = _workspace(low, operation, instruction)
    low.emit(Instr(instruction.name, operands, modifiers, event, waits, workspace, where=low.where))


def _variant(operation: Operation) -> tuple[Instruction, Operation]:
    """The instruction with its operands among the sources: factors of columns lead to the variant `_fp`."""
    name, parts = operation.name, dict(operation.parts)
    columns = parts.pop("fp", ()) or tuple(v for v in operation.ins[1:] if _is_scaling(v))
    fitting = instruction_of(f"{name}_fp") if columns else None
    instruction = fitting or variant_for(name, len(operation.ins), operation.attributes)
    assert instruction is not None
    if fitting is None and not parts.get("quant"):
        return instruction, operation
    others = tuple(v for v in operation.ins[1:] if v not in columns)
    ins = (*operation.ins[:1], *columns, *others, *parts.pop("quant", ()))
    return instruction, replace(operation, name=instruction.op, parts={**parts, "ins": ins})


def _is_scaling(value: Value) -> bool:
    return isinstance(value.type, TileSpec) and value.type.loc is TileType.Scaling


def _workspace(low: Lowering, operation: Operation, instruction: Instruction) -> TileUse | None:
    """The workspace that the text gives an instruction, unless it was added for the text only."""
    value = workspace_of(operation, instruction)
    if value is None or low.tile(value) in low.added_workspaces:
        return None
    return tile_use(low.tile_name(value), low.scopes[-1].valid, operation.name)


def _destination(low: Lowering, operation: Operation, named: dict[str, Value]) -> Value:
    outs = operation.outs
    if len(outs) > 1 or len(operation.results) > 1:
        raise OtherForm(f"{operation.name} with more than one destination has no lowering")
    for result in operation.results:
        low.values[result] = low.meaning(outs[0]) if outs else _result(low, result, operation, named)
    written = outs or operation.results
    if not written:
        raise Refusal(f"{operation.name} has no destination")
    return written[0]


def _result(low: Lowering, result: Value, operation: Operation, named: dict[str, Value]) -> TileName:
    """The tile of a result: the one that its attribute names, or a new one."""
    if "tile" in operation.attributes:
        name = low.tile_names[-1].get(str(operation.attributes["tile"]), "")
        if name not in low.scopes[-1].valid:
            raise Refusal(f"{operation.name}: `tile = {operation.attributes['tile']}` names no tile that is known here")
        if isinstance(result.type, TileSpec) and not _is_like(low.tiles[name], result.type):
            raise Refusal(f"{operation.name}: the type of %{result.name} is not that of the tile it goes into")
        return low.named(name)
    kind = result.type
    if not isinstance(kind, TileSpec):
        kind = result_type(operation.name, [_type(low, value) for value in named.values()], operation.attributes)
    if kind is None:
        message = f"{operation.name}: the type of %{result.name} is not known"
        raise Refusal(f"{message}; write it at the end, as in `-> !pto.tile<16x32xf32>`")
    return low.declare(result, kind, _open_extents(low, kind, named))


def _type(low: Lowering, value: Value) -> object:
    """The type of a source; that of a tile is known even if the text does not give it."""
    meaning = low.meaning(value)
    return low.tiles[meaning.name] if isinstance(meaning, TileName) else value.type


def _is_like(tile: TileSpec, other: TileSpec) -> bool:
    """Whether two types are equal, apart from the valid region and the strides of a slice."""
    plain, against = (
        replace(spec, valid_rows=0, valid_cols=0, dynamic=(False, False), pitch=0, skew=None) for spec in (tile, other)
    )
    return plain == against


def _open_extents(low: Lowering, spec: TileSpec, named: dict[str, Value]) -> tuple[Expr, Expr] | None:
    """Valid extents that a type leaves open are those of the first source of the same shape."""
    if not is_unknown(*spec.valid):
        return None
    for value in named.values():
        meaning = low.meaning(value)
        if isinstance(meaning, TileName):
            other, extents = low.tiles[meaning.name], low.scopes[-1].valid[meaning.name]
            if (other.rows, other.cols) == (spec.rows, spec.cols) and extents is not None:
                return tuple(e if is_unknown(own) else own for e, own in zip(extents, spec.valid, strict=True))  # type: ignore[return-value]
    return None


def _operand(low: Lowering, instruction: Instruction, param: Param, named: dict[str, Value]) -> Operand:
    meaning, (kind, types) = low.meaning(named[param.name]), kind_of(instruction, param)
    if not isinstance(meaning, types):
        hint = "; make a view of the pointer" if isinstance(meaning, ElementPointer) else ""
        raise Refusal(f"{instruction.name}: {param.name} must be {kind}{hint}")
    if param.kind in NUMBERS:
        typed = _type(low, named[instruction.type_source(param)])
        dtype = typed.dtype if isinstance(typed, TileSpec | Tensor) else None
        return number_operand(instruction, param, meaning, param.dtype or dtype)
    return meaning if isinstance(meaning, View) else tile_use(meaning, low.scopes[-1].valid, instruction.name)


def _with_destination(operation: Operation) -> Operation:
    """The operation with its destination in `outs`. Without results and `outs`, it is the last operand."""
    if operation.outs or operation.results or not operation.ins:
        return operation
    *ins, last = operation.ins
    return replace(operation, parts={**operation.parts, "ins": tuple(ins), "outs": (last,)})
