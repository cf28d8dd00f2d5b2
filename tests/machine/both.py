"""A pytest plugin: with `-p tests.machine.both`, every eager call and launch of every test runs on the machine too.

A call becomes a program of one instruction whose tiles are the very memories of the call. A launch is made over copies
of its arrays, by the reference engine and by the machine. The machine must leave the bits of the reference, say
what the reference says, and end as it does: errors that have a hazard's number become entries of the report instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
import pytest

from ptokit.engine.prepared import Prepared
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, OutOfBoundsError, VerifyError, not_in_run
from ptokit.isa.instruction import Instruction, Modifiers, parse_modifiers
from ptokit.isa.operand import OperandSpec, TileSpec
from ptokit.isa.policy import GatherOOB, ScatterOOB
from ptokit.lang import faults
from ptokit.lang.check import copied
from ptokit.lang.context import current
from ptokit.lang.launch import FindingCollector, Observer, Verdict, check_options, mode_of, observers
from ptokit.lang.launcher import Launchable, Launcher
from ptokit.machine.executable import MachineExecutable
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.machine.shadow import Extent
from ptokit.program.expr import Var
from ptokit.program.ir import Instr, Operand, Program, Stmt, TileDecl
from ptokit.program.verify import verify
from tests.engine.native.calls import Inexpressible, Outcome, Writer, every_call, outcome, run

LEVELS = ("note", "hazard", "error")
JUDGED = ("target", "strict", "header", "dyn_ub")
REFUSALS = (VerifyError, OutOfBoundsError)
PASSED_OVER = {"H-10": (GatherOOB, "zero"), "H-11": (ScatterOOB, "skip")}
"""Violations after which lanes are skipped, and the policy with which the reference computes the other lanes."""


class Mismatch(Exception):
    """The machine differs from the reference. Not an `AssertionError`: tests expect some of those."""


@dataclass
class Tally:
    """What was compared."""

    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Calls by instruction, target and route."""
    launches: Counter[str] = field(default_factory=Counter)
    """Launches by target."""
    reported: Counter[str] = field(default_factory=Counter)
    """Hazards that the reference raises and the machine reports, by their numbers."""
    raised: Counter[str] = field(default_factory=Counter)
    """Exceptions that both raise."""
    passed_over: int = 0
    """Calls that broke a promise, with lanes whose bits were known all the same."""
    outside: int = 0
    """Calls that no program can make."""
    mismatches: dict[str, None] = field(default_factory=dict)

    def refuse(self, said: str) -> None:
        """Fail the test, and record why: it may expect exceptions."""
        self.mismatches[said] = None
        raise Mismatch(said)


# --- A call as a program ---------------------------------------------------------------------------------------


class CallMachine(MachineExecutable):
    """A program of one instruction, whose tiles are memories of an eager call, all of them written."""

    given: Mapping[str, Storage]

    def _step(self, stmt: Stmt) -> Callable[[Any], None]:
        return partial(self._take, stmt) if isinstance(stmt, TileDecl) else super()._step(stmt)

    def _take(self, tile: TileDecl, frame: Any) -> None:
        storage = frame.tiles[tile.name] = self.given[tile.name]
        for address in tile.addresses:
            frame.addresses[tile.name] = address
        place = frame.session.memory.chip.at(tile.spec.loc, frame.addresses.get(tile.name), storage, 0)
        place.shadow.define(Extent(1, tile.spec.nbytes // place.shadow.unit, 0), place.start)


def call_program(
    instruction: Instruction, specs: Sequence[OperandSpec], modifiers: Modifiers, names: Sequence[str]
) -> tuple[Program, dict[Var, int]]:
    """The program of a call, and its numbers. Operands that are one tile have one name."""
    tiles = [spec for spec in specs if isinstance(spec, TileSpec)]
    if any(tile.valid_rows > tile.rows or tile.valid_cols > tile.cols for tile in tiles):
        raise Inexpressible
    writer = Writer()
    operands: list[Operand] = [writer.operand(name, spec, "") for name, spec in zip(names, specs, strict=True)]
    body = (*writer.tiles.values(), Instr(instruction.name, tuple(operands), modifiers))
    return Program(instruction.name, tuple(writer.arguments), body), writer.values


def tile_names(names: Sequence[str], specs: Sequence[OperandSpec], storages: Sequence[Storage]) -> tuple[str, ...]:
    """A name for each operand: that of an earlier one, where it is the same tile."""
    found: list[str] = []
    for k, name in enumerate(names):
        same = (found[j] for j in range(k) if isinstance(specs[j], TileSpec) and storages[j] is storages[k])
        found.append(next(same, name))
    return tuple(found)


class MachineCall:
    """A call made ready for the machine."""

    def __init__(self, key: tuple[Any, ...], names: Sequence[str]) -> None:
        """`key`: instruction, profile, options, descriptions of the operands, modifiers."""
        instruction, profile, options, specs, modifiers = key
        program, self.values = call_program(instruction, specs, modifiers, names)
        self.names = names
        certain = [] if self.values else verify(program, profile, options, 1)
        self.verdict = Verdict(certain)
        """The findings before the run; numbers known at run time are checked separately."""
        self.machine = CallMachine(program, profile, options)

    def run(self, storages: Sequence[Storage]) -> MachineReport:
        """Run it over the operands' memories, as a launch would."""
        if refused := [finding for finding in self.verdict.errors if finding.blocks]:
            raise VerifyError(refused)
        self.machine.given = dict(zip(self.names, storages, strict=True))
        said = (*self.verdict.errors, *self.verdict.non_errors)
        return self.machine.run(self.machine.given, self.values, 1, MachineOptions(), said)


# --- Beside the reference --------------------------------------------------------------------------------------


def has_entry(report: MachineReport, finding: Finding) -> bool:
    """Whether a report has a finding, or a graver one of its number. Reads of unwritten memory, and tiles that share
    bytes, are reported once."""
    if finding.unwritten and not_in_run([finding], report.findings) == []:
        return True
    level = LEVELS.index(finding.level)
    if finding.tiles and any(entry.tiles and LEVELS.index(entry.level) >= level for entry in report.findings):
        return True
    return any(
        (entry.kind, entry.operand) == (finding.kind, finding.operand)
        and (finding.kind is not None or entry.rule == finding.rule)
        and LEVELS.index(entry.level) >= level
        for entry in report.findings
    )


def numbers_of(problem: BaseException | None) -> list[str | None]:
    """The hazards that an exception names; None for a finding without a number."""
    return [finding.kind for finding in getattr(problem, "findings", ())]


class Beside:
    """Runs calls and launches on the machine, and compares."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    # --- calls

    def call(
        self, prepared: Prepared, key: tuple[Any, ...], storages: Sequence[Storage], known: dict[Any, MachineCall]
    ) -> None:
        """A call is about to be made; memories are as before afterwards. `known` is kept for the next such call."""
        instruction, specs = key[0], key[3]
        names = tile_names(prepared.names, specs, storages)
        try:
            ours = known[names] if names in known else known.setdefault(names, MachineCall(key, names))
        except Inexpressible:
            self.tally.outside += 1
            return
        reports: list[MachineReport] = []
        expected = outcome(storages, lambda listener: run(prepared, storages, listener))
        found = outcome(storages, lambda _: reports.append(ours.run(storages)))
        what = f"{instruction.name} on {prepared.target} ({prepared.route or 'refused'})"
        self.tally.calls[instruction.name, prepared.target, prepared.route] += 1
        self._compare(what, found, expected, reports)
        if reports and isinstance(expected.problem, OutOfBoundsError):
            for kind in set(numbers_of(expected.problem)) & set(PASSED_OVER):
                self._compare_lanes(what, key, storages, found, *PASSED_OVER[str(kind)])

    def _compare_lanes(
        self, what: str, key: tuple[Any, ...], storages: Sequence[Storage], found: Outcome, kind: type, policy: str
    ) -> None:
        """Lanes within the table gave the results of a policy that defines the other lanes."""
        instruction, profile, options, specs, modifiers = key
        at = next(k for k, modifier in enumerate(instruction.modifiers) if modifier.enum is kind)
        changed = parse_modifiers(instruction, (*modifiers[:at], policy, *modifiers[at + 1 :]))
        other = Prepared(instruction, profile, options, specs, changed)
        if other.plan is None or other.plan.is_aliased(storages):
            return
        kept = [np.frombuffer(storage.bits.tobytes(), np.uint8) for storage in storages]
        wanted = outcome(storages, lambda listener: run(other, storages, listener))
        self.tally.passed_over += 1
        for name, before, ours, theirs in zip(other.names, kept, found.memories, wanted.memories, strict=True):
            bits, known = np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)
            untouched = (bits == before) & (known == 0) if policy == "zero" else False
            if not ((bits == known) | untouched).all():
                self.tally.refuse(f"{what}: {name}: lanes within the table differ where others are passed over")

    # --- launches

    def launch(
        self,
        kernel: Launchable,
        grid: int,
        args: Sequence[object],
        keywords: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        """A launch is about to be made."""
        here = current()
        if isinstance(options["options"], Ours) or here.tracer is not None or here.block is not None:
            return
        try:
            check_options(options["engine"], None, options["launch"], options["options"])
            values = [*args, *keywords.values()]
            twins = [copied(values) for _ in range(2)]
        except (TypeError, ValueError):
            return  # no engine is ever asked
        findings: list[Finding] = []
        reports: list[MachineReport] = []
        mine = Ours.of(options["options"])
        given = [(twin[: len(args)], dict(zip(keywords, twin[len(args) :], strict=True))) for twin in twins]
        expected = _launched(twins[0], findings, lambda: _reference(kernel, grid, *given[0], options, findings))
        found = _launched(twins[1], [], lambda: reports.append(_machine(kernel, grid, *given[1], options, mine)))
        self.tally.launches[options["target"] or here.mode.profile.name] += 1
        self._compare(f"{kernel.name}[{grid}] with {dict(options)}", found, expected, reports)

    # --- both

    def _compare(self, what: str, found: Outcome, expected: Outcome, reports: Sequence[MachineReport]) -> None:
        """Both outcomes are equal, except that the machine continues where the reference stops."""
        problem, numbers = expected.problem, numbers_of(expected.problem)
        report = reports[0] if reports else None
        ended = f"{found.problem!r} for {problem!r}"
        if problem is None:
            if report is None:
                return self.tally.refuse(f"{what}: {ended}")
        elif numbers and report is not None:
            if any(finding.blocks for finding in problem.findings):  # type: ignore[attr-defined]
                self.tally.refuse(f"{what}: {ended}")
            self.tally.reported.update(map(str, numbers))
            return self._compare_words(what, report, problem.findings)  # type: ignore[attr-defined]
        elif numbers and None not in numbers and not any(finding.blocks for finding in problem.findings):  # type: ignore[attr-defined]
            if not isinstance(found.problem, REFUSALS) or set(numbers_of(found.problem)) != {None}:
                self.tally.refuse(f"{what}: {ended}")
            return None
        else:
            if type(found.problem) is not type(problem):
                said = [str(entry) for entry in report.findings] if report is not None else ()
                self.tally.refuse(f"{what}: {ended}, with {said}")
            self.tally.raised[type(problem).__name__] += 1
        for k, (ours, theirs) in enumerate(zip(found.memories, expected.memories, strict=True)):
            if ours != theirs:
                a, b = np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)
                at = int(np.argmax(a != b))
                self.tally.refuse(f"{what}: operand {k} differs in {(a != b).sum()} bytes of {a.size}, first at {at}")
        if report is not None:
            self._compare_words(what, report, expected.reported)
        return None

    def _compare_words(self, what: str, report: MachineReport, findings: Sequence[Finding]) -> None:
        """The report has the findings of the reference, except for its note on the order of lanes."""
        wanted = [finding for finding in findings if finding.level != "note" or finding.kind]
        missing = [finding for finding in wanted if not has_entry(report, finding)]
        if missing:
            entries = [(entry.kind or entry.rule, entry.level, entry.operand) for entry in report.findings]
            self.tally.refuse(f"{what}: the report does not say {missing[0]!r}, but {entries}")


class Ours(MachineOptions):
    """Options of launches made here: those are not checked again."""

    @classmethod
    def of(cls, options: object) -> Ours:
        """Those of a launch, in the order of the program."""
        if not isinstance(options, MachineOptions):
            return cls()
        own: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(MachineOptions)}
        own["seed"] = None
        return cls(**own)


class Quiet(FindingCollector):
    """Collects findings, without raising."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(None, {})
        self._findings = findings

    def __call__(self, findings: Sequence[Finding]) -> None:
        self._findings += [finding for finding in findings if self.add(finding)]


def _launched(values: Sequence[object], findings: list[Finding], work: Callable[[], object]) -> Outcome:
    problem: BaseException | None = None
    try:
        work()
    except Exception as found:
        problem = found
    return Outcome([value.tobytes() for value in values if isinstance(value, np.ndarray)], findings, problem)


def _reference(
    kernel: Launchable,
    grid: int,
    args: Sequence[object],
    keywords: Any,
    options: Mapping[str, Any],
    findings: list[Finding],
) -> None:
    mode = mode_of(options["target"], options["header"], options["strict"], _dyn_ub(options))
    arguments = kernel.bind(args, keywords)
    traced = kernel.trace(arguments, mode)
    Launcher(kernel, grid)._run(traced, arguments, mode, Quiet(findings), "reference", None)


def _dyn_ub(options: Mapping[str, Any]) -> int | None:
    mine = options["options"]
    return mine.dyn_ub if options["dyn_ub"] is None and isinstance(mine, MachineOptions) else options["dyn_ub"]


def _machine(
    kernel: Launchable, grid: int, args: Sequence[object], keywords: Any, options: Mapping[str, Any], mine: Ours
) -> MachineReport:
    judged = {name: options[name] for name in (*JUDGED, "launch")}
    report = kernel[grid](*args, **keywords, **judged, engine="machine", options=mine)
    assert isinstance(report, MachineReport)
    return report


@contextmanager
def on_the_machine(tally: Tally | None = None) -> Iterator[Tally]:
    """Within, every eager call and every launch also runs on the machine, and both must agree."""
    beside = Beside(Tally() if tally is None else tally)
    is_machinery = faults._is_machinery
    faults._is_machinery = lambda file: file == __file__ or is_machinery(file)  # type: ignore[assignment]
    observer: Observer = beside.launch
    observers.append(observer)
    try:
        with every_call(lambda call, storages: beside.call(call, call.key, storages, call.known)):
            yield beside.tally
    finally:
        observers.remove(observer)
        faults._is_machinery = is_machinery


# --- pytest ----------------------------------------------------------------------------------------------------

_tally = Tally()


@pytest.fixture(scope="session", autouse=True)
def _on_the_machine() -> Iterator[None]:
    with on_the_machine(_tally):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was compared, and what differs."""
    if not _tally.calls and not _tally.launches:
        return
    terminalreporter.write_line(
        f"on the machine: {_tally.calls.total()} calls and {_tally.launches.total()} launches, "
        f"{_tally.reported.total()} hazards that are reported instead of raised, {_tally.raised.total()} raised alike, "
        f"{_tally.passed_over} with lanes passed over, {_tally.outside} calls that no program can make"
    )
    for said in _tally.mismatches:
        terminalreporter.write_line(f"differs: {said}")
