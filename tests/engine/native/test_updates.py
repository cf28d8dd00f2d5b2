"""Sums of gradients by row, stored or applied, against loops over lanes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ptokit.engine.bag_arguments import RowUpdate
from ptokit.engine.native.whole import updates
from ptokit.engine.native.whole.updates import DIGIT, run
from ptokit.engine.runnable import Unsupported
from ptokit.isa.dtype import dtype
from tests.property.strategies import FUZZ

CAPACITY, PADDING = 40, 7


class Job:
    """Gradients of bags with random lanes: empty bags, lanes outside of the table, and of the padding index."""

    def __init__(self, seed: int, width: int, weighted: bool, picked: bool, lanes: int) -> None:
        rng = np.random.default_rng(seed)
        self.first, self.width, bags = int(rng.integers(0, 3)), width, 9
        inner = np.sort(rng.integers(self.first, self.first + lanes + 1, bags - 1))
        self.bounds = np.array([self.first, *inner, self.first + lanes], np.int64)
        self.indices = rng.integers(-2, CAPACITY + 2, self.first + lanes).astype("int32" if seed % 2 else "int64")
        self.grad = rng.integers(-8, 9, (bags, width)).astype("float32") / 4
        self.weights = rng.integers(-8, 9, len(self.indices)).astype("float32") / 2 if weighted else None
        self.winners = self.picks(rng) if picked else None
        self.last = len(self.indices)

    def picks(self, rng: np.random.Generator) -> Any:
        """A lane of its bag for each element; -1 where the bag has none."""
        rows = [rng.integers(low, high, self.width) if low < high else np.full(self.width, -1)
                for low, high in zip(self.bounds[:-1], self.bounds[1:], strict=True)]  # fmt: skip
        return np.array(rows, np.int32)

    def update(self, rule: str, **more: Any) -> RowUpdate:
        """The job by addresses."""
        index, optional = self.indices.dtype.name, (self.weights, self.winners)
        weights, winners = (0 if each is None else each.ctypes.data for each in optional)
        return RowUpdate(
            dtype("float32"), dtype(index), rule, self.width, CAPACITY, len(self.grad), self.first, self.last, PADDING,
            self.grad.ctypes.data, self.grad.strides[0], self.indices.ctypes.data, self.bounds.ctypes.data, weights,
            winners, **more,
        )  # fmt: skip

    def lanes(self) -> Iterator[tuple[int, Any]]:
        """The row that a lane names, and what it adds to it; of lanes that count, in their order."""
        for bag, (low, high) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True)):
            for lane in range(low, high):
                row = int(self.indices[lane])
                if 0 <= row < CAPACITY and row != PADDING:
                    given = self.grad[bag] * (1 if self.weights is None else self.weights[lane])
                    yield row, given if self.winners is None else np.where(self.winners[bag] == lane, given, 0)

    def sums(self) -> dict[int, Any]:
        """The sum of each row that is named."""
        found: dict[int, Any] = {}
        for row, given in self.lanes():
            found[row] = found.get(row, np.zeros(self.width, "float32")) + given.astype("float32")
        return found


KINDS = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize(("weighted", "picked"), KINDS, ids=["plain", "weighted", "picked"])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(8 if FUZZ else 2))
def test_sums_are_stored_with_ascending_rows(
    seed: int, threads: int, weighted: bool, picked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "LEAST_SHARED", 1)
    monkeypatch.setattr(updates, "LEAST_RANGE", 16)
    monkeypatch.setattr(updates, "LEAST_SLICE", 8)
    jobs = [
        Job(10 * seed + k, width, weighted, picked, lanes)
        for k, (width, lanes) in enumerate([(1, 0), (2, 1), (5, 90), (8, 200)])
    ]
    made: dict[int, tuple[Any, Any]] = {}

    def make(number: int, rows: int) -> tuple[int, int]:
        made[number] = np.full(rows, -9, np.int64), np.full((rows, jobs[number].width), np.nan, np.float32)
        named, values = made[number]
        return named.ctypes.data, values.ctypes.data

    run([job.update("store") for job in jobs], threads, make)
    for number, job in enumerate(jobs):
        named, values = made[number]
        expected = job.sums()
        assert named.tolist() == sorted(expected)
        assert np.array_equal(values, np.array([expected[row] for row in sorted(expected)]).reshape(values.shape))


@pytest.mark.parametrize(("weighted", "picked"), KINDS, ids=["plain", "weighted", "picked"])
@pytest.mark.parametrize("width", [1, 7, 16])
def test_a_step_changes_the_rows_that_lanes_name(width: int, weighted: bool, picked: bool) -> None:
    job = Job(width, width, weighted, picked, 120)
    table = np.arange(CAPACITY * width, dtype="float32").reshape(CAPACITY, width)
    expected = table.copy()
    for row, total in job.sums().items():
        expected[row] = table[row] - np.float32(0.5) * total
    run([job.update("sgd", table=table.ctypes.data, lr=0.5)], 1)
    assert np.array_equal(table, expected)


@pytest.mark.parametrize("capacity", [2, 1 << DIGIT, (1 << DIGIT) + 1, (1 << DIGIT) + 2, (1 << 2 * DIGIT) + 1])
def test_the_last_row_is_sorted_behind_all_others(capacity: int) -> None:
    """Keys are sorted by all bits of its number."""
    job, last = Job(2, 4, False, False, 60), capacity - 1
    job.indices[:] = np.resize([last, 0, last, 1], len(job.indices))
    made: list[Any] = []

    def make(_: int, rows: int) -> tuple[int, int]:
        made[:] = np.full(rows, -9, np.int64), np.zeros((rows, 4), np.float32)
        return made[0].ctypes.data, made[1].ctypes.data

    run([job.update("store")._replace(capacity=capacity, padding=-1)], 1, make)
    sums = np.zeros((3, 4), np.float32)
    names = sorted({0, 1, last})
    for bag, (low, high) in enumerate(zip(job.bounds[:-1], job.bounds[1:], strict=True)):
        for lane in range(low, high):
            sums[names.index(job.indices[lane])] += job.grad[bag]
    assert made[0].tolist() == names
    assert np.array_equal(made[1], sums[: len(names)])


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_ranges_are_chosen_by_the_lanes_of_the_job(seed: int) -> None:
    """Those before its first lane are of others."""
    job = Job(seed, 4, False, False, 30)
    assert job.first > 0
    assert updates._lanes(job.update("store")).tolist() == [
        int(index) % (1 << 8 * job.indices.itemsize) for index in job.indices[job.first :]
    ]


def test_rows_that_are_too_long_are_refused() -> None:
    job = Job(1, 4, False, False, 10)
    with pytest.raises(Unsupported):
        run([job.update("sgd")._replace(width=updates.MOST_WIDTH + 1)], 1)
