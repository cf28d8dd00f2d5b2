"""Code for long segments: rows that many lanes name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptokit.engine.cuda.whole.groups import CHAINED, Groups
from ptokit.engine.cuda.whole.kinds import TOTALS
from ptokit.engine.cuda.whole.site import both, where
from ptokit.engine.cuda.whole.sums import Sum
from ptokit.engine.llvm.emit import IrValue
from ptokit.engine.llvm.numbers import bits_of


def chain(groups: Groups) -> None:
    """Combine each long segment: a block takes a slice of the columns, and has the next rows under way meanwhile."""
    _Chain(groups).write()


class _Chain:
    """The code for long segments.

    Rows go through one of two buffers in shared memory: while the first threads add what one of them holds, all have
    loaded what the other gets.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups, self.site, self.code, self.kind = groups, groups.site, groups.code, groups.site.kind
        site = groups.site
        kind, lanes = site.kind, site.code.chip.lanes
        self.sums = Sum(site.code, kind.combine, kind.dtype, wide=kind.wide)
        self.rows, self.pitch = kind.staged_rows(lanes), kind.pitch(lanes)
        self.columns = kind.slice * kind.elements
        self.bytes_of_row = kind.slice * kind.piece

    def write(self) -> None:
        code, site, kind = self.code, self.site, self.kind
        slices = (site.across + (kind.slice - 1)).op("udiv", kind.slice)
        with code.loop(code.block, self.groups.number(CHAINED) * slices, site.chains) as item:
            start, n = self.groups.segment(self.groups.chained, item.op("udiv", slices))
            self.first, self.stop = item.op("urem", slices) * kind.slice, start + n
            self.place = site.place(site.read(self.groups.lane_at(start)))
            with code.phase():
                self._cell(lambda at, total, _: code.store(self.sums.begin(site.old(self._bits, at)), total))
                self._store(self._load(start), code.i64(0))
            with code.loop(start, self.stop, self.rows) as begin, code.phase():
                turn = (begin - start).op("udiv", self.rows) & 1
                coming = self._load(begin + self.rows)
                code.settle()
                self._cell(lambda _, total, column: self._add(total, column, begin, turn))
                self._store(coming, turn ^ 1)
            with code.phase(), where(site, both(site.open, self.place.inside)):
                self._cell(lambda at, total, _: code.store(self.sums.end(code.load(self.sums.kind, total)), at))

    @property
    def _bits(self) -> str:
        return bits_of(self.kind.dtype)

    def _cell(self, act: Callable[[IrValue, IrValue, IrValue], None]) -> None:
        """Let each thread that has a column act on its cell, its sum and its number."""
        code, site, kind = self.code, self.site, self.kind
        with code.share(0, code.i64(self.columns)) as column:
            piece = self.first + column.op("udiv", kind.elements)
            with code.when(piece.compare("slt", site.across)):
                at = code.at(site.of_table(self.place.row, piece), column.op("urem", kind.elements) * kind.dtype.size)
                act(at, code.at(code.shared, column * 8), column)

    def _load(self, begin: IrValue) -> list[tuple[IrValue, ...]]:
        """What the pieces of some rows that fall to a thread are computed from."""
        code, site, kind = self.code, self.site, self.kind
        numbers = [code.lane + code.chip.lanes * k for k in range(kind.tuning.staged)]
        last, right = self.stop - 1, site.across - 1
        places = [begin + number.op("udiv", kind.slice) for number in numbers]
        found = [self.groups.lane_at(code.select(place.compare("slt", last), place, last)) for place in places]
        pieces = [self.first + number.op("urem", kind.slice) for number in numbers]
        cols = [code.select(piece.compare("slt", right), piece, right) for piece in pieces]
        return [site.fetch(lane, j) for lane, j in zip(found, cols, strict=True)]

    def _store(self, fetched: Sequence[tuple[IrValue, ...]], turn: IrValue) -> None:
        """Put pieces of rows into a buffer."""
        code = self.code
        base = code.at(code.shared, turn * self.pitch + TOTALS)
        for k, each in enumerate(fetched):
            number = code.lane + code.chip.lanes * k
            code.store(self.site.value(each), code.at(base, number * self.kind.piece), self.kind.piece)

    def _add(self, total: IrValue, column: IrValue, begin: IrValue, turn: IrValue) -> None:
        """Add a column of a buffer, in order, with the next elements in registers."""
        code, sums, step, chained = self.code, self.sums, self.bytes_of_row, self.kind.tuning.chained
        left = self.stop - begin
        rows = code.select(left.compare("slt", self.rows), left, self.rows)
        whole = rows - rows.op("urem", chained)
        base = code.at(code.shared, turn * self.pitch + column * self.kind.dtype.size + TOTALS)

        def element(row: IrValue) -> IrValue:
            return code.load(self._bits, code.at(base, row * step))

        so_far = code.variable(sums.kind, code.load(sums.kind, total))
        coming = [code.variable(self._bits, element(code.i64(k))) for k in range(chained)]
        code.settle()
        with code.loop(0, whole, chained) as row:
            values = [each.get() for each in coming]
            for k, each in enumerate(coming):
                each.set(element(row + chained + k))
            code.settle()
            current = so_far.get()
            for value in values:
                current = sums.add(current, value)
            so_far.set(current)
        with code.loop(whole, rows) as row:
            so_far.set(sums.add(so_far.get(), element(row)))
        code.store(so_far.get(), total)
