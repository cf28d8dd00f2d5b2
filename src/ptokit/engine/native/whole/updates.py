"""Sums of gradients by row, stored or applied to a table: lanes are sorted by row, and each row is done once.

Three phases, each with units that threads take one by one. `own` writes the bag of each lane, if lanes have weights or
elements of their own. `group` picks the lanes of a range of rows and sorts them by row; the sort is stable. `apply`
sums the gradients of each row, in the order of the lanes, and does what the rule says. No two units have a row in
common, so bits do not depend on the number of threads.

With w the row of the table, g the sum, rounded to the type of the table, s the state, and each operation rounded, in
float32, or in float64 where w is that:

| rule | formula |
|---|---|
| all with weight decay | g = g + decay * w |
| `store` | row and g go to the next place of the output |
| `sgd` | w = w - lr * g |
| `adagrad` | s = s + g * g; w = w - (lr * g) / (sqrt(s) + eps) |
| `rowwise_adagrad` | s = s + squares(g) / width, one number for the row; w = w - (lr * g) / (sqrt(s) + eps) |

`squares` sums the squares of columns j, j + 16, j + 32, … for each j below 16, in that order from 0 on, and adds the
second half of the 16 sums to the first, then those of the 8, 4 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from ptokit.engine.bags import PARTIAL
from ptokit.engine.llvm.compute.elements import from_single, single
from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, element_of, lanes_of, vector
from ptokit.engine.llvm.move import LINE
from ptokit.engine.llvm.numbers import bits_of, canonical, intrinsic
from ptokit.engine.native.whole.bags import in_columns
from ptokit.engine.native.whole.units import of_unit, put_unit
from ptokit.isa.dtype import DType

JOB = (
    "grad", "grad_row", "indices", "bounds", "weights", "winners", "table", "state", "first", "last", "padding",
    "lr", "eps", "decay", "bags", "owners", "named", "values",
)  # fmt: skip
"""The words of a job: those of a `RowUpdate`; the bag of each lane; the output. A key is a row of the range,
and in the lower half the lane, or its bag if nothing depends on the lane."""
DIGIT = 11
"""Bits by which keys are sorted at a time."""
COLUMNS = 256
"""Bytes of sums that registers hold."""
AHEAD = 8
"""Rows after which a row of the table is needed that is prefetched now."""
MOST_WIDTH = 1 << 13
"""Elements of a row of which a worker keeps the sum."""


@dataclass(frozen=True)
class UpdateKind:
    """What the code of `apply` depends on."""

    dtype: DType
    width: int
    rule: str
    weighted: bool
    picked: bool
    decays: bool
    owned: bool
    """Whether bags of lanes must be looked up; else a key has the number of its row of the gradient."""

    @property
    def key(self) -> str:
        return repr(self)

    @property
    def of_sums(self) -> str:
        """The type of sums and of the state."""
        return "double" if self.dtype.size == 8 else "float"


def _of_job(code: IrBuilder, name: str, kind: str = I64) -> IrValue:
    return code.load(kind, code.at(of_unit(code, "job", PTR), 8 * JOB.index(name)))


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
    with _while(code, lambda: q.get().compare("slt", count)):
        first = q.get()
        key = rows.key(first)
        if kind.rule != "store":
            ahead = first + AHEAD
            rows.prefetch(rows.row_of(rows.key(code.select(ahead.compare("slt", count), ahead, first))))
        q.set(first + 1)
        with _while(code, lambda: rows.is_more(q.get(), count, key)):
            q.set(q.get() + 1)
        rows.finish(rows.row_of(key), out.get(), first, q.get())
        out.set(out.get() + 1)


@contextmanager
def _while(code: IrBuilder, condition: Callable[[], IrValue]) -> Generator[None]:
    """As long as a condition holds."""
    head, body, done = (code.new_label(hint) for hint in ("while", "do", "end"))
    code.begin(head)
    code.split(condition(), body, done)
    code.begin(body)
    yield
    code.jump(head)
    code.begin(done)


class _Rows:
    """The rows of a unit, one after the other."""

    def __init__(self, code: IrBuilder, kind: UpdateKind) -> None:
        self.code, self.kind = code, kind
        self.keys, self.low = of_unit(code, "keys", PTR), of_unit(code, "low")
        names = ("grad", "weights", "winners", "table", "state", "owners", "named", "values")
        self.grad, self.weights, self.winners, self.table, self.state, self.owners, self.named, self.values = (
            _of_job(code, name, PTR) for name in names
        )
        self.grad_row = _of_job(code, "grad_row")
        given = (_of_job(code, name, "double") for name in ("lr", "eps", "decay"))
        self.lr, self.eps, self.decay = (each.to("fptrunc", kind.of_sums) for each in given)
        self.size, self.wide = kind.dtype.size, COLUMNS // max(4, kind.dtype.size)
        self.sum_size = max(4, self.size)
        self.by_row = kind.rule == "rowwise_adagrad"
        whole = -(-kind.width // PARTIAL) * PARTIAL * self.sum_size
        self.kept = code.memory(whole) if self.by_row else None
        """The sum of a row, and zeros up to the next multiple of `PARTIAL`."""
        if self.kept is not None:
            code.fill_bytes(self.kept, 0, code.i64(whole))

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
        name = code.module.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
        areas = [(self.table, self.kind.width * self.size)]
        if self.kind.rule in ("adagrad", "rowwise_adagrad"):
            areas.append((self.state, self.sum_size * (1 if self.by_row else self.kind.width)))
        for start, nbytes in areas:
            place = code.at(start, row * nbytes)
            for line in range(0, min(nbytes, 8 * LINE), LINE):
                code.call("void", name, code.at(place, line), "i32 1", "i32 3", "i32 1")

    def finish(self, row: IrValue, out: IrValue, first: IrValue, last: IrValue) -> None:
        """Sum a row of keys from the first to the last, and do what the rule says."""
        code, kept = self.code, self.kept

        def whole(column: IrValue, count: int) -> None:
            total = self._total(first, last, column, count)
            if self.kind.decays:
                total = total + self._value(self._cell(row, column), count) * self._all(self.decay, count)
            if kept is not None:
                code.store(total, code.at(kept, column * self.sum_size), self.sum_size)
            else:
                self._end(row, out, column, total, None)

        in_columns(code, self.kind.width, self.wide, whole)
        if self.kind.rule == "store":
            code.store(row, code.at(self.named, out * 8))
        if kept is None:
            return
        root = self._root_of_row(row, kept)

        def update(column: IrValue, count: int) -> None:
            total = code.load(vector(self.kind.of_sums, count), code.at(kept, column * self.sum_size), self.sum_size)
            self._end(row, out, column, total, root)

        in_columns(code, self.kind.width, self.wide, update)

    def _total(self, first: IrValue, last: IrValue, column: IrValue, count: int) -> IrValue:
        """The sum of some columns of the gradients of lanes."""
        code, kind = self.code, self.kind
        total = code.variable(vector(kind.of_sums, count), code.constant(vector(kind.of_sums, count), "0.0"))
        with code.loop(first, last) as k:
            lane = self.key(k) & 0xFFFFFFFF
            bag = code.load(I32, code.at(self.owners, lane * 4)).to("zext", I64) if kind.owned else lane
            bits = code.load(bits_of(kind.dtype, count), code.at(self.grad, bag * self.grad_row + column * self.size))
            if kind.weighted:
                at = code.at(self.weights, lane * self.size)
                weight = self._all(single(code, kind.dtype, code.load(bits_of(kind.dtype), at)), count)
                bits = from_single(code, kind.dtype, single(code, kind.dtype, bits) * weight)
            if kind.picked:
                at = code.at(self.winners, (bag * kind.width + column) * 4)
                is_own = code.load(vector(I32, count), at).compare("eq", self._all(lane.to("trunc", I32), count))
                bits = code.select(is_own, bits, 0)
            total.set(total.get() + single(code, kind.dtype, bits))
        return single(code, kind.dtype, from_single(code, kind.dtype, total.get()))

    def _end(self, row: IrValue, out: IrValue, column: IrValue, g: IrValue, root: IrValue | None) -> None:
        """Store some columns of a sum, or update the row by them."""
        code, kind, count = self.code, self.kind, lanes_of(g.type)
        if kind.rule == "store":
            at = code.at(self.values, (out * kind.width + column) * self.size)
            code.store(from_single(code, kind.dtype, g), at)
            return
        step, cell = self._all(self.lr, count) * g, self._cell(row, column)
        if kind.rule == "adagrad":
            at = code.at(self.state, (row * kind.width + column) * self.sum_size)
            squares = canonical(code, code.load(g.type, at) + g * g)
            code.store(squares, at)
            step = step.op("fdiv", intrinsic(code, "sqrt", squares) + self._all(self.eps, count))
        elif root is not None:
            step = step.op("fdiv", self._all(root, count))
        code.store(from_single(code, kind.dtype, self._value(cell, count) - step), cell)

    def _root_of_row(self, row: IrValue, kept: IrValue) -> IrValue:
        """Add the mean of squares to the state of a row; its root, plus eps."""
        code, kind = self.code, vector(self.kind.of_sums, PARTIAL)
        total = code.variable(kind, code.constant(kind, "0.0"))
        with code.loop(0, self.kind.width, PARTIAL) as column:
            found = code.load(kind, code.at(kept, column * self.sum_size), self.sum_size)
            total.set(total.get() + found * found)
        squares = total.get()
        while (half := lanes_of(squares.type) // 2) > 0:
            squares = _part(code, squares, 0, half) + _part(code, squares, half, half)
        at = code.at(self.state, row * self.sum_size)
        width = code.i64(self.kind.width).to("sitofp", squares.type)
        state = canonical(code, code.load(squares.type, at) + squares.op("fdiv", width))
        code.store(state, at)
        return intrinsic(code, "sqrt", state) + self.eps

    def _cell(self, row: IrValue, column: IrValue) -> IrValue:
        return self.code.at(self.table, (row * self.kind.width + column) * self.size)

    def _value(self, place: IrValue, count: int) -> IrValue:
        return single(self.code, self.kind.dtype, self.code.load(bits_of(self.kind.dtype, count), place))

    def _all(self, value: IrValue, count: int) -> IrValue:
        return self.code.splat(value, count)


def _part(code: IrBuilder, value: IrValue, first: int, count: int) -> IrValue:
    """Some lanes of a vector."""
    if count == 1:
        return code.write(element_of(value.type), f"extractelement {value!r}, i64 {first}")
    lanes = ", ".join(f"i32 {first + k}" for k in range(count))
    kind = vector(element_of(value.type), count)
    return code.write(kind, f"shufflevector {value!r}, {value.type} poison, <{count} x i32> <{lanes}>")
