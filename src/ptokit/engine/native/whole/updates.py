"""Sums of gradients by row, stored or applied to a table: lanes are sorted by row, and each row is done once.

Three phases, each with units that threads take one by one. `own` writes the bag of each lane, if lanes have weights or
elements of their own. `group` picks the lanes of a range of rows and sorts them by row; the sort is stable. `apply`
sums the gradients of each row, in the order of the lanes, and does what the rule says (`engine/llvm/row_code.py`). No
two units have a row in common, so bits do not depend on the number of threads.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ptokit.engine.llvm.bag_code import in_columns
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.row_code import RowCode, UpdateKind, of_job
from ptokit.engine.native.whole.block import of_unit, put_unit
from ptokit.isa.dtype import DType

DIGIT = 11
"""Bits of a key that one pass of the sort looks at."""
COLUMNS = 256
"""Bytes of sums that registers hold."""
AHEAD = 8
"""Rows after which a row of the table is needed that is prefetched now."""


def _of_job(code: IrBuilder, name: str, kind: str = I64) -> IrValue:
    return of_job(code, of_unit(code, "job", PTR), name, kind)


def own(code: IrBuilder) -> None:
    """Write the bag of each lane of a range of bags."""
    owners = _of_job(code, "owners", PTR)
    with code.loop(of_unit(code, "low"), of_unit(code, "high")) as bag, _lanes_of(code, bag) as lane:
        code.store(bag.to("trunc", I32), code.at(owners, lane * 4))


def _lanes_of(code: IrBuilder, bag: IrValue) -> AbstractContextManager[IrValue]:
    """The lanes of a bag; bounds may be anything."""
    bounds, first, last = _of_job(code, "bounds", PTR), _of_job(code, "first"), _of_job(code, "last")

    def bound(number: IrValue) -> IrValue:
        found = code.load(I64, code.at(bounds, number * 8))
        found = code.select(found.compare("slt", first), first, found)
        return code.select(found.compare("sgt", last), last, found)

    begin, end = bound(bag), bound(bag + 1)
    return code.loop(begin, end)


def group(code: IrBuilder, index: DType, by_bag: bool) -> None:
    """Pick the lanes that name a row of a range, and sort them by row; keys have their bags if `by_bag`."""
    source, target = (code.variable(PTR, of_unit(code, name, PTR)) for name in ("keys", "spare"))
    indices, low, keys = _of_job(code, "indices", PTR), of_unit(code, "low"), source.get()
    padding, span = _of_job(code, "padding"), of_unit(code, "high") - low
    count = code.variable(I64, code.i64(0))
    room = _of_job(code, "last") - _of_job(code, "first")

    def pick(lane: IrValue, number: IrValue) -> None:
        name = code.load(f"i{8 * index.size}", code.at(indices, lane * index.size)).to("zext", I64)
        row, n = name - low, count.get()
        is_inside = row.compare("ult", span) & name.compare("ne", padding)
        code.store(row << 32 | number, code.at(keys, n * 8))
        n = n + is_inside.to("zext", I64)
        count.set(code.select(n.compare("slt", room), n, room) if by_bag else n)  # whatever the bounds are

    if by_bag:
        with code.loop(0, _of_job(code, "bags")) as bag, _lanes_of(code, bag) as lane:
            pick(lane, bag)
    else:
        with code.loop(_of_job(code, "first"), _of_job(code, "last")) as lane:
            pick(lane, lane)
    counts = code.memory(8 << DIGIT)
    with code.loop(0, of_unit(code, "passes")) as number:
        _sort(code, counts, number * DIGIT + 32, count.get(), source.get(), target.get())
        before = source.get()
        source.set(target.get())
        target.set(before)
    keys, rows = source.get(), code.variable(I64, code.i64(0))
    last = code.variable(I64, code.i64(-1))
    with code.loop(0, count.get()) as k:
        row = code.load(I64, code.at(keys, k * 8)) >> 32
        rows.set(rows.get() + row.compare("ne", last.get()).to("zext", I64))
        last.set(row)
    for name, value in (("keys", keys), ("count", count.get()), ("rows", rows.get())):
        put_unit(code, name, value)


def _sort(code: IrBuilder, counts: IrValue, shift: IrValue, n: IrValue, source: IrValue, target: IrValue) -> None:
    """Sort keys by some of their bits, and leave equal ones in their order."""

    def place_of(key: IrValue) -> IrValue:
        return code.at(counts, (key >> shift & ((1 << DIGIT) - 1)) * 8)

    code.fill_bytes(counts, 0, code.i64(8 << DIGIT))
    with code.loop(0, n) as k:
        place = place_of(code.load(I64, code.at(source, k * 8)))
        code.store(code.load(I64, place) + 1, place)
    total = code.variable(I64, code.i64(0))
    with code.loop(0, 1 << DIGIT) as digit:
        place, before = code.at(counts, digit * 8), total.get()
        total.set(before + code.load(I64, place))
        code.store(before, place)
    with code.loop(0, n) as k:
        key = code.load(I64, code.at(source, k * 8))
        place = place_of(key)
        at = code.load(I64, place)
        code.store(key, code.at(target, at * 8))
        code.store(at + 1, place)


def apply(code: IrBuilder, kind: UpdateKind) -> None:
    """Sum the gradients of each row, and do what the rule says."""
    rows = _Rows(code, kind)
    q, out = code.variable(I64, code.i64(0)), code.variable(I64, of_unit(code, "out"))
    count = of_unit(code, "count")
    with code.repeat(lambda: q.get().compare("slt", count)):
        first = q.get()
        key = rows.key(first)
        if kind.rule != "store":
            ahead = first + AHEAD
            rows.prefetch(rows.row_of(rows.key(code.select(ahead.compare("slt", count), ahead, first))))
        q.set(first + 1)
        with code.repeat(lambda: rows.is_more(q.get(), count, key)):
            q.set(q.get() + 1)
        rows.finish_keys(rows.row_of(key), out.get(), first, q.get())
        out.set(out.get() + 1)


class _Rows(RowCode):
    """The rows of a unit, one after the other."""

    def __init__(self, code: IrBuilder, kind: UpdateKind) -> None:
        super().__init__(code, kind, of_unit(code, "job", PTR))
        self.keys, self.low = of_unit(code, "keys", PTR), of_unit(code, "low")

    def key(self, k: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(self.keys, k * 8))

    def row_of(self, key: IrValue) -> IrValue:
        return (key >> 32) + self.low

    def is_more(self, k: IrValue, count: IrValue, key: IrValue) -> IrValue:
        """Whether there is one more key, of the row of another."""
        code, is_there = self.code, k.compare("slt", count)
        other = self.key(code.select(is_there, k, 0))
        return is_there & (other >> 32).compare("eq", key >> 32)

    def prefetch(self, row: IrValue) -> None:
        """Let the caches take a row that is to be written."""
        code = self.code
        areas = [(self.table, self.kind.width * self.size)]
        if self.kind.rule in ("adagrad", "rowwise_adagrad"):
            areas.append((self.state, self.sum_size * (1 if self.by_row else self.kind.width)))
        for start, nbytes in areas:
            place = code.at(start, row * nbytes)
            for line in range(0, min(nbytes, 8 * LINE), LINE):
                code.prefetch(code.at(place, line), to_write=True, locality=3)

    def finish_keys(self, row: IrValue, out: IrValue, first: IrValue, last: IrValue) -> None:
        """Sum a row of keys from the first to the last, and do what the rule says."""
        code, kind, wide = self.code, self.kind, COLUMNS // self.sum_size

        def summed(column: IrValue, count: int) -> IrValue:
            total = self.none(count)
            with code.loop(first, last) as k:
                lane = self.key(k) & 0xFFFFFFFF
                bits = self.addend(lane, self.owner(lane), column, count)
                total.set(self.added(total.get(), bits))
            return total.get()

        self.finish(row, out, summed, lambda do: in_columns(code, kind.width, wide, do))
