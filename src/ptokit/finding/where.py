"""Places in the user's source, and their texts."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from ptokit.brief import named

_CELL = re.compile(r"<ipython-input-(\d+)-\w+>|In ?\[(\d+)\]")
"""Names of cells: of their code, as IPython shows them, and as they are shown here."""


def cell_of(file: str) -> str:
    """`In [4]` for the name of the code of a notebook's cell, or of what is typed into IPython; else empty."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = named(file) if named else None
    found = _CELL.fullmatch(label[1] if label else file)
    return f"In [{found[1] or found[2]}]" if found else ""


def shown_file(file: str) -> str:
    """The name of a file for the user: relative to the current directory, unless the absolute name is shorter; of code
    in a notebook, the cell."""
    cell = cell_of(file)
    if cell or not os.path.isabs(file):
        return cell or file
    try:
        return min(os.path.relpath(file), file, key=len)
    except (OSError, ValueError):  # no current directory, or another drive
        return file


@dataclass(frozen=True)
class Where:
    """A place in the user's own source."""

    file: str
    line: int
    column: int | None = None
    caret: int | None = field(default=None, compare=False, repr=False)
    """The column to mark when the line is shown, if the place is the whole line."""
    calls: tuple[Where, ...] = field(default=(), compare=False, repr=False)
    """The calls that lead there, the innermost first; the last is a line of the kernel itself."""

    def __init__(
        self,
        file: str,
        line: int,
        column: int | None = None,
        caret: int | None = None,
        calls: tuple[Where, ...] = (),
    ) -> None:
        """What a frozen dataclass does by itself takes three times as long."""
        self.__dict__.update(file=file, line=line, column=column, caret=caret, calls=calls)

    @property
    def path(self) -> tuple[Where, ...]:
        """The place and its calls: two places in one helper differ if its calls do."""
        return self, *self.calls

    def called(self, calls: tuple[Where, ...]) -> Where:
        """The same place, reached by calls."""
        return replace(self, calls=calls) if calls else self

    def __str__(self) -> str:
        cell = cell_of(self.file)
        place = f"{cell}, line {self.line}" if cell else f"{self.file}:{self.line}"
        return place + (f":{self.column}" if self.column is not None else "")


def shown(name: str, operand: str) -> str:
    """An operand with the name of its tile or array: `rows (src)`."""
    return f"{named(name)} ({operand})" if name and name != operand else named(operand)


def at_line(what: str, where: Where | None) -> str:
    """A statement with its line: `mgather (line 12)`."""
    return f"{what} (line {where.line})" if where else what
