"""Moving one row for every lane: the inner loops of whole-array gathers and scatters, one kind of row at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptokit.engine.native.emit import I64, PTR, Code, Module, Value, size_of, vector
from ptokit.engine.native.move import LINE, Writer, ahead
from ptokit.engine.native.numbers import NATIVE, bits_of, combined, lanes_at_once, narrow, widen
from ptokit.engine.native.whole.block import word
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

UNROLLED = 16
"""Rows of at most so many bytes are taken eight at a time."""
LOCALITY = 2
"""Where rows are fetched to, as LLVM counts: 2 is the second cache."""
TOGETHER = 16
"""Elements for the same place in the table that are taken together."""
COMMON = frozenset((16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
"""Bytes of rows that are worth code of their own, besides single elements."""


@dataclass(frozen=True)
class Rows:
    """A kind of row, and what happens to it."""

    size: int
    """Bytes of an element."""
    lane: str
    """The type of a lane."""
    width: int = 0
    """Elements of a row, or 0 where only the run tells."""
    dense: bool = True
    """Whether the elements of a row lie side by side at both ends."""
    far: bool = True
    """Whether the table is large, so that rows are worth fetching ahead."""
    gaps: bool = False
    """Whether the other end is read with gaps, which the machine does not foresee: fetched ahead, too."""
    same: bool = False
    """Whether many lanes in a row may name the same row of the table."""
    combine: Combine = Combine.STORE
    dtype: DType | None = None
    """What is computed with; None where bits move."""
    table_step: int | None = None
    """Bytes from row to row of the table, where code is worth writing for them: multiplying is slow."""
    other_step: int | None = None
    """The same for the other end."""
    stream: bool = False
    """Whether the other end is written past the caches, which it would only fill."""

    @property
    def nbytes(self) -> int:
        """Bytes of a row, where they are known."""
        return self.width * self.size

    @property
    def key(self) -> str:
        """All of it, as text."""
        named = self.dtype.name if self.dtype else "bits"
        numbers = self.size, self.lane, self.width, self.dense, self.far, self.gaps, self.same, self.stream
        return f"{numbers} {self.table_step} {self.other_step} {self.combine.name} {named}"

    @property
    def ahead(self) -> tuple[int, int]:
        """How many rows ahead to fetch, and how many lines of each."""
        return ahead(self.nbytes)


def known_width(size: int, width: int) -> int:
    """The width to write code for: its own where rows are single elements or of a common length, else 0."""
    nbytes = size * width
    return width if width == 1 or nbytes in COMMON else 0


class Mover:
    """Writes the code that moves rows of one kind."""

    def __init__(self, module: Module, code: Code, rows: Rows) -> None:
        self.module, self.code, self.rows = module, code, rows
        self.writer = Writer(module, code, lambda number: number if isinstance(number, Value) else code.i64(number))
        self.table, self.other = word(code, "table", PTR), word(code, "other", PTR)
        self.table_row, self.table_col = self._step("table_row", rows.table_step), word(code, "table_col")
        self.other_row, self.other_col = self._step("other_row", rows.other_step), word(code, "other_col")
        self.width = code.i64(rows.width) if rows.width else word(code, "width")

    def _step(self, name: str, known: int | None) -> Value:
        return word(self.code, name) if known is None else self.code.i64(known)

    def lane(self, lanes: Value, k: Value) -> Value:
        """A lane of a buffer."""
        return self.code.load(self.rows.lane, self.code.at(lanes, k * size_of(self.rows.lane)))

    def cell(self, lane: Value) -> Value:
        """The row of the table that a lane names."""
        return self.code.at(self.table, lane.to("zext", I64) * self.table_row)

    def item(self, k: Value) -> Value:
        """The row of the other end."""
        return self.code.at(self.other, k * self.other_row)

    def load(self, item: Value, cell: Value) -> None:
        """From the table to the other end."""
        self._move(item, cell, self.other_col, self.table_col)

    def store(self, cell: Value, item: Value) -> None:
        """From the other end to the table, combined with what is there."""
        self._move(cell, item, self.table_col, self.other_col)

    def zero(self, item: Value) -> None:
        """A row of zeros at the other end."""
        code, kind = self.code, f"i{8 * self.rows.size}"
        if self.rows.dense:
            name = self.module.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
            code.call("void", name, item, "i8 0", self.width * self.rows.size, "i1 false")
            return
        with code.loop(0, self.width) as j:
            code.store(code.constant(kind, 0), code.at(item, j * self.other_col), 1)

    def fetch(self, cell: Value, *, to_write: bool = False) -> None:
        """Fetch the first lines of a row of the table that will be needed soon, where that pays."""
        if self.rows.far:
            self._fetch(cell, to_write)

    def fetch_item(self, item: Value) -> None:
        """The same for a row of the other end."""
        if self.rows.gaps:
            self._fetch(item, False)

    def _fetch(self, address: Value, to_write: bool) -> None:
        name = self.module.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
        for line in range(self.rows.ahead[1]):
            at = self.code.at(address, line * LINE)
            self.code.call("void", name, at, f"i32 {int(to_write)}", f"i32 {LOCALITY}", "i32 1")

    def each(self, count: Value, fetch: Callable[[Value], None], go: Callable[[Value], None]) -> None:
        """`go(k)` for every k below a count, and `fetch(k)` for those a good way ahead."""
        code, (distance, _) = self.code, self.rows.ahead
        at_once = 8 if 0 < self.rows.nbytes <= UNROLLED else 1
        whole = count - (count & (at_once - 1)) if at_once > 1 else count
        with code.loop(0, whole, at_once) as k:
            for step in range(at_once):
                if self.rows.far or self.rows.gaps:
                    fetch(k + (step + distance))
            for step in range(at_once):
                go(k + step)
        if at_once > 1:
            with code.loop(whole, count) as k:
                go(k)

    def store_all(self, cell: Value, items: Value, count: Value) -> None:
        """So many rows of the other end, one after the other, to one row of the table."""
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
        """Whether elements may be combined in any order: only sums of floats may not."""
        assert self.rows.dtype is not None
        return not (self.rows.dtype.is_float and self.rows.combine is Combine.ADD)

    def _fold_free(self, cell: Value, items: Value, count: Value, wide: int) -> None:
        """Elements that lie side by side to one of the table, many at a time, in whatever order."""
        code, dtype, combine = self.code, self.rows.dtype, self.rows.combine
        assert dtype is not None
        kind, old = bits_of(dtype, wide), code.load(bits_of(dtype), cell, 1)
        start = code.constant(kind, 0) if combine is Combine.ADD else code.splat(old, wide)
        many = code.variable(kind, start)
        with code.loop(0, count, wide) as k:
            new = code.load(kind, code.at(items, k * self.rows.size), 1)
            many.set(combined(self.module, code, combine, dtype, many.get(), new))
        found, best = many.get(), old
        for lane in range(wide):
            one = code.write(bits_of(dtype), f"extractelement {found!r}, i64 {lane}")
            best = combined(self.module, code, combine, dtype, best, one)
        code.store(best, cell, 1)

    def _fold(self, cell: Value, items: Value) -> None:
        """Some elements, one after the other, to one of the table, which stays in a register."""
        code, dtype, combine = self.code, self.rows.dtype, self.rows.combine
        assert dtype is not None
        kind = bits_of(dtype)
        total = code.load(kind, cell, 1)
        found = [code.load(kind, code.at(items, self.other_row * step), 1) for step in range(TOGETHER)]
        if combine is Combine.ADD and dtype.name in NATIVE:  # a NaN stays one: it is enough to look at the end
            added = sum((widen(code, dtype, new) for new in found), widen(code, dtype, total))
            code.store(narrow(code, dtype, added), cell, 1)
            return
        for new in found:
            total = combined(self.module, code, combine, dtype, total, new)
        code.store(total, cell, 1)

    def _move(self, dst: Value, src: Value, dst_col: Value, src_col: Value) -> None:
        rows, code = self.rows, self.code
        if not rows.dense:
            with code.loop(0, self.width) as j:
                self._elements(code.at(dst, j * dst_col), code.at(src, j * src_col), 1)
        elif rows.width == 1:
            self._elements(dst, src, 1)
        elif rows.combine is Combine.STORE:
            self._copy(dst, src)
        else:
            self._runs(dst, src)

    def _copy(self, dst: Value, src: Value) -> None:
        """Bytes that lie side by side. The C library's own copy is slow where rows come from far away."""
        if self.rows.stream:
            self.writer.stream(dst, src, self.rows.nbytes)
            return
        if self.rows.nbytes:
            self.writer.copy(dst, src, self.rows.nbytes)
            return
        code, nbytes, kind = self.code, self.width * self.rows.size, vector("i8", LINE)
        with code.loop(0, nbytes - (LINE - 1), LINE) as at:
            code.store(code.load(kind, code.at(src, at), 1), code.at(dst, at), 1)

        def last_line() -> None:  # some of it once more
            at = nbytes - LINE
            code.store(code.load(kind, code.at(src, at), 1), code.at(dst, at), 1)

        def short() -> None:
            name = self.module.declare("llvm.memcpy.p0.p0.i64", "void (ptr, ptr, i64, i1)")
            code.call("void", name, dst, src, nbytes, "i1 false")

        with code.when((nbytes & (LINE - 1)).compare("ne", 0)):
            code.choose(nbytes.compare("ult", LINE), short, last_line)

    def _runs(self, dst: Value, src: Value) -> None:
        """Elements that lie side by side, as many at a time as arithmetic takes."""
        code, rows = self.code, self.rows
        assert rows.dtype is not None
        wide = lanes_at_once(rows.dtype)
        whole = self.width - self.width.op("urem", wide) if rows.width % wide or not rows.width else self.width
        for first, last, step in ((code.i64(0), whole, wide), (whole, self.width, 1)):
            if first is not last:
                with code.loop(first, last, step) as k:
                    self._elements(code.at(dst, k * rows.size), code.at(src, k * rows.size), step)

    def _elements(self, dst: Value, src: Value, count: int) -> None:
        code, rows = self.code, self.rows
        kind = bits_of(rows.dtype, count) if rows.dtype else f"i{8 * rows.size}"
        new = code.load(kind, src, 1)
        if rows.dtype is None or rows.combine is Combine.STORE:
            code.store(new, dst, 1)
            return
        old = code.load(kind, dst, 1)
        if count > 1 or rows.dtype.name not in NATIVE:
            code.store(combined(self.module, code, rows.combine, rows.dtype, old, new), dst, 1)
        elif rows.combine is Combine.ADD:
            self._add(rows.dtype, dst, old, new)
        else:
            self._pick(rows.dtype, dst, old, new)

    # The next lane may name the same cell. What it waits for should be short, and a branch is not waited for: so a NaN
    # is stored a second time, as it should be.

    def _add(self, dtype: DType, dst: Value, old: Value, new: Value) -> None:
        code = self.code
        total = widen(code, dtype, old) + widen(code, dtype, new)
        code.store(total, dst, 1)
        with code.when(total.compare("uno", total)):
            code.store(narrow(code, dtype, total), dst, 1)

    def _pick(self, dtype: DType, dst: Value, old: Value, new: Value) -> None:
        code, combine = self.code, self.rows.combine
        a, b = widen(code, dtype, old), widen(code, dtype, new)
        better, tie = ("ogt", "and") if combine is Combine.MAX else ("olt", "or")
        picked = code.select(b.compare(better, a), new, old)
        code.store(code.select(a.compare("oeq", b), old.op(tie, new), picked), dst, 1)
        with code.when(a.compare("uno", b)):
            code.store(combined(self.module, code, combine, dtype, old, new), dst, 1)
