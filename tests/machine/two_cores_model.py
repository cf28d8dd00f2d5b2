"""Kernels for two cores as plain data: their text, and a model that runs them. It shares no code with ptokit.

The model has a queue for each pipe. The scalar pipe of a core issues the statements of its core in the order of the
text, and runs its own at once. A pipe runs what was issued to it in order. A wait holds its pipe, and one of the scalar
pipe its core; where `holds_core` is true, a wait for the other core holds the core, too. A barrier holds the core until
its queues are empty. Of the pipes that can go on, a random one does.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

Arrays = dict[str, Any]
Values = dict[str, int]
Contents = dict[str, "Content"]
PIPES = {"AIV": ("S", "MTE2", "V", "MTE3"), "AIC": ("S", "MTE2", "MTE1", "M", "FIX")}
OTHER = {"AIV": "AIC", "AIC": "AIV"}
ROWS = 16


@dataclass
class Content:
    """What a tile holds."""

    value: Any = None


@dataclass
class Op:
    """An instruction of a pipe: its text, and what it does to arrays and tiles."""

    core: str
    pipe: str
    tiles: tuple[str, ...]
    text: str
    act: Callable[[Arrays, Contents, Values], None]


@dataclass
class Declare:
    """A declaration of a tile: from here on, its name is that of another tile."""

    core: str
    tile: str
    text: str


@dataclass
class Load:
    """A number that the scalar pipes read from an array."""

    var: str
    array: str
    index: str


@dataclass
class Sync:
    """A flag between the cores."""

    core: str
    action: str
    pipe: str
    event: str
    """An expression."""


@dataclass
class Flag:
    """A flag between two pipes of a core."""

    core: str
    """Empty for both, if both have the pipes."""
    action: str
    src: str
    dst: str
    event: str


@dataclass
class Barrier:
    core: str = ""
    """Empty for both."""
    pipe: str = "ALL"


@dataclass
class Loop:
    var: str
    stop: str
    body: list[Any]


@dataclass
class When:
    condition: str
    then: list[Any]
    otherwise: list[Any] = field(default_factory=list)


def number(text: str, values: Values) -> int:
    return int(eval(text, {}, values))


# --- text


def text_of(body: list[Any], depth: int = 1) -> Iterator[str]:
    """The lines of a kernel."""
    indent = "    " * depth
    for stmt in body:
        if isinstance(stmt, Loop):
            yield f"{indent}for {stmt.var} in pto.range({stmt.stop}):"
            yield from text_of(stmt.body, depth + 1)
        elif isinstance(stmt, When):
            yield f"{indent}with pto.when({stmt.condition}):"
            yield from text_of(stmt.then, depth + 1)
            if stmt.otherwise:
                yield f"{indent}with pto.otherwise():"
                yield from text_of(stmt.otherwise, depth + 1)
        else:
            yield indent + _line(stmt)


def _line(stmt: Any) -> str:
    if isinstance(stmt, Sync):
        return f'pto.sync_{stmt.action}("{_pipe(stmt.core, stmt.pipe)}", {stmt.event})'
    if isinstance(stmt, Flag):
        core = "" if not stmt.core or _has_one_owner(stmt) else f"{stmt.core}."
        return f'pto.{stmt.action}_flag("{core}{stmt.src}", "{core}{stmt.dst}", {stmt.event})'
    if isinstance(stmt, Barrier):
        return f'pto.barrier("{stmt.core + "." if stmt.core else ""}{stmt.pipe}")'
    if isinstance(stmt, Load):
        return f"{stmt.var} = pto.load_scalar({stmt.array}, {stmt.index})"
    return stmt.text


def _pipe(core: str, pipe: str) -> str:
    return pipe if pipe not in PIPES[OTHER[core]] else f"{core}.{pipe}"


def _has_one_owner(flag: Flag) -> bool:
    return not {flag.src, flag.dst} <= {*PIPES[OTHER[flag.core]]}


# --- the model


class Stuck(Exception):
    """No core can go on."""


def statements(body: list[Any], core: str, values: Values, arrays: Arrays) -> Iterator[Any]:
    """What a core issues. The values are those of the time when a statement is asked for."""
    for stmt in body:
        if isinstance(stmt, Loop):
            for value in range(number(stmt.stop, values)):
                values[stmt.var] = value
                yield from statements(stmt.body, core, values, arrays)
        elif isinstance(stmt, When):
            yield from statements(stmt.then if number(stmt.condition, values) else stmt.otherwise, core, values, arrays)
        elif isinstance(stmt, Load):
            values[stmt.var] = int(arrays[stmt.array][number(stmt.index, values)])
        elif stmt.core in ("", core):
            yield stmt


class CoreModel:
    """A core of a block."""

    def __init__(self, block: BlockModel, core: str, body: list[Any], values: Values, holds_core: bool) -> None:
        self.block, self.core, self.holds_core = block, core, holds_core
        self.values, self.tiles = dict(values), Contents()
        self.flags: Counter[tuple[str, str, int]] = Counter()
        self.queues: dict[str, deque[tuple[Any, Contents, Values]]] = {pipe: deque() for pipe in PIPES[core]}
        self.source = statements(body, core, self.values, block.arrays)
        self.next = next(self.source, None)

    def ready(self) -> list[str]:
        """The pipes that can go on; S, if it can issue."""
        found = [pipe for pipe, queue in self.queues.items() if queue and self.can_run(queue[0][0], queue[0][2])]
        return [*found, "S"] if self.next is not None and self.can_issue(self.next) else found

    @property
    def is_done(self) -> bool:
        return self.next is None and not any(self.queues.values())

    def can_issue(self, stmt: Any) -> bool:
        if isinstance(stmt, Barrier) and stmt.pipe == "ALL":
            return not any(self.queues.values())
        return self.pipe_of(stmt) != "S" or self.can_run(stmt, self.values)

    def pipe_of(self, stmt: Any) -> str:
        if isinstance(stmt, Sync):
            return "S" if self.holds_core and stmt.action == "wait" else stmt.pipe
        if isinstance(stmt, Flag):
            return stmt.src if stmt.action == "set" else stmt.dst
        return stmt.pipe if isinstance(stmt, Op) else "S"

    def can_run(self, stmt: Any, values: Values) -> bool:
        counts, key = self.flag_of(stmt, values)
        return stmt.action == "set" or counts[key] > 0 if key else True

    def flag_of(self, stmt: Any, values: Values) -> tuple[Counter[Any], Any]:
        if isinstance(stmt, Sync):
            setter = self.core if stmt.action == "set" else OTHER[self.core]
            return self.block.flags, (setter, number(stmt.event, values))
        if isinstance(stmt, Flag):
            return self.flags, (stmt.src, stmt.dst, number(stmt.event, values))
        return self.flags, None

    def step(self, pipe: str) -> None:
        """A pipe goes on; S issues."""
        if pipe != "S":
            self.run(*self.queues[pipe].popleft())
            return
        stmt = self.next
        if isinstance(stmt, Declare):
            self.tiles[stmt.tile] = Content()
        elif self.pipe_of(stmt) == "S":
            self.run(stmt, self.tiles, self.values)
        else:
            self.queues[self.pipe_of(stmt)].append((stmt, dict(self.tiles), dict(self.values)))
        self.next = next(self.source, None)

    def run(self, stmt: Any, tiles: Contents, values: Values) -> None:
        counts, key = self.flag_of(stmt, values)
        if key:
            counts[key] += 1 if stmt.action == "set" else -1
        elif isinstance(stmt, Op):
            stmt.act(self.block.arrays, tiles, values)


class BlockModel:
    """A block of a grid."""

    def __init__(self, body: list[Any], arrays: Arrays, values: Values, holds_core: bool) -> None:
        self.arrays = arrays
        self.flags: Counter[tuple[str, int]] = Counter()
        self.cores = [CoreModel(self, core, body, values, holds_core) for core in PIPES]

    def run(self, dice: Random) -> None:
        """Run to the end; raises `Stuck` if nothing can go on."""
        while not all(core.is_done for core in self.cores):
            ready = [(core, pipe) for core in self.cores for pipe in core.ready()]
            if not ready:
                raise Stuck
            core, pipe = dice.choice(ready)
            core.step(pipe)
