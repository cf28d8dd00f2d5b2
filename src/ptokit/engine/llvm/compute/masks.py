"""Comparisons into masks of packed bits, and selections by them: eight columns for a byte, the lowest bit first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptokit.engine.llvm.compute.elements import ElementSite, holds
from ptokit.engine.llvm.compute.walk import Extents, RegionRow, RegionView, lanes_at_once
from ptokit.engine.llvm.emit import I1, I8, IrBuilder, IrValue, vector
from ptokit.isa.policy import CmpMode

COMPARISONS: Mapping[CmpMode, str] = {mode: mode.name.lower() for mode in CmpMode}
BITS = 8
"""Columns that a byte of a mask stands for."""
EIGHT = vector(I1, BITS)


def _byte(row: RegionRow, k: IrValue) -> IrValue:
    """Where byte `k` of a mask's row lies."""
    size = row.side.place.size
    return row.side.writer.code.at(row.at(k.op("udiv", size)), k.op("urem", size))


def _full_bytes(sides: Sequence[RegionView], cols: Any, code: IrBuilder) -> IrValue:
    """How many bytes stand for eight columns that can be taken at once."""
    if code.chip.lanes != 1 or lanes_at_once(sides, cols, BITS) < BITS:
        return code.i64(0)
    total = sides[0].writer.value_of(cols)
    return code.i64(total.number // BITS) if total.number is not None else total.op("udiv", BITS)


def compare(
    site: ElementSite, mode: CmpMode, mask: RegionView, inputs: Sequence[RegionView], shape: Extents, cols: Any
) -> None:
    """Fill a mask of `shape`: one bit for each of `cols` columns, zeroes in the rest of a row."""
    code, value_of = site.code, mask.writer.value_of
    rows, last = value_of(shape[0]), value_of(cols)
    nbytes, full = value_of(shape[1]) * mask.place.size, _full_bytes(inputs, cols, code)

    def ask(given: Sequence[RegionRow], j: IrValue, lanes: int) -> IrValue:
        return holds(site, COMPARISONS[mode], *(row.load(j, lanes) for row in given))

    with code.region(rows, nbytes) as (i, across):
        bits, given = mask.row(i), [side.row(i, BITS) for side in inputs]
        if full.number != 0:
            with across(0, full) as k:
                code.store(ask(given, k * BITS, BITS).bits(I8), _byte(bits, k))
        with across(full, nbytes) as k:
            byte, first = code.variable(I8, code.constant(I8, 0)), k * BITS
            with code.loop(first, _least(code, first + BITS, last)) as j:
                bit = ask(given, j, 1).to("zext", I8) << (j - first).to("trunc", I8)
                byte.set(byte.get() | bit)
            code.store(byte.get(), _byte(bits, k))


def select(site: ElementSite, dst: RegionView, mask: RegionView, inputs: Sequence[RegionView], shape: Extents) -> None:
    """The first input where a bit is set, else the second.

    From the last columns to the first: a mask that is overwritten as it is used has its bytes before their columns.
    """
    code, value_of = site.code, mask.writer.value_of
    rows, cols = map(value_of, shape)
    full, groups = _full_bytes((*inputs, dst), shape[1], code), (cols + (BITS - 1)).op("udiv", BITS)
    with code.region(rows, groups) as (i, across):
        bits, given, into = mask.row(i), [side.row(i, BITS) for side in inputs], dst.row(i)
        with across(0, groups - full) as back:
            k = groups - 1 - back
            byte, first = code.load(I8, _byte(bits, k)), k * BITS
            with code.loop(first, _least(code, first + BITS, cols)) as j:
                bit = (byte >> (j - first).to("trunc", I8)).to("trunc", I1)
                into.store(code.select(bit, given[0].load(j), given[1].load(j)), j)
        if full.number != 0:
            with across(0, full) as back:
                k = full - 1 - back
                chosen = code.load(I8, _byte(bits, k)).bits(EIGHT)
                j = k * BITS
                into.store(code.select(chosen, *(row.load(j, BITS) for row in given)), j)


def _least(code: IrBuilder, a: IrValue, b: IrValue) -> IrValue:
    return code.select(a.compare("slt", b), a, b)
