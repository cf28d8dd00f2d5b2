"""Sums over the lanes of all executions, against NumPy over all lanes at once; memory that does not grow."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine import outcomes
from ptokit.machine.outcomes import MOST_LISTED, NumberTally


@pto.kernel
def looked_up(table, ids, out):
    here = pto.block_idx() * 64
    index, t = pto.Tile("vec", "int32", 1, 64), pto.Tile("vec", "float32", 64, 8)
    pto.tload(index, ids[here : here + 64])
    pto.mgather(t, table, index, oob="clamp")
    pto.tstore(out[here : here + 64], t)


def test_sums_are_of_all_executions_and_outcomes_of_the_first() -> None:
    blocks = 3 * MOST_LISTED // 64
    ids = np.random.default_rng(1).integers(-5, 120, blocks * 64).astype("int32")
    table, out = np.zeros((100, 8), "float32"), np.zeros((ids.size, 8), "float32")
    options = pto.MachineOptions(lanes=True, checks=("traffic",))
    report = looked_up[blocks](table, ids, out, target="a5", engine="machine", options=options)
    (own,) = report.lane_totals
    assert (own.executions, own.lanes) == (blocks, ids.size)
    assert (own.below, own.above) == (np.count_nonzero(ids < 0), np.count_nonzero(ids >= 100))
    assert (own.lowest, own.highest) == (ids.min(), ids.max())
    outside = own.below + own.above
    assert own.counts == {"in bounds": ids.size - outside, "clamped": outside}
    cells, times = own.touched.result()
    assert dict(zip(cells.tolist(), times.tolist(), strict=True)) == Counter(
        np.where(ids < 0, 99, ids).clip(max=99).tolist()
    )
    assert sum(each.index.size for each in report.lanes) == MOST_LISTED
    assert np.concatenate([each.index for each in report.lanes]).tolist() == ids[:MOST_LISTED].tolist()
    assert f"and {blocks - 8:,} more" in str(report)
    plain = report.as_dict()["lane_totals"]
    assert plain[0]["lanes"] == ids.size and plain[0]["counts"] == dict(own.counts)


def test_numbers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MOST_WAITING", 50)
    draw, tally, seen = np.random.default_rng(2), NumberTally(), Counter()
    for _ in range(40):
        numbers = draw.integers(-30, 30, draw.integers(0, 20))
        tally.add(numbers)
        seen.update(numbers.tolist())
    found, times = tally.result()
    assert dict(zip(found.tolist(), times.tolist(), strict=True)) == seen and sorted(seen) == found.tolist()


def test_very_many_different_numbers_are_counted_by_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MOST_WAITING", 50)
    draw, tally, seen = np.random.default_rng(3), NumberTally(16), []
    for _ in range(40):
        seen.append(draw.integers(-1000, 1000, 20))
        tally.add(seen[-1])
    found, times = tally.result()
    assert found.size <= 16 and times.sum() == 800 and tally.grain > 1
    expected = Counter((np.concatenate(seen) // tally.grain * tally.grain).tolist())
    assert dict(zip(found.tolist(), times.tolist(), strict=True)) == expected
