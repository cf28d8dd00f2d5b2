"""A layout is data: the offset of element (i, j) as a sum of (coordinate // div % mod) * stride terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

Axes = tuple[tuple[int, ...], tuple[int, ...]]
"""The dims of a tensor that are rows, and those that are columns, the slowest first."""


@dataclass(frozen=True)
class Term:
    """One summand: `(coordinate // div % mod) * stride`. `mod` 0 leaves the quotient whole."""

    stride: int
    div: int = 1
    mod: int = 0

    def __call__(self, coordinate: Any) -> Any:
        """The summand at an integer or at a whole NumPy array of them."""
        quotient = coordinate // self.div if self.div != 1 else coordinate
        return (quotient % self.mod if self.mod else quotient) * self.stride

    def peak(self, extent: int) -> int:
        """The largest value for coordinates below `extent`."""
        last = (extent - 1) // self.div
        return max(0, (min(last, self.mod - 1) if self.mod else last) * self.stride)


@dataclass(frozen=True)
class Layout:
    """Maps coordinates (i, j) to an element offset, the sum of a row part and a column part."""

    rows: tuple[Term, ...]
    cols: tuple[Term, ...]
    start: int = 0
    """The offset of (0, 0)."""

    def row(self, i: Any) -> Any:
        """What the row coordinate contributes."""
        return _total(self.rows, i)

    def col(self, j: Any) -> Any:
        """What the column coordinate contributes."""
        return _total(self.cols, j)

    def offset(self, i: Any, j: Any) -> Any:
        """The element offset of (i, j); takes integers or NumPy arrays that broadcast."""
        return self.row(i) + self.col(j) + self.start

    def first(self, rows: int, cols: int, end: int) -> tuple[Any, Any, Any]:
        """Rows, columns and offsets of the elements of a `rows` x `cols` region whose offsets are below `end`, as
        arrays: few of a large region. No stride may be negative."""
        i, j = np.arange(rows), np.arange(cols)
        down, across = self.row(i) + 0 * i, self.col(j) + 0 * j + self.start
        i, j = (each.ravel() for each in np.meshgrid(i[down < end], j[across < end], indexing="ij"))
        offsets = down[i] + across[j]
        is_before = offsets < end
        return i[is_before], j[is_before], offsets[is_before]

    def cut(self, row: int, col: int) -> Layout:
        """What begins at (row, col): a multiple of the box of a blocked layout, or a region that ends in that box."""
        return replace(self, start=self.offset(row, col))

    def span(self, rows: int, cols: int) -> int:
        """How many elements of storage a `rows` x `cols` region can reach (0 for an empty region)."""
        if rows <= 0 or cols <= 0:
            return 0
        return 1 + self.start + sum(t.peak(rows) for t in self.rows) + sum(t.peak(cols) for t in self.cols)

    @property
    def strides(self) -> tuple[int, int] | None:
        """`(row stride, column stride)` of a plain two-dimensional layout from offset 0 on, or None for others."""
        parts: list[int] = []
        if not isinstance(self.start, int) or self.start:  # pyright: ignore[reportUnnecessaryIsInstance]
            return None
        for terms in (self.rows, self.cols):
            if len(terms) > 1 or any(t.div != 1 or t.mod for t in terms):
                return None
            parts.append(terms[0].stride if terms else 0)
        return parts[0], parts[1]

    @classmethod
    def plain(cls, row_stride: int, col_stride: int) -> Layout:
        """Rows and columns at fixed distances; a stride of 0 ignores that coordinate."""
        return cls(_term(row_stride), _term(col_stride))

    @classmethod
    def boxed(cls, rows: int, cols: int, box: tuple[int, int], *, boxes_by_row: bool, inner_by_row: bool) -> Layout:
        """A tile cut into boxes (Nz, Zn, Zz, Nn): the order of the boxes, then the order inside one."""
        r, c = box
        area = r * c
        whole_cols = -(-cols // c) * c
        whole_rows = rows if inner_by_row else -(-rows // r) * r  # rows of a partial box keep their distance (MG-NZ-09)
        down, across = (whole_cols * r, area) if boxes_by_row else (area, whole_rows * c)
        inner_row, inner_col = (c, 1) if inner_by_row else (1, r)
        return cls(_blocked(r, inner_row, down), _blocked(c, inner_col, across))

    @classmethod
    def of_dims(cls, shape: Sequence[int], stride: Sequence[int], axes: Axes) -> Layout:
        """A global tensor: some of its dims flatten into rows, the others into columns."""
        rows, cols = (flattened([shape[k] for k in dims], [stride[k] for k in dims]) for dims in axes)
        return cls(rows, cols)


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major array of `shape`."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def _total(terms: tuple[Term, ...], coordinate: Any) -> Any:
    """The sum of terms at a coordinate."""
    return sum((term(coordinate) for term in terms[1:]), terms[0](coordinate)) if terms else 0 * coordinate


def _term(stride: int, extent: int = 0) -> tuple[Term, ...]:
    return (Term(stride),) if stride and extent != 1 else ()


def _blocked(box: int, inner: int, outer: int) -> tuple[Term, ...]:
    if box == 1 or outer == box * inner:
        return _term(outer if box == 1 else inner)
    return (Term(inner, 1, box), Term(outer, box))


def flattened(extents: Sequence[int], strides: Sequence[int]) -> tuple[Term, ...]:
    """One coordinate over several dims, the last one fastest; dims with matching strides are merged."""
    terms: list[Term] = []
    div = 1
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        if extent == 1:
            continue
        if terms and stride == terms[-1].stride * terms[-1].mod:
            terms[-1] = Term(terms[-1].stride, terms[-1].div, terms[-1].mod * extent)
        else:
            terms.append(Term(stride, div, extent))
        div *= extent
    if terms:  # the slowest dim needs no modulo: the coordinate stays below its extent
        terms[-1] = Term(terms[-1].stride, terms[-1].div)
    return tuple(term for term in terms if term.stride)
