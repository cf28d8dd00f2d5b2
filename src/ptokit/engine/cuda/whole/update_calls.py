"""Gradients that are summed by row, and stored or applied, for one table or many, on a GPU: lanes are sorted by row,
and each row is done once.

`keys` writes a key for each lane: its row, among those of all tables one after the other, and the lane or its bag.
When the keys are sorted, `rows` sums and applies those of each row, from the first on. To store sums, `mark` keeps
where the keys of each row begin, and when these are sorted, `ends` finds how many rows there are up to each table. The
host waits for nothing but the number of rows, if they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.bag_arguments import RowUpdate
from ptokit.engine.cuda.device import Device, DeviceKernel, current
from ptokit.engine.cuda.whole.bag_launches import MOST_GRID, lanes_of, uploaded
from ptokit.engine.cuda.whole.grouping import bit_length
from ptokit.engine.cuda.whole.kinds import PIECE
from ptokit.engine.llvm.bag_code import in_columns
from ptokit.engine.llvm.compiled import IrSource
from ptokit.engine.llvm.emit import I32, I64, PTR, Chip, IrBuilder, IrModule, IrValue
from ptokit.engine.llvm.row_code import JOB, RowCode, UpdateKind, of_job, words_of_job
from ptokit.engine.runnable import Unsupported

POINTERS = ("jobs", "keys", "owners", "marks", "ends")
NUMBERS = ("tables", "lanes", "shift", "first", "last", "count", "across")
"""Arguments: jobs; keys, the bags of lanes, where rows begin, how many there are up to each table. How many jobs and
lanes; bits of a key below its row; the rows of these jobs among those of all; of what a kernel does how many there are,
and how many threads do one."""
AT_ONCE = 8
"""Lanes whose gradients are loaded before the first of them is added."""
NONE = -1
"""The key of a lane that adds nothing."""


@dataclass(frozen=True)
class UpdateKernel:
    """What the code of a kernel depends on."""

    name: str
    index: int = 8
    """Bytes of an index."""
    bags: bool = True
    """Whether there are bags; else, each lane is one."""
    kind: UpdateKind | None = None
    columns: int = 1
    """Those that a thread takes."""


class _UpdateSite:
    """A kernel that is being written."""

    def __init__(self, chip: Chip, kernel: UpdateKernel) -> None:
        self.module, self.kernel = IrModule(chip), kernel
        given = [*((PTR, name) for name in POINTERS), *((I64, name) for name in NUMBERS)]
        self.code = self.module.kernel(kernel.name, given)
        self.jobs, self.keys, self.owners, self.marks, self.ends, *numbers = self.code.arguments
        self.tables, self.lanes, self.shift, self.first, self.last, self.count, self.across = numbers[: len(NUMBERS)]

    def job(self, number: IrValue) -> IrValue:
        return self.code.at(self.jobs, number * (8 * len(JOB)))

    def word(self, pointer: IrValue, k: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(pointer, k * 8))

    def row(self, place: IrValue) -> IrValue:
        """The row of a key, among those of all jobs."""
        return self.word(self.keys, place).op("lshr", self.shift)

    def begins(self, place: IrValue, row: IrValue) -> IrValue:
        """Whether a place has the first key of a row of these jobs."""
        is_first = place.compare("eq", 0)
        before = self.row(self.code.select(is_first, place, place - 1))
        return (is_first | before.compare("ne", row)) & (row - self.first).compare("ult", self.last - self.first)

    def job_of(self, row: IrValue) -> IrValue:
        """The job of a row."""
        starts = bisected(self.code, self.tables, lambda k: of_job(self.code, self.job(k), "start").compare("sle", row))
        return self.job(starts - 1)


def bisected(code: IrBuilder, count: IrValue, holds: Callable[[IrValue], IrValue]) -> IrValue:
    """How many of the numbers 0, 1, ... satisfy a condition that holds up to some number and for none after it."""
    found, bits = code.variable(I64, code.i64(0)), bit_length(count)
    with code.loop(0, bits) as k:
        tried = found.get() + (code.i64(1) << (bits - 1 - k))
        exists = tried.compare("sle", count)
        is_so = exists & holds(code.select(exists, tried, 1) - 1)
        found.set(code.select(is_so, tried, found.get()))
    return found.get()


def text(chip: Chip, kernel: UpdateKernel) -> str:
    """The LLVM text of a kernel."""
    site = _UpdateSite(chip, kernel)
    code = site.code
    with code.phase():
        start, step = code.block * chip.lanes + code.lane, code.blocks * chip.lanes
        with code.loop(start, site.count * site.across, step) as number:
            KERNELS[kernel.name](site, number)
    code.ret()
    return site.module.text


def _keys(site: _UpdateSite, lane: IrValue) -> None:
    """The key of a lane."""
    code, size = site.code, site.kernel.index
    job, bag, has_bag = _owner(site, lane) if site.kernel.bags else (site.jobs, lane, code.constant("i1", 1))
    name = code.load(f"i{8 * size}", code.at(of_job(code, job, "indices", PTR), lane * size)).to("zext", I64)
    is_inside = name.compare("ult", of_job(code, job, "capacity"))
    counts = has_bag & is_inside & name.compare("ne", of_job(code, job, "padding"))
    low = bag
    if site.kernel.bags:
        code.store(bag.to("trunc", I32), code.at(site.owners, lane * 4))
        others = of_job(code, job, "weights") | of_job(code, job, "winners")
        low = code.select(others.compare("eq", 0), bag, lane)
    key = (of_job(code, job, "start") + name) << site.shift | low
    code.store(code.select(counts, key, NONE), code.at(site.keys, lane * 8))


def _owner(site: _UpdateSite, lane: IrValue) -> tuple[IrValue, IrValue, IrValue]:
    """The job and the bag of a lane, which exist, and whether it has one."""
    code = site.code

    def bound(job: IrValue, bag: IrValue) -> IrValue:
        return site.word(of_job(code, job, "bounds", PTR), bag)

    jobs = bisected(code, site.tables, lambda k: bound(site.job(k), code.i64(0)).compare("sle", lane))
    job = site.job(code.select(jobs.compare("eq", 0), jobs, jobs - 1))
    bags = of_job(code, job, "bags")
    started = bisected(code, bags, lambda k: bound(job, k).compare("sle", lane))
    is_none = (jobs.compare("eq", 0) | started.compare("eq", 0)) | bound(job, bags).compare("sle", lane)
    return job, code.select(started.compare("eq", 0), started, started - 1), is_none ^ 1


def _mark(site: _UpdateSite, place: IrValue) -> None:
    """Where the keys of a row begin."""
    begins = site.begins(place, site.row(place))
    site.code.store(site.code.select(begins, place, NONE), site.code.at(site.marks, place * 8))


def _ends(site: _UpdateSite, number: IrValue) -> None:
    """How many rows there are up to the end of a table."""
    code, job = site.code, site.job(number)
    end = of_job(code, job, "start") + of_job(code, job, "capacity")

    def is_before(k: IrValue) -> IrValue:
        place = site.word(site.marks, k)
        is_there = place.compare("ult", site.lanes)
        return is_there & site.row(code.select(is_there, place, 0)).compare("ult", end)

    code.store(bisected(code, site.lanes, is_before), code.at(site.ends, number * 8))


def _rows(site: _UpdateSite, number: IrValue) -> None:
    """Sum some columns of a row, and do what the rule says; nothing for places inside of a row."""
    code, kind = site.code, site.kernel.kind
    assert kind is not None
    nth, piece = number.op("udiv", site.across), number.op("urem", site.across)
    place = site.word(site.marks, nth) if kind.rule == "store" else nth
    row = site.row(place)
    with code.when(site.begins(place, row)):
        job = site.job_of(row)
        rows, own = _SortedRow(site, kind, job, row, place), row - of_job(code, job, "start")
        if rows.by_row:
            rows.finish(own, nth, rows.summed, lambda do: in_columns(code, kind.width, site.kernel.columns, do))
            return
        column = piece * site.kernel.columns
        with code.when(column.compare("slt", rows.width)):
            rows.finish(own, nth, rows.summed, lambda do: do(column, site.kernel.columns))


class _SortedRow(RowCode):
    """A row, whose keys begin at a place."""

    def __init__(self, site: _UpdateSite, kind: UpdateKind, job: IrValue, row: IrValue, place: IrValue) -> None:
        super().__init__(site.code, kind, job)
        self.site, self.row, self.place, self.owners = site, row, place, site.owners

    def summed(self, column: IrValue, count: int) -> IrValue:
        """The sum of some columns, in the order of the keys."""
        code, site, total = self.code, self.site, self.none(count)
        place, goes_on = code.variable(I64, self.place), code.variable("i1", code.constant("i1", 1))
        with code.repeat(goes_on.get):
            found = [self._lane(place.get() + k) for k in range(AT_ONCE)]
            given = [self.addend(lane, self.owner(lane), column, count) for lane, _ in found]
            for bits, (_, is_own) in zip(given, found, strict=True):
                now = total.get()
                total.set(code.select(is_own, self.added(now, bits), now))
            place.set(place.get() + AT_ONCE)
            goes_on.set(found[-1][1] & place.get().compare("slt", site.lanes))
        return total.get()

    def _lane(self, place: IrValue) -> tuple[IrValue, IrValue]:
        """What a key has below its row, and whether it is of this row; if not, what the first one has."""
        code, site = self.code, self.site
        exists = place.compare("slt", site.lanes)
        key = site.word(site.keys, code.select(exists, place, self.place))
        is_own = exists & key.op("lshr", site.shift).compare("eq", self.row)
        key = code.select(is_own, key, site.word(site.keys, self.place))
        return key & ((code.i64(1) << site.shift) - 1), is_own


Write = Callable[[_UpdateSite, IrValue], None]
KERNELS: dict[str, Write] = {"keys": _keys, "mark": _mark, "ends": _ends, "rows": _rows}


MOST_BITS, MOST_KEY = 31, 63
"""Bits of the number of a lane, and of a key, at most."""
MOST_KEPT = 256
"""The largest number of elements of a row whose sums a thread keeps."""
NAMED, VALUES = JOB.index("named"), JOB.index("values")
Make = Callable[[int, int], tuple[int, int]]
"""Is given the number of a job and how many rows it has; the addresses of their numbers, 64 bits each, and of their
sums."""


def run(given: Sequence[RowUpdate], _threads: int | None = None, make: Make | None = None) -> None:
    """Sum and apply gradients of tables that no two jobs share; their lanes are those of one array, one job after the
    other. The rule `store` needs `make`. Raises `Unsupported` before anything is written."""
    call = _UpdateCall(current(), given)
    call.sort()
    call.finish(call.lanes if make is None else call.place(make))


class _UpdateGroup(NamedTuple):
    """Jobs that one launch does."""

    kernel: DeviceKernel
    jobs: list[int]
    across: int
    """Threads for each row."""


class _UpdateCall:
    """The kernels of a call, and their arguments."""

    def __init__(self, device: Device, given: Sequence[RowUpdate]) -> None:
        self.device, self.updates, self.lanes = device, given, max(each.last for each in given)
        self.groups = _grouped(device, given)
        self.order = [number for group in self.groups for number in group.jobs]
        self.starts = list(accumulate((given[number].capacity for number in self.order), initial=0))
        """Where the rows of each job begin among those of all, in this order."""
        self.shift = max(self.lanes, *(each.bags for each in given)).bit_length()
        if self.shift > MOST_BITS or self.shift + self.starts[-1].bit_length() > MOST_KEY or not self.lanes:
            raise Unsupported(f"updates of {self.starts[-1]} rows by {self.lanes} lanes")
        if len({(each.indices, each.index_type, each.bounds != 0) for each in given}) > 1:
            raise Unsupported("updates by several arrays of indices")
        starts = dict(zip(self.order, self.starts, strict=False))
        self.words = np.array([words_of_job(each, start=starts[k]) for k, each in enumerate(given)], np.int64)
        self._upload()
        self.keys, self.owners, self.marks = (device.empty(nbytes * self.lanes) for nbytes in (8, 4, 8))

    def _upload(self) -> None:
        """The words of jobs as they were given, and then in the order of the groups."""
        self.jobs = uploaded(self.device, np.concatenate([self.words, self.words[self.order]]))

    def sort(self) -> None:
        """Sort the lanes by row."""
        job = self.updates[0]
        self._launch(_kernel(self.device, UpdateKernel("keys", job.index_type.size, job.bounds != 0)), self.lanes)
        self.device.sort(self.keys.address, self.lanes)

    def place(self, make: Make) -> int:
        """Find where the keys of each row begin, and give all rows places in the output; how many there are."""
        device, count = self.device, len(self.updates)
        ends = device.empty(8 * count)
        self._launch(_kernel(device, UpdateKernel("mark")), self.lanes)
        device.sort(self.marks.address, self.lanes)
        self._launch(_kernel(device, UpdateKernel("ends")), count, slice(count, 2 * count), out=ends.address)
        found = [0, *device.download(ends.address, 8 * count).view(np.int64).tolist()]
        rows = dict(zip(self.order, pairwise(found), strict=True))
        for number, each in enumerate(self.updates):
            first, end = rows[number]
            named, values = make(number, end - first)
            self.words[number, NAMED] = named - 8 * first
            self.words[number, VALUES] = values - first * each.width * each.dtype.size
        self._upload()
        return found[-1]

    def finish(self, count: int) -> None:
        """Apply the rules to a number of rows, or of places where a row may begin."""
        first = len(self.updates)
        for kernel, own, across in self.groups:
            self._launch(kernel, count, slice(first, first + len(own)), across)
            first += len(own)

    def _launch(
        self, kernel: DeviceKernel, count: int, jobs: slice | None = None, across: int = 1, out: int = 0
    ) -> None:
        """Launch a kernel with some of the jobs in the order of the groups, or with all as they were given."""
        first, end = (0, len(self.updates)) if jobs is None else (jobs.start, jobs.stop)
        rows = (0, self.starts[-1]) if jobs is None else [self.starts[k - len(self.updates)] for k in (first, end)]
        buffers = (each.address for each in (self.keys, self.owners, self.marks))
        places = self.jobs.address + 8 * len(JOB) * first, *buffers, out
        numbers = end - first, self.lanes, self.shift, *rows, count, across
        grid = min(MOST_GRID, -(-count * across // lanes_of(self.device)))
        if count:
            kernel(grid, (*places, *numbers))


def _grouped(device: Device, given: Sequence[RowUpdate]) -> list[_UpdateGroup]:
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, each in enumerate(given):
        groups.setdefault(_key(each), []).append(number)
    made: list[_UpdateGroup] = []
    for (columns, width, *_), own in groups.items():
        kind = UpdateKind.of(given[own[0]], width=width, host=False)
        across = 1 if width else max(given[number].width for number in own) // columns
        made.append(_UpdateGroup(_kernel(device, UpdateKernel("rows", kind=kind, columns=columns)), own, across))
    return made


def _key(each: RowUpdate) -> tuple[Any, ...]:
    """What the code for a job depends on: the columns that a thread takes, as many as a load has; the width if it is
    not that of the job; and what kinds have of it."""
    size, width = each.dtype.size, each.width if each.rule == "rowwise_adagrad" else 0
    if width > MOST_KEPT:
        raise Unsupported(f"squares of {width} columns")
    others = each.winners // 4 | each.state // max(4, size)
    every = each.grad | each.grad_row | each.table | each.width * size | others * size | PIECE
    columns = max(1, (every & -every) // size)
    return columns, width, each.dtype, each.rule, each.weights != 0, each.winners != 0, each.decay != 0


@lru_cache(maxsize=1024)
def _kernel(device: Device, kernel: UpdateKernel) -> DeviceKernel:
    chip = replace(device.chip, lanes=lanes_of(device))
    module = device.module(f"{chip} {kernel}", lambda: IrSource(text(chip, kernel), {"lanes": chip.lanes}))
    return module.kernel(kernel.name)
