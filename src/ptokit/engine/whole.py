"""Indexed moves over whole arrays: what is asked of an engine, and the executable meaning of it, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.engine.combine import accumulate
from ptokit.engine.lanes import IndexFault, IndexReport, Lanes, Reader
from ptokit.engine.storage import Array, Storage, _root, address_of, region
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout, _flattened
from ptokit.isa.move import Access, Combine, Index, Move, Remap, Side

MOST_LANES = 1 << 18
"""Indices that are read at a time."""
MOST_ELEMENTS = 1 << 20
"""Elements that are moved at a time; a row that is longer goes alone."""


class Lent(Storage):
    """The memory of a whole array. What only some engines ask for is worked out when they do: small calls are quick."""

    __slots__ = ("elements",)

    def __init__(self, array: Array, dtype: DType, elements: int | None) -> None:
        """`elements` counts from the first to the last, gaps included; None: they follow one another in C order."""
        self.owner, self.dtype, self.elements = array, dtype, elements
        self._span = None

    def __getattr__(self, name: str) -> Any:
        try:
            value = MADE_LATER[name](self)
        except KeyError:
            raise AttributeError(name) from None
        setattr(self, name, value)
        return value

    @property
    def address(self) -> int:
        """Where the bytes begin."""
        return address_of(self.owner)

    @property
    def span(self) -> range:
        """The addresses of the bytes."""
        if self._span is None:
            start = self.address
            count = self.owner.size if self.elements is None else self.elements
            self._span = range(start, start + count * self.dtype.size)
        return self._span


def _bits(lent: Lent) -> Array:
    bits, size = lent.owner.view(lent.dtype.bits), lent.dtype.size
    if lent.elements is None:
        return bits.reshape(-1)
    return as_strided(bits, (lent.elements,), (size,), writeable=bits.flags.writeable)


MADE_LATER: dict[str, Callable[[Lent], Any]] = {
    "bits": _bits,
    "root": lambda lent: _root(lent.owner),
    "_windows": lambda lent: {},
}


def share(written: Storage, *read: Storage) -> bool:
    """Whether memory that is written is also read. Arrays that own their memory share none; that is quick to see."""
    root = _root(written.owner)
    for each in read:
        other = _root(each.owner)
        if root is not other and root is not None and other is not None:
            continue
        if written.span.start < each.span.stop and each.span.start < written.span.stop:
            return True
    return False


@dataclass(frozen=True)
class Whole:
    """One indexed move over whole arrays.

    Its operands are `table`, `indices`, and `out` (a gather) or `src` (a scatter), each a storage from its first
    element to its last. The region is (lanes, width): there is one index a lane, and it names a row of the table, in
    its own unit `Unit.ROW`; where elements are gathered or scattered, a row is one element wide. Layouts count in
    elements, never backwards, and stay inside their storages for every index below the capacity.

    An engine may rely on this: what is written shares no memory with what is read, no two of its cells share memory,
    and where the capacity is 0 the policy is one that needs no row (`REFUSE`, `ZERO`, `SKIP`).

    An engine gives the result of taking lane after lane, in order, whatever its threads. It raises `IndexFault` before
    anything is written: for the first bad lane, `(lane,)`, with the number of all bad ones.
    """

    move: Move
    types: tuple[tuple[str, DType], ...]
    """The element type of each operand."""
    accumulate: DType | None = None
    """For `Combine.ADD`: the cell and what is added to it are taken to this type, and the sum is rounded once."""

    @property
    def index(self) -> Index:
        """What the indices do."""
        assert self.move.index is not None
        return self.move.index

    @property
    def src(self) -> Access:
        """The end that is read."""
        assert isinstance(self.move.src, Access)
        return self.move.src


def layout_of(shape: Sequence[int], stride: Sequence[int], rows: int) -> Layout:
    """An array of any rank, strides in elements: its first `rows` dims flatten into rows, the others into columns."""
    if 0 in shape:
        return Layout((), ())
    return Layout(_flattened(shape[:rows], stride[:rows]), _flattened(shape[rows:], stride[rows:]))


def run(whole: Whole, storages: Mapping[str, Storage], threads: int) -> None:
    """Execute a move on the calling thread, some lanes at a time, so that memory is bounded whatever the arrays are.

    Raises `IndexFault` before anything is written. Indices that make one piece are read once; of more, each piece is
    checked again when it is moved, so that an array that another thread changes meanwhile leads nowhere outside.
    """
    indices = _Indices(whole, storages["indices"])
    if 0 in whole.move.shape:
        return
    if whole.index.side is Side.SRC:
        _gather(whole, storages, indices)
    elif whole.accumulate is None:
        _scatter(whole, storages, indices)
    else:
        _sum(whole, storages, indices, whole.accumulate)


class _Indices:
    """Pieces of the walk with their lanes, again and again; every index is checked before the first is handed out."""

    def __init__(self, whole: Whole, storage: Storage) -> None:
        index, (lanes, width) = whole.index, whole.move.shape
        step = max(1, min(MOST_LANES, MOST_ELEMENTS // max(1, width)))
        self.pieces = [slice(first, min(first + step, lanes)) for first in range(0, lanes, step)]
        self.reader = Reader(index, storage.dtype)
        self.rows = _Rows(storage, index.access.layout, lanes, 1)
        self.only = self._read(self.pieces[0]) if len(self.pieces) == 1 else None
        if len(self.pieces) > 1 and index.remap is Remap.REFUSE:
            self._check()

    def __iter__(self) -> Iterator[tuple[slice, Lanes]]:
        return ((piece, self.only or self._read(piece)) for piece in self.pieces)

    def _read(self, piece: slice) -> Lanes:
        try:
            return self.reader.read(self.rows.get(piece)[:, 0], [])
        except IndexFault as fault:
            (lane,) = fault.report.lane
            raise IndexFault(replace(fault.report, lane=(piece.start + lane,))) from None

    def _check(self) -> None:
        found: list[IndexReport] = []
        for piece in self.pieces:
            try:
                self._read(piece)
            except IndexFault as fault:
                found.append(fault.report)
        if found:
            raise IndexFault(replace(found[0], count=sum(report.count for report in found)))


class _Rows:
    """An operand as rows: a view of two dims, or offsets where its layout is not that even."""

    def __init__(self, storage: Storage, layout: Layout, rows: int, cols: int) -> None:
        self.bits, self.layout, self.cols = storage.bits, layout, cols
        self.view = storage.window(region(layout, rows, cols))

    def get(self, rows: Array | slice) -> Array:
        """Rows by their numbers."""
        return self.bits[self.offsets(rows)] if self.view is None else self.view[rows]

    def put(self, rows: Array | slice, values: Array) -> None:
        """Write rows; of those that stand twice the last one stays, as NumPy assigns in order."""
        if self.view is None:
            self.bits[self.offsets(rows)] = values
        else:
            self.view[rows] = values

    def offsets(self, rows: Array | slice) -> Array:
        """Where the elements of rows lie."""
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return self.layout.offset(numbers[:, None], np.arange(self.cols))

    @property
    def is_packed(self) -> bool:
        """Whether row follows row without gaps."""
        return self.view is not None and self.view.flags.c_contiguous


def _gather(whole: Whole, storages: Mapping[str, Storage], indices: _Indices) -> None:
    lanes, width = whole.move.shape
    table = _Rows(storages["table"], whole.src.layout, whole.index.capacity, width)
    out = _Rows(storages["out"], whole.move.dst.layout, lanes, width)
    at_once = table.is_packed and out.is_packed
    for piece, found in indices:
        if found.outside is not None:
            inside = ~found.outside
            rows = np.zeros((inside.size, width), out.bits.dtype)
            rows[inside] = table.get(found.values[inside])
            out.put(piece, rows)
        elif at_once:
            assert table.view is not None and out.view is not None
            table.view.take(found.values, 0, out.view[piece], "clip")  # in range already; "clip" spares a copy
        else:
            out.put(piece, table.get(found.values))


def _scatter(whole: Whole, storages: Mapping[str, Storage], indices: _Indices) -> None:
    table, src = _ends(whole, storages)
    dtype, combine = storages["table"].dtype, whole.move.combine
    for piece, found in indices:
        where, values = _landed(found, src.get(piece))
        if combine is Combine.STORE:
            table.put(where, values)
        elif not where.size:
            continue
        elif table.view is not None:
            accumulate(table.view, where, values, combine, dtype)
        else:
            accumulate(table.bits, table.offsets(where).ravel(), values.ravel(), combine, dtype)


def _sum(whole: Whole, storages: Mapping[str, Storage], indices: _Indices, wide: DType) -> None:
    """Add in a wider type: every cell that is named is kept in it until the end, then rounded."""
    table, src = _ends(whole, storages)
    narrow = storages["table"].dtype
    named = np.empty(0, np.int64)
    for _, found in indices:
        named = np.union1d(named, found.values if found.outside is None else found.values[~found.outside])
    with np.errstate(all="ignore"):
        totals = table.get(named).view(narrow.numpy).astype(wide.numpy)
        for piece, found in indices:
            where, values = _landed(found, src.get(piece))
            addends = np.ascontiguousarray(values).view(narrow.numpy).astype(wide.numpy)
            np.add.at(totals, np.searchsorted(named, where), addends)
        rounded = totals.astype(narrow.numpy)
        rounded[np.isnan(rounded)] = np.array(np.nan, narrow.numpy)
    table.put(named, rounded.view(narrow.bits))


def _ends(whole: Whole, storages: Mapping[str, Storage]) -> tuple[_Rows, _Rows]:
    """The table and the source of a scatter."""
    lanes, width = whole.move.shape
    table = _Rows(storages["table"], whole.move.dst.layout, whole.index.capacity, width)
    return table, _Rows(storages["src"], whole.src.layout, lanes, width)


def _landed(found: Lanes, values: Array) -> tuple[Array, Array]:
    """The lanes that store anything, and what."""
    if found.outside is None:
        return found.values, values
    inside = ~found.outside
    return found.values[inside], values[inside]
