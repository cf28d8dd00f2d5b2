"""Tables and titles on a terminal of any width: they fold, nothing is cut off, and words stay whole."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

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


NARROW = 60
"""Characters below which rows of more than two cells are stacked."""
INDENT = 4


class PageTitle:
    """A name and a remark on a line across the page; plain text where they do not fit on one line."""

    def __init__(self, name: str, remark: str) -> None:
        self.text = Text.assemble((name, "bold"), f"  {remark}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.text.cell_len + 2 <= options.max_width:
            yield Line(self.text, align="left")
        else:
            yield self.text


class FoldingGrid:
    """Rows of cells in columns; where these would be too narrow, the cells of a row one below the other."""

    def __init__(self, rows: Iterable[Sequence[str]]) -> None:
        self.rows = [*rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = max(map(len, self.rows), default=0)
        if wide > 2 and options.max_width < NARROW:
            yield from self._stacked(options.max_width)
            return
        table = Table.grid(padding=(0, 2))
        for _ in range(wide + 1):
            table.add_column(overflow="fold")
        for row in self.rows:
            table.add_row("", *map(Text, row))
        yield table

    def _stacked(self, width: int) -> RenderResult:
        for first, *rest in self.rows:
            yield Text(f"  {first}", style="bold")
            for cell in filter(None, rest):
                yield _indented(cell, width)


def _indented(text: str, width: int) -> Table:
    table = Table.grid(padding=0)
    table.add_column(width=INDENT)
    table.add_column(overflow="fold", width=max(8, width - INDENT))
    table.add_row("", Text(text))
    return table


class SideBySide:
    """A table with a column for each subject; several tables with fewer columns where they do not fit."""

    def __init__(self, title: str, names: Sequence[str], columns: Sequence[tuple[str, Sequence[str]]]) -> None:
        self.title = title
        self.names = names
        self.columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        label = _longest(self.names)
        for k, group in enumerate(self._groups(options.max_width - label - 4)):
            columns = [("", self.names), *group]
            table = Table(title=None if k else self.title, show_lines=False)
            for (head, _), width in zip(columns, _widths(columns, options.max_width - 1), strict=True):
                table.add_column(head, style="" if head else "bold", width=width, overflow="fold")
            for row in zip(*(cells for _, cells in columns), strict=True):
                table.add_row(*row)
            yield table

    def _groups(self, room: int) -> Iterable[list[tuple[str, Sequence[str]]]]:
        """As many columns as fit, at least one."""
        group: list[tuple[str, Sequence[str]]] = []
        left = room
        for head, cells in self.columns:
            need = _longest((head, *cells)) + 3
            if group and need > left:
                yield group
                group, left = [], room
            group.append((head, cells))
            left -= need
        yield group


def _widths(columns: Sequence[tuple[str, Sequence[str]]], room: int) -> list[int]:
    """Widths of columns: at least their longest words, at most their longest cells, the narrowest widened first."""
    widths = [_longest((head, *cells)) for head, cells in columns]
    wanted = [max(map(len, (head, *cells))) for head, cells in columns]
    for _ in range(max(0, room - sum(widths) - 3 * len(widths))):
        left = [k for k in range(len(widths)) if widths[k] < wanted[k]]
        if not left:
            break
        widths[min(left, key=lambda k: widths[k])] += 1
    return widths


def _longest(texts: Iterable[str]) -> int:
    """Characters of the longest word."""
    return max((len(word) for text in texts for word in text.split()), default=1)
