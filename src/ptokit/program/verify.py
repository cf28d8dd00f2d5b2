"""Verifies a whole program for a target: every instruction's rules, then what only the whole can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

from ptokit.finding import Finding, Level, Where
from ptokit.isa.policy import TileType
from ptokit.program.bounds import check_bounds, reaches
from ptokit.program.calls import call_of, effects
from ptokit.program.ir import Assign, Block, Branch, Instr, LoadScalar, Loop, Program, TileDecl, TileUse, walk
from ptokit.program.place import lifetimes, place
from ptokit.program.verify_call import Options, judged, memory_findings, show_addresses, verify_address, verify_call
from ptokit.target import Profile

CORES = {TileType.Vec: "AIV"}
"""The core that has a memory; all others belong to the cube core."""


def verify(
    program: Program, profile: Profile, options: Options | None = None, grid: int | None = None
) -> list[Finding]:
    """All findings on a program that are certain before it runs, each at its line, in the order of the text.

    Without a grid nothing is said of slices that depend on the block. Instructions that no block reaches are not
    judged.
    """
    options = options or Options()
    findings = [*_instructions(program, profile, options, grid), *check_bounds(program, grid)]
    if grid != 0:
        for check in CHECKS:
            findings += check(program, profile, options)
    unique = dict.fromkeys(judged(findings, options))
    return sorted(unique, key=lambda finding: finding.where.line if finding.where else 0)


def _instructions(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterator[Finding]:
    for stmt, _ in reaches(program, grid):
        if isinstance(stmt, Instr):
            for finding in verify_call(call_of(program, stmt, profile), profile, options, alone=False):
                yield finding.at(stmt.where)


def footprint(program: Program, profile: Profile, dyn_ub: int | None = None) -> dict[TileType, int]:
    """Bytes that the program uses of each memory: where its highest tile ends."""
    used = place(program, profile, dyn_ub).used
    for name, spans in _spans(program).items():
        loc = program.tiles[name].spec.loc
        used[loc] = max([used.get(loc, 0), *(span.bytes.stop for span in spans)])
    return {loc: used[loc] for loc in TileType if used.get(loc)}


def check_memory(program: Program, profile: Profile, options: Options) -> Iterable[Finding]:
    """The tiles fit their memories together. A launch that asks for no dynamic UB gets none."""
    launch = replace(options, dyn_ub=options.dyn_ub or 0)
    for loc, used in footprint(program, profile, options.dyn_ub).items():
        last = [tile for tile in program.tiles.values() if tile.spec.loc is loc][-1]
        for finding in memory_findings(f"{program.name} on {profile.name}", {loc: used}, profile, launch):
            yield replace(finding, level=_level(options), where=last.where)


def _level(options: Options) -> Level:
    """How bad it is where tiles lie: no header looks at it."""
    return "hazard" if options.header else "error"


def check_addresses(program: Program, profile: Profile, options: Options) -> Iterable[Finding]:
    """A tile lies at an address that it can have, and in manual mode it has one before it is used."""
    for name, spans in _spans(program).items():
        tile = program.tiles[name]
        for span in spans:
            for finding in verify_address(replace(tile.spec, addr=span.bytes.start), profile.name):
                yield finding.at(span.where)
    if program.mode == "manual":
        yield from _homeless(program.body, set())


def _homeless(block: Block, placed: set[str]) -> Iterator[Finding]:
    """Tiles that are used before they have an address; `placed` grows on the way."""
    for stmt in block:
        if isinstance(stmt, TileDecl) and stmt.addresses:
            placed.add(stmt.name)
        elif isinstance(stmt, Assign):
            placed.add(stmt.tile)
        elif isinstance(stmt, Loop):
            yield from _homeless(stmt.body, set(placed))
        elif isinstance(stmt, Branch):
            then, otherwise = set(placed), set(placed)
            yield from _homeless(stmt.then, then)
            yield from _homeless(stmt.otherwise, otherwise)
            placed |= then & otherwise
        elif isinstance(stmt, Instr):
            yield from _without_address(stmt, placed)


def _without_address(instr: Instr, placed: set[str]) -> Iterator[Finding]:
    for operand in instr.operands:
        if isinstance(operand, TileUse) and operand.tile not in placed:
            said = f"{instr.name}: {operand.tile} has no address yet, and in manual mode nothing gives it one"
            fix = f"make it with addr=, or call pto.tassign({operand.tile}, address) first"
            yield Finding("error", "KN-09", said, None, operand.tile, fix=fix, where=instr.where)


def check_overlaps(program: Program, profile: Profile, options: Options) -> Iterable[Finding]:
    """In manual mode tiles share no bytes while both are in use; addresses that only the run tells are left to it."""
    if program.mode != "manual":
        return
    lives, spans = lifetimes(program, tight=True), _spans(program)
    for name, other in combinations(spans, 2):
        if program.tiles[name].spec.loc is not program.tiles[other].spec.loc or not lives[name].meets(lives[other]):
            continue
        for first, second in product(spans[name], spans[other]):
            if first.bytes.start < second.bytes.stop and second.bytes.start < first.bytes.stop:
                found = f"{show_addresses(second.bytes)}, over {name} at {show_addresses(first.bytes)}"
                said = f"{program.name}: {other} must be apart from {name} while both are in use; found {found}"
                wanted, fix = f"apart from {name}", "move one of the tiles"
                yield Finding(_level(options), "A-38", said, "H-38", other, wanted, found, fix, second.where)
                break


@dataclass(frozen=True)
class Span:
    """Bytes that a tile takes, and who put it there."""

    bytes: range
    where: Where | None


def _spans(program: Program) -> dict[str, list[Span]]:
    """The bytes that each tile takes, at every address that is known beforehand."""
    found: dict[str, list[Span]] = {name: [] for name in program.tiles}
    for stmt, reach in reaches(program, None):
        if isinstance(stmt, TileDecl | Assign):
            name = stmt.name if isinstance(stmt, TileDecl) else stmt.tile
            for address in stmt.addresses if isinstance(stmt, TileDecl) else (stmt.address,):
                values = reach.value(address)
                known = {address} if isinstance(address, int) else set() if values is None else set(values.tolist())
                nbytes = program.tiles[name].spec.nbytes
                found[name] += [Span(range(start, start + nbytes), stmt.where) for start in sorted(known)]
    return found


def check_cores(program: Program, profile: Profile, options: Options) -> Iterable[Finding]:
    """A kernel keeps to the tiles of one core: nothing hands data over between the two."""
    first: tuple[str, str] | None = None
    for stmt in walk(program.body):
        for operand in stmt.operands if isinstance(stmt, Instr) else ():
            if not isinstance(operand, TileUse) or profile.mixed_cores is None:
                continue
            core = CORES.get(program.tiles[operand.tile].spec.loc, "AIC")
            first = first or (operand.tile, core)
            if core != first[1]:
                said = f"{program.name} on {profile.name}: {operand.tile} belongs to {core}, {first[0]} to {first[1]}"
                fix = "split the kernel in two, and pass data through memory"
                level, wanted = profile.mixed_cores, "tiles of one core"
                yield Finding(level, "KN-16", said, None, operand.tile, wanted, fix=fix, where=stmt.where)
                return


Check = Callable[[Program, Profile, Options], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (check_memory, check_addresses, check_overlaps, check_cores)
"""What only the whole program can show."""


def pipes_used(program: Program, profile: Profile) -> tuple[str, ...]:
    """The pipes that the program's instructions work on, in the target's order."""
    used: set[str] = set()
    for stmt in walk(program.body):
        if isinstance(stmt, Instr):
            call = call_of(program, stmt, profile)
            used.update(effect.pipe for effect in effects(call))
        elif isinstance(stmt, LoadScalar):
            used.add("S")
    return tuple(pipe for pipe in profile.pipes if pipe in used)
