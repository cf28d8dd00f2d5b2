"""Lines of source texts. Those of C++, and texts that are no files, are kept here: anyone may clear `linecache`."""

from __future__ import annotations

import linecache

_TEXTS: dict[str, list[str]] = {}
"""By the name that code has."""


def keep(name: str, lines: list[str]) -> None:
    """Keep the lines of a text, for findings; tracebacks find them in `linecache`."""
    _TEXTS[name] = lines
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def lines_of(file: str) -> list[str]:
    """The lines of a file or of a kept text; none if it cannot be read."""
    return _TEXTS.get(file) or linecache.getlines(file)


def line_of(file: str, number: int) -> str:
    """A line of a file or of a kept text, counted from 1; empty if it does not exist."""
    lines = lines_of(file)
    return lines[number - 1] if 0 < number <= len(lines) else ""
