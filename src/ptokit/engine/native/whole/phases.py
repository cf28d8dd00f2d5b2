"""The native functions behind whole-array moves, one text for each kind. `strategies` combines them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ptokit.engine.llvm.address import MemoryView
from ptokit.engine.llvm.emit import I1, I32, I64, PTR, IrBuilder, IrValue, element_of, lanes_of, size_of, vector
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.resolve import AT_ONCE, REMAPS, SENTINEL, emit_resolve, lane_of, taken
from ptokit.engine.native.whole.block import LANES_AT_ONCE, blocks, note, pieces, place, scratch, word
from ptokit.engine.native.whole.mover import ELEMENTS_AT_ONCE, LONG, Mover, Rows
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Index, IndexUnit, Remap, Side

STAGE = 8 << 10
"""Bytes of rows that are put together before they leave the caches."""
CHECKED_AT_ONCE = 16 * LANES_AT_ONCE
"""Index values that are only checked."""


@dataclass(frozen=True)
class Indices:
    """A kind of index array."""

    dtype: DType
    dense: bool
    """Whether values lie side by side."""
    remap: Remap
    cast: bool = True
    noted: bool = False
    """Whether a gather of elements keeps the greatest value; one of rows always does."""

    @property
    def lane(self) -> str:
        """The type of the lanes."""
        return lane_of(self.dtype)

    def index(self, code: IrBuilder, step: IrValue) -> Index:
        """The index of the move, with values that code knows."""
        one = Term(1) if self.dense else Term(step.op("udiv", self.dtype.size))  # type: ignore[arg-type]
        access = Access("indices", Layout((one,), ()))
        return Index(access, Side.SRC, IndexUnit.ROW, word(code, "capacity"), self.remap, cast=self.cast)  # type: ignore[arg-type]

    def resolve(
        self, code: IrBuilder, first: IrValue, count: IrValue, lanes: IrValue | None, kept: str | None = None
    ) -> IrValue:
        """Write the index stage for some lanes; returns the greatest value, which the block stores too."""
        step = word(code, "index_step")
        base, index = code.at(word(code, "index", PTR), first * step), self.index(code, step)
        region = MemoryView(base, index.access.layout, self.dtype.size)
        found = emit_resolve(code, index, self.dtype, region, (count, code.i64(1)), lanes, code.i64, kept)
        note(code, "greatest", found)
        return found


def resolve(code: IrBuilder, indices: Indices, narrow: bool, keep: bool) -> None:
    """Pieces of an index array into the block's lanes, as 32-bit ones if `narrow`; or only checked."""
    lane = I32 if narrow else indices.lane
    own = scratch(code)
    with shared(code, LANES_AT_ONCE if keep else CHECKED_AT_ONCE) as (first, count):
        there = code.at(word(code, "lanes", PTR), first * size_of(lane))
        straight = keep and (lane == indices.lane or indices.remap is Remap.REFUSE)
        kept = lane if straight else None
        target = (there if straight else own) if keep else None
        indices.resolve(code, first + word(code, "first"), count, target, kept)
        if keep and not straight:
            _narrowed(code, own, there, count)


@contextmanager
def shared(code: IrBuilder, at_once: int = LANES_AT_ONCE) -> Generator[tuple[IrValue, IrValue]]:
    """All lanes: pieces of them for each worker, in blocks; yields where a block begins and its length."""
    with pieces(code) as number:
        first, count = extent(code, number)
        with blocks(code, first, first + count, at_once) as block:
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
    if indices and rows.together and indices.dense and indices.remap in (Remap.CLAMP, Remap.ZERO):
        _gather_elements(code, rows, indices)
        return
    mover, own = Mover(code, rows), scratch(code)
    skips = indices is not None and indices.remap is Remap.SKIP  # then lines are not whole
    stage = _Stage(mover) if rows.stream and rows.nbytes < LONG and not skips else None
    with shared(code) as (first, count):
        if indices is None:
            lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
            greatest = word(code, "greatest")
        else:
            lanes = own
            greatest = indices.resolve(code, first, count, lanes)
        outside = greatest.compare("uge", word(code, "capacity"))
        remap = indices.remap if indices else Remap.ZERO
        if stage is None:
            _gather_block(code, mover, remap, outside, lanes, mover.item(first), count)
        else:
            with stage.parts(first, count) as (done, base, part):
                _gather_block(code, mover, remap, outside, code.at(lanes, done * size_of(rows.lane)), base, part)
    _end_streams(code, rows)


class ValuesInPlace:
    """Index values that are used where they lie, and the greatest of them."""

    def __init__(self, code: IrBuilder, indices: Indices) -> None:
        self.code, self.indices, self.base = code, indices, word(code, "index", PTR)
        self.index, self.capacity = indices.index(code, word(code, "index_step")), word(code, "capacity")
        self.step = code.i64(indices.dtype.size) if indices.dense else word(code, "index_step")
        kinds = {step: vector(indices.lane, step) for step in (1, ELEMENTS_AT_ONCE)}
        self.tops = {step: code.variable(kind, code.constant(kind, 0)) for step, kind in kinds.items()}
        remap = indices.remap in (Remap.CLAMP, Remap.WRAP) and REMAPS[indices.remap](code, indices.lane, self.capacity)
        self.remap: Callable[[IrValue], IrValue] = remap or (lambda value: value)

    def read(self, at: IrValue, step: int) -> IrValue:
        """One value, or several side by side, unchanged."""
        return taken(self.code, self.index, self.indices.dtype, self.code.at(self.base, at * self.step), step)

    def take(self, at: IrValue, step: int) -> IrValue:
        """The same, remapped to a row if the policy does so."""
        found = self.read(at, step)
        if self.indices.noted:
            top = self.tops[step]
            top.set(self.code.select(found.compare("ugt", top.get()), found, top.get()))
        return self.remap(found)

    def note(self) -> None:
        """Keep the greatest of all values in the block."""
        if self.indices.noted:
            many, one = self.tops[ELEMENTS_AT_ONCE].get(), self.tops[1].get()
            note(self.code, "greatest", self.code.reduce("umax", many).to("zext", I64))
            note(self.code, "greatest", one.to("zext", I64))


def _gather_elements(code: IrBuilder, rows: Rows, indices: Indices) -> None:
    """Elements with one instruction for many, straight from the index values."""
    mover, values = Mover(code, rows), ValuesInPlace(code, indices)
    inside = values.capacity if indices.remap is Remap.ZERO else None
    with shared(code) as (first, count):

        def lanes(k: IrValue, step: int, first: IrValue = first) -> IrValue:
            return values.take(first + k, step)

        mover.gather(count, lanes, mover.item(first), inside)
    values.note()


class _Stage:
    """Memory in the L1 cache where rows of a gather are put together, so that whole lines leave it."""

    def __init__(self, mover: Mover) -> None:
        self.mover, code = mover, mover.code
        room = code.memory(STAGE + 2 * LINE).to("ptrtoint", I64)
        self.start = (room + (LINE - 1)) & -LINE
        self.nbytes = mover.width * mover.rows.size
        self.lanes = code.i64(STAGE).op("udiv", self.nbytes)

    @contextmanager
    def parts(self, first: IrValue, count: IrValue) -> Generator[tuple[IrValue, IrValue, IrValue]]:
        """Lanes in parts that fit: lanes before it, where its rows are written, and their number."""
        code = self.mover.code
        with code.loop(0, count, self.lanes) as done:
            left = count - done
            part = code.select(left.compare("slt", self.lanes), left, self.lanes)
            there = self.mover.item(first + done)
            missed = there.to("ptrtoint", I64) & (LINE - 1)
            base = (self.start + missed).to("inttoptr", PTR)
            yield done, base, part
            self.mover.writer.stream([(there, base)], part * self.nbytes)


def _end_streams(code: IrBuilder, rows: Rows) -> None:
    if rows.stream:
        code.line("  fence seq_cst")  # stores past the caches are not ordered by themselves


def _gather_block(
    code: IrBuilder, mover: Mover, remap: Remap, outside: IrValue, lanes: IrValue, base: IrValue, count: IrValue
) -> None:
    def plain() -> None:
        mover.load_each(count, lanes, base)

    def checked() -> None:
        pair = mover.pairs(lanes, base)
        with code.loop(0, count) as k:
            is_outside, (cell, item) = mover.lane(lanes, k).compare("eq", SENTINEL), pair(k)
            if remap is Remap.SKIP:
                code.choose(is_outside, lambda: None, lambda: mover.load(cell, item))
            else:
                code.choose(is_outside, lambda: mover.zero(item), lambda: mover.load(cell, item))

    if remap in (Remap.CLAMP, Remap.WRAP):
        plain()
    elif remap is Remap.REFUSE:
        with code.when(outside ^ 1):
            plain()
    else:
        code.choose(outside, checked, plain)


def scatter(code: IrBuilder, rows: Rows) -> None:
    """A worker's share of a scatter: the lanes in its range of destinations, in order."""
    mover, share = Mover(code, rows), _Share(code)
    lanes, total = word(code, "lanes", PTR), word(code, "count")

    def take_all(first: IrValue, count: IrValue) -> None:
        mover.store_each(count, mover.pairs(code.at(lanes, first * size_of(rows.lane)), mover.item(first)))

    def take_some(first: IrValue, count: IrValue) -> None:
        here = code.at(lanes, first * size_of(rows.lane))
        pair = mover.pairs(here, mover.item(first), lambda q: picked(code, own, q))
        mover.store_each(_inside(code, mover, own, here, count, share.low, share.high - share.low), pair)

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
    _end_streams(code, rows)


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
    """A worker's range of destinations."""

    def __init__(self, code: IrBuilder) -> None:
        self.code = code
        at = code.at(word(code, "shards", PTR), code.arguments[1] * 16)
        self.low, self.high = (code.load(I64, code.at(at, 8 * k)) for k in range(2))

    def has(self, lane: IrValue) -> IrValue:
        """Whether a lane is the worker's; a lane outside the table belongs to no worker."""
        return (lane - self.low).compare("ult", self.high - self.low)


def compacted(
    code: IrBuilder, own: IrValue, count: IrValue, keeps: Callable[[IrValue, int], IrValue], at_once: int = 1
) -> IrValue:
    """Numbers below a count for which `keeps` holds, stored side by side without a branch; returns how many.

    `keeps` takes a number, and how many from there on it shall judge: `at_once`, and one for the rest.
    """
    kept = code.variable(I64, code.i64(0))
    for k, step in code.strips(count, at_once):
        at, number, keep = kept.get(), k.to("trunc", I32), keeps(k, step)
        after = f"<{', '.join(f'i32 {lane}' for lane in range(step))}>"
        numbers = code.splat(number, step) + IrValue(code, vector(I32, step), after) if step > 1 else number
        kept.set(at + packed(code, numbers, keep, code.at(own, at * 4)))
    last = kept.get()
    zero = code.constant("<16 x i32>", 0)
    for line in range(4):  # prefetching reads beyond the last
        code.store(zero, code.at(own, last * 4 + 64 * line), 4)
    return last


def packed(code: IrBuilder, values: IrValue, keep: IrValue, place: IrValue) -> IrValue:
    """Store a value, or those of a vector that are kept, side by side, and anything behind them; returns how many."""
    many, step = values.type, lanes_of(values.type)
    if step == 1:
        code.store(values, place)
        return keep.to("zext", I64)
    bits = f"i{step}"
    name = f"llvm.experimental.vector.compress.v{step}{element_of(many)}"
    code.store(code.call(many, name, values, keep, f"{many} poison"), place)
    mask = code.write(bits, f"bitcast {keep!r} to {bits}")
    found = code.call(bits, f"llvm.ctpop.{bits}", mask)
    return found.to("zext", I64)


def _inside(
    code: IrBuilder, mover: Mover, own: IrValue, lanes: IrValue, count: IrValue, low: IrValue, extent: IrValue
) -> IrValue:
    """Numbers of the lanes that name one of `extent` rows from `low` on, stored side by side; returns how many."""

    def keeps(k: IrValue, step: int) -> IrValue:
        lane = mover.lane(lanes, k, step).to("zext", vector(I64, step))
        return (lane - code.splat(low, step)).compare("ult", code.splat(extent, step))

    return compacted(code, own, count, keeps, 8 if mover.rows.packs else 1)


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
    with shared(code) as (first, count):
        here = code.at(lanes, first * size_of(rows.lane))
        pair = mover.pairs(here, mover.item(first), lambda q: picked(code, own, q))

        def wins(k: IrValue, _step: int, first: IrValue = first, here: IrValue = here) -> IrValue:
            lane = mover.lane(here, k).to("zext", I64)
            inside = code.select(lane.compare("ult", capacity), lane, 0)  # whose last writer it is not
            return code.load(I32, code.at(writers, inside * 4)).compare("eq", (first + k + 1).to("trunc", I32))

        mover.store_each(compacted(code, own, count, wins), pair)
    _end_streams(code, rows)


def find_repeats(code: IrBuilder, rows: Rows) -> None:
    """Whether two lanes name one row, by a bit for each row; ends at the first block of lanes with a repeat."""
    (lanes, marks), own = (word(code, name, PTR) for name in ("lanes", "marks")), scratch(code)
    capacity = word(code, "capacity")
    with code.until() as done, blocks(code, code.i64(0), word(code, "count"), LANES_AT_ONCE) as (first, count):
        here, seen = code.at(lanes, first * size_of(rows.lane)), code.variable(I64, code.i64(0))
        with code.loop(0, count) as k:
            lane = code.load(rows.lane, code.at(here, k * size_of(rows.lane))).to("zext", I64)
            is_inside = lane.compare("ult", capacity)
            at = code.select(is_inside, code.at(marks, (lane >> 6) * 8), own)
            bit, old = code.i64(1) << (lane & 63), code.load(I64, at)
            code.store(old | bit, at)
            seen.set(seen.get() | code.select(is_inside, old & bit, 0))
        code.store(seen.get(), place(code, "repeats"))
        code.leave_if(seen.get().compare("ne", 0), done)


def store_lanes(code: IrBuilder, rows: Rows) -> None:
    """Blocks of lanes that name different rows."""
    mover, own, whole = Mover(code, rows), scratch(code), word(code, "whole").compare("ne", 0)
    lanes, capacity = word(code, "lanes", PTR), word(code, "capacity")
    with shared(code) as (first, count):
        here, items = code.at(lanes, first * size_of(rows.lane)), mover.item(first)

        def take_some(here: IrValue = here, items: IrValue = items, count: IrValue = count) -> None:
            pair = mover.pairs(here, items, lambda q: picked(code, own, q))
            mover.store_each(_inside(code, mover, own, here, count, code.i64(0), capacity), pair)

        def take_all(here: IrValue = here, items: IrValue = items, count: IrValue = count) -> None:
            mover.store_each(count, mover.pairs(here, items))

        code.choose(whole, take_all, take_some)
    _end_streams(code, rows)
