"""A program made ready for the native engine: compiled on its first launch, launched any number of times.

Threads run its blocks: the callback from native code, how blocks are divided, how findings are put in order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from time import perf_counter

from ptokit.engine.llvm.emit import CPU, Chip
from ptokit.engine.llvm.program.compiler import MOST_KEPT, Items, ProgramCompiler, Tensors
from ptokit.engine.llvm.program.fallback import GREATEST, BlockState, Fallback
from ptokit.engine.llvm.program.sample import cost, tile_bytes
from ptokit.engine.llvm.program.slots import SIGNALS, Reason, Slots, StateSlot
from ptokit.engine.llvm.program.stage import ENTRY, Stage
from ptokit.engine.native import jit, workers
from ptokit.engine.native.workers import Stop
from ptokit.engine.runnable import NATIVE, Listener
from ptokit.finding import Finding
from ptokit.program.expr import BLOCK_IDX, Var
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

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
        """Run the whole grid on several threads, which take ascending runs of blocks."""
        step = grid if len(team) == 1 else max(1, grid // (16 * len(team)))
        starts, ends = iter(range(0, grid, step)), [grid]
        workers.run(lambda k: self._work(team[k], starts, step, ends), len(team), stop)

    def _work(self, thread: Thread, starts: Iterator[int], step: int, ends: list[int]) -> None:
        """Run blocks until none are left, or one fails; then only those before it matter. Taking a start and adding an
        end are single steps."""
        for first in starts:
            last = min(first + step, *ends)
            reached = self.function(thread.address, first, last) if first < last else last
            if thread.failure is not None:
                thread.failed_at = reached
                ends.append(reached)
            if reached < last:
                return


# --- programs --------------------------------------------------------------------------------------------------------


SMALL = 1 << 20
"""Bytes of tiles that a launch may name and stay on the calling thread; more is left to workers."""


class NativeExecutable(ProgramCompiler):
    """A program made ready for a target; it can be launched any number of times."""

    engine = NATIVE
    chip: Chip = CPU

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        super().__init__(program, profile, options)
        self.code: ProgramCode | None = None
        """The machine code, from the first launch on."""
        self._cost = lru_cache(MOST_KEPT)(self._find_cost)
        self._nbytes = {id(instr): tile_bytes(program, instr) for instr in program.instructions}

    # --- compiling

    def _make_ready(self, tensors: Tensors, integers: Mapping[Var, int], grid: int) -> None:
        """Compile, and compile again after a launch with numbers that had no code."""
        if self.code is not None and not self._missed:
            return
        with jit.BUILDING:
            if self._learn(tensors, integers, grid) or self.code is None:  # an earlier launch may have been interrupted
                library = jit.library(self._key(self.chip), self.source)
                self.code = ProgramCode(library, self.slots, Fallback(self.slots, self.profile, self.options))

    def source(self) -> jit.IrSource:
        """The LLVM text for the numbers that were met."""
        return jit.IrSource(self._emitter(Stage(self.program, self.slots, self.chip)).text())

    # --- launching

    def launch(
        self, tensors: Tensors, integers: Mapping[Var, int], grid: int, listener: Listener, threads: int | None = None
    ) -> str:
        """Run every block of the grid; the same bits as in ascending order, whatever the number of threads."""
        if not grid:
            return self.engine
        if self._is_for_reference(integers, grid):
            return self.reference.launch(tensors, integers, grid, listener)
        self._make_ready(tensors, integers, grid)
        if self._is_small(integers, grid):
            named = {name: tensors[name] for name in self.slots.arrays}
            sizes = {name: storage.bits.size for name, storage in named.items()}
            addresses = [storage.span.start for storage in named.values()]
            SmallLaunch(self, sizes, integers, grid).run(addresses, lambda: tensors, listener)
            return self.engine
        code = self.code
        assert code is not None
        count = self._threads(threads, integers, grid)
        team = [code.acquire() for _ in range(count)]
        waiting: list[tuple[int, Sequence[Finding]]] = []
        """Findings of several threads, with their blocks, to be reported in the order of these."""
        stop = workers.Stop()
        arrays = [(slot, tensors[name].span.start, tensors[name].bits.size) for name, slot in self.slots.arrays.items()]
        numbers = self.numbers(integers, grid)
        try:
            for thread in team:

                def later(found: Sequence[Finding], thread: Thread = thread) -> None:
                    waiting.append((thread.block, found))

                thread.begin(arrays, numbers, lambda: tensors, listener if count == 1 else later, stop)
            code.run(team, grid, stop)
            failed = min((thread for thread in team if thread.failure), key=lambda each: each.failed_at, default=None)
            last = grid if failed is None else failed.failed_at
            for _, findings in sorted((each for each in waiting if each[0] <= last), key=lambda each: each[0]):
                listener(findings)
            if failed is not None and failed.failure is not None:
                raise failed.failure
            return self.engine
        finally:
            for thread in team:
                self.miss(thread.missed)
                code.release(thread)

    def _is_small(self, integers: Mapping[Var, int], grid: int) -> bool:
        return self._cost(grid, tuple(integers.items())) <= SMALL

    def _find_cost(self, grid: int, integers: Items) -> int:
        return cost(self.program, self._nbytes, dict(integers), grid)

    def _threads(self, asked: int | None, integers: Mapping[Var, int], grid: int) -> int:
        """The number of threads that run the blocks: several if no block writes what another one touches."""
        count = min(workers.thread_count(asked), grid)
        return count if count > 1 and self._are_independent(grid, tuple(integers.items())) else 1

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> SmallLaunch | None:
        """The same launch on the calling thread, if it is small and all of its numbers have code."""
        is_known = self.code is not None and not self._missed
        return (
            SmallLaunch(self, arrays, integers, grid) if grid and is_known and self._is_small(integers, grid) else None
        )


class SmallLaunch:
    """A launch that differs from an earlier one only in the addresses of its arrays."""

    engine = NativeExecutable.engine

    def __init__(
        self, executable: NativeExecutable, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int
    ) -> None:
        """`arrays` are the names and sizes of the arrays, in the order of the addresses."""
        self._executable, self._grid = executable, grid
        self._slots = [executable.slots.arrays[name] for name in arrays]
        self._sizes = [*arrays.values()]
        self._numbers = executable.numbers(integers, grid)

    def run(self, addresses: Sequence[int], tensors: Callable[[], Tensors], listener: Listener) -> float:
        """Run it; returns the seconds it took."""
        code = self._executable.code
        assert code is not None
        thread = code.acquire()
        try:
            began = perf_counter()
            thread.begin(zip(self._slots, addresses, self._sizes, strict=True), self._numbers, tensors, listener)
            code.function(thread.address, 0, self._grid)
            if thread.failure is not None:
                raise thread.failure
            return perf_counter() - began
        finally:
            if thread.missed:
                self._executable.miss(thread.missed)
            code.release(thread)

    @property
    def is_current(self) -> bool:
        """Whether all numbers that were met have code."""
        return self._executable.is_settled
