"""The random choices of a schedule.

Schedules that show a race are rare among uniform choices: one pipe has to be far behind another. As in PCT (Burckhardt
et al., ASPLOS 2010), pipes have random priorities, the first pipe that can run does, and now and then it falls behind
all others. Consecutive seeds take turns: all pipes alike, then one pipe after the other that starves until nothing else
can run, then changing priorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

import numpy as np

from ptokit.engine.storage import Array

TURNS = 4
"""Of so many consecutive seeds the first chooses among all pipes alike, and the last changes priorities."""
CHANGES = (0.02, 0.1, 0.3)
"""How likely the first pipe falls behind, in a step."""


class Prioritised(Protocol):
    """What has a priority."""

    priority: tuple[float, float]


P = TypeVar("P", bound=Prioritised)
T = TypeVar("T")


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

    def begin(self, pipes: Sequence[Prioritised]) -> None:
        """A block begins: its pipes get priorities."""
        block = self._random.random() if self._by_block else 0.0
        for pipe in pipes:
            pipe.priority = block, self._random.random()
        if 0 < self._kind < TURNS - 1:
            pipes[self._starved % len(pipes)].priority = -1.0, 0.0

    def pick(self, pipes: Sequence[P]) -> P:
        """The next of some pipes to run."""
        if self._kind == 0:
            return self._random.choice(pipes)
        first = max(pipes, key=_priority)
        if len(pipes) > 1 and self._random.random() < self._change:
            self._lowest -= 1.0
            first.priority = self._lowest, 0.0
            first = max(pipes, key=_priority)
        return first

    def coin(self) -> bool:
        """True in half of the cases."""
        return self._random.random() < 0.5

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """The same in a random order."""
        return self._random.sample(things, len(things))

    def order(self, count: int) -> Array:
        """An order of lanes."""
        return np.array(self.shuffled(range(count)), np.intp)


def _priority(pipe: Prioritised) -> tuple[float, float]:
    return pipe.priority
