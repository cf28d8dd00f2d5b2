"""Other schedules show races: what a race can change, a few seeds change; what is clean, none does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ptokit as pto
from ptokit.machine.report import CHECKS
from tests.corpus.hazards.case import Case, flag
from tests.corpus.hazards.everything import CASES, few
from tests.machine.exploring import Search
from tests.machine.manual_programs import Sample, sample
from tests.machine.test_corpus import contents
from tests.machine.test_ground_truth import ORDER, TextKernel, _few, judged, reads_stale_lines
from tests.property.strategies import FUZZ

SEEDS = range(20)
RACES = ("", "H-14", "H-15", "H-16", "H-17", "H-24", "H-25", "H-26", "H-35", "H-47", "H-48")
"""Hazards whose result depends on the schedule; without a number: CO-SEM-02 and KN-13."""
MOST_EXPLORED = 150 if FUZZ else 50
"""Launches of a search for a schedule that shows a race."""
FREE = pto.MachineOptions(checks=tuple(check for check in CHECKS if check not in ("time", "traffic")))
"""Time and traffic are only reported; no schedule depends on them."""
Bits = dict[str, bytes]


class Distinct(dict[str, Any]):
    """What a kernel is given, with other numbers in every array of floats: then a write that is missed is seen."""

    def update(self, made: dict[str, Any]) -> None:  # type: ignore[override]
        super().update(made)
        rng = np.random.default_rng(1)
        for value in made.values():
            array = value.array if isinstance(value, pto.GlobalTensor) else value
            if isinstance(array, np.ndarray) and array.dtype.kind == "f":
                array[...] = rng.integers(1, 1000, array.shape)


def bits_of(case: Case, seed: int | None) -> Bits:
    """What all arrays hold after a launch."""
    given = Distinct()
    case.launch("machine", given, options=replace(FREE, seed=seed))
    return contents(given)


def can_change(launch: Any, expected: Bits) -> bool:
    """Whether a search through all schedules finds one that gives other bits."""
    with pytest.MonkeyPatch.context() as patch:
        return any(found != expected for found in Search(patch).outcomes(launch, MOST_EXPLORED))


@pytest.mark.parametrize("kind", RACES)
def test_races_of_the_corpus_are_shown_within_20_seeds(kind: str) -> None:
    """At least 95 % of those that can change a bit, as a search through all schedules says."""
    shown: list[str] = []
    missed: list[str] = []
    cases = few(case for case in CASES if case.kind == kind and case.bad and case.target != "cpu")
    for case in cases if FUZZ else cases[:: 1 + len(cases) // 4]:
        expected = bits_of(case, None)
        if any(bits_of(case, seed) != expected for seed in SEEDS):
            shown.append(case.id)
        elif can_change(lambda case=case: bits_of(case, 0), expected):
            missed.append(case.id)
    assert shown and len(shown) >= 0.95 * (len(shown) + len(missed)), missed


@pytest.mark.parametrize("chunk", range(2))
def test_races_of_random_programs_are_shown_and_clean_ones_keep_their_bits(chunk: int) -> None:
    shown, missed, clean = 0, list[int](), 0
    for seed in range(chunk, 160 if FUZZ else 50, 2):
        of = sample(seed)
        if not _few(of):
            continue
        kernel = TextKernel(of.program)
        expected = program_bits(kernel, of, None)
        differs = any(program_bits(kernel, of, other) != expected for other in SEEDS)
        if judged(of).is_clean and not reads_stale_lines(of):
            assert not differs, f"seed {seed}\n{of}"
            clean += 1
        elif differs:
            shown += 1
        elif can_change(lambda kernel=kernel, of=of: program_bits(kernel, of, 0), expected):
            missed.append(seed)
    assert shown and clean and len(missed) <= 0.05 * (shown + len(missed)), missed


def program_bits(kernel: Any, of: Sample, seed: int | None) -> Bits:
    """What all arrays hold after a launch."""
    arrays: dict[str, Any] = {name: array.copy() for name, array in of.arrays.items()}
    kernel[1](**arrays, target=of.target, engine="machine", options=replace(ORDER, seed=seed))
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("chunk", range(8))
def test_twins_of_the_corpus_keep_their_bits(chunk: int) -> None:
    twins = few(case for case in CASES if not case.bad and case.target != "cpu")[:: 1 if FUZZ else 8]
    for case in twins[chunk::8]:
        expected = bits_of(case, None)
        for seed in range(8 if FUZZ else 1):
            assert bits_of(case, seed) == expected, f"{case.id}, seed {seed}"


# --- What a schedule can do


def outcomes(kernel: Any, grid: int, make: Any, shown: str, **options: Any) -> set[tuple[float, ...]]:
    """The values of an array after a launch, for 20 seeds."""
    found = set()
    for seed in SEEDS:
        arrays = make()
        kernel[grid](**arrays, engine="machine", options=replace(FREE, seed=seed), **{"target": "a5", **options})
        found.add(tuple(arrays[shown].ravel().tolist()))
    return found


@pto.kernel
def increment(x):
    """Every block adds one to the same row."""
    tile = pto.Tile("vec", "float32", 1, 8)
    pto.tload(tile, x)
    pto.tadds(tile, tile, 1)
    pto.tstore(x, tile)


@pytest.mark.parametrize("grid", [2, 3, 9])
def test_blocks_run_at_the_same_time(grid: int) -> None:
    """One block after the other would always add up; an update is lost only if a block loads before another stores."""
    sums = {row[0] for row in outcomes(increment, grid, lambda: {"x": np.zeros((1, 8), "float32")}, "x")}
    assert max(sums) == grid and min(sums) < grid


@pto.kernel(mode="manual")
def far_behind(x, out, steps: pto.const = 8):
    """The vector pipe takes many steps; only if the load waits for all of them, the last one misses it."""
    tile = pto.Tile("vec", "float32", 1, 8, addr=0)
    other = pto.Tile("vec", "float32", 1, 8, addr=64)
    pto.tload(tile, x)
    pto.texpands(other, 0)
    for _ in range(steps):
        pto.tadds(other, other, 1)
    pto.tadd(other, other, tile)
    pto.barrier("ALL")
    pto.tstore(out, other)


def test_a_pipe_starves() -> None:
    def make() -> dict[str, Any]:
        return {"x": np.ones((1, 8), "float32"), "out": np.zeros((1, 8), "float32")}

    found = {str(row[0]) for row in outcomes(far_behind, 1, make, "out", steps=30)}
    assert found == {"31.0", "nan"}


@pto.kernel
def one_row(x, ids, table, conflict: pto.const = "default"):
    """Rows are scattered, several of them to the same place."""
    idx, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
    pto.tload(idx, ids)
    pto.tload(rows, x)
    pto.mscatter(table, rows, idx, coalesce="row", conflict=conflict)


@pytest.mark.parametrize("conflict", ["default", "last"])
def test_lanes_of_a_racy_scatter_take_effect_in_any_order(conflict: str) -> None:
    def make() -> dict[str, Any]:
        x = np.repeat(np.arange(8, dtype="float32"), 8).reshape(8, 8)
        return {"x": x, "ids": np.array([0, 1, 1, 1, 2, 3, 4, 5], "int32"), "table": np.zeros((6, 8), "float32")}

    found = outcomes(one_row, 1, make, "table", conflict=conflict)
    assert {row[8] for row in found} == ({1.0, 2.0, 3.0} if conflict == "default" else {3.0})
    assert {(row[0], *row[16::8]) for row in found} == {(0.0, 4.0, 5.0, 6.0, 7.0)}


@pto.kernel
def count_back(x, counts, out):
    """A number that DMA has stored is read by the scalar pipe: its cache may not know."""
    tile = pto.Tile("vec", "int32", 1, 8)
    pto.tload(tile, x)
    pto.tstore(counts, tile)
    n = pto.load_scalar(counts, 0, 3)
    pto.texpands(tile, n)
    pto.tstore(out, tile)


@pto.kernel
def gather_back(x, ids, table, out):
    """Rows that DMA has stored are gathered by threads."""
    rows, idx = pto.Tile("vec", "int32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(rows, x)
    pto.tload(idx, ids)
    pto.tstore(table[0:8], rows)
    pto.mgather(rows, table, idx)
    pto.tstore(out, rows)


@pto.kernel
def scatter_then_load(x, ids, table, out):
    """Rows that threads have scattered are loaded by DMA."""
    rows, idx = pto.Tile("vec", "int32", 8, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(rows, x)
    pto.tload(idx, ids)
    pto.mscatter(table, rows, idx, coalesce="row")
    pto.tload(rows, table[0:8])
    pto.tstore(out, rows)


@pytest.mark.parametrize(
    ("kernel", "shape"), [(count_back, (1, 8)), (gather_back, (8, 8)), (scatter_then_load, (8, 8))]
)
def test_stale_lines_are_served(kernel: Any, shape: tuple[int, int]) -> None:
    def make() -> dict[str, Any]:
        old, new = np.full(shape, 5, "int32"), np.full(shape, 7, "int32")
        if kernel is count_back:
            return {"x": new, "counts": old, "out": np.zeros(shape, "int32")}
        ids = np.arange(8, dtype="int32")
        return {"x": new, "ids": ids, "table": old, "out": np.zeros(shape, "int32")}

    assert {frozenset(row) for row in outcomes(kernel, 1, make, "out")} == {frozenset([5]), frozenset([7])}
    table = "counts" if kernel is count_back else "table"
    assert {frozenset(row) for row in outcomes(kernel, 1, make, table)} == {frozenset([7])}, "memory itself is current"


@pto.kernel(mode="manual")
def workspace_over_a_tile(x, out):
    """The workspace of a reduction lies over a tile that is stored at the same time."""
    tile = pto.Tile("vec", "float32", 8, 8, addr=0)
    kept = pto.Tile("vec", "float32", 8, 8, addr=1024)
    total = pto.Tile("vec", "float32", 1, 8, addr=2048)
    pto.tload(tile, x)
    pto.tload(kept, x)
    flag("MTE2", "V")
    flag("MTE2", "MTE3", 1)
    pto.tstore(out, kept)
    pto.tcolsum(total, tile, tmp=pto.Tile("vec", "float32", 8, 8, addr=1024))


def test_a_workspace_is_written() -> None:
    def make() -> dict[str, Any]:
        return {"x": np.ones((8, 8), "float32"), "out": np.zeros((8, 8), "float32")}

    assert len({str(row) for row in outcomes(workspace_over_a_tile, 1, make, "out")}) == 2
