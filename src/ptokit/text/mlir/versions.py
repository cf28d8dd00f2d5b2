"""What two versions of the assembler's grammar say differently: `0.27`, and `new`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ptokit.text.mlir.attributes import KEYWORD_CLASSES, KeywordAttr
from ptokit.text.mlir.comments import Comments
from ptokit.text.mlir.dialect import op_class
from ptokit.text.mlir.ops import INSIDE, PtoOp
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
    """The newer grammar always says the mode of mgather: rows, or elements where there is a scratch (A-25, A-69)."""
    if op.name == "pto.mgather" and "coalesce" not in op.attributes:
        mode = "elem" if len(_sources(op)) > 2 else "row"
        op.attributes["coalesce"] = KEYWORD_CLASSES["coalesce"](mode)


def _to_old(op: PtoOp) -> str | None:
    """0.27 has no attributes for mode and conflict: what goes without saying is left away, all else is refused."""
    short = op.name.removeprefix("pto.")
    if op.name == "pto.mgather" and len(_sources(op)) > 2:
        return f"version 0.27 has no scratch operand of {short}"
    conflict = op.attributes.get("scatterConflict")
    if isinstance(conflict, KeywordAttr) and conflict.data != "default":
        return f"version 0.27 has no scatterConflict, here `{conflict.data}`"
    mode, unsaid = op.attributes.get("coalesce"), "row" if op.name == "pto.mgather" else _shape_mode(op)
    if isinstance(mode, KeywordAttr) and mode.data != unsaid:
        return f"version 0.27 has no coalesce, and {short} without it does not mean `{mode.data}` here"
    for name in ("scatterConflict", "coalesce"):
        op.attributes.pop(name, None)
    return None


def _sources(op: PtoOp) -> Sequence[SSAValue]:
    """What an op reads, in either form."""
    return op.part("ins") or op.part("args")


def _shape_mode(op: PtoOp) -> str | None:
    """The mode that the shapes of mscatter say: an index of one column is for rows, one like the data for elements."""
    kinds = [value.type.data for value in _sources(op)[:2] if isinstance(value.type, TileBufType)]
    if len(kinds) < 2:
        return None
    data, index = kinds
    if (data.rows, data.cols) == (index.rows, index.cols) and data.cols != 1:
        return "elem"
    return "row" if index.cols == 1 and index.rows == data.rows else None
