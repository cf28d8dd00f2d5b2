"""Places in the user's sources; the two accesses of a conflict, and how often a run shows it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ptokit.brief import named
from ptokit.finding.hints import counted

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


# --- accesses


Iteration = tuple[tuple[str, int], ...]
"""Loop variables and their values, the outermost first."""


VECTOR = "vector core"
"""The name of the number of a vector core among those of loop variables."""


@dataclass(frozen=True)
class ConflictAccess:
    """One of the two accesses of a conflict: a pipe of an instruction touches one of its operands."""

    instruction: str
    operand: str
    """As the instruction's definition names it: `src`."""
    name: str
    """The tile or the array: the author's name."""
    how: str
    """`read`, `write`, or the name of an atomic."""
    pipe: str
    """With its core: `AIV.MTE2`."""
    gate: str
    """The pipe that can be made to wait before the access, with its core."""
    memory: str
    """`UB`, `GM`."""
    where: Where | None = None
    statement: int = 0
    """The number of the statement, counted in the order of `ir.walk`."""
    block: int = 0
    iteration: Iteration = ()
    bytes: tuple[int, int] = (0, 0)
    """The first of the bytes that both accesses touch, and the one after the last: addresses on the chip, offsets in an
    array."""
    rows: tuple[int, int] | None = None
    """The first and the last row of the tile or the array that these bytes belong to."""

    @property
    def unit(self) -> str:
        """The pipe without its core."""
        return self.pipe.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self._does} on {self.unit}"

    @property
    def on_core(self) -> str:
        """`mgather writes rows (dst) on AIV.V`."""
        return f"{self._does} on {self.pipe}"

    @property
    def _does(self) -> str:
        verb = {"read": "reads", "write": "writes"}.get(self.how, f"{self.how}s to")
        return f"{self.instruction} {verb} {shown(self.name, self.operand)}"

    @property
    def act(self) -> str:
        """`mgather's write`."""
        return f"{self.instruction}'s {self.how}"

    @property
    def noun(self) -> str:
        """`mgather's write of rows (dst) on V (line 14)`."""
        return f"{self._done} on {self.unit}{self.line}"

    @property
    def noun_on_core(self) -> str:
        """`mgather's write of rows (dst) on AIV.V (line 14)`."""
        return f"{self._done} on {self.pipe}{self.line}"

    @property
    def _done(self) -> str:
        of = "of" if self.how in ("read", "write") else "to"
        return f"{self.act} {of} {shown(self.name, self.operand)}"

    @property
    def line(self) -> str:
        """` (line 14)`, with the file if it is not the kernel's own; empty if it is not known."""
        if self.where is None:
            return ""
        if self.where.file == self.where.path[-1].file:
            return f" (line {self.where.line})"
        return f" ({Where(os.path.basename(shown_file(self.where.file)), self.where.line)})"

    def as_dict(self) -> dict[str, Any]:
        """The access as plain data."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)} | {"iteration": dict(self.iteration)}
        return (
            plain | {"where": str(self.where), "calls": [str(call) for call in self.where.calls]}
            if self.where
            else plain
        )


@dataclass(frozen=True)
class Seen:
    """How often a run shows a finding, and where first."""

    block: int
    iteration: Iteration
    times: int
    blocks: int
    """How many blocks show it."""
    grid: int
    """How many blocks ran."""

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"iteration": dict(self.iteration)}


def bytes_of(then: ConflictAccess) -> str:
    """`rows 0..3 of ids, UB 0x40..0x240`."""
    first, end = then.bytes
    place = f"bytes {first:,}..{end:,}" if then.memory == "GM" else f"{then.memory} {first:#x}..{end:#x}"
    return f"{_rows(*then.rows)} of {named(then.name)}, {place}" if then.rows else f"{named(then.name)}, {place}"


def _rows(first: int, last: int) -> str:
    return f"row {first:,}" if first == last else f"rows {first:,}..{last:,}"


def moments(seen: Seen | None, first: ConflictAccess | None) -> str:
    """`in 12 of 64 blocks, 36 times; first: block 3, i=2 (mgather's write: i=1)`."""
    if seen is None or (seen.grid == 1 and not seen.iteration and not (first and first.iteration)):
        return ""
    times = f", {seen.times:,} times" if seen.times > seen.blocks else ""
    now, ago = _moment(seen.block, seen.iteration), ""
    if first:
        then = _moment(first.block, first.iteration)
        ago = f" ({first.act}: {then})" if then != now else ""
    return f"in {seen.blocks:,} of {counted(seen.grid, 'block')}{times}; first: {now}{ago}"


def _moment(block: int, iteration: Iteration) -> str:
    """`block 3, i=2`."""
    counts = (f"{name} {value}" if name == VECTOR else f"{named(name)}={value}" for name, value in iteration)
    return ", ".join((f"block {block:,}", *counts))
