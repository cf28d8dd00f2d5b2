"""An instruction that was executed in a block, as its observers see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ptokit.engine.reference import Lanes, Plan
from ptokit.engine.storage import Array, Storage
from ptokit.finding import Where
from ptokit.isa.instruction import Call
from ptokit.program.ir import Instr
from ptokit.program.steps import Step


@dataclass(eq=False)
class Executed:
    """One execution of an instruction in one block."""

    number: int
    """Of the statement in the program, counted in the order of the text."""
    instr: Instr
    call: Call
    """Operands and modifiers, all extents known."""
    steps: tuple[Step, ...]
    """The work of the pipes, with the instruction's own handshakes."""
    plan: Plan
    storages: Sequence[Storage]
    lanes: Sequence[Lanes | None]
    """Index values after the remap, for each step of the plan that has an index."""
    indices: Sequence[Array | None]
    """The same before the remap: int64, a negative int32 as a negative number. Of gathers only if lane outcomes are
    recorded."""
    block: int
    transactions: int = 0
    """Segments, chunks or lines of global memory that are touched through the index, once they are counted."""

    @property
    def where(self) -> Where | None:
        """The user's line."""
        return self.instr.where

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Operands in the order of the storages."""
        return tuple(name for name, spec in self.call.operands.items() if spec is not None)
