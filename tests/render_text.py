"""Rendered output as plain text."""

from __future__ import annotations

import io
from itertools import zip_longest

from rich.console import Console, RenderableType
from rich.text import Text

from ptokit.render.document import TextPage
from ptokit.render.tables import FoldingGrid, PageTitle


def text_of(page: RenderableType, width: int = 1_000) -> str:
    """The page without colours, by default without wrapped lines."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, no_color=True).print(page, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def plain_text_of(page: TextPage) -> str:
    """The page as `text_of` gives it, but for the spaces between columns; without Rich, which takes much longer."""
    return "\n".join(_plain(part) for part in page.__rich__().renderables)


def _plain(part: RenderableType) -> str:
    if isinstance(part, FoldingGrid):
        lines = (line for row in part.rows for line in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""))
        return "\n".join(f"  {'  '.join(line)}".rstrip() for line in lines)
    assert isinstance(part, Text | PageTitle)
    return part.plain if isinstance(part, Text) else part.text.plain
