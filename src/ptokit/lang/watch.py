"""Launches that are watched: what they would do on the machine, on copies of their arrays.

The copies share memory and are aligned as the arrays are; those of arrays on a GPU are on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ptokit.engine.gpu import on_gpu
from ptokit.engine.storage import address_of
from ptokit.engines import download
from ptokit.lang.arrays import Array, as_array, is_foreign
from ptokit.lang.check import TargetReport, check
from ptokit.lang.context import current
from ptokit.lang.launch import mode_of, observers
from ptokit.lang.launcher import Launchable, quiet_report
from ptokit.lang.tensor import GlobalTensor
from ptokit.machine.options import MachineOptions

LINE = 64
"""Bytes to which copies of arrays keep their alignment."""


def with_copies(args: Sequence[object], keywords: Mapping[str, Any]) -> tuple[Sequence[object], Mapping[str, Any]]:
    """Arguments of a launch by position and by name, with copies of their arrays."""
    copies = copied([*args, *keywords.values()])
    return copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True))


def copied(values: Sequence[object]) -> list[object]:
    """Arguments of a launch with copies of their arrays; the copies share memory as the arrays do."""
    arrays = {k: array for k, value in enumerate(values) if (array := array_of(value)) is not None}
    copies = dict(zip(arrays, _copies(list(arrays.values())), strict=True))
    return [
        _over(value, copies[k]) if isinstance(value, GlobalTensor) else copies.get(k, value)
        for k, value in enumerate(values)
    ]


def array_of(value: object) -> Array | None:
    """The array of an argument; None if it has none."""
    if isinstance(value, GlobalTensor):
        return value.array
    return as_array(cast("object", value)) if isinstance(value, np.ndarray) or is_foreign(value) else None


def _copies(arrays: Sequence[Array]) -> list[Array]:
    ends = [array.bounds if on_gpu(array) else np.lib.array_utils.byte_bounds(array) for array in arrays]
    bounds = [(first, max(end, first + 1)) for first, end in ends]  # an empty array has an address, too
    memories = [_memory(first, end) for first, end in _joined(bounds)]
    found: list[Array] = []
    for array, (first, _) in zip(arrays, bounds, strict=True):
        start, memory = next((start, memory) for start, memory in memories if start <= first < start + memory.size)
        begin = address_of(array) - start
        copy = np.ndarray(array.shape, array.dtype, memory, begin, array.strides)
        copy[...] = download(array) if on_gpu(array) else array
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
    memory = np.zeros(end - first + LINE, np.uint8)
    skipped = (first - memory.ctypes.data) % LINE
    return first, memory[skipped : skipped + end - first]


def _over(tensor: GlobalTensor, array: Array) -> GlobalTensor:
    """The same tensor over another array."""
    kind: dict[str, Any] = {"layout": tensor.layout, "dtype": tensor.dtype}
    if tensor.is_plain or not array.flags.c_contiguous:
        return GlobalTensor(array, **kind)
    copy = GlobalTensor(array, shape=tensor.shape5, stride=tensor.stride5, **kind)
    copy.spec = tensor.spec  # with extents that are known at run time
    return copy


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
    return quiet_report(kernel[grid], *arrays, options=chosen, **rest)


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
        return replace(self, kernel=self.kernel.snapshot(), args=copies, keywords=named)

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
    flat = download(array) if on_gpu(array) else np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    place = address_of(array), array.strides, array.flags.writeable
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
