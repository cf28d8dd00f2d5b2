"""Random kernels with loops, rings of buffers, computed ids and addresses, and flags in branches; most with a fault.

A kernel loads, computes and stores in a loop, on one core, or hands over between two cores. Its flags are right for
some number of copies of each tile; then a few are dropped, moved, doubled, renumbered or put under a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import numpy as np

from ptokit.finding import Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import dtype
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.program.expr import BLOCK_IDX, Expr, Var, apply, variables
from ptokit.program.ir import (
    Argument,
    Assign,
    Barrier,
    Block,
    Branch,
    CrossFlag,
    Flag,
    Instr,
    Integer,
    LoadScalar,
    Loop,
    Program,
    Stmt,
    TileDecl,
    TileUse,
    View,
    expressions,
    walk,
    with_blocks,
)

F32, F16, I32 = dtype("float32"), dtype("float16"), dtype("int32")
N, M, C = Var("n"), Var("m"), Var("c")
ROWS, COLS, NBYTES = 8, 16, 512
NUMBERS = {"n": (*range(6), 8, 20), "m": (0, 1, 2), "c": (0, 1)}
GRID = 2
WORDS = {name: len(INSTRUCTIONS[name].modifiers) for name in ("tmov", "tmatmul")}
"""How many modifiers instructions have."""


@dataclass(frozen=True)
class Sample:
    """A kernel and its target."""

    program: Program
    target: str

    @property
    def arrays(self) -> dict[str, Any]:
        """Fresh arrays."""
        return {a.name: np.zeros(a.shape, a.dtype.numpy) for a in self.program.arguments if isinstance(a, Argument)}  # type: ignore[arg-type]

    @property
    def launches(self) -> Iterator[tuple[Mapping[str, int], int]]:
        """Small launches: the numbers, and what the array of numbers is full of."""
        names = [a.name for a in self.program.arguments if isinstance(a, Integer)]
        loads = any(isinstance(a, Argument) and a.name == "k" for a in self.program.arguments)
        for values in product(*(NUMBERS[name] for name in names)):
            for fill in (0, 1, 2, 5) if loads else (0,):
                yield dict(zip(names, values, strict=True)), fill


def tile(name: str, kind: str = "vec", address: Expr = 0, target: str = "") -> TileDecl:
    if kind == "vec":
        return TileDecl(name, TileSpec(F32, TileType.Vec, ROWS, COLS, ROWS, COLS), (address,), fresh=False)
    forms = {
        "mat": (F16, TileType.Mat, BLayout.ColMajor, SLayout.RowMajor, 512),
        "left": (F16, TileType.Left, BLayout.ColMajor, SLayout.RowMajor, 512),
        "right": (F16, TileType.Right, BLayout.RowMajor, SLayout.ColMajor, 512),
        "acc": (F32, TileType.Acc, BLayout.ColMajor, SLayout.RowMajor, 1024),
    }
    form, loc, blayout, slayout, fractal = forms[kind]
    if kind == "left" and target == "a2a3":
        blayout = BLayout.RowMajor
    return TileDecl(name, TileSpec(form, loc, 16, 16, 16, 16, blayout, slayout, fractal), (address,), fresh=False)


def use(decl: TileDecl) -> TileUse:
    return TileUse(decl.name, (decl.spec.rows, decl.spec.cols))


def rows(argument: str, at: Expr, height: int, width: int) -> View:
    return View(argument, (apply("mul", at, height), 0), (height, width))


def flag(action: str, src: str, dst: str, event: Expr) -> Flag:
    return Flag(action, src, dst, event)


class Draft:
    """Draws one kernel."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.target = self.dice.choice(("a2a3", "a5"))

    def sample(self) -> Sample:
        body = self.two_cores() if self.dice.random() < 0.3 else self.one_core()
        for _ in range(self.dice.choice((0, 0, 1, 1, 2))):
            body = self.harmed(body)
        wide = 256
        used = {var for stmt in walk(body) for expr in expressions(stmt) for var in variables(expr)}
        arguments = (
            *(Argument(name, F32, (wide, COLS), (COLS, 1)) for name in "xy"),
            *(Argument(name, F16, (wide, 16), (16, 1)) for name in "a"),
            Argument("z", F32, (wide, 16), (16, 1)),
            *([Argument("k", I32, (16,), (1,))] if any(isinstance(stmt, LoadScalar) for stmt in walk(body)) else []),
            *(Integer(name) for name in "nmc" if Var(name) in used),
        )
        counted, _ = _numbered(body, 1)
        return Sample(Program("kernel", arguments, counted, mode="manual"), self.target)

    # --- one core

    def one_core(self) -> Block:
        """Load, compute, store, with a ring of copies for each tile."""
        dice = self.dice
        ins, outs = dice.randint(1, 3), dice.randint(1, 2)
        x, y = tile("x0", address=0), tile("y0", address=8 * NBYTES)
        turn: Var = Var("i")
        stop, inner = self.trips()
        first = self.ring(turn, ins, 0)
        second = self.ring(turn, outs, 8 * NBYTES)
        at: Expr = apply("add", apply("mul", BLOCK_IDX, 4), apply("mod", turn, 4))
        body: list[Stmt] = [
            Assign("x0", first[0]),
            Assign("y0", second[0]),
            flag("wait", "V", "MTE2", first[1]),
            Instr("tload", (use(x), rows("x", apply("mod", turn, 4), ROWS, COLS))),
            flag("set", "MTE2", "V", first[1]),
            flag("wait", "MTE2", "V", first[1]),
            flag("wait", "MTE3", "V", second[1]),
            Instr("texp", (use(y), use(x))),
            flag("set", "V", "MTE2", first[1]),
            flag("set", "V", "MTE3", second[1]),
            flag("wait", "V", "MTE3", second[1]),
            Instr("tstore", (rows("y", at, ROWS, COLS), use(y)), (None, None)),
            flag("set", "MTE3", "V", second[1]),
        ]
        if dice.random() < 0.3:
            body = self.guarded(turn, stop, body)
        if dice.random() < 0.2:
            body.insert(dice.randint(0, len(body)), Barrier("ALL"))
        ends = [("V", "MTE2", k) for k in range(ins)] + [("MTE3", "V", k) for k in range(outs)]
        before = [flag("set", *end) for end in ends]
        after = [flag("wait", *end) for end in ends]
        loop: Stmt = Loop(turn, 0, stop, 1, tuple(body))
        if inner:
            loop = Loop(Var("j"), 0, M, 1, (loop,))
        load = [LoadScalar(Var("s"), View("k", (0,), (1,)))] if stop == Var("s") else []
        return (x, y, *load, *before, loop, *after)

    def trips(self) -> tuple[Expr, bool]:
        """How often the loop runs, and whether another one is around it."""
        dice = self.dice
        stop = dice.choice((N, N, N, dice.randint(1, 6), Var("s"), apply("min", N, 4), apply("floordiv", N, 2), 40))
        return stop, dice.random() < 0.3

    def ring(self, turn: Var, copies: int, base: int) -> tuple[Expr, Expr]:
        """Address and event id of an iteration."""
        number = apply("mod", turn, copies)
        return apply("add", apply("mul", number, NBYTES), base), number

    def guarded(self, turn: Var, stop: Expr, body: list[Stmt]) -> list[Stmt]:
        """Part of the body under a condition."""
        dice = self.dice
        condition = dice.choice((
            apply("gt", turn, 0), apply("eq", C, 0), apply("lt", apply("add", turn, 1), stop),
            apply("eq", apply("mod", turn, 2), 0), apply("lt", turn, 3),
        ))  # fmt: skip
        whole = dice.random() < 0.6
        first, last = (2, len(body)) if whole else sorted((dice.randint(2, len(body)), dice.randint(2, len(body))))
        return [*body[:first], Branch(condition, tuple(body[first:last])), *body[last:]]

    # --- two cores

    def two_cores(self) -> Block:
        """The cube core multiplies and stores, the vector core loads the result from global memory."""
        dice, turn = self.dice, Var("i")
        stop, _ = self.trips()
        depth = dice.randint(1, 2)
        a, left, right, acc = (
            tile("a0", "mat"),
            tile("l0", "left", target=self.target),
            tile("r0", "right"),
            tile("c0", "acc"),
        )
        x, y = tile("x0", address=0), tile("y0", address=8 * NBYTES)
        slot: Expr = apply("mod", turn, depth)
        at: Expr = apply("add", apply("mul", BLOCK_IDX, 2), slot)
        ids: Expr = apply("add", slot, 1)
        free = 5
        cube: list[Stmt] = [
            CrossFlag("wait", "AIC", "FIX", free),
            Instr("tload", (use(a), rows("a", apply("mod", turn, 4), 16, 16))),
            *pair("MTE2", "MTE1", 0),
            Instr("tmov", (use(left), use(a)), (None,) * WORDS["tmov"]),
            Instr("tmov", (use(right), use(a)), (None,) * WORDS["tmov"]),
            *pair("MTE1", "M", 0),
            Instr("tmatmul", (use(acc), use(left), use(right)), (None,) * WORDS["tmatmul"]),
            *pair("M", "FIX", 0),
            Instr("tstore", (rows("z", at, 16, 16), use(acc)), (None, None)),
            CrossFlag("set", "AIC", "FIX", ids),
            *pair("FIX", "MTE2", 0),
        ]
        vector: list[Stmt] = [
            CrossFlag("wait", "AIV", "MTE2", ids),
            Instr("tload", (use(x), View("z", (apply("mul", at, 16), 0), (ROWS, COLS)))),
            CrossFlag("set", "AIV", "MTE2", free),
            *pair("MTE2", "V", 0),
            Instr("texp", (use(y), use(x))),
            *pair("V", "MTE3", 0),
            Instr(
                "tstore",
                (rows("y", apply("add", apply("mul", BLOCK_IDX, 4), apply("mod", turn, 4)), ROWS, COLS), use(y)),
                (None, None),
            ),
            *pair("MTE3", "MTE2", 0),
        ]
        declared = (a, left, right, acc, x, y)
        load = [LoadScalar(Var("s"), View("k", (0,), (1,)))] if stop == Var("s") else []
        free_sets = [CrossFlag("set", "AIV", "MTE2", free)] * depth
        free_waits = [CrossFlag("wait", "AIC", "FIX", free)] * depth
        if dice.random() < 0.5:
            loops: list[Stmt] = [Loop(turn, 0, stop, 1, (*cube, *vector))]
        else:
            loops = [Loop(turn, 0, stop, 1, tuple(cube)), Loop(turn, 0, stop, 1, tuple(vector))]
        return (*declared, *load, *free_sets, *loops, *free_waits)

    # --- harm

    def harmed(self, body: Block) -> Block:
        """The kernel with one change of its flags."""
        places = [place for place, stmt in _places(body) if isinstance(stmt, Flag | CrossFlag)]
        if not places:
            return body
        place, dice = self.dice.choice(places), self.dice
        changes: list[Callable[[Any], list[Stmt]]] = [
            lambda stmt: [],
            lambda stmt: [],
            lambda stmt: [stmt, stmt],
            lambda stmt: [replace(stmt, event=apply("add", stmt.event, 1))],
            lambda stmt: [replace(stmt, event=0)],
            lambda stmt: [Branch(apply("eq", C, 0), (stmt,))],
            lambda stmt: [Branch(apply("lt", 2, N), (stmt,))],
        ]
        if dice.random() < 0.4:
            return _moved(body, place, dice.choice((-3, -2, -1, 1, 2, 3)))
        return _changed(body, place, dice.choice(changes))


def pair(src: str, dst: str, event: int) -> tuple[Flag, Flag]:
    return flag("set", src, dst, event), flag("wait", src, dst, event)


Place = tuple[int, ...]


def _places(body: Block, at: Place = ()) -> Iterator[tuple[Place, Stmt]]:
    for k, stmt in enumerate(body):
        yield (*at, k), stmt
        if isinstance(stmt, Loop):
            yield from _places(stmt.body, (*at, k))
        elif isinstance(stmt, Branch):
            yield from _places(stmt.then, (*at, k))


def _in_block(body: Block, place: Place, change: Callable[[list[Stmt], int], list[Stmt]]) -> Block:
    first, *rest = place
    if not rest:
        return tuple(change(list(body), first))
    inner = body[first]
    own = inner.body if isinstance(inner, Loop) else inner.then  # type: ignore[union-attr]
    others = () if isinstance(inner, Loop) else (inner.otherwise,)  # type: ignore[union-attr]
    new = with_blocks(inner, (_in_block(own, tuple(rest), change), *others))
    return (*body[:first], new, *body[first + 1 :])


def _changed(body: Block, place: Place, change: Callable[[Any], list[Stmt]]) -> Block:
    return _in_block(body, place, lambda block, k: [*block[:k], *change(block[k]), *block[k + 1 :]])


def _moved(body: Block, place: Place, by: int) -> Block:
    def move(block: list[Stmt], k: int) -> list[Stmt]:
        stmt = block.pop(k)
        declared = sum(isinstance(each, TileDecl | Assign | LoadScalar) for each in block)
        block.insert(min(len(block), max(declared, k + by)), stmt)
        return block

    return _in_block(body, place, move)


def _numbered(body: Block, line: int) -> tuple[Block, int]:
    """The statements with a line of their own each."""
    found: list[Stmt] = []
    for stmt in body:
        own = replace(stmt, where=Where("kernel", line))
        line += 1
        if isinstance(own, Loop):
            inner, line = _numbered(own.body, line)
            own = replace(own, body=inner)
        elif isinstance(own, Branch):
            then, line = _numbered(own.then, line)
            own = replace(own, then=then)
        found.append(own)
    return tuple(found), line


def sample(seed: int) -> Sample:
    """One of the random kernels."""
    return Draft(seed).sample()
