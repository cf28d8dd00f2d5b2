"""A verified and lowered call, and the protocol of its run: check, report, and only then write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ptokit.engine.faults import IndexFault, IndexReport, SpanFault, ZeroFault
from ptokit.engine.reference import Lanes, Plan
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, Level, OutOfBoundsError, VerifyError
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Call, Instruction, Modifiers
from ptokit.isa.move import Compute, Move, Remap
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.spelling import TMP
from ptokit.program.verify_call import Options, verify_call
from ptokit.target import Profile

Write = Callable[[Plan, Sequence[Storage], list[Lanes | None]], Any]
"""Writes what a plan moves, with the indices that were read; `"in order"` where lanes took effect one by one."""


class Prepared:
    """A call that was verified and lowered once; it runs with any operands of the same description."""

    def __init__(
        self,
        instruction: Instruction,
        profile: Profile,
        options: Options,
        specs: Sequence[OperandSpec],
        modifiers: Modifiers,
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
        workspace: OperandSpec | None = None,
        *,
        alone: bool = True,
        vector: int = 0,
    ) -> None:
        """`repeats` are operands that alias an earlier one, `clashes` pairs of slices that overlap. A call that is not
        `alone` shares its memories with others: how much they use is checked for the whole program."""
        self.instruction = instruction
        self.target = profile.name
        self.strict = options.strict
        self.names = tuple(param.name for param in instruction.operands)[: len(specs)]
        self.plan: Plan | None = None
        self.stored: tuple[int, ...] = ()
        """Positions of the global tensors that it writes."""
        self.route = ""
        described: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in instruction.operands)
        described.update(zip(self.names, specs, strict=True))
        if workspace is not None:
            described[TMP] = workspace
        self.call = Call(instruction, described, modifiers, profile.name, repeats, clashes)
        self.call.vector = vector
        findings = tuple(verify_call(self.call, profile, options, alone=alone))
        self.refused = tuple(f for f in findings if f.level == "error")
        self.non_errors = tuple(f for f in findings if f.level != "error")
        if not self.refused:
            self._lower()
        in_place = instruction.destination.in_place.get(profile.name) or "shared" in instruction.reports.faults
        has_slices = any(isinstance(spec, TileSpec) and spec.is_slice for spec in (*specs, workspace))
        checks = instruction.destination.checks_aliases or workspace is not None
        self.alias_sensitive = self.plan is None or not in_place or checks or has_slices
        """Whether it matters that an operand aliases an earlier one: for its memory, or for the result."""

    def _lower(self) -> None:
        self.route = self.call.route
        try:
            self.plan = plan_of(self.call)
        except SpanFault as fault:
            hazards = tuple(replace(f, level="error") for f in self.non_errors if f.level == "hazard")
            self.refused = hazards or (span_finding(self.instruction, fault),)
            return
        operands = self.call.operands
        self.stored = tuple(k for k in self.plan.written if isinstance(operands[self.names[k]], TensorSpec))

    @cached_property
    def tolerant(self) -> Plan:
        """The same moves; they skip index values that the plan refuses."""
        return plan_of(self.call, tolerant=True)

    def run(
        self, storages: Sequence[Storage], write: Write | None = None, *, tolerant: bool = False
    ) -> Iterator[tuple[Finding, ...]]:
        """Run over the operands' memories, and yield findings where they are made.

        The caller reports them and asks for more: so hazards are reported before anything is written, and a call that
        raises has written nothing. `write` takes the place of the last step. A `tolerant` run yields index values that
        must be refused, and skips them.
        """
        plan = self.plan
        if plan is None:
            raise VerifyError(self.refused)
        if self.non_errors:
            yield self.non_errors
        for slot in plan.written:
            if not storages[slot].writable:
                raise ValueError(f"{self.instruction.name}: {self.names[slot]} is read-only; pass a writable array")
        while True:
            try:
                lanes, reports = plan.resolve(storages)
                if reports:
                    yield self._suspicious(reports, tolerant)
                how = plan.run(storages, lanes) if write is None else write(plan, storages, lanes)
                if how == "in order":
                    yield self._shared_memory(plan)
                return
            except IndexFault as fault:
                outside = (self._index_finding(fault.report, "error"),)
                if not tolerant:
                    raise OutOfBoundsError(outside) from None
            except ZeroFault as fault:
                raise VerifyError((zero_finding(self.instruction, fault),)) from None
            except SpanFault as fault:
                raise OutOfBoundsError((span_finding(self.instruction, fault),)) from None
            yield outside
            plan = self.tolerant

    def _suspicious(self, reports: Sequence[IndexReport], tolerant: bool) -> tuple[Finding, ...]:
        """Findings on suspicious index values; under `strict` they refuse the call."""
        if self.strict and not tolerant:
            raise VerifyError([self._index_finding(report, "error") for report in reports])
        return tuple(self._index_finding(report, "hazard") for report in reports)

    def _index_finding(self, report: IndexReport, level: Level) -> Finding:
        faults = self.instruction.reports.faults
        below = report.kind == "outside" and report.value < 0 and faults.get("below")
        fault = below or faults[report.kind]
        position = ", ".join(map(str, report.lane))
        problem = PROBLEMS[report.kind].format(capacity=report.capacity, unsigned=report.value & 0xFFFFFFFF)
        more = f" (and {report.count - 1} more)" if report.count > 1 else ""
        poison = " (the value of uninitialised memory)" if report.value in POISON_VALUES else ""
        subject = f"{self.instruction.name} on {self.target}: {report.operand}[{position}] = {report.value}"
        expected, found = f"an index below {report.capacity}", str(report.value)
        message = f"{subject} {problem}{more}{poison}"
        rule = fault.clause(self.target)
        return Finding(
            level, rule, message, fault.kind, report.operand, expected, found, fault.fix, target=self.target,
            unwritten="memory" if poison else "",
        )  # fmt: skip

    def _shared_memory(self, plan: Plan) -> tuple[Finding, ...]:
        """A note on operands that share memory, where a decision covers it."""
        fault = self.instruction.reports.faults.get("shared")
        order = f"lanes took effect one after the other, {plan.order}"
        message = f"{self.instruction.name}: operands share memory; {order}"
        return (Finding("note", fault.rule, message, fault.kind, fix=fault.fix),) if fault else ()


def plan_of(call: Call, *, tolerant: bool = False) -> Plan:
    """The moves and computations of a call; a `tolerant` one skips index values that it would have to refuse."""
    moves = call.instruction.lower(call)
    if tolerant:
        moves = tuple(map(_tolerant, moves))
    return Plan(moves, *memory_of(call))


def memory_of(call: Call) -> tuple[dict[str, DType], dict[str, int]]:
    """Element types and sizes of the operands that a call has; nothing is read from a workspace."""
    present = {name: spec for name, spec in call.operands.items() if spec is not None and name != TMP}
    sizes = {name: s.span if isinstance(s, TensorSpec) else s.elements for name, s in present.items()}
    return {name: s.dtype for name, s in present.items()}, sizes


def _tolerant(move: Move | Compute) -> Move | Compute:
    if isinstance(move, Compute) or move.index is None or move.index.remap is not Remap.REFUSE:
        return move
    return replace(move, index=replace(move.index, remap=Remap.SKIP))


POISON_VALUES = (-1, 0xFFFF, 0xFFFFFFFF)
"""Values of an index in uninitialised memory."""

PROBLEMS = {
    "outside": "is outside the capacity of {capacity}",
    "negative": "is negative and counts as {unsigned}",
    "padding": "names padding of the tile",
}


def span_finding(instruction: Instruction, fault: SpanFault) -> Finding:
    """The finding on an address outside an operand."""
    message = f"{instruction.name}: {fault}"
    fix = f"pass a larger or packed {fault.operand}"
    return Finding("error", "CO-SEM-01", message, None, fault.operand, fix=fix, blocks=True)


def zero_finding(instruction: Instruction, fault: ZeroFault) -> Finding:
    """The finding on an integer divisor that is zero."""
    rule = instruction.reports.faults["zero"]
    message = f"{instruction.name}: integer division by zero: {fault}"
    return Finding("error", rule.rule, message, rule.kind, fault.operand, "a divisor without zeroes", "0", rule.fix)
