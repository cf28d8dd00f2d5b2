"""The result of a run on the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ptokit.engine.runnable import Run
from ptokit.finding import NAME, Finding, summary
from ptokit.machine.outcomes import LaneOutcomes
from ptokit.machine.text import counted, report_text
from ptokit.machine.timeline import Timeline
from ptokit.machine.traffic import Traffic


@dataclass(frozen=True)
class MemoryUse:
    """One on-chip memory: how much of it tiles use, by their highest end, and their addresses."""

    name: str
    size: int | None
    """Bytes that the launch makes available; None for no limit."""
    used: int
    tiles: tuple[tuple[str, int, int], ...] = ()
    """Name, first byte and the byte after the last, of every address of a tile."""


@dataclass(frozen=True, repr=False)
class MachineReport(Run):
    """A launch on the machine: a `Run` with all findings, and with what hardware would do."""

    memory: Mapping[str, MemoryUse] = field(default_factory=dict)
    """By the name of the memory (`UB`, `L1`, ...)."""
    timeline: Timeline | None = None
    traffic: tuple[Traffic, ...] = ()
    """One for each gather, scatter, load and store of the program, all blocks together."""
    lanes: tuple[LaneOutcomes, ...] = ()
    """The outcome of every lane, if the options ask for it."""
    kernel: str = ""
    """The name of the kernel that was launched."""
    written: bool = True
    """Whether arrays were written: not if an instruction could not be executed."""

    def __repr__(self) -> str:
        blocks = counted(self.grid, "block")
        return f"<Report {self.kernel[:NAME]} on {self.target}, {blocks}: {summary(self.findings)}>"

    @property
    def ok(self) -> bool:
        """Whether there is no error and no hazard."""
        return all(finding.level == "note" for finding in self.findings)

    @property
    def hazards(self) -> tuple[Finding, ...]:
        """The errors and hazards."""
        return tuple(finding for finding in self.findings if finding.level != "note")

    def __str__(self) -> str:
        return report_text(self)

    def to_json(self) -> str:
        """The report as JSON; arrays of lanes as lists."""
        return json.dumps(self.as_dict(), indent=2)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "engine": self.engine,
            "target": self.target,
            "grid": self.grid,
            "seconds": self.seconds,
            "ok": self.ok,
            "written": self.written,
            "findings": [_finding(finding) for finding in self.findings],
            "memory": {name: asdict(use) for name, use in self.memory.items()},
            "timeline": None if self.timeline is None else self.timeline.as_dict(),
            "traffic": [each.as_dict() for each in self.traffic],
            "lanes": [each.as_dict() for each in self.lanes],
        }


def _finding(finding: Finding) -> dict[str, Any]:
    plain = {each.name: getattr(finding, each.name) for each in fields(finding) if each.compare}
    plain["where"] = None if finding.where is None else str(finding.where)
    return plain
