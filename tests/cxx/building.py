"""Builds small libraries of C++ for tests of the recorder: a source and the runtime."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from ptokit.cxx.compile import (
    ANNOUNCED,
    COMPILED_RECORDERS,
    LINK,
    UNCHECKED,
    NoCompilerError,
    compile_source,
    find_compiler,
)
from ptokit.cxx.folders import generated_headers
from ptokit.cxx.names import INCLUDE, OWN
from ptokit.cxx.names_in_source import SourceTexts
from ptokit.lang.cpp_entries import LIBRARIES


def _compiler() -> list[str]:
    try:
        return list(find_compiler().command)
    except NoCompilerError:
        return []


COMPILER = _compiler()
"""The command of the compiler that ptokit finds; empty if there is none."""
SOURCES = Path(__file__).with_name("sources")
HEADERS = str(generated_headers())
COMMON = (
    "-std=c++20",
    "-fPIC",
    "-gdwarf-4",
    "-g1",
    "-fno-omit-frame-pointer",
    "-Wall",
    "-Wextra",
    UNCHECKED,
    f"-I{OWN}",
    f"-I{HEADERS}/own",
    f"-I{HEADERS}",
)
FAMILY = find_compiler().family if COMPILER else "gcc"
KERNEL = ("-O1", "-fno-inline", "-fno-optimize-sibling-calls", *ANNOUNCED[FAMILY])


@dataclass(frozen=True)
class CoreCode:
    """A library for one core, or for any."""

    path: Path
    core: str = "any"
    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Built:
    """A built source."""

    libraries: tuple[CoreCode, ...]
    source: Path
    target: str = "a2a3"
    texts: SourceTexts = field(default_factory=lambda: SourceTexts([SOURCES]))
    own: tuple[str, ...] = (str(INCLUDE), HEADERS)

    @property
    def path(self) -> Path:
        """The only library."""
        (library,) = self.libraries
        return library.path

    def line(self, comment: str) -> int:
        """The number of the line that ends with a comment."""
        lines = self.source.read_text().splitlines()
        found = [k for k, line in enumerate(lines, 1) if re.search(rf"// {re.escape(comment)}$", line)]
        assert len(found) == 1, comment
        return found[0]


@lru_cache
def folder() -> Path:
    """A folder that lives as long as the tests."""
    import atexit

    made = Path(mkdtemp(prefix="ptokit-test-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def compile_with(*arguments: object) -> None:
    """Runs the compiler."""
    assert COMPILER
    done = subprocess.run([*COMPILER, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@lru_cache
def runtime() -> Path:
    """The compiled recorder."""
    made = folder() / "runtime.o"
    compile_with(*COMMON, "-O2", "-c", OWN / "ptokit" / "runtime.cpp", "-o", made)
    return made


def keep_recorder() -> None:
    """Put the recorder into the cache that is used now, as if another source had been compiled before."""
    if COMPILER and not COMPILED_RECORDERS:
        source = folder() / "empty.cpp"
        source.write_text("")
        compile_source(source).close()
    for key, code in COMPILED_RECORDERS.items():
        LIBRARIES.save(key, code)


@lru_cache
def library(name: str, *options: str) -> Built:
    """A source of `sources/`, compiled and linked with the recorder."""
    source = SOURCES / f"{name}.cpp"
    made = folder() / f"{name}{len(options)}{abs(hash(options))}.so"
    compile_with(*COMMON, *KERNEL, *options, "-c", source, "-o", made.with_suffix(".o"))
    compile_with(*LINK, made.with_suffix(".o"), runtime(), "-o", made)
    return Built((CoreCode(made),), source)
