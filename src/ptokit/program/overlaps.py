"""Tiles that share bytes: whether a read finds bytes that a write through another tile destroyed (A-38, H-38).

Tiles over exactly the same bytes, with one element type, are handles of one buffer. A tile of some columns of another
one, of the same type and row pitch, is a slice of it: what is written through one may be read through the other. It
begins in the first row, and has columns that the other one has, or only ones that it does not have. The analysis
follows loops and branches. For every buffer it tracks the bytes that were last written through it, and those that were
overwritten since. A read of the latter is a fault. Addresses known only at run time are left to the machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from ptokit.finding import Where, at_line
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Pad, TileType
from ptokit.isa.spelling import TMP
from ptokit.program.bounds import reaches
from ptokit.program.conditions import Facts, changed_in, exclude, facts, without
from ptokit.program.expr import Expr
from ptokit.program.instr_calls import access_of, all_operands, named_operands, offset_in
from ptokit.program.ir import (
    ANY_FAMILY,
    Assign,
    Block,
    Branch,
    Instr,
    Leaf,
    Loop,
    Operand,
    Program,
    TileDecl,
    TileUse,
    fold,
)

MOST_VISITED = 1 << 18
"""Statements that are visited; after that many, loops are visited once."""


@dataclass(frozen=True, eq=False)
class PlacedTile:
    """A tile at an address, which may differ between iterations, and the statement that placed it."""

    tile: TileDecl
    starts: np.ndarray[Any, np.dtype[np.int64]]
    times: object
    """Identifies the iterations: two with the same `times` have their addresses iteration by iteration."""
    stmt: TileDecl | Assign

    @property
    def where(self) -> Where | None:
        """The line of the statement."""
        return self.stmt.where

    def where_at(self, start: int) -> Where | None:
        """The line that gave the tile this address."""
        return self.tile.given.get(start, self.stmt.where)

    @cached_property
    def distinct(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The addresses, each once."""
        return np.unique(self.starts)

    @property
    def spans(self) -> list[range]:
        """The bytes that the tile takes, at every address."""
        return [range(start, start + self.tile.spec.nbytes) for start in sorted(set(self.starts.tolist()))]


def placed_tiles(program: Program, grid: int | None) -> list[PlacedTile]:
    """The tiles with a given address that is known before the run."""
    found: list[PlacedTile] = []
    for stmt, reach in reaches(program, grid):
        if isinstance(stmt, TileDecl | Assign):
            tile = stmt if isinstance(stmt, TileDecl) else program.tiles[stmt.tile]
            for address in stmt.addresses if isinstance(stmt, TileDecl) else (stmt.address,):
                values = np.array([address]) if isinstance(address, int) else reach.value(address)
                if values is not None:
                    found.append(PlacedTile(tile, values, reach.values, stmt))
    return found


def meeting(first: PlacedTile, second: PlacedTile, sizes: tuple[int, int] | None = None) -> tuple[range, range] | None:
    """The bytes of the two where they overlap: in the same iteration if they share iterations, else in any. `sizes` are
    the bytes from the start of each that count; all of them by default."""
    if first.tile.spec.loc is not second.tile.spec.loc:
        return None
    size, other_size = sizes or (first.tile.spec.nbytes, second.tile.spec.nbytes)
    a, b = first.starts, second.starts
    if a.size == b.size == 1:
        one, other = range(int(a[0]), int(a[0]) + size), range(int(b[0]), int(b[0]) + other_size)
        return (one, other) if one.start < other.stop and other.start < one.stop else None
    if first.times is not second.times or a.size != b.size:
        a, b = first.distinct[:, None], second.distinct[None, :]
    a, b = np.broadcast_arrays(a, b)
    meet = np.flatnonzero((a < b + other_size) & (b < a + size))
    if not meet.size:
        return None
    starts = int(a.flat[meet[0]]), int(b.flat[meet[0]])
    return range(starts[0], starts[0] + size), range(starts[1], starts[1] + other_size)


def has_same_pitch(one: TileSpec, other: TileSpec) -> bool:
    """Whether one of two tiles may be a slice of the other: plain ones of one type, with rows at the same distance."""
    alike = (one.loc, one.dtype, one.format, one.stride) == (other.loc, other.dtype, other.format, other.stride)
    return alike and one.format in ("nd", "dn")


def width_of(spec: TileSpec, rows: Expr, cols: Expr) -> int:
    """How many elements of a row of a tile, or of a column of a column-major one, are within these valid extents; all
    if that is not known."""
    width = cols if spec.format == "nd" else rows
    return min(width, spec.stride) if isinstance(width, int) else spec.stride


def is_narrow(spec: TileSpec, rows: Expr, cols: Expr) -> bool:
    """Whether these valid extents leave a gap between the rows of a tile, or the columns of a column-major one."""
    return width_of(spec, rows, cols) < spec.stride


def is_slice(part: PlacedTile, whole: PlacedTile, used: int, widths: tuple[int, int]) -> bool:
    """Whether so many bytes of a tile are always a slice of another one. `widths` are the elements of the rows of both
    that are accessed."""
    spec = whole.tile.spec
    if not has_same_pitch(part.tile.spec, spec):
        return False
    a, b = part.starts, whole.starts
    if part.times is not whole.times or a.size != b.size:
        a, b = part.distinct[:, None], whole.distinct[None, :]
    ahead = a - b
    width, whole_width, pitch = (each * spec.dtype.size for each in (*widths, spec.stride))
    inside = (ahead >= 0) & (ahead < pitch) & (ahead + used <= spec.nbytes)
    return bool((inside & ((ahead + width <= whole_width) | (ahead >= whole_width))).all())


def is_one_buffer(first: PlacedTile, second: PlacedTile) -> bool:
    """Whether two tiles are exactly the same bytes, with one element type."""
    one, other = first.tile.spec, second.tile.spec
    if (one.loc, one.nbytes, one.dtype) != (other.loc, other.nbytes, other.dtype):
        return False
    together = first.times is second.times or first.starts.size == second.starts.size == 1
    return together and np.array_equal(first.starts, second.starts)


def are_slots(first: PlacedTile, second: PlacedTile) -> bool:
    """Whether two tiles of one type are always exactly the same bytes, or apart: slots that are used in turn."""
    one, other = first.tile.spec, second.tile.spec
    if (one.loc, one.nbytes, one.dtype) != (other.loc, other.nbytes, other.dtype):
        return False
    starts = np.unique(np.concatenate((first.starts, second.starts)))
    return bool((np.diff(starts) >= one.nbytes).all())


@dataclass(frozen=True, eq=False)
class TileConflict:
    """Two tiles that share bytes, in the order of placement, and the consequence as text."""

    first: PlacedTile
    second: PlacedTile
    effect: str
    is_fault: bool


@dataclass(frozen=True, eq=False)
class Buffer:
    """Bytes of a memory as one element type, and the tiles that are handles of it."""

    number: int
    placed: PlacedTile
    names: set[str] = field(default_factory=set)


Bytes = int
"""A set of pieces of memory: an integer, a piece one of its bits."""


class Pieces:
    """The memories, cut where a tile or an access begins or ends. A buffer whose address varies is one piece."""

    def __init__(self, buffers: Iterable[Buffer], cuts: dict[str, set[int]]) -> None:
        """`cuts` are where accesses of each tile begin and end, in bytes from its start."""
        self._cuts: dict[TileType, list[int]] = {}
        self._first: dict[TileType, int] = {}
        self._own: dict[int, Bytes] = {}
        fixed = [buffer for buffer in buffers if _is_fixed(buffer.placed)]
        taken = 0
        for loc in dict.fromkeys(buffer.placed.tile.spec.loc for buffer in fixed):
            here = [buffer for buffer in fixed if buffer.placed.tile.spec.loc is loc]
            marks = {int(b.placed.starts[0]) + cut for b in here for name in b.names for cut in cuts[name]}
            self._cuts[loc], self._first[loc] = sorted(marks), taken
            taken += len(marks)
        for buffer in buffers:
            if not _is_fixed(buffer.placed):
                self._own[buffer.number] = 1 << taken
                taken += 1

    def of(self, buffer: Buffer, span: range) -> Bytes:
        """Bytes of a buffer, counted from its start."""
        own = self._own.get(buffer.number)
        if own is not None:
            return own if span else 0
        loc, start = buffer.placed.tile.spec.loc, int(buffer.placed.starts[0])
        cuts, first = self._cuts[loc], self._first[loc]
        low, high = bisect_left(cuts, start + span.start), bisect_left(cuts, start + span.stop)
        return ((1 << high) - (1 << low)) << first


def _is_fixed(placed: PlacedTile) -> bool:
    return bool((placed.starts == placed.starts[0]).all())


@dataclass(frozen=True)
class Overwrite:
    """An instruction wrote a tile over some bytes of another one."""

    placed: PlacedTile
    instr: Instr
    bytes: Bytes
    facts: Facts
    """What holds wherever it happens."""

    def joined(self, more: Bytes, given: Facts) -> Overwrite:
        """The same, over more bytes, where something else holds."""
        return Overwrite(self.placed, self.instr, self.bytes | more, self.facts & given)

    def forget(self, changed: frozenset[Expr]) -> Overwrite:
        """The same, where some numbers have changed."""
        given = without(self.facts, changed)
        return self if given == self.facts else replace(self, facts=given)


@dataclass
class WriteState:
    """What is known at one point of a program."""

    at: dict[str, PlacedTile | None]
    """The current address of each tile; None if unknown."""
    own: list[Bytes]
    """By buffer: the bytes that were written through it last."""
    lost: list[Bytes]
    """By buffer: the bytes that were its own until a write through another buffer."""
    by: dict[int, dict[int, Overwrite]]
    """By buffer, and by the tile that was written over some of its bytes; copies share what a buffer has."""
    path: Facts = frozenset()
    """The conditions of the branches around."""

    def copy(self) -> WriteState:
        """A copy, to follow another path."""
        return WriteState(dict(self.at), list(self.own), list(self.lost), dict(self.by), self.path)

    def join(self, other: WriteState) -> WriteState:
        """What may hold where two paths join."""
        names = self.at.keys() & other.at.keys()
        by = dict(self.by)
        for victim, theirs in other.by.items():
            mine = by.get(victim, {})
            if theirs is not mine:
                more = {key: mine[key].joined(w.bytes, w.facts) if key in mine else w for key, w in theirs.items()}
                by[victim] = {**mine, **more}
        return WriteState(
            {name: self.at[name] if self.at[name] is other.at[name] else None for name in names},
            [a | b for a, b in zip(self.own, other.own, strict=True)],
            [a | b for a, b in zip(self.lost, other.lost, strict=True)],
            by,
            self.path & other.path,
        )

    def gain(self, buffer: int, written: Bytes) -> None:
        """Bytes are written through a buffer."""
        self._clear(buffer, written)
        self.own[buffer] |= written

    def lose(self, victim: int, hit: Bytes, by: PlacedTile, instr: Instr) -> None:
        """Bytes of a buffer are written over through another one."""
        self._clear(victim, hit)
        self.lost[victim] |= hit
        known = self.by.get(victim, {})
        earlier = known.get(id(by))
        written = earlier.joined(hit, self.path) if earlier else Overwrite(by, instr, hit, self.path)
        self.by[victim] = {**known, id(by): written}

    def _clear(self, buffer: int, written: Bytes) -> None:
        """Forget these bytes."""
        self.own[buffer] &= ~written
        self.lost[buffer] &= ~written
        if any(earlier.bytes & written for earlier in self.by.get(buffer, {}).values()):
            left = {key: (each, each.bytes & ~written) for key, each in self.by[buffer].items()}
            self.by[buffer] = {key: replace(each, bytes=rest) for key, (each, rest) in left.items() if rest}

    def enter(self, condition: Expr, holds: bool) -> WriteState:
        """A copy, for the arm of a branch."""
        return replace(self.copy(), path=self.path | facts(condition, holds))

    def forget(self, changed: frozenset[Expr]) -> WriteState:
        """The same, where some numbers have changed."""
        by = {victim: {key: each.forget(changed) for key, each in some.items()} for victim, some in self.by.items()}
        return replace(self, by=by, path=without(self.path, changed))

    def same(self, other: WriteState) -> bool:
        """Whether both are equal."""
        return (self.at, self.own, self.lost, self._given()) == (other.at, other.own, other.lost, other._given())

    def _given(self) -> dict[tuple[int, int], tuple[Bytes, Facts]]:
        return {(victim, key): (w.bytes, w.facts) for victim, some in self.by.items() for key, w in some.items()}


@dataclass(frozen=True)
class TileAccess:
    """An operand of an instruction that is a tile at a known address."""

    placed: PlacedTile
    buffer: Buffer
    bytes: Bytes
    is_workspace: bool = False


def _is_same(one: TileAccess, other: TileAccess) -> bool:
    """Whether two accesses are to the same elements at fixed addresses."""
    first, second = one.placed.tile.spec, other.placed.tile.spec
    alike = (first.format, first.dtype, first.stride) == (second.format, second.dtype, second.stride)
    return alike and one.bytes == other.bytes and _is_fixed(one.placed) and _is_fixed(other.placed)


class OverlapAnalysis:
    """Follows a program and collects the conflicts between its tiles."""

    def __init__(self, program: Program, target: str, grid: int | None) -> None:
        self.program, self.target = program, target
        self.reached = {id(stmt) for stmt, _ in reaches(program, grid)}
        self.placed = placed_tiles(program, grid)
        self.order = {id(placed): number for number, placed in enumerate(self.placed)}
        self.by_stmt: dict[int, list[PlacedTile]] = {}
        for placed in self.placed:
            self.by_stmt.setdefault(id(placed.stmt), []).append(placed)
        self.buffers, self.buffer_of = _buffers(self.placed)
        cuts, used, widths = _measures(program)
        self.pieces = Pieces(self.buffers, cuts)
        self.used = [max(used[name] for name in buffer.names) for buffer in self.buffers]
        """By buffer: the bytes from its start that are accessed."""
        self.widths = [max(widths[name] for name in buffer.names) for buffer in self.buffers]
        """By buffer: the elements of its rows that are accessed."""
        self.all = [self.pieces.of(buffer, range(self.used[buffer.number])) for buffer in self.buffers]
        self.rivals, self.kin = self._rivals()
        self.conflicts: dict[tuple[int, int], TileConflict] = {}
        self.visited = 0

    def run(self) -> list[TileConflict]:
        """All conflicts, in the order of placement."""
        if self.buffers:
            self._block(self.program.body, WriteState({}, [0] * len(self.buffers), [0] * len(self.buffers), {}))
        order = self.order
        return sorted(self.conflicts.values(), key=lambda each: (order[id(each.first)], order[id(each.second)]))

    def _rivals(self) -> tuple[list[list[Buffer]], set[tuple[int, int]]]:
        """By buffer, the others that share accessed bytes with it; and the pairs of a slice and its tile."""
        found: list[list[Buffer]] = [[] for _ in self.buffers]
        kin = set[tuple[int, int]]()
        for one, other in combinations(self.buffers, 2):
            sizes = self.used[one.number], self.used[other.number]
            fixed = _is_fixed(one.placed) and _is_fixed(other.placed)
            if self.all[one.number] & self.all[other.number] if fixed else meeting(one.placed, other.placed, sizes):
                found[one.number].append(other)
                found[other.number].append(one)
                if self._is_slice(one, other) or self._is_slice(other, one):
                    kin |= {(one.number, other.number), (other.number, one.number)}
        return found, kin

    def _is_slice(self, part: Buffer, whole: Buffer) -> bool:
        width, used = self.widths[part.number], self.used[part.number]
        is_narrow = width < part.placed.tile.spec.stride
        return is_narrow and is_slice(part.placed, whole.placed, used, (width, self.widths[whole.number]))

    def _hit(self, touch: TileAccess, other: Buffer) -> Bytes:
        """The bytes of another buffer that an access touches."""
        if _is_fixed(touch.placed) and _is_fixed(other.placed):
            return touch.bytes & self.all[other.number]
        return self.all[other.number] if touch.bytes and other in self.rivals[touch.buffer.number] else 0

    # --- along the program

    def _block(self, block: Block, state: WriteState) -> WriteState:
        self.visited += len(block)
        return fold(block, state, self._leaf, loop=self._loop, branch=self._branch)

    def _branch(self, branch: Branch, state: WriteState) -> WriteState:
        then = self._block(branch.then, state.enter(branch.condition, holds=True))
        return then.join(self._block(branch.otherwise, state.enter(branch.condition, holds=False)))

    def _leaf(self, stmt: Leaf, state: WriteState) -> WriteState:
        if id(stmt) in self.reached:
            if isinstance(stmt, TileDecl | Assign):
                self._place(stmt, state)
            elif isinstance(stmt, Instr):
                self._execute(stmt, state)
        return state

    def _loop(self, loop: Loop, state: WriteState) -> WriteState:
        """Repeat until the state is stable. The body may run any number of times."""
        changed = changed_in(loop)
        while True:
            joined = state.join(self._block(loop.body, state.copy()).forget(changed))
            if joined.same(state) or self.visited > MOST_VISITED:
                return joined
            state = joined

    def _place(self, stmt: TileDecl | Assign, state: WriteState) -> None:
        """Place a tile. If it is the only handle of its buffer, the buffer's content is forgotten."""
        name, here = stmt.name if isinstance(stmt, TileDecl) else stmt.tile, self.by_stmt.get(id(stmt), [])
        state.at[name] = here[0] if len(here) == 1 else None
        for placed in here:
            buffer = self.buffer_of[id(placed)]
            if buffer.names == {name}:
                state.own[buffer.number] = state.lost[buffer.number] = 0

    def _execute(self, instr: Instr, state: WriteState) -> None:
        reads, writes = self._touches(instr, state)
        for touch in reads:
            self._read(touch, instr, state)
        for touch in writes:
            for other in reads:
                self._at_once(instr, touch, other)
        for one, other in combinations(writes, 2):
            if one.buffer is not other.buffer and self._hit(one, other.buffer) & other.bytes:
                self._report(one.placed, other.placed, f"{_line(instr)} writes both", is_fault=True)
        for touch in writes:
            self._write(touch, instr, state)

    def _touches(self, instr: Instr, state: WriteState) -> tuple[list[TileAccess], list[TileAccess]]:
        access, reads, writes = access_of(instr), list[TileAccess](), list[TileAccess]()
        for name, use in self._operands(instr).items():
            placed = state.at.get(use.tile) if isinstance(use, TileUse) else None
            if isinstance(use, TileUse) and placed is not None:
                buffer = self.buffer_of[id(placed)]
                if access[name] != "write":
                    reads.append(TileAccess(placed, buffer, self.pieces.of(buffer, _span(self.program, use))))
                if access[name] != "read":
                    span = _span(self.program, use, is_whole=_writes_all(self.program, instr, use))
                    writes.append(TileAccess(placed, buffer, self.pieces.of(buffer, span), name == TMP))
        return reads, writes

    def _operands(self, instr: Instr) -> dict[str, Operand]:
        """The operands by name, with the workspace if the target writes it."""
        workspace = instr.definition.workspace
        return all_operands(instr) if workspace and workspace.used.get(self.target) else named_operands(instr)

    def _read(self, touch: TileAccess, instr: Instr, state: WriteState) -> None:
        mine = touch.buffer.number
        lost = state.lost[mine] & touch.bytes
        for written in state.by.get(mine, {}).values() if lost else ():
            if written.bytes & lost and not exclude(written.facts, state.path):
                reads = f"{_line(instr)} reads through {touch.placed.tile.name}"
                effect = f"{_line(written.instr)} writes over what {reads}"
                self._report(touch.placed, written.placed, effect, is_fault=True)
        for other in self.rivals[mine]:
            seen = state.own[other.number] & self._hit(touch, other) & ~state.own[mine]
            if seen and (mine, other.number) not in self.kin:
                effect = f"{_line(instr)} reads through {touch.placed.tile.name} what was written through the other"
                self._report(touch.placed, other.placed, effect, is_fault=False)

    def _at_once(self, instr: Instr, written: TileAccess, read: TileAccess) -> None:
        """An instruction may write what it reads only in place, through one buffer."""
        destination = instr.definition.destination
        if written.placed.tile is read.placed.tile or destination.is_staged:  # verify_call checks uses of one tile
            return
        in_place = destination.in_place.get(self.target)
        if written.buffer is read.buffer:
            shared = written.bytes & read.bytes and not in_place
        else:
            shared = self._hit(written, read.buffer) & read.bytes and not (in_place and _is_same(written, read))
        if shared:
            effect = f"{_line(instr)} writes {written.placed.tile.name} while it reads {read.placed.tile.name}"
            # an instruction that is known by its effects may work in place
            is_fault = not (instr.opaque_form and np.array_equal(written.placed.starts, read.placed.starts))
            self._report(written.placed, read.placed, effect, is_fault=is_fault)

    def _write(self, touch: TileAccess, instr: Instr, state: WriteState) -> None:
        for other in self.rivals[touch.buffer.number]:
            hit = self._hit(touch, other)
            if (touch.buffer.number, other.number) in self.kin and not touch.is_workspace:
                state.gain(other.number, hit)
                continue
            hit &= state.own[other.number] | state.lost[other.number]
            if hit:
                state.lose(other.number, hit, touch.placed, instr)
        mine = touch.buffer.number
        if touch.is_workspace:  # no data for other handles of the buffer
            state.lose(mine, touch.bytes & (state.own[mine] | state.lost[mine]), touch.placed, instr)
        else:
            state.gain(mine, touch.bytes)

    def _report(self, one: PlacedTile, other: PlacedTile, effect: str, *, is_fault: bool) -> None:
        if are_views(one, other):
            return
        first, second = sorted((one, other), key=lambda placed: self.order[id(placed)])
        key = id(first), id(second)
        if first is not second and (key not in self.conflicts or (is_fault and not self.conflicts[key].is_fault)):
            self.conflicts[key] = TileConflict(first, second, effect, is_fault)


def are_views(one: PlacedTile, other: PlacedTile) -> bool:
    """Whether the author says that two tiles share memory."""
    families = {one.tile.family, other.tile.family}
    return ANY_FAMILY in families or (len(families) == 1 and None not in families)


def conflicts(program: Program, target: str, grid: int | None) -> list[TileConflict]:
    """Pairs of tiles that share bytes: faults and notes."""
    return OverlapAnalysis(program, target, grid).run()


def sharing(program: Program, grid: int | None) -> dict[str, set[str]]:
    """The tiles that share bytes with each tile, by known addresses."""
    found: dict[str, set[str]] = {name: set() for name in program.tiles}
    for first, second in combinations(placed_tiles(program, grid), 2):
        if first.tile is not second.tile and meeting(first, second):
            found[first.tile.name].add(second.tile.name)
            found[second.tile.name].add(first.tile.name)
    return found


def interleaved(program: Program, grid: int | None) -> frozenset[str]:
    """The tiles that begin inside another tile of their pitch, or in which one begins: their rows may be parts of wider
    rows, and what lies outside their valid region may be valid elsewhere."""
    tiles = placed_tiles(program, grid)
    found = {each.tile.name for each in tiles if (np.diff(each.distinct) < each.tile.spec.nbytes).any()}
    for first, second in combinations(tiles, 2):
        met = meeting(first, second) if has_same_pitch(first.tile.spec, second.tile.spec) else None
        if met and met[0].start != met[1].start and not are_slots(first, second):
            found |= {first.tile.name, second.tile.name}
    return frozenset(found)


def _buffers(tiles: Iterable[PlacedTile]) -> tuple[list[Buffer], dict[int, Buffer]]:
    """The buffers of all placed tiles, and the buffer of each."""
    found: dict[object, list[Buffer]] = {}
    buffers, of = list[Buffer](), dict[int, Buffer]()
    for placed in tiles:
        near = found.setdefault((placed.tile.spec.loc, int(placed.starts[0])), [])
        buffer = next((each for each in near if is_one_buffer(each.placed, placed)), None)
        if buffer is None:
            buffer = Buffer(len(buffers), placed)
            buffers.append(buffer)
            near.append(buffer)
        buffer.names.add(placed.tile.name)
        of[id(placed)] = buffer
    return buffers, of


def _span(program: Program, use: TileUse, *, is_whole: bool = False) -> range:
    """Bytes of a tile from the first to the last of a valid region or slice; all if that is not known."""
    spec = program.tiles[use.tile].spec
    whole = use.window.size if use.window else (spec.rows, spec.cols)
    rows, cols = whole if is_whole else use.valid
    first = offset_in(spec, use.window) if use.window else 0
    if not (isinstance(rows, int) and isinstance(cols, int) and isinstance(first, int)):
        return range(spec.nbytes)
    if is_whole and use.window is None:
        return range(spec.nbytes)
    start = first * spec.dtype.size
    return range(start, min(spec.nbytes, start + spec.layout.span(rows, cols) * spec.dtype.size))


def _writes_all(program: Program, instr: Instr, use: TileUse) -> bool:
    return instr.definition.destination.writes_padding or program.tiles[use.tile].spec.pad is not Pad.Null


def _measures(program: Program) -> tuple[dict[str, set[int]], dict[str, int], dict[str, int]]:
    """By tile: where accesses start and end, in bytes from its start; how many bytes from its start are accessed; how
    many elements of its rows."""
    cuts = {name: {0, tile.spec.nbytes} for name, tile in program.tiles.items()}
    used, widths = dict.fromkeys(program.tiles, 0), dict.fromkeys(program.tiles, 0)
    for instr in program.instructions:
        for use in instr.tiles:
            name, spec = use.tile, program.tiles[use.tile].spec
            part, whole = (_span(program, use, is_whole=is_whole) for is_whole in (False, True))
            cuts[name] |= {part.start, part.stop, whole.start, whole.stop}
            used[name] = max(used[name], (whole if _writes_all(program, instr, use) else part).stop)
            widths[name] = max(widths[name], spec.stride if use.window else width_of(spec, *use.valid))
    return cuts, used, widths


def _line(instr: Instr) -> str:
    """An instruction, for messages."""
    return at_line(instr.name, instr.where)
