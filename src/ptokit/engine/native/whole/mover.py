"""Moving one row for every lane: the inner loops of whole-array gathers and scatters, one kind of row at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from ptokit.engine.llvm.emit import I1, I64, PTR, IrBuilder, IrValue, Variable, size_of, vector
from ptokit.engine.llvm.move import LINE, CodeWriter, Prefetch, ahead
from ptokit.engine.llvm.numbers import NATIVE, bits_of, combined, computed, lanes_at_once, narrow, rounded, widen
from ptokit.engine.native.whole.block import word
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

RowPair = Callable[[IrValue], tuple[IrValue, IrValue]]
"""Addresses of the table's row and of the other operand's row, for the number of a lane."""
UNROLLED = 16
"""Rows of at most this many bytes are moved several at a time."""
ELEMENTS_AT_ONCE = 8
"""Rows that are moved at a time."""
LONG = 2 << 10
"""Bytes from which on gathered rows are written past the caches at once; shorter ones are put together before."""
STREAMED_ROWS = 4
"""Long rows that are copied at the same time."""
TOGETHER = 16
"""Elements for the same place in the table that are taken together."""
COMMON = frozenset((16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
"""Bytes of rows that get specialised code, besides single elements."""


@dataclass(frozen=True)
class Rows:
    """A kind of row, and what happens to it."""

    size: int
    """Bytes of an element."""
    lane: str
    """The type of a lane."""
    width: int = 0
    """Elements of a row, or 0 if known at run time only."""
    dense: bool = True
    """Whether the elements of a row lie side by side at both ends."""
    far: bool = True
    """Whether the table is large, so that prefetching of rows pays."""
    gaps: bool = False
    """Whether the other end is read with gaps, which the hardware does not prefetch: prefetched, too."""
    same: bool = False
    """Whether many lanes in a row may name the same row of the table."""
    combine: Combine = Combine.STORE
    dtype: DType | None = None
    """The type of the arithmetic; None if bits are copied."""
    table_step: int | None = None
    """Bytes from row to row of the table, if code is specialised for them: a multiplication is slow."""
    other_step: int | None = None
    """The same for the other end."""
    stream: bool = False
    """Whether what is written goes past the caches, in whole lines; gathered rows are put together first."""
    together: bool = False
    """Whether elements are gathered with the processor's own instruction."""
    packs: bool = False
    """Whether some lanes of many are put side by side with the processor's own instruction."""

    @property
    def nbytes(self) -> int:
        """Bytes of a row, where they are known."""
        return self.width * self.size

    @property
    def ahead(self) -> tuple[int, int]:
        """How many rows ahead to fetch, and how many lines of each."""
        return ahead(self.nbytes)


class Mover:
    """Writes the code that moves rows of one kind."""

    def __init__(self, code: IrBuilder, rows: Rows) -> None:
        self.code, self.rows, self.writer = code, rows, CodeWriter(code, code.i64)
        self.table, self.other = word(code, "table", PTR), word(code, "other", PTR)
        self.table_row, self.table_col = self._step("table_row", rows.table_step), word(code, "table_col")
        self.other_row, self.other_col = self._step("other_row", rows.other_step), word(code, "other_col")
        self.width = code.i64(rows.width) if rows.width else word(code, "width")

    def _step(self, name: str, known: int | None) -> IrValue:
        return word(self.code, name) if known is None else self.code.i64(known)

    def lane(self, lanes: IrValue, k: IrValue, count: int = 1) -> IrValue:
        kind = self.rows.lane
        return self.code.load(vector(kind, count), self.code.at(lanes, k * size_of(kind)), size_of(kind))

    def cell(self, lane: IrValue) -> IrValue:
        """The row of the table that a lane names."""
        return self.code.at(self.table, lane.to("zext", I64) * self.table_row)

    def item(self, k: IrValue) -> IrValue:
        """The row of the other end."""
        return self.code.at(self.other, k * self.other_row)

    def pairs(self, lanes: IrValue, base: IrValue, number: Callable[[IrValue], IrValue] = lambda k: k) -> RowPair:
        """The rows of lanes in a buffer, and those from `base` on; `number` gives the number of a lane."""

        def pair(k: IrValue) -> tuple[IrValue, IrValue]:
            lane = number(k)
            return self.cell(self.lane(lanes, lane)), self.code.at(base, lane * self.other_row)

        return pair

    def load(self, cell: IrValue, item: IrValue, coming: Sequence[Prefetch] = ()) -> None:
        """From the table to the other end."""
        self._move(item, cell, self.other_col, self.table_col, coming)

    def store(self, cell: IrValue, item: IrValue, coming: Sequence[Prefetch] = ()) -> None:
        """From the other end to the table, combined with what is there."""
        if self.rows.stream:
            for row in coming:
                row.fetch_rest()
            self.writer.stream([(cell, item)], self.width * self.rows.size)
            return
        self._move(cell, item, self.table_col, self.other_col, coming)

    def zero(self, item: IrValue) -> None:
        """A row of zeros at the other end."""
        code, kind = self.code, f"i{8 * self.rows.size}"
        if self.rows.dense:
            code.fill_bytes(item, 0, self.width * self.rows.size)
            return
        with code.loop(0, self.width) as j:
            code.store(code.constant(kind, 0), code.at(item, j * self.other_col), 1)

    def load_each(self, count: IrValue, lanes: IrValue, base: IrValue) -> None:
        """The rows of the table that lanes name, to `base` and behind it."""
        if self.rows.together:
            self.gather(count, lambda k, step: self.lane(lanes, k, step), base)
        elif self.rows.stream and self.rows.nbytes >= LONG:
            pair = self.pairs(lanes, base)
            for k, step in self.code.strips(count, STREAMED_ROWS):
                ends = [(item, cell) for cell, item in (pair(k + nth) for nth in range(step))]
                self.writer.stream(ends, self.code.i64(self.rows.nbytes))
        else:
            self.load_pairs(count, self.pairs(lanes, base))

    def gather(
        self, count: IrValue, lanes: Callable[[IrValue, int], IrValue], base: IrValue, capacity: IrValue | None = None
    ) -> None:
        """Elements, several with one instruction; zero for a lane that is not below `capacity`."""
        code, size, kind = self.code, self.rows.size, f"i{8 * self.rows.size}"
        many, places, mask = (vector(each, ELEMENTS_AT_ONCE) for each in (kind, PTR, I1))
        name = f"llvm.masked.gather.v{ELEMENTS_AT_ONCE}{kind}.v{ELEMENTS_AT_ONCE}p0"
        for k, step in code.strips(count, ELEMENTS_AT_ONCE):
            lane, there = lanes(k, step).to("zext", vector(I64, step)), code.at(base, k * size)
            inside = code.constant(mask, 1) if capacity is None else lane.compare("ult", code.splat(capacity, step))
            if step > 1:
                cells = code.write(places, f"getelementptr i8, {self.table!r}, {lane * size!r}")
                code.store(code.call(many, name, cells, "i32 1", inside, code.constant(many, 0)), there, 1)
                continue
            if capacity is not None:
                self.zero(there)
            with code.when(inside) if capacity is not None else nullcontext():
                self._elements(there, code.at(self.table, lane * size), 1)

    def load_pairs(self, count: IrValue, pair: RowPair) -> None:
        """Rows of the table to the other end."""
        self._each(count, pair, self.load, to_write=False)

    def store_each(self, count: IrValue, pair: RowPair) -> None:
        """Rows of the other end to the table."""
        self._each(count, pair, self.store, to_write=True)

    def _each(self, count: IrValue, pair: RowPair, move: Callable[..., None], *, to_write: bool) -> None:
        code, (distance, _) = self.code, self.rows.ahead
        if not 0 < self.rows.nbytes <= UNROLLED:
            with code.loop(0, count) as k:
                coming = self._coming([pair(k + distance)], to_write) if self._fetches else []
                move(*pair(k), coming)
            return
        whole = count - (count & (ELEMENTS_AT_ONCE - 1))
        with code.loop(0, whole, ELEMENTS_AT_ONCE) as k:
            later = [pair(k + (step + distance)) for step in range(ELEMENTS_AT_ONCE)] if self._fetches else []
            for row in self._coming(later, to_write):
                row.fetch_rest()
            for here in [pair(k + step) for step in range(ELEMENTS_AT_ONCE)]:  # all lanes first: they are read in pairs
                move(*here)
        with code.loop(whole, count) as k:
            move(*pair(k))

    @property
    def _fetches(self) -> bool:
        return self.rows.far or self.rows.gaps

    def _coming(self, rows: Sequence[tuple[IrValue, IrValue]], to_write: bool) -> list[Prefetch]:
        """Prefetches of rows that are needed soon, if they pay."""
        lines, prefetches = self.rows.ahead[1], list[Prefetch]()
        for cell, item in rows:
            prefetches += [Prefetch(self.writer, cell, lines, to_write=to_write)] * self.rows.far
            prefetches += [Prefetch(self.writer, item, lines)] * self.rows.gaps
        return prefetches

    def store_all(self, cell: IrValue, items: IrValue, count: IrValue) -> None:
        """`count` rows of the other end, one after the other, to one row of the table."""
        code, rows = self.code, self.rows
        if rows.combine is Combine.STORE:
            self.store(cell, code.at(items, (count - 1) * self.other_row))
            return
        assert rows.dtype is not None
        wide = lanes_at_once(rows.dtype)
        whole = code.i64(0)
        if rows.width == 1 and rows.other_step == rows.size and wide > 1 and self._is_free:
            whole = count - count.op("urem", wide)
            self._fold_free(cell, items, whole, wide)
        elif rows.width == 1:
            whole = count - (count & (TOGETHER - 1))
            with code.loop(0, whole, TOGETHER) as k:
                self._fold(cell, code.at(items, k * self.other_row))
        with code.loop(whole, count) as k:
            self.store(cell, code.at(items, k * self.other_row))

    @property
    def _is_free(self) -> bool:
        """Whether elements may be combined in any order: only sums and products of floats may not."""
        assert self.rows.dtype is not None
        return not (self.rows.dtype.is_float and self.rows.combine.rounds)

    def _fold_free(self, cell: IrValue, items: IrValue, count: IrValue, wide: int) -> None:
        """Elements that lie side by side to one of the table, many at a time, in whatever order."""
        code, dtype, combine = self.code, self.rows.dtype, self.rows.combine
        assert dtype is not None
        kind, old = bits_of(dtype, wide), code.load(bits_of(dtype), cell, 1)
        start = code.constant(kind, int(combine is Combine.MUL)) if combine.rounds else code.splat(old, wide)
        many = code.variable(kind, start)
        with code.loop(0, count, wide) as k:
            new = code.load(kind, code.at(items, k * self.rows.size), 1)
            many.set(combined(code, combine, dtype, many.get(), new))
        found, best = many.get(), old
        for lane in range(wide):
            one = code.write(bits_of(dtype), f"extractelement {found!r}, i64 {lane}")
            best = combined(code, combine, dtype, best, one)
        code.store(best, cell, 1)

    def _fold(self, cell: IrValue, items: IrValue) -> None:
        """Some elements, one after the other, to one of the table, which stays in a register."""
        code, dtype, combine = self.code, self.rows.dtype, self.rows.combine
        assert dtype is not None
        kind = bits_of(dtype)
        total = code.load(kind, cell, 1)
        found = [code.load(kind, code.at(items, self.other_row * step), 1) for step in range(TOGETHER)]
        if combine is Combine.ADD and dtype.name in NATIVE:  # a NaN stays one: one check at the end is enough
            added = sum((widen(code, dtype, new) for new in found), widen(code, dtype, total))
            code.store(narrow(code, dtype, added), cell, 1)
            return
        for new in found:
            total = combined(code, combine, dtype, total, new)
        code.store(total, cell, 1)

    def _move(self, dst: IrValue, src: IrValue, dst_col: IrValue, src_col: IrValue, coming: Sequence[Prefetch]) -> None:
        rows, code = self.rows, self.code
        if rows.dense and rows.width > 1:
            if rows.combine is Combine.STORE:
                self.writer.copy(dst, src, rows.nbytes, coming)
            else:
                self._runs(dst, src, coming)
            return
        for row in coming:
            row.fetch_rest()
        if not rows.dense:
            with code.loop(0, self.width) as j:
                self._elements(code.at(dst, j * dst_col), code.at(src, j * src_col), 1)
        elif rows.width == 1:
            self._elements(dst, src, 1)
        elif rows.combine is Combine.STORE:
            self._copy(dst, src)
        else:
            self._runs(dst, src)

    def _copy(self, dst: IrValue, src: IrValue) -> None:
        """Bytes that lie side by side. The C library's own copy is slow where rows come from far away."""
        code, nbytes, kind = self.code, self.width * self.rows.size, vector("i8", LINE)
        with code.loop(0, nbytes - (LINE - 1), LINE) as at:
            code.store(code.load(kind, code.at(src, at), 1), code.at(dst, at), 1)

        def last_line() -> None:  # overlaps the line before
            at = nbytes - LINE
            code.store(code.load(kind, code.at(src, at), 1), code.at(dst, at), 1)

        def short() -> None:
            code.call("void", "llvm.memcpy.p0.p0.i64", dst, src, nbytes, "i1 false")

        with code.when((nbytes & (LINE - 1)).compare("ne", 0)):
            code.choose(nbytes.compare("ult", LINE), short, last_line)

    def _runs(self, dst: IrValue, src: IrValue, coming: Sequence[Prefetch] = ()) -> None:
        """Elements that lie side by side, as many at a time as arithmetic takes: a line of them."""
        code, rows, wide, whole = self.code, self.rows, self._wide, self._whole()
        for row in coming:
            if wide == 1:
                row.fetch_rest()
            else:
                row.fetch(rows.nbytes - 1)  # the loop below fetches a line where each begins, if rows begin at one
        with self._canonical_nans(dst) as seen, code.loop(0, whole, wide) as k:
            start = k * rows.size
            for row in coming if wide > 1 else ():
                row.fetch(start)
            self._elements(code.at(dst, start), code.at(src, start), wide, seen)
        if whole is not self.width:
            with code.loop(whole, self.width) as k:
                self._elements(code.at(dst, k * rows.size), code.at(src, k * rows.size), 1)

    @property
    def _wide(self) -> int:
        assert self.rows.dtype is not None
        return lanes_at_once(self.rows.dtype)

    def _whole(self) -> IrValue:
        """The elements of a row that are taken many at a time."""
        wide = self._wide
        return self.width - self.width.op("urem", wide) if self.rows.width % wide or not self.rows.width else self.width

    @contextmanager
    def _canonical_nans(self, row: IrValue) -> Generator[Variable | None]:
        """Sums for a row of the table whose NaNs become canonical afterwards.

        Yields a variable to add all results to. It is a NaN at the end if one of them is: one check instead of many.
        None if there are no such sums.
        """
        code, dtype, wide = self.code, self.rows.dtype, self._wide
        assert dtype is not None
        if self._is_free or wide == 1:
            yield None
            return
        zero = widen(code, dtype, code.constant(bits_of(dtype, wide), 0))
        seen = code.variable(zero.type, zero)
        yield seen
        with (
            code.when(code.reduce("or", seen.get().compare("uno", seen.get()))),
            code.loop(0, self._whole(), wide) as k,
        ):
            at = code.at(row, k * self.rows.size)
            code.store(narrow(code, dtype, widen(code, dtype, code.load(bits_of(dtype, wide), at, 1))), at, 1)

    def _elements(self, dst: IrValue, src: IrValue, count: int, seen: Variable | None = None) -> None:
        code, rows = self.code, self.rows
        kind = bits_of(rows.dtype, count) if rows.dtype else f"i{8 * rows.size}"
        new = code.load(kind, src, 1)
        if rows.dtype is None or rows.combine is Combine.STORE:
            code.store(new, dst, 1)
            return
        old = code.load(kind, dst, 1)
        if seen:
            total = computed(code, rows.combine, rows.dtype, old, new)
            seen.set(seen.get() + total)
            code.store(rounded(rows.dtype, total), dst, 1)
        elif count > 1 or rows.dtype.name not in NATIVE:
            code.store(combined(code, rows.combine, rows.dtype, old, new), dst, 1)
        elif rows.combine.rounds:
            self._compute(rows.dtype, dst, old, new)
        else:
            self._pick(rows.dtype, dst, old, new)

    # The next lane may name the same cell. Its dependency should be short, and a branch is predicted: so a NaN is
    # stored a second time, in canonical form.

    def _compute(self, dtype: DType, dst: IrValue, old: IrValue, new: IrValue) -> None:
        code = self.code
        total = computed(code, self.rows.combine, dtype, old, new)
        code.store(total, dst, 1)
        with code.when(total.compare("uno", total)):
            code.store(narrow(code, dtype, total), dst, 1)

    def _pick(self, dtype: DType, dst: IrValue, old: IrValue, new: IrValue) -> None:
        """If cells are far, one that stays as it is is not stored, so that its line need not be written."""
        code, combine, a = self.code, self.rows.combine, widen(self.code, dtype, old)

        def ordered(bits: IrValue) -> IrValue:
            return bits ^ bits.op("ashr", 8 * dtype.size - 1).op("lshr", 1)  # whole numbers in the order of the floats

        better = ordered(new).compare("sgt" if combine is Combine.MAX else "slt", ordered(old))
        if not self.rows.far:
            code.store(code.select(better, new, old), dst, 1)
            with code.when(a.compare("uno", widen(code, dtype, new))):
                code.store(combined(code, combine, dtype, old, new), dst, 1)
            return
        with code.when(better | a.compare("uno", a)):
            code.store(combined(code, combine, dtype, old, new), dst, 1)
