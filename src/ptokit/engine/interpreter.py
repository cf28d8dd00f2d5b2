"""Runs a program block by block on the reference engine: the executable meaning of `Program`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np

from ptokit.engine.frame import Bytes, CoreState, Frame, bind, elements, measures, offset_of
from ptokit.engine.kept import remember
from ptokit.engine.prepared import Prepared
from ptokit.engine.runnable import REFERENCE, Listener
from ptokit.engine.storage import Storage
from ptokit.engine.unspecified import Unspecified, array_finding, number_finding
from ptokit.finding import Finding, VerifyError
from ptokit.isa.operand import OperandSpec, TileSpec
from ptokit.program import ir
from ptokit.program.bounds import event_finding, ids_of, index_finding
from ptokit.program.cores import vector_of, vectors_of
from ptokit.program.expr import BLOCK_NUM, SUBBLOCK_IDX, Var, compiled, value_of
from ptokit.program.handover import endless_finding, first_in_source
from ptokit.program.instr_calls import Sharing, all_operands, has_slices, sharing, tile_spec
from ptokit.program.streams import CoreStream, Node, Streams, Wait, crosses
from ptokit.program.verify_call import Options
from ptokit.target import Profile
from ptokit.target.profile import CUBE_CORE

POISON = 0xFF
"""Every byte of a tile that nothing has written."""

Step = Callable[[Frame], None]


def only_orders(stmt: ir.Stmt) -> bool:
    """Whether a statement does nothing where statements run in program order, and cannot fail."""
    return isinstance(stmt, ir.Barrier) or (isinstance(stmt, ir.Flag | ir.CrossFlag) and isinstance(stmt.event, int))


class LoopStep:
    """A loop."""

    def __init__(self, loop: ir.Loop, executable: Executable) -> None:
        self.loop, self._executable = loop, executable
        self.start, self.stop = compiled(loop.start), compiled(loop.stop)

    @cached_property
    def body(self) -> tuple[Step, ...]:
        """The steps of an iteration."""
        return self._executable.block(self.loop.body)

    def bounds(self, frame: Frame) -> range:
        """The range of the loop variable."""
        return range(value_of(self.start, frame.values), value_of(self.stop, frame.values), self.loop.step)

    def rounds(self, frame: Frame, _stream: CoreStream) -> Iterable[int]:
        """The values of the loop variable for one of the cores of a block."""
        return self.bounds(frame)

    def values(self, frame: Frame) -> Iterable[int]:
        """The values of the loop variable, one after the other."""
        return self.bounds(frame)

    def __call__(self, frame: Frame) -> None:
        frame.where = self.loop.where
        outer, values = frame.iteration, self.values(frame)
        for frame.iteration, value in enumerate(values):
            if frame.is_stopped:
                raise KeyboardInterrupt
            frame.values[self.loop.var] = value
            for step in self.body:
                step(frame)
        frame.iteration = outer


class Executable:
    """A program made ready for a target; it can be launched any number of times."""

    engine = REFERENCE

    def __init__(self, program: ir.Program, profile: Profile, options: Options) -> None:
        self.program, self.profile, self.options = program, profile, options
        self._idle: list[Frame] = []
        self.prepared: dict[tuple[Any, ...], Prepared] = {}
        """The calls of all instructions, by their descriptions."""
        self._single: dict[int, Step] = {}

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The whole program."""
        return self.block(self.program.body)

    def launch(
        self,
        tensors: Mapping[str, Storage],
        integers: Mapping[Var, int],
        grid: int,
        listener: Listener,
        threads: int | None = None,
    ) -> str:
        """Run every block of the grid, in ascending order, on the calling thread; returns the engine's name."""
        self.run_blocks(tensors, integers, grid, listener, range(grid))
        return self.engine

    def run_blocks(
        self,
        tensors: Mapping[str, Storage],
        integers: Mapping[Var, int],
        grid: int,
        listener: Listener,
        blocks: Iterable[int],
    ) -> None:
        """Run some blocks of a grid."""
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = Frame()
        frame.tensors, frame.listener = tensors, listener
        frame.values = {**integers, BLOCK_NUM: grid, SUBBLOCK_IDX: 0}
        frame.form = self.program.form
        frame.unspecified = None if self.program.is_modelled else Unspecified()
        try:
            self._run_blocks(frame, blocks)
            if frame.unspecified is not None:
                listener(self.unspecified_arrays(frame.unspecified, tensors))
        finally:
            frame.tensors, frame.unspecified = {}, None
            self._idle.append(frame)

    def _run_blocks(self, frame: Any, blocks: Iterable[int]) -> None:
        with frame.expressions_refused():
            for block in blocks:
                self._run_block(frame, block)

    def _run_block(self, frame: Any, block: int) -> None:
        frame.begin(block)
        if self._streams is not None:
            CoreSteps(self, frame).run(self._streams)
            return
        for step in self.steps:
            step(frame)

    @cached_property
    def _streams(self) -> Streams | None:
        """The cores of the program, if they meet."""
        return Streams(self.program, self.profile) if crosses(self.program) else None

    def step_of(self, stmt: ir.Stmt) -> Step:
        """The step of one statement, made when it is first needed."""
        if id(stmt) not in self._single:
            self._single[id(stmt)] = self._step(stmt)
        return self._single[id(stmt)]

    def unspecified_arrays(self, known: Unspecified, tensors: Mapping[str, Storage]) -> list[Finding]:
        """Findings on arrays that hold unspecified values after a launch."""
        passed = {name: tensors[name] for name, each in self.program.tensors.items() if not each.view_of}
        counts, target = known.counts(passed), self.profile.name
        return [array_finding(name, count, passed[name].bits.size, target) for name, count in counts.items()]

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> None:
        """None: this engine has no fast path to repeat a launch."""

    def block(self, block: ir.Block) -> tuple[Step, ...]:
        return tuple(self._step(stmt) for stmt in block if not self.is_idle(stmt))

    def is_idle(self, stmt: ir.Stmt) -> bool:
        """Whether a statement does nothing here, because the instructions of a core run in program order."""
        return only_orders(stmt)

    def stuck(self, waits: list[Wait], frame: Frame) -> None:
        """A wait for the other core never ends, or several that wait for one another."""
        first, *others = first_in_source(waits)
        frame.where = first.where
        raise VerifyError(frame.placed([endless_finding(first, others, self.program.vector_cores)]))

    def _step(self, stmt: ir.Stmt) -> Step:
        return STEPS[type(stmt)](stmt, self)


class CoreSteps:
    """Runs the cores of a block over one frame."""

    def __init__(self, executable: Executable, frame: Frame) -> None:
        self._executable, self._frame = executable, frame
        self._cores: dict[tuple[str, int], CoreState] = {}
        """By the core, and the vector core whose UB it sees."""

    def run(self, streams: Streams) -> None:
        """Run a block."""
        frame = self._frame
        whole = CoreState("", frame.values, frame.tiles, frame.addresses)
        try:
            streams.run(frame.values, self)
        finally:
            frame.enter(whole)

    def iterations(self, loop: ir.Loop, stream: CoreStream) -> Iterable[int]:
        """The values of the variable of a loop."""
        step: Any = self._executable.step_of(loop)
        self._enter(stream)
        self._frame.where = loop.where
        return step.rounds(self._frame, stream)

    def holds(self, branch: ir.Branch, stream: CoreStream) -> bool:
        """Whether the condition of a branch holds."""
        step: Any = self._executable.step_of(branch)
        self._enter(stream)
        return step.holds(self._frame)

    def execute(self, node: Node, stream: CoreStream) -> None:
        """Run a statement."""
        for vector in self._vectors(node, stream):
            self._enter(stream, vector)
            self._step(node)

    def _vectors(self, node: Node, stream: CoreStream) -> tuple[int, ...]:
        """The vector cores whose UB a statement sees: its own, or those that it reaches from the cube core."""
        is_divided = self._executable.program.vector_cores > 1 and stream.core == CUBE_CORE.name
        return vectors_of(node.stmt) if is_divided else (vector_of(stream.core),)

    def state(self, stream: CoreStream) -> dict[int, CoreState]:
        """The state of a core now."""
        self._enter(stream)
        return {vector: state.copy() for (core, vector), state in self._cores.items() if core == stream.core}

    def execute_later(self, node: Node, stream: CoreStream, state: object) -> None:
        """Run a statement in an earlier state of its core."""
        known = cast("dict[int, CoreState]", state)
        for vector in self._vectors(node, stream):
            self._frame.enter(known[vector] if vector in known else next(iter(known.values())))
            self._step(node)

    def stuck(self, waits: list[Wait]) -> None:
        """Waits that never end."""
        self._executable.stuck(waits, self._frame)

    def _step(self, node: Node) -> None:
        if node.binds_only:
            step: Any = self._executable.step_of(node.stmt)
            step.bind(self._frame)
        elif not self._executable.is_idle(node.stmt):
            self._executable.step_of(node.stmt)(self._frame)

    def _enter(self, stream: CoreStream, vector: int | None = None) -> None:
        vector = vector_of(stream.core) if vector is None else vector
        state = self._cores.get((stream.core, vector))
        if state is None:
            state = CoreState(stream.core, stream.values, {}, {}, vector=vector)
            self._cores[stream.core, vector] = state
        state.iteration, state.loops = stream.iteration, stream.loops
        self._frame.enter(state)


class BranchStep:
    """A branch."""

    def __init__(self, branch: ir.Branch, executable: Executable) -> None:
        self._branch, self._executable = branch, executable
        self._condition = compiled(branch.condition)

    @cached_property
    def _arms(self) -> tuple[tuple[Step, ...], ...]:
        return tuple(map(self._executable.block, ir.children(self._branch)))

    def holds(self, frame: Frame) -> bool:
        """Whether the condition holds."""
        frame.where = self._branch.where
        return bool(value_of(self._condition, frame.values))

    def __call__(self, frame: Frame) -> None:
        for step in self._arms[0 if self.holds(frame) else 1]:
            step(frame)


class DeclareStep:
    """A tile declaration."""

    def __init__(self, tile: ir.TileDecl, executable: Executable) -> None:
        self.tile, self.executable = tile, executable

    def __call__(self, frame: Frame) -> None:
        content = self.bind(frame)
        if content is not None:
            content.fill(POISON)

    def bind(self, frame: Frame) -> Bytes | None:
        """Give the tile its memory; returns that of a tile without an address."""
        tile = self.tile
        if tile.addresses:
            frame.where = tile.where
            address = frame.value(tile.addresses[frame.iteration % len(tile.addresses)])
            frame.place(tile, address, self.executable.profile.name)
            return None
        place = tile.name, frame.vector_of(tile.spec.loc)
        copies = frame.copies.get(place)
        if copies is None:
            copies = frame.copies[place] = [_memory(tile.spec) for _ in range(tile.buffers)]
        frame.tiles[tile.name], content = copies[frame.iteration % tile.buffers]
        return content


def _memory(spec: TileSpec) -> tuple[Storage, Bytes]:
    """The memory of a tile, as elements and as bytes."""
    content = np.empty(spec.nbytes, np.uint8)
    return Storage(content.view(spec.dtype.bits), spec.dtype), content


class AssignStep:
    """A tile moves to another address."""

    def __init__(self, stmt: ir.Assign, executable: Executable) -> None:
        self.stmt, self.executable = stmt, executable
        self.tile = executable.program.tiles[stmt.tile]

    def __call__(self, frame: Frame) -> None:
        frame.where = self.stmt.where
        frame.place(self.tile, frame.value(self.stmt.address), self.executable.profile.name)


Takes = list[Callable[[Frame], Storage]]


class InstructionStep:
    """An instruction: operands are bound once per set of numbers, the call is verified once per description."""

    alone = True
    """Whether memory use is also checked for each instruction."""

    def __init__(self, instr: ir.Instr, executable: Executable) -> None:
        self.instr = instr
        self.executable = executable
        operands = all_operands(instr).values()
        found = dict.fromkeys(measure for operand in operands for measure in measures(executable.program, operand))
        self.measures = [measure for measure in map(compiled, found) if not isinstance(measure, int)]
        self.tiles = [use.tile for use in instr.tiles]
        self.has_slices, self.shared = has_slices(instr), sharing(instr)
        self.is_divided = len(vectors_of(instr)) > 1
        self.bound: dict[tuple[Any, ...], tuple[Prepared, Takes]] = {}

    def __call__(self, frame: Frame) -> None:
        prepared, storages = self.prepare(frame)
        known = frame.unspecified
        frame.run(prepared.run(storages) if known is None else known.run(prepared, storages))

    def prepare(self, frame: Frame) -> tuple[Prepared, list[Storage]]:
        """The call for the current numbers, and its operands' memories."""
        frame.where, values = self.instr.where, frame.values
        key = tuple([measure(values) for measure in self.measures])
        if frame.addresses:
            key += tuple([frame.addresses.get(tile) for tile in self.tiles])
        if self.is_divided:
            key += (frame.vector,)
        prepared, takes = self.bound.get(key) or self._bind(key, frame)
        return prepared, [take(frame) for take in takes]

    def _bind(self, key: tuple[Any, ...], frame: Frame) -> tuple[Prepared, Takes]:
        operands = [bind(self.executable.program, operand, frame) for operand in self.instr.operands]
        specs = tuple(operand.spec for operand in operands)
        shared = sharing(self.instr, frame.value) if self.has_slices else self.shared
        workspace = self._workspace(frame)
        described = self.executable.prepared
        vector = frame.vector if self.is_divided else 0
        known = self.instr.name, self.instr.opaque_form, self.instr.modifiers, specs, workspace, shared, vector
        prepared = described.get(known) or remember(described, known, self._prepare(specs, workspace, shared, vector))
        return remember(self.bound, key, (prepared, [operand.take for operand in operands]))

    def _workspace(self, frame: Frame) -> TileSpec | None:
        """The description of the workspace; nothing is read from it."""
        use = self.instr.workspace
        if use is None:
            return None
        spec = self.executable.program.tiles[use.tile].spec
        return tile_spec(spec, use, frame.value, frame.addresses.get(use.tile))

    def _prepare(
        self, specs: tuple[OperandSpec, ...], workspace: TileSpec | None, shared: Sharing, vector: int
    ) -> Prepared:
        instruction, executable = self.instr.definition, self.executable
        given = specs, self.instr.modifiers, *shared.calls, workspace
        return Prepared(instruction, executable.profile, executable.options, *given, alone=self.alone, vector=vector)


class FlagStep:
    """A flag whose event id is computed: the id must be in range."""

    def __init__(self, flag: ir.Flag | ir.CrossFlag, executable: Executable) -> None:
        self.flag, self._vector_cores = flag, executable.program.vector_cores

    def __call__(self, frame: Frame) -> None:
        self.event(frame)

    def event(self, frame: Frame) -> int:
        """The current event id."""
        frame.where = self.flag.where
        event = frame.value(self.flag.event)
        most = ids_of(self.flag, self._vector_cores)
        if not 0 <= event < most:
            raise VerifyError([frame.located(event_finding(event, 1, most, frame.when))])
        return event


class LoadScalarStep:
    """Reads a number from memory into a variable."""

    def __init__(self, stmt: ir.LoadScalar, executable: Executable) -> None:
        self.stmt = stmt
        self.argument = executable.program.tensors[stmt.source.argument]

    def __call__(self, frame: Frame) -> None:
        self.read(frame)

    def read(self, frame: Frame) -> Storage:
        """Read it; returns its memory."""
        frame.where = self.stmt.where
        offset = offset_of(self.argument, self.stmt.source, frame, index_finding)
        storage = elements(self.argument, offset, 1, frame)
        frame.values[self.stmt.result] = int(storage.bits.view(storage.dtype.numpy)[0])
        if frame.unspecified is not None and frame.unspecified.any(storage, np.zeros(1, np.int64)):
            frame.values[self.stmt.result] = 0
            frame.report([number_finding(self.stmt.result, self.argument.array)])
        return storage


STEPS: dict[type, Callable[[Any, Executable], Step]] = {
    ir.TileDecl: DeclareStep,
    ir.Assign: AssignStep,
    ir.Instr: InstructionStep,
    ir.LoadScalar: LoadScalarStep,
    ir.Flag: FlagStep,
    ir.CrossFlag: FlagStep,
    ir.Loop: LoopStep,
    ir.Branch: BranchStep,
}
