"""Kernels of C++ sources: recorded with the arrays of a launch, and launched like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np

from ptokit.cxx.call_shapes import MOST_UNLIKE, foldable
from ptokit.cxx.compile import CompileError, CompileOptions
from ptokit.cxx.entries import CppEntry
from ptokit.cxx.lines import ElfError
from ptokit.cxx.parameters import Parameter
from ptokit.cxx.problems import OWN_CODE, problem_findings
from ptokit.cxx.program import program_of
from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.cxx.recording import RecordedLaunch, Recording
from ptokit.cxx.uses import ArrayUse, array_uses
from ptokit.engine.runnable import Run
from ptokit.engine.storage import Storage
from ptokit.engines import AUTO
from ptokit.finding import OPAQUE, Finding, VerifyError
from ptokit.isa.dtype import DType, dtype
from ptokit.lang.context import Mode
from ptokit.lang.cpp_edits import edited_texts
from ptokit.lang.cpp_entries import (
    CppSource,
    chosen_entry,
    compile_findings,
    element_of,
    entries_of,
    kind_of,
    scalar_of,
    source_of,
)
from ptokit.lang.faults import public, refuse
from ptokit.lang.launch import PartOfLaunch, Traced, grid_of, machine_options, mode_of
from ptokit.lang.launcher import (
    Definition,
    ForeignKernel,
    Launchable,
    Launcher,
    Launches,
    integer_argument,
    quiet_report,
    sharing,
)
from ptokit.lang.tensor import Arguments, GlobalTensor, array_argument
from ptokit.lang.values import Informer
from ptokit.machine import MACHINE
from ptokit.machine.report import MachineReport, Patch, is_enough
from ptokit.program.clip import clipped, steps
from ptokit.program.ir import Program, TileDecl, walk
from ptokit.program.periods import gaps
from ptokit.program.repair import Edit, Unpatchable
from ptokit.target import compiler_of, families_in_cpp

WORKSPACE = 1 << 16
"""Bytes of memory for a pointer that no array is passed for."""
MOST_STEPS = 150_000
"""Steps of a launch that a check runs. A call is a step, and a call on large tiles several."""
MOST_RECORDINGS = 8
"""Recordings that are kept."""


@public
def load_cpp(
    file: str,
    function: str | None = None,
    target: str | None = None,
    options: CompileOptions | None = None,
) -> CppKernel:
    """A kernel of a C++ source: `function` names one of several entries. Without `options`, those of the source's
    compile database are used."""
    Path(file).stat()  # raises for a file that there is not
    source, target = source_of(file, target, options)
    build = source.first_build(target or "")
    return CppKernel(source, chosen_entry(build, function), build.target)


@public
def load_entries(file: str, target: str | None = None) -> list[CppKernel]:
    """The kernels of all entries of a C++ source that are judged: functions that launch kernels, else kernels."""
    source, target = source_of(file, target)
    build = source.first_build(target or "")
    return [CppKernel(source, entry, build.target) for entry in entries_of(build)]


@dataclass(frozen=True)
class RecordedLaunches:
    """What an entry did with some arguments: the program and the grid of each launch."""

    recording: Recording
    traced: tuple[Traced, ...]
    grids: tuple[int, ...]
    allocated: Mapping[str, np.ndarray[Any, Any]]
    """Device memory that the host code allocated."""
    findings: tuple[Finding, ...]
    is_part: bool = False
    """Whether blocks are left out of a program: it is for checks only."""

    @property
    def is_idle(self) -> bool:
        """Whether no block does anything but to place tiles."""
        return all(isinstance(stmt, TileDecl) for traced in self.traced for stmt in walk(traced.program.body))


class RecordedProgram(Traced):
    """The program of a launch that was recorded."""

    def __init__(self, program: Program, launch: RecordedLaunch) -> None:
        super().__init__(program)
        self.launch = launch

    @property
    def checked_part(self) -> PartOfLaunch | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What a check runs of a large launch; None for all of it."""
        return part_of(self.launch, self)


class CppDefinition(Definition):
    """The source of an entry."""

    kernel: CppKernel
    origin = "is C++"

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        source = self.kernel.source
        before = {file: source.texts.text(file) for file in _files(program)}
        if missing := [file for file, text in before.items() if not text]:
            raise Unpatchable(f"{missing[0]} cannot be read")
        after = edited_texts(before, program, edits)
        if other := [file for file in after if not source.may_change(file)]:
            raise Unpatchable(f"{other[0]} is no file of the repository that the source includes, or is behind a link")
        return Patch({file: before[file] for file in after}, after, self.with_texts(after))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> CppKernel:
        kernel = self.kernel
        return CppKernel(kernel.source.changed(texts), kernel.entry, kernel.target, kernel.grid) if texts else kernel


class CppKernel(ForeignKernel):
    """An entry of a C++ source: `kernel[grid](x, y, target="a5")`. The grid of a launch function is its own."""

    defined_by = CppDefinition

    @property
    def targets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where it can run."""
        return families_in_cpp()

    def __init__(self, source: CppSource, entry: CppEntry, target: str, grid: int = 1) -> None:
        super().__init__(entry.name, None)
        self.source, self.entry, self.target, self.grid = source, entry, target, grid
        self.parameters = {name: kind_of(each) for name, each in self._named().items() if not each.is_stream}
        """The parameters in order, and their kinds: `array`, `integer`, `float`, or `null` for a pointer that no array
        need be passed for."""
        self._recorded: dict[tuple[Any, ...], RecordedLaunches | VerifyError] = {}
        self._uses: dict[tuple[Any, ...], dict[str, ArrayUse]] = {}

    def _named(self) -> dict[str, Parameter]:
        return {each.name or f"p{number}": each for number, each in enumerate(self.entry.parameters)}

    def __getitem__(self, grid: object) -> Launcher:
        """The kernel over a grid of blocks."""
        return CppLauncher(self.for_grid(grid_of(grid)), grid_of(grid))

    def for_grid(self, grid: int) -> CppKernel:
        """The kernel over a grid."""
        if grid == self.grid:
            return self
        return CppKernel(self.source, self.entry, self.target, grid)

    def dtype(self, name: str) -> DType | None:
        """The element type of a parameter; None if it takes any."""
        return element_of(self._named()[name])

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of a launch by kind."""
        given = self.named_arguments(args, keywords)
        self.refuse_missing(given)
        tensors, integers, floats = dict[str, GlobalTensor](), dict[str, int](), dict[str, object]()
        for name, kind in self.parameters.items():
            value = given.get(name)
            if kind == "null" and value is None:
                continue
            if kind in ("array", "null"):
                tensors[name] = self._tensor(name, value)
            elif kind == "integer":
                integers[name] = integer_argument(name, value)
            else:
                floats[name] = float(cast("float", value))
        return Arguments(tensors, integers, floats)

    def _tensor(self, name: str, value: object) -> GlobalTensor:
        tensor = value if isinstance(value, GlobalTensor) else array_argument(name, value)
        expected = self.dtype(name)
        if not tensor.array.flags.c_contiguous:
            raise refuse("KN-17", f"`{name}` must be contiguous", "pass np.ascontiguousarray(a)", name)
        if expected is not None and tensor.dtype is not expected:
            fix = f'pass an array of {expected}: {name}.astype("{expected}")'
            if expected.size == tensor.dtype.size:
                fix += f', or the same bits: {name}.view("{expected}"), {expected}:FILE.npy on the command line'
            raise refuse("KN-17", f"`{name}` holds {expected} in the source; found {tensor.dtype}", fix, name)
        return tensor

    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments that are not among these."""
        return [name for name, kind in self.parameters.items() if kind != "null" and name not in given]

    # --- recordings

    def recorded(self, arguments: Arguments, mode: Mode, *, enough: bool = False) -> RecordedLaunches:
        """What the entry does with these arguments; `enough`: with as many blocks as a check needs. Raises
        VerifyError."""
        family = mode.profile.family
        target = family if compiler_of(family) else self.target
        content = (target, self.grid, *_content(arguments))
        key = (enough, *content)
        if key not in self._recorded:
            if len(self._recorded) >= MOST_RECORDINGS:
                self._recorded.clear()
            try:
                self._recorded[key] = self._record(arguments, target, enough)
            except VerifyError as refusal:
                self._recorded[key] = refusal
            made = self._recorded[key]
            if enough and not (isinstance(made, RecordedLaunches) and made.is_part):
                self._recorded[False, *content] = made
        found = self._recorded[key]
        if isinstance(found, VerifyError):
            raise VerifyError(found.findings, found.grid)
        return found

    def uses(self, keywords: Mapping[str, object]) -> dict[str, ArrayUse]:
        """How the calls of the entry use each array."""
        arguments = self.bind((), keywords)
        key = tuple(_content(arguments))
        if key not in self._uses:
            if len(self._uses) >= MOST_RECORDINGS:
                self._uses.clear()
            try:
                self._uses[key] = array_uses(self._recording(arguments, self.target))
            except VerifyError:
                self._uses[key] = {}
        return self._uses[key]

    def _recording(self, arguments: Arguments, target: str) -> Recording:
        build = self.source.build(target)
        grid = self.grid if self.entry.kind == "kernel" else None
        passed = [*self._passed(arguments)]
        try:
            inform = Informer(target).inform
            found = record(build, self.entry.name, passed, grid, self.source.limits, inform=inform, subblocks=None)
            if self.source.unknown is None:
                return found
            return self.source.unknown.judged(found, build.source, self.source.options, self.entry.name, passed, grid)
        except CompileError as error:
            raise VerifyError(compile_findings(error, target, self.source.texts)) from error
        except ElfError as error:
            raise VerifyError([Finding("error", OWN_CODE, str(error), target=target)]) from error

    def _record(self, arguments: Arguments, target: str, enough: bool) -> RecordedLaunches:
        recording = self._recording(arguments, target)
        found = problem_findings(recording)
        if any(problem.fatal for problem in recording.problems):
            raise VerifyError((finding.on(target) for finding in found), self._own_grid(recording))
        if not recording.launches:
            message = f"{self.name} launched no kernel"
            fix = "give arguments with which it does, or name another entry"
            raise VerifyError([Finding("error", OWN_CODE, message, fix=fix, target=target)])
        left_out: list[Finding] = []
        if enough:
            kept = [foldable(recording, launch) for launch in recording.launches]
            pairs = zip(recording.launches, kept, strict=True)
            left_out = [_left_out(whole, part).on(target) for whole, part in pairs if whole is not part]
            recording = replace(recording, launches=tuple(kept))
        try:
            programs = [(program_of(recording, launch, self.source.texts), launch) for launch in recording.launches]
        except VerifyError as refusal:
            raise VerifyError(refusal.findings, self._own_grid(recording)) from refusal
        return RecordedLaunches(
            recording,
            tuple(RecordedProgram(sharing(program, arguments.shared()), launch) for program, launch in programs),
            tuple(launch.grid for launch in recording.launches),
            _allocated(recording, arguments),
            (*found, *left_out),
            bool(left_out),
        )

    def _passed(self, arguments: Arguments) -> Iterator[ArrayArgument | ScalarArgument]:
        for name, parameter in self._named().items():
            kind = kind_of(parameter)
            if name in arguments.tensors:
                yield ArrayArgument(name, cast("Any", arguments.tensors[name].array))
            elif kind == "null" and parameter.is_stream:
                yield ScalarArgument(name, "uint64", None)
            elif kind == "null":
                yield ArrayArgument(name, np.zeros(WORKSPACE, np.uint8))
            else:
                value = arguments.integers[name] if kind == "integer" else arguments.constants[name]
                yield ScalarArgument(name, scalar_of(parameter).name, cast("float", value))

    def launches(self, arguments: Arguments, mode: Mode, grid: int, *, enough: bool = False) -> Launches:
        """The launches that the entry makes, and what the recording says besides."""
        recorded = self.for_grid(grid).recorded(arguments, mode, enough=enough)
        made = [(CppLaunch(self, number, recorded), grid) for number, grid in enumerate(recorded.grids)]
        more = (_idle(self.name).on(mode.profile.name),) if enough and recorded.is_idle else ()
        return Launches(made, (*recorded.findings, *more), self._own_grid(recorded.recording))

    def _own_grid(self, recording: Recording) -> int | None:
        """The number of blocks of the largest launch, if the entry states it itself."""
        return max((each.grid for each in recording.launches), default=None) if self.entry.kind == "launch" else None

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program of the first launch."""
        return self.recorded(arguments, mode).traced[0]


class CppLaunchDefinition(Definition):
    """The source of the entry that makes a launch."""

    kernel: CppLaunch
    origin = CppDefinition.origin

    def rewritten(self, program: Program, edits: Sequence[Edit]) -> Patch:
        patch = self.kernel.owner.definition.rewritten(program, edits)
        return replace(patch, kernel=self.kernel.of(patch.kernel))

    def with_texts(self, texts: Mapping[str, str], *, written: bool = False) -> CppLaunch:
        return self.kernel.of(cast("CppKernel", self.kernel.owner.definition.with_texts(texts)))


class CppLaunch(Launchable):
    """One launch that an entry makes."""

    defined_by = CppLaunchDefinition

    def __init__(
        self, owner: CppKernel, number: int, recorded: RecordedLaunches | None = None, *, enough: bool = False
    ) -> None:
        super().__init__(owner.name, None)
        self.owner, self.number, self._fixed = owner, number, recorded
        self._enough = enough or (recorded is not None and recorded.is_part)
        self._last = recorded
        if recorded is not None and len(recorded.traced) > 1:
            self.name = f"{owner.name}, launch {number + 1} of {len(recorded.traced)}"

    @property
    def parameters(self) -> dict[str, str]:
        """Those of the entry."""
        return self.owner.parameters

    @property
    def dyn_ub(self) -> int | None:
        """The dynamic UB that the launch asks for, as recorded last."""
        recorded = self._last.recording.launches if self._last is not None else ()
        return recorded[self.number].dyn_ub if self.number < len(recorded) else None

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> Arguments:
        """Sort the arguments of the entry."""
        return self.owner.bind(args, keywords)

    def missing(self, given: Mapping[str, object]) -> list[str]:
        """The required arguments of the entry that are not among these."""
        return self.owner.missing(given)

    def trace(self, arguments: Arguments, mode: Mode) -> Traced:
        """The program of the launch."""
        self._last = self._fixed or self.owner.recorded(arguments, mode, enough=self._enough)
        if self.number >= len(self._last.traced):
            raise Unpatchable("the changed source makes fewer launches")
        return self._last.traced[self.number]

    def storages(self, arguments: Arguments) -> dict[str, Storage]:
        """The memory of each argument of the program: views of one array share it."""
        assert self._last is not None
        found: dict[str, Storage] = {}
        for name, argument in self._last.traced[self.number].program.tensors.items():
            tensor = arguments.tensors.get(argument.array)
            array = tensor.array if tensor is not None else self._last.allocated[argument.array]
            found[name] = _storage(cast("Any", array), argument.dtype)
        return found

    def of(self, owner: CppKernel) -> CppLaunch:
        """The same launch of another source."""
        return CppLaunch(owner, self.number, enough=self._enough)


class CppLauncher(Launcher):
    """An entry with its grid, ready to be called."""

    __slots__ = ()

    def __call__(self, /, *args: object, target: str | None = None, engine: str = AUTO, **keywords: Any) -> Run:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Record the entry with these arguments, then run its launches one after the other."""
        kernel = cast("CppKernel", self.kernel)
        target = target or kernel.target
        own = {name: keywords[name] for name in kernel.parameters if name in keywords}
        mode = mode_of(target, strict=keywords.get("strict"))
        arguments = kernel.bind(args, own)
        options = machine_options(keywords.pop("options", None), "standard", None) if engine == MACHINE else None
        enough = options is not None and is_enough(options.blocks)
        launches = kernel.launches(arguments, mode, self.grid, enough=enough)  # before one changes the arrays
        collector = kernel.collector()
        launch: Callable[..., Run] = partial(Launcher.__call__, engine=engine)
        if options is None:
            collector(launches.findings)
        else:
            launch = partial(quiet_report, options=options)
        stated = keywords.pop("dyn_ub", None)
        runs = [
            launch(
                Launcher(each, grid), *args, target=target, dyn_ub=each.dyn_ub if stated is None else stated, **keywords
            )
            for each, grid in launches.made
        ]
        last = next((run for run in runs if any(finding.level != "note" for finding in run.findings)), runs[-1])
        more = [finding for run in runs if run is not last for finding in run.findings]
        whole = replace(last, findings=(*launches.findings, *last.findings, *more))
        if options is None:
            return whole
        return collector.judge(cast("MachineReport", whole), mode.options.strict, options.quiet)


def _idle(name: str) -> Finding:
    """The finding on launches that do nothing."""
    message = f"{name} makes no call with these arguments: nothing was judged"
    return Finding(
        "unmodelled", OPAQUE, message, fix="give the numbers and the arrays that it takes its loops from: --arg"
    )


def _left_out(whole: RecordedLaunch, kept: RecordedLaunch) -> Finding:
    """The finding on blocks that the program of a launch does not have."""
    calls = sum(len(block.calls) for block in whole.blocks)
    count = len({block.index for block in kept.blocks})
    message = (
        f"the check takes {count:,} of {whole.grid:,} blocks: they make {calls:,} calls, and those of blocks that are "
        f"not alike may be {MOST_UNLIKE:,}"
    )
    return Finding("unmodelled", OPAQUE, message, fix="to judge everything: --blocks all")


def part_of(launch: RecordedLaunch, traced: Traced, most: int = MOST_STEPS) -> PartOfLaunch | None:
    """What a check runs of a launch; None if all of it is within a number of steps. Of blocks with as many calls the
    first and the last are run, then others."""
    sizes: Counter[int] = Counter()
    for block in launch.blocks:
        sizes[block.index] += len(block.calls)
    if steps(traced.program, gaps(traced.program, sorted(sizes))) * len(sizes) <= most:
        return None
    program, own, whole = clipped(traced.program, most)
    count = most // max(own, 1)
    if own == whole and count >= len(sizes):
        return None
    alike: dict[int, list[int]] = {}
    for index in sorted(sizes):
        alike.setdefault(sizes[index], []).append(index)
    ends = [*(blocks[0] for blocks in alike.values()), *(blocks[-1] for blocks in alike.values())]
    others = Random(0).sample(sorted(sizes), len(sizes))  # noqa: S311  (samples are no secret)
    taken = [*dict.fromkeys([*ends, *others])][: max(1, count)]
    shorter = traced if own == whole else Traced(program)
    return PartOfLaunch(shorter, tuple(sorted(taken)), sum(sizes.values()), own != whole)


def _files(program: Program) -> list[str]:
    """The files of a program's statements and of the calls that lead to them."""
    places = (where for stmt in walk(program.body) if stmt.where for where in stmt.where.path)
    return [*dict.fromkeys(where.file for where in places)]


def _content(arguments: Arguments) -> Iterator[object]:
    """What a recording depends on."""
    for name, tensor in arguments.tensors.items():
        array = cast("Any", tensor.array)
        content = array.reshape(-1).view(np.uint8)
        yield name, array.shape, array.dtype.str, blake2b(content).digest() if content.any() else b""
    yield tuple(arguments.integers.items())
    yield tuple(arguments.constants.items())
    yield tuple(arguments.shared().items())


def _allocated(recording: Recording, arguments: Arguments) -> dict[str, np.ndarray[Any, Any]]:
    """Zeros for the memory that host code allocates, and what scalar code and threads have stored."""
    named = {each.name: each for launch in recording.launches for each in launch.arguments if each.shape is not None}
    return {
        name: recording.stored.get(name, np.zeros(0 if each.is_stored else each.shape or 1, dtype(each.dtype).numpy))
        for name, each in named.items()
        if name not in arguments.tensors
    }


def _storage(array: np.ndarray[Any, Any], kind: DType) -> Storage:
    """The memory of an array as elements of a type."""
    flat = array.reshape(-1).view(np.uint8)
    whole = flat[: flat.size // kind.size * kind.size]
    return Storage(whole.view(kind.bits), kind, array)
