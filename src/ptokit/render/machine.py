"""A report of the machine on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ptokit.machine.report import MachineReport, Section, aligned, heading, sections, shown_findings
from ptokit.render.findings import finding_text


def report_lines(report: MachineReport, *, notes: bool = False) -> Iterator[Text]:
    """Findings first, then memory, time, traffic and lanes."""
    yield Text(heading(report), style="bold green" if report.ok else "bold red")
    yield from map(finding_text, shown_findings(report.findings, notes=notes))
    for section in sections(report):
        yield from _lines(section)


def _lines(section: Section) -> Iterator[Text]:
    yield Text(section.title, style="bold")
    yield from (Text(f"  {line}") for line in section.lines)
    for k, row in enumerate(aligned(section.table)):
        yield Text(f"  {row}", style="" if k else "dim")
