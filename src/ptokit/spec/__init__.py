"""The clause table as data: every statement of the documents, the gaps, the hazards, and runnable examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

FAMILIES = ("cpu", "a2a3", "a5")


@dataclass(frozen=True)
class Clause:
    """One statement of the documents."""

    id: str
    targets: tuple[str, ...]
    statement: str
    kind: str
    """`reject`, `accept`, `value`, `model`, `hazard` or `text`."""
    source: str
    header: tuple[str, ...] = ()
    """The targets whose real headers assert it."""
    decision: str = ""
    """The gap (A-nn) whose decision replaces or completes the statement."""
    verdict: str = ""
    """What holds instead, by that decision."""


@dataclass(frozen=True)
class Gap:
    """A place where the documents contradict each other or say nothing, and how ptokit settles it."""

    id: str
    conflict: str
    decision: str
    why: str


@dataclass(frozen=True)
class Hazard:
    """Something a simulator or compiler lets through and hardware does not."""

    id: str
    bites: str
    silent: str
    situation: str
    effect: str
    clauses: str
    level: str
    seen_by: str


@dataclass(frozen=True)
class Example:
    """Python that meets a clause and Python that breaks it; the conformance tests run both."""

    meets: str = ""
    breaks: tuple[str, ...] = ()
    rule: str = ""
    """The rule that the breaking code runs into, where it is not the clause itself."""
    targets: tuple[str, ...] = ()
    """Where to run it, if not on the clause's own targets."""
    each: tuple[str, ...] = ()
    """Instructions to run all of it with, one after the other, as `op`."""


def _tables(folder: str) -> Iterator[dict[str, Any]]:
    import tomllib
    from importlib.resources import files

    for entry in sorted(files(__name__).joinpath(folder).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            yield tomllib.loads(entry.read_text(encoding="utf-8"))


def _rows(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for table in _tables(folder):
        yield from table.items()


@cache
def clauses() -> dict[str, Clause]:
    """All clauses by id."""
    found: dict[str, Clause] = {}
    for name, row in _rows("clauses"):
        row["targets"], row["header"] = tuple(row["targets"]), tuple(row.get("header", ()))
        found[name] = Clause(name, **row)
    return found


@cache
def gaps() -> dict[str, Gap]:
    """All gaps and their decisions by number."""
    return {name: Gap(name, **row) for name, row in _rows("gaps")}


@cache
def hazards() -> dict[str, Hazard]:
    """All hazards by number."""
    return {name: Hazard(name, **row) for name, row in _rows("hazards")}


@cache
def examples() -> dict[str, Example]:
    """The runnable examples by clause id or decision number."""
    found: dict[str, Example] = {}
    for name, row in _rows("examples"):
        breaks, setup = row.get("breaks", ()), row.pop("setup", "")
        row["breaks"] = tuple(setup + code for code in ((breaks,) if isinstance(breaks, str) else breaks))
        row["meets"] = row.get("meets", "") and setup + row["meets"]
        row["targets"], row["each"] = tuple(row.get("targets", ())), tuple(row.get("each", "").split())
        found[name] = Example(**row)
    return found


def header(rule: str) -> tuple[str, ...]:
    """The targets whose real headers assert a rule; none for a decision of ptokit's own."""
    clause = clauses().get(rule)
    return clause.header if clause else ()
