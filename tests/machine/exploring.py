"""All schedules of a launch, one after the other, for launches small enough.

Every choice that the machine leaves to chance is made in every way: which pipe runs next, which of two contents a
cached read sees, which order blocks start in, and whether lanes take effect forwards or backwards. A state that was
seen before is not explored again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest

from ptokit.machine import executable
from ptokit.machine.deferred import DeferredInstruction

MOST_ORDERS = 24
"""Orders of blocks that are tried."""


class Seen(Exception):
    """A state was explored before."""


class Choices:
    """The choices of one launch: those of a script, then the first of each; the others are left for later."""

    def __init__(self, search: Search, script: tuple[int, ...]) -> None:
        self.search, self.script = search, script
        self.taken: tuple[int, ...] = ()
        self.pipes: list[Any] = []
        self.kept: dict[int, bytes] = {}

    def choose(self, count: int) -> int:
        """One of so many possibilities."""
        at = len(self.taken)
        if at < len(self.script):
            chosen = self.script[at]
        else:
            chosen = 0
            self.search.pending += [(*self.taken, other) for other in range(1, count)]
        self.taken = (*self.taken, chosen)
        return chosen

    def begin(self, pipes: Iterable[Any]) -> None:
        self.pipes += pipes

    def pick(self, pipes: Sequence[Any]) -> Any:
        if len(self.taken) >= len(self.script):
            state = self.search.state(self)
            if state in self.search.states:
                raise Seen
            self.search.states.add(state)
        return pipes[self.choose(len(pipes))]

    def coin(self) -> bool:
        return bool(self.choose(2))

    def shuffled(self, things: Sequence[Any]) -> list[Any]:
        few = list(permutations(things)) if len(things) <= 4 else [tuple(things), tuple(things)[::-1]]
        return list(few[self.choose(len(few))])

    def order(self, count: int) -> np.ndarray[Any, Any]:
        return np.arange(count)[:: 1 if self.choose(2) == 0 else -1]


class Search:
    """The search through the schedules of a launch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pending: list[tuple[int, ...]] = [()]
        self.states: set[Any] = set()
        self.choices = Choices(self, ())
        self.frames: list[Any] = []
        self._dice = Random(0)
        self._made: list[DeferredInstruction] = []
        run, make = executable.MachineExecutable._run_otherwise, DeferredInstruction.__init__

        def run_otherwise(this: Any, frames: Any, *rest: Any) -> None:
            self.frames = frames
            run(this, frames, *rest)

        def made(this: Any, *given: Any) -> None:
            make(this, *given)
            self._made.append(this)

        monkeypatch.setattr(executable, "Chance", lambda _: self.choices)
        monkeypatch.setattr(executable.MachineExecutable, "_run_otherwise", run_otherwise)
        monkeypatch.setattr(DeferredInstruction, "__init__", made)

    def outcomes(self, launch: Callable[[], Any], most: int) -> Iterator[Any]:
        """What a launch gives under every schedule; at most so many."""
        for _ in range(most):
            if not self.pending:
                return
            script = self.pending.pop(self._dice.randrange(len(self.pending)))
            self.choices, self._made = Choices(self, script), []
            try:
                yield launch()
            except Seen:
                continue

    def state(self, choices: Choices) -> Any:
        """All that what happens next depends on."""
        frames = self.frames
        memories = [m._bytes[: m.poisoned].tobytes() for frame in frames for m in frame.memories.values()]
        arrays = [storage.bits.tobytes() for storage in frames[0].tensors.values()]
        lanes = [_kept(each) for each in self._made]
        flags = [
            tuple(signal.stamp is not None for signal in frame.adversary._flags.values())
            for frame in frames
            if frame.adversary
        ]
        values = [tuple(sorted(frame.values.items())) for frame in frames]
        done = tuple(pipe.done for pipe in choices.pipes)
        return hash((done, *memories, *arrays, *map(str, lanes), *flags, *values))


def _kept(work: DeferredInstruction) -> Any:
    """The indices that an instruction has read."""
    return [None if each is None else each.values.tobytes() for each in work._lanes or ()]
