"""Launch options and the target that they select, the program of a signature with its verdicts and executables, the
report of findings to the user, and the cache of small launches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ptokit.brief import brief
from ptokit.engine.kept import remember
from ptokit.engine.runnable import Run, Runnable, Small
from ptokit.engine.storage import address_of
from ptokit.engines import AUTO, ENGINES, executable, in_order, is_captured, names
from ptokit.finding import OPAQUE, WARNINGS, Finding, OutOfBoundsError, VerifyError, suggestion
from ptokit.lang import gpu
from ptokit.lang.arrays import as_array, notify, within, writing
from ptokit.lang.context import CURRENT, Mode, check_dyn_ub, current, target
from ptokit.lang.faults import refuse, warn_at, warn_of
from ptokit.lang.reads import Reads
from ptokit.lang.tensor import first_extent, is_integer
from ptokit.machine import MACHINE
from ptokit.machine.report import LAUNCHES, MachineOptions, MachineReport
from ptokit.program.expr import Var
from ptokit.program.instr_calls import written_arguments
from ptokit.program.ir import MOST_BLOCKS, Program
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.program.verify import General, verify
from ptokit.target import profile as find_profile

if TYPE_CHECKING:
    from ptokit.machine.executable import MachineExecutable

MOST_VERDICTS = 256
"""Targets and grids that are cached for one program."""


class Verdict:
    """The findings on a program for a target and a grid, before it runs."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.errors = tuple(finding for finding in findings if finding.level == "error")
        self.non_errors = tuple(finding for finding in findings if finding.level != "error")


class Traced:
    """A program for one signature, with its cached verdicts and executables."""

    lengths: Mapping[Var, int] = {}
    """Values of the extents that the program has as variables."""
    family: TracedFamily | None = None
    """The program for more lengths that this one is of, if any."""
    checked_part: PartOfLaunch | None = None
    """What a check runs of a large launch; None for all of it."""

    def __init__(self, program: Program, reads: Reads | None = None) -> None:
        """`reads` are the Python values that the program depends on."""
        self.program = program
        self.reads = reads
        self.writes = written_arguments(program)
        self.stored = tuple({program.tensors[name].array for name in self.writes})
        """The array arguments that the program writes."""
        self.verdict = lru_cache(MOST_VERDICTS)(partial(self.checked, numbers={}))
        """The verdict for a target and a grid."""
        self.machine = lru_cache(MOST_VERDICTS)(self._on_machine)
        """The program on the model of a target, with the addresses and flags that auto mode adds."""
        self.executable = lru_cache(MOST_VERDICTS)(self._prepare)
        """The executable for a target and an engine."""

    def checked(self, mode: Mode, grid: int, numbers: Mapping[Var, int]) -> Verdict:
        """The verdict for given integer arguments."""
        return Verdict(verify(self.program, mode.profile, mode.options, grid, numbers))

    def _on_machine(self, mode: Mode) -> MachineExecutable:
        profile, options = mode.profile, mode.options
        placed = order(place(self.program, profile, options.dyn_ub).program, profile) if profile.pipes else self.program
        return ENGINES[MACHINE].prepare(placed, profile, options)

    def _prepare(self, mode: Mode, engine: str, firm: bool) -> Runnable:
        return executable(engine, self.program, mode.profile, mode.options, firm=firm)


class PartOfLaunch(NamedTuple):
    """What a check runs of a large launch."""

    traced: Traced
    """The program, maybe with fewer rounds of its loops."""
    blocks: tuple[int, ...]
    calls: int
    """Of the whole launch."""
    is_short: bool
    """Whether rounds are left out."""

    def finding(self, grid: int) -> Finding:
        """The finding on what is left out."""
        rounds = ", without most rounds of their loops" if self.is_short else ""
        message = f"judged {len(self.blocks):,} of {grid:,} blocks{rounds}: the launch makes {self.calls:,} calls"
        return Finding("unmodelled", OPAQUE, message, fix="to judge everything: --blocks all")


class TracedFamily(Traced):
    """A program for many lengths of its arrays."""

    def __init__(self, general: General, reads: Reads) -> None:
        super().__init__(general.program, reads)
        self.general = general

    def at(self, lengths: Mapping[Var, int]) -> TracedMember | None:
        """The program for some lengths; None if it is not valid for them."""
        return TracedMember(self, lengths) if self.general.holds(lengths) else None


class TracedMember:
    """The program of a family for its lengths: the code is that of the family."""

    def __init__(self, family: TracedFamily, lengths: Mapping[Var, int]) -> None:
        self.lengths, self.family = lengths, family
        self.reads, self.writes, self.stored = family.reads, family.writes, family.stored
        self.executable = family.executable
        self._verdicts: dict[tuple[Mode, int], Verdict] = {}

    def verdict(self, mode: Mode, grid: int) -> Verdict:
        """The verdict for a target and a grid."""
        key = mode, grid
        found = self._verdicts.get(key)
        if found is None:
            findings = self.family.general.findings(mode.profile, mode.options, grid, self.lengths)
            found = remember(self._verdicts, key, Verdict(findings), MOST_VERDICTS)
        return found


WAITS, OUTSIDE_OF_CAPTURE = "the host waits for the GPU", "call it before or after the capture"
LAUNCH_OPTIONS = ("target", "engine", "threads", "strict", "header", "dyn_ub", "launch", "options", "debug", "grid")
"""Keywords of launches and checks; no parameter of a kernel has one of these names."""
MOST_THREADS = 1024
ENGINE_NAMES = names(models=True)
Observer = Callable[[Any, int, tuple[object, ...], Mapping[str, Any], Mapping[str, Any]], None]
observers: list[Observer] = []
"""Called before every launch: with the kernel, its grid, its arguments by position and by name, and the options."""


class FindingCollector:
    """Reports the findings of a launch, each once: those of some levels as warnings, all of them in the `Run`."""

    __slots__ = ("_found", "_module", "_registry")

    def __init__(self, module: str | None, registry: dict[Any, Any]) -> None:
        """The kernel's module, and its registry of warnings that Python has shown."""
        self._module, self._registry = module or "<unknown>", registry
        self._found: dict[tuple[Any, ...], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the launch."""
        return tuple(self._found.values()) if self._found else ()

    def __call__(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if self.add(finding) and finding.level in WARNINGS:
                warn_at(finding, self._module, self._registry)

    def judge(self, report: MachineReport, is_strict: bool, is_quiet: bool) -> MachineReport:
        """The report of a launch on the machine. If it has faults, one warning says so; a strict launch raises."""
        if report.ok:
            return report
        if is_strict:
            refusal = VerifyError(report.hazards)
            refusal.report = report
            raise refusal
        if not is_quiet:
            self.warn(report.hazards, f"{report.kernel} on {report.target}")
        return report

    def warn(self, faults: Sequence[Finding], subject: str) -> None:
        """One warning of some errors and hazards."""
        warn_of(faults, subject, self._module, self._registry)

    def add(self, finding: Finding) -> bool:
        """Record a finding; False for an error, and for one that was recorded before at the same place."""
        key = (finding.level, finding.rule, finding.kind, finding.operand, finding.path)
        if key in self._found or finding.level == "error":
            return False
        self._found[key] = finding
        return True


def in_one_of(grid: int, problem: VerifyError | OutOfBoundsError) -> VerifyError | OutOfBoundsError:
    """The error of a block; if there are several blocks, it adds that others may have written."""
    if grid > 1:
        problem.args = (f"{problem}\n    of the {grid} blocks of this launch, others may have written",)
    return problem


def grid_of(grid: object) -> int:
    """The number of blocks of a grid."""
    blocks = cast("tuple[object, ...]", grid if isinstance(grid, tuple) else (grid,))
    is_one = len(blocks) == 1 and is_integer(blocks[0])
    if not is_one or not 0 <= operator.index(cast("int", blocks[0])) <= MOST_BLOCKS:
        found = blocks[0] if len(blocks) == 1 else blocks
        message = f"a grid is one-dimensional, a whole number from 0 to {MOST_BLOCKS:,}; found {brief(found)}"
        raise refuse("KN-18", message, "kernel[blocks](...)")
    return operator.index(cast("int", blocks[0]))


@lru_cache(maxsize=256)
def _mode(name: str, header: bool, strict: bool, dyn_ub: int | None) -> Mode:
    return target(name, header=header, strict=strict, dyn_ub=dyn_ub).mode


def mode_of(
    name: str | None = None, header: bool | None = None, strict: bool | None = None, dyn_ub: int | None = None
) -> Mode:
    """The target and its options; those of the current target are the defaults."""
    here = current().mode
    chosen = here.options
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        find_profile(name)
    dyn_ub = check_dyn_ub(dyn_ub)
    return _mode(
        here.profile.name if name is None else name,
        chosen.header if header is None else bool(header),
        chosen.strict if strict is None else bool(strict),
        chosen.dyn_ub if dyn_ub is None else dyn_ub,
    )


def check_threads(given: object) -> int | None:
    """A number of threads as Python's own integer, or a refusal: True and 1.0 are equal to 1 in the keys of caches."""
    if given is None or (type(given) is int and 0 < given <= MOST_THREADS):
        return given
    if not is_integer(given) or not 0 < operator.index(cast("int", given)) <= MOST_THREADS:
        raise ValueError(f"threads takes a number from 1 to {MOST_THREADS}, got {brief(given)}")
    return operator.index(cast("int", given))


def check_engine(engine: object, known: Sequence[str], but: str = "") -> None:
    """Refuse an engine that a call does not have; `but` is the hint for an engine that models a target."""
    if engine in known:
        return
    is_unfit = but and isinstance(engine, str) and is_model(engine)
    hint = f"; {but}" if is_unfit else suggestion(engine, known)
    raise ValueError(f"engine is one of {', '.join(known)}; got {brief(engine)}{hint}")


def is_model(engine: str) -> bool:
    """Whether an engine models a target: it takes options and returns a report."""
    return engine in ENGINES and ENGINES[engine].is_model


def check_options(
    engine: object = AUTO, threads: object = None, launch: object = "standard", options: object = None
) -> None:
    """Refuse invalid launch options."""
    check_engine(engine, ENGINE_NAMES)
    check_threads(threads)
    if launch not in LAUNCHES:
        raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; got {brief(launch)}")
    if options is not None and not (isinstance(engine, str) and is_model(engine)):
        raise ValueError("options= is for engine='machine'; the others have none")


def machine_options(options: object, launch: str, dyn_ub: int | None) -> MachineOptions:
    """The options of the machine, with those of the launch as overrides."""
    chosen = MachineOptions() if options is None else options
    if not isinstance(chosen, MachineOptions):
        raise TypeError(f"options= takes a pto.MachineOptions, got {type(chosen).__name__}")
    size = chosen.dyn_ub if dyn_ub is None else dyn_ub
    return replace(chosen, launch=chosen.launch if launch == "standard" else launch, dyn_ub=size)


def refuse_captured(what: str, arrays: Sequence[object], why: str = WAITS, fix: str = OUTSIDE_OF_CAPTURE) -> None:
    """Refuse work on arrays of a GPU that would be captured in a CUDA graph, before anything is launched."""
    if is_captured(cast("Any", arrays)):
        raise refuse("CO-SEM-01", f"{what} cannot be captured in a CUDA graph: {why}", fix)


def refuse_inside(what: str, instead: str = "launch one kernel after the other") -> None:
    """Refuse a call inside a kernel."""
    here = CURRENT.get()
    if here.tracer is not None or here.block is not None:
        raise refuse("KN-17", f"{what} is not allowed inside a kernel", instead)


MOST_CACHED = 1024
PLAIN = (int, str, bool, type(None))
"""Types of arguments, besides arrays, that can be part of a key."""
NUMPY = np.ndarray

Key = tuple[object, ...]
Shape = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]


def key_of(
    options: Key, args: Sequence[object], keywords: Mapping[str, object]
) -> tuple[Key | None, list[object], list[int]]:
    """The cache key of a launch, or None if the launch is not eligible; its arrays, and their addresses.

    The second part of a key are the shapes and strides of the arrays.
    """
    context = CURRENT.get()
    shapes: list[tuple[Shape, Shape]] = []
    arrays: list[object] = []
    addresses: list[int] = []
    if context.tracer is not None or context.block is not None:
        return None, arrays, addresses
    key: list[object] = [context.mode, *options, *keywords]
    for value in (*args, *keywords.values()) if keywords else args:
        kind = type(value)
        if kind is NUMPY:
            array = cast("Array", value)
            key += (kind, array.dtype, array.flags.num)
            shapes.append((array.shape, array.strides))
            addresses.append(address_of(array))
        elif kind in PLAIN:
            key += (kind, value)
            continue
        elif (found := (gpu.SIGNED.get(kind) or gpu.signature)(value)) is None:
            return None, arrays, addresses
        else:
            dtype, shape, strides, *more = cast("tuple[Any, ...]", found[1])
            key += (kind, dtype, *more)
            shapes.append((shape, strides))
            addresses.append(found[0])
        arrays.append(value)
    return (tuple(key), tuple(shapes)), arrays, addresses


def family_of(key: Key) -> Key:
    """The key of all launches that differ only in the first extents of their arrays."""
    shapes = cast("tuple[tuple[Shape, Shape], ...]", key[1])
    return key[0], tuple([(shape[1:], strides) for shape, strides in shapes])


@dataclass(slots=True)
class CachedLaunch:
    """A cached launch: only the addresses of its arrays are new."""

    small: Small
    target: str
    grid: int
    is_current: Callable[[], bool] | None
    """Whether the program is still valid; None if it always is."""
    collector: Callable[[], FindingCollector]
    non_errors: Sequence[Finding]
    """What is reported of each launch."""
    sizes: Sequence[int]
    """Those of the arrays in bytes."""
    tracked: Sequence[int]
    """The arrays that are torch tensors and written."""
    is_in_order: Callable[[], bool] | None
    """Whether the work is done in the order of the arrays anyway; None if they are on the host."""
    apart: list[int] = field(default_factory=list[int])
    """Addresses at which the arrays do not overlap."""

    def run(
        self, arrays: Sequence[object], addresses: list[int], tensors: Callable[[], Mapping[str, Any]]
    ) -> Run | None:
        """Launch; None if these arrays are not eligible. `tensors` are made only if a statement needs them."""
        if not self.small.is_current or (self.is_current is not None and not self.is_current()):
            return None
        if addresses != self.apart:
            if not _are_apart(addresses, self.sizes):
                return None
            self.apart = addresses
        collector = self.collector()
        if self.non_errors:
            collector(self.non_errors)
        is_there = self.is_in_order is None or self.is_in_order()
        try:
            if is_there:
                try:
                    seconds = self.small.run(addresses, tensors, collector)
                finally:
                    for at in self.tracked:
                        notify(arrays[at])
            else:
                found = [as_array(each) for each in arrays]
                refuse_captured("a launch", found)
                order = in_order(cast("Any", found))
                notified = writing([arrays[at] for at in self.tracked], in_part=True)
                seconds = within(order, notified, self.small.run, addresses, tensors, collector)
        except (VerifyError, OutOfBoundsError) as problem:
            raise in_one_of(self.grid, problem) from None
        return Run(collector.findings, self.small.engine, seconds, self.target, self.grid)


@dataclass
class SmallLaunches:
    """Launches that differ only in the addresses and the first extents of their arrays."""

    executable: Runnable
    mode: Mode
    grid: int
    numbers: Mapping[Var, int]
    arrays: Mapping[str, int]
    """Bytes of an element of each array, by parameter."""
    tracked: Sequence[int]
    collector: Callable[[], FindingCollector]
    is_in_order: Callable[[], bool] | None
    family: TracedFamily | None
    """The program for more than one length, if there is one."""

    def at(self, shapes: Sequence[Shape], traced: Traced | TracedMember | None = None) -> CachedLaunch | None:
        """The launch for arrays of these shapes, with a program that is verified; None if it is not eligible."""
        if traced is None and self.family is not None:
            extents = map(first_extent, self.arrays)
            traced = self.family.at({var: shape[0] for var, shape in zip(extents, shapes, strict=True)})
        if traced is None:
            return None
        counts = [*map(prod, shapes)]
        sizes = dict(zip(self.arrays, counts, strict=True))
        small = self.executable.small(sizes, {**self.numbers, **traced.lengths}, self.grid)
        if small is None or (verdict := traced.verdict(self.mode, self.grid)).errors:
            return None
        return CachedLaunch(
            small,
            self.mode.profile.name,
            self.grid,
            traced.reads and traced.reads.are_current,
            self.collector,
            verdict.non_errors,
            [count * size for count, size in zip(counts, self.arrays.values(), strict=True)],
            self.tracked,
            self.is_in_order,
        )


def _are_apart(starts: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether no two ranges overlap."""
    last = 0
    for start, size in sorted(zip(starts, sizes, strict=True)):
        if start < last:
            return False
        last = start + size
    return True
