"""What was worked out and may be wanted again."""

from __future__ import annotations

from typing import Any

MOST_KEPT = 4096
"""Values that are kept under different keys, if nothing else is said."""


def remember(known: dict[Any, Any], key: Any, value: Any, most: int = MOST_KEPT) -> Any:
    """Keep a value for the next time; what is kept does not grow without end."""
    if len(known) >= most:
        known.clear()
    known[key] = value
    return value
