"""The files that belong to a source: those of its repository. What lies elsewhere is read only if the user names it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
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
VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "COMPILER_PATH"),
    *("GCC_EXEC_PREFIX", "CONDA_PREFIX", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
)
"""Variables of the user's environment that name folders of compilers and of the vendor's toolkit."""
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
