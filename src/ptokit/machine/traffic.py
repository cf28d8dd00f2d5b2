"""The bytes that each statement of a program moves to and from global memory, and how many of them it uses.

Bytes of the table, or of the block that is loaded or stored, are used; indices and scratch in global memory are only
moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from operator import add
from typing import Any, NamedTuple

from ptokit.engine.kept import remember
from ptokit.engine.reference import IndexedStep, Plan
from ptokit.finding import Where
from ptokit.isa.kernel import LaunchShape
from ptokit.machine.costs import Grains
from ptokit.machine.site import Executed
from ptokit.machine.ways import NOTHING, Count, GlobalAccess, global_accesses

DEFAULT = Grains()


@dataclass(frozen=True)
class Traffic:
    """What one statement moved, all its executions in all blocks together."""

    instruction: str
    where: Where | None = None
    launch: LaunchShape | None = None
    """Its SIMT launch, the largest if they differ; None if it starts no threads."""
    transactions: int = 0
    """128-byte segments of warps, 32-byte chunks of bursts, 64-byte lines of scalar accesses."""
    bursts: int = 0
    """Runs that are contiguous at both ends, which DMA moves."""
    scalar: int = 0
    """Elements of global memory that the scalar pipe touched."""
    bytes_moved: int = 0
    bytes_used: int = 0
    misaligned: int = 0
    """Bursts whose UB address is not a multiple of 32 (H-01)."""
    executions: int = 1
    number: int = 0
    """Of the statement in the program."""

    @property
    def efficiency(self) -> float:
        """Bytes used for every byte moved."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def warps(self) -> int:
        """Warps that the launch starts."""
        return self.launch.warps if self.launch else 0

    @property
    def lanes_per_row(self) -> int:
        """Lanes that share a row; 0 if lanes do not belong to rows."""
        return self.launch.lanes * self.launch.warps_per_row if self.launch else 0

    def as_dict(self) -> dict[str, Any]:
        """The traffic as plain data."""
        plain = asdict(self)
        plain["where"] = None if self.where is None else str(self.where)
        return {**plain, "warps": self.warps, "lanes_per_row": self.lanes_per_row, "efficiency": self.efficiency}

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        launch = self.launch and f"dim3{{{self.launch.lanes}, {self.launch.warps}}}"
        rows = f"{self.lanes_per_row} lanes a row" if self.lanes_per_row else ""
        counts = [
            f"{count:,} {what}"
            for count, what in (
                (self.transactions, "transactions"),
                (self.bursts, "bursts"),
                (self.misaligned, "of them misaligned"),
                (self.scalar, "scalar accesses"),
            )
            if count
        ]
        moved = f"{self.bytes_used:,} of {self.bytes_moved:,} bytes used ({self.efficiency:.0%})"
        return f"{self.instruction}{place}: " + ", ".join(filter(None, [launch, rows, *counts, moved]))


class TrafficMeter:
    """Adds up what instructions move, statement by statement."""

    def __init__(self, grains: Grains = DEFAULT) -> None:
        self.grains = grains
        self._known: dict[Plan, _Accesses] = {}
        self._sums: dict[int, _Sum] = {}

    def observe(self, executed: Executed) -> None:
        """Add an instruction that was executed; on-chip moves do not count."""
        plan = executed.plan
        reached = self._known.get(plan) or remember(self._known, plan, self._reach(executed))
        if not reached.accesses:
            return
        total = self._sums.get(executed.number)
        if total is None:
            instr = executed.instr
            total = self._sums[executed.number] = _Sum(executed.number, instr.name, instr.where)
        counts = [access.moves(access, executed) for access in reached.accesses]
        total.add(counts, reached.launch)
        indexed = (count for access, count in zip(reached.accesses, counts, strict=True) if access.is_indexed)
        executed.transactions = max((count.transactions for count in indexed), default=0)

    def _reach(self, executed: Executed) -> _Accesses:
        return _Accesses(tuple(global_accesses(executed, self.grains)), _launch(executed))

    def result(self) -> tuple[Traffic, ...]:
        """What was moved so far, in the order of the program."""
        return tuple(self._sums[number].traffic() for number in sorted(self._sums))


class _Accesses(NamedTuple):
    """The accesses of a call to global memory."""

    accesses: tuple[GlobalAccess, ...]
    launch: LaunchShape | None


@dataclass
class _Sum:
    """A statement so far."""

    number: int
    instruction: str
    where: Where | None
    launch: LaunchShape | None = None
    total: Count = NOTHING
    executions: int = 0

    def add(self, counts: Iterable[Count], launch: LaunchShape | None) -> None:
        """Add an execution; of different launches the largest stays."""
        self.executions += 1
        for count in counts:
            self.total = Count(*map(add, self.total, count))
        if launch is not None and (self.launch is None or launch.threads > self.launch.threads):
            self.launch = launch

    def traffic(self) -> Traffic:
        """The statement, for the report."""
        return Traffic(
            self.instruction, self.where, self.launch, *self.total, executions=self.executions, number=self.number
        )


def _launch(executed: Executed) -> LaunchShape | None:
    """The SIMT launch over the valid region, or over the padded tile where lanes fill a workspace (MG-SIMT-18)."""
    call = executed.call
    launch = call.kernel.launch
    if launch is None:
        return None
    step = next(step for step in executed.plan.steps if isinstance(step, IndexedStep))
    tile = call.destination
    rows, cols = step.shape if call.of_role("scratch") is None else (tile.rows, tile.cols)
    return launch(rows, cols) if rows and cols else None
