"""Where the tiles of a program lie: that they fit, and that none lies over another that is in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ptokit.finding import Finding, Level, Where
from ptokit.isa.policy import TileType
from ptokit.program.bounds import reaches
from ptokit.program.ir import Assign, Block, Branch, Instr, Loop, Program, TileDecl
from ptokit.program.place import lifetimes, place
from ptokit.program.verify_call import Options, memory_findings, show_addresses, verify_address
from ptokit.target import Profile


@dataclass(frozen=True, eq=False)
class Stay:
    """A tile at an address, which may change from turn to turn, and who put it there."""

    tile: TileDecl
    starts: np.ndarray[Any, np.dtype[np.int64]]
    times: object
    """Two stays of the same times have their addresses turn by turn."""
    where: Where | None

    @property
    def spans(self) -> list[range]:
        """The bytes that the tile takes, at every address."""
        return [range(start, start + self.tile.spec.nbytes) for start in sorted(set(self.starts.tolist()))]


def stays(program: Program, grid: int | None) -> list[Stay]:
    """The addresses that were given and are known beforehand."""
    found: list[Stay] = []
    for stmt, reach in reaches(program, grid):
        if isinstance(stmt, TileDecl | Assign):
            tile = stmt if isinstance(stmt, TileDecl) else program.tiles[stmt.tile]
            for address in stmt.addresses if isinstance(stmt, TileDecl) else (stmt.address,):
                values = np.array([address]) if isinstance(address, int) else reach.value(address)
                if values is not None:
                    found.append(Stay(tile, values, reach.values, stmt.where))
    return found


def footprint(
    program: Program, profile: Profile, dyn_ub: int | None = None, grid: int | None = None
) -> dict[TileType, int]:
    """Bytes that the program uses of each memory: where its highest tile ends."""
    used = dict(place(program, profile, dyn_ub).used)
    for stay in stays(program, grid):
        loc = stay.tile.spec.loc
        used[loc] = max([used.get(loc, 0), *(span.stop for span in stay.spans)])
    return {loc: used[loc] for loc in TileType if used.get(loc)}


def check_memory(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """The tiles fit their memories together. A launch that asks for no dynamic UB gets none."""
    launch = replace(options, dyn_ub=options.dyn_ub or 0)
    for loc, used in footprint(program, profile, options.dyn_ub, grid).items():
        tiles = sorted((tile for tile in program.tiles.values() if tile.spec.loc is loc), key=_size)
        largest = ", ".join(f"{tile.name} ({_size(tile):,} bytes)" for tile in tiles[::-1][:3])
        for finding in memory_findings(f"{program.name} on {profile.name}", {loc: used}, profile, launch):
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
    for use in instr.tiles:
        if use.tile not in placed:
            said = f"{instr.name}: {use.tile} has no address yet, and in manual mode nothing gives it one"
            fix = f"make it with addr=, or call pto.tassign({use.tile}, address) first"
            yield Finding("error", "KN-09", said, None, use.tile, fix=fix, where=instr.where)


def check_overlaps(program: Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """In manual mode tiles share no bytes while both are in use; addresses that only the run tells are left to it."""
    if program.mode != "manual":
        return
    lives = lifetimes(program, tight=True)
    for first, second in combinations(stays(program, grid), 2):
        name, other = first.tile.name, second.tile.name
        apart = first.tile.spec.loc is not second.tile.spec.loc or not lives[name].meets(lives[other])
        pair = None if name == other or apart else _meeting(first, second)
        if pair:
            found = f"{show_addresses(pair[1])}, over {name} at {show_addresses(pair[0])}"
            said = f"{program.name}: {other} must be apart from {name} while both are in use; found {found}"
            wanted, fix = f"apart from {name}", "move one of the tiles"
            yield Finding(_level(options), "A-38", said, "H-38", other, wanted, found, fix, second.where)


def _meeting(first: Stay, second: Stay) -> tuple[range, range] | None:
    """Bytes of the two that meet: in the same turn, where they take turns together, else in any."""
    a, b = first.starts, second.starts
    if first.times is not second.times or a.size != b.size:
        a, b = np.unique(a)[:, None], np.unique(b)[None, :]
    a, b = np.broadcast_arrays(a, b)
    meet = np.flatnonzero((a < b + second.tile.spec.nbytes) & (b < a + first.tile.spec.nbytes))
    if not meet.size:
        return None
    starts = int(a.flat[meet[0]]), int(b.flat[meet[0]])
    return range(starts[0], starts[0] + first.tile.spec.nbytes), range(starts[1], starts[1] + second.tile.spec.nbytes)
