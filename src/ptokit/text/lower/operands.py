"""The meaning of values in a text, and operands of instructions made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptokit.isa.dtype import INT32, DType
from ptokit.isa.instruction import Instruction, Modifier, Param
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import PtoEnum
from ptokit.isa.spelling import Attribute
from ptokit.program.expr import Expr, Op, Var
from ptokit.program.ir import Constant, Given, Number, Operand, TileUse, View, Window
from ptokit.text.errors import guess
from ptokit.text.memories import ElementPointer
from ptokit.text.results import member_of
from ptokit.text.tree import Operation, Value


@dataclass(frozen=True)
class TileName:
    """A tile of the program, or a slice of one."""

    name: str
    """Its name; a slice has its own."""
    tile: str = ""
    """The tile that a slice is of."""
    window: Window | None = None


@dataclass(frozen=True)
class Rounded:
    """A whole number that is used as a floating-point one."""

    value: Expr
    dtype: DType


Meaning = Expr | ElementPointer | View | TileName | Constant | Given | Rounded
"""The meaning of a value."""

_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "stPhase": ("unspecified",), "reluPreMode": ("no_relu",), "padMode": ("PadNull",), "initOutBuffer": (False,),
}  # fmt: skip
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    **_WITHOUT_EFFECT,
    **dict.fromkeys(("operandSegmentSizes", "isBinary", "overflowFlags", "fastmath"), ()),
}  # fmt: skip
"""Attributes that have no effect with these values; without values, with any."""


class Refusal(ValueError):
    """An operation that a program cannot express; `attribute` is the one at fault."""

    def __init__(self, message: str, attribute: str = "") -> None:
        super().__init__(message)
        self.attribute = attribute


class OtherForm(Refusal):
    """A form of an instruction that programs cannot execute."""


class NotKnown(Refusal):
    """An operation whose operand lacks something that an earlier operation would have set."""


def order_of(operation: Operation, instruction: Instruction) -> PtoEnum | None:
    """The member of the modifier that the order of the sources states: reversed sources do not begin with the tile."""
    modifier = instruction.order
    if modifier is None or modifier.text is None:
        return None
    is_default = operation.ins and isinstance(operation.ins[0].type, TileSpec)
    return modifier.fixed_default if is_default else modifier.text.reverses


def named_sources(operation: Operation, instruction: Instruction, order: PtoEnum | None) -> dict[str, Value]:
    """The operands that an instruction reads, by its own names for them, without the workspace."""
    given, names = list(operation.ins), instruction.sources(order)
    if workspace_of(operation, instruction) is not None and instruction.workspace:
        del given[instruction.workspace.position]
    least = sum(not param.optional for param in instruction.operands[1:])
    if not least <= len(given) <= len(names):
        most = f" to {len(names)}" if len(names) > least else ""
        plural = "" if len(names) == 1 else "s"
        message = f"{operation.name} takes {least}{most} operand{plural} ({', '.join(names)})"
        raise OtherForm(f"{message}, found {len(given)}; other forms have no lowering")
    return dict(zip(names, given, strict=False))


def workspace_of(operation: Operation, instruction: Instruction) -> Value | None:
    """The operand that is the workspace, if there is one."""
    is_given = instruction.workspace and len(operation.ins) == len(instruction.operands)
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
    **_WITHOUT_EFFECT,
    **dict.fromkeys(("layout", "sat_mode", "maskPattern", "accToVecMode", "cmpMode", "accPhase", "offset"), ()),
}  # fmt: skip
"""Attributes of instructions that only the public dialect has, and the values that have no effect. With another one, an
instruction is known by its effects only."""
ELSEWHERE = ("tile", "event", "waits")
"""Attributes of instructions that are no modifiers."""


def refuse_unknown(operation: Operation, known: tuple[str, ...], operands: tuple[str, ...] = ()) -> None:
    """Refuse an attribute that is not known, unless it has no effect or belongs to another dialect."""
    for key, value in operation.attributes.items():
        if key in known or "." in key or (key in NEUTRAL and (not NEUTRAL[key] or value in NEUTRAL[key])):
            continue
        hint = f"; it is an operand: `{key} = %x`" if key in operands else guess(key, (*known, *operands))
        raise Refusal(f"{operation.name}: `{key} = {value}` has no lowering{hint}", key)


def _modifier(operation: Operation, modifier: Modifier, text: Attribute) -> PtoEnum | None:
    if text.key not in operation.attributes:
        return None
    found = operation.attributes[text.key]
    member = member_of(modifier, text, found)
    if member is None:
        words = [str(text.written(each)) for each in modifier.enum]
        message = f"`{text.key}` is one of {', '.join(words)}; found {found}{guess(str(found), words)}"
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


def tile_use(meaning: Meaning, valid: Mapping[str, tuple[Expr, Expr] | None], name: str) -> TileUse:
    """A tile as an operand, with its current valid extents."""
    assert isinstance(meaning, TileName)
    extents = valid[meaning.name]
    if extents is None:
        raise NotKnown(f"{name}: the valid extents of %{meaning.name} are not known here; set_validshape sets them")
    return TileUse(meaning.tile or meaning.name, extents, meaning.window)
