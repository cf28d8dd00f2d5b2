"""The index stage: every index value is read once, into a dense buffer of lanes, and remapped there if necessary.

Values of two and four bytes become 32-bit lanes, as MG-OOB-08 takes them; values of eight bytes become 64-bit lanes. A
lane that zero or skip leave outside is the sentinel: all ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptokit.engine.llvm.address import WHOLE, MemoryView, ValueOf, coordinate, run_length
from ptokit.engine.llvm.emit import I32, I64, IrBuilder, IrValue, Variable, lanes_of, size_of, vector
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Term
from ptokit.isa.move import Index, Remap

PADDING = 64
"""Lanes that may be read and changed beyond the last one; what they hold does not matter."""
SENTINEL = -1
"""A lane that is outside and is not remapped."""
AT_ONCE = {I32: 16, I64: 8}
"""Lanes that are read at a time: 64 bytes of them."""


def lane_of(dtype: DType) -> str:
    """The type of the lanes that index values of a type become."""
    return I64 if dtype.size == 8 else I32


def emit_resolve(
    code: IrBuilder,
    index: Index,
    dtype: DType,
    place: MemoryView,
    shape: tuple[IrValue, IrValue],
    lanes: IrValue | None,
    value_of: ValueOf,
    kept: str | None = None,
) -> IrValue:
    """Read `shape` index values into `lanes`; returns the greatest of them, unsigned, as it was read. On a chip without
    lanes of its own.

    Where that is outside and the policy moves lanes, they are remapped in a second pass. `REFUSE` is left to the
    caller, who compares; so is a capacity of 0 under a policy that needs a row. Under `REFUSE` lanes may be kept in a
    narrower type, or not at all: `lanes` is None.
    """
    reader = _Reader(code, index, dtype, value_of)
    assert kept is None or index.remap is Remap.REFUSE or kept == reader.lane
    reader.kept = kept or reader.lane
    if lanes is None:
        return reader.read(place, *shape, lanes)
    greatest = reader.read(place, *shape, lanes)
    if index.remap is not Remap.REFUSE:
        capacity = value_of(index.capacity)
        with code.when(greatest.compare("uge", capacity)):
            remap = REMAPS[index.remap](code, reader.lane, capacity)
            _walk(code, reader.lane, shape[0] * shape[1], lanes, remap, 1 if index.remap is Remap.WRAP else 0)
    return greatest


class _Reader:
    """Reads index values of one type and keeps the greatest."""

    def __init__(self, code: IrBuilder, index: Index, dtype: DType, value_of: ValueOf) -> None:
        self.code, self.index, self.dtype, self.value_of = code, index, dtype, value_of
        self.lane = self.kept = lane_of(dtype)

    def read(self, place: MemoryView, rows: IrValue, cols: IrValue, lanes: IrValue | None) -> IrValue:
        """Walk a region in row-major order."""
        code, layout = self.code, place.layout
        zero = code.constant(vector(self.lane, AT_ONCE[self.lane]), 0)
        self.many = code.variable(zero.type, zero)
        self.one = code.variable(self.lane, code.constant(self.lane, 0))
        if cols.number == 1:
            self._along(place.base, layout.rows, rows, lanes)
        elif rows.number == 1 or (cols.number is not None and layout.strides == (cols.number, 1)):
            self._along(place.base, layout.cols, rows * cols, lanes)
        else:
            with code.loop(0, rows) as i:
                first = lanes and code.at(lanes, i * cols * size_of(self.kept))
                self._along(place.row(code, i, self.value_of), layout.cols, cols, first)
        return self._greatest()

    def _along(self, base: IrValue, terms: tuple[Term, ...], count: IrValue, lanes: IrValue | None) -> None:
        """Values along one coordinate: many at a time where they lie side by side, then the rest."""
        code, wide, run = self.code, AT_ONCE[self.lane], run_length(terms)
        for k, step in code.strips(count, wide if run == WHOLE or run % wide == 0 else 1):
            top = self.many if step > 1 else self.one
            at = code.at(base, coordinate(code, terms, k, self.value_of) * self.dtype.size)
            value = taken(code, self.index, self.dtype, at, step)
            if lanes is not None:
                short = value.to("trunc", vector(self.kept, step))
                code.store(short, code.at(lanes, k * size_of(self.kept)))
            top.set(self._larger(top.get(), value))

    def _larger(self, a: IrValue, b: IrValue) -> IrValue:
        return self.code.select(b.compare("ugt", a), b, a)

    def _greatest(self) -> IrValue:
        return self._larger(self.code.reduce("umax", self.many.get()), self.one.get()).to("zext", I64)


def taken(code: IrBuilder, index: Index, dtype: DType, at: IrValue, count: int = 1, align: int = 1) -> IrValue:
    """Index values in the type of lanes, cast where the index says so."""
    lane, bits = lane_of(dtype), code.load(vector(f"i{8 * dtype.size}", count), at, align)
    wide = bits.to("sext" if dtype.family == "int" else "zext", vector(lane, count))
    return wide & 0xFFFFFFFF if index.cast and lane == I64 else wide


@dataclass(frozen=True)
class IndexValues:
    """The values of an index where they lie: each lane of the chip reads those it needs."""

    code: IrBuilder
    index: Index
    dtype: DType
    place: MemoryView
    value_of: ValueOf
    known: Sequence[IrValue] = ()
    """Those of the pieces that this lane of the chip copies, resolved."""

    def read(self, i: IrValue, j: IrValue) -> IrValue:
        """A value as a lane."""
        row = self.place.row(self.code, i, self.value_of)
        at = self.place.col(self.code, row, j, self.value_of)
        return taken(self.code, self.index, self.dtype, at, align=self.dtype.size)

    def resolved(self, i: IrValue, j: IrValue) -> IrValue:
        """A value as a lane, remapped. One that was checked is read again: in an array, it may have changed since."""
        value, remap, capacity = self.read(i, j), self.index.remap, self.value_of(self.index.capacity)
        if remap is Remap.REFUSE and not self.place.far:
            return value
        if value.type == I32 and capacity.number is not None and capacity.number >= 1 << 32:
            return value  # none is outside
        return REMAPS[Remap.CLAMP if remap is Remap.REFUSE else remap](self.code, value.type, capacity)(value)

    def are_below(self, limit: IrValue, rows: IrValue, cols: IrValue) -> IrValue:
        """Whether every value, read as unsigned, is less."""

        def find(found: Variable) -> None:
            with self.code.region(rows, cols) as (i, across), across(0, cols) as j:
                found.set(found.get() | self.read(i, j).to("zext", I64).compare("uge", limit))

        return self.code.any(find) ^ 1


def _walk(
    code: IrBuilder, lane: str, count: IrValue, lanes: IrValue, change: Callable[[IrValue], IrValue], at_once: int = 0
) -> None:
    """Change every lane in its place, and a few after the last one, which is allowed."""
    wide = at_once or AT_ONCE[lane]
    with code.loop(0, count, wide) as k:
        at = code.at(lanes, k * size_of(lane))
        code.store(change(code.load(vector(lane, wide), at)), at)


def _spread(code: IrBuilder, scalar: IrValue, like_this: IrValue) -> IrValue:
    return code.splat(scalar, lanes_of(like_this.type))


def _clamp(code: IrBuilder, lane: str, capacity: IrValue) -> Callable[[IrValue], IrValue]:
    last = (capacity - 1).to("trunc", lane)

    def change(value: IrValue) -> IrValue:
        top = _spread(code, last, value)
        if lane == I64:  # these have a sign: below 0 is the first row, not the last
            value = code.select(value.compare("slt", 0), code.constant(value.type, 0), value)
        return code.select(value.compare("ult", top), value, top)

    return change


def _wrap(code: IrBuilder, lane: str, capacity: IrValue) -> Callable[[IrValue], IrValue]:
    there = code.select(capacity.compare("eq", 0), code.i64(1), capacity)
    by = there.to("trunc", lane)

    def change(value: IrValue) -> IrValue:
        if lane == I32:
            return value.op("urem", by)
        left = value.op("srem", by)
        return code.select(left.compare("slt", 0), left + by, left)

    return change


def _mark(code: IrBuilder, lane: str, capacity: IrValue) -> Callable[[IrValue], IrValue]:
    bound = capacity.to("trunc", lane)  # if it does not fit, no lane is outside

    def change(value: IrValue) -> IrValue:
        return code.select(value.compare("ult", _spread(code, bound, value)), value, SENTINEL)

    return change


REMAPS: dict[Remap, Callable[[IrBuilder, str, IrValue], Callable[[IrValue], IrValue]]] = {
    Remap.CLAMP: _clamp,
    Remap.WRAP: _wrap,
    Remap.ZERO: _mark,
    Remap.SKIP: _mark,
}
"""How lanes are changed, for lanes of a type and a capacity."""
