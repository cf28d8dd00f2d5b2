"""What the verifier says of programs for two cores: data that nothing hands over, and flags between the cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ptokit.finding import Finding, Fix, Level, at_line
from ptokit.isa.opaque import PUSHES
from ptokit.program.cores import (
    CORES,
    StatementCores,
    core_of,
    cross_name,
    ends_of,
    in_block,
    is_crossing,
    is_refused,
    owners,
    unit_of,
)
from ptokit.program.expr import Bounds, apply, interval, subtract
from ptokit.program.instr_calls import access_of, call_of, effects, named_operands
from ptokit.program.ir import Barrier, CrossFlag, Flag, Instr, Program, TileUse, View, walk
from ptokit.program.memory import Path, statements
from ptokit.program.repair import SyncCode
from ptokit.program.streams import Streams, Wait, crosses, meetings
from ptokit.program.unroll import unroll
from ptokit.program.verify_call import Options
from ptokit.target import SCALAR, Profile
from ptokit.target.profile import CROSS_IDS, CROSS_USER_IDS, CUBE_CORE

Direction = tuple[str, str]
"""The core that hands over, and the other."""


def check_cores(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """What one core writes and the other reads is handed over; a kernel for both cores hands something over."""
    if not profile.cores:
        return
    level = "hazard" if options.header else "error"
    by_core, moves = _first_tiles(program, profile)
    if len(by_core) < 2 or any(instr.name in PUSHES for instr in program.instructions):
        return
    if program.mode == "auto":
        is_handed, found = moves or _meet(program, profile), list[Finding]()  # auto mode hands over itself
    else:
        handed = _handed(program, _endless(program, profile, grid))
        found = _missing(program, profile, level, handed)
        is_handed = bool(found or moves or handed)
    if is_handed:
        yield from found
        return
    (core, (tile, _)), (other, (against, instr)) = by_core.items()
    message = f"{program.name} on {profile.name}: {against} belongs to {other}, {tile} to {core}"
    fix = "split the kernel in two, and pass data through memory"
    yield Finding(
        level, "KN-16", message, None, against, "tiles of one core", fix=fix, where=instr.where, target=profile.name
    )


def are_cores_joined(program: Program, profile: Profile) -> bool:
    """Whether all tiles are of one core, or an instruction has tiles of both: `check_cores` finds nothing in auto mode,
    wherever blocks of arguments lie."""
    if not profile.cores:
        return True
    by_core, moves = _first_tiles(program, profile)
    return moves or len(by_core) < 2


def _first_tiles(program: Program, profile: Profile) -> tuple[dict[str, tuple[str, Instr]], bool]:
    """For each core, its first tile; and whether an instruction has tiles of both."""
    first: dict[str, tuple[str, Instr]] = {}
    moves = False
    for instr in program.instructions:
        here = {profile.core_of([program.tiles[use.tile].spec.loc]).name: use.tile for use in instr.tiles}
        moves |= len(here) > 1
        first |= {core: (tile, instr) for core, tile in here.items() if core not in first}
    return first, moves


def _handed(program: Program, endless: list[Wait]) -> set[Direction]:
    """The directions in which something is both set and waited for, or waited for in vain, which is reported."""
    ends: dict[str, set[Direction]] = {"set": set(), "wait": set()}
    for stmt in walk(program.body):
        if isinstance(stmt, Flag | CrossFlag) and is_crossing(stmt):
            ends[stmt.action].add(ends_of(stmt))
    return (ends["set"] & ends["wait"]) | set(map(ends_of, endless))


def _endless(program: Program, profile: Profile, grid: int | None) -> list[Wait]:
    """A wait for the other core that certainly never ends, or several that wait for one another, in the order of the
    source; empty if there is none."""
    waits = meetings(Streams(program, profile), grid, {}).stuck if crosses(program) else []
    return first_in_source(waits)


class _Flow(NamedTuple):
    """What one core writes and the other reads."""

    writer: Instr
    written: str
    """The operand."""
    reader: Instr
    read: str
    direction: Direction


def _missing(program: Program, profile: Profile, level: Level, handed: set[Direction]) -> list[Finding]:
    """The first read of each core of what only the other one has written, if nothing is handed over that way."""
    found: dict[Direction, Finding] = {}
    for flow in _flows(program, profile):
        if flow.direction not in handed and flow.direction not in found:
            found[flow.direction] = _not_handed(flow, program, profile, level)
    return list(found.values())


def _flows(program: Program, profile: Profile) -> Iterator[_Flow]:
    """Reads of what the other core certainly has written, and nothing else since."""
    cores = StatementCores(program, [profile])
    writes: dict[str, list[tuple[Path, Instr, str, TileUse | View]]] = defaultdict(list)
    for path, instr in statements(program.body):
        if not isinstance(instr, Instr):
            continue
        access = access_of(instr)
        given = {name: each for name, each in named_operands(instr).items() if isinstance(each, TileUse | View)}
        for name, operand in given.items():
            if access[name] == "write":
                continue
            earlier = (each for each in reversed(writes[_memory(operand)]) if not _are_exclusive(each[0], path))
            found = next((each for each in earlier if not _are_apart(each[3], operand)), None)
            if found and cores.of(found[1]).isdisjoint(cores.of(instr)) and _overlap(found[3], operand):
                (src,), (dst,) = cores.of(found[1]), cores.of(instr)
                yield _Flow(found[1], found[2], instr, name, (src, dst))
        for name, operand in given.items():
            if access[name] != "read":
                writes[_memory(operand)].append((path, instr, name, operand))


def _meet(program: Program, profile: Profile) -> bool:
    """Whether one core may touch what the other one touches, and one of them writes."""
    own: dict[str, int] = defaultdict(int)
    for number, step in enumerate(unroll(program, profile).steps):
        core = core_of(step.pipe)
        if step.conflicts & ~own[core]:
            return True
        own[core] |= 1 << number
    return False


def _not_handed(flow: _Flow, program: Program, profile: Profile, level: Level) -> Finding:
    src = _pipe(program, flow.writer, flow.written, flow.direction[0], profile)
    dst = _pipe(program, flow.reader, flow.read, flow.direction[1], profile)
    write = at_line(f"{flow.writer.name}'s write of {flow.written} on {src}", flow.writer.where)
    message = f"{flow.reader.name} reads {flow.read} on {dst}; nothing orders this read after {write}"
    event = next(iter(free_cross_ids(program, flow.direction[0])), 0)
    give = CrossFlag("set", flow.direction[0], unit_of(src), event)
    take = CrossFlag("wait", flow.direction[1], unit_of(dst), event)
    places = [f"line {instr.where.line}" if instr.where else instr.name for instr in (flow.writer, flow.reader)]
    fix = Fix(SyncCode(give), f" after {places[0]}, ", SyncCode(take), f" before {places[1]}")
    return Finding(
        level, "KN-16", message, None, flow.read, expected_hand_over(flow.direction), fix=fix, where=flow.reader.where,
        target=profile.name,
    )  # fmt: skip


def _are_exclusive(one: Path, other: Path) -> bool:
    """Whether two statements stand in different arms of a branch."""
    first = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return first % 2 == 1


def _memory(operand: TileUse | View) -> str:
    return f"tile {operand.tile}" if isinstance(operand, TileUse) else operand.argument


def _gaps(one: TileUse | View, other: TileUse | View) -> Iterator[Bounds]:
    """Of two blocks of one argument, how far each begins behind the end of the other, in every dim."""
    assert isinstance(one, View) and isinstance(other, View)
    for start, size, then, length in zip(one.starts, one.sizes, other.starts, other.sizes, strict=True):
        yield interval(subtract(then, apply("add", start, size)), {})
        yield interval(subtract(start, apply("add", then, length)), {})


def _are_apart(one: TileUse | View, other: TileUse | View) -> bool:
    """Whether two operands in one memory certainly share nothing. Two parts of a tile may."""
    return isinstance(one, View) and any(low >= 0 for low, _ in _gaps(one, other))


def _overlap(one: TileUse | View, other: TileUse | View) -> bool:
    """Whether they certainly do."""
    return isinstance(one, TileUse) or all(high < 0 for _, high in _gaps(one, other))


def expected_hand_over(cores: Direction) -> str:
    """What a finding on data that is not handed over expects."""
    return f"a hand-over from {cores[0]} to {cores[1]}"


def free_cross_ids(program: Program, core: str) -> list[int]:
    """The flags of a core that the program does not set."""
    ids = [stmt.event for stmt in walk(program.body) if isinstance(stmt, CrossFlag) and ends_of(stmt)[0] == core]
    return [event for event in range(CROSS_USER_IDS) if event not in ids]


def _pipe(program: Program, instr: Instr, operand: str, core: str, profile: Profile) -> str:
    """The pipe of a core that accesses an operand, with its core."""
    touched = effects(call_of(program, instr, profile))
    return f"{core}.{next((effect.pipe for effect in touched if effect.operand == operand), SCALAR)}"


def check_sync(program: Program, profile: Profile, _options: Options, grid: int | None) -> Iterable[Finding]:
    """Flags between the cores: their ids and pipes, waits that never end, and flags that are not made for it."""
    if endless := _endless(program, profile, grid):
        first, *others = endless
        yield endless_finding(first, others, program.vector_cores).at(first.where)
    if not profile.cores:
        return
    own = _own_ids(program, profile)
    yield from _refused_barriers([each for each in walk(program.body) if isinstance(each, Barrier)], profile)
    for stmt in walk(program.body):
        if isinstance(stmt, Flag | CrossFlag | Barrier):
            yield from (finding.at(stmt.where) for finding in _foreign_pipes(stmt))
        if isinstance(stmt, CrossFlag):
            yield from (finding.at(stmt.where) for finding in _sync_findings(stmt, own, profile))
        elif isinstance(stmt, Flag) and stmt.action == "set" and is_crossing(stmt):
            src, dst = ends_of(stmt)
            message = f"{stmt.src} is a pipe of {src}, {stmt.dst} of {dst}: hardware has no flag between them"
            ends = CrossFlag("set", src, stmt.src, 0), CrossFlag("wait", dst, stmt.dst, 0)
            fix = Fix(SyncCode(ends[0], "id"), ", ", SyncCode(ends[1], "id"))
            yield Finding("note", "KN-16", message, None, "flag", fix=fix, where=stmt.where, target=profile.name)


def _refused_barriers(barriers: Iterable[Barrier], profile: Profile) -> Iterator[Finding]:
    """Barriers on a pipe that orders itself: one note, at the first of them."""
    refused = [each for each in barriers if is_refused(each, profile)]
    if refused:
        first, places = refused[0], {each.where for each in refused}
        more = f", {len(places)} times in all" if len(places) > 1 else ""
        message = f"{first.pipe} orders itself on {profile.name}, whose compiler refuses a barrier on it{more}"
        fix = Fix("leave ", SyncCode(first), f" out; C++ for {profile.name} has none")
        yield Finding("note", "A-73", message, None, "barrier", fix=fix, where=first.where, target=profile.name)


def _foreign_pipes(stmt: Flag | CrossFlag | Barrier) -> Iterator[Finding]:
    """The pipes that the core that a statement states does not have."""
    pipes = [stmt.src, stmt.dst] if isinstance(stmt, Flag) else [stmt.pipe]
    everything = ("ALL",) if isinstance(stmt, Barrier) else ()
    for core in (core for core in CORES if core.name == stmt.core):
        for pipe in (pipe for pipe in pipes if pipe not in (*core.pipes, *everything)):
            message, fix = f"{core.name} has no pipe {pipe}", f"a pipe of {core.name}: {', '.join(core.pipes)}"
            yield Finding("error", "KN-13", message, None, "flag", fix=fix, blocks=True)


def first_in_source(waits: Iterable[Wait]) -> list[Wait]:
    """Waits that wait for one another in the order of their lines: the first of them is reported."""
    return sorted(waits, key=lambda stmt: stmt.where.line if stmt.where else 0)


def endless_finding(wait: Wait, others: Iterable[Wait], vector_cores: int = 1) -> Finding:
    """A wait for the other core that never ends; `others` are waits that it waits for, and that wait for it. All are
    `named_wait`s if both vector cores run the program."""
    setter, name = ends_of(wait)[0], f"flag {wait.event} of {ends_of(wait)[0]}"
    if isinstance(wait, Flag):
        name = f"the flag {wait.src}→{wait.dst} {wait.event}"
    elif isinstance(wait.event, int) and vector_cores > 1:
        name = f"flag {cross_name((setter, wait.event), vector_cores)}"
        setter = in_block(setter, vector_cores)[wait.event // CROSS_IDS] if setter != CUBE_CORE.name else setter
    message = f"{sync_name(wait)} waits forever for {name}"
    fix = f"set the flag on {setter}, on every path to the wait"
    lines = [at_line(sync_name(other), other.where) for other in others]
    if lines:
        message += f", which is set only after {' and '.join(lines)}, which waits for this one"
        fix = "let one of the cores set its flag before it waits"
    return Finding("error", "KN-13", message, None, "flag", fix=fix)


def sync_name(flag: Flag | CrossFlag) -> str:
    """The end of a flag between the cores: `AIV.V`."""
    if isinstance(flag, CrossFlag):
        return f"{flag.core}.{flag.pipe}"
    pipe = flag.src if flag.action == "set" else flag.dst
    return f"{owners(pipe)[0]}.{pipe}"


def _own_ids(program: Program, profile: Profile) -> dict[int, str]:
    """The ids of flags between cores that instructions use themselves."""
    found: dict[int, str] = {}
    for instr in program.instructions:
        found |= dict.fromkeys(call_of(program, instr, profile).route_kernel.handshake.cross_ids, instr.name)
    return found


def _sync_findings(flag: CrossFlag, own: dict[int, str], profile: Profile) -> Iterator[Finding]:
    low, high = interval(flag.event, {})
    if low >= CROSS_IDS:  # of the second vector core
        low, high = low - CROSS_IDS, high - CROSS_IDS
    taken = next((event for event in own if low <= event <= high), None)
    if taken is not None:
        message = f"{own[taken]} uses flag {taken} between the cores itself"
        yield Finding("error", "KN-13", message, None, "flag", fix="choose another id")
    if low >= CROSS_USER_IDS:
        message = f"the headers use the flags from {CROSS_USER_IDS} on themselves; found {flag.event}"
        yield Finding("hazard", "KN-13", message, None, "flag", fix=f"ids 0 to {CROSS_USER_IDS - 1}")
    if flag.pipe in profile.no_cross:
        message = f"{flag.pipe} neither sets flags for the other core nor waits for them"
        yield Finding("error", "KN-13", message, None, "flag", fix=f"a pipe of {flag.core} that moves data")
