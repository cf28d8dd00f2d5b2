"""Pictures as SVG: tiles in memory. The same input gives the same bytes.

A picture is one `<svg>` element without scripts or fonts of its own. It follows the reader's light or dark mode, has a
title and a description, and can be a file or a part of a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from ptokit.isa.operand import TileSpec

BURST = 32
"""Bytes of a block: the unit in which tiles are drawn."""
MOST_BLOCKS = 512
LETTER = 6.4
"""An upper bound of the width of a letter, on average."""
HUES = ("#0b62d6", "#c2410c", "#047857", "#7c3aed", "#b45309", "#be185d", "#0f766e", "#4d7c0f")
"""Colours of instructions, on light ground; the other list is for dark ground."""
HUES_IN_DARK = ("#6cb2ff", "#ff9d66", "#5fd3a5", "#c4a6ff", "#f0c05a", "#ff8fc0", "#5fd6cb", "#a9d65a")
STYLE = {
    "": "font: 12px system-ui, sans-serif; background: #ffffff",
    "text": "fill: #1f2937",
    ".quiet": "fill: #5b6472",
    ".head": "font-weight: 600; font-size: 14px",
    ".small": "font-size: 10px",
    ".ground": "fill: #ffffff",
    ".box": "fill: #0b62d6; stroke: #1f2937; stroke-width: .5",
    ".hole": "fill: #9ca3af; fill-opacity: .18",
    ".edge": "stroke: #9ca3af; fill: none",
    ".grid": "stroke: #9ca3af; stroke-opacity: .35; fill: none",
    ".strong": "stroke: #1f2937; stroke-width: 2; fill: none",
    ".flag": "stroke: #5b6472; fill: none",
    ".kept": "stroke: #5b6472; stroke-opacity: .35; fill: none",
    ".held": "stroke: #be123c; stroke-width: 1.5; fill: none",
    ".bad": "fill: #be123c",
    **{f".h{k}": f"fill: {hue}; stroke: {hue}; fill-opacity: .55" for k, hue in enumerate(HUES)},
}
IN_DARK = {
    "": "background: #0d1117",
    "text": "fill: #e6edf3",
    ".quiet": "fill: #a3adba",
    ".ground": "fill: #0d1117",
    ".box": "fill: #6cb2ff; stroke: #e6edf3",
    ".edge": "stroke: #5b6675",
    ".strong": "stroke: #e6edf3",
    ".flag": "stroke: #a3adba",
    ".kept": "stroke: #a3adba",
    ".held": "stroke: #ff8fa3",
    ".bad": "fill: #ff8fa3",
    **{f".h{k}": f"fill: {hue}; stroke: {hue}" for k, hue in enumerate(HUES_IN_DARK)},
}
"""Kinds of elements of a picture, on light and on dark ground."""


def _style() -> str:
    """Every rule is for elements of a picture only: pictures may stand in a page."""
    light, dark = (
        "\n".join(f".pk {kind}".rstrip() + f" {{ {rule} }}" for kind, rule in each.items()) for each in (STYLE, IN_DARK)
    )
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


# --- elements


def picture(width: float, height: float, title: str, parts: Sequence[str], about: str = "") -> str:
    """The whole element."""
    size = f'viewBox="0 0 {num(width)} {num(height)}" width="{num(width)}" height="{num(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="pk" role="img" {size}>'
    named = f"<title>{escape(title)}</title><desc>{escape(about or title)}</desc><style>{_style()}</style>"
    ground = f'<rect class="ground" width="{num(width)}" height="{num(height)}"/>'
    return "\n".join([head, named, ground, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{num(x)}" y="{num(y)}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, more: str = "", tip: str = "") -> str:
    """A rectangle; `tip` is shown when the pointer is over it."""
    shape = f'<rect class="{kind}" x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}"{more}'
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def num(value: float) -> str:
    """A coordinate, rounded: the same digits on every machine."""
    return f"{round(value, 1):g}"


# --- tiles

Span = tuple[int, int]
"""From the first to before the last."""


class TileBlock(NamedTuple):
    """32 bytes of a tile."""

    number: int
    rows: Span
    cols: Span
    is_valid: bool
    """Whether any of its elements is in the valid region."""

    def __str__(self) -> str:
        return f"rows {_span(self.rows)}, columns {_span(self.cols)}"


def tile_svg(spec: TileSpec, title: str = "") -> str:
    """A tile as a matrix, and its memory: blocks of 32 bytes with the same number on both sides.

    Padding is grey, unless the valid region is known only at run time. Large tiles are cut.
    """
    whole = (spec.rows, spec.cols)
    valid = spec.valid if all(isinstance(extent, int) for extent in spec.valid) else whole
    blocks = list(_blocks(spec, valid))
    name = title or str(spec)
    left, top, size = 46.0, 74.0, _element_size(spec)
    parts = [text(12, 22, name, "head"), *_ruler(spec, left, top, size)]
    parts.append(text(left, 46, f"matrix: {spec.rows} x {spec.cols} {spec.dtype}", "quiet"))
    parts += _matrix(blocks, left, top, size)
    if valid != whole:
        parts.append(rect(left, top, valid[1] * size[0], valid[0] * size[1], "strong", "", "the valid region"))
    x = left + spec.cols * size[0] + 70
    parts += _memory(blocks, x, top, spec.rows * spec.cols * spec.dtype.size > BURST * len(blocks))
    high = max(max(block.rows[1] for block in blocks) * size[1], -(-len(blocks) // ACROSS) * MEMORY[1])
    width = x + min(len(blocks), ACROSS) * MEMORY[0] + 16
    return picture(width, top + high + 16, name, parts, f"{name}: matrix and memory, block by block")


ACROSS = 8
"""Blocks of a line of memory."""
MEMORY = (44.0, 22.0)
"""Width and height of a block in memory."""


def _element_size(spec: TileSpec) -> tuple[float, float]:
    """Width and height of an element, so that a block has room for its number."""
    is_down = spec.rows > 1 and spec.cols > 1 and spec.layout.offset(1, 0) - spec.layout.offset(0, 0) == 1
    if is_down:  # neighbours in memory are neighbours in a column
        return max(14.0, min(26.0, 420 / spec.cols)), max(4.0, min(14.0, 260 / spec.rows))
    return max(4.0, min(20.0, 420 / spec.cols)), 16.0


def _blocks(spec: TileSpec, valid: tuple[int, int]) -> Iterator[TileBlock]:
    """The blocks of a tile in the order of memory."""
    each = max(1, BURST // spec.dtype.size)
    i, j, offsets = spec.layout.first(spec.rows, spec.cols, MOST_BLOCKS * each)
    numbers = offsets // each
    for number in np.unique(numbers).tolist():
        rows, cols = i[numbers == number], j[numbers == number]
        is_valid = bool(((rows < valid[0]) & (cols < valid[1])).any())
        yield TileBlock(
            number, (int(rows.min()), int(rows.max()) + 1), (int(cols.min()), int(cols.max()) + 1), is_valid
        )


def _matrix(blocks: Sequence[TileBlock], left: float, top: float, size: tuple[float, float]) -> Iterator[str]:
    for block in blocks:
        (row, last_row), (col, last_col) = block.rows, block.cols
        corner = left + col * size[0], top + row * size[1]
        extent = (last_col - col) * size[0], (last_row - row) * size[1]
        yield from _block(block, len(blocks), corner, extent, f"block {block.number}: {block}")


def _memory(blocks: Sequence[TileBlock], x: float, top: float, is_cut: bool) -> Iterator[str]:
    cut = f"; the first {len(blocks)} blocks" if is_cut else ""
    yield text(x, 46, f"memory: blocks of {BURST} bytes{cut}", "quiet")
    for place, block in enumerate(blocks):
        corner = x + place % ACROSS * MEMORY[0], top + place // ACROSS * MEMORY[1]
        first = block.number * BURST
        yield from _block(block, len(blocks), corner, MEMORY, f"bytes {first} to {first + BURST}: {block}")
        if place % ACROSS == 0:
            yield text(x - 6, corner[1] + 15, f"{first:#06x}", "small quiet", "end")


def _block(
    block: TileBlock, count: int, corner: tuple[float, float], extent: tuple[float, float], tip: str
) -> Iterator[str]:
    (x, y), (width, height), number = corner, extent, str(block.number)
    shade = f' fill-opacity="{num(100 * (0.06 + 0.5 * block.number / max(1, count - 1)))}%"' if block.is_valid else ""
    yield rect(x, y, width, height, "box" if block.is_valid else "hole", shade, tip)
    if width >= LETTER * len(number) and height >= 9:
        yield text(x + width / 2, y + height / 2 + 4, number, "small", "middle")


def _ruler(spec: TileSpec, left: float, top: float, size: tuple[float, float]) -> Iterator[str]:
    """Numbers of some rows and columns."""
    for j in range(0, spec.cols, max(1, int(24 / size[0]), spec.cols // 8)):
        yield text(left + (j + 0.5) * size[0], top - 6, str(j), "small quiet", "middle")
    for i in range(0, min(spec.rows, MOST_BLOCKS), max(1, int(-(-12 // size[1])), spec.rows // 16)):
        yield text(left - 6, top + (i + 0.5) * size[1] + 3.5, str(i), "small quiet", "end")


def _span(span: Span) -> str:
    return str(span[0]) if span[1] - span[0] == 1 else f"{span[0]} to {span[1] - 1}"
