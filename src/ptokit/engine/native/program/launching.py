"""The threads of a launch: how blocks are divided among them, and how their findings are put in order."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence

from ptokit.engine.llvm.program.fallback import Fallback
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.engine.native import jit, workers
from ptokit.engine.native.program.thread import Thread
from ptokit.engine.runnable import Listener
from ptokit.finding import Finding

Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class ProgramCode:
    """The machine code of a program, with the state of the threads that run it."""

    def __init__(self, library: jit.Library, slots: Slots, fallback: Fallback) -> None:
        self._library, self._slots, self._fallback = library, slots, fallback
        self.function = Function(library.address(ENTRY))
        self._idle: list[Thread] = []

    def acquire(self) -> Thread:
        """The state of a thread, for one launch."""
        try:
            return self._idle.pop()
        except IndexError:
            return Thread(self._slots, self._fallback)

    def release(self, thread: Thread) -> None:
        """Keep the state of a thread for the next launch."""
        thread.end()
        self._idle.append(thread)

    def run(self, team: Sequence[Thread], grid: int, stop: workers.Stop) -> None:
        """Run the whole grid on several threads."""
        parts = Parts(grid, len(team))
        workers.run(lambda k: self.work(team[k], parts), len(team), stop)

    def work(self, thread: Thread, parts: Parts) -> None:
        """Run parts of the grid until there are none, or one fails."""
        for part in parts:
            reached = self.function(thread.address, part.start, part.stop)
            if thread.failure is not None:
                thread.failed_at = reached
                parts.end_at(reached)
            if reached < part.stop:
                return


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
