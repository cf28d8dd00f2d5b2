"""Tiles and tensors in notebooks: their types, and the corners of their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ptokit.engine.storage import Storage
from ptokit.isa.dtype import DType
from ptokit.isa.layout import Layout
from ptokit.isa.operand import BLOCK, TensorSpec, TileSpec, show_extents
from ptokit.isa.unknown import is_unknown
from ptokit.markup import box, dim, facts, grid

FIRST, LAST = 6, 2
"""Rows and columns of a large array that are shown: from its start, and from its end."""
HUE = 47
"""Degrees between the colours of blocks that follow each other in memory."""


def tile_html(spec: TileSpec, storage: Storage | None) -> str:
    """A tile; without storage, its description."""
    known = [
        ("memory", spec.loc.text),
        ("type", str(spec.dtype)),
        ("shape", f"{spec.rows} x {spec.cols}, valid {show_extents(spec.valid)}"),
        ("layout", _layout(spec)),
        ("bytes", f"{spec.nbytes:,}"),
        ("address", "none" if spec.addr is None else f"{spec.addr:#x}"),
    ]
    if storage is None or is_unknown(*spec.valid):
        return box("Tile", facts(known))
    values = _values(spec.layout, spec.valid, storage, spec.dtype, is_tinted=spec.format != "nd")
    return box("Tile", facts(known), values)


def _layout(spec: TileSpec) -> str:
    rows, cols = spec.box
    boxes = f", boxes of {rows} x {cols}" if (rows, cols) != (1, 1) else ""
    pitch = f", at a pitch of {spec.pitch}" if spec.pitch else ""
    return f"{spec.format.upper()}{boxes}{pitch}"


def tensor_html(spec: TensorSpec, storage: Storage, shape: tuple[int, ...], *, is_here: bool) -> str:
    """A tensor in global memory; its values if they are in the memory of the host."""
    known = [
        ("type", str(spec.dtype)),
        ("array", show_extents(shape)),
        ("shape", f"<{', '.join(map(str, spec.shape))}>"),
        ("stride", f"<{', '.join(map(str, spec.stride))}>"),
        ("layout", spec.layout_kind.name),
        ("bytes", f"{spec.elements * spec.dtype.size:,}"),
    ]
    if not is_here:
        return box("GlobalTensor", facts(known), dim("in the memory of a GPU"))
    is_tinted = spec.layout_kind.name != "ND"
    values = _values(spec.layout, spec.extents, storage, spec.dtype, is_tinted=is_tinted)
    return box("GlobalTensor", facts(known), values)


def _values(layout: Layout, extents: tuple[int, int], storage: Storage, kind: DType, *, is_tinted: bool) -> str:
    """The corners of a region in logical order. A colour is a block of 32 bytes in memory."""
    if not all(extents):
        return dim("no elements")
    rows, cols = map(_ends, extents)
    i, j = (np.array([k for k in shown if k >= 0]) for shown in (rows, cols))
    offsets = layout.offset(i[:, None], j[None, :]) + np.zeros((i.size, j.size), np.int64)
    texts = _texts(storage.bits[offsets].view(kind.numpy), kind)
    blocks = offsets * kind.size // BLOCK
    tints = [[_tint(block) if is_tinted else "" for block in row] for row in blocks.tolist()]
    hints = [[f"element {each}, byte {each * kind.size:#x}" for each in row] for row in offsets.tolist()]
    cells = [[*zip(*lines, strict=True)] for lines in zip(texts, tints, hints, strict=True)]
    return grid(_named(rows), _named(cols), _with_gaps(cells, rows, cols))


def _ends(extent: int) -> list[int]:
    """The numbers that are shown; -1 for a gap."""
    if extent <= FIRST + LAST + 1:
        return [*range(extent)]
    return [*range(FIRST), -1, *range(extent - LAST, extent)]


def _named(numbers: Iterable[int]) -> list[str]:
    return ["..." if number < 0 else str(number) for number in numbers]


def _with_gaps(cells: list[list[tuple[str, str, str]]], rows: list[int], cols: list[int]) -> list[Any]:
    gap = ("...", "", "")
    lines = [line if -1 not in cols else [*line[:FIRST], gap, *line[FIRST:]] for line in cells]
    blank = [gap] * len(cols)
    return lines if -1 not in rows else [*lines[:FIRST], blank, *lines[FIRST:]]


def _texts(values: Any, kind: DType) -> list[list[str]]:
    """Values as text, six digits of numbers with a fraction."""
    if kind.is_float:
        return [[f"{number:.6g}" for number in row] for row in values.astype(np.float64).tolist()]
    return [[str(value) for value in row] for row in values.tolist()]


def _tint(block: int) -> str:
    return f"hsla({block * HUE % 360},70%,50%,.22)"
