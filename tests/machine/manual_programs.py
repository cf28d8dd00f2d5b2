"""Random manual programs of a few instructions, with right, wrong and missing flags; and the cells that each accesses.

All numbers are int32 and every memory is counted in cells of that size. Rows are 8 cells, one block of 32 bytes. A few
tiles lie in the first cells of UB, apart or over each other; what they hold can end up as an index, which is clamped or
skipped when it is out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np

from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import Coalesce, GatherOOB, IotaOrder, PtoEnum, ScatterAtomicOp, ScatterOOB, TileType
from ptokit.program.expr import Var
from ptokit.program.instr_calls import all_operands
from ptokit.program.ir import (
    Argument,
    Barrier,
    Flag,
    Instr,
    LoadScalar,
    Loop,
    Number,
    Operand,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
)
from ptokit.program.order import order
from ptokit.target import profile
from tests.machine.schedules import Access
from tests.program.happens_before import show

Array = np.ndarray[Any, np.dtype[np.int32]]

I32 = dtype("int32")
WIDTH = 8
ROWS = 8
"""Rows of every argument."""
CELL = 4
POISON = -1
"""What a cell reads as that nothing has written."""
UB = "UB"
PIPES = ("S", "V", "MTE2", "MTE3")
TARGETS = ("a2a3", "a5")


@dataclass(frozen=True)
class Sample:
    """A program and what it is launched with."""

    program: Program
    target: str
    arrays: Mapping[str, Array]

    def __str__(self) -> str:
        return f"{self.target}\n{show(self.program)}"


def repeat(of: Sample, iterations: int) -> tuple[Sample, Sample]:
    """The program with its instructions and flags in a loop, and the same unrolled."""
    program, first = of.program, len(of.program.tiles)
    tiles, rest = program.body[:first], program.body[first:]
    again = (*tiles, Loop(Var("turn"), 0, iterations, 1, rest))
    return replace(of, program=replace(program, body=again)), replace(
        of, program=replace(program, body=tiles + rest * iterations)
    )


WORKSPACE = "w"
"""A tile that is only used as a workspace."""
COUNTED = (544 // CELL // WIDTH, WIDTH)
"""Rows and columns of what `tci` writes there."""


def with_workspace(of: Sample, seed: int) -> Sample:
    """The program with an instruction that has a workspace, somewhere, without flags for it. The workspace lies apart
    from the other tiles or over some of them, and has the bytes that the headers of A2/A3 write."""
    dice, body = Random(seed), of.program.body
    known = [tile.addresses[0] for tile in of.program.tiles.values()]
    spec = TileSpec(I32, TileType.Vec, *COUNTED, *COUNTED)
    tile = TileDecl(WORKSPACE, spec, (dice.choice([*known, 1024, 1024, 1024]),), fresh=False)
    count = Instr("tci", (TileUse(dice.choice("ij"), (1, 2)), Number(I32, 1)), (IotaOrder.Ascending,),
                  workspace=TileUse(WORKSPACE, COUNTED))  # fmt: skip
    at = dice.randint(len(TILES), len(body))
    changed = (tile, *body[:at], count, *body[at:])
    lines = tuple(replace(stmt, where=Where("program", 1 + k)) for k, stmt in enumerate(changed))
    return replace(of, program=replace(of.program, body=lines))


# --- Drawing -------------------------------------------------------------------------------------------------

DATA, ROW_INDEX, CELL_INDEX = "data", "rows", "cells"
TILES = {"a": DATA, "b": DATA, "c": DATA, "i": ROW_INDEX, "j": ROW_INDEX, "k": CELL_INDEX}
SHAPES = {DATA: (2, WIDTH), CELL_INDEX: (2, WIDTH), ROW_INDEX: (1, WIDTH)}
"""Rows and columns of tiles."""
VALID = {DATA: (2, WIDTH), CELL_INDEX: (2, WIDTH), ROW_INDEX: (1, 2)}


def sample(seed: int) -> Sample:
    """One of the random programs."""
    return _Draft(Random(seed)).sample()


@dataclass
class _Draft:
    """Draws one program."""

    dice: Random
    events: int = 0
    scalars: int = 0
    tiles: dict[str, TileDecl] = field(default_factory=dict)

    def sample(self) -> Sample:
        """Tiles, instructions, flags, data."""
        target = self.dice.choice(TARGETS)
        self.place_tiles()
        works = self.chained([self.statement() for _ in range(self.dice.randint(2, 8))])
        arguments = tuple(Argument(name, I32, (ROWS, WIDTH), (WIDTH, 1)) for name in "xyr")
        program = Program("kernel", arguments, (*self.tiles.values(), *works), mode="auto")
        body = self.with_flags(program, target)
        lines = tuple(replace(stmt, where=Where("program", 1 + k)) for k, stmt in enumerate(body))
        return Sample(replace(program, body=lines, mode="manual"), target, self.arrays())

    def arrays(self) -> dict[str, Array]:
        """Small numbers, most of them good indices; a few are negative or too large."""
        values = [*range(6), 0, 1, 1000, -1]
        return {name: np.array(self.dice.choices(values, k=ROWS * WIDTH), "int32").reshape(ROWS, WIDTH)
                for name in "xyr"}  # fmt: skip

    def place_tiles(self) -> None:
        """Adjacent tiles, or tiles at random addresses."""
        is_apart, end = self.dice.random() < 0.6, 0
        for name, kind in TILES.items():
            rows, cols = SHAPES[kind]
            start = end if is_apart else self.dice.randrange(0, 10) * WIDTH
            end += rows * cols
            spec = TileSpec(I32, TileType.Vec, rows, cols, *VALID[kind])
            self.tiles[name] = TileDecl(name, spec, (start * CELL,), fresh=False)

    # Instructions

    def statement(self) -> Stmt:
        """One instruction, or a number that the scalar pipe reads."""
        if self.dice.random() < 0.04:
            return self.scalar()
        makers = (self.load, self.load, self.gather, self.gather, self.scatter, self.store, self.store, self.add)
        drawn = self.dice.choice(makers)()
        return self.load() if self.overlaps_itself(drawn) else drawn

    def overlaps_itself(self, instr: Instr) -> bool:
        """Whether two tiles of an instruction share cells, so that its lanes depend on one another."""
        tiles = [self.tiles[name] for name in dict.fromkeys(use.tile for use in instr.tiles)]
        return any(_overlap(one, other) for one, other in combinations(tiles, 2))

    def tile(self, kind: str) -> TileUse:
        """A tile of a kind."""
        return TileUse(self.dice.choice([name for name, other in TILES.items() if other == kind]), VALID[kind])

    def rows_of(self, argument: str, count: int) -> View:
        return View(argument, (self.dice.randint(0, 3), 0), (count, WIDTH))

    def load(self) -> Instr:
        kind = self.dice.choice((DATA, DATA, ROW_INDEX, CELL_INDEX))
        use, argument = self.tile(kind), "xy" if kind == DATA else "r"
        if kind == ROW_INDEX:
            source = View(argument, (self.dice.randint(0, 3), 0), use.valid)
        else:
            source = self.rows_of(self.dice.choice(argument), 2)
        return _instr("tload", use, source)

    def store(self) -> Instr:
        return _instr("tstore", self.rows_of(self.dice.choice("xyyr"), 2), self.tile(DATA))

    def add(self) -> Instr:
        return _instr("tadd", self.tile(DATA), self.tile(DATA), self.tile(DATA))

    def gather(self) -> Instr:
        mode, index = self.dice.choice(((Coalesce.Row, ROW_INDEX), (Coalesce.Elem, CELL_INDEX)))
        table = self.rows_of(self.dice.choice("xyr"), self.dice.randint(1, 3))
        idx, dst = self.tile(index), self.tile(DATA)
        if mode is Coalesce.Elem and self.dice.random() < 0.3:
            idx, dst = replace(idx, valid=(1, 1)), replace(dst, valid=(1, 1))
        return _instr("mgather", dst, table, idx, coalesce=mode, oob=GatherOOB.Clamp)

    def scatter(self) -> Instr:
        mode, index = self.dice.choice(((Coalesce.Row, ROW_INDEX), (Coalesce.Elem, CELL_INDEX)))
        table = self.rows_of(self.dice.choice("xyyr"), self.dice.randint(1, 3))
        atomic = self.dice.choice((ScatterAtomicOp.NONE, ScatterAtomicOp.Add))
        oob = self.dice.choice((ScatterOOB.Clamp, ScatterOOB.Skip))
        return _instr("mscatter", table, self.tile(DATA), self.tile(index), coalesce=mode, atomic=atomic, oob=oob)

    def scalar(self) -> LoadScalar:
        self.scalars += 1
        source = View(self.dice.choice("xy"), (self.dice.randint(0, 4), self.dice.randint(0, 7)), (1, 1))
        return LoadScalar(Var(f"s{self.scalars}"), source)

    def chained(self, works: list[Stmt]) -> list[Stmt]:
        """At random, an instruction that waits for the end of an earlier one."""
        places = [k for k, stmt in enumerate(works) if isinstance(stmt, Instr)]
        if len(places) > 1 and self.dice.random() < 0.2:
            first, second = sorted(self.dice.sample(places, 2))
            works[first], works[second] = replace(works[first], event=1), replace(works[second], waits=(1,))  # type: ignore[call-arg]
        return works

    # Flags

    def with_flags(self, program: Program, target: str) -> list[Stmt]:
        """Flags as they should be, mostly with some harm done to them; or flags at random."""
        if self.dice.random() < 0.2:
            body = list(program.body)
            for _ in range(self.dice.randint(0, 4)):
                body = self.with_pair(body)
            return body
        body = [_by_hand(stmt) for stmt in order(program, profile(target)).body]
        for _ in range(self.dice.choice((0, 1, 1, 1, 2, 3))):
            body = self.dice.choice(self.harms())(body)
        return body

    def harms(self) -> tuple[Callable[[list[Stmt]], list[Stmt]], ...]:
        """What can be done to flags; some of it does no harm."""
        return (self.drop_pair, self.drop_pair, self.drop_end, self.double, self.reverse_flag, self.reverse_pair,
                self.reverse_pair, self.renumber, self.move, self.move, self.swap, self.with_pair, self.with_pair,
                self.with_barrier)  # fmt: skip

    def flag(self, body: list[Stmt]) -> int | None:
        """The place of some flag."""
        places = [k for k, stmt in enumerate(body) if isinstance(stmt, Flag)]
        return self.dice.choice(places) if places else None

    def drop_end(self, body: list[Stmt]) -> list[Stmt]:
        """A set or a wait is missing."""
        at = self.flag(body)
        return body if at is None else body[:at] + body[at + 1 :]

    def drop_pair(self, body: list[Stmt]) -> list[Stmt]:
        """A flag is missing."""
        ends = _ends(body, self.flag(body))
        return [stmt for k, stmt in enumerate(body) if k not in ends]

    def double(self, body: list[Stmt]) -> list[Stmt]:
        """Repeat the set, the wait or both of a flag."""
        at = self.flag(body)
        ends = self.dice.choice((_ends(body, at), [] if at is None else [at]))
        for k in sorted(ends, reverse=True):
            body = [*body[: k + 1], body[k], *body[k + 1 :]]
        return body

    def reverse_flag(self, body: list[Stmt]) -> list[Stmt]:
        """A flag from the other pipe."""
        body = list(body)
        for k in _ends(body, self.flag(body)):
            stmt = body[k]
            assert isinstance(stmt, Flag)
            body[k] = replace(stmt, src=stmt.dst, dst=stmt.src)
        return body

    def reverse_pair(self, body: list[Stmt]) -> list[Stmt]:
        """A flag that makes what stands earlier wait for what stands later."""
        ends = _ends(body, self.flag(body))
        if len(ends) < 2:
            return body
        (a, b), chosen = ends, body[ends[0]]
        assert isinstance(chosen, Flag)
        turned = replace(chosen, action="wait", src=chosen.dst, dst=chosen.src)
        first = next((k for k in range(a, 0, -1) if isinstance(body[k], Instr)), a)
        last = next((k for k in range(b, len(body)) if isinstance(body[k], Instr)), b)
        kept = {k: [stmt] * (k not in ends) for k, stmt in enumerate(body)}
        kept[first].insert(0, turned)
        kept[last].append(replace(turned, action="set"))
        return [stmt for stmts in kept.values() for stmt in stmts]

    def renumber(self, body: list[Stmt]) -> list[Stmt]:
        """One event for all flags of two pipes, or another one for one end."""
        at = self.flag(body)
        if at is None:
            return body
        chosen = body[at]
        assert isinstance(chosen, Flag)
        if self.dice.random() < 0.3:
            return [*body[:at], replace(chosen, event=3), *body[at + 1 :]]
        return [replace(stmt, event=0) if _same_pipes(stmt, chosen) else stmt for stmt in body]  # type: ignore[call-arg]

    def move(self, body: list[Stmt]) -> list[Stmt]:
        """Move the set or the wait of a flag."""
        at = self.flag(body)
        if at is None:
            return body
        rest = body[:at] + body[at + 1 :]
        to = min(len(rest), max(len(TILES), at + self.dice.choice((-3, -2, -1, 1, 2, 3))))
        return [*rest[:to], body[at], *rest[to:]]

    def swap(self, body: list[Stmt]) -> list[Stmt]:
        """The wait stands where the set was."""
        ends, body = _ends(body, self.flag(body)), list(body)
        if len(ends) == 2:
            a, b = ends
            body[a], body[b] = body[b], body[a]
        return body

    def with_pair(self, body: list[Stmt]) -> list[Stmt]:
        """A flag between two pipes, wherever."""
        src, dst = self.dice.sample(PIPES, 2)
        first, second = sorted(self.dice.randint(len(TILES), len(body)) for _ in range(2))
        event = self.dice.choice((0, 0, 1, 7))
        ends = Flag("set", src, dst, event), Flag("wait", src, dst, event)
        return [*body[:first], ends[0], *body[first:second], ends[1], *body[second:]]

    def with_barrier(self, body: list[Stmt]) -> list[Stmt]:
        """A barrier, wherever; one pipe's alone changes nothing."""
        at = self.dice.randint(len(TILES), len(body))
        return [*body[:at], Barrier(self.dice.choice(("ALL", "ALL", "V"))), *body[at:]]


def _instr(name: str, *operands: Operand, **modifiers: PtoEnum) -> Instr:
    words = tuple(modifiers.get(modifier.name) for modifier in INSTRUCTIONS[name].modifiers)
    return Instr(name, operands, words)


def _overlap(one: TileDecl, other: TileDecl) -> bool:
    (a,), (b,) = one.addresses, other.addresses
    assert isinstance(a, int) and isinstance(b, int)
    return a < b + other.spec.nbytes and b < a + one.spec.nbytes


def _by_hand(stmt: Stmt) -> Stmt:
    """A flag that counts as the author's."""
    return replace(stmt, auto=False) if isinstance(stmt, Flag | Barrier) else stmt


def _same_pipes(stmt: Stmt, flag: Flag) -> bool:
    return isinstance(stmt, Flag) and (stmt.src, stmt.dst) == (flag.src, flag.dst)


def _ends(body: list[Stmt], at: int | None) -> list[int]:
    """The places of a flag's end and of the nearest other one."""
    if at is None:
        return []
    chosen = body[at]
    assert isinstance(chosen, Flag)
    other = replace(chosen, action="wait" if chosen.action == "set" else "set")
    places = sorted((k for k, stmt in enumerate(body) if stmt == other), key=lambda k: abs(k - at))
    return sorted([at, *places[:1]])


# --- What is touched -----------------------------------------------------------------------------------------


def touched(sample: Sample) -> list[dict[str, Access]]:
    """What every statement does to memory when they run one after the other: accesses by operand."""
    memory = _Memory(sample)
    return [memory.run(stmt) for stmt in sample.program.body]


def results(sample: Sample) -> dict[str, Array]:
    """The arguments after a run in the order of the program."""
    memory = _Memory(sample)
    for stmt in sample.program.body:
        memory.run(stmt)
    return {name: memory.cells[name].reshape(ROWS, WIDTH) for name in sample.arrays}


class _Memory:
    """The cells of all memories while a program runs, one statement and one lane after the other."""

    def __init__(self, sample: Sample) -> None:
        self.cells = {name: array.ravel().copy() for name, array in sample.arrays.items()}
        self.cells[UB] = np.full(4096, POISON, "int32")
        self.tiles = sample.program.tiles

    def run(self, stmt: Stmt) -> dict[str, Access]:
        """Execute a statement; its accesses."""
        if isinstance(stmt, LoadScalar):
            return {"source": Access(*self.place(stmt.source), "read")}
        if not isinstance(stmt, Instr):
            return {}
        modifiers = dict(zip((m.name for m in INSTRUCTIONS[stmt.name].modifiers), stmt.modifiers, strict=True))
        return RUN[stmt.name](self, all_operands(stmt), modifiers)

    def lanes(self, operand: Operand) -> tuple[str, list[list[int]]]:
        """The memory of an operand and its cells, row by row."""
        if isinstance(operand, View):
            (row, col), (rows, cols) = operand.starts, operand.sizes
            start, memory = row * WIDTH + col, operand.argument  # type: ignore[operator]
        else:
            assert isinstance(operand, TileUse)
            (rows, cols), tile = operand.valid, self.tiles[operand.tile]
            start, memory = tile.addresses[0] // CELL, UB  # type: ignore[operator]
        return memory, [[start + r * WIDTH + c for c in range(cols)] for r in range(rows)]  # type: ignore[arg-type]

    def place(self, operand: Operand) -> tuple[str, frozenset[int]]:
        """The memory of an operand and all of its cells."""
        memory, rows = self.lanes(operand)
        return memory, frozenset(cell for row in rows for cell in row)

    def move(self, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]) -> dict[str, Access]:
        """`tload` and `tstore`."""
        (to, dst), (source, src) = self.lanes(operands["dst"]), self.lanes(operands["src"])
        self.cells[to][dst] = self.cells[source][src]
        return self.whole(operands, "dst")

    def add(self, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]) -> dict[str, Access]:
        """`tadd`; sums wrap around."""
        dst, one, other = (self.lanes(operands[name])[1] for name in ("dst", "src0", "src1"))
        ub = self.cells[UB]
        ub[dst] = ub[one] + ub[other]
        return self.whole(operands, "dst")

    def count(self, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]) -> dict[str, Access]:
        """`tci` from 1, with a workspace."""
        (cells,) = self.lanes(operands["dst"])[1]
        self.cells[UB][cells] = np.arange(1, 1 + len(cells))
        return {name: Access(*self.place(operands[name]), "write") for name in ("dst", "tmp")}

    def whole(self, operands: Mapping[str, Operand], written: str) -> dict[str, Access]:
        """All cells of all operands, one of which is written."""
        return {name: Access(*self.place(operand), "write" if name == written else "read")
                for name, operand in operands.items()}  # fmt: skip

    def gather(self, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]) -> dict[str, Access]:
        """`mgather`."""
        name, pairs = operands["table"].argument, list(self.pairs("dst", operands, modifiers))  # type: ignore[union-attr]
        for mine, theirs in pairs:
            self.cells[UB][mine] = self.cells[name][theirs]
        read = Access(name, frozenset(theirs for _, theirs in pairs), "read")
        return self.whole(operands, "dst") | {"table": read}

    def scatter(self, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]) -> dict[str, Access]:
        """`mscatter`."""
        name, pairs = operands["table"].argument, list(self.pairs("src", operands, modifiers))  # type: ignore[union-attr]
        adds = modifiers["atomic"] is ScatterAtomicOp.Add
        for mine, theirs in pairs:
            self.cells[name][theirs] = self.cells[UB][mine] + (self.cells[name][theirs] if adds else 0)
        written = Access(name, frozenset(theirs for _, theirs in pairs), "add" if adds else "write")
        return self.whole(operands, "table") | {"table": written}

    def pairs(
        self, tile: str, operands: Mapping[str, Operand], modifiers: Mapping[str, Any]
    ) -> Iterator[tuple[int, int]]:
        """Every lane's cell of the tile with its cell of the table, where it has one."""
        table, rows = self.lanes(operands["table"])[1], self.lanes(operands[tile])[1]
        index = [int(value) & 0xFFFFFFFF for cells in self.lanes(operands["idx"])[1] for value in self.cells[UB][cells]]
        if modifiers["coalesce"] is Coalesce.Row:
            lanes, targets = rows, table
        else:
            lanes, targets = ([[cell] for row in of for cell in row] for of in (rows, table))
        for lane, number in zip(lanes, index, strict=True):
            if number < len(targets) or modifiers["oob"] is not ScatterOOB.Skip:
                yield from zip(lane, targets[min(number, len(targets) - 1)], strict=True)


RUN: dict[str, Callable[[_Memory, Mapping[str, Operand], Mapping[str, Any]], dict[str, Access]]] = {
    "tload": _Memory.move,
    "tstore": _Memory.move,
    "tadd": _Memory.add,
    "mgather": _Memory.gather,
    "mscatter": _Memory.scatter,
    "tci": _Memory.count,
}
