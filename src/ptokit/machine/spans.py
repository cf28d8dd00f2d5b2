"""Busy times of pipes."""

from __future__ import annotations

from dataclasses import dataclass

from ptokit.finding import Where

ISSUING = -1
"""Instead of the number of a statement, for the time in which the scalar pipe issues instructions."""


@dataclass(frozen=True)
class BusySpan:
    """Work of a pipe for a statement: when it starts and ends, in cycles of its block."""

    pipe: str
    start: float
    end: float
    number: int
    what: str
    where: Where | None
    block: int

    @property
    def name(self) -> str:
        """The statement as messages name it: `mgather (line 12)`."""
        return named(self.what, self.where)


def named(what: str, where: Where | None) -> str:
    """A statement as messages name it."""
    return f"{what} (line {where.line})" if where else what
