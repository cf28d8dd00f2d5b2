"""Findings on a terminal, the place first, as compilers print it; the report of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text

from ptokit.finding import Finding, Where, shown_file
from ptokit.lang.faults import COMMANDS
from ptokit.lines import line_of
from ptokit.machine.report import MachineReport, Section, aligned, heading, sections, shown_findings
from ptokit.render.tables import folded
from ptokit.text.errors import TextError

STYLES = {"error": "bold red", "hazard": "bold yellow", "unmodelled": "bold magenta", "note": "bold cyan"}


def finding_text(finding: Finding) -> Text:
    """A finding; if its column is known, with the line and a caret."""
    text = Text(_shown(finding))
    text.highlight_regex(rf"\b{finding.level}(?= \[)", STYLES[finding.level])
    return text


def _shown(finding: Finding) -> str:
    where = place_of(finding.where)
    if finding.ends:
        finding = replace(finding, ends=tuple(replace(end, where=place_of(end.where)) for end in finding.ends))
    if finding.where is None or where is None or (where.column is None and where.caret is None):
        return str(finding.at(where))
    below = "\n    ".join(finding.at(where).lines)
    return shown_line(finding.head, finding.where, below)


def shown_line(message: str, where: Where, fix: str = "") -> str:
    """A message at a place, with the line itself and a caret."""
    return str(TextError(message, place_of(where) or where, line_of(where.file, where.line), fix))


def place_of(where: Where | None) -> Where | None:
    """A place for the user, with the name of the file that is shown; None for a line of a command."""
    if where is None or where.file.startswith(COMMANDS):
        return None
    calls = tuple(call for call in map(place_of, where.calls) if call)
    return replace(where, file=shown_file(where.file), calls=calls)


def report_lines(report: MachineReport, *, notes: bool = False, width: int | None = None) -> Iterator[Text]:
    """Findings first, then memory, time, traffic and lanes; tables fold where they are wider than `width`."""
    yield Text(heading(report), style="bold green" if report.ok else "bold red")
    yield from map(finding_text, shown_findings(report.findings, notes=notes))
    for section in sections(report):
        yield from _lines(section, width)


def _lines(section: Section, width: int | None) -> Iterator[Text]:
    yield Text(section.title, style="bold")
    yield from (Text(f"  {line}") for line in section.lines)
    rows = aligned(section.table)
    if width is not None and any(len(row) + 2 > width for row in rows):
        yield from (Text(f"  {line}") for line in folded(section.table, width - 2))
        return
    for k, row in enumerate(rows):
        yield Text(f"  {row}", style="" if k else "dim")
