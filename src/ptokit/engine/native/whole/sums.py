"""Adding in float32 to tables of shorter floats, rounded once: ranges of the table, each with sums of its own."""

from __future__ import annotations

from collections.abc import Callable

from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue, size_of, vector
from ptokit.engine.llvm.numbers import bits_of
from ptokit.engine.native.whole.block import LANES_AT_ONCE, PICKED, blocks, pieces, scratch, word
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.engine.native.whole.phases import Indices, compacted, extent, picked


def total(code: IrBuilder, rows: Rows, indices: Indices | None) -> None:
    """Ranges of the table, each with sums in float32 that are rounded when all its lanes have been added.

    The lanes are walked twice: to add, and to round what was added to. A mark for each row says that it has a sum.
    """
    sums = _Sums(code, rows)
    with pieces(code, "buckets", single=True) as number:
        low, count = extent(code, number, "capacity", "range")
        for act in (sums.add, sums.finish):
            with blocks(code, code.i64(0), word(code, "count"), LANES_AT_ONCE) as (first, length):
                if indices is None:
                    lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
                else:
                    lanes = sums.own
                    indices.resolve(code, first, length, lanes)
                sums.each(lanes, length, low, count, first, act)


Act = Callable[[IrValue, IrValue, IrValue], None]
"""Takes a row's number inside its range, the address of its cell and the address of the row to add."""


class _Sums:
    """A worker's sums for a range of rows."""

    def __init__(self, code: IrBuilder, rows: Rows) -> None:
        assert rows.dtype is not None
        self.code, self.rows, self.dtype = code, rows, rows.dtype
        self.mover, self.own = Mover(code, rows), scratch(code)
        rows_at_once, worker = word(code, "range"), code.arguments[1]
        self.marks = code.at(word(code, "marks", PTR), worker * rows_at_once)
        self.sums = code.at(word(code, "totals", PTR), worker * rows_at_once * self.mover.width * 4)

    def lane(self, lanes: IrValue, k: IrValue) -> IrValue:
        """A lane, as a 64-bit number."""
        return self.mover.lane(lanes, k).to("zext", I64)

    def each(self, lanes: IrValue, length: IrValue, low: IrValue, rows: IrValue, first: IrValue, act: Act) -> None:
        """Act on every lane of a block that names a row of the range."""
        code, picks = self.code, self.code.at(self.own, PICKED)
        kept = compacted(code, picks, length, lambda k, _: (self.lane(lanes, k) - low).compare("ult", rows))
        with code.loop(0, kept) as q:
            k = picked(code, picks, q)
            lane = self.lane(lanes, k)
            act(lane - low, self.mover.cell(lane), self.mover.item(first + k))

    def add(self, row: IrValue, cell: IrValue, item: IrValue) -> None:
        """Add a row to its sum, which begins with what the table holds."""
        code, mark, mover = self.code, self.code.at(self.marks, row), self.mover
        is_new = code.load("i8", mark).compare("eq", 0)
        code.store(code.constant("i8", 1), mark)

        def write(j: IrValue, count: int, at: IrValue) -> None:
            new = self._wide(code.at(item, j * mover.other_col), count)
            code.store(code.load(new.type, at, 4) + new, at, 4)

        with code.when(is_new):
            self._each(
                row, lambda j, count, at: code.store(self._wide(code.at(cell, j * mover.table_col), count), at, 4)
            )
        self._each(row, write)

    def finish(self, row: IrValue, cell: IrValue, _item: IrValue) -> None:
        """Round a sum into the table, once."""
        code, mark, mover = self.code, self.code.at(self.marks, row), self.mover

        def write(j: IrValue, count: int, at: IrValue) -> None:
            found = from_single(code, self.dtype, code.load(vector("float", count), at, 4))
            code.store(found, code.at(cell, j * mover.table_col), 1)

        with code.when(code.load("i8", mark).compare("ne", 0)):
            code.store(code.constant("i8", 0), mark)
            self._each(row, write)

    def _wide(self, at: IrValue, count: int) -> IrValue:
        return single(self.code, self.dtype, self.code.load(bits_of(self.dtype, count), at, 1))

    def _each(self, row: IrValue, write: Callable[[IrValue, int, IrValue], None]) -> None:
        """Columns of a row, sixteen at a time where they lie side by side, with the places of their sums."""
        code, width = self.code, self.mover.width
        base = row * width
        for j, step in code.strips(width, 16 if self.rows.dense and self.rows.width != 1 else 1):
            write(j, step, code.at(self.sums, (base + j) * 4))
