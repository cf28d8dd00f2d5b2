"""Recorded C++ calls as instructions: the inverse of how C++ calls them (`Instruction.cpp`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ptokit.cxx.operands import (
    Arrays,
    ArraySlot,
    ConstantSlot,
    ElementSlot,
    Indices,
    NumberSlot,
    TileSlot,
    Unexpressible,
    check_modelled,
    element_slot,
    element_type,
    tile_slot,
)
from ptokit.cxx.recording import (
    CONVOLUTION,
    LaunchArgument,
    RecordedArray,
    RecordedCall,
    RecordedOperand,
    RecordedPointer,
    RecordedScalar,
    RecordedText,
    RecordedTile,
)
from ptokit.isa.catalog import INSTRUCTIONS, derived, variants
from ptokit.isa.dtype import INT32, DType, dtype
from ptokit.isa.instruction import Cpp, Instruction, Modifier, Modifiers, Param
from ptokit.isa.opaque import ADDRESSES, EXACT, NONE, OWN_KINDS, OpaqueKind, form_for, recorded_form, unused
from ptokit.isa.operand import BLOCK
from ptokit.isa.policy import PtoEnum, TileType
from ptokit.isa.spelling import TMP
from ptokit.isa.tquant import GROUP
from ptokit.program.ir import Constant

Slot = TileSlot | ElementSlot | ArraySlot | NumberSlot | ConstantSlot
WORDS = re.compile(r"\w+\((?P<words>[^()\[]*)")
PREFIXES = re.compile(r"^(?:\w+::)*(?:cast_|atomic_)?")
"""What enumerators have before their own word."""


@dataclass(frozen=True)
class InstrShape:
    """An instruction without its numbers."""

    name: str
    slots: tuple[Slot, ...]
    modifiers: Modifiers
    workspace: TileSlot | None
    words: tuple[int, ...]
    """Which C++ argument each operand is, then the workspace."""
    site: int
    opaque_form: str = ""
    """Of an instruction that is known by its effects only."""
    attributes: tuple[tuple[str, str | int], ...] = ()
    """Of such an instruction: its template arguments."""


@dataclass(frozen=True)
class _CallForm:
    """One way to call an instruction: the names of its arguments, and modifiers that the form implies."""

    words: tuple[str, ...]
    implied: tuple[tuple[str, PtoEnum], ...]


@derived
def _forms(name: str) -> tuple[_CallForm, ...]:
    definition = INSTRUCTIONS[name]
    text = definition.cpp.call or definition.spellings["C++"][0]
    if not callable(text):
        return (_CallForm(_words(text), ()),)
    chosen_by_text: dict[str, dict[str, PtoEnum]] = {}
    for members in product(*(modifier.enum for modifier in definition.modifiers)):
        chosen = dict(zip((modifier.name for modifier in definition.modifiers), members, strict=True))
        chosen_by_text.setdefault(text(SimpleNamespace(**chosen)), chosen)  # type: ignore[arg-type]
    return tuple(_CallForm(_words(text), tuple(chosen.items())) for text, chosen in chosen_by_text.items())


def _words(text: str) -> tuple[str, ...]:
    match = WORDS.match(text)
    return tuple(word.strip(" &") for word in match["words"].split(",")) if match else ()


def instr_shape(call: RecordedCall, arrays: Arrays, target: str = "") -> tuple[InstrShape, Indices]:
    """A recorded call of an instruction: one that is modelled, else one that is known by its effects only."""
    source = call.operands[1] if len(call.operands) > 1 else None
    if isinstance(source, RecordedTile) and _cpp(call).without_pipe.get(target) == source.memory:
        return InstrShape(call.name, (), (), None, (), call.site, NONE), ()
    if call.name in ADDRESSES:
        raise Unexpressible(
            f"{call.name.upper()} of a tile without an address is not modelled; give it one with TASSIGN"
        )
    call = _by_groups(_of_image(_by_memory(call)))
    try:
        return _element(call, arrays) if call.name in EXACT else _modelled(call, arrays, target)
    except Unexpressible:
        return _opaque(call, arrays)


def _by_memory(call: RecordedCall) -> RecordedCall:
    """A call as the variant of its instruction that has an operand in some memory: factors of columns, a bias or an
    accumulator to add."""
    for suffix, place, memory in BY_MEMORY:
        operand = call.operands[place] if -len(call.operands) <= place < len(call.operands) else None
        name = f"{call.name}_{suffix}"
        if name in INSTRUCTIONS and isinstance(operand, RecordedTile) and TileType.parse(operand.memory) is memory:
            return replace(call, name=name)
    return call


def _of_image(call: RecordedCall) -> RecordedCall:
    """A load of a whole convolution tile under its own name."""
    dst, src = call.operands[:2] if call.name == "tload" and len(call.operands) > 1 else (None, None)
    if not isinstance(dst, RecordedTile) or not isinstance(src, RecordedArray):
        return call
    is_image = dst.compact == CONVOLUTION and src.layout.lower() == "nc1hwc0"
    is_whole = prod(src.shape) == dst.cols and src.dtype == dst.dtype
    return replace(call, name="tload_image") if is_image and is_whole else call


def _by_groups(call: RecordedCall) -> RecordedCall:
    """A conversion of whole rows to float8_e4m3 with shared exponents under the name of its algorithm."""
    chosen, tiles = dict(call.modifiers), [each for each in call.operands if isinstance(each, RecordedTile)]
    if call.name != "tquant" or chosen.get("quant") != "mxfp8" or len(tiles) != len(call.operands) or len(tiles) != 5:
        return call
    dst, src, exp = tiles[:3]
    algorithm = str(chosen.get("scale", "ocp"))
    kinds = ("float32", "bfloat16") if algorithm == "ocp" else ("float32",)
    is_plain = all((each.blayout, each.slayout) == ("row_major", "none_box") for each in tiles)
    is_alike = (dst.cols, dst.valid_rows, dst.valid_cols) == (src.cols, src.valid_rows, src.cols)
    is_whole = src.valid_cols == src.cols and src.cols % GROUP == 0 and min(src.valid_rows, src.cols) > 0
    groups = src.cols // GROUP
    needed = (1, src.valid_rows * groups) if exp.rows == 1 else (src.valid_rows, groups)
    has_room = exp.rows >= needed[0] and exp.cols >= needed[1] and exp.dtype in ("uint8", "float8_e8m0")
    fits = is_plain and is_alike and is_whole and has_room and src.dtype in kinds and dst.dtype == "float8_e4m3"
    return replace(call, name=f"tquant_{algorithm}") if fits else call


BY_MEMORY = (("fp", 2, TileType.Scaling), ("acc", 1, TileType.Acc), ("bias", -1, TileType.Bias))
"""Variants: the end of the name, the place of the operand, and its memory."""


def with_element(call: RecordedCall, arguments: Sequence[LaunchArgument]) -> RecordedCall:
    """An access through a pointer to elements of an array, as those of its type; another call as it is."""
    array = call.operands[0] if call.name in EXACT and call.operands else None
    if not isinstance(array, RecordedArray) or array.argument is None:
        return call
    kind = arguments[array.argument].dtype
    if element_type(kind).size != element_type(array.dtype).size:
        return call
    operands = (replace(each, dtype=kind) if isinstance(each, RecordedArray) else each for each in call.operands)
    return replace(call, operands=tuple(operands))


def _element(call: RecordedCall, arrays: Arrays) -> tuple[InstrShape, Indices]:
    """A scalar access to an element of a tile, or what pointers reach."""
    if len(call.operands) < 2 or isinstance(call.operands[1], RecordedArray):
        slots, numbers = list[Slot](), list[int]()
        for operand in call.operands:
            slot, own = _reached(operand, arrays)
            slots.append(slot)
            numbers += own
        words = tuple(range(len(slots)))
        return InstrShape(call.name, tuple(slots), (), None, words, call.site, EXACT[call.name]), tuple(numbers)
    tile, offset, *value = call.operands
    if not isinstance(tile, RecordedTile) or not isinstance(offset, RecordedScalar):
        raise Unexpressible(f"ptokit does not model {call.name} with these arguments")
    check_modelled(tile)
    slot, numbers = element_slot(tile, int(offset.value))
    slots: list[Slot] = [slot]
    for operand in value:
        assert isinstance(operand, RecordedScalar)
        more, own = _number_slot(operand, element_type(tile.dtype))
        slots.append(more)
        numbers += own
    return InstrShape(call.name, tuple(slots), (), None, (0, 2)[: len(slots)], call.site, EXACT[call.name]), numbers


def _reached(operand: RecordedOperand, arrays: Arrays) -> tuple[Slot, Indices]:
    """Elements of an array, or of an on-chip memory: those of a tile in whole blocks around them."""
    if isinstance(operand, RecordedArray):
        return arrays.view(operand)
    if not isinstance(operand, RecordedTile) or operand.address is None:
        raise Unexpressible("the pointer is in no memory")
    size = element_type(operand.dtype).size
    first, count = operand.address % BLOCK // size, operand.cols
    cols = -(-(first + count) * size // BLOCK) * BLOCK // size
    start = operand.address - operand.address % BLOCK
    slot, numbers = element_slot(replace(operand, address=start, cols=cols, valid_cols=cols), first, count)
    return replace(slot, tile=replace(slot.tile, is_pointed=True)), numbers


def _number_slot(operand: RecordedScalar, kind: DType) -> tuple[Slot, Indices]:
    if kind.is_integer:
        return NumberSlot(kind, False), (_wrapped(int(operand.value), kind),)
    return ConstantSlot(Constant(kind, _bits(operand.value, kind))), ()


def _opaque(call: RecordedCall, arrays: Arrays) -> tuple[InstrShape, Indices]:
    """A call by its effects. Operands that a program cannot have are left out."""
    unused = _unused(call)
    operands = [(k, operand) for k, operand in enumerate(call.operands) if type(operand) in LOOSE and k not in unused]
    stated, _, flags = str(dict(call.modifiers).get(EFFECTS, "")).partition(";")
    letters = (
        stated.split(",")
        if stated
        else _letters(call) or form_for(call.name, [_kind_of(call, place) for place, _ in operands])
    )
    slots, numbers, words, form = list[Slot](), list[int](), list[int](), list[str]()
    for (place, operand), letter in zip(operands, letters, strict=False):
        try:
            slot, own = _slot(_as_workspace(operand) if letter == "s" else operand, None, arrays)
        except Unexpressible:
            if isinstance(operand, RecordedArray) and operand.argument is not None:
                raise  # the pointer is not aligned: without it, the call would look as if it moved nothing
            continue
        slots.append(slot)
        numbers += own
        words.append(place)
        form.append(letter)
    key = (recorded_form(form, flags.split(",") if flags else ()) if stated else "".join(form)) or NONE
    modifiers = tuple(pair for pair in call.modifiers if pair[0] != EFFECTS)
    shape = InstrShape(call.name, tuple(slots), (), None, tuple(words), call.site, key, modifiers)
    return shape, tuple(numbers)


def _as_workspace(operand: RecordedOperand) -> RecordedOperand:
    """Headers take the address of a workspace, not its valid region, which may be larger than the tile."""
    if not isinstance(operand, RecordedTile):
        return operand
    rows, cols = min(operand.valid_rows, operand.rows), min(operand.valid_cols, operand.cols)
    return replace(operand, valid_rows=rows, valid_cols=cols)


def _unused(call: RecordedCall) -> tuple[int, ...]:
    """The places of operands that a call does not read."""
    source = call.operands[1] if len(call.operands) > 2 else None
    return unused(call.name, element_type(source.dtype), call.modifiers) if isinstance(source, RecordedTile) else ()


LETTERS = {"write": "w", "update": "u", "read": "r"}


def _letter(param: Param) -> str:
    """The letter of an operand. Memory that may be combined with, and a tile that is written in part, count as written
    only."""
    if param.kind in ("number", "position"):
        return "n"
    is_written = param.access == "update" and (param.kind == "memory" or param.in_part)
    return "w" if is_written else LETTERS[param.access]


def _letters(call: RecordedCall) -> str:
    """The form of a call that its definition has, but for modifiers or types; empty if it has none."""
    if any(type(operand) not in LOOSE for operand in call.operands) or "pointer" in dict(call.modifiers):
        return ""
    for definition in variants(call.name):
        try:
            _, words = _matched(definition, call)
        except Unexpressible:
            continue
        break
    else:
        return ""
    access = {param.name: _letter(param) for param in definition.operands}
    return "".join(access.get(word, "s" if word == TMP else "n") for word in words.values())


EFFECTS = "effects"
"""The modifier that states what headers did in a call, as a form."""
LOOSE = (RecordedTile, RecordedArray, RecordedScalar)
"""What operands of a call by its effects are."""


def _kind_of(call: RecordedCall, place: int) -> OpaqueKind:
    operand = call.operands[place]
    if ("pointer", place) in call.modifiers:
        return "pointer"
    is_scaling = isinstance(operand, RecordedTile) and operand.memory == "scaling"
    return "scaling" if is_scaling else KINDS[type(operand)]  # type: ignore[return-value]


def _slot(operand: RecordedOperand, kind: DType | None, arrays: Arrays) -> tuple[Slot, Indices]:
    """An operand of an instruction; a number has the type that is given, or else its own."""
    match operand:
        case RecordedTile():
            return tile_slot(operand)
        case RecordedArray():
            return arrays.view(operand)
        case RecordedScalar():
            return _number_slot(operand, kind or element_type(operand.dtype))
        case _:
            raise Unexpressible("a program has no such operand")


def _types(call: RecordedCall) -> set[str]:
    """The element types of the tiles and arrays of a call."""
    return {operand.dtype for operand in call.operands if isinstance(operand, RecordedTile | RecordedArray)}


FLOATS = {"float16", "bfloat16", "float32"}


def _cpp(call: RecordedCall) -> Cpp:
    """What its definition says of C++."""
    known = INSTRUCTIONS.get(call.name)
    return known.cpp if known else Cpp()


def _is_gap(call: RecordedCall, target: str) -> bool:
    """Whether it is one that targets take and ptokit does not model: bitwise operations of floats, and what definitions
    state of the target."""
    types = _types(call)
    if call.name in ("tand", "tor") and types & FLOATS:
        return True
    cpp = _cpp(call)
    return types == cpp.unmodelled.get(target) or bool(types & (cpp.unmodelled_any.get(target) or frozenset()))


def _modelled(call: RecordedCall, arrays: Arrays, target: str) -> tuple[InstrShape, Indices]:
    """A call of an instruction of the catalogue. Raises Unexpressible."""
    if _is_gap(call, target):
        raise Unexpressible(f"ptokit does not model {call.name.upper()} of these types")
    for operand in call.operands:
        check_modelled(operand, INSTRUCTIONS.get(call.name))
    known = variants(call.name)
    if not known:
        raise Unexpressible(f"ptokit does not model {call.name.upper()}")
    for definition in known[1:]:
        try:
            return _as_form(definition, call, arrays)
        except Unexpressible:
            continue
    return _as_form(known[0], call, arrays)


def _as_form(definition: Instruction, call: RecordedCall, arrays: Arrays) -> tuple[InstrShape, Indices]:
    """A call of an instruction in one of its forms. Raises Unexpressible."""
    form, chosen = _matched(definition, call)
    params = {param.name: param for param in definition.operands}
    places = {word: place for place, word in chosen.items()}
    if definition.cpp.in_place:
        places.setdefault(definition.cpp.in_place, 0)
    slots, numbers = list[Slot](), list[int]()
    for param in definition.operands:
        if param.name in places:
            slot, own = _typed_slot(param, call, places[param.name], _type_of(definition, param, call, places), arrays)
            slots.append(slot)
            numbers += own
        elif not param.optional:
            raise Unexpressible(f"{call.name.upper()} without its {param.name} is not modelled")
    workspace = None
    if TMP in places and TMP not in params:
        operand = _as_workspace(call.operands[places[TMP]])
        assert isinstance(operand, RecordedTile)
        workspace, own = tile_slot(operand)
        numbers += own
    modifiers = tuple(_modifier(modifier, form, call, places) for modifier in definition.modifiers)
    _check_template(definition, call)
    order = tuple(places[name] for name in (*(p.name for p in definition.operands), TMP) if name in places)
    return InstrShape(definition.name, tuple(slots), modifiers, workspace, order, call.site), tuple(numbers)


def _matched(definition: Instruction, call: RecordedCall) -> tuple[_CallForm, dict[int, str]]:
    """The form of a call, and the word for each of its arguments."""
    for form in _forms(definition.name):
        for words in _choices(definition, form, len(call.operands)):
            if all(_fits(definition, word, call, place) for place, word in enumerate(words)):
                return form, dict(enumerate(words))
    given = ", ".join(KINDS[type(operand)] for operand in call.operands)
    raise Unexpressible(f"ptokit does not model {definition.name.upper()} with these arguments: {given}")


def _choices(definition: Instruction, form: _CallForm, count: int) -> Iterator[tuple[str, ...]]:
    """The words of a form without as many optional ones as a call leaves out."""
    words = form.words
    if definition.workspace and TMP not in words:
        words = (*words, TMP)
    words += definition.cpp.ignored
    needed = {param.name for param in definition.operands if not param.optional} - {definition.cpp.in_place}
    optional = [k for k, word in enumerate(words) if word not in needed]
    missing = len(words) - count
    if 0 <= missing <= len(optional):
        for left in combinations(reversed(optional), missing):
            yield tuple(word for k, word in enumerate(words) if k not in left)


KINDS: dict[type, str] = {
    RecordedTile: "tile",
    RecordedArray: "memory",
    RecordedScalar: "number",
    RecordedPointer: "pointer",
    RecordedText: "word",
}


def _fits(definition: Instruction, word: str, call: RecordedCall, place: int) -> bool:
    """Whether an argument may be what a word names."""
    operand, own = call.operands[place], OWN_KINDS.get(word)
    if isinstance(operand, RecordedTile):
        kind = _kind_of(call, place)
        if (kind == "pointer" and own != kind) or (own == "scaling" and own != kind):
            return False
    param = next((param for param in definition.operands if param.name == word), None)
    if param is not None:
        kind = "number" if param.kind == "position" else param.kind
        return KINDS[type(operand)] in kind
    if word == TMP:
        return isinstance(operand, RecordedTile)
    if word in (name for _, name in definition.cpp.objects):
        return isinstance(operand, RecordedPointer)
    return isinstance(operand, RecordedText | RecordedScalar)


def _type_of(definition: Instruction, param: Param, call: RecordedCall, places: dict[str, int]) -> DType:
    """The element type of a number."""
    if param.dtype is not None:
        return param.dtype
    source = call.operands[places[definition.type_source(param)]]
    return dtype(source.dtype) if isinstance(source, RecordedTile | RecordedArray) else INT32


def _typed_slot(param: Param, call: RecordedCall, place: int, kind: DType, arrays: Arrays) -> tuple[Slot, Indices]:
    operand = call.operands[place]
    if param.kind == "position" and isinstance(operand, RecordedScalar):
        return NumberSlot(INT32, True), (int(operand.value),)
    if type(operand) not in LOOSE:
        raise Unexpressible(f"ptokit does not model {call.name.upper()} with a pointer")
    return _slot(operand, kind, arrays)


def _wrapped(value: int, kind: DType) -> int:
    """A whole number in the range of its type."""
    bits = 8 * kind.size
    value %= 1 << bits
    return value - (1 << bits) if kind.family == "int" and value >> (bits - 1) else value


def _bits(value: float, kind: DType) -> int:
    with np.errstate(all="ignore"):
        return int(np.array([value]).astype(kind.numpy).view(kind.bits)[0])


def _modifier(modifier: Modifier, form: _CallForm, call: RecordedCall, places: dict[str, int]) -> PtoEnum | None:
    """A modifier: among the arguments, the template arguments, or implied; else its default."""
    chosen = dict(call.modifiers)
    given: Any = chosen.get(modifier.name)
    if modifier.text and modifier.text.has_numbers and modifier.text.key in chosen:
        words = {word: member for member, word in modifier.text.words}
        given = words.get(chosen[modifier.text.key], chosen[modifier.text.key])
    if modifier.name in places:
        operand = call.operands[places[modifier.name]]
        given = operand.text if isinstance(operand, RecordedText) else getattr(operand, "value", None)
    if given is not None:
        return member_of(modifier.enum, given)
    implied = dict(form.implied)
    flat = INSTRUCTIONS[call.name].cpp.flat
    if flat is not None:  # C++ has flat offsets only
        offsets = (member for member in modifier.enum if not flat.when(SimpleNamespace(**{modifier.name: member})))  # type: ignore[arg-type]
        return next(offsets, None)
    return implied.get(modifier.name, modifier.constant_default)


PLAIN = frozenset(("none", "default", "unspecified", "normal", "null", "norelu", "no_relu", "noquant", "nz2nz",
                   "vec0", 0))  # fmt: skip
"""Values of template arguments that change nothing: programs have the first vector core only."""
IGNORED = frozenset(("phase", "algorithm", "pointer"))
"""Keys of template arguments that change no result."""


def _check_template(definition: Instruction, call: RecordedCall) -> None:
    """Refuse template arguments that change what an instruction does, and that its definition does not have."""
    texts = (modifier.text for modifier in definition.modifiers)
    known = {m.name for m in definition.modifiers} | {text.key for text in texts if text and text.has_numbers}
    for key, given in call.modifiers:
        word = given.lower() if isinstance(given, str) else given
        if key in IGNORED:
            continue
        if key not in known and word not in PLAIN:
            raise Unexpressible(f"ptokit does not model {call.name.upper()} with {key} {given}")


def member_of(enum: type[PtoEnum], given: object) -> PtoEnum:
    """The member that a word or a number of C++ denotes."""
    if isinstance(given, enum):
        return given
    for member in enum:
        names = {member.text, member.name.lower(), member.text.replace("_", "")}
        if given == member.value or (isinstance(given, str) and PREFIXES.sub("", given.lower()) in names):
            return member
    raise Unexpressible(f"ptokit does not model {given} of {enum.__name__}")
