"""What can be launched over a grid, and the launch: verify, then run every block."""

from __future__ import annotations

import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from ptokit.brief import brief
from ptokit.engine.gpu import on_gpu
from ptokit.engine.kept import recall, remember
from ptokit.engine.runnable import Run, Runnable
from ptokit.engine.storage import Storage
from ptokit.engines import AUTO, ENGINES, REFERENCE, chosen, in_order, ordering
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.lang.arrays import within, writing
from ptokit.lang.context import Mode
from ptokit.lang.faults import public, refuse, trim
from ptokit.lang.launch import (
    LAUNCH_OPTIONS,
    MOST_CACHED,
    CachedLaunch,
    FindingCollector,
    Key,
    SmallLaunches,
    Traced,
    TracedMember,
    check_dyn_ub,
    check_options,
    check_threads,
    family_of,
    grid_of,
    in_one_of,
    is_model,
    key_of,
    machine_options,
    mode_of,
    observers,
    refuse_captured,
    refuse_inside,
)
from ptokit.lang.tensor import Arguments, is_integer
from ptokit.machine import MACHINE
from ptokit.machine.report import MachineOptions, MachineReport, Patch, is_enough
from ptokit.program.expr import Expr
from ptokit.program.ir import CPP, CPP_FFTS, MOST_BLOCKS, Argument, Float, Integer, Program
from ptokit.program.order import races
from ptokit.program.repair import Edit, Unpatchable
from ptokit.progress import task

Result = TypeVar("Result")
LaunchRequest = tuple[int, str | None, str, int | None, bool | None, bool | None, int | None, str, object, bool]
"""A grid, and how to launch it: the options of `Launcher.__call__` in their order."""
LaunchGiven = tuple[Key | None, list[object], list[int]]
"""The key of a launch, its arrays, and their addresses."""


class Launches(NamedTuple):
    """The launches that a kernel stands for."""

    made: Sequence[tuple[Launchable, int]]
    """Each with its grid."""
    findings: tuple[Finding, ...] = ()
    """On how the program was made."""
    grid: int | None = None
    """The number of blocks, if the kernel states it itself: the largest."""


@dataclass(frozen=True)
class Definition:
    """Where a kernel is defined, and the kernels that other texts define there."""

    kernel: Any
    origin: ClassVar[str]
    """What the kernel is, if it has no Python function."""

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        """The kernel with edits of its program made in its source. Raises Unpatchable if they cannot be."""
        raise Unpatchable("the kernel has no source")

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> Launchable:
        """The kernel as changed texts define it. One of them may be that of its file; `written` if they are in files.
        Raises Unpatchable."""
        return self.kernel

    def snapshot(self) -> Launchable:
        """The kernel, independent of later changes of the names that it uses."""
        return self.kernel

    def variants(self, patch: Patch) -> Iterator[tuple[str, Launchable, Launchable]]:
        """Other kernels of the same source: their names, as they are, and as a patch makes them."""
        return iter(())

    def run(self, arguments: Arguments, mode: Mode, grid: int, collector: FindingCollector) -> None:
        """Run the kernel's function itself for every block, with real values."""
        name = self.kernel.name
        raise ValueError(f"{name}: debug=True runs a kernel's Python function; this one {self.origin}")


class Launchable(ABC):
    """A kernel, wherever its program comes from: `kernel[grid](arrays..., target="a5")`."""

    def __init__(self, name: str, module: str | None) -> None:
        self.name = name
        self.module = module
        self.warned: dict[Any, Any] = {}
        """The registry of warnings that Python has shown."""
        self.cached: dict[Key, CachedLaunch | SmallLaunches] = {}
        """The cache of small launches, and of families of launches, whose programs are valid for new lengths."""

    @property
    def dyn_ub(self) -> int | None:
        """The dynamic UB that its source asks for at the launch."""
        return None

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def __getitem__(self, grid: object) -> Launcher:
        """The kernel over a grid of blocks."""
        if type(grid) is int and 0 <= grid <= MOST_BLOCKS:  # the common case
            return Launcher(self, grid)
        try:
            return Launcher(self, grid_of(grid))
        except Exception as problem:
            trim(problem)
            raise

    @public
    def __call__(self, /, *_args: object, **_options: object) -> None:
        """A kernel needs a grid."""
        raise refuse("KN-17", f"{self.name} is launched over a grid", f"write {self.name}[blocks](...)")

    @abstractmethod
    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of a launch by kind."""

    @abstractmethod
    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments that are not among these."""

    targets: tuple[str, ...] = ()
    """The only targets that it is for; empty for any."""
    defined_by: type[Definition] = Definition
    mode = "manual"
    """`auto` if ptokit adds its flags."""

    @property
    def definition(self) -> Definition:
        """Its source."""
        return self.defined_by(self)

    def launches(self, _arguments: Arguments, _mode: Mode, grid: int, *, enough: bool = False) -> Launches:
        """The launches over a grid that it stands for, one for most kernels. `enough`: for a check, which may leave
        out blocks."""
        return Launches([(self, grid)])

    def bind_for_check(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of a check, which runs nothing."""
        return self.bind(args, keywords)

    @abstractmethod
    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program for these arguments."""

    def general(self, arguments: Arguments, mode: Mode) -> tuple[Program, Sequence[Expr]]:
        """The program with lengths of arrays as variables, and conditions on them under which it is the program."""
        raise refuse("KN-17", f"{self.name} is no Python kernel: its arrays have lengths", "pass arrays")

    def launched(self, arguments: Arguments, mode: Mode) -> Traced | TracedMember:
        """The program that a launch runs: that for these arguments, or one for these and others."""
        return self.trace(arguments, mode)

    def collector(self) -> FindingCollector:
        """Reports the findings of one launch."""
        return FindingCollector(self.module, self.warned)

    def storages(self, arguments: Arguments) -> dict[str, Storage]:
        """The memory of each array argument of the program."""
        return {name: tensor.storage for name, tensor in arguments.tensors.items()}


class Launcher:
    """A kernel with its grid, ready to be called."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: Launchable, grid: int) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(
        self,
        /,
        *args: object,
        target: str | None = None,
        engine: str = AUTO,
        threads: int | None = None,
        strict: bool | None = None,
        header: bool | None = None,
        dyn_ub: int | None = None,
        launch: str = "standard",
        options: object = None,
        debug: bool = False,
        **keywords: Any,
    ) -> Run:
        """Verify and run: the kernel's own arguments by position or name, and the launch options.

        `target`, `strict`, `header` and `dyn_ub` default to those of the current target. `debug=True` runs the
        function untraced, with real values.
        """
        request = (self.grid, target, engine, threads, strict, header, dyn_ub, launch, options, debug)
        for observer in observers:
            observer(self.kernel, self.grid, args, keywords, dict(zip(LAUNCH_OPTIONS, request[1:], strict=False)))
        try:
            if threads is not None or dyn_ub is not None:
                request = (*request[:3], check_threads(threads), strict, header, check_dyn_ub(dyn_ub), *request[7:])
            given = key_of(request, args, keywords)
            run = self._run_cached(given, args, keywords)
            return self._launch(request, given, args, keywords) if run is None else run
        except Exception as problem:
            trim(problem)
            raise

    def _launch(
        self,
        request: LaunchRequest,
        given: LaunchGiven,
        args: tuple[object, ...],
        keywords: dict[str, Any],
    ) -> Run:
        _, target, engine, threads, strict, header, dyn_ub, launch, options, debug = request
        refuse_inside("a launch")
        check_options(engine, threads, launch, options)
        if is_model(engine):
            if debug:
                raise ValueError("debug=True runs the function itself; the machine runs the program that was traced")
            chosen_options = machine_options(options, launch, dyn_ub)
            mode = mode_of(target, header, strict, chosen_options.dyn_ub)
            with task(f"{self.kernel.name} on {mode.profile.name}", enabled=chosen_options.progress):
                chosen_options = replace(chosen_options, dyn_ub=mode.options.dyn_ub)
                report = self._run_on_machine(args, keywords, mode, chosen_options)
            return self.kernel.collector().judge(report, mode.options.strict, chosen_options.quiet)
        mode = mode_of(target, header, strict, dyn_ub)
        arguments = self.kernel.bind(args, keywords)
        collector = self.kernel.collector()
        if debug:
            self._check_host(arguments, "debug=True")
            name, seconds = REFERENCE, self._run_untraced(arguments, mode, collector)
        else:
            with self._place(arguments, engine):
                traced = self.kernel.launched(arguments, mode)
                name, seconds = self._run(traced, arguments, mode, collector, engine, threads)
                if given[0] is not None:
                    self._add_to_cache(given[0], given[1], traced, arguments, mode, engine)
        return Run(collector.findings, name, seconds, mode.profile.name, self.grid)

    def _run_cached(self, given: LaunchGiven, args: Sequence[object], keywords: Mapping[str, object]) -> Run | None:
        """Run the launch from the cache; None if it is not there or not eligible."""
        kernel, (key, arrays, addresses) = self.kernel, given
        try:
            known = recall(kernel.cached, key) if key is not None else None
        except TypeError:  # an option that is not even hashable
            return None
        if known is None and key is not None and (family := recall(kernel.cached, family_of(key))):
            known = family.at([shape for shape, _ in cast("Any", key[1])])
            if known is not None:
                remember(kernel.cached, key, known, MOST_CACHED)
        if known is None:
            return None
        return known.run(arrays, addresses, lambda: kernel.storages(kernel.bind(args, keywords)))

    def _run(
        self,
        traced: Traced | TracedMember,
        arguments: Arguments,
        mode: Mode,
        collector: FindingCollector,
        engine: str,
        threads: int | None,
    ) -> tuple[str, float]:
        verdict = traced.verdict(mode, self.grid)
        if verdict.errors:
            raise VerifyError(verdict.errors)
        storages = self._storages(arguments, traced)
        if verdict.non_errors:
            collector(verdict.non_errors)
        runnable = self._executable(arguments, traced, mode, engine)
        began = time.perf_counter()
        numbers = {**arguments.numbers, **traced.lengths}
        launch = partial(runnable.launch, storages, numbers, self.grid, collector, threads)
        ran = self._writing(arguments, traced, launch)
        return ran, time.perf_counter() - began

    def _place(self, arguments: Arguments, engine: str) -> AbstractContextManager[object]:
        """A block whose work is done where the arrays are."""
        if arguments.gpu is None:
            return nullcontext()
        chosen(engine, True)  # refuses engines of the host, and says what is missing
        arrays = [cast("Any", tensor.array) for tensor in arguments.tensors.values()]
        refuse_captured(self.kernel.name, arrays)
        return in_order(arrays) or nullcontext()

    def _executable(self, arguments: Arguments, traced: Traced | TracedMember, mode: Mode, engine: str) -> Runnable:
        is_on_gpu = arguments.gpu is not None
        return traced.executable(mode, chosen(engine, is_on_gpu), is_on_gpu or engine != AUTO)

    def _check_host(self, arguments: Arguments, what: str) -> None:
        """Refuse arrays on a GPU."""
        for name, tensor in arguments.tensors.items():
            tensor.check_host(f"{self.kernel.name}: {what} runs on the host, and `{name}`")

    def _run_on_machine(
        self, args: tuple[object, ...], keywords: dict[str, Any], mode: Mode, options: MachineOptions
    ) -> MachineReport:
        """Run on the model of the target. Errors go into the report; those that block execution are raised."""
        arguments = self.kernel.bind(args, keywords)
        self._check_host(arguments, f"engine={MACHINE!r}")
        traced = self.kernel.trace(arguments, mode)
        verdict = traced.verdict(mode, self.grid)
        if any(finding.blocks for finding in verdict.errors):
            raise VerifyError(verdict.errors)
        storages, certain = self._storages(arguments, traced), (*verdict.errors, *verdict.non_errors)
        bounded: tuple[Finding, ...] = ()
        if is_enough(options.blocks) and (part := traced.checked_part):
            traced, options = part.traced, replace(options, blocks=part.blocks)
            bounded = (part.finding(self.grid),)
        machine = traced.machine(mode)
        run = partial(machine.run, storages, arguments.numbers, self.grid, options, certain)
        report = self._writing(arguments, traced, run)
        report = replace(report, findings=(*report.findings, *(each.on(report.target) for each in bounded)))
        patched = partial(self._patched, arguments, mode, machine.program, is_part=bool(bounded))
        return replace(report, patched=patched, pages=_write_page)

    def _patched(
        self,
        arguments: Arguments,
        mode: Mode,
        program: Program,
        edits: Sequence[Edit],
        is_right: Callable[[Program], bool],
        *,
        is_part: bool,
    ) -> Patch:
        """Edits in the kernel's source, if its program is then right: for both vector cores, else for each its own."""
        patch = self._patched_once(arguments, mode, program, edits, is_right, is_part=is_part)
        if patch.refusal and program.form in (CPP, CPP_FFTS) and program.vector_cores > 1:
            apart = [replace(edit, is_apart=True) for edit in edits]
            again = self._patched_once(arguments, mode, program, apart, is_right, is_part=is_part)
            return patch if again.refusal else again
        return patch

    def _patched_once(
        self,
        arguments: Arguments,
        mode: Mode,
        program: Program,
        edits: Sequence[Edit],
        is_right: Callable[[Program], bool],
        *,
        is_part: bool,
    ) -> Patch:
        try:
            patch = self.kernel.definition.rewritten(program, edits)
            for name, before, after in self.kernel.definition.variants(patch):
                if not _agrees(before, after, arguments, mode):
                    raise Unpatchable(f"{name} is made of the same lines, and has other needs")
            traced = patch.kernel.trace(arguments, mode)
            part = traced.checked_part if is_part else None
            if is_right((part.traced if part else traced).machine(mode).program):
                return patch
            why = "the lines concerned are used several times, with different needs"
        except Unpatchable as problem:
            why = str(problem)
        except Exception as problem:  # of the changed source
            why = f"the changed source fails: {type(problem).__name__}: {problem}"
        return Patch(refusal=why)

    def _storages(self, arguments: Arguments, traced: Traced | TracedMember) -> dict[str, Storage]:
        """The memory of the arguments; those that the program writes must be writable."""
        storages = self.kernel.storages(arguments)
        for name in traced.writes:
            if not storages[name].writable:
                raise ValueError(f"{self.kernel.name}: {name} is read-only; pass a writable array")
        return storages

    def _writing(self, arguments: Arguments, traced: Traced | TracedMember, run: Callable[[], Result]) -> Result:
        """The run of a program, which writes some of its arguments; a run that fails may have written some blocks."""
        try:
            notified = writing(
                [arguments.tensors[name].source for name in traced.stored if name in arguments.tensors], in_part=True
            )
            return within(None, notified, run)
        except (VerifyError, OutOfBoundsError) as problem:
            raise in_one_of(self.grid, problem) from None

    def _add_to_cache(
        self,
        key: Key,
        given: Sequence[object],
        traced: Traced | TracedMember,
        arguments: Arguments,
        mode: Mode,
        engine: str,
    ) -> None:
        """Add a launch to the cache, if it is eligible."""
        kernel, tensors = self.kernel, arguments.tensors
        arrays = [tensor.array for tensor in tensors.values()]
        is_given = [*map(id, given)] == [id(each.owner if on_gpu(each) else each) for each in arrays]
        is_on_gpu, is_plain = arguments.gpu is not None, all(array.flags.c_contiguous for array in arrays)
        is_copied = not is_on_gpu and ENGINES[chosen(engine)].on_gpu
        if not is_plain or not is_given or arguments.floats or arguments.shared() or is_copied:
            return
        stored = [tensor.source if name in traced.stored else None for name, tensor in tensors.items()]
        launches = SmallLaunches(
            self._executable(arguments, traced, mode, engine),
            mode,
            self.grid,
            arguments.numbers,
            {name: tensor.dtype.size for name, tensor in tensors.items()},
            [at for at, source in enumerate(stored) if source is not None],
            kernel.collector,
            ordering(cast("Any", arrays)) if is_on_gpu else None,
            traced.family,
        )
        launch = launches.at([array.shape for array in arrays], traced)
        if launch is not None:
            remember(kernel.cached, key, launch, MOST_CACHED)
            if traced.family is not None:
                remember(kernel.cached, family_of(key), launches, MOST_CACHED)

    def _run_untraced(self, arguments: Arguments, mode: Mode, collector: FindingCollector) -> float:
        began = time.perf_counter()
        self.kernel.definition.run(arguments, mode, self.grid, collector)
        return time.perf_counter() - began


def _agrees(before: Launchable, after: Launchable, arguments: Arguments, mode: Mode) -> bool:
    """Whether a patch suits another kernel of the same source too: it lacked order before, and does not after. A kernel
    that does not take these arguments is not asked."""
    found: list[bool] = []
    for kernel in (before, after):
        try:
            program = kernel.trace(arguments, mode).machine(mode).program
        except Exception:
            return True
        found.append(bool(races(program, mode.profile)))
    return found == [True, False]


def quiet_report(launcher: Launcher, *args: object, options: object = None, **keywords: Any) -> MachineReport:
    """The report of a launch on the machine, for callers that show it: without a warning, and also for a strict launch
    with faults."""
    chosen = replace(machine_options(options, "standard", None), quiet=True)
    try:
        return cast("MachineReport", launcher(*args, engine=MACHINE, options=chosen, **keywords))
    except VerifyError as refusal:
        if refusal.report is None:
            raise
        return cast("MachineReport", refusal.report)


def _write_page(path: str | os.PathLike[str], reports: Sequence[MachineReport]) -> None:
    """Write reports as a page."""
    from ptokit.report.model import write_page

    write_page(path, reports)


# --- kernels that are no Python functions


class ForeignKernel(Launchable):
    """A kernel that is no Python function."""

    parameters: dict[str, str]
    """The parameters in order, and their kinds: `array`, `integer` or `float`."""

    def named_arguments(self, args: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by name."""
        positional = dict(zip(self.parameters, args, strict=False))
        unknown = [name for name in keywords if name not in self.parameters]
        twice = [name for name in keywords if name in positional]
        if len(args) > len(self.parameters) or unknown or twice:
            message = f"unknown {', '.join(unknown)}" if unknown else "given twice" if twice else "too many arguments"
            raise TypeError(f"{self.name}: {message}; it takes {self._listed()}")
        return {**positional, **keywords}

    def refuse_missing(self, given: Mapping[str, object]) -> None:
        """Refuse a call without some arguments."""
        if missing := self.missing(given):
            raise TypeError(f"{self.name}: missing {', '.join(missing)}; it takes {self._listed()}")

    def _listed(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.parameters.items()) or "no arguments"


def integer_argument(name: str, value: object) -> int:
    """A whole number."""
    if not is_integer(value):
        raise refuse("KN-17", f"`{name}` takes a whole number; found {brief(value)}", "pass an int", name)
    return operator.index(cast("int", value))


def sharing(program: Program, shared: Mapping[str, str]) -> Program:
    """The program, with memory shared by arguments that were passed the same array."""
    if not shared:
        return program

    def joined(argument: Argument | Integer | Float) -> Argument | Integer | Float:
        if not isinstance(argument, Argument):
            return argument
        return replace(argument, memory=shared.get(argument.array, ""))

    return replace(program, arguments=tuple(map(joined, program.arguments)))
