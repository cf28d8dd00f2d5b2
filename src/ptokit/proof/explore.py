"""All paths of a program: loops for every number of iterations, branches both ways, until every state was seen."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ptokit.machine.shadow import READ
from ptokit.program import ir
from ptokit.program.bounds import ids_of
from ptokit.program.cores import (
    busy_pipes,
    core_of,
    fenced_pipes,
    home_of,
    is_crossing,
    kind_of,
    own_pipe,
    pipe_of,
    vector_of,
    vectors_of,
)
from ptokit.program.expr import (
    BLOCK_IDX,
    BLOCK_NUM,
    SUBBLOCK_IDX,
    Bounds,
    Var,
    variables,
)
from ptokit.program.instr_calls import access_of, call_of, effects, named_operands
from ptokit.program.order import order
from ptokit.program.place import place
from ptokit.program.streams import Node, Streams, crosses, is_wait
from ptokit.program.verify_call import Options
from ptokit.proof.accesses import Doing, PipeTouches, Touch, Touches, memory_of, scalar_load
from ptokit.proof.chip import ChipChecks
from ptokit.proof.numbers import Numbers, OpenCondition, Sum, UnknownNumber, added, constant_of
from ptokit.proof.order import CrossRecords, OrderFault, OrderState, PathEnded, TooMuch, Wiring
from ptokit.proof.paths import Path, PathBlock, PathCore, PlacedBlock
from ptokit.proof.records import PathWork, Records
from ptokit.proof.repetition import Repetition
from ptokit.proof.states import StateKeys
from ptokit.target import SCALAR, Profile
from ptokit.target.profile import CROSS_MOST, CUBE_CORE, VECTOR_CORE

MOST_AGE = 8
"""Iterations after which the block that an access has touched is only known to be of some earlier iteration."""
SLOTS = 3
"""Blocks of arrays that are kept for each access: those of its last times."""


class PipeUse(NamedTuple):
    """How a statement uses an array on a pipe."""

    memory: str
    pipe: str
    access: str
    stmt: ir.Stmt


class Explorer:
    """Explores the paths of a program for a target."""

    def __init__(
        self,
        program: ir.Program,
        profile: Profile,
        options: Options,
        bounds: dict[Var, Bounds],
        seconds: float,
        arrays: Any = None,
    ) -> None:
        self.program, self.profile = program, profile
        self.bounds = {BLOCK_IDX: (0, inf), BLOCK_NUM: (1, inf), **bounds}
        self.accesses = Touches(program, profile, options)
        self.wiring = Wiring(self.accesses.cores.pipes, profile.overlapping)
        self.records = Records(len(self.wiring.pipes))
        self.numbers = {id(stmt): k for k, stmt in enumerate(ir.walk(program.body))}
        self.statements = list(ir.walk(program.body))
        self.repetition = Repetition(program)
        self.streams = Streams(program, profile) if crosses(program) else None
        self.faults: dict[OrderFault, tuple[Any, ...]] = {}
        self.arrays = arrays
        self.written = {name for instr in program.instructions for name in _written(program, instr)}
        self.count = 0
        self._end = process_time() + seconds
        self._seen: set[Hashable] = set()
        self.array_uses = list(self._array_uses()) if profile.pipes else []
        self.shared_arrays = self._shared_arrays()
        self._busy = [self.wiring.number[pipe] for pipe in self._working()]
        self._cross: dict[Hashable, CrossRecords] = {}
        self._cross_mask = 0
        """The records of flags between cores."""
        self._scalars: dict[Hashable, Doing] = {}
        self._symbols: dict[Var, str] = {}
        """The numbers from memory, with their arrays."""
        self.states = StateKeys(program, self.repetition, self._symbols)
        self.local = {id(loop): _local(program, loop) for loop in ir.walk(program.body) if isinstance(loop, ir.Loop)}
        """The numbers from memory that only the body of each loop uses."""
        self.current: ir.Stmt | None = None
        """The statement of which a number must be known."""
        self.chip = ChipChecks(program)

    # --- the search

    def run(self) -> None:
        """Explore all paths. Raises `TooMuch`, `Unknown`, `VerifyError`."""
        todo = [self._first()]
        while todo:
            path = todo.pop()
            try:
                self._follow(path)
            except OpenCondition as open_:
                for fact in reversed(open_.ways):
                    other = path.copy()
                    if other.threads[0].numbers.learn(fact):
                        other.choices = (fact, *path.choices[:64])
                        todo.append(other)
            except PathEnded:
                pass

    def _working(self) -> Iterator[str]:
        """The pipes that some statement has work for."""
        cores, count = self.accesses.cores, self.program.vector_cores
        found = {pipe for instr in self.program.instructions for pipe in busy_pipes(self.program, instr, self.profile)}
        for stmt in self.statements:
            found |= {*cores.scalars(stmt)} if isinstance(stmt, ir.LoadScalar) else set()
        own = {own_pipe(pipe, core, count) for pipe in found for core in cores.names} | found
        return (pipe for pipe in self.wiring.pipes if pipe in own)

    def _array_uses(self) -> Iterator[PipeUse]:
        """How each statement uses arrays, on each pipe."""
        for stmt in self.statements:
            if isinstance(stmt, ir.LoadScalar):
                for pipe in self.accesses.cores.scalars(stmt):
                    yield PipeUse(memory_of(self.program, stmt.source), pipe, READ, stmt)
            elif isinstance(stmt, ir.Instr):
                home = home_of((self.program.tiles[use.tile].spec.loc for use in stmt.tiles), self.profile)
                given = named_operands(stmt)
                for effect in effects(call_of(self.program, stmt, self.profile)):
                    if isinstance(view := given.get(effect.operand), ir.View):
                        pipe = pipe_of(effect.pipe, home, self.profile)
                        yield PipeUse(memory_of(self.program, view), pipe, effect.access, stmt)

    def _shared_arrays(self) -> frozenset[str]:
        """The arrays that one pipe writes and another one touches."""
        users: dict[str, set[str]] = {}
        for use in self.array_uses:
            copies = range(self.program.vector_cores if kind_of(core_of(use.pipe)) == VECTOR_CORE.name else 1)
            users.setdefault(use.memory, set()).update(f"{use.pipe} {k}" for k in copies)
        return frozenset(use.memory for use in self.array_uses if use.access != READ and len(users[use.memory]) > 1)

    def _first(self) -> Path:
        def thread(core: str, nodes: Sequence[Node]) -> PathCore:
            numbers = Numbers(self.bounds)
            numbers.values[SUBBLOCK_IDX] = {1: vector_of(core)} if vector_of(core) else {}
            return PathCore(core, [PathBlock(nodes)], numbers)

        if self.streams is None:
            threads = [thread("", _nodes(self.program.body))]
        else:
            threads = [thread(core, self.streams.tree(core)) for core in self.streams.names]
        for each in threads:
            each.numbers.facts = threads[0].numbers.facts
        return Path(threads, OrderState(self.wiring))

    def _follow(self, path: Path) -> None:
        """Follow a path to its end, or to a state that was seen."""
        while True:
            thread = self._choose(path)
            if thread is None:
                path.order.finish(self._report(path))
                return
            if self._step(path, thread) and self._is_seen(path, thread):
                return

    def _report(self, path: Path) -> Any:
        def report(fault: OrderFault) -> None:
            self.faults.setdefault(fault, path.choices)

        return report

    def _is_seen(self, path: Path, thread: PathCore) -> bool:
        self.count += 1
        if process_time() > self._end:
            raise TooMuch("the time for a proof is over")
        self._forget_old(path)
        path.order.settle(self._busy, self._cross_mask)
        key = self.states.key(path, None)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    # --- states

    def _forget_old(self, path: Path) -> None:
        """Blocks that were touched long ago, or in a loop that is over, are of some earlier iteration. What is known of
        numbers from memory that no core uses any longer is forgotten."""
        now = {loop: n for thread in reversed(path.threads) for loop, n in thread.iterations}
        for symbol, born in list(path.born.items()):
            if not any(now.get(loop, n + 1) <= n for loop, n in born) and not _uses(path, symbol):
                path.threads[0].numbers.forget(symbol)
                del path.born[symbol]
        for record, placed in list(path.order.placed.items()):
            if any(not -1 <= age <= MOST_AGE for _, age in self.states.ages(path, placed)):
                del path.order.placed[record]

    # --- one step

    def _choose(self, path: Path) -> PathCore | None:
        """The core that goes on: of those that can, the one whose next statement comes first in the text."""
        left = [thread for thread in path.threads if thread.frames]
        for thread in left:
            self._settle(thread)
        left = [thread for thread in left if thread.frames]
        ready = [thread for thread in left if self._can_go_on(path, thread, left)]
        if ready:
            return min(ready, key=lambda thread: thread.position)
        for thread in sorted(left, key=lambda thread: thread.position):
            node = thread.next
            if (
                node is not None
                and is_wait(node.stmt)
                and self.streams is not None
                and self.streams.goes_past(node.stmt)
            ):
                return thread
        if left:
            stuck = [thread.next.stmt for thread in left if thread.next is not None]
            self._report(path)(OrderFault("stuck", tuple(self.numbers[id(stmt)] for stmt in stuck[:2]), None, "cores"))
            raise PathEnded
        return None

    def _settle(self, thread: PathCore) -> None:
        """Leave blocks that are over, except loops, which decide that."""
        while thread.frames and thread.next is None and thread.frames[-1].loop is None:
            thread.frames.pop()

    def _can_go_on(self, path: Path, thread: PathCore, left: list[PathCore]) -> bool:
        scalar = self.wiring.number.get(f"{thread.core}.{SCALAR}") if thread.core else None
        if scalar is not None and scalar in path.order.queues:
            return False
        node = thread.next
        if node is None or self.streams is None:
            return True
        if node.is_shared:
            sharing = [other for other in path.threads if not vector_of(other.core)]
            return all(other.frames and other.position == thread.position for other in sharing)
        if is_wait(node.stmt) and isinstance(node.stmt, ir.CrossFlag | ir.Flag):
            event = thread.numbers.exact(node.stmt.event)
            if isinstance(node.stmt, ir.CrossFlag):
                return all(map(path.order.sets.get, self.streams.keys(node.stmt, thread.core, event)))
            pairs = self.accesses.cores.pairs(node.stmt, thread.core)
            return not is_crossing(node.stmt) or all((*pair, event) in path.order.flags for pair in pairs)
        return True

    def _step(self, path: Path, thread: PathCore) -> bool:
        """Run the next statement of a core; whether it is a place where states are compared."""
        node = thread.next
        if node is None:
            return self._next_iteration(path, thread)
        stmt = node.stmt
        if isinstance(stmt, ir.Loop):
            frame = PathBlock(node.blocks[0], stmt)
            frame.start, frame.stop = map(thread.numbers.settled, (stmt.start, stmt.stop))
            thread.frames[-1].at += 1
            thread.frames.append(frame)
            frame.iteration = -1
            frame.at = len(frame.nodes)
            return False
        if isinstance(stmt, ir.Branch):
            arm = node.blocks[0 if thread.numbers.decide(stmt.condition) else 1]
            thread.frames[-1].at += 1
            thread.frames.append(PathBlock(arm))
            return False
        for each in self._sharing(path, thread, node):
            each.frames[-1].at += 1
        try:
            STEPS[type(stmt)](self, path, thread, node, stmt)
        except (OpenCondition, UnknownNumber):
            self.current = stmt
            for each in self._sharing(path, thread, node, back=True):
                each.frames[-1].at -= 1
            raise
        return thread.next is None and thread.frames[-1].loop is None and len(thread.frames) > 1

    def _sharing(self, path: Path, thread: PathCore, node: Node, *, back: bool = False) -> list[PathCore]:
        if not node.is_shared or self.streams is None:
            return [thread]
        at = thread.position
        return [
            each for each in path.threads if each.frames and not vector_of(each.core) and (back or each.position == at)
        ]

    def _next_iteration(self, path: Path, thread: PathCore) -> bool:
        """The head of a loop: one more iteration, or none."""
        frame = thread.frames[-1]
        loop = frame.loop
        assert loop is not None
        numbers, number = thread.numbers, frame.iteration + 1
        value = added(frame.start, {1: loop.step * number} if number else {})
        goes_on = numbers.compare("lt" if loop.step > 0 else "gt", value, frame.stop)
        numbers.unbind(loop.var, *self.local[id(loop)])
        self._rebind(path, loop.var, *self.local[id(loop)])
        if not goes_on:
            thread.frames.pop()
            self._widen(path, numbers)
            return True
        frame.iteration, frame.at = number, 0
        numbers.bind(loop.var, value)
        self._skip(path, thread, frame)
        return True

    def _rebind(self, path: Path, *changed: Var) -> None:
        """Variables get new values: extents that depend on them are others."""
        gone = frozenset(changed)
        path.partial = {
            key: use
            for key, use in path.partial.items()
            if not any(variables(expr) & gone for expr in (*use.valid, *use.start))
        }

    def _widen(self, path: Path, numbers: Numbers) -> None:
        """After a loop of many iterations, how many is forgotten, unless the loop of another core depends on it."""
        compared, _ = self.states.compared(path)
        for (form, divisor), (low, high) in list(numbers.facts.items()):
            if divisor or form in compared or inf in (-low, high):
                continue
            if low > self.states.cap:
                numbers.change((form, divisor), (self.states.cap, inf))
            elif high < -self.states.cap:
                numbers.change((form, divisor), (-inf, -self.states.cap))

    def _skip(self, path: Path, thread: PathCore, frame: PathBlock) -> None:
        """Leave out iterations of a loop with a known number of them, if they do what earlier ones did."""
        loop, numbers = frame.loop, thread.numbers
        assert loop is not None
        stop, start = constant_of(frame.stop), constant_of(frame.start)
        if stop is None or start is None or loop.var in self.repetition.exact:
            return
        count = len(range(start, stop, loop.step))
        if count <= 2 * self.repetition.period + 2:
            return
        points = {count} | self.repetition.turns(loop, start)
        if frame.iteration in points:
            frame.seen.clear()
            return
        self._forget_old(path)
        key = self.states.key(path, frame)
        before = frame.seen.get(key)
        frame.seen[key] = frame.iteration
        if before is None:
            return
        period = frame.iteration - before
        limit = min(point for point in points if point > frame.iteration)
        skipped = max(0, (limit - 1 - frame.iteration) // period) * period
        if skipped:
            path.order.placed = {
                record: placed for record, placed in path.order.placed.items() if not placed.iterations
            }
            frame.iteration += skipped
            numbers.bind(loop.var, added(frame.start, {1: loop.step * frame.iteration}))
            frame.seen.clear()

    # --- statements

    def _declare(self, path: Path, thread: PathCore, node: Node, stmt: ir.TileDecl) -> None:
        for vector in self._vectors(thread, stmt):
            if stmt.addresses:
                address = thread.numbers.exact(stmt.addresses[thread.iteration % len(stmt.addresses)])
                self._place(path, thread, vector, stmt, address)
                if stmt.fresh and not node.binds_only:
                    self.chip.undefine(path, stmt, address, vector)

    def _vectors(self, thread: PathCore, stmt: ir.Stmt) -> tuple[int, ...]:
        is_divided = self.program.vector_cores > 1 and thread.core == CUBE_CORE.name
        return vectors_of(stmt) if is_divided else (vector_of(thread.core),)

    def _place(self, path: Path, thread: PathCore, vector: int, tile: ir.TileDecl, address: int) -> None:
        size = self.profile.memories[tile.spec.loc].size
        if size is not None and not 0 <= address <= size - tile.spec.nbytes:
            self._report(path)(OrderFault("address", self.numbers[id(tile)], None, address))
        thread.addresses.setdefault(vector, {})[tile.name] = address

    def _assign(self, path: Path, thread: PathCore, _node: Node, stmt: ir.Assign) -> None:
        address = thread.numbers.exact(stmt.address)
        for vector in self._vectors(thread, stmt):
            tile = self.program.tiles[stmt.tile]
            self._place(path, thread, vector, tile, address)

    def _instr(self, path: Path, thread: PathCore, _node: Node, stmt: ir.Instr) -> None:
        doings = [
            (self.accesses.of(stmt, thread.numbers, thread.addresses.get(vector, {}), thread.core, vector), vector)
            for vector in self._vectors(thread, stmt)
        ]
        placed = [self._placed(thread, doing) for doing, _ in doings]
        number, report = self.numbers[id(stmt)], self._report(path)
        for (doing, vector), blocks in zip(doings, placed, strict=True):
            for finding in doing.findings:
                if finding.is_fault:
                    report(OrderFault("call", number, None, finding.message))
            for name in doing.unaligned:
                report(OrderFault("burst", number, None, name))
            self.chip.check(report, number, path, thread, doing, stmt, vector)
            self._issue(path, stmt, doing, blocks, vector)

    def _issue(
        self,
        path: Path,
        stmt: ir.Instr | ir.LoadScalar,
        doing: Doing,
        placed: list[dict[int, PlacedBlock]],
        vector: int,
    ) -> None:
        order, report, number = path.order, self._report(path), self.numbers[id(stmt)]
        pipes = [self.wiring.number[pipe] for pipe in doing.pipes]
        events = isinstance(stmt, ir.Instr)
        for event in stmt.waits if events else ():  # type: ignore[union-attr]
            order.await_event(report, (event, vector), pipes, number)
        position = 0
        for step, blocks in zip(doing.steps, placed, strict=True):
            if isinstance(step, PipeTouches):
                work = PathWork(self, step, number, position, blocks)
                order.issue(report, self.wiring.number[step.pipe], "work", work, number)
                position += 1
            else:
                order.sync(report, self.wiring.number[step.src], self.wiring.number[step.dst], number)
        if events and stmt.event is not None:  # type: ignore[union-attr]
            order.signal(report, (stmt.event, vector), pipes)  # type: ignore[union-attr]

    def _placed(self, thread: PathCore, doing: Doing) -> list[dict[int, PlacedBlock]]:
        """The blocks of arrays that each step touches."""
        found: list[dict[int, PlacedBlock]] = []
        numbers: Numbers | None = None
        for step in doing.steps:
            blocks: dict[int, PlacedBlock] = {}
            touches = step.touches if isinstance(step, PipeTouches) else ()
            kept = [each for each in touches if each.view is None or each.memory in self.shared_arrays]
            for k, access in enumerate(kept):
                if access.view is not None:
                    numbers = numbers or thread.by_counters(self.repetition.divisors)
                    starts, sizes = (tuple(map(numbers.sum_of, of)) for of in (access.view.starts, access.view.sizes))
                    used = {str(var) for part in (*starts, *sizes) for term in part for var in variables(term)}
                    blocks[k] = PlacedBlock(tuple(each for each in thread.counters if each[0] in used), starts, sizes)
            found.append(blocks)
        return found

    def _load(self, path: Path, thread: PathCore, _node: Node, stmt: ir.LoadScalar) -> None:
        argument, memory = self.program.tensors[stmt.source.argument], memory_of(self.program, stmt.source)
        starts = tuple(map(thread.numbers.sum_of, stmt.source.starts))
        if self.profile.pipes:
            doing = self._scalar_loads(stmt, thread.core, memory)
            self._issue(path, stmt, doing, self._placed(thread, doing), 0)
        limits = _limits(argument.dtype)
        symbol = _symbol(argument.name, starts, self.numbers[id(stmt)] if memory in self.written else -1)
        self.bounds[symbol] = limits
        self._symbols[symbol] = argument.name
        path.born[symbol] = thread.iterations
        if memory in self.written:
            for each in path.threads:
                each.numbers.forget(symbol)
        thread.numbers.bind(stmt.result, {symbol: 1})
        self._rebind(path, stmt.result)

    def _scalar_loads(self, stmt: ir.LoadScalar, core: str, memory: str) -> Doing:
        key = id(stmt), core
        known = self._scalars.get(key)
        if known is None:
            known = self._scalars[key] = scalar_load(stmt.source, memory, self.accesses.cores.scalars(stmt, core))
        return known

    def _flag(self, path: Path, thread: PathCore, _node: Node, stmt: ir.Flag) -> None:
        event = self._event(path, thread, stmt)
        order, number, report = path.order, self.numbers[id(stmt)], self._report(path)
        for src, dst in self.accesses.cores.pairs(stmt, thread.core):
            key = src, dst, event
            if stmt.action == "set":
                order.set_flag(report, self.wiring.number[src], key, number)
            else:
                order.wait_flag(report, self.wiring.number[dst], key, number)

    def _event(self, path: Path, thread: PathCore, stmt: ir.Flag | ir.CrossFlag) -> int:
        event = thread.numbers.exact(stmt.event)
        if not 0 <= event < ids_of(stmt, self.program.vector_cores):
            self._report(path)(OrderFault("id", self.numbers[id(stmt)], None, event))
            raise PathEnded
        return event

    def _cross_flag(self, path: Path, thread: PathCore, _node: Node, stmt: ir.CrossFlag) -> None:
        event = self._event(path, thread, stmt)
        core = thread.core or stmt.core
        unit = stmt.pipe if stmt.action == "set" else self.profile.cross_wait or stmt.pipe
        pipe = self.wiring.number[own_pipe(f"{stmt.core}.{unit}", core, self.program.vector_cores)]
        keys = self.streams.keys(stmt, core, event) if self.streams is not None else ((kind_of(core), event),)
        for key in keys:
            ids = self._cross_records(key, pipe)
            path.order.issue(
                self._report(path), pipe, "count" if stmt.action == "set" else "take", ids, self.numbers[id(stmt)]
            )

    def _cross_records(self, key: Any, pipe: int) -> CrossRecords:
        if key not in self._cross:
            made = [self.records.number(("cross", key, k), None, -1, pipe) for k in range(CROSS_MOST + 4)]
            self._cross_mask |= sum(1 << record for record in made)
            self._cross[key] = CrossRecords(key, made[0], made[1], tuple(made[2:]))
        return self._cross[key]

    def _barrier(self, path: Path, thread: PathCore, _node: Node, stmt: ir.Barrier) -> None:
        order, number, report = path.order, self.numbers[id(stmt)], self._report(path)
        if stmt.pipe == "ALL":
            core = thread.core or stmt.core
            for name in dict.fromkeys(map(core_of, self.wiring.pipes)):
                if core in ("", name):
                    order.barrier(report, self.wiring.number[f"{name}.{SCALAR}"], number)
        for pipe in fenced_pipes(stmt, self.profile):
            own = own_pipe(pipe, thread.core, self.program.vector_cores)
            if own in self.wiring.number:
                order.sync(report, self.wiring.number[own], self.wiring.number[own], number)

    # --- arrays

    def shift(self, state: OrderState, key: tuple[Any, ...], access: Touch, stmt: int, pipe: int) -> None:
        """An access to an array is done once more: its records are those of one time before."""
        ids = [self.records.number((*key, slot), access, stmt, pipe) for slot in range(SLOTS + 1)]
        pairs = [(old, new) for old, new in pairwise(ids) if state.active >> old & 1]
        if pairs:
            state.rename(pairs)
            state.placed.pop(ids[-1], None)

    def arrays_meet(self, state: OrderState, other: int, record: int, placed: PlacedBlock) -> bool:
        """Whether an access to an array may touch what an earlier one touched."""
        them, us = self.records.accesses[other][0], self.records.accesses[record][0]
        assert them is not None and us is not None
        before = state.placed.get(other)
        numbers = state.path.threads[0].numbers
        if before is not None and them.view.argument == us.view.argument:  # type: ignore[union-attr]
            now = dict(placed.iterations)
            ages = {Var(name): now[name] - number for name, number in before.iterations if name in now}
            ends = [_aged(part, ages) for part in (*before.starts, *before.sizes)]
            count = len(before.starts)
            for start, size, then, reach in zip(ends[:count], ends[count:], placed.starts, placed.sizes, strict=True):
                if numbers.bounds_of(added(added(start, size), then, -1))[1] <= 0:
                    return False
                if numbers.bounds_of(added(added(then, reach), start, -1))[1] <= 0:
                    return False
        if self.arrays is None:
            return True
        return self.arrays.may_meet(self.records.accesses[other], self.records.accesses[record], self.wiring.pipes)


def _aged(terms: Sum, ages: Mapping[Var, int]) -> Sum:
    """A sum of an earlier iteration in terms of the counters of now."""
    found = dict(terms)
    for term, k in terms.items():
        if isinstance(term, Var) and ages.get(term):
            found[1] = found.get(1, 0) - k * ages[term]
        elif not isinstance(term, Var | int) and any(ages.get(var) for var in variables(term)):
            found[Var(f"then {term}")] = found.pop(term)
    return found


def _written(program: ir.Program, instr: ir.Instr) -> Iterator[str]:
    access = access_of(instr)
    for name, operand in named_operands(instr).items():
        if isinstance(operand, ir.View) and access[name] != READ:
            yield memory_of(program, operand)


def _local(program: ir.Program, loop: ir.Loop) -> tuple[Var, ...]:
    """The numbers from memory that are read in the body of a loop, and used nowhere else."""
    own = {stmt.result for stmt in ir.walk(loop.body) if isinstance(stmt, ir.LoadScalar)}
    inside = {id(stmt) for stmt in ir.walk(loop.body)}
    outside = (stmt for stmt in ir.walk(program.body) if id(stmt) not in inside)
    used = frozenset[Var]().union(*(variables(expr) for stmt in outside for expr in ir.expressions(stmt)))
    return tuple(sorted(own - used))


def _uses(path: Path, symbol: Var) -> bool:
    """Whether some core uses a number from memory."""
    sums = (
        terms
        for thread in path.threads
        for terms in (
            *thread.numbers.values.values(),
            *(s for frame in thread.frames for s in (frame.start, frame.stop)),
        )
    )
    return any(symbol in variables(term) for terms in sums for term in terms)


def _limits(dtype: Any) -> Bounds:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _symbol(name: str, starts: Sequence[Sum], number: int) -> Var:
    """The number in memory at a place: of an array that the program does not write, the same wherever it is read."""
    parts = [" + ".join(f"{k}*{term}" for term, k in sorted(s.items(), key=str)) for s in starts]
    return Var(f"{name}[{', '.join(parts)}]" + (f"@{number}" if number >= 0 else ""))


def _nodes(block: ir.Block) -> tuple[Node, ...]:
    return tuple(Node(stmt, k, tuple(map(_nodes, ir.children(stmt)))) for k, stmt in enumerate(block))


STEPS: dict[type, Any] = {
    ir.TileDecl: Explorer._declare,
    ir.Assign: Explorer._assign,
    ir.Instr: Explorer._instr,
    ir.LoadScalar: Explorer._load,
    ir.Flag: Explorer._flag,
    ir.CrossFlag: Explorer._cross_flag,
    ir.Barrier: Explorer._barrier,
}


def placed_program(program: ir.Program, profile: Profile, dyn_ub: int | None = None) -> ir.Program:
    """The program with all addresses and flags."""
    return order(place(program, profile, dyn_ub).program, profile)
