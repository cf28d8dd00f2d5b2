"""An instruction of a program for certain numbers: its work on each pipe. Computed once, executed many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ptokit.engine.prepared import Prepared
from ptokit.engine.reference import IndexedStep, Lanes, Plan, Touched
from ptokit.engine.storage import Array, Storage
from ptokit.finding import Finding, Where
from ptokit.isa.instruction import Call
from ptokit.isa.operand import TileSpec
from ptokit.program.cores import PipeWork, Step, Sync, gate, home_of, on_cores, steps, unit_of
from ptokit.program.ir import Instr
from ptokit.program.verify_call import Options
from ptokit.target import LOAD, SCALAR, STORE, Profile


@dataclass(frozen=True, eq=False)
class Site:
    """What is known of an instruction before its data."""

    prepared: Prepared
    call: Call
    plan: Plan
    steps: tuple[Step, ...]
    """With the core of every pipe, as in `AIV.MTE2`."""
    tiles: dict[str, TileSpec]
    """The operands that are tiles, by name."""
    findings: tuple[Finding, ...]
    """Those of the verifier."""

    @cached_property
    def pipes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.pipe for step in self.steps if isinstance(step, PipeWork)))

    @cached_property
    def gates(self) -> dict[str, str]:
        """For each of them, the pipe that should wait for the data it needs."""
        return {pipe: gate(self.steps, pipe) for pipe in self.pipes}

    @cached_property
    def moved(self) -> dict[tuple[str, bool], str]:
        """Operands that DMA between global and on-chip memory writes or reads, with its pipe; True for writes."""
        work = [(unit_of(step.pipe), step) for step in self.steps if isinstance(step, PipeWork)]
        loads = {(name, True): pipe for pipe, step in work if pipe == LOAD for name in step.writes}
        return loads | {(name, False): pipe for pipe, step in work if pipe == STORE for name in step.reads}

    @cached_property
    def last_column(self) -> int:
        """Where DMA stops writing a destination row, if that is after its valid columns; else 0. What lies between is
        unspecified (A-47, A-67)."""
        reach = self.call.kernel.reach
        end = min(reach(self.call), self.call.destination.cols) if reach else 0
        return end if reach and end > self.call.destination.valid_cols else 0

    def touches(self, plan: Plan, lanes: Sequence[Lanes | None]) -> Sequence[Touched]:
        """What an execution reads and writes."""
        return list(plan.touches(lanes)) if self.is_indexed else self._touches

    @cached_property
    def is_indexed(self) -> bool:
        """Whether what it touches depends on values."""
        return any(isinstance(step, IndexedStep) for step in self.plan.steps)

    @cached_property
    def _touches(self) -> tuple[Touched, ...]:
        return tuple(self.plan.touches([None] * len(self.plan.steps)))

    @cached_property
    def load_wait(self) -> Sync | None:
        """The wait for the load of its index, if it waits by itself."""
        syncs = (step for step in self.steps if isinstance(step, Sync))
        waits = (sync for sync in syncs if (unit_of(sync.src), unit_of(sync.dst)) == (LOAD, SCALAR))
        return next(waits, None)


def site(prepared: Prepared, lenient: Prepared | None, profile: Profile) -> Site | None:
    """An instruction as it is executed; None if it cannot be. `lenient` is a refused call without the rules that memory
    safety does not depend on."""
    used = prepared if prepared.plan is not None else lenient
    if used is None or used.plan is None:
        return None
    tiles = {name: spec for name, spec in used.call.operands.items() if isinstance(spec, TileSpec)}
    done = placed_steps(used.call, profile)
    return Site(used, used.call, used.plan, done, tiles, (*prepared.refused, *prepared.remarks))


def placed_steps(call: Call, profile: Profile) -> tuple[Step, ...]:
    """The steps of a call, with the core of every pipe."""
    core = home_of((spec.loc for spec in call.operands.values() if isinstance(spec, TileSpec)), profile)
    return on_cores(steps(call, profile), core, profile)


def lenient(options: Options) -> Options:
    """Only what the headers assert apart from alignment, and memory safety: what a refused call is executed with."""
    return replace(options, header=True, lenient=True, strict=False)


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
