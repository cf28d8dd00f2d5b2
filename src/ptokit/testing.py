"""A pytest plugin: the fixture `ptokit`, which launches kernels on the machine, and the option `--ptokit-strict`.

Most of ptokit is imported when a test first uses it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import pytest

from ptokit.finding import NAME, OutOfBoundsError, VerifyError, summary
from ptokit.isa.instruction import DEVICES
from ptokit.lang.faults import trim

if TYPE_CHECKING:
    import numpy as np

    from ptokit.finding import Finding
    from ptokit.lang.launcher import Launchable
    from ptokit.lang.tensor import GlobalTensor
    from ptokit.machine.report import MachineReport

    Array = np.ndarray[Any, np.dtype[Any]]

OPTION = "--ptokit-strict"
ALL = "all"
LINE = 64
"""Bytes to which copies of arrays keep their alignment."""
PASSED_ON = ("target", "strict", "header", "dyn_ub", "launch")
"""Options of a launch that apply on the machine, too."""


@dataclass(frozen=True, repr=False)
class Reports:
    """The reports of one kernel on several targets: `reports["a5"]`."""

    targets: dict[str, MachineReport]

    def __getitem__(self, target: str) -> MachineReport:
        """The report of one target."""
        return self.targets[target]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all targets."""
        return tuple(finding for report in self.targets.values() for finding in report.findings)

    @property
    def ok(self) -> bool:
        """Whether no target has an error or a hazard."""
        return all(report.ok for report in self.targets.values())

    def __repr__(self) -> str:
        kernel = next(iter(self.targets.values())).kernel[:NAME]
        return f"<Reports {kernel} on {', '.join(self.targets)}: {summary(self.findings)}>"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.targets.values()))


class MachineFixture:
    """The fixture `ptokit`: launches on the machine, and fails tests on its findings."""

    def __init__(self, strict: Strict | None = None) -> None:
        self._strict = strict

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
        __tracebackhide__ = True
        try:
            with self._strict.paused() if self._strict else nullcontext():  # the test checks this report itself
                if target == ALL:
                    return _on_all(kernel, grid, arrays, options)
                return _report(kernel, grid, arrays, {"target": target, **options})
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


def _report(kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]) -> MachineReport:
    """A launch on the machine; options that only the machine has become `MachineOptions`."""
    from ptokit.machine import MACHINE
    from ptokit.machine.options import MachineOptions

    parameters = getattr(kernel, "parameters", ())
    own = {field.name for field in fields(MachineOptions)} - {*PASSED_ON, *parameters}
    chosen = replace(options.get("options") or MachineOptions(), **_only(options, own))
    rest = {name: value for name, value in options.items() if name not in own and name != "options"}
    return cast("MachineReport", kernel[grid](*arrays, engine=MACHINE, options=chosen, **rest))


def _on_all(kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]) -> Reports:
    """A launch on every device, each on the same content."""
    own = _only(options, getattr(kernel, "parameters", ()))
    content = {target: _with_copies(arrays, own) for target in DEVICES[:-1]}  # all of them before the first launch
    content[DEVICES[-1]] = arrays, own
    return Reports({
        target: _report_or_refusal(kernel, grid, values, {**options, **named, "target": target})
        for target, (values, named) in content.items()
    })  # fmt: skip


def _report_or_refusal(
    kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]
) -> MachineReport:
    """A report; a refusal becomes one, too."""
    from ptokit.machine import MACHINE
    from ptokit.machine.report import MachineReport

    try:
        return _report(kernel, grid, arrays, options)
    except (VerifyError, OutOfBoundsError) as refusal:
        return MachineReport(refusal.findings, MACHINE, 0.0, options["target"], grid, kernel=kernel.name)


def _only(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


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
        self._is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Launches in this block are not observed."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def observe(
        self,
        kernel: Launchable,
        grid: int,
        args: Sequence[object],
        keywords: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """Called before a launch. Errors that the launch itself raises are ignored here."""
        from ptokit.lang.check import check
        from ptokit.lang.context import current

        if self._is_paused:
            return
        common = _only(options, PASSED_ON)
        target = common.pop("target", None) or current().mode.profile.name
        with self.paused():
            try:
                if not check(kernel, *args, grid=grid, target=target, **common, **keywords).accepted:
                    return
                copies, named = _with_copies(args, keywords)
                requested = {**common, "target": target, "options": options.get("options"), **named}
                report = _without_raised(_report(kernel, grid, copies, requested))
            except (VerifyError, OutOfBoundsError, TypeError, ValueError):
                return
        if not report.ok:
            self.texts[_text(report)] = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While a phase of a test runs."""
        from ptokit.lang import launch

        launch.observers.append(self.observe)
        try:
            yield
        finally:
            launch.observers.remove(self.observe)

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
        """Fixtures launch kernels, too."""
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """The test itself."""
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fixtures launch kernels in their teardown, too."""
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


# --- copies ------------------------------------------------------------------------------------------------------


def _with_copies(args: Sequence[object], keywords: Mapping[str, Any]) -> tuple[Sequence[object], Mapping[str, Any]]:
    copies = copied([*args, *keywords.values()])
    return copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True))


def copied(values: Sequence[object]) -> list[object]:
    """Arguments of a launch with copies of their arrays; the copies share memory as the arrays do."""
    from ptokit.lang.tensor import GlobalTensor

    arrays = {k: array for k, value in enumerate(values) if (array := _array(value)) is not None}
    copies = dict(zip(arrays, _copies(list(arrays.values())), strict=True))
    return [
        _over(value, copies[k]) if isinstance(value, GlobalTensor) else copies.get(k, value)
        for k, value in enumerate(values)
    ]


def _array(value: object) -> Array | None:
    import numpy as np

    from ptokit.lang.arrays import as_array, is_foreign
    from ptokit.lang.tensor import GlobalTensor

    if isinstance(value, GlobalTensor):
        return value.array
    return as_array(value) if isinstance(value, np.ndarray) or is_foreign(value) else None


def _copies(arrays: Sequence[Array]) -> list[Array]:
    import numpy as np

    ends = [np.lib.array_utils.byte_bounds(array) for array in arrays]
    bounds = [(first, max(end, first + 1)) for first, end in ends]  # an empty array has an address, too
    memories = [_memory(first, end) for first, end in _joined(bounds)]
    found: list[Array] = []
    for array, (first, _) in zip(arrays, bounds, strict=True):
        start, memory = next((start, memory) for start, memory in memories if start <= first < start + memory.size)
        begin = array.__array_interface__["data"][0] - start
        copy = np.ndarray(array.shape, array.dtype, memory, begin, array.strides)
        copy[...] = array
        copy.flags.writeable = array.flags.writeable
        found.append(copy)
    return found


def _joined(bounds: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of addresses, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(bounds):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return found


def _memory(first: int, end: int) -> tuple[int, Array]:
    """New bytes for a range of addresses, as aligned as it is."""
    import numpy as np

    memory = np.zeros(end - first + LINE, np.uint8)
    skipped = (first - memory.ctypes.data) % LINE
    return first, memory[skipped : skipped + end - first]


def _over(tensor: GlobalTensor, array: Array) -> GlobalTensor:
    """The same tensor over another array."""
    from ptokit.lang.tensor import GlobalTensor

    kind: dict[str, Any] = {"layout": tensor.layout, "dtype": tensor.dtype}
    if tensor.is_plain or not array.flags.c_contiguous:
        return GlobalTensor(array, **kind)
    copy = GlobalTensor(array, shape=tensor.shape5, stride=tensor.stride5, **kind)
    copy.spec = tensor.spec  # with extents that are known at run time
    return copy


# --- pytest ------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--ptokit-strict`."""
    message = "run every launch on the machine as well, and fail tests on errors and hazards"
    parser.getgroup("ptokit").addoption(OPTION, action="store_true", help=message)


STRICT = pytest.StashKey[Strict]()


def pytest_configure(config: pytest.Config) -> None:
    """Observe all tests, if the option is given."""
    if config.getoption(OPTION):
        config.stash[STRICT] = strict = Strict()
        config.pluginmanager.register(strict, "ptokit-strict")


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
def ptokit(request: pytest.FixtureRequest) -> MachineFixture:
    """Kernels on the machine: `ptokit.run(kernel, grid, *arrays)` and `ptokit.check(report)`."""
    return MachineFixture(request.config.stash.get(STRICT, None))
