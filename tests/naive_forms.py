"""The forms of `pto.gather` and `pto.scatter` as plain loops: index arithmetic, ONNX shapes, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Cell = tuple[int, ...]


def inside(value: int, capacity: int, mode: str) -> int | None:
    """Where an index goes under a mode; None for nowhere. Raises IndexError for one that is refused."""
    if mode == "negative" and -capacity <= value < 0:
        return value + capacity
    if 0 <= value < capacity:
        return value
    if mode == "wrap":
        return value % capacity
    if mode == "clip":
        return 0 if value < 0 else capacity - 1
    if mode in ("fill", "drop"):
        return None
    raise IndexError(value)


def by_axis(table: Array, indices: Array, axis: int, mode: str) -> Iterator[tuple[Cell, Cell | None]]:
    """Positions of the result, and the cells of the table that they name, in C order of the result."""
    lead, n = table.shape[:axis], indices.ndim
    for at in np.ndindex(*lead, *indices.shape, *table.shape[axis + 1 :]):
        found = inside(int(indices[at[axis : axis + n]]), table.shape[axis], mode)
        yield at, None if found is None else (*at[:axis], found, *at[axis + n :])


def along(table: Array, indices: Array, axis: int, mode: str) -> Iterator[tuple[Cell, Cell | None]]:
    """ONNX GatherElements and ScatterElements."""
    for at in np.ndindex(*indices.shape):
        found = inside(int(indices[at]), table.shape[axis], mode)
        yield at, None if found is None else (*at[:axis], found, *at[axis + 1 :])


def nd(table: Array, indices: Array, batch: int, mode: str) -> Iterator[tuple[Cell, Cell | None]]:
    """ONNX GatherND and ScatterND."""
    lanes, depth = indices.shape[:-1], indices.shape[-1]
    for at in np.ndindex(*lanes, *table.shape[batch + depth :]):
        lane = at[: len(lanes)]
        found = [inside(int(indices[(*lane, k)]), table.shape[batch + k], mode) for k in range(depth)]
        yield at, None if None in found else (*at[:batch], *found, *at[len(lanes) :])  # type: ignore[misc]


def gathered(table: Array, shape: Cell, pairs: Iterator[tuple[Cell, Cell | None]]) -> Array:
    """The result of a gather."""
    result = np.zeros(shape, table.dtype)
    for at, cell in pairs:
        if cell is not None:
            result[at] = table[cell]
    return result


def scattered(
    table: Array, src: Array, pairs: Iterator[tuple[Cell, Cell | None]], reduce: str = "none", include_self: bool = True
) -> Array:
    """The table afterwards: values in C order, each step rounded to its type."""
    cells, counts = table.copy(), dict[Cell, int]()
    step = STEPS[reduce]
    with np.errstate(all="ignore"):
        for at, cell in pairs:
            if cell is None:
                continue
            if cell not in counts:
                counts[cell] = int(include_self)
                if not include_self:
                    cells[cell] = start(reduce, cells.dtype)
            counts[cell] += 1
            cells[cell] = canonical(np.asarray(step(cells[cell], src[at])).astype(cells.dtype))
        for cell, count in counts.items() if reduce == "mean" else ():
            cells[cell] = canonical(mean(cells[cell], count, cells.dtype))
    return cells


def start(reduce: str, dtype: np.dtype[Any]) -> Any:
    """The value of a cell whose own does not count."""
    if reduce in ("add", "mean", "none"):
        return 0
    if reduce == "mul":
        return 1
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if reduce == "max" else np.iinfo(dtype).max
    return np.nan


def mean(total: Any, count: int, dtype: np.dtype[Any]) -> Any:
    """One division: floats narrower than float32 in float32, integers rounded down."""
    if dtype.kind in "iu":
        return np.array(int(total) // count).astype(dtype)
    wide: Any = np.float32 if dtype.itemsize < 4 else dtype
    return (np.asarray(total).astype(wide) / np.asarray(count).astype(wide)).astype(dtype)


def canonical(value: Any) -> Any:
    """The one NaN of arithmetic for every NaN."""
    if np.asarray(value).dtype.kind in "iub":
        return value
    return np.array(np.nan).astype(value.dtype) if np.isnan(np.asarray(value).astype(np.float64)) else value


def _pick(better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The greatest or least; a NaN yields to a number."""
    return lambda old, new: new if np.isnan(float(old)) else old if np.isnan(float(new)) else better(old, new)


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda _, new: new,
    "add": np.add,
    "mean": np.add,
    "mul": np.multiply,
    "max": _pick(max),
    "min": _pick(min),
}
