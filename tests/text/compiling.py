"""Compiles emitted C++ against declarations of the vendor's calls, which are in `header_stub/`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

HEADERS = Path(__file__).parent / "header_stub"
COMPILERS = ("g++", "clang++", "c++")
LOOK = ("-std=c++20", "-fsyntax-only", "-x", "c++")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter", "-Wno-tautological-compare")
"""All but those for valid programs: unused variables, `n < n`."""
FLAGS = ("-std=c++20", "-trigraphs", *WARNINGS, "-D__DAV_VEC__", "-D__DAV_CUBE__", f"-I{HEADERS}")
HEAD = "#include <cstdint>\n\n#include <pto/pto-inst.hpp>\n\nusing namespace pto;\n"
CHEVRONS = re.compile(r"(\w+)<<<(\w+), (\w+), (\w+)>>>\(")


@dataclass(frozen=True)
class Compiler:
    """Commands that make an object of a source and a program of an object, and how to only look at a source."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    look: tuple[str, ...] = ("-fsyntax-only",)


@cache
def compiler() -> Compiler:
    """Any C++20 compiler; without one these tests fail."""
    for found in filter(None, map(shutil.which, COMPILERS)):
        if subprocess.run([found, *LOOK, os.devnull], capture_output=True, check=False).returncode == 0:
            return Compiler((found,), (found,))
    if find_spec("ziglang") is None:
        pytest.fail(f"no C++ compiler: install one of {', '.join(COMPILERS)} (C++20), or `pip install ziglang`")
    zig = sys.executable, "-m", "ziglang"
    # Zig's `c++` links a library that it would first build, for minutes; and it needs an object from every call.
    return Compiler((*zig, "c++"), (*zig, "cc"), look=("-c",))


def together(texts: Iterable[str]) -> str:
    """Emitted texts as one source, the first one in the namespace `k0`: headers are read once for all of them."""
    parts = []
    for number, text in enumerate(texts):
        remarks, head, code = text.partition(HEAD)
        assert head, f"the text does not begin with its headers:\n{text}"
        parts.append(f"namespace k{number} {{\n{remarks}{code}}}\n")
    return HEAD + "".join(parts)


def complaints(source: str, target: str, folder: Path) -> str:
    """The compiler's messages for a source; empty if it is valid."""
    return _compile(source, target, folder, compiler().look)


def output(source: str, folder: Path, target: str = "cpu") -> str:
    """What a program prints."""
    complaint, program = _compile(source, target, folder, ("-c",)), folder / "program"
    assert complaint == "", complaint
    subprocess.run([*compiler().link, str(folder / "kernel.o"), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def _compile(source: str, target: str, folder: Path, how: tuple[str, ...]) -> str:
    file, made = folder / "kernel.cpp", folder / "kernel.o"
    file.write_text(CHEVRONS.sub(r"pto_launch(\1, \2, \3, \4)(", source), encoding="utf-8")
    command = [*compiler().compile, *FLAGS, f"-DPTO_{target.upper()}", *how, str(file), "-o", str(made)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr
