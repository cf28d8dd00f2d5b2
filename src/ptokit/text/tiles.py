"""Tile types in any syntax: words for their parts, the tile of given parts, the parts of a tile, valid extents."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ptokit.isa.dtype import DType
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, PtoEnum, SLayout, TileType
from ptokit.isa.unknown import is_unknown, unknown
from ptokit.program.expr import Expr, apply, subtract
from ptokit.program.ir import Window

Extent = int | None
"""An extent; None if it is known at run time."""

PLACES = tuple(place.text for place in TileType)
FRACTALS = (16, 32, 512, 1024)
PADS = tuple(Pad)
"""Pad values by their numbers in text."""
WORDED: dict[str, type[PtoEnum]] = {"loc": TileType, "blayout": BLayout, "slayout": SLayout, "pad": Pad}
"""Parts that are words."""


def spellings(part: str) -> dict[str, PtoEnum]:
    """The values of a part by their words, in the spelling of text and of C++."""
    return {word: member for member in WORDED[part] for word in (member.text, member.name)}


def tile_spec(dtype: DType, rows: int, cols: int, valid: tuple[Extent, Extent], **layout: Any) -> TileSpec:
    """The tile of some parts; those of its layout may be missing."""
    v_row, v_col = (unknown() if extent is None else extent for extent in valid)
    dynamic = valid[0] is None, valid[1] is None
    return TileSpec(dtype, layout.pop("loc", TileType.Vec), rows, cols, v_row, v_col, **layout, dynamic=dynamic)


def valid_extents(spec: TileSpec) -> tuple[Extent, Extent]:
    """The valid extents as the type of a tile has them."""
    rows, cols = (None if is_unknown(extent) else extent for extent in spec.valid)
    return None if spec.dynamic[0] else rows, None if spec.dynamic[1] else cols


def dims_text(dims: tuple[Extent, ...]) -> str:
    """`4x?`."""
    return "x".join("?" if dim is None else str(dim) for dim in dims)


def shape_text(dims: tuple[Extent, ...], element: str) -> str:
    """`4x?xf32`."""
    return f"{dims_text(dims)}x{element}" if dims else element


def valid_text(whole: tuple[int, int], valid: tuple[Extent, Extent]) -> list[str]:
    """The item `valid=4x?`, if not all of a tile is valid."""
    return [] if valid == whole else [f"valid={dims_text(valid)}"]


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
    valid = part_extent(size, None if is_open or is_unknown(extent) else extent, start)
    return unknown() if valid is None else valid


def part_extent(size: int, extent: Extent, start: Expr | None) -> Extent:
    """How much of a slice is valid, in one direction; None if it is known at run time."""
    if extent is None or not isinstance(start, int):
        return None
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
