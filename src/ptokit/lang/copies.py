"""Copies of the arguments of a launch: they share memory and are aligned as the arrays are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ptokit.lang.arrays import Array, as_array, is_foreign
from ptokit.lang.tensor import GlobalTensor

LINE = 64
"""Bytes to which copies of arrays keep their alignment."""


def with_copies(args: Sequence[object], keywords: Mapping[str, Any]) -> tuple[Sequence[object], Mapping[str, Any]]:
    """Arguments of a launch by position and by name, with copies of their arrays."""
    copies = copied([*args, *keywords.values()])
    return copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True))


def copied(values: Sequence[object]) -> list[object]:
    """Arguments of a launch with copies of their arrays; the copies share memory as the arrays do."""
    arrays = {k: array for k, value in enumerate(values) if (array := array_of(value)) is not None}
    copies = dict(zip(arrays, _copies(list(arrays.values())), strict=True))
    return [
        _over(value, copies[k]) if isinstance(value, GlobalTensor) else copies.get(k, value)
        for k, value in enumerate(values)
    ]


def array_of(value: object) -> Array | None:
    """The array of an argument; None if it has none."""
    if isinstance(value, GlobalTensor):
        return value.array
    return as_array(cast("object", value)) if isinstance(value, np.ndarray) or is_foreign(value) else None


def _copies(arrays: Sequence[Array]) -> list[Array]:
    ends = [np.lib.array_utils.byte_bounds(array) for array in arrays]
    bounds = [(first, max(end, first + 1)) for first, end in ends]  # an empty array has an address, too
    memories = [_memory(first, end) for first, end in _joined(bounds)]
    found: list[Array] = []
    for array, (first, _) in zip(arrays, bounds, strict=True):
        start, memory = next((start, memory) for start, memory in memories if start <= first < start + memory.size)
        begin = array.__array_interface__["data"][0] - start
        copy = np.ndarray(array.shape, array.dtype, memory, begin, array.strides)
        copy[...] = array
        copy.flags.writeable = array.flags.writeable
        found.append(copy)
    return found


def _joined(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of addresses, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(bounds):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def _memory(first: int, end: int) -> tuple[int, Array]:
    """New bytes for a range of addresses, as aligned as it is."""
    memory = np.zeros(end - first + LINE, np.uint8)
    skipped = (first - memory.ctypes.data) % LINE
    return first, memory[skipped : skipped + end - first]


def _over(tensor: GlobalTensor, array: Array) -> GlobalTensor:
    """The same tensor over another array."""
    kind: dict[str, Any] = {"layout": tensor.layout, "dtype": tensor.dtype}
    if tensor.is_plain or not array.flags.c_contiguous:
        return GlobalTensor(array, **kind)
    copy = GlobalTensor(array, shape=tensor.shape5, stride=tensor.stride5, **kind)
    copy.spec = tensor.spec  # with extents that are known at run time
    return copy
