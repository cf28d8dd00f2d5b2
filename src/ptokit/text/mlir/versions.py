"""What two versions of the assembler's grammar say differently: `0.27`, and `new`."""

from __future__ import annotations

from copy import copy

from ptokit.text.mlir.attributes import keyword
from ptokit.text.mlir.dialect import form_of
from ptokit.text.mlir.ir import Op, Value
from ptokit.text.mlir.pieces import INSIDE
from ptokit.text.mlir.types import TileBuf

RENAMED = {"pto.load_scalar": "pto.load", "pto.store_scalar": "pto.store"}
"""Ops by their name in 0.27, with their name in the newer grammar."""


class CannotSay(Exception):
    """What a version has no words for."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def restated(op: Op, version: str) -> Op:
    """An op in the spelling of a version: itself, or a copy."""
    if not op.is_pto or op.form is None:
        return op
    renamed = RENAMED if version == "new" else {new: old for old, new in RENAMED.items()}
    if op.name in renamed:
        other = copy(op)
        other.name = renamed[op.name]
        other.form = form_of(other.name.removeprefix("pto."))
        return other
    if op.name in ("pto.mgather", "pto.mscatter"):
        return _new(op) if version == "new" else _old(op)
    if op.name == "pto.tscatter" and version != "new" and INSIDE in op.properties:
        raise CannotSay("version 0.27 has no mask form of tscatter", op.offset)
    return op


def _new(op: Op) -> Op:
    """The newer grammar always says the mode of mgather: rows, or elements where there is a scratch (A-25, A-69)."""
    if op.name != "pto.mgather" or "coalesce" in op.attributes:
        return op
    other = copy(op)
    mode = "elem" if len(_sources(op)) > 2 else "row"
    other.attributes = {**op.attributes, "coalesce": keyword("coalesce", mode)}
    return other


def _old(op: Op) -> Op:
    """0.27 has no attributes for mode and conflict: what is the default is left away, all else is refused."""
    short = op.name.removeprefix("pto.")
    if op.name == "pto.mgather" and len(_sources(op)) > 2:
        raise CannotSay(f"version 0.27 has no scratch operand of {short}", op.offset)
    conflict = _word(op, "scatterConflict")
    if conflict not in ("", "default"):
        raise CannotSay(f"version 0.27 has no scatterConflict, here `{conflict}`", op.offset)
    mode, default = _word(op, "coalesce"), "row" if op.name == "pto.mgather" else _shape_mode(op)
    if mode and mode != default:
        said = f"version 0.27 has no coalesce, and {short} without it does not mean `{mode}` here"
        raise CannotSay(said, op.offset)
    other = copy(op)
    other.attributes = {n: v for n, v in op.attributes.items() if n not in ("scatterConflict", "coalesce")}
    return other


def _word(op: Op, name: str) -> str:
    """The keyword of an attribute, if it has one."""
    value = op.attributes.get(name)
    return str(value.value) if value is not None and value.short.startswith("<") else ""


def _sources(op: Op) -> list[Value]:
    """What an op reads, in either form."""
    return op.part("ins") or op.part("args")


def _shape_mode(op: Op) -> str | None:
    """The mode that the shapes of mscatter say: an index of one column is for rows, one like the data for elements."""
    kinds = [value.type.data for value in _sources(op)[:2] if value.type.text.startswith("!pto.tile_buf")]
    tiles = [kind for kind in kinds if isinstance(kind, TileBuf)]
    if len(tiles) < 2:
        return None
    data, index = tiles
    if (data.rows, data.cols) == (index.rows, index.cols) and data.cols != 1:
        return "elem"
    return "row" if index.cols == 1 and index.rows == data.rows else None
