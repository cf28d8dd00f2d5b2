"""An array in the memory of a GPU, as data: where it is and how it lies. Nothing here reads or writes an element."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from math import prod
from typing import Any, NoReturn, Self, TypeGuard, cast

import numpy as np

COPIED = "(.get() in CuPy, .cpu() in torch)"
"""How an array is copied to the host, for messages."""
TORCH = "torch"
"""The stream that is torch's current one."""


class DeviceArray:
    """The description of an array on a GPU, under the names that NumPy uses."""

    __slots__ = ("address", "aligned", "dtype", "gpu", "num", "order", "owner", "shape", "strides", "writeable")

    def __init__(
        self,
        owner: Any,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        gpu: int,
        writeable: bool = True,
        order: int | str | None = None,
    ) -> None:
        self.owner, self.address, self.gpu = owner, address, gpu
        """The user's own object, which keeps the memory; the first element; the number of the GPU."""
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.order = order
        """The stream in whose order the memory is used; None if it is CuPy's current one, `TORCH` if it is torch's."""
        self.writeable, self.aligned = writeable, not address % dtype.alignment
        self.num = ~(gpu << 2 | self.aligned << 1 | writeable)
        """A number for the GPU and the flags, below zero: no NumPy array has it."""

    @property
    def flags(self) -> Self:
        """The flags: `c_contiguous`, `writeable`, `aligned`, `num`."""
        return self

    @property
    def stream(self) -> int | None:
        """The stream in whose order the memory is used, now; None if it is CuPy's current one."""
        return self.order if self.order is None else streams(self.order)(self.gpu)

    @property
    def c_contiguous(self) -> bool:
        step = self.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent > 1 and stride != step and self.size:
                return False
            step *= extent
        return True

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def bounds(self) -> tuple[int, int]:
        """The addresses of the first byte, and behind the last one."""
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(0, each) for each in reach), sum(max(0, each) for each in reach)
        return (self.address + low, self.address + high + self.itemsize) if self.size else (self.address, self.address)

    def __len__(self) -> int:
        return self.shape[0]

    def run(self, dtype: np.dtype[Any], count: int) -> DeviceArray:
        """Consecutive elements from the first on, as `dtype`."""
        return self._over(self.address, (count,), (dtype.itemsize,), dtype)

    def broadcast_to(self, shape: tuple[int, ...]) -> DeviceArray:
        """The array repeated to a shape, as `np.broadcast_to` does it; raises ValueError if it does not fit."""
        more = len(shape) - self.ndim
        if more < 0 or any(mine not in (1, n) for mine, n in zip(self.shape, shape[more:], strict=True)):
            raise ValueError(f"{self.shape} does not broadcast to {shape}")
        steps = [step if mine == n else 0 for step, mine, n in zip(self.strides, self.shape, shape[more:], strict=True)]
        return self._over(self.address, shape, (*(0,) * more, *steps), self.dtype)

    def __getitem__(self, key: Any) -> DeviceArray:
        """A block; slices have a start, a stop and no step."""
        parts = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        if not all(type(part) is slice and part.step in (None, 1) for part in parts):
            self.refuse()
        bounds = [part.indices(extent) for part, extent in zip(parts, self.shape, strict=False)]
        first = sum(start * stride for (start, _, _), stride in zip(bounds, self.strides, strict=False))
        shape = (*(max(0, stop - start) for start, stop, _ in bounds), *self.shape[len(bounds) :])
        return self._over(self.address + first, shape, self.strides, self.dtype)

    def _over(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> DeviceArray:
        return DeviceArray(self.owner, address, shape, strides, dtype, self.gpu, self.writeable, self.order)

    def refuse(self, what: str = "") -> NoReturn:
        """Refuse an access by the host."""
        advice = f'copy it to the host first {COPIED}, or launch a kernel with engine="cuda"'
        what = what or f"this array of {self.size} {self.dtype} elements"
        raise TypeError(f"{what} is in the memory of GPU {self.gpu}; {advice}")

    def __array__(self, *_: Any, **_options: Any) -> NoReturn:
        self.refuse()

    def view(self, *_: Any) -> NoReturn:
        """Engines of the host view bits as numbers."""
        self.refuse()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.refuse()

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype} {self.shape} on GPU {self.gpu}>"


def streams(order: int | str) -> Callable[[int], int]:
    """The function that says which stream of a GPU an order means: the current one of a library, or always the same."""
    if isinstance(order, int):
        return lambda _: order
    torch = sys.modules[order]
    quick = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return quick or (lambda gpu: torch.cuda.current_stream(gpu).cuda_stream)  # this makes an object, in 2 us


def import_cupy() -> Any:
    """CuPy. An import statement takes longer."""
    return sys.modules.get("cupy") or import_module("cupy")


def on_gpu(array: object) -> TypeGuard[DeviceArray]:
    """Whether an array is in the memory of a GPU."""
    return type(array) is DeviceArray
