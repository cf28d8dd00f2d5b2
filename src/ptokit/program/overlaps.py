"""Tiles that share bytes: whether what is read through one was destroyed by a write through another (A-38, H-38).

Handles over exactly the same bytes, with one element type, are one buffer. The program is followed along its loops and
branches; for every buffer it is known which of its bytes were last written through it, and which were so and have been
written over since. A read of the latter is a fault. Addresses that only the run tells are left to the machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.policy import Pad, TileType
from ptokit.program.bounds import reaches
from ptokit.program.calls import access_of, all_operands, offset_in
from ptokit.program.ir import Assign, Block, Branch, Instr, Leaf, Loop, Program, TileDecl, TileUse, fold, walk

MOST_VISITED = 1 << 18
"""Statements that are followed; after that many, loops are followed once."""


@dataclass(frozen=True, eq=False)
class Stay:
    """A tile at an address, which may change from iteration to iteration, and the statement that put it there."""

    tile: TileDecl
    starts: np.ndarray[Any, np.dtype[np.int64]]
    times: object
    """Two stays of the same times have their addresses iteration by iteration."""
    stmt: TileDecl | Assign

    @property
    def where(self) -> Where | None:
        """The line of the statement."""
        return self.stmt.where

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
                    found.append(Stay(tile, values, reach.values, stmt))
    return found


def meeting(first: Stay, second: Stay) -> tuple[range, range] | None:
    """Bytes of the two that meet: in the same iteration, where they have iterations together, else in any."""
    if first.tile.spec.loc is not second.tile.spec.loc:
        return None
    a, b = first.starts, second.starts
    if a.size == b.size == 1:
        one, other = (range(int(at[0]), int(at[0]) + s.tile.spec.nbytes) for at, s in ((a, first), (b, second)))
        return (one, other) if one.start < other.stop and other.start < one.stop else None
    if first.times is not second.times or a.size != b.size:
        a, b = np.unique(a)[:, None], np.unique(b)[None, :]
    a, b = np.broadcast_arrays(a, b)
    meet = np.flatnonzero((a < b + second.tile.spec.nbytes) & (b < a + first.tile.spec.nbytes))
    if not meet.size:
        return None
    starts = int(a.flat[meet[0]]), int(b.flat[meet[0]])
    return range(starts[0], starts[0] + first.tile.spec.nbytes), range(starts[1], starts[1] + second.tile.spec.nbytes)


def is_one_buffer(first: Stay, second: Stay) -> bool:
    """Whether two handles lie over exactly the same bytes, with one element type."""
    one, other = first.tile.spec, second.tile.spec
    if (one.loc, one.nbytes, one.dtype) != (other.loc, other.nbytes, other.dtype):
        return False
    together = first.times is second.times or first.starts.size == second.starts.size == 1
    return together and np.array_equal(first.starts, second.starts)


@dataclass(frozen=True, eq=False)
class Conflict:
    """Two tiles that share bytes, in the order in which they were placed, and what comes of it."""

    first: Stay
    second: Stay
    how: str
    is_fault: bool


@dataclass(frozen=True, eq=False)
class Buffer:
    """Bytes of a memory as one element type, and the tiles that are handles of it."""

    number: int
    stay: Stay
    names: set[str] = field(default_factory=set)


Bytes = int
"""A set of pieces of memory: a whole number, a piece one of its bits."""


class Pieces:
    """The memories, cut where a tile or an access begins or ends. A buffer whose address varies is one piece."""

    def __init__(self, buffers: Iterable[Buffer], cuts: dict[str, set[int]]) -> None:
        """`cuts` are where accesses of each tile begin and end, in bytes from its start."""
        self._cuts: dict[TileType, list[int]] = {}
        self._first: dict[TileType, int] = {}
        self._own: dict[int, Bytes] = {}
        fixed = [buffer for buffer in buffers if _is_fixed(buffer.stay)]
        taken = 0
        for loc in dict.fromkeys(buffer.stay.tile.spec.loc for buffer in fixed):
            here = [buffer for buffer in fixed if buffer.stay.tile.spec.loc is loc]
            marks = {int(b.stay.starts[0]) + cut for b in here for name in b.names for cut in cuts[name]}
            self._cuts[loc], self._first[loc] = sorted(marks), taken
            taken += len(marks)
        for buffer in buffers:
            if not _is_fixed(buffer.stay):
                self._own[buffer.number] = 1 << taken
                taken += 1

    def of(self, buffer: Buffer, span: range) -> Bytes:
        """Bytes of a buffer, counted from its start."""
        own = self._own.get(buffer.number)
        if own is not None:
            return own if span else 0
        loc, start = buffer.stay.tile.spec.loc, int(buffer.stay.starts[0])
        cuts, first = self._cuts[loc], self._first[loc]
        low, high = bisect_left(cuts, start + span.start), bisect_left(cuts, start + span.stop)
        return ((1 << high) - (1 << low)) << first


def _is_fixed(stay: Stay) -> bool:
    return bool((stay.starts == stay.starts[0]).all())


@dataclass(frozen=True)
class Written:
    """A tile was written over another one, by an instruction, at some of its bytes."""

    stay: Stay
    instr: Instr
    bytes: Bytes

    def joined(self, more: Bytes) -> Written:
        """The same, over more bytes."""
        return Written(self.stay, self.instr, self.bytes | more)


@dataclass
class State:
    """What is known at one point of a program."""

    at: dict[str, Stay | None]
    """Where each tile lies now; None where that is not known."""
    own: list[Bytes]
    """By buffer: the bytes that were written through it last."""
    lost: list[Bytes]
    """By buffer: the bytes that were its own until another one was written over them."""
    by: dict[tuple[int, int], Written]
    """By buffer, and by a tile that was written over it: by what, and which of its bytes."""

    def copy(self) -> State:
        """The same, to go on from."""
        return State(dict(self.at), list(self.own), list(self.lost), dict(self.by))

    def join(self, other: State) -> State:
        """What may hold where two ways meet."""
        names = self.at.keys() & other.at.keys()
        by = dict(self.by)
        for key, written in other.by.items():
            by[key] = by[key].joined(written.bytes) if key in by else written
        return State(
            {name: self.at[name] if self.at[name] is other.at[name] else None for name in names},
            [a | b for a, b in zip(self.own, other.own, strict=True)],
            [a | b for a, b in zip(self.lost, other.lost, strict=True)],
            by,
        )

    def gain(self, buffer: int, written: Bytes) -> None:
        """Bytes are written through a buffer."""
        self._clear(buffer, written)
        self.own[buffer] |= written

    def lose(self, victim: int, hit: Bytes, by: Stay, instr: Instr) -> None:
        """Bytes of a buffer are written over through another one."""
        self._clear(victim, hit)
        self.lost[victim] |= hit
        key = victim, id(by)
        self.by[key] = Written(by, instr, hit | (self.by[key].bytes if key in self.by else 0))

    def _clear(self, buffer: int, written: Bytes) -> None:
        """What was known of these bytes is over."""
        self.own[buffer] &= ~written
        self.lost[buffer] &= ~written
        for key, earlier in self.by.items():
            if key[0] == buffer:
                self.by[key] = Written(earlier.stay, earlier.instr, earlier.bytes & ~written)

    def same(self, other: State) -> bool:
        """Whether nothing new is known."""
        mine, theirs = ({key: written.bytes for key, written in state.by.items()} for state in (self, other))
        return (self.at, self.own, self.lost, mine) == (other.at, other.own, other.lost, theirs)


@dataclass(frozen=True)
class Touch:
    """An operand of an instruction that is a tile at a known address."""

    stay: Stay
    buffer: Buffer
    bytes: Bytes


def _is_same(one: Touch, other: Touch) -> bool:
    """Whether a tile and a slice of another one, or two slices, are the same elements at fixed addresses."""
    first, second = one.stay.tile.spec, other.stay.tile.spec
    alike = (first.form, first.dtype, first.stride) == (second.form, second.dtype, second.stride)
    return alike and one.bytes == other.bytes and _is_fixed(one.stay) and _is_fixed(other.stay)


class Walk:
    """Follows a program and collects the conflicts of its tiles."""

    def __init__(self, program: Program, target: str, grid: int | None) -> None:
        self.program, self.target = program, target
        self.reached = {id(stmt) for stmt, _ in reaches(program, grid)}
        self.placed = stays(program, grid)
        self.order = {id(stay): number for number, stay in enumerate(self.placed)}
        self.by_stmt: dict[int, list[Stay]] = {}
        for stay in self.placed:
            self.by_stmt.setdefault(id(stay.stmt), []).append(stay)
        self.buffers, self.buffer_of = _buffers(self.placed)
        self.pieces = Pieces(self.buffers, _cuts(program))
        self.all = [self.pieces.of(buffer, range(buffer.stay.tile.spec.nbytes)) for buffer in self.buffers]
        self.rivals = self._rivals()
        self.found: dict[tuple[int, int], Conflict] = {}
        self.visited = 0

    def run(self) -> list[Conflict]:
        """All conflicts, the faults among them first seen."""
        if self.buffers:
            self._block(self.program.body, State({}, [0] * len(self.buffers), [0] * len(self.buffers), {}))
        return sorted(self.found.values(), key=lambda each: (self.order[id(each.first)], self.order[id(each.second)]))

    def _rivals(self) -> list[list[Buffer]]:
        """By buffer: the others that share bytes with it."""
        found: list[list[Buffer]] = [[] for _ in self.buffers]
        for one, other in combinations(self.buffers, 2):
            fixed = _is_fixed(one.stay) and _is_fixed(other.stay)
            if self.all[one.number] & self.all[other.number] if fixed else meeting(one.stay, other.stay):
                found[one.number].append(other)
                found[other.number].append(one)
        return found

    def _hit(self, touch: Touch, other: Buffer) -> Bytes:
        """The bytes of another buffer that an access touches."""
        if _is_fixed(touch.stay) and _is_fixed(other.stay):
            return touch.bytes & self.all[other.number]
        return self.all[other.number] if touch.bytes and other in self.rivals[touch.buffer.number] else 0

    # --- along the program

    def _block(self, block: Block, state: State) -> State:
        self.visited += len(block)
        return fold(block, state, self._leaf, loop=self._loop, branch=self._branch)

    def _branch(self, branch: Branch, state: State) -> State:
        return self._block(branch.then, state.copy()).join(self._block(branch.otherwise, state.copy()))

    def _leaf(self, stmt: Leaf, state: State) -> State:
        if id(stmt) in self.reached:
            if isinstance(stmt, TileDecl | Assign):
                self._place(stmt, state)
            elif isinstance(stmt, Instr):
                self._execute(stmt, state)
        return state

    def _loop(self, loop: Loop, state: State) -> State:
        """Until another iteration tells nothing new. The body may run any number of times."""
        while True:
            joined = state.join(self._block(loop.body, state.copy()))
            if joined.same(state) or self.visited > MOST_VISITED:
                return joined
            state = joined

    def _place(self, stmt: TileDecl | Assign, state: State) -> None:
        """A tile lies somewhere, from now on. Where no other one is a handle of the place, nothing of it is kept."""
        name, here = stmt.name if isinstance(stmt, TileDecl) else stmt.tile, self.by_stmt.get(id(stmt), [])
        state.at[name] = here[0] if len(here) == 1 else None
        for stay in here:
            buffer = self.buffer_of[id(stay)]
            if buffer.names == {name}:
                state.own[buffer.number] = state.lost[buffer.number] = 0

    def _execute(self, instr: Instr, state: State) -> None:
        reads, writes = self._touches(instr, state)
        for touch in reads:
            self._read(touch, instr, state)
        for touch in writes:
            for other in reads:
                self._at_once(instr, touch, other)
        for one, other in combinations(writes, 2):
            if one.buffer is not other.buffer and self._hit(one, other.buffer) & other.bytes:
                self._report(one.stay, other.stay, f"{_line(instr)} writes both", is_fault=True)
        for touch in writes:
            self._write(touch, instr, state)

    def _touches(self, instr: Instr, state: State) -> tuple[list[Touch], list[Touch]]:
        access, reads, writes = access_of(instr.name), list[Touch](), list[Touch]()
        for use, how in ((use, access[n]) for n, use in all_operands(instr).items() if isinstance(use, TileUse)):
            stay = state.at.get(use.tile)
            if stay is not None:
                buffer = self.buffer_of[id(stay)]
                if how != "write":
                    reads.append(Touch(stay, buffer, self.pieces.of(buffer, _span(self.program, use))))
                if how != "read":
                    span = _span(self.program, use, is_whole=_writes_all(self.program, instr, use))
                    writes.append(Touch(stay, buffer, self.pieces.of(buffer, span)))
        return reads, writes

    def _read(self, touch: Touch, instr: Instr, state: State) -> None:
        mine = touch.buffer.number
        lost = state.lost[mine] & touch.bytes
        for (victim, _), written in state.by.items() if lost else ():
            if victim == mine and written.bytes & lost:
                how = f"{_line(written.instr)} writes over what {_line(instr)} reads through {touch.stay.tile.name}"
                self._report(touch.stay, written.stay, how, is_fault=True)
        for other in self.rivals[mine]:
            seen = state.own[other.number] & self._hit(touch, other) & ~state.own[mine]
            if seen:
                how = f"{_line(instr)} reads through {touch.stay.tile.name} what was written through the other"
                self._report(touch.stay, other.stay, how, is_fault=False)

    def _at_once(self, instr: Instr, written: Touch, read: Touch) -> None:
        """One instruction writes what it reads: as one buffer where it works in place, else not at all."""
        if written.stay.tile is read.stay.tile:  # one tile or slices of it, which the call itself is checked for
            return
        in_place = INSTRUCTIONS[instr.name].in_place.get(self.target)
        if written.buffer is read.buffer:
            shared = written.bytes & read.bytes and not in_place
        else:
            shared = self._hit(written, read.buffer) & read.bytes and not (in_place and _is_same(written, read))
        if shared:
            how = f"{_line(instr)} writes {written.stay.tile.name} while it reads {read.stay.tile.name}"
            self._report(written.stay, read.stay, how, is_fault=True)

    def _write(self, touch: Touch, instr: Instr, state: State) -> None:
        for other in self.rivals[touch.buffer.number]:
            hit = self._hit(touch, other) & (state.own[other.number] | state.lost[other.number])
            if hit:
                state.lose(other.number, hit, touch.stay, instr)
        state.gain(touch.buffer.number, touch.bytes)

    def _report(self, one: Stay, other: Stay, how: str, *, is_fault: bool) -> None:
        first, second = sorted((one, other), key=lambda stay: self.order[id(stay)])
        key = id(first), id(second)
        if first is not second and (key not in self.found or (is_fault and not self.found[key].is_fault)):
            self.found[key] = Conflict(first, second, how, is_fault)


def conflicts(program: Program, target: str, grid: int | None) -> list[Conflict]:
    """Pairs of tiles that share bytes: faults, and those worth a note."""
    return Walk(program, target, grid).run()


def sharing(program: Program, grid: int | None) -> dict[str, set[str]]:
    """The tiles that may share bytes with each tile, as far as addresses are known."""
    found: dict[str, set[str]] = {name: set() for name in program.tiles}
    for first, second in combinations(stays(program, grid), 2):
        if first.tile is not second.tile and meeting(first, second):
            found[first.tile.name].add(second.tile.name)
            found[second.tile.name].add(first.tile.name)
    return found


def _buffers(placed: Iterable[Stay]) -> tuple[list[Buffer], dict[int, Buffer]]:
    """The buffers of all stays, and which of them each stay is a handle of."""
    found: dict[object, list[Buffer]] = {}
    buffers, of = list[Buffer](), dict[int, Buffer]()
    for stay in placed:
        near = found.setdefault((stay.tile.spec.loc, int(stay.starts[0])), [])
        buffer = next((each for each in near if is_one_buffer(each.stay, stay)), None)
        if buffer is None:
            buffer = Buffer(len(buffers), stay)
            buffers.append(buffer)
            near.append(buffer)
        buffer.names.add(stay.tile.name)
        of[id(stay)] = buffer
    return buffers, of


def _span(program: Program, use: TileUse, *, is_whole: bool = False) -> range:
    """Bytes of a tile from the first to the last one of a valid region or slice; all where that is not known."""
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
    return INSTRUCTIONS[instr.name].writes_padding or program.tiles[use.tile].spec.pad is not Pad.Null


def _cuts(program: Program) -> dict[str, set[int]]:
    """Where accesses of each tile begin and end, in bytes from its start."""
    found = {name: {0, tile.spec.nbytes} for name, tile in program.tiles.items()}
    for stmt in walk(program.body):
        for use in stmt.tiles if isinstance(stmt, Instr) else ():
            for span in (_span(program, use), _span(program, use, is_whole=True)):
                found[use.tile] |= {span.start, span.stop}
    return found


def _line(instr: Instr) -> str:
    """An instruction, for messages."""
    return f"{instr.name} (line {instr.where.line})" if instr.where else instr.name
