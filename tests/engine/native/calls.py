"""Eager calls on both engines: the native one runs a program of one instruction over the bytes of the call.

A call becomes a program whose tiles are there from the beginning. They are copied into a thread's arena before it runs
and out of it afterwards; arrays are used where they lie. Extents that are dynamic in the call are numbers of the run,
so that conditions and symbolic numbers are met as in kernels.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.execution import is_supported
from ptokit.engine.llvm.program.fallback import Fallback
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.stage import ENTRY, Stage
from ptokit.engine.llvm.program.tiles import trace
from ptokit.engine.native import jit
from ptokit.engine.native.program.executable import NativeExecutable, Thread
from ptokit.engine.prepared import Prepared, Write
from ptokit.engine.runnable import Listener
from ptokit.engine.storage import ADDRESS_SPACE, Storage
from ptokit.finding import Finding
from ptokit.isa.instruction import Instruction, Modifiers
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.spelling import TMP
from ptokit.lang import dispatch
from ptokit.program.expr import BLOCK_NUM, Expr, Var
from ptokit.program.ir import (
    Argument,
    Float,
    Given,
    Instr,
    Integer,
    Number,
    Operand,
    Program,
    TileDecl,
    TileUse,
    View,
)
from ptokit.program.verify_call import Options
from ptokit.target import Profile

Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
NEARLY = {"texp", "tlog", "tmatmul", "tmatmul_acc", "tmatmul_bias"}
"""Instructions whose last bits the decisions leave open."""
MOST_KEPT = 256
TURNS = 3
"""After one run for each kind of note all are reported, and a call takes the fast path."""
AT = ", in block 0"
"""What a program adds to the words of a finding."""


class Inexpressible(Exception):
    """A call that no program can make, as one whose tile is also its tensor."""


# --- A call as a program ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CallProgram(Program):
    """A program whose tiles exist before it begins."""

    held: tuple[TileDecl, ...] = ()

    @cached_property
    def tiles(self) -> dict[str, TileDecl]:
        return {tile.name: tile for tile in self.held}


@dataclass
class Writer:
    """Writes the program of a call."""

    tiles: dict[str, TileDecl] = field(default_factory=dict)
    arguments: list[Argument | Integer | Float] = field(default_factory=list)
    values: dict[Var, int] = field(default_factory=dict)

    def extent(self, number: int, dynamic: bool) -> Expr:
        """A constant, or a number of the run."""
        if not dynamic:
            return number
        integer = Integer(f"n{len(self.values)}")
        self.arguments.append(integer)
        self.values[integer.var] = number
        return integer.var

    def operand(self, name: str, spec: OperandSpec, memory: str) -> Operand:
        """An operand; `memory` names the earlier operand whose memory it has."""
        if isinstance(spec, TileSpec):
            return self._tile(memory or name, spec)
        if isinstance(spec, TensorSpec):
            return self._tensor(name, spec, memory)
        if spec.value is not None:
            return Number(spec.dtype, self.extent(spec.value, True), is_position=True)
        self.arguments.append(Float(name, spec.dtype))
        return Given(name, spec.dtype)

    def _tile(self, name: str, spec: TileSpec) -> TileUse:
        addresses = () if spec.addr is None else (spec.addr,)
        self.tiles.setdefault(name, TileDecl(name, replace(spec, addr=None), addresses, fresh=False))
        rows, cols = (self.extent(n, d) for n, d in zip(spec.valid, spec.dynamic, strict=True))
        return TileUse(name, (rows, cols))

    def _tensor(self, name: str, spec: TensorSpec, memory: str) -> View:
        numbers = [self.extent(n, d) for n, d in zip((*spec.shape, *spec.stride), spec.dynamic, strict=True)]
        shape, stride = tuple(numbers[:5]), tuple(numbers[5:])
        self.arguments.append(
            Argument(name, spec.dtype, shape, stride, spec.layout_kind, spec.dynamic, memory if memory != name else "")
        )
        return View(name, (0,) * 5, shape)


def sharing(specs: Sequence[OperandSpec], storages: Sequence[Storage]) -> tuple[int | None, ...]:
    """For each operand the earlier one whose memory it has; refused where no program has such operands."""
    found: list[int | None] = [None] * len(specs)
    for k, (spec, storage) in enumerate(zip(specs, storages, strict=True)):
        for j in range(k):
            if storage.overlaps(storages[j]):
                found[k] = j if found[k] is None else found[k]
                _check_sharing((spec, storage), (specs[j], storages[j]))
    return tuple(found)


def _check_sharing(one: tuple[OperandSpec, Storage], other: tuple[OperandSpec, Storage]) -> None:
    specs, storages = zip(one, other, strict=True)
    if all(isinstance(spec, TileSpec) for spec in specs):
        placed = [spec.addr is not None for spec in specs]
        fine = all(placed) or (not any(placed) and storages[0] is storages[1])
    else:
        whole = [isinstance(s, TensorSpec) and s.span == t.bits.size for s, t in (one, other)]
        fine = all(whole)
    if not fine:
        raise Inexpressible


@dataclass(frozen=True)
class Workspace:
    """The workspace of a call."""

    spec: TileSpec
    operand: str = ""
    """An operand that is the same tile, if there is one."""


class CountingThread(Thread):
    """A thread that counts the statements which Python ran."""

    in_python = 0

    def run(self, number: int, reason: int) -> None:
        self.in_python += 1
        super().run(number, reason)


class NativeCall:
    """A call made ready for the native engine."""

    def __init__(
        self,
        instruction: Instruction,
        profile: Profile,
        options: Options,
        specs: Sequence[OperandSpec],
        modifiers: Modifiers,
        workspace: Workspace | None,
        shared: Sequence[int | None],
    ) -> None:
        """`shared` as `sharing` gives it."""
        self.names = [param.name for param in instruction.operands][: len(specs)]
        self.program, self.values = _program(instruction, specs, modifiers, self.names, shared, workspace)
        self.slots = Slots(self.program)
        (self.instr,) = self.program.body
        placed = {name: decl.addresses[0] for name, decl in self.program.tiles.items() if decl.addresses}
        _check_placed(self.program, placed)
        self.placed = placed
        variant = trace(self.program, self.instr, profile, options, self.values, placed)
        self.variants = [variant] if variant and is_supported(variant) else []
        stage = Stage(self.program, self.slots, NativeExecutable.chip)
        text = Emitter(stage, {0: self.variants}).text()
        self.library = jit.library(text, lambda: jit.IrSource(text))
        self.function = Function(self.library.address(ENTRY))
        self.thread = CountingThread(self.slots, Fallback(self.slots, profile, options))

    def run(self, storages: Sequence[Storage], listener: Listener, times: int = 1) -> bool:
        """Run it over the operands' memories, `times` times from the same bytes; whether the last run was fast."""
        thread, given = self.thread, dict(zip(self.names, storages, strict=True))
        arrays = [(slot, given[name].span.start, given[name].bits.size) for name, slot in self.slots.arrays.items()]
        variables = self.slots.variables
        numbers = [(variables[BLOCK_NUM], 1), *((variables[var], value) for var, value in self.values.items())]
        numbers += [(self.slots.addresses[name], address) for name, address in self.placed.items()]
        before = [storage.bits.copy() for storage in storages]
        try:
            thread.begin(arrays, numbers, lambda: given, listener)
            for _ in range(times - 1):
                self._run_once(given)
                put_back(storages, before)
            return self._run_once(given)
        finally:
            thread.end()

    def _run_once(self, given: Mapping[str, Storage]) -> bool:
        thread = self.thread
        before = thread.in_python
        for tile, place in self._tiles(given):
            place[:] = tile
        self.function(thread.address, 0, 1)
        for tile, place in self._tiles(given):
            tile[:] = place
        if thread.failure is not None:
            raise thread.failure
        return thread.in_python == before

    def _tiles(self, given: Mapping[str, Storage]) -> Iterator[tuple[Any, Any]]:
        """The bytes of each tile, as the caller has them and in the arena; nothing is read from a workspace."""
        for name, decl in self.program.tiles.items():
            if name == TMP:
                continue
            at = self.slots.tiles.get(name)
            if at is None:
                at = self.slots.memory[decl.spec.loc] + self.placed[name]  # type: ignore[operator]
            yield given[name].bits.view(np.uint8), self.thread.arena[at : at + decl.spec.nbytes]


def _program(
    instruction: Instruction,
    specs: Sequence[OperandSpec],
    modifiers: Modifiers,
    names: Sequence[str],
    shared: Sequence[int | None],
    workspace: Workspace | None,
) -> tuple[CallProgram, dict[Var, int]]:
    tiles = [spec for spec in (*specs, workspace and workspace.spec) if isinstance(spec, TileSpec)]
    if any(tile.valid_rows > tile.rows or tile.valid_cols > tile.cols for tile in tiles):
        raise Inexpressible
    writer = Writer()
    operands: list[Operand] = []
    for name, spec, earlier in zip(names, specs, shared, strict=True):
        is_same = earlier is not None and (isinstance(spec, TensorSpec) or spec.addr is None)
        operands.append(writer.operand(name, spec, names[earlier] if is_same else ""))
    use = writer.operand(TMP, workspace.spec, workspace.operand) if workspace else None
    assert use is None or isinstance(use, TileUse)
    instr = Instr(instruction.name, tuple(operands), modifiers, workspace=use)
    program = CallProgram(instruction.name, tuple(writer.arguments), (instr,), held=tuple(writer.tiles.values()))
    return program, writer.values


def _check_placed(program: Program, placed: Mapping[str, Expr]) -> None:
    spaces = {program.tiles[name].spec.space for name in placed}
    ends = [address + program.tiles[name].spec.nbytes for name, address in placed.items()]  # type: ignore[operator]
    if len(spaces) > 1 or any(end > ADDRESS_SPACE for end in ends):
        raise Inexpressible


def put_back(storages: Sequence[Storage], before: Sequence[Any]) -> None:
    """Give memories the bytes that they had; those that cannot be written have them still."""
    for storage, bits in zip(storages, before, strict=True):
        if storage.bits.flags.writeable:
            storage.bits[...] = bits
        else:
            assert storage.bits.tobytes() == bits.tobytes(), "a read-only operand was written"


# --- Both engines ----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The outcome of a call: every byte of its operands, its findings, and its error."""

    memories: list[bytes]
    reported: list[Finding]
    problem: BaseException | None

    @property
    def ending(self) -> tuple[Any, ...]:
        """The exception, but for its place."""
        if self.problem is None:
            return ()
        findings = getattr(self.problem, "findings", None)
        said = str(self.problem) if findings is None else tuple(map(plain, findings))
        return type(self.problem), said


def plain(finding: Finding) -> Finding:
    """A finding without its place and its block."""
    return replace(finding, message=finding.message.removesuffix(AT), where=None)


def outcome(storages: Sequence[Storage], work: Callable[[Listener], object]) -> Outcome:
    """What work does from the bytes that are there; they are put back afterwards."""
    before = [storage.bits.copy() for storage in storages]
    reported: list[Finding] = []

    def listen(findings: Sequence[Finding]) -> None:
        reported.extend(map(plain, findings))

    problem: BaseException | None = None
    try:
        work(listen)
    except Exception as found:
        if isinstance(found, AssertionError):
            raise
        problem = found
    memories = [storage.bits.tobytes() for storage in storages]
    put_back(storages, before)
    return Outcome(memories, reported, problem)


def run(prepared: Prepared, storages: Sequence[Storage], listener: Listener) -> None:
    """Run a call on the reference engine, without hooks."""
    for findings in Prepared.run(prepared, storages):
        listener(findings)


@dataclass
class Ways:
    """How the calls were run, by instruction and route."""

    quick: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    slow: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failed: int = 0
    """Calls that end in an exception."""
    outside: int = 0
    """Calls that no program can make."""

    @property
    def share(self) -> float:
        """The part of the calls without fault that ran as machine code."""
        return self.quick.total() / max(1, self.quick.total() + self.slow.total())

    @property
    def never(self) -> list[tuple[str, str, str]]:
        """Instructions, targets and routes that never ran as machine code."""
        return sorted(set(self.slow) - set(self.quick))


class Both:
    """Runs every eager call on both engines, and compares."""

    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self._known: dict[Any, NativeCall] = {}

    def native(self, key: tuple[Any, ...], storages: Sequence[Storage]) -> NativeCall | None:
        """The call as a program; None if there is no such program."""
        try:
            instruction, profile, *rest = key
            shared = sharing(key[3], storages)
            name = (instruction.name, profile.name, *rest, shared)
            known = self._known.get(name)
            if known is None:
                if len(self._known) >= MOST_KEPT:
                    self._known.clear()
                known = self._known[name] = NativeCall(*key, shared)
        except Inexpressible:
            self.ways.outside += 1
            return None
        return known

    def compare(self, key: tuple[Any, ...], prepared: Prepared, storages: Sequence[Storage]) -> None:
        """Run a call both ways from the same bytes; memories are as before afterwards."""
        if any(not storages[slot].writable for slot in (prepared.plan.written if prepared.plan else ())):
            return  # launches refuse such arrays before any engine sees them
        native = self.native(key, storages)
        if native is None:
            return
        expected = outcome(storages, lambda listener: run(prepared, storages, listener))
        self.ways.failed += expected.problem is not None
        quick: list[bool] = []
        found = outcome(storages, lambda listener: quick.append(native.run(storages, listener)))
        agree(prepared, storages, found, expected)
        if expected.problem is not None:
            return
        if not quick[0]:
            found = outcome(storages, lambda listener: quick.append(native.run(storages, listener, TURNS)))
            found.reported, expected.reported = once(found.reported), once(expected.reported)
            agree(prepared, storages, found, expected)
        counter = self.ways.quick if quick[-1] else self.ways.slow
        counter[prepared.instruction.name, prepared.target, prepared.route] += 1


ONE_TILE = ("TS-SEM-01", "dst")
"""A note on a tile that is two operands: the program of a call has one tile for two that share their memory."""


def once(findings: Sequence[Finding]) -> list[Finding]:
    """Each finding once, as a launch reports them."""
    return [finding for k, finding in enumerate(findings) if finding not in findings[:k]]


def agree(prepared: Prepared, storages: Sequence[Storage], found: Outcome, expected: Outcome) -> None:
    """Both outcomes are one."""
    what = f"{prepared.instruction.name} on {prepared.target} ({prepared.route})"
    assert found.ending == expected.ending, f"{what}: {found.ending} for {expected.ending}"
    reported = [each for each in found.reported if prepared.call.repeats or (each.rule, each.operand) != ONE_TILE]
    assert reported == expected.reported, f"{what}: {reported} for {expected.reported}"
    for name, ours, theirs in zip(prepared.names, found.memories, expected.memories, strict=True):
        if ours != theirs and not (prepared.instruction.name in NEARLY and _near(prepared, storages, ours, theirs)):
            a, b = np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)
            at = int(np.argmax(a != b))
            raise AssertionError(f"{what}: {name} differs in {(a != b).sum()} bytes of {a.size}, first at {at}")


def _near(prepared: Prepared, storages: Sequence[Storage], ours: bytes, theirs: bytes) -> bool:
    """Whether results differ by no more than two engines may, and nothing differs beside the results."""
    assert prepared.plan is not None
    step: Any = prepared.plan.steps[0]
    a, b = (np.frombuffer(memory, step.dtype.numpy) for memory in (ours, theirs))
    written = np.zeros(a.size, bool)
    written[step.offsets(step.target)] = True
    beside = [np.where(written, 0, memory.view(step.dtype.bits)) for memory in (a, b)]
    found, wanted = (memory[step.offsets(step.target)].astype("f8") for memory in (a, b))
    with np.errstate(all="ignore"):
        close = (np.abs(found - wanted) <= _tolerance(step, storages, wanted)) | (found == wanted)
    return bool((beside[0] == beside[1]).all() and (close | (np.isnan(found) & np.isnan(wanted))).all())


def _tolerance(step: Any, storages: Sequence[Storage], wanted: Any) -> Any:
    """The largest difference of two results that are each within half of it of the exact one."""
    limits = ml_dtypes.finfo(step.dtype.numpy)
    ulp = float(limits.eps) * 2.0 ** np.floor(np.log2(np.maximum(np.abs(wanted), float(limits.smallest_normal))))
    if len(step.inputs) == 1:
        return 2 * 2 * ulp
    left, right = (np.abs(step.load(storages[slot], at).view(kind).astype("f8")) for slot, kind, at in step.inputs[:2])
    return 2 * (left.shape[1] * 2.0**-23 * (left @ right) + ulp)  # the last for what is added to the product


class Watched(Prepared):
    """A call with its origin, and a cache for the checks."""

    def __init__(
        self,
        instruction: Instruction,
        profile: Profile,
        options: Options,
        specs: Sequence[OperandSpec],
        modifiers: Modifiers,
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
        workspace: OperandSpec | None = None,
    ) -> None:
        super().__init__(instruction, profile, options, specs, modifiers, repeats, clashes, workspace)
        self.key = instruction, profile, options, tuple(specs), modifiers
        self.workspace: Workspace | None = None
        if isinstance(workspace, TileSpec):
            same = [name for name, spec in zip(self.names, specs, strict=True) if spec == workspace]
            self.workspace = Workspace(workspace, same[0] if TMP in repeats else "")
        self.known: dict[Any, Any] = {}
        self.has_slices = any(getattr(spec, "is_slice", False) for spec in (*specs, workspace))
        """Whether an operand is a slice; tests/lang/test_slices.py has such calls."""


@contextmanager
def every_call(look: Callable[[Watched, Sequence[Storage]], None], *, workspaces: bool = False) -> Iterator[None]:
    """In this context, every eager call without slices is checked before it runs; with `workspaces`, those that have
    a workspace too."""

    class Shown(Watched):
        def run(
            self, storages: Sequence[Storage], write: Write | None = None, *, tolerant: bool = False
        ) -> Iterator[tuple[Finding, ...]]:
            if not self.has_slices and (workspaces or self.workspace is None):
                look(self, storages)
            return super().run(storages, write, tolerant=tolerant)

    usual, dispatch.Prepared = dispatch.Prepared, Shown  # type: ignore[misc]
    dispatch.PREPARED.clear()
    try:
        yield
    finally:
        dispatch.Prepared = usual  # type: ignore[misc]
        dispatch.PREPARED.clear()


@contextmanager
def both_engines(ways: Ways | None = None) -> Iterator[Ways]:
    """Within, every eager call runs on both engines, which must agree; `ways` counts how."""
    both = Both(Ways() if ways is None else ways)
    with every_call(lambda call, storages: both.compare((*call.key, call.workspace), call, storages), workspaces=True):
        yield both.ways
