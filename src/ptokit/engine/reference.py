"""The executable meaning of `Move`, in vectorised NumPy. Every other engine is held against this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ptokit.engine.combine import accumulate
from ptokit.engine.lanes import IndexFault, IndexReport, Lanes, Reader, SpanFault
from ptokit.engine.storage import Array, Storage
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.move import Access, Combine, Fill, Index, Move, Remap, Side, Unit

Storages = Mapping[str, Storage]


class Plan:
    """Moves made ready for operands of given sizes; run as often as you like."""

    def __init__(self, moves: Sequence[Move], types: Mapping[str, DType], sizes: Mapping[str, int]) -> None:
        """Raises `SpanFault` for moves that would leave their operands' memory."""
        self.steps = tuple(_step(move, types, sizes) for move in moves)
        self.written = tuple(dict.fromkeys(move.dst.operand for move in moves))

    def resolve(self, storages: Storages) -> tuple[list[Lanes | None], list[IndexReport]]:
        """Read and check every index, before anything is written."""
        reports: list[IndexReport] = []
        return [step.resolve(storages, reports) for step in self.steps], reports

    def run(self, storages: Storages, resolved: Sequence[Lanes | None]) -> None:
        """Execute the moves with the indices that `resolve` has read."""
        if any(step.is_aliased(storages) for step in self.steps):
            self._run_in_order(storages)
            return
        for step, lanes in zip(self.steps, resolved, strict=True):
            step.run(storages, lanes)

    def _run_in_order(self, storages: Storages) -> None:
        before = {name: storages[name].bits.copy() for name in self.written}
        try:
            for step in self.steps:
                step.run_in_order(storages)
        except (IndexFault, SpanFault):
            for name, bits in before.items():
                storages[name].bits[:] = bits
            raise


def _step(move: Move, types: Mapping[str, DType], sizes: Mapping[str, int]) -> _Step:
    if move.index is None:
        return _Step(move, types, sizes)
    return (_Gather if move.index.side is Side.SRC else _Scatter)(move, types, sizes)


class _Step:
    """A move that no index steers: a copy or a fill."""

    def __init__(self, move: Move, types: Mapping[str, DType], sizes: Mapping[str, int]) -> None:
        self.move = move
        self.shape = (move.rows, move.cols)
        self.dtype = types[move.dst.operand]
        self._offsets: dict[Layout, Array] = {}
        for access in self.fixed():
            _require(access.operand, access.layout.span(*self.shape), sizes)

    def fixed(self) -> list[Access]:
        """The ends whose addresses are known before any index is."""
        return [end for end in (self.move.dst, self.move.src) if isinstance(end, Access)]

    def offsets(self, layout: Layout) -> Array:
        """Offsets of the whole region, computed once."""
        if layout not in self._offsets:
            self._offsets[layout] = layout.offset(*_grid(*self.shape))
        return self._offsets[layout]

    def resolve(self, storages: Storages, reports: list[IndexReport]) -> Lanes | None:
        """Nothing to read."""
        return None

    def is_aliased(self, storages: Storages) -> bool:
        """Whether the destination shares memory with what is read."""
        src = self.move.src
        return isinstance(src, Access) and storages[self.move.dst.operand].overlaps(storages[src.operand])

    def run(self, storages: Storages, lanes: Lanes | None) -> None:
        """Execute the move; what is read and what is written lie apart."""
        self.store(storages, self.load(storages))

    def load(self, storages: Storages) -> Array:
        """The source's region, or the bits to fill with."""
        src = self.move.src
        if isinstance(src, Fill):
            return np.broadcast_to(self.dtype.bits.type(src.bits), self.shape)
        storage = storages[src.operand]
        window = storage.window(src.layout, *self.shape)
        return storage.bits[self.offsets(src.layout)] if window is None else window

    def store(self, storages: Storages, values: Array) -> None:
        """Combine values into the destination's region."""
        dst = self.move.dst
        storage = storages[dst.operand]
        if self.move.combine is not Combine.STORE:
            accumulate(storage.bits, self.offsets(dst.layout).ravel(), values.ravel(), self.move.combine, self.dtype)
            return
        window = storage.window(dst.layout, *self.shape)
        if window is None:
            storage.bits[self.offsets(dst.layout)] = values
        else:
            window[...] = values

    # --- where operands share memory

    def run_in_order(self, storages: Storages) -> None:
        """As if lane after lane: in runs of lanes none of which reads what an earlier one of the run writes."""
        total, done, length = self.move.rows * self.move.cols, 0, 64
        while done < total:
            lanes = np.arange(done, min(total, done + length))
            ended = self._run_prefix(storages, *divmod(lanes, self.move.cols))
            done += ended
            length = min(2 * length, 1 << 16) if ended == lanes.size else 64

    def _run_prefix(self, storages: Storages, i: Array, j: Array) -> int:
        run = self.aim(storages, i, j)
        target = storages[self.move.dst.operand]
        end = _independent(run.reads, target.addresses(run.dst), run.stores)
        self.check_run(storages, run, end)
        kept = np.flatnonzero(run.stores[:end])
        if isinstance(self.move.src, Fill):
            found = np.full(kept.size, self.move.src.bits, self.dtype.bits)
        else:
            found = storages[self.move.src.operand].bits[run.src[kept]]
            found[run.zeroes[kept]] = 0
        if self.move.combine is Combine.STORE:
            target.bits[run.dst[kept]] = found
        else:
            accumulate(target.bits, run.dst[kept], found, self.move.combine, self.dtype)
        return end

    def aim(self, storages: Storages, i: Array, j: Array) -> _Run:
        """Where lanes (i, j) read and write."""
        src = self.move.src
        src_at = src.layout.offset(i, j) if isinstance(src, Access) else i
        reads = [storages[src.operand].addresses(src_at)] if isinstance(src, Access) else []
        no = np.zeros(i.size, bool)
        return _Run(src_at, self.move.dst.layout.offset(i, j), reads, ~no, no, i)

    def check_run(self, storages: Storages, run: _Run, end: int) -> None:
        """Refuse the first `end` lanes of a run where they may not go. Fixed addresses were checked before."""


class _Run:
    """Some lanes of a move, aimed: offsets at both ends, the bytes read, and the lanes that store."""

    def __init__(self, src: Array, dst: Array, reads: list[Array], stores: Array, zeroes: Array, values: Array) -> None:
        self.src, self.dst, self.reads, self.stores, self.zeroes, self.values = src, dst, reads, stores, zeroes, values


class _Indexed(_Step):
    """What gathers and scatters share: reading the index and forming the addresses it names."""

    def __init__(self, move: Move, types: Mapping[str, DType], sizes: Mapping[str, int]) -> None:
        assert move.index is not None
        super().__init__(move, types, sizes)
        self.index: Index = move.index
        self.reader = Reader(move.index, types[move.index.access.operand])
        self.by_row = not move.index.access.layout.cols and move.index.unit is Unit.ROW
        """One index a row: the lane's column does not matter to it."""
        self.lane_shape = (move.rows, 1) if self.by_row else self.shape
        _require(move.index.access.operand, move.index.access.layout.span(*self.lane_shape), sizes)
        self.room = sizes[self.steered().operand]
        self.watched = self.steered().layout.span(*_reach(move.index, move.cols)) > self.room
        """Whether an index below the capacity can still lead outside the operand."""

    def steered(self) -> Access:
        """The end that the index addresses."""
        raise NotImplementedError

    def resolve(self, storages: Storages, reports: list[IndexReport]) -> Lanes:
        """Read each index once, check it, remap it."""
        access = self.index.access
        storage = storages[access.operand]
        raw = storage.window(access.layout, *self.lane_shape)
        if raw is None:
            raw = storage.bits[access.layout.offset(*_grid(*self.lane_shape))]
        lanes = self.reader.read(raw[:, 0] if self.by_row else raw, reports)
        if self.watched:
            self._watch(self.aimed(lanes))
        return lanes

    def _watch(self, offsets: Array) -> None:
        needed = int(offsets.max(initial=-1)) + 1
        if needed > self.room:
            raise SpanFault(self.steered().operand, needed, self.room)

    def aimed(self, lanes: Lanes) -> Array:
        """Offsets of the whole region on the steered end."""
        values = lanes.values[:, None] if self.by_row else lanes.values
        return np.broadcast_to(self._offset(values, np.arange(self.move.cols)), self.shape)

    def _offset(self, values: Array, j: Array) -> Array:
        layout = self.steered().layout
        if self.index.unit is Unit.ROW:
            return layout.offset(values, j)
        return layout.offset(*divmod(values, self.index.width)) if self.index.width else layout.col(values)

    def spread(self, lanes: Array) -> Array:
        """A mark of every lane, from one of every index."""
        return np.broadcast_to(lanes[:, None] if self.by_row else lanes, self.shape)

    def is_aliased(self, storages: Storages) -> bool:
        """The index counts as read too."""
        index = storages[self.index.access.operand]
        return storages[self.move.dst.operand].overlaps(index) or super().is_aliased(storages)

    def aim(self, storages: Storages, i: Array, j: Array) -> _Run:
        """Where lanes (i, j) read and write, by the index values that are there now."""
        assert isinstance(self.move.src, Access)
        index = storages[self.index.access.operand]
        at = self.index.access.layout.offset(i, j)
        raw = self.reader.widen(index.bits[at])
        lanes = self.reader.land(raw)
        outside = np.zeros(i.size, bool) if lanes.outside is None else lanes.outside
        steered = self._offset(lanes.values, j)
        src = steered if self.index.side is Side.SRC else self.move.src.layout.offset(i, j)
        dst = steered if self.index.side is Side.DST else self.move.dst.layout.offset(i, j)
        reads = [index.addresses(at), storages[self.move.src.operand].addresses(src)]
        zeroes = outside & (self.index.remap is Remap.ZERO)
        return _Run(src, dst, reads, ~outside | zeroes, zeroes, raw)

    def check_run(self, storages: Storages, run: _Run, end: int) -> None:
        """Refuse what `resolve` would refuse, for index values that the move itself has changed."""
        values = run.values[:end]
        outside = self.reader.is_outside(values)
        if self.index.remap is Remap.REFUSE and outside.any():
            raise IndexFault(self.reader.report("outside", outside, values))
        if self.watched:
            self._watch((run.src if self.index.side is Side.SRC else run.dst)[:end])


class _Gather(_Indexed):
    """The index names the source."""

    def fixed(self) -> list[Access]:
        return [self.move.dst]

    def steered(self) -> Access:
        assert isinstance(self.move.src, Access)
        return self.move.src

    def run(self, storages: Storages, lanes: Lanes | None) -> None:
        assert lanes is not None
        source, target = storages[self.steered().operand], storages[self.move.dst.operand]
        table = self._table(source)
        if table is None:
            self._put(storages, source.bits[self.aimed(lanes)], lanes.outside)
            return
        window = target.window(self.move.dst.layout, *self.shape)
        if lanes.outside is None and window is not None and window.flags.c_contiguous and table.flags.c_contiguous:
            table.take(lanes.values, 0, window, "clip")  # in range already; "clip" spares a defensive copy
            return
        picked = table.take(lanes.values, 0) if table.flags.c_contiguous else table[lanes.values]
        self._put(storages, picked, lanes.outside)

    def _table(self, source: Storage) -> Array | None:
        """The source as an array whose first axis the index selects, where it is one."""
        layout = self.steered().layout
        if self.by_row:
            return source.window(layout, self.index.capacity, self.move.cols)
        whole = self.index.unit is Unit.ELEMENT and not self.index.width and layout.strides == (0, 1)
        return source.bits if whole else None

    def _put(self, storages: Storages, found: Array, outside: Array | None) -> None:
        if outside is None:
            self.store(storages, found)
            return
        lost = self.spread(outside)
        if self.index.remap is Remap.ZERO:
            self.store(storages, np.where(lost, self.dtype.bits.type(0), found))
        else:
            storages[self.move.dst.operand].bits[self.offsets(self.move.dst.layout)[~lost]] = found[~lost]


class _Scatter(_Indexed):
    """The index names the destination."""

    def fixed(self) -> list[Access]:
        return [self.move.src] if isinstance(self.move.src, Access) else []

    def steered(self) -> Access:
        return self.move.dst

    def run(self, storages: Storages, lanes: Lanes | None) -> None:
        assert lanes is not None
        target, values = storages[self.move.dst.operand], self.load(storages)
        rows = target.window(self.move.dst.layout, self.index.capacity, self.move.cols) if self.by_row else None
        if rows is not None:
            cells, where, outside = rows, lanes.values, lanes.outside
        else:
            cells, where, values = target.bits, self.aimed(lanes).ravel(), values.ravel()
            outside = None if lanes.outside is None else self.spread(lanes.outside).ravel()
        if outside is not None:
            where, values = where[~outside], values[~outside]
        if self.move.combine is Combine.STORE:
            cells[where] = values  # NumPy assigns in order: the last writer wins
        else:
            accumulate(cells, where, values, self.move.combine, self.dtype)


def _independent(reads: list[Array], writes: Array, stores: Array) -> int:
    """How many leading lanes read no byte that an earlier one of them writes."""
    lane = np.broadcast_to(np.arange(stores.size)[:, None], writes.shape)
    written, first = np.unique(writes[stores], return_index=True)
    if not written.size:
        return stores.size
    writer = lane[stores].ravel()[first]
    end = stores.size
    for read in reads:
        at = np.minimum(np.searchsorted(written, read), written.size - 1)
        late = (written[at] == read) & (writer[at] < np.arange(stores.size)[:, None])
        end = min(end, int(np.argmax(late.any(axis=1)))) if late.any() else end
    return end


def _require(operand: str, needed: int, sizes: Mapping[str, int]) -> None:
    if needed > sizes[operand]:
        raise SpanFault(operand, needed, sizes[operand])


def _reach(index: Index, cols: int) -> tuple[int, int]:
    """Rows and columns that index values below the capacity can name."""
    if index.unit is Unit.ROW:
        return index.capacity, cols
    return (-(-index.capacity // index.width), index.width) if index.width else (1, index.capacity)


def _grid(rows: int, cols: int) -> tuple[Array, Array]:
    return np.arange(rows)[:, None], np.arange(cols)[None, :]
