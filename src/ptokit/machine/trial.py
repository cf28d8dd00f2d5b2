"""A launch that is run again on the same data with other flags, and the faults of order that it shows."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ptokit.engine.storage import Array, Storage, address_of
from ptokit.finding import Finding, OutOfBoundsError, VerifyError
from ptokit.machine.access_checks import AccessChecks, FlagChecks
from ptokit.machine.ends import MemoryAccess, RunningBlock
from ptokit.machine.memories import Global, spans_of
from ptokit.machine.report import MachineOptions
from ptokit.machine.session import Progress, Session
from ptokit.machine.shadow import Earlier
from ptokit.machine.site import Executed, Site
from ptokit.program.clip import clipped
from ptokit.program.cores import kind_pipe, own_event
from ptokit.program.expr import BLOCK_NUM, SUBBLOCK_IDX, Var
from ptokit.program.instr_calls import written_arguments
from ptokit.program.ir import Program, Stmt
from ptokit.program.memory import Path
from ptokit.program.repair import DOUBLED, EARLY, LEFT, OPEN, OVERFLOW, STUCK, Edited, FlagFault, Pairs, Race
from ptokit.target import Profile

MOST_STEPS = 600
"""Steps of a block that a search runs first: some periods of its loops."""
ALIGNMENT = 64
"""Copies of arrays keep their addresses modulo this."""


@dataclass
class Faults:
    """The faults of order that a run shows."""

    flags: list[FlagFault] = field(default_factory=list)
    """Those that may be the cause of others first: waits that never end, sets that nothing waits for."""
    races: list[Race] = field(default_factory=list)
    early: list[FlagFault] = field(default_factory=list)
    """Flags that are set while the wait for an earlier set may not be over. This is no fault, but of an edit."""
    blocks: list[int] = field(default_factory=list)
    """The blocks that have one."""
    pairs: Pairs = field(default_factory=set)
    """Sets and their waits. This is no fault."""
    executed: Counter[Path] = field(default_factory=Counter)
    """How often each instruction ran, in the block that ran it most. This is no fault."""
    alike: Pairs = field(default_factory=set)
    """Dependent statements of one pipe without a barrier. This is no fault by the vendor's practice."""
    error: Exception | None = None
    """What has stopped the run."""
    cycles: float = 0.0
    """The model's time of the longest block, if it was asked for. This is no fault."""

    @property
    def unpaired(self) -> bool:
        """Whether a set or a wait lacks the other."""
        return any(fault.kind in (STUCK, LEFT) for fault in self.flags)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.flags) + len(self.races) + (1000 if self.error else 0)

    @property
    def is_clean(self) -> bool:
        """Whether there are no faults."""
        return not (self.flags or self.races or self.error)


class Replay:
    """A launch on the machine, ready to be run again on the same data."""

    def __init__(
        self,
        executable: Any,
        tensors: Mapping[str, Storage],
        gm: Global,
        integers: Mapping[Var, int],
        grid: int,
        options: MachineOptions,
        known: Sequence[Finding],
    ) -> None:
        """`gm` has the content that arrays had before the launch."""
        self.executable, self.integers, self.grid, self.options, self.known = executable, integers, grid, options, known
        self._given, self._gm = tensors, gm
        self._tensors: dict[str, Storage] = {}

    @property
    def program(self) -> Program:
        """The program that was launched."""
        return self.executable.program

    @property
    def target(self) -> str:
        """The name of its target."""
        return self.executable.profile.name

    @property
    def is_long(self) -> bool:
        """Whether a search runs a part of its loops first."""
        return clipped(self.program, MOST_STEPS)[0] is not self.program

    def on(self, profile: Profile) -> Replay:
        """The same launch on another target."""
        executable = type(self.executable)(self.program, profile, self.executable.options)
        options = replace(self.options, costs={})  # those of this target
        return Replay(executable, self._given, self._gm, self.integers, self.grid, options, ())

    def tensors(self) -> dict[str, Storage]:
        """Copies of the arrays, with their content before the launch."""
        if not self._tensors:
            self._tensors = _copied(self._given, list(_places(self._gm)))
        return self._tensors

    def report(self, program: Program | None = None) -> Any:
        """The report of the whole launch, with another program."""
        made = type(self.executable)(program or self.program, self.executable.profile, self.executable.options)
        tensors, self._tensors = self.tensors(), {}
        return made.run(tensors, self.integers, self.grid, replace(self.options, seed=None), self.known)

    def faults(self, edited: Edited, blocks: Sequence[int], *, timed: bool = False, most: int | None = None) -> Faults:
        """The faults of order in some blocks of an edited program; with `most`, of about so many steps of each."""
        executable, tensors = self.executable, self.tensors()
        program = edited.program if most is None else clipped(edited.program, most)[0]
        made = type(executable)(program, executable.profile, executable.options)
        checks = ("order", "time") if timed else ("order",)
        options = replace(self.options, checks=checks, seed=None, lanes=False, poison=False, consequences=True)
        session = TrialSession(program, executable.profile, options, tensors, written_arguments(self.program))
        try:
            made.observe(session, tensors, {**self.integers, BLOCK_NUM: self.grid, SUBBLOCK_IDX: 0}, blocks)
        except (VerifyError, OutOfBoundsError) as problem:
            return Faults(error=problem)
        finally:
            session.gm.restore()
        return session.faults(edited)


def _places(gm: Global) -> Iterator[tuple[int, Array]]:
    """The addresses of parts that a launch has written, and what they held before."""
    return ((address_of(here), content) for here, content in gm.saved() if here.size)


def _copied(tensors: Mapping[str, Storage], before: Sequence[tuple[int, Array]]) -> dict[str, Storage]:
    """The same arrays in other memory, with what they held `before`; those that share memory still do."""
    copies: dict[str, Storage] = {}
    empty = {name: Storage(each.bits.copy(), each.dtype) for name, each in tensors.items() if not len(each.span)}
    for span in spans_of(tensors.values()):
        raw = np.zeros(len(span) + ALIGNMENT, np.uint8)
        shift = (span.start - address_of(raw)) % ALIGNMENT
        memory = raw[shift : shift + len(span)]
        for name, each in tensors.items():
            if len(each.span) and each.address in span:
                part = memory[each.address - span.start :][: len(each.span)]
                part[:] = each.bits.view(np.uint8)
                copies[name] = Storage(part.view(each.dtype.bits), each.dtype)
        for address, content in before:
            if address in span:
                memory[address - span.start :][: content.size] = content
    return {**copies, **empty}


def _counted(stmt: Stmt, flag: Any, count: int) -> Counter[int]:
    """The event id of a flag, which counts between the cores, and is a bit otherwise."""
    return Counter({own_event(stmt, flag[-1]): count if len(flag) == 2 else 1})


def _ignored(*_: object) -> None:
    """Listen to nothing."""


class FlagLog:
    """Listens to the flags of a block, in the order of issue: which set belongs to which wait."""

    def __init__(self, session: TrialSession) -> None:
        self._numbers, self._statements = session.numbers, session.statements
        self.pairs: set[tuple[int, int]] = set()
        self.unset: dict[int, Counter[int]] = defaultdict(Counter)
        """Waits that were issued before the set for them: the event ids, and the most sets that were missing."""
        self.left: dict[int, Counter[int]] = defaultdict(Counter)
        """Sets that nothing waits for, in the block that has most of them."""
        self._sets: dict[Hashable, deque[int]] = defaultdict(deque)
        self._waits: dict[Hashable, deque[int]] = defaultdict(deque)

    def set(self, _src: str, flag: Any, what: Any) -> None:
        """A pipe sets a flag."""
        number = self._numbers[id(what[0])]
        if self._waits[flag]:
            self.pairs.add((number, self._waits[flag].popleft()))
        else:
            self._sets[flag].append(number)

    def wait(self, _dst: str, flag: Any, what: Any) -> None:
        """A pipe waits for a flag."""
        number = self._numbers[id(what[0])]
        if self._sets[flag]:
            self.pairs.add((self._sets[flag].popleft(), number))
        else:
            self._waits[flag].append(number)
            self.unset[number] |= _counted(what[0], flag, len(self._waits[flag]))

    cross_set, cross_wait = set, wait

    def end(self) -> None:
        """A block has ended."""
        for flag, sets in self._sets.items():
            for number, count in Counter(sets).items():
                self.left[number] |= _counted(self._statements[number], flag, count)
        self._sets.clear()
        self._waits.clear()

    def __getattr__(self, _name: str) -> Callable[..., None]:
        """What else engines are told concerns no flag."""
        return _ignored


@dataclass
class SeenFaults:
    """The faults of order that a run has shown, by the numbers of statements."""

    running: RunningBlock
    numbers: Mapping[int, int]
    on_fault: Callable[[], None]
    """Is told of each."""
    raced: dict[tuple[int, int, str, str, bool], None] = field(
        default_factory=dict[tuple[int, int, str, str, bool], None]
    )
    stuck: dict[int, None] = field(default_factory=dict[int, None])
    """Waits that never end."""
    wrong: dict[tuple[str, int, int | None, int], None] = field(
        default_factory=dict[tuple[str, int, "int | None", int], None]
    )
    """Faults of flags that have both ends: kind, statement, previous statement, event id."""
    blocks: dict[int, None] = field(default_factory=dict[int, None])

    def number(self, issued: Any) -> int:
        """The number of a statement that was issued."""
        return self.numbers[id(issued[0])]

    def mark(self) -> None:
        """The running block has a fault."""
        self.blocks[self.running.number] = None
        self.on_fault()


class TrialFlagChecks(FlagChecks):
    """Records the faults of flags."""

    seen: SeenFaults

    def set_twice(self, flag: Any, what: Any, before: Any, is_doubled: bool) -> None:
        if isinstance(what, tuple):
            self.seen.mark()
            kind = DOUBLED if is_doubled else EARLY
            earlier = self.seen.number(before) if isinstance(before, tuple) else None
            self.seen.wrong[kind, self.seen.number(what), earlier, own_event(what[0], flag[-1])] = None
        super().set_twice(flag, what, before, is_doubled)

    def unpaired(self, flag: Any, what: Any, before: Any) -> None:
        self.seen.mark()
        event = own_event(what[0], flag[-1])
        self.seen.wrong[OPEN, self.seen.number(what), self.seen.number(before), event] = None

    def overflow(self, flag: Any, what: Any, certain: bool) -> None:
        self.seen.mark()
        event = own_event(what[0], flag[-1])
        self.seen.wrong[OVERFLOW, self.seen.number(what), self.seen.number(what), event] = None

    def stuck(self, stuck: Any) -> None:
        if isinstance(stuck.what, tuple):
            self.seen.mark()
            self.seen.stuck[self.seen.number(stuck.what)] = None
        super().stuck(stuck)


class TrialAccessChecks(AccessChecks):
    """Records the accesses that nothing orders."""

    seen: SeenFaults

    def conflict(self, hazard: object, meeting: Any) -> None:
        if hazard in (self._unordered, self._not_handed, self._overlapping):
            self._note_race(meeting.earlier, meeting.number, meeting.gate, within=hazard is self._overlapping)

    def note_index(self, executed: Executed, kind: str, touch: MemoryAccess, load: Earlier, gate: str) -> None:
        self._note_race(load, executed.number, gate)

    def _note_race(self, earlier: Earlier, number: int, gate: str, *, within: bool = False) -> None:
        self.seen.mark()
        before = self.clocks.pipes[earlier.pipe]
        self.seen.raced[earlier.statement, number, kind_pipe(before), kind_pipe(gate), within] = None


class TrialSession(Session):
    """A session that records the faults of order by statement."""

    flag_checks, access_checks = TrialFlagChecks, TrialAccessChecks

    def __init__(self, *args: Any) -> None:
        self._ran: Counter[int] = Counter()
        self._most: Counter[int] = Counter()
        super().__init__(*args)
        self.seen = SeenFaults(self.running, self.numbers, self.cache.found)
        self.flags.seen = self.accesses.seen = self.seen  # type: ignore[attr-defined]
        self.log = FlagLog(self)
        self.engines = (*self.engines, self.log)  # type: ignore[assignment]

    def end(self) -> None:
        super().end()
        left = len(self.log.left)
        self.log.end()
        if len(self.log.left) > left:
            self.seen.mark()
        self._most |= self._ran
        self._ran.clear()

    def progress(self) -> Progress:
        return super().progress()._replace(ran=self._ran.copy())

    def repeat(self, before: Progress, times: int) -> None:
        super().repeat(before, times)
        self._ran += Counter({number: times * (count - before.ran[number]) for number, count in self._ran.items()})

    def observe(self, executed: Executed, site: Site) -> None:
        self._ran[executed.number] += 1
        super().observe(executed, site)

    def report(self, findings: Iterable[Finding], *_place: object, **_cause: object) -> None:
        """Findings are not needed, but a block that has one is not like a clean one."""
        if any(True for _ in findings):
            self.cache.found()

    def faults(self, edited: Edited) -> Faults:
        """The faults so far, by the paths of the statements."""
        paths, log = edited.paths, self.log
        turned = any(first > then for first, then, *_ in self.seen.raced)  # maybe by a wait before its set
        outside = [number for number in log.unset if turned and not edited.outline.around(paths[number])]
        # pipes that wait for each other: one of the waits was issued before its set
        causes = (list(log.unset) or list(self.seen.stuck)) if self.seen.stuck else outside
        flags = [FlagFault(STUCK, paths[number], tuple(log.unset[number].elements())) for number in causes]
        flags += [FlagFault(LEFT, paths[number], tuple(events.elements())) for number, events in log.left.items()]
        wrong: dict[tuple[str, int, int | None], list[int]] = defaultdict(list)
        for kind, number, earlier, event in self.seen.wrong:
            wrong[kind, number, earlier].append(event)
        early = list[FlagFault]()
        for (kind, number, earlier), events in wrong.items():
            before = None if earlier is None else paths[earlier]
            (early if kind == EARLY else flags).append(FlagFault(kind, paths[number], tuple(events), before))
        is_paired, around = self.program.vector_cores > 1, edited.outline.around
        races = [
            Race(paths[first], paths[then], src, dst, own)
            for first, then, src, dst, own in self.seen.raced
            if first < then or not is_paired or around(paths[first])  # else in the arms of two vector cores
        ]
        overlaps = self.accesses.overlaps
        alike = {(paths[first], paths[then]) for first, then in (overlaps.alike if overlaps else ())}
        pairs = {(paths[first], paths[then]) for first, then in log.pairs}
        ran = Counter({paths[number]: count for number, count in self._most.items()})
        cycles = self.timer.result().cycles if self.timer else 0.0
        return Faults(flags, races, early, sorted(self.seen.blocks), pairs, ran, cycles=cycles, alike=alike)
