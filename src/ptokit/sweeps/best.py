"""A point of a sweep; the best point of a target, and why it is better than others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ptokit.finding import Finding, Judged, summary
from ptokit.machine.report import NOTHING_RAN, MachineReport
from ptokit.machine.timeline import Limit
from ptokit.markup import Displayed, badge, box, clipped, facts, joined
from ptokit.target import profile

ALIKE = 1.05
"""Points do the same work if the bytes that they use differ by no more than this factor."""
NOTABLE = 0.9
"""A number that is at most this share of another one is part of the reason."""
MOST_FACTS = 3
"""Differences to another point that are named."""


WORDS = {"error": "refused", "hazard": "hazards", "unmodelled": "not modelled"}
"""What a point with findings of a level is; the worst first."""


@dataclass(frozen=True)
class SweepPoint(Judged, Displayed):
    """A launch of a sweep: its numbers, or why the target refuses it."""

    target: str
    params: dict[str, object]
    findings: tuple[Finding, ...] = ()
    """Of the run, or those for which the target refuses it."""
    ran: bool = False
    """Whether some block ran."""
    bytes_moved: int | None = None
    """To and from global memory; None if the target refuses it."""
    bytes_used: int | None = None
    """Those of the moved bytes that the program uses."""
    executions: int = 0
    """Of instructions that access global memory."""
    transactions: int = 0
    memory: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes of each on-chip memory that tiles use."""
    cycles: float | None = None
    """Of the launch; None if not all of it was executed, or if the target has no pipes."""
    microseconds: float | None = None
    """Of the launch; None if the clock is not known."""
    limits: tuple[Limit, ...] = ()
    """What takes its time."""
    waves: int = 0
    cores: int = 0
    report: MachineReport | None = None
    """Only of the best point of a target."""

    @classmethod
    def of(cls, target: str, params: dict[str, object], report: MachineReport) -> SweepPoint:
        """What is kept of a launch."""
        moved = ("bytes_moved", "bytes_used", "executions", "transactions")
        totals = {name: sum(getattr(each, name) for each in report.traffic) for name in moved}
        memory = {name: use.used for name, use in report.memory.items()}
        line = report.timeline if report.written else None
        times = ("cycles", "microseconds", "limits", "waves", "cores") if line else ()
        own = {name: getattr(line, name) for name in times}
        return cls(target, params, report.findings, report.ran, memory=memory, **totals, **own)

    @property
    def name(self) -> str:
        """`rows=16, oob=clamp`."""
        return ", ".join(f"{name}={value}" for name, value in self.params.items())

    @property
    def ok(self) -> bool:
        """Whether it is accepted, without an error and without a hazard."""
        return self.bytes_moved is not None and not self.hazards

    @property
    def verdict(self) -> str:
        """`clean`, or what its findings are, and the first of them."""
        worst = next((level for level in WORDS if any(each.level == level for each in self.findings)), None)
        if worst is None:
            return "clean" if self.ran else NOTHING_RAN
        first = next(each for each in self.findings if each.level == worst)
        return (
            f"{WORDS[worst]}: {summary(tuple(each for each in self.findings if each.level in WORDS))}: {first.message}"
        )

    @property
    def efficiency(self) -> float | None:
        """Bytes used for every byte moved."""
        return (self.bytes_used or 0) / self.bytes_moved if self.bytes_moved else None

    def __str__(self) -> str:
        return f"{self.name} on {self.target}: {self.verdict}"

    def _repr_html_(self) -> str:
        """The point in a notebook."""
        rows = [*self.params.items(), *((name, value) for name, value in self._facts() if value not in (None, ""))]
        title = joined(f"{self.name} on {self.target} ", badge(clipped(self.verdict), "good" if self.ok else "bad"))
        return box(title, facts((str(name), clipped(str(value))) for name, value in rows))

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "cycles", None if self.cycles is None else f"{self.cycles:,.0f}"
        yield "microseconds", None if self.microseconds is None else f"{self.microseconds:,.2f}"
        yield "bytes moved", None if self.bytes_moved is None else f"{self.bytes_moved:,}"
        yield "efficiency", None if self.efficiency is None else f"{self.efficiency:.0%}"
        yield from ((name, f"{used:,} bytes") for name, used in self.memory.items() if used)
        yield from (("limit", each) for each in self.limits[:1])


def is_same(one: object, other: object) -> bool:
    """Whether two values of a parameter are the same: `1`, `1.0` and `True` are not."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):  # arrays, for example
        return False


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
    timed = [point for point in points if is_ranked(point)]
    if not timed:
        return None
    is_alike = do_same_work(timed)
    ranked = sorted(timed, key=lambda point: rank(point, is_alike))
    best, *others = ranked
    slower = [other for other in others if cost(other, is_alike) > cost(best, is_alike)]
    is_between = bool(slower) and cost(slower[-1], is_alike) > cost(slower[0], is_alike)
    compared = (slower[0], slower[-1]) if is_between else slower[:1]
    reasons = [_against(best, other, is_alike) for other in compared] or ["no other point is slower"]
    return BestPoint(best, (*reasons, *(f"limit: {limit}" for limit in best.limits[:1])))


def is_ranked(point: SweepPoint) -> bool:
    """Whether a point can be the best one: it ran, is clean and has a time."""
    return point.ok and point.ran and point.cycles is not None


def rank(point: SweepPoint, is_alike: bool) -> tuple[float, int]:
    """The least one is the best."""
    return cost(point, is_alike), sum(point.memory.values())


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
    kept = {limit.cause for limit in best.limits}
    gone = [limit for limit in other.limits if limit.cause not in kept]
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


def _unused(point: SweepPoint) -> float:
    return 1 - (point.efficiency if point.efficiency is not None else 1)


COMPARED = (
    ComparedFact("{:,.0f} transfers instead of {:,.0f}", lambda point: point.executions),
    ComparedFact("{:.0%} of the moved bytes unused instead of {:.0%}", _unused),
    ComparedFact("{:,.0f} transactions instead of {:,.0f}", lambda point: point.transactions),
    ComparedFact("blocks a core: {:,.0f} instead of {:,.0f}", lambda point: point.waves),
    ComparedFact("{:,.0f} cores instead of {:,.0f}", lambda point: point.cores, is_more_better=True),
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

    def why_none(self, target: str) -> str:
        """Why a target has no best point."""
        points = self.of(target)
        if not any(point.ok for point in points):
            return "no point is clean"
        if not any(point.ran for point in points):
            return NOTHING_RAN
        return "it has no pipes, so the machine has no model of its time" if not profile(target).pipes else "no times"

    def of(self, target: str) -> list[SweepPoint]:
        """The points of a target."""
        return [point for point in self.rows if point.target == target]

    def is_best(self, point: SweepPoint) -> bool:
        """Whether a point is the best of its target."""
        best = self.best.get(point.target)
        return best is not None and best.point is point
