"""HTML fragments for notebooks: everything is escaped, sizes are bounded, styles are inline and fit light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

MOST_ROWS = 50
"""Rows of a table that are shown."""
MOST_CHARACTERS = 20_000
"""Characters of a text that are shown."""
LONGEST = 2000
"""Characters of a message that are shown."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could move a terminal's cursor or reverse the text around them."""
NUMBER = re.compile(r"[-+]?[\d,.]+(?:e[-+]?\d+)?\s?%?|nan|-?inf")
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
LINE = "1px solid rgba(127,127,127,.35)"
STYLES = {
    "box": f"font:13px/1.45 system-ui,sans-serif;border:{LINE};border-radius:4px;padding:8px 10px;margin:4px 0;"
    "overflow-x:auto",
    "table": "border-collapse:collapse;margin:4px 0;font-size:12px;background:none",
    "head": f"text-align:left;padding:1px 8px;border-bottom:{LINE};font-weight:600",
    "cell": "text-align:left;padding:1px 8px;vertical-align:top",
    "number": "text-align:right;padding:1px 8px;vertical-align:top;font-variant-numeric:tabular-nums",
    "code": "font:12px/1.4 ui-monospace,monospace;white-space:pre;overflow-x:auto;margin:4px 0;background:none",
    "dim": "opacity:.7",
    "badge": "display:inline-block;color:#fff;border-radius:3px;padding:0 6px;font-size:11px;font-weight:600",
}
"""Styles by their use. Colours are the page's own, or gray and half transparent."""
COLOURS = {
    "error": "#b3261e", "hazard": "#8a5a00", "unmodelled": "#7b3fa0", "note": "#00637a", "good": "#1b6e3c",
    "bad": "#b3261e",
}  # fmt: skip
"""Backgrounds of badges: white text on them is readable."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


class Displayed:
    """What a notebook shows as HTML, and a console of the notebook as the whole text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Both forms; the caller takes what it can show."""
        del include, exclude
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def printable(text: str) -> str:
    """The text without characters that control a terminal; every character keeps its column."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def escape(value: object) -> Markup:
    """Text as HTML; HTML is returned unchanged."""
    return value if isinstance(value, Markup) else Markup(printable(str(value)).translate(ENTITIES))


def clipped(text: str, most: int = LONGEST) -> str:
    """The start of a long text."""
    return text if len(text) <= most else f"{text[:most]}..."


def tag(name: str, *children: object, style: str = "", **attributes: object) -> Markup:
    """An element; children that are plain text are escaped."""
    given = {"style": STYLES.get(style, style), **attributes}
    written = "".join(f' {key}="{escape(value)}"' for key, value in given.items() if value not in ("", None))
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")


def joined(*parts: object) -> Markup:
    """Parts one after the other."""
    return Markup("".join(map(escape, parts)))


def box(title: object, *parts: object) -> Markup:
    """A whole fragment: a title, then its parts."""
    return tag("div", tag("div", tag("strong", title)), *parts, style="box", tabindex=0)


def badge(text: object, kind: str) -> Markup:
    """A word with a colour: a level of a finding, `good` or `bad`."""
    return tag("span", text, style=f"{STYLES['badge']};background:{COLOURS[kind]}")


def dim(text: object) -> Markup:
    """A remark."""
    return tag("div", text, style="dim")


def code(text: str) -> Markup:
    """Text in columns; the end of a long one is left out."""
    cut = text[:MOST_CHARACTERS]
    more = f"\n... {len(text) - len(cut):,} characters more" if len(cut) < len(text) else ""
    return tag("pre", cut + more, style="code", tabindex=0)


def table(rows: Sequence[Sequence[object]], head: Sequence[object] = (), most: int = MOST_ROWS) -> Markup:
    """Rows of cells: words to the left, numbers to the right. Rows after the first `most` are counted."""
    shown = [tag("tr", *(_cell(cell) for cell in row)) for row in rows[:most]]
    titles = [tag("tr", *(tag("th", cell, style="head", scope="col") for cell in head))] if head else []
    more = dim(f"... {len(rows) - most:,} more") if len(rows) > most else ""
    return joined(tag("table", *titles, *shown, style="table"), more)


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and values, a row for each."""
    rows = [
        tag("tr", tag("th", name, style="cell", scope="row"), tag("td", each, style="cell")) for name, each in pairs
    ]
    return tag("table", *rows, style="table")


def _cell(value: object) -> Markup:
    text = escape(value)
    is_number = NUMBER.fullmatch(text) is not None
    return tag("td", text, style="number" if is_number else "cell")


def grid(rows: Sequence[Any], cols: Sequence[Any], cells: Sequence[Sequence[tuple[object, str, str]]]) -> Markup:
    """Values in a plane, with the numbers of rows and columns; a cell is a text, a background and a hint."""
    top = tag("tr", tag("td", "", style="head"), *(tag("th", col, style="head", scope="col") for col in cols))
    below = [
        tag("tr", tag("th", row, style="cell", scope="row"), *(_coloured(*cell) for cell in line))
        for row, line in zip(rows, cells, strict=True)
    ]
    return tag("table", top, *below, style="table")


def _coloured(text: object, background: str, hint: str) -> Markup:
    style = STYLES["number"] + (f";background:{background}" if background else "")
    return tag("td", text, style=style, title=hint)
