"""How long pipes are busy with an instruction: one formula for each cost class that kernels name.

Some depend on the call alone, others also on the number of lanes inside and outside the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ptokit.engine.kept import remember
from ptokit.engine.reference import Plan
from ptokit.engine.storage import region
from ptokit.isa.instruction import Call
from ptokit.isa.kernel import Cost, Formula
from ptokit.isa.move import Access, Compute, Index, IndexUnit, Input, Move, Remap, Side
from ptokit.isa.operand import FRACTAL_ROWS, TensorSpec, TileSpec
from ptokit.isa.policy import GlobalLayout
from ptokit.machine.costs import CHUNK, LANES, WORD, Costs, chunks
from ptokit.machine.site import Executed
from ptokit.machine.ways import MOST_CACHED, bursts_of, table_of, transfers_of_a_row
from ptokit.program.cores import Step, Sync, unit_of
from ptokit.target import SCALAR, VECTOR

REPEAT = 256
"""Bytes that a vector instruction processes at a time."""
UNROLLED = 4
"""Iterations of a row kernel's inner loop that are under way at a time (MG-SIMT-26)."""
INSTRUCTIONS = 5
"""Of a warp for each of its accesses: read the index, form the address, load, store, go on. They take longer than the
two segments of 128 bytes that 32 words side by side touch at most, so that misaligned rows do not cost time."""


class Tally(NamedTuple):
    """What the lanes of an execution do."""

    lanes: int = 0
    outside: int = 0
    transactions: int = 0
    """Segments of global memory that warps touch through the index, or cache lines that the scalar pipe touches."""

    @property
    def inside(self) -> int:
        """Lanes whose index is inside the table."""
        return self.lanes - self.outside


class Overlap(NamedTuple):
    """How far the work of a pipe overlaps that of the pipe that drives it."""

    lead: float = 0.0
    """Cycles that it can start before the other one ends."""
    tail: float = 0.0
    """Cycles that it is busy at least after that."""


NO_OVERLAP = Overlap()


class PipeTask(NamedTuple):
    """A pipe's part of an instruction."""

    costs: Costs
    call: Call
    unit: str
    """The pipe without its core."""
    tally: Tally

    @property
    def cost(self) -> Cost:
        """The formula and its parameters."""
        return self.call.route_kernel.cost_on(self.unit)


# --- properties of a call


def _indexed(call: Call) -> tuple[Move, Index]:
    """The move that reads an index."""
    assert call.indexed is not None
    return call.indexed


def _policy_steps(call: Call) -> int:
    """Arithmetic for each index to keep it inside (MG-COST-06)."""
    return int(_indexed(call)[1].remap is not Remap.REFUSE)


def _policy(costs: Costs, call: Call) -> float:
    """Cycles of a scalar loop to keep one index inside."""
    return _policy_steps(call) * costs["scalar step cycles"]


def _index_read(costs: Costs, call: Call) -> float:
    """Cycles of the scalar pipe to read an index: from UB, or from memory through the cache, a line at a time."""
    index = call.values[_indexed(call)[1].access.operand]
    if isinstance(index, TileSpec):
        return costs["scalar UB cycles"]
    return costs["scalar UB cycles"] + costs["GM latency cycles"] * index.dtype.size / costs["cache line bytes"]


# --- rows, one transfer each


def _row_issue(costs: Costs, call: Call) -> float:
    """Cycles of the scalar loop for one row: read the index, keep it inside, issue."""
    issued = transfers_of_a_row(call) * costs["issue cycles"]
    return _index_read(costs, call) + _policy(costs, call) + issued


def _zeroing(task: PipeTask) -> float:
    """Cycles to zero bytes first: the scalar pipe stores to UB, MTE2 fills L1."""
    zeroed = task.cost.zeroed
    nbytes = zeroed(task.call, task.tally.outside) if zeroed else 0
    if not nbytes:
        return 0.0
    return task.costs.zeroing(nbytes) if task.unit == SCALAR else nbytes / task.costs["on-chip bytes/cycle"]


def _one_row(task: PipeTask) -> float:
    move, _ = _indexed(task.call)
    return task.costs.transfer(move.cols * task.call.values[move.dst.operand].dtype.size, task.cost.rate)


def _one_fractal_row(task: PipeTask) -> float:
    """Bursts of 32 bytes, one for each block column (MG-NZ-06)."""
    table = table_of(task.call)
    assert isinstance(table, TensorSpec)
    bursts = table.shape[1]
    return task.costs.transfer(bursts * CHUNK, task.cost.rate, bursts)


TRANSFERS: dict[str, Callable[[PipeTask], float]] = {
    "row transfers": _one_row,
    "fractal row transfers": _one_fractal_row,
}
"""By formula: the cycles of one transfer of those that a scalar loop issues."""


def _row_transfers(task: PipeTask) -> float:
    costs, call = task.costs, task.call
    one = TRANSFERS[task.cost.formula](task)
    one += costs["flag cycles"] * len(call.route_kernel.handshake.each_row) + costs.combining(call.is_atomic)
    transfers = task.tally.inside * transfers_of_a_row(call)  # none for a row outside the table
    return costs.queued(transfers, one, task.unit) + _zeroing(task)


# --- elements, one by one


def _element_gather(task: PipeTask) -> float:
    """A read of GM and a write of UB for each lane (MG-COST-04); a lane outside only writes its zero."""
    costs, call, _, tally = task
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    return tally.lanes * each + _cached_reads(costs, tally)


def _cached_reads(costs: Costs, tally: Tally) -> float:
    """Cycles of the scalar pipe to read the table: every line comes from memory once, then from the cache."""
    return tally.transactions * costs["GM latency cycles"] + tally.inside * costs["scalar UB cycles"]


def _element_gather_to_scratch(task: PipeTask) -> float:
    """The scratch is cleared, filled lane by lane, and flushed from the cache (MG-L1-13, MG-L1-14)."""
    costs, call, _, tally = task
    each = _index_read(costs, call) + _policy(costs, call)
    inside = _cached_reads(costs, tally) + tally.inside * costs["GM posted write cycles"]
    cleared = -(-call.destination.nbytes // WORD) * costs["GM posted write cycles"]
    return cleared + tally.lanes * each + inside + _flushed(costs, call)


def _flushed(costs: Costs, call: Call) -> float:
    return costs.lines(call.destination.nbytes) * costs["cache flush cycles"]


def _element_scatter(task: PipeTask) -> float:
    """Two reads of UB and a write of GM for each lane; an atomic reads the cell first."""
    costs, call, _, tally = task
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    written = tally.lanes * each + tally.inside * costs["GM posted write cycles"]
    if not call.is_atomic:
        return written
    return written + _cached_reads(costs, tally) + tally.inside * costs["scalar step cycles"]


# --- SIMT launches


def _simt(task: PipeTask) -> float:
    """A launch: its start, its warps, then the slowest of issuing, transactions and memory latency."""
    costs, call, _, tally = task
    move, index = _indexed(call)
    by_row = index.unit is IndexUnit.ROW
    accesses = move.rows * -(-move.cols // LANES) if by_row else -(-move.rows * move.cols // LANES)
    atomics = tally.inside * (move.cols if by_row else 1) if call.is_atomic else 0
    is_read = index.side is Side.SRC
    launched = _launched(costs, call, move.shape, accesses, tally.transactions, is_read)
    return launched + atomics * costs["SIMT atomic cycles"]


def _launched(
    costs: Costs, call: Call, shape: tuple[int, int], accesses: int, transactions: int, is_read: bool
) -> float:
    kernel = call.route_kernel
    launch = kernel.launch and kernel.launch(*(call.launched if kernel.launched else shape))
    assert launch is not None
    per_access = INSTRUCTIONS + _policy_steps(call)
    issuing = accesses * per_access * costs["SIMT instruction cycles"]
    moving = transactions * costs["SIMT transaction cycles"]
    latency = costs["GM latency cycles"] if is_read else 0.0
    rounds = -(-accesses // launch.warps)
    if launch.row_warps:
        chunks = -(-shape[1] // LANES)
        rounds = -(-shape[0] // launch.row_warps) * -(-chunks // (launch.warps_per_row * UNROLLED))
    waiting = (rounds - 1) * latency
    started = costs["SIMT launch cycles"] + launch.warps * costs["SIMT warp start cycles"]
    return started + latency + max(issuing, moving, waiting)


def _simt_to_scratch(task: PipeTask) -> float:
    """Every lane of the padded tile stores to the scratch, side by side; indices are read a block at a time; the table
    is read at the addresses that they give (MG-COST-10)."""
    costs, call, _, tally = task
    rows, cols = _indexed(call)[0].shape
    stores = -(-call.destination.nbytes // costs.grains.segment)
    indices = rows * -(-cols // call.destination.dtype.c0)
    accesses = -(-call.destination.elements // LANES)
    grid = call.destination.rows, call.destination.cols
    transactions = tally.transactions + stores + indices
    return _launched(costs, call, grid, accesses, transactions, True) + _flushed(costs, call)


# --- blocks, copies, arithmetic


def _block(task: PipeTask) -> float:
    costs, (nbytes, bursts) = task.costs, _block_bursts(task.call)
    one = costs.transfer(nbytes, task.cost.rate, max(1, bursts)) + costs.combining(task.call.is_atomic)
    return costs.queued(1, one, task.unit)


@lru_cache(maxsize=MOST_CACHED)
def _block_bursts(call: Call) -> tuple[int, int]:
    """Bytes and bursts of a block that is loaded or stored. Between two fractal layouts, DMA moves whole columns of
    fractals, a burst for each."""
    move = next(step for step in call.lowered if isinstance(step, Compute) or isinstance(step.src, Access))
    ends = {side.operand: region(side.layout, *move.shape) for side in (_source(move), move.dst)}
    (memory, tensor), *_ = [(name, spec) for name in ends if isinstance(spec := call.operands[name], TensorSpec)]
    (tile, spec), *_ = [(name, spec) for name in ends if isinstance(spec := call.operands[name], TileSpec)]
    if tensor.layout_kind is GlobalLayout.NZ:
        rows, columns = move.shape[0], -(-move.shape[1] // tensor.dtype.c0)
        return columns * rows * CHUNK, columns
    moved = bursts_of(ends[memory], (spec, ends[tile]), call.destination.dtype.size, True)
    return moved.moved, moved.bursts


def _source(step: Move | Compute) -> Access | Input:
    """What a copy reads, converted or not."""
    if isinstance(step, Compute):
        return step.inputs[0]
    assert isinstance(step.src, Access)
    return step.src


def _scratch_to_l1(task: PipeTask) -> float:
    return task.costs.queued(1, task.costs.transfer(task.call.destination.nbytes, task.cost.rate), task.unit)


def _fill(task: PipeTask) -> float:
    return task.costs["DMA start cycles"] + task.call.destination.nbytes / task.costs["on-chip bytes/cycle"]


def _copy(task: PipeTask) -> float:
    """From one memory of the chip to another."""
    dst, costs = task.call.destination, task.costs
    return costs["DMA start cycles"] + dst.valid_rows * dst.valid_cols * dst.dtype.size / costs["on-chip bytes/cycle"]


def _repeats(tile: TileSpec) -> int:
    """Repeats of a vector instruction, 256 bytes each: row by row, or over whole rows with their padding if there is
    nothing else between them."""
    by_row = tile.valid_rows * -(-tile.valid_cols * tile.dtype.size // REPEAT)
    if tile.pitch:
        return by_row
    return min(by_row, -(-tile.valid_rows * tile.cols * tile.dtype.size // REPEAT))


def _vector(task: PipeTask) -> float:
    tiles = [spec for spec in task.call.operands.values() if isinstance(spec, TileSpec)]
    flag_pairs = len(task.call.route_kernel.handshake.each_row)
    flags = flag_pairs * task.call.destination.valid_rows * task.costs["flag cycles"]
    return task.costs["vector start cycles"] + max(map(_repeats, tiles)) * task.costs[task.cost.rate] + flags


def _cube(task: PipeTask) -> float:
    """Blocks of 16 x 16 x 32 bytes."""
    costs, product = task.costs, task.call.lowered[0]
    assert isinstance(product, Compute)
    left, right = product.inputs[:2]
    (rows, inner), cols = left.shape, right.shape[1]
    across, down = -(-rows // FRACTAL_ROWS), -(-cols // FRACTAL_ROWS)
    count = across * down * chunks(inner * task.call.values[left.operand].dtype.size)
    return costs["cube start cycles"] + count * costs["cube block cycles"]


def _scalar_loop(task: PipeTask) -> float:
    """A loop over the elements, with some accesses to UB each."""
    rows, cols = task.call.lowered[-1].shape
    each = task.cost.accesses * task.costs["scalar UB cycles"] + task.costs["scalar step cycles"]
    return rows * cols * each + _zeroing(task)


def _estimate(task: PipeTask) -> float:
    """An instruction that is known by its effects only: as one of its pipe that takes each byte once."""
    costs, given = task.costs, task.call.operands.values()
    tiles = [spec for spec in given if isinstance(spec, TileSpec)]
    arrays = [spec.elements * spec.dtype.size for spec in given if isinstance(spec, TensorSpec)]
    nbytes = max((*(math.prod(tile.valid) * tile.dtype.size for tile in tiles), *arrays), default=0)
    if task.unit == VECTOR and tiles:
        return costs["vector start cycles"] + max(map(_repeats, tiles)) * costs["vector repeat cycles"]
    if task.unit == "M":
        blocks = max((chunks(math.prod(tile.valid) * tile.dtype.size) for tile in tiles), default=1)
        return costs["cube start cycles"] + blocks * costs["cube block cycles"]
    if task.unit == SCALAR:
        return costs["scalar step cycles"]
    return costs["DMA start cycles"] + nbytes / costs["on-chip bytes/cycle"]


QUEUED: frozenset[Formula] = frozenset({"row transfers", "fractal row transfers", "scratch to L1", "block"})
"""Transfers of a DMA pipe, which wait for memory in parallel."""
FORMULAS: dict[Formula, Callable[[PipeTask], float]] = {
    "row loop": lambda task: task.tally.lanes * _row_issue(task.costs, task.call) + _zeroing(task),
    "row transfers": _row_transfers,
    "fractal row transfers": _row_transfers,
    "element gather": _element_gather,
    "element gather to scratch": _element_gather_to_scratch,
    "element scatter": _element_scatter,
    "SIMT": _simt,
    "SIMT to scratch": _simt_to_scratch,
    "scratch to L1": _scratch_to_l1,
    "block": _block,
    "fill": _fill,
    "scalar loop": _scalar_loop,
    "scalar accesses": lambda task: task.cost.accesses * task.costs["scalar UB cycles"],
    "vector": _vector,
    "cube": _cube,
    "copy": _copy,
    "estimate": _estimate,
}


def latency(task: PipeTask) -> float:
    """How long the data of a pipe's part are outstanding while the pipe continues: transfers from memory queue up."""
    is_moved = task.cost.formula not in TRANSFERS or task.tally.inside
    return task.costs.latency(task.unit) if task.cost.formula in QUEUED and is_moved else 0.0


def overlap(task: PipeTask) -> Overlap:
    """How far a pipe's part runs along with the one before: transfers queue up behind the scalar loop that issues them,
    unless it waits for each (MG-COST-02)."""
    one, inside = TRANSFERS.get(task.cost.formula), task.tally.inside
    if one is None or not inside or task.call.route_kernel.handshake.each_row:
        return NO_OVERLAP
    return Overlap((inside - 1) * _row_issue(task.costs, task.call), one(task))


class Part(NamedTuple):
    """A pipe's part of an instruction."""

    pipe: str
    cycles: float
    """How long the pipe cannot start other work."""
    latency: float = 0.0
    """How long its data are outstanding after that, while the pipe continues."""
    overlap: Overlap = NO_OVERLAP


class TimedWork:
    """An execution of an instruction for the cost model. Two are alike only if they are the same object."""

    __slots__ = ("_costs", "_parts", "call", "steps", "tally")

    def __init__(self, call: Call, steps: Sequence[Step], tally: Tally) -> None:
        self.call, self.steps, self.tally = call, steps, tally
        self._costs: Costs | None = None
        self._parts: tuple[Part | Sync, ...] = ()

    def parts(self, costs: Costs) -> tuple[Part | Sync, ...]:
        """The steps with their cycles. Transfers overlap with the loop that issues them: the sync between the two is
        left out."""
        if self._costs is not costs:
            parts = [step if isinstance(step, Sync) else self._part(costs, step.pipe) for step in self.steps]
            kept = [step for k, step in enumerate(parts) if isinstance(step, Part) or not _overlaps(parts, k)]
            self._costs, self._parts = costs, tuple(kept)
        return self._parts

    def _part(self, costs: Costs, pipe: str) -> Part:
        task = PipeTask(costs, self.call, unit_of(pipe), self.tally)
        return Part(pipe, FORMULAS[task.cost.formula](task), latency(task), overlap(task))


class TimedWorks:
    """The works of executed instructions; equal executions share one."""

    def __init__(self) -> None:
        self._known: dict[tuple[Plan, int, Tally], TimedWork] = {}

    def of(self, executed: Executed) -> TimedWork:
        key = executed.plan, id(executed.steps), tally_of(executed)  # the work keeps the steps
        return self._known.get(key) or remember(self._known, key, TimedWork(executed.call, executed.steps, key[2]))


def tally_of(executed: Executed) -> Tally:
    """How many lanes an execution has, and how many are outside."""
    lanes = next((lanes for lanes in executed.lanes if lanes is not None), None)
    if lanes is None:
        return Tally()
    outside = 0 if lanes.outside is None else int(np.count_nonzero(lanes.outside))
    return Tally(lanes.values.size, outside, executed.transactions)


def _overlaps(steps: Sequence[Part | Sync], k: int) -> bool:
    """Whether the step after a sync starts before the step in front of it has ended."""
    if not 0 < k < len(steps) - 1:
        return False
    before, after = steps[k - 1], steps[k + 1]
    return isinstance(before, Part) and isinstance(after, Part) and after.overlap.tail > 0
