"""Random kernels give the same bits traced and in debug runs, in auto and manual mode, on every target."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.engine.interpreter import Executable
from ptokit.lang.launch import mode_of
from ptokit.program.expr import Var
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.target.a2a3 import A2A3
from ptokit.target.profile import UnifiedBuffer
from tests import snippet
from tests.lang.random_kernels import TABLE, random_kernel

GRID = 3
SEEDS = range(12 * int(os.environ.get("PTOKIT_FUZZ", "0")) or 4)
CRAMPED = replace(A2A3, ub=UnifiedBuffer(size=32))
"""A target with little memory: tiles share addresses wherever they can."""


def kernel_of(source: str, name: str) -> Any:
    names: dict[str, Any] = {"pto": pto}
    exec(snippet.compiled(source, name), names)
    return names["k"]


def arguments() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "x": rng.integers(-9, 9, (TABLE, 8)).astype("float32"),
        "large": rng.integers(-9, 9, (8, 16)).astype("float32"),
        "idx": rng.integers(0, TABLE + 16, TABLE).astype("int32"),
        "lens": np.array([0, 2, 5, 1], "int32"),
        "out": np.zeros((TABLE, 8), "float32"),
        "n": 2,
    }


def outcome(source: str, name: str, grid: int = GRID, **options: Any) -> bytes:
    """What a kernel leaves in its output."""
    given = arguments()
    kernel_of(source, name)[grid](*given.values(), **options)
    return given["out"].tobytes()


def placed_outcome(source: str, name: str, room: Any) -> bytes:
    """The same at the addresses that auto mode gives, where tiles may lie over one another."""
    kernel, given = kernel_of(source, name), arguments()
    bound, mode = kernel.bind(tuple(given.values()), {}), mode_of("a2a3")
    program = order(place(kernel.trace(bound, mode).program, room).program, A2A3)
    storages = {name: tensor.storage for name, tensor in bound.tensors.items()}
    integers = {Var(name): value for name, value in bound.integers.items()}
    Executable(program, A2A3, mode.options).launch(storages, integers, GRID, tuple)
    return given["out"].tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_way_to_run_a_kernel_gives_the_same_bits(seed: int) -> None:
    auto, manual = random_kernel(seed)
    expected = outcome(auto, f"auto {seed}", debug=True)
    for target in ("cpu", "a2a3", "a5"):
        assert outcome(auto, f"auto {seed}", target=target) == expected, auto
    for room in (A2A3, CRAMPED):
        assert placed_outcome(auto, f"auto {seed}", room) == expected, auto
    for options in ({}, {"target": "a5"}, {"debug": True}):
        assert outcome(manual, f"manual {seed}", **options) == expected, manual


UNORDERED = {"H-14", "H-15", "H-47", "H-48"}
"""Hazards of programs whose result depends on the schedule: one cell that a scatter stores to twice, stale lines."""


@pytest.mark.parametrize("seed", SEEDS)
def test_another_schedule_gives_the_same_bits(seed: int) -> None:
    """One block, as nothing orders several that write to one place."""
    auto, _ = random_kernel(seed)
    for target in ("a2a3", "a5"):
        expected = outcome(auto, f"auto {seed}", grid=1, target=target, engine="reference")
        for schedule in (seed, seed + 1):
            given, options = arguments(), pto.MachineOptions(seed=schedule)
            kernel = kernel_of(auto, f"auto {seed}")
            report = kernel[1](*given.values(), target=target, engine="machine", options=options)
            if UNORDERED.isdisjoint(finding.kind for finding in report.hazards):
                assert given["out"].tobytes() == expected, auto
