"""Facts by target. A table has a row for each family; a revision of a target may replace rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ptokit.spec import family_of

Row_co = TypeVar("Row_co", covariant=True)


class Table(Generic[Row_co]):
    """Rows by target. A revision (`a5@2026.08`) has its own row, or that of its family (`a5`)."""

    def __init__(self, rows: Mapping[str, Row_co]) -> None:
        self.rows = rows

    def get(self, target: str, default: Any = None) -> Any:
        """The row of a target, or `default`."""
        replaced = revision_of(target).tables
        return replaced[self] if self in replaced else lookup(self.rows, target, default)

    def __getitem__(self, target: str) -> Row_co:
        row = self.get(target, MISSING)
        if row is MISSING:
            raise KeyError(target)
        return row


MISSING = object()


@dataclass(frozen=True)
class Revision:
    """How a revision of a target differs from its family in the definitions of instructions."""

    tables: Mapping[Table[Any], Any] = field(default_factory=dict[Table[Any], Any])
    """Tables, and the rows that they have for this revision."""
    dropped: frozenset[str] = frozenset()
    """The ids of rules that do not apply."""
    added: frozenset[str] = frozenset()
    """The ids of rules that refuse here, although they do not on the family."""
    kernels: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By route: the kernels (`isa.kernel.RouteKernel`) that replace those of the family."""


PLAIN = Revision()
REVISIONS: dict[str, Revision] = {}
"""By target. `ptokit.target.register` fills it."""


def revision_of(target: str) -> Revision:
    """How a target differs from its family."""
    return REVISIONS.get(target, PLAIN)


def lookup(rows: Mapping[str, Any] | Table[Any], target: str, default: Any = None) -> Any:
    """The row of a target, else that of its family, else `default`."""
    if isinstance(rows, Table):
        return rows.get(target, default)
    return rows.get(target, rows.get(family_of(target), default))
