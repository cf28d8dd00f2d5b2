"""`ptokit trace`: the timeline of a launch as a file for ui.perfetto.dev."""

from __future__ import annotations

from ptokit.cli.files import check_destination, print_text, write_all
from ptokit.cli.machine import trace_bytes
from ptokit.cli.problems import Misuse, printable, status_of
from ptokit.cli.programs import ProgramRequest, machine_report
from ptokit.cli.report import print_json, show_findings
from ptokit.cli.subject import find
from ptokit.finding import OutOfBoundsError, VerifyError, is_modelled, summary
from ptokit.lang.launcher import Launchable
from ptokit.machine.report import NOTHING_RAN, MachineReport
from ptokit.progress import task
from ptokit.target import families_with_pipes, profile

SUFFIX = ".json"


def write_trace(request: ProgramRequest, out: str, as_json: bool) -> int:
    """Run a program on the machine, and write its timeline."""
    if not out.endswith(SUFFIX):
        raise Misuse(f"-o takes a file that ends in {SUFFIX}; found {out}")
    check_destination(out)
    kernel = find(request.word, request.function, request.cxx)
    try:
        with task(f"trace {kernel.name}:"):
            report = _first_report(kernel, request)
    except (VerifyError, OutOfBoundsError) as refusal:
        show_findings(refusal.findings)
        return status_of(refusal.findings)
    trace = trace_bytes(report, "-o")
    write_all({out: lambda stream: stream.write(trace)})
    _print(report, out, len(trace), as_json)
    return status_of(report.findings)


def _first_report(kernel: Launchable, request: ProgramRequest) -> MachineReport:
    """The report of the target that is named, else of the first one with pipes that accepts the program."""
    if request.target is not None:
        return machine_report(kernel, request, request.target)
    refusals: list[VerifyError | OutOfBoundsError] = []
    for target in [name for name in kernel.targets if profile(name).pipes] or families_with_pipes():
        try:
            return machine_report(kernel, request, target)
        except (VerifyError, OutOfBoundsError) as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _print(report: MachineReport, out: str, size: int, as_json: bool) -> None:
    cycles = report.timeline.cycles if report.timeline else None
    if as_json:
        own = {"file": out, "bytes": size, "target": report.target, "ok": report.ok, "cycles": cycles}
        print_json("trace", **own, modelled=is_modelled(report.findings))
    else:
        is_empty = report.ok and not report.ran
        head = f"{report.target}: {NOTHING_RAN if is_empty else f'{summary(report.findings)}; {cycles:,.0f} cycles'}"
        print_text(printable(f"{head}\n{out}: {size:,} bytes; open it in https://ui.perfetto.dev\n"))
