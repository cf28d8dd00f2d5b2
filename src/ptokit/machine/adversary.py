"""Other legal schedules: pipes take turns by lot, as far as their own order, flags and the scalar pipe allow.

What pipes do for the instructions of a block is written down while the block's control flow runs, and then done in an
order that is drawn. A program whose works are all ordered gives the same bits whatever is drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random

from ptokit.machine.clocks import core_of
from ptokit.program.steps import ISSUE


@dataclass
class _Item:
    run: Callable[[], None]
    is_ready: Callable[[], bool]
    is_due: Callable[[], bool]
    """Whether it may go before others that could; it goes anyway where there are none."""
    after: int
    """How far the scalar pipe must have come: everything is issued after what it has waited for."""


class Adversary:
    """The pipes of a block, and the lot."""

    def __init__(self, seed: int, pipes: Sequence[str]) -> None:
        self._pipes = pipes
        self._lot = Random(seed)  # noqa: S311  (schedules are no secret)
        self._queues: dict[str, deque[_Item]] = {pipe: deque() for pipe in pipes}
        self._given = dict.fromkeys(pipes, 0)
        self._done = dict.fromkeys(pipes, 0)
        self._gates = dict.fromkeys(pipes, 0)
        self._flags: dict[Hashable, bool] = {}
        self._events: dict[Hashable, list[object]] = {}
        """The last signals of each event: one that is given again in a loop is another."""
        self._atomic: object = None
        """Set after the last atomic."""

    def blocks(self, grid: int) -> list[int]:
        """The blocks of a grid, in an order that is drawn."""
        order = list(range(grid))
        self._lot.shuffle(order)
        return order

    def work(self, pipe: str, do: Callable[[], None]) -> None:
        """A pipe does something."""
        self._give(pipe, do)

    def work_atomically(self, pipe: str, do: Callable[[], None]) -> None:
        """The same for atomics, which keep the order of the program if flags let them: rounding would tell."""
        before, self._atomic = self._atomic, object()
        self._give(pipe, do, is_due=lambda: before is None or self._flags.get(before, False))
        self.set(pipe, self._atomic)

    def set(self, src: str, flag: Hashable) -> None:
        """A pipe sets a flag."""
        self._give(src, lambda: self._flags.__setitem__(flag, True))

    def wait(self, dst: str, flag: Hashable) -> None:
        """A pipe waits for a flag."""
        self._give(dst, lambda: self._flags.__setitem__(flag, False), lambda: self._flags.get(flag, False))
        if dst.endswith(f".{ISSUE}"):
            self._gates[dst] = self._given[dst]

    def sync(self, src: str, dst: str) -> None:
        """A pipe waits for another."""
        token = object()
        self.set(src, token)
        self.wait(dst, token)

    def hear(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on `pipes` starts after the one that signals an event has ended."""
        for dst in pipes:
            for token in self._events.get(event, ()):
                self._give(dst, lambda: None, lambda token=token: self._flags.get(token, False))

    def signal(self, event: Hashable, pipes: Sequence[str]) -> None:
        """An instruction on these pipes has ended."""
        self._events[event] = [object() for _ in pipes]
        for pipe, token in zip(pipes, self._events[event], strict=True):
            self.set(pipe, token)

    def barrier(self) -> None:
        """Everything that was given so far comes before all that follows."""
        for scalar in (pipe for pipe in self._pipes if pipe.endswith(f".{ISSUE}")):
            for pipe in self._pipes:
                if pipe != scalar:
                    self.sync(pipe, scalar)

    def settle(self, pipe: str) -> None:
        """Go on until a pipe has done all that it was given."""
        while self._queues[pipe]:
            self._step()

    def end(self) -> None:
        """End a block."""
        while any(self._queues.values()):
            self._step()
        self._flags.clear()
        self._events.clear()
        self._atomic = None

    def _give(
        self,
        pipe: str,
        run: Callable[[], None],
        is_ready: Callable[[], bool] = lambda: True,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        scalar = f"{core_of(pipe)}.{ISSUE}"
        self._queues[pipe].append(_Item(run, is_ready, is_due, 0 if pipe == scalar else self._gates[scalar]))
        self._given[pipe] += 1

    def _step(self) -> None:
        """Let one pipe go on; where all are stuck, one that is drawn goes on nevertheless."""
        waiting = [pipe for pipe in self._pipes if self._queues[pipe]]
        ready = [pipe for pipe in waiting if self._may(pipe)]
        due = [pipe for pipe in ready if self._queues[pipe][0].is_due()]
        pipe = self._lot.choice(due or ready or waiting)
        self._queues[pipe].popleft().run()
        self._done[pipe] += 1

    def _may(self, pipe: str) -> bool:
        item = self._queues[pipe][0]
        return item.is_ready() and self._done[f"{core_of(pipe)}.{ISSUE}"] >= item.after
