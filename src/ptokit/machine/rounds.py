"""Rounds of loops that are not run, because they do what those before did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ptokit.machine.session import Progress, Session
from ptokit.program.ir import Loop
from ptokit.program.memory import statements
from ptokit.program.periods import RoundGap
from ptokit.program.streams import CoreStream

PATIENCE = 128
"""Rounds that a loop may take to do the same in every period, before most others are left out."""


def without(gaps: Iterable[RoundGap], count: int, session: Session) -> Iterator[int]:
    """The rounds of a loop without those in gaps, once two periods before have done the same. Those of a gap count as
    if they had shown the same findings, too."""
    begin = 0
    for gap in gaps:
        yield from range(begin, at := gap.first - 2 * gap.period)
        done = [session.progress()]
        while at < gap.stop and (at < gap.first or not done[-1].is_steady(done[-2], done[-3])):
            if at >= gap.first + PATIENCE:
                session.is_short = True
                break
            yield from range(at, at := at + gap.period)
            done.append(session.progress())
        session.repeat(done[-2], (gap.stop - at) // gap.period)
        begin = gap.stop
    yield from range(begin, count)


REST = 8
"""Periods of a gap that are run at its end: what meets in near rounds is seen again there."""


class SharedRounds:
    """The rounds of a loop that all cores of a block run and meet in, without those in gaps.

    When the first core begins a period, all cores leave out the same number of rounds, if in two periods before they
    did the same and were at the same places, seen from the first one. A core ends the round that it is in.
    """

    def __init__(self, loop: Loop, gaps: Iterable[RoundGap], count: int, session: Session) -> None:
        self._gaps, self._count, self._session = list(gaps), count, session
        self._path = next(path for path, stmt in statements(session.program.body) if stmt is loop)
        self._streams: dict[str, CoreStream] = {}
        self._at: dict[str, int] = {}
        """The round of each core."""
        self._expected: tuple[int, Sequence[int], Sequence[int]] | None = None
        """Behind rounds that are left out, where the first rounds show less: the round at which that has ended, how
        often findings were shown before, and how often they are in a period."""
        self._done: list[tuple[Progress, Any]] = []
        """The last periods of a gap: how far the block had come, and where the cores were."""

    def of(self, stream: CoreStream) -> Iterator[int]:
        """The rounds of a core."""
        core = stream.core
        self._streams[core], self._at[core] = stream, 0
        while self._at[core] < self._count:
            if core == next(iter(self._streams)):
                self._look(self._at[core])
            yield self._at[core]
            self._at[core] += 1

    def _look(self, at: int) -> None:
        """The first core begins a round."""
        if self._expected is not None and at >= self._expected[0]:
            self._session.findings.make_up(*self._expected[1:], REST)
            self._expected = None
        while self._gaps and self._gaps[0].stop <= at:
            self._gaps.pop(0)
            self._done.clear()
        gap = self._gaps[0] if self._gaps else None
        if gap is None or at < gap.first - 2 * gap.period or (gap.first - at) % gap.period:
            return
        self._done.append((self._session.progress(), self._places(at)))
        if at < gap.first:
            return
        (first, *places), (before, *earlier), (now, *here) = self._done[-3:]
        is_steady = places == earlier == here and now.is_steady(before, first)
        if here == [None] or not (is_steady or at >= gap.first + PATIENCE):
            return
        count = (gap.stop - max(self._at.values())) // gap.period - REST
        if count > 0 and min(self._at.values()) >= gap.first - 2 * gap.period:
            self._session.is_short |= not is_steady
            self._session.repeat(before, count)
            self._at = {core: number + count * gap.period for core, number in self._at.items()}
            shown = [now.times[k] - each for k, each in enumerate(before.times)]
            self._expected = at + (count + REST) * gap.period, self._session.progress().times, shown
        self._gaps.pop(0)
        self._done.clear()

    def _places(self, at: int) -> tuple[tuple[str, int, Sequence[int]], ...] | None:
        """The other cores, their rounds, and their next statements; None if one is not in the loop, or goes on behind a
        wait."""
        size, places = len(self._path), list[tuple[str, int, Sequence[int]]]()
        if len(self._streams) < len(self._session.cores.names):
            return None
        for core, stream in [*self._streams.items()][1:]:
            if stream.held is not None or stream.head is None or stream.at[:size] != self._path:
                return None
            places.append((core, self._at[core] - at, stream.at[size + 1 :]))
        return tuple(places)
