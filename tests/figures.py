"""Figures of the documentation as SVG: measured numbers, accesses of gathers and scatters, timelines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from ptokit.machine.timeline import Timeline
from ptokit.program.cores import unit_of
from ptokit.report.svg import HUES, LETTER, num, picture, rect, text

MOST_LANES = 32
MOST_CELLS = 48
MOST_WORKS = 400
MOST_ARROWS = 120
MOST_BARS = 128


# --- elements


def path(steps: str, kind: str, tip: str = "") -> str:
    """A line."""
    return f'<path class="{kind}" d="{steps}">' + (f"<title>{escape(tip)}</title>" if tip else "") + "</path>"


def arrow(x: float, y: float, to_x: float, to_y: float, kind: str, tip: str = "") -> str:
    """A line with a point at its end, drawn from top or bottom."""
    turn = 5 if to_y > y else -5
    line = (
        f"M{num(x)} {num(y)}C{num(x)} {num((y + to_y) / 2)} {num(to_x)} {num((y + to_y) / 2)} {num(to_x)} {num(to_y)}"
    )
    point = f"M{num(to_x - 3)} {num(to_y - turn)}L{num(to_x)} {num(to_y)}L{num(to_x + 3)} {num(to_y - turn)}"
    return path(line + point, kind, tip)


def stacked(title: str, pictures: Sequence[str]) -> str:
    """Pictures below each other, as one."""
    placed, y, width = [], 0.0, 0.0
    for each in pictures:
        wide, high = (float(each.split(f' {name}="', 1)[1].split('"', 1)[0]) for name in ("width", "height"))
        body = each.partition("</style>")[2].rpartition("</svg>")[0].strip()
        placed.append(f'<g transform="translate(0 {num(y)})">\n{body}\n</g>')
        y, width = y + high, max(width, wide)
    return picture(width, y, title, placed)


# --- measured numbers


def bars_svg(title: str, unit: str, rows: Mapping[str, Mapping[str, float]], note: str = "") -> str:
    """Bars by name, side by side for each row."""
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    left, wide, bar = 24 + LETTER * max(map(len, rows), default=0), 420.0, 13.0
    most = max((value for values in rows.values() for value in values.values()), default=0) or 1
    parts, y = [text(12, 22, title, "head"), *legend({name: k for k, name in enumerate(names)}, left, 46)], 62.0
    for row, values in rows.items():
        parts.append(text(left - 8, y + bar * len(values) / 2 + 4, row, "", "end"))
        for name, value in values.items():
            long = wide * value / most
            tip = f"{row}, {name}: {value:g} {unit}"
            parts.append(rect(left, y, long, bar - 1.5, f"h{names.index(name)}", "", tip))
            parts.append(text(left + long + 6, y + bar - 3, f"{value:g}", "small quiet"))
            y += bar
        y += 9
    parts.append(text(left, y + 10, f"{unit}{'; ' + note if note else ''}", "quiet"))
    return picture(left + wide + 60, y + 22, title, parts)


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
    yield path(f"M{num(x)} {num(y)}v12m-5 -4l10 8m0 -8l-10 8", "held", outcome)
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
        parts.append(path(f"M{num(left)} {num(y + 30)}H{num(left + wide)}", "grid"))
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
        yield path(f"M{num(x)} {num(y + 4)}V{num(bottom)}", "grid")
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
