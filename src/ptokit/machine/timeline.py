"""When pipes were busy and what they waited for: the result, as text and as a chart, with advice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptokit.finding import Where
from ptokit.program.cores import unit_of
from ptokit.target import SCALAR

WIDTH = 60
"""Columns of the chart."""
MOST_ADVICE = 4
LEAST_SHARE = 0.1
"""The least share of the time that advice mentions."""
MOSTLY = 0.5
"""The share of the time from which a pipe counts as the limit."""


@dataclass(frozen=True)
class BusySpan:
    """Work of a pipe for a statement: when it starts and ends, in cycles of its block."""

    pipe: str
    start: float
    end: float
    number: int
    what: str
    where: Where | None
    block: int

    @property
    def name(self) -> str:
        """The statement as messages name it: `mgather (line 12)`."""
        return named(self.what, self.where)


@dataclass(frozen=True)
class Critical:
    """A piece of work of the critical path, and what it waited for."""

    work: BusySpan
    after: str
    """The pipe whose work had to end first: its own or another; empty for the first one."""
    idle: float
    """Cycles before it in which its pipe was idle."""


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
    """The number of the longest block; the first of several."""
    busy: Mapping[str, float]
    """Share of all blocks' time in which each pipe was busy."""
    works: tuple[BusySpan, ...]
    """Work of the longest block, then of the others, as much as is kept."""
    dropped: int
    """How many pieces of work are not kept."""
    critical: tuple[Critical, ...]
    """The critical path of the longest block, from its start; only the last part if it is very long."""
    waits: tuple[Waited, ...]
    """Of the longest block, the longest first."""
    advice: tuple[str, ...]
    """What to change first."""
    clock: float = 0.0
    """GHz; 0 if it is not known."""

    @property
    def microseconds(self) -> float | None:
        """Of the longest block; None if the clock is not known."""
        return self.cycles / self.clock / 1000 if self.clock else None

    def as_dict(self) -> dict[str, Any]:
        """The timeline as plain data."""
        return {
            "cycles": self.cycles,
            "microseconds": self.microseconds,
            "total": self.total,
            "blocks": self.blocks,
            "longest": self.longest,
            "busy": dict(self.busy),
            "works": list(map(_plain, self.works)),
            "dropped": self.dropped,
            "critical": [{**_plain(c.work), "after": c.after, "idle": c.idle} for c in self.critical],
            "waits": list(map(_plain, self.waits)),
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        time = f" ({self.microseconds:,.2f} us at {self.clock:g} GHz)" if self.microseconds is not None else ""
        many = f"; block {self.longest} of {self.blocks} takes longest" if self.blocks > 1 else ""
        cut = f"work after cycle {self.drawn:,.0f} is not kept, nor drawn" if self.drawn < self.cycles else ""
        head = f"{self.cycles:,.0f} cycles{time}{many}"
        return "\n".join([head, *self.chart(), *filter(None, [cut]), *self.advice])

    @property
    def drawn(self) -> float:
        """The time up to which all work of the longest block is kept."""
        if not self.dropped or any(work.block != self.longest for work in self.works):
            return self.cycles
        return max((work.start for work in self.works), default=0.0)

    def chart(self, width: int = WIDTH) -> list[str]:
        """A line for each pipe of the longest block: `#` where it is busy most of a column's time, `-` for less; blank
        where work is no longer kept."""
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
        names = [_name_event("process_name", block, 0, f"block {block}") for block in dict.fromkeys(b for b, _ in used)]
        names += [_name_event("thread_name", block, threads[pipe], pipe) for block, pipe in used]
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
        return {"traceEvents": names + events, "displayTimeUnit": "ns"}


def named(what: str, where: Where | None) -> str:
    """A statement as messages name it."""
    return f"{what} (line {where.line})" if where else what


def _place(where: Where | None) -> str | None:
    return None if where is None else str(where)


def _plain(span: BusySpan | Waited) -> dict[str, Any]:
    return {**vars(span), "where": _place(span.where)}


def _name_event(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _shade(row: list[float], start: float, end: float) -> None:
    """Add to each column the share of it that lies between `start` and `end`."""
    for column in range(int(start), min(len(row), int(end) + 1)):
        row[column] += max(0.0, min(end, column + 1) - max(start, column))


def _mark(share: float) -> str:
    return "#" if share >= MOSTLY else "-" if share > 0 else "."


# --- what to change first

OWN_TILES = "give the next iteration its own tiles, so that it does not wait until these are free"
WAIT_HINTS = {
    ("MTE2", "V"): "load what comes next while this is computed (double buffering)",
    ("MTE2", "S"): "load the next indices while these are used (double buffering)",
    ("MTE2", "MTE3"): "load the next tile while this one is stored (double buffering)",
    ("MTE2", "MTE1"): "load the next tile while this one is multiplied (double buffering)",
    ("V", "MTE3"): "compute the next tile while this one is stored (double buffering)",
    ("V", "S"): "put work between that does not need the result, or gather before computing",
    ("V", "MTE2"): OWN_TILES,
    ("MTE3", "MTE2"): OWN_TILES,
    ("MTE3", "V"): OWN_TILES,
    ("MTE3", "S"): OWN_TILES,
    ("MTE1", "MTE2"): OWN_TILES,
    ("M", "MTE1"): OWN_TILES,
    ("FIX", "M"): OWN_TILES,
}
"""By the pipe that is waited for, and the pipe that waits."""
ELEMENT_HINTS = {
    "S": "the scalar pipe moves elements one by one: gather rows instead of elements, longer rows",
    "V": "the vector pipe is the limit: rows rather than elements, longer rows, fewer passes",
}
"""What to change if a pipe is busy with a gather or scatter of elements."""
SCALAR_HINT = "the scalar pipe moves rows one by one: fewer and longer rows"
ISSUING = -1
"""Instead of the number of a statement, for the time in which the scalar pipe issues instructions."""
BUSY_HINTS = {
    SCALAR: SCALAR_HINT,
    "MTE2": "loads are the limit: load each byte once, in long rows",
    "MTE3": "stores are the limit: store each byte once, in long rows",
    "V": "the vector pipe is the limit: longer rows, fewer passes",
    "M": "the cube is the limit, as it should be",
    "MTE1": "feeding the cube is the limit: larger products, operands that stay in L0",
    "FIX": "taking results out is the limit: accumulate in L0C first",
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
        return ELEMENT_HINTS.get(unit, BUSY_HINTS[unit]) if self.by_element else BUSY_HINTS[unit]


def advise(path: Sequence[Critical], busiest: Sequence[Busiest], one_core: bool) -> Iterator[str]:
    """Waits along the critical path, and the pipes that are the limit, the larger share first."""
    show = unit_of if one_core else str
    hints = {each.pipe: each.hint for each in busiest}
    found: list[tuple[float, str]] = []
    for (src, dst, name), share in _waits_along(path).items():
        hint = WAIT_HINTS.get((unit_of(src), unit_of(dst)))
        hint = hint or (hints.get(src, SCALAR_HINT) if unit_of(src) == SCALAR else "let both work on their own tiles")
        found.append((share, f"{name} waits for {show(src)} {share:.0%} of the time: {hint}"))
    for each in busiest:
        if each.share >= MOSTLY:
            most = f"{show(each.pipe)} is busy {each.share:.0%} of the time, most of it with {each.name}"
            found.append((each.share, f"{most}: {each.hint}"))
    found.sort(key=lambda each: -round(each[0], 6))
    return (text for share, text in found[:MOST_ADVICE] if share >= LEAST_SHARE)


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
