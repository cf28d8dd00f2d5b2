"""Combining values into cells with the exact results of A-16, in program order."""

from __future__ import annotations

import numpy as np

from ptokit.engine.storage import Array
from ptokit.isa.dtype import DType
from ptokit.isa.move import Combine

PICKS = {Combine.MAX: np.maximum, Combine.MIN: np.minimum}
WIDE_PICKS = {Combine.MAX: np.fmax, Combine.MIN: np.fmin}


def accumulate(cells: Array, where: Array, values: Array, combine: Combine, dtype: DType) -> None:
    """`cells[where] = combine(cells[where], values)`, once for every entry, in order.

    `cells` and `values` hold bits of `dtype`; `where` selects along the first axis and may repeat.
    """
    touched, lane = np.unique(where, return_inverse=True)
    old, new = cells[touched], np.ascontiguousarray(values)
    if combine is Combine.ADD:
        cells[touched] = _add(old, lane, new, dtype)
    elif dtype.is_float and dtype.size <= 8:
        cells[touched] = _pick_float(old, lane, new, combine, dtype)
    else:
        best = old.view(dtype.numpy)
        (WIDE_PICKS if dtype.is_float else PICKS)[combine].at(best, lane, new.view(dtype.numpy))
        cells[touched] = best.view(dtype.bits)


def _add(old: Array, lane: Array, new: Array, dtype: DType) -> Array:
    """Integers wrap; floats round at every step; a NaN that comes out is the canonical quiet one."""
    total = old.view(dtype.numpy)
    with np.errstate(all="ignore"):
        np.add.at(total, lane, new.view(dtype.numpy))
        if dtype.is_float:
            total[np.isnan(total)] = np.array(np.nan, dtype.numpy)
    return total.view(dtype.bits)


def _pick_float(old: Array, lane: Array, new: Array, combine: Combine, dtype: DType) -> Array:
    """A NaN source never wins and a NaN cell yields to any number; -0 lies below +0."""
    best, keys = _ordered(old, dtype), _ordered(new, dtype)
    limits = np.iinfo(best.dtype)
    loser = limits.min if combine is Combine.MAX else limits.max  # the key of a NaN pattern, so no number has it
    best[np.isnan(old.view(dtype.numpy))] = loser
    keys[np.isnan(new.view(dtype.numpy))] = loser
    PICKS[combine].at(best, lane, keys)
    return np.where(best == loser, old, _ordered(best.view(dtype.bits), dtype).view(dtype.bits))


def _ordered(bits: Array, dtype: DType) -> Array:
    """Float bits as signed integers in the order of their values; the map is its own inverse."""
    signed = bits.view(np.dtype(f"i{dtype.size}"))
    return signed ^ ((signed >> (8 * dtype.size - 1)) & np.iinfo(signed.dtype).max)
