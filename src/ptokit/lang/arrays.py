"""Other libraries' arrays as NumPy arrays over the same memory, or as descriptions of GPU memory; never a copy. Exact
casts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy as np

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.isa.dtype import DType
from ptokit.lang import gpu

Array = np.ndarray[Any, np.dtype[Any]]
Result = TypeVar("Result")

_TORCH_BITS = {
    "bfloat16": ("int16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
}
"""torch types that NumPy does not know: the torch type to view them as, and ml_dtypes' own."""

ADVICE = "pass a NumPy array, a CuPy array, a torch tensor, or an object with __array_interface__ or __dlpack__"
UNRECORDED = "use ptokit.torch.gather or .scatter, or call this under torch.no_grad(), or pass tensor.detach()"
"""Advice for tensors that autograd needs."""
PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def _is_masked(source: object) -> bool:
    """Whether this is a masked array. NumPy loads their module on first use, and that is slow."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(source, masked.MaskedArray)


def is_foreign(source: object) -> bool:
    """Whether an object exports its memory but is not a plain NumPy array."""
    if _is_masked(source):
        return True
    return not isinstance(source, np.ndarray | np.generic) and (
        gpu.is_torch(source) or any(hasattr(source, name) for name in PROTOCOLS)
    )


def as_array(source: object) -> Array:
    """The NumPy array over the memory of an array-like object; a `DeviceArray` if that is on a GPU."""
    if type(source) is np.ndarray:
        return source
    if gpu.is_cupy(source):
        return cast("Array", gpu.of_cupy(source))
    if on_gpu(source):
        return cast("Array", source)
    if _is_masked(source):
        raise TypeError("a masked array has no plain memory; pass its .data or .filled()")
    if isinstance(source, np.ndarray):
        return np.asarray(cast("Array", source))
    kind = type(source).__name__
    try:
        if gpu.is_torch(source):
            return _from_torch(source)
        if hasattr(source, "__cuda_array_interface__"):
            return cast("Array", gpu.of_interface(source))
        if hasattr(source, "__array_interface__"):
            return np.asarray(source)
        if hasattr(source, "__dlpack__"):
            return _from_dlpack(source)
    except _Refusal as refusal:
        raise TypeError(str(refusal)) from None
    except Exception as problem:  # whatever a foreign exporter raises
        raise TypeError(f"cannot share the memory of this {kind}: {problem}; {ADVICE}") from None
    raise TypeError(f"cannot share the memory of a {kind}; {ADVICE}")


def gpu_of(arrays: Mapping[str, object]) -> int | None:
    """The GPU on which all of these arrays are; None if all are on the host."""
    places = {name: getattr(array, "gpu", None) for name, array in arrays.items()}
    if len({*places.values()}) > 1:
        listed = ", ".join(f"{name} on {'the host' if at is None else f'GPU {at}'}" for name, at in places.items())
        advice = "pass all of them on one GPU (cupy.asarray(a), a.cuda()), or on the host (a.get(), a.cpu())"
        raise TypeError(f"the arrays are in different memories, {listed}; {advice}")
    return next(iter(places.values()), None)


def host_array(source: object, what: str) -> Array:
    """An array on the host, or a refusal."""
    found = as_array(source)
    if on_gpu(found):
        found.refuse(what)
    return found


class _Refusal(Exception):
    """A refusal whose message is complete."""


def tracked(source: object) -> object:
    """The object itself if its library counts writes into it, as torch does for autograd; else None."""
    return source if gpu.is_torch(source) else None


def writing(written: Iterable[object], *, in_part: bool = False) -> AbstractContextManager[None] | None:
    """A block that writes the memory of these objects: their libraries are notified when it ends; None if none is.

    torch tensors get a higher version, so that autograd refuses to use what it saved of them before. A block that
    raises has written nothing, unless it was interrupted; with `in_part` it may have written some of it.
    """
    torch = sys.modules.get("torch")
    tensors = [source for source in written if isinstance(source, torch.Tensor)] if torch is not None else ()
    return _TensorWrites(tensors, in_part) if tensors else None


def within(
    outer: AbstractContextManager[object] | None,
    inner: AbstractContextManager[object] | None,
    function: Callable[..., Result],
    *args: object,
) -> Result:
    """Call a function within two blocks; either may be missing."""
    if outer is None:
        if inner is None:
            return function(*args)
        with inner:
            return function(*args)
    with outer, inner or NOTHING:
        return function(*args)


class _TensorWrites(AbstractContextManager[None]):
    def __init__(self, tensors: Sequence[Any], in_part: bool) -> None:
        self._tensors, self._in_part = tensors, in_part

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None or self._in_part or not issubclass(kind, Exception):
            for tensor in self._tensors:
                notify(tensor)


def notify(tensor: Any) -> None:
    """Tell torch that a tensor was written."""
    if not tensor.is_inference():  # these have no version
        sys.modules["torch"].autograd.graph.increment_version(tensor)


NOTHING = nullcontext()


def _from_dlpack(source: Any) -> Array:
    kind = source.__dlpack_device__()[0]
    if kind in gpu.DLPACK_MEMORY_TYPES:
        return cast("Array", gpu.of_dlpack(source))
    if kind != 1:
        raise _Refusal(f"this {type(source).__name__} is not in host memory; copy it to the host first")
    return np.from_dlpack(source)


def _from_torch(tensor: Any) -> Array:
    is_cuda = tensor.is_cuda
    if not (is_cuda or tensor.is_cpu):
        raise _Refusal(f"this tensor is on {tensor.device}; call .cpu() first")
    if gpu.is_recorded(tensor):
        raise _Refusal(f"this tensor requires grad, and autograd cannot see this call; {UNRECORDED}")
    if tensor.dtype.is_complex and tensor.is_conj():
        raise _Refusal("this tensor is conjugated lazily; pass tensor.resolve_conj()")
    if tensor.is_neg():
        raise _Refusal("this tensor is negated lazily; pass tensor.resolve_neg()")
    if is_cuda:
        return cast("Array", gpu.of_tensor(tensor))
    if not tensor.is_sparse and not tensor.data_ptr() and tensor.numel():  # NumPy would make up new memory
        raise _Refusal("this tensor has no memory: its storage was freed")
    if tensor.requires_grad:
        tensor = tensor.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _TORCH_BITS:
        return tensor.numpy()
    bits, numpy_type = _TORCH_BITS[name]
    return tensor.view(getattr(sys.modules["torch"], bits)).numpy().view(numpy_type)


def exact_cast(values: object, dtype: DType, what: str) -> Array:
    """`values` as bits of `dtype`; raises where a value cannot be represented."""
    array = _plain(values, what)
    if array.dtype == dtype.numpy:
        return np.ascontiguousarray(array).view(dtype.bits).reshape(array.shape)
    if dtype.family in ("raw", "other"):
        raise TypeError(f"{what} takes {dtype.numpy} elements, got {array.dtype}")
    if array.dtype.hasobject or array.dtype.kind in "SUMmc":
        raise TypeError(f"values must be real numbers of 64 bits or less, got an array of {array.dtype}")
    with np.errstate(all="ignore"):
        cast = _cast(array, dtype)
        lost = ~_same(array, cast)
    if lost.any():
        at = np.unravel_index(int(np.argmax(lost)), lost.shape) if lost.ndim else ()
        place = f" at {list(map(int, at))}" if at else ""
        raise ValueError(
            f"{brief(array[at])}{place} is not representable in {dtype}; round or convert the values first"
        )
    return cast.view(dtype.bits)


def _plain(values: object, what: str) -> Array:
    if is_foreign(values):
        return host_array(values, f"the data for {what}")
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError("the rows of the values differ in length; pass a rectangular array") from None


def _cast(array: Array, dtype: DType) -> Array:
    if dtype.is_integer and not _is_integer(array):
        wide = array.astype(np.float64)
        return np.where(np.isfinite(wide) & (np.abs(wide) < 2.0**63), wide, 0).astype(np.int64).astype(dtype.numpy)
    return array.astype(dtype.numpy)


def _same(array: Array, cast: Array) -> Array:
    """Where the cast kept the value; a NaN stays a NaN."""
    if _is_integer(array) and _is_integer(cast):
        back = cast.astype(array.dtype) == array
        return back & ((cast < 0) == (array < 0))
    widest = np.longdouble if array.dtype.itemsize > 8 else np.float64
    wide, kept = array.astype(widest), cast.astype(widest)
    exact = (wide == kept) | (np.isnan(wide) & np.isnan(kept))
    if array.dtype.kind in "iu":  # a large integer may be equal only because float64 has rounded it
        limits = np.iinfo(array.dtype)
        inside = (kept >= float(limits.min)) & (kept < float(limits.max) + 1)
        exact &= inside & (np.where(inside, kept, 0).astype(array.dtype) == array)
    return exact


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iub"
