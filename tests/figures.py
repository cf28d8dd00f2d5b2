"""Figures of measured numbers as SVG."""

from __future__ import annotations

from collections.abc import Mapping

from ptokit.report.svg import LETTER, legend, picture, rect, text


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
