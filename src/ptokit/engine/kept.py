"""Bounded caches."""

from __future__ import annotations

import threading
from typing import Any

MOST_KEPT = 4096
"""The default size of a cache."""
_changing = threading.Lock()


def remember(known: dict[Any, Any], key: Any, value: Any, most: int = MOST_KEPT) -> Any:
    """Store a value in a cache; of a full one, the entry is dropped that was stored or recalled first."""
    with _changing:
        known.pop(key, None)
        while len(known) >= most:
            del known[next(iter(known))]
        known[key] = value
    return value


def recall(known: dict[Any, Any], key: Any) -> Any:
    """The value of a key, or None; it is the last that is dropped."""
    value = known.get(key)
    if value is not None and len(known) > 1:
        with _changing:
            if known.pop(key, None) is not None:
                known[key] = value
    return value
