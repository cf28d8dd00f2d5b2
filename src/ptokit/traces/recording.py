"""`pto.record_indices`: the indices of the calls of a block, up to a limit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from operator import index as whole
from typing import Any

from ptokit.traces.recorder import IndexRecorder
from ptokit.traces.trace import IndexTrace

LIMIT = 10_000_000
"""Indices that are recorded by default."""
MOST_BYTES = 256 << 20
"""Bytes of indices that are recorded by default."""


@contextmanager
def record_indices(
    *, limit: int = LIMIT, most_bytes: int = MOST_BYTES, every: int = 1, source: str = "record_indices"
) -> Generator[IndexTrace, None, None]:
    """Record the indices of `pto.gather`, `pto.scatter` and of torch's embedding lookups in a block.

    Recorded are up to `limit` indices and `most_bytes` bytes, of one call in `every`, in order; `trace.cut` says
    which limit was reached. Calls and results are as without it.
    """
    from ptokit.traces.hooks import observed

    trace = IndexTrace(source=source, every=_at_least(every, 1, "every"))
    recorder = IndexRecorder(trace, _at_least(limit, 0, "limit"), _at_least(most_bytes, 0, "most_bytes"))
    with observed(recorder):
        yield trace


def _at_least(given: Any, least: int, name: str) -> int:
    try:
        number = whole(given)
    except TypeError:
        number = least - 1
    if number < least or isinstance(given, bool):
        raise ValueError(f"{name} takes a whole number from {least} up; found {given!r}")
    return number
