"""The type of a result that a text does not say (A-26), from the types of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptokit.isa.elementwise import ELEMENTWISE
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.text.tree import Tensor

SAME_TYPE = frozenset(instruction.name for instruction in ELEMENTWISE)
"""Instructions whose destination has the type of their first source."""


def result_type(name: str, sources: Sequence[object], attributes: Mapping[str, Any]) -> TileSpec | None:
    """The tile that an instruction gives, where its sources tell: `sources` are their types, in the order of text."""
    tiles = [kind for kind in sources if isinstance(kind, TileSpec)]
    if name in SAME_TYPE and tiles:
        return tiles[0]
    if name == "mgather" and len(sources) >= 2 and isinstance(sources[0], Tensor) and tiles:
        return _gathered(sources[0], tiles[0], attributes)
    return None


def _gathered(table: Tensor, index: TileSpec, attributes: Mapping[str, Any]) -> TileSpec | None:
    """The tile that a gather fills: a row for each index, or an element."""
    rows, cols = index.rows, index.cols
    if attributes.get("coalesce", "row") == "row":
        width = table.dims[-1] if table.dims else None
        if width is None or 1 not in (rows, cols) or any(index.dynamic):
            return None
        rows, cols = max(rows, cols), width
        valid = max(index.valid), width
        return TileSpec(table.dtype, TileType.Vec, rows, cols, *valid)
    return TileSpec(table.dtype, TileType.Vec, rows, cols, *index.valid, dynamic=index.dynamic)
