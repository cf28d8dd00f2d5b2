"""Launches that are watched: what they would do on the machine, on copies of their arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ptokit.lang.check import TargetReport, check
from ptokit.lang.context import current
from ptokit.lang.copies import array_of, with_copies
from ptokit.lang.launch import mode_of, observers
from ptokit.lang.launcher import Launchable
from ptokit.lang.tensor import GlobalTensor
from ptokit.machine import MACHINE
from ptokit.machine.options import MachineOptions

if TYPE_CHECKING:
    from ptokit.machine.report import MachineReport

PASSED_ON = ("target", "strict", "header", "dyn_ub", "launch")
"""Options of a launch that apply on the machine, too."""
_PAUSED: ContextVar[bool] = ContextVar("ptokit_paused", default=False)


@contextmanager
def paused() -> Generator[None, None, None]:
    """Launches in this block are not watched."""
    token = _PAUSED.set(True)
    try:
        yield
    finally:
        _PAUSED.reset(token)


def machine_report(
    kernel: Launchable, grid: int, arrays: Sequence[object], options: Mapping[str, Any]
) -> MachineReport:
    """A launch on the machine; options that only the machine has become `MachineOptions`."""
    parameters = getattr(kernel, "parameters", ())
    own = {field.name for field in fields(MachineOptions)} - {*PASSED_ON, *parameters}
    chosen = replace(options.get("options") or MachineOptions(), **only(options, own))
    rest = {name: value for name, value in options.items() if name not in own and name != "options"}
    return cast("MachineReport", kernel[grid](*arrays, engine=MACHINE, options=chosen, **rest))


def only(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the options that have these names."""
    return {name: options[name] for name in names if name in options}


@dataclass(frozen=True)
class WatchedLaunch:
    """A launch that is about to be made."""

    kernel: Launchable
    grid: int
    args: Sequence[object]
    keywords: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def target(self) -> str:
        """The target that it names, or the current one."""
        return self.options.get("target") or current().name

    def on(self, target: str, **changed: Any) -> WatchedLaunch:
        """The same launch on another target, with some options changed."""
        return replace(self, options={**self.options, "target": target, **changed})

    def frozen(self) -> WatchedLaunch:
        """The same launch with copies of its arrays, and with a kernel that later changes of globals do not concern."""
        copies, named = with_copies(self.args, self.keywords)
        return replace(self, kernel=self.kernel.frozen(), args=copies, keywords=named)

    def checked(self) -> TargetReport:
        """The report of a check, which runs nothing."""
        common = {**only(self.options, PASSED_ON), "target": self.target}
        (report,) = check(self.kernel, *self.args, grid=self.grid, **common, **self.keywords).targets.values()
        return report

    def report(self) -> MachineReport:
        """The report of the machine, on copies of the arrays."""
        copies, named = with_copies(self.args, self.keywords)
        common = {**only(self.options, (*PASSED_ON, "options")), "target": self.target}
        return machine_report(self.kernel, self.grid, copies, {**common, **named})

    def content(self) -> object:
        """All that the machine's findings depend on: launches with equal content have the same findings.

        The traced program stands for globals and closures.
        """
        mode = mode_of(self.target, *(self.options.get(name) for name in ("header", "strict", "dyn_ub")))
        traced = self.kernel.trace(self.kernel.bind(self.args, self.keywords), mode)
        values = (*self.args, *self.keywords.values())
        chosen = tuple(repr(self.options.get(name)) for name in ("launch", "options"))
        return traced, mode, chosen, self.grid, (*self.keywords,), tuple(map(_content, values))


def _content(value: object) -> object:
    array = array_of(value)
    if array is None:
        return type(value), repr(value)
    kind = value.spec if isinstance(value, GlobalTensor) else None
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    place = array.__array_interface__["data"][0], array.strides, array.flags.writeable
    return type(value), kind, array.dtype, array.shape, place, blake2b(flat.data, digest_size=16).digest()


class LaunchWatcher:
    """Calls a function before every launch, except launches that this function makes."""

    def __init__(self, look: Callable[[WatchedLaunch], None]) -> None:
        self._look = look

    def observe(
        self,
        kernel: Launchable,
        grid: int,
        args: Sequence[object],
        keywords: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """Called before a launch."""
        if not _PAUSED.get():
            with paused():
                self._look(WatchedLaunch(kernel, grid, args, keywords, options))

    @contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Launches in this block are watched."""
        observers.append(self.observe)
        try:
            yield
        finally:
            observers.remove(self.observe)
