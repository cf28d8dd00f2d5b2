"""C++ sources on the command line: how they are compiled, and their entries."""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ptokit.cli.files import STDIN, STDIN_NAME, read_text
from ptokit.cli.problems import SHOWN, Misuse, print_error
from ptokit.finding import shown_file
from ptokit.lang.launcher import Launchable
from ptokit.target import compiler_of

if TYPE_CHECKING:
    from ptokit.cxx.child import RecordLimits
    from ptokit.cxx.compile import Build
    from ptokit.cxx.database import DatabaseEntry
    from ptokit.lang.cpp_source import CppSource

PEEKED = 4096
"""Bytes at the start of a text that tell whether it is C++."""
LIMIT = re.compile(r"(?P<name>seconds|memory|calls)=(?P<number>[1-9]\d{0,14}(?:\.\d+)?(?:e\d{1,2})?)(?P<unit>[KMG]?)")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
INCLUDE_LINE = re.compile(rb"^[ \t]*#[ \t]*include\b", re.MULTILINE)


@dataclass(frozen=True)
class CxxRequest:
    """How a C++ source is compiled."""

    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    std: str = ""
    target: str = ""
    """The target that is compiled for first."""
    given: tuple[str, ...] = ()
    """The names of the arguments that are given."""
    database: str | None = None
    """A compile database, or its folder; None: the one that is found beside or above the source."""
    grid: int = 1
    """The number of blocks that the command states."""
    limit: tuple[str, ...] = ()
    """Bounds on recording: `seconds=60`."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of the compiler."""
        return (*(f"-I{folder}" for folder in self.include), *(f"-D{macro}" for macro in self.define))


def on_disk(word: str) -> str:
    """The word of a command; for C++ on standard input, a file with that text, which is removed at the end."""
    peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None) if word == STDIN else None
    try:
        first = peek(PEEKED) if peek is not None else b""
    except (OSError, ValueError):
        return word  # whoever reads it says why
    if not INCLUDE_LINE.search(first[:PEEKED]):
        return word
    from ptokit.cxx.compile import temporary_prefix

    folder = tempfile.TemporaryDirectory(prefix=temporary_prefix())
    atexit.register(folder.cleanup)
    path = Path(os.path.realpath(folder.name), "stdin.cpp")
    path.write_bytes(read_text(word))
    SHOWN.update(dict.fromkeys((str(path), shown_file(str(path))), STDIN_NAME))
    return str(path)


def source_of(file: str, request: CxxRequest) -> CppSource:
    """A source, with the options of the command line, and of its compile database."""
    _end_in_order()
    try:
        state = os.stat(file)
    except OSError as problem:
        raise Misuse(f"cannot read {file}: {problem.strerror}") from None
    return _source(file, (state.st_mtime_ns, state.st_size), request)


def _end_in_order() -> None:
    """Make a signal to terminate an exit: processes are ended, and temporary files removed."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@lru_cache(maxsize=16)
def _source(file: str, _state: tuple[int, int], request: CxxRequest) -> CppSource:
    from ptokit.cxx.compile import CompileOptions
    from ptokit.lang.cpp_source import CppSource

    own = CompileOptions(request.flags, request.std)
    return CppSource(file, own.with_stated(_stated(file, request)), _limits(request.limit))


def forget() -> None:
    """Compile sources again: files that they include were written."""
    _source.cache_clear()


def _limits(words: tuple[str, ...]) -> RecordLimits:
    """Bounds on recording: `seconds=60`, `memory=8G`, `calls=1e6`."""
    from ptokit.cxx.child import RecordLimits

    found: dict[str, float] = {}
    for word in words:
        match = LIMIT.fullmatch(word)
        if match is None:
            raise Misuse(f"--limit takes seconds=60, memory=8G or calls=1e6; found {word}")
        found[match["name"]] = float(match["number"]) * UNITS[match["unit"]]
    return RecordLimits(**{name: value if name == "seconds" else int(value) for name, value in found.items()})  # type: ignore[arg-type]


def _stated(file: str, request: CxxRequest) -> DatabaseEntry:
    """What a compile database says of a source."""
    from ptokit.cxx.database import DatabaseError, database_entry

    try:
        return database_entry(Path(file), Path(request.database) if request.database is not None else None)
    except DatabaseError as problem:
        raise Misuse(str(problem)) from None


def source_texts(file: str, request: CxxRequest) -> list[str]:
    """The texts of a source, and of the user's files that it includes."""
    from ptokit.cxx.compile import CompileError, source_files

    try:
        return [*source_files(Path(file), source_of(file, request).options).texts.values()]
    except CompileError as problem:
        raise Misuse(str(problem)) from None


def stated_target(file: str, request: CxxRequest) -> str | None:
    """The target that the compile database of a source states."""
    return _stated(file, request).target


def cpp_kernel(file: str, function: str | None, request: CxxRequest) -> Launchable:
    """The kernel of an entry of a source."""
    from ptokit.lang.cpp_entries import chosen_entry
    from ptokit.lang.recorded import CppKernel

    build = _build(file, request)
    with _entries():
        entry = chosen_entry(build, function, request.given)
    if entry.kind == "launch" and request.grid != 1:
        raise Misuse(
            f"{entry.name} launches its kernel over blocks of its own; --grid is for kernels: name one by --entry"
        )
    return CppKernel(source_of(file, request), entry, build.target)


def entries_in(file: str, function: str | None, request: CxxRequest) -> list[str]:
    """The names of the entries that are judged: those of a name, else all."""
    from ptokit.lang.cpp_entries import chosen_entry, entries_named, entries_of

    build = _build(file, request)
    with _entries():
        found = entries_of(build, request.given) if function is None else entries_named(build, function)
        return [entry.name for entry in found or [chosen_entry(build, function)]]


@contextmanager
def _entries() -> Iterator[None]:
    """Around a choice of entries: one that fails is a misuse of the command."""
    try:
        yield
    except ValueError as problem:
        raise Misuse(str(problem)) from None


def _build(file: str, request: CxxRequest) -> Build:
    """The source compiled for the target of the command or its database, or the first that can be."""
    target = request.target if compiler_of(request.target or "") else stated_target(file, request) or ""
    try:
        build = source_of(file, request).first_build(target)
    except ImportError as problem:
        raise Misuse(str(problem)) from None
    _say_compiler()
    return build


@lru_cache(maxsize=1)
def _say_compiler() -> None:
    """Say, once, that another compiler than $CXX is used."""
    from ptokit.cxx.compile import find_compiler

    if remark := find_compiler().remark:
        print_error(remark)
