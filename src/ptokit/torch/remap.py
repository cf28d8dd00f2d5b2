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


def capacity_of(shape: Sequence[int], coalesce: str) -> int:
    """How many entries a table has."""
    return shape[0] if coalesce == ROW else prod(shape)


def entry_of(shape: Sequence[int], coalesce: str) -> list[int]:
    """The shape of an entry."""
    return list(shape[1:]) if coalesce == ROW else []


def as_whole(indices: Tensor) -> Tensor:
    """Indices as int64: an int32 is cast to uint32 first."""
    whole = indices.to(torch.int64)
    return whole & 0xFFFFFFFF if indices.dtype is torch.int32 else whole


def resolved(indices: Tensor, capacity: int, oob: str) -> Tensor:
    """The entries that indices name, as int64; `OUTSIDE` for those that name none."""
    found = as_whole(indices)
    if oob == "clamp":
        return found.clamp(0, capacity - 1)
    if oob == "wrap":
        return found.remainder(capacity)
    return torch.where((found >= 0) & (found < capacity), found, OUTSIDE)
