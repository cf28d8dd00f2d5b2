"""How a whole gather or scatter is shared among threads, and which way is taken.

All ways give the bits of taking the lanes one after the other, for any number of threads: what meets in one cell meets
in the order of the lanes, on one thread. `docs/engines.md` has the list of them, and the rule that `choose` follows.

A block must hold lanes that were resolved, the greatest value among them as it was read, `PADDING` readable lanes more,
and memory for each worker (`scratch_bytes`).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int64, c_uint8, c_void_p
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ptokit.engine.native import workers
from ptokit.engine.native.emit import size_of
from ptokit.engine.native.jit import IrSource, library
from ptokit.engine.native.move import LINE
from ptokit.engine.native.whole import partition, phases, sums
from ptokit.engine.native.whole.block import GREATEST, LANES_AT_ONCE, SCRATCH, SHARDS, UNSIGNED, WORDS, ArgumentBlock
from ptokit.engine.native.whole.mover import Rows, known_width
from ptokit.engine.native.workers import Stop
from ptokit.engine.storage import Array
from ptokit.isa.move import Combine

Native = Callable[[int, int], None]
SIGNATURE = CFUNCTYPE(None, c_void_p, c_int64)

NEAR = 1 << 20
"""Bytes of a table that caches hold well enough: fetching ahead or sorting lanes does not pay."""
MOST_EXTRA = 48 << 20
"""Bytes that a way may take for itself."""
SAMPLE = 1024
"""Lanes that are looked at to choose."""
GLANCE = 64
"""The same for a gather, which has less to choose."""
FAIR = 1.25
"""How much more than its part a thread may get before bounds count as unfair."""
LEAST_COLUMNS = 2048
"""Bytes of a row that are worth a thread of their own."""
LEAST_BUCKET, MOST_BUCKET = 128 << 10, 512 << 10
"""Bytes of the table that one bucket covers, unless there would be more buckets than `MOST_BUCKETS`."""
FEW_BUCKETS, MOST_BUCKETS = 256, 1024
APART = 192
"""Bytes between what belongs to one bucket and what belongs to the next: else all might meet in one set of a cache."""
MOST_MARKED = 1 << 17
"""Lanes, and eighths of rows, whose last writers are found sooner than another thread wakes up."""
STREAM_FROM = 16 << 20
"""Bytes of a result from which on it goes past the caches."""
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
SHORT = 60_000
"""Nanoseconds of work that are not worth another thread."""

PHASES: dict[str, Callable[..., str]] = {
    "resolve": phases.resolve,
    "gather": phases.gather,
    "scatter": phases.scatter,
    "mark": phases.mark_writers,
    "store": phases.store_winners,
    "count": partition.count_lanes,
    "spread": partition.spread_lanes,
    "settle": partition.settle_buckets,
    "total": sums.total,
}


@lru_cache(maxsize=4096)
def native(phase: str, *kinds: Any) -> Native:
    """The machine code of a phase for kinds of rows or indices."""
    names = [each.key if hasattr(each, "key") else str(each) for each in kinds]
    made = library(" / ".join(["whole", phase, *names]), lambda: IrSource(PHASES[phase](*kinds)))
    function: Any = SIGNATURE(made.address(phase.partition(" ")[0]))
    function.library = made  # lives as long as the function
    return function


WHOLE, CAPACITY = map(WORDS.index, ("whole", "capacity"))


class Pool:
    """Memory that calls borrow, so that not every call asks the system for new pages."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._free: list[Array] = []

    def acquire(self, nbytes: int) -> Array:
        """At least so many bytes of anything."""
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
        """Hand memory back."""
        if memory.size + sum(each.size for each in self._free) <= self.most:
            self._free.append(memory)


pool = Pool(56 << 20)


def address(memory: Array) -> int:
    """Where an array begins."""
    return memory.__array_interface__["data"][0]


@dataclass
class Crew:
    """The threads of a call: none but the caller's own for little work."""

    threads: int
    """0 for the caller's own."""
    stop: Stop

    @property
    def parts(self) -> int:
        """How many parts work is shared in."""
        return max(1, self.threads)

    def do(self, work: Native, *blocks: ArgumentBlock, parts: int = 0, is_short: bool = False) -> None:
        """Run a phase on all threads, or on the first few; on the caller's own if it is short.

        Each thread goes from block to block without waiting for the others.
        """
        for block in blocks:
            block.set(counter=0)
        places = [block.address for block in blocks]

        def one_after_the_other(part: int) -> None:
            for at in places:
                work(at, part)

        if self.threads and not is_short:
            workers.run(one_after_the_other, parts or self.threads, self.stop)
        else:
            one_after_the_other(0)


@dataclass(frozen=True)
class Spread:
    """What a sample says of the lanes."""

    bounds: tuple[int, ...]
    """Where the threads' ranges begin and end, if all are to get the same."""
    share: float
    """The greatest part of the lanes that one of those ranges has."""
    reach: int
    """Rows from the lowest to the highest."""
    local: bool
    """Whether lanes mostly name rows beside those of their neighbours."""
    same: bool = False
    """Whether they mostly name the same row as their neighbours."""


Strategy = Callable[[Sequence[ArgumentBlock], Rows, Crew, Any], None]
"""Scatters blocks into one table; the last argument is the `Spread` of their lanes."""


def sampled(lanes: Sequence[Array], capacity: int, parts: int) -> Spread:
    """Look at some lanes, wherever they lie."""
    step = max(2, sum(each.size for each in lanes) // SAMPLE)
    looks = [each[: each.size // step * step].reshape(-1, step)[:SAMPLE, :2] for each in lanes]
    pairs = np.concatenate(looks).astype(np.float64)  # which has room for every lane
    found = np.sort(pairs[:, 0])
    found = found[: np.searchsorted(found, capacity)]
    if not found.size:
        return Spread((0,) * parts + (capacity,), 1.0, 1, True)
    cuts = found[[found.size * part // parts for part in range(1, parts)]]
    inner = [0, *np.searchsorted(found, cuts).tolist(), found.size]
    share = max(b - a for a, b in pairwise(inner)) / found.size
    apart = np.abs(pairs[:, 1] - pairs[:, 0])
    near, equal = (int(np.count_nonzero(apart <= most)) / apart.size for most in (8, 0))
    bounds = (0, *map(int, cuts), capacity)
    return Spread(bounds, share, int(found[-1] - found[0]) + 1, near > 0.5, equal > 0.9)


def _lanes(block: ArgumentBlock, rows: Rows) -> Array:
    """The block's lanes, as an array."""
    each, count = size_of(rows.lane), block.get("count")
    memory: Any = (c_uint8 * (count * each)).from_address(block.get("lanes"))
    return np.frombuffer(memory, f"u{each}")


def _is_near(lanes: Array, nbytes: int) -> bool:
    """Whether lanes seem to name rows close to each other: a short look, as a gather is not worth a long one."""
    step = max(1, lanes.size // GLANCE)
    found, beside = (lanes[k::step][:GLANCE].astype(np.int64) for k in range(2))
    apart = np.abs(beside - found[: beside.size])
    is_local = nbytes <= LINE // 8 and 2 * int(np.count_nonzero(apart <= 8)) > GLANCE
    return is_local or int(found.max() - found.min()) * nbytes <= NEAR


def _suited(rows: Rows, width: int, spread: Spread) -> Rows:
    """Rows as they are to be moved: fetched ahead only where lanes name rows all over a large table, for example."""
    near = spread.local or spread.reach * rows.size * width <= NEAR
    return replace(rows, far=rows.far and not near, same=spread.same)


def _fills_lines(block: ArgumentBlock, rows: Rows) -> bool:
    """Whether stores fill whole lines of the table, which then need not be fetched at all."""
    measures = block.get("table"), block.get("table_row"), rows.nbytes
    return rows.combine is Combine.STORE and rows.nbytes > 0 and all(measure % LINE == 0 for measure in measures)


def streamed(block: ArgumentBlock, rows: Rows) -> Rows:
    """The rows of a gather, written past the caches where its result is too large for them and lies well.

    On x86-64 that saves reading what will be written over; elsewhere it did not pay.
    """
    large = block.get("count") * rows.nbytes >= STREAM_FROM
    even = rows.width > 1 and rows.dense and rows.nbytes % 16 == 0 and rows.other_step == rows.nbytes
    return replace(rows, stream=True) if IS_X86 and large and even and block.get("other") % 16 == 0 else rows


def gather(block: ArgumentBlock, rows: Rows, crew: Crew) -> None:
    """Gather the block's resolved lanes."""
    if rows.far and crew.threads and _is_near(_lanes(block, rows), rows.size * block.get("width")):
        rows = replace(rows, far=False)
    crew.do(native("gather", streamed(block, rows), None), block)


def direct(block: ArgumentBlock, write: Native) -> None:
    """Scatter the block's resolved lanes on the calling thread; a block for little work keeps its one shard."""
    if not block.words[SHARDS]:
        _shards(block, [(0, block.get("capacity"), 0, block.get("width"))])
    words = block.words
    words[WHOLE] = words[GREATEST] & UNSIGNED < words[CAPACITY]
    write(block.address, 0)


def scatter(block: ArgumentBlock, rows: Rows, crew: Crew, way: str | None = None) -> str:
    """Scatter the block's resolved lanes; gives the way that was taken. `way` forces one."""
    if not crew.threads and way is None:
        direct(block, native("scatter", rows))
        return "direct"
    return scatter_all([block], rows, crew, way)


def scatter_all(blocks: Sequence[ArgumentBlock], rows: Rows, crew: Crew, way: str | None = None) -> str:
    """Scatter the resolved lanes of blocks that have one table, block after block, all in the same way."""
    capacity, width = blocks[0].get("capacity"), blocks[0].get("width")
    lanes = [_lanes(block, rows) for block in blocks]
    spread = sampled(lanes, capacity, crew.parts)
    taken = way or choose(rows, sum(each.size for each in lanes), capacity, width, crew.parts, spread)
    rows = _suited(rows, width, spread)
    if _fills_lines(blocks[0], rows):
        rows = replace(rows, far=False)
    STRATEGIES[taken](blocks, rows, crew, spread)
    return taken


def choose(rows: Rows, count: int, capacity: int, width: int, parts: int, spread: Spread) -> str:
    """The way to take; see the head of this file."""
    nbytes = rows.size * width
    if spread.same and spread.share > 0.9:
        return "direct"
    fair = parts > 1 and spread.share * parts <= FAIR
    if width == 1 and nbytes <= 8:
        if spread.local and fair:
            return "destinations"
        if parts > 1 and rows.far and spread.reach * nbytes > NEAR and not spread.local and can_bucket(rows, capacity):
            return "buckets"
        return "direct"
    if parts == 1:
        return "direct"
    stores = rows.combine is Combine.STORE and rows.far and not spread.local
    if stores and capacity <= min(8 * count, MOST_EXTRA // 4):
        return "winners"
    wide = nbytes >= parts * LEAST_COLUMNS
    if fair:
        return "destinations"
    return "columns" if wide else "direct"


def _shards(block: ArgumentBlock, shards: list[tuple[int, int, int, int]]) -> None:
    """Give each worker its range of rows, its first column and the number of its columns."""
    made = np.array(shards, np.int64)
    block.keep.append(made)
    block.set(shards=address(made))


def _is_whole(block: ArgumentBlock) -> bool:
    """Whether every lane is inside."""
    return block.get("greatest") < block.get("capacity")


def _direct(blocks: Sequence[ArgumentBlock], rows: Rows, crew: Crew, spread: Spread | None) -> None:
    for block in blocks:
        _shards(block, [(0, block.get("capacity"), 0, block.get("width"))])
        block.set(whole=_is_whole(block))
    crew.do(native("scatter", rows), *blocks, parts=1)


def _destinations(blocks: Sequence[ArgumentBlock], rows: Rows, crew: Crew, spread: Spread) -> None:
    width = blocks[0].get("width")
    for block in blocks:
        _shards(block, [(a, b, 0, width) for a, b in pairwise(spread.bounds)])
        block.set(whole=0)
    crew.do(native("scatter", replace(rows, gaps=width * rows.size > LINE)), *blocks)


def _columns(blocks: Sequence[ArgumentBlock], rows: Rows, crew: Crew, spread: Spread) -> None:
    width, capacity = blocks[0].get("width"), blocks[0].get("capacity")
    cuts = column_cuts(blocks[0].get("table"), rows.size, width, crew.parts)
    each = {b - a for a, b in pairwise(cuts)}
    for block in blocks:
        _shards(block, [(0, capacity, a, b - a) for a, b in pairwise(cuts)])
        block.set(whole=_is_whole(block))
    part = known_width(rows.size, each.pop()) if len(each) == 1 else 0
    crew.do(native("scatter", replace(rows, width=part, gaps=True)), *blocks)


def column_cuts(table: int, size: int, width: int, parts: int) -> list[int]:
    """Where each thread's columns begin: at cache lines, as two threads that write to one line wait for each other."""
    line, skew = max(1, LINE // size), table % LINE // size
    cuts = [max(0, (width * part // parts + skew) // line * line - skew) for part in range(1, parts)]
    return [0, *cuts, width]


def _each_alone(way: Callable[[ArgumentBlock, Rows, Crew], None]) -> Strategy:
    """A way of several phases, which all threads take together for one block after the other."""

    def take(blocks: Sequence[ArgumentBlock], rows: Rows, crew: Crew, spread: Spread) -> None:
        for block in blocks:
            way(block, rows, crew)

    return take


def _winners(block: ArgumentBlock, rows: Rows, crew: Crew) -> None:
    capacity = block.get("capacity")
    if not capacity:  # no lane has a row
        return
    memory = pool.acquire(4 * capacity)
    is_short = block.get("count") + capacity // 8 <= MOST_MARKED
    parts = 1 if is_short else crew.parts
    cuts = [capacity * part // parts for part in range(parts + 1)]
    _shards(block, [(a, b, 0, 0) for a, b in pairwise(cuts)])
    block.set(writers=address(memory), piece=LANES_AT_ONCE)
    crew.do(native("mark", Rows(1, rows.lane)), block, is_short=is_short)
    crew.do(native("store", replace(rows, same=False)), block)
    pool.release(memory)


def can_bucket(rows: Rows, capacity: int) -> bool:
    """Whether destinations inside buckets fit beside their elements."""
    return rows.size in (1, 2, 4, 8) and capacity <= MOST_BUCKETS << partition.local_bits(rows.size)


def _buckets(block: ArgumentBlock, rows: Rows, crew: Crew) -> None:
    count, capacity = block.get("count"), block.get("capacity")
    shift = bucket_shift(rows.size, capacity)
    buckets = max(1, (capacity - 1 >> shift) + 1)
    pair, parts = partition.pair_of(rows.size), crew.parts
    pairs = pool.acquire(count * pair + parts * (buckets + 1) * APART + 4096)
    counts = np.zeros((parts, partition.TABLES, buckets + 1), np.int64)
    block.set(pairs=address(pairs), counts=address(counts), shift=shift, buckets=buckets, workers=parts)
    marked = not _is_whole(block)
    crew.do(native("count", Rows(1, rows.lane), marked), block)
    segments = _segments(counts.sum(axis=1), APART // pair)
    counts[:, 0] = segments[..., 0].T
    crew.do(native("spread", Rows(rows.size, rows.lane, 1, other_step=rows.other_step), marked), block)
    block.set(segments=address(segments))
    crew.do(native("settle", replace(rows, same=False)), block)
    pool.release(pairs)


def _segments(counts: Array, apart: int) -> Array:
    """Where each worker's part of each bucket begins and ends, for what each has for each; so many places apart."""
    each = np.ascontiguousarray(counts.T)
    begins = np.cumsum(each) - each.ravel() + apart * np.arange(each.size)
    begins = begins.reshape(each.shape)
    return np.stack((begins, begins + each), axis=-1)


def bucket_shift(size: int, capacity: int) -> int:
    """Bits of a destination inside its bucket: a cache's worth of cells, in neither too many nor too few buckets."""
    nbytes = min(max(size * capacity // FEW_BUCKETS, LEAST_BUCKET), MOST_BUCKET)
    wanted = (nbytes // size).bit_length() - 1
    least = max(0, (capacity - 1).bit_length() - MOST_BUCKETS.bit_length() + 1)
    return min(max(wanted, least), partition.local_bits(size))


STRATEGIES: dict[str, Strategy] = {
    "direct": _direct,
    "destinations": _destinations,
    "columns": _columns,
    "winners": _each_alone(_winners),
    "buckets": _each_alone(_buckets),
}


def sum_up(block: ArgumentBlock, rows: Rows, crew: Crew, indices: phases.Indices | None) -> None:
    """Add in float32 and round once: ranges of the table, handed out one by one, each with sums of its own."""
    capacity, width = block.get("capacity"), max(1, block.get("width"))
    room = max(1, min(capacity, MOST_EXTRA // crew.parts // (4 * width + 1)))
    sums, marks = np.empty(crew.parts * room * width, np.float32), np.zeros(crew.parts * room, np.uint8)
    block.set(room=room, buckets=-(-capacity // room), totals=address(sums), marks=address(marks))
    block.keep += [sums, marks]
    crew.do(native("total", rows, indices), block)


def scratch_bytes(threads: int) -> int:
    """Bytes that workers need to themselves."""
    return SCRATCH * max(1, threads)
