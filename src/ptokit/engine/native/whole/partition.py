"""A stable partition of single elements: lanes go to buckets of neighbouring cells, each with its element.

A worker has a slice of the lanes and a cursor for every bucket. What it has for a bucket is one segment of memory, so a
bucket has as many segments as there are workers, in the order of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable

from ptokit.engine.llvm.emit import I64, PTR, IrBuilder, IrValue, size_of
from ptokit.engine.llvm.move import LINE
from ptokit.engine.native.whole.block import LANES_AT_ONCE, blocks, pieces, poll, word
from ptokit.engine.native.whole.mover import Mover, Rows

TABLES = 4
"""Tables in which lanes are counted in rotation: one table would stall if neighbours have the same bucket."""


def pair_of(size: int) -> int:
    """Bytes that a destination inside its bucket and an element take together."""
    return {1: 4, 2: 4, 4: 8, 8: 16}[size]


def local_bits(size: int) -> int:
    """Bits of a destination inside its bucket."""
    return {1: 24, 2: 16, 4: 31, 8: 62}[size]


def count_lanes(code: IrBuilder, rows: Rows, marked: bool) -> None:
    """How many lanes of the worker's slice go to each bucket; `marked` if some may be outside."""
    lanes, tables = word(code, "lanes", PTR), [_Cursors(code, marked, number) for number in range(TABLES)]

    def count_lane(k: IrValue, table: int) -> None:
        tables[table].next(_lane(code, rows, lanes, k))

    _over_slice(code, count_lane)


def spread_lanes(code: IrBuilder, rows: Rows, marked: bool) -> None:
    """The lanes of the worker's slice to their buckets, each with its element."""
    mover, lanes, size = Mover(code, rows), word(code, "lanes", PTR), rows.size
    cursors, pairs = _Cursors(code, marked), word(code, "pairs", PTR)
    mask = (code.i64(1) << word(code, "shift")) - 1

    def spread_lane(k: IrValue, _: int) -> None:
        lane = _lane(code, rows, lanes, k)
        value = code.load(f"i{8 * size}", mover.item(k), 1)
        there = code.at(pairs, cursors.next(lane) * pair_of(size))
        code.prefetch(code.at(there, LINE), to_write=True)  # where the bucket goes on
        _pack(code, lane & mask, value, there)

    _over_slice(code, spread_lane)


def settle_buckets(code: IrBuilder, rows: Rows) -> None:
    """Buckets, each in the order of its lanes, into the table."""
    mover, pairs, size = Mover(code, rows), word(code, "pairs", PTR), rows.size
    pair, segments, workers = pair_of(size), word(code, "segments", PTR), word(code, "workers")
    with pieces(code, "buckets", single=True) as bucket:
        base = code.at(mover.table, (bucket << word(code, "shift")) * mover.table_row)
        with code.until() as done, code.loop(bucket * workers, (bucket + 1) * workers) as number:
            begin, end = (code.load(I64, code.at(segments, number * 16 + 8 * k)) for k in range(2))
            with code.loop(begin, end, LANES_AT_ONCE) as first:
                poll(code, done)
                here, left = code.at(pairs, first * pair), end - first
                count = code.select(left.compare("slt", LANES_AT_ONCE), left, LANES_AT_ONCE)

                def pair_at(k: IrValue, here: IrValue = here) -> tuple[IrValue, IrValue]:
                    local = code.load(I64 if size == 8 else f"i{8 * pair}", code.at(here, k * pair))
                    local = local if size == 8 else (local >> 8 * size).to("zext", I64)
                    return code.at(base, local * mover.table_row), code.at(here, k * pair + (8 if size == 8 else 0))

                mover.store_each(count, pair_at)


def _lane(code: IrBuilder, rows: Rows, lanes: IrValue, k: IrValue) -> IrValue:
    return code.load(rows.lane, code.at(lanes, k * size_of(rows.lane))).to("zext", I64)


def slice_of(code: IrBuilder) -> tuple[IrValue, IrValue]:
    """The worker's share of the lanes."""
    worker, workers, total = code.arguments[1], word(code, "workers"), word(code, "count")
    return (worker * total).op("udiv", workers), ((worker + 1) * total).op("udiv", workers)


def _over_slice(code: IrBuilder, visit: Callable[[IrValue, int], None]) -> None:
    """`visit(k, table)` for every lane of the worker's slice; tables take turns."""
    start, stop = slice_of(code)
    with blocks(code, start, stop, LANES_AT_ONCE) as (first, count):
        whole = first + (count - (count & (TABLES - 1)))
        with code.loop(first, whole, TABLES) as k:
            for table in range(TABLES):
                visit(k + table, table)
        with code.loop(whole, first + count) as k:
            visit(k, 0)


class _Cursors:
    """The worker's place in each bucket; lanes that are outside have a bucket of their own behind the others."""

    def __init__(self, code: IrBuilder, marked: bool, table: int = 0) -> None:
        self.code, self.marked = code, marked
        self.shift, self.buckets = word(code, "shift"), word(code, "buckets")
        number = code.arguments[1] * TABLES + table
        self.base = code.at(word(code, "counts", PTR), number * (self.buckets + 1) * 8)

    def next(self, lane: IrValue) -> IrValue:
        """The place of a lane; the cursor of its bucket advances."""
        bucket = lane >> self.shift
        if self.marked:
            inside = lane.compare("ult", word(self.code, "capacity"))
            bucket = self.code.select(inside, bucket, self.buckets)
        cursor = self.code.at(self.base, bucket * 8)
        found = self.code.load(I64, cursor)
        self.code.store(found + 1, cursor)
        return found


def _pack(code: IrBuilder, local: IrValue, value: IrValue, there: IrValue) -> None:
    size = size_of(value.type)
    if size == 8:
        code.store(local, there)
        code.store(value, code.at(there, 8))
        return
    kind = f"i{8 * pair_of(size)}"
    code.store((local.to("trunc", kind) << 8 * size) | value.to("zext", kind), there)
