"""What every engine gives: a program made ready, to be launched as often as you like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ptokit.engine.prepared import Tell
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, summary
from ptokit.program.expr import Var


@dataclass(frozen=True, repr=False)
class Run:
    """What a launch did."""

    findings: tuple[Finding, ...]
    """Hazards and notes, each once."""
    engine: str
    seconds: float
    target: str
    grid: int

    def __repr__(self) -> str:
        blocks = f"{self.grid} block{'' if self.grid == 1 else 's'}"
        return f"<{type(self).__name__} on {self.target}, {blocks}, {self.engine}: {summary(self.findings)}>"


class Unsupported(Exception):
    """Work that an engine does not take; nothing was written."""


class Runnable(Protocol):
    """A program made ready for a target by some engine."""

    def launch(
        self, tensors: Mapping[str, Storage], integers: Mapping[Var, int], grid: int, report: Tell, threads: int | None
    ) -> str:
        """Run every block of the grid; the same bits as one after the other. Gives the name of the engine that ran."""
        ...

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> Small | None:
        """The same launch again, quickly, over other arrays of the same kinds; None where it is none for that."""
        ...


class Small(Protocol):
    """A launch of a few blocks over arrays that are known but for their addresses."""

    def run(self, addresses: Sequence[int], tensors: Callable[[], Mapping[str, Storage]], report: Tell) -> float:
        """Run it on the calling thread; the seconds it took."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether nothing better would come of the long way."""
        ...
