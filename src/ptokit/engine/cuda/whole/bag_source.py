"""Kernels whose lanes read through bags: the gradient of a bag, which each of its lanes adds to its row.

`spot` finds the bag of each lane and keeps it; `alone` and `fold` read the row of that bag. Bounds may be anything: a
bag that is found exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptokit.engine.cuda.whole.grouping import Groups, bit_length
from ptokit.engine.cuda.whole.kinds import BagSource, Kind
from ptokit.engine.cuda.whole.site import KernelSite, Place, both
from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I32, I64, Chip, IrValue, element_of, lanes_of, vector
from ptokit.engine.llvm.numbers import bits_of

NO_BAG = 0xFFFFFFFF
"""The bag of a lane that has none."""


class BagSite(KernelSite):
    """A kernel of a kind with a source that is being written."""

    def __init__(self, chip: Chip, kind: Kind, name: str) -> None:
        super().__init__(chip, kind, name)
        assert kind.source is not None
        self.bag_source: BagSource = kind.source
        self.bounds, self.weights, self.winners, self.bags, self.padding = self.bag_arguments
        self.groups = Groups(self)

    # --- the bags of lanes

    def places(self, lanes: Sequence[IrValue], values: Sequence[IrValue]) -> list[Place]:
        """The rows that lanes take effect on; the bags of these lanes are kept."""
        code, made = self.code, list[Place]()
        for lane, value, started in zip(lanes, values, self._started(lanes), strict=True):
            place, has_bag = self.place(value), started.compare("ne", 0)
            if self.bag_source.closed:
                has_bag = has_bag & self._bound(self.bags).compare("sgt", lane)
            if self.bag_source.padded:
                has_bag = has_bag & place.row.compare("ne", self.padding)
            self.groups.put(self.groups.bags, lane, code.select(has_bag, started - 1, NO_BAG))
            made.append(Place(place.row, both(place.inside, has_bag)))
        return made

    def known_place(self, lane: IrValue, value: IrValue) -> Place:
        """The row that a lane takes effect on, if `places` has found a bag."""
        place, bag = self.place(value), self.groups.get(self.groups.bags, lane)
        return Place(place.row, both(place.inside, bag.compare("ne", NO_BAG)))

    def _started(self, lanes: Sequence[IrValue]) -> list[IrValue]:
        """How many bags begin with lanes or before them, by bisection of all at a time."""
        code = self.code
        found = [code.variable(I64, code.i64(0)) for _ in lanes]
        bits = bit_length(self.bags)
        with code.loop(0, bits) as k:
            step = code.i64(1) << (bits - 1 - k)
            tried = [each.get() + step for each in found]
            exists = [number.compare("ule", self.bags) for number in tried]
            bounds = [
                self._bound(code.select(held, number, self.bags) - 1)
                for held, number in zip(exists, tried, strict=True)
            ]
            for each, number, held, bound, lane in zip(found, tried, exists, bounds, lanes, strict=True):
                each.set(code.select(held & bound.compare("sle", lane), number, each.get()))
        return [each.get() for each in found]

    def _bound(self, bag: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(self.bounds, bag * 8))

    # --- what they read

    def fetch(self, lane: IrValue, piece: IrValue) -> tuple[IrValue, ...]:
        """The row of the bag of a lane, and what its value depends on otherwise."""
        bag = self.groups.get(self.groups.bags, lane)
        bag = self.code.select(bag.compare("ult", self.bags), bag, 0)  # also where what is loaded is not needed
        return self.load(self.of_other(bag, piece)), *(find(lane, bag, piece) for find, _ in self._changes)

    def value(self, fetched: tuple[IrValue, ...]) -> IrValue:
        bits, *given = fetched
        for (_, change), each in zip(self._changes, given, strict=True):
            bits = change(bits, each)
        return bits

    @property
    def _changes(self) -> list[tuple[Callable[..., IrValue], Callable[[IrValue, IrValue], IrValue]]]:
        """What is done to a row, one after the other: functions that find another operand, and that take both."""
        how = self.bag_source
        changes = (how.mean, self._length, self._divided), (how.weighted, self._weight, self._multiplied)
        return [(find, change) for has, find, change in (*changes, (how.picked, self._is_own, self._kept)) if has]

    def _length(self, _lane: IrValue, bag: IrValue, _piece: IrValue) -> IrValue:
        """The number of lanes of a bag, at least one."""
        code, behind, end = self.code, bag + 1, self.count
        if self.bag_source.closed:
            end = self._bound(behind)
        else:
            is_last = behind.compare("eq", self.bags)
            end = code.select(is_last, end, self._bound(code.select(is_last, bag, behind)))
        length = end - self._bound(bag)
        return code.select(length.compare("sgt", 1), length, 1)

    def _divided(self, bits: IrValue, length: IrValue) -> IrValue:
        code, value = self.code, single(self.code, self.kind.dtype, bits)
        by = code.splat(length.to("sitofp", element_of(value.type)), lanes_of(value.type))
        return from_single(code, self.kind.dtype, value.op("fdiv", by))

    def _weight(self, lane: IrValue, _bag: IrValue, _piece: IrValue) -> IrValue:
        return self.code.load(bits_of(self.kind.dtype), self.code.at(self.weights, lane * self.kind.dtype.size))

    def _multiplied(self, bits: IrValue, weight: IrValue) -> IrValue:
        code, kind = self.code, self.kind.dtype
        by = code.splat(single(code, kind, weight), lanes_of(bits.type))
        return from_single(code, kind, single(code, kind, bits) * by)

    def _is_own(self, lane: IrValue, bag: IrValue, piece: IrValue) -> IrValue:
        """Which elements of a piece are those of a lane."""
        code, count = self.code, self.kind.elements
        at = code.at(self.winners, (bag * self.across + piece) * (4 * count))
        winners = code.load(vector(I32, count), at, 4 * count)
        return winners.compare("eq", code.splat(lane.to("trunc", I32), count))

    def _kept(self, bits: IrValue, is_own: IrValue) -> IrValue:
        """Zero for the other elements: no sum that begins with zero is changed by it."""
        return self.code.select(is_own, bits, 0)
