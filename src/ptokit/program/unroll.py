"""A program written out: loops a few times, branches with both arms, instructions in steps.

Loops are written out for as many turns as it takes to see every pair of turns that can touch the same memory: one more
than they have copies of their tiles. What holds from one turn to the next holds over more turns too, because pipes
forget nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from math import inf
from operator import methodcaller, or_
from typing import Any

from ptokit.finding import Where
from ptokit.program.before import Unrolled, Work
from ptokit.program.calls import all_operands, call_of
from ptokit.program.expr import Expr, Var, apply, interval, substitute, subtract
from ptokit.program.ir import Barrier, Block, Branch, Flag, Instr, LoadScalar, Loop, Program, TileUse, View
from ptokit.program.memory import Access, History, Path, rewrite
from ptokit.program.steps import ISSUE, Step, Sync, Touch, gate, steps
from ptokit.target import Profile

SOURCE = "source"
LOAD_SCALAR: tuple[Step, ...] = (Touch(ISSUE, reads=(SOURCE,)),)


def unroll(program: Program, profile: Profile, *, only_events: bool = False) -> Unrolled:
    """Write a program out, with its events.

    With `only_events` there are none: works conflict where an instruction waits for another, and not over data.
    """
    writer = _Writer(program, profile, only_events=only_events)
    writer.block(program.body, (), (), {})
    return writer.result


Scope = Mapping[Var, Expr]
"""The variables of the loops around, by the turns of these loops."""


@dataclass(frozen=True)
class _Site:
    """The steps of a statement with what they touch."""

    steps: tuple[tuple[Step, str, tuple[Access, ...]], ...]
    """Each step, its gate and its accesses."""

    @property
    def pipes(self) -> tuple[str, ...]:
        """The pipes that work."""
        return tuple(step.pipe for step, _, _ in self.steps if isinstance(step, Touch))


class _Writer:
    """Writes the operations of a program, block by block."""

    def __init__(self, program: Program, profile: Profile, *, only_events: bool) -> None:
        self.program = program
        self.profile = profile
        self.only_events = only_events
        self.events: dict[int, int] = defaultdict(int)
        """For each event: the works of the instructions that have signalled it so far (`only_events`)."""
        self.history = History(program)
        self.outline = self.history.outline
        self.result = Unrolled(profile.pipes, [], [], {}, self.outline, {})
        self._sites: dict[Path, _Site] = {}
        self._handlers = {
            Instr: self._instr, LoadScalar: self._load_scalar, Flag: self._flag, Barrier: self._barrier,
            Loop: self._loop, Branch: self._branch,
        }  # fmt: skip

    def block(self, block: Block, at: Path, turns: tuple[int, ...], scope: Scope) -> None:
        """Write a block, with a slot before every statement and after the last."""
        for number, stmt in enumerate(block):
            self._slot(at, number, turns)
            handler = self._handlers.get(type(stmt))
            if handler:
                handler(stmt, (*at, number), turns, scope)
        self._slot(at, len(block), turns)

    def _emit(self, method: str, *arguments: Any) -> None:
        self.result.ops.append(methodcaller(method, *arguments))

    def _slot(self, at: Path, number: int, turns: tuple[int, ...]) -> None:
        self.result.slots.setdefault((at, number), len(self.result.ops))
        self._emit("slot", (at, number), turns[-1] if turns else 0)

    # --- statements that touch memory ---

    def _instr(self, stmt: Instr, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        if path not in self._sites:
            todo = steps(call_of(self.program, stmt, self.profile), self.profile)
            operands = {name: o for name, o in all_operands(stmt).items() if isinstance(o, TileUse | View)}
            self._sites[path] = self._site(todo, operands, path, scope)
        if self.only_events:
            own = self._work(path, turns, stmt.where, reduce(or_, (self.events[event] for event in stmt.waits), 0))
            if stmt.event is not None:
                self.events[stmt.event] |= own
            return
        pipes = self._sites[path].pipes
        for event in stmt.waits:
            self._emit("hear", event, pipes)
        self._work(path, turns, stmt.where)
        if stmt.event is not None:
            self._emit("signal", stmt.event, pipes)

    def _load_scalar(self, stmt: LoadScalar, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        if path not in self._sites:
            self._sites[path] = self._site(LOAD_SCALAR, {SOURCE: stmt.source}, path, scope)
        self._work(path, turns, stmt.where)

    def _site(self, todo: tuple[Step, ...], operands: Mapping[str, TileUse | View], path: Path, scope: Scope) -> _Site:
        loops = self.outline.around(path)

        def accesses(names: tuple[str, ...], *, writes: bool) -> list[Access]:
            found = [operands[name] for name in names if name in operands]
            return [Access(rewrite(o, scope) if isinstance(o, View) else o, writes, loops) for o in found]

        site: list[tuple[Step, str, tuple[Access, ...]]] = []
        for step in todo:
            if isinstance(step, Sync):
                site.append((step, "", ()))
            else:
                touched = (*accesses(step.reads, writes=False), *accesses(step.writes, writes=True))
                site.append((step, gate(todo, step.pipe), touched))
        return _Site(tuple(site))

    def _work(self, path: Path, turns: tuple[int, ...], where: Where | None, awaited: int = 0) -> int:
        """Write the works of a statement, which come after the `awaited` ones; returns their bits.

        They do not conflict with one another: the instruction orders them itself.
        """
        first = len(self.result.works)
        new: list[tuple[Access, int]] = []
        for step, entry, accesses in self._sites[path].steps:
            if isinstance(step, Sync):
                self._emit("sync", step.src, step.dst)
                continue
            conflicts, bit = awaited, len(self.result.works)
            for access in () if self.only_events else accesses:
                conflicts |= self.history.conflicts(access, turns)
                new.append((access, 1 << bit))
            self.result.works.append(Work(step.pipe, entry, path, turns, conflicts, where))
            self._emit("work", bit)
        for access, bit in new:
            self.history.record(access, turns, bit)
        return (1 << len(self.result.works)) - (1 << first)

    # --- the user's own flags ---

    def _flag(self, stmt: Flag, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        counters = [self.history.views.turns[loop] for loop in self.outline.around(path)]
        event = substitute(substitute(stmt.event, scope), dict(zip(counters, turns, strict=True)))
        if not isinstance(event, int) or not {stmt.src, stmt.dst} <= {*self.profile.pipes}:
            return  # nobody knows which flag this is, so it orders nothing
        key = (stmt.src, stmt.dst, event)
        if stmt.action == "set":
            self._emit("set", stmt.src, key)
        else:
            self._emit("wait", stmt.dst, key)

    def _barrier(self, stmt: Barrier, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        if stmt.pipe == "ALL":
            self._emit("barrier")

    # --- loops and branches ---

    def _branch(self, stmt: Branch, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        if isinstance(stmt.condition, int):
            arm = 0 if stmt.condition else 1
            self.block((stmt.then, stmt.otherwise)[arm], (*path, arm), turns, scope)
            return
        self._emit("part")
        self.block(stmt.then, (*path, 0), turns, scope)
        self._emit("leave")
        self._emit("go_back")
        self.block(stmt.otherwise, (*path, 1), turns, scope)
        self._emit("leave")
        self._emit("meet")

    def _loop(self, stmt: Loop, path: Path, turns: tuple[int, ...], scope: Scope) -> None:
        body, views = (*path, 0), self.history.views
        start = substitute(stmt.start, scope)
        fewest, most = self._trips(stmt, scope)
        if not most:
            return
        self.result.copies[body] = copies = int(min(self._copies(stmt, body), most))
        views.turns[body] = turn = Var(f"{stmt.var}@{'.'.join(map(str, path))}")
        views.homes[turn], views.bounds[turn] = self.outline.around(body), (0, most - 1)
        inside = {**scope, stmt.var: apply("add", start, apply("mul", stmt.step, turn))}
        last = _turns(most, copies, known=fewest == most)
        exits = range(int(min(fewest, max(0, last - copies + 1))), last) if fewest != most else ()
        self._emit("part")
        for number in range(last):
            if number in exits:
                self._emit("leave")
            self.block(stmt.body, body, (*turns, number), inside)
        self._emit("leave")
        self._emit("meet")

    def _trips(self, loop: Loop, scope: Scope) -> tuple[float, float]:
        """The fewest and the most turns that a loop can take."""
        start, stop = (substitute(expr, scope) for expr in (loop.start, loop.stop))
        way = subtract(stop, start) if loop.step > 0 else subtract(start, stop)
        ends = interval(way, self.history.views.bounds)
        fewest, most = (max(0, end if end in (-inf, inf) else -(-end // abs(loop.step))) for end in ends)
        return fewest, most

    def _copies(self, loop: Loop, body: Path) -> int:
        """How many turns of a loop have tiles of their own."""
        here = [name for name, home in self.outline.tiles.items() if home[-1:] == (body,)]
        return max(1, loop.buffers, *(self.program.tiles[name].buffers for name in here))


def _turns(most: float, copies: int, *, known: bool) -> int:
    """How often to write a loop out: enough to come round, and ending with the same copy as the real one if known."""
    enough = copies + 1
    if most <= enough:
        return int(most)
    return enough + (int(most) - enough) % copies if known else enough
