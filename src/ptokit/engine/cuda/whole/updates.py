"""Kernels that sum gradients by row, and store or apply the sums: lanes are sorted by row, and each row is done once.

`keys` writes a key for each lane: its row, among those of all tables one after the other, and the lane or its bag.
When the keys are sorted, `rows` sums and applies those of each row, from the first on. To store sums, `mark` keeps
where the keys of each row begin, and when these are sorted, `ends` finds how many rows there are up to each table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ptokit.engine.cuda.whole.groups import bit_length
from ptokit.engine.llvm.bags import in_columns
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrModule, IrValue
from ptokit.engine.llvm.updates import JOB, RowCode, UpdateKind, of_job, repeat

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
    """Of how many numbers from 0 on something holds, if it does for none behind the first of which it does not."""
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
        with repeat(code, goes_on.get):
            found = [self._lane(place.get() + k) for k in range(AT_ONCE)]
            given = [self.given(lane, self.owner(lane), column, count) for lane, _ in found]
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
