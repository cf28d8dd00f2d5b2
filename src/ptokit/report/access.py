"""Which cells of a table gathers and scatters touch, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptokit.engine.storage import Array
from ptokit.machine.outcomes import LINE, MOST_LISTED, MOVED, Fate, LaneOutcomes, LaneTotals, Outcome
from ptokit.machine.report import MachineReport
from ptokit.report.sources import place

MOST_BINS = 512
"""Columns of an access map."""
MOST_REPEATED = 20
BUCKETS = 32
"""Of the histogram of indices."""
OUTCOMES, FATES = [kind.text for kind in Outcome], [kind.text for kind in Fate]


def access_maps(report: MachineReport) -> list[dict[str, Any]]:
    """One for each gather and scatter of the program, all its executions together."""
    efficiency = {each.number: each.efficiency for each in report.traffic}
    first: dict[int, list[LaneOutcomes]] = {}
    for each in report.lanes:
        first.setdefault(each.number, []).append(each)
    return [_map(own, first[own.number], efficiency.get(own.number)) for own in report.lane_totals]


def _map(own: LaneTotals, first: Sequence[LaneOutcomes], efficiency: float | None) -> dict[str, Any]:
    cells, times = own.touched.result()
    return {
        "statement": own.number,
        "instruction": own.instruction,
        "where": place(own.where),
        **{name: getattr(own, name) for name in ("table", "unit", "cells", "lane_bytes", "lanes", "executions")},
        "distinct": int(cells.size),
        "by_cell": _binned(cells, times, own.cells),
        "lines": _lines(*own.lines.result(), own.table_lines),
        "outside_below": own.below,
        "outside_above": own.above,
        "capacity": own.capacity,
        "repeated": int(np.count_nonzero(times > 1)),
        "repeats": _repeats(cells, times),
        "counts": dict(own.counts),
        "moved_by_policy": sum(own.counts[outcome.text] for outcome in MOVED.values()),
        "efficiency": efficiency,
        "histogram": _histogram(own),
        "listed": _listed(first),
    }


def _binned(numbers: Array, times: Array, total: int) -> dict[str, Any]:
    """How many lanes touch each run of `size` cells or lines."""
    size = max(1, -(-max(total, 1) // MOST_BINS))
    counts = np.zeros(max(1, -(-total // size), *(numbers[-1:] // size + 1)), np.int64)
    np.add.at(counts, numbers // size, times)
    return {"size": size, "counts": counts.tolist()}


def _lines(lines: Array, times: Array, total: int) -> dict[str, Any] | None:
    """Lines of global memory that lanes touch; None for tables on chip."""
    if not total:
        return None
    return {
        **_binned(lines, times, total),
        "bytes": LINE,
        "total": total,
        "touched": int(lines.size),
        "repeated": int(np.count_nonzero(times > 1)),
    }


def _repeats(cells: Array, times: Array) -> list[list[int]]:
    """The cells that most lanes touch, with their counts; only those touched more than once."""
    order = np.argsort(-times, kind="stable")[:MOST_REPEATED]
    return [[int(cells[k]), int(times[k])] for k in order if times[k] > 1]


def _histogram(own: LaneTotals) -> dict[str, list[int]]:
    """Index values as they were read, in equal buckets of whole numbers."""
    if not own.lanes:
        return {"edges": [0, 1], "counts": [0]}
    low, span = own.lowest, own.highest - own.lowest + 1
    width = -(-span // BUCKETS)
    numbers, times = own.indices.result()
    counts = np.zeros(-(-span // width), np.int64)
    np.add.at(counts, np.maximum(numbers - low, 0) // width, times)
    return {"edges": [low + width * k for k in range(counts.size + 1)], "counts": counts.tolist()}


def _listed(found: Sequence[LaneOutcomes]) -> dict[str, Any]:
    """The first lanes: block, number in its execution, index, outcome, cell, fate and the lane that overwrote it; names
    of the codes."""
    rows: list[list[int]] = []
    for each in found:
        names = ("index", "code", "cell", "fate", "overwritten_by")
        columns = [getattr(each, name).ravel()[: MOST_LISTED - len(rows)].tolist() for name in names]
        rows += [[each.block, lane, *row] for lane, row in enumerate(zip(*columns, strict=True))]
    return {"rows": rows, "outcomes": OUTCOMES, "fates": FATES}
