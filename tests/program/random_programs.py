"""Programs as plain data: short constructors, random programs, and runs of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import DType, dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, Coalesce, PtoEnum, ScatterAtomicOp, SLayout, TileType
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Expr, Var, apply
from ptokit.program.ir import (
    Argument,
    Barrier,
    Block,
    Branch,
    Flag,
    Instr,
    Integer,
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
from tests.program.happens_before import show

F32, F16, I32 = dtype("float32"), dtype("float16"), dtype("int32")

# --- Short ways to write a program ---------------------------------------------------------------------------


def vec(name: str, rows: int = 8, cols: int = 64, kind: DType | str = F32, **more: Any) -> TileDecl:
    """A tile in UB."""
    return TileDecl(name, TileSpec(dtype(kind), TileType.Vec, rows, cols, rows, cols), **more)


CUBE_FORMS = {
    TileType.Mat: (F16, BLayout.ColMajor, SLayout.RowMajor, 512),
    TileType.Left: (F16, BLayout.ColMajor, SLayout.RowMajor, 512),
    TileType.Right: (F16, BLayout.RowMajor, SLayout.ColMajor, 512),
    TileType.Acc: (F32, BLayout.ColMajor, SLayout.RowMajor, 1024),
}
"""Element type and layout of the cube's tiles."""


def cube_tile(name: str, loc: TileType, size: int = 32, **more: Any) -> TileDecl:
    """A square tile of the cube core."""
    kind, blayout, slayout, fractal = CUBE_FORMS[loc]
    return TileDecl(name, TileSpec(kind, loc, size, size, size, size, blayout, slayout, fractal), **more)


def whole(tile: TileDecl) -> TileUse:
    """All of a tile."""
    return TileUse(tile.name, (tile.spec.rows, tile.spec.cols))


def view(argument: str, start: Expr = 0, rows: Expr = 8, cols: int = 64) -> View:
    """Rows of a matrix, from `start` on."""
    return View(argument, (start, 0), (rows, cols))


def instr(name: str, *operands: TileDecl | Operand, event: int | None = None, waits: tuple[int, ...] = (),
          **modifiers: PtoEnum) -> Instr:  # fmt: skip
    """An instruction; a tile means all of it, a modifier that is not named has its default."""
    uses = tuple(whole(operand) if isinstance(operand, TileDecl) else operand for operand in operands)
    words = tuple(modifiers.get(modifier.name) for modifier in INSTRUCTIONS[name].modifiers)
    return Instr(name, uses, words, event, waits)


def program_of(*body: Stmt, arguments: tuple[Argument | Integer, ...] = (), cols: int = 64) -> Program:
    """A program over the usual matrices and the whole numbers that it is given."""
    return Program("kernel", (*matrices(cols), *arguments), body)


def matrix(name: str, cols: int, kind: DType = F32, memory: str = "") -> Argument:
    """A packed matrix in global memory."""
    return Argument(name, kind, (4096, cols), (cols, 1), memory=memory)


def matrices(cols: int = 64) -> tuple[Argument, ...]:
    """`x`, `y`, `z` of numbers, `w` over the memory of `x`, `rows` and `cells` of indices, `a` for the cube."""
    return (
        *(matrix(name, cols) for name in "xyz"),
        matrix("w", cols, memory="x"),
        matrix("rows", 4096, I32),
        matrix("cells", cols, I32),
        matrix("a", 32, F16),
        matrix("c", 32),
    )


def flags(src: str, dst: str, event: Expr = 0) -> tuple[Flag, Flag]:
    """A set and its wait."""
    return Flag("set", src, dst, event), Flag("wait", src, dst, event)


# --- Runs ----------------------------------------------------------------------------------------------------

BITS = 60
DICE = random.Random(1)
VALUES = {
    "n": (2, 5, 0, 1, 3, 5, 4),
    "c": (1, 0),
    "m": (0, 1, 2, 3),
    "b": (*((1 << BITS) - 1, 0) * 100, *(DICE.getrandbits(BITS) for _ in range(200))),
}
"""Ranges of the arguments of a program, by the first letter: trip counts of a loop, conditions, offsets, and
bits that each iteration tests."""


@dataclass(frozen=True)
class Run:
    """One block, and the numbers it is given."""

    block_idx: int
    block_num: int
    integers: Mapping[str, int]
    salt: int
    """Chooses what the scalars in memory are."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The run-time numbers for `check`."""
        salted = {"scalars": lambda argument, place: (sum(place) // 4 + self.salt) % 4}
        return {"block_idx": self.block_idx, "block_num": self.block_num, "integers": self.integers, **salted}


def runs(program: Program, count: int) -> Iterator[Run]:
    """Runs of a program: first all numbers alike, then a mixture, the same ones every time and no run twice."""
    names = [argument.name for argument in program.arguments if isinstance(argument, Integer)]
    dice, seen = random.Random(0), set()
    for k in range(count):
        given = {name: dice.choice(VALUES[name[0]]) for name in names}
        if k < 5:
            given = {name: VALUES[name[0]][min(k, len(VALUES[name[0]]) - 1)] for name in names}
        block, salt = k % 4, k // 4 % 4
        if (block, salt, *given.values()) not in seen:
            seen.add((block, salt, *given.values()))
            yield Run(block, 4, given, salt)


# --- Random programs -----------------------------------------------------------------------------------------

ROW, CELL, DATA = "rows", "cells", "data"
"""What a tile holds: an index for each row, an index for each element, or numbers."""
KINDS = {tile: tile.text for tile in (TileType.Mat, TileType.Left, TileType.Right, TileType.Acc)}


@dataclass
class Scope:
    """What a statement can use at its place."""

    tiles: dict[str, list[TileDecl]]
    filled: set[str]
    """Tiles that have been written to on every way to here."""
    offsets: list[Expr] = field(default_factory=lambda: [0, 1, 2])
    """Where a view may begin, in blocks of rows."""
    conditions: list[Expr] = field(default_factory=list)
    loops: int = 0
    arms: int = 0
    buffers: int = 1
    iteration: Expr = 0
    """The number of the iteration, all loops together."""

    def inner(self, **changes: Any) -> Scope:
        """The scope of a block inside."""
        tiles = {kind: list(tiles) for kind, tiles in self.tiles.items()}
        offsets, conditions = list(self.offsets), list(self.conditions)
        return replace(self, tiles=tiles, filled=set(self.filled), offsets=offsets, conditions=conditions, **changes)


class Writer:
    """Writes a random program, statement by statement.

    In a `free` program every decision is free of all others, in every iteration of a loop too, so that nothing that
    looks possible is impossible. Otherwise conditions and trip counts hang together and come from anywhere.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], *, free: bool) -> None:
        self.draw, self.free = draw, free
        self.integers: list[Integer] = []
        self.count = 0
        self.left = self.pick(range(3, 20))
        """Statements still to be written."""
        self.rows, self.cols = 8, 64

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def integer(self, stem: str) -> Var:
        """A number that the launch passes in."""
        self.integers.append(Integer(self.name(stem)))
        return self.integers[-1].var

    # Blocks, loops and branches

    def block(self, scope: Scope, most: int) -> Block:
        """A few statements."""
        body: list[Stmt] = []
        for _ in range(self.pick(range(1, most + 1))):
            if self.left <= 0:
                break
            self.left -= 1
            body += self.pick(self.forms(scope))(scope)
        return tuple(body)

    def forms(self, scope: Scope) -> list[Callable[[Scope], list[Stmt]]]:
        """What may be written here; what is listed more often comes more often."""
        loops = [self.loop, self.loop] if scope.loops < 2 else []
        branches = [self.branch] if scope.arms < (2 if self.free else 4) else []  # deep arms are rarely taken twice
        return [self.plain, self.plain, self.plain, self.chained, *loops, *branches]

    def plain(self, scope: Scope) -> list[Stmt]:
        """One of the plain statements."""
        return self.pick(self.statements())(scope)

    def statements(self) -> list[Callable[[Scope], list[Stmt]]]:
        """Plain statements."""
        raise NotImplementedError

    def declarations(self, scope: Scope) -> list[Stmt]:
        """New tiles, which the scope then has."""
        raise NotImplementedError

    def declared(self, scope: Scope, kind: str, make: Callable[..., TileDecl], *args: Any) -> TileDecl:
        """A new tile of a kind."""
        tile = make(self.name(kind[0]), *args, buffers=scope.buffers)
        scope.tiles.setdefault(kind, []).insert(0, tile)
        return tile

    def loop(self, scope: Scope) -> list[Stmt]:
        """A loop, with one or two or three copies of the tiles in it."""
        var, buffers = Var(self.name("i")), self.pick((1, 2, 3))
        start, step = self.pick((0, 0, 1)), self.pick((1, 1, 2))
        steps: list[Expr] = []
        tests: list[Expr] = []
        if not self.free:  # blocks of memory that meet in one iteration count as meeting in all: not minimal
            steps += [var, apply("mul", var, 2), apply("add", var, 1), apply("mod", var, 2)]
            tests += [apply("eq", var, start), apply("eq", apply("mod", var, 2), 0)]
        iteration = apply("add", apply("mul", scope.iteration, 12), var)
        inner = scope.inner(loops=scope.loops + 1, buffers=buffers, iteration=iteration)
        inner.offsets += steps
        inner.conditions += tests
        declarations = self.declarations(inner) if self.pick((True, True, False)) else []
        stop = apply("add", apply("mul", self.trips(scope), step), start)
        return [Loop(var, start, stop, step, (*declarations, *self.block(inner, 5)), buffers)]

    def trips(self, scope: Scope) -> Expr:
        """How often a loop runs."""
        count: Expr = self.pick((0, 1, 2, 3, 4, -1, -1, -1))
        if count != -1:
            return count
        given = self.decision(scope, 2) if scope.loops else self.integer("n")
        if self.free:
            return given
        return self.pick((given, apply("min", given, 2), BLOCK_IDX, apply("sub", BLOCK_NUM, BLOCK_IDX)))

    def decision(self, scope: Scope, bits: int) -> Expr:
        """A few bits that every iteration takes from an argument of the launch."""
        shift = apply("mod", apply("mul", scope.iteration, bits), BITS)
        return apply("mod", apply("shr", self.integer("b"), shift), 1 << bits)

    def branch(self, scope: Scope) -> list[Stmt]:
        """One way or the other."""
        fresh = self.decision(scope, 1) if scope.loops else apply("ne", self.integer("c"), 0)
        options = [fresh] if self.free else [fresh, apply("eq", BLOCK_IDX, 0), *scope.conditions]
        condition = self.pick(options)
        then = self.block(scope.inner(arms=scope.arms + 1), 3)
        otherwise = self.block(scope.inner(arms=scope.arms + 1), 2) if self.pick((False, True)) else ()
        return [Branch(condition, then, otherwise)]

    def chained(self, scope: Scope) -> list[Stmt]:
        """Two instructions, the second of which waits for the end of the first."""
        pair = [*self.plain(scope), *self.plain(scope)]
        first, second = pair[0], pair[-1]
        if not (isinstance(first, Instr) and isinstance(second, Instr)) or self.pick((True, True, False)):
            return pair
        self.count += 1
        return [replace(first, event=self.count), *pair[1:-1], replace(second, waits=(self.count,))]

    # Operands

    def target(self, scope: Scope, kind: str) -> TileDecl:
        """A tile to write to."""
        tile = self.pick(scope.tiles[kind])
        scope.filled.add(tile.name)
        return tile

    def source(self, scope: Scope, kind: str, out: list[Stmt]) -> TileDecl:
        """A tile to read; an uninitialised one is filled first."""
        tile = self.pick(scope.tiles[kind])
        if tile.name not in scope.filled:
            scope.filled.add(tile.name)
            out += self.fill(scope, kind, tile)
        return tile

    def fill(self, scope: Scope, kind: str, tile: TileDecl) -> list[Stmt]:
        """Statements that give a tile its first content."""
        raise NotImplementedError

    def start(self, scope: Scope, of: int) -> Expr:
        """Where a view begins: whole blocks of rows, or half of one."""
        offsets = [*scope.offsets, BLOCK_IDX, -1]
        offset = self.pick(offsets)
        if offset == -1:
            offset = self.integer("m")
        return apply("mul", offset, self.pick((of, of, of // 2)))


class VectorWriter(Writer):
    """Programs of the vector core."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], *, free: bool) -> None:
        super().__init__(draw, free=free)
        self.rows, self.cols = self.pick(((8, 64), (8, 64), (64, 256)))  # four of the large tiles fill UB
        self.names = self.pick(("xyz", "xyz", "xw"))
        self.free_ids = [7, 6, 5]

    def program(self) -> Program:
        """A program, with hand-made flags now and then."""
        scope = Scope({}, set())
        declarations = [*self.declarations(scope), *self.declarations(scope)]
        body = [*self.block(scope, 4), *self.by_hand(), *self.block(scope, 4), *self.by_hand(), *self.block(scope, 4)]
        return program_of(*declarations, *body, arguments=tuple(self.integers), cols=self.cols)

    def by_hand(self) -> list[Stmt]:
        """A barrier or a flag of the user's; mostly none."""
        kind = self.pick(("", "", "", "", "barrier", "flag"))
        if kind == "flag":
            src, dst = self.pick((("MTE2", "V"), ("V", "MTE3"), ("MTE3", "MTE2"), ("V", "S")))
            return list(flags(src, dst, self.free_ids.pop()))
        return [Barrier("ALL")] if kind else []

    def declarations(self, scope: Scope) -> list[Stmt]:
        return [
            self.declared(scope, DATA, vec, self.rows, self.cols),
            self.declared(scope, ROW, vec, 1, self.rows, I32),
            self.declared(scope, CELL, vec, self.rows, self.cols, I32),
        ]

    def statements(self) -> list[Callable[[Scope], list[Stmt]]]:
        always = [self.load, self.store, self.add, self.gather, self.scatter, self.shuffle, self.store_index]
        return always if self.free else [*always, self.scalar, self.small_gather]

    def block_of(self, scope: Scope) -> View:
        return view(self.pick(self.names), self.start(scope, self.rows), self.rows, self.cols)

    def table(self, scope: Scope) -> View:
        return view(self.pick(self.names), self.start(scope, self.rows), 2 * self.rows, self.cols)

    def fill(self, scope: Scope, kind: str, tile: TileDecl) -> list[Stmt]:
        if kind == DATA:
            return [instr("tload", tile, self.block_of(scope))]
        return [instr("tload", tile, self.indices(scope, kind))]

    def indices(self, scope: Scope, kind: str) -> View:
        """The layout of indices: contiguous, or one for each element."""
        start = self.start(scope, self.rows)
        if kind == ROW:
            return View("rows", (0, start), (1, self.rows))
        return view("cells", start, self.rows, self.cols)

    def load(self, scope: Scope) -> list[Stmt]:
        kind = self.pick((DATA, DATA, ROW, CELL))
        return self.fill(scope, kind, self.target(scope, kind))

    def store(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        tile = self.source(scope, DATA, out)
        return [*out, instr("tstore", self.block_of(scope), tile)]

    def store_index(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        kind = self.pick((ROW, CELL))
        tile = self.source(scope, kind, out)
        return [*out, instr("tstore", self.indices(scope, kind), tile)]

    def add(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        one, other = self.source(scope, DATA, out), self.source(scope, DATA, out)
        return [*out, instr("tadd", self.target(scope, DATA), one, other)]

    def gather(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        kind, mode = self.pick(((ROW, Coalesce.Row), (CELL, Coalesce.Elem)))
        idx = self.source(scope, kind, out)
        return [*out, instr("mgather", self.target(scope, DATA), self.table(scope), idx, coalesce=mode)]

    def scatter(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        kind, mode = self.pick(((ROW, Coalesce.Row), (CELL, Coalesce.Elem)))
        idx, src = self.source(scope, kind, out), self.source(scope, DATA, out)
        atomic = self.pick((ScatterAtomicOp.NONE, ScatterAtomicOp.Add))
        return [*out, instr("mscatter", self.table(scope), src, idx, coalesce=mode, atomic=atomic)]

    def shuffle(self, scope: Scope) -> list[Stmt]:
        """A scatter inside UB."""
        out: list[Stmt] = []
        operands = self.source(scope, DATA, out), self.source(scope, DATA, out), self.source(scope, CELL, out)
        return [*out, instr("tscatter", *operands)]

    def scalar(self, scope: Scope) -> list[Stmt]:
        """A number from memory, which later views use."""
        result = Var(self.name("s"))
        source = View("rows", (0, self.start(scope, self.rows)), (1, 1))
        scope.offsets.append(result)
        scope.conditions.append(apply("lt", result, 2))
        return [LoadScalar(result, source)]

    def small_gather(self, scope: Scope) -> list[Stmt]:
        """An element gather of a size that the run decides; a single element takes another way on A5."""
        out: list[Stmt] = []
        size = apply("add", self.integer("m"), 1)
        idx, dst = self.source(scope, CELL, out), self.target(scope, DATA)
        uses = TileUse(dst.name, (size, size)), self.table(scope), TileUse(idx.name, (size, size))
        return [*out, instr("mgather", *uses, coalesce=Coalesce.Elem)]


class CubeWriter(Writer):
    """Programs of the cube core: load, extract, multiply, store."""

    CORNER = Number(I32, 0, is_position=True)
    """The first row or column of a window."""

    def program(self) -> Program:
        """A program."""
        scope = Scope({}, set())
        declarations = self.declarations(scope)
        body = [*self.block(scope, 4), *self.block(scope, 4)]
        return program_of(*declarations, *body, arguments=tuple(self.integers))

    def declarations(self, scope: Scope) -> list[Stmt]:
        return [self.declared(scope, kind, cube_tile, loc) for loc, kind in KINDS.items()]

    def statements(self) -> list[Callable[[Scope], list[Stmt]]]:
        return [self.load, self.extract, self.multiply, self.multiply, self.store]

    def block_of(self, scope: Scope, argument: str) -> View:
        return view(argument, self.start(scope, 32), 32, 32)

    def fill(self, scope: Scope, kind: str, tile: TileDecl) -> list[Stmt]:
        out: list[Stmt] = []
        if kind == "mat" and self.pick((True, False)):
            rows = View("rows", (0, self.start(scope, 32)), (1, 32))
            return [instr("mgather", tile, self.block_of(scope, "a"), rows, coalesce=Coalesce.Row)]
        if kind == "mat":
            return [instr("tload", tile, self.block_of(scope, "a"))]
        if kind == "acc":
            product = self.product(scope, tile, out)
            return [*out, product]
        source = self.source(scope, "mat", out)
        return [*out, instr("textract", tile, source, self.CORNER, self.CORNER)]

    def product(self, scope: Scope, tile: TileDecl, out: list[Stmt]) -> Instr:
        left, right = self.source(scope, "left", out), self.source(scope, "right", out)
        return instr("tmatmul", tile, left, right)

    def load(self, scope: Scope) -> list[Stmt]:
        return self.fill(scope, "mat", self.target(scope, "mat"))

    def extract(self, scope: Scope) -> list[Stmt]:
        kind = self.pick(("left", "right"))
        return self.fill(scope, kind, self.target(scope, kind))

    def multiply(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        product = self.product(scope, self.target(scope, "acc"), out)
        return [*out, product]

    def store(self, scope: Scope) -> list[Stmt]:
        out: list[Stmt] = []
        tile = self.source(scope, "acc", out)
        return [*out, instr("tstore", self.block_of(scope, "c"), tile)]


class Sample(Program):
    """A program that shows itself as text when a test fails."""

    def __repr__(self) -> str:
        return f"\n{show(self)}\n"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], *, free: bool = False) -> Program:
    """A random program, of the vector core mostly."""
    writer = draw(st.sampled_from((VectorWriter, VectorWriter, VectorWriter, CubeWriter)))
    program = writer(draw, free=free).program()
    return Sample(program.name, program.arguments, program.body)
