"""The memory behind an operand, as engines see it: a run of elements, moved as bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout

Array = np.ndarray[Any, np.dtype[Any]]


class Region:
    """`rows` x `cols` elements under a layout. Equal ones are one object, so looking views up is cheap."""

    __slots__ = ("cols", "layout", "rows")

    def __init__(self, layout: Layout, rows: int, cols: int) -> None:
        self.layout, self.rows, self.cols = layout, rows, cols

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.cols

    @property
    def span(self) -> int:
        """Elements of storage that the region can reach."""
        return self.layout.span(self.rows, self.cols)

    def offsets(self) -> Array:
        """The offset of every element."""
        return self.layout.offset(np.arange(self.rows)[:, None], np.arange(self.cols)[None, :])


region = lru_cache(maxsize=65536)(Region)
"""The one `Region` of a layout and extents."""


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
        self._windows: dict[Region, Array | None] = {}

    def window(self, region: Region) -> Array | None:
        """A two-dimensional view of the bits, or None where the layout is blocked or leads outside."""
        try:
            return self._windows[region]
        except KeyError:
            if len(self._windows) >= 64:
                self._windows.clear()
            view = self._windows[region] = self._view(region)
            return view

    def _view(self, region: Region) -> Array | None:
        strides = region.layout.strides
        if strides is None or region.span > self.bits.size:
            return None
        size = self.dtype.size
        return as_strided(self.bits, region.shape, (strides[0] * size, strides[1] * size))

    def addresses(self, offsets: Array) -> Array:
        """Byte addresses of elements, one row of them for each offset."""
        return self.start + offsets[:, None] * self.dtype.size + np.arange(self.dtype.size)

    def overlaps(self, other: Storage) -> bool:
        """Whether the two share any bytes."""
        return self.start < other.end and other.start < self.end
