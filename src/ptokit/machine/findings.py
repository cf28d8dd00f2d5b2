"""The findings of a run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ptokit.finding import LEVELS, Finding


class Findings:
    """Findings without duplicates: of several with one hazard, operand and location, the most severe."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings."""
        for finding in findings:
            key = (finding.kind or (finding.rule, finding.level), finding.operand, finding.where, finding.expected)
            known = self._found.get(key)
            if known is None or LEVELS.index(known.level) > LEVELS.index(finding.level):
                self._found[key] = finding

    @property
    def found(self) -> tuple[Finding, ...]:
        """All of them, in the order of the first finding at each location."""
        return tuple(self._found.values())
