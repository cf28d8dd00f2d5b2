"""Strategies of whole scatters, which tests force."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, c_void_p, cast
from typing import Any

import numpy as np

from ptokit.engine.native import openmp
from ptokit.engine.native.whole import moves, private, strategies
from ptokit.engine.whole import MoveSizes, Whole
from ptokit.isa.move import Combine, Remap

Array = np.ndarray[Any, np.dtype[Any]]
STRATEGIES = (*strategies.STRATEGIES, "runs", "merged")


def _are_distinct(scatter: moves._Code, _sizes: MoveSizes, indices: Array) -> bool:
    """Whether no two lanes have one row."""
    return scatter.indices.remap in (Remap.REFUSE, Remap.SKIP) and len(np.unique(indices)) == len(indices)


OPEN: dict[str, Callable[[moves._Code, MoveSizes, Array], bool]] = {
    "winners": lambda scatter, sizes, _: scatter.rows.combine is Combine.STORE and sizes.capacity < 1 << 32,
    "lanes": _are_distinct,
    "buckets": lambda scatter, sizes, _: sizes.width == 1 and strategies.can_bucket(scatter.rows, sizes.capacity),
    "merged": lambda scatter, *_: private.can_merge(scatter.rows),
}


def scatter_of(whole: Whole) -> moves._Code:
    """The code of a scatter."""
    assert whole.sizes is not None
    return moves.prepare(whole.kind).code(whole.sizes)


def is_open(strategy: str, scatter: moves._Code, sizes: MoveSizes, indices: Array) -> bool:
    """Whether a scatter can be forced to take a strategy."""
    return strategy not in OPEN or OPEN[strategy](scatter, sizes, indices)


@openmp.FORK
def _fork(share: int, job: int, _threads: int, _flags: int) -> None:
    """In place of `GOMP_parallel`: one thread takes all parts, one after the other."""
    CFUNCTYPE(None, c_void_p)(share)(job)


def waiting_threads(_parts: int) -> tuple[int, int]:
    """In place of `openmp.entries`, also without PyTorch."""
    return cast(_fork, c_void_p).value or 0, openmp._share()
