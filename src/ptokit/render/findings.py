"""Findings on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group
from rich.text import Text

from ptokit.finding import Finding

STYLES = {"error": "bold red", "hazard": "bold yellow", "note": "bold cyan"}


def finding_text(finding: Finding) -> Text:
    """One finding: level, clause, message, then place and fix on lines of their own."""
    name = f"{finding.rule} {finding.kind}" if finding.kind else finding.rule
    text = Text.assemble((finding.level, STYLES[finding.level]), " ", (name, "bold"), "  ", finding.message)
    if finding.where:
        text.append(f"\n    at  {finding.where}", style="dim")
    if finding.fix:
        text.append(f"\n    fix {finding.fix}", style="green")
    return text


def findings_text(findings: Iterable[Finding]) -> Group:
    """Several findings, one after the other."""
    return Group(*(finding_text(finding) for finding in findings))
