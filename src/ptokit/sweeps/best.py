"""A point of a sweep; the best point of a target, and why it is better than others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ptokit.finding import Finding, is_modelled, summary
from ptokit.machine.report import MachineReport
from ptokit.machine.timeline import Timeline

ALIKE = 1.05
"""Points do the same work if the bytes that they use differ by no more than this factor."""
NOTABLE = 0.9
"""A number that is at most this share of another one is part of the reason."""
MOST_FACTS = 3
"""Differences to another point that are named."""
PERCENT = re.compile(r"\d+%")


WORDS = {"error": "refused", "hazard": "hazards", "unmodelled": "not modelled"}
"""What a point with findings of a level is; the worst first."""


@dataclass(frozen=True)
class SweepPoint:
    """A launch of a sweep: its report, or why the target refuses it."""

    target: str
    params: dict[str, object]
    report: MachineReport | None = None
    refusal: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """`rows=16, oob=clamp`."""
        return ", ".join(f"{name}={value}" for name, value in self.params.items())

    @property
    def ok(self) -> bool:
        """Whether it ran without an error and without a hazard."""
        return self.report is not None and self.report.ok

    @property
    def modelled(self) -> bool:
        """Whether ptokit models all of its instructions."""
        return is_modelled(self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of the run, or those for which the target refuses it."""
        return self.refusal if self.report is None else self.report.findings

    @property
    def verdict(self) -> str:
        """`clean`, or what its findings are, and the first of them."""
        worst = next((level for level in WORDS if any(each.level == level for each in self.findings)), None)
        if worst is None:
            return "clean"
        first = next(each for each in self.findings if each.level == worst)
        return (
            f"{WORDS[worst]}: {summary(tuple(each for each in self.findings if each.level in WORDS))}: {first.message}"
        )

    @property
    def timeline(self) -> Timeline | None:
        """None if not all of it was executed, or if the target has no pipes."""
        return self.report.timeline if self.report and self.report.written else None

    @property
    def cycles(self) -> float | None:
        """Of the launch."""
        return self.timeline.cycles if self.timeline else None

    @property
    def microseconds(self) -> float | None:
        """Of the launch; None if the clock is not known."""
        return self.timeline.microseconds if self.timeline else None

    @property
    def bytes_moved(self) -> int | None:
        """To and from global memory."""
        return sum(each.bytes_moved for each in self.report.traffic) if self.report else None

    @property
    def bytes_used(self) -> int | None:
        """Those of the moved bytes that the program uses."""
        return sum(each.bytes_used for each in self.report.traffic) if self.report else None

    @property
    def efficiency(self) -> float | None:
        """Bytes used for every byte moved."""
        return (self.bytes_used or 0) / self.bytes_moved if self.bytes_moved else None

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of each on-chip memory that tiles use."""
        return {name: use.used for name, use in self.report.memory.items()} if self.report else {}


# --- the best point


class BestPoint(NamedTuple):
    """The best point of a target, and why it is the best."""

    point: SweepPoint
    reasons: tuple[str, ...]
    """What it is compared with, and what limits it."""

    @property
    def reason(self) -> str:
        """The reasons in one line."""
        return "; ".join(self.reasons)


def best_of(points: Sequence[SweepPoint]) -> BestPoint | None:
    """The fastest clean point of a target; of equal ones, that which needs least memory. None if none has a time."""
    timed = [point for point in points if point.ok and point.cycles is not None]
    if not timed:
        return None
    is_alike = do_same_work(timed)
    ranked = sorted(timed, key=lambda point: (cost(point, is_alike), sum(point.memory.values())))
    best, *others = ranked
    slower = [other for other in others if cost(other, is_alike) > cost(best, is_alike)]
    compared = slower if len(slower) < 2 else (slower[0], slower[-1])
    reasons = [_against(best, other, is_alike) for other in compared] or ["no other point is slower"]
    limits = best.timeline.limits if best.timeline else ()
    return BestPoint(best, (*reasons, *(f"limit: {limit}" for limit in limits[:1])))


def do_same_work(points: Sequence[SweepPoint]) -> bool:
    """Whether all points use about as many bytes of global memory."""
    used = [point.bytes_used or 0 for point in points]
    return max(used) <= ALIKE * min(used)


def cost(point: SweepPoint, is_alike: bool) -> float:
    """What is compared: cycles, or cycles for each byte that is used if points do not do the same work."""
    cycles = point.cycles or 0.0
    return cycles if is_alike else cycles / max(point.bytes_used or 0, 1)


def _against(best: SweepPoint, other: SweepPoint, is_alike: bool) -> str:
    """How much faster it is than another point, and what differs."""
    times = cost(other, is_alike) / max(cost(best, is_alike), 1e-9)
    unit = "" if is_alike else " for each byte that is used"
    facts = [text for fact in COMPARED if (text := fact.text(best, other))]
    why = ", ".join(facts[:MOST_FACTS] + _gone(best, other))
    return f"{times:.2f} times as fast{unit} as {other.name}{f' ({why})' if why else ''}"


def _gone(best: SweepPoint, other: SweepPoint) -> list[str]:
    """The first limit of another point that the best one does not have."""
    limits = [point.timeline.limits if point.timeline else () for point in (best, other)]
    kept = {PERCENT.sub("", limit) for limit in limits[0]}
    gone = [limit for limit in limits[1] if PERCENT.sub("", limit) not in kept]
    return [f"no longer: {limit}" for limit in gone[:1]]


@dataclass(frozen=True)
class ComparedFact:
    """A number of a point that explains its time."""

    words: str
    value: Callable[[SweepPoint], float]
    is_more_better: bool = False

    def text(self, best: SweepPoint, other: SweepPoint) -> str:
        """The two numbers, if they differ much; else nothing."""
        mine, its = self.value(best), self.value(other)
        less, more = (its, mine) if self.is_more_better else (mine, its)
        return self.words.format(mine, its) if less <= NOTABLE * more and more > 0 else ""


def _executions(point: SweepPoint) -> float:
    return sum(each.executions for each in point.report.traffic) if point.report else 0


def _transactions(point: SweepPoint) -> float:
    return sum(each.transactions for each in point.report.traffic) if point.report else 0


def _waves(point: SweepPoint) -> float:
    return point.timeline.waves if point.timeline else 0


def _cores(point: SweepPoint) -> float:
    return point.timeline.cores if point.timeline else 0


def _unused(point: SweepPoint) -> float:
    return 1 - (point.efficiency if point.efficiency is not None else 1)


COMPARED = (
    ComparedFact("{:,.0f} transfers instead of {:,.0f}", _executions),
    ComparedFact("{:.0%} of the moved bytes unused instead of {:.0%}", _unused),
    ComparedFact("{:,.0f} transactions instead of {:,.0f}", _transactions),
    ComparedFact("blocks a core: {:,.0f} instead of {:,.0f}", _waves),
    ComparedFact("{:,.0f} cores instead of {:,.0f}", _cores, is_more_better=True),
)
"""What may explain a shorter time, the most telling first."""


@dataclass(frozen=True)
class SweepPoints:
    """All points of a sweep, target by target."""

    kernel: str
    rows: tuple[SweepPoint, ...]

    @cached_property
    def best(self) -> dict[str, BestPoint]:
        """The best point of each target that has one, with the reason."""
        found = {target: best_of(self.of(target)) for target in self.targets}
        return {target: best for target, best in found.items() if best is not None}

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The targets, in the order of the sweep."""
        return tuple(dict.fromkeys(point.target for point in self.rows))

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.rows[0].params) if self.rows else ()

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """The on-chip memories that some point uses."""
        used = (name for point in self.rows for name, size in point.memory.items() if size)
        return tuple(dict.fromkeys(used))

    def of(self, target: str) -> list[SweepPoint]:
        """The points of a target."""
        return [point for point in self.rows if point.target == target]

    def is_best(self, point: SweepPoint) -> bool:
        """Whether a point is the best of its target."""
        best = self.best.get(point.target)
        return best is not None and best.point is point
