"""The engines, one entry each. An entry names its modules; they are imported on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ptokit.brief import brief
from ptokit.engine.bag_arguments import BagGradients, BagsKind, PreparedBags, TableBags
from ptokit.engine.gpu import COPIED, DeviceArray
from ptokit.engine.runnable import CUDA, NATIVE, REFERENCE, Runnable, Unsupported
from ptokit.engine.storage import Storage
from ptokit.engine.whole import MoveKind, PreparedMove
from ptokit.machine import MACHINE
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

AUTO = "auto"
VARIABLE = "PTOKIT_ENGINE"
"""The environment variable that overrides `auto`; unset, `auto` is the first of `PREFERRED` that is installed."""
Arrays = Callable[[Any, Mapping[str, Storage], int | None], None]
"""Runs a `Whole` over storages, on a number of threads."""


@dataclass(frozen=True)
class Engine:
    """One engine: the names of its parts, as `module:attribute`."""

    name: str
    executable: str
    """The class that makes a program ready: called with a program, a profile and options."""
    arrays: str = ""
    """The function that runs moves over whole arrays; empty if it takes none."""
    moves: str = ""
    """The function that prepares a kind of move over whole arrays."""
    not_captured: str = ""
    """The function that says why a move cannot be captured in a CUDA graph."""
    bags: str = ""
    """The function that prepares a kind of bags; empty if it has none."""
    bag_gradients: str = ""
    """The function that passes gradients of bags to the rows of a table; empty if it has none."""
    table_bags: str = ""
    """The function that reduces bags of rows of many tables at once; empty if it has none."""
    row_updates: str = ""
    """The function that sums gradients by row, and stores or applies the sums; empty if it has none."""
    needs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The modules that must be installed, and what installs them."""
    lacks: str = ""
    """The function that says what else is missing, if anything is."""
    is_model: bool = False
    """Whether it runs placed and ordered programs on a model of their target, and returns a report."""
    on_gpu: bool = False
    """Whether it takes arrays in the memory of a GPU. It copies those of the host there, and back if they are written;
    other engines take only these."""

    about: str = ""
    """What it is, in a few words."""

    def missing(self) -> str:
        """What it needs and does not find here; empty if it can be used."""
        for module, package in self.needs.items():
            if not is_installed(module):
                return f"{module.partition('.')[0]}: pip install {package}"
        return _load(self.lacks)() if self.lacks else ""

    def prepare(self, program: Program, profile: Profile, options: Options) -> Any:
        """A program made ready; raises `Unsupported` if the engine does not take it."""
        return _load(self.executable)(program, profile, options)


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            REFERENCE,
            "ptokit.engine.interpreter:Executable",
            "ptokit.engine.whole:run",
            "ptokit.engine.whole:prepare",
            about="NumPy, one instruction at a time",
        ),
        Engine(
            NATIVE,
            "ptokit.engine.native.program.executable:NativeExecutable",
            "ptokit.engine.native.whole.moves:run",
            "ptokit.engine.native.whole.moves:prepare",
            bags="ptokit.engine.native.whole.bags:prepare",
            table_bags="ptokit.engine.native.whole.bags:run",
            row_updates="ptokit.engine.native.whole.updates:run",
            needs={"llvmlite.binding": "llvmlite"},
            about="compiled for this processor; needs llvmlite",
        ),
        Engine(
            CUDA,
            "ptokit.engine.cuda.executable:CudaExecutable",
            "ptokit.engine.cuda.whole.moves:run",
            "ptokit.engine.cuda.whole.moves:prepare",
            "ptokit.engine.cuda.whole.moves:not_captured",
            bags="ptokit.engine.cuda.whole.bag_launches:prepare",
            table_bags="ptokit.engine.cuda.whole.bag_launches:run_tables",
            row_updates="ptokit.engine.cuda.whole.update_calls:run",
            bag_gradients="ptokit.engine.cuda.whole.moves:run_gradients",
            needs={"llvmlite.binding": "'ptokit[cuda]'", "cupy": "'ptokit[cuda]'"},
            lacks="ptokit.engine.cuda.device:missing",
            on_gpu=True,
            about="compiled for an NVIDIA GPU; needs ptokit[cuda]",
        ),
        Engine(
            MACHINE,
            "ptokit.machine.executable:MachineExecutable",
            is_model=True,
            about="a model of the target: hazards, time, traffic, memory",
        ),
    )
}
PREFERRED = (NATIVE, REFERENCE)
"""The engines that `auto` tries for arrays of the host."""


def names(*, models: bool = False) -> tuple[str, ...]:
    """The names that an `engine=` takes; with `models`, those of engines that model a target too."""
    return (AUTO, *(engine.name for engine in ENGINES.values() if models or not engine.is_model))


@cache
def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        import_module(module)
    except (ImportError, OSError):
        return False
    return True


@cache
def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


@cache
def chosen(engine: str, on_gpu: bool = False) -> str:
    """The engine of a name, for arrays of the host or on a GPU: `auto` means `PTOKIT_ENGINE`, else the first of
    `PREFERRED` there is, or `cuda`.

    The environment is read when an engine is first chosen: reading it takes longer than a small call.
    """
    source, asked = "engine", engine
    if engine == AUTO and (named := os.environ.get(VARIABLE)):
        source, asked = VARIABLE, named
    if asked not in names():
        raise ValueError(f"{source} is one of {', '.join(names())}; found {brief(asked)}")
    if asked == AUTO:
        asked = CUDA if on_gpu else next(name for name in PREFERRED if not ENGINES[name].missing())
    if on_gpu and not ENGINES[asked].on_gpu:
        advice = f'use engine="cuda", or copy them to the host {COPIED}'
        raise TypeError(f"{source}={asked} runs on the host, these arrays are on a GPU; {advice}")
    if missing := ENGINES[asked].missing():
        advice = "" if on_gpu else f"; {AUTO} takes an engine that is installed"
        raise ImportError(f"{source}={asked}: the {asked} engine needs {missing}{advice}")
    return asked


def in_order(arrays: Sequence[DeviceArray]) -> AbstractContextManager[object] | None:
    """A block whose work is done by the GPU of these arrays, in the order of their streams; None if all work is."""
    return _load("ptokit.engine.cuda.device:ordered")(arrays)


def ordering(arrays: Sequence[DeviceArray]) -> Callable[[], bool]:
    """A function that says later whether work on other arrays of this GPU and of CuPy or torch needs no such block."""
    number, orders = arrays[0].gpu, {array.order for array in arrays}
    return _load("ptokit.engine.cuda.device:ordering")(number, *orders) if len(orders) == 1 else lambda: False


def is_captured(arrays: Sequence[DeviceArray]) -> bool:
    """Whether work on these arrays would be captured in a CUDA graph, or break a capture."""
    return _load("ptokit.engine.cuda.device:is_captured")(arrays)


def not_captured(engine: str, whole: Any, gpu: int, *addresses: int) -> str:
    """Why a move over whole arrays cannot be captured, empty if it can; by the addresses of the table, and of the other
    operand unless that is new."""
    return _load(ENGINES[engine].not_captured)(whole, gpu, *addresses)


def download(array: DeviceArray) -> Any:
    """A copy of an array on a GPU; its strides are the same."""
    first, end = array.bounds
    with in_order([array]) or nullcontext():
        data = _load("ptokit.engine.cuda.device:current")().download(first, end - first)
    return np.ndarray(array.shape, array.dtype, data, array.address - first, array.strides)


def executable(engine: str, program: Program, profile: Profile, options: Options, *, firm: bool) -> Runnable:
    """A program made ready for an engine; unless `firm`, the reference engine is the fallback for what it does not
    take."""
    try:
        return ENGINES[engine].prepare(program, profile, options)
    except Unsupported as problem:
        if firm:
            raise ValueError(f"{program.name}: {problem}; use engine={REFERENCE!r}") from None
        return ENGINES[REFERENCE].prepare(program, profile, options)


@cache
def arrays(engine: str) -> Arrays:
    """The function of an engine that runs moves over whole arrays."""
    return _load(ENGINES[engine].arrays)


def prepared_bags(engine: str, kind: BagsKind, gpu: int | None) -> PreparedBags | None:
    """Bags of a kind, to be called with addresses and sizes while a GPU is current, if they are on one; None if an
    engine has no such function. It raises `Unsupported`."""
    name = ENGINES[engine].bags
    return _load(name)(kind, gpu) if name else None


def bag_gradients(engine: str) -> Callable[[BagGradients], None] | None:
    """The function of an engine that passes gradients of bags to the rows of a table, while a GPU is current; None if
    it has none. It raises `Unsupported`."""
    name = ENGINES[engine].bag_gradients
    return _load(name) if name else None


def table_bags(engine: str) -> Callable[[Sequence[TableBags], int | None], bool] | None:
    """The function of an engine that reduces bags of many tables in one launch; None if it has none."""
    name = ENGINES[engine].table_bags
    return _load(name) if name else None


def row_updates(engine: str) -> Callable[..., None] | None:
    """The function of an engine that takes `RowUpdate`s, a number of threads, and what makes their output; None if it
    has none. It raises `Unsupported`."""
    name = ENGINES[engine].row_updates
    return _load(name) if name else None


def prepared_move(engine: str, kind: MoveKind, gpu: int | None) -> PreparedMove | None:
    """A kind of move over whole arrays, to be called with addresses and sizes while a GPU is current, if they are on
    one; None if an engine has no such function, or would have to copy arrays first. It raises `Unsupported`.

    A scatter on a GPU also takes `initial`: for a packed table that is new memory, the address of its rows before, or
    `ZEROS`.
    """
    found = ENGINES[engine]
    return _load(found.moves)(kind, gpu) if found.moves and found.on_gpu is (gpu is not None) else None
