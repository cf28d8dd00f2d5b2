"""Instructions: operands by their parts, a destination or a result, modifiers from attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptokit.isa.dtype import INT32, DType
from ptokit.isa.instruction import Instruction, Modifier, Param
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.spelling import Attribute
from ptokit.isa.unknown import is_unknown
from ptokit.program.expr import Expr, Op, Var
from ptokit.program.ir import Constant, Given, Instr, Number, Operand, TileUse, View
from ptokit.text.errors import guess
from ptokit.text.lower.lowering import (
    WITHOUT_EFFECT,
    Lowering,
    Meaning,
    OtherForm,
    Refusal,
    Rounded,
    TileName,
    refuse_unknown,
    tile_use,
)
from ptokit.text.memories import ElementPointer
from ptokit.text.spelling import instruction_of, member_of, result_type, variant_for
from ptokit.text.tree import Operation, Tensor, Value, items_of


def order_of(operation: Operation, instruction: Instruction) -> PtoEnum | None:
    """The member of the modifier that the order of the sources states: reversed sources do not begin with the tile."""
    modifier = instruction.order
    if modifier is None or modifier.text is None:
        return None
    is_default = operation.ins and isinstance(operation.ins[0].type, TileSpec)
    return modifier.fixed_default if is_default else modifier.text.reverses


def named_sources(operation: Operation, instruction: Instruction, order: PtoEnum | None) -> dict[str, Value]:
    """The operands that an instruction reads, by its own names for them, without the workspace."""
    values, names = list(operation.ins), instruction.sources(order)
    if workspace_of(operation, instruction) is not None and instruction.workspace:
        del values[instruction.workspace.position]
    least = sum(not param.optional for param in instruction.operands) - len(instruction.results)
    if not least <= len(values) <= len(names):
        most = f" to {len(names)}" if len(names) > least else ""
        plural = "" if len(names) == 1 else "s"
        message = f"{operation.name} takes {least}{most} operand{plural} ({', '.join(names)})"
        raise OtherForm(f"{message}, found {len(values)}; other forms have no lowering")
    return dict(zip(names, values, strict=False))


def workspace_of(operation: Operation, instruction: Instruction) -> Value | None:
    """The operand that is the workspace, if there is one."""
    is_given = instruction.workspace and len(operation.ins) == 1 + len(instruction.sources())
    return operation.ins[instruction.workspace.position] if instruction.workspace and is_given else None


def modifiers_of(operation: Operation, instruction: Instruction, order: PtoEnum | None) -> tuple[PtoEnum | None, ...]:
    """The modifiers that an operation's attributes, or the order of its sources, choose."""
    texts = {modifier.name: text for modifier, text in instruction.attributes}
    for key in CHANGING.keys() & operation.attributes.keys() - {text.key for text in texts.values()}:
        if operation.attributes[key] not in CHANGING[key]:
            raise OtherForm(f"{operation.name}: `{key}` has no lowering", key)
    refuse_unknown(operation, (*(text.key for text in texts.values()), *ELSEWHERE))
    return tuple(
        order if modifier is instruction.order else _modifier(operation, modifier, texts[modifier.name])
        for modifier in instruction.modifiers
    )


CHANGING: Mapping[str, tuple[Any, ...]] = {
    **WITHOUT_EFFECT,
    **dict.fromkeys(("layout", "sat_mode", "maskPattern", "accToVecMode", "cmpMode", "accPhase", "offset"), ()),
}  # fmt: skip
"""Attributes of instructions that only the public dialect has, and the values that have no effect. With another one, an
instruction is known by its effects only."""
ELSEWHERE = ("tile", "event", "waits")
"""Attributes of instructions that are no modifiers."""


def _modifier(operation: Operation, modifier: Modifier, text: Attribute) -> PtoEnum | None:
    if text.key not in operation.attributes:
        return None
    word = operation.attributes[text.key]
    member = member_of(modifier, text, word)
    if member is None:
        words = [str(text.written(member)) for member in modifier.enum]
        message = f"`{text.key}` is one of {', '.join(words)}; found {word}{guess(str(word), words)}"
        raise Refusal(f"{operation.name}: {message}", text.key)
    return member


def kind_of(instruction: Instruction, param: Param) -> tuple[str, tuple[type, ...]]:
    """The required kind of an operand. The rules of instructions that take a table distinguish tiles and memory."""
    return KINDS["tile or memory" if instruction.takes_table and param.kind not in NUMBERS else param.kind]


NUMBERS = ("number", "position")
KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(NUMBERS, ("a number", (int, Var, Op, Constant, Given, Rounded))),
    "memory": ("a block of memory", (View,)),
    "tile or memory": ("a tile or memory", (View, TileName)),
    "tile": ("a tile", (TileName,)),
}
"""Kinds of operands: the words of messages, and the meanings."""


def number_operand(instruction: Instruction, param: Param, meaning: Meaning, dtype: DType | None) -> Operand:
    """A number as an operand of an instruction that works in an element type."""
    what = f"{instruction.name}: {param.name}"
    if param.kind == "position":
        if not isinstance(meaning, int | Var | Op):
            raise Refusal(f"{what} must be a whole number")
        return Number(INT32, meaning, is_position=True)
    if dtype is None:
        raise Refusal(f"{what} is a number, and no tile determines its type")
    if isinstance(meaning, int | Var | Op):
        if not dtype.is_integer:
            raise Refusal(f"{what} must be a number of type {dtype.mlir}; found a whole number")
        return _integer(meaning, dtype, what) if isinstance(meaning, int) else Number(dtype, meaning)
    assert isinstance(meaning, Constant | Given | Rounded)
    if meaning.dtype is not dtype:
        raise Refusal(f"{what} must be a number of type {dtype.mlir}; found {meaning.dtype.mlir}")
    return Number(dtype, meaning.value) if isinstance(meaning, Rounded) else meaning


def _integer(value: int, dtype: DType, what: str) -> Constant:
    """A whole number as bits. Text may write an unsigned number as a signed one of the same width."""
    width = 8 * dtype.size
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise Refusal(f"{what}: {value} does not fit {dtype.mlir}")
    return Constant(dtype, value & ((1 << width) - 1))


def read_instruction(low: Lowering, operation: Operation) -> None:
    """Read an instruction, in the form with destinations or in the form with results."""
    instruction, operation = _variant(_with_destination(operation))
    if instruction.cpp.objects:  # counts, which programs do not have
        operation = replace(operation, parts={**operation.parts, "outs": operation.outs[:1]})
    if other := next((part for part in operation.parts if part not in ("ins", "outs")), ""):
        raise OtherForm(f"{operation.name}: `{other}` has no lowering")
    order = order_of(operation, instruction)
    modifiers = modifiers_of(operation, instruction, order)
    named = named_sources(operation, instruction, order)
    named = {**_destinations(low, operation, instruction, named), **named}
    params = [param for param in instruction.operands if param.name in named]
    operands = tuple(_operand(low, instruction, param, named) for param in params)
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


def _destinations(
    low: Lowering, operation: Operation, instruction: Instruction, named: dict[str, Value]
) -> dict[str, Value]:
    outs, names = operation.outs, instruction.results
    if len(outs) > len(names) or len(operation.results) > len(names):
        raise OtherForm(f"{operation.name} with {len(outs or operation.results)} destinations has no lowering")
    for place, result in enumerate(operation.results):
        low.values[result] = low.meaning(outs[place]) if outs else _result(low, result, place, operation, named)
    written = outs or operation.results
    if len(written) < len(names):
        raise Refusal(
            f"{operation.name} has no destination" if not written else f"{operation.name} has one destination"
        )
    return dict(zip(names, written, strict=True))


def _result(low: Lowering, result: Value, place: int, operation: Operation, named: dict[str, Value]) -> TileName:
    """The tile of a result: the tile that the attribute names at its place, or a new tile."""
    if given := dict(enumerate(str(operation.attributes.get("tile", "")).split(", "))).get(place):
        name = low.tile_names[-1].get(given, "")
        if name not in low.scopes[-1].valid:
            raise Refusal(f"{operation.name}: `tile = {operation.attributes['tile']}` names no tile that is known here")
        if isinstance(result.type, TileSpec) and not _is_like(low.tiles[name], result.type):
            raise Refusal(f"{operation.name}: the type of %{result.name} is not that of the tile it goes into")
        return low.named(name)
    type_ = result.type
    if not isinstance(type_, TileSpec):
        type_ = result_type(operation.name, [_type(low, value) for value in named.values()], operation.attributes)
    if type_ is None:
        message = f"{operation.name}: the type of %{result.name} is not known"
        raise Refusal(f"{message}; write it at the end, as in `-> !pto.tile<16x32xf32>`")
    return low.declare(result, type_, _open_extents(low, type_, named))


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
