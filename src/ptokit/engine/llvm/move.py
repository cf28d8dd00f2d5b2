"""Moves as machine code: loops over a region, with whole runs of elements copied at a time where layouts allow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
            name = code.module.declare("llvm.memmove.p0.p0.i64", "void (ptr, ptr, i64, i1)")
            code.call("void", name, dst, src, nbytes, "i1 false")
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

    def prefetch(self, address: IrValue, *, to_write: bool = False) -> None:
        """Fetch a line that will be needed soon."""
        name = self.code.module.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
        self.code.call("void", name, address, f"i32 {int(to_write)}", "i32 2", "i32 1")


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
        self.writer.prefetch(self.writer.code.at(self.address, at), to_write=self.to_write)


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


@dataclass(frozen=True)
class MoveRegions:
    """The two regions of a move, and the lanes of its index if it has one."""

    dst: MemoryView
    src: MemoryView | None
    lanes: IrValue | None = None
    lane: str = I32
    """The type of a lane."""
    values: IndexValues | None = None
    """The values of the index, instead of lanes, on a chip with lanes of its own."""


def emit_move(writer: CodeWriter, move: Move, dtype: DType, regions: MoveRegions) -> None:
    """Write a move whose ends lie apart; its index, if any, was resolved."""
    if isinstance(move.src, Fill):
        _fill(writer, move, dtype, regions.dst, move.src)
    elif move.index is None:
        _copy(writer, move, dtype, regions)
    elif move.index.by_row:
        _indexed_rows(writer, move, move.index, dtype, regions)
    else:
        _indexed_elements(writer, move, move.index, dtype, regions)


def _fill(writer: CodeWriter, move: Move, dtype: DType, dst: MemoryView, fill: Fill) -> None:
    bits = writer.code.constant(bits_of(dtype), fill.bits)
    if run_length(dst.layout.cols) == WHOLE:
        with writer.code.each(writer.value_of(move.rows)) as i:
            writer.fill(dst.row(writer.code, i, writer.value_of), bits, move.cols)
    else:
        _each(writer, move.shape, lambda i, j: writer.code.store(bits, _cell(writer, dst, i, j)))


def _cell(writer: CodeWriter, place: MemoryView, i: IrValue, j: IrValue) -> IrValue:
    return place.col(writer.code, place.row(writer.code, i, writer.value_of), j, writer.value_of)


def _each(writer: CodeWriter, shape: tuple[Any, Any], write: Callable[[IrValue, IrValue], None]) -> None:
    with writer.code.each(writer.value_of(shape[0])) as i, writer.code.each(writer.value_of(shape[1])) as j:
        write(i, j)


def _copy(writer: CodeWriter, move: Move, dtype: DType, regions: MoveRegions) -> None:
    dst, src, shape = regions.dst, regions.src, move.shape
    assert src is not None
    by_column = common_run(dst.layout.rows, src.layout.rows) > common_run(dst.layout.cols, src.layout.cols)
    if by_column:  # rows lie side by side, columns do not: walk the other way
        dst, src, shape = dst.transposed, src.transposed, (shape[1], shape[0])
    if move.combine is Combine.STORE and _is_one_run(dst, src, shape[1]):
        writer.copy(dst.base, src.base, writer.value_of(shape[0]) * (shape[1] * dtype.size))
        return
    with writer.code.each(writer.value_of(shape[0])) as i:
        row_starts = dst.row(writer.code, i, writer.value_of), src.row(writer.code, i, writer.value_of)
        _move_row(writer, move.combine, dtype, dst, src, row_starts, shape[1])


def _is_one_run(dst: MemoryView, src: MemoryView, cols: Any) -> bool:
    """Whether row after row lies side by side at both ends, so that the whole region is one row."""
    return isinstance(cols, int) and all(place.layout.strides == (cols, 1) for place in (dst, src))


def common_run(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """How many neighbours lie side by side at both regions."""
    first, second = run_length(a), run_length(b)
    return gcd(first, second) if WHOLE not in (first, second) else min(first, second)


def _move_row(
    writer: CodeWriter,
    combine: Combine,
    dtype: DType,
    dst: MemoryView,
    src: MemoryView,
    row_starts: tuple[IrValue, IrValue],
    cols: Any,
) -> None:
    """Columns of one row, in runs as long as both layouts allow."""
    run = common_run(dst.layout.cols, src.layout.cols)
    if run == WHOLE:
        _run(writer, combine, dtype, *row_starts, cols)
        return
    code, count = writer.code, writer.value_of(cols)
    whole = count - count.op("urem", run) if run > 1 else code.i64(0)
    if run > 1:
        with code.loop(0, whole, run) as j:
            into, out = (
                dst.col(code, row_starts[0], j, writer.value_of),
                src.col(code, row_starts[1], j, writer.value_of),
            )
            _run(writer, combine, dtype, into, out, run)
    with code.loop(whole, count) as j:
        into, out = dst.col(code, row_starts[0], j, writer.value_of), src.col(code, row_starts[1], j, writer.value_of)
        _combine_elements(writer, combine, dtype, into, out, 1)


def _run(writer: CodeWriter, combine: Combine, dtype: DType, dst: IrValue, src: IrValue, count: Any) -> None:
    """Elements that lie side by side at both regions."""
    if combine is Combine.STORE:
        writer.copy(dst, src, writer.length(count, dtype.size))
        return
    code, wide = writer.code, lanes_at_once(dtype)
    total = writer.value_of(count)
    whole = total - total.op("urem", wide)
    for start, stop, step in ((code.i64(0), whole, wide), (whole, total, 1)):
        if step == 1 and isinstance(count, int) and count % wide == 0 and wide > 1:
            return
        with code.loop(start, stop, step) as k:
            _combine_elements(writer, combine, dtype, code.at(dst, k * dtype.size), code.at(src, k * dtype.size), step)


def _combine_elements(
    writer: CodeWriter, combine: Combine, dtype: DType, dst: IrValue, src: IrValue, count: int
) -> None:
    code, kind = writer.code, bits_of(dtype, count)
    new = code.load(kind, src, dtype.size)
    if combine is not Combine.STORE:
        new = combined(code, combine, dtype, code.load(kind, dst, dtype.size), new)
    code.store(new, dst, dtype.size)


def _lane(writer: CodeWriter, regions: MoveRegions, at: IrValue) -> IrValue:
    """A resolved lane, as a 64-bit number; the sentinel stays recognisable."""
    assert regions.lanes is not None
    return writer.code.load(regions.lane, writer.code.at(regions.lanes, at * size_of(regions.lane)))


def _indexed_rows(writer: CodeWriter, move: Move, index: Index, dtype: DType, regions: MoveRegions) -> None:
    """One index for each row: whole rows are scattered or gathered."""
    code, value_of = writer.code, writer.value_of
    dst, src = regions.dst, regions.src
    assert src is not None
    indexed, fixed = (src, dst) if index.side is Side.SRC else (dst, src)
    nbytes = writer.length(move.cols, dtype.size)
    with code.loop(0, value_of(move.rows)) as i:
        if indexed.far:  # so that prefetching pays
            _fetch_row(writer, regions, indexed, i + ahead(nbytes)[0], nbytes, to_write=indexed is dst)
        lane = _lane(writer, regions, i)

        def move_row(lane: IrValue = lane, i: IrValue = i) -> None:
            there = indexed.row(code, lane.to("zext", I64), value_of)
            here = fixed.row(code, i, value_of)
            row_starts = (here, there) if index.side is Side.SRC else (there, here)
            _move_row(writer, move.combine, dtype, dst, src, row_starts, move.cols)

        def clear_row(i: IrValue = i) -> None:
            if index.remap is Remap.ZERO:
                _zero_row(writer, dst, i, move.cols)

        if index.remap in (Remap.ZERO, Remap.SKIP):
            code.choose(lane.compare("eq", SENTINEL), clear_row, move_row)
        else:
            move_row()


def _zero_row(writer: CodeWriter, dst: MemoryView, i: IrValue, cols: Any) -> None:
    code = writer.code
    zero = code.constant(f"i{8 * dst.size}", 0)
    head = dst.row(code, i, writer.value_of)
    if run_length(dst.layout.cols) == WHOLE:
        writer.fill(head, zero, cols)
        return
    with code.loop(0, writer.value_of(cols)) as j:
        code.store(zero, dst.col(code, head, j, writer.value_of))


def _fetch_row(
    writer: CodeWriter, regions: MoveRegions, indexed: MemoryView, i: IrValue, nbytes: int | IrValue, *, to_write: bool
) -> None:
    lane = _lane(writer, regions, i).to("zext", I64)
    head = indexed.row(writer.code, lane, writer.value_of)
    for line in range(ahead(nbytes)[1]):
        writer.prefetch(writer.code.at(head, line * LINE), to_write=to_write)


def _indexed_elements(writer: CodeWriter, move: Move, index: Index, dtype: DType, regions: MoveRegions) -> None:
    """One index for each element."""
    code, value_of = writer.code, writer.value_of
    cols = value_of(move.cols)
    with code.loop(0, value_of(move.rows)) as i:
        row_starts = {
            side: p.row(code, i, value_of) for side, p in ((Side.DST, regions.dst), (Side.SRC, regions.src)) if p
        }
        first = i * cols
        with code.loop(0, cols) as j:
            _indexed_element(writer, move, index, dtype, regions, row_starts, first + j, j)


def _indexed_element(
    writer: CodeWriter,
    move: Move,
    index: Index,
    dtype: DType,
    regions: MoveRegions,
    row_starts: Mapping[Side, IrValue],
    at: IrValue,
    j: IrValue,
) -> None:
    code, value_of = writer.code, writer.value_of
    dst, src = regions.dst, regions.src
    assert src is not None
    indexed, fixed = (src, dst) if index.side is Side.SRC else (dst, src)
    fixed_side = Side.DST if index.side is Side.SRC else Side.SRC
    here = fixed.col(code, row_starts[fixed_side], j, value_of)
    if indexed.far:
        ahead = address_of(writer, index, indexed, _lane(writer, regions, at + ELEMENTS_AHEAD), j)
        writer.prefetch(ahead, to_write=indexed is dst)
    lane = _lane(writer, regions, at)
    if index.side is Side.SRC and index.remap is Remap.ZERO:
        outside = lane.compare("eq", SENTINEL)
        there = address_of(writer, index, indexed, code.select(outside, code.constant(lane.type, 0), lane), j)
        found = code.load(bits_of(dtype), there, dtype.size)
        code.store(code.select(outside, code.constant(found.type, 0), found), here, dtype.size)
        return

    def move_element() -> None:
        there = address_of(writer, index, indexed, lane, j)
        pair = (here, there) if index.side is Side.SRC else (there, here)
        _combine_elements(writer, move.combine, dtype, *pair, 1)

    if index.remap is Remap.SKIP:
        with code.when(lane.compare("ne", SENTINEL)):
            move_element()
    else:
        move_element()


def address_of(writer: CodeWriter, index: Index, indexed: MemoryView, lane: IrValue, j: IrValue) -> IrValue:
    """The address that an index names."""
    code, value_of, value = writer.code, writer.value_of, lane.to("zext", I64)
    if index.unit is IndexUnit.ROW:
        return indexed.col(code, indexed.row(code, value, value_of), j, value_of)
    if is_number(index.width, 0):
        return code.at(indexed.base, coordinate(code, indexed.layout.cols, value, value_of) * indexed.size)
    width = value_of(index.width)
    row = indexed.row(code, value.op("udiv", width), value_of)
    return indexed.col(code, row, value.op("urem", width), value_of)
