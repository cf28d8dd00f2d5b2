"""Options of the machine on the command line, and its report on standard output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ptokit.cli.files import Write
from ptokit.cli.problems import Misuse
from ptokit.cli.report import print_lines, terminal_width
from ptokit.finding import Finding, not_in_run
from ptokit.lang.check import TargetReport
from ptokit.machine.costs import read_costs
from ptokit.machine.report import MachineReport
from ptokit.render.document import new_console
from ptokit.render.findings import report_lines

PARTS = ("blocks", "memory", "timeline", "traffic", "lanes", "lane_totals")
"""Fields that a run on the machine adds to the JSON."""


def timeline_file(result: object, file: str | None) -> dict[str, Write]:
    """The file that is written besides the arrays."""
    if file is None or not isinstance(result, MachineReport):
        return {}
    trace = trace_bytes(result, "--timeline")
    return {file: lambda stream: stream.write(trace)}


def trace_bytes(report: MachineReport, option: str) -> bytes:
    """The trace of a launch."""
    if report.timeline is None:
        raise Misuse(f"{option}: {report.target} has no pipes, and so no timeline")
    return json.dumps(report.timeline.to_perfetto()).encode("utf-8")


def costs_in(file: str | None) -> Mapping[str, float]:
    """The costs in a file; none without one."""
    try:
        return read_costs(file) if file is not None else {}
    except ValueError as problem:
        raise Misuse(f"--costs: {problem}") from problem


def show_machine(report: MachineReport, *, notes: bool) -> None:
    """Print a report; its tables fold on a narrow terminal."""
    lines = report_lines(report, notes=notes, width=terminal_width())
    print_lines(lines, new_console(soft_wrap=True, highlight=False))


def machine_data(result: object) -> dict[str, Any]:
    """The fields that a report adds to the JSON of a run."""
    if not isinstance(result, MachineReport):
        return {}
    data = result.as_dict()
    return {part: data[part] for part in PARTS}


def joined(report: TargetReport, more: tuple[Finding, ...]) -> TargetReport:
    """The report of a check with the findings of a run added, without repeats."""
    checked = not_in_run(report.findings, more)
    known = {_identity(finding) for finding in checked}
    new = (finding for finding in more if _identity(finding) not in known)
    return replace(report, findings=(*checked, *new))


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.kind, finding.operand, finding.path
