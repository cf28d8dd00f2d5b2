"""A whole program as one function over a range of blocks.

Every statement has a fast path, written here, and a fallback to Python, where the reference engine runs that one
statement: a CPU calls it, over the same memory; on a GPU the kernel ends there. The fast path requires numbers that
fit, slices that stay inside, the conditions of the variant, and indices without a finding. So the reference engine
handles all rare cases and errors, with its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ptokit.engine.llvm.arrival import await_groups, close_group
from ptokit.engine.llvm.compute import wide
from ptokit.engine.llvm.compute.units import GroupSums
from ptokit.engine.llvm.emit import I1, I32, I64, IrValue, Variable
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.forward import Forwarded, forwarded
from ptokit.engine.llvm.program.held import held_tiles
from ptokit.engine.llvm.program.instruction import Execution
from ptokit.engine.llvm.program.page import Page
from ptokit.engine.llvm.program.poison import needs_poison
from ptokit.engine.llvm.program.slots import Reason, StateSlot
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.llvm.program.streamed import Load, Stream, is_fixed, one_product, streams
from ptokit.engine.llvm.program.variant import Variant
from ptokit.engine.storage import ADDRESS_SPACE
from ptokit.isa.move import Fill
from ptokit.program.bounds import ids_of
from ptokit.program.expr import BLOCK_IDX, Expr, apply, interval
from ptokit.program.ir import Assign, Block, Branch, CrossFlag, Flag, Instr, LoadScalar, Loop, Program, Stmt, TileDecl


class Emitter:
    """Writes the function of a program, from the variants of its instructions."""

    def __init__(self, stage: Stage, variants: Mapping[int, Sequence[Variant]], pages: Sequence[Page] = ()) -> None:
        """`pages` are the deferred scatters."""
        self.stage, self.variants = stage, variants
        self.program, self.slots, self.code = stage.program, stage.slots, stage.code
        self.pages = {page.number: page for page in pages}
        self.apart = are_apart(self.program)
        self.fused: dict[int, int] = {}
        """Statements that were fused with a later one, by their numbers."""
        stage.held = held_tiles(self.program, self.slots.placed, self.variants_of, self.code.chip)
        self.streams = streams(self.program, self.slots.placed, stage.held, self.variants_of, self.code.chip)
        self.copies = self._reserve([*self.streams.values()]) if self.streams else 0
        """Of the tiles of streams."""
        if not self.copies:
            self.streams = {}

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

    def _slow(self, stmt: Stmt, reason: IrValue | int = Reason.MISSED) -> None:
        """Leave the code for a statement: Python runs it."""
        why = reason if isinstance(reason, IrValue) else self.code.i64(reason)
        self.stage.leave(why + self.slots.numbers[id(stmt)] * Reason.COUNT)

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
        if id(loop) in self.streams:
            with code.when(iterations.compare("sgt", 0)):
                self._stream(loop, self.streams[id(loop)], start, iterations)
        else:
            with code.loop(0, iterations) as iteration:
                self.stage.poll()
                self._enter(loop, start, iteration)
                self._statements(loop.body)
        self.stage.put(StateSlot.ITERATION, outer)

    def _enter(self, loop: Loop, start: IrValue, iteration: IrValue) -> None:
        self.stage.put(StateSlot.ITERATION, iteration)
        self.stage.put(self.slots.variables[loop.var], start + iteration * loop.step)

    # --- streams

    def _reserve(self, found: Sequence[Stream]) -> int:
        """Make room for copies of tiles, and lanes for products; how many copies there can be."""
        stage, held = self.stage, self.stage.held
        sums = {name: held[name] for each in found for name in each.sums}
        apart = {name: panels for each in found for name, panels in each.panels.items()}
        lanes = max(wide.lanes_for(each.shape[0]) for each in sums.values())
        copies = stage.reserve(max(each.nbytes for each in found), lanes, {*apart, *held})
        if copies:
            stage.panels = apart
            others = held_tiles(self.program, self.slots.placed, self.variants_of, self.code.chip)
            parts = {name: replace(each, parts=wide.parts_for(each.shape[1])) for name, each in sums.items()}
            stage.held = {**others, **parts}
        return copies

    def _stream(self, loop: Loop, stream: Stream, start: IrValue, iterations: IrValue) -> None:
        """Products of an iteration run while the data of a later one is loaded into the copy that was read last."""
        # products of an iteration that run on into the next one
        lag = 1 if self.copies > 2 and stream.always_multiplies else 0
        code, ahead, last = self.code, self.copies - 1 - lag, iterations - 1
        known = self._check(loop, stream, start, iterations)
        with code.loop(0, ahead) as iteration:
            self._load(loop, stream, start, iteration, last, known)
        with code.loop(0, iterations) as iteration:
            await_groups(code, ahead - 1)
            self._load(loop, stream, start, iteration + ahead, last, known)
            self._enter(loop, start, iteration)
            self.stage.copies = self._copies_of(stream, iteration)
            self._statements(stream.rest)
            for name in sorted(stream.sums):
                wide.finish(code, self.stage.sums[name], lag)
        for name in sorted(stream.sums) if lag else ():
            wide.finish(code, self.stage.sums[name])
        self._enter(loop, start, last)
        with code.phase():
            self.stage.copies = {}

    def _check(self, loop: Loop, stream: Stream, start: IrValue, iterations: IrValue) -> list[list[IrValue]]:
        """Check the loads of all iterations, in their order; gives the indices of each that a lane keeps."""
        code, fixed = self.code, [is_fixed(*load, loop) for load in stream.loads]
        self.stage.copies = self._copies_of(stream, code.i64(0))

        def check(iteration: IrValue, resolved: Sequence[bool]) -> None:
            self._enter(loop, start, iteration)
            for load, is_resolved in zip(stream.loads, resolved, strict=True):
                reason = code.variable(I64, code.i64(Reason.MISSED))
                with self._fast_path(load[0], reason) as (slow, _):
                    self._prepare(load, self.stage.evaluator(), slow, reason, resolved=is_resolved)

        def find(failed: Variable) -> None:
            with code.share(0, iterations) as iteration:
                self._enter(loop, start, iteration)
                for load in stream.loads:
                    self._unchecked(load, failed)

        check(code.i64(0), [False] * len(fixed))
        known = [self._unchecked(load).known() if each else [] for load, each in zip(stream.loads, fixed, strict=True)]
        with code.when(code.any(find)) if all(fixed) else nullcontext(), code.loop(0, iterations) as iteration:
            check(iteration, fixed)
        return known

    def _load(
        self,
        loop: Loop,
        stream: Stream,
        start: IrValue,
        iteration: IrValue,
        last: IrValue,
        known: Sequence[Sequence[IrValue]],
    ) -> None:
        """Begin the loads of an iteration, if there is one."""
        with self.code.when(iteration.compare("sle", last)):
            self._enter(loop, start, iteration)
            self.stage.copies = self._copies_of(stream, iteration)
            for load, lanes in zip(stream.loads, known, strict=True):
                self._unchecked(load).stream(lanes)
        close_group(self.code)

    def _unchecked(self, load: Load, failed: Variable | None = None) -> Execution:
        """A load, its operands addressed; what fails sets a bit."""
        code, evaluator = self.code, self.stage.evaluator()
        evaluator.failed = failed or code.variable(I1, code.constant(I1, 0))
        return self._prepare(load, evaluator, "", code.variable(I64, code.i64(0)), resolved=True)

    def _prepare(self, load: Load, evaluator: Evaluator, slow: str, reason: Variable, *, resolved: bool) -> Execution:
        instr, variant = load
        evaluator.require(variant.conditions, slow)
        made = Execution(self.stage, self.pages, instr, variant, evaluator, slow, reason)
        made.prepare(resolved=resolved)
        return made

    def _copies_of(self, stream: Stream, iteration: IrValue) -> dict[str, IrValue]:
        """Where tiles and views lie in an iteration."""
        code, at = self.code, iteration.op("urem", self.copies) * stream.nbytes
        found: dict[str, IrValue] = {}
        for name, panels in stream.tiles.items():
            found[name], at = code.at(self.stage.arena, at), at + panels.nbytes
        return {**found, **{view: found[name] for view, name in stream.views.items()}}

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
        self._slow(stmt)
        for variable, slot in zip(found, (StateSlot.FIRST, StateSlot.SECOND), strict=False):
            variable.set(self.stage.slot(slot))
        code.jump(done)
        code.begin(done)
        return [variable.get() for variable in found]

    def _flag(self, flag: Flag | CrossFlag) -> None:
        if not isinstance(flag.event, int):
            with self._fast_path(flag) as (slow, _):
                conditions = [apply("ge", flag.event, 0), apply("lt", flag.event, ids_of(flag))]
                self.stage.evaluator().require(conditions, slow)

    @contextmanager
    def _fast_path(
        self, stmt: Stmt, reason: Variable | None = None, fused: Stmt | None = None
    ) -> Generator[tuple[str, str]]:
        """The code of a statement. Yields two labels: where Python runs it, with what it was `fused` with; the end."""
        code = self.code
        slow, done = code.new_label("slow"), code.new_label("done")
        yield slow, done
        code.jump(done)
        code.begin(slow)
        self._slow(stmt, reason.get() if reason else Reason.MISSED)
        if fused is not None:
            self._slow(fused, Reason.AFTER)
        code.begin(done)

    def _load_scalar(self, stmt: LoadScalar) -> None:
        dtype = self.program.tensors[stmt.source.argument].dtype
        limits = np.iinfo(dtype.numpy)
        self.stage.bounds[stmt.result] = int(limits.min), int(limits.max)
        with self._fast_path(stmt) as (slow, _):
            pointer = self.stage.view(self.stage.evaluator(), stmt.source, 1, slow)
            raw = self.code.load(f"i{8 * dtype.size}", pointer)
            with self.code.phase():
                pass  # all lanes have loaded it before any of them writes there
            self.stage.put(self.slots.variables[stmt.result], raw.to("sext" if dtype.family == "int" else "zext", I64))

    # --- tiles

    def _declare(self, tile: TileDecl) -> None:
        if tile.name in self.stage.held:
            held, poison = self.stage.held[tile.name], self.code.constant(I32, -1)
            self.stage.sums[tile.name] = GroupSums(self.code, held.given, held.parts, poison)
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
        with self._fast_path(stmt) as (slow, _):
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
        with self._fast_path(instr, reason) as (slow, done):
            for nth, variant in enumerate(self.variants_of(instr)):
                other = code.new_label("other")
                evaluator = self.stage.evaluator()
                evaluator.require(variant.conditions, other)
                made = Execution(self.stage, self.pages, instr, variant, evaluator, slow, reason, nth)
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
        with self._fast_path(pair.load, reason, pair.store) as (slow, _):
            evaluator = self.stage.evaluator()
            evaluator.require([*pair.first.conditions, *pair.second.conditions], slow)
            load = Execution(self.stage, self.pages, pair.load, pair.first, evaluator, slow, reason)
            store = Execution(self.stage, self.pages, pair.store, pair.second, evaluator, slow, reason)
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
