"""Moves as machine code: loops over a region, with whole runs of elements copied at a time where layouts allow it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from ptokit.engine.llvm.address import WHOLE, MemoryView, ValueOf, coordinate, is_number, run_length
from ptokit.engine.llvm.emit import I8, I32, I64, IrBuilder, IrValue, size_of, vector
from ptokit.engine.llvm.numbers import bits_of, combined, lanes_at_once
from ptokit.engine.llvm.resolve import SENTINEL, IndexValues
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine, Fill, Index, IndexUnit, Move, Remap, Side

LINE = 64
"""Bytes of a cache line, and of the vectors that copies use."""
MOST_UNROLLED = 1024
"""Bytes that are copied without a loop."""
STREAMED = 4
"""Lines that are written past the caches without a loop."""
AHEAD = ((16, 24, 1), (64, 24, 2), (128, 16, 3), (256, 6, 5), (512, 5, 5), (1024, 3, 12), (2048, 3, 12))
"""Prefetch distance: for rows of at most this many bytes, how many rows ahead, and how many lines of each."""
FURTHEST = (1, 8)
"""The same for rows longer than these."""
UNKNOWN = (8, 3)
"""And for rows whose length is known at run time only."""
ELEMENTS_AHEAD = 32


@dataclass(frozen=True)
class CodeWriter:
    """Where code is emitted, and how run-time numbers are computed in it."""

    code: IrBuilder
    value_of: ValueOf

    def length(self, count: Any, size: int) -> Any:
        """Bytes of `count` elements: a number, or a value."""
        return count * size if isinstance(count, int) else self.value_of(count) * size

    def stream(self, ends: Sequence[tuple[IrValue, IrValue]], nbytes: IrValue) -> None:
        """Copy bytes to places from others, line by line in turn; whole lines are written at once, past the caches.

        All places lie alike in their cache lines.
        """
        code, kind = self.code, vector(I64, LINE // 8)
        missed = (code.i64(0) - ends[0][0].to("ptrtoint", I64)) & (LINE - 1)
        head = code.select(missed.compare("ult", nbytes), missed, nbytes)
        lines = (nbytes - head) >> (LINE.bit_length() - 1)
        tail = head + lines * LINE
        for dst, src in ends:
            self._copy_few(dst, src, head)
        for k, step in code.strips(lines, STREAMED):
            for at in [head + (k + line) * LINE for line in range(step)]:
                for dst, src in ends:
                    code.store(code.load(kind, code.at(src, at), 1), code.at(dst, at), LINE, ", !nontemporal !1")
        for dst, src in ends:
            self._copy_few(code.at(dst, tail), code.at(src, tail), nbytes - tail)

    def _copy_few(self, dst: IrValue, src: IrValue, nbytes: IrValue) -> None:
        """Copy less than a line: a piece for each bit of the number of bytes."""
        code = self.code
        with code.when(nbytes.compare("ne", 0)):
            for size in (1, 2, 4, 8, 16, 32):
                with code.when((nbytes & size).compare("ne", 0)):
                    at = nbytes & (size - 1)
                    code.store(code.load(vector(I8, size), code.at(src, at), 1), code.at(dst, at), 1)

    def copy(self, dst: IrValue, src: IrValue, nbytes: int | IrValue, coming: Sequence[Prefetch] = ()) -> None:
        """Copy bytes, with prefetches between the steps."""
        code = self.code
        if isinstance(nbytes, IrValue):
            code.call("void", "llvm.memmove.p0.p0.i64", dst, src, nbytes, "i1 false")
            return
        first = nbytes % MOST_UNROLLED or min(nbytes, MOST_UNROLLED)
        self._copy_pieces(dst, src, first, coming)
        if first < nbytes:  # the C library's own copy is slow where bytes come from far away
            with code.loop(first, nbytes, MOST_UNROLLED) as at:
                self._copy_pieces(code.at(dst, at), code.at(src, at), MOST_UNROLLED)

    def _copy_pieces(self, dst: IrValue, src: IrValue, nbytes: int, coming: Sequence[Prefetch] = ()) -> None:
        code = self.code
        for at, size in pieces(nbytes):
            for row in coming:
                row.fetch_next()
            code.store(code.load(vector(I8, size), code.at(src, at), 1), code.at(dst, at), 1)
        for row in coming:
            row.fetch_rest()

    def fill(self, dst: IrValue, bits: IrValue, count: Any) -> None:
        """The same element again and again."""
        code, size = self.code, int(bits.type[1:]) // 8
        if bits.number == 0 or size == 1:
            code.fill_bytes(dst, 0 if bits.number == 0 else bits, self.value_of(count) * size)
            return
        with code.loop(0, self.value_of(count)) as k:
            code.store(bits, code.at(dst, k * size))


class Prefetch:
    """A row that is needed soon. Its lines are prefetched one by one between other steps: all at once they would delay
    loads that are in flight."""

    def __init__(self, writer: CodeWriter, address: IrValue, lines: int, *, to_write: bool = False) -> None:
        self.writer, self.address, self.to_write = writer, address, to_write
        self._left = list(range(0, lines * LINE, LINE))

    def fetch_next(self) -> None:
        """Fetch the next line, if one is left."""
        if self._left:
            self.fetch(self._left.pop(0))

    def fetch_rest(self) -> None:
        """Fetch all lines that are left."""
        while self._left:
            self.fetch_next()

    def fetch(self, at: int | IrValue) -> None:
        """Fetch the line that is `at` bytes into the row."""
        self.writer.code.prefetch(self.writer.code.at(self.address, at), to_write=self.to_write)


def pieces(nbytes: int) -> list[tuple[int, int]]:
    """Where pieces of a run begin and how long they are: lines first, then powers of two."""
    found: list[tuple[int, int]] = []
    at, size = 0, LINE
    while at < nbytes:
        while size > nbytes - at:
            size //= 2
        found.append((at, size))
        at += size
    return found


def ahead(nbytes: int | IrValue) -> tuple[int, int]:
    """How many rows ahead to fetch rows of this size, and how many lines of each."""
    if isinstance(nbytes, IrValue) or not nbytes:
        return UNKNOWN
    return next(((rows, lines) for most, rows, lines in AHEAD if nbytes <= most), FURTHEST)


def common_run(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """How many neighbours lie side by side at both regions."""
    first, second = run_length(a), run_length(b)
    return gcd(first, second) if WHOLE not in (first, second) else min(first, second)


@dataclass(frozen=True)
class MoveTask:
    """A move between two regions that lie apart; its index, if any, was checked."""

    writer: CodeWriter
    move: Move
    dtype: DType
    dst: MemoryView
    source: MemoryView | None
    """None for a fill."""
    lanes: IrValue | None = None
    """Where the resolved lanes of the index are."""
    lane: str = I32
    """The type of a lane."""
    values: IndexValues | None = None
    """The values of the index, instead of lanes, on a chip with lanes of its own."""

    @property
    def code(self) -> IrBuilder:
        return self.writer.code

    @property
    def src(self) -> MemoryView:
        assert self.source is not None
        return self.source

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
    def extents(self) -> tuple[IrValue, IrValue]:
        """Rows and columns."""
        rows, cols = map(self.writer.value_of, self.move.shape)
        return rows, cols

    def row(self, place: MemoryView, i: IrValue) -> IrValue:
        """Where a row of a region begins."""
        return place.row(self.code, i, self.writer.value_of)

    def col(self, place: MemoryView, row: IrValue, j: IrValue) -> IrValue:
        """Where a column of a row lies."""
        return place.col(self.code, row, j, self.writer.value_of)

    def cell(self, place: MemoryView, i: IrValue, j: IrValue) -> IrValue:
        """Where an element of a region lies."""
        return self.col(place, self.row(place, i), j)

    def named(self, indexed: MemoryView, lane: IrValue, j: IrValue) -> IrValue:
        """Where the element lies that a lane names."""
        value, value_of = lane.to("zext", I64), self.writer.value_of
        if self.index.unit is IndexUnit.ROW:
            return self.cell(indexed, value, j)
        if is_number(self.index.width, 0):
            return self.code.at(
                indexed.base, coordinate(self.code, indexed.layout.cols, value, value_of) * indexed.size
            )
        width = value_of(self.index.width)
        return self.cell(indexed, value.op("udiv", width), value.op("urem", width))


class ThreadMove(MoveTask):
    """A move that one thread writes."""

    def write(self) -> None:
        """Write the move."""
        move = self.move
        if isinstance(move.src, Fill):
            bits = self.code.constant(bits_of(self.dtype), move.src.bits)
            with self.code.loop_from_zero(self.extents[0]) as i:
                self._fill_row(i, bits)
        elif move.index is None:
            self._copy()
        elif move.index.by_row:
            self._move_indexed_rows()
        else:
            self._move_indexed_elements()

    def _fill_row(self, i: IrValue, bits: IrValue) -> None:
        """The same element in all columns of a row."""
        head = self.row(self.dst, i)
        if run_length(self.dst.layout.cols) == WHOLE:
            self.writer.fill(head, bits, self.move.cols)
            return
        with self.code.loop_from_zero(self.extents[1]) as j:
            self.code.store(bits, self.col(self.dst, head, j))

    def _copy(self) -> None:
        dst, src, (rows, cols) = self.dst, self.src, self.move.shape
        if common_run(dst.layout.rows, src.layout.rows) > common_run(dst.layout.cols, src.layout.cols):
            # rows lie side by side, columns do not: walk the other way
            turned = replace(self.move, shape=(cols, rows))
            replace(self, move=turned, dst=dst.transposed, source=src.transposed)._copy_rows()
        else:
            self._copy_rows()

    def _copy_rows(self) -> None:
        dst, src = self.dst, self.src
        cols: Any = self.move.cols
        is_one_run = isinstance(cols, int) and all(place.layout.strides == (cols, 1) for place in (dst, src))
        if self.move.combine is Combine.STORE and is_one_run:
            self.writer.copy(dst.base, src.base, self.extents[0] * (cols * self.dtype.size))
            return
        with self.code.loop_from_zero(self.extents[0]) as i:
            self._move_row(self.row(dst, i), self.row(src, i))

    def _move_row(self, into: IrValue, out: IrValue) -> None:
        """Columns of one row, in runs as long as both layouts allow."""
        run = common_run(self.dst.layout.cols, self.src.layout.cols)
        if run == WHOLE:
            self._move_run(into, out, self.move.cols)
            return
        code, count = self.code, self.extents[1]
        whole = count - count.op("urem", run) if run > 1 else code.i64(0)
        if run > 1:
            with code.loop(0, whole, run) as j:
                self._move_run(self.col(self.dst, into, j), self.col(self.src, out, j), run)
        with code.loop(whole, count) as j:
            self._combine(self.col(self.dst, into, j), self.col(self.src, out, j), 1)

    def _move_run(self, dst: IrValue, src: IrValue, count: Any) -> None:
        """Elements that lie side by side at both regions."""
        size = self.dtype.size
        if self.move.combine is Combine.STORE:
            self.writer.copy(dst, src, self.writer.length(count, size))
            return
        code, wide, total = self.code, lanes_at_once(self.dtype), self.writer.value_of(count)
        whole = total - total.op("urem", wide)
        for start, stop, step in ((code.i64(0), whole, wide), (whole, total, 1)):
            if step == 1 and isinstance(count, int) and count % wide == 0 and wide > 1:
                return
            with code.loop(start, stop, step) as k:
                self._combine(code.at(dst, k * size), code.at(src, k * size), step)

    def _combine(self, dst: IrValue, src: IrValue, count: int) -> None:
        """Elements side by side, combined into their cells."""
        code, kind, size = self.code, bits_of(self.dtype, count), self.dtype.size
        new = code.load(kind, src, size)
        if self.move.combine is not Combine.STORE:
            new = combined(code, self.move.combine, self.dtype, code.load(kind, dst, size), new)
        code.store(new, dst, size)

    # --- with an index

    @property
    def _ends(self) -> tuple[MemoryView, MemoryView]:
        """The end that the index addresses, and the other one."""
        return (self.src, self.dst) if self.is_gather else (self.dst, self.src)

    def _pair(self, there: IrValue, here: IrValue) -> tuple[IrValue, IrValue]:
        """Destination and source, of an address of each end."""
        return (here, there) if self.is_gather else (there, here)

    def _lane_at(self, at: IrValue) -> IrValue:
        """A resolved lane; the sentinel stays recognisable."""
        assert self.lanes is not None
        return self.code.load(self.lane, self.code.at(self.lanes, at * size_of(self.lane)))

    def _move_indexed_rows(self) -> None:
        """One index for each row: whole rows are scattered or gathered."""
        code, remap, (indexed, fixed) = self.code, self.index.remap, self._ends
        with code.loop(0, self.extents[0]) as i:
            if indexed.far:  # so that prefetching pays
                rows, lines = ahead(self.writer.length(self.move.cols, self.dtype.size))
                coming = self.row(indexed, self._lane_at(i + rows).to("zext", I64))
                for line in range(lines):
                    code.prefetch(code.at(coming, line * LINE), to_write=not self.is_gather)
            lane = self._lane_at(i)

            def move_row(lane: IrValue = lane, i: IrValue = i) -> None:
                there = self.row(indexed, lane.to("zext", I64))
                self._move_row(*self._pair(there, self.row(fixed, i)))

            def clear_row(i: IrValue = i) -> None:
                if remap is Remap.ZERO:
                    self._fill_row(i, code.constant(bits_of(self.dtype), 0))

            if remap in (Remap.ZERO, Remap.SKIP):
                code.choose(lane.compare("eq", SENTINEL), clear_row, move_row)
            else:
                move_row()

    def _move_indexed_elements(self) -> None:
        """One index for each element."""
        code, (rows, cols), (_, fixed) = self.code, self.extents, self._ends
        with code.loop(0, rows) as i:
            row, first = self.row(fixed, i), i * cols
            with code.loop(0, cols) as j:
                self._move_indexed_element(self.col(fixed, row, j), first + j, j)

    def _move_indexed_element(self, here: IrValue, at: IrValue, j: IrValue) -> None:
        code, size, remap, (indexed, _) = self.code, self.dtype.size, self.index.remap, self._ends
        if indexed.far:
            coming = self.named(indexed, self._lane_at(at + ELEMENTS_AHEAD), j)
            code.prefetch(coming, to_write=not self.is_gather)
        lane = self._lane_at(at)
        if self.is_gather and remap is Remap.ZERO:
            outside = lane.compare("eq", SENTINEL)
            there = self.named(indexed, code.select(outside, code.constant(lane.type, 0), lane), j)
            found = code.load(bits_of(self.dtype), there, size)
            code.store(code.select(outside, code.constant(found.type, 0), found), here, size)
            return

        with code.when(lane.compare("ne", SENTINEL)) if remap is Remap.SKIP else nullcontext():
            self._combine(*self._pair(self.named(indexed, lane, j), here), 1)
