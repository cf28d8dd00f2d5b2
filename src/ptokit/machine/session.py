"""One launch on the machine: the state of pipes and memories while blocks run, and the findings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial

from ptokit.engine.reference import Touched
from ptokit.engine.storage import Storage
from ptokit.engine.unspecified import Unspecified
from ptokit.finding import ConflictAccess, Finding, Fix, Level
from ptokit.isa.opaque import GRID_BARRIERS
from ptokit.isa.policy import TileType
from ptokit.machine import hazards
from ptokit.machine.block_cache import BlockCache, IssuedWork, Touches, WatchedClocks
from ptokit.machine.clocks import Clock, Clocks, merge
from ptokit.machine.costs import Costs
from ptokit.machine.ends import Iterations, Meeting, MemoryAccess, Moment, Naming
from ptokit.machine.findings import Findings
from ptokit.machine.fixes import Fixes
from ptokit.machine.grid_barriers import GridBarriers
from ptokit.machine.lane_totals import LaneRecorder
from ptokit.machine.memories import ChipMemory, Global, Owners
from ptokit.machine.options import MachineOptions
from ptokit.machine.outcomes import outcomes
from ptokit.machine.pipes import Stuck
from ptokit.machine.repeats import repeats
from ptokit.machine.report import MemoryUse
from ptokit.machine.shadow import READ, WRITE, Earlier, Shadow, meets
from ptokit.machine.site import Executed, Site
from ptokit.machine.timer import Timer
from ptokit.machine.traffic import TrafficMeter
from ptokit.program.budget import has_simt, hidden_memory, static_bytes
from ptokit.program.calls import unknown_writes
from ptokit.program.cores import Cores, core_of, unit_of
from ptokit.program.describe import described
from ptokit.program.expr import Var
from ptokit.program.ir import CrossFlag, Instr, LoadScalar, Program, Stmt, walk
from ptokit.program.overlaps import interleaved
from ptokit.program.steps import PipeWork, Sync
from ptokit.target import SCALAR, VECTOR, Profile

HEADERS = "the headers' workspace"
"""In the place of an operand: memory that the C++ headers of an instruction use by themselves."""
TWICE: dict[bool, tuple[Level, str]] = {
    True: ("error", "again, and nothing has waited for it in between"),
    False: ("hazard", "while the wait for an earlier set may not be over"),
}
"""A flag that is set early: whether two sets follow each other in the order of issue."""


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
        self.unspecified = None if program.is_modelled else Unspecified()
        """The unspecified values of the launch; None if it has none."""
        unknown = unknown_writes(program)
        known = {name for name, tile in program.tiles.items() if tile.spec.loc not in unknown}
        self.checks_defined = known | {""} if options.enables("memory") else set[str]()
        """The tiles of which reads of memory that nothing has written are findings; empty for global memory."""
        self.block = 0
        self.values: Mapping[Var, int] = {}
        """The numbers of the running block."""
        self.moment: Moment = ()
        """The iteration that runs."""
        self.statements: list[Stmt] = list(walk(program.body))
        self.numbers = {id(stmt): number for number, stmt in enumerate(self.statements)}
        self.cores = Cores(program, profile)
        self.clocks = Clocks(self.cores.pipes, self._set_twice, self._stuck)
        self.clocks.on_unpaired, self.clocks.on_overflow = self._unpaired, self._overflow
        self.history = Iterations(program, len(self.clocks.pipes))
        names = {loc: memory.name for loc, memory in profile.memories.items()}
        bits = len(self.statements).bit_length()
        self.chip = ChipMemory(names, program, bits, poison=options.poison)
        self.simt = has_simt(program, profile)
        """Whether an instruction starts threads."""
        self.static = {loc: static_bytes(program, loc) for loc in TileType}
        """Bytes of each memory that tiles without a given address take."""
        self.hidden = hidden_memory(program, profile)
        """Where in UB the headers of instructions use memory by themselves, if they do."""
        self.owners = Owners(program, self.hidden)
        self.gm = Global(tensors, written, bits)
        self.watches = options.enables("blocks") or options.enables("order")
        """Whether accesses are compared with earlier ones."""
        self.naming, self.fixes = Naming(program, profile, self.gm), Fixes(program, profile)
        self._unordered = partial(hazards.unordered, self.fixes)
        self._not_handed = partial(hazards.not_handed_over, self.fixes)
        self.orders = bool(profile.pipes) and options.enables("order")
        self.costs = Costs(profile, options.overrides)
        at_once = options.cores or self.costs.cores(self.cores.names)
        is_timed = profile.pipes and options.enables("time")
        self.timer = Timer(self.costs, options.timeline, at_once) if is_timed else None
        self.cache = BlockCache(self)
        """What earlier blocks have issued."""
        order = WatchedClocks(self, self.cache)
        self.engines = () if not profile.pipes else (order, self.timer) if self.timer else (order,)
        """The engines that flags, events and barriers go to."""
        is_counted = options.enables("traffic") or self.timer is not None
        self.traffic = TrafficMeter(self.costs.grains) if is_counted else None
        self.lanes = LaneRecorder()
        self.used: dict[TileType, dict[tuple[str, int, int], None]] = {}
        self.iterations: dict[int, int] = {}
        """The most iterations that each loop had."""
        self.skipped = False
        """Whether an instruction could not be executed."""
        self.blocks_meet = False
        """Whether the result depends on the order of the blocks."""
        self.is_stale = False
        """Whether a read may miss what another path has written."""
        self._starts: list[Clock] = []
        self.explained: set[Hashable] = set()
        """Flags of which another finding says that nothing waits for them."""
        self._unset: dict[Hashable, Stmt] = {}
        """Flags of the running block for which a wait was in vain: the set that is left is the one it missed."""
        self._blocks: list[int] = []
        """The blocks that ran, and the clock at the start of each."""
        self._lines: dict[tuple[Shadow, int], tuple[int, int]] = {}
        """By the cache line of global memory: the last block and statement that stored to it by the scalar pipe."""
        self._grid_barriers = GridBarriers()
        self._unaligned: dict[tuple[str, int], int] = {}
        """By the address of bursts that are not aligned: the first statement that has one."""

    @cached_property
    def interleaved(self) -> frozenset[str]:
        """The tiles of which another one may have the part that is not valid."""
        return interleaved(self.program, None)

    # --- blocks

    def begin(self, block: int) -> None:
        """A block begins."""
        self.block = block
        self.clocks.begin()
        self._starts.append(self.clocks.started)
        self._blocks.append(block)
        self.moment = ()
        self._unset.clear()
        self._grid_barriers.begin()
        self.cache.begin()
        if self.timer:
            self.timer.begin_block(block)

    def end(self) -> None:
        """A block has ended."""
        self.cache.end(self._end_clocks)
        if self.timer:
            self.timer.end_block()

    def _end_clocks(self, _touches: Touches) -> None:
        for flag, setter in self.clocks.end():
            if isinstance(setter, tuple) and self.orders and flag not in self._unset:
                message = f"the flag {_named(flag)} is still set when a block ends"
                fix = Fix(self.fixes.last_wait(flag), " at the end: the next kernel would find it set")
                self.report([Finding("hazard", "KN-13", message, None, "flag", fix=fix)], *setter, flag=flag)

    def forget_block(self) -> None:
        """Forget what the running block has done to on-chip memory."""
        self.chip.forget()
        self.owners.forget()
        self.history.forget(self.clocks.started)

    def abandon(self, findings: Iterable[Finding]) -> None:
        """The block cannot go on. Nothing that follows from that is reported."""
        self.skipped = True
        self.findings.show((finding.on(self.profile.name) for finding in findings), self.block, (), ())
        self.cache.check_all()
        self.cache.drop()
        orders, self.orders = self.orders, False
        self.end()
        self.orders = orders

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
            moment = self.moment if moment is None else moment
            placed = (described(finding, self.program, stmt) for finding in found)
            self.findings.show(placed, self.block, moment, self.history.shown(number, moment), cause, flag)

    # --- flags

    def check_destinations(self, src: str, dst: str, event: int, flag: Stmt) -> None:
        """A set while another destination has not yet waited for the same source pipe and event."""
        others = [key for key in self.clocks.pending if isinstance(key, tuple) and key[::2] == (src, event)]
        for other in others if self.orders else ():
            if other[1] != dst:
                message = (
                    f"the flag {_named((src, dst, event))} is set while {_named(other)} is: hardware may not tell "
                    "destinations of one source pipe and event apart"
                )
                fix = f"use another event for {unit_of(dst)}"
                self.report([Finding("note", "KN-13", message, None, "flag", fix=fix)], flag)

    def _set_twice(self, flag: Hashable, what: object, before: object, is_doubled: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            level, why = TWICE[is_doubled]
            message = f"the flag {_named(flag)} is set {why}"
            src, dst, _ = _parts(flag)
            other = self.fixes.event(unit_of(src), unit_of(dst), id(what[0]))
            free = "" if other is None else f" (id {other} is free)"
            fix = (
                f"use another event{free}, or make {unit_of(src)} wait for {unit_of(dst)} before it sets this one again"
            )
            self.report([Finding(level, "KN-13", message, None, "flag", fix=fix)], *what, flag=flag)

    def _unpaired(self, flag: Hashable, what: object, before: object) -> None:
        if isinstance(what, tuple) and isinstance(before, tuple) and self.orders:
            self.report([hazards.unpaired(what[0], before[0])], *what, flag=flag)

    def _overflow(self, flag: Hashable, what: object, certain: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            self.report([hazards.overflow(what[0], certain)], *what, flag=flag)

    def _stuck(self, stuck: Stuck) -> None:
        if not isinstance(stuck.what, tuple) or not self.orders:
            return
        stmt, moment = stuck.what
        is_again = self.clocks.was_waited(stuck.flag)
        if not self.options.consequences:
            self.clocks.pretend(stuck.flag)
            if self._unset.setdefault(stuck.flag, stmt) is not stmt:
                return
        flag, wrong = stuck.flag, None
        if isinstance(flag, tuple) and not self.options.consequences:
            wrong = self.fixes.same_id(stmt, flag, self.clocks.left(flag))
        self.explained |= {wrong[0]} if wrong else set()
        if hazards.is_between(stuck):
            found, stmt = hazards.endless_wait(stuck)
            self.report([replace(each, fix=wrong[1]) if wrong else each for each in found], stmt, moment)
            return
        if isinstance(stmt, Instr):
            message, operand, fix = f"{stmt.name} waits for an event that nothing signals", "event", "record it first"
        else:
            message = f"{unit_of(stuck.pipe)} waits forever for the flag {_named(stuck.flag)}"
            added = self.fixes.missing_set(stmt, *_parts(stuck.flag), is_again=is_again)
            operand, fix = "flag", wrong[1] if wrong else Fix(added, ", or set it on every path to the wait")
        self.report([Finding("error", "KN-13", message, None, operand, fix=fix)], stmt, moment)

    # --- instructions

    def observe(self, executed: Executed, site: Site) -> None:
        """Check the values of an instruction that was executed, and pass it to the other observers."""
        options = self.options
        if executed.instr.name in GRID_BARRIERS:
            self._grid_barriers.pass_one(self.cache.item)
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
            timer.wait_event(event, site.pipes)
        timer.execute(executed)
        if instr.event is not None:
            timer.signal_event(instr.event, site.pipes)

    def issue(self, executed: Executed, site: Site, touches: Touches) -> None:
        """Issue the steps of an instruction to the pipes."""
        instr, number = executed.instr, executed.number
        pipes, moment = site.pipes, self.moment
        for event in instr.waits:
            self.clocks.wait_event(event, pipes, (instr, moment))
        self._check_index_flag(executed, site, touches)
        if self.profile.burst:
            self._check_bursts(executed, site, touches)
        for position, step in enumerate(site.steps):
            if isinstance(step, Sync):
                self.clocks.sync(step.src, step.dst)
            else:
                work = IssuedWork(self.cache.item, position, number, step, site.gates[step.pipe])
                self.clocks.work(step.pipe, partial(self.check_work, work, touches, moment))
        if instr.event is not None:
            self.clocks.signal_event(instr.event, pipes)

    def _check_bursts(self, executed: Executed, site: Site, touches: Touches) -> None:
        """DMA bursts to and from tiles are aligned. An address is reported where it is moved first."""
        for touch in touches:
            pipe, place = site.moved.get((touch.operand, touch.how != READ)), touch.place
            if pipe and not place.is_global:
                found = list(hazards.burst(executed.instr.name, touch.operand, pipe, place, touch.extent, self.profile))
                first = self._unaligned.setdefault((place.name, place.start), executed.number) if found else None
                self.report(found if first == executed.number else (), executed.instr)

    def _check_index_flag(self, executed: Executed, site: Site, touches: Touches) -> None:
        """The caller must order the load of an index, although the instruction waits for the load by itself."""
        kind, wait = site.call.kernel.index_note, site.load_wait
        if not self.orders or not kind or wait is None:
            return
        known = list(map(max, self.clocks.peek(f"{core_of(wait.dst)}.{VECTOR}"), self.clocks.peek(wait.dst)))
        scalar, load = self.clocks.number[wait.dst], self.clocks.number[wait.src]
        for touch in touches:
            if touch.is_index:
                earlier = touch.place.shadow.unordered(READ, scalar, known, touch.extent, touch.place.start)
                for each in (each for each in earlier if each.pipe == load):
                    self._note_index(executed, kind, touch, each, f"{core_of(wait.dst)}.{VECTOR}")

    def _note_index(self, executed: Executed, kind: str, touch: MemoryAccess, load: Earlier, gate: str) -> None:
        """The load of an index that nothing makes `gate` wait for."""
        finding = hazards.unflagged_index(executed.instr.name, touch.operand, kind, self.profile.name, self.fixes)
        self.report([finding], executed.instr)

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
            self.clocks.work(pipe, partial(self.check_work, work, touches, self.moment))

    def races(self, work: IssuedWork, given: Touches, clock: Clock) -> bool:
        """Whether nothing orders an access to global memory after an earlier one."""
        me = self.clocks.number[work.step.pipe]
        return self.orders and any(
            next(touch.place.shadow.unordered(touch.how, me, clock, touch.extent, touch.place.start), None) is not None
            for touch in _own(work.step, given)
        )

    def check_work(self, work: IssuedWork, given: Touches, moment: Moment, clock: Clock, time: int) -> None:
        """Check the accesses of a pipe against earlier ones, then record them. `given` are those of all pipes."""
        if not self.watches:
            return
        number, pipe, gate = work.number, work.step.pipe, work.entry
        me = self.clocks.number[pipe]
        touches = _own(work.step, given)
        if any(touch.place.is_global for touch in touches):
            self.cache.note(work, me, clock, time)
            self._grid_barriers.note(me, time, work.item)
            if self.cache.has_run(work):
                touches = [touch for touch in touches if not touch.place.is_global]
        met = [
            Meeting(number, moment, pipe, gate, touch, earlier)
            for touch in (touches if self.orders else ())
            for earlier in touch.place.shadow.unordered(touch.how, me, clock, touch.extent, touch.place.start)
        ]
        if met:
            self._race(met, clock)
        for touch in touches:
            place = touch.place
            if place.is_global:
                self._across(work, moment, touch)
                if touch.how == WRITE and unit_of(pipe) == SCALAR and self.profile.store_line:
                    self._check_lines(number, moment, pipe, touch)
        self.history.record(me, time, moment)
        for touch in touches:
            place = touch.place
            since = self.clocks.started[me] if place.is_global else 0
            if not place.is_global:
                key = place.name, touch.how, number
                self.naming.starts.setdefault(key, {})[place.start, touch.operand] = time
            place.shadow.record(touch.how, me, time, number, touch.extent, place.start, since)

    def _race(self, met: list[Meeting], clock: Clock) -> None:
        """Report accesses of a pipe that nothing orders after earlier ones. One order may make up for several of them.
        Then the fix is for that one; of those on its pipe, the read of an index is reported, or else the first."""
        folds = not self.options.consequences
        for last in self._last_of(met, clock) if folds else met:
            before = self.clocks.pipes[last.earlier.pipe]
            hazard = self._unordered if core_of(before) == core_of(last.pipe) else self._not_handed
            alike = [each for each in met if each.earlier.pipe == last.earlier.pipe] if folds else [last]
            shown = next((each for each in alike if each.touch.is_index), alike[0])
            self._conflict(hazard, shown if shown is last else shown._replace(last=last))
            if folds:
                self.clocks.assume(clock, last.pipe, last.gate, before, last.earlier.time)

    def _last_of(self, met: list[Meeting], clock: Clock) -> list[Meeting]:
        """Those that the order of no other makes up for."""
        stamps = [self.clocks.known(self.clocks.pipes[each.earlier.pipe], each.earlier.time) for each in met]
        known, last = list(clock), set[int]()
        for k in sorted(range(len(met)), key=lambda k: -sum(stamps[k])):
            if known[met[k].earlier.pipe] < met[k].earlier.time:
                merge(known, stamps[k])
                last.add(k)
        return [each for k, each in enumerate(met) if k in last]

    def _across(self, work: IssuedWork, moment: Moment, touch: MemoryAccess) -> None:
        """Check an access to global memory against earlier blocks, and against accesses by another path."""
        number, pipe, gate = work.number, work.step.pipe, work.entry
        started, extent, start = self.clocks.started, touch.extent, touch.place.start
        for layer in touch.place.shadow.layers.values():
            if not meets(touch.how, layer.how):
                continue
            before = started[layer.pipe]
            if self.options.enables("blocks") and (other := layer.last_until(before, extent, start)):
                self.blocks_meet = True
                if not self._grid_barriers.separate(work.item, other.pipe, other.time):
                    self._conflict(hazards.between_blocks, Meeting(number, moment, pipe, gate, touch, other))
            if self.orders and touch.how == READ and hazards.may_be_stale(self.clocks.pipes[layer.pipe], pipe):
                stale = layer.last(extent, start, before)
                if stale and stale.statement != number:  # the kernel of an instruction handles its own
                    self.is_stale = True
                    self._conflict(hazards.stale, Meeting(number, moment, pipe, gate, touch, stale))

    def _conflict(self, hazard: Callable[[ConflictAccess, ConflictAccess, Profile], Finding], meeting: Meeting) -> None:
        """Report two accesses; the same two statements only once."""
        number, moment, pipe, _, touch, earlier, other = meeting
        if hazard is self._not_handed and self._is_explained(pipe, self.clocks.pipes[earlier.pipe]):
            return
        cause = hazard, number, pipe, touch.operand, touch.how, earlier.how, earlier.pipe, earlier.statement
        self.cache.found()
        if self.findings.again(cause, self.block, moment):
            return
        first, then = self._ends(meeting)
        tiles = self.naming.tiles((self.statements[earlier.statement], self.statements[number]), (first, then))
        finding = replace(hazard(first, then, self.profile), ends=(first, then), tiles=tiles)
        last = other or meeting
        if other is not None:
            finding = replace(finding, fix=hazard(*self._ends(other), self.profile).fix)
        is_order = hazard in (self._unordered, self._not_handed)
        flag = self.clocks.unused(last.gate, last.earlier.pipe, last.earlier.time) if is_order else None
        if flag is not None and not self.options.consequences:
            self.explained.add(flag)
            finding = replace(finding, fix=self.fixes.missing_wait(then, flag))
        self.report([finding], self.statements[number], moment, cause)

    def _is_explained(self, *pipes: str) -> bool:
        """Whether one of two pipes of different cores has waited in vain for the other core."""
        waits = [stmt for stmt in self._unset.values() if isinstance(stmt, CrossFlag)]
        return not self.options.consequences and any(
            core_of(pipe) == wait.core and (self.profile.cross_wait or wait.pipe) in (unit_of(pipe), SCALAR)
            for pipe in pipes
            for wait in waits
        )

    def _ends(self, meeting: Meeting) -> tuple[ConflictAccess, ConflictAccess]:
        """The two accesses of a conflict, as findings describe them."""
        number, moment, pipe, _, _, earlier, _ = meeting
        stmts, pipes = (
            (self.statements[earlier.statement], self.statements[number]),
            (self.clocks.pipes[earlier.pipe], pipe),
        )
        first, then = self.naming.ends(meeting, stmts, pipes, self.values)
        ago = self.history.shown(earlier.statement, self.history.find(earlier.pipe, earlier.time))
        now = self.history.shown(number, moment)
        return (
            replace(first, statement=earlier.statement, block=self._block_of(earlier), iteration=ago),
            replace(then, statement=number, block=self.block, iteration=now),
        )

    def _check_lines(self, number: int, moment: Moment, pipe: str, touch: MemoryAccess) -> None:
        """Check scalar stores to global memory against those of earlier blocks to the same cache lines."""
        shadow = touch.place.shadow
        size = self.profile.store_line // shadow.unit
        for line in touch.extent.lines(touch.place.start, max(1, size)) if self.options.enables("blocks") else ():
            block, earlier = self._lines.get((shadow, line), (self.block, number))
            self._lines[shadow, line] = self.block, number
            if block != self.block and not self._meet(touch):
                first = self.naming.store(self.statements[earlier], pipe, touch, block)
                then = self.naming.store(self.statements[number], pipe, touch, self.block)
                finding = hazards.shared_line(first, then, line * self.profile.store_line, self.profile)
                self.report([finding], self.statements[number], moment)

    def _meet(self, touch: MemoryAccess) -> bool:
        """Whether an access meets one of an earlier block at some byte, which is reported as such."""
        layers = [layer for layer in touch.place.shadow.layers.values() if meets(touch.how, layer.how)]
        start = touch.place.start
        return any(layer.last_until(self.clocks.started[layer.pipe], touch.extent, start) for layer in layers)

    def _block_of(self, earlier: Earlier) -> int:
        at = bisect_left(self._starts, earlier.time, key=lambda start: start[earlier.pipe])
        return self._blocks[max(0, at - 1)]

    # --- memory

    def placed(self, tile: str, loc: TileType, address: int, nbytes: int) -> None:
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


def _own(step: PipeWork, touches: Touches) -> list[MemoryAccess]:
    """The accesses of a step."""
    own = [touch for touch in touches if touch.operand in (step.reads if touch.how == READ else step.writes)]
    if unit_of(step.pipe) == VECTOR:
        own += [touch for touch in touches if touch.operand == HEADERS]
    return own


def _parts(flag: object) -> tuple[str, str, object]:
    """The pipes and the event of a flag."""
    src, dst, event = flag if isinstance(flag, tuple) else ("", "", flag)
    return src, dst, event


def _named(flag: object) -> str:
    """A flag as messages name it."""
    if isinstance(flag, tuple) and len(flag) == 2:
        return f"{flag[1]} of {flag[0]}"
    src, dst, event = _parts(flag)
    return f"{unit_of(src)}→{unit_of(dst)} {event}"
