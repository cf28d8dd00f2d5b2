"""Matrix products: blocks of rows by columns as dot products along k, which both cube layouts keep side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ptokit.engine.llvm.compute import units
from ptokit.engine.llvm.compute.elements import ElementSite, from_single, is_float, single
from ptokit.engine.llvm.compute.walk import RegionRow, RegionView, lanes_at_once, whole_part
from ptokit.engine.llvm.emit import IrBuilder, IrValue, lanes_of, like, vector
from ptokit.engine.llvm.numbers import added_lanes, intrinsic

ROWS, COLS, DEEP = 4, 2, 8
"""Rows and columns of a block, and how many products of each sum are taken at once: as registers allow."""


Given = tuple[ElementSite, ElementSite]
"""The types of the left and the right matrix: the same, or floats of one byte."""


def multiply(
    site: ElementSite, given: Given, dst: RegionView, inputs: Sequence[RegionView], extents: Sequence[Any]
) -> None:
    """Write the product of the first two inputs, of `given`'s types, with the others added; `extents` are m, n and k.

    At the edges a block takes the last row or column again; all of a block is read before any of it is written.
    """
    code = site.code
    a, b, *more = (inputs[0], inputs[1].transposed, *inputs[2:])
    m, n, k = map(dst.writer.value_of, extents)
    kind = given[0].dtype
    if units.takes(code.chip, kind, (a.place.layout.cols, b.place.layout.cols)):
        _by_units(site, units.UnitProduct(code, kind, a, b, extents), dst, more)
        return
    deep = lanes_at_once((a, b), extents[2], DEEP)
    whole = whole_part(code, (a, b), k, deep)
    down, right_blocks = (units.parts(extent, count) for extent, count in ((m, ROWS), (n, COLS)))
    with code.region(down, right_blocks) as (block, across):
        rows = _block(code, block * ROWS, ROWS, m)
        left, into = [a.row(i) for i in rows], [dst.row(i) for i in rows]
        addends = [[side.row(i) for side in more] for i in rows]
        with across(0, right_blocks) as next_block:
            cols = _block(code, next_block * COLS, COLS, n)
            right = [b.row(j) for j in cols]
            sums = _sums(given, left, right, (0, whole, deep))
            if whole.name != k.name:
                sums = _sums(given, left, right, (whole, k, 1), sums)
            cells = [(r, j) for r in range(ROWS) for j in cols]
            made = [_sum(site, total, addends[r], j) for total, (r, j) in zip(sums, cells, strict=True)]
            for value, (r, j) in zip(made, cells, strict=True):
                into[r].store(value, j)


def _by_units(site: ElementSite, made: units.UnitProduct, dst: RegionView, addends: Sequence[RegionView]) -> None:
    """The same on matrix units: a lane has two neighbouring columns at a time."""
    paired = made.n.number is not None and made.n.number % 2 == 0 and all(x.run % 2 == 0 for x in (dst, *addends))

    def put(part: units.GroupPart, i: IrValue, j: IrValue, sums: Sequence[IrValue]) -> None:
        with within(i, made.m, part.rows):
            into, given = dst.row(i), [side.row(i) for side in addends]
            for k, total in enumerate([pair(*sums)] if paired else sums):
                with within(j + k, made.n, part.cols):
                    into.store(_sum(site, total, given, j + k), j + k)

    made.write(put)


def pair(one: IrValue, other: IrValue) -> IrValue:
    """Two numbers side by side."""
    kind = vector(one.type, 2)
    first = one.code.write(kind, f"insertelement {kind} poison, {one!r}, i64 0")
    return one.code.write(kind, f"insertelement {first!r}, {other!r}, i64 1")


def within(line: IrValue, extent: IrValue, size: int) -> AbstractContextManager[None]:
    """Only where a line of a part of `size` lines is below an extent."""
    return nullcontext() if units.are_whole(extent, size) else line.code.when(line.compare("slt", extent))


def _block(code: IrBuilder, first: IrValue, count: int, extent: IrValue) -> list[IrValue]:
    """The lines of a block, none beyond the last."""
    lines = [first + k for k in range(count)]
    if extent.number is not None and extent.number % count == 0:
        return lines
    return [first, *(code.select(line.compare("slt", extent), line, extent - 1) for line in lines[1:])]


def _sums(
    given: Given,
    left: Sequence[RegionRow],
    right: Sequence[RegionRow],
    span: tuple[Any, IrValue, int],
    start: Sequence[IrValue] = (),
) -> list[IrValue]:
    """The dot products of every row with every column, over a span of k."""
    code, deep, is_real = given[0].code, span[2], is_float(given[0].dtype)
    kind = vector("float" if is_real else "i32", deep)
    zero = code.constant(kind, "0.0" if is_real else 0)
    sums = [code.variable(kind, each) for each in start or [zero] * (len(left) * len(right))]
    with code.loop(*span) as at:
        sides = zip(given, (left, right), strict=True)
        x, y = ([_wide(site, row.load(at, deep)) for row in rows] for site, rows in sides)
        pairs = [(one, other) for one in x for other in y]
        for total, (one, other) in zip(sums, pairs, strict=True):
            total.set(_product(code, one, other, total.get()))
    return [added_lanes(total.get()) for total in sums]


def _wide(given: ElementSite, bits: IrValue) -> IrValue:
    return single(given.code, given.dtype, bits) if is_float(given.dtype) else bits.to("sext", like(bits.type, "i32"))


def _product(code: IrBuilder, a: IrValue, b: IrValue, total: IrValue) -> IrValue:
    return intrinsic(code, "fmuladd", a, b, total) if a.is_float else a * b + total


def _sum(site: ElementSite, total: IrValue, addends: Sequence[RegionRow], j: IrValue) -> IrValue:
    """What is written: the sum, rounded after each addend."""
    code, dtype = site.code, site.dtype
    for row in addends:
        bits = row.load(j, lanes_of(total.type))
        total = total + (single(code, dtype, bits) if is_float(dtype) else bits)
    return from_single(code, dtype, total) if is_float(dtype) else total
