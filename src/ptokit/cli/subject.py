"""The kernel that a command works on: of a text file, or of a Python module."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from types import ModuleType

from ptokit.cli.cxx import cpp_kernel
from ptokit.cli.files import STDIN, read_text, shown_name
from ptokit.cli.problems import Misuse, described
from ptokit.cli.request import ProgramRequest
from ptokit.finding import OutOfBoundsError, VerifyError, Where, near
from ptokit.lang.faults import raised_in_user_code
from ptokit.lang.launcher import Launchable
from ptokit.lang.live import import_file, look_first_in
from ptokit.lang.sources import is_cpp
from ptokit.lines import keep
from ptokit.render.findings import shown_line
from ptokit.text.errors import TextError

KERNEL = re.compile(r"(?P<module>.+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
"""`path/to/file.py:kernel` or `package.module:kernel`."""


def named_kernel(word: str) -> re.Match[str] | None:
    """The module and the kernel that a word names; None if it names a file."""
    return None if word == STDIN or os.path.exists(word) else KERNEL.fullmatch(word)


def is_source(word: str) -> bool:
    """Whether a word names a C++ source."""
    return named_kernel(word) is None and is_cpp(word)


def find(request: ProgramRequest) -> Launchable:
    """The kernel that the command line names. `module:kernel` runs code of the user's, and so does a C++ source, in a
    process of its own."""
    if is_source(request.word):
        return cpp_kernel(request)
    named = named_kernel(request.word)
    if named is None:
        return _read(request.word, request.function)
    if request.function is not None:
        raise Misuse("--function chooses a function of a text file; a kernel of a module has its name already")
    return _kernel(_module(named["module"]), named["module"], named["name"])


def _read(file: str, function: str | None) -> Launchable:
    from ptokit.lang.loaded import from_text

    if file.endswith(".py"):
        raise Misuse(f"{file} is Python: name the kernel in it, as in {file}:kernel, or use `check` or `report`")
    text, name = read_text(file), shown_name(file)
    keep(name, text.decode("utf-8", "replace").split("\n"))  # for the lines that findings show
    return from_text(text, name, function)


def _module(name: str) -> ModuleType:
    """Import a module, from a file or from the current directory; what it prints goes to standard error."""
    importlib.invalidate_caches()
    with _running(f"cannot import {name}"):
        return import_file(name) if name.endswith(".py") else _from_path(name)


@contextmanager
def _running(what: str) -> Iterator[None]:
    """Around code of the user's module: what it raises is misuse, with its line. Findings stay findings."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (TextError, VerifyError, OutOfBoundsError, KeyboardInterrupt):
        raise
    except BaseException as problem:
        text, where = f"{what}: {message_of(problem)}", place_of_problem(problem)
        raise Misuse(text if where is None else shown_line(text, where)) from problem


def message_of(problem: BaseException) -> str:
    """An exception of the user's code, on one line."""
    if isinstance(problem, ModuleNotFoundError):
        return f"no module named {problem.name}"
    return f"{type(problem).__name__}: {described(problem)}"


def place_of_problem(problem: BaseException) -> Where | None:
    """The user's line that raised; that of a syntax error is where Python stopped reading."""
    if isinstance(problem, SyntaxError) and problem.filename and problem.lineno:
        return Where(problem.filename, problem.lineno, caret=max(problem.offset or 1, 1))
    return raised_in_user_code(problem)


def _from_path(name: str) -> ModuleType:
    look_first_in(os.getcwd())
    return importlib.import_module(name)


def _kernel(module: ModuleType, where: str, name: str) -> Launchable:
    found: object = module
    with _running(f"cannot take {name} from {where}"):
        for part in name.split("."):
            found = getattr(found, part, None)
    if isinstance(found, Launchable):
        return found
    kernels = kernels_of(vars(module))
    if found is None:
        close = near(name, kernels)
        hint = f"did you mean {close}?" if close else f"its kernels: {', '.join(kernels) or 'none'}"
        raise Misuse(f"{where} has no {name}; {hint}")
    message = f"{where}:{name} is no kernel but a {type(found).__name__}"
    raise Misuse(f"{message}: put @pto.kernel above it" if callable(found) else message)


def kernels_of(names: Mapping[str, object]) -> list[str]:
    """The kernels among the names of a module."""
    return [name for name, value in names.items() if isinstance(value, Launchable)]
