"""Bounded caches."""

from __future__ import annotations

import os
import threading
from typing import Any

MOST_KEPT = 4096
"""The default size of a cache."""
_changing = threading.RLock()  # a signal handler may come back here, or fork
if hasattr(os, "register_at_fork"):  # a child would wait for ever for what another thread holds while it forks
    os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_changing.release)


def remember(known: dict[Any, Any], key: Any, value: Any, most: int = MOST_KEPT) -> Any:
    """Store a value in a cache; of a full one, the entry is dropped that was stored or recalled first."""
    dropped: list[Any] = []
    """Which end after the lock: taking machine code out of memory may have to wait for LLVM."""
    with _changing:
        dropped.append(known.pop(key, None))
        while len(known) >= most:
            dropped.append(known.pop(next(iter(known))))
        known[key] = value
    return value


def recall(known: dict[Any, Any], key: Any) -> Any:
    """The value of a key, or None; it is the last that is dropped."""
    value = known.get(key)
    if value is None or len(known) > 1:
        with _changing:  # also for one that is not there while another thread recalls it
            value = known.pop(key, None)
            if value is not None:
                known[key] = value
    return value
