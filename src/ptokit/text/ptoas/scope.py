"""Names and values of a kernel in PTO-AS while it is read: their types, and values without a declaration.

A value that is used and never declared is declared where that is safe. A tile that an instruction writes, or that gets
an address, is declared before the statement that uses it first. In a listing without a header, memory and numbers
become arguments, with the types of their uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from ptokit.isa.operand import TileSpec
from ptokit.program.ir import Constant
from ptokit.text.errors import guess, redefined
from ptokit.text.ptoas.shapes import KnownExtents
from ptokit.text.ptoas.statement import Grammar, RawItem, TypeAt
from ptokit.text.ptoas.types import Placeholder, agree, constant, type_text
from ptokit.text.tiles import PLACES
from ptokit.text.tree import Body, Opaque, Operation, Type, Value

PENDING = Opaque("")
"""The type of a value whose type is not known yet."""


@dataclass
class OpenBody:
    """A body that is being read."""

    body: Body
    names: dict[str, Value] = field(default_factory=dict)
    operation: Operation | None = None
    start: int = 0
    """Where its brace stands."""


class KernelScope:
    """The values of one kernel."""

    def __init__(self, tokens: Grammar, body: Body) -> None:
        self.tokens, self.source = tokens, tokens.source
        self.frames = [OpenBody(body)]
        self.arguments: list[Value] = []
        self.headed = False
        """Whether a header declares the arguments."""
        self.position = 0
        """The statement of the kernel that is being read."""
        self.extents = KnownExtents()
        self._implicit: dict[Value, int] = {}
        """Values that are used and never declared, and the statement of the kernel that uses each first."""
        self._placeholders: dict[Value, TypeAt] = {}
        self._starts: dict[Value, int] = {}

    def fail(self, message: str, start: int) -> NoReturn:
        """Refuse the text."""
        self.tokens.fail(message, start)

    def emit(
        self,
        name: str,
        parts: dict[str, tuple[Value, ...]],
        results: tuple[Value, ...] = (),
        attributes: dict[str, Any] | None = None,
    ) -> Operation:
        """Append an operation."""
        operation = Operation(name, {key: part for key, part in parts.items() if part}, results, attributes or {})
        self.frames[-1].body.operations.append(operation)
        self.extents.note(operation)
        return operation

    def lookup(self, name: str) -> Value | None:
        for frame in reversed(self.frames):
            if name in frame.names:
                return frame.names[name]
        return None

    def define(self, item: RawItem, type_: Type) -> Value:
        """A new value; its name must not be in use."""
        if (known := self.lookup(item.name)) is not None:
            self.fail(redefined(item.text, self.source.where(self._starts[known]).line), item.start)
        value = Value(item.name, type_)
        self.frames[-1].names[item.name] = value
        self._starts[value] = item.start
        return value

    def constant(self, number: RawItem, written: TypeAt, item: RawItem | None) -> Operation:
        """A number as an operation; one without a name is printed at its use."""
        type_ = self.known_type(number.text, written)
        value = self.number(number, type_)
        result = self.define(item, type_) if item is not None else Value("", type_)
        return self.emit("arith.constant", {}, (result,), {"value": value})

    def number(self, number: RawItem, type_: Type) -> int | Constant:
        """A number of a type."""
        return self.tokens.read(constant, number.text, type_, start=number.start)

    def index(self, number: int) -> Value:
        """An index constant without a name."""
        return self.emit("arith.constant", {}, (Value("", "index"),), {"value": number}).results[0]

    def value(self, item: RawItem, written: TypeAt | None, default: Type = "index", *, declare: bool = False) -> Value:
        """The value of an operand; a number becomes a constant without a name."""
        if item.is_number or item.text in ("true", "false"):
            return self.constant(item, written or TypeAt(default, item.start), None).results[0]
        if item.kind != "value":
            self.fail(f"expected a value or a number, found `{item.text}`", item.start)
        value = self.lookup(item.name)
        if value is None:
            value = self._imply(item, declare=declare)
        if written is not None:
            self.agree(value, written)
        if item.loc:
            self._check_loc(item, value)
        return value

    def _imply(self, item: RawItem, *, declare: bool) -> Value:
        if self.headed and not declare:
            self._undefined(item.name, item.start)
        value = Value(item.name, PENDING)
        self.frames[0].names[item.name] = value
        self._starts[value], self._implicit[value] = item.start, self.position
        return value

    def values(self, items: list[RawItem], types: list[TypeAt], *, spread: bool, declare: int = 0) -> list[Value]:
        """The values of operands, by the types behind the colon: one each, or one for all (`spread`), or fewer.

        The first `declare` operands may be tiles that are not declared yet. A number without a type has the element
        type of the last tile.
        """
        given: list[TypeAt | None] = list(types)
        if len(types) == 1 and items and spread:
            given = [types[0] if self._is_open(item) or not at else None for at, item in enumerate(items)]
        elif len(types) > len(items) or (types and spread and len(types) < len(items)):
            self.fail(f"{len(types)} types for {len(items)} operands", types[-1].start)
        given += [None] * (len(items) - len(given))
        pairs = list(zip(items, given, strict=True))
        named = {
            at: self.value(item, written, declare=at < declare)
            for at, (item, written) in enumerate(pairs)
            if not item.is_number
        }
        tiles = [value.type.dtype for value in named.values() if isinstance(value.type, TileSpec)]
        default = tiles[-1].mlir if tiles and spread else "index"
        return [named.get(at) or self.value(*pair, default) for at, pair in enumerate(pairs)]

    def _is_open(self, item: RawItem) -> bool:
        value = self.lookup(item.name) if item.kind == "value" else None
        return item.kind == "value" and (value is None or value.type is PENDING)

    def indices(self, item: RawItem) -> tuple[Value, ...]:
        """The numbers in brackets behind an operand."""
        return tuple(self.value(index, TypeAt("index", index.start)) for index in item.indices or ())

    def agree(self, value: Value, written: TypeAt) -> None:
        """Check the type at a use against that of the value, which takes it if it has none."""
        type_ = written.type
        if isinstance(type_, Placeholder):
            self._placeholders.setdefault(value, written)
        elif value.type is PENDING:
            value.type = type_
        elif not agree(value.type, type_):
            line = self.source.where(self._starts[value]).line if value in self._starts else 1
            message = f"%{value.name} is {type_text(value.type)} (line {line}), and not {type_text(type_)}"
            self.fail(message, written.start)

    def _check_loc(self, item: RawItem, value: Value) -> None:
        if item.loc not in PLACES:
            self.tokens.fail_word(f"unknown place of a tile `{item.loc}`", item.loc, PLACES, item.start)
        if isinstance(value.type, TileSpec) and value.type.loc.text != item.loc:
            self.fail(f"%{value.name} lies in {value.type.loc.text}, and not in {item.loc}", item.start)

    def _undefined(self, name: str, start: int) -> NoReturn:
        known = [f"%{other}" for frame in self.frames for other in frame.names if other != name]
        close = guess(f"%{name}", known)
        hint = close or f"; did you mean to declare it, as in `.arg %{name} : !pto.memref<1000x64xf32>`?"
        self.fail(f"use of undeclared SSA value name `%{name}`{hint}", start)

    def known_type(self, name: str, written: TypeAt) -> Type:
        """The type of a value that is not known otherwise. A placeholder is refused."""
        type_ = written.type
        if isinstance(type_, Placeholder):
            message = f"`<{type_.text}>` is a placeholder, and the type of {name} is not known"
            self.fail(f"{message}; {type_.advice}", written.start)
        return type_

    def finish(self) -> None:
        """Declare the values that are used and not declared, and set the arguments of the body."""
        tiles: dict[int, list[Operation]] = {}
        for value, position in self._implicit.items():
            type_, start = value.type, self._starts[value]
            if type_ is PENDING and value in self._placeholders:
                self.known_type(f"%{value.name}", self._placeholders[value])
            if isinstance(type_, TileSpec):
                if any(type_.dynamic):
                    example = f"%{value.name} = alloc_tile valid_row = %rows valid_col = %cols : ..."
                    self.fail(f"the valid extents of %{value.name} are open; declare it first: `{example}`", start)
                declared = Operation("alloc_tile", {}, (value,), {}, where=self.source.where(start))
                tiles.setdefault(position, []).append(declared)
            elif self.headed or type_ is PENDING:
                self._undefined(value.name, start)
            else:
                self.arguments.append(value)
        body = self.frames[0].body
        if tiles:
            pairs = enumerate(body.operations)
            body.operations = [one for at, operation in pairs for one in (*tiles.get(at, ()), operation)]
        body.arguments = tuple(self.arguments)
