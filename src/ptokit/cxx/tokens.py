"""Buffer tokens and unit flags as flags.

A pipe that takes the token of a buffer (`get_buf`) waits until the pipe that had it last gives it back (`rls_buf`), so
that uses of a buffer are in the order of the program. That is a flag from each pipe to the next one, with an event id
that the kernel does not use between these pipes.

A product and a store with a phase (`AccPhase`, `STPhase`) hand an accumulator over by its unit flag: the store waits
for the last product of a sum (`Final`), the next product for the last store. Those are flags of the same kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from ptokit.cxx.operands import Indices, Unexpressible, element_type
from ptokit.cxx.recording import RecordedCall, RecordedTile
from ptokit.cxx.statements import FlagShape, SyncShape, TokenShape
from ptokit.isa.policy import TileType
from ptokit.target.profile import CUBE_CORE, EVENT_IDS

Link = tuple[str, str]
"""The pipe that gives a token back, and the one that takes it next."""
PHASES = frozenset(("partial", "final"))
LAST_PHASE = "final"


@dataclass(frozen=True)
class UnitUse:
    """A product or a store with a phase: its pipe, the bytes of the accumulator, and whether it is the last one."""

    pipe: str
    start: int
    stop: int
    is_last: bool
    site: int

    def meets(self, other: UnitUse) -> bool:
        return self.start < other.stop and other.start < self.stop


def unit_use(call: RecordedCall) -> UnitUse | None:
    """How a call uses the unit flag of an accumulator; None if it does not."""
    phase = dict(call.modifiers).get("phase")
    if phase not in PHASES:
        return None
    for place, tile in enumerate(call.operands):
        if isinstance(tile, RecordedTile) and TileType.parse(tile.memory) is TileType.Acc and tile.address is not None:
            stop = tile.address + tile.rows * tile.cols * element_type(tile.dtype).size
            return UnitUse("FIX" if place else "M", tile.address, stop, phase == LAST_PHASE, call.site)
    return None


class TokenFlags:
    """The flags of the tokens and the unit flags of a launch."""

    def __init__(self, used: Iterable[tuple[Link, int]]) -> None:
        """`used` are the events of the kernel's own flags."""
        self._used: defaultdict[Link, set[int]] = defaultdict(set)
        for link, event in used:
            self._used[link].add(event)
        self._events: dict[tuple[Link, Hashable], int] = {}

    def event(self, link: Link, token: Hashable) -> int:
        """The event of a token between two pipes. Raises Unexpressible if there is none left."""
        if (link, token) not in self._events:
            taken = {event for other, events in self._used.items() if other[0] == link[0] for event in events}
            free = [event for event in range(EVENT_IDS) if event not in self._used[link]]
            free.sort(key=taken.__contains__)  # hardware may not tell destinations of one pipe and event apart
            if not free:
                raise Unexpressible(
                    f"more than {EVENT_IDS} buffer tokens, unit flags and flags from {link[0]} to {link[1]}"
                )
            self._events[link, token] = free[0]
            self._used[link].add(free[0])
        return self._events[link, token]

    def flags(
        self, calls: Sequence[tuple[int, Indices]], shapes: Sequence[object], number: Callable[[SyncShape], int]
    ) -> list[tuple[int, Indices]]:
        """The calls of a core with flags in place of tokens: set where a token is given back, if another pipe takes it
        next, which waits there."""
        found: list[list[tuple[int, Indices]]] = [[call] for call in calls]
        last: dict[int, tuple[int, TokenShape]] = {}
        for at, (shape, numbers) in enumerate(calls):
            token = shapes[shape]
            if not isinstance(token, TokenShape):
                continue
            found[at] = []
            if token.action == "set":
                last[numbers[0]] = at, token
                continue
            before, giver = last.pop(numbers[0], (at, token))
            if giver.pipe != token.pipe:
                event = self.event((giver.pipe, token.pipe), numbers[0])
                for place, each in ((before, giver), (at, token)):
                    flag = FlagShape(each.action, giver.pipe, token.pipe, each.core, each.site)
                    found[place].append((number(flag), (event,)))
        return [call for each in found for call in each]

    def unit_flags(
        self, calls: Sequence[tuple[tuple[int, Indices], UnitUse | None]], number: Callable[[SyncShape], int]
    ) -> list[tuple[int, Indices]]:
        """The calls of a cube core with the flags that its unit flags are."""
        found: list[list[tuple[int, Indices]]] = [[call] for call, _ in calls]
        open_: list[tuple[int, UnitUse]] = []
        for at, (_, use) in enumerate(calls):
            if use is None:
                continue
            for before, giver in [each for each in open_ if each[1].meets(use)]:
                open_.remove((before, giver))
                if giver.pipe != use.pipe:
                    event = self.event((giver.pipe, use.pipe), ("unit", giver.start))
                    made = [
                        (number(FlagShape(action, giver.pipe, use.pipe, CUBE_CORE.name, each.site)), (event,))
                        for action, each in (("set", giver), ("wait", use))
                    ]
                    found[before].append(made[0])
                    found[at].insert(0, made[1])
            if use.is_last:
                open_.append((at, use))
        return [call for each in found for call in each]
