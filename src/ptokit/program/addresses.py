"""Where the tiles of a program lie: that they fit, and that none lies over another that is in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations

from ptokit.finding import Finding, Level
from ptokit.isa.policy import TileType
from ptokit.program.budget import Use, has_simt, memory_findings, static_bytes
from ptokit.program.ir import Assign, Block, Branch, Instr, Leaf, Loop, Program, TileDecl, fold
from ptokit.program.overlaps import Conflict, conflicts, is_one_buffer, meeting, stays
from ptokit.program.place import lifetimes, place
from ptokit.program.verify_call import Options, show_addresses, verify_address
from ptokit.target import Profile


def footprint(
    program: Program, profile: Profile, dyn_ub: int | None = None, grid: int | None = None, *, bound: bool = False
) -> dict[TileType, Use]:
    """What the program takes of each memory that it uses; nothing of it is static where every tile is `bound`."""
    placement = place(program, profile, dyn_ub, bound=bound)
    ends = dict(placement.used)
    for stay in stays(program, grid):
        loc = stay.tile.spec.loc
        ends[loc] = max([ends.get(loc, 0), *(span.stop for span in stay.spans)])
    static = {loc: 0 if bound else static_bytes(placement.program, loc) for loc in ends}
    return {loc: Use(ends[loc], static[loc]) for loc in TileType if ends.get(loc)}


def check_memory(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """The tiles fit their memories together. A launch that asks for no dynamic UB gets none."""
    subject, simt = f"{program.name} on {profile.name}", has_simt(program, profile)
    for loc, use in footprint(program, profile, options.dyn_ub, grid, bound=options.bound).items():
        tiles = sorted((tile for tile in program.tiles.values() if tile.spec.loc is loc), key=_size)
        largest = ", ".join(f"{tile.name} ({_size(tile):,} bytes)" for tile in tiles[::-1][:3])
        for finding in memory_findings(subject, {loc: use}, profile, options.dyn_ub or 0, simt=simt):
            message = f"{finding.message}; the largest are {largest}"
            yield replace(finding, level=_level(options), message=message, where=tiles[-1].where)


def _size(tile: TileDecl) -> int:
    """Bytes of all copies."""
    return tile.spec.nbytes * tile.buffers


def _level(options: Options) -> Level:
    """How bad it is where tiles lie: no header looks at it."""
    return "hazard" if options.header else "error"


def check_addresses(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """A tile lies at an address that it can have, and in manual mode it has one before it is used."""
    for stay in stays(program, grid):
        for span in stay.spans:
            for finding in verify_address(replace(stay.tile.spec, addr=span.start), profile.name):
                yield finding.at(stay.where)
    if program.mode == "manual":
        yield from _used_without_address(program.body)


def _used_without_address(block: Block) -> list[Finding]:
    """Tiles that are used before they have an address. The state is the set of tiles that have one."""
    found: list[Finding] = []

    def leaf(stmt: Leaf, placed: set[str]) -> set[str]:
        if isinstance(stmt, TileDecl) and stmt.addresses:
            return placed | {stmt.name}
        if isinstance(stmt, Assign):
            return placed | {stmt.tile}
        if isinstance(stmt, Instr):
            found.extend(_without_address(stmt, placed))
        return placed

    def loop(stmt: Loop, placed: set[str]) -> set[str]:
        visit(stmt.body, placed)
        return placed  # the body may not run

    def branch(stmt: Branch, placed: set[str]) -> set[str]:
        return visit(stmt.then, placed) & visit(stmt.otherwise, placed)

    visit = partial(fold, leaf=leaf, loop=loop, branch=branch)
    visit(block, set())
    return found


def _without_address(instr: Instr, placed: set[str]) -> Iterator[Finding]:
    for use in instr.tiles:
        if use.tile not in placed:
            said = f"{instr.name}: {use.tile} has no address yet, and in manual mode nothing gives it one"
            fix = f"make it with addr=, or call pto.tassign({use.tile}, address) first"
            yield Finding("error", "KN-09", said, None, use.tile, fix=fix, where=instr.where, blocks=True)


def check_overlaps(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """No tile is read whose bytes another one was written over; addresses that only the run tells are left to it."""
    found = conflicts(program, profile.name, grid)
    for conflict in found:
        yield _overlap(program, conflict, options)
    lives, known = lifetimes(program, tight=True), {frozenset((c.first.tile.name, c.second.tile.name)) for c in found}
    for first, second in combinations(stays(program, grid), 2):
        names = first.tile.name, second.tile.name
        is_new = names[0] != names[1] and frozenset(names) not in known and not is_one_buffer(first, second)
        if is_new and lives[names[0]].meets(lives[names[1]]) and meeting(first, second):
            yield _overlap(program, Conflict(first, second, "nothing that is read is destroyed", False), options)


def _overlap(program: Program, conflict: Conflict, options: Options) -> Finding:
    first, second = conflict.first, conflict.second
    name, other, pair = first.tile.name, second.tile.name, meeting(first, second)
    assert pair is not None
    found = f"{show_addresses(pair[1])}, over {name} at {show_addresses(pair[0])}"
    level, said = "note", f"{other} shares bytes with {name}: {found}; {conflict.how}"
    if conflict.is_fault:
        level = _level(options)
        said = f"{other} must be apart from {name} while both are in use; found {found}: {conflict.how}"
    wanted, fix = f"apart from {name}", "move one of the tiles"
    return Finding(level, "A-38", f"{program.name}: {said}", "H-38", other, wanted, found, fix, second.where)
