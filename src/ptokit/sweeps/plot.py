"""The points of a sweep as a picture: cycles, traffic and memory against a parameter. Needs matplotlib."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ptokit.brief import brief
from ptokit.sweeps.best import SweepPoint, SweepPoints, is_same

MISSING = "a picture needs the package matplotlib: pip install 'ptokit[plot]'"
METADATA: dict[str, dict[str, str | None]] = {".svg": {"Date": None, "Creator": "ptokit"}, ".png": {"Software": None}}
"""The forms of pictures, and what is written into them: nothing that changes from run to run."""
STYLE = {"svg.hashsalt": "ptokit", "svg.fonttype": "path", "font.size": 9.0, "axes.grid": True, "grid.alpha": 0.3}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Told apart with every kind of colour vision."""
MARKERS, DASHES = "os^Dv<", ("-", "--", ":", "-.")
"""Lines that lie on each other are told apart by these."""
LONGEST_LABEL, MOST_TICKS, ACROSS = 24, 64, 80
"""Characters of a label, labels of the axis, and their characters side by side."""
PANELS: tuple[tuple[str, Callable[[SweepPoint], float | None]], ...] = (
    ("cycles", lambda point: point.cycles),
    ("bytes moved", lambda point: point.bytes_moved),
    ("bytes of tiles", lambda point: None if point.bytes_moved is None else sum(point.memory.values())),
)


def missing() -> str:
    """What a picture lacks here; empty if nothing."""
    return "" if find_spec("matplotlib") else MISSING


def form_of(path: str) -> str:
    """The form of a picture, by the name of its file."""
    form = os.path.splitext(path)[1].lower()
    if form not in METADATA:
        raise ValueError(f"a picture is a file that ends in {' or '.join(METADATA)}; found {path}")
    return form


def picture(result: SweepPoints, path: str) -> bytes:
    """The content of a picture file. The same points give the same bytes."""
    form = form_of(path)
    if problem := missing():
        raise ImportError(problem, name="matplotlib")
    style, figures = import_module("matplotlib.style"), import_module("matplotlib.figure")
    content = io.BytesIO()
    with style.context(["default", STYLE]):
        figure = figures.Figure(figsize=(7.0, 8.0), layout="constrained")
        draw(figure, result)
        figure.savefig(content, format=form[1:], dpi=120, metadata=METADATA[form])
    return content.getvalue()


def draw(figure: Any, result: SweepPoints) -> None:
    """Draw all points into an empty figure."""
    axis = figure.subplots(len(PANELS), 1, sharex=True)
    values = _values(result)
    places = {id(point): _place(values, point.params[result.params[0]]) for point in result.rows}
    for panel, (label, value) in zip(axis, PANELS, strict=True):
        for number, (name, points) in enumerate(_lines(result).items()):
            shown = [(places[id(point)], value(point)) for point in points]
            x, y = zip(*[(place, height) for place, height in shown if height is not None] or [((), ())], strict=True)
            panel.plot(x, y, label=name, **_look(number))
            _mark(panel, result, points, value, places)
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter("{x:,.0f}")
    axis[0].set_title(f"{result.kernel} (ring: best; cross: refused, or with findings)")
    axis[0].legend()
    axis[-1].set_xlabel(result.params[0])
    each = -(-len(values) // MOST_TICKS)
    labels = [_short(str(value)) for value in values[::each]]
    turn = 0 if sum(map(len, labels)) <= ACROSS else 90
    axis[-1].set_xticks(range(0, len(values), each), labels, rotation=turn, parse_math=False)


def _short(text: str) -> str:
    """A label on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 3] + "..."


def _look(number: int) -> dict[str, Any]:
    """The look of a line."""
    own = {"color": COLOURS, "marker": MARKERS, "linestyle": DASHES}
    return {name: each[number % len(each)] for name, each in own.items()}


def _mark(panel: Any, result: SweepPoints, points: Sequence[SweepPoint], value: Any, places: Mapping[int, int]) -> None:
    """A ring around the best point, crosses for those that are not clean."""
    for point in points:
        x = places[id(point)]
        if result.is_best(point):
            panel.plot([x], [value(point)], "o", markersize=14, fillstyle="none", color="black")
        elif not point.ok:
            panel.plot([x], [value(point) or 0], "x", markersize=11, color="black", clip_on=False, zorder=9)


def _values(result: SweepPoints) -> list[object]:
    """The values of the first parameter, which stand at equal distances."""
    found: list[object] = []
    for point in result.rows:
        value = point.params[result.params[0]]
        if not any(is_same(value, other) for other in found):
            found.append(value)
    return found


def _place(values: Sequence[object], value: object) -> int:
    return next(k for k, each in enumerate(values) if is_same(each, value))


def _lines(result: SweepPoints) -> dict[str, list[SweepPoint]]:
    """The points of each target, and of each value of the other parameters."""
    found: dict[str, list[SweepPoint]] = {}
    for point in result.rows:
        others = [f"{name}={brief(point.params[name])}" for name in result.params[1:]]
        found.setdefault(", ".join([point.target, *others]), []).append(point)
    return found
