"""Moves whose lanes form few runs (`runs.py`): found in the indices, checked, and shared among threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ptokit.engine.native import host
from ptokit.engine.native.whole.block import ArgumentBlock
from ptokit.engine.native.whole.mover import Rows
from ptokit.engine.native.whole.phases import Indices
from ptokit.engine.native.whole.strategies import Team, fetches, native
from ptokit.engine.storage import address_of

FEWEST = 1 << 14
"""Lanes from which on runs are looked for."""
MOST_BREAKS = 2
"""At how many of the sampled places a run may end."""
LEAST_RUN, MOST_RUNS = 256, 1024
"""The least lanes of a run, on average, and the most runs: otherwise other strategies take less time."""
TILE = 512
"""Lanes of a run that are moved at a time, if other runs name rows in the same cache lines."""
MOST_EMPTY = 4
"""How many times the lanes all runs may have, if each reached from the lowest row to the highest, for that."""
MOVED, LEAST_MOVED = 1 << 16, 1 << 12
"""Lanes that are moved at a time otherwise, at most and at least."""


class LaneRun(NamedTuple):
    """Lanes in sequence whose rows have one distance."""

    lane: int
    row: int
    step: int
    length: int

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest row, and the highest."""
        last = self.row + self.step * (self.length - 1)
        return min(self.row, last), max(self.row, last)


def gather(block: ArgumentBlock, rows: Rows, indices: Indices, team: Team) -> bool:
    """Gather lanes of few runs; whether that was done."""
    runs = _found(block, indices, team, gathers=True)
    if runs:
        _move(block, rows, team, runs, gathers=True)
    return bool(runs)


def scatter(block: ArgumentBlock, rows: Rows, indices: Indices, team: Team) -> bool:
    """Scatter lanes of few runs, if no two of them name one row; whether that was done."""
    runs = _found(block, indices, team, gathers=False)
    is_done = bool(runs) and _are_distinct(runs)
    if is_done:
        _move(block, rows, team, runs, gathers=False)
    return is_done


def _found(block: ArgumentBlock, indices: Indices, team: Team, *, gathers: bool) -> list[LaneRun]:
    """The runs of the lanes, in order; none if there are too many, or if a row is outside."""
    count, parts = block.get("count"), team.parts
    limit = min(MOST_RUNS, count // LEAST_RUN) // parts
    if count < FEWEST or not limit or count * block.get("capacity") >> 63:  # numbers of rows must not overflow
        return []
    native("glance", indices, gathers)(block.address, 0)
    if block.get("missed") > MOST_BREAKS:
        return []
    memory, counts = np.empty((parts, limit, len(LaneRun._fields)), np.int64), np.zeros(parts, np.int64)
    block.set(runs=address_of(memory), counts=address_of(counts), run_limit=limit, workers=parts, missed=0)
    team.do(native("find", indices), block)
    if block.get("missed"):
        return []
    return [LaneRun(*run) for part, found in enumerate(counts.tolist()) for run in memory[part, :found].tolist()]


def _are_distinct(runs: Sequence[LaneRun]) -> bool:
    """Whether it is plain that no two lanes name one row: runs lie apart, or between each other with one step."""
    steps = _steps(runs)
    if 0 in steps:
        return False
    for step in {1, *steps} if len(steps) == 1 else {1}:
        ends = sorted((run.ends[0] % step, *run.ends) for run in runs)
        if all(a < b or high < low for (a, _, high), (b, low, _) in pairwise(ends)):
            return True
    return False


def _steps(runs: Sequence[LaneRun]) -> set[int]:
    return {abs(run.step) for run in runs if run.length > 1}


def _move(block: ArgumentBlock, rows: Rows, team: Team, runs: list[LaneRun], *, gathers: bool) -> None:
    """Move runs, by ranges of lanes; by ranges of rows if several runs may have lines of the table in common."""
    count, steps = block.get("count"), _steps(runs)
    step, low, extent = max(steps, default=0), 0, count
    piece = min(MOVED, max(LEAST_MOVED, count // (4 * team.parts)))
    by_row = rows.far and len(steps) == 1 < step and any(a.row + a.length * a.step != b.row for a, b in pairwise(runs))
    if by_row:
        ends = [run.ends for run in runs]
        first, last = min(ends)[0], max(high for _, high in ends)
        by_row = (last - first) // step * len(runs) <= MOST_EMPTY * count
        if by_row:
            low, extent, piece = first, last + 1 - first, TILE * step
            runs.sort(key=lambda run: run.ends)
    listed = np.array(runs, np.int64)
    block.set(runs=address_of(listed), run_count=len(listed), piece=piece, extent=extent, low=low, by_row=by_row)
    far = not gathers and not by_row and step > 1 and fetches(rows)  # only stores are prefetched
    streams = count * rows.size >= host.HOST.stream_from
    team.do(native("move", replace(rows, far=far, stream=False), gathers, streams), block)
