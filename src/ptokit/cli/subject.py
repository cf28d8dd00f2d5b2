"""The kernel of a command: from a text, a Python module, or a C++ source with its compiler options."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ptokit.cli.files import STDIN, read_text, shown_name
from ptokit.cli.problems import Misuse, described, misused, print_error
from ptokit.cli.request import CxxRequest, ProgramRequest
from ptokit.finding import OutOfBoundsError, VerifyError, Where, near
from ptokit.lang.faults import raised_in_user_code
from ptokit.lang.launcher import Launchable
from ptokit.lang.live import import_file, look_first_in
from ptokit.lang.sources import is_cpp
from ptokit.lines import keep
from ptokit.render.findings import shown_line
from ptokit.target import compiler_of
from ptokit.text.errors import TextError
from ptokit.text.forms import kernels_in

if TYPE_CHECKING:
    from ptokit.cxx.child import RecordLimits
    from ptokit.cxx.compile import Build
    from ptokit.cxx.database import DatabaseEntry
    from ptokit.lang.cpp_entries import CppSource
    from ptokit.witness.unknown import UnknownInstructions

LIMIT = re.compile(r"(?P<name>seconds|memory|calls)=(?P<number>[1-9]\d{0,14}(?:\.\d+)?(?:e\d{1,2})?)(?P<unit>[KMG]?)")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def source_of(request: ProgramRequest) -> CppSource:
    """A source, with the options of the command line, and of its compile database."""
    _end_in_order()
    file = request.word
    try:
        state = os.stat(file)
    except OSError as problem:
        raise Misuse(f"cannot read {file}: {problem.strerror}") from None
    return _source(file, (state.st_mtime_ns, state.st_size), request.cxx)


def _end_in_order() -> None:
    """Make a signal to terminate an exit: processes are ended, and temporary files removed."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@lru_cache(maxsize=16)
def _source(file: str, _state: tuple[int, int], request: CxxRequest) -> CppSource:
    from ptokit.cxx.compile import CompileOptions
    from ptokit.lang.cpp_entries import CppSource

    flags = *(f"-I{folder}" for folder in request.include or ()), *(f"-D{macro}" for macro in request.define or ())
    own = CompileOptions(flags, request.std or "")
    options = own.with_stated(_stated(file, request.database))
    return CppSource(file, options, _limits(request.limit or ()), _unknown(request.headers))


def _unknown(headers: str | None) -> UnknownInstructions | None:
    """The instructions of a checkout that no table has."""
    if headers is None:
        return None
    from ptokit.witness.headers import Checkout, HeadersError
    from ptokit.witness.unknown import UnknownInstructions

    with misused(HeadersError, OSError):
        return UnknownInstructions(Checkout.at(Path(headers)))


def forget() -> None:
    """Compile sources again: files that they include were written."""
    _source.cache_clear()


def _limits(words: Iterable[str]) -> RecordLimits:
    """Bounds on recording: `seconds=60`, `memory=8G`, `calls=1e6`."""
    from ptokit.cxx.child import RecordLimits

    found: dict[str, float] = {}
    for word in words:
        match = LIMIT.fullmatch(word)
        if match is None:
            raise Misuse(f"--limit takes seconds=60, memory=8G or calls=1e6; found {word}")
        found[match["name"]] = float(match["number"]) * UNITS[match["unit"]]
    return RecordLimits(**{name: value if name == "seconds" else int(value) for name, value in found.items()})  # type: ignore[arg-type]


def _stated(file: str, database: str | None) -> DatabaseEntry:
    """What a compile database says of a source."""
    from ptokit.cxx.database import DatabaseError, database_entry

    with misused(DatabaseError):
        return database_entry(Path(file), None if database is None else Path(database))


def source_texts(request: ProgramRequest) -> list[str]:
    """The texts of a source, and of the user's files that it includes."""
    from ptokit.cxx.compile import CompileError, source_files

    with misused(CompileError):
        return [*source_files(Path(request.word), source_of(request).options).texts.values()]


def stated_target(request: ProgramRequest) -> str | None:
    """The target that the compile database of a source states."""
    return _stated(request.word, request.cxx.database).target


def cpp_kernel(request: ProgramRequest) -> Launchable:
    """The kernel of an entry of a source."""
    from ptokit.lang.cpp_entries import chosen_entry
    from ptokit.lang.recorded import CppKernel

    build = _build(request)
    with misused(ValueError):
        entry = chosen_entry(build, request.function, request.named_args)
    if entry.kind == "launch" and request.grid != 1:
        raise Misuse(
            f"{entry.name} launches its kernel over blocks of its own; --grid is for kernels: name one by --entry"
        )
    return CppKernel(source_of(request), entry, build.target)


MOST_KERNELS = 64
"""Kernels of a text that are judged if none is named."""


def entries_in(request: ProgramRequest) -> list[str | None]:
    """The names of the entries of a source that are judged: those of a name, else all. Likewise the kernels of a text;
    None for its only one."""
    if not is_source(request.word):
        return [*_kernels_of_text(request)[:MOST_KERNELS]] or [request.function]
    from ptokit.lang.cpp_entries import chosen_entry, entries_named, entries_of

    build, function = _build(request), request.function
    with misused(ValueError):
        found = entries_of(build, request.named_args) if function is None else entries_named(build, function)
        return [entry.name for entry in found or [chosen_entry(build, function)]]


def left_out(request: ProgramRequest) -> list[str]:
    """Why kernels and functions of a source or a text are not judged, but for those that an entry or arguments rule
    out."""
    from ptokit.lang.cpp_entries import entries_of, kind_of

    if not is_source(request.word):
        return [f"{name}: use --function {name}" for name in _kernels_of_text(request)[MOST_KERNELS:]]
    if request.function is not None:
        return []
    build, given = _build(request), request.named_args
    judged = entries_of(build, given)
    rows: list[str] = []
    for entry in build.entries:
        numbers = [each.name for each in entry.parameters if kind_of(each) in ("integer", "float")]
        missing = [name for name in numbers if name not in given]
        is_launched = entry.kind == "kernel" and judged[0].kind == "launch" and entry.is_used
        if entry in judged or is_launched or not {*given} <= {each.name for each in entry.parameters}:
            continue
        named = " ".join(f"--arg {name}=..." for name in missing)
        rows.append(f"{entry.name}: use --entry '{entry.name}'{' ' * bool(named)}{named}")
    unused = () if given else build.unused
    return [*rows, *(f"{name}: nothing instantiates this template" for name in unused)]


def _kernels_of_text(request: ProgramRequest) -> list[str]:
    """The kernels of a text that has several, if none is named; arguments are for one of them."""
    if request.word == STDIN or request.word.endswith(".py") or request.function is not None or request.named_args:
        return []
    if named_kernel(request.word) is not None:
        return []
    with suppress(TextError):
        names = kernels_in(read_text(request.word), shown_name(request.word))
        return names if len(names) > 1 else []
    return []


def _build(request: ProgramRequest) -> Build:
    """The source compiled for the target of the command or its database, or the first that can be."""
    named = request.target or ""
    target = named if compiler_of(named) else stated_target(request) or ""
    with misused(ImportError):
        build = source_of(request).first_build(target)
    _say_compiler()
    return build


@lru_cache(maxsize=1)
def _say_compiler() -> None:
    """Say, once, that another compiler than $CXX is used."""
    from ptokit.cxx.compile import find_compiler

    if remark := find_compiler().remark:
        print_error(remark)


# --- any kernel


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
