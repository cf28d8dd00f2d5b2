"""What the machine assumes of instructions, beside what the headers of a checkout do."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from ptokit.cxx.compile import CompileError
from ptokit.cxx.record import ArrayArgument, ScalarArgument
from ptokit.finding import VerifyError
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.machine.access_checks import AccessChecks
from ptokit.target import PROFILES
from ptokit.witness.effects import Observed
from ptokit.witness.extents import NOTHING, Ranges, merged, without
from ptokit.witness.prelude import table_of
from ptokit.witness.record import Witness

MEMORIES = {memory.name: place.text for each in PROFILES.values() for place, memory in each.memories.items()}
"""The machine's names of on-chip memories, and those of recordings."""
ARRAY, NUMBER = 1 << 20, 64
"""Bytes of each array, and the value of each number, that an entry is run with."""
OWN = ("getvalue", "setvalue", "second_vector_core")
"""What the machine executes and no instruction of the headers is."""


@dataclass(frozen=True)
class Assumed:
    """One execution of an instruction on the machine."""

    name: str
    pipes: frozenset[str]
    touches: tuple[tuple[str, str, Ranges], ...]
    """Access, memory, bytes."""
    core: str = ""
    """`AIC` or `AIV`."""

    def bytes_of(self, how: str) -> dict[str, Ranges]:
        """All that it reads or writes, by memory."""
        found: dict[str, list[Ranges]] = {}
        for each, memory, ranges in self.touches:
            if each == how and memory in MEMORIES:
                found.setdefault(MEMORIES[memory], []).append(ranges)
        joined = {memory: np.concatenate(rows) for memory, rows in found.items()}
        return {memory: merged(rows[:, 0], rows[:, 1] - rows[:, 0]) for memory, rows in joined.items()}


@contextmanager
def watched() -> Iterator[list[Assumed]]:
    """All executions on the machine, in order."""
    found: list[Assumed] = []
    original = AccessChecks.check_bursts

    def check(self: Any, executed: Any, site: Any, touches: Sequence[Any]) -> None:
        rows: list[tuple[str, str, Ranges]] = []
        for touch in touches:
            unit = touch.place.shadow.unit
            rows.append((touch.how, touch.place.name, merged(touch.extent.positions(touch.place.start) * unit, unit)))
        pipes = frozenset(step.pipe.rpartition(".")[2] for step in executed.steps if hasattr(step, "pipe"))
        core = next((step.pipe.rpartition(".")[0] for step in executed.steps if hasattr(step, "pipe")), "")
        known = INSTRUCTIONS.get(executed.instr.name)
        name = (known.variant_of if known else "") or executed.instr.name
        found.append(Assumed(name, pipes, tuple(rows), core))
        original(self, executed, site, touches)

    AccessChecks.check_bursts = check  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield found
    finally:
        AccessChecks.check_bursts = original  # pyright: ignore[reportAttributeAccessIssue]


def differences(observed: Observed, assumed: Assumed) -> list[str]:
    """How two views of one call differ: pipes, and bytes of on-chip memories."""
    found: list[str] = []
    if observed.pipes != assumed.pipes:
        found.append(f"pipes {sorted(observed.pipes)}, not {sorted(assumed.pipes)}")
    for how in ("read", "write"):
        seen = {place.memory: rows for place, rows in observed.bytes_of(how).items() if place.argument is None}
        said, somewhere = assumed.bytes_of(how), {"read": "gather", "write": "scatter"}[how]
        hidden = {place.memory for place in observed.bytes_of(somewhere)}
        for memory in sorted({*seen, *said}):
            more = without(seen.get(memory, NOTHING), said.get(memory, NOTHING))
            more = without(more, observed.beside(memory, said.get(memory, NOTHING))) if how == "read" else more
            less = without(
                said.get(memory, NOTHING), said.get(memory, NOTHING) if memory in hidden else seen.get(memory, NOTHING)
            )
            if len(more) or len(less):
                found.append(f"{how} {memory}: {_size(more)} bytes more, {_size(less)} less")
    return found


def _size(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


@dataclass
class Comparison:
    """Counts of calls, and examples of differences, by instruction."""

    calls: Counter[str] = field(default_factory=Counter[str])
    differ: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    files: Counter[str] = field(default_factory=Counter[str])
    """How many were `compiled`, `refused` by the compiler, `unlike` in their calls."""
    problems: list[str] = field(default_factory=list[str])
    unmatched: int = 0
    """How many calls have no call of that name in the same place on the other side."""

    def add(self, where: str, observed: Observed, assumed: Assumed) -> None:
        """Compare one call."""
        self.calls[assumed.name] += 1
        if found := differences(observed, assumed):
            self.differ[assumed.name] += 1
            examples = self.examples.setdefault(assumed.name, [])
            if len(examples) < 3:
                examples.append(f"{where}: {'; '.join(found)}")


def compare(witness: Witness, source: Path, target: str, most: int, into: Comparison) -> None:
    """Run up to `most` entries of a source with the headers and on the machine, and compare their calls in order."""
    try:
        kernels = load_entries(str(source), target)[:most]
        build = witness.compile(source, target)
    except (CompileError, VerifyError) as problem:
        into.files["refused"] += 1
        into.problems.append(f"{source.name}: {str(problem)[:300]}")
        return
    into.files["compiled"] += 1
    with build:
        for kernel in kernels:
            observed = _observed(witness, build, kernel)
            assumed = [each for each in _assumed(kernel, target) if each.name not in {*table_of(target), *OWN}]
            if len({core for core, _ in observed}) > 1:  # blocks of two cores come in any order
                observed.sort(key=lambda pair: pair[0])
                assumed.sort(key=lambda each: each.core)
            observed = [call for _, call in observed]
            names = [call.name.lower() for call in observed], [call.name for call in assumed]
            if names[0] != names[1]:
                into.files["unlike"] += 1
                into.problems.append(f"{source.name} {kernel.entry.name}: {names[0][:6]} and {names[1][:6]}")
            alike = SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
            into.unmatched += max(map(len, names)) - sum(block.size for block in alike)
            for at in alike:
                for seen, said in zip(observed[at.a :][: at.size], assumed[at.b :][: at.size], strict=True):
                    into.add(kernel.entry.name, seen, said)


def _observed(witness: Witness, build: Any, kernel: CppKernel) -> list[tuple[str, Observed]]:
    """The calls of all blocks that touch something, with their cores: `cube` or `vector`."""
    arguments: list[ArrayArgument | ScalarArgument] = []
    for parameter in kernel.entry.parameters:
        kind = kernel.parameters.get(parameter.name)
        if kind == "array":
            arguments.append(ArrayArgument(parameter.name, np.zeros(ARRAY, "uint8")))
        else:
            value = {"integer": NUMBER, "float": 1.0}.get(kind or "")
            arguments.append(ScalarArgument(parameter.name, "float32" if kind == "float" else "int64", value))
    blocks, _ = witness.run(build, kernel.entry.name, arguments)
    calls = ((block.core, call) for block in blocks for call in block.calls if call.name)
    return [(core, call) for core, call in calls if any(event.touches for event in call.events)]


def _assumed(kernel: CppKernel, target: str) -> list[Assumed]:
    values: dict[str, Any] = {}
    for name, kind in kernel.parameters.items():
        if kind == "array":
            element = kernel.dtype(name)
            values[name] = np.zeros(ARRAY, "uint8").view(element.numpy if element else "uint8")
        elif kind != "null":
            values[name] = NUMBER if kind == "integer" else 1.0
    with watched() as found, warnings.catch_warnings(), suppress(VerifyError):  # what ran before is compared
        warnings.simplefilter("ignore")
        kernel[1](**values, target=target, engine="machine")
    return found
