"""The executable meaning of `Move` and `Compute`, in vectorised NumPy. Other engines are tested against this one."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Self

import numpy as np

from ptokit.engine.compute import OPS, ZeroDivisor, accumulate
from ptokit.engine.faults import IndexFault, IndexReport, SpanFault, ZeroFault
from ptokit.engine.storage import Array, Region, Storage, region
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import NOTHING, UNSPECIFIED, Access, Combine, Compute, Fill, Index, IndexUnit, Move, Remap, Side

MOST_ADDRESSED = 1 << 62
"""Offsets from here on are not computed: they would not fit NumPy's integers."""

NEGATIVE = 1 << 31
"""From here on, a signed index taken as uint32 was negative."""

Storages = Sequence[Storage]
"""The operands' memories, in the order of the names a plan was made for."""


class Operands:
    """Names, element types and sizes of the operands that a plan is made for."""

    def __init__(self, types: Mapping[str, DType], sizes: Mapping[str, int]) -> None:
        self.types = types
        self.sizes = sizes
        self.slots = {name: slot for slot, name in enumerate(types)}


@dataclass(slots=True)
class Lanes:
    """Index values after the remap, and the lanes that were outside and did not move inside."""

    values: Array
    outside: Array | None = None


class IndexReader:
    """Turns raw index bits into lanes."""

    def __init__(self, index: Index, dtype: DType) -> None:
        self.index = index
        self.dtype = dtype
        self.capacity = np.uint64(index.capacity)
        self.signed = index.cast and dtype.family == "int"

    def widen(self, raw: Array) -> Array:
        """A copy as int64: sign-extended to 32 bits and taken as uint32, unless 64-bit indices stay whole."""
        if self.dtype.size == 4:
            return raw.astype(np.int64)
        values = np.ascontiguousarray(raw).view(self.dtype.numpy).astype(np.int64)
        return values & 0xFFFFFFFF if self.index.cast else values

    def read(self, raw: Array, reports: list[IndexReport]) -> Lanes:
        """Check and remap; raises `IndexFault` for an index outside under `REFUSE`."""
        values = self.widen(raw)
        top = self.largest(values)
        if top >= NEGATIVE and self.signed and self.index.remap in (Remap.CLAMP, Remap.WRAP):
            self._note("negative", values >= NEGATIVE, values, reports)
        if top >= self.index.capacity:
            if self.index.remap is Remap.REFUSE:
                raise IndexFault(self.report("outside", self.is_outside(values), values))
            return self.land(values)
        if self.index.valid is not None:
            self._report_padding(values, reports)
        return Lanes(values)

    def largest(self, values: Array) -> int:
        """The largest value, a negative 64-bit one counting as huge."""
        unsigned = values if self.index.cast else values.view(np.uint64)
        return unsigned.item(unsigned.argmax())

    def is_outside(self, values: Array) -> Array:
        """Which values are not in [0, capacity)."""
        return values.view(np.uint64) >= self.capacity

    def land(self, values: Array) -> Lanes:
        """Apply the policy; lanes that it does not move inside point at 0 and are marked."""
        if self.index.remap is Remap.CLAMP:
            return Lanes(np.clip(values, 0, self.index.capacity - 1))
        if self.index.remap is Remap.WRAP:
            return Lanes(np.mod(values, self.index.capacity))
        outside = self.is_outside(values)
        return Lanes(np.where(outside, 0, values), outside)

    def report(self, kind: str, where: Array, values: Array) -> IndexReport:
        """A report on the first of some lanes, and their number."""
        lane = np.unravel_index(int(np.argmax(where)), where.shape)
        value = int(values[lane])
        if self.signed and value >= NEGATIVE:
            value -= 1 << 32
        position = tuple(int(k) for k in lane)
        return IndexReport(kind, self.index.access.operand, position, value, self.index.capacity, int(where.sum()))

    def _note(self, kind: str, where: Array, values: Array, reports: list[IndexReport]) -> None:
        if where.any():
            reports.append(self.report(kind, where, values))

    def _report_padding(self, values: Array, reports: list[IndexReport]) -> None:
        rows, cols = self.index.valid or (0, 0)
        if self.index.unit is IndexUnit.ROW:
            padding = values >= rows
        else:
            padding = (values // self.index.width >= rows) | (values % self.index.width >= cols)
        self._note("padding", padding, values, reports)


class Touched(NamedTuple):
    """Elements of an operand that a move or a computation touches: those of a region, or those that an index names."""

    slot: int
    how: str
    """`read`, `write`, or the name of an atomic."""
    region: Region | None
    offsets: Callable[[], Array] | None = None
    is_index: bool = False


class Plan:
    """Moves prepared for operands of given types and sizes; it can run any number of times."""

    def __init__(self, moves: Sequence[Move | Compute], types: Mapping[str, DType], sizes: Mapping[str, int]) -> None:
        """Raises `SpanFault` for moves that would leave their operands' memory."""
        operands = Operands(types, sizes)
        for move in moves:
            for operand, needed in move.spans:
                if needed > sizes[operand]:
                    raise SpanFault(operand, needed, sizes[operand])
        self.steps = tuple(_step(move, operands) for move in moves)
        self.written = tuple(dict.fromkeys(step.dst for step in self.steps if step.writes))

    def resolve(self, storages: Storages) -> tuple[list[Lanes | None], list[IndexReport]]:
        """Read and check every index, before anything is written."""
        reports: list[IndexReport] = []
        return [step.resolve(storages, reports) for step in self.steps], reports

    @property
    def order(self) -> str:
        """The order in which lanes take effect, in words."""
        blocks = any(isinstance(step, CopyStep) and step.move.block for step in self.steps)
        return "block column by block column, each in row-major order" if blocks else "in row-major order"

    def is_aliased(self, storages: Storages) -> bool:
        """Whether something that is written shares memory with something that is read."""
        for step in self.steps:  # noqa: SIM110  (a generator costs half a microsecond)
            if step.is_aliased(storages):
                return True
        return False

    def run(self, storages: Storages, resolved: Sequence[Lanes | None]) -> Literal["at once", "in order"]:
        """Execute the moves with the indices that `resolve` has read; returns how."""
        if self.is_aliased(storages):
            self._run_in_order(storages)
            return "in order"
        for step, lanes in zip(self.steps, resolved, strict=True):
            step.run(storages, lanes)
        return "at once"

    def touches(self, resolved: Sequence[Lanes | None]) -> Iterator[Touched]:
        """What is read and written, with the indices that `resolve` has read."""
        for step, lanes in zip(self.steps, resolved, strict=True):
            yield from step.touches(lanes)

    def _run_in_order(self, storages: Storages) -> None:
        before = [(storages[slot].bits, storages[slot].bits.copy()) for slot in self.written]
        try:
            for step in self.steps:
                step.run_in_order(storages)
        except (IndexFault, SpanFault):
            for bits, saved in before:
                bits[:] = saved
            raise


def _step(move: Move | Compute, operands: Operands) -> PlanStep:
    if isinstance(move, Compute):
        return _Compute(move, operands)
    if isinstance(move.src, Fill):
        return _Fill(move, operands, move.src)
    if move.index is None:
        return CopyStep(move, operands, move.src)
    kind = GatherStep if move.index.side is Side.SRC else ScatterStep
    return kind(move, operands, move.src, move.index)


@dataclass
class _Run:
    """Consecutive lanes of a move, with their addresses for the current memory."""

    dst: Array
    """Offsets written."""
    src: Array
    """Offsets read."""
    reads: list[Array]
    """Byte addresses read, a row of them for each lane."""
    stores: Array
    """Lanes that store anything."""
    zeroes: Array
    """Lanes that store zero."""
    raw: Array
    """Index values before the remap."""
    lanes: tuple[Array, Array]
    """Row and column of each lane."""


class PlanStep(ABC):
    """One move or computation, with all that can be computed before any data is read."""

    is_unspecified = False
    """Whether it writes unspecified values."""

    def __init__(self, move: Move | Compute, operands: Operands) -> None:
        self.shape = move.shape
        self.how = "write" if move.combine is Combine.STORE else move.combine.name.lower()
        self.writes = not isinstance(move, Compute) or move.op != UNSPECIFIED or move.shape != NOTHING
        """Whether it writes anything: an instruction that is known by its effects may only read."""
        self.dtype = operands.types[move.dst.operand]
        self.dst = operands.slots[move.dst.operand]
        self.target = region(move.dst.layout, *move.shape)
        self._offsets: dict[Region, Array] = {}

    def offsets(self, region: Region) -> Array:
        """Offsets of a whole region, computed once."""
        if region not in self._offsets:
            self._offsets[region] = region.offsets()
        return self._offsets[region]

    def resolve(self, _storages: Storages, _reports: list[IndexReport], /) -> Lanes | None:
        """Read the index, if there is one."""
        return None

    def touches(self, _lanes: Lanes | None, /) -> Iterator[Touched]:
        """What is read, then what is written."""
        if self.writes:
            yield Touched(self.dst, self.how, self.target)

    def may_touch(self) -> Iterator[Touched]:
        """The same for any index: of an operand that an index names elements of, no region."""
        return self.touches(None)

    def is_aliased(self, _storages: Storages, /) -> bool:
        """Whether the order of lanes matters, because the destination shares memory with what is read."""
        return False

    @abstractmethod
    def run(self, storages: Storages, lanes: Lanes | None, /) -> None:
        """Execute; `is_aliased` does not hold."""

    def run_in_order(self, storages: Storages) -> None:
        """Execute with the result of taking lane after lane, whatever shares memory."""
        self.run(storages, None)

    def load(self, storage: Storage, source: Region) -> Array:
        """The bits of a region."""
        window = storage.window(source)
        return storage.bits[self.offsets(source)] if window is None else window

    def put(self, storage: Storage, values: Array) -> None:
        """Write bits over the destination's region."""
        window = storage.window(self.target)
        if window is None:
            storage.bits[self.offsets(self.target)] = values
        else:
            window[...] = values


class _Compute(PlanStep):
    """An operation on whole inputs. They are read before anything is written, so they may share memory."""

    def __init__(self, work: Compute, operands: Operands) -> None:
        super().__init__(work, operands)
        self.names = tuple(each.operand for each in work.inputs)
        self.inputs = [
            (operands.slots[each.operand], operands.types[each.operand].numpy, region(each.layout, *each.shape))
            for each in work.inputs
        ]
        self.op, self.options, self.combine = OPS[work.op], dict(work.options), work.combine
        self.is_unspecified = work.op == UNSPECIFIED

    def touches(self, lanes: Lanes | None) -> Iterator[Touched]:
        for slot, _, source in self.inputs:
            yield Touched(slot, "read", source)
        yield from super().touches(lanes)

    def run(self, storages: Storages, _lanes: Lanes | None, /) -> None:
        if self.is_unspecified:
            if self.writes:
                self.put(storages[self.dst], self.op(self.shape, self.dtype).view(self.dtype.bits))
            return
        inputs = [np.ascontiguousarray(self.load(storages[slot], at)).view(t) for slot, t, at in self.inputs]
        try:
            with np.errstate(all="ignore"):
                result = self.op(self.shape, self.dtype, *inputs, **self.options)
        except ZeroDivisor as zero:
            raise ZeroFault(self.names[zero.position], zero.lane, zero.count) from None
        values = np.broadcast_to(result, self.shape).view(self.dtype.bits)
        if self.combine is Combine.STORE:
            self.put(storages[self.dst], values)
        else:
            where = self.offsets(self.target).ravel()
            accumulate(storages[self.dst].bits, where, values.ravel(), self.combine, self.dtype)


class _Move(PlanStep):
    """What all moves share."""

    def __init__(self, move: Move, operands: Operands) -> None:
        super().__init__(move, operands)
        self.move = move

    def store(self, storages: Storages, values: Array) -> None:
        """Combine values into the destination's region."""
        storage = storages[self.dst]
        if self.move.combine is Combine.STORE:
            self.put(storage, values)
        else:
            accumulate(storage.bits, self.offsets(self.target).ravel(), values.ravel(), self.move.combine, self.dtype)


class _Fill(_Move):
    """One bit pattern everywhere."""

    def __init__(self, move: Move, operands: Operands, fill: Fill) -> None:
        super().__init__(move, operands)
        self.value = np.frombuffer(fill.bits.to_bytes(self.dtype.size, sys.byteorder), self.dtype.bits)[0]

    def run(self, storages: Storages, _lanes: Lanes | None, /) -> None:
        self.store(storages, np.broadcast_to(self.value, self.shape))


class CopyStep(_Move):
    """A source to a destination, both known beforehand."""

    def __init__(self, move: Move, operands: Operands, src: Access) -> None:
        super().__init__(move, operands)
        self.src = operands.slots[src.operand]
        self.source = region(src.layout, *move.shape)

    def touches(self, _lanes: Lanes | None, /) -> Iterator[Touched]:
        yield Touched(self.src, "read", self.source)
        yield Touched(self.dst, self.how, self.target)

    def is_aliased(self, storages: Storages) -> bool:
        return storages[self.dst].overlaps(storages[self.src])

    def run(self, storages: Storages, _lanes: Lanes | None, /) -> None:
        self.store(storages, self.values(storages))

    def run_in_order(self, storages: Storages) -> None:
        """In runs of lanes: no lane reads what an earlier lane of its run writes."""
        total, done, length = self.move.rows * self.move.cols, 0, 64
        while done < total:
            lanes = np.arange(done, min(total, done + length))
            ended = self._run_prefix(storages, *_walked(self.move, lanes))
            done += ended
            length = min(2 * length, 1 << 16) if ended == lanes.size else 64

    def values(self, storages: Storages) -> Array:
        """The bits of the source, row by row."""
        return self.load(storages[self.src], self.source)

    def in_order(self, lanes: Array) -> Array:
        """Data of every lane, in the order of execution."""
        return lanes[_walked(self.move, np.arange(lanes.size))] if self.move.block else lanes.ravel()

    def _run_prefix(self, storages: Storages, i: Array, j: Array) -> int:
        run, target = self.locate(storages, i, j), storages[self.dst]
        end = _independent(run.reads, target.addresses(run.dst), run.stores)
        self.check(run, end)
        kept = np.flatnonzero(run.stores[:end])
        found = storages[self.src].bits[run.src[kept]]
        found[run.zeroes[kept]] = np.zeros((), self.dtype.bits)
        if self.move.combine is Combine.STORE:
            target.bits[run.dst[kept]] = found
        else:
            accumulate(target.bits, run.dst[kept], found, self.move.combine, self.dtype)
        return end

    def locate(self, storages: Storages, i: Array, j: Array) -> _Run:
        """Where lanes (i, j) read and write."""
        src, no = self.source.layout.offset(i, j), np.zeros(i.size, bool)
        reads = [storages[self.src].addresses(src)]
        return _Run(self.target.layout.offset(i, j), src, reads, ~no, no, i, (i, j))

    def check(self, run: _Run, end: int) -> None:
        """Refuse bad indices in the first `end` lanes of a run; fixed addresses were checked before."""


class IndexedStep(CopyStep):
    """What gathers and scatters share: reading the index and forming the addresses it names."""

    def __init__(self, move: Move, operands: Operands, src: Access, index: Index) -> None:
        super().__init__(move, operands, src)
        self.index = index
        self.idx = operands.slots[index.access.operand]
        self.reader = IndexReader(index, operands.types[index.access.operand])
        self.by_row = index.by_row
        self.lanes = region(index.access.layout, move.rows, 1 if self.by_row else move.cols)
        self.indexed = src if index.side is Side.SRC else move.dst
        """The end that the index addresses."""
        self.is_flat = index.unit is IndexUnit.ELEMENT and not index.width and self.indexed.layout == Layout.plain(0, 1)
        """Whether an index value is an offset."""
        self._indexed = self.source if index.side is Side.SRC else self.target
        self.reach = region(self.indexed.layout, *index.reach(move.cols))
        self.available = operands.sizes[self.indexed.operand]
        if self.reach.span > MOST_ADDRESSED:
            raise SpanFault(self.indexed.operand, self.reach.span, self.available)
        self.can_leave = self.reach.span > self.available
        """Whether an index below the capacity can still lead outside the operand."""

    def resolve(self, storages: Storages, reports: list[IndexReport], /) -> Lanes:
        """Read each index once, check it, remap it."""
        storage = storages[self.idx]
        raw = self.load(storage, self.lanes)
        lanes = self.reader.read(raw[:, 0] if self.by_row else raw, reports)
        if self.can_leave:
            self._check_span(self.indexed_offsets(lanes))
        return lanes

    def _check_span(self, offsets: Array) -> None:
        needed = int(offsets.max(initial=-1)) + 1
        if needed > self.available:
            raise SpanFault(self.indexed.operand, needed, self.available)

    def indexed_offsets(self, lanes: Lanes) -> Array:
        """Offsets of the whole region on the indexed end."""
        values = lanes.values[:, None] if self.by_row else lanes.values
        return np.broadcast_to(self._offset(values, np.arange(self.move.cols)), self.shape)

    def _offset(self, values: Array, j: Array) -> Array:
        layout = self.indexed.layout
        if self.index.unit is IndexUnit.ROW:
            return layout.offset(values, j)
        return layout.offset(*divmod(values, self.index.width)) if self.index.width else layout.col(values)

    def piece(self, first: int, rows: int) -> Self:
        """The same step for some rows of its region: moves over large arrays are executed piece by piece."""
        is_even = self.lanes.strides is not None and self.source.strides is not None and self.target.strides is not None
        if rows == self.shape[0] and is_even:  # a piece that is not even keeps offsets, which are large
            return self
        part = copy(self)
        part.shape, part.lanes, part._offsets = (rows, self.shape[1]), self.lanes.cut(first, rows), {}
        if self.index.side is Side.SRC:
            part.target = self.target.cut(first, rows)
        else:
            part.source = self.source.cut(first, rows)
        return part

    def touches(self, lanes: Lanes | None, /) -> Iterator[Touched]:
        assert lanes is not None
        for end in self.may_touch():
            yield end if end.region is not None else end._replace(offsets=partial(self._named, lanes))

    def may_touch(self) -> Iterator[Touched]:
        yield Touched(self.idx, "read", self.lanes, is_index=True)
        for end in super().touches(None):
            names = end.slot == (self.src if self.index.side is Side.SRC else self.dst) and end.region is self._indexed
            yield end._replace(region=None) if names else end

    def _named(self, lanes: Lanes) -> Array:
        """Offsets of the elements that indices name; lanes that are outside name none."""
        offsets = self.indexed_offsets(lanes)
        return offsets if lanes.outside is None else offsets[~self.spread(lanes.outside)]

    def spread(self, lanes: Array) -> Array:
        """A mark of every lane, from one of every index."""
        return np.broadcast_to(lanes[:, None] if self.by_row else lanes, self.shape)

    def is_aliased(self, storages: Storages) -> bool:
        """The index counts as read too."""
        target = storages[self.dst]
        return target.overlaps(storages[self.idx]) or target.overlaps(storages[self.src])

    def locate(self, storages: Storages, i: Array, j: Array) -> _Run:
        """Where lanes (i, j) read and write, by the current index values."""
        at = self.index.access.layout.offset(i, j)
        raw = self.reader.widen(storages[self.idx].bits[at])
        lanes = self.reader.land(raw)
        outside = np.zeros(i.size, bool) if lanes.outside is None else lanes.outside
        indexed = self._offset(lanes.values, j)
        src = indexed if self.index.side is Side.SRC else self.source.layout.offset(i, j)
        dst = indexed if self.index.side is Side.DST else self.target.layout.offset(i, j)
        reads = [storages[self.idx].addresses(at), storages[self.src].addresses(src)]
        zeroes = outside & (self.index.remap is Remap.ZERO)
        return _Run(dst, src, reads, ~outside | zeroes, zeroes, raw, (i, j))

    def check(self, run: _Run, end: int) -> None:
        """Refuse what `resolve` would refuse, for index values that the move itself has changed."""
        values = run.raw[:end]
        outside = self.reader.is_outside(values)
        if self.index.remap is Remap.REFUSE and outside.any():
            report = self.reader.report("outside", outside, values)
            lane = tuple(int(k[report.lane]) for k in run.lanes[: 1 if self.by_row else 2])
            raise IndexFault(replace(report, lane=lane))
        if self.can_leave:
            self._check_span((run.src if self.index.side is Side.SRC else run.dst)[:end])


class GatherStep(IndexedStep):
    """The index names the source."""

    def run(self, storages: Storages, lanes: Lanes | None, /) -> None:
        assert lanes is not None
        source, window = storages[self.src], storages[self.dst].window(self.target)
        table = self._table(source)
        if lanes.outside is not None and lanes.outside.all():
            self._put(storages, np.zeros(self.shape, self.dtype.bits), lanes.outside)
        elif table is None:
            self._put(storages, source.bits[self.indexed_offsets(lanes)], lanes.outside)
        elif not table.flags.c_contiguous:
            self._put(storages, table[lanes.values], lanes.outside)
        elif lanes.outside is None and window is not None and window.flags.c_contiguous:
            table.take(lanes.values, 0, window, "clip")  # in range already; "clip" spares a defensive copy
        else:
            self._put(storages, table.take(lanes.values, 0), lanes.outside)

    def _table(self, source: Storage) -> Array | None:
        """The source as an array whose first axis the index selects, where it is one."""
        if self.by_row:
            return source.window(self.reach)
        return source.bits if self.is_flat else None

    def _put(self, storages: Storages, found: Array, outside: Array | None) -> None:
        if outside is None:
            self.store(storages, found)
        elif self.index.remap is Remap.ZERO:
            found[outside] = np.zeros((), self.dtype.bits)
            self.store(storages, found)
        else:
            kept = ~self.spread(outside)
            storages[self.dst].bits[self.offsets(self.target)[kept]] = found[kept]


class ScatterStep(IndexedStep):
    """The index names the destination."""

    def run(self, storages: Storages, lanes: Lanes | None, /) -> None:
        assert lanes is not None
        cells, where, values = self.cells(storages, lanes)
        if self.move.combine is Combine.STORE:
            cells[where] = values  # NumPy assigns in order: the last writer wins
        else:
            accumulate(cells, where, values, self.move.combine, self.dtype)

    def cells(self, storages: Storages, lanes: Lanes) -> tuple[Array, Array, Array]:
        """The destination as an array, where along its first axis lanes store, and what. It may repeat."""
        target, outside = storages[self.dst], lanes.outside
        values = self.values(storages)
        rows = target.window(self.reach) if self.by_row else None
        if rows is not None:
            cells, where = rows, lanes.values
        else:
            cells, where, values = target.bits, self.indexed_offsets(lanes).ravel(), values.ravel()
            outside = None if outside is None else self.spread(outside).ravel()
        if outside is not None:
            where, values = where[~outside], values[~outside]
        return cells, where, values


def _walked(move: Move, lanes: Array) -> tuple[Array, Array]:
    """Row and column of the lanes with these numbers, in the order of execution."""
    if not move.block:
        return divmod(lanes, move.cols)
    blocks, rest = divmod(lanes, move.rows * move.block)
    first = blocks * move.block
    rows, cols = divmod(rest, np.minimum(move.block, move.cols - first))
    return rows, first + cols


def _independent(reads: list[Array], writes: Array, stores: Array) -> int:
    """How many leading lanes read no byte that an earlier one of them writes."""
    end = stores.size
    written, first = np.unique(writes[stores], return_index=True)
    if not written.size:
        return end
    writer = np.flatnonzero(stores)[first // writes.shape[1]]
    for read in reads:
        at = np.minimum(np.searchsorted(written, read), written.size - 1)
        late = ((written[at] == read) & (writer[at] < np.arange(stores.size)[:, None])).any(axis=1)
        if late.any():
            end = min(end, int(np.argmax(late)))
    return end
