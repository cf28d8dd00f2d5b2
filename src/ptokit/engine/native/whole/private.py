"""Elements for a small range of cells: each worker takes a slice of the lanes to memory of its own, merged at the end.

Nothing is written to the table before all lanes have been read and checked, and then only cells that a lane changes:
another call may write to their neighbours. For stores, a worker notes for every cell the last lane that names it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, vector
from ptokit.engine.llvm.numbers import bits_of, combined, lanes_at_once
from ptokit.engine.native.whole.block import LANES_AT_ONCE, blocks, note, pieces, scratch, word
from ptokit.engine.native.whole.mover import ELEMENTS_AT_ONCE, Mover, Rows
from ptokit.engine.native.whole.partition import slice_of
from ptokit.engine.native.whole.phases import Indices, ValuesInPlace, extent
from ptokit.isa.move import Combine, Remap

CELLS_APART = 64
"""Cells between the memories of two workers, which are not to share a cache line."""


def can_merge(rows: Rows) -> bool:
    """Whether what workers found can be merged: sums and products of floats depend on the order of all lanes."""
    return rows.width == 1 and not (rows.combine.rounds and rows.dtype and rows.dtype.is_float)


def size_of_cell(rows: Rows) -> int:
    """Bytes of a worker's own memory for a cell."""
    return 4 if rows.combine is Combine.STORE else rows.size


def memory_for(rows: Rows, cells: Any) -> Any:
    """Bytes of a worker's own memory for a range of cells, and for what is outside of it."""
    return (cells + CELLS_APART) * size_of_cell(rows)


def identity(rows: Rows) -> int:
    """The bits that change nothing: no lane, zero, one, the least or greatest number, or a NaN, which never counts."""
    if rows.dtype is None or rows.combine is Combine.ADD:
        return 0
    if rows.combine is Combine.MUL:
        return 1
    if rows.dtype.family == "int":
        least = -1 << 8 * rows.size - 1
        return least if rows.combine is Combine.MAX else ~least
    if rows.dtype.is_float:
        return int(np.full(1, np.nan, rows.dtype.numpy).view(rows.dtype.bits)[0])
    return 0 if rows.combine is Combine.MAX else -1


def fold(code: IrBuilder, rows: Rows, indices: Indices) -> None:
    """The worker's slice of the lanes to its own cells; a lane that is not in the range goes to one behind them.

    The block says whether such a lane names a cell of the table, or is refused.
    """
    mover, values, low, room = Mover(code, rows), ValuesInPlace(code, indices), word(code, "low"), word(code, "range")
    cells, skips = _cells(code, rows, code.arguments[1]), indices.remap is Remap.SKIP
    _begin(code, rows, cells, room)
    missed = code.variable(I64, code.i64(0))
    with blocks(code, *slice_of(code), LANES_AT_ONCE) as (first, count):
        for k, step in code.strips(count, ELEMENTS_AT_ONCE):
            at, places = first + k, list[IrValue]()
            for value in [values.take(at + nth, 1).to("zext", I64) for nth in range(step)]:
                is_outside = (value - low).compare("uge", room)
                is_missed = is_outside & value.compare("ult", values.capacity) if skips else is_outside
                missed.set(missed.get() + is_missed.to("zext", I64))
                places.append(code.select(is_outside, room, value - low))
            for nth, place in enumerate(places):
                cell = code.at(cells, place * size_of_cell(rows))
                if rows.combine is Combine.STORE:
                    code.store((at + nth + 1).to("trunc", I32), cell)
                else:
                    mover.store(cell, mover.item(at + nth))
    note(code, "missed", missed.get())


def merge(code: IrBuilder, rows: Rows) -> None:
    """Pieces of the range: what the workers have for a cell, in their order, to the table."""
    mover, low = Mover(code, rows), word(code, "low")
    with pieces(code, "range") as number:
        start, total = extent(code, number, "range")
        if rows.combine is Combine.STORE:
            _store_last(code, rows, mover, start, total)
        else:
            wide = lanes_at_once(rows.dtype) if rows.dtype and rows.table_step == rows.size else 1
            for k, step in code.strips(total, wide):
                _combine(code, rows, start + k, mover.cell(low + start + k), step)


def _cells(code: IrBuilder, rows: Rows, worker: IrValue) -> IrValue:
    return code.at(word(code, "private", PTR), worker * memory_for(rows, word(code, "range")))


def _begin(code: IrBuilder, rows: Rows, cells: IrValue, room: IrValue) -> None:
    """Cells that change nothing."""
    kind = f"i{8 * size_of_cell(rows)}"
    for k, step in code.strips(room, ELEMENTS_AT_ONCE):
        code.store(code.constant(vector(kind, step), identity(rows)), code.at(cells, k * size_of_cell(rows)))


def _store_last(code: IrBuilder, rows: Rows, mover: Mover, start: IrValue, total: IrValue) -> None:
    """The last lane of each cell; its element is prefetched, as neighbours' elements lie far apart."""
    own, low = scratch(code), word(code, "low")
    with code.loop(0, total) as k:
        last = code.variable(I32, code.constant(I32, 0))
        with code.loop(0, word(code, "workers")) as worker:
            found = code.load(I32, code.at(_cells(code, rows, worker), (start + k) * 4))
            last.set(code.select(found.compare("ne", 0), found, last.get()))
        code.store(last.get(), code.at(own, k * 4))
        code.prefetch(mover.item(last.get().to("zext", I64) - 1))
    with code.loop(0, total) as k:
        found = code.load(I32, code.at(own, k * 4)).to("zext", I64)
        with code.when(found.compare("ne", 0)):
            mover.store(mover.cell(low + start + k), mover.item(found - 1))


def _combine(code: IrBuilder, rows: Rows, at: IrValue, cell: IrValue, count: int) -> None:
    """What the workers have for some cells to those of the table that it changes."""
    assert rows.dtype is not None
    kind = bits_of(rows.dtype, count)
    nothing = code.constant(kind, identity(rows))
    total = code.variable(kind, nothing)
    with code.loop(0, word(code, "workers")) as worker:
        found = code.load(kind, code.at(_cells(code, rows, worker), at * rows.size), 1)
        total.set(combined(code, rows.combine, rows.dtype, total.get(), found))
    changes = code.compare("ne", total.get(), nothing)
    value = combined(code, rows.combine, rows.dtype, code.load(kind, cell, 1), total.get())
    if count == 1:
        with code.when(changes):
            code.store(value, cell, 1)
        return
    code.call("void", f"llvm.masked.store.v{count}i{8 * rows.size}.p0", value, cell, "i32 1", changes)
