"""Line plots with logarithmic axes as SVG, for light and dark mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
Ticks = Mapping[float, str]

WIDTH, HEIGHT = 470, 300
"""The size of a panel with its labels."""
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 36, 46
HEAD = 90
"""The height of the title and the legend above the panels."""
COLOURS = (("#0b62d6", "#6cb2ff"), ("#6b7280", "#a3abb8"), ("#c2410c", "#ff9d66"), ("#047857", "#5fd3a5"))
"""Colours of the lines, on light and on dark ground."""
STYLE = """
svg { font: 12px system-ui, sans-serif; }
.ground { fill: #ffffff; } text { fill: #1f2937; } .quiet { fill: #6b7280; }
.grid { stroke: #e5e7eb; } .frame { stroke: #9ca3af; fill: none; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.bold { stroke-width: 2.8; } .dashed { stroke-dasharray: 5 3; }
%s
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .quiet { fill: #9aa4b2; }
.grid { stroke: #232b36; } .frame { stroke: #5b6675; }
%s
}
"""


@dataclass(frozen=True)
class Panel:
    """Lines over the same axes."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]
    ticks_across: Ticks
    ticks_up: Ticks


def decades(values: Sequence[float], unit: Mapping[float, str]) -> dict[float, str]:
    """A tick at each power of ten around some values, in the largest unit that is not larger."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
    return {tick: _in_unit(tick, unit) for tick in ticks}


def _in_unit(value: float, unit: Mapping[float, str]) -> str:
    scale = max((s for s in unit if s <= value * (1 + 1e-9)), default=min(unit))
    return f"{value / scale:g} {unit[scale]}".strip()


class _Axes:
    """Coordinates of values on the page."""

    def __init__(self, panel: Panel, x: float, y: float) -> None:
        self.left, self.right, self.top, self.bottom = x + LEFT, x + WIDTH - RIGHT, y + TOP, y + HEIGHT - BOTTOM
        points = [point for line in panel.lines.values() for point in line]
        self._across = self._range([*panel.ticks_across, *(across for across, _ in points)])
        self._up = self._range([*panel.ticks_up, *(up for _, up in points)])

    @staticmethod
    def _range(values: Sequence[float]) -> tuple[float, float]:
        return math.log10(min(values)), math.log10(max(values))

    def x(self, value: float) -> float:
        low, high = self._across
        return round(self.left + (math.log10(value) - low) / (high - low) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        low, high = self._up
        return round(self.bottom - (math.log10(value) - low) / (high - low) * (self.bottom - self.top), 1)


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _panel(panel: Panel, styles: Mapping[str, str], x: float, y: float) -> list[str]:
    at = _Axes(panel, x, y)
    middle, centre = (at.left + at.right) / 2, (at.top + at.bottom) / 2
    drawn = [_text(at.left, y + 20, panel.title, "start", 'font-weight="600"')]
    for value, label in panel.ticks_across.items():
        drawn.append(f'<path class="grid" d="M{at.x(value)} {at.top}V{at.bottom}"/>')
        drawn.append(_text(at.x(value), at.bottom + 16, label, more='class="quiet"'))
    for value, label in panel.ticks_up.items():
        drawn.append(f'<path class="grid" d="M{at.left} {at.y(value)}H{at.right}"/>')
        drawn.append(_text(at.left - 7, at.y(value) + 4, label, "end", 'class="quiet"'))
    drawn.append(_text(middle, at.bottom + 36, panel.across))
    drawn.append(_text(x + 14, centre, panel.up, more=f'transform="rotate(-90 {x + 14} {centre})"'))
    size = f'width="{at.right - at.left}" height="{at.bottom - at.top}"'
    drawn.append(f'<rect class="frame" x="{at.left}" y="{at.top}" {size}/>')
    for name, points in panel.lines.items():
        path = " ".join(f"{at.x(a)},{at.y(b)}" for a, b in points)
        drawn.append(f'<polyline class="line {styles[name]}" points="{path}"><title>{escape(name)}</title></polyline>')
    return drawn


def svg(title: str, panels: Sequence[Panel], styles: Mapping[str, str], columns: int = 2) -> str:
    """Panels side by side under one title; `styles` are classes of each line: `c0` to `c3`, `bold`, `dashed`."""
    colours = ["\n".join(f".c{n} {{ stroke: {pair[ground]}; }}" for n, pair in enumerate(COLOURS)) for ground in (0, 1)]
    width, height = columns * WIDTH, HEAD + math.ceil(len(panels) / columns) * HEIGHT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title><style>{STYLE % tuple(colours)}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        _text(LEFT, 28, title, "start", 'font-size="16" font-weight="600"'),
    ]
    for place, (name, style) in enumerate(styles.items()):
        x, y = LEFT + place % 4 * (width - LEFT) // 4, 52 + place // 4 * 20
        drawn.append(f'<path class="line {style}" d="M{x} {y}h26"/>')
        drawn.append(_text(x + 33, y + 4, name, "start"))
    for place, panel in enumerate(panels):
        drawn += _panel(panel, styles, place % columns * WIDTH, HEAD + place // columns * HEIGHT)
    return "\n".join([*drawn, "</svg>", ""])
