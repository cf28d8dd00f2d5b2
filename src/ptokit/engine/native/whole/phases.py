"""The native functions behind whole-array moves, one text for each kind. `strategies` combines them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.emit import I1, I32, I64, PTR, IrBuilder, IrValue, size_of, vector
from ptokit.engine.llvm.resolve import AT_ONCE, SENTINEL, emit_resolve, lane_of
from ptokit.engine.native.whole.block import LANES_AT_ONCE, blocks, note, pieces, scratch, word
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Index, IndexUnit, Remap, Side


@dataclass(frozen=True)
class Indices:
    """A kind of index array."""

    dtype: DType
    dense: bool
    """Whether values lie side by side."""
    remap: Remap
    cast: bool = True

    @property
    def key(self) -> str:
        """All of it, as text."""
        return f"{self.dtype.name} {self.dense:d} {self.remap.name} {self.cast:d}"

    @property
    def lane(self) -> str:
        """The type of the lanes."""
        return lane_of(self.dtype)

    def resolve(
        self, code: IrBuilder, first: IrValue, count: IrValue, lanes: IrValue, kept: str | None = None
    ) -> IrValue:
        """Write the index stage for some lanes; returns the greatest value, which the block stores too."""
        step = word(code, "index_step")
        base = code.at(word(code, "index", PTR), first * step)
        one = Term(1) if self.dense else Term(step.op("udiv", self.dtype.size))  # type: ignore[arg-type]
        access = Access("indices", Layout((one,), ()))
        index = Index(access, Side.SRC, IndexUnit.ROW, word(code, "capacity"), self.remap, cast=self.cast)  # type: ignore[arg-type]
        region = MemoryView(base, access.layout, self.dtype.size)
        found = emit_resolve(code, index, self.dtype, region, (count, code.i64(1)), lanes, code.i64, kept)
        note(code, "greatest", found)
        return found


def resolve(code: IrBuilder, indices: Indices, narrow: bool, keep: bool) -> None:
    """Pieces of an index array into the block's lanes, as 32-bit ones if `narrow`; or only checked."""
    lane = I32 if narrow else indices.lane
    own = scratch(code)
    with _shared(code) as (first, count):
        there = code.at(word(code, "lanes", PTR), first * size_of(lane))
        straight = keep and (lane == indices.lane or indices.remap is Remap.REFUSE)
        kept = lane if straight else None
        indices.resolve(code, first + word(code, "first"), count, there if straight else own, kept)
        if keep and not straight:
            _narrowed(code, own, there, count)


@contextmanager
def _shared(code: IrBuilder) -> Generator[tuple[IrValue, IrValue]]:
    """All lanes: pieces of them for each worker, in blocks; yields where a block begins and its length."""
    with pieces(code) as number:
        first, count = extent(code, number)
        with blocks(code, first, first + count, LANES_AT_ONCE) as block:
            yield block


def extent(code: IrBuilder, number: IrValue, total: str = "count", each: str = "piece") -> tuple[IrValue, IrValue]:
    """Where a piece begins, and its length."""
    piece = word(code, each)
    first = number * piece
    left = word(code, total) - first
    return first, code.select(left.compare("slt", piece), left, piece)


def _narrowed(code: IrBuilder, wide: IrValue, lanes: IrValue, count: IrValue) -> None:
    """64-bit lanes as 32-bit ones."""
    for k, step in code.strips(count, AT_ONCE[I64]):
        found = code.load(vector(I64, step), code.at(wide, k * 8))
        code.store(found.to("trunc", vector(I32, step)), code.at(lanes, k * 4))


def gather(code: IrBuilder, rows: Rows, indices: Indices | None) -> None:
    """Blocks of a gather: resolved just before they are moved, or from lanes that were (where `indices` is None).

    A block with a value outside that is refused is not moved. (Only calls of one block are refused so late.)
    """
    mover, own = Mover(code, rows), scratch(code)
    with _shared(code) as (first, count):
        if indices is None:
            lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
            greatest = word(code, "greatest")
        else:
            lanes = own
            greatest = indices.resolve(code, first, count, lanes)
        outside = greatest.compare("uge", word(code, "capacity"))
        remap = indices.remap if indices else Remap.ZERO
        _gather_block(code, mover, remap, outside, lanes, first, count)
    if rows.stream:
        code.line("  fence seq_cst")  # stores past the caches are not ordered by themselves


def _gather_block(
    code: IrBuilder, mover: Mover, remap: Remap, outside: IrValue, lanes: IrValue, first: IrValue, count: IrValue
) -> None:
    pair = mover.pairs(lanes, first)

    def plain() -> None:
        mover.load_each(count, pair)

    def checked() -> None:
        with code.loop(0, count) as k:
            is_outside, (cell, item) = mover.lane(lanes, k).compare("eq", SENTINEL), pair(k)
            code.choose(is_outside, lambda: mover.zero(item), lambda: mover.load(cell, item))

    if remap in (Remap.CLAMP, Remap.WRAP):
        plain()
    elif remap is Remap.REFUSE:
        with code.when(outside ^ 1):
            plain()
    else:
        code.choose(outside, checked, plain)


def scatter(code: IrBuilder, rows: Rows) -> None:
    """A worker's share of a scatter: the lanes in its range of destinations, its columns of them, in order."""
    mover, share = Mover(code, rows), _Share(code)
    mover.table = code.at(mover.table, share.column * mover.table_col)
    mover.other = code.at(mover.other, share.column * mover.other_col)
    if not rows.width:
        mover.width = share.columns
    lanes, total = word(code, "lanes", PTR), word(code, "count")

    def take_all(first: IrValue, count: IrValue) -> None:
        mover.store_each(count, mover.pairs(code.at(lanes, first * size_of(rows.lane)), first))

    def take_some(first: IrValue, count: IrValue) -> None:
        here = code.at(lanes, first * size_of(rows.lane))
        pair = mover.pairs(here, first, lambda q: picked(code, own, q))
        mover.store_each(compacted(code, own, count, lambda k: share.has(mover.lane(here, k).to("zext", I64))), pair)

    def take_one(first: IrValue, count: IrValue) -> None:
        here = code.at(lanes, first * size_of(rows.lane))
        mover.store_all(mover.cell(mover.lane(here, code.i64(0))), mover.item(first), count)

    own, whole = scratch(code), word(code, "whole").compare("ne", 0)
    with blocks(code, code.i64(0), total, LANES_AT_ONCE) as (first, count):
        low, high = code.variable(I64, share.low), code.variable(I64, share.high)
        with code.when(whole ^ 1 if not rows.same else code.constant(I1, 1)):
            here = code.at(lanes, first * size_of(rows.lane))
            least, greatest = _extremes(code, rows.lane, here, count)
            low.set(least)
            high.set(greatest)
        is_mine = low.get().compare("uge", share.low) & high.get().compare("ult", share.high)
        is_nobody = low.get().compare("uge", share.high) | high.get().compare("ult", share.low)
        is_one = low.get().compare("eq", high.get())

        def all_mine(first: IrValue = first, count: IrValue = count, is_one: IrValue = is_one) -> None:
            if rows.same:
                code.choose(is_one, lambda: take_one(first, count), lambda: take_all(first, count))
            else:
                take_all(first, count)

        def not_all(first: IrValue = first, count: IrValue = count, is_nobody: IrValue = is_nobody) -> None:
            with code.when(is_nobody ^ 1):
                take_some(first, count)

        code.choose(is_mine | whole, all_mine, not_all)


def _extremes(code: IrBuilder, lane: str, lanes: IrValue, count: IrValue) -> tuple[IrValue, IrValue]:
    """The least and the greatest of some lanes, unsigned."""
    wide, found = AT_ONCE[lane], list[IrValue]()
    first = code.load(lane, lanes)
    for how, name in (("ult", "umin"), ("ugt", "umax")):
        many, one = code.variable(vector(lane, wide), code.splat(first, wide)), code.variable(lane, first)
        for k, step in code.strips(count, wide):
            best = many if step > 1 else one
            value = code.load(vector(lane, step), code.at(lanes, k * size_of(lane)))
            best.set(code.select(value.compare(how, best.get()), value, best.get()))
        most = code.reduce(name, many.get())
        found.append(code.select(most.compare(how, one.get()), most, one.get()).to("zext", I64))
    return found[0], found[1]


class _Share:
    """A worker's range of destinations and of columns."""

    def __init__(self, code: IrBuilder) -> None:
        self.code = code
        at = code.at(word(code, "shards", PTR), code.arguments[1] * 32)
        self.low, self.high, self.column, self.columns = (code.load(I64, code.at(at, 8 * k)) for k in range(4))

    def has(self, lane: IrValue) -> IrValue:
        """Whether a lane is the worker's; a lane outside the table belongs to no worker."""
        return (lane - self.low).compare("ult", self.high - self.low)


def compacted(code: IrBuilder, own: IrValue, count: IrValue, keeps: Callable[[IrValue], IrValue]) -> IrValue:
    """Numbers below a count for which `keeps` holds, stored side by side without a branch; returns how many."""
    kept = code.variable(I64, code.i64(0))
    with code.loop(0, count) as k:
        at = kept.get()
        code.store(k.to("trunc", I32), code.at(own, at * 4))
        kept.set(at + keeps(k).to("zext", I64))
    last = kept.get()
    zero = code.constant("<16 x i32>", 0)
    for line in range(4):  # prefetching reads beyond the last
        code.store(zero, code.at(own, last * 4 + 64 * line), 4)
    return last


def picked(code: IrBuilder, own: IrValue, q: IrValue) -> IrValue:
    """A number that `compacted` kept."""
    return code.load(I32, code.at(own, q * 4)).to("zext", I64)


def mark_writers(code: IrBuilder, rows: Rows) -> None:
    """For each destination in the worker's range, the last lane that names it, counted from 1."""
    share, writers = _Share(code), word(code, "writers", PTR)
    lanes, total, own = word(code, "lanes", PTR), word(code, "count"), scratch(code)
    some = share.low.compare("ult", share.high)
    first_mark = code.select(some, code.at(writers, share.low * 4), own)  # lanes outside read that of row 0
    code.store(code.constant(I32, 0), first_mark)
    with blocks(code, code.i64(0), total, LANES_AT_ONCE) as (first, count):
        here = code.at(lanes, first * size_of(rows.lane))
        with code.loop(0, count) as k:
            lane = code.load(rows.lane, code.at(here, k * size_of(rows.lane))).to("zext", I64)
            there = code.select(share.has(lane), code.at(writers, lane * 4), own)
            code.store((first + k + 1).to("trunc", I32), there)


def store_winners(code: IrBuilder, rows: Rows) -> None:
    """Blocks of lanes: each that is the last writer of its row stores it."""
    mover, own, writers = Mover(code, rows), scratch(code), word(code, "writers", PTR)
    lanes, capacity = word(code, "lanes", PTR), word(code, "capacity")
    with _shared(code) as (first, count):
        here = code.at(lanes, first * size_of(rows.lane))
        pair = mover.pairs(here, first, lambda q: picked(code, own, q))

        def wins(k: IrValue, first: IrValue = first, here: IrValue = here) -> IrValue:
            lane = mover.lane(here, k).to("zext", I64)
            inside = code.select(lane.compare("ult", capacity), lane, 0)  # whose last writer it is not
            return code.load(I32, code.at(writers, inside * 4)).compare("eq", (first + k + 1).to("trunc", I32))

        mover.store_each(compacted(code, own, count, wins), pair)
