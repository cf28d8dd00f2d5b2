"""What `targets` and `explain` show, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ptokit import spec
from ptokit.isa.catalog import INSTRUCTIONS
from ptokit.isa.instruction import Instruction
from ptokit.isa.opaque import opaque_rows
from ptokit.render import pages
from ptokit.render.pages import sketch
from ptokit.target import PROFILES, Profile, families


def targets_data() -> dict[str, Any]:
    """The profiles by name: numbers, and the table's texts."""
    return {name: _profile(profile) for name, profile in PROFILES.items()}


def _profile(profile: Profile) -> dict[str, Any]:
    budget = profile.budget(dyn_ub=0)
    return {
        "title": profile.title,
        "family": profile.family,
        "revision": profile.revision.state,
        "memories": {name: profile.memories[loc].size for name, loc in pages.MEMORIES.items()},
        "ub_for_tiles": budget.limit if budget else None,
        "ub_without_dyn_ub": budget.available if budget else None,
        "cores": {core.name: int(profile.costs[f"{core.name} cores"]) for core in profile.cores},
        "pipes": [*profile.pipes],
        "event_ids": profile.event_ids,
        "facts": {title: fact(profile) for title, fact in pages.FACTS.items()},
    }


def index_data() -> dict[str, Any]:
    """Every name that can be explained."""
    return {
        "instructions": {name: each.summary for name, each in INSTRUCTIONS.items()},
        "opaque": sorted(pages.opaque_names()),
        "hazards": {name: hazard.situation for name, hazard in spec.hazards().items()},
        "groups": {name: [*clauses] for name, clauses in pages.groups().items()},
        "decisions": {name: gap.conflict for name, gap in spec.gaps().items()},
    }


def page_data(name: str, target: str | None) -> dict[str, Any]:
    """One of these names; `target` narrows an instruction."""
    if name in INSTRUCTIONS:
        return {"page": "instruction", "name": name, **_instruction(INSTRUCTIONS[name], target)}
    if name in pages.opaque_names():
        row = opaque_rows()[name]
        return {"page": "opaque", "name": name, "pipe": row.pipe, "forms": [[*form.names] for form in row.forms]}
    for kind, table in (("clause", spec.clauses()), ("decision", spec.gaps()), ("hazard", spec.hazards())):
        if name in table:
            return {"page": kind, "name": name, **{k: v for k, v in asdict(table[name]).items() if k != "id"}}
    names = pages.groups().get(name, tuple(sorted(pages.opaque_names())))
    return {"page": "group", "name": name, "names": [*names]}


def _instruction(instruction: Instruction, target: str | None) -> dict[str, Any]:
    profiles = [PROFILES[name] for name in ((target,) if target else families())]
    return {
        "summary": instruction.summary,
        "meaning": [*instruction.meaning],
        "operands": [
            {"name": each.name, "access": each.access, "about": each.about, "optional": each.optional}
            for each in instruction.operands
        ],
        "modifiers": [
            {"name": each.name, "about": each.about, "choices": each.choices, "default": each.default_name}
            for each in instruction.modifiers
        ],
        "differences": {
            profile.name: [{"text": row.text, "source": row.source} for row in pages.differences(instruction, profile)]
            for profile in profiles
        },
        "rules": {profile.name: [*_rules(instruction, profile)] for profile in profiles},
        "spellings": {form: [*lines] for form, lines in instruction.spellings.items()},
        "clauses": {
            profile.name: [clause.id for clause in pages.clauses_of(instruction, profile.name)] for profile in profiles
        },
    }


def _rules(instruction: Instruction, profile: Profile) -> Iterator[dict[str, Any]]:
    for rule in instruction.rules:
        if level := rule.level_on(profile.name):
            yield {
                "clause": rule.clause(profile.name),
                "level": level,
                "operand": rule.operand,
                "when": rule.when.text,
                "expected": sketch(rule, profile),
                "hazards": [*rule.kinds],
            }
