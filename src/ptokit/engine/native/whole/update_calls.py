"""Calls that sum gradients by row and store or apply the sums, for one table or many: one launch for each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_uint8
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ptokit.engine.bag_arguments import RowUpdate
from ptokit.engine.llvm.row_code import JOB, UpdateKind, words_of_job
from ptokit.engine.native.whole.block import UNIT, ArgumentBlock
from ptokit.engine.native.whole.strategies import LONG, Team, native, pool, sampled
from ptokit.engine.native.whole.updates import DIGIT
from ptokit.engine.native.workers import Stop, thread_count
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Array, address_of

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
        work[:, 0] = [native("update", kinds[unit.job]).address for unit in units]
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
    launch(words_of(units, jobs, [native("own").address] * len(units)), team)


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
    code = [native("group", *kinds[unit.job]).address for unit in units]
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
        team.do(native("each"), block, parts=min(team.parts, len(units)))
