"""Threads that run blocks: the callback from native code, how blocks are divided, how findings are put in order."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from ptokit.engine.llvm.program.compiler import Tensors
from ptokit.engine.llvm.program.fallback import GREATEST, BlockState, Fallback
from ptokit.engine.llvm.program.slots import SIGNALS, Reason, Slots, StateSlot
from ptokit.engine.llvm.program.stage import ENTRY
from ptokit.engine.native import jit, workers
from ptokit.engine.native.workers import Stop
from ptokit.engine.runnable import Listener
from ptokit.finding import Finding
from ptokit.program.expr import BLOCK_IDX

POLL_INTERVAL = 1000
"""Blocks and iterations after which the calling thread checks for Ctrl-C."""
NEVER = Stop()
"""For launches that are too short to be stopped."""

Slow = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
"""The callback from native code: the number of a statement and the reason, in one number."""


class Thread(BlockState):
    """The state and the arena of one thread."""

    def __init__(self, slots: Slots, fallback: Fallback) -> None:
        super().__init__(slots, fallback)
        self.address = ctypes.addressof(self.state)
        self.state[StateSlot.ARENA] = self.arena.ctypes.data
        self.failure: BaseException | None = None
        self._listen()
        self.end()

    def begin(
        self,
        arrays: Iterable[tuple[int, int, int]],
        numbers: Iterable[tuple[int, int]],
        tensors: Callable[[], Tensors],
        listener: Listener,
        stop: Stop = NEVER,
    ) -> None:
        """Begin a launch: slot, address and size of each array; slots and values of numbers."""
        state = self.state
        state[StateSlot.STOP], self.frame.is_stopped = stop.address, stop
        state[StateSlot.BUDGET] = POLL_INTERVAL if stop is NEVER else GREATEST
        for slot, address, size in arrays:
            state[slot] = address
            state[slot + 1] = size
        for slot, number in numbers:
            state[slot] = number
        ctypes.memset(self.address + 8 * self.slots.reported, 0, 24 * len(self.slots.statements))
        self.give(tensors, listener)

    def end(self) -> None:
        """End a launch, and drop the user's arrays."""
        self.drop()
        if self.failure is not None:  # a second Ctrl-C right after the first may have ended that
            self._listen()
        self.failure = None
        self.failed_at = 0

    @property
    def block(self) -> int:
        return self.state[self.slots.variables[BLOCK_IDX]]

    # --- the callback from native code

    def _answers(self) -> Generator[int, int, None]:
        """Run what native code asks for, and yield whether that failed.

        A generator, because Python raises KeyboardInterrupt as soon as it resumes: here that is within the `try`,
        while a function would be left on entry and the exception would be lost.
        """
        failed = 0
        while True:
            try:
                while True:
                    asked = yield failed
                    failed = 1
                    self.run(*divmod(asked, Reason.COUNT))
                    failed = 0
            except GeneratorExit:
                return
            except BaseException as problem:  # raised again when native code has returned
                self.failure, failed = problem, 1

    def _listen(self) -> None:
        answers = self._answers()
        next(answers)
        self._slow = Slow(answers.send)
        self.state[StateSlot.FALLBACK] = ctypes.cast(self._slow, ctypes.c_void_p).value or 0

    def run(self, number: int, reason: int) -> None:
        if number == SIGNALS:  # running Python code at all delivers Ctrl-C
            self.state[StateSlot.BUDGET] = POLL_INTERVAL
        else:
            super().run(number, reason)


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
