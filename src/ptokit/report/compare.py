"""Targets side by side: what differs, and which statements of the program make the difference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ptokit.finding import Finding, Where, at_line, by_level
from ptokit.machine.report import NOTHING_RAN, MachineReport
from ptokit.machine.ways import Traffic
from ptokit.program.cores import unit_of
from ptokit.report.sources import place

MOST_NAMED = 3
"""Statements that an explanation names."""
MOST_STATEMENTS = 200
"""Rows of the table of statements."""
LEAST_DIFFERENCE = 0.05
"""The share of the largest value from which values count as different."""


@dataclass(frozen=True)
class RefusedTarget:
    """A target that refuses the program."""

    target: str
    findings: tuple[Finding, ...]


Result = MachineReport | RefusedTarget


@dataclass
class OnOneTarget:
    """What a statement takes on one target: in the longest block its cycles by pipe, in all blocks its traffic."""

    cycles: dict[str, float] = field(default_factory=dict[str, float])
    traffic: Traffic | None = None

    @property
    def total(self) -> float:
        """Cycles of all pipes."""
        return sum(self.cycles.values())


Compared = Mapping[tuple[Where | None, str], Mapping[str, OnOneTarget]]
"""By place and instruction: what it takes, by target."""


def comparison(reports: Sequence[Result]) -> dict[str, Any]:
    """Values by target, why they differ, and the statements by target."""
    compared = _statements(reports)
    return {
        "values": [
            {
                "what": what,
                "values": {each.target: value(each) for each in reports},
                "why": list(why(reports, compared)),
            }
            for what, (value, why) in COMPARED.items()
        ],
        "statements": [_statement(*each) for each in list(compared.items())[:MOST_STATEMENTS]],
    }


def _ran(reports: Iterable[Result]) -> list[MachineReport]:
    return [each for each in reports if isinstance(each, MachineReport)]


def _statements(reports: Sequence[Result]) -> Compared:
    """Statements are the same if they have the same place and instruction: auto mode adds others to each target."""
    found: dict[tuple[Where | None, str], dict[str, OnOneTarget]] = {}
    for report in _ran(reports):
        for spent in report.timeline.spent if report.timeline else ():
            own = found.setdefault((spent.where, spent.what), defaultdict(OnOneTarget))[report.target]
            own.cycles[spent.pipe] = own.cycles.get(spent.pipe, 0.0) + spent.cycles
        for each in report.traffic:
            own = found.setdefault((each.where, each.instruction), defaultdict(OnOneTarget))[report.target]
            own.traffic = each if own.traffic is None else _sum(own.traffic, each)
    return found


ADDED = ("transactions", "bursts", "scalar", "bytes_moved", "bytes_used", "misaligned", "executions")
"""What statements of one place move together."""


def _sum(one: Traffic, other: Traffic) -> Traffic:
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in ADDED})


def _statement(key: tuple[Where | None, str], on: Mapping[str, OnOneTarget]) -> dict[str, Any]:
    where, instruction = key
    return {
        "instruction": instruction,
        "where": place(where),
        "targets": {
            target: {
                "cycles": own.total if own.cycles else None,
                "pipes": list(own.cycles),
                "moved": own.traffic.bytes_moved if own.traffic else None,
                "how": _way(own.traffic) if own.traffic else "",
            }
            for target, own in on.items()
        },
    }


# --- values


def _verdict(report: Result) -> str:
    levels = ", ".join(by_level(report.findings))
    if isinstance(report, RefusedTarget):
        return f"refused: {levels}"
    return levels or ("clean" if report.ran else NOTHING_RAN)


def cycles_of(report: Result) -> float | None:
    """The cycles of a launch; None without a timeline."""
    line = report.timeline if isinstance(report, MachineReport) else None
    return line.cycles if line else None


def _moved(report: Result) -> int | None:
    if not isinstance(report, MachineReport) or report.timeline is None:
        return None
    return sum(each.bytes_moved for each in report.traffic)


def _efficiency(report: Result) -> float | None:
    moved = _moved(report)
    used = sum(each.bytes_used for each in report.traffic) if isinstance(report, MachineReport) else 0
    return used / moved if moved else None


def _on_chip(report: Result) -> dict[str, int] | None:
    return {each.name: each.used for each in report.memory.values()} if isinstance(report, MachineReport) else None


# --- why they differ


def _why_verdicts(reports: Sequence[Result], _: Compared) -> Iterator[str]:
    """The faults that only some targets have."""
    by_fault: dict[tuple[str, str | None, str], dict[str, Finding]] = {}
    for report in reports:
        for finding in report.findings:
            if finding.is_fault:
                key = (finding.rule, finding.kind, str(finding.where))
                by_fault.setdefault(key, {}).setdefault(report.target, finding)
    differing = [found for found in by_fault.values() if len(found) < len(reports)]
    for found in differing[:MOST_NAMED]:
        finding = next(iter(found.values()))
        code = ", ".join(filter(None, (finding.rule, finding.kind)))
        yield f"Only {_and(found)}: [{code}] {at_line(finding.message, finding.where)}."
    if len(differing) > MOST_NAMED:
        yield f"{len(differing) - MOST_NAMED} more findings are not on all targets."
    if not differing and len(reports) > 1:
        yield "All targets agree."


def _why_cycles(reports: Sequence[Result], compared: Compared) -> Iterator[str]:
    timed = {report.target: cycles for report in reports if (cycles := cycles_of(report)) is not None}
    if len(timed) > 1 and _differ(timed.values()):
        costs = {key: {target: on[target].total for target in timed if target in on} for key, on in compared.items()}
        for (where, what), values in _furthest(costs):
            pipes = {target: _pipes(compared[where, what][target].cycles) for target in values}
            listed = (f"{values[target]:,.0f} cycles{pipes[target]} on {target}" for target in values)
            yield f"{at_line(what, where)}: {_and(listed)}."
    for report in _ran(reports):
        if report.timeline and report.timeline.limits:
            yield f"On {report.target}, {report.timeline.limits[0]}."
    if without := [report.target for report in _ran(reports) if report.timeline is None]:
        yield f"{_and(without)} {'have' if len(without) > 1 else 'has'} no pipes, so no cycles."


def _why_moved(reports: Sequence[Result], compared: Compared) -> Iterator[str]:
    moved = {report.target: count for report in reports if (count := _moved(report)) is not None}
    counted = {
        key: {target: own.traffic.bytes_moved for target, own in on.items() if own.traffic and target in moved}
        for key, on in compared.items()
    }
    ways = {
        key: {target: _way(own.traffic) for target, own in on.items() if own.traffic} for key, on in compared.items()
    }
    for (where, what), values in _furthest(counted):
        listed = (f"{values[target]:,} bytes {ways[where, what][target]} on {target}" for target in values)
        yield f"{at_line(what, where)}: {_and(listed)}."
    if len(moved) > 1 and not _differ(moved.values()):
        yield f"{_and(moved)} move equally many bytes."
        by_way = {key: _by_value(own) for key, own in ways.items()}
        for (where, what), own in [each for each in by_way.items() if len(each[1]) > 1][:MOST_NAMED]:
            listed = [f"{way} on {_and(targets)}" for way, targets in own.items()]
            yield f"{at_line(what, where)} does so {_and(listed)}."


def _why_efficiency(reports: Sequence[Result], _: Compared) -> Iterator[str]:
    """On each target, the statement that wastes most."""
    for report in _ran(reports):
        worst = max(report.traffic, key=lambda each: each.bytes_moved - each.bytes_used, default=None)
        wasted = worst.bytes_moved - worst.bytes_used if worst else 0
        if worst and wasted > LEAST_DIFFERENCE * (_moved(report) or 0) and _moved(report):
            name = at_line(worst.instruction, worst.where)
            moves = f"moves {worst.bytes_moved:,} bytes {_way(worst)}".rstrip()
            yield f"On {report.target}, {name} {moves}; nothing uses {wasted:,} of them."


def _why_memory(reports: Sequence[Result], _: Compared) -> Iterator[str]:
    sizes: dict[str, dict[str, int]] = {}
    for report in _ran(reports):
        for memory in report.memory.values():
            if memory.size:
                sizes.setdefault(memory.name, {})[report.target] = memory.size
    for name, own in sizes.items():
        if len({*own.values()}) == 1:
            continue
        listed = _and(f"{size:,} bytes on {target}" for target, size in own.items())
        yield f"{name} has {listed}."
    tiles = {report.target: frozenset(_tiles(report)) for report in _ran(reports) if report.memory}
    if len(tiles) > 1:
        only = {target: sorted(own - frozenset.intersection(*tiles.values())) for target, own in tiles.items()}
        named = [f"{', '.join(names[:MOST_NAMED])} on {target}" for target, names in only.items() if names]
        yield f"Tiles at other addresses: {'; '.join(named)}." if named else "Tiles have the same addresses."


def _tiles(report: MachineReport) -> Iterator[str]:
    for memory in report.memory.values():
        yield from (f"{name} at 0x{first:x}" for name, first, _ in memory.tiles)


# --- words


def _furthest(
    found: Mapping[tuple[Where | None, str], Mapping[str, float]],
) -> list[tuple[tuple[Where | None, str], Mapping[str, float]]]:
    """The statements whose values lie furthest apart."""
    differing = [(key, values) for key, values in found.items() if len(values) > 1 and _differ(values.values())]
    differing.sort(key=lambda each: min(each[1].values()) - max(each[1].values()))
    return differing[:MOST_NAMED]


def _by_value(found: Mapping[str, str]) -> Mapping[str, list[str]]:
    """The targets of each value."""
    groups: dict[str, list[str]] = {}
    for target, value in found.items():
        groups.setdefault(value, []).append(target)
    return groups


def _differ(values: Iterable[float]) -> bool:
    listed = list(values)
    return max(listed) - min(listed) > LEAST_DIFFERENCE * max(listed)


def _way(traffic: Traffic) -> str:
    """How an instruction accesses global memory."""
    if traffic.launch:
        return f"in {traffic.transactions:,} segments of {traffic.warps} warps a call"
    if traffic.scalar:
        return f"in {traffic.transactions:,} cache lines of the scalar pipe"
    return f"in {traffic.bursts:,} bursts"


def _pipes(cycles: Mapping[str, float]) -> str:
    busy = [unit_of(pipe) for pipe in sorted(cycles, key=lambda pipe: -cycles[pipe]) if cycles[pipe]]
    return f" of {_and(dict.fromkeys(busy))}" if busy else ""


def _and(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


COMPARED: Mapping[str, tuple[Callable[[Result], Any], Callable[[Sequence[Result], Compared], Iterable[str]]]] = {
    "verdict": (_verdict, _why_verdicts),
    "cycles": (cycles_of, _why_cycles),
    "bytes moved": (_moved, _why_moved),
    "efficiency": (_efficiency, _why_efficiency),
    "memory": (_on_chip, _why_memory),
}
"""By what is compared: its value for a report, and sentences that say why targets differ."""
