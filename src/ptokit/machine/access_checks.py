"""The checks of a run: the order of accesses, blocks that meet, missed writes, alignment, flags and barriers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from ptokit.finding import ConflictAccess, Finding, Fix, Level
from ptokit.isa.opaque import UNCACHED
from ptokit.machine import hazards
from ptokit.machine.block_cache import BlockCache, IssuedWork, Touches
from ptokit.machine.clocks import Clock, Clocks, merge
from ptokit.machine.ends import Iterations, Meeting, MemoryAccess, Moment, Naming, RunningBlock
from ptokit.machine.findings import Findings
from ptokit.machine.hazards import Fixes
from ptokit.machine.memories import Global
from ptokit.machine.overlaps import HEADERS, Overlaps
from ptokit.machine.pipes import Stuck
from ptokit.machine.report import MachineOptions
from ptokit.machine.shadow import READ, WRITE, Earlier, Shadow, meets
from ptokit.machine.site import Executed, Site
from ptokit.program.cores import PipeWork, core_of, cross_name, is_crossing, kind_of, unit_of
from ptokit.program.ir import CrossFlag, Flag, Instr, Program, Stmt
from ptokit.target import SCALAR, VECTOR, Profile


class GridBarriers:
    """How many barriers of all blocks came before each access to global memory, in its block."""

    def __init__(self) -> None:
        self._items: list[int] = []
        """The items of the running block that are such barriers."""
        self._changes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """For each pipe: times from which on its accesses come after another number of barriers, and that number."""

    def begin(self) -> None:
        """A block begins."""
        self._items.clear()

    def pass_one(self, item: int) -> None:
        """The running block comes to a barrier, which is this item of it."""
        self._items.append(item)

    def note(self, pipe: int, time: int, item: int) -> None:
        """An item of the running block accesses global memory."""
        changes, count = self._changes[pipe], bisect_left(self._items, item)
        if not changes or changes[-1][1] != count:
            changes.append((time, count))

    def separate(self, item: int, pipe: int, time: int) -> bool:
        """Whether a barrier is between an item of the running block and an access of an earlier block."""
        changes = self._changes[pipe]
        at = bisect_right(changes, time, key=itemgetter(0))
        return bool(at) and changes[at - 1][1] != bisect_left(self._items, item)


# --- barriers of all blocks


class AccessChecks:
    """Checks the accesses of one launch against earlier ones."""

    cache: BlockCache
    """What earlier blocks have issued."""

    def __init__(
        self,
        program: Program,
        statements: Sequence[Stmt],
        gm: Global,
        running: RunningBlock,
        flags: FlagChecks,
        findings: Findings,
        report: Report,
    ) -> None:
        self.statements, self.running, self.flags, self.findings = statements, running, flags, findings
        self.profile, self.options, self.clocks, self.report = flags.profile, flags.options, flags.clocks, report
        options = self.options
        self.history = Iterations(program, len(self.clocks.pipes))
        self.watches = options.enables("blocks") or options.enables("order")
        """Whether accesses are compared with earlier ones."""
        self.naming = Naming(program, self.profile, gm)
        self._unordered = partial(hazards.unordered, self.flags.fixes)
        self._not_handed = partial(hazards.not_handed_over, self.flags.fixes)
        self._overlapping = partial(hazards.overlapping, self.flags.fixes)
        self.overlaps = Overlaps() if self.profile.overlapping and flags.orders else None
        """The dependences within the pipe whose instructions may overlap; None if every pipe orders its own."""
        self.blocks_meet = False
        """Whether the result depends on the order of the blocks."""
        self.is_stale = False
        """Whether a read may miss what another path has written."""
        self.grid_barriers = GridBarriers()
        self._starts: list[Clock] = []
        self._blocks: list[int] = []
        """The blocks that ran, and the clock at the start of each."""
        self._lines: dict[tuple[Shadow, int], tuple[int, int]] = {}
        """By the cache line of global memory: the last block and statement that stored to it by the scalar pipe."""
        self._unaligned: dict[tuple[str, int], int] = {}
        """By the address of bursts that are not aligned: the first statement that has one."""

    def begin(self) -> None:
        """A block begins."""
        self._starts.append(self.clocks.started)
        self._blocks.append(self.running.number)
        self.grid_barriers.begin()

    def check_bursts(self, executed: Executed, site: Site, touches: Touches) -> None:
        """DMA bursts to and from tiles are aligned. An address is reported where it is moved first."""
        for touch in touches:
            pipe, place = site.moved.get((touch.operand, touch.how != READ)), touch.place
            if pipe and not place.is_global:
                found = list(hazards.burst(executed.instr.name, touch.operand, pipe, place, touch.extent, self.profile))
                first = self._unaligned.setdefault((place.name, place.start), executed.number) if found else None
                self.report(found if first == executed.number else (), executed.instr)

    def check_index_flag(self, executed: Executed, site: Site, touches: Touches) -> None:
        """The caller must order the load of an index, although the instruction waits for the load by itself."""
        kind, wait = site.call.route_kernel.index_note, site.load_wait
        if not self.flags.orders or not kind or wait is None:
            return
        known = list(map(max, self.clocks.peek(f"{core_of(wait.dst)}.{VECTOR}"), self.clocks.peek(wait.dst)))
        scalar, load = self.clocks.number[wait.dst], self.clocks.number[wait.src]
        for touch in touches:
            if touch.is_index:
                earlier = touch.place.shadow.unordered(READ, scalar, known, touch.extent, touch.place.start)
                for each in (each for each in earlier if each.pipe == load):
                    self.note_index(executed, kind, touch, each, f"{core_of(wait.dst)}.{VECTOR}")

    def note_index(self, executed: Executed, kind: str, touch: MemoryAccess, load: Earlier, gate: str) -> None:
        """The load of an index that nothing makes `gate` wait for."""
        finding = hazards.unflagged_index(executed.instr.name, touch.operand, kind, self.profile.name, self.flags.fixes)
        self.report([finding], executed.instr)

    def races(self, work: IssuedWork, given: Touches, clock: Clock) -> bool:
        """Whether nothing orders an access to global memory after an earlier one."""
        me = self.clocks.number[work.step.pipe]
        return self.flags.orders and any(
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
            self.grid_barriers.note(me, time, work.item)
            if self.cache.has_run(work):
                touches = [touch for touch in touches if not touch.place.is_global]
        met = [
            Meeting(number, moment, pipe, gate, touch, earlier)
            for touch in (touches if self.flags.orders else ())
            for earlier in touch.place.shadow.unordered(touch.how, me, clock, touch.extent, touch.place.start)
        ]
        if met:
            self._race(met, clock)
        if self.overlaps is not None and unit_of(pipe) == self.profile.overlapping:
            self._check_own(work, touches, moment, time)
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
                key = place.shadow, touch.how, number
                self.naming.starts.setdefault(key, {})[place.start, touch.operand] = time
            place.shadow.record(touch.how, me, time, number, touch.extent, place.start, since)

    def _check_own(self, work: IssuedWork, touches: Sequence[MemoryAccess], moment: Moment, time: int) -> None:
        """Check work against earlier work of its own pipe, whose instructions may overlap (A-73)."""
        assert self.overlaps is not None
        pipe, step = work.step.pipe, work.step
        found = self.overlaps.dependences(self.clocks, work, touches, time)
        reported = found[:1] if not self.options.consequences else found
        for touch, earlier in reported:
            self.conflict(self._overlapping, Meeting(work.number, moment, pipe, pipe, touch, earlier))
        if found:
            self.clocks.end_work(pipe, max(earlier.time for _, earlier in found))
        if step.fences:
            self.clocks.end_work(pipe, time - 1)
        if step.ends:
            self.clocks.end_work(pipe, time)

    def _race(self, met: list[Meeting], clock: Clock) -> None:
        """Report accesses of a pipe that nothing orders after earlier ones. One order may make up for several of them.
        Then the fix is for that one; of those on its pipe, the read of an index is reported, or else the first."""
        folds = not self.options.consequences
        for last in self._last_of(met, clock) if folds else met:
            before = self.clocks.pipes[last.earlier.pipe]
            cores = core_of(before), core_of(last.pipe)
            hazard = self._unordered if cores[0] == cores[1] else self._not_handed
            if hazard is self._not_handed and kind_of(cores[0]) == kind_of(cores[1]):
                hazard = hazards.between_blocks
            alike = [each for each in met if each.earlier.pipe == last.earlier.pipe] if folds else [last]
            shown = next((each for each in alike if each.touch.is_index), alike[0])
            self.conflict(hazard, shown if shown is last else shown._replace(last=last))
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
                if not self.grid_barriers.separate(work.item, other.pipe, other.time):
                    self.conflict(hazards.between_blocks, Meeting(number, moment, pipe, gate, touch, other))
            if self.flags.orders and touch.how == READ and hazards.may_be_stale(self.clocks.pipes[layer.pipe], pipe):
                stale = layer.last(extent, start, before)
                if stale and stale.statement != number and not self._is_direct(number, stale.statement):
                    self.is_stale = True
                    self.conflict(hazards.stale, Meeting(number, moment, pipe, gate, touch, stale))

    def _is_direct(self, *numbers: int) -> bool:
        """Whether accesses of statements take care of the cache: the kernel of an instruction handles its own."""
        return any(getattr(self.statements[number], "name", "") in UNCACHED for number in numbers)

    def conflict(self, hazard: Callable[[ConflictAccess, ConflictAccess, Profile], Finding], meeting: Meeting) -> None:
        """Report two accesses; the same two statements only once."""
        number, moment, pipe, _, touch, earlier, other = meeting
        if hazard is self._not_handed and self.flags.is_explained(pipe, self.clocks.pipes[earlier.pipe]):
            return
        cause = hazard, number, pipe, touch.operand, touch.how, earlier.how, earlier.pipe, earlier.statement
        self.cache.found()
        if self.findings.again(cause, self.running.number, moment):
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
            self.flags.explained.add(flag)
            finding = replace(finding, fix=self.flags.fixes.missing_wait(then, flag))
        self.report([finding], self.statements[number], moment, cause)

    def _ends(self, meeting: Meeting) -> tuple[ConflictAccess, ConflictAccess]:
        """The two accesses of a conflict, as findings describe them."""
        number, moment, pipe, _, _, earlier, _ = meeting
        stmts, pipes = (
            (self.statements[earlier.statement], self.statements[number]),
            (self.clocks.pipes[earlier.pipe], pipe),
        )
        first, then = self.naming.ends(meeting, stmts, pipes, self.running.values)
        ago = self.history.shown(earlier.statement, self.history.find(earlier.pipe, earlier.time))
        now = self.history.shown(number, moment)
        return (
            replace(first, statement=earlier.statement, block=self._block_of(earlier), iteration=ago),
            replace(then, statement=number, block=self.running.number, iteration=now),
        )

    def _check_lines(self, number: int, moment: Moment, pipe: str, touch: MemoryAccess) -> None:
        """Check scalar stores to global memory against those of earlier blocks to the same cache lines."""
        shadow = touch.place.shadow
        size = self.profile.store_line // shadow.unit
        for line in touch.extent.lines(touch.place.start, max(1, size)) if self.options.enables("blocks") else ():
            block, earlier = self._lines.get((shadow, line), (self.running.number, number))
            self._lines[shadow, line] = self.running.number, number
            if block != self.running.number and not self._meet(touch):
                first = self.naming.store(self.statements[earlier], pipe, touch, block)
                then = self.naming.store(self.statements[number], pipe, touch, self.running.number)
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


def _own(step: PipeWork, touches: Touches) -> list[MemoryAccess]:
    """The accesses of a step."""
    own = [touch for touch in touches if touch.operand in (step.reads if touch.how == READ else step.writes)]
    if unit_of(step.pipe) == VECTOR:
        own += [touch for touch in touches if touch.operand == HEADERS]
    return own


# --- flags


Report = Callable[..., None]
"""Adds findings of a statement."""

TWICE: dict[bool, tuple[Level, str]] = {
    True: ("error", "again, and nothing has waited for it in between"),
    False: ("note", "while the wait for an earlier set may not be over: public sources differ on whether flags count"),
}
"""A flag that is set early: whether two sets follow each other in the order of issue."""


def _is_of_none(stmt: Stmt) -> bool:
    """Whether a flag has pipes of two cores: hardware has none such, and a note says so."""
    return isinstance(stmt, Flag) and is_crossing(stmt)


class FlagChecks:
    """Checks the flags of one launch."""

    def __init__(
        self, pipes: Sequence[str], profile: Profile, options: MachineOptions, fixes: Fixes, report: Report
    ) -> None:
        self.profile, self.options, self.fixes, self.report = profile, options, fixes, report
        self.clocks = Clocks(pipes, self.set_twice, self.stuck)
        self.clocks.on_unpaired, self.clocks.on_overflow = self.unpaired, self.overflow
        self.orders = bool(profile.pipes) and options.enables("order")
        """Whether faults of order are reported."""
        self.explained: set[Hashable] = set()
        """Flags that another finding reports: nothing waits for them."""
        self._unset: dict[Hashable, Stmt] = {}
        """Flags of the running block whose wait did not end: a later set of such a flag is the one that it missed."""

    def begin(self) -> None:
        """A block begins."""
        self.clocks.begin()
        self._unset.clear()

    def end(self) -> None:
        """A block has ended."""
        for flag, setter in self.clocks.end():
            if isinstance(setter, tuple) and self.orders and flag not in self._unset and not _is_of_none(setter[0]):
                message = f"the flag {self._named(flag)} is still set when a block ends"
                fix = Fix(self.fixes.last_wait(flag), " at the end: the next kernel would find it set")
                self.report([Finding("hazard", "KN-13", message, None, "flag", fix=fix)], *setter, flag=flag)

    def set_twice(self, flag: Hashable, what: object, before: object, is_doubled: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            level, why = TWICE[is_doubled]
            message = f"the flag {self._named(flag)} is set {why}"
            src, dst, _ = _parts(flag)
            other = self.fixes.event(unit_of(src), unit_of(dst), id(what[0]))
            free = "" if other is None else f" (id {other} is free)"
            fix = (
                f"use another event{free}, or make {unit_of(src)} wait for {unit_of(dst)} before it sets this one again"
            )
            self.report([Finding(level, "KN-13", message, None, "flag", fix=fix)], *what, flag=flag)

    def unpaired(self, flag: Hashable, what: object, before: object) -> None:
        if isinstance(what, tuple) and isinstance(before, tuple) and self.orders:
            self.report([hazards.unpaired(what[0], before[0])], *what, flag=flag)

    def overflow(self, flag: Hashable, what: object, certain: bool) -> None:
        if isinstance(what, tuple) and self.orders:
            self.report([hazards.overflow(what[0], certain)], *what, flag=flag)

    def stuck(self, stuck: Stuck) -> None:
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
            found, stmt = hazards.endless_wait(stuck, self.fixes.program.vector_cores)
            self.report([replace(each, fix=wrong[1]) if wrong else each for each in found], stmt, moment)
            return
        if isinstance(stmt, Instr):
            message, operand, fix = f"{stmt.name} waits for an event that nothing signals", "event", "record it first"
        else:
            message = f"{unit_of(stuck.pipe)} waits forever for the flag {self._named(stuck.flag)}"
            added = self.fixes.missing_set(stmt, *_parts(stuck.flag), is_again=is_again)
            operand, fix = "flag", wrong[1] if wrong else Fix(added, ", or set it on every path to the wait")
        self.report([Finding("error", "KN-13", message, None, operand, fix=fix)], stmt, moment)

    def _named(self, flag: object) -> str:
        """A flag as messages name it."""
        if isinstance(flag, tuple) and len(flag) == 2:
            return cross_name(flag, self.fixes.program.vector_cores)
        src, dst, event = _parts(flag)
        return f"{unit_of(src)}→{unit_of(dst)} {event}"

    def is_explained(self, *pipes: str) -> bool:
        """Whether one of two pipes of different cores has waited in vain for the other core."""
        waits = [stmt for stmt in self._unset.values() if isinstance(stmt, CrossFlag)]
        return not self.options.consequences and any(
            kind_of(core_of(pipe)) == wait.core and (self.profile.cross_wait or wait.pipe) in (unit_of(pipe), SCALAR)
            for pipe in pipes
            for wait in waits
        )


def _parts(flag: object) -> tuple[str, str, object]:
    """The pipes and the event of a flag."""
    src, dst, event = flag if isinstance(flag, tuple) else ("", "", flag)
    return src, dst, event
