"""Commands on programs: check, run and show."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ptokit.cli.arguments import pairs, passed, values_of, with_outs, write_array
from ptokit.cli.choices import ALL
from ptokit.cli.example import example
from ptokit.cli.files import check_destination, print_text, write_all
from ptokit.cli.machine import MachineRequest, joined, machine_data, show_machine
from ptokit.cli.problems import FINE, FOUND, WORDS, Misuse, described, print_error, printable
from ptokit.cli.report import print_check, print_run, show_findings, show_report, show_run
from ptokit.cli.subject import find
from ptokit.finding import Finding, HazardWarning, OutOfBoundsError, VerifyError
from ptokit.lang.check import check, show
from ptokit.lang.faults import finding_of, raised_in_user_code
from ptokit.lang.launch import mode_of
from ptokit.lang.launcher import Launchable
from ptokit.lang.loaded import TextKernel
from ptokit.machine import MACHINE
from ptokit.machine.costs import CostTable
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import MachineReport
from ptokit.program.ir import Program
from ptokit.progress import task
from ptokit.spec import family_of
from ptokit.text.errors import TextError


@dataclass(frozen=True)
class ProgramRequest:
    """A program and the options of a check or a run, from the command line."""

    word: str
    """A file, `-`, or `module:kernel`."""
    args: Sequence[str] = ()
    target: str | None = None
    grid: int = 1
    function: str | None = None
    strict: bool = False
    header: bool = False
    dyn_ub: int | None = None
    launch: str = "standard"
    machine: MachineOptions | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of a check or a launch."""
        return {name: getattr(self, name) for name in ("target", "strict", "header", "dyn_ub", "launch")}

    def on_machine(self, target: str) -> dict[str, Any]:
        """The options of the machine for a check on a target, which launches have not decided. Of several targets, only
        those of its family take a cost table."""
        machine = self.machine or MachineOptions()
        costs = machine.overrides
        is_of_another = isinstance(costs, CostTable) and family_of(costs.target) != family_of(target)
        chosen = {"costs": {} if is_of_another and self.target in (None, ALL) else costs, "blocks": machine.blocks}
        return {name: value for name, value in chosen.items() if value}


def check_program(request: ProgramRequest, as_json: bool, run: bool = False) -> int:
    """Print the findings before a run, and on request those of a run on the machine."""
    try:
        kernel = find(request.word, request.function)
        args, keywords = passed(kernel, _values(kernel, request, () if run else None))
        with task(f"check {kernel.name}:"):
            with library_call():
                options = {**request.options, "target": request.target or ALL}
                report = check(kernel, *args, grid=request.grid, **options, **keywords)
            if run:
                more = {name: _machine_findings(kernel, request, name) for name in report.targets}
                targets = {name: joined(found, more[name]) for name, found in report.targets.items()}
                report = replace(report, targets=targets)
    except (TextError, VerifyError, OutOfBoundsError) as error:
        if as_json:
            print_check(request.grid, error=error)
        elif isinstance(error, TextError):
            print_text(printable(f"{error}\n"))
        else:
            raise
        return FOUND
    if as_json:
        print_check(request.grid, report)
    else:
        show_report(report)
    return FINE if len(report.accepted) == len(report.targets) else FOUND


def _machine_findings(kernel: Launchable, request: ProgramRequest, target: str) -> tuple[Finding, ...]:
    """The findings of a run on the machine."""
    try:
        return machine_report(kernel, request, target).findings
    except (VerifyError, OutOfBoundsError) as refusal:
        return refusal.findings


def machine_report(kernel: Launchable, request: ProgramRequest, target: str) -> MachineReport:
    """A run on the machine, on fresh arrays."""
    args, keywords = passed(kernel, _values(kernel, request, ()))
    with library_call():
        own = MachineOptions(**request.on_machine(target))
        options = {**request.options, "target": target, "engine": MACHINE, "options": own}
        report = kernel[request.grid](*args, **options, **keywords)
    assert isinstance(report, MachineReport)
    return report


def run_program(
    request: ProgramRequest,
    out: Sequence[str],
    engine: str,
    threads: int | None,
    machine: MachineRequest,
    as_json: bool,
) -> int:
    """Run a program on arrays, and write some of them. Errors go to standard error, and into the JSON if requested."""
    outs, options = _destinations(out, machine.timeline), machine.options(engine)
    kernel: Launchable | None = None
    try:
        kernel = find(request.word, request.function)
        values = _values(kernel, request, outs)
        args, keywords = passed(kernel, values)
        with task(f"run {kernel.name}:"), library_call():
            how = {"engine": engine, "threads": threads, "options": options, **request.options}
            result = kernel[request.grid](*args, **how, **keywords)
    except (TextError, VerifyError, OutOfBoundsError) as error:
        if as_json:
            print_run(kernel, mode_of(request.target).profile.name, request.grid, error=error)
        if isinstance(error, TextError):
            print_error(str(error), "")
        else:
            show_findings(error.findings)
        return FOUND
    is_report = isinstance(result, MachineReport)
    if is_report and not result.written:
        print_error("nothing was written: an instruction could not be executed, and the arrays keep their content", "")
        outs = {}
    written = {name: (file, values[name]) for name, file in outs.items()}
    arrays = {file: partial(write_array, array) for file, array in written.values()}
    write_all({**arrays, **machine.files(result)})
    if as_json or not is_report:
        show_findings(result.findings)
    if as_json:
        print_run(kernel, result.target, result.grid, result, written, **machine_data(result))
    else:
        show_run(kernel, result, written)
        if is_report:
            show_machine(result, notes=machine.notes)
    return FOUND if is_report and not result.ok else FINE


def show_program(request: ProgramRequest) -> int:
    """Print a program as a target runs it."""
    kernel = find(request.word, request.function)
    args, keywords = passed(kernel, _values(kernel, request))
    printed = io.StringIO()
    with library_call(), redirect_stdout(printed):
        show(kernel, *args, target=request.target, dyn_ub=request.dyn_ub, **keywords)
    print_text(printable(printed.getvalue()))
    return FINE


def program_of(request: ProgramRequest) -> Program:
    """The program of a kernel for a target."""
    kernel = find(request.word, request.function)
    values = _values(kernel, request)
    with library_call():
        traced = kernel.trace(kernel.bind_for_check((), values), mode_of(request.target, dyn_ub=request.dyn_ub))
    return traced.program


def _values(kernel: Launchable, request: ProgramRequest, outs: Iterable[str] | None = None) -> dict[str, Any]:
    """The arguments of a check, or of a run if there are `outs`; refused if they do not match the kernel."""
    written = [*(outs or ())]
    bind = kernel.bind_for_check if outs is None else kernel.bind
    try:
        with library_call():
            values = values_of(kernel, pairs(request.args, "--arg"), written)
            needed = [] if isinstance(kernel, TextKernel) else kernel.missing(values)
            values = values if {*needed} - {*written} else with_outs(kernel, values, written)
        try:
            with library_call():
                bind((), values)
        except Misuse as problem:
            if not (missing := kernel.missing(values)):
                raise
            raise Misuse(f"{problem}; for example:\n    {example(kernel, WORDS.get(), missing)}") from problem
    except (VerifyError, OutOfBoundsError) as refusal:
        messages = (f"{finding.message}; {finding.fix}" for finding in refusal.findings)
        raise Misuse("\n".join(messages)) from refusal
    return values


def _destinations(out: Iterable[str], timeline: str | None = None) -> dict[str, str]:
    """The output files by parameter; refused before any work if they cannot be written."""
    outs = pairs(out, "--out")
    for file in outs.values():
        check_destination(file)
    files = {os.path.realpath(file) for file in outs.values()}
    if len(files) < len(outs):
        raise Misuse("--out: two arrays cannot go into the same file")
    if timeline is not None and os.path.realpath(timeline) in files:
        raise Misuse("--timeline: an array goes into the same file")
    return outs


@contextmanager
def library_call() -> Iterator[None]:
    """Around a call of the library: hazards are reported later, and only results go to standard output."""
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore", HazardWarning)
        try:
            yield
        except (TextError, VerifyError, OutOfBoundsError, Misuse, KeyboardInterrupt):
            raise
        except BaseException as problem:
            if (where := raised_in_user_code(problem)) is not None:
                raise VerifyError([finding_of(problem, where)]) from problem
            if isinstance(problem, TypeError | ValueError | ArithmeticError | MemoryError):
                raise Misuse(described(problem)) from problem
            raise
