"""What stands behind values of a text, and instructions made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptokit.isa.dtype import INT32, DType
from ptokit.isa.instruction import Instruction, Modifier
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Dividend, PtoEnum
from ptokit.program.expr import Expr, Op, Var
from ptokit.program.ir import Constant, Given, Number, Operand, TileUse, View, Window
from ptokit.text.errors import guess
from ptokit.text.memories import Place
from ptokit.text.spelling import ATTRIBUTES, SYNONYMS, sources
from ptokit.text.tree import Operation, Value
from ptokit.text.workspaces import WORKSPACE


@dataclass(frozen=True)
class TileName:
    """A tile of the program, or a slice of one."""

    name: str
    """What it is known by: of a slice, a name of its own."""
    tile: str = ""
    """The tile that a slice is of."""
    window: Window | None = None


@dataclass(frozen=True)
class Rounded:
    """A whole number that is used as a floating-point one."""

    value: Expr
    dtype: DType


Meaning = Expr | Place | View | TileName | Constant | Given | Rounded
"""What a value of the text stands for."""

NUMERIC = ("scalar", "start", "row", "col")
"""Operands that are numbers."""
MEMORY = {("tload", "src"), ("tstore", "dst")}
"""Operands that are blocks of memory."""
INDEXED = ("mgather", "mscatter")
"""Instructions whose rules say themselves which operand is a tile and which is memory."""
STEERING = {("textract", "row"), ("textract", "col")}
"""Numbers that say where to read."""

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "stPhase": ("unspecified",), "reluPreMode": ("no_relu",), "padMode": ("PadNull",), "initOutBuffer": (False,),
    "operandSegmentSizes": (), "isBinary": (),
}  # fmt: skip
"""Attributes that change nothing with these values; without values, that never do."""


class Refusal(ValueError):
    """What a text says and a program cannot."""


def dividend_of(operation: Operation, instruction: Instruction) -> PtoEnum | None:
    """Which operand of a division by or of a scalar is divided, as their order tells."""
    if not any(modifier.enum is Dividend for modifier in instruction.modifiers):
        return None
    return Dividend.Tile if operation.ins and isinstance(operation.ins[0].type, TileSpec) else Dividend.Scalar


def named_sources(operation: Operation, instruction: Instruction, dividend: PtoEnum | None) -> dict[str, Value]:
    """The operands that an instruction reads, by its own names for them; a workspace is left out."""
    given, names = list(operation.ins), sources(instruction, dividend)
    place = WORKSPACE.get(instruction.name)
    if place is not None and len(given) == len(names) + 1:
        del given[place]
    least = sum(not param.optional for param in instruction.operands[1:])
    if not least <= len(given) <= len(names):
        most = f" to {len(names)}" if len(names) > least else ""
        plural = "" if len(names) == 1 else "s"
        said = f"{operation.name} takes {least}{most} operand{plural} ({', '.join(names)})"
        raise Refusal(f"{said}, found {len(given)}; other forms have no lowering")
    return dict(zip(names, given, strict=False))


def workspace_of(operation: Operation, instruction: Instruction) -> Value | None:
    """The operand that is only room to compute in, if there is one."""
    place, needed = WORKSPACE.get(instruction.name), len(instruction.operands) - 1
    return operation.ins[place] if place is not None and len(operation.ins) == needed + 1 else None


def modifiers_of(
    operation: Operation, instruction: Instruction, dividend: PtoEnum | None
) -> tuple[PtoEnum | None, ...]:
    """The modifiers that an operation's attributes choose."""
    known = {ATTRIBUTES[instruction.name, m.name].key for m in instruction.modifiers if m.enum is not Dividend}
    for key, value in operation.attributes.items():
        if key not in known and not _is_idle(key, value):
            hint = guess(key, known) if known else ""
            raise Refusal(f"{operation.name}: `{key} = {value}` has no lowering{hint}")
    return tuple(
        dividend if modifier.enum is Dividend else _modifier(operation, instruction, modifier)
        for modifier in instruction.modifiers
    )


def _is_idle(key: str, value: object) -> bool:
    """Whether an attribute says nothing that a program could miss."""
    return "." in key or key in IDLE or (key in NEUTRAL and (not NEUTRAL[key] or value in NEUTRAL[key]))


IDLE = ("tile", "event", "waits")
"""Attributes that are read elsewhere."""


def _modifier(operation: Operation, instruction: Instruction, modifier: Modifier) -> PtoEnum | None:
    attribute = ATTRIBUTES[instruction.name, modifier.name]
    if attribute.key not in operation.attributes:
        return None
    found = operation.attributes[attribute.key]
    found = SYNONYMS.get(attribute.kind, {}).get(found, found) if isinstance(found, str) else found
    words = {attribute.written(member): member for member in modifier.enum}
    if found not in words and isinstance(found, str):
        found = next((word for word in words if isinstance(word, str) and word.lower() == found.lower()), found)
    if found not in words:
        known = ", ".join(map(str, words))
        raise Refusal(
            f"{operation.name}: `{attribute.key}` is one of {known}; found {found}{guess(str(found), map(str, words))}"
        )
    return words[found]


def kind_of(instruction: Instruction, name: str) -> str:
    """What an operand must be."""
    if name in NUMERIC:
        return "a number"
    if (instruction.name, name) in MEMORY:
        return "a block of memory"
    return "a tile or memory" if instruction.name in INDEXED else "a tile"


def is_kind(meaning: Meaning, kind: str) -> bool:
    """Whether a meaning is what an operand must be."""
    return isinstance(meaning, KINDS[kind])


KINDS: dict[str, tuple[type, ...]] = {
    "a number": (int, Var, Op, Constant, Given, Rounded),
    "a block of memory": (View,),
    "a tile or memory": (View, TileName),
    "a tile": (TileName,),
}


def number_operand(instruction: Instruction, name: str, meaning: Meaning, dtype: DType | None) -> Operand:
    """A number as an operand of an instruction that works in an element type."""
    what = f"{instruction.name}: {name}"
    if (instruction.name, name) in STEERING:
        if not isinstance(meaning, int | Var | Op):
            raise Refusal(f"{what} must be a whole number")
        return Number(INT32, meaning, steers=True)
    if dtype is None:
        raise Refusal(f"{what} is a number, and no tile says of which type")
    if isinstance(meaning, int | Var | Op):
        if not dtype.is_integer:
            raise Refusal(f"{what} must be a number of type {dtype.mlir}; found a whole number")
        return _integer(meaning, dtype, what) if isinstance(meaning, int) else Number(dtype, meaning)
    assert isinstance(meaning, Constant | Given | Rounded)
    if meaning.dtype is not dtype:
        raise Refusal(f"{what} must be a number of type {dtype.mlir}; found {meaning.dtype.mlir}")
    return Number(dtype, meaning.value) if isinstance(meaning, Rounded) else meaning


def _integer(value: int, dtype: DType, what: str) -> Constant:
    """A whole number as bits. Text writes unsigned numbers as signed ones of the same width, too."""
    width = 8 * dtype.size
    if not -(1 << (width - 1)) <= value < 1 << width:
        raise Refusal(f"{what}: {value} does not fit {dtype.mlir}")
    return Constant(dtype, value & ((1 << width) - 1))


def tile_use(meaning: Meaning, valid: Mapping[str, tuple[Expr, Expr] | None], name: str) -> TileUse:
    """A tile as an operand, with the extents that are valid now."""
    assert isinstance(meaning, TileName)
    extents = valid[meaning.name]
    if extents is None:
        raise Refusal(f"{name}: the valid extents of %{meaning.name} are not known here; set_validshape sets them")
    return TileUse(meaning.tile or meaning.name, extents, meaning.window)
