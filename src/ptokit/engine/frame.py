"""The state of a block while it runs, and the operands of its instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptokit.engine.number import integer_bits
from ptokit.engine.runnable import Listener
from ptokit.engine.storage import ADDRESS_SPACE, OnChip, Storage
from ptokit.engine.unspecified import Unspecified
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, Where
from ptokit.isa.operand import OperandSpec, ScalarSpec
from ptokit.isa.policy import TileType
from ptokit.program.bounds import Describe, array_finding, available, edges, part_finding, slice_finding, valid_finding
from ptokit.program.expr import BLOCK_IDX, Expr, ExpressionError, Var, evaluate
from ptokit.program.instr_calls import offset_in, tensor_spec, tile_spec
from ptokit.program.ir import Argument, Constant, Given, Number, Operand, Program, TileDecl, TileUse, View
from ptokit.program.verify_call import verify_address

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass
class CoreState:
    """What a core of a block sees: numbers, and tiles."""

    core: str
    values: dict[Var, int]
    tiles: dict[str, Storage]
    addresses: dict[str, int]
    iteration: int = 0
    loops: tuple[int, ...] = ()
    """The values of the variables of the loops around."""
    vector: int = 0
    """The vector core whose UB it sees."""

    def copy(self) -> CoreState:
        """The same, to return to."""
        return replace(self, values=dict(self.values), tiles=dict(self.tiles), addresses=dict(self.addresses))


class Frame:
    """The state of a block: numbers, arguments, tiles. Reused by the next launch, with the memory of its tiles."""

    form = ""
    """The form of the program."""

    def __init__(self) -> None:
        self.tensors: Mapping[str, Storage] = {}
        self.values: dict[Var, int] = {}
        self.listener: Listener = tuple
        self.where: Where | None = None
        self.core = ""
        """The core that runs; empty if statements of all cores run in the order of the text."""
        self.iteration = 0
        """The iteration of the innermost loop."""
        self.tiles: dict[str, Storage] = {}
        self.addresses: dict[str, int] = {}
        self.copies: dict[tuple[str, int], list[tuple[Storage, Bytes]]] = {}
        self.memories: dict[tuple[TileType, int], OnChip] = {}
        """By the memory and the vector core that has it."""
        self.vector = 0
        """The vector core whose UB the running core sees."""
        self.unspecified: Unspecified | None = None
        """The unspecified values of the launch; None if it has none."""
        self.is_stopped: object = False
        """Whether the launch was stopped: true or false, and may change at any time."""
        self.computed: tuple[int, ...] = ()
        """Numbers of a loop or a branch, for an engine that runs the body itself."""

    def begin(self, block: int) -> None:
        """Start a block: memories become poison again."""
        self.values[BLOCK_IDX] = block
        self.iteration = 0
        for memory in self.memories.values():
            memory.forget()

    def enter(self, state: CoreState) -> None:
        """Go on with a core."""
        self.core, self.values, self.iteration = state.core, state.values, state.iteration
        self.tiles, self.addresses, self.vector = state.tiles, state.addresses, state.vector

    def vector_of(self, memory: TileType) -> int:
        """The vector core that has a memory which the running core sees; 0 for those of the cube core."""
        return self.vector if memory is TileType.Vec else 0

    @property
    def when(self) -> str:
        """The block, for messages."""
        return f"in block {self.values[BLOCK_IDX]}"

    def value(self, expr: Expr) -> int:
        """The current value of an expression."""
        return evaluate(expr, self.values)

    def run(self, call: Iterable[Sequence[Finding]]) -> None:
        """Run a call of the current statement to its end, and report its findings."""
        try:
            for findings in call:
                self.report(findings)
        except (VerifyError, OutOfBoundsError) as problem:
            raise type(problem)(self.placed(problem.findings)) from None

    def expressions_refused(self) -> ExpressionsRefused:
        """Turn an expression without a value into a finding at the current statement."""
        return ExpressionsRefused(self)

    def report(self, findings: Sequence[Finding]) -> None:
        """Report findings of the current statement."""
        self.listener(self.placed(findings))

    def placed(self, findings: Iterable[Finding]) -> list[Finding]:
        """Findings with the current block and statement."""
        return [self.located(replace(f, message=f"{f.message}, {self.when}")) for f in findings]

    def located(self, finding: Finding) -> Finding:
        """A finding at the current statement, with its fix in the language of the program."""
        return finding.at(self.where).in_form(self.form)

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Bind a tile to an address of its memory."""
        spec = tile.spec.changed(addr=address)
        if problems := verify_address(spec, target):
            raise VerifyError(self.placed(problems))
        if address + spec.nbytes > ADDRESS_SPACE:
            message = f"{tile.name} at {address:#x} lies beyond every memory"
            finding = Finding("error", "A-38", message, None, tile.name, fix="use lower addresses")
            raise VerifyError(self.placed([finding]))
        memory = self.memories.setdefault((spec.loc, self.vector_of(spec.loc)), OnChip())
        self.tiles[tile.name] = Storage(memory.at(address, spec.nbytes).view(spec.dtype.bits), spec.dtype)
        self.addresses[tile.name] = address


@dataclass(frozen=True)
class Bound:
    """An operand for certain numbers: its description, and a function that takes its memory from a frame."""

    spec: OperandSpec
    take: Callable[[Frame], Storage]


def bind(program: Program, operand: Operand, frame: Frame) -> Bound:
    """An operand for the current numbers; refused if it leaves its tile or its argument."""
    return BINDERS[type(operand)](program, operand, frame)


def measures(program: Program, operand: Operand) -> tuple[Expr, ...]:
    """The expressions that an operand's description depends on."""
    if isinstance(operand, TileUse):
        return (*operand.valid, *operand.start)
    if isinstance(operand, View):
        argument = program.tensors[operand.argument]
        return (*operand.starts, *operand.sizes, *argument.shape, *argument.stride, argument.offset)
    return (operand.value,) if isinstance(operand, Number) else ()


def _bind_tile(program: Program, use: TileUse, frame: Frame) -> Bound:
    decl, name = program.tiles[use.tile], use.tile
    _check_valid(decl, use, frame)
    spec = tile_spec(decl.spec, use, frame.value, frame.addresses.get(name))
    if use.window is None:
        return Bound(spec, lambda frame: frame.tiles[name])
    return Bound(spec, _TilePart(name, frame.value(offset_in(decl.spec, use.window)), spec.elements))


@dataclass
class _TilePart:
    """Takes some elements of a tile; the last result is cached."""

    tile: str
    offset: int
    elements: int
    whole: Storage | None = None
    part: Storage | None = None

    def __call__(self, frame: Frame) -> Storage:
        whole = frame.tiles[self.tile]
        if self.part is None or self.whole is not whole:
            self.whole, self.part = whole, whole.part(self.offset, self.elements)
        return self.part


def _check_valid(decl: TileDecl, use: TileUse, frame: Frame) -> None:
    for axis, (extent, most) in enumerate(zip(use.valid, available(decl, use), strict=True)):
        number = frame.value(extent)
        if not 0 <= number <= most:
            raise VerifyError([frame.located(valid_finding(decl, use, axis, number, frame.when))])
    for axis, (start, size, most) in enumerate(edges(decl, use)):
        number = frame.value(start)
        if not 0 <= number <= most - size:
            raise VerifyError([frame.located(part_finding(decl.name, axis, number, size, most, frame.when))])


def _bind_view(program: Program, view: View, frame: Frame) -> Bound:
    argument = program.tensors[view.argument]
    offset, spec = offset_of(argument, view, frame), tensor_spec(argument, view, frame.value)
    return Bound(spec, lambda frame: elements(argument, offset, spec.span, frame))


def elements(argument: Argument, offset: int, count: int, frame: Frame) -> Storage:
    """Some elements of the array that was passed for an argument; refused if they are not in the array."""
    storage = frame.tensors[argument.name]
    size = storage.bits.size
    if offset == 0 and count == size:
        return storage
    if count and not 0 <= offset <= size - count:
        raise OutOfBoundsError(frame.placed([array_finding(argument, offset, count, size)]))
    return storage.part(offset, count)


def offset_of(argument: Argument, view: View, frame: Frame, describe: Describe = slice_finding) -> int:
    """Elements before a block of an argument in its array; a block that leaves the argument is refused."""
    offset = frame.value(argument.offset)
    dims = zip(view.starts, view.sizes, argument.shape, argument.stride, strict=True)
    for dim, (start, size, most, stride) in enumerate(dims):
        first, extent, limit = frame.value(start), frame.value(size), frame.value(most)
        if first < 0 or extent < 0 or first + extent > limit:
            finding = describe(argument.name, dim, first, extent, limit, frame.when)
            raise OutOfBoundsError([frame.located(finding)])
        offset += first * frame.value(stride)
    return offset


def _bind_constant(_program: Program, number: Constant, _frame: Frame) -> Bound:
    bits = np.array([number.bits], f"u{number.dtype.size}").view(number.dtype.bits)
    return _fixed(ScalarSpec(number.dtype), bits)


def _bind_number(_program: Program, number: Number, frame: Frame) -> Bound:
    value, dtype = frame.value(number.value), number.dtype
    if number.is_position and value < 0:
        message = f"a window begins at row and column 0 or later; found {value} {frame.when}"
        raise VerifyError([Finding("error", "CP-EXT-01", message, fix="count from 0", where=frame.where)])
    if number.is_position:
        return _fixed(ScalarSpec(dtype, value), np.zeros(1, dtype.bits))
    try:
        return _fixed(ScalarSpec(dtype), integer_bits(value, dtype, f"a number {frame.when}"))
    except ValueError as problem:
        fix = "use a wider element type or a smaller number"
        raise VerifyError([Finding("error", "KN-11", str(problem), fix=fix, where=frame.where)]) from None


def _bind_given(_program: Program, number: Given, _frame: Frame) -> Bound:
    return Bound(ScalarSpec(number.dtype), lambda frame: frame.tensors[number.name])


def _fixed(spec: ScalarSpec, bits: np.ndarray[Any, np.dtype[Any]]) -> Bound:
    storage = Storage(bits, spec.dtype)
    return Bound(spec, lambda _: storage)


BINDERS: dict[type, Callable[[Program, Any, Frame], Bound]] = {
    TileUse: _bind_tile,
    View: _bind_view,
    Constant: _bind_constant,
    Number: _bind_number,
    Given: _bind_given,
}


class ExpressionsRefused(AbstractContextManager[None]):
    """Statements in which an expression without a value is a finding. A class: launches enter it, and generators cost
    more."""

    __slots__ = ("_frame",)

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, ExpressionError):
            finding = Finding("error", "KN-11", str(problem), fix="keep divisors and shifts in range")
            raise VerifyError(self._frame.placed([finding])) from None
