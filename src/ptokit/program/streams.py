"""One order for the instructions of two cores.

Each core runs its own instructions in the order of the text, and the other core's are in no order with them, except by
what the cores hand over. Engines run one statement after the other. `arranged` gives them an order in which every wait
for the other core comes after the set that it waits for, if statements can be moved so. Each core keeps its order. Two
loops of the two cores that wait for each other become one loop, if they run over the same numbers. If not, their
iterations are taken one by one, as far as the numbers are known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TypeGuard

from ptokit.program.cores import StatementCores, ends_of, is_crossing
from ptokit.program.expr import Var, substitute, variables
from ptokit.program.ir import (
    Assign,
    Barrier,
    Block,
    Branch,
    CrossFlag,
    Flag,
    Instr,
    LoadScalar,
    Loop,
    Program,
    Stmt,
    TileDecl,
    children,
    definitions,
    expressions,
    walk,
    with_blocks,
    with_expressions,
)
from ptokit.target import SCALAR

Key = tuple[object, ...]
"""A flag between the cores."""
Tokens = Counter[Key]
"""How often each flag is set and not yet waited for."""


def arranged(program: Program) -> Program:
    """The program with its statements in such an order; the program itself if it is in one, or if none is known."""
    if not any(is_crossing(stmt) and _is_wait(stmt) for stmt in walk(program.body)):
        return program
    arranger = _Arranger(program)
    return program if arranger.unarranged or arranger.result == program.body else replace(program, body=arranger.result)


Endless = tuple[Flag | CrossFlag, Flag | CrossFlag | None]
"""A wait for the other core that certainly never ends, with the wait that keeps the other core from setting the flag,
or None if nothing sets it."""
Unarranged = tuple[Loop, Stmt]
"""A loop of one core that waits for the other core, which waits for it: no order of the statements is known."""


def problems(program: Program) -> tuple[list[Endless], list[Unarranged]]:
    """Why there is no such order, or why it does not help."""
    if not any(is_crossing(stmt) and _is_wait(stmt) for stmt in walk(program.body)):
        return [], []
    arranger = _Arranger(program)
    return arranger.endless, arranger.unarranged


def _is_wait(stmt: Stmt) -> bool:
    return isinstance(stmt, Flag | CrossFlag) and stmt.action == "wait"


def _pipe_of(flag: Flag | CrossFlag) -> str:
    """The pipe that sets a flag or waits for it."""
    return flag.pipe if isinstance(flag, CrossFlag) else flag.src if flag.action == "set" else flag.dst


def _sets(stmt: Stmt) -> TypeGuard[Flag | CrossFlag]:
    return is_crossing(stmt) and not _is_wait(stmt)


MOST_PEELED = 256
"""Iterations that are taken out of loops."""


class _Arranger:
    """Takes the first statement that can run, again and again. If none can, the first one is taken nevertheless."""

    def __init__(self, program: Program) -> None:
        self.cores = StatementCores(program)
        crossing = [stmt for stmt in walk(program.body) if isinstance(stmt, CrossFlag)]
        self._computed = {ends_of(stmt)[0] for stmt in crossing if not isinstance(stmt.event, int)}
        """Cores that set flags with computed ids: any wait may be for any of its sets."""
        self._uncertain: set[Key] = set()
        """Flags that are set or waited for in branches, or in loops with an unknown number of iterations."""
        self.endless: list[Endless] = []
        self.unarranged: list[Unarranged] = []
        self._peeled = 0
        self._note_uncertain(program.body, certain=True)
        self.result = self._block(program.body, Counter(), is_outermost=True)

    def _note_uncertain(self, block: Block, *, certain: bool) -> None:
        for stmt in block:
            if is_crossing(stmt) and not certain:
                self._uncertain.add(self._key(stmt))
            inside = certain and (not isinstance(stmt, Loop) or _iterations(stmt) < inf)
            for inner in children(stmt):
                self._note_uncertain(inner, certain=inside and not isinstance(stmt, Branch))

    def _key(self, stmt: Stmt) -> Key:
        assert isinstance(stmt, Flag | CrossFlag)
        if isinstance(stmt, Flag):
            return stmt.src, stmt.dst, stmt.event
        setter = ends_of(stmt)[0]
        return (setter, None) if setter in self._computed else (setter, stmt.event)

    def _block(self, block: Block, tokens: Tokens, *, is_outermost: bool = False) -> Block:
        left, out = list(block), list[Stmt]()
        while left:
            number = self._first_that_runs(left, tokens)
            if number is None:
                number = 0
                if (other := self._partner(left)) is not None:
                    left[0] = self._joined(left[0], left.pop(other))
                elif self._peel(left):
                    continue
                else:
                    self._note_unarranged(left)
                    if is_outermost:
                        self._note_endless(left)
            stmt = left.pop(number)
            out.append(with_blocks(stmt, [self._block(inner, tokens.copy()) for inner in children(stmt)]))
            takes, gives = self._effect(stmt)
            tokens.update(gives)
            tokens.subtract({key: min(count, tokens[key]) for key, count in takes.items()})
        return tuple(out)

    def _first_that_runs(self, left: list[Stmt], tokens: Tokens) -> int | None:
        held: set[str] = set()
        undefined: set[Var] = set()
        for number, stmt in enumerate(left):
            cores = self.cores.of(stmt)
            used = {var for expr in expressions(stmt) for var in variables(expr)}
            if cores.isdisjoint(held) and used.isdisjoint(undefined) and self._can_run(stmt, tokens):
                return number
            held |= cores
            undefined.update(definitions((stmt,)))
            if held >= self.cores.all:
                break
        return None

    def _partner(self, left: list[Stmt]) -> int | None:
        """The statement that the other core is at, if it is the same loop or branch as the one that cannot run."""
        first = left[0]
        mine = self.cores.of(first)
        for number, stmt in enumerate(left[1:], 1):
            theirs = self.cores.of(stmt)
            if theirs and not theirs <= mine:
                same = len(mine) == len(theirs) == 1 and theirs.isdisjoint(mine) and _are_alike(first, stmt)
                return number if same else None
        return None

    def _joined(self, first: Stmt, other: Stmt) -> Stmt:
        """Two loops or branches of two cores as one of both."""
        blocks = [children(each) for each in (first, _like(other, first))]
        joined = with_blocks(first, [(*one, *two) for one, two in zip(*blocks, strict=True)])
        self.cores.add(joined)
        return joined

    def _heads(self, left: list[Stmt]) -> list[int]:
        """The statement that each core is at."""
        cores = [self.cores.of(stmt) for stmt in left]
        return [next(k for k, each in enumerate(cores) if core in each)
                for core in sorted(self.cores.all) if any(core in each for each in cores)]  # fmt: skip

    def _peel(self, left: list[Stmt]) -> bool:
        """Take the next iteration out of the loops that the cores are at."""
        peeled = False
        for head in sorted(self._heads(left), reverse=True):
            loop = left[head]
            if isinstance(loop, Loop) and len(self.cores.of(loop)) == 1 and any(map(is_crossing, walk((loop,)))):
                parts = _parts(loop)
                if len(parts) > 1 and self._peeled < MOST_PEELED:
                    left[head : head + 1] = parts
                    self._peeled += 1
                    peeled = True
        return peeled

    def _note_unarranged(self, left: list[Stmt]) -> None:
        """Note a loop whose core waits for the other core, which waits for a set that is in the loop."""
        heads = [left[head] for head in self._heads(left)]
        for loop, other in zip(heads, reversed(heads), strict=True):
            if isinstance(loop, Loop) and loop is not other and len(self.cores.of(loop)) == 1:
                needs, gives = self._effect(other)[0].keys(), {self._key(each) for each in walk((loop,)) if _sets(each)}
                if needs & gives and not self.unarranged:
                    self.unarranged.append((loop, other))

    def _can_run(self, stmt: Stmt, tokens: Tokens) -> bool:
        takes, _ = self._effect(stmt)
        return all(tokens[key] >= count for key, count in takes.items())

    def _effect(self, stmt: Stmt) -> tuple[Tokens, Tokens]:
        """How many sets a statement takes from before it, and how many it leaves."""
        if isinstance(stmt, Flag | CrossFlag):
            one = Counter({self._key(stmt): 1}) if is_crossing(stmt) else Counter[Key]()
            return (one, Counter()) if stmt.action == "wait" else (Counter(), one)
        takes, gives = Counter[Key](), Counter[Key]()
        for block in children(stmt):  # the arms of a branch: the most that one of them takes and leaves
            each = [self._effect(inner) for inner in block]
            takes |= sum((taken for taken, _ in each), Counter[Key]())
            gives |= sum((given for _, given in each), Counter[Key]())
        times = _iterations(stmt) if isinstance(stmt, Loop) else 1
        net = {key: (gives[key] - takes[key]) * times for key in {*takes, *gives} if gives[key] != takes[key]}
        return (
            Counter({key: -count for key, count in net.items() if count < 0}),  # type: ignore[misc]
            Counter({key: count for key, count in net.items() if count > 0}),  # type: ignore[misc]
        )

    def _note_endless(self, left: list[Stmt]) -> None:
        """Note a wait that cannot end, if that is certain."""
        stmt = left[0]
        if any(len(self.cores.of(each)) > 1 and children(each) for each in left):
            return
        if not isinstance(stmt, Flag | CrossFlag) or self._key(stmt) in self._uncertain:
            return
        setter = ends_of(stmt)[0]
        others = (each for each in left[1:] if setter in self.cores.of(each))
        blocker = next(others, None)
        sets = any(isinstance(each, Flag | CrossFlag) and is_crossing(each) and each.action == "set"
                   and self._key(each) == self._key(stmt) for each in walk(tuple(left)))  # fmt: skip
        if not sets:
            self.endless.append((stmt, None))
        elif (
            isinstance(blocker, Flag | CrossFlag)
            and is_crossing(blocker)
            and _is_wait(blocker)
            and self._holds(blocker, stmt, left)
            and self._holds(stmt, blocker, left)
        ):
            self.endless.append((stmt, blocker))

    def _holds(self, wait: Flag | CrossFlag, other: Flag | CrossFlag, left: list[Stmt]) -> bool:
        """Whether a wait certainly holds the set that another one waits for, on every target: by its pipe, or by flags
        of its core that lead from there to the pipe that sets."""
        held, flags = {_pipe_of(wait)}, set[Key]()
        for stmt in left[next(k for k, each in enumerate(left) if each is wait) :]:
            if isinstance(stmt, Barrier) and stmt.pipe == "ALL" and self.cores.of(stmt) >= self.cores.of(wait):
                held.add(SCALAR)
            if not isinstance(stmt, Flag | CrossFlag):
                continue
            is_held = SCALAR in held or _pipe_of(stmt) in held
            if _sets(stmt) and self._key(stmt) == self._key(other):
                return is_held
            if isinstance(stmt, Flag) and stmt.action == "set" and is_held:
                flags.add(self._key(stmt))
            elif isinstance(stmt, Flag) and self._key(stmt) in flags:
                held.add(stmt.dst)
        return False


def _parts(loop: Loop) -> list[Stmt]:
    """A loop as its first iteration, in parts that a hand-over begins or ends, and the others; itself if it cannot be
    split."""
    count = _iterations(loop)
    if count in (0, inf) or loop.buffers != 1:
        return [loop]
    assert isinstance(loop.start, int)
    second = loop.start + loop.step
    first = [replace(loop, stop=second, body=part) for part in _segments(loop.body)]
    return [*first, replace(loop, start=second)] if count > 1 else [*first]


def _segments(body: Block) -> list[Block]:
    """The parts of a block between its hand-overs. Each declares the tiles that it uses and the block declares."""
    tiles = {stmt.name: stmt for stmt in body if isinstance(stmt, TileDecl)}
    if any(isinstance(stmt, LoadScalar | Assign) for stmt in body) or any(tile.fresh for tile in tiles.values()):
        return [body]
    parts: list[list[Stmt]] = [[]]
    for stmt in body:
        if isinstance(stmt, TileDecl):
            continue
        crosses = any(map(is_crossing, walk((stmt,))))
        if crosses and parts[-1] and not _sets(stmt):
            parts.append([])
        parts[-1].append(stmt)
        if crosses:
            parts.append([])
    used = [{use.tile for stmt in walk(tuple(part)) if isinstance(stmt, Instr) for use in stmt.tiles} for part in parts]
    return [(*(tile for name, tile in tiles.items() if name in names), *part)
            for part, names in zip(parts, used, strict=True) if part]  # fmt: skip


def _are_alike(one: Stmt, other: Stmt) -> bool:
    """Whether two statements are loops over the same numbers, or branches with the same condition."""
    if isinstance(one, Loop) and isinstance(other, Loop):
        return (one.start, one.stop, one.step, one.buffers) == (other.start, other.stop, other.step, other.buffers)
    return isinstance(one, Branch) and isinstance(other, Branch) and one.condition == other.condition


def _like(stmt: Stmt, first: Stmt) -> Stmt:
    """A loop with the variable of another one."""
    if not isinstance(stmt, Loop) or not isinstance(first, Loop):
        return stmt
    values = {stmt.var: first.var}
    body = (with_expressions(inner, lambda expr: substitute(expr, values)) for inner in stmt.body)
    return replace(stmt, var=first.var, body=tuple(body))


def _iterations(loop: Loop) -> float:
    start, stop = loop.start, loop.stop
    if isinstance(start, int) and isinstance(stop, int):
        return len(range(start, stop, loop.step))
    return inf
