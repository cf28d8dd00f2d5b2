"""Which cells of a table gathers and scatters touch, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ptokit.engine.storage import Array
from ptokit.machine.outcomes import LINE, Fate, LaneOutcomes, Outcome
from ptokit.machine.traffic import Traffic
from ptokit.report.sources import place

MOST_BINS = 512
"""Columns of an access map."""
MOST_LANES = 4096
"""Lanes of an instruction that are listed."""
MOST_REPEATED = 20
BUCKETS = 32
"""Of the histogram of indices."""
OUTCOMES, FATES = [kind.text for kind in Outcome], [kind.text for kind in Fate]


def access_maps(lanes: Sequence[LaneOutcomes], traffic: Iterable[Traffic]) -> list[dict[str, Any]]:
    """One for each gather and scatter of the program, all its executions together."""
    efficiency = {each.number: each.efficiency for each in traffic}
    by_number: dict[int, list[LaneOutcomes]] = {}
    for each in lanes:
        by_number.setdefault(each.number, []).append(each)
    return [_map(number, found, efficiency.get(number)) for number, found in sorted(by_number.items())]


def _map(number: int, found: Sequence[LaneOutcomes], efficiency: float | None) -> dict[str, Any]:
    first = found[0]
    index, cell, code = (np.concatenate([getattr(each, name).ravel() for each in found]) for name in PARTS)
    touched, lines = cell[cell >= 0], np.concatenate([each.lines for each in found])
    counts: dict[str, int] = {}
    for each in found:
        for name, count in each.counts().items():
            counts[name] = counts.get(name, 0) + count
    return {
        "statement": number,
        "instruction": first.instruction,
        "where": place(first.where),
        "table": first.table,
        "unit": first.unit,
        "cells": first.cells,
        "lane_bytes": first.lane_bytes,
        "lanes": int(index.size),
        "executions": len(found),
        "distinct": int(np.unique(touched).size),
        "by_cell": _binned(touched, first.cells),
        "lines": _lines(lines, first.table_lines),
        "outside_below": int(np.count_nonzero(index < 0)),
        "outside_above": int(np.count_nonzero(index >= first.capacity)),
        "capacity": first.capacity,
        "repeated": _repeated(touched),
        "repeats": _repeats(touched),
        "counts": counts,
        "moved_by_policy": int(np.count_nonzero(code)),
        "efficiency": efficiency,
        "histogram": _histogram(index),
        "listed": _listed(found),
    }


PARTS = ("index", "cell", "code")


def _binned(numbers: Array, total: int) -> dict[str, Any]:
    """How many lanes touch each run of `size` cells or lines."""
    size = max(1, -(-max(total, 1) // MOST_BINS))
    return {"size": size, "counts": np.bincount(numbers // size, minlength=max(1, -(-total // size))).tolist()}


def _lines(lines: Array, total: int) -> dict[str, Any] | None:
    """Lines of global memory that lanes touch; None for tables on chip."""
    if not total:
        return None
    names, counts = np.unique(lines, return_counts=True)
    return {
        **_binned(lines, total),
        "bytes": LINE,
        "total": total,
        "touched": int(names.size),
        "repeated": int(np.count_nonzero(counts > 1)),
    }


def _repeated(cells: Array) -> int:
    """How many cells more than one lane touches."""
    return int(np.count_nonzero(np.unique(cells, return_counts=True)[1] > 1))


def _repeats(cells: Array) -> list[list[int]]:
    """The cells that most lanes touch, with their counts; only those touched more than once."""
    names, counts = np.unique(cells, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MOST_REPEATED]
    return [[int(names[k]), int(counts[k])] for k in order if counts[k] > 1]


def _histogram(index: Array) -> dict[str, list[int]]:
    """Index values as they were read, in equal buckets of whole numbers."""
    if not index.size:
        return {"edges": [0, 1], "counts": [0]}
    low, high = int(index.min()), int(index.max())
    width = -(-(high - low + 1) // BUCKETS)
    buckets = -(-(high - low + 1) // width)
    counts = np.bincount((index - low) // width, minlength=buckets)
    return {"edges": [low + width * k for k in range(buckets + 1)], "counts": counts.tolist()}


def _listed(found: Sequence[LaneOutcomes]) -> dict[str, Any]:
    """The first lanes: block, number in its execution, index, outcome, cell, fate and the lane that overwrote it; names
    of the codes."""
    rows: list[list[int]] = []
    for each in found:
        names = ("index", "code", "cell", "fate", "overwritten_by")
        columns = [getattr(each, name).ravel()[: MOST_LANES - len(rows)].tolist() for name in names]
        rows += [[each.block, lane, *row] for lane, row in enumerate(zip(*columns, strict=True))]
    return {"rows": rows, "outcomes": OUTCOMES, "fates": FATES}
