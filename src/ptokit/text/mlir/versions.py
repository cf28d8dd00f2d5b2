"""What two versions of the assembler's grammar say differently: `0.27`, and `new`."""

from __future__ import annotations

from copy import copy

from ptokit.isa.instruction import Instruction, Modifier
from ptokit.isa.policy import PtoEnum
from ptokit.text.errors import Problem
from ptokit.text.mlir.attributes import keyword
from ptokit.text.mlir.dialect import form_of
from ptokit.text.mlir.ir import Attributes, MlirOp, SsaValue
from ptokit.text.mlir.pieces import INSIDE
from ptokit.text.mlir.types import type_of
from ptokit.text.spelling import default_of, instruction_of

RENAMED = {"pto.load_scalar": "pto.load", "pto.store_scalar": "pto.store"}
"""Ops by their name in 0.27, with their name in the newer grammar."""


def restated(op: MlirOp, version: str) -> MlirOp:
    """An op in the spelling of a version: itself, or a copy."""
    if not op.is_pto or op.form is None:
        return op
    renamed = RENAMED if version == "new" else {new: old for old, new in RENAMED.items()}
    if op.name in renamed:
        other = copy(op)
        other.name = renamed[op.name]
        other.form = form_of(other.name.removeprefix("pto."))
        return other
    instruction = instruction_of(op.name.removeprefix("pto."))
    if instruction is None:
        return op
    if version == "new":
        return _new(op, instruction)
    if instruction.form.newer_inside and INSIDE in op.properties:
        raise Problem(f"version 0.27 has no mask form of {instruction.op}", op.offset)
    return _old(op, instruction)


def _new(op: MlirOp, instruction: Instruction) -> MlirOp:
    """The newer grammar always writes some attributes: their default follows from the operands (A-25, A-69)."""
    added: Attributes = {}
    for modifier, text in instruction.attributes:
        if text.always and text.key not in op.attributes:
            member = _default(op, instruction, modifier)
            if member is not None:
                added[text.key] = keyword(text.kind, str(text.written(member)))
    return _with(op, {**op.attributes, **added}) if added else op


def _old(op: MlirOp, instruction: Instruction) -> MlirOp:
    """0.27 does not have some attributes and operands: a default is left out, all else is refused."""
    newer = [(modifier, text) for modifier, text in instruction.attributes if text.newer]
    optional = [param for param in instruction.operands if param.optional]
    if newer and optional and len(_sources(op)) >= len(instruction.operands) - 1:
        raise Problem(f"version 0.27 has no {optional[0].name} operand of {instruction.op}", op.offset)
    for modifier, text in reversed(newer):
        written, usual = _word(op, text.key), modifier.fixed_default
        if not written:
            continue
        if usual is not None and written != usual.text:
            raise Problem(f"version 0.27 has no {text.key}, here `{written}`", op.offset)
        default = _default(op, instruction, modifier)
        if usual is None and (default is None or written != default.text):
            message = f"version 0.27 has no {text.key}, and {instruction.op} without it does not mean `{written}` here"
            raise Problem(message, op.offset)
    left_out = {text.key for _, text in newer}
    return _with(op, {name: value for name, value in op.attributes.items() if name not in left_out})


def _with(op: MlirOp, attributes: Attributes) -> MlirOp:
    other = copy(op)
    other.attributes = attributes
    return other


def _default(op: MlirOp, instruction: Instruction, modifier: Modifier) -> PtoEnum | None:
    """The default of a modifier for the operands of an op."""
    return default_of(instruction, modifier, [type_of(value.type) for value in _sources(op)])


def _word(op: MlirOp, name: str) -> str:
    """The keyword of an attribute, if it has one."""
    value = op.attributes.get(name)
    return str(value.value) if value is not None and value.short.startswith("<") else ""


def _sources(op: MlirOp) -> list[SsaValue]:
    """What an op reads, in either form."""
    return op.part("ins") or op.part("args")
