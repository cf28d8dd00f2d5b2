"""A whole program as one function over a range of blocks.

Every statement has a fast path, written here, and a fallback to Python, where the reference engine runs that one
statement: a CPU calls it, over the same memory; on a GPU the kernel ends there. The fast path requires numbers that
fit, slices that stay inside, the conditions of the variant, and indices without a finding. So the reference engine
handles all rare cases and errors, with its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ptokit.engine.llvm.compute.units import GroupSums
from ptokit.engine.llvm.emit import I32, I64, IrValue
from ptokit.engine.llvm.program.execution import Execution
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.pipelines import PipelinedLoop, one_product, pipelines, reserve
from ptokit.engine.llvm.program.slots import Reason, StateSlot
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.llvm.program.tiles import Forwarded, Variant, forwarded, held_tiles, needs_poison
from ptokit.engine.storage import ADDRESS_SPACE
from ptokit.isa.move import Fill
from ptokit.program.bounds import ids_of
from ptokit.program.expr import BLOCK_IDX, Expr, apply, interval
from ptokit.program.ir import Assign, Block, Branch, CrossFlag, Flag, Instr, LoadScalar, Loop, Program, Stmt, TileDecl


class Emitter:
    """Writes the function of a program, from the variants of its instructions."""

    def __init__(self, stage: Stage, variants: Mapping[int, Sequence[Variant]]) -> None:
        self.stage, self.variants = stage, variants
        self.program, self.slots, self.code = stage.program, stage.slots, stage.code
        self.apart = are_apart(self.program)
        self.fused: dict[int, int] = {}
        """Statements that were fused with a later one, by their numbers."""
        stage.held = held_tiles(self.program, self.slots.placed, self.variants_of, self.code.chip)
        found = pipelines(self.program, self.slots.placed, stage.held, self.variants_of, self.code.chip)
        self.copies = reserve(stage, [*found.values()], self.variants_of) if found else 0
        """Of the tiles of pipelined loops."""
        self.pipelines = found if self.copies else {}

    def text(self) -> str:
        """The module."""
        stage, code = self.stage, self.code
        with stage.blocks() as block:
            stage.poll()
            stage.put(self.slots.variables[BLOCK_IDX], block)
            stage.put(StateSlot.ITERATION, code.i64(0))
            for slot in self.slots.poisoned.values():
                stage.put(slot, code.i64(0))
            self._statements(self.program.body)
        stage.end()
        return code.module.text

    # --- statements

    def _statements(self, block: Block) -> None:
        pending = list(block)
        while pending:
            stmt = pending.pop(0)
            pair = forwarded(stmt, pending, self.program, self.slots.placed, self.variants_of) if self.apart else None
            if pair is not None:
                pending.remove(pair.store)
                self._forward(pair)
            elif type(stmt) in self._STATEMENTS:
                self._STATEMENTS[type(stmt)](self, stmt)

    def variants_of(self, instr: Instr) -> Sequence[Variant]:
        """The variants of an instruction."""
        return self.variants.get(self.slots.numbers[id(instr)], ())

    def _loop(self, loop: Loop) -> None:
        code = self.code
        start, stop = self._numbers(loop, (loop.start, loop.stop))
        outer = self.stage.slot(StateSlot.ITERATION)
        iterations = self._iterations(start, stop, loop.step)
        first, last = (interval(expr, self.stage.bounds) for expr in (loop.start, loop.stop))
        self.stage.bounds[loop.var] = min(first[0], last[0]), max(first[1], last[1])
        if id(loop) in self.pipelines:
            with code.when(iterations.compare("sgt", 0)):
                about = self.pipelines[id(loop)], self.copies, start, iterations
                PipelinedLoop(self.stage, loop, *about).write(self._statements)
        else:
            with code.loop(0, iterations) as iteration:
                self.stage.poll()
                self.stage.enter(loop, start, iteration)
                self._statements(loop.body)
        self.stage.put(StateSlot.ITERATION, outer)

    def _iterations(self, start: IrValue, stop: IrValue, step: int) -> IrValue:
        """The number of iterations; the distance is unsigned, so that it always fits."""
        code = self.code
        some = start.compare("slt" if step > 0 else "sgt", stop)
        distance = stop - start if step > 0 else start - stop
        rounds = (distance - 1).op("udiv", abs(step)) + 1
        return code.select(some, rounds, 0)

    def _branch(self, branch: Branch) -> None:
        (condition,) = self._numbers(branch, (branch.condition,))
        holds, arms = condition.compare("ne", 0), one_product(branch, self.variants_of) if self.stage.copies else []
        if arms:
            first, second = (self.code.constant(I32, int(keeps)) for _, keeps in arms)
            self._instruction(arms[0][0], self.code.select(holds, first, second))
            return
        self.code.choose(
            holds,
            lambda: self._statements(branch.then),
            lambda: self._statements(branch.otherwise),
        )

    def _numbers(self, stmt: Stmt, exprs: Sequence[Expr]) -> list[IrValue]:
        """Numbers of a loop or a branch; Python computes those that do not fit."""
        code = self.code
        if all(isinstance(expr, int) for expr in exprs):
            return [code.i64(expr) for expr in exprs]  # type: ignore[arg-type]
        found = [code.variable(I64, code.i64(0)) for _ in exprs]
        slow, done = code.new_label("slow"), code.new_label("done")
        evaluator = self.stage.evaluator()
        values = [evaluator.value(expr) for expr in exprs]
        evaluator.guard(slow)
        for variable, value in zip(found, values, strict=True):
            variable.set(value)
        code.jump(done)
        code.begin(slow)
        self.stage.leave_for(stmt)
        for variable, slot in zip(found, (StateSlot.FIRST, StateSlot.SECOND), strict=False):
            variable.set(self.stage.slot(slot))
        code.jump(done)
        code.begin(done)
        return [variable.get() for variable in found]

    def _flag(self, flag: Flag | CrossFlag) -> None:
        if not isinstance(flag.event, int):
            with self.stage.fast_path(flag) as (slow, _):
                conditions = [apply("ge", flag.event, 0), apply("lt", flag.event, ids_of(flag))]
                self.stage.evaluator().require(conditions, slow)

    def _load_scalar(self, stmt: LoadScalar) -> None:
        dtype = self.program.tensors[stmt.source.argument].dtype
        limits = np.iinfo(dtype.numpy)
        self.stage.bounds[stmt.result] = int(limits.min), int(limits.max)
        with self.stage.fast_path(stmt) as (slow, _):
            pointer = self.stage.view(self.stage.evaluator(), stmt.source, 1, slow)
            raw = self.code.load(f"i{8 * dtype.size}", pointer)
            with self.code.phase():
                pass  # all lanes have loaded it before any of them writes there
            self.stage.put(self.slots.variables[stmt.result], raw.to("sext" if dtype.family == "int" else "zext", I64))

    # --- tiles

    def _declare(self, tile: TileDecl) -> None:
        if tile.name in self.stage.held:
            held, poison = self.stage.held[tile.name], self.code.constant(I32, -1)
            self.stage.sums[tile.name] = GroupSums(self.code, held.dtype, held.parts, poison)
        elif tile.name in self.slots.placed:
            if tile.addresses:
                self._place(tile, tile, tile.addresses)
        elif needs_poison(self.program, tile, self.variants_of):
            self.code.poison(self.stage.tile(tile.name), self.code.i64(tile.spec.nbytes))

    def _assign(self, stmt: Assign) -> None:
        self._place(stmt, self.program.tiles[stmt.tile], (stmt.address,))

    def _place(self, stmt: TileDecl | Assign, tile: TileDecl, addresses: tuple[Expr, ...]) -> None:
        """A tile is bound to an address of its memory."""
        spec = tile.spec
        with self.stage.fast_path(stmt) as (slow, _):
            evaluator = self.stage.evaluator()
            at = evaluator.value(addresses[0]) if len(addresses) == 1 else self._current_address(evaluator, addresses)
            low, high = at.compare("sge", 0), at.compare("sle", ADDRESS_SPACE - spec.nbytes)
            evaluator.guard(slow, low, high, at.op("urem", spec.dtype.size).compare("eq", 0))
            self.stage.put(self.slots.addresses[tile.name], at)
            self._spread_poison(tile, at + spec.nbytes)

    def _current_address(self, evaluator: Evaluator, addresses: tuple[Expr, ...]) -> IrValue:
        """The address of the copy for the current iteration."""
        copy = self.stage.slot(StateSlot.ITERATION).op("urem", len(addresses))
        found = evaluator.value(addresses[0])
        for k, address in enumerate(addresses[1:], 1):
            found = self.code.select(copy.compare("eq", k), evaluator.value(address), found)
        return found

    def _spread_poison(self, tile: TileDecl, end: IrValue) -> None:
        code, loc = self.code, tile.spec.loc
        slot = self.slots.poisoned[loc]
        reached = self.stage.slot(slot)
        with code.when(end.compare("sgt", reached)):
            code.poison(code.at(self.stage.memory(loc), reached), end - reached)
            self.stage.put(slot, end)

    # --- instructions

    def _instruction(self, instr: Instr, keep: IrValue | None = None) -> None:
        code = self.code
        reason = code.variable(I64, code.i64(Reason.MISSED))
        with self.stage.fast_path(instr, reason) as (slow, done):
            for nth, variant in enumerate(self.variants_of(instr)):
                other = code.new_label("other")
                evaluator = self.stage.evaluator()
                evaluator.require(variant.conditions, other)
                made = Execution(self.stage, instr, variant, evaluator, slow, reason, nth)
                made.keep = keep
                made.emit()
                code.jump(done)
                code.begin(other)
            code.jump(slow)

    def _forward(self, pair: Forwarded) -> None:
        """A tile that only passes data on: one fused move. If a check fails, Python runs both."""
        reason = self.code.variable(I64, self.code.i64(Reason.MISSED))
        self.stage.passed.add(pair.tile)
        self.fused[self.slots.numbers[id(pair.load)]] = self.slots.numbers[id(pair.store)]
        with self.stage.fast_path(pair.load, reason, pair.store) as (slow, _):
            evaluator = self.stage.evaluator()
            evaluator.require([*pair.first.conditions, *pair.second.conditions], slow)
            load = Execution(self.stage, pair.load, pair.first, evaluator, slow, reason)
            store = Execution(self.stage, pair.store, pair.second, evaluator, slow, reason)
            for each in (load, store):
                each.prepare()
            first, second = pair.moves
            assert not isinstance(first.src, Fill)
            steering = load if first.index else store
            steering.moved(pair.joined, load.place(first.src), store.place(second.dst))

    _STATEMENTS: ClassVar[dict[type, Callable[[Emitter, Any], None]]] = {
        TileDecl: _declare,
        Assign: _assign,
        Instr: _instruction,
        LoadScalar: _load_scalar,
        Flag: _flag,
        CrossFlag: _flag,
        Loop: _loop,
        Branch: _branch,
    }


def are_apart(program: Program) -> bool:
    """Whether no two arguments lie in one memory."""
    arguments = program.tensors.values()
    return not any(argument.memory or argument.view_of for argument in arguments)
