"""The dialect `pto`: one table row for the text of each op. Unknown ops in a general shape are read as well."""

from __future__ import annotations

import re
from dataclasses import replace

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, i64
from xdsl.ir import Attribute, Dialect, Operation, OpResult, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import ParseError

from ptokit.isa.catalog import derived
from ptokit.isa.instruction import Instruction
from ptokit.text.mlir.attributes import ATTRIBUTES
from ptokit.text.mlir.destinations import Destinations
from ptokit.text.mlir.loose import ends_op, loose_class
from ptokit.text.mlir.ops import SEGMENTS, Draft, PtoOp, SegmentsAttr
from ptokit.text.mlir.shapes import Row, shape
from ptokit.text.mlir.types import TYPES, UNKNOWN, Extent, PtrType, TileBuf, TileBufType, TileType, element_of
from ptokit.text.spelling import instruction_of, instructions

SHAPES = {
    "addptr": "%ptr , %offset {} : ~ptr -> ~R",
    "make_tensor_view": "%ptr , shape = [ %shape* ] , strides = [ %strides* ] {} : R",
    "partition_view": "%view , offsets = [ %offsets* ] , sizes = [ %sizes* ] {} : ^view -> R",
    "get_tensor_view_dim": "%view , %dim {} : ^view -> R",
    "alloc_tile": "(? addr = %addr ?) (? valid_row = %valid_row ?) (? valid_col = %valid_col ?) {} : R",
    "tassign": "%tile , @addr|%addr {} assigned",
    "declare_tile": "{} -> R",
    "set_validshape": "%tile , %row , %col {} : ^tile",
    "subset": "%tile [ %offsets* ] sizes #sizes:ints {} : ^tile",
    "treshape bitcast": "%tile {} : ^tile -> R",
    "bind_tile": "%source (? , %row , %col ?) {} : ^source -> R",
    "pointer_cast": "( %addrs* ) (? [ %valid* ] ?) {} : R",
    "load_scalar load": "%ptr [ %index ] {} : ^ptr -> R",
    "store_scalar store": "%value , %ptr [ %index ] {} : ^ptr , ^value",
    "set_flag wait_flag": "[ #src_pipe:pipe , #dst_pipe:pipe , #event_id:event ] {}",
    "set_flag_dyn wait_flag_dyn": "[ #src_pipe:pipe , #dst_pipe:pipe , %event_id ] {}",
    "record_event wait_event": "[ #src_op:pipe_event_type! , #dst_op:pipe_event_type! , #event_id:event ] {}",
    "barrier": "#pipe:pipe {}",
    "barrier_sync": "[ #op_type:pipe_event_type ] {}",
    "sync.set sync.wait": "#pipe:pipe , #event_id|%event_id {}",
    "get_buf rls_buf": "[ #op_type:pipe_event_type! , #buf_id:int (? , #mode:int ?) ] {}",
    "get_block_idx get_block_num get_subblock_idx get_subblock_num trap": "{}",
    "declare_eventid_array": "{} -> R",
    "eventid_array_set": "%array [ %index ] , %value {} : ^array",
    "eventid_array_get": "%array [ %index ] {} : ^array",
    "section.cube section.vector": "region",
    "tpush_to_aiv tpush_to_aic": "( %tile : ^tile ) {!}",
    "tpop_from_aic tpop_from_aiv": "(? ( %valid* ) ?) {!} -> R",
    "tfree_from_aic tfree_from_aiv": "{!}",
    "reserve_buffer import_reserved_buffer": "{!} -> R",
    "aic_initialize_pipe aiv_initialize_pipe": "{!} keyed",
}
"""Ops with a shape of their own; see `shapes.py` for the language."""

VARIANTS = {"tgatherb": Destinations(one_type=True), "tmrgsort": Destinations(inside=("exhausted",))}
"""Ops of the general shape that differ from it in something, and are no instructions."""

PLAIN = """
    tprefetch tstore_fp tinsert textract_fp tinsert_fp ttri trandom
    tnot trelu tcolprod tpack
    tfillpad tfillpad_inplace tfillpad_expand
    tfmod tpartadd tpartmul tpartmax tpartmin
    tcolexpandexpdif tconcat
    tfmods taxpy tlrelu
    trowprod trowargmax trowargmin tcolargmax tcolargmin
    trem txor tprelu trems txors
    trowexpandexpdif trsqrt tsort32
    taddc tsubc taddsc tsubsc
    tmatmul.mx tmatmul.mx.acc tmatmul.mx.bias
    tgemv tgemv.acc tgemv.bias tgemv.mx tgemv.mx.acc tgemv.mx.bias
    tsetval tgetval tquant tdequant tprint print
"""
"""Ops of the general shape, `ins(...) outs(...)`, besides those that are instructions."""

REORDERED = {"trsqrt", "tsort32", "tmrgsort"}
"""Ops besides instructions whose generic form may list operands in another order than sources, destination."""


def subset_type(parts: dict[str, list[SSAValue]], attributes: dict[str, Attribute]) -> Attribute:
    """The type of a window of a tile: its sizes, and what of it is valid."""
    (tile,) = parts["tile"]
    sizes = attributes["sizes"]
    kind = tile.type
    if not isinstance(kind, TileBufType | TileType) or not isinstance(kind.data, TileBuf):
        return kind
    if not isinstance(sizes, ArrayAttr):
        return kind
    whole = kind.data
    if len(sizes) != 2 or len(parts.get("offsets", ())) != 2:
        raise ValueError("subset takes two offsets and two sizes, as in `%t[%i, %j] sizes [16, 16]`")
    rows, cols = (int(size.value.data) for size in sizes.data)
    row, col = (_constant(value) for value in parts.get("offsets", []))
    v_row, v_col = _window(rows, whole.v_row, row), _window(cols, whole.v_col, col)
    return type(kind)(replace(whole, rows=rows, cols=cols, v_row=v_row, v_col=v_col))


def _constant(value: SSAValue) -> int | None:
    owner = value.op if isinstance(value, OpResult) else None
    if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr):
        return int(owner.value.value.data)
    return None


def _window(size: int, extent: Extent, offset: int | None) -> Extent:
    """How much of a window is valid, in one direction."""
    if extent is None or offset is None:
        return None
    return min(size, extent - offset % extent) if extent else 0


RESULTS = {
    **dict.fromkeys(("get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num"), i64),
    "eventid_array_get": IndexType(),
    "subset": subset_type,
}
"""Types of results that the text does not say."""


def _implied(name: str, draft: Draft) -> Attribute | None:
    """The type of an operand that is used before it is defined and whose type the text does not say."""
    if name == "ptr" and draft.results:
        element = element_of(draft.results[0])
        return PtrType((element, "")) if element is not None else None
    return i64 if name in ("addr", "addrs") else None if name in ("args", "ins", "outs") else IndexType()


@derived
def rows() -> dict[str, Row]:
    """The text of every op that is known, by its name without `pto.`."""
    shapes = {name: shape(text) for names, text in SHAPES.items() for name in names.split()}
    shapes |= {name: (Destinations(),) for name in PLAIN.split()}
    shapes |= {name: (piece,) for name, piece in VARIANTS.items()}
    others = {name: Row(pieces, _implied, RESULTS.get(name)) for name, pieces in shapes.items()}
    return others | {op: _instruction(instruction) for op, instruction in instructions().items()}


def _instruction(instruction: Instruction) -> Row:
    """The row of an instruction: where its attributes stand, in the order of its modifiers."""
    form, known = instruction.form, [text for _, text in instruction.attributes]
    inside = (*form.inside, *(text.key for text in known if text.inside))
    behind = tuple(text.key for text in known if not text.inside)
    piece = Destinations(form.clauses, form.typed_each, inside, form.listed, one_type=form.one_type)
    return Row((piece,), _implied, order=behind if len(behind) > 1 else ())


class UnknownOp(PtoOp):
    """An op that is not in the table: of the general shape, or else kept as it is written."""

    @classmethod
    def parse(cls, parser: Parser) -> Operation:  # type: ignore[override]
        start = parser.pos
        general = parser._current_token.text in ("ins", "outs")
        try:
            op = super().parse(parser)
        except ParseError:
            if general:
                raise
        else:
            if ends_op(parser) and UNKNOWN not in op.result_types:
                return op
            op.erase()
        parser._resume_from(start)
        return loose_class(cls.name).parse(parser)


_USAGE = {
    r"\(\? ": "[", r" \?\)": "]", r"%(\w+)\*": r"%\1, ...", r"[~^]\w+|~?\bR\b": "TYPE", r"#\w+\|": "NUMBER or ",
    r"#sizes:ints": "[16, 16]",
    r"@\w+\|": "@tile(0x1000) or ", r"#\w+:(\w+)!?": r"<\1>", r"\{!?\}": "{...}", "region": "{ ... }",
    "keyed": "(NAME = %x : TYPE, ...)", "assigned": ": TYPE -> TYPE", r" ,": ",",
}  # fmt: skip


def usage(name: str) -> str:
    """How an op of the table is written."""
    text = next((text for names, text in SHAPES.items() if name in names.split()), "")
    for pattern, meaning in _USAGE.items():
        text = re.sub(pattern, meaning, text)
    if name not in rows():
        return ""
    return f"pto.{name} is written: pto.{name} {text or 'ins(%a, ... : TYPE, ...) outs(%b : TYPE) {...}'}"


@derived
def op_class(name: str) -> type[PtoOp]:
    """The class of an op: of the table, or an unknown one of the general shape."""
    row = rows().get(name, Row((Destinations(bare=True),), _implied))
    base = PtoOp if name in rows() else UnknownOp
    traits = traits_def(NoTerminator()) if name.startswith("section.") else traits_def()
    body = {"name": f"pto.{name}", "row": row, "traits": traits, "__doc__": f"The op `pto.{name}`."}
    return type(f"pto.{name}", (base,), body)  # type: ignore[return-value]


def settle_generic(op: PtoOp) -> None:
    """Give an op in generic form the parts of the general shape, where these are certain."""
    name = op.name.removeprefix("pto.")
    piece = rows()[name].pieces[0] if name in rows() else None
    sized = "operandSegmentSizes" in op.properties or "operandSegmentSizes" in op.attributes
    if not isinstance(piece, Destinations) or sized or op.results or op.regions or op.successors:
        return
    count, instruction = len(op.operands), instruction_of(name)
    is_reordered = name in REORDERED or (instruction is not None and instruction.form.reordered)
    if count < 2 or (is_reordered and count != 2) or name in ("tprint", "print") or _has_optional(instruction, count):
        return
    draft = Draft(attributes={**op.properties, **op.attributes})
    piece.settle(draft)
    op.properties, op.attributes = draft.properties, draft.attributes
    op.properties[SEGMENTS] = SegmentsAttr((("ins", count - 1), ("outs", 1)))


def _has_optional(instruction: Instruction | None, count: int) -> bool:
    """Whether an optional operand follows the destination."""
    needed = [param for param in instruction.operands if not param.optional] if instruction else []
    return instruction is not None and len(needed) < len(instruction.operands) and count != len(needed)


PTO = Dialect("pto", [op_class(name) for name in rows()], [*ATTRIBUTES, *TYPES])
