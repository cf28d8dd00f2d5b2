"""One order for the instructions of two cores.

Each core runs its own instructions in the order of the text, and the other core's are in no order with them, except by
what the cores hand over. Engines run one statement after the other. `arranged` gives them an order in which every wait
for the other core comes after the set that it waits for, if statements can be moved so. Each core keeps its order. Two
loops of the two cores that wait for each other become one loop, if they run over the same numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf

from ptokit.program import ir
from ptokit.program.cores import StatementCores, ends_of, is_crossing
from ptokit.program.expr import Var, substitute, variables

Key = tuple[object, ...]
"""A flag between the cores."""
Tokens = Counter[Key]
"""How often each flag is set and not yet waited for."""


def arranged(program: ir.Program) -> ir.Program:
    """The program with its statements in such an order; the program itself if it is in one."""
    if not any(is_crossing(stmt) and _is_wait(stmt) for stmt in ir.walk(program.body)):
        return program
    body = _Arranger(program).result
    return program if body == program.body else replace(program, body=body)


def endless(program: ir.Program) -> list[tuple[ir.Flag | ir.CrossFlag, ir.Flag | ir.CrossFlag | None]]:
    """The waits for the other core that certainly never end, each with the wait that keeps the other core from setting
    the flag, or None if nothing sets it."""
    if not any(is_crossing(stmt) and _is_wait(stmt) for stmt in ir.walk(program.body)):
        return []
    return _Arranger(program).endless


def _is_wait(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.Flag | ir.CrossFlag) and stmt.action == "wait"


class _Arranger:
    """Takes the first statement that can run, again and again. If none can, the first one is taken nevertheless."""

    def __init__(self, program: ir.Program) -> None:
        self.cores = StatementCores(program)
        crossing = [stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.CrossFlag)]
        self._computed = {ends_of(stmt)[0] for stmt in crossing if not isinstance(stmt.event, int)}
        """Cores that set flags with computed ids: any wait may be for any of its sets."""
        self._uncertain: set[Key] = set()
        """Flags that are set or waited for in branches, or in loops with an unknown number of iterations."""
        self.endless: list[tuple[ir.Flag | ir.CrossFlag, ir.Flag | ir.CrossFlag | None]] = []
        self._note_uncertain(program.body, certain=True)
        self.result = self._block(program.body, Counter(), is_outermost=True)

    def _note_uncertain(self, block: ir.Block, *, certain: bool) -> None:
        for stmt in block:
            if is_crossing(stmt) and not certain:
                self._uncertain.add(self._key(stmt))
            inside = certain and (not isinstance(stmt, ir.Loop) or _iterations(stmt) < inf)
            for inner in ir.children(stmt):
                self._note_uncertain(inner, certain=inside and not isinstance(stmt, ir.Branch))

    def _key(self, stmt: ir.Stmt) -> Key:
        assert isinstance(stmt, ir.Flag | ir.CrossFlag)
        if isinstance(stmt, ir.Flag):
            return stmt.src, stmt.dst, stmt.event
        setter = ends_of(stmt)[0]
        return (setter, None) if setter in self._computed else (setter, stmt.event)

    def _block(self, block: ir.Block, tokens: Tokens, *, is_outermost: bool = False) -> ir.Block:
        left, out = list(block), list[ir.Stmt]()
        while left:
            number = self._first_that_runs(left, tokens)
            if number is None:
                number = 0
                if (other := self._partner(left)) is not None:
                    left[0] = self._joined(left[0], left.pop(other))
                elif is_outermost:
                    self._note_endless(left)
            stmt = left.pop(number)
            out.append(ir.with_blocks(stmt, [self._block(inner, tokens.copy()) for inner in ir.children(stmt)]))
            takes, gives = self._effect(stmt)
            tokens.update(gives)
            tokens.subtract({key: min(count, tokens[key]) for key, count in takes.items()})
        return tuple(out)

    def _first_that_runs(self, left: list[ir.Stmt], tokens: Tokens) -> int | None:
        held: set[str] = set()
        undefined: set[Var] = set()
        for number, stmt in enumerate(left):
            cores = self.cores.of(stmt)
            used = {var for expr in ir.expressions(stmt) for var in variables(expr)}
            if cores.isdisjoint(held) and used.isdisjoint(undefined) and self._can_run(stmt, tokens):
                return number
            held |= cores
            undefined.update(ir.definitions((stmt,)))
            if held >= self.cores.all:
                break
        return None

    def _partner(self, left: list[ir.Stmt]) -> int | None:
        """The statement that the other core is at, if it is the same loop or branch as the one that cannot run."""
        first = left[0]
        mine = self.cores.of(first)
        for number, stmt in enumerate(left[1:], 1):
            theirs = self.cores.of(stmt)
            if theirs and not theirs <= mine:
                same = len(mine) == len(theirs) == 1 and theirs.isdisjoint(mine) and _are_alike(first, stmt)
                return number if same else None
        return None

    def _joined(self, first: ir.Stmt, other: ir.Stmt) -> ir.Stmt:
        """Two loops or branches of two cores as one of both."""
        blocks = [ir.children(each) for each in (first, _like(other, first))]
        joined = ir.with_blocks(first, [(*one, *two) for one, two in zip(*blocks, strict=True)])
        self.cores.add(joined)
        return joined

    def _can_run(self, stmt: ir.Stmt, tokens: Tokens) -> bool:
        takes, _ = self._effect(stmt)
        return all(tokens[key] >= count for key, count in takes.items())

    def _effect(self, stmt: ir.Stmt) -> tuple[Tokens, Tokens]:
        """How many sets a statement takes from before it, and how many it leaves."""
        if isinstance(stmt, ir.Flag | ir.CrossFlag):
            one = Counter({self._key(stmt): 1}) if is_crossing(stmt) else Counter[Key]()
            return (one, Counter()) if stmt.action == "wait" else (Counter(), one)
        takes, gives = Counter[Key](), Counter[Key]()
        for block in ir.children(stmt):  # the arms of a branch: the most that one of them takes and leaves
            each = [self._effect(inner) for inner in block]
            takes |= sum((taken for taken, _ in each), Counter[Key]())
            gives |= sum((given for _, given in each), Counter[Key]())
        times = _iterations(stmt) if isinstance(stmt, ir.Loop) else 1
        net = {key: (gives[key] - takes[key]) * times for key in {*takes, *gives} if gives[key] != takes[key]}
        return (
            Counter({key: -count for key, count in net.items() if count < 0}),  # type: ignore[misc]
            Counter({key: count for key, count in net.items() if count > 0}),  # type: ignore[misc]
        )

    def _note_endless(self, left: list[ir.Stmt]) -> None:
        """Note a wait that cannot end, if that is certain."""
        stmt = left[0]
        if any(len(self.cores.of(each)) > 1 and ir.children(each) for each in left):
            return
        if not isinstance(stmt, ir.Flag | ir.CrossFlag) or self._key(stmt) in self._uncertain:
            return
        setter = ends_of(stmt)[0]
        others = (each for each in left[1:] if setter in self.cores.of(each))
        blocker = next(others, None)
        sets = any(isinstance(each, ir.Flag | ir.CrossFlag) and is_crossing(each) and each.action == "set"
                   and self._key(each) == self._key(stmt) for each in ir.walk(tuple(left)))  # fmt: skip
        if not sets:
            self.endless.append((stmt, None))
        elif isinstance(blocker, ir.Flag | ir.CrossFlag) and is_crossing(blocker) and _is_wait(blocker):
            self.endless.append((stmt, blocker))


def _are_alike(one: ir.Stmt, other: ir.Stmt) -> bool:
    """Whether two statements are loops over the same numbers, or branches with the same condition."""
    if isinstance(one, ir.Loop) and isinstance(other, ir.Loop):
        return (one.start, one.stop, one.step, one.buffers) == (other.start, other.stop, other.step, other.buffers)
    return isinstance(one, ir.Branch) and isinstance(other, ir.Branch) and one.condition == other.condition


def _like(stmt: ir.Stmt, first: ir.Stmt) -> ir.Stmt:
    """A loop with the variable of another one."""
    if not isinstance(stmt, ir.Loop) or not isinstance(first, ir.Loop):
        return stmt
    values = {stmt.var: first.var}
    body = (ir.with_expressions(inner, lambda expr: substitute(expr, values)) for inner in stmt.body)
    return replace(stmt, var=first.var, body=tuple(body))


def _iterations(loop: ir.Loop) -> float:
    start, stop = loop.start, loop.stop
    if isinstance(start, int) and isinstance(stop, int):
        return len(range(start, stop, loop.step))
    return inf
