"""One instruction as machine code: everything is checked before anything is written; Python handles the rare cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ptokit.engine.llvm.address import MemoryView, numbers_in
from ptokit.engine.llvm.compute import operations as compute
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, Variable, size_of
from ptokit.engine.llvm.move import CodeWriter, MoveRegions, emit_move
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.page import CAPACITY, COUNT, LANES, ROWS, Page
from ptokit.engine.llvm.program.slots import Reason
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.llvm.program.symbolic import SymbolicNumber, expr_of
from ptokit.engine.llvm.program.variant import Variant
from ptokit.engine.llvm.resolve import emit_resolve, lane_of
from ptokit.engine.llvm.shared_move import emit_shared_move
from ptokit.engine.reference import NEGATIVE
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Compute, Fill, Index, IndexUnit, Move, Remap, Side
from ptokit.program.calls import named_operands, tile_spec
from ptokit.program.ir import Instr, TileUse, View


class Execution:
    """Emits one variant of an instruction."""

    def __init__(
        self,
        stage: Stage,
        pages: Mapping[int, Page],
        instr: Instr,
        variant: Variant,
        evaluator: Evaluator,
        slow: str,
        reason: Variable,
        nth: int = 0,
    ) -> None:
        """`slow` is the label of the fallback, `reason` its reason; `nth` counts the variants."""
        self.stage, self.instr, self.variant, self.evaluator = stage, instr, variant, evaluator
        self.slow, self.reason, self.nth = slow, reason, nth
        self.code, self.number = stage.code, stage.slots.numbers[id(instr)]
        self.page = pages.get(self.number)
        """What the instruction defers, if it does."""
        self.writer = CodeWriter(stage.code, evaluator.value_of)
        self.operands = named_operands(instr)
        self.bases: dict[str, IrValue] = {}

    def emit(self) -> None:
        """The whole instruction: everything is checked before anything is written."""
        self.prepare()
        for step in self.variant.steps:
            if isinstance(step, Compute):
                self._computed(step)
            else:
                self.moved(step, None if isinstance(step.src, Fill) else self.place(step.src), self.place(step.dst))

    def prepare(self) -> None:
        """Address the operands, check the indices; fall back where a check fails."""
        if self.variant.remarked:
            self._leave_unless_remarked()
        for name, operand in self.operands.items():
            span = self.variant.spans.get(name, 1)
            self.bases[name] = self.stage.operand(self.evaluator, operand, span, self.slow)
        for step in self.variant.steps:
            for number in numbers_of(step):  # all of them now, while a fallback is still possible
                self.evaluator.value_of(number)
        self.evaluator.guard(self.slow)
        self._check_apart()
        for step in self.variant.steps:
            if isinstance(step, Move) and step.index is not None:
                self._resolve(step, step.index)
                if self.page is not None:
                    self._check_capacity(step)

    def _leave_unless_remarked(self) -> None:
        """Fall back once to report the findings of verification; each variant has a bit."""
        slot, bit = self.stage.slots.reported_slot(self.number, Reason.REMARK), 1 << self.nth
        reported = self.stage.slot(slot)
        self.stage.put(slot, reported | bit)
        self._leave_unless((reported & bit).compare("ne", 0), Reason.REMARK)

    def _leave_unless_reported(self, reason: int, *held: IrValue) -> None:
        """Fall back to report a finding, unless it was reported or a condition holds."""
        fine = self.stage.slot(self.stage.slots.reported_slot(self.number, reason)).compare("ne", 0)
        for each in held:
            fine = fine | each
        self._leave_unless(fine, reason)

    def _leave_unless(self, fine: IrValue, reason: int) -> None:
        """Fall back for a reason, unless `fine` holds."""
        code = self.code
        go_on, leave = code.new_label("go"), code.new_label("leave")
        code.split(fine, go_on, leave)
        code.begin(leave)
        self.reason.set(code.i64(reason))
        code.jump(self.slow)
        code.begin(go_on)

    def place(self, access: Access) -> MemoryView:
        """A region of an operand."""
        return MemoryView(self.bases[access.operand], access.layout, self.variant.types[access.operand].size)

    # --- operands that may share memory

    def _check_apart(self) -> None:
        """What is written lies apart from what is read, or the instruction works in place; else fall back."""
        for written, read in sorted(self._pairs()):
            if self._may_meet(written, read):
                self._leave_if_overlapping(written, read)

    def _pairs(self) -> set[tuple[str, str]]:
        """What is written together with what is read; results of computations may replace an input."""
        found: set[tuple[str, str]] = set()
        for step in self.variant.steps:
            if isinstance(step, Move):
                reads = [] if isinstance(step.src, Fill) else [step.src.operand]
                reads += [step.index.access.operand] if step.index else []
            else:
                reads = [each.operand for each in step.inputs if not self._is_one_tile(each.operand, step.dst.operand)]
            found |= {(step.dst.operand, read) for read in reads}
        return found

    def _is_one_tile(self, name: str, other: str) -> bool:
        """Whether two operands are one tile, one slice, or handles of one buffer."""
        if name == other or not {(name, other), (other, name)}.isdisjoint(self.variant.shared.same):
            return True
        one, two = self.operands[name], self.operands[other]
        if not (isinstance(one, TileUse) and isinstance(two, TileUse)) or one.tile == two.tile:
            return False
        buffers = self.stage.slots.buffers
        is_one = one.tile in buffers and buffers[one.tile] == buffers.get(two.tile)
        return is_one and one.window == two.window

    def _may_meet(self, written: str, read: str) -> bool:
        one, other = self.operands[written], self.operands[read]
        if isinstance(one, View) and isinstance(other, View):
            return True
        if not (isinstance(one, TileUse) and isinstance(other, TileUse)):
            return False
        if one.tile == other.tile:
            pairs = {(written, read), (read, written)}
            return written == read or not pairs.isdisjoint(self.variant.shared.same | self.variant.shared.clashes)
        placed, tiles = self.stage.slots.placed, self.stage.program.tiles
        return one.tile in placed and other.tile in placed and tiles[one.tile].spec.loc == tiles[other.tile].spec.loc

    def _leave_if_overlapping(self, written: str, read: str) -> None:
        starts = [self.bases[name].to("ptrtoint", I64) for name in (written, read)]
        ends = [start + self._nbytes(name) for start, name in zip(starts, (written, read), strict=True)]
        self.evaluator.guard(self.slow, starts[0].compare("uge", ends[1]) | starts[1].compare("uge", ends[0]))

    def _nbytes(self, name: str) -> IrValue:
        operand, size = self.operands[name], self.variant.types[name].size
        if isinstance(operand, TileUse):
            return self.code.i64(tile_spec(self.stage.program.tiles[operand.tile].spec, operand).nbytes)
        return self.evaluator.value_of(self.variant.spans[name]) * size

    # --- steps

    def _lanes(self) -> IrValue:
        return self.code.at(self.stage.arena, self.stage.slots.scratch)

    def _resolve(self, move: Move, index: Index) -> None:
        """Read the indices into lanes; fall back if one is refused or has to be reported."""
        dtype, value_of = self.variant.types[index.access.operand], self.evaluator.value_of

        def resolve(writer: CodeWriter, base: IrValue, lanes: IrValue, rows: IrValue, across: IrValue) -> IrValue:
            place = MemoryView(base, index.access.layout, dtype.size)
            return emit_resolve(
                writer.code, index, dtype, place, (rows, across), lanes, writer.value_of, word=writer.word
            )

        rows, cols = map(value_of, move.shape)
        across = self.code.i64(1) if index.by_row else cols
        top = self._outline(I64, move, [self.place(index.access).base, self._lanes(), rows, across], resolve)
        if index.remap is Remap.REFUSE:
            self.evaluator.guard(self.slow, top.compare("ult", value_of(index.capacity)))
        if index.cast and dtype.family == "int" and index.remap in (Remap.CLAMP, Remap.WRAP):
            self._leave_unless_reported(Reason.NEGATIVE, top.compare("ult", NEGATIVE))
        if index.valid is not None:
            self._leave_unless_reported(Reason.PADDED, self._names_no_padding(move, index, *map(value_of, index.valid)))

    def _names_no_padding(self, move: Move, index: Index, rows: IrValue, cols: IrValue) -> IrValue:
        """Whether every lane names a defined element of the tile."""
        code, kind = self.code, lane_of(self.variant.types[index.access.operand])

        def find(found: Variable) -> None:
            with code.share(0, self._lane_count(move)) as k:
                lane = code.load(kind, code.at(self._lanes(), k * size_of(kind))).to("zext", I64)
                if index.unit is IndexUnit.ROW:
                    inside = lane.compare("ult", rows)
                else:
                    width = self.evaluator.value_of(index.width)
                    inside = lane.op("udiv", width).compare("ult", rows) & lane.op("urem", width).compare("ult", cols)
                found.set(found.get() | (inside ^ 1).to("zext", I64))

        return code.greatest(self.stage.word, find).compare("eq", 0)

    def _lane_count(self, move: Move) -> IrValue:
        rows, cols = map(self.evaluator.value_of, move.shape)
        return rows if move.index is not None and move.index.by_row else rows * cols

    def _check_capacity(self, move: Move) -> None:
        """Fall back if the ledger is full: Python enlarges it."""
        stage, slot = self.stage, self.stage.slots.ledgers[self.number]
        end = stage.slot(slot + COUNT) + self._lane_count(move)
        self._leave_unless(end.compare("sle", stage.slot(slot + CAPACITY)), Reason.FULL)

    def _defer(self, page: Page, move: Move, source: MemoryView) -> None:
        """Add the lanes and their elements to the ledger."""
        stage, code, slot = self.stage, self.code, self.stage.slots.ledgers[self.number]
        count, lanes = stage.slot(slot + COUNT), self._lane_count(move)
        there = code.at(stage.slot(slot + LANES).to("inttoptr", PTR), count * size_of(page.lane))
        with code.phase():
            if code.chip.lanes == 1:
                self.writer.copy(there, self._lanes(), lanes * size_of(page.lane))
            else:
                self._copy_lanes(there, lanes, page.lane)
        rows = code.at(stage.slot(slot + ROWS).to("inttoptr", PTR), count * page.nbytes)
        packed = MemoryView(rows, Layout.plain(move.cols, 1), source.size)
        copied = Move(move.shape, Access("", packed.layout), Access("", source.layout))
        self._move(copied, source, packed)
        stage.put(slot + COUNT, count + lanes)

    def _copy_lanes(self, there: IrValue, count: IrValue, kind: str) -> None:
        code = self.code
        with code.share(0, count) as k:
            code.store(code.load(kind, code.at(self._lanes(), k * size_of(kind))), code.at(there, k * size_of(kind)))

    def moved(self, move: Move, source: MemoryView | None, target: MemoryView) -> None:
        """Emit a move between two regions, or defer it."""
        if self.page is not None and source is not None:
            self._defer(self.page, move, source)
            return
        self._move(move, source, target)

    def _move(self, move: Move, source: MemoryView | None, target: MemoryView) -> None:
        index, dtype = move.index, self._moved_type
        lane = lane_of(self.variant.types[index.access.operand]) if index else I32

        def write(writer: CodeWriter, into: IrValue, out: IrValue, lanes: IrValue) -> None:
            start = MemoryView(out, source.layout, source.size) if source else None
            regions = MoveRegions(replace(target, base=into), start, lanes, lane, self._is_far(move))
            with writer.code.phase():
                (emit_move if writer.code.chip.lanes == 1 else emit_shared_move)(writer, move, dtype, regions)

        self._outline("void", move, [target.base, source.base if source else target.base, self._lanes()], write)

    def _is_far(self, move: Move) -> bool:
        """Whether the index leads into an array."""
        if move.index is None or isinstance(move.src, Fill):
            return False
        indexed = move.src.operand if move.index.side is Side.SRC else move.dst.operand
        return isinstance(self.operands.get(indexed), View)

    def _outline(
        self, kind: str, step: Move | Compute, values: Sequence[IrValue], write: Callable[..., IrValue | None]
    ) -> IrValue:
        """Emit a step as a function of its own, which compiles faster than one long function, and call it."""
        numbers = list({expr_of(number): number for number in numbers_of(step)}.items())
        known = {expr: self.evaluator.value_of(number) for expr, number in numbers}
        word = [self.stage.word] if self.code.chip.lanes > 1 else []
        passed, shared, own = [*known.values(), *word, *values], len(known), len(known) + len(word)

        def body(code: IrBuilder, given: list[IrValue]) -> None:
            by_expr = dict(zip(known, given, strict=False))

            def value_of(number: Any) -> IrValue:
                return code.i64(number) if isinstance(number, int) else by_expr[expr_of(number)]

            code.ret(write(CodeWriter(code, value_of, *given[shared:own]), *given[own:]))

        name = self.code.module.outlined(kind, passed, body)
        return self.code.call(kind, name, *passed)

    @property
    def _moved_type(self) -> DType:
        return self.variant.types[self.variant.steps[-1].dst.operand]

    def _computed(self, work: Compute) -> None:
        """Write a computation; a result that may not replace its inputs at once goes to spare memory first."""
        types, target = self.variant.types, self.place(work.dst)
        inputs = [MemoryView(self.bases[each.operand], each.layout, types[each.operand].size) for each in work.inputs]
        spare = MemoryView(self.code.at(self.stage.arena, self.stage.slots.spare), work.dst.layout, target.size)
        into = target if self._may_replace(work) else spare

        def write(writer: CodeWriter, start: IrValue, *bases: IrValue) -> IrValue:
            code, refused = writer.code, writer.code.new_label("refused")
            places = [replace(place, base=base) for place, base in zip(inputs, bases, strict=True)]
            compute.emit(writer, work, types, replace(into, base=start), places, refused)
            code.ret(code.constant("i1", "true"))
            code.begin(refused)
            return code.constant("i1", "false")

        self.evaluator.guard(self.slow, self._outline("i1", work, [into.base, *(p.base for p in inputs)], write))
        if into is spare:
            self._move(Move(work.shape, work.dst, work.dst), spare, target)

    def _may_replace(self, work: Compute) -> bool:
        """Whether each element of the result may replace its input as soon as it is computed."""
        shared = [each for each in work.inputs if self._is_one_tile(each.operand, work.dst.operand)]
        region = _region(work.dst.layout, work.shape)
        return not shared or (
            compute.is_lanewise(work, self.code.chip)
            and all(_region(each.layout, each.shape) == region for each in shared)
        )


def _region(layout: Layout, shape: tuple[Any, Any]) -> tuple[object, ...]:
    """A region as plain data, run-time numbers by their expressions."""
    terms = [(expr_of(t.stride), expr_of(t.div), expr_of(t.mod)) for t in (*layout.rows, *layout.cols)]
    return (len(layout.rows), *terms, *map(expr_of, shape))


def is_supported(variant: Variant) -> bool:
    """Whether there is code for all that a variant does."""
    types = variant.types
    return all(
        compute.supports(step, types)
        if isinstance(step, Compute)
        else step.combine is Combine.STORE or computes(types[step.dst.operand])
        for step in variant.steps
    )


def numbers_of(step: Move | Compute) -> list[Any]:
    """Every number of a step that is known at run time only."""
    found: list[Any] = [*step.shape]
    layouts = [step.dst.layout]
    if isinstance(step, Compute):
        found += [option for _, option in step.options]
        for each in step.inputs:
            found += each.shape
            layouts.append(each.layout)
    else:
        if not isinstance(step.src, Fill):
            layouts.append(step.src.layout)
        if step.index is not None:
            layouts.append(step.index.access.layout)
            found += [step.index.capacity, step.index.width, *(step.index.valid or ())]
    for layout in layouts:
        found += numbers_in((*layout.rows, *layout.cols))
    return [number for number in found if isinstance(number, SymbolicNumber)]
