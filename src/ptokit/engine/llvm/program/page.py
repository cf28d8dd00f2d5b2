"""Scatters that may be deferred: what is recorded of them while blocks run in parallel.

If one scatter alone touches a table, only the order in which its rows arrive is observable, not the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptokit.engine.llvm.address import are_known
from ptokit.engine.llvm.program.independent import memory_of, views_of
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.variant import Variant
from ptokit.engine.llvm.resolve import lane_of
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Fill, IndexUnit, Move, Side
from ptokit.program.expr import apply, evaluate
from ptokit.program.ir import Instr, Program

LANES, ROWS, COUNT, CAPACITY = range(4)
"""The slots of a ledger: two addresses, how many lanes it has, and its capacity in lanes."""


@dataclass(frozen=True)
class Page:
    """What is recorded for one scatter: the number of its statement, its table, and what a lane moves."""

    number: int
    array: str
    offset: int
    """Elements before the table in its array."""
    capacity: int
    row: int
    """Elements from row to row of the table."""
    width: int
    """Elements that a lane moves."""
    element: str
    combine: str
    lane: str

    @property
    def nbytes(self) -> int:
        """Bytes that a lane moves."""
        return self.width * dtype(self.element).size


def candidates(program: Program, slots: Slots) -> dict[int, str]:
    """Statements that alone touch the memory that they write, at an offset known before the run; and that memory."""
    touched: dict[str, list[int]] = {}
    for number, stmt in enumerate(slots.statements):
        for view, _ in views_of(stmt):
            touched.setdefault(memory_of(program.tensors[view.argument]), []).append(number)
    found: dict[int, str] = {}
    for number, stmt in enumerate(slots.statements):
        for view, writes in views_of(stmt) if isinstance(stmt, Instr) else ():
            argument = program.tensors[view.argument]
            known = are_known((*view.starts, *view.sizes, *argument.stride, argument.offset))
            if writes and known and touched[memory_of(argument)] == [number]:
                found[number] = memory_of(argument)
    return found


def page(program: Program, slots: Slots, number: int, variants: Sequence[Variant]) -> Page | None:
    """What is recorded for a statement; None if it is not a scatter of one kind."""
    instr = slots.statements[number]
    assert isinstance(instr, Instr)
    pages = {_page(program, number, instr, variant) for variant in variants}
    return pages.pop() if len(pages) == 1 else None


def _page(program: Program, number: int, instr: Instr, variant: Variant) -> Page | None:
    move = variant.steps[0]
    if len(variant.steps) != 1 or not isinstance(move, Move) or move.index is None or isinstance(move.src, Fill):
        return None
    index, layout = move.index, move.dst.layout
    numbers = [index.capacity, index.width, *(t.stride for t in (*layout.rows, *layout.cols))]
    numbers += [move.cols] * index.by_row  # an element is a lane of its own, however many there are
    if index.side is not Side.DST or layout.strides is None or not are_known(numbers):
        return None
    row, col = layout.strides
    by_row = index.by_row
    if col != 1 or (not by_row and (index.unit is IndexUnit.ROW or index.width)):
        return None
    view = next(view for view, writes in views_of(instr) if writes)
    argument = program.tensors[view.argument]
    starts = zip(view.starts, argument.stride, strict=True)
    offset = evaluate(argument.offset, {}) + sum(evaluate(apply("mul", *pair), {}) for pair in starts)
    lane = lane_of(variant.types[index.access.operand])
    kind = variant.types[move.dst.operand]
    width = move.cols if by_row else 1
    step = row if by_row else 1
    return Page(number, argument.array, offset, index.capacity, step, width, kind.name, move.combine.name, lane)
