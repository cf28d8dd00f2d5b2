"""The interface of engines: a program made ready, which can be launched any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ptokit.engine.storage import Storage
from ptokit.finding import Finding, Judged, findings_html, summary
from ptokit.markup import Displayed, box, facts
from ptokit.program.expr import Var

REFERENCE, NATIVE, CUDA = "reference", "native", "cuda"
Listener = Callable[[Sequence[Finding]], object]
"""Takes findings while a launch runs, each before its instruction writes anything."""


@dataclass(frozen=True, repr=False)
class Run(Judged, Displayed):
    """The result of a launch; `bool(run)` is `run.ok`."""

    findings: tuple[Finding, ...]
    """Hazards and notes, each once."""
    engine: str
    seconds: float
    target: str
    grid: int

    def __init__(self, findings: tuple[Finding, ...], engine: str, seconds: float, target: str, grid: int) -> None:
        """What a frozen dataclass does by itself takes twice as long."""
        self.__dict__.update(findings=findings, engine=engine, seconds=seconds, target=target, grid=grid)

    def __repr__(self) -> str:
        blocks = f"{self.grid} block{'' if self.grid == 1 else 's'}"
        return f"<{type(self).__name__} on {self.target}, {blocks}, {self.engine}: {summary(self.findings)}>"

    def _repr_html_(self) -> str:
        """The run in a notebook."""
        rows = ("target", self.target), ("blocks", f"{self.grid:,}"), ("engine", self.engine)
        known = facts([*rows, ("seconds", f"{self.seconds:.6f}"), ("findings", summary(self.findings))])
        return box("Run", known, findings_html(self.findings))


class Unsupported(Exception):
    """Work that an engine does not support; nothing was written."""


class Runnable(Protocol):
    """A program made ready for a target by some engine."""

    def launch(
        self,
        tensors: Mapping[str, Storage],
        integers: Mapping[Var, int],
        grid: int,
        listener: Listener,
        threads: int | None,
    ) -> str:
        """Run every block of the grid, with the bits of ascending order. Returns the name of the engine that ran."""
        ...

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> Small | None:
        """The same launch over other arrays of the same kinds, quickly; None if the launch is not eligible."""
        ...


class Small(Protocol):
    """A launch of a few blocks over arrays; only their addresses are unknown."""

    engine: str

    def run(self, addresses: Sequence[int], tensors: Callable[[], Mapping[str, Storage]], listener: Listener) -> float:
        """Run it on the calling thread; returns the seconds it took."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether a full launch would run the same code."""
        ...
