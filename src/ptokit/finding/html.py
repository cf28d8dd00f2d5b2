"""A finding in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptokit.markup import Markup, badge, clipped, dim, joined, tag

if TYPE_CHECKING:
    from ptokit.finding.finding import Finding


def finding_html(finding: Finding) -> Markup:
    """Level, clause and place, then the message, the fix and the details."""
    name = f"{finding.rule}, {finding.kind}" if finding.kind else finding.rule
    place = [" ", tag("code", finding.where)] if finding.where else []
    head = tag("div", badge(finding.level, finding.level), " ", tag("strong", name), *place)
    return joined(head, tag("div", clipped(finding.message)), *(dim(clipped(line)) for line in finding.lines))
