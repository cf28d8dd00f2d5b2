"""The addresses of tiles: whether tiles fit their memories, and whether tiles in use overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations

from ptokit.finding import Finding, Fix, Level, Where, Wording
from ptokit.isa.policy import TileType
from ptokit.program.budget import Use, has_simt, memory_findings, static_bytes
from ptokit.program.ir import CPP, Assign, Block, Branch, Instr, Leaf, Loop, Program, TileDecl, fold
from ptokit.program.overlaps import TileConflict, are_slots, conflicts, is_one_buffer, meeting, placed_tiles
from ptokit.program.place import live_ranges, place, unbound
from ptokit.program.verify_call import Options, show_addresses, verify_address
from ptokit.target import Profile

MOST_TILES = 3
"""Tiles that a message names."""


def footprint(
    program: Program, profile: Profile, dyn_ub: int | None = None, grid: int | None = None, *, bound: bool = False
) -> dict[TileType, Use]:
    """What the program takes of each memory that it uses. If every tile is `bound`, nothing of it is static."""
    placement = place(program, profile, dyn_ub, bound=bound)
    ends = dict(placement.used)
    for placed in placed_tiles(program, grid):
        loc = placed.tile.spec.loc
        ends[loc] = max([ends.get(loc, 0), *(span.stop for span in placed.spans)])
    static = {loc: 0 if bound else static_bytes(placement.program, loc) for loc in ends}
    return {loc: Use(ends[loc], static[loc]) for loc in TileType if ends.get(loc)}


def check_memory(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """All tiles together fit their memories. The default of a launch is no dynamic UB."""
    subject, simt = f"{program.name} on {profile.name}", has_simt(program, profile)
    for loc, use in footprint(program, profile, options.dyn_ub, grid, bound=options.bound).items():
        for finding in memory_findings(subject, {loc: use}, profile, options.dyn_ub or 0, simt=simt):
            by_address = program.form.startswith(CPP)
            tiles, where = _last_tiles(program, loc, grid) if by_address else _largest_tiles(program, loc)
            yield replace(finding, level=_level(options), message=f"{finding.message}; {tiles}", where=where)


def _largest_tiles(program: Program, loc: TileType) -> tuple[str, Where | None]:
    """The tiles that take most of a memory, and the place of the first."""
    tiles = sorted((tile for tile in program.tiles.values() if tile.spec.loc is loc), key=_size)[::-1]
    largest = ", ".join(f"{tile.name} ({_size(tile):,} bytes)" for tile in tiles[:MOST_TILES])
    return f"the largest are {largest}", tiles[0].where


def _last_tiles(program: Program, loc: TileType, grid: int | None) -> tuple[str, Where | None]:
    """The tiles with the highest addresses, which their author chose, and the place of the last."""
    placed = [(span, each) for each in placed_tiles(program, grid) if each.tile.spec.loc is loc for span in each.spans]
    if not placed:
        return _largest_tiles(program, loc)
    placed.sort(key=lambda each: (each[0].stop, each[0].start), reverse=True)
    names = dict[tuple[int, int], str]()
    for span, each in placed:
        at = f", line {each.where.line}" if each.where else ""
        names.setdefault((span.start, span.stop), f"{each.tile.name} ({span.start:#x}..{span.stop:#x}{at})")
    shown = [*names.values()]
    more = f" and {len(shown) - MOST_TILES} more" if len(shown) > MOST_TILES else ""
    return f"from the end down: {', '.join(shown[:MOST_TILES])}{more}", placed[0][1].where


def _size(tile: TileDecl) -> int:
    """Bytes of all copies."""
    return tile.spec.nbytes * tile.buffers


def _level(options: Options) -> Level:
    """The level of findings about addresses: headers do not check them."""
    return "hazard" if options.header else "error"


def check_addresses(program: Program, profile: Profile, _options: Options, grid: int | None) -> Iterable[Finding]:
    """Addresses are valid, and in manual mode a tile has one before it is used."""
    for placed in placed_tiles(program, grid):
        for span in placed.spans:
            for finding in verify_address(replace(placed.tile.spec, addr=span.start), profile.name):
                yield finding.at(placed.where)
    if program.mode == "manual":
        free = unbound(program)
        yield from _used_without_address(program.body, {tile.name for tile in free})
        for tile in free:
            message = f"{program.name}: {tile.name} has no address: it is placed beside the other tiles"
            yield Finding("note", "KN-09", message, None, tile.name, where=tile.where)


def _used_without_address(block: Block, free: set[str]) -> list[Finding]:
    """Tiles that are used before they have an address; `free` ones are placed. The state is the set of tiles that have
    one."""
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
    visit(block, free)
    return found


def _without_address(instr: Instr, placed: set[str]) -> Iterator[Finding]:
    for use in instr.tiles:
        if use.tile not in placed:
            message = f"{instr.name}: {use.tile} has no address yet"
            fix = Fix(
                Wording(
                    f"make it with addr=, or call pto.tassign({use.tile}, address) first",
                    f"give %{use.tile} an address: addr = ...",
                    f"TASSIGN({use.tile}, address) first",
                )
            )
            yield Finding("error", "KN-09", message, None, use.tile, fix=fix, where=instr.where, blocks=True)


def check_overlaps(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """No read of bytes that a write through another tile destroyed. Addresses known at run time are checked there."""
    found = conflicts(program, profile.name, grid)
    if program.form.startswith(CPP):  # the author's tiles may be any of these names
        found = [each for each in found if not are_slots(each.first, each.second)]
    for conflict in found:
        yield _overlap(program, conflict, options)
    ranges = live_ranges(program, tight=True)
    known = {frozenset((conflict.first.tile.name, conflict.second.tile.name)) for conflict in found}
    for first, second in combinations(placed_tiles(program, grid), 2):
        names = first.tile.name, second.tile.name
        is_new = names[0] != names[1] and frozenset(names) not in known and not is_one_buffer(first, second)
        if is_new and ranges[names[0]].meets(ranges[names[1]]) and meeting(first, second):
            yield _overlap(program, TileConflict(first, second, "no read loses its data", False), options)


def _overlap(program: Program, conflict: TileConflict, options: Options) -> Finding:
    first, second = conflict.first, conflict.second
    name, other, pair = first.tile.name, second.tile.name, meeting(first, second)
    assert pair is not None
    found = f"{show_addresses(pair[1])}, over {name} at {show_addresses(pair[0])}"
    level, message = "note", f"{other} shares bytes with {name}: {found}; {conflict.how}"
    if conflict.is_fault:
        level = _level(options)
        message = f"{other} must be apart from {name} while both are in use; found {found}: {conflict.how}"
    expected, fix = f"apart from {name}", "move one of the tiles"
    message, tiles = f"{program.name}: {message}", frozenset((name, other))
    return Finding(level, "A-38", message, "H-38", other, expected, found, fix, second.where, tiles=tiles)
