"""The state of a lowering: values and their meaning, the statements so far, names and tiles."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

from ptokit.finding import Where
from ptokit.isa.dtype import DType
from ptokit.isa.opaque import is_form, opaque_ops, row_of_op
from ptokit.isa.operand import TileSpec
from ptokit.isa.unknown import is_unknown
from ptokit.program.expr import OF_LAUNCH, Expr, ExpressionError, Op, Var, apply
from ptokit.program.instr_calls import known
from ptokit.program.ir import Constant, Given, Stmt, TileDecl, TileUse, View, Window
from ptokit.text.errors import MOST_ERRORS, TextError, choices, guess
from ptokit.text.limits import most_characters
from ptokit.text.memories import ElementPointer, Memories
from ptokit.text.numbers import Limits, TooLong, bounded, selected
from ptokit.text.ops import attribute_kinds, keyed_operands
from ptokit.text.spelling import FORM, instruction_of, instructions
from ptokit.text.tiles import ScopedExtents, merge_extents, part_extents, part_type
from ptokit.text.tree import UNREAD, Body, Function, Opaque, Operation, Type, Unit, Value, walk


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

WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "stPhase": ("unspecified",), "reluPreMode": ("no_relu",), "padMode": ("PadNull",), "initOutBuffer": (False,),
}  # fmt: skip
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    **WITHOUT_EFFECT,
    **dict.fromkeys(("operandSegmentSizes", "isBinary", "overflowFlags", "fastmath"), ()),
}  # fmt: skip
"""Attributes that have no effect with these values; without values, with any."""


class Refusal(ValueError):
    """An operation that a program cannot express; `attribute` is the reason, if it is one."""

    def __init__(self, message: str, attribute: str = "") -> None:
        super().__init__(message)
        self.attribute = attribute


class OtherForm(Refusal):
    """A form of an instruction that programs cannot execute."""


class NotKnown(Refusal):
    """An operation whose operand lacks something that an earlier operation would have set."""


def refuse_unknown(operation: Operation, known: tuple[str, ...], operands: tuple[str, ...] = ()) -> None:
    """Refuse an attribute that is not known, unless it has no effect or belongs to another dialect."""
    for key, value in operation.attributes.items():
        if key in known or "." in key or (key in NEUTRAL and (not NEUTRAL[key] or value in NEUTRAL[key])):
            continue
        hint = f"; it is an operand: `{key} = %x`" if key in operands else guess(key, (*known, *operands))
        raise Refusal(f"{operation.name}: `{key} = {value}` has no lowering{hint}", key)


def tile_use(meaning: Meaning, valid: Mapping[str, tuple[Expr, Expr] | None], name: str) -> TileUse:
    """A tile as an operand, with its current valid extents."""
    assert isinstance(meaning, TileName)
    extents = valid[meaning.name]
    if extents is None:
        raise NotKnown(f"{name}: the valid extents of %{meaning.name} are not known here; set_validshape sets them")
    return TileUse(meaning.tile or meaning.name, extents, meaning.window)


MOST_STATEMENTS = 250_000
"""Operations of one program; inlined calls count each time."""
MOST_BODIES = 64
"""Nested loops and branches."""

YIELDING = ("scf.yield", "func.return", "return", "yield")
OWN = ("sync", "section")
"""Prefixes of operations of `pto` that have a dot in their names."""

ATTRIBUTES = {"arith.constant": ("value",), "call": ("callee",)}
"""The attributes of ops that have no row."""
TYPES = tuple(f"!pto.{name}" for name in ("tile", "tile_buf", "ptr", "memref", "tensor_view", "partition_tensor_view"))
"""The types that programs have, besides those of numbers."""

Handler = Callable[["Lowering", Operation], None]
"""Reads one kind of operation."""


class NotRead(Exception):
    """An operand is the result of an operation that was refused."""


class StopLowering(Exception):
    """Too many errors, or too many operations."""


@dataclass
class OpenScope:
    """A body that is being read."""

    statements: list[Stmt] = field(default_factory=list)
    valid: ScopedExtents = field(default_factory=lambda: ChainMap({}))
    """The valid extents of tiles; None if they depend on the path taken."""
    buffers: int = 1
    """Copies of each tile that is declared here."""


class Lowering:
    """The lowering of one program."""

    def __init__(self, unit: Unit, handlers: Mapping[str, Handler]) -> None:
        self.unit = unit
        self.handlers = handlers
        self.functions = {function.name: function for function in unit.functions}
        self.values: dict[Value, Meaning] = {}
        self.memories = Memories()
        self.limits = Limits()
        self.scopes = [OpenScope()]
        self.names: dict[Expr, str] = {}
        self.taken: Counter[str] = Counter(OF_LAUNCH)
        self.steady: set[Var] = set(OF_LAUNCH)
        self.added_workspaces: set[str] = set()
        """Workspaces that a printer has added to the text, and that the program does not have."""
        self.flag_memory: set[Value] = set()
        """The memory of the flags between the cores, which the program does not have."""
        self.tiles: dict[str, TileSpec] = {}
        self.parts: dict[str, TileName] = {}
        self.placed: dict[str, Expr] = {}
        """Slices of tiles, by their names."""
        self.loads: dict[Var, ElementPointer] = {}
        self.handles: set[Value] = set()
        """Results that are neither numbers nor tiles: pipes, events."""
        self.checked: list[tuple[Value, ...]] = []
        """The condition of each loop with one that is being read, and the values that it hands on."""
        self.event_arrays: dict[Value, dict[int, Expr]] = {}
        """The elements of arrays of event ids, as far as they are set."""
        self.count = self.inlined = 0
        """Operations so far, and the characters of the functions that were called."""
        self.tile_names: list[dict[str, str]] = [{}]
        """For each function that is being read: the program's names of its tiles."""
        self.vector_cores = 1
        """How many vector cores of a block run the program."""
        self.core = ""
        """The core of the section or function that is being read; empty outside."""
        self.where: Where | None = None
        self.calls: tuple[Where, ...] = ()
        """The calls that are being inlined, the innermost first."""
        self.errors = list(unit.errors)
        self.not_read: set[Value] = set()
        """Results of operations that were refused. What uses them is not read either."""
        self._entered: set[Body] = set()
        self._is_misspelt: dict[str, bool] = {}
        """Whether the name of an operation is close to a known one: it takes long to find out."""

    def refuse(self, message: str, hint: str = "", where: Where | None = None) -> NoReturn:
        """Refuse the current operation."""
        raise self.unit.source.error(message, where or self.where, hint)

    def missing(self, message: str, hint: str = "", where: Where | None = None) -> NoReturn:
        """Refuse the current operation for what it lacks, unless a statement was not read that may define it."""
        if self.unit.errors:
            raise NotRead
        self.refuse(message, hint, where)

    def unique(self, name: str) -> str:
        """The name, with a number if it is taken."""
        used = self.taken[name]
        self.taken[name] += 1
        return self.unique(f"{name}_{used}") if used else name

    def emit(self, stmt: Stmt) -> None:
        """Append a statement."""
        self.scopes[-1].statements.append(stmt)

    @contextmanager
    def inlining(self, function: Function) -> Generator[None]:
        """Read the body of a function that the current operation calls."""
        calls, source = self.calls, self.unit.source
        start = source.offset(function.where) if function.where else 0
        self.inlined += max((op.end - start for op in function.body.operations if op.end), default=0)
        if self.inlined > (most := most_characters(source.text)):
            self.refuse(f"calls of functions of more than {most} characters together")
        self.calls = (self.where, *calls) if self.where else calls
        self.tile_names.append({})
        try:
            yield
        finally:
            self.tile_names.pop()
            self.calls = calls

    def block(self, body: Body) -> tuple[Value, ...]:
        """Read the operations of a body. Returns the values that the last one yields."""
        yielded: tuple[Value, ...] = ()
        self._entered.add(body)
        for operation in body.operations:
            self.count += 1
            self.where = operation.where.called(self.calls) if operation.where else self.where
            if self.count > MOST_STATEMENTS:
                self.refuse(f"a program of more than {MOST_STATEMENTS} operations")
            if operation.name in YIELDING:
                yielded = operation.ins
            else:
                self._attempt(operation)
        return yielded

    def _attempt(self, operation: Operation) -> None:
        """Read one operation. An error is noted, and the next operation is read; one in a call refuses the call."""
        values, depth, calls = self.values, len(self.scopes), len(self.tile_names)
        try:
            self.operation(operation)
        except (TextError, NotRead) as problem:
            if calls > 1:
                raise
            self.values = values
            del self.scopes[depth:], self.tile_names[calls:]
            self.not_read.update(operation.results)
            self._check_bodies(operation)
            if isinstance(problem, TextError) and str(problem) not in {str(known) for known in self.errors}:
                self.errors.append(problem)
            is_large = self.count > MOST_STATEMENTS or self.inlined > most_characters(self.unit.source.text)
            if len(self.errors) >= MOST_ERRORS or is_large:
                raise StopLowering from None

    def _check_bodies(self, operation: Operation) -> None:
        """Find the errors in the bodies of an operation that was refused before it entered them."""
        for body in operation.bodies:
            if body not in self._entered:
                self.not_read.update(body.arguments)
                with self.scope():
                    self.block(body)

    def operation(self, operation: Operation) -> None:
        """Read one operation with the handler of its name, of its dialect, or of instructions."""
        if operation.name == UNREAD:
            raise NotRead
        handler = self.handlers.get(operation.name) or self.handlers.get(f"{operation.name.partition('.')[0]}.*")
        try:
            if handler is not None:
                known = ATTRIBUTES.get(operation.name) or attribute_kinds(operation.name)
                refuse_unknown(operation, (*known,), keyed_operands(operation.name))
                handler(self, operation)
            elif instruction_of(operation.name) is not None:
                self._instruction(operation)
            elif self._is_opaque(operation):
                self.handlers["?"](self, operation)
            else:
                self.unknown(operation)
        except NotKnown as problem:
            self.missing(str(problem))
        except Refusal as problem:
            at = operation.places.get(problem.attribute)
            self.refuse(str(problem), where=None if at is None else self.unit.source.where(at))
        except (TooLong, ExpressionError) as problem:
            self.refuse(str(problem))

    def _instruction(self, operation: Operation) -> None:
        """Read an instruction, or a form of it that is known by its effects only."""
        if FORM in operation.attributes:
            self.handlers["?"](self, operation)
            return
        try:
            self.handlers["*"](self, operation)
        except OtherForm as problem:
            if not problem.attribute and not self._has_form(operation):
                raise
            self.handlers["?"](self, operation)

    def _has_form(self, operation: Operation) -> bool:
        """Whether the table has a form with as many operands."""
        row, outs = row_of_op(operation.name), len(operation.outs)
        ins = sum(map(len, operation.parts.values())) - outs
        return row is not None and any((len(form.outs), len(form.ins)) == (outs, ins) for form in row.forms)

    def _is_opaque(self, operation: Operation) -> bool:
        """Whether programs have an operation by its effects: one of the table, or one that is not misspelt."""
        if operation.bodies or not self._is_own(operation):
            return False
        if operation.name not in self._is_misspelt:
            self._is_misspelt[operation.name] = bool(guess(f"pto.{operation.name}", self._names))
        is_known = row_of_op(operation.name) is not None or is_form(operation.attributes.get(FORM))
        return is_known or not self._is_misspelt[operation.name]

    def _is_own(self, operation: Operation) -> bool:
        """Whether an operation belongs to the dialect `pto`."""
        head, dot, _ = operation.name.partition(".")
        return not dot or head in OWN or head in instructions()

    @cached_property
    def _names(self) -> list[str]:
        """The operations that programs have."""
        own = [_shown(name) for name in self.handlers if "*" not in name and name != "?"]
        return sorted({*(f"pto.{name}" for name in (*instructions(), *opaque_ops())), *own})

    def unknown(self, operation: Operation) -> NoReturn:
        """Refuse an operation without a handler."""
        own, known = self._is_own(operation), self._names
        name = f"{'pto.' if own else ''}{operation.name}"
        close = guess(f"pto.{operation.name}", known).removeprefix("; ") if own else ""
        supported = f"supported: {choices(f'pto.{operation.name}', known)}, and arith on whole numbers"
        message = f"`{name}` is read and kept, but has no lowering: it cannot be executed"
        self.refuse(message, f"{close}\n    {supported}" if close else supported)

    @contextmanager
    def scope(self, buffers: int | None = None) -> Generator[OpenScope]:
        """A body of its own."""
        outer = self.scopes[-1]
        if len(self.scopes) > MOST_BODIES:
            self.refuse(f"more than {MOST_BODIES} nested bodies")
        self.scopes.append(OpenScope([], outer.valid.new_child(), outer.buffers if buffers is None else buffers))
        yield self.scopes[-1]
        self.scopes.pop()

    def leave(self, *inner: OpenScope, is_certain: bool = False) -> None:
        """Merge the valid extents after bodies. `is_certain`: one of them has run."""
        merge_extents(self.scopes[-1].valid, [scope.valid for scope in inner], is_certain=is_certain)

    def chosen(self, index: Expr, known: Mapping[int, Expr]) -> Expr:
        """The number at an index."""
        *_, last = known.values()
        for position, number in known.items():
            last = selected(apply("eq", index, position), number, last)
        return last

    def number(self, value: Value) -> Expr:
        """The expression of a value that is a whole number."""
        meaning = self.meaning(value)
        if not isinstance(meaning, int | Var | Op):
            self.refuse(f"%{value.name} is not a whole number")
        return meaning

    def meaning(self, value: Value) -> Meaning:
        if value in self.not_read:
            raise NotRead
        if value not in self.values:
            self._undefined(value)
        return self.values[value]

    def _undefined(self, value: Value) -> NoReturn:
        """Refuse an operand without a value."""
        if self.unit.errors:
            raise NotRead
        everything = (op for function in self.unit.functions for op in walk(function.body))
        later = next((op.where for op in everything if value in op.results), None)
        hint = f"it is defined later, on line {later.line}" if later else ""
        self.missing(f"%{value.name} is used before its definition", hint, self._place_of(f"%{value.name}"))

    def refuse_type(self, message: str, type_: Type) -> NoReturn:
        """Refuse the current operation for a type."""
        name = type_.text.partition("<")[0] if isinstance(type_, Opaque) else str(type_)
        self.refuse(message + ("" if name in TYPES else guess(name, TYPES)), where=self._place_of(name))

    def _place_of(self, word: str) -> Where | None:
        """Where a word stands in the current operation."""
        source = self.unit.source
        start = source.offset(self.where) if self.where else len(source.text)
        match = re.compile(rf"{re.escape(word)}(?![\w$.-])").search(source.text, start)
        return source.where(match.start()) if match else None

    def define(self, operation: Operation, meaning: Meaning) -> None:
        """Give the result of an operation its meaning."""
        (result,) = operation.results
        self.values[result] = meaning
        if isinstance(meaning, Op) and meaning not in self.names and result.name.strip("0123456789"):
            self.names[meaning] = result.name

    def declare(self, value: Value, spec: TileSpec, valid: tuple[Expr, Expr] | None = None, *at: Expr) -> TileName:
        """Declare a tile. Unknown extents must be set before it is used."""
        name, scope = self.unique(value.name), self.scopes[-1]
        extents: tuple[Expr, Expr] = valid or spec.valid
        rows, cols = map(known, extents)
        dynamic = spec.dynamic[0] or is_unknown(rows), spec.dynamic[1] or is_unknown(cols)
        spec = replace(spec, valid_rows=rows, valid_cols=cols, dynamic=dynamic)
        self.tiles[name] = spec
        self.tile_names[-1][value.name] = name
        scope.valid[name] = None if is_unknown(*extents) else extents
        if len(at) == 1:
            self.placed[name] = at[0]
        self.emit(TileDecl(name, spec, at, 1 if at else scope.buffers, not at, where=self.where))
        return TileName(name)

    def cut(self, value: Value, source: Value, window: Window) -> None:
        """Define a value as a slice of a tile, or of a slice."""
        outer = self.tile_name(source)
        spec, scope = self.tiles[outer.name], self.scopes[-1]
        name = self.unique(value.name)
        if outer.window is not None:
            row, col = (bounded(apply("add", a, b)) for a, b in zip(outer.window.start, window.start, strict=True))
            absolute = Window((row, col), window.size)
        else:
            absolute = window
        self.tiles[name] = part_type(spec, window)
        scope.valid[name] = part_extents(spec, scope.valid[outer.name], window)
        part = TileName(name, outer.tile or outer.name, absolute)
        self.parts[name] = self.values[value] = part
        self.tile_names[-1][value.name] = name

    def tile_name(self, value: Value) -> TileName:
        meaning = self.meaning(value)
        if not isinstance(meaning, TileName):
            self.refuse(f"%{value.name} is not a tile")
        return meaning

    def named(self, name: str) -> TileName:
        """The tile or slice of a name."""
        return self.parts.get(name) or TileName(name)

    def tile(self, value: Value) -> str:
        """The name of a value that is a tile or a slice of one."""
        return self.tile_name(value).name


def _shown(name: str) -> str:
    return name if name.startswith(("scf.", "func.")) else f"pto.{name}"
