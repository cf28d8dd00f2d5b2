"""An instruction, verified and lowered once for all numbers of the run that lead to the same decisions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from typing import Any, cast

from ptokit.engine.prepared import memory_of
from ptokit.isa.dtype import DType
from ptokit.isa.move import Compute, Move
from ptokit.isa.operand import TensorSpec
from ptokit.program.calls import Sharing, call_of, sharing
from ptokit.program.expr import Expr, ExpressionError, Var, apply, evaluate
from ptokit.program.ir import Instr, Program
from ptokit.program.symbolic import Conditions, SymbolicNumber
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
    """Whether verification made a finding."""
    shared: Sharing
    """Which operands share memory because they are of one tile."""

    def holds(self, values: Mapping[Var, int]) -> bool:
        """Whether it is valid for these numbers."""
        return all(evaluate(condition, values) for condition in self.conditions)

    @property
    def code(self) -> Hashable:
        """All that its code is made from, but for the conditions."""
        return _content((self.steps, tuple(self.types.items()), tuple(self.spans.items()), self.shared))


def joined(variants: Iterable[Variant]) -> list[Variant]:
    """Variants of an instruction; those with the same code, and no findings, as one."""
    found: dict[Hashable, Variant] = {}
    for nth, each in enumerate(variants):
        key = nth if each.remarked else each.code
        found[key] = _either(found[key], each) if key in found else each
    return [*found.values()]


def _either(one: Variant, other: Variant) -> Variant:
    first, second = (reduce(lambda a, b: apply("and", a, b), each.conditions or (1,)) for each in (one, other))
    return replace(one, conditions=(apply("or", first, second),))


def _content(value: Any) -> Hashable:
    """Plain data, with run-time numbers as expressions."""
    if isinstance(value, SymbolicNumber):
        return value.expr
    if isinstance(value, tuple):
        return tuple(map(_content, cast("tuple[Any, ...]", value)))
    if is_dataclass(value) and not isinstance(value, DType):
        return type(value), *(_content(getattr(value, each.name)) for each in fields(value))
    return value


def trace(
    program: Program,
    instr: Instr,
    profile: Profile,
    options: Options,
    values: Mapping[Var, int],
    addresses: Mapping[str, Expr],
) -> Variant | None:
    """The variant that holds at `values`; None if the instruction is refused there, or could leave its operands.

    `addresses` are those of placed tiles.
    """
    conditions = Conditions()

    def resolve(expr: Expr) -> int:
        if isinstance(expr, int):
            return expr
        return SymbolicNumber(expr, evaluate(expr, values), conditions)  # type: ignore[return-value]

    try:
        call = call_of(program, instr, profile, resolve, addresses)
        findings = verify_call(call, profile, options)
        if any(finding.level == "error" for finding in findings):
            return None
        steps = call.instruction.lower(call)
        types, sizes = memory_of(call)
        if not all(_stays_inside(step, sizes) for step in steps):
            return None
    except (ExpressionError, KeyError):
        return None
    spans = {name: spec.span for name, spec in call.operands.items() if isinstance(spec, TensorSpec)}
    return Variant(steps, types, conditions.found, spans, bool(findings), sharing(instr, resolve))


def _stays_inside(step: Move | Compute, sizes: Mapping[str, int]) -> bool:
    """Whether every address lies within its operand, whatever the index values are."""
    if any(needed > sizes[operand] for operand, needed in step.spans):
        return False
    if isinstance(step, Compute) or step.index is None:
        return True
    index, indexed = step.index, step.indexed
    assert indexed is not None
    if index.capacity <= 0 or (index.cast and index.capacity > 0xFFFFFFFF):
        return False
    return indexed.layout.span(*index.reach(step.cols)) <= sizes[indexed.operand]
