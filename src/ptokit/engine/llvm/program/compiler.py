"""What is compiled of a program: variants of its instructions, for numbers that launches have met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache, cached_property, lru_cache, partial
from typing import Any, cast

from ptokit.engine.interpreter import Executable
from ptokit.engine.llvm.program.emitter import Emitter
from ptokit.engine.llvm.program.execution import is_supported
from ptokit.engine.llvm.program.independent import are_independent
from ptokit.engine.llvm.program.sample import sample
from ptokit.engine.llvm.program.slots import Slots, address_of
from ptokit.engine.llvm.program.stage import MOST_GIVEN, Stage
from ptokit.engine.llvm.program.tiles import Variant, joined, trace
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import DType
from ptokit.program.expr import BLOCK_NUM, ExtentVar, Op, Var
from ptokit.program.ir import Instr, LoadScalar, Program
from ptokit.program.streams import Streams, crosses, meetings
from ptokit.program.verify_call import Options
from ptokit.target import Profile, identity

MOST_VARIANTS = 4
"""Variants of one instruction that are compiled."""
MOST_TRIES = 3
"""Attempts to find code for an instruction."""
MOST_KEPT = 256
Tensors = Mapping[str, Storage]
Values = dict[Var, int]
Items = tuple[tuple[Var, int], ...]
PLAIN = frozenset((int, str, bool, float, type(None), Var, ExtentVar))


class ProgramCompiler:
    """A program, and the numbers that its code is made for."""

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        """Raises `Unsupported` for programs that only the reference engine runs."""
        self.program, self.profile, self.options = program, profile, options
        self.slots = Slots(program)
        _check(program, self.slots)
        self._samples: dict[int, list[Values]] = {}
        self._is_sampled = False
        self._missed: dict[int, Values] = {}
        self._failures: Counter[int] = Counter()
        """How often an instruction had no code, and tracing what had none gave none."""
        self._are_independent = lru_cache(MOST_KEPT)(partial(are_independent, program))
        self._streams = Streams(program, profile) if crosses(program) else None
        """The cores of the program, if they meet."""
        self._in_text_order = lru_cache(MOST_KEPT)(self._find_text_order)

    @cached_property
    def reference(self) -> Executable:
        """The program on the reference engine, for launches that have no code."""
        return Executable(self.program, self.profile, self.options)

    # --- numbers

    def _learn(self, tensors: Tensors, integers: Mapping[Var, int], grid: int) -> bool:
        """Sample the first launch, and add numbers that had no code since; whether code is to be made."""
        is_new = not self._is_sampled
        if is_new:
            found = sample(self.program, tensors, integers, grid)
            self._samples = {self.slots.numbers[stmt]: values for stmt, values in found.items()}
            self._is_sampled = True
        missed, self._missed = self._missed, {}
        added = [self._add(number, values) for number, values in missed.items()]
        if not any(added):
            self._failures.update(missed.keys())
        return any(added) or is_new

    def _add(self, number: int, values: Values) -> bool:
        """Add numbers that had no code to the samples; whether there will be code for them."""
        samples, known = self._samples.setdefault(number, []), self._traced(number)
        covered = len(known) == MOST_VARIANTS or any(variant.holds(values) for variant in known)
        if not covered and self._trace(number, values) is not None:
            samples.append(values)
            return True
        return False

    def miss(self, missed: Mapping[int, Values]) -> None:
        """Keep numbers that had no code for the next launch, unless compiling for them has failed before."""
        fresh = {number: values for number, values in missed.items() if self._failures[number] < MOST_TRIES}
        if fresh:
            self._missed = {**fresh, **self._missed}

    @property
    def is_settled(self) -> bool:
        """Whether all numbers of the last launch have code, or never will."""
        return not self._missed

    def _variants(self, number: int) -> list[Variant]:
        """The variants of an instruction for the numbers that were met."""
        return joined(self._traced(number))

    def _traced(self, number: int) -> list[Variant]:
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

    # --- code

    def _key(self, *how: object) -> str:
        """All that code is made from; `how` adds to it."""
        made_from = (
            describe(self.program),
            identity(self.profile.name),
            describe(self.options),
            sorted(self._samples.items()),
        )
        return repr((made_from, *how))

    def _emitter(self, stage: Stage) -> Emitter:
        """Writes the code for the numbers that were met."""
        return Emitter(stage, {number: self._variants(number) for number in self._samples})

    # --- launches

    def _is_for_reference(self, integers: Mapping[Var, int], grid: int) -> bool:
        """Whether only the reference engine runs a launch: it has a number that is greater than code is made for, or
        instructions that ptokit does not model, both vector cores of a block run it, or its cores do not run in the
        order of the text."""
        return (
            not self.program.is_modelled
            or self.program.vector_cores > 1
            or not (self._streams is None or self._in_text_order(grid, tuple(integers.items())))
            or grid > MOST_GIVEN
            or any(abs(value) > MOST_GIVEN for value in integers.values())
        )

    def numbers(self, integers: Mapping[Var, int], grid: int) -> list[tuple[int, int]]:
        """Slots and values of the launch's own numbers."""
        variables = self.slots.variables
        given = [(variables[var], integers[var]) for var in self.slots.launch_numbers]
        return [(variables[BLOCK_NUM], grid), *given]

    def _find_text_order(self, grid: int, integers: Items) -> bool:
        assert self._streams is not None
        return meetings(self._streams, grid, dict(integers)).in_text_order


def _check(program: Program, slots: Slots) -> None:
    """Refuse what compiled code cannot hold."""
    scalars = [stmt.source.argument for stmt in slots.statements if isinstance(stmt, LoadScalar)]
    if any(program.tensors[name].dtype.name == "uint64" for name in scalars):
        raise Unsupported("compiled code reads no scalars of uint64")


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
