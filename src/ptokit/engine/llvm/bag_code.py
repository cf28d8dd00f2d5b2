"""Bags of gathered rows, reduced row after row in registers: what the engines for CPUs and GPUs share.

Bag b has the lanes from `bounds[b]` to `bounds[b + 1]`, which name rows of a table by index, or rows k by lane k. The
last bag has all further lanes, unless the bounds are closed. Sums start with 0, and a weighted row is rounded before it
is added; floats narrower than float32 are summed in float32 and rounded once. A mean is a sum divided by the number of
lanes that count, before it is rounded. Of the greatest and least, the lane of each element is kept: the first that has
the value. An empty bag has zeros, and no lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from ptokit.engine.bag_arguments import BagsKind
from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, Variable, element_of, lanes_of, vector
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.numbers import bits_of, combined, computes, intrinsic, is_byte_float, narrow, widen
from ptokit.engine.runnable import Unsupported
from ptokit.isa.move import Combine

QUICK = {Combine.MAX: "maximumnum", Combine.MIN: "minimumnum"}
"""LLVM's functions: a NaN yields to a number, and +0 is above -0."""
AHEAD = 12
"""Lanes after which a row is needed that is prefetched now."""


def supported(kind: BagsKind, **of_engine: Any) -> BagsKind:
    """What the code of bags depends on, with what an engine adds. Raises `Unsupported`."""
    dtype = kind.dtype
    if not computes(dtype) or is_byte_float(dtype) or not (dtype.is_float or not (kind.weighted or kind.mean)):
        raise Unsupported(f"bags of {dtype}")
    return kind._replace(followed=False, **of_engine)


@dataclass(frozen=True)
class BagArguments:
    """The arguments of such code: addresses, and numbers."""

    table: IrValue
    index: IrValue
    bounds: IrValue
    weights: IrValue
    out: IrValue
    winners: IrValue
    total: IrValue
    """Lanes of all bags."""
    capacity: IrValue
    row: IrValue
    """Bytes from row to row of the table."""
    padding: IrValue
    bags: IrValue

    @classmethod
    def of_job(cls, code: IrBuilder, job: IrValue) -> Self:
        """Those of a job: the words of a `TableBags`."""
        return cls(*(code.load(PTR if k < 6 else I64, code.at(job, 8 * k)) for k in range(len(fields(cls)))))


class BagCode:
    """Code that reduces columns of a bag."""

    def __init__(
        self, code: IrBuilder, kind: BagsKind, given: BagArguments, outside: Callable[[IrValue], None] | None
    ) -> None:
        """`outside` is told of every index that is read."""
        self.code, self.kind, self.arguments, self.outside = code, kind, given, outside
        dtype = kind.dtype
        self.is_sum = kind.combine is Combine.ADD
        self.is_float = self.is_sum and dtype.is_float
        """Whether sums are kept as floats, and not as bits."""
        self.is_quick = (
            kind.host and not kind.tracked and dtype.name in ("float32", "float64") and kind.combine in QUICK
        )
        """Whether LLVM's own instructions find the greatest and least."""
        self.counted: Variable | None = None
        """Lanes of a mean that count, where some may not."""

    def reduce(self, bag: IrValue, column: IrValue, count: int) -> None:
        """Reduce columns of a bag from one on."""
        code, given, size = self.code, self.arguments, self.kind.dtype.size
        first, last = self._bound(bag), self._last(bag)
        start, none = self._start(count)
        total, lanes = code.variable(start.type, start), code.variable(none.type, none)
        self.counted = code.variable(I64, code.i64(0)) if self.kind.mean and self.kind.padded else None
        length = code.select(last.compare("sgt", first), last - first, 0)
        for k, step in code.strips(length, self.kind.at_once):
            self._add(total, lanes, first + k, step, column, count)
        at = bag * self.kind.width + column
        result, lane = total.get(), lanes.get()
        if self.is_sum:
            if self.kind.mean:
                result = self._mean(result, length if self.counted is None else self.counted.get())
            code.store(self._end(result), code.at(given.out, at * size), self._aligned(size, count))
            return
        if self.is_quick:
            result = narrow(code, self.kind.dtype, widen(code, self.kind.dtype, result))  # of NaNs, the quiet one
        is_empty = lane.compare("eq", none)  # untracked lanes are one number: the last lane that counts
        result = code.select(is_empty, code.constant(result.type, 0), result)
        code.store(result, code.at(given.out, at * size), self._aligned(size, count))
        if self.kind.tracked:
            code.store(lane, code.at(given.winners, at * 4), self._aligned(4, count))

    def _aligned(self, size: int, count: int) -> int:
        """The alignment of elements that are read or written at a time; a GPU takes one by one what is not aligned."""
        return size if self.kind.host else size * count

    def _bound(self, bag: IrValue) -> IrValue:
        """A bound that lies between those of all lanes, whatever it is."""
        code, total, found = self.code, self.arguments.total, self._load_bound(bag)
        return code.select(found.compare("ugt", total), total, found)

    def is_ordered(self, bag: IrValue) -> IrValue:
        """Whether the bounds of a bag are in order; the first one begins with 0, and closed ones end with all lanes."""
        code, given, behind = self.code, self.arguments, bag + 1
        is_last = behind.compare("eq", given.bags)
        first = self._load_bound(bag)
        end = self._load_bound(behind if self.kind.closed else code.select(is_last, bag, behind))
        if not self.kind.closed:
            end = code.select(is_last, given.total, end)
        begins = bag.compare("ne", 0) | first.compare("eq", 0)
        ends = (is_last ^ 1) | end.compare("eq", given.total)
        return first.compare("ule", end) & end.compare("ule", given.total) & begins & ends

    def _load_bound(self, bag: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(self.arguments.bounds, bag * 8))

    def _last(self, bag: IrValue) -> IrValue:
        """Where a bag ends."""
        if self.kind.closed:
            return self._bound(bag + 1)
        code, behind = self.code, bag + 1
        is_last = behind.compare("eq", self.arguments.bags)
        return code.select(is_last, self.arguments.total, self._bound(code.select(is_last, bag, behind)))

    def _start(self, count: int) -> tuple[IrValue, IrValue]:
        """What a bag begins with, and its lanes."""
        code, kind = self.code, self.kind
        lanes = code.constant(vector(I32, count if kind.tracked else 1), -1)
        weakest, bits = 0, bits_of(kind.dtype, count)
        if self.is_float:
            return self._value(code.constant(bits, 0)), lanes
        if self.is_sum:
            return code.constant(bits, 0), lanes
        if kind.dtype.is_float:
            weakest = int(np.full(1, np.nan, kind.dtype.numpy).view(kind.dtype.bits)[0])
        elif kind.dtype.name != "bool":
            limits = np.iinfo(kind.dtype.numpy)
            weakest = int(limits.min if kind.combine is Combine.MAX else limits.max)
        return code.constant(bits, weakest), lanes

    def _add(self, total: Variable, lanes: Variable, first: IrValue, step: int, column: IrValue, count: int) -> None:
        """Reduce some lanes, whose rows are loaded first."""
        code, kind, given = self.code, self.kind, self.arguments
        size = kind.dtype.size
        numbers = [first + nth for nth in range(step)]
        names = [self._index(k) for k in numbers]
        rows: list[IrValue] = []
        for name in names:
            row = name
            if kind.index_type is not None:
                row = code.select(name.compare("ult", given.capacity), name, 0)
                if self.outside is not None:
                    self.outside(name)
            place = code.at(given.table, row * given.row + column * size)
            rows.append(code.load(bits_of(kind.dtype, count), place, self._aligned(size, count)))
        if kind.far is not None:
            self._prefetch(numbers[-1] + AHEAD, column, count, kind.far)
        weights = [self._weight(k, count) for k in numbers] if kind.weighted else [None] * step
        for k, name, row, weight in zip(numbers, names, rows, weights, strict=True):
            held = name.compare("ne", given.padding) if kind.padded else None
            if self.is_sum:
                old = total.get()
                new = old + (self._value(row) if weight is None else self._value(row) * weight)
                total.set(new if held is None else code.select(held, new, old))
                if self.counted is not None and held is not None:
                    self.counted.set(self.counted.get() + held.to("zext", I64))
            else:
                self._choose(total, lanes, k, row, held)

    def _choose(self, total: Variable, lanes: Variable, k: IrValue, row: IrValue, held: IrValue | None) -> None:
        """Keep the greatest or least, and its lane."""
        code, kind = self.code, self.kind
        old, lane = total.get(), lanes.get()
        if self.is_quick:
            values = widen(code, kind.dtype, old), widen(code, kind.dtype, row)
            new = intrinsic(code, QUICK[kind.combine], *values).bits(old.type)
        else:
            new = combined(code, kind.combine, kind.dtype, old, row)
        now = code.splat(k.to("trunc", I32), lanes_of(lane.type))
        if kind.tracked:
            is_new = new.compare("ne", old) | lane.compare("eq", code.constant(lane.type, -1))
            now = code.select(is_new, now, lane)
        total.set(new if held is None else code.select(held, new, old))
        lanes.set(now if held is None else code.select(held, now, lane))

    def _index(self, k: IrValue) -> IrValue:
        """The row that a lane names."""
        kind = self.kind.index_type
        if kind is None:
            return k
        found = self.code.load(f"i{8 * kind.size}", self.code.at(self.arguments.index, k * kind.size))
        return found if kind.size == 8 else found.to("zext", I64)

    def _prefetch(self, k: IrValue, column: IrValue, count: int, locality: int) -> None:
        code, given, size = self.code, self.arguments, self.kind.dtype.size
        last = given.total - 1
        name = self._index(code.select(k.compare("slt", last), k, last))
        row = code.select(name.compare("ult", given.capacity), name, 0)
        place = code.at(given.table, row * given.row + column * size)
        for line in range(0, count * size, LINE):
            code.prefetch(code.at(place, line), locality=locality)

    def _value(self, bits: IrValue) -> IrValue:
        """Elements as they are summed."""
        return single(self.code, self.kind.dtype, bits) if self.is_float else bits

    def _weight(self, k: IrValue, count: int) -> IrValue:
        """A weight, of the type of the sums."""
        code, dtype = self.code, self.kind.dtype
        bits = code.load(f"i{8 * dtype.size}", code.at(self.arguments.weights, k * dtype.size))
        return code.splat(self._value(bits), count)

    def _mean(self, total: IrValue, lanes: IrValue) -> IrValue:
        """Sums divided by a number of lanes; those of none stay zeros."""
        code = self.code
        lanes = code.select(lanes.compare("eq", 0), code.i64(1), lanes)
        return total.op("fdiv", code.splat(lanes.to("sitofp", element_of(total.type)), lanes_of(total.type)))

    def _end(self, total: IrValue) -> IrValue:
        return from_single(self.code, self.kind.dtype, total) if self.is_float else total


def in_columns(code: IrBuilder, width: int, wide: int, do: Callable[[IrValue, int], None]) -> None:
    """Columns of a row, some at a time: `do` is given the first, and how many."""
    whole = width - width % wide
    if whole:
        with code.loop(0, whole, wide) as column:
            do(column, wide)
    while whole < width:
        step = 1 << ((width - whole).bit_length() - 1)
        do(code.i64(whole), step)
        whole += step
