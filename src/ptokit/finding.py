"""Findings on calls and programs, and the errors and warnings that carry them."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from ptokit.brief import LONGEST, MOST, elided, named
from ptokit.markup import Displayed, Markup, badge, clipped, dim, joined, tag

Level = Literal["error", "hazard", "unmodelled", "note"]
"""`error`: refused. `hazard`: right here, wrong elsewhere. `unmodelled`: ptokit does not model this, and does not say
whether it is right. `note`: a remark, shown on request."""


LEVELS: tuple[Level, ...] = ("error", "hazard", "unmodelled", "note")
"""The most severe first."""
FAULTS: tuple[Level, ...] = ("error", "hazard")
"""The levels of faults of the user's code."""
OPAQUE = "opaque"
"""In the place of a clause: the table of instructions that are known by their effects only."""
SHARDED = "sharded"
"""In the place of a clause: what happens to the owners of a sharded table."""
UNWRITTEN_INDEX = "H-42"
"""The hazard of an index that nothing has written."""
TEXTS = {"message": LONGEST, "fix": LONGEST, "expected": LONGEST, "found": LONGEST, "operand": MOST}
"""Characters of the texts of a finding, at most."""
MOST_SHOWN = 3
"""Findings that a short line names."""
MOST_IN_ERROR = 20
"""Findings that the text of an error has."""
MOST_IN_HTML = 20
"""Findings that a notebook shows."""
NAME = 40
"""Characters of a name in a short line."""
CLOSE = 0.6
"""How similar a misspelt word must be to a name, from 0 to 1."""
LONGEST_WORD = 160
"""Characters of a word that may be a misspelt name."""
MOST_NAMES = 500
"""Names that a misspelt word is compared to: those of about its length."""
_CELL = re.compile(r"<ipython-input-(\d+)-\w+>|In ?\[(\d+)\]")
"""Names of cells: of their code, as IPython shows them, and as they are shown here."""


def cell_of(file: str) -> str:
    """`In [4]` for the name of the code of a notebook's cell, or of what is typed into IPython; else empty."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    label = named(file) if named else None
    found = _CELL.fullmatch(label[1] if label else file)
    return f"In [{found[1] or found[2]}]" if found else ""


def shown_file(file: str) -> str:
    """The name of a file for the user: relative to the current directory, unless the absolute name is shorter; of code
    in a notebook, the cell."""
    cell = cell_of(file)
    if cell or not os.path.isabs(file):
        return cell or file
    try:
        return min(os.path.relpath(file), file, key=len)
    except (OSError, ValueError):  # no current directory, or another drive
        return file


@dataclass(frozen=True)
class Where:
    """A place in the user's own source."""

    file: str
    line: int
    column: int | None = None
    caret: int | None = field(default=None, compare=False, repr=False)
    """The column to mark when the line is shown, if the place is the whole line."""
    calls: tuple[Where, ...] = field(default=(), compare=False, repr=False)
    """The calls that lead there, the innermost first; the last is a line of the kernel itself."""

    def __init__(
        self,
        file: str,
        line: int,
        column: int | None = None,
        caret: int | None = None,
        calls: tuple[Where, ...] = (),
    ) -> None:
        """What a frozen dataclass does by itself takes three times as long."""
        self.__dict__.update(file=file, line=line, column=column, caret=caret, calls=calls)

    @property
    def path(self) -> tuple[Where, ...]:
        """The place and its calls: two places in one helper differ if its calls do."""
        return self, *self.calls

    def called(self, calls: tuple[Where, ...]) -> Where:
        """The same place, reached by calls."""
        return replace(self, calls=calls) if calls else self

    def __str__(self) -> str:
        cell = cell_of(self.file)
        place = f"{cell}, line {self.line}" if cell else f"{self.file}:{self.line}"
        return place + (f":{self.column}" if self.column is not None else "")


Iteration = tuple[tuple[str, int], ...]
"""Loop variables and their values, the outermost first."""


def shown(name: str, operand: str) -> str:
    """An operand with the name of its tile or array: `rows (src)`."""
    return f"{named(name)} ({operand})" if name and name != operand else named(operand)


def at_line(what: str, where: Where | None) -> str:
    """A statement with its line: `mgather (line 12)`."""
    return f"{what} (line {where.line})" if where else what


@dataclass(frozen=True)
class ConflictAccess:
    """One of the two accesses of a conflict: a pipe of an instruction touches one of its operands."""

    instruction: str
    operand: str
    """As the instruction's definition names it: `src`."""
    name: str
    """The tile or the array: the author's name."""
    how: str
    """`read`, `write`, or the name of an atomic."""
    pipe: str
    """With its core: `AIV.MTE2`."""
    gate: str
    """The pipe that can be made to wait before the access, with its core."""
    memory: str
    """`UB`, `GM`."""
    where: Where | None = None
    statement: int = 0
    """The number of the statement, counted in the order of `ir.walk`."""
    block: int = 0
    iteration: Iteration = ()
    bytes: tuple[int, int] = (0, 0)
    """The first of the bytes that both accesses touch, and the one after the last: addresses on the chip, offsets in an
    array."""
    rows: tuple[int, int] | None = None
    """The first and the last row of the tile or the array that these bytes belong to."""

    @property
    def unit(self) -> str:
        """The pipe without its core."""
        return self.pipe.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self._does} on {self.unit}"

    @property
    def on_core(self) -> str:
        """`mgather writes rows (dst) on AIV.V`."""
        return f"{self._does} on {self.pipe}"

    @property
    def _does(self) -> str:
        verb = {"read": "reads", "write": "writes"}.get(self.how, f"{self.how}s to")
        return f"{self.instruction} {verb} {shown(self.name, self.operand)}"

    @property
    def act(self) -> str:
        """`mgather's write`."""
        return f"{self.instruction}'s {self.how}"

    @property
    def noun(self) -> str:
        """`mgather's write of rows (dst) on V (line 14)`."""
        return f"{self._done} on {self.unit}{self.line}"

    @property
    def noun_on_core(self) -> str:
        """`mgather's write of rows (dst) on AIV.V (line 14)`."""
        return f"{self._done} on {self.pipe}{self.line}"

    @property
    def _done(self) -> str:
        of = "of" if self.how in ("read", "write") else "to"
        return f"{self.act} {of} {shown(self.name, self.operand)}"

    @property
    def line(self) -> str:
        """` (line 14)`, with the file if it is not the kernel's own; empty if it is not known."""
        if self.where is None:
            return ""
        if self.where.file == self.where.path[-1].file:
            return f" (line {self.where.line})"
        return f" ({Where(os.path.basename(shown_file(self.where.file)), self.where.line)})"

    def as_dict(self) -> dict[str, Any]:
        """The access as plain data."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)} | {"iteration": dict(self.iteration)}
        return (
            plain | {"where": str(self.where), "calls": [str(call) for call in self.where.calls]}
            if self.where
            else plain
        )


@dataclass(frozen=True)
class Seen:
    """How often a run shows a finding, and where first."""

    block: int
    iteration: Iteration
    times: int
    blocks: int
    """How many blocks show it."""
    grid: int
    """How many blocks ran."""

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"iteration": dict(self.iteration)}


def _bytes(then: ConflictAccess) -> str:
    """`rows 0..3 of ids, UB 0x40..0x240`."""
    first, end = then.bytes
    place = f"bytes {first:,}..{end:,}" if then.memory == "GM" else f"{then.memory} {first:#x}..{end:#x}"
    return f"{_rows(*then.rows)} of {named(then.name)}, {place}" if then.rows else f"{named(then.name)}, {place}"


def _rows(first: int, last: int) -> str:
    return f"row {first:,}" if first == last else f"rows {first:,}..{last:,}"


def _moments(seen: Seen | None, first: ConflictAccess | None) -> str:
    """`in 12 of 64 blocks, 36 times; first: block 3, i=2 (mgather's write: i=1)`."""
    if seen is None or (seen.grid == 1 and not seen.iteration and not (first and first.iteration)):
        return ""
    times = f", {seen.times:,} times" if seen.times > seen.blocks else ""
    now, ago = _moment(seen.block, seen.iteration), ""
    if first:
        then = _moment(first.block, first.iteration)
        ago = f" ({first.act}: {then})" if then != now else ""
    return f"in {seen.blocks:,} of {counted(seen.grid, 'block')}{times}; first: {now}{ago}"


def _moment(block: int, iteration: Iteration) -> str:
    """`block 3, i=2`."""
    return ", ".join((f"block {block:,}", *(f"{named(name)}={value}" for name, value in iteration)))


@dataclass(frozen=True)
class Finding(Displayed):
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
    names: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The operands of the instruction, and the author's names of their tiles and arrays."""
    ends: tuple[ConflictAccess, ...] = field(default=(), compare=False, repr=False)
    """Of a conflict: the earlier access and the later one, where it was seen first; of a read of undefined or
    overwritten memory, the read."""
    seen: Seen | None = field(default=None, compare=False, repr=False)
    """Of a run on the machine: how often."""
    tiles: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The tiles that share bytes, if it says that they should not."""

    def __post_init__(self) -> None:
        """Bound texts, of which each part should be short already."""
        for name, most in TEXTS.items():
            if len(text := getattr(self, name)) > most:
                object.__setattr__(self, name, elided(text, most))

    @property
    def path(self) -> tuple[Where, ...]:
        """The place, and the calls that lead there."""
        return self.where.path if self.where else ()

    @property
    def is_fault(self) -> bool:
        """Whether it is a fault of the user's code: an error or a hazard."""
        return self.level in FAULTS

    def at(self, where: Where | None) -> Finding:
        """The same finding, pointing at a place."""
        return replace(self, where=where)

    def on(self, target: str) -> Finding:
        """The same finding, on a target."""
        return self if self.target else replace(self, target=target)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return "\n    ".join((f"{place}{self.head}", *self.lines))

    @property
    def head(self) -> str:
        """The first line, without the place."""
        name = f"{self.rule}, {self.kind}" if self.kind else self.rule
        return f"{self.level} [{name}] {self.message}"

    def _repr_html_(self) -> str:
        """The finding in a notebook."""
        return tag("div", _finding_html(self), style="box", tabindex=0)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines below the first: the fix, and the details."""
        return (f"fix: {self.fix}", *self.details) if self.fix else self.details

    @property
    def details(self) -> tuple[str, ...]:
        """The lines after the fix: which bytes, in which blocks and iterations, through which calls."""
        operands = _bytes(self.ends[-1]) if self.ends else self._names()
        lines = operands, _moments(self.seen, self.first), self._calls()
        return tuple(elided(line) for line in lines if line)

    @property
    def first(self) -> ConflictAccess | None:
        """The earlier access of a conflict."""
        return self.ends[0] if len(self.ends) > 1 else None

    def _names(self) -> str:
        """`dst is out, idx is ids`: the operands that the message mentions without their names."""
        said = ((operand, name) for operand, name in self.names if self._says(operand) and not self._says(name))
        return ", ".join(f"{operand} is {named(name)}" for operand, name in said)

    def _says(self, name: str) -> bool:
        """Whether the message has a name as a word."""
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self.message) is not None

    def _calls(self) -> str:
        """`called from k.py:31, k.py:12; mgather's write from k.py:28`."""
        first = self.first
        ends = (("", self.where), (f"{first.act} " if first else "", first.where if first else None))
        through = [f"{what}called from {', '.join(map(str, end.calls))}" for what, end in ends if end and end.calls]
        return "; ".join(through)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
        return plain | {
            "names": dict(self.names),
            "where": str(self.where) if self.where else None,
            "calls": [str(call) for call in self.where.calls] if self.where else [],
            "ends": [end.as_dict() for end in self.ends] if self.ends else None,
            "seen": self.seen.as_dict() if self.seen else None,
        }


def not_in_run(checked: Iterable[Finding], run: Iterable[Finding]) -> list[Finding]:
    """The findings of a check without reads of unwritten memory that a run found, too."""
    seen = {(finding.operand, finding.path) for finding in run if finding.unwritten}
    return [finding for finding in checked if not (finding.unwritten and (finding.operand, finding.path) in seen)]


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without races between tiles that must not overlap, and without values of an index that nothing has
    written."""
    overlaps = {finding.tiles for finding in findings if finding.is_fault and not finding.first}
    unwritten = {(finding.operand, finding.path) for finding in findings if finding.kind == UNWRITTEN_INDEX}
    return [
        finding
        for finding in findings
        if not (finding.first and finding.tiles and finding.tiles in overlaps)
        and not (finding.unwritten and finding.kind != UNWRITTEN_INDEX and (finding.operand, finding.path) in unwritten)
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
    return joined(*(tag("div", _finding_html(each), style="margin:6px 0") for each in ordered[:most]), *more)


def _finding_html(finding: Finding) -> Markup:
    """Level, clause and place, then the message, the fix and the details."""
    name = f"{finding.rule}, {finding.kind}" if finding.kind else finding.rule
    place = [" ", tag("code", finding.where)] if finding.where else []
    head = tag("div", badge(finding.level, finding.level), " ", tag("strong", name), *place)
    return joined(head, tag("div", clipped(finding.message)), *(dim(clipped(line)) for line in finding.lines))


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


def _text(findings: tuple[Finding, ...]) -> str:
    more = [f"and {counted(len(findings) - MOST_IN_ERROR, 'more finding')}"] if len(findings) > MOST_IN_ERROR else []
    return "\n".join([*map(str, findings[:MOST_IN_ERROR]), *more])


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


class VerifyError(ValueError):
    """A call or program that the target refuses. It has written nothing, unless it has a report."""

    report: object = None
    """Of a launch with `strict=True` that ran on the machine: its report."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class OutOfBoundsError(IndexError):
    """An index outside its table under the policy `undefined`. Nothing was written."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(_text(self.findings))


class HazardWarning(UserWarning):
    """A finding of level `hazard`: the result is right here and would not be elsewhere. Of a launch on the machine: its
    first error or hazard, after the number of all."""

    def __init__(self, finding: Finding, heading: str = "") -> None:
        self.finding = finding
        super().__init__(heading + str(finding.at(None)))  # Python prints the place of a warning itself


class UnmodelledWarning(UserWarning):
    """A finding of level `unmodelled`: some results are unspecified."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding.at(None)))


WARNINGS: dict[str, type[HazardWarning | UnmodelledWarning]] = {
    "hazard": HazardWarning,
    "unmodelled": UnmodelledWarning,
}
"""The levels that are shown as warnings."""
