"""Elements for a small range of cells: each worker takes a slice of the lanes to memory of its own, merged at the end.

Nothing is written to the table before all lanes have been read and checked. For stores, a worker notes for every cell
the last lane that names it.
"""

from __future__ import annotations

from typing import Any

from ptokit.engine.llvm.emit import I32, I64, PTR, IrBuilder, IrValue, vector
from ptokit.engine.llvm.numbers import bits_of, combined, lanes_at_once
from ptokit.engine.native.whole.block import LANES_AT_ONCE, blocks, note, pieces, scratch, word
from ptokit.engine.native.whole.mover import AT_ONCE, Mover, Rows
from ptokit.engine.native.whole.partition import slice_of
from ptokit.engine.native.whole.phases import Indices, ValuesInPlace, extent
from ptokit.isa.move import Combine

APART = 64
"""Cells between the memories of two workers, which are not to share a cache line."""


def can_merge(rows: Rows) -> bool:
    """Whether what workers found can be merged: sums of floats depend on the order of all lanes."""
    return rows.width == 1 and not (rows.combine is Combine.ADD and rows.dtype and rows.dtype.is_float)


def size_of_cell(rows: Rows) -> int:
    """Bytes of a worker's own memory for a cell."""
    return 4 if rows.combine is Combine.STORE else rows.size


def memory_for(rows: Rows, cells: Any) -> Any:
    """Bytes of a worker's own memory for a range of cells, and for what is outside of it."""
    return (cells + APART) * size_of_cell(rows)


def fold(code: IrBuilder, rows: Rows, indices: Indices) -> None:
    """The worker's slice of the lanes to its own cells; a lane that is not in the range goes to one behind them."""
    mover, values, low, room = Mover(code, rows), ValuesInPlace(code, indices), word(code, "low"), word(code, "range")
    cells = _cells(code, rows, code.arguments[1])
    _begin(code, rows, mover, cells, code.at(mover.table, low * mover.table_row), room)
    missed = code.variable(I64, code.i64(0))
    with blocks(code, *slice_of(code), LANES_AT_ONCE) as (first, count):
        for k, step in code.strips(count, AT_ONCE):
            at, places = first + k, list[IrValue]()
            for found in [values.take(at + nth, 1).to("zext", I64) - low for nth in range(step)]:
                is_outside = found.compare("uge", room)
                missed.set(missed.get() + is_outside.to("zext", I64))
                places.append(code.select(is_outside, room, found))
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
    return code.at(word(code, "totals", PTR), worker * memory_for(rows, word(code, "range")))


def _begin(code: IrBuilder, rows: Rows, mover: Mover, cells: IrValue, table: IrValue, room: IrValue) -> None:
    """Cells that change nothing: zeros, or what the table holds if the greatest or least of both counts."""
    if rows.combine in (Combine.STORE, Combine.ADD):
        code.fill_bytes(cells, 0, room * size_of_cell(rows))
        return
    kind = f"i{8 * rows.size}"
    for k, step in code.strips(room, 64 // rows.size if rows.table_step == rows.size else 1):
        found = code.load(vector(kind, step), code.at(table, k * mover.table_row), 1)
        code.store(found, code.at(cells, k * rows.size), 1)


def _store_last(code: IrBuilder, rows: Rows, mover: Mover, start: IrValue, total: IrValue) -> None:
    """The last lane of each cell; its element is prefetched, as neighbours' elements lie far apart."""
    own, low = scratch(code), word(code, "low")
    with code.loop(0, total) as k:
        last = code.variable(I32, code.constant(I32, 0))
        with code.loop(0, word(code, "workers")) as worker:
            found = code.load(I32, code.at(_cells(code, rows, worker), (start + k) * 4))
            last.set(code.select(found.compare("ne", 0), found, last.get()))
        code.store(last.get(), code.at(own, k * 4))
        mover.writer.prefetch(mover.item(last.get().to("zext", I64) - 1))
    with code.loop(0, total) as k:
        found = code.load(I32, code.at(own, k * 4)).to("zext", I64)
        with code.when(found.compare("ne", 0)):
            mover.store(mover.cell(low + start + k), mover.item(found - 1))


def _combine(code: IrBuilder, rows: Rows, at: IrValue, cell: IrValue, count: int) -> None:
    assert rows.dtype is not None
    kind = bits_of(rows.dtype, count)
    total = code.variable(kind, code.load(kind, cell, 1))
    with code.loop(0, word(code, "workers")) as worker:
        found = code.load(kind, code.at(_cells(code, rows, worker), at * rows.size), 1)
        total.set(combined(code, rows.combine, rows.dtype, total.get(), found))
    code.store(total.get(), cell, 1)
