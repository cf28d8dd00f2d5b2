"""Tables of text that fold where they do not fit: every row becomes a few lines of names and values."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ptokit.machine.report import aligned


def folded(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """The lines of a table whose first row is its header, in columns if they fit."""
    lines = aligned(rows)
    if all(len(line.rstrip()) <= width for line in lines):
        yield from (line.rstrip() for line in lines)
        return
    head, *rest = rows
    for row in rest:
        yield row[0]
        pairs = "; ".join(f"{name} {value}" for name, value in zip(head[1:], row[1:], strict=True) if value)
        yield from textwrap.wrap(pairs, max(20, width), initial_indent="  ", subsequent_indent="  ")
