"""Rows reduced to a column, every row from its first element to its last, several rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptokit.engine.native.compute.elements import PICKS, Site, from_single, is_float, operations, single
from ptokit.engine.native.compute.walk import Side
from ptokit.engine.native.emit import Value
from ptokit.engine.native.move import each

TOGETHER = 4
"""Rows whose sums grow side by side, as one addition waits for the one before."""


@dataclass(frozen=True)
class Fold:
    """How a row is reduced: what its first element is taken as, what comes of the next, and what is written."""

    first: Callable[[Site, Value], Value]
    next: Callable[[Site, Value, Value], Value]
    last: Callable[[Site, Value], Value]


def _sum(site: Site, total: Value, bits: Value) -> Value:
    if is_float(site.dtype):
        return total + single(site.code, site.dtype, bits)
    return operations(site.dtype)["add"](site, total, bits)


def _begin(site: Site, bits: Value) -> Value:
    return single(site.code, site.dtype, bits) if is_float(site.dtype) else bits


def _end(site: Site, total: Value) -> Value:
    return from_single(site.code, site.dtype, total) if is_float(site.dtype) else total


def _best(name: str) -> Fold:
    return Fold(lambda site, bits: bits, PICKS[name], lambda site, bits: bits)


FOLDS: Mapping[str, Fold] = {"rowsum": Fold(_begin, _sum, _end), "rowmax": _best("max"), "rowmin": _best("min")}


def reduce_rows(site: Site, fold: Fold, dst: Side, src: Side, rows: Any, cols: Any) -> None:
    """Write the reductions of `rows` rows into column 0."""
    code, total = site.code, src.writer.worth(rows)
    whole = total - (total.op("urem", TOGETHER) if total.number is None else total.number % TOGETHER)
    if total.number is None or total.number >= TOGETHER:
        with code.loop(0, whole, TOGETHER) as i:
            _reduce(site, fold, dst, src, [i + k for k in range(TOGETHER)], cols)
    if whole.name != total.name:
        with each(code, total - whole) as i:
            _reduce(site, fold, dst, src, [whole + i], cols)


def _reduce(site: Site, fold: Fold, dst: Side, src: Side, rows: list[Value], cols: Any) -> None:
    code, zero = site.code, site.code.i64(0)
    sources = [src.row(i) for i in rows]
    starts = [fold.first(site, row.load(zero)) for row in sources]
    totals = [code.variable(start.type, start) for start in starts]
    with code.loop(1, src.writer.worth(cols)) as j:
        for total, row in zip(totals, sources, strict=True):
            total.set(fold.next(site, total.get(), row.load(j)))
    for total, i in zip(totals, rows, strict=True):
        dst.row(i).store(fold.last(site, total.get()), zero)
