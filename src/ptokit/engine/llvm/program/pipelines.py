"""Pipelined loops: they load tiles and multiply them, and load those of later iterations while products are summed.

Such a tile has several copies in shared memory, laid out as the units read it. Moves of it to other memories of the
cube are views: nothing is copied. Nothing but a load can fail in such a loop, and loads keep their order, so the first
one that fails is the one that is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod

from ptokit.engine.interpreter import only_orders
from ptokit.engine.llvm.address import are_known
from ptokit.engine.llvm.compute import wide
from ptokit.engine.llvm.compute.wide import Panels
from ptokit.engine.llvm.emit import I1, I64, Chip, IrValue, Variable
from ptokit.engine.llvm.program.execution import Execution
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.slots import Reason
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.llvm.program.tiles import HeldTile, Variant, Variants, held_tiles
from ptokit.isa.move import Combine, Compute, Fill, Move, Remap, Side
from ptokit.program.expr import variables
from ptokit.program.instr_calls import named_operands
from ptokit.program.ir import Block, Branch, Instr, Loop, Program, Stmt, TileDecl, TileUse, View, instructions, walk

MOST_COPIES = 4
"""The copies of each tile: the data of all but one of these iterations is being loaded."""


Load = tuple[Instr, Variant]
"""An instruction, and what it does, in one move."""


@dataclass(frozen=True)
class Pipeline:
    """What such a loop does."""

    loads: tuple[Load, ...]
    rest: Block
    """All but the loads and the views."""
    tiles: Mapping[str, Panels]
    """Those that are loaded."""
    views: Mapping[str, str]
    """Other tiles, with the tile that each of them stands for."""
    sums: frozenset[str]
    """Tiles that products are summed in."""
    stores: Sequence[Load] | None
    """Moves of these to arrays, if nothing else follows to the end of the program."""

    @property
    def panels(self) -> dict[str, Panels]:
        """How tiles and views lie."""
        return {**self.tiles, **{view: self.tiles[name] for view, name in self.views.items()}}

    @property
    def always_multiplies(self) -> bool:
        """Whether every iteration has a product."""
        return any(isinstance(s, Instr) or (isinstance(s, Branch) and s.then and s.otherwise) for s in self.rest)

    @property
    def nbytes(self) -> int:
        """Bytes of a copy of all tiles."""
        return sum(each.nbytes for each in self.tiles.values())


def pipelines(
    program: Program, placed: Collection[str], held: Mapping[str, HeldTile], variants: Variants, chip: Chip
) -> dict[int, Pipeline]:
    """All such loops by their identity, on a chip that multiplies so."""
    if not chip.wide_units:
        return {}
    found = {
        id(stmt): _pipeline(program, stmt, _PipelinedBody(placed, held, variants, chip)) for stmt in walk(program.body)
    }
    return {key: pipeline for key, pipeline in found.items() if pipeline}


def _pipeline(program: Program, loop: Stmt, about: _PipelinedBody) -> Pipeline | None:
    if not isinstance(loop, Loop) or not all(map(about.takes, loop.body)) or not about.sums:
        return None
    if sum(prod(about.held[name].shape) for name in about.sums) > wide.MOST_SUMS:
        return None
    inside, outside = (_uses(block) for block in (loop.body, program.body))
    if any(inside[name] != outside[name] for name in (*about.tiles, *about.views)):
        return None
    rest = (s for s in about.rest if not (isinstance(s, TileDecl) and (s.name in about.tiles or s.name in about.views)))
    stores = _stores_behind(program, loop, about)
    return Pipeline(tuple(about.loads), tuple(rest), about.tiles, about.views, frozenset(about.sums), stores)


def one_product(branch: Branch, variants: Variants) -> list[tuple[Instr, bool]]:
    """If the arms of a branch of a pipeline are one product, the instruction of each, and whether it keeps the sums."""
    arms = [arm for arm in (*branch.then, *branch.otherwise) if isinstance(arm, Instr)]
    tiles = [[*dict.fromkeys(use.tile for use in arm.tiles)] for arm in arms]
    if (len(branch.then), len(branch.otherwise)) != (1, 1) or tiles[0] != tiles[1]:
        return []
    works = [variants(arm)[0].steps[0] for arm in arms]
    return [(arm, isinstance(work, Compute) and len(work.inputs) > 2) for arm, work in zip(arms, works, strict=True)]


def is_fixed(instr: Instr, variant: Variant, loop: Loop) -> bool:
    """Whether a load has no indices, or the same ones, valid alike, in all iterations of its loop."""
    (step,) = variant.steps
    index = step.index if isinstance(step, Move) else None
    if index is None:
        return True
    given = named_operands(instr)[index.access.operand]
    if not isinstance(given, View) or not are_known((index.capacity, *(index.valid or ()))):
        return False
    return all(loop.var not in variables(expr) for expr in (*given.starts, *given.sizes))


def _stores_behind(program: Program, loop: Loop, about: _PipelinedBody) -> list[Load] | None:
    places = [id(stmt) for stmt in program.body]
    if id(loop) not in places:
        return None
    later = [stmt for stmt in program.body[places.index(id(loop)) + 1 :] if not only_orders(stmt)]
    found = [(stmt, each) for stmt in later if isinstance(stmt, Instr) for each in about.variants(stmt)]
    fits = all(_is_store(*each, about.sums) for each in found)
    return found if fits and [instr for instr, _ in found] == later else None


def _is_store(instr: Instr, variant: Variant, sums: Collection[str]) -> bool:
    moves = [step for step in variant.steps if isinstance(step, Move) and not step.index]
    return moves == [*variant.steps] and not variant.remarked and all(use.tile in sums for use in instr.tiles)


def _uses(block: Block) -> Counter[str]:
    return Counter(use.tile for instr in instructions(block) for use in instr.tiles)


class _PipelinedBody:
    """The statements of a loop, one after the other: each tile is written once, before it is read."""

    def __init__(self, placed: Collection[str], held: Mapping[str, HeldTile], variants: Variants, chip: Chip) -> None:
        self.placed, self.held, self.variants, self.chip = placed, held, variants, chip
        self.loads: list[Load] = []
        self.rest: list[Stmt] = []
        self.tiles: dict[str, Panels] = {}
        self.views: dict[str, str] = {}
        self.sums: set[str] = set()

    def takes(self, stmt: Stmt) -> bool:
        """Take the next statement; whether it may be there."""
        if isinstance(stmt, Instr) and (self._is_load(stmt) or self._is_view(stmt)):
            return True
        self.rest.append(stmt)
        if isinstance(stmt, Branch):
            return all(isinstance(each, Instr) and self._is_product(each) for each in (*stmt.then, *stmt.otherwise))
        if isinstance(stmt, Instr):
            return self._is_product(stmt)
        return only_orders(stmt) or (isinstance(stmt, TileDecl) and stmt.name not in self.placed)

    def _is_load(self, instr: Instr) -> bool:
        """Of an array, into a tile that has no other writer."""
        variant, move = self._step(instr)
        if not isinstance(move, Move) or isinstance(move.src, Fill) or move.combine is not Combine.STORE or not variant:
            return False
        index, name = move.index, self._tile(instr, move.dst.operand)
        is_whole = index is None or (index.by_row and index.side is Side.SRC and index.remap is not Remap.SKIP)
        is_far = isinstance(named_operands(instr)[move.src.operand], View) and instr.workspace is None
        if not (name and is_whole and is_far and variant.types[move.dst.operand].name in self.chip.wide_units):
            return False
        self.tiles[name] = Panels(move.shape)
        self.loads.append((instr, variant))
        return True

    def _is_view(self, instr: Instr) -> bool:
        """The move of a tile that was loaded, all of it, into another one."""
        variant, step = self._step(instr)
        if isinstance(step, Compute):
            corner = step.op == "window" and dict(step.options) == {"row": 0, "col": 0}
            src = step.inputs[0] if corner else None
        else:
            src = None if step is None or step.index or step.combine is not Combine.STORE else step.src
        if step is None or variant is None or src is None or isinstance(src, Fill) or not _never_fails(variant):
            return False
        of, name = self._tile(instr, src.operand, known=True), self._tile(instr, step.dst.operand)
        same = variant.types[src.operand] == variant.types[step.dst.operand]
        if not (name and same and of in self.tiles and self.tiles[of].shape == step.shape):
            return False
        self.views[name] = of
        return True

    def _is_product(self, instr: Instr) -> bool:
        """Of two views, to be summed in registers."""
        variant, work = self._step(instr)
        if not isinstance(work, Compute) or variant is None or work.op != "matmul" or not _never_fails(variant):
            return False
        into, *sides = (self._tile(instr, each.operand, known=True) for each in (work.dst, *work.inputs[:2]))
        if into not in self.held or not all(side in self.views for side in sides):
            return False
        shapes = [self.tiles[self.views[side]].shape for side in sides]
        extents = *work.shape, work.inputs[0].shape[1]
        self.sums.add(into)
        agree = shapes == [each.shape for each in work.inputs[:2]]
        return agree and wide.takes(self.chip, self.held[into].dtype, *extents)

    def _step(self, instr: Instr) -> tuple[Variant | None, Move | Compute | None]:
        """The one variant of an instruction and its one step, of known extents; None if there is no such thing."""
        variants = [_in_one_step(each) for each in self.variants(instr)]
        if len(variants) != 1 or len(variants[0].steps) != 1 or not are_known(variants[0].steps[0].shape):
            return None, None
        return variants[0], variants[0].steps[0]

    def _tile(self, instr: Instr, operand: str, *, known: bool = False) -> str:
        """The name of a whole tile that the author gave no address; a new one, or one that is known."""
        use = named_operands(instr).get(operand)
        if not isinstance(use, TileUse) or use.window or not are_known(use.valid) or use.tile in self.placed:
            return ""
        is_known = use.tile in self.tiles or use.tile in self.views or use.tile in self.held
        return use.tile if is_known is known else ""


def _in_one_step(variant: Variant) -> Variant:
    """Clear a tile and skip some of its rows in one step: the skipped rows are zero."""
    first, *more = variant.steps
    step = more[0] if len(more) == 1 else None
    if not (isinstance(first, Move) and first.src == Fill() and isinstance(step, Move) and step.index):
        return variant
    if step.index.remap is not Remap.SKIP or first.dst.operand != step.dst.operand or not _covers(first, step):
        return variant
    return replace(variant, steps=(replace(step, index=replace(step.index, remap=Remap.ZERO)),))


def _covers(first: Move, then: Move) -> bool:
    """Whether a move writes all elements up to some one, and the next one none beyond it."""
    if not are_known((*first.shape, *then.shape)):
        return False
    count = first.dst.layout.span(*first.shape)
    return count == prod(first.shape) and count >= then.dst.layout.span(*then.shape)


def _never_fails(variant: Variant) -> bool:
    return not (variant.conditions or variant.remarked)


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
            with code.phase():  # wait for all copies of this lane but the last groups; then for the other lanes
                text = f"cp.async.wait_group {ahead - 1}; fence.proxy.async;"  # matrix units find the data
                code.ptx("void", f"await_groups_{ahead - 1}", text, "~{memory}")
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
        self.stage.code.ptx("void", "close_group", "cp.async.commit_group;", "~{memory}")

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
