"""A verified and lowered call, and how it runs: indices checked, hazards told, and only then anything written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ptokit.engine.lanes import IndexFault, IndexReport, Lanes, SpanFault, ZeroFault
from ptokit.engine.reference import Plan
from ptokit.engine.storage import Storage
from ptokit.finding import Finding, Level, OutOfBoundsError, VerifyError
from ptokit.isa.instruction import Call, Instruction
from ptokit.isa.move import Compute, Move, Remap
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import PtoEnum
from ptokit.isa.spelling import TMP
from ptokit.program.verify_call import Options, verify_call
from ptokit.target import Profile

Tell = Callable[[Sequence[Finding]], tuple[Finding, ...]]
"""Takes findings to the user, and gives them back, with their place where they had none."""

Instead = Callable[[Plan, Sequence[Lanes | None]], None]


class Prepared:
    """A call that was verified and lowered once, ready for any operands of the same description."""

    def __init__(
        self,
        instruction: Instruction,
        profile: Profile,
        options: Options,
        specs: Sequence[OperandSpec],
        modifiers: Sequence[object],
        repeats: frozenset[str] = frozenset(),
        clashes: frozenset[tuple[str, str]] = frozenset(),
        workspace: OperandSpec | None = None,
    ) -> None:
        """`repeats` are operands that are an earlier one once more, `clashes` pairs of slices that overlap."""
        self.instruction = instruction
        self.target = profile.name
        self.strict = options.strict
        self.names = tuple(param.name for param in instruction.operands)[: len(specs)]
        self.plan: Plan | None = None
        self.stored: tuple[int, ...] = ()
        """Positions of the global tensors that it writes."""
        self.route = ""
        self.call: Call | None = None
        """What was verified; None where a modifier is none."""
        chosen, self.refused = parse_modifiers(instruction, modifiers)
        self.remarks: tuple[Finding, ...] = ()
        if not self.refused:
            call = Call(instruction, self._described(specs, workspace), chosen, profile.name, repeats, clashes)
            self._prepare(call, profile, options)
        in_place = instruction.in_place.get(profile.name) or "shared" in instruction.faults
        has_slices = any(isinstance(spec, TileSpec) and spec.is_slice for spec in (*specs, workspace))
        minds = instruction.minds_repeats or workspace is not None
        self.minds_repeats = self.plan is None or not in_place or minds or has_slices
        """Whether it matters that an operand is an earlier one once more: for its memory, or for the result."""

    def _described(self, specs: Sequence[OperandSpec], workspace: OperandSpec | None) -> dict[str, OperandSpec | None]:
        described: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in self.instruction.operands)
        described.update(zip(self.names, specs, strict=True))
        return described if workspace is None else {**described, TMP: workspace}

    def _prepare(self, call: Call, profile: Profile, options: Options) -> None:
        self.call = call
        findings = tuple(verify_call(call, profile, options))
        self.refused = tuple(f for f in findings if f.level == "error")
        self.remarks = tuple(f for f in findings if f.level != "error")
        if self.refused:
            return
        self.route = call.route
        try:
            self.plan = plan_of(call)
            self.stored = tuple(k for k in self.plan.written if isinstance(call.operands[self.names[k]], TensorSpec))
        except SpanFault as fault:
            upheld = tuple(replace(f, level="error") for f in self.remarks if f.level == "hazard")
            self.refused = upheld or (span_finding(self.instruction, fault),)

    def run(self, storages: Sequence[Storage], tell: Tell, instead: Instead | None = None) -> tuple[Finding, ...]:
        """Execute over the operands' memories; what was found on the way. A call that raises has written nothing.

        `instead` is given the lanes that were read and checked, and nothing moves.
        """
        plan = self.plan
        if plan is None:
            raise VerifyError(tell(self.refused))
        told = tell(self.remarks) if self.remarks else ()
        for slot in plan.written:
            if not storages[slot].writable:
                raise ValueError(f"{self.instruction.name}: {self.names[slot]} is read-only; pass a writable array")
        try:
            lanes, reports = plan.resolve(storages)
            if reports:
                told += self._judge(reports, tell)
            if instead is not None:
                instead(plan, lanes)
            elif plan.run(storages, lanes) == "in order":
                told += tell(shared_memory(self.instruction, plan))
        except IndexFault as fault:
            raise OutOfBoundsError(tell((self.index_finding(fault.report, "error"),))) from None
        except ZeroFault as fault:
            raise VerifyError(tell((zero_finding(self.instruction, fault),))) from None
        except SpanFault as fault:
            raise OutOfBoundsError(tell((span_finding(self.instruction, fault),))) from None
        return told

    def _judge(self, reports: Sequence[IndexReport], tell: Tell) -> tuple[Finding, ...]:
        """Report odd index values; under `strict` they refuse the call."""
        level: Level = "error" if self.strict else "hazard"
        placed = tell([self.index_finding(report, level) for report in reports])
        if self.strict:
            raise VerifyError(placed)
        return placed

    def index_finding(self, report: IndexReport, level: Level) -> Finding:
        """What is said of an odd index value."""
        faults = self.instruction.faults
        below = report.kind == "outside" and report.value < 0 and faults.get("below")
        fault = below or faults[report.kind]
        position = ", ".join(map(str, report.lane))
        said = SAYINGS[report.kind].format(capacity=report.capacity, unsigned=report.value & 0xFFFFFFFF)
        more = f" (and {report.count - 1} more)" if report.count > 1 else ""
        poison = " (what memory reads as that nobody has written)" if report.value in POISON else ""
        subject = f"{self.instruction.name} on {self.target}: {report.operand}[{position}] = {report.value}"
        expected, found = f"an index below {report.capacity}", str(report.value)
        message = f"{subject} {said}{more}{poison}"
        rule = fault.clause(self.target)
        return Finding(level, rule, message, fault.kind, report.operand, expected, found, fault.fix, target=self.target)


def plan_of(call: Call, *, tolerant: bool = False) -> Plan:
    """The moves and computations of a call; a `tolerant` one passes over indices that it would have to refuse."""
    moves = call.instruction.lower(call)
    if tolerant:
        moves = tuple(map(_tolerant, moves))
    present = {name: spec for name, spec in call.operands.items() if spec is not None and name != TMP}
    sizes = {name: s.span if isinstance(s, TensorSpec) else s.elements for name, s in present.items()}
    return Plan(moves, {name: s.dtype for name, s in present.items()}, sizes)


def _tolerant(move: Move | Compute) -> Move | Compute:
    if isinstance(move, Compute) or move.index is None or move.index.remap is not Remap.REFUSE:
        return move
    return replace(move, index=replace(move.index, remap=Remap.SKIP))


def parse_modifiers(
    instruction: Instruction, given: Sequence[object]
) -> tuple[dict[str, PtoEnum | None], tuple[Finding, ...]]:
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


POISON = (-1, 0xFFFF, 0xFFFFFFFF)
"""What an index that was never written reads as."""

SAYINGS = {
    "outside": "is outside the capacity of {capacity}",
    "negative": "is negative and counts as {unsigned}",
    "padding": "names padding of the tile",
}


def shared_memory(instruction: Instruction, plan: Plan) -> tuple[Finding, ...]:
    """A remark on operands that share memory, where a decision speaks of it."""
    fault = instruction.faults.get("shared")
    message = f"{instruction.name}: operands share memory; lanes took effect one after the other, {plan.order}"
    return (Finding("note", fault.rule, message, fault.kind, fix=fault.fix),) if fault else ()


def span_finding(instruction: Instruction, fault: SpanFault) -> Finding:
    """What is said of an address outside an operand."""
    message = f"{instruction.name}: {fault}"
    return Finding("error", "CO-SEM-01", message, None, fault.operand, fix=f"pass a larger or packed {fault.operand}")


def zero_finding(instruction: Instruction, fault: ZeroFault) -> Finding:
    """What is said of an integer divisor that is zero."""
    said = instruction.faults["zero"]
    message = f"{instruction.name}: integer division by zero: {fault}"
    return Finding("error", said.rule, message, said.kind, fault.operand, "a divisor without zeroes", "0", said.fix)
