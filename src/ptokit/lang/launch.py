"""Launch options, the target that they select, the report of findings to the user, and the cache of small launches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ptokit.engine.gpu import DeviceArray
from ptokit.engine.runnable import Run, Small
from ptokit.engine.storage import address_of
from ptokit.engines import AUTO, ENGINES, in_order, names
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, suggestion
from ptokit.lang.arguments import is_integer
from ptokit.lang.arrays import device_array, within, writing
from ptokit.lang.context import Mode, current, target
from ptokit.lang.where import refuse, warn_at
from ptokit.machine.options import LAUNCHES, MachineOptions

LAUNCH_OPTIONS = ("target", "engine", "threads", "strict", "header", "dyn_ub", "launch", "options", "debug", "grid")
"""Keywords of launches and checks; no parameter of a kernel has one of these names."""
MOST_THREADS = 1024
ENGINE_NAMES = names(models=True)
Observer = Callable[[Any, int, tuple[object, ...], Mapping[str, Any], Mapping[str, Any]], None]
observers: list[Observer] = []
"""Called before every launch: with the kernel, its grid, its arguments by position and by name, and the options."""


class FindingCollector:
    """Reports the findings of a launch, each once: hazards as warnings, all of them in the `Run`."""

    __slots__ = ("_found", "_module", "_registry")

    def __init__(self, module: str | None, registry: dict[Any, Any]) -> None:
        """The kernel's module, and its registry of warnings that Python has shown."""
        self._module, self._registry = module or "<unknown>", registry
        self._found: dict[tuple[Any, ...], Finding] = {}

    @property
    def found(self) -> tuple[Finding, ...]:
        """The findings of the launch."""
        return tuple(self._found.values())

    def __call__(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if self.add(finding) and finding.level == "hazard":
                warn_at(finding, self._module, self._registry)

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
    if type(grid) is int and grid >= 0:  # the common case
        return grid
    blocks = cast("tuple[object, ...]", grid if isinstance(grid, tuple) else (grid,))
    if len(blocks) != 1 or not is_integer(blocks[0]) or operator.index(cast("int", blocks[0])) < 0:
        found = blocks[0] if len(blocks) == 1 else blocks
        message = f"a grid is one-dimensional, a whole number from 0 up; found {found!r}"
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
    if dyn_ub is not None and not is_integer(dyn_ub):
        raise ValueError(f"dyn_ub takes a number of bytes, got {dyn_ub!r}")
    return _mode(
        here.profile.name if name is None else name,
        chosen.header if header is None else bool(header),
        chosen.strict if strict is None else bool(strict),
        chosen.dyn_ub if dyn_ub is None else dyn_ub,
    )


def check_threads(threads: object) -> None:
    """Refuse an invalid number of threads."""
    if threads is not None and not (is_integer(threads) and 0 < operator.index(cast("int", threads)) <= MOST_THREADS):
        raise ValueError(f"threads takes a number from 1 to {MOST_THREADS}, got {threads!r}")


def check_engine(engine: object, known: Sequence[str], but: str = "") -> None:
    """Refuse an engine that a call does not have; `but` is the hint for an engine that models a target."""
    if engine in known:
        return
    is_unfit = but and isinstance(engine, str) and is_model(engine)
    hint = f"; {but}" if is_unfit else suggestion(engine, known)
    raise ValueError(f"engine is one of {', '.join(known)}; got {engine!r}{hint}")


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
        raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; got {launch!r}")
    if options is not None and not (isinstance(engine, str) and is_model(engine)):
        raise ValueError("options= is for engine='machine'; the others have none")


def machine_options(options: object, launch: str, dyn_ub: int | None) -> MachineOptions:
    """The options of the machine, with those of the launch as overrides."""
    chosen = MachineOptions() if options is None else options
    if not isinstance(chosen, MachineOptions):
        raise TypeError(f"options= takes a pto.MachineOptions, got {type(chosen).__name__}")
    size = chosen.dyn_ub if dyn_ub is None else dyn_ub
    return replace(chosen, launch=chosen.launch if launch == "standard" else launch, dyn_ub=size)


def refuse_inside(what: str, instead: str = "launch one kernel after the other") -> None:
    """Refuse a call inside a kernel."""
    here = current()
    if here.tracer is not None or here.block is not None:
        raise refuse("KN-17", f"{what} is not allowed inside a kernel", instead)


MOST_CACHED = 1024
PLAIN = (int, str, bool, type(None))
"""Types of arguments, besides arrays, that can be part of a key."""
NUMPY = np.ndarray

Key = tuple[object, ...]
Array = np.ndarray[Any, np.dtype[Any]]


def key_of(
    options: Key, args: Sequence[object], keywords: Mapping[str, object]
) -> tuple[Key | None, list[Array | DeviceArray]]:
    """The cache key of a launch, or None if the launch is not eligible; and its arrays."""
    context = current()
    arrays: list[Array | DeviceArray] = []
    if context.tracer is not None or context.block is not None:
        return None, arrays
    key: list[object] = [context.mode, *options, *keywords]
    for value in (*args, *keywords.values()) if keywords else args:
        kind = type(value)
        if kind is NUMPY:
            array = cast("Array", value)
            flags = array.flags.num
        elif kind in PLAIN:
            key += (kind, value)
            continue
        elif (array := device_array(value)) is None:
            return None, arrays
        else:
            flags = array.num
        key += (kind, array.dtype, array.shape, array.strides, flags)
        arrays.append(array)
    return tuple(key), arrays


class CachedLaunch:
    """A cached launch: only the addresses of its arrays are new."""

    __slots__ = ("collector", "grid", "is_current", "sizes", "small", "target", "tracked")

    def __init__(
        self,
        small: Small,
        target: str,
        grid: int,
        is_current: Callable[[], bool],
        collector: Callable[[], FindingCollector],
        sizes: Sequence[int],
        tracked: Sequence[int],
    ) -> None:
        """`is_current` returns whether the program is still valid. `sizes` are those of the arrays in bytes, `tracked`
        the positions of those whose library is notified that they are written."""
        self.small, self.target, self.grid = small, target, grid
        self.is_current, self.collector, self.sizes, self.tracked = is_current, collector, sizes, tracked

    def run(self, arrays: Sequence[Array | DeviceArray], tensors: Callable[[], Mapping[str, Any]]) -> Run | None:
        """Launch; None if these arrays are not eligible. `tensors` are made only if a statement needs them."""
        addresses = [address_of(array) for array in arrays]
        if not (self.small.is_current and _are_apart(addresses, self.sizes) and self.is_current()):
            return None
        collector = self.collector()
        try:
            order = in_order(cast("Any", arrays)) if arrays and type(arrays[0]) is DeviceArray else None
            written = [cast("Any", arrays[at]).owner for at in self.tracked]
            notified = writing(written, in_part=True) if written else None
            seconds = within(order, notified, self.small.run, addresses, tensors, collector)
        except (VerifyError, OutOfBoundsError) as problem:
            raise in_one_of(self.grid, problem) from None
        return Run(collector.found, self.small.engine, seconds, self.target, self.grid)


def _are_apart(starts: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether no two ranges overlap."""
    last = 0
    for start, size in sorted(zip(starts, sizes, strict=True)):
        if start < last:
            return False
        last = start + size
    return True
