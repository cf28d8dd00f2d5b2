"""Lanes whose rows form arithmetic progressions, such as every eighth cell: moved without their indices.

An index array becomes runs: the first lane, its row, the distance from row to row, and the number of lanes. Each index
is read once, and compared with what the run says. So all are checked before anything is written, and what another
thread changes afterwards has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, vector
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.resolve import AT_ONCE
from ptokit.engine.native import host
from ptokit.engine.native.whole.block import ArgumentBlock, native, note, pieces, place, poll, word
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.engine.native.whole.partition import slice_of
from ptokit.engine.native.whole.phases import Indices, ValuesInPlace
from ptokit.engine.native.whole.strategies import Team, fetches
from ptokit.engine.storage import address_of
from ptokit.isa.move import Combine

COMPARED = 64
"""Indices that are compared between two branches."""
RUN = 4
"""Words of a run."""
SAMPLED = 32
"""Places where neighbours are sampled."""


def glance(code: IrBuilder, indices: Indices, gathers: bool) -> None:
    """At how many of some places three neighbours are not of one run; for a scatter, of one with different rows."""
    apart, breaks = word(code, "count").op("udiv", SAMPLED), code.variable(I64, code.i64(0))
    values = ValuesInPlace(code, indices)
    with code.loop(0, SAMPLED) as k:
        a, b, c = (values.read(k * apart + nth, 1) for nth in range(3))
        is_break = (b - a).compare("ne", c - b)
        is_break = is_break if gathers else is_break | a.compare("eq", b)
        breaks.set(breaks.get() + is_break.to("zext", I64))
    code.store(breaks.get(), place(code, "missed"))


def find(code: IrBuilder, indices: Indices) -> None:
    """The runs of the worker's slice of the lanes, and how many there are; ends early if they are too many."""
    limit, worker, capacity = word(code, "run_limit"), code.arguments[1], word(code, "capacity")
    found = code.at(word(code, "counts", PTR), worker * 8)
    runs = code.at(word(code, "runs", PTR), worker * limit * 8 * RUN)
    if indices.lane == I32:  # compared modulo 2^32: a run must not go beyond
        most = code.i64(1 << 32)
        capacity = code.select(capacity.compare("ult", most), capacity, most)
    first, last = slice_of(code)
    at = code.variable(I64, first)
    with code.until() as done:
        reader = _RunReader(code, indices, last, done)
        with code.loop(0, limit) as nth:
            start = at.get()
            missed = code.write(I64, f"load atomic i64, {place(code, 'missed')!r} monotonic, align 8")
            code.leave_unless(start.compare("slt", last) & missed.compare("eq", 0), done)
            value, step, apart = reader.step(start)
            end = reader.end(start, value, step)
            row, length, run = value.to("zext", I64), end - start, code.at(runs, nth * 8 * RUN)
            for each, what in enumerate((start, row, apart, length)):
                code.store(what, code.at(run, 8 * each))
            beside, final = code.select(length.compare("eq", 1), row, row + apart), row + apart * (length - 1)
            is_row, is_beside, is_final = (each.compare("ult", capacity) for each in (row, beside, final))
            code.leave_unless(is_row & is_beside & is_final, done)
            at.set(end)
            code.store(nth + 1, found)
    with code.when(at.get().compare("slt", last)):
        note(code, "missed", code.i64(1))


class _RunReader:
    """Reads indices up to the last one, and compares them with a run; jumps to `done` if the launch was stopped."""

    def __init__(self, code: IrBuilder, indices: Indices, last: IrValue, done: str) -> None:
        self.code, self.indices, self.last, self.done = code, indices, last, done
        self.read = ValuesInPlace(code, indices).read

    def step(self, start: IrValue) -> tuple[IrValue, IrValue, IrValue]:
        """The first value of a run, and the distance of the next run: modulo the values of a lane, and in full."""
        code, after = self.code, start + 1
        value, beside = self.read(start, 1), self.read(code.select(after.compare("slt", self.last), after, start), 1)
        return value, beside - value, beside.to("zext", I64) - value.to("zext", I64)

    def end(self, start: IrValue, value: IrValue, step: IrValue) -> IrValue:
        """Where a run ends: many values at a time, and then one by one."""
        code, end, lane = self.code, self.code.variable(I64, start + 1), self.indices.lane

        def value_at(k: IrValue) -> IrValue:
            return value + (k - start).to("trunc", lane) * step

        if self.indices.dense:
            wide = AT_ONCE[lane]
            numbers = IrValue(code, vector(lane, wide), f"<{', '.join(f'{lane} {k}' for k in range(wide))}>")
            ramp, further = code.splat(step, wide) * numbers, code.splat(step * wide, wide)
            with code.until() as ended, code.loop(start + 1, self.last - (COMPARED - 1), COMPARED) as k:
                poll(code, self.done)
                end.set(k)
                wanted = code.splat(value_at(k), wide) + ramp
                differs = self.read(k, wide) ^ wanted
                for more in range(wide, COMPARED, wide):
                    wanted = wanted + further
                    differs = differs | (self.read(k + more, wide) ^ wanted)
                code.leave_unless(code.reduce("or", differs).compare("eq", 0), ended)
                end.set(k + COMPARED)
        with code.until() as ended, code.loop(end.get(), self.last) as k:
            if not self.indices.dense:
                poll(code, self.done)
            code.leave_unless(self.read(k, 1).compare("eq", value_at(k)), ended)
            end.set(k + 1)
        return end.get()


def move(code: IrBuilder, rows: Rows, gathers: bool, streams: bool) -> None:
    """Runs of lanes, of which no two write to one place; what lies side by side may go past the caches.

    Pieces are ranges of lanes, or of rows if all runs have one distance: of all lanes in a piece, before the next one.
    """
    mover, runs, piece = Mover(code, rows), word(code, "runs", PTR), word(code, "piece")
    by_row, low = word(code, "by_row").compare("ne", 0), word(code, "low")
    with pieces(code, "extent") as number, code.loop(0, word(code, "run_count")) as nth:
        run = code.at(runs, nth * 8 * RUN)
        lane, row, step, length = (code.load(I64, code.at(run, 8 * each)) for each in range(RUN))
        is_back = step.compare("slt", 0)
        least = code.select(is_back, row + step * (length - 1), row)
        start = code.select(by_row, least, lane)
        apart = code.select(by_row & length.compare("ne", 1), code.select(is_back, 0 - step, step), 1)
        before = low + number * piece - start
        begin, end = (_divided_up(distance, apart) for distance in (before, before + piece))
        begin = code.select(begin.compare("sgt", 0), begin, 0)
        end = code.select(end.compare("slt", length), end, length)
        skipped = code.select(by_row & is_back, length - end, begin)
        with code.when(begin.compare("slt", end)):
            cell, item = mover.cell(row + step * skipped), mover.item(lane + skipped)
            _move_run(mover, cell, item, step * mover.table_row, end - begin, gathers, streams)
    if streams:
        code.line("  fence seq_cst")  # stores past the caches are not ordered by themselves


def _divided_up(value: IrValue, by: IrValue) -> IrValue:
    """A quotient, rounded up; 0 or less if the value is below 0."""
    return (value + by - 1).op("sdiv", by)


def _move_run(
    mover: Mover, cell: IrValue, item: IrValue, apart: IrValue, length: IrValue, gathers: bool, streams: bool
) -> None:
    code, rows = mover.code, mover.rows

    def one_by_one() -> None:
        def pair(k: IrValue) -> tuple[IrValue, IrValue]:
            return code.at(cell, k * apart), code.at(item, k * mover.other_row)

        (mover.load_pairs if gathers else mover.store_each)(length, pair)

    def at_once() -> None:
        ends, nbytes = (item, cell) if gathers else (cell, item), length * rows.nbytes
        if streams:
            mover.writer.stream([ends], nbytes)
        else:
            mover.writer.copy(*ends, nbytes)

    def same() -> None:
        kind, wide = f"i{8 * rows.size}", LINE // rows.size
        value = code.load(kind, cell, 1)
        many = code.splat(value, wide)
        for k, count in code.strips(length, wide):
            code.store(many if count > 1 else value, code.at(item, k * rows.size), 1)

    def apart_from_each_other() -> None:
        if gathers and rows.width == 1 and rows.other_step == rows.size <= 8:
            code.choose(apart.compare("eq", 0), same, one_by_one)
        else:
            one_by_one()

    if rows.combine is Combine.STORE and rows.dense and rows.nbytes and rows.other_step == rows.nbytes:
        code.choose(apart.compare("eq", rows.nbytes), at_once, apart_from_each_other)
    else:
        apart_from_each_other()


# --- found in the indices, and shared among threads ------------------------------------------------------------------


FEWEST = 1 << 14
"""Lanes from which on runs are looked for."""
MOST_BREAKS = 2
"""At how many of the sampled places a run may end."""
LEAST_RUN, MOST_RUNS = 256, 1024
"""The least lanes of a run, on average, and the most runs: otherwise other strategies take less time."""
TILE = 512
"""Lanes of a run that are moved at a time, if other runs name rows in the same cache lines."""
MOST_EMPTY = 4
"""How many times the lanes all runs may have, if each reached from the lowest row to the highest, for that."""
MOVED, LEAST_MOVED = 1 << 16, 1 << 12
"""Lanes that are moved at a time otherwise, at most and at least."""


class LaneRun(NamedTuple):
    """Lanes in sequence whose rows have one distance."""

    lane: int
    row: int
    step: int
    length: int

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest row, and the highest."""
        last = self.row + self.step * (self.length - 1)
        return min(self.row, last), max(self.row, last)


def gather(block: ArgumentBlock, rows: Rows, indices: Indices, team: Team) -> bool:
    """Gather lanes of few runs; whether that was done."""
    runs = _found(block, indices, team, gathers=True)
    if runs:
        _move(block, rows, team, runs, gathers=True)
    return bool(runs)


def scatter(block: ArgumentBlock, rows: Rows, indices: Indices, team: Team) -> bool:
    """Scatter lanes of few runs, if no two of them name one row; whether that was done."""
    runs = _found(block, indices, team, gathers=False)
    is_done = bool(runs) and _are_distinct(runs)
    if is_done:
        _move(block, rows, team, runs, gathers=False)
    return is_done


def _found(block: ArgumentBlock, indices: Indices, team: Team, *, gathers: bool) -> list[LaneRun]:
    """The runs of the lanes, in order; none if there are too many, or if a row is outside."""
    count, parts = block.get("count"), team.parts
    limit = min(MOST_RUNS, count // LEAST_RUN) // parts
    if count < FEWEST or not limit or count * block.get("capacity") >> 63:  # numbers of rows must not overflow
        return []
    native(glance, indices, gathers)(block.address, 0)
    if block.get("missed") > MOST_BREAKS:
        return []
    memory, counts = np.empty((parts, limit, len(LaneRun._fields)), np.int64), np.zeros(parts, np.int64)
    block.set(runs=address_of(memory), counts=address_of(counts), run_limit=limit, workers=parts, missed=0)
    team.do(native(find, indices), block)
    if block.get("missed"):
        return []
    return [LaneRun(*run) for part, found in enumerate(counts.tolist()) for run in memory[part, :found].tolist()]


def _are_distinct(runs: Sequence[LaneRun]) -> bool:
    """Whether it is plain that no two lanes name one row: runs lie apart, or between each other with one step."""
    steps = _steps(runs)
    if 0 in steps:
        return False
    for step in {1, *steps} if len(steps) == 1 else {1}:
        ends = sorted((run.ends[0] % step, *run.ends) for run in runs)
        if all(a < b or high < low for (a, _, high), (b, low, _) in pairwise(ends)):
            return True
    return False


def _steps(runs: Sequence[LaneRun]) -> set[int]:
    return {abs(run.step) for run in runs if run.length > 1}


def _move(block: ArgumentBlock, rows: Rows, team: Team, runs: list[LaneRun], *, gathers: bool) -> None:
    """Move runs, by ranges of lanes; by ranges of rows if several runs may have lines of the table in common."""
    count, steps = block.get("count"), _steps(runs)
    step, low, extent = max(steps, default=0), 0, count
    piece = min(MOVED, max(LEAST_MOVED, count // (4 * team.parts)))
    by_row = rows.far and len(steps) == 1 < step and any(a.row + a.length * a.step != b.row for a, b in pairwise(runs))
    if by_row:
        ends = [run.ends for run in runs]
        first, last = min(ends)[0], max(high for _, high in ends)
        by_row = (last - first) // step * len(runs) <= MOST_EMPTY * count
        if by_row:
            low, extent, piece = first, last + 1 - first, TILE * step
            runs.sort(key=lambda run: run.ends)
    listed = np.array(runs, np.int64)
    block.set(runs=address_of(listed), run_count=len(listed), piece=piece, extent=extent, low=low, by_row=by_row)
    far = not gathers and not by_row and step > 1 and fetches(rows)  # only stores are prefetched
    streams = count * rows.size >= host.HOST.stream_from
    team.do(native(move, replace(rows, far=far, stream=False), gathers, streams), block)
