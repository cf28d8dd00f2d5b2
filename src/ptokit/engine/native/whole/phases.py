"""The native functions behind whole-array moves, one text for each kind. What they do together is in `strategies`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptokit.engine.native.address import Place
from ptokit.engine.native.compute.elements import from_single, single
from ptokit.engine.native.emit import I1, I32, I64, PTR, Code, Module, Value, size_of, vector
from ptokit.engine.native.numbers import bits_of
from ptokit.engine.native.resolve import AT_ONCE, SENTINEL, emit_resolve, lane_of
from ptokit.engine.native.whole.block import (
    LANES_AT_ONCE,
    PICKED,
    blocks,
    function,
    note,
    pieces,
    place,
    poll,
    scratch,
    word,
)  # fmt: skip
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, Term
from ptokit.isa.move import Access, Index, Remap, Side, Unit

ENOUGH = 1 << 48
"""A number of a piece that is past all of them, and whose first lane is still a number."""


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
        """The type of the lanes that come out."""
        return lane_of(self.dtype)

    def resolve(
        self, module: Module, code: Code, first: Value, count: Value, lanes: Value, kept: str | None = None
    ) -> Value:
        """Write the index stage for some lanes; gives the greatest value, which the block keeps too."""
        step = word(code, "index_step")
        base = code.at(word(code, "index", PTR), first * step)
        one = Term(1) if self.dense else Term(step.op("udiv", self.dtype.size))  # type: ignore[arg-type]
        access = Access("indices", Layout((one,), ()))
        index = Index(access, Side.SRC, Unit.ROW, word(code, "capacity"), self.remap, cast=self.cast)  # type: ignore[arg-type]
        region = Place(base, access.layout, self.dtype.size)
        found = emit_resolve(
            module, code, index, self.dtype, region, count, code.i64(1), lanes,
            lambda number: number if isinstance(number, Value) else code.i64(number), kept,
        )  # fmt: skip
        note(code, "greatest", found)
        return found


def resolve(indices: Indices, narrow: bool, keep: bool) -> str:
    """Pieces of an index array into the block's lanes, as 32-bit ones where asked; or only looked at."""
    module = Module()
    code = function(module, "resolve")
    lane = I32 if narrow else indices.lane
    own = scratch(code)
    with pieces(code) as number:
        first, count = _extent(code, number)
        there = code.at(word(code, "lanes", PTR), first * size_of(lane))
        straight = keep and (lane == indices.lane or indices.remap is Remap.REFUSE)
        kept = lane if straight else None
        indices.resolve(module, code, first + word(code, "first"), count, there if straight else own, kept)
        if keep and not straight:
            _narrowed(code, own, there, count)
    code.give()
    return module.text


def _extent(code: Code, number: Value, total: str = "count", each: str = "piece") -> tuple[Value, Value]:
    """Where a piece begins, and its length."""
    piece = word(code, each)
    first = number * piece
    left = word(code, total) - first
    return first, code.select(left.compare("slt", piece), left, piece)


def _narrowed(code: Code, wide: Value, lanes: Value, count: Value) -> None:
    """64-bit lanes as 32-bit ones."""
    at_once = AT_ONCE[I64]
    whole = count - (count & (at_once - 1))
    for first, last, step in ((code.i64(0), whole, at_once), (whole, count, 1)):
        with code.loop(first, last, step) as k:
            found = code.load(f"<{step} x i64>" if step > 1 else I64, code.at(wide, k * 8))
            code.store(found.to("trunc", f"<{step} x i32>" if step > 1 else I32), code.at(lanes, k * 4))


def gather(rows: Rows, indices: Indices | None) -> str:
    """Pieces of a gather: resolved just before they are moved, or from lanes that were (where `indices` is None).

    A piece with a value outside that is refused is not moved, and ends the work.
    """
    module = Module()
    code = function(module, "gather")
    mover, own = Mover(module, code, rows), scratch(code)
    with pieces(code) as number:
        first, count = _extent(code, number)
        if indices is None:
            lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
            greatest = word(code, "greatest")
        else:
            lanes = own
            greatest = indices.resolve(module, code, first, count, lanes)
        outside = greatest.compare("uge", word(code, "capacity"))
        remap = indices.remap if indices else Remap.ZERO
        _gather_piece(code, mover, remap, outside, lanes, first, count)
    if rows.stream:
        code.line("  fence seq_cst")  # stores past the caches are not ordered by themselves
    code.give()
    return module.text


def _gather_piece(
    code: Code, mover: Mover, remap: Remap, outside: Value, lanes: Value, first: Value, count: Value
) -> None:
    base = mover.item(first)

    def fetch(k: Value) -> None:
        mover.fetch(mover.cell(mover.lane(lanes, k)))

    def item(k: Value) -> Value:
        return code.at(base, k * mover.other_row)

    def plain() -> None:
        mover.each(count, fetch, lambda k: mover.load(item(k), mover.cell(mover.lane(lanes, k))))

    def checked() -> None:
        with code.loop(0, count) as k:
            lane, here = mover.lane(lanes, k), item(k)
            code.choose(
                lane.compare("eq", SENTINEL),
                lambda: mover.zero(here),
                lambda: mover.load(here, mover.cell(lane)),
            )

    def end() -> None:
        code.store(code.i64(ENOUGH), place(code, "counter"))

    if remap in (Remap.CLAMP, Remap.WRAP):
        plain()
    else:
        code.choose(outside, end if remap is Remap.REFUSE else checked, plain)


def scatter(rows: Rows) -> str:
    """A worker's share of a scatter: the lanes in its range of destinations, its columns of them, in order."""
    module = Module()
    code = function(module, "scatter")
    mover, share = Mover(module, code, rows), _Share(code)
    mover.table = code.at(mover.table, share.column * mover.table_col)
    mover.other = code.at(mover.other, share.column * mover.other_col)
    if not rows.width:
        mover.width = share.columns
    lanes, total = word(code, "lanes", PTR), word(code, "count")

    def take_all(first: Value, count: Value) -> None:
        here = code.at(lanes, first * size_of(rows.lane))
        base = mover.item(first)

        def ends(k: Value) -> tuple[Value, Value]:
            return mover.cell(mover.lane(here, k)), code.at(base, k * mover.other_row)

        _store_each(mover, count, ends)

    def take_some(first: Value, count: Value) -> None:
        here, base = code.at(lanes, first * size_of(rows.lane)), mover.item(first)
        kept = compacted(code, own, count, lambda k: share.has(mover.lane(here, k).to("zext", I64)))

        def ends(q: Value) -> tuple[Value, Value]:
            k = picked(code, own, q)
            return mover.cell(mover.lane(here, k)), code.at(base, k * mover.other_row)

        _store_each(mover, kept, ends)

    def take_one(first: Value, count: Value) -> None:
        here = code.at(lanes, first * size_of(rows.lane))
        mover.store_all(mover.cell(mover.lane(here, code.i64(0))), mover.item(first), count)

    own, whole = scratch(code), word(code, "whole").compare("ne", 0)
    with blocks(code, code.i64(0), total, LANES_AT_ONCE) as (first, count):
        low, high = code.variable(I64, share.low), code.variable(I64, share.high)
        low.set(share.low)
        high.set(share.high)
        with code.when(whole ^ 1 if not rows.same else code.constant(I1, 1)):
            here = code.at(lanes, first * size_of(rows.lane))
            least, greatest = _extremes(module, code, rows.lane, here, count)
            low.set(least)
            high.set(greatest)
        is_mine = low.get().compare("uge", share.low) & high.get().compare("ult", share.high)
        is_nobody = low.get().compare("uge", share.high) | high.get().compare("ult", share.low)
        is_one = low.get().compare("eq", high.get())

        def all_mine(first: Value = first, count: Value = count, is_one: Value = is_one) -> None:
            if rows.same:
                code.choose(is_one, lambda: take_one(first, count), lambda: take_all(first, count))
            else:
                take_all(first, count)

        def not_all(first: Value = first, count: Value = count, is_nobody: Value = is_nobody) -> None:
            with code.when(is_nobody ^ 1):
                take_some(first, count)

        code.choose(is_mine | whole, all_mine, not_all)
    code.give()
    return module.text


def _store_each(mover: Mover, count: Value, ends: Callable[[Value], tuple[Value, Value]]) -> None:
    """Rows to the table, from and to where `ends` says."""

    def fetch(k: Value) -> None:
        cell, item = ends(k)
        mover.fetch(cell, to_write=True)
        mover.fetch_item(item)

    mover.each(count, fetch, lambda k: mover.store(*ends(k)))


def _extremes(module: Module, code: Code, lane: str, lanes: Value, count: Value) -> tuple[Value, Value]:
    """The least and the greatest of some lanes, unsigned."""
    wide, found = AT_ONCE[lane], list[Value]()
    first = code.load(lane, lanes)
    for how, name in (("ult", "umin"), ("ugt", "umax")):
        many, one = code.variable(vector(lane, wide), code.splat(first, wide)), code.variable(lane, first)
        many.set(code.splat(first, wide))
        one.set(first)
        whole = count - (count & (wide - 1))
        for begin, end, step, best in ((code.i64(0), whole, wide, many), (whole, count, 1, one)):
            with code.loop(begin, end, step) as k:
                value = code.load(vector(lane, step), code.at(lanes, k * size_of(lane)))
                best.set(code.select(value.compare(how, best.get()), value, best.get()))
        reduce = module.declare(f"llvm.vector.reduce.{name}.v{wide}{lane}", f"{lane} ({vector(lane, wide)})")
        most = code.call(lane, reduce, many.get())
        found.append(code.select(most.compare(how, one.get()), most, one.get()).to("zext", I64))
    return found[0], found[1]


class _Share:
    """A worker's range of destinations and of columns."""

    def __init__(self, code: Code) -> None:
        self.code = code
        at = code.at(word(code, "shards", PTR), code.arguments[1] * 32)
        self.low, self.high, self.column, self.columns = (code.load(I64, code.at(at, 8 * k)) for k in range(4))

    def has(self, lane: Value) -> Value:
        """Whether a lane is the worker's; one that is outside is nobody's."""
        return (lane - self.low).compare("ult", self.high - self.low)


def compacted(code: Code, own: Value, count: Value, keeps: Callable[[Value], Value]) -> Value:
    """Numbers below a count for which something holds, written side by side without a branch; gives how many."""
    kept = code.variable(I64, code.i64(0))
    kept.set(code.i64(0))
    with code.loop(0, count) as k:
        at = kept.get()
        code.store(k.to("trunc", I32), code.at(own, at * 4))
        kept.set(at + keeps(k).to("zext", I64))
    last = kept.get()
    zero = code.constant("<16 x i32>", 0)
    for line in range(4):  # fetching ahead reads beyond the last
        code.store(zero, code.at(own, last * 4 + 64 * line), 4)
    return last


def picked(code: Code, own: Value, q: Value) -> Value:
    """A number that `compacted` kept."""
    return code.load(I32, code.at(own, q * 4)).to("zext", I64)


def mark_writers(rows: Rows) -> str:
    """For each destination in the worker's range, the last lane that names it, counted from 1."""
    module = Module()
    code = function(module, "mark")
    share, writers = _Share(code), word(code, "writers", PTR)
    lanes, total, own = word(code, "lanes", PTR), word(code, "count"), scratch(code)
    clear = module.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
    code.call("void", clear, code.at(writers, share.low * 4), "i8 0", (share.high - share.low) * 4, "i1 false")
    with blocks(code, code.i64(0), total, LANES_AT_ONCE) as (first, count):
        here = code.at(lanes, first * size_of(rows.lane))
        with code.loop(0, count) as k:
            lane = code.load(rows.lane, code.at(here, k * size_of(rows.lane))).to("zext", I64)
            there = code.select(share.has(lane), code.at(writers, lane * 4), own)
            code.store((first + k + 1).to("trunc", I32), there)
    code.give()
    return module.text


def settle_writers(rows: Rows) -> str:
    """Pieces of the table: each row that has a last writer takes its value from there."""
    module = Module()
    code = function(module, "settle")
    mover, own, writers = Mover(module, code, rows), scratch(code), word(code, "writers", PTR)
    with pieces(code, "capacity") as number:
        first, count = _extent(code, number, "capacity")
        here = code.at(writers, first * 4)
        base = code.at(mover.table, first * mover.table_row)
        kept = compacted(code, own, count, lambda k: code.load(I32, code.at(here, k * 4)).compare("ne", 0))

        def ends(q: Value) -> tuple[Value, Value]:
            k = picked(code, own, q)
            writer = code.load(I32, code.at(here, k * 4)).to("zext", I64) - 1
            return code.at(base, k * mover.table_row), mover.item(writer)

        mover.each(kept, lambda q: mover.fetch_item(ends(q)[1]), lambda q: mover.store(*ends(q)))
    code.give()
    return module.text


# --- stable partition of single elements


def pair_of(size: int) -> int:
    """Bytes that a destination inside its bucket and an element take together."""
    return {1: 4, 2: 4, 4: 8, 8: 16}[size]


def local_bits(size: int) -> int:
    """Bits that there are for a destination inside its bucket."""
    return {1: 24, 2: 16, 4: 31, 8: 62}[size]


def _slice(code: Code) -> tuple[Value, Value]:
    """The worker's share of the lanes."""
    worker, workers, total = code.arguments[1], word(code, "workers"), word(code, "count")
    return (worker * total).op("udiv", workers), ((worker + 1) * total).op("udiv", workers)


class _Cursors:
    """The worker's place in each bucket; lanes that are outside have a bucket of their own behind the others."""

    def __init__(self, code: Code, marked: bool) -> None:
        self.code, self.marked = code, marked
        self.shift, self.buckets = word(code, "shift"), word(code, "buckets")
        self.base = code.at(word(code, "counts", PTR), code.arguments[1] * (self.buckets + 1) * 8)

    def next(self, lane: Value) -> Value:
        """The place that a lane takes, which the next one of its bucket takes no more."""
        bucket = lane >> self.shift
        if self.marked:
            inside = lane.compare("ult", word(self.code, "capacity"))
            bucket = self.code.select(inside, bucket, self.buckets)
        cursor = self.code.at(self.base, bucket * 8)
        found = self.code.load(I64, cursor)
        self.code.store(found + 1, cursor)
        return found


def _over_slice(code: Code, go: Callable[[Value], None]) -> None:
    """`go(k)` for every lane of the worker's slice."""
    start, stop = _slice(code)
    with blocks(code, start, stop, LANES_AT_ONCE) as (first, count):
        whole = first + (count - (count & 3))
        with code.loop(first, whole, 4) as k:
            for step in range(4):
                go(k + step)
        with code.loop(whole, first + count) as k:
            go(k)


def count_lanes(rows: Rows, marked: bool) -> str:
    """How many lanes of the worker's slice go to each bucket; `marked` where some may be outside."""
    module = Module()
    code = function(module, "count")
    lanes, cursors = word(code, "lanes", PTR), _Cursors(code, marked)
    _over_slice(code, lambda k: cursors.next(_lane(code, rows, lanes, k)) and None)
    code.give()
    return module.text


def _lane(code: Code, rows: Rows, lanes: Value, k: Value) -> Value:
    return code.load(rows.lane, code.at(lanes, k * size_of(rows.lane))).to("zext", I64)


def spread_lanes(rows: Rows, marked: bool) -> str:
    """The lanes of the worker's slice to their buckets, each with its element."""
    module = Module()
    code = function(module, "spread")
    mover, lanes, pairs = Mover(module, code, rows), word(code, "lanes", PTR), word(code, "pairs", PTR)
    cursors, size = _Cursors(code, marked), rows.size
    mask = (code.i64(1) << word(code, "shift")) - 1

    def go(k: Value) -> None:
        lane = _lane(code, rows, lanes, k)
        value = code.load(f"i{8 * size}", mover.item(k), 1)
        _pack(code, lane & mask, value, code.at(pairs, cursors.next(lane) * pair_of(size)))

    _over_slice(code, go)
    code.give()
    return module.text


def _pack(code: Code, local: Value, value: Value, there: Value) -> None:
    size = size_of(value.type)
    if size == 8:
        code.store(local, there)
        code.store(value, code.at(there, 8))
        return
    kind = f"i{8 * pair_of(size)}"
    code.store((local.to("trunc", kind) << 8 * size) | value.to("zext", kind), there)


def settle_buckets(rows: Rows) -> str:
    """Buckets, each in the order of its lanes, into the table."""
    module = Module()
    code = function(module, "settle")
    mover, pairs, size = Mover(module, code, rows), word(code, "pairs", PTR), rows.size
    pair, ends = pair_of(size), word(code, "ends", PTR)
    with pieces(code, "buckets", single=True) as bucket:
        base = code.at(mover.table, (bucket << word(code, "shift")) * mover.table_row)
        begin, end = (code.load(I64, code.at(ends, (bucket + k) * 8)) for k in range(2))
        done = code.new_label("stopped")
        with code.loop(begin, end, LANES_AT_ONCE) as first:
            poll(code, done)
            here, left = code.at(pairs, first * pair), end - first
            count = code.select(left.compare("slt", LANES_AT_ONCE), left, LANES_AT_ONCE)

            def cell(k: Value, here: Value = here) -> Value:
                local = code.load(I64 if size == 8 else f"i{8 * pair}", code.at(here, k * pair))
                local = local if size == 8 else (local >> 8 * size).to("zext", I64)
                return code.at(base, local * mover.table_row)

            mover.each(
                count,
                lambda k: mover.fetch(cell(k), to_write=True),
                lambda k, here=here: mover.store(cell(k), code.at(here, k * pair + (8 if size == 8 else 0))),
            )
        code.begin(done)
    code.give()
    return module.text


# --- sums in float32


def total(rows: Rows, indices: Indices | None) -> str:
    """Ranges of the table, each with sums in float32 that are rounded when all its lanes have been added.

    The lanes are walked twice: to add, and to round what was added to. A mark for each row says that it has a sum.
    """
    module = Module()
    code = function(module, "total")
    sums = _Sums(module, code, rows)
    with pieces(code, "buckets", single=True) as number:
        low, count = _extent(code, number, "capacity", "room")
        for act in (sums.add, sums.finish):
            with blocks(code, code.i64(0), word(code, "count"), LANES_AT_ONCE) as (first, length):
                if indices is None:
                    lanes = code.at(word(code, "lanes", PTR), first * size_of(rows.lane))
                else:
                    lanes = sums.own
                    indices.resolve(module, code, first, length, lanes)
                sums.each(lanes, length, low, count, first, act)
    code.give()
    return module.text


Act = Callable[[Value, Value, Value], None]
"""Takes a row's number inside its range, its place in the table and the place of what comes to it."""


class _Sums:
    """A worker's sums for a range of rows."""

    def __init__(self, module: Module, code: Code, rows: Rows) -> None:
        assert rows.dtype is not None
        self.code, self.rows, self.dtype = code, rows, rows.dtype
        self.mover, self.own = Mover(module, code, rows), scratch(code)
        room, worker = word(code, "room"), code.arguments[1]
        self.marks = code.at(word(code, "marks", PTR), worker * room)
        self.sums = code.at(word(code, "totals", PTR), worker * room * self.mover.width * 4)

    def lane(self, lanes: Value, k: Value) -> Value:
        """A lane, as a 64-bit number."""
        return self.mover.lane(lanes, k).to("zext", I64)

    def each(self, lanes: Value, length: Value, low: Value, rows: Value, first: Value, act: Act) -> None:
        """Act on every lane of a block that names a row of the range."""
        code, picks = self.code, self.code.at(self.own, PICKED)
        kept = compacted(code, picks, length, lambda k: (self.lane(lanes, k) - low).compare("ult", rows))
        with code.loop(0, kept) as q:
            k = picked(code, picks, q)
            lane = self.lane(lanes, k)
            act(lane - low, self.mover.cell(lane), self.mover.item(first + k))

    def add(self, row: Value, cell: Value, item: Value) -> None:
        """Add a row to its sum, which begins with what the table holds."""
        code, mark, mover = self.code, self.code.at(self.marks, row), self.mover
        is_new = code.load("i8", mark).compare("eq", 0)
        code.store(code.constant("i8", 1), mark)

        def write(j: Value, count: int, at: Value) -> None:
            new = self._wide(code.at(item, j * mover.other_col), count)
            code.store(code.load(new.type, at, 4) + new, at, 4)

        with code.when(is_new):
            self._each(
                row, lambda j, count, at: code.store(self._wide(code.at(cell, j * mover.table_col), count), at, 4)
            )
        self._each(row, write)

    def finish(self, row: Value, cell: Value, item: Value) -> None:
        """Round a sum into the table, once."""
        code, mark, mover = self.code, self.code.at(self.marks, row), self.mover

        def write(j: Value, count: int, at: Value) -> None:
            found = from_single(code, self.dtype, code.load(vector("float", count), at, 4))
            code.store(found, code.at(cell, j * mover.table_col), 1)

        with code.when(code.load("i8", mark).compare("ne", 0)):
            code.store(code.constant("i8", 0), mark)
            self._each(row, write)

    def _wide(self, at: Value, count: int) -> Value:
        return single(self.code, self.dtype, self.code.load(bits_of(self.dtype, count), at, 1))

    def _each(self, row: Value, write: Callable[[Value, int, Value], None]) -> None:
        """Columns of a row, sixteen at a time where they lie side by side, with the places of their sums."""
        code, width = self.code, self.mover.width
        base, wide = row * width, 16 if self.rows.dense and self.rows.width != 1 else 1
        whole = width - (width & (wide - 1)) if wide > 1 else width
        for first, last, step in ((code.i64(0), whole, wide), (whole, width, 1)):
            if step == wide or wide > 1:
                with code.loop(first, last, step) as j:
                    write(j, step, code.at(self.sums, (base + j) * 4))
            if wide == 1:
                return
