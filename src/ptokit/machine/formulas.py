"""How long pipes are busy with an instruction: formulas in tables by the kernel that runs (its route) and the pipe.

Some know a call once and for all, others look at how many lanes there are, inside and outside; what stands in neither
table is told by the pipe alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ptokit.engine.storage import region
from ptokit.isa.instruction import Call
from ptokit.isa.move import Access, Index, Move, Side, Unit
from ptokit.isa.operand import FRACTAL_ROWS, TensorSpec, TileSpec
from ptokit.machine.costs import WORD, Costs
from ptokit.machine.grains import CHUNK, LANES, chunks
from ptokit.machine.ways import bursts_of, transfers_of_a_row

REPEAT = 256
"""Bytes that a vector instruction takes at a time."""
UNROLLED = 4
"""Turns of a row kernel's inner loop that are under way at a time (MG-SIMT-26)."""
INSTRUCTIONS = 4
"""Of a warp for each of its accesses: read the index, form the address, load, store."""
POLICY_STEPS = {"undefined": 0, "clamp": 1, "wrap": 1, "zero": 1, "skip": 1}
"""Arithmetic for each index, by what happens outside the table (MG-COST-06)."""
MOST_CALLS = 4096
"""Calls that are remembered."""


class Tally(NamedTuple):
    """What the indices of an execution come to."""

    lanes: int = 0
    outside: int = 0
    transactions: int = 0
    """Segments of global memory that warps touch where the indices lead."""

    @property
    def inside(self) -> int:
        """Lanes that go somewhere."""
        return self.lanes - self.outside


class Overlap(NamedTuple):
    """Work that a pipe begins while the pipe that drives it is still at its own."""

    lead: float = 0.0
    """Cycles that it can begin before the other one has ended."""
    tail: float = 0.0
    """Cycles that it needs at least after that."""


NO_OVERLAP = Overlap()
ByCall = Callable[[Costs, Call], float]
ByLanes = Callable[[Costs, Call, Tally], float]
Key = tuple[str, str]
"""A route and a pipe."""


# --- what is known of a call


@lru_cache(maxsize=MOST_CALLS)
def _moves(call: Call) -> tuple[Move, ...]:
    """The moves of a call, without its computations."""
    return tuple(move for move in call.instruction.lower(call) if isinstance(move, Move))


def _indexed(call: Call) -> tuple[Move, Index]:
    """The move that an index steers."""
    return next((move, move.index) for move in _moves(call) if move.index is not None)


def _policy(costs: Costs, call: Call) -> float:
    """Cycles of a scalar loop to keep one index inside."""
    return POLICY_STEPS[call.oob.text] * costs["scalar step cycles"]


def _is_atomic(call: Call) -> bool:
    atomic = call.values.get("atomic")
    return atomic is not None and atomic.text != "none"


def _is_zeroing(call: Call) -> bool:
    return call.oob.text == "zero"


def _size(call: Call) -> int:
    return call.table.dtype.size


def _index_read(costs: Costs, call: Call) -> float:
    """Cycles of the scalar pipe to read an index: from UB, or from memory through the cache, a line at a time."""
    if isinstance(call.idx, TileSpec):
        return costs["scalar UB cycles"]
    return costs["scalar UB cycles"] + costs["GM latency cycles"] * call.idx.dtype.size / costs["cache line bytes"]


# --- rows, one transfer each


def _row_issue(costs: Costs, call: Call) -> float:
    """Cycles of the scalar loop for one row: read the index, keep it inside, issue."""
    issued = transfers_of_a_row(call, costs.profile) * costs["issue cycles"]
    return _index_read(costs, call) + _policy(costs, call) + issued


def _rows_by_scalar(costs: Costs, call: Call, tally: Tally) -> float:
    return tally.lanes * _row_issue(costs, call) + _zeroed(costs, call, tally.outside)


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
    return costs.transfer(bursts * CHUNK, "GM to UB GB/s", bursts)


def _rows_by_dma(unit: str) -> ByLanes:
    def rows(costs: Costs, call: Call, tally: Tally) -> float:
        one = BY_TRANSFER[call.route, unit](costs, call)
        if _waits_each_row(costs, call):
            one += costs["flag cycles"] * len(costs.profile.handshakes[call.route].each_row)
        transfers = tally.inside * transfers_of_a_row(call, costs.profile)  # none for a row outside the table
        return costs.queued(transfers, one, unit) + _cleared(costs, call)

    return rows


def _cleared(costs: Costs, call: Call) -> float:
    """A tile in L1 that is cleared first (MG-L1-11)."""
    is_cleared = call.route == "mgather.l1.row" and _is_zeroing(call)
    return call.dst.nbytes / costs["on-chip bytes/cycle"] if is_cleared else 0.0


def _waits_each_row(costs: Costs, call: Call) -> bool:
    """Whether the scalar loop waits for every transfer: a plain store does."""
    return bool(costs.profile.handshakes[call.route].each_row) and not _is_atomic(call)


# --- elements, one by one


def _gather_by_scalar(costs: Costs, call: Call, tally: Tally) -> float:
    """A read of GM and a write of UB for each lane (MG-COST-04); a lane outside only writes its zero."""
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    return tally.lanes * each + tally.inside * costs["GM latency cycles"]


def _gather_to_scratch(costs: Costs, call: Call, tally: Tally) -> float:
    """The scratch is cleared, filled lane by lane, and flushed from the cache (MG-L1-13, MG-L1-14)."""
    each = _index_read(costs, call) + _policy(costs, call)
    inside = tally.inside * (costs["GM latency cycles"] + costs["GM posted write cycles"])
    cleared = -(-call.dst.nbytes // WORD) * costs["GM posted write cycles"]
    return cleared + tally.lanes * each + inside + _flushed(costs, call)


def _flushed(costs: Costs, call: Call) -> float:
    return costs.lines(call.dst.nbytes) * costs["cache flush cycles"]


def _scatter_by_scalar(costs: Costs, call: Call, tally: Tally) -> float:
    """Two reads of UB and a write of GM for each lane; an atomic reads the cell first."""
    each = _index_read(costs, call) + _policy(costs, call) + costs["scalar UB cycles"]
    cell = costs["GM posted write cycles"]
    if _is_atomic(call):
        cell += costs["GM latency cycles"] + costs["scalar step cycles"]
    return tally.lanes * each + tally.inside * cell


# --- SIMT launches


def _simt(costs: Costs, call: Call, tally: Tally) -> float:
    """A launch: its start, its warps, then the slowest of issuing, transactions, and answers that a warp waits for."""
    move, index = _indexed(call)
    by_row = index.unit is Unit.ROW
    accesses = move.rows * -(-move.cols // LANES) if by_row else -(-move.rows * move.cols // LANES)
    atomics = tally.inside * (move.cols if by_row else 1) if _is_atomic(call) else 0
    is_read = index.side is Side.SRC
    launched = _launched(costs, call, move.shape, accesses, tally.transactions, is_read)
    return launched + atomics * costs["SIMT atomic cycles"]


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


def _simt_to_scratch(costs: Costs, call: Call, tally: Tally) -> float:
    """Every lane of the padded tile stores to the scratch, side by side; indices are read a block at a time; the table
    is read wherever they lead (MG-COST-10)."""
    rows, cols = _indexed(call)[0].shape
    stores = -(-call.dst.nbytes // costs.grains.segment)
    indices = rows * -(-cols // call.dst.dtype.c0)
    accesses = -(-call.dst.elements // LANES)
    grid = call.dst.rows, call.dst.cols
    transactions = tally.transactions + stores + indices
    return _launched(costs, call, grid, accesses, transactions, True) + _flushed(costs, call)


# --- blocks, copies, arithmetic


def _block(path: str, unit: str) -> ByCall:
    def block(costs: Costs, call: Call) -> float:
        move = next(move for move in _moves(call) if isinstance(move.src, Access))
        assert isinstance(move.src, Access)
        ends = {access.operand: region(access.layout, *move.shape) for access in (move.src, move.dst)}
        memory = next(name for name in ends if isinstance(call.operands[name], TensorSpec))
        tile = next(name for name in ends if isinstance(call.operands[name], TileSpec))
        moved = bursts_of(ends[memory], (call.operands[tile], ends[tile]), call.dst.dtype.size, True)
        return costs.queued(1, costs.transfer(moved.moved, path, max(1, moved.bursts)), unit)

    return block


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
    if tile.valid_cols == tile.cols and not tile.pitch:
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
    count = across * down * chunks(inner * call.a.dtype.size)
    return costs["cube start cycles"] + count * costs["cube block cycles"]


def _scalar(accesses: int) -> ByCall:
    """A loop over the elements, with so many accesses to UB each."""

    def loop(costs: Costs, call: Call) -> float:
        walked: TileSpec = call.values.get("src") or call.dst
        each = accesses * costs["scalar UB cycles"] + costs["scalar step cycles"]
        cleared = costs.zeroing(call.dst.nbytes) if call.route == "tscatter.flat" else 0.0
        return walked.valid_rows * walked.valid_cols * each + cleared

    return loop


SLOW = ("tdiv", "tdivs", "texp", "tlog", "tsqrt", "trecip", "trowexpanddiv", "tcolexpanddiv")
REDUCING = ("trowsum", "trowmax", "trowmin", "tcolsum", "tcolmax", "tcolmin")
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


def cycles(costs: Costs, call: Call, unit: str, tally: Tally) -> float:
    """How long a pipe is busy with its part of an instruction."""
    of_lanes = BY_LANES.get((call.route, unit))
    return of_lanes(costs, call, tally) if of_lanes else formula(call.route, unit)(costs, call)


def overlap(costs: Costs, call: Call, unit: str, tally: Tally) -> Overlap:
    """How far a pipe's part goes along with the one before: transfers queue up behind the scalar loop that issues them,
    unless it waits for each (MG-COST-02)."""
    key = call.route, unit
    if key not in BY_TRANSFER or not tally.inside or _waits_each_row(costs, call):
        return NO_OVERLAP
    last = costs.latency(unit) + BY_TRANSFER[key](costs, call)
    return Overlap((tally.inside - 1) * _row_issue(costs, call), last)
