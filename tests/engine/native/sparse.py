"""Arrays of gigabytes, of which a test touches few pages."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def zeros(count: int, kind: Any) -> np.ndarray[Any, Any]:
    """Zeros in small pages: a huge page is filled whole when a byte of it is touched."""
    memory = mmap.mmap(-1, count * np.dtype(kind).itemsize)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, kind)
