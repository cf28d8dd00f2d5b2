"""Adding in float32 to tables of shorter floats, rounded once: ranges of the table, each with sums of its own."""

from __future__ import annotations

from collections.abc import Callable

from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, size_of, vector
from ptokit.engine.llvm.numbers import bits_of
from ptokit.engine.llvm.resolve import AT_ONCE
from ptokit.engine.native.whole.block import LANES_AT_ONCE, PICKED, blocks, pieces, scratch, word
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.engine.native.whole.phases import Indices, compacted, extent, picked

AHEAD = 12
"""Lanes after which a row of the table is needed that is prefetched now."""


def total(code: IrBuilder, rows: Rows, indices: Indices | None) -> None:
    """Ranges of the table: the rows that lanes name get sums in float32, which are rounded when all lanes are added."""
    sums = _Sums(code, rows)
    with pieces(code, "buckets", single=True) as number:
        low, count = extent(code, number, "capacity", "range")
        sums.used.set(code.i64(0))
        with blocks(code, code.i64(0), word(code, "count"), LANES_AT_ONCE) as (first, length):
            if indices is None:
                lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
            else:
                lanes = sums.own
                indices.resolve(code, first, length, lanes)
            sums.add_each(lanes, length, low, count, first)
        sums.finish(low)


class _Sums:
    """A worker's sums for the rows of a range that lanes name, in the order in which they are first named."""

    def __init__(self, code: IrBuilder, rows: Rows) -> None:
        assert rows.dtype is not None
        self.code, self.rows, self.dtype = code, rows, rows.dtype
        self.mover, self.own = Mover(code, rows), scratch(code)
        worker, room = code.arguments[1], word(code, "room")
        self.numbers = code.at(word(code, "marks", PTR), worker * word(code, "range") * 4)
        """For each row of the range, the number of its sum from 1 on, or 0."""
        self.named = code.at(word(code, "named", PTR), worker * room * 8)
        """For each sum, its row."""
        self.sums = code.at(word(code, "totals", PTR), worker * room * self.mover.width * 4)
        self.used = code.variable(I64, code.i64(0))
        """How many sums there are."""

    def add_each(self, lanes: IrValue, length: IrValue, low: IrValue, rows: IrValue, first: IrValue) -> None:
        """Add every lane of a block that names a row of the range."""
        code, mover, picks = self.code, self.mover, self.code.at(self.own, PICKED)

        def is_inside(k: IrValue, step: int) -> IrValue:
            lane = mover.lane(lanes, k, step).to("zext", vector(I64, step))  # a table may have more rows than 2^32
            return (lane - code.splat(low, step)).compare("ult", code.splat(rows, step))

        kept = compacted(code, picks, length, is_inside, AT_ONCE[self.rows.lane])
        with code.loop(0, kept) as q:
            if self.rows.far:
                code.prefetch(mover.cell(self._lane(lanes, picked(code, picks, q + AHEAD))))
            k = picked(code, picks, q)
            lane = self._lane(lanes, k)
            self._add(lane - low, mover.cell(lane), mover.item(first + k))

    def _lane(self, lanes: IrValue, k: IrValue) -> IrValue:
        return self.mover.lane(lanes, k).to("zext", I64)

    def _add(self, row: IrValue, cell: IrValue, item: IrValue) -> None:
        """Add to the sum of a row, which begins with what the table holds."""
        code, place, mover = self.code, self.code.at(self.numbers, row * 4), self.mover
        number = code.load(I32, place).to("zext", I64)

        def begin() -> None:
            last = self.used.get()
            code.store(row, code.at(self.named, last * 8))
            self.used.set(last + 1)
            code.store((last + 1).to("trunc", I32), place)
            self._each(last, lambda j, count, at: code.store(old(j, count) + new(j, count), at, 4))

        def go_on() -> None:
            def add(j: IrValue, count: int, at: IrValue) -> None:
                code.store(code.load(vector("float", count), at, 4) + new(j, count), at, 4)

            self._each(number - 1, add)

        def old(j: IrValue, count: int) -> IrValue:
            return self._wide(code.at(cell, j * mover.table_col), count)

        def new(j: IrValue, count: int) -> IrValue:
            return self._wide(code.at(item, j * mover.other_col), count)

        code.choose(number.compare("eq", 0), begin, go_on)

    def finish(self, low: IrValue) -> None:
        """Round all sums into the table."""
        code, mover = self.code, self.mover
        with code.loop(0, self.used.get()) as number:
            row = code.load(I64, code.at(self.named, number * 8))
            code.store(code.constant(I32, 0), code.at(self.numbers, row * 4))
            cell = mover.cell(low + row)

            def write(j: IrValue, count: int, at: IrValue, cell: IrValue = cell) -> None:
                found = from_single(code, self.dtype, code.load(vector("float", count), at, 4))
                code.store(found, code.at(cell, j * mover.table_col), 1)

            self._each(number, write)

    def _wide(self, at: IrValue, count: int) -> IrValue:
        return single(self.code, self.dtype, self.code.load(bits_of(self.dtype, count), at, 1))

    def _each(self, number: IrValue, write: Callable[[IrValue, int, IrValue], None]) -> None:
        """Columns of a row, sixteen at a time where they lie side by side, with the places of their sums."""
        code, width = self.code, self.mover.width
        base = number * width
        for j, step in code.strips(width, 16 if self.rows.dense and self.rows.width != 1 else 1):
            write(j, step, code.at(self.sums, (base + j) * 4))
