"""A report as plain data, one entry for each target; and the page that embeds it: one file."""

from __future__ import annotations

import html
import json
import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from ptokit._version import __version__
from ptokit.atomic import write_file
from ptokit.finding import Finding, Where, by_level, is_modelled, shown_file
from ptokit.machine.report import MachineReport, MemoryUse
from ptokit.machine.schedule import HANDSHAKE
from ptokit.machine.timeline import Timeline, bytes_under_way
from ptokit.program.cores import core_of, unit_of
from ptokit.program.ir import Instr, Program, TileUse, walk
from ptokit.report.access import access_maps
from ptokit.report.compare import RefusedTarget, Result, comparison
from ptokit.report.sources import place, shown_diff, sources, terms
from ptokit.target import profile

MOST_TILES = 64
"""Tiles whose layouts are shown."""
MOST_FINDINGS = 500


def report_data(reports: Sequence[Result], *, title: str = "") -> dict[str, Any]:
    """Reports of one launch on one or more targets; the page shows the first one first."""
    ran = [each for each in reports if isinstance(each, MachineReport)]
    named = [where for each in ran for where in places(each)]
    named += [finding.where for each in reports for finding in each.findings]
    first = ran[0] if ran else None
    if len({each.target for each in reports}) < max(1, len(reports)):
        raise ValueError("a page shows one report of each target, and at least one")
    return {
        "title": title or (first.kernel if first else "program"),
        "grid": first.grid if first else None,
        "sources": sources(named),
        "targets": {each.target: _target(each) for each in reports},
        "shown": first.target if first else reports[0].target,
        "comparison": comparison(reports),
    }


def _target(report: Result) -> dict[str, Any]:
    findings = {
        "findings": [_finding(k, finding) for k, finding in enumerate(report.findings[:MOST_FINDINGS])],
        "levels": list(by_level(report.findings)),
        "modelled": is_modelled(report.findings),
    }
    if isinstance(report, RefusedTarget):
        return {**findings, "accepted": False, "refused": True, "ok": False}
    return {
        **findings,
        "accepted": report.ok and report.modelled,
        "refused": False,
        "ok": report.ok,
        "ran": report.ran,
        "written": report.written,
        "extent": report.extent,
        "repairs": _repairs(report),
        "lines": line_costs(report),
        "memory": memory_data(report),
        "timeline": timeline_data(report),
        "traffic": [{**each.as_dict(), "where": place(each.where)} for each in report.traffic],
        "access": access_maps(report),
        "tiles": _tiles(report.program, report.target) if report.program else [],
    }


def _finding(number: int, finding: Finding) -> dict[str, Any]:
    return {
        "id": f"f{number}",
        **{name: getattr(finding, name) for name in ("level", "rule", "kind", "message", "fix", "operand")},
        "where": place(finding.where),
        "calls": [place(call) for call in finding.path[1:]],
        "seen": finding.seen.as_dict() if finding.seen else None,
        "text": str(finding),
    }


def _repairs(report: MachineReport) -> list[dict[str, Any]]:
    return [
        {"kind": each.kind, "text": str(each), "diff": shown_diff(each.diff), "cycles": each.cycles}
        for each in report.repairs
    ]


def _tiles(program: Program, target: str) -> list[dict[str, Any]]:
    """The tiles with their layouts: an offset is the sum of `coordinate // div % mod * stride` over the terms."""
    memories = profile(target).memories
    return [
        {
            "name": name,
            "memory": memories[tile.spec.loc].name if tile.spec.loc in memories else tile.spec.loc.name,
            "dtype": str(tile.spec.dtype),
            "bytes": tile.spec.dtype.size,
            "rows": tile.spec.rows,
            "cols": tile.spec.cols,
            "text": str(tile.spec),
            "addresses": [address for address in tile.addresses if isinstance(address, int)],
            "valid": [value if isinstance(value, int) else None for value in tile.spec.valid],
            "form": tile.spec.format.upper(),
            "box": list(tile.spec.box) if tile.spec.box != (1, 1) else None,
            "layout": {**terms(tile.spec.layout), "start": tile.spec.layout.start},
        }
        for name, tile in list(program.tiles.items())[:MOST_TILES]
    ]


# --- time


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


# --- the page


FORMAT = 1
"""The version of the data."""
PARTS = {"/*style*/": "style.css", "/*script*/": "script.js"}
"""Marks of `page.html`, and the files that replace them."""


def write_page(path: str | os.PathLike[str], reports: Sequence[MachineReport]) -> None:
    """Write the page of some reports of one launch. The file is written as a whole, or not at all."""
    first, *others = reports
    for other in others:
        _check_same(first, other)
    write_file(path, page_of([report_data(reports)]).encode("utf-8"))


def _check_same(one: MachineReport, other: MachineReport) -> None:
    """Refuse reports of different launches."""
    for what, value in COMPARED.items():
        if value(one) != value(other):
            found = f"{value(one)} on {one.target} and {value(other)} on {other.target}"
            raise ValueError(f"a page compares reports of one launch; their {what} differ: {found}")


def _types(report: MachineReport) -> str:
    """The arguments of a report's program: `x float32, n`."""
    given = report.program.arguments if report.program else ()
    return ", ".join(f"{each.name} {getattr(each, 'dtype', '')}".strip() for each in given)


COMPARED: dict[str, Callable[[MachineReport], object]] = {
    "kernels": lambda report: report.kernel,
    "numbers of blocks": lambda report: report.grid,
    "arguments": _types,
}
"""What reports of one launch have in common."""


def page_of(reports: Sequence[dict[str, Any]], command: str = "") -> str:
    """The page of the data of some launches; it shows the first one first."""
    data = {"format": FORMAT, "ptokit": __version__, "command": command, "reports": reports}
    folder = files("ptokit.report") / "page"
    page = (folder / "page.html").read_text(encoding="utf-8")
    for mark, file in PARTS.items():
        page = page.replace(mark, (folder / file).read_text(encoding="utf-8"))
    title = html.escape(reports[0]["title"].encode("utf-8", "replace").decode("utf-8"))
    before, mark, after = page.partition("{{data}}")
    assert mark
    return before.replace("{{title}}", title) + embedded(data) + after


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: it ends none, and opens no comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
