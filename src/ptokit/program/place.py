"""Auto mode, addresses: every tile gets a place in its memory.

Tiles lie apart as long as the memory has room for all of them, because tiles at one address must wait for each other.
Only where it has not do tiles share addresses, if they are not in use at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

from ptokit.isa.policy import TileType
from ptokit.program.budget import has_simt
from ptokit.program.calls import access_of, all_operands
from ptokit.program.ir import Assign, Block, Instr, Program, Stmt, TileDecl, TileUse, transform
from ptokit.program.memory import Outline, Path, statements
from ptokit.target import Profile

BLOCK = 32
"""Tiles begin at a 32-byte block."""
FRACTAL: dict[TileType, int] = dict.fromkeys((TileType.Mat, TileType.Left, TileType.Right, TileType.Acc), 512)
"""Memories of the cube are read in fractals of 512 bytes."""


@dataclass(frozen=True)
class Placement:
    """A program whose tiles all have addresses."""

    program: Program
    used: dict[TileType, int]
    """Bytes of each memory in use: where its highest tile ends. Whether that is too much is not judged here."""


@dataclass(frozen=True)
class Life:
    """From a tile's first use to its last, as numbers of statements."""

    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Whether there is a statement in both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Spot:
    """Addresses in use during a life."""

    start: int
    end: int
    life: Life


def place(program: Program, profile: Profile, dyn_ub: int | None = None, *, bound: bool = False) -> Placement:
    """Give an address to every copy of every tile that has none. A manual program comes back as it is.

    `dyn_ub` is what the launch asks for, in bytes; it decides how much room there is before tiles share addresses.
    Tiles that will be `bound` to their addresses lie in the dynamic region; others lie beside it.
    """
    addresses: dict[str, tuple[int, ...]] = {}
    if program.mode != "manual":
        lives, simt = lifetimes(program), has_simt(program, profile)
        for loc in TileType:
            addresses |= _place_all(program, loc, lives, _room(profile, loc, dyn_ub, simt, bound))
    placed = replace(program, body=_with_addresses(program.body, addresses))
    used: dict[TileType, int] = {}
    for tile, start in _given(placed):
        used[tile.spec.loc] = max(used.get(tile.spec.loc, 0), start + tile.spec.nbytes)
    return Placement(placed, used)


def _room(profile: Profile, loc: TileType, dyn_ub: int | None, simt: bool, bound: bool) -> float:
    """Bytes that tiles may use of a memory before they share addresses."""
    budget = profile.budget(dyn_ub=dyn_ub or 0, simt=simt) if loc is TileType.Vec else None
    if budget and dyn_ub and budget.max_dynamic and not bound:
        return max(0, budget.max_dynamic - dyn_ub)
    size = budget.available if budget else profile.memories[loc].size
    return inf if size is None else size


def _place_all(program: Program, loc: TileType, lives: dict[str, Life], room: float) -> dict[str, tuple[int, ...]]:
    """Addresses for the tiles of one memory: apart if there is room, else shared."""
    given = _together(
        [Spot(at, at + tile.spec.nbytes, lives[tile.name]) for tile, at in _given(program) if tile.spec.loc is loc]
    )
    tiles = [tile for tile in program.tiles.values() if tile.spec.loc is loc and not tile.addresses]
    always = Life(0, max((life.last for life in lives.values()), default=0))
    apart, end = _first_fit(tiles, dict.fromkeys(lives, always), [replace(spot, life=always) for spot in given])
    if end <= room:
        return apart
    by_start = sorted(tiles, key=lambda tile: (lives[tile.name].first, -_size(tile) * tile.buffers))
    return _first_fit(by_start, lives, given)[0]


def _together(given: list[Spot]) -> list[Spot]:
    """The spots of tiles with given addresses; those that share bytes are in use as long as any of them."""
    found: list[Spot] = []
    for spot in given:
        near = [other.life for other in given if other.start < spot.end and spot.start < other.end]
        found.append(replace(spot, life=Life(min(life.first for life in near), max(life.last for life in near))))
    return found


def _first_fit(
    tiles: Iterable[TileDecl], lives: dict[str, Life], given: list[Spot]
) -> tuple[dict[str, tuple[int, ...]], int]:
    """The lowest addresses for one tile after the other, and where the last of them ends."""
    spots, addresses = list(given), {}
    for tile in tiles:
        life, size = lives[tile.name], _size(tile)
        start = _gap([spot for spot in spots if spot.life.meets(life)], size * tile.buffers, _alignment(tile))
        spots.append(Spot(start, start + size * tile.buffers, life))
        addresses[tile.name] = tuple(start + size * copy for copy in range(tile.buffers))
    return addresses, max((spot.end for spot in spots), default=0)


def _gap(taken: list[Spot], size: int, alignment: int) -> int:
    """The lowest address where so many bytes are free."""
    start = 0
    for spot in sorted(taken, key=lambda spot: spot.start):
        if spot.start >= start + size:
            break
        start = max(start, _up(spot.end, alignment))
    return start


def _alignment(tile: TileDecl) -> int:
    return FRACTAL.get(tile.spec.loc, BLOCK)


def _size(tile: TileDecl) -> int:
    """Bytes from one copy to the next."""
    return _up(tile.spec.nbytes, _alignment(tile))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _given(program: Program) -> Iterator[tuple[TileDecl, int]]:
    """Every address that a tile has or moves to, as far as it is a plain number."""
    for _, stmt in statements(program.body):
        if isinstance(stmt, TileDecl):
            yield from ((stmt, address) for address in stmt.addresses if isinstance(address, int))
        elif isinstance(stmt, Assign) and isinstance(stmt.address, int):
            yield program.tiles[stmt.tile], stmt.address


def lifetimes(program: Program, *, tight: bool = False) -> dict[str, Life]:
    """When each tile is in use.

    A tile that was declared outside a loop keeps its content from turn to turn: a use in the loop is one in all of it.
    One that was declared in a loop is new in every turn; but where turns have copies of their own they run side by
    side, so it is in use all through such a loop. With `tight`, a tile that every turn writes first keeps nothing.
    """
    outline, uses = Outline(program), _uses(program)
    written = _written_first(program) if tight else set[tuple[str, Path]]()
    numbers = {path: number for number, (path, _) in enumerate(statements(program.body))}
    loops = {body: _all_of(body[:-1], numbers) for body in outline.loops}
    lives: dict[str, Life] = {}
    for name, home in outline.tiles.items():
        parts = [loops[body] for body in home if outline.loops[body].buffers > 1][:1]
        for use in uses[name]:
            entered = [body for body in outline.around(use) if body not in home and (name, body) not in written]
            parts.append(loops[entered[0]] if entered else Life(numbers[use], numbers[use]))
        lives[name] = Life(min(part.first for part in parts), max(part.last for part in parts))
    return lives


def _all_of(loop: Path, numbers: dict[Path, int]) -> Life:
    inside = [number for path, number in numbers.items() if path[: len(loop)] == loop]
    return Life(min(inside), max(inside))


def _uses(program: Program) -> dict[str, list[Path]]:
    """The instructions that touch each tile; the declaration of one that none touches."""
    declared: dict[str, list[Path]] = {}
    uses: dict[str, list[Path]] = defaultdict(list)
    for path, stmt in statements(program.body):
        if isinstance(stmt, TileDecl):
            declared[stmt.name] = [path]
        elif isinstance(stmt, Instr):
            for use in stmt.tiles:
                uses[use.tile].append(path)
    return declared | uses


def _written_first(program: Program) -> set[tuple[str, Path]]:
    """Tiles and bodies of loops whose every turn begins by writing the tile."""
    first: dict[tuple[str, Path], bool] = {}
    for path, stmt in statements(program.body):
        for tile, writes in _accesses(stmt).items() if isinstance(stmt, Instr) else ():
            for depth in range(2, len(path), 2):
                first.setdefault((tile, path[:depth]), writes and depth == len(path) - 1)
    return {key for key, writes in first.items() if writes}


def _accesses(instr: Instr) -> dict[str, bool]:
    """The tiles of an instruction, and whether it only writes them."""
    access = access_of(instr.name)
    only: dict[str, bool] = {}
    for name, operand in all_operands(instr).items():
        if isinstance(operand, TileUse):
            whole = operand.window is None  # what a slice does not write is kept
            only[operand.tile] = only.get(operand.tile, True) and access[name] == "write" and whole
    return only


def _with_addresses(block: Block, addresses: dict[str, tuple[int, ...]]) -> Block:
    def placed(stmt: Stmt) -> Stmt:
        if isinstance(stmt, TileDecl):
            return replace(stmt, addresses=addresses.get(stmt.name, stmt.addresses))
        return stmt

    return transform(block, placed)
