"""Walks over a region, some lanes at a time: inputs as the lanes of the result see them, vectors where they lie so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from ptokit.engine.llvm.address import WHOLE, MemoryView, are_known, is_number, run_length
from ptokit.engine.llvm.emit import Across, IrBuilder, IrValue, lanes_of, vector
from ptokit.engine.llvm.move import CodeWriter

Extents = tuple[Any, Any]
"""Rows and columns, known or of the run."""


@dataclass(frozen=True)
class RegionRow:
    """One row of an input or of the result."""

    side: RegionView
    start: IrValue
    held: dict[int, IrValue]
    """What is the same in the whole row, by the number of lanes."""

    def at(self, j: IrValue) -> IrValue:
        """Where element `j` lies."""
        writer, first = self.side.writer, self.side.shift[1]
        return self.side.place.col(writer.code, self.start, j + writer.value_of(first), writer.value_of)

    def load(self, j: IrValue, lanes: int = 1) -> IrValue:
        """Elements `j` and on."""
        if self.held:
            return self.held[lanes]
        return self.side.writer.code.load(vector(self.side.kind, lanes), self.at(j), self.side.alignment(lanes))

    def store(self, value: IrValue, j: IrValue) -> None:
        """Write elements `j` and on."""
        self.side.writer.code.store(value, self.at(j), self.side.alignment(lanes_of(value.type)))


@dataclass(frozen=True)
class RegionView:
    """A region as lane (i, j) of the result sees it: all of it, one row or column again and again, or one element."""

    writer: CodeWriter
    place: MemoryView
    one_row: bool = False
    one_col: bool = False
    shift: Extents = (0, 0)
    """Where in the region the result's first lane finds its element."""

    @property
    def kind(self) -> str:
        """The type of an element in registers."""
        return f"i{8 * self.place.size}"

    def alignment(self, lanes: int) -> int:
        """The known alignment in bytes of a number of neighbours."""
        first = self.shift[1]
        return self.place.alignment(gcd(lanes, first) if isinstance(first, int) else 1)

    @property
    def run(self) -> int:
        """How many neighbours in a row can be taken at once; groups begin at multiples of that number."""
        length, first = WHOLE if self.one_col else run_length(self.place.layout.cols), self.shift[1]
        return gcd(length, first) if length != WHOLE and isinstance(first, int) else length

    @property
    def transposed(self) -> RegionView:
        """The same with rows and columns exchanged."""
        return RegionView(self.writer, self.place.transposed, self.one_col, self.one_row, self.shift[::-1])

    def row(self, i: IrValue, lanes: int = 1) -> RegionRow:
        """Row `i`, to be loaded one element or `lanes` elements at a time."""
        code, value_of = self.writer.code, self.writer.value_of
        start = self.place.base if self.one_row else self.place.row(code, i + value_of(self.shift[0]), value_of)
        if not self.one_col:
            return RegionRow(self, start, {})
        one = code.load(self.kind, start)
        return RegionRow(self, start, {1: one, lanes: code.splat(one, lanes)})


def side(writer: CodeWriter, place: MemoryView, shape: Extents) -> RegionView:
    """An input of this shape, where extents of 1 are repeated."""
    one_row, one_col = (is_number(extent, 1) for extent in shape)
    return RegionView(writer, place, one_row, one_col)


def lanes_at_once(sides: Sequence[RegionView], extent: Any, most: int) -> int:
    """How many lanes of a row can be taken at once: a power of two. A chip with lanes of its own has no rest of a row,
    and takes as much as one of them moves."""
    chip, lanes = sides[0].writer.code.chip, gcd(most, *(side.run for side in sides))
    if chip.lanes != 1:
        known = are_known((extent, *(side.shift[1] for side in sides)))
        return gcd(lanes, extent, max(1, chip.piece // max(side.place.size for side in sides))) if known else 1
    while isinstance(extent, int) and lanes > max(1, extent):
        lanes //= 2
    return lanes


def whole_part(code: IrBuilder, sides: Sequence[RegionView], extent: IrValue, lanes: int) -> IrValue:
    """How much of a row can be taken in vectors: nothing where the first element turns out to lie inside a run."""
    if extent.number is not None:
        whole = code.i64(extent.number // lanes * lanes)
    else:
        whole = extent - extent.op("urem", lanes) if lanes > 1 else extent
    for side in sides:
        first = side.shift[1]
        if lanes > 1 and not isinstance(first, int) and side.run != WHOLE:
            fits = side.writer.value_of(first).op("urem", lanes).compare("eq", 0)
            whole = code.select(fits, whole, 0)
    return whole


Body = Callable[[Sequence[IrValue], IrValue, int], IrValue | None]
"""Takes elements of the inputs, the column of the first one and how many there are; gives the result's."""


@dataclass(frozen=True)
class RegionWalk:
    """A region of lanes, what is written there, and what they read."""

    writer: CodeWriter
    shape: Extents
    dst: RegionView | None
    inputs: tuple[RegionView, ...]

    @property
    def sides(self) -> tuple[RegionView, ...]:
        """Every region that a lane touches."""
        return self.inputs if self.dst is None else (*self.inputs, self.dst)

    @property
    def transposed(self) -> RegionWalk:
        """The same lanes with rows and columns exchanged."""
        dst = self.dst.transposed if self.dst else None
        return RegionWalk(self.writer, self.shape[::-1], dst, tuple(side.transposed for side in self.inputs))

    def lanes(self, most: int) -> int:
        """How many lanes of a row can be taken at once."""
        return lanes_at_once(self.sides, self.shape[1], most)

    def vectorised(self, most: int) -> RegionWalk:
        """The same by columns, if that takes more lanes at once."""
        return self.transposed if self.transposed.lanes(most) > self.lanes(most) == 1 else self

    def apply(self, most: int, body: Body) -> None:
        """Apply `body` to every lane, up to `most` at once; in a phase."""
        code, lanes = self.writer.code, self.lanes(most)
        rows, cols = map(self.writer.value_of, self.shape)
        whole = whole_part(code, self.sides, cols, lanes)
        with code.region(rows, cols, lanes) as (i, across):
            inputs = [side.row(i, lanes) for side in self.inputs]
            dst = self.dst.row(i) if self.dst else None
            _columns(across, dst, inputs, (0, whole, lanes), body)
            if whole.name != cols.name:
                _columns(across, dst, inputs, (whole, cols, 1), body)


def _columns(
    across: Across, dst: RegionRow | None, inputs: Sequence[RegionRow], span: tuple[Any, IrValue, int], body: Body
) -> None:
    with across(*span) as j:
        made = body([row.load(j, span[2]) for row in inputs], j, span[2])
        if dst is not None and made is not None:
            dst.store(made, j)
