"""Launches, transactions and bursts: what a program moves to and from global memory, and how much of it it uses.

Three ways lead to global memory, each with a grain of its own. The lanes of a warp (pipe V of a target with SIMT) touch
whole segments of 128 bytes, shared by the lanes that fall into one (MG-COST-07). A burst of a DMA pipe moves whole
chunks of 32 bytes (A-67). The scalar pipe goes through the data cache, line after line of 64 bytes; the line of the
access before is still there. Arrays that a launch is given are taken to begin at a multiple of 128 bytes.

What is used are bytes of the table, or of the block that is loaded or stored; indices and scratch in global memory are
moved, not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ptokit.engine.reference import CopyStep, IndexedStep, Plan, PlanStep, Touched
from ptokit.engine.storage import Array, Region, Storage, address_of
from ptokit.finding import Where
from ptokit.isa.instruction import Call, Effect
from ptokit.isa.layout import Layout
from ptokit.isa.operand import TensorSpec, TileSpec
from ptokit.isa.policy import TileType
from ptokit.machine.executed import Executed
from ptokit.program.calls import effects
from ptokit.target import Profile
from ptokit.target.profile import LaunchShape

LANES = 32
"""Lanes of a warp."""
CHUNK = 32
"""Bytes that a burst moves at the least."""
STAGE = "scratch"
"""The operand that is a workspace in global memory."""
SEGMENT_BITS, LINE_BITS = 7, 6
SEGMENT, LINE = 1 << SEGMENT_BITS, 1 << LINE_BITS
"""Bytes that a warp and the scalar pipe move at the least; shifting is far cheaper than dividing."""
MOST_KEPT = 4096


@dataclass(frozen=True)
class Traffic:
    """What one statement moved, all its executions in all blocks together."""

    instruction: str
    where: Where | None = None
    launch: LaunchShape | None = None
    """Its SIMT launch, the largest where they differ; None where it starts no threads."""
    transactions: int = 0
    """128-byte segments of warps, 32-byte chunks of bursts, 64-byte lines of scalar accesses."""
    bursts: int = 0
    """DMA transfers."""
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
        """Lanes that share a row; 0 where lanes do not belong to rows."""
        return self.launch.lanes * self.launch.warps_per_row if self.launch else 0

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
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

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._ways: dict[Plan, tuple[_Way, ...]] = {}
        self._sums: dict[int, _Sum] = {}

    def look(self, executed: Executed) -> None:
        """Take an instruction that was executed; what stays on the chip does not count."""
        plan = executed.plan
        ways = self._ways.get(plan)
        if ways is None:
            if len(self._ways) >= MOST_KEPT:
                self._ways.clear()
            ways = self._ways[plan] = tuple(_ways(executed, self.profile))
        if not ways:
            return
        number = executed.number
        if number not in self._sums:
            self._sums[number] = _Sum(number, executed.call.instruction.name, executed.where)
        counts = [way.count(way, executed) for way in ways]
        launch = _launch(executed, self.profile)
        self._sums[number].add(counts, launch)
        if launch is not None:
            executed.transactions = max(count.transactions for count in counts)

    def result(self) -> tuple[Traffic, ...]:
        """What was moved so far, in the order of the program."""
        return tuple(self._sums[number].traffic() for number in sorted(self._sums))


class _Count(NamedTuple):
    """What one way to global memory moved, or several."""

    transactions: int = 0
    bursts: int = 0
    scalar: int = 0
    moved: int = 0
    used: int = 0
    misaligned: int = 0


NOTHING = _Count()


@dataclass
class _Sum:
    """A statement so far."""

    number: int
    instruction: str
    where: Where | None
    launch: LaunchShape | None = None
    total: _Count = NOTHING
    executions: int = 0

    def add(self, counts: Iterable[_Count], launch: LaunchShape | None) -> None:
        """Add an execution; of different launches the largest stays."""
        self.executions += 1
        for count in counts:
            self.total = _Count(*map(add, self.total, count))
        if launch is not None and (self.launch is None or launch.threads > self.launch.threads):
            self.launch = launch

    def traffic(self) -> Traffic:
        """The statement, for the report."""
        return Traffic(
            self.instruction, self.where, self.launch, *self.total, executions=self.executions, number=self.number
        )


# --- launches ------------------------------------------------------------------------------------------------


def _launch(executed: Executed, profile: Profile) -> LaunchShape | None:
    """The SIMT launch over the valid region, or over the padded tile where lanes fill a workspace (MG-SIMT-18)."""
    call = executed.call
    if call.route not in profile.launches:
        return None
    step = next(step for step in executed.plan.steps if isinstance(step, IndexedStep))
    rows, cols = (call.dst.rows, call.dst.cols) if call.values.get(STAGE) is not None else step.shape
    return profile.launch_shape(call.route, rows, cols) if rows and cols else None


# --- ways to global memory -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Way:
    """One end of a step of a plan that lies in global memory, and who goes there."""

    count: Callable[[_Way, Executed], _Count]
    at: int
    """The step's place in the plan."""
    step: PlanStep
    slot: int
    size: int
    region: Region | None
    """What is touched; None for what the index names."""
    is_data: bool
    tile: tuple[TileSpec, Region] | None
    """The other end, where it is a tile."""
    threads: Array | None
    """The thread of every lane; None where they are numbered alike."""
    transfers: int
    """DMA transfers for every row."""

    def start(self, executed: Executed) -> int:
        """Where the operand begins in its array, as far as that matters to segments."""
        return _start(executed.storages[self.slot])

    def used(self, count: int) -> int:
        """Bytes of data, of so many elements."""
        return count * self.size if self.is_data else 0

    def addresses(self, executed: Executed) -> Array:
        """The byte that each lane goes to, one after the other; -1 for lanes that go nowhere."""
        start, lanes = self.start(executed), executed.lanes[self.at]
        if self.region is not None:
            return (self.step.offsets(self.region) * self.size + start).ravel()
        assert isinstance(self.step, IndexedStep) and lanes is not None
        found = self.step.aimed(lanes) * self.size + start
        if lanes.outside is not None:
            found[self.step.spread(lanes.outside)] = -1
        return found.ravel()


def _ways(executed: Executed, profile: Profile) -> Iterator[_Way]:
    """All that a call touches in global memory; nothing where the target has no pipes."""
    call, touched = executed.call, effects(executed.call)
    if not touched:
        return
    for at, (step, lanes) in enumerate(zip(executed.plan.steps, executed.lanes, strict=True)):
        for end in step.touches(lanes):
            name = executed.names[end.slot]
            spec = call.operands[name]
            count = COUNTS.get(_pipe(touched, name, end.how))
            if not isinstance(spec, TensorSpec) or count is None or _is_counted_already(count, name, step, end):
                continue
            yield _Way(
                count,
                at,
                step,
                end.slot,
                spec.dtype.size,
                end.region,
                not end.is_index and name != STAGE,
                _tile(step, end, executed),
                _threads(call, step),
                _transfers(call, profile),
            )


def _pipe(touched: Sequence[Effect], operand: str, how: str) -> str:
    """The pipe that reads or writes an operand; empty where none is known to."""
    by_access = {effect.access: effect.pipe for effect in touched if effect.operand == operand}
    return by_access.get("read" if how == "read" else "write") or by_access.get("update", "")


def _is_counted_already(count: object, name: str, step: PlanStep, end: Touched) -> bool:
    """A SIMT gather into a workspace stores once a thread, zeroes included: counted as filling it (MG-SIMT-20)."""
    return count is _by_warps and name == STAGE and end.how != "read" and isinstance(step, IndexedStep)


def _tile(step: PlanStep, end: Touched, executed: Executed) -> tuple[TileSpec, Region] | None:
    """The tile at the other end of a move."""
    if not isinstance(step, CopyStep) or end.is_index:
        return None
    slot, region = (step.dst, step.target) if end.how == "read" else (step.src, step.source)
    spec = executed.call.operands[executed.names[slot]]
    return (spec, region) if isinstance(spec, TileSpec) else None


def _threads(call: Call, step: PlanStep) -> Array | None:
    """A gather into a workspace numbers its threads like the workspace (MG-SIMT-19); others like the valid elements."""
    staged = call.values.get(STAGE) is not None and isinstance(step, IndexedStep)
    return step.target.offsets().ravel() if staged else None


def _transfers(call: Call, profile: Profile) -> int:
    """DMA transfers for a row: one, or one for each batch of a fractal table (MG-SYNC-07, MG-SYNC-08)."""
    table = call.values.get("table")
    work = profile.operations(call.route, 1, 1, table.shape[0]) if isinstance(table, TensorSpec) else None
    return max(1, work.dma) if work else 1


def _start(storage: Storage) -> int:
    return (storage.address - address_of(storage.owner)) % SEGMENT


# --- warps ---------------------------------------------------------------------------------------------------


def _by_warps(way: _Way, executed: Executed) -> _Count:
    """SIMT: a warp takes 32 columns of a row at a time, or 32 elements in the order of the threads."""
    step, lanes = way.step, executed.lanes[way.at]
    if way.region is None and isinstance(step, IndexedStep) and lanes is not None and _has_rows(step):
        values = lanes.values if lanes.outside is None else lanes.values[~lanes.outside]
        alike = _are_alike(step, way.size)
        starts = step.steered.layout.row(values[:1] if alike else values) * way.size + way.start(executed)
        segments = _row_segments(starts, step.move.cols * way.size, LANES * way.size) * (values.size if alike else 1)
        elements = values.size * step.move.cols
    else:
        segments, elements = _segments(_by_thread(way, executed))
    return _Count(segments, moved=segments * SEGMENT, used=way.used(elements))


def _has_rows(step: IndexedStep) -> bool:
    """Whether every index names a row whose elements lie side by side."""
    return step.by_row and step.steered.layout.cols == Layout.plain(0, 1).cols


def _are_alike(step: IndexedStep, size: int) -> bool:
    """Whether every row begins equally far into a segment, so that all take as many."""
    strides = step.steered.layout.strides
    return strides is not None and strides[0] * size % SEGMENT == 0


def _row_segments(starts: Array, length: int, reach: int) -> int:
    """Segments of rows of `length` bytes, which warps walk `reach` bytes at a time."""
    steps = np.arange(0, length, reach)
    first = starts[:, None] + steps
    last = starts[:, None] + np.minimum(steps + reach, length) - 1
    return int(((last >> SEGMENT_BITS) - (first >> SEGMENT_BITS)).sum()) + first.size


def _by_thread(way: _Way, executed: Executed) -> Array:
    """Addresses in the order of the threads, filled up to whole warps with -1."""
    found = way.addresses(executed)
    size = found.size if way.threads is None else int(way.threads.max(initial=-1)) + 1
    narrow = int(found.max(initial=0)) < 1 << 31  # half the width sorts in a fraction of the time
    threads = np.full(-(-size // LANES) * LANES, -1, np.int32 if narrow else np.int64)
    threads[slice(size) if way.threads is None else way.threads] = found
    return threads


def _segments(threads: Array) -> tuple[int, int]:
    """Segments that warps touch, and elements that differ within a warp."""
    warps = np.sort(threads.reshape(-1, LANES), axis=1)
    return _different(warps >> SEGMENT_BITS), _different(warps)


def _different(warps: Array) -> int:
    """How many numbers differ within each row of sorted ones, negative ones aside."""
    return int(np.count_nonzero(warps[:, 1:] != warps[:, :-1]) + np.count_nonzero(warps[:, 0] >= 0))


# --- bursts --------------------------------------------------------------------------------------------------


def _by_bursts(way: _Way, executed: Executed) -> _Count:
    """DMA: a burst for every row, in whole chunks."""
    if way.region is not None:
        return _fixed_bursts(way.region, way.tile, way.size, way.is_data)
    step, lanes = way.step, executed.lanes[way.at]
    assert isinstance(step, IndexedStep) and lanes is not None
    kept = np.arange(lanes.values.size) if lanes.outside is None else np.flatnonzero(~lanes.outside)
    width = step.move.cols if step.by_row else 1
    chunks = kept.size * _chunks(width * way.size)
    place = (kept, 0 * kept) if step.by_row else divmod(kept, step.move.cols)
    misaligned = 0 if way.tile is None else _misaligned(way.tile[0], way.tile[1].layout.offset(*place))
    return _Count(
        chunks,
        bursts=kept.size * way.transfers,
        moved=chunks * CHUNK,
        used=way.used(kept.size * width),
        misaligned=misaligned * way.transfers,
    )


@lru_cache(maxsize=MOST_KEPT)
def _fixed_bursts(source: Region, tile: tuple[TileSpec, Region] | None, size: int, is_data: bool) -> _Count:
    """The bursts of a whole region: its rows, or its columns, or whatever lies side by side at both ends."""
    rows, cols, lengths = _runs(source, tile[1] if tile else source)
    chunks = int(_chunks(lengths * size).sum())
    misaligned = 0 if tile is None else _misaligned(tile[0], tile[1].layout.offset(rows, cols))
    used = int(lengths.sum()) * size if is_data else 0
    return _Count(chunks, lengths.size, moved=chunks * CHUNK, used=used, misaligned=misaligned)


def _runs(source: Region, other: Region) -> tuple[Array, Array, Array]:
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


def _chunks(length: Any) -> Any:
    return -(-length // CHUNK)


def _misaligned(tile: TileSpec, offsets: Array) -> int:
    """How many of these elements of a tile in UB do not begin at a multiple of 32 bytes."""
    if tile.loc is not TileType.Vec:
        return 0
    return int(np.count_nonzero(((tile.addr or 0) + offsets * tile.dtype.size) % CHUNK))


# --- the scalar pipe -----------------------------------------------------------------------------------------


def _by_scalars(way: _Way, executed: Executed) -> _Count:
    """Element after element; a line counts when it is not the one of the access before."""
    found = way.addresses(executed)
    found = found[found >= 0] >> LINE_BITS
    lines = int(np.count_nonzero(found[1:] != found[:-1])) + min(1, found.size)
    moved = lines * LINE
    return _Count(lines, scalar=found.size, moved=moved, used=min(moved, way.used(found.size)))


COUNTS: dict[str, Callable[[_Way, Executed], _Count]] = {
    "V": _by_warps,
    "S": _by_scalars,
    "MTE1": _by_bursts,
    "MTE2": _by_bursts,
    "MTE3": _by_bursts,
    "FIX": _by_bursts,
}
"""How each pipe goes to global memory."""
