"""The operators as plain loops over numbers, with the gradients that `docs/torch.md` defines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

GATHER_POLICIES = ("undefined", "clamp", "wrap", "zero")
SCATTER_POLICIES = ("undefined", "clamp", "wrap", "skip")
ATOMICS = ("none", "add", "max", "min")


def entry(index: int, capacity: int, oob: str, kind: torch.dtype) -> int | None:
    """The entry that an index names; None for one that is outside."""
    index = index if kind is torch.int64 else index % (1 << 32)
    if oob == "clamp":
        return min(max(index, 0), capacity - 1)
    if oob == "wrap":
        return index % capacity
    return index if 0 <= index < capacity else None


def entries(indices: Tensor, capacity: int, oob: str) -> list[int | None]:
    return [entry(int(each), capacity, oob, indices.dtype) for each in indices.to(torch.int64).reshape(-1)]


def rows_of(table: Tensor, coalesce: str) -> Tensor:
    """The entries of a table, one in each row."""
    return table.reshape(table.shape[0], -1) if coalesce == "row" else table.reshape(-1, 1)


def gather(table: Tensor, indices: Tensor, coalesce: str, oob: str) -> Tensor:
    rows = rows_of(table, coalesce)
    shape = [*indices.shape, *(table.shape[1:] if coalesce == "row" else ())]
    found = [torch.zeros_like(rows[0]) if at is None else rows[at] for at in entries(indices, len(rows), oob)]
    return torch.stack(found).reshape(shape)


def better(new: float, old: float, atomic: str) -> bool:
    """Whether a value replaces another one: a NaN yields to a number, and +0 is above -0."""
    if math.isnan(new) or math.isnan(old):
        return math.isnan(old) and not math.isnan(new)
    key = [(value, math.copysign(1, value)) for value in (new, old)]
    return key[0] > key[1] if atomic == "max" else key[0] < key[1]


def scatter(
    table: Tensor, src: Tensor, indices: Tensor, grad: Tensor, coalesce: str, oob: str, atomic: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the gradients of the table and of `src`."""
    rows, out = rows_of(table, coalesce), rows_of(table.clone(), coalesce).clone()
    data = src.reshape(-1, rows.shape[1])
    owners: list[list[Any]] = [[[None] for _ in row] for row in rows]
    for lane, at in enumerate(entries(indices, len(rows), oob)):
        for j in range(rows.shape[1]) if at is not None else ():
            new, old = data[lane, j], out[at, j]
            if atomic == "add":
                out[at, j] = old + new
                owners[at][j].append(lane)
            elif atomic == "none" or better(float(new), float(old), atomic):
                out[at, j] = new
                owners[at][j] = [lane]
    of_table, of_src = torch.zeros_like(rows), torch.zeros_like(data)
    above = rows_of(grad, coalesce)
    for at, cells in enumerate(owners):
        for j, found in enumerate(cells):
            for lane in found:
                (of_table[at] if lane is None else of_src[lane])[j] += above[at, j]
    return out.reshape(table.shape), of_table.reshape(table.shape), of_src.reshape(src.shape)


def gradients(
    table: Tensor, src: Tensor, above: Tensor, pairs: Iterable[tuple[Any, Any]], reduce: str, include_self: bool
) -> tuple[Tensor, Tensor]:
    """The gradients of a scatter, from the cell that each position of `src` names; None for those outside."""
    of_table, of_src = above.clone(), torch.zeros_like(src)
    lanes: dict[Any, list[Any]] = {}
    for at, cell in pairs:
        if cell is not None:
            lanes.setdefault(cell, []).append(at)
    for cell, found in lanes.items():
        factors = [table[cell]] * (include_self and reduce != "none") + [src[at] for at in found]
        shares = [above[cell] * share for share in shares_of(factors, reduce)]
        of_table[cell] = shares.pop(0) if len(shares) > len(found) else 0
        for at, share in zip(found, shares, strict=True):
            of_src[at] = share
    return of_table, of_src


def shares_of(values: list[Tensor], reduce: str) -> list[Any]:
    """The derivative of a reduction by each of its values."""
    if reduce == "add":
        return [1] * len(values)
    if reduce == "mean":
        return [1 / torch.tensor(len(values), dtype=values[0].dtype)] * len(values)
    if reduce == "mul":
        return [math.prod(values[:k] + values[k + 1 :], start=torch.ones_like(values[0])) for k in range(len(values))]
    best = len(values) - 1 if reduce == "none" else 0
    for k, value in enumerate(values) if reduce != "none" else ():
        best = k if better(float(value), float(values[best]), reduce) else best
    return [int(k == best) for k in range(len(values))]


def bag(
    rows: Tensor,
    lanes: Iterable[int],
    bounds: list[int],
    mode: str,
    weights: Tensor | None = None,
    padding: int | None = None,
) -> Tensor:
    """Bags of rows of float32, element after element."""
    lanes, out = list(lanes), []
    for first, last in pairwise(bounds):
        taken = [k for k in range(first, last) if lanes[k] != padding]
        total = torch.zeros_like(rows[0])
        for nth, k in enumerate(taken):
            row = rows[lanes[k]] if weights is None else rows[lanes[k]] * weights[k]
            if mode in ("sum", "mean"):
                total = total + row
            else:
                total = row.clone() if not nth else (torch.maximum if mode == "max" else torch.minimum)(total, row)
        out.append(total / max(1, len(taken)) if mode == "mean" else total)
    return torch.stack(out)


def bits(tensor: Tensor) -> list[Any]:
    """What two tensors have in common if they are the same, to the bit."""
    return [tensor.dtype, tensor.shape, tensor.detach().cpu().reshape(-1).view(torch.uint8).tolist()]
