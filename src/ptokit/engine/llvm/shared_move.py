"""Moves that several lanes of a block share: each takes pieces of rows, or elements.

Lanes that name the same cell take effect in their order: of a scatter, each cell belongs to one lane of the chip, which
takes all that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ptokit.engine.llvm.address import WHOLE, MemoryView, is_number
from ptokit.engine.llvm.arrival import PIECE, begin_copy
from ptokit.engine.llvm.emit import I32, I64, STREAMING, IrValue
from ptokit.engine.llvm.move import CodeWriter, MoveRegions, address_of, common_run
from ptokit.engine.llvm.numbers import bits_of, combined, is_byte_float
from ptokit.engine.llvm.resolve import SENTINEL, IndexValues
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine, Fill, Index, Move, Remap, Side

MOST_OWN = 16
"""Pieces that a lane of the chip copies without a loop."""


def emit_shared_move(writer: CodeWriter, move: Move, dtype: DType, regions: MoveRegions) -> None:
    """Write a move whose ends lie apart; its index, if any, was resolved."""
    if isinstance(move.src, Fill):
        _fill(writer, move, dtype, regions.dst, move.src)
        return
    assert regions.src is not None
    by_row = move.index is None or move.index.by_row
    task = SharedMove(writer, move, dtype, regions)
    if not by_row:
        (_gather_elements if task.is_gather else _scatter_elements)(task)
        return
    (_rows if task.is_gather else _scatter_rows)(task)


def _fill(writer: CodeWriter, move: Move, dtype: DType, dst: MemoryView, fill: Fill) -> None:
    code, value_of = writer.code, writer.value_of
    bits, (rows, cols) = code.constant(bits_of(dtype), fill.bits), map(value_of, move.shape)
    with code.region(rows, cols) as (i, across), across(0, cols) as j:
        code.store(bits, dst.col(code, dst.row(code, i, value_of), j, value_of))


@dataclass(frozen=True)
class SharedMove:
    """A move between two regions."""

    writer: CodeWriter
    move: Move
    dtype: DType
    regions: MoveRegions

    @property
    def index(self) -> Index:
        """What the index does, if the move has one."""
        assert self.move.index is not None
        return self.move.index

    @property
    def is_gather(self) -> bool:
        """Whether no two lanes write one cell."""
        return self.move.index is None or self.move.index.side is Side.SRC

    @property
    def ends(self) -> tuple[MemoryView, MemoryView]:
        """The destination and the source."""
        assert self.regions.src is not None
        return self.regions.dst, self.regions.src

    def lane(self, i: IrValue, j: IrValue | None = None) -> IrValue:
        """A resolved index."""
        assert self.regions.values is not None
        return self.regions.values.resolved(i, j or self.writer.code.i64(0))

    def is_outside(self, lane: IrValue | None) -> IrValue | None:
        """Whether an index leads nowhere; None where it always leads somewhere, and without an index."""
        may_be = lane is not None and self.index.remap in (Remap.ZERO, Remap.SKIP)
        return lane.compare("eq", SENTINEL) if lane is not None and may_be else None

    def inside(self, lane: IrValue) -> IrValue:
        """The index, or the first row for one that leads nowhere."""
        outside = self.is_outside(lane)
        found = lane if outside is None else self.writer.code.select(outside, zero_of(lane), lane)
        return found.to("zext", I64)

    def begins(self, wide: int) -> bool:
        """Whether copies of so many elements are only begun: into a tile of a pipelined loop."""
        return bool(self.regions.dst.swizzle) and wide * self.dtype.size == PIECE

    def length(self, lane: IrValue | None) -> IrValue:
        """Bytes of a piece; none if its index leads nowhere."""
        code, outside = self.writer.code, self.is_outside(lane)
        whole = code.constant(I32, PIECE)
        return whole if outside is None else code.select(outside, code.constant(I32, 0), whole)

    def read(self, lane: IrValue | None, at: IrValue, wide: int) -> MovedElements:
        """Elements that an index names; zeroes, or none, if it leads nowhere."""
        code, outside = self.writer.code, self.is_outside(lane)
        value = self.load(at, wide)
        if outside is None:
            return MovedElements(value)
        if self.index.remap is Remap.ZERO:
            return MovedElements(code.select(outside, zero_of(value), value))
        return MovedElements(value, outside ^ 1)

    def load(self, at: IrValue, wide: int) -> IrValue:
        """Elements side by side."""
        return self.writer.code.load(bits_of(self.dtype, wide), at, wide * self.dtype.size)

    def put(self, piece: MovedElements, at: IrValue, wide: int) -> None:
        """Combine elements into their cells."""
        code, combine, value, align = self.writer.code, self.move.combine, piece.value, wide * self.dtype.size
        is_stored = combine is Combine.STORE
        with code.when(piece.held) if piece.held is not None else nullcontext():
            if not is_stored:
                value = combined(code, combine, self.dtype, code.load(value.type, at, align), value)
            code.store(value, at, align, STREAMING if self.regions.dst.far and is_stored else "")


@dataclass(frozen=True)
class MovedElements:
    """Elements, and the condition under which they are stored."""

    value: IrValue
    held: IrValue | None = None


def zero_of(like_this: IrValue) -> IrValue:
    """Zero of the same type."""
    return like_this.code.constant(like_this.type, 0)


# --- Rows in pieces ---------------------------------------------------------------------------------------------


def _pieces(task: SharedMove, write: Callable[[int, int], None]) -> None:
    """Write a move with pieces of so many elements, several of them at a time: as long as a lane takes, if all of them
    are aligned. The other case is rare, so its code is short."""
    code, wide = task.writer.code, _elements_at_once(task)
    depth = code.chip.depth
    if wide == 1:
        write(1, depth)
        return
    odd = _may_be_odd(task, wide)
    code.choose((odd & (wide * task.dtype.size - 1)).compare("eq", 0), lambda: write(wide, depth), lambda: write(1, 1))


def _elements_at_once(task: SharedMove) -> int:
    """How many elements of a row both ends have side by side, at most as many as a lane takes."""
    dst, src = task.ends
    cols: Any = task.move.cols
    run = common_run(dst.layout.cols, src.layout.cols)
    if not isinstance(cols, int) or (task.move.combine is not Combine.STORE and is_byte_float(task.dtype)):
        return 1
    wide = max(1, task.writer.code.chip.piece // task.dtype.size)
    while wide > 1 and (cols % wide or (run != WHOLE and run % wide)):
        wide //= 2
    return wide


def _may_be_odd(task: SharedMove, wide: int) -> IrValue:
    """A number whose last bits are zero if all pieces are aligned."""
    writer, size = task.writer, task.dtype.size
    total = writer.code.i64(0)
    for end in task.ends:
        total = total | end.base.to("ptrtoint", I64)
        across = [t for t in end.layout.cols if not (is_number(t.stride, 1) and is_number(t.div, 1))]
        for term in (*end.layout.rows, *across):  # rows may overlap, one element apart
            total = total | _bytes(writer, term.stride, size, wide)
    return total


def _bytes(writer: CodeWriter, stride: Any, size: int, wide: int) -> IrValue:
    if isinstance(stride, int) and stride % wide == 0:
        return writer.code.i64(0)
    return writer.value_of(stride) * size


def _rows(task: SharedMove) -> None:
    """Rows that are copied or gathered: pieces of all of them, several under way in each lane."""
    _pieces(task, lambda wide, depth: _copy_pieces(task, wide, depth))


def _copy_pieces(task: SharedMove, wide: int, depth: int) -> None:
    code, value_of = task.writer.code, task.writer.value_of
    rows, cols = map(value_of, task.move.shape)
    across = code.i64(cols.number // wide) if cols.number is not None else cols
    own = _own(task.writer, task.move, task.dtype) if task.begins(wide) else []
    if own:
        _copy_some(task, wide, across, own, task.regions.values.known if task.regions.values else ())
        return
    total, round_ = rows * across, code.chip.lanes * depth
    assert code.lane is not None
    whole = total - (total.op("urem", round_) if total.number is None else total.number % round_)
    if depth > 1 and whole.number != 0:
        with code.loop(code.lane, whole, round_) as first:
            _copy_some(task, wide, across, [first + code.chip.lanes * step for step in range(depth)])
    if depth == 1 or whole.name != total.name:
        with code.share(whole if depth > 1 else 0, total) as k:
            _copy_some(task, wide, across, [k])


def _own(writer: CodeWriter, move: Move, dtype: DType) -> list[IrValue]:
    """The pieces that this lane of the chip copies, if they are few and all lanes have as many."""
    lane, lanes = writer.code.lane, writer.code.chip.lanes
    count, rest = divmod(move.rows * move.cols * dtype.size, PIECE * lanes)
    assert lane is not None
    return [lane + lanes * step for step in range(0 if rest or count > MOST_OWN else count)]


def known_lanes(writer: CodeWriter, move: Move, dtype: DType, values: IndexValues) -> list[IrValue]:
    """The indices of the pieces that this lane of the chip copies, if they are few and all lanes have as many."""
    across = move.cols * dtype.size // PIECE
    return [values.resolved(k.op("udiv", across), writer.code.i64(0)) for k in _own(writer, move, dtype)]


def _copy_some(
    task: SharedMove, wide: int, across: IrValue, which: Sequence[IrValue], known: Sequence[IrValue] = ()
) -> None:
    """Load some pieces, then store them; or begin to copy them, into a tile of a pipeline. Indices may be known."""
    begins = task.begins(wide)
    places = [(k.op("udiv", across), k.op("urem", across) * wide) for k in which]
    found = [_piece(task, *at, lane) for at, lane in zip(places, known or [None] * len(which), strict=True)]
    loaded = [] if begins else [task.read(lane, at, wide) for lane, at, _ in found]
    for piece, (*_, into) in zip(loaded, found, strict=False):
        task.put(piece, into, wide)
    for lane, at, into in found if begins else ():
        begin_copy(into, at, task.length(lane))


def _piece(task: SharedMove, i: IrValue, j: IrValue, lane: IrValue | None) -> tuple[IrValue | None, IrValue, IrValue]:
    """A piece: its index, where it is, and where it goes."""
    code, value_of, (dst, src) = task.writer.code, task.writer.value_of, task.ends
    into = dst.col(code, dst.row(code, i, value_of), j, value_of)
    lane = lane if lane is not None or task.move.index is None else task.lane(i)
    row = i if lane is None else task.inside(lane)
    return lane, src.col(code, src.row(code, row, value_of), j, value_of), into


def _scatter_rows(task: SharedMove) -> None:
    """Rows in their order: a lane takes the same piece of all rows that are its own."""
    _pieces(task, lambda wide, _: _scatter_pieces(task, wide))


def _scatter_pieces(task: SharedMove, wide: int) -> None:
    code, value_of, (dst, src) = task.writer.code, task.writer.value_of, task.ends
    rows, cols = map(value_of, task.move.shape)
    lanes = code.chip.lanes
    pieces = code.i64(cols.number // wide) if cols.number is not None else cols
    groups = max(1, lanes // pieces.number) if pieces.number else 1
    """Lanes that take the same piece, each of other rows."""
    assert code.lane is not None
    group, first, step = code.lane.op("urem", groups), code.lane.op("udiv", groups), lanes // groups
    with code.loop(first, pieces, step) as piece, code.loop(0, rows) as i:
        lane, j = task.lane(i), piece * wide
        own = task.inside(lane).op("urem", groups).compare("eq", group)
        at = src.col(code, src.row(code, i, value_of), j, value_of)
        into = dst.col(code, dst.row(code, task.inside(lane), value_of), j, value_of)
        _put_own(task, lane, own, at, into, wide)


def _put_own(task: SharedMove, lane: IrValue, own: IrValue, at: IrValue, into: IrValue, wide: int) -> None:
    """Store elements if they belong to this lane of the chip, and lead somewhere."""
    code, outside = task.writer.code, task.is_outside(lane)
    with code.when(own if outside is None else own & (outside ^ 1)):
        task.put(MovedElements(task.load(at, wide)), into, wide)


# --- Elements ---------------------------------------------------------------------------------------------------


def _gather_elements(task: SharedMove) -> None:
    code, value_of, (dst, src) = task.writer.code, task.writer.value_of, task.ends
    rows, cols = map(value_of, task.move.shape)
    with code.region(rows, cols) as (i, across), across(0, cols) as j:
        lane = task.lane(i, j)
        at = address_of(task.writer, task.index, src, task.inside(lane), j)
        task.put(task.read(lane, at, 1), dst.col(code, dst.row(code, i, value_of), j, value_of), 1)


def _scatter_elements(task: SharedMove) -> None:
    """Every lane of the chip looks at all elements, and takes those that name its cells."""
    code, value_of, (dst, src) = task.writer.code, task.writer.value_of, task.ends
    rows, cols = map(value_of, task.move.shape)
    with code.loop(0, rows) as i, code.loop(0, cols) as j:
        lane = task.lane(i, j)
        own = code.same_lane(task.inside(lane).op("urem", code.chip.lanes))
        at = src.col(code, src.row(code, i, value_of), j, value_of)
        _put_own(task, lane, own, at, address_of(task.writer, task.index, dst, task.inside(lane), j), 1)
