"""How the blocks of a launch are shared out among threads, and what they say is put in order."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ptokit.engine.native import jit, workers
from ptokit.engine.native.program.ledger import from_json
from ptokit.engine.native.program.slots import Slots
from ptokit.engine.native.program.stage import ENTRY
from ptokit.engine.native.program.thread import Steps, Tensors, Thread
from ptokit.engine.native.whole.strategies import Crew
from ptokit.engine.prepared import Tell
from ptokit.finding import Finding

LEDGER = 32 << 20
"""Bytes that all ledgers together should have before they are settled."""

Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Code:
    """Machine code of a program, and what threads need to run it."""

    def __init__(self, library: jit.Library, slots: Slots, steps: Steps) -> None:
        self._library, self._slots, self._steps = library, slots, steps
        self.function = Function(library.address(ENTRY))
        self.pages = from_json(library.facts["pages"])
        """Scatters that it writes down."""
        self._idle: list[Thread] = []

    def take(self) -> Thread:
        """A thread's belongings, for one launch."""
        try:
            return self._idle.pop()
        except IndexError:
            return Thread(self._slots, self._steps, self.pages)

    def give_back(self, thread: Thread) -> None:
        """Keep a thread's belongings for the next launch."""
        thread.end()
        self._idle.append(thread)

    def run(self, crew: Sequence[Thread], tensors: Tensors, grid: int, stop: workers.Stop) -> None:
        """Run the whole grid on several threads."""
        if not self.pages:
            parts = Parts(grid, len(crew))
            workers.run(lambda k: self.work(crew[k], parts), len(crew), stop)
            return
        wave = Wave(grid, len(crew))
        while wave.parts and all(thread.failure is None for thread in crew):
            self._run_wave(crew, wave.parts, stop)
            wave.go_on(max(ledger.nbytes for thread in crew for ledger in thread.ledgers))
            self._settle(crew, tensors, stop)

    def _run_wave(self, crew: Sequence[Thread], parts: Sequence[range], stop: workers.Stop) -> None:
        workers.run(lambda k: self.work(crew[k], iter([parts[k]])), len(crew), stop)

    def _settle(self, crew: Sequence[Thread], tensors: Tensors, stop: workers.Stop) -> None:
        """What was written down takes effect, in the order of the blocks."""
        for thread in crew:
            for ledger in thread.ledgers:
                if ledger.count:
                    ledger.settle(tensors[ledger.page.array], Crew(len(crew), stop))

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
    """Shares a grid out in waves: a run of blocks for each thread, as long as ledgers stay of a good size."""

    def __init__(self, grid: int, threads: int) -> None:
        self._grid, self._threads, self._at, self._each = grid, threads, 0, 1
        self.parts: list[range] = []
        self._cut()

    def _cut(self) -> None:
        cuts = [min(self._grid, self._at + self._each * k) for k in range(self._threads + 1)]
        self.parts = [range(a, b) for a, b in pairwise(cuts)] if self._at < self._grid else []

    def go_on(self, nbytes: int) -> None:
        """Take the next wave; the largest ledger of this one had so many bytes."""
        self._at = self.parts[-1].stop
        self._each = max(1, min(2 * self._each, self._each * LEDGER // max(1, nbytes * self._threads)))
        self._cut()


class Parts(Iterator[range]):
    """Shares a grid out in ascending runs of blocks; after a failure, only blocks before it are of interest."""

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
        """Share out nothing from a block on."""
        with self._lock:
            self._stop = min(self._stop, block)


class Told:
    """Findings of several threads, told at the end in the order of their blocks."""

    def __init__(self, report: Tell) -> None:
        self._report = report
        self._waiting: list[tuple[int, tuple[Finding, ...]]] = []

    def of(self, thread: Thread) -> Tell:
        """What a thread tells its findings."""

        def tell(findings: Sequence[Finding]) -> tuple[Finding, ...]:
            self._waiting.append((thread.block, tuple(findings)))
            return tuple(findings)

        return tell

    def flush(self, last: int) -> None:
        """Tell those of the blocks up to one."""
        for block, findings in sorted(self._waiting, key=lambda each: each[0]):
            if block <= last:
                self._report(findings)
