"""The cache of small launches, by the types and values of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ptokit.engine.runnable import Run, Small
from ptokit.engine.storage import address_of
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.lang.context import current
from ptokit.lang.launch import FindingCollector, in_one_of

MOST_CACHED = 1024
PLAIN = (int, str, bool, type(None))
"""Types of arguments, besides arrays, that can be part of a key."""
NUMPY = np.ndarray

Key = tuple[object, ...]
Array = np.ndarray[Any, np.dtype[Any]]


def key_of(options: Key, args: Sequence[object], keywords: Mapping[str, object]) -> Key | None:
    """The cache key of a launch; None if the launch is not eligible."""
    context = current()
    if context.tracer is not None or context.block is not None:
        return None
    key: list[object] = [context.mode, *options, *keywords]
    for value in (*args, *keywords.values()) if keywords else args:
        if type(value) is NUMPY:
            array = cast("Array", value)
            key += (array.dtype, array.shape, array.strides, array.flags.num)
        elif type(value) in PLAIN:
            key += (type(value), value)
        else:
            return None
    return tuple(key)


class CachedLaunch:
    """A cached launch: only the addresses of its arrays are new."""

    __slots__ = ("collector", "grid", "is_current", "small", "target")

    def __init__(
        self,
        small: Small,
        target: str,
        grid: int,
        is_current: Callable[[], bool],
        collector: Callable[[], FindingCollector],
    ) -> None:
        """`is_current` returns whether the program is still valid."""
        self.small, self.target, self.grid = small, target, grid
        self.is_current, self.collector = is_current, collector

    def run(self, values: Sequence[object], tensors: Callable[[], Mapping[str, Any]]) -> Run | None:
        """Launch; None if these arrays are not eligible. `tensors` are made only if a statement needs them."""
        addresses: list[int] = []
        ends: list[int] = []
        for array in [cast("Array", value) for value in values if type(value) is NUMPY]:
            start = address_of(array)
            addresses.append(start)
            ends.append(start + array.nbytes)
        if not (self.small.is_current and _are_apart(addresses, ends) and self.is_current()):
            return None
        collector = self.collector()
        try:
            seconds = self.small.run(addresses, tensors, collector)
        except (VerifyError, OutOfBoundsError) as problem:
            raise in_one_of(self.grid, problem) from None
        return Run(collector.found, self.small.engine, seconds, self.target, self.grid)


def _are_apart(starts: list[int], ends: list[int]) -> bool:
    """Whether no two ranges overlap."""
    last = 0
    for start, end in sorted(zip(starts, ends, strict=True)):
        if start < last:
            return False
        last = end
    return True
