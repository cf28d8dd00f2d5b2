"""All paths of a program: loops for every number of iterations, branches both ways, until every state was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import gcd, inf, lcm
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.storage import region
from ptokit.isa.policy import TileType
from ptokit.machine.overlaps import WORKSPACES
from ptokit.machine.shadow import READ, extent_of, meets
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
    Expr,
    Op,
    Var,
    affine,
    apply,
    parts,
    substitute,
    variables,
)
from ptokit.program.instr_calls import access_of, call_of, effects, named_operands, unknown_writes
from ptokit.program.order import order
from ptokit.program.overlaps import interleaved
from ptokit.program.place import place
from ptokit.program.streams import Node, Streams, crosses, is_wait
from ptokit.program.verify_call import Options
from ptokit.proof.accesses import Access, Accesses, Doing, Work, bits_of, memory_of, scalar_load
from ptokit.proof.numbers import Fact, Numbers, Sum, Undecided, Unknown, added, constant_of, form_of
from ptokit.proof.order import CrossRecords, Fault, OrderState, PathEnded, TooMuch, Wiring
from ptokit.target import SCALAR, Profile
from ptokit.target.profile import CROSS_MOST, CUBE_CORE, VECTOR_CORE

MOST_AGE = 8
"""Iterations after which the block that an access has touched is only known to be of some earlier iteration."""
SLOTS = 3
"""Blocks of arrays that are kept for each access: those of its last times."""


class Repetition:
    """How the behaviour of a program repeats with its loop variables."""

    def __init__(self, program: ir.Program) -> None:
        self.period = 1
        """What addresses and event ids depend on is the remainder of a variable for this divisor."""
        self.exact: set[Var] = set()
        """Variables whose value matters itself."""
        self.most = 0
        """The largest number that a variable is compared with."""
        self.compares: dict[Expr, None] = {}
        """Differences of which conditions take the sign, with loop variables and numbers that are not known."""
        self.divisors: set[int] = set()
        """By which the remainders of variables count."""
        self.soft: dict[Var, dict[Expr, None]] = {}
        """Extents that depend on a variable."""
        self.points: dict[Var, set[int]] = {}
        """Values of variables at which a condition changes."""
        self.loops = {stmt.var for stmt in ir.walk(program.body) if isinstance(stmt, ir.Loop)}
        for stmt in ir.walk(program.body):
            self._note(stmt)

    def _note(self, stmt: ir.Stmt) -> None:
        if isinstance(stmt, ir.Branch):
            self._condition(stmt.condition)
        elif isinstance(stmt, ir.Loop):
            for bound in _arguments(stmt.stop):
                self.compares[apply("sub", stmt.var, bound)] = None
            for each in (part for bound in (stmt.start, stmt.stop) for part in parts(bound)):
                if isinstance(each, Op) and each.name in ("min", "max"):
                    self._condition(apply("lt", *each.args))
        elif isinstance(stmt, ir.TileDecl):
            self.period = lcm(self.period, stmt.buffers, max(1, len(stmt.addresses)))
            for address in stmt.addresses:
                self._walk(address, 0)
        elif isinstance(stmt, ir.Assign | ir.Flag | ir.CrossFlag):
            self._walk(stmt.address if isinstance(stmt, ir.Assign) else stmt.event, 0)
        elif isinstance(stmt, ir.Instr):
            for operand in (*stmt.operands, stmt.workspace):
                for part in ir.expressions(operand.sizes if isinstance(operand, ir.View) else operand):
                    self._soft(part)

    def _soft(self, expr: Expr) -> None:
        """An extent or a place in a tile: if its value is known, it is compared where iterations begin."""
        used = sorted(var for var in variables(expr) if var in self.loops)
        if len(used) == 1:
            self.soft.setdefault(used[0], {})[expr] = None
            for part in parts(expr):
                if isinstance(part, Op) and part.name in ("min", "max"):
                    self._bend(*part.args)
        else:
            self.exact.update(used)

    def _bend(self, left: Expr, right: Expr) -> None:
        """Where a minimum takes the other one of its arguments, if these are numbers."""
        terms = affine(apply("sub", left, right))
        if len([term for term in terms if term != 1]) == 1:
            self._condition(apply("lt", left, right))

    def _walk(self, expr: Expr, period: int) -> None:
        """An expression whose value counts, up to a remainder for `period` if that is not zero."""
        if isinstance(expr, Var):
            if expr in self.loops and period:
                self.divisors.add(period)
                self.period = lcm(self.period, period)
            elif expr in self.loops:
                self.exact.add(expr)
        elif isinstance(expr, Op):
            first, second = expr.args
            if expr.name == "mod" and isinstance(second, int) and second > 0:
                self._walk(first, gcd(period, second) if period and not period % second else second)
            elif expr.name == "and" and isinstance(second, int) and second > 0 and not second & (second + 1):
                self._walk(first, second + 1)
            elif expr.name == "floordiv" and isinstance(second, int) and second > 0 and period:
                self._walk(first, period * second)
            elif expr.name in ("add", "sub", "mul") or (expr.name == "shl" and isinstance(second, int)):
                for arg in expr.args:
                    self._walk(arg, period)
            elif expr.name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or"):
                self._condition(expr)
            else:
                for arg in expr.args:
                    self._walk(arg, 0)

    def _condition(self, condition: Expr) -> None:
        if not isinstance(condition, Op):
            return
        if condition.name in ("and", "or"):
            for arg in condition.args:
                self._condition(arg)
            return
        terms = affine(apply("sub", *condition.args))
        constant = terms.pop(1, 0)
        for term in terms:
            if isinstance(term, Op):
                if term.name in ("mod", "and"):
                    self._walk(term, 0)
                else:
                    self.exact.update(var for var in variables(term) if var in self.loops)
        direct = [term for term in terms if isinstance(term, Var) and term in self.loops]
        if len(terms) == 1 and direct:
            at = -constant // terms[direct[0]]
            self.points.setdefault(direct[0], set()).update((at - 1, at, at + 1, at + 2))
            self.most = max(self.most, abs(at) + 2)
        elif direct:
            self.compares[apply("sub", *condition.args)] = None


def _arguments(bound: Expr) -> tuple[Expr, ...]:
    """What a minimum or maximum may be; else the expression."""
    return bound.args if isinstance(bound, Op) and bound.name in ("min", "max") else (bound,)


class Frame:
    """A block of statements that a path is in."""

    __slots__ = ("at", "iteration", "loop", "nodes", "seen", "start", "stop")

    def __init__(self, nodes: Sequence[Node], loop: ir.Loop | None = None) -> None:
        self.nodes, self.loop = nodes, loop
        self.at = 0
        self.iteration = 0
        self.start: Sum = {}
        self.stop: Sum = {}
        self.seen: dict[Hashable, int] = {}
        """States at the head of a loop whose number of iterations is known, and the iterations that began in them."""

    def copy(self) -> Frame:
        other = Frame(self.nodes, self.loop)
        other.at, other.iteration, other.start, other.stop = self.at, self.iteration, self.start, self.stop
        other.seen = dict(self.seen)
        return other


class Thread:
    """A core on a path."""

    __slots__ = ("addresses", "core", "frames", "numbers")

    def __init__(self, core: str, frames: list[Frame], numbers: Numbers) -> None:
        self.core, self.frames, self.numbers = core, frames, numbers
        self.addresses: dict[int, dict[str, int]] = {}
        """By vector core: the address of each tile."""

    def copy(self) -> Thread:
        other = Thread(self.core, [frame.copy() for frame in self.frames], self.numbers.copy())
        other.addresses = {vector: dict(of) for vector, of in self.addresses.items()}
        return other

    @property
    def iteration(self) -> int:
        """The iteration of the innermost loop."""
        return next((frame.iteration for frame in reversed(self.frames) if frame.loop is not None), 0)

    @property
    def iterations(self) -> tuple[tuple[int, int], ...]:
        """Each loop around, and its iteration."""
        return tuple((id(frame.loop), frame.iteration) for frame in self.frames if frame.loop is not None)

    @property
    def counters(self) -> Iterator[tuple[str, int]]:
        """The counters of the loops around, by name, and their numbers."""
        for frame in self.frames:
            if frame.loop is not None:
                yield f"#{frame.loop.var} {id(frame.loop)} {self.core}", frame.iteration

    def by_counters(self, divisors: Iterable[int]) -> Numbers:
        """The numbers with loop variables in terms of counters, of which the remainders are known."""
        found = self.numbers.copy()
        loops = [frame for frame in self.frames if frame.loop is not None]
        for frame, (name, number) in zip(loops, self.counters, strict=True):
            counter, loop = Var(name), frame.loop
            assert loop is not None
            for divisor in divisors:
                found.change((((counter, 1),), divisor), (number % divisor, number % divisor))
            found.unbind(loop.var)
            found.bind(loop.var, added(found.sum_of(loop.start), {counter: loop.step}))
        return found

    @property
    def next(self) -> Node | None:
        """The next statement; None at the end of a block of statements."""
        frame = self.frames[-1]
        return frame.nodes[frame.at] if frame.at < len(frame.nodes) else None

    @property
    def position(self) -> tuple[int, ...]:
        """Where it is in the text."""
        found: list[int] = []
        for frame in self.frames:
            number = frame.nodes[frame.at].number if frame.at < len(frame.nodes) else 1 << 30
            found += [frame.iteration, number] if frame.loop is not None else [number]
        return tuple(found)


class Path:
    """A path through a program, up to a point."""

    __slots__ = ("born", "choices", "filled", "order", "owners", "partial", "threads", "written")

    def __init__(self, threads: list[Thread], order: OrderState) -> None:
        self.threads, self.order = threads, order
        self.written: dict[tuple[TileType, int], int] = {}
        """The bytes of each on-chip memory that hold what was written."""
        self.filled: dict[tuple[TileType, int], int] = {}
        """Those of them that hold what an instruction without operands in memory has written."""
        self.owners: dict[tuple[TileType, int], tuple[tuple[int, Hashable], ...]] = {}
        """Of each on-chip memory, if tiles have computed addresses: bytes, and the tile that has written them last."""
        self.partial: dict[tuple[tuple[TileType, int], int], ir.TileUse] = {}
        """Bytes of which a part was written: of a tile, with extents that are known at run time only."""
        self.born: dict[Var, tuple[tuple[int, int], ...]] = {}
        """Numbers from memory, and the iterations in which they were read."""
        self.choices: tuple[Any, ...] = ()
        """How it came here: conditions that were decided, last first."""
        order.path = self

    def copy(self) -> Path:
        other = Path([thread.copy() for thread in self.threads], self.order.copy())
        facts = other.threads[0].numbers.facts
        for thread in other.threads:
            thread.numbers.facts = facts
        other.written, other.filled, other.partial = dict(self.written), dict(self.filled), dict(self.partial)
        other.owners = dict(self.owners)
        other.choices, other.born = self.choices, dict(self.born)
        return other


class Placed(NamedTuple):
    """The block of an array that an access touches on a path."""

    iterations: tuple[tuple[str, int], ...]
    """The counters of loops that it depends on, with their numbers then."""
    starts: tuple[Sum, ...]
    """In terms of the counters."""
    sizes: tuple[Sum, ...]


class Records:
    """The accesses of a program by number."""

    def __init__(self, pipes: int) -> None:
        self._ids: dict[Hashable, int] = {}
        self.accesses: list[tuple[Access | None, int, int]] = []
        """Of each record: the access, its statement and its pipe."""
        self.of_pipe = [0] * pipes
        self._meets: dict[int, tuple[int, int]] = {}
        self.work: list[Work | None] = []

    def number(self, key: Hashable, access: Access | None, stmt: int, pipe: int, work: Work | None = None) -> int:
        """The number of a record."""
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.accesses)
            self.accesses.append((access, stmt, pipe))
            self.work.append(work)
            self.of_pipe[pipe] |= 1 << found
        return found

    def meeting(self, record: int) -> int:
        """The records that touch the same memory, if one of the two writes."""
        upto, mask = self._meets.get(record, (0, 0))
        access = self.accesses[record][0]
        assert access is not None
        for other in range(upto, len(self.accesses)):
            them = self.accesses[other][0]
            if them is None or them.memory != access.memory or not meets(access.how, them.how):
                continue
            if isinstance(access.memory, str) or access.bits & them.bits:
                mask |= 1 << other
        self._meets[record] = len(self.accesses), mask
        return mask


class IssuedWork:
    """Work that was issued on a path."""

    __slots__ = ("explorer", "number", "placed", "position", "touches", "work")

    def __init__(self, explorer: Explorer, work: Work, number: int, position: int, placed: dict[int, Placed]) -> None:
        self.explorer, self.work, self.number, self.position, self.placed = explorer, work, number, position, placed
        self.touches = [each for each in work.touches if each.view is None or each.memory in explorer.shared_arrays]

    def _key(self) -> Hashable:
        return id(self.work), self.number, repr(self.placed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IssuedWork) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self._key())

    def run(self, state: OrderState, report: Any, pipe: int, known: int) -> None:
        """Check its accesses against earlier ones, and record them."""
        explorer = self.explorer
        records, mine = explorer.records, explorer.records.of_pipe[pipe]
        own: list[int] = []
        for k, access in enumerate(self.touches):
            key = *self._record_key(k, access, pipe), 0
            record = records.number(key, access, self.number, pipe, self.work)
            own.append(record)
            missing = records.meeting(record) & state.active & ~known & ~mine
            for other in _each(missing):
                if access.view is None or explorer.arrays_meet(state, other, record, self.placed[k]):
                    ends = access.operand, pipe, records.accesses[other][2]
                    report(Fault("race", self.number, records.accesses[other][1], ends))
                    known |= 1 << other
                    state.know[pipe] |= 1 << other
        is_open = explorer.wiring.overlaps[pipe]
        if is_open:
            self._check_own(state, report, pipe, own)
        if is_open and self.work.step.fences:
            state.end(pipe, records.of_pipe[pipe])
        for k, access in enumerate(self.touches):
            if access.view is not None:
                explorer.shift(state, self._record_key(k, access, pipe), access, self.number, pipe)
        state.record(pipe, own)
        state.placed.update({own[k]: placed for k, placed in self.placed.items()})
        if is_open and self.work.step.ends:
            state.end(pipe, records.of_pipe[pipe])

    def _record_key(self, k: int, access: Access, pipe: int) -> tuple[Any, ...]:
        return self.number, self.position, pipe, k, access.how, access.memory, access.bits

    def _check_own(self, state: OrderState, report: Any, pipe: int, own: list[int]) -> None:
        """Check against earlier work of the same pipe, whose instructions may overlap (A-73)."""
        records = self.explorer.records
        for record, access in zip(own, self.touches, strict=True):
            if access.view is not None or access.operand in self.work.step.late or access.how != READ:
                continue
            if access.operand in WORKSPACES:
                continue
            met = records.meeting(record)
            earlier = next((r for r in reversed(state.recent) if met >> r & 1), None)
            if earlier is None or self._is_alike(access, records.accesses[earlier][0], records.work[earlier]):
                continue
            report(Fault("overlap", self.number, records.accesses[earlier][1], access.operand))
            state.end(pipe, records.of_pipe[pipe])

    def _is_alike(self, access: Access, before: Access | None, work: Work | None) -> bool:
        """Whether a read walks the bytes as they were written, as far as is known."""
        if self.work.alike is None or work is None or work.alike is None or before is None:
            return True
        return access.operand in self.work.alike and before.operand in work.alike and before.bits == access.bits


def _each(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


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
        self.accesses = Accesses(program, profile, options)
        self.wiring = Wiring(self.accesses.cores.pipes, profile.overlapping)
        self.records = Records(len(self.wiring.pipes))
        self.numbers = {id(stmt): k for k, stmt in enumerate(ir.walk(program.body))}
        self.statements = list(ir.walk(program.body))
        self.repetition = Repetition(program)
        self.streams = Streams(program, profile) if crosses(program) else None
        self.faults: dict[Fault, tuple[Any, ...]] = {}
        self.arrays = arrays
        self.written = {name for instr in program.instructions for name in _written(program, instr)}
        self.states = 0
        self._end = process_time() + seconds
        self._seen: set[Hashable] = set()
        self.shared_arrays = self._shared_arrays()
        self._busy = [self.wiring.number[pipe] for pipe in self._working()]
        self._cross: dict[Hashable, CrossRecords] = {}
        self._cross_mask = 0
        """The records of flags between cores."""
        self._scalars: dict[Hashable, Doing] = {}
        self._symbols: dict[Var, str] = {}
        """The numbers from memory, with their arrays."""
        self.local = {id(loop): _local(program, loop) for loop in ir.walk(program.body) if isinstance(loop, ir.Loop)}
        """The numbers from memory that only the body of each loop uses."""
        unknown = unknown_writes(program)
        addresses = (expr for stmt in self.statements for expr in _addresses(stmt))
        self._moves_tiles = any(not isinstance(address, int) for address in addresses)
        self.current: ir.Stmt | None = None
        """The statement of which a number must be known."""
        self._interleaved = interleaved(program, None)
        self._checked = {tile.name for tile in program.tiles.values() if tile.spec.loc not in unknown}
        self._own_terms = _own_terms(program)
        self.cap = self.repetition.most + self.repetition.period + 1

    # --- the search

    def run(self) -> None:
        """Explore all paths. Raises `TooMuch`, `Unknown`, `VerifyError`."""
        todo = [self._first()]
        while todo:
            path = todo.pop()
            try:
                self._follow(path)
            except Undecided as open_:
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

    def _shared_arrays(self) -> frozenset[str]:
        """The arrays that one pipe writes and another one touches."""
        users: dict[str, set[str]] = {}
        written: set[str] = set()

        def note(view: ir.View, access: str, pipe: str) -> None:
            memory = memory_of(self.program, view)
            copies = range(self.program.vector_cores if kind_of(core_of(pipe)) == VECTOR_CORE.name else 1)
            users.setdefault(memory, set()).update(f"{pipe} {k}" for k in copies)
            written.update({memory} if access != READ else ())

        for instr in self.program.instructions:
            home = home_of((self.program.tiles[use.tile].spec.loc for use in instr.tiles), self.profile)
            given = named_operands(instr)
            for effect in effects(call_of(self.program, instr, self.profile)):
                if isinstance(view := given.get(effect.operand), ir.View):
                    note(view, effect.access, pipe_of(effect.pipe, home, self.profile))
        for stmt in self.statements:
            if isinstance(stmt, ir.LoadScalar):
                for pipe in self.accesses.cores.scalars(stmt):
                    note(stmt.source, READ, pipe)
        return frozenset(memory for memory in written if len(users[memory]) > 1)

    def _first(self) -> Path:
        def thread(core: str, nodes: Sequence[Node]) -> Thread:
            numbers = Numbers(self.bounds)
            numbers.values[SUBBLOCK_IDX] = {1: vector_of(core)} if vector_of(core) else {}
            return Thread(core, [Frame(nodes)], numbers)

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
        def report(fault: Fault) -> None:
            self.faults.setdefault(fault, path.choices)

        return report

    def _is_seen(self, path: Path, thread: Thread) -> bool:
        self.states += 1
        if process_time() > self._end:
            raise TooMuch("the time for a proof is over")
        self._forget_old(path)
        path.order.settle(self._busy, self._cross_mask)
        key = self._key(path, None)
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    # --- states

    def _key(self, path: Path, without: Frame | None) -> Hashable:
        """The same for states in which the same may follow."""
        names = _Names(self._symbols)
        threads = []
        for thread in path.threads:
            frames = tuple(self._frame_key(frame, thread, without, names) for frame in thread.frames)
            live = {frame.loop.var for frame in thread.frames if frame.loop is not None}
            values = tuple(
                (var, self._sum_key(names.renamed(terms)))
                for var, terms in sorted(thread.numbers.values.items())
                if var not in live
            )
            addresses = tuple((v, tuple(sorted(of.items()))) for v, of in sorted(thread.addresses.items()))
            threads.append((frames, values, addresses))
        known = path.threads[0].numbers.facts
        compared, distances = self._compared(path)
        facts = frozenset(
            (names.form(form), divisor, *self._fact_key(form, bounds, compared))
            for (form, divisor), bounds in (sorted(known.items(), key=str) if self._symbols else known.items())
        )
        placed = tuple(
            (
                record,
                tuple(self._ages(path, each)),
                tuple(frozenset(names.renamed(part).items()) for part in (*each.starts, *each.sizes)),
            )
            for record, each in sorted(path.order.placed.items())
        )
        chip = [frozenset(of.items()) for of in (path.written, path.filled, path.partial, path.owners)]
        return tuple(threads), facts, distances, placed, *chip, path.order.key()

    def _frame_key(self, frame: Frame, thread: Thread, without: Frame | None, names: _Names) -> Hashable:
        if frame.loop is None:
            return id(frame.nodes), frame.at
        number, loop = frame.iteration, frame.loop
        count = constant_of(added(frame.stop, frame.start, -1))
        if frame is without:
            own: Hashable = number % self.repetition.period
        elif count is not None or loop.var in self.repetition.exact or frame.start.get(1, 0) < -self.cap:
            own = number
        else:
            most = max(self.repetition.points.get(loop.var, {0})) if constant_of(frame.start) is not None else 0
            own = min(number, most + 1), number % self.repetition.period
        extents = tuple(
            thread.numbers.number(thread.numbers.sum_of(expr)) for expr in self.repetition.soft.get(loop.var, ())
        )
        own = own, extents
        begin, end = map(names.renamed, (frame.start, frame.stop))
        is_exact = loop.var in self.repetition.exact or frame.start.get(1, 0) < -self.cap
        start = frozenset(begin.items()) if is_exact else self._sum_key(begin)
        return id(frame.nodes), frame.at, own, start, self._sum_key(end) if count is None else count

    def _sum_key(self, terms: Sum) -> Hashable:
        """A sum, its constant by its remainder if it is large."""
        constant = terms.get(1, 0)
        short = constant if abs(constant) <= self.cap else ("...", constant % self.repetition.period)
        return frozenset((term, k) for term, k in terms.items() if term != 1), short

    def _compared(self, path: Path) -> tuple[dict[Any, list[tuple[int, int]]], Hashable]:
        """What conditions compare forms with: of each form, its factor and the number that is added. And the numbers
        that conditions compare with zero without one."""
        found: dict[Any, list[tuple[int, int]]] = {}
        distances: list[int] = []
        for thread in path.threads:
            live = {frame.loop.var for frame in thread.frames if frame.loop is not None}
            for difference in self.repetition.compares:
                used = {var for var in variables(difference) if var in self.repetition.loops}
                if used and used <= live and used <= thread.numbers.values.keys():
                    form, scale, constant = form_of(thread.numbers.sum_of(difference))
                    if form:
                        found.setdefault(form, []).append((scale, constant))
                    elif len(used) > 1:
                        distances.append(constant)
        return found, tuple(distances)

    def _fact_key(self, form: Any, bounds: Bounds, compared: dict[Any, list[tuple[int, int]]]) -> tuple[Any, ...]:
        """Bounds of a form, relative to what conditions compare it with."""
        bases = compared.get(form)
        if bases is None:
            return tuple(edge if abs(edge) <= self.cap or abs(edge) == inf else ("far", edge) for edge in bounds)
        relative = tuple(edge * scale + constant for scale, constant in bases for edge in bounds)
        if any(term in self._own_terms for term, _ in form):
            return relative
        return (*relative, *(edge if abs(edge) <= self.cap else "far" for edge in bounds))

    def _ages(self, path: Path, placed: Placed) -> Iterator[tuple[str, int]]:
        """How long ago the iterations were that a block depends on; -1 for a loop that is over."""
        now = {counter: n for thread in path.threads for counter, n in thread.counters}
        for counter, number in placed.iterations:
            yield counter, now[counter] - number if counter in now else -1

    def _forget_old(self, path: Path) -> None:
        """Blocks that were touched long ago, or in a loop that is over, are of some earlier iteration. What is known of
        numbers from memory that no core uses any longer is forgotten."""
        now = {loop: n for thread in reversed(path.threads) for loop, n in thread.iterations}
        for symbol, born in list(path.born.items()):
            if not any(now.get(loop, n + 1) <= n for loop, n in born) and not _uses(path, symbol):
                path.threads[0].numbers.forget(symbol)
                del path.born[symbol]
        for record, placed in list(path.order.placed.items()):
            if any(not -1 <= age <= MOST_AGE for _, age in self._ages(path, placed)):
                del path.order.placed[record]

    # --- one step

    def _choose(self, path: Path) -> Thread | None:
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
            self._report(path)(Fault("stuck", tuple(self.numbers[id(stmt)] for stmt in stuck[:2]), None, "cores"))
            raise PathEnded
        return None

    def _settle(self, thread: Thread) -> None:
        """Leave blocks that are over, except loops, which decide that."""
        while thread.frames and thread.next is None and thread.frames[-1].loop is None:
            thread.frames.pop()

    def _can_go_on(self, path: Path, thread: Thread, left: list[Thread]) -> bool:
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

    def _step(self, path: Path, thread: Thread) -> bool:
        """Run the next statement of a core; whether it is a place where states are compared."""
        node = thread.next
        if node is None:
            return self._next_iteration(path, thread)
        stmt = node.stmt
        if isinstance(stmt, ir.Loop):
            frame = Frame(node.blocks[0], stmt)
            frame.start, frame.stop = map(thread.numbers.settled, (stmt.start, stmt.stop))
            thread.frames[-1].at += 1
            thread.frames.append(frame)
            frame.iteration = -1
            frame.at = len(frame.nodes)
            return False
        if isinstance(stmt, ir.Branch):
            arm = node.blocks[0 if thread.numbers.decide(stmt.condition) else 1]
            thread.frames[-1].at += 1
            thread.frames.append(Frame(arm))
            return False
        for each in self._sharing(path, thread, node):
            each.frames[-1].at += 1
        try:
            STEPS[type(stmt)](self, path, thread, node, stmt)
        except (Undecided, Unknown):
            self.current = stmt
            for each in self._sharing(path, thread, node, back=True):
                each.frames[-1].at -= 1
            raise
        return thread.next is None and thread.frames[-1].loop is None and len(thread.frames) > 1

    def _sharing(self, path: Path, thread: Thread, node: Node, *, back: bool = False) -> list[Thread]:
        if not node.is_shared or self.streams is None:
            return [thread]
        at = thread.position
        return [
            each for each in path.threads if each.frames and not vector_of(each.core) and (back or each.position == at)
        ]

    def _next_iteration(self, path: Path, thread: Thread) -> bool:
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
        compared, _ = self._compared(path)
        for (form, divisor), (low, high) in list(numbers.facts.items()):
            if divisor or form in compared or inf in (-low, high):
                continue
            if low > self.cap:
                numbers.change((form, divisor), (self.cap, inf))
            elif high < -self.cap:
                numbers.change((form, divisor), (-inf, -self.cap))

    def _skip(self, path: Path, thread: Thread, frame: Frame) -> None:
        """Leave out iterations of a loop with a known number of them, if they do what earlier ones did."""
        loop, numbers = frame.loop, thread.numbers
        assert loop is not None
        stop, start = constant_of(frame.stop), constant_of(frame.start)
        if stop is None or start is None or loop.var in self.repetition.exact:
            return
        count = len(range(start, stop, loop.step))
        if count <= 2 * self.repetition.period + 2:
            return
        self._forget_old(path)
        key = self._key(path, frame)
        before = frame.seen.get(key)
        frame.seen[key] = frame.iteration
        if before is None:
            return
        period = frame.iteration - before
        points = {count} | {(at - start) // loop.step for at in self.repetition.points.get(loop.var, ())}
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

    def _declare(self, path: Path, thread: Thread, node: Node, stmt: ir.TileDecl) -> None:
        for vector in self._vectors(thread, stmt):
            if stmt.addresses:
                address = thread.numbers.exact(stmt.addresses[thread.iteration % len(stmt.addresses)])
                self._place(path, thread, vector, stmt, address)
                if stmt.fresh and not node.binds_only:
                    self._undefine(path, stmt, address, vector)

    def _vectors(self, thread: Thread, stmt: ir.Stmt) -> tuple[int, ...]:
        is_divided = self.program.vector_cores > 1 and thread.core == CUBE_CORE.name
        return vectors_of(stmt) if is_divided else (vector_of(thread.core),)

    def _place(self, path: Path, thread: Thread, vector: int, tile: ir.TileDecl, address: int) -> None:
        size = self.profile.memories[tile.spec.loc].size
        if size is not None and not 0 <= address <= size - tile.spec.nbytes:
            self._report(path)(Fault("address", self.numbers[id(tile)], None, address))
        thread.addresses.setdefault(vector, {})[tile.name] = address

    def _undefine(self, path: Path, tile: ir.TileDecl, address: int, vector: int) -> None:
        memory = tile.spec.loc, vector if tile.spec.loc is TileType.Vec else 0
        self._lose(path, memory, ((1 << tile.spec.nbytes) - 1) << address)

    def _lose(self, path: Path, memory: tuple[TileType, int], bits: int, *, fills: bool = True) -> None:
        """Bytes are not defined any longer; those of fills only if `fills`."""
        kept = 0 if fills else path.filled.get(memory, 0)
        path.written[memory] = path.written.get(memory, 0) & (~bits | kept)
        path.filled[memory] = path.filled.get(memory, 0) & (~bits | kept)
        path.partial = {key: of for key, of in path.partial.items() if key[0] != memory or not key[1] & bits}

    def _assign(self, path: Path, thread: Thread, _node: Node, stmt: ir.Assign) -> None:
        address = thread.numbers.exact(stmt.address)
        for vector in self._vectors(thread, stmt):
            tile = self.program.tiles[stmt.tile]
            self._place(path, thread, vector, tile, address)

    def _instr(self, path: Path, thread: Thread, _node: Node, stmt: ir.Instr) -> None:
        doings = [
            (self.accesses.of(stmt, thread.numbers, thread.addresses.get(vector, {}), thread.core, vector), vector)
            for vector in self._vectors(thread, stmt)
        ]
        placed = [self._placed(thread, doing) for doing, _ in doings]
        for (doing, vector), blocks in zip(doings, placed, strict=True):
            for name in doing.unaligned:
                self._report(path)(Fault("burst", self.numbers[id(stmt)], None, name))
            self._check_written(path, thread, doing, stmt, vector)
            self._issue(path, stmt, doing, blocks, vector)

    def _issue(
        self, path: Path, stmt: ir.Instr | ir.LoadScalar, doing: Doing, placed: list[dict[int, Placed]], vector: int
    ) -> None:
        order, report, number = path.order, self._report(path), self.numbers[id(stmt)]
        pipes = [self.wiring.number[pipe] for pipe in doing.pipes]
        events = isinstance(stmt, ir.Instr)
        for event in stmt.waits if events else ():  # type: ignore[union-attr]
            order.await_event(report, (event, vector), pipes, number)
        position = 0
        for step, blocks in zip(doing.steps, placed, strict=True):
            if isinstance(step, Work):
                work = IssuedWork(self, step, number, position, blocks)
                order.issue(report, self.wiring.number[step.pipe], "work", work, number)
                position += 1
            else:
                order.sync(report, self.wiring.number[step.src], self.wiring.number[step.dst], number)
        if events and stmt.event is not None:  # type: ignore[union-attr]
            order.signal(report, (stmt.event, vector), pipes)  # type: ignore[union-attr]

    def _placed(self, thread: Thread, doing: Doing) -> list[dict[int, Placed]]:
        """The blocks of arrays that each step touches."""
        found: list[dict[int, Placed]] = []
        numbers: Numbers | None = None
        for step in doing.steps:
            blocks: dict[int, Placed] = {}
            touches = step.touches if isinstance(step, Work) else ()
            kept = [each for each in touches if each.view is None or each.memory in self.shared_arrays]
            for k, access in enumerate(kept):
                if access.view is not None:
                    numbers = numbers or thread.by_counters(self.repetition.divisors)
                    starts, sizes = (tuple(map(numbers.sum_of, of)) for of in (access.view.starts, access.view.sizes))
                    used = {str(var) for part in (*starts, *sizes) for term in part for var in variables(term)}
                    blocks[k] = Placed(tuple(each for each in thread.counters if each[0] in used), starts, sizes)
            found.append(blocks)
        return found

    def _check_written(self, path: Path, thread: Thread, doing: Doing, stmt: ir.Instr, vector: int) -> None:
        """On-chip memory is written before it is read."""
        is_fill, is_first = not (doing.copies or stmt.opaque_form), doing.copies
        for access in doing.checked:
            memory, bits = access.memory, access.bits
            assert not isinstance(memory, str)
            if access.operand in WORKSPACES and access.how == READ:
                continue
            if self._moves_tiles:
                self._check_owner(path, thread, stmt, access, vector)
            if access.how == READ:
                if not self._is_defined(path, thread.numbers, access):
                    self._report(path)(Fault("unwritten", self.numbers[id(stmt)], None, access.operand))
                    path.written[memory] = path.written.get(memory, 0) | bits
                is_fill = is_fill and not bits & ~path.filled.get(memory, 0)
            elif access.is_lost:
                self._lose(path, memory, bits)
            elif access.valid is not None:
                if is_first and access.operand == next(iter(stmt.definition.operands)).name:
                    is_first = False
                    self._leave(path, thread, stmt, access, vector)
                self._define(path, access, is_fill=is_fill)

    def _check_owner(self, path: Path, thread: Thread, stmt: ir.Instr, access: Access, vector: int) -> None:
        """No other tile has overwritten what is read."""
        tile, memory = self.program.tiles.get(access.tile), access.memory
        assert not isinstance(memory, str)
        if tile is None or tile.family == ir.ANY_FAMILY:
            return
        own: Hashable = tile.family
        if own is None:
            own = thread.addresses.get(vector, {}).get(tile.name), tile.spec.nbytes, str(tile.spec.dtype)
        entries = path.owners.get(memory, ())
        if access.how == READ:
            if any(bits & access.bits and owner != own for bits, owner in entries):
                self._report(path)(Fault("overwritten", self.numbers[id(stmt)], None, access.operand))
            return
        kept = tuple((rest, owner) for bits, owner in entries if owner != own and (rest := bits & ~access.bits))
        mine = access.bits
        for bits, owner in entries:
            mine |= bits if owner == own else 0
        path.owners[memory] = (*kept, (mine, own))

    def _define(self, path: Path, access: Access, *, is_fill: bool) -> None:
        memory, bits = access.memory, access.bits
        assert not isinstance(memory, str)
        if access.valid:
            assert access.use is not None
            path.partial[memory, bits] = access.use
            return
        path.written[memory] = path.written.get(memory, 0) | bits
        filled = path.filled.get(memory, 0)
        path.filled[memory] = filled | bits if is_fill else filled & ~bits

    def _leave(self, path: Path, thread: Thread, stmt: ir.Instr, access: Access, vector: int) -> None:
        """A load leaves what lies outside its valid region undefined, unless a fill has cleared it."""
        use = stmt.operands[0]
        if not isinstance(use, ir.TileUse) or use.window is not None:
            return
        tile = self.program.tiles[use.tile]
        whole = bits_of(extent_of(region(tile.spec.layout, tile.spec.rows, tile.spec.cols), tile.spec.dtype.size), 0)
        whole <<= thread.addresses.get(vector, {})[use.tile]
        if (access.valid or access.bits != whole) and use.tile not in self._interleaved:
            self._lose(path, access.memory, whole, fills=False)  # type: ignore[arg-type]

    def _is_defined(self, path: Path, numbers: Numbers, access: Access) -> bool:
        """Whether all that is read was written."""
        memory, bits = access.memory, access.bits
        assert not isinstance(memory, str)
        if access.tile not in self._checked or not bits & ~path.written.get(memory, 0):
            return True
        parts = (use for key, use in path.partial.items() if key[0] == memory and key[1] & bits)
        return access.use is not None and any(_is_within(numbers, access.use, use) for use in parts)

    def _load(self, path: Path, thread: Thread, _node: Node, stmt: ir.LoadScalar) -> None:
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

    def _flag(self, path: Path, thread: Thread, _node: Node, stmt: ir.Flag) -> None:
        event = self._event(path, thread, stmt)
        order, number, report = path.order, self.numbers[id(stmt)], self._report(path)
        for src, dst in self.accesses.cores.pairs(stmt, thread.core):
            key = src, dst, event
            if stmt.action == "set":
                order.set_flag(report, self.wiring.number[src], key, number)
            else:
                order.wait_flag(report, self.wiring.number[dst], key, number)

    def _event(self, path: Path, thread: Thread, stmt: ir.Flag | ir.CrossFlag) -> int:
        event = thread.numbers.exact(stmt.event)
        if not 0 <= event < ids_of(stmt, self.program.vector_cores):
            self._report(path)(Fault("id", self.numbers[id(stmt)], None, event))
            raise PathEnded
        return event

    def _cross_flag(self, path: Path, thread: Thread, _node: Node, stmt: ir.CrossFlag) -> None:
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

    def _barrier(self, path: Path, thread: Thread, _node: Node, stmt: ir.Barrier) -> None:
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

    def shift(self, state: OrderState, key: tuple[Any, ...], access: Access, stmt: int, pipe: int) -> None:
        """An access to an array is done once more: its records are those of one time before."""
        ids = [self.records.number((*key, slot), access, stmt, pipe) for slot in range(SLOTS + 1)]
        pairs = [(old, new) for old, new in pairwise(ids) if state.active >> old & 1]
        if pairs:
            state.rename(pairs)
            state.placed.pop(ids[-1], None)

    def arrays_meet(self, state: OrderState, other: int, record: int, placed: Placed) -> bool:
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


def _addresses(stmt: ir.Stmt) -> tuple[Expr, ...]:
    if isinstance(stmt, ir.TileDecl):
        return stmt.addresses
    return (stmt.address,) if isinstance(stmt, ir.Assign) else ()


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


def _is_within(numbers: Numbers, part: ir.TileUse, whole: ir.TileUse) -> bool:
    """Whether a part of a tile certainly lies within another part of it."""
    if part.tile != whole.tile:
        return False
    for start, extent, first, size in zip(part.start, part.valid, whole.start, whole.valid, strict=True):
        ahead = added(numbers.sum_of(start), numbers.sum_of(first), -1)
        beyond = added(added(ahead, numbers.sum_of(extent)), numbers.sum_of(size), -1)
        if numbers.bounds_of(ahead)[0] < 0 or numbers.bounds_of(beyond)[1] > 0:
            return False
    return True


def _own_terms(program: ir.Program) -> frozenset[Expr]:
    """Terms that only the bound of one loop has."""
    bounds = [stmt.stop for stmt in ir.walk(program.body) if isinstance(stmt, ir.Loop)]
    own = Counter(term for stop in bounds for term in affine(stop))
    every = (expr for stmt in ir.walk(program.body) for expr in ir.expressions(stmt))
    used = Counter(part for expr in every for part in (*parts(expr), *variables(expr)))
    return frozenset(term for term, count in own.items() if count == 1 and used[term] == 1)


class _Names:
    """Numbers from memory, named in the order in which a state uses them."""

    def __init__(self, symbols: Mapping[Var, str]) -> None:
        self._symbols = symbols
        self._new: dict[Var, Expr] = {}

    def term(self, term: Expr) -> Expr:
        used = [var for var in sorted(variables(term)) if var in self._symbols] if self._symbols else []
        for var in used:
            self._new.setdefault(var, Var(f"{self._symbols[var]} {len(self._new)}"))
        return substitute(term, self._new) if used else term

    def renamed(self, terms: Sum) -> Sum:
        """A sum with other names."""
        return {self.term(term): k for term, k in terms.items()}

    def form(self, form: Iterable[tuple[Expr, int]]) -> Hashable:
        """The terms of a sum without its constant, with other names."""
        return frozenset((self.term(term), k) for term, k in form if term != 1)


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


__all__ = ["Explorer", "Fact", "placed_program"]
