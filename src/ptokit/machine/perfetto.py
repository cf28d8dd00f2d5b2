"""A timeline as a trace for Perfetto and chrome://tracing: JSON events.

A block is a process, a pipe of a core is a thread. Work is a slice, a flag is a flow from the work before its set to
the work after its wait, bytes of global memory under way are a counter. The launch itself is a slice of a process of
its own. Times are microseconds if the clock is known, else cycles, in whole thousandths: Perfetto rounds to those, and
drops slices that then overlap. The arguments of slices have exact cycles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ptokit.machine.schedule import BusySpan, Critical, FlagArrow
from ptokit.machine.statements import ShownStatement
from ptokit.program.cores import unit_of
from ptokit.target import SCALAR

GRAIN = 1000
"""Parts of a unit of time that a trace can tell apart: nanoseconds of a microsecond."""
LAUNCH = 1
"""The process and the thread of the launch."""
THREADS = 1000
"""Numbers of a block's process and threads: no two threads of a trace may share one, nor have that of a process."""


@dataclass(frozen=True, kw_only=True)
class TracedSpans:
    """What a trace shows of a launch."""

    cycles: float
    """Of the launch: when its last block ends."""
    blocks: int
    busy: Mapping[str, float]
    """Share of all blocks' time in which each pipe was busy."""
    works: tuple[BusySpan, ...]
    """Work of the longest block, then of the others, as much as is kept."""
    critical: tuple[Critical, ...]
    """The critical path of the longest block, from its start, as much of it as `works` has."""
    clock: float = 0.0
    """GHz; 0 if it is not known."""
    cores: int = 1
    """How many cores the launch uses."""
    waves: int = 1
    """The most blocks that one of them runs."""
    starts: Mapping[int, float] = field(default_factory=dict)
    """When blocks start, of those whose work is kept."""
    arrows: tuple[FlagArrow, ...] = ()
    """Waits of pipes for others: of the longest block, then of the others, as many as are kept."""
    describe: Callable[[], tuple[ShownStatement, ...]] = field(default=tuple, repr=False, compare=False)
    """Makes the statements of the program."""

    @cached_property
    def on_critical_path(self) -> frozenset[tuple[int, str, float]]:
        """Block, pipe and start of the works of the critical path."""
        return frozenset((each.work.block, each.work.pipe, each.work.start) for each in self.critical)

    @cached_property
    def pipe_numbers(self) -> Mapping[str, int]:
        """The pipes, by their order in `busy`."""
        return {pipe: k for k, pipe in enumerate(self.busy)}

    @cached_property
    def statements(self) -> tuple[ShownStatement, ...]:
        """The statements of the program, by the numbers that works have."""
        return self.describe()

    def to_perfetto(self) -> dict[str, Any]:
        """A trace for Perfetto and chrome://tracing, as JSON."""
        return {"traceEvents": trace_events(self), "displayTimeUnit": "ns"}


def grains(time: float) -> int:
    """A time of an event in the smallest parts."""
    return round(time * GRAIN)


def trace_events(line: TracedSpans) -> list[dict[str, Any]]:
    """All events, names first."""
    return [*_names(line), _launch(line), *_slices(line), *_flows(line), *_counters(line)]


def _time(line: TracedSpans, cycles: float) -> float:
    """A time of the launch in the units of a trace."""
    return grains(cycles / (line.clock * 1000) if line.clock else cycles) / GRAIN


def _placed(line: TracedSpans, work: BusySpan) -> tuple[float, float]:
    """When a piece of work starts and ends."""
    start = line.starts.get(work.block, 0.0)
    return _time(line, start + work.start), _time(line, start + work.end)


def _lasting(start: float, end: float) -> dict[str, float]:
    """The times of a slice: their sum is exactly its end, after rounding."""
    return {"ts": start, "dur": (grains(end) - grains(start)) / GRAIN}


def _process(block: int) -> int:
    return (block + 1) * THREADS


def _thread(line: TracedSpans, block: int, pipe: str) -> dict[str, int]:
    """The process and the thread of a pipe."""
    return {"pid": _process(block), "tid": _process(block) + 1 + line.pipe_numbers[pipe]}


def _names(line: TracedSpans) -> Iterator[dict[str, Any]]:
    used = dict.fromkeys((work.block, work.pipe) for work in line.works)
    for what in ("process_name", "thread_name"):
        yield _name(what, LAUNCH, LAUNCH, "launch")
    for block in dict.fromkeys(block for block, _ in used):
        yield _name("process_name", _process(block), _process(block), f"block {block}")
    for block, pipe in used:
        yield _name("thread_name", **_thread(line, block, pipe), name=pipe)


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _launch(line: TracedSpans) -> dict[str, Any]:
    args = {"cycles": line.cycles, "blocks": line.blocks, "cores": line.cores, "waves": line.waves}
    times = _lasting(0.0, _time(line, line.cycles))
    return {"ph": "X", "name": "launch", "cat": "launch", "pid": LAUNCH, "tid": LAUNCH, **times, "args": args}


def _slices(line: TracedSpans) -> Iterator[dict[str, Any]]:
    statements = line.statements
    for work in line.works:
        cycles = work.end - work.start
        args: dict[str, Any] = {"block": work.block, "statement": work.number}
        args |= {"where": None if work.where is None else str(work.where)}
        args |= {"start": line.starts.get(work.block, 0.0) + work.start, "cycles": cycles}
        args |= {"critical": (work.block, work.pipe, work.start) in line.on_critical_path}
        if 0 <= work.number < len(statements):
            shown = statements[work.number]
            args |= {"text": shown.text, "bytes": shown.nbytes, "clauses": ", ".join(shown.clauses)}
            args |= {each.role: f"{each.name} ({each.memory}, {each.access})" for each in shown.operands}
        track = {"cat": unit_of(work.pipe), **_thread(line, work.block, work.pipe)}
        yield {"ph": "X", "name": work.what, **track, **_lasting(*_placed(line, work)), "args": args}


def _flows(line: TracedSpans) -> Iterator[dict[str, Any]]:
    """Two events for each flag between works that are kept: one inside the first, one at the start of the second."""
    works = _by_pipe(line.works)
    for number, arrow in enumerate(line.arrows):
        before, after = works[arrow.block, arrow.src], works[arrow.block, arrow.dst]
        first = bisect_right(before, arrow.start, key=lambda work: work.end) - 1
        last = bisect_left(after, arrow.end, key=lambda work: work.start)
        if first < 0 or last >= len(after) or before[first].number != arrow.after:
            continue
        start, end = _placed(line, before[first])
        sent = max(grains(start), grains(end) - 1) / GRAIN
        flow = {"name": f"{arrow.kind} {arrow.id}".strip(), "cat": "flag", "id": number}
        src, dst = (_thread(line, arrow.block, pipe) for pipe in (arrow.src, arrow.dst))
        yield {**flow, "ph": "s", **src, "ts": sent}
        yield {**flow, "ph": "f", "bp": "e", **dst, "ts": _placed(line, after[last])[0]}


def _by_pipe(works: Sequence[BusySpan]) -> Mapping[tuple[int, str], list[BusySpan]]:
    found: dict[tuple[int, str], list[BusySpan]] = defaultdict(list)
    for work in works:
        found[work.block, work.pipe].append(work)
    return found


def _counters(line: TracedSpans) -> Iterator[dict[str, Any]]:
    by_block: dict[int, list[BusySpan]] = defaultdict(list)
    for work in line.works:
        by_block[work.block].append(work)
    for block, works in by_block.items():
        start = line.starts.get(block, 0.0)
        for time, count in _under_way(works, line.statements):
            yield {"ph": "C", "name": "bytes under way", "pid": _process(block), "ts": _time(line, start + time),
                   "args": {"bytes": count}}  # fmt: skip


def bytes_under_way(line: TracedSpans, block: int) -> list[tuple[float, int]]:
    """Bytes of global memory that a block is moving, at each time at which they change. The scalar loop of an
    instruction moves none of them."""
    return _under_way([work for work in line.works if work.block == block], line.statements)


def _under_way(works: Sequence[BusySpan], statements: Sequence[ShownStatement]) -> list[tuple[float, int]]:
    changes: dict[float, int] = defaultdict(int)
    for work in works:
        if 0 <= work.number < len(statements) and unit_of(work.pipe) != SCALAR:
            changes[work.start] += statements[work.number].nbytes
            changes[work.end] -= statements[work.number].nbytes
    total, steps = 0, list[tuple[float, int]]()
    for time in sorted(changes):
        total += changes[time]
        steps.append((time, total))
    return steps
