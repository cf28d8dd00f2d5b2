"""Facts by target. A table has a row for each family of the documents. A revision of a target and a family that is
like another may replace rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from ptokit.spec import lineage

Row_co = TypeVar("Row_co", covariant=True)


class Table(Generic[Row_co]):
    """Rows by target. A revision (`a5@2026.08`) has its own row, or the row of its family (`a5`), or of the family that
    its family is like."""

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
    """How a target differs in the definitions of instructions: a revision from its family, a family from the one that
    it is like."""

    tables: Mapping[Table[Any], Any] = field(default_factory=dict[Table[Any], Any])
    """Tables, and the rows that they have here."""
    dropped: frozenset[str] = frozenset()
    """The ids of rules that do not apply."""
    added: frozenset[str] = frozenset()
    """The ids of rules that refuse here, although they do not there."""
    kernels: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """By route: the kernels (`isa.kernel.RouteKernel`) that replace those of the other target, or are new."""
    rows: tuple[Difference, ...] = ()
    """The same differences one by one, if each has its reason."""
    state: str = ""
    """The date and the commit of the public repository that it describes."""

    @staticmethod
    def of(state: str, *rows: Difference) -> Revision:
        """All differences of a list together."""
        whole = Revision(rows=rows, state=state)
        for row in rows:
            whole = row.changes.on(whole)
        return whole

    def on(self, other: Revision) -> Revision:
        """The same differences from what `other` differs from."""
        return Revision(
            {**other.tables, **self.tables},
            (other.dropped - self.added) | self.dropped,
            (other.added - self.dropped) | self.added,
            {**other.kernels, **self.kernels},
            (*other.rows, *self.rows),
            self.state or other.state,
        )


@dataclass(frozen=True)
class Difference:
    """One row of a revision: how an instruction differs, and the header or page that shows it."""

    instruction: str
    text: str
    source: str
    """`include/pto/npu/a5/MScatter.hpp:35`, or a page."""
    changes: Revision


PLAIN = Revision()
REVISIONS: dict[str, Revision] = {}
"""By target: all differences from the family of the documents. `ptokit.target.register` fills it."""


@lru_cache(maxsize=1024)
def revision_of(target: str) -> Revision:
    """How a target differs from the family of the documents."""
    return next((REVISIONS[name] for name in lineage(target) if name in REVISIONS), PLAIN)


def lookup(rows: Mapping[str, Any] | Table[Any], target: str, default: Any = None) -> Any:
    """The row of a target, else that of its family or of one that this is like, else `default`."""
    if isinstance(rows, Table):
        return rows.get(target, default)
    if target in rows:  # most are asked for by their family
        return rows[target]
    for name in lineage(target):
        if name in rows:
            return rows[name]
    return default
