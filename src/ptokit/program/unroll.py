"""Unrolled programs: loops for a few iterations, branches with both arms, instructions in steps.

A loop is unrolled for as many iterations as it takes to see every pair of iterations that can touch the same memory:
one more than it has copies of its tiles. What holds from one iteration to the next holds over more iterations too,
because what a pipe has waited for stays known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import methodcaller
from typing import Any

from ptokit.finding import Where
from ptokit.program import ir
from ptokit.program.before import PipeStep, Unrolled
from ptokit.program.cores import (
    Cores,
    PipeWork,
    Step,
    Sync,
    ends_of,
    fenced_pipes,
    gate,
    home_of,
    on_cores,
    pipe_of,
    pipes_of,
    steps,
    unit_of,
)
from ptokit.program.expr import Expr, Var, apply, interval, substitute, subtract
from ptokit.program.instr_calls import all_operands, call_of
from ptokit.program.memory import History, OperandAccess, Path, rewrite
from ptokit.target import SCALAR, Core, Profile

SOURCE = "source"
LOAD_SCALAR: tuple[Step, ...] = (PipeWork(SCALAR, reads=(SOURCE,)),)


def unroll(program: ir.Program, profile: Profile, *, only_events: bool = False) -> Unrolled:
    """Unroll a program.

    With `only_events` the operations have no events. Instead steps conflict if one instruction waits for the event of
    another, and not if they touch the same memory.
    """
    unroller = _Unroller(program, profile, only_events=only_events)
    unroller.block(program.body, (), (), {})
    return unroller.result


LoopValues = Mapping[Var, Expr]
"""The variables of the loops around, in terms of the iterations of these loops."""
Handler = Callable[[Any, Path, tuple[int, ...], LoopValues], None]
"""Emits a statement of one type at a path."""


@dataclass(frozen=True)
class _Steps:
    """The steps of a statement, and what they touch."""

    steps: tuple[tuple[Step, str, tuple[OperandAccess, ...]], ...]
    """Each step, its gate and its accesses."""

    @property
    def pipes(self) -> tuple[str, ...]:
        return tuple(step.pipe for step, _, _ in self.steps if isinstance(step, PipeWork))


class _Unroller:
    """Emits the operations of a program, block by block."""

    def __init__(self, program: ir.Program, profile: Profile, *, only_events: bool) -> None:
        self.program = program
        self.profile = profile
        self.only_events = only_events
        self.events: dict[int, int] = defaultdict(int)
        """For each event: the steps of the instructions that have signalled it so far (`only_events`)."""
        self.history = History(program)
        self.outline = self.history.outline
        self.cores = Cores(program, profile)
        overlapping = tuple(pipe for pipe in pipes_of(profile) if unit_of(pipe) == profile.overlapping)
        self.result = Unrolled(pipes_of(profile), [], [], {}, self.outline, () if only_events else overlapping, {})
        self.mine = dict.fromkeys(self.result.overlapping, 0)
        """The steps so far of each pipe whose instructions may overlap."""
        self._sites: dict[Path, _Steps] = {}
        self._handlers: dict[type[ir.Stmt], Handler] = {
            ir.Instr: self._instr, ir.LoadScalar: self._load_scalar, ir.Flag: self._flag,
            ir.CrossFlag: self._cross_flag, ir.Barrier: self._barrier, ir.Loop: self._loop, ir.Branch: self._branch,
        }  # fmt: skip

    def block(self, block: ir.Block, at: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        """Emit a block, with a slot before every statement and after the last."""
        for number, stmt in enumerate(block):
            self._slot(at, number, iterations)
            handler = self._handlers.get(type(stmt))
            if handler:
                handler(stmt, (*at, number), iterations, scope)
        self._slot(at, len(block), iterations)

    def _emit(self, method: str, *arguments: Any) -> None:
        self.result.ops.append(methodcaller(method, *arguments))

    def _slot(self, at: Path, number: int, iterations: tuple[int, ...]) -> None:
        self.result.slots.setdefault((at, number), len(self.result.ops))
        self._emit("slot", (at, number), iterations[-1] if iterations else 0)

    # --- statements that touch memory ---

    def _instr(self, stmt: ir.Instr, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        if path not in self._sites:
            todo = steps(call_of(self.program, stmt, self.profile), self.profile)
            operands = {name: o for name, o in all_operands(stmt).items() if isinstance(o, ir.TileUse | ir.View)}
            home = home_of((self.program.tiles[use.tile].spec.loc for use in stmt.tiles), self.profile)
            self._sites[path] = self._site(todo, operands, path, scope, [home])
        if self.only_events:
            awaited = 0
            for event in stmt.waits:
                awaited |= self.events[event]
            own = self._work(path, iterations, stmt.where, awaited)
            if stmt.event is not None:
                self.events[stmt.event] |= own
            return
        pipes = self._sites[path].pipes
        for event in stmt.waits:
            self._emit("wait_event", event, pipes)
        self._work(path, iterations, stmt.where)
        if stmt.event is not None:
            self._emit("signal_event", stmt.event, pipes)

    def _load_scalar(self, stmt: ir.LoadScalar, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        if path not in self._sites:
            homes = [core for core in self.profile.cores if f"{core.name}.{SCALAR}" in self.cores.scalars(stmt)]
            self._sites[path] = self._site(LOAD_SCALAR, {SOURCE: stmt.source}, path, scope, homes)
        self._work(path, iterations, stmt.where)

    def _site(
        self,
        todo: tuple[Step, ...],
        operands: Mapping[str, ir.TileUse | ir.View],
        path: Path,
        scope: LoopValues,
        homes: Sequence[Core],
    ) -> _Steps:
        """The steps of a statement, on each of its `homes`."""
        loops = self.outline.around(path)

        def accesses(names: tuple[str, ...], step: PipeWork, *, writes: bool) -> list[OperandAccess]:
            found = [(operands[name], name in step.late) for name in names if name in operands]
            return [
                OperandAccess(rewrite(o, scope) if isinstance(o, ir.View) else o, writes, loops, late)
                for o, late in found
            ]

        site: list[tuple[Step, str, tuple[OperandAccess, ...]]] = []
        for home in homes:
            for step, placed in zip(todo, on_cores(todo, home, self.profile), strict=True):
                if isinstance(step, Sync):
                    site.append((placed, "", ()))
                else:
                    touched = (*accesses(step.reads, step, writes=False), *accesses(step.writes, step, writes=True))
                    site.append((placed, pipe_of(gate(todo, step.pipe), home, self.profile), touched))
        return _Steps(tuple(site))

    def _work(self, path: Path, iterations: tuple[int, ...], where: Where | None, awaited: int = 0) -> int:
        """Emit the steps of a statement, which come after the `awaited` ones; return their bits.

        They do not conflict with one another: the instruction orders them itself.
        """
        first = len(self.result.steps)
        new: list[tuple[OperandAccess, int]] = []
        for step, entry, accesses in self._sites[path].steps:
            if isinstance(step, Sync):
                self._emit("sync", step.src, step.dst)
                continue
            conflicts, bit, needs, mine = awaited, len(self.result.steps), 0, self.mine.get(step.pipe, 0)
            for access in () if self.only_events else accesses:
                conflicts |= self.history.conflicts(access, iterations)
                needs |= self.history.writers(access, iterations) & mine if mine and not access.late else 0
                new.append((access, 1 << bit))
            order = needs, step.fences, step.ends
            self.result.steps.append(PipeStep(step.pipe, entry, path, iterations, conflicts, where, *order))
            if step.pipe in self.mine:
                self.mine[step.pipe] |= 1 << bit
            self._emit("work", bit)
        for access, bit in new:
            self.history.record(access, iterations, bit)
        return (1 << len(self.result.steps)) - (1 << first)

    # --- flags of the program ---

    def _flag(self, stmt: ir.Flag, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        event = self._event(stmt, path, iterations, scope)
        if event is None or not {stmt.src, stmt.dst} <= {*self.profile.pipes}:
            return  # it is not known which flag this is, so it orders nothing
        for src, dst in self.cores.pairs(stmt):
            self._emit(stmt.action, src if stmt.action == "set" else dst, (src, dst, event))

    def _cross_flag(self, stmt: ir.CrossFlag, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        event = self._event(stmt, path, iterations, scope)
        if event is not None:
            pipe = stmt.pipe if stmt.action == "set" else self.profile.cross_wait or stmt.pipe
            self._emit(stmt.action, f"{stmt.core}.{pipe}", (ends_of(stmt), event))

    def _event(
        self, stmt: ir.Flag | ir.CrossFlag, path: Path, iterations: tuple[int, ...], scope: LoopValues
    ) -> int | None:
        """The id of a flag in these iterations, if it is known."""
        counters = [self.history.views.counters[loop] for loop in self.outline.around(path)]
        event = substitute(substitute(stmt.event, scope), dict(zip(counters, iterations, strict=True)))
        return event if isinstance(event, int) else None

    def _barrier(self, stmt: ir.Barrier, _path: Path, _iterations: tuple[int, ...], _scope: LoopValues) -> None:
        if stmt.pipe == "ALL":
            self._emit("barrier", stmt.core)
        for pipe in fenced_pipes(stmt, self.profile):
            self._emit("fence", pipe)

    # --- loops and branches ---

    def _branch(self, stmt: ir.Branch, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        if isinstance(stmt.condition, int):
            arm = 0 if stmt.condition else 1
            self.block((stmt.then, stmt.otherwise)[arm], (*path, arm), iterations, scope)
            return
        self._emit("fork")
        self.block(stmt.then, (*path, 0), iterations, scope)
        self._emit("end_path")
        self._emit("next_path")
        self.block(stmt.otherwise, (*path, 1), iterations, scope)
        self._emit("end_path")
        self._emit("join")

    def _loop(self, stmt: ir.Loop, path: Path, iterations: tuple[int, ...], scope: LoopValues) -> None:
        body, views = (*path, 0), self.history.views
        start = substitute(stmt.start, scope)
        fewest, most = self._trips(stmt, scope)
        if not most:
            return
        self.result.copies[body] = copies = int(min(self._copies(stmt, body), most))
        views.counters[body] = counter = Var(f"{stmt.var}@{'.'.join(map(str, path))}")
        views.homes[counter], views.bounds[counter] = self.outline.around(body), (0, most - 1)
        inside = {**scope, stmt.var: apply("add", start, apply("mul", stmt.step, counter))}
        count = _unrolled_iterations(most, copies, known=fewest == most)
        exits = range(int(min(fewest, max(0, count - copies + 1))), count) if fewest != most else ()
        self._emit("fork")
        for number in range(count):
            if number in exits:
                self._emit("end_path")
            self.block(stmt.body, body, (*iterations, number), inside)
        self._emit("end_path")
        self._emit("join")

    def _trips(self, loop: ir.Loop, scope: LoopValues) -> tuple[float, float]:
        """The fewest and the most iterations that a loop can have."""
        start, stop = (substitute(expr, scope) for expr in (loop.start, loop.stop))
        distance = subtract(stop, start) if loop.step > 0 else subtract(start, stop)
        ends = interval(distance, self.history.views.bounds)
        fewest, most = (max(0, end if end in (-inf, inf) else -(-end // abs(loop.step))) for end in ends)
        return fewest, most

    def _copies(self, loop: ir.Loop, body: Path) -> int:
        """How many iterations of a loop have their own tiles."""
        here = [name for name, home in self.outline.tiles.items() if home[-1:] == (body,)]
        return max(1, loop.buffers, *(self.program.tiles[name].buffers for name in here))


def _unrolled_iterations(most: float, copies: int, *, known: bool) -> int:
    """How many iterations to unroll: enough to use a copy again, and ending with the same copy as the loop if known."""
    enough = copies + 1
    if most <= enough:
        return int(most)
    return enough + (int(most) - enough) % copies if known else enough
