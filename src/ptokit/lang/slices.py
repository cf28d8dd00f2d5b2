"""Slices of tiles: the rows and columns that `tile[a:b, c:d]` selects, and whether the layout allows it."""

from __future__ import annotations

from typing import NoReturn, cast

from ptokit.brief import brief
from ptokit.isa.operand import TileSpec
from ptokit.lang.expr import expression, pinned
from ptokit.lang.where import refuse
from ptokit.program.bounds import AXES, layout_problem
from ptokit.program.expr import Expr, subtract
from ptokit.program.ir import Window

Extents = tuple[Expr, Expr]


def cut(name: str, key: object, spec: TileSpec, valid: Extents) -> tuple[Window, Extents]:
    """The slice of a tile that a subscript names, and its valid extents."""
    parts = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
    if len(parts) > 2:
        _refuse(name, f"{len(parts)} subscripts for a tile", "a tile has rows and columns: tile[a:b, c:d]")
    ranges = [
        _range(name, axis, parts[axis] if axis < len(parts) else slice(None), spec, valid[axis]) for axis in (0, 1)
    ]
    (row, rows, valid_rows), (col, cols, valid_cols) = ranges
    window = Window((row, col), (rows, cols))
    if message := layout_problem(spec, window):
        _refuse(name, message, "slice there, or copy what you need: pto.textract", "SL-03")
    return window, (valid_rows, valid_cols)


def _refuse(name: str, message: str, fix: str, rule: str = "SL-01") -> NoReturn:
    raise refuse(rule, f"{message}; found in a slice of {name}", fix, name)


def _range(name: str, axis: int, part: object, spec: TileSpec, valid: Expr) -> tuple[Expr, int, Expr]:
    """The start, the allocated and the valid extent in one dim."""
    if not isinstance(part, slice):
        _refuse(name, f"a tile is sliced as tile[a:b, c:d], and {brief(part)} is no slice", "a row is tile[i : i + 1]")
    first, last, step = cast("tuple[object, object, object]", (part.start, part.stop, part.step))  # pyright: ignore[reportUnknownMemberType]
    if step is not None and not (isinstance(step, int) and step == 1):
        _refuse(name, f"slices of tiles have no step; found {brief(step)}", "leave the step out")
    allocated = (spec.rows, spec.cols)[axis]
    if first is None and last is None:
        return 0, allocated, valid
    start = 0 if first is None else expression(first, "the start of a slice")
    stop = valid if last is None else expression(last, "the end of a slice")
    length = subtract(*pinned(stop, start))
    limit = valid if isinstance(valid, int) else allocated
    known = [number for number in (start, stop) if isinstance(number, int)]
    is_empty = isinstance(length, int) and length <= 0
    if is_empty or any(not 0 <= number <= limit for number in known) or (isinstance(length, int) and length > limit):
        fault = "is empty" if is_empty else f"does not lie within 0:{limit}, the valid {AXES[axis]}"
        message = f"the slice {start}:{stop} {fault}"
        _refuse(name, message, "write both ends; they count from 0 and lie within the valid region")
    if isinstance(length, int):
        return start, length, length
    if not isinstance(start, int):
        message = f"of {start}:{stop}, neither the start nor the length is a constant"
        _refuse(name, message, "tile[i : i + 8] has a constant length; set .valid of the slice for fewer")
    return start, allocated - start, length
