"""Rows reduced to a column and columns to a row, from the first element to the last, several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptokit.engine.llvm.compute import elements
from ptokit.engine.llvm.compute.elements import ElementSite, from_single, is_float, single
from ptokit.engine.llvm.compute.walk import RegionView, lanes_at_once, whole_part
from ptokit.engine.llvm.emit import I64, IrValue
from ptokit.engine.llvm.numbers import narrow, widen

TOGETHER = 4
"""Rows that are summed side by side, because each addition of a row waits for the previous one."""


@dataclass(frozen=True)
class Fold:
    """How a row is reduced: its first element, each next element, and the result."""

    first: Callable[[ElementSite, IrValue], IrValue]
    next: Callable[[ElementSite, IrValue, IrValue], IrValue]
    last: Callable[[ElementSite, IrValue], IrValue]


def _sum(site: ElementSite, total: IrValue, bits: IrValue) -> IrValue:
    if is_float(site.dtype):
        return total + single(site.code, site.dtype, bits)
    return elements.operations(site.dtype)["add"](site, total, bits)


def _begin(site: ElementSite, bits: IrValue) -> IrValue:
    return single(site.code, site.dtype, bits) if is_float(site.dtype) else bits


def _end(site: ElementSite, total: IrValue) -> IrValue:
    return from_single(site.code, site.dtype, total) if is_float(site.dtype) else total


def _best(name: str) -> Fold:
    return Fold(lambda _, bits: bits, elements.PICKS[name], lambda _, bits: bits)


def _multiply(site: ElementSite, total: IrValue, bits: IrValue) -> IrValue:
    return elements.operations(site.dtype)["mul"](site, total, bits)


def _canonical(site: ElementSite, bits: IrValue) -> IrValue:
    return narrow(site.code, site.dtype, widen(site.code, site.dtype, bits)) if is_float(site.dtype) else bits


FOLDS: Mapping[str, Fold] = {
    "sum": Fold(_begin, _sum, _end),
    "max": _best("max"),
    "min": _best("min"),
    "prod": Fold(lambda _, bits: bits, _multiply, _canonical),
}
BETTER = {"argmax": "gt", "argmin": "lt"}
"""How an element is better than the best one before it."""


def reduce_rows(site: ElementSite, fold: Fold, dst: RegionView, src: RegionView, rows: Any, cols: Any) -> None:
    """Write the reductions of `rows` rows into column 0."""
    code, total = site.code, src.writer.value_of(rows)
    whole = total - (total.op("urem", TOGETHER) if total.number is None else total.number % TOGETHER)
    if total.number is None or total.number >= TOGETHER:
        with code.share(0, whole, TOGETHER) as i:
            _reduce(site, fold, dst, src, [i + k for k in range(TOGETHER)], cols)
    if whole.name != total.name:
        with code.share(whole, total) as i:
            _reduce(site, fold, dst, src, [i], cols)


def _reduce(site: ElementSite, fold: Fold, dst: RegionView, src: RegionView, rows: list[IrValue], cols: Any) -> None:
    code, zero = site.code, site.code.i64(0)
    sources = [src.row(i) for i in rows]
    starts = [fold.first(site, row.load(zero)) for row in sources]
    totals = [code.variable(start.type, start) for start in starts]
    with code.loop(1, src.writer.value_of(cols)) as j:
        for total, row in zip(totals, sources, strict=True):
            total.set(fold.next(site, total.get(), row.load(j)))
    for total, i in zip(totals, rows, strict=True):
        dst.row(i).store(fold.last(site, total.get()), zero)


def reduce_columns(site: ElementSite, fold: Fold, dst: RegionView, src: RegionView, rows: Any, cols: Any) -> None:
    """Write the reductions of `cols` columns into row 0, a vector of neighbouring columns at a time."""
    code, total = site.code, src.writer.value_of(cols)
    lanes = lanes_at_once((src, dst), cols, elements.lanes_for(site.dtype))
    whole = whole_part(code, (src, dst), total, lanes)
    _reduce_columns(site, fold, dst, src, rows, (0, whole, lanes))
    if whole.name != total.name:
        _reduce_columns(site, fold, dst, src, rows, (whole, total, 1))


def _reduce_columns(
    site: ElementSite, fold: Fold, dst: RegionView, src: RegionView, rows: Any, span: tuple[Any, IrValue, int]
) -> None:
    code, zero, lanes = site.code, site.code.i64(0), span[2]
    with code.share(*span) as j:
        start = fold.first(site, src.row(zero, lanes).load(j, lanes))
        total = code.variable(start.type, start)
        with code.loop(1, src.writer.value_of(rows)) as i:
            total.set(fold.next(site, total.get(), src.row(i, lanes).load(j, lanes)))
        dst.row(zero).store(fold.last(site, total.get()), j)


def locate_rows(site: ElementSite, how: str, dst: RegionView, src: RegionView, rows: Any, cols: Any) -> None:
    """Write the column of the best element of each row into column 0."""
    code, zero = site.code, site.code.i64(0)
    with code.share(0, src.writer.value_of(rows)) as i:
        row = src.row(i)
        first = row.load(zero)
        best, position = code.variable(first.type, first), code.variable(I64, zero)
        with code.loop(1, src.writer.value_of(cols)) as j:
            element = row.load(j)
            is_better = elements.holds(site, how, element, best.get())
            best.set(code.select(is_better, element, best.get()))
            position.set(code.select(is_better, j, position.get()))
        dst.row(i).store(position.get().to("trunc", dst.kind), zero)


def locate_columns(site: ElementSite, how: str, dst: RegionView, src: RegionView, rows: Any, cols: Any) -> None:
    """Write the row of the best element of each column into row 0."""
    locate_rows(site, how, dst.transposed, src.transposed, cols, rows)
