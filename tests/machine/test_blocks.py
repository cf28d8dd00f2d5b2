"""Blocks against each other: random programs over one array, and their conflicts from sets of rows."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import ptokit as pto
from tests.loops import FULL

ROWS, COLS = 8, 8
HOWS = {"load": "read", "store": "write", "add": "add", "gather": "read", "scatter": "write", "max": "max"}
PLACES = {"first": 0, "beside": 1, "own": 2, "fourth": 4}


class Step(NamedTuple):
    """What a block does with two rows of the array; `only` one block, or all."""

    kind: str
    only: int | None
    place: str


@pto.kernel
def stepwise(x, ids, steps: pto.const = ()):
    block = pto.block_idx()
    for k, given in enumerate(steps):
        step = Step(*given)
        tile = pto.Tile("vec", "int32", 2, COLS)
        pto.texpands(tile, k)
        if step.only is None:
            take(x, ids, tile, step, k, block)
        else:
            with pto.when(block == step.only):
                take(x, ids, tile, step, k, block)


def take(x: Any, ids: Any, tile: Any, step: Step, k: int, block: Any) -> None:
    first = {"first": 0, "beside": block, "own": 2 * block, "fourth": 4}[step.place]
    rows = x[first : first + 2]
    if step.kind == "load":
        pto.tload(tile, rows)
    elif step.kind in ("store", "add"):
        pto.tstore(rows, tile, atomic="add" if step.kind == "add" else "none")
    else:
        idx = pto.Tile("vec", "int32", 1, COLS, valid=(1, 2))
        at = 2 * k + ROWS * block
        pto.tload(idx, ids[at : at + 2])
        if step.kind == "gather":
            pto.mgather(tile, x, idx)
        else:
            pto.mscatter(x, tile, idx, coalesce="row", atomic="max" if step.kind == "max" else "none")


def touched(steps: tuple[Step, ...], ids: np.ndarray, block: int) -> set[tuple[int, str]]:
    """Rows that a block accesses, and how."""
    found: set[tuple[int, str]] = set()
    for k, step in enumerate(steps):
        if step.only in (None, block):
            first = {"first": 0, "beside": block, "own": 2 * block, "fourth": 4}[step.place]
            rows = [first, first + 1] if step.kind in ("load", "store", "add") else ids[2 * k + ROWS * block :][:2]
            found |= {(int(row), HOWS[step.kind]) for row in rows}
    return found


def conflicts(blocks: list[set[tuple[int, str]]]) -> bool:
    """Whether two blocks access one row, unless both only read it or use the same atomic."""
    return any(
        row == other and (how != as_ or how == "write")
        for first, then in combinations(blocks, 2)
        for row, how in first
        for other, as_ in then
    )


def sample(seed: int) -> tuple[tuple[Step, ...], np.ndarray, int]:
    rng = Random(seed)
    grid = rng.randint(2, 4)
    kinds, places = list(HOWS), list(PLACES)
    only = (None, None, 0, grid - 1)
    steps = tuple(Step(rng.choice(kinds), rng.choice(only), rng.choice(places)) for _ in range(rng.randint(1, 4)))
    return steps, np.array([row for _ in range(grid) for row in rng.sample(range(ROWS), ROWS)], "int32"), grid


@pytest.mark.clause("MS-CONF-04")
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("chunk", range(6))
def test_blocks_conflict_exactly_where_their_rows_say_so(chunk: int, target: str) -> None:
    seen = set()
    for seed in range(chunk, 240 if FULL else 60, 6):
        steps, ids, grid = sample(seed)
        expected = conflicts([touched(steps, ids, block) for block in range(grid)])
        options = pto.MachineOptions(checks=("blocks",))
        x = np.zeros((2 * ROWS, COLS), "int32")
        report = stepwise[grid](x, ids, steps=steps, target=target, engine="machine", options=options)
        found = [f for f in report.findings if f.level != "note" and f.rule != "MS-ATOM-06"]  # no max in the header
        assert bool(found) is expected, (seed, steps, report)
        seen.add(expected)
    assert seen == {True, False}


@pytest.mark.parametrize("last", ["store", "load"])
@pytest.mark.parametrize("all_of_them", ["load", "add"])
def test_what_a_block_does_itself_hides_nothing_that_others_did(all_of_them: str, last: str) -> None:
    steps = (Step(all_of_them, None, "first"), Step(last, 3, "first"))
    x = np.zeros((ROWS, COLS), "int32")
    report = stepwise[4](x, np.zeros(64, "int32"), steps=steps, target="a5", engine="machine")
    expected = [] if (all_of_them, last) == ("load", "load") else ["CO-SEM-02"]
    assert [finding.rule for finding in report.hazards] == expected
    assert all("block 3: " in finding.message and "; block 2: " in finding.message for finding in report.hazards)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_sums_of_blocks_are_rounded_alike_under_every_schedule(seed: int, target: str) -> None:
    """Atomics of one kind need no order, so programs that use them are clean: their bits must be the same, too."""
    rng = np.random.default_rng(1)
    parts, acc = rng.standard_normal((8 * ROWS, COLS), "float32"), np.zeros((ROWS, COLS), "float32")
    same = acc.copy()
    sums[8](parts, same, np.arange(ROWS, dtype="int32"), target=target, engine="reference")
    options = pto.MachineOptions(seed=seed)
    assert sums[8](parts, acc, np.arange(ROWS, dtype="int32"), target=target, engine="machine", options=options).ok
    assert np.array_equal(acc, same)


@pto.kernel
def sums(parts, acc, ids):
    """Adds rows to rows by two pipes."""
    first = pto.block_idx() * ROWS
    tile = pto.Tile("vec", "float32", ROWS, COLS)
    idx = pto.Tile("vec", "int32", 1, ROWS)
    pto.tload(tile, parts[first : first + ROWS])
    pto.tload(idx, ids)
    pto.mscatter(acc, tile, idx, coalesce="row", atomic="add")
    pto.tstore(acc, tile, atomic="add")
