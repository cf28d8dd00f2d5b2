"""Indexed moves over whole arrays: what every engine must do, and how the reference engine does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_uint8
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.faults import IndexFault, IndexReport
from ptokit.engine.reference import MOST_ADDRESSED, IndexedStep, Lanes, Plan, ScatterStep
from ptokit.engine.storage import Array, Storage, address_of, root_of, run_of
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, flattened
from ptokit.isa.move import Access, Combine, Index, IndexUnit, Move, Remap, Side

ZEROS = -1
"""In place of the address of the rows that a new table has before a scatter."""
MOST_LANES = 1 << 18
"""Indices that are read at a time."""
MOST_SIZES = 64
"""Moves of a kind that are kept by their sizes."""
MOST_ELEMENTS = 1 << 20
"""Elements that are moved at a time; a longer row is moved alone."""


class Lent(Storage):
    """The memory of a whole array. What only some engines need is computed on demand: small calls stay fast."""

    __slots__ = ("_bits", "elements")

    def __init__(self, array: Array, dtype: DType, elements: int) -> None:
        """`elements` counts from the first to the last, gaps included."""
        self.owner, self.dtype, self.elements = array, dtype, elements
        self._span, self._bits, self._windows = None, None, {}

    @property
    def bits(self) -> Array:  # type: ignore[override]
        if self._bits is None:
            self._bits = run_of(self.owner, self.dtype.bits, self.elements)
        return self._bits

    @property
    def root(self) -> Array | None:  # type: ignore[override]
        """The array that owns the memory, if NumPy knows it."""
        return root_of(self.owner)

    @property
    def address(self) -> int:
        return address_of(self.owner)

    @property
    def span(self) -> range:
        if self._span is None:
            start = self.address
            self._span = range(start, start + self.elements * self.dtype.size)
        return self._span


def storage_at(address: int, dtype: DType, elements: int) -> Storage:
    """The memory of a whole array whose address is known; whoever calls keeps the array."""
    memory: Any = (c_uint8 * (elements * dtype.size)).from_address(address)
    return Storage(np.frombuffer(memory, dtype.bits), dtype)


class MoveKind(NamedTuple):
    """What the code of an indexed move depends on, whatever its sizes; `Whole` says what each part means."""

    gathers: bool
    dtype: DType
    index_type: DType
    remap: Remap
    combine: Combine = Combine.STORE
    accumulate: DType | None = None
    ordered: bool = True
    fresh: bool = False


class MoveSizes(NamedTuple):
    """The sizes of one call: lanes, elements of a row, rows of the table, and steps in elements."""

    lanes: int
    width: int
    capacity: int
    table_row: int
    table_col: int
    other_row: int
    """From row to row of `out` or `src`."""
    other_col: int
    index_step: int


PreparedMove = Callable[[int, int, int, MoveSizes, int | None], bool]
"""A kind of move that an engine has prepared: called with the addresses of the table, the indices and the other
operand, the sizes, and a number of threads. It returns False if an index must be refused."""


@dataclass(frozen=True)
class Whole:
    """One indexed move over whole arrays.

    Its operands are `table`, `indices`, and `out` (a gather) or `src` (a scatter), each a storage from its first
    element to its last. The region is (lanes, width): there is one index a lane, and it names a row of the table, in
    its own unit `IndexUnit.ROW`; where elements are gathered or scattered, a row is one element wide. Layouts count in
    elements, never backwards, and stay inside their storages for every index below the capacity.

    An engine may rely on this: what is written shares no memory with what is read, no two of its cells share memory,
    and where the capacity is 0 the policy is one that needs no row (`REFUSE`, `ZERO`, `SKIP`).

    An engine gives the result of executing the lanes in order, for any number of threads; in any order if the move is
    not `ordered`. It raises `IndexFault` before anything is written that is not `fresh`: for the first bad lane,
    `(lane,)`, with the number of all bad ones.
    """

    move: Move
    types: tuple[tuple[str, DType], ...]
    """The element type of each operand."""
    accumulate: DType | None = None
    """For `Combine.ADD`: the cell and what is added to it are taken to this type, and the sum is rounded once."""
    ordered: bool = True
    """Whether lanes take effect in order; if not, those of one cell may do so in any order."""
    fresh: bool = False
    """Whether what is written belongs to the call: an engine may write before it raises `IndexFault`."""

    @property
    def index(self) -> Index:
        assert self.move.index is not None
        return self.move.index

    @property
    def src(self) -> Access:
        """The end that is read."""
        assert isinstance(self.move.src, Access)
        return self.move.src

    @property
    def kind(self) -> MoveKind:
        """What its code depends on."""
        (_, dtype), (_, index_type), _ = self.types
        gathers = self.index.side is Side.SRC
        return MoveKind(
            gathers, dtype, index_type, self.index.remap, self.move.combine, self.accumulate, self.ordered, self.fresh
        )

    @property
    def sizes(self) -> MoveSizes | None:
        """Its sizes; None if the dims of an array do not join to even rows."""
        ends = {end.operand: end.layout.strides for end in (self.src, self.move.dst)}
        table, (other,), index = ends.pop("table"), ends.values(), self.index.access.layout.strides
        if table is None or other is None or index is None:
            return None
        return MoveSizes(*self.move.shape, self.index.capacity, *table, *other, index[0])

    @cached_property
    def step(self) -> IndexedStep:
        """The step of the reference engine; it is not run itself, only pieces of it."""
        types = dict(self.types)
        (step,) = Plan((self.move,), types, dict.fromkeys(types, MOST_ADDRESSED)).steps
        assert isinstance(step, IndexedStep)
        return step


def layout_of(shape: Sequence[int], stride: Sequence[int], rows: int) -> Layout:
    """An array of any rank, strides in elements: its first `rows` dims flatten into rows, the others into columns."""
    if 0 in shape:
        return Layout((), ())
    return Layout(flattened(shape[:rows], stride[:rows]), flattened(shape[rows:], stride[rows:]))


def run(whole: Whole, storages: Mapping[str, Storage], _threads: int | None = None) -> None:
    """Execute a move on the calling thread with the steps of the reference engine, a bounded number of lanes at a time.

    Raises `IndexFault` before anything is written. Indices that fit one piece are read once. Those of several pieces
    are checked again when a piece is moved: if another thread changes them, no address outside is touched.
    """
    given = [storages[name] for name, _ in whole.types]
    pieces = _pieces(whole, given)
    if whole.accumulate is not None and 0 not in whole.move.shape:
        _sum(given, pieces, whole.step.dtype, whole.accumulate)
        return
    for step, lanes in pieces:
        if 0 not in whole.move.shape:
            step.run(given, lanes)


def prepare(kind: MoveKind, _gpu: int | None = None) -> PreparedMove:
    """A kind of move, ready for calls by the steps of the reference engine."""
    name, side = ("out", Side.SRC) if kind.gathers else ("src", Side.DST)
    types = ("table", kind.dtype), ("indices", kind.index_type), (name, kind.dtype)

    @lru_cache(MOST_SIZES)
    def of(sizes: MoveSizes) -> tuple[Whole, list[int]]:
        """A move of some sizes, and the elements from the first to the last of its operands."""
        lanes, width, capacity, table_row, table_col, other_row, other_col, step = sizes
        layouts = Layout.plain(table_row, table_col), Layout.plain(step, 0), Layout.plain(other_row, other_col)
        cells, numbers, rows = (Access(name, each) for (name, _), each in zip(types, layouts, strict=True))
        index = Index(numbers, side, IndexUnit.ROW, capacity, kind.remap, cast=kind.index_type.size <= 4)
        dst, src = (rows, cells) if kind.gathers else (cells, rows)
        whole = Whole(Move((lanes, width), dst, src, index, kind.combine), types, kind.accumulate, kind.ordered)
        extents = (capacity, width), (lanes, 1), (lanes, width)
        return whole, [layout.span(*each) for layout, each in zip(layouts, extents, strict=True)]

    def call(table: int, indices: int, other: int, sizes: MoveSizes, _threads: int | None) -> bool:
        whole, spans = of(sizes)
        ends = zip(types, (table, indices, other), spans, strict=True)
        try:
            run(whole, {name: storage_at(address, dtype, span) for (name, dtype), address, span in ends})
        except IndexFault:
            return False
        return True

    return call


Piece = tuple[IndexedStep, Lanes]


def _pieces(whole: Whole, storages: Sequence[Storage]) -> Iterator[Piece]:
    """Steps over a bounded number of lanes, with their indices. Those of several are all checked before the first."""
    lanes, width = whole.move.shape
    count = max(1, min(MOST_LANES, MOST_ELEMENTS // max(1, width)))
    rows = [(first, min(count, lanes - first)) for first in range(0, lanes, count)]
    if whole.index.remap is Remap.REFUSE and len(rows) > 1:
        _check(storages, (whole.step.piece(*each) for each in rows))
    for each in rows:
        step = whole.step.piece(*each)
        yield step, _resolve(storages, step)


def _resolve(storages: Sequence[Storage], step: IndexedStep) -> Lanes:
    try:
        return step.resolve(storages, [])
    except IndexFault as fault:
        (lane,) = fault.report.lane
        raise IndexFault(replace(fault.report, lane=(step.lanes.first + lane,))) from None


def _check(storages: Sequence[Storage], steps: Iterator[IndexedStep]) -> None:
    found: list[IndexReport] = []
    for step in steps:
        try:
            _resolve(storages, step)
        except IndexFault as fault:
            found.append(fault.report)
    if found:
        raise IndexFault(replace(found[0], count=sum(report.count for report in found)))


def _sum(storages: Sequence[Storage], pieces: Iterator[Piece], dtype: DType, wide: DType) -> None:
    """Add in a wider type: every cell that is named is kept in it until the end, then rounded."""
    cells = named = totals = np.empty(0, np.int64)
    with np.errstate(all="ignore"):
        for step, lanes in pieces:
            assert isinstance(step, ScatterStep)
            cells, where, values = step.cells(storages, lanes)
            before, known = totals, named
            named = np.union1d(known, where)
            totals = cells[named].view(dtype.numpy).astype(wide.numpy)
            if known.size:
                totals[np.searchsorted(named, known)] = before
            addends = np.ascontiguousarray(values).view(dtype.numpy).astype(wide.numpy)
            np.add.at(totals, np.searchsorted(named, where), addends)
        rounded = totals.astype(dtype.numpy)
        rounded[np.isnan(rounded)] = np.array(np.nan, dtype.numpy)
    cells[named] = rounded.view(dtype.bits)
