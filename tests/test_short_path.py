"""Calls of a kind that was planned pass through few functions and modules. Nothing here depends on a clock."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ptokit as pto

MOST_CALLS, MOST_MODULES = 20, 8
rng = np.random.default_rng(0)
TABLE = rng.random((300, 64), dtype=np.float32)
INDICES = rng.integers(0, 300, 64)
ROWS = rng.random((64, 64), dtype=np.float32)


def passed(call: Callable[[], object]) -> tuple[list[str], set[str]]:
    """The Python functions that a warm call enters, and their modules of ptokit."""
    for _ in range(3):
        call()
    names: list[str] = []
    modules: set[str] = set()

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)
            modules.add(str(frame.f_globals.get("__name__")))

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(before)
    return names[1:], {each for each in modules if each.startswith("ptokit.")}


def check(call: Callable[[], object], most: int = MOST_CALLS) -> None:
    names, modules = passed(call)
    assert len(names) <= most, names
    assert len(modules) <= MOST_MODULES, modules


def test_gather_and_scatter_of_arrays() -> None:
    pytest.importorskip("llvmlite")
    table, out = TABLE.copy(), np.empty_like(ROWS)
    check(lambda: pto.gather(table, INDICES))
    check(lambda: pto.gather(table, INDICES, threads=1))
    check(lambda: pto.gather(table, INDICES, out=out))
    check(lambda: pto.scatter(table, ROWS, INDICES, atomic="add"))
    check(lambda: pto.gather(table, [1, 2, 3]))


def test_new_sizes_take_no_more_functions_than_known_ones() -> None:
    pytest.importorskip("llvmlite")
    sizes = iter(range(5, 50))
    check(lambda: pto.gather(TABLE, INDICES[: next(sizes)]))
    check(lambda: pto.gather(TABLE[next(sizes) :], INDICES % 200))


def test_calls_on_the_reference_engine_are_not_planned_anew() -> None:
    _, modules = passed(lambda: pto.gather(TABLE, INDICES, engine="reference"))
    assert "ptokit.ops.direct" in modules
    assert not modules & {"ptokit.ops.execute"}


def test_torch_operators() -> None:
    pytest.importorskip("llvmlite")
    torch: Any = pytest.importorskip("torch")
    import ptokit.torch as pt

    table, indices, rows = torch.from_numpy(TABLE.copy()), torch.from_numpy(INDICES), torch.from_numpy(ROWS)
    offsets = torch.arange(0, 64, 8)
    check(lambda: pt.gather(table, indices))
    check(lambda: pt.scatter_(table, rows, indices, atomic="add"))
    check(lambda: pt.embedding_bag(indices, table, offsets, mode="sum"))


@pytest.mark.parametrize("lanes", [64, 1000])
def test_threads_that_call_at_once(lanes: int) -> None:
    """Little work is done with Python's lock and without it; blocks are not shared."""
    indices = [rng.integers(0, 300, lanes) for _ in range(8)]
    pto.gather(TABLE, indices[0])
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(200):
            if not np.array_equal(pto.gather(TABLE, indices[k], threads=1), TABLE[indices[k]]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_functions_outlive_the_caches_that_made_them() -> None:
    short = pytest.importorskip("ptokit.engine.native.whole.short")
    calls = pytest.importorskip("ptokit.engine.native.whole.moves")
    assert np.array_equal(pto.gather(TABLE, INDICES), TABLE[INDICES])
    short._method.cache_clear()
    gc.collect()
    assert np.array_equal(pto.gather(TABLE, INDICES), TABLE[INDICES])
    calls.prepare.cache_clear()
    gc.collect()
    assert np.array_equal(pto.gather(TABLE, INDICES), TABLE[INDICES])
    pto.gather(TABLE.astype(np.float64), INDICES)


def test_a_refused_index_is_found_on_every_call() -> None:
    bad = INDICES.copy()
    bad[7] = 300
    table, before = TABLE.copy(), TABLE.copy()
    for _ in range(3):
        with pytest.raises(pto.OutOfBoundsError, match=r"indices\[7\] = 300"):
            pto.gather(table, bad)
        with pytest.raises(pto.OutOfBoundsError, match=r"indices\[7\] = 300"):
            pto.scatter(table, ROWS, bad, atomic="add")
    assert np.array_equal(table, before)
