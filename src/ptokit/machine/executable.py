"""A program on the machine: executed as by the reference engine, and observed by a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import length_hint
from time import perf_counter
from typing import Any

from ptokit.engine.frame import Frame
from ptokit.engine.interpreter import AssignStep, DeclareStep, Executable, FlagStep, LoadScalarStep, LoopStep, Step
from ptokit.engine.reference import Touched
from ptokit.engine.storage import Storage, region
from ptokit.finding import (
    OPAQUE,
    Finding,
    OutOfBoundsError,
    VerifyError,
    fold_overlaps,
    not_in_run,
    without_consequences,
)
from ptokit.isa.layout import Layout
from ptokit.machine import MACHINE
from ptokit.machine.adversary import MOST_TOGETHER, Chance, Concurrency
from ptokit.machine.deferred import StaleAccess, StaleLines
from ptokit.machine.findings import Findings
from ptokit.machine.instruction import WatchedFrame, WatchedInstruction
from ptokit.machine.repairs import repairs
from ptokit.machine.report import MachineOptions, MachineReport, is_enough, nothing, sampled
from ptokit.machine.rounds import SharedRounds, without
from ptokit.machine.session import Session
from ptokit.machine.shadow import READ
from ptokit.machine.timeline import Timeline, shown_statements
from ptokit.machine.trial import Replay
from ptokit.program.budget import Use, memory_findings
from ptokit.program.cores import ends_of, fenced_pipes, own_pipe
from ptokit.program.expr import BLOCK_NUM, SUBBLOCK_IDX, Var
from ptokit.program.instr_calls import written_arguments
from ptokit.program.ir import Assign, Barrier, CrossFlag, Flag, Instr, LoadScalar, Loop, Stmt, TileDecl
from ptokit.program.periods import gaps
from ptokit.program.streams import CoreStream, Wait
from ptokit.program.verify_call import judged
from ptokit.progress import task

MOST_ITERATIONS = 4
"""A loop with n iterations may have up to 4 * (n + 4) under another schedule."""
SHORT = Finding(
    "unmodelled", OPAQUE, "judged without most rounds of a loop: what they do to the pipes is not the same in all",
    fix="to judge everything: --blocks all",
)  # fmt: skip
ONE = region(Layout.plain(0, 1), 1, 1)


class RunawayLoop(Exception):
    """A loop that hardly ends, because another schedule changed its bounds."""


class _Loop(LoopStep):
    """A loop. Under another schedule, a bound that was read too early may be huge."""

    def values(self, frame: WatchedFrame) -> Iterator[int]:  # type: ignore[override]
        session, outer = frame.session, frame.session.running.moment
        bounds = self.bounds(frame)
        gaps = session.gaps.get(id(self.loop), ()) if frame.adversary is None else ()
        for round_ in without(gaps, len(bounds), session):
            session.running.moment = (*outer, bounds[round_])
            yield bounds[round_]
        session.running.moment = outer

    def rounds(self, frame: WatchedFrame, stream: CoreStream) -> Iterable[int]:  # type: ignore[override]
        bounds, session = self.bounds(frame), frame.session
        gaps = session.gaps.get(id(self.loop), ()) if frame.adversary is None and not stream.loops else ()
        if not gaps:
            return bounds
        shared = session.shared_rounds.setdefault(id(self.loop), SharedRounds(self.loop, gaps, len(bounds), session))
        return (bounds[round_] for round_ in shared.of(stream))

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
        """Run the blocks of the grid that the options choose. `known` are the findings of the verifier."""
        blocks = sampled(options.blocks, grid, int(options.seed or 0))
        written = written_arguments(self.program)
        session = Session(self.program, self.profile, options, tensors, written)
        began = perf_counter()
        values = {**integers, BLOCK_NUM: grid, SUBBLOCK_IDX: 0}
        self.observe(session, tensors, dict(values), blocks)
        if session.skipped or (options.seed is not None and self.profile.pipes):
            session.gm.restore()
        if options.seed is not None and self.profile.pipes and not session.skipped:
            frames = [WatchedFrame(session, tensors, dict(values)) for _ in range(MOST_TOGETHER)]
            with suppress(VerifyError, OutOfBoundsError, RunawayLoop):  # due to a value read too early
                self._run_otherwise(frames, blocks, Chance(int(options.seed or 0)))
        session.note_overlaps()
        if session.is_short:
            session.findings.add([SHORT])
        run, findings = session.findings.found(len(blocks), session.flags.explained), Findings()
        if session.unspecified is not None:
            run = (*run, *self.unspecified_arrays(session.unspecified, tensors))
        findings.add(finding.on(self.profile.name) for finding in not_in_run(known, run))
        findings.add(run)
        shown = findings.found() if options.consequences else without_consequences(findings.found())
        found = tuple(each.in_form(self.program.form) for each in judged(fold_overlaps(shown), self.options))
        return MachineReport(
            found, self.engine, perf_counter() - began, self.profile.name, grid, session.memory.use(),
            self._timeline(session),
            session.traffic.result() if session.traffic and options.enables("traffic") else (),
            tuple(session.lanes.first),
            self.program.name,
            not session.skipped,
            len(blocks),
            partial(repairs, Replay(self, tensors, session.gm, integers, grid, options, known))
            if self._is_repairable
            else nothing,
            program=self.program,
            lane_totals=session.lanes.totals,
        )  # fmt: skip

    def _timeline(self, session: Session) -> Timeline | None:
        """When pipes were busy, and the statements that it names."""
        if session.timer is None:
            return None
        moved = session.traffic.result() if session.traffic else ()
        return replace(session.timer.result(), describe=partial(shown_statements, self.program, moved))

    @property
    def _is_repairable(self) -> bool:
        """Whether the author wrote the flags."""
        return bool(self.profile.pipes) and self.program.mode != "auto"

    def observe(
        self, session: Session, tensors: Mapping[str, Storage], values: dict[Var, int], blocks: Iterable[int]
    ) -> None:
        """Run some blocks under a session."""
        session.running.values = values
        if is_enough(session.options.blocks) and not session.options.lanes:
            session.gaps = gaps(self.program, list(blocks))
        self._run_blocks(WatchedFrame(session, tensors, values), blocks)

    def _run_blocks(self, frame: WatchedFrame, blocks: Iterable[int]) -> None:
        number = length_hint(blocks)
        with task("", number or None, "blocks", enabled=frame.session.options.progress) as done:
            super()._run_blocks(frame, done.track(blocks))

    def _run_block(self, frame: WatchedFrame, block: int) -> None:
        frame.forget_fresh()
        if frame.adversary is None:
            frame.session.begin(block)
        try:
            with frame.expressions_refused():
                super()._run_block(frame, block)
        except (VerifyError, OutOfBoundsError) as refusal:
            if frame.adversary is not None or any(finding.blocks for finding in refusal.findings):
                raise
            frame.session.abandon(refusal.findings)
            return
        if frame.adversary is None:
            frame.session.end()

    def _run_otherwise(self, frames: list[WatchedFrame], blocks: Sequence[int], chance: Chance) -> None:
        """Run blocks under another schedule. Those that meet run in any order, some of them at the same time."""
        session, together = frames[0].session, Concurrency(chance)
        size = len(frames) if session.accesses.blocks_meet else 1
        order = chance.shuffled(blocks) if session.accesses.blocks_meet else blocks
        stale = StaleLines(session.gm, chance) if session.accesses.is_stale else None
        starts = range(0, len(order), size)
        with task("", len(starts), "schedules", enabled=session.options.progress) as done:
            for first in done.track(starts):
                for frame, block in zip(frames, order[first : first + size], strict=False):
                    frame.run_by(together.begin(session.cores.pipes), stale)
                    self._run_block(frame, block)
                together.end()

    def flags_between(self, flag: CrossFlag, core: str, event: int) -> tuple[tuple[Any, ...], ...]:
        """The flags between the cores that a core sets or waits for."""
        return self._streams.keys(flag, core, event) if self._streams else ((ends_of(flag)[0], event),)

    def is_idle(self, stmt: Stmt) -> bool:
        return False

    def stuck(self, waits: list[Wait], frame: Frame) -> None:
        """The clocks report it, if the target has pipes."""
        if not self.profile.pipes:
            super().stuck(waits, frame)

    def _step(self, stmt: Stmt) -> Step:
        made = STEPS.get(type(stmt))
        return made(stmt, self) if made else super()._step(stmt)


class _WatchedDeclare(DeclareStep):
    """A tile declaration. Its memory is uninitialised, unless the author gave the address."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        super().__call__(frame)
        if self.tile.fresh:
            frame.fresh.add(self.tile.name)
        if self.tile.addresses:
            is_known = all(isinstance(address, int) for address in self.tile.addresses)
            _note_address(self.executable, frame, self.tile, self.tile, is_known)


def _note_address(
    machine: Executable, frame: WatchedFrame, stmt: TileDecl | Assign, tile: TileDecl, is_known: bool
) -> None:
    """Record the address of a tile; if it is known only at run time, check whether the tile fits."""
    address, spec = frame.addresses[tile.name], tile.spec
    session = frame.session
    session.memory.placed(tile.name, spec.loc, address, spec.nbytes)
    if session.timer and frame.adversary is None:
        session.timer.place(tile.name, address)
    key = "declare", tile.name, address, frame.vector
    if session.memory.has_owners and frame.adversary is None and not session.cache.repeats(key):
        place = session.memory.chip.at(spec.loc, address, frame.tiles[tile.name], frame.vector_of(spec.loc))
        session.cache.check(key, lambda _: session.memory.owners(place).declare(tile.name, place))
    if not is_known:
        subject = f"{machine.program.name} on {machine.profile.name}"
        used = {spec.loc: Use(address + spec.nbytes, session.memory.static.get(spec.loc, 0))}
        found = memory_findings(subject, used, machine.profile, machine.options.dyn_ub or 0, simt=session.memory.simt)
        session.report([finding.at(tile.given.get(address, stmt.where)) for finding in found], stmt)


class _WatchedAssign(AssignStep):
    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        super().__call__(frame)
        frame.fresh.discard(self.tile.name)  # it shows the memory's content
        _note_address(self.executable, frame, self.stmt, self.tile, isinstance(self.stmt.address, int))


class _Flag(FlagStep):
    """A set or a wait, on every core that has the pipe."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        event, is_set = self.event(frame), self.flag.action == "set"
        assert isinstance(self.flag, Flag)
        what = self.flag, frame.session.running.moment
        for src, dst in frame.session.cores.pairs(self.flag, frame.core) if frame.engines else ():
            for engine in frame.engines:
                if is_set:
                    engine.set(src, (src, dst, event), what)
                else:
                    engine.wait(dst, (src, dst, event), what)


class _CrossFlag(FlagStep):
    """A set or a wait of a flag between the cores."""

    def __init__(self, flag: CrossFlag, machine: MachineExecutable) -> None:
        super().__init__(flag, machine)
        self.is_set, self._machine, self._flag = flag.action == "set", machine, flag
        pipe = flag.pipe if self.is_set else machine.profile.cross_wait or flag.pipe
        self.pipe = f"{flag.core}.{pipe}"

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        what, core = (self.flag, frame.session.running.moment), frame.core or self._flag.core
        pipe = own_pipe(self.pipe, core, self._machine.program.vector_cores)
        for flag in self._machine.flags_between(self._flag, core, self.event(frame)):
            for engine in frame.engines:
                (engine.cross_set if self.is_set else engine.cross_wait)(pipe, flag, what)


class _Barrier:
    """A barrier for all pipes, or for one whose instructions may overlap. Others order themselves."""

    def __init__(self, stmt: Barrier, machine: MachineExecutable) -> None:
        self.stmt = stmt
        self.pipes, self._vector_cores = fenced_pipes(stmt, machine.profile), machine.program.vector_cores

    def __call__(self, frame: WatchedFrame) -> None:
        for engine in frame.engines:
            if self.stmt.pipe == "ALL":
                engine.barrier(frame.core or self.stmt.core)
            for pipe in self.pipes:
                engine.fence(own_pipe(pipe, frame.core, self._vector_cores))


class _LoadScalar(LoadScalarStep):
    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        frame.stmt = self.stmt
        if frame.adversary:
            for pipe in frame.session.cores.scalars(self.stmt, frame.core):
                frame.adversary.drain(pipe)
            self._read_later(frame, self.read(frame))
        else:
            frame.session.load_scalar(self.stmt, frame.core, self.read(frame), Touched(0, READ, ONE))

    def _read_later(self, frame: WatchedFrame, storage: Storage) -> None:
        """Read it again, maybe from a stale line."""
        if frame.stale is not None:
            number = frame.session.numbers[id(self.stmt)]
            with frame.stale.shown([StaleAccess(storage, Touched(0, READ, ONE), number, True)]):
                self.read(frame)


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
