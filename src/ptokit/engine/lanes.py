"""Index values: read once, taken as the documents say, remapped by policy, and reported when odd."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptokit.engine.storage import Array
from ptokit.isa.dtype import DType
from ptokit.isa.move import Index, Remap, Unit


@dataclass(frozen=True)
class IndexReport:
    """Index values that deserve a word: `outside`, `negative` or `padding`, and the first of them."""

    kind: str
    operand: str
    lane: tuple[int, ...]
    value: int
    capacity: int
    count: int


class IndexFault(Exception):
    """An index outside its table that the caller had promised away. Nothing was written."""

    def __init__(self, report: IndexReport) -> None:
        super().__init__(report)
        self.report = report


class SpanFault(Exception):
    """An address outside an operand's memory. Nothing was written."""

    def __init__(self, operand: str, needed: int, available: int) -> None:
        super().__init__(f"{operand} would be touched at element {needed - 1}, but has {available}")
        self.operand = operand


class ZeroFault(Exception):
    """An integer divisor that is zero. Nothing was written."""

    def __init__(self, operand: str, lane: tuple[int, ...], count: int) -> None:
        super().__init__(f"{operand}[{', '.join(map(str, lane))}] is zero" + f" (and {count - 1} more)" * (count > 1))
        self.operand = operand


NEGATIVE = 1 << 31
"""From here on, a signed index taken as uint32 was negative."""


class Lanes:
    """Index values after the remap, and the lanes that were outside and did not move inside."""

    __slots__ = ("outside", "values")

    def __init__(self, values: Array, outside: Array | None = None) -> None:
        self.values = values
        self.outside = outside


class Reader:
    """Turns raw index bits into lanes."""

    def __init__(self, index: Index, dtype: DType) -> None:
        self.index = index
        self.dtype = dtype
        self.capacity = np.uint64(index.capacity)
        self.signed = index.cast and dtype.family == "int"

    def widen(self, raw: Array) -> Array:
        """A copy as int64: sign-extended to 32 bits and taken as uint32, unless 64-bit indices stay whole."""
        if self.dtype.size == 4:
            return raw.astype(np.int64)
        values = np.ascontiguousarray(raw).view(self.dtype.numpy).astype(np.int64)
        return values & 0xFFFFFFFF if self.index.cast else values

    def read(self, raw: Array, reports: list[IndexReport]) -> Lanes:
        """Check and remap; raises `IndexFault` where the caller's promise is broken."""
        values = self.widen(raw)
        top = self.largest(values)
        if top >= NEGATIVE and self.signed and self.index.remap in (Remap.CLAMP, Remap.WRAP):
            self._note("negative", values >= NEGATIVE, values, reports)
        if top >= self.index.capacity:
            if self.index.remap is Remap.REFUSE:
                raise IndexFault(self.report("outside", self.is_outside(values), values))
            return self.land(values)
        if self.index.valid is not None:
            self._report_padding(values, reports)
        return Lanes(values)

    def largest(self, values: Array) -> int:
        """The largest value, a negative 64-bit one counting as huge."""
        unsigned = values if self.index.cast else values.view(np.uint64)
        return unsigned.item(unsigned.argmax())

    def is_outside(self, values: Array) -> Array:
        """Which values are not in [0, capacity)."""
        return values.view(np.uint64) >= self.capacity

    def land(self, values: Array) -> Lanes:
        """Apply the policy; lanes that it does not move inside point at 0 and are marked."""
        if self.index.remap is Remap.CLAMP:
            return Lanes(np.clip(values, 0, self.index.capacity - 1))
        if self.index.remap is Remap.WRAP:
            return Lanes(np.mod(values, self.index.capacity))
        outside = self.is_outside(values)
        return Lanes(np.where(outside, 0, values), outside)

    def report(self, kind: str, where: Array, values: Array) -> IndexReport:
        """The first lane of many, for a message."""
        lane = np.unravel_index(int(np.argmax(where)), where.shape)
        value = int(values[lane])
        if self.signed and value >= NEGATIVE:
            value -= 1 << 32
        position = tuple(int(k) for k in lane)
        return IndexReport(kind, self.index.access.operand, position, value, self.index.capacity, int(where.sum()))

    def _note(self, kind: str, where: Array, values: Array, reports: list[IndexReport]) -> None:
        if where.any():
            reports.append(self.report(kind, where, values))

    def _report_padding(self, values: Array, reports: list[IndexReport]) -> None:
        rows, cols = self.index.valid or (0, 0)
        if self.index.unit is Unit.ROW:
            padding = values >= rows
        else:
            padding = (values // self.index.width >= rows) | (values % self.index.width >= cols)
        self._note("padding", padding, values, reports)
