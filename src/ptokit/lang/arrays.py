"""Other libraries' arrays as NumPy arrays over the same memory; never a copy."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_TORCH_BITS = {
    "bfloat16": ("int16", "bfloat16"),
    "float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "float8_e5m2": ("uint8", "float8_e5m2"),
}
"""torch types that NumPy does not know: the torch type to view them as, and ml_dtypes' name."""


def as_array(source: object) -> Array:
    """The NumPy array over the memory of an array-like object."""
    if isinstance(source, np.ma.MaskedArray):
        raise TypeError("a masked array has no plain memory; pass its .data or .filled()")
    if isinstance(source, np.ndarray):
        return np.asarray(cast("Array", source))
    if type(source).__module__.partition(".")[0] == "torch":
        return _from_torch(source)
    if hasattr(source, "__cuda_array_interface__"):
        raise TypeError(f"this {type(source).__name__} lives on a GPU; copy it to the host first")
    if hasattr(source, "__array_interface__"):
        return np.asarray(source)
    if hasattr(source, "__dlpack__"):
        return _from_dlpack(source)
    raise TypeError(
        f"cannot share the memory of a {type(source).__name__}; pass a NumPy array, a torch CPU tensor, "
        "or an object with __array_interface__ or __dlpack__"
    )


def _from_dlpack(source: Any) -> Array:
    try:
        device = source.__dlpack_device__()[0]
        if device != 1:
            raise TypeError(f"this {type(source).__name__} is not in host memory; copy it to the host first")
        return np.from_dlpack(source)
    except (BufferError, RuntimeError, AttributeError) as problem:
        raise TypeError(f"cannot share the memory of this {type(source).__name__}: {problem}") from None


def _from_torch(tensor: Any) -> Array:
    if tensor.device.type != "cpu":
        raise TypeError(f"this tensor lives on {tensor.device}; call .cpu() first")
    if tensor.requires_grad:
        raise TypeError("this tensor requires grad; pass tensor.detach()")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _TORCH_BITS:
        return _from_dlpack(tensor)
    import ml_dtypes

    bits, numpy_name = _TORCH_BITS[name]
    return tensor.view(getattr(sys.modules["torch"], bits)).numpy().view(getattr(ml_dtypes, numpy_name))
