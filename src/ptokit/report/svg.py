"""Pictures as SVG: tiles in memory, accesses of gathers and scatters, timelines. The same input gives the same bytes.

A picture is one `<svg>` element without scripts or fonts of its own. It follows the reader's light or dark mode, has a
title and a description, and can be a file or a part of a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ptokit.isa.operand import TileSpec
from ptokit.machine.timeline import Timeline
from ptokit.program.cores import unit_of

BURST = 32
"""Bytes of a block: the unit in which tiles are drawn."""
MOST_BLOCKS = 512
MOST_LANES = 32
MOST_CELLS = 48
MOST_WORKS = 400
MOST_ARROWS = 120
MOST_BARS = 128
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
    size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="pk" role="img" {size}>'
    named = f"<title>{escape(title)}</title><desc>{escape(about or title)}</desc><style>{_style()}</style>"
    ground = f'<rect class="ground" width="{_n(width)}" height="{_n(height)}"/>'
    return "\n".join([head, named, ground, *parts, "</svg>", ""])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, kind: str, more: str = "", tip: str = "") -> str:
    """A rectangle; `tip` is shown when the pointer is over it."""
    shape = f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"{more}'
    return f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>"


def path(steps: str, kind: str, tip: str = "") -> str:
    """A line."""
    return f'<path class="{kind}" d="{steps}">' + (f"<title>{escape(tip)}</title>" if tip else "") + "</path>"


def arrow(x: float, y: float, to_x: float, to_y: float, kind: str, tip: str = "") -> str:
    """A line with a point at its end, drawn from top or bottom."""
    turn = 5 if to_y > y else -5
    line = f"M{_n(x)} {_n(y)}C{_n(x)} {_n((y + to_y) / 2)} {_n(to_x)} {_n((y + to_y) / 2)} {_n(to_x)} {_n(to_y)}"
    point = f"M{_n(to_x - 3)} {_n(to_y - turn)}L{_n(to_x)} {_n(to_y)}L{_n(to_x + 3)} {_n(to_y - turn)}"
    return path(line + point, kind, tip)


def _n(value: float) -> str:
    """A coordinate, rounded: the same digits on every machine."""
    return f"{round(value, 1):g}"


def stacked(title: str, pictures: Sequence[str]) -> str:
    """Pictures below each other, as one."""
    placed, y, width = [], 0.0, 0.0
    for each in pictures:
        wide, high = (float(each.split(f' {name}="', 1)[1].split('"', 1)[0]) for name in ("width", "height"))
        body = each.partition("</style>")[2].rpartition("</svg>")[0].strip()
        placed.append(f'<g transform="translate(0 {_n(y)})">\n{body}\n</g>')
        y, width = y + high, max(width, wide)
    return picture(width, y, title, placed)


# --- tiles

Span = tuple[int, int]
"""From the first to before the last."""


class TileBlock(NamedTuple):
    """32 bytes of a tile."""

    number: int
    rows: Span
    cols: Span
    is_valid: bool
    """Whether some element of it is in the valid region."""

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
    shade = f' fill-opacity="{_n(100 * (0.06 + 0.5 * block.number / max(1, count - 1)))}%"' if block.is_valid else ""
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


# --- gathers and scatters

CELL = 30.0
"""Width of a lane and of a cell."""
LANES, CELLS, MARGIN = 56.0, 150.0, 76.0
"""Where lanes and cells are."""


def lanes_svg(access: Mapping[str, Any], title: str = "") -> str:
    """Every lane of a small gather or scatter, and the cell of the table that it reads or writes.

    `access` is an entry of `ptokit.report.access.access_maps`.
    """
    listed = access["listed"]
    lanes, cells = listed["rows"][:MOST_LANES], min(access["cells"], MOST_CELLS)
    name = title or f"{access['instruction']}: {access['table']}"
    parts = [text(12, 22, name, "head"), text(12, LANES + 19, "index", "quiet")]
    parts.append(text(12, CELLS + 19, access["unit"], "quiet"))
    for cell in range(cells):
        parts += _numbered(cell, CELLS, str(cell), 8, f"{access['unit']} {cell}")
    for lane, (_, _, index, code, cell, *_rest) in enumerate(lanes):
        outcome = listed["outcomes"][code]
        parts += _numbered(lane, LANES, str(index), 30, f"lane {lane}: index {index}, {outcome}")
        kind = "held" if code else "flag"
        if 0 <= cell < cells:
            parts.append(_between(lane, cell, access["instruction"] == "mgather", kind, outcome))
        else:
            parts += _nowhere(lane, outcome)
    counts = _counted(access)
    parts.append(text(MARGIN, CELLS + 48, counts, "quiet"))
    width = max(MARGIN + max(len(lanes), cells) * CELL + 16, 24 + LETTER * len(name) * 1.2)
    return picture(width, CELLS + 62, name, parts, f"{name}: {counts}")


def _numbered(place: int, y: float, number: str, shade: int, tip: str) -> Iterator[str]:
    x = MARGIN + place * CELL
    yield rect(x, y, CELL, 28, "box", f' fill-opacity="{shade}%"', tip)
    yield text(x + CELL / 2, y + 18, number, "", "middle")


def _between(lane: int, cell: int, is_gather: bool, kind: str, outcome: str) -> str:
    """From a lane to its cell; a gather reads."""
    ends = (MARGIN + (lane + 0.5) * CELL, LANES + 28), (MARGIN + (cell + 0.5) * CELL, CELLS)
    start, stop = reversed(ends) if is_gather else ends
    return arrow(*start, *stop, kind, outcome)


def _nowhere(lane: int, outcome: str) -> Iterator[str]:
    """A lane without a cell."""
    x, y = MARGIN + (lane + 0.5) * CELL, LANES + 28
    yield path(f"M{_n(x)} {_n(y)}v12m-5 -4l10 8m0 -8l-10 8", "held", outcome)
    yield text(x, y + 30, outcome.partition(" ")[0], "small bad", "middle")


def _counted(access: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in access["counts"].items() if count)


def access_svg(access: Mapping[str, Any], title: str = "") -> str:
    """How often each part of a table is touched, with what lies outside.

    `access` is an entry of `ptokit.report.access.access_maps`.
    """
    name, unit = title or f"{access['instruction']}: {access['table']}", access["unit"]
    about = f"{access['lanes']:,} lanes touch {access['distinct']:,} of {access['cells']:,} {unit}s"
    if access["efficiency"] is not None:
        about += f"; {access['efficiency']:.0%} of the bytes moved are used"
    left, top, wide, high = 60.0, 66.0, 640.0, 120.0
    parts = [text(12, 22, name, "head"), text(12, 42, about, "quiet")]
    bins, size = _merged(access["by_cell"]["counts"], access["by_cell"]["size"])
    most, step = max([*bins, 1]), wide / max(1, len(bins))
    for k, count in ((k, count) for k, count in enumerate(bins) if count):
        tip = f"{unit}s {k * size:,} to {min((k + 1) * size, access['cells']) - 1:,}: {count:,} lanes"
        corner = left + k * step, top + high - high * count / most
        parts.append(rect(*corner, max(step - 0.5, 0.5), high * count / most, "box", ' fill-opacity="60%"', tip))
    parts.append(rect(left, top, wide, high, "edge"))
    ends = (left, "0", "start"), (left + wide / 2, unit, "middle"), (left + wide, f"{access['cells']:,}", "end")
    parts += [text(x, top + high + 16, words, "small quiet", anchor) for x, words, anchor in ends]
    parts += [
        text(left - 6, y, words, "small quiet", "end") for y, words in ((top + 8, f"{most:,}"), (top + high, "0"))
    ]
    outside = f"outside: {access['outside_below']:,} below, {access['outside_above']:,} above"
    parts.append(text(left, top + high + 36, f"{_counted(access)}; {outside}", "quiet"))
    return picture(left + wide + 20, top + high + 50, name, parts, f"{name}: {about}; {_counted(access)}; {outside}")


def _merged(bins: Sequence[int], size: int) -> tuple[list[int], int]:
    """At most `MOST_BARS` bars, and the cells of one."""
    each = -(-len(bins) // MOST_BARS) or 1
    return [sum(bins[k : k + each]) for k in range(0, len(bins), each)], size * each


# --- time


def timeline_svg(timeline: Timeline, title: str = "", width: float = 760.0) -> str:
    """The pipes of the longest block: what ran when, flags as arrows, the critical path framed."""
    pipes = list(timeline.busy)
    names = {pipe: unit_of(pipe) if len({p.partition(".")[0] for p in pipes}) == 1 else pipe for pipe in pipes}
    left = 24 + LETTER * max((len(name) for name in names.values()), default=0)
    top, lane, wide = 60.0, 40.0, width - left - 60
    scale = wide / timeline.longest_cycles if timeline.longest_cycles else 1.0
    rows = {pipe: top + k * lane for k, pipe in enumerate(pipes)}
    works = [work for work in timeline.works if work.block == timeline.longest][:MOST_WORKS]
    hues = {what: k % len(HUES) for k, what in enumerate(dict.fromkeys(work.what for work in works))}
    name = title or f"{timeline.cycles:,.0f} cycles"
    parts = [text(12, 22, name, "head"), *_scale(timeline, left, top - 8, wide, top + len(pipes) * lane)]
    for pipe, y in rows.items():
        parts.append(text(left - 8, y + 19, names[pipe], "", "end"))
        parts.append(text(left + wide + 8, y + 19, f"{timeline.busy[pipe]:.0%}", "quiet"))
        parts.append(path(f"M{_n(left)} {_n(y + 30)}H{_n(left + wide)}", "grid"))
    for work in works:
        x, long, y = left + work.start * scale, max((work.end - work.start) * scale, 1.5), rows[work.pipe] + 4
        tip = f"{work.name} on {work.pipe}: cycles {work.start:,.0f} to {work.end:,.0f}"
        parts.append(rect(x, y, long, 22, f"h{hues[work.what]}", "", tip))
        if (work.block, work.pipe, work.start) in timeline.on_critical_path:
            parts.append(rect(x, y, long, 22, "strong"))
        if long >= LETTER * len(work.what):
            parts.append(text(x + long / 2, y + 15, work.what, "small", "middle"))
    parts += _flags(timeline, rows, left, scale)
    bottom = top + len(pipes) * lane
    parts += legend(hues, left, bottom + 18)
    about = f"{name}: " + ", ".join(f"{names[pipe]} busy {share:.0%}" for pipe, share in timeline.busy.items())
    return picture(width, bottom + 34, name, parts, about)


def _scale(timeline: Timeline, left: float, y: float, wide: float, bottom: float) -> Iterator[str]:
    """Cycles above the pipes."""
    whole = timeline.longest_cycles
    for step in _ticks(whole):
        x = left + step / whole * wide
        yield path(f"M{_n(x)} {_n(y + 4)}V{_n(bottom)}", "grid")
        yield text(x, y, f"{step:,.0f}", "small quiet", "middle")
    yield text(left + wide + 8, y, "busy", "small quiet")


def _ticks(whole: float, most: int = 8) -> list[float]:
    """Round numbers up to `whole`."""
    if whole <= 0:
        return []
    step = 1.0
    factors = (2.0, 2.5, 2.0)
    for k in range(60):
        if whole / step <= most:
            break
        step *= factors[k % 3]
    return [k * step for k in range(int(whole / step) + 1)]


def _flags(timeline: Timeline, rows: Mapping[str, float], left: float, scale: float) -> Iterator[str]:
    """An arrow from the pipe that sets a flag to the one that waits for it."""
    shown = [each for each in timeline.arrows if each.block == timeline.longest and each.src != each.dst]
    for each in shown[:MOST_ARROWS]:
        if each.src in rows and each.dst in rows:
            down = rows[each.dst] > rows[each.src]
            y, to_y = rows[each.src] + (26 if down else 4), rows[each.dst] + (4 if down else 26)
            tip = f"{each.kind} {each.src} to {each.dst}: cycles {each.start:,.0f} to {each.end:,.0f}"
            kind = "held" if each.is_held else "kept"
            yield arrow(left + each.start * scale, y, left + each.end * scale, to_y, kind, tip)


def legend(hues: Mapping[str, int], x: float, y: float) -> Iterator[str]:
    """Names beside their colours."""
    places = [x]
    for name in hues:
        places.append(places[-1] + 30 + LETTER * len(name))
    for (name, hue), (at, _) in zip(hues.items(), pairwise(places), strict=True):
        yield rect(at, y - 9, 11, 11, f"h{hue}")
        yield text(at + 16, y, name, "quiet")
