"""Addresses: in auto mode every tile gets one in its memory; findings on those that tiles have.

Tiles lie apart if the memory has space for all of them, because tiles at one address must wait for each other.
Otherwise tiles share addresses if their live ranges do not overlap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import inf

from ptokit.finding import Finding, Fix, Level, Where, Wording
from ptokit.isa.operand import BLOCK
from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.budget import Use, has_simt, memory_findings, static_bytes
from ptokit.program.instr_calls import access_of, all_operands
from ptokit.program.memory import Outline, Path, statements
from ptokit.program.overlaps import TileConflict, are_slots, are_views, conflicts, is_one_buffer, meeting, placed_tiles
from ptokit.program.verify_call import Options, show_addresses, verify_address
from ptokit.target import Profile

FRACTAL: dict[TileType, int] = dict.fromkeys((TileType.Mat, TileType.Left, TileType.Right, TileType.Acc), 512)
"""Alignment in the memories of the cube, which reads fractals of 512 bytes."""


@dataclass(frozen=True)
class Placement:
    """A program whose tiles all have addresses."""

    program: ir.Program
    used: dict[TileType, int]
    """Bytes of each memory in use: where its highest tile ends. They may exceed the memory."""


@dataclass(frozen=True)
class LiveRange:
    """From a tile's first use to its last, as statement numbers."""

    first: int
    last: int

    def meets(self, other: LiveRange) -> bool:
        """Whether the two overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class AddressRange:
    """Addresses in use during a live range."""

    start: int
    end: int
    live: LiveRange


def place(program: ir.Program, profile: Profile, dyn_ub: int | None = None, *, bound: bool = False) -> Placement:
    """Give an address to every copy of every tile that has none.

    `dyn_ub` is what the launch asks for, in bytes; it decides how much space there is before tiles share addresses.
    Tiles that will be `bound` to their addresses lie in the dynamic region; others lie beside it.
    """
    addresses: dict[str, tuple[int, ...]] = {}
    if tiles := unbound(program):
        ranges, simt = live_ranges(program), has_simt(program, profile)
        for loc in {tile.spec.loc for tile in tiles}:
            here = [tile for tile in tiles if tile.spec.loc is loc]
            addresses |= _place_all(program, here, ranges, _space(profile, loc, dyn_ub, simt, bound))
    placed = replace(program, body=_with_addresses(program.body, addresses))
    used: dict[TileType, int] = {}
    for tile, start in _given(placed):
        used[tile.spec.loc] = max(used.get(tile.spec.loc, 0), start + tile.spec.nbytes)
    return Placement(placed, used)


def _space(profile: Profile, loc: TileType, dyn_ub: int | None, simt: bool, bound: bool) -> float:
    """Bytes that tiles may use of a memory before they share addresses."""
    budget = profile.budget(dyn_ub=dyn_ub or 0, simt=simt) if loc is TileType.Vec else None
    if budget and dyn_ub and budget.max_dynamic and not bound:
        return max(0, budget.max_dynamic - dyn_ub)
    size = budget.available if budget else profile.memories[loc].size
    return inf if size is None else size


def unbound(program: ir.Program) -> list[ir.TileDecl]:
    """The tiles that the program gives no address; none beside an address that is known at run time only."""
    moved = {stmt.tile: stmt.address for _, stmt in statements(program.body) if isinstance(stmt, ir.Assign)}
    given = (*moved.values(), *(address for tile in program.tiles.values() for address in tile.addresses))
    free = [tile for tile in program.tiles.values() if not tile.addresses and tile.name not in moved]
    return free if all(isinstance(address, int) for address in given) else []


def _place_all(
    program: ir.Program, tiles: list[ir.TileDecl], ranges: dict[str, LiveRange], space: float
) -> dict[str, tuple[int, ...]]:
    """Addresses for tiles of one memory: apart if there is space, else shared."""
    given = _merged_ranges(
        [
            AddressRange(at, at + tile.spec.nbytes, ranges[tile.name])
            for tile, at in _given(program)
            if tile.spec.loc is tiles[0].spec.loc
        ]
    )
    always = LiveRange(0, max((live.last for live in ranges.values()), default=0))
    apart, end = _first_fit(tiles, dict.fromkeys(ranges, always), [replace(span, live=always) for span in given])
    if end <= space:
        return apart
    by_start = sorted(tiles, key=lambda tile: (ranges[tile.name].first, -_size(tile) * tile.buffers))
    return _first_fit(by_start, ranges, given)[0]


def _merged_ranges(given: list[AddressRange]) -> list[AddressRange]:
    """The ranges of tiles with given addresses; those that share bytes are all in use while any of them is."""
    found: list[AddressRange] = []
    for span in given:
        near = [other.live for other in given if other.start < span.end and span.start < other.end]
        found.append(replace(span, live=LiveRange(min(live.first for live in near), max(live.last for live in near))))
    return found


def _first_fit(
    tiles: Iterable[ir.TileDecl], ranges: dict[str, LiveRange], given: list[AddressRange]
) -> tuple[dict[str, tuple[int, ...]], int]:
    """The lowest addresses for one tile after the other, and where the last of them ends."""
    spans, addresses = list(given), dict[str, tuple[int, ...]]()
    for tile in tiles:
        live, size = ranges[tile.name], _size(tile)
        start = _gap([span for span in spans if span.live.meets(live)], size * tile.buffers, _alignment(tile))
        spans.append(AddressRange(start, start + size * tile.buffers, live))
        addresses[tile.name] = tuple(start + size * copy for copy in range(tile.buffers))
    return addresses, max((span.end for span in spans), default=0)


def _gap(taken: list[AddressRange], size: int, alignment: int) -> int:
    """The lowest address with `size` free bytes."""
    start = 0
    for span in sorted(taken, key=lambda span: span.start):
        if span.start >= start + size:
            break
        start = max(start, _up(span.end, alignment))
    return start


def _alignment(tile: ir.TileDecl) -> int:
    return FRACTAL.get(tile.spec.loc, BLOCK)


def _size(tile: ir.TileDecl) -> int:
    """Bytes from one copy to the next."""
    return _up(tile.spec.nbytes, _alignment(tile))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _given(program: ir.Program) -> Iterator[tuple[ir.TileDecl, int]]:
    """Every constant address that a tile has or moves to."""
    for _, stmt in statements(program.body):
        if isinstance(stmt, ir.TileDecl):
            yield from ((stmt, address) for address in stmt.addresses if isinstance(address, int))
        elif isinstance(stmt, ir.Assign) and isinstance(stmt.address, int):
            yield program.tiles[stmt.tile], stmt.address


def live_ranges(program: ir.Program, *, tight: bool = False) -> dict[str, LiveRange]:
    """The live range of each tile.

    A tile declared outside a loop keeps its content between iterations: a use in the loop extends to all of it. A tile
    declared in a loop is new in every iteration; but iterations with their own copies overlap, so it is live in all of
    such a loop. With `tight`, a tile that every iteration writes first does not keep its content.
    """
    outline, uses = Outline(program), _uses(program)
    written = _written_first(program) if tight else set[tuple[str, Path]]()
    numbers = {path: number for number, (path, _) in enumerate(statements(program.body))}
    last = _last_inside(numbers)
    loops = {body: LiveRange(numbers[body[:-1]], last[body[:-1]]) for body in outline.loops}
    ranges: dict[str, LiveRange] = {}
    for name, home in outline.tiles.items():
        parts = [loops[body] for body in home if outline.loops[body].buffers > 1][:1]
        for use in uses[name]:
            entered = [body for body in outline.around(use) if body not in home and (name, body) not in written]
            parts.append(loops[entered[0]] if entered else LiveRange(numbers[use], numbers[use]))
        ranges[name] = LiveRange(min(part.first for part in parts), max(part.last for part in parts))
    return ranges


def _last_inside(numbers: dict[Path, int]) -> dict[Path, int]:
    """The number of the last statement in each statement, or of itself. `numbers` are in the order of the text."""
    last: dict[Path, int] = {}
    for path, number in numbers.items():
        for depth in range(1, len(path) + 1, 2):
            last[path[:depth]] = number
    return last


def _uses(program: ir.Program) -> dict[str, list[Path]]:
    """The instructions that touch each tile; the declaration of one that none touches."""
    declared: dict[str, list[Path]] = {}
    uses: dict[str, list[Path]] = defaultdict(list)
    for path, stmt in statements(program.body):
        if isinstance(stmt, ir.TileDecl):
            declared[stmt.name] = [path]
        elif isinstance(stmt, ir.Instr):
            for use in stmt.tiles:
                uses[use.tile].append(path)
    return declared | uses


def _written_first(program: ir.Program) -> set[tuple[str, Path]]:
    """Tiles with the loop bodies whose every iteration writes the tile first."""
    first: dict[tuple[str, Path], bool] = {}
    for path, stmt in statements(program.body):
        for tile, writes in _accesses(stmt).items() if isinstance(stmt, ir.Instr) else ():
            for depth in range(2, len(path), 2):
                first.setdefault((tile, path[:depth]), writes and depth == len(path) - 1)
    return {key for key, writes in first.items() if writes}


def _accesses(instr: ir.Instr) -> dict[str, bool]:
    """The tiles of an instruction, and whether it writes all of them without reading."""
    access = access_of(instr)
    only: dict[str, bool] = {}
    for name, operand in all_operands(instr).items():
        if isinstance(operand, ir.TileUse):
            whole = operand.window is None  # a slice leaves the rest as it is
            only[operand.tile] = only.get(operand.tile, True) and access[name] == "write" and whole
    return only


def _with_addresses(block: ir.Block, addresses: dict[str, tuple[int, ...]]) -> ir.Block:
    def placed(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.TileDecl):
            return replace(stmt, addresses=addresses.get(stmt.name, stmt.addresses))
        return stmt

    return ir.transform(block, placed)


# --- findings on addresses


MOST_TILES = 3
"""Tiles that a message names."""


def footprint(
    program: ir.Program, profile: Profile, dyn_ub: int | None = None, grid: int | None = None, *, bound: bool = False
) -> dict[TileType, Use]:
    """What the program takes of each memory that it uses. If every tile is `bound`, nothing of it is static."""
    placement = place(program, profile, dyn_ub, bound=bound)
    ends = dict(placement.used)
    for placed in placed_tiles(program, grid):
        loc = placed.tile.spec.loc
        ends[loc] = max([ends.get(loc, 0), *(span.stop for span in placed.spans)])
    static = {loc: 0 if bound else static_bytes(placement.program, loc) for loc in ends}
    return {loc: Use(ends[loc], static[loc]) for loc in TileType if ends.get(loc)}


def check_memory(program: ir.Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """All tiles together fit their memories. The default of a launch is no dynamic UB."""
    subject, simt = f"{program.name} on {profile.name}", has_simt(program, profile)
    for loc, use in footprint(program, profile, options.dyn_ub, grid, bound=options.bound).items():
        for finding in memory_findings(subject, {loc: use}, profile, options.dyn_ub or 0, simt=simt):
            by_address = program.form.startswith(ir.CPP)
            tiles, where = _last_tiles(program, loc, grid) if by_address else _largest_tiles(program, loc)
            yield replace(finding, level=_level(options), message=f"{finding.message}; {tiles}", where=where)


def _largest_tiles(program: ir.Program, loc: TileType) -> tuple[str, Where | None]:
    """The tiles that take most of a memory, and the place of the first."""
    tiles = sorted((tile for tile in program.tiles.values() if tile.spec.loc is loc), key=_bytes_of_copies)[::-1]
    largest = ", ".join(f"{tile.name} ({_bytes_of_copies(tile):,} bytes)" for tile in tiles[:MOST_TILES])
    return f"the largest are {largest}", tiles[0].where


def _last_tiles(program: ir.Program, loc: TileType, grid: int | None) -> tuple[str, Where | None]:
    """The tiles with the highest addresses, which their author chose, and the place of the last."""
    placed = [(span, each) for each in placed_tiles(program, grid) if each.tile.spec.loc is loc for span in each.spans]
    if not placed:
        return _largest_tiles(program, loc)
    placed.sort(key=lambda each: (each[0].stop, each[0].start), reverse=True)
    names = dict[tuple[int, int], str]()
    for span, each in placed:
        where = each.where_at(span.start)
        at = f", line {where.line}" if where else ""
        names.setdefault((span.start, span.stop), f"{each.tile.name} ({span.start:#x}..{span.stop:#x}{at})")
    shown = [*names.values()]
    more = f" and {len(shown) - MOST_TILES} more" if len(shown) > MOST_TILES else ""
    return f"from the end down: {', '.join(shown[:MOST_TILES])}{more}", placed[0][1].where_at(placed[0][0].start)


def _bytes_of_copies(tile: ir.TileDecl) -> int:
    """Bytes of all copies."""
    return tile.spec.nbytes * tile.buffers


def _level(options: Options) -> Level:
    """The level of findings about addresses: headers do not check them."""
    return "hazard" if options.header else "error"


def check_addresses(program: ir.Program, profile: Profile, _options: Options, grid: int | None) -> Iterable[Finding]:
    """Addresses are valid, and in manual mode a tile has one before it is used."""
    for placed in placed_tiles(program, grid):
        for span in placed.spans:
            for finding in verify_address(replace(placed.tile.spec, addr=span.start), profile.name):
                yield finding.at(placed.where_at(span.start))
    if program.mode == "manual":
        free = unbound(program)
        yield from _used_without_address(program.body, {tile.name for tile in free})
        for tile in free:
            message = f"{program.name}: {tile.name} has no address: it is placed beside the other tiles"
            yield Finding("note", "KN-09", message, None, tile.name, where=tile.where)


def _used_without_address(block: ir.Block, free: set[str]) -> list[Finding]:
    """Tiles that are used before they have an address; `free` ones are placed. The state is the set of tiles that have
    one."""
    found: list[Finding] = []

    def leaf(stmt: ir.Leaf, placed: set[str]) -> set[str]:
        if isinstance(stmt, ir.TileDecl) and stmt.addresses:
            return placed | {stmt.name}
        if isinstance(stmt, ir.Assign):
            return placed | {stmt.tile}
        if isinstance(stmt, ir.Instr):
            found.extend(_without_address(stmt, placed))
        return placed

    def loop(stmt: ir.Loop, placed: set[str]) -> set[str]:
        visit(stmt.body, placed)
        return placed  # the body may not run

    def branch(stmt: ir.Branch, placed: set[str]) -> set[str]:
        return visit(stmt.then, placed) & visit(stmt.otherwise, placed)

    visit = partial(ir.fold, leaf=leaf, loop=loop, branch=branch)
    visit(block, free)
    return found


def _without_address(instr: ir.Instr, placed: set[str]) -> Iterator[Finding]:
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


def check_overlaps(program: ir.Program, profile: Profile, options: Options, grid: int | None) -> Iterable[Finding]:
    """No read of bytes that a write through another tile destroyed. Addresses known at run time are checked there."""
    found = conflicts(program, profile.name, grid)
    if program.form.startswith(ir.CPP):  # the author's tiles may be any of these names
        found = [each for each in found if not are_slots(each.first, each.second)]
    for conflict in found:
        yield _overlap(program, conflict, options)
    ranges = live_ranges(program, tight=True)
    known = {frozenset((conflict.first.tile.name, conflict.second.tile.name)) for conflict in found}
    for first, second in combinations(placed_tiles(program, grid), 2):
        names = first.tile.name, second.tile.name
        is_new = names[0] != names[1] and frozenset(names) not in known and not is_one_buffer(first, second)
        if (
            is_new
            and not are_views(first, second)
            and ranges[names[0]].meets(ranges[names[1]])
            and meeting(first, second)
        ):
            yield _overlap(program, TileConflict(first, second, "no read loses its data", False), options)


def _overlap(program: ir.Program, conflict: TileConflict, options: Options) -> Finding:
    first, second = conflict.first, conflict.second
    name, other, pair = first.tile.name, second.tile.name, meeting(first, second)
    assert pair is not None
    found = f"{show_addresses(pair[1])}, over {name} at {show_addresses(pair[0])}"
    level, message = "note", f"{other} shares bytes with {name}: {found}; {conflict.effect}"
    if conflict.is_fault:
        level = _level(options)
        message = f"{other} must be apart from {name} while both are in use; found {found}: {conflict.effect}"
    expected, fix = f"apart from {name}", "move one of the tiles"
    message, tiles = f"{program.name}: {message}", frozenset((name, other))
    return Finding(level, "A-38", message, "H-38", other, expected, found, fix, second.where, tiles=tiles)
