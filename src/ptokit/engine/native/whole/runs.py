"""Lanes whose rows form arithmetic progressions, such as every eighth cell: moved without their indices.

An index array becomes runs: the first lane, its row, the distance from row to row, and the number of lanes. Each index
is read once, and compared with what the run says. So all are checked before anything is written, and what another
thread changes afterwards has no effect.
"""

from __future__ import annotations

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, vector
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.resolve import AT_ONCE
from ptokit.engine.native.whole.block import note, pieces, place, poll, word
from ptokit.engine.native.whole.mover import Mover, Rows
from ptokit.engine.native.whole.partition import slice_of
from ptokit.engine.native.whole.phases import Indices, ValuesInPlace
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
