"""Stale lines, for schedules other than the program's order (H-47, H-48).

The scalar pipe and threads access global memory through a cache, DMA does not. What one path has written, the other may
not see yet: it reads the content before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from ptokit.engine.reference import Touched
from ptokit.engine.storage import Array, Storage
from ptokit.machine.chance import Chance
from ptokit.machine.memories import Global, MemoryLocation
from ptokit.machine.shadow import READ, Shadow
from ptokit.target import GM_ACCESS


def is_cached(unit: str) -> bool:
    """Whether accesses of a pipe to global memory go through the cache."""
    return GM_ACCESS.get(unit) != "bursts"


class StaleAccess(NamedTuple):
    """Elements of a memory that a statement accesses on a pipe, cached or not."""

    storage: Storage
    touched: Touched
    number: int
    cached: bool

    @property
    def offsets(self) -> Array:
        """The elements, each once."""
        named = self.touched.offsets() if self.touched.offsets else self.touched.region.offsets()  # type: ignore[union-attr]
        return np.unique(named)


class _Unseen:
    """What one path does not see of a span: by unit, the statement that has written it by the other path, from 1 on,
    and the content before."""

    def __init__(self, shadow: Shadow) -> None:
        self.writer = np.zeros(shadow.size, np.int32)
        self.before = np.zeros((shadow.size, shadow.unit), np.uint8)


class StaleLines:
    """The content of global memory as the two paths may see it."""

    def __init__(self, gm: Global, chance: Chance) -> None:
        self._gm, self._chance = gm, chance
        self._paths: dict[tuple[Shadow, bool], _Unseen] = {}

    @contextmanager
    def shown(self, accesses: Sequence[StaleAccess]) -> Iterator[None]:
        """While an instruction runs, some of what it reads is stale; what it writes may be stale for others later."""
        with ExitStack() as stack:
            for access in accesses:
                if access.touched.how == READ and self._chance.coin():
                    stack.enter_context(self._old(access))
            for access in accesses:
                if access.touched.how != READ:
                    self._write(access)
            yield

    @contextmanager
    def _old(self, access: StaleAccess) -> Iterator[None]:
        path, units, offsets = self._find(access, access.cached)
        if path is None or not offsets.size:
            yield
            return
        writer, bits = path.writer[units], access.storage.bits
        hidden = (writer != 0) & (writer != access.number + 1)
        now = bits[offsets]
        seen = np.where(hidden[..., None], path.before[units], now.view(np.uint8).reshape(*units.shape, -1))
        bits[offsets] = np.ascontiguousarray(seen).view(bits.dtype).reshape(offsets.shape)
        try:
            yield
        finally:
            bits[offsets] = now

    def _write(self, access: StaleAccess) -> None:
        own, units, offsets = self._find(access, access.cached)
        other, _, _ = self._find(access, not access.cached)
        if own is None or other is None or not offsets.size:
            return
        content = access.storage.bits[offsets].view(np.uint8).reshape(*units.shape, -1)
        new = other.writer[units] == 0
        other.before[units[new]] = content[new]
        other.writer[units] = access.number + 1
        own.writer[units] = 0

    def _find(self, access: StaleAccess, cached: bool) -> tuple[_Unseen | None, Array, Array]:
        """The state of a path, the units of an access by element, and its elements."""
        place = self._gm.at(access.storage)
        offsets = access.offsets
        if place is None:
            return None, offsets, offsets
        key = place.shadow, cached
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = _Unseen(place.shadow)
        return path, _units(place, offsets, access.storage.dtype.size), offsets


def _units(place: MemoryLocation, offsets: Array, size: int) -> Array:
    each = size // place.shadow.unit
    return place.start + offsets[:, None] * each + np.arange(each)
