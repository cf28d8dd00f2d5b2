"""A program on the machine: executed like the reference engine does, while a session looks on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from ptokit.engine import interpreter
from ptokit.engine.bind import elements, offset_of
from ptokit.engine.frame import Frame
from ptokit.engine.interpreter import POISON, Executable, InstructionStep, Step
from ptokit.engine.lanes import IndexFault, Lanes, SpanFault, ZeroFault
from ptokit.engine.prepared import Prepared, shared_memory, span_finding, zero_finding
from ptokit.engine.reference import IndexedStep, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Storage, region
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.layout import Layout
from ptokit.isa.operand import OperandSpec
from ptokit.machine import hazards
from ptokit.machine.adversary import Adversary
from ptokit.machine.executed import Executed
from ptokit.machine.extent import Extent
from ptokit.machine.memories import Place
from ptokit.machine.options import MachineOptions
from ptokit.machine.report import Report
from ptokit.machine.session import Session, Spot
from ptokit.machine.shadow import READ
from ptokit.machine.site import Site, lenient, site
from ptokit.program.bounds import event_finding, index_finding
from ptokit.program.calls import written_arguments
from ptokit.program.expr import BLOCK_NUM, ExpressionError, Var
from ptokit.program.ir import Assign, Barrier, Block, Flag, Instr, LoadScalar, Stmt, TileDecl, TileUse
from ptokit.program.steps import Sync, Touch
from ptokit.program.verify_call import judged, memory_findings
from ptokit.target.profile import EVENT_IDS

SCATTERS = ("mscatter", "tscatter")
"""Instructions whose indices name destinations."""
ONE = region(Layout.plain(0, 1), 1, 1)


class _Frame(Frame):
    """What a block sees while it runs, and who looks on."""

    def __init__(
        self,
        session: Session,
        tensors: Mapping[str, Storage],
        values: dict[Var, int],
        adversary: Adversary | None = None,
    ) -> None:
        super().__init__()
        self.tensors, self.values = tensors, values
        self.session, self.adversary = session, adversary
        self.fresh: set[str] = set()
        """Tiles that hold nothing yet."""
        self._stays: dict[tuple[str, int], Storage] = {}

    def place(self, tile: TileDecl, address: int, target: str) -> None:
        """Let a tile show what its memory holds at an address; one where it was before is not judged again."""
        known = self._stays.get((tile.name, address))
        if known is None:
            super().place(tile, address, target)
            self._stays[tile.name, address] = self.tiles[tile.name]
            return
        self.memories[tile.spec.loc].at(address, tile.spec.nbytes)  # poison again, if the block is a new one
        self.tiles[tile.name], self.addresses[tile.name] = known, address


class Machine(Executable):
    """A program made ready for the machine, with all the addresses and flags that its target needs; launched as often
    as you like."""

    engine = "machine"

    def run(
        self,
        tensors: Mapping[str, Storage],
        integers: Mapping[Var, int],
        grid: int,
        options: MachineOptions,
        said: Sequence[Finding] = (),
    ) -> Report:
        """Run every block of the grid. `said` is what is known of the program before it runs."""
        written = written_arguments(self.program)
        session = Session(self.program, self.profile, options, tensors, written)
        session.tell(said, None)
        began, before = perf_counter(), {}
        if options.seed is not None and self.profile.pipes:
            before = {name: tensors[name].bits.copy() for name in written}
        self._run_blocks(_Frame(session, tensors, {**integers, BLOCK_NUM: grid}), range(grid))
        if before:
            for name, bits in before.items():
                tensors[name].bits[...] = bits
            adversary = Adversary(int(options.seed or 0))
            frame = _Frame(session, tensors, {**integers, BLOCK_NUM: grid}, adversary)
            with suppress(VerifyError, OutOfBoundsError):  # a number that came too late leads anywhere
                self._run_blocks(frame, adversary.blocks(grid))
        found = tuple(judged(session.findings.found, self.options))
        return Report(
            found, self.engine, perf_counter() - began, self.profile.name, grid, session.memory(),
            session.timer.result() if session.timer else None,
            session.traffic.result() if session.traffic else (),
            tuple(session.lanes),
        )  # fmt: skip

    def _run_blocks(self, frame: _Frame, blocks: Iterable[int]) -> None:
        try:
            for block in blocks:
                self._run_block(frame, block)
        except ExpressionError as problem:
            fault = Finding("error", "KN-11", f"{problem}, {frame.when}", fix="keep divisors and shifts in range")
            raise VerifyError([fault.at(frame.where)]) from None

    def _run_block(self, frame: _Frame, block: int) -> None:
        frame.begin(block)
        frame.fresh.clear()
        if frame.adversary is None:
            frame.session.begin(block)
        for step in self.steps:
            step(frame)
        (frame.session if frame.adversary is None else frame.adversary).end()

    def _block(self, block: Block) -> tuple[Step, ...]:
        return tuple(self._step(stmt) for stmt in block)

    def _step(self, stmt: Stmt) -> Step:
        made = STEPS.get(type(stmt))
        return made(stmt, self) if made else super()._step(stmt)


class _Declare:
    """A tile comes to be: it holds nothing before its first use, unless its author put it where something is."""

    def __init__(self, tile: TileDecl, machine: Machine) -> None:
        self.tile, self.machine = tile, machine
        self.declare = interpreter.STEPS[TileDecl](tile, machine)

    def __call__(self, frame: _Frame) -> None:  # type: ignore[override]
        self.declare(frame)
        if self.tile.fresh:
            frame.fresh.add(self.tile.name)
        if self.tile.addresses:
            _stay(self.machine, frame, self.tile, all(isinstance(address, int) for address in self.tile.addresses))


def _stay(machine: Machine, frame: _Frame, tile: TileDecl, is_known: bool) -> None:
    """Take note of where a tile lies; where only the run tells, see whether it fits."""
    address, spec = frame.addresses[tile.name], tile.spec
    frame.session.placed(tile.name, spec.loc, address, spec.nbytes)
    if not is_known:
        launch = replace(machine.options, dyn_ub=machine.options.dyn_ub or 0)
        subject = f"{machine.program.name} on {machine.profile.name}"
        found = memory_findings(subject, {spec.loc: address + spec.nbytes}, machine.profile, launch)
        frame.session.tell([replace(finding, operand=tile.name) for finding in found], frame.where)


class _Assign:
    def __init__(self, stmt: Assign, machine: Machine) -> None:
        self.stmt, self.machine = stmt, machine
        self.assign = interpreter.STEPS[Assign](stmt, machine)

    def __call__(self, frame: _Frame) -> None:
        self.assign(frame)
        frame.fresh.discard(self.stmt.tile)  # it shows what is there
        frame.session.owners.forget(self.stmt.tile)
        _stay(self.machine, frame, self.machine.program.tiles[self.stmt.tile], isinstance(self.stmt.address, int))


class _Flag:
    def __init__(self, stmt: Flag, machine: Machine) -> None:
        self.stmt, self.has_pipes = stmt, bool(machine.profile.pipes)

    def __call__(self, frame: _Frame) -> None:
        frame.where = self.stmt.where
        event = frame.worth(self.stmt.event)
        if not 0 <= event < EVENT_IDS:
            raise VerifyError([event_finding(event, frame.when).at(frame.where)])
        if self.has_pipes and frame.adversary is None:
            frame.session.flag(self.stmt, event)
        elif frame.adversary:
            for src, dst in frame.session.ends(self.stmt):
                key = (src, dst, event)
                if self.stmt.action == "set":
                    frame.adversary.set(src, key)
                else:
                    frame.adversary.wait(dst, key)


class _Barrier:
    def __init__(self, stmt: Barrier, machine: Machine) -> None:
        self.stmt, self.has_pipes = stmt, bool(machine.profile.pipes)

    def __call__(self, frame: _Frame) -> None:
        if self.has_pipes and frame.adversary is None:
            frame.session.barrier(self.stmt.pipe)
        elif frame.adversary and self.stmt.pipe == "ALL":
            for core in frame.session.cores:
                frame.adversary.barrier(core)


class _LoadScalar:
    def __init__(self, stmt: LoadScalar, machine: Machine) -> None:
        self.stmt = stmt
        self.argument = machine.program.tensors[stmt.source.argument]

    def __call__(self, frame: _Frame) -> None:
        frame.where = self.stmt.where
        if frame.adversary:
            frame.adversary.settle(f"{frame.session.cores[0]}.S")
        offset = offset_of(self.argument, self.stmt.source, frame, index_finding)
        storage = elements(self.argument, offset, 1, frame)
        frame.values[self.stmt.result] = int(storage.bits.view(storage.dtype.numpy)[0])
        if frame.adversary is None:
            frame.session.load_scalar(self.stmt, storage, Touched(0, READ, ONE))


class _Instruction(InstructionStep):
    """An instruction: executed, then looked at."""

    def __init__(self, instr: Instr, machine: Machine) -> None:
        super().__init__(instr, machine)
        self.machine = machine
        self.sites: dict[int, tuple[Prepared, Site | None]] = {}

    def __call__(self, frame: _Frame) -> None:  # type: ignore[override]
        session = frame.session
        if frame.adversary:
            self._defer(frame, frame.adversary)
            return
        self._make_fresh(frame)
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        nameless = [finding for finding in prepared.refused if finding.kind is None]
        if nameless:
            raise VerifyError([finding.at(self.instr.where) for finding in nameless])
        if here is None:
            session.tell(prepared.refused, self.instr.where)
            self._leave_out(frame)
            return
        if here.said:
            session.tell(here.said, self.instr.where)
        for slot in here.plan.written:
            if not storages[slot].writable:
                name = here.prepared.names[slot]
                raise ValueError(f"{self.instr.name}: {name} is read-only; pass a writable array")
        try:
            self._execute(frame, here, storages, *self._resolve(session, here, storages))
        except SpanFault as fault:
            said = span_finding(here.prepared.instruction, fault)
            raise OutOfBoundsError(frame.tell([said])) from None

    def _defer(self, frame: _Frame, adversary: Adversary) -> None:
        """Write down what the pipes do: the one that reads the indices keeps them for the one that moves the data."""
        prepared, storages = self.prepare(frame)
        here = self._site(prepared)
        fresh = [frame.tiles[use.tile] for use in self.instr.tiles if use.tile in frame.fresh]
        frame.fresh.difference_update(use.tile for use in self.instr.tiles)
        if here is None:
            return
        work, touches = _Deferred(here.tolerant, storages, fresh), [s for s in here.steps if isinstance(s, Touch)]
        reader = next((touch for touch in touches if "idx" in touch.reads), touches[-1])
        pipes = here.pipes
        for event in self.instr.waits:
            adversary.hear(("event", event), frame.session.signallers(event), pipes)
        for step in here.steps:
            if isinstance(step, Sync):
                adversary.sync(step.src, step.dst)
            else:
                adversary.work(step.pipe, partial(work, reads=step is reader, moves=step is touches[-1]))
        if self.instr.event is not None:
            adversary.signal(("event", self.instr.event), pipes)

    def _site(self, prepared: Prepared) -> Site | None:
        known = self.sites.get(id(prepared))
        if known is None or known[0] is not prepared:
            second = None if prepared.plan is not None else self._lenient(prepared)
            known = self.sites[id(prepared)] = prepared, site(self.instr, prepared, second, self.machine.profile)
        return known[1]

    def _lenient(self, prepared: Prepared) -> Prepared | None:
        if prepared.call is None:
            return None
        specs: list[OperandSpec] = [spec for spec in prepared.call.operands.values() if spec is not None]
        instruction, machine = INSTRUCTIONS[self.instr.name], self.machine
        options = lenient(machine.options)
        return Prepared(instruction, machine.profile, options, specs, self.instr.modifiers, self.repeats)

    def _resolve(
        self, session: Session, here: Site, storages: list[Storage]
    ) -> tuple[Plan, list[Lanes | None], list[Array | None]]:
        """Read the indices. One that must not be is told and passed over."""
        plan = here.plan
        wanted = session.options.lanes or self.instr.name in SCATTERS
        indices = [_indices(step, storages) if wanted else None for step in plan.steps]
        try:
            lanes, reports = plan.resolve(storages)
        except IndexFault as fault:
            self._tell(session, [here.prepared.index_finding(fault.report, "error")])
            plan = here.tolerant
            lanes, reports = plan.resolve(storages)
        if reports and session.options.wants("indices"):
            self._tell(session, [here.prepared.index_finding(report, "hazard") for report in reports])
        return plan, lanes, indices

    def _tell(self, session: Session, findings: list[Finding]) -> None:
        session.tell([replace(f, message=f"{f.message}, {session.when}") for f in findings], self.instr.where)

    def _execute(
        self,
        frame: _Frame,
        here: Site,
        storages: list[Storage],
        plan: Plan,
        lanes: list[Lanes | None],
        indices: list[Array | None],
    ) -> None:
        session = frame.session
        spots = self._spots(frame, here, storages, plan.touches(lanes))
        if session.options.wants("memory"):
            self._check_written(session, spots)
        if session.owners.is_needed:
            self._check_owners(session, spots)
        self._move(session, here, storages, plan, lanes)
        for spot in spots:
            if spot.how != READ and spot.place.name != "GM":
                spot.place.shadow.define(spot.extent, spot.place.start)
        number = session.numbers[id(self.instr)]
        done = Executed(
            number, self.instr, here.call, here.core, here.steps, plan, storages, lanes, indices, session.block
        )
        session.look(done, here, spots)

    def _move(
        self, session: Session, here: Site, storages: list[Storage], plan: Plan, lanes: list[Lanes | None]
    ) -> None:
        """Execute. An index that the instruction itself makes bad is told and passed over, too."""
        instruction = here.prepared.instruction
        try:
            if plan.run(storages, lanes) == "in order":
                self._tell(session, list(shared_memory(instruction)))
        except ZeroFault as fault:
            raise VerifyError([zero_finding(instruction, fault).at(self.instr.where)]) from None
        except IndexFault as fault:
            self._tell(session, [here.prepared.index_finding(fault.report, "error")])
            here.tolerant.run(storages, here.tolerant.resolve(storages)[0])

    def _spots(self, frame: _Frame, here: Site, storages: list[Storage], touched: Iterable[Touched]) -> list[Spot]:
        """The parts of memories that it touches, as far as they are watched."""
        places = [self._place(frame, here, slot, storage) for slot, storage in enumerate(storages)]
        found: list[Spot] = []
        for each in touched:
            place_ = places[each.slot]
            if place_ is not None:
                extent = place_.extent(each, storages[each.slot].dtype.size)
                operand = self.instr.operands[each.slot]
                tile = operand.tile if isinstance(operand, TileUse) else ""
                found.append(Spot(here.prepared.names[each.slot], each.how, place_, extent, each.is_index, tile))
        return found

    def _place(self, frame: _Frame, here: Site, slot: int, storage: Storage) -> Place | None:
        operand = self.instr.operands[slot]
        if isinstance(operand, TileUse):
            loc = here.tiles[here.prepared.names[slot]].loc
            return frame.session.chip.at(loc, frame.addresses.get(operand.tile), storage)
        return frame.session.gm.at(storage)

    def _check_written(self, session: Session, spots: list[Spot]) -> None:
        """What is read on the chip was written before."""
        for spot in spots:
            if spot.how != READ or spot.place.name == "GM":
                continue
            shadow = spot.place.shadow
            missing = shadow.unwritten(spot.extent, spot.place.start)
            if missing:
                act = hazards.Act(self.instr.name, spot.operand, "", READ, spot.place.name, "")
                count = missing * shadow.unit, spot.extent.count * shadow.unit
                said = hazards.unwritten(act, *count, session.when, is_index=spot.is_index)
                session.tell([said], self.instr.where)
                shadow.define(spot.extent, spot.place.start)

    def _check_owners(self, session: Session, spots: list[Spot]) -> None:
        """What a tile has written is still its own when it is read."""
        for spot in spots:
            if not spot.tile:
                continue
            if spot.how != READ:
                session.owners.write(spot.tile, spot.place, spot.extent)
            elif other := session.owners.read(spot.tile, spot.place, spot.extent):
                said = hazards.overwritten(self.instr.name, spot.operand, spot.tile, other, session.when)
                session.tell([said], self.instr.where)

    def _make_fresh(self, frame: _Frame) -> None:
        """Tiles that are used for the first time hold nothing."""
        for use in self.instr.tiles:
            if use.tile in frame.fresh:
                frame.fresh.discard(use.tile)
                self._define(frame, use.tile, 0)
                frame.tiles[use.tile].bits.view(np.uint8)[...] = POISON

    def _leave_out(self, frame: _Frame) -> None:
        """Nothing was executed; what it would have done counts as done, so that no more is said of it."""
        for use in self.instr.tiles:
            self._define(frame, use.tile, 1)
        frame.session.leave_out(self.instr)

    def _define(self, frame: _Frame, tile: str, value: int) -> None:
        spec, storage = self.machine.program.tiles[tile].spec, frame.tiles[tile]
        here = frame.session.chip.at(spec.loc, frame.addresses.get(tile), storage)
        here.shadow.define(Extent(1, spec.nbytes // here.shadow.unit, 0), here.start, value)


class _Deferred:
    """An instruction that reads its indices at one time and moves its data at another."""

    def __init__(self, plan: Plan, storages: list[Storage], fresh: list[Storage]) -> None:
        self.plan, self.storages, self.fresh = plan, storages, fresh
        self.lanes: list[Lanes | None] | None = None

    def __call__(self, *, reads: bool, moves: bool) -> None:
        with suppress(SpanFault, ZeroFault):  # told by the run in the order of the program
            if reads:
                for storage in self.fresh:
                    storage.bits.view(np.uint8)[...] = POISON
                self.lanes, _ = self.plan.resolve(self.storages)
            if moves and self.lanes is not None:
                self.plan.run(self.storages, self.lanes)


def _indices(step: PlanStep, storages: list[Storage]) -> Array | None:
    """Index values as they are read, before any remap; negative ones as negative numbers."""
    if not isinstance(step, IndexedStep):
        return None
    raw = step.load(storages[step.idx], step.lanes)
    values = step.reader.widen(raw[:, 0] if step.by_row else raw)
    return np.where(values >= 1 << 31, values - (1 << 32), values) if step.reader.signed else values


STEPS = {
    TileDecl: _Declare,
    Assign: _Assign,
    Instr: _Instruction,
    LoadScalar: _LoadScalar,
    Flag: _Flag,
    Barrier: _Barrier,
}
