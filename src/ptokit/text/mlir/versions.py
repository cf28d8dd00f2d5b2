"""What two versions of the assembler's grammar say differently: `0.27`, and `new`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ptokit.isa.instruction import Instruction, Modifier
from ptokit.text.mlir.attributes import KEYWORD_CLASSES, KeywordAttr
from ptokit.text.mlir.comments import Comments
from ptokit.text.mlir.dialect import op_class
from ptokit.text.mlir.ops import INSIDE, PtoOp
from ptokit.text.mlir.types import TileBufType
from ptokit.text.results import default_of
from ptokit.text.spelling import instruction_of

RENAMED = {"pto.load_scalar": "pto.load", "pto.store_scalar": "pto.store"}
"""Ops by their name in 0.27, with their name in the newer grammar."""


def restate(op: Operation, version: str, names: dict[SSAValue, str], comments: Comments) -> str | None:
    """Change an op to the spelling of a version. Gives what the version cannot say, if anything."""
    if not isinstance(op, PtoOp) or op.is_generic:
        return None
    renamed = RENAMED if version == "new" else {new: old for old, new in RENAMED.items()}
    if op.name in renamed:
        _rename(op, renamed[op.name], names, comments)
        return None
    instruction = instruction_of(op.name.removeprefix("pto."))
    if instruction is None:
        return None
    if version == "new":
        return _to_new(op, instruction)
    if instruction.form.newer_inside and INSIDE in op.properties:
        return f"version 0.27 has no mask form of {instruction.op}"
    return _to_old(op, instruction)


def _rename(op: PtoOp, name: str, names: dict[SSAValue, str], comments: Comments) -> None:
    other = op_class(name.removeprefix("pto.")).create(
        operands=op.operands, result_types=op.result_types, properties=op.properties, attributes=op.attributes,
        location=op.location,
    )  # fmt: skip
    block = op.parent_block()
    if block is None:
        return
    block.insert_op_before(other, op)
    for old, new in zip(op.results, other.results, strict=True):
        old.replace_all_uses_with(new)
        if old in names:
            names[new] = names[old]
    comments.move(op, other)
    block.detach_op(op)
    op.erase()


def _to_new(op: PtoOp, instruction: Instruction) -> None:
    """The newer grammar always writes some attributes: their default follows from the operands (A-25, A-69)."""
    for modifier, text in instruction.attributes:
        if text.always and text.key not in op.attributes:
            member = default_of(instruction, modifier, [value.type for value in _sources(op)])
            if member is not None:
                op.attributes[text.key] = KEYWORD_CLASSES[text.kind](str(text.written(member)))


def _to_old(op: PtoOp, instruction: Instruction) -> str | None:
    """0.27 does not have some attributes and operands: a default is left out, all else is refused."""
    newer = [(modifier, text) for modifier, text in instruction.attributes if text.newer]
    optional = [param for param in instruction.operands if param.optional]
    if newer and optional and len(_sources(op)) >= len(instruction.operands) - 1:
        return f"version 0.27 has no {optional[0].name} operand of {instruction.op}"
    for modifier, text in reversed(newer):
        written, usual = op.attributes.get(text.key), modifier.fixed_default
        if not isinstance(written, KeywordAttr):
            continue
        if usual is not None and written.data != usual.text:
            return f"version 0.27 has no {text.key}, here `{written.data}`"
        if usual is None and written.data != _unsaid(op, instruction, modifier):
            said = f"version 0.27 has no {text.key}, and {instruction.op} without it does not mean"
            return f"{said} `{written.data}` here"
    for _, text in newer:
        op.attributes.pop(text.key, None)
    return None


def _unsaid(op: PtoOp, instruction: Instruction, modifier: Modifier) -> str | None:
    """The default of a modifier for the operands of an op."""
    if modifier.text is None or not modifier.text.always:
        return _shape_mode(op)
    member = default_of(instruction, modifier, [value.type for value in _sources(op)])
    return member.text if member is not None else None


def _sources(op: PtoOp) -> Sequence[SSAValue]:
    """What an op reads, in either form."""
    return op.part("ins") or op.part("args")


def _shape_mode(op: PtoOp) -> str | None:
    """The mode that the shapes of a scatter state: one column of indices is for rows, a whole tile for elements."""
    kinds = [value.type.data for value in _sources(op)[:2] if isinstance(value.type, TileBufType)]
    if len(kinds) < 2:
        return None
    data, index = kinds
    if (data.rows, data.cols) == (index.rows, index.cols) and data.cols != 1:
        return "elem"
    return "row" if index.cols == 1 and index.rows == data.rows else None
