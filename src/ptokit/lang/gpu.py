"""Arrays of other libraries on a GPU: their descriptions, new ones, and copies that their library makes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# CuPy and torch have no types here.

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from operator import index
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.engine.gpu import TORCH, DeviceArray, import_cupy
from ptokit.isa.layout import packed

CUDA_MEMORY_TYPES = (2, 3)
"""Kinds of memory that a GPU reaches, as CUDA numbers them: its own, and managed memory."""
DLPACK_MEMORY_TYPES = (2, 13)
"""The same in DLPack."""
NEEDS_CUPY = "is on a GPU, which needs CuPy: pip install 'ptokit[cuda]'"


def is_torch(source: object) -> bool:
    """Whether an object is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.Tensor)


def is_cupy(source: object) -> bool:
    """Whether an object is a CuPy array."""
    loaded = sys.modules.get("cupy")
    return loaded is not None and isinstance(source, loaded.ndarray)


def of_cupy(array: Any) -> DeviceArray:
    """A CuPy array."""
    memory = array.data
    return DeviceArray(array, memory.ptr, array.shape, array.strides, array.dtype, memory.device_id)


def of_tensor(tensor: Any) -> DeviceArray:
    """A torch tensor on a GPU."""
    address = tensor.data_ptr()
    dtype, shape, strides = _torch_layout(tensor.dtype, tensor.shape, tensor.stride())
    if not address and 0 not in shape:
        raise TypeError("it has no memory")
    return DeviceArray(tensor, address, shape, strides, dtype, tensor.get_device(), True, TORCH)


@lru_cache(maxsize=1024)
def _torch_layout(
    kind: Any, shape: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...]]:
    """An element type, a shape, and strides in elements, as NumPy has them."""
    dtype = _torch_type(kind)
    return dtype, tuple(shape), tuple(step * dtype.itemsize for step in steps)


@cache
def _torch_type(given: Any) -> np.dtype[Any]:
    name = str(given).removeprefix("torch.")
    try:
        found = np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        found = None
    if found is None or found.itemsize != given.itemsize:
        raise TypeError(f"NumPy and ml_dtypes have no type {name}")
    return found


Signature = tuple[object, ...]
"""All of a description but the address; that only as far as arrays are aligned."""
ALIGNED = 15


def signature(source: Any) -> tuple[int, Signature] | None:
    """The address and the signature of a CuPy array, or of a torch tensor on a GPU; None for other objects, and for
    those that are refused. Reading them takes a third of the time of a description."""
    kind: type[Any] = type(source)
    if kind not in SIGNED:
        found = _sign_cupy if is_cupy(source) else _sign_tensor if is_torch(source) else None
        if found is None:
            return None
        SIGNED[kind] = found
    return SIGNED[kind](source)


def _sign_cupy(array: Any) -> tuple[int, Signature]:
    memory = array.data
    address = memory.ptr
    return address, (array.dtype, array.shape, array.strides, memory.device_id, address & ALIGNED)


def _sign_tensor(tensor: Any) -> tuple[int, Signature] | None:
    return sign_tensor(tensor) if tensor.is_cuda else None


def sign_tensor(tensor: Any) -> tuple[int, Signature] | None:
    """The address and the signature of a torch tensor on a GPU or on the host; None for those that are refused."""
    try:
        dtype, address, number = tensor.dtype, tensor.data_ptr(), tensor.get_device()
    except RuntimeError:  # sparse, or without values
        return None
    if not address or (tensor.requires_grad and is_recorded(tensor)) or tensor.is_neg():
        return None
    if dtype.is_complex and tensor.is_conj():
        return None
    if number < 0 and not tensor.is_cpu:
        return None
    return address, (dtype, tensor.shape, tensor.stride(), number, address & ALIGNED)


def is_recorded(tensor: Any) -> bool:
    """Whether autograd would have to record what happens to a torch tensor."""
    return tensor.requires_grad and sys.modules["torch"].is_grad_enabled()


SIGNED: dict[type[Any], Callable[[Any], tuple[int, Signature] | None]] = {}
"""How the signature of a type is read, for those that `signature` has met."""


def of_interface(source: Any) -> DeviceArray:
    """An object with `__cuda_array_interface__`."""
    found: Mapping[str, Any] = source.__cuda_array_interface__
    if lacking := [key for key in ("data", "shape", "typestr") if key not in found]:
        raise TypeError(f"its __cuda_array_interface__ has no {' and no '.join(lacking)}")
    (address, readonly), shape, dtype = found["data"], tuple(map(index, found["shape"])), np.dtype(found["typestr"])
    if found.get("mask") is not None:
        raise TypeError("it has a mask")
    strides = tuple(map(index, found.get("strides") or _packed_strides(shape, dtype.itemsize)))
    if len(strides) != len(shape) or any(extent < 0 for extent in shape):
        raise TypeError(f"its shape {shape} and strides {strides} make no array")
    gpu = _gpu_at(address) if 0 not in shape else _cupy().cuda.runtime.getDevice()
    stream = found.get("stream")
    return DeviceArray(source, address or 0, shape, strides, dtype, gpu, not readonly, stream)


def of_dlpack(source: Any) -> DeviceArray:
    """An object with `__dlpack__` on a GPU; CuPy keeps it."""
    return of_cupy(_cupy().from_dlpack(source))


def _gpu_at(address: int) -> int:
    found = _cupy().cuda.runtime.pointerGetAttributes(address)
    if found.type not in CUDA_MEMORY_TYPES:
        raise TypeError(f"its address {address:#x} is not in the memory of a GPU")
    return found.device


def _cupy() -> Any:
    try:
        return import_cupy()
    except ImportError:
        raise TypeError("it " + NEEDS_CUPY) from None


# --- Arrays that the library makes ---------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _packed_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(step * itemsize for step in packed(shape))


def new(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, int]:
    """A new array of the library of another, in C order, and its address."""
    if is_torch(like):
        made = new_tensor(like, shape)
        return made, made.data_ptr()
    made = import_cupy().empty(shape, dtype)
    return made, made.data.ptr


def new_tensor(like: Any, shape: Sequence[int] | None = None, dtype: Any = None) -> Any:
    """A new torch tensor like another on a GPU or on the host, in C order, whose elements the caller writes.

    In deterministic mode PyTorch would fill them with NaNs first.
    """
    torch = sys.modules["torch"]
    if not (torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory):
        if shape is None:
            return torch.empty_like(like, memory_format=torch.contiguous_format)
        if dtype is None and shape:
            return like.new_empty(*shape)  # a tuple takes PyTorch half as long again
        return like.new_empty(shape, dtype=dtype)
    extents: Sequence[int] = like.shape if shape is None else shape
    made = like.new_empty(0, dtype=dtype)
    return made.set_(torch.UntypedStorage(prod(extents) * made.itemsize, device=made.device), 0, extents)


def empty(like: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
    """A new array of the same library, GPU and element type, in C order."""
    made, address = new(like.owner, shape, like.dtype)
    strides = _packed_strides(shape, like.dtype.itemsize)
    return DeviceArray(made, address, shape, strides, like.dtype, like.gpu, True, TORCH if is_torch(made) else None)


def upload(array: Any, number: int) -> DeviceArray:
    """A NumPy array as a CuPy array on a GPU."""
    cupy = _cupy()
    with cupy.cuda.Device(number):
        return of_cupy(cupy.asarray(array))


def cupy_array(array: DeviceArray) -> Any:
    """The CuPy array over the memory of an array of any library."""
    return _cupy().asarray(array.owner)


def packed_copy(array: DeviceArray) -> Any:
    """A copy in C order; broadcast dims stay broadcast."""
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)
    if is_torch(array.owner):
        torch = sys.modules["torch"]
        return array.owner[once].clone(memory_format=torch.contiguous_format).expand(array.shape)
    return _cupy().broadcast_to(_cupy().asarray(array.owner)[once].copy(), array.shape)


def assign(array: DeviceArray, values: Any) -> None:
    """Copy an array of the same library, shape and type into this one."""
    if is_torch(array.owner):
        array.owner.copy_(values)
    else:
        _cupy().asarray(array.owner)[...] = values
