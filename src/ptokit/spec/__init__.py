"""The clause table as data: every statement of the documents, the gaps, the hazards, and runnable examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

WITH_PIPES = ("a2a3", "a5")
FAMILIES = ("cpu", *WITH_PIPES)
"""The families of targets in the documents."""
OURS = ("host",)
"""Targets that are in no document: they may have a rule of any target."""
LIKE: dict[str, str] = {}
"""By family that no document has: the family whose statements hold for it. `ptokit.target.register` fills it."""
EVERY_INSTRUCTION = "*"


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
    """A question that the documents contradict each other on or leave open, and how ptokit decides it."""

    id: str
    conflict: str
    decision: str
    why: str


@dataclass(frozen=True)
class Hazard:
    """A failure on hardware that a simulator or compiler does not report."""

    id: str
    affects: str
    silent: str
    situation: str
    effect: str
    clauses: tuple[str, ...]
    """Its clauses and decisions; a finding names the first one that applies to its target."""
    instructions: tuple[str, ...]
    """The instructions whose use can have it, or `EVERY_INSTRUCTION`."""
    seen_by: str
    levels: Mapping[str, str]
    """By target; a level that depends on the case includes its cases."""

    @property
    def level(self) -> str:
        """The levels in one line."""
        groups: dict[str, list[str]] = {}
        for target in FAMILIES:
            if target in self.levels:
                groups.setdefault(self.levels[target], []).append(target)
        if len(groups) == 1 and set(FAMILIES) <= set(self.levels):
            return next(iter(groups))
        return "; ".join(f"{level} on {' and '.join(targets)}" for level, targets in groups.items())

    def level_on(self, target: str) -> str:
        """The level on a target; empty if it does not occur there."""
        return next((self.levels[name] for name in lineage(target) if name in self.levels), "")

    def concerns(self, instruction: str) -> bool:
        """Whether a use of the instruction can have it."""
        return EVERY_INSTRUCTION in self.instructions or instruction in self.instructions


@dataclass(frozen=True)
class Example:
    """Python that meets a clause and Python that breaks it; the conformance tests run both."""

    meets: str = ""
    breaks: tuple[str, ...] = ()
    rule: str = ""
    """The rules that the breaking code runs into, where they are not the clause itself."""
    message: str = ""
    """Words of the error, where the breaking code is refused without a finding."""
    targets: tuple[str, ...] = ()
    """Where to run it, if not on the clause's own targets."""
    each: tuple[str, ...] = ()
    """Instructions to run it with, one after the other, as `op`."""


def _rows(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of all files in a folder, with tuples for lists."""
    import tomllib
    from importlib.resources import files

    for entry in sorted(files(__name__).joinpath(folder).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            for name, row in tomllib.loads(entry.read_text(encoding="utf-8")).items():
                yield name, {key: _frozen(value) for key, value in row.items()}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # type: ignore[arg-type]


@cache
def clauses() -> dict[str, Clause]:
    """All clauses by id."""
    return {name: Clause(name, **row) for name, row in _rows("clauses")}


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
        row["each"] = tuple(row.get("each", "").split())
        found[name] = Example(**row)
    return found


@cache
def outcomes() -> dict[str, tuple[dict[str, str], ...]]:
    """The outcomes of the code that breaks each clause, by target, one entry for each piece of code.

    `make generated` writes them; a test compares them with new runs.
    """
    return {name: row["breaks"] for name, row in _rows("outcomes")}


def header(rule: str) -> tuple[str, ...]:
    """The targets whose real headers assert a rule; none for a decision of ptokit's own."""
    clause = clauses().get(rule)
    return clause.header if clause else ()


def family_of(target: str) -> str:
    """The target without its revision: `a5` for `a5@2026.08`."""
    return target.partition("@")[0]


@lru_cache(maxsize=1024)
def lineage(target: str) -> tuple[str, ...]:
    """A target, its family, the family that this one is like, and so on: the names that facts about it may have, the
    nearest first."""
    family = family_of(target)
    names = [target] if family == target else [target, family]
    while names[-1] in LIKE:
        names.append(LIKE[names[-1]])
    return tuple(names)


def is_one_of(target: str, families: Iterable[str]) -> bool:
    """Whether a target belongs to one of these families, or to one that is like them."""
    return not set(families).isdisjoint(lineage(target))


def holds(rule: str, target: str) -> bool:
    """Whether a clause or decision applies to a target. Decisions apply everywhere."""
    clause = clauses().get(rule)
    return rule in gaps() if clause is None else is_one_of(target, (*OURS, *clause.targets))


def first(rules: Iterable[str], target: str) -> str:
    """The first of several clauses and decisions that applies to a target."""
    named = tuple(rules)
    for rule in named:
        if holds(rule, target):
            return rule
    raise LookupError(f"none of {', '.join(named)} applies to {target}")


def behind(hazard: str, target: str) -> str:
    """The clause or decision that a finding of a hazard names on a target."""
    return first(hazards()[hazard].clauses, target)
