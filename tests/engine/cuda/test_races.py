"""Memory that changes between two reads: by a faster thread of a block, or by another stream."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from tests.engine.cuda import threads
from tests.engine.cuda.test_ptx import NZ
from tests.engine.cuda.test_stage import EmulatedLaunch

COUNT = 64


class FirstAhead(threads.Block):
    """A block whose first thread goes on from a barrier before the others."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes)
        meet = self.called["meet"]

        def late() -> None:
            meet()
            if self.own.lane:
                time.sleep(0.1)

        self.called["meet"] = type(meet)(late)


@pto.kernel
def behind_a_scalar(numbers, out):
    more = pto.Tile("vec", "int32", 1, COUNT)
    pto.tload(more, numbers)
    pto.tadds(more, more, 5)
    first = pto.load_scalar(numbers, 0)
    pto.tstore(numbers, more)
    pto.tstore(out[first : first + COUNT], more)


def test_threads_load_a_scalar_before_any_of_them_replaces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "Block", FirstAhead)
    given: dict[str, Any] = {"numbers": np.zeros(COUNT, "i4"), "out": np.zeros(2 * COUNT, "i4")}
    EmulatedLaunch(behind_a_scalar, given, 1, threads.ThreadedDevice(), 1)
    assert given["numbers"].tolist() == [5] * COUNT
    assert given["out"].tolist() == [5] * COUNT + [0] * COUNT


class Changed(threads.Block):
    """A block during whose first check another stream changes the indices."""

    indices: Any

    def any(self, number: int, bit: bool) -> bool:
        found = super().any(number, bit)
        self.barrier.wait(threads.WAIT)
        self.indices[...] = 40
        return found


@pto.kernel
def rows_in_l1(table, ids, out):
    rows, found = pto.Tile("mat", "float32", 16, 16, **NZ), pto.Tile("vec", "float32", 16, 16)
    pto.mgather(rows, table, ids)
    pto.tmov(found, rows)
    pto.tstore(out, found)


def test_an_index_that_changes_after_its_check_stays_inside_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = np.full((48, 16), 99, "f4")
    memory[:20] = np.arange(20)[:, None]
    given: dict[str, Any] = {"table": memory[:20], "ids": np.arange(16, dtype="i4"), "out": np.zeros((16, 16), "f4")}
    monkeypatch.setattr(Changed, "indices", given["ids"], raising=False)
    monkeypatch.setattr(threads, "Block", Changed)
    EmulatedLaunch(rows_in_l1, given, 1, threads.ThreadedDevice(), 1)
    assert (given["ids"] == 40).all()
    assert (given["out"] == 19).all()
