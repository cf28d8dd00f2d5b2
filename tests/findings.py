"""Checks every finding of the tests: its rule exists, and applies to its target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ptokit import spec
from ptokit.finding import OPAQUE, SHARDED, Finding

SEEN: dict[tuple[str, str | None, str], None] = {}
"""Rule, kind and target of what was found so far in this process."""
FAULTS: dict[str, None] = {}
"""What was wrong with some of them, since they were last taken."""


def fault_of(finding: Finding) -> str:
    """What is wrong with the rule, kind or target of a finding; empty where nothing is."""
    rule, kind, target = finding.rule, finding.kind, finding.target
    clause = spec.clauses().get(rule)
    if (rule, finding.level) in ((OPAQUE, "unmodelled"), (SHARDED, "note")):
        return ""
    if clause is None and rule not in spec.gaps():
        return f"{rule} is neither a clause nor a decision"
    if kind is not None and kind not in spec.hazards():
        return f"{kind} is no hazard"
    if target:
        if not spec.holds(rule, target):
            return f"{rule} says nothing of {target}"
        return f"{kind} has no level on {target}" if kind and not spec.hazards()[kind].level_on(target) else ""
    is_general = clause is None or set(spec.FAMILIES) <= set(clause.targets)
    return "" if is_general else f"{rule} speaks of {', '.join(clause.targets)}, and the finding names no target"


def watch() -> None:
    """Look at every finding from now on."""
    make = Finding.__init__

    def look(self: Finding, *given: Any, **named: Any) -> None:
        make(self, *given, **named)
        key = self.rule, self.kind, self.target
        if key not in SEEN:
            SEEN[key] = None
            if fault := fault_of(self):
                FAULTS[f"{fault}: {self}"] = None

    Finding.__init__ = look


def take_faults() -> list[str]:
    """What was wrong since this was last asked."""
    found = list(FAULTS)
    FAULTS.clear()
    return found


@contextmanager
def expected_faults() -> Iterator[list[str]]:
    """Findings inside may be wrong; the list has the faults afterwards."""
    before, kept, found = dict(FAULTS), dict(SEEN), []
    FAULTS.clear()
    SEEN.clear()
    try:
        yield found
    finally:
        found += FAULTS
        FAULTS.clear()
        FAULTS.update(before)
        SEEN.clear()
        SEEN.update(kept)
