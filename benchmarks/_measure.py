"""Timing contenders side by side, and judging what was asked of them.

Contenders take turns: each round calls every one of them, and each round begins with another one. What slows the
machine down for a while so slows all of them, and the median of the ratios within rounds is what counts.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
Times = dict[Name, list[float]]
"""The seconds of each contender's calls, round by round; NaN for a round it was left out of."""

LEAST_ROUNDS = 3
"""Rounds that even the slowest contender takes part in."""


def interleaved(
    calls: Mapping[Name, Call],
    rounds: int,
    *,
    loops: int = 1,
    before: Mapping[Name, Call] | None = None,
    pause: float = 0,
    patience: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Times[Name]:
    """Seconds of one call, for every contender and round.

    `loops` calls are timed together. `before` is what a contender needs done first, which is not timed. A `pause` lets
    the threads of the contender before go to sleep. Whoever has used up `patience` seconds sits later rounds out.
    """
    names, times = list(calls), {name: [] for name in calls}
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            done = [t for t in times[name] if not math.isnan(t)]
            if len(done) >= LEAST_ROUNDS and sum(done) * loops > patience:
                times[name].append(math.nan)
                continue
            if before and name in before:
                before[name]()
            if pause:
                time.sleep(pause)
            call, began = calls[name], clock()
            for _ in range(loops):
                call()
            times[name].append((clock() - began) / loops)
    return times


def median(times: Sequence[float]) -> float:
    """The median over the rounds that were taken."""
    return statistics.median([t for t in times if not math.isnan(t)] or [math.nan])


def medians(times: Times[Name]) -> dict[Name, float]:
    """The median of every contender."""
    return {name: median(found) for name, found in times.items()}


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times as long `slow` takes: the median of the ratios within rounds."""
    return median([a / b for a, b in zip(slow, fast, strict=True)])


class Who(NamedTuple):
    """A contender: a library with so many threads."""

    library: str
    threads: int


OURS, LIMIT = "ptokit", "memcpy"
"""The contender that is judged, and the one that nobody can beat; all others are peers."""


def on_threads(everybody: Iterable[Who], threads: int) -> dict[str, Who]:
    """Each library on so many threads, or on as many as it has if it has fewer."""
    return {who.library: who for who in sorted(everybody, key=lambda who: who.threads) if who.threads <= threads}


def best_peer(times: Times[Who], right: Collection[Who], threads: int) -> Who | None:
    """The fastest other library whose results are right, with the same threads."""
    able = [who for name, who in on_threads(times, threads).items() if name not in (OURS, LIMIT) and who in right]
    return min(able, key=lambda who: median(times[who]), default=None)


@dataclass(frozen=True)
class Ask:
    """How many times as fast as another ptokit shall be."""

    at_least: float
    against: str = "best peer"
    """`best peer`, or the name of one contender."""
    threads: int | None = None
    """As many as there are contenders for, where none are named."""


FLOOR = Ask(round(1 / 1.05, 3))
"""Never more than 5 % behind the best peer."""


@dataclass(frozen=True)
class Verdict:
    """A figure that was asked for, and the one that was found: NaN where there is none."""

    case: str
    what: str
    asked: float
    found: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is good enough; one that could not be measured is not."""
        return self.found <= self.asked if self.at_most else self.found >= self.asked


def judge(case: str, asks: Sequence[Ask], times: Times[Who], right: Collection[Who], most: int) -> list[Verdict]:
    """Hold ptokit's times against what was asked, where `most` threads were measured.

    What is asked for several threads is left out of a run on one.
    """
    verdicts: list[Verdict] = []
    for ask in asks:
        threads = ask.threads or most
        if ask.threads is None and most == 1:
            continue
        ours, other = Who(OURS, threads), _opponent(ask, times, right, threads)
        known = ours in times and ours in right
        found = ratio(times[other], times[ours]) if other and known else math.nan
        named = f"best peer ({other.library})" if other and ask.against == "best peer" else ask.against
        said = f"x {named}, {threads} thread{'s' * (threads > 1)}"
        verdicts.append(Verdict(case, said, ask.at_least, found))
    return verdicts


def _opponent(ask: Ask, times: Times[Who], right: Collection[Who], threads: int) -> Who | None:
    """Whom ptokit is compared with."""
    if ask.against == "best peer":
        return best_peer(times, right, threads)
    found = on_threads(times, threads).get(ask.against)
    return found if found in right else None
