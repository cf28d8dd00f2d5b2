"""`ptokit check file.py`: the launches of a Python file, checked with their own arrays."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from rich.text import Text

from ptokit import progress
from ptokit.cli.problems import FOUND, Misuse, apart, print_error, printable, status_of
from ptokit.cli.report import joined, place_data, print_json, print_lines, summary_of, target_data
from ptokit.cli.request import ALL, ProgramRequest
from ptokit.cli.subject import kernels_of, message_of, named_kernel, place_of_problem
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, counted
from ptokit.lang.check import LaunchWatcher, TargetReport, WatchedLaunch
from ptokit.lang.kernel import Kernel
from ptokit.lang.launcher import Launchable
from ptokit.lang.live import Script
from ptokit.machine.report import MachineOptions
from ptokit.render.document import new_console
from ptokit.render.findings import finding_text, shown_line
from ptokit.target import families, profile
from ptokit.text.errors import TextError

REFUSALS = (TextError, VerifyError, OutOfBoundsError)
FROM_LAUNCHES = {"arg": "--arg", "grid": "--grid", "function": "--function"}
"""Options that the launches of a file decide."""


def is_python(word: str) -> bool:
    """Whether a word names a Python file, and no kernel in it."""
    return word.endswith(".py") and named_kernel(word) is None


@dataclass
class OnTarget:
    """The reports of some launches of one kernel on one target, as one."""

    report: TargetReport
    launches: int = 0
    times: Counter[tuple[object, ...]] = field(default_factory=Counter[tuple[object, ...]])
    """In how many launches each finding was made."""

    def add(self, report: TargetReport) -> None:
        """Add a launch."""
        new = {_identity(finding): finding for finding in report.findings}
        findings = (*self.report.findings, *(new[key] for key in new if key not in self.times))
        memory = {
            name: max(self.report.memory.get(name, (0, None)), use, key=lambda use: use[0])
            for name, use in {**self.report.memory, **report.memory}.items()
        }
        self.times.update(new.keys())
        self.launches += 1
        self.report = replace(self.report, findings=findings, memory=memory)

    def launches_with(self, finding: Finding) -> int:
        """The number of launches with a finding."""
        return self.times[_identity(finding)]


@dataclass
class LaunchedKernel:
    """A kernel, and what was found in its launches."""

    name: str
    grids: list[int] = field(default_factory=list[int])
    targets: dict[str, OnTarget] = field(default_factory=dict[str, OnTarget])

    def add(self, report: TargetReport) -> None:
        """Add a launch on a target."""
        empty = replace(report, findings=(), memory={}, tiles=(), pipes=())
        self.targets.setdefault(report.target, OnTarget(empty)).add(report)

    @property
    def heading(self) -> str:
        """`lookup: 3 launches over 1 to 4 blocks`."""
        number, least, most = len(self.grids), min(self.grids), max(self.grids)
        launches = "1 launch" if number == 1 else f"{number:,} launches"
        return f"{self.name}: {launches} over {f'{least:,} to ' * (least < most)}{counted(most, 'block')}"

    @property
    def findings(self) -> list[Finding]:
        """The findings of all targets."""
        return [finding for each in self.targets.values() for finding in each.report.findings]


class LaunchCheck:
    """Checks every launch that it is shown, and runs it on the machine."""

    def __init__(self, request: ProgramRequest, *, keeps: bool = False) -> None:
        self._target, self._on_machine, self._keeps = request.target, request.on_machine, keeps
        options = {name: getattr(request, name) for name in ("strict", "header", "dyn_ub")}
        self._options = {name: value for name, value in options.items() if value not in (False, None)}
        self._known: dict[object, TargetReport] = {}
        self.kernels: dict[object, LaunchedKernel] = {}
        self._is_new = False
        """Whether a launch differs from those before."""
        self.kept: list[tuple[WatchedLaunch, Sequence[str]]] = []
        """The launches that differ, with their arrays and targets; if it keeps them."""

    def look(self, launch: WatchedLaunch, targets: Sequence[str] = ()) -> None:
        """Called before a launch."""
        self._is_new = False
        kernel = self.kernels.setdefault(_definition(launch.kernel), LaunchedKernel(launch.kernel.name))
        kernel.grids.append(launch.grid)
        number = sum(len(kernel.grids) for kernel in self.kernels.values())
        with progress.shown(), progress.task(f"launch {number:,}:"):
            targets = targets or self._targets(launch)
            for target in targets:
                kernel.add(self._report(self.on(launch, target)))
            if self._keeps and self._is_new:
                self.kept.append((launch.snapshot(), targets))

    def on(self, launch: WatchedLaunch, target: str) -> WatchedLaunch:
        """A launch on a target, with the options of the command."""
        own = launch.options.get("options") or MachineOptions()
        return launch.on(target, **self._options, options=replace(own, **self._on_machine(target)))

    def _targets(self, launch: WatchedLaunch) -> Sequence[str]:
        """Those that the command names; else the launch's own, if it has pipes."""
        if self._target not in (None, ALL):
            return (self._target,)
        own = self._target is None and profile(launch.target).pipes
        return (launch.target,) if own else families()

    def _report(self, launch: WatchedLaunch) -> TargetReport:
        """The findings of a check and of the machine; those of an equal launch are used again."""
        checked = launch.checked()
        try:
            content = launch.content()
            if content not in self._known:
                self._is_new = True
                self._known[content] = joined(checked, launch.report().findings)
            return self._known[content]
        except (VerifyError, OutOfBoundsError) as refusal:
            self._is_new = True
            return joined(checked, refusal.findings)
        except Exception:
            if not checked.refused:
                raise
            return checked  # it has the exception that tracing the kernel raises


def _identity(finding: Finding) -> tuple[object, ...]:
    """What findings of several launches have in common; values in their messages may differ."""
    return finding.level, finding.rule, finding.kind, finding.operand, finding.expected, finding.where


def _definition(kernel: Launchable) -> object:
    """Where a kernel is defined: one that is made again by a function is the same."""
    code = kernel.function.__code__ if isinstance(kernel, Kernel) else None
    return (kernel.name, code.co_filename, code.co_firstlineno) if code else (kernel.name, kernel.module)


class ScriptRun:
    """What a file did: its launches, and why it stopped, if it raised."""

    def __init__(self, name: str, check: LaunchCheck, problem: BaseException | None) -> None:
        self.name, self.check, self.problem = name, check, problem
        self.where = None if problem is None else place_of_problem(problem)
        self.message = "" if problem is None else f"{name} stopped: {self._reason(problem)}"
        self.shown = self.message if self.where is None else shown_line(self.message, self.where)
        """The message with its line."""

    def _reason(self, problem: BaseException) -> str:
        refused = problem.findings if isinstance(problem, VerifyError | OutOfBoundsError) else ()
        reports = (on.report for kernel in self.kernels for on in kernel.targets.values())
        found = {_identity(finding) for report in reports for finding in report.findings}
        if refused and {*map(_identity, refused)} <= found:
            return f"{type(problem).__name__}: the launch is refused, and later ones were not checked"
        return message_of(problem)

    @property
    def kernels(self) -> list[LaunchedKernel]:
        """The kernels that it launched."""
        return [*self.check.kernels.values()]

    @property
    def error(self) -> dict[str, Any] | None:
        """Why it stopped, as plain data."""
        return {"message": self.message, "fix": "", "where": place_data(self.where)} if self.problem else None

    def explain(self) -> None:
        """Print why it stopped."""
        if isinstance(self.problem, Exception) and self.where is None and not isinstance(self.problem, REFUSALS):
            raise self.problem  # a defect of ptokit
        if self.problem is not None:
            print_error(self.shown, "")


def run_launches(
    request: ProgramRequest, args: Sequence[str], *, is_module: bool, keeps: bool = False, command: str = "check"
) -> ScriptRun:
    """Run a file or a module as `python` does, and check its launches."""
    name = request.word
    given = [option for field_, option in FROM_LAUNCHES.items() if getattr(request, field_) not in (None, 1)]
    if given:
        raise Misuse(
            f"{', '.join(given)}: the launches of {name} decide; name a kernel, as in `ptokit {command} {name}:kernel`"
        )
    if not is_module and not os.path.isfile(name):
        raise Misuse(f"there is no file {name}")
    check = LaunchCheck(request, keeps=keeps)
    problem, names = _run(Script(name, args, is_module), check)
    outcome = ScriptRun(name, check, problem)
    if not check.kernels and not isinstance(problem, REFUSALS):
        hint = f"\narguments of {name} go after --" if isinstance(problem, SystemExit) and not args else ""
        raise Misuse((outcome.shown or _without_launches(name, names, command)) + hint) from problem
    return outcome


def check_launches(request: ProgramRequest, args: Sequence[str], as_json: bool, *, is_module: bool) -> int:
    """Run a file or a module, and print what is found in its launches."""
    outcome = run_launches(request, args, is_module=is_module)
    if as_json:
        kernels = [*map(_kernel_data, outcome.kernels)]
        print_json("check", file=outcome.name, kernels=kernels, error=outcome.error)
    else:
        show_kernels(outcome.kernels)
    outcome.explain()
    return FOUND if outcome.problem else status_of(chain.from_iterable(each.findings for each in outcome.kernels))


def _run(script: Script, check: LaunchCheck) -> tuple[BaseException | None, Mapping[str, object]]:
    """Run a script to its end; returns what it raises, and the names that it defines."""
    try:
        with apart(), progress.task(f"{script.name},"), progress.hidden(), LaunchWatcher(check.look).watching():
            return None, script.run()
    except KeyboardInterrupt:
        raise
    except SystemExit as end:
        return (None if end.code in (None, 0) else end), {}
    except BaseException as problem:
        return problem, {}


def _without_launches(name: str, names: Mapping[str, object], command: str) -> str:
    kernels = kernels_of(names)
    if not kernels:
        return f"{name} launches no kernel"
    listed = ", ".join(kernels)
    return f"{name} launches no kernel; its kernels: {listed}; name one: ptokit {command} {name}:{kernels[0]} --arg ..."


def show_kernels(kernels: Sequence[LaunchedKernel]) -> None:
    """All findings by kernel and target, and a line for each target."""
    console = new_console(soft_wrap=True, highlight=False)
    for kernel in (each for each in kernels if each.targets):
        console.print(Text(printable(kernel.heading)))
        for on in kernel.targets.values():
            print_lines((_finding_text(on, finding) for finding in on.report.findings), console)
            console.print(summary_of(on.report))


def _finding_text(on: OnTarget, finding: Finding) -> Text:
    text = finding_text(finding)
    return text.append(f"\n    in {on.launches_with(finding):,} of {on.launches:,} launches" * (on.launches > 1))


def _kernel_data(kernel: LaunchedKernel) -> dict[str, Any]:
    return {
        "kernel": kernel.name,
        "launches": len(kernel.grids),
        "grids": sorted({*kernel.grids}),
        "targets": {name: _on_target_data(on) for name, on in kernel.targets.items()},
    }


def _on_target_data(on: OnTarget) -> dict[str, Any]:
    data = target_data(on.report)
    counts = map(on.launches_with, on.report.findings)
    found = [{**finding, "launches": n} for finding, n in zip(data["findings"], counts, strict=True)]
    return {**data, "findings": found, "launches": on.launches}
