"""Tensors in global memory: five-dimensional views of other people's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptokit.engine.storage import Storage
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import packed
from ptokit.isa.operand import Dyn, TensorSpec
from ptokit.isa.policy import GlobalLayout, choose
from ptokit.lang.arrays import as_array
from ptokit.lang.tile import extent

Array = np.ndarray[Any, np.dtype[Any]]
MAX_EXTENT = 1 << 62


class GlobalTensor:
    """A table in global memory, over an array's own memory: nothing is copied.

    A 2-D array becomes `Shape<1, 1, 1, R, C>`, a 1-D one `Shape<1, 1, 1, 1, N>`. With `shape=` (and `stride=`, in
    elements) a contiguous array is read as any tensor that fits it; `dtype=` reinterprets elements of equal width.
    """

    __slots__ = ("array", "spec", "storage")

    def __init__(
        self,
        array: object,
        *,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        layout: str | GlobalLayout = "nd",
        dtype: object = None,
    ) -> None:
        self.array = as_array(array)
        kind = _element_type(self.array, dtype)
        _check_memory(self.array)
        layout_ = choose(GlobalLayout, layout, "layout")
        own = shape is None and stride is None
        if own and self.array.size:
            stride = [max(0, s // self.array.itemsize) for s in self.array.strides]
        elif not own and not self.array.flags.c_contiguous:
            raise ValueError("shape= and stride= need a contiguous array; pass np.ascontiguousarray(array)")
        self.spec = _spec(kind, self.array.shape if shape is None else shape, stride, layout_)
        if not own and self.spec.span > self.array.size:
            raise ValueError(f"{self.spec} spans {self.spec.span} elements; the array has {self.array.size}")
        if self.spec.elements > MAX_EXTENT:
            raise ValueError(f"{self.spec} has more elements than any memory")
        bits = self.array.view(kind.bits)
        run = as_strided(bits, (self.spec.span,), (kind.size,), writeable=bits.flags.writeable)
        self.storage = Storage(run, kind, self.array)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's own shape."""
        return self.array.shape

    @property
    def shape5(self) -> tuple[int, int, int, int, int]:
        """The five dims of the tensor."""
        return self.spec.shape

    @property
    def stride5(self) -> tuple[int, int, int, int, int]:
        """The five strides of the tensor, in elements."""
        return self.spec.stride

    @property
    def layout(self) -> GlobalLayout:
        """ND, DN or NZ."""
        return self.spec.layout_kind

    def __getitem__(self, key: object) -> GlobalTensor:
        """A block of an ND tensor, over the same memory: `t[a:b]` takes rows (or elements), `t[a:b, c:d]` a block.

        A slice that leaves the array is an error, not a shorter block.
        """
        if self.spec.layout_kind is not GlobalLayout.ND or self.shape5 != (1,) * (5 - self.array.ndim) + self.shape:
            raise TypeError("only a tensor of its array's own shape can be sliced; slice the array instead")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        if len(parts) > self.array.ndim:
            raise IndexError(f"{len(parts)} slices for a tensor of {self.array.ndim} dims")
        ranges = tuple(_range(part, n) for part, n in zip(parts, self.shape, strict=False))
        return GlobalTensor(self.array[ranges], dtype=self.dtype)

    def __repr__(self) -> str:
        return f"<GlobalTensor {self.spec}>"


def _range(part: object, n: int) -> slice:
    if not isinstance(part, slice):
        raise TypeError(f"a tensor is sliced as t[start:stop], got {part!r}")
    start, stop, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step not in (None, 1):
        raise TypeError(f"a tensor is sliced as t[start:stop], got a step of {step!r}")
    first = 0 if start is None else extent(start, "the start of a slice", "CO-SHAPE-01")
    last = n if stop is None else extent(stop, "the end of a slice", "CO-SHAPE-01")
    if not first <= last <= n:
        raise IndexError(f"the slice {first}:{last} does not lie within 0:{n}")
    return slice(first, last)


def _element_type(array: Array, asked: object) -> DType:
    own = dtype(array.dtype)
    kind = own if asked is None else dtype(asked)
    if kind.size != own.size:
        raise TypeError(f"dtype={kind} has {kind.size} bytes, the array's {own} has {own.size}; widths must be equal")
    return kind


def _check_memory(array: Array) -> None:
    if not 1 <= array.ndim <= 5:
        raise ValueError(f"a global tensor has one to five dims, the array has {array.ndim}")
    if array.ctypes.data % array.itemsize:
        raise ValueError("the array's memory is not aligned to its elements; pass a copy: array.copy()")
    for stride, n in zip(array.strides, array.shape, strict=True):
        if n > 1 and (stride < 0 or stride % array.itemsize):
            raise ValueError(
                f"a stride of {stride} bytes is negative or not whole elements; pass np.ascontiguousarray(array)"
            )


def _five(values: Sequence[object], name: str) -> list[int]:
    try:
        items = list(values)
    except TypeError:
        raise TypeError(f"{name} takes up to five integers, got {values!r}") from None
    if not 1 <= len(items) <= 5:
        raise ValueError(f"{name} takes one to five integers, got {len(items)}")
    numbers: list[int] = []
    for item in items:
        number = extent(item, name, "CO-SHAPE-01")
        if number > MAX_EXTENT:
            raise ValueError(f"{name} of {number} is beyond any memory")
        numbers.append(number)
    return numbers


def _spec(kind: DType, shape: Sequence[object], stride: Sequence[object] | None, layout: GlobalLayout) -> TensorSpec:
    dims = _five(shape, "shape")
    ones = [1] * (5 - len(dims))
    full = (*ones, *dims)
    steps = _packed(full, layout) if stride is None else _five(stride, "stride")
    if stride is not None and len(steps) != len(dims) and len(steps) != 5:
        raise ValueError(f"stride has {len(steps)} entries, shape has {len(dims)}")
    while len(steps) < 5:  # a missing leading dim steps over the whole of the next one
        steps = [full[5 - len(steps)] * steps[0], *steps]
    marks = [isinstance(n, Dyn) for n in shape]
    stride_marks = [] if stride is None else [isinstance(s, Dyn) for s in stride]
    dynamic = (*_right(marks), *_right(stride_marks))
    return TensorSpec(kind, full, tuple(steps), layout, dynamic)  # type: ignore[arg-type]


def _packed(shape: Sequence[int], layout: GlobalLayout) -> list[int]:
    if layout is not GlobalLayout.DN:
        return list(packed(shape))
    outer = shape[3] * shape[4]
    return [shape[1] * shape[2] * outer, shape[2] * outer, outer, 1, shape[3]]


def _right(marks: Sequence[bool]) -> tuple[bool, ...]:
    return (*(False,) * (5 - len(marks)), *marks)
