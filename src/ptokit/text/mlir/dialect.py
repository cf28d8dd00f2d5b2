"""The dialect `pto`: one table row for the text of each op. Unknown ops in a general shape are read as well."""

from __future__ import annotations

import re
from dataclasses import replace

from ptokit.isa.catalog import derived
from ptokit.isa.instruction import Instruction
from ptokit.text.errors import Problem
from ptokit.text.mlir.ir import UNKNOWN, Attributes, MlirOp, OpForm, SsaValue, Type
from ptokit.text.mlir.parser import Parser
from ptokit.text.mlir.pieces import OpDraft, shape
from ptokit.text.mlir.shapes import Destinations, Row
from ptokit.text.mlir.types import I64, INDEX, TileBuf, element_of, ptr_type, with_tile
from ptokit.text.mlir.verbatim import VERBATIM, ends_op
from ptokit.text.ops import PTO_SHAPES, RESULT_TYPES
from ptokit.text.spelling import attributes_of, instruction_of, instructions
from ptokit.text.tiles import part_extent

PLAIN = """
    tprefetch trandom
    tpack
    tsetval tgetval tprint print
"""
"""Ops of the general shape, `ins(...) outs(...)`, besides those that are instructions."""


def subset_type(parts: dict[str, list[SsaValue]], attributes: Attributes) -> Type:
    """The type of a window of a tile: its sizes and its valid region."""
    (tile,) = parts["tile"]
    type_, sizes = tile.type, attributes["sizes"].value
    if not isinstance(type_.data, TileBuf):
        return type_
    whole, offsets = type_.data, parts.get("offsets", [])
    if len(sizes) != 2 or len(offsets) != 2:
        raise ValueError("subset takes two offsets and two sizes, as in `%t[%i, %j] sizes [16, 16]`")
    (rows, cols), (row, col) = sizes, map(_constant, offsets)
    v_row, v_col = part_extent(rows, whole.v_row, row), part_extent(cols, whole.v_col, col)
    return with_tile(type_, replace(whole, rows=rows, cols=cols, v_row=v_row, v_col=v_col))


def _constant(value: SsaValue) -> int | None:
    if value.op is None or value.op.name != "arith.constant":
        return None
    number = value.op.properties.get("value")
    return int(number.value) if number is not None and isinstance(number.value, int) else None


RESULTS = {**{name: Type(kind) for name, kind in RESULT_TYPES.items()}, "subset": subset_type}
"""Types of results that the text does not say."""


def _implied(name: str, draft: OpDraft) -> Type | None:
    """The type of an operand that is used before it is defined and whose type the text does not say."""
    if name == "ptr" and draft.results:
        element = element_of(draft.results[0])
        return ptr_type(element) if element is not None else None
    return I64 if name in ("addr", "addrs") else None if name in ("args", "ins", "outs") else INDEX


@derived
def rows() -> dict[str, Row]:
    """The text of every op that is known, by its name without `pto.`."""
    shapes = {name: shape(text) for name, text in PTO_SHAPES.items()}
    shapes |= {name: (Destinations(),) for name in PLAIN.split()}
    others = {name: Row(pieces, _implied, RESULTS.get(name)) for name, pieces in shapes.items()}
    return others | {op: _instruction(instruction) for op, instruction in instructions().items()}


def _instruction(instruction: Instruction) -> Row:
    """The row of an instruction: where its attributes stand, in the order of its modifiers."""
    form, known = instruction.text, [text for _, text in attributes_of(instruction)]
    inside = tuple(dict.fromkeys((*form.inside, *(text.key for text in known if text.inside))))
    behind = tuple(text.key for text in known if not text.inside)
    piece = Destinations(form.clauses, form.typed_each, inside, form.listed, one_type=form.one_type)
    return Row((piece,), _implied, order=behind if len(behind) > 1 else ())


class UnknownOp(Row):
    """An op that is not in the table: of the general shape, or kept as written."""

    def read(self, c: Parser, name: str) -> MlirOp:
        start, behind, is_general = c.start, c.behind, c.word in ("ins", "outs")
        known = len(c.forward)
        try:
            op = super().read(c, name)
        except Problem:
            if is_general or c.spent > c.most:
                raise
        else:
            if ends_op(c) and all(value.type != UNKNOWN for value in op.results):
                return op
        while len(c.forward) > known:
            c.forward.popitem()
        c.jump(start)
        c.behind = behind
        return VERBATIM.read(c, name)


UNKNOWN_OP = UnknownOp((Destinations(bare=True),), _implied)


def form_of(name: str) -> OpForm:
    """What reads and prints an op: of the table, or an unknown one."""
    return rows().get(name, UNKNOWN_OP)


_USAGE = {
    r"\(\? ": "[", r" \?\)": "]", r"%(\w+)\*": r"%\1, ...", r"[~^]\w+|~?\bR\b": "TYPE", r"#\w+\|": "NUMBER or ",
    r"#sizes:ints": "[16, 16]",
    r"@\w+\|": "@tile(0x1000) or ", r"#\w+:(\w+)!?": r"<\1>", r"\{!?[\w:,]*\}": "{...}", "region": "{ ... }",
    "keyed": "(NAME = %x : TYPE, ...)", "assigned": ": TYPE -> TYPE", r" ,": ",",
}  # fmt: skip


def usage(name: str) -> str:
    """How an op of the table is written."""
    if name not in rows():
        return ""
    text = PTO_SHAPES.get(name, "")
    for pattern, meaning in _USAGE.items():
        text = re.sub(pattern, meaning, text)
    return f"pto.{name} is written: pto.{name} {text or 'ins(%a, ... : TYPE, ...) outs(%b : TYPE) {...}'}"


def settle_pto(op: MlirOp) -> None:
    """Give an op in generic form the parts of the general shape, where these are certain."""
    name = op.name.removeprefix("pto.")
    row, instruction = rows().get(name), instruction_of(name)
    piece = row.pieces[0] if row is not None else None
    sized = "operandSegmentSizes" in op.properties or "operandSegmentSizes" in op.attributes
    if row is None or not isinstance(piece, Destinations) or sized or op.results or op.regions or op.successors:
        return
    operands = op.operands
    count = len(operands)
    is_reordered = instruction is not None and instruction.text.reordered
    if count < 2 or (is_reordered and count != 2) or name in ("tprint", "print") or _has_optional(instruction, count):
        return
    draft = OpDraft(attributes={**op.properties, **op.attributes})
    piece.settle(draft)
    op.form, op.properties, op.attributes = row, draft.properties, draft.attributes
    op.parts = {"ins": operands[:-1], "outs": operands[-1:]}


def _has_optional(instruction: Instruction | None, count: int) -> bool:
    """Whether an optional operand follows the destination."""
    needed = [param for param in instruction.operands if not param.optional] if instruction else []
    return instruction is not None and len(needed) < len(instruction.operands) and count != len(needed)
