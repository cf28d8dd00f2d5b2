"""What the machine assumes of instructions, beside what the headers of a checkout do."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from ptokit.isa.operand import TileSpec
from ptokit.isa.spelling import TMP
from ptokit.lang.recorded import CppKernel, load_entries
from ptokit.machine.access_checks import AccessChecks
from ptokit.program.cores import PipeWork, own_pairs
from ptokit.target import PROFILES, profile
from ptokit.witness.effects import Observed
from ptokit.witness.extents import NOTHING, REPEAT, Ranges, merged, without
from ptokit.witness.headers import Checkout
from ptokit.witness.prelude import table_of
from ptokit.witness.record import Witness
from tests.witness.accepted import reason

MEMORIES = {memory.name: place.text for each in PROFILES.values() for place, memory in each.memories.items()}
"""The machine's names of on-chip memories, and those of recordings."""
ARRAY, NUMBER = 1 << 20, 64
"""Bytes of each array, and the value of each number, that an entry is run with."""
OWN = ("getvalue", "setvalue", "second_vector_core")
"""What the machine executes and no instruction of the headers is."""
SOMEWHERE = {"read": "gather", "write": "scatter"}
"""Accesses to places that depend on data: somewhere in a memory."""


@dataclass(frozen=True)
class Assumed:
    """One execution of an instruction on the machine."""

    name: str
    pipes: frozenset[str]
    """As others see them."""
    flags: frozenset[tuple[str, str]]
    touches: tuple[Touch, ...]
    core: str = ""
    """`AIC` or `AIV`."""
    width: int = 0
    """The bytes of an element of its widest tile."""
    is_opaque: bool = False
    """Whether its meaning is not known (docs/instructions.md)."""
    tiles: Mapping[str, Ranges] = field(default_factory=dict[str, Ranges])
    """By memory: the bytes of its tiles, padding included."""

    def bytes_of(self, how: str) -> dict[str, Ranges]:
        """All that it writes, by memory; or reads, but for what it has written before."""
        found: dict[str, Ranges] = {}
        written: dict[str, Ranges] = {}
        for touch in (touch for touch in self.touches if touch.memory in MEMORIES):
            memory, done = MEMORIES[touch.memory], written.get(MEMORIES[touch.memory], NOTHING)
            if touch.how == how:
                seen = touch.ranges if how == "write" else without(touch.ranges, done)
                found[memory] = union(found.get(memory, NOTHING), seen)
            if touch.how == "write" and not touch.is_lost:
                written[memory] = union(done, touch.ranges)
        return found

    @property
    def workspace(self) -> Ranges:
        """What the documents let it use as it likes (CP-TMP-01)."""
        return union(*(touch.ranges for touch in self.touches if touch.operand == TMP))


@dataclass(frozen=True)
class Touch:
    """One access of the machine."""

    operand: str
    how: str
    memory: str
    ranges: Ranges
    is_lost: bool


def union(*parts: Ranges) -> Ranges:
    """All of these bytes."""
    rows = np.concatenate([NOTHING, *parts])
    return merged(rows[:, 0], rows[:, 1] - rows[:, 0])


@contextmanager
def watched() -> Iterator[list[Assumed]]:
    """All executions on the machine, in order."""
    found: list[Assumed] = []
    original = AccessChecks.check_bursts

    def check(self: Any, executed: Any, site: Any, touches: Sequence[Any]) -> None:
        rows: list[Touch] = []
        for touch in touches:
            unit = touch.place.shadow.unit
            ranges = merged(touch.extent.positions(touch.place.start) * unit, unit)
            rows.append(Touch(touch.operand, touch.how, touch.place.name, ranges, touch.is_lost))
        hidden = executed.call.kernel.handshake.seen_as
        pipes = [step.pipe.rpartition(".") for step in executed.steps if isinstance(step, PipeWork)]
        seen = frozenset(hidden.get(pipe, pipe) for _, _, pipe in pipes)
        known = INSTRUCTIONS.get(executed.instr.name)
        name = (known.variant_of if known else "") or executed.instr.name
        core = next((core for core, _, _ in pipes), "")
        tiles = (each for each in executed.call.values.values() if isinstance(each, TileSpec))
        width = max((tile.dtype.size for tile in tiles), default=0)
        is_opaque = bool(executed.instr.form)
        flags = frozenset(own_pairs(executed.call))
        found.append(Assumed(name, seen, flags, tuple(rows), core, width, is_opaque, _tiles(executed.call, touches)))
        original(self, executed, site, touches)

    AccessChecks.check_bursts = check  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield found
    finally:
        AccessChecks.check_bursts = original  # pyright: ignore[reportAttributeAccessIssue]


def _tiles(call: Any, touches: Sequence[Any]) -> dict[str, Ranges]:
    """The bytes of whole tiles that a call names, by memory."""
    found: dict[str, Ranges] = {}
    for touch in touches:
        tile = call.values.get(touch.operand)
        if isinstance(tile, TileSpec) and touch.place.name in MEMORIES:
            memory, start = MEMORIES[touch.place.name], touch.place.start * touch.place.shadow.unit
            found[memory] = union(found.get(memory, NOTHING), merged([start], tile.nbytes))
    return found


Difference = tuple[str, str]
"""What differs: `pipes`, `flags`, `read more`, `write less`, `write padding` (more, inside its tiles) and so on; and
how."""


def differences(observed: Observed, assumed: Assumed) -> list[Difference]:
    """How two views of one call differ: pipes, inner flags, and bytes of on-chip memories."""
    found: list[Difference] = []
    if observed.pipes != assumed.pipes:
        found.append(("pipes", f"{sorted(observed.pipes)}, not {sorted(assumed.pipes)}"))
    flags = frozenset(flag[:2] for flag in observed.flags)
    if flags != assumed.flags or {flag[2] for flag in observed.flags} - {"0"}:
        found.append(("flags", f"{sorted(observed.flags)}, not {sorted(assumed.flags)}"))
    for how in ("read", "write"):
        seen = {place.memory: rows for place, rows in observed.bytes_of(how).items() if place.argument is None}
        said, hidden = assumed.bytes_of(how), {place.memory for place in observed.bytes_of(SOMEWHERE[how])}
        for memory in sorted({*seen, *said}):
            mine = said.get(memory, NOTHING)
            theirs = union(seen.get(memory, NOTHING), mine if memory in hidden else NOTHING)
            known = union(mine, assumed.workspace)
            if how == "read":
                known = union(_to_steps(mine), assumed.workspace, observed.beside(memory, mine))
            more = without(theirs, known)
            is_inside = not len(without(more, assumed.tiles.get(memory, NOTHING)))
            parts = {
                "padding" if is_inside else "more": more,
                "less": without(without(mine, theirs), assumed.workspace),
            }
            found += [(f"{how} {word}", f"{memory} {part.tolist()[:3]}") for word, part in parts.items() if len(part)]
    return found


def _to_steps(ranges: Ranges) -> Ranges:
    """Runs with what a step of the vector unit reads behind them, which is not used."""
    return merged(ranges[:, 0], ranges[:, 1] - ranges[:, 0] + REPEAT)


EXAMPLES = 3
"""How many are kept of each instruction."""


@dataclass
class Comparison:
    """Counts of calls, and examples of differences, by instruction."""

    family: str = ""
    calls: Counter[str] = field(default_factory=Counter[str])
    differ: Counter[str] = field(default_factory=Counter[str])
    accepted: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """By instruction and reason: the calls with a difference that has a reason."""
    examples: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    files: Counter[str] = field(default_factory=Counter[str])
    """How many were `compiled`, `refused` by the compiler, `unlike` in their calls."""
    problems: list[str] = field(default_factory=list[str])
    is_compact: bool = False
    """Whether the source has compact tiles."""
    unmatched: int = 0
    """How many calls have no call of that name in the same place on the other side."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """How long each file took."""

    @property
    def counts(self) -> tuple[Counter[Any], ...]:
        """All counts."""
        return self.calls, self.differ, self.files, self.accepted

    @property
    def summary(self) -> str:
        """The counts."""
        known, others = self.accepted.total(), self.differ.total()
        counted = f"{self.calls.total()} calls, {known} differ with a reason, {others} without"
        return f"{dict(self.files)}, {counted}, {self.unmatched} without a partner"

    def merge(self, other: Comparison) -> None:
        """Add what another comparison found."""
        for counts, more in zip(self.counts, other.counts, strict=True):
            counts.update(more)
        self.unmatched += other.unmatched
        self.problems += other.problems
        self.seconds.update(other.seconds)
        for name, examples in other.examples.items():
            kept = self.examples.setdefault(name, [])
            kept += examples[: EXAMPLES - len(kept)]

    def add(self, where: str, observed: Observed, assumed: Assumed) -> None:
        """Compare one call."""
        self.calls[assumed.name] += 1
        all_found = differences(observed, assumed)
        name = f"{self.family}:{assumed.name}"
        names = [assumed.name, name, f"{name}:{assumed.width}"]
        names += [*(["opaque"] if assumed.is_opaque else []), *([f"{name}:compact"] if self.is_compact else [])]
        reasons = [reason(names, kind, how.partition(" ")[0]) for kind, how in all_found]
        self.accepted.update({(assumed.name, each) for each in reasons if each})
        if found := [f"{kind} {how}" for (kind, how), known in zip(all_found, reasons, strict=True) if not known]:
            self.differ[assumed.name] += 1
            examples = self.examples.setdefault(assumed.name, [])
            if len(examples) < EXAMPLES:
                examples.append(f"{where}: {'; '.join(found)}")


def compare_file(root: Path, target: str, source: tuple[Path, int]) -> Comparison:
    """One source, in a process that ends: launches keep memory."""
    (file, entries), start, found = source, time.monotonic(), Comparison(profile(target).family)
    with Witness(Checkout.at(root)) as witness:
        try:
            compare(witness, file, target, entries, found)
        except Exception as problem:  # of this file only
            found.problems.append(f"{file.name}: {problem!r}")
            found.files["stopped"] += 1
    found.seconds[file.name] = time.monotonic() - start
    return found


def compare(witness: Witness, source: Path, target: str, most: int, into: Comparison) -> None:
    """Run up to `most` entries of a source with the headers and on the machine, and compare their calls in order."""
    family = profile(target).family
    try:
        kernels = load_entries(str(source), family)[:most]
        build = witness.compile(source, family)
    except (CompileError, VerifyError) as problem:
        into.files["refused"] += 1
        into.problems.append(f"{source.name}: {str(problem)[:300]}")
        return
    into.files["compiled"] += 1
    into.is_compact = "Compact" in source.read_text(encoding="utf-8")
    with build:
        for kernel in kernels:
            observed = _observed(witness, build, kernel)
            assumed = [each for each in _assumed(kernel, target) if each.name not in {*table_of(family), *OWN}]
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
    grid = 1 if kernel.entry.kind == "kernel" else None
    blocks, _ = witness.run(build, kernel.entry.name, arguments, grid)
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
