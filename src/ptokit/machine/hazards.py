"""The hazards that a run shows (section B), their messages, and what their fixes write into a program."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from ptokit import spec
from ptokit.engine.storage import Storage
from ptokit.finding import CodePart, ConflictAccess, Finding, Fix, Level, Where, Wording, at_line, shown
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.fixes import BY_DMA, VALID
from ptokit.isa.instruction import OrderHazard
from ptokit.isa.operand import TileSpec
from ptokit.machine.memories import MemoryLocation
from ptokit.machine.pipes import Stuck
from ptokit.machine.shadow import Extent
from ptokit.machine.site import Site
from ptokit.program.budget import simt_launch
from ptokit.program.cores import core_of, ends_of, is_crossing, kind_of, unit_of, vector_of
from ptokit.program.expr import interval
from ptokit.program.handover import endless_finding, expected_hand_over, first_in_source, free_cross_ids, sync_name
from ptokit.program.ir import Barrier, Branch, CrossFlag, Flag, Loop, Program, Stmt, walk
from ptokit.program.memory import Path, meeting_block
from ptokit.program.order import free_ids
from ptokit.program.repair import Edited, SyncCode
from ptokit.program.streams import named_wait, sets_both
from ptokit.target import GM_ACCESS, LOAD, VECTOR, Profile
from ptokit.target.profile import CROSS_IDS, CROSS_MOST, VECTOR_CORE

FlagKey = tuple[Any, ...]
"""Two pipes and an event id; of a flag between the cores, the core that sets it and an id."""
BODIES = {"the loop": Loop, "the branch": Branch}


class Fixes:
    """The fixes of one program."""

    def __init__(self, program: Program, profile: Profile) -> None:
        self.program, self.profile = program, profile
        self._events: dict[Hashable, int | None] = {}
        self._free_across: dict[str, list[int]] = {}

    def last_wait(self, flag: Hashable) -> CodePart | str:
        """The wait for a flag that is left set; of a flag between the cores, in words."""
        if isinstance(flag, tuple) and len(flag) == 3:
            return _flag("wait", *flag)
        return "wait for it on the other core"

    def event(self, src: str, dst: str, user: Hashable = None) -> int | None:
        """An event id that nothing uses, for one user; None if there is none left."""
        key = src, dst, user
        if key not in self._events:
            free = self._free.get((src, dst), [])
            self._events[key] = free.pop(0) if free else None
        return self._events[key]

    @cached_property
    def _free(self) -> dict[tuple[str, str], list[int]]:
        return free_ids(self.program, self.profile)

    # --- where it is written

    @cached_property
    def _source(self) -> Edited:
        return Edited(self.program, ())

    def _loop(self, block: Path) -> Loop | None:
        """The outermost loop around a block."""
        around = self._source.outline.around(block)
        return self._source.outline.loops[around[0]] if around else None

    def order(self, first: ConflictAccess, then: ConflictAccess) -> str:
        """Make the second access wait for the first."""
        src, dst = first.unit, unit_of(then.gate)
        if src == dst:
            return "pass the data between the cores"
        event = self.event(src, dst, then.statement)
        if event is None:
            return Fix(SyncCode(Barrier("ALL")), f" before {self._between(first, then)[1]}: no event id is free")
        return self._placed(first, then, *(_flag(action, src, dst, event) for action in ("set", "wait")))

    def fence(self, first: ConflictAccess, then: ConflictAccess) -> str:
        """A barrier on the pipe of both."""
        return Fix(SyncCode(Barrier(first.unit)), f" before {self._between(first, then)[1]}")

    def hand_over(self, first: ConflictAccess, then: ConflictAccess) -> str:
        """Make the second access wait for the first one, on the other core."""
        core, user = kind_of(core_of(first.pipe)), then.statement
        free = self._free_across.setdefault(core, free_cross_ids(self.program, core))
        if (core, user) not in self._events:
            self._events[core, user] = free.pop(0) if free else 0
        event = self._events[core, user]
        if event is not None and not sets_both(self.program, self.profile):
            event += CROSS_IDS * max(vector_of(core_of(pipe)) for pipe in (first.pipe, then.gate))
        return self._placed(first, then, _across("set", first.pipe, event), _across("wait", then.gate, event))

    def _between(self, first: ConflictAccess, then: ConflictAccess) -> tuple[str, str, Loop | None]:
        """After and before which lines two accesses are ordered; and the loop that carries the first to the second."""
        paths = [self._source.paths[each.statement] for each in (first, then)]
        block, one, other = meeting_block(*paths)
        if one == other and paths[0] != paths[1] and not self._loop(block):  # two cores are in the arms of a branch
            return *_lines(*(self._source.statements[path] for path in paths)), None
        after, before = _lines(*(self._source.statements[*block, number] for number in (one, other)))
        return after, before, None if one < other else self._loop(block)

    def _placed(self, first: ConflictAccess, then: ConflictAccess, give: CodePart, take: CodePart) -> Fix:
        """Where a set and a wait are written to order two accesses."""
        after, before, loop = self._between(first, then)
        if loop is None:
            return Fix(give, f" after {after}, ", take, f" before {before}")
        inside, around = (
            (take, f" before {before}, ", give, f" after {after}; "),
            f" before the loop ({_line(loop.where)}), ",
        )
        return Fix(*inside, give, around, take, " after the loop")

    def pair(self, src: str, dst: str) -> Fix:
        """A flag between a load and the instruction that uses it."""
        event = self.event(src, dst)
        give, take = (_flag(action, src, dst, "event" if event is None else event) for action in ("set", "wait"))
        return Fix(give, " after the load, ", take, " before the instruction")

    def missing_wait(self, then: ConflictAccess, flag: FlagKey) -> Fix:
        """Wait for a flag that is set, before the access that needs it."""
        where = self._source.statements[self._source.paths[then.statement]].where
        is_inside = len(flag) == 3
        wait = _flag("wait", *flag[:2], self._event(flag)) if is_inside else _across("wait", then.gate, flag[1])
        return Fix(wait, f" before {_line(where and where.path[-1])}")

    def _event(self, flag: FlagKey) -> object:
        """The event id of a flag, as it is computed in Python where it is set."""
        pair = unit_of(flag[0]), unit_of(flag[1])
        sets = [stmt for stmt in self._source.statements.values()
                if isinstance(stmt, Flag) and stmt.action == "set" and (stmt.src, stmt.dst) == pair]  # fmt: skip
        own = next((stmt for stmt in sets if stmt.event == flag[2]), None)
        if self.program.form or not sets:
            return flag[2]
        if own is None:
            return next((stmt.event for stmt in sets if not isinstance(stmt.event, int)), flag[2])
        others = [stmt for stmt in sets if stmt.where == own.where and stmt.event != own.event]  # unrolled by Python
        return f"<as in {_line(own.where)}>" if others else flag[2]

    def missing_set(self, wait: Stmt, src: str, dst: str, event: object, *, is_again: bool) -> Fix:
        """Set a flag that nothing sets before a wait: once, if later iterations of the loop around the wait set it; at
        the end of an iteration, if an earlier wait (`is_again`) has ended."""
        path = next(path for path, stmt in self._source.statements.items() if stmt is wait)
        loop, give = self._loop(path[:-1]), _flag("set", src, dst, event)
        if is_again and (around := self._source.outline.around(path)):
            last = self._source.outline.loops[around[-1]].body[-1]
            return Fix(give, f" after {_lines(last, last)[0]}")
        pair = "set", unit_of(src), unit_of(dst)
        inside = walk(loop.body) if loop else ()
        if loop and any(isinstance(stmt, Flag) and (stmt.action, stmt.src, stmt.dst) == pair for stmt in inside):
            return Fix(give, f" before the loop ({_line(loop.where)})")
        return Fix(give, f" before {_line(wait.where and wait.where.path[-1])}")

    def same_id(self, wait: Stmt, flag: FlagKey, left: Iterable[tuple[FlagKey, object]]) -> tuple[FlagKey, Fix] | None:
        """For a wait that never ends: a flag that is `left` set because its event id is not that of the wait, or the
        other way round; and one id for both."""
        for other, by in left:
            is_set, is_awaited = self._occurs("set", flag), self._occurs("wait", other)
            line = _line(by[0].where and by[0].where.path[-1]) if isinstance(by, tuple) else "it"
            if is_set and not is_awaited and isinstance(by, tuple):
                return other, Fix(_with_id(by[0], flag[-1]), f" at {line}")
            if not is_set:
                here = _with_id(wait, other[-1])
                return other, Fix(here, f" here, as {line} sets it, or the id of this wait there")
        return None

    def _occurs(self, action: str, flag: FlagKey) -> bool:
        """Whether a statement may set a flag, or wait for it."""
        ends = [unit_of(end) for end in flag[:-1]]
        for stmt in self._source.statements.values():
            if isinstance(stmt, Flag | CrossFlag) and stmt.action == action:
                low, high = interval(stmt.event, {})
                own = [stmt.src, stmt.dst] if isinstance(stmt, Flag) else [ends_of(stmt)[0]]
                if own == ends and any(low <= number <= high for number in (flag[-1], flag[-1] % CROSS_IDS)):
                    return True
        return False


def _flag(action: str, src: str, dst: str, event: object) -> SyncCode:
    """A set or a wait."""
    return SyncCode(Flag(action, unit_of(src), unit_of(dst), 0), str(event))


def _across(action: str, pipe: str, event: object) -> SyncCode:
    """A set or a wait of a pipe, for the other core."""
    core = kind_of(core_of(pipe))
    if isinstance(event, int) and core == VECTOR_CORE.name:
        event %= CROSS_IDS
    return SyncCode(CrossFlag(action, core, unit_of(pipe), 0), str(event))


def _with_id(stmt: Stmt, event: object) -> SyncCode:
    """A flag with another event id."""
    assert isinstance(stmt, Flag | CrossFlag)
    if isinstance(stmt, CrossFlag) and stmt.core == VECTOR_CORE.name and isinstance(event, int):
        event %= CROSS_IDS
    return SyncCode(replace(stmt, event=0), str(event))


def _lines(first: Stmt, then: Stmt) -> tuple[str, str]:
    """The lines of two statements: those of the kernel itself, unless one call contains both."""
    places = [stmt.where for stmt in (first, then)]
    outer = [where and where.path[-1] for where in places]
    one, other = places if outer[0] == outer[1] else outer
    return _place(first, one), _place(then, other)


def _place(stmt: Stmt, where: Where | None) -> str:
    """The line of a statement; for a statement with a body, its kind."""
    kind = next((name for name, kind in BODIES.items() if isinstance(stmt, kind)), None)
    return f"{kind} ({_line(where)})" if kind else _line(where)


def _line(where: Where | None) -> str:
    return f"line {where.line}" if where else "it"


# --- hazards


LATER = "read it in a later kernel"


def _conflicts(access: ConflictAccess) -> tuple[OrderHazard, ...]:
    """The hazards of an instruction if nothing orders its accesses."""
    known = INSTRUCTIONS.get(access.instruction)
    return known.reports.conflicts if known else ()


def _role(access: ConflictAccess) -> str:
    """The role of an operand: `index`, `scratch`, or empty for others."""
    known = INSTRUCTIONS.get(access.instruction)
    return next((role for role, name in known.roles.items() if name == access.operand), "") if known else ""


UNLISTED = "KN-13"
"""The clause of unordered accesses without a hazard of their own."""


def _finding(
    level: Level, kind: str, target: str, message: str, operand: str, fix: str, expected: str = "", found: str = ""
) -> Finding:
    """A finding of a hazard, with the clause behind it."""
    return Finding(level, spec.behind(kind, target), message, kind, operand, expected, found, fix, target=target)


def unordered(fixes: Fixes, first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """Two accesses that nothing orders."""
    kinds, target = _kinds(first, then, profile), profile.name
    kind = next((kind for kind in kinds if spec.hazards()[kind].level_on(target)), None)
    rule = spec.behind(kind, target) if kind else UNLISTED
    message = f"{then}; nothing orders this {then.how} after {first.noun}"
    fix = fixes.order(first, then)
    expected = f"{first.unit} before {then.unit}"
    return Finding("error", rule, message, kind, then.operand, expected, fix=fix, target=target)


OVERLAPPING = "H-49"
"""The hazard of vector instructions that depend on each other, and that nothing keeps from overlapping."""
PRACTICE = "the vendor's practice, not a promise"


def overlapping(fixes: Fixes, first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """A read of what an earlier instruction of the pipe has written by a different walk."""
    why = f"nothing on {then.unit} makes this read wait for {first.noun}, which walks the bytes differently"
    expected = f"the end of {first.instruction} before {then.instruction}"
    return _finding(
        "hazard", OVERLAPPING, profile.name, f"{then}; {why}", then.operand, fixes.fence(first, then), expected
    )


def alike(first: str, then: str, pairs: int, profile: Profile) -> Finding:
    """Dependent instructions of a pipe that need no barrier by the vendor's practice; the first two of them."""
    count = "1 pair of" if pairs == 1 else f"{pairs:,} pairs of"
    message = (
        f"{count} dependent {profile.overlapping} instructions without a barrier walk the same bytes alike, or only "
        f"write them: first {first}, then {then}; that these may overlap safely is {PRACTICE}"
    )
    fix = Fix(SyncCode(Barrier(profile.overlapping)), f" before {then}")
    return _finding("note", OVERLAPPING, profile.name, message, "", fix)


def _kinds(first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Iterator[str]:
    """The hazards of two accesses that nothing orders: those of the instructions, then that of the core."""
    for act, other, order in ((then, first, "second"), (first, then, "first")):
        yield from (conflict.kind for conflict in _conflicts(act) if _fits(conflict, act, other, order))
    core = profile.core_with(then.memory) if first.unit == LOAD else None
    if core is not None and core.load_hazard:
        yield core.load_hazard


def _fits(conflict: OrderHazard, act: ConflictAccess, other: ConflictAccess, order: str) -> bool:
    """Whether a conflict of `act`'s instruction describes the two accesses."""
    return (
        conflict.memory == act.memory
        and conflict.order in ("", order)
        and conflict.operand in ("", act.operand)
        and conflict.access in ("", act.how)
        and conflict.other in ("", other.how)
        and conflict.pipe == other.unit
    )


def unflagged_index(name: str, operand: str, kind: str, target: str, fixes: Fixes) -> Finding:
    """The load of an index without the flag that the documents require, although the kernel waits for the load."""
    message = f"{name}: {operand}: nothing makes {VECTOR} wait for its load; this kernel waits by itself, others do not"
    fix = fixes.pair(LOAD, VECTOR)
    return _finding("note", kind, target, message, operand, fix)


BLOCKS_FIX = {True: LATER, False: "let blocks write apart, or use one kind of atomic"}


def between_blocks(first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """Two blocks, or two vector cores of a block, that access the same bytes, at least one of them to write."""
    is_scratch = "scratch" in (_role(first), _role(then))
    reads, target = "read" in (first.how, then.how), profile.name
    stores = () if reads else (c.kind for act in (first, then) for c in _conflicts(act) if c.memory == then.memory)
    kind = "H-32" if is_scratch else next(iter(stores), None)
    rule = spec.behind(kind, target) if kind else "CO-SEM-02"
    message = f"block {then.block}: {then}; block {first.block}: {first}{first.line}; nothing orders blocks"
    fix = "give every block its own scratch, apart from what other blocks touch" if is_scratch else BLOCKS_FIX[reads]
    expected = "blocks that touch different elements"
    if core_of(then.pipe) != core_of(first.pipe) and then.block == first.block:
        message = f"{then.on_core}; {first.on_core}{first.line}; nothing orders the two vector cores of a block"
        fix = "give each vector core elements of its own, by its number in the block, or let only one do it"
        expected = "vector cores that touch different elements"
    return Finding("error", rule, message, kind, then.operand, expected, fix=fix, target=target)


def shared_line(first: ConflictAccess, then: ConflictAccess, start: int, profile: Profile) -> Finding:
    """Scalar stores of two blocks to different bytes of one cache line."""
    size, target = profile.store_line, profile.name
    message = (
        f"block {then.block}: {then}; block {first.block}: {first}{first.line}; both store to the {size} bytes from "
        f"{start:#x} of the array, one cache line, and each writes back all of it"
    )
    fix = f"pad what a block stores to a multiple of {size} bytes, or let one block own the line"
    return _finding("error", "H-16", target, message, then.operand, fix, f"blocks that store to different {size} bytes")


STALE: tuple[tuple[str, Level, str, str], ...] = (
    ("H-47", "error", "which DMA wrote before: the cache may hold the old data", Fix(BY_DMA, f", or {LATER}")),
    ("H-48", "hazard", "which was written through the cache: DMA may read the old data", LATER),
)


def is_cached(pipe: str) -> bool:
    """Whether a pipe accesses global memory through a cache."""
    return GM_ACCESS.get(unit_of(pipe)) != "bursts"


def _other_cache(writer: str, reader: str) -> str:
    """The core of the writer, if both accesses go through caches, and not through the same one."""
    both = is_cached(writer) and is_cached(reader)
    return core_of(writer) if both and core_of(writer) != core_of(reader) else ""


def may_be_stale(writer: str, reader: str) -> bool:
    """Whether a pipe may read old data, because another one wrote by another path."""
    return is_cached(writer) != is_cached(reader) or bool(_other_cache(writer, reader))


def stale(first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """A read of global memory by another path than the write before it in the same kernel, or through the cache of the
    other core."""
    kind, level, why, fix = STALE[GM_ACCESS[then.unit] == "bursts"]
    if cache := _other_cache(first.pipe, then.pipe):
        why, fix = f"which was written through the cache of {cache}: that of this core may hold the old data", LATER
    fix = LATER if _role(then) == "index" else fix
    message = f"{then}, {why}: {first}{first.line}"
    return _finding(level, kind, profile.name, message, then.operand, fix)


def overwritten(part: ConflictAccess, tile: str, by: str, address: int, target: str) -> Finding:
    """A read of a tile after a write through another tile, or through itself at another address."""
    message = (
        f"{part.instruction} reads {part.operand} from {tile}, parts of which {by} at {address:#x} has overwritten"
    )
    expected = f"{tile} apart from {by}"
    finding = _finding("error", "H-38", target, message, part.operand, "move one of the tiles", expected)
    return replace(finding, tiles=frozenset((tile, by)), ends=(part,))


def other_halves(part: ConflictAccess, read: TileSpec, target: str) -> Finding:
    """A read of halves of an accumulator that was divided the other way."""
    message = (
        f"{part.instruction} reads {shown(part.name, part.operand)} as {read.rows} x {read.cols}, but the accumulator "
        "was divided the other way: rows are taken for columns"
    )
    fix = "divide rows at both ends, or columns"
    finding = Finding("hazard", "TV-02", message, None, part.operand, "halves of one kind", fix=fix, target=target)
    return replace(finding, ends=(part,))


def unwritten(part: ConflictAccess, count: int, total: int, reason: str, target: str, *, is_index: bool) -> Finding:
    """A read of bytes that nothing has written, or that are undefined for another `reason`."""
    kind = "H-42" if is_index else "H-36"
    some = f"{count} of {total} bytes"
    what = f"{some} hold no data: {reason}" if reason else f"nothing has written {some}"
    message = f"{part.instruction} reads {shown(part.name, part.operand)}, of which {what}"
    fix = Fix("load or compute all of it first, or shrink ", VALID)
    expected, found = "bytes that were written", f"{count} that were not"
    finding = _finding("error", kind, target, message, part.operand, fix, expected, found)
    return replace(finding, unwritten="index" if is_index else "memory", ends=(part,))


# --- two cores


def not_handed_over(fixes: Fixes, first: ConflictAccess, then: ConflictAccess, profile: Profile) -> Finding:
    """Two accesses on different cores that nothing orders."""
    cores = kind_of(core_of(first.pipe)), kind_of(core_of(then.pipe))
    message = f"{then.on_core}; nothing orders this {then.how} after {first.noun_on_core}"
    fix = fixes.hand_over(first, then)
    return Finding(
        "error", "KN-16", message, None, then.operand, expected_hand_over(cores), fix=fix, target=profile.name
    )


def _waits(found: Stuck) -> list[Flag | CrossFlag]:
    """The waits for the other core among those that wait for one another."""
    return [stmt for stmt, _ in _waiting(found)]


def _waiting(found: Stuck) -> Iterator[tuple[Flag | CrossFlag, Stuck]]:
    for each in (found, *found.others):
        stmt = each.what[0] if isinstance(each.what, tuple) else None
        if isinstance(stmt, Flag | CrossFlag) and is_crossing(stmt):
            yield stmt, each


def is_between(found: Stuck) -> bool:
    """Whether a wait that never ends is one for the other core, or waits for one that is."""
    between = _waits(found)
    is_first = isinstance(found.what, tuple) and bool(between) and between[0] is found.what[0]
    return bool(between) and (is_first or bool(found.others))


def endless_wait(found: Stuck, vector_cores: int) -> tuple[list[Finding], Stmt]:
    """A wait for the other core that never ends, at the first of those that wait for one another."""
    waits = first_in_source(_waits(found))
    if vector_cores < 2:
        return [endless_finding(waits[0], waits[1:])], waits[0]
    named = [named_wait(stmt, core_of(each.pipe), cast("Any", each.flag)) for stmt, each in _waiting(found)]
    first, *others = first_in_source(named)
    return [endless_finding(first, others, vector_cores)], waits[0]


def unpaired(what: CrossFlag, before: CrossFlag) -> Finding:
    """A flag whose sets, or whose waits, are on two pipes that nothing orders."""
    verb, other = "set" if what.action == "set" else "waited for", at_line(sync_name(before), before.where)
    message = f"flag {what.event} is {verb} by {sync_name(what)} and by {other} in no order"
    why = "which set ends which wait is open"
    return Finding("error", "KN-13", f"{message}: {why}", None, "flag", fix="use another id for one of them")


def overflow(what: CrossFlag, certain: bool) -> Finding:
    """A flag that counts further than it can."""
    may = "is" if certain else "may be"
    message = f"flag {what.event} of {what.core} {may} set more than {CROSS_MOST} times ahead of its waits"
    fix = "let the other core set a flag when it has waited, and wait for that one"
    return Finding("error" if certain else "hazard", "KN-13", message, None, "flag", fix=fix)


# --- launch and addresses


def dispatch(site: Site) -> Iterator[Finding]:
    """A kernel that starts threads is not launched through a function pointer, which does not set them up (H-23)."""
    call, shape = site.call, simt_launch(site.call)
    if shape is not None:
        started = f"{call.instruction.name} on {call.target} starts {shape.threads} threads"
        message = f"{started}, and the kernel was dispatched through a function pointer: it hangs"
        fix = Fix("launch the standard way", Wording(' (launch="standard")', "", ""))
        yield _finding("error", "H-23", call.target, message, "launch", fix)


BURST = "CO-ALIGN-01"
"""The clause of transfers between global memory and tiles."""


def burst(
    name: str, operand: str, pipe: str, place: MemoryLocation, extent: Extent, profile: Profile
) -> Iterator[Finding]:
    """Every burst to or from a tile begins at a multiple of the alignment (H-01)."""
    alignment = profile.burst
    if not alignment or not extent.count:
        return
    start, pitch = place.start * place.shadow.unit, extent.pitch * place.shadow.unit
    if start % alignment or (extent.rows > 1 and pitch % alignment):
        bad = start if start % alignment else start + pitch
        is_dropped = pipe == LOAD and profile.drops_unaligned_loads
        effect = "it is dropped" if is_dropped else f"{pipe} moves whole blocks of {alignment} bytes"
        moved = f"a burst {'to' if pipe == LOAD else 'from'} {operand}"
        message = f"{name}: {moved} begins at {bad:#x}, which is no multiple of {alignment}: {effect}"
        fix = f"put rows of {operand} at multiples of {alignment} bytes"
        expected = f"a multiple of {alignment}"
        found = _finding("error", "H-01", profile.name, message, operand, fix, expected, hex(bad))
        yield found if is_dropped else replace(found, rule=BURST)


def scratch(site: Site, storages: Sequence[Storage]) -> Iterator[Finding]:
    """A scratch in global memory shares none with the table or the index (H-32)."""
    mine = site.call.instruction.roles.get("scratch", "")
    if mine not in site.prepared.names:
        return
    by_name = dict(zip(site.prepared.names, storages, strict=False))
    own = by_name.pop(mine)
    for name, other in by_name.items():
        if name not in site.tiles and own.overlaps(other):
            message = f"{site.call.instruction.name}: {mine} shares memory with {name}"
            fix, expected = "give the scratch memory of its own", f"memory apart from {name}"
            yield _finding("error", "H-32", site.call.target, message, mine, fix, expected)
