"""Other legal schedules: pipes run in a random order, within what their own order, flags and the scalar pipe allow.

The work of the pipes is queued while the control flow of blocks runs, and then run in the order that `Chance` picks,
pipes of several blocks among each other. A program whose accesses are all ordered gives the same bits in every order.

Schedules that show a race are rare among uniform choices: one pipe has to be far behind another. As in PCT (Burckhardt
et al., ASPLOS 2010), pipes have random priorities, the first pipe that can run does, and now and then it falls behind
all others. Consecutive seeds alternate: uniform choices, then one pipe after the other that starves until nothing else
can run, then changing priorities.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from random import Random
from typing import Self, TypeVar

import numpy as np

from ptokit.engine.storage import Array
from ptokit.machine.pipes import Pipe, PipeEngine, PipeItem, Signal, is_set

TURNS = 4
"""A period of seeds: the first chooses among all pipes alike, and the last changes priorities."""
CHANGES = (0.02, 0.1, 0.3)
"""How likely the first pipe falls behind, in a step."""
MOST_TOGETHER = 4
"""Blocks whose pipes run among each other."""
Do = Callable[[], None]
"""Work."""
T = TypeVar("T")


class RandomPipe(Pipe):
    """A pipe with how far it has come."""

    __slots__ = ("done", "gate", "issued_count", "priority")

    def __init__(self, name: str, number: int, scalar: Self | None) -> None:
        super().__init__(name, number, scalar)
        self.issued_count = self.done = 0
        """How many items were issued to it, and how many have run."""
        self.gate = 0
        """Of a scalar pipe: how many of its items must have run before what it issues now."""
        self.priority = 0.0, 0.0
        """For `Chance`."""

    def is_ready(self) -> bool:
        """Whether its next item can run."""
        item = self.queue[0]
        return is_set(item.signal) and self.scalar.done >= item.issued


class Chance:
    """The choices of one launch; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311  (schedules are no secret)
        turn, self._kind = divmod(seed, TURNS)
        self._starved = turn * (TURNS - 2) + self._kind - 1
        """The number of the pipe that starves, if one does."""
        self._change = self._random.choice(CHANGES) if self._kind == TURNS - 1 else 0.0
        self._by_block = self._random.random() < 0.5
        """Whether a pipe of one block comes before all pipes of another."""
        self._lowest = 0.0

    def begin(self, pipes: Sequence[RandomPipe]) -> None:
        """A block begins: its pipes get priorities."""
        block = self._random.random() if self._by_block else 0.0
        for pipe in pipes:
            pipe.priority = block, self._random.random()
        if 0 < self._kind < TURNS - 1:
            pipes[self._starved % len(pipes)].priority = -1.0, 0.0

    def pick(self, pipes: Sequence[RandomPipe]) -> RandomPipe:
        """The next of some pipes to run."""
        if self._kind == 0:
            return self._random.choice(pipes)
        first = max(pipes, key=attrgetter("priority"))
        if len(pipes) > 1 and self._random.random() < self._change:
            self._lowest -= 1.0
            first.priority = self._lowest, 0.0
            first = max(pipes, key=attrgetter("priority"))
        return first

    def coin(self) -> bool:
        """True in half of the cases."""
        return self._random.random() < 0.5

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """The same in a random order."""
        return self._random.sample(things, len(things))

    def order(self, count: int) -> Array:
        return np.array(self.shuffled(range(count)), np.intp)


class Concurrency:
    """Blocks that run at the same time."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self._blocks: list[Adversary] = []

    def begin(self, pipes: Sequence[str]) -> Adversary:
        """Another block begins."""
        block = Adversary(self, pipes)
        self.chance.begin(block.pipes)
        self._blocks.append(block)
        return block

    def step(self) -> None:
        """Run the next item of a pipe. If every pipe is held, one continues nevertheless."""
        waiting = [(block, pipe) for block in self._blocks for pipe in block.waiting]
        ready = [pipe for _, pipe in waiting if pipe.is_ready()]
        preferred = [pipe for pipe in ready if is_set(pipe.queue[0].after)]
        chosen = self.chance.pick(preferred or ready or [pipe for _, pipe in waiting])
        next(block for block, pipe in waiting if pipe is chosen).run(chosen)

    def end(self) -> None:
        """End the blocks: run all their items."""
        while any(block.waiting for block in self._blocks):
            self.step()
        self._blocks.clear()


class Adversary(PipeEngine[RandomPipe, int, Do]):
    """The pipes of a block. The time of an item is the gate of its scalar pipe."""

    pipe_type = RandomPipe
    defers = True

    def __init__(self, others: Concurrency, pipes: Sequence[str]) -> None:
        super().__init__(pipes)
        self._others, self.chance = others, others.chance
        self._atomic: Signal[int] | None = None
        """Set after the last atomic."""

    @property
    def pipes(self) -> list[RandomPipe]:
        return list(self._pipes.values())

    @property
    def waiting(self) -> list[RandomPipe]:
        """Pipes that have something to run."""
        return self._held_pipes()

    def work_atomically(self, pipe: str, work: Do) -> None:
        """Work that is an atomic. Atomics keep the program's order if flags allow it: rounding depends on it."""
        at, before = self._pipes[pipe], self._atomic
        self.work(pipe, work)
        at.queue[-1].after = before
        self._atomic = Signal()
        self._issue_set(at, self._atomic)

    def wait_event(self, event: Hashable, pipes: Sequence[str], what: object = None) -> None:
        """An instruction on these pipes starts after an event, unless nothing signals it."""
        if event in self._events:
            super().wait_event(event, pipes, what)

    def fence(self, pipe: str) -> None:
        """Nothing to do: what may overlap on a pipe is known from the run in program order (`deferred.Overlaps`)."""

    def drain(self, pipe: str) -> None:
        """Run until a pipe has run all its items."""
        at = self._pipes[pipe]
        while at.queue:
            self._others.step()

    def run(self, pipe: RandomPipe) -> None:
        """Run the next item of a pipe."""
        self._take(pipe).run()
        pipe.done += 1

    # --- the notion of time

    def _issue(self, pipe: RandomPipe) -> int:
        return 0 if pipe is pipe.scalar else pipe.scalar.gate

    def _work(self, _pipe: RandomPipe, _issued: int, _limit: int | None, work: Do) -> None:
        work()

    def _stamp(self, pipe: RandomPipe, _issued: int) -> int:
        return pipe.done

    def _receive(self, pipe: RandomPipe, issued: int, stamp: int | None, takes: bool) -> None:
        pass

    def _hold(self, at: RandomPipe, item: PipeItem[int]) -> None:
        self._queue(at, item)
        at.issued_count += 1
        if item.signal and at is at.scalar:
            at.gate = at.issued_count
