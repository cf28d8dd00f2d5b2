"""An instruction on the machine: executed, then looked at; or deferred, for another schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from ptokit.engine.interpreter import Executable, InstructionStep
from ptokit.engine.kept import remember
from ptokit.engine.prepared import Prepared
from ptokit.engine.reference import IndexedStep, Lanes, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Storage
from ptokit.finding import VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.spelling import TMP
from ptokit.machine import hazards
from ptokit.machine.adversary import Adversary
from ptokit.machine.deferred import DeferredInstruction, poison
from ptokit.machine.executed import Executed
from ptokit.machine.extent import Extent, listed
from ptokit.machine.frame import WatchedFrame
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.session import MemoryAccess, Session
from ptokit.machine.shadow import READ, WRITE
from ptokit.machine.site import Site, lenient, site
from ptokit.program.calls import offset_in
from ptokit.program.ir import Instr, TileUse
from ptokit.program.steps import Sync


class WatchedInstruction(InstructionStep):
    """An instruction: executed, then looked at."""

    alone = False

    def __init__(self, instr: Instr, machine: Executable) -> None:
        super().__init__(instr, machine)
        self.sites: dict[int, tuple[Prepared, Site | None]] = {}
        self.shown = tuple(operand.tile if isinstance(operand, TileUse) else "" for operand in instr.operands)
        """The tile of every operand, where it is one."""

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        session = frame.session
        if frame.adversary:
            self._defer(frame, frame.adversary)
            return
        self._make_fresh(frame)
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        if any(finding.blocks for finding in prepared.refused):
            raise VerifyError([finding.at(self.instr.where) for finding in prepared.refused])
        if here is None:
            session.tell(prepared.refused, self.instr.where)
            self._leave_out(frame)
            return
        if here.said:
            session.tell(here.said, self.instr.where)
        run = here.prepared.run(storages, partial(self._write, frame, here), tolerant=True)
        frame.run(found for found in run if found is not here.prepared.remarks)  # `said` has those

    def _defer(self, frame: WatchedFrame, adversary: Adversary) -> None:
        """Queue what the pipes do: the one that reads the indices keeps them for the one that moves the data."""
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        fresh = [
            tile in frame.fresh and storage is frame.tiles[tile]  # a slice leaves what lies around it to others
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
                give = adversary.work_atomically if work.is_atomic(step) else adversary.work
                give(step.pipe, partial(work, step))
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
        given = specs, self.instr.modifiers, call.repeats, call.clashes, call.operands.get(TMP)
        return Prepared(instruction, machine.profile, lenient(machine.options), *given, alone=self.alone)

    def _write(
        self, frame: WatchedFrame, here: Site, plan: Plan, storages: Sequence[Storage], lanes: list[Lanes | None]
    ) -> str:
        """Execute, and check what is read and written. A bad index was reported before and is skipped."""
        session = frame.session
        wanted = session.options.lanes or here.call.instruction.repeats is not None
        indices = [_indices(step, storages) if wanted else None for step in plan.steps]
        spots = self._spots(frame, here, storages, plan.touches(lanes))
        if session.options.wants("memory"):
            self._check_written(session, spots)
        if session.owners.is_needed:
            self._check_owners(session, spots)
        how = plan.run(storages, lanes)
        for spot in spots:
            if spot.how != READ and spot.place.name != "GM":
                spot.place.shadow.define(spot.extent, spot.place.start, int(spot.operand != TMP))
        if here.last_column:
            self._blur(here, spots, lanes)
        number = session.numbers[id(self.instr)]
        done = Executed(number, self.instr, here.call, here.steps, plan, storages, lanes, indices, session.block)
        session.look(done, here, spots)
        return how

    def _blur(self, here: Site, spots: list[MemoryAccess], lanes: list[Lanes | None]) -> None:
        """What a transfer writes beside the valid columns counts as written by nobody."""
        dst, landed = here.call.dst, next(each for each in lanes if each is not None)
        rows = np.arange(dst.valid_rows) if landed.outside is None else np.flatnonzero(~landed.outside)
        offsets = dst.layout.offset(rows[:, None], np.arange(dst.valid_cols, here.last_column))
        for spot in spots:
            if spot.operand == "dst" and spot.how != READ:
                shadow = spot.place.shadow
                shadow.define(listed(offsets, dst.dtype.size // shadow.unit), spot.place.start, 0)

    def _spots(
        self, frame: WatchedFrame, here: Site, storages: Sequence[Storage], touched: Iterable[Touched]
    ) -> list[MemoryAccess]:
        """The parts of memories that it touches, as far as they are watched."""
        places = [self._place(frame, tile, storage) for tile, storage in zip(self.shown, storages, strict=True)]
        names, found = here.prepared.names, list[MemoryAccess]()
        for each in touched:
            slot = each.slot
            place_ = places[slot]
            if place_ is not None:
                extent = place_.extent(each, storages[slot].dtype.size)
                found.append(MemoryAccess(names[slot], each.how, place_, extent, each.is_index, self.shown[slot]))
        return found + self._workspace_spots(frame, here)

    def _workspace_spots(self, frame: WatchedFrame, here: Site) -> list[MemoryAccess]:
        """All of the workspace, which is written."""
        use, spec = self.instr.workspace, here.tiles.get(TMP)
        if use is None or spec is None:
            return []
        whole = self.executable.program.tiles[use.tile].spec
        ahead = 0 if use.window is None else frame.worth(offset_in(whole, use.window))
        place = self._place(frame, use.tile, frame.tiles[use.tile].part(ahead, spec.elements))
        if place is None:
            return []
        return [MemoryAccess(TMP, WRITE, place, Extent(1, spec.nbytes // place.shadow.unit, 0), tile=use.tile)]

    def _place(self, frame: WatchedFrame, tile: str, storage: Storage) -> MemoryLocation | None:
        if tile:
            loc, whole = self.executable.program.tiles[tile].spec.loc, frame.tiles[tile]
            place = frame.session.chip.at(loc, frame.addresses.get(tile), whole)
            ahead = (storage.address - whole.address) // place.shadow.unit
            return place._replace(start=place.start + ahead) if ahead else place
        return frame.session.gm.at(storage)

    def _check_written(self, session: Session, spots: list[MemoryAccess]) -> None:
        """What is read on the chip was written before."""
        for spot in spots:
            if spot.how != READ or spot.place.name == "GM":
                continue
            shadow = spot.place.shadow
            missing = shadow.unwritten(spot.extent, spot.place.start)
            if missing:
                act = hazards.Act(self.instr.name, spot.operand, "", READ, spot.place.name, "")
                count = missing * shadow.unit, spot.extent.count * shadow.unit
                said = hazards.unwritten(act, *count, session.when, session.profile.name, is_index=spot.is_index)
                session.tell([said], self.instr.where)
                shadow.define(spot.extent, spot.place.start)

    def _check_owners(self, session: Session, spots: list[MemoryAccess]) -> None:
        """What a tile has written is still its own when it is read."""
        for spot in spots:
            if not spot.tile:
                continue
            if spot.how != READ:
                session.owners.write(spot.tile, spot.place, spot.extent)
            elif other := session.owners.read(spot.tile, spot.place, spot.extent):
                said = hazards.overwritten(
                    self.instr.name, spot.operand, spot.tile, other, session.when, session.profile.name
                )
                session.tell([said], self.instr.where)

    def _make_fresh(self, frame: WatchedFrame) -> None:
        """Tiles that are used for the first time hold nothing."""
        for tile in self.tiles:
            if tile in frame.fresh:
                frame.fresh.discard(tile)
                self._define(frame, tile, 0)
                poison([frame.tiles[tile]])

    def _leave_out(self, frame: WatchedFrame) -> None:
        """Nothing was executed; what it would have done counts as done, so that no more is said of it."""
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
