"""The threads of a launch: how blocks are divided among them, and how their findings are put in order."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ptokit.engine.llvm.program.compiler import Tensors
from ptokit.engine.llvm.program.fallback import Fallback
from ptokit.engine.llvm.program.page import Page
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.engine.native import jit, workers
from ptokit.engine.native.program.ledger import flush
from ptokit.engine.native.program.thread import Thread
from ptokit.engine.native.program.thread_count import LaunchWork
from ptokit.engine.native.whole.strategies import Team
from ptokit.engine.runnable import Listener
from ptokit.finding import Finding

LEDGER = 32 << 20
"""Bytes that all ledgers together should have before they are flushed."""

Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class ProgramCode:
    """The machine code of a program, with the state of the threads that run it."""

    def __init__(self, library: jit.Library, slots: Slots, fallback: Fallback) -> None:
        self._library, self._slots, self._fallback = library, slots, fallback
        self.function = Function(library.address(ENTRY))
        self.pages = tuple(Page(**each) for each in library.facts["pages"])
        """Scatters that it defers."""
        self._idle: list[Thread] = []

    def acquire(self) -> Thread:
        """The state of a thread, for one launch."""
        try:
            return self._idle.pop()
        except IndexError:
            return Thread(self._slots, self._fallback, self.pages)

    def release(self, thread: Thread) -> None:
        """Keep the state of a thread for the next launch."""
        thread.end()
        self._idle.append(thread)

    def run(self, team: Sequence[Thread], grid: int, stop: workers.Stop) -> None:
        """Run the whole grid on several threads."""
        parts = Parts(grid, len(team))
        workers.run(lambda k: self.work(team[k], parts), len(team), stop)

    def run_deferring(self, team: Sequence[Thread], tensors: Tensors, work: LaunchWork, stop: workers.Stop) -> None:
        """Run code that defers scatters: wave after wave of blocks, each followed by its scatters."""
        wave = Wave(work.grid, len(team), work.nbytes if work.certain else None)
        while wave.parts and all(thread.failure is None for thread in team):
            self._reserve(team, work, wave)
            workers.run(lambda k: self.work(team[k], iter([wave.parts[k]])), len(team), stop)
            wave.go_on(sum(ledger.nbytes for thread in team for ledger in thread.ledgers))
            self._flush(team, tensors, stop)

    def _reserve(self, team: Sequence[Thread], work: LaunchWork, wave: Wave) -> None:
        """Reserve memory for what the blocks of a wave will probably defer."""
        for thread, part in zip(team, wave.parts, strict=True):
            for ledger in thread.ledgers:
                ledger.reserve(min(LEDGER, len(part) * work.written[ledger.page.number]))

    def _flush(self, team: Sequence[Thread], tensors: Tensors, stop: workers.Stop) -> None:
        """Execute the deferred scatters, in the order of the blocks."""
        for nth, page in enumerate(self.pages):
            flush([thread.ledgers[nth] for thread in team], tensors[page.array], Team(len(team), stop))

    def work(self, thread: Thread, parts: Iterator[range]) -> None:
        """Run parts of the grid until there are none, or one fails."""
        for part in parts:
            reached = self.function(thread.address, part.start, part.stop)
            if thread.failure is not None:
                thread.failed_at = reached
                if isinstance(parts, Parts):
                    parts.end_at(reached)
            if reached < part.stop:
                return


class Wave:
    """Divides a grid into waves: a run of blocks for each thread, as long as ledgers keep a good size."""

    def __init__(self, grid: int, threads: int, nbytes: float | None) -> None:
        """`nbytes` is what a block defers; None if it is not known before the first wave."""
        self._grid, self._threads, self._at = grid, threads, 0
        self._blocks = threads if nbytes is None else max(threads, int(LEDGER / max(1.0, nbytes)))
        """Blocks of a wave."""
        self.parts: list[range] = []
        self._cut()

    def _cut(self) -> None:
        left, threads = self._grid - self._at, self._threads
        taken = min(left, self._blocks)
        cuts = [self._at + taken * k // threads for k in range(threads + 1)]
        self.parts = [range(a, b) for a, b in pairwise(cuts)] if taken else []

    def go_on(self, nbytes: int) -> None:
        """Go to the next wave; the blocks of this one have deferred `nbytes`, all together."""
        done = self.parts[-1].stop - self._at
        self._at += done
        self._blocks = max(self._threads, min(2 * self._blocks, done * LEDGER // max(1, nbytes)))
        self._cut()


class Parts(Iterator[range]):
    """Divides a grid into ascending runs of blocks; after a failure, only blocks before it matter."""

    def __init__(self, grid: int, threads: int) -> None:
        self._stop, self._at = grid, 0
        self._step = grid if threads == 1 else max(1, grid // (16 * threads))
        self._lock = threading.Lock()

    def __next__(self) -> range:
        with self._lock:
            first = self._at
            if first >= self._stop:
                raise StopIteration
            self._at = min(self._stop, first + self._step)
            return range(first, self._at)

    def end_at(self, block: int) -> None:
        """Hand out no block from this one on."""
        with self._lock:
            self._stop = min(self._stop, block)


class FindingBuffer:
    """Findings of several threads, reported at the end in the order of their blocks."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._waiting: list[tuple[int, Sequence[Finding]]] = []

    def of(self, thread: Thread) -> Listener:
        """The listener of a thread."""
        return lambda findings: self._waiting.append((thread.block, findings))

    def flush(self, last: int) -> None:
        """Report the findings of the blocks up to `last`."""
        for block, findings in sorted(self._waiting, key=lambda each: each[0]):
            if block <= last:
                self._listener(findings)
