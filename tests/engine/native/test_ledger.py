"""Deferred scatters: what a ledger records, how it grows, and what is executed from it, against a naive loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ptokit as pto
from ptokit.engine.llvm.emit import I32, I64
from ptokit.engine.llvm.program.page import Page, candidates, page
from ptokit.engine.llvm.program.slots import Slots
from ptokit.engine.llvm.program.variant import trace
from ptokit.engine.native.program.ledger import FIRST_CAPACITY, MOST_KEPT, Ledger, flush
from ptokit.engine.native.whole.strategies import Team
from ptokit.engine.native.workers import Stop
from ptokit.engine.reference import Lanes
from ptokit.engine.storage import Storage
from ptokit.lang.launch import mode_of
from ptokit.program.expr import BLOCK_IDX, BLOCK_NUM, Var

LANES, ROWS, COUNT, CAPACITY = range(4)
SLOT = 3
"""Where a ledger's slots begin in the state of these tests."""
PAGE = Page(0, "out", offset=0, capacity=50, row=4, width=4, element="int32", combine="STORE", lane=I32)


def ledger_of(page: Page) -> tuple[Ledger, list[int]]:
    state = [-1] * (SLOT + 5)
    return Ledger(page, state, SLOT), state


def rows_of(count: int, width: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-99, 99, (count, width)).astype("int32")


def recorded(ledger: Ledger) -> tuple[list[int], list[list[int]]]:
    """The lanes and rows that a ledger holds."""
    count, width = ledger.count, ledger.page.width
    rows = ledger.rows[: count * 4 * width].view("int32").reshape(count, width)
    return ledger.lanes[:count].tolist(), rows.tolist()


@pytest.mark.parametrize("lane", [I32, I64])
@pytest.mark.parametrize("width", [1, 4, 31])
def test_a_ledger_holds_what_was_appended(lane: str, width: int) -> None:
    ledger, state = ledger_of(replace(PAGE, lane=lane, width=width))
    lanes: list[int] = []
    rows: list[list[int]] = []
    for turn, count in enumerate((3, 1, FIRST_CAPACITY - 4, 1, 5000, 0, 20_000)):
        values = np.random.default_rng(turn).integers(0, 50, count)
        data = rows_of(count, width, turn)
        ledger.append(Lanes(values), data)
        lanes += values.tolist()
        rows += data.tolist()
        assert recorded(ledger) == (lanes, rows)
        assert state[SLOT + COUNT] == len(lanes) <= state[SLOT + CAPACITY]
        assert state[SLOT + LANES] == ledger.lanes.ctypes.data and state[SLOT + ROWS] == ledger.rows.ctypes.data
        assert ledger.lanes.size >= state[SLOT + CAPACITY] and ledger.rows.size >= state[SLOT + CAPACITY] * 4 * width
        assert ledger.nbytes == len(lanes) * (4 * width + (4 if lane == I32 else 8))
    assert state[:SLOT] == [-1] * SLOT and state[SLOT + 4 :] == [-1]


def test_reserved_memory_keeps_what_is_there() -> None:
    ledger, state = ledger_of(PAGE)
    ledger.append(Lanes(np.arange(7)), rows_of(7, 4))
    before = recorded(ledger)
    for nbytes in (10, 16 * FIRST_CAPACITY, 16 * (FIRST_CAPACITY + 1), 3e6):
        ledger.reserve(nbytes)
        assert recorded(ledger) == before
        assert state[SLOT + CAPACITY] == max(FIRST_CAPACITY, int(nbytes) // 16)
    ledger.clear()
    assert ledger.count == ledger.nbytes == 0


def test_much_memory_is_given_back_at_the_end() -> None:
    ledger, state = ledger_of(PAGE)
    ledger.reserve(2 * MOST_KEPT)
    ledger.end()
    assert (state[SLOT + CAPACITY], ledger.rows.size, ledger.count) == (FIRST_CAPACITY, FIRST_CAPACITY * 16, 0)
    wide, state = ledger_of(replace(PAGE, width=MOST_KEPT))
    assert (state[SLOT + CAPACITY], wide.rows.size) == (1, 4 * MOST_KEPT)


def test_lanes_outside_move_nothing() -> None:
    ledger, _ = ledger_of(PAGE)
    outside = np.array([False, True, False, True])
    ledger.append(Lanes(np.array([5, 6, 7, 8]), outside), rows_of(4, 4))
    table = Storage(np.zeros(200, "uint32"), pto.dtype("int32"))
    flush([ledger], table, Team(1, Stop()))
    expected = np.zeros((50, 4), "int32")
    expected[[5, 7]] = rows_of(4, 4)[[0, 2]]
    assert (table.bits.view("int32").reshape(50, 4) == expected).all()


@pytest.mark.parametrize(("row", "width", "offset"), [(4, 4, 0), (4, 4, 8), (9, 4, 3), (1, 1, 5), (16, 3, 1)])
@pytest.mark.parametrize(("combine", "lane"), list(product(("STORE", "ADD", "MAX"), (I32, I64))))
def test_ledgers_take_effect_one_after_the_other(combine: str, lane: str, row: int, width: int, offset: int) -> None:
    page = replace(PAGE, row=row, width=width, offset=offset, combine=combine, lane=lane)
    table = Storage(np.zeros(offset + 50 * row + 2, "uint32"), pto.dtype("int32"))
    table.bits[:] = 7
    expected = table.bits.view("int32").copy()
    do = {"STORE": lambda _, new: new, "ADD": lambda old, new: old + new, "MAX": max}[combine]
    for _ in range(2):
        ledgers = [ledger_of(page)[0] for _ in range(3)]
        for k, ledger in enumerate(ledgers):
            count = (300, 0, 45)[k]
            lanes, rows = np.random.default_rng(k).integers(0, 50, count), rows_of(count, width, k + 9)
            ledger.append(Lanes(lanes), rows)
            for lane_at, data in zip(lanes, rows, strict=True):
                for j, value in enumerate(data):
                    at = offset + lane_at * row + j
                    expected[at] = do(expected[at], value)
        flush(ledgers, table, Team(2, Stop()))
        assert (table.bits.view("int32") == expected).all()
        assert [ledger.count for ledger in ledgers] == [0, 0, 0]


# --- Which scatters are deferred -------------------------------------------------------------------------------


@pto.kernel
def rows(out, src, idx, n):
    data, ids = pto.Tile("vec", "float32", 8, 16, valid=(n, 16)), pto.Tile("vec", "int32", 1, 8, valid=(1, n))
    pto.tload(data, src[0:n])
    pto.tload(ids, idx[0:1, 0:n])
    pto.mscatter(out, data, ids, coalesce="row", atomic="add", oob="skip")


@pto.kernel
def part(out, src, idx, n):
    data, ids = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    pto.tload(data, src[0:8])
    pto.tload(ids, idx[0:1, 0:8])
    pto.mscatter(out[5:30], data, ids, coalesce="row")


@pto.kernel
def cells(out, src, idx, n):
    data, ids = pto.Tile("vec", "float32", 1, 8), pto.Tile("vec", "int32", 1, 8)
    pto.tload(data, src[0:1, 0:8])
    pto.tload(ids, idx[0:1, 0:8])
    pto.mscatter(out, data, ids, coalesce="elem", atomic="max")


@pto.kernel
def at_a_number(out, src, idx, n):
    data, ids = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    pto.tload(data, src[0:8])
    pto.tload(ids, idx[0:1, 0:8])
    pto.mscatter(out[n : n + 8], data, ids, coalesce="row")


@pto.kernel
def read_too(out, src, idx, n):
    data, ids = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    pto.tload(data, out[0:8])
    pto.tload(ids, idx[0:1, 0:8])
    pto.mscatter(out, data, ids, coalesce="row")


@pto.kernel
def by_column(out, src, idx, n):
    """Neighbours of a row lie apart in the table."""
    data, ids = pto.Tile("vec", "float32", 8, 16), pto.Tile("vec", "int32", 1, 8)
    pto.tload(data, src[0:8])
    pto.tload(ids, idx[0:1, 0:8])
    pto.mscatter(out[:, 0:16], data, ids, coalesce="row")


@pto.kernel
def stored(out, src, idx, n):
    data = pto.Tile("vec", "float32", 8, 16)
    pto.tload(data, src[0:8])
    pto.tstore(out[0:8], data)


def pages(kernel: Any, out: Any = None, target: str = "host") -> list[Page | None]:
    mode = mode_of(target)
    given = {
        "out": np.zeros((40, 16), "float32") if out is None else out, "src": np.zeros((8, 16), "float32"),
        "idx": np.zeros((1, 8), "int32"), "n": 5,
    }  # fmt: skip
    program = kernel.trace(kernel.bind((), given), mode).program
    slots, values = Slots(program), {BLOCK_IDX: 0, BLOCK_NUM: 1, Var("n"): 5}
    found = []
    for number in candidates(program, slots):
        variant = trace(program, slots.statements[number], mode.profile, mode.options, values, {})
        found.append(page(program, slots, number, [variant] if variant else []))
    return found


def test_scatters_that_are_deferred() -> None:
    (found,) = pages(rows)
    assert found is not None
    assert (found.array, found.offset, found.capacity, found.row, found.width) == ("out", 0, 40, 16, 16)
    assert (found.element, found.combine, found.lane, found.nbytes) == ("float32", "ADD", I32, 64)
    (found,) = pages(part)
    assert found is not None
    assert (found.offset, found.capacity, found.row, found.width, found.combine) == (80, 25, 16, 16, "STORE")
    (found,) = pages(cells)
    assert found is not None
    assert (found.capacity, found.row, found.width, found.combine, found.nbytes) == (640, 1, 1, "MAX", 4)
    wider = np.zeros((40, 24), "float32")[:, :16]
    (found,) = pages(rows, wider)
    assert found is not None
    assert (found.capacity, found.row, found.width) == (40, 24, 16)


def test_scatters_that_are_not() -> None:
    assert pages(at_a_number) == pages(read_too) == []
    assert pages(stored) == [None]
    assert pages(by_column, np.zeros((16, 40), "float32").T) in ([], [None])
