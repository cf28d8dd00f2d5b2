"""What a run has found."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ptokit.finding import LEVELS, Finding


class Findings:
    """What was found, each once; of what is said twice of one place under one number, the graver."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """Take findings."""
        for finding in findings:
            key = (finding.kind or (finding.rule, finding.level), finding.operand, finding.where, finding.expected)
            known = self._found.get(key)
            if known is None or LEVELS.index(known.level) > LEVELS.index(finding.level):
                self._found[key] = finding

    @property
    def found(self) -> tuple[Finding, ...]:
        """All of them, in the order in which their places were first spoken of."""
        return tuple(self._found.values())
