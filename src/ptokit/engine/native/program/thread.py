"""A thread that runs blocks: its callback from native code, and when it stops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable

from ptokit.engine.frame import Frame
from ptokit.engine.interpreter import Executable, LoopStep, Step
from ptokit.engine.llvm.program.compiler import Tensors
from ptokit.engine.llvm.program.fallback import GREATEST, BlockState, Fallback
from ptokit.engine.llvm.program.slots import SIGNALS, Reason, Slots, StateSlot
from ptokit.engine.native.workers import Stop
from ptokit.engine.runnable import Listener
from ptokit.program.expr import BLOCK_IDX
from ptokit.program.ir import Loop, Stmt

POLL_INTERVAL = 1000
"""Blocks and iterations after which the calling thread checks for Ctrl-C."""
NEVER = Stop()
"""For launches that are too short to be stopped."""

Slow = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
"""The callback from native code: the number of a statement and the reason, in one number."""


class Thread(BlockState):
    """The state and the arena of one thread."""

    def __init__(self, slots: Slots, fallback: Fallback) -> None:
        super().__init__(slots, fallback, ThreadFrame(self))
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
        state[StateSlot.STOP] = stop.address
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


class ThreadFrame(Frame):
    """The state of a block over a thread's memory."""

    def __init__(self, thread: Thread) -> None:
        super().__init__()
        self.thread = thread

    def listen_for_stop(self) -> None:
        """End a loop that Python runs when its launch is stopped."""
        if ctypes.c_int32.from_address(self.thread.state[StateSlot.STOP]).value:
            raise KeyboardInterrupt


class ThreadFallback(Fallback):
    """Steps over the memory of threads, which can be stopped."""

    def _step(self, stmt: Stmt) -> Step:
        return _StoppedLoop(stmt, self) if isinstance(stmt, Loop) else super()._step(stmt)


class _StoppedLoop(LoopStep):
    """A loop that ends when its launch is stopped."""

    def __init__(self, loop: Loop, executable: Executable) -> None:
        super().__init__(loop, executable)
        self.body += (ThreadFrame.listen_for_stop,)  # type: ignore[assignment]
