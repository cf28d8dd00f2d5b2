"""The engines, one entry each. An entry names its modules; they are imported on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from ptokit.engine.runnable import NATIVE, REFERENCE, Runnable, Unsupported
from ptokit.engine.storage import Storage
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
    needs: str = ""
    """The module that must be installed."""
    is_model: bool = False
    """Whether it runs placed and ordered programs on a model of their target, and returns a report."""

    @property
    def is_installed(self) -> bool:
        """Whether it can be used here."""
        return not self.needs or is_installed(self.needs)

    def prepare(self, program: Program, profile: Profile, options: Options) -> Any:
        """A program made ready; raises `Unsupported` if the engine does not take it."""
        return _load(self.executable)(program, profile, options)


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(REFERENCE, "ptokit.engine.interpreter:Executable", "ptokit.engine.whole:run"),
        Engine(
            NATIVE,
            "ptokit.engine.native.program.executable:NativeExecutable",
            "ptokit.engine.native.whole.calls:run",
            needs="llvmlite.binding",
        ),
        Engine(MACHINE, "ptokit.machine.executable:MachineExecutable", is_model=True),
    )
}
PREFERRED = (NATIVE, REFERENCE)
"""The engines that `auto` tries."""


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
def chosen(engine: str) -> str:
    """The engine of a name: `auto` means `PTOKIT_ENGINE`, else the first of `PREFERRED` there is.

    The environment is read when an engine is first chosen: reading it takes longer than a small call.
    """
    source, asked = "engine", engine
    if engine == AUTO and (named := os.environ.get(VARIABLE)):
        source, asked = VARIABLE, named
    if asked not in names():
        raise ValueError(f"{source} is one of {', '.join(names())}; found {asked!r}")
    if asked == AUTO:
        return next(name for name in PREFERRED if ENGINES[name].is_installed)
    if not ENGINES[asked].is_installed:
        package = ENGINES[asked].needs.partition(".")[0]
        message = f"{source}={asked}: the {asked} engine needs {package}: pip install {package}"
        raise ImportError(f"{message}; the reference engine does without")
    return asked


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
