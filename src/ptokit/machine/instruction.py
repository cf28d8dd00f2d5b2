"""An instruction on the machine: executed, then checked; or deferred, for another schedule."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from ptokit.engine.faults import ZeroFault
from ptokit.engine.frame import CoreState, Frame
from ptokit.engine.interpreter import Executable, InstructionStep
from ptokit.engine.kept import remember
from ptokit.engine.prepared import Prepared, zero_finding
from ptokit.engine.reference import IndexedStep, Lanes, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Storage, region
from ptokit.finding import ConflictAccess, Finding, OutOfBoundsError, VerifyError, at_line
from ptokit.isa.kernel import ByteRows
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType, division
from ptokit.isa.spelling import TMP
from ptokit.machine import hazards
from ptokit.machine.adversary import Adversary
from ptokit.machine.deferred import DeferredInstruction, LateWrites, StaleLines, poison
from ptokit.machine.ends import MemoryAccess, VectorNumber
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.overlaps import HEADERS
from ptokit.machine.session import Session
from ptokit.machine.shadow import DATA, FILLED, READ, UNDEFINED, WRITE, Extent, extent_of, listed
from ptokit.machine.site import Executed, Site, lenient, site
from ptokit.program.budget import uses_hidden
from ptokit.program.cores import Sync, in_use, kind_of, own_steps
from ptokit.program.expr import Var, compiled
from ptokit.program.instr_calls import access_of, effects, named_operands, offset_in, with_tiles
from ptokit.program.ir import ANY_FAMILY, Instr, Stmt, TileDecl, TileUse, View
from ptokit.program.overlaps import is_narrow


class WatchedFrame(Frame):
    """A frame with its session. With an adversary, it runs another schedule and checks nothing."""

    def __init__(
        self,
        session: Session,
        tensors: Mapping[str, Storage],
        values: dict[Var, int],
    ) -> None:
        super().__init__()
        self.tensors, self.values, self.form = tensors, values, session.program.form
        self.session, self.unspecified = session, session.unspecified
        self.adversary: Adversary | None = None
        self.stale: StaleLines | None = None
        self.late: LateWrites | None = None
        self.engines: tuple[Any, ...] = session.engines
        """The engines that flags, events and barriers go to."""
        self._fresh: tuple[set[str], ...] = tuple(set() for _ in range(session.program.vector_cores))
        self.fresh = self._fresh[0]
        """Tiles whose memory is uninitialised, of the running core."""
        self.stmt: Stmt | None = None
        """The statement that runs."""
        self._known: dict[tuple[str, int, int], Storage] = {}

    def run_by(self, adversary: Adversary, stale: StaleLines | None) -> None:
        """Run another schedule from now on; `stale` is None if all pipes see the same global memory."""
        self.adversary, self.stale, self.engines = adversary, stale, (adversary,)
        overlaps, pipe = self.session.accesses.overlaps, self.session.profile.overlapping
        differ = overlaps is not None and overlaps.differing
        self.late = LateWrites(differ, pipe, adversary.chance) if differ else None

    def enter(self, state: CoreState) -> None:
        """Go on with a core."""
        super().enter(state)
        own = (VectorNumber(state.vector),) if state.core != kind_of(state.core) else ()
        self.session.running.moment, self.session.running.values = (*own, *state.loops), state.values
        self.fresh = self._fresh[state.vector]

    def forget_fresh(self) -> None:
        """A block begins."""
        for fresh in self._fresh:
            fresh.clear()

    def report(self, findings: Sequence[Finding]) -> None:
        indices = self.session.options.enables("indices")
        assert self.stmt is not None
        self.session.report([f for f in findings if indices or f.level != "hazard"], self.stmt)

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Bind a tile to an address of its memory; an address that it had before is not checked again."""
        vector = self.vector_of(tile.spec.loc)
        known = self._known.get((tile.name, address, vector))
        if known is None:
            super().place(tile, address, target)
            self._known[tile.name, address, vector] = self.tiles[tile.name]
            return
        self.memories[tile.spec.loc, vector].at(address, tile.spec.nbytes)  # poison it again in a new block
        self.tiles[tile.name], self.addresses[tile.name] = known, address


class WatchedInstruction(InstructionStep):
    """An instruction: executed, then checked."""

    alone = False

    def __init__(self, instr: Instr, machine: Executable) -> None:
        super().__init__(instr, machine)
        self.sites: dict[tuple[int, str], tuple[Prepared, Site | None]] = {}
        self.shown = tuple(operand.tile if isinstance(operand, TileUse) else "" for operand in instr.operands)
        """The tile of every operand; empty if it is none."""
        uses = {start: None for use in instr.tiles for start in use.start}
        self.starts = [start for start in map(compiled, uses) if not isinstance(start, int)]
        """Where parts of tiles begin, if that is computed."""
        access = access_of(instr)
        self.reads_global = any(
            isinstance(operand, View) and access[name] != WRITE for name, operand in named_operands(instr).items()
        )
        """Whether it brings data from global memory: what it writes is no fill."""
        self.is_load = self.reads_global and isinstance(instr.operands[0], TileUse)
        """Whether it fills a tile from global memory."""
        self.line = at_line(instr.name, instr.where)

    def __call__(self, frame: WatchedFrame) -> None:  # type: ignore[override]
        frame.stmt = self.instr
        if frame.adversary:
            self._defer(frame, frame.adversary)
            return
        made = self._make_fresh(frame)
        try:
            self._execute(frame, made)
        except (VerifyError, OutOfBoundsError) as refusal:
            if any(finding.blocks for finding in refusal.findings):
                raise
            frame.session.report(refusal.findings, self.instr)
            self._skip(frame)

    def _execute(self, frame: WatchedFrame, made: tuple[str, ...]) -> None:
        session = frame.session
        prepared, storages = self.prepare(frame)
        here = self._site(prepared, frame)
        if any(finding.blocks for finding in prepared.refused):
            raise VerifyError([finding.at(self.instr.where) for finding in prepared.refused])
        if here is None:
            session.report([with_tiles(finding, self.instr) for finding in prepared.refused], self.instr)
            self._skip(frame)
            return
        if here.findings:
            session.report([with_tiles(finding, self.instr) for finding in here.findings], self.instr)
        write = CheckedExecution(self, frame, here, made).write
        run = here.prepared.run(storages, write, tolerant=True)
        if (known := frame.unspecified) is not None:
            if known.index_findings(here.prepared, storages):
                self._leave_out(frame)
            run = known.run(here.prepared, storages, write, tolerant=True)
        frame.run(found for found in run if found is not here.prepared.non_errors)  # `findings` has those

    def _defer(self, frame: WatchedFrame, adversary: Adversary) -> None:
        """Queue the work of the pipes."""
        prepared, storages = self.prepare(frame)
        here = self._site(prepared, frame)
        fresh = [
            tile in frame.fresh and storage is frame.tiles[tile]  # not for a slice
            for tile, storage in zip(self.shown, storages, strict=True)
        ]
        frame.fresh.difference_update(self.tiles)
        if here is None:
            return
        given = here, frame.session.numbers[id(self.instr)], storages, fresh, self.workspace(frame, here)
        work = DeferredInstruction(*given, adversary.chance, frame.stale, frame.late)
        for event in self.instr.waits:
            adversary.wait_event(here.event(event), here.pipes)
        for step in here.steps:
            if isinstance(step, Sync):
                adversary.sync(step.src, step.dst)
            else:
                queue = adversary.work_atomically if work.is_atomic(step) else adversary.work
                queue(step.pipe, partial(work, step))
        if self.instr.event is not None:
            adversary.signal_event(here.event(self.instr.event), here.pipes)

    def _site(self, prepared: Prepared, frame: WatchedFrame) -> Site | None:
        key = id(prepared), frame.core
        known = self.sites.get(key)
        if known is None or known[0] is not prepared:
            second = None if prepared.plan is not None else self._lenient(prepared)
            made, cores = site(prepared, second, self.executable.profile), frame.session.cores
            if made is not None and cores.vector_cores > 1:
                made = replace(made, steps=own_steps(made.steps, frame.core, cores.vector_cores))
            if made is not None and self.instr.opaque_form:
                made = replace(made, steps=in_use(made.steps, cores.pipes_for(frame.core)))
            known = remember(self.sites, key, (prepared, made))
        return known[1]

    def _lenient(self, prepared: Prepared) -> Prepared:
        call = prepared.call
        specs = [spec for name, spec in call.operands.items() if spec is not None and name != TMP]
        instruction, machine = self.instr.definition, self.executable
        operands = specs, self.instr.modifiers, call.repeats, call.clashes, call.operands.get(TMP)
        return Prepared(
            instruction, machine.profile, lenient(machine.options), *operands, alone=self.alone, vector=call.vector
        )

    def _make_fresh(self, frame: WatchedFrame) -> tuple[str, ...]:
        """Poison tiles that are used for the first time; returns them."""
        if frame.fresh.isdisjoint(self.tiles):
            return ()
        made = tuple(dict.fromkeys(tile for tile in self.tiles if tile in frame.fresh))
        frame.fresh.difference_update(made)
        poison(frame.tiles[tile] for tile in made)
        return made

    def _skip(self, frame: WatchedFrame) -> None:
        """Nothing was executed."""
        self._leave_out(frame)
        frame.session.skip(self.instr)

    def _leave_out(self, frame: WatchedFrame) -> None:
        """Its tiles count as written, so that nothing more is reported."""
        frame.session.cache.check_all()
        for tile in self.tiles:
            place, whole = self.whole(frame, tile)
            place.shadow.define(whole, place.start, DATA)

    def workspace(self, frame: WatchedFrame, here: Site) -> Storage | None:
        """The workspace, if the target writes it."""
        use, spec = self.instr.workspace, here.tiles.get(TMP)
        if use is None or spec is None or not here.call.uses_workspace:
            return None
        whole = self.executable.program.tiles[use.tile].spec
        ahead = 0 if use.window is None else frame.value(offset_in(whole, use.window))
        return frame.tiles[use.tile].part(ahead, spec.elements)

    def whole(self, frame: WatchedFrame, tile: str) -> tuple[MemoryLocation, Extent]:
        """The location of a tile, and all of it."""
        spec, storage = self.executable.program.tiles[tile].spec, frame.tiles[tile]
        place = frame.session.memory.chip.at(spec.loc, frame.addresses.get(tile), storage, frame.vector_of(spec.loc))
        return place, Extent(1, spec.nbytes // place.shadow.unit, 0)


class CheckedExecution:
    """One execution of an instruction in a block: what it accesses, and the checks of that."""

    def __init__(self, step: WatchedInstruction, frame: WatchedFrame, here: Site, made: tuple[str, ...]) -> None:
        """`made` are the tiles that it uses first."""
        self.step, self.frame, self.here, self.made = step, frame, here, made
        self.session, self.instr = frame.session, step.instr

    def write(self, plan: Plan, storages: Sequence[Storage], lanes: list[Lanes | None]) -> str:
        """Execute, and check what is read and written. A bad index was already reported and is skipped."""
        session, here = self.session, self.here
        needed = session.options.lanes or here.call.instruction.reports.repeats is not None
        indices = [_indices(step, storages) if needed else None for step in plan.steps]
        touched = here.touches(plan, lanes)
        in_global = self._global_accesses(storages, touched)
        if here.prepared.stored:
            self._save(plan, storages, in_global)
        how = self._run(plan, storages, lanes)
        number = session.numbers[id(self.instr)]
        done = Executed(
            number, self.instr, here.call, here.steps, plan, storages, lanes, indices, session.running.number
        )
        session.observe(done, here)
        if here.call.route_kernel.index_note and any(access.is_index for access in in_global):
            session.cache.check_all()
        key = self._key(touched, lanes)
        if not session.cache.repeats(key, in_global):
            accesses = self._accesses(storages, touched, in_global)
            on_chip = [access for access in accesses if not access.place.is_global]
            fresh = [self.step.whole(self.frame, tile) for tile in self.made]
            overrun = self._overrun(lanes) if here.last_column else None
            slim = replace(done, storages=(), lanes=(), indices=())
            session.cache.check(key, partial(self._check, slim, fresh, overrun), on_chip, accesses)
        return how

    def _run(self, plan: Plan, storages: Sequence[Storage], lanes: list[Lanes | None]) -> str:
        """Execute. After a division by zero nothing is written, but its accesses are judged all the same."""
        try:
            return plan.run(storages, lanes)
        except ZeroFault as fault:
            self.session.report([zero_finding(self.instr.definition, fault)], self.instr)
            self.session.skipped = True
            return "at once"

    def _key(self, touched: Sequence[Touched], lanes: Sequence[Lanes | None]) -> Hashable:
        """All that the checks of on-chip memory and of order depend on."""
        frame, here, addresses = self.frame, self.here, self.frame.addresses
        places = [addresses[tile] if tile in addresses else frame.tiles[tile].address for tile in self.step.tiles]
        starts = [measure(frame.values) for measure in self.step.starts]
        if not here.is_indexed:
            return here, self.made, *places, *starts
        named = [each.offsets() for each in touched if each.offsets is not None and self.step.shown[each.slot]]
        outside = [each.outside for each in lanes if each is not None and each.outside is not None]
        return here, self.made, *places, *starts, *map(_digest, [*named, *outside] if here.last_column else named)

    # --- what it accesses

    def _global_accesses(self, storages: Sequence[Storage], touched: Sequence[Touched]) -> list[MemoryAccess]:
        """The parts of observed global memory that it touches."""
        names, found = self.here.prepared.names, list[MemoryAccess]()
        for each in touched:
            slot = each.slot
            if not self.step.shown[slot] and (place := self.session.gm.at(storages[slot])) is not None:
                extent = place.extent(each, storages[slot].dtype.size)
                found.append(MemoryAccess(names[slot], each.how, place, extent, each.is_index))
        return found

    def _accesses(
        self, storages: Sequence[Storage], touched: Sequence[Touched], in_global: Sequence[MemoryAccess]
    ) -> list[MemoryAccess]:
        """The parts of all observed memories that it touches."""
        names, found, others = self.here.prepared.names, list[MemoryAccess](), list(in_global)
        for each in touched:
            slot, tile = each.slot, self.step.shown[each.slot]
            if tile:
                place = self._place(tile, storages[slot])
                extent = place.extent(each, storages[slot].dtype.size)
                found.append(MemoryAccess(names[slot], each.how, place, extent, each.is_index, tile))
            elif others and others[0].operand == names[slot]:
                found.append(others.pop(0))
        besides = list(self._accesses_besides(storages))
        first = next((k for k, access in enumerate(found) if access.how != READ), len(found))
        return [*found[:first], *besides, *found[first:], *self._header_accesses()]

    def _accesses_besides(self, storages: Sequence[Storage]) -> Iterator[MemoryAccess]:
        """What its kernel touches besides the elements that the instruction is about: the workspace, and more of its
        operands."""
        tiles = dict(zip(self.here.prepared.names, zip(self.step.shown, storages, strict=False), strict=False))
        workspace = self.step.workspace(self.frame, self.here)
        if workspace is not None and self.instr.workspace is not None:
            tiles[TMP] = self.instr.workspace.tile, workspace
        for effect in effects(self.here.call):
            tile, storage = tiles.get(effect.operand, ("", None))
            if storage is None or not tile or (effect.extent is None and effect.operand != TMP):
                continue
            place = self._place(tile, storage)
            whole = ByteRows(1, self.here.tiles[effect.operand].nbytes)
            rows = effect.extent(self.here.call) if effect.extent else whole
            extent = Extent(rows.rows, rows.length // place.shadow.unit, rows.pitch // place.shadow.unit)
            yield MemoryAccess(
                effect.operand,
                effect.access,
                place,
                extent.before(place.shadow.size - place.start),
                tile=tile,
                is_lost=effect.access != READ and effect.lost,
            )

    def _header_accesses(self) -> Iterator[MemoryAccess]:
        """The part of UB that the headers use by themselves, as far as there are tiles."""
        hidden = self.session.memory.hidden
        is_used = uses_hidden(self.instr)
        if not is_used or hidden is None:
            return
        if above := self.session.memory.chip.above(TileType.Vec, hidden, self.frame.vector):
            yield MemoryAccess(HEADERS, WRITE, above[0], Extent(1, above[1], 0), tile=HEADERS, is_lost=True)

    def _place(self, tile: str, storage: Storage) -> MemoryLocation:
        """The location of a tile, or of a part of it."""
        place, _ = self.step.whole(self.frame, tile)
        ahead = (storage.address - self.frame.tiles[tile].address) // place.shadow.unit
        return place._replace(start=place.start + ahead, ahead=ahead) if ahead else place

    def _save(self, plan: Plan, storages: Sequence[Storage], accesses: list[MemoryAccess]) -> None:
        """Save the content of global memory that is about to be overwritten."""
        gm = self.session.gm
        for access in accesses:
            if access.how != READ:
                gm.save(access.place, access.extent)
        if plan.is_aliased(storages):  # indices may change while lanes take effect
            for slot in self.here.prepared.stored:
                place = gm.at(storages[slot])
                assert place is not None
                gm.save(place, Extent(1, storages[slot].bits.nbytes // place.shadow.unit, 0))

    def _overrun(self, lanes: Sequence[Lanes | None]) -> Array:
        """Offsets of what a transfer writes outside the valid columns."""
        dst, landed = self.here.call.destination, next(each for each in lanes if each is not None)
        rows = np.arange(dst.valid_rows) if landed.outside is None else np.flatnonzero(~landed.outside)
        return dst.layout.offset(rows[:, None], np.arange(dst.valid_cols, self.here.last_column))

    # --- the checks, which a later block may repeat

    def _check(
        self,
        done: Executed,
        fresh: list[tuple[MemoryLocation, Extent]],
        overrun: Array | None,
        accesses: Sequence[MemoryAccess],
    ) -> None:
        for place, whole in fresh:
            place.shadow.define(whole, place.start, UNDEFINED)
        self._check_written(accesses)
        if overrun is not None:
            self._clear_overrun(accesses, overrun)
        if self.session.profile.pipes:
            self.session.issue(done, self.here, accesses)

    def _clear_overrun(self, accesses: Sequence[MemoryAccess], offsets: Array) -> None:
        """What a transfer writes outside the valid columns counts as uninitialised."""
        name, dst = self.here.prepared.names[0], self.here.call.destination
        for access in accesses:
            if access.operand == name and access.how != READ:
                shadow = access.place.shadow
                shadow.define(listed(offsets, dst.dtype.size // shadow.unit), access.place.start, UNDEFINED)

    def _check_written(self, accesses: Sequence[MemoryAccess]) -> None:
        """On-chip memory is written before it is read, maybe by an earlier step of the instruction. What it writes is a
        fill if all that it reads is one."""
        state = DATA if self.step.reads_global or self.instr.opaque_form else FILLED
        dst = next(iter(self.here.prepared.names), "")
        is_loaded = self.step.is_load
        for access in accesses:
            if access.place.is_global:
                continue
            shadow, extent, start = access.place.shadow, access.extent, access.place.start
            if self.session.memory.has_owners and not access.place.is_apart:
                self._check_owner(access)
            self._check_halves(access)
            if access.operand == TMP and access.how == READ:
                continue  # what it has written there itself
            if access.how == READ:
                self._check_defined(access)
                if state == FILLED and not shadow.is_filled(extent, start):
                    state = DATA
            elif access.is_lost:
                use = "used them as its workspace" if access.operand in (TMP, HEADERS) else "overwritten them"
                shadow.undefine(extent, start, f"{self.step.line} has {use}", fills=True)
            else:
                if is_loaded and access.operand == dst:
                    is_loaded = False
                    self._leave(self.here.tiles[dst], access)
                shadow.define(extent, start, state)

    def _leave(self, dst: TileSpec, access: MemoryAccess) -> None:
        """A load or gather leaves what lies outside its valid region undefined, unless a fill has cleared it
        (CO-ALIGN-05). Of a tile, that is all of it; of a slice, the slice; of one that begins inside another tile,
        nothing: it may be the columns of wider rows."""
        shadow = access.place.shadow
        whole = extent_of(region(dst.layout, dst.rows, dst.cols), dst.dtype.size // shadow.unit)
        if access.extent.count < whole.count and access.tile not in self.session.memory.interleaved:
            shadow.undefine(whole, access.place.start, f"{self.step.line} has left them outside its valid region")

    def _check_defined(self, access: MemoryAccess) -> None:
        """All that is read is defined."""
        session, shadow, extent, start = self.session, access.place.shadow, access.extent, access.place.start
        missing = shadow.unwritten(extent, start) if access.tile in session.memory.checks_defined else 0
        if missing:
            places, count = shadow.undefined(extent, start), (missing * shadow.unit, extent.count * shadow.unit)
            part, reason = self._part(access, places), shadow.reason(int(places.min()), int(places.max()) + 1)
            finding = hazards.unwritten(part, *count, reason, session.profile.name, is_index=access.is_index)
            session.report([finding], self.instr)
            shadow.define(extent, start)

    def _check_halves(self, access: MemoryAccess) -> None:
        """Halves of an accumulator's rows are not read as halves of its columns, and the other way round (TV-02)."""
        halves, (shadow, start) = self.session.memory.halves, access.place[:2]
        if (spec := self.here.tiles.get(access.operand)) is None:
            return
        if access.how != READ:
            for key in [each for each in halves if each[0] is shadow and start <= each[1] < start + access.extent.end]:
                del halves[key]
            down, across = division(self.instr.modifiers).parts
            if down != across:
                halves[shadow, start] = spec.rows * down // across, spec.cols * across // down
        elif halves.get((shadow, start)) == (spec.rows, spec.cols):
            part = self._part(access, access.extent.positions(start))
            self.session.report([hazards.other_halves(part, spec, self.session.profile.name)], self.instr)

    def _part(self, access: MemoryAccess, places: Array) -> ConflictAccess:
        """Some units of an access, as a finding describes them."""
        session, number = self.session, self.session.numbers[id(self.instr)]
        now = session.accesses.history.shown(number, session.running.moment)
        part = session.accesses.naming.part(self.instr, access, places)
        return replace(part, statement=number, block=session.running.number, iteration=now)

    def _check_owner(self, access: MemoryAccess) -> None:
        """No other tile has overwritten what is read. What a pointer reaches belongs to whatever tile lies there."""
        tile = self.session.program.tiles.get(access.tile)
        if tile is not None and tile.family == ANY_FAMILY:
            return
        owners, place, extent = self.session.memory.owners(access.place), access.place, access.extent
        spec = self.here.tiles.get(access.operand)
        narrow = spec is not None and not spec.pitch and is_narrow(spec, *spec.valid)
        if access.how != READ:
            owners.write(access.tile, place, extent, narrow=narrow, is_workspace=access.operand in (TMP, HEADERS))
        elif other := owners.read(access.tile, place, extent, narrow=narrow):
            by, address, places = other
            finding = hazards.overwritten(
                self._part(access, places), access.tile, by, address, self.session.profile.name
            )
            self.session.report([finding], self.instr)
            place.shadow.define(extent, place.start)  # nothing more is reported of it


def _digest(values: Array) -> bytes:
    """The same for equal arrays."""
    return blake2b(values.tobytes(), digest_size=16).digest()


def _indices(step: PlanStep, storages: Sequence[Storage]) -> Array | None:
    """Index values as they are read, before any remap; negative ones as negative numbers."""
    if not isinstance(step, IndexedStep):
        return None
    raw = step.load(storages[step.idx], step.lanes)
    values = step.reader.widen(raw[:, 0] if step.by_row else raw)
    return np.where(values >= 1 << 31, values - (1 << 32), values) if step.reader.signed else values
