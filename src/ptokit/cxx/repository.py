"""The files that belong to a source: those of its repository. What lies elsewhere is read only if the user names it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

MARKS = (".git", ".hg", ".svn")
"""What the root of a repository has."""
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/nix/store")
"""Folders of compilers, libraries and their headers."""
SINGLE = (
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"),
    *("/dev/zero", "/dev/urandom"),
)
"""Other files that compilers read."""
GRANTED = "PTOKIT_CXX_FOLDERS"
"""The variable of folders that a compiler may read and write, with programs that it may start."""
VARIABLES = (
    GRANTED,
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "COMPILER_PATH"),
    *("GCC_EXEC_PREFIX", "CONDA_PREFIX", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
)
"""Variables of the user's environment that name folders of compilers and of the vendor's toolkit."""
TOLD = re.compile(r"^(?:COLLECT_GCC=| \"?(?=/)|(?:InstalledDir|install): )([^\"\s]+)", re.MULTILINE)
"""Programs and folders that a compiler names with `-v` and `-print-search-dirs`."""
PATHS = re.compile(rb"/[^\s\"'`$;|&()<>]+")
"""Absolute paths in a script."""
TOLD_LISTS = re.compile(r"^(?:COMPILER_PATH=|LIBRARY_PATH=|programs: =|libraries: =)(.+)", re.MULTILINE)
LOADED = re.compile(r"(?:=> |^\s+)(/\S+) \(0x", re.MULTILINE)
"""Libraries that the loader names."""
PARTS = ("bin", "include", "lib", "lib64", "libexec", "share")
"""Folders of an installed compiler."""


def repository_of(source: Path) -> Path:
    """The nearest folder above a source that is the root of a repository. Without one, the working folder if it has the
    source, else the source's folder. A home folder, and what is above it, is no repository."""
    source, home = source.resolve(), Path(os.path.realpath(os.path.expanduser("~")))  # some users have none
    roots = [folder for folder in source.parents if folder != home and folder not in home.parents]
    for folder in roots:
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    here = Path.cwd().resolve()
    return here if here in roots else source.parent


def granted() -> list[str]:
    """The folders that the user gives to compilers."""
    return [part for part in os.environ.get(GRANTED, "").split(os.pathsep) if os.path.isabs(part)]


def system_folders() -> list[str]:
    """The folders of the system, and those that the user's environment names."""
    named = (part for name in VARIABLES for part in os.environ.get(name, "").split(os.pathsep))
    return [*SYSTEM, *(part for part in named if os.path.isabs(part))]


def is_within(path: Path, folders: Iterable[str | Path]) -> bool:
    """Whether a file or folder is in one of some folders."""
    real = os.path.realpath(path)
    return any(os.path.commonpath([real, root]) == root for root in (os.path.realpath(folder) for folder in folders))


def of_compiler(command: Sequence[str]) -> Iterator[str]:
    """The folders of an installed compiler."""
    program = os.path.realpath(shutil.which(command[0]) or command[0])
    prefix = os.path.dirname(os.path.dirname(program))
    yield program
    yield from (os.path.join(prefix, part) for part in PARTS)
    if "ziglang" in command:
        found = importlib.util.find_spec("ziglang")
        yield from (sys.prefix, sys.base_prefix, *(found.submodule_search_locations or () if found else ()))


@lru_cache(maxsize=16)
def folders_of(command: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of programs and libraries that a compiler uses. It is asked if it, the assembler or the linker is a
    script, or outside of the system's folders."""
    located = [shutil.which(name) for name in (command[0], "as", "ld")]
    if "ziglang" in command or all(_is_plain(program) for program in located if program):
        return ()
    text = _told((*command, "-v", "-E", "-x", "c++", os.devnull, "-o", os.devnull))
    text += _told((*command, "-print-search-dirs"))
    tools = [_told((*command, f"-print-prog-name={name}")).strip() for name in ("as", "ld", "cc1plus", "collect2")]
    scripts = [name for program in located if program for name in _named_in(program)]
    named = [
        *scripts,
        *TOLD.findall(text),
        *tools,
        *(part for row in TOLD_LISTS.findall(text) for part in row.split(os.pathsep)),
    ]
    paths = {os.path.realpath(shutil.which(name) or name) for name in named if name}
    programs = [path for path in paths if os.path.isfile(path)]
    loaded = [LOADED.findall(_told((program, "--version"), LD_TRACE_LOADED_OBJECTS="1")) for program in programs]
    files = [*programs, *(os.path.realpath(path) for libraries in loaded for path in libraries)]
    return tuple(sorted({*filter(os.path.isdir, paths), *map(os.path.dirname, files)} - {"/"}))


def _named_in(program: str, depth: int = 4) -> Iterator[str]:
    """The programs that a script of the user's names, and those that they name: a compiler does not tell of them."""
    try:
        with open(program, "rb") as file:
            text = file.read(1 << 16)
    except OSError:
        return
    for found in sorted(set(PATHS.findall(text))) if text.startswith(b"#!") and depth else ():
        if os.path.isfile(name := os.fsdecode(found)):
            yield name
            yield from _named_in(name, depth - 1)


def _is_plain(program: str) -> bool:
    """Whether a program is of the system, and no script."""
    try:
        with open(program, "rb") as file:
            return file.read(2) != b"#!" and is_within(Path(program), SYSTEM)
    except OSError:
        return False


def _told(command: Sequence[str], **environment: str) -> str:
    """What a program of the user's prints."""
    try:
        return subprocess.run(  # noqa: S603
            [shutil.which(command[0]) or command[0], *command[1:]],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=30, check=False, env={**os.environ, "LC_ALL": "C", **environment},
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
