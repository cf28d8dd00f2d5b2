"""When pipes were busy and what they waited for: the result, in words, as a chart, and what to change first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptokit.finding import Where
from ptokit.machine.pipes import unit_of
from ptokit.program.steps import ISSUE

WIDTH = 60
"""Columns of the chart."""
MOST_ADVICE = 4
WORTH_SAYING = 0.1
"""The least share of the time that advice speaks of."""
MOSTLY = 0.5
"""The share of the time from which on a pipe is what limits."""


@dataclass(frozen=True)
class BusySpan:
    """What a pipe did for a statement: from when to when, in cycles of its block."""

    pipe: str
    start: float
    end: float
    number: int
    what: str
    where: Where | None
    block: int

    @property
    def name(self) -> str:
        """For the user: `mgather (line 12)`."""
        return named(self.what, self.where)


@dataclass(frozen=True)
class Critical:
    """A work of the critical path, and what it had to wait for."""

    work: BusySpan
    after: str
    """The pipe whose work had to end first: its own or another one; empty at the beginning."""
    idle: float
    """Cycles that its pipe did nothing before."""


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
    """Of the block's time."""

    @property
    def name(self) -> str:
        """For the user: `mgather (line 12)`."""
        return named(self.what, self.where)


@dataclass(frozen=True)
class Timeline:
    """When pipes were busy."""

    cycles: float
    """Of the longest block."""
    total: float
    """Of all blocks together."""
    blocks: int
    longest: int
    """The block that took longest; the first of several."""
    busy: Mapping[str, float]
    """Share of all blocks' time in which each pipe did something."""
    works: tuple[BusySpan, ...]
    """Works of the longest block, then of the others, as many as are kept."""
    dropped: int
    """How many works are not among them."""
    critical: tuple[Critical, ...]
    """What the end of the longest block waited for, from its beginning on; the last part where that is very long."""
    waits: tuple[Waited, ...]
    """Of the longest block, the longest first."""
    advice: tuple[str, ...]
    """What to change first."""
    clock: float = 0.0
    """GHz; 0 where it is not known."""

    @property
    def microseconds(self) -> float | None:
        """Of the longest block, where the clock is known."""
        return self.cycles / self.clock / 1000 if self.clock else None

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "cycles": self.cycles,
            "microseconds": self.microseconds,
            "total": self.total,
            "blocks": self.blocks,
            "longest": self.longest,
            "busy": dict(self.busy),
            "works": [_plain_work(work) for work in self.works],
            "dropped": self.dropped,
            "critical": [{**_plain_work(c.work), "after": c.after, "idle": c.idle} for c in self.critical],
            "waits": [_plain_wait(wait) for wait in self.waits],
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        time = f" ({self.microseconds:,.2f} us at {self.clock:g} GHz)" if self.microseconds is not None else ""
        many = f"; block {self.longest} of {self.blocks} takes longest" if self.blocks > 1 else ""
        cut = f"works after cycle {self.drawn:,.0f} are not kept, nor drawn" if self.drawn < self.cycles else ""
        head = f"{self.cycles:,.0f} cycles{time}{many}"
        return "\n".join([head, *self.chart(), *filter(None, [cut]), *self.advice])

    @property
    def drawn(self) -> float:
        """The time up to which all works of the longest block are kept."""
        if not self.dropped or any(work.block != self.longest for work in self.works):
            return self.cycles
        return max((work.start for work in self.works), default=0.0)

    def chart(self, width: int = WIDTH) -> list[str]:
        """A line for each pipe of the longest block: `#` where it is busy most of a column's time, `-` for less; blank
        where works are no longer kept."""
        rows: dict[str, list[float]] = {pipe: [0.0] * width for pipe in self.busy}
        for work in self.works:
            if work.block == self.longest and self.cycles:
                _shade(rows[work.pipe], work.start / self.cycles * width, work.end / self.cycles * width)
        edge = max(map(len, rows), default=0)
        end = width if self.drawn >= self.cycles else int(self.drawn / self.cycles * width)
        drawn = {pipe: "".join(map(_mark, row[:end])).ljust(width) for pipe, row in rows.items()}
        return [f"{pipe:<{edge}} |{line}| {self.busy[pipe]:4.0%}" for pipe, line in drawn.items()]

    def to_perfetto(self) -> dict[str, Any]:
        """A trace for Perfetto and chrome://tracing: a process for each block, a thread for each pipe."""
        scale = 1 / (self.clock * 1000) if self.clock else 1.0
        threads = {pipe: k for k, pipe in enumerate(self.busy)}
        used = dict.fromkeys((work.block, work.pipe) for work in self.works)
        heads = [_head("process_name", block, 0, f"block {block}") for block in dict.fromkeys(b for b, _ in used)]
        heads += [_head("thread_name", block, threads[pipe], pipe) for block, pipe in used]
        events = [
            {
                "ph": "X",
                "name": work.what,
                "cat": unit_of(work.pipe),
                "pid": work.block,
                "tid": threads[work.pipe],
                "ts": work.start * scale,
                "dur": (work.end - work.start) * scale,
                "args": {"statement": work.number, "where": _place(work.where), "cycles": work.end - work.start},
            }
            for work in self.works
        ]
        return {"traceEvents": heads + events, "displayTimeUnit": "ns"}


def named(what: str, where: Where | None) -> str:
    """A statement for the user."""
    return f"{what} (line {where.line})" if where else what


def _place(where: Where | None) -> str | None:
    return None if where is None else str(where)


def _plain_work(work: BusySpan) -> dict[str, Any]:
    return {**{name: getattr(work, name) for name in work.__dataclass_fields__}, "where": _place(work.where)}


def _plain_wait(wait: Waited) -> dict[str, Any]:
    return {**{name: getattr(wait, name) for name in wait.__dataclass_fields__}, "where": _place(wait.where)}


def _head(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _shade(row: list[float], start: float, end: float) -> None:
    """Add to each column the share of it that lies between two places."""
    for column in range(int(start), min(len(row), int(end) + 1)):
        row[column] += max(0.0, min(end, column + 1) - max(start, column))


def _mark(share: float) -> str:
    return "#" if share >= MOSTLY else "-" if share > 0 else "."


# --- what to change first

OWN_TILES = "give the next turn tiles of its own, so that it need not wait until these are free"
WAIT_HINTS = {
    ("MTE2", "V"): "load what comes next while this is computed (two tiles in turn)",
    ("MTE2", "S"): "load the next indices while these are used (two index tiles in turn)",
    ("MTE2", "MTE3"): "load the next tile while this one is stored (two tiles in turn)",
    ("MTE2", "MTE1"): "load the next tile while this one is multiplied (two tiles in turn)",
    ("V", "MTE3"): "compute the next tile while this one is stored (two tiles in turn)",
    ("V", "S"): "put work between that does not need the result, or gather before computing",
    ("V", "MTE2"): OWN_TILES,
    ("MTE3", "MTE2"): OWN_TILES,
    ("MTE3", "V"): OWN_TILES,
    ("MTE3", "S"): OWN_TILES,
    ("MTE1", "MTE2"): OWN_TILES,
    ("M", "MTE1"): OWN_TILES,
    ("FIX", "M"): OWN_TILES,
}
"""By who is waited for, and who waits."""
BY_ELEMENT = {
    "S": "the scalar pipe takes elements one by one: gather rows instead of elements, longer rows",
    "V": "the vector pipe is the limit: rows rather than elements, longer rows, fewer passes",
}
"""What to change where a pipe is busy with a gather or scatter of elements."""
BY_SCALAR = "the scalar pipe takes rows one by one: fewer and longer rows"
ISSUING = -1
"""In the place of a statement's number, where the scalar pipe hands out instructions."""
BUSY_HINTS = {
    ISSUE: BY_SCALAR,
    "MTE2": "loads are the limit: load each byte once, in long rows",
    "MTE3": "stores are the limit: store each byte once, in long rows",
    "V": "the vector pipe is the limit: longer rows, fewer passes",
    "M": "the cube is the limit, as it should be",
    "MTE1": "feeding the cube is the limit: larger products, operands that stay in L0",
    "FIX": "taking results out is the limit: add up in L0C before",
}


@dataclass(frozen=True)
class Busiest:
    """A pipe's share of a block's time, and what it does most."""

    share: float
    pipe: str
    name: str
    by_element: bool
    """Whether that is a gather or scatter of single elements."""

    @property
    def hint(self) -> str:
        """What to change."""
        unit = unit_of(self.pipe)
        return BY_ELEMENT.get(unit, BUSY_HINTS[unit]) if self.by_element else BUSY_HINTS[unit]


def advise(path: Sequence[Critical], busiest: Sequence[Busiest], one_core: bool) -> Iterator[str]:
    """Waits along the critical path, and the pipes that limit, the larger share first."""
    show = unit_of if one_core else str
    hints = {each.pipe: each.hint for each in busiest}
    said: list[tuple[float, str]] = []
    for (src, dst, name), share in _waits_along(path).items():
        hint = WAIT_HINTS.get((unit_of(src), unit_of(dst)))
        hint = hint or (hints.get(src, BY_SCALAR) if unit_of(src) == ISSUE else "let both work on tiles of their own")
        said.append((share, f"{name} waits for {show(src)} {share:.0%} of the time: {hint}"))
    for each in busiest:
        if each.share >= MOSTLY:
            most = f"{show(each.pipe)} is busy {each.share:.0%} of the time, most of it with {each.name}"
            said.append((each.share, f"{most}: {each.hint}"))
    said.sort(key=lambda each: -round(each[0], 6))
    return (text for share, text in said[:MOST_ADVICE] if share >= WORTH_SAYING)


def _waits_along(path: Sequence[Critical]) -> dict[tuple[str, str, str], float]:
    """For whom works of the path waited: the share of its time, by pipes and instruction."""
    found: dict[tuple[str, str, str], float] = defaultdict(float)
    if not path:
        return found
    span = path[-1].work.end - path[0].work.start
    for step in path:
        if step.after not in ("", step.work.pipe) and span:
            found[step.after, step.work.pipe, step.work.name] += step.idle / span
    return found
