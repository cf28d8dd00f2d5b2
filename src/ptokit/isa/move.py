"""What engines execute, and all they need to know: one primitive that moves, one that computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ptokit.isa.layout import Layout


class Remap(Enum):
    """What happens to an index outside [0, capacity)."""

    REFUSE = auto()
    """The caller promised it cannot happen; the engine raises before anything is written."""
    CLAMP = auto()
    WRAP = auto()
    ZERO = auto()
    """The lane stores zero instead."""
    SKIP = auto()
    """The lane stores nothing."""


class Combine(Enum):
    """How a moved element meets the one it lands on."""

    STORE = auto()
    ADD = auto()
    MAX = auto()
    MIN = auto()


class Unit(Enum):
    """What an index value stands for on the side it addresses."""

    ROW = auto()
    """The row coordinate; the lane's own column stays."""
    ELEMENT = auto()
    """An element number, split into (value // width, value % width)."""


class Side(Enum):
    """Which end of the move the index addresses."""

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
    """Where lane (i, j) finds its index, and what the index does."""

    access: Access
    side: Side
    unit: Unit
    capacity: int
    remap: Remap
    width: int = 0
    """For `Unit.ELEMENT`: columns of the logical table; 0 takes the value whole, as a column."""
    cast: bool = True
    """Cast to uint32 before the remap (MG-OOB-08). False only for 64-bit indices on the host."""
    valid: tuple[int, int] | None = None
    """Extents of the defined part of the addressed side; an index that names its padding is a hazard."""

    @property
    def by_row(self) -> bool:
        """Whether there is one index per row: the column of a lane does not matter."""
        return not self.access.layout.cols and self.unit is Unit.ROW

    def reach(self, cols: int) -> tuple[int, int]:
        """Rows and columns of the addressed side that values below the capacity can name; rows have `cols` columns."""
        if self.unit is Unit.ROW:
            return self.capacity, cols
        if isinstance(self.width, int) and self.width == 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            return 1, self.capacity
        return -(-self.capacity // self.width), self.width


@dataclass(frozen=True)
class Move:
    """Walk (i, j) over a region; form two offsets; combine the source into the destination.

    The walk is row-major unless `block` says otherwise. Its order matters where operands share memory.
    """

    shape: tuple[int, int]
    """Rows and columns of the region."""
    dst: Access
    src: Access | Fill
    index: Index | None = None
    combine: Combine = Combine.STORE
    block: int = 0
    """Columns of a block: all rows of a block column are walked before the next one (MG-NZ-10); 0 walks whole rows."""

    @property
    def rows(self) -> int:
        """Rows of the region."""
        return self.shape[0]

    @property
    def cols(self) -> int:
        """Columns of the region."""
        return self.shape[1]

    @property
    def steered(self) -> Access | None:
        """The end that the index addresses."""
        if self.index is None or isinstance(self.src, Fill):
            return None
        return self.src if self.index.side is Side.SRC else self.dst

    @property
    def spans(self) -> Iterator[tuple[str, int]]:
        """Operands and the elements that each must have, for addresses that are known before any index."""
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
    """An operand that a computation reads whole: `shape` elements of it, where the layout says. Shapes broadcast."""

    operand: str
    layout: Layout
    shape: tuple[int, int]


@dataclass(frozen=True)
class Compute:
    """Read every input whole, apply an operation by its name, write a region. A scalar is an input of one element."""

    op: str
    shape: tuple[int, int]
    """Rows and columns of the region that is written."""
    dst: Access
    inputs: tuple[Input, ...]
    options: tuple[tuple[str, Any], ...] = ()
    """Arguments of the operation besides its inputs, by name."""

    @property
    def spans(self) -> Iterator[tuple[str, int]]:
        """Operands and the elements that each must have."""
        yield self.dst.operand, self.dst.layout.span(*self.shape)
        for each in self.inputs:
            yield each.operand, each.layout.span(*each.shape)
