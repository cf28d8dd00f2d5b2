"""Valid extents of tiles along the ways that lead through a program."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence

from ptokit.program.expr import Expr

Extents = ChainMap[str, "tuple[Expr, Expr] | None"]
"""The valid extents of each tile, a map for each body around; None where they depend on the way that led here."""


def merge_extents(valid: Extents, inner: Sequence[Extents], *, is_certain: bool) -> None:
    """What is known after bodies. `is_certain` says that one of them has run; else perhaps none has."""
    for tile in {tile for body in inner for tile in body.maps[0] if tile in valid}:
        ways = [body[tile] for body in inner] + ([] if is_certain else [valid[tile]])
        valid[tile] = ways[0] if all(way == ways[0] for way in ways) else None
