"""The fit of the cost table: it finds a hidden one behind noisy times, and says what it cannot find."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ptokit.cli.measured_operators import operator
from ptokit.machine.costs import Costs
from ptokit.machine.fit import FITTED, Calibration, Measurement, calibrate
from ptokit.machine.report import MachineOptions
from ptokit.machine.schedule import Record
from ptokit.target import profile
from tests.loops import FULL

TIMES = 7
"""Repetitions of a measurement."""


def sweep() -> list[tuple[str, dict[str, object], int]]:
    """Launches of operators over sizes that make different numbers count."""
    found: list[tuple[str, dict[str, object], int]] = []

    def add(name: str, rows: int, cols: int, *repeats: int, grid: int = 1, **others: object) -> None:
        found.extend((name, {"rows": rows, "cols": cols, "repeat": each, **others}, grid) for each in repeats)

    for rows, cols in ((1, 16), (16, 64), (16, 1024), (256, 16)):
        add("load", rows, cols, 8, 32)
        add("store", rows, cols, 2, 8)
    add("store", 1, 16, 2, 8, atomic="add")
    for name in ("add", "exp", "rowsum"):
        add(name, 1, 16, 24)
        add(name, 64, 128, 8, 24)
    add("transpose", 64, 64, 4, 12)
    for rows, cols in ((8, 16), (128, 32), (16, 512)):
        for mode in ("row", "elem"):
            add("gather", rows, cols, 2, 6, mode=mode, table=64)
            add("scatter", rows, cols, 3, mode=mode, atomic="none", table=256)
            add("scatter", rows, cols, 3, mode=mode, atomic="add", table=256)
    add("load", 16, 256, 4, grid=100)
    return found


@cache
def records(target: str) -> tuple[tuple[str, Record], ...]:
    found = []
    for name, given, grid in sweep():
        kernel, args = operator(name, given, grid)
        options = MachineOptions(checks=("time",), timeline=100_000)
        report = kernel[grid](*args, target=target, engine="machine", options=options)
        assert report.ok and report.timeline.record.blocks
        found.append((f"{name} {given}", report.timeline.record))
    return tuple(found)


def hidden_table(target: str, seed: int) -> dict[str, float]:
    """Every fitted number changed by a factor of up to 1.8."""
    rng = np.random.default_rng(seed)
    return {
        name: number * float(np.exp(rng.uniform(-0.6, 0.6)))
        for name, number in profile(target).costs.items()
        if name.endswith(FITTED)
    }


def measured(target: str, hidden: dict[str, float], noise: float, seed: int) -> list[Measurement]:
    """Times under a hidden table, each the median of some with noise."""
    rng, costs = np.random.default_rng(seed), Costs(profile(target), hidden)
    found = []
    for name, record in records(target):
        exact = record.cycles(costs) / costs.clock / 1000
        found.append(Measurement(name, exact * float(np.median(np.exp(rng.normal(0, noise, TIMES)))), record))
    return found


def worst(found: Calibration, hidden: dict[str, float]) -> float:
    return max(abs(number / hidden[name] - 1) for name, number in found.costs.items())


EXPECTED = {
    "a2a3": {"GM latency cycles", "GM to UB GB/s", "UB to GM GB/s", "DMA burst cycles", "scalar UB cycles"},
    "a5": {"SIMT transaction cycles", "SIMT atomic cycles", "GM to UB GB/s", "UB to GM GB/s", "DMA burst cycles"},
}
"""What these measurements must determine at least."""


@pytest.mark.parametrize(
    ("target", "noise", "seed"), [("a5", 0.05, 2), *([("a2a3", 0.05, 1), ("a5", 0.03, 5)] if FULL else [])]
)
def test_a_hidden_table_is_recovered_from_noisy_times(target: str, noise: float, seed: int) -> None:
    hidden = hidden_table(target, seed)
    found = calibrate(profile(target), measured(target, hidden, noise, seed), {})
    assert worst(found, hidden) < 0.1
    assert EXPECTED[target] <= found.costs.keys() and len(found.costs) >= 9
    assert found.noise == pytest.approx(noise * 1.25 / TIMES**0.5, rel=0.5)  # of a median
    assert found.costs.keys() | found.kept.keys() == profile(target).costs.keys()
    assert not found.costs.keys() & found.kept.keys()
    assert all(found.kept[name] == "not fitted" for name in ("clock GHz", "AIV cores", "cache line bytes"))
    assert found.kept["cube block cycles"] == "no measurement depends on it"
    assert np.median([abs(each.error) for each in found.residuals]) < 2 * noise


def test_outliers_do_not_count() -> None:
    hidden = hidden_table("a2a3", 3)
    given = measured("a2a3", hidden, 0.03, 3)
    for k in (5, 22, 40):
        given[k] = Measurement(given[k].name, given[k].microseconds * 4, given[k].record)
    found = calibrate(profile("a2a3"), given, {})
    assert len(found.costs) >= 9 and worst(found, hidden) < 0.1


def test_what_few_measurements_do_not_determine_keeps_its_value() -> None:
    given = measured("a5", hidden_table("a5", 4), 0.04, 4)[:3]
    found = calibrate(profile("a5"), given, {})
    assert found.costs == {} and found.kept.keys() == profile("a5").costs.keys()
    assert {"GM latency cycles", "DMA start cycles"} <= {
        name for name, why in found.kept.items() if why.startswith("not determined")
    }


def test_two_numbers_that_only_count_together_are_not_determined() -> None:
    """A vector instruction of one repeat takes its start and the repeat."""
    chosen = [each for each in records("a5") if each[0].startswith("add") and "'rows': 1," in each[0]] * 6
    costs = Costs(profile("a5"), {"vector start cycles": 28, "vector repeat cycles": 2})
    given = [Measurement(name, record.cycles(costs) / 1850, record) for name, record in chosen]
    assert not {"vector start cycles", "vector repeat cycles"} & calibrate(profile("a5"), given, {}).costs.keys()


def test_the_start_of_kernels_is_a_constant() -> None:
    hidden = {"GM to UB GB/s": 60.0}
    rng = np.random.default_rng(0)
    given = [
        Measurement(each.name, each.microseconds + 7 * float(np.exp(rng.normal(0, 0.01))), each.record, True)
        for each in measured("a2a3", hidden, 0.01, 0)
    ]
    found = calibrate(profile("a2a3"), given, {})
    assert found.launch == pytest.approx(7, rel=0.1)
    assert worst(found, {**profile("a2a3").costs, **hidden}) < 0.1


def test_the_fit_starts_from_given_costs() -> None:
    """Exact times of the given table: nothing changes."""
    hidden = hidden_table("a5", 6)
    given = measured("a5", hidden, 0.0, 6)
    found = calibrate(profile("a5"), given, hidden)
    assert worst(found, hidden) < 1e-6
    assert all(each.before == pytest.approx(each.measured) for each in found.residuals)
