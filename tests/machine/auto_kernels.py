"""Random kernels of auto mode for both cores, and what they mean: their statements in the order of the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import ptokit as pto
from ptokit.lang.launch import mode_of
from ptokit.program.ir import Program
from tests.snippet import compiled

ROWS = 64
"""Rows of every array that a block has for itself."""
LARGEST = 1 << 20
"""Numbers up to this one, and their sums, are exact in float32."""
COUNTS = (0, 1, 3)
"""The values of the argument `n` that kernels are launched with."""
ARRAYS = ("x", "work", "other", "out")
CUBE = ("m", "p", "left", "right", "acc")
"""The tiles of the cube core."""

HEAD = """
@pto.kernel
def kernel(x, eye, counts, work, other, out, n):
    base = pto.block_idx() * 64
    k = pto.load_scalar(counts, 1)
    a, b = (pto.Tile("vec", "float32", 16, 16) for _ in range(2))
    m, p = (pto.Tile("mat", "float32", 16, 16, blayout="col_major", slayout="row_major") for _ in range(2))
    left, right = pto.Tile("left", "float32", 16, 16), pto.Tile("right", "float32", 16, 16)
    acc = pto.Tile("acc", "float32", 16, 16)
    pto.tload(p, eye)
    pto.tmov(right, p)
    pto.tload(m, x[base : base + 16])
    pto.tmov(left, m)
    pto.tmatmul(acc, left, right)
    pto.tload(a, x[base + 16 : base + 32])
    pto.tload(b, x[base : base + 16])
"""


@dataclass
class State:
    """Arrays, tiles and numbers while the statements of a kernel run one after the other."""

    memory: dict[str, Any]
    """Arrays and tiles by name: the rows of one block."""
    numbers: dict[str, int] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By array: which elements the cores `AIC` and `AIV` have touched, and which of these they have `written`."""
    crosses: bool = False
    """Whether an instruction has tiles of both cores."""

    def touch(self, part: Part, core: str, *, writes: bool) -> None:
        """A core reads or writes a part of an array."""
        if part.name in ARRAYS:
            shape = self.memory[part.name].shape
            users = self.users.setdefault(part.name, {key: np.zeros(shape, bool) for key in ("AIC", "AIV", "written")})
            for key in (core, "written")[: 1 + writes]:
                part.within(users[key], self)[...] = True

    @property
    def is_shared(self) -> bool:
        """Whether the cores share an element that one of them writes, or move tiles to each other."""
        both = (users["AIC"] & users["AIV"] & users["written"] for users in self.users.values())
        return self.crosses or any(each.any() for each in both)

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(float(np.abs(each).max()) for each in self.memory.values())


@dataclass(frozen=True)
class Index:
    """A number: `var % mod * by + plus`."""

    plus: int
    var: str = ""
    by: int = 0
    mod: int = 0

    def __str__(self) -> str:
        if not self.var:
            return str(self.plus)
        moved = f"({self.var} % {self.mod})" if self.mod else self.var
        return f"{moved} * {self.by} + {self.plus}"

    def value(self, numbers: Mapping[str, int]) -> int:
        """Its value."""
        if not self.var:
            return self.plus
        number = numbers[self.var]
        return (number % self.mod if self.mod else number) * self.by + self.plus


@dataclass(frozen=True)
class Part:
    """Some rows and columns of an array, of those of a block, or of a tile; all of a tile without a size."""

    name: str
    row: Index = Index(0)
    rows: int = 0
    cols: tuple[int, int] = (0, 16)

    def __str__(self) -> str:
        if not self.rows:
            return self.name
        cols = "" if self.cols == (0, 16) else f", {self.cols[0]}:{self.cols[1]}"
        first = f"{'base + ' * (self.name in ARRAYS)}{self.row}"
        return f"{self.name}[{first} : {first} + {self.rows}{cols}]"

    def of(self, state: State) -> Any:
        """A view of its elements."""
        return self.within(state.memory[self.name], state)

    def within(self, whole: Any, state: State) -> Any:
        """The same elements of something of the same shape."""
        first = self.row.value(state.numbers)
        return whole[first : first + self.rows, slice(*self.cols)] if self.rows else whole


class Stmt:
    """A statement."""

    def lines(self) -> Iterator[str]:
        """Its text."""
        raise NotImplementedError

    def run(self, state: State) -> None:
        """What it means."""
        raise NotImplementedError


@dataclass(frozen=True)
class Copy(Stmt):
    """A load, a store or a move: the first operand becomes the second."""

    call: str
    dst: Part
    src: Part

    def lines(self) -> Iterator[str]:
        yield f"pto.{self.call}({self.dst}, {self.src})"

    def run(self, state: State) -> None:
        self.dst.of(state)[...] = self.src.of(state)
        cores = {"AIC" if part.name in CUBE else "AIV" for part in (self.dst, self.src) if part.name not in ARRAYS}
        state.crosses |= len(cores) > 1
        state.touch(self.dst, min(cores), writes=True)
        state.touch(self.src, min(cores), writes=False)


@dataclass(frozen=True)
class Product(Stmt):
    """The product of the two operands in L0; or added to the accumulator."""

    adds: bool

    def lines(self) -> Iterator[str]:
        yield "pto.tmatmul_acc(acc, acc, left, right)" if self.adds else "pto.tmatmul(acc, left, right)"

    def run(self, state: State) -> None:
        made = state.memory["left"] @ state.memory["right"]
        state.memory["acc"][...] = made + state.memory["acc"] if self.adds else made


@dataclass(frozen=True)
class Vector(Stmt):
    """A sum of two tiles, or of a tile and a number."""

    dst: str
    one: str
    other: str | int

    def lines(self) -> Iterator[str]:
        yield f"pto.tadd{'s' * isinstance(self.other, int)}({self.dst}, {self.one}, {self.other})"

    def run(self, state: State) -> None:
        other = state.memory[self.other] if isinstance(self.other, str) else self.other
        state.memory[self.dst][...] = state.memory[self.one] + other


@dataclass(frozen=True)
class Tile(Stmt):
    """A tile of the loop around, which the next statement writes."""

    name: str

    def lines(self) -> Iterator[str]:
        yield f'{self.name} = pto.Tile("vec", "float32", 16, 16)'

    def run(self, state: State) -> None:
        state.memory[self.name] = np.zeros((16, 16), "float32")


@dataclass(frozen=True)
class Loop(Stmt):
    """A loop over `range(first, stop, step)`; `stop` may be an argument."""

    var: str
    first: int
    stop: int | str
    step: int
    buffers: int
    body: tuple[Stmt, ...]

    def lines(self) -> Iterator[str]:
        copies = f", buffers={self.buffers}" if self.buffers > 1 else ""
        yield f"for {self.var} in pto.range({self.first}, {self.stop}, {self.step}{copies}):"
        yield from indented(self.body)

    def run(self, state: State) -> None:
        stop = state.numbers[self.stop] if isinstance(self.stop, str) else self.stop
        for value in range(self.first, stop, self.step):
            state.numbers[self.var] = value
            for stmt in self.body:
                stmt.run(state)


@dataclass(frozen=True)
class Branch(Stmt):
    """A condition on a number, with or without another arm."""

    number: Index
    above: int
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]

    def lines(self) -> Iterator[str]:
        yield f"with pto.when({self.number} > {self.above}):"
        yield from indented(self.then)
        if self.otherwise:
            yield "with pto.otherwise():"
            yield from indented(self.otherwise)

    def run(self, state: State) -> None:
        for stmt in self.then if self.number.value(state.numbers) > self.above else self.otherwise:
            stmt.run(state)


def indented(body: Sequence[Stmt]) -> Iterator[str]:
    """The lines of a block."""
    for stmt in body:
        yield from (f"    {line}" for line in stmt.lines())


class Draft:
    """Draws one kernel. What one core writes, the other mostly reads."""

    def __init__(self, seed: int, target: str) -> None:
        self.dice, self.target, self.vars, self.tiles, self.made = Random(seed), target, [], ["a", "b"], 0
        self.grid = self.dice.choice((1, 1, 2))
        self.body: tuple[Stmt, ...] = ()
        while not self.is_suitable():
            self.vars, self.tiles, self.made = [], ["a", "b"], 0
            self.body = self.block(self.dice.choice((2, 3, 4, 5, 12)), depth=0)

    def is_suitable(self) -> bool:
        """Whether all numbers are exact, and the cores have something to do with each other."""
        states = [state for n in COUNTS for state in self.meaning(n)]
        return all(state.largest <= LARGEST for state in states) and any(state.is_shared for state in states)

    # --- statements

    def block(self, size: int, depth: int) -> tuple[Stmt, ...]:
        """Some statements; a loop may have a tile of its own."""
        return tuple(stmt for _ in range(size) for stmt in self.drawn(depth))

    def drawn(self, depth: int) -> Sequence[Stmt]:
        """One statement, or some that belong together."""
        kinds = {self.product: 3, self.summed: 4, self.handed_back: 2, self.moved: 2, self.added: 1}
        if depth < 2:
            kinds |= {lambda: [self.loop(depth)]: 2, lambda: [self.branch(depth)]: 2}
        return self.dice.choices(list(kinds), list(kinds.values()))[0]()

    def loop(self, depth: int) -> Stmt:
        """A loop, maybe with a tile of its own, which may have two copies."""
        pick, self.made = self.dice.choice, self.made + 1
        var, tile, tiles = f"i{self.made}", f"t{self.made}", self.tiles
        self.vars.append(var)
        own: list[Stmt] = []
        if pick((True, False)):
            self.tiles = [*tiles, tile]
            own = [Tile(tile), Copy("tload", Part(tile), self.rows(16))]
        body = (*own, *self.block(self.dice.randint(1, 3), depth + 1))
        self.vars.pop()
        self.tiles = tiles
        return Loop(var, pick((0, 0, 1)), pick(("n", "k", 1, 2, 3)), pick((1, 1, 2)), pick((1, 2)) if own else 1, body)

    def branch(self, depth: int) -> Stmt:
        """A condition on the argument, or on the loop around."""
        number = Index(0, self.dice.choice(["n", "k", *self.vars]), 1)
        then, otherwise = (
            self.block(size, depth + 1) for size in (self.dice.randint(1, 2), self.dice.choice((0, 0, 1)))
        )
        return Branch(number, self.dice.choice((0, 1)), then, otherwise)

    def product(self) -> list[Stmt]:
        """The cube core multiplies what it reads, and stores the product."""
        adds = self.dice.random() < 0.2
        made = [Copy("tload", Part("m"), self.rows(16)), Copy("tmov", Part("left"), Part("m")), Product(adds)]
        return [*made[self.dice.choice((0, 0, 2)) :], *self.result()]

    def result(self) -> list[Stmt]:
        """Where a product goes: to memory, or on A5 to the other core at once."""
        if self.target == "a5" and self.dice.random() < 0.4:
            return [Copy("tmov", Part(self.tile), Part("acc"))]
        return [Copy("tstore", self.rows(16, written=True), Part("acc"))]

    def summed(self) -> list[Stmt]:
        """The vector core reads, in one piece or in two, adds, and stores."""
        return [*self.loads(), *self.added(), *self.stores()][: self.dice.choice((1, 2, 3, 4))]

    def handed_back(self) -> list[Stmt]:
        """The vector core stores what the cube core then reads; on A5 maybe at once."""
        if self.target == "a5" and self.dice.random() < 0.4:
            return [Copy("tmov", Part("m"), Part(self.tile))]
        rows = self.rows(16, written=True)
        return [Copy("tstore", rows, Part(self.tile)), Copy("tload", Part("m"), rows)]

    def moved(self) -> list[Stmt]:
        """One load or store."""
        return [self.dice.choice([*self.loads(), *self.stores(), Copy("tload", Part("m"), self.rows(16)),
                                  Copy("tmov", Part("left"), Part("m")), *self.result()])]  # fmt: skip

    def added(self) -> list[Stmt]:
        """A computation of the vector core."""
        pick = self.dice.choice
        return [Vector(self.tile, self.tile, pick((self.tile, pick((1, 2, 3)), pick((1, 2, 3)))))]

    def loads(self) -> list[Stmt]:
        """A tile from memory: whole, or its upper and lower half, or its left and right half."""
        tile, way = self.tile, self.dice.choice(("whole", "rows", "rows", "columns"))
        if way == "whole":
            return [Copy("tload", Part(tile), self.rows(16))]
        if way == "rows":
            return [Copy("tload", Part(tile, Index(at), 8), self.rows(8)) for at in (0, 8)]
        rows = self.rows(16)
        halves = [Part(rows.name, rows.row, 16, cols) for cols in ((0, 8), (8, 16))]
        return [Copy("tload", Part(tile, Index(0), 16, half.cols), half) for half in halves]

    def stores(self) -> list[Stmt]:
        """A tile to memory: whole, or a half."""
        if self.dice.random() < 0.5:
            return [Copy("tstore", self.rows(16, written=True), Part(self.tile))]
        return [Copy("tstore", self.rows(8, written=True), Part(self.tile, Index(self.dice.choice((0, 8))), 8))]

    # --- operands

    @property
    def tile(self) -> str:
        """A tile of the vector core."""
        return self.dice.choice(self.tiles)

    def rows(self, count: int, *, written: bool = False) -> Part:
        """Rows of an array, at a multiple of 8, that may depend on a loop around."""
        pick = self.dice.choice
        name = pick(("work", "work", "work", "other", "out") if written else ("work", "work", "work", "other", "x"))
        plus = pick((0, 0, 0, 8, 16)) if count == 16 else pick((0, 0, 8, 8, 16))
        if not self.vars or pick((True, False)):
            return Part(name, Index(plus), count)
        return Part(name, Index(plus, pick(self.vars), pick((8, 16, 16)), pick((0, 2))), count)

    # --- the kernel and its meaning

    @property
    def text(self) -> str:
        """The source of the kernel."""
        return HEAD + "\n".join(indented(self.body)) + "\n"

    def kernel(self) -> Any:
        """The kernel itself."""
        names: dict[str, Any] = {"pto": pto}
        exec(compiled(self.text, "kernel for two cores"), names)
        return names["kernel"]

    def traced(self) -> Program:
        """The program that the machine runs, with the flags of auto mode."""
        kernel, mode = self.kernel(), mode_of(self.target)
        return kernel.trace(kernel.bind((), {**self.arrays(), "n": 1}), mode).machine(mode).program

    def arrays(self) -> dict[str, Any]:
        """The arrays before a launch."""
        rows = ROWS * self.grid
        made = {name: (np.arange(rows * 16) * k % 7 - 3).astype("float32") for k, name in enumerate(ARRAYS, 1)}
        counts = np.array([9, 2, 9], "int32")
        return {**{name: each.reshape(rows, 16) for name, each in made.items()}, "eye": mirror(), "counts": counts}

    def meaning(self, n: int) -> list[State]:
        """Arrays and tiles of every block after all statements in the order of the text."""
        return [self.block_meaning(n, block) for block in range(self.grid)]

    def block_meaning(self, n: int, block: int) -> State:
        """Arrays and tiles of one block."""
        given, rows = self.arrays(), slice(block * ROWS, block * ROWS + ROWS)
        memory, right = {name: given[name][rows].copy() for name in ARRAYS}, given["eye"]
        first, second = memory["x"][:16].copy(), memory["x"][16:32].copy()
        tiles = {"a": second, "b": first.copy(), "m": first.copy(), "left": first, "right": right, "acc": first @ right}
        state = State({**memory, **tiles}, {"n": n, "k": int(given["counts"][1])})
        for stmt in self.body:
            stmt.run(state)
        return state

    def expected(self, n: int) -> dict[str, Any]:
        """The arrays after a launch."""
        states = self.meaning(n)
        return {name: np.concatenate([state.memory[name] for state in states]) for name in ARRAYS}


def mirror() -> Any:
    """A matrix that reverses columns, and changes the sign of some."""
    return (np.eye(16)[::-1] * np.where(np.arange(16) % 3, 1, -1)).astype("float32")
