"""Runs the examples of the clause table: what meets a clause must pass, what breaks it must be stopped by it.

It also holds the accessors through which the conformance tests read and mutate the tables of rules. The tests name
no internal table of the package themselves.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count, product
from types import CodeType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptokit as pto
from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction, Rule
from ptokit.lang import dispatch
from ptokit.machine import hazards
from ptokit.machine.report import MachineReport
from ptokit.program import verify, verify_call
from ptokit.target.profile import CUBE_CORE
from tests import snippet
from tests.loops import FULL


class Reported(Exception):
    """An example left a `report` of the machine that is not clean."""

    def __init__(self, report: MachineReport) -> None:
        self.findings = tuple(finding for finding in report.findings if finding.level != "note")
        super().__init__("\n".join(map(str, self.findings)))


STOPS = (pto.VerifyError, pto.OutOfBoundsError, Reported, pto.HazardWarning)
"""What stops code that breaks a clause: each carries findings."""
ON_MACHINE = ".*; the first: "
"""Warnings of launches on the machine, which say less than its report."""


def targets_of(name: str) -> tuple[str, ...]:
    """The targets an example runs on."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    return example.targets or (clause.targets if clause else spec.FAMILIES)


NUMBERS = count()
Run = Callable[[str, str, str], None]
"""Runs code on a target, with an instruction where it is about several."""


@cache
def compiled(code: str, target: str) -> CodeType:
    """Code of an example, ready to run; kernels in it can be read."""
    return snippet.compiled(code, f"example {next(NUMBERS)} on {target}")


def run(code: str, target: str, op: str = "") -> None:
    """Execute one example of our own clause table on a target; hazards count as failures.

    What only the machine sees, an example shows as `report`: the report of a launch.
    """
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": target}
    if op:
        names["op"] = getattr(pto, op)
    with pto.target(target), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ON_MACHINE, pto.HazardWarning)
        exec(compiled(code, target), names)
    report = names.get("report")
    if isinstance(report, MachineReport) and not report.ok:
        raise Reported(report)


@cache
def _ending(code: str, target: str, op: str) -> Exception | None:
    try:
        run(code, target, op)
    except Exception as problem:
        return problem.with_traceback(None)
    return None


def run_once(code: str, target: str, op: str = "") -> None:
    """The same; code that has run in this process is not run again. For tests that change nothing of the package."""
    problem = _ending(code, target, op)
    if problem is not None:
        raise problem.with_traceback(None)


def findings_on(code: str, target: str, op: str = "", **options: Any) -> list[pto.Finding]:
    """Every finding that some code makes on a target: raised, warned of, noted, or reported by the machine."""
    names: dict[str, Any] = {"np": np, "pto": pto, "ml_dtypes": ml_dtypes, "target": target}
    if op:
        names["op"] = getattr(pto, op)
    found: list[pto.Finding] = []
    with pto.target(target, **options) as here, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", ON_MACHINE, pto.HazardWarning)
        try:
            exec(compiled(code, target), names)
        except Exception as stop:
            found = findings_of(stop)
        found += here.findings
    found += [finding for warning in warned for finding in findings_of(warning.message)]  # type: ignore[arg-type]
    report = names.get("report")
    return [*found, *(report.findings if isinstance(report, MachineReport) else ())]


def findings_of(stop: BaseException) -> list[pto.Finding]:
    """The findings that an exception carries."""
    return [stop.finding] if isinstance(stop, pto.HazardWarning) else list(getattr(stop, "findings", ()))


@cache
def clauses_on(rule: str, target: str) -> frozenset[str]:
    """Clauses in findings of a rule on a target: the rule itself if it applies there, else its base clauses."""
    entries = [entry for each in INSTRUCTIONS.values() for entry in (*each.rules, *each.reports.faults.values())]
    named = {e.clause(target) for e in entries if rule == (e.id if isinstance(e, Rule) else e.rule)}
    return frozenset(named) or frozenset((rule,))


def _expected(name: str, target: str) -> set[str]:
    rules = spec.examples()[name].rule.split() or [name]
    return {clause for rule in rules for clause in clauses_on(rule, target)}


def check_breaks(name: str, code: str, target: str, op: str = "", run: Run = run) -> None:
    """Breaking code must be stopped by a finding of the clause that it breaks, or by the words that the example has."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    if example.message:
        with pytest.raises(ValueError, match=example.message):
            run(code, target, op)
        return
    with pytest.raises(STOPS) as stop:
        run(code, target, op)
    found = [f for f in findings_of(stop.value) if f.rule in _expected(name, f.target or target)]
    assert found, f"{example.rule or name} expected, stopped by {stop.value!r}"
    assert clause is None or clause.kind != "reject" or found[0].level == "error"


def check_example(name: str, *, refusals: bool = True, full: bool = True, run: Run = run) -> None:
    """Run all code of one example on all its targets; without `refusals`, only code that an engine gets to run. Unless
    `full`, on one of its targets: which one depends on the example, and on the instruction if it is about several."""
    example, clause = spec.examples()[name], spec.clauses().get(name)
    is_refused = clause is not None and clause.kind == "reject"
    targets = targets_of(name)
    one_in, turn = 1 if full else len(targets), sum(name.encode())
    for (i, target), (k, op) in product(enumerate(targets), enumerate(example.each or ("",))):
        if (i + k + turn) % one_in:
            continue
        if example.meets:
            run(example.meets, target, op)
        for code in example.breaks if refusals or not is_refused else ():
            check_breaks(name, code, target, op, run)


CALLED = re.compile(r"pto\.(\w+)")
WORDED = re.compile(r"\w+=(?!\d)['\"]?[\w.-]+|'[a-z]\w*'")


def telling_examples(full: bool = FULL) -> list[str]:
    """The examples in which a function of the API gets a word that it gets in none before; all of them if `full`."""
    kept, seen = list[str](), set[Any]()
    for name, example in sorted(spec.examples().items()):
        lines = "\n".join((example.meets or "", *example.breaks)).splitlines()
        forms: set[Any] = {*(example.each or ())}
        for line in lines:
            called, words = CALLED.findall(line) or [""], WORDED.findall(line)
            forms |= {*called, *product(called, words)}
        kept += [name] if full or forms - seen else []
        seen |= forms
    return kept


# --- The tables of rules -------------------------------------------------------------------------------------


def rules_of(instruction: Instruction) -> tuple[Rule, ...]:
    """The rules of an instruction, in the order in which they are checked."""
    return instruction.rules


def header_rules_of(instruction: Instruction) -> tuple[Rule, ...]:
    """What the C++ headers refuse of an instruction beyond its rules."""
    return (*instruction.cpp.headers, *instruction.cpp.slices)


def forget() -> None:
    """Drop every verdict that was kept for a later call."""
    dispatch.PREPARED.clear()


def _fewer(rules: tuple[Rule, ...], k: int, target: str) -> tuple[Rule, ...]:
    on: dict[str, Any] = {name: level for name, level in rules[k].on.items() if name != target}
    on |= {target: None} if target != spec.family_of(target) else {}  # a revision has the levels of its family
    return (*rules[:k], replace(rules[k], on=on), *rules[k + 1 :])


@contextmanager
def without_rule(instruction: Instruction, k: int, target: str) -> Iterator[None]:
    """Within, one rule of an instruction does not apply on one target."""
    rules = instruction.rules
    object.__setattr__(instruction, "rules", _fewer(rules, k, target))
    forget()
    try:
        yield
    finally:
        object.__setattr__(instruction, "rules", rules)
        forget()


@contextmanager
def without_header_rule(instruction: Instruction, k: int, target: str) -> Iterator[None]:
    """Within, one rule of the headers of an instruction does not apply on one target."""
    cpp = instruction.cpp
    count, changed = len(cpp.headers), _fewer(header_rules_of(instruction), k, target)
    object.__setattr__(instruction, "cpp", replace(cpp, headers=changed[:count], slices=changed[count:]))
    try:
        yield
    finally:
        object.__setattr__(instruction, "cpp", cpp)


def identities(findings: Iterable[pto.Finding], instruction: str, rule: Rule, target: str) -> set[tuple[str, str, str]]:
    """The findings that a rule of an instruction has made on a target: clause, operand, and what was expected."""
    return {
        (finding.rule, finding.operand, finding.expected)
        for finding in findings
        if (finding.rule, finding.operand) == (rule.clause(target), rule.operand)
        and finding.message.startswith(f"{instruction} on {target}: ")
    }


def call_checks() -> dict[str, verify_call.Check]:
    """What is checked of every call, whatever its instruction, by name."""
    return {check.run.__name__: check for check in verify_call.CHECKS}


def program_checks() -> dict[str, verify.Check]:
    """What is checked of every whole program, by name."""
    return {check.__name__: check for check in verify.CHECKS}  # type: ignore[attr-defined]


@contextmanager
def without_check(check: object) -> Iterator[None]:
    """Within, one check of calls or of programs is left out."""
    kept = verify_call.CHECKS, verify.CHECKS
    verify_call.CHECKS, verify.CHECKS = (tuple(each for each in row if each is not check) for row in kept)
    forget()
    try:
        yield
    finally:
        verify_call.CHECKS, verify.CHECKS = kept
        forget()


# --- The tables of the machine -------------------------------------------------------------------------------


def unordered_rows() -> list[tuple[str, int, str]]:
    """The kinds of accesses that nothing orders: the instruction, the number of the row there, and the hazard."""
    rows = [(name, k, row.kind) for name, each in INSTRUCTIONS.items() for k, row in enumerate(each.reports.conflicts)]
    return [*rows, ("", 0, CUBE_CORE.load_hazard)]


@contextmanager
def without_unordered_row(name: str, k: int) -> Iterator[None]:
    """Within, the machine does not know one kind of accesses that nothing orders; "" names loads for the cube core."""
    owner, field = (INSTRUCTIONS[name].reports, "conflicts") if name else (CUBE_CORE, "load_hazard")
    rows = getattr(owner, field)
    object.__setattr__(owner, field, (*rows[:k], *rows[k + 1 :]) if name else "")
    try:
        yield
    finally:
        object.__setattr__(owner, field, rows)


def repeat_rulings() -> dict[tuple[str, str], set[str]]:
    """By instruction and target: the hazards of destinations that are named twice."""
    return {
        (name, target): {instruction.reports.repeats.same, instruction.reports.repeats.folded}
        for name, instruction in INSTRUCTIONS.items()
        if instruction.reports.repeats
        for target in instruction.reports.repeats.levels
    }


@contextmanager
def without_repeat_ruling(name: str, target: str) -> Iterator[None]:
    """Within, nothing is said of repeated destinations of an instruction on a target."""
    instruction, ruling = INSTRUCTIONS[name], INSTRUCTIONS[name].reports.repeats
    assert ruling is not None
    levels = {each: level for each, level in ruling.levels.items() if each != target}
    object.__setattr__(instruction.reports, "repeats", replace(ruling, levels=levels))
    try:
        yield
    finally:
        object.__setattr__(instruction.reports, "repeats", ruling)


MACHINE_RULES = {"dispatch": "H-23", "burst": "H-01", "scratch": "H-32"}
"""What the machine finds of one instruction's launch and addresses, by the function that does."""


@contextmanager
def without_machine_rule(name: str) -> Iterator[None]:
    """Within, one of `MACHINE_RULES` finds nothing."""
    rule = getattr(hazards, name)
    setattr(hazards, name, lambda *_: ())
    try:
        yield
    finally:
        setattr(hazards, name, rule)
