"""A program for one signature of a kernel, with its cached verdicts and executables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ptokit.engine.kept import remember
from ptokit.engine.runnable import Runnable
from ptokit.engines import ENGINES, executable
from ptokit.finding import Finding
from ptokit.lang.context import Mode
from ptokit.lang.reads import Reads
from ptokit.machine import MACHINE
from ptokit.program.calls import written_arguments
from ptokit.program.expr import Var
from ptokit.program.ir import Program
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.program.verify import General, verify

if TYPE_CHECKING:
    from ptokit.machine.executable import MachineExecutable

MOST_CACHED = 256
"""Targets and grids that are cached for one program."""


class Verdict:
    """The findings on a program for a target and a grid, before it runs."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.errors = tuple(finding for finding in findings if finding.level == "error")
        self.remarks = tuple(finding for finding in findings if finding.level != "error")


class Traced:
    """A program for one signature, with its cached verdicts and executables."""

    lengths: Mapping[Var, int] = {}
    """Values of the extents that the program has as variables."""
    family: TracedFamily | None = None
    """The program for more lengths that this one is of, if any."""

    def __init__(self, program: Program, reads: Reads | None = None) -> None:
        """`reads` are the Python values that the program depends on."""
        self.program = program
        self.reads = reads
        self.writes = written_arguments(program)
        self.stored = tuple({program.tensors[name].array for name in self.writes})
        """The array arguments that the program writes."""
        self.verdict = lru_cache(MOST_CACHED)(partial(self.checked, numbers={}))
        """The verdict for a target and a grid."""
        self.machine = lru_cache(MOST_CACHED)(self._on_machine)
        """The program on the model of a target, with the addresses and flags that auto mode adds."""
        self.executable = lru_cache(MOST_CACHED)(self._prepare)
        """The executable for a target and an engine."""

    def checked(self, mode: Mode, grid: int, numbers: Mapping[Var, int]) -> Verdict:
        """The verdict for given integer arguments."""
        return Verdict(verify(self.program, mode.profile, mode.options, grid, numbers))

    def _on_machine(self, mode: Mode) -> MachineExecutable:
        profile, options = mode.profile, mode.options
        placed = order(place(self.program, profile, options.dyn_ub).program, profile) if profile.pipes else self.program
        return ENGINES[MACHINE].prepare(placed, profile, options)

    def _prepare(self, mode: Mode, engine: str, firm: bool) -> Runnable:
        return executable(engine, self.program, mode.profile, mode.options, firm=firm)


class TracedFamily(Traced):
    """A program for many lengths of its arrays."""

    def __init__(self, general: General, reads: Reads) -> None:
        super().__init__(general.program, reads)
        self.general = general

    def at(self, lengths: Mapping[Var, int]) -> TracedMember | None:
        """The program for some lengths; None if it is not valid for them."""
        return TracedMember(self, lengths) if self.general.holds(lengths) else None


class TracedMember:
    """The program of a family for its lengths: the code is that of the family."""

    def __init__(self, family: TracedFamily, lengths: Mapping[Var, int]) -> None:
        self.lengths, self.family = lengths, family
        self.reads, self.writes, self.stored = family.reads, family.writes, family.stored
        self.executable = family.executable
        self._verdicts: dict[tuple[Mode, int], Verdict] = {}

    def verdict(self, mode: Mode, grid: int) -> Verdict:
        """The verdict for a target and a grid."""
        key = mode, grid
        found = self._verdicts.get(key)
        if found is None:
            findings = self.family.general.findings(mode.profile, mode.options, grid, self.lengths)
            found = remember(self._verdicts, key, Verdict(findings), MOST_CACHED)
        return found
