"""A program on the machine: executed as by the reference engine, and observed by a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

from ptokit.engine.interpreter import AssignStep, DeclareStep, Executable, FlagStep, LoadScalarStep, LoopStep, Step
from ptokit.engine.reference import Touched
from ptokit.engine.storage import Array, Storage, region
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, not_in_run
from ptokit.isa.layout import Layout
from ptokit.machine import MACHINE
from ptokit.machine.adversary import Adversary
from ptokit.machine.findings import Findings
from ptokit.machine.frame import WatchedFrame
from ptokit.machine.instruction import WatchedInstruction
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import MachineReport
from ptokit.machine.session import Session
from ptokit.machine.shadow import READ
from ptokit.program.budget import Use, memory_findings
from ptokit.program.calls import written_arguments
from ptokit.program.cores import ends_of, pipes_of
from ptokit.program.expr import BLOCK_NUM, Var
from ptokit.program.ir import Assign, Barrier, Block, CrossFlag, Flag, Instr, LoadScalar, Loop, Stmt, TileDecl
from ptokit.program.verify_call import judged

MOST_ITERATIONS = 4
"""A loop with n iterations may have up to 4 * (n + 4) under another schedule."""
ONE = region(Layout.plain(0, 1), 1, 1)


class RunawayLoop(Exception):
    """A loop that hardly ends, because another schedule changed its bounds."""


class _Loop(LoopStep):
    """A loop. Under another schedule, a bound that was read too early may be huge."""

    def bounds(self, frame: WatchedFrame) -> range:  # type: ignore[override]
        found = super().bounds(frame)
        count, seen = -(-(found.stop - found.start) // found.step), frame.session.iterations
        if frame.adversary is None:
            seen[id(self)] = max(seen.get(id(self), 0), count)
        elif count > MOST_ITERATIONS * (seen.get(id(self), 0) + MOST_ITERATIONS):
            raise RunawayLoop
        return found


class MachineExecutable(Executable):
    """A program prepared for the machine, with all addresses and flags that its target needs. It can be launched many
    times."""

    engine = MACHINE

    def run(
        self,
        tensors: Mapping[str, Storage],
        integers: Mapping[Var, int],
        grid: int,
        options: MachineOptions,
        known: Sequence[Finding] = (),
    ) -> MachineReport:
        """Run every block of the grid. `known` are the findings of the verifier."""
        written = written_arguments(self.program)
        session = Session(self.program, self.profile, options, tensors, written)
        began, before = perf_counter(), {name: tensors[name].bits.copy() for name in written}
        self._run_blocks(WatchedFrame(session, tensors, {**integers, BLOCK_NUM: grid}), range(grid))
        if options.seed is not None and self.profile.pipes:
            _restore(tensors, before)
            adversary = Adversary(int(options.seed or 0), pipes_of(self.profile))
            frame = WatchedFrame(session, tensors, {**integers, BLOCK_NUM: grid}, adversary)
            with suppress(VerifyError, OutOfBoundsError, RunawayLoop):  # due to a value read too early
                self._run_blocks(frame, adversary.blocks(grid) if session.blocks_meet else range(grid))
        if session.skipped:
            _restore(tensors, before)
        run, findings = session.findings.found, Findings()
        findings.add(finding.on(self.profile.name) for finding in not_in_run(known, run))
        findings.add(run)
        found = tuple(judged(findings.found, self.options))
        return MachineReport(
            found, self.engine, perf_counter() - began, self.profile.name, grid, session.memory(),
            session.timer.result() if session.timer else None,
            session.traffic.result() if session.traffic and options.enables("traffic") else (),
            tuple(session.lanes),
            self.program.name,
            not session.skipped,
        )  # fmt: skip

    def _run_block(self, frame: WatchedFrame, block: int) -> None:
        frame.fresh.clear()
        if frame.adversary is None:
            frame.session.begin(block)
        super()._run_block(frame, block)
        (frame.session if frame.adversary is None else frame.adversary).end()

    def block(self, block: Block) -> tuple[Step, ...]:
        return tuple(self._step(stmt) for stmt in block)

    def _step(self, stmt: Stmt) -> Step:
        made = STEPS.get(type(stmt))
        return made(stmt, self) if made else super()._step(stmt)


def _restore(tensors: Mapping[str, Storage], content: Mapping[str, Array]) -> None:
    for name, bits in content.items():
        tensors[name].bits[...] = bits


class _WatchedDeclare(DeclareStep):
    """A tile declaration. Its memory is uninitialised, unless the author gave the address."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        super().__call__(frame)
        frame.session.owners.forget(self.tile.name)
        if self.tile.fresh:
            frame.fresh.add(self.tile.name)
        if self.tile.addresses:
            is_known = all(isinstance(address, int) for address in self.tile.addresses)
            _note_address(self.executable, frame, self.tile, is_known)


def _note_address(machine: Executable, frame: WatchedFrame, tile: TileDecl, is_known: bool) -> None:
    """Record the address of a tile; if it is known only at run time, check whether the tile fits."""
    address, spec = frame.addresses[tile.name], tile.spec
    frame.session.placed(tile.name, spec.loc, address, spec.nbytes)
    if not is_known:
        subject, session = f"{machine.program.name} on {machine.profile.name}", frame.session
        used = {spec.loc: Use(address + spec.nbytes, session.static.get(spec.loc, 0))}
        found = memory_findings(subject, used, machine.profile, machine.options.dyn_ub or 0, simt=session.simt)
        session.report([replace(finding, operand=tile.name) for finding in found], frame.where)


class _WatchedAssign(AssignStep):
    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        super().__call__(frame)
        frame.fresh.discard(self.tile.name)  # it shows the memory's content
        frame.session.owners.forget(self.tile.name)
        _note_address(self.executable, frame, self.tile, isinstance(self.stmt.address, int))


class _Flag(FlagStep):
    """A set or a wait, on every core that has the pipe."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        event, is_set = self.event(frame), self.flag.action == "set"
        assert isinstance(self.flag, Flag)
        for src, dst in frame.session.cores.pairs(self.flag) if frame.engines else ():
            for engine in frame.engines:
                if is_set:
                    engine.set(src, (src, dst, event), self.flag)
                else:
                    engine.wait(dst, (src, dst, event), self.flag)


class _CrossFlag(FlagStep):
    """A set or a wait of a flag between the cores."""

    def __init__(self, flag: CrossFlag, machine: Executable) -> None:
        super().__init__(flag, machine)
        setter = ends_of(flag)[0]
        self.is_set, self.setter = flag.action == "set", setter
        pipe = flag.pipe if self.is_set else machine.profile.cross_wait or flag.pipe
        self.pipe = f"{flag.core}.{pipe}"

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        flag = self.setter, self.event(frame)
        for engine in frame.engines:
            (engine.cross_set if self.is_set else engine.cross_wait)(self.pipe, flag, self.flag)


class _Barrier:
    def __init__(self, stmt: Barrier, _machine: MachineExecutable) -> None:
        self.stmt = stmt

    def __call__(self, frame: WatchedFrame) -> None:
        for engine in frame.engines if self.stmt.pipe == "ALL" else ():
            engine.barrier()


class _LoadScalar(LoadScalarStep):
    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        if frame.adversary:
            for pipe in frame.session.cores.scalars(self.stmt):
                frame.adversary.drain(pipe)
            self.read(frame)
        else:
            frame.session.load_scalar(self.stmt, self.read(frame), Touched(0, READ, ONE))


STEPS = {
    TileDecl: _WatchedDeclare,
    Assign: _WatchedAssign,
    Instr: WatchedInstruction,
    LoadScalar: _LoadScalar,
    Flag: _Flag,
    CrossFlag: _CrossFlag,
    Barrier: _Barrier,
    Loop: _Loop,
}
