"""Policies for indices outside of the table, as tensor code: the results of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

READ_OF = {"undefined": "zero", "skip": "zero", "clamp": "clamp", "wrap": "wrap"}
"""The policy of the gather that reads what a scatter wrote; nothing is checked again."""
WRITTEN_OF = {"undefined": "skip", "zero": "skip", "clamp": "clamp", "wrap": "wrap"}
"""The policy of the scatter that writes where a gather read."""
ROW = "row"
OUTSIDE = -1
"""An index that no table has."""
MOVED = ("clamp", "wrap")
"""Policies that move an index inside; an int32 below 0 is warned of."""
GREATEST = torch.iinfo(torch.int64).max


def capacity_of(shape: Sequence[int], coalesce: str) -> int:
    """How many entries a table has."""
    return shape[0] if coalesce == ROW else prod(shape)


def entry_of(shape: Sequence[int], coalesce: str) -> list[int]:
    """The shape of an entry."""
    return list(shape[1:]) if coalesce == ROW else []


def as_whole(indices: Tensor) -> Tensor:
    """Indices as int64: an int32 is cast to uint32 first; an uint64 beyond int64 is the greatest."""
    whole = indices.to(torch.int64)
    if indices.dtype is torch.uint64:
        return torch.where(whole < 0, GREATEST, whole)
    return whole & 0xFFFFFFFF if indices.dtype is torch.int32 else whole


def quiet(indices: Tensor, oob: str) -> Tensor:
    """Indices for a gradient, which does not warn again of negative ones."""
    return as_whole(indices) if indices.dtype is torch.int32 and oob in MOVED else indices


def resolved(indices: Tensor, capacity: int, oob: str) -> Tensor:
    """The entries that indices name, as int64; `OUTSIDE` for those that name none."""
    if oob == "wrap":
        return _wrapped(indices, capacity)
    found = as_whole(indices)
    if oob == "clamp":
        return found.clamp(0, capacity - 1)
    return torch.where((found >= 0) & (found < capacity), found, OUTSIDE)


def _wrapped(indices: Tensor, capacity: int) -> Tensor:
    """Indices modulo the number of entries."""
    if indices.dtype is not torch.uint64:
        return as_whole(indices).remainder(capacity)
    whole = indices.to(torch.int64)
    found = whole.remainder(capacity)
    return torch.where(whole < 0, (found + (1 << 64) % capacity).remainder(capacity), found)
