"""The same launch on both engines, with any number of threads: the same bits, findings and errors."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ptokit as pto
from ptokit.engine.interpreter import Executable
from ptokit.engine.native.program.executable import NativeExecutable
from ptokit.engine.storage import Storage
from ptokit.finding import Finding
from ptokit.program.expr import Var
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import profile

Array = np.ndarray[Any, np.dtype[Any]]
NATIVE = (1, 2, 5, 2)
"""Threads of the native launches; by the last one, code has been made for all numbers that were met."""


@dataclass
class Outcome:
    """What a launch did."""

    ending: tuple[Any, ...]
    findings: Counter[tuple[Any, ...]]
    memories: dict[str, bytes]


def counted_findings(findings: Sequence[Finding]) -> Counter[tuple[Any, ...]]:
    """Findings as a multiset, without their places."""
    return Counter((f.rule, f.kind, f.level, f.message) for f in findings)


def outcome(arrays: Mapping[str, Array], launch: Callable[[], Sequence[Finding]]) -> Outcome:
    """The error of a launch, its findings, and the memory after it."""
    found: Sequence[Finding] = ()
    ending: tuple[Any, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pto.HazardWarning)
        try:
            found = launch()
        except (pto.VerifyError, pto.OutOfBoundsError, ValueError) as problem:
            ending = type(problem), str(problem)
    return Outcome(ending, counted_findings(found), {name: array.tobytes() for name, array in arrays.items()})


def agree(found: Outcome, expected: Outcome, threads: int, near: Callable[[str, bytes], bool] | None = None) -> None:
    """Both outcomes are one; of a launch that failed on several threads, later blocks may have written."""
    assert found.ending == expected.ending
    if found.ending and threads > 1:
        return
    assert found.findings == expected.findings
    for name, memory in expected.memories.items():
        assert found.memories[name] == memory or (near is not None and near(name, found.memories[name])), name


def same(
    kernel: Any,
    grid: int,
    make: Callable[[], Mapping[str, Any]],
    *,
    near: Callable[[Mapping[str, Array], str, bytes], bool] | None = None,
    engine: str = "native",
    **options: Any,
) -> Outcome:
    """Launch a kernel over fresh arguments on the reference engine, then natively; the outcome they share."""

    def launched(engine: str, threads: int | None) -> tuple[Mapping[str, Array], Outcome]:
        given = make()
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        run = lambda: kernel[grid](**given, engine=engine, threads=threads, **options).findings  # noqa: E731
        return arrays, outcome(arrays, run)

    arrays, expected = launched("reference", None)
    for threads in NATIVE if engine == "native" else (2, 2):
        found = launched(engine, threads)[1]
        agree(found, expected, threads, near and (lambda name, memory: near(arrays, name, memory)))
    return expected


def same_program(
    program: Program, target: str, grid: int, make: Callable[[], dict[str, Storage]], integers: Mapping[str, int]
) -> Outcome:
    """The same for a program as plain data."""
    numbers = {Var(name): value for name, value in integers.items()}
    options = Options()

    def launched(executable: Executable | NativeExecutable, threads: int | None) -> Outcome:
        storages = make()
        collector = pto.lang.launch.FindingCollector(None, {})

        def launch() -> Sequence[Finding]:
            executable.launch(storages, numbers, grid, collector, threads)
            return collector.findings

        return outcome({name: storage.bits for name, storage in storages.items()}, launch)

    expected = launched(Executable(program, profile(target), options), None)
    native = NativeExecutable(program, profile(target), options)
    for threads in NATIVE:
        agree(launched(native, threads), expected, threads)
    return expected
