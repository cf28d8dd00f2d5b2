"""Kernels over segments: the lanes of a row, which take effect in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from ptokit.engine.cuda.whole.combining import Sum
from ptokit.engine.cuda.whole.grouping import ATOMIC, CHAINED, WORD, Groups, in_words
from ptokit.engine.cuda.whole.kinds import TOTALS
from ptokit.engine.cuda.whole.site import KernelSite, both, held, where
from ptokit.engine.llvm.emit import I32, I64, IrValue, Variable
from ptokit.engine.llvm.numbers import bits_of
from ptokit.engine.llvm.resolve import SENTINEL


def chain(groups: Groups) -> None:
    """Combine each long segment: a block takes a slice of the columns, and has the next rows under way meanwhile."""
    _Chain(groups).write()


class _Chain:
    """The code for long segments.

    Rows go through one of two buffers in shared memory: while the first threads add what one of them holds, all have
    loaded what the other gets.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups, self.site, self.code, self.kind = groups, groups.site, groups.code, groups.site.kind
        site = groups.site
        kind, lanes = site.kind, site.code.chip.lanes
        self.sums = Sum(site.code, kind.combine, kind.dtype, wide=kind.wide)
        self.rows, self.pitch = kind.staged_rows(lanes), kind.pitch(lanes)
        self.columns = kind.slice * kind.elements
        self.bytes_of_row = kind.slice * kind.piece

    def write(self) -> None:
        code, site, kind = self.code, self.site, self.kind
        slices = (site.across + (kind.slice - 1)).op("udiv", kind.slice)
        with code.loop(code.block, self.groups.number(CHAINED) * slices, site.chains) as item:
            start, n = self.groups.segment(self.groups.chained, item.op("udiv", slices))
            self.first, self.stop = item.op("urem", slices) * kind.slice, start + n
            self.place = site.place(site.read(self.groups.lane_at(start)))
            with code.phase():
                self._cell(lambda at, total, _: code.store(self.sums.begin(site.old(self._bits, at)), total))
                self._store(self._load(start), code.i64(0))
            with code.loop(start, self.stop, self.rows) as begin, code.phase():
                turn = (begin - start).op("udiv", self.rows) & 1
                coming = self._load(begin + self.rows)
                code.settle()
                self._cell(lambda _, total, column: self._add(total, column, begin, turn))
                self._store(coming, turn ^ 1)
            with code.phase(), where(site, both(site.open, self.place.inside)):
                self._cell(lambda at, total, _: code.store(self.sums.end(code.load(self.sums.kind, total)), at))

    @property
    def _bits(self) -> str:
        return bits_of(self.kind.dtype)

    def _cell(self, act: Callable[[IrValue, IrValue, IrValue], None]) -> None:
        """Let each thread that has a column act on its cell, its sum and its number."""
        code, site, kind = self.code, self.site, self.kind
        with code.share(0, code.i64(self.columns)) as column:
            piece = self.first + column.op("udiv", kind.elements)
            with code.when(piece.compare("slt", site.across)):
                at = code.at(site.of_table(self.place.row, piece), column.op("urem", kind.elements) * kind.dtype.size)
                act(at, code.at(code.shared, column * 8), column)

    def _load(self, begin: IrValue) -> list[tuple[IrValue, ...]]:
        """What the pieces of some rows that fall to a thread are computed from."""
        code, site, kind = self.code, self.site, self.kind
        numbers = [code.lane + code.chip.lanes * k for k in range(kind.tuning.staged)]
        last, right = self.stop - 1, site.across - 1
        places = [begin + number.op("udiv", kind.slice) for number in numbers]
        found = [self.groups.lane_at(code.select(place.compare("slt", last), place, last)) for place in places]
        pieces = [self.first + number.op("urem", kind.slice) for number in numbers]
        cols = [code.select(piece.compare("slt", right), piece, right) for piece in pieces]
        return [site.fetch(lane, j) for lane, j in zip(found, cols, strict=True)]

    def _store(self, fetched: Sequence[tuple[IrValue, ...]], turn: IrValue) -> None:
        """Put pieces of rows into a buffer."""
        code = self.code
        base = code.at(code.shared, turn * self.pitch + TOTALS)
        for k, each in enumerate(fetched):
            number = code.lane + code.chip.lanes * k
            code.store(self.site.value(each), code.at(base, number * self.kind.piece), self.kind.piece)

    def _add(self, total: IrValue, column: IrValue, begin: IrValue, turn: IrValue) -> None:
        """Add a column of a buffer, in order, with the next elements in registers."""
        code, sums, step, chained = self.code, self.sums, self.bytes_of_row, self.kind.tuning.chained
        left = self.stop - begin
        rows = code.select(left.compare("slt", self.rows), left, self.rows)
        whole = rows - rows.op("urem", chained)
        base = code.at(code.shared, turn * self.pitch + column * self.kind.dtype.size + TOTALS)

        def element(row: IrValue) -> IrValue:
            return code.load(self._bits, code.at(base, row * step))

        so_far = code.variable(sums.kind, code.load(sums.kind, total))
        coming = [code.variable(self._bits, element(code.i64(k))) for k in range(chained)]
        code.settle()
        with code.loop(0, whole, chained) as row:
            values = [each.get() for each in coming]
            for k, each in enumerate(coming):
                each.set(element(row + chained + k))
            code.settle()
            current = so_far.get()
            for value in values:
                current = sums.add(current, value)
            so_far.set(current)
        with code.loop(whole, rows) as row:
            so_far.set(sums.add(so_far.get(), element(row)))
        code.store(so_far.get(), total)


TAKEN = 16
"""Lanes that a block of `brief` takes."""


def settle(site: KernelSite) -> None:
    """Store the rows of the last lane of every row of sorted keys."""
    code = site.code
    with site.thread_loop(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        after = [site.key(site.near(k + 1)) for k, _ in split]
        values = [site.load(site.of_other(_known_lane(site, key), j)) for key, (_, j) in zip(found, split, strict=True)]
        for (k, j), key, later, value in zip(split, found, after, values, strict=True):
            row = site.row_of(key)
            last = k.compare("eq", site.count - 1) | site.row_of(later).compare("ne", row)
            with code.when(held(last & key.compare("ne", SENTINEL), site.open)):
                code.store(value, site.of_table(row, j), site.kind.piece)


def _known_lane(site: KernelSite, key: IrValue) -> IrValue:
    """The lane of a key; the first one for a key without."""
    return site.code.select(key.compare("ne", SENTINEL), site.lane_of(key), 0)


def alone(site: KernelSite) -> None:
    """Combine each lane that is the only one of its row."""
    code, groups, kind = site.code, Groups(site), site.kind
    sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
    with site.thread_loop(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        places = [site.known_place(*each) for each in [(i, site.read(i)) for i, _ in split]]
        shared = [groups.is_shared(place.row) for place in places]
        is_alone = [
            held(several ^ 1, site.open, counts, place.inside)
            for (_, counts), place, several in zip(numbers, places, shared, strict=True)
        ]
        with code.when(reduce(lambda a, b: a | b, is_alone)):
            lanes, rows = [i for i, _ in split], [place.row for place in places]
            lanes, rows = (_only(site, is_alone, each) for each in (lanes, rows))
            cells = [site.of_table(row, j) for row, (_, j) in zip(rows, split, strict=True)]
            olds = [site.old(site.bits, cell) for cell in cells]
            news = [site.source(i, j) for i, (_, j) in zip(lanes, split, strict=True)]
            for known, cell, old, new in zip(is_alone, cells, olds, news, strict=True):
                with code.when(known):
                    code.store(sums.end(sums.add(sums.begin(old), new)), cell, kind.piece)


def brief_shared(count: int) -> int:
    """Bytes of shared memory of `brief`."""
    return TAKEN * (8 + 4 * -(-count // WORD))


def brief(site: KernelSite) -> None:
    """Combine some lanes: a block takes a few of them, and finds all others of their rows. The first lane of a row
    takes the others along, in their order."""
    code = site.code
    with code.spread((site.count + (TAKEN - 1)).op("udiv", TAKEN)) as group:
        rows = BriefRows(site, group * TAKEN)
        rows.clear()
        rows.find()
        rows.combine()


class BriefRows:
    """The rows that a few lanes name. In shared memory are, of each: the first and the last lane, and a bitmap."""

    def __init__(self, site: KernelSite, base: IrValue) -> None:
        self.site, self.code, self.base = site, site.code, base
        self.words = (site.count + (WORD - 1)).op("udiv", WORD)

    def ends(self, k: IrValue | int) -> tuple[IrValue, IrValue]:
        """Where the first and the last lane of a row are."""
        first = self.code.at(self.code.shared, self.code.i64(k) * 8)
        return first, self.code.at(first, 4)

    def bitmap(self, k: IrValue | int) -> IrValue:
        """Where the bitmap of a row is."""
        return self.code.at(self.code.shared, self.words * k * 4 + 8 * TAKEN)

    def clear(self) -> None:
        code = self.code
        with code.phase():
            with code.share(0, self.words * TAKEN) as k:
                code.store(code.constant(I32, 0), code.at(self.bitmap(0), k * 4))
            with code.share(0, code.i64(TAKEN)) as k:
                first, last = self.ends(k)
                code.store(code.constant(I32, -1), first)
                code.store(code.constant(I32, 0), last)

    def find(self) -> None:
        """Set the bits of all lanes that name one of the rows."""
        site, code, deep = self.site, self.code, self.site.tuning.scanned
        with code.phase():
            own = [site.place(site.read(site.near(self.base + k))) for k in range(TAKEN)]
            with code.loop(site.code.lane, site.count, code.chip.lanes * deep) as low:
                numbers = [low + code.chip.lanes * step for step in range(deep)]
                places = [site.place(site.read(site.near(i))) for i in numbers]
                for i, place in zip(numbers, places, strict=True):
                    same = [row.row.compare("eq", place.row) for row in own]
                    counts = held(i.compare("slt", site.count), place.inside)
                    with code.when(reduce(lambda a, b: a | b, same) & counts):
                        for k, is_same in enumerate(same):
                            with code.when(is_same):
                                self._set(k, i)

    def _set(self, k: int, i: IrValue) -> None:
        code, (at, bit), (first, last) = self.code, in_words(i), self.ends(k)
        lane = i.to("trunc", I32)
        code.line(f"  atomicrmw or {code.at(self.bitmap(k), at)!r}, {bit!r} {ATOMIC}")
        code.line(f"  atomicrmw umin {first!r}, {lane!r} {ATOMIC}")
        code.line(f"  atomicrmw umax {last!r}, {lane!r} {ATOMIC}")

    def combine(self) -> None:
        site, code, kind = self.site, self.code, self.site.kind
        sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
        with code.phase(), code.share(0, site.across * TAKEN) as number:
            k, j = site.split(number)
            i = self.base + k
            place = site.place(site.read(site.near(i)))
            first, last = (code.load(I32, at).to("zext", I64) for at in self.ends(k))
            with code.when(held(first.compare("eq", i), site.open, place.inside)):
                cell = site.of_table(place.row, j)
                begun = sums.add(sums.begin(site.old(site.bits, cell)), site.source(i, j))
                total = code.variable(begun.type, begun)
                with code.when(last.compare("ne", first)), code.loop(i >> 5, (last >> 5) + 1) as word:
                    self._take_along(sums, total, (k, i, j), word)
                code.store(sums.end(total.get()), cell, kind.piece)

    def _take_along(self, sums: Sum, total: Variable, own: tuple[IrValue, IrValue, IrValue], word: IrValue) -> None:
        """Add the lanes of a word of a bitmap that are behind the own one; some are loaded at a time."""
        site, code, (k, i, j) = self.site, self.code, own
        at, bit = in_words(i)
        found = code.load(I32, code.at(self.bitmap(k), word * 4))
        rest = code.variable(I32, code.select(at.compare("eq", word * 4), found & (bit ^ -1), found))
        with code.repeat(lambda: rest.get().compare("ne", 0)):
            lanes: list[tuple[IrValue, IrValue]] = []
            for _ in range(site.tuning.ahead):
                bits = rest.get()
                some = code.call(I32, "llvm.cttz.i32", bits, "i1 false").to("zext", I64)
                lanes.append((bits.compare("ne", 0), word * WORD + some))
                rest.set(bits & (bits - 1))
            values = [site.source(code.select(has, lane, i), j) for has, lane in lanes]
            for (has, _), value in zip(lanes, values, strict=True):
                total.set(code.select(has, sums.add(total.get(), value), total.get()))


def _only(site: KernelSite, needed: Sequence[IrValue], numbers: Sequence[IrValue]) -> list[IrValue]:
    """Numbers, with one that is needed in the place of those that are not: what is loaded for these is dropped."""
    code, some = site.code, numbers[-1]
    for known, number in zip(needed[:-1], numbers[:-1], strict=True):
        some = code.select(known, number, some)
    return [code.select(known, number, some) for known, number in zip(needed, numbers, strict=True)]


def fold(site: KernelSite) -> None:
    """Combine each segment into its row, lane after lane: the first blocks the long ones, the others the rest."""
    code, groups = site.code, Groups(site)
    site.block, site.blocks = code.block - site.chains, code.blocks - site.chains
    code.choose(code.block.compare("ult", site.chains), lambda: chain(groups), lambda: _short(groups))


def _short(groups: Groups) -> None:
    """Segments that are not long: a thread takes a piece of one."""
    site, code, kind = groups.site, groups.code, groups.site.kind
    sums = Sum(code, kind.combine, kind.dtype, wide=kind.wide)
    with site.thread_loop(groups.count * site.across, 1) as numbers:
        k, j = site.split(numbers[0][0])
        first, n = groups.segment(groups.segments, k)
        place = site.place(site.read(groups.lane_at(first)))
        with where(site, both(both(site.open, place.inside), n.compare("ule", site.tuning.long))):
            cell = site.of_table(place.row, j)
            total = _sum(groups, sums, (first, n), j, sums.begin(site.old(site.bits, cell)))
            code.store(sums.end(total), cell, kind.piece)


def _sum(groups: Groups, sums: Sum, segment: Sequence[IrValue], j: IrValue, begun: IrValue) -> IrValue:
    """A sum with the rows of a segment, some loaded at a time."""
    site, code = groups.site, groups.code
    (first, n), total = segment, code.variable(begun.type, begun)
    with code.loop(0, n, site.tuning.ahead) as low:
        steps = [low + k for k in range(site.tuning.ahead)]
        inside = [step.compare("ult", n) for step in steps]
        lanes = [
            groups.lane_at(first + code.select(known, step, low)) for known, step in zip(inside, steps, strict=True)
        ]
        values = [site.source(lane, j) for lane in lanes]
        so_far = total.get()
        for known, value in zip(inside, values, strict=True):
            so_far = code.select(known, sums.add(so_far, value), so_far)
        total.set(so_far)
    return total.get()
