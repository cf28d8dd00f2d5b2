"""`replay`: a trace on the machine, on the native engine or on a sharded table; the result as a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ptokit.brief import brief
from ptokit.engine.runnable import NATIVE
from ptokit.finding import VerifyError, suggestion
from ptokit.lang.faults import public
from ptokit.machine import MACHINE
from ptokit.markup import Displayed, box, clipped, dim, joined, table
from ptokit.progress import task
from ptokit.target import profile
from ptokit.traces.file import IndexTrace, in_columns
from ptokit.traces.traced_calls import CompactTable, LookupKind

ENGINES = {MACHINE: "on_machine", NATIVE: "on_host", "sharded": "on_shards"}
"""The modules of this package that replay a trace, by the name of the engine."""
Row = dict[str, Any]
FORMS: dict[type, Callable[[Any], str]] = {
    int: "{:,}".format,
    float: "{:.2f}".format,
    str: str,
    bool: lambda is_so: "yes" if is_so else "no",
    type(None): lambda _: "",
}
LONGEST = 100
"""Characters of a refusal in the table."""
SHARES = ("efficiency", "share")
"""Columns that are shown in percent."""


@dataclass(frozen=True, repr=False)
class ReplayResult(Displayed):
    """What a replay has found: a row for each table, kind of call, and target, library or owner."""

    engine: str
    source: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns, in the order of first use."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def table(self) -> list[tuple[str, ...]]:
        """Header and rows, as text."""
        names = self.columns
        return [names, *(tuple(_shown(name, row.get(name)) for name in names) for row in self.rows)]

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {"engine": self.engine, "source": self.source, "rows": [*self.rows], "notes": [*self.notes]}

    def to_json(self) -> str:
        """The result as JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def __repr__(self) -> str:
        return f"<replay on {self.engine}: {len(self.rows)} rows>"

    def __str__(self) -> str:
        lines = [line.rstrip() for line in in_columns(self.table())] if self.rows else []
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        head, *rows = self.table() if self.rows else [()]
        return box(f"replay on {self.engine}", table(rows, head), joined(*map(dim, self.notes)))


def _shown(name: str, value: Any) -> str:
    return f"{value:.0%}" if name in SHARES and isinstance(value, float) else FORMS[type(value)](value)


@public
def replay(
    trace: IndexTrace,
    *,
    engine: str = "machine",
    targets: Sequence[str] | str = ("a2a3", "a5"),
    lanes: int | None = None,
    shards: int = 2,
) -> ReplayResult:
    """Move the rows of a trace once more, and report what it costs.

    On the `machine`: traffic, repeats, lanes outside and cycles of a kernel on each target. On the `native` engine:
    the time of `pto.gather` and `pto.scatter` against NumPy and, if installed, torch and Numba. On a `sharded` table:
    the accesses of each owner. Replayed are the first `lanes` indices of each table: 16,384 on the machine by default,
    else a million.
    """
    if not isinstance(trace, IndexTrace):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"replay takes an IndexTrace, got {brief(trace)}")
    if engine not in ENGINES:
        raise ValueError(f"the engines are {', '.join(ENGINES)}; found {brief(engine)}{suggestion(engine, ENGINES)}")
    for name, value in (("lanes", 1 if lanes is None else lanes), ("shards", shards)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} takes a whole number from 1 up; found {brief(value)}")
    named = targets.split(",") if isinstance(targets, str) else targets
    settings = ReplaySettings(tuple(profile(name.strip()).name for name in named), lanes, shards)
    with task("replay:"):
        rows, notes = import_module(f"ptokit.traces.{ENGINES[engine]}").run(trace, settings)
    return ReplayResult(engine, trace.source, tuple(rows), tuple(notes))


@dataclass(frozen=True)
class ReplaySettings:
    """How a trace is replayed."""

    targets: tuple[str, ...]
    lanes: int | None
    """Indices of each table; None for the default of the engine."""
    shards: int


def first_cells(what: LookupKind) -> Mapping[str, Any]:
    """The columns that name a table and a kind of call."""
    return {"table": f"#{what.table}", "call": what.title, "shape": what.extents}


def refused(problem: Exception) -> str:
    """The verdict on calls that are refused."""
    message = problem.findings[0].message if isinstance(problem, VerifyError) else str(problem)
    return f"refused: {clipped(message, LONGEST)}"


def each_table(
    trace: IndexTrace, why_not: Callable[[LookupKind], str], compact: Callable[..., CompactTable], notes: list[str]
) -> Iterator[CompactTable]:
    """The tables of a trace that can be replayed, each by one kind of call; `notes` say what is left out, and why."""
    for what, calls in trace.by_kind().items():
        name = f"#{what.table} {what.title}"
        if problem := why_not(what):
            notes.append(f"{name}: {problem}")
            continue
        made = compact(what, calls)
        notes += [f"{name}: {made.dropped:,} later indices are left out"] * (made.dropped > 0)
        yield made
