"""The findings of a run, and how often it shows each."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ptokit.finding import LEVELS, Finding, Iteration, Seen


@dataclass
class _Entry:
    """A finding, and the blocks and iterations that show it."""

    finding: Finding
    block: int = 0
    iteration: Iteration = ()
    times: int = 0
    blocks: set[int] = field(default_factory=set)
    last: Hashable = None
    flag: Hashable = None


class Findings:
    """Findings without duplicates: of several with one hazard, operand and location, the most severe."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Entry] = {}
        self._causes: dict[Hashable, list[_Entry]] = {}

    def add(self, findings: Iterable[Finding]) -> list[_Entry]:
        """Add findings that no run has shown."""
        return [self._entry(finding) for finding in findings]

    def show(
        self,
        findings: Iterable[Finding],
        block: int,
        moment: Hashable,
        iteration: Iteration,
        cause: Hashable = None,
        flag: Hashable = None,
    ) -> None:
        """Add findings that a block shows in an iteration. `cause` stands for them if they are shown again. They hold
        because nothing waits for `flag`, if it is given."""
        entries = self.add(findings)
        for entry in entries:
            if not entry.times:
                entry.block, entry.iteration, entry.flag = block, iteration, flag
            _count(entry, block, moment)
        if cause is not None:
            self._causes[cause] = entries

    def again(self, cause: Hashable, block: int, moment: Hashable) -> bool:
        """Count the findings of a cause that was shown before; False if it was not."""
        known = self._causes.get(cause)
        for entry in known or ():
            _count(entry, block, moment)
        return known is not None

    def times(self) -> tuple[int, ...]:
        """How often each was shown so far."""
        return tuple(entry.times for entry in self._found.values())

    def repeat(self, since: Sequence[int], times: int) -> None:
        """Count what was shown since some counts again."""
        for entry, before in zip(self._found.values(), since, strict=False):
            entry.times += times * (entry.times - before)

    def make_up(self, since: Sequence[int], shown: Sequence[int], periods: int) -> None:
        """Count what is shown so often in a period as if it had been shown in all of some periods since some counts."""
        for entry, before, each in zip(self._found.values(), since, shown, strict=False):
            entry.times = max(entry.times, before + each * periods)

    def _entry(self, finding: Finding) -> _Entry:
        key = (finding.kind or (finding.rule, finding.level), finding.operand, finding.path, finding.expected)
        known = self._found.setdefault(key, _Entry(finding))
        severity, before = LEVELS.index(finding.level), LEVELS.index(known.finding.level)
        if severity < before or (severity == before and finding.seen and not known.finding.seen):
            known.finding = finding
        return known

    def found(self, grid: int = 0, explained: Container[Hashable] = ()) -> tuple[Finding, ...]:
        """All of them, in the order of the first finding at each location, with their counts over `grid` blocks. Not
        those of flags that other findings explain."""
        entries = (entry for entry in self._found.values() if entry.flag is None or entry.flag not in explained)
        return tuple(_counted(entry, grid) for entry in entries)


def _count(entry: _Entry, block: int, moment: Hashable) -> None:
    """An iteration counts once, however many accesses of it conflict."""
    if entry.last != (block, moment):
        entry.last = block, moment
        entry.times += 1
        entry.blocks.add(block)


def _counted(entry: _Entry, grid: int) -> Finding:
    if not entry.times:
        return entry.finding
    seen = Seen(entry.block, entry.iteration, entry.times, len(entry.blocks), grid)
    return replace(entry.finding, seen=seen)
