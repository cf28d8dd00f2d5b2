"""Valid extents of tiles along the control flow of a program."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

from ptokit.isa.operand import TileSpec
from ptokit.isa.unknown import is_unknown, unknown
from ptokit.program.expr import Expr, apply, subtract
from ptokit.program.ir import Window

ScopedExtents = ChainMap[str, "tuple[Expr, Expr] | None"]
"""The valid extents of each tile, a map for each enclosing body; None if they depend on the path taken."""


def merge_extents(valid: ScopedExtents, inner: Sequence[ScopedExtents], *, is_certain: bool) -> None:
    """Merge the extents after bodies. `is_certain`: one of them has run; otherwise perhaps none has."""
    for tile in {tile for body in inner for tile in body.maps[0] if tile in valid}:
        paths = [body[tile] for body in inner] + ([] if is_certain else [valid[tile]])
        valid[tile] = paths[0] if all(path == paths[0] for path in paths) else None


def part_type(spec: TileSpec, window: Window) -> TileSpec:
    """The type of a slice, as readers of text infer it: an extent known only at run time is open."""
    rows, cols = (_part(*axis) for axis in zip(window.size, spec.valid, spec.dynamic, window.start, strict=True))
    part, dynamic = spec.cut(*window.size, unknown()), (is_unknown(rows), is_unknown(cols))
    return replace(part, pad=spec.pad, valid_rows=rows, valid_cols=cols, dynamic=dynamic)


def _part(size: int, extent: int, is_open: bool, start: Expr) -> int:
    if is_open or is_unknown(extent) or not isinstance(start, int):
        return unknown()
    return min(size, extent - start % extent) if extent else 0


def part_extents(spec: TileSpec, valid: tuple[Expr, Expr] | None, window: Window) -> tuple[Expr, Expr] | None:
    """The valid extents of a slice if its type leaves them open: its part of the tile's valid region."""
    known = part_type(spec, window).valid
    if valid is None and is_unknown(*known):
        return None
    whole = valid or spec.valid
    rows, cols = (
        own if not is_unknown(own) else size if extent == most else apply("min", size, subtract(extent, start))
        for own, size, extent, most, start in zip(
            known, window.size, whole, (spec.rows, spec.cols), window.start, strict=True
        )
    )
    return rows, cols
