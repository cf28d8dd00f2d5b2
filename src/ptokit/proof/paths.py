"""A path through a program: where each core is, what it knows of numbers, of on-chip memory and of order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ptokit.isa.policy import TileType
from ptokit.program import ir
from ptokit.program.expr import (
    Var,
)
from ptokit.program.streams import Node
from ptokit.proof.numbers import Numbers, Sum, added
from ptokit.proof.order import OrderState


class PathBlock:
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

    def copy(self) -> PathBlock:
        other = PathBlock(self.nodes, self.loop)
        other.at, other.iteration, other.start, other.stop = self.at, self.iteration, self.start, self.stop
        other.seen = dict(self.seen)
        return other


class PathCore:
    """A core on a path."""

    __slots__ = ("addresses", "core", "frames", "numbers")

    def __init__(self, core: str, frames: list[PathBlock], numbers: Numbers) -> None:
        self.core, self.frames, self.numbers = core, frames, numbers
        self.addresses: dict[int, dict[str, int]] = {}
        """By vector core: the address of each tile."""

    def copy(self) -> PathCore:
        other = PathCore(self.core, [frame.copy() for frame in self.frames], self.numbers.copy())
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

    def __init__(self, threads: list[PathCore], order: OrderState) -> None:
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


class PlacedBlock(NamedTuple):
    """The block of an array that an access touches on a path."""

    iterations: tuple[tuple[str, int], ...]
    """The counters of loops that it depends on, with their numbers then."""
    starts: tuple[Sum, ...]
    """In terms of the counters."""
    sizes: tuple[Sum, ...]
