"""When pipes were busy and what they waited for: the result, as text and as a chart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ptokit.finding import Where, at_line
from ptokit.machine.advice import Advice, advise
from ptokit.machine.schedule import BusySpan, Critical, FlagArrow, Record
from ptokit.machine.ways import Traffic
from ptokit.markup import Displayed, box, code, table
from ptokit.program.cores import unit_of
from ptokit.program.ir import Instr, Program, Stmt, TileUse, View, walk
from ptokit.program.show import statement_texts
from ptokit.target import SCALAR


@dataclass(frozen=True)
class ShownOperand:
    """A tile or an array of an instruction."""

    role: str
    """Its name in the definition: `dst`, `table`."""
    name: str
    """Its name in the source."""
    access: str
    """`read`, `write` or `update`."""
    memory: str
    """`GM` for arrays, else the kind of tile: `Vec`."""


@dataclass(frozen=True)
class ShownStatement:
    """A statement; its position in the program is its number."""

    text: str
    instruction: str
    """Its name; empty for other statements."""
    operands: tuple[ShownOperand, ...]
    nbytes: int
    """Bytes of global memory that one execution moves, on average."""
    clauses: tuple[str, ...]
    """The clauses of the rules that it must keep."""
    where: Where | None

    def as_dict(self) -> dict[str, Any]:
        """All but the place as plain data."""
        return {name: value for name, value in asdict(self).items() if name != "where"}


def shown_statements(program: Program, traffic: Iterable[Traffic]) -> tuple[ShownStatement, ...]:
    """All statements in the order of the text."""
    moved = {each.number: each.bytes_moved // max(1, each.executions) for each in traffic}
    body = zip(walk(program.body), statement_texts(program), strict=True)
    return tuple(_shown(program, stmt, text, moved.get(number, 0)) for number, (stmt, text) in enumerate(body))


def _shown(program: Program, stmt: Stmt, text: str, nbytes: int) -> ShownStatement:
    if not isinstance(stmt, Instr):
        return ShownStatement(text, "", (), nbytes, (), stmt.where)
    clauses = dict.fromkeys(rule.id for rule in stmt.definition.rules)
    return ShownStatement(text, stmt.name, _operands(program, stmt), nbytes, tuple(clauses), stmt.where)


def _operands(program: Program, instr: Instr) -> tuple[ShownOperand, ...]:
    found: list[ShownOperand] = []
    for param, operand in zip(instr.definition.operands, instr.operands, strict=False):
        if isinstance(operand, TileUse):
            memory = program.tiles[operand.tile].spec.loc.name
            found.append(ShownOperand(param.name, operand.tile, param.access, memory))
        elif isinstance(operand, View):
            found.append(ShownOperand(param.name, operand.argument, param.access, "GM"))
    return tuple(found)


# --- statements as reports show them


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


NUMBERS = ("cycles", "microseconds", "total", "blocks", "longest", "longest_cycles", "cores", "waves")
"""Of a launch."""


@dataclass(frozen=True, kw_only=True)
class Timeline(Displayed):
    """When pipes were busy."""

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
    total: float
    """Of all blocks together."""
    longest: int
    """The number of the longest block; the first of several."""
    dropped: int
    """How many pieces of work are not kept."""
    waits: tuple[Waited, ...]
    """Of the longest block, the longest first."""
    spent: tuple[StatementBusy, ...] = ()
    """For all work of the longest block, including work that is not kept."""
    limits: tuple[Limit, ...]
    """Waits of the critical path, and pipes that are busy most of the time, the larger share first."""
    longest_cycles: float = 0.0
    """Of the longest block."""
    placed: tuple[tuple[int, str, int], ...] = ()
    """Of the longest block: how many of its works come before a tile gets an address, the tile, the address."""
    record: Record | None = field(default=None, repr=False, compare=False)
    """What the pipes did, to time it again."""

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
        events = [*_names(self), _launch(self), *_slices(self), *_flows(self), *_counters(self)]
        return {"traceEvents": events, "displayTimeUnit": "ns"}

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
            **{name: getattr(self, name) for name in NUMBERS},
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


# --- Perfetto


GRAIN = 1000
"""Parts of a unit of time that a trace can tell apart: nanoseconds of a microsecond."""
LAUNCH = 1
"""The process and the thread of the launch."""
THREADS = 1000
"""Numbers of a block's process and threads: no two threads of a trace may share one, nor have that of a process."""


def grains(time: float) -> int:
    """A time of an event in the smallest parts."""
    return round(time * GRAIN)


def _time(line: Timeline, cycles: float) -> float:
    """A time of the launch in the units of a trace."""
    return grains(cycles / (line.clock * 1000) if line.clock else cycles) / GRAIN


def _placed(line: Timeline, work: BusySpan) -> tuple[float, float]:
    """When a piece of work starts and ends."""
    start = line.starts.get(work.block, 0.0)
    return _time(line, start + work.start), _time(line, start + work.end)


def _lasting(start: float, end: float) -> dict[str, float]:
    """The times of a slice: their sum is exactly its end, after rounding."""
    return {"ts": start, "dur": (grains(end) - grains(start)) / GRAIN}


def _process(block: int) -> int:
    return (block + 1) * THREADS


def _thread(line: Timeline, block: int, pipe: str) -> dict[str, int]:
    """The process and the thread of a pipe."""
    return {"pid": _process(block), "tid": _process(block) + 1 + line.pipe_numbers[pipe]}


def _names(line: Timeline) -> Iterator[dict[str, Any]]:
    used = dict.fromkeys((work.block, work.pipe) for work in line.works)
    for what in ("process_name", "thread_name"):
        yield _name(what, LAUNCH, LAUNCH, "launch")
    for block in dict.fromkeys(block for block, _ in used):
        yield _name("process_name", _process(block), _process(block), f"block {block}")
    for block, pipe in used:
        yield _name("thread_name", **_thread(line, block, pipe), name=pipe)


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _launch(line: Timeline) -> dict[str, Any]:
    args = {"cycles": line.cycles, "blocks": line.blocks, "cores": line.cores, "waves": line.waves}
    times = _lasting(0.0, _time(line, line.cycles))
    return {"ph": "X", "name": "launch", "cat": "launch", "pid": LAUNCH, "tid": LAUNCH, **times, "args": args}


def _slices(line: Timeline) -> Iterator[dict[str, Any]]:
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


def _flows(line: Timeline) -> Iterator[dict[str, Any]]:
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


def _counters(line: Timeline) -> Iterator[dict[str, Any]]:
    by_block: dict[int, list[BusySpan]] = defaultdict(list)
    for work in line.works:
        by_block[work.block].append(work)
    for block, works in by_block.items():
        start = line.starts.get(block, 0.0)
        for time, count in _under_way(works, line.statements):
            yield {"ph": "C", "name": "bytes under way", "pid": _process(block), "ts": _time(line, start + time),
                   "args": {"bytes": count}}  # fmt: skip


def bytes_under_way(line: Timeline, block: int) -> list[tuple[float, int]]:
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
