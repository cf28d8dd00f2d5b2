"""How a call becomes bytes: verified and lowered once for its signature, checked and executed every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ptokit.engine.lanes import IndexFault, IndexReport, SpanFault, ZeroFault
from ptokit.engine.reference import Plan
from ptokit.finding import Finding, Level, OutOfBoundsError, VerifyError
from ptokit.isa.instruction import Call, Instruction
from ptokit.isa.operand import OperandSpec, TensorSpec
from ptokit.isa.policy import (
    PtoEnum,
)
from ptokit.lang.context import Mode, current, target
from ptokit.lang.scalar import Scalar
from ptokit.lang.tensor import GlobalTensor
from ptokit.lang.tile import Tile
from ptokit.lang.where import place, user_frame, warn
from ptokit.program.verify import verify

Operand = Tile | GlobalTensor | Scalar


@dataclass(frozen=True)
class Event:
    """What a call returns: the instruction that ran, the kernel it took, and what was found, notes included."""

    instruction: str
    route: str
    findings: tuple[Finding, ...]


class _Prepared:
    """A verified and lowered call, ready for any operands of the same description."""

    def __init__(
        self,
        instruction: Instruction,
        mode: Mode,
        specs: Sequence[OperandSpec],
        modifiers: Sequence[object],
        repeats: frozenset[int] = frozenset(),
    ) -> None:
        self.instruction = instruction
        self.strict = mode.options.strict
        self.names = tuple(param.name for param in instruction.operands)[: len(specs)]
        described: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in instruction.operands)
        described.update(zip(self.names, specs, strict=True))
        self.plan: Plan | None = None
        chosen, problems = _parse(instruction, modifiers)
        if problems:
            self.refused, self.remarks = problems, ()
            return
        call = Call(instruction, described, chosen, mode.profile.name, frozenset(self.names[slot] for slot in repeats))
        findings = tuple(verify(call, mode.profile, mode.options))
        self.refused = tuple(f for f in findings if f.level == "error")
        self.remarks = tuple(f for f in findings if f.level != "error")
        if self.refused:
            return
        self.event = Event(instruction.name, call.route, ())
        try:
            self.plan = _plan(call, described)
        except SpanFault as fault:
            upheld = tuple(replace(f, level="error") for f in self.remarks if f.level == "hazard")
            self.refused = upheld or (_span_finding(instruction, fault),)


def _plan(call: Call, described: dict[str, OperandSpec | None]) -> Plan:
    present = {name: spec for name, spec in described.items() if spec is not None}
    sizes = {name: s.span if isinstance(s, TensorSpec) else s.elements for name, s in present.items()}
    return Plan(call.instruction.lower(call), {name: s.dtype for name, s in present.items()}, sizes)


PREPARED: dict[Any, _Prepared] = {}
"""Calls by signature. Emptied when it grows too large."""
_MOST_PREPARED = 1024


def _parse(instruction: Instruction, given: Sequence[object]) -> tuple[dict[str, PtoEnum | None], tuple[Finding, ...]]:
    """Modifiers as enum members; numbers and foreign enums are refused (A-30)."""
    chosen: dict[str, PtoEnum | None] = {}
    problems: list[Finding] = []
    for modifier, value in zip(instruction.modifiers, given, strict=True):
        try:
            chosen[modifier.name] = None if value is None else modifier.enum.parse(value)
        except (TypeError, ValueError) as problem:
            rule, kind = ("CO-SEM-01", None) if isinstance(value, str) else ("A-30", "H-39")
            message = f"{instruction.name}: {modifier.name}: {problem}"
            problems.append(Finding("error", rule, message, kind, modifier.name, modifier.enum.choices(), repr(value)))
    return chosen, tuple(problems)


def _remember(key: Any, prepared: _Prepared) -> _Prepared:
    if len(PREPARED) >= _MOST_PREPARED:
        PREPARED.clear()
    PREPARED[key] = prepared
    return prepared


def _repeats(operands: Sequence[Operand]) -> frozenset[int]:
    """Positions of operands that stand at an earlier position too."""
    return frozenset(k for k, operand in enumerate(operands) if any(operand is other for other in operands[:k]))


def execute(instruction: Instruction, operands: tuple[Operand, ...], modifiers: tuple[object, ...]) -> Event:
    """Verify and run one instruction on the current target."""
    here = current()
    try:
        key = (here.mode, instruction.name, modifiers, *[operand.spec for operand in operands])
        prepared = PREPARED.get(key)
    except (AttributeError, TypeError):
        raise misuse(instruction, operands, modifiers) from None
    if prepared is None:
        prepared = _remember(key, _Prepared(instruction, here.mode, key[3:], modifiers))
    if prepared.plan is None and (repeats := _repeats(operands)):  # less memory than the descriptions say
        again = (*key, repeats)
        prepared = PREPARED.get(again) or _remember(
            again, _Prepared(instruction, here.mode, key[3:], modifiers, repeats)
        )
    plan = prepared.plan
    if plan is None:
        raise VerifyError(_tell(here, prepared.refused))
    told = _tell(here, prepared.remarks) if prepared.remarks else ()
    storages = [operand.storage for operand in operands]
    for slot in plan.written:
        if not storages[slot].writable:
            raise ValueError(f"{instruction.name}: {prepared.names[slot]} is read-only; pass a writable array")
    try:
        lanes, reports = plan.resolve(storages)
        if reports:
            told += _judge(prepared, reports, here)
        if plan.run(storages, lanes) == "in order":
            told += _tell(here, _shared_memory(instruction))
    except IndexFault as fault:
        raise OutOfBoundsError(_tell(here, (_index_finding(instruction, fault.report, "error", here),))) from None
    except ZeroFault as fault:
        raise VerifyError(_tell(here, (_zero_finding(instruction, fault),))) from None
    except SpanFault as fault:
        raise OutOfBoundsError(_tell(here, (_span_finding(instruction, fault),))) from None
    return replace(prepared.event, findings=told) if told else prepared.event


def misuse(instruction: Instruction, operands: Sequence[object], modifiers: Sequence[object]) -> TypeError:
    """What is wrong with arguments that are not tiles, tensors or modifiers at all."""
    for param, operand in zip(instruction.operands, operands, strict=False):
        if not isinstance(operand, Tile | GlobalTensor | Scalar):
            kind = type(operand).__name__
            return TypeError(
                f"{instruction.name}: {param.name} must be a pto.Tile or a pto.GlobalTensor, got {kind}"
                + ("; wrap the array: pto.GlobalTensor(array)" if hasattr(operand, "__array__") else "")
            )
    names = [modifier.name for modifier in instruction.modifiers]
    return TypeError(f"{instruction.name}: {', '.join(names)} take a name or an enum member, got {list(modifiers)!r}")


def _tell(here: target, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Record findings at the user's line and warn of the hazards among them."""
    frame = user_frame()
    where = place(frame)
    placed = tuple(finding.at(where) for finding in findings)
    here.findings.extend(placed)
    for finding in placed:
        if finding.level == "hazard":
            warn(finding, frame)
    return placed


def _judge(prepared: _Prepared, reports: Sequence[IndexReport], here: target) -> tuple[Finding, ...]:
    """Report odd index values; under `strict` they refuse the call."""
    level: Level = "error" if prepared.strict else "hazard"
    placed = _tell(here, [_index_finding(prepared.instruction, report, level, here) for report in reports])
    if prepared.strict:
        raise VerifyError(placed)
    return placed


POISON = (-1, 0xFFFF, 0xFFFFFFFF)
"""What an index that was never written reads as."""

SAYINGS = {
    "outside": "is outside the capacity of {capacity}",
    "negative": "is negative and counts as {unsigned}",
    "padding": "names padding of the tile",
}


def _index_finding(instruction: Instruction, report: IndexReport, level: Level, here: target) -> Finding:
    below = report.kind == "outside" and report.value < 0 and instruction.faults.get("below")
    fault = below or instruction.faults[report.kind]
    position = ", ".join(map(str, report.lane))
    said = SAYINGS[report.kind].format(capacity=report.capacity, unsigned=report.value & 0xFFFFFFFF)
    more = f" (and {report.count - 1} more)" if report.count > 1 else ""
    poison = "; was the index written?" if report.value in POISON else ""
    return Finding(
        level,
        fault.rule,
        f"{instruction.name} on {here.name}: {report.operand}[{position}] = {report.value} {said}{more}{poison}",
        fault.kind,
        report.operand,
        expected=f"an index below {report.capacity}",
        found=str(report.value),
        fix=fault.fix,
    )


def _shared_memory(instruction: Instruction) -> tuple[Finding, ...]:
    """A remark on operands that share memory, where a decision speaks of it."""
    fault = instruction.faults.get("shared")
    message = f"{instruction.name}: operands share memory; lanes took effect one after the other, in row-major order"
    return (Finding("note", fault.rule, message, fault.kind, fix=fault.fix),) if fault else ()


def _span_finding(instruction: Instruction, fault: SpanFault) -> Finding:
    message = f"{instruction.name}: {fault}"
    return Finding("error", "CO-SEM-01", message, None, fault.operand, fix=f"pass a larger or packed {fault.operand}")


def _zero_finding(instruction: Instruction, fault: ZeroFault) -> Finding:
    said = instruction.faults["zero"]
    message = f"{instruction.name}: integer division by zero: {fault}"
    return Finding("error", said.rule, message, said.kind, fault.operand, "a divisor without zeroes", "0", said.fix)
