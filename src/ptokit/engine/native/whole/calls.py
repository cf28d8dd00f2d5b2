"""Whole-array gathers and scatters in machine code: the same calls and the same bits as `engine.whole`, faster.

A call is prepared once for each `Whole`; what is left for the call itself are three addresses. Under `REFUSE` all
indices are checked before anything is written: while they are compared with few runs, or copied, if the copy is small;
in a read-only pass, and then an index that another thread makes bad afterwards is skipped; or by merged and divided
scatters, which write to memory of their own first. A gather into a new array checks while it moves, if indices are not
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_uint8
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Any

import numpy as np

from ptokit.engine import whole as reference
from ptokit.engine.kept import remember
from ptokit.engine.llvm.compute.elements import is_float
from ptokit.engine.llvm.emit import I32, size_of
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.native import host
from ptokit.engine.native.whole import regular, strategies
from ptokit.engine.native.whole.block import LANES_AT_ONCE, PADDING, ArgumentBlock
from ptokit.engine.native.whole.mover import Rows, known_width
from ptokit.engine.native.whole.phases import Indices
from ptokit.engine.native.whole.strategies import LONG, Native, Spread, Team, native, pool
from ptokit.engine.native.workers import Stop, thread_count
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Array, Storage, address_of
from ptokit.engine.whole import Whole
from ptokit.isa.dtype import dtype as element_type
from ptokit.isa.layout import Layout
from ptokit.isa.move import Combine, Remap, Side

MOST_COPIED = 32 << 20
"""Bytes of lanes that are copied before anything moves."""
CHUNK = 4 << 20
"""Lanes that a scatter takes at a time."""
MOST_PIECE, LEAST_PIECE = 1 << 20, 1 << 14
"""Bytes of a piece of a gather, at most and at least."""
READ_AT_ONCE = 1 << 17
"""Indices per piece: hardware prefetching needs long runs."""
MOST_PREPARED = 512
MOST_IDLE, MOST_WORKERS = 4, 128
"""Cached blocks, and the workers that such a block has memory for."""
FLOAT32 = element_type("float32")
FIRST = Struct("=5q")
"""The words of a block that change with every call."""

Storages = Mapping[str, Storage]


class _Refused(Exception):
    """An index must be refused; nothing counts as written."""


_prepared: dict[int, _Gather | _Scatter] = {}
_idle: list[ArgumentBlock] = []
"""Cached blocks for much work, of any move."""


def run(whole: Whole, storages: Storages, threads: int | None) -> None:
    """Execute a move. Raises `IndexFault` before anything is written, `Unsupported` for what has no machine code."""
    ready = _prepared.get(id(whole))
    if ready is None or ready.whole is not whole:
        ready = (_Gather if whole.index.side is Side.SRC else _Scatter)(whole)
        remember(_prepared, id(whole), ready, MOST_PREPARED)
    if ready.count:
        ready.run(storages, 1 if threads == 1 else thread_count(threads))


def repeated(whole: Whole, threads: int | None) -> Callable[[int, int, int], bool] | None:
    """A move that was executed before, to be called with the addresses of the table, the indices and the other
    operand; None for other moves. It returns False if an index must be refused, and then nothing counts as written."""
    ready = _prepared.get(id(whole))
    if ready is None or ready.whole is not whole or not ready.count:
        return None
    if ready.is_small:
        return ready.run_small
    if threads == 1:
        return partial(ready.run_at, threads=1)
    return lambda table, indices, other: ready.run_at(table, indices, other, thread_count(threads))


def forget() -> None:
    """Prepare all calls anew: what is known about the processor has changed."""
    _prepared.clear()


class _Ready:
    """What gathers and scatters share: numbers of the move, its kinds of rows and indices, cached blocks."""

    begin: Native
    """For little work: the whole gather, or the index stage of a scatter."""
    write: Native | None = None
    """The scatter of resolved lanes."""

    def __init__(self, whole: Whole) -> None:
        self.whole, self.types = whole, dict(whole.types)
        index, (self.count, self.width) = whole.index, whole.move.shape
        self.capacity, self.size = index.capacity, self.types["table"].size
        ends = {end.operand: _strides(end.layout) for end in (whole.src, whole.move.dst)}
        table_row, table_col = ends.pop("table")
        ((self.other, (other_row, other_col)),) = ends.items()
        step = _strides(index.access.layout)[0]
        kind = self.types["indices"]
        if kind.size not in (2, 4, 8) or not kind.is_integer:
            raise Unsupported(f"indices of {kind}")
        outside = index.remap if kind.size == 8 or self.capacity < 1 << 32 else Remap.REFUSE  # no index is beyond
        self.indices = Indices(kind, step == 1, outside, index.cast)
        self.refuses = outside is Remap.REFUSE
        self.lane = I32 if self.capacity < 1 << 32 else self.indices.lane
        dense = self.width == 1 or (table_col, other_col) == (1, 1)
        far = self.capacity * max(1, table_row) * self.size > host.HOST.near
        width = known_width(self.size, self.width) if dense else 0
        near, there = (_known_step(step * self.size, width * self.size) for step in (table_row, other_row))
        self.rows = Rows(self.size, self.lane, width, dense, far, table_step=near, other_step=there)
        self.words = {
            "count": self.count, "capacity": self.capacity, "width": self.width, "piece": LANES_AT_ONCE,
            "table_row": table_row * self.size, "table_col": table_col * self.size,
            "other_row": other_row * self.size, "other_col": other_col * self.size,
            "index_step": step * kind.size,
        }  # fmt: skip
        nbytes = self.width * self.size
        self.cost = self.count * (5 + nbytes / 6) if far or nbytes > 16 else self.count * 2
        """Nanoseconds, roughly."""
        self.spare: list[ArgumentBlock] = []
        """Cached blocks for little work."""

    def run(self, storages: Storages, threads: int, strategy: str | None = None) -> None:
        """Execute the move; `strategy` forces one.

        What refuses an index is the reference engine, which reads the indices again: if another thread has corrected
        them meanwhile, it executes the move.
        """
        table, indices, other = (storages[name].address for name in ("table", "indices", self.other))
        if not self.run_at(table, indices, other, threads, strategy):
            reference.run(self.whole, storages, 1)

    def run_at(self, table: int, indices: int, other: int, threads: int, strategy: str | None = None) -> bool:
        """Execute the move at these addresses; False if an index must be refused."""
        if self.is_small and strategy is None:
            return self.run_small(table, indices, other)
        is_shared = self.cost > host.HOST.wake or strategy
        team = Team(threads if is_shared else 0, Stop(), is_long=self.cost > LONG)
        block = self.block(team)
        FIRST.pack_into(block.words, 0, table, other, indices, 0, 0)
        try:
            self.move(team, block, strategy)
        except _Refused:
            return False
        finally:
            self.put_back(block)
        return True

    def move(self, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        """Execute the move that a block describes. Raises `_Refused`."""
        raise NotImplementedError

    def block(self, team: Team) -> ArgumentBlock:
        """A block for a call, with memory for each worker; it goes back with `put_back`."""
        try:
            block = _idle.pop()
        except IndexError:
            block = None
        if block is None or block.most_workers < team.parts:
            block = ArgumentBlock(team.parts, team.stop)
        block.stop = team.stop
        block.set(**self.words, stop=team.stop.address, first=0)
        return block

    def put_back(self, block: ArgumentBlock) -> None:
        """Cache a block, unless it is large or enough are cached."""
        block.clear()
        if block.most_workers <= MOST_WORKERS and len(_idle) < MOST_IDLE:
            _idle.append(block)

    @property
    def is_small(self) -> bool:
        """Whether there is little work."""
        return self.count <= LANES_AT_ONCE and self.cost <= host.HOST.wake and not self.whole.accumulate

    def run_small(self, table: int, indices: int, other: int) -> bool:
        """Little work, on the calling thread; False if an index must be refused."""
        try:
            block = self.spare.pop()
        except IndexError:
            block = ArgumentBlock(1, Stop(), **self.words)
        FIRST.pack_into(block.words, 0, table, other, indices, 0, 0)
        self.begin(block.address, 0)
        is_done = not self.refuses or block.is_whole
        if self.write is not None and is_done:
            strategies.direct(block, self.write)
        self.spare.append(block)
        return is_done

    def check(self, block: ArgumentBlock) -> None:
        """Raise `_Refused` if an index was outside that must not be."""
        if self.refuses and not block.is_whole:
            raise _Refused

    def raw(self, address: int) -> Array:
        """The index values at an address, as an array."""
        kind, step = self.types["indices"], self.words["index_step"]
        memory: Any = (c_uint8 * ((self.count - 1) * step + kind.size)).from_address(address)
        return np.ndarray((self.count,), kind.bits, memory, 0, (step,))

    def resolve(self, team: Team, block: ArgumentBlock, *, keep: bool, indices: Indices) -> None:
        """Read the block's lanes from the indices."""
        is_narrow = self.lane == I32 and indices.lane != I32
        block.set(piece=READ_AT_ONCE)
        is_short = block.get("count") <= READ_AT_ONCE
        team.do(native("resolve", indices, is_narrow, keep), block, is_short=is_short)


def _known_step(step: int, nbytes: int) -> int | None:
    """The distance of rows, if code is specialised for it: rows that lie side by side, or one for all lanes."""
    return step if nbytes and step in (0, nbytes) else None


def _strides(layout: Layout) -> tuple[int, int]:
    found = layout.strides
    if found is None:
        raise Unsupported("an array whose dims do not join to even rows")
    return found


class _Gather(_Ready):
    """A gather, ready for calls."""

    def __init__(self, whole: Whole) -> None:
        super().__init__(whole)
        self.skips = self.indices.remap is Remap.SKIP
        if whole.move.combine is not Combine.STORE:
            raise Unsupported("a gather that does arithmetic")
        is_element = self.width == 1 and self.size in (4, 8) and self.rows.table_step == self.size
        is_even = is_element and self.words["other_row"] == self.size
        self.rows = replace(self.rows, together=is_even and host.HOST.gathers)
        far = self.rows.far and strategies.fetches(self.rows, "gather")
        self.straight = replace(self.rows, lane=self.indices.lane)
        self.late = replace(self.indices, remap=Remap.ZERO, noted=True) if self.refuses else self.indices
        """What is refused is only known at the end."""
        self.copied = (self.count + PADDING) * size_of(self.lane)
        """Bytes of a copy of the indices."""
        self.begin = native("gather", replace(self.straight, far=far), self.indices)
        self.codes: dict[tuple[Indices, bool], Native] = {}
        """By the indices, and whether rows are far from each other."""

    def move(self, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        if self.width == 1 and not self.skips and regular.gather(block, self.straight, self.indices, team):
            return
        if self.refuses and host.HOST.copies and self.copied <= MOST_COPIED:
            self._copied(team, block)
        elif self.refuses and not self.whole.fresh:
            self.resolve(team, block, keep=False, indices=self.indices)
            self.check(block)
            self._straight(team, block, replace(self.late, noted=False))
        else:
            self._straight(team, block, self.late)
            self.check(block)

    def _straight(self, team: Team, block: ArgumentBlock, indices: Indices) -> None:
        """Gather without a copy of the lanes."""
        block.set(piece=self._piece(team))
        far = self.rows.far and not (
            team.threads and strategies.is_near(self.raw(block.get("index")), self.width * self.size)
        )
        code = self.codes.get((indices, far))
        if code is None:
            rows = strategies.gathering(block, replace(self.straight, far=far))
            code = self.codes[indices, far] = native("gather", rows, indices)
        team.do(code, block)

    def _piece(self, team: Team) -> int:
        """Lanes per piece: some for every thread, but not too few."""
        nbytes = max(1, self.width * self.size)
        return max(4, min(MOST_PIECE // nbytes, max(self.count // (4 * team.parts), LEAST_PIECE // nbytes)))

    def _copied(self, team: Team, block: ArgumentBlock) -> None:
        """Gather from a copy of the indices, which were checked when they were copied."""
        lanes = pool.acquire(self.copied)
        block.set(lanes=address_of(lanes))
        self.resolve(team, block, keep=True, indices=self.indices)
        self.check(block)
        block.set(piece=self._piece(team))
        strategies.gather(block, self.rows, team)
        pool.release(lanes)


class _Scatter(_Ready):
    """A scatter, ready for calls."""

    def __init__(self, whole: Whole) -> None:
        super().__init__(whole)
        dtype, combine = self.types["table"], whole.move.combine
        if combine is not Combine.STORE:
            if not computes(dtype):
                raise Unsupported(f"arithmetic with {dtype}")
            self.rows = replace(self.rows, combine=combine, dtype=dtype)
        self.sums = whole.accumulate is not None
        if self.sums and not (whole.accumulate == FLOAT32 and is_float(dtype) and dtype.size < 4):
            raise Unsupported(f"sums of {dtype} in {whole.accumulate}")
        self.write = native("scatter", replace(self.rows, far=self.rows.far and strategies.fetches(self.rows)))
        self.begin = native("resolve", self.indices, self.lane != self.indices.lane, True)

    def move(self, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        if strategy is None and not self.sums and self.runs(team, block):
            return
        resolved = strategy if strategy in strategies.STRATEGIES else None
        spread = None
        if not (resolved or self.sums):
            spread = strategies.sampled([self.raw(block.get("index"))], self.capacity, team.parts)
        if spread is None or not self._unresolved(team, block, spread, strategy):
            self._chunks(team, block, resolved, spread if self.refuses else None)

    def _unresolved(self, team: Team, block: ArgumentBlock, spread: Spread, strategy: str | None) -> bool:
        """Scatter without a copy of the lanes, if that takes less time or is forced; whether that was done."""
        given = self.rows, self.indices, self.count, self.capacity, self.width, team.parts, spread
        taken = (strategy,) if strategy else strategies.unresolved(*given)
        return any(UNRESOLVED[each](self, team, block, spread) for each in taken)

    def runs(self, team: Team, block: ArgumentBlock, _spread: Spread | None = None) -> bool:
        """Lanes in few arithmetic progressions; False if they are not, or if two may name one row."""
        return self.width == 1 and regular.scatter(block, self.rows, self.indices, team)

    def merged(self, team: Team, block: ArgumentBlock, spread: Spread) -> bool:
        """Slices of the lanes to memory of each thread's own, merged; False if the sample misses some."""
        return strategies.merged(block, self.rows, self.indices, team, spread)

    def straight(self, team: Team, block: ArgumentBlock, spread: Spread) -> bool:
        """All lanes in order on one thread."""
        indices = self.indices
        if self.refuses:
            self.resolve(team, block, keep=False, indices=indices)
            self.check(block)
            indices = replace(indices, remap=Remap.SKIP)
        team.do(strategies.straight(block, self.rows, indices, spread), block, parts=1)
        return True

    def divided(self, team: Team, block: ArgumentBlock, spread: Spread) -> bool:
        """Chunks of lanes, each divided among parts of the table first."""
        indices, other = self.indices, block.get("other")
        if self.refuses and self.count > CHUNK:
            self.resolve(team, block, keep=False, indices=indices)
            self.check(block)
            indices = replace(indices, remap=Remap.SKIP)
        for start in range(0, self.count, CHUNK):
            there = other + start * self.words["other_row"]
            block.set(first=start, other=there, count=min(CHUNK, self.count - start), greatest=0)
            if not strategies.divided(block, self.rows, indices, team, spread):
                raise _Refused
        return True

    def _chunks(self, team: Team, block: ArgumentBlock, strategy: str | None, spread: Spread | None) -> None:
        """Chunks of lanes, one after the other; all of them are read first where they must be checked and fit."""
        each, refuses = size_of(self.lane), self.refuses
        fits = (self.count + PADDING) * each <= MOST_COPIED
        at_once = self.count if fits and (refuses or self.sums) else min(CHUNK, self.count)
        indices = self.indices
        if refuses and at_once < self.count:
            self.resolve(team, block, keep=False, indices=indices)
            self.check(block)
            indices = replace(indices, remap=Remap.SKIP)
        if self.sums and at_once < self.count:
            strategies.sum_up(block, replace(self.rows, lane=indices.lane), team, indices)
            return
        memory = pool.acquire((at_once + PADDING) * each)
        other = block.get("other")
        for start in range(0, self.count, at_once):
            found = min(at_once, self.count - start)
            block.set(lanes=address_of(memory), first=start, count=found, greatest=0)
            self.resolve(team, block, keep=True, indices=indices)
            if indices.remap is Remap.REFUSE:
                self.check(block)
            if self.sums:
                strategies.sum_up(block, self.rows, team, None)
                found = 0
            for part in range(0, found, CHUNK):
                block.set(
                    lanes=address_of(memory) + part * each,
                    other=other + (start + part) * self.words["other_row"],
                    count=min(CHUNK, found - part),
                )
                strategies.scatter(block, self.rows, team, strategy, spread)
        pool.release(memory)


UNRESOLVED = {
    "runs": _Scatter.runs,
    "merged": _Scatter.merged,
    "divided": _Scatter.divided,
    "straight": _Scatter.straight,
}
"""Strategies that read the indices themselves, beside `strategies.STRATEGIES`."""
