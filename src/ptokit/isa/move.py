"""The two primitives that engines execute: one that moves, one that computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ptokit.isa.layout import Layout

UNSPECIFIED = "unspecified"
"""The operation of instructions that are known by their effects only."""
NOTHING = (0, 0)
"""The region of such an operation that only reads."""


class Remap(Enum):
    """What happens to an index outside [0, capacity)."""

    REFUSE = auto()
    """Undefined behaviour in the documents; the engine raises before anything is written."""
    CLAMP = auto()
    WRAP = auto()
    ZERO = auto()
    """The lane stores zero instead."""
    SKIP = auto()
    """The lane stores nothing."""


class Combine(Enum):
    """How a moved element is combined with the element at its destination."""

    STORE = auto()
    ADD = auto()
    MAX = auto()
    MIN = auto()
    MUL = auto()
    """Of whole arrays only: no instruction multiplies into memory."""

    @property
    def rounds(self) -> bool:
        """Whether floats are rounded at every step, so that the order of lanes matters."""
        return self in (Combine.ADD, Combine.MUL)


class IndexUnit(Enum):
    """What an index value counts on the side it addresses."""

    ROW = auto()
    """The row coordinate; the lane's own column stays."""
    ELEMENT = auto()
    """An element number, split into (value // width, value % width)."""


class Side(Enum):
    """Which side of the move the index addresses."""

    SRC = auto()
    DST = auto()


@dataclass(frozen=True)
class Access:
    """An operand and where element (i, j) of it lies."""

    operand: str
    layout: Layout


@dataclass(frozen=True)
class Fill:
    """A source that is one bit pattern everywhere."""

    bits: int = 0


@dataclass(frozen=True)
class Index:
    """Where the index of lane (i, j) is, and what it addresses."""

    access: Access
    side: Side
    unit: IndexUnit
    capacity: int
    remap: Remap
    width: int = 0
    """For `IndexUnit.ELEMENT`: columns of the logical table; 0 if the value is a column of one row."""
    cast: bool = True
    """Cast to uint32 before the remap (MG-OOB-08). False only for 64-bit indices on the host."""
    valid: tuple[int, int] | None = None
    """Extents of the defined part of the addressed side; an index that names its padding is a hazard."""

    @property
    def by_row(self) -> bool:
        """Whether all lanes of a row have one index."""
        return not self.access.layout.cols and self.unit is IndexUnit.ROW

    def reach(self, cols: int) -> tuple[int, int]:
        """Rows and columns of the addressed side that values below the capacity can name; rows have `cols` columns."""
        if self.unit is IndexUnit.ROW:
            return self.capacity, cols
        if isinstance(self.width, int) and self.width == 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            return 1, self.capacity
        return -(-self.capacity // self.width), self.width


@dataclass(frozen=True)
class Move:
    """For each (i, j) of a region, combine an element of the source into the destination.

    The order is row-major unless `block` is set. It matters if operands share memory.
    """

    shape: tuple[int, int]
    """Rows and columns of the region."""
    dst: Access
    src: Access | Fill
    index: Index | None = None
    combine: Combine = Combine.STORE
    block: int = 0
    """Columns of a block: all rows of a block column come before the next one (MG-NZ-10); 0 for whole rows."""

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def cols(self) -> int:
        """Columns of the region."""
        return self.shape[1]

    @property
    def indexed(self) -> Access | None:
        """The side that the index addresses."""
        if self.index is None or isinstance(self.src, Fill):
            return None
        return self.src if self.index.side is Side.SRC else self.dst

    @property
    def spans(self) -> Iterator[tuple[str, int]]:
        """Operands and the elements that each must have, for addresses that do not depend on an index."""
        index = self.index
        side = index.side if index else None
        if side is not Side.DST:
            yield self.dst.operand, self.dst.layout.span(*self.shape)
        if side is not Side.SRC and not isinstance(self.src, Fill):
            yield self.src.operand, self.src.layout.span(*self.shape)
        if index is not None:
            yield index.access.operand, index.access.layout.span(self.rows, 1 if index.by_row else self.cols)


@dataclass(frozen=True)
class Input:
    """An operand of a computation: `shape` elements at the offsets of its layout. Shapes broadcast."""

    operand: str
    layout: Layout
    shape: tuple[int, int]


@dataclass(frozen=True)
class Compute:
    """Read every input, apply the operation `op`, write a region. A scalar is an input of one element."""

    op: str
    shape: tuple[int, int]
    """Rows and columns of the region that is written."""
    dst: Access
    inputs: tuple[Input, ...]
    options: tuple[tuple[str, Any], ...] = ()
    """Arguments of the operation besides its inputs, by name."""
    combine: Combine = Combine.STORE
    """How a result is combined with the element at its place."""

    @property
    def spans(self) -> Iterator[tuple[str, int]]:
        """Operands and the elements that each must have."""
        yield self.dst.operand, self.dst.layout.span(*self.shape)
        for each in self.inputs:
            yield each.operand, each.layout.span(*each.shape)
