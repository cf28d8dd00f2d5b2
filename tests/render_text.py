"""Rendered output as plain text."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def text_of(page: RenderableType, width: int = 1_000) -> str:
    """The page without colours, by default without wrapped lines."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, no_color=True).print(page, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
