"""Combining values into cells with the exact results of A-16, in program order."""

from __future__ import annotations

import numpy as np

from ptokit.engine.storage import Array
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

ARITHMETIC = {Combine.ADD: np.add, Combine.MUL: np.multiply}
PICKS = {Combine.MAX: np.maximum, Combine.MIN: np.minimum}


def accumulate(cells: Array, where: Array, values: Array, combine: Combine, dtype: DType) -> None:
    """`cells[where] = combine(cells[where], values)`, once for every entry, in order.

    `cells` and `values` hold bits of `dtype`; `where` selects along the first axis and may repeat.
    """
    if not where.size:
        return
    touched, lane = np.unique(where, return_inverse=True)
    old, new = cells[touched], np.ascontiguousarray(values)
    with np.errstate(all="ignore"):
        if combine in ARITHMETIC:
            cells[touched] = _compute(ARITHMETIC[combine], old, lane, new, dtype)
        elif dtype.is_float:
            cells[touched] = _pick_float(old, lane, new, combine, dtype)
        else:
            best = old.view(dtype.numpy)
            PICKS[combine].at(best, lane, new.view(dtype.numpy))
            cells[touched] = best.view(dtype.bits)


def _compute(operation: np.ufunc, old: Array, lane: Array, new: Array, dtype: DType) -> Array:
    """Integers wrap; floats round at every step; a NaN result is the canonical quiet one, in each part of a complex."""
    total = old.view(dtype.numpy)
    operation.at(total, lane, new.view(dtype.numpy))
    if dtype.is_float or dtype.family == "complex":
        parts: Array = total.view(np.real(total).dtype)
        parts[np.isnan(parts)] = np.nan
    return total.view(dtype.bits)


def _pick_float(old: Array, lane: Array, new: Array, combine: Combine, dtype: DType) -> Array:
    """The greatest or least number combined into each cell: NaNs are ignored, -0 lies below +0, ties keep any bits."""
    width = 1 if old.ndim == 1 else int(old.shape[1])
    cell = lane if old.ndim == 1 else np.add.outer(lane * width, np.arange(width))
    bits = np.concatenate([old.ravel(), new.ravel()])
    cells = np.concatenate([np.arange(old.size), cell.ravel()])
    values = bits.view(dtype.numpy).astype(np.float64 if dtype.size <= 8 else dtype.numpy)
    counts = np.flatnonzero(~np.isnan(values))
    order = counts[np.lexsort((~np.signbit(values[counts]), values[counts], cells[counts]))]
    edge = {"append": -1} if combine is Combine.MAX else {"prepend": -1}
    ends = np.flatnonzero(np.diff(cells[order], **edge))
    best = old.copy()
    best.reshape(-1)[cells[order[ends]]] = bits[order[ends]]
    return best
