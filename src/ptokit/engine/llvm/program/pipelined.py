"""The code of pipelined loops: products of an iteration run while the data of a later one is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from ptokit.engine.llvm.arrival import await_groups, close_group
from ptokit.engine.llvm.compute import wide
from ptokit.engine.llvm.emit import I1, I64, IrValue, Variable
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.forward import Variants
from ptokit.engine.llvm.program.held import held_tiles
from ptokit.engine.llvm.program.instruction import Execution
from ptokit.engine.llvm.program.pipelines import Load, Pipeline, is_fixed
from ptokit.engine.llvm.program.slots import Reason
from ptokit.engine.llvm.program.stage import Stage
from ptokit.program.ir import Block, Loop


def reserve(stage: Stage, found: Sequence[Pipeline], variants: Variants) -> int:
    """Make room for copies of tiles, and lanes for products; how many copies there can be."""
    held, sums = stage.held, {name: stage.held[name] for each in found for name in each.sums}
    apart = {name: panels for each in found for name, panels in each.panels.items()}
    lanes = max(wide.lanes_for(each.shape[0]) for each in sums.values())
    copies = stage.reserve(max(each.nbytes for each in found), lanes, {*apart, *held})
    if copies:
        stage.panels = apart
        others = held_tiles(stage.program, stage.slots.placed, variants, stage.code.chip)
        parts = {name: replace(each, parts=wide.parts_for(each.shape[1])) for name, each in sums.items()}
        stage.held = {**others, **parts}
    return copies


@dataclass(frozen=True)
class PipelinedLoop:
    """A pipelined loop with an iteration or more, which is being written."""

    stage: Stage
    loop: Loop
    pipeline: Pipeline
    copies: int
    start: IrValue
    iterations: IrValue

    def write(self, statements: Callable[[Block], None]) -> None:
        """Data of later iterations is loaded into the copy that was read last; `statements` writes all but loads."""
        code, sums = self.stage.code, sorted(self.pipeline.sums)
        # products of an iteration that run on into the next one
        lag = 1 if self.copies > 2 and self.pipeline.always_multiplies else 0
        ahead, known = self.copies - 1 - lag, self._check()
        self._foresee()
        with code.loop(0, ahead) as iteration:
            self._load(iteration, known)
        with code.loop(0, self.iterations) as iteration:
            await_groups(code, ahead - 1)
            self._load(iteration + ahead, known)
            self.stage.enter(self.loop, self.start, iteration)
            self._choose_copies(iteration)
            statements(self.pipeline.rest)
            for name in sums:
                wide.finish(code, self.stage.sums[name], lag)
        for name in sums if lag else ():
            wide.finish(code, self.stage.sums[name])
        self.stage.enter(self.loop, self.start, self.iterations - 1)
        with code.phase():
            self.stage.copies = {}

    def _check(self) -> list[list[IrValue]]:
        """Check the loads of all iterations, in their order; gives the indices of each that a lane keeps."""
        code, loads = self.stage.code, self.pipeline.loads
        fixed = [is_fixed(*load, self.loop) for load in loads]
        self._choose_copies(code.i64(0))

        def check(iteration: IrValue, resolved: Sequence[bool]) -> None:
            self.stage.enter(self.loop, self.start, iteration)
            for load, is_resolved in zip(loads, resolved, strict=True):
                reason = code.variable(I64, code.i64(Reason.MISSED))
                with self.stage.fast_path(load[0], reason) as (slow, _):
                    self._prepare(load, self.stage.evaluator(), slow, reason, resolved=is_resolved)

        def find(failed: Variable) -> None:
            with code.share(0, self.iterations) as iteration:
                self.stage.enter(self.loop, self.start, iteration)
                for load in loads:
                    self._unchecked(load, failed)

        check(code.i64(0), [False] * len(fixed))
        known = [self._unchecked(load).known() if each else [] for load, each in zip(loads, fixed, strict=True)]
        with code.when(code.any(find)) if all(fixed) else nullcontext(), code.loop(0, self.iterations) as iteration:
            check(iteration, fixed)
        return known

    def _foresee(self) -> None:
        """Check the stores behind the loop, if nothing else follows: what is fine now will be fine then."""
        if self.pipeline.stores is not None:
            failed = self.stage.code.variable(I1, self.stage.code.constant(I1, 0))
            for store in self.pipeline.stores:
                self._unchecked(store, failed)
            self.stage.settle(failed.get() ^ 1)

    def _load(self, iteration: IrValue, known: Sequence[Sequence[IrValue]]) -> None:
        """Begin the loads of an iteration, if there is one."""
        with self.stage.code.when(iteration.compare("slt", self.iterations)):
            self.stage.enter(self.loop, self.start, iteration)
            self._choose_copies(iteration)
            for load, lanes in zip(self.pipeline.loads, known, strict=True):
                self._unchecked(load).begin_load(lanes)
        close_group(self.stage.code)

    def _unchecked(self, load: Load, failed: Variable | None = None) -> Execution:
        """A load, its operands addressed; what fails sets a bit."""
        code, evaluator = self.stage.code, self.stage.evaluator()
        evaluator.failed = failed or code.variable(I1, code.constant(I1, 0))
        return self._prepare(load, evaluator, "", code.variable(I64, code.i64(0)), resolved=True)

    def _prepare(self, load: Load, evaluator: Evaluator, slow: str, reason: Variable, *, resolved: bool) -> Execution:
        instr, variant = load
        evaluator.require(variant.conditions, slow)
        made = Execution(self.stage, instr, variant, evaluator, slow, reason)
        made.prepare(resolved=resolved)
        return made

    def _choose_copies(self, iteration: IrValue) -> None:
        """Let code be about the tiles and views of an iteration."""
        code, at = self.stage.code, iteration.op("urem", self.copies) * self.pipeline.nbytes
        found: dict[str, IrValue] = {}
        for name, panels in self.pipeline.tiles.items():
            found[name], at = code.at(self.stage.arena, at), at + panels.nbytes
        self.stage.copies = {**found, **{view: found[name] for view, name in self.pipeline.views.items()}}
