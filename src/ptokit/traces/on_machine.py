"""A trace on the machine: one launch for each call, on the touched part of its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from ptokit.finding import Finding, VerifyError, summary
from ptokit.isa.dtype import dtype
from ptokit.lang.faults import user_place, warn_of
from ptokit.lang.launcher import quiet_report
from ptokit.machine.outcomes import Outcome
from ptokit.machine.report import MachineOptions, MachineReport
from ptokit.target import profile
from ptokit.traces.file import IndexTrace, TableUse, use_of
from ptokit.traces.kernels import INDEXED, gather, scatter
from ptokit.traces.replay import ReplaySettings, Row, each_table, first_cells, refused
from ptokit.traces.traced_calls import Array, CompactTable, LookupKind, TracedCall, compacted

LANES = 16_384
"""Indices of each table that are replayed by default."""
MOST_BYTES = 64 << 20
"""Of a compact table."""
MOST_LAUNCHES = 256
"""For each table, kind of call and target."""
TILE_BYTES = 64 << 10
"""Of the rows of a tile, at most."""
MOST_PARTS = 64
"""Parts of a row that is too wide for a tile."""
ROWS = (64, 32, 16, 8)
"""Rows of a tile: an index tile is a multiple of 32 bytes."""
ELEMENTS = 512
"""Elements of a tile."""
BLOCK = 32
"""The rows of a tile are a multiple of this many bytes."""
WORDS = {4: "uint32", 2: "uint16", 1: "uint8"}
"""Types in which bits are moved, by size."""


class TileShape(NamedTuple):
    """How the entries of a table are moved: an entry is a row of the tile, or several."""

    unit: str
    """`row` or `elem`."""
    kind: str
    """The element type."""
    parts: int
    """Rows of the tile for an entry."""
    width: int
    """Elements of a row."""
    rows: int
    cols: int

    @property
    def lanes(self) -> int:
        """Lanes of a tile."""
        return self.rows if self.unit == "row" else self.cols


def run(trace: IndexTrace, settings: ReplaySettings) -> tuple[list[Row], list[str]]:
    """A row for each table, kind of call and target."""
    rows: list[Row] = []
    notes: list[str] = []
    faults: list[Finding] = []
    calls_of = trace.by_kind()
    limits = {"most_lanes": settings.lanes or LANES, "most_bytes": MOST_BYTES, "most_calls": MOST_LAUNCHES}
    for made in each_table(trace, why_not, partial(compacted, **limits), notes):
        use = use_of(made.what, _taken(calls_of[made.what], made.lanes))
        rows += [_row(made, tile_shape(made.what), use, target, faults) for target in settings.targets]
    if faults:
        warn_of([each.at(user_place()) for each in faults], "replay", __name__, {})
    without = [target for target in dict.fromkeys(settings.targets) if not profile(target).pipes]
    return rows, notes + [f"{target} has no pipes: the machine models no traffic and no time" for target in without]


def _taken(calls: Sequence[TracedCall], lanes: int) -> list[TracedCall]:
    """The calls with the first lanes."""
    found: list[TracedCall] = []
    for call in calls:
        found.append(TracedCall(call.what, call.indices[:lanes]))
        lanes -= found[-1].indices.size
    return found


def why_not(what: LookupKind) -> str:
    """Why there is no tile for a table; empty if there is one."""
    try:
        tile_shape(what)
    except ValueError as problem:
        return str(problem)
    return ""


def tile_shape(what: LookupKind) -> TileShape:
    """The tile for a table; raises ValueError if there is none."""
    size = what.entry_bytes
    if not size or not what.entries:
        raise ValueError("the table is empty")
    if what.atomic == "none":
        word = next(each for each in WORDS if size % each == 0)
        kind = WORDS[word]
    else:
        try:
            kind, word = dtype(what.dtype).name, dtype(what.dtype).size
        except (TypeError, ValueError):
            raise ValueError(f"the machine has no type {what.dtype}") from None
    if what.unit == "elem" and size == word:
        return TileShape("elem", kind, 1, 1, 1, ELEMENTS)
    width = size // word
    parts = next((k for k in range(1, MOST_PARTS + 1) if width % k == 0 and _fits(width // k * word)), 0)
    if not parts:
        raise ValueError(f"no tile takes rows of {size:,} bytes")
    width //= parts
    cols = -(-width * word // BLOCK) * BLOCK // word
    return TileShape("row", kind, parts, width, next(n for n in ROWS if n * cols * word <= TILE_BYTES), cols)


def _fits(size: int) -> bool:
    return ROWS[-1] * -(-size // BLOCK) * BLOCK <= TILE_BYTES


@dataclass
class _Totals:
    """What the launches of a table took together."""

    launches: int = 0
    cycles: float = 0
    microseconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    findings: list[Finding] = field(default_factory=list[Finding])

    def add(self, report: MachineReport) -> None:
        """Add a launch."""
        self.launches += 1
        for each in report.traffic:
            if each.instruction in INDEXED:
                names = ("bytes_moved", "bytes_used", "transactions", "bursts", "scalar")
                self.counts.update({name: getattr(each, name) for name in names})
        for lanes in report.lanes:
            self.counts["outside"] += int(np.count_nonzero(lanes.code != Outcome.IN_BOUNDS))
        known = {(each.rule, each.kind, each.level) for each in self.findings}
        self.findings += [each for each in report.hazards if (each.rule, each.kind, each.level) not in known]
        if report.timeline is not None:
            self.cycles += report.timeline.cycles
            self.microseconds += report.timeline.microseconds or 0.0


def _row(made: CompactTable, shape: TileShape, use: TableUse, target: str, faults: list[Finding]) -> Row:
    """The row of a table; adds errors and hazards to `faults`."""
    totals = _Totals()
    begin = {**first_cells(made.what), "target": target, "calls": len(made.calls), "indices": made.lanes}
    try:
        for call in made.calls:
            report = _launch(made, shape, call.indices, target)
            if not report.written:
                raise VerifyError(report.hazards)
            totals.add(report)
    except VerifyError as refusal:
        return {**begin, "verdict": refused(refusal)}
    faults += totals.findings
    counts = totals.counts
    hardware: Row = {
        "moved": counts["bytes_moved"],
        "efficiency": counts["bytes_used"] / counts["bytes_moved"] if counts["bytes_moved"] else 1.0,
        "transactions": counts["transactions"],
        "bursts": counts["bursts"],
        "cycles": round(totals.cycles),
        "us": totals.microseconds,
    }
    return {
        **begin,
        "repeats": use.repeats,
        "outside": counts["outside"] // shape.parts,
        **(hardware if profile(target).pipes else dict.fromkeys(hardware)),
        "verdict": summary(tuple(totals.findings)) if totals.findings else "clean",
    }


def _launch(made: CompactTable, shape: TileShape, indices: Array, target: str) -> MachineReport:
    ids = _parted(indices, shape.parts)
    table = np.zeros((made.entries * shape.parts, shape.width), dtype(shape.kind).numpy)
    data = np.zeros((ids.size, shape.width), table.dtype)
    if shape.unit == "elem":
        table, data = table.reshape(1, -1), data.reshape(-1)
    kernel = scatter if made.what.writes else gather
    how = {"unit": shape.unit, "rows": shape.rows, "cols": shape.cols, "oob": made.what.oob}
    how |= {"atomic": made.what.atomic} if made.what.writes else {}
    grid = -(-ids.size // shape.lanes)
    options = MachineOptions(lanes=True, progress=False)
    return quiet_report(kernel[grid], table, ids, data, **how, target=target, options=options)


def _parted(indices: Array, parts: int) -> Array:
    """The indices of the parts of rows."""
    return (indices[:, None] * parts + np.arange(parts, dtype=np.int32)).reshape(-1).astype(np.int32)
