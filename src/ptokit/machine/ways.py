"""Accesses to global memory: which pipe makes them for an instruction, and what they move.

There are three kinds. The lanes of a warp (pipe V of a target with SIMT) touch whole segments of 128 bytes, shared by
the lanes that fall into one (MG-COST-07). A burst of a DMA pipe moves whole chunks of 32 bytes (A-67). The scalar pipe
uses the data cache in lines of 64 bytes; a line is cached while an instruction runs. Arrays of a launch are assumed to
start at a multiple of each. Cost overrides change the sizes of segments and lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.kept import remember
from ptokit.engine.reference import CopyStep, IndexedStep, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Region, address_of
from ptokit.finding import Where
from ptokit.isa.instruction import Call
from ptokit.isa.kernel import Effect, LaunchShape
from ptokit.isa.layout import Layout
from ptokit.isa.operand import OperandSpec, TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout, TileType
from ptokit.machine.costs import CHUNK, LANES, Grains, chunks
from ptokit.machine.site import Executed
from ptokit.program.instr_calls import effects
from ptokit.target import GM_ACCESS

MOST_CACHED = 4096
"""Rows and regions whose counts are cached."""


class Count(NamedTuple):
    """What one or several accesses moved."""

    transactions: int = 0
    bursts: int = 0
    scalar: int = 0
    moved: int = 0
    used: int = 0
    misaligned: int = 0


NOTHING = Count()


@dataclass(frozen=True, eq=False)
class GlobalAccess:
    """One end of a step of a plan that is in global memory, and how a pipe accesses it."""

    moves: Callable[[GlobalAccess, Executed], Count]
    """How the pipe moves bytes."""
    grains: Grains
    at: int
    """The step's place in the plan."""
    step: PlanStep
    slot: int
    size: int
    region: Region | None
    """What is accessed; None if an index selects it."""
    is_data: bool
    tile: tuple[TileSpec, Region] | None
    """The other end, if it is a tile."""
    threads: Array | None
    """The thread of every lane; None if it is the number of the lane."""
    bursts: int
    """Bursts for every row."""

    @property
    def is_indexed(self) -> bool:
        """Whether an index selects the addresses."""
        return self.region is None

    @cached_property
    def whole(self) -> Count:
        """What bursts move when no lane is outside."""
        rows, cols = self.step.shape
        return _bursts(self, np.arange(rows if self.by_row else rows * cols))

    @property
    def by_row(self) -> bool:
        """Whether an index names a whole row."""
        return isinstance(self.step, IndexedStep) and self.step.by_row

    def start(self, executed: Executed) -> int:
        """Where the operand starts in its array, in bytes."""
        storage = executed.storages[self.slot]
        return storage.address - address_of(storage.owner)

    def used(self, count: int) -> int:
        """Bytes of data in `count` elements."""
        return count * self.size if self.is_data else 0

    def addresses(self, executed: Executed) -> Array:
        """The address of each lane, in order; -1 for lanes without an access."""
        start, lanes = self.start(executed), executed.lanes[self.at]
        if self.region is not None:
            return (self.step.offsets(self.region) * self.size + start).ravel()
        assert isinstance(self.step, IndexedStep) and lanes is not None
        found = self.step.indexed_offsets(lanes) * self.size + start
        if lanes.outside is not None:
            found[self.step.spread(lanes.outside)] = -1
        return self.step.in_order(found)


def global_accesses(executed: Executed, grains: Grains) -> Iterator[GlobalAccess]:
    """All accesses of a call to global memory; none if the target has no pipes."""
    call, touched = executed.call, effects(executed.call)
    if not touched:
        return
    scratch = call.instruction.roles.get("scratch")
    for at, (step, lanes) in enumerate(zip(executed.plan.steps, executed.lanes, strict=True)):
        for end in step.touches(lanes):
            name = executed.names[end.slot]
            spec = call.operands[name]
            moves = MOVES.get(GM_ACCESS.get(_pipe(touched, name, end.how), ""))
            if not isinstance(spec, TensorSpec) or moves is None:
                continue
            if name == scratch and _is_counted_already(moves, step, end):
                continue
            yield GlobalAccess(
                moves=moves,
                grains=grains,
                at=at,
                step=step,
                slot=end.slot,
                size=spec.dtype.size,
                region=end.region,
                is_data=not end.is_index and name != scratch,
                tile=_tile(step, end, executed),
                threads=_threads(call, step),
                bursts=_bursts_of_a_row(call),
            )


def _pipe(touched: Sequence[Effect], operand: str, how: str) -> str:
    """The pipe that reads or writes an operand; empty if none does."""
    by_access = {effect.access: effect.pipe for effect in touched if effect.operand == operand}
    return by_access.get("read" if how == "read" else "write") or by_access.get("update", "")


def _is_counted_already(moves: object, step: PlanStep, end: Touched) -> bool:
    """A SIMT gather into a workspace stores once a thread, zeroes included: counted as filling it (MG-SIMT-20)."""
    return moves is _by_warps and end.how != "read" and isinstance(step, IndexedStep)


def _tile(step: PlanStep, end: Touched, executed: Executed) -> tuple[TileSpec, Region] | None:
    """The tile at the other end of a move."""
    if not isinstance(step, CopyStep) or end.is_index:
        return None
    slot, region = (step.dst, step.target) if end.how == "read" else (step.src, step.source)
    spec = executed.call.operands[executed.names[slot]]
    return (spec, region) if isinstance(spec, TileSpec) else None


def _threads(call: Call, step: PlanStep) -> Array | None:
    """A gather into a workspace numbers its threads like the workspace (MG-SIMT-19); others like the valid elements."""
    staged = call.of_role("scratch") is not None and isinstance(step, IndexedStep)
    return step.target.offsets().ravel() if staged else None


def table_of(call: Call) -> OperandSpec | None:
    """The operand that the index of a call addresses."""
    indexed = call.indexed and call.indexed[0].indexed
    return call.operands[indexed.operand] if indexed else None


def transfers_of_a_row(call: Call) -> int:
    """DMA transfers for a row: one, or one for each batch of a fractal table (MG-SYNC-07, MG-SYNC-08)."""
    table, count = table_of(call), call.route_kernel.work
    return max(1, count(1, 1, table.shape[0]).dma) if count and isinstance(table, TensorSpec) else 1


def _bursts_of_a_row(call: Call) -> int:
    """One, or one for each block column of a fractal table in each of its batches (MG-NZ-06)."""
    table, transfers = table_of(call), transfers_of_a_row(call)
    if isinstance(table, TensorSpec) and table.layout_kind is GlobalLayout.NZ:
        return transfers * table.shape[1]
    return transfers


# --- warps ---------------------------------------------------------------------------------------------------


def _by_warps(access: GlobalAccess, executed: Executed) -> Count:
    """SIMT: a warp takes 32 columns of a row at a time, or 32 elements in the order of the threads."""
    lanes = executed.lanes[access.at]
    if isinstance(access.step, IndexedStep) and access.is_indexed and lanes is not None and _has_rows(access.step):
        values = lanes.values if lanes.outside is None else lanes.values[~lanes.outside]
        segments = _row_segments(access, access.step, values, access.start(executed))
        elements = values.size * access.step.shape[1]
    else:
        segments, elements = _segments(_by_thread(access, executed), access.grains.segment)
    return Count(segments, moved=segments * access.grains.segment, used=access.used(elements))


def _has_rows(step: IndexedStep) -> bool:
    """Whether every index names a row whose elements lie side by side."""
    return step.by_row and step.indexed.layout.cols == Layout.plain(0, 1).cols


def _row_segments(access: GlobalAccess, step: IndexedStep, rows: Array, start: int) -> int:
    """Segments of whole rows, of each alone; rows with the same offset in a segment take equally many."""
    layout, cols = step.indexed.layout, step.shape[1]
    are_alike = layout.strides is not None and layout.strides[0] * access.size % access.grains.segment == 0
    begins = (layout.row(rows[:1] if are_alike else rows) * access.size + start) % access.grains.segment
    begins, counts = (begins, [rows.size] * begins.size) if are_alike else np.unique(begins, return_counts=True)
    each = [segments_from(int(begin), cols, access.size, access.grains.segment) for begin in begins]
    return sum(int(count) * segments for count, segments in zip(counts, each, strict=True))


@lru_cache(maxsize=MOST_CACHED)
def segments_from(begin: int, cols: int, size: int, segment: int) -> int:
    """Segments of a row that starts `begin` bytes into one; warps take 32 elements at a time."""
    firsts = np.arange(0, cols, LANES)
    lasts = np.minimum(firsts + LANES, cols) * size - 1
    return int(((begin + lasts) // segment - (begin + firsts * size) // segment + 1).sum())


def _by_thread(access: GlobalAccess, executed: Executed) -> Array:
    """Addresses in the order of the threads, filled up to whole warps with -1."""
    found = _narrow(access.addresses(executed))
    size = found.size if access.threads is None else int(access.threads.max(initial=-1)) + 1
    threads = np.full(-(-size // LANES) * LANES, -1, found.dtype)
    threads[slice(size) if access.threads is None else access.threads] = found
    return threads


def _segments(threads: Array, segment: int) -> tuple[int, int]:
    """Segments that warps touch, and elements that differ within a warp."""
    warps = np.sort(threads.reshape(-1, LANES), axis=1)
    return _different(_numbered(warps, segment)), _different(warps)


def _numbered(addresses: Array, grain: int) -> Array:
    """Which pieces of `grain` bytes these addresses lie in; a shift is far cheaper than a division."""
    bits = grain.bit_length() - 1
    return addresses >> bits if grain == 1 << bits else addresses // grain


def _narrow(numbers: Array) -> Array:
    """The numbers in half the width if that holds them, which sorts in a fraction of the time."""
    return numbers.astype(np.int32) if int(numbers.max(initial=0)) < 1 << 31 else numbers


def _different(warps: Array) -> int:
    """How many numbers differ within each row of sorted ones, negative ones aside."""
    return int(np.count_nonzero(warps[:, 1:] != warps[:, :-1]) + np.count_nonzero(warps[:, 0] >= 0))


# --- bursts --------------------------------------------------------------------------------------------------


def _by_bursts(access: GlobalAccess, executed: Executed) -> Count:
    """DMA: a burst for every row, in whole chunks."""
    if access.region is not None:
        return bursts_of(access.region, access.tile, access.size, access.is_data)
    lanes = executed.lanes[access.at]
    assert lanes is not None
    return access.whole if lanes.outside is None else _bursts(access, np.flatnonzero(~lanes.outside))


def _bursts(access: GlobalAccess, kept: Array) -> Count:
    """The bursts of these lanes. Rows of fractals are moved whole, and used as far as the tile is valid."""
    cols = access.step.shape[1]
    width = cols if access.by_row else 1
    used = width if access.tile is None else min(width, access.tile[0].valid_cols)
    moved = kept.size * chunks(width * access.size)
    place = (kept, 0 * kept) if access.by_row else divmod(kept, cols)
    misaligned = 0 if access.tile is None else _misaligned(access.tile[0], access.tile[1].layout.offset(*place))
    return Count(
        moved,
        bursts=kept.size * access.bursts,
        moved=moved * CHUNK,
        used=access.used(kept.size * used),
        misaligned=misaligned * access.bursts,
    )


@lru_cache(maxsize=MOST_CACHED)
def bursts_of(source: Region, tile: tuple[TileSpec, Region] | None, size: int, is_data: bool) -> Count:
    """The bursts of a whole region: its rows, its columns, or other runs that are contiguous at both ends."""
    rows, cols, lengths = _burst_runs(source, tile[1] if tile else source)
    moved = int(chunks(lengths * size).sum())
    misaligned = 0 if tile is None else _misaligned(tile[0], tile[1].layout.offset(rows, cols))
    used = int(lengths.sum()) * size if is_data else 0
    return Count(moved, lengths.size, moved=moved * CHUNK, used=used, misaligned=misaligned)


def _burst_runs(source: Region, other: Region) -> tuple[Array, Array, Array]:
    """Row and column of the first element of every burst, and its length in elements."""
    rows, cols = source.shape
    row_step, col_step = source.strides or (0, 0)
    if col_step == 1 and cols > 1:
        return np.arange(rows), np.zeros(rows, int), np.full(rows, cols)
    if row_step == 1 and rows > 1:
        return np.zeros(cols, int), np.arange(cols), np.full(cols, rows)
    here, there = source.offsets().ravel(), other.offsets().ravel()
    order = np.argsort(here, kind="stable")
    goes_on = (np.diff(here[order]) == 1) & (np.diff(there[order]) == 1)
    begins = np.flatnonzero(np.insert(~goes_on, 0, True)) if order.size else order
    return *divmod(order[begins], max(1, cols)), np.diff(begins, append=order.size)


def _misaligned(tile: TileSpec, offsets: Array) -> int:
    """How many of these elements of a tile in UB do not begin at a multiple of 32 bytes."""
    if tile.loc is not TileType.Vec:
        return 0
    return int(np.count_nonzero(((tile.addr or 0) + offsets * tile.dtype.size) % CHUNK))


# --- the scalar pipe -----------------------------------------------------------------------------------------


def _by_scalars(access: GlobalAccess, executed: Executed) -> Count:
    """Element after element; each line counts once."""
    found = access.addresses(executed)
    found = _numbered(found[found >= 0], access.grains.line)
    lines = _different(np.sort(_narrow(found))[None]) if found.size else 0  # np.unique takes ten times as long
    moved = lines * access.grains.line
    return Count(lines, scalar=found.size, moved=moved, used=min(moved, access.used(found.size)))


MOVES: dict[str, Callable[[GlobalAccess, Executed], Count]] = {
    "warps": _by_warps, "elements": _by_scalars, "bursts": _by_bursts,
}  # fmt: skip
"""By the way in which a pipe accesses global memory."""


# --- sums


DEFAULT = Grains()


@dataclass(frozen=True)
class Traffic:
    """What one statement moved, all its executions in all blocks together."""

    instruction: str
    where: Where | None = None
    launch: LaunchShape | None = None
    """Its SIMT launch, the largest if they differ; None if it starts no threads."""
    transactions: int = 0
    """128-byte segments of warps, 32-byte chunks of bursts, 64-byte lines of scalar accesses."""
    bursts: int = 0
    """Runs that are contiguous at both ends, which DMA moves."""
    scalar: int = 0
    """Elements of global memory that the scalar pipe touched."""
    bytes_moved: int = 0
    bytes_used: int = 0
    misaligned: int = 0
    """Bursts whose UB address is not a multiple of 32 (H-01)."""
    executions: int = 1
    number: int = 0
    """Of the statement in the program."""

    @property
    def efficiency(self) -> float:
        """Bytes used for every byte moved."""
        return self.bytes_used / self.bytes_moved if self.bytes_moved else 1.0

    @property
    def warps(self) -> int:
        """Warps that the launch starts."""
        return self.launch.warps if self.launch else 0

    @property
    def lanes_per_row(self) -> int:
        """Lanes that share a row; 0 if lanes do not belong to rows."""
        return self.launch.lanes * self.launch.warps_per_row if self.launch else 0

    def as_dict(self) -> dict[str, Any]:
        """The traffic as plain data."""
        plain = asdict(self)
        plain["where"] = None if self.where is None else str(self.where)
        return {**plain, "warps": self.warps, "lanes_per_row": self.lanes_per_row, "efficiency": self.efficiency}

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        launch = self.launch and f"dim3{{{self.launch.lanes}, {self.launch.warps}}}"
        rows = f"{self.lanes_per_row} lanes a row" if self.lanes_per_row else ""
        counts = [
            f"{count:,} {what}"
            for count, what in (
                (self.transactions, "transactions"),
                (self.bursts, "bursts"),
                (self.misaligned, "of them misaligned"),
                (self.scalar, "scalar accesses"),
            )
            if count
        ]
        moved = f"{self.bytes_used:,} of {self.bytes_moved:,} bytes used ({self.efficiency:.0%})"
        return f"{self.instruction}{place}: " + ", ".join(filter(None, [launch, rows, *counts, moved]))


class TrafficMeter:
    """Adds up what instructions move, statement by statement."""

    def __init__(self, grains: Grains = DEFAULT) -> None:
        self.grains = grains
        self._known: dict[Plan, _Accesses] = {}
        self._sums: dict[int, _Sum] = {}

    def observe(self, executed: Executed) -> None:
        """Add an instruction that was executed; on-chip moves do not count."""
        plan = executed.plan
        reached = self._known.get(plan) or remember(self._known, plan, self._reach(executed))
        if not reached.accesses:
            return
        total = self._sums.get(executed.number)
        if total is None:
            instr = executed.instr
            total = self._sums[executed.number] = _Sum(executed.number, instr.name, instr.where)
        counts = [access.moves(access, executed) for access in reached.accesses]
        total.add(counts, reached.launch)
        indexed = (count for access, count in zip(reached.accesses, counts, strict=True) if access.is_indexed)
        executed.transactions = max((count.transactions for count in indexed), default=0)

    def _reach(self, executed: Executed) -> _Accesses:
        return _Accesses(tuple(global_accesses(executed, self.grains)), _launch(executed))

    def result(self) -> tuple[Traffic, ...]:
        """What was moved so far, in the order of the program."""
        return tuple(self._sums[number].traffic() for number in sorted(self._sums))


class _Accesses(NamedTuple):
    """The accesses of a call to global memory."""

    accesses: tuple[GlobalAccess, ...]
    launch: LaunchShape | None


@dataclass
class _Sum:
    """A statement so far."""

    number: int
    instruction: str
    where: Where | None
    launch: LaunchShape | None = None
    total: Count = NOTHING
    executions: int = 0

    def add(self, counts: Iterable[Count], launch: LaunchShape | None) -> None:
        """Add an execution; of different launches the largest stays."""
        self.executions += 1
        for count in counts:
            self.total = Count(*map(add, self.total, count))
        if launch is not None and (self.launch is None or launch.threads > self.launch.threads):
            self.launch = launch

    def traffic(self) -> Traffic:
        """The statement, for the report."""
        return Traffic(
            self.instruction, self.where, self.launch, *self.total, executions=self.executions, number=self.number
        )


def _launch(executed: Executed) -> LaunchShape | None:
    """The SIMT launch over the valid region, or over the padded tile where lanes fill a workspace (MG-SIMT-18)."""
    call = executed.call
    launch = call.route_kernel.launch
    if launch is None:
        return None
    if call.of_role("scratch") is not None:
        rows, cols = call.destination.rows, call.destination.cols
    elif call.route_kernel.launched:
        rows, cols = call.launched
    else:
        rows, cols = next(step.shape for step in executed.plan.steps if isinstance(step, IndexedStep))
    return launch(rows, cols) if rows and cols else None
