"""The memory behind an operand, as engines see it: a run of elements, moved as bits."""

from __future__ import annotations

from ctypes import addressof, c_char
from functools import lru_cache
from typing import Any, NoReturn, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.engine.gpu import DeviceArray, on_gpu
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout

Array = np.ndarray[Any, np.dtype[Any]]

ADDRESS_SPACE = 64 << 20
"""Bytes that addresses may span in one memory; targets refuse far less, at the call."""

MOST_VIEWED = 1 << 48
"""Elements of the largest view: with strides of 0, extents can be beyond what NumPy can count."""


class Region:
    """`rows` x `cols` elements under a layout, from row `first` on. `region` gives one object for equal regions, so
    that views are found quickly."""

    __slots__ = ("_steps", "cols", "first", "layout", "rows", "shape", "span", "strides")

    def __init__(self, layout: Layout, rows: int, cols: int, first: int = 0) -> None:
        self.layout, self.rows, self.cols, self.first = layout, rows, cols, first
        self.shape = rows, cols
        self.span = layout.span(first + rows, cols)
        """Elements of storage that the region can reach."""
        self.strides = layout.strides
        """Elements from row to row and from column to column; None where the layout is blocked."""
        self._steps: dict[int, tuple[int, ...]] = {}

    def steps(self, size: int) -> tuple[int, ...]:
        """The strides in bytes, for elements of `size` bytes; 0 along an extent of one."""
        if size not in self._steps:
            assert self.strides is not None
            self._steps[size] = tuple(s * size if n > 1 else 0 for s, n in zip(self.strides, self.shape, strict=True))
        return self._steps[size]

    def offsets(self) -> Array:
        """The offset of every element."""
        rows = np.arange(self.first, self.first + self.rows)
        return self.layout.offset(rows[:, None], np.arange(self.cols)[None, :])

    def cut(self, first: int, rows: int) -> Region:
        """Some of its rows; not cached."""
        return Region(self.layout, rows, self.cols, self.first + first)


region = lru_cache(maxsize=65536)(Region)
"""The one `Region` of a layout and extents."""


def address_of(bits: Any) -> int:
    """The address of an array. NumPy's own function takes four times as long."""
    if type(bits) is DeviceArray:
        return bits.address
    try:
        return addressof(c_char.from_buffer(bits))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, or empty
        return bits.__array_interface__["data"][0]


def root_of(array: Array) -> Array | None:
    """The array that owns the memory of another; None if NumPy does not know it."""
    if on_gpu(array):
        return None
    while not array.flags.owndata:
        base: Array | None = array.base
        if not isinstance(base, np.ndarray):
            return None
        array = base
    return array


def run_of(array: Array, bits: np.dtype[Any], count: int) -> Array:
    """Consecutive elements from an array's first on, gaps included, as bits."""
    if on_gpu(array):
        return cast("Array", array.run(bits, count))
    own = array.view(bits)
    if own.flags.c_contiguous:
        run = own.reshape(-1)
        return run if run.size == count else run[:count]
    return as_strided(own, (count,), (bits.itemsize,), writeable=own.flags.writeable)


class Storage:
    """Consecutive elements of one operand, with a cache of the views that engines use."""

    __slots__ = ("_span", "_windows", "bits", "dtype", "owner", "root")

    def __init__(self, elements: Array, dtype: DType, owner: Array | None = None) -> None:
        """Wrap a one-dimensional array of `dtype`'s width without gaps; `owner` is the user's own array, if any."""
        self.bits = elements if elements.dtype is dtype.bits else elements.view(dtype.bits)
        self.dtype = dtype
        self.owner = elements if owner is None else owner
        self.root = root_of(self.owner)
        """The array that owns the memory, if NumPy knows it."""
        self._span: range | None = None
        self._windows: dict[Region, Array | None] = {}

    @property
    def span(self) -> range:
        """The addresses of the bytes."""
        if self._span is None:
            start = address_of(self.bits)
            self._span = range(start, start + self.bits.nbytes)
        return self._span

    @property
    def address(self) -> int:
        """Where the bytes begin."""
        return self.span.start

    @property
    def writable(self) -> bool:
        """Whether the memory is writable, now."""
        return self.bits.flags.writeable and self.owner.flags.writeable

    @property
    def gpu(self) -> int | None:
        """The number of the GPU that has the memory; None for the host."""
        return getattr(self.owner, "gpu", None)

    def part(self, offset: int, elements: int) -> Storage:
        """Some of the elements, as a storage of their own."""
        return Storage(self.bits[offset : offset + elements], self.dtype, self.owner)

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
        if on_gpu(self.bits):
            self.bits.refuse()
        if region.strides is None or region.span > self.bits.size or region.rows * region.cols > MOST_VIEWED:
            return None
        start = region.first * region.strides[0] * self.dtype.size
        return np.ndarray(region.shape, self.bits.dtype, self.bits, start, region.steps(self.dtype.size))  # type: ignore[arg-type]

    def addresses(self, offsets: Array) -> Array:
        """Byte addresses of elements, one row of them for each offset."""
        return self.span.start + offsets[:, None] * self.dtype.size + np.arange(self.dtype.size)

    def __reduce__(self) -> NoReturn:
        raise TypeError("this is a view of memory; copy or pickle the array, or the tile's values, instead")

    def overlaps(self, other: Storage) -> bool:
        """Whether the two share any bytes. Arrays that own their memory share none, which is the fast test."""
        root, another = self.root, other.root
        if root is not another and root is not None and another is not None:
            return False
        mine, theirs = self.span, other.span
        return mine.start < theirs.stop and theirs.start < mine.stop


class OnChip:
    """One on-chip memory, poison (every byte 0xFF) until written."""

    def __init__(self) -> None:
        self._bytes = np.empty(ADDRESS_SPACE, np.uint8)
        self.poisoned = 0
        """Bytes that are poison, or were written since."""

    def forget(self) -> None:
        """Make everything poison again."""
        self.poisoned = 0

    def at(self, addr: int, nbytes: int) -> Array:
        """The bytes from `addr` on."""
        end = addr + nbytes
        if end > ADDRESS_SPACE:
            raise ValueError(
                f"address {addr:#x} with {nbytes} bytes lies beyond the {ADDRESS_SPACE:#x} bytes there are"
            )
        if end > self.poisoned:
            self._bytes[self.poisoned : end] = 0xFF
            self.poisoned = end
        return self._bytes[addr:end]
