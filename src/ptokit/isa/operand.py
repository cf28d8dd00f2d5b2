"""Descriptions of operands: tiles, global tensors and scalars."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Self, cast

from ptokit.brief import brief
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Axes, Layout, packed
from ptokit.isa.policy import BLayout, GlobalLayout, Pad, SLayout, TileType
from ptokit.isa.unknown import Undecided, Unknown, certain, is_unknown

BLOCK = 32
"""Bytes of a block: tiles and slices begin at a multiple of it on A2/A3 and A5."""

FRACTAL_ROWS = 16
"""Rows of one fractal block (MG-NZ-01)."""
SCALE_FRACTAL = 32
"""Bytes of a fractal of scales: 16 x 2 or 2 x 16 of them."""


class Dyn(int):
    """An extent that is `-1` in the type and gets its value at run time."""

    def __repr__(self) -> str:
        return f"dyn({int(self)})"


def dyn(n: int) -> Dyn:
    """Mark an extent as dynamic: `valid=(1, dyn(9))`, `shape=(1, 1, 1, dyn(3), 10)`."""
    try:
        return Dyn(operator.index(n))
    except TypeError:
        raise TypeError(f"dyn takes an integer, got {brief(n)}") from None


FORMS = {
    (BLayout.RowMajor, SLayout.NoneBox): "nd",
    (BLayout.ColMajor, SLayout.NoneBox): "dn",
    (BLayout.ColMajor, SLayout.RowMajor): "nz",
    (BLayout.RowMajor, SLayout.ColMajor): "zn",
    (BLayout.RowMajor, SLayout.RowMajor): "zz",
    (BLayout.ColMajor, SLayout.ColMajor): "nn",
}
"""The short names of the six tile layouts."""
LAYOUTS = {form: layouts for layouts, form in FORMS.items()}
CUBE_FORMS = {
    TileType.Right: ("zn", 512), TileType.Acc: ("nz", 1024), TileType.ScaleLeft: ("zz", SCALE_FRACTAL),
    TileType.ScaleRight: ("nn", SCALE_FRACTAL),
}  # fmt: skip
"""The default layouts of cube tiles; that of a Left tile is the target's."""


@dataclass(frozen=True, eq=False)
class _Spec:
    """Compares by content. The hash is cached."""

    dtype: DType

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    @cached_property
    def token(self) -> object:
        """One object for all equal specs: eager calls use it as a key that is hashed without Python code."""
        if len(_TOKENS) >= MOST_TOKENS:
            _TOKENS.clear()
        return _TOKENS.setdefault(self._key, object())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or type(other) is not type(self):
            return self is other
        try:
            return self._key == other._key
        except Undecided:
            return _content(self._key) == _content(other._key)

    def changed(self, **fields: object) -> Self:
        """The same with other values of some fields. `dataclasses.replace` takes twice as long."""
        made, own = object.__new__(type(self)), self.__dict__
        made.__dict__.update({name: own[name] for name in self.__dataclass_fields__}, **fields)
        return made

    def with_dynamic_unknown(self) -> Self:
        """The operand as its type describes it: extents that are -1 there are unknown."""
        return self.changed()


def _content(key: object) -> object:
    """A key in which unknown numbers are equal."""
    if isinstance(key, tuple):
        return tuple(map(_content, cast("tuple[object, ...]", key)))
    return Unknown if is_unknown(key) else key


def _open(numbers: Iterable[int], dynamic: Iterable[bool]) -> tuple[Any, ...]:
    return tuple(Unknown() if is_open else number for number, is_open in zip(numbers, dynamic, strict=True))


MOST_TOKENS = 65536
_TOKENS: dict[tuple[Any, ...], object] = {}


@dataclass(frozen=True, eq=False)
class TileSpec(_Spec):
    """A tile: `Tile<Loc, DType, Rows, Cols, BLayout, ValidRow, ValidCol, SLayout, SFractalSize>` (CO-API-01)."""

    loc: TileType
    rows: int
    cols: int
    valid_rows: int
    valid_cols: int
    blayout: BLayout = BLayout.RowMajor
    slayout: SLayout = SLayout.NoneBox
    fractal: int = 512
    pad: Pad = Pad.Null
    addr: int | None = None
    space: int = 0
    """The memory that the address belongs to: targets in use at the same time have separate memories."""
    dynamic: tuple[bool, bool] = (False, False)
    """Whether ValidRow and ValidCol are -1 in the type (CO-DYN-01)."""
    pitch: int = 0
    """Of a slice whose rows (ColMajor: columns) have gaps between them: elements from one to the next; else 0."""
    skew: int | None = None
    """Of a slice: bytes from the last multiple of 32 to its start, counted from its tile's; None for a whole tile."""

    @property
    def is_slice(self) -> bool:
        """Whether this is a part of a tile."""
        return self.skew is not None

    @property
    def stride(self) -> int:
        """Elements from one row to the next (ColMajor: one column to the next) of a tile without boxes."""
        return self.pitch or (self.cols if self.blayout is BLayout.RowMajor else self.rows)

    def cut(self, rows: int, cols: int, start: int) -> TileSpec:
        """A slice of `rows` x `cols` that begins `start` elements after the tile. The whole slice is valid."""
        by_row = self.blayout is BLayout.RowMajor
        length, count = (cols, rows) if by_row else (rows, cols)
        has_gaps = self.slayout is SLayout.NoneBox and count > 1 and length != self.stride
        nbytes = start * self.dtype.size
        return self.changed(
            rows=rows,
            cols=cols,
            valid_rows=rows,
            valid_cols=cols,
            pad=Pad.Null,
            addr=None if self.addr is None or is_unknown(start) else self.addr + nbytes,
            dynamic=(False, False),
            pitch=self.stride if has_gaps else 0,
            skew=((0 if self.skew is None else self.skew) + nbytes) % BLOCK,
        )

    def reshaped(self, rows: int, cols: int) -> TileSpec:
        """A plain tile of other extents in the same memory, its rows padded to whole blocks."""
        unit = max(1, BLOCK // self.dtype.size)
        return TileSpec(self.dtype, self.loc, rows, -(-cols // unit) * unit, rows, cols)

    @property
    def unsliced(self) -> TileSpec:
        """The whole tile with the same layout: gaps between rows become padding."""
        rows, cols = (self.rows, self.stride) if self.blayout is BLayout.RowMajor else (self.stride, self.cols)
        return self.changed(rows=rows, cols=cols, pitch=0, skew=None) if self.pitch else self.changed(skew=None)

    @property
    def valid(self) -> tuple[int, int]:
        """The extents of the valid region."""
        return self.valid_rows, self.valid_cols

    @cached_property
    def format(self) -> str:
        """`nd`, `dn`, `nz`, `zn`, `zz` or `nn`."""
        return FORMS[self.blayout, self.slayout]

    @property
    def is_nz(self) -> bool:
        """Whether this is the NZ form: ColMajor boxes, RowMajor inside, 512-byte fractals (CO-LAY-02)."""
        return self.format == "nz" and self.fractal == 512

    @cached_property
    def box(self) -> tuple[int, int]:
        """Rows and columns of one box; (1, 1) where there are none. A single row of the left matrix lies in one piece
        (textract_common.hpp:459, a2a3/TMatmul.hpp:47)."""
        if self.slayout is SLayout.NoneBox:
            return 1, 1
        if self.fractal == 1024:
            return FRACTAL_ROWS, FRACTAL_ROWS
        across = max(1, self.fractal // FRACTAL_ROWS // self.dtype.size)
        rows = 1 if self.loc is TileType.Left and self.rows == 1 else FRACTAL_ROWS
        return (rows, across) if self.slayout is SLayout.RowMajor else (across, rows)

    @cached_property
    def layout(self) -> Layout:
        """Where element (i, j) lies in the tile's storage."""
        if self.slayout is SLayout.NoneBox:
            by_row = self.blayout is BLayout.RowMajor
            return Layout.plain(self.stride, 1) if by_row else Layout.plain(1, self.stride)
        return Layout.boxed(
            self.rows,
            self.cols,
            self.box,
            boxes_by_row=self.blayout is BLayout.RowMajor,
            inner_by_row=self.slayout is SLayout.RowMajor,
        )

    @property
    def burst_bytes(self) -> int:
        """Bytes of the contiguous padded dimension: a row of a RowMajor tile, a column of a ColMajor one."""
        return self.stride * self.dtype.size

    @cached_property
    def elements(self) -> int:
        """Elements of storage, padding included."""
        return max(self.rows * self.cols, self.layout.span(self.rows, self.cols))

    @property
    def nbytes(self) -> int:
        """Bytes of storage, padding included."""
        return self.elements * self.dtype.size

    def with_dynamic_unknown(self) -> TileSpec:
        rows, cols = _open(self.valid, self.dynamic)
        return self.changed(valid_rows=rows, valid_cols=cols)

    def __str__(self) -> str:
        text = f"{self.loc.text} {self.dtype} {self.rows}x{self.cols}"
        if not certain(lambda: self.valid == (self.rows, self.cols)):
            text += f" valid {show_extents(self.valid)}"
        return (
            text
            + ("" if self.format == "nd" else f" {self.format}")
            + (f" fractal {self.fractal}" if self.fractal != 512 else "")
            + (f" at a pitch of {self.pitch}" if self.pitch else "")
        )


AXES: dict[GlobalLayout, Axes] = {
    GlobalLayout.ND: ((0, 1, 2, 3), (4,)),
    GlobalLayout.DN: ((3,), (0, 1, 2, 4)),
    GlobalLayout.NZ: ((2, 3), (0, 1, 4)),  # MG-NZ-08
    GlobalLayout.MX_A_ZZ: ((0, 1, 3), (2, 4)),
    GlobalLayout.MX_A_ND: ((0, 1, 2), (3, 4)),
    GlobalLayout.MX_A_DN: ((0, 1, 3), (2, 4)),
    GlobalLayout.MX_B_NN: ((2, 4), (0, 1, 3)),
    GlobalLayout.MX_B_ND: ((2, 4), (0, 1, 3)),
    GlobalLayout.MX_B_DN: ((3, 4), (0, 1, 2)),
}
"""The dims that are rows, and those that are columns, of a tensor in each layout."""
PLAIN_LAYOUTS = (GlobalLayout.ND, GlobalLayout.DN)


@dataclass(frozen=True, eq=False)
class TensorSpec(_Spec):
    """A tensor in global memory: five dims, five element strides, a layout (CO-SHAPE-01)."""

    shape: tuple[int, int, int, int, int]
    stride: tuple[int, int, int, int, int]
    layout_kind: GlobalLayout = GlobalLayout.ND
    dynamic: tuple[bool, ...] = (False,) * 10
    """Whether each of the five dims, then each of the five strides, is -1 in the type (CO-DYN-02)."""

    @cached_property
    def layout(self) -> Layout:
        """Where logical element (i, j) lies, counted from the tensor's first element."""
        return Layout.of_dims(self._dims, self.stride, AXES[self.layout_kind])

    @cached_property
    def extents(self) -> tuple[int, int]:
        """Logical rows and columns under the tensor's layout (MG-NZ-03 for NZ)."""
        rows, cols = AXES[self.layout_kind]
        return prod(self._dims[k] for k in rows), prod(self._dims[k] for k in cols)

    @property
    def _dims(self) -> tuple[int, ...]:
        """The dims; those inside a fractal have its size."""
        return (*self.shape[:3], FRACTAL_ROWS, self.dtype.c0) if self.layout_kind is GlobalLayout.NZ else self.shape

    def reshaped(self, rows: int, cols: int) -> TensorSpec:
        """A packed tensor of other extents."""
        shape = (1, 1, 1, rows, cols)
        return TensorSpec(self.dtype, shape, cast("tuple[int, int, int, int, int]", packed(shape)))

    @cached_property
    def elements(self) -> int:
        """The product of the five dims."""
        return prod(self.shape)

    @cached_property
    def span(self) -> int:
        """Elements from the first to the last one, gaps included."""
        if not self.elements:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))

    @property
    def even_rows(self) -> bool:
        """Whether dims 0..3 step evenly by Stride[3], so that one row number addresses them all (A-57)."""
        return all(
            self.shape[k] == 1 or self.stride[k] == self.stride[3] * prod(self.shape[k + 1 : 4]) for k in range(3)
        )

    @property
    def is_packed(self) -> bool:
        """Whether the elements fill their span, in order."""
        return all(n == 1 or s == d for n, s, d in zip(self.shape, self.stride, packed(self.shape), strict=True))

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements may share an address (a stride shorter than the extent inside it)."""
        reach = 1
        if not self.elements:
            return False
        for stride, extent in sorted((s, n) for s, n in zip(self.stride, self.shape, strict=True) if n > 1):
            if stride < reach:
                return True
            reach += stride * (extent - 1)
        return False

    def with_dynamic_unknown(self) -> TensorSpec:
        numbers = _open((*self.shape, *self.stride), self.dynamic)
        return self.changed(shape=numbers[:5], stride=numbers[5:])

    def __str__(self) -> str:
        text = f"gm {self.dtype} Shape<{', '.join(map(str, self.shape))}> {self.layout_kind.name}"
        return text if certain(lambda: self.is_packed) else f"{text} Stride<{', '.join(map(str, self.stride))}>"


class WideBlocks(TensorSpec):
    """A tensor in NZ layout whose fractals have the size that its last dims say."""

    @classmethod
    def of(cls, tensor: TensorSpec) -> WideBlocks:
        """The same tensor with such fractals."""
        return cls(tensor.dtype, tensor.shape, tensor.stride, tensor.layout_kind, tensor.dynamic)

    @property
    def _dims(self) -> tuple[int, ...]:
        return self.shape


@dataclass(frozen=True, eq=False)
class ScalarSpec(_Spec):
    """A number in an element type, given at the call."""

    value: int | None = None
    """Known before the run only if addresses depend on it."""
    elements = 1

    def __str__(self) -> str:
        return f"scalar {self.dtype}" if self.value is None else str(self.value)


OperandSpec = TileSpec | TensorSpec | ScalarSpec


def _span(tile: TileSpec) -> int:
    """The bytes from the start of a tile to the end of its valid region."""
    if tile.format not in ("nd", "dn"):
        return tile.nbytes
    rows, cols = tile.valid if tile.format == "nd" else tile.valid[::-1]
    return ((rows - 1) * tile.stride + cols) * tile.dtype.size if rows and cols else 0


def meet(one: TileSpec, at: int, other: TileSpec, there: int) -> bool:
    """Whether the valid regions of two tiles that begin at these byte addresses may share bytes."""
    if at + _span(one) <= there or there + _span(other) <= at:
        return False
    plain = one.format == other.format and one.format in ("nd", "dn") and one.dtype.size == other.dtype.size
    if not plain or (there - at) % one.dtype.size:
        return True
    (rows, cols), (other_rows, other_cols) = (
        spec.valid if spec.format == "nd" else spec.valid[::-1] for spec in (one, other)
    )
    pitches = {spec.stride for spec, count in ((one, rows), (other, other_rows)) if count > 1}
    if len(pitches) > 1:
        return True
    pitch = pitches.pop() if pitches else one.nbytes + other.nbytes
    down, across = divmod((there - at) // one.dtype.size, pitch)
    same_row = across < cols and -other_rows < down < rows
    next_row = pitch - across < other_cols and -other_rows < down + 1 < rows
    return same_row or next_row


def show_extents(extents: tuple[int, ...]) -> str:
    """`[16, 64]`, for messages."""
    return f"[{', '.join(map(str, extents))}]"


def row_of(kind: DType, count: int) -> TileSpec:
    """A Vec tile of one row."""
    return TileSpec(kind, TileType.Vec, 1, count, 1, count)
