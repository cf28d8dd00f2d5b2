"""Strategies that divide a whole gather or scatter among threads, and how one is chosen.

Each gives the bits of executing the lanes in order, for any number of threads: all writes to one cell are made in the
order of the lanes, on one thread, or are merged in that order. `docs/engines.md` lists the strategies and the rule that
`choose` follows.

A block must hold lanes that were resolved, the greatest value among them as it was read, and `PADDING` readable lanes
more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from ctypes import c_uint8
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ptokit.engine.llvm.emit import size_of
from ptokit.engine.llvm.move import LINE
from ptokit.engine.native import host, openmp, workers
from ptokit.engine.native.whole import partition, phases, private, sums
from ptokit.engine.native.whole.block import LANES_AT_ONCE, ArgumentBlock, Native, native
from ptokit.engine.native.whole.mover import Rows
from ptokit.engine.native.workers import Stop
from ptokit.engine.storage import Array, address_of
from ptokit.isa.move import Combine

MOST_EXTRA = 48 << 20
"""Bytes of temporary memory that a strategy may use."""
SAMPLE = 128
"""Lanes that are sampled to choose a strategy."""
GLANCE = 64
"""The same for a gather, which has fewer choices."""
MOST_SHARE = 0.625
"""The largest share of the lanes that one thread may have, for which it pays to divide them by destination."""
LEAST_BUCKET, MOST_BUCKET = 128 << 10, 512 << 10
"""Bytes of the table that one bucket covers, unless there would be more buckets than `MOST_BUCKETS`."""
FEW_BUCKETS, MOST_BUCKETS = 256, 1024
BUCKETS_APART = 192
"""Bytes between one bucket and the next: otherwise all may fall into one set of a cache."""
MOST_MARKED = 1 << 17
"""Lanes, plus an eighth of the rows, below which one thread finds the last writers faster than several."""
NEAR_GAIN = 0.25
"""Nanoseconds that threads save for an element of a table in the caches, at least."""
LANES_A_CELL = 4
"""The least lanes of a thread for each of a range of cells, for which merging what all threads have for it pays."""
PAGE = 2 << 20
"""Bytes of a large page, which NumPy asks the system for in arrays of two of them: random accesses need few pages."""
DISTINCT_PIECE = 1 << 18
"""Bytes of lanes that a thread takes at a time."""
RANGES = 4
"""Ranges of the table for each thread, where sums are taken in float32: some may have more lanes than others."""
SCATTERS = {Combine.STORE: "store", Combine.ADD: "add", Combine.MUL: "add"}
"""Names of scatters in `Host.unfetched`."""
LEAST_STREAMED = 4 * LINE
"""The least bytes of a row that is scattered past the caches: its first and its last line do not go there."""

LONG = 200_000_000
"""Nanoseconds of work after which a user would notice that Ctrl-C has no effect."""


class Pool:
    """Memory that calls reuse, so that not every call asks the system for new pages."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._free: list[Array] = []

    def acquire(self, nbytes: int) -> Array:
        """At least `nbytes` bytes, uninitialised."""
        for k in range(len(self._free) - 1, -1, -1):
            try:
                found = self._free.pop(k)
            except IndexError:  # another thread was faster
                continue
            if nbytes <= found.size:
                return found
            self._free.append(found)
        return np.empty(nbytes, np.uint8)

    def release(self, memory: Array) -> None:
        if memory.size + sum(each.size for each in self._free) <= self.most:
            self._free.append(memory)


pool = Pool(56 << 20)


@dataclass
class Team:
    """The threads of a call; only the caller's own for little work."""

    threads: int
    """0 for the caller's own."""
    stop: Stop
    is_long: bool = False
    """Whether the calling thread must be able to handle Ctrl-C meanwhile."""

    @property
    def parts(self) -> int:
        """How many parts work is divided into."""
        return max(1, self.threads)

    def do(self, work: Native, block: ArgumentBlock, parts: int = 0, *, is_short: bool = False) -> None:
        """Run a phase on all threads, or on the first few; on the caller's own if it is short."""
        block.set(counter=0)
        address = block.address
        parts = 1 if is_short else parts or self.parts
        if not self.threads or (parts == 1 and not self.is_long):
            work(address, 0)
        elif self.is_long or not openmp.run(work.address, address, parts):
            workers.run(lambda part: work(address, part), parts, self.stop)


@dataclass(frozen=True)
class Spread:
    """What a sample shows about the lanes."""

    bounds: tuple[int, ...]
    """Bounds of the threads' ranges, with equal shares."""
    low: int
    """The lowest row."""
    share: float
    """The largest share of the lanes in one of those ranges."""
    reach: int
    """Rows from the lowest to the highest."""
    local: bool
    """Whether lanes mostly name rows beside those of their neighbours."""
    same: bool = False
    """Whether lanes mostly name the same row as their neighbours."""
    repeats: bool = True
    """Whether two lanes of the sample name one row."""


Strategy = Callable[[ArgumentBlock, Rows, Team, Spread], None]
"""Scatters a block's lanes, whose spread is the last argument."""


def sampled(lanes: Array, capacity: int, parts: int) -> Spread:
    """Sample some lanes. Few calls of NumPy: each takes long where the caches hold something else."""
    step = max(2, lanes.size // max(SAMPLE, 32 * parts))
    first = lanes[::step].tolist()
    apart = [abs(b - a) for a, b in zip(first, lanes[1::step].tolist(), strict=False)]
    first.sort()
    first = first[bisect_left(first, 0) : bisect_left(first, capacity)]
    if not first:
        return Spread((0,) * parts + (capacity,), 0, 1.0, 1, True)
    total, low = len(first), first[0]
    cuts = [first[total * part // parts] for part in range(1, parts)]
    inner = [0, *(bisect_left(first, cut) for cut in cuts), total]
    share = max(b - a for a, b in pairwise(inner)) / total
    near, equal = (sum(each <= most for each in apart) / max(1, len(apart)) for most in (8, 0))
    reach, repeats = first[-1] - low + 1, len(set(first)) < total
    return Spread((0, *cuts, capacity), low, share, reach, near > 0.5, equal > 0.9, repeats)


def _lanes(block: ArgumentBlock, rows: Rows) -> Array:
    """The block's lanes, as an array."""
    each, count = size_of(rows.lane), block.get("count")
    memory: Any = (c_uint8 * (count * each)).from_address(block.get("lanes"))
    return np.frombuffer(memory, f"u{each}")


def is_near(lanes: Array, nbytes: int) -> bool:
    """Whether lanes seem to name rows close to each other, by a small sample.

    Few calls of NumPy: each takes long where the caches hold something else.
    """
    step = max(1, lanes.size // GLANCE)
    found = lanes[::step][:GLANCE].tolist()
    if (max(found) - min(found)) * nbytes <= host.HOST.near:
        return True
    if nbytes > LINE // 8:
        return False
    beside = lanes[1::step][:GLANCE].tolist()
    return 2 * sum(abs(b - a) <= 8 for a, b in zip(found, beside, strict=False)) > GLANCE


def _suited(rows: Rows, width: int, spread: Spread) -> Rows:
    """The rows with prefetching only if lanes name rows all over a large table."""
    near = spread.local or spread.reach * rows.size * width <= host.HOST.near
    return replace(rows, far=rows.far and not near, same=spread.same, packs=host.HOST.packs)


def fetches(rows: Rows, what: str = "") -> bool:
    """Whether prefetching pays for a kind of move: a scatter, unless it is said."""
    what = what or SCATTERS.get(rows.combine, "pick")
    return f"{'streamed ' * rows.stream}{what} {'elements' if rows.width == 1 else 'rows'}" not in host.HOST.unfetched


def _fills_lines(block: ArgumentBlock, rows: Rows) -> bool:
    """Whether stores fill whole lines of the table, which then need no prefetch."""
    measures = block.get("table"), block.get("table_row"), rows.nbytes
    return rows.combine is Combine.STORE and rows.nbytes > 0 and all(measure % LINE == 0 for measure in measures)


def streams(block: ArgumentBlock, rows: Rows) -> bool:
    """Whether gathered rows are written past the caches."""
    nbytes = block.get("width") * rows.size
    is_even = rows.dense and LINE <= nbytes == block.get("other_row") <= phases.STAGE
    return is_even and block.get("count") * nbytes >= host.HOST.stream_from


def gathering(block: ArgumentBlock, rows: Rows) -> Rows:
    """The rows of a gather: how they are written, and whether far ones are prefetched."""
    rows = replace(rows, stream=streams(block, rows))
    return replace(rows, far=rows.far and fetches(rows, "gather"))


def scattering(rows: Rows, width: int, spread: Spread) -> Rows:
    """The rows of a scatter, the same."""
    nbytes, rows = width * rows.size, _suited(rows, width, spread)
    plain = rows.combine is Combine.STORE and rows.dense and nbytes >= LEAST_STREAMED
    rows = replace(rows, stream=plain and spread.reach * nbytes >= host.HOST.stream_from)
    return replace(rows, far=rows.far and fetches(rows))


def gather(block: ArgumentBlock, rows: Rows, team: Team) -> None:
    """Gather the block's resolved lanes."""
    nbytes = block.get("width") * rows.size
    far = rows.far and not (team.threads and is_near(_lanes(block, rows), nbytes))
    team.do(native(phases.gather, gathering(block, replace(rows, far=far)), None), block)


def scatter(
    block: ArgumentBlock, rows: Rows, team: Team, strategy: str | None = None, spread: Spread | None = None
) -> None:
    """Scatter the block's resolved lanes. `strategy` forces one."""
    if not team.threads and strategy is None:
        _direct(block, rows, team)
        return
    count, capacity, width = (block.get(name) for name in ("count", "capacity", "width"))
    spread = spread or sampled(_lanes(block, rows), capacity, team.parts)
    taken = strategy or choose(rows, count, capacity, width, team.parts, spread)
    rows = scattering(rows, width, spread)
    pays = rows.stream or (rows.far and rows.combine is not Combine.STORE)
    if pays and taken in SHARES_LANES and not strategy and _are_distinct(block, rows, team, spread):
        taken = "lanes"
    if _fills_lines(block, rows):
        rows = replace(rows, far=False)
    STRATEGIES[taken](block, rows, team, spread)


def choose(rows: Rows, count: int, capacity: int, width: int, parts: int, spread: Spread) -> str:
    """The strategy; see the docstring of this module."""
    nbytes = rows.size * width
    if spread.same and spread.share > 0.9:
        return "direct"
    is_balanced = parts > 1 and spread.share <= MOST_SHARE
    if width == 1 and nbytes <= 8:
        is_far = rows.far and spread.reach * nbytes > host.HOST.near
        pays = nbytes < 8 or SCATTERS.get(rows.combine, "pick") in host.HOST.sorts or not is_balanced
        if parts > 1 and is_far and not spread.local and pays and can_bucket(rows, capacity):
            return "buckets"
        return "destinations" if is_balanced and (is_far or spread.local or host.HOST.packs) else "direct"
    if parts == 1:
        return "direct"
    stores = rows.combine is Combine.STORE and rows.far and not spread.local
    if stores and capacity <= min(8 * count, MOST_EXTRA // 4):
        return "winners"
    return "destinations" if is_balanced else "direct"


def merges(rows: Rows, count: int, capacity: int, parts: int, spread: Spread) -> bool:
    """Whether elements for few cells are taken to memory of each thread's own first."""
    low, high = _merged_range(spread, capacity)
    own = private.memory_for(rows, high - low)
    fits = (
        own <= host.HOST.near and parts * own <= MOST_EXTRA and (high - low) * parts * LANES_A_CELL <= count < 1 << 32
    )
    pays = parts > 1 and count * NEAR_GAIN > host.HOST.wake and not (spread.same or spread.local)
    return fits and pays and private.can_merge(rows)


def _merged_range(spread: Spread, capacity: int) -> tuple[int, int]:
    """Cells that have memory of each thread's own: those of the sample, and some more."""
    margin = spread.reach // 8 + 64
    return max(0, spread.low - margin), min(capacity, spread.low + spread.reach + margin)


def merged(block: ArgumentBlock, rows: Rows, indices: phases.Indices, team: Team, spread: Spread) -> bool:
    """Take elements for few cells to memory of each thread's own first; whether that was done.

    The sample shows which cells. If a lane names another one, nothing has been written.
    """
    low, high = _merged_range(spread, block.get("capacity"))
    own, rows = private.memory_for(rows, high - low), replace(rows, far=False)
    memory = pool.acquire(team.parts * own + 2 * PAGE)
    place = -(-address_of(memory) // PAGE) * PAGE
    block.set(low=low, range=high - low, workers=team.parts, private=place, missed=0, piece=LANES_AT_ONCE)
    team.do(native(private.fold, rows, indices), block)
    is_inside = not block.get("missed")
    if is_inside:
        team.do(native(private.merge, rows), block)
    pool.release(memory)
    return is_inside


def _shards(block: ArgumentBlock, shards: Iterable[tuple[int, int]]) -> None:
    """Give each worker its range of rows."""
    made = np.array([*shards], np.int64)
    block.keep.append(made)
    block.set(shards=address_of(made))


def _direct(block: ArgumentBlock, rows: Rows, team: Team, _spread: Spread | None = None) -> None:
    block.shard_alone()
    block.set(whole=block.is_whole)
    team.do(native(phases.scatter, rows), block, parts=1)


def _destinations(block: ArgumentBlock, rows: Rows, team: Team, spread: Spread) -> None:
    _shards(block, pairwise(spread.bounds))
    block.set(whole=0)
    gaps = fetches(rows) and block.get("width") * rows.size > LINE
    team.do(native(phases.scatter, replace(rows, gaps=gaps)), block)


def _winners(block: ArgumentBlock, rows: Rows, team: Team, _spread: Spread) -> None:
    capacity = block.get("capacity")
    if not capacity:  # no lane has a row
        return
    memory = pool.acquire(4 * capacity)
    is_short = block.get("count") + capacity // 8 <= MOST_MARKED
    parts = 1 if is_short else team.parts
    cuts = [capacity * part // parts for part in range(parts + 1)]
    _shards(block, pairwise(cuts))
    block.set(writers=address_of(memory), piece=LANES_AT_ONCE)
    team.do(native(phases.mark_writers, Rows(1, rows.lane)), block, is_short=is_short)
    team.do(native(phases.store_winners, replace(rows, same=False)), block)
    pool.release(memory)


def _are_distinct(block: ArgumentBlock, rows: Rows, team: Team, spread: Spread) -> bool:
    """Whether no two lanes name one row: asked if no two of the sample do, and the answer takes little time."""
    count, capacity, nbytes = block.get("count"), block.get("capacity"), rows.size * block.get("width")
    if spread.repeats or nbytes < LINE or count > capacity or capacity >> 6 > count * nbytes >> 8:
        return False
    marks = np.zeros((capacity >> 6) + 1, np.int64)
    block.set(marks=address_of(marks), repeats=0)
    team.do(native(phases.find_repeats, Rows(1, rows.lane)), block, is_short=True)
    return not block.get("repeats") and not team.stop


def _distinct(block: ArgumentBlock, rows: Rows, team: Team, _spread: Spread) -> None:
    block.set(
        whole=block.is_whole, piece=max(4, min(DISTINCT_PIECE // (rows.size * block.get("width")), LANES_AT_ONCE))
    )
    team.do(native(phases.store_lanes, replace(rows, same=False)), block)


def can_bucket(rows: Rows, capacity: int) -> bool:
    """Whether destinations inside buckets fit beside their elements."""
    return rows.size in (1, 2, 4, 8) and capacity <= MOST_BUCKETS << partition.local_bits(rows.size)


def _buckets(block: ArgumentBlock, rows: Rows, team: Team, _spread: Spread) -> None:
    count, capacity = block.get("count"), block.get("capacity")
    shift = bucket_shift(rows.size, capacity)
    buckets = max(1, (capacity - 1 >> shift) + 1)
    pair, parts = partition.pair_of(rows.size), team.parts
    pairs = pool.acquire(count * pair + parts * (buckets + 1) * BUCKETS_APART + 4096)
    counts = np.zeros((parts, partition.TABLES, buckets + 1), np.int64)
    block.set(pairs=address_of(pairs), counts=address_of(counts), shift=shift, buckets=buckets, workers=parts)
    marked = not block.is_whole
    team.do(native(partition.count_lanes, Rows(1, rows.lane), marked), block)
    segments = _segments(counts.sum(axis=1), BUCKETS_APART // pair)
    counts[:, 0] = segments[..., 0].T
    team.do(native(partition.spread_lanes, Rows(rows.size, rows.lane, 1, other_step=rows.other_step), marked), block)
    block.set(segments=address_of(segments))
    team.do(native(partition.settle_buckets, replace(rows, same=False)), block)
    pool.release(pairs)


def _segments(counts: Array, apart: int) -> Array:
    """Begin and end of each worker's part of each bucket, from the counts; parts are `apart` places apart."""
    each = np.ascontiguousarray(counts.T)
    begins = np.cumsum(each) - each.ravel() + apart * np.arange(each.size)
    begins = begins.reshape(each.shape)
    return np.stack((begins, begins + each), axis=-1)


def bucket_shift(size: int, capacity: int) -> int:
    """Bits of a destination inside its bucket: cells that fit a cache, in a moderate number of buckets."""
    nbytes = min(max(size * capacity // FEW_BUCKETS, LEAST_BUCKET), MOST_BUCKET)
    usual = (nbytes // size).bit_length() - 1
    least = max(0, (capacity - 1).bit_length() - MOST_BUCKETS.bit_length() + 1)
    return min(max(usual, least), partition.local_bits(size))


SHARES_LANES = ("destinations", "winners")
"""Strategies that are not needed if no two lanes name one row."""
STRATEGIES: dict[str, Strategy] = {
    "direct": _direct,
    "destinations": _destinations,
    "winners": _winners,
    "lanes": _distinct,
    "buckets": _buckets,
}


def sum_up(block: ArgumentBlock, rows: Rows, team: Team, indices: phases.Indices | None) -> None:
    """Add in float32 and round once: ranges of the table, assigned one by one, each with its own sums."""
    capacity, width, parts, lanes = block.get("capacity"), max(1, block.get("width")), team.parts, block.get("count")
    half = MOST_EXTRA // 2 // parts  # for sums and their rows, and for the numbers of sums
    most = half // (4 * width + 8)
    count = max(1, min(-(-capacity // (RANGES * parts)), half // 4, capacity if lanes <= most else most))
    room = min(count, lanes)
    numbers, named = np.zeros(parts * count, np.int32), np.empty(parts * room, np.int64)
    memory = pool.acquire(4 * parts * room * width)
    ranges = -(-capacity // count)
    block.set(range=count, room=room, buckets=ranges)
    block.set(marks=address_of(numbers), named=address_of(named), totals=address_of(memory))
    team = replace(team, is_long=team.is_long or ranges * lanes > LONG)  # each range takes a pass over the lanes
    team.do(native(sums.total, rows, indices), block)
    pool.release(memory)
