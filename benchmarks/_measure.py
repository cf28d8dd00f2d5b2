"""Interleaved timing of contenders, and comparison with the required figures.

Each round calls every contender, and each round starts with another one. So a temporary slowdown of the machine affects
all of them, and the median of the ratios within rounds is what counts.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ptokit.progress import task

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
Times = dict[Name, list[float]]
"""The seconds of each contender's calls, round by round; NaN for a skipped round."""

LEAST_ROUNDS = 3
"""Rounds that no contender skips."""


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

    `loops` calls are timed together. `before` prepares a call and is not timed. A `pause` lets the threads of the
    previous contender go to sleep. A contender that has used `patience` seconds skips later rounds.
    """
    names, times = list(calls), {name: [] for name in calls}
    turns = [name for number in range(rounds) for name in _rotated(names, number)]
    with task("measuring", len(turns), "calls" if loops == 1 else f"x {loops:,} calls") as measured:
        for name in measured.track(turns):
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


def _rotated(names: list[Name], number: int) -> list[Name]:
    """The contenders of a round, each round beginning with another one."""
    start = number % len(names)
    return names[start:] + names[:start]


def median(times: Sequence[float]) -> float:
    """The median over the rounds that were not skipped."""
    return statistics.median([t for t in times if not math.isnan(t)] or [math.nan])


def medians(times: Times[Name]) -> dict[Name, float]:
    """The median of every contender."""
    return {name: median(found) for name, found in times.items()}


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times as long `slow` takes: the median of the ratios within rounds."""
    return median([a / b for a, b in zip(slow, fast, strict=True)])


class Who(NamedTuple):
    """A contender: a library with a number of threads."""

    library: str
    threads: int


OURS, LIMIT = "ptokit", "memcpy"
"""The contender that is judged, and the upper limit; all others are peers."""


def on_threads(everybody: Iterable[Who], threads: int) -> dict[str, Who]:
    """Each library with `threads` threads, or with its largest number below that."""
    return {who.library: who for who in sorted(everybody, key=lambda who: who.threads) if who.threads <= threads}


def best_peer(times: Times[Who], right: Collection[Who], threads: int) -> Who | None:
    """The fastest other library with correct results and the same threads."""
    able = [who for name, who in on_threads(times, threads).items() if name not in (OURS, LIMIT) and who in right]
    return min(able, key=lambda who: median(times[who]), default=None)


@dataclass(frozen=True)
class Ask:
    """The required speed of ptokit relative to another contender."""

    at_least: float
    against: str = "best peer"
    """`best peer`, or the name of one contender."""
    threads: int | None = None
    """The default is the largest number that is measured."""


FLOOR = Ask(round(1 / 1.05, 3))
"""Never more than 5 % behind the best peer."""


@dataclass(frozen=True)
class Verdict:
    """A required figure, and the measured one: NaN if there is none."""

    case: str
    what: str
    asked: float
    found: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether the requirement is met; an unmeasured one is not."""
        return self.found <= self.asked if self.at_most else self.found >= self.asked


def judge(case: str, asks: Sequence[Ask], times: Times[Who], right: Collection[Who], most: int) -> list[Verdict]:
    """Compare ptokit's times with the required figures; `most` threads were measured.

    Requirements for several threads are omitted in a run on one.
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
    """The contender that ptokit is compared with."""
    if ask.against == "best peer":
        return best_peer(times, right, threads)
    found = on_threads(times, threads).get(ask.against)
    return found if found in right else None
