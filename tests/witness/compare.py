"""What the machine assumes of instructions, beside what the headers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptokit.machine.access_checks import AccessChecks
from ptokit.witness.extents import Ranges, merged

MEMORIES = {"UB": "vec", "L1": "mat", "L0A": "left", "L0B": "right", "L0C": "acc", "BT": "bias", "FB": "scaling"}


@dataclass
class Assumed:
    """One execution of an instruction on the machine."""

    name: str
    pipes: frozenset[str]
    touches: list[tuple[str, str, str, Ranges]]
    """ByteAccess, memory, operand, bytes."""

    def bytes_of(self, how: str) -> dict[str, Ranges]:
        found: dict[str, list[Ranges]] = {}
        for each, memory, _, ranges in self.touches:
            if each == how:
                found.setdefault(memory, []).append(ranges)
        joined = {memory: np.concatenate(rows) for memory, rows in found.items()}
        return {memory: merged(rows[:, 0], rows[:, 1] - rows[:, 0]) for memory, rows in joined.items()}


@contextmanager
def watched() -> Iterator[list[Assumed]]:
    """All executions on the machine, in order."""
    found: list[Assumed] = []
    original = AccessChecks.check_bursts

    def check(self: Any, executed: Any, site: Any, touches: Sequence[Any]) -> None:
        rows: list[tuple[str, str, str, Ranges]] = []
        for touch in touches:
            unit = touch.place.shadow.unit
            at = touch.extent.positions(touch.place.start).ravel() * unit
            rows.append((touch.how, touch.place.name, touch.operand, merged(at, unit)))
        pipes = frozenset(step.pipe for step in executed.steps if type(step).__name__ == "Work")
        found.append(Assumed(executed.instr.name, pipes or frozenset(str(s) for s in executed.steps), rows))
        original(self, executed, site, touches)

    AccessChecks.check_bursts = check
    try:
        yield found
    finally:
        AccessChecks.check_bursts = original
