"""Whether the blocks of a launch can run in parallel: none writes what another one reads or writes.

The check uses the boxes of the arrays that each block names in each iteration. An indexed access counts as the whole
array. A number from memory counts as all that the conditions around and its type allow. If there are too many blocks or
iterations to try all, or a box has no bounds, they must lie at a constant distance from block to block, which is no
shorter than what a block names.

If one scatter alone touches a table, only the order in which its rows arrive is observable, not the time: it can be
deferred. A page says what is recorded of such a scatter while blocks run in parallel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.engine.interpreter import only_orders
from ptokit.engine.llvm.address import are_known
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.tiles import Variant, Variants
from ptokit.engine.llvm.resolve import lane_of
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine, Fill, IndexUnit, Move, Side
from ptokit.program.bounds import SAFE, Reach, reaches
from ptokit.program.expr import BLOCK_IDX, Var, affine, apply, evaluate, subtract
from ptokit.program.instr_calls import access_of, named_operands
from ptokit.program.ir import Argument, Block, Instr, LoadScalar, Program, Stmt, TileDecl, View, walk

Array = np.ndarray[Any, np.dtype[Any]]
Touch = tuple[View, Reach]
Integers = Mapping[Var, int] | tuple[tuple[Var, int], ...]


@dataclass(frozen=True)
class BlockAccess:
    """The accesses of a statement to an array: block, and bounds in each dim, for each time it may run."""

    blocks: Array
    lows: Array
    highs: Array


def are_independent(program: Program, grid: int, integers: Integers, besides: Set[str] = frozenset()) -> bool:
    """Whether no block writes what another one reads or writes; memories `besides` are ignored."""
    written = written_memories(program, program.body) - besides
    touched: defaultdict[str, list[Touch]] = defaultdict(list)
    for stmt, reach in reaches(program, grid, dict(integers)):
        for view, _ in views_of(stmt):
            argument = program.tensors[view.argument]
            if memory_of(argument) in written:
                touched[memory_of(argument)].append((view, reach))
    return all(_are_of_one_array(touches) and _are_partitioned(touches) for touches in touched.values())


def views_of(stmt: Stmt) -> Iterator[tuple[View, bool]]:
    """The boxes of arguments that a statement names, and whether it writes them."""
    if isinstance(stmt, LoadScalar):
        yield stmt.source, False
    if isinstance(stmt, Instr):
        access = access_of(stmt)
        for name, operand in named_operands(stmt).items():
            if isinstance(operand, View):
                yield operand, access[name] != "read"


def memory_of(argument: Argument) -> str:
    """The memory that an argument lies in, by the name of an argument."""
    return argument.memory or argument.array


def _are_of_one_array(touches: Sequence[Touch]) -> bool:
    return len({view.argument for view, _ in touches}) == 1


def _are_partitioned(touches: Sequence[Touch]) -> bool:
    """Whether every block has a box of its own; its elements lie apart, or writing it is refused."""
    known = [each for each in (_block_access(*touch) for touch in touches) if each is not None]
    if len(known) == len(touches):
        return _are_boxes_apart(known)
    return any(_are_evenly_apart(touches, dim) for dim in range(len(touches[0][0].starts)))


def _are_evenly_apart(touches: Sequence[Touch], dim: int) -> bool:
    """Whether blocks have ranges of their own in a dim, a constant distance from each other."""
    distance = affine(touches[0][0].starts[dim]).get(BLOCK_IDX, 0)
    lows: list[float] = []
    highs: list[float] = []
    for view, reach in touches:
        start = subtract(view.starts[dim], apply("mul", distance, BLOCK_IDX))
        lows.append(reach.lowest(start))
        highs.append(reach.highest(apply("add", start, view.sizes[dim])))
    return max(highs) - min(lows) <= distance


def _block_access(view: View, reach: Reach) -> BlockAccess | None:
    lows = [reach.least(start) for start in view.starts]
    highs = [reach.most(apply("add", start, size)) for start, size in zip(view.starts, view.sizes, strict=True)]
    if reach.possible is None or any(found is None for found in (*lows, *highs)):
        return None
    boxes = (np.stack([each for each in found if each is not None], axis=1) for found in (lows, highs))
    return BlockAccess(reach.possible[BLOCK_IDX], *boxes)


def _are_boxes_apart(known: Sequence[BlockAccess]) -> bool:
    """Whether no boxes of two blocks meet: those that meet in one dim must not do so in the next."""
    lows, highs = (np.concatenate(each) for each in zip(*((touch.lows, touch.highs) for touch in known), strict=True))
    named = (highs > lows).all(axis=1)
    blocks, lows, highs = np.concatenate([touch.blocks for touch in known])[named], lows[named], highs[named]
    groups = np.zeros(len(blocks), np.int64)
    for low, high in zip(lows.T, highs.T, strict=True):
        extent = int(high.max(initial=0)) - int(low.min(initial=0))
        if extent * len(groups) >= SAFE:
            return False
        groups = _grouped(low + groups * extent, high + groups * extent)
    order = np.lexsort((blocks, groups))
    return not ((np.diff(groups[order]) == 0) & (np.diff(blocks[order]) != 0)).any()


def _grouped(lows: Array, highs: Array) -> Array:
    """Numbers for ranges: the same for those that meet, directly or through others."""
    order, groups = np.argsort(lows, kind="stable"), np.zeros(len(lows), np.int64)
    apart = lows[order][1:] >= np.maximum.accumulate(highs[order])[:-1]
    groups[order[1:]] = np.cumsum(apart)
    return groups


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


# --- Which programs can run a block again that was left in the middle: the memory that it reads is as it was


def written_memories(program: Program, block: Block) -> set[str]:
    """The memories that statements write."""
    return {memory_of(program.tensors[view.argument]) for s in walk(block) for view, out in views_of(s) if out}


def changed(program: Program, variants: Variants, besides: Collection[str] = ()) -> set[str]:
    """Memories that a program both reads and writes; those `besides` are written later."""
    read = {memory for stmt in walk(program.body) for memory in _read(program, stmt, variants)}
    return (read & written_memories(program, program.body)) - set(besides)


def _read(program: Program, stmt: Stmt, variants: Variants) -> set[str]:
    """Memories that a statement reads: also those that it combines with what is there."""
    found = {memory_of(program.tensors[view.argument]) for view, out in views_of(stmt) if not out}
    if isinstance(stmt, Instr):
        access, combines = access_of(stmt), _combines(stmt, variants)
        updated = [v for n, v in named_operands(stmt).items() if isinstance(v, View) and access[n] == "update"]
        found |= {memory_of(program.tensors[view.argument]) for view in updated if combines}
    return found


def _combines(instr: Instr, variants: Variants) -> bool:
    """Whether what is written depends on what is there; unknown without variants."""
    known = variants(instr)
    steps = [step for variant in known for step in variant.steps if isinstance(step, Move)]
    return not known or any(step.combine is not Combine.STORE for step in steps)


def is_changed_last(program: Program, memories: Collection[str]) -> bool:
    """Whether the last statement of a block that can be left is the only one that writes these memories."""
    *before, last = [stmt for stmt in program.body if not _cannot_be_left(stmt)] or [None]
    writes = any(not written_memories(program, (stmt,)).isdisjoint(memories) for stmt in before if stmt)
    return not memories or (isinstance(last, Instr) and not writes)


def _cannot_be_left(stmt: Stmt) -> bool:
    return only_orders(stmt) or (isinstance(stmt, TileDecl) and not stmt.addresses)
