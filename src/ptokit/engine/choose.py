"""Which engine runs a program: the one that was asked for, or the quickest that is there and takes it."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from ptokit.engine.interpreter import Executable
from ptokit.engine.runnable import Runnable, Unsupported
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

ENGINES = ("auto", "reference", "native")
VARIABLE = "PTOKIT_ENGINE"
"""What `auto` stands for; unset, it is the native engine wherever that is."""


@cache
def has_native() -> bool:
    """Whether llvmlite is installed, which the native engine needs, and can be loaded."""
    try:
        import_module("llvmlite.binding")
    except (ImportError, OSError):
        return False
    return True


@cache
def chosen(engine: str) -> str:
    """The engine that a name stands for: `auto` means `PTOKIT_ENGINE`, else native where there is one.

    The environment is read when an engine is first chosen: that takes longer than the rest of a small call.
    """
    source, asked = "engine", engine
    if engine == "auto" and (named := os.environ.get(VARIABLE)):
        source, asked = VARIABLE, named
    if asked not in ENGINES:
        raise ValueError(f"{source} is one of {', '.join(ENGINES)}; found {asked!r}")
    if asked == "native" and not has_native():
        said = f"{source}={asked}: the native engine needs llvmlite"
        raise ImportError(f"{said}: pip install llvmlite; the reference engine does without")
    return ("native" if has_native() else "reference") if asked == "auto" else asked


def executable(engine: str, program: Program, profile: Profile, options: Options, *, firm: bool) -> Runnable:
    """A program made ready for an engine; for the reference one where that engine does not take it, unless `firm`."""
    if engine == "reference":
        return Executable(program, profile, options)
    from ptokit.engine.native.program.executable import NativeExecutable

    try:
        return NativeExecutable(program, profile, options)
    except Unsupported as problem:
        if firm:
            raise ValueError(f"{program.name}: {problem}; use engine='reference'") from None
        return Executable(program, profile, options)
