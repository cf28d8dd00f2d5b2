"""Arrays of other libraries on a GPU: their descriptions, new ones, and copies that their library makes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false
# CuPy and torch have no types here.

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from operator import index
from typing import Any

import ml_dtypes
import numpy as np

from ptokit.engine.gpu import TORCH, DeviceArray, import_cupy
from ptokit.isa.layout import packed

DEVICES = (2, 3)
"""Kinds of memory that a GPU reaches, as CUDA numbers them: its own, and managed memory."""
DLPACK_DEVICES = (2, 13)
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
    if found.type not in DEVICES:
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


def empty(like: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
    """A new array of the same library, GPU and element type, in C order."""
    strides = _packed_strides(shape, like.dtype.itemsize)
    if like.order == TORCH:
        made = like.owner.new_empty(shape)
        return DeviceArray(made, made.data_ptr(), shape, strides, like.dtype, like.gpu, True, TORCH)
    made = import_cupy().empty(shape, like.dtype)
    return DeviceArray(made, made.data.ptr, shape, strides, like.dtype, like.gpu)


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
