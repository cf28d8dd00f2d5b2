"""Errors and warnings that carry findings. Of several, which follow from others, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ptokit.finding.finding import LEVELS, Finding, finding_html
from ptokit.finding.hints import counted
from ptokit.markup import Markup, dim, joined, tag

MOST_IN_HTML = 20
"""Findings that a notebook shows."""
MOST_SHOWN = 3
"""Findings that a short line names."""


def not_in_run(checked: Iterable[Finding], run: Iterable[Finding]) -> list[Finding]:
    """The findings of a check, without reads of unwritten memory that a run found as well."""
    seen = {(finding.operand, finding.path) for finding in run if finding.unwritten}
    return [finding for finding in checked if not (finding.unwritten and (finding.operand, finding.path) in seen)]


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without races between tiles that must not overlap, and without values of an index that nothing has
    written."""
    overlaps = {finding.tiles for finding in findings if finding.is_fault and not finding.first}
    unwritten = {(finding.operand, finding.path) for finding in findings if finding.unwritten == "index"}
    return [
        finding
        for finding in findings
        if not (finding.first and finding.tiles and finding.tiles in overlaps)
        and not (finding.unwritten == "memory" and (finding.operand, finding.path) in unwritten)
    ]


def fold_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, but of errors and hazards about the same overlapping tiles only the first."""
    seen: set[frozenset[str]] = set()
    kept: list[Finding] = []
    for finding in findings:
        if not finding.is_fault or finding.first or finding.tiles not in seen:
            kept.append(finding)
        if finding.tiles and finding.is_fault and not finding.first:
            seen.add(finding.tiles)
    return kept


def by_level(findings: Iterable[Finding]) -> list[str]:
    """How many findings there are of each level: `1 error`, `2 unmodelled`."""
    counts = Counter(finding.level for finding in findings)
    plain = {"unmodelled": "{} unmodelled"}
    found = ((level, counts[level]) for level in LEVELS if counts[level])
    return [plain[level].format(n) if level in plain else counted(n, level) for level, n in found]


def findings_html(findings: Iterable[Finding], most: int = MOST_IN_HTML) -> Markup:
    """Findings in a notebook, the most severe first; those after the first `most` are counted."""
    ordered = sorted(findings, key=lambda finding: LEVELS.index(finding.level))
    more = [dim(f"... {len(ordered) - most:,} more")] if len(ordered) > most else []
    return joined(*(tag("div", finding_html(each), style="margin:6px 0") for each in ordered[:most]), *more)


def is_modelled(findings: Iterable[Finding]) -> bool:
    """Whether ptokit models all that the findings are about."""
    return all(finding.level != "unmodelled" for finding in findings)


def summary(findings: tuple[Finding, ...]) -> str:
    """Findings in one short line: how many of each level, and the rules and lines of the first errors and hazards."""
    levels = ", ".join(by_level(findings))
    wrong = [finding for finding in findings if finding.level != "note"]
    names = [*dict.fromkeys((finding.kind or finding.rule) + _line(finding) for finding in wrong)]
    shown = ", ".join([*names[:MOST_SHOWN], *["..."] * (len(names) > MOST_SHOWN)])
    return (levels or "no findings") + (f" ({shown})" if shown else "")


def _line(finding: Finding) -> str:
    return f" at line {finding.where.line}" if finding.where else ""


class Judged:
    """A result with findings. It is true if it is `ok`."""

    __slots__ = ()

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error and no hazard."""
        return not self.hazards

    @property
    def hazards(self) -> tuple[Finding, ...]:
        """The errors and hazards."""
        return tuple(finding for finding in self.findings if finding.is_fault)

    @property
    def modelled(self) -> bool:
        """Whether ptokit models every instruction of the kernel."""
        return is_modelled(self.findings)

    def __bool__(self) -> bool:
        return self.ok


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

    def __init__(self, findings: Iterable[Finding], grid: int | None = None) -> None:
        """`grid`: the number of blocks, if the kernel states it itself."""
        self.findings, self.grid = tuple(findings), grid
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
