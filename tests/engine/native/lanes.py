"""A chip with lanes, which the CPU executes one after the other: the code of a GPU, without one.

`pytest -p tests.engine.native.lanes` runs any tests of the native engine so.
"""

from __future__ import annotations

from ptokit.engine.llvm.chip import Chip
from ptokit.engine.native.program.executable import NativeExecutable

LANES = Chip(lanes=8, piece=16)
"""Phases are loops over eight lanes."""


def pytest_configure() -> None:
    NativeExecutable.chip = LANES
