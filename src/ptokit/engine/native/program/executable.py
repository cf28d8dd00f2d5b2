"""A program made ready for the native engine: compiled on its first launch, launched any number of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from enum import Enum
from functools import cache, cached_property, lru_cache
from time import perf_counter
from typing import Any, cast

from ptokit.engine.interpreter import Executable
from ptokit.engine.llvm.chip import CPU, Chip
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.independent import are_independent
from ptokit.engine.llvm.program.instruction import is_supported
from ptokit.engine.llvm.program.page import candidates, page
from ptokit.engine.llvm.program.sample import cost, sample
from ptokit.engine.llvm.program.slots import Slots, address_of
from ptokit.engine.llvm.program.stage import MOST_GIVEN, Stage
from ptokit.engine.llvm.program.variant import Variant, trace
from ptokit.engine.native import jit, workers
from ptokit.engine.native.program.launching import FindingBuffer, Parts, ProgramCode
from ptokit.engine.native.program.thread import NEVER, Fallback, Tensors
from ptokit.engine.native.program.thread_count import LaunchWork, profitable_threads, work_of
from ptokit.engine.runnable import NATIVE, Listener, Unsupported
from ptokit.isa.dtype import DType
from ptokit.program.expr import BLOCK_NUM, Op, Var
from ptokit.program.ir import Instr, LoadScalar, Program
from ptokit.program.verify_call import Options
from ptokit.target import Profile

MOST_VARIANTS = 4
"""Variants of one instruction that are compiled."""
MOST_TRIES = 3
"""Attempts to find code for an instruction."""
MOST_KEPT = 256
Values = dict[Var, int]
Items = tuple[tuple[Var, int], ...]
PLAIN = frozenset((int, str, bool, float, type(None), Var))
NOTHING: frozenset[str] = frozenset()
SMALL = 1 << 20
"""Bytes of tiles that a launch may name and stay on the calling thread; more is left to workers."""


class NativeExecutable:
    """A program made ready for a target; it can be launched any number of times."""

    engine = NATIVE
    chip: Chip = CPU

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        """Raises `Unsupported` for programs that only the reference engine runs."""
        self.program, self.profile, self.options = program, profile, options
        self.slots = Slots(program)
        _check(program, self.slots)
        self.code: ProgramCode | None = None
        """The machine code, from the first launch on."""
        self._deferring_code: ProgramCode | None = None
        self._samples: dict[int, list[Values]] = {}
        self._missed: dict[int, Values] = {}
        self._failures: Counter[int] = Counter()
        """How often an instruction had no code and tracing it gave none."""
        self._are_independent = lru_cache(MOST_KEPT)(self._find_independent)
        self._cost = lru_cache(MOST_KEPT)(self._find_cost)
        self._work = lru_cache(MOST_KEPT)(self._find_work)

    @cached_property
    def reference(self) -> Executable:
        """The program on the reference engine, for launches that have no code."""
        return Executable(self.program, self.profile, self.options)

    @cached_property
    def _candidates(self) -> dict[int, str]:
        return candidates(self.program, self.slots)

    # --- compiling

    def _make_ready(self, tensors: Tensors, integers: Mapping[Var, int], grid: int) -> None:
        """Compile, and compile again after a launch with numbers that had no code."""
        if self.code is not None and not self._missed:
            return
        with jit.BUILDING:
            if self.code is None:
                found = sample(self.program, tensors, integers, grid)
                self._samples = {self.slots.numbers[stmt]: values[:MOST_VARIANTS] for stmt, values in found.items()}
            missed, self._missed = self._missed, {}
            learnt = [self._learn(number, values) for number, values in missed.items()]
            if any(learnt) or self.code is None:
                self.code, self._deferring_code = self._compiled(()), None

    def _learn(self, number: int, values: Values) -> bool:
        """Add numbers that had no code to the samples; whether there will be code for them."""
        samples, known = self._samples.setdefault(number, []), self._variants(number)
        covered = len(known) == MOST_VARIANTS or any(variant.holds(values) for variant in known)
        if not covered and self._trace(number, values) is not None:
            samples.append(values)
            return True
        self._failures[number] += 1
        return False

    def miss(self, missed: Mapping[int, Values]) -> None:
        """Keep numbers that had no code for the next launch, unless compiling for them has failed before."""
        fresh = {number: values for number, values in missed.items() if self._failures[number] < MOST_TRIES}
        if fresh:
            self._missed = {**fresh, **self._missed}

    def _deferring(self) -> ProgramCode:
        """Code that defers scatters."""
        with jit.BUILDING:
            if self._deferring_code is None:
                self._deferring_code = self._compiled(tuple(self._candidates))
            return self._deferring_code

    def _compiled(self, deferred: tuple[int, ...]) -> ProgramCode:
        made_from = describe(self.program), self.profile.name, describe(self.options), sorted(self._samples.items())
        library = jit.library(repr((made_from, deferred, self.chip)), lambda: self.source(deferred))
        return ProgramCode(library, self.slots, Fallback(self.slots, self.profile, self.options))

    def source(self, deferred: Iterable[int] = ()) -> jit.IrSource:
        """The LLVM text for the numbers that were met; the scatters `deferred` take effect later, where they can."""
        variants = {number: self._variants(number) for number in self._samples}
        pages = [page(self.program, self.slots, number, variants.get(number, ())) for number in deferred]
        known = [each for each in pages if each is not None]
        text = Emitter(Stage(self.program, self.slots, self.chip), variants, known).text()
        return jit.IrSource(text, {"pages": [asdict(each) for each in known]})

    def _variants(self, number: int) -> list[Variant]:
        """The variants of an instruction for the numbers that were met."""
        known: list[Variant] = []
        for values in self._samples.get(number, ()):
            if len(known) < MOST_VARIANTS and not any(variant.holds(values) for variant in known):
                variant = self._trace(number, values)
                known += [variant] if variant else []
        return known

    def _trace(self, number: int, values: Values) -> Variant | None:
        instr = self.slots.statements[number]
        assert isinstance(instr, Instr)
        addresses = {name: address_of(name) for name in self.slots.placed}
        variant = trace(self.program, instr, self.profile, self.options, values, addresses)
        return variant if variant is not None and is_supported(variant) else None

    # --- launching

    def launch(
        self, tensors: Tensors, integers: Mapping[Var, int], grid: int, listener: Listener, threads: int | None = None
    ) -> str:
        """Run every block of the grid; the same bits as in ascending order, whatever the number of threads."""
        if not grid:
            return self.engine
        if grid > MOST_GIVEN or any(abs(value) > MOST_GIVEN for value in integers.values()):
            return self.reference.launch(tensors, integers, grid, listener)
        self._make_ready(tensors, integers, grid)
        count, code = self._threads(threads, integers, grid)
        team = [code.acquire() for _ in range(count)]
        buffer = FindingBuffer(listener) if count > 1 else None
        stop = workers.Stop()
        arrays = [(slot, tensors[name].span.start, tensors[name].bits.size) for name, slot in self.slots.arrays.items()]
        numbers = self.numbers(integers, grid)
        try:
            small = self._is_small(integers, grid)
            for thread in team:
                own = listener if buffer is None else buffer.of(thread)
                thread.begin(arrays, numbers, lambda: tensors, own, NEVER if small else stop)
            if small:
                code.work(team[0], Parts(grid, 1))
            elif code.pages:
                code.run_deferring(team, tensors, self._work(grid, tuple(integers.items())), stop)
            else:
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

    def numbers(self, integers: Mapping[Var, int], grid: int) -> list[tuple[int, int]]:
        """Slots and values of the launch's own numbers."""
        variables = self.slots.variables
        given = [(variables[var], integers[var]) for var in self.slots.given]
        return [(variables[BLOCK_NUM], grid), *given]

    def _is_small(self, integers: Mapping[Var, int], grid: int) -> bool:
        return self._cost(grid, tuple(integers.items())) <= SMALL

    def _find_cost(self, grid: int, integers: Items) -> int:
        return cost(self.program, dict(integers), grid)

    def _threads(self, asked: int | None, integers: Mapping[Var, int], grid: int) -> tuple[int, ProgramCode]:
        """The number of threads that run the blocks, and their code.

        There are several if no block writes what another one touches. Scatters that can be deferred do not count if
        the rest takes long enough.
        """
        assert self.code is not None
        count = min(workers.thread_count(asked), grid)
        if count == 1 or self._is_small(integers, grid):
            return 1, self.code
        given = tuple(integers.items())
        if self._are_independent(grid, given, NOTHING):
            return count, self.code
        besides = frozenset(self._candidates.values())
        if not besides or not self._are_independent(grid, given, besides):
            return 1, self.code
        count = profitable_threads(self._work(grid, given), count)
        if count == 1:
            return 1, self.code
        deferring = self._deferring()
        return (count, deferring) if len(deferring.pages) == len(self._candidates) else (1, self.code)

    def _find_work(self, grid: int, integers: Items) -> LaunchWork:
        scatters = {id(self.slots.statements[number]): number for number in self._candidates}
        return work_of(self.program, dict(integers), grid, scatters)

    def _find_independent(self, grid: int, integers: Items, besides: frozenset[str]) -> bool:
        return are_independent(self.program, grid, dict(integers), besides)

    def small(self, arrays: Mapping[str, int], integers: Mapping[Var, int], grid: int) -> SmallLaunch | None:
        """The same launch on the calling thread, if it is small and all of its numbers have code."""
        is_known = self.code is not None and not self._missed
        return (
            SmallLaunch(self, arrays, integers, grid) if grid and is_known and self._is_small(integers, grid) else None
        )

    @property
    def is_settled(self) -> bool:
        """Whether all numbers of the last launch have code, or never will."""
        return not self._missed


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


def _check(program: Program, slots: Slots) -> None:
    """Refuse what native code cannot hold."""
    scalars = [stmt.source.argument for stmt in slots.statements if isinstance(stmt, LoadScalar)]
    if any(program.tensors[name].dtype.name == "uint64" for name in scalars):
        raise Unsupported("the native engine reads no scalars of uint64")


def describe(value: Any) -> Any:
    """The content of plain data, without places in the source: the same in every process."""
    kind = cast("type[object]", type(value))
    if kind in PLAIN:
        return value
    if kind is tuple:
        return [describe(each) for each in value]
    if isinstance(value, DType | Enum):
        return value.name
    return [kind.__name__, *[describe(getattr(value, name)) for name in _meaningful(kind)]]


@cache
def _meaningful(kind: type) -> tuple[str, ...]:
    """The fields that a dataclass is compared by; of an operation, its name and its operands."""
    return ("name", "args") if kind is Op else tuple(f.name for f in fields(kind) if f.compare)
