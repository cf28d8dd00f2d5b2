"""Buffer tokens as flags.

A pipe that takes the token of a buffer (`get_buf`) waits until the pipe that had it last gives it back (`rls_buf`), so
that uses of a buffer are in the order of the program. That is a flag from each pipe to the next one, with an event id
that the kernel does not use between these pipes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from ptokit.cxx.operands import Indices, Unexpressible
from ptokit.cxx.statements import FlagShape, SyncShape, TokenShape
from ptokit.target.profile import EVENT_IDS

Link = tuple[str, str]
"""The pipe that gives a token back, and the one that takes it next."""


class TokenFlags:
    """The flags of the tokens of a launch."""

    def __init__(self, used: Iterable[tuple[Link, int]]) -> None:
        """`used` are the events of the kernel's own flags."""
        self._used: defaultdict[Link, set[int]] = defaultdict(set)
        for link, event in used:
            self._used[link].add(event)
        self._events: dict[tuple[Link, int], int] = {}

    def event(self, link: Link, token: int) -> int:
        """The event of a token between two pipes. Raises Unexpressible if there is none left."""
        if (link, token) not in self._events:
            free = [event for event in range(EVENT_IDS) if event not in self._used[link]]
            if not free:
                raise Unexpressible(f"more than {EVENT_IDS} buffer tokens and flags from {link[0]} to {link[1]}")
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
