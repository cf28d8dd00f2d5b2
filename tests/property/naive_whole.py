"""The meaning of `pto.gather` and `pto.scatter` as plain loops; independent of ptokit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tests.property import naive

ENGINES = ["reference", "auto"]
"""The engines that every test of whole arrays runs on."""

Array = np.ndarray[Any, np.dtype[Any]]


class Outside(Exception):
    """The first index, in C order, that the caller's promise does not hold for."""

    def __init__(self, position: tuple[int, ...], value: int, capacity: int, count: int) -> None:
        super().__init__(position, value, capacity, count)
        self.position, self.value, self.capacity, self.count = position, value, capacity, count


@dataclass
class Cells:
    """The logical content of an array: bits of its elements in C order."""

    shape: tuple[int, ...]
    bits: list[int]

    @classmethod
    def of(cls, array: Array) -> Cells:
        packed = np.array(array, order="C", copy=True)
        return cls(array.shape, packed.view(f"u{array.itemsize}").reshape(-1).tolist())


def places(table: Cells, indices: Array, mode: str, oob: str) -> tuple[list[list[int] | None], tuple[int, ...]]:
    """For every index in C order: the numbers of the elements that it selects, or None; and the shape of an entry."""
    entry = table.shape[1:] if mode == "row" else ()
    width = prod(entry)
    capacity = table.shape[0] if mode == "row" else prod(table.shape)
    dtype = indices.dtype.name
    named: list[list[int] | None] = []
    bad: list[tuple[tuple[int, ...], int]] = []
    for position in product(*map(range, indices.shape)):
        value = int(indices[position])
        taken = naive.taken(value % (1 << (8 * naive.SIZE[dtype])), dtype)
        if oob == "undefined" and not 0 <= taken < capacity:
            bad.append((position, value))
            continue
        at = taken if oob == "undefined" else naive.remap(taken, capacity, oob)
        named.append(None if at is None else [at * width + k for k in range(width)])
    if bad:
        raise Outside(*bad[0], capacity, len(bad))
    return named, entry


def gather(table: Array, indices: Array, mode: str, oob: str) -> Cells:
    """The bits of the result."""
    cells = Cells.of(table)
    named, entry = places(cells, indices, mode, oob)
    bits = [cells.bits[k] if at is not None else 0 for at in named for k in (at or range(prod(entry)))]
    return Cells(indices.shape + entry, bits)


def scatter(
    table: Array, src: Array, indices: Array, mode: str, oob: str, dtype: str, atomic: str, wide: bool = False
) -> Cells:
    """The bits of the table afterwards."""
    cells = Cells.of(table)
    named, entry = places(cells, indices, mode, oob)
    sources = iter(Cells.of(np.broadcast_to(src, indices.shape + entry)).bits)
    if wide:
        return Cells(cells.shape, summed(cells.bits, named, list(sources), prod(entry), dtype))
    for at in named:
        for k in at if at is not None else range(prod(entry)):
            source = next(sources)
            if at is not None:
                cells.bits[k] = naive.combine(cells.bits[k], source, dtype, atomic)
    return cells


def summed(
    cells: list[int], named: Sequence[list[int] | None], sources: list[int], width: int, dtype: str
) -> list[int]:
    """Sums in float32, rounded once; cells without an index keep their bits."""
    kind, unsigned = np.dtype(naive.NUMPY[dtype]), f"u{naive.SIZE[dtype]}"

    def value(bits: int) -> np.float32:
        return np.array([bits], unsigned).view(kind).astype(np.float32)[0]

    totals: dict[int, np.float32] = {}
    with np.errstate(all="ignore"):
        for lane, at in enumerate(named):
            for j, k in enumerate(at or ()):
                totals[k] = totals.get(k, value(cells[k])) + value(sources[lane * width + j])
        after = list(cells)
        for k, total in totals.items():
            rounded = np.array([total], np.float32).astype(kind)
            is_nan = bool(np.isnan(rounded.astype(np.float32))[0])
            after[k] = naive.QUIET_NAN[dtype] if is_nan else int(rounded.view(unsigned)[0])
    return after
