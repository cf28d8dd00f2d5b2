"""The memory behind an operand, as engines see it: a run of elements, moved as bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout

Array = np.ndarray[Any, np.dtype[Any]]


MOST_VIEWED = 1 << 48
"""Elements of the largest view: with strides of 0, extents can be beyond what NumPy can count."""


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

    __slots__ = ("_owner", "_windows", "bits", "dtype", "end", "start")

    def __init__(self, elements: Array, dtype: DType, owner: Array | None = None) -> None:
        """Wrap a one-dimensional, contiguous array of `dtype`'s width; `owner` is the user's own array, if any."""
        self.bits = elements.view(dtype.bits)
        self.dtype = dtype
        self.start: int = elements.__array_interface__["data"][0]
        self.end = self.start + elements.nbytes
        self._owner = elements if owner is None else owner
        self._windows: dict[Region, Array | None] = {}

    @property
    def writable(self) -> bool:
        """Whether the user lets us write, now."""
        return self.bits.flags.writeable and self._owner.flags.writeable

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
        if strides is None or region.span > self.bits.size or region.rows * region.cols > MOST_VIEWED:
            return None
        steps = [s * self.dtype.size if n > 1 else 0 for s, n in zip(strides, region.shape, strict=True)]
        return as_strided(self.bits, region.shape, steps)

    def addresses(self, offsets: Array) -> Array:
        """Byte addresses of elements, one row of them for each offset."""
        return self.start + offsets[:, None] * self.dtype.size + np.arange(self.dtype.size)

    def __reduce__(self) -> NoReturn:
        raise TypeError("this is a view of memory; copy or pickle the array, or the tile's values, instead")

    def overlaps(self, other: Storage) -> bool:
        """Whether the two share any bytes."""
        return self.start < other.end and other.start < self.end
