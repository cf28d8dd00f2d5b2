"""Tensors in global memory, five-dimensional views of the user's arrays; the arguments of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import DeviceArray, on_gpu
from ptokit.engine.storage import Storage, run_of
from ptokit.finding import Finding, OutOfBoundsError
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.layout import packed
from ptokit.isa.operand import PLAIN_LAYOUTS, Dyn, TensorSpec
from ptokit.isa.policy import GlobalLayout, PtoEnum, choose
from ptokit.lang.arrays import as_array, gpu_of, is_foreign, tracked
from ptokit.lang.context import current
from ptokit.lang.faults import public, refuse, trim, user_place
from ptokit.lang.refused_operators import Valueless, no_array
from ptokit.lang.tile import extent
from ptokit.program.expr import ExtentVar, Var

Array = np.ndarray[Any, np.dtype[Any]]
MAX_EXTENT = 1 << 62


class GlobalTensor(Valueless):
    """A table in global memory, over an array's own memory: nothing is copied.

    A 2-D array becomes `Shape<1, 1, 1, R, C>`, a 1-D one `Shape<1, 1, 1, 1, N>`. With `shape=` (and `stride=`, in
    elements) a contiguous array is read as any tensor that fits it; `dtype=` reinterprets elements of equal width.
    """

    __slots__ = ("_as_it_is", "array", "source", "spec", "storage")
    __array__ = no_array
    __iter__ = None  # subscripts are slices, so there is nothing to iterate over

    def __init__(
        self,
        array: object,
        *,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        layout: str | GlobalLayout = "nd",
        dtype: object = None,
    ) -> None:
        try:
            if current().tracer is not None:
                raise refuse("KN-08", "a kernel's arrays are its arguments", "pass the array, or a GlobalTensor of it")
            self.array = own = as_array(array)
            self.source = tracked(array)
            """The object that counts writes into its memory, if its library counts them."""
            self._as_it_is = shape is None and stride is None
            if self._as_it_is:
                self.spec = _own_spec(own.dtype, own.shape, own.strides, layout, dtype)
            else:
                self.spec = _reshaped(own, shape, stride, layout, dtype)
            if not own.flags.aligned:
                raise ValueError("the array's memory is not aligned to its elements; pass a copy: array.copy()")
            kind = self.spec.dtype
            run = run_of(own, kind.bits, self.spec.span)
            self.storage = Storage(run, kind, own)
        except Exception as problem:
            trim(problem)
            raise

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
        """ND, DN, NZ, or that of scales (`mx_a_zz` and others)."""
        return self.spec.layout_kind

    @property
    def is_plain(self) -> bool:
        """Whether this is the array itself, in ND or DN layout, so that it can be sliced like the array."""
        own, layout = self.array, self.spec.layout_kind
        if layout not in PLAIN_LAYOUTS or not isinstance(own, np.ndarray | DeviceArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            return False
        return self._as_it_is or self.spec == _own_spec(own.dtype, own.shape, own.strides, layout, self.spec.dtype)

    def number(self, position: Sequence[int]) -> int:
        """One element of a plain tensor of whole numbers."""
        self.check_host("pto.load_scalar")
        steps = self.spec.stride[5 - len(position) :]
        offset = sum(i * step for i, step in zip(position, steps, strict=True))
        return int(self.storage.bits[offset : offset + 1].view(self.spec.dtype.numpy)[0])

    def check_host(self, what: str) -> None:
        """Refuse a tensor on a GPU; `what` would read or write it on the host."""
        if on_gpu(self.array):
            self.array.refuse(f"{what}: an array of {self.spec}")

    @public
    def __getitem__(self, key: object) -> GlobalTensor:
        """A block over the same memory: `t[a:b]` takes rows (or elements), `t[a:b, c:d]` a block.

        A slice that leaves the array is an error, not a shorter block.
        """
        if not self.is_plain:
            raise TypeError("only a tensor of its array's own shape can be sliced; slice the array instead")
        parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        if len(parts) > self.array.ndim:
            raise IndexError(f"{len(parts)} slices for a tensor of {self.array.ndim} dims")
        ranges = tuple(_range(part, n) for part, n in zip(parts, self.shape, strict=False))
        return self.with_array(self.array[ranges], layout=self.layout, dtype=self.dtype)

    def with_array(self, part: Array, *, layout: str | GlobalLayout = "nd", dtype: object = None) -> GlobalTensor:
        """A tensor over an array that lies in the memory of this one."""
        made = GlobalTensor(part, layout=layout, dtype=dtype)
        made.source = self.source
        return made

    def __repr__(self) -> str:
        return f"<GlobalTensor {self.spec}>"

    def _repr_html_(self) -> str:
        """The tensor in a notebook."""
        from ptokit.lang.display import tensor_html

        return tensor_html(self.spec, self.storage, self.shape, is_here=not on_gpu(self.array))


def _range(part: object, n: int) -> slice:
    if not isinstance(part, slice):
        raise TypeError(f"a tensor is sliced as t[start:stop], got {brief(part)}")
    start, stop, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step not in (None, 1):
        raise TypeError(f"a tensor is sliced as t[start:stop], got a step of {brief(step)}")
    first = 0 if start is None else extent(start, "the start of a slice", "CO-SHAPE-01")
    last = n if stop is None else extent(stop, "the end of a slice", "CO-SHAPE-01")
    if not first <= last <= n:
        message = f"the slice {first}:{last} does not lie within 0:{n}"
        fix = "a slice that leaves the array is an error, not a shorter block"
        raise OutOfBoundsError([Finding("error", "KN-10", message, fix=fix, where=user_place())])
    return slice(first, last)


@lru_cache(maxsize=4096)
def _own_spec(
    element: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...], layout: object, requested: object
) -> TensorSpec:
    """The description of an array with its own layout; `strides` are in bytes."""
    kind = _element_type(element, requested)
    _check_dims(shape)
    for step, n in zip(strides, shape, strict=True):
        if n > 1 and (step < 0 or step % element.itemsize):
            raise ValueError(
                f"a stride of {step} bytes is negative or not whole elements; pass np.ascontiguousarray(array)"
            )
    steps = [max(0, step // element.itemsize) for step in strides] if 0 not in shape else None
    return _fitting(_spec(kind, shape, steps, choose(GlobalLayout, layout, "layout")))


def _reshaped(
    array: Array, shape: Sequence[object] | None, stride: Sequence[object] | None, layout: object, requested: object
) -> TensorSpec:
    """The description of a contiguous array read as another tensor."""
    kind = _element_type(array.dtype, requested)
    _check_dims(array.shape)
    layout_ = choose(GlobalLayout, layout, "layout")
    if not array.flags.c_contiguous:
        raise ValueError("shape= and stride= need a contiguous array; pass np.ascontiguousarray(array)")
    spec = _spec(kind, array.shape if shape is None else shape, stride, layout_)
    if spec.span > array.size:
        raise ValueError(f"{spec} spans {spec.span} elements; the array has {array.size}")
    return _fitting(spec)


def _fitting(spec: TensorSpec) -> TensorSpec:
    if spec.elements > MAX_EXTENT:
        raise ValueError(f"{spec} is too large")
    return spec


def _element_type(element: np.dtype[Any], requested: object) -> DType:
    own = dtype(element)
    kind = own if requested is None else dtype(requested)
    if kind.size != own.size:
        raise TypeError(f"dtype={kind} has {kind.size} bytes, the array's {own} has {own.size}; widths must be equal")
    return kind


def _check_dims(shape: tuple[int, ...]) -> None:
    if not 1 <= len(shape) <= 5:
        raise ValueError(f"a global tensor has one to five dims, the array has {len(shape)}")


def _five(values: Sequence[object], name: str) -> list[int]:
    try:
        items = list(values)
    except TypeError:
        raise TypeError(f"{name} takes up to five integers, got {brief(values)}") from None
    if not 1 <= len(items) <= 5:
        raise ValueError(f"{name} takes one to five integers, got {len(items)}")
    numbers: list[int] = []
    for item in items:
        number = extent(item, name, "CO-SHAPE-01")
        if number > MAX_EXTENT:
            raise ValueError(f"{name} of {number} is too large")
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


# --- arguments of a launch


Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a launch, by kind and name."""

    tensors: dict[str, GlobalTensor]
    integers: dict[str, int]
    constants: dict[str, object]
    floats: dict[str, Storage] = field(default_factory=dict)

    @property
    def signature(self) -> Signature:
        """Everything that the traced program depends on."""
        tensors = [(tensor.spec, tensor.shape) for tensor in self.tensors.values()]
        constants = map(repr, self.constants.values())  # 1, 1.0 and True are equal, 0.0 and -0.0 too
        return (*self.tensors, *tensors, *constants, *self.shared().items())

    @cached_property
    def lengths(self) -> dict[Var, int]:
        """The first extents of plain arrays: no stride depends on them."""
        return {
            first_extent(name): tensor.shape[0]
            for name, tensor in self.tensors.items()
            if tensor.is_plain and tensor.layout is GlobalLayout.ND
        }

    @property
    def family(self) -> Signature:
        """The signature without these lengths."""
        tensors = [
            (tensor.dtype, tensor.shape[1:], tensor.stride5[5 - len(tensor.shape) :])
            if first_extent(name) in self.lengths
            else (tensor.spec, tensor.shape)
            for name, tensor in self.tensors.items()
        ]  # fmt: skip
        return (*self.tensors, *tensors, *map(repr, self.constants.values()), *self.shared().items())

    @property
    def numbers(self) -> dict[Var, int]:
        """The integers, as variables of the program."""
        return {Var(name): value for name, value in self.integers.items()}

    @cached_property
    def gpu(self) -> int | None:
        """The GPU that has the arrays; None for the host."""
        return gpu_of({f"`{name}`": tensor.array for name, tensor in self.tensors.items()})

    def shared(self) -> dict[str, str]:
        """Arguments that share memory with an earlier one, and the first that does, directly or through others."""
        roots = [tensor.storage.root for tensor in self.tensors.values()]
        if len({id(root) for root in roots if root is not None}) == len(roots):  # the common case
            return {}
        owner: dict[str, str] = {}
        for name, tensor in self.tensors.items():
            overlapped = {owner[other] for other in owner if tensor.storage.overlaps(self.tensors[other].storage)}
            first = next((other for other in owner if other in overlapped), name)
            owner[name] = first
            if len(overlapped) > 1:
                owner = {other: first if own in overlapped else own for other, own in owner.items()}
        return {name: own for name, own in owner.items() if name != own}


@lru_cache(maxsize=1024)
def first_extent(name: str) -> ExtentVar:
    """The first extent of an array argument, as a variable of the program."""
    return ExtentVar(f"{name}.shape[0]")


def is_integer(value: object) -> bool:
    """Whether a value is an integer, and not a bool or an array."""
    if type(value) is int:
        return True
    return not getattr(value, "shape", ()) and hasattr(value, "__index__") and not isinstance(value, bool)


PLAIN = (int, float, str, bool, DType, PtoEnum, type(None))


def constant(name: str, value: object) -> Any:
    """A constant as a plain Python value, or a refusal."""
    if isinstance(value, np.generic) and isinstance(cast("Any", value).item(), PLAIN):  # np.float64 is a float
        return cast("Any", value).item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple):
        return tuple(constant(name, part) for part in cast("tuple[object, ...]", value))
    if isinstance(value, np.dtype):
        return dtype(cast("object", value))
    message = f"the constant `{name}` must be a number, a string, an element type or a tuple of these"
    fix = "pass arrays as arguments without pto.const"
    raise refuse("KN-17", f"{message}; found {type(cast('object', value)).__name__}", fix)


def array_argument(name: str, value: object) -> GlobalTensor:
    """An array argument, over its own memory, or a refusal."""
    if isinstance(value, np.ndarray):
        return _shared(name, cast("object", value))
    if isinstance(value, bool | float | str | list | type(None)):
        message = f"`{name}` takes an array or a whole number; found {brief(cast('object', value))}"
        raise refuse("KN-17", message, f"pass an array, or make it a constant: `{name}: pto.const`", name)
    if not (hasattr(value, "__array_interface__") or is_foreign(value)):
        raise refuse("KN-17", f"`{name}` takes an array; found {type(value).__name__}", "pass a NumPy array", name)
    return _shared(name, value)


def _shared(name: str, array: object) -> GlobalTensor:
    try:
        return GlobalTensor(array)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"`{name}`: {problem}") from None
