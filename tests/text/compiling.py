"""Compiles emitted C++ against declarations of the vendor's calls, which are in `vendor/`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

VENDOR = Path(__file__).parent / "vendor"
COMPILERS = ("g++", "clang++", "c++")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-tautological-compare")
"""All but those about what an author may well have written: things without use, `n < n`."""
FLAGS = ("-std=c++20", *WARNINGS, "-D__DAV_VEC__", "-D__DAV_CUBE__", f"-I{VENDOR}")
CHEVRONS = re.compile(r"(\w+)<<<(\w+), (\w+), (\w+)>>>\(")


def compiler() -> str:
    """Any compiler that knows C++20; without one these tests say nothing, so they fail."""
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(f"no C++ compiler: install one of {', '.join(COMPILERS)} (C++20), as `apt install g++` does")
    return found


def complaints(source: str, target: str, folder: Path) -> str:
    """What the compiler says about a source; nothing if it is well."""
    file = folder / "kernel.cpp"
    file.write_text(CHEVRONS.sub(r"pto_launch(\1, \2, \3, \4)(", source), encoding="utf-8")
    command = [compiler(), *FLAGS, f"-DPTO_{target.upper()}", "-fsyntax-only", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def output(source: str, folder: Path, target: str = "cpu") -> str:
    """What a program prints."""
    file, program = folder / "program.cpp", folder / "program"
    file.write_text(CHEVRONS.sub(r"pto_launch(\1, \2, \3, \4)(", source), encoding="utf-8")
    subprocess.run([compiler(), *FLAGS, f"-DPTO_{target.upper()}", str(file), "-o", str(program)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
