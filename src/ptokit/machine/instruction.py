"""An instruction on the machine: executed, then checked; or deferred, for another schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from ptokit.engine.interpreter import Executable, InstructionStep
from ptokit.engine.kept import remember
from ptokit.engine.prepared import Prepared
from ptokit.engine.reference import IndexedStep, Lanes, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Storage
from ptokit.finding import OutOfBoundsError, VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.spelling import TMP
from ptokit.machine import hazards
from ptokit.machine.adversary import Adversary
from ptokit.machine.deferred import DeferredInstruction, poison
from ptokit.machine.ends import MemoryAccess
from ptokit.machine.executed import Executed
from ptokit.machine.extent import Extent, listed
from ptokit.machine.frame import WatchedFrame
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.session import Session
from ptokit.machine.shadow import READ, WRITE
from ptokit.machine.site import Site, lenient, site
from ptokit.program.calls import offset_in
from ptokit.program.ir import Instr, TileUse
from ptokit.program.steps import Sync


class WatchedInstruction(InstructionStep):
    """An instruction: executed, then checked."""

    alone = False

    def __init__(self, instr: Instr, machine: Executable) -> None:
        super().__init__(instr, machine)
        self.sites: dict[int, tuple[Prepared, Site | None]] = {}
        self.shown = tuple(operand.tile if isinstance(operand, TileUse) else "" for operand in instr.operands)
        """The tile of every operand; empty if it is none."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        frame.stmt = self.instr
        if frame.adversary:
            self._defer(frame, frame.adversary)
            return
        self._make_fresh(frame)
        try:
            self._execute(frame)
        except (VerifyError, OutOfBoundsError) as refusal:
            if any(finding.blocks for finding in refusal.findings):
                raise
            frame.session.report(refusal.findings, self.instr)
            self._skip(frame)

    def _execute(self, frame: WatchedFrame) -> None:
        session = frame.session
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        if any(finding.blocks for finding in prepared.refused):
            raise VerifyError([finding.at(self.instr.where) for finding in prepared.refused])
        if here is None:
            session.report(prepared.refused, self.instr)
            self._skip(frame)
            return
        if here.findings:
            session.report(here.findings, self.instr)
        run = here.prepared.run(storages, partial(self._write, frame, here), tolerant=True)
        frame.run(found for found in run if found is not here.prepared.remarks)  # `findings` has those

    def _defer(self, frame: WatchedFrame, adversary: Adversary) -> None:
        """Queue the work of the pipes."""
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        fresh = [
            tile in frame.fresh and storage is frame.tiles[tile]  # not for a slice
            for tile, storage in zip(self.shown, storages, strict=True)
        ]
        frame.fresh.difference_update(self.tiles)
        if here is None:
            return
        work = DeferredInstruction(here, storages, fresh)
        for event in self.instr.waits:
            adversary.wait_event(event, here.pipes)
        for step in here.steps:
            if isinstance(step, Sync):
                adversary.sync(step.src, step.dst)
            else:
                queue = adversary.work_atomically if work.is_atomic(step) else adversary.work
                queue(step.pipe, partial(work, step))
        if self.instr.event is not None:
            adversary.signal_event(self.instr.event, here.pipes)

    def _site(self, prepared: Prepared) -> Site | None:
        known = self.sites.get(id(prepared))
        if known is None or known[0] is not prepared:
            second = None if prepared.plan is not None else self._lenient(prepared)
            made = site(prepared, second, self.executable.profile)
            known = remember(self.sites, id(prepared), (prepared, made))
        return known[1]

    def _lenient(self, prepared: Prepared) -> Prepared:
        call = prepared.call
        specs = [spec for name, spec in call.operands.items() if spec is not None and name != TMP]
        instruction, machine = INSTRUCTIONS[self.instr.name], self.executable
        operands = specs, self.instr.modifiers, call.repeats, call.clashes, call.operands.get(TMP)
        return Prepared(instruction, machine.profile, lenient(machine.options), *operands, alone=self.alone)

    def _write(
        self, frame: WatchedFrame, here: Site, plan: Plan, storages: Sequence[Storage], lanes: list[Lanes | None]
    ) -> str:
        """Execute, and check what is read and written. A bad index was already reported and is skipped."""
        session = frame.session
        needed = session.options.lanes or here.call.instruction.repeats is not None
        indices = [_indices(step, storages) if needed else None for step in plan.steps]
        accesses = self._accesses(frame, here, storages, plan.touches(lanes))
        self._check_written(session, accesses)
        if session.owners.is_needed:
            self._check_owners(session, accesses)
        how = plan.run(storages, lanes)
        if here.last_column:
            self._clear_overrun(here, accesses, lanes)
        number = session.numbers[id(self.instr)]
        done = Executed(number, self.instr, here.call, here.steps, plan, storages, lanes, indices, session.block)
        session.observe(done, here, accesses)
        return how

    def _clear_overrun(self, here: Site, accesses: list[MemoryAccess], lanes: list[Lanes | None]) -> None:
        """What a transfer writes outside the valid columns counts as uninitialised."""
        name, dst = here.prepared.names[0], here.call.destination
        landed = next(each for each in lanes if each is not None)
        rows = np.arange(dst.valid_rows) if landed.outside is None else np.flatnonzero(~landed.outside)
        offsets = dst.layout.offset(rows[:, None], np.arange(dst.valid_cols, here.last_column))
        for access in accesses:
            if access.operand == name and access.how != READ:
                shadow = access.place.shadow
                shadow.define(listed(offsets, dst.dtype.size // shadow.unit), access.place.start, 0)

    def _accesses(
        self, frame: WatchedFrame, here: Site, storages: Sequence[Storage], touched: Iterable[Touched]
    ) -> list[MemoryAccess]:
        """The parts of observed memories that it touches."""
        places = [self._place(frame, tile, storage) for tile, storage in zip(self.shown, storages, strict=True)]
        names, found = here.prepared.names, list[MemoryAccess]()
        for each in touched:
            slot = each.slot
            place = places[slot]
            if place is not None:
                extent = place.extent(each, storages[slot].dtype.size)
                found.append(MemoryAccess(names[slot], each.how, place, extent, each.is_index, self.shown[slot]))
        return found + self._workspace_accesses(frame, here)

    def _workspace_accesses(self, frame: WatchedFrame, here: Site) -> list[MemoryAccess]:
        """All of the workspace, which is written."""
        use, spec = self.instr.workspace, here.tiles.get(TMP)
        if use is None or spec is None:
            return []
        whole = self.executable.program.tiles[use.tile].spec
        ahead = 0 if use.window is None else frame.value(offset_in(whole, use.window))
        place = self._place(frame, use.tile, frame.tiles[use.tile].part(ahead, spec.elements))
        if place is None:
            return []
        return [MemoryAccess(TMP, WRITE, place, Extent(1, spec.nbytes // place.shadow.unit, 0), tile=use.tile)]

    def _place(self, frame: WatchedFrame, tile: str, storage: Storage) -> MemoryLocation | None:
        if tile:
            loc, whole = self.executable.program.tiles[tile].spec.loc, frame.tiles[tile]
            place = frame.session.chip.at(loc, frame.addresses.get(tile), whole)
            ahead = (storage.address - whole.address) // place.shadow.unit
            return place._replace(start=place.start + ahead, ahead=ahead) if ahead else place
        return frame.session.gm.at(storage)

    def _check_written(self, session: Session, accesses: list[MemoryAccess]) -> None:
        """On-chip memory is written before it is read, maybe by an earlier step of the instruction."""
        is_checked = session.options.enables("memory")
        for access in accesses:
            if access.place.is_global:
                continue
            shadow = access.place.shadow
            if access.how != READ:
                shadow.define(access.extent, access.place.start, int(access.operand != TMP))
            elif is_checked and (missing := shadow.unwritten(access.extent, access.place.start)):
                start = access.place.start - access.place.ahead
                name = session.naming.name(self.instr, access.operand, start * shadow.unit)
                count = missing * shadow.unit, access.extent.count * shadow.unit
                finding = hazards.unwritten(self.instr.name, access, name, *count, session.profile.name)
                session.report([finding], self.instr)
                shadow.define(access.extent, access.place.start)

    def _check_owners(self, session: Session, accesses: list[MemoryAccess]) -> None:
        """No other tile has overwritten what is read."""
        for access in accesses:
            if not access.tile:
                continue
            if access.how != READ:
                session.owners.write(access.tile, access.place, access.extent)
            elif other := session.owners.read(access.tile, access.place, access.extent):
                finding = hazards.overwritten(self.instr.name, access.operand, access.tile, other, session.profile.name)
                session.report([finding], self.instr)

    def _make_fresh(self, frame: WatchedFrame) -> None:
        """Poison tiles that are used for the first time."""
        for tile in self.tiles:
            if tile in frame.fresh:
                frame.fresh.discard(tile)
                self._define(frame, tile, 0)
                poison([frame.tiles[tile]])

    def _skip(self, frame: WatchedFrame) -> None:
        """Nothing was executed. Its tiles count as written, so that nothing more is reported."""
        for tile in self.tiles:
            self._define(frame, tile, 1)
        frame.session.skip(self.instr)

    def _define(self, frame: WatchedFrame, tile: str, value: int) -> None:
        spec, storage = self.executable.program.tiles[tile].spec, frame.tiles[tile]
        here = frame.session.chip.at(spec.loc, frame.addresses.get(tile), storage)
        here.shadow.define(Extent(1, spec.nbytes // here.shadow.unit, 0), here.start, value)


def _indices(step: PlanStep, storages: Sequence[Storage]) -> Array | None:
    """Index values as they are read, before any remap; negative ones as negative numbers."""
    if not isinstance(step, IndexedStep):
        return None
    raw = step.load(storages[step.idx], step.lanes)
    values = step.reader.widen(raw[:, 0] if step.by_row else raw)
    return np.where(values >= 1 << 31, values - (1 << 32), values) if step.reader.signed else values
