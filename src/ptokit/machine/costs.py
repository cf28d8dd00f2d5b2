"""How long pipes are busy: cycles of an instruction's steps, from the numbers that the profile states.

Formulas stand in tables by the kernel that runs (its route) and the pipe. Some know a call once and for all, others
look at the lanes of the moment; what stands in neither table is told by the pipe alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from numbers import Real
from typing import NamedTuple

import numpy as np

from ptokit.engine.lanes import Lanes
from ptokit.engine.storage import Array, Region, region
from ptokit.isa.instruction import Call
from ptokit.isa.move import Access, Move, Side, Unit
from ptokit.isa.operand import FRACTAL_ROWS, TensorSpec, TileSpec
from ptokit.machine.clocks import unit_of
from ptokit.machine.executed import Executed
from ptokit.machine.extent import extent_of
from ptokit.machine.traffic import LANES, SEGMENT
from ptokit.program.steps import Touch
from ptokit.target import Profile

BLOCK, REPEAT, WORD = 32, 256, 8
"""Bytes of a block that DMA moves whole, of what a vector instruction takes at a time, of a scalar store."""
UNROLLED = 4
"""Turns of a row kernel's inner loop that are under way at a time (MG-SIMT-26)."""
INSTRUCTIONS = 4
"""Of a warp for each of its accesses: read the index, form the address, load, store."""
POLICY_STEPS = {"undefined": 0, "clamp": 1, "wrap": 1, "zero": 1, "skip": 1}
"""Arithmetic for each index, by what happens outside the table (MG-COST-06)."""
MOST_CALLS = 4096
"""Calls whose cycles are remembered."""


class Overlap(NamedTuple):
    """Work that a pipe begins while the pipe that drives it is still at its own."""

    lead: float = 0.0
    """Cycles that it can begin before the other one has ended."""
    tail: float = 0.0
    """Cycles that it needs at least after that."""


NO_OVERLAP = Overlap()


class Costs:
    """The cost model of a target."""

    def __init__(self, profile: Profile, overrides: Mapping[str, float] | None = None) -> None:
        """Raises `ValueError` for a name that the profile does not have, and for what is no sensible number."""
        overrides = overrides or {}
        unknown = [name for name in overrides if name not in profile.costs]
        if unknown:
            known = ", ".join(map(repr, profile.costs)) or "none"
            raise ValueError(f"{profile.name} has no cost {', '.join(map(repr, unknown))}; known: {known}")
        for name, number in overrides.items():
            _require_sensible(name, number)
        self.profile = profile
        self.numbers: Mapping[str, float] = {**profile.costs, **overrides}
        self._known: dict[tuple[Call, str], float] = {}

    def __getitem__(self, name: str) -> float:
        """A number by its name."""
        return self.numbers[name]

    def cycles(self, executed: Executed, touch: Touch) -> float:
        """How long a step of an instruction keeps its pipe busy."""
        call, unit = executed.call, unit_of(touch.pipe)
        of_lanes = BY_LANES.get((call.route, unit))
        if of_lanes is not None:
            return of_lanes(self, executed)
        known = self._known.get((call, unit))
        if known is None:
            if len(self._known) >= MOST_CALLS:
                self._known.clear()
            known = self._known[call, unit] = formula(call.route, unit)(self, call)
        return known

    def overlap(self, executed: Executed, touch: Touch) -> Overlap:
        """How far a step goes along with the one before: transfers queue up behind the scalar loop that issues them,
        unless it waits for each (MG-COST-02)."""
        key = executed.call.route, unit_of(touch.pipe)
        if key not in QUEUED or _waits_each_row(self, executed.call):
            return NO_OVERLAP
        rows = _inside(_indexed(executed)[1])
        if not rows:
            return NO_OVERLAP
        last = self._latency(key[1]) + BY_TRANSFER[key](self, executed.call)
        return Overlap((rows - 1) * _row_issue(self, executed.call), last)

    @property
    def issue(self) -> float:
        """Cycles of the scalar pipe to hand something to another pipe."""
        return self.numbers.get("issue cycles", 0.0)

    @property
    def flag(self) -> float:
        """Cycles from a set to the wait that it ends."""
        return self.numbers.get("flag cycles", 0.0)

    @property
    def clock(self) -> float:
        """GHz; 0 where there is no clock."""
        return self.numbers.get("clock GHz", 0.0)

    @property
    def scalar_read(self) -> float:
        """Cycles in which the scalar pipe reads a number from global memory."""
        return self.numbers.get("GM latency cycles", 0.0)

    # --- what formulas are made of

    def moving(self, nbytes: float, path: str) -> float:
        """Cycles to move bytes over a path of so many GB/s."""
        return nbytes * self["clock GHz"] / self[path]

    def transfer(self, nbytes: float, path: str, bursts: int = 1) -> float:
        """Cycles of one DMA transfer in bursts of equal length, without what memory takes to answer."""
        moved = bursts * _blocks(nbytes / bursts) * BLOCK
        return self["DMA start cycles"] + bursts * self["DMA burst cycles"] + self.moving(moved, path)

    def queued(self, count: int, one: float, unit: str) -> float:
        """Cycles of several transfers, as many under way at a time as can be (MG-COST-05)."""
        latency = self._latency(unit)
        return latency + count * max(one, latency / self["outstanding transfers"]) if count else 0.0

    def _latency(self, unit: str) -> float:
        """What a pipe waits for memory: stores do not."""
        return self["GM latency cycles"] if unit == "MTE2" else 0.0

    def zeroing(self, nbytes: float) -> float:
        """Cycles of the scalar pipe to clear bytes of UB."""
        return -(-nbytes // WORD) * self["scalar UB cycles"]

    def lines(self, nbytes: float) -> int:
        """Cache lines of so many bytes."""
        return int(-(-nbytes // self["cache line bytes"]))


def _require_sensible(name: str, number: object) -> None:
    may_be_zero = name.endswith("cycles")
    if isinstance(number, bool) or not isinstance(number, Real) or not isfinite(number) or number < 0:
        raise ValueError(f"the cost {name!r} takes a number from 0 up, found {number!r}")
    if number == 0 and not may_be_zero:
        raise ValueError(f"the cost {name!r} must be greater than 0")


# --- what is known of a call


def _blocks(nbytes: float) -> int:
    return int(-(-nbytes // BLOCK))


@lru_cache(maxsize=MOST_CALLS)
def _moves(call: Call) -> tuple[Move, ...]:
    """The moves of a call, without its computations."""
    return tuple(move for move in call.instruction.lower(call) if isinstance(move, Move))


def _indexed(executed: Executed) -> tuple[Move, Lanes]:
    """The move that an index steers, and where its lanes go."""
    lanes = next(lanes for lanes in executed.lanes if lanes is not None)
    return next(move for move in _moves(executed.call) if move.index is not None), lanes


def _policy(costs: Costs, call: Call) -> float:
    """Cycles of a scalar loop to keep one index inside."""
    return POLICY_STEPS[call.oob.text] * costs["scalar step cycles"]


def _is_atomic(call: Call) -> bool:
    atomic = call.values.get("atomic")
    return atomic is not None and atomic.text != "none"


def _is_zeroing(call: Call) -> bool:
    return call.oob.text == "zero"


def _outside(lanes: Lanes) -> int:
    return 0 if lanes.outside is None else int(np.count_nonzero(lanes.outside))


def _inside(lanes: Lanes) -> int:
    return lanes.values.size - _outside(lanes)


def _size(call: Call) -> int:
    return call.table.dtype.size


def _index_read(costs: Costs, call: Call) -> float:
    """Cycles of the scalar pipe to read an index: from UB, or from memory through the cache, a line at a time."""
    if isinstance(call.idx, TileSpec):
        return costs["scalar UB cycles"]
    return costs["scalar UB cycles"] + costs["GM latency cycles"] * call.idx.dtype.size / costs["cache line bytes"]


def _batches(call: Call) -> int:
    """Transfers of one row: one for each outer batch of a fractal table (MG-NZ-05)."""
    return call.table.shape[0] if call.route.endswith(".nz") else 1


# --- rows, one transfer each


def _row_issue(costs: Costs, call: Call) -> float:
    """Cycles of the scalar loop for one row: read the index, keep it inside, issue."""
    return _index_read(costs, call) + _policy(costs, call) + _batches(call) * costs["issue cycles"]


def _transfers(executed: Executed) -> int:
    """Transfers that are issued: none for a row outside the table."""
    return _inside(_indexed(executed)[1]) * _batches(executed.call)


def _rows_by_scalar(costs: Costs, executed: Executed) -> float:
    _, lanes = _indexed(executed)
    return lanes.values.size * _row_issue(costs, executed.call) + _zeroed(costs, executed.call, _outside(lanes))


def _zeroed(costs: Costs, call: Call, outside: int) -> float:
    """Zeroes that the scalar pipe writes: a row that is outside (MG-OOB-10), all of a fractal tile (MG-OOB-12)."""
    nbytes = ZEROED.get(call.route)
    return costs.zeroing(nbytes(call, outside)) if nbytes and _is_zeroing(call) else 0.0


def _one_row(path: str) -> ByCall:
    return lambda costs, call: costs.transfer(call.values[_held(call)].valid_cols * _size(call), path)


def _held(call: Call) -> str:
    """The tile that a row goes to or comes from."""
    return "dst" if "dst" in call.operands else "src"


def _one_fractal_row(costs: Costs, call: Call) -> float:
    """Bursts of 32 bytes, one for each block column (MG-NZ-06)."""
    bursts = call.table.shape[1]
    return costs.transfer(bursts * BLOCK, "GM to UB GB/s", bursts)


def _rows_by_dma(unit: str) -> ByLanes:
    def cycles(costs: Costs, executed: Executed) -> float:
        call = executed.call
        one = BY_TRANSFER[call.route, unit](costs, call)
        if _waits_each_row(costs, call):
            one += costs["flag cycles"] * len(costs.profile.handshakes[call.route].each_row)
        return costs.queued(_transfers(executed), one, unit) + _cleared(costs, call)

    return cycles


def _cleared(costs: Costs, call: Call) -> float:
    """A tile in L1 that is cleared first (MG-L1-11)."""
    is_cleared = call.route == "mgather.l1.row" and _is_zeroing(call)
    return call.dst.nbytes / costs["on-chip bytes/cycle"] if is_cleared else 0.0


def _waits_each_row(costs: Costs, call: Call) -> bool:
    """Whether the scalar loop waits for every transfer: a plain store does."""
    return bool(costs.profile.handshakes[call.route].each_row) and not _is_atomic(call)


# --- elements, one by one


def _gather_by_scalar(costs: Costs, executed: Executed) -> float:
    """A read of GM and a write of UB for each lane (MG-COST-04); a lane outside only writes its zero."""
    call, lanes = executed.call, _indexed(executed)[1]
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    return lanes.values.size * each + _inside(lanes) * costs["GM latency cycles"]


def _gather_to_scratch(costs: Costs, executed: Executed) -> float:
    """The scratch is cleared, filled lane by lane, and flushed from the cache (MG-L1-13, MG-L1-14)."""
    call, lanes = executed.call, _indexed(executed)[1]
    each = _index_read(costs, call) + _policy(costs, call)
    inside = _inside(lanes) * (costs["GM latency cycles"] + costs["GM posted write cycles"])
    cleared = -(-call.dst.nbytes // WORD) * costs["GM posted write cycles"]
    return cleared + lanes.values.size * each + inside + _flushed(costs, call)


def _flushed(costs: Costs, call: Call) -> float:
    return costs.lines(call.dst.nbytes) * costs["cache flush cycles"]


def _scatter_by_scalar(costs: Costs, executed: Executed) -> float:
    """Two reads of UB and a write of GM for each lane; an atomic reads the cell first."""
    call, lanes = executed.call, _indexed(executed)[1]
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    cell = costs["GM posted write cycles"]
    if _is_atomic(call):
        cell += costs["GM latency cycles"] + costs["scalar step cycles"]
    return lanes.values.size * each + _inside(lanes) * cell


# --- SIMT launches


def segments(move: Move, lanes: Lanes, size: int, burst: int) -> int:
    """Transactions in memory: segments of `burst` bytes that the lanes of each warp touch together.

    A warp takes 32 columns of a row at a time, or 32 elements that follow one another (MG-COST-07, MG-COST-08).
    """
    index = move.index
    assert index is not None
    assert isinstance(move.src, Access)
    layout = (move.src if index.side is Side.SRC else move.dst).layout
    if index.unit is Unit.ROW:
        return _row_segments(layout.row(_kept(lanes)) * size, move.cols, size, burst)
    offsets = layout.offset(*divmod(lanes.values, index.width)) if index.width else layout.col(lanes.values)
    return _element_segments(offsets * size // burst, lanes.outside)


def _kept(lanes: Lanes) -> Array:
    return lanes.values if lanes.outside is None else lanes.values[~lanes.outside]


def _row_segments(starts: Array, cols: int, size: int, burst: int) -> int:
    firsts = np.arange(0, cols, LANES) * size
    lasts = np.minimum(firsts + LANES * size, cols * size) - 1
    at = starts.reshape(-1, 1)
    return int(((at + lasts) // burst - (at + firsts) // burst + 1).sum())


def _element_segments(touched: Array, outside: Array | None) -> int:
    flat = touched.ravel()
    if outside is not None:
        flat = np.where(outside.ravel(), -1, flat)
    if flat.size % LANES:
        flat = np.pad(flat, (0, -flat.size % LANES), mode="edge")
    if flat.max() < 1 << 31:  # sorted in a sixth of the time
        flat = flat.astype(np.int32)
    warps = np.sort(flat.reshape(-1, LANES), axis=1)
    changes = np.count_nonzero(warps[:, 1:] != warps[:, :-1])
    return int(changes + warps.shape[0] - np.count_nonzero(warps[:, 0] < 0))


def _simt(costs: Costs, executed: Executed) -> float:
    """A launch: its start, its warps, then the slowest of issuing, transactions, and answers that a warp waits for."""
    call = executed.call
    move, lanes = _indexed(executed)
    by_row = move.index is not None and move.index.unit is Unit.ROW
    accesses = move.rows * -(-move.cols // LANES) if by_row else -(-move.rows * move.cols // LANES)
    burst, transactions = int(costs["GM burst bytes"]), executed.transactions
    if transactions is None or burst != SEGMENT:
        transactions = segments(move, lanes, _size(call), burst)
    atomics = _inside(lanes) * (move.cols if by_row else 1) if _is_atomic(call) else 0
    is_read = move.index is not None and move.index.side is Side.SRC
    return _launched(costs, call, move.shape, accesses, transactions, is_read) + atomics * costs["SIMT atomic cycles"]


def _launched(
    costs: Costs, call: Call, shape: tuple[int, int], accesses: int, transactions: int, is_read: bool
) -> float:
    launch = costs.profile.launch_shape(call.route, *shape)
    assert launch is not None
    per_access = INSTRUCTIONS + POLICY_STEPS[call.oob.text]
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


def _simt_to_scratch(costs: Costs, executed: Executed) -> float:
    """Every lane of the padded tile stores to the scratch, side by side; indices are read a block at a time; the table
    is read wherever they lead (MG-COST-10)."""
    call = executed.call
    move, lanes = _indexed(executed)
    burst, (rows, cols) = int(costs["GM burst bytes"]), move.shape
    place = move.dst.layout.offset(np.arange(rows)[:, None], np.arange(cols)).ravel()
    touched = lanes.values.ravel() * _size(call) // burst
    inside = slice(None) if lanes.outside is None else ~lanes.outside.ravel()
    pairs = np.stack((place // LANES, touched))[:, inside]
    reads = np.unique(pairs, axis=1).shape[1]
    stores = -(-call.dst.nbytes // burst)
    indices = rows * -(-cols // call.dst.dtype.c0)
    accesses = -(-call.dst.elements // LANES)
    grid = call.dst.rows, call.dst.cols
    return _launched(costs, call, grid, accesses, reads + stores + indices, True) + _flushed(costs, call)


# --- blocks, copies, arithmetic


@lru_cache(maxsize=MOST_CALLS)
def _runs(place: Region) -> int:
    """How many runs of elements that lie side by side."""
    extent = extent_of(place, 1)
    if extent.listed is None:
        return extent.rows
    return 1 + int(np.count_nonzero(np.diff(extent.listed) != 1))


def _bursts(call: Call, move: Move) -> int:
    """Bursts of a block: runs on either side; a layout that changes on the way costs memory's runs only."""
    assert isinstance(move.src, Access)
    ends = {access.operand: region(access.layout, *move.shape) for access in (move.src, move.dst)}
    memory = next(ends[name] for name in ends if isinstance(call.operands[name], TensorSpec))
    tile = next(ends[name] for name in ends if isinstance(call.operands[name], TileSpec))
    changes = tile.strides is None and memory.strides is not None
    return max(1, _runs(memory), 0 if changes else _runs(tile))


def _block(path: str, unit: str) -> ByCall:
    def cycles(costs: Costs, call: Call) -> float:
        move = next(move for move in _moves(call) if isinstance(move.src, Access))
        nbytes = move.rows * move.cols * call.dst.dtype.size
        return costs.queued(1, costs.transfer(nbytes, path, _bursts(call, move)), unit)

    return cycles


def _scratch_to_l1(costs: Costs, call: Call) -> float:
    return costs.queued(1, costs.transfer(call.dst.nbytes, "GM to L1 GB/s"), "MTE2")


def _filled(costs: Costs, call: Call) -> float:
    return costs["DMA start cycles"] + call.dst.nbytes / costs["on-chip bytes/cycle"]


def _copied(costs: Costs, call: Call) -> float:
    """From one memory of the chip to another."""
    rows, cols = call.dst.valid
    return costs["DMA start cycles"] + rows * cols * call.dst.dtype.size / costs["on-chip bytes/cycle"]


def _repeats(tile: TileSpec) -> int:
    """Times that a vector instruction takes 256 bytes: rows with gaps between them one by one."""
    row = tile.valid_cols * tile.dtype.size
    if tile.valid_cols == tile.cols:
        return -(-tile.valid_rows * row // REPEAT)
    return tile.valid_rows * -(-row // REPEAT)


def _vector(costs: Costs, call: Call) -> float:
    tiles = [spec for spec in call.operands.values() if isinstance(spec, TileSpec)]
    rate = VECTOR_RATES.get(call.instruction.name, "vector repeat cycles")
    return costs["vector start cycles"] + max(map(_repeats, tiles)) * costs[rate]


def _cube(costs: Costs, call: Call) -> float:
    """Blocks of 16 x 16 x 32 bytes."""
    (rows, inner), cols = call.a.valid, call.b.valid_cols
    across, down = -(-rows // FRACTAL_ROWS), -(-cols // FRACTAL_ROWS)
    blocks = across * down * _blocks(inner * call.a.dtype.size)
    return costs["cube start cycles"] + blocks * costs["cube block cycles"]


def _scalar(accesses: int) -> ByCall:
    """A loop over the elements, with so many accesses to UB each."""

    def cycles(costs: Costs, call: Call) -> float:
        walked: TileSpec = call.values.get("src") or call.dst
        each = accesses * costs["scalar UB cycles"] + costs["scalar step cycles"]
        cleared = costs.zeroing(call.dst.nbytes) if call.route == "tscatter.flat" else 0.0
        return walked.valid_rows * walked.valid_cols * each + cleared

    return cycles


ByCall = Callable[[Costs, Call], float]
ByLanes = Callable[[Costs, Executed], float]
Key = tuple[str, str]
"""A route and a pipe."""

SLOW = ("tdiv", "tdivs", "texp", "tlog", "tsqrt", "trecip", "trowexpanddiv")
REDUCING = ("trowsum", "trowmax", "trowmin")
INDEXED = ("tgather", "tscatter", "ttrans")
VECTOR_RATES = {
    **dict.fromkeys(SLOW, "vector slow repeat cycles"),
    **dict.fromkeys(REDUCING, "vector reduce repeat cycles"),
    **dict.fromkeys(INDEXED, "vector indexed repeat cycles"),
}
"""By instruction: what 256 bytes cost it, where that is more than usual."""

ZEROED: dict[str, Callable[[Call, int], int]] = {
    "mgather.row": lambda call, outside: outside * call.dst.valid_cols * call.dst.dtype.size,
    "mgather.row.nz": lambda call, outside: call.dst.nbytes,
}
"""By route: bytes that the scalar pipe clears, where rows outside become zero."""

BY_TRANSFER: dict[Key, ByCall] = {
    ("mgather.row", "MTE2"): _one_row("GM to UB GB/s"),
    ("mgather.row.nz", "MTE2"): _one_fractal_row,
    ("mgather.l1.row", "MTE2"): _one_row("GM to L1 GB/s"),
    ("mscatter.row", "MTE3"): _one_row("UB to GM GB/s"),
}
"""One transfer of those that a scalar loop issues."""
QUEUED = frozenset(BY_TRANSFER)

BY_LANES: dict[Key, ByLanes] = {
    ("mgather.row", "S"): _rows_by_scalar,
    ("mgather.row.nz", "S"): _rows_by_scalar,
    ("mgather.l1.row", "S"): _rows_by_scalar,
    ("mscatter.row", "S"): _rows_by_scalar,
    **{(route, unit): _rows_by_dma(unit) for route, unit in BY_TRANSFER},
    ("mgather.elem", "S"): _gather_by_scalar,
    ("mgather.elem.nz", "S"): _gather_by_scalar,
    ("mgather.elem.scalar", "S"): _gather_by_scalar,
    ("mgather.l1.elem", "S"): _gather_to_scratch,
    ("mscatter.elem", "S"): _scatter_by_scalar,
    ("mgather.row", "V"): _simt,
    ("mgather.elem", "V"): _simt,
    ("mscatter.row", "V"): _simt,
    ("mscatter.elem", "V"): _simt,
    ("mgather.l1.elem.simt", "V"): _simt_to_scratch,
}
"""What depends on the indices."""

BY_CALL: dict[Key, ByCall] = {
    ("mgather.l1.elem", "MTE2"): _scratch_to_l1,
    ("mgather.l1.elem.simt", "MTE2"): _scratch_to_l1,
    ("tload.vec", "MTE2"): _block("GM to UB GB/s", "MTE2"),
    ("tload.mat", "MTE2"): _block("GM to L1 GB/s", "MTE2"),
    ("tstore.vec", "MTE3"): _block("UB to GM GB/s", "MTE3"),
    ("tstore.acc", "FIX"): _block("L0C to GM GB/s", "FIX"),
    ("texpands.mat", "MTE2"): _filled,
    ("tci", "S"): _scalar(1),
    ("tscatter.row", "S"): _scalar(3),
    ("tscatter.flat", "S"): _scalar(3),
}
BY_PIPE: dict[str, ByCall] = {"V": _vector, "M": _cube, "MTE1": _copied, "MTE3": _copied, "FIX": _copied}
"""What has no line of its own: arithmetic, products, copies on the chip."""


def formula(route: str, unit: str) -> ByCall:
    """The formula for a pipe's part of a kernel that does not look at indices."""
    return BY_CALL.get((route, unit)) or BY_PIPE[unit]
