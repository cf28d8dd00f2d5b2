"""Tile types in any syntax: the words for their parts, the tile of given parts, and the parts of a tile."""

from __future__ import annotations

from typing import Any

from ptokit.isa.dtype import DType
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Pad, PtoEnum, SLayout, TileType
from ptokit.isa.unknown import is_unknown, unknown

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
