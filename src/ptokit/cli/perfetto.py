"""`ptokit trace`: the timeline of a launch as a file for ui.perfetto.dev."""

from __future__ import annotations

from ptokit.cli.files import check_destination, print_text, write_all
from ptokit.cli.machine import trace_bytes
from ptokit.cli.page import verdict_line
from ptokit.cli.problems import Misuse, printable, status_of
from ptokit.cli.programs import machine_report
from ptokit.cli.report import print_json
from ptokit.cli.request import ProgramRequest
from ptokit.cli.subject import find
from ptokit.finding import OutOfBoundsError, VerifyError, is_modelled
from ptokit.lang.launcher import Launchable
from ptokit.machine.report import MachineReport
from ptokit.progress import task
from ptokit.report.compare import cycles_of
from ptokit.target import families_with_pipes, profile

SUFFIX = ".json"


def write_trace(request: ProgramRequest, out: str, as_json: bool) -> int:
    """Run a program on the machine, and write its timeline."""
    if not out.endswith(SUFFIX):
        raise Misuse(f"-o takes a file that ends in {SUFFIX}; found {out}")
    check_destination(out)
    kernel = find(request)
    with task(f"trace {kernel.name}:"):
        report = _first_report(kernel, request)
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
    if as_json:
        own = {"file": out, "bytes": size, "target": report.target, "ok": report.ok, "cycles": cycles_of(report)}
        print_json("trace", **own, modelled=is_modelled(report.findings))
    else:
        print_text(
            printable(
                f"{report.target}: {verdict_line(report)}\n{out}: {size:,} bytes; open it in https://ui.perfetto.dev\n"
            )
        )
