"""The smallest transfers of warps, bursts and the scalar pipe."""

from __future__ import annotations

from typing import Any, NamedTuple

LANES = 32
"""Lanes of a warp."""
CHUNK = 32
"""The smallest transfer of a burst, in bytes (A-67)."""


class Grains(NamedTuple):
    """The smallest transfers of a warp and of the scalar pipe, in bytes; cost overrides may change them."""

    segment: int = 128
    line: int = 64


def chunks(nbytes: Any) -> Any:
    """Chunks of a burst of `nbytes`, elementwise for an array."""
    return -(-nbytes // CHUNK)
