"""One instruction as code: everything is checked before anything is written; Python handles the rare cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from ptokit.engine.llvm.address import MemoryView, are_known, is_number, numbers_in
from ptokit.engine.llvm.compute import operations as compute
from ptokit.engine.llvm.compute import units, wide
from ptokit.engine.llvm.compute.cube import pair, within
from ptokit.engine.llvm.compute.walk import RegionView
from ptokit.engine.llvm.emit import I1, I32, I64, PTR, IrBuilder, IrValue, Variable, size_of
from ptokit.engine.llvm.move import CodeWriter, ThreadMove
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.llvm.program.expressions import Evaluator
from ptokit.engine.llvm.program.independent import CAPACITY, COUNT, LANES, ROWS, Page
from ptokit.engine.llvm.program.slots import ALIGNMENT, Reason
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.llvm.program.tiles import HeldTile, Variant
from ptokit.engine.llvm.resolve import IndexValues, emit_resolve, lane_of
from ptokit.engine.llvm.shared_move import SharedMove, known_lanes
from ptokit.engine.reference import NEGATIVE
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Compute, Fill, Index, IndexUnit, Move, Remap
from ptokit.program.instr_calls import named_operands, tile_spec
from ptokit.program.ir import Instr, TileUse, View
from ptokit.program.symbolic import SymbolicNumber, expr_of


class Execution:
    """Emits one variant of an instruction."""

    def __init__(
        self,
        stage: Stage,
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
        self.page = stage.pages.get(self.number)
        """What the instruction defers, if it does."""
        self.writer = CodeWriter(stage.code, evaluator.value_of)
        self.operands = named_operands(instr)
        self.bases: dict[str, IrValue] = {}
        self.keep: IrValue | None = None
        """Whether a product is added to what registers hold, if that is known at run time only."""

    def emit(self) -> None:
        """The whole instruction: everything is checked before anything is written."""
        self.prepare()
        for step in self.variant.steps:
            if isinstance(step, Compute):
                (self._summed if self._held(step.dst) else self._computed)(step)
            elif not isinstance(step.src, Fill) and self._held(step.src):
                self._stored(step.src, self.place(step.dst))
            else:
                self.moved(step, None if isinstance(step.src, Fill) else self.place(step.src), self.place(step.dst))

    def prepare(self, *, resolved: bool = False) -> None:
        """Address the operands, check the indices; fall back where a check fails. Nothing is reported, nor are indices
        checked, if that was done: they are `resolved`."""
        if self.variant.remarked and not resolved:
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
            if isinstance(step, Move) and step.index is not None and not resolved:
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
        operand, base, size = access.operand, self.bases[access.operand], self.variant.types[access.operand].size
        given = self.operands[operand]
        if isinstance(given, TileUse) and given.tile in self.stage.panels:
            panels = self._panels(operand)
            return MemoryView(base, panels.layout, size, swizzle=panels.swizzle)
        layout, align = access.layout, self.stage.alignment(given)
        if not is_number(layout.start, 0):
            align = gcd(align, layout.start * size) if are_known([layout.start]) else size
            base = self.code.at(base, self.evaluator.value_of(layout.start) * size)
        return MemoryView(base, replace(layout, start=0), size, isinstance(given, View), align)

    def _panels(self, operand: str) -> wide.Panels:
        """How a tile of a pipelined loop lies."""
        given = self.operands[operand]
        assert isinstance(given, TileUse)
        return self.stage.panels[given.tile]

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
        are_below = self._shared_check(move, index) if self.code.chip.lanes != 1 else self._resolved(move, index)
        if index.remap is Remap.REFUSE:
            self.evaluator.guard(self.slow, are_below(value_of(index.capacity)))
        if index.cast and dtype.family == "int" and index.remap in (Remap.CLAMP, Remap.WRAP):
            self._leave_unless_reported(Reason.NEGATIVE, are_below(self.code.i64(NEGATIVE)))
        if index.valid is not None:
            self._leave_unless_reported(Reason.PADDED, self._names_no_padding(move, index, *map(value_of, index.valid)))

    def _resolved(self, move: Move, index: Index) -> Callable[[IrValue], IrValue]:
        """Read the indices into lanes; gives whether all of them are below a limit."""
        dtype = self.variant.types[index.access.operand]

        def resolve(writer: CodeWriter, base: IrValue, lanes: IrValue, rows: IrValue, across: IrValue) -> IrValue:
            place = MemoryView(base, index.access.layout, dtype.size)
            return emit_resolve(writer.code, index, dtype, place, (rows, across), lanes, writer.value_of)

        given = [self.place(index.access).base, self._lanes(), *self._index_shape(move)]
        top = self._outline(I64, move, given, resolve)
        return lambda limit: top.compare("ult", limit)

    def _shared_check(self, move: Move, index: Index) -> Callable[[IrValue], IrValue]:
        """Gives whether all indices are below a limit, where each lane of the chip reads them in their place."""

        def check(writer: CodeWriter, base: IrValue, *given: IrValue) -> IrValue:
            return self._values(writer, index, base).are_below(*given)

        base, shape = self.place(index.access).base, self._index_shape(move)
        return lambda limit: self._outline(I1, move, [base, limit, *shape], check)

    def _values(self, writer: CodeWriter, index: Index, base: IrValue) -> IndexValues:
        dtype, place = self.variant.types[index.access.operand], replace(self.place(index.access), base=base)
        return IndexValues(writer.code, index, dtype, place, writer.value_of)

    def _index_shape(self, move: Move) -> tuple[IrValue, IrValue]:
        """Rows and columns of the indices."""
        rows, cols = map(self.evaluator.value_of, move.shape)
        return rows, self.code.i64(1) if move.index is not None and move.index.by_row else cols

    def _lane(self, index: Index, i: IrValue, j: IrValue, cols: IrValue) -> IrValue:
        """An index, resolved."""
        if self.code.chip.lanes != 1:
            return self._values(self.writer, index, self.place(index.access).base).resolved(i, j)
        kind = lane_of(self.variant.types[index.access.operand])
        return self.code.load(kind, self.code.at(self._lanes(), (i * cols + j) * size_of(kind)))

    def _names_no_padding(self, move: Move, index: Index, rows: IrValue, cols: IrValue) -> IrValue:
        """Whether every lane names a defined element of the tile."""
        code, shape = self.code, self._index_shape(move)

        def find(found: Variable) -> None:
            with code.region(*shape) as (i, across), across(0, shape[1]) as j:
                lane = self._lane(index, i, j, shape[1]).to("zext", I64)
                if index.unit is IndexUnit.ROW:
                    inside = lane.compare("ult", rows)
                else:
                    width = self.evaluator.value_of(index.width)
                    inside = lane.op("udiv", width).compare("ult", rows) & lane.op("urem", width).compare("ult", cols)
                found.set(found.get() | (inside ^ 1))

        return code.any(find) ^ 1

    def _lane_count(self, move: Move) -> IrValue:
        rows, cols = self._index_shape(move)
        return rows * cols

    def _check_capacity(self, move: Move) -> None:
        """Fall back if the ledger is full."""
        stage, slot = self.stage, self.stage.slots.ledgers[self.number]
        end = stage.slot(slot + COUNT) + self._lane_count(move)
        self._leave_unless(end.compare("sle", stage.slot(slot + CAPACITY)), Reason.FULL)

    def _defer(self, page: Page, move: Move, source: MemoryView) -> None:
        """Add the lanes and their elements to the ledger."""
        stage, code, slot = self.stage, self.code, self.stage.slots.ledgers[self.number]
        count, lanes = stage.slot(slot + COUNT), self._lane_count(move)
        there = code.at(stage.slot(slot + LANES).to("inttoptr", PTR), count * size_of(page.lane))
        rows_of_lanes, cols = self._index_shape(move)
        assert move.index is not None
        with code.phase(), code.region(rows_of_lanes, cols) as (i, across), across(0, cols) as j:
            code.store(self._lane(move.index, i, j, cols), code.at(there, (i * cols + j) * size_of(page.lane)))
        rows = code.at(stage.slot(slot + ROWS).to("inttoptr", PTR), count * page.nbytes)
        packed = MemoryView(rows, Layout.plain(move.cols, 1), source.size)
        copied = Move(move.shape, Access("", packed.layout), Access("", source.layout))
        self._move(copied, source, packed)
        stage.put(slot + COUNT, count + lanes)

    def moved(self, move: Move, source: MemoryView | None, target: MemoryView) -> None:
        """Emit a move between two regions, or defer it."""
        if self.page is not None and source is not None:
            self._defer(self.page, move, source)
            return
        self._move(move, source, target)

    @property
    def _load(self) -> Move:
        (step,) = self.variant.steps
        assert isinstance(step, Move)
        return step

    def known(self) -> list[IrValue]:
        """The indices of a load that this lane needs, if they are few."""
        step = self._load
        if step.index is None:
            return []
        with self.code.phase(waits=False):
            values = self._values(self.writer, step.index, self.place(step.index.access).base)
            return known_lanes(self.writer, step, self._moved_type, values)

    def begin_load(self, known: Sequence[IrValue]) -> None:
        """Begin to copy what a load moves; nobody waits for it here."""
        step = self._load
        assert not isinstance(step.src, Fill)
        self._move(step, self.place(step.src), self.place(step.dst), known, waits=False)

    def _move(
        self,
        move: Move,
        source: MemoryView | None,
        target: MemoryView,
        known: Sequence[IrValue] = (),
        *,
        waits: bool = True,
    ) -> None:
        index, dtype = move.index, self._moved_type
        lane = lane_of(self.variant.types[index.access.operand]) if index else I32
        shared = self.code.chip.lanes != 1

        def write(writer: CodeWriter, into: IrValue, out: IrValue, lanes: IrValue, *known: IrValue) -> None:
            start = replace(source, base=out) if source else None
            values = replace(self._values(writer, index, lanes), known=known) if index and shared else None
            with writer.code.phase(waits=waits):
                task = SharedMove if shared else ThreadMove
                task(writer, move, dtype, replace(target, base=into), start, lanes, lane, values).write()

        lanes = self.place(index.access).base if index and shared else self._lanes()
        self._outline("void", move, [target.base, source.base if source else target.base, lanes, *known], write)

    def _outline(
        self, kind: str, step: Move | Compute, values: Sequence[IrValue], write: Callable[..., IrValue | None]
    ) -> IrValue:
        """Emit a step as a function of its own, which compiles faster than one long function, and call it."""
        numbers = list({expr_of(number): number for number in numbers_of(step)}.items())
        known = {expr: self.evaluator.value_of(number) for expr, number in numbers}
        passed = [*known.values(), *values]

        def body(code: IrBuilder, given: list[IrValue]) -> None:
            by_expr = dict(zip(known, given, strict=False))

            def value_of(number: Any) -> IrValue:
                return code.i64(number) if isinstance(number, int) else by_expr[expr_of(number)]

            code.ret(write(CodeWriter(code, value_of), *given[len(known) :]))

        name = self.code.module.outlined(kind, passed, body)
        return self.code.call(kind, name, *passed)

    @property
    def _moved_type(self) -> DType:
        return self.variant.types[self.variant.steps[-1].dst.operand]

    def _computed(self, work: Compute) -> None:
        """Write a computation; a result that may not replace its inputs at once goes to spare memory first."""
        types, target = self.variant.types, self.place(work.dst)
        inputs = [self.place(Access(each.operand, each.layout)) for each in work.inputs]
        in_place = self._may_replace(work)
        into = target if in_place else replace(target, base=self.stage.spare(), align=ALIGNMENT)

        def write(writer: CodeWriter, start: IrValue, *bases: IrValue) -> IrValue:
            code, refused = writer.code, writer.code.new_label("refused")
            places = [replace(place, base=base) for place, base in zip(inputs, bases, strict=True)]
            compute.emit(writer, work, types, replace(into, base=start), places, refused)
            code.ret(code.constant("i1", "true"))
            code.begin(refused)
            return code.constant("i1", "false")

        self.evaluator.guard(self.slow, self._outline("i1", work, [into.base, *(p.base for p in inputs)], write))
        if not in_place:
            self._move(Move(work.shape, work.dst, work.dst), into, target)

    # --- tiles in registers

    def _held(self, access: Access) -> str:
        """The name of an operand's tile if it is in registers."""
        given = self.operands[access.operand]
        return given.tile if isinstance(given, TileUse) and given.tile in self.stage.held else ""

    def _summed(self, work: Compute) -> None:
        """Add a product to what registers hold, or put it there."""
        name, code, given = self._held(work.dst), self.code, self.variant.types[work.inputs[0].operand]
        held, sums = self.stage.held[name], self.stage.sums[name]
        a, b = (RegionView(self.writer, self.place(Access(x.operand, x.layout))) for x in work.inputs[:2])
        if a.place.swizzle:
            self._begin_product(work, held, sums)
            return
        made = units.UnitProduct(code, given, a, b.transposed, (*work.shape, work.inputs[0].shape[1]))
        if len(work.inputs) == 2:
            sums.clear()
        with code.phase(), units.held_part(code, held.parts, made.m, made.n) as part:
            made.add(part, sums)

    def _begin_product(self, work: Compute, held: HeldTile, sums: units.GroupSums) -> None:
        """The same of tiles of a pipelined loop; the sums change until all lanes have waited."""
        code, sides = self.code, [each.operand for each in work.inputs[:2]]
        keep = self.code.constant(I32, int(len(work.inputs) > 2)) if self.keep is None else self.keep
        with code.phase(waits=False), units.held_part(code, held.parts, *map(code.i64, work.shape)):
            wide.multiply(held.dtype, [(self._panels(each), self.bases[each]) for each in sides], sums, keep)

    def _stored(self, access: Access, target: MemoryView) -> None:
        """Write what registers hold."""
        name = self._held(access)
        with self.code.phase():
            store_held(self.writer, self.stage.held[name], self.stage.sums[name], target)

    def _may_replace(self, work: Compute) -> bool:
        """Whether each element of the result may replace its input as soon as it is computed."""
        region = _region(work.dst.layout, work.shape)
        return all(
            compute.is_lanewise(work, self.code.chip, nth) and _region(each.layout, each.shape) == region
            for nth, each in enumerate(work.inputs)
            if self._is_one_tile(each.operand, work.dst.operand)
        )


def store_held(writer: CodeWriter, held: HeldTile, sums: units.GroupSums, target: MemoryView) -> None:
    """Write a tile that registers hold, in a phase: two columns at a time if they are aligned."""
    code, aligned = writer.code, RegionView(writer, replace(target, align=8))

    def write(into: RegionView, at_once: int) -> None:
        m, n = map(code.i64, held.shape)
        with units.held_part(code, held.parts, m, n) as part:
            for i, j, cells in part.places(sums):
                with within(i, m, part.rows):
                    row, values = into.row(i), [cell.get().bits(I32) for cell in cells]
                    for k, value in enumerate([pair(*values)] if at_once == 2 else values):
                        with within(j + k, n, part.cols):
                            row.store(value, j + k)

    if aligned.run % 2 or held.shape[1] % 2 or aligned.alignment(2) < 8:
        write(RegionView(writer, target), 1)
        return
    odd = target.base.to("ptrtoint", I64) & 7
    code.choose(odd.compare("eq", 0), lambda: write(aligned, 2), lambda: write(RegionView(writer, target), 1))


def _region(layout: Layout, shape: tuple[Any, Any]) -> tuple[object, ...]:
    """A region as plain data, run-time numbers by their expressions."""
    terms = [(expr_of(t.stride), expr_of(t.div), expr_of(t.mod)) for t in (*layout.rows, *layout.cols)]
    return (len(layout.rows), expr_of(layout.start), *terms, *map(expr_of, shape))


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
    numbers: list[Any] = [*step.shape]
    layouts = [step.dst.layout]
    if isinstance(step, Compute):
        numbers += [option for _, option in step.options]
        for each in step.inputs:
            numbers += each.shape
            layouts.append(each.layout)
    else:
        if not isinstance(step.src, Fill):
            layouts.append(step.src.layout)
        if step.index is not None:
            layouts.append(step.index.access.layout)
            numbers += [step.index.capacity, step.index.width, *(step.index.valid or ())]
    for layout in layouts:
        numbers += [layout.start, *numbers_in((*layout.rows, *layout.cols))]
    return [number for number in numbers if isinstance(number, SymbolicNumber)]
