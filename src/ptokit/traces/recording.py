"""`pto.record_indices`: the indices of the calls of a block, within limits."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from operator import index as whole
from typing import Any

from ptokit.brief import brief
from ptokit.traces.file import LARGEST, MOST_CALLS, MOST_KINDS, IndexTrace
from ptokit.traces.recorder import IndexRecorder

LIMIT = 10_000_000
"""Indices that are recorded by default."""
MOST_BYTES = 256 << 20
"""Bytes of indices that are recorded by default."""
WIDEST = 8
"""Bytes of an index, at most."""


@contextmanager
def record_indices(
    *,
    limit: int = LIMIT,
    most_bytes: int = MOST_BYTES,
    sample: int | None = None,
    seed: int = 0,
    source: str = "record_indices",
) -> Generator[IndexTrace, None, None]:
    """Record the indices of `pto.gather`, `pto.scatter` and of torch's embedding lookups in a block.

    The trace has its calls when the block ends: the first ones, or up to `sample` calls that are drawn from all, each
    as likely as the others, by a generator that starts with `seed`. It has up to `limit` indices and `most_bytes` bytes
    of them; `trace.cut` is the limit that was reached. Calls and results are as without it.
    """
    from ptokit.traces.hooks import observed

    recorder = IndexRecorder(*limits_of(limit, most_bytes, sample, seed))
    trace = recorder.trace
    trace.source = source
    try:
        with observed(recorder):
            yield trace
    finally:
        recorder.finish()


def limits_of(
    limit: int = LIMIT, most_bytes: int = MOST_BYTES, sample: int | None = None, seed: int = 0
) -> tuple[IndexTrace, dict[str, int]]:
    """A trace without calls, and its limits; raises ValueError for numbers out of range."""
    drawn = 0 if sample is None else _number(sample, 1, "sample")
    limits = {
        "calls": min(drawn or MOST_CALLS, MOST_CALLS),
        "kinds": MOST_KINDS,
        "indices": _number(limit, 1, "limit"),
        "bytes": _number(most_bytes, WIDEST, "most_bytes"),
    }
    return IndexTrace(sample=drawn, seed=_number(seed, 0, "seed")), limits


def _number(given: Any, least: int, name: str) -> int:
    try:
        number = whole(given)
    except TypeError:
        number = least - 1
    if not least <= number < LARGEST or isinstance(given, bool):
        raise ValueError(f"{name} takes a whole number from {least} to {LARGEST - 1:,}; found {brief(given)}")
    return number
