"""C++ that ptokit writes is recorded as the program that it was written from: the gallery, and random kernels.

The program that is expected is made without C++: the blocks are run on paper, and the calls are folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptokit.cxx.compile import compile_source
from ptokit.cxx.program import programs
from ptokit.cxx.record import ArrayArgument, ScalarArgument, record
from ptokit.lang.cpp_entries import LIBRARIES
from ptokit.lang.launch import mode_of
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import profile
from ptokit.text.cpp import emit
from ptokit.text.cpp.source import Ready, prepare
from tests.cxx.unrolled import Unroller, canonical, plain_calls
from tests.examples.test_gallery import GALLERY, rng
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import GRID, kernel_of
from tests.lang.test_random_kernels import arguments as random_arguments
from tests.loops import FULL

TARGETS = ("a2a3", "a5")
SEEDS = range(4)


@dataclass(frozen=True)
class Written:
    """A kernel as C++, and the arrays of a launch."""

    name: str
    program: Program
    given: dict[str, Any]
    grid: int

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays that the kernel is given."""
        return {name: value for name, value in self.given.items() if isinstance(value, np.ndarray)}

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers that the kernel is given."""
        return {name: value for name, value in self.given.items() if isinstance(value, int)}

    def arguments(self) -> Iterator[ArrayArgument | ScalarArgument]:
        """All of them, in order."""
        for name, value in self.given.items():
            is_array = isinstance(value, np.ndarray)
            yield ArrayArgument(name, value) if is_array else ScalarArgument(name, "int64", value)


def kernels(target: str) -> Iterator[Written]:
    """Kernels of the gallery with ragged sizes, and random ones."""
    for number, entry in enumerate(GALLERY):
        if target in entry.targets:
            given = entry.make(rng(), **entry.sizes[number % 2])
            yield Written(entry.name, _traced(entry.kernel, target, given), given, 3)
    for seed in SEEDS:
        for mode, text in zip(("auto", "manual"), random_kernel(seed), strict=True):
            given = random_arguments()
            yield Written(f"{mode}_{seed}", _traced(kernel_of(text, f"{mode} {seed}"), target, given), given, GRID)


def _traced(kernel: Any, target: str, given: dict[str, Any]) -> Program:
    return kernel.trace(kernel.bind((), given), mode_of(target)).program


def ready(program: Program, target: str) -> Ready:
    return prepare(program, profile(target), Options(), None)


def expected(each: Written, target: str) -> Program:
    """The program of the recording that C++ should give."""
    done = ready(each.program, target)
    unroller = Unroller(done.program, profile(target), each.arrays, each.numbers, done.workspace)
    (program,) = programs(unroller.recording(each.grid))
    return program


def source_of(written: Iterable[tuple[str, Program]], target: str) -> str:
    """All programs as one source, each in a namespace."""
    heads, parts = dict[str, None](), list[str]()
    for name, program in written:
        lines = emit(program, profile(target)).splitlines()
        heads.update(dict.fromkeys(line for line in lines if re.match(r"#include|using namespace", line)))
        rest = [line for line in lines if line not in heads]
        parts.append("\n".join((f"namespace {name} {{", *rest, "}")))
    return "\n".join((*heads, *parts)) + "\n"


@pytest.mark.parametrize("target", TARGETS)
def test_cpp_that_ptokit_writes_is_recorded_as_its_program(target: str, tmp_path: Path) -> None:
    written = [*kernels(target)] if FULL else [*kernels(target)][TARGETS.index(target) :: 2]
    file = tmp_path / "kernels.cpp"
    file.write_text(source_of(((f"k{number}", each.program) for number, each in enumerate(written)), target))
    with compile_source(file, target, kept=LIBRARIES) as build:
        found = {entry.name.partition("::")[0]: entry.name for entry in build.entries if entry.kind == "kernel"}
        for number, each in enumerate(written):
            recording = record(build, found[f"k{number}"], [*each.arguments()], each.grid)
            assert not recording.problems, each.name
            (program,) = programs(recording)
            assert canonical(program) == canonical(expected(each, target)), each.name


@pytest.mark.parametrize("target", TARGETS)
def test_folded_programs_make_the_calls_that_they_were_folded_from(target: str) -> None:
    for each in kernels(target):
        done = ready(each.program, target)
        recording = Unroller(done.program, profile(target), each.arrays, each.numbers, done.workspace).recording(
            each.grid
        )
        (program,) = programs(recording)
        again = Unroller(program, profile(target), each.arrays).recording(each.grid)
        assert [*plain_calls(again)] == [*plain_calls(recording)], each.name
