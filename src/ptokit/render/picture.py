"""Small pictures of tiles."""

from __future__ import annotations

from rich.text import Text

from ptokit.isa.operand import TileSpec

PALETTE = ("red", "green", "yellow", "blue", "magenta", "cyan", "bright_red", "bright_green")


def glyph(label: int) -> tuple[str, str]:
    """A letter and a colour for a number; a dot for a negative one."""
    if label < 0:
        return "·", "dim"
    return chr(ord("A") + label % 26), PALETTE[label % len(PALETTE)]


def tile_picture(spec: TileSpec, labels: list[int]) -> Text:
    """A tile as rows of 32-byte blocks on the left and as memory on the right.

    `labels` gives a number for every row; -1 leaves the row blank.
    """
    block = spec.dtype.c0
    across = spec.cols // block
    text = Text(f"row   {'logical':<{across * (block + 1)}}    memory: block column by block column\n", style="bold")
    for r, label in enumerate(labels):
        letter, style = glyph(label)
        text.append(f"{r:>3}   ")
        for _ in range(across):
            text.append(letter * block, style=style)
            text.append("|")
        text.append("    ")
        if r < across:
            text.append_text(_memory_line(spec, labels, r))
        text.append("\n")
    return text


def _memory_line(spec: TileSpec, labels: list[int], block_column: int) -> Text:
    """The blocks of one block column in the order they lie in memory."""
    first = spec.layout.offset(0, block_column * spec.dtype.c0) * spec.dtype.size
    line = Text(f"{first:#06x} ", style="dim")
    order = sorted(range(spec.rows), key=lambda r: spec.layout.offset(r, block_column * spec.dtype.c0))
    for r in order:
        letter, style = glyph(labels[r])
        line.append(letter, style=style)
    return line
