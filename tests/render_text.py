"""Rendered output as plain text, without wrapped lines."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def text_of(page: RenderableType) -> str:
    """The page without colours and without wrapped lines."""
    out = io.StringIO()
    Console(file=out, width=10_000, color_system=None, no_color=True).print(page)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
