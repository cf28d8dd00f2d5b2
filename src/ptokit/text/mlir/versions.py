"""What two versions of the assembler's grammar say differently: `0.27`, and `new`."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ptokit.text.mlir.attributes import KEYWORD_CLASSES, KeywordAttr
from ptokit.text.mlir.comments import Comments
from ptokit.text.mlir.dialect import op_class
from ptokit.text.mlir.shapes import INSIDE, PtoOp
from ptokit.text.mlir.types import TileBufType

RENAMED = {"pto.load_scalar": "pto.load", "pto.store_scalar": "pto.store"}
"""Ops by their name in 0.27, with their name in the newer grammar."""


def restate(op: Operation, version: str, names: dict[SSAValue, str], comments: Comments) -> str | None:
    """Change an op to the spelling of a version. Gives what the version cannot say, if anything."""
    if not isinstance(op, PtoOp) or op.is_generic:
        return None
    renamed = RENAMED if version == "new" else {new: old for old, new in RENAMED.items()}
    if op.name in renamed:
        _rename(op, renamed[op.name], names, comments)
    elif op.name in ("pto.mgather", "pto.mscatter"):
        return _to_new(op) if version == "new" else _to_old(op)
    elif op.name == "pto.tscatter" and version != "new" and INSIDE in op.properties:
        return "version 0.27 has no mask form of tscatter"
    return None


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


def _to_new(op: PtoOp) -> None:
    """The newer grammar always says the mode of mgather."""
    if op.name == "pto.mgather" and "coalesce" not in op.attributes and (mode := shape_mode(op)) is not None:
        op.attributes["coalesce"] = KEYWORD_CLASSES["coalesce"](mode)


def _to_old(op: PtoOp) -> str | None:
    """0.27 has no attributes for mode and conflict: the index's shape says the mode."""
    short = op.name.removeprefix("pto.")
    if len(op.part("ins")) > 2:
        return f"version 0.27 has no scratch operand of {short}"
    conflict = op.attributes.get("scatterConflict")
    if isinstance(conflict, KeywordAttr) and conflict.data != "default":
        return f"version 0.27 has no scatterConflict, here `{conflict.data}`"
    mode = op.attributes.get("coalesce")
    if isinstance(mode, KeywordAttr) and mode.data != shape_mode(op):
        return f"version 0.27 takes the mode of {short} from the index's shape, which does not say `{mode.data}` here"
    for name in ("scatterConflict", "coalesce"):
        op.attributes.pop(name, None)
    return None


def shape_mode(op: PtoOp) -> str | None:
    """The mode that 0.27 reads out of shapes: an index of one column is for rows, one like the data for elements."""
    data = op.part("outs") if op.name == "pto.mgather" else op.part("ins")
    index = op.part("ins")[1:2]
    if not data or not index:
        return None
    one, other = data[0].type, index[0].type
    if not isinstance(one, TileBufType) or not isinstance(other, TileBufType):
        return None
    if (one.data.rows, one.data.cols) == (other.data.rows, other.data.cols) and one.data.cols != 1:
        return "elem"
    return "row" if other.data.cols == 1 and other.data.rows == one.data.rows else None
