"""One launch on the machine: the state of pipes and memories while blocks run, and the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import sub
from typing import Any, NamedTuple

from ptokit.engine.reference import Touched
from ptokit.engine.storage import Storage
from ptokit.engine.unspecified import Unspecified
from ptokit.finding import Finding, at_line
from ptokit.isa.opaque import GRID_BARRIERS
from ptokit.isa.policy import TileType
from ptokit.machine import hazards
from ptokit.machine.access_checks import AccessChecks, FlagChecks
from ptokit.machine.block_cache import BlockCache, IssuedWork, Touches, WatchedClocks
from ptokit.machine.costs import Costs
from ptokit.machine.ends import MemoryAccess, Moment, RunningBlock, instruction_of
from ptokit.machine.findings import Findings
from ptokit.machine.hazards import Fixes
from ptokit.machine.memories import ChipMemory, Global, MemoryLocation, Owners
from ptokit.machine.outcomes import LaneRecorder, outcomes
from ptokit.machine.report import MachineOptions, MemoryUse
from ptokit.machine.shadow import READ, Shadow
from ptokit.machine.site import Executed, Site, repeats
from ptokit.machine.timer import Timer
from ptokit.machine.ways import TrafficMeter
from ptokit.program.budget import has_simt, hidden_memory, static_bytes
from ptokit.program.cores import Cores, PipeWork, Sync
from ptokit.program.instr_calls import unknown_writes
from ptokit.program.ir import Instr, LoadScalar, Program, Stmt, walk
from ptokit.program.overlaps import interleaved
from ptokit.program.periods import RoundGap
from ptokit.program.show import described
from ptokit.target import Profile


class TileMemory:
    """The on-chip memory of one launch."""

    def __init__(self, program: Program, profile: Profile, options: MachineOptions, bits: int) -> None:
        """`bits` hold the number of a statement."""
        self.program, self.profile, self.dyn_ub = program, profile, options.dyn_ub or 0
        names = {loc: memory.name for loc, memory in profile.memories.items()}
        self.chip = ChipMemory(names, program, bits, poison=options.poison)
        unknown = unknown_writes(program)
        known = {name for name, tile in program.tiles.items() if tile.spec.loc not in unknown}
        self.checks_defined = known | {""} if options.enables("memory") else set[str]()
        """The tiles whose reads of unwritten memory are findings; empty for global memory."""
        self.simt = has_simt(program, profile)
        """Whether an instruction starts threads."""
        self.static = {loc: static_bytes(program, loc) for loc in TileType}
        """Bytes of each memory that tiles without a given address take."""
        self.hidden = hidden_memory(program, profile)
        """Where in UB the headers of instructions use memory by themselves, if they do."""
        self._owners = tuple(Owners(program, self.hidden) for _ in range(program.vector_cores))
        self.has_owners = self._owners[0].is_needed
        """Whether tiles may share bytes."""
        self._used: dict[TileType, dict[tuple[str, int, int], None]] = {}
        self.halves: dict[tuple[Shadow, int], tuple[int, int]] = {}
        """By memory and first unit, where half of an accumulator was written last: the rows and columns of a half if it
        were divided the other way."""

    @cached_property
    def interleaved(self) -> frozenset[str]:
        """The tiles whose invalid part may belong to another tile."""
        return interleaved(self.program, None)

    def forget(self) -> None:
        """Forget what a block has done."""
        self.chip.forget()
        self.halves.clear()
        for owners in self._owners:
            owners.forget()

    def owners(self, place: MemoryLocation) -> Owners:
        """The buffers of the memory that a location is in."""
        return self._owners[place.vector]

    def placed(self, tile: str, loc: TileType, address: int, nbytes: int) -> None:
        """A tile has an address."""
        self._used.setdefault(loc, {})[tile, address, address + nbytes] = None

    def use(self) -> dict[str, MemoryUse]:
        """How much tiles used of each memory."""
        found: dict[str, MemoryUse] = {}
        for loc, tiles in self._used.items():
            memory = self.profile.memories[loc]
            budget = self.profile.budget(self.static[loc], self.dyn_ub, simt=self.simt) if loc is TileType.Vec else None
            size = budget.available if budget else memory.size
            found[memory.name] = MemoryUse(memory.name, size, max(end for _, _, end in tiles), tuple(tiles))
        return found


class Progress(NamedTuple):
    """How far a block has come at the end of a period of a loop."""

    times: Sequence[int]
    """How often each finding was shown."""
    held: Sequence[int]
    """Work in the queues of pipes."""
    lags: Sequence[int]
    """How little pipes know of one another."""
    ran: Counter[int]
    """How often each instruction ran, if that is counted."""

    def is_steady(self, before: Progress, first: Progress) -> bool:
        """Whether the last two periods did the same: what they found, and how pipes drifted apart."""
        grown = [[list(map(sub, now[k], then[k])) for k in (0, 2)] for now, then in ((self, before), (before, first))]
        return len(self.times) == len(first.times) and grown[0] == grown[1] and self.held == before.held == first.held


class Session:
    """The machine during one launch."""

    flag_checks, access_checks = FlagChecks, AccessChecks

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
        self.unspecified = None if program.is_modelled else Unspecified()
        """The unspecified values of the launch; None if it has none."""
        self.running = RunningBlock()
        self.statements: list[Stmt] = list(walk(program.body))
        self.numbers = {id(stmt): number for number, stmt in enumerate(self.statements)}
        self.cores = Cores(program, profile)
        bits = len(self.statements).bit_length()
        self.memory = TileMemory(program, profile, options, bits)
        self.gm = Global(tensors, written, bits)
        self.flags = self.flag_checks(self.cores.pipes, profile, options, Fixes(program, profile), self.report)
        self.clocks = self.flags.clocks
        state = program, self.statements, self.gm, self.running
        self.accesses = self.access_checks(*state, self.flags, self.findings, self.report)
        self.cache = BlockCache(self.clocks, self.running, self.accesses, self._forget_block)
        """What earlier blocks have issued."""
        self.accesses.cache = self.cache
        self.costs = Costs(profile, options.overrides)
        at_once = options.cores or self.costs.cores(self.cores.names)
        is_timed = profile.pipes and options.enables("time")
        self.timer = Timer(self.costs, options.timeline, at_once) if is_timed else None
        order = WatchedClocks(self.flags.clocks, self.running, self.cache)
        self.engines = () if not profile.pipes else (order, self.timer) if self.timer else (order,)
        """The engines that flags, events and barriers go to."""
        is_counted = options.enables("traffic") or self.timer is not None
        self.traffic = TrafficMeter(self.costs.grains) if is_counted else None
        self.lanes = LaneRecorder()
        self.gaps: Mapping[int, Sequence[RoundGap]] = {}
        """Rounds of loops that are not run."""
        self.shared_rounds: dict[int, Any] = {}
        """Of the running block: the rounds of each loop that several cores run."""
        self.is_short = False
        """Whether rounds are left out that may not do what those before did."""
        self.iterations: dict[int, int] = {}
        """The most iterations that each loop had."""
        self.skipped = False
        """Whether an instruction could not be executed."""

    # --- blocks

    def begin(self, block: int) -> None:
        """A block begins."""
        self.running.number, self.running.moment = block, ()
        self.shared_rounds.clear()
        self.flags.begin()
        self.accesses.begin()
        self.cache.begin()
        if self.timer:
            self.timer.begin_block(block)

    def end(self) -> None:
        """A block has ended."""
        self.cache.end(lambda _: self.flags.end())
        if self.timer:
            self.timer.end_block()

    def progress(self) -> Progress:
        """How far the block has come."""
        return Progress(self.findings.times(), self.clocks.held(), self.clocks.lags(), Counter())

    def repeat(self, before: Progress, times: int) -> None:
        """Count what the block has done since as if it had done it so many times more."""
        self.findings.repeat(before.times, times)

    def _forget_block(self) -> None:
        """Forget what the running block has done to on-chip memory."""
        self.memory.forget()
        self.accesses.history.forget(self.clocks.started)

    def abandon(self, findings: Iterable[Finding]) -> None:
        """The block cannot go on. Nothing that follows from that is reported."""
        self.skipped = True
        self.findings.show((finding.on(self.profile.name) for finding in findings), self.running.number, (), ())
        self.cache.check_all()
        self.cache.drop()
        orders, self.flags.orders = self.flags.orders, False
        self.end()
        self.flags.orders = orders

    def report(
        self,
        findings: Iterable[Finding],
        stmt: Stmt,
        moment: Moment | None = None,
        cause: Hashable = None,
        flag: Hashable = None,
    ) -> None:
        """Add findings of a statement, by default in the current iteration."""
        found = [finding.on(self.profile.name) for finding in findings]
        if found:
            self.cache.found()
            number = self.numbers[id(stmt)]
            moment = self.running.moment if moment is None else moment
            placed = (described(finding, self.program, stmt) for finding in found)
            iteration = self.accesses.history.shown(number, moment)
            self.findings.show(placed, self.running.number, moment, iteration, cause, flag)

    def note_overlaps(self) -> None:
        """Dependent instructions of one pipe that need no barrier by the vendor's practice: one note for all."""
        overlaps = self.accesses.overlaps
        if overlaps is None or not overlaps.alike:
            return
        first, then = (self.statements[number] for number in next(iter(overlaps.alike)))
        before, after = (at_line(instruction_of(stmt), stmt.where) for stmt in (first, then))
        finding = hazards.alike(before, after, len(overlaps.alike), self.profile)
        self.findings.add([described(finding, self.program, then)])

    # --- instructions

    def observe(self, executed: Executed, site: Site) -> None:
        """Check the values of an instruction that was executed, and pass it to the other observers."""
        options = self.options
        if executed.instr.name in GRID_BARRIERS:
            self.accesses.grid_barriers.pass_one(self.cache.item)
        if options.enables("repeats") and any(raw is not None for raw in executed.indices):
            self.report(repeats(executed), executed.instr)
        if options.lanes:
            for found in outcomes(executed):
                self.lanes.add(found)
        if self.traffic:
            self.traffic.observe(executed)
        if options.launch != "standard":
            self.report(hazards.dispatch(site), executed.instr)
        if "scratch" in site.call.instruction.roles:
            self.report(hazards.scratch(site, executed.storages), executed.instr)
        if self.timer:
            self._time(executed, site, self.timer)

    def _time(self, executed: Executed, site: Site, timer: Timer) -> None:
        instr = executed.instr
        for event in instr.waits:
            timer.wait_event(site.event(event), site.pipes)
        timer.execute(executed)
        if instr.event is not None:
            timer.signal_event(site.event(instr.event), site.pipes)

    def issue(self, executed: Executed, site: Site, touches: Touches) -> None:
        """Issue the steps of an instruction to the pipes."""
        instr, number = executed.instr, executed.number
        pipes, moment = site.pipes, self.running.moment
        for event in instr.waits:
            self.clocks.wait_event(site.event(event), pipes, (instr, moment))
        self.accesses.check_index_flag(executed, site, touches)
        if self.profile.burst:
            self.accesses.check_bursts(executed, site, touches)
        for position, step in enumerate(site.steps):
            if isinstance(step, Sync):
                self.clocks.sync(step.src, step.dst)
            else:
                work = IssuedWork(self.cache.item, position, number, step, site.gates[step.pipe], site.alike)
                self.clocks.work(step.pipe, partial(self.accesses.check_work, work, touches, moment))
        if instr.event is not None:
            self.clocks.signal_event(site.event(instr.event), pipes)

    def skip(self, instr: Instr) -> None:
        """Nothing was executed for an instruction. What waits for its event does not have to wait."""
        self.skipped = True
        self.cache.drop()
        if instr.event is not None and self.profile.pipes:
            self.clocks.signal_event(instr.event, (self.cores.scalar,))
            if self.timer:
                self.timer.signal_event(instr.event, (self.cores.scalar,))

    def load_scalar(self, stmt: LoadScalar, core: str, storage: Storage, touched: Touched) -> None:
        """The scalar pipe of a core, or of every core that needs it, reads an element."""
        if not self.profile.pipes:
            return
        place = self.gm.at(storage)
        touches = (
            [] if place is None else [MemoryAccess("source", READ, place, place.extent(touched, storage.dtype.size))]
        )
        number = self.numbers[id(stmt)]
        key = "load_scalar", number, core
        if not self.cache.repeats(key, touches):
            self.cache.check(key, partial(self._load_scalar, stmt, core), (), touches)
        if self.timer:
            for pipe in self.cores.scalars(stmt, core):
                self.timer.read_scalar(pipe, number, stmt.where)

    def _load_scalar(self, stmt: LoadScalar, core: str, touches: Touches) -> None:
        for k, pipe in enumerate(self.cores.scalars(stmt, core)):
            work = IssuedWork(self.cache.item, k, self.numbers[id(stmt)], PipeWork(pipe, ("source",)), pipe)
            self.clocks.work(pipe, partial(self.accesses.check_work, work, touches, self.running.moment))
