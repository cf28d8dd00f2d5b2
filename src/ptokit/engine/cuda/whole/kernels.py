"""The kernels over whole arrays. All have the same arguments.

A move is cut into pieces of rows. Threads take pieces of the whole array, several at a time, so that enough loads are
under way; which row that is follows from a division. Nothing here knows an instruction of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from ptokit.engine.cuda.whole.atomics import atomically
from ptokit.engine.cuda.whole.pieces import given_in, view
from ptokit.engine.cuda.whole.sums import Sum
from ptokit.engine.llvm.chip import Chip
from ptokit.engine.llvm.emit import I32, I64, PTR, STREAMING, IrModule, IrValue, vector
from ptokit.engine.llvm.numbers import bits_of
from ptokit.engine.llvm.resolve import REMAPS, SENTINEL, lane_of, taken
from ptokit.isa.dtype import INT32, DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Remap, Side

WORDS = ("count", "capacity", "across", "shift")
POINTERS = ("table", "other", "index", "flag", "keys", "work")
"""The arguments of a kernel, before the numbers of its layouts.

| argument | meaning |
|---|---|
| `table`, `other`, `index` | the arrays; the first two without `noalias`: random rows take longer by `ld.global.nc` |
| `flag` | the number of indices that are refused, and the first of them |
| `keys` | rows and lanes, sorted; or for each row the last lane that names it, plus one |
| `work` | the number of long segments, and where they begin among the keys |
| `count`, `capacity` | lanes, rows of the table |
| `across` | pieces of a row |
| `shift` | bits of a lane in a key |
"""
NO_LAYOUT, ANY = Layout((), ()), INT32
"""What stands for the layout and the element type where code does not depend on them."""
TOTALS = 1024
"""Bytes of shared memory before the rows: the sums so far."""


@dataclass(frozen=True)
class Tuning:
    """Numbers that time depends on, and no result."""

    depth: int = 2
    """Pieces that a thread loads before it stores the first of them."""
    indices: int = 8
    """Indices that a thread loads at a time, where it moves no rows."""
    long: int = 256
    """Lanes of one row from which on a block takes a slice of the columns."""
    ahead: int = 2
    """Rows of a shorter segment that are loaded at a time."""
    slice: int = 32
    """Bytes of a row that a block takes of a long segment, at most."""
    staged: int = 4
    """Pieces of a long segment that a thread has under way."""
    chained: int = 16
    """Elements that are read from shared memory ahead of the additions."""
    shares: int = 4
    """Blocks for each multiprocessor that have copies of a small table, and go on until all is done."""
    chains: int = 4
    """Blocks for each multiprocessor that take long segments, and go on until all is done."""


TUNING = Tuning()
LANES = {"gather": 2.0, "checked_gather": 2.0, "fold": 0.5}
"""Threads of a block, for each of the chip's; 1 for other kernels."""


@dataclass(frozen=True)
class Kind:
    """What the code of a move depends on."""

    piece: int
    """Bytes of a piece."""
    across: int
    """Pieces of a row; 0 if that is an argument."""
    table: Layout
    other: Layout
    index: Layout
    index_type: DType
    cast: bool
    remap: Remap | None
    """None if no index is outside. Under `REFUSE` an index outside is skipped: it was reported before."""
    dtype: DType
    """The type of the elements, for arithmetic."""
    combine: Combine = Combine.STORE
    wide: bool = False
    """Whether sums are kept in float32."""
    owned: bool = False
    """Whether only the last lane that names a row writes it."""
    tuning: Tuning = TUNING

    @property
    def arguments(self) -> int:
        """How many arguments the kernel has."""
        return len(POINTERS) + len(WORDS) + sum(map(given_in, (self.index, self.table, self.other)))

    @property
    def of_indices(self) -> Kind:
        """What code depends on that reads indices only."""
        return replace(self, piece=1, across=1, table=NO_LAYOUT, other=NO_LAYOUT, dtype=ANY, combine=Combine.STORE,
                       wide=False, owned=False)  # fmt: skip

    @property
    def elements(self) -> int:
        """Elements of a piece."""
        return max(1, self.piece // self.dtype.size)

    @property
    def slice(self) -> int:
        """Pieces of a row that a block takes of a long segment."""
        most = self.tuning.slice // self.piece
        return most if not self.across else min(most, self.across)

    def staged_rows(self, lanes: int) -> int:
        """Rows of a long segment that are in shared memory at a time."""
        assert lanes * self.tuning.staged >= self.slice
        return lanes * self.tuning.staged // self.slice

    def shared(self, lanes: int) -> int:
        """Bytes of shared memory that a block needs for a long segment."""
        return TOTALS + 2 * self.pitch(lanes)

    def pitch(self, lanes: int) -> int:
        """Bytes of one of its two buffers."""
        return (self.staged_rows(lanes) + self.tuning.chained) * self.slice * self.piece


@dataclass(frozen=True)
class Place:
    """A row that a lane names."""

    row: IrValue
    """A row that exists, whatever the index."""
    inside: IrValue | None
    """Whether the index names it; None if it always does."""


class KernelSite:
    """A kernel that is being written."""

    def __init__(self, chip: Chip, kind: Kind, name: str) -> None:
        self.kind, self.tuning, self.module = kind, kind.tuning, IrModule(chip)
        pointers = [(PTR if each in ("table", "other") else f"{PTR} noalias", each) for each in POINTERS]
        parameters = [*pointers, *((I64, each) for each in WORDS)]
        parameters += [(I64, f"n{k}") for k in range(kind.arguments - len(parameters))]
        self.code = code = self.module.kernel(name, parameters)
        given = iter(code.arguments)
        table, other, index, self.flag, self.keys, self.work = (next(given) for _ in POINTERS)
        self.count, self.capacity, across, self.shift = (next(given) for _ in WORDS)
        self.across = code.i64(kind.across) if kind.across else across
        self.index = view(index, kind.index, given)
        self.table, self.other = view(table, kind.table, given), view(other, kind.other, given)
        self.open = None if kind.remap is not Remap.REFUSE else self._flag().compare("eq", 0)
        """Whether no index is refused; None if none can be."""

    def _flag(self) -> IrValue:
        return self.code.load(I64, self.flag)

    @property
    def text(self) -> str:
        self.code.ret()
        return self.module.text

    # --- shares of a thread

    @contextmanager
    def each(self, total: IrValue, depth: int) -> Generator[list[tuple[IrValue, IrValue | None]]]:
        """Numbers below a total, some for each thread at a time: a number, and whether it counts; None if it does."""
        code, lanes = self.code, self.code.chip.lanes
        with code.phase():
            assert code.lane is not None
            step = code.blocks * (lanes * depth)
            with code.loop(code.block * (lanes * depth) + code.lane, total, step) as first:
                last, numbers = total - 1, [first + lanes * k for k in range(depth)]
                counts = [None if number is first else number.compare("slt", total) for number in numbers]
                yield [
                    (number if count is None else code.select(count, number, last), count)
                    for number, count in zip(numbers, counts, strict=True)
                ]

    def split(self, number: IrValue) -> tuple[IrValue, IrValue]:
        """The row and the piece of a number."""
        return number.op("udiv", self.across), number.op("urem", self.across)

    # --- indices

    @property
    def lane(self) -> str:
        return lane_of(self.kind.index_type)

    def read(self, i: IrValue) -> IrValue:
        """The index of a lane, as it is."""
        code, kind = self.code, self.kind
        index = Index(Access("indices", kind.index), Side.SRC, IndexUnit.ROW, 0, Remap.REFUSE, cast=kind.cast)
        return taken(code, index, kind.index_type, self.index.row(code, i, code.i64), align=kind.index_type.size)

    def place(self, value: IrValue) -> Place:
        """The row that an index names."""
        code, remap = self.code, self.kind.remap
        if remap is None:
            return Place(value.to("zext", I64), None)
        change = REMAPS[Remap.SKIP if remap is Remap.REFUSE else remap](code, self.lane, self.capacity)
        found = change(value)
        if remap in (Remap.CLAMP, Remap.WRAP):
            return Place(found.to("zext", I64), None)
        inside = found.compare("ne", SENTINEL)
        return Place(code.select(inside, found, 0).to("zext", I64), inside)

    def refuse(self, value: IrValue, lane: IrValue, counts: IrValue | None) -> None:
        """Take note of an index that is outside."""
        code = self.code
        outside = value.to("zext", I64).compare("uge", self.capacity)
        with code.when(both(outside, counts) or outside):
            code.line(f"  atomicrmw add {self.flag!r}, i64 1 monotonic")
            code.line(f"  atomicrmw umin {code.at(self.flag, 8)!r}, {lane!r} monotonic")

    # --- pieces

    @property
    def bits(self) -> str:
        """A piece in registers."""
        size = 4 if self.kind.combine is Combine.STORE and self.kind.piece > 4 else self.kind.dtype.size
        size = min(size, self.kind.piece)
        return vector(f"i{8 * size}", self.kind.piece // size)

    def load(self, at: IrValue) -> IrValue:
        """A piece of the other array, or of a table that is only read."""
        return self.code.load(self.bits, at, self.kind.piece)

    def stream(self, value: IrValue, at: IrValue) -> None:
        """Store a piece that is not read soon."""
        self.code.store(value, at, self.kind.piece, STREAMING)

    def of_table(self, row: IrValue, piece: IrValue) -> IrValue:
        """Where a piece of the table lies."""
        return self.table.col(self.code, self.table.row(self.code, row, self.code.i64), piece, self.code.i64)

    def of_other(self, row: IrValue, piece: IrValue) -> IrValue:
        """Where a piece of the other array lies."""
        return self.other.col(self.code, self.other.row(self.code, row, self.code.i64), piece, self.code.i64)

    # --- keys

    def key(self, at: IrValue) -> IrValue:
        return self.code.load(I64, self.code.at(self.keys, at * 8))

    def row_of(self, key: IrValue) -> IrValue:
        return key.op("lshr", self.shift)

    def lane_of(self, key: IrValue) -> IrValue:
        one = self.code.i64(1)
        return key & (one.op("shl", self.shift) - 1)

    def near(self, at: IrValue) -> IrValue:
        """A place among the keys: this one, or the last."""
        last = self.count - 1
        return self.code.select(at.compare("slt", last), at, last)


def both(a: IrValue | None, b: IrValue | None) -> IrValue | None:
    """Whether two conditions hold; None stands for one that always does."""
    return b if a is None else a if b is None else a & b


def where(site: KernelSite, condition: IrValue | None) -> AbstractContextManager[None]:
    """Code for where a condition holds; None stands for one that always does."""
    return nullcontext() if condition is None else site.code.when(condition)


# --- Indices -----------------------------------------------------------------------------------------------------


def check(site: KernelSite) -> None:
    """Count the indices that are outside."""
    with site.each(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        for (i, counts), value in zip(lanes, values, strict=True):
            site.refuse(value, i, counts)


def keys(site: KernelSite) -> None:
    """A key for each lane: the row that it names, and the lane. Those that name none come last."""
    code, refuses = site.code, site.kind.remap is Remap.REFUSE
    with site.each(site.count, site.tuning.indices) as lanes:
        values = [site.read(i) for i, _ in lanes]
        for (i, counts), value in zip(lanes, values, strict=True):
            place = site.place(value)
            key = place.row.op("shl", site.shift) | i
            if place.inside is not None:
                key = code.select(place.inside, key, SENTINEL)
            code.store(key, code.at(site.keys, i * 8))
            if refuses:
                site.refuse(value, i, counts)


def mark(site: KernelSite) -> None:
    """Of the lanes that name a row, find the last one."""
    for place, at, i in _owners(site):
        with where(site, place.inside):
            site.code.line(f"  atomicrmw umax {at!r}, {i.to('trunc', I32) + 1!r} monotonic")


def clear(site: KernelSite) -> None:
    """Forget the owners of all rows that `scatter` looks up: of those that lanes name, and the first for others."""
    for _, at, _ in _owners(site):
        site.code.store(site.code.constant(I32, 0), at)


def _owners(site: KernelSite) -> Iterator[tuple[Place, IrValue, IrValue]]:
    """The place of each lane, where the owner of its row lies, and the lane."""
    with site.each(site.count, site.tuning.indices) as lanes:
        places = [site.place(value) for value in [site.read(i) for i, _ in lanes]]
        for (i, _), place in zip(lanes, places, strict=True):
            yield place, site.code.at(site.keys, place.row * 4), i


# --- Gather and direct scatter -----------------------------------------------------------------------------------


def gather(site: KernelSite) -> None:
    """Rows of the table to the other array."""
    _gather(site, site.open)


def checked_gather(site: KernelSite) -> None:
    """The same, with a check of the indices; rows of those that are inside are written in any case."""
    _gather(site, None, checks=True)


def _gather(site: KernelSite, may_write: IrValue | None, checks: bool = False) -> None:
    code = site.code
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        indices = [site.read(i) for i, _ in split]
        places = [site.place(value) for value in indices]
        found = [site.load(site.of_table(place.row, j)) for place, (_, j) in zip(places, split, strict=True)]
        for (i, j), place, value in zip(split, places, found, strict=True):
            if site.kind.remap is Remap.ZERO:
                assert place.inside is not None
                site.stream(code.select(place.inside, value, 0), site.of_other(i, j))
                continue
            with where(site, both(may_write, place.inside)):
                site.stream(value, site.of_other(i, j))
        for (i, j), index, (_, counts) in zip(split, indices, numbers, strict=True) if checks else ():
            site.refuse(index, i, both(j.compare("eq", 0), counts))


def scatter(site: KernelSite) -> None:
    """Rows of the other array to the table, in any order; where rows are owned, only those of the last lanes."""
    code, kind = site.code, site.kind
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        places = [site.place(value) for value in [site.read(i) for i, _ in split]]
        found = [site.load(site.of_other(i, j)) for i, j in split]
        owners = [code.load(I32, code.at(site.keys, p.row * 4)) for p in places] if kind.owned else []
        for k, ((i, j), place, value) in enumerate(zip(split, places, found, strict=True)):
            held = both(both(site.open, place.inside), numbers[k][1])
            if owners:
                held = both(held, owners[k].compare("eq", i.to("trunc", I32) + 1))
            with where(site, held):
                _put(site, value, site.of_table(place.row, j))


def _put(site: KernelSite, value: IrValue, at: IrValue) -> None:
    if site.kind.combine is Combine.STORE:
        site.code.store(value, at, site.kind.piece)
    else:
        atomically(site.code, site.kind.combine, site.kind.dtype, at, value)


def private(site: KernelSite) -> None:
    """Combine elements into a copy of a small table in shared memory, and that into the table."""
    code, kind = site.code, site.kind
    size, combine, dtype = kind.dtype.size, kind.combine, kind.dtype
    nothing = code.constant(site.bits, neutral(combine, dtype))
    with code.phase(), code.share(0, site.capacity) as cell:
        code.store(nothing, code.at(code.shared, cell * size))
    with site.each(site.count, site.tuning.indices) as lanes:
        places = [site.place(value) for value in [site.read(i) for i, _ in lanes]]
        found = [site.load(site.of_other(i, code.i64(0))) for i, _ in lanes]
        for (_, counts), place, value in zip(lanes, places, found, strict=True):
            with where(site, both(both(site.open, place.inside), counts)):
                atomically(code, combine, dtype, code.at(code.shared, place.row * size), value)
    with code.phase(), code.share(0, site.capacity) as cell:
        value = code.load(site.bits, code.at(code.shared, cell * size))
        with code.when(value.compare("ne", nothing)):
            atomically(code, combine, dtype, site.of_table(cell, code.i64(0)), value)


def neutral(combine: Combine, dtype: DType) -> int:
    """The bits of an element that changes nothing."""
    top = 1 << (8 * dtype.size - 1)
    if combine is Combine.ADD:
        return top if dtype.is_float else 0
    least, greatest = (0, 2 * top - 1) if dtype.family == "uint" else (top, top - 1)
    return least if combine is Combine.MAX else greatest


# --- Scatter by keys ---------------------------------------------------------------------------------------------


def settle(site: KernelSite) -> None:
    """Store the rows of the last lane of every segment of the keys."""
    code = site.code
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        after = [site.key(site.near(k + 1)) for k, _ in split]
        values = [site.load(site.of_other(_known_lane(site, key), j)) for key, (_, j) in zip(found, split, strict=True)]
        for (k, j), key, later, value in zip(split, found, after, values, strict=True):
            row = site.row_of(key)
            last = k.compare("eq", site.count - 1) | site.row_of(later).compare("ne", row)
            held = both(site.open, last & key.compare("ne", SENTINEL))
            with where(site, held):
                code.store(value, site.of_table(row, j), site.kind.piece)


def _known_lane(site: KernelSite, key: IrValue) -> IrValue:
    """The lane of a key; the first one for a key without."""
    return site.code.select(key.compare("ne", SENTINEL), site.lane_of(key), 0)


def fold(site: KernelSite) -> None:
    """Combine each short segment of the keys into its row, lane after lane; list the long ones."""
    code, sums = site.code, Sum(site.code, site.kind.combine, site.kind.dtype, wide=site.kind.wide)
    with site.each(site.count * site.across, site.tuning.depth) as numbers:
        taken: list[IrValue] = []
        split = [site.split(number) for number, _ in numbers]
        found = [site.key(k) for k, _ in split]
        before = [site.key(code.select(k.compare("eq", 0), k, k - 1)) for k, _ in split]
        beyond = [site.key(site.near(k + site.tuning.long)) for k, _ in split]
        rows = [site.row_of(key) for key in found]
        for n, (k, j) in enumerate(split):
            first = k.compare("eq", 0) | site.row_of(before[n]).compare("ne", rows[n])
            head = both(both(site.open, numbers[n][1]), first & found[n].compare("ne", SENTINEL))
            assert head is not None
            is_long = site.row_of(beyond[n]).compare("eq", rows[n]) & (k + site.tuning.long).compare("slt", site.count)
            with code.when(head & is_long & j.compare("eq", 0)):
                at = code.write(I64, f"atomicrmw add {site.work!r}, i64 1 monotonic")
                code.store(k, code.at(site.work, (at + 1) * 8))
            taken.append(head & (is_long ^ 1))
        some = taken[0]
        for each in taken[1:]:
            some = some | each
        with code.when(some):
            _fold(site, sums, split, found, rows, taken)


def _fold(
    site: KernelSite,
    sums: Sum,
    split: Sequence[tuple[IrValue, IrValue]],
    keys: Sequence[IrValue],
    rows: Sequence[IrValue],
    taken: Sequence[IrValue],
) -> None:
    """Segments that begin at some keys, if they are taken: the first row of all of them, then the others."""
    code = site.code
    cells = [site.of_table(code.select(held, row, 0), j) for held, row, (_, j) in zip(taken, rows, split, strict=True)]
    firsts = [
        site.of_other(code.select(held, site.lane_of(key), 0), j)
        for held, key, (_, j) in zip(taken, keys, split, strict=True)
    ]
    olds = [code.load(site.bits, cell, site.kind.piece) for cell in cells]
    news = [site.load(at) for at in firsts]
    for (k, j), held, row, cell, old, new in zip(split, taken, rows, cells, olds, news, strict=True):
        with code.when(held):
            start = sums.add(sums.begin(old), new)
            total = code.variable(start.type, start)
            _rest(site, sums, k, j, row, total.get, total.set)
            code.store(sums.end(total.get()), cell, site.kind.piece)


def _rest(
    site: KernelSite,
    sums: Sum,
    k: IrValue,
    j: IrValue,
    row: IrValue,
    get: Callable[[], IrValue],
    put: Callable[[IrValue], None],
) -> None:
    """The rows of a short segment after its first."""
    code = site.code
    with code.until() as done, code.loop(k + 1, k + site.tuning.long, site.tuning.ahead) as first:
        places = [first + step for step in range(site.tuning.ahead)]
        found = [site.key(site.near(place)) for place in places]
        same = [
            site.row_of(key).compare("eq", row) & place.compare("slt", site.count)
            for key, place in zip(found, places, strict=True)
        ]
        go_on = code.new_label("more")
        code.split(same[0], go_on, done)
        code.begin(go_on)
        lanes = [site.lane_of(code.select(held, key, found[0])) for held, key in zip(same, found, strict=True)]
        values = [site.load(site.of_other(lane, j)) for lane in lanes]
        total = get()
        for held, value in zip(same, values, strict=True):
            total = code.select(held, sums.add(total, value), total)
        put(total)
        code.split(same[-1], again := code.new_label("again"), done)
        code.begin(again)


def chain(site: KernelSite) -> None:
    """Combine each long segment: a block takes a slice of the columns, and has the next rows under way meanwhile."""
    _Chain(site).write()


class _Chain:
    """The kernel for long segments.

    Rows go through one of two buffers in shared memory: while the first threads add what one of them holds, all have
    loaded what the other gets.
    """

    def __init__(self, site: KernelSite) -> None:
        self.site, self.code, self.kind = site, site.code, site.kind
        kind, lanes = site.kind, site.code.chip.lanes
        self.sums = Sum(site.code, kind.combine, kind.dtype, wide=kind.wide)
        self.rows, self.pitch = kind.staged_rows(lanes), kind.pitch(lanes)
        self.columns = kind.slice * kind.elements
        self.bytes_of_row = kind.slice * kind.piece

    def write(self) -> None:
        code, site, kind = self.code, self.site, self.kind
        slices = (site.across + (kind.slice - 1)).op("udiv", kind.slice)
        with code.spread(0, code.load(I64, site.work) * slices) as item:
            start = code.load(I64, code.at(site.work, (item.op("udiv", slices) + 1) * 8))
            self.first = item.op("urem", slices) * kind.slice
            self.row = site.row_of(site.key(start))
            self.stop = self._end(start)
            with code.phase():
                self._cell(lambda at, total, _: code.store(self.sums.begin(code.load(self._bits, at)), total))
                self._store(self._load(start), code.i64(0))
            with code.loop(start, self.stop, self.rows) as begin, code.phase():
                turn = (begin - start).op("udiv", self.rows) & 1
                coming = self._load(begin + self.rows)
                code.settle()
                self._cell(lambda _, total, column: self._add(total, column, begin, turn))
                self._store(coming, turn ^ 1)
            with code.phase():
                self._cell(lambda at, total, _: code.store(self.sums.end(code.load(self.sums.kind, total)), at))

    @property
    def _bits(self) -> str:
        return bits_of(self.kind.dtype)

    def _end(self, start: IrValue) -> IrValue:
        """The first key of another row, by bisection."""
        code, site = self.code, self.site
        low, high = code.variable(I64, start), code.variable(I64, site.count)
        with code.until() as done, code.loop(0, 64):
            a, b = low.get(), high.get()
            go_on = code.new_label("bisect")
            code.split((b - a).compare("sgt", 1), go_on, done)
            code.begin(go_on)
            middle = (a + b) >> 1
            same = site.row_of(site.key(middle)).compare("eq", self.row)
            low.set(code.select(same, middle, a))
            high.set(code.select(same, b, middle))
        return high.get()

    def _cell(self, act: Callable[[IrValue, IrValue, IrValue], None]) -> None:
        """Let each thread that has a column act on its cell, its sum and its number."""
        code, site, kind = self.code, self.site, self.kind
        with code.share(0, code.i64(self.columns)) as column:
            piece = self.first + column.op("udiv", kind.elements)
            with code.when(piece.compare("slt", site.across)):
                at = code.at(site.of_table(self.row, piece), column.op("urem", kind.elements) * kind.dtype.size)
                act(at, code.at(code.shared, column * 8), column)

    def _load(self, begin: IrValue) -> list[IrValue]:
        """The pieces of some rows that fall to a thread."""
        code, site, kind = self.code, self.site, self.kind
        assert code.lane is not None
        numbers = [code.lane + code.chip.lanes * k for k in range(kind.tuning.staged)]
        last, right = self.stop - 1, site.across - 1
        places = [begin + number.op("udiv", kind.slice) for number in numbers]
        found = [site.key(code.select(place.compare("slt", last), place, last)) for place in places]
        pieces = [self.first + number.op("urem", kind.slice) for number in numbers]
        cols = [code.select(piece.compare("slt", right), piece, right) for piece in pieces]
        return [site.load(site.of_other(site.lane_of(key), j)) for key, j in zip(found, cols, strict=True)]

    def _store(self, values: Sequence[IrValue], turn: IrValue) -> None:
        """Put pieces of rows into a buffer."""
        code = self.code
        assert code.lane is not None
        base = code.at(code.shared, turn * self.pitch + TOTALS)
        for k, value in enumerate(values):
            number = code.lane + code.chip.lanes * k
            code.store(value, code.at(base, number * self.kind.piece), self.kind.piece)

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


OF_INDICES = ("check", "keys", "mark", "clear")
"""The kernels that read indices only."""
KERNELS: dict[str, Callable[[KernelSite], None]] = {
    each.__name__: each
    for each in (check, keys, mark, clear, gather, checked_gather, scatter, private, settle, fold, chain)
}


def text(chip: Chip, name: str, kind: Kind) -> str:
    """The LLVM text of a kernel."""
    site = KernelSite(chip, kind, name)
    KERNELS[name](site)
    return site.text
