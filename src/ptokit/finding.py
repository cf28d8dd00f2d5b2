"""Findings on calls and programs, and the errors and warnings that carry them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

Level = Literal["error", "hazard", "note"]
"""`error`: refused. `hazard`: right here, wrong elsewhere. `note`: a remark, shown on request."""


LEVELS: tuple[Level, ...] = ("error", "hazard", "note")
"""The most severe first."""
MOST_SHOWN = 3
"""Findings that a short line names."""
NAME = 40
"""Characters of a name in a short line."""
CLOSE = 0.6
"""How similar a misspelt word must be to a name, from 0 to 1."""
LONGEST_WORD = 160
"""Characters of a word that may be a misspelt name."""
MOST_NAMES = 500
"""Names that a misspelt word is compared to: those of about its length."""


@dataclass(frozen=True)
class Where:
    """A place in the user's own source."""

    file: str
    line: int
    column: int | None = None
    caret: int | None = field(default=None, compare=False, repr=False)
    """The column to mark when the line is shown, if the place is the whole line."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")


@dataclass(frozen=True)
class Finding:
    """One fault or remark: what was expected, what was found, where, under which clause, and how to fix it."""

    level: Level
    rule: str
    """The clause id, or the number of the decision (A-nn) if only a decision supports the rule."""
    message: str
    kind: str | None = None
    """The number of the hazard (H-nn) that this finding is an instance of."""
    operand: str = ""
    expected: str = ""
    found: str = ""
    fix: str = ""
    where: Where | None = None
    target: str = ""
    """The target it was found on; empty if it holds on every target."""
    blocks: bool = field(default=False, compare=False, repr=False)
    """Whether it blocks execution: an engine that reports errors and goes on cannot go on after this one."""
    unwritten: bool = field(default=False, compare=False, repr=False)
    """Whether it is a read of memory that nothing has written, which a check and a run on the machine both find."""
    tiles: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The tiles that share bytes, if it says that they should not."""

    def at(self, where: Where | None) -> Finding:
        """The same finding, pointing at a place."""
        return replace(self, where=where)

    def on(self, target: str) -> Finding:
        """The same finding, on a target."""
        return self if self.target else replace(self, target=target)

    def __str__(self) -> str:
        name = f"{self.rule}, {self.kind}" if self.kind else self.rule
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.level} [{name}] {self.message}" + (f"\n    fix: {self.fix}" if self.fix else "")


def not_in_run(checked: Iterable[Finding], run: Iterable[Finding]) -> list[Finding]:
    """The findings of a check without reads of unwritten memory that a run found, too."""
    seen = {(finding.operand, finding.where) for finding in run if finding.unwritten}
    return [finding for finding in checked if not (finding.unwritten and (finding.operand, finding.where) in seen)]


def fold_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, but of errors and hazards about the same overlapping tiles only the first."""
    seen: set[frozenset[str]] = set()
    kept: list[Finding] = []
    for finding in findings:
        if finding.level == "note" or finding.tiles not in seen:
            kept.append(finding)
        if finding.tiles and finding.level != "note":
            seen.add(finding.tiles)
    return kept


def near(word: str, names: Iterable[str]) -> str:
    """The name that a misspelt word is closest to; empty if none is close."""
    best = nearest(word, names, 1, CLOSE)
    return best[0] if best else ""


def suggestion(word: object, names: Iterable[str]) -> str:
    """The end of a message about an unknown word: `; did you mean X?`, or nothing if no name is close."""
    close = near(word, names) if isinstance(word, str) else ""
    return f"; did you mean {close}?" if close else ""


def nearest(word: str, names: Iterable[str], count: int, least: float = -1.0) -> list[str]:
    """The names that a word is most like, the closest first; only those that are more like it than `least`."""
    from difflib import SequenceMatcher

    if len(word) > LONGEST_WORD:
        return []
    alike, exactly = SequenceMatcher(None, autojunk=False), SequenceMatcher(None, b=word, autojunk=False)
    alike.set_seq2(word.lower())
    found: list[tuple[float, float, str]] = []
    for name in sorted(sorted(names, key=lambda name: abs(len(name) - len(word)))[:MOST_NAMES]):
        alike.set_seq1(name.lower())
        if alike.real_quick_ratio() > least and alike.quick_ratio() > least and alike.ratio() > least:
            exactly.set_seq1(name)  # among equals, the one in the same case
            found.append((alike.ratio(), exactly.ratio(), name))
    return [name for *_, name in sorted(found, key=lambda each: each[:2], reverse=True)[:count]]


def counted(number: int, what: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def summary(findings: tuple[Finding, ...]) -> str:
    """Findings in one short line: how many of each level, and the rules and lines of the first errors and hazards."""
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    levels = ", ".join(counted(n, level) for level, n in counts.items() if n)
    wrong = [finding for finding in findings if finding.level != "note"]
    names = [*dict.fromkeys((finding.kind or finding.rule) + _line(finding) for finding in wrong)]
    shown = ", ".join([*names[:MOST_SHOWN], *["..."] * (len(names) > MOST_SHOWN)])
    return (levels or "no findings") + (f" ({shown})" if shown else "")


def _line(finding: Finding) -> str:
    return f" at line {finding.where.line}" if finding.where else ""


def _text(findings: tuple[Finding, ...]) -> str:
    return "\n".join(str(finding) for finding in findings)


class VerifyError(ValueError):
    """A call or program that the target refuses. It has written nothing."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class OutOfBoundsError(IndexError):
    """An index outside its table under the policy `undefined`. Nothing was written."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class HazardWarning(UserWarning):
    """A finding of level `hazard`: the result is right here and would not be elsewhere."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding.at(None)))  # Python prints the place of a warning itself
