"""When statements run, as plain data: the timeline, the cycles of source lines, and live ranges of tiles."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ptokit.finding import Where, shown_file
from ptokit.machine.report import MachineReport, MemoryUse
from ptokit.machine.schedule import HANDSHAKE
from ptokit.machine.timeline import Timeline, bytes_under_way
from ptokit.program.cores import core_of, unit_of
from ptokit.program.ir import Instr, TileUse, walk
from ptokit.report.sources import place
from ptokit.target import profile

NUMBERS = (
    "cycles", "microseconds", "clock", "cores", "waves", "blocks", "longest", "longest_cycles", "dropped",
)  # fmt: skip
"""Of a launch."""
MOST_STEPS = 4000
"""Points of the counter of bytes under way."""


def timeline_data(report: MachineReport) -> dict[str, Any] | None:
    """The timeline; None on targets without pipes."""
    line = report.timeline
    if line is None or report.program is None:
        return None
    pipes = _lanes(line, report.target)
    numbers = {pipe: k for k, pipe in enumerate(pipes)}
    critical = line.on_critical_path
    statements = [{**shown.as_dict(), "where": place(shown.where)} for shown in line.statements]
    for statement in statements:
        del statement["clauses"]  # for traces
    return {
        **{name: getattr(line, name) for name in NUMBERS},
        "pipes": [{"id": p, "core": core_of(p), "pipe": unit_of(p), "busy": line.busy.get(p, 0.0)} for p in pipes],
        "statements": statements,
        "works": [
            [numbers[w.pipe], w.start, w.end, w.number, w.block, int((w.block, w.pipe, w.start) in critical)]
            for w in line.works
            if w.pipe in numbers
        ],
        "arrows": [
            [numbers[a.src], a.start, numbers[a.dst], a.end, a.kind, a.id, a.block, int(a.is_held), a.after, a.before]
            for a in line.arrows
            if a.src in numbers and a.dst in numbers
        ],
        "waits": [
            {"src": w.src, "dst": w.dst, "statement": w.number, "cycles": w.cycles, "share": w.share}
            for w in line.waits
        ],
        "drawn": line.drawn,
        **_in_flight(bytes_under_way(line, line.longest)),
        "block_starts": {str(block): start for block, start in line.starts.items()},
        "limits": list(line.limits),
        "advice": [{"text": str(each), "gain": each.gain, "where": place(each.where)} for each in line.advice],
    }


def _lanes(line: Timeline, target: str) -> list[str]:
    """The pipes that are drawn: those with work, and those with flags of the program only."""
    flags = (pipe for arrow in line.arrows if arrow.kind != HANDSHAKE[0] for pipe in (arrow.src, arrow.dst))
    found = list(dict.fromkeys((*line.busy, *flags)))
    cores, units = list(dict.fromkeys(map(core_of, found))), [*profile(target).pipes]
    return sorted(found, key=lambda pipe: (cores.index(core_of(pipe)), units.index(unit_of(pipe))))


def _in_flight(steps: Sequence[tuple[float, int]]) -> dict[str, Any]:
    """The counter of bytes under way. Of very many steps, neighbours are one, with the largest value of them."""
    each = -(-len(steps) // MOST_STEPS) or 1
    groups = (steps[k : k + each] for k in range(0, len(steps), each))
    merged = [(group[0][0], max(count for _, count in group)) for group in groups]
    end = [] if each == 1 else [steps[-1]]
    return {"in_flight": [*merged, *end], "in_flight_merged": each}


def line_costs(report: MachineReport) -> dict[str, dict[str, dict[str, Any]]]:
    """By file and line: cycles that pipes are busy for it in the longest block, and its share of them."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    spent = report.timeline.spent if report.timeline else ()
    total = sum(each.cycles for each in spent if each.where)
    for each in spent:
        for file, line in {(where.file, where.line) for where in (each.where, *each.where.calls)} if each.where else ():
            entry = found.setdefault(shown_file(file), {}).setdefault(str(line), {"cycles": 0.0, "busy": {}})
            entry["cycles"] += each.cycles
            entry["busy"][each.pipe] = entry["busy"].get(each.pipe, 0.0) + each.cycles
    for entries in found.values():
        for entry in entries.values():
            entry["share"] = entry["cycles"] / total if total else 0.0
    return found


def memory_data(report: MachineReport) -> list[dict[str, Any]]:
    """Each on-chip memory: its tiles, and when each of them holds data that is used later."""
    uses = _uses(report)
    return [
        {
            "name": memory.name,
            "size": memory.size,
            "used": memory.used,
            "tiles": [{"name": name, "first": first, "end": end} for name, first, end in memory.tiles],
            "live": _live(memory, uses),
        }
        for memory in report.memory.values()
    ]


class TileUseSpan(NamedTuple):
    """An access to a tile in the longest block."""

    start: float
    end: float
    writes: bool
    statement: int


def _uses(report: MachineReport) -> Mapping[tuple[str, int], list[TileUseSpan]]:
    """By tile and address: its accesses in the longest block, in the order of time."""
    found: dict[tuple[str, int], list[TileUseSpan]] = defaultdict(list)
    line, program = report.timeline, report.program
    if line is None or program is None:
        return found
    statements, addresses = list(walk(program.body)), dict[str, int]()
    placed = deque(line.placed)
    for position, work in enumerate(work for work in line.works if work.block == line.longest):
        while placed and placed[0][0] <= position:
            _, tile, addresses[tile] = placed.popleft()
        stmt = statements[work.number] if work.number >= 0 else None
        for name, writes in _tiles_of(stmt) if isinstance(stmt, Instr) else ():
            if name in addresses:
                found[name, addresses[name]].append(TileUseSpan(work.start, work.end, writes, work.number))
    for each in found.values():
        each.sort()
    return found


def _tiles_of(instr: Instr) -> Iterator[tuple[str, bool]]:
    """The tiles of an instruction, and whether it only writes them."""
    uses = [
        (operand.tile, param.access)
        for param, operand in zip(instr.definition.operands, instr.operands, strict=False)
        if isinstance(operand, TileUse)
    ]
    if instr.workspace is not None:
        uses.append((instr.workspace.tile, "write"))
    for tile in dict.fromkeys(name for name, _ in uses):
        yield tile, all(access == "write" for name, access in uses if name == tile)


def _live(memory: MemoryUse, uses: Mapping[tuple[str, int], list[TileUseSpan]]) -> list[dict[str, Any]]:
    """Ranges from a write to the last read before the next write."""
    found: list[dict[str, Any]] = []
    for name, first, end in memory.tiles:
        current: dict[str, Any] = {}
        is_read = False
        for use in uses.get((name, first), ()):
            if not current or (use.writes and is_read):
                where = {"name": name, "first": first, "end": end}
                current = {**where, "start": use.start, "stop": use.end, "writes": [], "reads": []}
                found.append(current)
                is_read = False
            current["stop"] = max(current["stop"], use.end)
            is_read = is_read or not use.writes
            listed = current["writes" if use.writes else "reads"]
            if use.statement not in listed:
                listed.append(use.statement)
    return found


def places(report: MachineReport) -> list[Where | None]:
    """The places of all statements and findings."""
    body = walk(report.program.body) if report.program else ()
    return [*(stmt.where for stmt in body), *(finding.where for finding in report.findings)]
