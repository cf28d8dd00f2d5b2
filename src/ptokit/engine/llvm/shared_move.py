"""Moves that several lanes of a block share: each takes pieces of rows, or elements.

Lanes that name the same cell take effect in their order: of a scatter, each cell belongs to one lane of the chip, which
takes all that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ptokit.engine.llvm.address import WHOLE, is_number
from ptokit.engine.llvm.emit import I32, I64, STREAMING, IrValue
from ptokit.engine.llvm.move import CodeWriter, MoveTask, common_run
from ptokit.engine.llvm.numbers import bits_of, combined, is_byte_float
from ptokit.engine.llvm.resolve import SENTINEL, IndexValues
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine, Fill, Move, Remap

PIECE = 16
"""Bytes of a copy that is begun, and waited for later."""
MOST_OWN = 16
"""Pieces that a lane of the chip copies without a loop."""
Elements = tuple[IrValue, IrValue | None]
"""Elements, and the condition under which they are stored; None if they are in any case."""


class SharedMove(MoveTask):
    """A move that the lanes of a chip share."""

    def write(self) -> None:
        """Write the move."""
        if isinstance(self.move.src, Fill):
            self._fill(self.move.src)
        elif self.move.index is None or self.move.index.by_row:
            self._write_pieces(self._copy_pieces if self.is_gather else self._scatter_pieces)
        elif self.is_gather:
            self._gather_elements()
        else:
            self._scatter_elements()

    def _fill(self, fill: Fill) -> None:
        bits, (rows, cols) = self.code.constant(bits_of(self.dtype), fill.bits), self.extents
        with self.code.region(rows, cols) as (i, across), across(0, cols) as j:
            self.code.store(bits, self.cell(self.dst, i, j))

    # --- indices

    def _lane_of(self, i: IrValue, j: IrValue | None = None) -> IrValue:
        """A resolved index."""
        assert self.values is not None
        return self.values.resolved(i, j or self.code.i64(0))

    def _is_outside(self, lane: IrValue | None) -> IrValue | None:
        """Whether an index leads nowhere; None where it always leads somewhere, and without an index."""
        if lane is None or self.index.remap not in (Remap.ZERO, Remap.SKIP):
            return None
        return lane.compare("eq", SENTINEL)

    def _inside(self, lane: IrValue) -> IrValue:
        """The index, or the first row for one that leads nowhere."""
        outside = self._is_outside(lane)
        found = lane if outside is None else self.code.select(outside, zero_of(lane), lane)
        return found.to("zext", I64)

    # --- elements side by side

    def _begins(self, wide: int) -> bool:
        """Whether copies of this length are only begun: into a tile of a pipelined loop."""
        return bool(self.dst.swizzle) and wide * self.dtype.size == PIECE

    def _length(self, lane: IrValue | None) -> IrValue:
        """Bytes of a piece; none if its index leads nowhere."""
        outside, whole = self._is_outside(lane), self.code.constant(I32, PIECE)
        return whole if outside is None else self.code.select(outside, self.code.constant(I32, 0), whole)

    def _read(self, lane: IrValue | None, at: IrValue, wide: int) -> Elements:
        """Elements that an index names; zeroes, or none, if it leads nowhere."""
        outside, value = self._is_outside(lane), self._load(at, wide)
        if outside is None:
            return value, None
        if self.index.remap is Remap.ZERO:
            return self.code.select(outside, zero_of(value), value), None
        return value, outside ^ 1

    def _load(self, at: IrValue, wide: int) -> IrValue:
        """Elements side by side."""
        return self.code.load(bits_of(self.dtype, wide), at, wide * self.dtype.size)

    def _put(self, elements: Elements, at: IrValue, wide: int) -> None:
        """Combine elements into their cells."""
        (value, held), combine, align = elements, self.move.combine, wide * self.dtype.size
        is_stored = combine is Combine.STORE
        with self.code.when(held) if held is not None else nullcontext():
            if not is_stored:
                value = combined(self.code, combine, self.dtype, self.code.load(value.type, at, align), value)
            self.code.store(value, at, align, STREAMING if self.dst.far and is_stored else "")

    def _put_own(self, lane: IrValue, own: IrValue, at: IrValue, into: IrValue, wide: int) -> None:
        """Store elements if they belong to this lane of the chip, and lead somewhere."""
        outside = self._is_outside(lane)
        with self.code.when(own if outside is None else own & (outside ^ 1)):
            self._put((self._load(at, wide), None), into, wide)

    # --- rows in pieces

    def _write_pieces(self, write: Callable[[int, int], None]) -> None:
        """Write a move with pieces of so many elements, several of them at a time: as long as a lane takes, if all of
        them are aligned. The other case is rare, so its code is short."""
        code, wide = self.code, self._elements_at_once()
        depth = code.chip.depth
        if wide == 1:
            write(1, depth)
            return
        is_even = (self._may_be_odd(wide) & (wide * self.dtype.size - 1)).compare("eq", 0)
        code.choose(is_even, lambda: write(wide, depth), lambda: write(1, 1))

    def _elements_at_once(self) -> int:
        """How many elements of a row both ends have side by side, at most as many as a lane takes."""
        cols: Any = self.move.cols
        run = common_run(self.dst.layout.cols, self.src.layout.cols)
        if not isinstance(cols, int) or (self.move.combine is not Combine.STORE and is_byte_float(self.dtype)):
            return 1
        wide = max(1, self.code.chip.piece // self.dtype.size)
        while wide > 1 and (cols % wide or (run != WHOLE and run % wide)):
            wide //= 2
        return wide

    def _may_be_odd(self, wide: int) -> IrValue:
        """A number whose last bits are zero if all pieces are aligned."""
        total = self.code.i64(0)
        for end in (self.dst, self.src):
            total = total | end.base.to("ptrtoint", I64)
            across = [t for t in end.layout.cols if not (is_number(t.stride, 1) and is_number(t.div, 1))]
            for term in (*end.layout.rows, *across):  # rows may overlap, one element apart
                stride: Any = term.stride
                is_even = isinstance(stride, int) and stride % wide == 0
                total = total | (self.code.i64(0) if is_even else self.writer.value_of(stride) * self.dtype.size)
        return total

    def _copy_pieces(self, wide: int, depth: int) -> None:
        """Rows that are copied or gathered: pieces of all of them, several under way in each lane."""
        code, (rows, cols) = self.code, self.extents
        across = code.i64(cols.number // wide) if cols.number is not None else cols
        own = _own(self.writer, self.move, self.dtype) if self._begins(wide) else []
        if own:
            self._copy_some(wide, across, own, self.values.known if self.values else ())
            return
        total, round_ = rows * across, code.chip.lanes * depth
        whole = total - (total.op("urem", round_) if total.number is None else total.number % round_)
        if depth > 1 and whole.number != 0:
            with code.loop(code.lane, whole, round_) as first:
                self._copy_some(wide, across, [first + code.chip.lanes * step for step in range(depth)])
        if depth == 1 or whole.name != total.name:
            with code.share(whole if depth > 1 else 0, total) as k:
                self._copy_some(wide, across, [k])

    def _copy_some(self, wide: int, across: IrValue, which: Sequence[IrValue], known: Sequence[IrValue] = ()) -> None:
        """Load some pieces, then store them; or begin to copy them, into a tile of a pipeline. Indices may be known."""
        begins = self._begins(wide)
        places = [(k.op("udiv", across), k.op("urem", across) * wide) for k in which]
        found = [self._piece(*at, lane) for at, lane in zip(places, known or [None] * len(which), strict=True)]
        loaded = [] if begins else [self._read(lane, at, wide) for lane, at, _ in found]
        for piece, (*_, into) in zip(loaded, found, strict=False):
            self._put(piece, into, wide)
        for lane, at, into in found if begins else ():
            begin_copy(into, at, self._length(lane))

    def _piece(self, i: IrValue, j: IrValue, lane: IrValue | None) -> tuple[IrValue | None, IrValue, IrValue]:
        """A piece: its index, where it is, and where it goes."""
        into = self.cell(self.dst, i, j)
        lane = lane if lane is not None or self.move.index is None else self._lane_of(i)
        return lane, self.cell(self.src, i if lane is None else self._inside(lane), j), into

    def _scatter_pieces(self, wide: int, _depth: int) -> None:
        """Rows in their order: a lane takes the same piece of all rows that are its own."""
        code, (rows, cols), lanes = self.code, self.extents, self.code.chip.lanes
        pieces = code.i64(cols.number // wide) if cols.number is not None else cols
        groups = max(1, lanes // pieces.number) if pieces.number else 1
        """Lanes that take the same piece, each of other rows."""
        group, first, step = code.lane.op("urem", groups), code.lane.op("udiv", groups), lanes // groups
        with code.loop(first, pieces, step) as piece, code.loop(0, rows) as i:
            lane, j = self._lane_of(i), piece * wide
            own = self._inside(lane).op("urem", groups).compare("eq", group)
            at = self.cell(self.src, i, j)
            self._put_own(lane, own, at, self.cell(self.dst, self._inside(lane), j), wide)

    # --- elements

    def _gather_elements(self) -> None:
        rows, cols = self.extents
        with self.code.region(rows, cols) as (i, across), across(0, cols) as j:
            lane = self._lane_of(i, j)
            at = self.named(self.src, self._inside(lane), j)
            self._put(self._read(lane, at, 1), self.cell(self.dst, i, j), 1)

    def _scatter_elements(self) -> None:
        """Every lane of the chip looks at all elements, and takes those that name its cells."""
        code, (rows, cols) = self.code, self.extents
        with code.loop(0, rows) as i, code.loop(0, cols) as j:
            lane = self._lane_of(i, j)
            own = code.same_lane(self._inside(lane).op("urem", code.chip.lanes))
            at = self.cell(self.src, i, j)
            self._put_own(lane, own, at, self.named(self.dst, self._inside(lane), j), 1)


def begin_copy(into: IrValue, at: IrValue, nbytes: IrValue) -> None:
    """Begin to copy a number of bytes into shared memory, then zeroes; both ends are aligned."""
    code = into.code
    ends = code.in_space(into, 3), code.in_space(at, 1)
    size = "" if nbytes.number == PIECE else ", $2"
    text = f"cp.async.cg.shared.global [$0], [$1], {PIECE}{size};"
    code.ptx("void", "begin_copy", text, "l,l,r,~{memory}", *ends, nbytes)


def zero_of(like_this: IrValue) -> IrValue:
    """Zero of the same type."""
    return like_this.code.constant(like_this.type, 0)


def _own(writer: CodeWriter, move: Move, dtype: DType) -> list[IrValue]:
    """The pieces that this lane of the chip copies, if they are few and all lanes have as many."""
    lane, lanes = writer.code.lane, writer.code.chip.lanes
    count, rest = divmod(move.rows * move.cols * dtype.size, PIECE * lanes)
    return [lane + lanes * step for step in range(0 if rest or count > MOST_OWN else count)]


def known_lanes(writer: CodeWriter, move: Move, dtype: DType, values: IndexValues) -> list[IrValue]:
    """The indices of the pieces that this lane of the chip copies, if they are few and all lanes have as many."""
    across = move.cols * dtype.size // PIECE
    return [values.resolved(k.op("udiv", across), writer.code.i64(0)) for k in _own(writer, move, dtype)]
