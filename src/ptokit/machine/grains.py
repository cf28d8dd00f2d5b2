"""What is moved at the least, and together: by warps, by bursts, by the scalar pipe."""

from __future__ import annotations

from typing import Any, NamedTuple

LANES = 32
"""Lanes of a warp."""
CHUNK = 32
"""Bytes that a burst moves at the least (A-67)."""


class Grains(NamedTuple):
    """Bytes that a warp and the scalar pipe move at the least; the cost model may say others."""

    segment: int = 128
    line: int = 64


def chunks(nbytes: Any) -> Any:
    """Chunks of a burst of so many bytes, or of each of several."""
    return -(-nbytes // CHUNK)
