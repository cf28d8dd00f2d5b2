"""One launch on the machine: the state of pipes and memories while blocks run, and the findings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ptokit.engine.reference import Touched
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, Where
from ptokit.isa.policy import TileType
from ptokit.machine import crossing, hazards
from ptokit.machine.clocks import Clock, Clocks
from ptokit.machine.costs import Costs
from ptokit.machine.executed import Executed
from ptokit.machine.extent import Extent
from ptokit.machine.findings import Findings
from ptokit.machine.hazards import AccessSide
from ptokit.machine.memories import Chip, Global, MemoryLocation, Owners
from ptokit.machine.options import MachineOptions
from ptokit.machine.outcomes import LaneOutcomes, outcomes
from ptokit.machine.pipes import Stuck
from ptokit.machine.repeats import repeats
from ptokit.machine.report import MemoryUse
from ptokit.machine.shadow import READ, Earlier, meets
from ptokit.machine.site import Site
from ptokit.machine.timer import Timer
from ptokit.machine.traffic import TrafficMeter
from ptokit.program.budget import has_simt, static_bytes
from ptokit.program.calls import access_of, all_operands, call_of, effects
from ptokit.program.cores import Cores, core_of, unit_of
from ptokit.program.handover import free_id
from ptokit.program.ir import CrossFlag, Flag, Instr, LoadScalar, Program, Stmt, TileUse, View, walk
from ptokit.program.steps import Sync
from ptokit.target import GM_ACCESS, VECTOR, Profile


class MemoryAccess(NamedTuple):
    """A part of a memory that an instruction touches."""

    operand: str
    how: str
    place: MemoryLocation
    extent: Extent
    is_index: bool = False
    tile: str = ""
    """The tile; empty for global memory."""


class Session:
    """The machine during one launch."""

    def __init__(
        self,
        program: Program,
        profile: Profile,
        options: MachineOptions,
        tensors: Mapping[str, Storage],
        written: Iterable[str],
    ) -> None:
        self.program, self.profile, self.options = program, profile, options
        self.findings = Findings()
        self.block = 0
        self.statements: list[Stmt] = list(walk(program.body))
        self.numbers = {id(stmt): number for number, stmt in enumerate(self.statements)}
        self.cores = Cores(program, profile)
        self.clocks = Clocks(self.cores.pipes, self._set_twice, self._stuck)
        self.clocks.on_unpaired, self.clocks.on_overflow = self._unpaired, self._overflow
        names = {loc: memory.name for loc, memory in profile.memories.items()}
        bits = len(self.statements).bit_length()
        self.chip = Chip(names, program, bits, poison=options.poison)
        self.simt = has_simt(program, profile)
        """Whether an instruction starts threads."""
        self.static = {loc: static_bytes(program, loc) for loc in TileType}
        """Bytes of each memory that tiles without a given address take."""
        self.owners = Owners(program)
        is_watched = options.enables("blocks") or options.enables("order")
        self.gm = Global(tensors, written, bits) if is_watched else Global({}, (), bits)
        self.orders = bool(profile.pipes) and options.enables("order")
        self.costs = Costs(profile, options.costs)
        self.timer = Timer(self.costs, options.timeline) if profile.pipes and options.enables("time") else None
        self.engines = () if not profile.pipes else (self.clocks, self.timer) if self.timer else (self.clocks,)
        """The engines that flags, events and barriers go to."""
        is_counted = options.enables("traffic") or self.timer is not None
        self.traffic = TrafficMeter(self.costs.grains) if is_counted else None
        self.lanes: list[LaneOutcomes] = []
        self.used: dict[TileType, dict[tuple[str, int, int], None]] = {}
        self.iterations: dict[int, int] = {}
        """The most iterations that each loop had."""
        self.skipped = False
        """Whether an instruction could not be executed."""
        self.blocks_meet = False
        """Whether the result depends on the order of the blocks."""
        self._starts: list[Clock] = []

    # --- blocks

    def begin(self, block: int) -> None:
        """A block begins."""
        self.block = block
        self.clocks.begin()
        self._starts.append(self.clocks.started)
        self.chip.forget()
        self.owners.forget()
        if self.timer:
            self.timer.begin_block(block)

    def end(self) -> None:
        """A block has ended."""
        for flag, setter in self.clocks.end():
            if isinstance(setter, Flag | CrossFlag) and self.orders:
                message = f"the flag {_named(flag)} is still set when block {self.block} ends"
                fix = "wait for it: the next kernel would find it set"
                self.report([Finding("hazard", "KN-13", message, None, "flag", fix=fix)], setter.where)
        if self.timer:
            self.timer.end_block()

    @property
    def when(self) -> str:
        """The current block as text."""
        return f"in block {self.block}"

    def report(self, findings: Iterable[Finding], where: Where | None) -> None:
        """Add findings; `where` is their default location."""
        here = (finding.on(self.profile.name) for finding in findings)
        self.findings.add(finding if finding.where else finding.at(where) for finding in here)

    # --- flags

    def _set_twice(self, flag: Hashable, what: object, _before: object) -> None:
        if isinstance(what, Flag) and self.orders:
            message = f"the flag {_named(flag)} is set while the wait for an earlier set may not be over, {self.when}"
            fix = "use another event, or make the setting pipe wait for the waiting one first"
            self.report([Finding("error", "KN-13", message, None, "flag", fix=fix)], what.where)

    def _unpaired(self, _flag: Hashable, what: object, before: object) -> None:
        if isinstance(what, CrossFlag) and isinstance(before, CrossFlag) and self.orders:
            self.report([crossing.unpaired(what, before, self.when)], what.where)

    def _overflow(self, _flag: Hashable, what: object, certain: bool) -> None:
        if isinstance(what, CrossFlag) and self.orders:
            self.report([crossing.overflow(what, certain, self.when)], what.where)

    def _stuck(self, stuck: Stuck) -> None:
        if self.orders and (finding := crossing.stuck(stuck, self.when)):
            self.report([finding], None)
        elif isinstance(stuck.what, Flag) and self.orders:
            message = f"{unit_of(stuck.pipe)} waits forever for the flag {_named(stuck.flag)}, {self.when}"
            fix = "set the flag on every path to the wait, by a pipe that is not stuck"
            self.report([Finding("error", "KN-13", message, None, "flag", fix=fix)], stuck.what.where)
        elif isinstance(stuck.what, Instr) and self.orders:
            message = f"{stuck.what.name} waits for an event that nothing signals, {self.when}"
            self.report(
                [Finding("error", "KN-13", message, None, "event", fix="record the event first")], stuck.what.where
            )

    # --- instructions

    def observe(self, executed: Executed, site: Site, touches: list[MemoryAccess]) -> None:
        """Check an instruction that was executed, and pass it to the other observers."""
        options = self.options
        if options.enables("repeats") and any(raw is not None for raw in executed.indices):
            found = (replace(finding, message=f"{finding.message}, {self.when}") for finding in repeats(executed))
            self.report(found, executed.where)
        if options.lanes:
            self.lanes += outcomes(executed)
        if self.traffic:
            self.traffic.observe(executed)
        if options.launch != "standard":
            self.report(hazards.dispatch(site), executed.where)
        self.report(hazards.scratch(site, executed.storages), executed.where)
        if self.profile.pipes:
            self._issue(executed, site, touches)

    def _issue(self, executed: Executed, site: Site, touches: list[MemoryAccess]) -> None:
        """Issue the steps of an instruction to the pipes."""
        instr, number = executed.instr, executed.number
        pipes = site.pipes
        for event in instr.waits:
            for engine in self.engines:
                engine.wait_event(event, pipes, instr)
        self._check_index_flag(executed, site, touches)
        if self.profile.burst:
            self._check_bursts(executed, site, touches)
        for step in site.steps:
            if isinstance(step, Sync):
                self.clocks.sync(step.src, step.dst)
            else:
                mine = [t for t in touches if t.operand in (step.reads if t.how == READ else step.writes)]
                self.clocks.work(step.pipe, partial(self._work, number, step.pipe, mine, site.gates[step.pipe]))
        if self.timer:
            self.timer.execute(executed)
        self._signal(instr, pipes)

    def _signal(self, instr: Instr, pipes: tuple[str, ...]) -> None:
        """Signal the event of an instruction that has ended on these pipes."""
        if instr.event is not None:
            for engine in self.engines:
                engine.signal_event(instr.event, pipes)

    def _check_bursts(self, executed: Executed, site: Site, touches: list[MemoryAccess]) -> None:
        """DMA bursts to UB are aligned."""
        into = self.profile.memories[TileType.Vec].name
        for touch in touches:
            if touch.operand in site.loaded and touch.how != READ and touch.place.name == into:
                name = executed.instr.name
                self.report(hazards.burst(name, touch.operand, touch.place, touch.extent, self.profile), executed.where)

    def _check_index_flag(self, executed: Executed, site: Site, touches: list[MemoryAccess]) -> None:
        """The caller must order the load of an index, although the instruction waits for the load by itself."""
        kind, wait = site.call.kernel.index_note, site.load_wait
        if not self.orders or not kind or wait is None:
            return
        known = list(map(max, self.clocks.peek(f"{core_of(wait.dst)}.{VECTOR}"), self.clocks.peek(wait.dst)))
        scalar, load = self.clocks.number[wait.dst], self.clocks.number[wait.src]
        for touch in touches:
            if touch.is_index:
                earlier = touch.place.shadow.unordered(READ, scalar, known, touch.extent, touch.place.start)
                if any(each.pipe == load for each in earlier):
                    finding = hazards.unflagged_index(executed.instr.name, touch.operand, kind, self.profile.name)
                    self.report([finding], executed.where)

    def skip(self, instr: Instr) -> None:
        """Nothing was executed for an instruction. What waits for its event does not have to wait."""
        self.skipped = True
        self._signal(instr, (self.cores.scalar,))

    def load_scalar(self, stmt: LoadScalar, storage: Storage, touched: Touched) -> None:
        """The scalar pipe reads an element."""
        if not self.profile.pipes:
            return
        place = self.gm.at(storage)
        touches = (
            [] if place is None else [MemoryAccess("source", READ, place, place.extent(touched, storage.dtype.size))]
        )
        for pipe in self.cores.scalars(stmt):
            self.clocks.work(pipe, partial(self._work, self.numbers[id(stmt)], pipe, touches, pipe))
            if self.timer:
                self.timer.work(pipe, self.costs.scalar_read, self.numbers[id(stmt)], "load_scalar", stmt.where)

    def _work(self, number: int, pipe: str, touches: list[MemoryAccess], entry: str, clock: Clock, time: int) -> None:
        """Check the accesses of a pipe against earlier ones, then record them. `entry` is the pipe that should wait."""
        me = self.clocks.number[pipe]
        for touch in touches:
            place, extent = touch.place, touch.extent
            if self.orders:
                for earlier in place.shadow.unordered(touch.how, me, clock, extent, place.start):
                    self._race(number, pipe, touch, earlier, entry)
            if place.is_global:
                self._across(number, pipe, touch)
        for touch in touches:
            place = touch.place
            since = self.clocks.started[me] if place.is_global else 0
            place.shadow.record(touch.how, me, time, number, touch.extent, place.start, since)

    def _race(self, number: int, pipe: str, touch: MemoryAccess, earlier: Earlier, entry: str) -> None:
        then, first = self._act(number, pipe, touch), self._act_of(earlier, touch)
        cores = core_of(self.clocks.pipes[earlier.pipe]), core_of(pipe)
        if cores[0] != cores[1]:
            free = free_id(self.program, cores[0])
            finding = crossing.missing(first, then, unit_of(entry), cores, free, self.when, self.profile)
        else:
            finding = hazards.unordered(first, then, unit_of(entry), self.when, self.profile)
        self.report([finding], self.statements[number].where)

    def _across(self, number: int, pipe: str, touch: MemoryAccess) -> None:
        """Check an access to global memory against earlier blocks, and against accesses by another path."""
        started, extent, start = self.clocks.started, touch.extent, touch.place.start
        for layer in touch.place.shadow.layers.values():
            if not meets(touch.how, layer.how):
                continue
            before = started[layer.pipe]
            if self.options.enables("blocks") and (other := layer.last_until(before, extent, start)):
                self.blocks_meet = True
                first, then = self._act_of(other, touch), self._act(number, pipe, touch)
                finding = hazards.between_blocks(first, then, self.block, self._block_of(other), self.profile.name)
                self.report([finding], self.statements[number].where)
            writer = self.clocks.pipes[layer.pipe]
            if self.orders and touch.how == READ and _is_stale(writer, pipe):
                stale = layer.last(extent, start, before)
                if stale and stale.statement != number:  # the kernel of an instruction handles its own
                    first, then = self._act_of(stale, touch), self._act(number, pipe, touch)
                    finding = hazards.stale(first, then, self.when, self.profile.name, _other_cache(writer, pipe))
                    self.report([finding], self.statements[number].where)

    def _block_of(self, earlier: Earlier) -> int:
        """The block of an access of an earlier block."""
        return max(0, bisect_left(self._starts, earlier.time, key=lambda start: start[earlier.pipe]) - 1)

    def _act(self, number: int, pipe: str, touch: MemoryAccess) -> AccessSide:
        return AccessSide(_name(self.statements[number]), touch.operand, unit_of(pipe), touch.how, touch.place.name, "")

    def _act_of(self, earlier: Earlier, touch: MemoryAccess) -> AccessSide:
        stmt, pipe = self.statements[earlier.statement], unit_of(self.clocks.pipes[earlier.pipe])
        operand = self._operand(stmt, pipe, earlier.how, touch)
        line = f"line {stmt.where.line}" if stmt.where else ""
        return AccessSide(_name(stmt), operand, pipe, earlier.how, touch.place.name, line)

    def _operand(self, stmt: Stmt, pipe: str, how: str, touch: MemoryAccess) -> str:
        """The operand of an earlier statement that a pipe accessed in that way, in that kind of memory."""
        if not isinstance(stmt, Instr):
            return touch.operand
        expected = ("read" if how == READ else "write", "update")
        kind = View if touch.place.is_global else TileUse
        operands = all_operands(stmt)
        fitting = [name for name, operand in operands.items() if isinstance(operand, kind)]
        fitting.sort(key=lambda name: getattr(operands[name], "tile", "") != touch.tile)
        touched = effects(call_of(self.program, stmt, self.profile))
        by_pipe = [effect.operand for effect in touched if effect.pipe == pipe and effect.access in expected]
        access = access_of(stmt.name)
        return next((n for names in (by_pipe, access) for n in fitting if n in names and access[n] in expected), "")

    # --- memory

    def placed(self, tile: str, loc: TileType, address: int, nbytes: int) -> None:
        """Record the address of a tile."""
        self.used.setdefault(loc, {})[tile, address, address + nbytes] = None

    def memory(self) -> dict[str, MemoryUse]:
        """How much tiles used of each memory."""
        found: dict[str, MemoryUse] = {}
        for loc, tiles in self.used.items():
            memory = self.profile.memories[loc]
            asked = self.options.dyn_ub or 0
            budget = self.profile.budget(self.static[loc], asked, simt=self.simt) if loc is TileType.Vec else None
            size = budget.available if budget else memory.size
            found[memory.name] = MemoryUse(memory.name, size, max(end for _, _, end in tiles), tuple(tiles))
        return found


def _is_cached(pipe: str) -> bool:
    """Whether accesses of a pipe to global memory go through the cache."""
    return GM_ACCESS.get(unit_of(pipe)) != "bursts"


def _other_cache(writer: str, reader: str) -> str:
    """The core of the writer, if both accesses go through caches, and not through the same one."""
    both = _is_cached(writer) and _is_cached(reader)
    return core_of(writer) if both and core_of(writer) != core_of(reader) else ""


def _is_stale(writer: str, reader: str) -> bool:
    """Whether a pipe may read old data, because another one wrote by another path."""
    return _is_cached(writer) != _is_cached(reader) or bool(_other_cache(writer, reader))


def _name(stmt: Stmt) -> str:
    return stmt.name if isinstance(stmt, Instr) else "load_scalar"


def _named(flag: object) -> str:
    """A flag as messages name it."""
    if isinstance(flag, tuple) and len(flag) == 2:
        return f"{flag[1]} of {flag[0]}"
    src, dst, event = flag if isinstance(flag, tuple) else ("", "", flag)
    return f"{unit_of(src)}→{unit_of(dst)} {event}"
