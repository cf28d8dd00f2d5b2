"""Deferred scatters: recorded while blocks run in parallel, executed afterwards in the order of the blocks.

If one scatter alone touches a table, only the order in which its rows arrive is observable, not the time. So each
thread runs neighbouring blocks and records lanes and rows in a ledger; then all threads together execute the ledgers
in the order of the blocks, by one of the `strategies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptokit.engine.llvm.emit import I32
from ptokit.engine.llvm.program.page import CAPACITY, COUNT, LANES, ROWS, Page
from ptokit.engine.llvm.resolve import PADDING, SENTINEL
from ptokit.engine.native import host
from ptokit.engine.native.whole.block import ArgumentBlock
from ptokit.engine.native.whole.mover import Rows, known_width
from ptokit.engine.native.whole.strategies import Team, pool, scatter_all
from ptokit.engine.reference import Lanes, Plan, ScatterStep
from ptokit.engine.storage import Storage
from ptokit.isa.dtype import dtype
from ptokit.isa.move import Combine

FIRST_CAPACITY = 1 << 12
"""Capacity of a new ledger, in lanes."""
MOST_KEPT = 4 << 20
"""Bytes of a ledger that stay allocated between launches; a larger one goes back to the pool."""


class Ledger:
    """One thread's lanes and rows of one scatter."""

    def __init__(self, page: Page, state: Any, slot: int) -> None:
        self.page, self._state, self._slot = page, state, slot
        self._lane = np.dtype(np.uint32 if page.lane == I32 else np.int64)
        self._first_capacity = max(1, min(FIRST_CAPACITY, MOST_KEPT // max(1, page.nbytes)))
        self._allocate(self._first_capacity)
        self.clear()

    def _allocate(self, lanes: int) -> None:
        nbytes = lanes * self.page.nbytes
        self.lanes = np.zeros(lanes + PADDING, self._lane)
        self.rows = pool.acquire(nbytes) if nbytes > MOST_KEPT else np.empty(nbytes, np.uint8)
        self._set(LANES, self.lanes.ctypes.data)
        self._set(ROWS, self.rows.ctypes.data)
        self._set(CAPACITY, lanes)

    def _set(self, which: int, number: int) -> None:
        self._state[self._slot + which] = number

    @property
    def count(self) -> int:
        """Lanes that are recorded."""
        return self._state[self._slot + COUNT]

    @property
    def nbytes(self) -> int:
        """Bytes that are recorded."""
        return self.count * (self.page.nbytes + self._lane.itemsize)

    def clear(self) -> None:
        """Drop them."""
        self._set(COUNT, 0)

    def end(self) -> None:
        """Drop them, and release much memory."""
        self.clear()
        if self.rows.size > MOST_KEPT:
            pool.release(self.rows)
            self._allocate(self._first_capacity)

    def reserve(self, nbytes: float) -> None:
        """Have memory for rows of `nbytes`."""
        self._grow(int(nbytes) // max(1, self.page.nbytes))

    def append(self, lanes: Lanes, rows: Any) -> None:
        """Record lanes and their rows."""
        values = lanes.values.ravel().astype(self._lane)
        if lanes.outside is not None:
            values[lanes.outside.ravel()] = np.array(SENTINEL).astype(self._lane)
        done, each = self.count, self.page.nbytes
        if done + values.size > self._state[self._slot + CAPACITY]:
            self._grow(2 * (done + values.size))
        self.lanes[done : done + values.size] = values
        self.rows[done * each : (done + values.size) * each] = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        self._set(COUNT, done + values.size)

    def write(self, plan: Plan, storages: Sequence[Storage], lanes: Sequence[Lanes | None]) -> None:
        """Append what a plan of one scatter would write."""
        step, found = plan.steps[0], lanes[0]
        assert isinstance(step, ScatterStep) and found is not None
        self.append(found, step.values(storages))

    def _grow(self, lanes: int) -> None:
        if lanes <= self._state[self._slot + CAPACITY]:
            return
        old_lanes, old_rows, done = self.lanes, self.rows, self.count
        self._allocate(lanes)
        self.lanes[:done] = old_lanes[:done]
        self.rows[: done * self.page.nbytes] = old_rows[: done * self.page.nbytes]
        if old_rows.size > MOST_KEPT:
            pool.release(old_rows)

    def block(self, table: Storage, team: Team) -> ArgumentBlock:
        """What is recorded, as a scatter into its table."""
        page, size = self.page, dtype(self.page.element).size
        block = ArgumentBlock(team.parts, team.stop)
        block.set(
            table=table.span.start + page.offset * size, other=self.rows.ctypes.data, lanes=self.lanes.ctypes.data,
            count=self.count, capacity=page.capacity, width=page.width, greatest=page.capacity,
            table_row=page.row * size, table_col=size, other_row=page.nbytes, other_col=size,
        )  # fmt: skip
        return block


def flush(ledgers: Sequence[Ledger], table: Storage, team: Team) -> None:
    """Execute everything that is recorded for one scatter, ledger after ledger."""
    page = ledgers[0].page
    kind, combine = dtype(page.element), Combine[page.combine]
    far = page.capacity * page.row * kind.size > host.HOST.near
    arithmetic = None if combine is Combine.STORE else kind
    rows = Rows(kind.size, page.lane, known_width(kind.size, page.width), far=far, combine=combine, dtype=arithmetic)
    blocks = [ledger.block(table, team) for ledger in ledgers if ledger.count]
    if blocks:
        scatter_all(blocks, rows, team)
    for ledger in ledgers:
        ledger.clear()
