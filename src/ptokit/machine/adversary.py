"""Other legal schedules: pipes run in a random order, within what their own order, flags and the scalar pipe allow.

The work of the pipes is queued while the control flow of a block runs, and then run in a random order. A program whose
accesses are all ordered gives the same bits in every order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Self

from ptokit.machine.pipes import Pipe, PipeEngine, PipeItem, Signal

Do = Callable[[], None]
"""Work."""


class RandomPipe(Pipe):
    """A pipe with how far it has come."""

    __slots__ = ("done", "gate", "given")

    def __init__(self, name: str, number: int, scalar: Self | None) -> None:
        super().__init__(name, number, scalar)
        self.given = self.done = 0
        """How many items were issued to it, and how many have run."""
        self.gate = 0
        """Of a scalar pipe: how many of its items must have run before what it issues now."""


class Adversary(PipeEngine[RandomPipe, int, Do]):
    """The pipes of a block, and the random numbers. The time of an item is the gate of its scalar pipe."""

    pipe_type = RandomPipe
    defers = True

    def __init__(self, seed: int, pipes: Sequence[str]) -> None:
        super().__init__(pipes)
        self._random = Random(seed)  # noqa: S311  (schedules are no secret)
        self._atomic: Signal[int] | None = None
        """Set after the last atomic."""

    def blocks(self, grid: int) -> list[int]:
        """The blocks of a grid in a random order."""
        order = list(range(grid))
        self._random.shuffle(order)
        return order

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

    def drain(self, pipe: str) -> None:
        """Run until a pipe has run all its items."""
        at = self._pipes[pipe]
        while at.queue:
            self._step()

    def end(self) -> None:
        """End a block: run all its items."""
        while self._held:
            self._step()
        self.forget()
        self._atomic = None

    # --- the notion of time

    def _issue(self, pipe: RandomPipe) -> int:
        return 0 if pipe is pipe.scalar else pipe.scalar.gate

    def _work(self, _pipe: RandomPipe, _issued: int, _limit: int | None, work: Do) -> None:
        work()

    def _stamp(self, pipe: RandomPipe, _issued: int) -> int:
        return pipe.done

    def _receive(self, pipe: RandomPipe, issued: int, stamp: int | None, takes: bool) -> None:
        pass

    # --- what runs next

    def _hold(self, at: RandomPipe, item: PipeItem[int]) -> None:
        self._queue(at, item)
        at.given += 1
        if item.signal and at is at.scalar:
            at.gate = at.given

    def _step(self) -> None:
        """Run the next item of a random pipe. If every pipe is held, a random one continues nevertheless."""
        waiting = [pipe for pipe in self._pipes.values() if pipe.queue]
        ready = [pipe for pipe in waiting if self._is_ready(pipe, pipe.queue[0])]
        preferred = [pipe for pipe in ready if _is_set(pipe.queue[0].after)]
        pipe = self._random.choice(preferred or ready or waiting)
        self._take(pipe).run()
        pipe.done += 1

    def _is_ready(self, at: RandomPipe, item: PipeItem[int]) -> bool:
        return _is_set(item.signal) and at.scalar.done >= item.issued


def _is_set(signal: Signal[int] | None) -> bool:
    return signal is None or signal.stamp is not None
