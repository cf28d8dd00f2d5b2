"""A pytest plugin: programs are compiled for a chip with lanes, which the CPU executes one after the other.

`pytest -p tests.engine.native.lanes` runs the code of a GPU without one: the lanes of a phase are iterations of a loop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ptokit.engine.llvm.chip import CPU
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.stage import Stage

LANES = 8
PIECE = 16


def pytest_configure() -> None:
    *defaults, _ = Emitter.__init__.__defaults__ or ()
    Emitter.__init__.__defaults__ = (*defaults, partial(Stage, chip=replace(CPU, lanes=LANES, piece=PIECE)))
