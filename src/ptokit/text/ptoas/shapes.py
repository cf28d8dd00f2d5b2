"""The syntax of operations in PTO-AS, as tables: suffixes, groups of operands, words in brackets, types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ptokit.isa.catalog import derived
from ptokit.isa.instruction import Instruction
from ptokit.isa.operand import TileSpec
from ptokit.isa.unknown import is_unknown
from ptokit.text.errors import choices, guess
from ptokit.text.ops import BUILTIN_SHAPES, PTO_SHAPES, RESULT_TYPES, keyed_operands
from ptokit.text.spelling import ASSIGN, EVENTS, PIPES, attributes_of, instructions
from ptokit.text.tree import Operation, Tensor, Value


@derived
def suffixes() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """By opcode: its suffixes and their attributes, in the order of printing."""
    found = {
        op: {
            text.prefix + member.text: (text.key, str(text.written(member)))
            for modifier, text in instruction.attributes
            if text.suffix
            for member in modifier.enum
        }
        for op, instruction in instructions().items()
    }
    return {op: words for op, words in found.items() if words}


def defaults(instruction: Instruction) -> dict[str, object]:
    """The values of attributes that need no suffix, by their keys."""
    chosen = ((text, modifier.fixed_default) for modifier, text in instruction.attributes if text.suffix)
    return {text.key: text.written(member) for text, member in chosen if member is not None}


def opcode_pattern(instruction: Instruction) -> str:
    """The opcode with its suffixes: `op.{row,elem}[.{clamp,wrap,zero}]`. Defaults are left out."""
    words: dict[str, list[str]] = {}
    implied = defaults(instruction)
    for word, (key, value) in suffixes().get(instruction.op, {}).items():
        if implied.get(key) != value:
            words.setdefault(key, []).append(word)
    given = {key: f".{{{','.join(found)}}}" if len(found) > 1 else f".{found[0]}" for key, found in words.items()}
    return instruction.op + "".join(text if key not in implied else f"[{text}]" for key, text in given.items())


@derived
def keys() -> Mapping[tuple[str, str], str]:
    """By opcode: short keys of attributes, as in `#atomic=add`, and their names elsewhere."""
    return {
        (op, text.brief or modifier.name): text.key
        for op, instruction in instructions().items()
        for modifier, text in attributes_of(instruction)
    }


@derived
def words() -> Mapping[tuple[str, str], object]:
    """Short words of attributes, by the attribute's name."""
    texts = [text for instruction in instructions().values() for _, text in attributes_of(instruction)]
    return {
        **{(text.key, member.text): word for text in texts for member, word in text.words},
        **{(text.key, short): word for text in texts for short, word in text.short},
    }


def renamed(op: str, key: str, value: object) -> tuple[str, object]:
    """An attribute as other forms write it."""
    key = keys().get((op, key), key)
    return key, words().get((key, value), value) if isinstance(value, str) else value


def moves_memory(instruction: Instruction) -> bool:
    """Whether one operand is memory and all others are tiles, so that types identify them in any order."""
    kinds = [param.kind for param in instruction.operands if not param.optional]
    return kinds.count("memory") == 1 and set(kinds) == {"memory", "tile"}


KEYWORDS = {"src_pipe": PIPES, "dst_pipe": PIPES, "pipe": PIPES, "event_id": EVENTS}
"""The words of attributes that are keywords."""


@dataclass(frozen=True)
class Syntax:
    """The syntax of an operation that is not an instruction."""

    operands: tuple[str, ...] = ()
    """The groups of its operands, in order."""
    index: str = ""
    """The group of the operands in brackets behind the last one."""
    lists: tuple[str, ...] = ()
    """Groups that are written `name = [%a, %b]`."""
    keyed: tuple[str, ...] = ()
    """Optional operands that are written `name = %a`."""
    words: tuple[str, ...] = ()
    """Attributes that are written as words, in brackets."""
    result: str = ""
    """The type of the result, if it is not written."""
    like: str = ""
    """The operand that has the type of the result, if this is not written."""
    address: str = ""
    """The operand that may be an address, `@tile(0x1000)`; the tile before it need not be declared."""
    only_result: bool = False
    """Whether the type behind the colon is that of the result."""
    dynamic: str = ""
    """The name of the operation if the event is known at run time; if it is the same, a known event is a number."""
    results: tuple[int, ...] = (1,)
    """The numbers of results that it may have."""


NAMED = """
    make_tensor_view partition_view get_tensor_view_dim addptr alloc_tile declare_tile set_validshape subset treshape
    bitcast load_scalar load store_scalar store set_flag wait_flag record_event wait_event sync.set sync.wait barrier
    barrier_sync get_block_idx get_block_num get_subblock_idx get_subblock_num
"""
"""Operations of `pto` that are no instructions and have a syntax of their own."""


def _syntax(name: str) -> Syntax:
    """The syntax of an operation, which follows from its shape in MLIR."""
    shape = PTO_SHAPES[name]
    lists, (index, *_) = tuple(re.findall(r"\[ %(\w+)\* \]", shape)), [*re.findall(r"\[ %(\w+) \]", shape), ""]
    keyed, words = keyed_operands(name), tuple(re.findall(r"#(\w+)(?::(?!ints)|\|)", shape))
    apart = {*lists, index, *keyed, *words}
    operands = tuple(part for part in re.findall(r"%(\w+)", shape) if part not in apart)
    address, has_result = "".join(re.findall(r"@(\w+)", shape)), shape.endswith("R")
    result = "index" if name == "get_tensor_view_dim" else RESULT_TYPES.get(name, "")
    dynamic = next((other for other in (f"{name}_dyn", name) if "%event_id" in PTO_SHAPES.get(other, "")), "")
    return Syntax(
        operands, index, lists, keyed, words, result,
        like=operands[0] if address or shape.endswith("~R") else "",
        address=address,
        only_result=has_result and not {"^", "~"} & {*shape},
        dynamic=dynamic,
        results=(0, 1) if address else (int(has_result or bool(result) or name == "subset"),),
    )  # fmt: skip


SYNTAX = {name: _syntax(name) for name in (*NAMED.split(), ASSIGN.op)}
"""Operations that are not instructions."""

STATIC = {shape.dynamic: name for name, shape in SYNTAX.items() if shape.dynamic}
"""The names of operations by those that they have if the event is known at run time."""

ARITY = {name: shape.count("%") for name, shape in BUILTIN_SHAPES.items() if name.startswith("arith.")}
"""The number of operands of operations on numbers."""

LONG = {"for": "scf.for", "if": "scf.if", "yield": "scf.yield", "call": "func.call", "return": "func.return"}
"""Short names of other operations."""
SHORT = {name: short for short, name in LONG.items()}

TERMINATORS = ("scf.yield", "func.return")
"""Operations that end a body."""
BLOCKS = ("scf.for", "scf.if", "section.cube", "section.vector")
"""Operations with a body."""

NAMES = {*LONG, *SYNTAX, *STATIC, *BLOCKS}
"""Operations that are not instructions, in any spelling."""

DEFAULT_TYPES = {"addr": "i64"}
"""Types of literals as operands, by group; `index` elsewhere."""


@derived
def opcode(text: str) -> tuple[str, tuple[tuple[str, str], ...], str, int]:
    """The operation that an opcode names, the attributes of its suffixes, and what is wrong with its end."""
    name = text.removeprefix("pto.")
    if not name[:1].replace("_", "a").isalpha():
        return name, (), "expected an opcode after `pto.`", len(text)
    for spelling in (name, name.lower()):
        for known in (spelling, spelling.replace("_", "."), spelling.replace(".", "_")):
            if known in NAMES or known in instructions():
                return LONG.get(known, known), (), "", 0
        for head in suffixes():
            if spelling.startswith((f"{head}.", f"{head}_")):
                return head, *_suffixes(head, spelling[len(head) :])
    return name, (), "", 0


def _suffixes(head: str, rest: str) -> tuple[tuple[tuple[str, str], ...], str, int]:
    """The attributes of an opcode's suffixes, in any order, and what is wrong with the end of them."""
    known, found = suffixes()[head], dict[str, str]()
    longest_first = sorted(known, key=len, reverse=True)
    while rest:
        word = next((word for word in longest_first if re.match(rf"[._]{word}(?![a-z])", rest)), None)
        if word is None:
            wrong = rest[1:].partition(".")[0]
            expected = f"expected: {choices(wrong, tuple(known))}{guess(wrong, known)}"
            return (), f"{head} has no suffix `.{wrong}`, {expected}", len(rest) - 1
        key, value = known[word]
        if key in found:
            return (), f"{head} has two suffixes for `{key}`: {found[key]} and {value}", len(rest) - 1
        found[key] = value
        rest = rest[len(word) + 1 :]
    return tuple(found.items()), "", 0


Extent = int | Value
"""An extent: a number, or a value known at run time."""


def first_tile(*values: Value) -> Value | None:
    """The tile that gives the blocks of views in a statement their extents."""
    return next((value for value in values if isinstance(value.type, TileSpec)), None)


class KnownExtents:
    """The valid extents of tiles at the current point of the text."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._tiles: dict[Value, tuple[Extent, Extent]] = {}

    def note(self, operation: Operation) -> None:
        """Record the numbers and extents that an operation defines."""
        if operation.name == "arith.constant":
            value = operation.attributes.get("value")
            if isinstance(value, int):
                self._numbers[operation.results[0]] = value
        elif operation.name == "alloc_tile" and operation.results:
            spec = operation.results[0].type
            if isinstance(spec, TileSpec):
                rows, cols = (operation.part(name) for name in ("valid_row", "valid_col"))
                self._tiles[operation.results[0]] = (
                    self.plain(rows[0]) if rows else spec.valid_rows,
                    self.plain(cols[0]) if cols else spec.valid_cols,
                )
        elif operation.name == "set_validshape":
            tile, row, col = (operation.part(name) for name in ("tile", "row", "col"))
            if tile and row and col:
                self._tiles[tile[0]] = self.plain(row[0]), self.plain(col[0])

    def plain(self, value: Value) -> Extent:
        """The number of a value if it is a constant, else the value."""
        return self._numbers.get(value, value)

    def known(self, values: Iterable[Value]) -> tuple[int | None, ...]:
        """The numbers of values; None for those known at run time."""
        numbers = map(self.plain, values)
        return tuple(number if isinstance(number, int) else None for number in numbers)

    def block(self, view: Tensor, tile: Value | None) -> tuple[Extent, ...] | None:
        """The extents of the block of a view that fills the valid region of a tile; None if they are not known."""
        if tile is None or not isinstance(tile.type, TileSpec):
            return None
        rows, cols = self._tiles.get(tile, tile.type.valid)
        if is_unknown(rows, cols):
            return None
        if len(view.dims) == 1:
            return (cols if rows == 1 else rows,) if 1 in (rows, cols) else None
        return (*((1,) * (len(view.dims) - 2)), rows, cols)
