"""The errors and warnings that carry findings."""

from __future__ import annotations

from collections.abc import Iterable

from ptokit.finding.finding import Finding
from ptokit.finding.hints import counted

MOST_IN_ERROR = 20
"""Findings that the text of an error has."""


def _text(findings: tuple[Finding, ...]) -> str:
    more = [f"and {counted(len(findings) - MOST_IN_ERROR, 'more finding')}"] if len(findings) > MOST_IN_ERROR else []
    return "\n".join([*map(str, findings[:MOST_IN_ERROR]), *more])


class VerifyError(ValueError):
    """A call or program that the target refuses. It has written nothing, unless it has a report."""

    __module__ = "ptokit.finding"

    report: object = None
    """Of a launch with `strict=True` that ran on the machine: its report."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class OutOfBoundsError(IndexError):
    """An index outside its table under the policy `undefined`. Nothing was written."""

    __module__ = "ptokit.finding"

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class HazardWarning(UserWarning):
    """A finding of level `hazard`: the result is right here and would not be elsewhere. Of a launch on the machine: its
    first error or hazard, after the number of all."""

    __module__ = "ptokit.finding"

    def __init__(self, finding: Finding, heading: str = "") -> None:
        self.finding = finding
        super().__init__(heading + str(finding.at(None)))  # Python prints the place of a warning itself


class UnmodelledWarning(UserWarning):
    """A finding of level `unmodelled`: some results are unspecified."""

    __module__ = "ptokit.finding"

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding.at(None)))


WARNINGS: dict[str, type[HazardWarning | UnmodelledWarning]] = {
    "hazard": HazardWarning,
    "unmodelled": UnmodelledWarning,
}
"""The levels that are shown as warnings."""
