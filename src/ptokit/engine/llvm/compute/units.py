"""Matrix products on matrix units: 32 lanes of the chip multiply 16 x k by k x 8, k of 32 bytes, held in registers.

Of each such group, lane 4 g + t has row g, and row g + 8, of the left matrix, column g of the right one, and of those
the eight bytes of k from 8 t on: the units sum over k, so all that matters is that both sides have the same k. Of the
result it has columns 2 t and 2 t + 1 of rows g and g + 8.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, product
from math import prod
from typing import Any

from ptokit.engine.llvm.address import run_length
from ptokit.engine.llvm.compute.walk import RegionRow, RegionView
from ptokit.engine.llvm.emit import I32, I64, Chip, IrBuilder, IrValue, Variable, vector
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Term

GROUP, ROWS, COLS, DEEP = 32, 16, 8, 32
"""Lanes that multiply together; rows, columns and bytes along k that they multiply at once."""
SHAPES = ((4, 4), (2, 4), (2, 2), (1, 2), (1, 1))
"""Products down and across that a group holds at a time: as many as leave no group without work."""
UNKNOWN = (2, 2)
"""The same where extents are not known."""
MOST_HELD = 32
"""Products that a group keeps as long as its kernel runs, at most: four registers each."""


def takes(chip: Chip, given: DType, deep: Sequence[tuple[Term, ...]]) -> bool:
    """Whether the chip multiplies this type, and eight bytes along k lie side by side: how both sides lie along it."""
    wide = 8 // given.size
    return given.name in dict(chip.units) and all(run_length(terms) % wide == 0 for terms in deep)


def shape_for(chip: Chip, m: Any, n: Any) -> tuple[int, int]:
    """Products down and across of a group; a few where extents are not known."""
    if not (isinstance(m, int) and isinstance(n, int)):
        return UNKNOWN
    parts = {(down, across): _count(m, ROWS * down) * _count(n, COLS * across) for down, across in SHAPES}
    return next((shape for shape in SHAPES if parts[shape] >= chip.lanes // GROUP), SHAPES[-1])


def held_shape(chip: Chip, m: int, n: int) -> tuple[int, int] | None:
    """The same where every group has one part at most, which it keeps: as square as it can be. None if registers do not
    suffice."""
    down, across = _count(m, ROWS), _count(n, COLS)
    shapes = [(d, a) for d, a in product(range(1, down + 1), range(1, across + 1)) if d * a <= MOST_HELD]
    groups = chip.lanes // GROUP
    shapes = [(d, a) for d, a in shapes if _count(down, d) * _count(across, a) <= groups]
    return min(shapes, key=lambda shape: (shape[0] * shape[1], ROWS * shape[0] + COLS * shape[1]), default=None)


def extents_of(shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a part."""
    return ROWS * shape[0], COLS * shape[1]


def are_whole(extent: IrValue, size: int) -> bool:
    """Whether parts of `size` lines end where the extent does."""
    return extent.number is not None and extent.number % size == 0


class GroupSums:
    """The sums of a group, as variables of the function: four numbers of every product."""

    def __init__(self, code: IrBuilder, given: DType, shape: tuple[int, int], start: IrValue) -> None:
        self.shape, self.kind = shape, "float" if given.is_float else I32
        self.cells = [[code.variable(self.kind, start.bits(self.kind)) for _ in range(4)] for _ in range(prod(shape))]

    def clear(self) -> None:
        """Begin at zero."""
        for cell in chain.from_iterable(self.cells):
            cell.set(cell.pointer.code.constant(self.kind, "0.0" if self.kind == "float" else 0))


class GroupPart:
    """A part of the result: where the lane of a group finds its lines, and which numbers it has."""

    def __init__(self, code: IrBuilder, shape: tuple[int, int], number: IrValue, n: IrValue) -> None:
        """`number` counts the parts, row by row."""
        (self.down, self.across), (self.rows, self.cols) = shape, extents_of(shape)
        right = parts(n, self.cols)
        self.g, self.t = (code.lane & (GROUP - 1)) >> 2, code.lane & 3
        self.top, self.first = number.op("udiv", right) * self.rows, number.op("urem", right) * self.cols

    def places(self, sums: GroupSums) -> Iterator[tuple[IrValue, IrValue, list[Variable]]]:
        """Rows, columns, and the numbers there: two columns at a time."""
        for (r, c), cells in zip(product(range(self.down), range(self.across)), sums.cells, strict=True):
            for half in range(2):
                i, j = self.top + (ROWS * r + 8 * half) + self.g, self.first + COLS * c + self.t * 2
                yield i, j, cells[2 * half : 2 * half + 2]


@contextmanager
def held_part(code: IrBuilder, shape: tuple[int, int], m: IrValue, n: IrValue) -> Generator[GroupPart]:
    """The one part of a group that keeps it, in a phase; groups beyond the last part have none."""
    number, parts = code.lane >> 5, _count_of(shape, m, n)
    with nullcontext() if parts.number == code.chip.lanes // GROUP else code.when(number.compare("slt", parts)):
        yield GroupPart(code, shape, number, n)


class UnitProduct:
    """The product of `a` and the transposed `b` on the units of a chip, in a phase."""

    def __init__(self, code: IrBuilder, given: DType, a: RegionView, b: RegionView, extents: Sequence[Any]) -> None:
        """`extents` are m, n and k."""
        self.code, self.dtype = code, given
        self.a, self.b = (RegionView(side.writer, side.place) for side in (a, b))
        self.extents = extents
        self.m, self.n, self.k = map(a.writer.value_of, extents)
        self.wide = 8 // given.size

    def write(self, put: Callable[[GroupPart, IrValue, IrValue, Sequence[IrValue]], None]) -> None:
        """Compute all parts; `put` takes a part, a row, a column, and the sums that begin there."""
        code, shape = self.code, shape_for(self.code.chip, *self.extents[:2])
        with code.loop(code.lane >> 5, _count_of(shape, self.m, self.n), code.chip.lanes // GROUP) as number:
            part = GroupPart(code, shape, number, self.n)
            sums = GroupSums(code, self.dtype, shape, code.constant(I32, 0))
            self.add(part, sums)
            for i, j, cells in part.places(sums):
                put(part, i, j, [cell.get() for cell in cells])

    def add(self, part: GroupPart, sums: GroupSums) -> None:
        """Add the products of a part."""
        left = [self.a.row(_within(part.top + 8 * r + part.g, self.m, part.rows)) for r in range(2 * part.down)]
        right = [self.b.row(_within(part.first + 8 * c + part.g, self.n, part.cols)) for c in range(part.across)]
        deep = DEEP // self.dtype.size
        whole = self.k - (self.k.number % deep if self.k.number is not None else self.k.op("urem", deep))
        with self.code.loop(0, whole, deep) as at:
            self._step(left, right, at + part.t * self.wide, sums.cells, is_whole=True)
        if whole.name != self.k.name:
            with self.code.loop(whole, self.k, deep) as at:
                self._step(left, right, at + part.t * self.wide, sums.cells, is_whole=False)

    def _step(
        self, left: Sequence[RegionRow], right: Sequence[RegionRow], at: IrValue, totals: list[list[Variable]], *,
        is_whole: bool,
    ) -> None:  # fmt: skip
        """Multiply along 32 bytes of k; this lane takes the bytes from `at` on."""
        x, y = ([self._halves(row, at, is_whole) for row in rows] for rows in (left, right))
        for (r, c), cells in zip(product(range(len(left) // 2), range(len(right))), totals, strict=True):
            (a0, a2), (a1, a3) = x[2 * r], x[2 * r + 1]
            self._multiply([a0, a1, a2, a3, *y[c]], cells)

    def _halves(self, row: RegionRow, at: IrValue, is_whole: bool) -> tuple[IrValue, IrValue]:
        """Eight bytes of a row, in two registers; zeroes beyond the last k."""
        code, value = self.code, row.load(at, self.wide)
        if not is_whole:
            numbers = ", ".join(f"i64 {k}" for k in range(self.wide))
            places = code.splat(at, self.wide) + IrValue(code, vector(I64, self.wide), f"<{numbers}>")
            inside = places.compare("slt", code.splat(self.k, self.wide))
            value = code.select(inside, value, code.constant(value.type, 0))
        both = value.bits(vector(I32, 2))
        low, high = (code.write(I32, f"extractelement {both!r}, i64 {k}") for k in range(2))
        return low, high

    def _multiply(self, parts: list[IrValue], cells: list[Variable]) -> None:
        code, (name, kind) = self.code, dict(self.code.chip.units)[self.dtype.name]
        of = cells[0].kind
        result = "{" + ", ".join([of] * 4) + "}"
        made = code.call(result, name, *(each.bits(kind) for each in parts), *(cell.get() for cell in cells))
        for place, cell in enumerate(cells):
            cell.set(code.write(of, f"extractvalue {made!r}, {place}"))


def _count(extent: int, size: int) -> int:
    return -(-extent // size)


def parts(extent: IrValue, size: int) -> IrValue:
    """How many parts of a size cover an extent."""
    if extent.number is not None:
        return extent.code.i64(_count(extent.number, size))
    return (extent + (size - 1)).op("udiv", size)


def _count_of(shape: tuple[int, int], m: IrValue, n: IrValue) -> IrValue:
    """How many parts of a shape cover m x n."""
    rows, cols = extents_of(shape)
    return parts(m, rows) * parts(n, cols)


def _within(line: IrValue, extent: IrValue, size: int) -> IrValue:
    """A line of a part of `size` lines, or the last one for those beyond."""
    if are_whole(extent, size):
        return line
    return line.code.select(line.compare("slt", extent), line, extent - 1)
