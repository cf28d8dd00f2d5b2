"""When pipes were busy and what they waited for: the result, as text and as a chart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ptokit.finding import Where, at_line
from ptokit.machine.advice import Advice, advise
from ptokit.machine.perfetto import TracedSpans
from ptokit.machine.schedule import BusySpan, Critical, Record
from ptokit.markup import Displayed, box, code, table
from ptokit.program.cores import unit_of

WIDTH = 60
"""Columns of the chart."""
MOST_LIMITS = 4
MOST_SPENT = 8
"""Statements that a notebook lists."""
LEAST_SHARE = 0.1
"""The least share of the time that a limit mentions."""
MOSTLY = 0.5
"""The share of the time from which a pipe counts as the limit."""


@dataclass(frozen=True)
class Waited:
    """How long one pipe waited for another before an instruction, in the longest block."""

    src: str
    dst: str
    number: int
    what: str
    where: Where | None
    cycles: float
    share: float
    """Share of the block's time."""

    @property
    def name(self) -> str:
        """The statement as messages name it: `mgather (line 12)`."""
        return at_line(self.what, self.where)


@dataclass(frozen=True)
class StatementBusy:
    """How long a pipe is busy for a statement, in the longest block."""

    pipe: str
    number: int
    what: str
    where: Where | None
    cycles: float


@dataclass(frozen=True, kw_only=True)
class Timeline(TracedSpans, Displayed):
    """When pipes were busy."""

    total: float
    """Of all blocks together."""
    longest: int
    """The number of the longest block; the first of several."""
    dropped: int
    """How many pieces of work are not kept."""
    waits: tuple[Waited, ...]
    """Of the longest block, the longest first."""
    spent: tuple[StatementBusy, ...] = ()
    """Of all work of the longest block, also of what is not kept."""
    limits: tuple[Limit, ...]
    """Waits of the critical path, and pipes that are busy most of the time, the larger share first."""
    longest_cycles: float = 0.0
    """Of the longest block."""
    placed: tuple[tuple[int, str, int], ...] = ()
    """Of the longest block: how many of its works come before a tile gets an address, the tile, the address."""
    record: Record | None = field(default=None, repr=False, compare=False)
    """What the pipes did, to time it again."""

    @property
    def microseconds(self) -> float | None:
        """Of the launch; None if the clock is not known."""
        return self.cycles / self.clock / 1000 if self.clock else None

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What to change first, with the cycles that this saves in the model, the largest gain first."""
        return tuple(advise(self.record)) if self.record else ()

    def as_dict(self) -> dict[str, Any]:
        """The timeline as plain data."""
        return {
            "cycles": self.cycles,
            "microseconds": self.microseconds,
            "total": self.total,
            "blocks": self.blocks,
            "longest": self.longest,
            "longest_cycles": self.longest_cycles,
            "cores": self.cores,
            "waves": self.waves,
            "busy": dict(self.busy),
            "works": list(map(_plain, self.works)),
            "dropped": self.dropped,
            "critical": [{**_plain(c.work), "after": c.after, "idle": c.idle} for c in self.critical],
            "waits": list(map(_plain, self.waits)),
            "spent": list(map(_plain, self.spent)),
            "limits": list(self.limits),
            "advice": list(map(str, self.advice)),
            "gains": [each.as_dict() for each in self.advice],
        }

    def __str__(self) -> str:
        time = f" ({self.microseconds:,.2f} us at {self.clock:g} GHz)" if self.microseconds is not None else ""
        cut = f"work after cycle {self.drawn:,.0f} is not kept, nor drawn" if self.drawn < self.longest_cycles else ""
        head = f"{self.cycles:,.0f} cycles{time}{self._launched()}"
        return "\n".join([head, *self.chart(), *filter(None, [cut]), *self.limits, *self.advice])

    def _repr_html_(self) -> str:
        """The timeline in a notebook: the chart, what limits it, and a table of what takes the time."""
        head, *lines = str(self).splitlines()
        spent = sorted(self.spent, key=lambda each: -each.cycles)
        rows = [(at_line(each.what, each.where), each.pipe, f"{each.cycles:,.0f}") for each in spent]
        columns = ("statement", "pipe", "cycles of the longest block")
        return box(head, code("\n".join(lines)), table(rows, columns, MOST_SPENT) if rows else "")

    def _launched(self) -> str:
        """How the blocks of the launch run."""
        if self.blocks <= 1:
            return ""
        if self.waves <= 1:
            return f"; block {self.longest} of {self.blocks:,} takes longest"
        longest = f"block {self.longest} takes longest: {self.longest_cycles:,.0f}"
        return f"; {self.blocks:,} blocks on {self.cores:,} cores, up to {self.waves:,} a core; {longest}"

    @property
    def drawn(self) -> float:
        """The time up to which all work of the longest block is kept."""
        if not self.dropped or any(work.block != self.longest for work in self.works):
            return self.longest_cycles
        return max((work.start for work in self.works), default=0.0)

    def chart(self, width: int = WIDTH) -> list[str]:
        """A line for each pipe of the longest block: `#` where it is busy most of a column's time, `-` for less; blank
        where work is no longer kept."""
        rows: dict[str, list[float]] = {pipe: [0.0] * width for pipe in self.busy}
        whole = self.longest_cycles
        for work in self.works:
            if work.block == self.longest and whole:
                _shade(rows[work.pipe], work.start / whole * width, work.end / whole * width)
        edge = max(map(len, rows), default=0)
        end = width if self.drawn >= whole else int(self.drawn / whole * width)
        drawn = {pipe: "".join(map(_mark, row[:end])).ljust(width) for pipe, row in rows.items()}
        return [f"{pipe:<{edge}} |{line}| {self.busy[pipe]:4.0%}" for pipe, line in drawn.items()]


def _place(where: Where | None) -> str | None:
    return None if where is None else str(where)


def _plain(span: BusySpan | Waited | StatementBusy) -> dict[str, Any]:
    return {**vars(span), "where": _place(span.where)}


def _shade(row: list[float], start: float, end: float) -> None:
    """Add to each column the share of it that lies between `start` and `end`."""
    for column in range(int(start), min(len(row), int(end) + 1)):
        row[column] += max(0.0, min(end, column + 1) - max(start, column))


def _mark(share: float) -> str:
    return "#" if share >= MOSTLY else "-" if share > 0 else "."


# --- what limits a block


@dataclass(frozen=True)
class Busiest:
    """A pipe's share of a block's time, and what it does most."""

    share: float
    pipe: str
    name: str


class Limit(str):
    """What limits a block, with its share of the time."""

    cause: tuple[str, ...]
    """The same without the share."""

    def __new__(cls, text: str, *cause: str) -> Limit:
        """A limit as a text."""
        made = super().__new__(cls, text)
        made.cause = cause
        return made


def limits(path: Sequence[Critical], busiest: Sequence[Busiest], one_core: bool) -> Iterator[Limit]:
    """Waits along the critical path, and the pipes that are the limit, the larger share first."""
    show = unit_of if one_core else str
    found: list[tuple[float, Limit]] = []
    for (src, _, name), share in _waits_along(path).items():
        found.append((share, Limit(f"{name} waits for {show(src)} {share:.0%} of the time", name, src)))
    for each in busiest:
        if each.share >= MOSTLY:
            most = f"{show(each.pipe)} is busy {each.share:.0%} of the time, most of it with {each.name}"
            found.append((each.share, Limit(most, each.pipe, each.name)))
    found.sort(key=lambda each: -round(each[0], 6))
    return (text for share, text in found[:MOST_LIMITS] if share >= LEAST_SHARE)


def _waits_along(path: Sequence[Critical]) -> dict[tuple[str, str, str], float]:
    """What the path waited for: the share of its time, by pipes and instruction."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    if not path:
        return found
    span = path[-1].work.end - path[0].work.start
    for step in path:
        if step.after not in ("", step.work.pipe) and span:
            found[step.after, step.work.pipe, step.work.name] += step.idle / span
    return found
