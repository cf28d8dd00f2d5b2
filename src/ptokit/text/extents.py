"""Valid extents of tiles along the ways that lead through a program."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace

from ptokit.isa.operand import TileSpec
from ptokit.isa.unknown import is_unknown, unknown
from ptokit.program.expr import Expr, apply, subtract
from ptokit.program.ir import Window

ScopedExtents = ChainMap[str, "tuple[Expr, Expr] | None"]
"""The valid extents of each tile, a map for each body around; None where they depend on the way that led here."""


def merge_extents(valid: ScopedExtents, inner: Sequence[ScopedExtents], *, is_certain: bool) -> None:
    """What is known after bodies. `is_certain` says that one of them has run; else perhaps none has."""
    for tile in {tile for body in inner for tile in body.maps[0] if tile in valid}:
        ways = [body[tile] for body in inner] + ([] if is_certain else [valid[tile]])
        valid[tile] = ways[0] if all(way == ways[0] for way in ways) else None


def part_type(spec: TileSpec, window: Window) -> TileSpec:
    """The type of a slice, as readers of text work it out: an extent of which only the run knows is open."""
    rows, cols = (_part(*each) for each in zip(window.size, spec.valid, spec.dynamic, window.start, strict=True))
    part, dynamic = spec.cut(*window.size, unknown()), (is_unknown(rows), is_unknown(cols))
    return replace(part, pad=spec.pad, valid_rows=rows, valid_cols=cols, dynamic=dynamic)


def _part(size: int, extent: int, is_open: bool, start: Expr) -> int:
    if is_open or is_unknown(extent) or not isinstance(start, int):
        return unknown()
    return min(size, extent - start % extent) if extent else 0


def part_extents(spec: TileSpec, valid: tuple[Expr, Expr] | None, window: Window) -> tuple[Expr, Expr] | None:
    """The valid extents of a slice where its type leaves them open: what of it is valid in the tile."""
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
