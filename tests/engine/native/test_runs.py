"""Whole-array moves of elements whose indices form arithmetic progressions: the reference engine's bits and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine import whole as reference
from ptokit.engine.faults import IndexFault
from ptokit.engine.native import host
from ptokit.engine.native.whole import moves as native
from ptokit.engine.native.whole import runs, strategies
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine, Remap, Side
from tests.engine.native.test_whole_native import PROCESSOR, Array, Case, misaligned, values
from tests.loops import FULL

ROWS = 3000
COUNT = 1003
FAR = replace(host.HOST, near=1, wake=-1)
"""Every table is larger than the caches, and no work too short to be shared."""


@pytest.fixture(autouse=True)
def moved(monkeypatch: pytest.MonkeyPatch) -> list[list[runs.LaneRun]]:
    """Short arrays are moved in runs, in small parts; gives the runs that were."""
    monkeypatch.setattr(host, "HOST", FAR)
    monkeypatch.setattr(native, "MOST_LANES", 0)
    for name, value in (("FEWEST", 3 * runs.SAMPLED), ("MOST_BREAKS", runs.SAMPLED), ("LEAST_RUN", 4)):
        monkeypatch.setattr(runs, name, value)
    for name, value in (("TILE", 7), ("MOVED", 100), ("LEAST_MOVED", 100), ("MOST_EMPTY", 1000)):
        monkeypatch.setattr(runs, name, value)
    found, move = list[list[runs.LaneRun]](), runs._move

    def spy(block: Any, rows: Any, team: Any, given: list[runs.LaneRun], **more: Any) -> None:
        found.append(list(given))
        move(block, rows, team, given, **more)

    monkeypatch.setattr(runs, "_move", spy)
    return found


def joined(*parts: Array) -> Array:
    return np.concatenate(parts)[:COUNT]


def strided(step: int) -> Array:
    """Every `step`-th row, and at the end again from the next one on."""
    return joined(*(np.arange(first, ROWS, step) for first in range(step)))


def broken(at: int) -> Array:
    """One lane that is not of the run around it."""
    found = np.arange(COUNT) * 2
    found[at] = 2999
    return found


DISTINCT: dict[str, Callable[[], Array]] = {
    "side by side": lambda: np.arange(COUNT) + 5,
    "backwards": lambda: np.arange(COUNT)[::-1] + 5,
    "every second": lambda: strided(2),
    "every seventh": lambda: strided(7),
    "every 64th": lambda: strided(64),
    "every 64th, backwards": lambda: strided(64)[::-1],
    "there and back": lambda: joined(np.arange(0, ROWS, 3), np.arange(1, ROWS, 3)[::-1], np.arange(2, ROWS, 3)),
    "two steps": lambda: joined(np.arange(500) * 2, 1000 + np.arange(600) * 3),
}
BROKEN: dict[str, Callable[[], Array]] = {
    f"broken at {at}": (lambda at=at: broken(at)) for at in (0, 1, 2, 63, 64, 65, 501, 502, COUNT - 2, COUNT - 1)
}
"""No two lanes name one row, but the short runs do not show that."""
REPEATED: dict[str, Callable[[], Array]] = {
    "one row": lambda: np.full(COUNT, 77),
    "rows of their own": lambda: np.repeat(np.arange(11), 100)[:COUNT],
    "overlapping": lambda: joined(np.arange(600), 599 + np.arange(600)),
    "the same again": lambda: joined(np.arange(501), np.arange(502)),
    "crossing": lambda: joined(np.arange(500) * 2, np.arange(600) * 3),
    "crossing backwards": lambda: joined(np.arange(501) * 2, 2 * np.arange(502)[::-1]),
    "around": lambda: np.arange(COUNT) * 2 % 1001,
}


KINDS = "int16", "uint32", "int64"
EVERY = [
    (pattern, kind)
    for number, pattern in enumerate((*DISTINCT, *BROKEN, *REPEATED))
    for kind in (KINDS if FULL else [KINDS[number % len(KINDS)]])
]
"""Every pattern in indices of one type, in `make fuzz` of all; random progressions are of any."""


@pytest.mark.parametrize(("pattern", "kind"), EVERY)
def test_progressions(pattern: str, kind: str, moved: list[list[runs.LaneRun]]) -> None:
    indices, f8 = {**DISTINCT, **BROKEN, **REPEATED}[pattern]().astype(kind), dtype("float64")
    table, other = values(f8, (ROWS, 1)), values(f8, (COUNT, 1), 1)
    Case(f8, table, other, indices, side=Side.SRC).check((1, 2, 5))
    assert len(moved) == 7  # alone, and with teams of 1, 2 and 5, whose threads wait or not
    moved.clear()
    for combine in (Combine.STORE, Combine.ADD):
        Case(f8, table, other, indices, combine=combine).check((1, 2, 5))
    assert len(moved) == 14 * (pattern in DISTINCT) or pattern in BROKEN


@pytest.mark.parametrize("count", [700, 800, 1000])
def test_runs_end_where_a_piece_ends(count: int, moved: list[list[runs.LaneRun]]) -> None:
    """The last lane of the last piece is moved as well."""
    f8 = dtype("float64")
    table, other = values(f8, (count, 1)), values(f8, (count, 1), 1)
    Case(f8, table, other, np.arange(count), side=Side.SRC).check((1, 2, 5))
    Case(f8, table, other, np.arange(count)[::-1].copy()).check((1, 2, 5))
    assert moved


@pytest.mark.parametrize("facts", [FAR, replace(FAR, near=1 << 40), PROCESSOR], ids=["far", "near", "elsewhere"])
@pytest.mark.parametrize("seed", range(6 if FULL else 3))
def test_random_progressions(facts: host.Host, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any steps, types and strides; some leave the table."""
    monkeypatch.setattr(host, "HOST", facts)
    rng, names = np.random.default_rng(seed), ("uint8", "float16", "float32", "int64", "complex128")
    for remap in Remap:
        kind, most = dtype(names[int(rng.integers(len(names)))]), int(rng.choice([1, 3, 40]))
        lengths = rng.integers(1, rng.choice([30, 300]), 400)
        firsts, steps = rng.integers(0, ROWS, 400), rng.integers(-most, most + 1, 400)
        if rng.random() < 0.5:
            steps[:] = steps[0]
        indices = np.concatenate([a + b * np.arange(n) for a, b, n in zip(firsts, steps, lengths, strict=True)])[:COUNT]
        if remap is Remap.REFUSE or rng.random() < 0.3:
            indices = indices.clip(0, ROWS - 1)
        indices = indices.astype(rng.choice(["int16", "int32", "uint32", "int64"]))
        table, other = (misaligned(values(kind, (n, 1), seed), rng) for n in (ROWS, len(indices)))
        lanes = misaligned(indices[:, None], rng)[:, 0]
        if remap is not Remap.SKIP:
            Case(kind, table, other, lanes, remap, side=Side.SRC, fresh=bool(rng.integers(2))).check((1, 3))
        if remap is not Remap.ZERO:
            combine = Combine.STORE if kind.name == "complex128" else rng.choice(list(Combine))
            Case(kind, table, other, lanes, remap, combine=combine).check((1, 3))


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("step", [0, 1, -3])
def test_a_bad_index_anywhere_is_refused_and_nothing_is_written(side: Side, step: int) -> None:
    f4, count = dtype("float32"), 200
    good = (1000 if step < 0 else 3) + step * np.arange(count)
    table, other = values(f4, (ROWS, 1)), values(f4, (count, 1), 1)
    for at in range(count):
        indices = good.copy()
        indices[at] = ROWS if at % 2 else -1
        with pytest.raises(IndexFault) as found:
            Case(f4, table, other, indices, side=side).run(native, 2)  # checks that nothing is written
        assert found.value.report.lane == (at,) and found.value.report.count == 1
    for indices in (good + ROWS, good - 5000, good + (ROWS - 1 - good.max()) + (1 if step else ROWS)):
        case = Case(f4, table, other, indices, side=side)
        with pytest.raises(IndexFault) as wanted:
            case.run(reference)
        with pytest.raises(IndexFault) as found:
            case.run(native, 2)
        assert found.value.report == wanted.value.report


@pytest.mark.parametrize(("kind", "step", "rows"), [("uint32", 1 << 28, 1 << 29), ("int64", 1 << 59, 1 << 40)])
def test_values_that_come_around_are_not_inside(kind: str, step: int, rows: int) -> None:
    """The last value is inside as the first two are not, or as a number of 32 bits only."""
    table = np.lib.stride_tricks.as_strided(np.ones((1, 1), np.float32).view(np.uint32), (rows, 1), (0, 4))
    indices = (np.arange(1, 130, dtype=np.uint64) * np.uint64(step)).astype(kind)
    Case(dtype("float32"), table, np.zeros((129, 1), np.uint32), indices, Remap.ZERO, side=Side.SRC).check((1, 2))


@pytest.mark.parametrize("side", Side)
def test_an_index_that_changes_after_the_check_has_no_effect(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    f4, indices = dtype("float32"), strided(7)
    case = Case(f4, values(f4, (ROWS, 1)), values(f4, (COUNT, 1), 1), indices, side=side)
    wanted, move = case.run(reference).tobytes(), runs._move

    def change(*given: Any, **more: Any) -> None:
        indices[:] = 1 << 62
        move(*given, **more)

    monkeypatch.setattr(runs, "_move", change)
    assert case.run(native, 2).tobytes() == wanted


def test_what_is_no_progression_is_left_to_other_strategies(
    monkeypatch: pytest.MonkeyPatch, moved: list[list[runs.LaneRun]]
) -> None:
    """By the sample, and where there are too many runs."""
    f4, rng = dtype("float32"), np.random.default_rng(1)
    monkeypatch.setattr(runs, "MOST_BREAKS", 2)
    monkeypatch.setattr(runs, "LEAST_RUN", 100)
    half = np.arange(COUNT) * 2
    half[COUNT // 2 :] = rng.integers(0, ROWS, COUNT - COUNT // 2)
    for indices in (rng.integers(0, ROWS, COUNT), half, np.repeat(rng.integers(0, ROWS, 30), 35)[:COUNT]):
        for side in Side:
            Case(f4, values(f4, (ROWS, 1)), values(f4, (COUNT, 1), 1), indices, side=side).check((2,))
    assert not moved
    passes, do = list[int](), strategies.Team.do
    monkeypatch.setattr(strategies.Team, "do", lambda *given, **more: (passes.append(1), do(*given, **more)))
    Case(f4, values(f4, (ROWS, 1)), values(f4, (COUNT, 1), 1), np.full(COUNT, 9)).run(native, 2)
    assert len(passes) == 2  # resolved and stored
    Case(f4, values(f4, (ROWS, 1)), values(f4, (COUNT, 1), 1), strided(7), side=Side.SRC).check((2,))
    assert moved
