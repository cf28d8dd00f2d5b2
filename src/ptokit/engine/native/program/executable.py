"""A program made ready for the native engine: compiled on its first launch, launched any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from time import perf_counter

from ptokit.engine.llvm.chip import CPU, Chip
from ptokit.engine.llvm.program.compiler import MOST_KEPT, Items, ProgramCompiler, Tensors
from ptokit.engine.llvm.program.fallback import Fallback
from ptokit.engine.llvm.program.sample import cost, tile_bytes
from ptokit.engine.llvm.program.stage import Stage
from ptokit.engine.native import jit, workers
from ptokit.engine.native.program.launching import FindingBuffer, ProgramCode
from ptokit.engine.runnable import NATIVE, Listener
from ptokit.program.expr import Var
from ptokit.program.ir import Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

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
        buffer = FindingBuffer(listener) if count > 1 else None
        stop = workers.Stop()
        arrays = [(slot, tensors[name].span.start, tensors[name].bits.size) for name, slot in self.slots.arrays.items()]
        numbers = self.numbers(integers, grid)
        try:
            for thread in team:
                own = listener if buffer is None else buffer.of(thread)
                thread.begin(arrays, numbers, lambda: tensors, own, stop)
            code.run(team, grid, stop)
            failed = min((thread for thread in team if thread.failure), key=lambda each: each.failed_at, default=None)
            if buffer is not None:
                buffer.flush(grid if failed is None else failed.failed_at)
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
