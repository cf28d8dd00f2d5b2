"""Bounded caches."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

MOST_KEPT = 4096
"""The default size of a cache."""


def remember(known: dict[Any, Any], key: Any, value: Any, most: int = MOST_KEPT) -> Any:
    """Store a value in a cache; a full cache loses its oldest value, unless the value replaces another."""
    if len(known) >= most and key not in known:
        with suppress(StopIteration, RuntimeError):  # another thread was faster
            known.pop(next(iter(known)), None)
    known[key] = value
    return value
