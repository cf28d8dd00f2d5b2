"""Findings and reports as text, with the line and a caret, and as the documented JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from ptokit.cli.arguments import Array
from ptokit.cli.files import Write, print_text
from ptokit.cli.problems import FINE, Misuse, misused, printable, status_of, with_shown_names
from ptokit.cli.reach import ArrayReach
from ptokit.engine.runnable import Run
from ptokit.finding import (
    ConflictAccess,
    Finding,
    OutOfBoundsError,
    VerifyError,
    Where,
    by_level,
    counted,
    is_modelled,
    not_in_run,
)
from ptokit.isa.dtype import dtype
from ptokit.lang.check import Report, TargetReport
from ptokit.lang.launcher import Launchable
from ptokit.machine.costs import read_costs
from ptokit.machine.report import MachineReport
from ptokit.render.document import new_console
from ptokit.render.findings import finding_text, place_of, report_lines
from ptokit.text.errors import TextError

Written = Mapping[str, tuple[str, Array]]
"""Arrays that were written, by their parameter, each with its file."""
Problem = TextError | VerifyError | OutOfBoundsError
"""Why a kernel cannot be read, checked or run."""
FORMAT = 1
"""The version of the JSON; it changes when a field changes its meaning or is removed."""
FIELDS = ("level", "rule", "kind", "message", "operand", "expected", "found", "fix")
"""The fields of a finding in the JSON, besides its place."""


class FindingsOfEntries:
    """The findings of several entries of a source, each with the entries that have it, whatever its numbers are."""

    def __init__(self) -> None:
        self._entries: dict[Finding, dict[str, None]] = {}
        self._arrays: dict[str, ArrayReach] = {}
        """The arrays that were not given, and whose ends are not known."""

    def new(self, findings: Iterable[Finding], entry: str) -> list[Finding]:
        """Those that no earlier entry has."""
        keys = [(each, _without_numbers(each)) for each in findings]
        new = [each for each, key in keys if not self._entries.get(key, {}).keys() - {entry}]
        for _, key in keys:
            self._entries.setdefault(key, {})[entry] = None
        return new

    def add_arrays(self, arrays: Iterable[ArrayReach]) -> None:
        """An entry has arrays that were not given. Of those with one name, the largest is shown."""
        for array in arrays:
            self._arrays[array.name] = max(array, self._arrays.get(array.name, array), key=lambda each: each.use.end)

    def show(self) -> None:
        """The findings of several entries, and these; the arrays to give."""
        shared = {key: [*entries] for key, entries in self._entries.items() if len(entries) > 1}
        lines = dict.fromkeys(_shared(key, entries) for key, entries in shared.items())
        if lines:
            print_text(printable("\n".join(["findings of several entries, each shown once:", *lines, ""])))
        if self._arrays:
            shown = " ".join(f"--arg {array.example}" for array in [*self._arrays.values()][:MOST_ENTRIES])
            print_text(printable(f"not checked: the ends of arrays that are not given, as with {shown}\n"))


def _shared(finding: Finding, entries: list[str]) -> str:
    more = [f"and {len(entries) - MOST_ENTRIES} more"] * (len(entries) > MOST_ENTRIES)
    names = ", ".join([*entries[:MOST_ENTRIES], *more])
    place = f"{place_of(finding.where)}: " if finding.where else ""
    return f"  {place}{finding.level} [{finding.rule}] in {len(entries)} entries: {names}"


def _without_numbers(finding: Finding) -> Finding:
    place = finding.where and Where(finding.where.file, finding.where.line, finding.where.column)
    message = re.sub(r"(?<!line )(?<!\d)\d+", "0", finding.message)
    return replace(finding, message=message, expected="", found="", fix="", where=place)


MOST_ENTRIES = 4
"""Entries of a finding that are named."""


def show_report(report: Report, entries: FindingsOfEntries) -> None:
    """All findings of all targets that no other entry has, and a line for each target."""
    console = new_console(soft_wrap=True, highlight=False)
    console.print(Text(printable(f"{report.kernel} over {counted(report.grid, 'block')}")))
    for target in report.targets.values():
        findings = [each.on(target.target) for each in target.findings]
        new = entries.new(findings, report.kernel)
        show_findings(new, console)
        console.print(summary_of(target) + ("" if len(new) == len(findings) else "; findings as above"))


def terminal_width() -> int | None:
    """The characters of a line, if lines are shown on a terminal or `COLUMNS` is set; files have whole lines."""
    console = new_console()
    return console.width if console.is_terminal or "COLUMNS" in os.environ else None


def show_findings(findings: Iterable[Finding], console: Console | None = None) -> None:
    """Findings with their places and, for text, the line with a caret; on standard error by default."""
    print_lines(map(finding_text, findings), console or new_console(stderr=True, soft_wrap=True, highlight=False))


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines without characters that control a terminal."""
    for line in lines:
        line.plain = printable(line.plain)
        console.print(line)


def summary_of(report: TargetReport) -> Text:
    """The last line of a target: whether it accepts, and what it uses."""
    counts = by_level(report.findings)
    memory = [f"{name} {_bytes(used, size)}" for name, (used, size) in report.memory.items()]
    word = "not accepted" if report.accepted and status_of(report.findings) else report.verdict
    verdict = (word, "bold green" if word == "accepted" else "bold red")
    rest = "; ".join(part for part in (", ".join(counts), ", ".join(memory)) if part)
    return Text.assemble(f"{report.target}: ", verdict, f"; {rest}" if rest else "")


def _bytes(used: int, size: int | None) -> str:
    return f"{used:,} bytes" if size is None else f"{used:,} of {size:,} bytes"


def show_run(kernel: Launchable, run: Run, written: Written) -> None:
    """Print the summary of a run and the files that it wrote."""
    lines = [f"{kernel.name} on {run.target}: {counted(run.grid, 'block')}, {run.engine}, {run.seconds:.3f} s"]
    for name, (file, array) in written.items():
        lines.append(f"  {name}: {_kind(array)}[{','.join(map(str, array.shape))}] in {file}")
    print_text(printable("\n".join(lines) + "\n"))


def _kind(array: Array) -> str:
    return dtype(array.dtype).name


def print_json(command: str, **fields: Any) -> None:
    """One object on standard output."""
    print_text(with_shown_names(json.dumps({"format": FORMAT, "command": command, **fields}, indent=2)) + "\n")


def print_answer(command: str, as_json: bool, shown: str, **fields: Any) -> int:
    """What a command has found, as JSON or as a text; the status is fine."""
    if as_json:
        print_json(command, **fields)
    else:
        print_text(printable(f"{shown}\n"))
    return FINE


def check_data(grid: int, report: Report | None = None, error: Problem | None = None) -> dict[str, Any]:
    """A check as plain data: a report, or the reason for its absence."""
    return {
        "kernel": None if report is None else report.kernel,
        "grid": grid,
        "targets": {
            name: target_data(target) for name, target in (report.targets if report is not None else {}).items()
        },
        "error": _error_data(error) if error else None,
    }


def print_run(
    kernel: Launchable | None,
    target: str,
    grid: int,
    run: Run | None = None,
    written: Written | None = None,
    error: Problem | None = None,
    **more: Any,
) -> None:
    """A run as JSON: its result or its error, and the fields that its engine adds."""
    refused = error.findings if isinstance(error, VerifyError | OutOfBoundsError) else ()
    findings = refused if run is None else run.findings
    print_json(
        "run",
        kernel=kernel.name if kernel else None,
        grid=grid,
        target=target,
        engine=None if run is None else run.engine,
        seconds=None if run is None else run.seconds,
        ok=run is not None and run.ok,
        modelled=is_modelled(findings),
        findings=findings_data(findings),
        outputs={
            name: {"file": file, "dtype": _kind(array), "shape": [*array.shape]}
            for name, (file, array) in (written or {}).items()
        },
        error=_error_data(error) if isinstance(error, TextError) else None,
        **more,
    )


def target_data(report: TargetReport) -> dict[str, Any]:
    """The result of a target as plain data."""
    return {
        "accepted": report.accepted and not status_of(report.findings),
        "refused": report.refused,
        "ok": report.ok,
        "modelled": report.modelled,
        "findings": findings_data(report.findings),
        "memory": {name: {"used": used, "size": size} for name, (used, size) in report.memory.items()},
    }


def findings_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as plain data."""
    return [
        {
            **{name: getattr(finding, name) for name in FIELDS},
            "where": place_data(finding.where),
            "calls": [place_data(call) for call in finding.path[1:]],
            "names": dict(finding.names),
            "ends": [_end_data(end) for end in finding.ends] if finding.ends else None,
            "seen": finding.seen.as_dict() if finding.seen else None,
        }
        for finding in findings
    ]


def _end_data(end: ConflictAccess) -> dict[str, Any]:
    """One access of a conflict as plain data."""
    calls = end.where.calls if end.where else ()
    return {**end.as_dict(), "where": place_data(end.where), "calls": [place_data(call) for call in calls]}


def _error_data(error: Problem) -> dict[str, Any]:
    """Why there is no kernel, as plain data: a text that cannot be read, or the first finding."""
    if isinstance(error, TextError):
        first, *others = [
            {"message": each.message, "fix": each.hint, "where": place_data(each.where)} for each in error.errors
        ]
        return {**first, "others": others} if others else first
    finding = error.findings[0]
    return {"message": finding.message, "fix": finding.fix, "where": place_data(finding.where)}


def place_data(where: Where | None) -> dict[str, Any] | None:
    """A place as plain data."""
    where = place_of(where)
    return {"file": where.file, "line": where.line, "column": where.column} if where else None


# --- the machine


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
    with misused(ValueError, by="--costs: "):
        return read_costs(file) if file is not None else {}


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
