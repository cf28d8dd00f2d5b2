"""What the machine assumes of instructions, beside what the headers of a checkout do."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from ptokit.cxx.compile import Build, CompileError, CompileOptions
from ptokit.cxx.problems import plain_name
from ptokit.cxx.processes import CompileLimits
from ptokit.cxx.record import AS_ASKED, ArrayArgument, ScalarArgument, works
from ptokit.cxx.recording import VECTOR_CORES
from ptokit.cxx.statements import CORES
from ptokit.finding import Finding, VerifyError, Where
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.opaque import EXACT, GRID_BARRIERS
from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import TileType
from ptokit.isa.spelling import TMP
from ptokit.lang.cpp_entries import LIBRARIES, entries_of, source_of
from ptokit.lang.recorded import CppKernel, RecordedLaunches
from ptokit.machine import memories
from ptokit.machine.access_checks import AccessChecks
from ptokit.machine.block_cache import BlockCache
from ptokit.machine.instruction import WatchedInstruction
from ptokit.machine.session import Session
from ptokit.program.cores import PipeWork, core_of, kind_of, own_pairs, vector_of
from ptokit.target import PROFILES, profile
from ptokit.witness.effects import Observed
from ptokit.witness.extents import NOTHING, REPEAT, Ranges, merged, without
from ptokit.witness.headers import Checkout
from ptokit.witness.prelude import table_of
from ptokit.witness.record import PUBLIC, Witness
from tests.witness.accepted import row_of
from tests.witness.emitted import call_of
from tests.witness.kept import Kept

MEMORIES = {memory.name: place.text for each in PROFILES.values() for place, memory in each.memories.items()}
"""The machine's names of on-chip memories, and those of recordings."""
ARRAY, NUMBER = 1 << 20, 64
"""Bytes of each array, and the value of each number, that an entry is run with."""
LIMITS = CompileLimits(seconds=900)
"""For the largest sources of the vendor's, and machines that do other work."""
OWN = (*EXACT, "second_vector_core", "vec_scope")
"""What the machine executes and no instruction of the headers is: accesses by pointers and threads, for example."""
BEHIND = 1024
"""Bytes behind the last tile of a memory: what is written there is counted, too."""
STATED = ("TL-03", "TT-01")
"""Rules by which a report says what a call in C++ moves besides what the machine counts: rows that are not valid."""
DIVISOR = "CP-DIV-01"
"""The rule that refuses zeros as divisors."""
SAME = {"TPUSH": "tstore", "TPOP": "tload"}
"""Instructions of the headers that are others on the machine: queues between the cores lie in global memory."""
PUSHED = {"vec": "tmov", "mat": "tinsert"}
"""The same for pushes on A5 into UB or L1 of the other core (TPush.hpp)."""
FACTORS = "_fp"
"""The end of the machine's names of instructions with a tile of factors; in C++ some have it (TMOV, TMOV_FP)."""
UNBOXED = ("nd", "dn")
"""Forms of tiles without fractals."""
SOMEWHERE = {"read": "gather", "write": "scatter"}
"""Accesses to places that depend on data: somewhere in a memory."""


Place = tuple[str, int, int]
"""A kind of core, a block, and which of its vector cores."""


@dataclass(frozen=True)
class Assumed:
    """One execution of an instruction on the machine."""

    name: str
    pipes: frozenset[str]
    """As others see them."""
    flags: frozenset[tuple[str, str]]
    touches: tuple[Touch, ...]
    core: str = ""
    """`AIC`, `AIV`, or `AIV0` and `AIV1` if both vector cores run."""
    boxes: tuple[tuple[str, Ranges], ...] = ()
    """The memories of tiles of fractals, and of rows outside of UB, which the headers move as such; and their bytes,
    padding too."""
    form: str = ""
    """That of an instruction which is known by its effects only, or the rule of a finding."""
    block: int = 0
    refused: str = ""
    """The rule by which nothing was executed."""
    where: Where | None = None
    width: int = 0
    """The bytes of an element of its widest tile."""
    is_opaque: bool = False
    """Whether its meaning is not known (docs/instructions.md)."""
    late: frozenset[str] = frozenset()
    """Operands that it touches behind a barrier of its own only (A-73)."""
    ends: bool = False
    """Whether it ends with one."""
    is_open: bool = False
    """Whether the valid rows of an accumulator are known at run time only."""

    def names(self, family: str, *, is_compact: bool) -> list[str]:
        """What rows of accepted differences call it."""
        name = f"{family}:{self.name}"
        has = {"opaque": self.is_opaque, f"{name}:compact": is_compact, f"{name}:open": self.is_open}
        more = [word for word, holds in has.items() if holds]
        return [self.name, name, f"{name}:{self.width}", f"{name}:{self.form}", *more]

    @property
    def place(self) -> Place:
        """Where it was executed."""
        return kind_of(self.core), self.block, vector_of(self.core)

    def fractals(self, memory: str) -> Ranges:
        """All bytes of tiles of fractals in a memory."""
        return union(*(ranges for name, ranges in self.boxes if MEMORIES.get(name) == memory))

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
    """All executions on the machine, in order, and what a rule kept from being executed. Blocks that are like earlier
    ones are checked, too."""
    found: list[Assumed] = []
    said: list[Finding] = []
    check_bursts, report, skip = AccessChecks.check_bursts, Session.report, WatchedInstruction._skip
    measures = memories._measures

    def check(self: Any, executed: Any, site: Any, touches: Sequence[Any]) -> None:
        rows: list[Touch] = []
        boxes: list[tuple[str, Ranges]] = []
        for touch in touches:
            unit = touch.place.shadow.unit
            ranges = merged(touch.extent.positions(touch.place.start) * unit, unit)
            rows.append(Touch(touch.operand, touch.how, touch.place.name, ranges, touch.is_lost))
            tile = site.tiles.get(touch.operand)
            if tile is not None and (tile.format not in UNBOXED or (tile.rows == 1 and tile.loc is not TileType.Vec)):
                boxes.append((touch.place.name, merged([touch.place.start * unit], tile.nbytes)))
        hidden = executed.call.route_kernel.handshake.seen_as
        pipes = [step.pipe.rpartition(".") for step in executed.steps if isinstance(step, PipeWork)]
        seen = frozenset(hidden.get(pipe, pipe) for _, _, pipe in pipes)
        core = next((core for core, _, _ in pipes), "")
        flags, form = frozenset(own_pairs(executed.call)), executed.instr.opaque_form
        refused = "" if rows else _rule(site.findings)
        fenced = [step for step in executed.steps if isinstance(step, PipeWork) and (step.fences or step.ends)]
        late = frozenset(name for step in fenced for name in step.late)
        tiles = [each for each in executed.call.values.values() if isinstance(each, TileSpec)]
        is_open = any(each.loc is TileType.Acc and each.dynamic[0] for each in tiles)
        width = max((tile.dtype.size for tile in tiles), default=0)
        found.append(Assumed(
            _name(executed.instr), seen, flags, tuple(rows), core, tuple(boxes), form, executed.block, refused,
            executed.where, width, bool(form), late, any(step.ends for step in fenced), is_open,
        ))  # fmt: skip
        check_bursts(self, executed, site, touches)

    def reported(self: Any, findings: Any, *more: Any, **others: Any) -> None:
        said[:] = findings = list(findings)
        report(self, findings, *more, **others)

    def skipped(self: Any, frame: Any) -> None:
        session, nothing = frame.session, frozenset[Any]()
        core, rule = frame.core or core_of(session.cores.scalar), _rule(said) or "by another rule"
        name, block = _name(self.instr), session.running.number
        found.append(Assumed(name, nothing, nothing, (), core, (), self.instr.opaque_form, block, rule))
        skip(self, frame)

    def never(self: Any, *_: Any) -> bool:
        self.check_all()
        return False

    def measured(program: Any) -> Any:
        units, sizes = measures(program)
        return units, {loc: size + BEHIND for loc, size in sizes.items()}

    with (
        patch.object(AccessChecks, "check_bursts", check),
        patch.object(Session, "report", reported),
        patch.object(WatchedInstruction, "_skip", skipped),
        patch.object(BlockCache, "repeats", never),
        patch.object(memories, "_measures", measured),
    ):
        yield found


def _name(instr: Any) -> str:
    """The function of C++ that it is a form of."""
    known = INSTRUCTIONS.get(instr.name)
    return call_of(known)[0].partition("<")[0].lower() if known else instr.name


def _rule(findings: Iterable[Finding]) -> str:
    """The first one that is an error."""
    return next((finding.rule for finding in findings if finding.level == "error"), "")


Difference = tuple[str, str]
"""What differs, and how: `refused by` a rule, `pipes`, `flags`, `read more`, `write less` and so on. `padding` is more,
in a tile of fractals."""


def differences(observed: Observed, assumed: Assumed) -> list[Difference]:
    """How two views of one call differ: pipes, inner flags, and bytes of on-chip memories."""
    if assumed.refused:
        return [(f"refused by {assumed.refused}", "")]
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
            more, boxes = without(theirs, known), assumed.fractals(memory)
            beside = without(more, boxes)
            parts = {"more": beside, "less": without(without(mine, theirs), assumed.workspace)}
            parts["padding"] = without(more, beside)
            found += [(f"{how} {word}", f"{memory} {part.tolist()[:3]}") for word, part in parts.items() if len(part)]
    return found + list(_barriers(observed, assumed))


def _barriers(observed: Observed, assumed: Assumed) -> Iterator[Difference]:
    """What the vector pipe touches before the first barrier, against the table; and its work behind the last one."""
    orders = [k for k, event in enumerate(observed.events) if event.name in ("pipe_barrier", "wait_flag")]
    first, last = (orders[0], orders[-1]) if orders else (len(observed.events), -1)
    early = [touch for event in observed.events[:first] if event.pipe == "V" for touch in event.touches]
    for operand in sorted(assumed.late):
        own = union(*(touch.ranges for touch in assumed.touches if touch.operand == operand))
        others = union(*(touch.ranges for touch in assumed.touches if touch.operand not in assumed.late))
        alone = without(own, others)
        if any(len(without(alone, touch.ranges)) != len(alone) for touch in early if touch.place.memory == "vec"):
            yield "barrier late", operand
    if assumed.ends and any(event.pipe == "V" and event.touches for event in observed.events[last + 1 :]):
        yield "barrier at the end", ""


def _to_steps(ranges: Ranges) -> Ranges:
    """Runs with what a step of the vector unit reads behind them, which is not used."""
    return merged(ranges[:, 0], ranges[:, 1] - ranges[:, 0] + REPEAT)


EXAMPLES = 3
"""How many are kept of each instruction."""


@dataclass
class Comparison:
    """Counts of calls, and examples of differences, by instruction."""

    family: str
    calls: Counter[str] = field(default_factory=Counter[str])
    differ: Counter[str] = field(default_factory=Counter[str])
    accepted: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """By instruction and row of reasons: the calls with a difference that has a reason."""
    overloads: Counter[tuple[str, int, str]] = field(default_factory=Counter[tuple[str, int, str]])
    """By public instruction, line of the overload and outcome, `agree`, `reason` or `differ`: the calls."""
    examples: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    files: Counter[str] = field(default_factory=Counter[str])
    """How many were `compiled`, `refused` by the compiler, `unlike` in their calls."""
    problems: list[str] = field(default_factory=list[str])
    is_compact: bool = False
    """Whether the source has compact tiles."""
    unlike: list[str] = field(default_factory=list[str])
    """Kernels whose calls are not the same on both sides, and which those are."""
    unmatched: int = 0
    """How many calls have no call of that name in the same place on the other side."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """How long each file took."""

    @property
    def counts(self) -> tuple[Counter[Any], ...]:
        """All counts."""
        return self.calls, self.differ, self.files, self.accepted, self.overloads

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
        self.unlike += other.unlike
        self.seconds.update(other.seconds)
        for name, examples in other.examples.items():
            kept = self.examples.setdefault(name, [])
            kept += examples[: EXAMPLES - len(kept)]

    def add(self, where: str, observed: Observed, assumed: Assumed) -> None:
        """Compare one call."""
        self.calls[assumed.name] += 1
        all_found = differences(observed, assumed)
        names = assumed.names(self.family, is_compact=self.is_compact)
        rows = [row_of(names, kind, how.partition(" ")[0]) for kind, how in all_found]
        self.accepted.update({(assumed.name, row) for row in rows if row >= 0})
        outcome = "agree" if not all_found else "differ" if min(rows) < 0 else "reason"
        self.overloads[observed.name, observed.line, outcome] += 1
        if found := [f"{kind} {how}".strip() for (kind, how), known in zip(all_found, rows, strict=True) if known < 0]:
            self.differ[assumed.name] += 1
            examples = self.examples.setdefault(assumed.name, [])
            if len(examples) < EXAMPLES:
                line = f", line {assumed.where.line}" if assumed.where else ""
                examples.append(f"{where}{line}: {'; '.join(found)}")


@dataclass(frozen=True)
class Source:
    """A C++ source that is compared."""

    file: Path
    entries: int
    """At most, of each function and the instances of each template."""
    core: str = ""
    """`vector` or `cube` if it is compiled for that core only."""


def compare_file(root: Path, kept: Kept, target: str, source: Source) -> Comparison:
    """One source, in a process that ends: launches keep memory."""
    file, start, found = source.file, time.monotonic(), Comparison(profile(target).family)
    with Witness(Checkout.at(root), kept.headers, LIBRARIES, kept.first) as witness:
        own = kept.own if PUBLIC in file.read_text(encoding="utf-8") else ()
        try:
            compare(witness, source, target, found, own)
        except Exception as problem:  # of this file only
            found.problems.append(f"{file.name}: {problem!r}")
            found.files["stopped"] += 1
    found.seconds[file.name] = time.monotonic() - start
    return found


def compare(witness: Witness, source: Source, target: str, into: Comparison, own: tuple[Path, ...] = ()) -> None:
    """Run entries of a source with the headers and on the machine, and compare their calls in order. `own`: folders of
    ptokit's headers, precompiled."""
    family, file, options = profile(target).family, source.file, CompileOptions(core=source.core, limits=LIMITS)
    try:
        kernels = list(_some(_kernels(file, family, replace(options, headers=own)), source.entries))
        build = witness.compile(file, family, options)
    except (CompileError, VerifyError) as problem:
        into.files["refused"] += 1
        into.problems.append(f"{file.name}: {str(problem)[:300]}")
        return
    into.files["compiled"] += 1
    into.is_compact = "Compact" in file.read_text(encoding="utf-8")
    with build:
        for kernel in kernels:
            executed = _assumed(kernel, target)
            observed, is_whole = _observed(witness, build, kernel)
            assumed = [each for each in executed if each.name not in {*table_of(family), *OWN}]
            barriers = {place for place, call in observed if call.name.lower() in GRID_BARRIERS}
            assumed = [each for each in assumed if each.name not in GRID_BARRIERS or each.place in barriers]
            if not is_whole:  # a block that waits for another one does not end on the host
                ran = {place for place, _ in observed}
                assumed = [each for each in assumed if each.place in ran]
            if len({place for place, _ in observed}) > 1:  # blocks and cores come in any order
                observed.sort(key=lambda pair: pair[0])
                assumed.sort(key=lambda each: each.place)
            calls = [call for _, call in observed]
            names = [*map(named, calls)], [call.name.removesuffix(FACTORS) for call in assumed]
            if names[0] != names[1]:
                into.files["unlike"] += 1
                into.unlike.append(f"{file.name} {kernel.entry.name}: {apart(*names)}")
            alike = SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
            into.unmatched += max(map(len, names)) - sum(block.size for block in alike)
            for at in alike:
                for seen, said in zip(calls[at.a :][: at.size], assumed[at.b :][: at.size], strict=True):
                    into.add(kernel.entry.name, seen, said)


def named(call: Observed) -> str:
    """The instruction of the machine that a call is, without the suffix of factors."""
    into = [PUSHED[place.memory] for place in call.bytes_of("write") if place.memory in PUSHED]
    return into[0] if into and call.name == "TPUSH" else SAME.get(call.name, call.name.lower()).removesuffix(FACTORS)


def apart(headers: Sequence[str], machine: Sequence[str]) -> str:
    """The calls that one side has alone, by name; those of another order if there are none."""
    own = [Counter(headers) - Counter(machine), Counter(machine) - Counter(headers)]
    texts = [", ".join(f"{count} {name}" for name, count in sorted(each.items())) for each in own]
    sides = zip(("the headers", "the machine"), texts, strict=True)
    return "; ".join(f"{side} alone: {text}" for side, text in sides if text) or "another order"


def _some(kernels: Sequence[CppKernel], count: int) -> Iterator[CppKernel]:
    """The first ones of each function: instances of a template differ in types and shapes only."""
    seen = Counter[str]()
    for kernel in kernels:
        name = plain_name(kernel.entry.name)
        seen[name] += 1
        if seen[name] <= count:
            yield kernel


def _kernels(file: Path, family: str, options: CompileOptions) -> list[CppKernel]:
    """The entries of a source."""
    source, _ = source_of(str(file), family, options)
    build = source.first_build(family)
    return [CppKernel(source, entry, build.target) for entry in entries_of(build)]


def _observed(witness: Witness, build: Build, kernel: CppKernel) -> tuple[list[tuple[Place, Observed]], bool]:
    """The calls of all blocks that touch something, with their places, on the cores that the machine has run; and
    whether all ran."""
    arguments: list[ArrayArgument | ScalarArgument] = []
    for parameter in kernel.entry.parameters:
        kind = kernel.parameters.get(parameter.name)
        if kind == "array" or (kind == "null" and not parameter.is_stream):
            arguments.append(ArrayArgument(parameter.name, np.zeros(ARRAY, "uint8")))
        else:
            value = {"integer": NUMBER, "float": 1.0}.get(kind or "")
            arguments.append(ScalarArgument(parameter.name, "float32" if kind == "float" else "int64", value))
    grid = 1 if kernel.entry.kind == "kernel" else None
    blocks, problems = witness.run(build, kernel.entry.name, arguments, grid, _vector_cores(kernel))
    places = ((block, (CORES[block.core], block.index, block.subblock)) for block in blocks)
    calls = ((place, call) for block, place in places for call in block.calls if call.name)
    seen = [(place, call) for place, call in calls if any(event.touches for event in call.events)]
    return seen, not any(each.fatal for each in problems)


def _vector_cores(kernel: CppKernel) -> int:
    """How many vector cores of a block ptokit has run, to the recorder: what its headers did decides, as those of the
    vendor touch nothing in calls of the other core."""
    recorded = [each.recording for each in kernel._recorded.values() if isinstance(each, RecordedLaunches)]
    of_cube = (
        replace(launch, blocks=[block for block in launch.blocks if block.core == "cube"])
        for recording in recorded
        for launch in recording.launches
    )
    return VECTOR_CORES if any(works(replace(recorded[0], launches=(launch,))) for launch in of_cube) else AS_ASKED


def _assumed(kernel: CppKernel, target: str, fill: int = 0) -> list[Assumed]:
    """What the machine executes, with arrays of zeros; of ones if it must not divide by zero."""
    values: dict[str, Any] = {}
    for name, kind in kernel.parameters.items():
        if kind == "array":
            element = kernel.dtype(name)
            values[name] = np.full(ARRAY, fill, "uint8").view(element.numpy if element else "uint8")
        elif kind != "null":
            values[name] = NUMBER if kind == "integer" else 1.0
    stated: dict[Where | None, str] = {}
    with watched() as found, warnings.catch_warnings(), suppress(VerifyError):  # what ran before is compared
        warnings.simplefilter("ignore")
        report: Any = kernel[1](**values, target=target, engine="machine")
        stated = {each.where: each.rule for each in report.findings if each.rule in STATED and each.level != "note"}
    if not fill and any(each.refused == DIVISOR for each in found):
        return _assumed(kernel, target, 1)
    return [replace(each, form=each.form or stated.get(each.where, "")) for each in found]
