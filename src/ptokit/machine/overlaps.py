"""Dependences within a pipe whose instructions may overlap: the vector pipe of A2/A3 (A-73).

An instruction that reads what an earlier one wrote needs a barrier between the two, or a chain of flags, unless both
walk the bytes alike. The clocks know up to which time the work of the pipe has ended.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ptokit.isa.spelling import TMP
from ptokit.machine.block_cache import IssuedWork
from ptokit.machine.clocks import Clocks
from ptokit.machine.ends import MemoryAccess
from ptokit.machine.shadow import READ, WRITE, Earlier

HEADERS = "the headers' workspace"
"""In the place of an operand: memory that the C++ headers of an instruction use by themselves."""
WORKSPACES = (TMP, HEADERS)

Dependence = tuple[MemoryAccess, Earlier]
"""An access, and an earlier one that it depends on."""
MOST_OPEN = 4096
"""Instructions that may not have ended, of which it is known how they have walked."""
Pair = tuple[int, int]
"""Two statements by their numbers."""


class Overlaps:
    """What one launch shows."""

    def __init__(self) -> None:
        self.alike: dict[Pair, None] = {}
        """Dependent statements that need no barrier by the vendor's practice."""
        self.differing: dict[tuple[Pair, str], None] = {}
        """Dependent statements that need one, and the operand that is read."""
        self._walks: dict[str, dict[int, set[Hashable] | None]] = {}
        """By pipe, by the time of work that may not have ended: what it has written, walked element by element; None if
        nothing is known of its walks."""

    def dependences(
        self, clocks: Clocks, work: IssuedWork, touches: Sequence[MemoryAccess], time: int
    ) -> list[Dependence]:
        """The reads of what earlier work of the pipe has written by a different walk, and that may not have ended."""
        step, pipe = work.step, work.step.pipe
        ended, me = clocks.ended(pipe), clocks.number[pipe]
        walks = self._walks.setdefault(pipe, {})
        while walks and ((first := next(iter(walks))) <= ended or len(walks) >= MOST_OPEN):
            del walks[first]
        found: list[Dependence] = []
        for touch in touches:
            if touch.operand in step.late or touch.place.is_global:
                continue
            layer = touch.place.shadow.layers.get((WRITE, me))
            earlier = layer.last(touch.extent, touch.place.start, ended) if layer else None
            if earlier is None:
                continue
            pair = earlier.statement, work.number
            if touch.how != READ or touch.operand in WORKSPACES or _is_alike(work, touch, walks.get(earlier.time)):
                self.alike[pair] = None
            else:
                self.differing[pair, touch.operand] = None
                found.append((touch, earlier))
        walks[time] = None if work.alike is None else set(_written(touches, work.alike))
        return found


def _is_alike(work: IssuedWork, touch: MemoryAccess, written: set[Hashable] | None) -> bool:
    """Whether a read walks the bytes as they were written, as far as is known."""
    if work.alike is None or written is None:
        return True
    return touch.operand in work.alike and walk_of(touch) in written


def _written(touches: Sequence[MemoryAccess], alike: frozenset[str]) -> Iterator[Hashable]:
    return (walk_of(touch) for touch in touches if touch.how != READ and touch.operand in alike)


def walk_of(touch: MemoryAccess) -> Hashable:
    """The bytes of an access that walks them in their order."""
    extent, place = touch.extent, touch.place
    listed = None if extent.listed is None else extent.listed.tobytes()
    return place.name, place.start, extent.rows, extent.length, extent.pitch if extent.rows > 1 else 0, listed
