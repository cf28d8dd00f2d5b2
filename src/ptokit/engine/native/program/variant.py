"""What an instruction does, worked out once for all numbers of the run that lead to the same decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptokit.engine.native.program.symbolic import Conditions, Number
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.dtype import DType
from ptokit.isa.instruction import Call
from ptokit.isa.move import Compute, Fill, Index, Move, Side, Unit
from ptokit.isa.operand import OperandSpec, ScalarSpec, TensorSpec
from ptokit.isa.spelling import TMP
from ptokit.program.calls import Sharing, all_operands, sharing, tensor_spec, tile_spec
from ptokit.program.expr import Expr, ExpressionError, Var, evaluate
from ptokit.program.ir import Instr, Operand, Program, TileUse, View
from ptokit.program.ir import Number as NumberOperand
from ptokit.program.verify_call import Options, verify_call
from ptokit.target import Profile

Steps = tuple[Move | Compute, ...]


@dataclass(frozen=True)
class Variant:
    """An instruction, verified and lowered, for all numbers that meet the conditions."""

    steps: Steps
    types: Mapping[str, DType]
    conditions: tuple[Expr, ...]
    spans: Mapping[str, int]
    """Elements of each view, from its first to its last."""
    remarked: bool
    """Whether verification had something to say, once."""
    shared: Sharing
    """Which operands share memory because they are of one tile."""

    def holds(self, values: Mapping[Var, int]) -> bool:
        """Whether it is right for these numbers."""
        return all(evaluate(condition, values) for condition in self.conditions)


class _TooMuch(Exception):
    """An address that leaves its operand, or an index that could: the reference engine looks at those itself."""


class Tracer:
    """Traces the instructions of a program at certain numbers."""

    def __init__(self, program: Program, profile: Profile, options: Options) -> None:
        self.program, self.profile, self.options = program, profile, options

    def trace(self, instr: Instr, values: Mapping[Var, int], placed: Mapping[str, Expr]) -> Variant | None:
        """The variant that holds at `values`; None where the instruction is refused there, or needs a closer look.

        `placed` are the addresses of tiles that have one.
        """
        conditions = Conditions()

        def resolve(expr: Expr) -> int:
            if isinstance(expr, int):
                return expr
            return Number(expr, evaluate(expr, values), conditions)  # type: ignore[return-value]

        try:
            call = self._call(instr, resolve, placed)
            findings = verify_call(call, self.profile, self.options)
            if any(finding.level == "error" for finding in findings):
                return None
            steps = call.instruction.lower(call)
            present = {name: spec for name, spec in call.operands.items() if spec is not None and name != TMP}
            _check_spans(steps, present)
        except (_TooMuch, ExpressionError, KeyError):
            return None
        types = {name: spec.dtype for name, spec in present.items()}
        spans = {name: spec.span for name, spec in present.items() if isinstance(spec, TensorSpec)}
        shared = sharing(instr, resolve)
        return Variant(steps, types, conditions.found, spans, bool(findings), shared)

    def _call(self, instr: Instr, resolve, placed: Mapping[str, Expr]) -> Call:
        definition = INSTRUCTIONS[instr.name]
        described: dict[str, OperandSpec | None] = dict.fromkeys(param.name for param in definition.operands)
        for name, operand in all_operands(instr).items():
            described[name] = self._spec(operand, resolve, placed)
        chosen = {modifier.name: value for modifier, value in zip(definition.modifiers, instr.modifiers, strict=True)}
        return Call(definition, described, chosen, self.profile.name, *sharing(instr, resolve).calls)

    def _spec(self, operand: Operand, resolve, placed: Mapping[str, Expr]) -> OperandSpec:
        if isinstance(operand, TileUse):
            address = resolve(placed[operand.tile]) if operand.tile in placed else None
            return tile_spec(self.program.tiles[operand.tile].spec, operand, resolve, address)
        if isinstance(operand, View):
            return tensor_spec(self.program.tensors[operand.argument], operand, resolve)
        if isinstance(operand, NumberOperand) and operand.steers:
            return ScalarSpec(operand.dtype, resolve(operand.value))
        return ScalarSpec(operand.dtype)


def _check_spans(steps: Steps, specs: Mapping[str, OperandSpec]) -> None:
    """Every address lies within its operand, whatever the index says."""
    sizes = {name: s.span if isinstance(s, TensorSpec) else s.elements for name, s in specs.items()}

    def require(operand: str, needed: int) -> None:
        if needed > sizes[operand]:
            raise _TooMuch

    for step in steps:
        if isinstance(step, Compute):
            require(step.dst.operand, step.dst.layout.span(*step.shape))
            for each in step.inputs:
                require(each.operand, each.layout.span(*each.shape))
            continue
        steered = step.index.side if step.index else None
        if steered is not Side.DST:
            require(step.dst.operand, step.dst.layout.span(*step.shape))
        if steered is not Side.SRC and not isinstance(step.src, Fill):
            require(step.src.operand, step.src.layout.span(*step.shape))
        if step.index is not None:
            _check_index(step, step.index, require)


def _check_index(move: Move, index: Index, require) -> None:
    lanes = index.access.layout
    require(index.access.operand, lanes.span(move.rows, move.cols if lanes.cols or index.unit is not Unit.ROW else 1))
    assert not isinstance(move.src, Fill)
    steered = move.src if index.side is Side.SRC else move.dst
    if index.capacity <= 0 or (index.cast and index.capacity > 0xFFFFFFFF):
        raise _TooMuch
    require(steered.operand, _reach(index, steered.layout, move.cols))


def _reach(index: Index, layout, cols: int) -> int:
    """Elements that index values below the capacity can name."""
    if index.unit is Unit.ROW:
        return layout.span(index.capacity, cols)
    if not (isinstance(index.width, int) and index.width == 0):
        return layout.span(-(-index.capacity // index.width), index.width)
    return layout.span(1, index.capacity)
