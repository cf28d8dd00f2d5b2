"""The cores of a program as streams of statements, and how these meet.

Each core runs its own statements in the order of the text, with the loops and branches around them. The statements of
two cores are in no order with each other, except by flags between the cores: a wait takes a set of the other core, and
holds its core until there is one. `Streams` has the statements of each core; `Streams.run` runs them by an `Actor`. Of
the cores that can go on, the one whose next statement comes first in the text does. So a program whose text is in such
an order runs in the order of its text.

If both vector cores of a block run the program, each is a stream with the statements of vector cores. A flag that they
set is one of each, and so is one that the cube core sets (`cross_keys`). An instruction of both kinds of cores is one
of the cube core and the first vector core.

A wait of A5 holds a pipe, not a core. If every core waits, a core goes on behind its wait with what does not need that
pipe (`_HeldPipes`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeGuard

from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.cores import (
    StatementCores,
    busy_pipes,
    cross_keys,
    ends_of,
    in_block,
    is_crossing,
    kind_of,
    own_pipe,
    vector_of,
)
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX, ExpressionError, Var, evaluate
from ptokit.program.instr_calls import access_of, all_operands
from ptokit.target import PROFILES, SCALAR, Profile
from ptokit.target.profile import CROSS_IDS, CUBE_CORE

Position = tuple[int, ...]
"""The numbers of a statement and of those around it in their blocks, each with its iteration or arm."""
Key = tuple[Any, ...]
"""A flag between the cores: what sets it, and its number."""
Wait = ir.Flag | ir.CrossFlag


@dataclass(frozen=True)
class Node:
    """A statement of a core."""

    stmt: ir.Stmt
    number: int
    """Its number in its block."""
    blocks: tuple[tuple[Node, ...], ...] = ()
    is_whole: bool = True
    """Whether nothing inside concerns the other core: it can be run as one."""
    is_shared: bool = False
    """Whether it is one instruction of both cores, which they run together."""
    binds_only: bool = False
    """Whether it is the declaration of a tile that the other core writes first, and so initialises."""


class CoreStream:
    """A core while it runs."""

    def __init__(self, core: str, values: dict[Var, int], actor: Actor, program: Streams) -> None:
        self.core, self.values, self._actor, self._program = core, values, actor, program
        self.iteration = 0
        """The iteration of the innermost loop."""
        self.loops: tuple[int, ...] = ()
        """The values of the variables of the loops around."""
        self.held: _HeldPipes | None = None
        """The pipes that wait, if the core goes on behind a wait."""
        self.head: Node | None = None
        """The next statement; None at the end."""
        self.at: Position = ()
        self.keys: tuple[Key, ...] = ()
        """The flags between the cores that the next statement sets or waits for."""

    def begin(self, nodes: tuple[Node, ...]) -> None:
        """Go to the first statement."""
        self._nodes = self._statements(nodes, ())
        self.advance()

    def advance(self) -> None:
        """Go to the next statement."""
        self.head, self.at = next(self._nodes, (None, ()))
        stmt = self.head.stmt if self.head else None
        self.keys = ()
        if isinstance(stmt, ir.Flag | ir.CrossFlag) and is_crossing(stmt):
            self.keys = self._program.keys(stmt, self.core, evaluate(stmt.event, self.values))

    def _statements(self, nodes: tuple[Node, ...], around: Position) -> Iterator[tuple[Node, Position]]:
        for node in nodes:
            at, stmt = (*around, node.number), node.stmt
            if not node.blocks or (node.is_whole and self.held is None):
                yield node, at
            elif isinstance(stmt, ir.Loop):
                outer, loops = self.iteration, self.loops
                for number, value in enumerate(self._actor.iterations(stmt, self)):
                    self.iteration, self.loops, self.values[stmt.var] = number, (*loops, value), value
                    yield from self._statements(node.blocks[0], (*at, number))
                self.iteration, self.loops = outer, loops
            elif isinstance(stmt, ir.Branch):
                arm = 0 if self._actor.holds(stmt, self) else 1
                yield from self._statements(node.blocks[arm], (*at, arm))


class Actor(Protocol):
    """What the streams of a program are run by."""

    def iterations(self, loop: ir.Loop, stream: CoreStream) -> Iterable[int]:
        """The values of the variable of a loop."""
        ...

    def holds(self, branch: ir.Branch, stream: CoreStream) -> bool:
        """Whether the condition of a branch holds."""
        ...

    def execute(self, node: Node, stream: CoreStream) -> None:
        """Run a statement now."""

    def state(self, stream: CoreStream) -> object:
        """The state of a core, to run a statement in later."""
        ...

    def execute_later(self, node: Node, stream: CoreStream, state: object) -> None:
        """Run a statement in the state of its core at an earlier time."""

    def stuck(self, waits: list[Wait]) -> None:
        """A wait never ends, because nothing sets its flag; or several that wait for one another. If this returns, the
        first is ended."""


class Streams:
    """The statements of each core of a program."""

    def __init__(self, program: ir.Program, profile: Profile) -> None:
        self.program = program
        others = (each for each in PROFILES.values() if each.cores and not each.cross_wait)
        self._profile = profile if profile.cores else next(others)
        """Of a target without cores, those of one whose waits hold no more than a pipe."""
        self._cores = StatementCores(program, [self._profile])
        flags = (
            stmt for stmt in ir.walk(program.body) if isinstance(stmt, ir.Flag | ir.CrossFlag) and is_crossing(stmt)
        )
        self.kinds = sorted(self._cores.all.union(*map(ends_of, flags)))
        self.names = [core for kind in self.kinds for core in in_block(kind, program.vector_cores)]
        self._owners = self._find_owners()
        self._trees = {core: self._nodes(program.body, core) for core in self.names}
        self._sets = [stmt for stmt in ir.walk(program.body) if is_crossing(stmt) and not is_wait(stmt)]
        self._pipes: dict[tuple[int, str], tuple[str, ...]] = {}

    def _find_owners(self) -> dict[str, str]:
        """For each tile, the core that initialises it: of the first instruction that writes it, or uses it."""
        users: dict[str, str] = {}
        writers: dict[str, str] = {}
        for instr in self.program.instructions:
            access, (core, *_) = access_of(instr), sorted(self._of(instr))
            for name, operand in all_operands(instr).items():
                if isinstance(operand, ir.TileUse):
                    users.setdefault(operand.tile, core)
                    if access[name] != "read":
                        writers.setdefault(operand.tile, core)
        return users | writers

    def _of(self, stmt: ir.Stmt) -> frozenset[str]:
        """The cores that run a statement; the first core runs what none needs."""
        cores = self._cores.users(stmt.name) if isinstance(stmt, ir.TileDecl) else self._cores.of(stmt)
        return cores or frozenset(self.kinds[:1])

    def _nodes(self, block: ir.Block, core: str) -> tuple[Node, ...]:
        kind = kind_of(core)
        return tuple(
            self._node(stmt, k, core)
            for k, stmt in enumerate(block)
            if kind in self._of(stmt) and not (vector_of(core) and self._is_shared(stmt))
        )

    def _node(self, stmt: ir.Stmt, number: int, core: str) -> Node:
        blocks, kind = tuple(self._nodes(inner, core) for inner in ir.children(stmt)), kind_of(core)
        is_whole = self._of(stmt) == frozenset((kind,)) and not any(map(is_crossing, ir.walk((stmt,))))
        return Node(stmt, number, blocks, is_whole, self._is_shared(stmt), self._binds_only(stmt, core))

    def _is_shared(self, stmt: ir.Stmt) -> bool:
        """Whether a statement is one instruction of both kinds of cores."""
        return isinstance(stmt, ir.Instr) and len(self._of(stmt)) > 1

    def _binds_only(self, stmt: ir.Stmt, core: str) -> bool:
        """Whether a core declares a tile that another one initialises. The second vector core has a UB of its own."""
        if not isinstance(stmt, ir.TileDecl):
            return False
        if vector_of(core):
            return stmt.spec.loc is not TileType.Vec
        return self._owners.get(stmt.name, kind_of(core)) != kind_of(core)

    def keys(self, flag: Wait, core: str, event: int) -> tuple[Key, ...]:
        """The flags between the cores that a core sets or waits for by a statement."""
        count = self.program.vector_cores
        if isinstance(flag, ir.CrossFlag):
            return cross_keys(flag, core, event, both=count > 1 and (flag.auto or self.sets_both))
        vectors = range(count) if core == CUBE_CORE.name else (vector_of(core),)
        return tuple((flag.src, flag.dst, event + vector * CROSS_IDS) for vector in vectors)

    @cached_property
    def sets_both(self) -> bool:
        """Whether the cube core sets the flags of both vector cores by one call, and waits for both."""
        return sets_both(self.program, self._profile)

    def run(self, values: Mapping[Var, int], actor: Actor) -> bool:
        """Run all statements of a block; whether they ran in the order of the text."""
        return _CoresRun(self, values, actor).run()

    def tree(self, core: str) -> tuple[Node, ...]:
        """The statements of a core."""
        return self._trees[core]

    def goes_past(self, wait: Wait) -> bool:
        """Whether a core goes on behind a wait, because it holds one pipe."""
        pipe = wait.pipe if isinstance(wait, ir.CrossFlag) else wait.dst
        return not self._profile.cross_wait and pipe != SCALAR

    def pipes(self, stmt: ir.Stmt, core: str) -> tuple[str, ...]:
        """The pipes of a core that run a statement."""
        key = id(stmt), core
        if key not in self._pipes:
            self._pipes[key] = tuple(sorted(self._find_pipes(stmt, core))) or (f"{core}.{SCALAR}",)
        return self._pipes[key]

    def _find_pipes(self, stmt: ir.Stmt, core: str) -> Iterable[str]:
        if isinstance(stmt, ir.Instr):
            pipes = busy_pipes(self.program, stmt, self._profile)
            return {own_pipe(pipe, core, self.program.vector_cores) for pipe in pipes}
        if isinstance(stmt, ir.CrossFlag):
            return (f"{core}.{stmt.pipe}",)
        return (f"{core}.{stmt.src if stmt.action == 'set' else stmt.dst}",) if isinstance(stmt, ir.Flag) else ()

    def is_set_by(self, key: Key) -> bool:
        """Whether some statement may set a flag."""
        return any(_may_be(stmt, key) for stmt in self._sets)


def sets_both(program: ir.Program, profile: Profile) -> bool:
    """Whether the cube core sets the flags of both vector cores by one call, and waits for both."""
    if profile.headers is not None and profile.headers.cross is not None:
        return profile.headers.cross.both_vectors
    return not any(isinstance(stmt, ir.CrossFlag) and is_second(stmt) for stmt in ir.walk(program.body))


def is_second(flag: ir.CrossFlag) -> bool:
    """Whether it is a flag of the cube core for the second vector core."""
    return flag.core == CUBE_CORE.name and isinstance(flag.event, int) and flag.event >= CROSS_IDS


def crosses(program: ir.Program) -> bool:
    """Whether a core waits for the other, or both vector cores run it."""
    return program.vector_cores > 1 or any(is_crossing(stmt) and is_wait(stmt) for stmt in ir.walk(program.body))


def is_wait(stmt: ir.Stmt) -> TypeGuard[Wait]:
    """Whether a statement waits for a flag."""
    return isinstance(stmt, ir.Flag | ir.CrossFlag) and stmt.action == "wait"


def _may_be(stmt: ir.Stmt, key: Key) -> bool:
    assert isinstance(stmt, ir.Flag | ir.CrossFlag)
    name = (stmt.src, stmt.dst) if isinstance(stmt, ir.Flag) else ends_of(stmt)[:1]
    numbers = [key[-1], key[-1] % CROSS_IDS]
    return name == key[:-1] and (not isinstance(stmt.event, int) or stmt.event in numbers)


class _CoresRun:
    """A block while it runs."""

    def __init__(self, streams: Streams, values: Mapping[Var, int], actor: Actor) -> None:
        self.program, self.actor = streams, actor
        self.tokens: Counter[Key] = Counter()
        """How often each flag is set, and not yet waited for."""
        self.in_text_order = True
        own = [{**values, SUBBLOCK_IDX: vector_of(core)} for core in streams.names]
        self.streams = [CoreStream(*each, actor, streams) for each in zip(streams.names, own, strict=True)]
        for stream in self.streams:
            stream.begin(streams.tree(stream.core))

    def run(self) -> bool:
        """Run to the end."""
        while left := [stream for stream in self.streams if stream.head or stream.held]:
            ready = [stream for stream in left if self._can_go_on(stream)]
            if not ready:
                self.in_text_order = False
                self._go_past(left)
                continue
            chosen = min(ready, key=_position)
            self.in_text_order = self.in_text_order and chosen.held is None and chosen is min(left, key=_position)
            self._step(chosen)
        return self.in_text_order

    def _can_go_on(self, stream: CoreStream) -> bool:
        node = stream.head
        if node is None or (stream.held is not None and stream.held.holds(f"{stream.core}.{SCALAR}")):
            return False
        if node.is_shared:
            sharing = [other for other in self.streams if not vector_of(other.core)]
            return all(other.held is None and other.at == stream.at for other in sharing)
        return stream.held is not None or not is_wait(node.stmt) or self.is_set(stream.keys)

    def is_set(self, keys: Iterable[Key]) -> bool:
        """Whether flags between the cores are set. Flags of one core are always set when a statement can run."""
        return all(self.tokens[key] > 0 for key in keys)

    def _step(self, stream: CoreStream) -> None:
        """Run or queue the next statement of a core; one of both cores goes on with both."""
        node, keys = stream.head, stream.keys
        assert node is not None
        if stream.held is not None:
            stream.held.issue(node, keys)
        else:
            self.execute(node, stream, keys)
        at = stream.at
        for each in [each for each in self.streams if each is stream or (node.is_shared and each.at == at)]:
            each.advance()
        if keys:
            self._release()

    def execute(self, node: Node, stream: CoreStream, keys: Iterable[Key], state: object = None) -> None:
        """Run a statement, now or in an earlier state of its core."""
        for key in keys:
            self.tokens[key] += -1 if is_wait(node.stmt) else 1
        if state is None:
            self.actor.execute(node, stream)
        else:
            self.actor.execute_later(node, stream, state)

    def _release(self) -> None:
        """Run what is queued and need not wait any longer."""
        while any(stream.held.advance() for stream in self.streams if stream.held):
            pass
        for stream in self.streams:
            if stream.held is not None and not stream.held.queues:
                stream.held = None

    def _go_past(self, left: list[CoreStream]) -> None:
        """No core can go on: one goes past its wait, or the wait never ends."""
        waiting = [stream for stream in sorted(left, key=_position) if stream.held is None and stream.keys]
        for stream in waiting:
            assert stream.head is not None and is_wait(stream.head.stmt)
            if self.program.goes_past(stream.head.stmt):
                stream.held = _HeldPipes(self, stream)
                stream.held.issue(stream.head, stream.keys)
                stream.advance()
                return
        self._end_wait(left)

    def _end_wait(self, left: list[CoreStream]) -> None:
        """End a wait that never ends by itself: the first whose flag nothing sets, or else the first."""
        waits: dict[Key, tuple[Node, CoreStream]] = {}
        for stream in sorted(left, key=_position):
            if stream.held is not None:
                waits |= stream.held.waits()
            elif stream.head is not None:
                for key in [key for key in stream.keys if not self.tokens[key]]:
                    waits.setdefault(key, (stream.head, stream))
        if not waits:  # an instruction of both cores that only one of them comes to
            self._step(min(left, key=_position))
            return
        unset = next((key for key in waits if not self.program.is_set_by(key)), None)
        key = next(iter(waits)) if unset is None else unset
        node, stream = waits[key]
        circle = waits if unset is None else (key,)
        found = [(each, *waits[each]) for each in circle]
        self.actor.stuck([named_wait(at.stmt, of.core, each) for each, at, of in found if is_wait(at.stmt)])
        if stream.held is not None:
            stream.held.end_wait(node)
            self._release()
        else:
            self.execute(node, stream, stream.keys)
            stream.advance()


def named_wait(wait: Wait, core: str, key: Key) -> Wait:
    """A wait with the core of the block that waits, and the number of its flag there."""
    return replace(wait, core=core, event=key[-1]) if isinstance(wait, ir.CrossFlag) else wait


def _position(stream: CoreStream) -> Position:
    return stream.at if stream.head else (1 << 62,)


@dataclass(eq=False)
class _Queued:
    """A queued statement."""

    node: Node
    keys: tuple[Key, ...]
    state: object
    pipes: tuple[str, ...]
    after: list[_Queued] = field(default_factory=list["_Queued"])
    """What must have run before."""
    is_done: bool = False


class _HeldPipes:
    """The pipes of a core that goes on behind a wait: what must not run yet is queued.

    Pipes run their statements in order. A wait for a flag of the core, an event or a barrier comes after the set, the
    instruction or the statements that are queued; what is not queued has run.
    """

    def __init__(self, run: _CoresRun, stream: CoreStream) -> None:
        self._run, self._stream = run, stream
        self.queues: dict[str, deque[_Queued]] = {}
        self._sets: dict[Hashable, deque[_Queued]] = {}
        """Queued sets of flags of the core, without a wait yet."""
        self._events: dict[Hashable, _Queued] = {}

    def holds(self, pipe: str) -> bool:
        """Whether a pipe is held."""
        return pipe in self.queues

    def issue(self, node: Node, keys: tuple[Key, ...]) -> None:
        """Run a statement, or queue it."""
        run, stream, stmt = self._run, self._stream, node.stmt
        if isinstance(stmt, ir.TileDecl) and self.queues:  # queued statements may still use the memory
            node = replace(node, binds_only=True)
        item = _Queued(node, keys, None, run.program.pipes(stmt, stream.core), self._awaited(stmt))
        if not any(pipe in self.queues for pipe in item.pipes) and self._is_ready(item):
            run.execute(node, stream, keys)
            return
        item.state = run.actor.state(stream)
        for pipe in item.pipes:
            self.queues.setdefault(pipe, deque()).append(item)
        if isinstance(stmt, ir.Flag) and stmt.action == "set" and not keys:
            self._sets.setdefault(self._flag(stmt), deque()).append(item)
        elif isinstance(stmt, ir.Instr) and stmt.event is not None:
            self._events[stmt.event] = item

    def _flag(self, flag: ir.Flag) -> Hashable:
        return flag.src, flag.dst, evaluate(flag.event, self._stream.values)

    def _awaited(self, stmt: ir.Stmt) -> list[_Queued]:
        """The queued statements that a statement waits for."""
        if isinstance(stmt, ir.Barrier) and stmt.pipe == "ALL":
            return [item for queue in self.queues.values() for item in queue]
        if isinstance(stmt, ir.Flag) and stmt.action == "wait" and not is_crossing(stmt):
            queued = self._sets.get(self._flag(stmt))
            return [queued.popleft()] if queued else []
        waits = stmt.waits if isinstance(stmt, ir.Instr) else ()
        return [self._events[event] for event in waits if event in self._events]

    def _is_ready(self, item: _Queued) -> bool:
        is_set = not is_wait(item.node.stmt) or self._run.is_set(item.keys)
        return is_set and all(each.is_done for each in item.after)

    def advance(self) -> bool:
        """Run what is at the heads of its queues and can run; whether there was something."""
        for queue in list(self.queues.values()):
            item = queue[0]
            if all(self.queues[pipe][0] is item for pipe in item.pipes) and self._is_ready(item):
                self._take(item)
                return True
        return False

    def _take(self, item: _Queued) -> None:
        for pipe in item.pipes:
            self.queues[pipe].remove(item)
            if not self.queues[pipe]:
                del self.queues[pipe]
        item.is_done = True
        self._run.execute(item.node, self._stream, item.keys, item.state)

    def waits(self) -> dict[Key, tuple[Node, CoreStream]]:
        """The flags between the cores that pipes are held by."""
        heads = [queue[0] for queue in self.queues.values()]
        waits = [item for item in heads if is_wait(item.node.stmt)]
        return {key: (item.node, self._stream) for item in waits for key in item.keys if not self._run.is_set((key,))}

    def end_wait(self, node: Node) -> None:
        """End a wait for the other core without a set."""
        self._take(next(queue[0] for queue in self.queues.values() if queue[0].node is node))


# --- how the cores meet


MOST_STEPS = 1 << 16
"""Statements that are followed."""


class Unfollowed(Exception):
    """How cores meet depends on numbers that are not known."""


@dataclass
class Meetings:
    """How the cores of a program meet."""

    in_text_order: bool
    """Whether every wait comes after its set in the text, in all blocks; False if that is not known."""
    stuck: list[Wait]
    """A wait that never ends, or several that wait for one another; empty if none is known."""


class _Follower:
    """Follows the streams of a block, and runs nothing."""

    def __init__(self) -> None:
        self.stuck_at: list[Wait] = []
        self._left = MOST_STEPS

    def iterations(self, loop: ir.Loop, stream: CoreStream) -> Iterator[int]:
        for value in range(evaluate(loop.start, stream.values), evaluate(loop.stop, stream.values), loop.step):
            self._count()
            yield value

    def holds(self, branch: ir.Branch, stream: CoreStream) -> bool:
        return bool(evaluate(branch.condition, stream.values))

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            raise Unfollowed

    def execute(self, node: Node, stream: CoreStream, state: object = None) -> None:
        self._count()

    execute_later = execute

    def state(self, stream: CoreStream) -> object:
        return self

    def stuck(self, waits: list[Wait]) -> None:
        self.stuck_at = waits
        raise Unfollowed


def meetings(streams: Streams, grid: int | None, integers: Mapping[Var, int]) -> Meetings:
    """How the cores of a program meet in the blocks of a grid, as far as it follows from the numbers of a launch."""
    if streams.program.vector_cores < 2 and _sets_come_first(streams.program):
        return Meetings(True, [])
    follower = _Follower()
    known = dict(integers) if grid is None else {**integers, BLOCK_NUM: grid}
    try:
        return Meetings(_follow(streams, grid, known, follower), [])
    except (Unfollowed, KeyError, ExpressionError):
        return Meetings(False, follower.stuck_at)


def _follow(streams: Streams, grid: int | None, known: dict[Var, int], follower: _Follower) -> bool:
    """Follow one block if all meet alike, else all blocks; whether they run in the order of the text."""
    try:
        return streams.run(known, follower)
    except KeyError as missing:
        if missing.args[0] != BLOCK_IDX or grid is None:
            raise
    blocks = [streams.run({**known, BLOCK_IDX: block}, follower) for block in range(grid)]
    return all(blocks)


def _sets_come_first(program: ir.Program) -> bool:
    """Whether every wait certainly comes after its set in the text, whatever the numbers are."""
    try:
        _left_set(program.body, Counter())
    except Unfollowed:
        return False
    return True


def _left_set(block: ir.Block, flags: Counter[Hashable]) -> Counter[Hashable]:
    """How often each flag is set at least after a block, if before it is so often. An iteration takes its own sets."""
    for stmt in block:
        if isinstance(stmt, ir.Loop):
            _left_set(stmt.body, Counter())
        elif isinstance(stmt, ir.Branch):
            arms = [_left_set(arm, flags.copy()) for arm in ir.children(stmt)]
            flags = arms[0] & arms[1]
        elif isinstance(stmt, ir.Flag | ir.CrossFlag) and is_crossing(stmt):
            key = (stmt.src, stmt.dst, stmt.event) if isinstance(stmt, ir.Flag) else (ends_of(stmt)[0], stmt.event)
            flags[key] += -1 if is_wait(stmt) else 1
            if flags[key] < 0:
                raise Unfollowed
    return flags
