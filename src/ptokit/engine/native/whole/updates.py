"""Sums of gradients by row, stored or applied to a table: lanes are sorted by row, and each row is done once.

Three phases, each with units that threads take one by one. `own` writes the bag of each lane, if lanes have weights or
elements of their own. `group` picks the lanes of a range of rows and sorts them by row; the sort is stable. `apply`
sums the gradients of each row, in the order of the lanes, and does what the rule says (`engine/llvm/row_code.py`). No
two units have a row in common, so bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from ctypes import c_uint8
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ptokit.engine.bag_arguments import RowUpdate
from ptokit.engine.llvm.bag_code import in_columns
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.row_code import JOB, RowCode, UpdateKind, of_job, words_of_job
from ptokit.engine.native.whole.block import UNIT, ArgumentBlock, native, of_unit, put_unit, run_units
from ptokit.engine.native.whole.strategies import LONG, Team, pool, sampled
from ptokit.engine.native.workers import Stop, thread_count
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Array, address_of
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


# --- calls ------------------------------------------------------------------------------------------------------------


LEAST_SHARED = 1 << 18
"""Bytes of gradients for which threads are woken, at least."""
MOST_KEYS = 1 << 30
"""Bytes of keys: each range of rows has room for all lanes."""
LEAST_RANGE = 1 << 15
"""Lanes of a range that a thread sorts, at least: below that, waking another one takes longer."""
LEAST_SLICE = 1 << 12
"""Keys of a slice, at least."""
MOST_WIDTH = 1 << 13
"""The number of elements of a row whose sums a worker keeps."""
MOST_NUMBER = 1 << 31
"""Lanes and rows of a range: keys hold both."""
KEYS, COUNT, ROWS, OUT = (UNIT.index(name) for name in ("keys", "count", "rows", "out"))
NAMED, VALUES = JOB.index("named"), JOB.index("values")

Make = Callable[[int, int], tuple[int, int]]
"""Is given the number of a job and how many rows it has; the addresses of their numbers, 64 bits each, and of their
sums."""


@dataclass
class WorkUnit:
    """The facts of a unit, before addresses are known."""

    job: int
    low: int
    high: int


def run(given: Sequence[RowUpdate], threads: int | None, make: Make | None = None) -> None:
    """Sum and apply gradients of tables that no two jobs share. The rule `store` needs `make`, which is called when the
    rows of all jobs are known. Raises `Unsupported` before anything is written."""
    kinds = [UpdateKind.of(each) for each in given]
    for each in given:
        _check(each)
    nbytes = sum((each.last - each.first) * each.width * each.dtype.size for each in given)
    team = team_of(nbytes, threads)
    owners = np.zeros(sum(each.last - each.first for each in given if each.is_owned), np.int32)
    jobs = _jobs(given, address_of(owners))
    _own(given, jobs, team)
    units = _ranges(given, team)
    room = [8 * (given[unit.job].last - given[unit.job].first + 1) for unit in units]
    memory = pool.acquire(2 * sum(room))
    try:
        work = _grouped(given, jobs, units, room, address_of(memory), team)
        units, work = _sliced(units, work, team)
        if make is not None:
            _make(units, work, jobs, make)
        work[:, 0] = [native(apply, kinds[unit.job]).address for unit in units]
        launch(work, team)
    finally:
        pool.release(memory)


def team_of(nbytes: int, threads: int | None) -> Team:
    """The number of threads for a number of bytes of rows."""
    is_alone = nbytes < LEAST_SHARED or threads == 1
    return Team(0 if is_alone else thread_count(threads), Stop(), is_long=nbytes // 6 > LONG)


def _check(each: RowUpdate) -> None:
    if each.width > MOST_WIDTH or max(each.last, each.bags, each.capacity) >= MOST_NUMBER:
        raise Unsupported("updates of so many rows or elements")


def _jobs(given: Sequence[RowUpdate], owners: int) -> Array:
    """The words of jobs."""
    words: list[tuple[Any, ...]] = []
    for each in given:
        words.append(words_of_job(each, owners=owners - 4 * each.first))
        owners += 4 * (each.last - each.first) * each.is_owned
    return np.array(words, np.int64).reshape(len(given), len(JOB))


def _own(given: Sequence[RowUpdate], jobs: Array, team: Team) -> None:
    """Write the bag of each lane."""
    units = [
        WorkUnit(k, a, b)
        for k, each in enumerate(given)
        if each.is_owned
        for a, b in pairwise(even(each.bags, min(team.parts, 1 + (each.last - each.first) // LEAST_RANGE)))
    ]
    launch(words_of(units, jobs, [native(own).address] * len(units)), team)


def even(count: int, parts: int) -> list[int]:
    """The starts of the parts of a count, and the end of the last part."""
    return [count * part // parts for part in range(parts + 1)]


def _ranges(given: Sequence[RowUpdate], team: Team) -> list[WorkUnit]:
    """Ranges of the rows of each table, with about the same number of lanes: one if there are tables enough."""
    units: list[WorkUnit] = []
    total = sum(each.last - each.first for each in given)
    for k, each in enumerate(given):
        lanes = each.last - each.first
        most = min(-(-2 * team.parts * lanes // max(1, total)), team.parts, MOST_KEYS // (16 * lanes + 16))
        parts = max(1, min(most, lanes // LEAST_RANGE)) if team.threads else 1
        bounds = sampled(_lanes(each), each.capacity, parts).bounds if parts > 1 else (0, each.capacity)
        units += [WorkUnit(k, a, b) for a, b in pairwise(bounds) if a < b]
    return units


def _lanes(each: RowUpdate) -> Array:
    size = each.index_type.size
    return _memory(each.indices + each.first * size, each.last - each.first, size)


def _memory(address: int, count: int, size: int) -> Array:
    """Whole numbers at an address, without a sign."""
    memory: Any = (c_uint8 * (count * size)).from_address(address)
    return np.frombuffer(memory, f"u{size}")


def _grouped(
    given: Sequence[RowUpdate], jobs: Array, units: Sequence[WorkUnit], room: Sequence[int], keys: int, team: Team
) -> Array:
    """The units, with their keys sorted."""
    places = list(accumulate((2 * each for each in room), initial=keys))
    rest = [
        (place, place + each, -(-(unit.high - unit.low - 1).bit_length() // DIGIT))
        for unit, place, each in zip(units, places, room, strict=False)
    ]
    kinds = [(each.index_type, each.bounds != 0 and not each.is_owned) for each in given]
    code = [native(group, *kinds[unit.job]).address for unit in units]
    work = words_of(units, jobs, code, rest)
    launch(work, team)
    return work


def _sliced(units: Sequence[WorkUnit], work: Array, team: Team) -> tuple[Sequence[WorkUnit], Array]:
    """Units with about the same number of keys; those of a row stay together."""
    if not team.threads:
        return units, work
    total = max(1, int(work[:, COUNT].sum()))
    parts: list[tuple[WorkUnit, Array]] = []
    for unit, words in zip(units, work, strict=True):
        count = int(words[COUNT])
        most = min(-(-2 * team.parts * count // total), team.parts, count // LEAST_SLICE)
        if most < 2:
            parts.append((unit, words))
            continue
        rows = _memory(int(words[KEYS]), count, 8) >> 32
        cuts = [0, *np.searchsorted(rows, rows[even(count, most)[1:-1]]).tolist(), count]
        for a, b in pairwise(cuts):
            if a < b:
                part = words.copy()
                part[KEYS] += 8 * a
                part[COUNT], part[ROWS] = b - a, 1 + np.count_nonzero(rows[a + 1 : b] != rows[a : b - 1])
                parts.append((unit, part))
    return [unit for unit, _ in parts], np.array([words for _, words in parts]).reshape(len(parts), len(UNIT))


def _make(units: Sequence[WorkUnit], work: Array, jobs: Array, make: Make) -> None:
    """Give the rows of each job places in its output, in their order."""
    before = [0] * len(jobs)
    for unit, words in zip(units, work, strict=True):
        words[OUT] = before[unit.job]
        before[unit.job] += int(words[ROWS])
    for number, rows in enumerate(before):
        jobs[number, NAMED], jobs[number, VALUES] = make(number, rows)


def words_of(
    units: Sequence[WorkUnit], jobs: Array, code: Sequence[int], rest: Sequence[tuple[int, int, int]] | None = None
) -> Array:
    """Units, with their functions, and what is known of keys."""
    first, step = address_of(jobs), jobs.strides[0]
    rows = [
        (at, first + step * unit.job, unit.low, unit.high, *more, 0, 0, 0)
        for at, unit, more in zip(code, units, rest or [(0, 0, 0)] * len(units), strict=True)
    ]
    return np.array(rows, np.int64).reshape(len(rows), len(UNIT))


def launch(units: Array, team: Team) -> None:
    """Do all units, whose functions may differ."""
    if len(units):
        block = ArgumentBlock(1, team.stop)
        block.set(table=address_of(units), count=len(units))
        team.do(native(run_units), block, parts=min(team.parts, len(units)))
