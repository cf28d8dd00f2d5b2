"""The memory behind an operand, as engines see it: a run of elements, moved as bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout

Array = np.ndarray[Any, np.dtype[Any]]


class Storage:
    """Consecutive elements of one operand, with the views that engines take of them again and again."""

    __slots__ = ("_windows", "bits", "dtype", "end", "start", "writable")

    def __init__(self, elements: Array, dtype: DType) -> None:
        """Wrap a one-dimensional, contiguous array of `dtype`'s width."""
        self.bits = elements.view(dtype.bits)
        self.dtype = dtype
        self.start: int = elements.__array_interface__["data"][0]
        self.end = self.start + elements.nbytes
        self.writable = bool(elements.flags.writeable)
        self._windows: dict[tuple[Layout, int, int], Array | None] = {}

    def window(self, layout: Layout, rows: int, cols: int) -> Array | None:
        """A two-dimensional view of the bits, or None where the layout is blocked."""
        key = (layout, rows, cols)
        try:
            return self._windows[key]
        except KeyError:
            if len(self._windows) >= 64:
                self._windows.clear()
            view = self._windows[key] = self._view(layout, rows, cols)
            return view

    def _view(self, layout: Layout, rows: int, cols: int) -> Array | None:
        strides = layout.strides
        if strides is None or layout.span(rows, cols) > self.bits.size:
            return None
        size = self.dtype.size
        return as_strided(self.bits, (rows, cols), (strides[0] * size, strides[1] * size))

    def addresses(self, offsets: Array) -> Array:
        """Byte addresses of elements, one row of them for each offset."""
        return self.start + offsets[:, None] * self.dtype.size + np.arange(self.dtype.size)

    def overlaps(self, other: Storage) -> bool:
        """Whether the two share any bytes."""
        return self.start < other.end and other.start < self.end
