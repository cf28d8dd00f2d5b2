"""A program for one signature of a kernel, with what was worked out for it."""

from __future__ import annotations

from dataclasses import dataclass

from ptokit.engine.interpreter import Executable, written_arguments
from ptokit.finding import Finding
from ptokit.lang.context import Mode
from ptokit.program.ir import Program
from ptokit.program.verify import verify

MOST_KEPT = 256
"""Grids and targets that are remembered for one program."""


@dataclass(frozen=True)
class Ready:
    """A program that was verified for a target and a grid."""

    errors: tuple[Finding, ...]
    remarks: tuple[Finding, ...]
    executable: Executable


class Traced:
    """A program for one signature, with what was worked out for it."""

    def __init__(self, program: Program, outside: dict[str, object]) -> None:
        """`outside` are the values that the program took from around the kernel."""
        self.program = program
        self.outside = outside
        self.writes = written_arguments(program)
        self._executables: dict[Mode, Executable] = {}
        self._ready: dict[tuple[Mode, int], Ready] = {}

    def ready(self, mode: Mode, grid: int) -> Ready:
        """What is certain before it runs on a target, over a grid, and what runs it."""
        ready = self._ready.get((mode, grid))
        if ready is None:
            if len(self._ready) >= MOST_KEPT:
                self._ready.clear()
            ready = self._ready[mode, grid] = self._verify(mode, grid)
        return ready

    def _verify(self, mode: Mode, grid: int) -> Ready:
        findings = verify(self.program, mode.profile, mode.options, grid)
        errors = tuple(finding for finding in findings if finding.level == "error")
        remarks = tuple(finding for finding in findings if finding.level != "error")
        if mode not in self._executables:
            self._executables[mode] = Executable(self.program, mode.profile, mode.options)
        return Ready(errors, remarks, self._executables[mode])
