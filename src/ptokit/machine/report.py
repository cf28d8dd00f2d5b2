"""A run on the machine: its options; its result, as data and as text, with the repairs of its program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice
from operator import index
from random import Random
from typing import Any, NamedTuple, SupportsIndex

from ptokit.brief import brief, listed
from ptokit.engine.runnable import Run
from ptokit.finding import LEVELS, NAME, Finding, by_level, counted, findings_html, summary
from ptokit.machine import ENOUGH
from ptokit.machine.outcomes import LaneOutcomes, LaneTotals
from ptokit.machine.timeline import Timeline
from ptokit.machine.ways import Traffic
from ptokit.markup import Markup, badge, box, clipped, code, joined, table, tag
from ptokit.program.ir import Program
from ptokit.program.repair import Edit

FORM = "block numbers, 'first', 'last', 'all' and 'random:N', such as 'first,last,random:8'"
LAST = -1


class Sample(NamedTuple):
    """Numbers of blocks, `LAST` for the last of the grid, and how many others are drawn at random."""

    numbers: frozenset[int]
    drawn: int


def parse_blocks(blocks: str | Sequence[SupportsIndex]) -> Sample:
    """A sample as options give it."""
    parts = [part.strip() for part in blocks.split(",")] if isinstance(blocks, str) else list(blocks)
    if not parts:
        raise ValueError(f"blocks takes {FORM}; found none")
    found = [_part(each) for each in parts]
    return Sample(frozenset(n for sample in found for n in sample.numbers), sum(sample.drawn for sample in found))


def _part(given: str | SupportsIndex) -> Sample:
    if given in ("first", "last"):
        return Sample(frozenset([0 if given == "first" else LAST]), 0)
    text = str(given)
    if text == "all":
        return Sample(frozenset(), sys.maxsize)
    word, _, count = text.partition(":")
    if word == "random" and count.isdecimal():
        return Sample(frozenset(), int(count))
    if not text.isdecimal():
        raise ValueError(f"blocks takes {FORM}; found {brief(given)}")
    return Sample(frozenset([int(given) if isinstance(given, str) else index(given)]), 0)


def is_enough(blocks: object) -> bool:
    """Whether blocks are those that a check needs."""
    return isinstance(blocks, str) and blocks == ENOUGH


def sampled(blocks: str | Sequence[SupportsIndex] | None, grid: int, seed: int = 0) -> Sequence[int]:
    """The blocks of a grid that run, in ascending order. The random ones are the same for the same seed."""
    if blocks is None or is_enough(blocks) or grid == 0:
        return range(grid)
    sample = parse_blocks(blocks)
    named = {grid - 1 if number == LAST else number for number in sample.numbers}
    if max(named, default=0) >= grid:
        raise ValueError(f"blocks names block {max(named)}, but the grid has {grid}")
    others = [block for block in range(grid) if block not in named]
    drawn = Random(seed).sample(others, min(sample.drawn, len(others)))  # noqa: S311  (samples are no secret)
    return sorted([*named, *drawn])


CHECKS = ("order", "memory", "blocks", "repeats", "indices", "traffic", "time")
"""Pipes and flags, written bytes and budgets, blocks against each other, repeated destinations,
index values, transactions, cycles."""
LAUNCHES = ("standard", "function_pointer")


def _is_whole(number: object) -> bool:
    return not isinstance(number, bool) and hasattr(number, "__index__")


@dataclass(frozen=True)
class MachineOptions:
    """Options of the machine. The launch's own options (`dyn_ub=`, `launch=`) override them."""

    checks: tuple[str, ...] = CHECKS
    """The enabled ones of `CHECKS`."""
    seed: int | None = None
    """Run under another legal schedule, random with this seed; None runs in program order."""
    blocks: str | Sequence[int] | None = None
    """The blocks that run, as in `"first,last,random:8"` or `(0, 7)`; None runs all, `ENOUGH` as many as a check
    needs. Outputs of other blocks stay as they were."""
    poison: bool = True
    """Whether reads of uninitialised memory are reported."""
    dyn_ub: int | None = None
    """dynUBufSize of the launch in bytes; None asks for none."""
    launch: str = "standard"
    """How the kernel is started: `standard` or `function_pointer`."""
    costs: Mapping[str, float] | str | os.PathLike[str] = field(default_factory=dict)
    """Cost-table overrides, or a file with them, as `ptokit calibrate` writes it."""
    cores: int | None = None
    """How many blocks run at a time; None for the number of cores in the cost table."""
    consequences: bool = False
    """Whether to report also what a fault that was reported brings along."""
    lanes: bool = False
    """Whether to record the outcome of every lane of gathers and scatters."""
    timeline: int = 10_000
    """The most pieces of work that the timeline keeps."""
    progress: bool = True
    """Whether a launch of more than two seconds shows a progress bar, if standard error is a terminal."""
    quiet: bool = False
    """Whether a launch with errors or hazards emits no warning, for callers that look at the report."""

    def __post_init__(self) -> None:
        if isinstance(self.checks, str) or not isinstance(self.checks, Iterable):
            raise TypeError(f"checks takes names in a tuple, such as ('order', 'memory'), found {brief(self.checks)}")
        unknown = [*islice((check for check in self.checks if check not in CHECKS), len(CHECKS))]
        if unknown:
            raise ValueError(f"checks are {', '.join(CHECKS)}; found {listed(unknown)}")
        if isinstance(self.costs, str | os.PathLike):
            from ptokit.machine.costs import read_costs

            object.__setattr__(self, "costs", read_costs(self.costs))
        if self.launch not in LAUNCHES:
            raise ValueError(f"launch is one of {', '.join(LAUNCHES)}; found {brief(self.launch)}")
        if self.blocks is not None and not is_enough(self.blocks):
            parse_blocks(self.blocks)
        for name, least in (("seed", 0), ("timeline", 1), ("dyn_ub", 0), ("cores", 1)):
            number = getattr(self, name)
            if number is not None and (not _is_whole(number) or number < least):
                raise ValueError(f"{name} takes a whole number from {least} up, found {brief(number)}")

    @property
    def overrides(self) -> Mapping[str, float]:
        """The cost-table overrides; a file is already read."""
        return self.costs if isinstance(self.costs, Mapping) else {}

    def enables(self, check: str) -> bool:
        return check in self.checks


# --- the result


ORDER, NEEDLESS = "order", "needless"


@dataclass(frozen=True)
class Patch:
    """The source of a program with a repair: texts by file."""

    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    kernel: Any = field(default=None, compare=False, repr=False)
    """The kernel of the texts after the change, which can be launched."""
    refusal: str = ""
    """Why the source was not changed."""

    @property
    def diff(self) -> str:
        """A unified diff of all files."""
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for file, text in self.after.items()
            for line in _unified(_lines(self.before[file]), _lines(text), file)
        )


def _unified(before: list[str], after: list[str], file: str) -> Iterator[str]:
    """A unified diff. That of `difflib` takes lines that occur often for changed ones."""
    for number, group in enumerate(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes()):
        yield from () if number else (f"--- {file}\n", f"+++ {file}\n")
        yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@\n"
        for what, one, other, first, last in group:
            yield from (f"{' ' if what == 'equal' else '-'}{line}" for line in before[one:other])
            yield from (f"+{line}" for line in (after[first:last] if what != "equal" else ()))


def _range(start: int, stop: int) -> str:
    """The first line and the number of lines."""
    count = stop - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def _lines(text: str) -> list[str]:
    """The lines of a text with their ends; only `\\n` ends one."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


@dataclass(frozen=True)
class Repair:
    """A proposal to change the flags of a program."""

    kind: str
    """`order`: it makes the program clean. `needless`: flags or a barrier that nothing needs go."""
    target: str
    edits: tuple[Edit, ...]
    cycles: float = 0.0
    """How many cycles more the launch takes with it, by the model; negative if it saves some."""
    form: str = ""
    """The form of the program's text: `mlir` or `as`; empty for Python."""
    patch: Patch = field(default_factory=Patch, compare=False, repr=False)
    """The change in the user's source."""

    @property
    def diff(self) -> str:
        """The change of the user's source as a unified diff; empty if it cannot be expressed there."""
        return self.patch.diff

    def __str__(self) -> str:
        by = f"{abs(self.cycles):,.0f} cycles {'more' if self.cycles > 0 else 'less'}" if self.cycles else "same time"
        head = f"{self.kind} on {self.target}: {counted(len(self.edits), 'edit')}, {by}"
        return "\n".join([head, *(f"  {edit.text(self.form)}" for edit in self.edits)])


Patcher = Callable[[Sequence[Edit], Callable[[Program], bool]], Patch]
"""Makes edits in the user's source. The second argument tells whether the program of the changed source is right."""


def no_patch(_edits: Sequence[Edit], _is_right: Callable[[Program], bool]) -> Patch:
    """The source of the program is not known."""
    return Patch(refusal="the source of the program is not known")


def nothing(_patched: Patcher, _is_ok: bool) -> tuple[Repair, ...]:
    """No proposal."""
    return ()


# --- the report


MOST_TILES = 16
"""Tiles of a memory that are shown."""
MOST_LANES = 8
"""Gathers and scatters whose lanes are shown."""


NOTHING_RAN = "nothing ran: the grid has no blocks"


PageWriter = Callable[["str | os.PathLike[str]", "Sequence[MachineReport]"], None]
"""Writes reports to a file."""


def no_page(_path: str | os.PathLike[str], _reports: Sequence[MachineReport]) -> None:
    """Refuse: the report does not come from a launch."""
    raise ValueError("only the report of a launch has a page")


@dataclass(frozen=True)
class MemoryUse:
    """One on-chip memory: how much of it tiles use, by their highest end, and their addresses."""

    name: str
    size: int | None
    """Bytes that the launch makes available; None for no limit."""
    used: int
    tiles: tuple[tuple[str, int, int], ...] = ()
    """Name, first byte and the byte after the last, of every address of a tile."""


@dataclass(frozen=True, repr=False)
class MachineReport(Run):
    """A launch on the machine: a `Run` with all findings, and with what hardware would do."""

    memory: Mapping[str, MemoryUse] = field(default_factory=dict)
    """By the name of the memory (`UB`, `L1`, ...)."""
    timeline: Timeline | None = None
    traffic: tuple[Traffic, ...] = ()
    """One for each gather, scatter, load and store of the program, all blocks together."""
    lanes: tuple[LaneOutcomes, ...] = ()
    """The outcomes of lanes, if the options ask for them: of each statement the first executions."""
    kernel: str = ""
    """The name of the kernel that was launched."""
    written: bool = True
    """Whether arrays were written: not if an instruction could not be executed."""
    blocks: int | None = None
    """How many blocks of the grid were run; None for all."""
    propose: Callable[[Patcher, bool], tuple[Repair, ...]] = field(default=nothing, compare=False)
    """Searches for repairs."""
    patched: Patcher = field(default=no_patch, compare=False)
    """Makes a change of the flags in the user's source."""
    program: Program | None = field(default=None, compare=False)
    """The program that was run, with the addresses and flags that auto mode adds."""
    lane_totals: tuple[LaneTotals, ...] = ()
    """For each gather and scatter the sums over the lanes of all executions, if the options ask for outcomes."""
    pages: PageWriter = field(default=no_page, compare=False)
    """Writes reports as a page."""

    @cached_property
    def repairs(self) -> tuple[Repair, ...]:
        """What makes the launch clean; for a clean one, flags and barriers that nothing needs. Searched at first use,
        with the arrays of the launch as they are then."""
        return self.propose(self.patched, self.ok)

    def __repr__(self) -> str:
        return f"<Report {self.kernel[:NAME]} on {self.target}, {self.extent}: {summary(self.findings)}>"

    @property
    def extent(self) -> str:
        """The blocks that were run, as text: `3 blocks`, `2 of 3 blocks`."""
        whole = counted(self.grid, "block")
        return whole if self.blocks in (None, self.grid) else f"{self.blocks:,} of {whole}"

    @property
    def ran(self) -> bool:
        """Whether some block was run."""
        return bool(self.grid if self.blocks is None else self.blocks)

    def __str__(self) -> str:
        return report_text(self)

    def _repr_html_(self) -> str:
        """The report in a notebook; `to_html` writes a whole page."""
        title = joined(clipped(self.kernel, NAME), " ", badge(heading(self), "good" if self.ok else "bad"))
        shown = shown_findings(self.findings, notes=False)
        return box(title, findings_html(shown), *map(_section_html, sections(self)))

    def to_html(self, path: str | os.PathLike[str], *others: MachineReport) -> None:
        """Write the report as one HTML file that needs nothing else. `others` are reports of the same launch on other
        targets, which the page shows beside it. The outcomes of lanes are shown if the launch has recorded them."""
        self.pages(path, (self, *others))

    def to_json(self) -> str:
        """The report as JSON; arrays of lanes as lists."""
        return json.dumps(self.as_dict(), indent=2)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "engine": self.engine,
            "target": self.target,
            "grid": self.grid,
            "blocks": self.grid if self.blocks is None else self.blocks,
            "seconds": self.seconds,
            "ok": self.ok,
            "written": self.written,
            "findings": [finding.as_dict() for finding in self.findings],
            "memory": {name: asdict(use) for name, use in self.memory.items()},
            "timeline": None if self.timeline is None else self.timeline.as_dict(),
            "traffic": [each.as_dict() for each in self.traffic],
            "lanes": [each.as_dict() for each in self.lanes],
            "lane_totals": [each.as_dict() for each in self.lane_totals],
        }


# --- as text


@dataclass(frozen=True)
class Section:
    """A part of a report: lines, then a table (if any) whose first row is its header."""

    title: str
    lines: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


def report_text(report: MachineReport, *, notes: bool = False) -> str:
    """All of a report; `notes` includes the notes."""
    findings = map(str, shown_findings(report.findings, notes=notes))
    return "\n".join([heading(report), *findings, *map(section_text, sections(report))])


def heading(report: MachineReport) -> str:
    """`a5, 3 blocks: 1 error, 2 notes`."""
    if report.ok and not report.ran:
        return f"{report.target}: {NOTHING_RAN}"
    return f"{report.target}, {report.extent}: {verdict(report.findings)}"


def verdict(findings: Iterable[Finding]) -> str:
    """How many findings there are of each level; `clean` if there are no faults."""
    listed = tuple(findings)
    counts = by_level(listed)
    return ", ".join(counts if any(finding.is_fault for finding in listed) else ["clean", *counts])


def shown_findings(findings: Iterable[Finding], *, notes: bool) -> list[Finding]:
    """Errors, hazards, what is not modelled, notes if `notes` is set; each in the order in which they were found."""
    shown = [finding for finding in findings if notes or finding.level != "note"]
    return sorted(shown, key=lambda finding: LEVELS.index(finding.level))


def sections(report: MachineReport) -> Iterator[Section]:
    """The sections besides the findings: memory, time, traffic, lanes."""
    if report.memory:
        yield Section("memory", tuple(map(_memory, report.memory.values())))
    if report.timeline is not None:
        yield Section("time", tuple(str(report.timeline).splitlines()))
    if report.traffic:
        yield Section("traffic", (), traffic_table(report.traffic))
    if report.lanes:
        yield Section("lanes", tuple(_lanes(report)))


def section_text(section: Section) -> str:
    """A section without colours."""
    lines = (*section.lines, *aligned(section.table))
    return "\n".join([section.title, *(f"  {line}".rstrip() for line in lines)])


def _section_html(section: Section) -> Markup:
    """A section in a notebook."""
    title = tag("div", tag("strong", section.title), style="margin-top:6px")
    lines = code("\n".join(section.lines)) if section.lines else ""
    return joined(title, lines, table(section.table[1:], section.table[0]) if section.table else "")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns: words to the left, numbers to the right."""
    columns = [_column(column) for column in zip(*rows, strict=True)]
    return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def _column(cells: Sequence[str]) -> list[str]:
    width = max(map(len, cells))
    is_number = any(cell[:1].isdigit() for cell in cells)
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in cells]


def _memory(use: MemoryUse) -> str:
    """One memory and where tiles lie in it."""
    limit = "" if use.size is None else f" of {use.size:,}"
    share = f" ({use.used / use.size:.0%})" if use.size else ""
    places = [f"{name} {first:#x}..{end:#x}" for name, first, end in use.tiles[:MOST_TILES]]
    more = [f"{len(use.tiles) - MOST_TILES} more"] if len(use.tiles) > MOST_TILES else []
    listed = ", ".join(places + more)
    return f"{use.name}: {use.used:,}{limit} bytes{share}" + (f"; {listed}" if listed else "")


def _lanes(report: MachineReport) -> Iterator[str]:
    """The outcomes of lanes, for the first gathers and scatters."""
    shown = report.lanes[:MOST_LANES]
    for each in shown:
        yield from str(each).splitlines()
    total = max(len(report.lanes), sum(each.executions for each in report.lane_totals))
    if total > len(shown):
        yield f"and {total - len(shown):,} more"


COLUMNS: dict[str, Callable[[Traffic], object]] = {
    "instruction": lambda each: each.instruction,
    "line": lambda each: f":{each.where.line}" if each.where else "",
    "warps": lambda each: each.warps,
    "transactions": lambda each: each.transactions,
    "bursts": lambda each: each.bursts,
    "misaligned": lambda each: each.misaligned,
    "scalar": lambda each: each.scalar,
    "moved": lambda each: each.bytes_moved,
    "used": lambda each: each.bytes_used,
    "efficiency": lambda each: f"{each.efficiency:.0%}",
}
"""The columns of the table of traffic; moved and used are bytes of global memory."""


def traffic_table(traffic: Sequence[Traffic]) -> tuple[tuple[str, ...], ...]:
    """A row for each instruction; empty columns are left out."""
    columns = {head: [value(each) for each in traffic] for head, value in COLUMNS.items()}
    kept = {head: [_shown(value) for value in values] for head, values in columns.items() if any(values)}
    return (tuple(kept), *zip(*kept.values(), strict=True))


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
