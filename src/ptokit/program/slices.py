"""Which slices of a tile have the memory layout of a tile."""

from __future__ import annotations

from ptokit.isa.operand import TileSpec
from ptokit.isa.policy import BLayout, SLayout, TileType
from ptokit.program.expr import Expr, affine, apply
from ptokit.program.ir import Window

AXES = ("rows", "columns")


def layout_problem(spec: TileSpec, window: Window) -> str:
    """What a slice must be, if the tile's layout does not allow this one; empty if it does."""
    if spec.slayout is not SLayout.NoneBox:
        return _box_problem(spec, window)
    if spec.loc is not TileType.Vec and spec.cut(*window.size, 0).pitch:
        whole = AXES[0] if spec.blayout is BLayout.RowMajor else AXES[1]
        return f"a slice of a {spec.loc.text} tile takes whole {whole}"
    return ""


def _box_problem(spec: TileSpec, window: Window) -> str:
    """Boxes are contiguous along one dim: a slice takes whole boxes of it, and all of the other dim."""
    axis = 0 if spec.blayout is BLayout.RowMajor else 1
    other, box, extents = 1 - axis, spec.box[axis], (spec.rows, spec.cols)
    start, end = window.start[axis], apply("add", window.start[axis], window.size[axis])
    if window.start[other] != 0 or window.size[other] != extents[other]:
        return f"a slice of a {spec.form} tile takes all {extents[other]} {AXES[other]}"
    if not _is_multiple(start, box) or (end != extents[axis] and not _is_multiple(end, box)):
        return f"a slice of a {spec.form} tile begins and ends at a multiple of {box} {AXES[axis]}"
    return ""


def _is_multiple(expr: Expr, number: int) -> bool:
    return all(factor % number == 0 for factor in affine(expr).values())
