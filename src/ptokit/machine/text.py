"""A report as plain text: its sections, which a terminal renders with colours and `str(report)` without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ptokit.finding import LEVELS, Finding, counted
from ptokit.machine.outcomes import LaneOutcomes
from ptokit.machine.timeline import Timeline
from ptokit.machine.traffic import Traffic

MOST_TILES = 16
"""Tiles of a memory that are shown."""
MOST_LANES = 8
"""Gathers and scatters whose lanes are shown."""


class ReportLike(Protocol):
    """The parts of a report that are shown."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...
    @property
    def target(self) -> str: ...
    @property
    def grid(self) -> int: ...
    @property
    def memory(self) -> Mapping[str, Any]: ...
    @property
    def timeline(self) -> Timeline | None: ...
    @property
    def traffic(self) -> tuple[Traffic, ...]: ...
    @property
    def lanes(self) -> tuple[LaneOutcomes, ...]: ...


@dataclass(frozen=True)
class Section:
    """A part of a report: lines, then a table (if any) whose first row is its header."""

    title: str
    lines: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


def report_text(report: ReportLike, *, notes: bool = False) -> str:
    """All of a report; `notes` includes the notes."""
    return "\n".join([findings_text(report, notes=notes), *map(section_text, sections(report))])


def findings_text(report: ReportLike, *, notes: bool = False) -> str:
    """What a report finds, without what it measures."""
    return "\n".join([heading(report), *map(str, shown_findings(report.findings, notes=notes))])


def heading(report: ReportLike) -> str:
    """`a5, 3 blocks: 1 error, 2 notes`."""
    return f"{report.target}, {counted(report.grid, 'block')}: {verdict(report.findings)}"


def verdict(findings: Iterable[Finding]) -> str:
    """How many findings there are of each level; `clean` if there are only notes."""
    levels = Counter(finding.level for finding in findings)
    counts = [counted(levels[level], level) for level in LEVELS if levels[level]]
    return ", ".join(counts if levels["error"] or levels["hazard"] else ["clean", *counts])


def shown_findings(findings: Iterable[Finding], *, notes: bool) -> list[Finding]:
    """Errors, then hazards, then notes if `notes` is set; each in the order in which they were found."""
    shown = [finding for finding in findings if notes or finding.level != "note"]
    return sorted(shown, key=lambda finding: LEVELS.index(finding.level))


def sections(report: ReportLike) -> Iterator[Section]:
    """The sections besides the findings: memory, time, traffic, lanes."""
    if report.memory:
        yield Section("memory", tuple(map(_memory, report.memory.values())))
    if report.timeline is not None:
        yield Section("time", tuple(str(report.timeline).splitlines()))
    if report.traffic:
        yield Section("traffic", (), traffic_table(report.traffic))
    if report.lanes:
        yield Section("lanes", tuple(_lanes(report.lanes)))


def section_text(section: Section) -> str:
    """A section without colours."""
    lines = (*section.lines, *aligned(section.table))
    return "\n".join([section.title, *(f"  {line}".rstrip() for line in lines)])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns: words to the left, numbers to the right."""
    columns = [_column(column) for column in zip(*rows, strict=True)]
    return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def _column(cells: Sequence[str]) -> list[str]:
    width = max(map(len, cells))
    is_number = any(cell[:1].isdigit() for cell in cells)
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in cells]


def _memory(use: Any) -> str:
    """One memory and where tiles lie in it."""
    limit = "" if use.size is None else f" of {use.size:,}"
    share = f" ({use.used / use.size:.0%})" if use.size else ""
    places = [f"{name} {first:#x}..{end:#x}" for name, first, end in use.tiles[:MOST_TILES]]
    more = [f"{len(use.tiles) - MOST_TILES} more"] if len(use.tiles) > MOST_TILES else []
    listed = ", ".join(places + more)
    return f"{use.name}: {use.used:,}{limit} bytes{share}" + (f"; {listed}" if listed else "")


def _lanes(lanes: Sequence[LaneOutcomes]) -> Iterator[str]:
    """The outcomes of lanes, for the first gathers and scatters."""
    for each in lanes[:MOST_LANES]:
        yield from str(each).splitlines()
    if len(lanes) > MOST_LANES:
        yield f"and {len(lanes) - MOST_LANES:,} more"


COLUMNS: dict[str, Callable[[Traffic], object]] = {
    "instruction": lambda each: each.instruction,
    "line": lambda each: f":{each.where.line}" if each.where else "",
    "warps": lambda each: each.warps,
    "transactions": lambda each: each.transactions,
    "bursts": lambda each: each.bursts,
    "misaligned": lambda each: each.misaligned,
    "scalar": lambda each: each.scalar,
    "moved": lambda each: each.bytes_moved,
    "used": lambda each: each.bytes_used,
    "efficiency": lambda each: f"{each.efficiency:.0%}",
}
"""The columns of the table of traffic; moved and used are bytes of global memory."""


def traffic_table(traffic: Sequence[Traffic]) -> tuple[tuple[str, ...], ...]:
    """A row for each instruction; empty columns are left out."""
    columns = {head: [value(each) for each in traffic] for head, value in COLUMNS.items()}
    kept = {head: [_shown(value) for value in values] for head, values in columns.items() if any(values)}
    return (tuple(kept), *zip(*kept.values(), strict=True))


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
