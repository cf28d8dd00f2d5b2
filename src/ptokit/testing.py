"""A pytest plugin: the fixture `ptokit`, which launches kernels on the machine, the option `--ptokit-strict`, and
`cxx_entries`, the kernels of a C++ source as parameters of a test.

Most of ptokit is imported when a test first uses it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import pytest

from ptokit.finding import NAME, Judged, OutOfBoundsError, VerifyError, summary
from ptokit.lang.faults import trim
from ptokit.target import families

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from ptokit.finding import Finding
    from ptokit.lang.check import WatchedLaunch
    from ptokit.lang.launcher import Launchable
    from ptokit.machine.report import MachineReport

OPTION = "--ptokit-strict"
ALL = "all"


@dataclass(frozen=True, repr=False)
class Reports(Judged):
    """The reports of one kernel on several targets: `reports["a5"]`."""

    targets: dict[str, MachineReport]

    def __getitem__(self, target: str) -> MachineReport:
        """The report of one target."""
        return self.targets[target]

    @property
    def findings(self) -> tuple[Finding, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The findings of all targets."""
        return tuple(finding for report in self.targets.values() for finding in report.findings)

    def __repr__(self) -> str:
        kernel = next(iter(self.targets.values())).kernel[:NAME]
        return f"<Reports {kernel} on {', '.join(self.targets)}: {summary(self.findings)}>"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.targets.values()))


class MachineFixture:
    """The fixture `ptokit`: launches on the machine, and fails tests on its findings."""

    @overload
    def run(  # pyright: ignore[reportOverlappingOverload]
        self, kernel: Launchable, grid: int, /, *arrays: object, target: Literal["all"], **options: Any
    ) -> Reports: ...
    @overload
    def run(
        self, kernel: Launchable, grid: int, /, *arrays: object, target: str = "a5", **options: Any
    ) -> MachineReport: ...
    def run(
        self, kernel: Launchable, grid: int, /, *arrays: object, target: str = "a5", **options: Any
    ) -> MachineReport | Reports:
        """Launch a kernel on the machine, and return its report.

        `options` are those of the launch (`dyn_ub=`, `launch=`), those of the machine (`seed=`, `lanes=`, ...) and
        arguments of the kernel by name. With `target="all"` the kernel is launched on every device: on copies of the
        arrays first, and on the arrays themselves for the last, `a5`. The refusals of a device are then in its report.
        """
        from ptokit.lang.check import machine_report, paused

        __tracebackhide__ = True
        try:
            with paused():  # the test checks this report itself
                if target == ALL:
                    return _on_all(kernel, grid, arrays, options)
                return machine_report(kernel, grid, arrays, {"target": target, **options})
        except Exception as problem:
            trim(problem)
            raise

    def check(
        self, found: MachineReport | Reports | Launchable, /, *launch: Any, notes: bool = False, **options: Any
    ) -> MachineReport | Reports:
        """Fail the test if a report is not clean. Takes a report, or the arguments of `run`."""
        __tracebackhide__ = True
        try:
            report: Any = found if hasattr(found, "findings") else self.run(cast("Any", found), *launch, **options)
        except Exception as problem:
            trim(problem)
            raise
        if not report.ok:
            pytest.fail(_text(report, notes=notes))
        return report


def _on_all(kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]) -> Reports:
    """A launch on every device, each on the same content."""
    from ptokit.lang.check import only, with_copies

    own, devices = only(options, getattr(kernel, "parameters", ())), families()
    content = {target: with_copies(arrays, own) for target in devices[:-1]}  # all of them before the first launch
    content[devices[-1]] = arrays, own
    return Reports({
        target: _report_or_refusal(kernel, grid, values, {**options, **named, "target": target})
        for target, (values, named) in content.items()
    })  # fmt: skip


def _report_or_refusal(
    kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]
) -> MachineReport:
    """A report; a refusal becomes a report as well."""
    from ptokit.lang.check import machine_report
    from ptokit.machine import MACHINE
    from ptokit.machine.report import MachineReport

    try:
        return machine_report(kernel, grid, arrays, options)
    except (VerifyError, OutOfBoundsError) as refusal:
        return MachineReport(refusal.findings, MACHINE, 0.0, options["target"], grid, kernel=kernel.name)


def _text(found: Any, kernel: str = "", *, notes: bool = False) -> str:
    """The findings with the kernel's name: of a run on the machine, of a check, or of either on several targets."""
    from ptokit.machine.report import heading, shown_findings, verdict

    kernel = kernel or getattr(found, "kernel", "")
    if hasattr(found, "targets"):
        return "\n".join(_text(report, kernel, notes=notes) for report in found.targets.values() if not report.ok)
    head = heading(found) if hasattr(found, "grid") else f"{found.target}: {verdict(found.findings)}"
    return "\n".join([f"{kernel} {head}".strip(), *map(str, shown_findings(found.findings, notes=notes))])


# --- every launch of a test --------------------------------------------------------------------------------------


class Strict:
    """Runs every launch on the machine as well, on copies of its arrays, and records reports that are not clean."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        """The texts of the reports, without repeats, in the order of the launches."""

    def look(self, launch: WatchedLaunch) -> None:
        """Called before a launch. Errors that the launch itself raises are ignored here."""
        try:
            if launch.checked().refused:
                return
            report = _without_raised(launch.report())
        except (VerifyError, OutOfBoundsError, TypeError, ValueError):
            return
        if not report.ok:
            self.texts[_text(report)] = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While a phase of a test runs."""
        from ptokit.lang.check import LaunchWatcher

        with LaunchWatcher(self.look).watching():
            yield

    def take_texts(self) -> str:
        """The texts so far; removes them."""
        texts, self.texts = "\n\n".join(self.texts), {}
        return texts

    def _phase(self, item: pytest.Item, when: str) -> Generator[None, object, object]:
        try:
            with self.watching():
                result = yield
        except BaseException:
            if texts := self.take_texts():
                item.add_report_section(when, OPTION, texts)
            raise
        if texts := self.take_texts():
            pytest.fail(f"{OPTION}: {texts}", pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fixtures may launch kernels."""
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """The test itself."""
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fixtures may launch kernels in their teardown."""
        return (yield from self._phase(item, "teardown"))


def _without_raised(report: MachineReport) -> MachineReport:
    """A report without errors that the launch itself raises; only the machine checks addresses at run time."""
    from ptokit import spec
    from ptokit.machine import MACHINE
    from ptokit.program.verify_call import CHECKS

    known, of_addresses = spec.hazards(), {name for check in CHECKS for name in check.names}

    def is_raised(finding: Any) -> bool:
        if finding.level != "error" or finding.kind not in known or finding.kind in of_addresses:
            return False
        return known[finding.kind].seen_by != MACHINE

    return replace(report, findings=tuple(finding for finding in report.findings if not is_raised(finding)))


# --- C++ sources ---------------------------------------------------------------------------------------------------


def cxx_entries(file: str | os.PathLike[str], target: str | None = None) -> list[ParameterSet]:
    """The entries of a C++ source, each a kernel with its name as the test's id: `@parametrize("kernel", ...)`.

    They are the functions that launch kernels, or the kernels if there is none. `target` is compiled for first.
    """
    from ptokit.lang.recorded import load_entries

    kernels = load_entries(os.fspath(file), target)
    if not kernels:
        raise ValueError(f"{os.fspath(file)} has no function that launches a kernel")
    return [pytest.param(kernel, id=kernel.name) for kernel in kernels]


# --- pytest ------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--ptokit-strict`."""
    message = "run every launch on the machine as well, and fail tests on errors and hazards"
    parser.getgroup("ptokit").addoption(OPTION, action="store_true", help=message)


def pytest_configure(config: pytest.Config) -> None:
    """Observe all tests, if the option is given."""
    if config.getoption(OPTION):
        config.pluginmanager.register(Strict(), "ptokit-strict")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Show the findings of the report under a failed `assert report.ok`."""
    if call.excinfo is not None and isinstance(call.excinfo.value, AssertionError):
        _add_findings(call.excinfo.value)
    return (yield)


def _add_findings(problem: AssertionError) -> None:
    """Append the findings of every report that the explanation of an assertion names.

    pytest shows the values in an assertion by their `repr`, and keeps them in the frame until the assertion holds.
    """
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    message = str(problem)
    values: list[Any] = [*trace.tb_frame.f_locals.values(), *trace.tb_frame.f_globals.values()] if trace else []
    reports = {id(value): value for value in values if _is_report(value) and not value.ok and repr(value) in message}
    if reports:
        problem.args = ("\n".join([message, *map(_text, reports.values())]),)


def _is_report(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.startswith("ptokit.") and hasattr(kind, "ok") and hasattr(value, "findings")


@pytest.fixture
def ptokit() -> MachineFixture:
    """Kernels on the machine: `ptokit.run(kernel, grid, *arrays)` and `ptokit.check(report)`."""
    return MachineFixture()
