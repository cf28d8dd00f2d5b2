"""Whole-array gathers and scatters in machine code: the same calls and the same bits as `engine.whole`, faster.

A kind of move is prepared once; addresses and sizes are arguments of a call. Its code depends on little more: whether
rows are of a common length and lie side by side, and whether the table fits the caches. Under `REFUSE` all indices are
checked before anything is written: while they are compared with few runs, or copied, if the copy is small; in a
read-only pass, and then an index that another thread makes bad afterwards is skipped; or by merged scatters, which
write to memory of their own first. A gather into a new array checks while it moves, if indices are not
copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_uint8
from dataclasses import replace
from functools import lru_cache
from struct import Struct
from typing import Any

import numpy as np

from ptokit.engine import whole as reference
from ptokit.engine.kept import remember
from ptokit.engine.llvm.compute.elements import is_float
from ptokit.engine.llvm.emit import I32, size_of
from ptokit.engine.llvm.numbers import computes
from ptokit.engine.llvm.resolve import PADDING
from ptokit.engine.native import host
from ptokit.engine.native.whole import phases, runs, strategies
from ptokit.engine.native.whole.block import CALL_WORDS, LANES_AT_ONCE, ArgumentBlock, native, put_back, take_block
from ptokit.engine.native.whole.mover import COMMON, Rows
from ptokit.engine.native.whole.phases import Indices
from ptokit.engine.native.whole.short import MOST_LANES, ShortCall
from ptokit.engine.native.whole.strategies import LONG, Native, Spread, Team, pool
from ptokit.engine.native.workers import Stop, thread_count
from ptokit.engine.runnable import Unsupported
from ptokit.engine.storage import Array, Storage, address_of
from ptokit.engine.whole import MoveKind, MoveSizes, Whole
from ptokit.isa.dtype import dtype as element_type
from ptokit.isa.move import Combine, Remap

MOST_COPIED = 32 << 20
"""Bytes of lanes that are copied before anything moves."""
CHUNK = 4 << 20
"""Lanes that a scatter takes at a time."""
MOST_PIECE, LEAST_PIECE = 1 << 20, 1 << 14
"""Bytes of a piece of a gather, at most and at least."""
READ_AT_ONCE = 1 << 17
"""Indices per piece: hardware prefetching needs long runs."""
MOST_SHORT = 4 << 20
"""Bytes of gathered rows that are moved by one call of machine code."""
AT_ONCE = 0.5
"""Of the work for which waking a thread pays, that for which a run on threads that wait actively does."""
MOST_PREPARED = 512
FLOAT32 = element_type("float32")
STEPS = ("table_row", "table_col", "other_row", "other_col")
SIZES = ("count", "width", "capacity", *STEPS, "index_step")
"""The words of `MoveSizes`."""
CALL = Struct(f"={len(CALL_WORDS)}q")
"""The words of a block that change with every call."""

Storages = Mapping[str, Storage]


class _Refused(Exception):
    """An index must be refused; nothing counts as written."""


@lru_cache(MOST_PREPARED)
def prepare(kind: MoveKind, _gpu: int | None = None) -> NativeMove:
    """A kind of move, ready for calls. Raises `Unsupported` for what has no machine code."""
    return NativeMove(kind)


def run(whole: Whole, storages: Storages, threads: int | None, strategy: str | None = None) -> None:
    """Execute a move. Raises `IndexFault` before anything is written, `Unsupported` for what has no machine code.

    What refuses an index is the reference engine, which reads the indices again: if another thread has corrected them
    meanwhile, it executes the move.
    """
    sizes = whole.sizes
    if sizes is None:
        raise Unsupported("an array whose dims do not join to even rows")
    move = prepare(whole.kind)
    table, indices, other = (storages[name].address for name, _ in whole.types)
    if sizes.lanes and not move(table, indices, other, sizes, threads, strategy):
        reference.run(whole, storages, 1)


class NativeMove:
    """A kind of move, ready for calls of all sizes."""

    def __init__(self, kind: MoveKind) -> None:
        self.kind, self.size, self.index_size = kind, kind.dtype.size, kind.index_type.size
        index, combine, wide = kind.index_type, kind.combine, kind.accumulate
        if index.size not in (2, 4, 8) or not index.is_integer:
            raise Unsupported(f"indices of {index}")
        if kind.gathers and combine is not Combine.STORE:
            raise Unsupported("a gather that does arithmetic")
        if combine is not Combine.STORE and not computes(kind.dtype):
            raise Unsupported(f"arithmetic with {kind.dtype}")
        if wide is not None and not (wide == FLOAT32 and is_float(kind.dtype) and self.size < 4):
            raise Unsupported(f"sums of {kind.dtype} in {wide}")
        self.common = frozenset(nbytes // self.size for nbytes in COMMON) | {1}
        """Widths that have code of their own."""
        self.codes: dict[tuple[Any, ...], _Code] = {}
        self.host = host.HOST

    def __call__(
        self, table: int, indices: int, other: int, sizes: MoveSizes, threads: int | None, strategy: str | None = None
    ) -> bool:
        """Execute a move of one lane or more; False if an index must be refused. `strategy` forces one."""
        count, width, capacity, table_row, table_col, other_row, other_col, step = sizes
        size, here = self.size, host.HOST
        is_far = capacity * (table_row or 1) * size > here.near
        is_even = table_row == width == other_row and table_col == other_col == step == 1 and not capacity >> 32
        code = self.codes.get((width, is_far)) if is_even and here is self.host else None
        if code is None:
            code = self.code(sizes, (width, is_far) if is_even else None)
        nbytes = width * size
        each = 5 + nbytes / 6 if is_far or nbytes > 16 else 2  # nanoseconds, roughly
        cost = count * each
        is_little = count <= code.most_lanes and count * nbytes <= code.most_bytes
        if is_little and cost <= LONG and strategy is None:
            if threads == 1 or cost <= here.wake * AT_ONCE:
                return code.short(table, indices, other, *sizes)
            if code.divides:
                parts = thread_count(threads)
                piece = piece_of(count, nbytes, parts)
                if (is_done := code.short.divided(parts, piece, table, indices, other, *sizes)) is not None:
                    return is_done
            if cost <= here.wake * code.wakes:
                return code.short(table, indices, other, *sizes)
        words = (
            table, other, indices, 0, 0, count, LANES_AT_ONCE, capacity, width,
            table_row * size, table_col * size, other_row * size, other_col * size, step * self.index_size,
        )  # fmt: skip
        team_size = 1 if threads == 1 else thread_count(threads)
        team = Team(team_size if cost > here.wake * code.wakes or strategy else 0, Stop(), is_long=cost > LONG)
        return code.run(sizes, words, team, strategy)

    def code(self, sizes: MoveSizes, short_key: tuple[Any, ...] | None = None) -> _Code:
        """The code for moves of such sizes; all is chosen anew if the facts on the processor have changed."""
        if self.host is not host.HOST:
            self.codes, self.host = {}, host.HOST
        _, width, capacity, table_row, table_col, other_row, other_col, step = sizes
        is_far = capacity * (table_row or 1) * self.size > self.host.near
        dense = width == 1 or (table_col == 1 and other_col == 1)
        known = width if dense and width in self.common else 0
        key = known, dense, is_far, known and table_row - width, known and other_row - width, step == 1, capacity >> 32
        code = self.codes.get(key) or remember(self.codes, key, self._new(is_far, known, dense, sizes), MOST_PREPARED)
        return code if short_key is None else remember(self.codes, short_key, code, MOST_PREPARED)

    def _new(self, is_far: bool, width: int, dense: bool, sizes: MoveSizes) -> _Code:
        near, there = (_known_step(step * self.size, width * self.size) for step in (sizes.table_row, sizes.other_row))
        is_narrow = sizes.capacity < 1 << 32
        index = self.kind.index_type
        outside = self.kind.remap if index.size == 8 or is_narrow else Remap.REFUSE  # no index is beyond
        indices = Indices(index, sizes.index_step == 1, outside, index.size != 8)
        lane = I32 if is_narrow else indices.lane
        rows = Rows(self.size, lane, width, dense, is_far, table_step=near, other_step=there)
        return (_GatherCode if self.kind.gathers else _ScatterCode)(self.kind, rows, indices)


def piece_of(count: int, nbytes: int, parts: int) -> int:
    """Lanes of a piece of a gather: some pieces for every thread, but not too short ones."""
    each = max(1, nbytes)
    return max(4, min(MOST_PIECE // each, max(count // (4 * parts), LEAST_PIECE // each)))


def _known_step(step: int, nbytes: int) -> int | None:
    """The distance of rows, if code is specialised for it: rows that lie side by side, or one for all lanes."""
    return step if nbytes and step in (0, nbytes) else None


class _Code:
    """The code for a kind of rows and of indices."""

    divides = False
    """Whether threads can share little work."""
    most_bytes = host.NEVER
    """Bytes of rows that are little work, at most."""
    wakes = 1
    """How many times the work for which waking threads pays is not shared."""

    def __init__(self, kind: MoveKind, rows: Rows, indices: Indices) -> None:
        self.kind, self.rows, self.indices = kind, rows, indices
        self.refuses = indices.remap is Remap.REFUSE
        self.most_lanes = 0 if kind.accumulate else MOST_LANES

    def shorten(self, begin: Native, write: Native | None) -> None:
        """Little work: the whole gather, or the check of the indices or the index stage of a scatter, and the rest."""
        size = self.rows.size
        factors = {"index_step": self.kind.index_type.size, **dict.fromkeys(STEPS, size)}
        words = [(name, factors.get(name, 1)) for name in ("table", "index", "other", *SIZES)]
        self.short = ShortCall(words, "count", begin, write, refuses=self.refuses)

    def run(self, sizes: MoveSizes, words: tuple[int, ...], team: Team, strategy: str | None) -> bool:
        """Execute a call with more work; False if an index must be refused."""
        block = take_block(team.parts, team.stop)
        block.set(first=0)
        CALL.pack_into(block.words, 0, *words)
        try:
            self.move(sizes, team, block, strategy)
        except _Refused:
            return False
        finally:
            put_back(block)
        return True

    def move(self, sizes: MoveSizes, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        """Execute the move that a block describes. Raises `_Refused`."""
        raise NotImplementedError

    def check(self, block: ArgumentBlock) -> None:
        """Raise `_Refused` if an index was outside that must not be."""
        if self.refuses and not block.is_whole:
            raise _Refused

    def raw(self, sizes: MoveSizes, address: int) -> Array:
        """The index values at an address, as an array."""
        kind, step = self.indices.dtype, sizes.index_step * self.indices.dtype.size
        memory: Any = (c_uint8 * ((sizes.lanes - 1) * step + kind.size)).from_address(address)
        return np.ndarray((sizes.lanes,), kind.bits, memory, 0, (step,))

    def resolve(self, team: Team, block: ArgumentBlock, *, keep: bool, indices: Indices) -> None:
        """Read the block's lanes from the indices."""
        is_narrow = self.rows.lane == I32 and indices.lane != I32
        block.set(piece=READ_AT_ONCE)
        is_short = block.get("count") <= READ_AT_ONCE
        team.do(native(phases.resolve, indices, is_narrow, keep), block, is_short=is_short)


class _GatherCode(_Code):
    """The code of gathers."""

    divides = True

    def __init__(self, kind: MoveKind, rows: Rows, indices: Indices) -> None:
        is_element = rows.width == 1 and rows.size in (4, 8)
        is_even = is_element and rows.table_step == rows.other_step == rows.size
        super().__init__(kind, replace(rows, together=is_even and host.HOST.gathers), indices)
        self.skips = indices.remap is Remap.SKIP
        self.straight = replace(self.rows, lane=indices.lane)
        self.late = replace(indices, remap=Remap.ZERO, noted=True) if self.refuses else indices
        """What is refused is only known at the end."""
        self.most_bytes = MOST_SHORT
        if rows.width != 1:
            self.most_lanes = MOST_SHORT  # they need no memory
        near = replace(self.straight, far=rows.far and strategies.fetches(rows, "gather"))
        if self.refuses and not kind.fresh:
            move = native(phases.gather, near, replace(self.late, noted=False))
            self.shorten(native(phases.resolve, indices, False, False), move)
        else:
            self.shorten(native(phases.gather, near, self.late), None)
        self.codes: dict[tuple[Indices, bool, bool], Native] = {}
        """By the indices, whether rows are far from each other, and whether they are written past the caches."""

    def move(self, sizes: MoveSizes, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        copied = (sizes.lanes + PADDING) * size_of(self.rows.lane)
        if sizes.width == 1 and not self.skips and runs.gather(block, self.straight, self.indices, team):
            return
        if self.refuses and host.HOST.copies and copied <= MOST_COPIED:
            self._copied(sizes, team, block, copied)
        elif self.refuses and not self.kind.fresh:
            self.resolve(team, block, keep=False, indices=self.indices)
            self.check(block)
            self._straight(sizes, team, block, replace(self.late, noted=False))
        else:
            self._straight(sizes, team, block, self.late)
            self.check(block)

    def _straight(self, sizes: MoveSizes, team: Team, block: ArgumentBlock, indices: Indices) -> None:
        """Gather without a copy of the lanes."""
        nbytes = sizes.width * self.rows.size
        block.set(piece=piece_of(sizes.lanes, nbytes, team.parts))
        far = self.rows.far and not (team.threads and strategies.is_near(self.raw(sizes, block.get("index")), nbytes))
        streams = strategies.streams(block, self.rows)
        code = self.codes.get((indices, far, streams))
        if code is None:
            rows = strategies.gathering(block, replace(self.straight, far=far))
            code = self.codes[indices, far, streams] = native(phases.gather, rows, indices)
        team.do(code, block)

    def _copied(self, sizes: MoveSizes, team: Team, block: ArgumentBlock, nbytes: int) -> None:
        """Gather from a copy of the indices, which were checked when they were copied."""
        lanes = pool.acquire(nbytes)
        block.set(lanes=address_of(lanes))
        self.resolve(team, block, keep=True, indices=self.indices)
        self.check(block)
        block.set(piece=piece_of(sizes.lanes, sizes.width * self.rows.size, team.parts))
        strategies.gather(block, self.rows, team)
        pool.release(lanes)


class _ScatterCode(_Code):
    """The code of scatters."""

    wakes = 10  # a sample, and several phases

    def __init__(self, kind: MoveKind, rows: Rows, indices: Indices) -> None:
        if kind.combine is not Combine.STORE:
            rows = replace(rows, combine=kind.combine, dtype=kind.dtype)
        super().__init__(kind, rows, indices)
        self.sums = kind.accumulate is not None
        write = native(phases.scatter, replace(rows, far=rows.far and strategies.fetches(rows)))
        self.shorten(native(phases.resolve, indices, rows.lane != indices.lane, True), write)

    def move(self, sizes: MoveSizes, team: Team, block: ArgumentBlock, strategy: str | None) -> None:
        rows, count = self.rows, sizes.lanes
        if self.sums or strategy in strategies.STRATEGIES:
            self._chunks(count, team, block, strategy, None)
            return
        if strategy != "merged" and sizes.width == 1 and runs.scatter(block, rows, self.indices, team):
            return
        spread = strategies.sampled(self.raw(sizes, block.get("index")), sizes.capacity, team.parts)
        given = rows, count, sizes.capacity, team.parts, spread
        merges = strategy == "merged" or (strategy is None and strategies.merges(*given))
        if not (merges and strategies.merged(block, rows, self.indices, team, spread)):
            self._chunks(count, team, block, None, spread if self.refuses else None)

    def _chunks(
        self, count: int, team: Team, block: ArgumentBlock, strategy: str | None, spread: Spread | None
    ) -> None:
        """Chunks of lanes, one after the other; all of them are read first where they must be checked and fit."""
        each, refuses = size_of(self.rows.lane), self.refuses
        fits = (count + PADDING) * each <= MOST_COPIED
        at_once = count if fits and (refuses or self.sums) else min(CHUNK, count)
        indices = self.indices
        if refuses and at_once < count:
            self.resolve(team, block, keep=False, indices=indices)
            self.check(block)
            indices = replace(indices, remap=Remap.SKIP)
        if self.sums and at_once < count:
            strategies.sum_up(block, replace(self.rows, lane=indices.lane), team, indices)
            return
        memory = pool.acquire((at_once + PADDING) * each)
        other, other_row = block.get("other"), block.get("other_row")
        for start in range(0, count, at_once):
            found = min(at_once, count - start)
            block.set(lanes=address_of(memory), first=start, count=found, greatest=0)
            self.resolve(team, block, keep=True, indices=indices)
            if indices.remap is Remap.REFUSE:
                self.check(block)
            if self.sums:
                strategies.sum_up(block, self.rows, team, None)
                found = 0
            for part in range(0, found, CHUNK):
                there, lanes = other + (start + part) * other_row, address_of(memory) + part * each
                block.set(lanes=lanes, other=there, count=min(CHUNK, found - part))
                strategies.scatter(block, self.rows, team, strategy, spread)
        pool.release(memory)
