"""The machine gives the values of the reference engine: in examples, random calls, the gallery and random kernels.

`pytest -p tests.machine.both` asks the same of every call and every launch of any other test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given
from hypothesis import strategies as st

import ptokit as pto
from ptokit.machine import instruction
from tests.conformance.harness import check_example, telling_examples
from tests.engine.native.test_calls import CASES, Strategy
from tests.examples.test_gallery import BAD, CASTING, GALLERY, Entry, cells, launch_of_each, launched, rng, spoilt
from tests.lang.random_kernels import random_kernel
from tests.lang.test_random_kernels import arguments, kernel_of
from tests.loops import FULL
from tests.machine.both import Mismatch, Tally, on_the_machine
from tests.property.runner import run
from tests.property.strategies import fuzz

CHUNKS = 7 if FULL else 4
"""The number of portions of the examples, so that processes can share them."""
GRIDS = (1, 2, 5)
TARGETS = ("cpu", "a2a3", "a5")


@pytest.fixture
def tally() -> Iterator[Tally]:
    with on_the_machine() as tally:
        yield tally
    assert not tally.mismatches


# --- Calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_examples(chunk: int) -> None:
    differing: dict[str, Mismatch] = {}
    with on_the_machine() as tally:
        for name in telling_examples()[chunk::CHUNKS]:
            try:
                check_example(name, refusals=chunk % 3 == 0 or FULL, full=FULL)
            except Mismatch as problem:
                differing[name] = problem
    assert not differing and not tally.mismatches
    assert tally.calls.total() > 50 and tally.reported.total() > (10 if chunk % 3 == 0 else 0)
    assert tally.outside < tally.calls.total() / 10


@pytest.mark.parametrize(
    ("strategy", "options"), [pytest.param(s, o, id="-".join((s.__name__, *map(str, o)))) for s, o in CASES]
)
@fuzz(0.1)
@given(data=st.data())
def test_random_calls(strategy: Strategy, options: tuple[Any, ...], data: st.DataObject) -> None:
    with on_the_machine():
        run(data.draw(strategy(*options)))


# --- Launches ------------------------------------------------------------------------------------------------------


@launch_of_each(2)
def test_gallery(tally: Tally, entry: Entry, target: str) -> None:
    turn, sizes = GALLERY.index(entry), (entry.sizes[0], entry.small, entry.empty)
    for k, grid in enumerate((0, 1, 7)):
        for each in sizes if FULL else [sizes[(turn + k) % 3]]:
            launched(entry, entry.make(rng(), **each), grid, target, engine="reference")
    assert tally.launches[target] == (9 if FULL else 3)


@launch_of_each(0)
def test_gallery_with_indices_outside_the_table(tally: Tally, entry: Entry, target: str) -> None:
    case = spoilt(entry, *((-1, -100) if entry.kernel is cells.histogram else BAD))
    for oob in entry.policies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if oob in CASTING else "error", pto.HazardWarning)
            launched(entry, case, 7, target, oob=oob, engine="reference")
    with pytest.raises(pto.OutOfBoundsError):
        launched(entry, case, 1, target, oob="undefined", engine="reference")
    assert tally.reported.keys() <= {"H-10", "H-11"} and tally.reported.total() == 1


@pytest.mark.parametrize("seed", range(8 if FULL else 2))
def test_random_kernels(tally: Tally, seed: int) -> None:
    for kind, source in zip(("auto", "manual"), random_kernel(seed), strict=True):
        kernel = kernel_of(source, f"{kind} {seed}")
        for grid in GRIDS:
            for target in TARGETS if kind == "auto" else TARGETS[1:]:
                kernel[grid](*arguments().values(), target=target, engine="reference")
    assert tally.launches.total() == len(GRIDS) * 5


# --- That a difference would be seen -------------------------------------------------------------------------------


@pto.kernel
def doubled(x, out):
    tile = pto.Tile("vec", "float32", 8, 8)
    pto.tload(tile, x)
    pto.tadd(tile, tile, tile)
    pto.tstore(out, tile)


@pto.kernel
def looked_up(table, index, out):
    tokens, rows = pto.Tile("vec", "int32", 1, 8), pto.Tile("vec", "float32", 8, 8)
    pto.tload(tokens, index)
    pto.mgather(rows, table, tokens, oob="undefined")
    pto.tstore(out, rows)


X = np.arange(64, dtype="float32").reshape(8, 8)


def call() -> None:
    with pto.target("a5"):
        pto.tload(pto.Tile("vec", "float32", 8, 8), pto.GlobalTensor(X.copy()))


def launch() -> None:
    doubled[1](X.copy(), np.zeros_like(X), target="a5")


def bad_index() -> None:
    with pytest.raises(pto.OutOfBoundsError):
        looked_up[1](X.copy(), np.full((1, 8), 8, "int32"), np.zeros_like(X), target="a5")


WORKS = (call, launch, bad_index)


@pytest.mark.parametrize("work", WORKS)
def test_both_are_the_same(tally: Tally, work: Callable[[], None]) -> None:
    work()
    assert tally.calls.total() + tally.launches.total() == 1
    assert dict(tally.reported) == ({"H-10": 1} if work is bad_index else {})


@pytest.mark.parametrize("work", WORKS[:2])
def test_a_value_that_differs_is_seen(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    monkeypatch.setattr(instruction.CheckedExecution, "write", lambda *_: None)
    with on_the_machine(), pytest.raises(Mismatch, match="differs in"):
        work()


@pytest.mark.parametrize("work", WORKS)
def test_an_exception_that_differs_is_seen(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    def fail(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(instruction.WatchedInstruction, "_site", fail)
    with on_the_machine(), pytest.raises(Mismatch, match="KeyError"):
        work()


def test_a_hazard_that_is_not_reported_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction.WatchedFrame, "report", lambda *_: None)
    with on_the_machine(), pytest.raises(Mismatch, match="H-10"):
        bad_index()


def test_lanes_within_the_table_are_compared_beside_a_bad_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def gather() -> None:
        with pto.target("a5"):
            index = pto.Tile("vec", "int32", 1, 8)
            index.buffer[:] = 0, 1, 2, 99, 4, 5, 6, 7
            with pytest.raises(pto.OutOfBoundsError):
                pto.mgather(pto.Tile("vec", "float32", 8, 8), pto.GlobalTensor(X.copy()), index, oob="undefined")

    with on_the_machine() as tally:
        gather()
    assert tally.passed_over == 1
    monkeypatch.setattr(instruction.CheckedExecution, "write", lambda *_: None)
    with on_the_machine(), pytest.raises(Mismatch, match="passed over"):
        gather()
