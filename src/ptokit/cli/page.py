"""`ptokit report` and `ptokit trace`: launches on the machine as an HTML file, and as a timeline for Perfetto."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from ptokit.cli.files import check_destination, shown_name, write_all
from ptokit.cli.live import ScriptRun, is_python, run_launches
from ptokit.cli.problems import FOUND, WORDS, Misuse, print_error, status_of
from ptokit.cli.programs import each_entry, library_call, machine_report
from ptokit.cli.report import print_answer, trace_bytes
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import find
from ptokit.finding import OutOfBoundsError, VerifyError, counted, is_modelled, summary
from ptokit.lang.check import PASSED_ON, WatchedLaunch, array_of
from ptokit.lang.launch import mode_of
from ptokit.lang.launcher import Launchable
from ptokit.machine.report import NOTHING_RAN, MachineReport
from ptokit.progress import task
from ptokit.report.compare import RefusedTarget, Result, cycles_of
from ptokit.report.model import page_of, report_data
from ptokit.target import families, families_with_pipes, profile

MOST_LAUNCHES = 16
"""Launches of a Python file that a page shows."""
LONGEST_COMMAND = 300
"""Characters of the command that a page shows."""


@dataclass(frozen=True)
class ReportedLaunch:
    """A launch on all its targets."""

    title: str
    results: tuple[Result, ...]

    @property
    def data(self) -> dict[str, Any]:
        """For the page, which shows first what ran on pipes."""
        ordered = sorted(self.results, key=lambda each: (isinstance(each, RefusedTarget), cycles_of(each) is None))
        return report_data(ordered, title=self.title)


SUFFIXES = (".html", ".htm")


def write_report(request: ProgramRequest, rest: Sequence[str], out: str, as_json: bool) -> int:
    """Run a program on the machine on each target, and write the page. Of a Python file all launches are shown, of a
    C++ source all entries, if none is named."""
    if not out.endswith(SUFFIXES):  # a mistaken name must not replace a source or an array
        raise Misuse(f"-o: a report is an HTML file, FILE.html; found {out}")
    check_destination(out)
    script: ScriptRun | None = None
    if is_python(request.word):
        script = run_launches(request, rest, is_module=False, keeps=True, command="report")
        launches = list(_of_script(script, request))
    elif rest:
        raise Misuse(f"{request.word} takes no arguments of its own: {' '.join(rest)}")
    else:
        launches = [*map(_of_kernel, each_entry(request))]
    if launches:
        command = shlex.join(("ptokit", *WORDS.get()))[:LONGEST_COMMAND] if WORDS.get() else ""
        page = page_of([launch.data for launch in launches], command).encode("utf-8")
        write_all({out: lambda stream: stream.write(page)})
        _print(launches, out, len(page), as_json)
    if script is not None:
        script.explain()
    findings = (finding for launch in launches for each in launch.results for finding in each.findings)
    return FOUND if script and script.problem else status_of(findings)


def _of_kernel(request: ProgramRequest) -> ReportedLaunch:
    kernel = find(request)
    machine = replace(request.machine, lanes=True)
    run = partial(machine_report, kernel, replace(request, machine=machine))
    with task(f"report {kernel.name}:"):
        results = tuple(_result(partial(run, target), target) for target in _targets(kernel, request))
    file = shown_name(request.word)
    title = file if file.endswith(kernel.name) else f"{file}: {kernel.name}"
    return ReportedLaunch(title, results)


def _of_script(script: ScriptRun, request: ProgramRequest) -> Iterator[ReportedLaunch]:
    """The launches of a Python file that differ in more than their targets, with copies of their arrays. Each is shown
    on the targets on which `ptokit check` judges it."""
    kept = _launches(script)
    if len(kept) > MOST_LAUNCHES:
        print_error(f"{request.word} makes {len(kept)} different launches; the page has {MOST_LAUNCHES} of them", "")
    for number, (launch, targets) in enumerate(kept[:MOST_LAUNCHES], 1):
        results = (_result(partial(_launch, script, launch, target), target) for target in targets)
        title = f"{request.word}: {launch.kernel.name}, launch {number}"
        with task(f"report {launch.kernel.name}:"):
            yield ReportedLaunch(title, tuple(results))


def _launches(script: ScriptRun) -> list[tuple[WatchedLaunch, tuple[str, ...]]]:
    """The launches with their targets; those that differ only in their targets are one."""
    found: dict[object, tuple[WatchedLaunch, tuple[str, ...]]] = {}
    for launch, targets in script.check.kept:
        first, known = found.get(content := _content(launch, targets[0]), (launch, ()))
        found[content] = first, tuple(dict.fromkeys((*known, *targets)))
    return [*found.values()]


def _content(launch: WatchedLaunch, target: str) -> object:
    """What makes a launch differ from others, on whatever target; it is traced on one of its own."""
    values = [(name, value, array_of(value)) for name, value in (*enumerate(launch.args), *launch.keywords.items())]
    arrays = [
        (name, str(value.dtype), value.shape, blake2b(np.ascontiguousarray(value).tobytes()).digest())
        for name, _, value in values
        if value is not None
    ]
    others = ((k, repr(value)) for k, value, found in values if found is None)
    options = (repr(launch.options.get(name)) for name in (*PASSED_ON, "options") if name != "target")
    return launch.kernel.name, launch.grid, _surroundings(launch, target), *arrays, *others, *options


def _surroundings(launch: WatchedLaunch, target: str) -> tuple[object, ...]:
    """The Python values that the kernel depends on; nothing if it cannot be traced."""
    try:
        traced = launch.kernel.trace(launch.kernel.bind(launch.args, launch.keywords), mode_of(target))
    except Exception:  # whatever the kernel raises; its launch reports it
        return ()
    return traced.reads.content if traced.reads else ()


def _launch(script: ScriptRun, launch: WatchedLaunch, target: str) -> MachineReport:
    """A launch on a target, with the outcomes of lanes."""
    on = script.check.on(launch, target)
    with library_call():
        return on.on(target, options=replace(on.options["options"], lanes=True)).report()


def _targets(kernel: Launchable, request: ProgramRequest) -> tuple[str, ...]:
    if request.target in (None, ALL):
        return tuple(kernel.targets) or families()
    return (request.target,) if request.target else ()


def _result(run: Callable[[], MachineReport], target: str) -> Result:
    """The report of a target, or why the target refuses the program."""
    try:
        return run()
    except (VerifyError, OutOfBoundsError) as refusal:
        return RefusedTarget(target, tuple(refusal.findings))


def _print(launches: Sequence[ReportedLaunch], out: str, size: int, as_json: bool) -> None:
    listed = [{"title": each.title, "targets": {on.target: _plain(on) for on in each.results}} for each in launches]
    lines: list[str] = []
    for launch in launches:
        lines += [f"{launch.title}:"] if len(launches) > 1 else []
        lines += [f"{each.target}: {verdict_line(each)}" for each in launch.results]
    shown = "\n".join([*lines, f"{out}: {counted(size, 'byte')}"])
    print_answer("report", as_json, shown, file=out, bytes=size, reports=listed)


def verdict_line(result: Result) -> str:
    """What is found on a target, and its cycles."""
    refused = "refused; " if isinstance(result, RefusedTarget) else ""
    if isinstance(result, MachineReport) and result.ok and not result.ran:
        return NOTHING_RAN
    cycles = cycles_of(result)
    return f"{refused}{summary(result.findings)}{'' if cycles is None else f'; {cycles:,.0f} cycles'}"


def _plain(result: Result) -> dict[str, object]:
    is_fine = isinstance(result, MachineReport) and result.ok
    return {"ok": is_fine, "modelled": is_modelled(result.findings), "cycles": cycles_of(result)}


# --- ptokit trace


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
    shown = f"{report.target}: {verdict_line(report)}\n{out}: {len(trace):,} bytes; open it in https://ui.perfetto.dev"
    own = {"file": out, "bytes": len(trace), "target": report.target, **_plain(report)}
    print_answer("trace", as_json, shown, **own)
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
